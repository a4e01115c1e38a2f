#include "ids/clock_sequence.h"

#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace idmint {
namespace {

constexpr std::uint64_t as_unsigned(std::int64_t value) noexcept {
  return static_cast<std::uint64_t>(value);
}

// Whether `later` is at most `ns` after `now`. Unsigned, because the difference may overflow.
bool within(std::int64_t ns, std::int64_t later, std::int64_t now) noexcept {
  return later <= now || as_unsigned(later) - as_unsigned(now) <= as_unsigned(ns);
}

std::unexpected<Error> not_entered() {
  return std::unexpected(Error{Code::kUnavailable,
                               "no id was minted in time: another caller still waits for the lease "
                               "to be extended; ask again"});
}

std::string seconds(std::uint64_t ns) {
  char text[40];
  const int size = std::snprintf(text, sizeof text, "%.3f s", static_cast<double>(ns) / 1e9);
  return {text, static_cast<std::size_t>(size)};
}

}  // namespace

ClockSequence::ClockSequence(const ClockSequenceOptions& options, Clock& clock,
                             std::function<TickSeed()> seed, IdTimeLease* lease, SetApart set_apart)
    : options_(options),
      unit_(as_unsigned(options.unit.count())),
      run_ahead_(std::min(options.max_run_ahead, options.max_drift).count()),
      clock_(clock),
      seed_(std::move(seed)),
      lease_(lease),
      set_apart_(std::move(set_apart)) {}

// -1 before the epoch.
std::int64_t ClockSequence::tick_of(std::int64_t ns) const noexcept {
  const std::int64_t epoch = options_.epoch.time_since_epoch().count();
  if (ns < epoch) return -1;
  return static_cast<std::int64_t>((as_unsigned(ns) - as_unsigned(epoch)) / unit_);
}

std::int64_t ClockSequence::start_of(std::int64_t tick) const noexcept {
  return static_cast<std::int64_t>(as_unsigned(options_.epoch.time_since_epoch().count()) +
                                   as_unsigned(tick) * unit_);
}

bool ClockSequence::within_drift(std::int64_t tick_start, std::int64_t ns) const noexcept {
  return within(options_.max_drift.count(), tick_start, ns);
}

bool ClockSequence::within_run_ahead(std::int64_t tick_start, std::int64_t ns) const noexcept {
  return run_ahead_ != 0 && within(run_ahead_, tick_start, ns);
}

Error ClockSequence::clock_went_back(std::int64_t tick_start, std::int64_t ns) const {
  const std::uint64_t behind = as_unsigned(tick_start) - as_unsigned(ns);
  const std::uint64_t allowed = as_unsigned(options_.max_drift.count());
  const Instant again{
      std::chrono::nanoseconds{static_cast<std::int64_t>(as_unsigned(tick_start) - allowed)}};
  std::string message = "the clock is " + seconds(behind) +
                        " behind ids already minted, more than the " + seconds(allowed) +
                        " allowed: set the clock right, or ask again when it shows " +
                        format_time(again) + ", in " + seconds(behind - allowed);
  if (!options_.restart.empty()) message.append("; ").append(options_.restart);
  return {Code::kUnavailable, std::move(message)};
}

// The time that one call may still wait for a count. Both real time and the planned sleep count,
// because the clock may stand still or be set back again and again.
class ClockSequence::Wait {
 public:
  // `until` replaces the deadline unless it is SteadyTime::max().
  Wait(std::chrono::nanoseconds deadline, SteadyTime until)
      : begin_(std::chrono::steady_clock::now()),
        deadline_(std::min<std::chrono::nanoseconds>(
            until == SteadyTime::max() ? deadline : until - begin_, kLongest)),
        to_sleep_(deadline_),
        until_(begin_ + deadline_) {}

  [[nodiscard]] std::chrono::nanoseconds deadline() const noexcept { return deadline_; }

  [[nodiscard]] SteadyTime until() const noexcept { return until_; }
  [[nodiscard]] bool over() const noexcept { return left() <= std::chrono::nanoseconds{}; }

  // The part of `wanted` that may be slept; counts it as planned.
  [[nodiscard]] std::chrono::nanoseconds plan(std::chrono::nanoseconds wanted) noexcept {
    const std::chrono::nanoseconds planned = std::min(wanted, left());
    to_sleep_ -= planned;
    return planned;
  }

 private:
  [[nodiscard]] std::chrono::nanoseconds left() const noexcept {
    return std::min<std::chrono::nanoseconds>(to_sleep_, until_ - std::chrono::steady_clock::now());
  }

  static constexpr std::chrono::hours kLongest{24};

  const SteadyTime begin_;
  const std::chrono::nanoseconds deadline_;
  std::chrono::nanoseconds to_sleep_;
  const SteadyTime until_;
};

