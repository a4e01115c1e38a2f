// The refusals of a Redis store, and the faults of its servers. The conformance suite tests what
// all stores have in common.
#include "idmint/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "idmint/sequence.h"
#include "ids/lease_table.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/unique_index.h"
#include "tests/fakes/certificate.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/opened_store.h"
#include "tests/fakes/silent_servers.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/loopback.h"
#include "tests/servers/redis.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::eventually;
using fakes::kPatient;
using fakes::opened;
using fakes::take;
using fakes::with_counter;
using servers::redis_server;
using servers::RedisServer;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kStore = "{idmint}:store";

// Asks the database in the URL.
std::string ask(const std::string& url, const std::vector<std::string>& words) {
  return redis_server().ask(words, std::stoi(url.substr(url.rfind('/') + 1)));
}

// Ends the connections of all clients, as an operator does.
void end_all(const RedisServer& server) {
  server.run({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
}

// ---- settings

struct Weak {
  const char* setting;
  const char* weak;
  const char* right;
};
constexpr std::array kWeak = {
    Weak{"appendonly", "no", "yes"}, Weak{"appendfsync", "everysec", "always"},
    Weak{"appendfsync", "no", "always"}, Weak{"no-appendfsync-on-rewrite", "yes", "no"},
    Weak{"maxmemory-policy", "allkeys-lru", "noeviction"}};

TEST(RedisSettings, WithoutWhatKeepsAValueItIsRefusedAndServedAgainWithIt) {
  for (const auto& [setting, weak, right] : kWeak) {
    const RedisServer server({"maxmemory 1gb", std::string(setting) + " " + weak});
    const auto expect_refused = [&](const auto& result) {
      EXPECT_EQ(code_of(result), Code::kFailedPrecondition) << setting;
      EXPECT_THAT(fakes::why(result),
                  HasSubstr("CONFIG SET " + std::string(setting) + " " + right));
    };
    expect_refused(Store::open(server.url()));
    EXPECT_EQ(server.run({"DBSIZE"}), "0") << "nothing was made";
    server.set(setting, right);
    const auto store = with_counter(server.url());
    EXPECT_EQ(take(*store), (Range{1, 1, 1}));
    server.set(setting, weak);
    expect_refused(take(*store));  // in a connection that is open
    expect_refused(Store::open(server.url()));
    server.set(setting, right);
    const auto later = take(*store);
    ASSERT_TRUE(later) << later.error().message();
    EXPECT_EQ(*later, (Range{3, 1, 1})) << "2 may have been lost, and is nobody's";
  }
}

// Under a store that is open. A server that is started without its append-only file does not read
// it, either.
TEST(RedisSettings, AServerThatIsStartedAgainWithoutWhatKeepsAValueIsRefused) {
  RedisServer server({"maxmemory 1gb"});
  const auto store = with_counter(server.url());
  for (std::int64_t value = 1; const auto& [setting, weak, right] : kWeak) {
    EXPECT_EQ(take(*store), (Range{value++, 1, 1}));
    server.kill();
    server.restart({std::string(setting) + " " + weak});
    const auto refused = take(*store);
    EXPECT_EQ(code_of(refused), Code::kFailedPrecondition) << setting;
    EXPECT_THAT(fakes::why(refused), HasSubstr("CONFIG SET " + std::string(setting) + " " + right));
    EXPECT_EQ(code_of(Store::open(server.url())), Code::kFailedPrecondition) << setting;
    if (setting == std::string("appendonly")) {
      EXPECT_THAT(fakes::why(refused), HasSubstr("start it again with appendonly yes"));
    }
    server.kill();
    server.restart();
  }
  EXPECT_EQ(take(*store), (Range{std::ssize(kWeak) + 1, 1, 1}));
}

TEST(RedisSettings, APolicyThatRemovesNothingOfOursIsAllowed) {
  const RedisServer server({"maxmemory-policy allkeys-lru"});
  EXPECT_TRUE(Store::open(server.url())) << "without a limit nothing is removed";
  server.set("maxmemory-policy", "volatile-lru");
  server.set("maxmemory", "1gb");
  EXPECT_TRUE(Store::open(server.url()));
}

TEST(RedisSettings, WithoutMemoryNothingIsTaken) {
  const RedisServer server;
  const auto store = with_counter(server.url());
  server.set("maxmemory", "1");
  const auto refused = take(*store);
  EXPECT_EQ(code_of(refused), Code::kResourceExhausted);
  EXPECT_THAT(fakes::why(refused), AllOf(HasSubstr("OOM"), HasSubstr("nothing was changed")));
  server.set("maxmemory", "0");
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
}

// Until its first file is complete, what the server is told is not read when it starts.
TEST(RedisSettings, OneWhoseFirstFileIsNotCompleteIsWaitedFor) {
  const RedisServer server({"appendonly no", "rdb-key-save-delay 600000000"});
  server.run({"SET", "key", "value"});
  server.set("appendonly", "yes");
  const Error refusal = fakes::refusal_that_says("the first append-only file is not complete",
                                                 server.url(), milliseconds{200});
  EXPECT_EQ(refusal.code, Code::kUnavailable);
  server.set("appendonly", "no");
  server.set("rdb-key-save-delay", "0");
  server.set("appendonly", "yes");
  EXPECT_TRUE(Store::open(server.url(), {.deadline = kPatient}));
  EXPECT_EQ(server.info("persistence", "aof_rewrite_in_progress"), "0");
}

TEST(RedisSettings, OneOfAClusterIsRefused) {
  const RedisServer server({"cluster-enabled yes"});
  const auto refused = Store::open(server.url());
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("one of a cluster"));
}

TEST(RedisSettings, SettingsThatCannotBeReadAreRefused) {
  const RedisServer server({"rename-command EVALSHA \"\"", "rename-command EVAL \"\""});
  const auto refused = Store::open(server.url());
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("has renamed or left out a command"));
}

