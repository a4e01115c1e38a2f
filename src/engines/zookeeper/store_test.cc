// What a store of ZooKeeper refuses, and what its servers do to it. The conformance suite has what
// it has in common with the others.
#include "idmint/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <future>
#include <latch>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engines/zookeeper/connection.h"
#include "engines/zookeeper/driver.h"
#include "ids/lease_table.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/unique_index.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/opened_store.h"
#include "tests/fakes/silent_servers.h"
#include "tests/servers/zookeeper.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::eventually;
using fakes::opened;
using fakes::take;
using fakes::with_counter;
using servers::ZookeeperClient;
using servers::ZookeeperEnsemble;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// The only name in a folder of a kind, and its path.
std::string only_path(const ZookeeperClient& client, const std::string& kind) {
  const std::vector<std::string> shards = client.children(kind);
  EXPECT_EQ(shards.size(), 1U);
  const std::string shard = kind + "/" + shards.front();
  const std::vector<std::string> names = client.children(shard);
  EXPECT_EQ(names.size(), 1U);
  return shard + "/" + names.front();
}

// ---- URLs

TEST(ZookeeperUrls, ThoseThatCannotBeMeantAreRefused) {
  for (const char* const url :
       {"zookeeper://u:ge@heim@h/p", "zookeeper://u:ge/heim@h/p", "zookeeper://u:geheim@h/p?tls=on",
        "zookeeper://u@h/p", "zookeeper://:geheim@h/p", "zookeeper://u%3A:geheim@h/p",
        "zookeeper:///p", "zookeeper://h,,i/p", "zookeeper://h//p", "zookeeper://h/a/../b",
        "zookeeper://h/zookeeper", "zookeeper://h/zookeeper/p", "zookeeper://h/a%20b"}) {
    const auto refused = Store::open(url);
    EXPECT_EQ(code_of(refused), Code::kInvalidArgument) << url;
    EXPECT_THAT(fakes::why(refused), Not(HasSubstr("heim"))) << url;
  }
}

TEST(ZookeeperUrls, ThePathIsThatOfTheNodes) {
  const ZookeeperEnsemble& ensemble = servers::zookeeper_ensemble();
  with_counter(ensemble.url("teams/shop"));
  const ZookeeperClient client(ensemble.host(0));
  EXPECT_THAT(client.children("/teams/shop"),
              ElementsAre("counter", "place", "store", StartsWith("trust-")));
  EXPECT_THAT(client.get(only_path(client, "/teams/shop/counter")),
              HasSubstr(R"({"next":1,"first":1,)"));
  opened("zookeeper://" + ensemble.host(0));
  EXPECT_THAT(client.children("/idmint"), ElementsAre("place", "store", StartsWith("trust-")));
}

TEST(ZookeeperUrls, AnotherProgramsNodesAreLeftAlone) {
  const ZookeeperEnsemble& ensemble = servers::zookeeper_ensemble();
  const ZookeeperClient client(ensemble.host(0));
  client.create("/theirs", "");
  client.create("/theirs/node", "value");
  const auto refused = Store::open(ensemble.url("theirs"));
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("name another path"));
  EXPECT_THAT(client.children("/theirs"), ElementsAre("node"));
}

// ---- who may

TEST(ZookeeperUsers, TheNodesAreThoseOfWhoMadeThem) {
  const ZookeeperEnsemble& ensemble = servers::zookeeper_ensemble();
  const auto store = with_counter(ensemble.url("owned", "minter:geheim"));
  EXPECT_THAT(std::string(store->url()), AllOf(HasSubstr("minter:***@"), Not(HasSubstr("geheim"))));
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  for (const char* const user : {"", "minter:geheimer", "other:geheim"}) {
    const auto refused = Store::open(ensemble.url("owned", user));
    EXPECT_EQ(code_of(refused), Code::kPermissionDenied) << user;
    EXPECT_THAT(fakes::why(refused),
                AllOf(HasSubstr("look at USER:PASSWORD"), Not(HasSubstr("geheim"))))
        << user;
  }
  EXPECT_EQ(take(*opened(ensemble.url("owned", "minter:geheim"))), (Range{2, 1, 1}));
}

