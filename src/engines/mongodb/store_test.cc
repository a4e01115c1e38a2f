// Properties of MongoDB alone; mongodb_conformance_test shows that it is a store.
#include "idmint/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <semaphore>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/background.h"
#include "idmint/clock.h"
#include "idmint/sequence.h"
#include "ids/lease_table.h"
#include "mongo/driver.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/unique_index.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/definitions.h"
#include "tests/fakes/in_child.h"
#include "tests/servers/mongo.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::why;
using servers::mongo_command;
using servers::mongo_standalone;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// The primary is frozen and deposed: another is to come soon.
servers::MongoSet& mongo_set() {
  static servers::MongoSet set({.election_timeout = seconds{2}});
  return set;
}

// A call that takes no longer did not wait for the servers past its deadline of a second or two,
// though the machine may have stood still meanwhile.
constexpr seconds kNoHang{8};

// ---- URLs

TEST(MongodbUrl, WhatIsWeakerThanMajorityIsRefusedWithTheReason) {
  for (const char* const option :
       {"w=0", "w=1", "w=2", "w=tag", "journal=false", "j=false", "j=0", "safe=false", "W=1",
        "retryWrites=false", "readPreference=secondaryPreferred", "readConcernLevel=local",
        "slaveOk=true", "w=majority&w=1", "tls=true&w=1"}) {
    const auto store = Store::open(std::string("mongodb://host.invalid/ids?") + option);
    EXPECT_EQ(code_of(store), Code::kInvalidArgument) << option;
    EXPECT_THAT(why(store), AllOf(HasSubstr("cannot be had: idmint "), HasSubstr("leave it out")))
        << option;
  }
}

TEST(MongodbUrl, AnOptionThatTheDriverDoesNotKnowIsRefused) {
  for (const std::string option : {"retryWrite", "readpreferenc", "wtimeout", "replicasett", "x"}) {
    const auto store = Store::open("mongodb://host.invalid/ids?tls=true&" + option + "=true");
    EXPECT_EQ(code_of(store), Code::kInvalidArgument) << option;
    EXPECT_THAT(why(store), HasSubstr("knows no option \"" + option + "\"")) << option;
  }
  const auto known = Store::open(
      "mongodb://ann:x@host.invalid/local?appName=a&authMechanism=SCRAM-SHA-256&authSource=admin&"
      "authMechanismProperties=CANONICALIZE_HOST_NAME:true&compressors=zlib&connectTimeoutMS=100&"
      "gssapiServiceName=a&heartbeatFrequencyMS=500&j=true&journal=true&localThresholdMS=15&"
      "maxPoolSize=5&readConcernLevel=majority&readPreference=primary&"
      "replicaSet=a&retryReads=true&retryWrites=true&serverSelectionTimeoutMS=100&slaveOk=false&"
      "socketTimeoutMS=100&tls=true&tlsCAFile=a&w=majority&wTimeoutMS=100&zlibCompressionLevel=1&"
      "uuidRepresentation=standard&maxConnecting=2&serverMonitoringMode=auto");
  EXPECT_THAT(why(known), HasSubstr("MongoDB's own"));
}

TEST(MongodbUrl, WhatIsNoneOrNamesNoDatabaseForIdsIsRefused) {
  for (const char* const url :
       {"mongodb:", "mongodb://", "mongodb://h:x/ids", "mongodb://h/a.b", "mongodb://h/a%2Eb",
        "mongodb://h/a%00b", "mongodb://h/$a", "mongodb://h/a%20b", "mongodb://h/local",
        "mongodb://h/admin", "mongodb://h/config", "mongodb+srv://h:1/ids",
        "mongodb://h/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})
    EXPECT_EQ(code_of(Store::open(url)), Code::kInvalidArgument) << url;
  using namespace std::string_literals;
  EXPECT_EQ(code_of(Store::open("mongodb://h/a\0b"s)), Code::kInvalidArgument);
}

TEST(MongodbUrl, AnUnknownHostIsNamedAndNothingSecretIs) {
  const auto begin = std::chrono::steady_clock::now();
  const auto store = Store::open(
      "mongodb://ann:geheim@host.invalid:1/"
      "ids?tlsCertificateKeyFilePassword=geheim&authMechanismProperties=AWS_SESSION_TOKEN:geheim&"
      "authMechanism=SCRAM-SHA-256",
      {.deadline = milliseconds{800}});
  EXPECT_EQ(code_of(store), Code::kUnavailable);
  EXPECT_THAT(why(store), AllOf(HasSubstr("host.invalid:1/ids"), Not(HasSubstr("geheim"))));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds{10});
  for (const char* const url :
       {"mongodb://ann:geheim@h:x/ids", "mongodb://ann:geheim@h/ids?w=1",
        "mongodb://ann:geheim@h/a.b", "mongodb://ann:p:geheim@h/ids",
        "mongodb://ann:p?geheim@h/a.b?w=1", "mongodb://ann:p%geheim@h/ids",
        "mongodb://ann:p/geheim@h/ids", "mongodb://ann:p@geheim@h/ids",
        "mongodb://ann:p/x?geheim@h/ids", "mongodb+srv://ann:p/geheim@h/ids",
        "mongodb:/ann:geheim@h/ids", "mongodb:ann:geheim@h/ids"}) {
    const auto refused = Store::open(url);
    EXPECT_EQ(code_of(refused), Code::kInvalidArgument) << url;
    EXPECT_THAT(why(refused), Not(HasSubstr("geheim"))) << url;
  }
  EXPECT_THAT(why(Store::open("mongodb://ann:p?geheim@h/a.b?w=1")), HasSubstr("w=1 cannot be had"))
      << "a question mark in the password begins no options";
}

// ---- what is in the database

class MongodbStoreTest : public testing::Test {
 protected:
  // By a thread that lives as long as the tests: the servers end with the one that starts them.
  static void SetUpTestSuite() { static_cast<void>(mongo_set()); }

  fakes::TempFolder folder_;
  // The name of the folder, which nobody else has.
  std::string database_ = std::filesystem::path(folder_.path("x")).parent_path().filename();

  // Again where the deadline is so short that the opening may miss it.
  std::unique_ptr<Store> open(const std::string& url, milliseconds deadline = seconds{30}) {
    auto store = Store::open(url, {.deadline = deadline});
    for (int attempt = 0; !store && deadline < seconds{30} && attempt < 20; ++attempt)
      store = Store::open(url, {.deadline = deadline});
    if (!store) {
      ADD_FAILURE() << store.error().message();
      std::abort();
    }
    return *std::move(store);
  }
  std::unique_ptr<Store> open(milliseconds deadline = seconds{30}) {
    return open(mongo_set().url(database_), deadline);
  }
  // The reply of the set's primary.
  std::string ask(const std::string& json) {
    return mongo_command(mongo_set().url(""), database_, json);
  }
  void set(const std::string& collection, const std::string& id, const std::string& change) {
    ASSERT_THAT(ask(R"({"update":")" + collection + R"(","updates":[{"q":{"_id":")" + id +
                    R"("},"u":)" + change + R"(}],"writeConcern":{"w":"majority"}})"),
                HasSubstr(R"("nModified" : 1)"));
  }
  std::string find(const std::string& collection) {
    return ask(R"({"find":")" + collection + R"("})");
  }
};