TEST(RedisSettings, ADatabaseThatIsNotThereIsNamed) {
  const RedisServer server;
  const auto refused = Store::open(server.url(5000));
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("databases"));
}

TEST(RedisSettings, UrlsThatCannotBeMeantAreRefused) {
  for (const char* const url :
       {"redis:h", "redis:a://h", "redis://", "redis:///0", "redis://h:0", "redis://h:x",
        "redis://h:65536", "redis://[::1", "redis://[::1]x", "redis://h,,g", "redis://h/ids",
        "redis://h/-1", "redis://h/1/2", "redis://u:ge@heim@h", "redis://u:ge/heim@h",
        "redis://u:geheim@h?tls=1", "redis://h?tls_ca=/a.pem",
        "rediss://u:geheim@h?tls_cert=/a.pem"}) {
    const auto refused = Store::open(url);
    EXPECT_EQ(code_of(refused), Code::kInvalidArgument) << url;
    EXPECT_THAT(fakes::why(refused), Not(HasSubstr("heim"))) << url;
  }
}

// ---- the keys

TEST(RedisKeys, WithoutItsRecordAStoreIsDamagedAndNoneIsMadeOverIt) {
  const std::string url = redis_server().database("record");
  const auto store = with_counter(url);
  ASSERT_EQ(ask(url, {"DEL", kStore}), "1");
  EXPECT_EQ(code_of(take(*store)), Code::kDataLoss);
  const auto again = Store::open(url);
  EXPECT_EQ(code_of(again), Code::kDataLoss);
  EXPECT_THAT(fakes::why(again), HasSubstr(kStore + " is missing"));
}

TEST(RedisKeys, ANewerStoreIsLeftAlone) {
  const std::string url = redis_server().database("newer");
  with_counter(url);
  ask(url, {"HSET", kStore, "schema", "2"});
  const auto refused = Store::open(url);
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("use a newer idmint"));
}

TEST(RedisKeys, DamagedRecordsGiveNothing) {
  const std::string url = redis_server().database("damaged");
  const auto store = with_counter(url);
  for (const auto& [field, value] :
       {std::pair("next", "x"), std::pair("next", "0"), std::pair("stride", "0"),
        std::pair("last", "-5"), std::pair("closed", "")}) {
    const std::string before = ask(url, {"HGET", "{idmint}:counter:c", field});
    ask(url, {"HSET", "{idmint}:counter:c", field, value});
    const auto refused = store->counters()->peek("c");
    EXPECT_EQ(code_of(refused), Code::kDataLoss) << field << " " << value;
    ask(url, {"HSET", "{idmint}:counter:c", field, before});
  }
  ask(url, {"HDEL", "{idmint}:counter:c", "stride"});
  EXPECT_EQ(code_of(take(*store)), Code::kDataLoss);
  ask(url, {"DEL", "{idmint}:counter:c"});
  EXPECT_EQ(code_of(take(*store)), Code::kNotFound);
  ask(url, {"SET", "{idmint}:counter:c", "5"});
  EXPECT_EQ(code_of(take(*store)), Code::kDataLoss);
}

