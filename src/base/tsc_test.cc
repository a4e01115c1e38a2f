#include "base/tsc.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

namespace idmint {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::uint64_t kTicksPerMs = 2'600'000;

std::int64_t floor_ms(std::int64_t ns) { return (ns >= 0 ? ns : ns - kMs + 1) / kMs; }

TEST(KeptReading, StandsForNothingAtFirst) {
  const KeptReading reading;
  EXPECT_FALSE(reading.stands(0));
  EXPECT_FALSE(reading.stands(12345));
}

TEST(KeptReading, StandsForMostOfItsMillisecond) {
  KeptReading reading;
  reading.keep(1000, 7 * kMs, kTicksPerMs);
  EXPECT_EQ(reading.ns(), 7 * kMs);
  EXPECT_TRUE(reading.stands(1000));
  EXPECT_TRUE(reading.stands(1000 + kTicksPerMs * 74 / 100));
  EXPECT_FALSE(reading.stands(1000 + kTicksPerMs * 75 / 100));
}

TEST(KeptReading, EndsWhenTheCounterWentBack) {
  KeptReading reading;
  reading.keep(1000, 7 * kMs, kTicksPerMs);
  EXPECT_FALSE(reading.stands(999));
  EXPECT_FALSE(reading.stands(0));
}

TEST(KeptReading, EndsWhenTheCounterJumped) {
  KeptReading reading;
  reading.keep(1000, 7 * kMs, kTicksPerMs);
  EXPECT_FALSE(reading.stands(std::uint64_t{1} << 63));
}

TEST(KeptReading, IsNotKeptWithoutARate) {
  KeptReading reading;
  reading.keep(1000, 7 * kMs, 0);
  EXPECT_EQ(reading.ns(), 7 * kMs);
  EXPECT_FALSE(reading.stands(1000));
}

TEST(KeptReading, EndsWhenDropped) {
  KeptReading reading;
  reading.keep(1000, 7 * kMs, kTicksPerMs);
  reading.drop();
  EXPECT_FALSE(reading.stands(1000));
}

// The wall clock runs up to a tenth faster than the counter says, and may be before 1970. While the
// reading is valid, the wall clock has not left the reading's millisecond, at any speed of the
// counter.
RC_GTEST_PROP(KeptReading, IsNeverOfAnotherMillisecond, ()) {
  const auto ns = *rc::gen::oneOf(rc::gen::inRange<std::int64_t>(-5 * kMs, 5 * kMs),
                                  rc::gen::arbitrary<std::int64_t>());
  RC_PRE(ns > INT64_MIN + 2 * kMs && ns < INT64_MAX - 2 * kMs);
  const auto rate = *rc::gen::inRange<std::uint64_t>(100'000, 10'000'000);
  const auto from = *rc::gen::arbitrary<std::uint64_t>();
  const auto elapsed = *rc::gen::inRange<std::int64_t>(0, 2 * kMs);
  KeptReading reading;
  reading.keep(from, ns, rate);
  const double ticks = static_cast<double>(elapsed) * 0.9 * static_cast<double>(rate) / kMs;
  if (reading.stands(from + static_cast<std::uint64_t>(ticks))) {
    RC_ASSERT(floor_ms(ns + elapsed) == floor_ms(ns));
    RC_ASSERT(elapsed < kMs);
  }
}

// A counter and a steady clock that go on as told.
struct Machine {
  TickRate rate;
  double ghz = 2.6;
  std::uint64_t ticks = 5'000'000'000;
  std::int64_t steady = 77'000'000'000;

  void advance(std::int64_t ns) {
    steady += ns;
    ticks += static_cast<std::uint64_t>(std::llround(static_cast<double>(ns) * ghz));
  }
  void observe(std::uint64_t took = 50) { rate.observe(ticks, steady, ticks + took); }
};

TEST(TickRate, IsKnownAfterTenMilliseconds) {
  Machine machine;
  EXPECT_TRUE(machine.rate.due(machine.ticks));
  machine.observe();
  machine.advance(9 * kMs);
  machine.observe();
  EXPECT_EQ(machine.rate.ticks_per_ms(), 0U);
  EXPECT_TRUE(machine.rate.due(machine.ticks));
  machine.advance(kMs);
  machine.observe();
  EXPECT_EQ(machine.rate.ticks_per_ms(), 2'600'000U);
  EXPECT_FALSE(machine.rate.due(machine.ticks));
}

TEST(TickRate, IsRightForManySpeeds) {
  for (const double ghz : {0.1, 1.0, 1.9, 2.4567, 3.0, 5.1}) {
    Machine machine;
    machine.ghz = ghz;
    machine.observe();
    machine.advance(12'345'678);
    machine.observe();
    EXPECT_NEAR(static_cast<double>(machine.rate.ticks_per_ms()), ghz * 1e6, ghz * 1e6 * 1e-4);
  }
}

TEST(TickRate, LeavesOutAPairThatTookLong) {
  Machine machine;
  machine.observe();
  machine.advance(20 * kMs);
  machine.observe(10'000'000);  // interrupted between the readings
  EXPECT_EQ(machine.rate.ticks_per_ms(), 0U);
  machine.observe();
  EXPECT_EQ(machine.rate.ticks_per_ms(), 2'600'000U);
}

TEST(TickRate, LeavesOutAFirstPairThatTookLong) {
  Machine machine;
  machine.observe(10'000'000);  // the steady clock was read 4 ms after the counter
  machine.advance(20 * kMs);
  machine.observe();
  EXPECT_EQ(machine.rate.ticks_per_ms(), 0U);
  machine.advance(20 * kMs);
  machine.observe();
  EXPECT_EQ(machine.rate.ticks_per_ms(), 2'600'000U);
}

TEST(TickRate, IsUnknownAfterTheCounterWentBack) {
  Machine machine;
  machine.observe();
  machine.advance(20 * kMs);
  machine.observe();
  machine.ticks = 1000;
  EXPECT_TRUE(machine.rate.due(machine.ticks));
  machine.observe();
  EXPECT_EQ(machine.rate.ticks_per_ms(), 0U);
  machine.advance(20 * kMs);
  machine.observe();
  EXPECT_EQ(machine.rate.ticks_per_ms(), 2'600'000U);
}

TEST(TickRate, IsLearntAnewOnAnotherMachine) {
  Machine machine;
  machine.observe();
  machine.advance(20 * kMs);
  machine.observe();
  machine.ghz = 1.3;  // moved
  machine.advance(2500 * kMs);
  ASSERT_TRUE(machine.rate.due(machine.ticks));
  machine.observe();
  EXPECT_EQ(machine.rate.ticks_per_ms(), 1'300'000U);
}

TEST(TickRate, StaysUnknownWhileTheSteadyClockStands) {
  Machine machine;
  machine.observe();
  machine.ticks += 100'000'000;
  machine.observe();
  EXPECT_EQ(machine.rate.ticks_per_ms(), 0U);
}

}  // namespace
}  // namespace idmint