TEST_F(MongodbStoreTest, TheDocumentsAreAsTheDocumentsSay) {
  const auto store = open();
  ASSERT_TRUE(store->counters()->create("orders", {1000, 1999, 2}));
  ASSERT_TRUE(store->counters()->advance("orders", 3, Take::kAll));
  EXPECT_THAT(find("idmint.counters"),
              HasSubstr(R"([ { "_id" : "orders", "first" : 1000, "last" : 1999, "stride" : 2, )"
                        R"("next" : 1006, "closed" : false, "store" : { "$binary" : )"));
  EXPECT_THAT(find("idmint.store"),
              AllOf(HasSubstr(R"("_id" : "store", "id" : { "$binary")"),
                    HasSubstr(R"("subType" : "04")"), HasSubstr(R"("schema" : 1 } ])")));
  ASSERT_TRUE(store->unique_index()->create_space("cards"));
  ASSERT_TRUE(store->unique_index()->insert("cards", std::array{std::int64_t{7}}));
  EXPECT_THAT(find("idmint.claims.cards"),
              HasSubstr(R"([ { "_id" : "space", "name" : "cards", "closed" : false, )"
                        R"("store" : { "$binary" : )"));
  EXPECT_THAT(find("idmint.claims.cards"), HasSubstr(R"({ "_id" : 7 } ])"));
  const SequenceDefinition definition{"orders"};
  ASSERT_TRUE(store->catalog()->define(definition));
  EXPECT_THAT(find("idmint.definitions"), HasSubstr(R"("_id" : "orders", "json" : "{\"name\")"));
}

TEST_F(MongodbStoreTest, AnInt32ThatAHandTypedBecomesAnInt64) {
  const auto store = open();
  ASSERT_TRUE(store->counters()->create("c", {5, 2'000'000'000}));
  set("idmint.counters", "c", R"([{"$set":{"next":{"$toInt":"$next"}}}])");
  const auto is_long = [&] {
    return ask(R"({"count":"idmint.counters","query":{"$jsonSchema":{"properties":)"
               R"({"next":{"bsonType":"long"}}}}})");
  };
  EXPECT_THAT(is_long(), HasSubstr(R"("n" : 0)"));
  EXPECT_EQ(store->counters()->advance("c", 7, Take::kAll), (Range{5, 1, 7}));
  EXPECT_THAT(is_long(), HasSubstr(R"("n" : 1)"));
  EXPECT_EQ(store->counters()->raise("c", 100), 100);
  EXPECT_EQ(store->counters()->advance("c", std::int64_t{1} << 40, Take::kTail),
            (Range{100, 1, 1'999'999'901}));
}

TEST_F(MongodbStoreTest, ACounterThatIsDeletedUnderWayIsNotMadeAgain) {
  const auto store = open();
  ASSERT_TRUE(create_sequence(*store, SequenceDefinition{"orders"}));
  const auto sequence = Sequence::open(*store, "orders");
  ASSERT_TRUE(sequence);
  std::int64_t value = 0;
  ASSERT_TRUE((*sequence)->next(std::span(&value, 1)));
  ASSERT_THAT(ask(R"({"delete":"idmint.counters","deletes":[{"q":{},"limit":0}]})"),
              HasSubstr(R"("n" : 1)"));
  EXPECT_EQ(code_of((*sequence)->next(std::span(&value, 1))), Code::kDataLoss);
  EXPECT_EQ(code_of(store->counters()->advance("orders", 1, Take::kAll)), Code::kNotFound);
  EXPECT_EQ(code_of(store->counters()->raise("orders", 1)), Code::kNotFound);
  EXPECT_THAT(find("idmint.counters"), HasSubstr(R"("firstBatch" : [  ])"));
}

// As a backup that is restored under a process that goes on.
TEST_F(MongodbStoreTest, ClaimsThatAreSetBackAreToldAndGiveNoValueTwice) {
  const auto store = open();
  ASSERT_TRUE(
      create_sequence(*store, {.name = "codes", .strategy = Strategy::kRandom, .last = 60}));
  const auto sequence = Sequence::open(*store, "codes");
  ASSERT_TRUE(sequence) << why(sequence);
  const auto copy = [&](const std::string& from, const std::string& to) {
    EXPECT_THAT(ask(R"({"aggregate":")" + from + R"(","pipeline":[{"$out":")" + to +
                    R"("}],"cursor":{},"writeConcern":{"w":"majority"}})"),
                HasSubstr(R"("ok" : 1.0)"));
  };
  std::set<std::int64_t> seen;
  const auto take = [&](int count) {
    for (int i = 0; i < count; ++i) {
      std::int64_t value = 0;
      const auto filled = (*sequence)->next(std::span(&value, 1));
      ASSERT_TRUE(filled) << why(filled);
      EXPECT_TRUE(seen.insert(value).second) << value;
    }
  };
  take(5);
  copy("idmint.claims.codes", "backup");
  take(10);
  copy("backup", "idmint.claims.codes");
  for (int again = 0; again < 3; ++again) {
    std::int64_t value = 0;
    const auto refused = (*sequence)->next(std::span(&value, 1));
    EXPECT_EQ(code_of(refused), Code::kDataLoss) << "it goes on with " << value;
    EXPECT_THAT(why(refused), HasSubstr("it has gone back"));
  }
}

TEST_F(MongodbStoreTest, ARecordThatIsNotAsWeWriteItIsDamaged) {
  const auto store = open();
  for (const char* const change :
       {R"({"$set":{"next":3.5}})", R"({"$set":{"next":"3"}})", R"({"$unset":{"next":1}})",
        R"({"$set":{"next":4}})", R"({"$set":{"next":6}})", R"({"$unset":{"closed":1}})",
        R"({"$set":{"last":1}})"}) {
    const std::string name = "c" + std::string(change);
    ASSERT_TRUE(store->counters()->create("c", {5, 99, 2}));
    set("idmint.counters", "c", change);
    EXPECT_EQ(code_of(store->counters()->peek("c")), Code::kDataLoss) << change;
    EXPECT_EQ(code_of(store->counters()->advance("c", 1, Take::kAll)), Code::kDataLoss) << change;
    EXPECT_EQ(code_of(store->counters()->list("")), Code::kDataLoss) << change;
    EXPECT_EQ(code_of(store->counters()->create("c", {5, 99, 2})), Code::kDataLoss) << change;
    ASSERT_THAT(ask(R"({"delete":"idmint.counters","deletes":[{"q":{},"limit":0}]})"),
                HasSubstr(R"("n" : 1)"));
  }
}

// If an advance or a raise mended the record, the next one would hand out values again.
TEST_F(MongodbStoreTest, ADamagedRecordIsNotMendedByWhatIsDoneWithIt) {
  const auto store = open();
  CounterStore& counters = *store->counters();
  for (const char* const next : {"4", "-7", "101", "NumberDecimal", "3.9"}) {
    const std::string change = std::string_view(next) == "NumberDecimal"
                                   ? R"({"$set":{"next":{"$numberDecimal":"7"}}})"
                                   : R"({"$set":{"next":)" + std::string(next) + "}}";
    ASSERT_TRUE(counters.create("c", {5, 99}));
    set("idmint.counters", "c", change);
    const std::string before = find("idmint.counters");
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(code_of(counters.advance("c", 1, Take::kTail)), Code::kDataLoss) << change;
    EXPECT_EQ(code_of(counters.raise("c", 50)), Code::kDataLoss) << change;
    EXPECT_EQ(code_of(counters.extend("c", 200)), Code::kDataLoss) << change;
    EXPECT_EQ(code_of(counters.close("c")), Code::kDataLoss) << change;
    const auto record = [](const std::string& reply) {
      return reply.substr(0, reply.find("$clusterTime"));
    };
    EXPECT_EQ(record(find("idmint.counters")), record(before));
    ASSERT_THAT(ask(R"({"delete":"idmint.counters","deletes":[{"q":{},"limit":0}]})"),
                HasSubstr(R"("n" : 1)"));
  }
}

TEST_F(MongodbStoreTest, AStoreWithoutItsIdOrOfANewerIdmintIsLeftAlone) {
  ASSERT_TRUE(open()->counters()->create("c", {}));
  set("idmint.store", "store", R"({"$set":{"schema":2}})");
  EXPECT_EQ(code_of(Store::open(mongo_set().url(database_), {.deadline = seconds{60}})),
            Code::kFailedPrecondition);
  set("idmint.store", "store", R"({"$set":{"schema":1,"id":"x"}})");
  EXPECT_EQ(code_of(Store::open(mongo_set().url(database_), {.deadline = seconds{60}})),
            Code::kDataLoss);
  ASSERT_THAT(ask(R"({"delete":"idmint.store","deletes":[{"q":{},"limit":0}]})"),
              HasSubstr(R"("n" : 1)"));
  EXPECT_EQ(code_of(Store::open(mongo_set().url(database_), {.deadline = seconds{60}})),
            Code::kDataLoss);
  EXPECT_THAT(find("idmint.store"), HasSubstr(R"("firstBatch" : [  ])"));
}

// As a test suite that drops its database while a program runs on.
TEST_F(MongodbStoreTest, AStoreInThePlaceOfAnotherIsRefused) {
  const auto old = open();
  const std::vector<std::string> names{"c", "d"};
  const auto make = [&](Store& store) {
    for (const std::string& name : names)
      ASSERT_TRUE(store.counters()->create(name, {1, 1'000'000}));
    ASSERT_TRUE(store.unique_index()->create_space("s"));
  };
  make(*old);
  EXPECT_EQ(old->counters()->advance("c", 5, Take::kAll), (Range{1, 1, 5}));
  ASSERT_THAT(ask(R"({"dropDatabase":1,"writeConcern":{"w":"majority"}})"),
              HasSubstr(R"("ok" : 1.0)"));
  EXPECT_EQ(code_of(old->counters()->advance("c", 1, Take::kAll)), Code::kNotFound);
  const auto replacing = open();
  ASSERT_NE(replacing->id(), old->id());
  make(*replacing);
  const auto expect_refused = [&](const auto& result) {
    EXPECT_EQ(code_of(result), Code::kFailedPrecondition) << why(result);
    EXPECT_THAT(why(result),
                HasSubstr("another store is there now, with the id " + replacing->id().to_string() +
                          " and not " + old->id().to_string()));
  };
  expect_refused(old->counters()->advance("c", 1, Take::kAll));
  expect_refused(old->counters()->advance("c", 10, Take::kTail));
  expect_refused(old->counters()->raise(names, 500));
  expect_refused(old->counters()->extend("c", 2'000'000));
  expect_refused(old->counters()->close("d"));
  expect_refused(old->counters()->create("c", {1, 1'000'000}));
  expect_refused(old->counters()->peek("c"));
  expect_refused(old->counters()->list(""));
  expect_refused(old->unique_index()->insert("s", std::array{std::int64_t{7}}));
  expect_refused(old->settle(Store::Settle::kRaised));
  expect_refused(old->read_settle_count(SteadyTime::max()));
  for (const std::string& name : names)
    EXPECT_EQ(replacing->counters()->advance(name, 5, Take::kAll), (Range{1, 1, 5}));
  EXPECT_EQ(replacing->counters()->peek("c")->bounds.last, 1'000'000);
  EXPECT_EQ(replacing->settle_count(), 0);
  EXPECT_EQ(replacing->unique_index()->insert("s", std::array{std::int64_t{7}}),
            std::vector<bool>{true});
}

// As mongorestore or a promotion that puts back what a new store lacks.
TEST_F(MongodbStoreTest, RecordsThatWereBroughtFromAnotherStoreAreTakenOver) {
  const auto store = open();
  const std::vector<std::string> names{"c", "d", "e"};
  for (const std::string& name : names) ASSERT_TRUE(store->counters()->create(name, {1, 99}));
  ASSERT_TRUE(store->unique_index()->create_space("s"));
  const std::string of_another = R"({"$set":{"store":{"$binary":{"base64":)"
                                 R"("AQAAAAAAAAAAAAAAAAAACQ==","subType":"04"}}}})";
  const auto bring = [&] {
    for (const std::string& name : names) set("idmint.counters", name, of_another);
    set("idmint.claims.s", "space", of_another);
  };
  const auto others = [&](const std::string& collection) {
    return ask(R"({"count":")" + collection +
               R"(","query":{"store":{"$binary":{"base64":)"
               R"("AQAAAAAAAAAAAAAAAAAACQ==","subType":"04"}}}})");
  };
  bring();
  const auto reader = Store::open(mongo_set().url(database_),
                                  {.deadline = seconds{60}, .access = Access::kReadOnly});
  ASSERT_TRUE(reader) << why(reader);
  EXPECT_EQ((*reader)->counters()->peek("c")->next, 1);
  EXPECT_EQ((*reader)->unique_index()->claimed("s"), 0);
  EXPECT_THAT(others("idmint.counters"), HasSubstr(R"("n" : 3)")) << "it may only read";
  EXPECT_EQ(store->counters()->advance("c", 5, Take::kAll), (Range{1, 1, 5}));
  EXPECT_THAT(others("idmint.counters"), HasSubstr(R"("n" : 0)"));
  EXPECT_EQ(store->unique_index()->insert("s", std::array{std::int64_t{7}}),
            std::vector<bool>{true});
  EXPECT_THAT(others("idmint.claims.s"), HasSubstr(R"("n" : 0)"));
  bring();
  EXPECT_EQ(store->counters()->raise(names, 50), (std::vector<std::int64_t>{50, 50, 50}));

  for (const std::string& name : names) set("idmint.counters", name, R"({"$unset":{"store":1}})");
  set("idmint.claims.s", "space", R"({"$unset":{"store":1}})");
  EXPECT_EQ(store->counters()->advance("c", 5, Take::kAll), (Range{50, 1, 5}))
      << "as an older version made it";
  EXPECT_TRUE(store->counters()->close("d"));
  EXPECT_EQ(store->unique_index()->insert("s", std::array{std::int64_t{8}}),
            std::vector<bool>{true});
  for (const char* const wrong : {R"({"$set":{"store":"x"}})", R"({"$set":{"store":7}})"}) {
    set("idmint.counters", "e", wrong);
    EXPECT_EQ(code_of(store->counters()->advance("e", 1, Take::kAll)), Code::kDataLoss) << wrong;
    EXPECT_EQ(code_of(store->counters()->raise("e", 60)), Code::kDataLoss) << wrong;
  }
}

TEST_F(MongodbStoreTest, AllWhoOpenANewStoreAtOnceFindOneId) {
  std::array<Uuid, 6> ids;
  {
    std::barrier start(static_cast<std::ptrdiff_t>(ids.size()));
    std::vector<std::jthread> threads;
    for (Uuid& id : ids)
      threads.emplace_back([&] {
        start.arrive_and_wait();
        id = open()->id();
      });
  }
  for (const Uuid& id : ids) EXPECT_EQ(id, ids[0]);
}

TEST_F(MongodbStoreTest, TenThousandCountersAreMadeInOneCallAndAgain) {
  const auto store = open();
  std::vector<NewCounter> many;
  for (std::int64_t k = 0; k < 10'000; ++k)
    many.push_back({std::string(900, 'n') + std::to_string(k), {k, k + 9}});
  ASSERT_TRUE(store->counters()->create(many)) << why(store->counters()->create(many));
  ASSERT_TRUE(store->counters()->advance(many[77].name, 3, Take::kAll));
  ASSERT_TRUE(store->counters()->create(many)) << why(store->counters()->create(many));
  EXPECT_EQ(store->counters()->peek(many[77].name)->next, 80);
  EXPECT_EQ(store->counters()->list("n")->size(), many.size());
  many[9999].bounds.last += 1;
  EXPECT_EQ(code_of(store->counters()->create(many)), Code::kAlreadyExists);
}

TEST_F(MongodbStoreTest, AnyNameMakesASpaceOfItsOwn) {
  using namespace std::string_literals;
  const auto store = open();
  UniqueIndex& claims = *store->unique_index();
  const std::vector<std::string> names = {"a.b",
                                          "a",
                                          ".a",
                                          "a.",
                                          "a..b",
                                          "$a",
                                          "a\0b"s,
                                          "a\0c"s,
                                          "\xff",
                                          "space",
                                          "system.users",
                                          std::string(1024, 'x'),
                                          std::string(1023, 'x'),
                                          std::string(120, 'y'),
                                          "ö"};
  for (const std::string& name : names) ASSERT_TRUE(claims.create_space(name)) << name;
  std::int64_t key = 0;
  for (const std::string& name : names) {
    const std::array<std::int64_t, 2> keys{1000, ++key};
    EXPECT_EQ(claims.insert(name, keys), (std::vector<bool>{true, true})) << name;
    EXPECT_EQ(claims.insert(name, keys), (std::vector<bool>{false, false})) << name;
    EXPECT_EQ(claims.claimed(name), 2) << name;
  }
}

TEST_F(MongodbStoreTest, OfAStandaloneServerABrokenCallOfAPoolIsUnknown) {
  const auto store = open(mongo_standalone().url(database_ + "?heartbeatFrequencyMS=500"));
  LeaseTable& leases = *store->leases();
  ASSERT_TRUE(leases.create_pool("p", 2));
  LeaseRequest request{
      .token = Uuid::max(),
      .now = 100,
      .units = 10,
      .max_drift = 100,
      .terms = {.held = seconds{60}, .clock = system_clock().now(), .max_skew = seconds{60}}};
  const auto closes = [](const char* command) {
    return mongo_command(mongo_standalone().url(""), "admin",
                         R"({"configureFailPoint":"failCommand","mode":{"times":1},"data":)"
                         R"({"failCommands":[")" +
                             std::string(command) + R"("],"closeConnection":true}})");
  };
  ASSERT_THAT(closes("update"), HasSubstr(R"("ok" : 1.0)"));
  EXPECT_EQ(code_of(leases.acquire("p", request)), Code::kUnknown);
  request.repeated = true;
  const auto lease = leases.acquire("p", request);
  ASSERT_TRUE(lease) << why(lease);
  ASSERT_THAT(closes("update"), HasSubstr(R"("ok" : 1.0)"));
  EXPECT_TRUE(leases.extend("p", *lease, lease->to + 10, Uuid::max(), request.terms))
      << "may be applied twice, and is sent again";
  ASSERT_THAT(closes("update"), HasSubstr(R"("ok" : 1.0)"));
  EXPECT_EQ(code_of(leases.release("p", lease->worker, lease->token, lease->generation)),
            Code::kUnknown);
}

TEST_F(MongodbStoreTest, OneThatIsOpenedToReadIsNeitherMadeNorChanged) {
  const StoreOptions reading{.deadline = seconds{30}, .access = Access::kReadOnly};
  EXPECT_EQ(code_of(Store::open(mongo_set().url(database_), reading)), Code::kNotFound);
  EXPECT_THAT(find("idmint.store"), HasSubstr(R"("firstBatch" : [  ])"));
  ASSERT_TRUE(open()->counters()->create("c", {1, 100}));
  const auto store = Store::open(mongo_set().url(database_), reading);
  ASSERT_TRUE(store) << why(store);
  CounterStore& counters = *(*store)->counters();
  EXPECT_EQ(counters.advance("c", 1, Take::kAll).error().code, Code::kPermissionDenied);
  EXPECT_EQ(counters.raise("c", 9).error().code, Code::kPermissionDenied);
  EXPECT_EQ(code_of((*store)->leases()->create_pool("p", 1)), Code::kPermissionDenied);
  EXPECT_EQ(counters.peek("c")->next, 1);
  EXPECT_EQ(counters.list("")->size(), 1U);
}

// ---- faults

// The profiler notes what each command asked for.
TEST_F(MongodbStoreTest, EveryWriteWaitsForTheJournalsOfAMajorityAndEveryReadForTheLatest) {
  const auto store = open();
  ASSERT_THAT(ask(R"({"profile":2,"slowms":0})"), HasSubstr(R"("ok" : 1.0)"));
  ASSERT_TRUE(store->counters()->create("c", {1, 100}));
  ASSERT_TRUE(store->counters()->advance("c", 1, Take::kAll));
  ASSERT_TRUE(store->counters()->raise("c", 9));
  ASSERT_TRUE(store->counters()->extend("c", 200));
  ASSERT_TRUE(store->counters()->close("c"));
  ASSERT_TRUE(store->catalog()->define(SequenceDefinition{"a"}));
  ASSERT_TRUE(store->unique_index()->create_space("s"));
  ASSERT_TRUE(store->unique_index()->insert("s", std::array{std::int64_t{7}}));
  ASSERT_TRUE(store->unique_index()->close_space("s"));
  ASSERT_TRUE(store->counters()->peek("c"));
  ASSERT_TRUE(store->counters()->list(""));
  ASSERT_THAT(ask(R"({"profile":0})"), HasSubstr(R"("ok" : 1.0)"));
  constexpr const char* kCount =
      R"({"count":"system.profile","query":{"op":{"$in":["insert","command"]},)"
      R"("command.writeConcern.wtimeout":{"$gt":0},"command.maxTimeMS":{"$gt":0},)"
      R"("command.txnNumber":{"$gt":0},"command.writeConcern.w":"majority",)"
      R"("command.writeConcern.j":true,"appName":"idmint"}})";
  // It notes only the statements of updates, which raise, extend and close are.
  EXPECT_THAT(ask(kCount), HasSubstr(R"("n" : 6)"));
  const auto reads = [&](const std::string& level) {
    return ask(R"({"count":"system.profile","query":{"op":"query","command.maxTimeMS":{"$gt":0},)"
               R"("command.readConcern.level":")" +
               level + R"("}})");
  };
  EXPECT_THAT(reads("linearizable"), HasSubstr(R"("n" : 2)")) << "insert, peek";
  EXPECT_THAT(reads("majority"), HasSubstr(R"("n" : 5)"))
      << "raise, extend, close; list, of two types of names";
}

