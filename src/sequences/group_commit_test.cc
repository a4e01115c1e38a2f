#include "sequences/group_commit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sequences/counter_range_source.h"
#include "store/counter_store.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/gated_store.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/manual_executor.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::GatedStore;
using fakes::ManualExecutor;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::steady_clock;
using testing::ElementsAre;
using testing::HasSubstr;
using Advance = GatedStore::Advance;

constexpr std::size_t kMany = 1'000'000;
constexpr milliseconds kDeadline = std::chrono::hours{1};  // no test comes to it

struct CombinerFixture {
  explicit CombinerFixture(CounterBounds bounds = {1, kLargestValue},
                           std::size_t max_outstanding = kMany, milliseconds deadline = kDeadline,
                           Executor& executor = shared_executor())
      : rounds(store, {.name = "orders", .last = bounds.last}, bounds),
        group_commit(rounds, "orders", max_outstanding, deadline, executor) {
    EXPECT_TRUE(store.create("orders", bounds));
  }

  void wait_for_queued(std::size_t n) const {
    while (group_commit.queued() < n) std::this_thread::yield();
  }

  GatedStore store;
  CounterRangeSource rounds;
  GroupCommit group_commit;
};

// The answers to asynchronous requests, in the order of the calls back; get() returns in the order
// of the requests. A request answered twice breaks its promise and so the test.
class Answers {
 public:
  void submit(GroupCommit& group_commit, std::int64_t count) {
    promises_.push_back(std::make_shared<std::promise<Result<Range>>>());
    const Result<void> queued = group_commit.submit(
        count,
        [this, promise = promises_.back(), index = promises_.size() - 1](Result<Range> result) {
          {
            const std::lock_guard lock(mutex_);
            order_.push_back(index);
          }
          promise->set_value(std::move(result));
        });
    if (!queued) promises_.back()->set_value(std::unexpected(queued.error()));
  }
  Result<Range> get(std::size_t index) { return promises_.at(index)->get_future().get(); }
  std::vector<std::size_t> order() {
    const std::lock_guard lock(mutex_);
    return order_;
  }

 private:
  std::vector<std::shared_ptr<std::promise<Result<Range>>>> promises_;
  std::mutex mutex_;
  std::vector<std::size_t> order_;
};

Range run(std::int64_t first, std::int64_t count) { return {first, 1, count}; }

// A caller whose round, the first, waits at the gate of the store.
std::thread held_round(CombinerFixture& f) {
  f.store.shut_gate();
  std::thread caller([&f] { EXPECT_EQ(f.group_commit.take(1), run(1, 1)); });
  f.store.wait_for_advances(1);
  return caller;
}

// The answer to callers who want one value each: how many got one, and the code of the others.
struct EachAnswer {
  std::vector<std::int64_t> values;
  std::promise<std::pair<std::size_t, Code>> promise;

  explicit EachAnswer(std::size_t callers) : values(callers) {}
  [[nodiscard]] Result<void> submit(GroupCommit& group_commit) {
    return group_commit.submit_each(values, [this](CounterSequence::Served served) {
      promise.set_value({served.callers, served.error ? served.error->code : Code{}});
    });
  }
  std::pair<std::size_t, Code> get() { return promise.get_future().get(); }
};

// ---- combining

TEST(GroupCommit, OneCallIsOneAdvanceOfExactlyItsCount) {
  CombinerFixture f;
  EXPECT_EQ(f.group_commit.take(1), run(1, 1));
  EXPECT_EQ(f.group_commit.take(5), run(2, 5));
  EXPECT_THAT(f.store.advances(), ElementsAre(Advance{1, Take::kAll}, Advance{5, Take::kAll}));
}

// As a store whose statements take so many values at most.
class RoundsOfAtMost final : public RangeSource {
 public:
  explicit RoundsOfAtMost(std::int64_t most) : most_(most) {}

  Result<std::span<Range>> advance(std::int64_t count, Take take, SteadyTime) override {
    if (take == Take::kAll && count > most_)
      return std::unexpected(Error{Code::kInvalidArgument, "too many at once"});
    taken_ = run(next_, count);
    next_ += count;
    counts.push_back(count);
    return std::span(&taken_, 1);
  }
  [[nodiscard]] Error refusal(std::uint64_t) const override { return {Code::kOutOfRange, ""}; }

  std::vector<std::int64_t> counts;

 private:
  const std::int64_t most_;
  std::int64_t next_ = 1;
  Range taken_;
};

TEST(GroupCommit, NoCallerIsRefusedBecauseTheSumOfTheRoundIsTooLarge) {
  RoundsOfAtMost rounds(100);
  ManualExecutor executor;
  GroupCommit group_commit(rounds, "orders", kMany, kDeadline, executor);
  Answers answers;
  for (const std::int64_t count : {60, 40, 30, 101, 70}) answers.submit(group_commit, count);
  executor.run_all();
  EXPECT_EQ(answers.get(0), run(1, 60));
  EXPECT_EQ(answers.get(1), run(61, 40));
  EXPECT_EQ(answers.get(2), run(101, 30));
  EXPECT_EQ(code_of(answers.get(3)), Code::kInvalidArgument);
  EXPECT_EQ(answers.get(4), run(131, 70));
  EXPECT_THAT(rounds.counts, ElementsAre(100, 30, 70));
}

