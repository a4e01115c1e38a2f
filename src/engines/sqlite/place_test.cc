// The place of an SQLite store: second names of its files, other volumes, the content of the data
// folder, and how often a doubt was settled.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "idmint/store.h"
#include "store/counter_store.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/run_sql.h"
#include "tests/fakes/temp_folder.h"

namespace idmint {
namespace {

namespace fs = std::filesystem;

using fakes::code_of;
using fakes::die;
using fakes::in_child;
using fakes::in_dying_child;
using fakes::run_sql;
using testing::AllOf;
using testing::HasSubstr;

// In a child: a descriptor that this process closed would drop its locks on the file.
void copy_file(const std::string& from, const std::string& to) {
  in_child([&] { fs::copy_file(from, to, fs::copy_options::overwrite_existing); });
}

class SqlitePlace : public testing::Test {
 protected:
  std::unique_ptr<Store> open(const std::string& path, Access access = Access::kReadWrite) {
    auto store = try_open(path, access);
    EXPECT_TRUE(store.has_value()) << store.error().message();
    return store ? *std::move(store) : nullptr;
  }
  Result<std::unique_ptr<Store>> try_open(const std::string& path,
                                          Access access = Access::kReadWrite) {
    return Store::open("sqlite:" + path, {.access = access, .trust_folder = trust_folder_});
  }
  static Result<Range> take(Store& store) { return store.counters()->advance("c", 1, Take::kAll); }
  static Result<Range> value(std::int64_t value) { return Range{value, 1, 1}; }
  // A store with a counter "c" at 10, closed.
  void make(const std::string& path) {
    const auto store = open(path);
    ASSERT_NE(store, nullptr);
    ASSERT_TRUE(store->counters()->create("c", {1, 1'000'000}));
    ASSERT_EQ(store->counters()->advance("c", 9, Take::kAll), (Range{1, 1, 9}));
  }
  // A process takes a value and is killed: the log stays.
  void take_and_die(const std::string& path) {
    in_dying_child([&] {
      const auto store = open(path);
      ASSERT_TRUE(take(*store));
      die();
    });
  }

