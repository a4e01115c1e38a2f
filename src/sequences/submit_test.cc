// Asynchronous requests, of every strategy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "idmint/executor.h"
#include "idmint/sequence.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/gated_store.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/manual_executor.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::GatedStore;
using fakes::ManualExecutor;
using testing::Each;
using Values = std::vector<std::int64_t>;

constexpr std::int64_t kLast = 1'000'000;
constexpr std::chrono::milliseconds kForever = std::chrono::hours{1};  // no test comes to it

SequenceDefinition orders_of(Strategy strategy, std::int64_t last = kLast,
                             std::string name = "orders") {
  const bool has_stripes = strategy == Strategy::kStriped || strategy == Strategy::kInterleaved;
  return {
      .name = std::move(name), .strategy = strategy, .last = last, .stripes = has_stripes ? 4 : 1};
}

// Requests to one sequence, and how they were answered.
class Submitted {
 public:
  explicit Submitted(Sequence& sequence) : sequence_(sequence) {}

  // The result of submit(). Fails the test if it calls back.
  Result<void> submit(std::size_t count = 1) {
    Request& request = requests_.emplace_back(count);
    const std::thread::id here = std::this_thread::get_id();
    const auto still = std::make_shared<std::atomic<bool>>(true);
    auto queued =
        sequence_.submit(request.values, [this, &request, here, still](Result<void> result) {
          EXPECT_FALSE(still->load() && std::this_thread::get_id() == here)
              << "called back inside submit()";
          EXPECT_EQ(request.calls.fetch_add(1), 0);
          request.code = code_of(result);
          const std::lock_guard lock(mutex_);
          ++answered_;
          changed_.notify_all();
        });
    still->store(false);
    if (!queued) requests_.pop_back();
    return queued;
  }

  void wait_for_all() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return answered_ == requests_.size(); });
  }

  [[nodiscard]] std::size_t answered() {
    const std::lock_guard lock(mutex_);
    return answered_;
  }
  [[nodiscard]] std::vector<Code> codes() const {
    std::vector<Code> codes;
    for (const Request& request : requests_) codes.push_back(request.code);
    return codes;
  }
  // The values of the answered requests, in the order of the requests.
  [[nodiscard]] Values values() const {
    Values all;
    for (const Request& request : requests_) {
      if (request.code == Code{0}) {
        all.insert(all.end(), request.values.begin(), request.values.end());
      }
    }
    return all;
  }

 private:
  struct Request {
    explicit Request(std::size_t count) : values(count) {}
    Values values;
    Code code{};
    std::atomic<int> calls{0};
  };
  Sequence& sequence_;
  std::deque<Request> requests_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t answered_ = 0;
};

std::ptrdiff_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

class Submit : public testing::TestWithParam<Strategy> {
 protected:
  std::unique_ptr<Sequence> open(Executor& executor = shared_executor(), std::int64_t last = kLast,
                                 std::size_t max_outstanding = 1'000'000) {
    EXPECT_TRUE(create_sequence(store_, orders_of(GetParam(), last)));
    return Sequence::open(
               store_, "orders",
               {.max_outstanding = max_outstanding, .deadline = kForever, .executor = &executor})
        .value();
  }
  [[nodiscard]] bool has_order() const {
    return GetParam() == Strategy::kCounter || GetParam() == Strategy::kCached;
  }
  // Returns when a call of the store waits at the gate.
  void wait_for_the_store() {
    if (GetParam() == Strategy::kRandom) {
      store_.wait_for_inserts(1);
    } else {
      store_.wait_for_advances(1);
    }
  }

  GatedStore store_;
};

TEST_P(Submit, FillsWithValuesThatNobodyElseGets) {
  const auto sequence = open();
  Submitted answers(*sequence);
  Values all;
  for (std::size_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(answers.submit(1 + i % 5));
    Values values(1 + i % 3);
    ASSERT_TRUE(sequence->next(values));
    all.insert(all.end(), values.begin(), values.end());
  }
  answers.wait_for_all();
  EXPECT_THAT(answers.codes(), Each(Code{0}));
  const Values submitted = answers.values();
  if (has_order()) {
    EXPECT_TRUE(std::ranges::is_sorted(submitted));
  }
  all.insert(all.end(), submitted.begin(), submitted.end());
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end()) << "a repeat";
  EXPECT_GE(all.front(), 1);
  EXPECT_LE(all.back(), kLast);
  EXPECT_EQ(sequence->statistics().values, std::ssize(all));
  EXPECT_EQ(sequence->statistics().requests, 400U);
}

