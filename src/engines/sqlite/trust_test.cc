// An SQLite store whose files were removed, replaced, copied or set back says so before it hands
// out a value.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "idmint/store.h"
#include "ids/lease_table.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/unique_index.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/run_sql.h"
#include "tests/fakes/temp_folder.h"

namespace idmint {
namespace {

namespace fs = std::filesystem;

using fakes::Child;
using fakes::code_of;
using fakes::die;
using fakes::in_child;
using fakes::in_dying_child;
using fakes::run_sql;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// Another process opens the store and waits for `meanwhile` to be done here. Whether the call that
// it makes then is refused with kDataLoss.
bool idle_one_is_refused(const std::string& path, const StoreOptions& options,
                         const std::function<Code(Store&)>& call,
                         const std::function<void()>& meanwhile) {
  std::array<int, 2> ready{};
  std::array<int, 2> go{};
  EXPECT_EQ(::pipe(ready.data()), 0);
  EXPECT_EQ(::pipe(go.data()), 0);
  char byte = 0;
  Child idle([&] {
    ::close(go[1]);
    const auto store = Store::open("sqlite:" + path, options);
    char told = 0;
    return store && (*store)->counters()->list("") && ::write(ready[1], &told, 1) == 1 &&
           ::read(go[0], &told, 1) == 1 && call(**store) == Code::kDataLoss;
  });
  ::close(ready[1]);
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  meanwhile();
  EXPECT_EQ(::write(go[1], &byte, 1), 1);
  for (const int fd : {ready[0], go[0], go[1]}) ::close(fd);
  return idle.get();
}

// In a child: a descriptor that this process closed would drop its locks on the file.
void copy(const std::string& from, const std::string& to) {
  in_child([&] { fs::copy_file(from, to, fs::copy_options::overwrite_existing); });
}

void restore(const std::string& from, const std::string& to) {
  sqlite3* source = nullptr;
  sqlite3* target = nullptr;
  ASSERT_EQ(sqlite3_open(from.c_str(), &source), SQLITE_OK);
  ASSERT_EQ(sqlite3_open(to.c_str(), &target), SQLITE_OK);
  sqlite3_backup* const backup = sqlite3_backup_init(target, "main", source, "main");
  EXPECT_EQ(sqlite3_backup_step(backup, -1), SQLITE_DONE);
  sqlite3_backup_finish(backup);
  sqlite3_close(target);
  sqlite3_close(source);
}

class SqliteTrust : public testing::Test {
 protected:
  std::unique_ptr<Store> open(const std::string& path, const StoreOptions& options = {}) {
    auto store = Store::open("sqlite:" + path, options);
    EXPECT_TRUE(store.has_value()) << store.error().message();
    return store ? *std::move(store) : nullptr;
  }
  std::unique_ptr<Store> open() { return open(path_, trusting_); }
  // A store with a counter "c" at 10, closed.
  void make() {
    const auto store = open();
    ASSERT_NE(store, nullptr);
    ASSERT_TRUE(store->counters()->create("c", {1, 1'000'000}));
    ASSERT_EQ(store->counters()->advance("c", 9, Take::kAll), (Range{1, 1, 9}));
  }
  // A process takes values of "c" one by one, does `then`, and is killed.
  void take_and_die(int values, const std::function<void()>& then = [] {}) {
    in_dying_child([&] {
      const auto store = open();
      for (int i = 0; i < values; ++i) ASSERT_TRUE(store->counters()->advance("c", 1, Take::kAll));
      then();
      die();
    });
  }
  // Opens the store in doubt, and ends the doubt after a raise past 99.
  void expect_doubt(const std::string& path, const std::string& why) {
    {
      const auto store = open(path, trusting_);
      ASSERT_NE(store, nullptr);
      ASSERT_TRUE(store->doubt().has_value());
      EXPECT_EQ(store->doubt()->code, Code::kDataLoss);
      EXPECT_THAT(store->doubt()->message(), HasSubstr(why));
      EXPECT_EQ(store->doubt()->advice.remedy, Remedy::kRaiseStore);
      EXPECT_THAT(store->doubt()->advice.subject, StartsWith("sqlite:"));
      EXPECT_EQ(code_of(store->counters()->advance("c", 1, Take::kAll)), Code::kDataLoss);
      EXPECT_EQ(code_of(store->counters()->create("d", {1, 2})), Code::kDataLoss);
      EXPECT_EQ(code_of(store->catalog()->define(SequenceDefinition{.name = "d"})),
                Code::kDataLoss);
      EXPECT_EQ(code_of(store->unique_index()->create_space("s")), Code::kDataLoss);
      EXPECT_EQ(code_of(store->leases()->create_pool("p", 1)), Code::kDataLoss);
      EXPECT_TRUE(store->counters()->peek("c").has_value());
      // Often, so that no count of changes grows out of the doubt.
      for (int i = 0; i < 30; ++i) EXPECT_EQ(code_of(store->counters()->raise("c", 100)), Code{0});
      EXPECT_TRUE(store->doubt().has_value());
    }
    {
      const auto reader =
          open(path, {.access = Access::kReadOnly, .trust_folder = folder_.path("")});
      EXPECT_TRUE(reader->doubt().has_value()) << "still, after a close";
      EXPECT_EQ(code_of(reader->settle()), Code::kPermissionDenied);
    }
    const auto store = open(path, trusting_);
    EXPECT_EQ(code_of(store->counters()->advance("c", 1, Take::kAll)), Code::kDataLoss);
    const auto other = open(path, trusting_);
    ASSERT_EQ(code_of(store->settle()), Code{0});
    EXPECT_EQ(store->counters()->advance("c", 1, Take::kAll), (Range{100, 1, 1}));
    EXPECT_EQ(other->counters()->advance("c", 1, Take::kAll), (Range{101, 1, 1}));
    EXPECT_EQ(store->doubt(), std::nullopt);
    EXPECT_EQ(open(path, trusting_)->doubt(), std::nullopt);
  }
  void expect_no_doubt(std::int64_t next) {
    const auto store = open();
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(store->doubt(), std::nullopt);
    EXPECT_EQ(store->counters()->advance("c", 1, Take::kAll), (Range{next, 1, 1}));
  }

