// The refusals of a MariaDB store, and the faults of its servers. The conformance suite tests what
// all stores have in common.
#include "idmint/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engines/sql/mariadb/address.h"
#include "engines/sql/mariadb/connection.h"
#include "engines/sql/mariadb/driver.h"
#include "idmint/sequence.h"
#include "ids/lease_table.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/unique_index.h"
#include "tests/conformance/least_rights.h"
#include "tests/conformance/replaced_store.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/opened_store.h"
#include "tests/fakes/silent_servers.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mariadb.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::eventually;
using fakes::kPatient;
using fakes::opened;
using fakes::take;
using fakes::with_counter;
using servers::MariadbServer;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Setting {
  std::string name;
  std::string wrong;
  std::string right;
};

TEST(MariadbSettings, WithoutWhatACrashNeedsItIsRefusedAndServedAgainWithIt) {
  const MariadbServer server({"--log-bin", "--sync-binlog=1"});
  const std::string url = server.database("ids");
  for (const auto& [name, wrong, right] :
       std::vector<Setting>{{"innodb_flush_log_at_trx_commit", "2", "1"},
                            {"sync_binlog", "0", "1"},
                            {"read_only", "1", "OFF"}}) {
    server.run("SET GLOBAL " + name + " = " + wrong);
    const auto refused = Store::open(url);
    EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
    EXPECT_THAT(fakes::why(refused), HasSubstr("set " + name + " = " + right));
    server.run("SET GLOBAL " + name + " = " + right);
    const auto store = with_counter(url);
    const auto before = take(*store);
    ASSERT_TRUE(before) << fakes::why(before);
    // An open connection is affected, too.
    server.run("SET GLOBAL " + name + " = " + wrong);
    const auto later = take(*store);
    EXPECT_EQ(code_of(later), Code::kFailedPrecondition) << name;
    EXPECT_THAT(fakes::why(later), HasSubstr("set " + name + " = " + right));
    server.run("SET GLOBAL " + name + " = " + right);
    const auto after = take(*store);
    ASSERT_TRUE(after) << fakes::why(after);
    EXPECT_EQ(after->first, before->first + 1);
  }
}

// The server has these settings from its start on.
TEST(MariadbSettings, WhatAServerWasStartedWithIsRefused) {
  const std::vector<Setting> all = {
      {"--innodb-doublewrite=OFF", "", "set innodb_doublewrite = ON"},
      {"--innodb-flush-method=nosync", "", "set innodb_flush_method = O_DIRECT"},
      {"--binlog-format=STATEMENT", "", "set binlog_format = MIXED"},
      {"--version=8.0.33", "", "is not MariaDB"}};
  for (const auto& [option, _, advice] : all) {
    const MariadbServer server({"--log-bin", "--sync-binlog=1", option});
    const auto refused = Store::open(server.database("ids"));
    EXPECT_EQ(code_of(refused), Code::kFailedPrecondition) << option;
    EXPECT_THAT(fakes::why(refused), HasSubstr(advice)) << option;
    EXPECT_EQ(
        server.run("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'ids'"),
        "0")
        << "nothing was made";
  }
}

// Under a store that is open.
TEST(MariadbSettings, AServerThatIsStartedAgainWithoutWhatACrashNeedsIsRefused) {
  MariadbServer server({"--log-bin", "--sync-binlog=1"});
  const auto store = with_counter(server.database("ids"));
  const std::vector<Setting> all = {
      {"--innodb-flush-log-at-trx-commit=2", "", "set innodb_flush_log_at_trx_commit = 1"},
      {"--sync-binlog=0", "", "set sync_binlog = 1"},
      {"--innodb-doublewrite=OFF", "", "set innodb_doublewrite = ON"}};
  for (std::int64_t value = 1; const auto& [option, _, advice] : all) {
    EXPECT_EQ(take(*store), (Range{value++, 1, 1}));
    server.kill();
    server.restart({option});
    const auto refused = take(*store);
    EXPECT_EQ(code_of(refused), Code::kFailedPrecondition) << option;
    EXPECT_THAT(fakes::why(refused), HasSubstr(advice)) << option;
    server.kill();
    server.restart();
  }
  EXPECT_EQ(take(*store), (Range{std::ssize(all) + 1, 1, 1}));
}

