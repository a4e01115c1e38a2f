// The command over a store of MariaDB, and what an operator does after a fail-over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/store_cli.h"
#include "tests/servers/mariadb.h"

namespace idmint::e2e {
namespace {

using servers::MariadbServer;
using testing::AllOf;
using testing::EndsWith;
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

TEST_F(StoreCli, AColumnThatCountsByItselfIsNotAdoptedAndPassed) {
  const MariadbServer server;
  const std::string store = naming(server.database("shop"));
  server.run(
      "CREATE TABLE orders (id bigint AUTO_INCREMENT PRIMARY KEY, what text);"
      "INSERT INTO orders (what) VALUES ('a'), ('b')",
      "shop");
  const Ended refused = run(store + "idmint create orders --adopt auto_increment:orders");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("only to a row that is inserted"),
                                 HasSubstr("raise it past the table's AUTO_INCREMENT")));
  output(store + "idmint create orders; idmint raise orders --from-table orders.id --yes");
  EXPECT_EQ(output(store + "idmint next orders"), "3\n");
}

// docs/ticket-servers.md, of which each block is run here in its order.
class TicketServers : public StoreCli {
 protected:
  TicketServers() {
    for (const auto* const server : std::vector<const MariadbServer*>{&alone_, &one_, &two_}) {
      server->database("ids");
      server->database("shop");
      server->run(
          "CREATE TABLE Tickets64 (id bigint unsigned NOT NULL auto_increment,"
          " stub char(1) NOT NULL default '', PRIMARY KEY (id), UNIQUE KEY stub (stub))",
          "shop");
    }
    std::ifstream page(IDMINT_TICKET_SERVERS);
    bool inside = false;
    for (std::string line; std::getline(page, line);) {
      if (line == "```sh" || line == "```sql") blocks_.emplace_back();
      if (line.starts_with("```"))
        inside = !inside;
      else if (inside)
        blocks_.back() += line + "\n";
    }
  }

  // The block with these servers in the place of its own.
  [[nodiscard]] std::string block(std::size_t number, const MariadbServer& db1,
                                  const MariadbServer& db2) const {
    std::string text = blocks_.at(number);
    for (const auto& [host, server] : {std::pair{"db1", &db1}, {"db2", &db2}}) {
      const std::string there = "minter@" + std::string(host) + "/";
      const std::string here = "root@127.0.0.1:" + std::to_string(server->port()) + "/";
      for (std::size_t at = 0; (at = text.find(there, at)) != std::string::npos;)
        text.replace(at, there.size(), here);
    }
    return text;
  }

  static std::vector<std::string> of_a_pair(int offset) {
    return {"--auto-increment-increment=2", "--auto-increment-offset=" + std::to_string(offset)};
  }

  const MariadbServer alone_;
  MariadbServer one_{of_a_pair(1)};
  const MariadbServer two_{of_a_pair(2)};
  std::vector<std::string> blocks_{};
};

TEST_F(TicketServers, TheDocumentWorks) {
  ASSERT_EQ(blocks_.size(), 4U) << "a new one needs a check here";
  const std::string& plain = blocks_[0];
  EXPECT_EQ(alone_.run(plain, "shop"), "1");
  EXPECT_EQ(output(block(1, alone_, alone_)), "2\n");
  EXPECT_EQ(alone_.run(plain, "shop"), "3");

  EXPECT_EQ(one_.run(plain, "shop"), "1");
  const Ended other_way_round = run("set -e\n" + block(2, two_, one_));
  EXPECT_EQ(other_way_round.status, 5);
  EXPECT_THAT(other_way_round.err,
              AllOf(HasSubstr("auto_increment_offset"), EndsWith("(--over)\n")));
  EXPECT_EQ(output(block(2, one_, two_)), "2\n");
  EXPECT_EQ(one_.run(plain, "shop"), "3");
  EXPECT_EQ(two_.run(plain, "shop"), "4");
  EXPECT_THAT(output("idmint peek tickets --store " + one_.url("shop")),
              HasSubstr("tickets:Tickets64/stub=a:last=id"));
  one_.run("REPLACE INTO Tickets64 VALUES (99, 'a')", "shop");
  output(block(3, one_, two_));
  EXPECT_EQ(output("idmint next photos -n 3 --store " + two_.url("ids")), "100\n102\n104\n");

  one_.kill();
  EXPECT_EQ(output("idmint next tickets -n 3 --store " + two_.url("shop")), "6\n8\n10\n");
}

// As is said of one server of a pair alone.
TEST_F(TicketServers, OneOfAPairIsAdoptedInItsSteps) {
  const std::string store = naming(two_.url("shop"));
  const Ended refused = run(store + "idmint create tickets --adopt tickets");
  EXPECT_EQ(refused.status, 5);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("the server counts in steps of 2 from 2 on"),
                                 EndsWith("(--stride 2 --offset 2)\n")));
  output(store + "idmint create tickets --adopt tickets --stride 2 --offset 2");
  EXPECT_EQ(output(store + "idmint next tickets -n 2"), "2\n4\n");
  EXPECT_EQ(two_.run(blocks_.at(0), "shop"), "6");
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

TEST_F(StoreCli, WhatThisHostWasGivenIsComparedInMariadb) {
  const MariadbServer server;
  expect_record_is_compared(server.database("shop"), [&] {
    server.run("UPDATE idmint_counters SET next = 11, taken_from = 10 WHERE name = 'c'", "shop");
  });
}

}  // namespace
}  // namespace idmint::e2e
