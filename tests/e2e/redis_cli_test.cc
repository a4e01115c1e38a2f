// The command over a store of Redis, and what an operator does after a fail-over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <set>
#include <string>

#include "tests/e2e/store_cli.h"
#ifdef IDMINTD_BINARY
#include "tests/e2e/daemon.h"
#endif
#include "tests/servers/redis.h"

namespace idmint::e2e {
namespace {

using servers::RedisServer;
using testing::EndsWith;
using testing::HasSubstr;

TEST_F(StoreCli, EveryStrategyButGaplessWorksOverRedis) {
  const RedisServer server;
  expect_every_strategy_but_gapless(server.database("shop"));
}

TEST_F(StoreCli, AKeyOfIncrIsAdopted) {
  const RedisServer server;
  const std::string store = naming(server.url());
  const Ended missing = run(store + "idmint create orders --adopt key:shop:orders");
  EXPECT_EQ(missing.status, 5);
  EXPECT_THAT(missing.err, HasSubstr("name the key that your programs INCR"));
  server.run({"SET", "shop:orders", "1000"});
  const Ended low = run(store + "idmint create orders --adopt key:shop:orders --start 5000");
  EXPECT_EQ(low.status, 5);
  EXPECT_THAT(low.err, EndsWith("it was left as it is (--start 1001)\n"));
  output(store + "idmint create orders --adopt key:shop:orders");
  EXPECT_EQ(output(store + "idmint next orders -n 2"), "1001\n1002\n");
  EXPECT_EQ(server.run({"INCR", "shop:orders"}), "1003");
  EXPECT_EQ(output(store + "idmint next orders"), "1004\n");
  EXPECT_THAT(output(store + "idmint peek orders"), HasSubstr("key:shop:orders"));
  EXPECT_THAT(output(store + "idmint list --toml | tee a.toml; idmint apply a.toml"),
              HasSubstr("was there  orders"));
  output(store + "idmint raise orders --past 2000 --yes");
  EXPECT_EQ(server.run({"INCR", "shop:orders"}), "2001");
  server.run({"DEL", "shop:orders"});
  const Ended gone = run(store + "idmint next orders");
  EXPECT_EQ(gone.status, 10);
  EXPECT_THAT(gone.err, HasSubstr("SET it to the largest value in use"));
  EXPECT_THAT(run(store + "idmint doctor").out, HasSubstr("it is not there, and it had 2000"));
}

TEST_F(StoreCli, NothingIsLoadedForRedisAndLibsslOnlyWhenAUrlAsksForIt) {
  const RedisServer server;
  output("idmint create orders --store '" + server.url() + "'");
  EXPECT_EQ(loads("libssl", "idmint next uuid7"), "0\n");
  EXPECT_EQ(loads("libssl", "idmint next orders --store '" + server.url() + "'"), "0\n");
  EXPECT_EQ(loads("libssl", "sh -c 'idmint next orders --timeout 1s --store rediss://127.0.0.1:" +
                                std::to_string(server.port()) + " 2>/dev/null || true'"),
            "1\n");
}

// The first command waits for a share of its time; the data folder knows then.
TEST_F(StoreCli, ADeadStoreOfSeveralKeepsNoCommandFromTheOthers) {
  RedisServer usual;
  const RedisServer other;
  output("idmint create tickets --over '" + usual.url() + "' --over '" + other.url() + "'");
  const std::string next =
      "idmint next tickets --store '" + usual.url() + "' --over '" + other.url() + "'";
  std::set<std::string> given;
  const auto gives = [&] {
    const Ended ended = run(next);
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_TRUE(given.insert(ended.out).second) << ended.out;
  };
  for (int i = 0; i < 3; ++i) gives();
  for (const bool hangs : {true, false}) {
    if (hangs) {
      usual.signal(SIGSTOP);
    } else {
      usual.kill();
    }
    gives();
    const auto begun = std::chrono::steady_clock::now();
    gives();
    EXPECT_THAT(
        output("idmint peek tickets --store '" + usual.url() + "' --over '" + other.url() + "'"),
        HasSubstr("in the 1 of 2 stores that could be read"));
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds{5})
        << "of two commands, each of which may take so long";
    if (hangs) {
      usual.signal(SIGCONT);
    } else {
      usual.restart();
    }
    for (int i = 0; i < 4; ++i) gives();
    // A remembered failure refuses no store that is up.
    EXPECT_EQ(run("idmint next tickets --store '" + usual.url() + "'").status, 0);
  }
}

#ifdef IDMINTD_BINARY

// A command with *** in the place of the password would not work.
TEST_F(StoreCli, TheDaemonsHintHasAUrlThatCanBeTyped) {
  const RedisServer server;
  server.set("requirepass", "secret");
  const std::string url = server.url(3, ":secret");
  const Ended named = run("idmintd --check --store '" + url + "'");
  EXPECT_EQ(named.status, 0) << named.err;
  EXPECT_THAT(named.err, testing::AllOf(testing::HasSubstr("no sequences yet: "),
                                        testing::EndsWith(": idmint create NAME --store URL\n")));
  EXPECT_THAT(run("IDS='" + url + "' idmintd --check --store env:IDS").err,
              testing::EndsWith(": idmint create NAME --store env:IDS\n"));
}

#endif

TEST_F(StoreCli, AfterAFailOverNothingIsGivenUntilAllIsRaised) {
  RedisServer primary;
  RedisServer replica(RedisServer::ReplicaOf{primary});
  const std::string url = "redis://127.0.0.1:" + std::to_string(primary.port()) +
                          ",127.0.0.1:" + std::to_string(replica.port());
  const std::string store = naming(url);
  output(store + "idmint create orders; idmint next orders");
  replica.catch_up(primary);
  replica.cut_off();
  EXPECT_EQ(output(store + "idmint next orders -n 3"), "2\n3\n4\n");
  primary.kill();
  replica.promote();
  expect_nothing_until_raised(url, "a replica was promoted");
}

// The store that --store names stands still, and another one of the sequence serves. Three times,
// as a machine may stand still itself.
TEST_F(StoreCli, TheTimeoutIsSharedByAllThatACommandWaitsFor) {
  using std::chrono::seconds;
  using std::chrono::steady_clock;
  const RedisServer server;
  const std::string url = "'" + server.url() + "'";
  output("idmint create tickets --over " + url + " --over sqlite:b.db");
  output("idmint create tickets --over sqlite:c.db --over sqlite:d.db");
  server.signal(SIGSTOP);
  steady_clock::duration waited{};
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto begun = steady_clock::now();
    const Ended ended =
        run("idmint next tickets --timeout 4s --store " + url + " --over sqlite:b.db");
    waited = steady_clock::now() - begun;
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_EQ(ended.out, std::to_string(2 * attempt + 2) + "\n");
    if (waited <= seconds{5}) break;
  }
  EXPECT_LE(waited, seconds{5});
  // Nor does another sequence of the name.
  const Ended other =
      run("idmint next tickets --timeout 1s --store " + url + " --over sqlite:c.db");
  EXPECT_EQ(other.status, 7);
  EXPECT_EQ(other.out, "");
}

