#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "idmint/sequence.h"
#include "store/counter_store.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/gated_store.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::GatedStore;
using fakes::in_child;
using fakes::ManualClock;
using fakes::ScriptedEntropy;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr Instant kStart{seconds{1'800'000'000}};

// Every reading takes a while, so that the store seems far away and a task of the executor asks it.
// Remembers how long it was asked to sleep; it sleeps by moving on, or not at all.
class TickingClock final : public Clock {
 public:
  explicit TickingClock(bool stands_still_in_sleep = false) : lazy_(stands_still_in_sleep) {}

  Instant now() noexcept override {
    const std::lock_guard lock(mutex_);
    return now_ += lazy_ ? nanoseconds{0} : nanoseconds{20'000};
  }
  void sleep_until(Instant when, std::chrono::nanoseconds) noexcept override {
    const std::lock_guard lock(mutex_);
    sleeps_.push_back(when - now_);
    if (!lazy_) now_ = std::max(now_, when);
  }

  [[nodiscard]] std::vector<nanoseconds> sleeps() {
    const std::lock_guard lock(mutex_);
    return sleeps_;
  }

 private:
  const bool lazy_;
  std::mutex mutex_;
  Instant now_ = kStart;
  std::vector<nanoseconds> sleeps_;
};

SequenceDefinition tickets(std::int64_t step, std::int64_t last = kLargestValue) {
  return {.name = "tickets", .strategy = Strategy::kCached, .first = 1, .last = last, .step = step};
}

// The manual clock stands still, so the store seems to be quick: callers ask it themselves.
struct CachedFixture {
  explicit CachedFixture(const SequenceDefinition& definition)
      : CachedFixture(definition, nullptr) {}
  CachedFixture(const SequenceDefinition& definition, Clock* clock) : used_clock(clock) {
    EXPECT_TRUE(create_sequence(store, definition));
    sequence = open();
  }

  std::unique_ptr<CachedSequence> open() {
    return CachedSequence::open(store, "tickets", {}, used_clock != nullptr ? *used_clock : manual,
                                entropy)
        .value();
  }
  Result<std::vector<std::int64_t>> next(std::size_t count) const {
    std::vector<std::int64_t> values(count);
    if (auto got = sequence->next(values); !got) return std::unexpected(got.error());
    return values;
  }
  void wait_for_waiting(std::size_t n) const {
    while (sequence->waiting() < n) std::this_thread::yield();
  }
  std::vector<std::int64_t> counts() const {
    std::vector<std::int64_t> all;
    for (const auto& advance : store.advances()) all.push_back(advance.count);
    return all;
  }

  ManualClock manual{kStart};
  ScriptedEntropy entropy;
  Clock* used_clock;
  GatedStore store;
  std::unique_ptr<CachedSequence> sequence;
};

// ---- ranges

TEST(CachedSequence, OneThreadGetsAllValuesInOrder) {
  CachedFixture f(tickets(10));
  for (std::int64_t value = 1; value <= 1000; ++value) ASSERT_EQ(f.sequence->next(), value);
  EXPECT_THAT(f.counts(), Each(10)) << "as the definition says";
  EXPECT_THAT(f.store.advances(), Each(testing::Field(&GatedStore::Advance::take, Take::kTail)));
}

TEST(CachedSequence, OpeningTakesNothingAndOneValueLittle) {
  CachedFixture f(tickets(0));
  EXPECT_TRUE(f.store.advances().empty());
  EXPECT_EQ(f.sequence->next(), 1);
  EXPECT_THAT(f.counts(), ElementsAre(16));
  EXPECT_EQ(f.sequence->held(), 15);
  EXPECT_EQ(f.sequence->statistics().waste, 0);
  EXPECT_THAT(f.sequence->given_up(), testing::IsEmpty());
  f.sequence->close();
  EXPECT_EQ(f.sequence->held(), 0);
  EXPECT_EQ(f.sequence->statistics().waste, 15);
  EXPECT_THAT(f.sequence->given_up(), ElementsAre(Range{2, 1, 15}));
}

// A copy of the process may have been made meanwhile, which holds the same.
TEST(CachedSequence, WhatNoThreadHasIsDroppedAfterAPauseOfTenMinutes) {
  for (const auto jump : {std::chrono::minutes{10}, std::chrono::minutes{-10}}) {
    CachedFixture f(tickets(100));
    ASSERT_EQ(f.next(25)->back(), 25) << "a thread has 25 at a time";
    f.manual.advance(jump);
    ASSERT_EQ(f.next(25)->back(), 50) << "so long they are kept";
    ASSERT_EQ(f.next(24)->back(), 74);
    const std::int64_t taken = static_cast<std::int64_t>(f.counts().size()) * 100;
    f.manual.advance(jump + nanoseconds{jump.count() > 0 ? 1 : -1});
    EXPECT_EQ(f.sequence->next(), 75) << "a thread keeps what it has";
    EXPECT_EQ(f.sequence->next(), taken + 1);
    EXPECT_EQ(f.sequence->statistics().waste, taken - 75);
    EXPECT_EQ(f.sequence->next(), taken + 2);
  }
}

TEST(CachedSequence, WhatARequestCouldNotUseIsForTheNextOneAndDroppedAfterAPause) {
  CachedFixture f(tickets(40, 40));
  const auto ask = [&](std::size_t count) -> Result<std::vector<std::int64_t>> {
    std::vector<std::int64_t> values(count);
    std::promise<Result<void>> answer;
    EXPECT_TRUE(f.sequence->submit(
        values, [&](Result<void> result) { answer.set_value(std::move(result)); }));
    if (auto got = answer.get_future().get(); !got) return std::unexpected(got.error());
    return values;
  };
  EXPECT_EQ(fakes::code_of(ask(41)), Code::kOutOfRange);
  EXPECT_THAT(ask(3).value(), ElementsAre(1, 2, 3));
  f.manual.advance(std::chrono::minutes{10} + nanoseconds{1});
  EXPECT_EQ(fakes::code_of(ask(1)), Code::kOutOfRange);
  EXPECT_EQ(f.sequence->statistics().waste, 37);
  EXPECT_EQ(f.sequence->statistics().values, 3);
}

TEST(CachedSequence, TheNextRangeIsFetchedWhenHalfOfOneIsLeft) {
  CachedFixture f(tickets(100));
  ASSERT_TRUE(f.next(49));
  EXPECT_THAT(f.counts(), SizeIs(1));
  ASSERT_TRUE(f.next(40));
  EXPECT_THAT(f.counts(), SizeIs(2));
  ASSERT_TRUE(f.next(40));
  EXPECT_THAT(f.counts(), SizeIs(2));
}

TEST(CachedSequence, ARangeThatIsUsedUpTooSoonIsFollowedByALargerOne) {
  CachedFixture f(tickets(0));
  const int before_the_last = 16 + 16 + 128 + 1024 + 8192 + 65536 + 524288 + 4194304;
  for (int i = 0; i <= before_the_last; ++i)
    if (!f.sequence->next()) FAIL() << i;
  EXPECT_THAT(f.counts(), ElementsAre(16, 16, 128, 1024, 8192, 65536, 524288, 4194304, 10'000'000))
      << "no time passes: it grows as fast as it may, to the largest";
}

TEST(CachedSequence, AStepFollowsTheRateUpAndDown) {
  CachedFixture f(tickets(0));
  const auto one_each = [&](nanoseconds time, std::size_t fetches) {
    while (f.counts().size() < fetches) {
      ASSERT_TRUE(f.sequence->next());
      f.manual.advance(time);
    }
  };
  one_each(milliseconds{100}, 5);
  EXPECT_THAT(f.counts(),
              ElementsAre(16, 16, 100, testing::AllOf(testing::Ge(90), testing::Le(110)),
                          testing::AllOf(testing::Ge(90), testing::Le(110))))
      << "10 a second for the horizon of 10 s";
  one_each(seconds{60}, 12);
  EXPECT_EQ(f.counts().back(), 16);
}

TEST(CachedSequence, AStepIsASmallPartOfWhatIsLeft) {
  CachedFixture f(tickets(0, 25'600));
  for (int i = 0; i < 25'000; ++i) ASSERT_TRUE(f.sequence->next());
  EXPECT_THAT(f.counts(), Each(testing::Le(100)));
}

TEST(CachedSequence, AClockThatGoesBackMakesTheStepLargerAndNothingElse) {
  CachedFixture f(tickets(0));
  for (std::int64_t value = 1; value < 1000; ++value) {
    ASSERT_EQ(f.sequence->next(), value);
    f.manual.advance(-seconds{1});
  }
}

TEST(CachedSequence, EverythingIsHandedOutBeforeItIsUsedUp) {
  CachedFixture f(tickets(10, 25));
  for (std::int64_t value = 1; value <= 25; ++value) ASSERT_EQ(f.sequence->next(), value);
  for (int i = 0; i < 3; ++i) {
    const Result<std::int64_t> more = f.sequence->next();
    ASSERT_FALSE(more);
    EXPECT_EQ(more.error().code, Code::kOutOfRange);
    EXPECT_THAT(more.error().message(),
                HasSubstr("sequence tickets: used up; 25 is the last; go on with "
                          "another, or move its last value up"));
    EXPECT_EQ(more.error().advice, (Advice{Remedy::kAlterSequence, "tickets"}));
  }
  EXPECT_LE(f.counts().size(), 4U) << "a store that has no more is not asked again";
  EXPECT_EQ(f.sequence->statistics().values, 25);
  EXPECT_EQ(f.sequence->statistics().waste, 0);
}

TEST(CachedSequence, TheLargestValuesDoNotOverflow) {
  SequenceDefinition definition = tickets(kLargestValue);
  definition.first = kLargestValue - 5;
  CachedFixture f(definition);
  for (int i = 5; i >= 0; --i) ASSERT_EQ(f.sequence->next(), kLargestValue - i);
  EXPECT_EQ(code_of(f.sequence->next()), Code::kOutOfRange);
}

TEST(CachedSequence, AFetchThatFailsAtTheLargestValueDoesNotOverflow) {
  SequenceDefinition definition = tickets(10);
  definition.first = kLargestValue - 9;
  CachedFixture f(definition);
  ASSERT_TRUE(f.next(1));
  f.store.fail_next({{Code::kPermissionDenied, "read only"}, false});
  ASSERT_TRUE(f.next(9));  // with the fetch ahead, which fails
  EXPECT_THAT(f.counts(), ElementsAre(10, 10));
  EXPECT_EQ(code_of(f.sequence->next()), Code::kOutOfRange);
}

// ---- several values in one call

TEST(CachedSequence, ACallForMoreThanARangeAsksForWhatIsMissing) {
  CachedFixture f(tickets(10));
  ASSERT_EQ(f.sequence->next(), 1);
  const auto values = f.next(1000).value();
  EXPECT_TRUE(std::ranges::is_sorted(values));
  EXPECT_EQ(values.front(), 2);
  EXPECT_EQ(values.back(), 1001);
  EXPECT_LE(f.counts().size(), 4U);
}

TEST(CachedSequence, SmallCallsShareASlice) {
  CachedFixture f(tickets(1000));
  EXPECT_THAT(f.next(3).value(), ElementsAre(1, 2, 3));
  EXPECT_THAT(f.next(2).value(), ElementsAre(4, 5));
  EXPECT_EQ(f.sequence->next(), 6);
  EXPECT_TRUE(f.next(0));
  const SequenceStatistics is = f.sequence->statistics();
  EXPECT_EQ(is.requests, 3U);
  EXPECT_EQ(is.values, 6);
  EXPECT_EQ(is.rounds, 1U);
  EXPECT_EQ(f.sequence->held(), 994);
}

TEST(CachedSequence, ACallThatFailsLosesNothing) {
  CachedFixture f(tickets(10, 25));
  ASSERT_TRUE(f.next(20));
  const auto refused = f.next(6);
  EXPECT_EQ(refused.error().code, Code::kOutOfRange);
  EXPECT_THAT(refused.error().message(), HasSubstr("fewer than 6 are left"));
  EXPECT_EQ(f.sequence->statistics().values, 20);
  EXPECT_EQ(f.sequence->statistics().requests, 1U);
  EXPECT_EQ(f.sequence->held(), 5);
  EXPECT_EQ(f.next(6).error().code, Code::kOutOfRange) << "again";
  EXPECT_THAT(f.next(3).value(), ElementsAre(21, 22, 23));
  EXPECT_EQ(f.sequence->next(), 24);
  EXPECT_EQ(f.sequence->next(), 25);
  EXPECT_EQ(code_of(f.sequence->next()), Code::kOutOfRange);
  EXPECT_EQ(f.sequence->statistics().values, 25);
  EXPECT_EQ(f.sequence->statistics().waste, 0);
}

// And not to another, which may have larger ones; in order, though they do not follow on each
// other.
TEST(CachedSequence, WhatACallThatFailedHadComesToItsThread) {
  CachedFixture f(tickets(10, 45));
  ASSERT_THAT(f.next(8).value().back(), 8);
  EXPECT_EQ(f.sequence->held(), 12);
  ASSERT_TRUE(f.store.advance("tickets", 5, Take::kAll));  // another process: 21 to 25
  EXPECT_EQ(f.next(60).error().code, Code::kOutOfRange);
  EXPECT_EQ(f.sequence->held(), 32);
  std::thread([&] { EXPECT_EQ(code_of(f.sequence->next()), Code::kOutOfRange); }).join();
  EXPECT_EQ(f.sequence->next(), 9);
  EXPECT_THAT(f.next(12).value(), ElementsAre(10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 26));
  EXPECT_EQ(f.sequence->held(), 19);
  f.sequence->close();
  EXPECT_EQ(f.next(1).error().code, Code::kUnavailable);
  EXPECT_EQ(f.sequence->statistics().waste, 19);
  EXPECT_THAT(f.sequence->given_up(), ElementsAre(Range{27, 1, 19}));
}

TEST(CachedSequence, AFailureInTheMidstOfACallLosesNothing) {
  CachedFixture f(tickets(10));
  ASSERT_THAT(f.next(3).value().back(), 3);
  for (int i = 0; i < 2; ++i) f.store.fail_next({{Code::kPermissionDenied, "read only"}, false});
  EXPECT_EQ(f.next(30).error().code, Code::kPermissionDenied);
  EXPECT_EQ(f.sequence->next(), 4);
  EXPECT_EQ(f.next(30).value().back(), 34);
  EXPECT_EQ(f.sequence->statistics().waste, 0);
}

TEST(CachedSequence, WantsNoMoreThanItsLargestCount) {
  SequenceDefinition definition = tickets(10);
  definition.largest_count = 3;
  CachedFixture f(definition);
  EXPECT_EQ(f.next(4).error().code, Code::kInvalidArgument);
  EXPECT_THAT(f.next(3).value(), ElementsAre(1, 2, 3));
}

// ---- fetching ahead

TEST(CachedSequence, NobodyWaitsForAFetchAsLongAsThereAreValues) {
  TickingClock clock;
  CachedFixture f(tickets(1000), &clock);
  ASSERT_EQ(f.sequence->next(), 1);
  f.store.shut_gate();
  for (std::int64_t value = 2; value <= 600; ++value) ASSERT_EQ(f.sequence->next(), value);
  f.store.wait_for_advances(2);
  for (std::int64_t value = 601; value <= 1000; ++value) ASSERT_EQ(f.sequence->next(), value);
  f.store.open_gate();
  for (std::int64_t value = 1001; value <= 5000; ++value) ASSERT_EQ(f.sequence->next(), value);
  EXPECT_EQ(f.store.most_in_flight(), 1U);
}

TEST(CachedSequence, ItIsFetchedSoonerWhereTheStoreTakesLonger) {
  CachedFixture f(tickets(1000));
  ASSERT_EQ(f.sequence->next(), 1);
  f.store.shut_gate();
  std::thread other([&] {
    while (f.sequence->next().value() < 600) {
    }
  });
  f.store.wait_for_advances(2);
  f.manual.advance(seconds{1});  // so long does the fetch take, and the range last
  f.store.let_one_pass();
  other.join();
  while (f.sequence->next().value() <= 1000) {
  }
  f.store.wait_for_advances(3);
  EXPECT_GT(f.sequence->held(), 900) << "1000 values are too few for another fetch: ask at once";
  f.store.open_gate();
}

TEST(CachedSequence, NoMoreThanTwoRangesAreHeld) {
  CachedFixture f(tickets(1000));
  ASSERT_EQ(f.sequence->next(), 1);
  f.store.shut_gate();
  std::thread other([&] {
    while (f.sequence->next().value() < 600) {
    }
  });
  f.store.wait_for_advances(2);
  f.manual.advance(seconds{4});
  f.store.open_gate();
  other.join();
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_TRUE(f.sequence->next());
    f.manual.advance(milliseconds{1});
    ASSERT_LE(f.sequence->held(), 2 * 1000 + 2 * 250)
        << "the slices of two threads with them; a range lasts a second, and a fetch four";
  }
}

TEST(CachedSequence, WaitersShareOneFetchAndTheNextBringsWhatTheyWant) {
  TickingClock clock;
  CachedFixture f(tickets(1), &clock);
  f.store.shut_gate();
  std::vector<std::thread> threads;
  std::array<Result<std::int64_t>, 8> got;
  for (std::size_t i = 0; i < got.size(); ++i) {
    threads.emplace_back([&, i] { got[i] = f.sequence->next(); });
    f.wait_for_waiting(i + 1);
  }
  EXPECT_THAT(f.counts(), ElementsAre(1)) << "the first asked, the others wait";
  f.store.open_gate();
  for (std::thread& thread : threads) thread.join();
  std::set<std::int64_t> values;
  for (const auto& each : got) values.insert(each.value());
  EXPECT_THAT(values, SizeIs(8));
  EXPECT_EQ(f.counts().at(1), 7) << "one for each that waits";
  EXPECT_EQ(f.store.most_in_flight(), 1U);
  EXPECT_EQ(f.sequence->waiting(), 0U);
}

// ---- errors

TEST(CachedSequence, AnErrorReachesEveryWaiterAndTheNextCallTriesAfresh) {
  TickingClock clock;
  CachedFixture f(tickets(10), &clock);
  f.store.shut_gate();
  f.store.fail_next({{Code::kPermissionDenied, "read only"}, false});
  std::vector<std::thread> threads;
  std::array<Result<std::int64_t>, 8> got;
  for (std::size_t i = 0; i < got.size(); ++i) {
    threads.emplace_back([&, i] { got[i] = f.sequence->next(); });
    f.wait_for_waiting(i + 1);
  }
  f.store.open_gate();
  for (std::thread& thread : threads) thread.join();
  for (const auto& each : got) {
    EXPECT_EQ(code_of(each), Code::kPermissionDenied);
    EXPECT_EQ(each.error().message(), "read only");
  }
  EXPECT_THAT(f.counts(), SizeIs(1));
  EXPECT_EQ(f.sequence->next(), 1);
}

TEST(CachedSequence, WhatMaySucceedLaterIsTriedAgainAfterLongerAndLongerPauses) {
  TickingClock clock;
  CachedFixture f(tickets(10), &clock);
  f.entropy.push(std::array<std::uint8_t, 16>{});  // no chance in the first two
  for (int i = 0; i < 9; ++i) f.store.fail_next({{Code::kUnavailable, "busy"}, false});
  EXPECT_EQ(f.sequence->next(), 1);
  const std::vector<nanoseconds> sleeps = clock.sleeps();
  ASSERT_THAT(sleeps, SizeIs(9));
  EXPECT_EQ(sleeps[0], milliseconds{5});
  EXPECT_EQ(sleeps[1], milliseconds{10});
  nanoseconds longest = milliseconds{10};
  for (const nanoseconds sleep : sleeps) {
    EXPECT_GE(sleep, longest / 2);
    EXPECT_LE(sleep, longest);
    longest = std::min<nanoseconds>(longest * 2, milliseconds{200});
  }
  EXPECT_NE(sleeps[7], sleeps[8]) << "chance";
}

TEST(CachedSequence, ACallerWaitsNoLongerThanTheDeadline) {
  for (const bool stands_still : {false, true}) {
    TickingClock clock(stands_still);
    CachedFixture f(tickets(10), &clock);
    for (int i = 0; i < 1000; ++i) f.store.fail_next({{Code::kUnavailable, "busy"}, false});
    const Result<std::int64_t> got = f.sequence->next();
    EXPECT_EQ(code_of(got), Code::kUnavailable);
    EXPECT_EQ(got.error().message(), "busy");
    nanoseconds slept{};
    for (const nanoseconds sleep : clock.sleeps()) slept += sleep;
    EXPECT_LE(slept, seconds{5});
    EXPECT_GE(slept, seconds{4});
  }
}

// The store keeps no deadline, so the caller that asks it cannot leave.
TEST(CachedSequence, ACallerThatWaitsForTheFetchOfAnotherLeavesAtItsOwnTime) {
  CachedFixture f(tickets(10));
  f.store.shut_gate();
  std::thread other([&] { EXPECT_EQ(f.sequence->next(), 1); });
  f.store.wait_for_advances(1);
  std::vector<std::int64_t> values(3);
  const SteadyTime until = std::chrono::steady_clock::now() + milliseconds{20};
  const Result<void> got = f.sequence->next(values, until);
  EXPECT_GE(std::chrono::steady_clock::now(), until);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kUnavailable);
  EXPECT_THAT(got.error().message(), HasSubstr("nothing was taken for this call"));
  EXPECT_EQ(f.sequence->waiting(), 1U);
  f.store.open_gate();
  other.join();
  EXPECT_EQ(f.next(3).value().size(), 3U);
  EXPECT_THAT(f.counts(), ElementsAre(10)) << "nothing was fetched for the one that left";
  EXPECT_EQ(f.sequence->statistics().waste, 0);
}

TEST(CachedSequence, AFetchHasTheTimeOfItsCaller) {
  CachedFixture f(tickets(10));
  const SteadyTime until = std::chrono::steady_clock::now() + seconds{3};
  std::vector<std::int64_t> values(3);
  ASSERT_TRUE(f.sequence->next(values, until));
  EXPECT_THAT(f.store.deadlines(), ElementsAre(until));
}

// Two callers wait. The first, which asks the store, runs out of time; the other has some left.
TEST(CachedSequence, AFetchThatRanOutOfTimeIsTriedAgainByACallerThatHasSome) {
  CachedFixture f(tickets(10));
  f.store.shut_gate();
  f.store.fail_next({{Code::kUnavailable, "busy"}, false});
  const SteadyTime until = std::chrono::steady_clock::now() + milliseconds{500};
  std::thread first([&] {
    std::vector<std::int64_t> values(1);
    const Result<void> got = f.sequence->next(values, until);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().message(), "busy");
  });
  f.store.wait_for_advances(1);
  std::thread second([&] { EXPECT_EQ(f.sequence->next(), 1); });
  f.wait_for_waiting(2);
  while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
  f.store.open_gate();
  first.join();
  second.join();
  EXPECT_THAT(f.counts(), SizeIs(2));
}

TEST(CachedSequence, AFetchAheadThatFailsIsNoCallersConcern) {
  CachedFixture f(tickets(100));
  ASSERT_EQ(f.sequence->next(), 1);
  for (int i = 0; i < 3; ++i) f.store.fail_next({{Code::kUnavailable, "busy"}, false});
  for (std::int64_t value = 2; value <= 300; ++value) ASSERT_EQ(f.sequence->next(), value);
  EXPECT_EQ(f.manual.sleeps(), 0) << "one attempt each, of a caller that has values";
}

TEST(CachedSequence, ARangeOfUnknownOutcomeIsLost) {
  for (const Code unknown : {Code::kUnknown, Code::kDeadlineExceeded}) {
    for (const bool applied : {false, true}) {
      CachedFixture f(tickets(10));
      f.store.fail_next({{unknown, "no reply"}, applied});
      EXPECT_EQ(f.sequence->next(), applied ? 11 : 1);
      EXPECT_EQ(f.sequence->statistics().waste, 10);
      EXPECT_EQ(f.sequence->statistics().rounds, 2U);
    }
  }
}

TEST(CachedSequence, ManyUnknownOutcomesCostNoMoreThanTwo) {
  CachedFixture f(tickets(0));
  while (f.counts().size() < 5) ASSERT_TRUE(f.sequence->next());  // 8192 by now
  const std::int64_t held = f.sequence->held();
  for (int i = 0; i < 20; ++i) f.store.fail_next({{Code::kUnknown, "no reply"}, true});
  for (std::int64_t i = 0; i < held; ++i) ASSERT_TRUE(f.sequence->next());
  ASSERT_TRUE(f.sequence->next());
  EXPECT_LE(f.sequence->statistics().waste, 2 * 65536 + 20 * 16);
  EXPECT_GT(f.sequence->statistics().waste, 0);
}

TEST(CachedSequence, AStoreThatWentBackMakesEverythingHeldVoid) {
  CachedFixture f(tickets(100));
  ASSERT_TRUE(f.next(10));
  std::thread([&] { ASSERT_TRUE(f.sequence->next()); }).join();
  f.store.set_next("tickets", 50);
  Result<std::int64_t> got = 0;
  for (int i = 0; i < 100 && got; ++i) got = f.sequence->next();
  EXPECT_EQ(code_of(got), Code::kDataLoss);
  EXPECT_EQ(f.sequence->held(), 0);
  EXPECT_EQ(f.sequence->statistics().values, 11) << "found when the next range was fetched";
  f.store.set_next("tickets", 1000);
  EXPECT_EQ(code_of(f.sequence->next()), Code::kDataLoss) << "for ever";
  EXPECT_EQ(f.next(2).error().code, Code::kDataLoss);
  std::thread([&] { EXPECT_EQ(code_of(f.sequence->next()), Code::kDataLoss); }).join();
}

TEST(CachedSequence, AnotherThreadsSliceIsVoidToo) {
  CachedFixture f(tickets(100));
  ASSERT_TRUE(f.sequence->next());
  ASSERT_TRUE(f.sequence->next());  // has a slice now
  f.store.lose("tickets");
  std::thread([&] {
    while (f.sequence->next()) {
    }
  }).join();
  EXPECT_EQ(code_of(f.sequence->next()), Code::kDataLoss);
}

TEST(CachedSequence, ValuesBeyondTheLastOneThatIsKnownAreNotHandedOut) {
  CachedFixture f(tickets(10, 25));
  ASSERT_TRUE(alter_sequence(f.store, "tickets", 1000));
  Result<std::int64_t> got = 0;
  while (got) {
    got = f.sequence->next();
    ASSERT_LE(got.value_or(0), 25);
  }
  EXPECT_EQ(got.error().code, Code::kOutOfRange);
  EXPECT_THAT(got.error().message(), HasSubstr("extended"));
}

TEST(CachedSequence, RetiringAndRaisingDoNotRecallWhatIsHeld) {
  CachedFixture f(tickets(100));
  ASSERT_EQ(f.sequence->next(), 1);
  ASSERT_TRUE(raise_sequence(f.store, "tickets", 5000));
  EXPECT_EQ(f.sequence->held(), 99);
  for (std::int64_t value = 2; value <= 100; ++value) ASSERT_EQ(f.sequence->next(), value);
  EXPECT_EQ(f.sequence->next(), 5001);
  ASSERT_TRUE(retire_sequence(f.store, "tickets"));
  for (std::int64_t left = f.sequence->held(); left > 0; --left) ASSERT_TRUE(f.sequence->next());
  EXPECT_EQ(code_of(f.sequence->next()), Code::kFailedPrecondition);
}

TEST(CachedSequence, IsOpenedUnderItsOwnStrategyOnly) {
  CachedFixture f(tickets(10));
  ASSERT_TRUE(create_sequence(f.store, {.name = "orders"}));
  EXPECT_EQ(CachedSequence::open(f.store, "orders").error().code, Code::kFailedPrecondition);
  EXPECT_EQ(CachedSequence::open(f.store, "none").error().code, Code::kNotFound);
  f.store.lose("tickets");
  EXPECT_EQ(CachedSequence::open(f.store, "tickets").error().code, Code::kDataLoss);
}

// ---- closing

TEST(CachedSequence, CloseEndsEveryThreadsSlice) {
  CachedFixture f(tickets(1000));
  ASSERT_TRUE(f.next(2));
  std::atomic<int> step{0};
  std::thread other([&] {
    EXPECT_TRUE(f.sequence->next());
    EXPECT_TRUE(f.sequence->next());
    step.store(1);
    while (step.load() < 2) std::this_thread::yield();
    EXPECT_EQ(code_of(f.sequence->next()), Code::kUnavailable);
  });
  while (step.load() < 1) std::this_thread::yield();
  f.sequence->close();
  step.store(2);
  other.join();
  EXPECT_EQ(code_of(f.sequence->next()), Code::kUnavailable);
  EXPECT_EQ(f.next(3).error().code, Code::kUnavailable);
  EXPECT_EQ(f.sequence->statistics().values, 4);
  EXPECT_EQ(f.sequence->statistics().waste, 996);
  EXPECT_EQ(f.sequence->held(), 0);
}

TEST(CachedSequence, CloseAnswersAllThatWaitAndWaitsForTheFetch) {
  TickingClock clock;
  CachedFixture f(tickets(10), &clock);
  f.store.shut_gate();
  std::thread leader([&] { EXPECT_EQ(code_of(f.sequence->next()), Code::kUnavailable); });
  f.wait_for_waiting(1);
  std::thread waiter([&] { EXPECT_EQ(code_of(f.sequence->next()), Code::kUnavailable); });
  f.wait_for_waiting(2);
  std::atomic<bool> closed{false};
  std::thread closer([&] {
    f.sequence->close();
    closed.store(true);
  });
  waiter.join();
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  EXPECT_FALSE(closed.load()) << "the fetch is under way";
  f.store.open_gate();
  leader.join();
  closer.join();
  EXPECT_EQ(f.sequence->statistics().waste, 10) << "it came too late";
}

TEST(CachedSequence, CloseEndsAFetchAheadThatIsUnderWay) {
  TickingClock clock;
  CachedFixture f(tickets(100), &clock);
  ASSERT_TRUE(f.next(2));
  f.store.shut_gate();
  ASSERT_TRUE(f.next(70));
  f.store.wait_for_advances(2);
  std::thread closer([&] { f.sequence->close(); });
  while (f.sequence->next()) {
  }
  f.store.open_gate();
  closer.join();
  const SequenceStatistics is = f.sequence->statistics();
  EXPECT_EQ(is.values + is.waste, 200);
}

// ---- threads

TEST(CachedSequence, ThreadsThatComeAndGoWasteNothing) {
  CachedFixture f(tickets(1000));
  std::set<std::int64_t> seen;
  for (int i = 0; i < 300; ++i) {
    std::thread([&] { seen.insert(f.sequence->next().value()); }).join();
  }
  EXPECT_THAT(seen, SizeIs(300));
  EXPECT_EQ(*seen.rbegin(), 300) << "what one left the next one takes";
}

TEST(CachedSequence, AThreadMayAskWhileItEnds) {
  struct AsksAtTheEnd {
    CachedSequence* sequence = nullptr;
    std::vector<std::int64_t>* into = nullptr;
    ~AsksAtTheEnd() {
      if (sequence == nullptr) return;
      for (int i = 0; i < 5; ++i) into->push_back(sequence->next().value());
      std::array<std::int64_t, 3> more{};
      EXPECT_TRUE(sequence->next(more));
      into->insert(into->end(), more.begin(), more.end());
    }
  };
  CachedFixture f(tickets(1000));
  std::vector<std::int64_t> values;
  std::thread([&] {
    thread_local AsksAtTheEnd last;  // begun before the slice is, so it ends after
    last.sequence = f.sequence.get();
    last.into = &values;
    for (int i = 0; i < 3; ++i) values.push_back(f.sequence->next().value());
  }).join();
  EXPECT_TRUE(std::ranges::is_sorted(values)) << "increasing";
  EXPECT_GT(values.at(3), 251) << "not out of the slice of 250, which may be another thread's now";
  for (int i = 0; i < 200; ++i) values.push_back(f.sequence->next().value());
  EXPECT_EQ(std::set<std::int64_t>(values.begin(), values.end()).size(), 211U);
  EXPECT_EQ(f.sequence->statistics().values, 211);
  EXPECT_EQ(f.sequence->statistics().requests, 209U);
}

TEST(CachedSequence, AThreadMayUseManySequencesAndTheyMayEndBeforeIt) {
  constexpr std::size_t kSequences = 30;
  GatedStore store;
  std::vector<std::unique_ptr<CachedSequence>> all;
  for (std::size_t i = 0; i < kSequences; ++i) {
    SequenceDefinition definition = tickets(100);
    definition.name += std::to_string(i);
    ASSERT_TRUE(create_sequence(store, definition));
    all.push_back(CachedSequence::open(store, definition.name).value());
  }
  for (std::int64_t value = 1; value <= 500; ++value) {
    for (const auto& sequence : all) ASSERT_EQ(sequence->next(), value);
  }
  std::atomic<int> step{0};
  std::thread outlives([&] {
    for (const auto& sequence : all) EXPECT_GT(sequence->next().value(), 500);
    step.store(1);
    while (step.load() < 2) std::this_thread::yield();
  });
  while (step.load() < 1) std::this_thread::yield();
  all.clear();
  ASSERT_TRUE(create_sequence(store, tickets(100)));
  const auto later = CachedSequence::open(store, "tickets").value();
  EXPECT_EQ(later->next(), 1);
  step.store(2);
  outlives.join();
}

// No value twice, over threads that stay and threads that come and go, one value or many at a time,
// of several sequences over one counter, which end and are opened again; each thread's increase;
// and the books balance.
void take_from_all_sides(Clock* clock, std::int64_t step) {
  constexpr std::size_t kThreads = 4;
  constexpr int kCalls = 4000;
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, tickets(step)));
  std::vector<std::vector<std::int64_t>> got(kThreads * 2);
  std::int64_t values = 0;
  std::int64_t waste = 0;
  for (int round = 0; round < 3; ++round) {
    std::array<std::unique_ptr<CachedSequence>, 2> sequences;
    for (auto& each : sequences) {
      each = CachedSequence::open(store, "tickets", {}, *clock).value();
    }
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kCalls; ++i) {
          CachedSequence& sequence = *sequences[static_cast<std::size_t>(i) % 2];
          std::vector<std::int64_t>& mine = got[2 * t + static_cast<std::size_t>(i) % 2];
          if (i % 50 == 7) {
            std::array<std::int64_t, 90> many{};
            ASSERT_TRUE(sequence.next(many));
            mine.insert(mine.end(), many.begin(), many.end());
          } else if (i % 1000 == 13) {
            std::thread([&] { mine.push_back(sequence.next().value()); }).join();
            mine.pop_back();  // another thread's: smaller, perhaps
          } else {
            mine.push_back(sequence.next().value());
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (auto& each : sequences) {
      each->close();
      values += each->statistics().values;
      waste += each->statistics().waste;
    }
    for (const auto& mine : got) ASSERT_TRUE(std::ranges::is_sorted(mine));
  }
  std::vector<std::int64_t> all;
  for (const auto& mine : got) all.insert(all.end(), mine.begin(), mine.end());
  EXPECT_EQ(all.size() + 3 * kThreads * 4, static_cast<std::size_t>(values));
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end()) << "twice";
  EXPECT_EQ(values + waste, store.peek("tickets")->next - 1);
  EXPECT_LE(store.most_in_flight(), 2U) << "one for each sequence";
}

TEST(CachedSequenceUnderThreads, NoValueTwiceFromAQuickStore) {
  ManualClock clock(kStart);
  take_from_all_sides(&clock, 100);
  take_from_all_sides(&clock, 0);
}

TEST(CachedSequenceUnderThreads, NoValueTwiceFromADistantStore) {
  TickingClock clock;
  take_from_all_sides(&clock, 100);
  take_from_all_sides(&clock, 0);
}

// Two threads take until they have met so often that they met in the midst of a cut too, on one
// processor as on two.
TEST(CachedSequenceUnderThreads, NoValueTwiceWhereTheyMeetWithinACut) {
  constexpr std::size_t kMeetings = 500;
  constexpr std::size_t kAtOnce = 64;
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, tickets(1'000'000)));
  ManualClock clock(kStart);
  const auto sequence = CachedSequence::open(store, "tickets", {}, clock).value();
  std::atomic<bool> enough{false};
  // Values of one thread with none of the other's between them: the first, and the one past them.
  std::array<std::vector<std::pair<std::int64_t, std::int64_t>>, 2> stretches;
  {
    std::vector<std::jthread> threads;
    for (auto& mine : stretches)
      threads.emplace_back([&] {
        std::array<std::int64_t, kAtOnce> some{};
        while (!enough.load(std::memory_order_relaxed)) {
          ASSERT_TRUE(sequence->next(some));
          for (const std::int64_t value : some) {
            if (mine.empty() || mine.back().second != value) mine.emplace_back(value, value);
            mine.back().second = value + 1;
          }
          if (mine.size() > kMeetings) enough = true;
        }
      });
  }
  auto all = stretches[0];
  all.insert(all.end(), stretches[1].begin(), stretches[1].end());
  std::ranges::sort(all);
  for (std::size_t i = 1; i < all.size(); ++i)
    ASSERT_GE(all[i].first, all[i - 1].second) << "handed out twice";
}