TEST(ZookeeperUsers, AFolderThatIsRefusedIsAMatterOfRights) {
  const ZookeeperEnsemble& ensemble = servers::zookeeper_ensemble();
  const auto store = opened(ensemble.url("folders"));
  const ZookeeperClient other(ensemble.host(0), "other:geheim");
  other.create("/folders/counter", "");
  const auto refused = store->counters()->create("c", {1, 9});
  EXPECT_EQ(code_of(refused), Code::kPermissionDenied) << fakes::why(refused);
  EXPECT_THAT(fakes::why(refused), HasSubstr("/folders/counter/"));
}

TEST(ZookeeperReading, WhoMayOnlyReadReads) {
  const std::string url = servers::zookeeper_ensemble().url("reading");
  with_counter(url);
  const auto store = Store::open(url, {.access = Access::kReadOnly});
  ASSERT_TRUE(store) << store.error().message();
  EXPECT_EQ((*store)->counters()->peek("c")->next, 1);
  EXPECT_EQ(code_of(take(**store)), Code::kPermissionDenied);
  const auto none =
      Store::open(servers::zookeeper_ensemble().url("none"), {.access = Access::kReadOnly});
  EXPECT_EQ(code_of(none), Code::kNotFound);
}

// ---- what stands in the nodes

TEST(ZookeeperNodes, EveryNameIsThatOfANode) {
  const auto store = opened(servers::zookeeper_ensemble().url("named"));
  std::vector<std::string> names = {".",
                                    "..",
                                    "/",
                                    "a/b",
                                    "%",
                                    "%2f",
                                    "zookeeper",
                                    "\xff",
                                    "gr\xc3\xbc\xc3\x9f",
                                    "a b",
                                    "\n",
                                    std::string("\0", 1),
                                    std::string(1024, '/')};
  for (const std::string& name : names) ASSERT_TRUE(store->counters()->create(name, {1, 9}));
  std::ranges::sort(names);
  const auto all = store->counters()->list("");
  ASSERT_TRUE(all) << all.error().message();
  std::vector<std::string> listed;
  for (const CounterState& each : *all) listed.push_back(each.name);
  EXPECT_EQ(listed, names);
  for (const std::string& name : names)
    EXPECT_EQ(store->counters()->advance(name, 2, Take::kAll), (Range{1, 1, 2}));
}

TEST(ZookeeperNodes, AStoreThatTookThePlaceOfAnotherIsNotUsed) {
  const ZookeeperEnsemble& ensemble = servers::zookeeper_ensemble();
  const ZookeeperClient client(ensemble.host(0));
  const auto store = with_counter(ensemble.url("replaced"));
  EXPECT_TRUE(take(*store));
  client.remove("/replaced/store");
  const auto removed = take(*store);
  EXPECT_EQ(code_of(removed), Code::kDataLoss);
  EXPECT_THAT(fakes::why(removed), HasSubstr("/replaced/store is missing"));
  EXPECT_EQ(code_of(store->counters()->peek("c")), Code::kDataLoss);
  client.remove("/replaced");
  const auto other = with_counter(ensemble.url("replaced"));
  const auto refused = take(*store);
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("another store is there now"));
  EXPECT_EQ(take(*other), (Range{1, 1, 1}));
}

void expect_refused(const auto& result, const char* why, Code code = Code::kFailedPrecondition) {
  EXPECT_EQ(code_of(result), code) << fakes::why(result);
  EXPECT_THAT(fakes::why(result), HasSubstr(why));
}

TEST(ZookeeperNodes, ACopyIsInDoubtUntilItIsSettled) {
  const ZookeeperEnsemble& ensemble = servers::zookeeper_ensemble();
  const ZookeeperClient client(ensemble.host(0));
  const auto store = with_counter(ensemble.url("original"));
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  client.copy("/original", "/copy");
  const auto copy = opened(ensemble.url("copy"));
  expect_refused(take(*copy), "were written below /original");
  EXPECT_EQ(code_of(copy->unique_index()->create_space("s")), Code::kFailedPrecondition);
  EXPECT_EQ(code_of(copy->leases()->create_pool("p", 1)), Code::kFailedPrecondition);
  EXPECT_EQ(code_of(copy->counters()->create("d", {1, 9})), Code::kFailedPrecondition);
  EXPECT_EQ(take(*store), (Range{2, 1, 1}));
  ASSERT_TRUE(copy->settle(Store::Settle::kOnlyMoved));
  EXPECT_EQ(take(*copy), (Range{2, 1, 1}));
  // As a tool puts them back that reads and writes nodes.
  client.copy("/original", "/kept");
  client.remove("/original");
  client.copy("/kept", "/original");
  const auto again = opened(ensemble.url("original"));
  expect_refused(take(*again), "its nodes were made anew");
  ASSERT_EQ(again->counters()->raise("c", 10), 10);
  ASSERT_TRUE(again->settle());
  EXPECT_EQ(take(*again), (Range{10, 1, 1}));
}