TEST_F(StoreCli, AStoreWhosePasswordIsMissingIsLeftOutWithANotice) {
  const RedisServer server;
  const std::string url = "'" + server.url() + "'";
  output("idmint create tickets --over " + url + " --over sqlite:b.db");
  server.set("requirepass", "secret");
  const std::string notice = "leaves out its store " + server.url() + " (";
  // Whichever of the two is named.
  int taken = 0;
  for (const std::string& stores :
       {std::string("--store sqlite:b.db"), "--store " + url + " --over sqlite:b.db"}) {
    const Ended ended = run("idmint next tickets " + stores);
    EXPECT_EQ(ended.status, 0);
    EXPECT_EQ(ended.out, std::to_string(taken += 2) + "\n");
    EXPECT_THAT(ended.err,
                testing::AllOf(testing::HasSubstr(notice), testing::HasSubstr("REDISCLI_AUTH")));
    EXPECT_EQ(ended.err.find(notice), ended.err.rfind(notice)) << ended.err;
  }
  EXPECT_EQ(output("REDISCLI_AUTH=secret idmint next tickets --store sqlite:b.db"), "1\n");
}

TEST_F(StoreCli, WhatThisHostWasGivenIsComparedInRedis) {
  const RedisServer server;
  expect_record_is_compared(server.url(),
                            [&] { server.run({"HSET", "{idmint}:counter:c", "next", "11"}); });
}

