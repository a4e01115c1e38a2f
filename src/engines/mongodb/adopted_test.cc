// Documents that other programs made, adopted as they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engines/mongodb/adopted_record.h"
#include "idmint/mongodb.h"
#include "idmint/sequence.h"
#include "idmint/store.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "tests/conformance/adopted_record.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/definitions.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"

namespace idmint {
namespace {

using conformance::AdoptedPlace;
using conformance::AdoptedRecords;
using conformance::AdoptedWay;
using fakes::code_of;
using fakes::why;
using servers::mongo_command;
using servers::mongo_set;
using servers::PlainClients;
using std::chrono::seconds;
using stores::mongodb::AdoptedRecord;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kTwoTo53 = std::int64_t{1} << 53;

const AdoptedRecord kCounter{.collection = "counters", .id = "one", .field = "COUNT"};
const AdoptedRecord kBounded{
    .collection = "counters", .id = "one", .field = "COUNT", .max = "MAX_VALUE"};

class Adopted : public testing::Test {
 protected:
  static void SetUpTestSuite() { static_cast<void>(mongo_set()); }

  void SetUp() override {
    auto opened = Store::open(mongo_set().url(database_), {.deadline = seconds{30}});
    ASSERT_TRUE(opened) << why(opened);
    store_ = *std::move(opened);
  }

  CounterStore& counters() { return *store_->counters(); }
  auto adopt(const AdoptedRecord& record, const CounterBounds& bounds,
             const std::string& name = "c") {
    const NewCounter one{name, bounds, to_text(record), 0, true};
    return counters().create(std::span(&one, 1));
  }
  std::unique_ptr<Store> another() {
    auto opened = Store::open(mongo_set().url(database_), {.deadline = seconds{30}});
    EXPECT_TRUE(opened) << why(opened);
    return opened ? *std::move(opened) : nullptr;
  }
  Result<Range> take(std::int64_t count, Take how = Take::kAll) {
    return counters().advance("c", count, how);
  }

  std::string ask(const std::string& json) {
    return mongo_command(mongo_set().url(""), database_, json);
  }
  // Puts `document`, without its _id, in the place of the one that is adopted.
  void put(const std::string& document) {
    ASSERT_THAT(ask(R"({"update":"counters","updates":[{"q":{"_id":"one"},"u":)" + document +
                    R"(,"upsert":true}],"writeConcern":{"w":"majority"}})"),
                HasSubstr(R"("ok" : 1.0)"));
  }
  void remove() {
    ASSERT_THAT(ask(R"({"delete":"counters","deletes":[{"q":{},"limit":0}],)"
                    R"("writeConcern":{"w":"majority"}})"),
                HasSubstr(R"("n" : 1)"));
  }
  std::string documents(const std::string& collection = "counters") {
    const std::string reply = ask(R"({"find":")" + collection + R"(","sort":{"_id":1}})");
    const std::size_t from = reply.find("\"firstBatch\" : ");
    return reply.substr(from, reply.rfind(", \"id\"") - from);
  }
  bool is(const std::string& type) {
    return ask(R"({"count":"counters","query":{"$jsonSchema":{"required":["COUNT"],)"
               R"("properties":{"COUNT":{"bsonType":")" +
               type + "\"}}}}}")
        .contains(R"("n" : 1)");
  }

  fakes::TempFolder folder_;
  // The name of the folder, which nobody else has.
  std::string database_ = std::filesystem::path(folder_.path("x")).parent_path().filename();
  std::unique_ptr<Store> store_;
};

// ---- beside programs that count with findAndModify

// One that takes a value: it is in the document before, or after.
PlainClients::Next program(const std::string& database, const std::string& field, bool is_last) {
  return [database, field, is_last]() -> std::int64_t {
    const std::string reply =
        mongo_command(mongo_set().url(""), database,
                      R"({"findAndModify":"counters","query":{"_id":"one"},"update":{"$inc":{")" +
                          field + R"(":1}},"new":)" + (is_last ? "true" : "false") +
                          R"(,"writeConcern":{"w":"majority"}})");
    const std::string before = "\"" + field + "\" : ";
    const std::size_t at = reply.find(before);
    if (at != std::string::npos) return std::stoll(reply.substr(at + before.size()));
    ADD_FAILURE() << reply;
    return -1;
  };
}

AdoptedWay way(const std::string& name, const AdoptedRecord& record) {
  return {name, [record](std::int64_t last) {
            const std::string database = conformance::name_of_test();
            mongo_command(mongo_set().url(""), database,
                          R"({"insert":"counters","documents":[{"_id":"one",")" + record.field +
                              "\":" + std::to_string(record.holds_last ? last : last + 1) +
                              R"(}],"writeConcern":{"w":"majority"}})");
            const std::string back =
                R"({"update":"counters","updates":[{"q":{"_id":"one"},"u":{"$set":{")" +
                record.field + "\":" + (record.holds_last ? "2" : "3") +
                R"(}}}],"writeConcern":{"w":"majority"}})";
            const auto set_back = [database, back] {
              mongo_command(mongo_set().url(""), database, back);
            };
            return AdoptedPlace{
                .url = mongo_set().url(database),
                .record = to_text(record),
                .connect = [=] { return program(database, record.field, record.holds_last); },
                .set_backs = {set_back, set_back}};
          }};
}

INSTANTIATE_TEST_SUITE_P(Mongodb, AdoptedRecords,
                         testing::Values(way("Next", kCounter),
                                         way("Last", {.collection = "counters",
                                                      .id = "one",
                                                      .field = "seq",
                                                      .holds_last = true})),
                         conformance::name_of_way);

// ---- what only MongoDB can show

TEST_F(Adopted, WhatIsMissingIsMadeAsTheClassicScriptsDo) {
  ASSERT_TRUE(adopt(kBounded, {1000, 1999}));
  EXPECT_THAT(documents(),
              HasSubstr(R"([ { "_id" : "one", "COUNT" : 1000, "MAX_VALUE" : 1999, "NOTES" : )"
                        R"("Increment COUNT using findAndModify to ensure that the COUNT field )"
                        R"(will be incremented atomically with the fetch of this document", )"
                        R"("next_by_idmint" : { "COUNT" : 1000 } } ])"));
  EXPECT_TRUE(is("long"));
  EXPECT_THAT(
      documents("idmint.counters"),
      HasSubstr(R"([ { "_id" : "c", "first" : 1000, "last" : 1999, "stride" : 1, "adopted" : )"
                R"({ "collection" : "counters", "id" : "one", "field" : "COUNT", )"
                R"("holds_last" : false, "max" : "MAX_VALUE", "floor" : true } } ])"));
  EXPECT_EQ(take(5), (Range{1000, 1, 5}));
  ASSERT_TRUE(adopt(kBounded, {1000, 1999})) << "again is fine";
  EXPECT_EQ(take(1), (Range{1005, 1, 1}));
  EXPECT_THAT(documents(), HasSubstr(R"("COUNT" : 1006,)"));

  const AdoptedRecord ids{.collection = "ids", .id = "orders", .field = "index"};
  ASSERT_TRUE(adopt(ids, {1000, kLargestValue}, "ids"));
  EXPECT_THAT(documents("ids"),
              HasSubstr(R"([ { "_id" : "orders", "index" : 1000, "next_by_idmint" : )"));
}

