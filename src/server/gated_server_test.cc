// The daemon over a store whose calls a test holds up: rounds, barriers, limits, and the end.
#include "tests/fakes/gated_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "idmint/sequence.h"
#include "server/redis_session.h"
#include "server/server.h"
#include "server/service.h"
#include "store/counter_store.h"

namespace idmint::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class GatedServerTest : public fakes::GatedServer {
 protected:
  // Until the server has taken so many commands and requests, besides those that ask for that.
  static void wait_until_taken(const Running& server, std::int64_t count) {
    Client probe(server);
    for (std::int64_t asked = 1;; ++asked) {
      const std::string head = probe.ask("INFO");
      const std::string info = probe.bytes(std::stoul(head.substr(1)) + 2);
      constexpr std::string_view name = "total_commands_processed:";
      if (std::stoll(info.substr(info.find(name) + name.size())) - asked >= count) break;
    }
  }
};

// Each connection may have 1024 calls that wait, so a hundred of them come to the limit of all.
TEST_F(GatedServerTest, CallsThatWaitHaveALimitInAll) {
  const Running server(options());
  Client first(server);
  EXPECT_EQ(first.ask("INCR orders"), ":1");
  store_->shut_gate();
  constexpr std::size_t each = RedisSession::kMostPending;
  std::vector<std::unique_ptr<Client>> clients;
  std::string commands;
  for (std::size_t i = 0; i < each; ++i) commands += "INCR orders\r\n";
  std::int64_t sent = 0;
  for (std::size_t asked = 0; asked < kMostWaitingCalls + each; asked += each) {
    clients.push_back(std::make_unique<Client>(server));
    clients.back()->send(commands);
    sent += std::int64_t{each};
  }
  wait_until_taken(server, sent + 1);
  Client late(server, Protocol::kHttp);
  EXPECT_THAT(late.http("POST /v1/ids/uuid7").status, HasSubstr("200")) << "a format does not wait";
  const Client::Response refused = late.http("POST /v1/ids/orders");
  EXPECT_THAT(refused.status, HasSubstr("503"));
  EXPECT_THAT(refused.headers, testing::Contains("Retry-After: 1"));
  EXPECT_THAT(refused.body, HasSubstr("nothing was taken"));
  store_->open_gate();
  EXPECT_THAT(clients.front()->line(), StartsWith(":"));
}

TEST_F(GatedServerTest, CommandsThatWaitShareARound) {
  const Running server(options());
  Client client(server);
  Client other(server);
  EXPECT_EQ(client.ask("INCR orders"), ":1");
  store_->shut_gate();
  client.send("INCR orders\r\n");
  store_->wait_for_advances(2);
  client.send("INCR orders\r\nINCR orders\r\n");
  other.send("INCR orders\r\n");
  wait_until_taken(server, 5);
  store_->open_gate();
  EXPECT_EQ(client.line(), ":2");
  const std::vector<std::string> mine = client.lines(2);
  EXPECT_LT(mine[0], mine[1]);
  EXPECT_THAT(other.line(), StartsWith(":"));
  EXPECT_EQ(store_->advances().size(), 3U);
}

// The deadline of a command begins when it comes, not when those before it are answered.
TEST_F(GatedServerTest, ABarrierSharesItsDeadlineWithWhatItWaitsFor) {
  std::atomic<std::chrono::nanoseconds> ahead{};
  ServerOptions moved = options();
  moved.now = [&ahead] { return std::chrono::steady_clock::now() + ahead.load(); };
  const Running server(std::move(moved));
  Client client(server);
  Client other(server);
  EXPECT_EQ(client.ask("INCR orders"), ":1");
  for (const std::string barrier : {"GET orders", "MGET orders", "ID.PEEK orders", "KEYS *",
                                    "ID.RAISE orders 1000", "EXISTS orders"}) {
    store_->shut_gate();
    const std::size_t advances = store_->advances().size();
    client.send("INCR orders\r\n" + barrier + "\r\nPING\r\n");
    store_->wait_for_advances(advances + 1);
    EXPECT_EQ(other.ask("PING"), "+PONG");  // so the loop has seen the barrier, too
    ahead = ahead.load() + 2 * kNever;
    store_->open_gate();
    EXPECT_THAT(client.line(), StartsWith(":"));
    EXPECT_THAT(client.line(), StartsWith("-UNAVAILABLE ")) << barrier;
    EXPECT_EQ(client.line(), "+PONG");
  }
  EXPECT_EQ(client.ask_text("GET orders"), "7") << "nothing was raised, and this one is in time";
}

