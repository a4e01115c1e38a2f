// ClockSequence: strictly increasing (tick, count) pairs, under one policy for clocks that go back.
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

// A run of `size` counts of one tick, `count` being the first, with what was drawn for that tick.
struct Stamp {
  std::int64_t tick;
  std::uint32_t count;
  std::uint32_t size;
  std::uint64_t high;
  std::uint64_t low;
};

// Drawn at the beginning of each tick.
struct TickSeed {
  std::uint32_t count = 0;  // where counting starts
  std::uint64_t high = 0;   // for the format's own use
  std::uint64_t low = 0;
};

// Called under the lock before a tick is entered that may have been used before: where the sequence
// starts afresh, and before the first tick of a self-starting one (`first`; in a child of fork()
// again). It changes what the ids hold beside tick and count, so that none of them comes twice,
// before the seed of that tick is asked for. Answers the bound of the lease under the new
// beginning, above `tick`; without a lease 0. On an error nothing is entered; kDataLoss is for
// ever.
using SetApart = std::function<Result<std::int64_t>(std::int64_t tick, bool first)>;

struct ClockSequenceOptions {
  Instant epoch;                             // tick 0
  std::chrono::nanoseconds unit{1'000'000};  // of one tick
  std::uint32_t capacity = 1;                // counts of a tick: 0 to capacity - 1; at most 2^23
  std::int64_t max_tick = 0;                 // past it: kOutOfRange
  std::chrono::nanoseconds max_drift{20'000'000'000};  // ahead of a clock that was set back
  // How far ahead of the clock the next tick may be entered because counts are used up; at most
  // max_drift counts. 0: never.
  std::chrono::nanoseconds max_run_ahead{};
  // The first next() starts at the clock's time, in a child of fork() too; otherwise
  // kFailedPrecondition.
  bool self_starting = false;
  // Past max_drift: start afresh at the clock's time with a new seed (order is lost once), instead
  // of kUnavailable.
  bool start_afresh = false;
  // A call waits at most this long for a free count.
  std::chrono::nanoseconds deadline = std::chrono::seconds{5};
  // What a restart of the program does for a caller who is refused because the clock went back: a
  // clause for the message. Empty: nothing is said.
  std::string_view restart{};
};

// The policy, which is here and nowhere else:
//   - A clock that goes back: the old tick is kept and counted on. When its counts are used up the
//     next tick is entered after one unit of waiting, ahead of the clock by at most max_drift.
//   - Counts used up under a right clock: the next tick is entered at once where that is at most
//     max_run_ahead ahead of the clock; else the caller waits for it. Where many callers want few
//     counts, a caller waits for further ticks, until its deadline.
//   - Nothing waits under the lock but for the lease's durable write.
//
// May be shared by threads. The common path is one clock read and one addition. The state is
//
//   epoch 40 | count 24
//
// where the epoch numbers the ticks that were entered, one after the other; what tick that is, and
// its seed, is read from a ring of slots under a sequence lock. A reader that finds its epoch's
// slot gone drops its counts and starts over. Ticks are entered under a mutex, and only below the
// lease's bound: so each pair lies below it by construction, however long a thread is paused.
class ClockSequence final {
 public:
  ClockSequence(const ClockSequenceOptions& options, Clock& clock,
                std::function<TickSeed()> seed = {}, IdTimeLease* lease = nullptr,
                SetApart set_apart = {});
  ClockSequence(const ClockSequence&) = delete;
  ClockSequence& operator=(const ClockSequence&) = delete;

  // Enters the clock's tick, or `from` where that is later; past max_drift it starts afresh, where
  // that is the option. Needed before next() unless self_starting.
  [[nodiscard]] Result<void> start(std::int64_t from, SteadyTime until = SteadyTime::max());

  // Up to `want` counts of one tick; at least one. REQUIRES: 1 <= want <= kMaxRun.
  // kUnavailable: the clock is further back than max_drift; or by `until`, or without it by the
  // deadline, no count was free, the lease had no answer, or another caller was still waiting for
  // one. kOutOfRange: the clock shows a time outside the ticks. kFailedPrecondition: not started,
  // or inherited through fork(). The lease's own errors as they are; its kDataLoss is for ever.
  [[nodiscard]] Result<Stamp> next(std::uint32_t want, SteadyTime until = SteadyTime::max());

  // The common path of next() alone: false, and nothing in `stamp`, where next() must be asked.
  [[nodiscard]] bool try_next(std::uint32_t want, Stamp& stamp) noexcept;

  // From now on every call answers `why`; one under way may have its counts still. Not from within
  // the lease's extend(), whose kDataLoss does the same.
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

  // All zero means not started, which is what a child of fork() finds; a zeroed mutex is an open
  // one.
  struct Shared {
    BiasedCounter state;
    alignas(64) std::atomic<std::int64_t> tick_start;  // of the current tick, ns since 1970
    std::atomic<std::int64_t> entered;                 // what the clock showed then, likewise
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
  // Under the lock.
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
  // One comparison for "later than the current tick" and "before it".
  if (static_cast<std::uint64_t>(ns) - static_cast<std::uint64_t>(start) >= unit_) return false;
  return take(want, stamp) == kTaken;
}

// Which epoch has no count to give, or kTaken.
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
