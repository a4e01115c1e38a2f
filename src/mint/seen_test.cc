#include "mint/seen.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/host_facts.h"
#include "engines/sqlite/trust.h"
#include "store/name_on_host.h"
#include "tests/fakes/temp_folder.h"

namespace idmint {
namespace {

namespace fs = std::filesystem;

class SeenTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::setenv("XDG_DATA_HOME", home_.c_str(), 1), 0); }
  void TearDown() override { ASSERT_EQ(::unsetenv("XDG_DATA_HOME"), 0); }

  static Instant at(int seconds) { return Instant{std::chrono::seconds{seconds}}; }

  fakes::TempFolder folder_;
  const std::string home_ = folder_.path("home");
  static inline const Uuid kId = *Uuid::parse("01234567-89ab-4cde-8f01-23456789abcd");
  static SeenStore store_at(const std::string& url) {
    return {stores::name_on_host(kId, url), url};
  }
  const SeenStore store_ = store_at("mongodb://h/ids");
  const fs::path file_ = fs::path(home_) / "idmint" / ("seen-" + store_.name);
};

// The largest value of a counter.
Seen counted(std::string source, Instant at, std::int64_t value, std::int64_t settled = 0) {
  return {.source = std::move(source),
          .at = at,
          .value = value,
          .kind = LastIssued::Kind::kValue,
          .settled = settled};
}