// Doubles have 53 bits.
TEST(RedisKeys, NumbersAreExactAboveThoseOfDoubles) {
  constexpr std::int64_t kBeyond = (std::int64_t{1} << 53) + 1;
  const auto store = opened(redis_server().database("huge"));
  CounterStore& counters = *store->counters();
  ASSERT_TRUE(counters.create("ones", {kBeyond, kLargestValue}));
  for (std::int64_t i = 0; i < 5; ++i)
    EXPECT_EQ(counters.advance("ones", 1, Take::kAll), (Range{kBeyond + i, 1, 1}));
  EXPECT_EQ(counters.raise("ones", kLargestValue - 4), kLargestValue - 4);
  EXPECT_EQ(code_of(counters.advance("ones", 6, Take::kAll)), Code::kOutOfRange);
  EXPECT_EQ(counters.advance("ones", 3, Take::kAll), (Range{kLargestValue - 4, 1, 3}));
  EXPECT_EQ(counters.advance("ones", kLargestValue, Take::kTail), (Range{kLargestValue - 1, 1, 2}));
  EXPECT_EQ(code_of(counters.advance("ones", 1, Take::kTail)), Code::kOutOfRange);
  EXPECT_EQ(counters.peek("ones")->next, kLargestValue + 1);

  // 2^27 + 1 strides of 2^27 + 1 are more than 2^53, and odd.
  constexpr std::int64_t kStride = (std::int64_t{1} << 27) + 1;
  ASSERT_TRUE(counters.create("wide", {0, kStride * (kStride + 2) + 5, kStride}));
  EXPECT_EQ(counters.advance("wide", kStride + 1, Take::kAll), (Range{0, kStride, kStride + 1}));
  EXPECT_EQ(counters.peek("wide")->next, kStride * (kStride + 1));
  EXPECT_EQ(code_of(counters.advance("wide", 3, Take::kAll)), Code::kOutOfRange);
  EXPECT_EQ(counters.advance("wide", kStride + 2, Take::kTail),
            (Range{kStride * (kStride + 1), kStride, 2}));

  ASSERT_TRUE(store->unique_index()->create_space("s"));
  const std::vector<std::int64_t> keys = {kBeyond, kBeyond + 1, kLargestValue, kBeyond};
  EXPECT_EQ(store->unique_index()->insert("s", keys), (std::vector<bool>{true, true, true, false}));
}

// ---- who may

TEST(RedisUsers, PasswordsComeFromTheUrlOrTheEnvironmentAndAreNeverShown) {
  const RedisServer server;
  with_counter(server.url());
  server.run({"ACL", "SETUSER", "minter", "on", ">geh:im/", "allkeys", "allcommands"});
  const auto open = [&](const std::string& user) {
    return Store::open(server.url(0, user), {.create = false});
  };
  const auto wrong = open("minter:geheimer");
  EXPECT_EQ(code_of(wrong), Code::kUnauthenticated);
  EXPECT_THAT(fakes::why(wrong), AllOf(HasSubstr("minter:***@"), Not(HasSubstr("geh"))));
  EXPECT_EQ(code_of(open("nobody:x")), Code::kUnauthenticated);
  EXPECT_EQ(code_of(open("minter")), Code::kUnauthenticated);
  const auto right = open("minter:geh%3Aim%2F");
  ASSERT_TRUE(right) << right.error().message();
  EXPECT_THAT(std::string((*right)->url()), Not(HasSubstr("geh")));
  EXPECT_TRUE(take(**right));
  ASSERT_EQ(::setenv("REDISCLI_AUTH", "geh:im/", 1), 0);
  EXPECT_TRUE(open("minter"));
  ::unsetenv("REDISCLI_AUTH");
  EXPECT_EQ(server.run({"CLIENT", "LIST"}).find("name=idmint") == std::string::npos, false);
  // The password of the default user, as old servers have it.
  server.set("requirepass", "anderes");
  const auto none = Store::open(server.url());
  EXPECT_EQ(code_of(none), Code::kUnauthenticated);
  EXPECT_THAT(fakes::why(none), HasSubstr("REDISCLI_AUTH"));
  EXPECT_TRUE(open(":anderes"));
}