TEST_F(Adopted, AValueThatIsThereIsGoneOnWith) {
  put(R"({"COUNT":41,"MAX_VALUE":99,"colour":"red"})");
  ASSERT_TRUE(adopt(kBounded, {0, 99}));
  EXPECT_THAT(documents(), HasSubstr(R"("COUNT" : 41, "MAX_VALUE" : 99, "colour" : "red", )"
                                     R"("next_by_idmint" : { "COUNT" : 41 } })"));
  EXPECT_EQ(take(2), (Range{41, 1, 2}));
  // The classic programs, in between.
  ASSERT_THAT(ask(R"({"findAndModify":"counters","query":{"_id":"one"},)"
                  R"("update":{"$inc":{"COUNT":10}}})"),
              HasSubstr(R"("COUNT" : 43)"));
  EXPECT_EQ(take(2), (Range{53, 1, 2}));
  EXPECT_THAT(documents(), HasSubstr(R"("COUNT" : 55, "MAX_VALUE" : 99, "colour" : "red", )"
                                     R"("next_by_idmint" : { "COUNT" : 55 } })"));
  EXPECT_EQ(counters().peek("c"), (CounterState{"c", {0, 99}, 55, false}));
}

TEST_F(Adopted, NothingPastTheLastValueIsTaken) {
  ASSERT_TRUE(adopt(kBounded, {0, 99}));
  EXPECT_EQ(take(90), (Range{0, 1, 90}));
  EXPECT_EQ(code_of(take(11)), Code::kOutOfRange);
  EXPECT_EQ(take(1000, Take::kTail), (Range{90, 1, 10}));
  EXPECT_EQ(code_of(take(1, Take::kTail)), Code::kOutOfRange);
  EXPECT_THAT(documents(), HasSubstr(R"("COUNT" : 100,)"));
  // The classic programs look at MAX_VALUE afterwards.
  put(R"({"$inc":{"COUNT":100}})");
  EXPECT_EQ(code_of(take(1, Take::kTail)), Code::kOutOfRange);
  EXPECT_EQ(counters().peek("c"), (CounterState{"c", {0, 99}, 100, false}));
  EXPECT_EQ(counters().raise("c", 50), 100);
  EXPECT_THAT(documents(), HasSubstr(R"("COUNT" : 200,)"));
}

// Each advance is one command, which looks at the bounds itself.
TEST_F(Adopted, TheBoundsAreThoseOfTheInstant) {
  ASSERT_TRUE(adopt(kBounded, {0, 99}));
  EXPECT_EQ(take(1), (Range{0, 1, 1}));
  put(R"({"$set":{"MAX_VALUE":9}})");
  EXPECT_EQ(take(50, Take::kTail), (Range{1, 1, 9})) << "lowered by hand";
  put(R"({"$set":{"MAX_VALUE":1000}})");
  EXPECT_EQ(take(500, Take::kTail), (Range{10, 1, 90})) << "the definition's end holds as well";

  // Another process extends it: read again where this one would refuse.
  const auto other = Store::open(mongo_set().url(database_), {.deadline = seconds{30}});
  ASSERT_TRUE(other) << why(other);
  EXPECT_EQ((*other)->counters()->extend("c", 2000), (CounterBounds{0, 2000}));
  EXPECT_EQ(take(500), (Range{100, 1, 500}));
  EXPECT_THAT(documents(), HasSubstr(R"("MAX_VALUE" : 2000,)"));
  EXPECT_THAT(documents("idmint.counters"), HasSubstr(R"("last" : 2000,)"));
  EXPECT_EQ(counters().extend("c", 500), (CounterBounds{0, 2000}));
}

TEST_F(Adopted, TheTypeStays) {
  for (const auto& [type, value] :
       {std::pair{"int", R"({"$numberInt":"5"})"}, std::pair{"long", R"({"$numberLong":"5"})"},
        std::pair{"double", R"({"$numberDouble":"5"})"}}) {
    const std::string name = type;
    put(R"({"COUNT":)" + std::string(value) + "}");
    ASSERT_TRUE(adopt(kCounter, {0, 1'000'000}, name)) << type;
    EXPECT_EQ(counters().advance(name, 7, Take::kAll), (Range{5, 1, 7})) << type;
    EXPECT_TRUE(is(name)) << documents();
    EXPECT_EQ(counters().raise(name, 100), 100);
    EXPECT_TRUE(is(name)) << documents();
    EXPECT_EQ(counters().extend(name, 2'000'000), (CounterBounds{0, 2'000'000}));
    EXPECT_TRUE(is(name)) << documents();
    EXPECT_EQ(counters().advance(name, kLargestValue, Take::kTail), (Range{100, 1, 1'999'901}));
    EXPECT_TRUE(is(name)) << documents();
    ASSERT_TRUE(counters().close(name)) << "the next goes on from another value";
  }
}

// As $inc does; the classic scripts begin with small integers, and 12 digits need more.
TEST_F(Adopted, AnInt32ThatIsFullGoesOnAsAnInt64) {
  put(R"({"COUNT":{"$numberInt":"2147483640"}})");
  ASSERT_TRUE(adopt(kCounter, {0, kTwoTo53}));
  EXPECT_EQ(take(7), (Range{2147483640, 1, 7}));
  EXPECT_TRUE(is("int"));
  EXPECT_EQ(take(7), (Range{2147483647, 1, 7}));
  EXPECT_TRUE(is("long"));
  EXPECT_EQ(take(1), (Range{2147483654, 1, 1}));
}

TEST_F(Adopted, ADoubleEndsWhereItStopsCounting) {
  put(R"({"COUNT":{"$numberDouble":"9007199254740985"}})");
  const auto refused = adopt(kCounter, {0, kLargestValue});
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(why(refused), HasSubstr("counts by one up to 9007199254740990"));
  ASSERT_TRUE(adopt(kCounter, {0, kTwoTo53 - 2}));
  EXPECT_EQ(take(3), (Range{9007199254740985, 1, 3}));
  EXPECT_EQ(take(100, Take::kTail), (Range{9007199254740988, 1, 3}));
  EXPECT_EQ(code_of(take(1)), Code::kOutOfRange);
  EXPECT_TRUE(is("double"));
  EXPECT_EQ(code_of(counters().extend("c", kTwoTo53)), Code::kInvalidArgument);
  EXPECT_THAT(documents("idmint.counters"), HasSubstr(R"("last" : 9007199254740990,)"))
      << "nothing was changed";
  // A long that another program's $inc made a double.
  ASSERT_TRUE(counters().close("c"));
  remove();
  ASSERT_TRUE(adopt(kCounter, {0, kLargestValue}, "d"));
  put(R"({"$set":{"COUNT":{"$numberDouble":"9007199254740985"}}})");
  EXPECT_EQ(counters().advance("d", kLargestValue, Take::kTail), (Range{9007199254740985, 1, 6}));
  EXPECT_THAT(documents(), HasSubstr("9007199254740991"));
}

