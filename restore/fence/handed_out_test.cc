// HandedOutReader finds the largest value that was handed out, wherever and however an oplog has
// it.
#include "restore/fence/handed_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "idmint/sequence.h"
#include "restore/fence/minted.h"
#include "restore/oplog/reader.h"
#include "restore/tests/oplog_builder.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::restore {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

class HandedOutTest : public testing::Test {
 protected:
  Result<HandedOut> read(WatchedFields watched = {}, std::optional<Timestamp> limit = {}) {
    Result<OplogReader> reader = OplogReader::open(oplog_.write(folder_.path("oplog.bson")));
    if (!reader) return std::unexpected(std::move(reader.error()));
    HandedOutReader handed_out(std::move(watched), limit, most_documents_, scope_);
    for (;;) {
      const Result<std::optional<Entry>> entry = reader->next();
      if (!entry) return std::unexpected(entry.error());
      if (!*entry) break;
      if (Result<void> added = handed_out.add(**entry); !added)
        return std::unexpected(std::move(added.error()));
    }
    missed_ = handed_out.missed();
    return handed_out.finish();
  }
  HandedOut found(WatchedFields watched = {}, std::optional<Timestamp> limit = {}) {
    Result<HandedOut> all = read(std::move(watched), limit);
    EXPECT_TRUE(all) << all.error().message();
    return all ? *std::move(all) : HandedOut{};
  }
  // The history of the field seq of the document "users" in shop.counters.
  static FieldHistory users(const HandedOut& all) {
    for (const auto& [field, history] : all.fields)
      if (field.ns == "shop.counters" && field.field == "seq") return history;
    ADD_FAILURE() << "no history";
    return {};
  }

  OplogBuilder oplog_;
  WatchedFields missed_;
  std::size_t most_documents_ = HandedOutReader::kMostDocuments;
  HandedOutScope scope_ = HandedOutScope::kAll;

 private:
  fakes::TempFolder folder_;
};

std::string long_of(std::int64_t value) {
  return R"({"$numberLong":")" + std::to_string(value) + R"("})";
}

std::string counter_record(const std::string& name, std::int64_t next) {
  return R"({"_id":")" + name + R"(","first":)" + long_of(1) + R"(,"last":)" + long_of(1000) +
         R"(,"stride":)" + long_of(1) + R"(,"next":)" + long_of(next) + R"(,"closed":false})";
}

TEST_F(HandedOutTest, ACounterCameToItsLargestValue) {
  oplog_.insert("shop.idmint.counters", counter_record("a", 1))
      .set("shop.idmint.counters", R"("a")", R"({"next":)" + long_of(452) + "}")
      .set("shop.idmint.counters", R"("a")", R"({"next":)" + long_of(7) + "}")  // the mistake
      .insert("crm.idmint.counters", counter_record("a", 5))
      .add(R"("op":"u","ns":"crm.idmint.counters","o":)" + counter_record("a", 9) +
           R"(,"o2":{"_id":"a"})")
      .transaction(1, 1, {},
                   R"({"applyOps":[{"op":"u","ns":"shop.idmint.counters","o":{"$v":2,"diff":{"u":)"
                   R"({"next":)" +
                       long_of(40) + R"(},"i":{"numbers":"shop.invoices:no"}}},)" +
                       R"("o2":{"_id":"b"}}]})");
  const HandedOut all = found();
  ASSERT_TRUE(all.stores.contains("shop"));
  EXPECT_EQ(all.stores.at("shop").counters.at("a").next, 452);
  EXPECT_EQ(all.stores.at("crm").counters.at("a").next, 9) << "a document that was replaced";
  EXPECT_EQ(all.stores.at("shop").counters.at("b").next, 40) << "within a transaction";
  EXPECT_EQ(all.stores.at("shop").counters.at("b").numbers, "shop.invoices:no");
  EXPECT_EQ(all.entries, 6);
  EXPECT_EQ(all.last.ts, oplog_.last());
}

