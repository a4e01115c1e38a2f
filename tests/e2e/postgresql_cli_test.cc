// The command over a store of PostgreSQL, and what an operator does after a fail-over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/e2e/store_cli.h"
#include "tests/servers/postgresql.h"

namespace idmint::e2e {
namespace {

using servers::PostgresqlServer;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

TEST_F(StoreCli, EveryStrategyButGaplessWorksOverPostgresql) {
  const PostgresqlServer server;
  expect_every_strategy_but_gapless(server.database("shop"));
}

TEST_F(StoreCli, WhatOthersCountInPostgresqlIsAdoptedAndPassed) {
  const PostgresqlServer server;
  const std::string store = naming(server.database("shop"));
  server.run(
      "CREATE TABLE counters (name text PRIMARY KEY, n bigint NOT NULL);"
      "INSERT INTO counters VALUES ('orders', 1000), ('far', 1004);"
      "CREATE TABLE parts (id serial PRIMARY KEY, number integer);"
      "INSERT INTO parts (number) VALUES (70), (80), (75)",
      "shop");
  output(store + "idmint create orders --adopt row:counters/name=orders:next=n");
  EXPECT_EQ(output(store + "idmint next orders -n 2"), "1000\n1001\n");
  EXPECT_EQ(
      server.run("UPDATE counters SET n = n + 1 WHERE name = 'orders' RETURNING n - 1", "shop"),
      "1002");
  EXPECT_EQ(output(store + "idmint next orders"), "1003\n");
  EXPECT_THAT(output(store + "idmint peek orders"),
              HasSubstr("row:public.counters/name=orders:next=n"));
  const Ended too_far = run(store + "idmint create parts --adopt sequence:parts_id_seq");
  EXPECT_EQ(too_far.status, 5);
  EXPECT_THAT(too_far.err, AllOf(HasSubstr("it counts up to 2147483647"),
                                 EndsWith("it was left as it is (--max 2147483647)\n")));
  const Ended too_near =
      run(store + "idmint create far --adopt row:counters/name=far:next=n --start 5000 --max 9000");
  EXPECT_EQ(too_near.status, 5);
  EXPECT_THAT(too_near.err, EndsWith("(--start 1004)\n"));
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

TEST_F(StoreCli, LibpqIsLoadedOnlyWhenAUrlAsksForIt) {
  const PostgresqlServer server;
  output("idmint create orders --store '" + server.database("ids") + "'");
  EXPECT_EQ(loads("libpq", "idmint next uuid7"), "0\n");
  EXPECT_EQ(loads("libpq", "idmint next orders --store '" + server.url("ids") + "'"), "1\n");
}

TEST_F(StoreCli, AfterAFailOverNothingIsGivenUntilAllIsRaised) {
  PostgresqlServer primary;
  primary.database("ids");
  const PostgresqlServer standby(PostgresqlServer::StandbyOf{primary});
  const std::string url = "postgresql://postgres@127.0.0.1:" + std::to_string(primary.port()) +
                          ",127.0.0.1:" + std::to_string(standby.port()) + "/ids";
  const std::string store = naming(url);
  output(store + "idmint create orders; idmint next orders");
  standby.catch_up(primary);
  standby.cut_off();
  EXPECT_EQ(output(store + "idmint next orders -n 3"), "2\n3\n4\n");
  primary.kill();
  standby.promote();
  expect_nothing_until_raised(url, "a standby was promoted");
}

TEST_F(StoreCli, WhatThisHostWasGivenIsComparedInPostgresql) {
  const PostgresqlServer server;
  expect_record_is_compared(server.database("shop"), [&] {
    server.run("UPDATE idmint.counters SET next = 11, taken_from = 10 WHERE name = 'c'", "shop");
  });
}

}  // namespace
}  // namespace idmint::e2e
