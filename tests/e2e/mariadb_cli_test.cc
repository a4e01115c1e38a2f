// The command over a store of MariaDB, and what an operator does after a fail-over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/e2e/cli.h"
#include "tests/servers/mariadb.h"

namespace idmint::e2e {
namespace {

using servers::MariadbServer;
using testing::AllOf;
using testing::HasSubstr;

TEST_F(Cli, EveryStrategyButGaplessWorksOverMariadb) {
  const MariadbServer server;
  const std::string store = "export IDMINT_STORE='" + server.database("shop") + "'\n";
  output(store + R"(
      idmint create orders --start 1000 --max 5000
      idmint create accounts --strategy striped --stripes 100 --max 100000
      idmint create parts --strategy interleaved --stripes 7
      idmint create tickets --strategy cached
      idmint create cards --strategy random --max 999999
      idmint create codes --strategy permuted --max 999999
      idmint create web --kind pool --layout twitter --workers 16)");
  EXPECT_EQ(output(store + "idmint next orders -n 3; idmint next orders"),
            "1000\n1001\n1002\n1003\n");
  for (const char* const name : {"accounts", "parts", "tickets", "cards", "codes", "web"}) {
    const std::string ten =
        output(store + "(idmint next " + name + " -n 5; idmint next " + name + " -n 5) | sort -u");
    EXPECT_EQ(lines_of(ten).size(), 10U) << name;
  }
  EXPECT_EQ(run(store + "idmint create bills --strategy gapless").status, 12);
  output(store + "idmint raise orders --past 4999 --yes; idmint alter orders --max 5001");
  EXPECT_EQ(output(store + "idmint next orders -n 2"), "5000\n5001\n");
  EXPECT_EQ(run(store + "idmint next orders").status, 6);
  output(store + "idmint retire orders --yes");
  EXPECT_EQ(run(store + "idmint next orders").status, 5);
}

TEST_F(Cli, WhatOthersCountInMariadbIsAdoptedAndPassed) {
  const MariadbServer server;
  const std::string store = "export IDMINT_STORE='" + server.database("shop") + "'\n";
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

TEST_F(Cli, LibmariadbIsLoadedOnlyWhenAUrlAsksForIt) {
  const MariadbServer server;
  output("idmint create orders --store '" + server.database("ids") + "'");
  const auto loads = [&](const std::string& command) {
    return output("rm -f loader.*\nLD_DEBUG=files LD_DEBUG_OUTPUT=loader " + command +
                  " >/dev/null\ncat loader.* | grep -c 'calling init: .*libmariadb' || true");
  };
  EXPECT_EQ(loads("idmint next uuid7"), "0\n");
  EXPECT_EQ(loads("idmint next orders --store '" + server.url("ids") + "'"), "1\n");
}

TEST_F(Cli, AfterAFailOverNothingIsGivenUntilAllIsRaised) {
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
  const std::string store =
      "export IDMINT_STORE='mysql://root@127.0.0.1:" + std::to_string(primary.port()) +
      ",127.0.0.1:" + std::to_string(replica.port()) + "/ids'\n";
  output(store + "idmint create orders; idmint next orders");
  replica.catch_up(primary);
  replica.run("STOP SLAVE");
  EXPECT_EQ(output(store + "idmint next orders -n 3"), "2\n3\n4\n");
  primary.kill();
  replica.cut_off();
  const Ended refused = run(store + "idmint next orders");
  EXPECT_EQ(refused.status, 5);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("a replica was promoted"), HasSubstr("idmint raise --all --past N")));
  EXPECT_EQ(run(store + "idmint create more").status, 5);
  const Ended doctor = run(store + "idmint doctor");
  EXPECT_NE(doctor.status, 0);
  EXPECT_THAT(doctor.out, HasSubstr("a replica was promoted"));
  EXPECT_EQ(run(store + "idmint raise --all --past 100").status, 0);
  EXPECT_EQ(output(store + "idmint next orders"), "101\n");
}

}  // namespace
}  // namespace idmint::e2e