// What a tool puts back that writes each node so often after it made it.
void put_back(const ZookeeperClient& client, const std::string& from, const std::string& to,
              int sets) {
  client.remove(to);
  client.copy(from, to);
  for (int set = 0; set < sets; ++set)
    for (const std::string& path : {to + "/store", only_path(client, to + "/counter")})
      client.set(path, client.get(path));
}

// No call comes between what was taken before and after, so only the servers can tell.
TEST(ZookeeperNodes, ACopyInTheirPlaceIsNoticedByAStoreThatIsOpen) {
  const ZookeeperEnsemble& ensemble = servers::zookeeper_ensemble();
  const ZookeeperClient client(ensemble.host(0));
  for (const int sets : {0, 1}) {
    const std::string path = "/older" + std::to_string(sets);
    const std::string kept = path + "-kept";
    const auto store = with_counter(ensemble.url(path.substr(1)));
    const auto reader = opened(ensemble.url(path.substr(1)));
    const auto raiser = opened(ensemble.url(path.substr(1)));
    client.copy(path, kept);
    for (std::int64_t value = 1; value <= sets + 1; ++value)
      EXPECT_EQ(take(*store), (Range{value, 1, 1}));
    EXPECT_EQ(reader->counters()->peek("c")->next, sets + 2);
    put_back(client, kept, path, sets);
    expect_refused(take(*reader), "its nodes were made anew");
    expect_refused(take(*store), "the servers have lost what was written", Code::kDataLoss);
    EXPECT_EQ(code_of(store->counters()->create("d", {1, 9})), Code::kDataLoss);
    EXPECT_EQ(raiser->counters()->raise("c", 100), 100) << "which is allowed in doubt";
    EXPECT_EQ(reader->counters()->peek("c")->next, 100);
    ASSERT_TRUE(raiser->settle());
    EXPECT_EQ(take(*store), (Range{100, 1, 1}));
    EXPECT_EQ(take(*reader), (Range{101, 1, 1}));
  }
}

TEST(ZookeeperNodes, AnotherStoreInTheirPlaceIsNoticedByOneThatIsOpen) {
  const ZookeeperEnsemble& ensemble = servers::zookeeper_ensemble();
  const ZookeeperClient client(ensemble.host(0));
  const auto store = with_counter(ensemble.url("another"));
  const auto raiser = opened(ensemble.url("another"));
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  client.remove("/another");
  const auto other = with_counter(ensemble.url("another"));
  for (int time = 0; time < 2; ++time) {
    expect_refused(take(*store), "another store is there now");
    expect_refused(raiser->counters()->raise("c", 100), "another store is there now");
  }
  EXPECT_EQ(take(*other), (Range{1, 1, 1}));
}

TEST(ZookeeperNodes, ASessionThatFoundNoStoreLooksAgain) {
  const ZookeeperEnsemble& ensemble = servers::zookeeper_ensemble();
  const ZookeeperClient client(ensemble.host(0));
  const auto store = with_counter(ensemble.url("gone"));
  client.copy("/gone", "/gone-kept");
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  client.remove("/gone/store");
  EXPECT_EQ(code_of(take(*store)), Code::kDataLoss);
  put_back(client, "/gone-kept", "/gone", 0);
  expect_refused(take(*store), "the servers have lost what was written", Code::kDataLoss);
  ASSERT_EQ(store->counters()->raise("c", 10), 10);
  ASSERT_TRUE(store->settle());
  EXPECT_EQ(take(*store), (Range{10, 1, 1}));
}

TEST(ZookeeperNodes, WithoutTheNodeOfItsNonceARecordIsInDoubt) {
  const ZookeeperEnsemble& ensemble = servers::zookeeper_ensemble();
  const ZookeeperClient client(ensemble.host(0));
  const auto store = with_counter(ensemble.url("part"));
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  const std::string trust = "/part/" + client.children("/part").back();
  ASSERT_THAT(trust, StartsWith("/part/trust-"));
  client.remove(trust);
  expect_refused(take(*store), (trust + " is missing").c_str());
  expect_refused(take(*opened(ensemble.url("part"))), (trust + " is missing").c_str());
  ASSERT_EQ(store->counters()->raise("c", 10), 10);
  ASSERT_TRUE(store->settle());
  EXPECT_EQ(take(*store), (Range{10, 1, 1}));
  EXPECT_NE("/part/" + client.children("/part").back(), trust) << "each record has another one";
}

