// kill -9 of eight processes that write to one SQLite store, again and again: no value twice,
// nothing acknowledged lost, the file intact. IDMINT_KILL_ROUNDS sets the number of rounds.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "idmint/store.h"
#include "store/counter_store.h"
#include "store/unique_index.h"
#include "tests/fakes/temp_folder.h"

namespace idmint {
namespace {

constexpr int kWriters = 8;
// For each round, or nothing is tried.
constexpr int kNotes = 20;
constexpr int kClaims = 10;

// A writer's note after an advance was acknowledged, with one write(2), which a kill cannot undo.
// Nor can a kill cut it short, as could happen over the end of a page: a whole number of notes
// fills a page.
struct alignas(32) Note {
  std::int64_t
      floor;  // the smallest value that the advance may have given, from all earlier rounds
  std::int64_t first;
  std::int64_t count;
};

// Claims of the numbers after those claimed, which all writers want at once; notes its own.
bool claim_and_note(UniqueIndex& claims, int fd) {
  const auto claimed = claims.claimed("s");
  if (!claimed) return false;
  std::array<std::int64_t, 8> keys{};
  std::iota(keys.begin(), keys.end(), *claimed);
  const auto ours = claims.insert("s", keys);
  if (!ours) return false;
  std::vector<std::int64_t> won;
  for (std::size_t i = 0; i < keys.size(); ++i)
    if ((*ours)[i]) won.push_back(keys[i]);
  const auto size = static_cast<ssize_t>(won.size() * sizeof won[0]);
  return write(fd, won.data(), static_cast<std::size_t>(size)) == size;
}

// Runs until it is killed; ends by itself only when something fails. It closes and opens the store
// now and then, so that kills also meet that.
[[noreturn]] void write_until_killed(const std::string& url, const std::string& log,
                                     std::int64_t floor) {
  const int fd = open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
  const int claim_fd = open((log + ".claims").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
  for (;;) {
    const auto store = Store::open(url, {.deadline = std::chrono::seconds{60}});
    if (fd < 0 || claim_fd < 0 || !store) {
      std::fprintf(stderr, "%s\n", store ? "no log" : store.error().message().c_str());
      _exit(1);
    }
    for (std::int64_t i = 0; i < 64; ++i) {
      const auto range = (*store)->counters()->advance("c", 1 + i % 4, Take::kAll);
      if (!range) {
        std::fprintf(stderr, "%s\n", range.error().message().c_str());
        _exit(1);
      }
      const Note note{floor, range->first, range->count};
      if (write(fd, &note, sizeof note) != sizeof note) _exit(1);
      if (i % 4 == 3 && !claim_and_note(*(*store)->unique_index(), claim_fd)) _exit(1);
    }
  }
}

template <class T = Note>
std::vector<T> read_notes(const std::string& log) {
  std::ifstream file(log, std::ios::binary);
  std::vector<T> notes;
  T note{};
  while (file.read(reinterpret_cast<char*>(&note), sizeof note)) notes.push_back(note);
  return notes;
}

// The one answer of a query.
std::string ask(const std::string& path, const char* sql) {
  sqlite3* db = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  std::string answer;
  sqlite3_exec(
      db, sql,
      [](void* to, int, char** values, char**) {
        *static_cast<std::string*>(to) += values[0];
        return 0;
      },
      &answer, nullptr);
  sqlite3_close(db);
  return answer;
}

TEST(Kill, OfEightWritersRepeatsNothingAndLosesNothing) {
  const char* const wanted = std::getenv("IDMINT_KILL_ROUNDS");
  const int rounds = wanted != nullptr ? std::atoi(wanted) : 30;
  ASSERT_GT(rounds, 0);
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);

  const fakes::TempFolder folder;
  const std::string path = folder.path("ids.db");
  const std::string url = "sqlite:" + path;
  {
    const auto store = Store::open(url);
    ASSERT_TRUE(store.has_value()) << store.error().message();
    ASSERT_TRUE((*store)->counters()->create("c", {1, kLargestValue}).has_value());
    ASSERT_TRUE((*store)->unique_index()->create_space("s").has_value());
  }
  const auto log_of = [&](int writer) { return folder.path("log" + std::to_string(writer)); };
  const auto logged = [&](const std::string& of, std::size_t each) {
    std::uintmax_t bytes = 0;
    for (int writer = 0; writer < kWriters; ++writer) {
      std::error_code none;
      const auto size = std::filesystem::file_size(log_of(writer) + of, none);
      if (!none) bytes += size;
    }
    return bytes / each;
  };
  const auto notes = [&] { return logged("", sizeof(Note)); };
  const auto won = [&] { return logged(".claims", sizeof(std::int64_t)); };

  std::int64_t floor = 1;  // above every value noted in the rounds before
  int killed = 0;
  std::size_t noted_before = 0;
  int rounds_with_notes = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::uintmax_t enough_notes = notes() + std::uintmax_t{2} * kNotes;
    const std::uintmax_t enough_claims = won() + std::uintmax_t{2} * kClaims;
    std::array<pid_t, kWriters> writers{};
    for (int writer = 0; writer < kWriters; ++writer) {
      const pid_t child = fork();
      if (child == 0) write_until_killed(url, log_of(writer), floor);
      ASSERT_GT(child, 0);
      writers[static_cast<std::size_t>(writer)] = child;
    }
    // Half of the rounds begin when there are notes and claims of theirs, however slow the machine
    // is; the others may meet writers that are opening.
    const auto enough = [&] { return notes() >= enough_notes && won() >= enough_claims; };
    for (int ms = 0; round % 2 == 0 && ms < 20'000 && !enough(); ++ms)
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    std::this_thread::sleep_for(
        std::chrono::milliseconds{std::uniform_int_distribution<int>(20, 800)(random)});
    for (const pid_t child : writers) kill(child, SIGKILL);
    for (const pid_t child : writers) {
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFSIGNALED(status)) << "a writer failed";
      ++killed;
    }
    std::size_t noted = 0;
    for (int writer = 0; writer < kWriters; ++writer) {
      for (const Note& note : read_notes(log_of(writer))) {
        floor = std::max(floor, note.first + note.count);
        ++noted;
      }
    }
    if (noted > noted_before) ++rounds_with_notes;
    noted_before = noted;
  }

