// ClockSequence: strictly increasing (tick, count) pairs, with one policy for clocks that go back.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "base/biased_counter.h"
#include "base/bounded_mutex.h"
#include "base/fork_wiped.h"
#include "idmint/clock.h"
#include "idmint/result.h"
#include "ids/id_time_lease.h"

namespace idmint {

// A run of `size` counts of one tick, from `count` on, with the random words of that tick.
struct Stamp {
  std::int64_t tick;
  std::uint32_t count;
  std::uint32_t size;
  std::uint64_t high;
  std::uint64_t low;
};

// Drawn at the start of each tick.
struct TickSeed {
  std::uint32_t count = 0;  // the first count
  std::uint64_t high = 0;   // for the format's own use
  std::uint64_t low = 0;
};

// Called under the lock before a tick is entered that may have been used before: when the sequence
// starts afresh, and before the first tick of a self-starting one (`first`; once more in a child of
// fork()). It changes the parts of the ids other than tick and count, so that no id repeats; then
// the seed of the tick is drawn. Returns the lease's bound for the new start, above `tick`, or 0
// without a lease. On an error no tick is entered. kDataLoss is permanent.
using SetApart = std::function<Result<std::int64_t>(std::int64_t tick, bool first)>;

struct ClockSequenceOptions {
  Instant epoch;                                       // tick 0
  std::chrono::nanoseconds unit{1'000'000};            // the length of a tick
  std::uint32_t capacity = 1;                          // counts are 0 to capacity - 1; at most 2^23
  std::int64_t max_tick = 0;                           // later ticks are kOutOfRange
  std::chrono::nanoseconds max_drift{20'000'000'000};  // ahead of a clock that was set back
  // How far ahead of the clock the next tick may be entered when counts are used up; values above
  // max_drift count as max_drift. 0: never.
  std::chrono::nanoseconds max_run_ahead{};
  // The first next() starts at the clock's time, in a child of fork() too. Without it, next() fails
  // with kFailedPrecondition there.
  bool self_starting = false;
  // Beyond max_drift, start afresh at the clock's time with a new seed, which breaks the order
  // once, instead of failing with kUnavailable.
  bool start_afresh = false;
  // The longest that a call waits for a free count.
  std::chrono::nanoseconds deadline = std::chrono::seconds{5};
  // A clause for the error after the clock went back: the effect of a restart of the program.
  // Empty: no clause.
  std::string_view restart{};
};

// The policy, implemented only here:
//   - The clock goes back: the old tick is kept and counted on. When its counts are used up, the
//     next tick is entered after one unit of waiting, ahead of the clock by at most max_drift.
//   - The counts are used up under a right clock: the next tick is entered at once if it is at most
//     max_run_ahead ahead of the clock; otherwise the caller waits for it. If many callers compete
//     for few counts, a caller waits for further ticks, until its deadline.
//   - Nothing waits under the lock, except for the lease's durable write.
//
// Threads may share it. The common path is one clock read and one addition. The state is
//
//   epoch 40 | count 24
//
// The epoch numbers the ticks in the order in which they were entered. The tick of the current
// epoch and its seed are read under a sequence lock. A reader whose epoch is no longer current
// drops its counts and starts over. Ticks are entered under a mutex, and only below the lease's
// bound. So each pair lies below the bound by construction, however long a thread is paused.
class ClockSequence final {
 public:
  ClockSequence(const ClockSequenceOptions& options, Clock& clock,
                std::function<TickSeed()> seed = {}, IdTimeLease* lease = nullptr,
                SetApart set_apart = {});
  ClockSequence(const ClockSequence&) = delete;
  ClockSequence& operator=(const ClockSequence&) = delete;

  // Enters the clock's tick, or `from` if that is later. If `from` is beyond max_drift and the
  // option is set, it starts afresh. Required before next() unless self_starting.
  [[nodiscard]] Result<void> start(std::int64_t from, SteadyTime until = SteadyTime::max());

  // Takes 1 to `want` counts of one tick. REQUIRES: 1 <= want <= kMaxRun. Errors, besides those of
  // the lease, whose kDataLoss is permanent:
  // - kUnavailable: the clock is further back than max_drift; or by `until` (by default the
  //   deadline) no count was free, the lease did not answer, or another caller was still waiting
  //   for a tick.
  // - kOutOfRange: the clock shows a time outside the ticks.
  // - kFailedPrecondition: not started, or inherited through fork().
  [[nodiscard]] Result<Stamp> next(std::uint32_t want, SteadyTime until = SteadyTime::max());

  // Only the common path of next(). False: `stamp` is not set; call next().
  [[nodiscard]] bool try_next(std::uint32_t want, Stamp& stamp) noexcept;

