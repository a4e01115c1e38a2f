// The command over a store of Redis, and what an operator does after a fail-over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/e2e/store_cli.h"
#include "tests/servers/redis.h"

namespace idmint::e2e {
namespace {

using servers::RedisServer;
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
  EXPECT_THAT(missing.err, HasSubstr("SET it to the value that came last"));
  server.run({"SET", "shop:orders", "1000"});
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

}  // namespace
}  // namespace idmint::e2e
