// The refusals of a PostgreSQL store, and the faults of its servers. The conformance suite tests
// what all stores have in common.
#include "idmint/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

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
#include "tests/servers/postgresql.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::eventually;
using fakes::opened;
using fakes::take;
using fakes::with_counter;
using servers::PostgresqlServer;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// A transaction of its own that holds all counters of a database until it is ended.
class RowLock {
 public:
  RowLock(const PostgresqlServer& server, std::string database)
      : server_(server),
        database_(std::move(database)),
        holder_(std::async(std::launch::async, [this] {
          return server_.ask(
              "BEGIN; SELECT * FROM idmint.counters FOR UPDATE; SELECT pg_sleep(600)", database_);
        })) {
    EXPECT_TRUE(eventually([&] { return server_.ask("SELECT count(*) " + sleeper()) == "1"; }));
  }
  // The caller may end it early, and go on at once.
  void end() const { server_.run("SELECT pg_cancel_backend(pid) " + sleeper()); }
  ~RowLock() { end(); }
  RowLock(const RowLock&) = delete;
  RowLock& operator=(const RowLock&) = delete;

 private:
  [[nodiscard]] std::string sleeper() const {
    return "FROM pg_stat_activity WHERE datname = '" + database_ + "' AND wait_event = 'PgSleep'";
  }

  const PostgresqlServer& server_;
  const std::string database_;
  std::future<std::string> holder_;  // last: it uses the others
};

// ---- settings

TEST(PostgresqlSettings, WithoutWhatACrashNeedsItIsRefusedAndServedAgainWithIt) {
  for (const std::string setting : {"fsync", "full_page_writes"}) {
    const PostgresqlServer server({setting + " = off"});
    const std::string url = server.database("ids");
    const auto refused = Store::open(url);
    EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
    EXPECT_THAT(fakes::why(refused), HasSubstr("set " + setting + " = on"));
    EXPECT_EQ(server.run("SELECT to_regnamespace('idmint') IS NULL", "ids"), "t")
        << "nothing was made";
    server.set(setting, "on");
    const auto store = with_counter(url);
    EXPECT_EQ(take(*store), (Range{1, 1, 1}));
    server.set(setting, "off");  // an open connection is affected, too
    const auto later = take(*store);
    EXPECT_EQ(code_of(later), Code::kFailedPrecondition);
    EXPECT_THAT(fakes::why(later), HasSubstr("set " + setting + " = on"));
    EXPECT_EQ(code_of(Store::open(url)), Code::kFailedPrecondition);
    server.set(setting, "on");
    EXPECT_EQ(take(*store), (Range{2, 1, 1}));
  }
}

// Under a store that is open.
TEST(PostgresqlSettings, AServerThatIsStartedAgainWithoutWhatACrashNeedsIsRefused) {
  PostgresqlServer server;
  const auto store = with_counter(server.database("ids"));
  std::int64_t value = 1;
  for (const std::string setting : {"fsync", "full_page_writes"}) {
    EXPECT_EQ(take(*store), (Range{value++, 1, 1}));
    const auto start_again_after = [&](const std::string& change) {
      server.run("ALTER SYSTEM " + change);
      server.kill();
      server.restart();
    };
    start_again_after("SET " + setting + " = off");
    const auto refused = take(*store);
    EXPECT_EQ(code_of(refused), Code::kFailedPrecondition) << setting;
    EXPECT_THAT(fakes::why(refused), HasSubstr("set " + setting + " = on"));
    start_again_after("RESET " + setting);
  }
  EXPECT_EQ(take(*store), (Range{value, 1, 1}));
}

// A connection without it has no row in idmint.trusted, and is given nothing.
TEST(PostgresqlSettings, EachConnectionWaitsForItsCommits) {
  const std::string url = servers::postgresql_server().database("commits");
  servers::postgresql_server().run("ALTER DATABASE commits SET synchronous_commit = off");
  const auto store = with_counter(url);
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  EXPECT_EQ(servers::postgresql_server().ask("SELECT trusted FROM idmint.trusted", "commits"), "");
}

TEST(PostgresqlSettings, UnloggedTablesAreRefused) {
  const std::string url = servers::postgresql_server().database("unlogged");
  with_counter(url);
  servers::postgresql_server().run("ALTER TABLE idmint.counters SET UNLOGGED", "unlogged");
  const auto refused = Store::open(url);
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("ALTER TABLE idmint.counters SET LOGGED"));
}

TEST(PostgresqlSettings, AnotherProgramsSchemaIsLeftAlone) {
  const std::string url = servers::postgresql_server().database("theirs");
  servers::postgresql_server().run("CREATE SCHEMA idmint; CREATE TABLE idmint.counters (n int)",
                                   "theirs");
  const auto refused = Store::open(url);
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("of another program"));
  EXPECT_EQ(
      servers::postgresql_server().run(
          "SELECT count(*) FROM pg_class WHERE relnamespace = 'idmint'::regnamespace", "theirs"),
      "1");
}

TEST(PostgresqlSettings, ADatabaseThatIsNotThereIsNotMade) {
  const auto refused = Store::open(servers::postgresql_server().url("nowhere"));
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("make it with createdb"));
}

TEST(PostgresqlSettings, UrlsThatCannotBeMeantAreRefused) {
  for (const char* const url :
       {"postgresql://u:ge@heim@h/d", "postgresql://u:ge/heim@h/d",
        "postgresql://u:geheim@h/d?sslmod=require", "postgresql://u:geheim@h1,h2/d?port=1,2,3"}) {
    const auto refused = Store::open(url);
    EXPECT_EQ(code_of(refused), Code::kInvalidArgument) << url;
    EXPECT_THAT(fakes::why(refused), Not(HasSubstr("heim"))) << url;
  }
}

// ---- who may

