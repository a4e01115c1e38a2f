#include "base/fork_wiped.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>

namespace idmint {
namespace {

// The exit status of a child that runs `in_child`.
int run_in_child(const std::function<int()>& in_child, pid_t (*spawn)() = ::fork) {
  const pid_t child = spawn();
  if (child == 0) ::_exit(in_child());
  int status = -1;
  if (::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

// As a runtime without the C library's fork handlers would.
pid_t bare_clone() { return static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); }

struct Large {
  std::array<std::uint64_t, 2000> words;  // several pages
};

int nonzero_words(const Large& large) {
  int nonzero = 0;
  for (const std::uint64_t word : large.words) nonzero += word != 0;
  return nonzero != 0;
}

TEST(ForkWiped, IsZeroInAChildOnEveryPageAndKeptInTheParent) {
  for (const auto spawn : {+[] { return ::fork(); }, &bare_clone}) {
    ForkWiped<Large> large;
    large->words.fill(7);
    EXPECT_EQ(run_in_child([&] { return nonzero_words(*large); }, spawn), 0);
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
  const int grandchild = run_in_child([&] {
    *word = 9;
    return run_in_child([&] { return *word == 0 ? 0 : 1; });
  });
  EXPECT_EQ(grandchild, 0);
}

TEST(OwnedByProcess, HoldsOnlyInTheProcessThatMadeIt) {
  OwnedByProcess owned;
  EXPECT_TRUE(owned);
  EXPECT_EQ(run_in_child([&] { return owned ? 1 : 0; }), 0);
  EXPECT_EQ(run_in_child([&] { return OwnedByProcess() ? 0 : 1; }), 0);
  EXPECT_TRUE(owned);
}

}  // namespace
}  // namespace idmint