TEST(GroupCommit, AllBlockingCallersThatWaitShareTheNextAdvance) {
  constexpr int kCallers = 16;
  CombinerFixture f;
  f.store.shut_gate();
  std::vector<std::thread> threads;
  std::vector<Result<Range>> got(kCallers + 1);
  threads.emplace_back([&] { got[0] = f.group_commit.take(1); });
  f.store.wait_for_advances(1);
  for (std::size_t i = 1; i <= kCallers; ++i) {
    threads.emplace_back([&, i] { got[i] = f.group_commit.take(1); });
    f.wait_for_queued(i);
  }
  f.store.open_gate();
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(f.store.advances(),
              ElementsAre(Advance{1, Take::kAll}, Advance{kCallers, Take::kTail}));
  for (std::size_t i = 0; i <= kCallers; ++i) {
    EXPECT_EQ(got[i], run(static_cast<std::int64_t>(i) + 1, 1)) << "in arrival order";
  }
}

TEST(GroupCommit, AsynchronousCallersAreServedInArrivalOrderByOneAdvance) {
  CombinerFixture f;
  f.store.shut_gate();
  Answers answers;
  answers.submit(f.group_commit, 1);
  f.store.wait_for_advances(1);
  for (const std::int64_t count : {3, 1, 4}) answers.submit(f.group_commit, count);
  f.store.open_gate();
  EXPECT_EQ(answers.get(0), run(1, 1));
  EXPECT_EQ(answers.get(1), run(2, 3));
  EXPECT_EQ(answers.get(2), run(5, 1));
  EXPECT_EQ(answers.get(3), run(6, 4));
  EXPECT_THAT(answers.order(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(f.store.advances(), ElementsAre(Advance{1, Take::kAll}, Advance{8, Take::kAll}));
}

TEST(GroupCommit, BlockingAndAsynchronousCallersShareARound) {
  CombinerFixture f;
  f.store.shut_gate();
  std::optional<Result<Range>> first;
  std::optional<Result<Range>> last;
  std::thread one([&] { first = f.group_commit.take(1); });
  f.store.wait_for_advances(1);
  Answers answers;
  answers.submit(f.group_commit, 2);
  std::thread two([&] { last = f.group_commit.take(3); });
  f.wait_for_queued(2);
  f.store.open_gate();
  one.join();
  two.join();
  EXPECT_EQ(*first, run(1, 1));
  EXPECT_EQ(answers.get(0), run(2, 2));
  EXPECT_EQ(*last, run(4, 3));
  EXPECT_THAT(f.store.advances(), ElementsAre(Advance{1, Take::kAll}, Advance{5, Take::kAll}));
}

TEST(GroupCommit, ACallBackMaySubmitAndItsRequestGoesWithTheNextRound) {
  CombinerFixture f;
  std::promise<Result<Range>> second;
  const Result<void> queued = f.group_commit.submit(1, [&](const Result<Range>& first) {
    EXPECT_EQ(first, run(1, 1));
    EXPECT_TRUE(f.group_commit.submit(
        2, [&](Result<Range> result) { second.set_value(std::move(result)); }));
  });
  ASSERT_TRUE(queued);
  EXPECT_EQ(second.get_future().get(), run(2, 2));
  EXPECT_EQ(f.store.advances().size(), 2U);
}

TEST(GroupCommit, ARequestThatComesDuringABlockingRoundIsServedByATaskAfterIt) {
  ManualExecutor executor;
  CombinerFixture f({1, kLargestValue}, kMany, kDeadline, executor);
  std::thread one = held_round(f);
  Answers answers;
  answers.submit(f.group_commit, 2);
  EXPECT_EQ(executor.size(), 0U);
  EXPECT_EQ(f.group_commit.queued(), 1U);
  f.store.open_gate();
  one.join();
  EXPECT_EQ(executor.size(), 1U);
  executor.run_all();
  EXPECT_EQ(answers.get(0), run(2, 2));
}

TEST(GroupCommit, ABlockingCallerLeadsInPlaceOfATaskThatHasNotBegun) {
  ManualExecutor executor;
  CombinerFixture f({1, kLargestValue}, kMany, kDeadline, executor);
  Answers answers;
  answers.submit(f.group_commit, 2);
  EXPECT_TRUE(answers.order().empty());
  EXPECT_EQ(f.group_commit.take(1), run(3, 1));
  EXPECT_EQ(answers.get(0), run(1, 2));
  executor.run_all();  // finds nothing left to do
  EXPECT_THAT(f.store.advances(), ElementsAre(Advance{3, Take::kAll}));
  EXPECT_EQ(f.group_commit.take(1), run(4, 1));
}

TEST(GroupCommit, ABlockingCallerWithLittleTimeDoesNotLeadARequestWithMore) {
  ManualExecutor executor;
  CombinerFixture f({1, kLargestValue}, kMany, kDeadline, executor);
  Answers answers;
  answers.submit(f.group_commit, 2);
  const Result<Range> left = f.group_commit.take(1, steady_clock::now() + milliseconds{1});
  EXPECT_EQ(code_of(left), Code::kUnavailable);
  EXPECT_TRUE(f.store.advances().empty());
  executor.run_all();
  EXPECT_EQ(answers.get(0), run(1, 2));
  EXPECT_THAT(f.store.advances(), ElementsAre(Advance{2, Take::kAll}));
}

TEST(GroupCommit, ABlockingCallerLeadsARequestThatCameAfterIt) {
  ManualExecutor executor;
  CombinerFixture f({1, kLargestValue}, kMany, kDeadline, executor);
  std::thread one = held_round(f);
  std::thread two([&] { EXPECT_EQ(f.group_commit.take(1), run(2, 1)); });
  f.wait_for_queued(1);
  Answers answers;
  answers.submit(f.group_commit, 2);
  f.store.open_gate();
  one.join();
  two.join();
  EXPECT_EQ(answers.get(0), run(3, 2));
  EXPECT_EQ(executor.size(), 0U);
}

TEST(GroupCommit, ATaskGivesWayToOthersAfterATurn) {
  ManualExecutor executor;
  CombinerFixture f({1, kLargestValue}, kMany, kDeadline, executor);
  MoveOnlyFunction<void()> again = [&] {
    const Result<void> queued = f.group_commit.submit(1, [&](const Result<Range>& result) {
      if (result) again();
    });
    EXPECT_TRUE(queued || queued.error().code == Code::kUnavailable);
  };
  again();
  EXPECT_TRUE(executor.run_one());  // which would never return
  EXPECT_EQ(executor.size(), 1U);
  EXPECT_GT(f.store.advances().size(), 1U);
  f.group_commit.close();
}

TEST(GroupCommit, WhatTheExecutorRefusesIsNotQueued) {
  ManualExecutor executor;
  CombinerFixture f({1, kLargestValue}, kMany, kDeadline, executor);
  executor.refuse(Error{Code::kResourceExhausted, "no thread"});
  const Result<void> refused =
      f.group_commit.submit(1, [](const Result<Range>&) { ADD_FAILURE() << "called"; });
  EXPECT_EQ(code_of(refused), Code::kResourceExhausted);
  EXPECT_EQ(f.group_commit.queued(), 0U);
  EXPECT_EQ(f.group_commit.take(1), run(1, 1));
  executor.refuse(std::nullopt);
  Answers answers;
  answers.submit(f.group_commit, 1);
  executor.run_all();
  EXPECT_EQ(answers.get(0), run(2, 1));
}

TEST(GroupCommit, ARequestWhoseTaskIsRefusedAfterARoundIsAnswered) {
  ManualExecutor executor;
  CombinerFixture f({1, kLargestValue}, kMany, kDeadline, executor);
  std::thread one = held_round(f);
  Answers answers;
  answers.submit(f.group_commit, 2);
  executor.refuse(Error{Code::kResourceExhausted, "no thread"});
  f.store.open_gate();
  one.join();
  EXPECT_EQ(code_of(answers.get(0)), Code::kResourceExhausted);
  EXPECT_EQ(f.group_commit.take(1), run(2, 1));
}

TEST(GroupCommit, ClosedBeforeItsTaskBeginsItAnswersAndTheTaskTouchesNothing) {
  ManualExecutor executor;
  Answers answers;
  {
    CombinerFixture f({1, kLargestValue}, kMany, kDeadline, executor);
    answers.submit(f.group_commit, 1);
    f.group_commit.close();
    EXPECT_EQ(code_of(answers.get(0)), Code::kUnavailable);
    EXPECT_TRUE(f.store.advances().empty());
  }
  executor.run_all();
  EXPECT_EQ(answers.order().size(), 1U);
}

TEST(GroupCommit, NeverTwoAdvancesInFlight) {
  constexpr std::uint64_t kRequests = 8 * 500;
  CombinerFixture f;
  std::atomic<std::uint64_t> answered{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        EXPECT_TRUE(f.group_commit.take(1));
        EXPECT_TRUE(f.group_commit.submit(1, [&](const Result<Range>& result) {
          if (result) answered.fetch_add(1);
        }));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (answered.load() < kRequests) std::this_thread::yield();
  EXPECT_EQ(f.group_commit.statistics().requests, 2 * kRequests);
  EXPECT_EQ(f.store.most_in_flight(), 1U);
}

// ---- order across threads

// If one call ended before another began, its values are smaller. Begin and end are read from one
// counter that every thread advances.
TEST(GroupCommit, IsLinearizableAndLeavesNoGap) {
  struct Call {
    std::uint64_t begin, end;
    Range range;
  };
  constexpr std::size_t kThreads = 8;
  constexpr std::size_t kCalls = 2000;
  CombinerFixture f;
  std::atomic<std::uint64_t> time{0};
  std::vector<std::vector<Call>> calls(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < kCalls; ++i) {
        Call call{time.fetch_add(1), 0, {}};
        call.range = f.group_commit.take(static_cast<std::int64_t>(1 + (i + t) % 3)).value();
        call.end = time.fetch_add(1);
        calls[t].push_back(call);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Call> all;
  for (const auto& some : calls) all.insert(all.end(), some.begin(), some.end());

  std::ranges::sort(all, {}, [](const Call& call) { return call.range.first; });
  std::int64_t next = 1;
  std::uint64_t latest_begin = 0;  // of all calls with smaller values
  for (const Call& call : all) {
    ASSERT_EQ(call.range.first, next) << "a gap or a repeat";
    next = call.range.last() + 1;
    latest_begin = std::max(latest_begin, call.begin);
    ASSERT_GT(call.end, latest_begin) << "ended before a call with smaller values began";
  }
  EXPECT_EQ(f.group_commit.statistics().requests, kThreads * kCalls);
  EXPECT_EQ(f.group_commit.statistics().values, next - 1);
}

// ---- at the bound

// Submits `counts` while a first request of 1 is held, so that one round carries them all.
std::vector<Result<Range>> in_one_round(CombinerFixture& f,
                                        const std::vector<std::int64_t>& counts) {
  f.store.shut_gate();
  Answers answers;
  answers.submit(f.group_commit, 1);
  f.store.wait_for_advances(1);
  for (const std::int64_t count : counts) answers.submit(f.group_commit, count);
  f.store.open_gate();
  std::vector<Result<Range>> got;
  for (std::size_t i = 0; i <= counts.size(); ++i) got.push_back(answers.get(i));
  f.group_commit.close();  // the call backs use `answers`
  return got;
}

TEST(CombinerAtTheBound, WhoFitsIsServedInOrderAndSmallerOnesAreStillTried) {
  CombinerFixture f({1, 10});
  const auto got = in_one_round(f, {4, 6, 3, 5, 2, 1});
  EXPECT_EQ(got[1], run(2, 4));
  EXPECT_EQ(code_of(got[2]), Code::kOutOfRange);
  EXPECT_EQ(got[3], run(6, 3));
  EXPECT_EQ(code_of(got[4]), Code::kOutOfRange);
  EXPECT_EQ(got[5], run(9, 2));
  ASSERT_EQ(code_of(got[6]), Code::kOutOfRange);
  EXPECT_THAT(got[6].error().message(), HasSubstr("10 is the last"));
}

TEST(CombinerAtTheBound, CallersOfOneValueAreServedByOneAdvance) {
  CombinerFixture f({1, 4});
  const auto got = in_one_round(f, {1, 1, 1, 1, 1});
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)], run(i + 1, 1));
  EXPECT_EQ(code_of(got[4]), Code::kOutOfRange);
  EXPECT_EQ(code_of(got[5]), Code::kOutOfRange);
  EXPECT_THAT(f.store.advances(), ElementsAre(Advance{1, Take::kAll}, Advance{5, Take::kTail}));
}

TEST(CombinerAtTheBound, CallersWhoComeTogetherGetWhatIsLeftInTheirOrder) {
  CombinerFixture f({1, 10});
  f.store.shut_gate();
  Answers one;
  one.submit(f.group_commit, 1);
  f.store.wait_for_advances(1);
  EachAnswer first(4);
  EachAnswer second(8);
  EachAnswer third(3);
  ASSERT_TRUE(first.submit(f.group_commit));
  one.submit(f.group_commit, 1);
  ASSERT_TRUE(second.submit(f.group_commit));
  ASSERT_TRUE(third.submit(f.group_commit));
  f.store.open_gate();
  EXPECT_EQ(first.get(), std::pair(std::size_t{4}, Code{}));
  EXPECT_THAT(first.values, ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(one.get(1), run(6, 1));
  EXPECT_EQ(second.get(), std::pair(std::size_t{4}, Code::kOutOfRange));
  EXPECT_THAT(std::vector(second.values.begin(), second.values.begin() + 4),
              ElementsAre(7, 8, 9, 10));
  EXPECT_EQ(third.get(), std::pair(std::size_t{0}, Code::kOutOfRange));
  EXPECT_THAT(f.store.advances(), ElementsAre(Advance{1, Take::kAll}, Advance{16, Take::kTail}));
  const SequenceStatistics is = f.group_commit.statistics();
  EXPECT_EQ(is.requests, 10U) << "each caller counts";
  EXPECT_EQ(is.values, 10);
  EXPECT_EQ(is.waste, 0);
}

// As if they had come one by one, a range that fits nobody takes nothing from them.
TEST(CombinerAtTheBound, CallersWhoComeTogetherBesideARangeGetWhatIsLeft) {
  CombinerFixture f({1, 5});
  f.store.shut_gate();
  Answers ranges;
  ranges.submit(f.group_commit, 1);
  f.store.wait_for_advances(1);
  ranges.submit(f.group_commit, 5);
  EachAnswer each(6);
  ASSERT_TRUE(each.submit(f.group_commit));
  ranges.submit(f.group_commit, 1);
  ranges.submit(f.group_commit, 3);
  f.store.open_gate();
  EXPECT_EQ(code_of(ranges.get(1)), Code::kOutOfRange);
  EXPECT_EQ(each.get(), std::pair(std::size_t{4}, Code::kOutOfRange));
  EXPECT_THAT(std::vector(each.values.begin(), each.values.begin() + 4), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(code_of(ranges.get(2)), Code::kOutOfRange);
  EXPECT_EQ(code_of(ranges.get(3)), Code::kOutOfRange);
  EXPECT_THAT(f.store.advances(),
              ElementsAre(Advance{1, Take::kAll}, Advance{15, Take::kAll}, Advance{11, Take::kAll},
                          Advance{5, Take::kAll}, Advance{6, Take::kTail}))
      << "the store is not asked again once its end is known";
}

// A request that nobody could serve must not take what is left from everybody else.
TEST(CombinerAtTheBound, AHugeRequestTakesNothing) {
  CombinerFixture f({1, 1000});
  const auto got = in_one_round(f, {1, 5000, 2});
  EXPECT_EQ(got[1], run(2, 1));
  EXPECT_EQ(code_of(got[2]), Code::kOutOfRange);
  EXPECT_EQ(got[3], run(3, 2));
  EXPECT_EQ(f.store.peek("orders")->next, 5);
  EXPECT_EQ(f.group_commit.statistics().waste, 0);
}

TEST(CombinerAtTheBound, SumsThatOverflowAreNotAskedFor) {
  constexpr std::int64_t kHalf = std::int64_t{1} << 62;
  CombinerFixture f({0, kLargestValue});
  const auto got =
      in_one_round(f, {kHalf, std::numeric_limits<std::int64_t>::max(), kHalf, kHalf - 2, 1});
  EXPECT_EQ(got[1], run(1, kHalf));
  EXPECT_EQ(code_of(got[2]), Code::kOutOfRange);
  EXPECT_EQ(code_of(got[3]), Code::kOutOfRange);
  EXPECT_EQ(got[4], run(kHalf + 1, kHalf - 2));
  EXPECT_EQ(code_of(got[5]), Code::kOutOfRange);
}

TEST(CombinerAtTheBound, AllValuesOfTheLargestCounterCanBeTakenAtOnce) {
  CombinerFixture f({0, kLargestValue});
  const std::int64_t all = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(f.group_commit.take(all), run(0, all));
  EXPECT_EQ(code_of(f.group_commit.take(1)), Code::kOutOfRange);
}

TEST(CombinerAtTheBound, AnExhaustedCounterIsAskedFewTimes) {
  CombinerFixture f({1, 1});
  const auto got = in_one_round(f, std::vector<std::int64_t>(1000, 7));
  for (std::size_t i = 1; i < got.size(); ++i) EXPECT_EQ(code_of(got[i]), Code::kOutOfRange);
  EXPECT_LE(f.store.advances().size(), 13U);  // the first, and 7000, 3500, ..., 7
}

RC_GTEST_PROP(CombinerAtTheBound, IsAsIfServedOneByOne, ()) {
  const auto last = *rc::gen::inRange<std::int64_t>(1, 60);
  const auto counts = *rc::gen::container<std::vector<std::int64_t>>(
      rc::gen::oneOf(rc::gen::just<std::int64_t>(1), rc::gen::inRange<std::int64_t>(1, 20)));
  CombinerFixture f({1, last});
  const auto got = in_one_round(f, counts);
  std::int64_t next = 2;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] <= last - next + 1) {
      RC_ASSERT((got[i + 1] == run(next, counts[i])));
      next += counts[i];
    } else {
      RC_ASSERT(!got[i + 1] && got[i + 1].error().code == Code::kOutOfRange);
    }
  }
  RC_ASSERT(f.store.peek("orders")->next == next);
}

