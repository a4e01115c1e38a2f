// SecondCounter: unique pairs of a second and a 24-bit counter, for formats that have no other own
// part in an id: xid and the ObjectIds before 2018.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "base/biased_counter.h"
#include "base/fork_wiped.h"
#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "idmint/host.h"
#include "idmint/result.h"

namespace idmint {

// seconds 32 | middle 40 | counter 24, big-endian.
[[nodiscard]] inline std::array<std::uint8_t, 12> twelve_bytes(std::uint32_t seconds,
                                                               std::uint64_t middle,
                                                               std::uint64_t counter) noexcept {
  std::array<std::uint8_t, 12> bytes;
  // Stores eight bytes and four, as compilers copy twelve: so a copy need not wait for the stores
  // to retire.
  const std::uint64_t first = __builtin_bswap64(std::uint64_t{seconds} << 32 | middle >> 8);
  const std::uint32_t rest = __builtin_bswap32(static_cast<std::uint32_t>(middle << 24 | counter));
  std::memcpy(bytes.data(), &first, 8);
  std::memcpy(bytes.data() + 8, &rest, 4);
  return bytes;
}

// The counter starts at a random value and grows by one for each pair; 2^24 pairs are a lap. The
// seconds of a lap are later than all seconds of earlier laps. So a counter value that comes again
// has a later second, and no pair repeats, whatever the clock does.
//   - Within a lap the second is the clock's: it goes back when the clock does.
//   - A lap that is used up under a right clock waits for the next second: the limit is 2^24 pairs
//     a second.
//   - If the clock is before the lap's first second, that second is used, ahead of the clock by at
//     most max_drift (20 s). Beyond it: kUnavailable. This takes 2^24 pairs since the time that the
//     clock shows.
// Nothing waits under the lock. Threads and generators may share it. In a child of fork():
// kFailedPrecondition.
//
// The common path is one clock read and one addition. It uses only seconds up to `highest`, which
// it reads before it adds and which grows under the lock. A lap begins under the lock too, with a
// number that was added before, one second past `highest`. So a thread that saw a higher second
// adds later, and its number is in the new lap. No second of the old lap reaches that of the new
// one, however long a thread is paused.
class SecondCounter final {
 public:
  static constexpr std::uint32_t kCounters = 1U << 24;

  struct Run {
    std::uint32_t second = 0;
    std::uint32_t first = 0;  // counters first, first + 1 and so on, modulo 2^24
    std::uint32_t size = 0;

    [[nodiscard]] std::uint32_t counter(std::size_t index) const noexcept {
      return (first + static_cast<std::uint32_t>(index)) & (kCounters - 1);
    }
  };

  SecondCounter(Clock& clock, Entropy& entropy);
  SecondCounter(const SecondCounter&) = delete;
  SecondCounter& operator=(const SecondCounter&) = delete;

  static constexpr std::uint32_t kMaxRun = 4096;

  // Takes 1 to `want` pairs of one second. REQUIRES: 1 <= want <= kMaxRun.
  // - kOutOfRange: the clock shows a time outside 1970 to 2106.
  // - kUnavailable: the clock stands still, or is too far back.
  [[nodiscard]] Result<Run> take(std::uint32_t want) {
    Run run;
    const std::uint64_t number = try_take(want, run);
    if (number == kTaken) [[likely]]
      return run;
    return take_slowly(want, number);
  }

  // take() in two parts, to inline the common one. The first one sets `run` and returns kTaken, or
  // returns the argument of the second one.
  [[nodiscard]] std::uint64_t try_take(std::uint32_t want, Run& run) noexcept;
  [[nodiscard]] Result<Run> take_slowly(std::uint32_t want, std::uint64_t number);

  static constexpr std::uint64_t kTaken = ~std::uint64_t{0};

 private:
  static constexpr std::uint64_t kNone = kTaken - 1;
  static constexpr std::uint64_t kSecond = 1'000'000'000;  // ns
  static constexpr std::uint64_t kEnd = kSecond << 32;     // ns, of unsigned 32-bit seconds
  static constexpr std::uint64_t kMaxDrift = 20 * kSecond;
  static constexpr int kMaxWaits = 10;  // per call, of at most one second each

