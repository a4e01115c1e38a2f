// Properties of MongoDB's lease tables alone, on servers that fail; mongodb_conformance_test shows
// that they are lease tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "idmint/clock.h"
#include "idmint/store.h"
#include "idmint/testing.h"
#include "ids/lease_table.h"
#include "tests/fakes/code_of.h"
#include "tests/servers/mongo.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::why;
using servers::mongo_command;
using servers::MongoSet;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Uuid token(std::uint64_t number) {
  Uuid::Bytes bytes{1};
  for (std::size_t i = 15; number > 0; --i, number >>= 8)
    bytes.at(i) = static_cast<std::uint8_t>(number);
  return Uuid(bytes);
}

// Another nonce with each call.
Uuid fresh() {
  static std::atomic<std::uint64_t> drawn{std::uint64_t{1} << 40};
  return token(++drawn);
}

LeaseTerms terms(milliseconds held = hours{1}) {
  return {.held = held, .clock = system_clock().now(), .max_skew = hours{1}};
}

LeaseRequest request(std::uint64_t number, std::int64_t now = 1000) {
  return {.token = token(number),
          .holder = "host",
          .now = now,
          .units = 10,
          .max_drift = 1'000'000,
          .terms = terms()};
}

class MongodbWorkers : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    set_ = std::make_unique<MongoSet>(servers::MongoSetOptions{.relays = true});
  }
  static void TearDownTestSuite() { set_.reset(); }

  std::unique_ptr<Store> open(StoreOptions options = {.deadline = seconds{30}},
                              Entropy& entropy = system_entropy()) {
    auto store = Store::open(set_->url(database_) + "&heartbeatFrequencyMS=500", options, entropy);
    if (!store) {
      ADD_FAILURE() << store.error().message();
      std::abort();
    }
    return *std::move(store);
  }
  // The reply of the set's primary, past its relay.
  std::string ask(const std::string& json, const std::string& database = {}) {
    return mongo_command(set_->direct(set_->primary()), database.empty() ? database_ : database,
                         json);
  }
  void set(const std::string& id, const std::string& change) {
    ASSERT_THAT(ask(R"({"update":"idmint.workers.p","updates":[{"q":{"_id":)" + id + R"(},"u":)" +
                    change + R"(}],"writeConcern":{"w":"majority"}})"),
                HasSubstr(R"("nModified" : 1)"));
  }
  // Without the parts of the reply that change from one to the next.
  std::string rows() {
    const std::string reply = ask(R"({"find":"idmint.workers.p","sort":{"_id":1}})");
    return reply.substr(0, reply.find(R"("id" :)"));
  }
  Lease acquire(LeaseTable& leases, const LeaseRequest& of) {
    const Result<Lease> lease = leases.acquire("p", of);
    if (!lease) {
      ADD_FAILURE() << lease.error().message();
      std::abort();
    }
    return *lease;
  }

  static std::unique_ptr<MongoSet> set_;
  fakes::TempFolder folder_;
  // The name of the folder, which nobody else has.
  std::string database_ = std::filesystem::path(folder_.path("x")).parent_path().filename();
};

std::unique_ptr<MongoSet> MongodbWorkers::set_;

// ---- what is in the database

TEST_F(MongodbWorkers, TheDocumentsAreAsTheHeaderSays) {
  const auto store = open();
  LeaseTable& leases = *store->leases();
  ASSERT_TRUE(leases.create_pool("p", 2));
  ASSERT_TRUE(leases.acquire("p", request(1)));
  EXPECT_THAT(
      rows(),
      AllOf(HasSubstr(R"({ "_id" : 0, "holder" : "host", "generation" : 1, "minted_until" : 1010, )"
                      R"("held_until" : { "$date" : )"),
            HasSubstr(R"("token" : { "$binary" : { "base64" : "AQAAAAAAAAAAAAAAAAAAAQ==", )"
                      R"("subType" : "04" } }, "taken" : { "generation" : 1, "from" : 1000 } }, )"),
            HasSubstr(
                R"({ "_id" : 1, "holder" : "", "generation" : 0, "minted_until" : 0, )"
                R"("held_until" : { "$date" : "1970-01-01T00:00:00Z" }, "store" : { "$binary" : )"),
            HasSubstr(R"({ "_id" : "pool", "name" : "p", "workers" : 2, "made" : true } ])")));
  EXPECT_THAT(ask(R"({"listIndexes":"idmint.workers.p"})"),
              AllOf(HasSubstr(R"("name" : "_id_")"), Not(HasSubstr("minted_until"))));
  ASSERT_TRUE(leases.extend("p", {0, token(1), 1, 1000, 1010}, 1020, token(2), terms()));
  EXPECT_THAT(rows(), HasSubstr(R"("nonce" : { "$binary" : { "base64" : )"
                                R"("AQAAAAAAAAAAAAAAAAAAAg==", "subType" : "04" } } }, )"));
  ASSERT_TRUE(leases.release("p", 0, token(1), 1));
  EXPECT_THAT(rows(), Not(HasSubstr("token")));
}