// So that two commands lead to the first id of a pool.
TEST_F(MongodbStoreTest, TheFirstDefinitionComesWithTheStore) {
  const auto first = open();
  ASSERT_TRUE(first->catalog()->define(SequenceDefinition{"a"}));
  ASSERT_TRUE(first->leases()->create_pool("a", 2));
  ASSERT_THAT(ask(R"({"profile":2,"slowms":0})"), HasSubstr(R"("ok" : 1.0)"));
  const auto store =
      Store::open(mongo_set().url(database_), {.deadline = seconds{30}, .first_definition = "a"});
  ASSERT_TRUE(store) << why(store);
  Catalog& catalog = *(*store)->catalog();
  const auto found = catalog.find("a");
  const auto lease = (*store)->leases()->acquire(
      "a", {.token = Uuid::max(),
            .now = 1,
            .terms = {.clock = system_clock().now(), .max_skew = std::chrono::hours{1}}});
  ASSERT_THAT(ask(R"({"profile":0})"), HasSubstr(R"("ok" : 1.0)"));
  ASSERT_TRUE(found) << why(found);
  EXPECT_TRUE(lease) << why(lease);
  // Each may have been sent again.
  const auto count = [&](const std::string& query) {
    return ask(R"({"count":"system.profile","query":{"appName":"idmint",)" + query + "}}");
  };
  constexpr const char* kNone = R"("n" : 0)";
  EXPECT_THAT(count(R"("command.aggregate":{"$exists":true},)"
                    R"("command.readConcern.level":"linearizable")"),
              Not(HasSubstr(kNone)));
  EXPECT_THAT(count(R"("op":"update")"), Not(HasSubstr(kNone)));
  EXPECT_THAT(count(R"("command.aggregate":{"$exists":false},"ns":{"$not":{"$regex":"workers"}})"),
              HasSubstr(kNone));
  SequenceDefinition later = as_sequence(*found);
  later.last = 9;
  ASSERT_TRUE(first->catalog()->replace(*found, later));
  EXPECT_EQ(as_sequence(*catalog.find("a")).last, 9) << "once, and then it is asked for";
}

