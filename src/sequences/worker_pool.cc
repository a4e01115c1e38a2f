#include "idmint/worker_pool.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/figures.h"
#include "base/unshared.h"
#include "ids/lease_table.h"
#include "ids/snowflake_space.h"
#include "sequences/held_for.h"
#include "sequences/life_cycle.h"
#include "sequences/pool_leases.h"
#include "sequences/range_source.h"
#include "sequences/strategies.h"
#include "store/backend.h"
#include "store/catalog.h"

namespace idmint {

std::string this_process() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {"?"};
  return std::string(host.data()) + ", process " + std::to_string(getpid());
}

namespace {

// For messages.
PoolDefinition of_pool(std::string_view name) { return {.name = std::string(name)}; }

Result<PoolDefinition> find_pool(Store& store, std::string_view name,
                                 SteadyTime until = SteadyTime::max()) {
  const Result<Definition> found = find_definition(store, name, until);
  if (!found && found.error().code == Code::kNotFound)
    return std::unexpected(error_at(store, Code::kNotFound, of_pool(name),
                                    "no such pool; create it",
                                    {Remedy::kCreatePool, std::string(name)}));
  if (!found) return std::unexpected(found.error());
  const auto refuse = [&](const std::string& what) {
    return std::unexpected(error_at(store, Code::kFailedPrecondition, *found, what));
  };
  const auto* const pool = std::get_if<PoolDefinition>(&*found);
  if (pool == nullptr)
    return refuse("it is of strategy " + std::string(strategy_name(*found)) +
                  ": only pools have worker ids");
  if (pool->retired) return refuse("it is retired: nobody has a worker id of it any more");
  if (auto offered = offers(store, *pool); !offered)
    return std::unexpected(std::move(offered.error()));
  return *pool;
}

// Beyond every clock: nobody owns a worker id any more, and none can be acquired or extended.
constexpr std::int64_t kClosedFloor = std::int64_t{1} << 62;

bool is_closed(const LeaseState& state) { return state.minted_until >= kClosedFloor; }

std::string in_seconds(std::chrono::milliseconds time) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", std::chrono::duration<double>(time).count());
  return text.data();
}

// Adds to the error the time at which a worker id can be leased.
Error with_time(Error why, LeaseTable& leases, const PoolDefinition& pool,
                std::chrono::nanoseconds max_drift, Clock& clock, SteadyTime until) {
  if (why.code == Code::kResourceExhausted) {
    const auto held = held_for(leases, pool.name);
    if (held && *held > std::chrono::milliseconds{})
      add_outcome(why, "the first one is held until " + format_time(clock.now() + *held) + " (" +
                           in_seconds(*held) + " from now), unless its owner renews it");
    return why;
  }
  // A store that did not answer in time is not asked again.
  if (why.code != Code::kUnavailable || std::chrono::steady_clock::now() >= until) return why;
  const auto workers = leases.workers(pool.name);
  if (!workers) return why;
  std::int64_t nearest = std::numeric_limits<std::int64_t>::max();
  for (const LeaseState& state : *workers)
    if (!is_owned(state)) nearest = std::min(nearest, state.minted_until);
  const auto begins = time_of(pool.layout, nearest);
  if (begins && *begins - max_drift > clock.now()) {
    add_outcome(why,
                "it is leased again from " + format_time(*begins - max_drift) +
                    " on: a clock that was that far ahead for a moment is enough, and a bound is "
                    "never lowered; to mint before that, make another pool, of a layout that never "
                    "meets this one");
    why.advice = {Remedy::kPlanPool, pool.name};
  }
  return why;
}

// The error of who leased no worker id. `settled`: of the store, before it was asked.
Error not_leased(Error why, Store& store, const PoolDefinition& pool,
                 std::chrono::nanoseconds max_drift, std::int64_t settled, Clock& clock,
                 SteadyTime until) {
  if (why.code == Code::kDataLoss && why.advice.remedy == Remedy::kRaisePool) {
    // A bound that this host was granted is gone. Without the mark, this process alone knows.
    [[maybe_unused]] const Result<void> marked =
        store.mark_gone_back(why.message(), settled, until);
  }
  if (why.code == Code::kNotFound)
    return error_at(
        store, Code::kDataLoss, pool,
        "it is defined, but its worker ids are gone; stop all who mint, then raise the pool "
        "past every bound that was granted, which makes them anew",
        {Remedy::kRaisePool, pool.name});
  return with_time(std::move(why), *store.leases(), pool, max_drift, clock, until);
}