TEST_F(SeenTest, TheLastOfEachSourceIsKept) {
  EXPECT_TRUE(read_seen(store_).empty());
  note_seen(store_, {"orders", at(1), 5});
  note_seen(store_, {"docs", at(2), 1, "app.my docs:number"});
  note_seen(store_, {"orders", at(3), 4});
  note_seen(store_, {"docs", at(4), 2});
  const std::vector<Seen> wanted = {{"orders", at(3), 4}, {"docs", at(4), 2, "app.my docs:number"}};
  EXPECT_EQ(read_seen(store_), wanted);
  EXPECT_TRUE(read_seen(store_at("mongodb://h/other")).empty());
  struct stat made{};
  ASSERT_EQ(::stat(file_.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0600);
}

TEST_F(SeenTest, WithinOneSettleCountALineNeverGoesDown) {
  note_seen(store_, counted("orders", at(1), 40));
  note_seen(store_, counted("orders", at(2), 11));
  EXPECT_EQ(read_seen(store_), (std::vector{counted("orders", at(1), 40)}));
  note_seen(store_, counted("orders", at(3), 41));
  EXPECT_EQ(read_seen(store_), (std::vector{counted("orders", at(3), 41)}));
  note_seen(store_, counted("orders", at(4), 5, 1));
  EXPECT_EQ(read_seen(store_), (std::vector{counted("orders", at(4), 5, 1)}))
      << "the store was settled since";
  note_seen(store_, counted("orders", at(5), 100));
  EXPECT_EQ(read_seen(store_), (std::vector{counted("orders", at(4), 5, 1)}))
      << "of a state before that";
}

TEST_F(SeenTest, OfClaimsTheLatestIsKeptAndThatSomeWereLost) {
  Seen claim{.source = "codes", .at = at(1), .value = 900, .kind = LastIssued::Kind::kClaim};
  note_seen(store_, claim);
  claim.value = 7;
  claim.lost_claims = true;
  note_seen(store_, claim);
  EXPECT_EQ(read_seen(store_), std::vector{claim});
  Seen later = claim;
  later.value = 8;
  later.lost_claims = false;
  note_seen(store_, later);
  later.lost_claims = true;
  EXPECT_EQ(read_seen(store_), std::vector{later});
}

TEST_F(SeenTest, WhatACommandPrintedStandsBesideTheCounters) {
  note_seen(store_, counted("orders", at(1), 40));
  note_seen(store_, {"orders", at(2), 11});
  EXPECT_EQ(read_seen(store_).size(), 2U);
}

TEST_F(SeenTest, IsBoundedAndTheOldestGoThoseOfWorkerIdsFirst) {
  std::vector<Seen> many;
  for (int i = 0; i < 12'000; ++i) many.push_back(counted("s/" + std::to_string(i), at(i), i));
  for (int i = 0; i < 12'000; ++i) {
    many.push_back(counted("web/" + std::to_string(i), at(20'000 + i), i));
    many.back().kind = LastIssued::Kind::kBound;
  }
  ASSERT_TRUE(note_seen(store_, many));
  EXPECT_LE(fs::file_size(file_), 1U << 20);
  const SeenFile file = read_seen_file(store_);
  EXPECT_EQ(file.state, SeenFile::State::kRead);
  EXPECT_GT(file.all.size(), 14'000U);
  EXPECT_EQ(file.all.front(), many.front());
  EXPECT_EQ(file.all.back(), many.back());
}

TEST_F(SeenTest, WhatIsNoLineOfItIsPassedOverAndTheFileIsDamaged) {
  note_seen(store_, {"orders", at(1), 5});
  EXPECT_EQ(read_seen_file(store_).state, SeenFile::State::kRead);
  std::ofstream(file_, std::ios::app) << "a\nb 1\nc x 1\nd 1 1x\n\n 1 1\ne 1 2\nhalf 1 2";
  const SeenFile file = read_seen_file(store_);
  EXPECT_EQ(file.state, SeenFile::State::kDamaged);
  ASSERT_EQ(file.all.size(), 2U);
  EXPECT_EQ(file.all[0].source, "orders");
  EXPECT_EQ(file.all[1], (Seen{"e", Instant{std::chrono::nanoseconds{1}}, 2}));
  note_seen(store_, {"orders", at(2), 6});
  EXPECT_EQ(read_seen_file(store_).state, SeenFile::State::kDamaged) << "until it is removed";
  EXPECT_EQ(read_seen(store_).size(), 2U);
}

// One that is too large would stop those who mint.
TEST_F(SeenTest, ADamagedLineOfACounterIsNoEvidence) {
  note_seen(store_, counted("orders", at(1), 40));
  std::string text;
  {
    std::ifstream in(file_);
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  const std::size_t value = text.find("\t40\t");
  ASSERT_NE(value, std::string::npos);
  text[value + 1] = '9';
  std::ofstream(file_) << text;
  const SeenFile file = read_seen_file(store_);
  EXPECT_EQ(file.state, SeenFile::State::kDamaged);
  EXPECT_TRUE(file.all.empty());
  for (const char* const words : {"", "x", "\t", "\torders\t1\t40\tz\t0"}) {
    std::array<char, 16> sum{};
    std::snprintf(sum.data(), sum.size(), "\t%08x\n", detail::crc32(words));
    std::ofstream(file_) << words << sum.data();
    EXPECT_EQ(read_seen_file(store_).state, SeenFile::State::kDamaged) << words;
    EXPECT_TRUE(read_seen(store_).empty()) << words;
  }
}

TEST_F(SeenTest, AnEmptyFileIsDamaged) {
  note_seen(store_, counted("orders", at(1), 40));
  std::ofstream(file_, std::ios::trunc).flush();
  EXPECT_EQ(read_seen_file(store_).state, SeenFile::State::kDamaged);
  EXPECT_TRUE(note_seen(store_, counted("orders", at(1), 40)));
  EXPECT_EQ(read_seen(store_).size(), 1U);
}

TEST_F(SeenTest, StoresAtTwoPlacesHaveRecordsOfTheirOwn) {
  const SeenStore copy = store_at("mongodb://h/copy");
  note_seen(store_, counted("orders", at(1), 40));
  note_seen(copy, counted("orders", at(1), 4000));
  EXPECT_EQ(read_seen(store_).front().value, 40);
  EXPECT_EQ(read_seen(store_at("mongodb://user@h/ids?w=1")).front().value, 40)
      << "of users and options it is one place";
  EXPECT_EQ(read_seen_anywhere(kId).size(), 2U);
}

TEST_F(SeenTest, IsFoundByTheUrlOfAStoreThatIsGone) {
  note_seen(store_, counted("orders", at(1), 40));
  note_seen(store_, counted("lines/0", at(1), 7));
  note_seen({stores::name_on_host(*Uuid::parse("11234567-89ab-4cde-8f01-23456789abcd"), store_.url),
             store_.url},
            counted("orders", at(2), 30));
  EXPECT_EQ(read_seen_at("mongodb://h/ids", "orders"), (std::vector{counted("orders", at(1), 40)}));
  EXPECT_EQ(read_seen_at("mongodb://h/ids", "lines").size(), 1U);
  EXPECT_TRUE(read_seen_at("mongodb://h/other", "orders").empty());
}

TEST_F(SeenTest, ALaterSettleCountIsForgottenByAnOperatorOnly) {
  note_seen(store_, counted("orders", at(1), 40, 3));
  accept_seen(store_, 3);
  EXPECT_EQ(read_seen(store_).front().settled, 3);
  accept_seen(store_, 1);
  EXPECT_EQ(read_seen(store_).front(), counted("orders", at(1), 40, 1));
  note_seen(store_, {"orders", at(2), 39});
  void_seen(store_);
  EXPECT_EQ(read_seen(store_), (std::vector<Seen>{{"orders", at(2), 39}}));
}

TEST_F(SeenTest, NeitherALinkNorAPipeIsReadOrWrittenThrough) {
  fs::create_directories(file_.parent_path());
  const std::string other = folder_.path("other");
  std::ofstream(other) << "orders 1 5\n";
  fs::create_symlink(other, file_);
  EXPECT_TRUE(read_seen(store_).empty());
  note_seen(store_, {"docs", at(1), 7});
  EXPECT_EQ(fs::file_size(other), 11U);
  EXPECT_EQ(read_seen(store_).size(), 1U);
  fs::remove(file_);
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_TRUE(read_seen(store_).empty());
  note_seen(store_, {"docs", at(1), 7});
  EXPECT_EQ(read_seen(store_).size(), 1U);
}

TEST_F(SeenTest, WhatStandsInTheWayIsNotWrittenThrough) {
  note_seen(store_, {"docs", at(1), 7});
  const std::string other = folder_.path("other");
  std::ofstream(other) << "mine";
  const std::string fresh = file_.string() + ".new";
  fs::create_symlink(other, fresh);
  note_seen(store_, {"docs", at(1), 8});
  EXPECT_EQ(fs::file_size(other), 4U);
  fs::remove(fresh);
  ASSERT_EQ(::mkfifo(fresh.c_str(), 0600), 0);
  note_seen(store_, {"docs", at(1), 8});
  EXPECT_EQ(read_seen(store_).front().value, 7);
}

TEST_F(SeenTest, KilledProcessesLeaveNoMoreThanOneFile) {
  note_seen(store_, {"docs", at(1), 7});
  const std::string fresh = file_.string() + ".new";
  std::ofstream(fresh) << "docs 1 1\n" << std::string(1000, 'x');
  note_seen(store_, {"docs", at(1), 8});
  EXPECT_EQ(read_seen(store_), (std::vector<Seen>{{"docs", at(1), 8}}));
  EXPECT_FALSE(fs::exists(fresh));
  // Another process is about to replace the file.
  const int held = ::open(fresh.c_str(), O_CREAT | O_WRONLY, 0600);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);
  note_seen(store_, {"docs", at(1), 9});
  EXPECT_EQ(read_seen(store_).front().value, 8);
  ::close(held);
  note_seen(store_, {"docs", at(1), 10});
  EXPECT_EQ(read_seen(store_).front().value, 10);
}

TEST_F(SeenTest, ACopyOfAnSqliteFileHasNotesOfItsOwn) {
  const auto file = [&](const char* name) { return store_at("sqlite:" + folder_.path(name)); };
  std::ofstream(folder_.path("ids.db")) << "a store";
  do {  // until the clock of the file system gives it another birth time
    fs::remove(folder_.path("copy.db"));
    fs::copy_file(folder_.path("ids.db"), folder_.path("copy.db"));
  } while (stores::sqlite::place_of(folder_.path("copy.db"))->born ==
           stores::sqlite::place_of(folder_.path("ids.db"))->born);
  note_seen(file("ids.db"), {"orders", at(1), 7});
  note_seen(file("copy.db"), {"orders", at(2), 1'000'000});
  EXPECT_EQ(read_seen(file("ids.db")).front().value, 7);
  fs::copy_file(folder_.path("copy.db"), folder_.path("ids.db"),
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(read_seen(file("ids.db")).front().value, 7) << "a backup that is copied over it";
  fs::rename(folder_.path("ids.db"), folder_.path("renamed.db"));
  EXPECT_EQ(read_seen(file("renamed.db")).front().value, 7);
}

TEST_F(SeenTest, WhatCannotBeWrittenIsLeftOut) {
  std::ofstream(home_) << "no folder";
  note_seen(store_, {"orders", at(1), 5});
  EXPECT_TRUE(read_seen(store_).empty());
  ASSERT_EQ(::unsetenv("XDG_DATA_HOME"), 0);
  const char* const home = std::getenv("HOME");
  const std::string kept = home != nullptr ? home : "";
  ASSERT_EQ(::unsetenv("HOME"), 0);
  note_seen(store_, {"orders", at(1), 5});
  EXPECT_TRUE(read_seen(store_).empty());
  ASSERT_EQ(::setenv("HOME", kept.c_str(), 1), 0);
}

}  // namespace
}  // namespace idmint
