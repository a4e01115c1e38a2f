#include "base/fork_wiped.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/fakes/in_child.h"

namespace idmint {
namespace {

using fakes::in_child;

// As a runtime without the C library's fork handlers would.
pid_t bare_clone() { return static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); }

struct Large {
  std::array<std::uint64_t, 2000> words;  // several pages
};

int nonzero_words(const Large& large) {
  int nonzero = 0;
  for (const std::uint64_t word : large.words) nonzero += word != 0;
  return nonzero;
}

TEST(ForkWiped, IsZeroInAChildOnEveryPageAndKeptInTheParent) {
  for (const auto spawn : {+[] { return ::fork(); }, &bare_clone}) {
    ForkWiped<Large> large;
    large->words.fill(7);
    EXPECT_EQ(in_child([&] { return nonzero_words(*large); }, spawn), 0);
    EXPECT_EQ(large->words.front(), 7U);
    EXPECT_EQ(large->words.back(), 7U);
  }
}

TEST(ForkWiped, StartsWithTheInitialValuesOfItsType) {
  struct Started {
    int value = 5;
  };
  EXPECT_EQ(ForkWiped<Started>()->value, 5);
}

TEST(ForkWiped, AChildsWritesAreWipedInItsOwnChild) {
  ForkWiped<std::uint64_t> word;
  const std::uint64_t grandchilds = in_child([&] {
    *word = 9;
    return in_child([&] { return *word; });
  });
  EXPECT_EQ(grandchilds, 0U);
}

TEST(OwnedByProcess, HoldsOnlyInTheProcessThatMadeIt) {
  OwnedByProcess owned;
  EXPECT_TRUE(owned);
  EXPECT_FALSE(in_child([&] { return static_cast<bool>(owned); }));
  EXPECT_TRUE(in_child([&] { return static_cast<bool>(OwnedByProcess()); }));
  EXPECT_TRUE(owned);
}

// Also where a child has things of its own: they do not make those of its parents its own.
TEST(OwnedByProcess, NoProcessOwnsWhatAnyOfItsParentsMade) {
  for (const auto spawn : {+[] { return ::fork(); }, &bare_clone}) {
    const OwnedByProcess first;
    in_child(
        [&] {
          EXPECT_FALSE(first);
          const OwnedByProcess second;
          EXPECT_TRUE(second);
          EXPECT_FALSE(first);
          in_child([&] {
            const OwnedByProcess third;
            EXPECT_TRUE(third);
            EXPECT_FALSE(second);
            EXPECT_FALSE(first);
          });
          EXPECT_TRUE(second);
        },
        spawn);
    EXPECT_TRUE(first);
  }
}

TEST(OwnedByProcess, ThreadsOfAProcessHaveOneNumber) {
  const std::uint64_t mine = number_of_this_process();
  EXPECT_NE(mine, 0U);
  std::atomic<int> same{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] { same += number_of_this_process() == mine ? 1 : 0; });
  }
  EXPECT_EQ(same, 4);
  // The first in a child to ask.
  EXPECT_TRUE(in_child([&] {
    std::array<std::uint64_t, 4> numbers{};
    {
      std::vector<std::jthread> threads;
      for (std::uint64_t& number : numbers)
        threads.emplace_back([&number] { number = number_of_this_process(); });
    }
    for (const std::uint64_t number : numbers) {
      if (number != number_of_this_process() || number == mine) return false;
    }
    return true;
  }));
}

}  // namespace
}  // namespace idmint
