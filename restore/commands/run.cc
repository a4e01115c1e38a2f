// run: restores a base backup and the oplog up to the limit to a spare server.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/quantity.h"
#include "base/shell.h"
#include "base/url.h"
#include "idmint/clock.h"
#include "restore/commands/commands.h"
#include "restore/commands/minted_report.h"
#include "restore/commands/on_terminal.h"
#include "restore/commands/options.h"
#include "restore/error_in.h"
#include "restore/keep/kept.h"
#include "restore/replay/restore.h"
#include "terminal/confirm.h"
#include "terminal/exit_status.h"

namespace idmint::restore {
namespace {

using Json = nlohmann::ordered_json;

struct RunOptions {
  std::string from;
  std::string at;
  std::string base;
  std::string data_copy;
  std::string oplog;
  std::string limit;
  std::string before;
  bool all = false;
  std::string target;
  std::string spare;
  std::string mongod;
  std::vector<std::string> mongod_arguments;
  std::string base_at;
  std::vector<std::string> skip;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  bool users = false;
  unsigned writers = 4;
  std::string index_errors;
  bool force_skip = false;
  bool allow_replica_set = false;
  bool stop_spare = false;
  std::string report;
  bool dry_run = false;
  bool yes = false;
  bool not_sharded = false;
};

void add_run(CLI::App& command, RunOptions& given) {
  CLI::Option* const from = add_value(command, "--from", given.from, "DIR",
                                      "A folder of keep, which has bases and oplog");
  CLI::Option* const base = add_value(command, "--base", given.base, "BASE",
                                      "Instead: a base backup, a folder or an archive")
                                ->excludes(from);
  CLI::Option* const copy =
      add_value(command, "--data-copy", given.data_copy, "DIR",
                "Instead: a copy of a member's data folder, which becomes the spare");
  base->excludes(copy);
  copy->excludes(from);
  add_value(command, "--oplog", given.oplog, "OPLOG",
            "A dump of the oplog, or the folder that has it; without it, the base alone")
      ->excludes(from);
  CLI::Option* const limit =
      add_value(command, "--limit", given.limit, "S:O",
                "First entry that is not applied, SECONDS:ORDINAL, as find prints it");
  CLI::Option* const before = add_value(command, "--before", given.before, "TIME",
                                        "Instead: what was written before this time")
                                  ->excludes(limit);
  add_value(command, "--at", given.at, "TIME",
            "The same with --from; a time without a zone is UTC: '2026-11-23 02:15'")
      ->needs(from)
      ->excludes(limit)
      ->excludes(before);
  command.add_flag("--all", given.all, "Instead: all of the oplog");
  CLI::Option* const target =
      add_value(command, "--target", given.target, "URI", "Empty server to restore to");
  add_value(command, "--spare", given.spare, "DIR", "Instead: start a mongod on this new folder")
      ->excludes(target)
      ->excludes(copy);
  copy->excludes(target);
  add_value(command, "--mongod", given.mongod, "PATH",
            "The mongod to start (default: that on the PATH)")
      ->excludes(target);
  add_value(command, "--mongod-argument", given.mongod_arguments, "WORD",
            "A further argument of the mongod, such as --mongod-argument=--directoryperdb; "
            "may be repeated")
      ->excludes(target);
  add_value(command, "--base-at", given.base_at, "S:O",
            "For a base without oplog.bson: the last entry of the oplog before it, SECONDS:ORDINAL")
      ->needs(base);
  add_value(command, "--include", given.include, "NS",
            "Restore these alone: DATABASE, DATABASE.COLLECTION, with * for any text; may be "
            "repeated");
  add_value(command, "--exclude", given.exclude, "NS", "Restore all but these; may be repeated");
  command.add_flag("--users", given.users,
                   "Restore users and roles, too, whatever --include names");
  add_value(command, "--skip", given.skip, "S:O",
            "Leave this entry out, SECONDS:ORDINAL; may be repeated");
  command.add_flag("--force-skip", given.force_skip,
                   "Leave that entry out even if later entries build on it");
  add_value(command, "--writers", given.writers, "N", "Connections that write at once, 1 to 64 (4)")
      ->check(CLI::Range(1, 64).description(""));
  add_value(command, "--index-errors", given.index_errors, "HOW",
            "Indexes that the server refuses: fail, before the load, or report, and leave "
            "them out (fail)")
      ->check(CLI::IsMember({"fail", "report"}).description(""));
  command.add_flag("--allow-replica-set", given.allow_replica_set,
                   "The target may be a member of a replica set");
  add_not_sharded(command, given.not_sharded);
  command.add_flag("--stop", given.stop_spare,
                   "Shut the spare down afterwards; its folder is then complete");
  add_value(command, "--report", given.report, "FILE",
            "The report for verify, fence and promote (see below)");
  command.add_flag("--dry-run", given.dry_run, "Check everything, and say what would be done");
  command.add_flag("--yes", given.yes, "Do not ask");
}

// nullopt: no limit.
Result<std::optional<Timestamp>> limit_given(const RunOptions& given) {
  const std::string& before = given.at.empty() ? given.before : given.at;
  const int count = static_cast<int>(!given.limit.empty()) + static_cast<int>(!before.empty()) +
                    static_cast<int>(given.all);
  if (given.oplog.empty() && given.from.empty()) {
    if (count != 0)
      return fail(Code::kInvalidArgument,
                  "--limit, --before and --all are of an oplog: give it with --oplog OPLOG");
    if (given.skip.empty()) return std::nullopt;
    return fail(Code::kInvalidArgument, "--skip is of an oplog: give it with --oplog OPLOG");
  }
  if (count != 1)
    return fail(Code::kInvalidArgument,
                "give --limit SECONDS:ORDINAL, the first entry that is not to be applied: "
                "idmint-restore find looks for it; or --before TIME; or --all, to apply all of it");
  if (given.all) return std::nullopt;
  if (!given.limit.empty()) return parse_timestamp(given.limit);
  Result<Instant> time = parse_time(before);
  if (const Result<Instant> utc = parse_time(before + "Z"); !time && !given.at.empty() && utc)
    time = *utc;
  if (!time) return error_in(time);
  const auto since = time->time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  if (seconds != since || seconds.count() <= 0 || seconds.count() > UINT32_MAX)
    return fail(Code::kInvalidArgument,
                (given.at.empty() ? "--before " : "--at ") + shell_word(before) +
                    " must be a whole second since 1970, as entries have no more: within a "
                    "second give --limit SECONDS:ORDINAL");
  return Timestamp{.seconds = static_cast<std::uint32_t>(seconds.count())};
}

std::string where_to(const RestorePlan& plan) {
  if (!plan.options.data_copy.empty()) return "the copy in " + plan.options.data_copy;
  return plan.options.spare.empty() ? redacted(plan.options.target)
                                    : "a new mongod on " + plan.options.spare;
}

// "; the last entry is 1:2", or empty if no entry was applied.
std::string last_applied(const RestorePlan& plan) {
  const Timestamp last = plan.oplog.last_applied;
  return last == Timestamp{} ? std::string() : "; the last entry is " + print_timestamp(last);
}

void print_plan(Output& out, const RestorePlan& plan) {
  if (plan.base) {
    std::uint64_t collections = 0;
    for (const CollectionFacts& each : plan.base->collections())
      if (plan.options.filter.includes(each.database + "." + each.name)) ++collections;
    print_fact(out, "base",
               plan.options.base + ": " + print_count(collections, "collection") + ", " +
                   std::to_string(plan.base->size() >> 20) + " MB, MongoDB " +
                   (plan.base->server_version().empty() ? "of an unknown version"
                                                        : plan.base->server_version()));
  } else {
    print_fact(out, "copy", plan.options.data_copy);
  }
  if (plan.after)
    print_fact(out, "moment",
               print_timestamp(*plan.after) + " (" + print_seconds(*plan.after) +
                   (plan.sliced ? "), after its slice of " +
                                      print_count(plan.slice.entries, "entry", "entries")
                                : ")"));
  const std::optional<Timestamp>& limit = plan.options.limit;
  print_fact(out, "limit",
             limit
                 ? print_timestamp(*limit) + " (" + print_seconds(*limit) + "), not applied itself"
             : plan.options.oplog.empty() ? "none: the base alone"
                                          : "none: all of the oplog");
  if (plan.oplog.entries != 0)
    print_fact(out, "oplog",
               print_count(plan.oplog.operations, "operation") + (limit ? " before it" : "") +
                   last_applied(plan));
  for (const std::string& each : plan.oplog.skipped) print_fact(out, "left out", each);
  print_fact(out, "to", where_to(plan));
}

Json json_of(const RestorePlan& plan) {
  Json json = {{"to", where_to(plan)}, {"limit", nullptr}};
  if (plan.options.limit) json["limit"] = print_timestamp(*plan.options.limit);
  if (plan.after) json["moment"] = print_timestamp(*plan.after);
  if (plan.base) {
    json["base"] = {{"path", plan.options.base},
                    {"version", plan.base->server_version()},
                    {"collections", plan.base->collections().size()},
                    {"bytes", plan.base->size()},
                    {"slice_entries", plan.slice.entries}};
  }
  if (!plan.options.oplog.empty())
    json["oplog"] = {{"entries", plan.oplog.entries},
                     {"operations", plan.oplog.operations},
                     {"first", print_timestamp(plan.oplog.first)},
                     {"last", print_timestamp(plan.oplog.last)},
                     {"last_applied", print_timestamp(plan.oplog.last_applied)}};
  json["left_out"] = plan.oplog.skipped;
  return json;
}

std::string counts_text(const ReplayCounts& counts) {
  return print_count(counts.inserts, "insert") + ", " + print_count(counts.updates, "update") +
         ", " + print_count(counts.deletes, "delete") + ", " +
         print_count(counts.commands, "command") +
         (counts.replaced == 0 ? std::string()
                               : ", " + print_count(counts.replaced, "replacement"));
}

void print_report(Output& out, const RestorePlan& plan, const RestoreReport& report,
                  const IssuedReport& minted) {
  out.write(std::string("\n") +
            (report.oplog.missed == 0 ? "Restored" : "Restored, but not to be trusted") +
            (report.was_done  ? " by a run before this one: nothing was left to do.\n"
             : report.resumed ? ", going on with a run before this one.\n"
                              : ".\n"));
  if (plan.base) print_fact(out, "base", print_count(report.documents, "document"));
  if (plan.sliced) print_fact(out, "slice", counts_text(report.slice));
  if (plan.base) print_fact(out, "indexes", print_count(static_cast<double>(report.indexes)));
  if (!plan.options.oplog.empty())
    print_fact(out, "oplog", counts_text(report.oplog) + last_applied(plan));
  for (const std::string& note : report.notes) print_fact(out, "note", note);
  print_fact(out, "server", report.target + (report.spare_ended ? ", ended" : ""));
  print_fact(out, "report", report.report);
  // Complete lines that can be copied.
  const std::string where = report.spare ? "--spare " + shell_word(report.spare->folder)
                                         : "--target " + shell_word(report.target);
  const std::string verify = "idmint-restore verify " + where;
  out.write("\nCompare it with what should be there:\n  " + verify + "\n");
  if (!plan.options.oplog.empty() && !report.spare_ended)
    out.write(
        "Before programs use it, bring it past every id that production has handed out:\n"
        "  idmint-restore fence --target " +
        shell_word(report.target) + " --live URI_OF_PRODUCTION\n");
  if (report.spare && !report.spare_ended)
    out.write("End it, when you are done:\n  " + how_to_stop(*report.spare) + "\n");
  print_minted(out, minted, verify);
}

Json json_of(const RestorePlan& plan, const RestoreReport& report, const IssuedReport& minted) {
  Json json = json_of(plan);
  json["resumed"] = report.resumed;
  json["target"] = report.target;
  json["report"] = report.report;
  json["documents"] = report.documents;
  json["slice"] = json_of(report.slice);
  json["indexes"] = report.indexes;
  json["replayed"] = json_of(report.oplog);
  json["notes"] = report.notes;
  if (report.spare) {
    json["spare"] = {{"folder", report.spare->folder},
                     {"running", !report.spare_ended},
                     {"stop", how_to_stop(*report.spare)}};
  }
  json["raise"] = json_of(minted);
  return json;
}

// The options of the command line.
Result<RestoreOptions> options_given(const RunOptions& given) {
  if (given.from.empty() && given.base.empty() == given.data_copy.empty())
    return fail(Code::kInvalidArgument,
                "give --from DIR, a folder of keep, or --base DIR|ARCHIVE, or --data-copy DIR");
  if (!given.data_copy.empty() && given.oplog.empty())
    return fail(Code::kInvalidArgument,
                "--data-copy needs --oplog OPLOG: a copy alone needs no restore");
  if (given.data_copy.empty() && given.target.empty() == given.spare.empty())
    return fail(Code::kInvalidArgument,
                "give --spare DIR, to start a mongod there, or --target URI of an empty server");
  RestoreOptions options{.base = given.base,
                         .data_copy = given.data_copy,
                         .oplog = given.oplog,
                         .force_skip = given.force_skip,
                         .not_sharded = given.not_sharded,
                         .target = given.target,
                         .allow_replica_set = given.allow_replica_set,
                         .spare = given.spare,
                         .mongod = given.mongod,
                         .mongod_arguments = given.mongod_arguments,
                         .stop_spare = given.stop_spare,
                         .report = given.report,
                         .writers = given.writers};
  const Result<std::optional<Timestamp>> limit = limit_given(given);
  if (!limit) return error_in(limit);
  options.limit = *limit;
  options.report_index_errors = given.index_errors == "report";
  for (const std::string& text : given.skip) {
    const Result<Timestamp> skip = parse_timestamp(text);
    if (!skip) return error_in(skip);
    options.skip.insert(*skip);
  }
  if (!given.base_at.empty()) {
    const Result<Timestamp> at = parse_timestamp(given.base_at);
    if (!at) return error_in(at);
    options.base_at = *at;
  }
  Result<NamespaceFilter> filter = NamespaceFilter::of(given.include, given.exclude);
  if (!filter) return error_in(filter);
  options.filter = std::move(*filter);
  if (given.users) options.filter.include_users();
  return options;
}

// The base and the slices of a kept folder.
struct ChosenKept {
  FileLock lock{};     // keeps them there
  std::string before;  // the base before it; empty: none
};

Result<ChosenKept> choose_kept(const std::string& folder, RestoreOptions& options) {
  const Result<Kept> kept = read_kept(folder);
  if (!kept) return error_in(kept);
  const std::optional<Reach> reach =
      options.limit ? kept->reach_to(*options.limit) : kept->reach_to_end();
  if (!reach)
    return fail(Code::kOutOfRange,
                (options.limit ? "the moment before " + print_timestamp(*options.limit) + " (" +
                                     print_seconds(*options.limit) + ")"
                               : std::string("the newest entry")) +
                    " cannot be restored from " + shell_word(folder) + ": " + kept->in_words());
  const KeptBase& base = kept->bases[reach->base];
  options.base = base.path;
  options.oplog = kept->oplog_folder();
  Result<FileLock> lock = options.limit ? hold_base(base) : lock_to_keep(folder);
  if (!lock && !options.limit && lock.error().code == Code::kFailedPrecondition)
    add_outcome(lock.error(), "or give --at TIME, as the oplog grows");
  if (!lock) return error_in(lock);
  return ChosenKept{.lock = *std::move(lock),
                    .before = reach->base == 0 ? std::string() : kept->bases[reach->base - 1].path};
}

// Adds what helps if this base does not do: it is damaged, or an earlier run had begun with the one
// before it.
Error with_other_base(Error error, const std::string& before, const std::string& folder) {
  if (!before.empty() && (error.code == Code::kDataLoss || error.subject == kAnotherRestore))
    add_outcome(error, "with the base before it: --base " + shell_word(before) + " --oplog " +
                           shell_word(folder));
  return error;
}

Result<void> run_all(Context& context, const RunOptions& given) {
  Result<RestoreOptions> options = options_given(given);
  if (!options) return error_in(options);
  std::string before;
  std::optional<FileLock> lock;
  if (!given.from.empty()) {
    Result<ChosenKept> chosen = choose_kept(given.from, *options);
    if (!chosen) return error_in(chosen);
    lock.emplace(std::move(chosen->lock));
    before = std::move(chosen->before);
  }
  OnTerminal watch(context, WithoutTerminal::kLines);
  Result<RestorePlan> plan = plan_restore(*std::move(options), watch);
  watch.end();
  if (!plan) return std::unexpected(with_other_base(std::move(plan.error()), before, given.from));

  if (!context.json) {
    print_plan(context.out, *plan);
    // With --yes nobody decides anything here, and the report has them.
    if (!given.yes || given.dry_run)
      for (const std::string& note : plan->notes()) print_fact(context.out, "note", note);
  }
  if (given.dry_run) {
    const Result<std::vector<RefusedIndex>> refused = try_indexes(*plan, watch);
    watch.end();
    if (!refused) return error_in(refused);
    if (!refused->empty() && !plan->options.report_index_errors)
      return std::unexpected(refusal_of(*refused, plan->program));
    if (context.json) {
      Json json = json_of(*plan);
      json["dry_run"] = true;
      json["left_out"] = Json::array();
      for (const RefusedIndex& each : *refused)
        json["left_out"].push_back({{"ns", each.ns}, {"index", each.name}, {"why", each.why}});
      json["notes"] = plan->notes();
      context.out.write(json.dump() + "\n");
    } else {
      for (const RefusedIndex& each : *refused) print_fact(context.out, "left out", in_words(each));
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

  IssuedReport minted;
  const Result<RestoreReport> report = restore(*plan, watch, [&](Server& server) -> Result<void> {
    Result<IssuedReport> found =
        find_minted(server, plan->options.filter, plan->options.oplog,
                    plan->after.value_or(Timestamp{}), plan->options.limit.value_or(kNoLimit));
    if (!found) return error_in(found);
    minted = *std::move(found);
    return {};
  });
  watch.end();
  if (!report) return std::unexpected(with_other_base(report.error(), before, given.from));
  if (context.json) {
    context.out.write(json_of(*plan, *report, minted).dump() + "\n");
  } else {
    print_report(context.out, *plan, *report, minted);
  }
  // The restore is done but incomplete.
  if (report->oplog.missed != 0) context.status = exit_status(Code::kDataLoss);
  return {};
}

Result<void> run_run(Context& context, const RunOptions& given) {
  return or_stopped(run_all(context, given), context,
                    "stopped: the same command goes on where it was");
}

}  // namespace

const Command kRun = {"run", "Restore a base backup and replay the oplog up to a limit",
                      with_options<RunOptions, add_run, run_run>,
                      R"(All inputs are read and checked whole before anything is written, and the
target must be empty. After any kill the same command goes on to the same end:
with a collection where it was, and without a second check of a base whose files
are unchanged since the first one for this spare.
--dry-run reads and checks just as much and writes nothing. With a data copy it
does not check the oplog: the end of the copy is known only after its recovery.

--spare starts a mongod on 127.0.0.1 with its data in DIR. After the restore the
spare is left running for inspection, and the command prints how to end it;
--stop ends it. If the restore fails or is stopped, the spare is ended.
--data-copy works in the copy itself: keep another. On a --target the TTL
monitor is turned off and stays off: it would delete restored documents.

At the end the server holds nothing of idmint-restore. The report for verify,
fence and promote is --report FILE; by default it is DIR.report.json beside the
folder DIR of the spare or the data copy, and for a --target
restore-HOST-PORT.report.json in the current folder.

--from chooses the newest base before the moment, and the slices of the oplog
after it. keep may go on meanwhile, but with --all.

Of the databases admin, config and local nothing is restored but users and
roles with --users. A --target must have none then. A spare goes on without
access control.

Examples:
  $ idmint-restore run --base dump --oplog oplog --limit 1795230181:16 \
      --spare /var/lib/spare --dry-run
  $ idmint-restore run --base dump --oplog oplog --all --spare /var/lib/spare
  $ idmint-restore run --base dump --spare /var/lib/spare
  $ idmint-restore run --from /backup/rs0 --at '2026-11-23 02:15' --spare /var/lib/spare
)"};

}  // namespace idmint::restore