  fakes::TempFolder folder_;
  const std::string trust_folder_ = folder_.path("");
  const StoreOptions trusting_{.trust_folder = trust_folder_};
  const std::string path_ = folder_.path("ids.db");
  const std::string log_ = path_ + "-wal";
  const std::string index_ = path_ + "-shm";
};

// ---- the log

TEST_F(SqliteTrust, ALogThatIsRemovedAfterAKillIsMissed) {
  make();
  take_and_die(5);
  fs::remove(log_);
  expect_doubt(path_, "without its log");
}

TEST_F(SqliteTrust, ALogThatIsEmptiedAfterAKillIsMissed) {
  make();
  take_and_die(5);
  fs::resize_file(log_, 0);
  expect_doubt(path_, "without its log");
}

// Also where the whole store was in it.
TEST_F(SqliteTrust, TheLogOfANewStoreIsMissed) {
  in_dying_child([&] {
    make();
    const auto store = open();
    EXPECT_TRUE(store->counters()->advance("c", 1, Take::kAll));
    die();
  });
  fs::remove(log_);
  expect_doubt(path_, "without its log");
}

TEST_F(SqliteTrust, ACopyOfTheFileAloneInUseIsMissingItsLog) {
  make();
  const auto store = open();
  ASSERT_TRUE(store->counters()->advance("c", 5, Take::kAll));
  copy(path_, folder_.path("copy.db"));
  expect_doubt(folder_.path("copy.db"), "without its log");
  EXPECT_EQ(store->counters()->advance("c", 1, Take::kAll), (Range{15, 1, 1}));
}

TEST_F(SqliteTrust, AKillIsNoReasonForDoubt) {
  make();
  take_and_die(0);
  expect_no_doubt(10);
  take_and_die(3);
  expect_no_doubt(14);
  take_and_die(3);
  fs::remove(index_);  // made again of the log
  expect_no_doubt(18);
}

// The last program that closes the file moves the log into it, and removes the log.
TEST_F(SqliteTrust, ALogThatAnotherProgramTidiesUpIsNotMissed) {
  make();
  take_and_die(3);
  run_sql(path_, "SELECT 1 FROM counters");
  ASSERT_FALSE(fs::exists(log_));
  expect_no_doubt(13);
  take_and_die(3);
  run_sql(path_, "PRAGMA journal_mode = DELETE; VACUUM");
  expect_no_doubt(17);
}

// Its checkpoint takes the mark away; the next value sets it again.
TEST_F(SqliteTrust, ALogIsMissedAfterACheckpointToo) {
  make();
  take_and_die(3, [&] {
    run_sql(path_, "PRAGMA wal_checkpoint(TRUNCATE)");
    EXPECT_TRUE(open()->counters()->advance("c", 3, Take::kAll));
  });
  fs::remove(log_);
  expect_doubt(path_, "without its log");
}

// So many pages that idmint's own checkpoint moves them into the file.
TEST_F(SqliteTrust, ALogThatWasMovedIntoTheFileIsMissedAfterTheNextValue) {
  make();
  std::vector<NewCounter> many;
  for (int i = 0; i < 1500; ++i) many.push_back({std::string(1000, 'x') + std::to_string(i), {}});
  take_and_die(1, [&] {
    const auto store = open();
    EXPECT_TRUE(store->counters()->create(many));
    EXPECT_GE(fs::file_size(path_), 1500U * 1000);
    EXPECT_TRUE(store->counters()->advance("c", 1, Take::kAll));
  });
  fs::remove(log_);
  expect_doubt(path_, "without its log");
}

// A reader keeps the log from being moved into the file, and not from being missed.
TEST_F(SqliteTrust, AReaderDoesNotKeepALogFromBeingMissed) {
  make();
  sqlite3* reader = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &reader), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(reader, "BEGIN; SELECT * FROM counters", nullptr, nullptr, nullptr),
            SQLITE_OK);
  {
    const auto store = open();
    ASSERT_TRUE(store->counters()->advance("c", 1, Take::kAll));
    copy(path_, folder_.path("copy.db"));
  }
  sqlite3_close(reader);
  expect_doubt(folder_.path("copy.db"), "without its log");
}

