// workers: the holders of a pool's worker ids, and taking worker ids from holders that are gone.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "advice/diagnosis.h"
#include "base/errors.h"
#include "base/quantity.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/numbers_option.h"
#include "cli/source_options.h"
#include "cli/store_option.h"
#include "idmint/clock.h"
#include "idmint/sequence.h"
#include "ids/lease_table.h"

namespace idmint::cli {

using namespace advice;

namespace {

// As given; empty: not given.
struct WorkersOptions {
  std::string action;
  std::string pool;
  std::string worker;
  std::string past;
  bool all = false;
  bool numbers = false;
};

void add_workers(CLI::App& command, WorkersOptions& given) {
  command.add_option("ACTION", given.action, "list, release or raise")->required()->type_name("");
  command.add_option("POOL", given.pool, "A pool (create --kind pool)")->required()->type_name("");
  command.add_option("WORKER", given.worker, "release: the worker id")->type_name("");
  command.add_option("--past", given.past, "raise: no id of this time or before comes any more")
      ->type_name("TIME");
  command.add_flag("--all", given.all, "list: also those that nobody has used");
  add_numbers(command, given.numbers);
  add_store(command);
}

using namespace std::chrono_literals;

std::string time_text(const PoolDefinition& pool, std::int64_t units) {
  const std::optional<Instant> at = time_of(pool.layout, units);
  return at ? format_exact_time(*at) : "after 2262";
}

Row row_of(const PoolDefinition& pool, const LeaseState& state) {
  const bool minted = state.minted_until != 0;
  return {std::to_string(state.worker),
          state.token == Uuid{} ? "-" : state.holder,
          std::to_string(state.generation),
          minted ? time_text(pool, state.minted_until) : "-",
          minted ? std::to_string(state.minted_until) : "-",
          state.token == Uuid{} ? "-"
          : is_owned(state) ? print_duration(std::chrono::duration<double>(state.held_for).count())
                            : "over"};
}

Result<void> list(Context& context, const WorkersOptions& given, Mint& mint,
                  const PoolDefinition& pool) {
  const Result<std::vector<LeaseState>> all = mint.list_workers(pool.name);
  if (!all) return std::unexpected(all.error());
  const std::int64_t owned = std::ranges::count_if(*all, is_owned);
  const std::optional<Instant> from = leased_from(pool.layout, *all, system_clock().now());
  // Those that nobody has used: since they were made, or were raised together.
  const std::int64_t least = std::ranges::min(*all, {}, &LeaseState::minted_until).minted_until;
  const auto is_unused = [&](const LeaseState& state) {
    return state.token == Uuid{} && state.minted_until == least;
  };
  const std::int64_t unused = std::ranges::count_if(*all, is_unused);
  const bool brief = !given.all && (unused > 1 || least == 0);
  std::vector<LeaseState> listed;
  std::ranges::copy_if(*all, std::back_inserter(listed),
                       [&](const LeaseState& state) { return !brief || !is_unused(state); });
  const std::int64_t left_out = std::ssize(*all) - std::ssize(listed);
  if (context.json) {
    const Result<std::string> store = mint.store_url();
    if (!store) return std::unexpected(store.error());
    context.out.write(json_workers(pool, {listed, owned, left_out, from}, *store, given.numbers) +
                      "\n");
    return {};
  }
  std::vector<Row> rows;
  for (const LeaseState& state : listed) rows.push_back(row_of(pool, state));
  if (!rows.empty())
    print_table(context.out,
                {{"WORKER", Align::kRight},
                 {"HELD BY"},
                 {"GENERATION", Align::kRight},
                 {"MINTED UNTIL"},
                 {"UNITS", Align::kRight},
                 {"HELD FOR"}},
                rows);
  if (left_out != 0)
    context.out.write(
        "not listed: " + std::to_string(left_out) + " " +
        (least == 0 ? "never used" : "not used from " + time_text(pool, least) + " on") +
        " (--all lists them)\n");
  context.out.write(std::to_string(owned) + " of " + std::to_string(all->size()) +
                    " worker ids are owned" +
                    (from ? "; none can be leased before " + format_exact_time(*from) : "") + "\n");
  return {};
}

Result<void> release(Context& context, const WorkersOptions& given, Mint& mint,
                     const PoolDefinition& pool) {
  const Result<std::int64_t> worker = whole_number("WORKER", given.worker, 0, pool.workers - 1);
  if (!worker) return std::unexpected(worker.error());
  const Result<LeaseState> was = mint.release_worker(pool.name, *worker);
  if (!was) return std::unexpected(was.error());
  if (context.json) {
    context.out.write(json_released(pool, *was, given.numbers) + "\n");
    return {};
  }
  const std::string which = "worker id " + std::to_string(*worker) + " of " + pool.name;
  if (was->token == Uuid{}) {
    context.out.write("nobody owned " + which + "\n");
    return {};
  }
  context.out.write_line("released " + which + ", held by " +
                         (was->holder.empty() ? "somebody without a name" : was->holder) +
                         " under generation " + std::to_string(was->generation));
  report_notice("its holder may mint on below " + time_text(pool, was->minted_until) +
                    ", which is safe: the next one begins there",
                false);
  return {};
}

Result<void> raise(Context& context, const WorkersOptions& given, Mint& mint,
                   const PoolDefinition& pool) {
  const Result<Instant> past = parse_time(given.past);
  if (!past) return refuse("--past: " + past.error().message());
  if (*past > system_clock().now() + 24h)
    return refuse(
        "--past is " + format_exact_time(*past) +
        ", more than a day ahead of this host's clock: nothing could be minted until then, "
        "and there is no way back; a minute past the time when the last one stopped will do");
  const Result<std::int64_t> floor = mint.raise_pool(pool.name, *past);
  if (!floor && floor.error().code == Code::kOutOfRange)
    return refuse(worded(floor.error()).message());
  if (!floor) return std::unexpected(floor.error());
  report_notice("no process may mint from " + pool.name +
                    " while it is raised: if one did, stop it, raise the pool a minute past that, "
                    "and start it again then",
                context.json);
  context.out.write(context.json
                        ? json_pool_raised(pool, *floor, *past, given.numbers) + "\n"
                        : "raised " + pool.name + " past " + format_exact_time(*past) +
                              ": nobody owns a worker id of it, and no id of that time or before "
                              "comes any more\n");
  return {};
}

Result<void> run_workers(Context& context, const WorkersOptions& given) {
  struct Action {
    std::string_view name;
    bool worker;  // what it takes
    bool past;
    bool all;
    Access access;
    Result<void> (*run)(Context& context, const WorkersOptions& given, Mint& mint,
                        const PoolDefinition& pool);
  };
  constexpr std::array actions = {
      Action{"list", false, false, true, Access::kReadOnly, list},
      Action{"release", true, false, false, Access::kReadWrite, release},
      Action{"raise", false, true, false, Access::kReadWrite, raise},
  };
  const auto* const action = std::ranges::find(actions, given.action, &Action::name);
  if (action == actions.end())
    return refuse("there is no action \"" + shortened(given.action) +
                  "\": give list, release or raise");
  const std::string name(action->name);
  if (given.worker.empty() == action->worker)
    return refuse(action->worker ? "which one? Give idmint workers release POOL WORKER"
                                 : "workers " + name + " takes no worker id: leave it out");
  if (given.past.empty() == action->past)
    return refuse(
        action->past
            ? "past what? Give --past TIME, a minute after the last one that minted stopped"
            : "--past is for workers raise: leave it out");
  if (given.all && !action->all) return refuse("--all is for workers list: leave it out");
  Mint mint = open_mint(context, action->access);
  const Result<SequenceStatus> status = mint.peek(given.pool);
  if (!status) return std::unexpected(status.error());
  const auto* const pool = std::get_if<PoolDefinition>(&status->definition);
  if (pool == nullptr)
    return std::unexpected(Error{Code::kFailedPrecondition,
                                 "\"" + given.pool +
                                     "\" is no pool: only pools have worker ids (idmint create "
                                     "NAME --kind pool)"});
  return action->run(context, given, mint, *pool);
}

}  // namespace

const Command kWorkers = {
    "workers", "Show, release and raise the worker ids of a pool",
    with_options<WorkersOptions, add_workers, run_workers>,
    R"(list     who holds which worker id, until when ids may have been minted under
         it, and how long its lease still lasts
release  takes a worker id from its holder. The holder may still mint below its
         bound, which is safe: the next owner begins there.
raise    takes all worker ids from their holders, and lets none mint an id of
         TIME or before. Use it after a restore from a backup, while nobody
         mints: TIME is a minute after the last process stopped, because ids
         may be ahead of the clock. With a --window above 29s or a unit above
         10s, add two windows and a unit.
         There is no way back, so TIME is at most a day ahead of this clock.

Examples:
  $ idmint create web --kind pool
  $ idmint workers list web
  $ idmint workers release web 3
  $ idmint workers raise web --past 2026-01-01T12:00:00Z
)"};

}  // namespace idmint::cli
