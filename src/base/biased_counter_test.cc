#include "base/biased_counter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/fork_wiped.h"

namespace idmint {
namespace {

// True when the values are 0 .. n-1, each once.
bool complete(std::vector<std::uint64_t> values) {
  std::sort(values.begin(), values.end());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != i) return false;
  }
  return true;
}

TEST(BiasedCounter, CountsForItsOwner) {
  BiasedCounter counter;
  EXPECT_EQ(counter.fetch_add(3), 0U);
  EXPECT_EQ(counter.fetch_add(1), 3U);
  std::uint64_t expected = 4;
  EXPECT_TRUE(counter.compare_exchange(expected, 10));
  EXPECT_FALSE(counter.compare_exchange(expected, 11));
  EXPECT_EQ(expected, 10U);
  EXPECT_EQ(counter.load(), 10U);
}

// The dangerous moment is the one in which a second thread comes. So it comes a hundred thousand
// times, to an owner who is adding, and every time all values must be there. Fewer times where the
// threads have to wait for processors.
TEST(BiasedCounter, NothingIsLostOrRepeatedWhenASecondThreadComes) {
  // Under ThreadSanitizer it is an ordinary atomic, and few rounds show as much.
  constexpr int kRounds = IDMINT_BIASED ? 100'000 : 10'000;
  constexpr int kFewRounds = 1000;
  constexpr int kEnd = kRounds;
  constexpr int kVisits = 8;
  // In one round. After so many the other thread has no processor: it may have this one.
  constexpr std::size_t kMostAdditions = 2000;
  const auto late = std::chrono::steady_clock::now() + std::chrono::seconds{20};
  std::vector<BiasedCounter> counters(kRounds);
  std::atomic<int> owned{-1};
  std::atomic<int> visited{-1};
  std::vector<std::uint64_t> seen;  // of the other thread, kVisits for each round
  seen.reserve(static_cast<std::size_t>(kRounds) * kVisits);
  const std::jthread other([&] {
    for (int round = 0; round < kRounds; ++round) {
      for (unsigned i = 1; owned.load(std::memory_order_acquire) < round; ++i)
        if (i % 10'000 == 0) std::this_thread::yield();
      if (owned == kEnd) return;
      BiasedCounter& counter = counters[static_cast<std::size_t>(round)];
      for (int i = 0; i < kVisits; ++i) seen.push_back(counter.fetch_add(1));
      visited.store(round, std::memory_order_release);
    }
  });
  std::size_t overlapping = 0;
  std::vector<std::uint64_t> values;
  bool right = true;
  int round = 0;
  for (; right && round < kRounds; ++round) {
    if (round >= kFewRounds && std::chrono::steady_clock::now() > late) break;
    BiasedCounter& counter = counters[static_cast<std::size_t>(round)];
    values.clear();
    values.push_back(counter.fetch_add(1));
    owned.store(round, std::memory_order_release);
    while (visited.load(std::memory_order_acquire) < round) {
      if (values.size() < kMostAdditions) {
        values.push_back(counter.fetch_add(1));
      } else {
        std::this_thread::yield();
      }
    }
    if (values.size() > 2) ++overlapping;
    const auto theirs = seen.end() - kVisits;
    right = std::is_sorted(values.begin(), values.end()) && std::is_sorted(theirs, seen.end());
    values.insert(values.end(), theirs, seen.end());
    right = right && complete(values);
  }
  owned = kEnd;
  EXPECT_TRUE(right) << "round " << round;
  EXPECT_GT(overlapping, static_cast<std::size_t>(round / 10)) << "the threads hardly ever met";
}

// Values that one thread got, without any of the other's between them.
struct Stretch {
  std::uint64_t first;
  std::uint64_t end;
};

// They add until they have met so often that they met within an addition too, on one processor as
// on two.
TEST(BiasedCounter, NothingIsLostOrRepeatedOnceASecondThreadIsThere) {
  constexpr std::size_t kMeetings = 300;
  BiasedCounter counter;
  std::atomic<bool> enough{false};
  std::array<std::vector<Stretch>, 2> runs;
  {
    std::vector<std::jthread> threads;
    for (std::vector<Stretch>& mine : runs)
      threads.emplace_back([&] {
        while (!enough.load(std::memory_order_relaxed)) {
          const std::uint64_t value = counter.fetch_add(1);
          if (mine.empty() || mine.back().end != value) mine.push_back({value, value});
          mine.back().end = value + 1;
          if (mine.size() > kMeetings) enough = true;
        }
      });
  }
  std::vector<Stretch> all = runs[0];
  all.insert(all.end(), runs[1].begin(), runs[1].end());
  std::ranges::sort(all, {}, &Stretch::first);
  std::uint64_t next = 0;
  for (const Stretch& run : all) {
    ASSERT_EQ(run.first, next);
    next = run.end;
  }
  EXPECT_EQ(counter.load(), next);
}

}  // namespace
}  // namespace idmint