TEST(PostgresqlUsers, PasswordsComeFromTheUrlOrThePasswordFileAndAreNeverShown) {
  const PostgresqlServer server({"password_encryption = 'scram-sha-256'"});
  const std::string url = server.database("ids");
  with_counter(url);
  server.run("CREATE ROLE minter LOGIN PASSWORD 'geheim'");
  server.run(
      "GRANT USAGE ON SCHEMA idmint TO minter;"
      "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA idmint TO minter",
      "ids");
  server.let_in("host all all 127.0.0.1/32 scram-sha-256");
  const fakes::TempFolder folder;
  const std::string file = folder.path("pgpass");
  ASSERT_EQ(::setenv("PGPASSFILE", file.c_str(), 1), 0);
  const auto open = [&](const std::string& user) {
    return Store::open(server.url("ids", user), {.create = false});
  };
  const auto without = open("minter");
  EXPECT_EQ(code_of(without), Code::kUnauthenticated);
  EXPECT_THAT(fakes::why(without), HasSubstr("password file"));
  const auto wrong = open("minter:geheimer");
  EXPECT_EQ(code_of(wrong), Code::kUnauthenticated);
  EXPECT_THAT(fakes::why(wrong), AllOf(HasSubstr("minter:***@"), Not(HasSubstr("geheim"))));
  EXPECT_EQ(code_of(open("nobody:x")), Code::kUnauthenticated);
  const auto right = open("minter:geheim");
  ASSERT_TRUE(right) << right.error().message();
  EXPECT_THAT(std::string((*right)->url()), Not(HasSubstr("geheim")));
  EXPECT_TRUE(take(**right));
  std::ofstream(file) << "127.0.0.1:*:ids:minter:geheim\n";
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  const auto from_file = open("minter");
  EXPECT_TRUE(from_file) << from_file.error().message();
  ::unsetenv("PGPASSFILE");
}

// The rights as docs/stores.md grants them.
constexpr std::array kRightsToMint = {
    "USAGE ON SCHEMA idmint",    "SELECT ON idmint.store",   "SELECT ON idmint.trusted",
    "SELECT ON idmint.counters", "SELECT ON idmint.spaces",  "SELECT ON idmint.claimed",
    "SELECT ON idmint.claims",   "SELECT ON idmint.workers", "SELECT ON idmint.definitions",
    "UPDATE ON idmint.counters", "UPDATE ON idmint.spaces",  "UPDATE ON idmint.claimed",
    "UPDATE ON idmint.workers",  "INSERT ON idmint.claims",  "INSERT ON idmint.claimed"};
constexpr std::array kRightsToMake = {"SELECT ON idmint.pools",       "INSERT ON idmint.counters",
                                      "INSERT ON idmint.definitions", "INSERT ON idmint.spaces",
                                      "INSERT ON idmint.pools",       "INSERT ON idmint.workers",
                                      "UPDATE ON idmint.definitions", "UPDATE ON idmint.store"};

// The database "rights" is used by a user who has only the rights that the test grants.
class PostgresqlRights : public testing::Test {
 protected:
  PostgresqlRights() {
    conformance::make_store_to_mint_from(server_.database("rights"));
    run("CREATE ROLE lesser LOGIN");
  }

  std::string run(const std::string& sql) { return server_.run(sql, "rights"); }
  void grant(const char* right) { run(std::string("GRANT ") + right + " TO lesser"); }
  Result<std::unique_ptr<Store>> open() {
    return Store::open(server_.url("rights", "lesser"), {.create = false});
  }

  static void expect_named(const Result<void>& refused, std::string_view right) {
    const std::size_t on = right.find(" ON ");
    EXPECT_EQ(code_of(refused), Code::kPermissionDenied) << right;
    EXPECT_THAT(fakes::why(refused),
                AllOf(HasSubstr("permission denied"), HasSubstr(std::string(right.substr(0, on))),
                      HasSubstr(std::string(right.substr(right.find_first_of(".A", on) + 1)))))
        << right;
  }

  const PostgresqlServer server_{};
};

TEST_F(PostgresqlRights, EachThatIsMissingIsNamed) {
  conformance::expect_each_missing_right_to_be_named(
      {.url = server_.url("rights", "lesser"),
       .owners = server_.url("rights"),
       .to_mint = kRightsToMint,
       .to_make = kRightsToMake,
       .grant = [&](const char* right) { grant(right); },
       .revoke = [&](const char* right) { run(std::string("REVOKE ") + right + " FROM lesser"); },
       .doubt = [&] { run("UPDATE idmint.store SET system = '1'"); },
       .expect_named = expect_named});
}

TEST_F(PostgresqlRights, WhoMayOnlyMintRetiresNothing) {
  for (const char* const right : kRightsToMint) grant(right);
  EXPECT_TRUE(create_sequence(*opened(server_.url("rights")), {.name = "kept", .last = 9}));
  const auto store = open();
  ASSERT_TRUE(store) << fakes::why(store);
  const auto refused = retire_sequence(**store, "kept");
  EXPECT_EQ(code_of(refused), Code::kPermissionDenied);
  EXPECT_THAT(fakes::why(refused),
              AllOf(HasSubstr("UPDATE on idmint.definitions"), HasSubstr("nothing was changed")));
  EXPECT_FALSE((*store)->counters()->peek("kept")->closed);
}

TEST_F(PostgresqlRights, WhoMakesAStoreNeedsTheDatabaseOrTheSchema) {
  server_.database("bare");
  const auto refused = Store::open(server_.url("bare", "lesser"));
  EXPECT_EQ(code_of(refused), Code::kPermissionDenied);
  EXPECT_THAT(fakes::why(refused), HasSubstr("CREATE on the database"));
  server_.run("CREATE SCHEMA idmint AUTHORIZATION lesser", "bare");
  const auto own = Store::open(server_.url("bare", "lesser"));
  EXPECT_TRUE(own) << fakes::why(own);
}

