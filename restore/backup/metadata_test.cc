#include "restore/backup/metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace idmint::restore {
namespace {

using testing::HasSubstr;

std::string again(std::string_view json) {
  const Result<Bson> document = read_extended_json(json);
  if (!document) return "refused: " + document.error().message();
  const Result<std::string> written = write_extended_json(document->view());
  return written ? *written : "not written: " + written.error().message();
}

TEST(ExtendedJson, KeepsEachType) {
  for (
      const char* const json : {
          R"({})",
          R"({"a":[{"b":{}},null,true,false,"text \" \\ { } : , é"]})",
          R"({"a":{"$numberInt":"-2147483648"},"b":{"$numberLong":"9223372036854775807"}})",
          R"({"a":{"$numberDouble":"1.0"},"b":{"$numberDouble":"NaN"}})",
          R"({"a":{"$numberDecimal":"1.50"},"b":{"$oid":"507f1f77bcf86cd799439011"}})",
          R"({"a":{"$date":{"$numberLong":"-5"}},"b":{"$timestamp":{"t":1,"i":2}}})",
          R"({"a":{"$binary":{"base64":"AAE=","subType":"04"}},"b":{"$minKey":1},"c":{"$maxKey":1}})",
          R"({"a":{"$regularExpression":{"pattern":"^x","options":"i"}},"b":{"$code":"f"}})",
          R"({"":1.5})",
      }) {
    if (std::string_view(json) == R"({"":1.5})") {
      EXPECT_EQ(again(json), R"({"":{"$numberDouble":"1.5"}})");
    } else {
      EXPECT_EQ(again(json), json);
    }
  }
}

// libbson's own reader refuses these, or makes another document of them.
TEST(ExtendedJson, LeavesOperatorsAlone) {
  for (const char* const json : {
           R"({"a":{"$type":["string","null"]}})",
           R"({"a":{"$type":{"$numberInt":"2"}}})",
           R"({"a":{"$regex":"^a"}})",
           R"({"a":{"$regex":"^a","$options":"i"}})",
           R"({"a":{"$regex":{"$regularExpression":{"pattern":"x","options":"i"}}}})",
           R"({"a":{"$regex":"a","$type":"string"}})",
           R"({"$jsonSchema":{"properties":{"$oid":{"bsonType":"string"}}}})",
           R"({"a":{"$minKey":{"$numberInt":"1"}}})",
       }) {
    EXPECT_EQ(again(json), json);
  }
}

TEST(ExtendedJson, ReadsWhatOlderToolsWrote) {
  EXPECT_EQ(
      again(R"({ "v": 2, "n": 5000000000, "d": 1.5 })"),
      R"({"v":{"$numberInt":"2"},"n":{"$numberLong":"5000000000"},"d":{"$numberDouble":"1.5"}})");
  EXPECT_EQ(again(R"({"a":{"$binary":"AAE=","$type":"00"}})"),
            R"({"a":{"$binary":{"base64":"AAE=","subType":"00"}}})");
  EXPECT_EQ(again(R"({"a":{"$date":"2026-11-22T00:00:00Z"}})"),
            R"({"a":{"$date":{"$numberLong":"1795305600000"}}})");
}

TEST(ExtendedJson, RefusesWhatIsNone) {
  std::string deep;
  for (int i = 0; i < 300; ++i) deep += R"({"a":)";
  deep += "1" + std::string(300, '}');
  for (const std::string& json :
       {std::string(), std::string("[]"), std::string("{"), std::string(R"({"a":1} x)"),
        std::string(R"({"a":1}{"b":1})"), std::string(R"({"a":{"$numberInt":"12x"}})"),
        std::string(R"({"a":18446744073709551615})"), std::string("{\"a\\u0000b\":1}"),
        std::string("{\"a\":\"\xff\"}"), std::string("\0", 1), deep})
    EXPECT_THAT(again(json), HasSubstr("refused: ")) << json;
}

TEST(ExtendedJson, IsNotWrittenWhereItWouldBeAnother) {
  const Bson document = Bson("a", Bson("$numberInt", "5"));  // a document, not a number
  const Result<std::string> json = write_extended_json(document.view());
  ASSERT_FALSE(json);
  EXPECT_EQ(json.error().code, Code::kUnimplemented);
}

