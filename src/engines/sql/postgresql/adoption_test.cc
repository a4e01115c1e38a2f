// Rows and sequences of PostgreSQL that other programs take from at the same time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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
#include <vector>

#include "idmint/mongodb.h"
#include "idmint/sequence.h"
#include "idmint/store.h"
#include "store/counter_store.h"
#include "tests/conformance/adopted_record.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/opened_store.h"
#include "tests/servers/plain_clients.h"
#include "tests/servers/postgresql.h"

namespace idmint {
namespace {

using conformance::AdoptedPlace;
using conformance::AdoptedRecords;
using conformance::AdoptedWay;
using fakes::code_of;
using servers::expect_no_repeat;
using servers::PlainClients;
using servers::PostgresqlServer;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// One connection of a program that takes a value with one statement.
PlainClients::Next program(const std::string& url, const std::string& recipe) {
  return [ask = servers::connected_postgresql(url), recipe]() -> std::int64_t {
    const std::string value = ask(recipe);
    if (!value.empty() && !value.starts_with("ERROR")) return std::stoll(value);
    ADD_FAILURE() << value;
    return -1;
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
       "CREATE TABLE counters (name text PRIMARY KEY, n bigint NOT NULL);"
       "INSERT INTO counters VALUES ('orders', ? + 1)",
       "UPDATE counters SET n = n + 1 WHERE name = 'orders' RETURNING n - 1",
       "row:public.counters/name=orders:next=n",
       {"UPDATE counters SET n = 3 WHERE name = 'orders'",
        "DELETE FROM counters; INSERT INTO counters VALUES ('orders', 3)"}},
      {"RowOfTheLast",
       "CREATE TABLE counters (id integer PRIMARY KEY, \"Last\" integer);"
       "INSERT INTO counters VALUES (7, ?)",
       "UPDATE counters SET \"Last\" = \"Last\" + 1 WHERE id = 7 RETURNING \"Last\"",
       "row:public.counters/id=7:last=Last",
       {"UPDATE counters SET \"Last\" = 2 WHERE id = 7"}},
      {"OnlyRow",
       "CREATE TABLE counter (n bigint); INSERT INTO counter VALUES (?)",
       "UPDATE counter SET n = n + 1 RETURNING n",
       "row:public.counter:last=n",
       {"TRUNCATE counter; INSERT INTO counter VALUES (2)"}},
      {"Sequence",
       "CREATE SEQUENCE numbers; SELECT setval('numbers', ?)",
       "SELECT nextval('numbers')",
       "sequence:public.numbers",
       {"SELECT setval('numbers', 2)", "ALTER SEQUENCE numbers RESTART WITH 3",
        "DROP SEQUENCE numbers; CREATE SEQUENCE numbers START 3"}},
      {"Serial",
       "CREATE TABLE orders (id serial PRIMARY KEY, of text);"
       "SELECT setval('orders_id_seq', ?)",
       "INSERT INTO orders (of) VALUES ('us') RETURNING id",
       "sequence:public.orders_id_seq",
       {"SELECT setval('orders_id_seq', 3, false)",
        "TRUNCATE orders RESTART IDENTITY; SELECT nextval('orders_id_seq'), "
        "nextval('orders_id_seq')"}},
      {"Identity",
       "CREATE SCHEMA shop; CREATE TABLE shop.orders"
       " (id bigint GENERATED ALWAYS AS IDENTITY, of text);"
       "SELECT setval('shop.orders_id_seq', ?)",
       "INSERT INTO shop.orders (of) VALUES ('us') RETURNING id",
       "sequence:shop.orders_id_seq",
       {"ALTER TABLE shop.orders ALTER id RESTART WITH 3"}},
  };
  return all;
}

void make(const Way& way, const std::string& database, std::int64_t last) {
  std::string tables = way.tables;
  tables.replace(tables.find('?'), 1, std::to_string(last));
  servers::postgresql_server().run(tables, database);
}

std::vector<AdoptedWay> every_way() {
  std::vector<AdoptedWay> all;
  for (const Way& way : ways())
    all.push_back({way.name, [&way](std::int64_t last) {
                     PostgresqlServer& server = servers::postgresql_server();
                     const std::string database = conformance::name_of_test();
                     const std::string url = server.database(database);
                     make(way, database, last);
                     std::vector<std::function<void()>> acts;
                     for (const char* const act : way.set_backs)
                       acts.emplace_back([&server, database, act] { server.run(act, database); });
                     return AdoptedPlace{
                         .url = url,
                         .record = way.adopted,
                         .connect = [&, url] { return program(url, way.recipe); },
                         .doubt =
                             [&server, database] {
                               server.run("UPDATE idmint.store SET timeline = '000000FF'",
                                          database);
                             },
                         .own_next =
                             [&server, database] {
                               return server.run("SELECT next FROM idmint.counters", database);
                             },
                         .set_backs = acts};
                   }});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Postgresql, AdoptedRecords, testing::ValuesIn(every_way()),
                         conformance::name_of_way);

class Adoption : public testing::Test {
 protected:
  explicit Adoption(PostgresqlServer& server = servers::postgresql_server()) : server_(server) {}