TEST(PostgresqlUsers, WhoMayOnlyReadReads) {
  const std::string url = servers::postgresql_server().database("reading");
  with_counter(url);
  const auto store = Store::open(url, {.access = Access::kReadOnly});
  ASSERT_TRUE(store) << store.error().message();
  EXPECT_EQ((*store)->counters()->peek("c")->next, 1);
  EXPECT_EQ(code_of(take(**store)), Code::kPermissionDenied);
  const auto none =
      Store::open(servers::postgresql_server().database("none"), {.access = Access::kReadOnly});
  EXPECT_EQ(code_of(none), Code::kNotFound);
}

// ---- connections

TEST(PostgresqlConnections, WhereThereAreFewCallersTakeTurns) {
  const PostgresqlServer& server = servers::postgresql_server();
  with_counter(server.database("turns"));
  server.run("CREATE ROLE few LOGIN SUPERUSER CONNECTION LIMIT 2");
  server.run("ALTER ROLE few NOSUPERUSER");
  server.run("GRANT pg_read_all_data, pg_write_all_data TO few");
  const auto store = opened(server.url("turns", "few"));
  fakes::take_at_once(*store);
  // Two that are held leave none.
  const Error refusal = fakes::refusal_that_says("no connection is left",
                                                 server.url("turns", "few"), milliseconds{300});
  EXPECT_EQ(refusal.code, Code::kResourceExhausted);
}

// A caller that has a connection goes on with it.
TEST(PostgresqlConnections, WithoutOneLeftTheSettingIsNamedAndAllGoesOnWithOne) {
  const PostgresqlServer server(
      {"max_connections = 5", "max_wal_senders = 0", "superuser_reserved_connections = 2"});
  with_counter(server.database("ids"));
  server.run("CREATE ROLE minter LOGIN");
  server.run("GRANT pg_read_all_data, pg_write_all_data TO minter");
  const std::string url = server.url("ids", "minter");
  fakes::expect_all_go_on_without_a_connection_left(
      url, "no connection is left (max_connections",
      [&] { return servers::connected_postgresql(url); });
}

TEST(PostgresqlConnections, OneThatTheServerEndedIsReplaced) {
  const PostgresqlServer& server = servers::postgresql_server();
  const auto store = with_counter(server.database("ended"));
  for (std::int64_t value = 1; value < 5; ++value) {
    EXPECT_EQ(take(*store), (Range{value, 1, 1}));
    server.run(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        " WHERE datname = 'ended'");
  }
}

TEST(PostgresqlConnections, AStoreThatTookThePlaceOfAnotherIsNotUsed) {
  const PostgresqlServer& server = servers::postgresql_server();
  const auto store = with_counter(server.database("replaced"));
  server.run("UPDATE idmint.store SET id = gen_random_uuid()", "replaced");
  server.run(
      "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
      " WHERE datname = 'replaced'");
  const auto refused = take(*store);
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("another store is there now"));
}

TEST(PostgresqlConnections, AStoreThatTookThePlaceUnderAConnectionIsLeftAlone) {
  const PostgresqlServer server;
  conformance::expect_a_replaced_store_is_left_alone(
      server.database("ids"), [&] { server.run("DROP SCHEMA idmint CASCADE", "ids"); },
      [&] {
        return server.run(
            "SELECT schema_to_xml('idmint', true, false, '')::text || (SELECT gone_back FROM"
            " idmint.store)",
            "ids");
      });
}

TEST(PostgresqlConnections, ACallEndsByItsDeadlineWhileTheServerStandsStill) {
  PostgresqlServer server;
  const auto store = with_counter(server.database("ids"), milliseconds{500});
  int in_a_row = 0;  // after three of them the statement is prepared
  ASSERT_TRUE(eventually([&] { return (in_a_row = take(*store) ? in_a_row + 1 : 0) == 3; }));
  server.signal(SIGSTOP);
  const auto begun = steady_clock::now();
  EXPECT_EQ(code_of(take(*store)), Code::kDeadlineExceeded) << "it was sent";
  EXPECT_EQ(code_of(take(*store)), Code::kUnavailable) << "there was no connection";
  EXPECT_EQ(code_of(store->counters()->peek("c")), Code::kUnavailable);
  EXPECT_LT(steady_clock::now() - begun, std::chrono::seconds{20});
  server.signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return take(*store).has_value(); }));
}

TEST(PostgresqlConnections, AServerThatWasKilledAndStartedIsGoneOnWith) {
  PostgresqlServer server;
  const auto store = with_counter(server.database("ids"));
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  server.kill();
  auto next = std::async(std::launch::async, [&] { return take(*store); });
  server.restart();
  const Result<Range> taken = next.get();
  ASSERT_TRUE(taken) << taken.error().message();
  EXPECT_EQ(taken->first, 2) << "it was never sent before";
}

// Eight hold all connections when the server ends these; others wait for one.
TEST(PostgresqlConnections, ThoseWhoWaitForOneGetWhatTakesThePlaceOfABrokenOne) {
  const PostgresqlServer& server = servers::postgresql_server();
  const auto store = with_counter(server.database("broken"));
  const RowLock held(server, "broken");
  std::vector<std::future<Result<Range>>> callers;
  for (int i = 0; i < 12; ++i)
    callers.push_back(std::async(std::launch::async, [&] { return take(*store); }));
  const std::string waiting =
      "FROM pg_stat_activity WHERE datname = 'broken' AND "
      "wait_event_type = 'Lock'";
  ASSERT_TRUE(eventually([&] { return server.ask("SELECT count(*) " + waiting) == "8"; }));
  server.run("SELECT pg_terminate_backend(pid, 10000) " + waiting);
  held.end();
  int taken = 0;
  for (auto& caller : callers) {
    const Result<Range> range = caller.get();
    taken += range.has_value() ? 1 : 0;
    EXPECT_TRUE(range || code_of(range) == Code::kUnknown) << fakes::why(range);
  }
  EXPECT_EQ(taken, 4);
}

TEST(PostgresqlConnections, AServerThatSaysNothingIsPassedOver) {
  const PostgresqlServer& server = servers::postgresql_server();
  server.database("passed");
  fakes::expect_silence_is_passed_over(
      [](const std::string& hosts) { return "postgresql://postgres@" + hosts + "/passed"; },
      "127.0.0.1:" + std::to_string(server.port()));
}