TEST_P(Submit, NeverCallsBackBeforeItReturns) {
  ManualExecutor executor;
  const auto sequence = open(executor);
  Submitted answers(*sequence);
  Values one(1);
  ASSERT_TRUE(sequence->next(one));  // values are at hand, of a strategy that keeps some
  ASSERT_TRUE(answers.submit(3));
  ASSERT_TRUE(answers.submit());
  EXPECT_EQ(answers.answered(), 0U);
  executor.run_all();
  EXPECT_EQ(answers.answered(), 2U);
  EXPECT_THAT(answers.codes(), Each(Code{0}));
}

TEST_P(Submit, NoValueIsAnsweredByATaskToo) {
  ManualExecutor executor;
  const auto sequence = open(executor);
  Submitted answers(*sequence);
  ASSERT_TRUE(answers.submit(0));
  EXPECT_EQ(answers.answered(), 0U);
  executor.run_all();
  EXPECT_THAT(answers.codes(), testing::ElementsAre(Code{0}));
}

TEST_P(Submit, ACallBackMaySubmit) {
  const auto sequence = open();
  Values values(1000);
  std::promise<Result<void>> ended;
  std::function<void(std::size_t)> ask = [&](std::size_t i) {
    const Result<void> queued =
        sequence->submit(std::span(values).subspan(i, 1), [&, i](const Result<void>& result) {
          if (!result || i + 1 == values.size()) {
            ended.set_value(result);
          } else {
            ask(i + 1);
          }
        });
    ASSERT_TRUE(queued);
  };
  ask(0);
  ASSERT_TRUE(ended.get_future().get());
  EXPECT_EQ(std::set<std::int64_t>(values.begin(), values.end()).size(), values.size());
}

TEST_P(Submit, CloseAnswersRequestsThatNobodyServesYet) {
  ManualExecutor executor;
  auto sequence = open(executor);
  Submitted answers(*sequence);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(answers.submit());
  sequence->close();
  EXPECT_EQ(answers.answered(), 3U);
  EXPECT_THAT(answers.codes(), Each(Code::kUnavailable));
  EXPECT_EQ(code_of(answers.submit()), Code::kUnavailable);
  sequence.reset();
  executor.run_all();  // tasks that find the sequence gone
  EXPECT_EQ(answers.answered(), 3U);
}

TEST_P(Submit, CloseAnswersEachRequestOnceWhileTheStoreIsBusy) {
  const auto sequence = open();
  store_.shut_gate();
  Submitted answers(*sequence);
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(answers.submit());
  wait_for_the_store();
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(answers.submit());
  std::thread closer([&] { sequence->close(); });
  while (code_of(answers.submit()) != Code::kUnavailable) std::this_thread::yield();
  store_.open_gate();
  closer.join();
  answers.wait_for_all();
  const Values values = answers.values();
  EXPECT_EQ(std::set<std::int64_t>(values.begin(), values.end()).size(), values.size());
  for (const Code code : answers.codes()) {
    EXPECT_TRUE(code == Code{0} || code == Code::kUnavailable) << name(code);
  }
}

// close() comes at any moment. Each request is answered once.
TEST_P(Submit, CloseAmongBusyCallersLeavesNobodyWaiting) {
  for (int round = 0; round < 20; ++round) {
    GatedStore store;
    ASSERT_TRUE(create_sequence(store, orders_of(GetParam())));
    const auto sequence = Sequence::open(store, "orders", {.deadline = kForever}).value();
    std::atomic<int> working{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        Submitted answers(*sequence);
        Values one(1);
        working.fetch_add(1);
        while (answers.submit() && (t % 2 == 0 || sequence->next(one))) {
          answers.wait_for_all();
        }
        answers.wait_for_all();
      });
    }
    while (working.load() < 4) std::this_thread::yield();
    sequence->close();
    for (std::thread& thread : threads) thread.join();
  }
}

TEST_P(Submit, RequestsThatWaitAreBounded) {
  ManualExecutor executor;
  const auto sequence = open(executor, kLast, 2);
  Submitted answers(*sequence);
  ASSERT_TRUE(answers.submit());
  ASSERT_TRUE(answers.submit());
  EXPECT_EQ(code_of(answers.submit()), Code::kResourceExhausted);
  executor.run_all();
  EXPECT_EQ(answers.answered(), 2U);
  EXPECT_TRUE(answers.submit()) << "places are free again";
  executor.run_all();
  EXPECT_EQ(answers.answered(), 3U);
}