TEST_F(Adopted, ADoubleIsNotExtendedToWhereItCannotCount) {
  put(R"({"COUNT":41.0,"MAX_VALUE":99})");
  ASSERT_TRUE(is("double"));
  ASSERT_TRUE(create_sequence(*store_,
                              {.name = "c", .first = 0, .last = 99, .adopted = to_text(kBounded)}));
  const std::string document = documents();
  const std::string record = documents("idmint.counters");
  const auto refused = alter_sequence(*store_, "c", kTwoTo53);
  EXPECT_EQ(code_of(refused), Code::kInvalidArgument);
  EXPECT_THAT(why(refused), HasSubstr("make it a NumberLong"));
  EXPECT_EQ(code_of(counters().extend("c", kTwoTo53)), Code::kInvalidArgument);
  EXPECT_EQ(documents(), document);
  EXPECT_EQ(documents("idmint.counters"), record);
  const auto there = store_->catalog()->find("c");
  ASSERT_TRUE(there) << why(there);
  EXPECT_EQ(as_sequence(*there).last, 99);
  EXPECT_TRUE(raise_sequence(*store_, "c", 50));
  const auto extended = alter_sequence(*store_, "c", kTwoTo53 - 2);
  EXPECT_TRUE(extended) << why(extended);
  EXPECT_EQ(counters().peek("c")->bounds, (CounterBounds{0, kTwoTo53 - 2}));
}

TEST_F(Adopted, TheLargestValueOfAnInt64IsReached) {
  put(R"({"COUNT":{"$numberLong":"9223372036854775800"}})");
  ASSERT_TRUE(adopt(kCounter, {0, kLargestValue}));
  EXPECT_EQ(take(kLargestValue, Take::kTail), (Range{9223372036854775800, 1, 7}));
  EXPECT_EQ(code_of(take(1, Take::kTail)), Code::kOutOfRange);
  EXPECT_THAT(documents(), HasSubstr("9223372036854775807"));
}

struct Bad {
  const char* document;
  const char* says;
};
constexpr std::array kBad = {
    Bad{R"({"COUNT":"41","MAX_VALUE":99})", "COUNT is a string"},
    Bad{R"({"COUNT":4.5,"MAX_VALUE":99})", "COUNT is not a whole number"},
    Bad{R"({"COUNT":{"$numberDouble":"9007199254740992"},"MAX_VALUE":99})", "2^53"},
    Bad{R"({"COUNT":{"$numberDouble":"1e300"},"MAX_VALUE":99})", "2^53"},
    Bad{R"({"COUNT":{"$numberDouble":"NaN"},"MAX_VALUE":99})", "COUNT is not a whole number"},
    Bad{R"({"COUNT":{"$numberDouble":"-Infinity"},"MAX_VALUE":99})", "2^53"},
    Bad{R"({"COUNT":{"$numberDecimal":"41"},"MAX_VALUE":99})", "COUNT is a decimal"},
    Bad{R"({"COUNT":null,"MAX_VALUE":99})", "COUNT is null"},
    Bad{R"({"COUNT":[41],"MAX_VALUE":99})", "COUNT is an array"},
    Bad{R"({"COUNT":{"a":41},"MAX_VALUE":99})", "COUNT is a document"},
    Bad{R"({"COUNT":-1,"MAX_VALUE":99})", "COUNT is -1, below the first value"},
    Bad{R"({"COUNT":{"$numberDouble":"9223372036854775808"},"MAX_VALUE":99})", "2^53"},
    Bad{R"({"count":41,"MAX_VALUE":99})", "COUNT is missing"},
    Bad{R"({"COUNT":9,"MAX_VALUE":99})", "COUNT is 9, below the first value, which is 10"},
    Bad{R"({"COUNT":41})", "MAX_VALUE is missing"},
    Bad{R"({"COUNT":41,"MAX_VALUE":"99"})", "MAX_VALUE is a string"},
    Bad{R"({"COUNT":41,"MAX_VALUE":99.5})", "MAX_VALUE is not a whole number"},
    Bad{R"({"COUNT":41,"MAX_VALUE":{"$numberDouble":"1e18"}})", "2^53"},
    Bad{R"({"COUNT":41,"MAX_VALUE":7})", "MAX_VALUE is 7, below the first value"},
};

TEST_F(Adopted, WhatCannotBeCountedInIsRefusedAndLeftAsItIs) {
  for (const Bad& bad : kBad) {
    put(bad.document);
    const std::string before = documents();
    const auto refused = adopt(kBounded, {10, 99});
    EXPECT_EQ(code_of(refused), Code::kFailedPrecondition) << bad.document;
    EXPECT_THAT(why(refused), AllOf(HasSubstr(bad.says), HasSubstr("\"one\" in counters"),
                                    HasSubstr("127.0.0.1:"), HasSubstr("it was left as it is")));
    EXPECT_EQ(code_of(take(1)), Code::kNotFound);
    EXPECT_EQ(documents(), before);
  }
  EXPECT_THAT(documents("idmint.counters"), HasSubstr("[  ]"));
  // Another block's, or another program's end.
  put(R"({"COUNT":41,"MAX_VALUE":98})");
  EXPECT_EQ(code_of(adopt(kBounded, {10, 99})), Code::kFailedPrecondition);
  put(R"({"COUNT":41,"MAX_VALUE":100})");
  EXPECT_EQ(code_of(adopt(kBounded, {10, 99})), Code::kFailedPrecondition);
  EXPECT_EQ(code_of(take(1)), Code::kNotFound) << "nothing was adopted";
}

TEST_F(Adopted, WhatBecomesUncountableIsDamagedAndNotMended) {
  put(R"({"COUNT":41,"MAX_VALUE":99})");
  ASSERT_TRUE(adopt(kBounded, {10, 99}));
  for (const Bad& bad : kBad) {
    put(bad.document);
    const std::string before = documents();
    for (const auto& result :
         {code_of(take(1)), code_of(take(1, Take::kTail)), code_of(counters().raise("c", 50)),
          code_of(counters().extend("c", 200)), code_of(counters().peek("c")),
          code_of(counters().list("c")), code_of(adopt(kBounded, {10, 99}))})
      EXPECT_EQ(result, Code::kDataLoss) << bad.document;
    EXPECT_THAT(why(take(1)), HasSubstr(bad.says));
    EXPECT_EQ(documents(), before);
    // The end that the failed extend() left, which is its record's.
    ASSERT_THAT(ask(R"({"update":"idmint.counters","updates":[{"q":{},"u":{"$set":{"last":)"
                    R"({"$numberLong":"99"}}}}]})"),
                HasSubstr(R"("ok" : 1.0)"));
  }
  EXPECT_TRUE(counters().close("c")) << "it can be retired, whatever is in it";
  EXPECT_EQ(code_of(take(1)), Code::kDataLoss);
}