  std::string run(const std::string& sql) const { return server_.run(sql, name_); }
  [[nodiscard]] PlainClients::Next plain(const std::string& recipe) const {
    return program(url_, recipe);
  }

  auto adopt(const std::string& record, CounterBounds bounds = {1, 1'000'000'000},
             const std::string& counter = "c") {
    const NewCounter one{counter, bounds, record};
    return counters().create(std::span(&one, 1));
  }
  Result<Range> take(std::int64_t count = 1, Take take = Take::kAll) {
    return counters().advance("c", count, take);
  }
  CounterStore& counters() { return *store_->counters(); }

  PostgresqlServer& server_;
  const std::string name_ = conformance::name_of_test();
  const std::string url_ = server_.database(name_);
  const std::unique_ptr<Store> store_ = fakes::opened(url_);
};

// ---- each way, and what only PostgreSQL can show

class PostgresqlWay : public Adoption, public testing::WithParamInterface<Way> {};

// A take that waits for another program's transaction keeps close() waiting with it.
TEST_P(PostgresqlWay, NothingIsUnderWayWhenItIsClosed) {
  make(GetParam(), name_, 1);
  ASSERT_TRUE(adopt(GetParam().adopted));
  ASSERT_TRUE(take());
  const servers::Asking holder = servers::connected_postgresql(url_);
  const std::string in_the_way =
      std::string(GetParam().adopted).starts_with("row:")
          ? GetParam().recipe
          : "ALTER SEQUENCE " + std::string(GetParam().adopted).substr(9) + " NO CYCLE";
  holder("BEGIN");
  holder(in_the_way);
  const auto waiting = [&] {
    return run(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        " AND datname = current_database()");
  };
  auto taken = std::async(std::launch::async, [&] { return take(); });
  while (waiting() != "1") std::this_thread::yield();
  auto closed = std::async(std::launch::async, [&] { return counters().close("c"); });
  while (waiting() != "2") std::this_thread::yield();
  holder("COMMIT");
  const auto range = taken.get();
  EXPECT_TRUE(range) << fakes::why(range);
  EXPECT_TRUE(closed.get());
}

// The store that took the place adopted the same record.
TEST_P(PostgresqlWay, AStoreThatTookThePlaceIsNotUsed) {
  make(GetParam(), name_, 1);
  ASSERT_TRUE(adopt(GetParam().adopted));
  for (std::int64_t value = 2; value < 5; ++value) EXPECT_EQ(take(), (Range{value, 1, 1}));
  const auto theirs = plain(GetParam().recipe);
  run("UPDATE idmint.store SET id = gen_random_uuid()");
  const auto refused = take();
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("another store is there now"));
  EXPECT_EQ(code_of(counters().raise("c", 100)), Code::kFailedPrecondition);
  EXPECT_EQ(run("SELECT next FROM idmint.counters"), "5");
  EXPECT_EQ(theirs(), 5) << "nothing was taken";
}

INSTANTIATE_TEST_SUITE_P(Each, PostgresqlWay, testing::ValuesIn(ways()),
                         [](const auto& each) { return std::string(each.param.name); });

// ---- what is refused

TEST_F(Adoption, WhatCannotBeCountedInIsRefusedAndLeftAsItIs) {
  run("CREATE TABLE t (k text, small smallint, i integer, b bigint, n numeric, s text);"
      "INSERT INTO t VALUES ('one', 1, 1, NULL, 1, '1'), ('two', 1, 1, 1, 1, '1'),"
      " ('two', 1, 1, 1, 1, '1'), ('past', 1, 1, -5, 1, '1');"
      "CREATE UNLOGGED TABLE brief (n bigint); INSERT INTO brief VALUES (1);"
      "CREATE VIEW seen AS SELECT * FROM t;"
      "CREATE SEQUENCE by_two INCREMENT BY 2; CREATE SEQUENCE down INCREMENT BY -1;"
      " CREATE SEQUENCE round CYCLE MAXVALUE 9;"
      "CREATE SEQUENCE many CACHE 50; CREATE SEQUENCE short MAXVALUE 99");
  struct Refusal {
    std::string record;
    std::string why;
  };
  for (const auto& [record, why] : std::vector<Refusal>{
           {"row:public.t/k=one:next=b", "b is NULL"},
           {"row:public.t/k=one:next=n", "n is of type numeric: make it a bigint"},
           {"row:public.t/k=one:next=s", "s is of type text: make it a bigint"},
           {"row:public.t/k=one:next=small", "it counts up to 32766, and the last value"},
           {"row:public.t/k=one:last=small", "it counts up to 32767, and the last value"},
           {"row:public.t/k=two:next=i", "more than one such row"},
           {"row:public.t:next=i", "more than one such row"},
           {"row:public.t/k=three:next=i", "the row k = \"three\" of public.t: it is not there"},
           {"row:public.t/k=past:next=b", "the next value is -5, below the first one"},
           {"row:public.t/k=one:next=missing", "missing"},
           {"row:public.missing/k=one:next=n", "missing"},
           {"row:public.brief:next=n", "ALTER TABLE public.brief SET LOGGED"},
           {"row:public.seen/k=one:next=i", "no ordinary table"},
           {"sequence:public.by_two", "a program that takes blocks (HiLo, pooled) uses 2 values"},
           {"sequence:public.down", "it counts down"},
           {"sequence:public.round", "ALTER SEQUENCE public.round NO CYCLE"},
           {"sequence:public.many", "ALTER SEQUENCE public.many CACHE 1"},
           {"sequence:public.short", "it counts up to 99"},
           {"sequence:public.missing", "missing"},
           {"sequence:public.t", "t"}}) {
    const auto refused = adopt(record);
    EXPECT_EQ(code_of(refused), Code::kFailedPrecondition) << record;
    EXPECT_THAT(fakes::why(refused), AllOf(HasSubstr(why), Not(HasSubstr("INCREMENT BY"))))
        << record;
    EXPECT_EQ(code_of(counters().peek("c")), Code::kNotFound) << record;
  }
  for (const auto& [record, why] :
       std::vector<Refusal>{{"row:public.t/k=one", "row:TABLE/KEY=VALUE:next=COLUMN"},
                            {"sequence:public.a:next=b", "its name must be"},
                            {"row:public.t/k=one:next=b;", "its name must be"},
                            {"row:public.t\"/k=one:next=b", "its name must be"},
                            {"row:public.t/k=one:next=k", "cannot count and tell the rows apart"},
                            {"row:idmint.counters/name=c:next=next", "idmint's own"},
                            {"table:t", "cannot adopt \"table:t\": write row:TABLE"}}) {
    const auto refused = adopt(record);
    EXPECT_EQ(code_of(refused), Code::kInvalidArgument) << record;
    EXPECT_THAT(fakes::why(refused), HasSubstr(why)) << record;
  }
  const NewCounter strided{"c", {1, 9, 2}, "sequence:public.short"};
  EXPECT_EQ(code_of(counters().create(std::span(&strided, 1))), Code::kInvalidArgument);
  EXPECT_EQ(code_of(adopt("row:public.t/k=one:last=i", {0, 9})), Code::kInvalidArgument);
  EXPECT_TRUE(adopt("row:public.t/k=one:next=small", {1, 32'766}));
  EXPECT_EQ(code_of(counters().can_extend(std::vector<std::string>{"c"}, 32'767)),
            Code::kInvalidArgument);
  const auto beyond = counters().extend("c", 32'767);
  EXPECT_EQ(code_of(beyond), Code::kInvalidArgument);
  EXPECT_THAT(fakes::why(beyond), HasSubstr("it counts up to 32766"));
  EXPECT_EQ(counters().peek("c")->bounds.last, 32'766);
  ASSERT_EQ(counters().raise("c", 32'766), 32'766);
  EXPECT_EQ(take(), (Range{32'766, 1, 1})) << "its last value";
  EXPECT_EQ(code_of(take()), Code::kOutOfRange);
}

TEST_F(Adoption, ARowThatIsDeletedIsNotMadeAgain) {
  run("CREATE TABLE counters (name text, n bigint); INSERT INTO counters VALUES ('a', 1)");
  ASSERT_TRUE(adopt("row:public.counters/name=a:next=n"));
  ASSERT_TRUE(take());
  run("DELETE FROM counters");
  EXPECT_EQ(code_of(take()), Code::kDataLoss);
  EXPECT_EQ(code_of(counters().peek("c")), Code::kDataLoss);
  EXPECT_EQ(code_of(counters().raise("c", 50)), Code::kDataLoss);
  EXPECT_EQ(run("SELECT count(*) FROM counters"), "0");
  run("INSERT INTO counters VALUES ('a', 7), ('a', 9)");
  EXPECT_EQ(code_of(take()), Code::kDataLoss) << "which of the two?";
  run("DELETE FROM counters WHERE n < 9; ALTER TABLE counters SET UNLOGGED");
  EXPECT_EQ(code_of(take()), Code::kDataLoss) << "a crash empties it";
  run("ALTER TABLE counters SET LOGGED");
  const auto again = take();
  EXPECT_EQ(again, (Range{10, 1, 1})) << fakes::why(again);
  run("DROP TABLE counters");
  EXPECT_EQ(code_of(fakes::opened(url_)->counters()->advance("c", 1, Take::kAll)), Code::kDataLoss);
  EXPECT_TRUE(counters().close("c"));
}

// The sequence is altered after it was adopted.
TEST_F(Adoption, ASequenceThatWouldRepeatGivesNothing) {
  run("CREATE SEQUENCE s");
  ASSERT_TRUE(adopt("sequence:public.s", {1, 99}));
  ASSERT_TRUE(take());
  for (const std::string change : {"CYCLE", "CACHE 20", "INCREMENT BY -1", "SET UNLOGGED"}) {
    run("ALTER SEQUENCE s " + change);
    const auto refused = take(1, Take::kTail);
    EXPECT_EQ(code_of(refused), Code::kDataLoss) << change;
    EXPECT_THAT(fakes::why(refused), Not(HasSubstr("INCREMENT BY"))) << "of blocks, perhaps";
    run("ALTER SEQUENCE s NO CYCLE CACHE 1 INCREMENT BY 1; ALTER SEQUENCE s SET LOGGED");
    EXPECT_TRUE(take()) << change;
  }
  EXPECT_EQ(counters().peek("c")->next, 6);
}

// One row may be named in several ways, so a column is read in one way, but for rows that the
// server tells apart.
TEST_F(Adoption, NobodyReadsAsTheNextValueWhatIsTheLastOfAnother) {
  run("CREATE TABLE t (k text, i int, n bigint, m bigint);"
      "INSERT INTO t VALUES ('a', 1, 1, 1), ('b', 2, 1, 1)");
  ASSERT_TRUE(adopt("row:public.t/k=a:next=n"));
  const auto other = adopt("row:public.t/k=a:last=n", {1, 99}, "d");
  EXPECT_EQ(code_of(other), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(other),
              HasSubstr("counter \"c\" was adopted from row:public.t/k=a:next=n"));
  for (const char* const same :
       {"row:public.t/i=1:last=n", "row:public.t/i=01:last=n", "row:public.t:last=n"})
    EXPECT_EQ(code_of(adopt(same, {1, 99}, "d")), Code::kFailedPrecondition) << same;
  EXPECT_TRUE(adopt("row:public.t/k=b:last=n", {1, 99}, "d"));
  EXPECT_EQ(take(), (Range{1, 1, 1}));
  EXPECT_EQ(counters().advance("d", 1, Take::kAll), (Range{2, 1, 1}));
  EXPECT_EQ(code_of(adopt("row:public.t/k=b:next=n", {1, 99}, "e")), Code::kFailedPrecondition);
  EXPECT_EQ(code_of(adopt("row:public.t/k=a:next=n", {1, 99}, "d")), Code::kAlreadyExists);
  EXPECT_EQ(code_of(adopt("", {1, 99}, "d")), Code::kAlreadyExists);
  EXPECT_EQ(code_of(adopt("row:public.t/k=a:next=n", {1, 99})), Code::kAlreadyExists);
}

// ---- who may

TEST_F(Adoption, WhoMintsNeedsSelectAndUpdateAndWhoRaisesASequenceIsItsOwner) {
  run("CREATE TABLE counters (n bigint); INSERT INTO counters VALUES (1); CREATE SEQUENCE s");
  ASSERT_TRUE(adopt("row:public.counters:next=n"));
  ASSERT_TRUE(adopt("sequence:public.s", {1, 99}, "d"));
  run("DROP ROLE IF EXISTS taker; CREATE ROLE taker LOGIN; GRANT USAGE ON SCHEMA idmint TO taker;"
      "GRANT SELECT ON ALL TABLES IN SCHEMA idmint TO taker;"
      "GRANT UPDATE ON idmint.counters TO taker");
  const auto store =
      Store::open(server_.url(name_, "taker"), {.deadline = std::chrono::minutes{1}});
  ASSERT_TRUE(store) << fakes::why(store);
  CounterStore& counters = *(*store)->counters();
  EXPECT_EQ(code_of(counters.advance("c", 1, Take::kAll)), Code::kPermissionDenied);
  const auto refused = counters.advance("d", 1, Take::kAll);
  EXPECT_EQ(code_of(refused), Code::kPermissionDenied);
  EXPECT_THAT(fakes::why(refused), HasSubstr("permission denied for sequence s"));
  run("GRANT SELECT, UPDATE ON counters, s TO taker");
  EXPECT_EQ(counters.advance("c", 1, Take::kAll), (Range{1, 1, 1}));
  EXPECT_EQ(counters.advance("d", 2, Take::kAll), (Range{1, 1, 2}));
  EXPECT_EQ(counters.raise("c", 9), 9);
  const auto not_owner = counters.raise("d", 9);
  EXPECT_EQ(code_of(not_owner), Code::kPermissionDenied);
  EXPECT_THAT(fakes::why(not_owner), HasSubstr("must be owner of sequence s"));
  run("DROP OWNED BY taker; DROP ROLE taker");
}

// ---- sequences of idmint over them

TEST_F(Adoption, StripesHaveARowEach) {
  run("CREATE TABLE blocks (block integer PRIMARY KEY, n bigint NOT NULL);"
      "INSERT INTO blocks SELECT k, k * 100 FROM generate_series(0, 7) k");
  const SequenceDefinition definition{.name = "accounts",
                                      .strategy = Strategy::kStriped,
                                      .first = 0,
                                      .last = 799,
                                      .stripes = 8,
                                      .adopted = "row:public.blocks/block={k}:next=n"};
  const auto made = create_sequence(*store_, definition);
  ASSERT_TRUE(made) << fakes::why(made);
  const auto sequence = Sequence::open(*store_, "accounts");
  ASSERT_TRUE(sequence) << fakes::why(sequence);
  std::vector<std::int64_t> values;
  for (int i = 0; i < 100; ++i) {
    const auto value = (*sequence)->next();
    ASSERT_TRUE(value) << fakes::why(value);
    values.push_back(*value);
  }
  expect_no_repeat(values);
  EXPECT_EQ(run("SELECT sum(n - block * 100) FROM blocks"), "100");
}

// Callers are combined, and others take values in between.
TEST_F(Adoption, ACounterOverASequenceServesAllWhoWait) {
  run("CREATE SEQUENCE s");
  ASSERT_TRUE(create_sequence(*store_, {.name = "orders", .adopted = "sequence:public.s"}));
  const auto sequence = Sequence::open(*store_, "orders");
  ASSERT_TRUE(sequence) << fakes::why(sequence);
  PlainClients plain_clients(4, [&] { return plain("SELECT nextval('s')"); });
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

// nextval() is not undone with the statement that called it. This one waits for idmint's row of the
// counter, which another transaction holds, and is cancelled.
TEST_F(Adoption, ATakeThatFailedSaysOnlyThatNothingWasHandedOut) {
  run("CREATE SEQUENCE s");
  ASSERT_TRUE(adopt("sequence:public.s"));
  ASSERT_TRUE(take());
  const servers::Asking other = servers::connected_postgresql(url_);
  other("BEGIN");
  other("SELECT * FROM idmint.counters FOR UPDATE");
  auto waiting = std::async(std::launch::async, [&] { return take(); });
  EXPECT_TRUE(fakes::eventually([&] {
    return server_.ask(
               "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE datname = "
               "current_database() AND wait_event_type = 'Lock'",
               name_) == "t";
  }));
  const Result<Range> refused = waiting.get();
  other("ROLLBACK");
  EXPECT_EQ(code_of(refused), Code::kUnavailable);
  EXPECT_THAT(fakes::why(refused),
              AllOf(HasSubstr("nothing was handed out"), Not(HasSubstr("nothing was changed"))));
}

// A record is set back while another process takes from it, and has not committed.
TEST_F(Adoption, TheFloorIsLockedBeforeTheRecordIsRead) {
  run("CREATE SEQUENCE s; CREATE TABLE t (n bigint); INSERT INTO t VALUES (1)");
  ASSERT_TRUE(adopt("sequence:public.s"));
  ASSERT_TRUE(adopt("row:public.t:next=n", {1, 1'000'000}, "d"));
  for (const std::string counter : {"c", "d"}) {
    ASSERT_TRUE(counters().advance(counter, 1, Take::kAll));
    const servers::Asking other = servers::connected_postgresql(url_);
    other("BEGIN");
    other("UPDATE idmint.counters SET next = 50 WHERE name = '" + counter + "'");
    auto waiting =
        std::async(std::launch::async, [&] { return counters().advance(counter, 1, Take::kAll); });
    EXPECT_TRUE(fakes::eventually([&] {
      return run("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                 " AND wait_event_type = 'Lock'") == "1";
    }));
    other("COMMIT");
    const Result<Range> refused = waiting.get();
    EXPECT_EQ(code_of(refused), Code::kDataLoss) << counter;
    EXPECT_THAT(fakes::why(refused), HasSubstr("its next value is 2, and was 50"));
  }
}

TEST_F(Adoption, ASequenceThatWasSetBackIsRaisedByItsNameWhateverTheValue) {
  run("CREATE SEQUENCE s");
  ASSERT_TRUE(create_sequence(*store_, {.name = "orders", .adopted = "sequence:public.s"}));
  for (const std::int64_t past : {1, 20}) {
    const auto taken = counters().advance("orders", 5, Take::kAll);
    ASSERT_TRUE(taken) << fakes::why(taken);
    run("SELECT setval('s', 2)");
    const auto seen = peek_sequence(*store_, "orders");
    ASSERT_TRUE(seen && seen->error) << fakes::why(seen);
    EXPECT_EQ(seen->error->code, Code::kDataLoss);
    const auto raised = raise_sequence(*store_, "orders", past);
    ASSERT_TRUE(raised) << fakes::why(raised);
    const auto again = counters().advance("orders", 1, Take::kAll);
    ASSERT_TRUE(again) << fakes::why(again);
    EXPECT_EQ(again->first, std::max(taken->last(), past) + 1);
  }
}

// The previous version kept the first value of an adopted counter there.
TEST_F(Adoption, AFloorThatWasNeverKeptBeginsAtTheFirstTake) {
  run("CREATE SEQUENCE s; SELECT setval('s', 7)");
  ASSERT_TRUE(adopt("sequence:public.s"));
  run("UPDATE idmint.counters SET next = first");
  EXPECT_EQ(take(), (Range{8, 1, 1}));
  run("SELECT setval('s', 7)");
  EXPECT_EQ(code_of(take()), Code::kDataLoss);
}

// ---- values in use

TEST_F(Adoption, TheLargestValueOfAColumnIsFound) {
  run("CREATE SCHEMA shop; CREATE TABLE shop.orders (id integer, big bigint, n numeric, code text,"
      " kind boolean); INSERT INTO shop.orders VALUES (7, 12, 1.5, '0007', true),"
      " (5000, 9223372036854775807, 88.5, 'x', true), (-3, NULL, NULL, '0042', false);"
      "CREATE TABLE empty (id bigint)");
  const auto largest = [&](const std::string& table, const std::string& column,
                           const ExistingForm& form = {}, std::int64_t from = 0,
                           std::int64_t to = 9999) -> Result<std::optional<std::int64_t>> {
    const auto values = ExistingValues::open(url_, table, column, form);
    if (!values) return std::unexpected(values.error());
    return (*values)->largest(from, to);
  };
  EXPECT_EQ(largest("shop.orders", "id"), 5000);
  EXPECT_EQ(largest("shop.orders", "id", {}, 0, 4999), 7);
  EXPECT_EQ(largest("shop.orders", "id", {}, 8, 4999), std::nullopt);
  EXPECT_EQ(largest("shop.orders", "big"), 12);
  EXPECT_EQ(largest("shop.orders", "n"), 88);
  EXPECT_EQ(largest("empty", "id"), std::nullopt);
  const ExistingForm digits{.form = {.digits = 4}, .first = 0, .last = 9999};
  EXPECT_EQ(largest("shop.orders", "code", digits), 42);
  EXPECT_EQ(largest("shop.orders", "code", digits, 0, 41), 7);
  const auto any_width = largest("shop.orders", "code", {.last = 9999});
  EXPECT_EQ(code_of(any_width), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(any_width), HasSubstr("different widths"));
  EXPECT_THAT(fakes::why(largest("shop.orders", "kind")), HasSubstr("is of type boolean"));
  EXPECT_EQ(code_of(largest("shop.orders", "missing")), Code::kNotFound);
  EXPECT_EQ(code_of(largest("orders", "id")), Code::kNotFound) << "it is in another schema";
  EXPECT_EQ(code_of(largest("orders;", "id")), Code::kInvalidArgument);
}

// Texts of another form are left out a hundred at a time. Each statement takes 0.2 s here.
TEST_F(Adoption, TheDeadlineIsSharedByAllStatementsThatLookForTheLargestText) {
  run("CREATE TABLE notes (code text);"
      "INSERT INTO notes SELECT '5x' || i FROM generate_series(1000, 2999) i;"
      "CREATE VIEW slow AS WITH s AS MATERIALIZED (SELECT pg_sleep(0.2)) SELECT code FROM notes, "
      "s");
  const ExistingForm digits{.form = {.digits = 4}, .first = 0, .last = 9999};
  const auto values =
      ExistingValues::open(url_, "slow", "code", digits, std::chrono::milliseconds{1500});
  ASSERT_TRUE(values) << fakes::why(values);
  EXPECT_EQ(code_of((*values)->largest(0, 9999)), Code::kUnavailable);
  const auto patient = ExistingValues::open(url_, "notes", "code", digits);
  ASSERT_TRUE(patient) << fakes::why(patient);
  EXPECT_EQ((*patient)->largest(0, 9999), std::nullopt);
}

// ---- crashes

// A value is in the log on the disk when it is handed out, although the record that has it may be
// another transaction's.
TEST(AdoptionCrash, AValueOfASequenceThatWasHandedOutDoesNotComeAgain) {
  PostgresqlServer server({"wal_writer_delay = 10s"});
  const std::string url = server.database("ids");
  server.run("CREATE SEQUENCE s; SELECT nextval('s')", "ids");
  std::int64_t largest = 0;
  for (int round = 0; round < 2; ++round) {
    {
      const auto store = Store::open(url, {.deadline = std::chrono::minutes{1}}).value();
      const NewCounter one{"c", {1, 1'000'000}, "sequence:public.s"};
      ASSERT_TRUE(store->counters()->create(std::span(&one, 1)));
      server.run("CHECKPOINT");
      // The first value after a checkpoint is logged, here by one who does not commit.
      const servers::Asking holder = servers::connected_postgresql(url);
      holder("BEGIN");
      holder("SELECT nextval('s')");
      const auto taken = store->counters()->advance("c", 1, Take::kAll);
      ASSERT_TRUE(taken) << fakes::why(taken);
      EXPECT_GT(taken->first, largest) << "it came again";
      largest = std::max(largest, taken->last());
      server.kill();
    }
    server.restart();
    const std::int64_t next = std::stoll(server.run("SELECT nextval('s')", "ids"));
    EXPECT_GT(next, largest) << "it came again";
    largest = std::max(largest, next);
  }
}

}  // namespace
}  // namespace idmint
