#include "idmint/clock.h"

#include <sched.h>
#include <time.h>

#include <algorithm>

#include "base/posix_clock.h"
#include "base/tsc.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace idmint {
namespace {

constexpr Instant instant(std::int64_t ns) noexcept {
  return Instant{std::chrono::nanoseconds{ns}};
}

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void sleep_for(std::int64_t ns) noexcept {
  const timespec t{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  ::clock_nanosleep(CLOCK_MONOTONIC, 0, &t, nullptr);
}

// Waits until CLOCK_REALTIME shows `when`. Sleeps in short pieces and reads the clock after each,
// so that setting the clock forward ends the wait. A clock that was set back or stands still ends
// it too, after `at_most` of sleep.
void wait_for_realtime(std::int64_t when, std::int64_t at_most) noexcept {
  constexpr std::int64_t kPiece = 10'000'000;
  constexpr std::int64_t kWakeUp = 60'000;  // the last part is spent awake, since waking takes time
  constexpr int kMaxLooks = 20'000;         // readings while awake, far more than kWakeUp takes
  std::int64_t left = when - read_ns(CLOCK_REALTIME);
  std::int64_t sleep_left = at_most;
  for (int looks = 0; left > 0 && looks < kMaxLooks;) {
    if (left > kWakeUp) {
      if (sleep_left <= 0) return;
      const std::int64_t piece = std::min({left - kWakeUp, kPiece, sleep_left});
      sleep_left -= piece;
      sleep_for(piece);
    } else {
      if (++looks % 16 == 0) ::sched_yield();
      relax();
    }
    const std::int64_t now_left = when - read_ns(CLOCK_REALTIME);
    if (now_left > left) return;  // it was set back
    left = now_left;
  }
}

// The clocks below are never ahead of CLOCK_REALTIME, which reaches `when` first.
void wait_for(Clock& clock, Instant when, Instant shown_at, std::int64_t at_most) noexcept {
  wait_for_realtime(shown_at.time_since_epoch().count(), at_most);
  constexpr int kMaxPieces = 40;  // 20 ms, some kernel ticks
  for (int i = 0; i < kMaxPieces && clock.now() < when; ++i) sleep_for(500'000);
}

class PreciseClock final : public Clock {
 public:
  Instant now() noexcept override { return instant(read_ns(CLOCK_REALTIME)); }
  void sleep_until(Instant when, std::chrono::nanoseconds at_most) noexcept override {
    wait_for_realtime(when.time_since_epoch().count(), at_most.count());
  }
};

class CoarseClock final : public Clock {
 public:
  Instant now() noexcept override { return instant(read_ns(CLOCK_REALTIME_COARSE)); }
  void sleep_until(Instant when, std::chrono::nanoseconds at_most) noexcept override {
    wait_for(*this, when, when, at_most.count());
  }
};

class SecondsClock final : public Clock {
 public:
  Instant now() noexcept override { return Instant{std::chrono::seconds{::time(nullptr)}}; }
  void sleep_until(Instant when, std::chrono::nanoseconds at_most) noexcept override {
    constexpr std::chrono::seconds stale{1};
    wait_for(*this, when, std::chrono::ceil<std::chrono::seconds>(when), (at_most + stale).count());
  }
};

#if defined(__x86_64__)

// Relies on equal counters on all processors, which Linux ensures if the counter is invariant. A
// thread that moves to a processor with a lower counter reads the clock.
class TscClock final : public Clock {
 public:
  Instant now() noexcept override {
    const std::uint64_t ticks = __rdtsc();
    if (kept_.stands(ticks)) [[likely]]
      return instant(kept_.ns());
    return read(ticks);
  }

  void sleep_until(Instant when, std::chrono::nanoseconds at_most) noexcept override {
    wait_for_realtime(when.time_since_epoch().count(), at_most.count());
    kept_.drop();
  }

  static bool usable() noexcept {
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & 1U << 8) != 0;
  }

 private:
  [[gnu::noinline]] Instant read(std::uint64_t ticks) noexcept {
    if (rate_.due(ticks)) {
      const std::int64_t steady = read_ns(CLOCK_MONOTONIC_RAW);
      rate_.observe(ticks, steady, __rdtsc());
      ticks = __rdtsc();
    }
    kept_.keep(ticks, read_ns(CLOCK_REALTIME), rate_.ticks_per_ms());
    return instant(kept_.ns());
  }

  [[gnu::tls_model("initial-exec")]] static constinit thread_local KeptReading kept_;
  TickRate rate_;
};

constinit thread_local KeptReading TscClock::kept_;

#endif

}  // namespace

Clock& system_clock() noexcept {
  static constinit PreciseClock clock;
  return clock;
}

Clock& coarse_clock() noexcept {
  static constinit CoarseClock clock;
  return clock;
}

Clock& seconds_clock() noexcept {
  static constinit SecondsClock clock;
  return clock;
}

Clock& tsc_clock() noexcept {
#if defined(__x86_64__)
  static constinit TscClock clock;
  static const bool usable = TscClock::usable();
  if (usable) return clock;
#endif
  return system_clock();
}

}  // namespace idmint