// ---- failures of the store

TEST(CombinerFailure, FailsExactlyTheCallersOfTheRound) {
  CombinerFixture f;
  f.store.shut_gate();
  Answers answers;
  answers.submit(f.group_commit, 1);
  f.store.wait_for_advances(1);
  answers.submit(f.group_commit, 2);
  answers.submit(f.group_commit, 3);
  f.store.let_one_pass();
  EXPECT_EQ(answers.get(0), run(1, 1));
  f.store.wait_for_advances(2);
  answers.submit(f.group_commit, 4);
  f.store.fail_next({{Code::kUnavailable, "disk away"}, false});
  f.store.open_gate();
  for (const std::size_t i : {1U, 2U}) {
    const Result<Range> got = answers.get(i);
    EXPECT_EQ(code_of(got), Code::kUnavailable);
    EXPECT_EQ(got.error().message(), "disk away");
  }
  EXPECT_EQ(answers.get(3), run(2, 4)) << "not applied: no gap";
  EXPECT_EQ(f.group_commit.statistics().waste, 0);
  f.group_commit.close();
}

TEST(CombinerFailure, ValuesOfAnUnknownOutcomeAreNeverHandedOut) {
  for (const Code unknown : {Code::kUnknown, Code::kDeadlineExceeded}) {
    for (const bool applied : {false, true}) {
      CombinerFixture f;
      EXPECT_EQ(f.group_commit.take(1), run(1, 1));
      f.store.fail_next({{unknown, "no reply"}, applied});
      EXPECT_EQ(code_of(f.group_commit.take(10)), unknown);
      EXPECT_EQ(f.group_commit.take(1), run(applied ? 12 : 2, 1));
      EXPECT_EQ(f.group_commit.statistics().waste, 10);
      EXPECT_EQ(f.store.advances().size(), 3U) << "asking again is for the caller to decide";
    }
  }
}

