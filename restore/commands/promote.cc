// promote: moves restored collections into the running replica set, and undoes that.
#include "restore/promote/promote.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/figures.h"
#include "base/shell.h"
#include "base/url.h"
#include "restore/commands/commands.h"
#include "restore/commands/options.h"
#include "terminal/exit_status.h"

namespace idmint::restore {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kListed = 20;  // documents printed per collection

struct PromoteArguments {
  std::string from;
  std::string to;
  std::string oplog;
  std::string limit;
  std::string restore_report;
  std::string mistake_to;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  std::vector<std::string> counters;
  bool alike = false;
  bool merge_later = false;
  bool leave_gap = false;
  bool undo = false;
  bool finish = false;
  bool dry_run = false;
  bool yes = false;
};

void add_promote(CLI::App& command, PromoteArguments& given) {
  add_value(command, "--from", given.from, "URI", "The restored server");
  add_value(command, "--to", given.to, "URI", "Production, a replica set")->required();
  add_value(command, "--ns", given.include, "NS",
            "Set these alone back: DATABASE, DATABASE.COLLECTION, with * for any text; may "
            "be repeated");
  add_value(command, "--exclude", given.exclude, "NS", "Set all but these back; may be repeated");
  add_value(command, "--limit", given.limit, "S:O",
            "The limit of the restore (default: that of its report)");
  add_value(command, "--restore-report", given.restore_report, "FILE",
            "The report of run (that beside the folder of the spare)");
  add_value(command, "--oplog", given.oplog, "PATH",
            "Oplog dump that begins at the limit, where production's oplog does not reach back "
            "to that");
  CLI::Option* const mistake_to =
      add_value(command, "--mistake-to", given.mistake_to, "S:O",
                "Last entry of the mistake, SECONDS:ORDINAL, as find prints it");
  command
      .add_flag("--merge-later", given.merge_later,
                "Keep later writes to documents that the mistake did not touch")
      ->needs(mistake_to);
  command
      .add_flag("--mistake-alike", given.alike,
                "Of the entries up to --mistake-to, only those that change the same fields as the "
                "first or the last one are of the mistake")
      ->needs(mistake_to);
  add_value(command, "--counter", given.counters, "FIELD",
            "A field that programs count in, DATABASE.COLLECTION.FIELD; may be repeated");
  command.add_flag("--leave-gap", given.leave_gap,
                   "Gapless sequences may lack the numbers of lost documents");
  CLI::Option* const undo =
      command.add_flag("--undo", given.undo, "Give up the promotion that is under way");
  command.add_flag("--finish", given.finish, "Drop the old collections; there is no way back then")
      ->excludes(undo);
  command.add_flag("--dry-run", given.dry_run, "Print the plan, and write nothing");
  command.add_flag("--yes", given.yes, "Do not ask");
}

Result<PromoteOptions> promote_options(const PromoteArguments& given) {
  PromoteOptions options{.from = given.from,
                         .to = given.to,
                         .oplog = given.oplog,
                         .restore_report = given.restore_report,
                         .alike = given.alike,
                         .merge_later = given.merge_later,
                         .leave_gap = given.leave_gap};
  for (const auto& [text, moment] : {std::pair(&given.limit, &options.limit),
                                     std::pair(&given.mistake_to, &options.mistake_to)}) {
    if (text->empty()) continue;
    const Result<Timestamp> parsed = parse_timestamp(*text);
    if (!parsed) return error_in(parsed);
    *moment = *parsed;
  }
  Result<NamespaceFilter> filter = NamespaceFilter::of(given.include, given.exclude);
  if (!filter) return error_in(filter);
  options.filter = *std::move(filter);
  for (const std::string& text : given.counters) {
    Result<CounterField> counter = parse_counter_field(text);
    if (!counter) return error_in(counter);
    options.counters.push_back(*std::move(counter));
  }
  return options;
}

// ---- output

std::string_view op_text(Op op) {
  return op == Op::kInsert   ? "insert"
         : op == Op::kUpdate ? "update"
         : op == Op::kDelete ? "delete"
                             : "write";
}

std::string id_text(const std::string& element) {
  const std::string json = to_relaxed_json(only_id_of(element).view());  // { "_id" : VALUE }
  const std::size_t begin = json.find(':') + 2;
  return json.size() > begin + 2 ? json.substr(begin, json.size() - begin - 2) : json;
}

void print_later(Output& out, const PromotePlan& plan) {
  const bool merges = plan.options.merge_later;
  for (const auto& [ns, collection] : plan.later.collections) {
    if (collection.documents.empty()) continue;
    const std::uint64_t lost = collection.lost();
    const std::uint64_t of_mistake = collection.lost_of_mistake();
    out.write("\n");
    out.write_line(ns + ": " + print_count(collection.documents.size(), "document") +
                   " written since the limit, " + print_count(static_cast<double>(lost)) +
                   " of them lost" +
                   (plan.options.mistake_to && of_mistake != 0
                        ? " (" + print_count(static_cast<double>(of_mistake)) +
                              " written to in the mistake only)"
                        : "") +
                   (collection.dropped ? "; it was dropped as well" : ""));
    std::size_t listed = 0;
    for (const auto* const row : in_order_of_id(collection)) {
      const auto& [element, document] = *row;
      if (document.loss == Loss::kNone) continue;
      if (++listed > kListed) {
        out.write_line("  ... --json lists all of them");
        break;
      }
      out.write_line("  " + id_text(element) + ", last " + std::string(op_text(document.last)) +
                     ", " + print_count(document.writes, "write") +
                     (merges ? ", " + std::string(in_words(document.loss))
                      : document.mistaken != 0 && plan.options.mistake_to ? ", in the mistake"
                                                                          : ""));
    }
  }
}

void print_promote_plan(Output& out, const PromotePlan& plan) {
  print_fact(out, "from", plan.state.from);
  print_fact(out, "to", redacted(plan.options.to));
  print_fact(out, "limit",
             print_timestamp(plan.state.limit) + " (" + print_seconds(plan.state.limit) + ")");
  if (plan.resumed) {
    print_fact(out, "goes on",
               "with the promotion " + plan.state.id + ", at the step " +
                   std::string(name(plan.state.step)));
    return;
  }
  for (const PlannedItem& each : plan.items) {
    const std::string was = each.now == 0 ? "nothing" : print_count(each.now, "document");
    const std::string& ns = each.item.ns;
    if (each.item.view) {
      print_fact(out, "make", ns + ", a view");
    } else if (each.item.in_place) {
      print_fact(out, "in place", ns + ": its counters are raised, and it is not replaced");
    } else {
      std::string what = ns;
      what.append(": ").append(was).append(" by ");
      print_fact(out, "replace", what.append(print_count(each.documents, "document")));
    }
  }
  for (const PlannedRefusal& each : plan.left) print_fact(out, "left", each.ns + ": " + each.why);
  for (const std::string& note : plan.notes) print_fact(out, "note", note);
  for (const PlannedRefusal& each : plan.refused)
    print_fact(out, "REFUSED", each.ns + ": " + each.why);
  print_later(out, plan);
  if (plan.is_empty()) {
    out.write("Nothing is to be set back.\n");
  } else {
    out.write("\n");
    out.write_line("Lost: " + print_count(plan.lost(), "document") +
                   " that production wrote since the limit" +
                   (plan.options.merge_later || plan.later.documents == 0
                        ? ""
                        : ", and what it writes until the writers are blocked") +
                   ". Writers are blocked until it is done.");
    if (const std::uint64_t unlike = plan.lost_unlike(); unlike != 0)
      out.write_line(
          "To " + print_count(unlike, "document") +
          " of these, only entries unlike the mistake's first and last one (of another kind, or "
          "that change other fields) wrote in its time: --mistake-alike keeps these. Look at "
          "some of them first, as a mistake may have more than two parts.");
  }
}

Json id_json(const std::string& element) {
  return Json::parse(to_relaxed_json(only_id_of(element).view()))["_id"];
}

Json json_of(const std::vector<PlannedRefusal>& rows) {
  Json all = Json::array();
  for (const PlannedRefusal& each : rows) all.push_back({{"ns", each.ns}, {"why", each.why}});
  return all;
}

Json json_of(const PromotePlan& plan) {
  Json items = Json::array();
  for (const PlannedItem& each : plan.items)
    items.push_back({{"ns", each.item.ns},
                     {"in_place", each.item.in_place},
                     {"view", each.item.view},
                     {"documents", each.documents},
                     {"bytes", each.bytes},
                     {"replaces", each.now}});
  Json later = Json::array();
  for (const auto& [ns, collection] : plan.later.collections) {
    for (const auto* const row : in_order_of_id(collection)) {
      const auto& [element, document] = *row;
      later.push_back({{"ns", ns},
                       {"_id", id_json(element)},
                       {"last", op_text(document.last)},
                       {"writes", document.writes},
                       {"by_mistake", document.by_mistake},
                       {"lost", document.loss != Loss::kNone}});
      if (plan.options.merge_later && document.loss != Loss::kNone)
        later.back()["why"] = in_words(document.loss);
    }
  }
  return {{"from", plan.state.from},
          {"to", redacted(plan.options.to)},
          {"id", plan.state.id},
          {"limit", print_timestamp(plan.state.limit)},
          {"resumed", plan.resumed},
          {"step", name(plan.state.step)},
          {"items", std::move(items)},
          {"left", json_of(plan.left)},
          {"refused", json_of(plan.refused)},
          {"lost_unlike", plan.lost_unlike()},
          {"later", std::move(later)},
          {"notes", plan.notes}};
}

Json json_of(const std::vector<NamedLoss>& losses) {
  Json all = Json::array();
  for (const NamedLoss& each : losses)
    all.push_back({{"ns", each.ns},
                   {"_id", id_json(each.lost.id)},
                   {"why", each.lost.why},
                   {"in", each.lost.in}});
  return all;
}

bool is_put_back(const PromoteReport& report, const FencedSource& source) {
  return std::ranges::find(report.put_back, source.label()) != report.put_back.end();
}

std::string_view word_of(FenceOutcome outcome, bool is_put_back) {
  if (is_put_back || outcome == FenceOutcome::kMade) return "put back";
  return outcome == FenceOutcome::kAsItWas ? "left" : "raised";
}

Json json_of(const PromoteReport& report) {
  Json json = {{"id", report.id},
               {"step", name(report.step)},
               {"resumed", report.resumed},
               {"documents", report.documents},
               {"merged", report.merged},
               {"not_merged", json_of(report.unmerged)},
               {"promoted", report.promoted},
               {"in_place", report.in_place},
               {"kept", Json::array()},
               {"notes", report.notes}};
  for (const KeptCollection& each : report.kept) json["kept"].push_back(each.ns);
  for (const KeptCollection& each : report.kept) {
    if (!each.written) continue;
    json["written_there"][each.ns] = *each.written;
    Json& ids = json["only_there"][each.ns] = Json::array();
    for (const std::string& id : each.ids) ids.push_back(id_json(id));
  }
  json["lost"] = json_of(report.planned);
  json["lost_since_plan"] = json_of(report.unlisted);
  Json counters = Json::array();
  if (report.fence) {
    for (const FencedSource& each : report.fence->sources)
      counters.push_back({{"source", each.label()},
                          {"outcome", word_of(each.outcome, is_put_back(report, each))},
                          {"note", each.note}});
    for (const FencedDocument& each : report.fence->documents)
      counters.push_back(
          {{"document", each.label()}, {"outcome", word_of(each.outcome, false)}, {"to", each.to}});
  }
  json["counters"] = std::move(counters);
  return json;
}

// Prints the outcome for each sequence, pool and counter document.
void print_fence_facts(Output& out, const PromoteReport& report) {
  if (!report.fence) return;
  for (const FencedSource& each : report.fence->sources) {
    const std::string next = each.counters.size() == 1
                                 ? ", its next value is " + std::to_string(each.counters.front().to)
                                 : std::string();
    print_fact(out, word_of(each.outcome, is_put_back(report, each)),
               each.label() + next + (each.past.empty() ? "" : ", past " + each.past));
  }
  for (const FencedDocument& each : report.fence->documents)
    print_fact(
        out, word_of(each.outcome, false),
        each.label() + (each.outcome == FenceOutcome::kAsItWas ? std::string()
                                                               : " to " + std::to_string(each.to)));
}

void print_lost(Output& out, std::string_view word, const std::vector<NamedLoss>& losses) {
  std::size_t listed = 0;
  for (const NamedLoss& each : losses) {
    if (++listed > kListed) {
      out.write_line("  ... the same command with --json lists more of them");
      return;
    }
    std::string in = each.lost.in.empty() ? "; in no collection any more" : "";
    for (const std::string& ns : each.lost.in) in += (in.empty() ? "; in " : " and ") + ns;
    print_fact(out, word, each.ns + ", " + id_text(each.lost.id) + ": " + each.lost.why + in);
  }
}

void print_promoted(Output& out, const PromoteReport& report, const std::string& uri) {
  out.write("\n");
  out.write_line("Promoted" +
                 std::string(report.resumed ? ", going on with a run before this one." : "."));
  print_fact(out, "documents", print_count(report.documents, "document") + " copied by this run");
  if (report.merged != 0) print_fact(out, "merged", print_count(report.merged, "document"));
  if (!report.planned.empty())
    print_fact(out, "lost",
               print_count(report.planned.size(), "document") +
                   " that the plan names: until --finish the same command with "
                   "--json lists them");
  print_lost(out, "not merged", report.unmerged);
  print_lost(out, "lost", report.unlisted);
  print_fence_facts(out, report);
  for (const KeptCollection& each : report.kept) print_fact(out, "kept", each.ns);
  for (const std::string& each : report.notes) print_fact(out, "note", each);
  const std::string to = shell_word(redacted(uri));
  out.write("\nThe old collections take room until you are sure:\n  idmint-restore promote --to " +
            to + " --finish\nUntil then it can be given up:\n  idmint-restore promote --to " + to +
            " --undo\n");
}

// The command as it was given, but for --dry-run and --yes.
std::string promote_command(const PromoteArguments& given) {
  std::string command = "idmint-restore promote";
  const auto add = [&](std::string_view option, const std::string& value) {
    if (!value.empty()) command.append(" ").append(option).append(" ").append(shell_word(value));
  };
  add("--from", redacted(given.from));
  add("--to", redacted(given.to));
  for (const std::string& each : given.include) add("--ns", each);
  for (const std::string& each : given.exclude) add("--exclude", each);
  add("--limit", given.limit);
  add("--restore-report", given.restore_report);
  add("--oplog", given.oplog);
  for (const std::string& each : given.counters) add("--counter", each);
  if (given.leave_gap) command += " --leave-gap";
  add("--mistake-to", given.mistake_to);
  if (given.alike) command += " --mistake-alike";
  if (given.merge_later) command += " --merge-later";
  return command;
}

void print_dry_run_end(Output& out, const PromotePlan& plan, const std::string& command) {
  out.write("Nothing was written: this is a dry run.\n");
  if (!plan.refused.empty() || plan.is_empty()) return;
  if (!plan.resumed && !plan.options.merge_later && plan.lost() != 0) {
    const bool known = plan.options.mistake_to.has_value();
    out.write("\nKeep the later documents that the mistake did not write to");
    out.write(known ? ":\n" : "; S:O is its last entry,\n\"to\" of find:\n");
    out.write("  " + command + (known ? "" : " --mistake-to S:O") + " --merge-later --dry-run\n");
    out.write("Or lose them:\n  " + command + "\n");
  } else {
    out.write("\nDo it:\n  " + command + "\n");
  }
}

// ---- actions

// The user types a word, because a y is typed too easily.
Result<void> confirm_typed(Context& context, bool yes, std::string_view word,
                           std::string_view what) {
  if (yes) return {};
  if (context.json || ::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1)
    return fail(Code::kFailedPrecondition,
                std::string("nothing was written: ") +
                    (context.json ? "--json asks nothing" : "there is no terminal to ask on") +
                    "; add --yes to " + std::string(what) +
                    ", or --dry-run to see what would be done");
  context.out.write("Type " + std::string(word) + " to " + std::string(what) + ": ");
  context.out.flush();
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == word) return {};
  return fail(Code::kFailedPrecondition, "nothing was written");
}

