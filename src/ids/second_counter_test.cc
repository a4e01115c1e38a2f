#include "ids/second_counter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <thread>
#include <vector>

#include "tests/fakes/in_child.h"
#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr std::uint32_t kStartOfCounter = 1'700'000'000;  // seconds
constexpr std::uint32_t kLap = SecondCounter::kCounters;

Instant at(std::uint32_t second) { return Instant{seconds{second}}; }

// `first` to `last` of the counters of a second, both included.
struct Span {
  std::uint32_t second;
  std::uint32_t first;
  std::uint32_t last;
  friend auto operator<=>(const Span&, const Span&) = default;
};

void add(std::vector<Span>& spans, const SecondCounter::Run& run) {
  const std::uint32_t last = run.counter(run.size - 1);
  if (last >= run.first) {
    spans.push_back({run.second, run.first, last});
  } else {
    spans.push_back({run.second, run.first, kLap - 1});
    spans.push_back({run.second, 0, last});
  }
}

bool none_twice(std::vector<Span> spans) {
  std::ranges::sort(spans);
  return std::ranges::adjacent_find(spans, [](const Span& a, const Span& b) {
           return a.second == b.second && b.first <= a.last;
         }) == spans.end();
}

class SecondCounterTest : public testing::Test {
 protected:
  SecondCounter::Run take(std::uint32_t want = 1) {
    Result<SecondCounter::Run> run = counter_.take(want);
    if (!run) {
      ADD_FAILURE() << run.error().message();
      return {};
    }
    add(spans_, *run);
    return *run;
  }

  void take_all(std::uint64_t count) {
    for (std::uint64_t left = count; left != 0;) {
      const std::uint64_t want = std::min<std::uint64_t>(left, SecondCounter::kMaxRun);
      const SecondCounter::Run run = take(static_cast<std::uint32_t>(want));
      ASSERT_GT(run.size, 0U);
      left -= run.size;
    }
  }

  Code refusal() { return counter_.take(1).error().code; }

  fakes::ManualClock clock_{at(kStartOfCounter) + milliseconds{300}};
  fakes::ScriptedEntropy entropy_{{0xfe, 0xff, 0xff, 0x99, 0, 0, 0, 0}};
  SecondCounter counter_{clock_, entropy_};
  std::vector<Span> spans_;
};

TEST_F(SecondCounterTest, CountsUpFromItsRandomStartThroughTheWrap) {
  const SecondCounter::Run run = take(4);
  EXPECT_EQ(run.second, kStartOfCounter);
  EXPECT_EQ(run.size, 4U);
  EXPECT_EQ(run.counter(0), 0xfffffeU);
  EXPECT_EQ(run.counter(1), 0xffffffU);
  EXPECT_EQ(run.counter(2), 0U);
  EXPECT_EQ(take().counter(0), 2U);
  clock_.advance(seconds{1});
  EXPECT_EQ(take().counter(0), 3U) << "the next second goes on counting";
  EXPECT_EQ(take().second, kStartOfCounter + 1);
}

TEST_F(SecondCounterTest, AllCountersOfASecondAreUsedThenTheNextIsWaitedFor) {
  take_all(kLap - 3);
  for (int i = 0; i < 3; ++i) take();
  EXPECT_EQ(clock_.sleeps(), 0);
  const SecondCounter::Run next = take();
  EXPECT_EQ(next.second, kStartOfCounter + 1);
  EXPECT_EQ(next.counter(0), 0xfffffeU) << "no counter was lost";
  EXPECT_EQ(clock_.sleeps(), 1);
  EXPECT_EQ(clock_.now(), at(kStartOfCounter + 1));
  take_all(kLap - 1);
  EXPECT_EQ(take().second, kStartOfCounter + 2);
  EXPECT_TRUE(none_twice(spans_));
}

TEST_F(SecondCounterTest, ARunEndsWithItsLap) {
  take_all(kLap - 3);
  EXPECT_EQ(take(10).size, 3U);
}

// A caller that is paused with a number of a lap that then ends gets another number.
TEST_F(SecondCounterTest, ANumberWhoseLapIsOverIsNotUsed) {
  take_all(kLap);
  SecondCounter::Run run;
  const std::uint64_t number = counter_.try_take(1, run);
  ASSERT_NE(number, SecondCounter::kTaken);
  take(4095);
  take_all(kLap - 4096);
  EXPECT_EQ(take().second, kStartOfCounter + 2) << "the next lap has begun";
  Result<SecondCounter::Run> late = counter_.take_slowly(1, number);
  ASSERT_TRUE(late);
  add(spans_, *late);
  EXPECT_TRUE(none_twice(spans_));
}

TEST_F(SecondCounterTest, ALapBeginsPastAllSecondsOfTheOneBefore) {
  take_all(kLap / 2);
  clock_.advance(seconds{1});
  take_all(kLap / 2);
  EXPECT_EQ(take().second, kStartOfCounter + 2);
  EXPECT_EQ(clock_.sleeps(), 1);
}

TEST_F(SecondCounterTest, CountersThatComeAgainInALaterSecondNeedNoWaiting) {
  take_all(kLap / 2);
  clock_.advance(seconds{1});
  take_all(kLap / 2);
  clock_.advance(seconds{1});
  take_all(kLap);
  EXPECT_EQ(clock_.sleeps(), 0);
  EXPECT_TRUE(none_twice(spans_));
}

