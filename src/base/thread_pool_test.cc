#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cstddef>
#include <future>
#include <latch>
#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

#include "tests/fakes/code_of.h"
#include "tests/fakes/in_child.h"

namespace idmint {
namespace {

TEST(ThreadPool, ATaskRunsInAnotherThread) {
  ThreadPool pool(1);
  std::promise<std::thread::id> ran;
  ASSERT_TRUE(pool.post([&] { ran.set_value(std::this_thread::get_id()); }));
  EXPECT_NE(ran.get_future().get(), std::this_thread::get_id());
}

TEST(ThreadPool, OneThreadKeepsTheOrder) {
  std::vector<int> order;
  {
    ThreadPool pool(1);
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(pool.post([&order, i] { order.push_back(i); }));
  }
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(ThreadPool, AThreadIsStartedWhenAllOthersAreBusyUpToTheMost) {
  constexpr std::size_t kMost = 3;
  std::counting_semaphore<> may_end{0};
  std::latch begun(kMost);
  ThreadPool pool(kMost);  // ends before what its tasks use
  EXPECT_EQ(pool.threads(), 0U);
  for (std::size_t i = 0; i < kMost; ++i) {
    ASSERT_TRUE(pool.post([&] {
      begun.count_down();
      may_end.acquire();
    }));
  }
  begun.wait();  // all at a time
  ASSERT_TRUE(pool.post([] {}));
  EXPECT_EQ(pool.threads(), kMost);
  may_end.release(kMost);
}

TEST(ThreadPool, AnIdleThreadTakesTheNextTask) {
  ThreadPool pool(8);
  for (int i = 0; i < 20; ++i) {
    std::promise<void> ran;
    ASSERT_TRUE(pool.post([&] { ran.set_value(); }));
    ran.get_future().wait();
  }
  EXPECT_LE(pool.threads(), 8U);
  EXPECT_GE(pool.threads(), 1U);
}

TEST(ThreadPool, DestroyingItRunsWhatIsQueued) {
  std::atomic<int> ran{0};
  {
    ThreadPool pool(2);
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(pool.post([&] { ++ran; }));
  }
  EXPECT_EQ(ran.load(), 1000);
}

TEST(ThreadPool, DestroyingItRunsWhatTasksPostMeanwhile) {
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> ran{0};
    {
      ThreadPool pool(4);
      for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(pool.post([&] {
          ran.fetch_add(1);
          for (int more = 0; more < 2; ++more) {
            EXPECT_TRUE(pool.post([&] {
              ran.fetch_add(1);
              EXPECT_TRUE(pool.post([&] { ran.fetch_add(1); }));
            }));
          }
        }));
      }
    }
    ASSERT_EQ(ran.load(), 15);
  }
}

TEST(ThreadPool, WhatATaskHoldsIsGivenBackWhenItIsDone) {
  ThreadPool pool(1);
  const auto held = std::make_shared<int>(1);
  ASSERT_TRUE(pool.post([held] {}));
  while (held.use_count() != 1) std::this_thread::yield();
}

TEST(ThreadPool, ATaskMayPost) {
  ThreadPool pool(1);
  std::promise<void> ran;
  ASSERT_TRUE(pool.post([&] { ASSERT_TRUE(pool.post([&] { ran.set_value(); })); }));
  ran.get_future().wait();
}

TEST(ThreadPool, ItsThreadsGetNoSignal) {
  ThreadPool pool(1);
  std::promise<bool> blocked;
  ASSERT_TRUE(pool.post([&] {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    blocked.set_value(sigismember(&mask, SIGTERM) == 1);
  }));
  EXPECT_TRUE(blocked.get_future().get());
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGTERM), 0);  // the caller's are as before
}

TEST(ThreadPool, AChildOfForkIsRefusedAndHasASharedOneOfItsOwn) {
  Executor& before = shared_executor();
  std::promise<void> ran;
  ASSERT_TRUE(before.post([&] { ran.set_value(); }));
  ran.get_future().wait();
  fakes::in_child([&] {
    EXPECT_EQ(fakes::code_of(before.post([] {})), Code::kFailedPrecondition);
    Executor& own = shared_executor();
    EXPECT_NE(&own, &before);
    EXPECT_EQ(&shared_executor(), &own);
    std::promise<void> ran_here;
    ASSERT_TRUE(own.post([&] { ran_here.set_value(); }));
    ran_here.get_future().wait();
  });
  EXPECT_EQ(&shared_executor(), &before);
}

TEST(SharedExecutor, ItHasSixteenThreadsAtMost) {
  std::counting_semaphore<> may_end{0};
  std::latch begun(16);
  const auto ended = std::make_shared<std::latch>(40);  // the last task goes on in it
  std::atomic<int> under_way{0};
  std::atomic<int> most{0};
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(shared_executor().post([&, i, ended] {
      const int now = ++under_way;
      for (int seen = most.load(); seen < now && !most.compare_exchange_weak(seen, now);) {
      }
      if (i < 16) begun.count_down();
      may_end.acquire();
      --under_way;
      ended->count_down();
    }));
  }
  begun.wait();
  may_end.release(40);
  ended->wait();
  EXPECT_EQ(most.load(), 16);
}

}  // namespace
}  // namespace idmint