TEST(MariadbSettings, TablesOfAnotherEngineAreRefused) {
  const std::string url = servers::mariadb_server().database("engines");
  with_counter(url);
  servers::mariadb_server().run("ALTER TABLE idmint_store ENGINE = MyISAM", "engines");
  const auto refused = Store::open(url);
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("ALTER TABLE idmint_store ENGINE = InnoDB"));
}

TEST(MariadbSettings, AnotherProgramsTablesAreLeftAlone) {
  const std::string url = servers::mariadb_server().database("theirs");
  servers::mariadb_server().run("CREATE TABLE idmint_counters (n int)", "theirs");
  const auto refused = Store::open(url);
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("of another program"));
}

// ---- who may

TEST(MariadbSettings, UrlsThatCannotBeMeantAreRefused) {
  for (const char* const url :
       {"mysql:h/ids", "mysql:a://h/ids", "mysql://", "mysql://h", "mysql://h/", "mysql://h:0/ids",
        "mysql://h:x/ids", "mysql://h:65536/ids", "mysql://[::1/ids", "mysql://[::1]x/ids",
        "mysql://u:ge@heim@h/ids", "mysql://u:ge/heim@h/ids", "mysql://u:geheim@h/ids?ssl=1"}) {
    const auto refused = Store::open(url);
    EXPECT_EQ(code_of(refused), Code::kInvalidArgument) << url;
    EXPECT_THAT(fakes::why(refused), Not(HasSubstr("heim"))) << url;
  }
}

TEST(MariadbUsers, AWrongPasswordIsRefusedAndNoneIsShown) {
  const MariadbServer& server = servers::mariadb_server();
  with_counter(server.database("users"));
  server.run(
      "CREATE OR REPLACE USER minter@'127.0.0.1' IDENTIFIED BY 'ge@heim';"
      "GRANT SELECT, INSERT, UPDATE ON users.* TO minter@'127.0.0.1'");
  const auto wrong = Store::open(server.url("users", "minter:geheimer"));
  EXPECT_EQ(code_of(wrong), Code::kUnauthenticated);
  EXPECT_THAT(fakes::why(wrong), AllOf(HasSubstr("minter:***@"), Not(HasSubstr("geheim"))));
  const auto right = Store::open(server.url("users", "minter:ge%40heim"));
  ASSERT_TRUE(right) << fakes::why(right);
  EXPECT_TRUE(take(**right));
  const auto unclear = Store::open(server.url("users", "minter:ge@heim"));
  EXPECT_EQ(code_of(unclear), Code::kInvalidArgument);
  EXPECT_THAT(fakes::why(unclear), Not(HasSubstr("heim")));
}

// The rights as docs/stores.md grants them.
constexpr std::array kRightsToMint = {"SELECT ON idmint_store",    "SELECT ON idmint_definitions",
                                      "SELECT ON idmint_counters", "INSERT ON idmint_counters",
                                      "UPDATE ON idmint_counters", "SELECT ON idmint_spaces",
                                      "SELECT ON idmint_claims",   "INSERT ON idmint_claims",
                                      "SELECT ON idmint_workers",  "UPDATE ON idmint_workers"};
constexpr std::array kRightsToMake = {
    "INSERT ON idmint_definitions", "UPDATE ON idmint_definitions", "UPDATE ON idmint_spaces",
    "INSERT ON idmint_spaces",      "INSERT ON idmint_workers",     "UPDATE ON idmint_store"};

// The database "rights" is used by a user who has only the rights that the test grants.
class MariadbRights : public testing::Test {
 protected:
  MariadbRights() {
    conformance::make_store_to_mint_from(server_.database("rights"));
    server_.run("CREATE OR REPLACE USER lesser@'127.0.0.1'");
  }

  static void expect_named(const Result<void>& refused, std::string_view right) {
    const std::size_t on = right.find(" ON ");
    EXPECT_EQ(code_of(refused), Code::kPermissionDenied) << right;
    EXPECT_THAT(fakes::why(refused), AllOf(HasSubstr(std::string(right.substr(0, on))),
                                           HasSubstr(std::string(right.substr(on + 4)))))
        << right;
  }