TEST_F(HandedOutTest, ADefinitionIsTheLastOne) {
  const SequenceDefinition first{.name = "a", .first = 1, .last = 10};
  SequenceDefinition longer = first;
  longer.last = 1000;
  SequenceDefinition retired = longer;
  retired.retired = true;
  const auto put = [&](const SequenceDefinition& definition, const char* op) {
    const Bson json = Bson("_id", definition.name, "json", to_json(definition));
    oplog_.add(std::string(R"("op":")") + op + R"(","ns":"shop.idmint.definitions","o":)" +
               to_canonical_json(json.view()) + R"(,"o2":{"_id":")" + definition.name + "\"}");
  };
  put(first, "i");
  put(longer, "u");
  put(retired, "u");
  HandedOut all = found();
  EXPECT_EQ(std::get<SequenceDefinition>(all.stores.at("shop").definitions.at("a")), retired);
  EXPECT_THAT(all.stores.at("shop").redefined, IsEmpty());

  SequenceDefinition other = longer;
  other.first = 500;
  put(other, "u");
  all = found();
  EXPECT_THAT(all.stores.at("shop").redefined, ElementsAre("a")) << "another sequence of its name";
  all = found({}, oplog_.last());
  EXPECT_THAT(all.stores.at("shop").redefined, IsEmpty()) << "what was there before the limit";
  EXPECT_EQ(all.stores.at("shop").definitions.size(), 1);
}

TEST_F(HandedOutTest, BoundsAndClaimsAreByCollection) {
  oplog_.insert("shop.idmint.workers.web", R"({"_id":0,"minted_until":{"$numberLong":"700"}})")
      .set("shop.idmint.workers.web", "0", R"({"minted_until":{"$numberLong":"900"}})")
      .set("shop.idmint.workers.web", "1", R"({"minted_until":{"$numberLong":"800"}})")
      .insert("shop.idmint.claims.codes", R"({"_id":"space","name":"codes","closed":false})")
      .insert("shop.idmint.claims.codes", R"({"_id":{"$numberLong":"17"}})")
      .insert("shop.idmint.claims.codes", R"({"_id":{"$numberLong":"4"}})")
      .insert("shop.idmint.claims.codes", R"({"_id":{"$numberLong":"17"}})");
  const HandedOut all = found();
  EXPECT_THAT(all.stores.at("shop").bounds, ElementsAre(Pair("idmint.workers.web", 900)));
  EXPECT_THAT(all.stores.at("shop").claims,
              ElementsAre(Pair("idmint.claims.codes", ElementsAre(4, 17))));
}

TEST_F(HandedOutTest, StoresAloneAndTheirClaimsFromTheLimitOn) {
  scope_ = HandedOutScope::kStores;
  oplog_.insert("shop.idmint.claims.codes", R"({"_id":{"$numberLong":"17"}})")
      .insert("shop.idmint.counters", counter_record("a", 7))
      .insert("shop.counters", R"({"_id":"users","seq":5})")
      .set("shop.numbers", R"("n")", R"({"value":40,"other":1})");
  const Timestamp limit = oplog_.next();
  oplog_.insert("shop.idmint.claims.codes", R"({"_id":{"$numberLong":"4"}})")
      .set("shop.numbers", R"("n")", R"({"value":39,"other":2})")
      .set("shop.counters", R"("users")", R"({"seq":6,"other":3})");
  const HandedOut all = found({{"shop.numbers", {"value"}}}, limit);
  EXPECT_THAT(all.stores.at("shop").claims,
              ElementsAre(Pair("idmint.claims.codes", ElementsAre(4))));
  EXPECT_EQ(all.stores.at("shop").counters.at("a").next, 7);
  ASSERT_EQ(all.fields.size(), 1U);
  EXPECT_EQ(all.fields.begin()->first.field, "value");
  EXPECT_EQ(all.fields.begin()->second.largest, 40);
}

