// oplog: dumps the oplog of a running member, once or continuously.
#include <poll.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/quantity.h"
#include "restore/backup/base.h"
#include "restore/commands/commands.h"
#include "restore/commands/options.h"
#include "restore/oplog/dump.h"
#include "restore/oplog/entry.h"
#include "restore/oplog/live.h"
#include "terminal/progress.h"
#include "terminal/stop.h"

namespace idmint::restore {
namespace {

using namespace std::chrono_literals;
using Ticks = std::chrono::steady_clock;

constexpr auto kReconnects = 2min;  // the longest time without an answering member
constexpr int kRestBetween = 500;   // milliseconds before the next attempt
constexpr auto kBetweenSyncs = 1s;

struct OplogOptions {
  std::string uri;
  std::string since;
  std::string base;
  std::string out;
  bool follow = false;
  bool not_sharded = false;
} oplog_options;

void add_oplog(CLI::App& command) {
  command.add_option("--uri", oplog_options.uri, "Where the oplog is: any member of a replica set")
      ->type_name("URI")
      ->required();
  CLI::Option* const since =
      command
          .add_option("--since", oplog_options.since,
                      "First entry, SECONDS:ORDINAL or a time (default: the oldest)")
          ->type_name("WHEN");
  command
      .add_option("--base", oplog_options.base,
                  "Instead: from the first entry that this base backup has, as a restore from it "
                  "needs")
      ->type_name("BASE")
      ->excludes(since);
  command
      .add_option("--out", oplog_options.out, "File to write, or to continue after its last entry")
      ->type_name("FILE")
      ->required();
  command.add_flag("--follow", oplog_options.follow, "Go on with later entries, until a signal");
  add_not_sharded(command, oplog_options.not_sharded);
}

std::unexpected<Error> rolled_over(const Member& member, Timestamp wanted, Timestamp oldest) {
  return std::unexpected(Error{
      Code::kOutOfRange, "the oplog of " + member.host() + " begins at " + print_timestamp(oldest) +
                             " (" + print_seconds(oldest) +
                             ") and has rolled over what came from " + print_timestamp(wanted) +
                             " on: take a new base, and dump the oplog from there"});
}

// The beginning of the dump.
struct Begin {
  Timestamp at{};
  std::vector<std::uint8_t> entry{};  // with a base: the entry that must be there; else empty
};

// nullopt: the oldest entry.
Result<std::optional<Begin>> begin_given() {
  if (!oplog_options.since.empty()) {
    const Result<Timestamp> parsed = parse_moment(oplog_options.since);
    if (!parsed) return std::unexpected(parsed.error());
    return Begin{.at = *parsed};
  }
  if (oplog_options.base.empty()) return std::nullopt;
  const Result<std::unique_ptr<BaseBackup>> base =
      open_base(oplog_options.base, {.not_sharded = oplog_options.not_sharded});
  if (!base) return std::unexpected(base.error());
  if (!(*base)->has_oplog())
    return std::unexpected(Error{
        Code::kNotFound, oplog_options.base + " has no oplog.bson, which says where it begins: "
                                              "give --since, or neither for all of the oplog"});
  std::optional<Begin> first;
  const Result<void> read = (*base)->oplog([&](const Entry& entry) -> Result<void> {
    if (first) return {};
    const std::span<const std::uint8_t> bytes = entry.document.bytes();
    first = {.at = entry.at.ts, .entry = {bytes.begin(), bytes.end()}};
    return {};
  });
  if (!read) return std::unexpected(read.error());
  return first;
}

// Checks with the first entry read that no entry before it is missing.
Result<void> overlaps(Member& member, const OplogDump& dump, const Begin& wanted, Timestamp begin,
                      const Entry& entry) {
  const std::span<const std::uint8_t> bytes = entry.document.bytes();
  if (dump.last()) {
    if (std::ranges::equal(bytes, dump.last_entry())) return {};
    if (entry.at.ts == begin)
      return std::unexpected(Error{Code::kFailedPrecondition,
                                   "entry " + print_timestamp(begin) + " of " + member.host() +
                                       " is another than that of " + dump.path() +
                                       ": it is of another replica set; name another file"});
    return rolled_over(member, begin, entry.at.ts);
  }
  const std::unexpected<Error> foreign(Error{
      Code::kFailedPrecondition, "the oplog of " + member.host() + " has not the entry " +
                                     print_timestamp(begin) + " with which " + oplog_options.base +
                                     " begins: that is of another replica set"});
  if (entry.at.ts == begin && !wanted.entry.empty() && !std::ranges::equal(bytes, wanted.entry))
    return foreign;
  if (wanted.at == Timestamp{} || entry.at.ts == begin) return {};
  // Asked after the read, so it shows whether entries from `begin` on were overwritten meanwhile.
  const Result<OplogWindow> window = oplog_window(member);
  if (!window) return std::unexpected(window.error());
  if (window->first > begin) return rolled_over(member, begin, window->first);
  return wanted.entry.empty() ? Result<void>{} : foreign;
}

class Dumping {
 public:
  Dumping(Context& context, OplogDump& dump, std::optional<Begin> begin)
      : context_(context), dump_(dump), begin_(std::move(begin)) {}