TEST_F(Adopted, ADocumentThatIsDeletedUnderWayIsNotMadeAgain) {
  const SequenceDefinition definition{
      .name = "c", .first = 0, .adopted = to_text(kCounter), .make_adopted = true};
  ASSERT_TRUE(create_sequence(*store_, definition));
  const auto sequence = Sequence::open(*store_, "c");
  ASSERT_TRUE(sequence) << why(sequence);
  std::int64_t value = 0;
  ASSERT_TRUE((*sequence)->next(std::span(&value, 1)));
  remove();
  const auto lost = (*sequence)->next(std::span(&value, 1));
  EXPECT_EQ(code_of(lost), Code::kDataLoss);
  EXPECT_THAT(why(lost), HasSubstr("is gone"));
  EXPECT_EQ(code_of(take(1)), Code::kDataLoss);
  EXPECT_EQ(code_of(counters().raise("c", 10)), Code::kDataLoss);
  EXPECT_EQ(code_of(counters().extend("c", 10)), Code::kDataLoss);
  EXPECT_EQ(code_of(counters().close("c")), Code::kNotFound);
  EXPECT_EQ(code_of(adopt(kCounter, {0, kLargestValue})), Code::kDataLoss);
  EXPECT_EQ(code_of(create_sequence(*store_, definition)), Code::kDataLoss);
  EXPECT_EQ(code_of(Sequence::open(*store_, "c")), Code::kDataLoss);
  const auto status = peek_sequence(*store_, "c");
  ASSERT_TRUE(status && status->error);
  EXPECT_EQ(status->error->code, Code::kDataLoss);
  EXPECT_EQ(code_of(raise_sequence(*store_, "c", 10)), Code::kDataLoss);
  EXPECT_THAT(documents(), HasSubstr("[  ]"));
  EXPECT_TRUE(retire_sequence(*store_, "c"));
  EXPECT_THAT(documents(), HasSubstr("[  ]"));
}

// On a new primary, a read from a majority may lack an acknowledged write.
TEST_F(Adopted, WhetherThereIsARecordIsAskedOfTheLatest) {
  ASSERT_TRUE(adopt(kCounter, {0, 99}));
  ASSERT_THAT(ask(R"({"profile":2,"slowms":0})"), HasSubstr(R"("ok" : 1.0)"));
  ASSERT_TRUE(adopt(kCounter, {0, 99}));
  ASSERT_THAT(ask(R"({"profile":0})"), HasSubstr(R"("ok" : 1.0)"));
  EXPECT_THAT(ask(R"({"count":"system.profile","query":{"op":"query","command.find":)"
                  R"("idmint.counters","command.filter._id.$in":"c",)"
                  R"("command.readConcern.level":"linearizable"}})"),
              HasSubstr(R"("n" : 1)"));
}

// A program may give what no definition may have.
TEST_F(Adopted, ARecordIsLookedAtWhoeverGivesIt) {
  using namespace std::string_literals;
  for (const AdoptedRecord& bad :
       {AdoptedRecord{.collection = "counters", .id = "one", .field = "a\":1,\"b"},
        AdoptedRecord{.collection = "counters", .id = "one", .field = "a.b"},
        AdoptedRecord{.collection = "counters", .id = "one", .field = "$a"},
        AdoptedRecord{.collection = "counters", .id = "one", .field = "_id"},
        AdoptedRecord{.collection = "counters", .id = "one", .field = "a", .max = "a\"b"},
        AdoptedRecord{.collection = "counters", .id = "one\0"s, .field = "a"},
        AdoptedRecord{.collection = "counters", .id = std::string(201, 'i'), .field = "a"},
        AdoptedRecord{.collection = "idmint.counters", .id = "one", .field = "a"},
        AdoptedRecord{.collection = "counters", .id = "one", .field = "a", .validator = true},
        AdoptedRecord{}})
    EXPECT_EQ(code_of(adopt(bad, {0, 99})), Code::kInvalidArgument) << to_text(bad);
  // A record of another kind of store.
  const auto foreign = create_sequence(
      *store_, {.name = "c", .first = 0, .adopted = "sequence public.orders_id_seq"});
  EXPECT_EQ(code_of(foreign), Code::kInvalidArgument);
  EXPECT_THAT(why(foreign), HasSubstr("cannot adopt \"sequence public.orders_id_seq\": write "
                                      "COLLECTION/ID:next=FIELD"));
  AdoptedRecord last = kCounter;
  last.holds_last = true;
  const auto below = adopt(last, {0, 99});
  EXPECT_EQ(code_of(below), Code::kInvalidArgument);
  EXPECT_THAT(why(below), HasSubstr("begin at 1 or above"));
  EXPECT_THAT(documents("idmint.counters"), HasSubstr("[  ]"));
  EXPECT_THAT(documents(), HasSubstr("[  ]"));
}

TEST_F(Adopted, OneThatHoldsTheLastValueGivesTheNext) {
  const AdoptedRecord seq{
      .collection = "counters", .id = "one", .field = "seq", .holds_last = true, .max = "max"};
  EXPECT_EQ(code_of(create_sequence(*store_, {.name = "c", .first = 0, .adopted = to_text(seq)})),
            Code::kInvalidArgument);
  ASSERT_TRUE(adopt(seq, {1, 20}));
  EXPECT_THAT(documents(), HasSubstr(R"({ "_id" : "one", "seq" : 0, "max" : 20, )"
                                     R"("next_by_idmint" : { "seq" : 1 } })"));
  EXPECT_EQ(take(2), (Range{1, 1, 2}));
  ASSERT_THAT(ask(R"({"findAndModify":"counters","query":{"_id":"one"},)"
                  R"("update":{"$inc":{"seq":1}},"new":true})"),
              HasSubstr(R"("seq" : 3,)"));
  EXPECT_EQ(take(1), (Range{4, 1, 1}));
  EXPECT_EQ(counters().raise("c", 10), 10);
  EXPECT_EQ(counters().peek("c"), (CounterState{"c", {1, 20}, 10, false}));
  EXPECT_EQ(take(1), (Range{10, 1, 1}));
  EXPECT_EQ(take(100, Take::kTail), (Range{11, 1, 10}));
  EXPECT_EQ(code_of(take(1)), Code::kOutOfRange);
  EXPECT_THAT(documents(), HasSubstr(R"("seq" : 20,)"));
  EXPECT_EQ(counters().raise("c", 100), 21);
  EXPECT_THAT(documents(), HasSubstr(R"("seq" : 20,)"));
  EXPECT_EQ(counters().extend("c", kLargestValue), (CounterBounds{1, kLargestValue}));
  EXPECT_EQ(take(1), (Range{21, 1, 1}));
}

