// Cases that only an SQLite store can meet: other files, other versions, damage, locks, a full
// disk.
#include "idmint/store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <barrier>
#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

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

using fakes::Child;
using fakes::code_of;
using fakes::in_child;
using fakes::run_sql;
using testing::AllOf;
using testing::HasSubstr;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void overwrite(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// As a user who is not root.
int as_anybody(const std::function<int()>& body) {
  return in_child([&] {
    if (getuid() == 0 && setresuid(65534, 65534, 65534) != 0) return -1;
    return body();
  });
}

// Bodies return 0, or the number of the line that failed.
#define CHECK_LINE(condition) \
  if (!(condition)) return __LINE__

// The other bits of user_version are of the latest log.
int schema_version(const std::string& path) {
  return std::stoi(run_sql(path, "PRAGMA user_version")) & 0xff;
}

class SqliteStoreTest : public testing::Test {
 protected:
  std::unique_ptr<Store> open(const StoreOptions& options = {}) {
    auto store = Store::open("sqlite:" + path_, options);
    EXPECT_TRUE(store.has_value()) << store.error().message();
    return store ? *std::move(store) : nullptr;
  }
  Result<std::unique_ptr<Store>> try_open(const StoreOptions& options = {}) {
    return Store::open("sqlite:" + path_, options);
  }
  // A store with a counter "c" at 10 and many others, closed.
  void make() {
    const auto store = open();
    ASSERT_NE(store, nullptr);
    ASSERT_TRUE(store->counters()->create("c", {1, 1000}).has_value());
    ASSERT_EQ(store->counters()->advance("c", 9, Take::kAll), (Range{1, 1, 9}));
    for (int i = 0; i < 40; ++i)
      ASSERT_TRUE(store->counters()
                      ->create("c" + std::to_string(i) + std::string(900, 'x'), {})
                      .has_value());
  }

  fakes::TempFolder folder_;
  std::string path_ = folder_.path("ids.db");
};

TEST_F(SqliteStoreTest, ClosingLeavesOneFile) {
  make();
  EXPECT_TRUE(std::filesystem::exists(path_));
  EXPECT_FALSE(std::filesystem::exists(path_ + "-wal"));
  EXPECT_FALSE(std::filesystem::exists(path_ + "-shm"));
}

TEST_F(SqliteStoreTest, TheFileSaysWhatItIs) {
  make();
  EXPECT_EQ(run_sql(path_, "PRAGMA journal_mode"), "wal");
  EXPECT_EQ(run_sql(path_, "PRAGMA application_id"), std::to_string(0x69646d74));
  EXPECT_EQ(schema_version(path_), 2);
  EXPECT_EQ(run_sql(path_, "SELECT next FROM counters WHERE name = 'c'"), "10");
}

TEST_F(SqliteStoreTest, UrlsWithAnAbsolutePathNameTheSameFile) {
  const auto one = open();
  const auto other = Store::open("sqlite://" + path_);
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ((*other)->id(), one->id());
}

TEST_F(SqliteStoreTest, APathOfSqlitesOwnKindIsAFileName) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path(""));
  EXPECT_TRUE(Store::open("sqlite::memory:").has_value());
  EXPECT_TRUE(std::filesystem::exists(":memory:"));
  EXPECT_TRUE(Store::open("sqlite:file:x%3Fmode=memory").has_value());
  EXPECT_TRUE(std::filesystem::exists("file:x?mode=memory"));
  std::filesystem::current_path(before);
}

TEST_F(SqliteStoreTest, AnOptionThatIsNotKnownNamesNoFile) {
  make();
  for (const char* const option : {"?mode=ro", "?immutable=1", "?filesystem=local&cache=shared"})
    EXPECT_EQ(code_of(Store::open("sqlite:" + path_ + option)), Code::kInvalidArgument) << option;
  EXPECT_FALSE(std::filesystem::exists(path_ + "?mode=ro"));
  const auto store = Store::open("sqlite:" + path_ + "?filesystem=local");
  ASSERT_TRUE(store.has_value());
  EXPECT_EQ((*store)->counters()->peek("c")->next, 10);
}