TEST_F(HandedOutTest, WhatACounterWasAdoptedFromIsReadAgain) {
  oplog_.set("shop.numbers", R"("n")", R"({"value":40})")
      .insert("shop.idmint.counters",
              R"({"_id":"a","first":{"$numberLong":"1"},"last":{"$numberLong":"9"},"stride":)"
              R"({"$numberLong":"1"},"adopted":{"collection":"numbers","id":"n","field":"value",)"
              R"("holds_last":true,"max":""}})");
  found();
  ASSERT_TRUE(missed_.contains("shop.numbers"));
  const HandedOut all = found(missed_);
  EXPECT_THAT(missed_, IsEmpty());
  const AdoptedPlace place = all.stores.at("shop").adopted.at("a");
  EXPECT_EQ(place.field, "value");
  ASSERT_EQ(all.fields.size(), 1);
  EXPECT_EQ(place.next_of(all.fields.begin()->second.largest), 41);
  EXPECT_EQ(place.next_of(INT64_MAX), INT64_MAX);
}

TEST_F(HandedOutTest, AFallFromTheLimitOnIsTheMistake) {
  oplog_.set("shop.counters", R"("users")", R"({"seq":440})")
      .set("shop.counters", R"("users")", R"({"seq":452})")
      .set("shop.counters", R"("users")", R"({"seq":5})")
      .set("shop.counters", R"("users")", R"({"seq":6})");
  const Timestamp limit{.seconds = 100, .ordinal = 3};
  FieldHistory history = users(found({}, limit));
  EXPECT_EQ(history.largest, 452);
  EXPECT_EQ(history.last, 6);
  EXPECT_EQ(history.largest_step, 12);
  EXPECT_EQ(history.rises, 2);
  EXPECT_EQ(history.falls, 0);
  EXPECT_EQ(history.late_falls, 1);
  history = users(found());
  EXPECT_EQ(history.falls, 1) << "where no limit is known, none is a mistake";
}

TEST_F(HandedOutTest, ADocumentThatIsMadeAgainFell) {
  oplog_.set("shop.counters", R"("users")", R"({"seq":452})")
      .remove("shop.counters", R"("users")")
      .insert("shop.counters", R"({"_id":"users","seq":1})");
  const FieldHistory history = users(found({}, Timestamp{.seconds = 100, .ordinal = 2}));
  EXPECT_EQ(history.largest, 452);
  EXPECT_EQ(history.late_falls, 1);
  EXPECT_NE(history.made, "");
}

TEST_F(HandedOutTest, ValuesOfOddTypesAreTold) {
  oplog_.set("shop.counters", R"("users")", R"({"seq":{"$numberDouble":"41.5"}})")
      .set("shop.counters", R"("users")", R"({"seq":{"$numberDecimal":"43"}})")
      .set("shop.counters", R"("users")", R"({"seq":"44"})")
      .set("shop.counters", R"("users")", R"({"seq":{"$numberDouble":"1e300"}})")
      .set("shop.counters", R"("users")", R"({"seq":{"$numberLong":"9223372036854775807"}})");
  const FieldHistory history = users(found());
  EXPECT_EQ(history.largest, INT64_MAX);
  EXPECT_EQ(history.odd, "a double") << "the last one that 64 bits do not hold";
  EXPECT_EQ(history.falls, 0);
}

TEST_F(HandedOutTest, AnInsertCountsOnlyInTheShapeOfARecipe) {
  oplog_.insert("shop.songs", R"({"_id":1,"index":5,"title":"a"})")
      .insert("shop.ids", R"({"_id":"orders","index":1000})");
  const HandedOut all = found();
  ASSERT_EQ(all.fields.size(), 1);
  EXPECT_EQ(all.fields.begin()->first.ns, "shop.ids");
}

TEST_F(HandedOutTest, WhatRoseAndIsNoCounterIsShown) {
  for (int i = 1; i <= 5; ++i) {
    oplog_.set("shop.accounts", "1", R"({"balance":)" + std::to_string(100 * i) + "}");
    oplog_.set("shop.accounts", "2", R"({"balance":)" + std::to_string(7 * i) + "}");
    oplog_.set("shop.stock", "1", R"({"left":)" + std::to_string(i % 3) + "}");
  }
  const HandedOut all = found();
  EXPECT_THAT(all.fields, IsEmpty());
  ASSERT_EQ(all.rising.size(), 1) << "what fell, too, is no counter";
  EXPECT_EQ(all.rising.front().field, "balance");
  EXPECT_EQ(all.rising.front().rises, 8);
  EXPECT_EQ(all.rising.front().documents, 2);
}