TEST_F(Adopted, ClosedIsMarkedInTheDocument) {
  ASSERT_TRUE(create_sequence(
      *store_, {.name = "c", .first = 0, .adopted = to_text(kCounter), .make_adopted = true}));
  const auto other = Store::open(mongo_set().url(database_), {.deadline = seconds{30}});
  ASSERT_TRUE(other) << why(other);
  EXPECT_EQ((*other)->counters()->advance("c", 1, Take::kAll), (Range{0, 1, 1}));
  ASSERT_TRUE(retire_sequence(*store_, "c"));
  EXPECT_THAT(documents(), HasSubstr(R"("closed_by_idmint" : [ "c" ])"));
  EXPECT_EQ(code_of((*other)->counters()->advance("c", 1, Take::kAll)), Code::kFailedPrecondition);
  EXPECT_THAT(documents(), HasSubstr(R"("COUNT" : 1,)"));
  // Another sequence goes on from there, and the retired one stays so.
  ASSERT_TRUE(adopt(kCounter, {0, kLargestValue}, "d"));
  EXPECT_EQ(counters().advance("d", 1, Take::kAll), (Range{1, 1, 1}));
  EXPECT_EQ(code_of((*other)->counters()->advance("c", 1, Take::kAll)), Code::kFailedPrecondition);
  // As an older version closed all: those that there were stay closed.
  put(R"({"$set":{"closed_by_idmint":true}})");
  EXPECT_EQ(code_of(counters().advance("d", 1, Take::kAll)), Code::kFailedPrecondition);
  ASSERT_TRUE(adopt(kCounter, {0, kLargestValue}, "e"));
  EXPECT_EQ(counters().advance("e", 1, Take::kAll), (Range{2, 1, 1}));
  EXPECT_EQ(code_of(counters().advance("d", 1, Take::kAll)), Code::kFailedPrecondition);
  EXPECT_EQ(code_of((*other)->counters()->advance("c", 1, Take::kAll)), Code::kFailedPrecondition);
}

// ---- the floor

// A program's change of the document after idmint took 1 to 25: its values would come again.
struct Reset {
  const char* what;
  const char* update;  // a replacement, or an update; empty: it is deleted and made anew by $inc
};
constexpr std::array kResets = {
    Reset{"set back", R"({"$set":{"seq":2}})"},    Reset{"set to 0", R"({"$set":{"seq":0}})"},
    Reset{"by one", R"({"$inc":{"seq":-1}})"},     Reset{"replaced", R"({"seq":2})"},
    Reset{"replaced by as much", R"({"seq":25})"}, Reset{"replaced by more", R"({"seq":1000})"},
    Reset{"made anew by an upsert", ""},
};

TEST_F(Adopted, WhatItsProgramSetsBackGivesNothing) {
  const AdoptedRecord seq{
      .collection = "counters", .id = "one", .field = "seq", .holds_last = true};
  int round = 0;
  for (const Reset& reset : kResets) {
    const std::string name = "c" + std::to_string(++round);
    put(R"({"seq":20})");
    ASSERT_TRUE(create_sequence(*store_, {.name = name, .first = 1, .adopted = to_text(seq)}))
        << reset.what;
    EXPECT_EQ(counters().advance(name, 5, Take::kAll), (Range{21, 1, 5})) << reset.what;
    if (*reset.update == 0) remove();
    put(*reset.update == 0 ? R"({"$inc":{"seq":1}})" : reset.update);
    const std::string before = documents();
    // A process that has it open, and one that starts later.
    const auto later = another();
    for (CounterStore* const each : {&counters(), later->counters()}) {
      const auto lost = each->advance(name, 1, Take::kAll);
      EXPECT_EQ(code_of(lost), Code::kDataLoss) << reset.what;
      EXPECT_THAT(why(lost), AllOf(HasSubstr("which counter"), HasSubstr("seq is "),
                                   HasSubstr("next_by_idmint.seq"), HasSubstr("retire")));
      EXPECT_EQ(code_of(each->advance(name, 3, Take::kTail)), Code::kDataLoss) << reset.what;
      const auto seen = each->peek(name);
      ASSERT_TRUE(seen && seen->set_back) << reset.what << why(seen);
      EXPECT_EQ(seen->set_back->code, Code::kDataLoss);
    }
    if (std::string(reset.update).starts_with(R"({"$)")) {
      EXPECT_THAT(why(later->counters()->advance(name, 1, Take::kAll)), HasSubstr("was 26 when"));
    }
    EXPECT_EQ(documents(), before);
    const auto status = peek_sequence(*later, name);
    ASSERT_TRUE(status && status->error) << "doctor fails";
    EXPECT_EQ(status->error->code, Code::kDataLoss);
    EXPECT_EQ(code_of(adopt(seq, {1, 99}, "another")), Code::kFailedPrecondition)
        << "one name is not the way around the other: " << reset.what;
    // The way out.
    ASSERT_TRUE(retire_sequence(*store_, name)) << reset.what;
  }
  EXPECT_THAT(documents(), HasSubstr(R"("seq" : 1,)"));
  ASSERT_TRUE(create_sequence(*store_, {.name = "fresh", .first = 1, .adopted = to_text(seq)}));
  EXPECT_EQ(counters().advance("fresh", 1, Take::kAll), (Range{2, 1, 1}));
  EXPECT_EQ(code_of(counters().advance("c7", 1, Take::kAll)), Code::kFailedPrecondition);
}

// A test suite, which truncates between its runs.
TEST_F(Adopted, EachRunOfATestSuiteAdoptsUnderAnotherName) {
  const AdoptedRecord seq{
      .collection = "counters", .id = "one", .field = "seq", .holds_last = true};
  for (const std::string name : {"first", "second", "third"}) {
    put(R"({"seq":0})");
    ASSERT_TRUE(create_sequence(*store_, {.name = name, .first = 1, .adopted = to_text(seq)}));
    EXPECT_EQ(counters().advance(name, 9, Take::kAll), (Range{1, 1, 9}));
    ASSERT_TRUE(retire_sequence(*store_, name));
    remove();
  }
}

TEST_F(Adopted, ARaisePastTheFloorSettlesIt) {
  put(R"({"COUNT":20})");
  ASSERT_TRUE(adopt(kCounter, {0, 1000}));
  EXPECT_EQ(take(6), (Range{20, 1, 6}));
  put(R"({"$set":{"COUNT":3}})");
  EXPECT_EQ(code_of(take(1)), Code::kDataLoss);
  EXPECT_EQ(counters().peek("c")->next, 26);
  EXPECT_EQ(counters().raise("c", 1), 26) << "to what it had at least";
  EXPECT_EQ(take(1), (Range{26, 1, 1}));
  // A floor that is lost: only a raise that moves the field says anything.
  put(R"({"COUNT":30})");
  EXPECT_EQ(code_of(counters().raise("c", 30)), Code::kDataLoss);
  EXPECT_EQ(code_of(take(1)), Code::kDataLoss);
  EXPECT_EQ(counters().raise("c", 40), 40);
  EXPECT_EQ(take(1), (Range{40, 1, 1}));
  // A node.js program that reads and writes the whole document makes it a double.
  put(R"({"COUNT":41,"next_by_idmint":{"COUNT":41.0}})");
  EXPECT_EQ(take(1), (Range{41, 1, 1}));
}

