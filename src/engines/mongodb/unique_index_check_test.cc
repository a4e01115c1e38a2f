// The servers' answers about a collection, and the conclusions from them. The answers are as mongod
// 6.0 and mongos write them, without the fields that are not read.
#include "engines/mongodb/unique_index_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace idmint::stores::mongodb {
namespace {

using testing::HasSubstr;

// The reply to listIndexes, with the index of _id and others.
Bson indexes(const std::string& others = "") {
  return Bson(R"({"cursor":{"id":{"$numberLong":"0"},"ns":"app.accounts","firstBatch":[)"
              R"({"v":2,"key":{"_id":1},"name":"_id_"})" +
              (others.empty() ? "" : "," + others) + R"(]},"ok":1.0})");
}

// The reply to a find in config.collections, with one entry or none.
Bson sharding(const std::string& entry) {
  return Bson(
      R"({"cursor":{"firstBatch":[)" + entry +
      R"(],"id":{"$numberLong":"0"},"ns":"config.collections"},"ok":1.0,"$clusterTime":{}})");
}
Bson sharded_by(const std::string& key, const std::string& more = "") {
  return sharding(R"({"_id":"app.accounts","lastmodEpoch":{"$oid":"655d1f0c9d1e8b7f3c0a1b2c"},)"
                  R"("uuid":{"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAAA==","subType":"04"}},)"
                  R"("key":)" +
                  key + R"(,"unique":false)" + more + "}");
}

class GuardTest : public testing::Test {
 protected:
  GuardTest() { EXPECT_TRUE(mongo::load_driver()); }