TEST_F(MongodbWorkers, AStoreInThePlaceOfAnotherLeasesNothing) {
  const auto old = open();
  ASSERT_TRUE(old->leases()->create_pool("p", 2));
  const Lease mine = acquire(*old->leases(), request(1));
  ASSERT_THAT(ask(R"({"dropDatabase":1,"writeConcern":{"w":"majority"}})"),
              HasSubstr(R"("ok" : 1.0)"));
  const auto replacing = open();
  ASSERT_TRUE(replacing->leases()->create_pool("p", 2));
  const std::string before = rows();
  const std::string told = "another store is there now, with the id " +
                           replacing->id().to_string() + " and not " + old->id().to_string();
  const auto acquired = old->leases()->acquire("p", request(2));
  EXPECT_EQ(code_of(acquired), Code::kFailedPrecondition) << why(acquired);
  EXPECT_THAT(why(acquired), HasSubstr(told));
  const auto extended = old->leases()->extend("p", mine, mine.to + 5, fresh(), terms());
  EXPECT_EQ(code_of(extended), Code::kDataLoss) << "the rest of the lease is not minted";
  const auto raised = old->leases()->raise_floor("p", 5000);
  EXPECT_EQ(code_of(raised), Code::kFailedPrecondition) << why(raised);
  EXPECT_EQ(code_of(old->leases()->workers("p")), Code::kFailedPrecondition);
  const auto released = old->leases()->release("p", mine.worker, mine.token, mine.generation);
  EXPECT_EQ(code_of(released), Code::kFailedPrecondition) << why(released);
  const auto of_rows = [](const std::string& all) { return all.substr(0, all.find("\"pool\"")); };
  EXPECT_EQ(of_rows(rows()), of_rows(before));
  // The same token and generation, and a higher bound: only the store is another one.
  set(std::to_string(mine.worker),
      R"({"$set":{"token":{"$binary":{"base64":"AQAAAAAAAAAAAAAAAAAAAQ==","subType":"04"}},)"
      R"("generation":{"$numberLong":"1"},"minted_until":{"$numberLong":"1010"}}})");
  const auto same = old->leases()->extend("p", mine, mine.to + 5, fresh(), terms());
  EXPECT_EQ(code_of(same), Code::kDataLoss);
  EXPECT_THAT(why(same), HasSubstr(told));
}

// As mongorestore that puts back what a new store lacks, and as older versions made rows.
TEST_F(MongodbWorkers, RowsOfAnotherStoreAreTakenOverAndThoseOfNoneServe) {
  const auto store = open();
  LeaseTable& leases = *store->leases();
  ASSERT_TRUE(leases.create_pool("p", 2));
  const auto bring = [&] {
    for (const char* const id : {"0", "1"})
      set(id, R"({"$set":{"store":{"$binary":{"base64":"AQAAAAAAAAAAAAAAAAAACQ==",)"
              R"("subType":"04"}}}})");
  };
  bring();
  Lease mine = acquire(leases, request(1));
  EXPECT_THAT(rows(), Not(HasSubstr("AQAAAAAAAAAAAAAAAAAACQ==")));
  bring();
  const auto extended = leases.extend("p", mine, mine.to + 5, fresh(), terms());
  ASSERT_TRUE(extended) << why(extended);
  bring();
  ASSERT_TRUE(leases.release("p", mine.worker, mine.token, mine.generation));
  bring();
  ASSERT_TRUE(leases.raise_floor("p", 5000));
  for (const char* const id : {"0", "1"}) set(id, R"({"$unset":{"store":1}})");
  mine = acquire(leases, request(2));
  EXPECT_GE(mine.from, 5000);
  EXPECT_TRUE(leases.extend("p", mine, mine.to + 5, fresh(), terms()));
  EXPECT_TRUE(leases.release("p", mine.worker, mine.token, mine.generation));
}

// A program that knows neither `taken` nor `nonce` takes the worker id, extends it, and fences.
TEST_F(MongodbWorkers, WhatAnOlderProgramDidIsNoAlarm) {
  const auto store = open();
  LeaseTable& leases = *store->leases();
  ASSERT_TRUE(leases.create_pool("p", 1));
  const Lease mine = acquire(leases, request(1));
  const std::string older = R"({"$set":{"token":{"$binary":{"base64":"AQAAAAAAAAAAAAAAAAAACQ==",)"
                            R"("subType":"04"}},"generation":{"$numberLong":"2"},"minted_until":)"
                            R"({"$numberLong":"1100"}}})";
  set("0", older);
  const auto refused = leases.extend("p", mine, mine.to + 5, fresh(), terms());
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition) << why(refused);
  const Lease theirs{0, token(9), 2, 1010, 1100};
  const auto extended = leases.extend("p", theirs, 1110, fresh(), terms());
  EXPECT_TRUE(extended) << "a row without a nonce: " << why(extended);
  set("0", R"({"$set":{"generation":{"$numberLong":"4294967296"},"minted_until":)"
           R"({"$numberLong":"2000"}},"$unset":{"token":1}})");
  const auto fenced = leases.extend("p", *extended, 2100, fresh(), terms());
  EXPECT_EQ(code_of(fenced), Code::kFailedPrecondition) << why(fenced);
}

