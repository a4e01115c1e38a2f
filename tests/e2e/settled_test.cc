// After a store has gone back and an operator has settled it, every process that runs goes on by
// itself: the library and the daemon, with every strategy and with pools.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "idmint/mint.h"
#include "idmint/sequence.h"
#include "idmint/store.h"
#include "idmint/worker_pool.h"
#include "mint/seen.h"
#include "tests/fakes/opened_store.h"
#include "tests/fakes/running_server.h"
#include "tests/servers/etcd.h"
#include "tests/servers/mariadb.h"
#include "tests/servers/mongo.h"
#include "tests/servers/postgresql.h"
#include "tests/servers/redis.h"

namespace idmint::e2e {
namespace {

using fakes::eventually;
using fakes::opened;
using server::Client;
using servers::EtcdCluster;
using servers::RedisServer;
using testing::HasSubstr;

const std::array<std::string, 5> kNumbers = {"orders", "cached", "striped", "interleaved",
                                             "permuted"};
const std::string kRandom = "random";
const std::string kPool = "workers";

// Makes one source of each kind.
void make_sources(Store& store) {
  const std::array definitions = {
      SequenceDefinition{.name = kNumbers[0]},
      SequenceDefinition{.name = kNumbers[1], .strategy = Strategy::kCached, .step = 3},
      SequenceDefinition{
          .name = kNumbers[2], .strategy = Strategy::kStriped, .last = 4'000'000, .stripes = 4},
      SequenceDefinition{
          .name = kNumbers[3], .strategy = Strategy::kInterleaved, .last = 4'000'000, .stripes = 2},
      SequenceDefinition{.name = kNumbers[4], .strategy = Strategy::kPermuted, .last = 999'999},
      SequenceDefinition{
          .name = kRandom, .strategy = Strategy::kRandom, .last = kLargestValue - 1}};
  for (const SequenceDefinition& each : definitions) {
    const auto made = create_sequence(store, each);
    ASSERT_TRUE(made) << each.name << ": " << made.error().message();
  }
  const auto made = create_pool(store, {.name = kPool, .workers = 8});
  ASSERT_TRUE(made) << made.error().message();
}

// The library and the daemon in one process, with every source open, and what they gave.
class Minting {
 public:
  explicit Minting(const std::string& url) : mint_({.store = url}), daemon_(options(url)) {
    for (const std::string& name : names()) {
      auto source = mint_.source(name);
      EXPECT_TRUE(source) << fakes::why(source);
      if (source) sources_.emplace(name, *std::move(source));
    }
  }

  static std::vector<std::string> names() {
    std::vector<std::string> all(kNumbers.begin(), kNumbers.end());
    all.push_back(kRandom);
    all.push_back(kPool);
    return all;
  }

  // Whether the library, or the daemon, gives an id. One that was given before fails the test.
  bool library_gives(const std::string& name) {
    const Result<Id> id = sources_.at(name)->next();
    if (!id) why_ = id.error().message();
    if (id) note(name, to_string(*id));
    return id.has_value();
  }
  bool daemon_gives(const std::string& name) {
    Client client(daemon_, server::Protocol::kHttp);
    const auto answer = client.http("POST /v1/ids/" + name);
    const bool gave = answer.status.contains("200");
    if (!gave) why_ = answer.body;
    if (gave) note(name, answer.body.substr(0, answer.body.find('\n')));
    return gave;
  }
  std::string readiness() {
    Client client(daemon_, server::Protocol::kHttp);
    return client.http("GET /readyz").status;
  }

  void expect_all_give(const std::string& when) {
    for (const std::string& name : names()) {
      EXPECT_TRUE(eventually([&] { return library_gives(name); })) << name << when << why_;
      EXPECT_TRUE(eventually([&] { return daemon_gives(name); })) << name << when << why_;
    }
    EXPECT_TRUE(eventually([&] { return readiness().contains("200"); })) << when;
  }
  // Without a refusal before it.
  void expect_first_calls_give(const std::vector<std::string>& of) {
    for (const std::string& name : of) {
      EXPECT_TRUE(library_gives(name)) << name;
      EXPECT_TRUE(daemon_gives(name)) << name;
    }
  }
  // Values that are held in memory may still come.
  void expect_none_gives(const std::vector<std::string>& of) {
    for (const std::string& name : of) {
      EXPECT_TRUE(eventually([&] { return !library_gives(name); })) << name;
      EXPECT_TRUE(eventually([&] { return !daemon_gives(name); })) << name;
    }
    EXPECT_TRUE(eventually([&] { return !readiness().contains("200"); }));
    EXPECT_FALSE(readiness().contains("200")) << "it says what a hand-out would meet";
  }

 private:
  static server::ServerOptions options(const std::string& url) {
    server::ServerOptions all;
    all.stores.push_back({.mint = {.store = url}});
    all.drain = server::kNever;
    return all;
  }
  void note(const std::string& name, const std::string& id) {
    EXPECT_TRUE(given_[name].insert(id).second) << name << " gave " << id << " twice";
  }

  Mint mint_;
  const server::Running daemon_;
  std::map<std::string, std::unique_ptr<Source>> sources_{};
  std::map<std::string, std::set<std::string>> given_{};
  std::string why_{};
};

// The acts of an operator. A pool is not raised, as its ids would come a minute later.
void settle_past(Store& store, std::int64_t past) {
  for (const std::string& name : kNumbers) {
    std::vector<std::int64_t> each = {past};
    // Each of its blocks past its own.
    if (name == "striped") each = {past, 1'000'000 + past, 2'000'000 + past, 3'000'000 + past};
    const auto raised =
        each.size() == 1 ? raise_sequence(store, name, past) : raise_sequence(store, name, each);
    ASSERT_TRUE(raised) << name << ": " << raised.error().message();
  }
  const auto settled = store.settle();
  ASSERT_TRUE(settled) << settled.error().message();
}

TEST(Settled, EveryProcessGoesOnAfterASnapshotOfEtcdWasRestored) {
  EtcdCluster cluster;
  make_sources(*opened(cluster.url()));
  Minting minting(cluster.url());
  const std::string snapshot = cluster.save();
  for (int i = 0; i < 3; ++i) minting.expect_all_give(", before: ");
  cluster.restore(snapshot);
  minting.expect_none_gives({kNumbers.begin(), kNumbers.end()});
  const auto other = opened(cluster.url());
  settle_past(*other, 100'000);
  std::vector<std::string> all(kNumbers.begin(), kNumbers.end());
  all.push_back(kRandom);
  minting.expect_first_calls_give(all);
  EXPECT_THAT(minting.readiness(), HasSubstr("200"));
}

// Twice, as what was settled once may go back once more.
void expect_all_go_on_twice(const std::string& url) {
  const auto other = opened(url);
  make_sources(*other);
  Minting minting(url);
  std::int64_t past = 100'000;
  for (int i = 0; i < 2; ++i, past += 100'000) {
    minting.expect_all_give(", before: ");
    ASSERT_TRUE(
        other->mark_gone_back("somebody saw more", other->settle_count(), SteadyTime::max()));
    minting.expect_none_gives({kNumbers.begin(), kNumbers.end()});
    settle_past(*other, past);
    minting.expect_first_calls_give(Minting::names());
    EXPECT_THAT(minting.readiness(), HasSubstr("200"));
  }
}

TEST(Settled, EveryProcessGoesOnAfterAnotherSawThatEtcdHadGoneBack) {
  expect_all_go_on_twice(servers::etcd_cluster().url("settled"));
}

TEST(Settled, EveryProcessGoesOnAfterAnotherSawThatRedisHadGoneBack) {
  expect_all_go_on_twice(servers::redis_server().database("settled"));
}

TEST(Settled, EveryProcessGoesOnAfterAnotherSawThatPostgresqlHadGoneBack) {
  expect_all_go_on_twice(servers::postgresql_server().database("settled"));
}

TEST(Settled, EveryProcessGoesOnAfterAnotherSawThatMariadbHadGoneBack) {
  expect_all_go_on_twice(servers::mariadb_server().database("settled"));
}

// MongoDB has no such mark: each process knows what it was given itself.
TEST(Settled, EveryProcessGoesOnAfterACounterOfMongodbWasSetBackAndRaised) {
  const std::string url = servers::mongo_set().url("settled");
  const auto other = opened(url);
  make_sources(*other);
  Minting minting(url);
  for (const std::int64_t past : {100'000, 200'000}) {
    for (int i = 0; i < 3; ++i) minting.expect_all_give(", before: ");
    const std::string set_back = servers::mongo_command(
        servers::mongo_set().url(""), "settled",
        R"({"update":"idmint.counters","updates":[{"q":{"_id":"orders"},"u":{"$set":{"next":{"$numberLong":"1"}}}}]})");
    ASSERT_THAT(set_back, HasSubstr("\"nModified\" : 1"));
    EXPECT_TRUE(eventually([&] { return !minting.library_gives("orders"); }));
    EXPECT_TRUE(eventually([&] { return !minting.daemon_gives("orders"); }));
    settle_past(*other, past);
    minting.expect_first_calls_give(Minting::names());
    // A value that is given from now on is noted within the new count.
    const auto is_noted = [&] {
      return minting.library_gives("orders") &&
             std::ranges::any_of(read_seen({other->name_on_host(), std::string(other->url())}),
                                 [&](const Seen& seen) {
                                   return seen.source == "orders" &&
                                          seen.settled == other->settle_count();
                                 });
    };
    EXPECT_TRUE(eventually(is_noted));
  }
}

// One of two handles knows that the store was settled, and the other one asks.
TEST(Settled, ARaiseOfAllStopsNoProcess) {
  const std::string url = servers::mongo_set().url("raised");
  const auto other = opened(url);
  ASSERT_TRUE(create_sequence(*other, {.name = "orders"}));
  Mint early({.store = url});
  const auto source = early.source("orders");
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_TRUE((*source)->next());
  ASSERT_TRUE(raise_all(*other, 10, RaiseMode::kCarryOut));
  Mint late({.store = url});
  const auto late_source = late.source("orders");
  ASSERT_TRUE(late_source) << late_source.error().message();
  EXPECT_TRUE((*late_source)->next());
  const Result<Id> next = (*source)->next();
  EXPECT_TRUE(next) << fakes::why(next);
}

// If an operator raised too little, the process that was given more says so.
TEST(Settled, AProcessGivesNothingBelowItsOwnWhateverWasSettled) {
  const std::string url = servers::redis_server().database("too-little");
  const auto other = opened(url);
  ASSERT_TRUE(create_sequence(*other, {.name = "orders"}));
  Mint mint({.store = url});
  const auto source = mint.source("orders");
  ASSERT_TRUE(source) << source.error().message();
  for (int i = 0; i < 9; ++i) EXPECT_TRUE((*source)->next());
  const int database = std::stoi(url.substr(url.rfind('/') + 1));
  servers::redis_server().run({"HSET", "{idmint}:counter:orders", "next", "3"}, database);
  EXPECT_FALSE((*source)->next());
  ASSERT_TRUE(raise_sequence(*other, "orders", 5));
  ASSERT_TRUE(other->settle());
  EXPECT_FALSE((*source)->next()) << "6 would come again";
  EXPECT_TRUE(other->doubt()) << "and all are told";
  ASSERT_TRUE(raise_sequence(*other, "orders", 9));
  ASSERT_TRUE(other->settle());
  const auto next = (*source)->next();
  ASSERT_TRUE(next) << next.error().message();
  EXPECT_EQ(to_string(*next), "10");
}

// Its generator stops for good, and another one takes its place.
TEST(Settled, APoolGoesOnWithAnotherLease) {
  const std::string url = servers::redis_server().database("pool");
  const auto other = opened(url);
  ASSERT_TRUE(create_pool(*other, {.name = kPool, .workers = 2}));
  Mint mint({.store = url});
  const auto source = mint.source(kPool, {.window = std::chrono::milliseconds{100}});
  ASSERT_TRUE(source) << source.error().message();
  std::set<std::string> given;
  Result<Id> id;
  const auto gives = [&] {
    id = (*source)->next();
    if (id) {
      EXPECT_TRUE(given.insert(to_string(*id)).second);
    }
    return id.has_value();
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(eventually(gives)) << fakes::why(id);
    ASSERT_TRUE(
        other->mark_gone_back("somebody saw more", other->settle_count(), SteadyTime::max()));
    EXPECT_TRUE(eventually([&] { return !gives() && id.error().code == Code::kDataLoss; }));
    EXPECT_FALSE(gives()) << "as long as nobody settles it";
    ASSERT_TRUE(other->settle());
  }
  EXPECT_TRUE(eventually(gives)) << fakes::why(id);
}

// An older state that the server itself does not show: a process shows it by what it was given, and
// tells all others.
TEST(Settled, WhatAProcessWasGivenShowsAnOlderStateOfRedis) {
  const RedisServer server;
  make_sources(*opened(server.url()));
  Minting minting(server.url());
  minting.expect_all_give(", before: ");
  const std::string older = server.run({"HGET", "{idmint}:counter:orders", "next"});
  for (int i = 0; i < 3; ++i) minting.expect_all_give(", before: ");
  const auto other = opened(server.url());
  server.run({"HSET", "{idmint}:counter:orders", "next", older});
  EXPECT_FALSE(minting.library_gives("orders"));
  minting.expect_none_gives({kNumbers.begin(), kNumbers.end()});
  const std::optional<Error> doubt = other->doubt();
  ASSERT_TRUE(doubt);
  EXPECT_EQ(doubt->code, Code::kDataLoss);
  EXPECT_THAT(doubt->message(), HasSubstr("sequence orders: the store gave"));
  settle_past(*other, 100'000);
  minting.expect_first_calls_give(Minting::names());
}

}  // namespace
}  // namespace idmint::e2e
