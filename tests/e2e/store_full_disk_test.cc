// The disk of the server of a store is full, and has room again later. A refused call has taken
// nothing, no acknowledged change is lost, and all goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/outcome.h"
#include "idmint/store.h"
#include "store/counter_store.h"
#include "store/unique_index.h"
#include "tests/e2e/counter_history.h"
#include "tests/e2e/noted_call.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/opened_store.h"
#include "tests/fakes/temp_folder.h"
#if defined(IDMINT_FULL_DISK_MARIADB)
#include "tests/servers/mariadb.h"
#elif defined(IDMINT_FULL_DISK_POSTGRESQL)
#include "tests/servers/postgresql.h"
#elif defined(IDMINT_FULL_DISK_REDIS)
#include "tests/servers/redis.h"
#endif

namespace idmint::e2e {
namespace {

using fakes::code_of;
using fakes::eventually;
using testing::AllOf;
using testing::HasSubstr;

namespace fs = std::filesystem;

// The disk of the servers that are started while this object is there.
class Disk {
 public:
  Disk() {
    // The servers may run as another user.
    fs::permissions(folder_.folder(), fs::perms{0755});
    const std::string library = folder_.path("disk.so");
    fs::copy_file(IDMINT_DISK_LIBRARY, library);
    ::setenv("LD_PRELOAD", library.c_str(), 1);
    ::setenv("IDMINT_NO_ROOM", file_.c_str(), 1);
  }
  ~Disk() {
    ::unsetenv("LD_PRELOAD");
    ::unsetenv("IDMINT_NO_ROOM");
  }
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  void fill() const { std::ofstream{file_}; }
  void make_room() const { fs::remove(file_); }

 private:
  const fakes::TempFolder folder_;
  const std::string file_ = folder_.path("full");
};

#if defined(IDMINT_FULL_DISK_MARIADB)
using Server = servers::MariadbServer;
constexpr const char* kWhy = "is full";
// The claims of one call.
constexpr std::int64_t kBatch = 20;
#elif defined(IDMINT_FULL_DISK_POSTGRESQL)
using Server = servers::PostgresqlServer;
constexpr const char* kWhy = "No space left on device";
constexpr std::int64_t kBatch = 1000;
#elif defined(IDMINT_FULL_DISK_REDIS)
using Server = servers::RedisServer;
constexpr std::int64_t kBatch = 1000;
#endif

// One server and its disk, with a counter "c" and a space "s".
class StoreFullDisk : public testing::Test {
 protected:
  // With these options of its server.
  template <class... Options>
  explicit StoreFullDisk(const Options&... options) : server_(options...) {
    EXPECT_TRUE(store_->unique_index()->create_space("s"));
    take();
    EXPECT_TRUE(claim(kBatch));
  }

  Outcome take() {
    notes_.push_back(noted_take(*store_->counters(), "c", 1, 0));
    return notes_.back().outcome;
  }
  // Takes until the last blocks of the files are full, too: what became of the last one.
  Outcome take_the_rest() {
    Outcome last = Outcome::kTaken;
    EXPECT_TRUE(eventually([&] { return (last = take()) != Outcome::kTaken; }));
    return last;
  }
  // The next numbers that nobody has asked for.
  Result<void> claim(std::int64_t count) {
    Batch batch{.first = batches_.empty() ? 0 : batches_.back().first + batches_.back().count,
                .count = count};
    const auto ours = store_->unique_index()->insert("s", keys_of(batch));
    batch.outcome = ours                                 ? Outcome::kTaken
                    : was_not_applied(ours.error().code) ? Outcome::kRefused
                    : outcome_unknown(ours.error().code) ? Outcome::kUnknown
                                                         : Outcome::kWrong;
    batches_.push_back(batch);
    if (ours) return {};
    return std::unexpected(ours.error());
  }

  void end_and_start_again() {
    server_.kill();
    server_.restart();
  }
  // After there is room again.
  void expect_nothing_lost() {
    ASSERT_TRUE(eventually([&] { return take() == Outcome::kTaken; }));
    const Verdict verdict = judge(notes_, 1);
    for (const std::string& wrong : verdict.wrong) ADD_FAILURE() << wrong;
    const auto store = fakes::opened(url_);
    for (Batch& batch : batches_) {
      EXPECT_NE(batch.outcome, Outcome::kWrong);
      if (batch.outcome == Outcome::kUnknown) continue;
      const auto again = store->unique_index()->insert("s", keys_of(batch));
      ASSERT_TRUE(again) << fakes::why(again);
      const bool refused = batch.outcome == Outcome::kRefused;
      EXPECT_EQ(std::ranges::count(*again, true), refused ? batch.count : 0)
          << "from " << batch.first << (refused ? " on refused" : " on acknowledged");
      batch.outcome = Outcome::kTaken;
    }
  }

  Disk disk_;
  Server server_;

 private:
  struct Batch {
    std::int64_t first;
    std::int64_t count;
    Outcome outcome = Outcome::kUnknown;
  };
  static std::vector<std::int64_t> keys_of(const Batch& batch) {
    std::vector<std::int64_t> keys(static_cast<std::size_t>(batch.count));
    std::iota(keys.begin(), keys.end(), batch.first);
    return keys;
  }