// The collection is put back under a running holder: to when it held the worker id, and to before.
TEST_F(MongodbWorkers, AHolderSeesThatTheCollectionWasPutBack) {
  const auto store = open();
  LeaseTable& leases = *store->leases();
  ASSERT_TRUE(leases.create_pool("p", 1));
  const auto copied = [&](const std::string& from, const std::string& to) {
    ASSERT_THAT(ask(R"({"aggregate":")" + from + R"(","pipeline":[{"$out":")" + to +
                    R"("}],"cursor":{},"writeConcern":{"w":"majority"}})"),
                HasSubstr(R"("ok" : 1.0)"));
  };
  copied("idmint.workers.p", "unowned");
  LeaseRequest lapsing = request(1);
  lapsing.terms.held = -hours{1};
  Lease mine = acquire(leases, lapsing);
  copied("idmint.workers.p", "owned");
  const auto extended = leases.extend("p", mine, 1050, fresh(), terms());
  ASSERT_TRUE(extended) << why(extended);
  mine = *extended;
  std::uint64_t number = 1;
  for (const std::string copy : {"unowned", "owned"}) {
    for (const std::int64_t now : {1000, 1030}) {
      copied(copy, "idmint.workers.p");
      auto refused = leases.extend("p", mine, 1060, fresh(), terms());
      EXPECT_EQ(code_of(refused), Code::kDataLoss) << "nobody was there since: " << why(refused);
      // Somebody else is there first, and goes past the holder's bound.
      LeaseRequest others = request(++number, now);
      others.units = 100;
      const Lease theirs = acquire(leases, others);
      EXPECT_LT(theirs.from, mine.to);
      EXPECT_GT(theirs.to, mine.to);
      refused = leases.extend("p", mine, 1060, fresh(), terms());
      EXPECT_EQ(code_of(refused), Code::kDataLoss) << copy << ", " << now << ": " << why(refused);
      ASSERT_TRUE(leases.release("p", 0, theirs.token, theirs.generation));
      refused = leases.extend("p", mine, 1060, fresh(), terms());
      EXPECT_EQ(code_of(refused), Code::kDataLoss) << "released since: " << why(refused);
    }
  }
}

// The profiler notes what each command asked for, and how much it read.
TEST_F(MongodbWorkers, ASwapIsOneCommandThatReadsOneRow) {
  const auto store = open();
  LeaseTable& leases = *store->leases();
  ASSERT_TRUE(leases.create_pool("p", 3000));
  for (std::uint64_t i = 1; i <= 5; ++i) acquire(leases, request(i));
  ASSERT_THAT(ask(R"({"profile":2,"slowms":0})"), HasSubstr(R"("ok" : 1.0)"));
  const Lease lease = acquire(leases, request(6));
  const auto extended = leases.extend("p", lease, lease.to + 10, fresh(), terms());
  ASSERT_TRUE(leases.release("p", lease.worker, lease.token, lease.generation));
  ASSERT_THAT(ask(R"({"profile":0})"), HasSubstr(R"("ok" : 1.0)"));
  ASSERT_TRUE(extended) << why(extended);
  const auto count = [&](const std::string& query) {
    return ask(
        R"({"count":"system.profile","query":{"appName":"idmint","ns":{"$regex":"workers"})" +
        (query.empty() ? "" : "," + query) + "}}");
  };
  EXPECT_THAT(count(""), HasSubstr(R"("n" : 5)")) << "two, one, two";
  EXPECT_THAT(count(R"("op":"update","docsExamined":1,"keysExamined":1,"nModified":1,)"
                    R"("planSummary":"IXSCAN { _id: 1 }")"),
              HasSubstr(R"("n" : 3)"));
}

TEST_F(MongodbWorkers, ARowThatIsNotAsWeWriteItIsDamagedAndNotMended) {
  const auto store = open();
  LeaseTable& leases = *store->leases();
  ASSERT_TRUE(leases.create_pool("p", 1));
  Lease lease = acquire(leases, request(1));
  lease.to = 0;
  const std::string whole = R"({"$set":{"minted_until":{"$numberLong":"1010"},"generation":)"
                            R"({"$numberLong":"1"},"holder":"host","held_until":{"$date":)"
                            R"("2100-01-01T00:00:00Z"},"token":{"$binary":{"base64":)"
                            R"("AQAAAAAAAAAAAAAAAAAAAQ==","subType":"04"}}}})";
  for (const std::string change :
       {R"({"$set":{"minted_until":3.5}})", R"({"$set":{"minted_until":"3"}})",
        R"({"$unset":{"minted_until":1}})", R"({"$set":{"minted_until":-1}})",
        R"({"$set":{"generation":1.0}})", R"({"$set":{"generation":{"$numberDecimal":"1"}}})",
        R"({"$set":{"generation":"1"}})", R"({"$unset":{"generation":1}})",
        R"({"$set":{"held_until":0}})", R"({"$unset":{"held_until":1}})"}) {
    set("0", change);
    for (const char* const owner : {R"({"$set":{"holder":"x"}})", R"({"$unset":{"token":1}})"}) {
      set("0", owner);
      const std::string before = rows();
      const bool owned = before.contains("token");
      EXPECT_EQ(code_of(leases.workers("p")), Code::kDataLoss) << change;
      EXPECT_EQ(code_of(leases.extend("p", lease, 2000, fresh(), terms())), Code::kDataLoss)
          << change;
      EXPECT_EQ(code_of(leases.release("p", 0, lease.token, lease.generation)), Code::kDataLoss)
          << change;
      EXPECT_EQ(code_of(leases.raise_floor("p", 5000)), Code::kDataLoss) << change;
      if (!owned) {
        EXPECT_EQ(code_of(leases.acquire("p", request(2))), Code::kDataLoss) << change;
      }
      EXPECT_EQ(rows(), before);
    }
    set("0", whole);
  }
  for (const char* const other :
       {R"("x")", "null", R"({"$binary":{"base64":"AQ==","subType":"04"}})",
        R"({"$binary":{"base64":"AQAAAAAAAAAAAAAAAAAAAQ==","subType":"00"}})"}) {
    set("0", R"({"$set":{"token":)" + std::string(other) + "}}");
    EXPECT_EQ(code_of(leases.workers("p")), Code::kDataLoss) << other;
    EXPECT_EQ(code_of(leases.extend("p", lease, 2000, fresh(), terms())), Code::kDataLoss) << other;
  }
  set("0", whole);
  EXPECT_TRUE(leases.workers("p"));
  lease.to = 1010;
  EXPECT_TRUE(leases.extend("p", lease, 2000, fresh(), terms()));

  ASSERT_THAT(ask(R"({"delete":"idmint.workers.p","deletes":[{"q":{"_id":0},"limit":0}]})"),
              HasSubstr(R"("n" : 1)"));
  EXPECT_EQ(code_of(leases.workers("p")), Code::kDataLoss) << "a row is missing";
  EXPECT_EQ(code_of(leases.raise_floor("p", 5000)), Code::kDataLoss);
  set(R"("pool")", R"({"$set":{"workers":"one"}})");
  EXPECT_EQ(code_of(leases.workers("p")), Code::kDataLoss);
  EXPECT_EQ(code_of(leases.create_pool("p", 1)), Code::kDataLoss);
}