  void change(const std::string& verb, std::string right, const std::string& whose) {
    right.insert(right.find(" ON ") + 4, "rights.");
    server_.run(verb + right + whose + "lesser@'127.0.0.1'");
  }

  const MariadbServer& server_ = servers::mariadb_server();
};

TEST_F(MariadbRights, EachThatIsMissingIsNamed) {
  conformance::expect_each_missing_right_to_be_named(
      {.url = server_.url("rights", "lesser"),
       .owners = server_.url("rights"),
       .to_mint = kRightsToMint,
       .to_make = kRightsToMake,
       .grant = [&](const char* right) { change("GRANT ", right, " TO "); },
       .revoke = [&](const char* right) { change("REVOKE ", right, " FROM "); },
       .doubt = [&] { server_.run("UPDATE idmint_store SET server = 77", "rights"); },
       .expect_named = expect_named});
}

// A thousand counters are one statement and one transaction, and for the last one there is no room.
TEST(MariadbCounters, WhatFailsAfterTheFirstPartIsNotSaidToBeUndone) {
  const MariadbServer& server = servers::mariadb_server();
  const auto store = with_counter(server.database("parts"));
  server.run(
      "CREATE TRIGGER full BEFORE INSERT ON idmint_counters FOR EACH ROW IF NEW.name = 'd' THEN"
      " SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'full'; END IF",
      "parts");
  std::vector<NewCounter> counters;
  for (int i = 0; i < 1000; ++i) counters.push_back({"c" + std::to_string(i), {1, 9}});
  counters.push_back({"d", {1, 9}});
  const auto made = store->counters()->create(counters);
  EXPECT_EQ(code_of(made), Code::kUnknown);
  EXPECT_THAT(fakes::why(made), AllOf(HasSubstr("a part of it may have been done"),
                                      Not(HasSubstr("nothing was changed"))));
  EXPECT_EQ(store->counters()->peek("c999")->next, 1);
  const auto alone = store->counters()->create("d", {1, 9});
  EXPECT_EQ(code_of(alone), Code::kResourceExhausted);
  EXPECT_THAT(fakes::why(alone), HasSubstr("nothing was changed"));
}

// ---- fail-over and connections

// A plain client of the replica is given again what the primary had handed out.
TEST(MariadbFailOver, ALaggingReplicaThatIsPromotedGivesNothingUntilItIsRaised) {
  const std::vector<std::string> durable = {"--log-bin", "--sync-binlog=1", "--log-slave-updates"};
  auto of_server = [&](const std::string& id) {
    std::vector<std::string> options = durable;
    options.push_back("--server-id=" + id);
    return options;
  };
  MariadbServer primary(of_server("1"));
  const MariadbServer replica(of_server("2"));
  replica.follow(primary);
  const std::string url = primary.database("ids");
  primary.run("CREATE TABLE plain (n bigint) ENGINE = InnoDB; INSERT INTO plain VALUES (1)", "ids");
  const auto store = with_counter(url);
  ASSERT_EQ(take(*store), (Range{1, 1, 1}));
  replica.catch_up(primary);
  const auto early = Store::open(replica.url("ids"));
  EXPECT_EQ(code_of(early), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(early), HasSubstr("is a replica"));
  replica.run("STOP SLAVE");
  ASSERT_EQ(take(*store), (Range{2, 1, 1}));
  const std::string plain = "UPDATE plain SET n = LAST_INSERT_ID(n) + 1; SELECT LAST_INSERT_ID()";
  const std::string given = primary.run(plain, "ids");
  primary.kill();
  replica.cut_off();
  EXPECT_EQ(replica.run(plain, "ids"), given) << "the plain client repeats";
  const auto promoted = Store::open(replica.url("ids"), {.deadline = kPatient});
  ASSERT_TRUE(promoted) << fakes::why(promoted);
  EXPECT_TRUE((*promoted)->doubt());
  const auto refused = take(**promoted);
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("a replica was promoted"));
  ASSERT_EQ((*promoted)->counters()->raise("c", 3), 3);
  ASSERT_TRUE((*promoted)->settle());
  EXPECT_FALSE((*promoted)->doubt());
  EXPECT_EQ(take(**promoted), (Range{3, 1, 1}));
}