TEST_F(MongodbStoreTest, WithoutTheFirstDefinitionTheStoreOpensAllTheSame) {
  const auto open_first = [&](bool create) {
    return Store::open(mongo_set().url(database_),
                       {.deadline = seconds{30}, .create = create, .first_definition = "a"});
  };
  EXPECT_EQ(code_of(open_first(false)), Code::kNotFound);
  const auto store = open_first(true);
  ASSERT_TRUE(store) << why(store);
  Catalog& catalog = *(*store)->catalog();
  EXPECT_EQ(catalog.find("a").error().code, Code::kNotFound);
  ASSERT_TRUE(catalog.define(SequenceDefinition{"a"}));
  const auto other = open_first(true);
  ASSERT_TRUE(other) << why(other);
  SequenceDefinition later{"a"};
  later.last = 9;
  ASSERT_TRUE((*other)->catalog()->replace(SequenceDefinition{"a"}, later));
  EXPECT_EQ(as_sequence(*(*other)->catalog()->find("a")).last, 9) << "not as it was before";
}

TEST_F(MongodbStoreTest, NothingIsAcknowledgedWithoutAMajority) {
  ASSERT_TRUE(open()->counters()->create("c", {1, 1000}));
  const auto store = open(seconds{2});
  const std::size_t primary = mongo_set().primary();
  for (std::size_t i = 0; i < 3; ++i)
    if (i != primary) mongo_set().member(i).signal(SIGSTOP);
  const auto begin = std::chrono::steady_clock::now();
  const auto taken = store->counters()->advance("c", 5, Take::kAll);
  const auto took = std::chrono::steady_clock::now() - begin;
  const auto read = store->counters()->peek("c");
  for (std::size_t i = 0; i < 3; ++i)
    if (i != primary) mongo_set().member(i).signal(SIGCONT);
  EXPECT_TRUE(code_of(taken) == Code::kDeadlineExceeded || code_of(taken) == Code::kUnknown)
      << why(taken);
  EXPECT_THAT(why(taken), HasSubstr("127.0.0.1:"));
  EXPECT_LT(took, kNoHang);
  EXPECT_EQ(code_of(read), Code::kUnavailable) << "what is read is what a majority has";
  mongo_set().primary();
  const auto later = open();
  const auto next = later->counters()->advance("c", 1, Take::kAll);
  ASSERT_TRUE(next) << why(next);
  EXPECT_TRUE(next->first == 1 || next->first == 6) << next->first;
}