  // Makes every later call fail with `why`; a call under way may still get its counts. Must not be
  // called from the lease's extend(), whose kDataLoss has the same effect.
  void revoke(Error why);

  static constexpr std::uint32_t kMaxRun = 4096;

 private:
  static constexpr int kCountBits = 24;
  static constexpr std::uint64_t kCountMask = (std::uint64_t{1} << kCountBits) - 1;
  static constexpr std::uint64_t kTaken = ~std::uint64_t{0};

  // The current tick, under a sequence lock.
  struct Tick {
    std::atomic<std::uint64_t> epoch;  // 0: being written
    std::atomic<std::int64_t> tick;
    std::atomic<std::uint64_t> high;
    std::atomic<std::uint64_t> low;
  };

  // All zero means not started, as in a child of fork(); a zeroed mutex is unlocked.
  struct Shared {
    BiasedCounter state;
    alignas(64) std::atomic<std::int64_t> tick_start;  // start of the current tick, ns since 1970
    std::atomic<std::int64_t> entered;                 // the clock at its entry, ns since 1970
    Tick current;
    BoundedMutex entering;
  };

  [[nodiscard]] std::int64_t now() const noexcept {
    return clock_.now().time_since_epoch().count();
  }
  [[nodiscard]] std::int64_t tick_of(std::int64_t ns) const noexcept;
  [[nodiscard]] std::int64_t start_of(std::int64_t tick) const noexcept;
  [[nodiscard]] std::uint64_t take(std::uint32_t want, Stamp& stamp) noexcept;
  [[nodiscard]] bool read_tick(std::uint64_t epoch, Stamp& stamp) const noexcept;
  [[nodiscard]] bool within_drift(std::int64_t tick_start, std::int64_t ns) const noexcept;
  [[nodiscard]] bool within_run_ahead(std::int64_t tick_start, std::int64_t ns) const noexcept;
  // Under the lock:
  [[nodiscard]] Result<void> enter(std::int64_t tick, std::int64_t ns, SteadyTime until);
  [[nodiscard]] Result<void> set_apart(std::int64_t tick, bool first);  // likewise
  [[nodiscard]] Result<void> format_has(std::int64_t tick) const;
  [[nodiscard]] std::unexpected<Error> failed(Error why);  // likewise
  void lose(Error why);                                    // likewise
  [[nodiscard]] Result<void> enter_clocks_tick(SteadyTime until);
  class Wait;
  [[nodiscard]] Result<void> outlast(std::uint64_t epoch, Wait& wait);
  [[nodiscard]] Error clock_went_back(std::int64_t tick_start, std::int64_t ns) const;

  const ClockSequenceOptions options_;
  const std::uint64_t unit_;
  const std::int64_t run_ahead_;  // ns
  Clock& clock_;
  const std::function<TickSeed()> seed_;
  IdTimeLease* const lease_;
  const SetApart set_apart_;
  std::int64_t bound_ = 0;             // guarded by entering
  std::unique_ptr<const Error> lost_;  // likewise: the kDataLoss of the lease
  ForkWiped<Shared> shared_;
};

inline bool ClockSequence::read_tick(std::uint64_t epoch, Stamp& stamp) const noexcept {
  const Tick& current = shared_->current;
  if (epoch == 0 || current.epoch.load(std::memory_order_acquire) != epoch) return false;
  stamp.tick = current.tick.load(std::memory_order_acquire);
  stamp.high = current.high.load(std::memory_order_acquire);
  stamp.low = current.low.load(std::memory_order_acquire);
  return current.epoch.load(std::memory_order_relaxed) == epoch;
}

inline bool ClockSequence::try_next(std::uint32_t want, Stamp& stamp) noexcept {
  Shared& shared = *shared_;
  const std::int64_t ns = now();
  const std::int64_t start = shared.tick_start.load(std::memory_order_acquire);
  // One comparison covers both "later than the current tick" and "before it".
  if (static_cast<std::uint64_t>(ns) - static_cast<std::uint64_t>(start) >= unit_) return false;
  return take(want, stamp) == kTaken;
}

// The epoch that has no count left, or kTaken.
inline std::uint64_t ClockSequence::take(std::uint32_t want, Stamp& stamp) noexcept {
  const std::uint64_t taken = shared_->state.fetch_add(want);
  const auto count = static_cast<std::uint32_t>(taken & kCountMask);
  if (count >= options_.capacity || !read_tick(taken >> kCountBits, stamp)) [[unlikely]] {
    return taken >> kCountBits;
  }
  stamp.count = count;
  stamp.size = std::min(want, options_.capacity - count);
  return kTaken;
}

}  // namespace idmint