// As errors.cc names them.
constexpr std::array kRights = {"+eval", "+evalsha", "+select", "+info",     "+config|get",
                                "+time", "+exists",  "+@hash",  "+sadd",     "+scard",
                                "+zadd", "+zrem",    "+zrange", "+sismember"};

// All that a store does.
Result<void> do_all(const std::string& url) {
  static int number = 0;
  const auto store = Store::open(url);
  if (!store) return std::unexpected(store.error());
  const std::string name = "n" + std::to_string(++number);
  const std::vector<std::int64_t> keys = {1};
  if (auto made = (*store)->counters()->create(name, {1, 9}); !made)
    return std::unexpected(std::move(made.error()));
  if (auto taken = (*store)->counters()->advance(name, 1, Take::kAll); !taken)
    return std::unexpected(taken.error());
  if (auto made = (*store)->unique_index()->create_space(name); !made) return made;
  if (auto ours = (*store)->unique_index()->insert(name, keys); !ours)
    return std::unexpected(ours.error());
  if (auto claimed = (*store)->unique_index()->claimed(name); !claimed)
    return std::unexpected(claimed.error());
  if (auto made = (*store)->leases()->create_pool(name, 2); !made) return made;
  if (auto lease = (*store)->leases()->acquire(
          name, {.token = Uuid(Uuid::Bytes{1}), .now = 1, .max_drift = 1'000'000});
      !lease)
    return std::unexpected(lease.error());
  if (auto raised = (*store)->leases()->raise_floor(name, 5); !raised) return raised;
  if (auto defined = (*store)->catalog()->define(SequenceDefinition{.name = name, .last = 9});
      !defined)
    return std::unexpected(defined.error());
  if (auto all = (*store)->counters()->list(""); !all) return std::unexpected(all.error());
  return {};
}

TEST(RedisUsers, WhoHasTheRightsThatAreNamedMayDoAllAndWithoutOneIsTold) {
  const RedisServer server;
  const std::string url = server.url(3, "lesser:geheim");
  server.run({"ACL", "SETUSER", "lesser", "on", ">geheim", "~{idmint}:*"});
  for (const char* const right : kRights) server.run({"ACL", "SETUSER", "lesser", right});
  const Result<void> done = do_all(url);
  EXPECT_TRUE(done) << fakes::why(done);
  const auto expect_named = [&](const std::string& what) {
    server.run({"SCRIPT", "FLUSH"});  // EVAL is only sent where EVALSHA knows nothing
    const Result<void> refused = do_all(url);
    EXPECT_EQ(code_of(refused), Code::kPermissionDenied) << what << fakes::why(refused);
    EXPECT_THAT(fakes::why(refused), HasSubstr("~{idmint}:* +eval +evalsha")) << what;
  };
  for (const std::string right : kRights) {
    server.run({"ACL", "SETUSER", "lesser", "-" + right.substr(1)});
    expect_named(right);
    server.run({"ACL", "SETUSER", "lesser", right});
  }
  server.run({"ACL", "SETUSER", "lesser", "resetkeys", "~other:*"});
  expect_named("keys");
}