TEST_F(MongodbStoreTest, AReplyThatIsLostIsAskedForAgainAndNothingIsTakenTwice) {
  const auto store = open();
  CounterStore& counters = *store->counters();
  ASSERT_TRUE(counters.create("c", {1, 1000}));
  ASSERT_TRUE(store->unique_index()->create_space("s"));
  const std::string primary =
      mongo_set().member(mongo_set().primary()).url("?directConnection=true");
  // Each of the next writes is done, and its connection closed instead of a reply.
  ASSERT_THAT(mongo_command(primary, "admin",
                            R"({"configureFailPoint":"onPrimaryTransactionalWrite","mode":)"
                            R"({"times":6},"data":{"closeConnection":true}})"),
              HasSubstr(R"("ok" : 1.0)"));
  for (std::int64_t i = 0; i < 10; ++i)
    EXPECT_EQ(counters.advance("c", 2, Take::kAll), (Range{1 + 2 * i, 1, 2}));
  ASSERT_THAT(mongo_command(primary, "admin",
                            R"({"configureFailPoint":"onPrimaryTransactionalWrite","mode":)"
                            R"({"times":2},"data":{"closeConnection":true}})"),
              HasSubstr(R"("count" : 6)"))
      << "so many were closed";
  EXPECT_EQ(store->unique_index()->insert("s", std::array<std::int64_t, 3>{5, 6, 5}),
            (std::vector<bool>{true, true, false}));
  EXPECT_EQ(store->unique_index()->insert("s", std::array<std::int64_t, 2>{6, 7}),
            (std::vector<bool>{false, true}));
  mongo_command(primary, "admin",
                R"({"configureFailPoint":"onPrimaryTransactionalWrite","mode":"off"})");
}

// Each error is met twice, by a write that was not done and by one that was.
TEST_F(MongodbStoreTest, WhatAMemberSaysThatGoesDownIsAskedAgainAndNothingIsTakenTwice) {
  const auto store = open(mongo_set().url(database_) + "&heartbeatFrequencyMS=500");
  CounterStore& counters = *store->counters();
  ASSERT_TRUE(counters.create("c", {1, 1000}));
  const std::string primary =
      mongo_set().member(mongo_set().primary()).url("?directConnection=true");
  const auto fails = [&](const std::string& how) {
    return mongo_command(primary, "admin",
                         R"({"configureFailPoint":"failCommand","mode":{"times":1},"data":{)"
                         R"("failCommands":["findAndModify"],)" +
                             how + "}}");
  };
  std::int64_t next = 1;
  int met = 0;
  for (const std::string code : {"91", "189", "10107", "11600", "11602", "112", "365"})
    for (const std::string& how :
         {R"("errorCode":)" + code, R"("writeConcernError":{"errmsg":"","code":)" + code + "}"}) {
      ASSERT_THAT(fails(how), HasSubstr(R"("ok" : 1.0)"));
      const auto taken = counters.advance("c", 2, Take::kAll);
      EXPECT_EQ(taken, (Range{next, 1, 2})) << how << why(taken);
      next += 2;
      ++met;
    }
  ASSERT_THAT(fails(R"("closeConnection":true)"), HasSubstr(R"("count" : )" + std::to_string(met)))
      << "so many were met";
  EXPECT_EQ(counters.advance("c", 1, Take::kAll), (Range{next, 1, 1}));
}

// The first attempt takes a quarter of the deadline, and a new connection to the same server, the
// second, what the URL says; half a minute is left for an election on a slow machine.
TEST_F(MongodbStoreTest, APrimaryThatIsFrozenIsLeftForTheNextInTime) {
  const auto store = open(mongo_set().url(database_) + "&connectTimeoutMS=2000", seconds{40});
  ASSERT_TRUE(store->counters()->create("c", {1, 1000}));
  ASSERT_TRUE(store->counters()->advance("c", 1, Take::kAll));
  const std::size_t primary = mongo_set().primary();
  mongo_set().member(primary).signal(SIGSTOP);
  const auto taken = store->counters()->advance("c", 1, Take::kAll);
  const auto read = store->counters()->peek("c");
  mongo_set().member(primary).signal(SIGCONT);
  EXPECT_EQ(taken, (Range{2, 1, 1})) << why(taken);
  ASSERT_TRUE(read) << why(read);
  EXPECT_EQ(read->next, 3);
  mongo_set().primary();
}

// The second is sent while the first is not answered.
TEST_F(MongodbStoreTest, AWriteThatTakesLongerThanAnAttemptIsDoneOnce) {
  const auto store = open(mongo_set().url(database_) + "&socketTimeoutMS=100");
  ASSERT_TRUE(store->counters()->create("c", {1, 1000}));
  const std::size_t primary = mongo_set().primary();
  for (std::size_t i = 0; i < 3; ++i)
    if (i != primary) mongo_set().member(i).signal(SIGSTOP);
  auto taken = std::async(std::launch::async,
                          [&] { return store->counters()->advance("c", 5, Take::kAll); });
  EXPECT_EQ(taken.wait_for(milliseconds{500}), std::future_status::timeout);
  for (std::size_t i = 0; i < 3; ++i)
    if (i != primary) mongo_set().member(i).signal(SIGCONT);
  const auto first = taken.get();
  EXPECT_EQ(first, (Range{1, 1, 5})) << why(first);
  EXPECT_EQ(store->counters()->advance("c", 1, Take::kAll), (Range{6, 1, 1}));
  mongo_set().primary();
}

TEST_F(MongodbStoreTest, ADeadlineShorterThanAnElectionIsSaidToBe) {
  ASSERT_TRUE(open()->counters()->create("c", {1, 1000}));
  const auto store = open(seconds{3});
  const std::size_t primary = mongo_set().primary();
  for (std::size_t i = 0; i < 3; ++i)
    if (i != primary) mongo_set().member(i).signal(SIGSTOP);
  mongo_command(mongo_set().direct(primary), "admin", R"({"replSetStepDown":60,"force":true})");
  const auto taken = store->counters()->advance("c", 5, Take::kAll);
  for (std::size_t i = 0; i < 3; ++i)
    if (i != primary) mongo_set().member(i).signal(SIGCONT);
  // The driver may give up a few milliseconds early; it then says "2.97 s".
  EXPECT_THAT(why(taken),
              AllOf(HasSubstr("electionTimeoutMillis"), ContainsRegex("waited (2\\.9[0-9]?|3) s")));
  mongo_set().primary();
}

TEST_F(MongodbStoreTest, AUrlThatDoesNotFitItsServersIsSaidToBeWrong) {
  const std::string hosts = mongo_set().hosts();
  const std::string alone = mongo_standalone().host();
  const auto open_wrong = [](const std::string& url) {
    return std::async(std::launch::async,
                      [url] { return Store::open(url, {.deadline = seconds{5}}); });
  };
  const auto is_said = [](const auto& store, const auto& what) {
    EXPECT_EQ(code_of(store), Code::kUnavailable);
    EXPECT_THAT(why(store), AllOf(what, Not(HasSubstr("elect a"))));
  };
  // A test before this one may have left an election to come: whoever agrees to stand for none is a
  // secondary and stays one.
  mongo_set().primary();
  std::size_t one = 0;
  const auto stands_for_none = [&one](int time) {
    return mongo_command(mongo_set().direct(one), "admin",
                         R"({"replSetFreeze":)" + std::to_string(time) + "}")
        .contains(R"("ok" : 1.0)");
  };
  while (one < 3 && !stands_for_none(60)) ++one;
  ASSERT_LT(one, 3);
  const std::string secondary = mongo_set().member(one).host();
  auto of_another = open_wrong("mongodb://" + hosts + "/ids?replicaSet=other");
  auto of_none = open_wrong("mongodb://" + alone + "/ids?replicaSet=set");
  auto of_one = open_wrong("mongodb://" + secondary + "/ids");
  is_said(of_another.get(), HasSubstr(" is of the set \"set\", and the URL says replicaSet=other"));
  is_said(of_none.get(), HasSubstr(alone + " is a standalone server, of no set"));
  is_said(of_one.get(), AllOf(HasSubstr(secondary + " is a secondary of its set"),
                              HasSubstr("mongodb://" + hosts + "/DATABASE?replicaSet=set")));
  EXPECT_TRUE(stands_for_none(0));
  // From one member of a set that is named, the others are found.
  EXPECT_TRUE(Store::open("mongodb://" + secondary + "/" + database_ + "?replicaSet=set",
                          {.deadline = seconds{30}}));
}