TEST_F(SecondCounterTest, AClockSetBackWithinALapTakesTheSecondsBack) {
  take_all(1000);
  clock_.advance(-hours{10});
  EXPECT_EQ(take().second, kStartOfCounter - 36'000);
  take_all(1000);
  clock_.advance(hours{20});
  EXPECT_EQ(take().second, kStartOfCounter + 36'000);
  EXPECT_EQ(clock_.sleeps(), 0);
  EXPECT_TRUE(none_twice(spans_));
}

TEST_F(SecondCounterTest, PastTheLapItStaysAheadOfAClockSetBackByAtMost20Seconds) {
  take_all(kLap);
  clock_.advance(-seconds{5});
  EXPECT_EQ(take().second, kStartOfCounter + 1) << "ahead of the clock";
  EXPECT_EQ(clock_.sleeps(), 0);
  take_all(15 * std::uint64_t{kLap} - 1);
  // Now 1 s more than 20 s ahead is begun: it is waited for until it is 20 s.
  EXPECT_EQ(take().second, kStartOfCounter + 16);
  EXPECT_EQ(clock_.now(), at(kStartOfCounter - 4));
  clock_.advance(-nanoseconds{1});
  EXPECT_EQ(take().second, kStartOfCounter + 16);
  EXPECT_EQ(clock_.now(), at(kStartOfCounter - 4))
      << "one nanosecond more than 20 s is waited for too";
  clock_.advance(-seconds{2});
  EXPECT_EQ(refusal(), Code::kUnavailable);
  EXPECT_THAT(counter_.take(1).error().message(), HasSubstr("22 s behind"));
  EXPECT_THAT(counter_.take(1).error().message(),
              HasSubstr("ask again when it shows " + format_time(at(kStartOfCounter - 5)) +
                        "; a restart mints at once"));
  clock_.set(at(kStartOfCounter - 5));
  EXPECT_EQ(take().second, kStartOfCounter + 16) << "as was said";
  clock_.set(at(kStartOfCounter + 17));
  EXPECT_EQ(take().second, kStartOfCounter + 17);
  EXPECT_TRUE(none_twice(spans_));
}

TEST_F(SecondCounterTest, TimesOutside1970To2106AreRefused) {
  clock_.set(Instant{nanoseconds{-1}});
  EXPECT_EQ(refusal(), Code::kOutOfRange);
  clock_.set(Instant{});
  EXPECT_EQ(take().second, 0U);
  clock_.set(Instant{seconds{0x100000000}});
  EXPECT_EQ(refusal(), Code::kOutOfRange);
  clock_.set(Instant{seconds{0x100000000}} - nanoseconds{1});
  EXPECT_EQ(take().second, 0xffffffffU);
  take_all(kLap - 2);
  EXPECT_EQ(refusal(), Code::kOutOfRange) << "there is no second after the last one";
}

TEST(SecondCounter, AClockThatStandsStillEndsTheWaiting) {
  fakes::StuckClock clock(at(kStartOfCounter));
  SecondCounter counter(clock, system_entropy());
  for (std::uint32_t taken = 0; taken < kLap;) taken += counter.take(4096)->size;
  EXPECT_EQ(counter.take(1).error().code, Code::kUnavailable);
}

TEST(SecondCounter, WaitsASecondThoughTheClockIsSetBackAsItBeginsTo) {
  fakes::ClockSetBackBeforeSleep clock(at(kStartOfCounter));
  SecondCounter counter(clock, system_entropy());
  for (std::uint32_t taken = 0; taken < kLap;) taken += counter.take(4096)->size;
  EXPECT_EQ(counter.take(1).error().code, Code::kUnavailable);
  EXPECT_EQ(clock.slept, seconds{1});
}

TEST_F(SecondCounterTest, AChildOfForkIsRefused) {
  take();
  EXPECT_EQ(fakes::in_child([&] { return refusal(); }), Code::kFailedPrecondition);
  EXPECT_EQ(take().counter(0), 0xffffffU) << "the parent goes on";
}

// Every step a clock can make, at random, over some laps.
TEST_F(SecondCounterTest, NoPairComesTwiceWhateverTheClockDoes) {
  std::uint64_t refused = 0;
  for (int i = 0; i < 60'000; ++i) {
    const std::uint64_t random = entropy_.draw();
    if (random % 64 == 0) {
      clock_.advance(milliseconds{static_cast<std::int64_t>(random >> 8 & 0xffff) - 0x8000});
    }
    Result<SecondCounter::Run> run = counter_.take(1 + (random >> 32) % 4096);
    if (run) {
      add(spans_, *run);
    } else {
      ASSERT_EQ(run.error().code, Code::kUnavailable);
      ++refused;
      clock_.advance(seconds{1});
    }
  }
  EXPECT_GT(spans_.size(), 5 * std::size_t{kLap} / 4096) << "some laps";
  EXPECT_GT(refused, 0U);
  EXPECT_TRUE(none_twice(spans_));
}

TEST_F(SecondCounterTest, ThreadsNeverGetAPairTwice) {
  constexpr std::size_t kThreads = 4;
  std::vector<std::vector<Span>> taken(kThreads);
  std::barrier begin(kThreads);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        begin.arrive_and_wait();
        for (int i = 0; i < 100'000; ++i) {
          if (t == 0 && i % 97 == 0) clock_.advance(milliseconds{i % 2 == 0 ? 2000 : -2500});
          Result<SecondCounter::Run> run = counter_.take(i % 3 == 0 ? 1 : SecondCounter::kMaxRun);
          if (run) {
            add(taken[t], *run);
          } else {
            clock_.advance(seconds{1});
          }
        }
      });
    }
  }
  for (const auto& mine : taken) {
    EXPECT_GT(mine.size(), 50'000U);
    spans_.insert(spans_.end(), mine.begin(), mine.end());
  }
  EXPECT_TRUE(none_twice(spans_));
}

}  // namespace
}  // namespace idmint