TEST_F(Adopted, AProgramThatCountsRaisesNoAlarm) {
  ASSERT_TRUE(adopt(kCounter, {0, 99}));
  const auto later = another();
  for (std::int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(take(1), (Range{11 * i, 1, 1}));
    put(R"({"$inc":{"COUNT":10}})");
    EXPECT_EQ(later->counters()->peek("c")->next, 11 * (i + 1));
  }
  put(R"({"$set":{"COUNT":500}})");
  EXPECT_EQ(code_of(take(1)), Code::kOutOfRange);
  EXPECT_EQ(counters().extend("c", 1000), (CounterBounds{0, 1000}));
  EXPECT_EQ(take(1), (Range{500, 1, 1}));
}

// Adopted by a version without floors.
TEST_F(Adopted, AnOlderOneGetsItsFloorWithTheFirstTake) {
  ASSERT_TRUE(adopt(kCounter, {0, 99}));
  EXPECT_EQ(take(5), (Range{0, 1, 5}));
  put(R"({"COUNT":5})");
  ASSERT_THAT(ask(R"({"update":"idmint.counters","updates":[{"q":{"_id":"c"},"u":{"$unset":)"
                  R"({"adopted.floor":1}}}],"writeConcern":{"w":"majority"}})"),
              HasSubstr(R"("nModified" : 1)"));
  const auto later = another();
  const auto status = later->counters()->peek("c");
  ASSERT_TRUE(status) << why(status);
  EXPECT_TRUE(status->no_floor);
  EXPECT_EQ(later->counters()->advance("c", 1, Take::kAll), (Range{5, 1, 1}));
  EXPECT_THAT(documents(), HasSubstr(R"("next_by_idmint" : { "COUNT" : 6 })"));
  EXPECT_THAT(documents("idmint.counters"), HasSubstr(R"("floor" : true)"));
  EXPECT_FALSE(later->counters()->peek("c")->no_floor);
  put(R"({"COUNT":6})");
  EXPECT_EQ(code_of(later->counters()->advance("c", 1, Take::kAll)), Code::kDataLoss);
}

TEST_F(Adopted, AValidatorThatForbidsTheFloorIsRefused) {
  put(R"({"COUNT":5})");
  const std::string before = documents();
  ASSERT_THAT(ask(R"({"collMod":"counters","validator":{"$jsonSchema":{"additionalProperties":)"
                  R"(false,"properties":{"_id":{},"COUNT":{}}}}})"),
              HasSubstr(R"("ok" : 1.0)"));
  const auto refused = adopt(kCounter, {0, 99});
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(why(refused), AllOf(HasSubstr("next_by_idmint"), HasSubstr("validator")));
  EXPECT_EQ(documents(), before);
  EXPECT_EQ(code_of(counters().peek("c")), Code::kNotFound);
  // One that an older version adopted goes on.
  ASSERT_THAT(ask(R"({"insert":"idmint.counters","documents":[{"_id":"c","first":)"
                  R"({"$numberLong":"0"},"last":{"$numberLong":"99"},"stride":{"$numberLong":"1"},)"
                  R"("adopted":{"collection":"counters","id":"one","field":"COUNT",)"
                  R"("holds_last":false,"max":""}}],"writeConcern":{"w":"majority"}})"),
              HasSubstr(R"("n" : 1)"));
  EXPECT_EQ(take(2), (Range{5, 1, 2}));
  EXPECT_EQ(take(2), (Range{7, 1, 2}));
  EXPECT_EQ(counters().raise("c", 20), 20);
  EXPECT_EQ(another()->counters()->advance("c", 1, Take::kAll), (Range{20, 1, 1}));
  EXPECT_TRUE(counters().peek("c")->no_floor);
}

TEST_F(Adopted, NothingIsMadeUnlessItIsWanted) {
  const NewCounter one{"c", {0, 99}, to_text(kCounter)};
  const auto refused = counters().create(std::span(&one, 1));
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(why(refused), HasSubstr("it is not there"));
  EXPECT_THAT(documents(), HasSubstr("[  ]"));
  EXPECT_EQ(code_of(counters().peek("c")), Code::kNotFound);
}

// The catalog has the text as every release has written it.
TEST_F(Adopted, ADefinitionIsReadAndWrittenAsItIs) {
  const std::string json = R"({"name":"c","strategy":"counter","first":0,"last":99,)"
                           R"("adopted":"counters/one:next=COUNT,max=MAX_VALUE"})";
  ASSERT_TRUE(adopt(kBounded, {0, 99}));
  const auto put_definition = [&](const std::string& text) {
    std::string escaped;
    for (const char c : text) escaped += c == '"' ? std::string("\\\"") : std::string(1, c);
    ASSERT_THAT(ask(R"({"update":"idmint.definitions","updates":[{"q":{"_id":"c"},"u":)"
                    R"({"json":")" +
                    escaped + R"("},"upsert":true}],"writeConcern":{"w":"majority"}})"),
                HasSubstr(R"("ok" : 1.0)"));
  };
  put_definition(json);
  const SequenceDefinition definition{
      .name = "c", .first = 0, .last = 99, .adopted = "counters/one:next=COUNT,max=MAX_VALUE"};
  EXPECT_EQ(store_->catalog()->find("c"), Definition(definition));
  EXPECT_TRUE(create_sequence(*store_, definition)) << "it is the same";
  EXPECT_EQ(peek_sequence(*store_, "c")->adopted_from, "counters");
  SequenceDefinition longer = definition;
  longer.last = 199;
  ASSERT_TRUE(store_->catalog()->replace(definition, longer));
  std::string expected = json;
  expected.replace(expected.find("99"), 2, "199");
  std::string kept;
  for (const char c : expected) kept += c == '"' ? std::string("\\\"") : std::string(1, c);
  EXPECT_THAT(documents("idmint.definitions"), HasSubstr("\"json\" : \"" + kept + "\""));
  // A definition that was written by hand.
  put_definition(R"({"name":"c","strategy":"counter","first":0,"last":99,)"
                 R"("adopted":"counters/one:next=COUNT,validator,max=MAX_VALUE"})");
  EXPECT_EQ(as_sequence(*store_->catalog()->find("c")).adopted,
            "counters/one:next=COUNT,max=MAX_VALUE,validator");
  for (const std::string bad : {"c", "public.orders_id_seq", "counters/{k}:next=COUNT",
                                "counters/one:last=COUNT", "idmint.counters/one:next=COUNT"}) {
    put_definition(R"({"name":"c","strategy":"counter","first":0,"last":99,"adopted":")" + bad +
                   R"("})");
    const auto damaged = store_->catalog()->find("c");
    EXPECT_EQ(code_of(damaged), Code::kDataLoss) << bad;
    EXPECT_THAT(why(damaged), HasSubstr("a stored definition is damaged: sequence c")) << bad;
  }
}