// Rights are checked at each command of a script, and what came before it stays.
TEST(RedisUsers, WhatARightEndsHalfWayIsMadeByTheNextCall) {
  const RedisServer server;
  with_counter(server.url(3));
  server.run({"ACL", "SETUSER", "lesser", "on", ">geheim", "~{idmint}:*", "allcommands", "-zadd"});
  const auto store = opened(server.url(3, "lesser:geheim"));
  const LeaseRequest request{.token = Uuid(Uuid::Bytes{1}), .now = 1, .max_drift = 1'000'000};
  EXPECT_EQ(code_of(store->leases()->create_pool("p", 1)), Code::kPermissionDenied);
  EXPECT_EQ(code_of(store->counters()->create("d", {1, 9})), Code::kPermissionDenied);
  server.run({"ACL", "SETUSER", "lesser", "+zadd", "-hset"});
  EXPECT_EQ(code_of(store->leases()->create_pool("p", 1)), Code::kPermissionDenied);
  const auto half = store->counters()->create("d", {1, 9});
  EXPECT_EQ(code_of(half), Code::kPermissionDenied);
  EXPECT_THAT(fakes::why(half), AllOf(HasSubstr("a part of it may have been done"),
                                      Not(HasSubstr("nothing was changed"))));
  server.run({"ACL", "SETUSER", "lesser", "+hset", "-eval", "-evalsha"});
  EXPECT_THAT(fakes::why(store->counters()->create("d", {1, 9})), HasSubstr("nothing was changed"));
  server.run({"ACL", "SETUSER", "lesser", "+eval", "+evalsha"});
  ASSERT_TRUE(store->leases()->create_pool("p", 1));
  server.run({"ACL", "SETUSER", "lesser", "-zadd"});
  EXPECT_EQ(code_of(store->leases()->acquire("p", request)), Code::kPermissionDenied);
  server.run({"ACL", "SETUSER", "lesser", "+zadd"});
  const auto lease = store->leases()->acquire("p", request);
  EXPECT_TRUE(lease) << fakes::why(lease);
  ASSERT_TRUE(store->counters()->create("d", {1, 9}));
  const auto all = store->counters()->list("");
  ASSERT_TRUE(all) << fakes::why(all);
  EXPECT_EQ(all->size(), 2U) << "c and d";
}

// A thousand counters go into one script, and the user may not write the last one.
TEST(RedisUsers, WhatARightEndsAfterTheFirstPartIsNotSaidToBeUndone) {
  const RedisServer server;
  with_counter(server.url(3));
  server.run({"ACL", "SETUSER", "lesser", "on", ">geheim", "~{idmint}:store", "~{idmint}:counters",
              "~{idmint}:counter:c*", "allcommands"});
  const auto store = opened(server.url(3, "lesser:geheim"));
  std::vector<NewCounter> counters;
  for (int i = 0; i < 1000; ++i) counters.push_back({"c" + std::to_string(i), {1, 9}});
  counters.push_back({"d", {1, 9}});
  const auto made = store->counters()->create(counters);
  EXPECT_EQ(code_of(made), Code::kPermissionDenied);
  EXPECT_THAT(fakes::why(made), testing::AllOf(HasSubstr("a part of it may have been done"),
                                               testing::Not(HasSubstr("nothing was changed"))));
  EXPECT_EQ(store->counters()->peek("c999")->next, 1);
}

TEST(RedisUsers, WhoMayOnlyReadReads) {
  const std::string url = redis_server().database("reading");
  with_counter(url);
  const auto store = Store::open(url, {.access = Access::kReadOnly});
  ASSERT_TRUE(store) << store.error().message();
  EXPECT_EQ((*store)->counters()->peek("c")->next, 1);
  EXPECT_EQ(code_of(take(**store)), Code::kPermissionDenied);
  const auto none = Store::open(redis_server().database("none"), {.access = Access::kReadOnly});
  EXPECT_EQ(code_of(none), Code::kNotFound);
}

// ---- TLS

class RedisTls : public testing::Test {
 protected:
  std::string rediss(const std::string& host, const std::string& options) {
    return "rediss://" + host + ":" + std::to_string(tls_port_) + options;
  }
  std::string ca(const fakes::Certificate& of) { return "?tls_ca=" + of.certificate(); }

  const fakes::TempFolder folder_;
  const fakes::Certificate server_certificate_{folder_, "localhost"};
  const fakes::Certificate client_{folder_, "client"};
  const int tls_port_ = servers::unused_port();
  const RedisServer server_{{"tls-port " + std::to_string(tls_port_),
                             "tls-cert-file " + server_certificate_.certificate(),
                             "tls-key-file " + server_certificate_.key(),
                             "tls-ca-cert-file " + client_.certificate(), "tls-auth-clients no"}};
};

