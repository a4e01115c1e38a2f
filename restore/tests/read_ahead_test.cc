// An oplog that is read by a thread of its own: the caller must be told the same as by one thread.
#include "restore/oplog/read_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "restore/commands/find_report.h"
#include "restore/find/analysis.h"
#include "restore/oplog/reader.h"
#include "restore/tests/oplog_builder.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::restore {
namespace {

using testing::HasSubstr;

std::string text(Timestamp ts) { return print_timestamp(ts); }

// Random entries of all kinds, some of them large, in the seconds from 1000 on.
class RandomOplog {
 public:
  explicit RandomOplog(std::uint32_t seed) : random_(seed) {}

  // A copy of the last entry begins the next slice.
  void add(OplogBuilder& oplog, int entries) {
    if (!last_.empty()) oplog.add_raw(last_);
    for (int i = 0; i < entries; ++i) oplog.add_raw(last_ = entry());
  }
  [[nodiscard]] Timestamp last() const { return at_; }

 private:
  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(random_() % end); }

  std::string entry() {
    wall_ += below(3) == 0 ? below(40) : below(3);
    const auto second = static_cast<std::uint32_t>(wall_ / 1000);
    at_ = {.seconds = second, .ordinal = second == at_.seconds ? at_.ordinal + 1 : 1};
    return R"({"ts":)" + OplogBuilder::json(at_) +
           R"(,"t":{"$numberLong":"1"},"v":2,"wall":{"$date":{"$numberLong":")" +
           std::to_string(wall_) + R"("}},)" + operation() + "}";
  }
  std::string operation() {
    const std::string ns = "shop.c" + std::to_string(below(4));
    const std::string id = std::to_string(below(200));
    const std::string session = below(2) == 0 ? OplogBuilder::in_session(static_cast<int>(below(3)),
                                                                         static_cast<int>(below(9)))
                                              : "";
    switch (below(40)) {
      case 0:
        return R"("op":"n","ns":"","o":{"msg":"periodic noop"})";
      case 1:
        return R"("op":"x","ns":"shop.c","o":{})";
      case 2:
        return R"("op":"c","ns":"shop.$cmd","o":{"drop":"c)" + id + R"("},"o2":{"numRecords":)" +
               id + "}";
      case 3:
        return R"("op":"c","ns":"shop.$cmd","o":{"create":"c)" + id + R"("})";
      case 4:
        return R"("op":"i","ns":"config.cache.chunks","o":{"_id":1})";
      case 5:
        return R"("op":"i","ns":"shop.large","o":{"_id":)" + id + R"(,"text":")" +
               std::string(below(400'000), 'x') + R"("})";
      case 6:
        return OplogBuilder::in_session(1, static_cast<int>(below(9))) +
               R"("prevOpTime":{"ts":{"$timestamp":{"t":0,"i":0}},"t":{"$numberLong":"-1"}},)" +
               R"("op":"c","ns":"admin.$cmd","o":{"applyOps":[)" +
               OplogBuilder::insert_op(ns, R"({"_id":)" + id + "}") + "]" +
               (below(2) == 0 ? R"(,"partialTxn":true})" : "}");
      case 7:
        return R"("op":"c","ns":"shop.$cmd","o":{"dropDatabase":1})";
      case 8:
      case 9:
      case 10:
      case 11:
      case 12:
      case 13:
        return session + R"("op":"d","ns":")" + ns + R"(","o":{"_id":)" + id + "}";
      case 14:
      case 15:
      case 16:
      case 17:
      case 18:
      case 19:
      case 20:
        return session + R"("op":"i","ns":")" + ns + R"(","o":{"_id":)" + id + R"(,"n":)" +
               std::to_string(below(1000)) + R"(,"name":"somebody"})";
      default:
        return session + R"("op":"u","ns":")" + ns + R"(","o":{"$v":2,"diff":{"u":{"n":)" +
               std::to_string(below(1000)) + R"(}}},"o2":{"_id":)" + id + "}";
    }
  }

  std::mt19937 random_;
  std::int64_t wall_ = 1'000'000;
  Timestamp at_{};
  std::string last_;
};

// Everything that the caller is told: where each entry is, how it ends, and what the analysis says.
std::string told(OplogSource& source, const FindFilter& filter) {
  std::string all = source.name();
  OplogAnalysis analysis(filter);
  for (;;) {
    const Result<std::optional<Entry>> next = source.next();
    if (!next) {
      all += "error: " + next.error().message() + "\n";
      if (!source.goes_on()) break;
      continue;
    }
    if (!*next) break;
    all += source.name() + " " + std::to_string(source.offset().value_or(0)) + " " +
           text((*next)->at.ts) + "\n";
    if (const Result<void> added = analysis.add(**next); !added)
      all += "analysis: " + added.error().message() + "\n";
  }
  return all + source.name() + find_json({.answer = analysis.finish(), .listed = true});
}