  const std::string url_ = server_.database("ids");
  std::unique_ptr<Store> store_ = fakes::with_counter(url_, std::chrono::seconds{3});
  std::vector<Note> notes_{};
  std::vector<Batch> batches_{};
};

#if defined(IDMINT_FULL_DISK_REDIS)

// It ends rather than acknowledge what it cannot write.
TEST_F(StoreFullDisk, AServerThatEndsLosesNothingThatWasAcknowledged) {
  disk_.fill();
  EXPECT_EQ(take_the_rest(), Outcome::kUnknown);
  EXPECT_EQ(take(), Outcome::kRefused) << "nobody answers";
  EXPECT_EQ(code_of(claim(kBatch)), Code::kUnavailable);
  disk_.make_room();
  end_and_start_again();
  expect_nothing_lost();
}

#else

TEST_F(StoreFullDisk, WhatIsRefusedTookNothingAndAllGoesOnWhenThereIsRoom) {
  disk_.fill();
  Result<void> claimed;
  for (int i = 0; i < 1000 && claimed; ++i) {
    take();
    claimed = claim(kBatch);
  }
  EXPECT_EQ(code_of(claimed), Code::kResourceExhausted);
  EXPECT_THAT(fakes::why(claimed), AllOf(HasSubstr(kWhy), HasSubstr("nothing was changed")));
  EXPECT_EQ(code_of(claim(kBatch)), Code::kResourceExhausted) << "again";
  take();
  disk_.make_room();
  EXPECT_TRUE(eventually([&] { return claim(kBatch).has_value(); }));
  expect_nothing_lost();
}

#endif

#if defined(IDMINT_FULL_DISK_MARIADB)

// MariaDB 10.11 needs room to undo what is more than a page, and crashes where there is none.
TEST_F(StoreFullDisk, AServerThatCrashesLosesNothingThatWasAcknowledged) {
  disk_.fill();
  EXPECT_TRUE(eventually([&] { return !claim(1000); }));
  take();
  disk_.make_room();
  end_and_start_again();
  expect_nothing_lost();
}

// Each commit needs room in the binary log, and MariaDB waits for it, a minute at a time.
class StoreFullDiskWithBinaryLog : public StoreFullDisk {
 protected:
  StoreFullDiskWithBinaryLog()
      : StoreFullDisk(std::vector<std::string>{"--log-bin", "--sync-binlog=1"}) {}

  // The last acknowledged writes may be in the binary log alone.
  void expect_nothing_lost_in_a_crash() {
    expect_nothing_lost();
    EXPECT_TRUE(claim(kBatch));
    end_and_start_again();
    expect_nothing_lost();
  }
};

TEST_F(StoreFullDiskWithBinaryLog, WhatWaitsForRoomIsDoneOrNotAndAllGoesOn) {
  disk_.fill();
  take_the_rest();
  EXPECT_FALSE(claim(kBatch));
  disk_.make_room();
  server_.run("KILL QUERY USER root");  // rather than wait for the rest of the minute
  expect_nothing_lost_in_a_crash();
}

TEST_F(StoreFullDiskWithBinaryLog, ACrashOfAServerThatWaitsLosesNothingThatWasAcknowledged) {
  disk_.fill();
  take_the_rest();
  disk_.make_room();
  end_and_start_again();
  expect_nothing_lost_in_a_crash();
}

// MariaDB 10.11 leaves a part of an event in the log then, and would roll back in a crash what it
// acknowledged last.
TEST_F(StoreFullDiskWithBinaryLog, AfterAWaitThatWasEndedTheLogIsFlushedAndNothingIsLost) {
  disk_.fill();
  Result<void> claimed;
  {
    const std::jthread ends_each_wait([&](const std::stop_token& enough) {
      while (!enough.stop_requested()) server_.run("KILL QUERY USER root");
    });
    EXPECT_TRUE(eventually([&] {
      claimed = claim(kBatch);
      return fakes::why(claimed).contains("Error writing file");
    }));
  }
  EXPECT_EQ(code_of(claimed), Code::kUnknown);
  EXPECT_THAT(fakes::why(claimed), AllOf(HasSubstr("run FLUSH BINARY LOGS when there is room"),
                                         HasSubstr("may have been done or not")));
  disk_.make_room();
  server_.run("FLUSH BINARY LOGS");
  expect_nothing_lost_in_a_crash();
}

#elif defined(IDMINT_FULL_DISK_POSTGRESQL)

// It stops, and starts again by itself where it can.
TEST_F(StoreFullDisk, AServerWithoutRoomForItsLogLosesNothingThatWasAcknowledged) {
  disk_.fill();
  static_cast<void>(server_.ask("SELECT pg_switch_wal()"));
  take_the_rest();
  take();
  disk_.make_room();
  end_and_start_again();
  expect_nothing_lost();
}

#endif

}  // namespace
}  // namespace idmint::e2e