TEST_F(RedisTls, AStoreIsServedOverIt) {
  const auto store = with_counter(rediss("localhost", "/2" + ca(server_certificate_)));
  for (std::int64_t i = 1; i < 200; ++i) EXPECT_EQ(take(*store), (Range{i, 1, 1}));
  EXPECT_EQ(opened(server_.url(2))->counters()->peek("c")->next, 200);
  // Requests and answers of many records.
  ASSERT_TRUE(store->unique_index()->create_space("s"));
  std::vector<std::int64_t> keys;
  for (std::int64_t key = 0; key < 50'000; ++key) keys.push_back(key);
  const auto ours = store->unique_index()->insert("s", keys);
  ASSERT_TRUE(ours) << ours.error().message();
  EXPECT_EQ(store->unique_index()->claimed("s"), 50'000);
}

TEST_F(RedisTls, AServerThatIsNotTheOneNamedIsRefused) {
  for (const std::string& url : {rediss("localhost", ca(client_)), rediss("localhost", ""),
                                 rediss("127.0.0.1", ca(server_certificate_))}) {
    const Error refusal = fakes::refusal_that_says("the certificate of the server is not accepted",
                                                   url, milliseconds{500});
    EXPECT_EQ(refusal.code, Code::kUnavailable) << url;
  }
  const auto no_file = Store::open(rediss("localhost", "?tls_ca=/nowhere.pem"));
  EXPECT_EQ(code_of(no_file), Code::kInvalidArgument);
  EXPECT_THAT(fakes::why(no_file), HasSubstr("/nowhere.pem"));
  EXPECT_EQ(code_of(Store::open("rediss://localhost:" + std::to_string(server_.port()),
                                {.deadline = milliseconds{500}})),
            Code::kUnavailable)
      << "it speaks no TLS there";
}

TEST_F(RedisTls, AClientMayHaveToShowACertificate) {
  server_.set("tls-auth-clients", "yes");
  const std::string url = rediss("localhost", ca(server_certificate_));
  EXPECT_EQ(code_of(Store::open(url, {.deadline = milliseconds{500}})), Code::kUnavailable);
  const auto shown =
      Store::open(url + "&tls_cert=" + client_.certificate() + "&tls_key=" + client_.key());
  EXPECT_TRUE(shown) << fakes::why(shown);
}

// ---- connections

TEST(RedisConnections, AServerThatForgotTheScriptsIsToldThemAgain) {
  const auto store = with_counter(redis_server().database("forgotten"));
  for (std::int64_t value = 1; value < 5; ++value) {
    EXPECT_EQ(take(*store), (Range{value, 1, 1}));
    redis_server().run({"SCRIPT", "FLUSH"});
  }
}

TEST(RedisConnections, OneThatTheServerEndedIsReplaced) {
  const RedisServer server;
  const auto store = with_counter(server.url());
  for (std::int64_t value = 1; value < 5; ++value) {
    EXPECT_EQ(take(*store), (Range{value, 1, 1}));
    end_all(server);
  }
}

TEST(RedisConnections, WhereThereAreFewCallersTakeTurns) {
  const RedisServer server;
  const auto store = with_counter(server.url());
  server.set("maxclients", "3");
  fakes::take_at_once(*store);
}

// A caller that has a connection goes on with it.
TEST(RedisConnections, WithoutOneLeftTheSettingIsNamedAndAllGoesOnWithOne) {
  const RedisServer server;
  with_counter(server.url());
  server.set("maxclients", "3");
  fakes::expect_all_go_on_without_a_connection_left(server.url(), "raise maxclients", [&] {
    return Store::open(server.url(), {.deadline = milliseconds{300}});
  });
}

TEST(RedisConnections, AStoreThatTookThePlaceOfAnotherIsNotUsed) {
  const std::string url = redis_server().database("replaced");
  const auto store = with_counter(url);
  ask(url, {"HSET", kStore, "id", Uuid(Uuid::Bytes{1}).to_string()});
  const auto refused = take(*store);
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("another store is there now"));
}

TEST(RedisConnections, ACallEndsByItsDeadlineWhileTheServerStandsStill) {
  RedisServer server;
  const auto store = with_counter(server.url(), milliseconds{500});
  ASSERT_TRUE(eventually([&] { return take(*store).has_value(); }));
  server.signal(SIGSTOP);
  const auto begun = steady_clock::now();
  EXPECT_EQ(code_of(take(*store)), Code::kDeadlineExceeded) << "it was sent";
  EXPECT_EQ(code_of(take(*store)), Code::kUnavailable) << "there was no connection";
  EXPECT_EQ(code_of(store->counters()->peek("c")), Code::kUnavailable);
  EXPECT_LT(steady_clock::now() - begun, std::chrono::seconds{20});
  server.signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return take(*store).has_value(); }));
}