TEST(CombinerFailure, AStoreThatWentBackIsDataLossForEver) {
  CombinerFixture f;
  EXPECT_EQ(f.group_commit.take(10), run(1, 10));
  f.store.set_next("orders", 10);
  EXPECT_EQ(code_of(f.group_commit.take(1)), Code::kDataLoss);
  f.store.set_next("orders", 1000);
  const Result<Range> later = f.group_commit.take(1);
  ASSERT_EQ(code_of(later), Code::kDataLoss);
  EXPECT_THAT(later.error().message(), HasSubstr("gone back"));
  EXPECT_EQ(f.store.advances().size(), 2U) << "it is not asked any more";
}

TEST(CombinerFailure, AStoreThatWentBackIsDataLossForThoseWhoQueue) {
  CombinerFixture f;
  EXPECT_EQ(f.group_commit.take(10), run(1, 10));
  f.store.set_next("orders", 5);
  f.store.shut_gate();
  Answers answers;
  answers.submit(f.group_commit, 1);
  f.store.wait_for_advances(2);
  answers.submit(f.group_commit, 20);
  f.store.let_one_pass();
  EXPECT_EQ(code_of(answers.get(0)), Code::kDataLoss);
  f.store.set_next("orders", 1000);
  f.store.open_gate();
  EXPECT_EQ(code_of(answers.get(1)), Code::kDataLoss);
  f.group_commit.close();
}