  static UniqueIndexCheck of_index(const std::string& index) {
    const Bson list = indexes(index);
    return judge("account", list, nullptr);
  }
  static IndexState sharded(const std::string& field, const Bson& entry,
                            const std::string& index = "") {
    const Bson list = indexes(index);
    return judge(field, list, &entry).guard;
  }
};

TEST_F(GuardTest, OnlyAUniqueIndexOnExactlyTheFieldOverAllDocumentsGuards) {
  for (const char* const index :
       {R"({"v":2,"key":{"account":1},"name":"account_1","unique":true})",
        R"({"v":2,"key":{"account":-1},"name":"x","unique":true,"sparse":true})",
        R"({"v":2,"key":{"account":1.0},"name":"x","unique":true,"hidden":true})",
        R"({"v":2,"key":{"account":1},"name":"x"},)"
        R"({"v":2,"key":{"account":1},"name":"y","unique":true})"})
    EXPECT_EQ(of_index(index).guard, IndexState::kUnique) << index;
  struct Row {
    const char* index;
    const char* why;
  };
  for (
      const auto& [index, why] : {
          Row{R"({"v":2,"key":{"account":1},"name":"account_1"})", "is not unique"},
          Row{R"({"v":2,"key":{"account":1},"name":"x","unique":false})", "is not unique"},
          Row{R"({"key":{"account":1},"name":"x","unique":true,"partialFilterExpression":{"a":1}})",
              "is partial"},
          Row{R"({"key":{"account":1},"name":"x","unique":true,"expireAfterSeconds":60})",
              "deletes documents"},
          Row{R"({"key":{"account":1},"name":"x","unique":true,"collation":{"locale":"de"}})",
              "has a collation"},
          Row{R"({"key":{"account":1,"region":1},"name":"x","unique":true})", "no index is on it"},
          Row{R"({"key":{"region":1,"account":1},"name":"x","unique":true})", "no index is on it"},
          Row{R"({"key":{"accounts":1},"name":"x","unique":true})", "no index is on it"},
          Row{R"({"key":{"account":"hashed"},"name":"x"})", "cannot be unique"},
      }) {
    const UniqueIndexCheck judgement = of_index(index);
    EXPECT_EQ(judgement.guard, IndexState::kMissing) << index;
    EXPECT_THAT(judgement.why, HasSubstr(why)) << index;
  }
}

// As listIndexes answers where it is asked for builds.
TEST_F(GuardTest, AnIndexThatIsBeingBuiltGuardsNothingYet) {
  const std::string unfinished =
      R"({"spec":{"v":2,"key":{"account":1},"name":"account_1","unique":true},"buildUUID":)"
      R"({"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAAA==","subType":"04"}}})";
  const UniqueIndexCheck judgement = of_index(unfinished);
  EXPECT_EQ(judgement.guard, IndexState::kMissing);
  EXPECT_THAT(judgement.why, HasSubstr("\"account_1\" is still being built"));
  EXPECT_FALSE(can_look_up("account", indexes(unfinished)));
}

TEST_F(GuardTest, TheIndexOfIdIsThereButForATimeSeries) {
  EXPECT_EQ(judge("_id", Bson(), nullptr).guard, IndexState::kUnique);
  const Bson list = indexes();
  EXPECT_EQ(judge("_id", list, nullptr).guard, IndexState::kUnique);
  EXPECT_EQ(judge("account", Bson(), nullptr).guard, IndexState::kMissing) << "no collection yet";
  const auto of_id = [](const std::string& only) {
    return judge("_id", Bson(R"({"cursor":{"firstBatch":[)" + only + R"(]},"ok":1.0})"), nullptr);
  };
  EXPECT_EQ(of_id(R"({"v":2,"key":{"_id":1},"name":"x","unique":true,"clustered":true})").guard,
            IndexState::kUnique);
  EXPECT_EQ(of_id("").guard, IndexState::kProxy) << "a time series";
  EXPECT_EQ(of_id(R"({"v":2,"key":{"_id":1},"name":"x"})").guard, IndexState::kProxy)
      << "somebody's, of a time series";
  EXPECT_EQ(of_id(R"({"v":2,"key":{"_id":"hashed"},"name":"x"})").guard, IndexState::kProxy);
  EXPECT_THAT(of_id("").why, HasSubstr("time-series"));
}

TEST_F(GuardTest, ACollectionShardedByAnythingElseNeedsAProxy) {
  const std::string unique = R"({"key":{"account":1},"name":"account_1","unique":true})";
  EXPECT_EQ(sharded("account", sharded_by(R"({"region":1})")), IndexState::kProxy);
  EXPECT_EQ(sharded("account", sharded_by(R"({"region":"hashed"})")), IndexState::kProxy);
  EXPECT_EQ(sharded("account", sharded_by(R"({"account":"hashed"})")), IndexState::kProxy);
  EXPECT_EQ(sharded("account", sharded_by(R"({"account":1,"region":1})")), IndexState::kProxy);
  EXPECT_EQ(sharded("account", sharded_by(R"({"_id":1})")), IndexState::kProxy);
  EXPECT_EQ(sharded("account", sharded_by(R"({"account":1})")), IndexState::kMissing);
  EXPECT_EQ(sharded("account", sharded_by(R"({"account":1})"), unique), IndexState::kUnique);
  // Each shard has an index on _id of its own.
  EXPECT_EQ(sharded("_id", sharded_by(R"({"region":1})")), IndexState::kProxy);
  EXPECT_EQ(sharded("_id", sharded_by(R"({"_id":1,"region":1})")), IndexState::kProxy);
  EXPECT_EQ(sharded("_id", sharded_by(R"({"_id":1})")), IndexState::kUnique);
  EXPECT_EQ(sharded("_id", sharded_by(R"({"_id":"hashed"})")), IndexState::kUnique);
  const Bson list = indexes();
  const Bson entry = sharded_by(R"({"region":1,"x":"hashed"})");
  EXPECT_THAT(judge("account", list, &entry).why,
              HasSubstr(R"(sharded by {region: 1, x: "hashed"})"));
}

TEST_F(GuardTest, OfAClusterACollectionThatIsNotShardedIsAsAnyOther) {
  EXPECT_EQ(sharded("_id", sharding("")), IndexState::kUnique);
  EXPECT_EQ(sharded("account", sharding("")), IndexState::kMissing);
  EXPECT_EQ(sharded("_id", sharded_by(R"({"region":1})", R"(,"dropped":true)")),
            IndexState::kUnique)
      << "until 4.4 the entry stays";
  EXPECT_EQ(sharded("account", sharded_by(R"({"_id":1})", R"(,"unsplittable":true)")),
            IndexState::kMissing)
      << "8.0 tracks collections that are not sharded";
}

TEST_F(GuardTest, ALookUpNeedsAnIndexThatBeginsWithTheField) {
  EXPECT_TRUE(can_look_up("_id", indexes()));
  EXPECT_FALSE(can_look_up("account", indexes()));
  EXPECT_TRUE(can_look_up("account", indexes(R"({"key":{"account":1,"x":1},"name":"x"})")));
  EXPECT_FALSE(can_look_up("account", indexes(R"({"key":{"x":1,"account":1},"name":"x"})")));
  EXPECT_FALSE(can_look_up(
      "account", indexes(R"({"key":{"account":1},"name":"x","partialFilterExpression":{"a":1}})")));
}

}  // namespace
}  // namespace idmint::stores::mongodb