// From now on what the store grants of the pool is compared with what this process was granted.
Result<void> begin_leasing(Store& store, SteadyTime until) {
  const GivingStore from(store, LastIssued::Kind::kBound);
  if (Result<void> is_settled = must_be_settled(from, until); !is_settled) return is_settled;
  if (from.issued() != nullptr) store.leases()->remember_in(*from.issued());
  return {};
}

// What the window of a lease comes to in a layout, at a time.
struct Window {
  // REQUIRES: has_time(layout, at).
  Window(const SnowflakeLayout& layout, std::chrono::milliseconds window, Instant at) : clock(at) {
    const std::int64_t whole = units_of(window, layout.unit);
    const SnowflakeLeaseOptions usual;
    drift = drift_of(layout, {.max_drift = std::max<std::chrono::nanoseconds>(
                                  usual.max_drift, window + usual.max_skew),
                              .window = window});
    terms = {.held = std::chrono::ceil<std::chrono::milliseconds>(layout.unit * whole),
             .clock = clock,
             .max_skew = usual.max_skew};
    const auto since = static_cast<std::uint64_t>(at.time_since_epoch().count()) -
                       static_cast<std::uint64_t>(layout.epoch.time_since_epoch().count());
    now = static_cast<std::int64_t>(since / static_cast<std::uint64_t>(layout.unit.count()));
    latest = std::min(now + drift / layout.unit, last_tick(layout) + 1);
    units = std::min(whole, last_tick(layout) + 1 - now);
  }
  [[nodiscard]] PoolLease around(const PoolDefinition& pool, const Lease& lease) const {
    return {.pool = pool,
            .lease = lease,
            .held = terms.held,
            .clock = clock,
            .now = now,
            .latest = latest};
  }

  Instant clock;
  std::int64_t units = 1;
  std::chrono::nanoseconds drift{};
  LeaseTerms terms{};
  std::int64_t now = 0;
  std::int64_t latest = 0;
};

// Before a lease is taken or extended.
Result<Window> begin_window(Store& store, const SnowflakeLayout& layout,
                            std::chrono::milliseconds window, SteadyTime until, Clock& clock) {
  if (Result<void> begun = begin_leasing(store, until); !begun)
    return std::unexpected(std::move(begun.error()));
  const Instant now = clock.now();
  if (Result<void> there = has_time(layout, now, "make another pool, with"); !there)
    return std::unexpected(std::move(there.error()));
  return Window(layout, window, now);
}

Result<void> check_window(std::string_view pool, std::chrono::milliseconds window) {
  if (window >= kShortestWindow && window <= kLongestWindow) return {};
  return std::unexpected(
      about("pool " + std::string(pool),
            {Code::kInvalidArgument, "a lease has a window of " + print_duration(kShortestWindow) +
                                         " to " + print_duration(kLongestWindow)}));
}

}  // namespace

std::optional<std::chrono::milliseconds> held_for(LeaseTable& leases, std::string_view pool) {
  const Result<std::vector<LeaseState>> workers = leases.workers(pool);
  if (!workers || workers->empty()) return std::nullopt;
  if (!std::ranges::all_of(*workers, is_owned)) return std::chrono::milliseconds{};
  return std::ranges::min(*workers, {}, &LeaseState::held_for).held_for;
}

Result<std::unique_ptr<SnowflakeGenerator>> SnowflakeGenerator::open(Store& store,
                                                                     std::string_view name,
                                                                     SnowflakeLeaseOptions options,
                                                                     Clock& clock,
                                                                     Entropy& entropy) {
  // The two commands share the deadline.
  options.until = std::min(options.until, std::chrono::steady_clock::now() +
                                              std::min(options.deadline, kLongestDeadline));
  const Result<PoolDefinition> found = find_pool(store, name, options.until);
  if (!found) return std::unexpected(found.error());
  return open_pool(store, *found, std::move(options), clock, entropy);
}