TEST(CombinerFailure, ValuesBelowTheBoundsAreDataLoss) {
  CombinerFixture f({5, 10});
  f.store.lose("orders");
  ASSERT_TRUE(f.store.create("orders", {0, 20}));
  f.store.set_next("orders", 4);
  EXPECT_EQ(code_of(f.group_commit.take(1)), Code::kDataLoss);
}

TEST(CombinerFailure, OfWhatOthersAddedAtTheEndNothingIsHandedOutAndLittleTaken) {
  CombinerFixture f({5, 10});
  EXPECT_EQ(f.group_commit.take(5), (Range{5, 1, 5}));
  ASSERT_TRUE(f.store.extend("orders", 20));
  const auto across = f.group_commit.take(2);
  ASSERT_EQ(code_of(across), Code::kOutOfRange);
  EXPECT_THAT(across.error().message(), testing::HasSubstr("open it again"));
  EXPECT_EQ(f.group_commit.statistics().waste, 2);
  EXPECT_EQ(code_of(f.group_commit.take(1)), Code::kOutOfRange);
  EXPECT_EQ(f.store.peek("orders")->next, 12) << "the rest is for those who know of it";
}

TEST(CombinerFailure, AMissingCounterIsDataLoss) {
  CombinerFixture f;
  f.store.lose("orders");
  EXPECT_EQ(code_of(f.group_commit.take(1)), Code::kDataLoss);
  ASSERT_TRUE(f.store.create("orders", {1, kLargestValue}));
  EXPECT_EQ(code_of(f.group_commit.take(1)), Code::kDataLoss) << "made anew: it would start over";
}