// A caller that waits for a lock is told so, and takes nothing.
TEST(PostgresqlConnections, ARowThatAnotherHoldsIsWaitedForUntilTheDeadline) {
  const PostgresqlServer& server = servers::postgresql_server();
  const auto store = with_counter(server.database("locked"), milliseconds{400});
  const RowLock held(server, "locked");
  const auto refused = take(*store);
  EXPECT_FALSE(refused);
  EXPECT_TRUE(code_of(refused) == Code::kDeadlineExceeded || code_of(refused) == Code::kUnavailable)
      << fakes::why(refused);
  held.end();
  EXPECT_TRUE(eventually([&] { return take(*store).has_value(); }));
}

// ---- poolers

// Between one client and two processes of the server, as a pooler of transactions is: what the
// client sends goes to one of them. Both were told how the client logged in.
class Pooler {
 public:
  explicit Pooler(int server) : server_(server), listener_(servers::listening_socket()) {
    port_ = servers::port_of(listener_);
    thread_ = std::thread([this] { serve(); });
  }
  ~Pooler() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  Pooler(const Pooler&) = delete;
  Pooler& operator=(const Pooler&) = delete;

  [[nodiscard]] std::string url(const std::string& database) const {
    return "postgresql://postgres@127.0.0.1:" + std::to_string(port_) + "/" + database +
           "?sslmode=disable&gssencmode=disable";
  }
  // From now on, when no statement is under way.
  void use(std::size_t backend) { used_ = backend; }

 private:
  // Until the client closes its connection; then for the next one.
  void serve() {
    for (int client = -1; (client = ::accept(listener_, nullptr, nullptr)) >= 0;) {
      std::array<int, 2> backends{connected(), connected()};
      std::string login;
      receive(client, login);
      for (const int backend : backends) {
        static_cast<void>(::send(backend, login.data(), login.size(), MSG_NOSIGNAL));
        std::string answer;
        // Ready for the first statement, outside of a transaction.
        while (!answer.ends_with(std::string("Z\0\0\0\5I", 6)) && receive(backend, answer)) {
        }
        if (backend == backends[0])
          static_cast<void>(::send(client, answer.data(), answer.size(), MSG_NOSIGNAL));
      }
      while (pass_on(client, backends)) {
      }
      for (const int fd : {client, backends[0], backends[1]}) ::close(fd);
    }
  }
  // False: one of them is closed.
  bool pass_on(int client, const std::array<int, 2>& backends) {
    std::array<pollfd, 3> ready{pollfd{client, POLLIN, 0}, pollfd{backends[0], POLLIN, 0},
                                pollfd{backends[1], POLLIN, 0}};
    if (::poll(ready.data(), ready.size(), -1) < 0) return false;
    for (const pollfd& each : ready) {
      if (each.revents == 0) continue;
      std::string text;
      if (!receive(each.fd, text)) return false;
      const int to = each.fd == client ? backends[used_] : client;
      static_cast<void>(::send(to, text.data(), text.size(), MSG_NOSIGNAL));
    }
    return true;
  }
  static bool receive(int from, std::string& text) {
    std::array<char, 4096> some{};
    const ssize_t size = ::recv(from, some.data(), some.size(), 0);
    if (size > 0) text.append(some.data(), static_cast<std::size_t>(size));
    return size > 0;
  }
  [[nodiscard]] int connected() const {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = servers::loopback(server_);
    if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      std::abort();
    return fd;
  }

  const int server_;
  const int listener_;
  int port_ = 0;
  std::atomic<std::size_t> used_ = 0;
  std::thread thread_;
};

// The second process of the server has none of the settings, and all that the statement needs.
TEST(PostgresqlPoolers, AnotherProcessOfTheServerHandsNothingOut) {
  const PostgresqlServer& server = servers::postgresql_server();
  const auto made = with_counter(server.database("pooled"));
  Pooler pooler(server.port());
  const auto store = opened(pooler.url("pooled"));
  pooler.use(1);
  const auto refused = take(*store);
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("a connection pooler"));
  EXPECT_EQ(code_of(store->counters()->create("d", {1, 9})), Code::kFailedPrecondition);
  EXPECT_EQ(code_of(store->catalog()->define(SequenceDefinition{.name = "orders", .last = 9})),
            Code::kFailedPrecondition);
  // Nor is a raise or a close acknowledged, which the settings of that process may lose.
  EXPECT_EQ(code_of(store->counters()->raise("c", 5)), Code::kFailedPrecondition);
  const std::array<std::string, 1> counter = {"c"};
  EXPECT_EQ(code_of(store->counters()->close(counter)), Code::kFailedPrecondition);
  pooler.use(0);
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
}

// A connection that a pooler gives to others has neither our settings nor our statements.
TEST(PostgresqlPoolers, PgBouncerThatPoolsTransactionsIsRefusedAndLeftAsItWas) {
  const PostgresqlServer& server = servers::postgresql_server();
  const auto made = with_counter(server.database("bounced"));
  struct Pool {
    const char* mode;
    std::vector<std::string> settings;
  };
  for (const auto& [mode, settings] :
       std::vector<Pool>{{"transaction", {}},
                         {"transaction", {"server_round_robin = 1", "min_pool_size = 2"}},
                         {"statement", {}}}) {
    const servers::PgBouncer bouncer(server, mode, settings);
    for (const Access access : {Access::kReadWrite, Access::kReadOnly}) {
      const auto refused =
          Store::open(bouncer.url("bounced"), {.deadline = fakes::kPatient, .access = access});
      EXPECT_EQ(code_of(refused), Code::kFailedPrecondition) << mode;
      EXPECT_THAT(fakes::why(refused), HasSubstr("a connection pooler gives each transaction"));
    }
    for (int i = 0; i < 3; ++i) {  // each of the processes that it has
      const auto ask = [&](const std::string& sql) {
        return servers::ask_postgresql(bouncer.url("bounced"), sql);
      };
      EXPECT_EQ(ask("SELECT count(*) FROM pg_prepared_statements"), "0") << mode;
      EXPECT_EQ(ask("SHOW default_transaction_read_only"), "off");
      EXPECT_EQ(ask("SHOW search_path"), "\"$user\", public");
    }
  }
}