TEST(CachedSequenceUnderThreads, CloseAmongCallsEndsThemAndTheBooksBalance) {
  for (int i = 0; i < 30; ++i) {
    CachedFixture f(tickets(200));
    std::atomic<std::int64_t> got{0};
    std::atomic<bool> closed{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        for (;;) {
          const bool after = closed.load();
          if (!f.sequence->next()) return;
          EXPECT_FALSE(after) << "a value after close()";
          got.fetch_add(1);
        }
      });
    }
    while (got.load() < 1000) std::this_thread::yield();
    f.sequence->close();
    closed.store(true);
    for (std::thread& thread : threads) thread.join();
    const SequenceStatistics is = f.sequence->statistics();
    EXPECT_EQ(is.values, got.load());
    EXPECT_EQ(is.values + is.waste, f.store.peek("tickets")->next - 1);
  }
}

// Any order of calls, of three sequences over one counter, under faults of any kind.
RC_GTEST_PROP(CachedSequenceProperty, NoValueTwiceUnderAnyFaults, ()) {
  const auto step = *rc::gen::element<std::int64_t>(0, 1, 7, 100);
  ManualClock clock(kStart);
  ScriptedEntropy entropy;
  GatedStore store;
  RC_ASSERT(create_sequence(store, tickets(step, 3000)).has_value());
  const auto open = [&] {
    return CachedSequence::open(store, "tickets", {}, clock, entropy).value();
  };
  std::array<std::unique_ptr<CachedSequence>, 3> sequences{open(), open(), open()};
  std::set<std::int64_t> seen;
  const auto commands = *rc::gen::container<std::vector<std::pair<int, int>>>(
      rc::gen::pair(rc::gen::inRange(0, 12), rc::gen::inRange(0, 3)));
  for (const auto& [command, which] : commands) {
    auto& sequence = sequences[static_cast<std::size_t>(which)];
    if (command == 0) {
      sequence = open();
    } else if (command == 1) {
      store.fail_next({{Code::kUnknown, "no reply"}, which != 0});
    } else if (command == 2) {
      store.fail_next({{Code::kUnavailable, "busy"}, false});
    } else if (command == 3) {
      clock.advance(seconds{which * 10 - 5});
    } else {
      std::vector<std::int64_t> values(static_cast<std::size_t>(command * command));
      if (!sequence->next(values)) continue;
      for (const std::int64_t value : values) {
        RC_ASSERT(value >= 1 && value <= 3000);
        RC_ASSERT(seen.insert(value).second);
      }
    }
  }
}

