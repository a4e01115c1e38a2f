// The limits of what one client may make the daemon hold and do, whatever it sends. A command whose
// client loses its token meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <string_view>

#include "server/connection.h"
#include "server/redis_session.h"
#include "server/server.h"
#include "tests/fakes/gated_server.h"

namespace idmint::server {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class BoundsTest : public fakes::GatedServer {
 protected:
  BoundsTest() { EXPECT_TRUE(create_sequence(*store_, {.name = "stock"})); }
  static std::vector<TokenSettings> tokens(const std::vector<std::string>& names) {
    std::vector<TokenSettings> all;
    for (const std::string& name : names)
      all.push_back({.name = name, .hash = hash_of(name), .allow = {*scope_of("all orders")}});
    return all;
  }
  static std::size_t unsent(Client& web) {
    const std::string page = web.http("GET /metrics").body;
    constexpr std::string_view name = "\nidmint_unsent_bytes ";
    return std::stoul(page.substr(page.find(name) + name.size()));
  }
};

// Text behind a reply that waits is bounded as that which the client does not read.
TEST_F(BoundsTest, RepliesBehindOneThatWaitsAreBounded) {
  const Running server(options());
  Client other(server);
  Client web(server, Protocol::kHttp);
  EXPECT_EQ(other.ask("INCR orders"), ":1");
  for (const std::string_view command : {"ID.NEXT uuid7 COUNT 10000\r\n", "PING\r\n"}) {
    store_->shut_gate();
    const std::size_t advances = store_->advances().size();
    Client greedy(server);
    greedy.send("INCR orders\r\n");
    store_->wait_for_advances(advances + 1);
    std::string many;
    while (many.size() < std::size_t{64} * 1024) many += command;
    // Until it is not read from any more: its socket stays full over many turns of the loop.
    constexpr std::size_t far_more_than_buffers = std::size_t{256} << 20;
    std::size_t sent = 0;
    for (int full = 0; full < 50 && sent < far_more_than_buffers;) {
      if (greedy.send_some(many)) {
        sent += many.size();
        full = 0;
      } else {
        ++full;
      }
      ASSERT_EQ(other.ask("PING"), "+PONG");
    }
    EXPECT_LT(sent, far_more_than_buffers);
    const std::size_t of_one_command = std::size_t{43} * 10'000;
    const std::size_t input = std::size_t{64} * 1024;
    EXPECT_GE(unsent(web), Connection::kMostUnsent) << "they are counted";
    EXPECT_LE(unsent(web), Connection::kMostUnsent + of_one_command + input);
    store_->open_gate();
    EXPECT_THAT(greedy.line(), StartsWith(":"));
    EXPECT_THAT(greedy.line(), testing::AnyOf("+PONG", "*10000"));
  }
}

TEST_F(BoundsTest, PatternsAreBounded) {
  const Running server(options());
  Client client(server);
  const std::string longest(RedisSession::kLongestPattern, 'x');
  EXPECT_THAT(client.ask("KEYS " + longest), StartsWith("*"));
  Client other(server);
  for (const std::string command : {"KEYS ", "SCAN 0 MATCH ", "CONFIG GET "})
    for (const std::string& pattern : {longest + "x", std::string(9, '*')})
      EXPECT_THAT(other.ask(command + pattern), StartsWith("-ERR a pattern has at most 256"));
}

// Otherwise it could forge lines of CLIENT INFO.
TEST_F(BoundsTest, ANameOfAClientIsOneWord) {
  const Running server(options());
  Client client(server);
  const std::string longest(RedisSession::kLongestName, 'n');
  EXPECT_EQ(client.ask("CLIENT SETNAME " + longest), "+OK");
  for (const std::string& name :
       {longest + "n", std::string(R"("a b")"), std::string(R"("a\r\nb")")}) {
    EXPECT_THAT(client.ask("CLIENT SETNAME " + name), StartsWith("-ERR Client names")) << name;
    EXPECT_THAT(client.ask("HELLO 2 SETNAME " + name), StartsWith("-ERR Client names")) << name;
  }
  EXPECT_EQ(client.ask_text("CLIENT GETNAME"), longest);
}

TEST_F(BoundsTest, WritesOfRedisAreRefusedWithTheirReason) {
  const Running server(options());
  Client client(server);
  for (const std::string name :
       {"COPY", "GETEX", "MOVE", "MSETNX", "PERSIST", "PEXPIREAT", "PSETEX", "RENAMENX", "SETBIT"})
    EXPECT_THAT(client.ask(name + " orders"), StartsWith("-ERR " + name + " is refused: "));
}

TEST_F(BoundsTest, ManyNamesShareOneDeadline) {
  std::atomic<std::chrono::nanoseconds> ahead{};
  ServerOptions moved = options();
  moved.now = [&ahead] { return std::chrono::steady_clock::now() + ahead.load(); };
  const Running server(std::move(moved));
  Client client(server);
  EXPECT_EQ(client.ask("GET orders"), "$-1");
  for (const std::string command : {"MGET", "EXISTS"}) {
    store_->meanwhile(1, [&ahead](auto&) { ahead = ahead.load() + 2 * kNever; });
    const std::size_t calls = store_->calls();
    EXPECT_THAT(client.ask(command + " orders orders orders orders orders orders orders"),
                AllOf(StartsWith("-UNAVAILABLE "), HasSubstr("1 of 7 names")));
    EXPECT_LE(store_->calls(), calls + 3) << "no further name is read";
  }
}

// ---- who asks

// How many names there are that it does not see is told nobody.
TEST_F(BoundsTest, ACursorCountsNamesThatTheClientSees) {
  constexpr int many = 1500;
  for (int i = 0; i < many; ++i) store_->put(SequenceDefinition{.name = "a" + std::to_string(i)});
  ServerOptions secured = options();
  secured.tokens = tokens({"web"});
  const Running server(std::move(secured));
  Client client(server);
  EXPECT_EQ(client.ask("AUTH web"), "+OK");
  client.send("SCAN 0\r\n");
  EXPECT_THAT(client.lines(6), ElementsAre("*2", "$1", "0", "*1", "$6", "orders"));
}

TEST_F(BoundsTest, TheLogNamesWhoAskedAndNotWhoCameAfter) {
  testing::internal::CaptureStderr();
  {
    Log log(LogSettings{.level = LogSettings::Level::kDebug});
    ServerOptions secured = options();
    secured.tokens = tokens({"first", "second"});
    secured.log = &log;
    Running server(std::move(secured));
    Client client(server);
    Client other(server);
    EXPECT_EQ(client.ask("AUTH first"), "+OK");
    EXPECT_EQ(client.ask("INCR orders"), ":1");
    store_->shut_gate();
    client.send("INCR orders\r\nAUTH second\r\n");
    store_->wait_for_advances(2);
    EXPECT_THAT(other.ask("PING"), StartsWith("-NOAUTH"));  // so the loop has seen AUTH, too
    store_->open_gate();
    EXPECT_EQ(client.line(), ":2");
    EXPECT_EQ(client.line(), "+OK");
    store_->shut_gate();
    client.send("INCR orders\r\nPING\r\n");
    store_->wait_for_advances(3);
    ASSERT_TRUE(server.change({}, tokens({"third"})));
    client.send("PING\r\n");
    EXPECT_THAT(other.ask("PING"), StartsWith("-NOAUTH"));
    store_->open_gate();
    EXPECT_EQ(client.line(), ":3");
    EXPECT_EQ(client.line(), "+PONG");
    EXPECT_THAT(client.line(), StartsWith("-NOAUTH"));
    server.stop();
    log.flush();
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("first=1 last=1 count=1 token=first"),
                    HasSubstr("first=2 last=2 count=1 token=first"),
                    HasSubstr("first=3 last=3 count=1 token=second")));
}

TEST_F(BoundsTest, ATokenThatIsGoneWhileItsSourceIsOpenedTakesNothing) {
  ServerOptions secured = options();
  secured.tokens = tokens({"web"});
  Running server(std::move(secured));
  Client client(server);
  EXPECT_EQ(client.ask("AUTH web"), "+OK");
  std::promise<void> reached;
  std::promise<void> changed;
  store_->meanwhile(1, [&](auto&) {
    reached.set_value();
    changed.get_future().wait();
  });
  client.send("INCR orders\r\n");
  reached.get_future().wait();
  EXPECT_TRUE(server.change({}, tokens({"other"})));
  changed.set_value();
  EXPECT_THAT(client.line(), StartsWith("-NOAUTH"));
  EXPECT_EQ(store_->advances().size(), 0U);
}

}  // namespace
}  // namespace idmint::server
