// A store of Redis that has gone back to an older state: what shows that, and whom it stops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "idmint/store.h"
#include "store/counter_store.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/opened_store.h"
#include "tests/servers/redis.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::eventually;
using fakes::opened;
using fakes::take;
using fakes::with_counter;
using servers::RedisServer;
using testing::HasSubstr;
using testing::Not;

const std::string kItsRecord = "{idmint}:store";

// The action of an operator who knows which values were handed out.
void settle_past(Store& store, std::int64_t floor) {
  ASSERT_EQ(store.counters()->raise("c", floor), floor);
  ASSERT_TRUE(store.settle());
  ASSERT_FALSE(store.doubt());
}

TEST(RedisGoneBack, WhatAProcessSawPutsTheStoreInDoubtForAllUntilItIsSettled) {
  const RedisServer server;
  const auto store = with_counter(server.url());
  const auto other = opened(server.url());
  EXPECT_EQ(take(*other), (Range{1, 1, 1}));
  ASSERT_TRUE(store->mark_gone_back("it gave 7 before", 0, SteadyTime::max()));
  ASSERT_TRUE(store->mark_gone_back("it gave 8 before", 0, SteadyTime::max()))
      << "the first one stays";
  for (Store* const each : {store.get(), other.get()}) {
    const auto refused = take(*each);
    EXPECT_EQ(code_of(refused), Code::kDataLoss);
    EXPECT_THAT(fakes::why(refused), HasSubstr("it gave 7 before"));
  }
  EXPECT_EQ(code_of(other->settle(Store::Settle::kOnlyMoved)), Code::kDataLoss);
  settle_past(*other, 10);
  EXPECT_EQ(take(*store), (Range{10, 1, 1}));
  EXPECT_EQ(store->settle_count(), other->settle_count());
  ASSERT_TRUE(store->mark_gone_back("it gave 7 before", 0, SteadyTime::max()));
  EXPECT_EQ(take(*store), (Range{11, 1, 1})) << "of a count that is over";
}

// A copy on the same server, as COPY and SWAPDB make it.
TEST(RedisGoneBack, ACopyInAnotherDatabaseOfTheServerIsInDoubtUntilItIsSettled) {
  const RedisServer server;
  const std::string url = server.url();
  const auto store = with_counter(url);
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  const int here = std::stoi(url.substr(url.rfind('/') + 1));
  const int there = here + 1;
  for (const char* const key : {"store", "counters", "counter:c"})
    server.run({"COPY", "{idmint}:" + std::string(key), "{idmint}:" + std::string(key), "DB",
                std::to_string(there)},
               here);
  const auto copy = opened(url.substr(0, url.rfind('/') + 1) + std::to_string(there));
  const auto refused = take(*copy);
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("another database of the server"));
  EXPECT_EQ(take(*store), (Range{2, 1, 1})) << "the original is not";
  server.run({"SWAPDB", std::to_string(here), std::to_string(there)}, here);
  EXPECT_EQ(code_of(take(*opened(url))), Code::kFailedPrecondition);
  ASSERT_TRUE(copy->settle(Store::Settle::kOnlyMoved));
  EXPECT_EQ(take(*copy), (Range{3, 1, 1}));
}

// Its record has no number yet.
TEST(RedisGoneBack, AnOlderStoreKeepsItsDatabaseFromTheNextTakeOn) {
  const RedisServer server;
  const auto store = with_counter(server.url());
  server.run({"HDEL", kItsRecord, "database"});
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  EXPECT_EQ(server.run({"HGET", kItsRecord, "database"}),
            server.url().substr(server.url().rfind('/') + 1));
}

