// Sequence::try_next(): values that are held already, and their order among those of submit().
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "idmint/sequence.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/gated_store.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/manual_executor.h"
#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::GatedStore;
using fakes::in_child;
using fakes::ManualClock;
using fakes::ManualExecutor;
using testing::ElementsAre;
using testing::SizeIs;
using Values = std::vector<std::int64_t>;

// A cached sequence whose tasks run when the test says so.
class TryNext : public testing::Test {
 protected:
  struct Request {
    explicit Request(std::size_t count) : values(count) {}
    Values values;
    std::optional<Code> code{};  // nothing: it waits
  };

  void open(std::int64_t step, std::int64_t last = kLargestValue, std::int64_t largest_count = 0) {
    ASSERT_TRUE(create_sequence(store_, {.name = "tickets",
                                         .strategy = Strategy::kCached,
                                         .last = last,
                                         .step = step,
                                         .largest_count = largest_count}));
    sequence_ =
        CachedSequence::open(store_, "tickets", {.executor = &executor_}, clock_, entropy_).value();
  }
  std::shared_ptr<Request> submit(std::size_t count) {
    auto request = std::make_shared<Request>(count);
    EXPECT_TRUE(sequence_->submit(
        request->values, [request](Result<void> result) { request->code = code_of(result); }));
    return request;
  }
  // Empty: it took nothing.
  [[nodiscard]] Values try_next(std::size_t count = 1) const {
    Values values(count);
    return sequence_->try_next(values) ? values : Values{};
  }

