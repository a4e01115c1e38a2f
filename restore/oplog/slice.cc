#include "restore/oplog/slice.h"

#include <array>
#include <string>
#include <string_view>

#include "base/errors.h"
#include "restore/oplog/transactions.h"

namespace idmint::restore {
namespace {

struct Hazard {
  std::string_view command;
  const char* what;
};
constexpr std::array kHazards = {
    Hazard{"importCollection", "a collection was imported"},
    Hazard{"upgradeDowngradeViewlessTimeseries", "time-series collections changed their form"},
};

// An operation of the entry `at`. `listed`: as SliceCheck has it.
Result<void> check(const Operation& operation, Timestamp at, Timestamp listed) {
  const auto again = [&](const std::string& what) {
    return fail(Code::kUnavailable,
                what + " while the backup was made (" + std::string(operation.ns) + ", entry " +
                    print_timestamp(at) +
                    "), which no replay sets right: make the backup again, at a "
                    "time when that does not happen");
  };
  if (operation.ns == "admin.system.version")
    return again("the feature compatibility version was changed, or the set was made a shard,");
  if (operation.op != Op::kCommand) return {};
  if (operation.command() == "renameCollection" && at <= listed)
    return again("a collection was renamed, by a command, $out, mapReduce or convertToCapped");
  for (const Hazard& row : kHazards)
    if (operation.command() == row.command) return again(row.what);
  return {};
}

}  // namespace

Result<void> SliceCheck::add(const Entry& entry) {
  if (first_ == Timestamp{}) first_ = entry.at.ts;
  const Timestamp at = entry.at.ts;
  const Timestamp listed = at == first_ ? Timestamp{} : listed_;
  Result<void> good = check(entry.operation, at, listed);
  if (!good || entry.operation.op != Op::kCommand) return good;
  good = for_each_operation(
      entry, [&](const Operation& each, std::uint32_t) { return check(each, at, listed); });
  if (!good) return good;
  if (entry.in_transaction() && entry.previous && entry.previous->ts != Timestamp{} &&
      entry.previous->ts < first_)
    missing_.insert(entry.previous->ts);
  return {};
}

}  // namespace idmint::restore