Result<std::unique_ptr<SnowflakeGenerator>> open_pool(Store& store, const PoolDefinition& pool,
                                                      SnowflakeLeaseOptions options, Clock& clock,
                                                      Entropy& entropy) {
  if (auto offered = offers(store, pool); !offered)
    return std::unexpected(std::move(offered.error()));
  if (Result<void> begun = begin_leasing(store, options.until); !begun)
    return std::unexpected(std::move(begun.error()));
  options.layout = pool.layout;
  if (options.holder.empty()) options.holder = this_process();
  options.workers = pool.workers;
  const std::int64_t settled = store.settle_count();
  auto opened = open_leased(*store.leases(), pool.name, options, clock, entropy);
  if (!opened)
    return std::unexpected(not_leased(std::move(opened.error()), store, pool,
                                      drift_of(options.layout, options), settled, clock,
                                      options.until));
  return opened;
}

// ---- leases for generators elsewhere

Result<PoolLease> lease_worker(Store& store, std::string_view name, const LeaseWish& wish,
                               SteadyTime until, Clock& clock) {
  if (Result<void> fits = check_window(name, wish.window); !fits)
    return std::unexpected(std::move(fits.error()));
  const Result<PoolDefinition> pool = find_pool(store, name, until);
  if (!pool) return std::unexpected(pool.error());
  const SnowflakeLayout& layout = pool->layout;
  const Result<Window> begun = begin_window(store, layout, wish.window, until, clock);
  if (!begun) return std::unexpected(begun.error());
  const Window& window = *begun;
  LeaseTable& leases = *store.leases();
  const std::int64_t settled = store.settle_count();
  const Uuid token = wish.token != Uuid{} ? wish.token : Uuid(draw_unshared());
  const Result<Lease> lease = leases.acquire(name,
                                             {.token = token,
                                              .repeated = wish.repeated,
                                              .holder = wish.holder,
                                              .workers = pool->workers,
                                              .now = window.now,
                                              .units = window.units,
                                              .max_drift = window.drift / layout.unit,
                                              .unit = layout.unit,
                                              .terms = window.terms},
                                             until);
  if (!lease)
    return std::unexpected(
        not_leased(lease.error(), store, *pool, window.drift, settled, clock, until));
  const bool has_worker = lease->worker <= std::int64_t{layout.max_worker()};
  if (has_worker && lease->to <= last_tick(layout) + 1) return window.around(*pool, *lease);
  [[maybe_unused]] const Result<void> released =
      leases.release(name, lease->worker, lease->token, lease->generation, until);
  if (has_worker)
    return std::unexpected(error_at(store, Code::kOutOfRange, *pool,
                                    "the times of its layout are used up, but for a few of other "
                                    "worker ids: make another pool, with a later epoch or more "
                                    "time bits"));
  return std::unexpected(error_at(store, Code::kDataLoss, *pool,
                                  "it gave worker id " + std::to_string(lease->worker) +
                                      ", and its layout has " +
                                      std::to_string(layout.max_worker()) + " as the last"));
}

Result<PoolLease> extend_lease(Store& store, std::string_view name, const PoolDefinition* known,
                               const Lease& lease, std::int64_t to, const Uuid& nonce,
                               std::chrono::milliseconds its_window, SteadyTime until,
                               Clock& clock) {
  if (Result<void> fits = check_window(name, its_window); !fits)
    return std::unexpected(std::move(fits.error()));
  Result<PoolDefinition> pool = known != nullptr ? *known : find_pool(store, name, until);
  if (!pool) return std::unexpected(std::move(pool.error()));
  const SnowflakeLayout& layout = pool->layout;
  const Result<Window> begun = begin_window(store, layout, its_window, until, clock);
  if (!begun) return std::unexpected(begun.error());
  const Window& window = *begun;
  if (to > std::max(window.latest, lease.to))
    return std::unexpected(error_at(
        store, Code::kOutOfRange, *pool,
        "the new bound is " +
            print_duration(static_cast<double>(to - window.now) *
                           std::chrono::duration<double>(layout.unit)) +
            " ahead of the clock of this server, and " +
            print_duration(std::chrono::duration<double>(window.drift)) +
            " are allowed; nothing was changed: set the clock that is wrong, and extend to less"));
  const Result<Lease> extended =
      store.leases()->extend(name, lease, to, nonce, window.terms, until);
  if (!extended && extended.error().code == Code::kNotFound && lease.worker < pool->workers)
    return std::unexpected(error_at(store, Code::kDataLoss, *pool,
                                    "worker id " + std::to_string(lease.worker) +
                                        " was leased, and is gone: the store has gone back; stop "
                                        "all who mint, then raise the pool past every bound that "
                                        "was granted",
                                    {Remedy::kRaisePool, pool->name}));
  if (!extended) return std::unexpected(extended.error());
  return window.around(*pool, *extended);
}