  ManualClock clock_{Instant{std::chrono::seconds{1'800'000'000}}};
  fakes::ScriptedEntropy entropy_;
  GatedStore store_;
  ManualExecutor executor_;
  std::unique_ptr<CachedSequence> sequence_;
};

TEST_F(TryNext, TakesWhatIsHeldAndAsksNobody) {
  open(10);
  EXPECT_THAT(try_next(), SizeIs(0)) << "nothing is held yet";
  EXPECT_EQ(executor_.size(), 0U);
  const auto first = submit(1);
  executor_.run_all();
  EXPECT_THAT(first->values, ElementsAre(1));
  for (std::int64_t value = 2; value <= 4; ++value) EXPECT_THAT(try_next(), ElementsAre(value));
  EXPECT_EQ(executor_.size(), 0U);
  EXPECT_THAT(store_.advances(), SizeIs(1));
  EXPECT_EQ(sequence_->statistics().values, 4);
  EXPECT_EQ(sequence_->statistics().requests, 4U);
  EXPECT_EQ(sequence_->held(), 6);
}

TEST_F(TryNext, TakesAllOrNothing) {
  open(10, 10);
  submit(6);
  executor_.run_all();
  EXPECT_THAT(try_next(5), SizeIs(0));
  EXPECT_THAT(try_next(3), ElementsAre(7, 8, 9));
  EXPECT_TRUE(sequence_->try_next({}));
  EXPECT_EQ(sequence_->statistics().requests, 2U);
}

TEST_F(TryNext, TheMarkHasATaskFetchTheNextRange) {
  open(10);
  submit(1);
  executor_.run_all();
  for (std::int64_t value = 2; value <= 10; ++value) EXPECT_THAT(try_next(), ElementsAre(value));
  EXPECT_EQ(executor_.size(), 1U) << "one task, and the store is asked by nobody else";
  EXPECT_THAT(store_.advances(), SizeIs(1));
  EXPECT_THAT(try_next(), SizeIs(0));
  executor_.run_all();
  EXPECT_THAT(store_.advances(), SizeIs(2));
  EXPECT_THAT(try_next(), ElementsAre(11));
}

TEST_F(TryNext, ARefusedTaskIsNoReasonToFail) {
  open(10);
  submit(1);
  executor_.run_all();
  executor_.refuse(Error{Code::kResourceExhausted, "no thread"});
  for (std::int64_t value = 2; value <= 10; ++value) EXPECT_THAT(try_next(), ElementsAre(value));
  EXPECT_THAT(try_next(), SizeIs(0));
  executor_.refuse(std::nullopt);
  const auto next = submit(1);
  executor_.run_all();
  EXPECT_THAT(next->values, ElementsAre(11)) << "who finds nothing fetches";
}

// ---- the order among requests

TEST_F(TryNext, ComesAfterARequestThatWaits) {
  open(10);
  submit(1);
  executor_.run_all();
  const auto waits = submit(1);
  EXPECT_THAT(try_next(), SizeIs(0)) << "2 is held, and the request comes first";
  executor_.run_all();
  EXPECT_THAT(waits->values, ElementsAre(2));
  EXPECT_THAT(try_next(), ElementsAre(3));
}

TEST_F(TryNext, ComesAfterARequestThatIsServed) {
  open(10);
  submit(8);
  executor_.run_all();
  store_.shut_gate();
  const auto served = submit(20);
  std::thread serves([&] { executor_.run_all(); });
  store_.wait_for_advances(2);
  EXPECT_THAT(try_next(), SizeIs(0));
  store_.open_gate();
  serves.join();
  EXPECT_EQ(served->code, Code{0});
  const Values after = try_next();
  EXPECT_TRUE(after.empty() || after.front() > served->values.back());
}

// A task whose turn is over leaves a request to the next one.
TEST_F(TryNext, ComesAfterARequestThatTheNextTaskIsToServe) {
  ManualExecutor one_round{std::chrono::nanoseconds{0}};
  open(10);
  sequence_ =
      CachedSequence::open(store_, "tickets", {.executor = &one_round}, clock_, entropy_).value();
  store_.shut_gate();
  submit(1);
  std::thread serves([&] { one_round.run_one(); });
  store_.wait_for_advances(1);
  const auto waits = submit(1);
  store_.open_gate();
  serves.join();
  EXPECT_EQ(waits->code, std::nullopt);
  EXPECT_THAT(try_next(), SizeIs(0));
  one_round.run_all();
  EXPECT_THAT(waits->values, ElementsAre(2));
  EXPECT_THAT(try_next(), ElementsAre(3));
  sequence_.reset();
}

// The values that a request could not use are smaller than those at the cursor.
TEST_F(TryNext, ComesAfterValuesThatARequestLeft) {
  open(40, 40);
  const auto too_many = submit(41);
  executor_.run_all();
  EXPECT_EQ(too_many->code, Code::kOutOfRange);
  EXPECT_EQ(sequence_->held(), 40);
  EXPECT_THAT(try_next(), SizeIs(0));
  const auto some = submit(3);
  executor_.run_all();
  EXPECT_THAT(some->values, ElementsAre(1, 2, 3));
  EXPECT_THAT(try_next(), SizeIs(0));
}

TEST_F(TryNext, TakesAgainWhenWhatARequestLeftIsGone) {
  open(10);
  submit(1);
  executor_.run_all();
  for (int i = 0; i < 2; ++i) store_.fail_next({{Code::kPermissionDenied, "read only"}, false});
  const auto fails = submit(12);
  executor_.run_all();
  EXPECT_EQ(fails->code, Code::kPermissionDenied);
  EXPECT_THAT(try_next(), SizeIs(0)) << "2 to 10 were left";
  const auto rest = submit(12);
  executor_.run_all();
  EXPECT_EQ(rest->values.front(), 2);
  const auto more = submit(1);
  executor_.run_all();
  EXPECT_THAT(try_next(), ElementsAre(more->values.front() + 1));
}

// ---- what ends it

TEST_F(TryNext, MoreThanTheLargestCountIsForSubmitToRefuse) {
  open(10, kLargestValue, 4);
  submit(1);
  executor_.run_all();
  EXPECT_THAT(try_next(5), SizeIs(0));
  EXPECT_THAT(try_next(4), SizeIs(4));
}

// A copy of the process may have been made meanwhile, which holds the same.
TEST_F(TryNext, NothingHeldIsGivenAfterAPauseOfTenMinutes) {
  for (const auto jump : {std::chrono::minutes{10}, std::chrono::minutes{-10}}) {
    SCOPED_TRACE(jump.count());
    if (sequence_ == nullptr) open(100);
    const auto first = submit(1);
    executor_.run_all();
    clock_.advance(jump);
    EXPECT_THAT(try_next(), ElementsAre(first->values.front() + 1)) << "so long they are kept";
    const std::int64_t taken = static_cast<std::int64_t>(store_.advances().size()) * 100;
    clock_.advance(jump + std::chrono::nanoseconds{jump.count() > 0 ? 1 : -1});
    EXPECT_THAT(try_next(), SizeIs(0));
    EXPECT_THAT(try_next(), SizeIs(0)) << "asking is no claim";
    const auto next = submit(1);
    executor_.run_all();
    EXPECT_EQ(next->values.front(), taken + 1);
    EXPECT_THAT(try_next(), ElementsAre(taken + 2));
  }
}

TEST_F(TryNext, EachCallIsAClaimSoThatNoPauseIsSeenAmongThem) {
  open(100);
  submit(1);
  executor_.run_all();
  for (std::int64_t value = 2; value <= 40; ++value) {
    clock_.advance(std::chrono::minutes{9});
    EXPECT_THAT(try_next(), ElementsAre(value));
  }
}

TEST_F(TryNext, NothingIsGivenAfterClose) {
  open(10);
  submit(1);
  executor_.run_all();
  EXPECT_THAT(try_next(), ElementsAre(2));
  sequence_->close();
  EXPECT_THAT(try_next(), SizeIs(0));
  EXPECT_EQ(sequence_->statistics().values, 2);
  EXPECT_EQ(sequence_->statistics().waste, 8);
}

TEST_F(TryNext, NothingIsGivenWhenTheStoreHasGoneBack) {
  open(10);
  submit(1);
  executor_.run_all();
  for (std::int64_t value = 2; value <= 5; ++value) EXPECT_THAT(try_next(), ElementsAre(value));
  store_.set_next("tickets", 1);
  executor_.run_all();  // the fetch ahead sees it
  EXPECT_EQ(sequence_->held(), 0);
  EXPECT_THAT(try_next(), SizeIs(0));
}

TEST_F(TryNext, AChildOfForkHoldsNothing) {
  open(10);
  submit(1);
  executor_.run_all();
  in_child([&] {
    EXPECT_THAT(try_next(), SizeIs(0));
    std::array<std::int64_t, 3> many{};
    EXPECT_FALSE(sequence_->try_next(many));
    sequence_.reset();
  });
  EXPECT_THAT(try_next(), ElementsAre(2)) << "the parent goes on";
}

TEST_F(TryNext, OtherStrategiesHoldNothing) {
  ASSERT_TRUE(create_sequence(store_, {.name = "orders"}));
  const auto orders = Sequence::open(store_, "orders", {.executor = &executor_}).value();
  ASSERT_EQ(orders->next(), 1);
  std::int64_t value = 0;
  EXPECT_FALSE(orders->try_next(std::span(&value, 1)));
  EXPECT_EQ(orders->next(), 2);
}

// Threads that only submit and try, beside one that blocks: no value twice, those of each in order,
// and the books balance.
TEST(TryNextUnderThreads, NoValueTwiceAndEachThreadsIncrease) {
  constexpr std::size_t kThreads = 3;
  constexpr int kCalls = 20'000;
  GatedStore store;
  ASSERT_TRUE(
      create_sequence(store, {.name = "tickets", .strategy = Strategy::kCached, .step = 100}));
  const auto sequence = CachedSequence::open(store, "tickets").value();
  std::array<Values, kThreads + 1> got;
  std::atomic<int> tried{0};
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kCalls; ++i) {
          Values values(i % 50 == 7 ? 90 : 1);
          if (sequence->try_next(values)) {
            tried.fetch_add(1, std::memory_order_relaxed);
          } else {
            std::atomic<bool> answered{false};
            ASSERT_TRUE(sequence->submit(values, [&](Result<void> filled) {
              EXPECT_TRUE(filled);
              answered.store(true);
              answered.notify_one();
            }));
            answered.wait(false);
          }
          got[t].insert(got[t].end(), values.begin(), values.end());
        }
      });
    }
    threads.emplace_back([&] {
      for (int i = 0; i < kCalls; ++i) got[kThreads].push_back(sequence->next().value());
    });
  }
  sequence->close();
  EXPECT_GT(tried.load(), 0);
  Values all;
  for (const Values& mine : got) {
    EXPECT_TRUE(std::ranges::is_sorted(mine));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end()) << "twice";
  const SequenceStatistics is = sequence->statistics();
  EXPECT_EQ(is.values, std::ssize(all));
  EXPECT_EQ(is.values + is.waste, store.peek("tickets")->next - 1);
}

}  // namespace
}  // namespace idmint
