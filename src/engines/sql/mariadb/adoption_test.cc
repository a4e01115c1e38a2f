// Rows and ticket tables of MariaDB that other programs take from at the same time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "idmint/mongodb.h"
#include "idmint/sequence.h"
#include "idmint/store.h"
#include "store/counter_store.h"
#include "tests/conformance/adopted_record.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/opened_store.h"
#include "tests/servers/mariadb.h"
#include "tests/servers/plain_clients.h"

namespace idmint {
namespace {

using conformance::AdoptedPlace;
using conformance::AdoptedRecords;
using conformance::AdoptedWay;
using fakes::code_of;
using servers::expect_no_repeat;
using servers::MariadbServer;
using servers::PlainClients;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// One connection of a program that takes a value. It repeats a statement that the server rolled
// back because of a deadlock, as such programs do.
PlainClients::Next program(const MariadbServer& server, const std::string& database,
                           const std::string& recipe) {
  return [ask = server.connected(database), recipe]() -> std::int64_t {
    for (;;) {
      const std::string value = ask(recipe + "; SELECT LAST_INSERT_ID()");
      if (value.starts_with("ERROR: Deadlock")) continue;
      if (!value.empty() && !value.starts_with("ERROR")) return std::stoll(value);
      ADD_FAILURE() << value;
      return -1;
    }
  };
}

// A way in which programs count, and how idmint adopts it.
struct Way {
  const char* name;
  const char* tables;  // ? is the latest value
  const char* recipe;
  const char* adopted;
  std::vector<const char*> set_backs;  // so that 3 is next
};

const std::vector<Way>& ways() {
  static const std::vector<Way> all = {
      {"RowOfTheNext",
       "CREATE TABLE counters (name varchar(20) PRIMARY KEY, n bigint NOT NULL);"
       "INSERT INTO counters VALUES ('orders', ? + 1)",
       "UPDATE counters SET n = LAST_INSERT_ID(n) + 1 WHERE name = 'orders'",
       "row:counters/name=orders:next=n",
       {"UPDATE counters SET n = 3 WHERE name = 'orders'",
        "DELETE FROM counters; INSERT INTO counters VALUES ('orders', 3)"}},
      {"RowOfTheLast",
       "CREATE TABLE counters (id int PRIMARY KEY, `Last` int unsigned);"
       "INSERT INTO counters VALUES (7, ?), (8, 3)",
       "UPDATE counters SET `Last` = LAST_INSERT_ID(`Last` + 1) WHERE id = 7",
       "row:counters/id=7:last=Last",
       {"UPDATE counters SET `Last` = 2 WHERE id = 7"}},
      {"OnlyRow",
       "CREATE TABLE counter (n bigint unsigned); INSERT INTO counter VALUES (?)",
       "UPDATE counter SET n = LAST_INSERT_ID(n + 1)",
       "row:counter:last=n",
       {"TRUNCATE counter; INSERT INTO counter VALUES (2)"}},
      {"Tickets",
       "CREATE TABLE Tickets64 (id bigint unsigned NOT NULL auto_increment,"
       " stub char(1) NOT NULL default '', PRIMARY KEY (id), UNIQUE KEY stub (stub));"
       "INSERT INTO Tickets64 VALUES (?, 'a')",
       "REPLACE INTO Tickets64 (stub) VALUES ('a')",
       "tickets:Tickets64/stub=a:last=id",
       {"TRUNCATE Tickets64; INSERT INTO Tickets64 VALUES (2, 'a')",
        "DELETE FROM Tickets64; ALTER TABLE Tickets64 AUTO_INCREMENT = 3",
        "DROP TABLE Tickets64; CREATE TABLE Tickets64 (id bigint unsigned NOT NULL auto_increment,"
        " stub char(1) NOT NULL default '', PRIMARY KEY (id), UNIQUE KEY stub (stub))"
        " AUTO_INCREMENT = 3"}},
  };
  return all;
}

void make(const Way& way, const std::string& database, std::int64_t last) {
  std::string tables = way.tables;
  tables.replace(tables.find('?'), 1, std::to_string(last));
  servers::mariadb_server().run(tables, database);
}

std::vector<AdoptedWay> every_way() {
  std::vector<AdoptedWay> all;
  for (const Way& way : ways())
    all.push_back(
        {way.name, [&way](std::int64_t last) {
           MariadbServer& server = servers::mariadb_server();
           const std::string database = conformance::name_of_test();
           const std::string url = server.database(database);
           make(way, database, last);
           std::vector<std::function<void()>> acts;
           for (const char* const act : way.set_backs)
             acts.emplace_back([&server, database, act] { server.run(act, database); });
           return AdoptedPlace{
               .url = url,
               .record = way.adopted,
               .connect = [&, database] { return program(server, database, way.recipe); },
               .doubt = [&server,
                         database] { server.run("UPDATE idmint_store SET server = 77", database); },
               .own_next =
                   [&server, database] {
                     return server.run("SELECT next FROM idmint_counters", database);
                   },
               .set_backs = acts};
         }});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Mariadb, AdoptedRecords, testing::ValuesIn(every_way()),
                         conformance::name_of_way);

class MariadbAdoption : public testing::Test {
 protected:
  std::string run(const std::string& sql) const { return server_.run(sql, name_); }