// ---- files that are replaced while they are open

TEST_F(SqliteTrust, EachOfTheFilesIsMissedWhileItIsOpen) {
  for (const char* const suffix : {"", "-wal", "-shm"}) {
    for (const bool replaced : {false, true}) {
      SCOPED_TRACE(std::string(suffix) + (replaced ? " replaced" : " removed"));
      const std::string path = folder_.path(std::string("x") + suffix + (replaced ? "1" : "0"));
      const auto store = open(path);
      ASSERT_TRUE(store->counters()->create("c", {1, 100}));
      ASSERT_TRUE(store->counters()->advance("c", 1, Take::kAll));
      if (replaced) {
        copy(path + suffix, path + suffix + ".new");
        fs::rename(path + suffix + ".new", path + suffix);
      } else {
        fs::remove(path + suffix);
      }
      const auto refused = store->counters()->advance("c", 1, Take::kAll);
      ASSERT_EQ(code_of(refused), Code::kDataLoss);
      EXPECT_THAT(refused.error().message(), HasSubstr(path + suffix + " was moved, removed"));
      EXPECT_EQ(code_of(store->counters()->peek("c")), Code::kDataLoss);
    }
  }
}

// Removes the log in the middle of the next COMMIT.
std::string removed_by_commit;  // NOLINT(runtime/string)
int remove_log_in_commit(sqlite3* db, char** /*message*/,
                         const struct sqlite3_api_routines* /*api*/) {
  sqlite3_commit_hook(
      db,
      [](void*) -> int {
        if (!removed_by_commit.empty()) fs::remove(removed_by_commit);
        return 0;
      },
      nullptr);
  return SQLITE_OK;
}

