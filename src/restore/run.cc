// run: the base backup, and what the oplog says up to the limit, on a spare server.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/shell.h"
#include "base/url.h"
#include "idmint/clock.h"
#include "restore/base_backup.h"
#include "restore/commands.h"
#include "restore/exit_status.h"
#include "restore/expectation.h"
#include "restore/index_catalog.h"
#include "restore/load.h"
#include "restore/minted.h"
#include "restore/namespace_filter.h"
#include "restore/oplog_check.h"
#include "restore/preflight.h"
#include "restore/record.h"
#include "restore/replay.h"
#include "restore/server.h"
#include "restore/spare.h"
#include "restore/state.h"
#include "terminal/confirm.h"
#include "terminal/progress.h"
#include "terminal/quantity.h"
#include "terminal/stop.h"

namespace idmint::restore {
namespace {

using Json = nlohmann::ordered_json;

struct Given {
  std::string base;
  std::string data_copy;
  std::string oplog;
  std::string limit;
  std::string before;
  std::string target;
  std::string spare;
  std::string mongod;
  std::string base_at;
  std::vector<std::string> skip;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  unsigned writers = 4;
  bool force_skip = false;
  bool allow_replica_set = false;
  bool stop_spare = false;
  bool dry_run = false;
  bool yes = false;
} given;

void add(CLI::App& command) {
  CLI::Option* const base =
      command.add_option("--base", given.base, "Base backup: a folder or an archive")
          ->type_name("BASE");
  CLI::Option* const copy =
      command
          .add_option("--data-copy", given.data_copy,
                      "Instead: a copy of a member's data folder, which becomes the spare")
          ->type_name("DIR");
  base->excludes(copy);
  command.add_option("--oplog", given.oplog, "Oplog dump: the file, or the folder it is in")
      ->type_name("OPLOG")
      ->required();
  CLI::Option* const limit =
      command
          .add_option("--limit", given.limit,
                      "First entry that is not applied, SECONDS:ORDINAL, as find prints it")
          ->type_name("S:O");
  command.add_option("--before", given.before, "Instead: what was written before this time")
      ->type_name("TIME")
      ->excludes(limit);
  CLI::Option* const target =
      command.add_option("--target", given.target, "Empty server to restore to")->type_name("URI");
  command.add_option("--spare", given.spare, "Instead: start a mongod on this new folder")
      ->type_name("DIR")
      ->excludes(target)
      ->excludes(copy);
  copy->excludes(target);
  command.add_option("--mongod", given.mongod, "The mongod to start (default: that on the PATH)")
      ->type_name("PATH")
      ->excludes(target);
  command
      .add_option("--base-at", given.base_at,
                  "Moment of a base without oplog.bson, SECONDS:ORDINAL")
      ->type_name("S:O")
      ->needs(base);
  command
      .add_option("--include", given.include,
                  "Restore these alone: DATABASE, DATABASE.COLLECTION, with * for any text")
      ->type_name("NS");
  command.add_option("--exclude", given.exclude, "Restore all but these")->type_name("NS");
  command.add_option("--skip", given.skip, "Leave this entry out, SECONDS:ORDINAL")
      ->type_name("S:O");
  command.add_flag("--force-skip", given.force_skip, "... though later entries build on it");
  command.add_option("--writers", given.writers, "Connections that write at once, 1 to 64 (4)")
      ->type_name("N")
      ->check(CLI::Range(1, 64).description(""));
  command.add_flag("--allow-replica-set", given.allow_replica_set,
                   "The target may be a member of a replica set");
  command.add_flag("--stop", given.stop_spare, "End the spare at the end, its folder complete");
  command.add_flag("--dry-run", given.dry_run, "Check everything, and say what would be done");
  command.add_flag("--yes", given.yes, "Do not ask");
}

std::unexpected<Error> refuse(Code code, std::string message) {
  return std::unexpected(Error{code, std::move(message)});
}

using Names = std::set<std::string, std::less<>>;

// What is to be done, all of it checked.
struct Plan {
  std::unique_ptr<BaseBackup> base;  // null: a data copy
  bool sliced = false;
  std::optional<Timestamp> after{};
  Timestamp limit{};
  NamespaceFilter filter{};
  std::set<Timestamp> skip{};
  std::optional<Names> collections{};    // that are there at first; nothing: not known
  std::vector<std::string> temporary{};  // of them
  OplogFacts slice{};
  OplogFacts oplog{};
  OwnDocument fingerprint{};
};

struct Outcome {
  std::string target;
  bool resumed = false;
  std::optional<Spare> spare{};
  bool spare_ended = false;
  std::uint64_t documents = 0;  // of the base
  ReplayCounts slice{};
  ReplayCounts oplog{};
  std::size_t indexes = 0;
  MintedReport minted{};
  std::vector<std::string> notes{};
};

std::int64_t megabytes(std::uint64_t bytes) { return static_cast<std::int64_t>(bytes >> 20); }

// For those that ask whether to go on.
std::function<bool(std::uint64_t)> shown_by(Progress& progress, bool in_megabytes) {
  return [&progress, in_megabytes](std::uint64_t done) {
    progress.show(in_megabytes ? megabytes(done) : static_cast<std::int64_t>(done));
    return stop_signal() == 0;
  };
}

Result<void> unless_stopped() {
  if (stop_signal() == 0) return {};
  return refuse(Code::kUnavailable, "stopped by a signal");
}

Result<std::optional<Timestamp>> timestamp_given(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const Result<Timestamp> parsed = parse_timestamp(text);
  if (!parsed) return std::unexpected(parsed.error());
  return *parsed;
}

Result<Timestamp> limit_given() {
  if (given.limit.empty() == given.before.empty())
    return refuse(Code::kInvalidArgument,
                  "give --limit SECONDS:ORDINAL, the first entry that is not to be applied: "
                  "idmint-restore find looks for it; or --before TIME");
  if (!given.limit.empty()) return parse_timestamp(given.limit);
  const Result<Instant> time = parse_time(given.before);
  if (!time) return std::unexpected(time.error());
  const auto since = time->time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  if (seconds != since || seconds.count() <= 0 || seconds.count() > UINT32_MAX)
    return refuse(Code::kInvalidArgument,
                  "--before " + shell_word(given.before) +
                      " must be a whole second since 1970, as entries have no more: within a "
                      "second give --limit SECONDS:ORDINAL");
  return Timestamp{.seconds = static_cast<std::uint32_t>(seconds.count())};
}

// Which base it is, whatever its path.
Result<std::string> identity_of(const BaseBackup& base) {
  std::string text = base.server_version();
  for (const CollectionFacts& each : base.collections()) {
    for (const std::string& part :
         {each.database, each.name, each.uuid, std::to_string(each.bytes)})
      text += part + '\0';
  }
  const Result<DigestBytes> digest =
      digest_of(Digest::kSha256, {std::as_bytes(std::span(text.data(), text.size()))});
  if (!digest) return std::unexpected(digest.error());
  std::string hex;
  for (std::size_t i = 0; i < 16; ++i) {
    constexpr std::string_view digits = "0123456789abcdef";
    hex += digits[(*digest)[i] >> 4];
    hex += digits[(*digest)[i] & 15];
  }
  return hex;
}

// REQUIRES: the base was checked, or the copy recovered, which is before anything is restored.
Timestamp after(const Plan& plan) {
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): see REQUIRES
  return *plan.after;
}

Result<OwnDocument> fingerprint_of(const Plan& plan) {
  std::string base = "data copy";
  if (plan.base) {
    Result<std::string> identity = identity_of(*plan.base);
    if (!identity) return std::unexpected(std::move(identity.error()));
    base = std::move(*identity);
  }
  // Without how many write, and what follows the limit: a file may grow between two runs.
  std::string skipped;
  for (const Timestamp at : plan.skip) skipped += print_timestamp(at) + " ";
  const auto& replayed = plan.oplog.before_limit;
  return own(BCON_NEW("base", BCON_UTF8(base.c_str()), "after",
                      BCON_UTF8(print_timestamp(after(plan)).c_str()), "oplog", "{", "first",
                      BCON_UTF8(print_timestamp(plan.oplog.first).c_str()), "last",
                      BCON_UTF8(print_timestamp(replayed.last).c_str()), "entries",
                      BCON_INT64(static_cast<std::int64_t>(replayed.entries)), "bytes",
                      BCON_INT64(static_cast<std::int64_t>(replayed.bytes)), "}", "limit",
                      BCON_UTF8(print_timestamp(plan.limit).c_str()), "skip",
                      BCON_UTF8(skipped.c_str()), "filter", BCON_UTF8(plan.filter.text().c_str())));
}

// Reads the whole base, and its slice.
Result<void> check_base(Plan& plan, Transactions& transactions) {
  {
    Progress progress("MB of the base checked", megabytes(plan.base->size()), Results::kAtEnd);
    Result<void> checked = plan.base->check([&](std::uint64_t bytes) -> Result<void> {
      progress.show(megabytes(bytes));
      return unless_stopped();
    });
    if (!checked) return checked;
  }
  const Result<std::optional<Timestamp>> at_given = timestamp_given(given.base_at);
  if (!at_given) return std::unexpected(at_given.error());
  const std::optional<Timestamp>& base_at = *at_given;
  plan.sliced = plan.base->has_oplog();
  if (!plan.sliced) {
    if (!base_at)
      return refuse(Code::kFailedPrecondition,
                    given.base +
                        " has no oplog.bson, so nothing says which moment it is of: where nobody "
                        "wrote while it was taken, give --base-at SECONDS:ORDINAL, the last entry "
                        "of the oplog before it");
    plan.after = *base_at;
    return {};
  }
  if (base_at)
    return refuse(Code::kInvalidArgument,
                  given.base + " has an oplog.bson, which says its moment: leave --base-at out");
  OplogCheck check("oplog.bson of " + given.base,
                   {.slice = true,
                    .filter = plan.filter,
                    .collections = plan.collections,
                    .temporary = plan.temporary},
                   transactions);
  std::uint64_t offset = 0;
  Result<void> read = plan.base->oplog([&](const Entry& entry) -> Result<void> {
    const std::uint64_t at = offset;
    offset += entry.document.bytes().size();
    Result<void> good = check.add(entry, at);
    return good ? unless_stopped() : good;
  });
  if (!read) return read;
  Result<OplogFacts> facts = check.finish();
  if (!facts) return std::unexpected(std::move(facts.error()));
  plan.slice = std::move(*facts);
  plan.after = plan.slice.last;
  return {};
}

Result<void> check_whole_oplog(Plan& plan, Transactions& transactions) {
  Progress progress("MB of the oplog checked", std::nullopt, Results::kAtEnd);
  Result<OplogFacts> facts =
      check_oplog(given.oplog,
                  {.after = plan.after,
                   .limit = plan.limit,
                   .filter = plan.filter,
                   .skip = plan.skip,
                   .skip_forced = given.force_skip,
                   .collections = plan.sliced ? plan.slice.collections : plan.collections,
                   .temporary = plan.sliced ? plan.slice.temporary : plan.temporary},
                  transactions, shown_by(progress, true));
  if (!facts) return std::unexpected(std::move(facts.error()));
  plan.oplog = std::move(*facts);
  Result<OwnDocument> fingerprint = fingerprint_of(plan);
  if (!fingerprint) return std::unexpected(std::move(fingerprint.error()));
  plan.fingerprint = std::move(*fingerprint);
  return {};
}

// Of a data copy, before it is recovered and its last entry known.
Result<void> look_at_oplog(const Plan& plan) {
  Progress progress("MB of the oplog checked", std::nullopt, Results::kAtEnd);
  Transactions transactions;
  const Result<OplogFacts> facts =
      check_oplog(given.oplog,
                  {.anywhere = true, .limit = plan.limit, .filter = plan.filter, .skip = plan.skip},
                  transactions, shown_by(progress, true));
  if (!facts) return std::unexpected(facts.error());
  return {};
}

Result<Plan> make_plan() {
  Plan plan;
  const Result<Timestamp> limit = limit_given();
  if (!limit) return std::unexpected(limit.error());
  plan.limit = *limit;
  for (const std::string& text : given.skip) {
    const Result<Timestamp> skip = parse_timestamp(text);
    if (!skip) return std::unexpected(skip.error());
    plan.skip.insert(*skip);
  }
  Result<NamespaceFilter> filter = NamespaceFilter::of(given.include, given.exclude);
  if (!filter) return std::unexpected(std::move(filter.error()));
  plan.filter = std::move(*filter);
  if (!given.data_copy.empty()) return plan;
  Result<std::unique_ptr<BaseBackup>> base = open_base(given.base);
  if (!base) return std::unexpected(std::move(base.error()));
  plan.base = std::move(*base);
  Names& collections = plan.collections.emplace();
  for (const CollectionFacts& each : plan.base->collections()) {
    const std::string ns = each.database + "." + each.name;
    collections.insert(ns);
    bson_iter_t at;
    const bool has_options = each.options.get() != nullptr;
    if (has_options && each.options.view().find("temp", &at) && bson_iter_as_bool(&at) &&
        plan.filter.includes(ns))
      plan.temporary.push_back(ns);
  }
  return plan;
}

std::string count_of(std::uint64_t count, const std::string& one, const std::string& many = {}) {
  return print_count(static_cast<double>(count)) + " " +
         (count == 1     ? one
          : many.empty() ? one + "s"
                         : many);
}

std::string where_to() {
  if (!given.data_copy.empty()) return "the copy in " + given.data_copy;
  return given.spare.empty() ? redacted(given.target) : "a new mongod on " + given.spare;
}

// "; the last entry is 1:2", where there is one.
std::string last_applied(const Plan& plan) {
  const Timestamp last = plan.oplog.last_applied;
  return last == Timestamp{} ? std::string() : "; the last entry is " + print_timestamp(last);
}

void print_plan(Output& out, const Plan& plan) {
  if (plan.base) {
    std::uint64_t collections = 0;
    for (const CollectionFacts& each : plan.base->collections()) {
      if (plan.filter.includes(each.database + "." + each.name)) ++collections;
    }
    print_fact(out, "base",
               given.base + ": " + count_of(collections, "collection") + ", " +
                   std::to_string(megabytes(plan.base->size())) + " MB, MongoDB " +
                   (plan.base->server_version().empty() ? "of an unknown version"
                                                        : plan.base->server_version()));
  } else {
    print_fact(out, "copy", given.data_copy);
  }
  if (plan.after)
    print_fact(out, "moment",
               print_timestamp(*plan.after) + " (" + print_seconds(*plan.after) +
                   (plan.sliced ? "), after its slice of " +
                                      count_of(plan.slice.entries, "entry", "entries")
                                : ")"));
  print_fact(
      out, "limit",
      print_timestamp(plan.limit) + " (" + print_seconds(plan.limit) + "), not applied itself");
  if (plan.oplog.entries != 0)
    print_fact(out, "oplog",
               count_of(plan.oplog.operations, "operation") + " before it" + last_applied(plan));
  for (const std::string& each : plan.oplog.skipped) print_fact(out, "left out", each);
  print_fact(out, "to", where_to());
}

// Of the inputs, what a person should know of.
std::vector<std::string> notes_of(const Plan& plan) {
  const OplogFacts& facts = plan.oplog;
  std::vector<std::string> notes;
  const auto wanted = [&](const CollectionFacts& each) {
    return plan.filter.includes(each.database + "." + each.name);
  };
  if (plan.base && !plan.base->collections().empty() &&
      std::ranges::none_of(plan.base->collections(), wanted))
    notes.push_back("--include and --exclude leave nothing of the base: are they spelled right?");
  if (plan.oplog.entries == 0)
    notes.push_back("whether the oplog reaches back to the copy is checked when that is recovered");
  if (plan.base && !plan.base->left_out().empty()) {
    std::string all;
    for (const std::string& ns : plan.base->left_out()) all += (all.empty() ? "" : ", ") + ns;
    notes.push_back("of the base are left out: " + all);
  }
  for (const OpenTransaction& open : facts.open)
    notes.push_back("the transaction begun at " + print_timestamp(open.first) +
                    " was not committed before the limit: its " +
                    count_of(open.operations, "operation") +
                    (open.operations == 1 ? " is" : " are") + " not applied");
  for (const std::string& ns : facts.temporary)
    notes.push_back(ns +
                    " is a temporary collection that was there at the limit: drop it if it is "
                    "not wanted");
  for (const auto& [database, count] : facts.left_out)
    notes.push_back(count_of(count, "operation") + " on " + database +
                    (count == 1 ? " is" : " are") + " left out: no restore applies them");
  return notes;
}

Json json_of(const ReplayCounts& counts) {
  return {{"inserts", counts.inserts},
          {"updates", counts.updates},
          {"deletes", counts.deletes},
          {"commands", counts.commands},
          {"missed", counts.missed}};
}

Json json_of(const Plan& plan) {
  Json json = {{"to", where_to()}, {"limit", print_timestamp(plan.limit)}};
  if (plan.after) json["moment"] = print_timestamp(*plan.after);
  if (plan.base) {
    json["base"] = {{"path", given.base},
                    {"version", plan.base->server_version()},
                    {"collections", plan.base->collections().size()},
                    {"bytes", plan.base->size()},
                    {"slice_entries", plan.slice.entries}};
  }
  json["oplog"] = {{"entries", plan.oplog.entries},
                   {"operations", plan.oplog.operations},
                   {"first", print_timestamp(plan.oplog.first)},
                   {"last", print_timestamp(plan.oplog.last)},
                   {"last_applied", print_timestamp(plan.oplog.last_applied)}};
  json["left_out"] = plan.oplog.skipped;
  return json;
}

// The counts that verify starts from are those after the slice.
Result<void> count_after_slice(Server& server, Record& record, const Plan& plan) {
  const Result<Loaded> before = loaded(record);
  if (!before) return std::unexpected(before.error());
  const Result<std::vector<Listed>> there = list_collections(server);
  if (!there) return std::unexpected(there.error());
  Loaded gone = *before;
  std::set<std::string> counted;  // what the oplog adds to
  for (const auto& [ns, tally] : plan.oplog.tallies) counted.insert(tally.base);
  for (const Listed& each : *there) {
    if (each.type != "collection") continue;
    const std::string ns = each.ns();
    gone.erase(ns);
    const bool touched = plan.slice.tallies.contains(ns) || plan.slice.gone.contains(ns);
    if (plan.base && before->contains(ns) && !touched) continue;
    if (!plan.base && !counted.contains(ns)) continue;  // a data copy may be large
    const Result<std::uint64_t> documents = count_documents(server, ns);
    if (!documents) return std::unexpected(documents.error());
    if (Result<void> set = set_loaded(record, ns, *documents); !set) return set;
  }
  for (const auto& [ns, documents] : gone) {
    if (Result<void> set = unset_loaded(record, ns); !set) return set;
  }
  return {};
}

// The indexes of the base, as its slice left them.
Result<void> replay_slice(Plan& plan, Server& server, Record& record, Transactions& transactions,
                          IndexCatalog& catalog, Outcome& outcome) {
  for (const CollectionFacts& each : plan.base->collections()) {
    const std::string ns = each.database + "." + each.name;
    if (!plan.filter.includes(ns)) continue;
    for (const OwnDocument& index : each.indexes) {
      bson_iter_t clustered;
      if (!index.view().find("clustered", &clustered)) catalog.add(ns, index.view());
    }
  }
  if (!plan.sliced) return {};
  Result<std::unique_ptr<Replay>> replay =
      Replay::begin(server, record, transactions, &catalog,
                    {.slice = true, .filter = plan.filter, .workers = given.writers});
  if (!replay) return std::unexpected(std::move(replay.error()));
  Progress progress("entries of the slice", static_cast<std::int64_t>(plan.slice.entries),
                    Results::kAtEnd);
  std::int64_t done = 0;
  Result<void> read = plan.base->oplog([&](const Entry& entry) -> Result<void> {
    progress.show(++done);
    Result<void> applied = (*replay)->apply(entry);
    return applied ? unless_stopped() : applied;
  });
  if (!read) return read;
  Result<ReplayCounts> counts = (*replay)->finish();
  if (!counts) return std::unexpected(std::move(counts.error()));
  outcome.slice = std::move(*counts);
  return {};
}

Result<void> load(const Plan& plan, Server& server, Record& record, Outcome& outcome) {
  Progress progress("MB of documents", megabytes(plan.base->size()), Results::kAtEnd);
  const Result<LoadCounts> counts =
      load_base(*plan.base, server, record,
                {.filter = plan.filter, .writers = given.writers, .sliced = plan.sliced},
                [&](std::uint64_t bytes) { progress.show(megabytes(bytes)); });
  if (!counts) return std::unexpected(counts.error());
  if (counts->twice != 0)
    outcome.notes.push_back(count_of(counts->twice, "document") +
                            (counts->twice == 1 ? " is" : " are") +
                            " twice in the base, deleted and inserted again while it was taken: "
                            "the slice made them what they were");
  return {};
}

// The TTL monitor deletes what is old, as all of a restore is. That it was turned off is in the
// record, so that each run tells it.
Result<void> keep_ttl_off(const Plan& plan, Server& server, Record& record, bool runs,
                          Outcome& outcome) {
  constexpr const char* paused = "ttl";
  if (runs && record.stage() == RunStage::kDone) return {};  // it was turned on again
  const std::string told = "the TTL monitor of " + server.shown_uri() +
                           " was turned off, as it would delete what is restored; on again with "
                           "db.adminCommand({setParameter: 1, ttlMonitorEnabled: true})";
  if (runs) {
    if (record.resumed() || !plan.base) {
      const Result<bool> deletes = has_ttl(server);
      if (!deletes) return std::unexpected(deletes.error());
      if (*deletes)
        return refuse(Code::kFailedPrecondition,
                      "the TTL monitor of " + server.shown_uri() +
                          " is on, and may have deleted what was restored: begin anew, with an "
                          "empty server that is started with --setParameter "
                          "ttlMonitorEnabled=false, or with --spare");
    }
    const OwnDocument nothing = own(bson_new());
    if (Result<void> put = record.put(paused, nothing.get()); !put) return put;
    if (Result<void> done = pause_ttl(server); !done) return done;
  }
  const Result<std::optional<OwnDocument>> noted = record.get(paused);
  if (!noted) return std::unexpected(noted.error());
  if (*noted) outcome.notes.push_back(told);
  return {};
}

Result<void> restore(Plan& plan, Server& server, Record& record, bool ttl_runs, Outcome& outcome) {
  if (record.resumed()) {
    if (Result<void> ended = end_leftovers(server); !ended) return ended;
  }
  if (Result<void> off = keep_ttl_off(plan, server, record, ttl_runs, outcome); !off) return off;
  if (Result<void> kept = keep_tallies(record, plan.oplog); !kept) return kept;
  Transactions transactions;

  if (record.stage() == RunStage::kBase) {
    if (Result<void> good = check_apply_ops(record); !good) return good;
    if (plan.base) {
      if (Result<void> done = load(plan, server, record, outcome); !done) return done;
    }
    if (Result<void> reached = record.reach(RunStage::kSlice); !reached) return reached;
  }
  const Result<Loaded> base = loaded(record);
  if (!base) return std::unexpected(base.error());
  for (const auto& [ns, documents] : *base) outcome.documents += documents;

  // What is done already is read again, for its transactions, indexes and counts.
  IndexCatalog catalog;
  if (plan.base) {
    Result<void> replayed = replay_slice(plan, server, record, transactions, catalog, outcome);
    if (!replayed) return replayed;
  }
  // It could not even be built, where it is unique and its build was ended for that.
  for (const auto& [ns, names] : plan.oplog.building) {
    for (const std::string& name : names) catalog.remove(ns, name);
  }
  outcome.indexes = catalog.size();
  if (record.stage() == RunStage::kSlice) {
    if (Result<void> counted = count_after_slice(server, record, plan); !counted) return counted;
    if (Result<void> reached = record.reach(RunStage::kIndexes); !reached) return reached;
  }
  if (record.stage() == RunStage::kIndexes) {
    Progress progress("collections indexed", static_cast<std::int64_t>(catalog.all().size()),
                      Results::kAtEnd);
    if (Result<void> built = build_indexes(server, catalog, shown_by(progress, false)); !built)
      return built;
    if (Result<void> reached = record.reach(RunStage::kOplog); !reached) return reached;
  }
  {
    Progress progress("MB of the oplog", std::nullopt, Results::kAtEnd);
    Result<ReplayCounts> counts = replay_oplog(given.oplog, server, record, transactions,
                                               {.after = after(plan),
                                                .limit = plan.limit,
                                                .filter = plan.filter,
                                                .skip = plan.skip,
                                                .workers = given.writers},
                                               shown_by(progress, true));
    if (!counts) return std::unexpected(std::move(counts.error()));
    outcome.oplog = std::move(*counts);
  }
  if (record.stage() == RunStage::kOplog) {
    if (Result<void> reached = record.reach(RunStage::kDone); !reached) return reached;
  }
  Result<MintedReport> minted = find_minted(server, plan.filter, given.oplog, plan.limit);
  if (!minted) return std::unexpected(std::move(minted.error()));
  outcome.minted = std::move(*minted);
  return {};
}

std::string counts_text(const ReplayCounts& counts) {
  return count_of(counts.inserts, "insert") + ", " + count_of(counts.updates, "update") + ", " +
         count_of(counts.deletes, "delete") + ", " + count_of(counts.commands, "command");
}

void print_outcome(Output& out, const Plan& plan, const Outcome& outcome) {
  out.write(std::string("\n") +
            (outcome.oplog.missed == 0 ? "Restored" : "Restored, but not to be trusted") +
            (outcome.resumed ? ", going on with a run before this one.\n" : ".\n"));
  if (plan.base) print_fact(out, "base", count_of(outcome.documents, "document"));
  if (plan.sliced) print_fact(out, "slice", counts_text(outcome.slice));
  if (plan.base) print_fact(out, "indexes", print_count(static_cast<double>(outcome.indexes)));
  print_fact(out, "oplog", counts_text(outcome.oplog) + last_applied(plan));
  for (const std::string& note : outcome.notes) print_fact(out, "note", note);
  print_fact(out, "server", outcome.target + (outcome.spare_ended ? ", ended" : ""));
  // Whole lines, to be copied.
  const std::string where = outcome.spare ? "--spare " + shell_word(outcome.spare->folder)
                                          : "--target " + shell_word(outcome.target);
  const std::string verify = "idmint-restore verify " + where;
  out.write("\nCompare it with what should be there:\n  " + verify + "\n");
  if (outcome.spare && !outcome.spare_ended)
    out.write("End it, when you are done:\n  " + how_to_stop(*outcome.spare) + "\n");
  print_minted(out, outcome.minted, verify);
}

Json json_of(const Plan& plan, const Outcome& outcome) {
  Json json = json_of(plan);
  json["resumed"] = outcome.resumed;
  json["target"] = outcome.target;
  json["documents"] = outcome.documents;
  json["slice"] = json_of(outcome.slice);
  json["indexes"] = outcome.indexes;
  json["replayed"] = json_of(outcome.oplog);
  json["notes"] = outcome.notes;
  if (outcome.spare) {
    json["spare"] = {{"folder", outcome.spare->folder},
                     {"running", !outcome.spare_ended},
                     {"stop", how_to_stop(*outcome.spare)}};
  }
  json["raise"] = Json::array();
  for (const Minted& each : outcome.minted.sources)
    json["raise"].push_back({{"database", each.database},
                             {"name", each.name},
                             {"strategy", each.strategy},
                             {"commands", each.commands},
                             {"note", each.note}});
  return json;
}

void add_notes(const Plan& plan, Outcome& outcome) {
  for (std::string& note : notes_of(plan)) outcome.notes.push_back(std::move(note));
  for (const ReplayCounts* const counts : {&outcome.slice, &outcome.oplog})
    outcome.notes.insert(outcome.notes.end(), counts->notes.begin(), counts->notes.end());
  if (outcome.oplog.missed == 0) return;
  outcome.notes.push_back(count_of(outcome.oplog.missed, "update") +
                          " found no document: entries are missing between the base and the "
                          "limit, or --skip left out what they build on");
  for (const std::string& missed : outcome.oplog.first_missed) outcome.notes.push_back(missed);
}

// On the server, checked; and what it is told before the restore.
Result<void> restore_to(Plan& plan, const std::string& uri, Outcome& outcome) {
  Result<Server> server = Server::connect(uri);
  if (!server) return std::unexpected(std::move(server.error()));
  outcome.target = server->shown_uri();
  const Result<TargetFacts> facts =
      check_target(*server, {.version = plan.base ? plan.base->server_version() : std::string(),
                             .replica_set_ok = given.allow_replica_set,
                             .filled = plan.base == nullptr,
                             .fingerprint = plan.fingerprint.view()});
  if (!facts) return std::unexpected(facts.error());
  Result<Record> record = Record::begin(*server, plan.fingerprint.view());
  if (!record) return std::unexpected(std::move(record.error()));
  outcome.resumed = record->resumed();
  Result<void> done = restore(plan, *server, *record, facts->ttl_runs, outcome);
  if (done || done.error().code != Code::kFailedPrecondition) return done;
  // By now something was written.
  std::string message = std::move(done.error().message);
  if (!plan.skip.empty() && message.contains("E11000"))
    message +=
        "; where --skip left out what freed that key, as a delete does: take a new spare, and skip "
        "the entries that use it too";
  return refuse(Code::kUnknown, std::move(message));
}

// A target is looked at before anybody is asked.
Result<void> look_at_target(const Plan& plan) {
  if (given.target.empty()) return {};
  Result<Server> server = Server::connect(given.target);
  if (!server) return std::unexpected(std::move(server.error()));
  const Result<TargetFacts> facts =
      check_target(*server, {.version = plan.base->server_version(),
                             .replica_set_ok = given.allow_replica_set,
                             .fingerprint = plan.fingerprint.view()});
  if (!facts) return std::unexpected(facts.error());
  return {};
}

// The mongod that is to be started, and whether it goes with the base.
Result<std::string> look_at_spare(const Plan& plan) {
  Result<std::string> program = find_mongod(given.mongod);
  if (!program) return program;
  const Result<std::string> version = version_of(*program);
  if (!version) return std::unexpected(version.error());
  if (plan.base && !plan.base->server_version().empty() &&
      !same_series(plan.base->server_version(), *version))
    return refuse(Code::kFailedPrecondition, "the backup is of MongoDB " +
                                                 plan.base->server_version() + ", and " +
                                                 shell_word(*program) + " is " + *version +
                                                 ": give --mongod PATH of one of the same series");
  const Result<SpareFolder> folder = look_at(plan.base ? given.spare : given.data_copy);
  if (!folder) return std::unexpected(folder.error());
  if (plan.base && !folder->fresh && !folder->ours)
    return refuse(Code::kAlreadyExists, shell_word(given.spare) +
                                            " is not empty: give --spare a folder that is not "
                                            "there yet");
  return program;
}

// Of a data copy, before anything is replayed.
Result<void> look_at_copy(Plan& plan, const std::string& uri) {
  Result<Server> server = Server::connect(uri);
  if (!server) return std::unexpected(std::move(server.error()));
  const Result<std::optional<Record>> record = Record::find(*server);
  if (!record) return std::unexpected(record.error());
  if (*record) return {};  // what is there by now says nothing
  // They would stay as they are for ever, and in the way of their own commit.
  if (Result<void> dropped = drop_unfinished_indexes(*server); !dropped) return dropped;
  const Result<std::vector<Listed>> there = list_collections(*server);
  if (!there) return std::unexpected(there.error());
  Names& collections = plan.collections.emplace();
  for (const Listed& each : *there) collections.insert(each.ns());
  return {};
}

Result<void> run_on_spare(Plan& plan, const std::string& program, Outcome& outcome) {
  if (plan.base) {
    Result<Spare> spare = start_spare(given.spare, program);
    if (!spare) return std::unexpected(std::move(spare.error()));
    outcome.spare = std::move(*spare);
  } else {
    Result<RecoveredCopy> copy = start_copy(given.data_copy, program);
    if (!copy) return std::unexpected(std::move(copy.error()));
    outcome.spare = std::move(copy->spare);
    plan.after = copy->last;
  }
  Result<void> done;
  if (!plan.base) {
    Transactions transactions;
    done = look_at_copy(plan, outcome.spare->uri());
    if (done) done = check_whole_oplog(plan, transactions);
  }
  if (done) done = restore_to(plan, outcome.spare->uri(), outcome);
  if (done ? !given.stop_spare : outcome.spare->ran_before) return done;
  // What failed is not left running, unless it was: the same command starts it again.
  Result<void> ended = stop_spare(*outcome.spare);
  outcome.spare_ended = ended.has_value();
  return done ? ended : done;
}

Result<void> run_all(Context& context) {
  if (given.base.empty() == given.data_copy.empty())
    return refuse(Code::kInvalidArgument, "give --base DIR|ARCHIVE, or --data-copy DIR");
  if (!given.base.empty() && given.target.empty() == given.spare.empty())
    return refuse(Code::kInvalidArgument,
                  "give --spare DIR, to start a mongod there, or --target URI of an empty server");
  Result<Plan> plan = make_plan();
  if (!plan) return std::unexpected(std::move(plan.error()));
  if (plan->base) {
    Transactions transactions;
    if (Result<void> checked = check_base(*plan, transactions); !checked) return checked;
    if (Result<void> checked = check_whole_oplog(*plan, transactions); !checked) return checked;
  } else if (Result<void> looked = look_at_oplog(*plan); !looked) {
    return looked;
  }
  std::string program;
  if (given.target.empty()) {
    Result<std::string> found = look_at_spare(*plan);
    if (!found) return std::unexpected(std::move(found.error()));
    program = std::move(*found);
  }
  if (Result<void> looked = look_at_target(*plan); !looked) return looked;

  if (!context.json) print_plan(context.out, *plan);
  if (given.dry_run) {
    if (context.json) {
      Json json = json_of(*plan);
      json["dry_run"] = true;
      json["notes"] = notes_of(*plan);
      context.out.write(json.dump() + "\n");
    } else {
      for (const std::string& note : notes_of(*plan)) print_fact(context.out, "note", note);
      context.out.write("Nothing was written: this is a dry run.\n");
    }
    return {};
  }
  if (!given.yes) {
    Result<void> confirmed =
        confirm(context.out, context.json,
                {.text = "Restore?",
                 .undone = "nothing was written",
                 .otherwise = "add --yes to restore, or --dry-run to see what would be done"});
    if (!confirmed) return confirmed;
  }
  context.out.flush();

  Outcome outcome;
  Result<void> done = given.target.empty() ? run_on_spare(*plan, program, outcome)
                                           : restore_to(*plan, given.target, outcome);
  if (!done) return done;
  add_notes(*plan, outcome);
  if (context.json) {
    context.out.write(json_of(*plan, outcome).dump() + "\n");
  } else {
    print_outcome(context.out, *plan, outcome);
  }
  // Done, and not what should be there.
  if (outcome.oplog.missed != 0) context.status = exit_status(Code::kDataLoss);
  return {};
}

Result<void> run(Context& context) {
  Result<void> done = run_all(context);
  if (!done && done.error().code == Code::kUnavailable && stop_signal() != 0) {
    context.stopped_by = stop_signal();
    report_notice("stopped: the same command goes on where it was", context.json);
    return {};
  }
  return done;
}

}  // namespace

const Command kRun = {"run", "Restore a base backup and replay the oplog up to a limit", add, run,
                      R"(Both inputs are read and checked whole before anything is written, and the
target must be empty. Killed at any point, the same command goes on to the same
end. --dry-run reads and checks just as much and writes nothing; of a data copy
it cannot, as its last entry is known only when it is recovered.

--spare starts a mongod on 127.0.0.1 with its data in DIR. After the restore it
is left running, to be looked at, and how to end it is printed; --stop ends it.
Where the restore fails or is stopped, it is ended. --data-copy works in the
copy itself: keep another. On a --target the TTL monitor is turned off and left
so, as it would delete what is restored.

Users and roles, and the databases admin, config and local, are not restored.

Examples:
  $ idmint-restore run --base dump --oplog oplog --limit 1795230181:16 \
      --spare /var/lib/spare --dry-run
)"};

}  // namespace idmint::restore