TEST_F(Adopted, AThousandAreMadeAndThenOneIsPickedAtRandom) {
  const SequenceDefinition definition{
      .name = "accounts",
      .strategy = Strategy::kStriped,
      .first = 0,
      .last = 999'999'999'999,
      .stripes = 1000,
      .adopted = "uniqueIdentifierCounter/COUNTER DOCUMENT NUMBER {k}:next=COUNT,max=MAX_VALUE",
      .make_adopted = true};
  // Some are there, of every type.
  ASSERT_THAT(ask(R"({"insert":"uniqueIdentifierCounter","documents":[)"
                  R"({"_id":"COUNTER DOCUMENT NUMBER 0","COUNT":77,"MAX_VALUE":999999999},)"
                  R"({"_id":"COUNTER DOCUMENT NUMBER 7","COUNT":{"$numberDouble":"7000000001"},)"
                  R"("MAX_VALUE":{"$numberDouble":"7999999999"}}]})"),
              HasSubstr(R"("n" : 2)"));
  std::vector<std::int64_t> told;
  ASSERT_TRUE(create_sequence(
      *store_, definition,
      {.progress = [&](std::int64_t done, std::int64_t) { told.push_back(done); }}));
  EXPECT_EQ(told.back(), 1000);
  EXPECT_THAT(ask(R"({"count":"uniqueIdentifierCounter"})"), HasSubstr(R"("n" : 1000)"));
  const auto all = counters().list("accounts/");
  ASSERT_TRUE(all) << why(all);
  ASSERT_EQ(all->size(), 1000U);
  std::int64_t sum = 0;
  for (const CounterState& each : *all) {
    EXPECT_EQ(each.bounds.last - each.bounds.first, 999'999'999);
    sum += each.next - each.bounds.first;
  }
  EXPECT_EQ(sum, 77 + 1);
  ASSERT_TRUE(create_sequence(*store_, definition)) << "again changes nothing";
  const auto sequence = Sequence::open(*store_, "accounts");
  ASSERT_TRUE(sequence) << why(sequence);
  std::array<std::int64_t, 100> values{};
  ASSERT_TRUE((*sequence)->next(values));
  const std::string picked = "accounts/" + std::to_string(values[0] / 1'000'000'000);
  EXPECT_EQ(counters().peek(picked)->next, values[0] + 100);
}

TEST_F(Adopted, WithAllBlocksUsedUpItIsOutOfRange) {
  AdoptedRecord each = kBounded;
  each.id = "{k}";
  const SequenceDefinition definition{.name = "few",
                                      .strategy = Strategy::kStriped,
                                      .first = 0,
                                      .last = 39,
                                      .stripes = 4,
                                      .adopted = to_text(each),
                                      .make_adopted = true};
  ASSERT_TRUE(create_sequence(*store_, definition));
  // One is past its end already.
  ASSERT_THAT(ask(R"({"update":"counters","updates":[{"q":{"_id":"2"},"u":{"$inc":)"
                  R"({"COUNT":100}}}]})"),
              HasSubstr(R"("nModified" : 1)"));
  const auto sequence = Sequence::open(*store_, "few");
  ASSERT_TRUE(sequence) << why(sequence);
  std::array<std::int64_t, 30> values{};
  ASSERT_TRUE((*sequence)->next(values));
  std::ranges::sort(values);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], static_cast<std::int64_t>(i < 20 ? i : i + 10));
  std::int64_t one = 0;
  EXPECT_EQ(code_of((*sequence)->next(std::span(&one, 1))), Code::kOutOfRange);
}

class Existing final : public ExistingValues {
 public:
  explicit Existing(std::vector<std::int64_t> values) : values_(std::move(values)) {}
  Result<std::optional<std::int64_t>> largest(std::int64_t from, std::int64_t to) override {
    std::optional<std::int64_t> found;
    for (const std::int64_t value : values_)
      if (value >= from && value <= to) found = std::max(found.value_or(value), value);
    return found;
  }

 private:
  const std::vector<std::int64_t> values_;
};

// As the other programs, too, take from those documents.
TEST_F(Adopted, ARaiseStaysWithinEachBlock) {
  ASSERT_TRUE(create_sequence(*store_, {.name = "accounts",
                                        .strategy = Strategy::kStriped,
                                        .first = 0,
                                        .last = 29,
                                        .stripes = 3,
                                        .adopted = "counters/block {k}:next=COUNT,max=MAX_VALUE",
                                        .make_adopted = true}));
  const auto raise_past = [&](std::vector<std::int64_t> values) {
    Existing existing(std::move(values));
    const auto raised = raise_sequence(*store_, "accounts", existing);
    EXPECT_TRUE(raised) << why(raised);
  };
  raise_past({3, 29, 30, 1000});
  EXPECT_THAT(documents(), AllOf(HasSubstr(R"("COUNT" : 4, "MAX_VALUE" : 9)"),
                                 HasSubstr(R"("COUNT" : 10, "MAX_VALUE" : 19)"),
                                 HasSubstr(R"("COUNT" : 30, "MAX_VALUE" : 29)")));
  raise_past({9});
  EXPECT_THAT(documents(), AllOf(HasSubstr(R"("COUNT" : 10, "MAX_VALUE" : 9)"),
                                 HasSubstr(R"("COUNT" : 10, "MAX_VALUE" : 19)")));
  ASSERT_TRUE(raise_sequence(*store_, "accounts", 25));
  EXPECT_THAT(documents(), HasSubstr(R"("COUNT" : 20, "MAX_VALUE" : 19)")) << "and not 26";
}

