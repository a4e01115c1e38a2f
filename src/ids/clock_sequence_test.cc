#include "ids/clock_sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fakes/code_of.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr std::int64_t kStart = 10'000'000;  // ticks
constexpr ClockSequenceOptions kFour{.epoch = Instant{},
                                     .unit = milliseconds{1},
                                     .capacity = 4,
                                     .max_tick = std::int64_t{1} << 40,
                                     .max_drift = seconds{20}};

Instant at_tick(std::int64_t tick) { return Instant{milliseconds{tick}}; }

ClockSequenceOptions self_starting(ClockSequenceOptions options = kFour) {
  options.self_starting = true;
  return options;
}

// The pairs of `n` calls for one count each.
std::vector<std::pair<std::int64_t, std::uint32_t>> take(ClockSequence& sequence, int n) {
  std::vector<std::pair<std::int64_t, std::uint32_t>> pairs;
  for (int i = 0; i < n; ++i) {
    Result<Stamp> stamp = sequence.next(1);
    if (!stamp) {
      ADD_FAILURE() << stamp.error().message();
      break;
    }
    pairs.emplace_back(stamp->tick, stamp->count);
  }
  return pairs;
}

using Pairs = std::vector<std::pair<std::int64_t, std::uint32_t>>;

TEST(ClockSequence, CountsWithinATickAndStartsAgainInTheNext) {
  fakes::ManualClock clock(at_tick(kStart) + nanoseconds{999'999});
  ClockSequence sequence(self_starting(), clock);
  EXPECT_EQ(take(sequence, 2), (Pairs{{kStart, 0}, {kStart, 1}}));
  clock.advance(nanoseconds{1});
  EXPECT_EQ(take(sequence, 1), (Pairs{{kStart + 1, 0}}));
  EXPECT_EQ(clock.sleeps(), 0);
}

TEST(ClockSequence, AnExhaustedTickWaitsForTheNextOneAndNeverRunsAhead) {
  fakes::ManualClock clock(at_tick(kStart));
  ClockSequence sequence(self_starting(), clock);
  EXPECT_EQ(
      take(sequence, 6),
      (Pairs{
          {kStart, 0}, {kStart, 1}, {kStart, 2}, {kStart, 3}, {kStart + 1, 0}, {kStart + 1, 1}}));
  EXPECT_EQ(clock.sleeps(), 1);
  EXPECT_EQ(clock.now(), at_tick(kStart + 1));
}

ClockSequenceOptions running_ahead(nanoseconds by) {
  ClockSequenceOptions options = self_starting();
  options.max_run_ahead = by;
  return options;
}

TEST(ClockSequence, RunAheadEntersTheNextTicksAtOnceAndThenWaits) {
  fakes::ManualClock clock(at_tick(kStart));
  ClockSequence sequence(running_ahead(milliseconds{3}), clock);
  EXPECT_EQ(take(sequence, 16).back(), (std::pair<std::int64_t, std::uint32_t>{kStart + 3, 3}));
  EXPECT_EQ(clock.sleeps(), 0);
  EXPECT_EQ(clock.now(), at_tick(kStart));
  // From here on at the clock's pace, as far ahead.
  EXPECT_EQ(take(sequence, 8), (Pairs{{kStart + 4, 0},
                                      {kStart + 4, 1},
                                      {kStart + 4, 2},
                                      {kStart + 4, 3},
                                      {kStart + 5, 0},
                                      {kStart + 5, 1},
                                      {kStart + 5, 2},
                                      {kStart + 5, 3}}));
  EXPECT_EQ(clock.sleeps(), 2);
  EXPECT_EQ(clock.now(), at_tick(kStart + 2));
  // The ticks that were run ahead are made up for while nobody asks.
  clock.set(at_tick(kStart + 6));
  EXPECT_EQ(take(sequence, 1), (Pairs{{kStart + 6, 0}}));
}

TEST(ClockSequence, RunAheadIsMeasuredFromTheClockToTheBeginningOfTheTick) {
  fakes::ManualClock clock(at_tick(kStart) + nanoseconds{1});
  ClockSequence sequence(running_ahead(milliseconds{1}), clock);
  EXPECT_EQ(take(sequence, 8).back(), (std::pair<std::int64_t, std::uint32_t>{kStart + 1, 3}));
  EXPECT_EQ(clock.sleeps(), 0);
  EXPECT_EQ(take(sequence, 1), (Pairs{{kStart + 2, 0}}));
  EXPECT_EQ(clock.now(), at_tick(kStart + 1)) << "no longer than until 1 ms ahead is enough";

  fakes::ManualClock early(at_tick(kStart));
  ClockSequence careful(running_ahead(nanoseconds{999'999}), early);
  take(careful, 5);
  EXPECT_EQ(early.sleeps(), 1);
  EXPECT_EQ(early.now(), at_tick(kStart) + nanoseconds{1});
}

TEST(ClockSequence, RunAheadIsAtMostMaxDrift) {
  fakes::ManualClock clock(at_tick(kStart));
  ClockSequenceOptions options = running_ahead(hours{1});
  options.max_drift = milliseconds{2};
  ClockSequence sequence(options, clock);
  EXPECT_EQ(take(sequence, 13).back(), (std::pair<std::int64_t, std::uint32_t>{kStart + 3, 0}));
  EXPECT_EQ(clock.now(), at_tick(kStart + 1));
}

TEST(ClockSequence, RunAheadOfAClockSetBackIsNotLostAndNotExceeded) {
  fakes::ManualClock clock(at_tick(kStart));
  ClockSequence sequence(running_ahead(milliseconds{3}), clock);
  EXPECT_EQ(take(sequence, 16).back(), (std::pair<std::int64_t, std::uint32_t>{kStart + 3, 3}));
  clock.advance(-seconds{5});
  const Instant before = clock.now();
  EXPECT_EQ(take(sequence, 9).back(), (std::pair<std::int64_t, std::uint32_t>{kStart + 6, 0}));
  EXPECT_EQ(clock.now() - before, milliseconds{3}) << "one unit of waiting for each tick entered";
  clock.set(at_tick(kStart + 5));
  EXPECT_EQ(take(sequence, 11).back(), (std::pair<std::int64_t, std::uint32_t>{kStart + 8, 3}));
  EXPECT_EQ(clock.now(), at_tick(kStart + 5)) << "3 ms ahead again";
}

TEST(ClockSequence, ARunNeverLeavesItsTick) {
  fakes::ManualClock clock(at_tick(kStart));
  ClockSequence sequence(self_starting(), clock);
  ASSERT_TRUE(sequence.next(3));
  Result<Stamp> rest = sequence.next(3);
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->count, 3U);
  EXPECT_EQ(rest->size, 1U);
  Result<Stamp> following = sequence.next(3);
  ASSERT_TRUE(following);
  EXPECT_EQ(following->tick, kStart + 1);
  EXPECT_EQ(following->size, 3U);
}

TEST(ClockSequence, AClockSetBackKeepsTheOldTickAndCountsOn) {
  fakes::ManualClock clock(at_tick(kStart));
  ClockSequence sequence(self_starting(), clock);
  take(sequence, 1);
  clock.advance(-seconds{5});
  EXPECT_EQ(take(sequence, 2), (Pairs{{kStart, 1}, {kStart, 2}}));
  EXPECT_EQ(clock.sleeps(), 0);
}

TEST(ClockSequence, AheadOfAClockSetBackTicksPassAtTheirOwnPace) {
  fakes::ManualClock clock(at_tick(kStart));
  ClockSequence sequence(self_starting(), clock);
  take(sequence, 4);
  clock.advance(-seconds{5});
  const Instant before = clock.now();
  EXPECT_EQ(take(sequence, 9).back(), (std::pair<std::int64_t, std::uint32_t>{kStart + 3, 0}));
  EXPECT_EQ(clock.now() - before, milliseconds{3}) << "one unit of waiting for each tick entered";
  // Once the clock has caught up its own ticks are used again.
  clock.set(at_tick(kStart + 100));
  EXPECT_EQ(take(sequence, 1), (Pairs{{kStart + 100, 0}}));
}

TEST(ClockSequence, OnceTheClockHasCaughtUpItIsNotRunAheadOf) {
  fakes::ManualClock clock(at_tick(kStart));
  ClockSequence sequence(self_starting(), clock);
  take(sequence, 4);
  clock.advance(-milliseconds{1});
  EXPECT_EQ(take(sequence, 1), (Pairs{{kStart + 1, 0}}));
  EXPECT_EQ(clock.now(), at_tick(kStart + 1));
}

TEST(ClockSequence, PastMaxDriftItRefusesUntilTheClockHasCaughtUp) {
  fakes::ManualClock clock(at_tick(kStart));
  ClockSequence sequence(self_starting(), clock);
  take(sequence, 1);
  clock.set(at_tick(kStart) - seconds{20} - nanoseconds{1});
  Result<Stamp> refused = sequence.next(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_NE(refused.error().message().find("20.000 s behind"), std::string::npos);
  clock.advance(nanoseconds{1});
  EXPECT_EQ(take(sequence, 1), (Pairs{{kStart, 1}}));
}

TEST(ClockSequence, RunningAheadStopsAtMaxDriftToo) {
  fakes::ManualClock clock(at_tick(kStart));
  ClockSequence sequence(self_starting(), clock);
  take(sequence, 4);
  clock.set(at_tick(kStart) - seconds{20});
  Result<Stamp> refused =
      sequence.next(1);  // waits a unit; then the next tick is 20 s ahead exactly
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->tick, kStart + 1);
  take(sequence, 3);
  clock.set(at_tick(kStart + 1) - seconds{20});
  clock.advance(-milliseconds{1});
  refused = sequence.next(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
}

TEST(ClockSequence, PastMaxDriftAPracticalFormatStartsAfreshWithANewSeed) {
  fakes::ManualClock clock(at_tick(kStart));
  ClockSequenceOptions options = self_starting();
  options.start_afresh = true;
  std::uint64_t seeds = 0;
  ClockSequence sequence(options, clock, [&] { return TickSeed{.count = 2, .high = ++seeds}; });
  Result<Stamp> first = sequence.next(1);
  ASSERT_TRUE(first);
  clock.advance(-hours{1});
  Result<Stamp> second = sequence.next(1);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->tick, kStart - 3'600'000);
  EXPECT_EQ(second->count, 2U);
  EXPECT_EQ(first->high, 1U);
  EXPECT_EQ(second->high, 2U);
  // The same tick a second time has a seed of its own as well.
  clock.set(at_tick(kStart));
  Result<Stamp> again = sequence.next(1);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->tick, kStart);
  EXPECT_EQ(again->high, 3U);
}

TEST(ClockSequence, TimesOutsideTheFormatAreOutOfRange) {
  fakes::ManualClock clock(Instant{nanoseconds{-1}});
  ClockSequenceOptions options = self_starting();
  options.max_tick = kStart;
  ClockSequence sequence(options, clock);
  Result<Stamp> before = sequence.next(1);
  ASSERT_FALSE(before);
  EXPECT_EQ(before.error().code, Code::kOutOfRange);
  clock.set(at_tick(kStart));
  EXPECT_EQ(take(sequence, 4).back(), (std::pair<std::int64_t, std::uint32_t>{kStart, 3}));
  Result<Stamp> after = sequence.next(1);
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().code, Code::kOutOfRange);
  clock.set(Instant::max());
  after = sequence.next(1);
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().code, Code::kOutOfRange);
}

TEST(ClockSequence, AClockThatStandsStillEndsTheWaiting) {
  fakes::StuckClock clock(at_tick(kStart));
  ClockSequence sequence(self_starting(), clock);
  EXPECT_EQ(take(sequence, 4).back(), (std::pair<std::int64_t, std::uint32_t>{kStart, 3}));
  Result<Stamp> refused = sequence.next(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
}

// As long as a caller sleeps, others take all of what it waits for.
class CrowdedClock final : public Clock {
 public:
  Instant now() noexcept override { return now_; }
  void sleep_until(Instant when, nanoseconds at_most) noexcept override {
    now_ = std::max(now_, std::min(when, now_ + at_most));
    ++sleeps;
    if (others) others();
  }

  std::function<void()> others;
  int sleeps = 0;

 private:
  Instant now_ = at_tick(kStart);
};

TEST(ClockSequence, ACallerThatOthersOutrunWaitsForItsTurn) {
  CrowdedClock clock;
  ClockSequence sequence(self_starting(), clock);
  ASSERT_EQ(sequence.next(4)->size, 4U);
  clock.others = [&] {
    if (clock.sleeps <= 3000) {
      EXPECT_EQ(sequence.next(4)->size, 4U);
    }
  };
  EXPECT_EQ(take(sequence, 1), (Pairs{{kStart + 3001, 0}}));
}

TEST(ClockSequence, ACallerThatOthersOutrunLeavesAtItsDeadline) {
  CrowdedClock clock;
  ClockSequence sequence(self_starting(), clock);
  ASSERT_EQ(sequence.next(4)->size, 4U);
  clock.others = [&] { EXPECT_EQ(sequence.next(4)->size, 4U); };
  const Result<Stamp> refused = sequence.next(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_NE(refused.error().message().find("within the deadline of 5.000 s"), std::string::npos)
      << refused.error().message();
  EXPECT_EQ(clock.now(), at_tick(kStart + 5000));
}

TEST(ClockSequence, ALongUnitIsNotWaitedForPastTheDeadline) {
  CrowdedClock clock;
  ClockSequenceOptions options = self_starting();
  options.unit = hours{1};
  ClockSequence sequence(options, clock);
  take(sequence, 4);
  const Instant before = clock.now();
  const Result<Stamp> refused = sequence.next(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_EQ(clock.now() - before, seconds{5});
}

TEST(ClockSequence, ATickAheadOfTheClockIsNotEnteredEarlyBecauseTheDeadlineCame) {
  CrowdedClock clock;
  ClockSequenceOptions options = self_starting();
  options.unit = hours{1};
  options.max_drift = hours{9};
  ClockSequence sequence(options, clock);
  ASSERT_TRUE(sequence.start(kStart / 3'600'000 + 5));
  take(sequence, 4);
  EXPECT_FALSE(sequence.next(1)) << "it takes an hour of waiting, and the deadline is 5 s";
}

TEST(ClockSequence, ARefusalSaysWhenToAskAgainAndWhatARestartDoes) {
  fakes::ManualClock clock(parse_time("2026-01-01T11:00:00Z").value());
  ClockSequenceOptions options = self_starting();
  options.max_tick = std::int64_t{1} << 41;
  options.restart = "a restart mints at once";
  ClockSequence sequence(options, clock);
  take(sequence, 1);
  clock.advance(-hours{1});
  const Result<Stamp> refused = sequence.next(1);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("ask again when it shows 2026-01-01T10:59:40.000Z, in "
                                           "3580.000 s; a restart mints at once"),
            std::string::npos)
      << refused.error().message();
  clock.set(parse_time("2026-01-01T10:59:40Z").value());
  EXPECT_TRUE(sequence.next(1));
}

TEST(ClockSequence, WaitsAUnitThoughTheClockIsSetBackAsItBeginsTo) {
  fakes::ClockSetBackBeforeSleep clock(at_tick(kStart));
  ClockSequence sequence(self_starting(), clock);
  EXPECT_EQ(take(sequence, 4).back(), (std::pair<std::int64_t, std::uint32_t>{kStart, 3}));
  Result<Stamp> refused = sequence.next(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_EQ(clock.slept, milliseconds{1});
}

TEST(ClockSequence, AClockThatStandsStillEndsTheRunAhead) {
  fakes::StuckClock clock(at_tick(kStart));
  ClockSequence sequence(running_ahead(milliseconds{3}), clock);
  EXPECT_EQ(take(sequence, 16).back(), (std::pair<std::int64_t, std::uint32_t>{kStart + 3, 3}));
  Result<Stamp> refused = sequence.next(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
}

TEST(ClockSequence, WhereATickMayHaveBeenUsedItIsSetApartBeforeItsSeedIsDrawn) {
  fakes::ManualClock clock(at_tick(kStart));
  ClockSequenceOptions options = self_starting();
  options.start_afresh = true;
  std::vector<std::pair<std::int64_t, bool>> calls;
  std::optional<Code> failure;
  const SetApart set_apart = [&](std::int64_t tick, bool first) -> Result<std::int64_t> {
    if (failure) return std::unexpected(Error{*failure, "as scripted"});
    calls.emplace_back(tick, first);
    return 0;
  };
  ClockSequence sequence(
      options, clock, [&] { return TickSeed{.low = calls.size()}; }, nullptr, set_apart);
  using Calls = std::vector<std::pair<std::int64_t, bool>>;
  const auto low = [&] { return sequence.next(1).value().low; };
  EXPECT_EQ(low(), 1U);
  EXPECT_EQ(calls, (Calls{{kStart, true}}));
  clock.advance(milliseconds{1});
  clock.advance(-seconds{20});
  EXPECT_EQ(low(), 1U) << "within max_drift nothing is used twice";
  take(sequence, 10);
  clock.set(at_tick(kStart + 100));
  EXPECT_EQ(low(), 1U);
  EXPECT_EQ(calls.size(), 1U);

  clock.advance(-hours{1});
  failure = Code::kUnavailable;
  EXPECT_EQ(sequence.next(1).error().code, Code::kUnavailable);
  failure.reset();
  EXPECT_EQ(low(), 2U);
  EXPECT_EQ(calls.back(), (std::pair{kStart + 100 - 3'600'000, false}));
  clock.advance(-hours{1});
  failure = Code::kDataLoss;
  EXPECT_EQ(sequence.next(1).error().code, Code::kDataLoss);
  failure.reset();
  EXPECT_EQ(sequence.next(1).error().code, Code::kDataLoss) << "for ever";
}

class ScriptedLease final : public IdTimeLease {
 public:
  Result<std::int64_t> extend(std::int64_t tick, SteadyTime until) override {
    asked.push_back(tick);
    if (while_asked) while_asked(until);
    if (failure) return std::unexpected(Error{*failure, "as scripted"});
    return tick + reach;
  }

  std::vector<std::int64_t> asked;
  std::int64_t reach = 10;
  std::optional<Code> failure;
  std::function<void(SteadyTime)> while_asked;
};

TEST(ClockSequence, ACallerBehindOneThatAsksForTheLeaseLeavesAtItsOwnTime) {
  fakes::ManualClock clock(at_tick(kStart));
  ScriptedLease lease;
  ClockSequence sequence(kFour, clock, {}, &lease);
  ASSERT_TRUE(sequence.start(0));
  clock.advance(milliseconds{10});
  const SteadyTime until = std::chrono::steady_clock::now() + hours{1};
  lease.while_asked = [&](SteadyTime told) {
    EXPECT_EQ(told, until) << "the caller's own";
    std::jthread([&] {
      const Result<Stamp> late = sequence.next(1, std::chrono::steady_clock::now());
      ASSERT_FALSE(late);
      EXPECT_EQ(late.error().code, Code::kUnavailable);
      EXPECT_THAT(late.error().message(), testing::HasSubstr("another caller still waits"));
    });
  };
  EXPECT_TRUE(sequence.next(1, until));
  EXPECT_EQ(lease.asked.size(), 2U);
}

TEST(ClockSequence, NoTickIsEnteredAtOrPastTheBoundOfTheLease) {
  fakes::ManualClock clock(at_tick(kStart));
  ScriptedLease lease;
  ClockSequence sequence(kFour, clock, {}, &lease);
  ASSERT_TRUE(sequence.start(0));
  EXPECT_EQ(lease.asked, std::vector<std::int64_t>{kStart});
  take(sequence, 40);  // to the last count below the bound
  EXPECT_EQ(lease.asked.size(), 1U);
  lease.failure = Code::kUnavailable;
  Result<Stamp> refused = sequence.next(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  lease.failure.reset();
  EXPECT_EQ(take(sequence, 1).front().first, kStart + 10);
}

TEST(ClockSequence, RunAheadStopsAtTheBoundOfTheLease) {
  fakes::ManualClock clock(at_tick(kStart));
  ScriptedLease lease;
  lease.reach = 2;
  ClockSequenceOptions options = running_ahead(seconds{1});
  options.self_starting = false;
  ClockSequence sequence(options, clock, {}, &lease);
  ASSERT_TRUE(sequence.start(0));
  EXPECT_EQ(take(sequence, 12).back(), (std::pair<std::int64_t, std::uint32_t>{kStart + 2, 3}));
  EXPECT_EQ(lease.asked, (std::vector<std::int64_t>{kStart, kStart + 2}));
  lease.failure = Code::kUnavailable;
  EXPECT_EQ(take(sequence, 4).back().first, kStart + 3);
  Result<Stamp> refused = sequence.next(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
}

TEST(ClockSequence, ALostLeaseIsLostForEver) {
  fakes::ManualClock clock(at_tick(kStart));
  ScriptedLease lease;
  ClockSequence sequence(kFour, clock, {}, &lease);
  ASSERT_TRUE(sequence.start(0));
  clock.advance(milliseconds{10});
  lease.failure = Code::kDataLoss;
  for (const std::int64_t tick : {kStart + 10, kStart + 11, kStart, kStart - 1, kStart + 1}) {
    clock.set(at_tick(tick));  // the rest of the tick before, too
    Stamp stamp{};
    EXPECT_FALSE(sequence.try_next(1, stamp));
    const Result<Stamp> refused = sequence.next(1);
    ASSERT_FALSE(refused) << tick;
    EXPECT_EQ(refused.error().code, Code::kDataLoss);
    EXPECT_EQ(refused.error().message(), "as scripted");
    lease.failure.reset();
  }
}

// Does what it is told once, when it is asked for the time.
class InterruptingClock final : public Clock {
 public:
  Instant now() noexcept override {
    if (then) std::exchange(then, nullptr)();
    return at_tick(kStart);
  }
  void sleep_until(Instant, std::chrono::nanoseconds) noexcept override {}

  std::function<void()> then;
};

TEST(ClockSequence, RevokedItGivesNothingMore) {
  fakes::ManualClock clock(at_tick(kStart));
  ScriptedLease lease;
  ClockSequence sequence(kFour, clock, {}, &lease);
  ASSERT_TRUE(sequence.start(0));
  take(sequence, 1);
  sequence.revoke({Code::kDataLoss, "revoked"});
  for (int i = 0; i < 3; ++i) {
    Stamp stamp;
    EXPECT_FALSE(sequence.try_next(1, stamp));
    const Result<Stamp> refused = sequence.next(1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message(), "revoked");
    clock.advance(milliseconds{1});
  }
  EXPECT_EQ(lease.asked.size(), 1U);
}

TEST(ClockSequence, RevokedAfterACallHasSeenTheTickItGivesNoneOfIt) {
  InterruptingClock clock;
  ScriptedLease lease;
  ClockSequence sequence(kFour, clock, {}, &lease);
  ASSERT_TRUE(sequence.start(0));
  clock.then = [&] { sequence.revoke({Code::kDataLoss, "revoked"}); };
  const Result<Stamp> refused = sequence.next(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kDataLoss);
}

TEST(ClockSequence, StartsAboveWhatWasMintedBeforeOrNotAtAll) {
  fakes::ManualClock clock(at_tick(kStart));
  ClockSequence near(kFour, clock);
  ASSERT_TRUE(near.start(kStart + 20'000));
  EXPECT_EQ(take(near, 1), (Pairs{{kStart + 20'000, 0}}));

  ClockSequence far(kFour, clock);
  for (const std::int64_t from : {kStart + 20'001, std::int64_t{1} << 62}) {
    Result<void> refused = far.start(from);
    ASSERT_FALSE(refused) << from;
    EXPECT_EQ(refused.error().code, Code::kUnavailable);
  }
  Result<Stamp> unstarted = far.next(1);
  ASSERT_FALSE(unstarted);
  EXPECT_EQ(unstarted.error().code, Code::kFailedPrecondition);
}

TEST(ClockSequence, SetApartBeginsANewBound) {
  fakes::ManualClock clock(at_tick(kStart));
  ScriptedLease lease;
  ClockSequenceOptions options = kFour;
  options.start_afresh = true;
  int apart = 0;
  const SetApart set_apart = [&](std::int64_t tick, bool first) -> Result<std::int64_t> {
    EXPECT_FALSE(first);
    ++apart;
    return tick + 5;
  };
  ClockSequence sequence(options, clock, {}, &lease, set_apart);
  ASSERT_TRUE(sequence.start(kStart + 20'000));
  EXPECT_EQ(apart, 0);
  EXPECT_EQ(lease.asked, std::vector<std::int64_t>{kStart + 20'000});
  clock.set(at_tick(kStart - 3'600'000));
  EXPECT_EQ(take(sequence, 20).back().first, kStart - 3'600'000 + 4);
  EXPECT_EQ(apart, 1);
  EXPECT_EQ(lease.asked.size(), 1U);
  ASSERT_TRUE(sequence.next(1));
  EXPECT_EQ(lease.asked.back(), kStart - 3'600'000 + 5);

  ClockSequence restarted(options, clock, {}, &lease, set_apart);
  ASSERT_TRUE(restarted.start(kStart));
  EXPECT_EQ(apart, 2);
  EXPECT_EQ(take(restarted, 1).front().first, kStart - 3'600'000 + 5);
}

TEST(ClockSequence, AChildOfForkInheritsNothing) {
  fakes::ManualClock clock(at_tick(kStart));
  std::uint64_t seeds = 0;
  ClockSequence starting(self_starting(), clock, [&] { return TickSeed{.high = ++seeds}; });
  ClockSequence started(kFour, clock);
  ASSERT_TRUE(started.start(0));
  take(starting, 3);
  take(started, 3);
  fakes::in_child([&] {
    const Result<Stamp> fresh = starting.next(1);
    ASSERT_TRUE(fresh);
    EXPECT_EQ(fresh->count, 0U);
    EXPECT_EQ(fresh->high, 2U);
    EXPECT_EQ(fakes::code_of(started.next(1)), Code::kFailedPrecondition);
  });
  EXPECT_EQ(take(starting, 1), (Pairs{{kStart, 3}})) << "the parent goes on";
}

class ClockSequenceThreads : public testing::TestWithParam<milliseconds> {};

TEST_P(ClockSequenceThreads, UnderAClockThatJumpsGetEachPairOnceAndInOrder) {
  fakes::ManualClock clock(at_tick(kStart));
  ClockSequenceOptions options = running_ahead(GetParam());
  options.capacity = 512;
  ClockSequence sequence(options, clock);
  constexpr int kThreads = 4;
  constexpr int kCalls = 20'000;
  std::vector<std::vector<std::pair<std::int64_t, std::uint32_t>>> taken(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kCalls; ++i) {
          if (t == 0 && i % 97 == 0) clock.advance(i % 2 == 0 ? milliseconds{2} : milliseconds{-3});
          Result<Stamp> stamp = sequence.next(1 + static_cast<std::uint32_t>(i % 3));
          if (!stamp) continue;
          for (std::uint32_t k = 0; k < stamp->size; ++k) {
            taken[static_cast<std::size_t>(t)].emplace_back(stamp->tick, stamp->count + k);
          }
        }
      });
    }
  }
  std::vector<std::pair<std::int64_t, std::uint32_t>> all;
  for (const auto& mine : taken) {
    EXPECT_GT(mine.size(), kCalls / 2);
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

INSTANTIATE_TEST_SUITE_P(RunAhead, ClockSequenceThreads,
                         testing::Values(milliseconds{0}, milliseconds{5}));

}  // namespace
}  // namespace idmint