void print_kept(Output& out, const KeptCollection& kept, bool undone) {
  if (kept.written == 0) {
    print_fact(out, "kept", kept.ns + ": all that it has is elsewhere too; drop it by hand");
    return;
  }
  print_fact(out, "kept",
             kept.ns + ": " +
                 (kept.written ? print_count(*kept.written, "document") + " of it"
                               : std::string("what programs wrote to it")) +
                 " may be nowhere else" +
                 (undone ? ": promote --merge-later takes over what it can, and its --finish says "
                           "what is left"
                         : "; compare by hand, and drop it then"));
  // After a finish nothing lists them again.
  const std::size_t listed = undone ? std::min(kept.ids.size(), kListed) : kept.ids.size();
  for (std::size_t i = 0; i < listed; ++i) out.write_line("  " + id_text(kept.ids[i]));
  if (kept.ids.size() > listed) out.write_line("  ... --json lists more of them");
}

void print_end(Context& context, const PromoteReport& report, bool undone, std::string_view done) {
  if (context.json) {
    context.out.write(json_of(report).dump() + "\n");
    return;
  }
  context.out.write_line(done);
  print_fence_facts(context.out, report);
  for (const KeptCollection& each : report.kept) print_kept(context.out, each, undone);
  for (const std::string& each : report.notes) print_fact(context.out, "note", each);
}