TEST(MariadbConnections, AFrozenServerEndsACallInTime) {
  const MariadbServer server;
  const auto store = with_counter(server.database("ids"), milliseconds{500});
  ASSERT_TRUE(eventually([&] { return take(*store).has_value(); })) << "its statement is prepared";
  server.signal(SIGSTOP);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(code_of(take(*store)), Code::kDeadlineExceeded);
  EXPECT_EQ(code_of(take(*store)), Code::kUnavailable) << "there was no connection to send it by";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes{1});
  server.signal(SIGCONT);
}

TEST(MariadbConnections, WhereThereAreFewCallersTakeTurns) {
  const MariadbServer& server = servers::mariadb_server();
  with_counter(server.database("turns"));
  server.run(
      "CREATE OR REPLACE USER few@'127.0.0.1' WITH MAX_USER_CONNECTIONS 2;"
      "GRANT SELECT, INSERT, UPDATE ON turns.* TO few@'127.0.0.1'");
  const auto store = fakes::opened(server.url("turns", "few"));
  fakes::take_at_once(*store);
  // Two that are held leave none.
  const Error refusal = fakes::refusal_that_says("no connection is left",
                                                 server.url("turns", "few"), milliseconds{300});
  EXPECT_EQ(refusal.code, Code::kResourceExhausted);
}

// A caller that has a connection goes on with it.
TEST(MariadbConnections, WithoutOneLeftTheSettingIsNamedAndAllGoesOnWithOne) {
  const MariadbServer server({"--max-connections=10"});
  with_counter(server.database("ids"));
  server.run(
      "CREATE USER minter@'127.0.0.1'; GRANT SELECT, INSERT, UPDATE ON ids.* TO "
      "minter@'127.0.0.1'");
  fakes::expect_all_go_on_without_a_connection_left(server.url("ids", "minter"),
                                                    "no connection is left (max_connections",
                                                    [&] { return server.connected(""); });
}

// libmariadb would connect anew, by a session that is not set up, and send a statement again.
TEST(MariadbConnections, OneThatTheServerEndedStaysEndedWhateverAnOptionFileSays) {
  const MariadbServer& server = servers::mariadb_server();
  server.database("reconnect");
  const fakes::TempFolder home;
  std::ofstream(home.path(".my.cnf")) << "[client]\nreconnect=1\n";
  const char* const before = std::getenv("HOME");
  const std::string kept = before != nullptr ? before : "";
  ASSERT_EQ(::setenv("HOME", home.folder().c_str(), 1), 0);
  const auto until = std::chrono::steady_clock::now() + kPatient;
  ASSERT_TRUE(stores::mariadb::load_libmariadb());
  const auto address = stores::mariadb::parse_address(server.url("reconnect"));
  ASSERT_TRUE(address) << fakes::why(address);
  const auto connection =
      stores::mariadb::Connection::open(*address, address->servers.front(), until);
  ::setenv("HOME", kept.c_str(), 1);
  ASSERT_TRUE(connection) << connection.error().error.message();
  ASSERT_TRUE((*connection)->execute("SET @a = 1", until));
  const std::string others =
      "FROM information_schema.processlist WHERE db = 'reconnect' AND id <> CONNECTION_ID()";
  server.run("KILL " + server.run("SELECT id " + others));
  ASSERT_TRUE(eventually([&] { return server.run("SELECT COUNT(*) " + others) == "0"; }));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE((*connection)->execute("SET @a = 1", until));
  EXPECT_FALSE((*connection)->is_usable());
}

TEST(MariadbConnections, OneThatTheServerEndedIsReplaced) {
  const MariadbServer& server = servers::mariadb_server();
  const auto store = with_counter(server.database("ended"));
  const std::string others =
      "FROM information_schema.processlist WHERE db = 'ended' AND id <> CONNECTION_ID()";
  for (std::int64_t value = 1; value < 5; ++value) {
    EXPECT_EQ(take(*store), (Range{value, 1, 1}));
    server.run("KILL " + server.run("SELECT id " + others));
    ASSERT_TRUE(eventually([&] { return server.run("SELECT COUNT(*) " + others) == "0"; }));
  }
}