TEST_F(SqliteTrust, NoValueIsHandedOutOfALogThatWentDuringTheCommit) {
  make();
  const auto extension = reinterpret_cast<void (*)()>(&remove_log_in_commit);
  ASSERT_EQ(sqlite3_auto_extension(extension), SQLITE_OK);
  const auto store = open();
  ASSERT_EQ(sqlite3_cancel_auto_extension(extension), 1);
  ASSERT_TRUE(store->counters()->advance("c", 1, Take::kAll));
  removed_by_commit = log_;
  EXPECT_EQ(code_of(store->counters()->advance("c", 1, Take::kAll)), Code::kDataLoss);
  removed_by_commit.clear();
  EXPECT_EQ(code_of(store->counters()->advance("c", 1, Take::kAll)), Code::kDataLoss);
}

// Others took values into the new log and died. The handle of the old one leaves both as they are.
TEST_F(SqliteTrust, AHandleThatLostItsLogRemovesNoOther) {
  make();
  auto store = open();
  ASSERT_TRUE(store->counters()->advance("c", 1, Take::kAll));
  fs::remove(log_);
  std::ofstream(log_) << "the log of another";
  store.reset();
  EXPECT_TRUE(fs::exists(log_));
}

TEST_F(SqliteTrust, AStoreThatIsSetBackWhileItIsOpenIsNoticed) {
  make();
  const auto store = open();
  ASSERT_TRUE(store->counters()->advance("c", 1, Take::kAll));
  run_sql(path_, "UPDATE store SET changes = 1; UPDATE counters SET next = 5");
  const auto refused = store->counters()->advance("c", 1, Take::kAll);
  ASSERT_EQ(code_of(refused), Code::kDataLoss);
  EXPECT_THAT(refused.error().message(), HasSubstr("set back while it was open"));
  EXPECT_EQ(code_of(store->counters()->advance("c", 1, Take::kAll)), Code::kDataLoss);
}

// ---- copies, and older states

TEST_F(SqliteTrust, ACopyIsNotTheStore) {
  make();
  copy(path_, folder_.path("copy.db"));
  expect_doubt(folder_.path("copy.db"), "is a copy");
}

TEST_F(SqliteTrust, ACopyThatSqliteMadeIsNotTheStore) {
  make();
  run_sql(path_, "VACUUM INTO '" + folder_.path("copy.db") + "'");
  expect_doubt(folder_.path("copy.db"), "is a copy");
}

TEST_F(SqliteTrust, AStoreThatIsRenamedIsTheStore) {
  make();
  fs::rename(path_, folder_.path("renamed.db"));
  const auto store = open(folder_.path("renamed.db"), trusting_);
  EXPECT_EQ(store->doubt(), std::nullopt);
  EXPECT_EQ(store->counters()->advance("c", 1, Take::kAll), (Range{10, 1, 1}));
}

TEST_F(SqliteTrust, AMovedStoreIsSettledWithoutARaise) {
  make();
  copy(path_, folder_.path("moved.db"));
  fs::remove(path_);
  {
    const auto store = open(folder_.path("moved.db"), trusting_);
    ASSERT_TRUE(store->doubt().has_value());
    EXPECT_THAT(store->doubt()->advice.values, ElementsAre("moved"));
    ASSERT_EQ(code_of(store->settle()), Code{0});
    EXPECT_EQ(store->counters()->advance("c", 1, Take::kAll), (Range{10, 1, 1}));
  }
  EXPECT_EQ(open(folder_.path("moved.db"))->counters()->advance("c", 1, Take::kAll),
            (Range{11, 1, 1}));
}