  // All zero in a child of fork(); a zeroed mutex is unlocked.
  struct Shared {
    BiasedCounter taken;                                // numbers; 2^24 of them are a lap
    alignas(64) std::atomic<std::uint64_t> lap_plus_1;  // the current lap; 0: in a child
    std::atomic<std::uint64_t> floor;                   // the first second that the lap may use
    std::atomic<std::uint64_t> highest;                 // the last second that any lap used
    std::mutex settling;
  };

  [[nodiscard]] std::uint64_t now() const noexcept {
    return static_cast<std::uint64_t>(clock_.now().time_since_epoch().count());
  }
  [[nodiscard]] static constexpr std::uint64_t lap_of(std::uint64_t number) noexcept {
    return number / kCounters;
  }
  [[nodiscard]] Run run(std::uint64_t second, std::uint64_t number,
                        std::uint32_t want) const noexcept {
    const auto in_lap = static_cast<std::uint32_t>(number % kCounters);
    return {.second = static_cast<std::uint32_t>(second),
            .first = (start_ + in_lap) & (kCounters - 1),
            .size = std::min(want, kCounters - in_lap)};
  }
  struct Settled {
    Run run{};        // size 0: none yet
    Instant until{};  // then: the time to wait for, and the longest wait
    std::chrono::nanoseconds at_most{};
  };
  [[nodiscard]] Result<Settled> settle(std::uint64_t& number, std::uint32_t want);

  Clock& clock_;
  const std::uint32_t start_;  // the first counter value
  ForkWiped<Shared> shared_;
};

inline std::uint64_t SecondCounter::try_take(std::uint32_t want, Run& out) noexcept {
  Shared& shared = *shared_;
  const std::uint64_t second = now() / kSecond;
  // In this order, so that the floor is that of this lap or of a later one.
  const std::uint64_t lap_plus_1 = shared.lap_plus_1.load(std::memory_order_acquire);
  if (second < shared.floor.load(std::memory_order_acquire) ||
      second > shared.highest.load(std::memory_order_acquire)) [[unlikely]] {
    return kNone;
  }
  const std::uint64_t number = shared.taken.fetch_add(want);
  if (lap_of(number) + 1 != lap_plus_1) [[unlikely]]
    return number;
  out = run(second, number, want);
  return kTaken;
}

// The counter of a generator. With the clock and the entropy of the system, all generators of the
// process share one, so that two of one identity never collide; a child of fork() begins its own.
// With others, each generator has its own.
[[nodiscard]] std::shared_ptr<SecondCounter> counter_over(Clock& clock, Entropy& entropy);

// The implementation of the generators of both formats. T: an id of twelve bytes.
template <class T>
class SecondCounterIds {
 public:
  SecondCounterIds(const ProcessIdentity& identity, Clock& clock, Entropy& entropy)
      : middle_(std::uint64_t{identity.machine & 0xff'ffff} << 16 | identity.process),
        counter_(counter_over(clock, entropy)) {}

  [[nodiscard]] Result<T> next() {
    SecondCounter::Run run;
    const std::uint64_t number = counter_->try_take(1, run);
    if (number != SecondCounter::kTaken) [[unlikely]]
      return next_slowly(number);
    return id(run, 0);
  }

  [[nodiscard]] Result<void> fill(std::span<T> out) {
    while (!out.empty()) {
      Result<SecondCounter::Run> run = counter_->take(
          static_cast<std::uint32_t>(std::min<std::size_t>(out.size(), SecondCounter::kMaxRun)));
      if (!run) return std::unexpected(std::move(run.error()));
      for (std::size_t i = 0; i < run->size; ++i) out[i] = id(*run, i);
      out = out.subspan(run->size);
    }
    return {};
  }

 private:
  [[nodiscard]] T id(const SecondCounter::Run& run, std::size_t index) const noexcept {
    return T{twelve_bytes(run.second, middle_, run.counter(index))};
  }

  // Separate, so that the common path saves no registers for it.
  [[gnu::noinline]] Result<T> next_slowly(std::uint64_t number) {
    Result<SecondCounter::Run> run = counter_->take_slowly(1, number);
    if (!run) return std::unexpected(std::move(run.error()));
    return id(*run, 0);
  }

  const std::uint64_t middle_;  // machine 24 | process 16
  const std::shared_ptr<SecondCounter> counter_;
};

}  // namespace idmint