// ---- deadlines; the store keeps none

TEST(CombinerDeadline, ACallerThatQueuesLeavesAtItsOwnTimeAndNothingIsTakenForIt) {
  CombinerFixture f;
  std::thread one = held_round(f);
  const SteadyTime until = steady_clock::now() + milliseconds{20};
  const Result<Range> got = f.group_commit.take(5, until);
  ASSERT_EQ(code_of(got), Code::kUnavailable);
  EXPECT_GE(steady_clock::now(), until);
  EXPECT_THAT(got.error().message(), HasSubstr("nothing was taken for this call"));
  EXPECT_EQ(f.group_commit.queued(), 0U);
  f.store.open_gate();
  one.join();
  EXPECT_EQ(f.group_commit.take(1), run(2, 1));
  EXPECT_EQ(f.group_commit.statistics().waste, 0);
}

TEST(CombinerDeadline, ACallWaitsNoLongerThanTheDeadlineOfItsSequence) {
  CombinerFixture f({1, kLargestValue}, kMany, milliseconds{20});
  std::thread one = held_round(f);
  EXPECT_EQ(code_of(f.group_commit.take(1)), Code::kUnavailable);
  f.store.open_gate();
  one.join();
}

// The round of the first of three calls is under way, and the others wait for the next. One of
// these leaves during that round: it is given more time until it does.
TEST(CombinerDeadline, TheValuesOfACallerThatLeftItsRoundAreWasteAndNobodyGetsThem) {
  for (milliseconds patience{50}; patience < std::chrono::seconds{5}; patience *= 2) {
    CombinerFixture f;
    f.store.shut_gate();
    std::thread one([&] { EXPECT_EQ(f.group_commit.take(1), run(1, 1)); });
    f.store.wait_for_advances(1);
    std::promise<Result<Range>> left;
    Result<Range> asked_again;
    std::thread three([&] {
      left.set_value(f.group_commit.take(3, steady_clock::now() + patience));
      asked_again = f.group_commit.take(4);
    });
    f.wait_for_queued(1);
    Result<Range> stayed;
    std::thread two([&] { stayed = f.group_commit.take(2); });
    f.wait_for_queued(2);
    f.store.let_one_pass();
    const Result<Range> got = left.get_future().get();
    const bool in_its_round = code_of(got) == Code::kDeadlineExceeded;
    if (in_its_round) f.wait_for_queued(1);  // the thread asks again, while that round goes on
    f.store.open_gate();
    one.join();
    two.join();
    three.join();
    if (!in_its_round) continue;
    EXPECT_THAT(got.error().message(), HasSubstr("may have been taken or not"));
    EXPECT_EQ(stayed, run(5, 2));
    EXPECT_EQ(asked_again, run(7, 4));
    const SequenceStatistics is = f.group_commit.statistics();
    EXPECT_EQ(is.waste, 3);
    EXPECT_EQ(is.values, 7);
    EXPECT_EQ(is.requests, 3U);
    return;
  }
  FAIL() << "it never left in its round";
}

TEST(CombinerDeadline, TheCallerWithTheMostTimeLeftLeadsAndTheRoundHasItsTime) {
  CombinerFixture f;
  const SteadyTime now = steady_clock::now();
  f.store.shut_gate();
  std::vector<std::thread> threads;
  threads.emplace_back([&] { EXPECT_TRUE(f.group_commit.take(1, now + minutes{1})); });
  f.store.wait_for_advances(1);
  std::size_t queued = 0;
  for (const minutes patience : {minutes{10}, minutes{30}, minutes{20}}) {
    threads.emplace_back([&, patience] { EXPECT_TRUE(f.group_commit.take(1, now + patience)); });
    f.wait_for_queued(++queued);
  }
  f.store.open_gate();
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(f.store.deadlines(), ElementsAre(now + minutes{1}, now + minutes{30}));
}