TEST(PostgresqlPoolers, PgBouncerThatPoolsSessionsServesAndKeepsNoStatement) {
  const PostgresqlServer& server = servers::postgresql_server();
  const auto made = with_counter(server.database("sessions"));
  const servers::PgBouncer bouncer(server, "session", {"server_reset_query ="});
  {
    const auto store = Store::open(bouncer.url("sessions"), {.deadline = fakes::kPatient});
    ASSERT_TRUE(store) << fakes::why(store);
    for (std::int64_t value = 1; value < 5; ++value) EXPECT_EQ(take(**store), (Range{value, 1, 1}));
  }
  EXPECT_EQ(servers::ask_postgresql(bouncer.url("sessions"),
                                    "SELECT count(*) FROM pg_prepared_statements"),
            "0");
  // There is no room for a second session beside the first.
  const servers::PgBouncer narrow(server, "session", {"default_pool_size = 1"});
  const auto store = Store::open(narrow.url("sessions"), {.deadline = fakes::kPatient});
  ASSERT_TRUE(store) << fakes::why(store);
  EXPECT_EQ(take(**store), (Range{5, 1, 1}));
}

// ---- fail-over

// A plain client, which knows nothing of timelines.
std::int64_t plain_next(const PostgresqlServer& server) {
  return std::stoll(server.run("UPDATE tickets SET next = next + 1 RETURNING next - 1", "ids"));
}

class PostgresqlPair : public testing::Test {
 protected:
  PostgresqlPair() {
    primary_.database("ids");
    primary_.run("CREATE TABLE tickets (next bigint); INSERT INTO tickets VALUES (1)", "ids");
  }
  // The primary dies, and the standby takes its place.
  void fail_over() {
    primary_.kill();
    standby_.promote();
  }
  // ".../ids" on both, so that a handle finds the one that is the primary.
  [[nodiscard]] std::string url() const {
    return "postgresql://postgres@127.0.0.1:" + std::to_string(primary_.port()) +
           ",127.0.0.1:" + std::to_string(standby_.port()) + "/ids";
  }

  PostgresqlServer primary_;
  PostgresqlServer standby_{PostgresqlServer::StandbyOf{primary_}};
};

TEST_F(PostgresqlPair, AStandbyIsRefusedAndPassedOver) {
  with_counter(primary_.url("ids"));
  standby_.catch_up(primary_);
  const auto refused = Store::open(standby_.url("ids"));
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("is a standby"));
  const std::string turned = "postgresql://postgres@127.0.0.1:" + std::to_string(standby_.port()) +
                             ",127.0.0.1:" + std::to_string(primary_.port()) + "/ids";
  const auto store = opened(turned);
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
}

TEST_F(PostgresqlPair, OfAStandbyThatLaggedAPlainClientRepeatsAndIdmintDoesNot) {
  const auto store = with_counter(url());
  const std::vector<std::int64_t> keys = {1, 2};
  ASSERT_TRUE(store->unique_index()->create_space("s"));
  ASSERT_TRUE(store->leases()->create_pool("p", 1));
  ASSERT_TRUE(create_sequence(*store, {.name = "orders"}));
  const LeaseRequest request{.token = Uuid(Uuid::Bytes{1}), .now = 100, .max_drift = 1000};
  EXPECT_TRUE(take(*store));
  standby_.catch_up(primary_);
  standby_.cut_off();
  const std::int64_t plain = plain_next(primary_);
  EXPECT_EQ(take(*store), (Range{2, 1, 1}));
  EXPECT_TRUE(store->unique_index()->insert("s", keys));
  const Result<Lease> lease = store->leases()->acquire("p", request);
  ASSERT_TRUE(lease) << lease.error().message();

  fail_over();
  EXPECT_EQ(plain_next(standby_), plain) << "the plain client repeats";
  const auto expect_refused = [](const auto& result) {
    EXPECT_EQ(code_of(result), Code::kFailedPrecondition);
    EXPECT_THAT(fakes::why(result), HasSubstr("a standby was promoted"));
  };
  // The first call may learn that its connection is gone.
  EXPECT_TRUE(eventually([&] { return code_of(take(*store)) == Code::kFailedPrecondition; }));
  expect_refused(take(*store));
  expect_refused(store->unique_index()->insert("s", keys));
  expect_refused(store->leases()->acquire("p", request));
  expect_refused(store->leases()->extend("p", *lease, lease->to + 5, Uuid(Uuid::Bytes{2}), {}));
  expect_refused(store->counters()->create("d", {1, 9}));
  expect_refused(store->unique_index()->create_space("t"));
  expect_refused(store->leases()->create_pool("q", 1));
  expect_refused(store->catalog()->define(SequenceDefinition{"more"}));
  EXPECT_EQ(store->counters()->peek("c")->next, 2) << "it can be read";

  const auto fresh = opened(url());
  const std::optional<Error> doubt = fresh->doubt();
  ASSERT_TRUE(doubt);
  EXPECT_EQ(doubt->code, Code::kFailedPrecondition);
  EXPECT_EQ(doubt->advice.remedy, Remedy::kRaiseStore);
  expect_refused(take(*fresh));
  ASSERT_EQ(fresh->counters()->raise("c", 10), 10);
  expect_refused(take(*fresh));
  const auto raised = raise_all(*fresh, 10);
  ASSERT_TRUE(raised) << raised.error().message();
  EXPECT_FALSE(fresh->doubt());
  EXPECT_EQ(take(*fresh), (Range{10, 1, 1}));
  EXPECT_EQ(take(*store), (Range{11, 1, 1})) << "the others go on too";
}