  auto adopt(const std::string& record, CounterBounds bounds = {1, 1'000'000'000},
             const std::string& counter = "c") {
    const NewCounter one{counter, bounds, record};
    return counters().create(std::span(&one, 1));
  }
  Result<Range> take(std::int64_t count = 1, Take take = Take::kAll) {
    return counters().advance("c", count, take);
  }
  CounterStore& counters() { return *store_->counters(); }

  MariadbServer& server_ = servers::mariadb_server();
  const std::string name_ = conformance::name_of_test();
  const std::string url_ = server_.database(name_);
  const std::unique_ptr<Store> store_ = fakes::opened(url_);
};

// ---- each way, and what only MariaDB can show

class MariadbWay : public MariadbAdoption, public testing::WithParamInterface<Way> {};

// A take that waits for another program's transaction keeps close() waiting with it, or is refused.
TEST_P(MariadbWay, NothingIsTakenAfterItIsClosed) {
  make(GetParam(), name_, 1);
  ASSERT_TRUE(adopt(GetParam().adopted));
  ASSERT_TRUE(take());
  const auto holder = server_.connected(name_);
  ASSERT_EQ(holder("BEGIN"), "");
  ASSERT_EQ(holder(GetParam().recipe), "");
  const auto waiting = [&] {
    return run(
        "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS"
        " WHERE VARIABLE_NAME = 'INNODB_ROW_LOCK_CURRENT_WAITS'");
  };
  auto taken = std::async(std::launch::async, [&] { return take(); });
  while (waiting() != "1") std::this_thread::yield();
  auto closed = std::async(std::launch::async, [&] { return counters().close("c"); });
  const auto is_closed = [&] {
    return closed.wait_for(std::chrono::seconds{0}) == std::future_status::ready;
  };
  while (waiting() != "2" && !is_closed()) std::this_thread::yield();
  const bool early = is_closed();
  ASSERT_EQ(holder("COMMIT"), "");
  const auto range = taken.get();
  EXPECT_TRUE(closed.get());
  EXPECT_EQ(range.has_value(), !early);
}

// The store that took the place adopted the same record.
TEST_P(MariadbWay, AStoreThatTookThePlaceIsNotUsed) {
  make(GetParam(), name_, 1);
  ASSERT_TRUE(adopt(GetParam().adopted));
  for (std::int64_t value = 2; value < 5; ++value) EXPECT_EQ(take(), (Range{value, 1, 1}));
  const auto theirs = program(server_, name_, GetParam().recipe);
  run("UPDATE idmint_store SET id = REPEAT('x', 16)");
  const auto refused = take();
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("another store is there now"));
  EXPECT_EQ(code_of(counters().raise("c", 100)), Code::kFailedPrecondition);
  EXPECT_EQ(run("SELECT next FROM idmint_counters"), "5");
  EXPECT_EQ(theirs(), 5) << "nothing was taken";
}

INSTANTIATE_TEST_SUITE_P(Each, MariadbWay, testing::ValuesIn(ways()),
                         [](const auto& each) { return std::string(each.param.name); });

// ---- what is refused

TEST_F(MariadbAdoption, WhatCannotBeCountedInIsRefusedAndLeftAsItIs) {
  run("CREATE TABLE t (k varchar(9), small tinyint, i int unsigned, b bigint, n decimal(9,1),"
      " s text);"
      "INSERT INTO t VALUES ('one', 1, 1, NULL, 1, '1'), ('two', 1, 1, 1, 1, '1'),"
      " ('two', 1, 1, 1, 1, '1'), ('past', 1, 1, -5, 1, '1');"
      "CREATE TABLE brief (n bigint) ENGINE = MyISAM; INSERT INTO brief VALUES (1);"
      "CREATE TABLE many (id bigint AUTO_INCREMENT PRIMARY KEY, stub char(1), other char(1));"
      "CREATE TABLE mine (id int unsigned AUTO_INCREMENT PRIMARY KEY, stub char(1) UNIQUE)"
      " ENGINE = MyISAM;"
      "CREATE TABLE short (id tinyint AUTO_INCREMENT PRIMARY KEY, stub char(1) UNIQUE, n int)");
  struct Refusal {
    std::string record;
    std::string why;
  };
  for (const auto& [record, why] :
       std::vector<Refusal>{{"row:t/k=one:next=b", "b is NULL"},
                            {"row:t/k=one:next=n", "n is of type decimal(9,1): make it a bigint"},
                            {"row:t/k=one:next=s", "s is of type text: make it a bigint"},
                            {"row:t/k=one:next=small", "it counts up to 126, and the last value"},
                            {"row:t/k=one:last=small", "it counts up to 127, and the last value"},
                            {"row:t/k=two:next=i", "more than one such row"},
                            {"row:t:next=i", "more than one such row"},
                            {"row:t/k=three:next=i", "the row k = \"three\" of t: it is not there"},
                            {"row:t/k=past:next=b", "the next value is -5, below the first one"},
                            {"row:t/k=one:next=missing", "missing"},
                            {"row:missing/k=one:next=n", "missing"},
                            {"row:brief:next=n", "ALTER TABLE brief ENGINE = InnoDB"},
                            {"tickets:mine/stub=a:last=id", "ALTER TABLE mine ENGINE = InnoDB"},
                            {"tickets:many/stub=a:last=id", "stub has no unique index of its own"},
                            {"tickets:short/stub=a:last=id", "it counts up to 127"},
                            {"tickets:short/stub=a:last=n", "n is no AUTO_INCREMENT column"},
                            {"tickets:missing/stub=a:last=id", "missing"},
                            {"tickets:short/stub=a:last=none", "it is not there"}}) {
    const auto refused = adopt(record);
    EXPECT_EQ(code_of(refused), Code::kFailedPrecondition) << record;
    EXPECT_THAT(fakes::why(refused), HasSubstr(why)) << record;
    EXPECT_EQ(code_of(counters().peek("c")), Code::kNotFound) << record;
  }
  for (const auto& [record, why] :
       std::vector<Refusal>{{"row:t/k=one", "row:TABLE/KEY=VALUE:next=COLUMN"},
                            {"tickets:t/k=one:next=b", "tickets:TABLE/KEY=VALUE:last=COLUMN"},
                            {"tickets:t:last=b", "tickets:TABLE/KEY=VALUE:last=COLUMN"},
                            {"row:other.t/k=one:next=b", "its name must be"},
                            {"row:t`/k=one:next=b", "its name must be"},
                            {"row:idmint_counters/name=c:next=next", "idmint's own"},
                            {"table:t", "cannot adopt \"table:t\": write row:TABLE"},
                            {"auto_increment:many", "raise it past the table's AUTO_INCREMENT"}}) {
    const auto refused = adopt(record);
    EXPECT_EQ(code_of(refused), Code::kInvalidArgument) << record;
    EXPECT_THAT(fakes::why(refused), HasSubstr(why)) << record;
  }
  EXPECT_TRUE(adopt("row:t/k=one:next=small", {1, 126}));
  const auto beyond = counters().extend("c", 127);
  EXPECT_EQ(code_of(beyond), Code::kInvalidArgument);
  EXPECT_THAT(fakes::why(beyond), HasSubstr("it counts up to 126"));
  ASSERT_EQ(counters().raise("c", 126), 126);
  EXPECT_EQ(take(), (Range{126, 1, 1})) << "its last value";
  EXPECT_EQ(code_of(take()), Code::kOutOfRange);
}

TEST_F(MariadbAdoption, ARowThatIsDeletedIsNotMadeAgain) {
  run("CREATE TABLE counters (name varchar(9), n bigint); INSERT INTO counters VALUES ('a', 1)");
  ASSERT_TRUE(adopt("row:counters/name=a:next=n"));
  ASSERT_TRUE(take());
  run("DELETE FROM counters");
  EXPECT_EQ(code_of(take()), Code::kDataLoss);
  EXPECT_EQ(code_of(counters().raise("c", 50)), Code::kDataLoss);
  EXPECT_EQ(run("SELECT COUNT(*) FROM counters"), "0");
  run("INSERT INTO counters VALUES ('a', 7), ('a', 9)");
  EXPECT_EQ(code_of(take()), Code::kDataLoss) << "which of the two?";
  run("DROP TABLE counters");
  EXPECT_EQ(code_of(fakes::opened(url_)->counters()->advance("c", 1, Take::kAll)), Code::kDataLoss);
  EXPECT_TRUE(counters().close("c"));
}

// One row may be named in several ways: as the column compares, without regard to case.
TEST_F(MariadbAdoption, ARowIsReadInOneWayAndAnotherRowInTheOther) {
  run("CREATE TABLE t (k varchar(9), i int, n bigint);"
      "INSERT INTO t VALUES ('a', 1, 1), ('b', 2, 1)");
  ASSERT_TRUE(adopt("row:t/k=a:next=n"));
  for (const char* const same : {"row:t/k=a:last=n", "row:t/k=A:last=n", "row:t/k=a :last=n",
                                 "row:t/i=1:last=n", "row:t:last=n"})
    EXPECT_EQ(code_of(adopt(same, {1, 99}, "d")), Code::kFailedPrecondition) << same;
  EXPECT_TRUE(adopt("row:t/k=b:last=n", {1, 99}, "d"));
  EXPECT_EQ(take(), (Range{1, 1, 1}));
  EXPECT_EQ(counters().advance("d", 1, Take::kAll), (Range{2, 1, 1}));
}

// A program writes an unsigned number that idmint has none for.
// A record is set back while another process takes from it, and has not committed.
TEST_F(MariadbAdoption, TheFloorIsLockedBeforeTheRecordIsRead) {
  run("CREATE TABLE t (n bigint); INSERT INTO t VALUES (1);"
      "CREATE TABLE Tickets64 (id bigint AUTO_INCREMENT PRIMARY KEY, stub char(1) UNIQUE)");
  ASSERT_TRUE(adopt("row:t:next=n"));
  ASSERT_TRUE(adopt("tickets:Tickets64/stub=a:last=id", {1, 1'000'000}, "d"));
  for (const std::string counter : {"c", "d"}) {
    ASSERT_TRUE(counters().advance(counter, 1, Take::kAll));
    const auto other = server_.connected(name_);
    other("BEGIN");
    other("UPDATE idmint_counters SET next = 50 WHERE name = '" + counter + "'");
    auto waiting =
        std::async(std::launch::async, [&] { return counters().advance(counter, 1, Take::kAll); });
    EXPECT_TRUE(fakes::eventually([&] {
      return run("SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS"
                 " WHERE VARIABLE_NAME = 'INNODB_ROW_LOCK_CURRENT_WAITS'") == "1";
    }));
    other("COMMIT");
    const Result<Range> refused = waiting.get();
    EXPECT_EQ(code_of(refused), Code::kDataLoss) << counter;
    EXPECT_THAT(fakes::why(refused), HasSubstr("its next value is 2, and was 50"));
  }
}

// The previous version kept the first value of an adopted counter there.
TEST_F(MariadbAdoption, AFloorThatWasNeverKeptBeginsAtTheFirstTake) {
  run("CREATE TABLE t (n bigint); INSERT INTO t VALUES (8)");
  ASSERT_TRUE(adopt("row:t:next=n"));
  run("UPDATE idmint_counters SET next = first");
  EXPECT_EQ(take(), (Range{8, 1, 1}));
  run("UPDATE t SET n = 8");
  EXPECT_EQ(code_of(take()), Code::kDataLoss);
}

// A take that is ended from outside leaves nothing locked.
TEST_F(MariadbAdoption, ATakeThatWasKilledHoldsNothing) {
  run("CREATE TABLE t (n bigint); INSERT INTO t VALUES (1)");
  ASSERT_TRUE(adopt("row:t:next=n"));
  const auto holder = server_.connected(name_);
  holder("BEGIN");
  holder("UPDATE t SET n = 5");
  auto waiting = std::async(std::launch::async, [&] { return take(); });
  EXPECT_TRUE(fakes::eventually([&] {
    return run("SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS"
               " WHERE VARIABLE_NAME = 'INNODB_ROW_LOCK_CURRENT_WAITS'") == "1";
  }));
  const std::string id =
      run("SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX"
          " WHERE trx_state = 'LOCK WAIT'");
  run("KILL QUERY " + id);
  const Result<Range> killed = waiting.get();
  EXPECT_EQ(code_of(killed), Code::kUnavailable) << fakes::why(killed);
  EXPECT_EQ(run("SET SESSION innodb_lock_wait_timeout = 1; UPDATE idmint_counters SET granted = 1;"
                "SELECT 1"),
            "1")
      << "its row of the counter is free";
  holder("COMMIT");
  EXPECT_EQ(take(), (Range{5, 1, 1}));
}

TEST_F(MariadbAdoption, AnUnsignedNumberBeyondTheLastIsTheEnd) {
  run("CREATE TABLE counter (n bigint unsigned); INSERT INTO counter VALUES (5)");
  ASSERT_TRUE(adopt("row:counter:next=n", {1, 9}));
  ASSERT_TRUE(take());
  run("UPDATE counter SET n = 18446744073709551615");
  EXPECT_EQ(code_of(take()), Code::kOutOfRange);
}

// ---- a pair of ticket servers

// One of them, with a table of tickets and a store that connected before the server counted so.
class MariadbTicketsOfAPair : public testing::Test {
 protected:
  MariadbTicketsOfAPair() {
    store_ = Store::open(server_.database("ids"), {.deadline = std::chrono::seconds{20}}).value();
    run("CREATE TABLE Tickets64 (id bigint AUTO_INCREMENT PRIMARY KEY, stub char(1) UNIQUE)");
    count_by(2, 2);
  }