TEST_F(MongodbStoreTest, OfAStandaloneServerABrokenCallIsUnknown) {
  const auto store = open(mongo_standalone().url(database_ + "?heartbeatFrequencyMS=500"));
  ASSERT_TRUE(store->counters()->create("c", {1, 1000}));
  const auto closes = [](const char* command) {
    return mongo_command(mongo_standalone().url(""), "admin",
                         R"({"configureFailPoint":"failCommand","mode":{"times":1},"data":)"
                         R"({"failCommands":[")" +
                             std::string(command) + R"("],"closeConnection":true}})");
  };
  ASSERT_THAT(closes("findAndModify"), HasSubstr(R"("ok" : 1.0)"));
  const auto broken = store->counters()->advance("c", 1, Take::kAll);
  EXPECT_EQ(code_of(broken), Code::kUnknown) << why(broken);
  EXPECT_THAT(why(broken), AllOf(HasSubstr("may have been done or not"),
                                 Not(HasSubstr("it is a standalone server now"))))
      << "nor was anything tried after it";
  EXPECT_TRUE(store->counters()->advance("c", 1, Take::kAll));
  ASSERT_THAT(closes("insert"), HasSubstr(R"("ok" : 1.0)"));
  EXPECT_EQ(code_of(store->counters()->create("d", {})), Code::kUnknown);
  ASSERT_THAT(closes("find"), HasSubstr(R"("ok" : 1.0)"));
  EXPECT_TRUE(store->counters()->peek("c")) << "a read is repeated";
  // It is done, and the reply says that it may not last.
  ASSERT_THAT(mongo_command(mongo_standalone().url(""), "admin",
                            R"({"configureFailPoint":"failCommand","mode":{"times":1},"data":)"
                            R"({"failCommands":["findAndModify"],"writeConcernError":)"
                            R"({"code":10107,"errmsg":"not primary"}}})"),
              HasSubstr(R"("ok" : 1.0)"));
  const auto may_not_last = store->counters()->advance("c", 1, Take::kAll);
  EXPECT_EQ(code_of(may_not_last), Code::kUnknown) << why(may_not_last);
}

// A write that was sent with a number is not sent to a server that knows no numbers.
TEST_F(MongodbStoreTest, AMemberThatComesBackAloneIsNotAskedAgain) {
  servers::MongoServer server({"--replSet", "one"});
  const auto no_set = Store::open(server.url("ids?replicaSet=one"), {.deadline = seconds{2}});
  EXPECT_THAT(why(no_set), AllOf(HasSubstr("rs.initiate()"), Not(HasSubstr("elect a"))));
  ASSERT_THAT(mongo_command(server.url("?directConnection=true"), "admin",
                            R"({"replSetInitiate":{"_id":"one","members":[{"_id":0,"host":")" +
                                server.host() + R"("}]}})"),
              HasSubstr(R"("ok" : 1.0)"));
  const auto store =
      open(server.url(database_ + "?directConnection=true&heartbeatFrequencyMS=500"));
  ASSERT_TRUE(store->counters()->create("c", {1, 1000}));
  ASSERT_THAT(mongo_command(server.url("?directConnection=true"), "admin",
                            R"({"configureFailPoint":"failCommand","mode":"alwaysOn","data":)"
                            R"({"failCommands":["findAndModify"],"closeConnection":true}})"),
              HasSubstr(R"("ok" : 1.0)"));
  auto taken = std::async(std::launch::async,
                          [&] { return store->counters()->advance("c", 1, Take::kAll); });
  ASSERT_THAT(mongo_command(server.url("?directConnection=true"), "admin",
                            R"({"waitForFailPoint":"failCommand","timesEntered":1,)"
                            R"("maxTimeMS":20000})"),
              HasSubstr(R"("ok" : 1.0)"));
  server.kill();
  server.restart({});
  const auto unknown = taken.get();
  EXPECT_EQ(code_of(unknown), Code::kUnknown) << why(unknown);
  EXPECT_THAT(why(unknown), AllOf(HasSubstr("standalone"), HasSubstr("may have been done or not")));
}

TEST_F(MongodbStoreTest, AServerThatHangsIsWaitedForNoLongerThanTheDeadline) {
  ASSERT_TRUE(open(mongo_standalone().url(database_))->counters()->create("c", {1, 1000}));
  const auto store = open(mongo_standalone().url(database_), milliseconds{1500});
  mongo_standalone().signal(SIGSTOP);
  const auto begin = std::chrono::steady_clock::now();
  const auto write = store->counters()->advance("c", 1, Take::kAll);
  const auto read = store->counters()->peek("c");
  const auto took = std::chrono::steady_clock::now() - begin;
  mongo_standalone().signal(SIGCONT);
  EXPECT_EQ(code_of(write), Code::kDeadlineExceeded) << why(write);
  EXPECT_EQ(code_of(read), Code::kUnavailable) << why(read);
  EXPECT_LT(took, kNoHang);
}

// The driver's pool ends the sessions first, then waits for its monitors.
TEST_F(MongodbStoreTest, WhoClosesAStoreEndsItsSessionsAndDoesNotWaitForTheRest) {
  using stores::mongodb::mongoc_client_pool_destroy;
  static std::binary_semaphore may_begin{0};
  static std::binary_semaphore has_ended{0};
  static std::binary_semaphore may_end{0};
  const std::string server = mongo_standalone().url("");
  // The sessions of the program that asks are among them. -1: the server did not say.
  const auto ended_sessions = [&] {
    const std::string counts = mongo_command(server, "admin", R"({"serverStatus":1})");
    const std::string total = R"("total" : )";
    const std::size_t at = counts.find(total, counts.find(R"("endSessions" : {)"));
    return at == std::string::npos ? -1LL
                                   : std::strtoll(counts.c_str() + at + total.size(), nullptr, 10);
  };
  for (const std::string fails : {"off", "alwaysOn"}) {
    while (background_is_busy()) std::this_thread::yield();  // of the stores before
    auto store = open(mongo_standalone().url(database_));
    ASSERT_TRUE(store->counters()->create("c" + fails, {1, 1000}));
    const auto fail_point = [&](const std::string& mode) {
      return mongo_command(server, "admin",
                           R"({"configureFailPoint":"failCommand","mode":")" + mode +
                               R"(","data":{"failCommands":["endSessions"],"appName":"idmint",)"
                               R"("errorCode":11601}})");
    };
    // How often it failed, since the server began.
    const auto failed = [](const std::string& reply) {
      const std::string count = R"("count" : )";
      const std::size_t at = reply.find(count);
      return at == std::string::npos ? -1LL : std::strtoll(&reply[at + count.size()], nullptr, 10);
    };
    const auto failed_before = failed(fail_point(fails));
    ASSERT_GE(failed_before, 0);
    const auto before = ended_sessions();
    const auto of_one_who_asks = ended_sessions() - before;
    EXPECT_EQ(of_one_who_asks, 1);
    static auto* const destroy = mongoc_client_pool_destroy;  // the driver is loaded now
    mongoc_client_pool_destroy = [](mongoc_client_pool_t* pool) {
      may_begin.acquire();
      destroy(pool);
      has_ended.release();
      may_end.acquire();
    };
    auto closed = std::async(std::launch::async, [&] { store.reset(); });
    const auto last = ended_sessions();
    may_begin.release();
    closed.get();
    has_ended.acquire();
    // The fail point counts a command that fails, and ended_sessions() does not.
    EXPECT_EQ(ended_sessions() - last, of_one_who_asks + (fails == "off" ? 1 : 0));
    EXPECT_EQ(failed(fail_point("off")) - failed_before, fails == "off" ? 0 : 1);
    EXPECT_TRUE(background_is_busy()) << fails;
    may_end.release();
    while (background_is_busy()) std::this_thread::yield();
    mongoc_client_pool_destroy = destroy;
  }
}

