// plan-change: when generators of one Snowflake layout can take over from those of another.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

#include "advice/layout_change.h"
#include "base/errors.h"
#include "base/quantity.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/source_options.h"
#include "idmint/clock.h"
#include "ids/snowflake_space.h"

namespace idmint::cli {

using namespace advice;

namespace {

// As given; empty: not given.
struct ChangeOptions {
  std::string from;
  std::string to;
  std::string from_workers;
  std::string to_workers;
  std::string at;
  std::string since;
  std::string drift = "20s";
  std::string clock_error = "1s";
};

void add_plan_change(CLI::App& command, ChangeOptions& given) {
  command.add_option("--from", given.from, "The old layout")->required()->type_name("L");
  command.add_option("--to", given.to, "The new layout")->required()->type_name("L");
  command.add_option("--at", given.at, "When the old generators stop and the new ones start (now)")
      ->type_name("TIME");
  command
      .add_option("--from-workers", given.from_workers,
                  "Worker ids of the old generators, such as 0-511 (all)")
      ->type_name("W");
  command.add_option("--to-workers", given.to_workers, "Worker ids of the new generators (all)")
      ->type_name("W");
  command.add_option("--since", given.since, "No old id has an earlier time (that of their epoch)")
      ->type_name("TIME");
  command
      .add_option("--drift", given.drift,
                  "How far old ids may be ahead of the clock of their host (20s)")
      ->type_name("T");
  command
      .add_option("--clock-error", given.clock_error,
                  "How far the clock of any host may be from UTC (1s)")
      ->type_name("T");
}

// "0-511", or a single one; empty: all.
Result<WorkerRange> read_workers(std::string_view option, std::string_view text,
                                 const SnowflakeLayout& layout) {
  const WorkerRange all{0, layout.max_worker()};
  if (text.empty()) return all;
  const std::size_t dash = std::min(text.find('-'), text.size());
  const Result<std::int64_t> least =
      whole_number(option, text.substr(0, dash), all.least, all.most);
  if (!least) return std::unexpected(least.error());
  const Result<std::int64_t> most =
      dash == text.size() ? least : whole_number(option, text.substr(dash + 1), *least, all.most);
  if (!most) return std::unexpected(most.error());
  return WorkerRange{static_cast<std::uint32_t>(*least), static_cast<std::uint32_t>(*most)};
}

Result<LayoutUse> read_use(std::string_view option, const std::string& layout,
                           std::string_view workers) {
  const Result<SnowflakeLayout> read = parse_snowflake_layout(layout);
  if (!read) return refused(option, read.error());
  const Result<WorkerRange> range = read_workers(std::string(option) + "-workers", workers, *read);
  if (!range) return std::unexpected(range.error());
  return LayoutUse{*read, *range};
}

Result<LayoutChange> read_change(const ChangeOptions& given) {
  const Result<LayoutUse> from = read_use("--from", given.from, given.from_workers);
  if (!from) return std::unexpected(from.error());
  const Result<LayoutUse> to = read_use("--to", given.to, given.to_workers);
  if (!to) return std::unexpected(to.error());
  const auto drift = parse_duration(given.drift);
  if (!drift) return refused("--drift", drift.error());
  const auto clock_error = parse_duration(given.clock_error);
  if (!clock_error) return refused("--clock-error", clock_error.error());
  LayoutChange change{.from = *from,
                      .to = *to,
                      .drift = std::max(*drift, drift_of(from->layout, {.max_drift = {}})),
                      .clock_error = *clock_error};
  if (given.since.empty()) return change;
  const Result<Instant> since = time_option("--since", given.since);
  if (!since) return std::unexpected(since.error());
  change.since = *since;
  return change;
}

// Why no integer is an id of both; empty: one is.
std::string proof_of(const LayoutChange& change, const ChangeAnswer& answer) {
  if (answer.shared || !answer.new_ids) return {};
  if (!answer.old_ids) return "there are no old ids: their time has not begun";
  if (answer.old_ids->largest < answer.new_ids->smallest) {
    return "the largest old id is below the smallest new one";
  }
  if (answer.new_ids->largest < answer.old_ids->smallest) {
    return "the largest new id is below the smallest old one";
  }
  if (!can_meet(change)) {
    return "whatever the times, no integer has the fields of an old id and those of a new one";
  }
  return "no integer that is large enough for a new id and small enough for an old one has the "
         "fields of both";
}

std::string told(const LayoutUse& use) {
  return to_string(use.layout) + ", workers " + std::to_string(use.workers.least) + " to " +
         std::to_string(use.workers.most);
}

std::string told(const std::optional<Bounds<Snowflake>>& ids) {
  return ids ? ids->smallest.to_string() + " to " + ids->largest.to_string() : "none";
}

std::string told(const SnowflakeParts& parts) {
  return format_exact_time(parts.time) + ", worker " + std::to_string(parts.worker) +
         ", sequence " + std::to_string(parts.sequence);
}

bool is_one_space(const LayoutChange& change) {
  return space_of(change.from.layout) == space_of(change.to.layout);
}

std::string safe_times(const ChangeAnswer& answer) {
  if (!answer.earliest) return "never, from then on";
  return "from " + format_exact_time(*answer.earliest) + " on, " +
         (answer.safe_until ? "before " + format_exact_time(*answer.safe_until) : "at any time");
}

// The advice if the switch is not safe.
std::string advice(const ChangeAnswer& answer, Instant at) {
  if (answer.earliest) return "a switch is safe " + safe_times(answer);
  if (answer.start) {
    return "stop the old generators by " + format_exact_time(at) + ", and start the new ones at " +
           format_exact_time(*answer.start) + " or later; or take a layout with an earlier epoch";
  }
  return "take a layout with an earlier epoch, or with more time";
}

void print_answer(Output& out, const LayoutChange& change, Instant at, const ChangeAnswer& answer,
                  std::string_view proof) {
  print_fact(out, "from", told(change.from));
  print_fact(out, "to", told(change.to));
  const auto told_span = [](std::chrono::nanoseconds span) {
    return print_duration(std::chrono::duration<double>(span).count());
  };
  print_fact(out, "switch", format_exact_time(at) + ", as are all times here, in UTC");
  print_fact(out, "clocks",
             "each host's is wrong by up to " + told_span(change.clock_error) +
                 "; old ids are ahead of their host's by up to " + told_span(change.drift));
  print_fact(out, "old ids", told(answer.old_ids));
  print_fact(out, "new ids", told(answer.new_ids));
  if (answer.shared) {
    print_fact(out, "answer", "not safe: " + answer.shared->id.to_string() + " is an id of both");
    print_fact(out, "as an old one", told(answer.shared->from));
    print_fact(out, "as a new one", told(answer.shared->to));
  } else if (answer.earliest == at) {
    print_fact(out, "answer", "safe: no integer is an id of both");
  } else {
    print_fact(out, "answer",
               std::string("not possible: the time of the new layout ") +
                   (answer.earliest ? "has not begun" : "has ended"));
  }
  if (!proof.empty()) print_fact(out, "proof", proof);
  print_fact(out, "safe switch", safe_times(answer));
  if (answer.shared && answer.start) {
    print_fact(out, "with a pause",
               "old ones that stop by " + format_exact_time(at) + ", new ones that start at " +
                   format_exact_time(*answer.start) + " or later");
  }
  if (is_one_space(change)) {
    print_fact(out, "note",
               "both are one id space: a generator that keeps its state file goes on in it, and "
               "needs no switch");
  }
}

Result<void> run_plan_change(Context& context, const ChangeOptions& given) {
  const Result<LayoutChange> change = read_change(given);
  if (!change) return std::unexpected(change.error());
  const Result<Instant> at =
      given.at.empty()
          ? Result<Instant>{std::chrono::floor<std::chrono::milliseconds>(system_clock().now())}
          : time_option("--at", given.at);
  if (!at) return std::unexpected(at.error());
  const ChangeAnswer all = answer(*change, *at);
  const std::string proof = proof_of(*change, all);
  if (context.json) {
    context.out.write(json_change(*change, *at, all, proof) + "\n");
  } else {
    print_answer(context.out, *change, *at, all, proof);
  }
  if (all.earliest == *at) return {};
  return std::unexpected(
      Error{Code::kFailedPrecondition,
            std::string(all.shared     ? "old and new ids meet"
                        : all.earliest ? "the time of the new layout has not begun"
                                       : "the time of the new layout has ended") +
                " when the switch is at " + format_exact_time(*at) + ": " + advice(all, *at)});
}

}  // namespace

const Command kPlanChange = {
    "plan-change", "Say when one Snowflake layout can follow another",
    with_options<ChangeOptions, add_plan_change, run_plan_change>,
    R"(Proves that no integer is an id of both if the old generators stop by the time
of the switch and the new ones start then or later, whatever each mints.
Otherwise it prints an id of both with its two times, the earliest safe switch,
if any, and a pause that is long enough; the exit status is then 5. No store is
opened.
All times are UTC; clocks may be wrong by --clock-error (1s), and old ids may be
ahead of the clock of their host by --drift (20s).

Examples:
  $ idmint plan-change --from sequence-generator --to instagram
  $ idmint plan-change --from twitter --to "41t10w12s epoch 2010-01-01" --json
  $ idmint plan-change --from twitter --since 2020-01-01 --to js-safe
  $ idmint plan-change --from twitter --from-workers 0-511 --to discord --to-workers 512-1023
)"};

}  // namespace idmint::cli
