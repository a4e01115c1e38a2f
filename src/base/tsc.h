// The arithmetic of a clock that reads the processor's time stamp counter: how long a reading may
// be kept, and the rate of the counter. Separate from the clock, so that tests can inject any
// counter.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace idmint {

// A reading of the wall clock that is valid until the end of its millisecond. All zero: none.
class KeptReading {
 public:
  // One subtraction covers both "the counter passed the end" and "it went back".
  [[nodiscard]] bool stands(std::uint64_t ticks) const noexcept { return ticks - from_ < span_; }
  [[nodiscard]] std::int64_t ns() const noexcept { return ns_; }

  // Keeps `ns`, which was read no earlier than the counter showed `ticks`, for three quarters of
  // the rest of its millisecond. So neither a slewed wall clock (ntpd by 0.05 %, chronyd by up to
  // 8.3 %) nor an error of ticks_per_ms makes it outlive the millisecond. The next reading is kept
  // for three quarters of the new rest: six readings in a millisecond. ticks_per_ms of 0: unknown,
  // keeps nothing.
  void keep(std::uint64_t ticks, std::int64_t ns, std::uint64_t ticks_per_ms) noexcept {
    constexpr std::int64_t kMillisecond = 1'000'000;
    const std::int64_t past = ns % kMillisecond;
    const std::int64_t left = past < 0 ? -past : kMillisecond - past;
    const std::int64_t safe = std::max<std::int64_t>(left - left / 4 - 200, 0);
    from_ = ticks;
    span_ = static_cast<std::uint64_t>(safe) * ticks_per_ms / kMillisecond;
    ns_ = ns;
  }
  void drop() noexcept { span_ = 0; }

 private:
  std::uint64_t from_ = 0;
  std::uint64_t span_ = 0;
  std::int64_t ns_ = 0;
};

// Learns the counter's rate from readings of a steady clock that are made anyway. The first rate
// comes after 10 ms, a new one after each further second, so that a migration of the machine to
// another host is noticed. Any thread may call it. None waits: a thread that finds another one at
// work returns.
class TickRate {
 public:
  // 0: not known yet.
  [[nodiscard]] std::uint64_t ticks_per_ms() const noexcept {
    return rate_.load(std::memory_order_relaxed);
  }
  // Whether it is time for another observe().
  [[nodiscard]] bool due(std::uint64_t ticks) const noexcept {
    return ticks - last_.load(std::memory_order_relaxed) >= wait_.load(std::memory_order_relaxed);
  }

  // The steady clock showed `steady_ns` between the two readings of the counter. A rate comes from
  // two pairs whose combined precision suffices, the very first pair included. If it does not, the
  // better pair is kept.
  void observe(std::uint64_t before, std::int64_t steady_ns, std::uint64_t after) noexcept {
    if (busy_.exchange(true, std::memory_order_acquire)) return;
    const std::uint64_t took = std::min(after - before, kBack);
    const std::uint64_t from = last_.load(std::memory_order_relaxed);
    const std::uint64_t ticks = before - from;
    const std::int64_t ns = steady_ns - last_ns_;
    if (from == 0 || ticks > kBack || ns < 0 || ns > kLongest) {  // the first, or a jump
      begin(before, steady_ns, took);
      rate_.store(0, std::memory_order_relaxed);
      wait_.store(0, std::memory_order_relaxed);
    } else if (ns < (ticks_per_ms() == 0 ? kFirst : kNext)) {  // too soon
    } else if (took_ + took > ticks / 4096) {
      if (took < took_) begin(before, steady_ns, took);
    } else {
      const std::uint64_t rate = ticks * 1000 / (static_cast<std::uint64_t>(ns) / 1000);
      begin(before, steady_ns, took);
      rate_.store(rate, std::memory_order_relaxed);
      wait_.store(rate * (kNext / 1'000'000), std::memory_order_relaxed);
    }
    busy_.store(false, std::memory_order_release);
  }

 private:
  static constexpr std::int64_t kFirst = 10'000'000;
  static constexpr std::int64_t kNext = 1'000'000'000;
  static constexpr std::int64_t kLongest = 1000 * kNext;  // ticks * 1000 still fits
  static constexpr std::uint64_t kBack = std::uint64_t{1} << 53;

  void begin(std::uint64_t ticks, std::int64_t steady_ns, std::uint64_t took) noexcept {
    last_.store(ticks, std::memory_order_relaxed);
    last_ns_ = steady_ns;
    took_ = took;
  }

  std::atomic<std::uint64_t> rate_{0};
  std::atomic<std::uint64_t> last_{0};  // the counter at the observation in use
  std::atomic<std::uint64_t> wait_{0};  // ticks until the next one is due
  std::int64_t last_ns_ = 0;            // guarded by busy_
  std::uint64_t took_ = 0;              // ticks between its two readings; guarded by busy_
  std::atomic<bool> busy_{false};
};

}  // namespace idmint