Result<Stamp> ClockSequence::next(std::uint32_t want, SteadyTime until) {
  Shared& shared = *shared_;
  std::optional<Wait> wait;
  for (;;) {
    const std::int64_t start = shared.tick_start.load(std::memory_order_acquire);
    if (as_unsigned(now()) - as_unsigned(start) >= unit_) {
      if (Result<void> entered = enter_clocks_tick(until); !entered) {
        return std::unexpected(std::move(entered.error()));
      }
    }
    Stamp stamp;
    const std::uint64_t exhausted = take(want, stamp);
    if (exhausted == kTaken) return stamp;
    if (!wait) wait.emplace(options_.deadline, until);
    if (wait->over()) break;
    if (Result<void> outlasted = outlast(exhausted, *wait); !outlasted) {
      return std::unexpected(std::move(outlasted.error()));
    }
  }
  return std::unexpected(
      Error{Code::kUnavailable,
            "no sequence number was free within the deadline of " +
                seconds(as_unsigned(wait->deadline().count())) + ": there are " +
                std::to_string(options_.capacity) +
                " in a time unit, and too many callers share this generator, or the clock stands "
                "still; ask from fewer threads, use a layout with more sequence bits, or look at "
                "the clock"});
}

Result<void> ClockSequence::start(std::int64_t from, SteadyTime until) {
  Shared& shared = *shared_;
  const std::lock_guard lock(shared.entering);
  const std::int64_t ns = now();
  const std::int64_t clock_tick = tick_of(ns);
  // The previous run may be one unit ahead, however long a unit is.
  const std::int64_t reach = start_of(std::min(from, options_.max_tick));
  if (from > clock_tick && from - clock_tick > 1 && !within_drift(reach, ns)) {
    if (!options_.start_afresh) return std::unexpected(clock_went_back(reach, ns));
    if (Result<void> has = format_has(clock_tick); !has) return has;
    if (Result<void> apart = set_apart(clock_tick, false); !apart) return apart;
    from = clock_tick;
  }
  return enter(std::max(from, clock_tick), ns, until);
}

Result<void> ClockSequence::format_has(std::int64_t tick) const {
  if (tick < 0) {
    return std::unexpected(
        Error{Code::kOutOfRange, "the clock shows a time before the epoch of the format: set it"});
  }
  if (tick > options_.max_tick) {
    return std::unexpected(Error{Code::kOutOfRange,
                                 "the time is past the last one that the format can express: use a "
                                 "layout with a later epoch or more time bits"});
  }
  return {};
}

Result<void> ClockSequence::set_apart(std::int64_t tick, bool first) {
  if (!set_apart_) return {};
  Result<std::int64_t> bound = set_apart_(tick, first);
  if (!bound) return failed(std::move(bound.error()));
  bound_ = *bound;
  return {};
}

// Moves the state into a new epoch, then publishes the tick of that epoch, then its start for the
// common path. A caller that comes in between waits for the lock and starts over.
Result<void> ClockSequence::enter(std::int64_t tick, std::int64_t ns, SteadyTime until) {
  Shared& shared = *shared_;
  if (lost_) return std::unexpected(*lost_);
  if (Result<void> has = format_has(tick); !has) return has;
  const bool first = shared.state.load() >> kCountBits == 0;
  const bool again = first ? options_.self_starting
                           : start_of(tick) <= shared.tick_start.load(std::memory_order_relaxed);
  if (again) {
    if (Result<void> apart = set_apart(tick, first); !apart) return apart;
  }
  if (lease_ != nullptr && tick >= bound_) {
    Result<std::int64_t> extended = lease_->extend(tick, until);
    if (!extended) return failed(std::move(extended.error()));
    bound_ = *extended;
  }
  if (lease_ != nullptr && tick < lease_->from()) {
    tick = lease_->from();
    if (Result<void> has = format_has(tick); !has) return has;
    const std::int64_t reach = start_of(tick);
    if (tick - tick_of(ns) > 1 && !within_drift(reach, ns))
      return std::unexpected(clock_went_back(reach, ns));
  }
  const TickSeed seed = seed_ ? seed_() : TickSeed{};
  // After 2^24 additions in vain the counts run over into the next epoch. Such an epoch is never
  // entered here and never has a tick.
  std::uint64_t state = shared.state.load();
  std::uint64_t epoch = 0;
  do {
    epoch = (state >> kCountBits) + 1;
    if (epoch >> (64 - kCountBits) != 0) {
      return std::unexpected(Error{Code::kFailedPrecondition,
                                   "this generator has entered 2^40 time units, all it can number: "
                                   "open it again"});
    }
  } while (!shared.state.compare_exchange(state, epoch << kCountBits | seed.count));
  Tick& current = shared.current;
  current.epoch.store(0, std::memory_order_relaxed);
  current.tick.store(tick, std::memory_order_release);
  current.high.store(seed.high, std::memory_order_release);
  current.low.store(seed.low, std::memory_order_release);
  current.epoch.store(epoch, std::memory_order_release);
  shared.entered.store(ns, std::memory_order_relaxed);
  shared.tick_start.store(start_of(tick), std::memory_order_release);
  return {};
}