// A tool that puts back the nodes that differ writes the text of the record and makes the node of
// its nonce, but not both in one transaction.
TEST(ZookeeperNodes, ARecordThatWasWrittenByAnotherHandIsInDoubt) {
  const ZookeeperEnsemble& ensemble = servers::zookeeper_ensemble();
  const ZookeeperClient client(ensemble.host(0));
  const auto store = with_counter(ensemble.url("hand"));
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  const std::string record = client.get("/hand/store");
  const std::string trust = "/hand/" + client.children("/hand").back();
  const auto expect_doubt = [&] {
    const std::string why = trust + " is not the one of its record";
    expect_refused(take(*store), why.c_str());
    expect_refused(take(*opened(ensemble.url("hand"))), why.c_str());
  };
  client.set(trust, "written");
  expect_doubt();
  ASSERT_TRUE(store->settle(Store::Settle::kOnlyMoved));
  EXPECT_EQ(take(*store), (Range{2, 1, 1}));
  client.set("/hand/store", record);
  client.create(trust, "");
  expect_refused(take(*opened(ensemble.url("hand"))), "is not the one of its record");
}

TEST(ZookeeperNodes, ACounterThatWasMadeAnewTooSoonIsALoss) {
  const ZookeeperEnsemble& ensemble = servers::zookeeper_ensemble();
  const ZookeeperClient client(ensemble.host(0));
  const auto store = with_counter(ensemble.url("anew"));
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  const std::string path = only_path(client, "/anew/counter");
  const std::string before = client.get(path);
  EXPECT_EQ(take(*store), (Range{2, 1, 1}));
  client.remove(path);
  client.create(path, before);
  expect_refused(take(*store), "the servers have lost what was written", Code::kDataLoss);
  expect_refused(take(*store), "was at version 2 and is at version 0", Code::kDataLoss);
  expect_refused(take(*opened(ensemble.url("anew"))), "was at version 2", Code::kDataLoss);
}

TEST(ZookeeperNodes, OneThatIsDamagedIsNamed) {
  const ZookeeperEnsemble& ensemble = servers::zookeeper_ensemble();
  const ZookeeperClient client(ensemble.host(0));
  const auto store = with_counter(ensemble.url("damaged"));
  const std::string path = only_path(client, "/damaged/counter");
  for (const char* const value :
       {"", "1", "null", R"({"next":1})",
        R"({"next":0,"first":1,"last":9,"stride":1,"closed":false})",
        R"({"next":18446744073709551615,"first":1,"last":9,"stride":1,"closed":false})"}) {
    client.set(path, value);
    const auto refused = take(*store);
    EXPECT_EQ(code_of(refused), Code::kDataLoss) << value;
    EXPECT_THAT(fakes::why(refused), HasSubstr("counter \"c\" has the value")) << value;
    EXPECT_EQ(code_of(store->counters()->list("")), Code::kDataLoss) << value;
  }
  ASSERT_TRUE(store->leases()->create_pool("p", 2));
  const std::string rows = only_path(client, "/damaged/worker");
  const std::string row = client.get(rows + "/0/0");
  std::string negative = row;
  const std::string held = R"("held_until":)";
  ASSERT_NE(row.find(held + "0"), std::string::npos) << row;
  client.set(rows + "/0/0",
             negative.replace(row.find(held) + held.size(), 1,
                              std::to_string(std::numeric_limits<std::int64_t>::min())));
  const auto overflowing = store->leases()->acquire("p", {.token = Uuid(Uuid::Bytes{1}), .now = 1});
  EXPECT_EQ(code_of(overflowing), Code::kDataLoss) << "no lease ends before 1970";
  client.set(rows + "/0/0", row);
  client.remove(rows + "/0/1");
  const auto lease = store->leases()->acquire("p", {.token = Uuid(Uuid::Bytes{1}), .now = 1});
  EXPECT_EQ(code_of(lease), Code::kDataLoss) << "a row that went away is not a free one";
}

