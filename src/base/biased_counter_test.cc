#include "base/biased_counter.h"

#include <gtest/gtest.h>

#include <algorithm>
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
// times, to an owner who is adding, and every time all values must be there.
TEST(BiasedCounter, NothingIsLostOrRepeatedWhenASecondThreadComes) {
  // Where it is an ordinary atomic, as under ThreadSanitizer, few rounds show as much.
  constexpr int kRounds = IDMINT_BIASED ? 100'000 : 10'000;
  constexpr int kVisits = 8;
  // In one round. After so many the other thread has no processor: it may have this one.
  constexpr std::size_t kMostAdditions = 2000;
  std::vector<BiasedCounter> counters(kRounds);
  std::atomic<int> owned{-1};
  std::atomic<int> visited{-1};
  std::vector<std::uint64_t> seen;  // of the other thread, kVisits for each round
  seen.reserve(static_cast<std::size_t>(kRounds) * kVisits);
  std::jthread other([&] {
    for (int round = 0; round < kRounds; ++round) {
      for (unsigned i = 1; owned.load(std::memory_order_acquire) < round; ++i)
        if (i % 10'000 == 0) std::this_thread::yield();
      BiasedCounter& counter = counters[static_cast<std::size_t>(round)];
      for (int i = 0; i < kVisits; ++i) seen.push_back(counter.fetch_add(1));
      visited.store(round, std::memory_order_release);
    }
  });
  std::size_t overlapping = 0;
  std::vector<std::uint64_t> values;
  for (int round = 0; round < kRounds; ++round) {
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
    EXPECT_TRUE(std::is_sorted(values.begin(), values.end()));
    if (values.size() > 2) ++overlapping;
    const auto theirs = seen.end() - kVisits;
    EXPECT_TRUE(std::is_sorted(theirs, seen.end()));
    values.insert(values.end(), theirs, seen.end());
    ASSERT_TRUE(complete(values)) << "round " << round;
  }
  EXPECT_GT(overlapping, static_cast<std::size_t>(kRounds / 10)) << "the threads hardly ever met";
}

}  // namespace
}  // namespace idmint