  std::vector<Note> all;
  for (int writer = 0; writer < kWriters; ++writer)
    std::ranges::copy(read_notes(log_of(writer)), std::back_inserter(all));
  std::ranges::sort(all, {}, &Note::first);
  std::int64_t next = 1;
  for (const Note& note : all) {
    ASSERT_GE(note.first, next) << "taken twice";
    ASSERT_GE(note.first, note.floor) << "below what was acknowledged before";
    next = note.first + note.count;
  }
  const auto store = Store::open(url);
  ASSERT_TRUE(store.has_value()) << store.error().message();
  const auto state = (*store)->counters()->peek("c");
  ASSERT_TRUE(state.has_value()) << state.error().message();
  EXPECT_GE(state->next, next);

  std::vector<std::int64_t> claims;
  for (int writer = 0; writer < kWriters; ++writer)
    std::ranges::copy(read_notes<std::int64_t>(log_of(writer) + ".claims"),
                      std::back_inserter(claims));
  std::ranges::sort(claims);
  EXPECT_TRUE(std::ranges::adjacent_find(claims) == claims.end()) << "claimed twice";
  const auto claimed = (*store)->unique_index()->claimed("s");
  ASSERT_TRUE(claimed.has_value()) << claimed.error().message();
  EXPECT_GE(*claimed, std::ssize(claims));
  EXPECT_EQ(ask(path, "SELECT count(*) FROM claims"), std::to_string(*claimed));
  for (std::size_t at = 0; at < claims.size(); at += UniqueIndex::kMaxKeys) {
    const auto some =
        std::span(claims).subspan(at).first(std::min(UniqueIndex::kMaxKeys, claims.size() - at));
    const auto again = (*store)->unique_index()->insert("s", some);
    ASSERT_TRUE(again.has_value()) << again.error().message();
    EXPECT_EQ(std::ranges::count(*again, true), 0) << "a claim was lost";
  }
  EXPECT_EQ(ask(path, "PRAGMA integrity_check"), "ok");

  std::printf("%d rounds, %d killed, %zu and %zu claims acknowledged, seed %u\n", rounds, killed,
              all.size(), claims.size(), seed);
  // With less than this nothing was tried.
  EXPECT_EQ(killed, rounds * kWriters);
  EXPECT_GE(rounds_with_notes, rounds / 2);
  EXPECT_GE(std::ssize(all), rounds * kNotes);
  EXPECT_GE(std::ssize(claims), rounds * kClaims);
}

}  // namespace
}  // namespace idmint