// The version of a node has 32 bits and wraps.
TEST(ZookeeperNodes, OneThatWasChangedOftenIsMadeAnew) {
  namespace zookeeper = stores::zookeeper;
  const ZookeeperEnsemble& ensemble = servers::zookeeper_ensemble();
  ASSERT_TRUE(zookeeper::load_libzookeeper());
  const ZookeeperClient client(ensemble.host(0));
  client.create("/often", "0");
  const zookeeper::Address address{
      .shown = "", .servers = {ensemble.host(0)}, .root = "/often", .renewed_at = 2};
  const auto until = steady_clock::now() + std::chrono::minutes{1};
  const auto connection = zookeeper::Connection::open(address, address.servers[0], until,
                                                      std::make_shared<zookeeper::Closings>());
  ASSERT_TRUE(connection) << connection.error().error.message();
  const auto set = [&](const std::string& value, std::int32_t version) {
    const auto answer = (*connection)
                            ->ask({.steps = {{zookeeper::check("/often", version),
                                              zookeeper::set("/often", value, version)}}},
                                  until);
    return answer && answer->steps.front().fate == zookeeper::Done::Fate::kDone;
  };
  EXPECT_TRUE(set("1", 0));
  EXPECT_FALSE(set("2", 0));
  EXPECT_TRUE(set("2", 1));
  EXPECT_FALSE(set("3", 3)) << "nor is it made anew in a version that it has not";
  EXPECT_EQ(client.get("/often"), "2");
  EXPECT_TRUE(set("3", 2));
  EXPECT_EQ(client.version("/often"), 0);
  EXPECT_EQ(client.get("/often"), "3");
  EXPECT_TRUE(set("4", 0));
}

// More at once than the pipe holds with which the library wakes its own thread.
TEST(ZookeeperNodes, ABatchMayBeLong) {
  namespace zookeeper = stores::zookeeper;
  const ZookeeperEnsemble& ensemble = servers::zookeeper_ensemble();
  ASSERT_TRUE(zookeeper::load_libzookeeper());
  const ZookeeperClient client(ensemble.host(0));
  client.create("/long", "value");
  const zookeeper::Address address{.shown = "", .servers = {ensemble.host(0)}, .root = "/long"};
  const auto until = steady_clock::now() + std::chrono::minutes{1};
  const auto connection = zookeeper::Connection::open(address, address.servers[0], until,
                                                      std::make_shared<zookeeper::Closings>());
  ASSERT_TRUE(connection) << connection.error().error.message();
  const zookeeper::Request request{.reads = std::vector<std::string>(70'000, "/long")};
  const auto answer = (*connection)->ask(request, until);
  ASSERT_TRUE(answer) << answer.error().error.message();
  EXPECT_EQ(answer->nodes.size(), request.reads.size());
  EXPECT_TRUE(std::ranges::all_of(answer->nodes,
                                  [](const auto& node) { return node && node->value == "value"; }));
  EXPECT_TRUE((*connection)->is_usable());
}

TEST(ZookeeperNodes, ThoseWhoCountAtOnceGetEveryValueOnce) {
  const std::string url = servers::zookeeper_ensemble().url("counted");
  with_counter(url);
  std::vector<std::unique_ptr<Store>> stores;
  for (int i = 0; i < 4; ++i) stores.push_back(opened(url));
  std::mutex mutex;
  std::vector<std::int64_t> values;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 25; ++i) {
        const auto range = take(*stores[static_cast<std::size_t>(thread) % stores.size()]);
        ASSERT_TRUE(range) << range.error().message();
        const std::lock_guard lock(mutex);
        values.push_back(range->first);
      }
    });
  threads.clear();
  std::ranges::sort(values);
  ASSERT_EQ(values.size(), 200U);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], static_cast<std::int64_t>(i) + 1);
}

// ---- servers

TEST(ZookeeperServers, ACallEndsByItsDeadlineWhileTheServerStandsStill) {
  const ZookeeperEnsemble ensemble;
  const auto store = with_counter(ensemble.url(), milliseconds{500});
  ASSERT_TRUE(eventually([&] { return take(*store).has_value(); }));
  ensemble.signal(0, SIGSTOP);
  const auto begun = steady_clock::now();
  EXPECT_EQ(code_of(take(*store)), Code::kDeadlineExceeded) << "it was sent";
  EXPECT_EQ(code_of(take(*store)), Code::kUnavailable) << "there was no connection";
  EXPECT_EQ(code_of(store->counters()->peek("c")), Code::kUnavailable);
  EXPECT_LT(steady_clock::now() - begun, std::chrono::seconds{20});
  ensemble.signal(0, SIGCONT);
  EXPECT_TRUE(eventually([&] { return take(*store).has_value(); }));
}