  void count_by(int step, int offset) const {
    run("SET GLOBAL auto_increment_increment = " + std::to_string(step) +
        ", GLOBAL auto_increment_offset = " + std::to_string(offset));
  }
  std::string run(const std::string& sql) const { return server_.run(sql, "ids"); }
  auto adopt(CounterBounds bounds) {
    const NewCounter one{"c", bounds, "tickets:Tickets64/stub=a:last=id"};
    return counters().create(std::span(&one, 1));
  }
  Result<Range> take(std::int64_t count = 1, Take take = Take::kAll) {
    return counters().advance("c", count, take);
  }
  CounterStore& counters() { return *store_->counters(); }

  MariadbServer server_;
  std::unique_ptr<Store> store_;
};

TEST_F(MariadbTicketsOfAPair, TheCounterCountsAsTheServerDoes) {
  const auto plain = program(server_, "ids", "REPLACE INTO Tickets64 (stub) VALUES ('a')");
  const auto adopted = adopt({2, 99, 2});
  ASSERT_TRUE(adopted) << fakes::why(adopted);
  EXPECT_EQ(counters().peek("c"), (CounterState{"c", {2, 99, 2}, 2, false}));
  const auto first = take();
  EXPECT_EQ(first, (Range{2, 2, 1})) << fakes::why(first);
  EXPECT_EQ(take(3), (Range{4, 2, 3}));
  EXPECT_EQ(plain(), 10);
  EXPECT_EQ(take(20), (Range{12, 2, 20}));
  EXPECT_EQ(counters().raise("c", 81), 82);
  EXPECT_EQ(plain(), 82);
  EXPECT_EQ(code_of(take(9)), Code::kOutOfRange);
  EXPECT_EQ(counters().peek("c")->left(), 8) << "nothing moved";
  EXPECT_EQ(take(20, Take::kTail), (Range{84, 2, 8}));
  EXPECT_EQ(code_of(take()), Code::kOutOfRange);
  EXPECT_EQ(counters().extend("c", 100), (CounterBounds{2, 100, 2}));
  EXPECT_EQ(take(), (Range{100, 2, 1})) << "its last value";
  EXPECT_EQ(code_of(take()), Code::kOutOfRange);
}

// The write of a raise reaches the other server too, which may have given the value to a program.
TEST_F(MariadbTicketsOfAPair, ARaiseTakesNoValueOfTheOther) {
  ASSERT_TRUE(adopt({2, 9'000'000, 2}));
  for (const std::int64_t floor : {3, 4, 51, 70'000, 1'000'000, 1'000'001}) {
    const std::int64_t next = floor + floor % 2;
    EXPECT_EQ(counters().raise("c", floor), next);
    EXPECT_EQ(run("SELECT COUNT(*) FROM Tickets64 WHERE id % 2 = 0"), "1") << floor;
  }
  EXPECT_EQ(take(), (Range{1'000'002, 2, 1}));
}

// Otherwise it would take the values of the other server.
TEST_F(MariadbTicketsOfAPair, NothingIsTakenWhileTheServerCountsOtherwise) {
  for (const CounterBounds& other : {CounterBounds{1, 99}, {1, 99, 2}, {4, 99, 3}}) {
    const auto refused = adopt(other);
    EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
    EXPECT_THAT(fakes::why(refused),
                AllOf(HasSubstr("the server counts in steps of 2 from 2 on "
                                "(auto_increment_increment, auto_increment_offset), and this "
                                "counter in steps of " +
                                std::to_string(other.stride) + " from 1 on"),
                      HasSubstr("give the sequence the stride and the offset of the server"),
                      Not(HasSubstr("SET GLOBAL"))));
  }
  ASSERT_TRUE(adopt({2, 99, 2}));
  ASSERT_EQ(take(), (Range{2, 2, 1}));
  for (const auto& [step, offset] : {std::pair{2, 1}, {1, 1}, {4, 2}}) {
    count_by(step, offset);
    const auto refused = take();
    EXPECT_EQ(code_of(refused), Code::kFailedPrecondition) << "until it counts so again";
    EXPECT_THAT(fakes::why(refused), HasSubstr("auto_increment_offset"));
  }
  count_by(2, 2);
  EXPECT_EQ(take(), (Range{4, 2, 1}));
}

// Below its first value are those of nobody.
TEST_F(MariadbTicketsOfAPair, ItMayBeginAboveWhereTheTableIs) {
  EXPECT_EQ(code_of(adopt({4, 99, 2})), Code::kFailedPrecondition);
  run("ALTER TABLE Tickets64 AUTO_INCREMENT = 3");
  EXPECT_TRUE(adopt({4, 99, 2}));
  EXPECT_EQ(take(), (Range{4, 2, 1}));
}

// One row may be named in several ways, so a column is read in one way, but for rows that the
// server tells apart.
TEST_F(MariadbAdoption, NobodyReadsAsTheNextValueWhatIsTheLastOfAnother) {
  run("CREATE TABLE t (k varchar(9), n bigint, m bigint);"
      "INSERT INTO t VALUES ('a', 1, 1), ('b', 1, 1)");
  ASSERT_TRUE(adopt("row:t/k=a:next=n"));
  const auto other = adopt("row:t/k=a:last=n", {1, 99}, "d");
  EXPECT_EQ(code_of(other), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(other), HasSubstr("counter \"c\" was adopted from row:t/k=a:next=n"));
  for (const char* const same : {"row:t/k=A:last=n", "row:t/K=a:last=N", "row:t:last=n"})
    EXPECT_EQ(code_of(adopt(same, {1, 99}, "d")), Code::kFailedPrecondition) << same;
  EXPECT_TRUE(adopt("row:t/k=b:last=n", {1, 99}, "d"));
  EXPECT_EQ(code_of(adopt("row:t/k=a:next=n", {1, 99}, "d")), Code::kAlreadyExists);
  EXPECT_EQ(code_of(adopt("", {1, 99}, "d")), Code::kAlreadyExists);
}

// ---- who may

TEST_F(MariadbAdoption, WhoMintsNeedsTheRightsOfTheProgramsAndToSelect) {
  run("CREATE TABLE counters (n bigint); INSERT INTO counters VALUES (1);"
      "CREATE TABLE Tickets64 (id bigint AUTO_INCREMENT PRIMARY KEY, stub char(1) UNIQUE)");
  ASSERT_TRUE(adopt("row:counters:next=n"));
  ASSERT_TRUE(adopt("tickets:Tickets64/stub=a:last=id", {1, 99}, "d"));
  const std::string taker = " TO taker@'127.0.0.1';";
  run("CREATE OR REPLACE USER taker@'127.0.0.1'; GRANT SELECT ON idmint_store" + taker +
      "GRANT SELECT ON idmint_definitions" + taker +
      "GRANT SELECT, INSERT, UPDATE ON idmint_counters" + taker);
  const auto store =
      Store::open(server_.url(name_, "taker"), {.deadline = std::chrono::minutes{1}});
  ASSERT_TRUE(store) << fakes::why(store);
  CounterStore& counters = *(*store)->counters();
  EXPECT_EQ(code_of(counters.advance("c", 1, Take::kAll)), Code::kPermissionDenied);
  EXPECT_EQ(code_of(counters.advance("d", 1, Take::kAll)), Code::kPermissionDenied);
  run("GRANT SELECT, UPDATE ON counters" + taker + "GRANT SELECT, INSERT, DELETE ON Tickets64" +
      taker);
  EXPECT_EQ(counters.advance("c", 1, Take::kAll), (Range{1, 1, 1}));
  EXPECT_EQ(counters.advance("d", 2, Take::kAll), (Range{1, 1, 2}));
  EXPECT_EQ(counters.raise("c", 9), 9);
  EXPECT_EQ(counters.raise("d", 9), 9);
}

// ---- sequences of idmint over them

TEST_F(MariadbAdoption, StripesHaveARowEach) {
  run("CREATE TABLE blocks (block int PRIMARY KEY, n bigint NOT NULL);"
      "INSERT INTO blocks VALUES (0, 0), (1, 100), (2, 200), (3, 300)");
  ASSERT_TRUE(create_sequence(*store_, {.name = "accounts",
                                        .strategy = Strategy::kStriped,
                                        .first = 0,
                                        .last = 399,
                                        .stripes = 4,
                                        .adopted = "row:blocks/block={k}:next=n"}));
  const auto sequence = Sequence::open(*store_, "accounts");
  ASSERT_TRUE(sequence) << fakes::why(sequence);
  std::vector<std::int64_t> values;
  for (int i = 0; i < 50; ++i) {
    const auto value = (*sequence)->next();
    ASSERT_TRUE(value) << fakes::why(value);
    values.push_back(*value);
  }
  expect_no_repeat(values);
  EXPECT_EQ(run("SELECT SUM(n - block * 100) FROM blocks"), "50");
}

// A statement does not get one run of values on this server.
TEST_F(MariadbAdoption, ACounterOverTicketsServesAllWhoWait) {
  const MariadbServer server({"--innodb-autoinc-lock-mode=2"});
  const auto store = Store::open(server.database("ids"), {.deadline = std::chrono::minutes{1}});
  ASSERT_TRUE(store) << fakes::why(store);
  server.run("CREATE TABLE Tickets64 (id bigint AUTO_INCREMENT PRIMARY KEY, stub char(1) UNIQUE)",
             "ids");
  ASSERT_TRUE(create_sequence(**store, {.name = "photos", .adopted = ways().back().adopted}));
  const auto sequence = Sequence::open(**store, "photos");
  ASSERT_TRUE(sequence) << fakes::why(sequence);
  PlainClients plain_clients(
      4, [&] { return program(server, "ids", "REPLACE INTO Tickets64 (stub) VALUES ('b')"); });
  std::vector<std::int64_t> values;
  std::mutex mutex;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 32; ++thread)
    threads.emplace_back([&] {
      for (int i = 0; i < 30; ++i) {
        const auto value = (*sequence)->next();
        ASSERT_TRUE(value) << fakes::why(value);
        const std::lock_guard lock(mutex);
        values.push_back(*value);
      }
    });
  threads.clear();
  for (const std::int64_t theirs : plain_clients.stop()) values.push_back(theirs);
  expect_no_repeat(values);
}

// ---- values in use

TEST_F(MariadbAdoption, TheLargestValueOfAColumnIsFound) {
  run("CREATE TABLE orders (id int unsigned, big bigint unsigned, n decimal(9,1), d double,"
      " code varchar(9), at date);"
      "INSERT INTO orders VALUES (7, 12, 1.5, 1.5, '0007', NULL),"
      " (5000, 18446744073709551615, 88.5, 4e15, 'x', NULL), (3, NULL, NULL, 7, '0042', NULL);"
      "CREATE TABLE empty (id bigint)");
  const auto largest = [&](const std::string& table, const std::string& column,
                           const ExistingForm& form = {}, std::int64_t from = 0,
                           std::int64_t to = 9999) -> Result<std::optional<std::int64_t>> {
    const auto values = ExistingValues::open(url_, table, column, form);
    if (!values) return std::unexpected(values.error());
    return (*values)->largest(from, to);
  };
  EXPECT_EQ(largest("orders", "id"), 5000);
  EXPECT_EQ(largest("orders", "id", {}, 0, 4999), 7);
  EXPECT_EQ(largest("orders", "id", {}, 8, 4999), std::nullopt);
  EXPECT_EQ(largest("orders", "big"), 12);
  EXPECT_EQ(largest("orders", "n"), 88);
  EXPECT_EQ(largest("orders", "d"), 7);
  EXPECT_EQ(largest("orders", "d", {}, 0, kLargestValue), 4'000'000'000'000'000)
      << "not the 4 of 4e15";
  EXPECT_EQ(largest("empty", "id"), std::nullopt);
  const ExistingForm digits{.form = {.digits = 4}, .first = 0, .last = 9999};
  EXPECT_EQ(largest("orders", "code", digits), 42);
  EXPECT_EQ(largest("orders", "code", digits, 0, 41), 7);
  EXPECT_EQ(code_of(largest("orders", "code", {.last = 9999})), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(largest("orders", "at")), HasSubstr("is of type date"));
  EXPECT_EQ(code_of(largest("orders", "missing")), Code::kNotFound);
  EXPECT_EQ(code_of(largest("missing", "id")), Code::kNotFound);
  EXPECT_EQ(code_of(largest("orders`", "id")), Code::kInvalidArgument);
}

// ---- crashes

TEST(MariadbAdoptionCrash, ATicketThatWasHandedOutDoesNotComeAgain) {
  MariadbServer server;
  const std::string url = server.database("ids");
  server.run("CREATE TABLE Tickets64 (id bigint AUTO_INCREMENT PRIMARY KEY, stub char(1) UNIQUE)",
             "ids");
  std::int64_t largest = 0;
  for (int round = 0; round < 2; ++round) {
    {
      const auto store = Store::open(url, {.deadline = std::chrono::minutes{1}}).value();
      const NewCounter one{"c", {1, 1'000'000}, ways().back().adopted};
      ASSERT_TRUE(store->counters()->create(std::span(&one, 1)));
      const auto taken = store->counters()->advance("c", 3, Take::kAll);
      ASSERT_TRUE(taken) << fakes::why(taken);
      EXPECT_GT(taken->first, largest) << "it came again";
      const auto raised = store->counters()->raise("c", taken->last() + 50);
      ASSERT_TRUE(raised) << fakes::why(raised);
      largest = *raised - 1;
      server.kill();
    }
    server.restart();
    const std::int64_t next = program(server, "ids", ways().back().recipe)();
    EXPECT_GT(next, largest) << "it came again";
    largest = next;
  }
}

}  // namespace
}  // namespace idmint