TEST_P(Submit, WhatTheExecutorRefusesIsNotQueued) {
  ManualExecutor executor;
  const auto sequence = open(executor);
  Submitted answers(*sequence);
  executor.refuse(Error{Code::kResourceExhausted, "no thread"});
  EXPECT_EQ(code_of(answers.submit()), Code::kResourceExhausted);
  Values one(1);
  EXPECT_TRUE(sequence->next(one));
  executor.refuse(std::nullopt);
  ASSERT_TRUE(answers.submit());
  executor.run_all();
  EXPECT_EQ(answers.answered(), 1U);
  EXPECT_THAT(answers.codes(), Each(Code{0}));
}

TEST_P(Submit, ThatFewerAreLeftSaysNothingToTheNextRequest) {
  const auto sequence = open(shared_executor(), 40);
  Submitted answers(*sequence);
  ASSERT_TRUE(answers.submit(41));
  ASSERT_TRUE(answers.submit(5));
  answers.wait_for_all();
  EXPECT_THAT(answers.codes(), testing::ElementsAre(Code::kOutOfRange, Code{0}));
  Submitted rest(*sequence);
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(rest.submit());
  rest.wait_for_all();
  Values all = answers.values();
  const Values more = rest.values();
  all.insert(all.end(), more.begin(), more.end());
  EXPECT_EQ(std::set<std::int64_t>(all.begin(), all.end()).size(), all.size());
  EXPECT_EQ(rest.codes().back(), Code::kOutOfRange);
}

TEST_P(Submit, AnErrorOfTheStoreReachesTheRequests) {
  ManualExecutor executor;
  const auto sequence = open(executor);
  Submitted answers(*sequence);
  store_.fail_next({{Code::kPermissionDenied, "not allowed"}});
  ASSERT_TRUE(answers.submit());
  ASSERT_TRUE(answers.submit());
  executor.run_all();
  EXPECT_EQ(answers.answered(), 2U);
  EXPECT_THAT(answers.codes(), Each(Code::kPermissionDenied));
  ASSERT_TRUE(answers.submit());
  executor.run_all();
  EXPECT_EQ(answers.codes().back(), Code{0});
}

TEST_P(Submit, AChildOfForkIsRefused) {
  const auto sequence = open();
  Submitted answers(*sequence);
  ASSERT_TRUE(answers.submit());
  answers.wait_for_all();
  fakes::in_child([&] { EXPECT_EQ(code_of(answers.submit()), Code::kFailedPrecondition); });
  ASSERT_TRUE(answers.submit());
  answers.wait_for_all();
  EXPECT_THAT(answers.codes(), Each(Code{0}));
}

TEST_P(Submit, RequestsThatWaitNeedNoThreads) {
  const auto sequence = open();
  store_.shut_gate();
  Submitted answers(*sequence);
  for (int i = 0; i < 32'000; ++i) ASSERT_TRUE(answers.submit());
  wait_for_the_store();
  EXPECT_LE(threads_of_this_process(), 32);
  store_.open_gate();
  answers.wait_for_all();
  EXPECT_THAT(answers.codes(), Each(Code{0}));
  const Values values = answers.values();
  EXPECT_EQ(std::set<std::int64_t>(values.begin(), values.end()).size(), values.size());
}

TEST_P(Submit, OpenSequencesNeedNoThreadsOfTheirOwn) {
  constexpr std::size_t kSequences = 1000;
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::deque<Submitted> answers;
  for (std::size_t i = 0; i < kSequences; ++i) {
    const std::string name = "s" + std::to_string(i);
    ASSERT_TRUE(create_sequence(store_, orders_of(GetParam(), kLast, name)));
    sequences.push_back(Sequence::open(store_, name, {.deadline = kForever}).value());
    answers.emplace_back(*sequences.back());
  }
  store_.shut_gate();
  for (Submitted& each : answers) ASSERT_TRUE(each.submit());
  wait_for_the_store();
  EXPECT_LE(threads_of_this_process(), 32);
  store_.open_gate();
  for (Submitted& each : answers) each.wait_for_all();
  EXPECT_LE(threads_of_this_process(), 32);
  for (const Submitted& each : answers) EXPECT_THAT(each.codes(), Each(Code{0}));
}

INSTANTIATE_TEST_SUITE_P(Strategies, Submit,
                         testing::Values(Strategy::kCounter, Strategy::kStriped,
                                         Strategy::kInterleaved, Strategy::kCached,
                                         Strategy::kRandom, Strategy::kPermuted),
                         [](const auto& strategy) {
                           return std::string(idmint::name(strategy.param));
                         });

}  // namespace
}  // namespace idmint