  // Reads over one connection until the end, a signal or a failure.
  Result<void> go_on() {
    Result<Member> member = connect_to_oplog(oplog_options.uri, to_read(oplog_options.not_sharded));
    if (!member) return std::unexpected(std::move(member.error()));
    const Result<OplogWindow> window = oplog_window(*member);
    if (!window) return std::unexpected(window.error());
    const bool goes_on = dump_.last().has_value();
    const Timestamp begin = dump_.last().value_or(begin_ ? begin_->at : window->first);
    if (begin < window->first) return rolled_over(*member, begin, window->first);
    if (begin > window->last)
      return std::unexpected(Error{goes_on ? Code::kUnavailable : Code::kOutOfRange,
                                   "the oplog of " + member->host() + " ends at " +
                                       print_timestamp(window->last) + ", before " +
                                       print_timestamp(begin) +
                                       (goes_on ? ": this member is behind; ask another, or later"
                                                : ": nothing was written from then on")});
    if (Result<void> has = has_all_since(*member); !has) return has;
    OplogSpan span{.from = begin};
    if (!oplog_options.follow) span.to = window->last;
    LiveOplog oplog(*member, span, oplog_options.follow);
    Progress progress(oplog_options.follow ? "entries" : "s of oplog",
                      oplog_options.follow ? std::nullopt
                                           : std::optional(std::int64_t{span.to.seconds} -
                                                           std::int64_t{begin.seconds}),
                      Results::kAtEnd);
    bool proven = false;
    while (!stopped()) {
      const Result<std::optional<Document>> next = oplog.next();
      if (!next) return std::unexpected(next.error());
      const std::optional<Document>& document = *next;
      const auto now = Ticks::now();
      alive_ = now;
      if (!document || now - synced_ > kBetweenSyncs) {
        if (Result<void> synced = sync(); !synced) return synced;
        synced_ = now;
      }
      if (!document) {
        if (oplog_options.follow) continue;
        break;
      }
      const Result<Entry> entry = parse_entry(*document);
      if (!entry) return std::unexpected(entry.error());
      if (!proven) {
        if (Result<void> good = overlaps(*member, dump_, begin_.value_or(Begin{}), begin, *entry);
            !good)
          return good;
        proven = true;
        if (goes_on) continue;
      }
      if (Result<void> added = dump_.append(entry->at.ts, *document); !added) return added;
      ++added_;
      progress.show(oplog_options.follow
                        ? static_cast<std::int64_t>(added_)
                        : std::int64_t{entry->at.ts.seconds} - std::int64_t{begin.seconds});
    }
    if (context_.stopped_by == 0 && (!proven || dump_.last() < span.to))
      return std::unexpected(
          Error{Code::kUnavailable, "the oplog of " + member->host() + " ended before " +
                                        print_timestamp(span.to) +
                                        ", which it had before: this member is behind; try again"});
    return {};
  }