TEST_F(MongodbStoreTest, ItCountsHowOftenAllWasRaised) {
  const auto store = open();
  const auto beside = open();
  EXPECT_EQ(store->settle_count(), 0);
  EXPECT_EQ(store->doubt(), std::nullopt);
  ASSERT_TRUE(create_sequence(*store, {.name = "orders"}));
  ASSERT_TRUE(raise_all(*store, 10, RaiseMode::kPreview));
  EXPECT_EQ(open()->settle_count(), 0) << "nothing was raised";
  ASSERT_TRUE(raise_all(*store, 10, RaiseMode::kCarryOut));
  const std::int64_t first = store->settle_count();
  EXPECT_GT(first, 1'700'000'000) << "no number that was used before an older state came back";
  EXPECT_EQ(open()->settle_count(), first) << "for all who open it later";
  ASSERT_TRUE(beside->settle());
  const std::int64_t second = beside->settle_count();
  EXPECT_GT(second, first);
  EXPECT_EQ(store->settle_count(), first) << "as it read it last";
  EXPECT_EQ(store->read_settle_count(SteadyTime::max()), second);
  EXPECT_EQ(store->settle_count(), second);
  ASSERT_TRUE(store->settle(Store::Settle::kOnlyMoved));
  EXPECT_EQ(open()->settle_count(), second) << "what is known of it still holds";
}

TEST_F(MongodbStoreTest, AChildOfForkOpensItsOwn) {
  const auto store = open();
  ASSERT_TRUE(store->counters()->create("c", {1, 1000}));
  fakes::in_child([&] {
    auto own = Store::open(mongo_set().url(database_), {.deadline = seconds{60}});
    ASSERT_TRUE(own) << why(own);
    EXPECT_EQ((*own)->counters()->advance("c", 1, Take::kAll), (Range{1, 1, 1}));
    // Not closed: ThreadSanitizer does not see threads of a forked child end, and refuses the next
    // one that has the address of one before.
    std::ignore = own->release();
  });
  EXPECT_EQ(store->counters()->advance("c", 1, Take::kAll), (Range{2, 1, 1}));
}

// ---- users

class MongodbUsers : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = std::make_unique<servers::MongoServer>(std::vector<std::string>{"--auth"});
    ask(server_->url(""), R"({"createUser":"root","pwd":"r","roles":["root"]})");
    const std::string root = url("root", "r", "?authSource=admin");
    // As docs/stores.md has it.
    ask(root,
        R"({"createRole":"idmint","roles":[],"privileges":[{"resource":{"db":"ids","collection":)"
        R"(""},"actions":["find","insert","update"]}]})");
    ask(root, R"({"createUser":"minter","pwd":"m:/@ m","roles":["idmint"]})");
    ask(root, R"({"createUser":"reader","pwd":"r","roles":[{"role":"read","db":"ids"}]})");
  }
  static void TearDownTestSuite() { server_.reset(); }

  static void ask(const std::string& at, const std::string& json) {
    ASSERT_THAT(mongo_command(at, "admin", json), HasSubstr(R"("ok" : 1.0)"));
  }
  static std::string url(const std::string& user, const std::string& password,
                         const std::string& rest) {
    return "mongodb://" + user + ":" + password + "@" + server_->host() + "/" + rest;
  }
  static Result<std::unique_ptr<Store>> open(const std::string& url,
                                             Access access = Access::kReadWrite) {
    return Store::open(url, {.deadline = seconds{60}, .access = access});
  }
  static constexpr const char* kIds = "ids?authSource=admin";

  static std::unique_ptr<servers::MongoServer> server_;
};

std::unique_ptr<servers::MongoServer> MongodbUsers::server_;

TEST_F(MongodbUsers, FindInsertAndUpdateAreAllThatIsNeeded) {
  const auto store = open(url("minter", "m%3A%2F%40%20m", kIds));
  ASSERT_TRUE(store) << why(store);
  EXPECT_EQ((*store)->url(), "mongodb://minter:***@" + server_->host() + "/" + kIds);
  CounterStore& counters = *(*store)->counters();
  UniqueIndex& claims = *(*store)->unique_index();
  Catalog& catalog = *(*store)->catalog();
  EXPECT_TRUE(counters.create("c", {1, 100}));
  EXPECT_TRUE(counters.create("c", {1, 100}));
  EXPECT_TRUE(counters.advance("c", 1, Take::kAll));
  EXPECT_TRUE(counters.raise("c", 5));
  EXPECT_TRUE(counters.extend("c", 500));
  EXPECT_TRUE(counters.peek("c"));
  EXPECT_TRUE(counters.list(""));
  EXPECT_TRUE(counters.close("c"));
  NewCounter adopted{"d", {0, 99}, "n/d:next=n,max=max", 0, true};
  EXPECT_TRUE(counters.create(std::span(&adopted, 1)));
  EXPECT_TRUE(counters.advance("d", 1, Take::kAll));
  EXPECT_TRUE(counters.close("d"));
  adopted.name = "e";
  adopted.adopted = "n/e:next=n,max=max,validator";
  EXPECT_EQ(code_of(counters.create(std::span(&adopted, 1))), Code::kPermissionDenied);
  EXPECT_TRUE(claims.create_space("s"));
  EXPECT_TRUE(claims.insert("s", std::array{std::int64_t{1}}));
  EXPECT_TRUE(claims.claimed("s"));
  EXPECT_TRUE(claims.close_space("s"));
  SequenceDefinition a{"a"};
  EXPECT_TRUE(catalog.define(a));
  SequenceDefinition b = a;
  b.last = 9;
  EXPECT_TRUE(catalog.replace(a, b));
  EXPECT_TRUE(catalog.find("a"));
  EXPECT_TRUE(catalog.list());

  // A user who may only read can do that, and no more.
  const auto readable = open(url("reader", "r", kIds));
  ASSERT_TRUE(readable) << why(readable);
  EXPECT_TRUE((*readable)->counters()->peek("c"));
  const auto refused = (*readable)->counters()->raise("c", 50);
  EXPECT_EQ(code_of(refused), Code::kPermissionDenied);
  EXPECT_THAT(why(refused), HasSubstr(server_->host()));
  EXPECT_EQ(counters.peek("c")->next, 5);
}

TEST_F(MongodbUsers, WrongCredentialsAreRefusedAndNoneMayDoNothing) {
  const auto wrong = open(url("minter", "guess", kIds));
  EXPECT_EQ(code_of(wrong), Code::kUnauthenticated);
  EXPECT_THAT(why(wrong), AllOf(HasSubstr(server_->host()), Not(HasSubstr("guess"))));
  EXPECT_EQ(code_of(open(server_->url("ids"))), Code::kPermissionDenied);
  EXPECT_EQ(code_of(open(url("minter", "m%3A%2F%40%20m", "other?authSource=admin"))),
            Code::kPermissionDenied);
}

TEST_F(MongodbUsers, WhatIsNotAllowedIsNamed) {
  const std::string root = url("root", "r", "?authSource=admin");
  const auto store = open(url("minter", "m%3A%2F%40%20m", kIds));
  ASSERT_TRUE(store) << why(store);
  ASSERT_TRUE((*store)->counters()->create("named", {1, 100}));
  for (const std::string missing : {"find", "insert", "update"}) {
    std::string actions;
    for (const std::string action : {"find", "insert", "update"})
      if (action != missing) actions += (actions.empty() ? "\"" : ",\"") + action + "\"";
    ask(root, R"({"createRole":"no_)" + missing +
                  R"(","roles":[],"privileges":[{"resource":{"db":"ids","collection":""},)"
                  R"("actions":[)" +
                  actions + "]}]}");
    ask(root,
        R"({"createUser":"no_)" + missing + R"(","pwd":"n","roles":["no_)" + missing + "\"]}");
    const auto weak = open(url("no_" + missing, "n", kIds));
    std::string refusal = why(weak);
    Code code = code_of(weak);
    if (weak) {
      const auto taken = (*weak)->counters()->advance("named", 1, Take::kAll);
      const auto made = (*weak)->counters()->create("another", {1, 100});
      refusal = missing == "insert" ? why(made) : why(taken);
      code = missing == "insert" ? code_of(made) : code_of(taken);
    }
    EXPECT_EQ(code, Code::kPermissionDenied) << missing;
    EXPECT_THAT(refusal, AllOf(HasSubstr("the user needs the action"), HasSubstr(missing),
                               HasSubstr("in the database ids"), HasSubstr(server_->host())));
  }
}

