// Clocks and randomness that do what a test says.
#pragma once

#include <algorithm>
#include <chrono>

#include "idmint/clock.h"
#include "idmint/testing.h"

namespace idmint::fakes {

using idmint::ManualClock;
using idmint::ScriptedEntropy;

// Says that it has slept, and has not.
class StuckClock final : public Clock {
 public:
  explicit StuckClock(Instant at) : at_(at) {}

  Instant now() noexcept override { return at_; }
  void sleep_until(Instant, std::chrono::nanoseconds) noexcept override {}

 private:
  const Instant at_;
};

// Set back by an hour after it was read and before the sleep by it begins; then it sleeps as the
// system's clock does.
class ClockSetBackBeforeSleep final : public Clock {
 public:
  explicit ClockSetBackBeforeSleep(Instant start) : now_(start) {}

  Instant now() noexcept override { return now_; }
  void sleep_until(Instant when, std::chrono::nanoseconds at_most) noexcept override {
    if (slept == std::chrono::nanoseconds{}) now_ -= std::chrono::hours{1};
    const auto time = std::max(std::min<std::chrono::nanoseconds>(when - now_, at_most), {});
    now_ += time;
    slept += time;
  }

  std::chrono::nanoseconds slept{};

 private:
  Instant now_;
};

}  // namespace idmint::fakes