// ---- fork

TEST(CachedSequence, AChildOfForkHoldsNothing) {
  TickingClock clock;
  CachedFixture f(tickets(1000), &clock);
  ASSERT_TRUE(f.next(600));  // with a slice, a range, and the thread
  ASSERT_TRUE(f.sequence->next());
  ASSERT_TRUE(f.sequence->next());
  in_child([&] {
    EXPECT_EQ(code_of(f.sequence->next()), Code::kFailedPrecondition);
    EXPECT_EQ(code_of(f.next(3)), Code::kFailedPrecondition);
    EXPECT_EQ(f.sequence->held(), 0);
    EXPECT_EQ(f.sequence->statistics().values, 0);
    EXPECT_EQ(f.sequence->waiting(), 0);
    f.sequence->close();
    f.sequence.reset();
  });
  EXPECT_EQ(f.sequence->next(), 603) << "the parent goes on";
}

TEST(CachedSequence, AChildForkedInTheMidstOfAFetchIsNotStuck) {
  TickingClock clock;
  CachedFixture f(tickets(10), &clock);
  f.store.shut_gate();
  std::thread waits([&] { EXPECT_TRUE(f.sequence->next()); });
  f.wait_for_waiting(1);
  in_child([&] {
    EXPECT_EQ(code_of(f.sequence->next()), Code::kFailedPrecondition);
    f.sequence.reset();
  });
  f.store.open_gate();
  waits.join();
}

}  // namespace
}  // namespace idmint
