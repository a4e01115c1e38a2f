// plan: what fits the needs, in 80 columns.
#include "advice/plan.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "advice/needs.h"
#include "advice/plan_json.h"
#include "advice/plan_words.h"
#include "base/quantity.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "idmint/clock.h"
#include "idmint/store.h"

namespace idmint::cli {

using namespace advice;

namespace {

struct PlanOptions {
  NeedsTexts needs;
  bool all = false;  // also the choices that do not fit
};

// The recommended choice and two others are enough for most readers.
constexpr std::size_t kFewChoices = 3;

void add_plan(CLI::App& command, PlanOptions& given) {
  NeedsTexts& needs = given.needs;
  command.add_option("--digits", needs.digits, "Exactly N printed decimal digits, 1 to 36")
      ->type_name("N");
  command.add_option("--bits", needs.bits, "At most N bits, 1 to 160 (instead of --digits)")
      ->type_name("N");
  command.add_option("--count", needs.count, "How many ids in all (1e9)")->type_name("N");
  command.add_option("--hosts", needs.hosts, "How many hosts mint them (1)")->type_name("N");
  command.add_option("--rate", needs.rate, "Ids a second, on all hosts together (1000/s)")
      ->type_name("N/s");
  command
      .add_option("--order", needs.order, "none, per-host; on all hosts: strict, gapless (none)")
      ->type_name("O");
  command
      .add_option(
          "--database", needs.database,
          "Where the ids are the key: none, mongodb, postgresql, mysql, sqlite, redis (none)")
      ->type_name("D");
  command
      .add_option("--round-trip", needs.round_trip,
                  "Time of a durable change of the store (1ms; 25ms if several hosts share it)")
      ->type_name("T");
  command.add_flag("--shared-store", needs.shared_store,
                   "There is a store that all hosts reach (as --database mongodb is)");
  command.add_flag("--unguessable", needs.unguessable,
                   "Nobody who knows some ids can guess others");
  command.add_flag("--all", given.all,
                   "Also the other sources that fit, and those that do not, with the reasons");
}

// ---- text

// Groups them by reason.
void print_unfitting(Output& out, const std::vector<Choice>& choices) {
  std::vector<std::pair<std::string, std::string>> reasons;  // sources, reason
  for (const Choice& choice : choices) {
    const auto same =
        std::ranges::find(reasons, choice.reason, &std::pair<std::string, std::string>::second);
    if (same == reasons.end()) {
      reasons.emplace_back(choice.source, choice.reason);
    } else {
      same->first += ", " + choice.source;
    }
  }
  for (auto& [sources, reason] : reasons) {
    sources.append(": ").append(reason);
    print_wrapped(out, "  ", 4, sources);
  }
}

std::string one_digit(double bytes) {
  const double tenths = std::round(bytes * 10);
  std::string text = std::to_string(static_cast<long long>(tenths) / 10);
  if (const auto rest = static_cast<long long>(tenths) % 10; rest != 0) {
    text += "." + std::to_string(rest);
  }
  return text;
}

std::string ids(const Needs& needs) {
  return print_count(needs.count) + (needs.count == 1 ? " id" : " ids");
}

std::string repeats(const Needs& needs, const Choice& choice) {
  if (choice.odds_of_a_repeat) {
    if (needs.count == 1) return "none: there is one id";
    return *choice.odds_of_a_repeat == 0
               ? "none, as long as one process makes them all"
               : "any repeat among all of them: at most " + print_odds(*choice.odds_of_a_repeat);
  }
  std::string text = "none";
  if (choice.guarantee == Guarantee::kUniqueIfConfigured) {
    text += choice.workers ? ", if no two generators use one worker id"
                           : ", if no two hosts have one block";
  }
  if (choice.redraws && choice.odds_that_the_last_collides && needs.count > 1) {
    text += ": each is claimed; the last insert collides with odds of " +
            print_odds(*choice.odds_that_the_last_collides) +
            (*choice.redraws < 0.5
                 ? ", no redraws to be expected"
                 : ", about " + print_count(std::round(*choice.redraws)) + " redraws in all");
  }
  return text;
}

std::string lasts(const Needs& needs, const Choice& choice) {
  std::string text = ids(needs) + (needs.count == 1 ? " takes " : " take ") +
                     print_duration(choice.seconds_to_count);
  constexpr double kNobodyWaits = 1000 * 365.25 * 86'400;
  if (choice.seconds_to_end < kNobodyWaits) {
    text += "; all " + print_count(choice.space) + " take " + print_duration(choice.seconds_to_end);
  }
  if (choice.block) text += "; a block has " + print_count(*choice.block);
  if (choice.time_ends) text += "; its time ends " + print_day(*choice.time_ends);
  return text;
}

std::string print_size(double bytes) {
  constexpr std::array units = {" bytes", " kB", " MB", " GB", " TB", " PB"};
  std::size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < units.size(); ++unit) bytes /= 1000;
  return one_digit(bytes) + units[unit];
}

std::string bytes(const Needs& needs, const Choice& choice) {
  std::string text;
  for (const Stored& form : choice.stored) {
    text += (text.empty() ? "" : "; ") + form.type + ": " + one_digit(form.row_bytes) +
            " in the row, " +
            (form.index_bytes == 0 ? "no index"
                                   : one_digit(form.index_bytes) + " in the index (" +
                                         print_size(needs.count * form.index_bytes) + " for all)");
  }
  return text;
}

// Prints each command in one piece, to be copied. If hosts must not run the same one, none is
// labelled as for all.
void print_commands(Output& out, const Needs& needs, const Choice& choice) {
  const std::string note = note_of(needs, choice);
  const std::string command = command_of(choice.steps);
  if (command.empty()) return print_fact(out, "command", note);
  const std::string next_host = command_of(choice.of_next_host);
  if (next_host.empty()) {
    out.write("  command       " + command + "\n");
  } else {
    out.write("  first host    " + command + "\n");
    out.write("  second host   " + next_host + "\n");
  }
  if (!note.empty()) print_fact(out, "", note);
}

std::string told_odds(const WorkerTerms& terms) {
  const double least = terms.odds_of_share.value_or(0);
  const double most = terms.most_odds_of_share.value_or(least);
  return most > least ? print_odds(least) + " (one address each) to " + print_odds(most) +
                            " (several consecutive ones)"
                      : print_odds(least);
}

void print_terms(Output& out, const std::vector<WorkerTerms>& all) {
  print_fact(out, "--worker", "where they can come from:");
  for (const WorkerTerms& terms : all) {
    std::string origin = "                " + std::string(terms.origin);
    origin.resize(27, ' ');
    print_wrapped(out, std::move(origin), 27,
                  terms.odds_of_share
                      ? condition_of(terms) + "; two share one with odds of " + told_odds(terms)
                      : "unique " + condition_of(terms));
  }
}

void print_choice(Output& out, const Needs& needs, const Choice& choice) {
  print_fact(out, "what", choice.about);
  print_fact(out, "why", choice.reason);
  print_commands(out, needs, choice);
  print_fact(out, "guarantee", std::string(name(choice.guarantee)) + "; in order: " + choice.order);
  print_fact(out, "repeats", repeats(needs, choice));
  print_fact(out, "lasts", lasts(needs, choice));
  if (choice.workers) {
    print_fact(
        out, "worker ids",
        print_count(needs.hosts) + " of " + print_count(*choice.workers) + " used" +
            (needs.hosts > 1 && choice.odds_of_shared_worker
                 ? "; drawn or hashed from hardware addresses, two of them would share one "
                   "with odds of " +
                       print_odds(*choice.odds_of_shared_worker) + " or more: give them out instead"
                 : ""));
    if (needs.hosts > 1 && !choice.worker_terms.empty()) print_terms(out, choice.worker_terms);
  }
  print_fact(out, "speed", choice.speed);
  if (choice.store_writes_per_second >= 0.5) {
    print_fact(out, "store",
               print_count(std::round(choice.store_writes_per_second)) +
                   " durable writes a second at that rate" +
                   (needs.hosts > 1 ? ", of all hosts" : ""));
  }
  print_fact(out, "bytes per id", bytes(needs, choice));
  print_fact(out, "inserts", choice.locality);
  print_fact(out, "clock back", choice.clock_goes_back);
  print_fact(out, "host dies", choice.host_dies);
  print_fact(out, "store down", choice.store_down);
}

// "mongodb:, postgresql:": the stores of this build that several hosts reach; empty: none.
std::string shared_stores() {
  std::string all;
  for (const StoreKind& kind : store_kinds())
    if (kind.shared) all += (all.empty() ? "" : ", ") + std::string(kind.scheme) + ":";
  return all;
}

std::string told(const Needs& needs) {
  std::string text = ids(needs);
  if (needs.digits) text += " of exactly " + std::to_string(*needs.digits) + " digits";
  if (needs.bits) text += " of at most " + std::to_string(*needs.bits) + " bits";
  text += ", " + print_count(needs.hosts) + (needs.hosts == 1 ? " host" : " hosts") + ", " +
          print_rate(needs.rate) + " in all, order " + std::string(name(needs.order)) +
          ", database " + std::string(name(needs.database));
  if (needs.unguessable) text += ", unguessable";
  const bool shared = needs.hosts == 1 || needs.shared_store;
  const std::chrono::duration<double> takes = shared ? needs.round_trip : needs.own_round_trip;
  const std::string stores = shared_stores();
  const std::string such = stores.empty() ? "" : " (" + stores + ")";
  return text +
         (needs.hosts == 1 ? "; a store that takes "
          : shared         ? "; a store that all hosts reach" + such + " and that takes "
                           : "; no store that all hosts reach, and each host's own takes ") +
         print_duration(takes.count());
}

Result<void> run_plan(Context& context, const PlanOptions& given) {
  const Result<Needs> needs = needs_of(given.needs, Words::kOptions);
  if (!needs) return std::unexpected(needs.error());
  const Plan plan = make_plan(*needs, system_clock().now());
  Output& out = context.out;
  const auto refused = [&]() -> Result<void> {
    if (!plan.fitting.empty()) return {};
    if (!plan.lacking_store.empty()) {
      return std::unexpected(Error{
          Code::kFailedPrecondition,
          "nothing in this build fits all of these needs: " + plan.lacking_store.front().source +
              " would, in a store that all hosts reach; ask for less, or "
              "mint on one host"});
    }
    return std::unexpected(
        Error{Code::kFailedPrecondition,
              "nothing fits all of these needs: see what stands in the way of each, and ask for "
              "less"});
  };
  if (context.json) {
    out.write(json_plan(*needs, plan) + "\n");
    return refused();
  }
  const auto heading = [&](const std::string& text) {
    out.write("\n");
    out.write_styled("1", text);
    out.write("\n");
  };
  print_fact(out, "needs", told(*needs));
  print_fact(out, "bytes", plan.storage_note);
  // If nothing fits, the reasons are the answer.
  const bool all = given.all || plan.fitting.empty();
  const std::size_t shown = all ? plan.fitting.size() : std::min(plan.fitting.size(), kFewChoices);
  for (std::size_t i = 0; i < shown; ++i) {
    const Choice& choice = plan.fitting[i];
    heading(i == 0 ? "RECOMMENDED: " + choice.source
                   : std::to_string(i + 1) + ". " + choice.source);
    print_choice(out, *needs, choice);
  }
  if (!all) {
    const std::size_t more = plan.fitting.size() - shown + plan.lacking_store.size();
    out.write("\n" + std::to_string(more) + " more fit, and " +
              std::to_string(plan.unfitting.size()) + " do not: idmint plan ... --all\n");
    return refused();
  }
  for (const Choice& choice : plan.lacking_store) {
    heading("NOT IN THIS BUILD: " + choice.source);
    print_choice(out, *needs, choice);
  }
  if (!plan.unfitting.empty()) {
    heading("Does not fit");
    print_unfitting(out, plan.unfitting);
  }
  return refused();
}

}  // namespace

const Command kPlan = {
    "plan", "Say which source to use, and what it costs",
    with_options<PlanOptions, add_plan, run_plan>,
    R"(Recommends one source and prints two others that fit. With --all it prints every
source that fits, best first, then those that do not, each with its reason.
--json has all of them. No store is opened and nothing is made.
Numbers: 1000, 50k, 2M, 1e9, 10^9. Rates: 50k/s, 600/min, 2M/h, 1e6/d.

Examples:
  $ idmint plan
  $ idmint plan --digits 12 --count 1e9 --hosts 40 --rate 50k/s --order none
  $ idmint plan --digits 12 --hosts 40 --rate 50k/s --shared-store
  $ idmint plan --bits 64 --hosts 40 --order per-host --database postgresql
  $ idmint plan --digits 16 --unguessable --json
)"};

}  // namespace idmint::cli