// As many sessions as a store has at most, idle afterwards.
void open_sessions(Store& store) {
  constexpr int kSessions = 8;
  std::latch all_begin(kSessions);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < kSessions; ++thread)
    threads.emplace_back([&] {
      all_begin.arrive_and_wait();
      EXPECT_TRUE(eventually([&] { return store.counters()->peek("c").has_value(); }));
    });
}

// The library waits for seconds at such a server before it closes a connection.
TEST(ZookeeperServers, NoCallWaitsForConnectionsToBeClosed) {
  const ZookeeperEnsemble ensemble(3);
  constexpr std::chrono::seconds kFarLess{20};  // than three stores of eight sessions took
  std::vector<std::unique_ptr<Store>> stores;
  const auto path = [](int store) { return "idle" + std::to_string(store); };
  for (int i = 0; i < 3; ++i) {
    stores.push_back(with_counter(ensemble.url(path(i)), milliseconds{1000}));
    open_sessions(*stores.back());
  }
  ensemble.signal(0, SIGSTOP);
  auto begun = steady_clock::now();
  for (const auto& store : stores) static_cast<void>(take(*store));
  EXPECT_LT(steady_clock::now() - begun, kFarLess) << "calls";
  for (const auto& store : stores)
    EXPECT_TRUE(eventually([&] { return take(*store).has_value(); })) << "at another server";
  ensemble.signal(0, SIGCONT);
  stores.clear();
  for (int i = 0; i < 3; ++i) {
    stores.push_back(opened("zookeeper://" + ensemble.host(0) + "/" + path(i)));
    open_sessions(*stores.back());
  }
  ensemble.signal(0, SIGSTOP);
  begun = steady_clock::now();
  stores.clear();
  EXPECT_LT(steady_clock::now() - begun, kFarLess) << "the end of a store";
}

TEST(ZookeeperServers, OneThatWasKilledAndStartedIsGoneOnWith) {
  ZookeeperEnsemble ensemble;
  const auto store = with_counter(ensemble.url(), std::chrono::minutes{1});
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  ensemble.kill(0);
  auto next = std::async(std::launch::async, [&] { return take(*store); });
  ensemble.restart(0);
  const Result<Range> taken = next.get();
  // The call may have begun before the library noticed that the connection was closed.
  if (!taken) {
    EXPECT_EQ(code_of(taken), Code::kUnknown) << taken.error().message();
  }
  ASSERT_TRUE(eventually([&] { return take(*store).has_value(); }));
  EXPECT_GT(store->counters()->peek("c")->next, 2);
}

TEST(ZookeeperServers, AServerThatSaysNothingIsPassedOver) {
  fakes::expect_silence_is_passed_over(
      [](const std::string& hosts) { return "zookeeper://" + hosts + "/passed"; },
      servers::zookeeper_ensemble().host(0));
}

// Whatever is killed, the others go on and nothing comes twice.
TEST(ZookeeperServers, WhileOneOfThreeIsKilledTheOthersGoOn) {
  ZookeeperEnsemble ensemble(3);
  const auto store = with_counter(ensemble.url(), std::chrono::seconds{20});
  Result<Range> range;
  std::int64_t last = 0;
  const auto takes_one = [&] {
    return eventually([&] {
      range = take(*store);
      if (!range) return false;
      EXPECT_GT(range->first, last) << "it repeats";
      last = range->first;
      return true;
    });
  };
  ASSERT_TRUE(takes_one());
  for (std::size_t round = 0; round < 2; ++round) {
    // The leader first, then one that follows.
    std::size_t victim = 0;
    while (ensemble.leads(victim) != (round == 0)) victim = (victim + 1) % 3;
    ensemble.kill(victim);
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(takes_one());
    ensemble.restart(victim);
    ensemble.wait_until_ready();
    ASSERT_TRUE(takes_one());
  }
  // Without a quorum each call ends in time.
  ensemble.kill(0);
  ensemble.kill(1);
  const auto begun = steady_clock::now();
  EXPECT_EQ(code_of(Store::open(ensemble.url(), {.deadline = milliseconds{500}})),
            Code::kUnavailable);
  EXPECT_LT(steady_clock::now() - begun, std::chrono::seconds{20});
  ensemble.restart(0);
  ensemble.restart(1);
  ASSERT_TRUE(takes_one());
}