// `cp backup ids.db` keeps the inode and the birth time.
TEST_F(SqliteTrust, AnOlderStateInItsPlaceIsNoticed) {
  make();
  copy(path_, folder_.path("backup"));
  expect_no_doubt(10);
  copy(folder_.path("backup"), path_);
  EXPECT_EQ(open(path_, {.trust_folder = std::nullopt})->doubt(), std::nullopt)
      << "nobody saw more, without a trust folder";
  expect_doubt(path_, "older than it was");
}

// One process all the time, which takes one value more.
TEST_F(SqliteTrust, AnOlderStateOfOneLongRunIsNoticed) {
  make();
  {
    const auto store = open();
    ASSERT_TRUE(store->counters()->advance("c", 1, Take::kAll));
    run_sql(path_, "VACUUM INTO '" + folder_.path("backup") + "'");
    ASSERT_TRUE(store->counters()->advance("c", 1, Take::kAll));
  }
  copy(folder_.path("backup"), path_);
  expect_doubt(path_, "older than it was");
}

// Its log beside it holds the first page, the place and the count of changes.
TEST_F(SqliteTrust, AnOlderStateBesideTheLogOfTheNewerIsNoticed) {
  for (const int values : {1, 2, 5}) {
    SCOPED_TRACE(values);
    const std::string path = folder_.path("s" + std::to_string(values));
    const std::string copy_of_log = path + ".log";
    const auto opened = [&] { return open(path, trusting_); };
    {
      const auto store = opened();
      ASSERT_TRUE(store->counters()->create("a", {1, 1000}));
      ASSERT_TRUE(store->counters()->create("c", {1, 1000}));
      // While a log is in use, of which the file has the first page by then.
      run_sql(path, "PRAGMA wal_checkpoint; VACUUM INTO '" + path + ".backup'");
      ASSERT_TRUE(store->counters()->advance("a", 7, Take::kAll));
    }
    in_dying_child([&] {
      const auto store = opened();
      for (int i = 0; i < values; ++i) ASSERT_TRUE(store->counters()->advance("c", 1, Take::kAll));
      die();
    });
    copy(path + ".backup", path);
    copy(path + "-wal", copy_of_log);
    for (int time = 0; time < 2; ++time) {
      // Not even a reader may move the log into the file.
      const Access access = time == 0 ? Access::kReadOnly : Access::kReadWrite;
      const auto store = open(path, {.access = access, .trust_folder = trust_folder_});
      ASSERT_TRUE(store->doubt().has_value());
      EXPECT_EQ(store->doubt()->code, Code::kDataLoss);
      EXPECT_THAT(store->doubt()->message(), HasSubstr("is not the file that its log"));
      EXPECT_EQ(code_of(store->counters()->advance("a", 1, Take::kAll)), Code::kDataLoss);
      EXPECT_EQ(code_of(store->counters()->raise("a", 100)), Code::kDataLoss);
      EXPECT_EQ(code_of(store->settle()), Code::kDataLoss);
    }
    // As the message says.
    fs::remove(path + "-wal");
    fs::remove(path + "-shm");
    copy(path + ".backup", path);
    const auto store = opened();
    ASSERT_TRUE(store->doubt().has_value());
    EXPECT_THAT(store->doubt()->message(), HasSubstr("older than it was"));
    ASSERT_EQ(code_of(store->counters()->raise("a", 100)), Code{0});
    ASSERT_EQ(code_of(store->settle()), Code{0});
    EXPECT_EQ(store->counters()->advance("a", 1, Take::kAll), (Range{100, 1, 1}));
  }
}

