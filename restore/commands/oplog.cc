// oplog: dumps the oplog of a running member, once or continuously.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/quantity.h"
#include "restore/backup/base.h"
#include "restore/commands/commands.h"
#include "restore/commands/on_terminal.h"
#include "restore/commands/options.h"
#include "restore/error_in.h"
#include "restore/oplog/dump.h"
#include "restore/oplog/entry.h"
#include "restore/oplog/follow.h"
#include "terminal/stop.h"

namespace idmint::restore {
namespace {

struct OplogOptions {
  std::string uri;
  std::string since;
  std::string base;
  std::string out;
  bool follow = false;
  bool not_sharded = false;
};

void add_oplog(CLI::App& command, OplogOptions& given) {
  add_value(command, "--uri", given.uri, "URI", "Where the oplog is: any member of a replica set")
      ->required();
  CLI::Option* const since =
      add_value(command, "--since", given.since, "WHEN",
                "First entry, SECONDS:ORDINAL or a time (default: the oldest)");
  add_value(command, "--base", given.base, "BASE",
            "Instead: from the first entry that this base backup has, as a restore from it "
            "needs")
      ->excludes(since);
  add_value(command, "--out", given.out, "FILE",
            "File to write, or to continue after its last entry")
      ->required();
  command.add_flag("--follow", given.follow, "Go on with later entries, until a signal");
  add_not_sharded(command, given.not_sharded);
}

// nullopt: the oldest entry.
Result<std::optional<OplogBegin>> begin_given(const OplogOptions& given) {
  if (!given.since.empty()) {
    const Result<Timestamp> parsed = parse_moment(given.since);
    if (!parsed) return error_in(parsed);
    return OplogBegin{.at = *parsed};
  }
  if (given.base.empty()) return std::nullopt;
  const Result<std::unique_ptr<BaseBackup>> base =
      open_base(given.base, {.not_sharded = given.not_sharded});
  if (!base) return error_in(base);
  if (!(*base)->has_oplog())
    return fail(Code::kNotFound, given.base +
                                     " has no oplog.bson, which says where it begins: "
                                     "give --since, or neither for all of the oplog");
  std::optional<OplogBegin> first;
  const Result<void> read = (*base)->oplog([&](const Entry& entry) -> Result<void> {
    if (first) return {};
    const std::span<const std::uint8_t> bytes = entry.document.bytes();
    first = {.at = entry.at.ts, .entry = {bytes.begin(), bytes.end()}, .base = given.base};
    return {};
  });
  if (!read) return error_in(read);
  return first;
}

Result<void> run_oplog(Context& context, const OplogOptions& given) {
  Result<std::optional<OplogBegin>> begin = begin_given(given);
  if (!begin) return error_in(begin);
  Result<OplogDump> dump = OplogDump::open(given.out);
  if (!dump) return error_in(dump);
  const std::int64_t before = dump->synced_entries();
  OnTerminal watch(context);
  Result<void> done = follow_oplog({.uri = given.uri,
                                    .connect = to_read(given.not_sharded),
                                    .follow = given.follow,
                                    .begin = *std::move(begin)},
                                   *dump, watch);
  watch.end();
  context.stopped_by = stop_signal();
  const std::int64_t added = dump->synced_entries() - before;
  if (!done && done.error().code == Code::kOutOfRange)  // it has rolled over what was wanted
    add_outcome(done.error(), "take a new base, and dump the oplog from there");
  if (!dump->first() || !dump->synced()) return done;
  const std::string first = print_timestamp(dump->first().value_or(Timestamp{}));
  const std::string last = print_timestamp(dump->synced().value_or(Timestamp{}));
  if (context.json) {
    context.out.write(
        nlohmann::ordered_json(
            {{"oplog", given.out}, {"added", added}, {"first", first}, {"last", last}})
            .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
        "\n");
  } else {
    context.out.write(given.out + ": " + print_count(static_cast<double>(added)) +
                      (added == 1 ? " entry" : " entries") + " added; it goes from " + first +
                      " to " + last + " (" + print_seconds(dump->synced().value_or(Timestamp{})) +
                      ")\n");
  }
  return done;
}

}  // namespace

const Command kOplogCopy = {
    "oplog", "Dump the oplog of a running replica set",
    with_options<OplogOptions, add_oplog, run_oplog>,
    R"(Started again with the same file, it goes on after the last whole entry there,
and refuses if the oplog lacks the next entry. It reads what a majority has, so
that nothing in the dump is rolled back later.

Examples:
  $ idmint-restore oplog --uri mongodb://db1,db2,db3/?replicaSet=rs0 --out oplog.bson
  $ idmint-restore oplog --uri mongodb://db1,db2,db3/?replicaSet=rs0 --base base --out oplog.bson
  $ idmint-restore oplog --uri mongodb://db2/?directConnection=true --since 1795230181:16 --out oplog.bson --follow
)"};

}  // namespace idmint::restore
