#include "restore/fence/shapes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "mongo/bson.h"

namespace idmint::restore {
namespace {

Bson json(const std::string& text) {
  Result<Bson> document = from_json(text);
  EXPECT_TRUE(document) << text;
  return document ? *std::move(document) : Bson();
}

std::optional<std::int64_t> counted(const std::string& value) {
  const Bson document = json(R"({"n":)" + value + "}");
  const auto number = counted_number(document.view(), "n");
  if (!number) return std::nullopt;
  return number->value;
}

TEST(CountedNumber, IsAnyNumberRoundedUp) {
  EXPECT_EQ(counted(R"({"$numberInt":"-7"})"), -7);
  EXPECT_EQ(counted(R"({"$numberLong":"9223372036854775807"})"), INT64_MAX);
  EXPECT_EQ(counted(R"({"$numberDouble":"41.5"})"), 42);
  EXPECT_EQ(counted(R"({"$numberDouble":"9007199254740992"})"), std::int64_t{1} << 53);
  EXPECT_EQ(counted(R"({"$numberDecimal":"9223372036854775807"})"), INT64_MAX);
  EXPECT_EQ(counted(R"({"$numberDecimal":"12.01"})"), 13);
}

TEST(CountedNumber, IsNoOther) {
  for (const char* const other :
       {R"("42")", "null", "true", R"({"$numberDouble":"NaN"})", R"({"$numberDouble":"Infinity"})",
        R"({"$numberDouble":"9223372036854775808"})", R"({"$numberDecimal":"9223372036854775808"})",
        R"({"$numberDecimal":"NaN"})", R"([1])", R"({"$date":"2026-01-01T00:00:00Z"})"})
    EXPECT_EQ(counted(other), std::nullopt) << other;
  EXPECT_FALSE(counted_number(json("{}").view(), "n"));
}

TEST(FieldWith, KeepsTheTypeThatCounts) {
  const auto text = [](std::uint8_t type, std::int64_t value) {
    const Result<Bson> set = field_with("n", type, value);
    return set ? to_canonical_json(set->view()) : std::string(name(set.error().code));
  };
  EXPECT_EQ(text(BSON_TYPE_INT32, 7), R"({ "n" : { "$numberInt" : "7" } })");
  EXPECT_EQ(text(BSON_TYPE_INT32, 2147483648), R"({ "n" : { "$numberLong" : "2147483648" } })");
  EXPECT_EQ(text(BSON_TYPE_INT64, INT64_MAX),
            R"({ "n" : { "$numberLong" : "9223372036854775807" } })");
  EXPECT_EQ(text(BSON_TYPE_DOUBLE, 452), R"({ "n" : { "$numberDouble" : "452.0" } })");
  EXPECT_EQ(text(BSON_TYPE_DOUBLE, (std::int64_t{1} << 53) - 1),
            R"({ "n" : { "$numberDouble" : "9007199254740991.0" } })");
  EXPECT_EQ(text(BSON_TYPE_DOUBLE, std::int64_t{1} << 53), "FAILED_PRECONDITION");
  EXPECT_EQ(text(BSON_TYPE_DECIMAL128, INT64_MAX),
            R"({ "n" : { "$numberDecimal" : "9223372036854775807" } })");
  EXPECT_EQ(text(BSON_TYPE_UTF8, 7), "FAILED_PRECONDITION");
}

TEST(ClassicRecipe, IsOneOfFour) {
  const auto recipe = [](const std::string& collection, const std::string& document,
                         const std::string& field) {
    return std::string(classic_recipe(collection, json(document).view(), field));
  };
  EXPECT_EQ(recipe("any", R"({"_id":"k","COUNT":1,"MAXCOUNT":9})", "COUNT"), "COUNT and MAXCOUNT");
  EXPECT_EQ(recipe("any", R"({"_id":"k","COUNT":1.0,"MAX_VALUE":9,"NOTES":"n"})", "COUNT"),
            "COUNT and MAXCOUNT");
  EXPECT_EQ(recipe("uniqueIdentifierCounter", R"({"_id":"k","COUNT":1,"NOTES":"n"})", "COUNT"),
            "uniqueIdentifierCounter");
  EXPECT_EQ(recipe("counters", R"({"_id":"userid","seq":0})", "seq"), "seq");
  EXPECT_EQ(recipe("ids", R"({"_id":"orders","index":1000})", "index"), "index");
  EXPECT_EQ(recipe("x", R"({"_id":1,"uniqueIdentifierCounter":5})", "uniqueIdentifierCounter"),
            "uniqueIdentifierCounter");
}

TEST(ClassicRecipe, IsNotWhatOnlyHasSuchAField) {
  const auto recipe = [](const std::string& collection, const std::string& document,
                         const std::string& field) {
    return std::string(classic_recipe(collection, json(document).view(), field));
  };
  EXPECT_EQ(recipe("pages", R"({"_id":"home","COUNT":1})", "COUNT"), "") << "of visits";
  EXPECT_EQ(recipe("songs", R"({"_id":"a","index":3,"title":"b"})", "index"), "");
  EXPECT_EQ(recipe("events", R"({"_id":"a","seq":3,"at":{"$date":"2026-01-01T00:00:00Z"}})", "seq"),
            "");
  EXPECT_EQ(recipe("hours", R"({"_id":{"day":1},"seq":3})", "seq"), "") << "a grouped _id";
  EXPECT_EQ(recipe("counters", R"({"_id":"userid","seq":"7"})", "seq"), "") << "a text";
  EXPECT_EQ(recipe("counters", R"({"_id":"userid","seq":7})", "index"), "") << "no such field";
  EXPECT_EQ(recipe("accounts", R"({"_id":"a","balance":7})", "balance"), "");
}

TEST(CounterField, IsWhatFollowsTheLastDot) {
  const Result<CounterField> counter = parse_counter_field("shop.my.numbers.next");
  ASSERT_TRUE(counter);
  EXPECT_EQ(counter->ns, "shop.my.numbers");
  EXPECT_EQ(counter->field, "next");
  for (const char* const wrong :
       {"", "shop", "shop.next", ".a.b", "a..b", "a.b.", "shop.numbers._id", "admin.a.b",
        "local.a.b", "config.a.b", "shop.system.a.b", "shop.idmint.counters.next"})
    EXPECT_FALSE(parse_counter_field(wrong)) << wrong;
}

}  // namespace
}  // namespace idmint::restore