TEST(MariadbConnections, AServerThatSaysNothingIsPassedOver) {
  const MariadbServer& server = servers::mariadb_server();
  server.database("passed");
  fakes::expect_silence_is_passed_over(
      [](const std::string& hosts) { return "mysql://root@" + hosts + "/passed"; },
      "127.0.0.1:" + std::to_string(server.port()));
}

void expect_each_value_once(const MariadbServer& server) {
  const auto store = with_counter(server.database("threads"));
  std::mutex mutex;
  std::set<std::int64_t> values;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const auto taken = take(*store);
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(taken && values.insert(taken->first).second) << fakes::why(taken);
      }
    });
  threads.clear();
  EXPECT_EQ(values.size(), 400U);
  EXPECT_EQ(store->counters()->peek("c")->next, 401);
}

TEST(MariadbConnections, ManyThreadsAreGivenEachValueOnce) {
  expect_each_value_once(servers::mariadb_server());
}

// Which later versions have from the start: whoever finds a row changed is told so (error 1020).
TEST(MariadbConnections, WithSnapshotIsolationManyThreadsAreGivenEachValueOnce) {
  const MariadbServer server({"--innodb-snapshot-isolation=ON"});
  expect_each_value_once(server);
}

TEST(MariadbConnections, AStoreThatTookThePlaceUnderAConnectionIsLeftAlone) {
  const MariadbServer& server = servers::mariadb_server();
  conformance::expect_a_replaced_store_is_left_alone(
      server.database("replaced"),
      [&] { server.run("DROP DATABASE replaced; CREATE DATABASE replaced"); },
      [&] {
        std::string rows;
        for (const std::string of :
             {"HEX(id), server, place, gone_back, settled) FROM idmint_store",
              "name, first, last, next, closed) FROM idmint_counters",
              "name, json) FROM idmint_definitions", "name, closed) FROM idmint_spaces",
              "space, number) FROM idmint_claims",
              "worker, HEX(token), generation, minted_until) FROM idmint_workers"})
          rows += server.run("SELECT GROUP_CONCAT(" + of, "replaced") + "\n";
        return rows;
      });
}

// ---- copies on one server

// The tables of one database in another, as a dump has them there.
void copy_store(const MariadbServer& server, const std::string& from, const std::string& to) {
  server.database(to);
  for (const std::string table :
       {"store", "counters", "definitions", "spaces", "claims", "workers"})
    server.run("CREATE TABLE `" + to + "`.idmint_" + table + " LIKE `" + from + "`.idmint_" +
               table + "; INSERT INTO `" + to + "`.idmint_" + table + " SELECT * FROM `" + from +
               "`.idmint_" + table);
}

void rename_store(const MariadbServer& server, const std::string& from, const std::string& to) {
  server.database(to);
  std::string renames;
  for (const std::string table :
       {"store", "counters", "definitions", "spaces", "claims", "workers"})
    renames += (renames.empty() ? "RENAME TABLE `" : ", `") + from + "`.idmint_" + table + " TO `" +
               to + "`.idmint_" + table;
  server.run(renames);
}

TEST(MariadbCopies, InAnotherDatabaseItIsInDoubt) {
  const MariadbServer& server = servers::mariadb_server();
  const auto store = with_counter(server.database("Original"));
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  copy_store(server, "Original", "Copy");
  const auto copy = opened(server.url("Copy"));
  const auto refused = take(*copy);
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("it is in another database than before"));
  EXPECT_EQ(take(*store), (Range{2, 1, 1})) << "the original goes on";
  rename_store(server, "Original", "Moved");
  const auto moved = opened(server.url("Moved"));
  const auto renamed = take(*moved);
  EXPECT_EQ(code_of(renamed), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(renamed), HasSubstr("its tables were renamed into this one"));
  ASSERT_TRUE(moved->settle(Store::Settle::kOnlyMoved));
  EXPECT_EQ(take(*moved), (Range{3, 1, 1}));
}

