#include "restore/oplog/dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "restore/server.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::restore {
namespace {

using testing::HasSubstr;

Bson entry(std::uint32_t ordinal) {
  return from_json(R"({"ts":{"$timestamp":{"t":100,"i":)" + std::to_string(ordinal) +
                   R"(}},"v":2,"op":"i","ns":"a.b","o":{"_id":)" + std::to_string(ordinal) + "}}")
      .value();
}

class OplogDumpTest : public testing::Test {
 protected:
  void append(OplogDump& dump, std::uint32_t ordinal) {
    const Bson document = entry(ordinal);
    ASSERT_TRUE(dump.append({.seconds = 100, .ordinal = ordinal}, document.view()));
  }
  // Makes a dump of entries 1 to 3.
  void make() {
    Result<OplogDump> dump = OplogDump::open(path_);
    ASSERT_TRUE(dump);
    for (const std::uint32_t ordinal : {1U, 2U, 3U}) append(*dump, ordinal);
    ASSERT_TRUE(dump->sync());
  }
  [[nodiscard]] std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }

  const fakes::TempFolder folder_;
  const std::string path_ = folder_.path("oplog.bson");
};

TEST_F(OplogDumpTest, IsReadByItsOwnerAlone) {
  make();
  namespace fs = std::filesystem;
  EXPECT_EQ(fs::status(path_).permissions() & (fs::perms::group_all | fs::perms::others_all),
            fs::perms::none);
}

TEST_F(OplogDumpTest, IsNoSymbolicLinkAndOfThisUser) {
  make();
  const std::string before = bytes();
  const std::string link = folder_.path("link");
  for (const std::string& target : {path_, folder_.path("absent")}) {
    std::filesystem::create_symlink(target, link);
    const Result<OplogDump> dump = OplogDump::open(link);
    ASSERT_FALSE(dump) << target;
    EXPECT_EQ(dump.error().code, Code::kAlreadyExists);
    EXPECT_THAT(dump.error().message(), HasSubstr("symbolic link"));
    std::filesystem::remove(link);
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.path("absent")));
  EXPECT_EQ(bytes(), before);
  EXPECT_EQ(OplogDump::open("/dev/null").error().code, Code::kAlreadyExists);
}

TEST_F(OplogDumpTest, IsNotThereWhereItGotNoEntry) {
  ASSERT_TRUE(OplogDump::open(path_));
  EXPECT_FALSE(std::filesystem::exists(path_));
  write("");
  ASSERT_TRUE(OplogDump::open(path_));
  EXPECT_TRUE(std::filesystem::exists(path_));  // it is not ours
}

TEST_F(OplogDumpTest, GoesOnWhereAFullDiskEndedIt) {
  Result<OplogDump> dump = OplogDump::open(path_);
  ASSERT_TRUE(dump);
  append(*dump, 1);
  ASSERT_TRUE(dump->sync());
  std::string all = bytes();
  for (const std::uint32_t ordinal : {2U, 3U}) {
    append(*dump, ordinal);
    const Bson document = entry(ordinal);
    const auto bytes = document.view().bytes();
    all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  // Room for half of an entry.
  const auto before = ::signal(SIGXFSZ, SIG_IGN);
  struct rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const struct rlimit room{.rlim_cur = all.size() / 2, .rlim_max = limit.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &room);
  const Result<void> full = dump->sync();
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, before);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::kResourceExhausted);
  EXPECT_EQ(bytes().size(), all.size() / 2);
  EXPECT_EQ(print_timestamp(dump->synced().value()), "100:1");
  ASSERT_TRUE(dump->sync());
  EXPECT_EQ(bytes(), all);
  EXPECT_EQ(print_timestamp(dump->synced().value()), "100:3");
}

TEST_F(OplogDumpTest, GoesOnAfterTheLastEntry) {
  make();
  {
    Result<OplogDump> dump = OplogDump::open(path_);
    ASSERT_TRUE(dump);
    EXPECT_EQ(print_timestamp(dump->first().value()), "100:1");
    EXPECT_EQ(print_timestamp(dump->last().value()), "100:3");
    EXPECT_TRUE(std::ranges::equal(dump->last_entry(), entry(3).view().bytes()));
    append(*dump, 4);
    ASSERT_TRUE(dump->sync());
  }
  EXPECT_EQ(print_timestamp(OplogDump::open(path_)->last().value()), "100:4");
}

TEST_F(OplogDumpTest, IsComparedWithItsChecksumsBeforeItGoesOn) {
  make();
  ASSERT_TRUE(OplogDump::open(path_)->seal());
  const std::string whole = bytes();
  write(whole.substr(whole.size() / 3));  // without the first of three
  const Result<OplogDump> changed = OplogDump::open(path_);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, Code::kDataLoss);
  // A new dump of that name has nothing to do with them.
  std::filesystem::remove(path_);
  make();
  EXPECT_TRUE(OplogDump::open(path_));
}

TEST_F(OplogDumpTest, IsCutAfterTheLastWholeEntryAtAnyByte) {
  make();
  const std::string whole = bytes();
  const std::size_t size = whole.size() / 3;
  for (std::size_t cut = size; cut < whole.size(); ++cut) {
    write(whole.substr(0, cut));
    const Result<OplogDump> dump = OplogDump::open(path_);
    ASSERT_TRUE(dump) << cut << dump.error().message();
    EXPECT_EQ(dump->last()->ordinal, cut / size) << cut;
    EXPECT_EQ(std::filesystem::file_size(path_), cut / size * size) << cut;
  }
}

TEST_F(OplogDumpTest, IsNotTouchedWhereItIsNoOplog) {
  for (const std::string& text : {std::string("Dear diary"), std::string(1, 'x'),
                                  std::string(100, '\0'), std::string("\x50\0\0\0abc", 7)}) {
    write(text);
    const Result<OplogDump> dump = OplogDump::open(path_);
    ASSERT_FALSE(dump);
    EXPECT_EQ(dump.error().code, Code::kAlreadyExists);
    EXPECT_EQ(bytes(), text);
  }
  write(std::string("\x1f\x8b\x8\0...", 7));
  EXPECT_EQ(OplogDump::open(path_).error().code, Code::kFailedPrecondition);
}

TEST_F(OplogDumpTest, RefusesDamageBeforeItsEnd) {
  make();
  std::string damaged = bytes();
  const std::size_t size = damaged.size() / 3;
  damaged[size] = 3;
  write(damaged);
  const Result<OplogDump> dump = OplogDump::open(path_);
  ASSERT_FALSE(dump);
  EXPECT_EQ(dump.error().code, Code::kDataLoss);
  EXPECT_THAT(dump.error().message(), HasSubstr("at byte " + std::to_string(size)));
  EXPECT_EQ(bytes(), damaged);
}

TEST_F(OplogDumpTest, RefusesEntriesThatAreOutOfOrder) {
  make();
  {
    Result<OplogDump> dump = OplogDump::open(path_);
    const Bson again = entry(3);
    EXPECT_EQ(dump->append({.seconds = 100, .ordinal = 3}, again.view()).error().code,
              Code::kFailedPrecondition);
  }
  const std::string one = bytes().substr(0, bytes().size() / 3);
  write(one + one);
  EXPECT_EQ(OplogDump::open(path_).error().code, Code::kDataLoss);
}

TEST_F(OplogDumpTest, IsWrittenByOneProcessAtATime) {
  const Result<OplogDump> dump = OplogDump::open(path_);
  ASSERT_TRUE(dump);
  const Result<OplogDump> second = OplogDump::open(path_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kFailedPrecondition);
}

}  // namespace
}  // namespace idmint::restore