TEST(CombinerDeadline, AnAsynchronousRequestCannotLeaveSoItsRoundEndsByItsDeadline) {
  CombinerFixture f;
  f.store.shut_gate();
  Answers answers;
  const SteadyTime before = steady_clock::now();
  answers.submit(f.group_commit, 1);
  f.store.wait_for_advances(1);
  answers.submit(f.group_commit, 1);
  const SteadyTime between = steady_clock::now();
  answers.submit(f.group_commit, 1);
  f.store.open_gate();
  EXPECT_TRUE(answers.get(0));
  EXPECT_TRUE(answers.get(2));
  const auto deadlines = f.store.deadlines();
  ASSERT_EQ(deadlines.size(), 2U);
  EXPECT_LE(before + kDeadline, deadlines[0]);
  EXPECT_LE(deadlines[0], deadlines[1]);
  EXPECT_LE(deadlines[1], between + kDeadline);
  f.group_commit.close();
}

TEST(CombinerDeadline, AnAsynchronousRequestThatCameTooLateForItsRoundIsNotPartOfIt) {
  constexpr milliseconds kShort{1000};
  CombinerFixture f({1, kLargestValue}, kMany, kShort);
  f.store.shut_gate();
  Answers answers;
  answers.submit(f.group_commit, 1);
  f.store.wait_for_advances(1);
  answers.submit(f.group_commit, 1);
  const SteadyTime submitted = steady_clock::now();
  while (steady_clock::now() < submitted + kShort) std::this_thread::yield();
  f.store.open_gate();
  const Result<Range> late = answers.get(1);
  ASSERT_EQ(code_of(late), Code::kUnavailable);
  EXPECT_THAT(late.error().message(), HasSubstr("nothing was taken for this request"));
  EXPECT_EQ(f.store.advances().size(), 1U);
  f.group_commit.close();
}

// Callers leave at any moment. Each value is handed out once or is waste, and nobody waits for
// ever: neither for a leader that left nor in close().
TEST(CombinerDeadline, CallersThatLeaveAtAnyMomentLeaveNobodyWaiting) {
  constexpr std::size_t kThreads = 6;
  for (int round = 0; round < 20; ++round) {
    CombinerFixture f;
    std::vector<std::vector<std::int64_t>> values(kThreads);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 100; ++i) {
          const std::chrono::microseconds patience{(i * 7 + static_cast<int>(t) * 13) % 60};
          const Result<Range> got = f.group_commit.take(1, steady_clock::now() + patience);
          if (got) values[t].push_back(got->first);
        }
      });
    }
    if (round % 2 == 0) f.group_commit.close();
    for (std::thread& thread : threads) thread.join();
    std::vector<std::int64_t> all;
    for (const auto& some : values) all.insert(all.end(), some.begin(), some.end());
    std::ranges::sort(all);
    EXPECT_EQ(std::ranges::adjacent_find(all), all.end()) << "a repeat";
    const SequenceStatistics is = f.group_commit.statistics();
    EXPECT_EQ(is.values, std::ssize(all));
    EXPECT_EQ(is.requests, all.size());
    EXPECT_EQ(f.store.peek("orders")->next, is.values + is.waste + 1);
    EXPECT_EQ(f.group_commit.queued(), 0U);
  }
}

// ---- limits, closing, forking