// The server tells a commit whose wait for the standby ends early as a success, with a warning.
TEST_F(PostgresqlPair, ACommitThatCeasedToWaitForItsStandbyIsUnknown) {
  primary_.set("synchronous_standby_names", "standby");
  const auto store = with_counter(url());
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  standby_.cut_off();
  const std::string waits = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
  const auto when_it_waits = [&](const std::string& sql) {
    auto next = std::async(std::launch::async, [&] { return take(*store); });
    EXPECT_TRUE(eventually([&] { return primary_.ask("SELECT count(*) " + waits) == "1"; }));
    primary_.run(sql);
    return next.get();
  };
  const auto cancelled = when_it_waits("SELECT pg_cancel_backend(pid) " + waits);
  EXPECT_EQ(code_of(cancelled), Code::kUnknown);
  EXPECT_THAT(fakes::why(cancelled), HasSubstr("may be lost when a standby takes its place"));
  EXPECT_EQ(store->counters()->peek("c")->next, 3) << "it was done, on the primary";
  const auto terminated = when_it_waits("SELECT pg_terminate_backend(pid) " + waits);
  EXPECT_EQ(code_of(terminated), Code::kUnknown) << fakes::why(terminated);
}

TEST(PostgresqlCopies, OnAnotherClusterItIsInDoubtUntilItIsSettled) {
  const PostgresqlServer& server = servers::postgresql_server();
  const std::string url = server.database("copied");
  with_counter(url);
  server.run("UPDATE idmint.store SET system = '1'", "copied");  // as a dump has it elsewhere
  const auto store = opened(url);
  const auto refused = take(*store);
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("it is a copy"));
  ASSERT_TRUE(store->doubt());
  const auto other = opened(url);
  EXPECT_FALSE(take(*other));
  ASSERT_TRUE(store->settle(Store::Settle::kOnlyMoved));
  EXPECT_FALSE(store->doubt());
  EXPECT_EQ(take(*other), (Range{1, 1, 1}));
}

// Neither the cluster nor the timeline tells of these.
class PostgresqlCopy : public testing::Test {
 protected:
  void expect_in_doubt(const Result<Range>& refused, const std::string& why) {
    EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
    EXPECT_THAT(fakes::why(refused), HasSubstr(why));
  }
  // Nobody is connected to it then.
  void let_go_of(const std::string& database) {
    const std::string them = "FROM pg_stat_activity WHERE datname = '" + database + "'";
    EXPECT_TRUE(eventually([&] {
      server_.run("SELECT pg_terminate_backend(pid) " + them);
      return server_.run("SELECT count(*) " + them) == "0";
    }));
  }

  // The database of the store is called "old" then.
  void put_a_copy_in_its_place() {
    let_go_of("ids");
    server_.run("CREATE DATABASE copy TEMPLATE ids");
    EXPECT_TRUE(eventually([&] { return take(*store_).has_value(); }));
    let_go_of("ids");
    server_.run("ALTER DATABASE ids RENAME TO old");
    server_.run("ALTER DATABASE copy RENAME TO ids");
  }

  const PostgresqlServer server_{};
  const std::string url_ = server_.database("ids");
  const std::unique_ptr<Store> store_ = with_counter(url_);
};

TEST_F(PostgresqlCopy, ADatabaseMadeFromItsOwnIsInDoubt) {
  EXPECT_EQ(take(*store_), (Range{1, 1, 1}));
  let_go_of("ids");
  server_.run("CREATE DATABASE copy TEMPLATE ids");
  const auto copy = opened(server_.url("copy"));
  expect_in_doubt(take(*copy), "it is in another database than before");
  EXPECT_TRUE(eventually([&] { return take(*store_).has_value(); })) << "the original goes on";
  ASSERT_TRUE(copy->settle(Store::Settle::kOnlyMoved));
  EXPECT_EQ(take(*copy), (Range{2, 1, 1}));
}

TEST_F(PostgresqlCopy, DatabasesRenamedUnderARunningProgramAreNoticed) {
  EXPECT_EQ(take(*store_), (Range{1, 1, 1}));
  put_a_copy_in_its_place();
  EXPECT_TRUE(eventually([&] { return code_of(take(*store_)) == Code::kFailedPrecondition; }));
  expect_in_doubt(take(*store_), "it is in another database than before");
  EXPECT_TRUE(take(*opened(server_.url("old")))) << "a new name alone is none of this";
}

// By one URL, at different times: what this host was given by one is no evidence about the other.
TEST_F(PostgresqlCopy, InItsPlaceItIsAnotherStoreForThisHost) {
  const std::string name = store_->name_on_host();
  EXPECT_EQ(opened(url_)->name_on_host(), name);
  put_a_copy_in_its_place();
  EXPECT_NE(opened(url_)->name_on_host(), name);
}

TEST_F(PostgresqlCopy, ARestoredDumpIsInDoubtWhereverItIs) {
  EXPECT_EQ(take(*store_), (Range{1, 1, 1}));
  server_.database("other");
  server_.restore("ids", "other");
  const auto other = opened(server_.url("other"));
  expect_in_doubt(take(*other), "it is in another database than before");
  // Into its own place, under a program that has a connection.
  EXPECT_EQ(take(*store_), (Range{2, 1, 1}));
  EXPECT_EQ(take(*store_), (Range{3, 1, 1}));
  ASSERT_TRUE(other->settle());
  server_.run("DROP SCHEMA idmint CASCADE", "ids");
  server_.restore("other", "ids");
  server_.run(
      "UPDATE idmint.store SET database = (SELECT oid FROM pg_database WHERE datname = "
      "'ids')",
      "ids");  // as if it were a dump of its own
  expect_in_doubt(take(*store_), "its tables were made anew");
  expect_in_doubt(take(*opened(url_)), "its tables were made anew");
  ASSERT_EQ(store_->counters()->raise("c", 50), 50);
  ASSERT_TRUE(store_->settle());
  EXPECT_EQ(take(*store_), (Range{50, 1, 1}));
}

