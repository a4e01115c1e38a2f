// The acknowledged values of an SQLite store survive a power cut at any moment and a sync that
// fails.
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "idmint/store.h"
#include "store/counter_store.h"
#include "store/unique_index.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/recorded_disk.h"
#include "tests/fakes/temp_folder.h"

namespace idmint {
namespace {

// From `moment` on, the values below `next` are taken, the numbers below `claimed` are claimed, and
// the store has `id`.
struct Acknowledged {
  std::size_t moment;
  std::int64_t next;
  std::int64_t claimed;
  Uuid id;
};

// Two at a time, from `first` on.
std::vector<std::int64_t> pair_from(std::int64_t first) { return {first, first + 1}; }

constexpr CounterBounds kBounds{1, kLargestValue};

// Opens the store in `folder`, and takes values and now and then claims numbers until all is done
// or the store fails; then calls a few times more, and closes it.
struct Session {
  std::optional<Error> error;
  int acknowledged_after_error = 0;
};

Session work(fakes::RecordedDisk& disk, const std::string& path, int advances,
             std::vector<Acknowledged>& log) {
  Session session;
  auto store = Store::open("sqlite:" + path);
  if (!store) return {store.error(), 0};
  CounterStore& counters = *(*store)->counters();
  UniqueIndex& claims = *(*store)->unique_index();
  Acknowledged done{0, kBounds.first, 0, (*store)->id()};
  const auto acknowledge = [&](const auto& result, const auto& change) {
    if (!result) {
      session.error = result.error();
      return;
    }
    change(*result);
    done.moment = disk.now();
    log.push_back(done);
  };
  if (const auto made = counters.create("c", kBounds); !made) session.error = made.error();
  if (const auto made = claims.create_space("s"); !made && !session.error)
    session.error = made.error();
  if (!session.error)
    acknowledge(claims.claimed("s"), [&](std::int64_t claimed) { done.claimed = claimed; });
  for (int i = 0; i < advances && !session.error; ++i) {
    if (i % 5 == 4)
      acknowledge(claims.insert("s", pair_from(done.claimed)), [&](const std::vector<bool>& ours) {
        EXPECT_EQ(ours, (std::vector{true, true}));
        done.claimed += 2;
      });
    else
      acknowledge(counters.advance("c", 1 + i % 3, Take::kAll),
                  [&](const Range& range) { done.next = range.last() + 1; });
  }
  if (session.error) {
    for (int i = 0; i < 3; ++i) {
      if (counters.advance("c", 1, Take::kAll)) ++session.acknowledged_after_error;
      if (counters.raise("c", 1'000'000'000)) ++session.acknowledged_after_error;
      if (counters.create("d", kBounds)) ++session.acknowledged_after_error;
      if (claims.insert("s", pair_from(1'000'000))) ++session.acknowledged_after_error;
    }
  }
  return session;
}

// Whether the store misses its log. Any other doubt is that it lies in another folder now, and
// ends.
bool misses_its_log(Store& store) {
  const std::optional<Error> doubt = store.doubt();
  if (!doubt) return false;
  if (doubt->message().contains("without its log")) return true;
  EXPECT_TRUE(doubt->message().contains("is a copy")) << doubt->message();
  EXPECT_TRUE(store.settle());
  return false;
}

enum class WriteAheadLog : std::uint8_t { kThere, kRemoved };

// Cuts the power at `moment` and opens what is left, in a folder that the disk does not record.
// Without the log a store may say that it misses it, and otherwise has lost nothing.
void check_cut(const fakes::RecordedDisk& disk, std::size_t moment,
               const std::vector<Acknowledged>& log, std::mt19937_64& random,
               WriteAheadLog write_ahead_log = WriteAheadLog::kThere) {
  const fakes::TempFolder left;
  disk.cut(moment, random, left.path(""));
  const bool removed = write_ahead_log == WriteAheadLog::kRemoved;
  if (removed) std::filesystem::remove(left.path("ids.db-wal"));
  const auto known = std::ranges::find_if(
      log.rbegin(), log.rend(), [&](const Acknowledged& a) { return a.moment <= moment; });
  // The session went on after that moment, and what it recorded would be of the future.
  const auto store = Store::open("sqlite:" + left.path("ids.db"), {.trust_folder = std::nullopt});
  ASSERT_TRUE(store.has_value()) << store.error().message();
  if (known == log.rend()) return;
  const bool missed = misses_its_log(**store);
  EXPECT_FALSE(missed && !removed);
  if (missed) return;
  EXPECT_EQ((*store)->id(), known->id);
  const auto range = (*store)->counters()->advance("c", 1, Take::kAll);
  ASSERT_TRUE(range.has_value()) << range.error().message();
  EXPECT_GE(range->first, known->next);
  // Those claimed are still, of the two of one insert both or neither, and the count is theirs.
  UniqueIndex& claims = *(*store)->unique_index();
  const auto claimed = claims.claimed("s");
  ASSERT_TRUE(claimed.has_value()) << claimed.error().message();
  EXPECT_GE(*claimed, known->claimed);
  EXPECT_EQ(*claimed % 2, 0);
  std::vector<std::int64_t> keys(static_cast<std::size_t>(*claimed) + 2);
  std::iota(keys.begin(), keys.end(), std::int64_t{0});
  std::vector<bool> expected(keys.size(), false);
  expected[keys.size() - 1] = expected[keys.size() - 2] = true;
  EXPECT_EQ(claims.insert("s", keys), expected);
}

TEST(PowerCut, LosesNothingAcknowledged) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const fakes::TempFolder folder;
  fakes::RecordedDisk disk(folder.path(""));
  std::vector<Acknowledged> log;
  // Short sessions, for the making and the closing; a long one, in which the log is moved into the
  // file and begun again.
  for (const int advances : {5, 20, 0, 2300, 10}) {
    const Session session = work(disk, folder.path("ids.db"), advances, log);
    ASSERT_FALSE(session.error.has_value()) << session.error->message();
  }
  ASSERT_GT(log.size(), 2300U);
  constexpr int kCuts = 400;
  for (int i = 0; i < kCuts && !testing::Test::HasFailure(); ++i) {
    // A third of them early, where the file is made.
    const std::size_t end = i % 3 == 0 ? std::min<std::size_t>(disk.now(), 200) : disk.now();
    const std::size_t moment = std::uniform_int_distribution<std::size_t>(0, end)(random);
    SCOPED_TRACE("cut at " + std::to_string(moment) + " of " + std::to_string(disk.now()));
    check_cut(disk, moment, log, random);
  }
}

// Not in the middle of a checkpoint, which leaves a file that is nothing without its log.
TEST(PowerCut, ALogThatIsRemovedAfterwardsIsMissed) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const fakes::TempFolder folder;
  fakes::RecordedDisk disk(folder.path(""));
  std::vector<Acknowledged> log;
  for (const int advances : {5, 20, 500, 10})
    ASSERT_FALSE(work(disk, folder.path("ids.db"), advances, log).error.has_value());
  constexpr int kCuts = 50;
  for (int i = 0; i < kCuts && !testing::Test::HasFailure(); ++i) {
    const std::size_t moment =
        log[std::uniform_int_distribution<std::size_t>(0, log.size() - 1)(random)].moment;
    SCOPED_TRACE("cut at " + std::to_string(moment) + " of " + std::to_string(disk.now()));
    check_cut(disk, moment, log, random, WriteAheadLog::kRemoved);
  }
}

// ---- between the COMMIT of the first value of a log and the mark in the file

constexpr std::size_t kMarkAt = 60;

// Another user of the file, through SQLite itself.
class Other {
 public:
  explicit Other(const std::string& path) { sqlite3_open(path.c_str(), &db_); }
  ~Other() { sqlite3_close(db_); }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;
  void run(const char* sql) { EXPECT_EQ(sqlite3_exec(db_, sql, nullptr, nullptr, nullptr), 0); }
  int checkpoint() {
    return sqlite3_wal_checkpoint_v2(db_, nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  }

 private:
  sqlite3* db_ = nullptr;
};

TEST(Mark, ACheckpointBeforeItIsNoReasonForDoubt) {
  const fakes::TempFolder folder;
  fakes::RecordedDisk disk(folder.path(""));
  const std::string path = folder.path("ids.db");
  ASSERT_TRUE((*Store::open("sqlite:" + path))->counters()->create("c", kBounds));
  Other other(path);
  other.run("SELECT * FROM counters");
  int marks = 0;
  disk.before_write = [&](std::string_view file, std::size_t at, int) {
    if (file != "ids.db" || at != kMarkAt || ++marks > 1) return;
    EXPECT_EQ(other.checkpoint(), SQLITE_OK);
  };
  EXPECT_TRUE((*Store::open("sqlite:" + path))->counters()->advance("c", 1, Take::kAll));
  EXPECT_EQ(marks, 1);
  disk.before_write = nullptr;  // what it refers to goes before the disk
  other.run("PRAGMA wal_checkpoint(TRUNCATE)");
  const auto store = Store::open("sqlite:" + path);
  EXPECT_EQ((*store)->doubt(), std::nullopt);
  EXPECT_EQ((*store)->counters()->advance("c", 1, Take::kAll), (Range{2, 1, 1}));
}

TEST(Mark, AKillBeforeItIsNoReasonForDoubt) {
  const fakes::TempFolder folder;
  const std::string path = folder.path("ids.db");
  const std::string trust_folder = folder.path("");
  const StoreOptions trusting{.trust_folder = trust_folder};
  const auto take = [&] {
    return (*Store::open("sqlite:" + path, trusting))->counters()->advance("c", 1, Take::kAll);
  };
  ASSERT_TRUE((*Store::open("sqlite:" + path, trusting))->counters()->create("c", kBounds));
  for (int time = 0; time < 3; ++time) {
    fakes::in_dying_child([&] {
      fakes::RecordedDisk disk(folder.path(""));
      disk.before_write = [](std::string_view file, std::size_t at, int) {
        if (file == "ids.db" && at == kMarkAt) fakes::die();
      };
      static_cast<void>(take());
    });
  }
  EXPECT_EQ((*Store::open("sqlite:" + path, trusting))->doubt(), std::nullopt);
  EXPECT_EQ(take(), (Range{4, 1, 1})) << "three values were committed and not handed out";
}

// A checkpoint during the transaction took the mark away, and now others hold the file locked.
TEST(Mark, OneThatCannotBeSetAgainAfterTheCommitLeavesTheOutcomeUnknown) {
  const fakes::TempFolder folder;
  fakes::RecordedDisk disk(folder.path(""));
  const std::string path = folder.path("ids.db");
  const auto store = Store::open("sqlite:" + path, {.deadline = std::chrono::milliseconds{50}});
  ASSERT_TRUE((*store)->counters()->create("c", kBounds));
  Other other(path);
  other.run("SELECT * FROM counters");
  enum class At : std::uint8_t { kBegin, kWritten, kLocked } at = At::kBegin;
  disk.before_write = [&](std::string_view file, std::size_t, int) {
    if (file != "ids.db-wal" || at != At::kBegin) return;
    at = At::kWritten;
    EXPECT_EQ(other.checkpoint(), SQLITE_OK);
  };
  disk.before_read = [&](std::string_view file, std::size_t from, int size) {
    if (file != "ids.db" || from != 0 || size != 100 || at != At::kWritten) return;
    at = At::kLocked;
    other.run("BEGIN IMMEDIATE");
  };
  const auto unknown = (*store)->counters()->advance("c", 1, Take::kAll);
  ASSERT_EQ(at, At::kLocked);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, Code::kUnknown) << unknown.error().message();
  EXPECT_TRUE(unknown.error().message().contains("the changes were made all the same"));
  disk.before_write = disk.before_read = nullptr;  // what they refer to goes before the disk
  other.run("ROLLBACK");
  EXPECT_EQ((*store)->counters()->advance("c", 1, Take::kAll), (Range{2, 1, 1}));
}

// One checkpoint wrote the first page and failed, as one that is killed. The next one is about to
// write the same page once more, when the mark is set again.
TEST(Mark, AnOlderFirstPageOfTheLogIsNoReasonForDoubt) {
  const fakes::TempFolder folder;
  fakes::RecordedDisk disk(folder.path(""));
  const std::string path = folder.path("ids.db");
  const auto store = Store::open("sqlite:" + path);
  ASSERT_TRUE((*store)->counters()->create("c", kBounds));
  Other other(path);
  other.run("SELECT * FROM counters");
  disk.fail_sync(disk.syncs() + 2);  // the first is of the log
  ASSERT_EQ(other.checkpoint() & 0xff, SQLITE_IOERR);
  const auto take = [&] { return (*store)->counters()->advance("c", 1, Take::kAll); };
  int first_pages = 0;
  disk.before_write = [&](std::string_view file, std::size_t at, int) {
    if (file != "ids.db" || at != 0 || ++first_pages > 1) return;
    EXPECT_EQ(take(), (Range{1, 1, 1}));
  };
  EXPECT_EQ(other.checkpoint(), SQLITE_OK);
  disk.before_write = nullptr;  // what it refers to goes before the disk
  EXPECT_EQ(first_pages, 1);
  EXPECT_EQ(take(), (Range{2, 1, 1}));
}

TEST(FailedSync, PoisonsTheHandleAndLosesNothingAcknowledged) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  constexpr int kAdvances = 1010;  // so that the log is moved into the file
  constexpr int kBegin = 20;       // by then the file is made
  int syncs = 0;
  std::vector<int> of_the_file;
  {
    const fakes::TempFolder folder;
    fakes::RecordedDisk disk(folder.path(""));
    std::vector<Acknowledged> log;
    ASSERT_FALSE(work(disk, folder.path("ids.db"), kAdvances, log).error.has_value());
    syncs = disk.syncs();
    of_the_file = disk.syncs_of("ids.db");
  }
  ASSERT_GT(syncs, kAdvances);
  std::erase_if(of_the_file, [](int nth) { return nth < kBegin; });
  ASSERT_GE(of_the_file.size(), 2U) << "of moving the log, while it works and when it closes";
  ASSERT_LT(of_the_file.front(), kAdvances);
  int failed_calls = 0;
  for (int nth = 1; nth <= syncs && !testing::Test::HasFailure(); ++nth) {
    // Most syncs are of one advance, as the next.
    const bool telling =
        nth < kBegin || nth > syncs - 30 || std::ranges::any_of(of_the_file, [nth](int of_file) {
          return of_file - 10 < nth && nth < of_file + 10;
        });
    if (!telling) continue;
    SCOPED_TRACE("sync " + std::to_string(nth) + " of " + std::to_string(syncs));
    const fakes::TempFolder folder;
    fakes::RecordedDisk disk(folder.path(""));
    disk.fail_sync(nth);
    std::vector<Acknowledged> log;
    const Session session = work(disk, folder.path("ids.db"), kAdvances, log);
    if (session.error) ++failed_calls;
    EXPECT_EQ(session.acknowledged_after_error, 0);
    // One that was committed before, where the sync was one of moving the log into the file.
    EXPECT_LE(std::ranges::count_if(
                  log, [&](const Acknowledged& a) { return a.moment >= disk.failed_at(); }),
              1);
    if (session.error && !log.empty()) {
      // kUnavailable: the sync was one of moving the log, after a commit that was acknowledged.
      EXPECT_TRUE(session.error->code == Code::kUnknown ||
                  session.error->code == Code::kUnavailable)
          << session.error->message();
    }
    for (int i = 0; i < 3; ++i) check_cut(disk, disk.now(), log, random);
  }
  EXPECT_GT(failed_calls, 40);  // fewer: the syncs of the work were not those that failed
}

}  // namespace
}  // namespace idmint
