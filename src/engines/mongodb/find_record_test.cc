// Which document a name finds, and what is said if there is none: nothing is made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "idmint/sequence.h"
#include "idmint/store.h"
#include "mint/sequence_spec.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/definitions.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::why;
using servers::mongo_command;
using servers::mongo_set;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class AdoptedByName : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = Store::open(mongo_set().url(database_), {.deadline = seconds{30}});
    ASSERT_TRUE(opened) << why(opened);
    store_ = *std::move(opened);
  }

  std::string ask(const std::string& json, const std::string& database = "") {
    return mongo_command(mongo_set().url(""), database.empty() ? database_ : database, json);
  }
  void insert(const std::string& documents, const std::string& collection = "counters") {
    ASSERT_THAT(ask(R"({"insert":")" + collection + R"(","documents":[)" + documents +
                    R"(],"writeConcern":{"w":"majority"}})"),
                HasSubstr(R"("ok" : 1.0)"));
  }
  std::string all(const std::string& collection = "counters") {
    const std::string reply = ask(R"({"find":")" + collection + R"(","sort":{"_id":1}})");
    const std::size_t from = reply.find("\"firstBatch\" : ");
    return reply.substr(from, reply.find(", \"ok\"", from) - from);
  }
  // As the command does.
  Result<Changed> create(const std::string& name, const std::string& adopt, bool make = false,
                         std::optional<std::string> where = {}) {
    const auto wanted = definition_of(
        {.name = name, .adopt = adopt, .make = make, .where = std::move(where)}, "mongodb://h/d");
    if (!wanted) return std::unexpected(wanted.error());
    return create_sequence(*store_, as_sequence(*wanted));
  }
  // The next value, as a process that starts later sees it.
  std::string next(const std::string& name) {
    const auto later = Store::open(mongo_set().url(database_), {.deadline = seconds{30}});
    if (!later) return why(later);
    const auto taken = (*later)->counters()->advance(name, 1, Take::kAll);
    return taken ? std::to_string(taken->first) : why(taken);
  }
  std::string kept(const std::string& name) {
    const auto found = store_->catalog()->find(name);
    return found ? as_sequence(*found).adopted : why(found);
  }
  void expect_refused(const std::string& adopt, const std::vector<std::string>& says,
                      std::optional<std::string> where = {}) {
    const std::string before = all();
    const auto refused = create("none", adopt, false, std::move(where));
    EXPECT_EQ(code_of(refused), Code::kFailedPrecondition) << adopt;
    for (const std::string& each : says) EXPECT_THAT(why(refused), HasSubstr(each)) << adopt;
    EXPECT_EQ(all(), before) << adopt;
    EXPECT_EQ(code_of(store_->catalog()->find("none")), Code::kNotFound);
    EXPECT_EQ(code_of(store_->counters()->peek("none")), Code::kNotFound);
  }

  fakes::TempFolder folder_;
  std::string database_ = std::filesystem::path(folder_.path("x")).parent_path().filename();
  std::unique_ptr<Store> store_;
};