// As pg_dump --clean of it alone does. The view is not in the way.
TEST_F(PostgresqlCopy, EachTableThatIsMadeAnewAloneIsInDoubt) {
  std::int64_t value = 1;
  for (const std::string table :
       {"counters", "claims", "claimed", "workers", "definitions", "spaces", "pools"}) {
    EXPECT_EQ(take(*store_), (Range{value, 1, 1}));
    server_.run("ALTER TABLE idmint." + table + " RENAME TO old; CREATE TABLE idmint." + table +
                    " (LIKE idmint.old INCLUDING ALL); INSERT INTO idmint." + table +
                    " SELECT * FROM idmint.old; DROP TABLE idmint.old",
                "ids");
    expect_in_doubt(take(*store_), "its tables were made anew");
    const auto fresh = opened(url_);
    expect_in_doubt(take(*fresh), "its tables were made anew");
    ASSERT_TRUE(fresh->doubt()) << table;
    value += 10;
    ASSERT_EQ(fresh->counters()->raise("c", value), value);
    ASSERT_TRUE(fresh->settle());
    EXPECT_FALSE(store_->doubt()) << table;
  }
  EXPECT_EQ(take(*store_), (Range{value, 1, 1}));
}

TEST_F(PostgresqlCopy, WhatOperatorsDoToTablesIsNoCopy) {
  std::int64_t value = 0;
  for (const std::string act :
       {"VACUUM FULL", "VACUUM FULL idmint.store", "REINDEX SCHEMA idmint", "ANALYZE",
        "CLUSTER idmint.store USING store_pkey",
        "ALTER TABLE idmint.store ALTER COLUMN schema TYPE bigint",
        "ALTER TABLE idmint.store ADD COLUMN note text; ALTER TABLE idmint.store DROP COLUMN note",
        "ALTER TABLE idmint.store SET UNLOGGED; ALTER TABLE idmint.store SET LOGGED",
        "ALTER SCHEMA idmint RENAME TO away; ALTER SCHEMA away RENAME TO idmint", "CHECKPOINT",
        "VACUUM FULL idmint.counters", "CLUSTER idmint.counters USING counters_pkey",
        "ALTER TABLE idmint.counters ALTER COLUMN closed TYPE text;"
        " ALTER TABLE idmint.counters ALTER COLUMN closed TYPE boolean USING closed::boolean",
        "ALTER TABLE idmint.claims SET UNLOGGED; ALTER TABLE idmint.claims SET LOGGED",
        "CREATE TABLE idmint.kept AS SELECT * FROM idmint.counters; DROP TABLE idmint.kept"}) {
    server_.run(act, "ids");
    ++value;
    EXPECT_EQ(take(*store_), (Range{value, 1, 1})) << act;
    EXPECT_FALSE(opened(url_)->doubt()) << act;
  }
}

// ---- what was added to the record of the store

void make_older(const PostgresqlServer& server, const std::string& database) {
  server.run(
      "DROP VIEW idmint.trusted; ALTER TABLE idmint.store DROP COLUMN database,"
      " DROP COLUMN relation, DROP COLUMN relations, DROP COLUMN gone_back, DROP COLUMN settled;"
      "CREATE VIEW idmint.trusted AS SELECT true AS trusted FROM idmint.store WHERE timeline ="
      " substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)",
      database);
}

TEST(PostgresqlUpgrade, AnOlderStoreGoesOnAndItsOwnerUpgradesIt) {
  const PostgresqlServer server;
  const std::string url = server.database("ids");
  const auto early = with_counter(url);
  make_older(server, "ids");
  server.run(
      "CREATE ROLE minter LOGIN; GRANT USAGE ON SCHEMA idmint TO minter;"
      "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA idmint TO minter",
      "ids");
  const auto columns = [&] {
    return server.run(
        "SELECT count(*) FROM pg_attribute WHERE attrelid = 'idmint.store'::regclass"
        " AND attname IN ('database', 'relation', 'relations', 'gone_back', 'settled')",
        "ids");
  };
  const auto minter = Store::open(server.url("ids", "minter"), {.deadline = fakes::kPatient});
  ASSERT_TRUE(minter) << fakes::why(minter);
  EXPECT_EQ(take(**minter), (Range{1, 1, 1}));
  EXPECT_EQ((*minter)->settle_count(), 0);
  server.run("UPDATE idmint.store SET timeline = '000000FF'", "ids");
  EXPECT_FALSE(take(**minter));
  ASSERT_TRUE((*minter)->settle());
  EXPECT_EQ(take(**minter), (Range{2, 1, 1}));
  EXPECT_EQ(columns(), "0") << "who owns it not cannot, and need not";
  {
    const servers::Asking dump = servers::connected_postgresql(url);
    dump("BEGIN");
    dump("SELECT * FROM idmint.store");
    EXPECT_EQ(take(*opened(url)), (Range{3, 1, 1}));
    EXPECT_EQ(columns(), "0") << "nobody waits for a dump";
  }
  const auto read_only = Store::open(url, {.access = Access::kReadOnly});
  EXPECT_TRUE(read_only) << fakes::why(read_only);
  EXPECT_EQ(columns(), "0");
  const auto owner = opened(url);
  EXPECT_EQ(columns(), "5");
  EXPECT_EQ(take(*owner), (Range{4, 1, 1}));
  EXPECT_EQ(take(**minter), (Range{5, 1, 1}));
  EXPECT_EQ(take(*early), (Range{6, 1, 1}));
  server.run("UPDATE idmint.store SET relation = relation::bigint + 1", "ids");
  EXPECT_EQ(code_of(take(*early)), Code::kFailedPrecondition) << "it is compared from now on";
}