// The tables are those of another database, which was settled there.
TEST(MariadbCopies, TablesThatAreRenamedUnderARunningProgramAreNoticed) {
  const MariadbServer& server = servers::mariadb_server();
  const auto store = with_counter(server.database("running"));
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  copy_store(server, "running", "apart");
  ASSERT_TRUE(opened(server.url("apart"))->settle());
  EXPECT_EQ(take(*store), (Range{2, 1, 1}));
  rename_store(server, "running", "away");
  rename_store(server, "apart", "running");
  EXPECT_EQ(code_of(take(*store)), Code::kFailedPrecondition);
}

TEST(MariadbCopies, WhatOperatorsDoToTablesIsNoCopy) {
  const MariadbServer& server = servers::mariadb_server();
  const std::string url = server.database("operated");
  const auto store = with_counter(url);
  std::int64_t value = 0;
  for (const std::string act :
       {"OPTIMIZE TABLE idmint_store, idmint_counters", "ANALYZE TABLE idmint_store",
        "ALTER TABLE idmint_store FORCE", "ALTER TABLE idmint_store ENGINE = InnoDB",
        "ALTER TABLE idmint_store ADD COLUMN note int; ALTER TABLE idmint_store DROP COLUMN note",
        "FLUSH TABLES"}) {
    server.run(act, "operated");
    ++value;
    EXPECT_EQ(take(*store), (Range{value, 1, 1})) << act;
    EXPECT_FALSE(opened(url)->doubt()) << act;
  }
}

TEST(MariadbUpgrade, AnOlderStoreGoesOnAndWhoMayAlterUpgradesIt) {
  const MariadbServer& server = servers::mariadb_server();
  const std::string url = server.database("older");
  const auto early = with_counter(url);
  server.run(
      "ALTER TABLE idmint_store DROP COLUMN place, DROP COLUMN gone_back, DROP COLUMN settled",
      "older");
  server.run(
      "CREATE OR REPLACE USER minter@'127.0.0.1';"
      "GRANT SELECT, INSERT, UPDATE ON older.* TO minter@'127.0.0.1'");
  const auto columns = [&] {
    return server.run(
        "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'older'"
        " AND COLUMN_NAME IN ('place', 'gone_back', 'settled')");
  };
  const auto minter = Store::open(server.url("older", "minter"), {.deadline = kPatient});
  ASSERT_TRUE(minter) << fakes::why(minter);
  EXPECT_EQ(take(**minter), (Range{1, 1, 1}));
  server.run("UPDATE idmint_store SET server = 77", "older");
  EXPECT_FALSE(take(**minter));
  ASSERT_TRUE((*minter)->settle());
  EXPECT_EQ(take(**minter), (Range{2, 1, 1}));
  EXPECT_EQ((*minter)->settle_count(), 0);
  EXPECT_EQ(columns(), "0") << "who may not alter it need not";
  {
    const auto dump = server.connected("older");
    dump("START TRANSACTION WITH CONSISTENT SNAPSHOT");
    dump("SELECT * FROM idmint_store");
    EXPECT_EQ(take(*opened(url)), (Range{3, 1, 1}));
    EXPECT_EQ(columns(), "0") << "nobody waits for a dump";
  }
  const auto owner = opened(url);
  EXPECT_EQ(columns(), "3");
  server.run("UPDATE idmint_store SET place = 'else'", "older");
  EXPECT_EQ(code_of(take(*opened(url))), Code::kFailedPrecondition) << "it is compared now";
  EXPECT_EQ(code_of(take(**minter)), Code::kFailedPrecondition) << "by connections that were open";
  server.run("UPDATE idmint_store SET place = ''", "older");
  EXPECT_EQ(take(*owner), (Range{4, 1, 1}));
  EXPECT_EQ(take(**minter), (Range{5, 1, 1}));
}

