#include "base/fork_wiped.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <csignal>

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

}  // namespace
}  // namespace idmint
