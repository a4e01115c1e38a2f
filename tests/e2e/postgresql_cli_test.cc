// The command over a store of PostgreSQL, and what an operator does after a fail-over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/e2e/cli.h"
#include "tests/servers/postgresql.h"

namespace idmint::e2e {
namespace {

using servers::PostgresqlServer;
using testing::AllOf;
using testing::HasSubstr;

TEST_F(Cli, EveryStrategyButGaplessWorksOverPostgresql) {
  const PostgresqlServer server;
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

TEST_F(Cli, WhatOthersCountInPostgresqlIsAdoptedAndPassed) {
  const PostgresqlServer server;
  const std::string store = "export IDMINT_STORE='" + server.database("shop") + "'\n";
  server.run(
      "CREATE TABLE counters (name text PRIMARY KEY, n bigint NOT NULL);"
      "INSERT INTO counters VALUES ('orders', 1000);"
      "CREATE TABLE parts (id serial PRIMARY KEY, number integer);"
      "INSERT INTO parts (number) VALUES (70), (80), (75)",
      "shop");
  output(store + "idmint create orders --adopt row:counters/name=orders:next=n");
  EXPECT_EQ(output(store + "idmint next orders -n 2"), "1000\n1001\n");
  EXPECT_EQ(server.run("UPDATE counters SET n = n + 1 RETURNING n - 1", "shop"), "1002");
  EXPECT_EQ(output(store + "idmint next orders"), "1003\n");
  EXPECT_THAT(output(store + "idmint peek orders"),
              HasSubstr("row:public.counters/name=orders:next=n"));
  const Ended too_far = run(store + "idmint create parts --adopt sequence:parts_id_seq");
  EXPECT_EQ(too_far.status, 5);
  EXPECT_THAT(too_far.err, HasSubstr("it counts up to 2147483647"));
  output(store + "idmint create parts --adopt sequence:parts_id_seq --max 2147483647");
  EXPECT_EQ(output(store + "idmint next parts -n 2"), "4\n5\n");
  EXPECT_EQ(server.run("INSERT INTO parts (number) VALUES (9) RETURNING id", "shop"), "6");
  EXPECT_THAT(output(store + "idmint list --toml | tee a.toml; idmint apply a.toml"),
              HasSubstr("was there  parts"));
  EXPECT_EQ(run(store + "idmint create bad --adopt counter").status, 2);

  output(store + "idmint create bolts; idmint raise bolts --from-table parts.number --yes");
  EXPECT_EQ(output(store + "idmint next bolts"), "81\n");
  server.run("INSERT INTO parts (number) VALUES (500)", "shop");
  output("idmint create local && idmint raise local --from-table public.parts.number --uri '" +
         server.url("shop") + "'");
  EXPECT_EQ(output("idmint next local"), "501\n");
  EXPECT_EQ(run("idmint raise local --from-table parts.number").status, 2) << "not in a file";
  EXPECT_EQ(run(store + "idmint raise bolts --from-table parts").status, 2);
  EXPECT_EQ(run(store + "idmint raise bolts --from-table parts.none").status, 3);
  EXPECT_EQ(run(store + "idmint raise bolts --past 600 --uri sqlite:x.db").status, 2);
}

TEST_F(Cli, LibpqIsLoadedOnlyWhenAUrlAsksForIt) {
  const PostgresqlServer server;
  output("idmint create orders --store '" + server.database("ids") + "'");
  const auto loads = [&](const std::string& command) {
    return output("rm -f loader.*\nLD_DEBUG=files LD_DEBUG_OUTPUT=loader " + command +
                  " >/dev/null\ncat loader.* | grep -c 'calling init: .*libpq' || true");
  };
  EXPECT_EQ(loads("idmint next uuid7"), "0\n");
  EXPECT_EQ(loads("idmint next orders --store '" + server.url("ids") + "'"), "1\n");
}

TEST_F(Cli, AfterAFailOverNothingIsGivenUntilAllIsRaised) {
  PostgresqlServer primary;
  primary.database("ids");
  const PostgresqlServer standby(PostgresqlServer::StandbyOf{primary});
  const std::string store =
      "export IDMINT_STORE='postgresql://postgres@127.0.0.1:" + std::to_string(primary.port()) +
      ",127.0.0.1:" + std::to_string(standby.port()) + "/ids'\n";
  output(store + "idmint create orders; idmint next orders");
  standby.catch_up(primary);
  standby.cut_off();
  EXPECT_EQ(output(store + "idmint next orders -n 3"), "2\n3\n4\n");
  primary.kill();
  standby.promote();
  const Ended refused = run(store + "idmint next orders");
  EXPECT_EQ(refused.status, 5);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("a standby was promoted"), HasSubstr("idmint raise --all --past N")));
  EXPECT_EQ(run(store + "idmint create more").status, 5);
  const Ended doctor = run(store + "idmint doctor");
  EXPECT_NE(doctor.status, 0);
  EXPECT_THAT(doctor.out, HasSubstr("a standby was promoted"));
  EXPECT_EQ(run(store + "idmint raise --all --past 100").status, 0);
  EXPECT_EQ(output(store + "idmint next orders"), "101\n");
}

}  // namespace
}  // namespace idmint::e2e