  fakes::TempFolder folder_;
  const std::string trust_folder_ = folder_.path("trust");
  const std::string path_ = folder_.path("ids.db");
};

constexpr int kMayNot = -1;  // mount here

bool has_its_own_mounts() {
  if (getuid() != 0 && unshare(CLONE_NEWUSER) != 0) return false;
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

// Bodies return 0, or the number of the line that failed.
#define CHECK_HERE(condition) \
  if (!(condition)) return __LINE__

// ---- names

TEST_F(SqlitePlace, ALogWithASecondNameIsRefused) {
  make(path_);
  take_and_die(path_);
  std::ofstream(path_ + "-journal").flush();
  for (const char* const suffix : {"-wal", "-shm", "-journal"}) {
    SCOPED_TRACE(suffix);
    const std::string link = folder_.path("link");
    fs::create_hard_link(path_ + suffix, link);
    for (const Access access : {Access::kReadWrite, Access::kReadOnly}) {
      const auto refused = try_open(path_, access);
      ASSERT_EQ(code_of(refused), Code::kFailedPrecondition);
      EXPECT_THAT(refused.error().message(),
                  AllOf(HasSubstr(path_ + suffix + " has another name"), HasSubstr("-samefile")));
    }
    fs::remove(link);
  }
  fs::remove(path_ + "-journal");
  EXPECT_EQ(take(*open(path_)), value(11)) << "nothing was lost, and nothing is in doubt";
}

// As `-v ./ids.db-wal:/data/ids.db-wal` does in a container.
TEST_F(SqlitePlace, ALogThatIsMountedWithoutItsFolderIsRefused) {
  make(path_);
  take_and_die(path_);
  const std::string other = folder_.path("data");
  fs::create_directories(other);
  fs::copy_file(path_, other + "/ids.db");
  std::ofstream(other + "/ids.db-wal").flush();
  std::ofstream(other + "/ids.db-shm").flush();
  const int result = in_child([&]() -> int {
    if (!has_its_own_mounts()) return kMayNot;
    for (const std::string suffix : {"-wal", "-shm"}) {
      const std::string mounted = other + "/ids.db" + suffix;
      if (mount((path_ + suffix).c_str(), mounted.c_str(), nullptr, MS_BIND, nullptr) != 0)
        return kMayNot;
      for (const Access access : {Access::kReadWrite, Access::kReadOnly}) {
        const auto refused = try_open(other + "/ids.db", access);
        CHECK_HERE(code_of(refused) == Code::kFailedPrecondition);
        CHECK_HERE(refused.error().message().contains(mounted + " is mounted without its folder"));
      }
      CHECK_HERE(umount(mounted.c_str()) == 0);
    }
    return 0;
  });
  if (result == kMayNot) GTEST_SKIP() << "may not mount here";
  EXPECT_EQ(result, 0) << "the line that failed";
  EXPECT_EQ(take(*open(path_)), value(11));
}

// `cp -al` of the folder, a file that is replaced in it, and a command that only reads there: as
// the last user of that file it would move the shared log into it, and tell the index so.
TEST_F(SqlitePlace, ALinkedCopyWhoseFileWasReplacedTakesNothingFromTheLog) {
  make(path_);
  const auto store = open(path_);
  ASSERT_EQ(take(*store), value(10));
  const std::string other = folder_.path("linked");
  fs::create_directories(other);
  for (const std::string suffix : {"-wal", "-shm"})
    fs::create_hard_link(path_ + suffix, other + "/ids.db" + suffix);
  copy_file(path_, other + "/ids.db");
  in_child([&] {
    EXPECT_EQ(code_of(try_open(other + "/ids.db", Access::kReadOnly)), Code::kFailedPrecondition);
    EXPECT_EQ(code_of(try_open(other + "/ids.db")), Code::kFailedPrecondition);
  });
  EXPECT_EQ(code_of(take(*store)), Code::kFailedPrecondition);
  fs::remove_all(other);
  EXPECT_EQ(take(*store), value(11));
  EXPECT_EQ(take(*open(path_)), value(12));
}

TEST_F(SqlitePlace, ARunningProcessGivesNothingWhileAFileHasASecondName) {
  make(path_);
  auto store = open(path_);
  const auto reader = open(path_, Access::kReadOnly);
  ASSERT_EQ(take(*store), value(10));
  std::int64_t next = 11;
  for (const std::string suffix : {"", "-wal", "-shm"}) {
    SCOPED_TRACE(suffix);
    const std::string link = folder_.path("link");
    fs::create_hard_link(path_ + suffix, link);
    const auto refused = take(*store);
    ASSERT_EQ(code_of(refused), Code::kFailedPrecondition);
    EXPECT_THAT(refused.error().message(), HasSubstr(path_ + suffix + " got another name"));
    EXPECT_EQ(code_of(reader->counters()->peek("c")), Code::kFailedPrecondition);
    fs::remove(link);
    EXPECT_EQ(store->doubt(), std::nullopt);
    EXPECT_EQ(take(*store), value(next++)) << "without settling";
    EXPECT_EQ(reader->counters()->peek("c")->next, next);
  }
  fs::create_hard_link(path_ + "-wal", folder_.path("link"));
  store.reset();
  EXPECT_TRUE(fs::exists(path_ + "-wal")) << "who uses the other name may need it";
  fs::remove(folder_.path("link"));
  EXPECT_EQ(take(*open(path_)), value(next));
}

// One folder, mounted twice: two containers with one volume.
TEST_F(SqlitePlace, TwoMountsOfTheFolderAreOneStore) {
  fs::create_directories(folder_.path("a"));
  fs::create_directories(folder_.path("b"));
  const int result = in_child([&]() -> int {
    if (!has_its_own_mounts()) return kMayNot;
    if (mount(folder_.path("a").c_str(), folder_.path("b").c_str(), nullptr, MS_BIND, nullptr) != 0)
      return kMayNot;
    make(folder_.path("a/ids.db"));
    const auto one = open(folder_.path("a/ids.db"));
    for (std::int64_t next = 10; next < 20; next += 2) {
      CHECK_HERE(take(*one) == value(next));
      CHECK_HERE(take(*open(folder_.path("b/ids.db"))) == value(next + 1));
    }
    return 0;
  });
  if (result == kMayNot) GTEST_SKIP() << "may not mount here";
  EXPECT_EQ(result, 0) << "the line that failed";
}

// ---- volumes

// The same inode number, and no birth times, as of two ext4 file systems of small inodes.
TEST_F(SqlitePlace, AFileOfAnotherVolumeIsNotTheStore) {
  make(path_);
  ASSERT_NE(run_sql(path_, "SELECT volume FROM store"), "") << "not on ext4, btrfs, ZFS or tmpfs";
  run_sql(path_, "UPDATE store SET born = NULL");
  EXPECT_EQ(open(path_)->doubt(), std::nullopt);
  run_sql(path_, "UPDATE store SET volume = volume + 1");
  {
    const auto store = open(path_);
    ASSERT_TRUE(store->doubt().has_value());
    EXPECT_THAT(store->doubt()->message(), HasSubstr("moved to another file system"));
    EXPECT_EQ(code_of(take(*store)), Code::kDataLoss);
    EXPECT_EQ(code_of(store->settle(Store::Settle::kOnlyMoved)), Code{0});
    EXPECT_EQ(take(*store), value(10));
  }
  EXPECT_EQ(open(path_)->doubt(), std::nullopt);
}

int run_command(const std::string& command) { return std::system(command.c_str()); }

TEST_F(SqlitePlace, ACopyOnAVolumeWithoutBirthTimesIsNotTheStore) {
  const auto at = [&](const std::string& name) { return folder_.path(name); };
  const auto mounts = [&](const std::string& image, const std::string& where) {
    return run_command("mount -o loop " + at(image) + " " + at(where) + " 2>/dev/null") == 0;
  };
  const int result = in_child([&]() -> int {
    if (getuid() != 0 || !has_its_own_mounts()) return kMayNot;
    for (const std::string image : {"a.img", "b.img"}) {
      if (run_command("truncate -s 8M " + at(image) + " && mkfs.ext4 -q -I 128 " + at(image) +
                      " 2>/dev/null") != 0)
        return kMayNot;
    }
    fs::create_directories(at("a"));
    fs::create_directories(at("b"));
    if (!mounts("a.img", "a") || !mounts("b.img", "b")) return kMayNot;
    make(at("a/ids.db"));
    CHECK_HERE(run_sql(at("a/ids.db"), "SELECT born FROM store").empty());
    fs::copy_file(at("a/ids.db"), at("b/ids.db"));
    struct ::stat original{};
    struct ::stat copied{};
    CHECK_HERE(::stat(at("a/ids.db").c_str(), &original) == 0);
    CHECK_HERE(::stat(at("b/ids.db").c_str(), &copied) == 0);
    CHECK_HERE(original.st_ino == copied.st_ino);
    CHECK_HERE(take(*open(at("a/ids.db"))) == value(10));
    {
      const auto copy = open(at("b/ids.db"));
      CHECK_HERE(code_of(take(*copy)) == Code::kDataLoss);
      CHECK_HERE(code_of(copy->settle()) == Code{0});
      CHECK_HERE(take(*copy) == value(10));  // as raised by nobody
    }
    CHECK_HERE(take(*open(at("a/ids.db"))) == value(11));  // the copy says nothing of it
    // Mounted again on other devices, as after a restart of the host.
    CHECK_HERE(::umount(at("a").c_str()) == 0 && ::umount(at("b").c_str()) == 0);
    CHECK_HERE(mounts("b.img", "b") && mounts("a.img", "a"));
    CHECK_HERE(take(*open(at("a/ids.db"))) == value(12));
    CHECK_HERE(take(*open(at("b/ids.db"))) == value(11));
    CHECK_HERE(::umount(at("a").c_str()) == 0 && ::umount(at("b").c_str()) == 0);
    return 0;
  });
  if (result == kMayNot) GTEST_SKIP() << "may not mount here, or there is no mkfs.ext4";
  EXPECT_EQ(result, 0) << "the line that failed";
}

// As an older version made it.
constexpr const char* kAsOlder =
    "ALTER TABLE store DROP COLUMN volume; ALTER TABLE store DROP COLUMN settled;"
    "ALTER TABLE store DROP COLUMN gone_back";

TEST_F(SqlitePlace, AStoreWithoutAVolumeGetsItWhenItIsOpenedForWriting) {
  make(path_);
  const std::string volume = run_sql(path_, "SELECT volume FROM store");
  run_sql(path_, kAsOlder);
  EXPECT_EQ(open(path_, Access::kReadOnly)->doubt(), std::nullopt);
  copy_file(path_, folder_.path("copy.db"));
  EXPECT_EQ(take(*open(path_)), value(10));
  EXPECT_EQ(run_sql(path_, "SELECT volume FROM store"), volume);
  {
    const auto copy = open(folder_.path("copy.db"));
    EXPECT_TRUE(copy->doubt().has_value()) << "opening it does not make it the store";
    EXPECT_EQ(code_of(take(*copy)), Code::kDataLoss);
    EXPECT_EQ(code_of(copy->settle()), Code{0});
    EXPECT_EQ(take(*copy), value(10));
  }
  run_sql(path_, "UPDATE store SET volume = NULL");
  EXPECT_EQ(take(*open(path_)), value(11));
  EXPECT_EQ(run_sql(path_, "SELECT volume FROM store"), volume) << "a kernel that told no id";
}

// A process of the older version has the store open, and its log is in use.
TEST_F(SqlitePlace, AStoreInUseIsUpgradedWithoutADoubt) {
  make(path_);
  in_dying_child([&] {
    sqlite3* older = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &older), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(older, kAsOlder, nullptr, nullptr, nullptr), SQLITE_OK);
    const auto reads = open(path_, Access::kReadOnly);
    const auto store = open(path_);
    EXPECT_EQ(take(*store), value(10));
    EXPECT_EQ(reads->counters()->peek("c")->next, 11);
    EXPECT_EQ(reads->doubt(), std::nullopt);
    die();
  });
  EXPECT_EQ(take(*open(path_)), value(11));
  take_and_die(path_);
  fs::remove(path_ + "-wal");
  EXPECT_EQ(code_of(take(*open(path_))), Code::kDataLoss);
}

// ---- what the data folder keeps

std::string record_in(const std::string& folder) {
  for (const auto& each : fs::directory_iterator(folder))
    if (each.path().filename().string().starts_with("changes-")) return each.path();
  return {};
}

TEST_F(SqlitePlace, TheLibraryKeepsARecordInTheDataFolderUnlessItIsToldNotTo) {
  in_child([&] {
    ASSERT_EQ(::setenv("XDG_DATA_HOME", folder_.path("home").c_str(), 1), 0);
    const std::string url = "sqlite:" + path_;
    const auto next = [&](const StoreOptions& options) {
      const auto store = Store::open(url, options);
      return store ? take(**store) : std::unexpected(store.error());
    };
    make(path_);  // with another folder
    EXPECT_EQ(next({}), value(10));
    fs::copy_file(path_, folder_.path("backup"));
    EXPECT_EQ(next({}), value(11));
    EXPECT_FALSE(record_in(folder_.path("home/idmint")).empty());
    fs::copy_file(folder_.path("backup"), path_, fs::copy_options::overwrite_existing);
    EXPECT_EQ(code_of(next({})), Code::kDataLoss);
    EXPECT_EQ(code_of(next({.trust_folder = ""})), Code::kDataLoss)
        << "a setting that was left out";
    EXPECT_EQ(next({.trust_folder = std::nullopt}), value(11)) << "as nobody wanted it otherwise";
  });
}

// Named by the place alone, as an older version did.
TEST_F(SqlitePlace, TheRecordOfAnOlderVersionCounts) {
  make(path_);
  const std::string record = record_in(trust_folder_);
  const std::string born = run_sql(path_, "SELECT ifnull(born, inode) FROM store");
  ASSERT_THAT(record, HasSubstr("-" + born + "-")) << "with the volume";
  fs::rename(record, record.substr(0, record.rfind('-')));
  run_sql(path_, "UPDATE store SET changes = 1");
  EXPECT_TRUE(open(path_)->doubt().has_value());
}

// As a user who is not root, for whom nothing is forbidden.
int as_another(const std::function<int()>& body) {
  return in_child([&] {
    if (getuid() == 0 && setresuid(65534, 65534, 65534) != 0) return kMayNot;
    return body();
  });
}

TEST_F(SqlitePlace, ADataFolderThatCannotBeUsedIsToldAndStopsNothing) {
  fs::permissions(folder_.folder(), fs::perms::all);
  const std::string url = "sqlite:" + path_;
  std::ofstream(folder_.path("file")).flush();
  fs::create_directories(folder_.path("forbidden"));
  fs::permissions(folder_.path("forbidden"), fs::perms::owner_read);
  fs::create_symlink(folder_.path("loop"), folder_.path("loop"));
  fs::create_symlink(folder_.path("nothing"), folder_.path("dangling"));
  const int result = as_another([&]() -> int {
    make(path_);
    std::int64_t next = 10;
    const std::vector<std::string> folders = {folder_.path("file"),
                                              folder_.path("file/below"),
                                              folder_.path("forbidden"),
                                              folder_.path("forbidden/below"),
                                              folder_.path("loop"),
                                              folder_.path("dangling"),
                                              "/nowhere"};
    for (const std::string& folder : folders) {
      for (const Access access : {Access::kReadWrite, Access::kReadOnly}) {
        const auto store = Store::open(url, {.access = access, .trust_folder = folder});
        EXPECT_TRUE(store.has_value()) << folder;
        const std::optional<Error> why = (*store)->unrecorded();
        EXPECT_THAT(why.value_or(Error{}).message(),
                    AllOf(HasSubstr(folder), HasSubstr("is not recorded")));
        EXPECT_EQ((*store)->doubt(), std::nullopt);
        if (access == Access::kReadWrite) {
          EXPECT_EQ(take(**store), value(next++));
        }
      }
    }
    EXPECT_EQ(open(path_)->unrecorded(), std::nullopt);
    EXPECT_EQ(open(path_, Access::kReadOnly)->unrecorded(), std::nullopt);
    const auto unwanted = Store::open(url, {.trust_folder = std::nullopt});
    EXPECT_EQ((*unwanted)->unrecorded(), std::nullopt);
    // As after `sudo idmint next`.
    const std::string record = record_in(trust_folder_);
    fs::permissions(record, fs::perms::none);
    EXPECT_THAT(open(path_)->unrecorded()->message(), HasSubstr("Permission denied"));
    ::unsetenv("XDG_DATA_HOME");
    ::unsetenv("HOME");
    EXPECT_THAT((*Store::open(url))->unrecorded()->message(), HasSubstr("XDG_DATA_HOME"));
    return 0;
  });
  if (result == kMayNot) GTEST_SKIP() << "may not be another user";
  EXPECT_EQ(result, 0) << "the line that failed";
}

TEST_F(SqlitePlace, AFullOrReadOnlyDataFolderIsToldAndStopsNothing) {
  make(path_);
  fs::create_directories(folder_.path("small"));
  const int result = in_child([&]() -> int {
    if (!has_its_own_mounts()) return kMayNot;
    const std::string small = folder_.path("small");
    if (mount("tmpfs", small.c_str(), "tmpfs", 0, "size=64k") != 0) return kMayNot;
    std::ofstream(small + "/filler") << std::string(100'000, 'x') << std::flush;
    const auto told = [&](Access access) {
      const auto store = Store::open("sqlite:" + path_, {.access = access, .trust_folder = small});
      return store && (*store)->unrecorded().has_value() && !(*store)->doubt() &&
             (access == Access::kReadOnly || take(**store).has_value());
    };
    CHECK_HERE(told(Access::kReadWrite));
    CHECK_HERE(told(Access::kReadOnly));
    fs::remove(small + "/filler");
    CHECK_HERE(!told(Access::kReadWrite));
    if (mount("none", small.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0) return kMayNot;
    CHECK_HERE(told(Access::kReadWrite));
    CHECK_HERE(told(Access::kReadOnly));
    return 0;
  });
  if (result == kMayNot) GTEST_SKIP() << "may not mount here";
  EXPECT_EQ(result, 0) << "the line that failed";
}

// ---- settlements

TEST_F(SqlitePlace, SettlementsAreCountedAndOlderStatesHaveALowerCount) {
  make(path_);
  const std::string copy = folder_.path("copy.db");
  copy_file(path_, copy);
  const auto one = open(copy);
  const auto other = open(copy);
  const auto reader = open(copy, Access::kReadOnly);
  EXPECT_EQ(one->settle_count(), 0);
  ASSERT_EQ(code_of(one->settle()), Code{0});
  const std::int64_t first = one->settle_count();
  EXPECT_GT(first, 1'000'000'000) << "the seconds since 1970: used once, whatever is restored";
  ASSERT_EQ(code_of(one->settle()), Code{0}) << "there is nothing to settle";
  EXPECT_EQ(one->settle_count(), first);
  ASSERT_EQ(take(*other), value(10));
  EXPECT_EQ(other->settle_count(), first) << "read again with the next value";
  EXPECT_EQ(reader->settle_count(), 0);
  EXPECT_EQ(reader->read_settle_count(SteadyTime::max()), first);
  EXPECT_EQ(reader->settle_count(), first);
  EXPECT_EQ(open(path_)->settle_count(), 0) << "the original";
  const std::string again = folder_.path("again.db");
  run_sql(copy, "VACUUM INTO '" + again + "'");
  const auto third = open(again);
  EXPECT_EQ(third->settle_count(), first);
  ASSERT_EQ(code_of(third->settle()), Code{0});
  EXPECT_GT(open(again)->settle_count(), first);
}

TEST_F(SqlitePlace, AStoreThatAProcessFoundGoneBackGivesNothingToAnyOther) {
  make(path_);
  const auto one = open(path_);
  const auto other = open(path_);
  EXPECT_EQ(code_of(one->mark_gone_back("it gave 70", 5, SteadyTime::max())), Code{0});
  EXPECT_EQ(take(*other), value(10)) << "of a count that is over";
  ASSERT_EQ(code_of(one->mark_gone_back("it gave 70", 0, SteadyTime::max())), Code{0});
  ASSERT_EQ(code_of(one->mark_gone_back("it gave 80", 0, SteadyTime::max())), Code{0});
  const auto third = open(path_);
  for (Store* const each : {other.get(), one.get(), third.get()}) {
    const auto refused = take(*each);
    ASSERT_EQ(code_of(refused), Code::kDataLoss);
    EXPECT_THAT(refused.error().message(), HasSubstr("it gave 70"));
    EXPECT_TRUE(each->doubt().has_value());
  }
  EXPECT_EQ(code_of(open(path_, Access::kReadOnly)->mark_gone_back("x", 0, SteadyTime::max())),
            Code::kPermissionDenied);
  EXPECT_EQ(code_of(one->settle(Store::Settle::kOnlyMoved)), Code::kDataLoss);
  EXPECT_EQ(code_of(one->counters()->raise("c", 100)), Code{0});
  ASSERT_EQ(code_of(one->settle()), Code{0});
  EXPECT_EQ(take(*other), value(100));
  EXPECT_EQ(take(*one), value(101));
}

}  // namespace
}  // namespace idmint
