// Another connection sets an SQLite store back, as a restore of a backup does, under a process that
// goes on: no strategy gives a value twice, and each tells on its next answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "idmint/sequence.h"
#include "idmint/store.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::e2e {
namespace {

using testing::HasSubstr;

class SetBack : public testing::TestWithParam<SequenceDefinition> {
 protected:
  void SetUp() override {
    auto opened = Store::open("sqlite:" + path_);
    ASSERT_TRUE(opened) << opened.error().message();
    store_ = *std::move(opened);
    ASSERT_TRUE(create_sequence(*store_, GetParam()));
    auto sequence = Sequence::open(*store_, GetParam().name);
    ASSERT_TRUE(sequence) << sequence.error().message();
    sequence_ = *std::move(sequence);
  }

  void sql(const std::string& text) const {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    ASSERT_EQ(sqlite3_busy_timeout(db, 60'000), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, text.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(db);
    EXPECT_EQ(sqlite3_close(db), SQLITE_OK);
  }
  void copy_tables() const {
    for (const std::string table : {"counters", "spaces", "claims"})
      sql("CREATE TABLE copy_of_" + table + " AS SELECT * FROM " + table);
  }
  void restore_tables() const {
    std::string all = "BEGIN IMMEDIATE;";
    for (const std::string table : {"counters", "spaces", "claims"})
      all += "DELETE FROM " + table + ";INSERT INTO " + table + " SELECT * FROM copy_of_" + table +
             ";";
    sql(all + "COMMIT");
  }

  Result<std::int64_t> next() {
    std::int64_t value = 0;
    const Result<void> filled = sequence_->next(std::span(&value, 1));
    if (!filled) return std::unexpected(filled.error());
    return value;
  }

  fakes::TempFolder folder_;
  const std::string path_ = folder_.path("ids.db");
  std::unique_ptr<Store> store_;
  std::unique_ptr<Sequence> sequence_;
};

TEST_P(SetBack, NoValueComesTwiceAndItIsTold) {
  std::set<std::int64_t> seen;
  const auto take = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const Result<std::int64_t> value = next();
      ASSERT_TRUE(value) << value.error().message();
      EXPECT_TRUE(seen.insert(*value).second) << *value;
    }
  };
  take(5);
  copy_tables();
  take(30);
  restore_tables();
  // A cached range goes on from memory, and a stripe that nothing was taken from may come first.
  Result<std::int64_t> value = next();
  for (int i = 0; value && i < 1000; ++i, value = next())
    ASSERT_TRUE(seen.insert(*value).second) << *value << " came twice";
  ASSERT_FALSE(value) << "it does not notice";
  EXPECT_EQ(value.error().code, Code::kDataLoss) << value.error().message();
  EXPECT_THAT(value.error().message(), HasSubstr("gone back"));
  for (int i = 0; i < 3; ++i) {
    value = next();
    ASSERT_FALSE(value) << "it goes on with " << *value;
    EXPECT_EQ(value.error().code, Code::kDataLoss);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, SetBack,
    testing::Values(
        SequenceDefinition{.name = "counter"},
        SequenceDefinition{.name = "striped", .strategy = Strategy::kStriped, .stripes = 2},
        SequenceDefinition{.name = "cached", .strategy = Strategy::kCached, .step = 2},
        SequenceDefinition{.name = "permuted", .strategy = Strategy::kPermuted, .last = 9'999},
        // So few that a value which is free again comes soon.
        SequenceDefinition{.name = "random", .strategy = Strategy::kRandom, .last = 60}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace idmint::e2e
