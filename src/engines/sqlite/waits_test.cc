// No call of an SQLite store lasts much longer than its deadline: an index of the log that stays
// inconsistent, and lists of many rows.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "idmint/sequence.h"
#include "idmint/store.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/run_sql.h"
#include "tests/fakes/temp_folder.h"

namespace idmint {
namespace {

using namespace std::chrono_literals;
using fakes::Child;
using fakes::code_of;
using fakes::run_sql;

class SqliteWaits : public testing::Test {
 protected:
  std::unique_ptr<Store> open(std::chrono::milliseconds deadline = 1min) {
    auto store = Store::open("sqlite:" + path_, {.deadline = deadline});
    EXPECT_TRUE(store.has_value()) << store.error().message();
    return store ? *std::move(store) : nullptr;
  }
  // How long it took.
  static std::chrono::nanoseconds lasted(const std::function<void()>& call) {
    const auto begun = std::chrono::steady_clock::now();
    call();
    return std::chrono::steady_clock::now() - begun;
  }

  fakes::TempFolder folder_;
  const std::string path_ = folder_.path("ids.db");
};

// A process that was stopped while it wrote the header of the index, with the lock to do so. SQLite
// tries for ten seconds, and asks no busy handler.
TEST_F(SqliteWaits, AnInconsistentIndexOfTheLogDelaysNoCallBeyondItsDeadline) {
  ASSERT_TRUE(open()->counters()->create("c", {1, 100}));
  std::array<int, 2> ready{};
  std::array<int, 2> go{};
  ASSERT_EQ(::pipe2(ready.data(), O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(go.data(), O_CLOEXEC), 0);
  Child stopped([&] {
    ::close(go[1]);
    char byte = 0;
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, "BEGIN IMMEDIATE; UPDATE counters SET next = 2", nullptr, nullptr,
                           nullptr),
              SQLITE_OK);
    EXPECT_EQ(::write(ready[1], &byte, 1), 1);
    EXPECT_EQ(::read(go[0], &byte, 1), 1);
    // Never closed: that would drop the locks of this process.
    const int index = ::open((path_ + "-shm").c_str(), O_RDWR | O_CLOEXEC);
    constexpr std::uint32_t kOther = 0x5a5a5a5a;
    EXPECT_EQ(::pwrite(index, &kOther, sizeof(kOther), 8), 4);  // iChange of the first copy
    EXPECT_EQ(::write(ready[1], &byte, 1), 1);
    return ::read(go[0], &byte, 1) == 0;  // until the test is over
  });
  ::close(ready[1]);
  ::close(go[0]);
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const auto store = open();
  ASSERT_EQ(::write(go[1], &byte, 1), 1);
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);

  constexpr auto kFarBelowTenSeconds = 5s;
  EXPECT_LT(lasted([&] {
              EXPECT_EQ(
                  code_of(store->counters()->peek("c", std::chrono::steady_clock::now() + 200ms)),
                  Code::kUnavailable);
            }),
            kFarBelowTenSeconds);
  EXPECT_LT(lasted([&] {
              EXPECT_EQ(code_of(store->counters()->advance(
                            "c", 1, Take::kAll, std::chrono::steady_clock::now() + 200ms)),
                        Code::kUnavailable);
            }),
            kFarBelowTenSeconds);
  EXPECT_LT(lasted([&] {
              EXPECT_EQ(code_of(Store::open("sqlite:" + path_, {.deadline = 200ms})),
                        Code::kUnavailable);
            }),
            kFarBelowTenSeconds);
  ::close(go[1]);
  EXPECT_TRUE(stopped.get());
  ::close(ready[0]);
}

TEST_F(SqliteWaits, AListOfManyEndsByItsDeadlineAndCanBeReadInParts) {
  constexpr std::size_t kMany = 20'000;
  ASSERT_TRUE(open()->counters()->create("s", {1, 100}));
  run_sql(path_,
          "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) INSERT "
          "INTO definitions SELECT printf('s%05d', i), printf('{\"name\":\"s%05d\",\"strategy\":"
          "\"counter\",\"first\":1,\"last\":9}', i) FROM n;"
          "INSERT INTO counters SELECT name, 1, 9, 1, 4, 1, 0 FROM definitions");
  const auto store = open();
  const auto soon = [] { return std::chrono::steady_clock::now() + 1ms; };
  EXPECT_EQ(code_of(store->catalog()->list(soon())), Code::kUnavailable);
  EXPECT_EQ(code_of(store->counters()->list("s", soon())), Code::kUnavailable);
  EXPECT_EQ(code_of(list_sequences(*store, soon())), Code::kUnavailable);
  EXPECT_EQ(store->catalog()->list()->size(), kMany);
  EXPECT_EQ(store->counters()->list("")->size(), kMany + 1);

  const auto all = list_sequences(*store).value();
  ASSERT_EQ(all.size(), kMany);
  EXPECT_EQ(name(all.front().definition), "s00001");
  EXPECT_EQ(all.back().next, 4);
  const auto page =
      list_sequences(*store, SteadyTime::max(), {}, {.after = "s01999x", .most = 2'001}).value();
  ASSERT_EQ(page.size(), 2'001U);
  EXPECT_EQ(name(page.front().definition), "s02000");
  EXPECT_EQ(name(page.back().definition), "s04000");
  EXPECT_EQ(page.back().left, 6);
  const auto names =
      list_sequences(*store, SteadyTime::max(), {}, {.after = "s19990", .counters = false}).value();
  ASSERT_EQ(names.size(), 10U);
  EXPECT_EQ(names.front().left, 0);
  EXPECT_EQ(names.front().next, std::nullopt);
}

}  // namespace
}  // namespace idmint