TEST(GroupCommit, RefusesACountBelowOneAndGoesOn) {
  CombinerFixture f;
  EXPECT_EQ(code_of(f.group_commit.take(0)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(f.group_commit.take(-1)), Code::kInvalidArgument);
  EXPECT_EQ(f.group_commit.take(1), run(1, 1));
}

TEST(GroupCommit, OutstandingRequestsAreBounded) {
  CombinerFixture f({1, kLargestValue}, 3);
  f.store.shut_gate();
  Answers answers;
  answers.submit(f.group_commit, 1);
  f.store.wait_for_advances(1);
  answers.submit(f.group_commit, 1);
  answers.submit(f.group_commit, 1);
  answers.submit(f.group_commit, 1);
  EXPECT_EQ(code_of(answers.get(3)), Code::kResourceExhausted) << "answered at once";
  EXPECT_EQ(code_of(f.group_commit.take(1)), Code::kResourceExhausted);
  f.store.open_gate();
  EXPECT_EQ(answers.get(2), run(3, 1));
  EXPECT_EQ(f.group_commit.take(1), run(4, 1)) << "places are free again";
  f.group_commit.close();
}

TEST(GroupCommit, CallersWhoComeTogetherAreBoundedAsIfTheyCameOneByOne) {
  CombinerFixture f({1, kLargestValue}, 10);
  f.store.shut_gate();
  EachAnswer under_way(4);
  ASSERT_TRUE(under_way.submit(f.group_commit));
  f.store.wait_for_advances(1);
  EachAnswer too_many(7);
  EXPECT_EQ(code_of(too_many.submit(f.group_commit)), Code::kResourceExhausted);
  EachAnswer six(6);
  ASSERT_TRUE(six.submit(f.group_commit));
  EachAnswer one(1);
  EXPECT_EQ(code_of(one.submit(f.group_commit)), Code::kResourceExhausted);
  EachAnswer none(0);
  EXPECT_TRUE(none.submit(f.group_commit));
  EXPECT_EQ(none.get(), std::pair(std::size_t{0}, Code{}));
  f.store.open_gate();
  EXPECT_EQ(under_way.get().first, 4U);
  EXPECT_EQ(six.get().first, 6U);
  EXPECT_THAT(six.values, ElementsAre(5, 6, 7, 8, 9, 10));
}

TEST(GroupCommit, CallersWhoComeTogetherShareTheErrorOfTheirRound) {
  CombinerFixture f;
  f.store.fail_next({.error = {Code::kUnknown, "lost"}});
  EachAnswer each(3);
  ASSERT_TRUE(each.submit(f.group_commit));
  EXPECT_EQ(each.get(), std::pair(std::size_t{0}, Code::kUnknown));
  f.group_commit.close();
  EachAnswer after(3);
  EXPECT_EQ(code_of(after.submit(f.group_commit)), Code::kUnavailable);
}

TEST(GroupCommit, CloseAnswersWhoWaitsAtOnceAndTheRoundUnderWayWithItsValues) {
  CombinerFixture f;
  f.store.shut_gate();
  std::optional<Result<Range>> first;
  std::optional<Result<Range>> second;
  std::thread one([&] { first = f.group_commit.take(1); });
  f.store.wait_for_advances(1);
  std::thread two([&] { second = f.group_commit.take(1); });
  f.wait_for_queued(1);
  std::thread closer([&] { f.group_commit.close(); });
  two.join();  // while the round is still held
  EXPECT_EQ(code_of(*second), Code::kUnavailable);
  EXPECT_EQ(code_of(f.group_commit.take(1)), Code::kUnavailable);
  f.store.open_gate();
  one.join();
  closer.join();
  EXPECT_EQ(*first, run(1, 1));
  f.group_commit.close();
}

TEST(GroupCommit, CloseAnswersAsynchronousRequestsAndRefusesLaterOnes) {
  CombinerFixture f;
  f.store.shut_gate();
  Answers answers;
  answers.submit(f.group_commit, 1);
  f.store.wait_for_advances(1);
  answers.submit(f.group_commit, 1);
  std::thread closer([&] { f.group_commit.close(); });
  EXPECT_EQ(code_of(answers.get(1)), Code::kUnavailable);
  answers.submit(f.group_commit, 1);
  EXPECT_EQ(code_of(answers.get(2)), Code::kUnavailable);
  f.store.open_gate();
  closer.join();
  EXPECT_EQ(answers.get(0), run(1, 1));
}

// close() comes at any moment. Every request is answered exactly once, and nothing hangs.
TEST(GroupCommit, CloseAmongBusyCallersLeavesNobodyWaiting) {
  for (int round = 0; round < 50; ++round) {
    CombinerFixture f;
    std::atomic<std::int64_t> values{0};
    std::atomic<int> submitted{0};
    std::atomic<int> answered{0};
    std::atomic<int> working{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 6; ++t) {
      threads.emplace_back([&, t] {
        working.fetch_add(1);
        while (true) {
          if (round % 2 == 0 && t % 2 == 0) {
            submitted.fetch_add(1);
            const Result<void> queued = f.group_commit.submit(1, [&](const Result<Range>& result) {
              if (result) values.fetch_add(1);
              answered.fetch_add(1);
            });
            if (!queued) answered.fetch_add(1);
          }
          const Result<Range> got = f.group_commit.take(1);
          if (!got) {
            EXPECT_EQ(got.error().code, Code::kUnavailable);
            return;
          }
          values.fetch_add(1);
        }
      });
    }
    while (working.load() < 6) std::this_thread::yield();
    std::thread other([&] { f.group_commit.close(); });
    f.group_commit.close();
    other.join();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(answered.load(), submitted.load());
    EXPECT_EQ(values.load(), f.group_commit.statistics().values);
    EXPECT_EQ(f.store.peek("orders")->next, f.group_commit.statistics().values + 1);
  }
}

TEST(GroupCommit, AChildOfForkIsRefusedWithoutTouchingALock) {
  CombinerFixture f;
  Answers answers;
  answers.submit(f.group_commit, 1);
  ASSERT_EQ(answers.get(0), run(1, 1));
  f.store.shut_gate();
  std::thread waiter([&] { EXPECT_EQ(f.group_commit.take(1), run(2, 1)); });
  f.store.wait_for_advances(2);
  fakes::in_child([&] {
    EXPECT_TRUE(f.group_commit.inherited());
    EXPECT_EQ(code_of(f.group_commit.take(1)), Code::kFailedPrecondition);
    bool called = false;
    EXPECT_EQ(code_of(f.group_commit.submit(1, [&](const Result<Range>&) { called = true; })),
              Code::kFailedPrecondition);
    f.group_commit.close();
    EXPECT_FALSE(called);
    EXPECT_EQ(f.group_commit.statistics().requests, 0);
  });
  f.store.open_gate();
  waiter.join();
  f.group_commit.close();
}

TEST(GroupCommit, CountsWhatItDid) {
  CombinerFixture f({1, 20});
  EXPECT_TRUE(f.group_commit.take(4));
  f.store.fail_next({{Code::kUnknown, "no reply"}, true});
  EXPECT_FALSE(f.group_commit.take(6));
  EXPECT_FALSE(f.group_commit.take(11));
  EXPECT_TRUE(f.group_commit.take(10));
  const SequenceStatistics is = f.group_commit.statistics();
  EXPECT_EQ(is.requests, 2U);
  EXPECT_EQ(is.rounds, 4U);
  EXPECT_EQ(is.values, 14);
  EXPECT_EQ(is.waste, 6);
}

}  // namespace
}  // namespace idmint