TEST(MariadbTrust, EachSettleCountsAndAnOlderStateShowsALowerCount) {
  const MariadbServer& server = servers::mariadb_server();
  const std::string url = server.database("counted");
  const auto store = with_counter(url);
  const auto other = opened(url);
  ASSERT_TRUE(store->settle());
  EXPECT_EQ(store->settle_count(), 0) << "there was no doubt";
  copy_store(server, "counted", "counted_before");
  server.run("UPDATE idmint_store SET server = 77", "counted");
  ASSERT_TRUE(store->settle(Store::Settle::kOnlyMoved));
  const std::int64_t once = store->settle_count();
  EXPECT_GT(once, 0);
  EXPECT_TRUE(take(*other));
  EXPECT_FALSE(other->doubt());
  EXPECT_EQ(other->settle_count(), once);
  EXPECT_EQ(opened(server.url("counted_before"))->settle_count(), 0);
  server.run("UPDATE idmint_store SET server = 77", "counted");
  ASSERT_TRUE(store->settle());
  EXPECT_GT(store->settle_count(), once);
}

// One process saw that values are missing.
TEST(MariadbTrust, AMarkOfValuesThatAreMissingStopsAllUntilTheyArePassed) {
  const MariadbServer& server = servers::mariadb_server();
  const std::string url = server.database("marked");
  const auto store = with_counter(url);
  const auto other = opened(url);
  const std::string why = "it gave 5, and had given 9 'here'";
  const auto mark = [&](Store& by, std::int64_t settled) {
    return by.mark_gone_back(why, settled, SteadyTime::max());
  };
  ASSERT_TRUE(mark(*store, store->settle_count() + 1));
  EXPECT_TRUE(take(*other)) << "it is of another count";
  server.run(
      "CREATE OR REPLACE USER minter@'127.0.0.1';"
      "GRANT SELECT ON marked.* TO minter@'127.0.0.1';"
      "GRANT INSERT, UPDATE ON marked.idmint_counters TO minter@'127.0.0.1'");
  const auto minter =
      Store::open(server.url("marked", "minter"), {.deadline = fakes::kPatient}).value();
  EXPECT_EQ(code_of(mark(*minter, 0)), Code::kPermissionDenied);
  server.run("GRANT UPDATE (gone_back) ON marked.idmint_store TO minter@'127.0.0.1'");
  ASSERT_TRUE(mark(*minter, 0));
  for (Store* const each : {store.get(), other.get(), minter.get()}) {
    const auto refused = take(*each);
    EXPECT_EQ(code_of(refused), Code::kDataLoss);
    EXPECT_THAT(fakes::why(refused), HasSubstr(why));
  }
  EXPECT_EQ(code_of(store->settle(Store::Settle::kOnlyMoved)), Code::kDataLoss);
  EXPECT_EQ(code_of(minter->settle()), Code::kPermissionDenied);
  ASSERT_EQ(store->counters()->raise("c", 50), 50);
  ASSERT_TRUE(store->settle());
  EXPECT_EQ(store->read_settle_count(SteadyTime::max()), store->settle_count());
  EXPECT_GT(store->settle_count(), 0);
  EXPECT_EQ(take(*other), (Range{50, 1, 1}));
  ASSERT_TRUE(mark(*minter, 0));
  EXPECT_EQ(take(*minter), (Range{51, 1, 1})) << "it was settled since";
}

// The tables are its own, with older rows.
TEST(MariadbTrust, AProcessThatFindsTheStoreBehindItsOwnValuesStopsAll) {
  const MariadbServer& server = servers::mariadb_server();
  const std::string url = server.database("behind");
  const auto store = opened(url);
  const auto other = opened(url);
  ASSERT_TRUE(create_sequence(*store, {.name = "orders"}));
  const auto sequence = Sequence::open(*store, "orders");
  ASSERT_TRUE(sequence) << fakes::why(sequence);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE((*sequence)->next());
  server.run("UPDATE idmint_counters SET next = first + 1", "behind");
  EXPECT_EQ(code_of((*sequence)->next()), Code::kDataLoss);
  const auto refused = other->counters()->advance("orders", 1, Take::kAll);
  EXPECT_EQ(code_of(refused), Code::kDataLoss);
  EXPECT_THAT(fakes::why(refused), HasSubstr("sequence orders"));
  ASSERT_TRUE(raise_all(*other, 100));
  EXPECT_EQ(other->counters()->advance("orders", 1, Take::kAll)->first, 101);
}

}  // namespace
}  // namespace idmint