TEST_F(Adopted, AValidatorGuardsTheEndAgainstEverybody) {
  AdoptedRecord guarded = kBounded;
  guarded.validator = true;
  ASSERT_TRUE(adopt(guarded, {0, 99}));
  ASSERT_TRUE(adopt(guarded, {0, 99})) << "again is fine";
  // Each of a call has its own.
  AdoptedRecord also = guarded;
  also.collection = "also";
  const std::array two{NewCounter{"p", {0, 99}, "also/first:next=COUNT", 0, true},
                       NewCounter{"q", {0, 99}, to_text(also), 0, true}};
  ASSERT_TRUE(counters().create(two));
  EXPECT_THAT(ask(R"({"listCollections":1,"filter":{"name":"also"}})"), HasSubstr("validator"));
  EXPECT_EQ(take(95), (Range{0, 1, 95}));
  const auto increment = [&](int by) {
    return ask(R"({"findAndModify":"counters","query":{"_id":"one"},"update":{"$inc":{"COUNT":)" +
               std::to_string(by) + "}}}");
  };
  EXPECT_THAT(increment(6), HasSubstr("failed validation"));
  EXPECT_THAT(increment(2), HasSubstr(R"("COUNT" : 95)"));
  EXPECT_EQ(take(100, Take::kTail), (Range{97, 1, 3})) << "the last values are to be had";
  EXPECT_EQ(counters().extend("c", 199), (CounterBounds{0, 199}));
  EXPECT_EQ(take(100), (Range{100, 1, 100}));

  // Another's is left alone.
  ASSERT_THAT(ask(R"({"collMod":"counters","validator":{"COUNT":{"$gte":0}}})"),
              HasSubstr(R"("ok" : 1.0)"));
  const auto refused = adopt(guarded, {0, 199}, "c");
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(why(refused), HasSubstr("has a validator already"));
  EXPECT_THAT(ask(R"({"listCollections":1,"filter":{"name":"counters"}})"),
              HasSubstr(R"("validator" : { "COUNT" : { "$gte" : 0 } })"));
}

TEST_F(Adopted, AValidatorThatMayBeThereIsNotSaidNotToBe) {
  ASSERT_TRUE(adopt(kBounded, {0, 99}));
  AdoptedRecord guarded = kBounded;
  guarded.validator = true;
  const auto fails = [&](int code) {
    const std::string primary =
        mongo_set().member(mongo_set().primary()).url("?directConnection=true");
    return mongo_command(primary, "admin",
                         R"({"configureFailPoint":"failCommand","mode":{"times":1},"data":)"
                         R"({"failCommands":["collMod"],"writeConcernError":{"errmsg":"late",)"
                         R"("code":)" +
                             std::to_string(code) + "}}}");
  };
  ASSERT_THAT(fails(64), HasSubstr(R"("ok" : 1.0)"));
  const auto late = adopt(guarded, {0, 99});
  EXPECT_EQ(code_of(late), Code::kDeadlineExceeded) << why(late);
  EXPECT_THAT(why(late), HasSubstr("may have been done or not"));
  ASSERT_THAT(ask(R"({"collMod":"counters","validator":{}})"), HasSubstr(R"("ok" : 1.0)"));
  ASSERT_THAT(fails(91), HasSubstr(R"("ok" : 1.0)"));
  EXPECT_TRUE(adopt(guarded, {0, 99})) << "one that does the same twice is sent again";
}

TEST_F(Adopted, ANameIsOfOneCounter) {
  ASSERT_TRUE(adopt(kCounter, {0, 99}));
  AdoptedRecord other = kCounter;
  other.id = "two";
  EXPECT_EQ(code_of(adopt(other, {0, 99})), Code::kAlreadyExists);
  EXPECT_EQ(code_of(adopt(kCounter, {0, 100})), Code::kAlreadyExists);
  EXPECT_EQ(code_of(counters().create("c", {0, 99})), Code::kAlreadyExists);
  ASSERT_TRUE(counters().create("own", {0, 99}));
  EXPECT_EQ(code_of(adopt(kCounter, {0, 99}, "own")), Code::kAlreadyExists);
  EXPECT_EQ(code_of(adopt(kCounter, {0, 99, 2}, "wide")), Code::kInvalidArgument);
  // Two names for one document share its values.
  ASSERT_TRUE(adopt(kCounter, {0, 99}, "alias"));
  EXPECT_EQ(take(1), (Range{0, 1, 1}));
  EXPECT_EQ(counters().advance("alias", 1, Take::kAll), (Range{1, 1, 1}));
}

TEST_F(Adopted, NobodyReadsAsTheNextValueWhatIsTheLastOfAnother) {
  ASSERT_TRUE(adopt(kCounter, {1, 99}));
  AdoptedRecord last = kCounter;
  last.holds_last = true;
  const auto refused = adopt(last, {1, 99}, "d");
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(why(refused), AllOf(HasSubstr("with last=COUNT"), HasSubstr("counter \"c\""),
                                  HasSubstr("with next=COUNT")));
  EXPECT_EQ(code_of(counters().peek("d")), Code::kNotFound);
  // At once.
  AdoptedRecord next = last;
  last.id = next.id = "two";
  next.holds_last = false;
  const std::array both{NewCounter{"e", {1, 99}, to_text(last), 0, true},
                        NewCounter{"f", {1, 99}, to_text(next), 0, true}};
  EXPECT_EQ(code_of(counters().create(both)), Code::kFailedPrecondition);
  EXPECT_THAT(documents(), Not(HasSubstr("two")));
  // Others of the collection, and of the document.
  ASSERT_TRUE(adopt(last, {1, 99}, "e"));
  last.id = kCounter.id;
  last.field = "other";
  put(R"({"$set":{"other":7}})");
  ASSERT_TRUE(adopt(last, {1, 99}, "g"));
  EXPECT_EQ(counters().advance("g", 1, Take::kAll), (Range{8, 1, 1}));
}

TEST_F(Adopted, AllWhoTakeAtOnceTakeDifferentValues) {
  ASSERT_TRUE(adopt(kCounter, {0, kLargestValue}));
  std::array<std::vector<std::int64_t>, 4> taken;
  {
    std::vector<std::jthread> threads;
    for (auto& mine : taken)
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) {
          const auto range = take(3);
          ASSERT_TRUE(range) << why(range);
          for (std::int64_t at = 0; at < 3; ++at) mine.push_back(range->at(at));
        }
      });
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) put(R"({"$inc":{"COUNT":10}})");
    });
  }
  std::vector<std::int64_t> all;
  for (const auto& mine : taken) all.insert(all.end(), mine.begin(), mine.end());
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
  EXPECT_EQ(counters().peek("c")->next, 600 + 500);
}

TEST(AdoptedElsewhere, AStoreThatCannotSaysSo) {
  const fakes::TempFolder folder;
  for (const std::string& url : {std::string("memory:"), "sqlite:" + folder.path("ids.db")}) {
    const auto store = Store::open(url);
    ASSERT_TRUE(store) << why(store);
    EXPECT_EQ((*store)->counters()->adoption(), nullptr);
    const auto refused =
        create_sequence(**store, {.name = "c", .first = 0, .adopted = to_text(kCounter)});
    EXPECT_EQ(code_of(refused), Code::kUnimplemented);
    EXPECT_THAT(why(refused),
                HasSubstr("cannot make counter \"c\": this store adopts no documents or rows of "
                          "other programs; use the store of the database that has them"));
    EXPECT_EQ(code_of((*store)->counters()->peek("c")), Code::kNotFound);
    EXPECT_EQ(code_of((*store)->catalog()->find("c")), Code::kNotFound);
  }
}

}  // namespace
}  // namespace idmint