TEST_F(SqliteStoreTest, AFileWithASecondNameIsRefused) {
  make();
  const std::string link = folder_.path("b.db");
  std::filesystem::create_hard_link(path_, link);
  for (const Access access : {Access::kReadWrite, Access::kReadOnly}) {
    for (const std::string& name : {path_, link}) {
      const auto store = Store::open("sqlite:" + name, {.access = access});
      ASSERT_EQ(code_of(store), Code::kFailedPrecondition);
      EXPECT_THAT(store.error().message(), HasSubstr(name + " has another name"));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(link + "-wal"));
  std::filesystem::remove(link);
  std::filesystem::create_symlink(path_, link);
  const auto store = open();
  const auto same = Store::open("sqlite:" + link);
  ASSERT_TRUE(same.has_value()) << "SQLite follows a symbolic link, and has one log";
  EXPECT_EQ((*same)->counters()->advance("c", 1, Take::kAll), (Range{10, 1, 1}));
  EXPECT_EQ(store->counters()->advance("c", 1, Take::kAll), (Range{11, 1, 1}));
}

// As `-v ./ids.db:/data/ids.db` does in a container.
TEST_F(SqliteStoreTest, AFileThatIsMountedWithoutItsFolderIsRefused) {
  make();
  const std::string mounted = folder_.path("data/ids.db");
  ASSERT_TRUE(std::filesystem::create_directory(folder_.path("data")));
  overwrite(mounted, "");
  constexpr int kNoMount = -1;
  const int result = in_child([&]() -> int {
    if (getuid() != 0 && unshare(CLONE_NEWUSER) != 0) return kNoMount;
    if (unshare(CLONE_NEWNS) != 0) return kNoMount;
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kNoMount;
    if (mount(path_.c_str(), mounted.c_str(), nullptr, MS_BIND, nullptr) != 0) return kNoMount;
    const auto store = Store::open("sqlite:" + mounted);
    CHECK_LINE(code_of(store) == Code::kFailedPrecondition);
    CHECK_LINE(store.error().message().contains("mount the folder"));
    CHECK_LINE(Store::open("sqlite:" + path_).has_value());
    return 0;
  });
  if (result == kNoMount) GTEST_SKIP() << "may not mount here";
  EXPECT_EQ(result, 0) << "the line that failed";
}

TEST_F(SqliteStoreTest, AMissingFolderIsNamed) {
  const auto store = Store::open("sqlite:" + folder_.path("none/ids.db"));
  ASSERT_EQ(code_of(store), Code::kNotFound);
  EXPECT_THAT(store.error().message(), HasSubstr(folder_.path("none")));
}

TEST_F(SqliteStoreTest, WhatIsNotAPlainFileIsRefused) {
  EXPECT_EQ(code_of(Store::open("sqlite:" + folder_.path("."))), Code::kFailedPrecondition);
  EXPECT_EQ(code_of(Store::open("sqlite:/dev/null")), Code::kFailedPrecondition);
  std::filesystem::create_symlink("/dev/null", path_);
  EXPECT_EQ(code_of(Store::open("sqlite:" + path_)), Code::kFailedPrecondition);
  const std::string fifo = folder_.path("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(code_of(Store::open("sqlite:" + fifo)), Code::kFailedPrecondition);
}

// SQLite would wait for the other end of a FIFO, and follow a link out of the folder.
TEST_F(SqliteStoreTest, WhatIsNoPlainFileBesideTheStoreIsRefused) {
  make();
  const std::string link = folder_.path("link.db");
  std::filesystem::create_symlink(path_, link);
  for (const char* const suffix : {"-journal", "-wal", "-shm"}) {
    SCOPED_TRACE(suffix);
    const std::string beside = path_ + suffix;
    const auto expect_refused = [&] {
      for (const std::string& path : {path_, link}) {
        const auto refused = Store::open("sqlite:" + path);
        ASSERT_EQ(code_of(refused), Code::kFailedPrecondition);
        EXPECT_THAT(refused.error().message(), HasSubstr(beside + " is not a plain file"));
      }
      std::filesystem::remove(beside);
    };
    ASSERT_EQ(::mkfifo(beside.c_str(), 0600), 0);
    expect_refused();
    std::filesystem::create_symlink(folder_.path("elsewhere"), beside);
    expect_refused();
    EXPECT_TRUE(try_open().has_value());
  }
}

// Kept in a static that was there before the library's own: destroyed after all of them.
TEST_F(SqliteStoreTest, AStoreMayOutliveMain) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        static std::unique_ptr<Store> kept;
        auto opened = Store::open("sqlite:" + folder_.path("kept.db"));
        kept = *std::move(opened);
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(SqliteStoreTest, AnotherProgramsFileIsLeftAsItWas) {
  run_sql(path_, "CREATE TABLE mine (x); INSERT INTO mine VALUES (1)");
  const std::string before = contents(path_);
  EXPECT_EQ(code_of(try_open()), Code::kFailedPrecondition);
  EXPECT_EQ(contents(path_), before);

  run_sql(path_, "DROP TABLE mine; PRAGMA application_id = 7");
  EXPECT_EQ(code_of(try_open()), Code::kFailedPrecondition);
  EXPECT_EQ(run_sql(path_, "PRAGMA application_id"), "7");
  EXPECT_EQ(run_sql(path_, "PRAGMA journal_mode"), "delete");
}

TEST_F(SqliteStoreTest, ANewerSchemaIsLeftAsItWasAndBothVersionsAreNamed) {
  make();
  run_sql(path_, "PRAGMA user_version = 7");
  const std::string before = contents(path_);
  const auto store = try_open();
  ASSERT_EQ(code_of(store), Code::kFailedPrecondition);
  EXPECT_THAT(store.error().message(), AllOf(HasSubstr("version 7"), HasSubstr("up to 2")));
  EXPECT_EQ(contents(path_), before);
}

// The tables as version 1 made them, with a counter at 10 and a worker id that was leased.
constexpr const char* kVersion1 = R"(
  PRAGMA journal_mode = WAL;
  CREATE TABLE store (id BLOB NOT NULL CHECK (length(id) = 16)) STRICT;
  CREATE TABLE counters (
    name TEXT NOT NULL PRIMARY KEY,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    stride INTEGER NOT NULL,
    next INTEGER NOT NULL,
    taken_from INTEGER NOT NULL,
    closed INTEGER NOT NULL,
    CHECK (0 <= first AND 1 <= stride AND first <= next AND next <= last + stride),
    CHECK ((next - first) % stride = 0)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE definitions (
    name TEXT NOT NULL PRIMARY KEY,
    json TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE spaces (
    name TEXT NOT NULL PRIMARY KEY,
    claimed INTEGER NOT NULL CHECK (claimed >= 0),
    closed INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE claims (
    space TEXT NOT NULL,
    key INTEGER NOT NULL,
    PRIMARY KEY (space, key)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE workers (
    pool TEXT NOT NULL,
    worker INTEGER NOT NULL CHECK (worker >= 0),
    token BLOB CHECK (length(token) = 16),
    holder TEXT NOT NULL,
    generation INTEGER NOT NULL,
    minted_until INTEGER NOT NULL CHECK (minted_until >= 0),
    taken_from INTEGER NOT NULL,
    held_until INTEGER NOT NULL,
    PRIMARY KEY (pool, worker)
  ) STRICT, WITHOUT ROWID;
  PRAGMA application_id = 0x69646d74;
  PRAGMA user_version = 1;
  INSERT INTO store VALUES (x'00112233445546778899aabbccddeeff');
  INSERT INTO counters VALUES ('c', 1, 1000, 1, 10, 1, 0);
  INSERT INTO spaces VALUES ('s', 1, 0);
  INSERT INTO claims VALUES ('s', 7);
  INSERT INTO workers VALUES ('p', 0, x'aa112233445546778899aabbccddeeff', 'host', 3, 5000, 1, 2);
)";

TEST_F(SqliteStoreTest, AFileOfVersion1IsUpgradedWhenItIsOpenedForWriting) {
  run_sql(path_, kVersion1);
  // Its id is always the same, and this user may have seen it upgraded in an earlier run.
  const std::string trust_folder = folder_.path("trust");
  {
    const auto reader = open({.access = Access::kReadOnly, .trust_folder = trust_folder});
    ASSERT_NE(reader, nullptr);
    EXPECT_EQ(reader->counters()->peek("c")->next, 10);
    EXPECT_EQ(reader->leases()->workers("p")->at(0).minted_until, 5000);
    EXPECT_EQ(reader->unique_index()->claimed("s"), 1);
    EXPECT_EQ(reader->doubt(), std::nullopt);
  }
  EXPECT_EQ(run_sql(path_, "PRAGMA user_version"), "1") << "a reader leaves it as it is";
  {
    const auto store = open({.trust_folder = trust_folder});
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(store->id().to_string(), "00112233-4455-4677-8899-aabbccddeeff");
    const auto taken = store->counters()->advance("c", 1, Take::kAll);
    ASSERT_TRUE(taken) << taken.error().message();
    EXPECT_EQ(*taken, (Range{10, 1, 1}));
    EXPECT_EQ(store->unique_index()->insert("s", std::vector<std::int64_t>{7, 8}),
              (std::vector{false, true}));
    EXPECT_EQ(store->leases()->workers("p")->at(0).generation, 3);
  }
  EXPECT_EQ(schema_version(path_), 2);
  const std::string made = folder_.path("made.db");
  ASSERT_TRUE(Store::open("sqlite:" + made).has_value());
  for (const std::string table : {"store", "workers"}) {
    const std::string columns =
        "SELECT group_concat(name || type || \"notnull\") FROM "
        "(SELECT * FROM pragma_table_info('" +
        table + "') ORDER BY name)";
    EXPECT_EQ(run_sql(path_, columns.c_str()), run_sql(made, columns.c_str()));
  }
  EXPECT_EQ(open({.trust_folder = trust_folder})->counters()->advance("c", 1, Take::kAll),
            (Range{11, 1, 1}))
      << "opened again";
}

TEST_F(SqliteStoreTest, DamageIsDataLossAndNothingIsHandedOut) {
  make();
  const std::string good = contents(path_);
  ASSERT_GT(good.size(), std::size_t{5 * 4096});
  const auto verdict = [&](const std::string& bytes) {
    overwrite(path_, bytes);
    const auto store = try_open();
    if (!store) return store.error().code;
    return code_of((*store)->counters()->advance("c", 1, Take::kAll));
  };
  EXPECT_EQ(verdict(good.substr(0, good.size() / 2)), Code::kDataLoss) << "half of it";
  EXPECT_EQ(verdict(good.substr(0, 100)), Code::kDataLoss) << "100 bytes of it";
  std::string bad = good;
  bad.replace(0, 16, "no such database");
  EXPECT_EQ(verdict(bad), Code::kDataLoss) << "header";
  EXPECT_EQ(contents(path_), bad) << "it must be left for a rescue";
  bad = good;
  bad.replace(4096, bad.size() - 4096, std::string(bad.size() - 4096, '\xab'));
  EXPECT_EQ(verdict(bad), Code::kDataLoss) << "all but the first page";
  overwrite(path_, good);
  run_sql(path_, "DROP TABLE counters");
  EXPECT_EQ(verdict(contents(path_)), Code::kDataLoss) << "a table is gone";
  overwrite(path_, good);
  run_sql(path_, "DELETE FROM store");
  EXPECT_EQ(verdict(contents(path_)), Code::kDataLoss) << "the id is gone";
  overwrite(path_, good);
  run_sql(path_,
          "INSERT INTO definitions VALUES ('a', '{\"name\":\"b\",\"strategy\":\"counter\","
          "\"first\":1,\"last\":2}'), ('x', 'garbage')");
  const auto store = open();
  EXPECT_EQ(code_of(store->catalog()->find("a")), Code::kDataLoss);
  EXPECT_EQ(code_of(store->catalog()->find("x")), Code::kDataLoss);
  ASSERT_TRUE(store->catalog()->define(SequenceDefinition{"whole"}).has_value());
  const auto entries = store->catalog()->list();
  ASSERT_TRUE(entries.has_value());
  ASSERT_EQ(entries->size(), 3U);
  EXPECT_EQ(code_of((*entries)[0].definition), Code::kDataLoss);
  EXPECT_EQ((*entries)[1].definition, Definition(SequenceDefinition{"whole"}));
  EXPECT_EQ((*entries)[2].name, "x");
  EXPECT_EQ(code_of((*entries)[2].definition), Code::kDataLoss);
}

TEST_F(SqliteStoreTest, ADefinitionIsReplacedHoweverItIsSpelled) {
  make();
  run_sql(path_,
          "INSERT INTO definitions VALUES ('a', '{ \"strategy\": \"counter\", \"name\": \"a\", "
          "\"last\": 2, \"first\": 1}')");
  const auto store = open();
  const Definition old = SequenceDefinition{"a", Strategy::kCounter, 1, 2};
  const Definition updated = SequenceDefinition{"a", Strategy::kCounter, 1, 3};
  EXPECT_EQ(store->catalog()->replace(old, updated), updated);
  EXPECT_EQ(store->catalog()->find("a"), updated);
}

// ---- a clock that goes far ahead

class SqliteClockTest : public SqliteStoreTest {
 protected:
  SqliteClockTest() {
    const auto store = open();
    EXPECT_TRUE(store->leases()->create_pool("web", 4)) << "in a file of its own";
  }

  // A worker id for 15 s, by a clock that is so far ahead.
  Result<Lease> lease(std::chrono::hours ahead) {
    const auto store = open();
    ++token_[0];
    const Instant clock = system_clock().now() + ahead;
    return store->leases()->acquire(
        "web", {.token = Uuid(token_),
                .now = std::chrono::floor<std::chrono::seconds>(clock.time_since_epoch()).count(),
                .units = 15,
                .max_drift = 20,
                .terms = {.held = std::chrono::seconds{15}, .clock = clock}});
  }

 private:
  Uuid::Bytes token_{};
};

constexpr std::chrono::hours kMonth{30 * 24};

TEST_F(SqliteClockTest, OneThatGoesFarAheadInThisBootTakesNoWorkerIdWithIt) {
  ASSERT_TRUE(lease({}));
  const Result<Lease> refused = lease(kMonth);
  EXPECT_EQ(code_of(refused), Code::kUnavailable);
  EXPECT_THAT(refused.error().message(),
              AllOf(HasSubstr("the clock of this host shows "), HasSubstr("machine was paused"),
                    HasSubstr("nothing was changed"), HasSubstr("raise the pool past ")));
  EXPECT_EQ(refused.error().advice.remedy, Remedy::kRaisePool);
  EXPECT_EQ(refused.error().advice.subject, "web");
  EXPECT_TRUE(lease({})) << "once it is right";
  EXPECT_TRUE(lease(std::chrono::hours{23})) << "after a pause of the machine";
}

TEST_F(SqliteClockTest, NorIsALeaseExtendedByOne) {
  const Result<Lease> leased = lease({});
  ASSERT_TRUE(leased);
  const auto store = open();
  const auto extended = store->leases()->extend(
      "web", *leased, leased->to + kMonth / std::chrono::seconds{1}, Uuid(Uuid::Bytes{1}),
      {.held = std::chrono::seconds{15}, .clock = system_clock().now() + kMonth});
  EXPECT_EQ(code_of(extended), Code::kUnavailable);
  EXPECT_EQ(store->leases()->workers("web")->at(0).minted_until, leased->to);
}

TEST_F(SqliteClockTest, WhatWasKeptInAnotherBootSaysNothing) {
  ASSERT_TRUE(lease({}));
  run_sql(path_, "UPDATE store SET boot = 'another'");
  EXPECT_TRUE(lease(kMonth));
  EXPECT_NE(run_sql(path_, "SELECT boot FROM store"), "another");
  EXPECT_EQ(code_of(lease(2 * kMonth)), Code::kUnavailable);
}

TEST_F(SqliteClockTest, OneThatIsRightIsTakenOnceThePoolWasRaised) {
  ASSERT_TRUE(lease({}));
  ASSERT_FALSE(lease(kMonth));
  ASSERT_TRUE(open()->leases()->raise_floor("web", 1));
  EXPECT_TRUE(lease(kMonth));
  EXPECT_TRUE(lease(kMonth));
}

TEST_F(SqliteStoreTest, AFileReplacedWhileOpenIsNoticed) {
  make();
  const std::string backup = contents(path_);
  const auto store = open();
  ASSERT_TRUE(store->counters()->advance("c", 1, Take::kAll).has_value());
  overwrite(folder_.path("backup"), backup);
  std::filesystem::rename(folder_.path("backup"), path_);
  EXPECT_EQ(code_of(store->counters()->advance("c", 1, Take::kAll)), Code::kDataLoss);
}

TEST_F(SqliteStoreTest, WithoutPermissionNothingIsOpened) {
  make();
  std::filesystem::permissions(folder_.path(""), std::filesystem::perms{0755});
  std::filesystem::permissions(path_, std::filesystem::perms{0444});
  const auto opened = [&] { return static_cast<int>(code_of(try_open())); };
  EXPECT_EQ(as_anybody(opened), static_cast<int>(Code::kPermissionDenied)) << "file";
  std::filesystem::permissions(path_, std::filesystem::perms{0666});
  std::filesystem::permissions(folder_.path(""), std::filesystem::perms{0555});
  EXPECT_EQ(as_anybody(opened), static_cast<int>(Code::kPermissionDenied)) << "folder";
  EXPECT_EQ(as_anybody([&] {
              return static_cast<int>(code_of(Store::open("sqlite:" + folder_.path("new.db"))));
            }),
            static_cast<int>(Code::kPermissionDenied))
      << "new file";
  std::filesystem::permissions(folder_.path(""), std::filesystem::perms{0700});
}

// ---- reading only

constexpr StoreOptions kReading{.access = Access::kReadOnly};

// The line of the first change that is not refused; 0 when all are.
int refuses_every_change(Store& store) {
  CounterStore& counters = *store.counters();
  CHECK_LINE(code_of(counters.create("new", {1, 2})) == Code::kPermissionDenied);
  CHECK_LINE(code_of(counters.advance("c", 1, Take::kAll)) == Code::kPermissionDenied);
  CHECK_LINE(code_of(counters.raise("c", 500)) == Code::kPermissionDenied);
  CHECK_LINE(code_of(counters.extend("c", 5000)) == Code::kPermissionDenied);
  CHECK_LINE(code_of(counters.close("c")) == Code::kPermissionDenied);
  CHECK_LINE(code_of(store.catalog()->define(SequenceDefinition{.name = "new"})) ==
             Code::kPermissionDenied);
  CHECK_LINE(code_of(store.unique_index()->create_space("new")) == Code::kPermissionDenied);
  return 0;
}

TEST_F(SqliteStoreTest, ReadingOnlyChangesNothingAndMakesNothing) {
  EXPECT_EQ(code_of(try_open(kReading)), Code::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(path_));
  overwrite(path_, "");
  EXPECT_EQ(code_of(try_open(kReading)), Code::kNotFound);
  EXPECT_EQ(contents(path_), "");
  std::filesystem::remove(path_);
  make();
  const auto reader = open(kReading);
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(refuses_every_change(*reader), 0);
  EXPECT_EQ(reader->counters()->peek("c"), (CounterState{"c", {1, 1000}, 10, false}));
  const auto writer = open();
  EXPECT_EQ(reader->id(), writer->id());
  ASSERT_TRUE(writer->counters()->advance("c", 5, Take::kAll).has_value());
  EXPECT_EQ(reader->counters()->peek("c")->next, 15) << "as it is now";
  const auto refused = reader->counters()->advance("c", 1, Take::kAll);
  EXPECT_THAT(refused.error().message(), HasSubstr("read only"));
}

// As a user who may read the file and its folder, and write neither.
TEST_F(SqliteStoreTest, WhoMayOnlyReadReadsWhatAnotherHasOpen) {
  std::array<int, 2> opened{};
  std::array<int, 2> finish{};
  ASSERT_EQ(pipe(opened.data()), 0);
  ASSERT_EQ(pipe(finish.data()), 0);
  Child writer([&]() -> int {
    ::close(finish[1]);
    const auto store = Store::open("sqlite:" + path_);
    CHECK_LINE(store.has_value());
    CounterStore& counters = *(*store)->counters();
    CHECK_LINE(counters.create("c", {1, 1000}).has_value());
    CHECK_LINE(counters.advance("c", 9, Take::kAll).has_value());
    CHECK_LINE(write(opened[1], "x", 1) == 1);
    char end = 0;
    CHECK_LINE(read(finish[0], &end, 1) == 0);
    CHECK_LINE((counters.advance("c", 1, Take::kAll) == Range{10, 1, 1}));
    return 0;
  });
  char go = 0;
  ::close(opened[1]);
  ASSERT_EQ(read(opened[0], &go, 1), 1);
  const auto allow = [&](std::filesystem::perms folder, std::filesystem::perms file) {
    for (const char* const part : {"", "-wal", "-shm"}) {
      if (std::filesystem::exists(path_ + part)) std::filesystem::permissions(path_ + part, file);
    }
    std::filesystem::permissions(folder_.path(""), folder);
  };
  allow(std::filesystem::perms{0555}, std::filesystem::perms{0444});
  EXPECT_EQ(as_anybody([&]() -> int {
              CHECK_LINE(code_of(try_open()) == Code::kPermissionDenied);
              const auto store = try_open(kReading);
              CHECK_LINE(store.has_value());
              CHECK_LINE((*store)->counters()->peek("c")->next == 10);
              return refuses_every_change(**store);
            }),
            0);
  allow(std::filesystem::perms{0755}, std::filesystem::perms{0644});
  ::close(finish[1]);
  EXPECT_EQ(writer.get(), 0) << "the writer goes on";

  // When nobody has it open there is no log to read along with, and none is made.
  EXPECT_FALSE(std::filesystem::exists(path_ + "-wal"));
  for (const unsigned folder : {0555U, 0777U}) {
    allow(std::filesystem::perms{folder}, std::filesystem::perms{0444});
    EXPECT_EQ(as_anybody([&]() -> int {
                const auto store = try_open(kReading);
                CHECK_LINE(code_of(store) == Code::kPermissionDenied);
                CHECK_LINE(store.error().message().ends_with("\"VACUUM INTO 'copy.db'\""));
                return 0;
              }),
              0);
    allow(std::filesystem::perms{0755}, std::filesystem::perms{0644});
    EXPECT_FALSE(std::filesystem::exists(path_ + "-wal"));
    EXPECT_FALSE(std::filesystem::exists(path_ + "-shm"));
  }
}

TEST_F(SqliteStoreTest, ACopyWithoutALogIsReadByWhoMayOnlyRead) {
  make();
  const std::string copy = folder_.path("a copy?%41.db");
  run_sql(path_, ("VACUUM INTO '" + copy + "'").c_str());
  std::filesystem::permissions(copy, std::filesystem::perms{0444});
  std::filesystem::permissions(folder_.path(""), std::filesystem::perms{0555});
  const std::string url = "sqlite:" + folder_.path("a copy%3F%2541.db");
  EXPECT_EQ(as_anybody([&]() -> int {
              const auto store = Store::open(url, kReading);
              CHECK_LINE(store.has_value());
              CHECK_LINE((*store)->counters()->peek("c")->next == 10);
              return refuses_every_change(**store);
            }),
            0);
  std::filesystem::permissions(copy, std::filesystem::perms{0000});
  EXPECT_EQ(as_anybody([&] { return static_cast<int>(code_of(Store::open(url, kReading))); }),
            static_cast<int>(Code::kPermissionDenied));
  std::filesystem::permissions(folder_.path(""), std::filesystem::perms{0700});
}

// A process takes values, drops its privileges, and reads the store besides; another process opens
// the store and leaves. POSIX drops all locks of a process on a file when it closes any descriptor
// of it: then the other would be the last to leave, and remove the log that is in use.
TEST_F(SqliteStoreTest, WhoReadsBesidesKeepsItsLocks) {
  make();
  std::filesystem::permissions(folder_.path(""), std::filesystem::perms{0755});
  const auto take = [this](std::int64_t first) -> int {
    const auto store = Store::open("sqlite:" + path_);
    CHECK_LINE(store.has_value());
    CHECK_LINE(((*store)->counters()->advance("c", 1, Take::kAll) == Range{first, 1, 1}));
    return 0;
  };
  std::array<int, 2> ready{};
  std::array<int, 2> go{};
  ASSERT_EQ(pipe(ready.data()), 0);
  ASSERT_EQ(pipe(go.data()), 0);
  Child holder([&]() -> int {
    ::close(go[1]);
    const auto store = Store::open("sqlite:" + path_);
    CHECK_LINE(store.has_value());
    CHECK_LINE(((*store)->counters()->advance("c", 1, Take::kAll) == Range{10, 1, 1}));
    for (const char* const part : {"", "-wal", "-shm"})
      std::filesystem::permissions(path_ + part, std::filesystem::perms{0644});
    CHECK_LINE(getuid() != 0 || setresuid(65534, 65534, 65534) == 0);
    {
      const auto reader = try_open(kReading);
      CHECK_LINE(reader.has_value());
      CHECK_LINE((*reader)->counters()->peek("c")->next == 11);
    }
    CHECK_LINE(write(ready[1], "x", 1) == 1);
    char end = 0;
    CHECK_LINE(read(go[0], &end, 1) == 0);
    CHECK_LINE(((*store)->counters()->advance("c", 1, Take::kAll) == Range{12, 1, 1}));
    return 0;
  });
  char byte = 0;
  ::close(ready[1]);
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(in_child([&] { return take(11); }), 0);
  EXPECT_TRUE(std::filesystem::exists(path_ + "-wal")) << "it is in use";
  ::close(go[0]);
  ::close(go[1]);
  EXPECT_EQ(holder.get(), 0) << "the line that failed";
  EXPECT_EQ(in_child([&] { return take(13); }), 0);
}

TEST_F(SqliteStoreTest, ALockHeldPastTheDeadlineIsUnavailableAndHarmless) {
  make();
  const auto store = open({.deadline = std::chrono::milliseconds{30}});
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_EQ(code_of(store->counters()->advance("c", 1, Take::kAll)), Code::kUnavailable);
  EXPECT_EQ(code_of(store->counters()->raise("c", 99)), Code::kUnavailable);
  EXPECT_EQ(store->counters()->peek("c")->next, 10);
  ASSERT_EQ(sqlite3_exec(other, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(other);
  EXPECT_EQ(store->counters()->advance("c", 1, Take::kAll), (Range{10, 1, 1}));
}

TEST_F(SqliteStoreTest, ACallEndsByTheTimeItIsGivenAndSaysHowLongItWaited) {
  make();
  const std::string fresh = folder_.path("fresh.db");
  const auto store = open({.deadline = std::chrono::minutes{1}});
  std::vector<sqlite3*> others;
  for (const auto& [path, begin] :
       {std::pair{path_, "BEGIN IMMEDIATE"}, std::pair{fresh, "BEGIN EXCLUSIVE"}}) {
    ASSERT_EQ(sqlite3_open(path.c_str(), &others.emplace_back()), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(others.back(), begin, nullptr, nullptr, nullptr), SQLITE_OK);
  }
  const auto begun = std::chrono::steady_clock::now();
  const auto until = begun + std::chrono::milliseconds{30};
  const auto taken = store->counters()->advance("c", 1, Take::kAll, until);
  const std::vector<std::string> one{"c"};
  const auto raised = store->counters()->raise(one, 99, until);
  const auto opened =
      Store::open("sqlite:" + fresh, {.deadline = std::chrono::minutes{1}, .until = until});
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds{30});
  EXPECT_EQ(code_of(taken), Code::kUnavailable);
  EXPECT_EQ(code_of(raised), Code::kUnavailable);
  EXPECT_EQ(code_of(opened), Code::kUnavailable);
  EXPECT_THAT(taken.error().message(), testing::ContainsRegex("\\(waited [0-9]{2,5} ms\\)"));
  for (sqlite3* const other : others) sqlite3_close(other);
}

TEST_F(SqliteStoreTest, ManyWhoMakeTheFileAtOnceMakeOne) {
  for (int round = 0; round < 5; ++round) {
    const std::string path = folder_.path("new" + std::to_string(round));
    const std::string ids = path + ".ids";
    std::deque<Child<void>> children;
    std::array<int, 2> gate{};
    ASSERT_EQ(pipe(gate.data()), 0);
    for (int i = 0; i < 6; ++i) {
      children.emplace_back([&] {
        char go = 0;
        ::close(gate[1]);
        ASSERT_EQ(read(gate[0], &go, 1), 0);  // all start when the parent closes its end
        const auto store = Store::open("sqlite:" + path, {.deadline = std::chrono::seconds{60}});
        ASSERT_TRUE(store) << store.error().message();
        std::ofstream(ids, std::ios::app) << ((*store)->id().to_string() + "\n") << std::flush;
      });
    }
    ::close(gate[0]);
    ::close(gate[1]);
    for (Child<void>& child : children) child.get();
    const std::string all = contents(ids);
    ASSERT_EQ(all.size(), std::size_t{6 * 37});
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(all.substr(i * 37, 37), all.substr(0, 37));
  }
}

TEST_F(SqliteStoreTest, AChildForkedWhileAStoreWasOpenCannotOpenOne) {
  make();
  {
    const auto store = open();
    EXPECT_EQ(in_child([&] { return code_of(try_open()); }), Code::kFailedPrecondition);
  }
  EXPECT_EQ(in_child([&] { return code_of(try_open()); }), Code{0});
}

TEST_F(SqliteStoreTest, AFullDiskRefusesAndGoesOnOnceThereIsSpace) {
  const std::string mount_point = folder_.path("small");
  ASSERT_TRUE(std::filesystem::create_directory(mount_point));
  constexpr int kNoMount = -1;
  const int result = in_child([&]() -> int {
    const unsigned uid = getuid();
    if (uid != 0 && unshare(CLONE_NEWUSER) != 0) return kNoMount;
    if (unshare(CLONE_NEWNS) != 0) return kNoMount;
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kNoMount;
    if (mount("tmpfs", mount_point.c_str(), "tmpfs", 0, "size=256k") != 0) return kNoMount;
    const auto store = Store::open("sqlite:" + mount_point + "/ids.db");
    CHECK_LINE(store.has_value());
    CounterStore& counters = *(*store)->counters();
    CHECK_LINE(counters.create("c", {1, kLargestValue}).has_value());
    const std::string filler = mount_point + "/filler";
    std::int64_t next = 1;
    for (int round = 0; round < 3; ++round) {
      const int fd = ::open(filler.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
      CHECK_LINE(fd >= 0);
      const std::string block(512, 'x');
      while (::write(fd, block.data(), block.size()) > 0) {
      }
      ::close(fd);
      // Values that fit into the page in use may still pass.
      auto range = counters.advance("c", 1, Take::kAll);
      for (int i = 0; range && i < 1000; ++i) {
        CHECK_LINE(range->first == next);
        ++next;
        range = counters.advance("c", 1, Take::kAll);
      }
      CHECK_LINE(code_of(range) == Code::kResourceExhausted);
      CHECK_LINE(code_of(counters.advance("c", 1, Take::kAll)) == Code::kResourceExhausted);
      CHECK_LINE(counters.peek("c")->next == next);
      CHECK_LINE(::unlink(filler.c_str()) == 0);
      CHECK_LINE(counters.advance("c", 1, Take::kAll) == (Range{next, 1, 1}));
      ++next;
    }
    return 0;
  });
  if (result == kNoMount) GTEST_SKIP() << "may not mount a small disk here";
  EXPECT_EQ(result, 0) << "the line that failed";
}

// ---- a transaction that does not end

bool no_rollback = false;

// For the next connection that is opened: ROLLBACK is refused while no_rollback is set, as it is
// when there is no memory to parse it.
int refuse_rollback(sqlite3* db, char** /*message*/, const struct sqlite3_api_routines* /*api*/) {
  return sqlite3_set_authorizer(
      db,
      [](void*, int action, const char* what, const char*, const char*, const char*) {
        return no_rollback && action == SQLITE_TRANSACTION && std::string(what) == "ROLLBACK"
                   ? SQLITE_DENY
                   : SQLITE_OK;
      },
      nullptr);
}

TEST_F(SqliteStoreTest, NothingIsHandedOutOfATransactionThatCannotBeEnded) {
  const auto extension = reinterpret_cast<void (*)()>(&refuse_rollback);
  ASSERT_EQ(sqlite3_auto_extension(extension), SQLITE_OK);
  auto store = open();
  ASSERT_EQ(sqlite3_cancel_auto_extension(extension), 1);
  ASSERT_NE(store, nullptr);
  CounterStore& counters = *store->counters();
  ASSERT_TRUE(counters.create("a", {1, 10}));
  no_rollback = true;
  EXPECT_EQ(code_of(counters.advance("a", 11, Take::kAll)), Code::kUnavailable);
  no_rollback = false;
  EXPECT_EQ(code_of(counters.advance("a", 1, Take::kAll)), Code::kUnavailable);
  store.reset();
  store = open();
  EXPECT_EQ(store->counters()->advance("a", 1, Take::kAll), (Range{1, 1, 1}));
}

}  // namespace
}  // namespace idmint