TEST(RedisConnections, AServerThatWasKilledAndStartedIsGoneOnWith) {
  RedisServer server;
  const auto store = with_counter(server.url());
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  server.kill();
  auto next = std::async(std::launch::async, [&] { return take(*store); });
  server.restart();
  const Result<Range> taken = next.get();
  ASSERT_TRUE(taken) << taken.error().message();
  EXPECT_EQ(taken->first, 2) << "it was never sent before";
  EXPECT_FALSE(opened(server.url())->doubt());
}

TEST(RedisConnections, AServerThatIsBusyIsWaitedFor) {
  const RedisServer server({"lua-time-limit 1"});
  const auto store = with_counter(server.url());
  auto busy = std::async(std::launch::async,
                         [&] { return server.ask({"EVAL", "while true do end", "0"}); });
  ASSERT_TRUE(eventually([&] { return server.ask({"GET", "x"}).starts_with("ERROR: BUSY"); }));
  auto next = std::async(std::launch::async, [&] { return take(*store); });
  const Error impatient = fakes::refusal_that_says("BUSY", server.url(), milliseconds{200});
  EXPECT_EQ(impatient.code, Code::kUnavailable);
  server.run({"SCRIPT", "KILL"});
  busy.get();
  EXPECT_EQ(next.get(), (Range{1, 1, 1}));
}

TEST(RedisConnections, AServerThatSaysNothingIsPassedOver) {
  fakes::expect_silence_is_passed_over(
      [](const std::string& hosts) { return "redis://" + hosts + "/999"; },
      "127.0.0.1:" + std::to_string(redis_server().port()));
}

// ---- fail-over

// A plain client, which knows nothing of replication ids.
std::string plain_next(const RedisServer& server) { return server.run({"INCR", "tickets"}); }

class RedisPair : public testing::Test {
 protected:
  // The primary dies, and the replica takes its place.
  void fail_over() {
    primary_.kill();
    replica_.promote();
  }
  // On both, so that a handle finds the one that is the primary.
  [[nodiscard]] std::string url() const {
    return "redis://127.0.0.1:" + std::to_string(primary_.port()) +
           ",127.0.0.1:" + std::to_string(replica_.port());
  }

  RedisServer primary_;
  RedisServer replica_{RedisServer::ReplicaOf{primary_}};
};

TEST_F(RedisPair, AReplicaIsRefusedAndPassedOver) {
  with_counter(primary_.url());
  replica_.catch_up(primary_);
  const auto refused = Store::open(replica_.url());
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("is a replica"));
  const auto store = opened("redis://127.0.0.1:" + std::to_string(replica_.port()) +
                            ",127.0.0.1:" + std::to_string(primary_.port()));
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
}

void expect_refused(const auto& result, const char* why) {
  EXPECT_EQ(code_of(result), Code::kFailedPrecondition) << fakes::why(result);
  EXPECT_THAT(fakes::why(result), HasSubstr(why));
}

