// kill -9 of eight processes that take from one sequence of a SQLite store, again and again: no
// value twice, in any process, before or after. IDMINT_KILL_ROUNDS sets the number of rounds.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "idmint/sequence.h"
#include "idmint/store.h"
#include "tests/fakes/temp_folder.h"

namespace idmint {
namespace {

constexpr int kWriters = 8;
constexpr std::int64_t kShare = 20'000;  // values for each round
constexpr std::int64_t kLoad = 20;       // of them for each round, or nothing is tried

// Two threads of each writer note what they were given, in a log of their own, each with one
// write(2), which a kill cannot undo. They open the sequence anew now and then, so that kills also
// meet that.
[[noreturn]] void take_until_killed(const std::string& url, const std::string& log) {
  const auto fail = [](const std::string& why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    _exit(1);
  };
  const auto take = [&](Sequence& sequence, const std::string& to) {
    const int fd = open(to.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    if (fd < 0) fail("no log");
    for (std::size_t i = 0; i < 32; ++i) {
      std::vector<std::int64_t> values(1 + i % 7);
      const Result<void> taken = sequence.next(values);
      if (!taken && taken.error().code == Code::kOutOfRange) {
        pause();  // all is taken, on a machine that fast
      }
      if (!taken) fail(taken.error().message());
      const auto size = static_cast<ssize_t>(values.size() * sizeof values[0]);
      if (write(fd, values.data(), static_cast<std::size_t>(size)) != size) fail("cannot log");
    }
    ::close(fd);
  };
  for (;;) {
    const auto store = Store::open(url, {.deadline = std::chrono::seconds{60}});
    if (!store) fail(store.error().message());
    const auto sequence = Sequence::open(**store, "s");
    if (!sequence) fail(sequence.error().message());
    std::thread other([&] { take(**sequence, log + "b"); });
    take(**sequence, log + "a");
    other.join();
  }
}

std::vector<std::int64_t> read_values(const std::string& log) {
  std::ifstream file(log, std::ios::binary);
  std::vector<std::int64_t> values;
  std::int64_t value = 0;
  while (file.read(reinterpret_cast<char*>(&value), sizeof value)) values.push_back(value);
  return values;
}

class SequenceKill : public testing::TestWithParam<Strategy> {};

TEST_P(SequenceKill, OfEightProcessesRepeatsNothing) {
  const char* const wanted = std::getenv("IDMINT_KILL_ROUNDS");
  const int rounds = wanted != nullptr ? std::atoi(wanted) : 10;
  ASSERT_GT(rounds, 0);
  // Small enough that values collide and stripes run out under way.
  SequenceDefinition definition{.name = "s", .strategy = GetParam(), .first = 5};
  definition.last = definition.first + kShare * rounds - 1;
  if (definition.strategy == Strategy::kStriped)
    definition.stripes = std::min(500 * rounds, 50'000);
  if (definition.strategy == Strategy::kInterleaved) definition.stripes = 7;
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);

  const fakes::TempFolder folder;
  const std::string url = "sqlite:" + folder.path("ids.db");
  {
    const auto store = Store::open(url);
    ASSERT_TRUE(store) << store.error().message();
    const auto created = create_sequence(**store, definition);
    ASSERT_TRUE(created) << created.error().message();
  }
  const auto log_of = [&](int writer) { return folder.path("log" + std::to_string(writer)); };
  const auto logged = [&] {
    std::uintmax_t bytes = 0;
    for (int writer = 0; writer < kWriters; ++writer) {
      for (const char* const thread : {"a", "b"}) {
        std::error_code none;
        const auto size = std::filesystem::file_size(log_of(writer) + thread, none);
        if (!none) bytes += size;
      }
    }
    return bytes;
  };

  std::vector<std::int64_t> all;
  int rounds_with_values = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::uintmax_t logged_before = logged();
    std::array<pid_t, kWriters> writers{};
    for (int writer = 0; writer < kWriters; ++writer) {
      const pid_t child = fork();
      if (child == 0) take_until_killed(url, log_of(writer));
      ASSERT_GT(child, 0);
      writers[static_cast<std::size_t>(writer)] = child;
    }
    // Half of the rounds begin when values of theirs are noted, however slow the machine is; the
    // others may meet writers that are opening. However fast it is, a round ends with its share of
    // the values, so that there are some for each.
    const auto noted = [&] { return (logged() - logged_before) / sizeof(std::int64_t); };
    const auto wait = [&](int most_ms, const auto& until) {
      for (int ms = 0; ms < most_ms && !until(); ++ms)
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
    };
    if (round % 2 == 0) wait(20'000, [&] { return noted() >= 2 * kLoad; });
    wait(std::uniform_int_distribution<int>(50, 800)(random), [&] { return noted() >= kShare; });
    for (const pid_t child : writers) kill(child, SIGKILL);
    for (const pid_t child : writers) {
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFSIGNALED(status)) << "a writer failed";
    }
    const std::size_t before = all.size();
    all.clear();
    for (int writer = 0; writer < kWriters; ++writer) {
      for (const char* const thread : {"a", "b"})
        std::ranges::copy(read_values(log_of(writer) + thread), std::back_inserter(all));
    }
    if (all.size() > before) ++rounds_with_values;
  }

  std::ranges::sort(all);
  const auto repeat = std::ranges::adjacent_find(all);
  ASSERT_EQ(repeat, all.end()) << *repeat << " was handed out twice";
  ASSERT_FALSE(all.empty());
  EXPECT_GE(all.front(), definition.first);
  EXPECT_LE(all.back(), definition.last);

  // Every value that was handed out is taken in the store as it is now.
  const auto store = Store::open(url);
  ASSERT_TRUE(store) << store.error().message();
  const auto status = peek_sequence(**store, "s");
  ASSERT_TRUE(status) << status.error().message();
  EXPECT_FALSE(status->error);
  EXPECT_LE(status->left,
            definition.last - definition.first + 1 - static_cast<std::int64_t>(all.size()));

  std::printf("%d rounds of %d processes, %zu values, seed %u\n", rounds, kWriters, all.size(),
              seed);
  // With less than this nothing was tried.
  EXPECT_GE(rounds_with_values, rounds / 2);
  EXPECT_GE(std::ssize(all), rounds * kLoad);
}

INSTANTIATE_TEST_SUITE_P(Strategies, SequenceKill,
                         testing::Values(Strategy::kStriped, Strategy::kInterleaved,
                                         Strategy::kRandom),
                         [](const auto& of) { return std::string(name(of.param)); });

}  // namespace
}  // namespace idmint