// Without a trust folder too, once the log has two values.
TEST_F(SqliteTrust, TheLogOfTheNewerStateSaysItselfThatItIsNotOfTheOlder) {
  make();
  copy(path_, folder_.path("backup"));
  expect_no_doubt(10);
  take_and_die(2);
  copy(folder_.path("backup"), path_);
  const auto store = open(path_);
  ASSERT_TRUE(store->doubt().has_value());
  EXPECT_THAT(store->doubt()->message(), HasSubstr("is not the file that its log"));
}

TEST_F(SqliteTrust, AnOlderStateThatIsCopiedOverTheOpenFileIsNoticed) {
  make();
  copy(path_, folder_.path("backup"));
  auto store = open(path_);
  ASSERT_TRUE(store->counters()->advance("c", 1, Take::kAll));
  copy(folder_.path("backup"), path_);
  EXPECT_EQ(code_of(store->counters()->advance("c", 1, Take::kAll)), Code::kDataLoss);
  EXPECT_EQ(code_of(store->counters()->peek("c")), Code::kDataLoss);
  store.reset();
  EXPECT_TRUE(fs::exists(log_)) << "so that it is noticed again";
}

TEST_F(SqliteTrust, AHandleThatIsClosedLeavesTheLogOfAnotherFile) {
  make();
  copy(path_, folder_.path("backup"));
  auto store = open();
  ASSERT_TRUE(store->counters()->advance("c", 1, Take::kAll));
  copy(folder_.path("backup"), path_);
  store.reset();
  store = open();
  ASSERT_TRUE(store->doubt().has_value());
  EXPECT_THAT(store->doubt()->message(), HasSubstr("is not the file that its log"));
}

// The process that has it open has pages of it in memory, and its log at the old path.
TEST_F(SqliteTrust, AFileThatWasUsedElsewhereAndMovedBackIsNoticed) {
  make();
  const std::string away = folder_.path("away.db");
  for (const bool trusting : {false, true}) {
    SCOPED_TRACE(trusting);
    const StoreOptions options = trusting ? trusting_ : StoreOptions{};
    const auto take = [](Store& store) {
      return code_of(store.counters()->advance("c", 1, Take::kAll));
    };
    EXPECT_TRUE(idle_one_is_refused(path_, options, take, [&] {
      fs::rename(path_, away);
      EXPECT_TRUE(open(away, options)->counters()->advance("c", 5, Take::kAll));
      fs::rename(away, path_);
    }));
  }
}

// As the sqlite3 shell's .restore does: with SQLite's locks, through the log.
TEST_F(SqliteTrust, AnOlderStateThatIsRestoredUnderAnIdleProcessIsNoticed) {
  make();
  const std::string backup = folder_.path("backup");
  const auto take = [](Store& store) {
    return code_of(store.counters()->advance("c", 1, Take::kAll));
  };
  EXPECT_TRUE(idle_one_is_refused(path_, trusting_, take, [&] {
    EXPECT_EQ(take(*open()), Code{0});
    run_sql(path_, "VACUUM INTO '" + backup + "'");
    EXPECT_EQ(take(*open()), Code{0});
    restore(backup, path_);
  }));
}

// `cp` or `rsync --inplace` over the open file, when all of the log is in it. The backup is of the
// same log, and the process has the page with the count of changes in memory, but not that of "c".
TEST_F(SqliteTrust, AnOlderStateOverTheOpenFileIsNoticedOnceItsLogIsInTheFile) {
  make();
  const auto store = open();
  std::vector<NewCounter> between;
  for (int i = 0; i < 60; ++i)
    between.push_back({"b" + std::to_string(i) + std::string(900, 'x'), {1, 9}});
  ASSERT_TRUE(store->counters()->create(between));
  ASSERT_TRUE(store->counters()->create("a", {1, 100}));
  copy(path_, folder_.path("backup"));
  const auto other = open();
  ASSERT_EQ(other->counters()->advance("c", 5, Take::kAll), (Range{10, 1, 5}));
  ASSERT_EQ(store->counters()->advance("a", 1, Take::kAll), (Range{1, 1, 1}));
  run_sql(path_, "PRAGMA wal_checkpoint(PASSIVE)");
  copy(folder_.path("backup"), path_);
  const auto refused = store->counters()->advance("c", 1, Take::kAll);
  ASSERT_EQ(code_of(refused), Code::kDataLoss);
  EXPECT_THAT(refused.error().message(), HasSubstr("set back while it was open"));
}

