#include "restore/oplog/sharding.h"

#include <algorithm>
#include <array>

#include "base/figures.h"
#include "restore/oplog/command.h"
#include "restore/oplog/transactions.h"

namespace idmint::restore {
namespace {

// Prefixes of collections in config that only shards and config servers have.
constexpr std::array<std::string_view, 8> kBooks = {"config.cache.",
                                                    "config.chunks",
                                                    "config.migrationCoordinators",
                                                    "config.mongos",
                                                    "config.rangeDeletions",
                                                    "config.migrationRecipients",
                                                    "config.shards",
                                                    "config.localReshardingOperations"};

// First fields of o2 in a shard's no-ops; older versions have these as values of its field `type`.
constexpr std::array<std::string_view, 6> kNotices = {
    "migrateChunkToNewShard", "migrateLastChunkFromShard", "reshardBegin",
    "reshardCollection",      "refineCollectionShardKey",  "shardCollection"};

bool is_notice(std::string_view name) {
  return std::ranges::find(kNotices, name) != kNotices.end();
}

// The kind of trace, in words; empty: any server may write it.
std::string trace_of(const Operation& operation) {
  if (operation.op == Op::kNoop) {
    if (!operation.o2) return {};
    if (is_notice(operation.o2.first_key())) return std::string(operation.o2.first_key());
    const std::string_view type = operation.o2.text("type");
    return is_notice(type) ? std::string(type) : std::string();
  }
  if (operation.ns == "admin.system.version") {
    const Document key = operation.op == Op::kUpdate ? operation.o2 : operation.o;
    return key.text("_id") == "shardIdentity" ? "a shard's identity" : "";
  }
  if (!operation.ns.starts_with("config.")) return {};
  const auto* const books = std::ranges::find_if(
      kBooks, [&](std::string_view name) { return operation.ns.starts_with(name); });
  return books == kBooks.end() ? std::string() : std::string(operation.ns);
}

}  // namespace

void ShardTraces::add(const Operation& operation, Timestamp at) {
  if (std::string trace = trace_of(operation); !trace.empty()) {
    Trace& known = traces_[std::move(trace)];
    if (known.entries++ == 0) known.first = at;
  }
  if (operation.op == Op::kCommand && operation.command() == "create" &&
      operation.o.truthy("capped"))
    capped_.insert(namespace_of(operation));
  if (operation.from_migrate && !capped_.contains(operation.ns) &&
      !operation.collection().contains(".convertToCapped."))
    ++migrated_;
}

void ShardTraces::add(const Entry& entry) {
  const Operation& operation = entry.operation;
  if (operation.op != Op::kCommand || operation.command() != "applyOps") {
    add(operation, entry.at.ts);
    return;
  }
  // Other code reports a damaged one.
  [[maybe_unused]] const Result<void> sound =
      for_each_operation(entry, [&](const Operation& each, std::uint32_t) {
        add(each, entry.at.ts);
        return Result<void>{};
      });
}

std::string ShardTraces::in_words() const {
  std::string words;
  for (const auto& [what, trace] : traces_) {
    if (!words.empty()) words += ", ";
    words += print_count(trace.entries, "entry", "entries") + " of " + what + " from " +
             print_timestamp(trace.first) + " on";
  }
  return words;
}

std::string of_sharded_cluster(const std::string& name, const ShardTraces& traces) {
  return name + " is of a sharded cluster: it has " + traces.in_words() +
         ". One oplog does not restore a cluster, as chunks move between its shards: use a backup "
         "that covers all of it. Where you know that the set is no shard, add --not-sharded";
}

}  // namespace idmint::restore