TEST_F(RedisPair, OfAReplicaThatLaggedAPlainClientRepeatsAndIdmintDoesNot) {
  const auto store = with_counter(url());
  const std::vector<std::int64_t> keys = {1, 2};
  ASSERT_TRUE(store->unique_index()->create_space("s"));
  ASSERT_TRUE(store->leases()->create_pool("p", 1));
  ASSERT_TRUE(create_sequence(*store, {.name = "orders"}));
  const LeaseRequest request{.token = Uuid(Uuid::Bytes{1}), .now = 100, .max_drift = 1000};
  EXPECT_TRUE(take(*store));
  replica_.catch_up(primary_);
  replica_.cut_off();
  const std::string plain = plain_next(primary_);
  EXPECT_EQ(take(*store), (Range{2, 1, 1}));
  EXPECT_TRUE(store->unique_index()->insert("s", keys));
  const Result<Lease> lease = store->leases()->acquire("p", request);
  ASSERT_TRUE(lease) << lease.error().message();

  fail_over();
  EXPECT_EQ(plain_next(replica_), plain) << "the plain client repeats";
  const auto expect_doubt = [](const auto& result) {
    expect_refused(result, "a replica was promoted");
  };
  // The first call may learn that its connection is gone.
  EXPECT_TRUE(eventually([&] { return code_of(take(*store)) == Code::kFailedPrecondition; }));
  expect_doubt(take(*store));
  expect_doubt(store->unique_index()->insert("s", keys));
  expect_doubt(store->leases()->acquire("p", request));
  expect_doubt(store->leases()->extend("p", *lease, lease->to + 5, Uuid(Uuid::Bytes{2}), {}));
  expect_doubt(store->counters()->create("d", {1, 9}));
  expect_doubt(store->unique_index()->create_space("t"));
  expect_doubt(store->leases()->create_pool("q", 1));
  expect_doubt(store->catalog()->define(SequenceDefinition{"more"}));
  EXPECT_EQ(store->counters()->peek("c")->next, 2) << "it can be read";

  const auto fresh = opened(url());
  const Error doubt = fresh->doubt().value_or(Error{});
  EXPECT_EQ(doubt.code, Code::kFailedPrecondition);
  EXPECT_EQ(doubt.advice.remedy, Remedy::kRaiseStore);
  expect_doubt(take(*fresh));
  ASSERT_EQ(fresh->counters()->raise("c", 10), 10);
  expect_doubt(take(*fresh));
  const auto raised = raise_all(*fresh, 10);
  ASSERT_TRUE(raised) << raised.error().message();
  EXPECT_FALSE(fresh->doubt());
  EXPECT_EQ(take(*fresh), (Range{10, 1, 1}));
  EXPECT_GT(fresh->settle_count(), 0);
  EXPECT_EQ(take(*store), (Range{11, 1, 1})) << "the others go on too";
  EXPECT_EQ(store->settle_count(), fresh->settle_count()) << "it was within that count";
}

TEST_F(RedisPair, AStoreThatSawAReplicaIsInDoubtAfterEachRestart) {
  const auto store = with_counter(primary_.url());
  EXPECT_TRUE(take(*store));
  primary_.kill();
  primary_.restart();
  expect_refused(take(*opened(primary_.url())), "the server was started again, or");
  const auto fresh = opened(primary_.url());
  ASSERT_TRUE(fresh->settle(Store::Settle::kOnlyMoved));
  EXPECT_EQ(take(*fresh), (Range{2, 1, 1}));
}

// The connection stays open while its server becomes a replica, is given older data, and is
// promoted.
TEST_F(RedisPair, AnOpenConnectionLearnsThatItsServerWentBack) {
  const auto store = with_counter(primary_.url());
  const auto reader = opened(primary_.url());
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  replica_.catch_up(primary_);
  replica_.cut_off();
  EXPECT_EQ(take(*store), (Range{2, 1, 1}));
  replica_.promote();
  primary_.run({"REPLICAOF", "127.0.0.1", std::to_string(replica_.port())});
  expect_refused(take(*store), "is a replica");
  expect_refused(reader->counters()->peek("c"), "is a replica");
  primary_.catch_up(replica_);
  primary_.promote();
  EXPECT_EQ(store->counters()->peek("c")->next, 2) << "it went back";
  expect_refused(take(*store), "a replica was promoted");
}

// The replica's copy of the store knows of no replica, and it forgets what it was a replica of when
// it is started again.
TEST(RedisReplicas, TheDoubtStaysWhenThePromotedOneIsStartedAgain) {
  RedisServer primary;
  const auto store = with_counter(primary.url());
  RedisServer replica(RedisServer::ReplicaOf{primary});
  replica.cut_off();
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  primary.kill();
  EXPECT_EQ(replica.run({"HGET", kStore, "replicas"}), "0");
  replica.promote();
  expect_refused(take(*opened(replica.url())), "a replica was promoted");
  replica.kill();
  replica.restart();
  expect_refused(take(*opened(replica.url())), "the server was started again, or");
}

TEST(RedisReplicas, OneThatWasThereOnlyBetweenTwoCallsIsRemembered) {
  const RedisServer primary;
  const auto store = with_counter(primary.url());
  {
    const RedisServer replica(RedisServer::ReplicaOf{primary});
  }
  ASSERT_TRUE(eventually([&] { return primary.info("replication", "connected_slaves") == "0"; }));
  EXPECT_EQ(primary.run({"HGET", kStore, "replicas"}), "0");
  EXPECT_TRUE(take(*store));
  EXPECT_EQ(primary.run({"HGET", kStore, "replicas"}), "1");
}

}  // namespace
}  // namespace idmint