// Its values are those of another store.
TEST(RedisGoneBack, AProcessOfAFormerStoreDoesNotMarkTheOneInItsPlace) {
  const RedisServer server;
  const auto former = with_counter(server.url());
  ASSERT_TRUE(former->mark_gone_back("it gave 7 before", 0, SteadyTime::max()));
  settle_past(*former, 10);
  server.run({"FLUSHALL"});
  const auto store = with_counter(server.url());
  const auto refused = take(*former);
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("another store is there now"));
  static_cast<void>(former->doubt());
  static_cast<void>(former->mark_gone_back("it gave 9 before", 0, SteadyTime::max()));
  EXPECT_EQ(store->doubt(), std::nullopt);
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
}

// An older state has a lower count, which no state after it has again.
TEST(RedisGoneBack, ALowerSettleCountIsAnOlderState) {
  const RedisServer server;
  const auto store = with_counter(server.url());
  ASSERT_EQ(store->settle_count(), 0);
  ASSERT_TRUE(store->mark_gone_back("once", 0, SteadyTime::max()));
  settle_past(*store, 10);
  const std::int64_t once = store->settle_count();
  const std::string older = server.run({"HGET", kItsRecord, "settled"});
  ASSERT_TRUE(store->mark_gone_back("twice", once, SteadyTime::max()));
  settle_past(*store, 20);
  EXPECT_GT(store->settle_count(), once);
  const auto other = opened(server.url());
  server.run({"HSET", kItsRecord, "settled", older});
  const auto refused = take(*store);
  EXPECT_EQ(code_of(refused), Code::kDataLoss);
  EXPECT_THAT(fakes::why(refused), HasSubstr("was settled as number"));
  EXPECT_EQ(code_of(take(*other)), Code::kDataLoss) << "it is told";
  settle_past(*other, 30);
  EXPECT_GT(other->settle_count(), once);
  EXPECT_EQ(take(*store), (Range{30, 1, 1}));
}

// ---- what a server has read when it was started

// The store after values 1 to 3, of which the dump of the server has the first.
std::unique_ptr<Store> with_older_dump(const RedisServer& server) {
  auto store = with_counter(server.url());
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  server.run({"SAVE"});
  EXPECT_EQ(take(*store), (Range{2, 1, 1}));
  EXPECT_EQ(take(*store), (Range{3, 1, 1}));
  return store;
}

void switch_log_on(const RedisServer& server) {
  server.set("appendonly", "yes");
  ASSERT_TRUE(eventually([&] {
    return server.info("persistence", "aof_rewrite_in_progress") == "0" &&
           server.info("persistence", "aof_rewrite_scheduled") == "0" &&
           server.info("persistence", "aof_base_size") != "0";
  }));
}

void expect_doubt(const auto& result, const char* why) {
  EXPECT_EQ(code_of(result), Code::kFailedPrecondition) << fakes::why(result);
  EXPECT_THAT(fakes::why(result), HasSubstr(why));
}

// A refusal that advised CONFIG SET would be followed to a repeat.
TEST(RedisDump, AnOlderOneIsDoubtedWhateverIsDoneAfterTheRefusal) {
  RedisServer server;
  const auto store = with_older_dump(server);
  server.kill();
  server.restart({"appendonly no"});
  for (int i = 0; i < 2; ++i) {
    const auto refused = i == 0 ? code_of(take(*store)) : code_of(Store::open(server.url()));
    EXPECT_EQ(refused, Code::kFailedPrecondition);
  }
  const std::string why = fakes::why(Store::open(server.url()));
  EXPECT_THAT(why, HasSubstr("start it again with appendonly yes"));
  EXPECT_THAT(why, Not(HasSubstr("CONFIG SET")));
  switch_log_on(server);
  expect_doubt(take(*store), "has read a dump, which may be older");
  const auto fresh = opened(server.url());
  expect_doubt(take(*fresh), "has read a dump, which may be older");
  EXPECT_EQ(fresh->counters()->peek("c")->next, 2) << "it is older";
  server.kill();
  server.restart();
  expect_doubt(take(*opened(server.url())), "has read a dump, which may be older");
  settle_past(*opened(server.url()), 4);
  EXPECT_TRUE(eventually([&] { return take(*store).has_value(); }));
}