TEST_F(MongodbUsers, BothMechanismsOfPasswordsWork) {
  const std::string root = url("root", "r", "?authSource=admin");
  for (const std::string mechanism : {"SCRAM-SHA-1", "SCRAM-SHA-256"}) {
    ask(root, R"({"createUser":")" + mechanism + R"(","pwd":"p","roles":["idmint"],)" +
                  R"("mechanisms":[")" + mechanism + "\"]}");
    for (const std::string& rest :
         {std::string(kIds), std::string(kIds) + "&authMechanism=" + mechanism}) {
      const auto store = open(url(mechanism, "p", rest));
      EXPECT_TRUE(store) << rest << why(store);
    }
    const std::string other = mechanism == "SCRAM-SHA-1" ? "SCRAM-SHA-256" : "SCRAM-SHA-1";
    EXPECT_EQ(code_of(open(url(mechanism, "p", std::string(kIds) + "&authMechanism=" + other))),
              Code::kUnauthenticated);
  }
}

LeaseRequest lease_request() {
  return {.token = Uuid::max(),
          .holder = "host",
          .now = 100,
          .units = 10,
          .terms = {.held = seconds{60}, .clock = system_clock().now(), .max_skew = seconds{60}}};
}

TEST_F(MongodbUsers, AMinterMakesAPoolAndLeasesItsWorkerIds) {
  const auto store = open(url("minter", "m%3A%2F%40%20m", kIds));
  ASSERT_TRUE(store) << why(store);
  LeaseTable& leases = *(*store)->leases();
  const auto made = leases.create_pool("web", 2);
  ASSERT_TRUE(made) << why(made);
  EXPECT_TRUE(leases.create_pool("web", 2)) << "it is there";
  const auto lease = leases.acquire("web", lease_request());
  ASSERT_TRUE(lease) << why(lease);
  EXPECT_TRUE(leases.extend("web", *lease, lease->to + 10, Uuid::max(), lease_request().terms));
  EXPECT_TRUE(leases.release("web", lease->worker, lease->token, lease->generation));
  EXPECT_TRUE(leases.raise_floor("web", 1000));

  const auto readable = open(url("reader", "r", kIds), Access::kReadOnly);
  ASSERT_TRUE(readable) << why(readable);
  LeaseTable& read = *(*readable)->leases();
  EXPECT_EQ(read.workers("web")->size(), 2U);
  EXPECT_EQ(code_of(read.acquire("web", lease_request())), Code::kPermissionDenied);
  EXPECT_EQ(code_of(read.create_pool("web", 2)), Code::kPermissionDenied);
  EXPECT_EQ(code_of(read.raise_floor("web", 2000)), Code::kPermissionDenied);

  // Each right in turn.
  const std::string root = url("root", "r", "?authSource=admin");
  constexpr std::array<const char*, 3> kRights = {"find", "insert", "update"};
  for (const std::string missing : kRights) {
    std::string actions;
    for (const std::string action : kRights)
      if (action != missing) actions += (actions.empty() ? "\"" : ",\"") + action + "\"";
    ask(root, R"({"createRole":"pools_no_)" + missing +
                  R"(","roles":[],"privileges":[{"resource":{"db":"ids","collection":)"
                  R"("idmint.store"},"actions":["find"]},{"resource":{"db":"ids","collection":)"
                  R"("idmint.workers.web"},"actions":[)" +
                  actions + "]}]}");
    ask(root, R"({"createUser":"pools_no_)" + missing + R"(","pwd":"n","roles":["pools_no_)" +
                  missing + "\"]}");
    const auto weak = open(url("pools_no_" + missing, "n", kIds));
    ASSERT_TRUE(weak) << why(weak);
    const auto taken = (*weak)->leases()->acquire("web", [&] {
      LeaseRequest of = lease_request();
      of.token = Uuid(Uuid::Bytes{static_cast<std::uint8_t>(missing.front())});
      of.now = 1000;
      return of;
    }());
    EXPECT_EQ(code_of(taken), missing == "insert" ? Code{0} : Code::kPermissionDenied)
        << missing << why(taken);
    if (!taken) {
      EXPECT_THAT(why(taken), AllOf(HasSubstr("the user needs the action"), HasSubstr(missing)));
    }
  }
}

// The driver takes a connection that breaks while it says who the user is for a wrong password.
TEST_F(MongodbUsers, OneThatBreaksInTheMidstOfThePasswordIsAskedAgain) {
  const auto store = open(url("minter", "m%3A%2F%40%20m", kIds));
  ASSERT_TRUE(store) << why(store);
  ASSERT_TRUE((*store)->counters()->create("midst", {1, 100}));
  ask(url("root", "r", "?authSource=admin"),
      R"({"configureFailPoint":"failCommand","mode":{"times":3},"data":)"
      R"({"failCommands":["find","saslContinue"],"closeConnection":true}})");
  const auto read = (*store)->counters()->peek("midst");
  EXPECT_TRUE(read) << why(read);
}

// ---- TLS

class MongodbTls : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<fakes::TempFolder>();
    const std::string make = "cd '" + folder_->path("") +
                             "' && for ca in ca other; do openssl req -x509 -newkey ec -pkeyopt "
                             "ec_paramgen_curve:prime256v1 -nodes -keyout $ca.key -out $ca.pem "
                             "-subj /CN=$ca -days 2; done && openssl req -newkey ec -pkeyopt "
                             "ec_paramgen_curve:prime256v1 -nodes -keyout server.key -out "
                             "server.csr -subj /CN=server && echo subjectAltName=IP:127.0.0.1 "
                             "> server.ext && openssl x509 -req -in server.csr -CA ca.pem -CAkey "
                             "ca.key -CAcreateserial -days 2 -extfile server.ext -out server.crt "
                             "&& cat server.key server.crt > server.pem";
    ASSERT_EQ(std::system(("( " + make + " ) > '" + folder_->path("log") + "' 2>&1").c_str()), 0);
    server_ = std::make_unique<servers::MongoServer>(std::vector<std::string>{
        "--tlsMode", "preferTLS", "--tlsCertificateKeyFile", folder_->path("server.pem"),
        "--tlsCAFile", folder_->path("ca.pem"), "--tlsAllowConnectionsWithoutCertificates"});
    ASSERT_THAT(
        mongo_command(server_->url(""), "admin", R"({"setParameter":1,"tlsMode":"requireTLS"})"),
        HasSubstr(R"("ok" : 1.0)"));
  }
  static void TearDownTestSuite() {
    server_.reset();
    folder_.reset();
  }
  static std::unique_ptr<fakes::TempFolder> folder_;
  static std::unique_ptr<servers::MongoServer> server_;
};

std::unique_ptr<fakes::TempFolder> MongodbTls::folder_;
std::unique_ptr<servers::MongoServer> MongodbTls::server_;

TEST_F(MongodbTls, IsSpokenToAServerThatWantsItAndIsKnown) {
  const StoreOptions soon{.deadline = milliseconds{1500}};
  const std::string with = "ids?tls=true&tlsCAFile=" + folder_->path("");
  const auto store = Store::open(server_->url(with + "ca.pem"), {.deadline = seconds{30}});
  ASSERT_TRUE(store) << why(store);
  ASSERT_TRUE((*store)->counters()->create("c", {1, 100}));
  EXPECT_EQ((*store)->counters()->advance("c", 1, Take::kAll), (Range{1, 1, 1}));

  const auto unknown = Store::open(server_->url(with + "other.pem"), soon);
  EXPECT_EQ(code_of(unknown), Code::kUnavailable);
  EXPECT_THAT(why(unknown), AllOf(HasSubstr(server_->host()), HasSubstr("certificate")));
  for (const char* const url : {"ids", "ids?replicaSet=set"}) {
    const auto plain = Store::open(server_->url(url), soon);
    EXPECT_EQ(code_of(plain), Code::kUnavailable);
    EXPECT_THAT(why(plain), AllOf(HasSubstr(server_->host()), HasSubstr("tls=true"),
                                  Not(HasSubstr("elect a"))));
  }
  const auto none = Store::open(server_->url(with + "none.pem"), soon);
  EXPECT_FALSE(none);
  EXPECT_THAT(why(none), HasSubstr(server_->host()));
}

}  // namespace
}  // namespace idmint
