#include "base/background.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <semaphore>
#include <thread>

namespace idmint {
namespace {

TEST(Background, NobodyWaitsForIt) {
  std::binary_semaphore may_end{0};
  std::promise<std::thread::id> ran;
  run_in_background([&] {
    may_end.acquire();
    ran.set_value(std::this_thread::get_id());
  });
  EXPECT_TRUE(background_is_busy());
  may_end.release();
  EXPECT_NE(ran.get_future().get(), std::this_thread::get_id());
  while (background_is_busy()) std::this_thread::yield();
}

TEST(Background, WhatTheWorkHoldsIsGivenBackWhenItIsDone) {
  const auto held = std::make_shared<int>(1);
  run_in_background([held] {});
  while (held.use_count() != 1) std::this_thread::yield();  // before anybody looks
  while (background_is_busy()) std::this_thread::yield();
}

TEST(Background, WhereNoThreadIsLeftItIsDoneHereAndNow) {
  pthread_attr_t usual;
  ASSERT_EQ(::pthread_getattr_default_np(&usual), 0);
  pthread_attr_t impossible = usual;
  ASSERT_EQ(::pthread_attr_setstacksize(&impossible, std::size_t{1} << 47), 0);
  ASSERT_EQ(::pthread_setattr_default_np(&impossible), 0);
  std::thread::id by;
  run_in_background([&] { by = std::this_thread::get_id(); });
  EXPECT_EQ(::pthread_setattr_default_np(&usual), 0);
  EXPECT_EQ(by, std::this_thread::get_id());
  EXPECT_FALSE(background_is_busy());
  ::pthread_attr_destroy(&usual);
}

// The thread that the parent has is not there.
TEST(Background, AChildOfForkDoesItHereAndNow) {
  std::binary_semaphore may_end{0};
  run_in_background([&] { may_end.acquire(); });
  const pid_t child = ::fork();
  if (child == 0) {
    const bool busy = background_is_busy();
    std::thread::id by;
    run_in_background([&] { by = std::this_thread::get_id(); });
    const bool here = by == std::this_thread::get_id();
    std::exit(!busy && here ? 0 : 1);  // waits for nothing
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  may_end.release();
  while (background_is_busy()) std::this_thread::yield();
}

// Whenever it is moved, which is also while it is put where the threads find it.
struct Forks {
  Forks() = default;
  Forks(Forks&& other) noexcept : children(other.children + 1), failed(other.failed) {
    const pid_t child = ::fork();
    if (child == 0) std::exit(0);
    int status = -1;
    if (::waitpid(child, &status, 0) != child || status != 0) failed = true;
  }
  Forks(const Forks&) = delete;
  Forks& operator=(const Forks&) = delete;
  Forks& operator=(Forks&&) = delete;
  ~Forks() = default;

  int children = 0;
  bool failed = false;
};

TEST(Background, AChildThatIsForkedInTheMidstOfItEnds) {
  std::promise<int> children;
  std::promise<bool> failed;
  run_in_background([forks = Forks(), &children, &failed] {
    children.set_value(forks.children);
    failed.set_value(forks.failed);
  });
  EXPECT_GE(children.get_future().get(), 1);
  EXPECT_FALSE(failed.get_future().get());
  while (background_is_busy()) std::this_thread::yield();
}

// As for a server that hangs.
TEST(BackgroundDeathTest, ExitWaitsNoLongerThanItIsToldTo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        run_in_background(
            [] {
              std::fputs("it waits", stderr);
              std::binary_semaphore never{0};
              never.acquire();
            },
            std::chrono::steady_clock::now());
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

std::binary_semaphore exit_has_begun{0};

// The handlers of exit() run in the order opposite to that in which they came.
void say_whether_all_is_done() {
  bool here = false;
  run_in_background([&] { here = true; });
  std::fputs(here ? ", then exit went on\n" : ", then exit left work behind\n", stderr);
}

TEST(BackgroundDeathTest, ExitWaitsForItAndDoesTheRestItself) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::atexit(&say_whether_all_is_done);
        run_in_background([] {
          exit_has_begun.acquire();
          for (int i = 0; i < 10'000; ++i) std::this_thread::yield();
          std::fputs("it was done", stderr);
        });
        std::atexit([] { exit_has_begun.release(); });
        std::exit(0);
      },
      testing::ExitedWithCode(0), "it was done, then exit went on");
}

}  // namespace
}  // namespace idmint
