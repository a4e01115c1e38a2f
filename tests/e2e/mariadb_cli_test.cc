// The command over a store of MariaDB, and what an operator does after a fail-over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/e2e/store_cli.h"
#include "tests/servers/mariadb.h"

namespace idmint::e2e {
namespace {

using servers::MariadbServer;
using testing::HasSubstr;

TEST_F(StoreCli, EveryStrategyButGaplessWorksOverMariadb) {
  const MariadbServer server;
  expect_every_strategy_but_gapless(server.database("shop"));
}

TEST_F(StoreCli, WhatOthersCountInMariadbIsAdoptedAndPassed) {
  const MariadbServer server;
  const std::string store = naming(server.database("shop"));
  server.run(
      "CREATE TABLE counters (name varchar(20) PRIMARY KEY, n bigint NOT NULL);"
      "INSERT INTO counters VALUES ('orders', 1000);"
      "CREATE TABLE Tickets64 (id bigint unsigned NOT NULL auto_increment,"
      " stub char(1) NOT NULL default '', PRIMARY KEY (id), UNIQUE KEY stub (stub))",
      "shop");
  const std::string ticket = "REPLACE INTO Tickets64 (stub) VALUES ('a'); SELECT LAST_INSERT_ID()";
  EXPECT_EQ(server.run(ticket, "shop"), "1");
  output(store + "idmint create orders --adopt row:counters/name=orders:last=n");
  EXPECT_EQ(output(store + "idmint next orders -n 2"), "1001\n1002\n");
  output(store + "idmint create photos --adopt tickets");
  EXPECT_EQ(output(store + "idmint next photos -n 3"), "2\n3\n4\n");
  EXPECT_EQ(server.run(ticket, "shop"), "5");
  EXPECT_EQ(server.run("SELECT COUNT(*) FROM Tickets64", "shop"), "1");
  EXPECT_THAT(output(store + "idmint peek photos"), HasSubstr("tickets:Tickets64/stub=a:last=id"));
  EXPECT_THAT(output(store + "idmint list --toml | tee a.toml; idmint apply a.toml"),
              HasSubstr("was there  photos"));
  output(store + "idmint create bolts; idmint raise bolts --from-table counters.n --yes");
  EXPECT_EQ(output(store + "idmint next bolts"), "1003\n");
  EXPECT_EQ(run(store + "idmint raise bolts --from-table none.n").status, 3);
}

TEST_F(StoreCli, LibmariadbIsLoadedOnlyWhenAUrlAsksForIt) {
  const MariadbServer server;
  output("idmint create orders --store '" + server.database("ids") + "'");
  EXPECT_EQ(loads("libmariadb", "idmint next uuid7"), "0\n");
  EXPECT_EQ(loads("libmariadb", "idmint next orders --store '" + server.url("ids") + "'"), "1\n");
}

TEST_F(StoreCli, AfterAFailOverNothingIsGivenUntilAllIsRaised) {
  const std::vector<std::string> durable = {"--log-bin", "--sync-binlog=1", "--log-slave-updates"};
  const auto numbered = [&](const std::string& id) {
    std::vector<std::string> options = durable;
    options.push_back("--server-id=" + id);
    return options;
  };
  MariadbServer primary(numbered("1"));
  const MariadbServer replica(numbered("2"));
  replica.follow(primary);
  primary.database("ids");
  const std::string url = "mysql://root@127.0.0.1:" + std::to_string(primary.port()) +
                          ",127.0.0.1:" + std::to_string(replica.port()) + "/ids";
  const std::string store = naming(url);
  output(store + "idmint create orders; idmint next orders");
  replica.catch_up(primary);
  replica.run("STOP SLAVE");
  EXPECT_EQ(output(store + "idmint next orders -n 3"), "2\n3\n4\n");
  primary.kill();
  replica.cut_off();
  expect_nothing_until_raised(url, "a replica was promoted");
}

}  // namespace
}  // namespace idmint::e2e