  Result<void> run() {
    for (;;) {
      Result<void> done = go_on();
      if (Result<void> synced = sync(); !synced) return synced;
      if (stopped()) return dump_.seal();
      if (done) {
        if (Result<void> sealed = dump_.seal(); !sealed) return sealed;
      }
      if (done || !oplog_options.follow || done.error().code != Code::kUnavailable ||
          Ticks::now() - alive_ > kReconnects)
        return done;
      report_notice(done.error().message + "; trying again", context_.json);
      ::poll(nullptr, 0, kRestBetween);
      if (stopped()) return dump_.seal();
    }
  }

  // The number of entries added that are on disk.
  [[nodiscard]] std::uint64_t added() const { return kept_; }

 private:
  Result<void> sync() {
    Result<void> synced = dump_.sync();
    if (synced) kept_ = added_;
    return synced;
  }
  bool stopped() {
    context_.stopped_by = stop_signal();
    return context_.stopped_by != 0;
  }
  // Checks that an existing dump begins with the first requested entry.
  Result<void> has_all_since(Member& member) {
    const Timestamp first = dump_.first().value_or(Timestamp{});
    const Timestamp since = begin_ ? begin_->at : first;
    if (first <= since) return {};
    const Result<Bson> found = oplog_entry_from(member, since);
    if (!found) return std::unexpected(found.error());
    if (found->get() == nullptr) return {};
    const Result<Entry> entry = parse_entry(found->view());
    if (!entry) return std::unexpected(entry.error());
    if (entry->at.ts >= first) return {};
    return std::unexpected(Error{Code::kFailedPrecondition,
                                 dump_.path() + " begins at " + print_timestamp(first) +
                                     ", and the oplog has entries from " + print_timestamp(since) +
                                     " up to that, which are asked for: name another file"});
  }

  Context& context_;
  OplogDump& dump_;
  const std::optional<Begin> begin_;
  std::uint64_t added_ = 0;
  std::uint64_t kept_ = 0;
  Ticks::time_point alive_ = Ticks::now();
  Ticks::time_point synced_ = Ticks::now();
};

Result<void> run_oplog(Context& context) {
  Result<std::optional<Begin>> begin = begin_given();
  if (!begin) return std::unexpected(std::move(begin.error()));
  Result<OplogDump> dump = OplogDump::open(oplog_options.out);
  if (!dump) return std::unexpected(std::move(dump.error()));
  Dumping dumping(context, *dump, *std::move(begin));
  Result<void> done = dumping.run();
  if (!dump->first() || !dump->synced()) return done;
  const std::string first = print_timestamp(dump->first().value_or(Timestamp{}));
  const std::string last = print_timestamp(dump->synced().value_or(Timestamp{}));
  if (context.json) {
    context.out.write(nlohmann::ordered_json({{"oplog", oplog_options.out},
                                              {"added", dumping.added()},
                                              {"first", first},
                                              {"last", last}})
                          .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                      "\n");
  } else {
    context.out.write(oplog_options.out + ": " + print_count(static_cast<double>(dumping.added())) +
                      (dumping.added() == 1 ? " entry" : " entries") + " added; it goes from " +
                      first + " to " + last + " (" +
                      print_seconds(dump->synced().value_or(Timestamp{})) + ")\n");
  }
  return done;
}

}  // namespace

const Command kOplogCopy = {
    "oplog", "Dump the oplog of a running replica set", add_oplog, run_oplog,
    R"(Started again with the same file, it goes on after the last whole entry there,
and refuses if the oplog lacks the next entry. It reads what a majority has, so
that nothing in the dump is rolled back later.

Examples:
  $ idmint-restore oplog --uri mongodb://db1,db2,db3/?replicaSet=rs0 --out oplog.bson
  $ idmint-restore oplog --uri mongodb://db1,db2,db3/?replicaSet=rs0 --base base --out oplog.bson
  $ idmint-restore oplog --uri mongodb://db2/?directConnection=true --since 1795230181:16 --out oplog.bson --follow
)"};

}  // namespace idmint::restore
