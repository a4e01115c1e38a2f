#include "restore/oplog/slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "restore/server.h"

namespace idmint::restore {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// An entry at 10:`ordinal`, with further fields.
Result<void> add(SliceCheck& slice, int ordinal, const std::string& fields) {
  const Bson document = *from_json(R"({"v":2,"ts":{"$timestamp":{"t":10,"i":)" +
                                   std::to_string(ordinal) + "}}," + fields + "}");
  const Result<Entry> entry = parse_entry(document.view());
  EXPECT_TRUE(entry) << entry.error().message();
  return slice.add(*entry);
}

TEST(Slice, RefusesWhatNoReplaySetsRight) {
  for (const auto& [fields, code, says] : {
           std::tuple(R"("op":"c","ns":"d.$cmd","o":{"renameCollection":"d.a","to":"d.b"})",
                      Code::kUnavailable, "10:7"),
           std::tuple(R"("op":"c","ns":"d.$cmd","o":{"importCollection":"d.a"})",
                      Code::kUnavailable, "imported"),
           std::tuple(R"("op":"u","ns":"admin.system.version","o":{"$v":2},"o2":{"_id":"x"})",
                      Code::kUnavailable, "version was changed"),
           std::tuple(R"("op":"c","ns":"admin.$cmd","o":{"applyOps":[)"
                      R"({"op":"c","ns":"d.$cmd","o":{"renameCollection":"d.a","to":"d.b"}}]})",
                      Code::kUnavailable, "10:7"),
       }) {
    SliceCheck slice(Timestamp{.seconds = 10, .ordinal = 7});
    ASSERT_TRUE(add(slice, 6, R"("op":"n","ns":"","o":{"msg":"periodic noop"})"));
    const Result<void> added = add(slice, 7, fields);
    ASSERT_FALSE(added) << fields;
    EXPECT_EQ(added.error().code, code) << fields;
    EXPECT_THAT(added.error().message(), HasSubstr(says)) << fields;
  }
}

TEST(Slice, TakesARenameThatTheListingCameAfter) {
  SliceCheck slice(Timestamp{.seconds = 10, .ordinal = 8});
  const char* const rename = R"("op":"c","ns":"d.$cmd","o":{"renameCollection":"d.a","to":"d.b"})";
  EXPECT_TRUE(add(slice, 7, rename)) << "the first entry came before the listing";
  EXPECT_FALSE(add(slice, 8, rename));
}

TEST(Slice, TakesWhatAReplaySetsRight) {
  SliceCheck slice;
  for (const char* const fields : {
           R"("op":"n","ns":"","o":{"msg":"periodic noop"})",
           R"("op":"i","ns":"d.a","o":{"renameCollection":1})",
           R"("op":"c","ns":"d.$cmd","o":{"drop":"a"})",
           R"("op":"c","ns":"d.$cmd","o":{"renameCollection":"d.a","to":"d.b"})",
           R"("op":"c","ns":"d.$cmd","o":{"collMod":"a"})",
           R"("op":"c","ns":"d.$cmd","o":{"dropDatabase":1})",
           R"("op":"c","ns":"d.$cmd","o":{"create":"a"})",
           R"("op":"i","ns":"d.tmpAbcde.convertToCapped.a","o":{"_id":1},"fromMigrate":true)",
           R"("op":"i","ns":"d.a","o":{"_id":1},"fromMigrate":true)",
       }) {
    EXPECT_TRUE(add(slice, 1, fields)) << fields;
  }
  EXPECT_THAT(slice.missing(), IsEmpty());
}

TEST(Slice, NamesWhatItsTransactionsComeAfter) {
  const std::string transaction =
      R"("op":"c","ns":"admin.$cmd","lsid":{"id":1},"txnNumber":{"$numberLong":"1"},)";
  const auto after = [](int seconds, int ordinal) {
    return R"(,"prevOpTime":{"ts":{"$timestamp":{"t":)" + std::to_string(seconds) + R"(,"i":)" +
           std::to_string(ordinal) + R"(}},"t":{"$numberLong":"1"}})";
  };
  const std::string commit = transaction + R"("o":{"commitTransaction":1})";
  SliceCheck slice;
  ASSERT_TRUE(add(slice, 5, R"("op":"n","ns":"","o":{})"));
  ASSERT_TRUE(add(slice, 6, commit + after(10, 5)));  // which is in it
  ASSERT_TRUE(add(slice, 7, transaction + R"("o":{"applyOps":[]})" + after(0, 0)));
  EXPECT_THAT(slice.missing(), IsEmpty());
  ASSERT_TRUE(add(slice, 8, commit + after(10, 4)));
  ASSERT_TRUE(add(slice, 9, commit + after(9, 1)));
  // A retryable write is in no transaction.
  ASSERT_TRUE(
      add(slice, 10,
          R"("op":"i","ns":"d.a","o":{"_id":1},"lsid":{"id":1},"txnNumber":{"$numberLong":"1"})" +
              after(8, 1)));
  EXPECT_THAT(slice.missing(), ElementsAre(Timestamp{.seconds = 9, .ordinal = 1},
                                           Timestamp{.seconds = 10, .ordinal = 4}));
}

}  // namespace
}  // namespace idmint::restore