TEST_F(HandedOutTest, AFieldOfVeryManyDocumentsIsNoCounterUnlessItIsNamed) {
  most_documents_ = 3;
  for (int i = 0; i < 5; ++i) oplog_.set("shop.events", std::to_string(i), R"({"seq":7})");
  oplog_.set("shop.counters", R"("users")", R"({"seq":8})");
  HandedOut all = found();
  EXPECT_THAT(all.too_many, ElementsAre("shop.events.seq"));
  EXPECT_EQ(all.fields.size(), 1);
  all = found({{"shop.events", {"seq"}}});
  EXPECT_THAT(all.too_many, IsEmpty());
  EXPECT_EQ(all.fields.size(), 6);
}

TEST_F(HandedOutTest, AValueThatNoIdmintWroteHidesNoOther) {
  HandedOutCounter counter;
  for (const std::int64_t value : {5, 6, 900, 7, 7, 900, 6}) counter.reach(value);
  EXPECT_EQ(counter.next, 900);
  EXPECT_THAT(counter.lower, ElementsAre(7, 6, 5, 0));
  for (std::int64_t value = 10; value < 30; ++value) counter.reach(value);
  EXPECT_EQ(counter.next, 900);
  EXPECT_THAT(counter.lower, ElementsAre(29, 28, 27, 26, 25, 24, 23, 22));
}

TEST_F(HandedOutTest, WhatRetiringMakesOfBoundsWasNeverGranted) {
  oplog_.set("shop.idmint.workers.web", "0", R"({"minted_until":{"$numberLong":"900"}})")
      .set("shop.idmint.workers.web", "0",
           R"({"minted_until":{"$numberLong":"4611686018427387904"}})");
  EXPECT_THAT(found().stores.at("shop").bounds, ElementsAre(Pair("idmint.workers.web", 900)));
}

TEST_F(HandedOutTest, OneOutOfOrderIsDamage) {
  oplog_.set("shop.counters", R"("users")", R"({"seq":440})")
      .add_at(
          {.seconds = 99, .ordinal = 1},
          R"("op":"u","ns":"shop.counters","o":{"$v":2,"diff":{"u":{"seq":5}}},"o2":{"_id":1})");
  const Result<HandedOut> all = read();
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code, Code::kDataLoss);
  EXPECT_THAT(all.error().message(), HasSubstr("the entry 99:1 comes after the entry 100:1"));
}

TEST_F(HandedOutTest, TheLargestOfTwoReportsCounts) {
  HandedOutStore one;
  one.counters["a"] = {.next = 50, .last = 100};
  one.counters["b"] = {.next = 5};
  one.bounds["idmint.workers.web"] = 9;
  HandedOutStore other;
  other.counters["a"] = {.next = 40, .last = 1000, .numbers = "shop.invoices:no"};
  other.counters["c"] = {.next = 6};
  other.bounds["idmint.workers.web"] = 8;
  other.redefined.insert("c");
  unite(one, other);
  EXPECT_EQ(one.counters.at("a").next, 50);
  EXPECT_EQ(one.counters.at("a").last, 1000);
  EXPECT_EQ(one.counters.at("a").numbers, "shop.invoices:no");
  EXPECT_EQ(one.counters.at("c").next, 6);
  EXPECT_EQ(one.bounds.at("idmint.workers.web"), 9);
  EXPECT_THAT(one.redefined, ElementsAre("c"));
}

TEST(IssuedValues, TheStoreOfADatabase) {
  EXPECT_EQ(with_database("mongodb://a,b/?x=y", "shop"), "mongodb://a,b/shop?x=y");
  EXPECT_EQ(with_database("mongodb://a", "shop"), "mongodb://a/shop");
  EXPECT_EQ(with_database("mongodb://u:***@a:1/other", "shop"), "mongodb://u:***@a:1/shop");
}

}  // namespace
}  // namespace idmint::restore