Result<void> go_back(Context& context, const PromoteArguments& given, const PromoteOptions& options,
                     OnTerminal& watch) {
  const bool undo = given.undo;
  if (given.dry_run) return refuse("--dry-run is of a promotion: --undo and --finish have none");
  Result<void> confirmed = confirm_typed(context, given.yes, undo ? "undo" : "finish",
                                         undo ? "give the promotion up" : "drop what was before");
  if (!confirmed) return confirmed;
  const Result<PromoteReport> report =
      undo ? undo_promotion(options, watch) : finish_promotion(options, watch);
  watch.end();
  if (!report) return error_in(report);
  print_end(context, *report, undo,
            undo ? "Undone: the old collections are in their places, and writers are let in."
            : report->kept.empty()
                ? "Finished: what was before the promotion is dropped."
                : "Finished: what was before the promotion is dropped, but for what is kept.");
  return {};
}

Result<void> promote_all(Context& context, const PromoteArguments& given, OnTerminal& watch) {
  Result<PromoteOptions> options = promote_options(given);
  if (!options) return error_in(options);
  if (given.undo || given.finish) return go_back(context, given, *options, watch);
  if (options->from.empty()) return refuse("give --from URI, the restored server");
  Result<PromotePlan> plan = plan_promotion(*std::move(options), watch.of("entries of the oplog"));
  watch.end();
  if (!plan) return error_in(plan);
  if (!context.json) print_promote_plan(context.out, *plan);
  if (given.dry_run) {
    if (context.json) context.out.write(json_of(*plan).dump() + "\n");
    if (!context.json) print_dry_run_end(context.out, *plan, promote_command(given));
    if (!plan->refused.empty()) context.status = exit_status(Code::kFailedPrecondition);
    return {};
  }
  if (plan->refused.empty() && !plan->is_empty()) {
    Result<void> confirmed =
        confirm_typed(context, given.yes, "promote", "block the writers and set production back");
    if (!confirmed) return confirmed;
  }
  context.out.flush();
  const Result<PromoteReport> report = promote(*plan, watch);
  watch.end();
  if (!report) return error_in(report);
  if (context.json) {
    Json json = json_of(*plan);
    json["report"] = json_of(*report);
    context.out.write(json.dump() + "\n");
  } else if (report->step == PromoteStep::kOpened) {
    print_promoted(context.out, *report, given.to);
  }
  return {};
}

Result<void> run_promote(Context& context, const PromoteArguments& given) {
  OnTerminal watch(context);
  Result<void> done = promote_all(context, given, watch);
  watch.end();
  return or_stopped(std::move(done), context,
                    "stopped: the same command goes on where it was, and --undo goes back; writers "
                    "may be blocked until then");
}

}  // namespace

const Command kPromote = {
    "promote", "Put restored collections into production, or undo that",
    with_options<PromoteArguments, add_promote, run_promote>,
    R"(Production's writers are blocked: counters of idmint are closed, and collections
refuse inserts and updates. Every counter is raised past its last live value and
stays where it is. The collections are copied under other names, compared with
the spare, and swapped with the old ones, which are kept as
NAME.before-restore-DATE until --finish; until then --undo puts them back. After
any kill the same command goes on.

Without --ns every collection that was written since the limit is set back.
The plan lists the documents that this loses.

Examples:
  $ idmint-restore promote --from mongodb://127.0.0.1:27117/ \
      --to mongodb://db1,db2,db3/?replicaSet=rs0 --ns shop.orders --dry-run
  $ idmint-restore promote --to mongodb://db1,db2,db3/?replicaSet=rs0 --finish
)"};

}  // namespace idmint::restore