// ---- a store that has gone back

TEST(ZookeeperGoneBack, AProcessThatSawLaterChangesPutsARestoredStoreInDoubtForAll) {
  ZookeeperEnsemble ensemble;
  const auto store = with_counter(ensemble.url(), std::chrono::seconds{20});
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  const std::string saved = ensemble.save();
  ASSERT_TRUE(eventually([&] { return take(*store).has_value(); }));
  ASSERT_TRUE(eventually([&] { return take(*store).has_value(); }));
  ensemble.restore(saved);
  Result<Range> range;
  EXPECT_TRUE(eventually([&] {
    range = take(*store);
    return range || code_of(range) == Code::kDataLoss;
  }));
  ASSERT_FALSE(range) << "it repeats";
  const auto fresh = opened(ensemble.url());
  EXPECT_TRUE(eventually([&] {
    static_cast<void>(take(*store));  // it writes down what it knows
    return fresh->doubt().has_value();
  }));
  EXPECT_EQ(code_of(take(*fresh)), Code::kDataLoss);
  EXPECT_EQ(code_of(fresh->settle(Store::Settle::kOnlyMoved)), Code::kDataLoss);
  ASSERT_EQ(fresh->counters()->raise("c", 100), 100);
  ASSERT_TRUE(fresh->settle());
  EXPECT_EQ(take(*fresh), (Range{100, 1, 1}));
  EXPECT_TRUE(eventually([&] { return take(*store).has_value(); }));
}

// What an operator does who knows what was handed out.
void settle_past(Store& store, std::int64_t floor) {
  ASSERT_EQ(store.counters()->raise("c", floor), floor);
  ASSERT_TRUE(store.settle());
  ASSERT_FALSE(store.doubt());
}

TEST(ZookeeperGoneBack, WhatAProcessSawPutsTheStoreInDoubtForAllUntilItIsSettled) {
  const std::string url = servers::zookeeper_ensemble().url("marked");
  const auto store = with_counter(url);
  const auto other = opened(url);
  EXPECT_EQ(take(*other), (Range{1, 1, 1}));
  ASSERT_TRUE(store->mark_gone_back("it gave 7 before", 0, SteadyTime::max()));
  for (Store* const each : {store.get(), other.get()})
    expect_refused(take(*each), "it gave 7 before", Code::kDataLoss);
  EXPECT_EQ(code_of(other->settle(Store::Settle::kOnlyMoved)), Code::kDataLoss);
  settle_past(*other, 10);
  EXPECT_EQ(take(*store), (Range{10, 1, 1}));
  EXPECT_EQ(store->settle_count(), other->settle_count());
  ASSERT_TRUE(store->mark_gone_back("it gave 7 before", 0, SteadyTime::max()));
  EXPECT_EQ(take(*store), (Range{11, 1, 1})) << "of a count that is over";
}

// An older state has a lower count, which no state after it has again.
TEST(ZookeeperGoneBack, ALowerSettleCountIsAnOlderState) {
  const ZookeeperEnsemble& ensemble = servers::zookeeper_ensemble();
  const ZookeeperClient client(ensemble.host(0));
  const auto store = with_counter(ensemble.url("lower"));
  ASSERT_EQ(store->settle_count(), 0);
  ASSERT_TRUE(store->mark_gone_back("once", 0, SteadyTime::max()));
  settle_past(*store, 10);
  const std::int64_t once = store->settle_count();
  EXPECT_GT(once, 0);
  const std::string older = client.get("/lower/store");
  ASSERT_TRUE(store->mark_gone_back("twice", once, SteadyTime::max()));
  settle_past(*store, 20);
  EXPECT_GT(store->settle_count(), once);
  client.set("/lower/store", older);
  expect_refused(take(*store), "was settled as number", Code::kDataLoss);
  const auto other = opened(ensemble.url("lower"));
  EXPECT_EQ(code_of(take(*other)), Code::kDataLoss) << "it is told";
  settle_past(*other, 30);
  EXPECT_GT(other->settle_count(), once);
  EXPECT_EQ(take(*store), (Range{30, 1, 1}));
}

}  // namespace
}  // namespace idmint