TEST(PostgresqlUpgrade, AStoreWithoutTheOtherTablesGoesOnAndItsOwnerAddsThem) {
  const PostgresqlServer server;
  const std::string url = server.database("ids");
  const auto early = with_counter(url);
  server.run(
      "DROP VIEW idmint.trusted; ALTER TABLE idmint.store DROP COLUMN relations;"
      "CREATE VIEW idmint.trusted AS SELECT true AS trusted FROM idmint.store WHERE timeline ="
      " substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) AND relation = tableoid"
      " AND gone_back = '';"
      "CREATE ROLE minter LOGIN; GRANT USAGE ON SCHEMA idmint TO minter;"
      "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA idmint TO minter",
      "ids");
  const auto minter = Store::open(server.url("ids", "minter"), {.deadline = fakes::kPatient});
  ASSERT_TRUE(minter) << fakes::why(minter);
  EXPECT_EQ(take(**minter), (Range{1, 1, 1}));
  server.run("UPDATE idmint.store SET timeline = '000000FF'", "ids");
  EXPECT_FALSE(take(**minter));
  ASSERT_TRUE((*minter)->settle());
  EXPECT_GT((*minter)->settle_count(), 0);
  EXPECT_EQ(take(**minter), (Range{2, 1, 1}));
  const auto owner = opened(url);
  EXPECT_EQ(take(*owner), (Range{3, 1, 1}));
  EXPECT_EQ(take(**minter), (Range{4, 1, 1}));
  EXPECT_EQ(take(*early), (Range{5, 1, 1}));
  server.run("UPDATE idmint.store SET relations[1] = relations[1]::bigint + 1", "ids");
  EXPECT_EQ(code_of(take(**minter)), Code::kFailedPrecondition) << "they are compared from now on";
  ASSERT_TRUE((*minter)->settle());
  EXPECT_EQ(take(*early), (Range{6, 1, 1}));
}

// A user who does not own it cannot upgrade it.
TEST(PostgresqlUpgrade, AnOlderStoreThatTookThePlaceIsNotUsed) {
  const PostgresqlServer server;
  const std::string url = server.database("ids");
  with_counter(url);
  make_older(server, "ids");
  server.run(
      "CREATE ROLE minter LOGIN; GRANT USAGE ON SCHEMA idmint TO minter;"
      "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA idmint TO minter",
      "ids");
  const auto minter = opened(server.url("ids", "minter"));
  for (std::int64_t value = 1; value < 4; ++value) EXPECT_EQ(take(*minter), (Range{value, 1, 1}));
  server.run("UPDATE idmint.store SET id = gen_random_uuid()", "ids");
  const auto refused = take(*minter);
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("another store is there now"));
}

TEST(PostgresqlTrust, EachSettleCountsAndAnOlderStateShowsALowerCount) {
  const PostgresqlServer server;
  const std::string url = server.database("ids");
  const auto store = with_counter(url);
  const auto other = opened(url);
  EXPECT_EQ(store->settle_count(), 0);
  ASSERT_TRUE(store->settle());
  EXPECT_EQ(store->settle_count(), 0) << "there was no doubt";
  server.database("copy");
  server.restore("ids", "copy");
  server.run("UPDATE idmint.store SET timeline = '000000FF'", "ids");
  ASSERT_TRUE(store->settle(Store::Settle::kOnlyMoved));
  const std::int64_t once = store->settle_count();
  EXPECT_GT(once, 0);
  EXPECT_TRUE(take(*other));
  EXPECT_FALSE(other->doubt());
  EXPECT_EQ(other->settle_count(), once);
  EXPECT_EQ(opened(server.url("copy"))->settle_count(), 0);
  server.run("UPDATE idmint.store SET timeline = '000000FF'", "ids");
  ASSERT_TRUE(store->settle());
  EXPECT_GT(store->settle_count(), once);
  EXPECT_EQ(opened(url)->settle_count(), store->settle_count());
}

// One process saw that values are missing.
TEST(PostgresqlTrust, AMarkOfValuesThatAreMissingStopsAllUntilTheyArePassed) {
  const PostgresqlServer server;
  const std::string url = server.database("ids");
  const auto store = with_counter(url);
  const auto other = opened(url);
  const std::string why = "it gave 5, and had given 9 'here'";
  const auto mark = [&](Store& by, std::int64_t settled) {
    return by.mark_gone_back(why, settled, SteadyTime::max());
  };
  ASSERT_TRUE(mark(*store, store->settle_count() + 1));
  EXPECT_TRUE(take(*other)) << "it is of another count";
  server.run(
      "CREATE ROLE minter LOGIN; GRANT USAGE ON SCHEMA idmint TO minter;"
      "GRANT SELECT ON ALL TABLES IN SCHEMA idmint TO minter;"
      "GRANT UPDATE ON idmint.counters TO minter",
      "ids");
  const auto minter =
      Store::open(server.url("ids", "minter"), {.deadline = fakes::kPatient}).value();
  EXPECT_EQ(code_of(mark(*minter, 0)), Code::kPermissionDenied);
  server.run("GRANT UPDATE (gone_back) ON idmint.store TO minter", "ids");
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
TEST(PostgresqlTrust, AProcessThatFindsTheStoreBehindItsOwnValuesStopsAll) {
  const PostgresqlServer server;
  const std::string url = server.database("ids");
  const auto store = opened(url);
  const auto other = opened(url);
  ASSERT_TRUE(create_sequence(*store, {.name = "orders"}));
  const auto sequence = Sequence::open(*store, "orders");
  ASSERT_TRUE(sequence) << fakes::why(sequence);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE((*sequence)->next());
  server.run("UPDATE idmint.counters SET next = first + 1", "ids");
  EXPECT_EQ(code_of((*sequence)->next()), Code::kDataLoss);
  const auto refused = other->counters()->advance("orders", 1, Take::kAll);
  EXPECT_EQ(code_of(refused), Code::kDataLoss);
  EXPECT_THAT(fakes::why(refused), HasSubstr("sequence orders"));
  ASSERT_TRUE(raise_all(*other, 100));
  EXPECT_EQ(other->counters()->advance("orders", 1, Take::kAll)->first, 101);
}

}  // namespace
}  // namespace idmint