std::unexpected<Error> ClockSequence::failed(Error why) {
  if (why.code == Code::kDataLoss) lose(why);
  return std::unexpected(std::move(why));
}

// Enters an epoch without a tick, so no count of the current one is left, whatever the clock does.
void ClockSequence::lose(Error why) {
  Shared& shared = *shared_;
  lost_ = std::make_unique<const Error>(std::move(why));
  std::uint64_t state = shared.state.load();
  while (!shared.state.compare_exchange(state, ((state >> kCountBits) + 1) << kCountBits)) {
  }
}

void ClockSequence::revoke(Error why) {
  const std::lock_guard lock(shared_->entering);
  if (!lost_) lose(std::move(why));
}

// Called if the clock does not show the current tick: it is later or earlier, or there is no
// current tick.
Result<void> ClockSequence::enter_clocks_tick(SteadyTime until) {
  Shared& shared = *shared_;
  const auto started = [&] { return shared.state.load() >> kCountBits != 0; };
  if (started()) {
    const std::int64_t start = shared.tick_start.load(std::memory_order_acquire);
    const std::int64_t ns = now();
    if (ns < start && within_drift(start, ns)) return {};  // keep the old tick and count on
  }
  const std::unique_lock lock(shared.entering, until);
  if (!lock) return not_entered();
  if (!started() && !options_.self_starting) return std::unexpected(inherited_generator());
  if (lost_) return std::unexpected(*lost_);
  const std::int64_t ns = now();
  if (!started()) return enter(tick_of(ns), ns, until);
  const std::int64_t start = shared.tick_start.load(std::memory_order_relaxed);
  const std::int64_t tick = tick_of(ns);
  const std::int64_t current = tick_of(start);
  if (tick > current) return enter(tick, ns, until);
  if (tick == current || within_drift(start, ns)) return {};
  if (options_.start_afresh) return enter(tick, ns, until);
  return std::unexpected(clock_went_back(start, ns));
}

// Returns when the epoch is over or its tick should be: waits for the end of the tick, or until the
// next one is within the run-ahead. Under a clock that was set back, the tick ends one unit after
// its entry, and the next one is entered ahead of the clock.
Result<void> ClockSequence::outlast(std::uint64_t epoch, Wait& wait) {
  Shared& shared = *shared_;
  const SteadyTime until = wait.until();
  const auto over = [&] { return shared.state.load() >> kCountBits != epoch; };
  if (epoch == 0) return enter_clocks_tick(until);
  if (shared.current.epoch.load(std::memory_order_acquire) != epoch) {
    // Waits until the thread that enters a tick has finished.
    const std::unique_lock lock(shared.entering, until);
    if (!lock) return not_entered();
    if (lost_) return std::unexpected(*lost_);
    if (shared.current.epoch.load(std::memory_order_relaxed) == epoch) return {};
  }
  const std::int64_t start = shared.tick_start.load(std::memory_order_acquire);
  if (over()) return {};  // otherwise `start` is that of this epoch's tick
  const std::int64_t end = start + options_.unit.count();
  std::int64_t ns = now();
  std::int64_t wake = ns;
  if (!within_run_ahead(end, ns)) {
    const bool ahead = ns < start;
    const std::int64_t from =
        ahead ? std::min(shared.entered.load(std::memory_order_relaxed), ns) : start;
    wake = from + options_.unit.count();
    if (run_ahead_ != 0) wake = std::min(wake, end - run_ahead_);
    const std::chrono::nanoseconds wanted{std::max<std::int64_t>(wake - ns, 0)};
    const std::chrono::nanoseconds planned = wait.plan(wanted);
    clock_.sleep_until(Instant{std::chrono::nanoseconds{ns} + planned}, planned);
    if (planned < wanted || (!ahead && run_ahead_ == 0)) return {};
  }

  const std::unique_lock lock(shared.entering, until);
  if (!lock) return not_entered();
  if (over()) return {};
  ns = now();
  const std::int64_t current = tick_of(shared.tick_start.load(std::memory_order_relaxed));
  const std::int64_t tick = tick_of(ns);
  if (tick > current) return enter(tick, ns, until);
  const std::int64_t next_start = start_of(current + 1);
  if (within_run_ahead(next_start, ns)) return enter(current + 1, ns, until);
  // The clock has caught up, or did not reach the time waited for.
  if (tick == current || (run_ahead_ != 0 && ns < wake)) return {};
  if (within_drift(next_start, ns)) return enter(current + 1, ns, until);
  if (options_.start_afresh) return enter(tick, ns, until);
  return std::unexpected(clock_went_back(next_start, ns));
}

}  // namespace idmint
