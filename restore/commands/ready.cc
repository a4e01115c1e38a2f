// ready: whether a restore from this base is possible now, and for how much longer.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/quantity.h"
#include "base/shell.h"
#include "idmint/clock.h"
#include "restore/backup/base.h"
#include "restore/commands/commands.h"
#include "restore/commands/kept_report.h"
#include "restore/commands/options.h"
#include "restore/error_in.h"
#include "restore/keep/kept.h"
#include "restore/oplog/live.h"
#include "restore/oplog/retention.h"

namespace idmint::restore {
namespace {

struct ReadyOptions {
  std::string uri;
  std::string from;
  std::string behind = "5min";
  bool prometheus = false;
  std::string base;
  std::string base_at;
  std::string warn_below;
  bool not_sharded = false;
};

void add_ready(CLI::App& command, ReadyOptions& given) {
  add_value(command, "--uri", given.uri, "URI", "The replica set that the base is of");
  CLI::Option* const from = add_value(command, "--from", given.from, "DIR", "A folder of keep");
  add_value(command, "--behind", given.behind, "T",
            "With --from: fail also if its newest entry is older than this (5min)")
      ->needs(from);
  command
      .add_flag("--prometheus", given.prometheus,
                "With --from: print metrics, as Prometheus reads them")
      ->needs(from);
  add_value(command, "--base", given.base, "BASE",
            "Instead: a base backup, a folder or an archive, with its slice of the oplog")
      ->excludes(from);
  add_value(command, "--base-at", given.base_at, "S:O",
            "For a base without oplog.bson: when it was made, SECONDS:ORDINAL");
  add_value(command, "--warn-below", given.warn_below, "T",
            "Fail also if less time than this is left, such as 12h");
  add_not_sharded(command, given.not_sharded);
}

struct BaseEnd {
  Timestamp at{};
  std::vector<std::uint8_t> entry;  // empty: unknown
};

Result<BaseEnd> base_end(const ReadyOptions& given) {
  BaseEnd end;
  const Result<std::unique_ptr<BaseBackup>> base =
      open_base(given.base, {.not_sharded = given.not_sharded});
  if (!base) return error_in(base);
  if (!given.base_at.empty()) {
    if ((*base)->has_oplog())
      return fail(
          Code::kInvalidArgument,
          given.base + " has an oplog.bson, which tells when it was made: leave out --base-at");
    const Result<Timestamp> parsed = parse_timestamp(given.base_at);
    if (!parsed) return error_in(parsed);
    end.at = *parsed;
    return end;
  }
  if (!(*base)->has_oplog())
    return fail(Code::kNotFound, given.base +
                                     " has no oplog.bson: make the base with `dump`, or "
                                     "give --base-at if nothing was written meanwhile");
  const Result<void> read = (*base)->oplog([&](const Entry& entry) -> Result<void> {
    end.at = entry.at.ts;
    const std::span<const std::uint8_t> bytes = entry.document.bytes();
    end.entry.assign(bytes.begin(), bytes.end());
    return {};
  });
  if (!read) return error_in(read);
  return end;
}

// Checks that the oplog has the last entry of the base.
Result<void> reaches_back(Member& member, const OplogWindow& window, const BaseEnd& base) {
  if (base.at < window.first)
    return fail(Code::kOutOfRange,
                "the oplog of " + member.host() + " begins at " + print_timestamp(window.first) +
                    " (" + print_seconds(window.first) + "), after this base (" +
                    print_timestamp(base.at) +
                    "): it cannot be restored to a later moment but with a dump of the oplog; make "
                    "a new base now");
  const Result<Bson> found = oplog_entry_from(member, base.at);
  if (!found) return error_in(found);
  const Result<Entry> entry = found->get() != nullptr ? parse_entry(found->view()) : Entry{};
  if (!entry) return error_in(entry);
  if (entry->at.ts != base.at)
    return fail(Code::kFailedPrecondition,
                "the oplog of " + member.host() + " has no entry " + print_timestamp(base.at) +
                    ", with which this base ends: it is of another replica set, "
                    "or this member is behind");
  if (!base.entry.empty() && !std::ranges::equal(found->view().bytes(), base.entry))
    return fail(Code::kFailedPrecondition, "entry " + print_timestamp(base.at) + " of " +
                                               member.host() +
                                               " is another than that of this base: it "
                                               "is of another replica set");
  return {};
}

// ready --from, a folder of keep.
Result<void> run_ready_kept(Context& context, const ReadyOptions& given, double warn_below) {
  const Result<std::chrono::nanoseconds> behind = parse_duration(given.behind);
  if (!behind) return error_in(behind);
  Result<Kept> kept = read_kept(given.from);
  if (!kept) return error_in(kept);
  KeptReport report{.kept = *std::move(kept)};
  const std::vector<KeptSlice>& slices = report.kept.slices;
  const Timestamp newest = slices.empty() ? Timestamp{} : slices.back().last;
  const auto now = std::chrono::floor<std::chrono::seconds>(system_clock().now());
  report.behind = std::max(0.0, static_cast<double>(now.time_since_epoch().count()) -
                                    static_cast<double>(newest.seconds));
  std::optional<Error> rolled_over;
  if (!given.uri.empty()) {
    Result<Member> member = connect_to_oplog(given.uri, to_read(given.not_sharded));
    if (!member) return error_in(member);
    const Result<OplogWindow> window = oplog_window(*member);
    if (!window) return error_in(window);
    if (newest < window->first) {
      rolled_over =
          Error{Code::kOutOfRange, "the oplog of " + member->host() + " begins at " +
                                       print_seconds(window->first) +
                                       ", after the newest entry of " + shell_word(given.from) +
                                       ": keep makes a new base as soon as it runs"};
    } else {
      const Result<OplogRetention> room = oplog_retention(*member, *window);
      if (!room) return error_in(room);
      report.left = seconds_left(*room, *window, newest);
    }
  }
  if (given.prometheus) {
    context.out.write(metrics_of(report));
  } else if (context.json) {
    write_json(context, json_of(report));
  } else {
    print_kept(context.out, report);
  }
  if (rolled_over) return std::unexpected(*std::move(rolled_over));
  if (!report.is_ready())
    return fail(Code::kOutOfRange, "the newest entry of " + shell_word(given.from) +
                                       " cannot be restored: " + report.kept.in_words() +
                                       "; keep makes a new base at once: does it run?");
  const double allowed = std::chrono::duration<double>(*behind).count();
  if (report.behind > allowed)
    return fail(Code::kResourceExhausted, shell_word(given.from) + " is " +
                                              print_duration(report.behind) +
                                              " behind: does keep run?");
  if (report.left && *report.left < warn_below)
    return fail(Code::kResourceExhausted,
                "in " + print_duration(*report.left) +
                    " the oplog will have rolled over what comes next: does keep run?");
  return {};
}

Result<void> run_ready(Context& context, const ReadyOptions& given) {
  double warn_below = 0;  // seconds
  if (!given.warn_below.empty()) {
    const Result<std::chrono::nanoseconds> parsed = parse_duration(given.warn_below);
    if (!parsed) return error_in(parsed);
    warn_below = std::chrono::duration<double>(*parsed).count();
  }
  if (!given.from.empty()) return run_ready_kept(context, given, warn_below);
  if (given.uri.empty() || given.base.empty())
    return refuse("give --from DIR, a folder of keep, or --uri URI and --base BASE");
  const Result<BaseEnd> base = base_end(given);
  if (!base) return error_in(base);
  Result<Member> member = connect_to_oplog(given.uri, to_read(given.not_sharded));
  if (!member) return error_in(member);
  const Result<OplogWindow> window = oplog_window(*member);
  if (!window) return error_in(window);
  const Result<void> reaches = reaches_back(*member, *window, *base);
  std::optional<OplogRetention> room;
  double left = 0;
  if (reaches) {
    Result<OplogRetention> asked = oplog_retention(*member, *window);
    if (!asked) return error_in(asked);
    room = *asked;
    left = seconds_left(*room, *window, base->at);
  }

  const auto moment = [](Timestamp at) { return print_timestamp(at) + "   " + print_seconds(at); };
  if (context.json) {
    nlohmann::ordered_json json = {{"base", given.base},
                                   {"base_end", print_timestamp(base->at)},
                                   {"oplog_first", print_timestamp(window->first)},
                                   {"oplog_last", print_timestamp(window->last)},
                                   {"reaches_back", reaches.has_value()}};
    if (room) {
      json["bytes_per_second"] = std::round(room->bytes_per_second);
      json["hours_left"] =
          std::isfinite(left) ? nlohmann::ordered_json(std::round(left / 36) / 100) : nullptr;
    }
    context.out.write(json.dump() + "\n");
  } else {
    print_fact(context.out, "base ends", moment(base->at));
    print_fact(context.out, "oplog begins", moment(window->first));
    print_fact(context.out, "and ends", moment(window->last));
    if (room)
      print_fact(context.out, "time left",
                 print_duration(left) + ", while " +
                     print_count(std::round(room->bytes_per_second)) +
                     " bytes of oplog are written a second");
  }
  if (!reaches) return reaches;
  if (left < warn_below)
    return fail(
        Code::kResourceExhausted,
        "in " + print_duration(left) +
            " the oplog will have rolled over the end of this base: make a new base, dump the "
            "oplog with `oplog --follow`, or make the oplog larger");
  return {};
}

}  // namespace

const Command kReady = {
    "ready", "Say what can be restored from a backup",
    with_options<ReadyOptions, add_ready, run_ready>,
    R"(Exit status for monitoring: 0, the oplog reaches back to the base; 6, it no
longer does; 8, it does, but for less time than --warn-below; 5, the base is of
another replica set. With --from: 0, the newest entry can be restored; 6, it
cannot; 8, it is older than --behind. Where entries are missing, it is 6 until
there is a base behind them, and they are named under missing.

Examples:
  $ idmint-restore ready --from /backup/rs0
  $ idmint-restore ready --from /backup/rs0 --prometheus > /var/lib/node_exporter/restore.prom
  $ idmint-restore ready --uri mongodb://db1,db2,db3/?replicaSet=rs0 --base /backup/monday --warn-below 12h
)"};

}  // namespace idmint::restore