// One without anything in it: no change of it is older than its log.
TEST_F(SqliteTrust, AnEmptyStoreThatWasUsedElsewhereAndMovedBackIsNoticed) {
  open();
  const std::string away = folder_.path("away.db");
  const auto create = [](Store& store) { return code_of(store.counters()->create("c", {1, 10})); };
  EXPECT_TRUE(idle_one_is_refused(path_, trusting_, create, [&] {
    fs::rename(path_, away);
    EXPECT_TRUE(open(away, trusting_)->counters()->create("c", {1, 10}));
    fs::rename(away, path_);
  }));
}

// Another user saw more of it, and is not in doubt once it is settled.
TEST_F(SqliteTrust, AStoreThatIsSettledIsSettledForAllUsers) {
  make();
  const fakes::TempFolder other;
  const std::string others = other.path("");
  const StoreOptions seen_by_other{.trust_folder = others};
  copy(path_, folder_.path("backup"));
  expect_no_doubt(10);
  for (int i = 0; i < 20; ++i)
    ASSERT_TRUE(open(path_, seen_by_other)->counters()->advance("c", 1, Take::kAll));
  copy(folder_.path("backup"), path_);
  ASSERT_TRUE(open(path_, seen_by_other)->doubt().has_value());
  const auto store = open();
  ASSERT_EQ(code_of(store->counters()->raise("c", 100)), Code{0});
  ASSERT_EQ(code_of(store->settle()), Code{0});
  EXPECT_EQ(open(path_, seen_by_other)->counters()->advance("c", 1, Take::kAll),
            (Range{100, 1, 1}));
}

// A copy that is tried out by the same user has the id of the store.
TEST_F(SqliteTrust, ACopyThatIsRaisedSaysNothingOfTheStore) {
  make();
  copy(path_, folder_.path("copy.db"));
  {
    const auto tried = open(folder_.path("copy.db"), trusting_);
    ASSERT_EQ(code_of(tried->settle()), Code{0});
    EXPECT_EQ(tried->counters()->advance("c", 1, Take::kAll), (Range{10, 1, 1}));
  }
  expect_no_doubt(10);
}

// Files in the trust folder are untrusted input.
TEST_F(SqliteTrust, ATrustFolderThatCannotBeUsedHarmsNothing) {
  make();
  const std::string name = "changes-" + open(path_)->id().to_string() + "-";
  std::string seen;
  for (const auto& each : fs::directory_iterator(trust_folder_))
    if (each.path().filename().string().starts_with(name)) seen = each.path();
  ASSERT_TRUE(fs::exists(seen));
  EXPECT_EQ(fs::status(seen).permissions(), fs::perms{0600});
  for (const char* const text :
       {"", "garbage\n", "9999999999999999999\n", "-000000000000000005\n"}) {
    std::ofstream(seen) << text;
    EXPECT_EQ(open()->doubt(), std::nullopt) << text;
  }
  fs::remove(seen);
  fs::create_symlink(folder_.path("victim"), seen);
  EXPECT_EQ(open()->counters()->advance("c", 1, Take::kAll), (Range{10, 1, 1}));
  EXPECT_FALSE(fs::exists(folder_.path("victim")));
  fs::remove(seen);
  ASSERT_EQ(::mkfifo(seen.c_str(), 0600), 0);
  EXPECT_EQ(open()->counters()->advance("c", 1, Take::kAll), (Range{11, 1, 1}));
  EXPECT_EQ(open(path_, {.trust_folder = "/nowhere"})->doubt(), std::nullopt);
}

}  // namespace
}  // namespace idmint