// An operator who accepts that values come again settles the store, which voids what was noted; and
// a store that was settled less often than it was is an older state.
TEST_F(StoreCli, ASettledStoreVoidsTheRecordAndOneThatWasNotIsOlder) {
  const RedisServer server;
  const std::string store = naming(server.url());
  output(store + "idmint create c; idmint next c -n 40");
  server.run({"HSET", "{idmint}:counter:c", "next", "11"});
  EXPECT_EQ(run(store + "idmint next c").status, 10);
  EXPECT_EQ(run(store + "idmint raise --all --moved --yes").status, 0);
  EXPECT_EQ(output(store + "idmint next c"), "12\n");
  server.run({"HSET", "{idmint}:counter:c", "next", "500"});
  server.run({"HDEL", "{idmint}:store", "settled"});
  const Ended older = run(store + "idmint next c");
  EXPECT_EQ(older.status, 10) << older.out;
  EXPECT_THAT(older.err, HasSubstr("before it was settled last"));
  EXPECT_EQ(run(store + "idmint raise --all --past 1000 --yes").status, 0);
  EXPECT_EQ(output(store + "idmint next c"), "1001\n");
}

#ifdef IDMINTD_BINARY

// The server comes back with an older append-only file and a setting that is refused. The call that
// is refused closes the source in the daemon, which is to remember all the same.
TEST_F(StoreCli, TheDaemonRemembersWhatItGaveThroughARefusedCall) {
  ASSERT_EQ(::setenv("XDG_DATA_HOME", (folder_ / "daemon").c_str(), 1), 0);
  RedisServer server;
  const std::string store = naming(server.url());
  output(store + "idmint create c; idmint create d --max 60");
  Daemon daemon(server.url());
  const auto ask = [&](const std::string& words) {
    return run("exec 3<>/dev/tcp/127.0.0.1/" + std::to_string(daemon.port()) + "; printf '" +
               words + "\\r\\n' >&3; read -r line <&3; echo \"$line\"")
        .out;
  };
  EXPECT_EQ(ask("ID.RANGE c 10"), "*2\r\n");
  EXPECT_EQ(ask("ID.RANGE d 10"), "*2\r\n");
  const std::string dir = server.run({"CONFIG", "GET", "dir"}).substr(4);
  output("cp -a '" + dir + "' older");
  EXPECT_EQ(ask("ID.RANGE c 30"), "*2\r\n");
  EXPECT_EQ(ask("ID.RANGE d 30"), "*2\r\n");
  EXPECT_EQ(ask("INCR c"), ":41\r\n");

  server.kill();
  output("rm -rf '" + dir + "'; cp -a older '" + dir + "'");
  server.restart();
  server.set("appendonly", "no");
  EXPECT_THAT(ask("INCR c"), HasSubstr("-FAILEDPRECONDITION"));
  server.kill();
  output("rm -rf '" + dir + "'; cp -a older '" + dir + "'");
  server.restart();
  // The other one after a call past the end, which closes it likewise.
  EXPECT_THAT(ask("ID.RANGE d 5000"), HasSubstr("-OUTOFRANGE"));
  EXPECT_THAT(ask("INCR d"), HasSubstr("-DATALOSS"));
  EXPECT_THAT(ask("INCR c"), HasSubstr("-DATALOSS"));
  ASSERT_EQ(::unsetenv("XDG_DATA_HOME"), 0);
}

#endif

}  // namespace
}  // namespace idmint::e2e