TEST_F(MongodbWorkers, AnInt32ThatAHandTypedBecomesAnInt64) {
  const auto store = open();
  LeaseTable& leases = *store->leases();
  ASSERT_TRUE(leases.create_pool("p", 1));
  set("0", R"([{"$set":{"minted_until":{"$toInt":2000000000},"generation":{"$toInt":7}}}])");
  LeaseRequest far = request(1, 2'000'000'000);
  far.units = 2'000'000'000;
  const Lease lease = acquire(leases, far);
  EXPECT_EQ(lease.to, 4'000'000'000);
  EXPECT_EQ(lease.generation, 8);
  const auto expect_longs = [&] {
    EXPECT_THAT(ask(R"({"count":"idmint.workers.p","query":{"$jsonSchema":{"properties":)"
                    R"({"minted_until":{"bsonType":"long"},"generation":{"bsonType":"long"}},)"
                    R"("required":["generation"]}}})"),
                HasSubstr(R"("n" : 1)"));
  };
  expect_longs();
  set("0", R"([{"$set":{"minted_until":{"$toInt":2000000000},"generation":{"$toInt":7}}}])");
  ASSERT_TRUE(leases.raise_floor("p", 5));
  EXPECT_EQ(leases.workers("p")->at(0).minted_until, 2'000'000'000);
  expect_longs();
}

// ---- making and fencing

TEST_F(MongodbWorkers, OfTwoSizesAtOnceOneIsMade) {
  const auto store = open();
  for (int round = 0; round < 5; ++round) {
    const std::string pool = "p" + std::to_string(round);
    std::array<Result<void>, 6> made;
    {
      std::barrier start(static_cast<std::ptrdiff_t>(made.size()));
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < made.size(); ++i)
        threads.emplace_back([&, i] {
          start.arrive_and_wait();
          made.at(i) = store->leases()->create_pool(pool, 3 + static_cast<std::int64_t>(i % 2));
        });
    }
    const auto workers = store->leases()->workers(pool);
    ASSERT_TRUE(workers) << why(workers);
    for (std::size_t i = 0; i < made.size(); ++i) {
      const bool same = workers->size() == 3 + i % 2;
      EXPECT_EQ(code_of(made.at(i)), same ? Code{0} : Code::kAlreadyExists) << why(made.at(i));
    }
  }
}

// As a create_pool() leaves it that is killed in the midst.
TEST_F(MongodbWorkers, APoolThatWasNotMadeToItsEndIsGoneOnWith) {
  const auto store = open();
  LeaseTable& leases = *store->leases();
  const auto cut = [&](const std::string& which) {
    set(R"("pool")", R"({"$set":{"made":false}})");
    ASSERT_THAT(ask(R"({"delete":"idmint.workers.p","deletes":[{"q":{"_id":)" + which +
                    R"(},"limit":0}],"writeConcern":{"w":"majority"}})"),
                HasSubstr(R"("ok" : 1.0)"));
  };
  ASSERT_TRUE(leases.create_pool("p", 3));
  const Lease lease = acquire(leases, request(1));
  cut(R"({"$in":[1,2]})");
  const auto none = leases.acquire("p", request(2));
  EXPECT_EQ(code_of(none), Code::kNotFound);
  EXPECT_THAT(why(none), HasSubstr("create it again, with 3"));
  EXPECT_EQ(code_of(leases.workers("p")), Code::kNotFound);
  EXPECT_EQ(code_of(leases.create_pool("p", 4)), Code::kAlreadyExists);
  ASSERT_TRUE(leases.create_pool("p", 3));
  EXPECT_EQ(leases.workers("p")->size(), 3U);
  EXPECT_TRUE(leases.extend("p", lease, lease.to + 5, fresh(), terms()))
      << "what was there is left";

  cut("2");
  EXPECT_EQ(code_of(leases.raise_floor("p", 5000)), Code::kNotFound)
      << "a row that is made later would begin at 0";
  ASSERT_TRUE(leases.create_pool("p", 3));
  ASSERT_TRUE(leases.raise_floor("p", 5000));
  const auto raised = leases.workers("p");
  ASSERT_EQ(raised->size(), 3U);
  for (const LeaseState& state : *raised) EXPECT_EQ(state.minted_until, 5000);
}

// The same update as before: the same epoch.
TEST_F(MongodbWorkers, AFenceThatIsAppliedLateThrowsNobodyOut) {
  ASSERT_TRUE(open()->leases()->create_pool("p", 2));
  ScriptedEntropy entropy(std::vector<std::uint8_t>(64, 77));
  const auto store = open({.deadline = seconds{30}}, entropy);
  LeaseTable& leases = *store->leases();
  ASSERT_TRUE(leases.raise_floor("p", 5000));
  const Lease lease = acquire(leases, request(1));
  ASSERT_TRUE(leases.raise_floor("p", 5000));
  EXPECT_TRUE(leases.extend("p", lease, lease.to + 5, fresh(), terms()));
}

// ---- clocks

TEST_F(MongodbWorkers, WhoseClockIsWrongIsRefusedWithTheFigures) {
  const auto store = open();
  LeaseTable& leases = *store->leases();
  ASSERT_TRUE(leases.create_pool("p", 2));
  const Lease lease = acquire(leases, request(1));
  const std::string before = rows();
  for (const auto& [off, text] :
       {std::pair{seconds{100}, "ahead of that of the server, and 1 min is allowed"},
        std::pair{seconds{-100}, "behind that of the server, and 1 min is allowed"}}) {
    LeaseRequest wrong = request(2);
    wrong.terms.clock += off;
    wrong.terms.max_skew = seconds{60};
    const auto acquired = leases.acquire("p", wrong);
    EXPECT_EQ(code_of(acquired), Code::kUnavailable);
    EXPECT_THAT(why(acquired), HasSubstr(text));
    const auto extended = leases.extend("p", lease, lease.to + 5, fresh(), wrong.terms);
    EXPECT_EQ(code_of(extended), Code::kUnavailable);
    EXPECT_THAT(why(extended), HasSubstr(text));
    wrong.token = lease.token;
    wrong.repeated = true;
    EXPECT_EQ(code_of(leases.acquire("p", wrong)), Code::kUnavailable);
  }
  EXPECT_EQ(rows(), before);
  LeaseRequest near = request(2);
  near.terms.clock += seconds{50};
  near.terms.max_skew = seconds{60};
  EXPECT_TRUE(leases.acquire("p", near));
  EXPECT_TRUE(leases.extend("p", lease, lease.to + 5, fresh(), near.terms));
}

// The servers run on this host.
TEST_F(MongodbWorkers, TheClockOfTheStoreIsThatOfItsPrimary) {
  const auto store = open();
  const Instant before = std::chrono::floor<milliseconds>(system_clock().now());
  const auto time = store->time();
  const Instant after = system_clock().now();
  ASSERT_TRUE(time) << why(time);
  ASSERT_TRUE(time->has_value());
  EXPECT_GE(time->value_or(Instant::min()), before);
  EXPECT_LE(time->value_or(Instant::max()), after);
}

// A command that took longer than max_skew to get there shows an old time.
TEST_F(MongodbWorkers, WhoHadToWaitForTheNextPrimaryHasNoWrongClock) {
  const auto store = open({.deadline = seconds{60}});
  LeaseTable& leases = *store->leases();
  ASSERT_TRUE(leases.create_pool("p", 2));
  const Lease lease = acquire(leases, request(1));
  const std::size_t primary = set_->primary();
  set_->member(primary).signal(SIGSTOP);
  LeaseRequest of = request(2);
  of.terms.max_skew = milliseconds{500};
  auto acquired = std::async(std::launch::async, [&] { return leases.acquire("p", of); });
  const auto extended = leases.extend("p", lease, lease.to + 5, fresh(), of.terms);
  const auto second = acquired.get();
  set_->member(primary).signal(SIGCONT);
  EXPECT_TRUE(extended) << why(extended);
  EXPECT_TRUE(second) << why(second);
  set_->primary();
}

// ---- repeated, late, lost

TEST_F(MongodbWorkers, ARepeatedRequestTakesItsOwnWhoeverElseIsFree) {
  const auto store = open();
  LeaseTable& leases = *store->leases();
  ASSERT_TRUE(leases.create_pool("p", 3));
  acquire(leases, request(1));
  const Lease own = acquire(leases, request(2));
  LeaseRequest again = request(2);
  again.repeated = true;
  again.max_drift = 5;
  const auto ahead = leases.acquire("p", again);
  EXPECT_EQ(code_of(ahead), Code::kUnavailable);
  EXPECT_THAT(why(ahead), HasSubstr("10 ms ahead of this clock"));
  again.now += 5;
  const Lease more = acquire(leases, again);
  EXPECT_EQ(more.worker, own.worker);
  EXPECT_EQ(more.generation, own.generation);
  EXPECT_EQ(more.from, own.to);
  const auto extended = leases.extend("p", more, more.to + 10, fresh(), terms());
  EXPECT_TRUE(extended) << "what is told is what is kept: " << why(extended);
}

TEST_F(MongodbWorkers, AReplyThatIsLostOrARequestThatComesTwiceIsDoneOnce) {
  const auto store = open();
  LeaseTable& leases = *store->leases();
  ASSERT_TRUE(leases.create_pool("p", 1));
  servers::Relay& relay = set_->relay(set_->primary());
  const servers::Relay::Counts before = relay.counts();
  std::int64_t bound = 1000;
  std::int64_t generation = 0;
  Uuid nonce{};
  for (const bool lost : {true, false}) {
    const auto fault = [&](const char* command) {
      if (lost) return relay.drop_replies(1, command);
      relay.repeat_requests(1, command);
    };
    fault("update");
    const auto lease = leases.acquire("p", request(1, bound));
    ASSERT_TRUE(lease) << why(lease);
    EXPECT_EQ(*lease, (Lease{0, token(1), ++generation, bound, bound + 10, nonce}));
    fault("update");
    nonce = fresh();
    const auto extended = leases.extend("p", *lease, lease->to + 10, nonce, terms());
    ASSERT_TRUE(extended) << why(extended);
    EXPECT_EQ(leases.workers("p")->at(0).minted_until, bound + 20);
    fault("update");
    const auto released = leases.release("p", 0, lease->token, lease->generation);
    EXPECT_TRUE(released) << why(released);
    bound += 20;
  }
  EXPECT_EQ(relay.counts().dropped - before.dropped, 3);
  EXPECT_EQ(relay.counts().repeated - before.repeated, 3);
}

TEST_F(MongodbWorkers, ARequestThatIsLostOnItsWayIsSentAgain) {
  const auto store = open();
  LeaseTable& leases = *store->leases();
  ASSERT_TRUE(leases.create_pool("p", 1));
  servers::Relay& relay = set_->relay(set_->primary());
  const int before = relay.counts().dropped;
  relay.drop_requests(1, "update");
  const auto lease = leases.acquire("p", request(1));
  ASSERT_TRUE(lease) << why(lease);
  EXPECT_EQ(*lease, (Lease{0, token(1), 1, 1000, 1010}));
  relay.drop_requests(1, "update");
  const auto extended = leases.extend("p", *lease, lease->to + 10, fresh(), terms());
  EXPECT_TRUE(extended) << why(extended);
  relay.drop_requests(1, "update");
  const auto released = leases.release("p", 0, lease->token, lease->generation);
  EXPECT_TRUE(released) << why(released);
  EXPECT_EQ(relay.counts().dropped - before, 3);
  EXPECT_EQ(leases.workers("p")->at(0).minted_until, 1020);
}

// It stays on its way while another takes the worker id over.
TEST_F(MongodbWorkers, ARequestThatComesAfterATakeOverChangesNothing) {
  const auto store = open();
  LeaseTable& leases = *store->leases();
  ASSERT_TRUE(leases.create_pool("p", 1));
  servers::Relay& relay = set_->relay(set_->primary());
  const int before = relay.counts().held;
  int held = before;
  // The outcome of the call, whose command comes after what is done meanwhile.
  const auto late = [&](const char* command, const auto& call, const auto& meanwhile) {
    relay.hold_requests(1, command);
    auto answer = std::async(std::launch::async, [&] { return code_of(call()); });
    ++held;
    while (relay.counts().held < held &&
           answer.wait_for(milliseconds{1}) == std::future_status::timeout) {
    }
    meanwhile();
    relay.let_go();
    return answer.get();
  };

  const Lease first = acquire(leases, request(1));
  Lease second;
  EXPECT_EQ(
      late(
          "update", [&] { return leases.extend("p", first, first.to + 100, fresh(), terms()); },
          [&] {
            EXPECT_TRUE(leases.release("p", 0, first.token, first.generation));
            second = acquire(leases, request(2));
          }),
      Code::kFailedPrecondition);
  EXPECT_EQ(second.from, first.to);
  LeaseState there = leases.workers("p")->at(0);
  EXPECT_EQ(there.token, second.token);
  EXPECT_EQ(there.minted_until, second.to) << "an extend of another owner";

  Lease third;
  EXPECT_EQ(late(
                "update", [&] { return leases.release("p", 0, second.token, second.generation); },
                [&] {
                  EXPECT_TRUE(leases.release("p", 0, second.token, second.generation));
                  third = acquire(leases, request(3));
                }),
            Code::kFailedPrecondition);
  EXPECT_EQ(leases.workers("p")->at(0).token, third.token) << "a release of another owner";

  ASSERT_TRUE(leases.release("p", 0, third.token, third.generation));
  Lease fifth;
  EXPECT_EQ(late(
                "update", [&] { return leases.acquire("p", request(4)); },
                [&] { fifth = acquire(leases, request(5)); }),
            Code::kResourceExhausted);
  EXPECT_EQ(fifth.from, third.to);
  there = leases.workers("p")->at(0);
  EXPECT_EQ(there.token, fifth.token) << "an acquire that finds an owner";
  EXPECT_EQ(there.minted_until, fifth.to);
  EXPECT_TRUE(leases.extend("p", fifth, fifth.to + 10, fresh(), terms()));
  EXPECT_EQ(relay.counts().held - before, 3);
}

// A copy of this process has its sessions, and is further in one.
TEST_F(MongodbWorkers, ANumberThatACopyHasPassedIsNoUnknownOutcome) {
  const auto store = open();
  LeaseTable& leases = *store->leases();
  ASSERT_TRUE(leases.create_pool("p", 2));
  ASSERT_THAT(mongo_command(set_->direct(set_->primary()), "admin",
                            R"({"configureFailPoint":"failCommand","mode":{"times":2},"data":)"
                            R"({"failCommands":["update"],"errorCode":225}})"),
              HasSubstr(R"("ok" : 1.0)"));
  const auto lease = leases.acquire("p", request(1));
  ASSERT_TRUE(lease) << why(lease);
  EXPECT_EQ(*lease, (Lease{0, token(1), 1, 1000, 1010}));
}

// The second of its two reads ends by the deadline of the call, too.
TEST_F(MongodbWorkers, ThePoolAndItsRowsAreReadByOneDeadline) {
  ASSERT_TRUE(open()->leases()->create_pool("p", 2));
  constexpr seconds kDeadline{2};
  auto store = Store::open(set_->url(database_), {.deadline = kDeadline});
  for (int attempt = 0; !store && attempt < 20; ++attempt)  // the opening may miss it
    store = Store::open(set_->url(database_), {.deadline = kDeadline});
  ASSERT_TRUE(store) << why(store);
  const auto cut_reads = [&](const std::string& mode) {
    EXPECT_THAT(ask(R"({"configureFailPoint":"failCommand","mode":)" + mode +
                        R"(,"data":{"failCommands":["find"],"closeConnection":true}})",
                    "admin"),
                HasSubstr(R"("ok" : 1.0)"));
  };
  cut_reads(R"({"skip":1})");
  const auto begin = std::chrono::steady_clock::now();
  const auto workers = (*store)->leases()->workers("p");
  const auto took = std::chrono::steady_clock::now() - begin;
  cut_reads(R"("off")");
  EXPECT_EQ(code_of(workers), Code::kUnavailable) << why(workers);
  EXPECT_LT(took, seconds{20}) << "a machine may be slow, but not by a minute";
}

// ---- fail-over and races

TEST_F(MongodbWorkers, ALeaseOutlivesItsPrimary) {
  const auto store = open();
  LeaseTable& leases = *store->leases();
  ASSERT_TRUE(leases.create_pool("p", 1));
  Lease lease = acquire(leases, request(1));
  for (int i = 0; i < 2; ++i) {
    const std::size_t primary = set_->primary();
    mongo_command(set_->direct(primary), "admin", R"({"replSetStepDown":5,"force":true})");
    const auto extended = leases.extend("p", lease, lease.to + 10, fresh(), terms());
    ASSERT_TRUE(extended) << why(extended);
    lease = *extended;
    EXPECT_EQ(code_of(leases.acquire("p", request(2))), Code::kResourceExhausted);
  }
  EXPECT_EQ(leases.workers("p")->at(0).minted_until, lease.to);
  set_->primary();
}

TEST_F(MongodbWorkers, OfSixtyFourAtOnceThirtyTwoGetOneEach) {
  constexpr int kThreads = 64;
  constexpr int kWorkers = 32;
  const auto store = open();
  LeaseTable& leases = *store->leases();
  ASSERT_TRUE(leases.create_pool("p", kWorkers));
  std::set<std::tuple<std::int64_t, std::int64_t>> ranges;
  for (int round = 0; round < 3; ++round) {
    std::vector<Result<Lease>> got(kThreads, std::unexpected(Error{Code::kInternal, ""}));
    {
      std::barrier start(kThreads);
      std::vector<std::jthread> threads;
      for (int i = 0; i < kThreads; ++i)
        threads.emplace_back([&, i] {
          const LeaseRequest of = request(static_cast<std::uint64_t>(round) * kThreads + 1 +
                                          static_cast<std::uint64_t>(i));
          start.arrive_and_wait();
          got.at(static_cast<std::size_t>(i)) = leases.acquire("p", of);
        });
    }
    std::set<std::int64_t> held;
    for (const Result<Lease>& lease : got) {
      if (!lease) {
        EXPECT_EQ(code_of(lease), Code::kResourceExhausted) << why(lease);
        continue;
      }
      EXPECT_TRUE(held.insert(lease->worker).second) << "two hold " << lease->worker;
      EXPECT_TRUE(ranges.emplace(lease->worker, lease->from).second);
    }
    EXPECT_EQ(held.size(), std::size_t{kWorkers});
    for (const Result<Lease>& lease : got)
      if (lease) {
        EXPECT_TRUE(leases.release("p", lease->worker, lease->token, lease->generation));
      }
  }
}

// Generators as they are run. The test checks only the bounds that each was told.
// IDMINT_FAULT_ROUNDS sets how often each fault is tried.
TEST_F(MongodbWorkers, WhateverFailsNoTimestampOfAWorkerIdIsGivenTwice) {
  constexpr int kGenerators = 10;
  struct Used {
    std::int64_t from, to;
    Uuid token;
    std::int64_t generation;
  };
  std::mutex mutex;
  std::map<std::int64_t, std::vector<Used>> used;
  std::condition_variable moved;
  int extends = 0;
  std::atomic<int> unknown{0};
  std::atomic<int> lost{0};
  std::atomic<bool> ending{false};
  ASSERT_TRUE(open()->leases()->create_pool("p", 6));
  {
    std::vector<std::jthread> generators;
    for (int generator = 0; generator < kGenerators; ++generator)
      generators.emplace_back([&, generator] {
        // Every other deadline is shorter than an election, so that outcomes are unknown.
        const StoreOptions options{.deadline = milliseconds{generator % 2 == 0 ? 400 : 8000}};
        auto store = Store::open(set_->url(database_), options);
        while (!store && !ending) store = Store::open(set_->url(database_), options);
        if (!store) return;
        LeaseTable& leases = *(*store)->leases();
        const auto is_unknown = [&](const Error& error) {
          const bool is = error.code == Code::kUnknown || error.code == Code::kDeadlineExceeded;
          unknown += is ? 1 : 0;
          return is || error.code == Code::kUnavailable;
        };
        std::uint64_t number = 0;
        while (!ending) {
          LeaseRequest of = request(static_cast<std::uint64_t>(generator) * 1'000'000 + ++number);
          of.max_drift = 1'000'000'000;
          // Some are lost to others under way.
          of.terms.held = milliseconds{number % 3 == 0 ? 5 : 1000};
          Result<Lease> lease = leases.acquire("p", of);
          while (!ending && !lease && is_unknown(lease.error()) && number % 2 == 0) {
            of.repeated = true;
            of.terms.clock = system_clock().now();
            lease = leases.acquire("p", of);
          }
          if (!lease) {
            EXPECT_TRUE(code_of(lease) == Code::kResourceExhausted || is_unknown(lease.error()))
                << why(lease);
            continue;
          }
          bool mine = true;
          Uuid nonce = fresh();
          for (int i = 0; i < 6 && mine && !ending; ++i) {
            const auto longer =
                leases.extend("p", *lease, lease->to + 10, nonce, terms(of.terms.held));
            if (longer) {
              *lease = *longer;
              nonce = fresh();
              const std::lock_guard lock(mutex);
              ++extends;
              moved.notify_all();
            } else if (!is_unknown(longer.error())) {
              EXPECT_EQ(code_of(longer), Code::kFailedPrecondition) << why(longer);
              mine = false;
              ++lost;
            }
          }
          if (mine && number % 4 != 0) {
            const auto released =
                leases.release("p", lease->worker, lease->token, lease->generation);
            EXPECT_TRUE(released || is_unknown(released.error()) ||
                        code_of(released) == Code::kFailedPrecondition)
                << why(released);
          }
          const std::lock_guard lock(mutex);
          used[lease->worker].push_back({lease->from, lease->to, lease->token, lease->generation});
        }
      });
    // No fault before the one before it has been seen.
    // Each fault is there until so many leases were extended under it.
    const auto go_on = [&](int more) {
      std::unique_lock lock(mutex);
      EXPECT_TRUE(moved.wait_for(lock, seconds{400}, [&, wanted = extends + more] {
        return extends >= wanted;
      })) << "they came to a stand";
    };
    const char* const wish = std::getenv("IDMINT_FAULT_ROUNDS");
    const int rounds = wish != nullptr ? std::atoi(wish) : 1;
    for (int round = 0; round < rounds; ++round) {
      std::size_t primary = set_->primary();
      go_on(30);
      set_->relay(primary).drop_replies(20, "txnNumber");
      go_on(30);
      set_->relay(primary).repeat_requests(20, "txnNumber");
      go_on(30);
      set_->relay(primary).cut(servers::Whose::kClients);
      go_on(30);
      mongo_command(set_->direct(primary), "admin", R"({"replSetStepDown":5,"force":true})");
      go_on(30);
      primary = set_->primary();
      set_->member(primary).signal(SIGSTOP);
      go_on(30);
      set_->member(primary).signal(SIGCONT);
      primary = set_->primary();
      set_->member(primary).kill();
      go_on(30);
      set_->member(primary).restart();
    }
    ending = true;
  }
  set_->primary();
  const auto store = open();
  const auto rows = store->leases()->workers("p");
  ASSERT_TRUE(rows) << why(rows);
  std::size_t ranges = 0;
  for (auto& [worker, all] : used) {
    std::ranges::sort(all, {}, &Used::from);
    ranges += all.size();
    for (std::size_t i = 1; i < all.size(); ++i) {
      EXPECT_LE(all[i - 1].to, all[i].from) << "worker id " << worker;
      EXPECT_TRUE(all[i - 1].token != all[i].token || all[i - 1].generation != all[i].generation);
    }
    EXPECT_GE(rows->at(static_cast<std::size_t>(worker)).minted_until, all.back().to);
  }
  EXPECT_GE(ranges, 20U);
  std::printf("%zu leases, %d extends, %d unknown outcomes, %d lost\n", ranges, extends,
              unknown.load(), lost.load());
}

}  // namespace
}  // namespace idmint