struct Found {
  const char* id;     // in extended JSON
  const char* named;  // after "counters/"
  const char* kept;   // the same in the definition
};
constexpr std::array kFound = {
    Found{R"("orderid")", "orderid", "orderid"},
    Found{R"("orderid")", "text=orderid", "orderid"},
    Found{R"("5c5f23e0114925934b3a53b7")", "5c5f23e0114925934b3a53b7", "5c5f23e0114925934b3a53b7"},
    Found{R"({"$oid":"5c5f23e0114925934b3a53b7"})", "oid=5C5F23E0114925934B3A53B7",
          "oid=5c5f23e0114925934b3a53b7"},
    Found{R"({"$numberInt":"42"})", "42", "int=42"},
    Found{R"({"$numberInt":"42"})", "int=42", "int=42"},
    Found{R"({"$numberLong":"42"})", "42", "long=42"},
    Found{R"({"$numberLong":"4200000000"})", "4200000000", "long=4200000000"},
    Found{R"({"$numberLong":"-1"})", "-1", "long=-1"},
    Found{R"({"$numberDouble":"42"})", "42", "double=42"},
    Found{R"({"$numberDouble":"42"})", "double=42.0", "double=42"},
    Found{R"({"$numberDouble":"1.5"})", "double=1.5", "double=1.5"},
    Found{R"({"$uuid":"00112233-4455-6677-8899-aabbccddeeff"})",
          "uuid=00112233-4455-6677-8899-AABBCCDDEEFF", "uuid=00112233-4455-6677-8899-aabbccddeeff"},
    Found{R"("042")", "042", "042"},
    Found{R"("a/b:c=d, e")", "a/b:c=d, e", "a/b:c=d, e"},
    Found{R"("int=7")", "text=int=7", "text=int=7"},
    Found{R"("{\"a\":1}")", R"({"_id":"{\"a\":1}"})", R"({ "_id" : "{\"a\":1}" })"},
    Found{R"("Zähler")", R"({"_id":"Zähler"})", R"({ "_id" : "Zähler" })"},
    Found{R"({"$numberDecimal":"42"})", R"({"_id":{"$numberDecimal":"42"}})",
          R"({ "_id" : { "$numberDecimal" : "42" } })"},
    Found{R"({"$date":"2026-01-02T03:04:05Z"})", R"({"_id":{"$date":"2026-01-02T03:04:05Z"}})",
          R"({ "_id" : { "$date" : { "$numberLong" : "1767323045000" } } })"},
    Found{R"({"shop":"a","year":2026})", R"({"_id":{"shop":"a","year":2026}})",
          R"({ "_id" : { "shop" : "a", "year" : { "$numberInt" : "2026" } } })"},
    Found{R"({"$binary":{"base64":"AAEC","subType":"00"}})",
          R"({"_id":{"$binary":{"base64":"AAEC","subType":"00"}}})",
          R"({ "_id" : { "$binary" : { "base64" : "AAEC", "subType" : "00" } } })"},
};

TEST_F(AdoptedByName, EachTypeOfIdIsFoundAndKeptAsItIs) {
  int round = 0;
  for (const Found& found : kFound) {
    const std::string name = "s" + std::to_string(++round);
    insert(R"({"_id":)" + std::string(found.id) + R"(,"seq":20},{"_id":"beside","seq":1})");
    const std::string text = "counters/" + std::string(found.named) + ":last=seq";
    const auto made = create(name, text);
    ASSERT_TRUE(made) << why(made);
    EXPECT_EQ(kept(name), "counters/" + std::string(found.kept) + ":last=seq");
    EXPECT_EQ(next(name), "21") << text;
    EXPECT_EQ(next(name), "22") << text;
    EXPECT_TRUE(create(name, text)) << "again is fine";
    EXPECT_TRUE(create(name, kept(name))) << "and as it is kept";
    EXPECT_TRUE(peek_sequence(*store_, name)) << text;
    const auto raised = raise_sequence(*store_, name, 30);
    EXPECT_TRUE(raised) << why(raised);
    EXPECT_EQ(next(name), "31") << text;
    EXPECT_THAT(ask(R"({"count":"counters"})"), HasSubstr(R"("n" : 2)")) << "nothing was made";
    EXPECT_TRUE(retire_sequence(*store_, name));
    EXPECT_THAT(next(name), HasSubstr("closed"));
    ASSERT_THAT(ask(R"({"delete":"counters","deletes":[{"q":{},"limit":0}]})"),
                HasSubstr(R"("n" : 2)"));
  }
}

TEST_F(AdoptedByName, AQueryFindsOneDocumentByAnyFields) {
  insert(R"({"_id":{"$oid":"5c5f23e0114925934b3a53b7"},"id":"employees","seq":20})");
  insert(R"({"_id":{"$oid":"5c5f23e0114925934b3a53b8"},"id":"orders","seq":7})");
  const auto made = create("emp", "counters:last=seq", false, R"({"id": "employees"})");
  ASSERT_TRUE(made) << why(made);
  EXPECT_EQ(kept("emp"), "counters/oid=5c5f23e0114925934b3a53b7:last=seq");
  EXPECT_EQ(next("emp"), "21");
  EXPECT_TRUE(create("emp", "counters/:last=seq", false, R"({"seq": {"$gt": 20}})"));
  // The field changes, and the document is the same.
  ask(R"({"update":"counters","updates":[{"q":{"id":"employees"},"u":{"$set":{"id":"staff"}}}]})");
  EXPECT_EQ(next("emp"), "22");
  expect_refused("counters:last=seq", {"several", "oid=5c5f23e0114925934b3a53b7"},
                 R"({"seq": {"$gt": 0}})");
  expect_refused("counters:last=seq", {"it is not there"}, R"({"id": "ordres"})");
  for (const auto& [adopt, where] :
       {std::pair{"counters/a:last=seq", R"({"id": "orders"})"},
        std::pair{"counters", R"({"a":1})"}, std::pair{"counters:last=seq", "{}"},
        std::pair{"counters:last=seq", "{'id': 'orders'}"},
        std::pair{"counters:last=seq", "orders"}, std::pair{"counters:last=seq", R"({"id": )"},
        std::pair{"counters:last=seq", R"({"id": "orders"} x)"},
        std::pair{"counters:last=seq", R"(["orders"])"}})
    EXPECT_EQ(code_of(create("none", adopt, false, where)), Code::kInvalidArgument) << where;
  EXPECT_NE(code_of(create("none", "counters:last=seq", false, R"({"$nope": "a"})")), Code{0});
}

TEST_F(AdoptedByName, WhatIsMissingIsRefusedWithWhatIsThere) {
  insert(R"({"_id":{"$oid":"5c5f23e0114925934b3a53b7"},"id":"employees","seq":20})");
  insert(R"({"_id":"orderid","seq":3},{"_id":42,"seq":4},{"_id":"7","seq":5},{"_id":7,"seq":6})");
  insert(R"({"_id":{"$numberDecimal":"99"},"seq":1})");
  expect_refused("counters/5c5f23e0114925934b3a53b7:last=seq",
                 {"it is not there", "oid=5c5f23e0114925934b3a53b7"});
  expect_refused("counters/orderId:last=seq", {"did you mean orderid"});
  expect_refused("counters/ordrid:last=seq", {"did you mean orderid"});
  expect_refused("counters/employees:last=seq", {"in the field id", R"({"id": "employees"})"});
  expect_refused("counters/invoices:last=seq", {"there are", "orderid", "int=42"});
  expect_refused("counters/7:last=seq", {"counters/text=7", "counters/int=7"});
  expect_refused("counters/text=42:last=seq", {"int=42"});
  expect_refused("counters/long=42:last=seq", {"int=42"});
  expect_refused("counters/double=42:last=seq", {"int=42"});
  expect_refused("counters/99:last=seq", {"$numberDecimal", "by a query"});
  expect_refused("counters/042:last=seq", {"it is not there"});
  expect_refused("Counters/orderid:last=seq", {"nor is the collection", "did you mean counters"});
  expect_refused("counter/orderid:last=seq", {"did you mean counters"});
  expect_refused("counters/orderid:last=sqe", {"no field sqe; there is seq"});
  expect_refused("counters/orderid:last=Seq", {"did you mean seq"});
  expect_refused("counters/orderid:last=seq,max=end", {"no field end"});
  for (const char* const adopt : {"counters/oid=5c5f:last=seq", "counters/int=4.2:last=seq",
                                  "counters/int=4200000000:last=seq", "counters/uuid=7:last=seq",
                                  "counters/double=x:last=seq", "counters/orderid:last=a.b"})
    EXPECT_EQ(code_of(create("none", adopt)), Code::kInvalidArgument) << adopt;
  // Both documents exist: the type tells which is meant.
  ASSERT_TRUE(create("text", "counters/text=7:last=seq"));
  ASSERT_TRUE(create("int", "counters/int=7:last=seq"));
  EXPECT_EQ(next("text"), "6");
  EXPECT_EQ(next("int"), "7");
}

TEST_F(AdoptedByName, AnotherDatabaseThatHasTheCollectionIsNamed) {
  const std::string other = database_ + "_shop";
  ASSERT_THAT(ask(R"({"insert":"tallies","documents":[{"_id":"a","seq":1}]})", other),
              HasSubstr(R"("n" : 1)"));
  expect_refused("tallies/a:last=seq", {"nor is the collection tallies", other});
}

TEST_F(AdoptedByName, ViewsAndCappedCollectionsAreRefused) {
  insert(R"({"_id":"a","seq":1})");
  ASSERT_THAT(ask(R"({"create":"seen","viewOn":"counters","pipeline":[]})"),
              HasSubstr(R"("ok" : 1.0)"));
  ASSERT_THAT(ask(R"({"create":"ring","capped":true,"size":4096})"), HasSubstr(R"("ok" : 1.0)"));
  insert(R"({"_id":"a","seq":1})", "ring");
  expect_refused("seen/a:last=seq", {"a view on counters"});
  expect_refused("ring/a:last=seq", {"capped"});
  EXPECT_EQ(code_of(create("none", "seen/b:last=seq", true)), Code::kFailedPrecondition);
}

// As the collection compares, "ORDERID" is "orderid".
TEST_F(AdoptedByName, ACollationDoesNotMakeTwoNamesOne) {
  ASSERT_THAT(ask(R"({"create":"counters","collation":{"locale":"en","strength":2}})"),
              HasSubstr(R"("ok" : 1.0)"));
  insert(R"({"_id":"orderid","seq":3})");
  expect_refused("counters/ORDERID:last=seq", {"orderid"});
  ASSERT_TRUE(create("orders", "counters/orderid:last=seq"));
  EXPECT_EQ(next("orders"), "4");
}

TEST_F(AdoptedByName, WhatIsMissingIsMadeIfThatIsWanted) {
  ASSERT_TRUE(create("a", "counters/a:last=seq", true));
  ASSERT_TRUE(create("b", "counters/int=5:next=n", true));
  EXPECT_THAT(all(), AllOf(HasSubstr(R"({ "_id" : "a", "seq" : 0,)"),
                           HasSubstr(R"({ "_id" : 5, "n" : 0,)")));
  EXPECT_EQ(next("a"), "1");
  EXPECT_EQ(next("b"), "0");
  // An existing document is found first.
  insert(R"({"_id":42,"seq":4})");
  ASSERT_TRUE(create("c", "counters/42:last=seq", true));
  EXPECT_EQ(next("c"), "5");
  insert(R"({"_id":{"$oid":"5c5f23e0114925934b3a53b7"},"seq":20})");
  const auto like = create("none", "counters/5c5f23e0114925934b3a53b7:last=seq", true);
  EXPECT_THAT(why(like), HasSubstr("oid=5c5f23e0114925934b3a53b7"));
  EXPECT_EQ(code_of(create("none", "counters:last=seq", true, R"({"id":"x"})")),
            Code::kFailedPrecondition);
  // A deleted document is not made again.
  ASSERT_THAT(ask(R"({"delete":"counters","deletes":[{"q":{},"limit":0}]})"), HasSubstr("ok"));
  EXPECT_EQ(code_of(create("a", "counters/a:last=seq", true)), Code::kDataLoss);
  EXPECT_THAT(all(), HasSubstr("[  ]"));
}

TEST_F(AdoptedByName, TheStripesAreAllTextsOrAllIntegers) {
  const auto blocks = [&](const std::string& name, const std::string& adopt) {
    const auto wanted =
        definition_of({.name = name, .max = 29, .stripes = 3, .adopt = adopt}, "mongodb://h/d");
    if (!wanted) return Result<Changed>(std::unexpected(wanted.error()));
    return create_sequence(*store_, as_sequence(*wanted));
  };
  insert(R"({"_id":0,"n":0},{"_id":1,"n":10},{"_id":{"$numberInt":"2"},"n":20})");
  const auto made = blocks("ints", "counters/{k}:next=n");
  ASSERT_TRUE(made) << why(made);
  EXPECT_EQ(kept("ints"), "counters/int={k}:next=n");
  EXPECT_TRUE(blocks("ints", "counters/{k}:next=n"));
  EXPECT_EQ(next("ints/1"), "10");
  insert(R"({"_id":"b0","n":0},{"_id":"b1","n":10})");
  const auto refused = blocks("none", "counters/b{k}:next=n");
  EXPECT_THAT(why(refused), AllOf(HasSubstr("\"b2\""), HasSubstr("it is not there")));
  insert(R"({"_id":"b2","n":20})");
  ASSERT_TRUE(blocks("texts", "counters/b{k}:next=n"));
  EXPECT_EQ(next("texts/2"), "20");
}

// An older version kept these definitions. It knew texts only.
TEST_F(AdoptedByName, AnOlderDefinitionGoesOn) {
  for (const std::string id : {"int=5", "oid=x", "42"}) {
    insert(R"({"_id":")" + id + R"(","n":8})");
    insert(R"({"_id":")" + id +
               R"(","first":{"$numberLong":"0"},"last":{"$numberLong":"99"},"stride":)"
               R"({"$numberLong":"1"},"adopted":{"collection":"counters","id":")" +
               id + R"(","field":"n","holds_last":false,"max":""}})",
           "idmint.counters");
    insert(R"({"_id":")" + id + R"(","json":"{\"name\":\"old\",\"strategy\":\"counter\",)" +
               R"(\"first\":0,\"last\":99,\"adopted\":\"counters/)" + id + R"(:next=n\"}"})",
           "idmint.definitions");
    EXPECT_EQ(next(id), "8") << id;
  }
  insert(R"({"_id":"old","json":"{\"name\":\"old\",\"strategy\":\"counter\",)"
         R"(\"first\":0,\"last\":99,\"adopted\":\"counters/oid=x:next=n\"}"})",
         "idmint.definitions");
  const auto found = store_->catalog()->find("old");
  EXPECT_TRUE(found) << why(found);
}

}  // namespace
}  // namespace idmint