TEST(RedisDump, WithItsAppendOnlyFileTheServerHasAll) {
  RedisServer server;
  const auto store = with_older_dump(server);
  server.kill();
  server.restart({"appendonly no"});
  EXPECT_EQ(code_of(Store::open(server.url())), Code::kFailedPrecondition);
  server.kill();
  server.restart();
  EXPECT_EQ(take(*opened(server.url())), (Range{4, 1, 1}));
  EXPECT_EQ(take(*store), (Range{5, 1, 1}));
}

// Nobody came to the server before its log was switched on.
TEST(RedisDump, OneThatWasReadBeforeTheLogWasSwitchedOnIsDoubted) {
  RedisServer server;
  with_older_dump(server);
  server.kill();
  server.restart({"appendonly no"});
  switch_log_on(server);
  expect_doubt(take(*opened(server.url())), "has read a dump, which may be older");
  server.kill();
  server.restart();
  const auto fresh = opened(server.url());
  expect_doubt(take(*fresh), "has read a dump, which may be older");
  ASSERT_TRUE(fresh->settle(Store::Settle::kOnlyMoved));
  EXPECT_TRUE(take(*fresh));
}

TEST(RedisDump, WhatOperatorsDoAfterARestartIsNoDoubt) {
  RedisServer server;
  const auto store = with_counter(server.url());
  for (const bool rewrites : {true, false}) {
    EXPECT_TRUE(take(*store));
    server.kill();
    server.restart();
    if (rewrites) {
      server.run({"BGREWRITEAOF"});
    } else {
      server.set("maxmemory", "1gb");
    }
    EXPECT_TRUE(eventually([&] { return take(*store).has_value(); }));
    EXPECT_FALSE(store->doubt());
  }
}

// ---- a copy

TEST(RedisCopy, OneInAServerBesideTheFirstGivesNothingUntilItIsSaidToBeMoved) {
  const RedisServer first;
  const auto store = with_counter(first.url());
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  const RedisServer second;
  first.run({"MIGRATE", "127.0.0.1", std::to_string(second.port()), "", "0", "10000", "COPY",
             "KEYS", kItsRecord, "{idmint}:counters", "{idmint}:counter:c"});
  const auto copy = opened(second.url());
  EXPECT_EQ(copy->id(), store->id());
  expect_doubt(take(*copy), "listens on another port");
  EXPECT_EQ(take(*store), (Range{2, 1, 1})) << "the first one goes on";
  ASSERT_TRUE(copy->settle(Store::Settle::kOnlyMoved));
  EXPECT_EQ(take(*copy), (Range{2, 1, 1}));
}

// A store of before knows no port.
TEST(RedisCopy, AStoreWithoutAPortGoesOnAndHasOne) {
  RedisServer server;
  const auto store = with_counter(server.url());
  server.run({"HDEL", kItsRecord, "port", "settled"});
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  EXPECT_EQ(server.run({"HGET", kItsRecord, "port"}), std::to_string(server.port()));
}

// ---- who may write the mark

TEST(RedisGoneBack, WhoMayNotWriteTheMarkStopsAlone) {
  const RedisServer server;
  const auto other = with_counter(server.url());
  server.run({"ACL", "SETUSER", "minter", "on", ">geheim", "~{idmint}:*", "+@all", "-hsetnx"});
  const auto store = opened(server.url(0, "minter:geheim"));
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  EXPECT_EQ(code_of(store->mark_gone_back("it gave 7 before", 0, SteadyTime::max())),
            Code::kPermissionDenied);
  EXPECT_EQ(code_of(take(*store)), Code::kDataLoss);
  EXPECT_TRUE(store->doubt()) << "readiness says the same";
  EXPECT_TRUE(take(*other));
  ASSERT_TRUE(other->mark_gone_back("somebody says so", 0, SteadyTime::max()));
  settle_past(*other, 10);
  EXPECT_EQ(take(*store), (Range{10, 1, 1}));
  EXPECT_FALSE(store->doubt());
}

}  // namespace
}  // namespace idmint