TEST_F(GatedServerTest, ADrainAnswersWhatWasTakenAndRefusesWhatComes) {
  Running server(options());
  Client client(server);
  EXPECT_EQ(client.ask("INCR orders"), ":1");
  store_->shut_gate();
  client.send("INCR orders\r\n");
  store_->wait_for_advances(2);
  server.ask_to_stop();
  while (server.takes_connections()) std::this_thread::yield();
  client.send("INCR orders\r\n");
  store_->open_gate();
  EXPECT_EQ(client.line(), ":2");
  EXPECT_THAT(client.rest(), testing::AnyOf("", StartsWith("-UNAVAILABLE ")));
  server.wait();
  EXPECT_EQ(store_->counters()->peek("orders")->next, 3);  // nothing was taken for it
}

// The time of a drain may be over while calls of the store are under way.
TEST_F(GatedServerTest, TheEndWaitsForCallsThatAreUnderWay) {
  EXPECT_TRUE(create_sequence(*store_, {.name = "few", .last = 9}));
  ServerOptions impatient = options();
  impatient.drain = std::chrono::milliseconds{1};
  Running server(std::move(impatient));
  Client client(server);
  Client other(server);
  EXPECT_EQ(client.ask("INCR few"), ":1");
  store_->shut_gate();
  other.send("INCR few\r\n");
  store_->wait_for_advances(2);
  server.ask_to_stop();
  std::thread opener([&] {
    while (server.takes_connections()) std::this_thread::yield();
    store_->open_gate();
  });
  server.stop();
  opener.join();
}

TEST_F(GatedServerTest, ADrainRunsATransactionToItsEnd) {
  Running server(options());
  Client client(server);
  EXPECT_EQ(client.ask("INCR orders"), ":1");
  store_->shut_gate();
  client.send("MULTI\r\nINCR orders\r\nGET orders\r\nINCR orders\r\nEXEC\r\nINCR orders\r\n");
  store_->wait_for_advances(2);
  server.ask_to_stop();
  store_->open_gate();
  EXPECT_THAT(client.lines(9),
              ElementsAre("+OK", "+QUEUED", "+QUEUED", "+QUEUED", "*3", ":2", "$1", "2", ":3"));
  const std::string rest = client.rest();  // it came before the end; whether it was taken is open
  EXPECT_THAT(rest, testing::AnyOf("", ":4\r\n", StartsWith("-UNAVAILABLE ")));
  server.wait();
}

TEST_F(GatedServerTest, AClientThatLeavesCostsNothingButItsValues) {
  const Running server(options());
  Client other(server);
  EXPECT_EQ(other.ask("INCR orders"), ":1");
  store_->shut_gate();
  {
    Client client(server);
    client.send("INCR orders\r\n");
    store_->wait_for_advances(2);
  }
  store_->open_gate();
  EXPECT_EQ(other.ask("INCR orders"), ":3");
}

TEST_F(GatedServerTest, AnErrorOfTheStoreIsToldAndTheNextCallSucceeds) {
  const Running server(options());
  Client client(server);
  Client web(server, Protocol::kHttp);
  EXPECT_EQ(client.ask("INCR orders"), ":1");
  store_->fail_next({.error = {Code::kUnknown, "no answer"}, .applied = true});
  EXPECT_THAT(client.ask("INCR orders"), StartsWith("-UNKNOWN "));
  store_->fail_next({.error = {Code::kUnavailable, "gone"}});
  const Client::Response response = web.http("POST /v1/ids/orders");
  EXPECT_EQ(response.status, "HTTP/1.1 503 Service Unavailable");
  EXPECT_THAT(response.headers, testing::Contains("Retry-After: 1"));
  EXPECT_THAT(response.body, HasSubstr(R"("may_have_been_applied":false)"));
  EXPECT_EQ(client.ask("INCR orders"), ":3");
}

}  // namespace
}  // namespace idmint::server