// The output for the file, the same with read_ahead() and without.
std::string told(const std::string& path, const FindFilter& filter = {}) {
  Result<std::unique_ptr<OplogSource>> one = open_oplog(path);
  Result<std::unique_ptr<OplogSource>> two = open_oplog(path);
  EXPECT_TRUE(one && two);
  const std::string alone = told(**one, filter);
  const std::unique_ptr<OplogSource> ahead = read_ahead(*std::move(two));
  EXPECT_EQ(ahead->unit(), (*one)->unit());
  EXPECT_EQ(ahead->total(), (*one)->total());
  EXPECT_TRUE(told(*ahead, filter) == alone) << path;
  EXPECT_EQ(ahead->done(), (*one)->done());
  return alone;
}

TEST(ReadAhead, TheAnswersOfOneAndTwoThreadsAreTheSame) {
  const fakes::TempFolder folder;
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    OplogBuilder oplog;
    RandomOplog random(seed);
    random.add(oplog, 1500);
    const std::string path = oplog.write(folder.path("oplog.bson"));
    const Timestamp last = random.last();
    EXPECT_THAT(told(path), HasSubstr(R"("entries":1500)"));
    told(path,
         {.span = {.from = {.seconds = 1004}, .to = {.seconds = last.seconds - 2, .ordinal = 1}}});
    told(path, {.namespaces = {"shop.c1"}, .operations = {"update", "drop"}, .list_most = 100});
    told(path, {.id = *IdFilter::of("7"), .field = "n", .list_most = 1000});
  }
}

TEST(ReadAhead, GzipTornAndDamagedFilesTellTheSame) {
  const fakes::TempFolder folder;
  OplogBuilder oplog;
  RandomOplog random(1);
  random.add(oplog, 700);
  const std::string whole = oplog.bytes();

  const std::string packed = folder.path("packed.bson");
  gzFile file = gzopen(packed.c_str(), "wb1");
  ASSERT_EQ(gzwrite(file, whole.data(), static_cast<unsigned>(whole.size())),
            static_cast<int>(whole.size()));
  gzclose(file);
  EXPECT_THAT(told(packed), HasSubstr(R"("entries":700)"));

  oplog.bytes().resize(whole.size() - 3);
  EXPECT_THAT(told(oplog.write(folder.path("torn.bson"))), HasSubstr("the last good entry is "));
  oplog.bytes() = whole;
  oplog.bytes()[oplog.offset(350)] = '\x03';
  EXPECT_THAT(told(oplog.write(folder.path("damaged.bson"))), HasSubstr("error: "));
  oplog.bytes() = whole;
  // Documents that are no entries: the reader goes on behind them.
  for (const std::size_t at : {0U, 10U, 11U, 600U}) oplog.bytes()[oplog.offset(at) + 5] = 'x';
  EXPECT_THAT(told(oplog.write(folder.path("no_entries.bson"))), HasSubstr(R"("entries":696)"));
  EXPECT_THAT(told(OplogBuilder().write(folder.path("empty.bson"))), HasSubstr(R"("entries":0)"));
}

TEST(ReadAhead, SlicesTellTheSame) {
  const fakes::TempFolder folder;
  std::filesystem::create_directory(folder.path("oplog"));
  RandomOplog random(2);
  for (int i = 0; i < 4; ++i) {
    OplogBuilder slice;
    const Timestamp last = random.last();
    random.add(slice, i == 2 ? 1 : 300);
    if (i == 3) slice.bytes().resize(slice.bytes().size() - 3);  // somebody is writing it
    slice.write(folder.path("oplog/" +
                            slice_name(i == 0 ? Timestamp{.seconds = 1000, .ordinal = 1} : last)));
  }
  EXPECT_THAT(told(folder.path("oplog")), HasSubstr(R"("entries":900)"));
}

TEST(ReadAhead, ACallerMayStopAtAnyEntry) {
  const fakes::TempFolder folder;
  OplogBuilder oplog;
  RandomOplog(3).add(oplog, 1500);
  const std::string path = oplog.write(folder.path("oplog.bson"));
  for (const int entries : {0, 1, 40, 1000, 1500}) {
    const std::unique_ptr<OplogSource> source = read_ahead(*open_oplog(path));
    for (int i = 0; i < entries; ++i) ASSERT_TRUE(source->next());
  }
}

}  // namespace
}  // namespace idmint::restore