constexpr std::string_view kId =
    R"({"v":{"$numberInt":"2"},"key":{"_id":{"$numberInt":"1"}},"name":"_id_"})";

std::string metadata(const std::string& rest) {
  return R"({"indexes":[)" + std::string(kId) + "]" + rest + "}";
}

TEST(ExtendedJson, OfAnyDepthIsRefusedAndNotFollowed) {
  for (const auto& [begin, end] : {std::pair(R"({"$code":"x","$scope":)", "}"),
                                   std::pair(R"({"a":)", "}"), std::pair("[", "]")}) {
    std::string json = R"({"v":)";
    for (int i = 0; i < 100'000; ++i) json += begin;
    json += "{}";
    for (int i = 0; i < 100'000; ++i) json += end;
    const Result<Bson> read = read_extended_json(json + "}");
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, Code::kDataLoss);
    EXPECT_NE(read.error().message().find("nested too deeply"), std::string::npos)
        << read.error().message();
  }
}

TEST(Metadata, IsReadAndWritten) {
  const std::string json =
      R"({"options":{"capped":true,"size":{"$numberInt":"4096"}},"indexes":[)" + std::string(kId) +
      R"(],"uuid":"683a9e632d184f05a50554a4b61f9263","collectionName":"log","type":"collection"})";
  const Result<CollectionFacts> facts = parse_metadata(json);
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(facts->kind, CollectionKind::kCollection);
  EXPECT_EQ(facts->name, "log");
  EXPECT_EQ(facts->uuid, "683a9e632d184f05a50554a4b61f9263");
  EXPECT_EQ(facts->indexes.size(), 1);
  EXPECT_EQ(print_metadata(*facts), json);
}

TEST(Metadata, OfOlderToolsHasLess) {
  const Result<CollectionFacts> plain = parse_metadata(R"({"options":{},"indexes":[],"uuid":""})");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->kind, CollectionKind::kCollection);
  const Result<CollectionFacts> view =
      parse_metadata(R"({"options":{"viewOn":"a","pipeline":[]},"indexes":[]})");
  ASSERT_TRUE(view);
  EXPECT_EQ(view->kind, CollectionKind::kView);
  const Result<CollectionFacts> buckets =
      parse_metadata(R"({"options":{"timeseries":{"timeField":"t"}},"indexes":[]})");
  ASSERT_TRUE(buckets);
  EXPECT_EQ(buckets->kind, CollectionKind::kTimeSeries);
}

TEST(Metadata, ThatIsDamagedIsRefused) {
  const std::string id(kId);
  for (const auto& [json, says] : {
           std::pair(std::string(), "no JSON"),
           std::pair(std::string("{}"), "no indexes"),
           std::pair(std::string(R"({"indexes":null})"), "no array"),
           std::pair(std::string(R"({"indexes":[1]})"), "no key"),
           std::pair(std::string(R"({"indexes":[{"name":"a","key":{}}]})"), "no key"),
           std::pair(std::string(R"({"indexes":[{"key":{"a":1}}]})"), "no name"),
           std::pair(R"({"indexes":[)" + id + "," + id + "]}", "two indexes have the name _id_"),
           std::pair(metadata(R"(,"uuid":"683a")"), "uuid"),
           std::pair(metadata(R"(,"uuid":5)"), "uuid"),
           std::pair(metadata(R"(,"collectionName":"")"), "collectionName"),
           std::pair(metadata(R"(,"options":[])"), "options"),
           std::pair(metadata(R"(,"optiofs":{})"), "not known: optiofs"),
           std::pair(metadata(R"(,"type":"view")"), "type"),
           std::pair(metadata(R"(,"type":"collectiom")"), "type"),
           std::pair(metadata(R"(,"options":{"timeseries":{}},"type":"collection")"), "type"),
       }) {
    const Result<CollectionFacts> facts = parse_metadata(json);
    ASSERT_FALSE(facts) << json;
    EXPECT_EQ(facts.error().code, Code::kDataLoss) << json;
    EXPECT_THAT(facts.error().message(), HasSubstr(says)) << json;
  }
}

}  // namespace
}  // namespace idmint::restore