Result<void> end_lease(Store& store, std::string_view name, const PoolDefinition* known,
                       std::int64_t worker, const Uuid& token, std::int64_t generation,
                       SteadyTime until) {
  if (known == nullptr)
    if (Result<PoolDefinition> pool = find_pool(store, name, until); !pool)
      return std::unexpected(std::move(pool.error()));
  return store.leases()->release(name, worker, token, generation, until);
}

Result<Changed> create_pool(Store& store, const PoolDefinition& pool,
                            const CreateOptions& options) {
  if (auto valid = validate(pool); !valid) return std::unexpected(std::move(valid.error()));
  const auto refuse = [&](Code code, const std::string& what) {
    return std::unexpected(error_at(store, code, pool, what));
  };
  if (pool.retired)
    return refuse(Code::kInvalidArgument, "it cannot be made retired: create it, then retire it");
  if (auto offered = offers(store, pool); !offered)
    return std::unexpected(std::move(offered.error()));
  const Result<Definition> found = store.catalog()->find(pool.name);
  if (found) {
    if (auto agreed = must_agree(store, *found, pool); !agreed)
      return std::unexpected(std::move(agreed.error()));
    const auto& there = std::get<PoolDefinition>(*found);
    const Result<WorkersLeft> workers = workers_left(store, there);
    if (!workers) return std::unexpected(workers.error());
    return Changed{.status = status_with(store, there, *workers)};
  }
  if (found.error().code != Code::kNotFound) return std::unexpected(found.error());
  if (options.may_make)
    if (Result<void> may = options.may_make(); !may) return std::unexpected(std::move(may.error()));

  PoolDefinition complete = pool;
  if (pool.workers == 0)
    complete.workers = std::min<std::int64_t>(PoolDefinition::kUsualWorkers,
                                              std::int64_t{pool.layout.max_worker()} + 1);
  if (const auto made = store.leases()->create_pool(pool.name, complete.workers); !made) {
    if (made.error().code != Code::kAlreadyExists) return std::unexpected(made.error());
    // Another process may have created the pool since find().
    if (const auto now = store.catalog()->find(pool.name)) {
      if (auto agreed = must_agree(store, *now, pool); !agreed)
        return std::unexpected(std::move(agreed.error()));
    }
    return refuse(Code::kFailedPrecondition,
                  "there is a pool of that name with another number of worker ids and no "
                  "definition, left by an interrupted create (" +
                      made.error().message() + "); create it with as many, or choose another name");
  }
  const Result<Defined> defined = store.catalog()->define(complete);
  if (!defined) return std::unexpected(defined.error());
  if (auto agreed = must_agree(store, defined->definition, pool); !agreed)
    return std::unexpected(std::move(agreed.error()));
  const auto& there = std::get<PoolDefinition>(defined->definition);
  if (defined->made) return Changed{status_with(store, there, {.free = there.workers}), true};
  const Result<WorkersLeft> workers = workers_left(store, there);
  if (!workers) return std::unexpected(stores::after_a_write(workers.error()));
  return Changed{.status = status_with(store, there, *workers)};
}

Result<std::vector<LeaseState>> read_workers(Store& store, const PoolDefinition& pool,
                                             SteadyTime until) {
  Result<std::vector<LeaseState>> workers = store.leases()->workers(pool.name, until);
  const bool gone = !workers && workers.error().code == Code::kNotFound;
  if (gone || (workers && std::ssize(*workers) != pool.workers))
    return std::unexpected(
        error_at(store, Code::kDataLoss, pool,
                 "it is defined with " + std::to_string(pool.workers) + " worker ids, and " +
                     std::to_string(gone ? 0 : std::ssize(*workers)) +
                     " are there; restore the store, then raise the pool past every bound that "
                     "was granted",
                 {Remedy::kRaisePool, pool.name}));
  return workers;
}

Result<WorkersLeft> workers_left(Store& store, const PoolDefinition& pool, SteadyTime until) {
  const Result<std::vector<LeaseState>> workers = read_workers(store, pool, until);
  if (!workers) return std::unexpected(workers.error());
  return WorkersLeft{
      .free = std::ranges::count_if(
          *workers, [](const LeaseState& state) { return !is_owned(state) && !is_closed(state); }),
      .closed = std::ranges::count_if(*workers, is_closed)};
}

Result<void> close_pool(Store& store, const PoolDefinition& pool) {
  return store.leases()->raise_floor(pool.name, kClosedFloor);
}

std::optional<std::int64_t> position_of(const PoolDefinition& pool, std::int64_t id) {
  const auto parts = pool.layout.decode(Snowflake(static_cast<std::uint64_t>(id)));
  if (!parts || parts->worker >= pool.workers) return std::nullopt;
  return (parts->time - pool.layout.epoch) / pool.layout.unit;
}

Result<std::vector<LeaseState>> list_workers(Store& store, std::string_view name) {
  const Result<PoolDefinition> pool = find_pool(store, name);
  if (!pool) return std::unexpected(pool.error());
  return read_workers(store, *pool);
}

Result<LeaseState> release_worker(Store& store, std::string_view name, std::int64_t worker) {
  const Result<std::vector<LeaseState>> workers = list_workers(store, name);
  if (!workers) return std::unexpected(workers.error());
  if (worker < 0 || worker >= std::ssize(*workers))
    return std::unexpected(error_at(store, Code::kInvalidArgument, of_pool(name),
                                    "it has no worker id " + std::to_string(worker) +
                                        ": give 0 to " + std::to_string(std::ssize(*workers) - 1)));
  const LeaseState& state = (*workers)[static_cast<std::size_t>(worker)];
  if (state.token == Uuid{}) return state;
  if (auto released = store.leases()->release(name, worker, state.token, state.generation);
      !released)
    return std::unexpected(released.error());
  return state;
}

Result<std::int64_t> raise_pool(Store& store, std::string_view name, Instant past) {
  const Result<PoolDefinition> pool = find_pool(store, name);
  if (!pool) return std::unexpected(pool.error());
  const SnowflakeLayout& layout = pool->layout;
  if (const auto there = layout.bounds(past); !there)
    return std::unexpected(error_at(
        store, Code::kOutOfRange, *pool,
        "it cannot be raised past " + format_exact_time(past) + ": " + there.error().message()));
  const auto since = static_cast<std::uint64_t>(past.time_since_epoch().count()) -
                     static_cast<std::uint64_t>(layout.epoch.time_since_epoch().count());
  const auto floor =
      static_cast<std::int64_t>(since / static_cast<std::uint64_t>(layout.unit.count()) + 1);
  LeaseTable& leases = *store.leases();
  Result<void> raised = leases.raise_floor(name, floor);
  if (!raised && raised.error().code == Code::kNotFound) {
    raised = leases.create_pool(name, pool->workers);
    if (raised) raised = leases.raise_floor(name, floor);
    if (!raised)
      add_outcome(raised.error(),
                  "its worker ids may be made and not raised: start nobody, raise it again");
  }
  if (!raised) return std::unexpected(raised.error());
  return floor;
}

std::optional<Instant> time_of(const SnowflakeLayout& layout, std::int64_t units) noexcept {
  std::int64_t since = 0;
  std::int64_t at = 0;
  if (__builtin_mul_overflow(units, layout.unit.count(), &since) ||
      __builtin_add_overflow(since, layout.epoch.time_since_epoch().count(), &at))
    return std::nullopt;
  return Instant{std::chrono::nanoseconds{at}};
}

}  // namespace idmint
