// The daemon in this process, asked over its sockets.
#include "server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "idmint/mint.h"
#include "idmint/sequence.h"
#include "server/log.h"
#include "server/redis_session.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/running_server.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::server {
namespace {

using fakes::code_of;
using fakes::TempFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    create({.name = "orders"});
    create({.name = "few", .first = 5, .last = 7});
    create({.name = "held", .strategy = Strategy::kCached});
    create({.name = "mixed", .strategy = Strategy::kPermuted, .last = 999});
  }

  void create(const SequenceDefinition& definition) {
    MintOptions options{.store = url()};
    Mint mint(options);
    const auto made = mint.create(definition);
    ASSERT_TRUE(made) << made.error().message();
  }
  [[nodiscard]] std::string url() const { return "sqlite:" + folder_.path("ids.db"); }
  [[nodiscard]] ServerOptions options() const {
    ServerOptions options;
    options.stores.push_back({.mint = {.store = url()}});
    options.stores.back().mint.store_options.deadline = kNever;
    options.drain = kNever;
    return options;
  }

  TempFolder folder_;
};

// ---- the Redis protocol

TEST_F(ServerTest, TakesValuesInOrder) {
  const Running server(options());
  Client client(server);
  EXPECT_EQ(client.ask("INCR orders"), ":1");
  EXPECT_EQ(client.ask("incrby orders 10"), ":11");
  client.send("ID.RANGE orders 5\r\n");
  EXPECT_THAT(client.lines(3), ElementsAre("*2", ":12", ":16"));
  EXPECT_EQ(client.ask_text("GET orders"), "16");
  EXPECT_EQ(client.ask_text("ID.NEXT orders"), "17");
  client.send("ID.NEXT orders COUNT 2\r\n");
  EXPECT_THAT(client.lines(5), ElementsAre("*2", "$2", "18", "$2", "19"));
  EXPECT_EQ(client.ask("INCR held"), ":1");
  EXPECT_THAT(client.ask("INCR mixed"), StartsWith(":"));
}

TEST_F(ServerTest, APipelineIsAnsweredInItsOrder) {
  const Running server(options());
  Client client(server);
  std::string pipeline;
  constexpr int count = 5000;  // more than may wait at a time
  for (int i = 0; i < count; ++i) pipeline += "INCR orders\r\n";
  std::thread sender([&] { client.send(pipeline + "PING\r\n"); });
  for (int i = 1; i <= count; ++i) ASSERT_EQ(client.line(), ":" + std::to_string(i));
  EXPECT_EQ(client.line(), "+PONG");
  sender.join();
}

TEST_F(ServerTest, GetAndRaiseAreBarriers) {
  const Running server(options());
  Client client(server);
  client.send(
      "INCR orders\r\nINCR orders\r\nGET orders\r\nINCR orders\r\nID.RAISE orders 100\r\n"
      "INCR orders\r\nGET orders\r\n");
  EXPECT_THAT(client.lines(9),
              ElementsAre(":1", ":2", "$1", "2", ":3", ":101", ":101", "$3", "101"));
}

TEST_F(ServerTest, SaysWhyItRefuses) {
  create({.name = "third", .first = 2, .last = 1'000, .stride = 3});
  const Running server(options());
  Client client(server);
  EXPECT_THAT(client.ask("INCR orderz"),
              AllOf(StartsWith("-NOTFOUND "), HasSubstr("did you mean orders")));
  EXPECT_THAT(client.ask("INCR cards"),
              AllOf(StartsWith("-NOTFOUND "), HasSubstr("idmint create cards")));
  EXPECT_THAT(client.ask("INCR uuid7"), AllOf(StartsWith("-ERR "), HasSubstr("ID.NEXT uuid7")));
  EXPECT_THAT(client.ask("INCRBY orders 0"), HasSubstr("never goes down"));
  EXPECT_THAT(client.ask("INCRBY orders -3"), HasSubstr("never goes down"));
  EXPECT_THAT(client.ask("INCRBY orders x"), StartsWith("-ERR value is not an integer"));
  EXPECT_THAT(client.ask("INCRBY held 2"), HasSubstr("ID.NEXT held COUNT 2"));
  EXPECT_THAT(client.ask("INCRBY third 2"), HasSubstr("ID.NEXT third COUNT 2"));
  EXPECT_THAT(client.ask("ID.RANGE third 2"), HasSubstr("has a stride of 3"));
  EXPECT_EQ(client.ask("INCRBY third 1"), ":2");
  EXPECT_EQ(client.ask("INCR third"), ":5");
  client.send("GET third\r\n");
  EXPECT_THAT(client.lines(2), ElementsAre("$1", "5"));
  EXPECT_THAT(client.ask("GET mixed"), HasSubstr("ID.PEEK mixed"));
  EXPECT_THAT(client.ask("SET orders 1"), HasSubstr("never goes down"));
  EXPECT_THAT(client.ask("DEL orders"), HasSubstr("idmint retire"));
  EXPECT_THAT(client.ask("NOSUCH"), StartsWith("-ERR unknown command 'NOSUCH'"));
  EXPECT_THAT(client.ask("INCR"), StartsWith("-ERR wrong number of arguments for 'incr'"));
  EXPECT_THAT(client.ask("ID.NEXT orders COUNT 10001"), HasSubstr("at most 10000"));
  EXPECT_THAT(client.ask("AUTH secret"), StartsWith("-ERR AUTH was sent"));
  EXPECT_THAT(client.ask("SELECT 1"), StartsWith("-ERR DB index"));
  EXPECT_THAT(client.ask("WATCH orders"), StartsWith("-ERR WATCH is refused"));
  EXPECT_THAT(client.ask("HELLO 4"), StartsWith("-NOPROTO"));
  EXPECT_EQ(client.ask("INCR orders"), ":1");  // nothing was taken
}

TEST_F(ServerTest, APoolIsAnsweredInTheOrderOfItsCommands) {
  {
    Mint mint(MintOptions{.store = url()});
    ASSERT_TRUE(mint.create(PoolDefinition{.name = "web", .workers = 4}));
  }
  const Running server(options());
  {
    Client gone(server);  // before it has its answer
    gone.send("ID.NEXT web\r\n");
  }
  Client client(server);
  ASSERT_EQ(client.ask("CLIENT SETINFO LIB-NAME redis-py"), "+OK");  // it holds 64 bits
  client.send("ID.NEXT web\r\nPING\r\nID.NEXT web COUNT 2\r\nINCR web\r\nPING\r\n");
  EXPECT_EQ(client.line(), "$19");
  const std::string first = client.line();
  EXPECT_EQ(client.line(), "+PONG");
  EXPECT_THAT(client.lines(2), ElementsAre("*2", "$19"));
  const std::string second = client.line();
  EXPECT_EQ(client.line(), "$19");
  const std::string third = client.line();
  const std::string fourth = client.line();
  EXPECT_EQ(client.line(), "+PONG");
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
  EXPECT_LT(":" + third, fourth);
}

TEST_F(ServerTest, GetBeforeTheFirstUseIsNull) {
  const Running server(options());
  Client client(server);
  EXPECT_EQ(client.ask("GET orders"), "$-1");
  client.send("MGET orders few nosuch mixed\r\n");
  EXPECT_THAT(client.lines(5), ElementsAre("*4", "$-1", "$-1", "$-1", "$-1"));
}

TEST_F(ServerTest, AUsedUpSequenceGoesOnWhenItIsExtended) {
  const Running server(options());
  Client client(server);
  client.send("INCR few\r\nINCR few\r\nINCR few\r\nINCR few\r\n");
  EXPECT_THAT(client.lines(3), ElementsAre(":5", ":6", ":7"));
  EXPECT_THAT(client.line(), StartsWith("-OUTOFRANGE "));
  {
    Mint mint(MintOptions{.store = url()});
    ASSERT_TRUE(mint.alter("few", 8));
  }
  // For a second the answer is from memory; the value that was added is not lost meanwhile.
  std::string reply;
  do reply = client.ask("INCR few");
  while (reply.starts_with("-OUTOFRANGE "));
  EXPECT_EQ(reply, ":8");
}

// Clients of the daemon cannot set options of the command.
TEST_F(ServerTest, AFormatThatNeedsOptionsNamesNone) {
  const Running server(options());
  Client client(server);
  EXPECT_EQ(
      client.ask("ID.NEXT snowflake"),
      "-ERR snowflake needs a worker id that no other generator uses: have one leased, from a "
      "pool");
  EXPECT_EQ(client.ask("ID.NEXT uuid2"),
            "-ERR uuid2 is an id of a person, group or organization of this host: it needs its "
            "domain and its local id");
}

// To try again would not help.
TEST_F(ServerTest, ARandomSequenceThatIsFullIsUsedUp) {
  create({.name = "coin", .strategy = Strategy::kRandom, .last = 2});
  const Running server(options());
  Client redis(server);
  Client http(server, Protocol::kHttp);
  for (int i = 0; i < 2; ++i) EXPECT_THAT(redis.ask("INCR coin"), StartsWith(":"));
  EXPECT_THAT(redis.ask("INCR coin"), StartsWith("-OUTOFRANGE "));
  const auto refused = http.http("POST /v1/ids/coin");
  EXPECT_THAT(refused.status, HasSubstr("409"));
  EXPECT_THAT(refused.headers, Not(testing::Contains(StartsWith("Retry-After"))));
}

TEST_F(ServerTest, ATransactionIsAnArrayWithItsErrors) {
  const Running server(options());
  Client client(server);
  client.send(
      "MULTI\r\nINCR orders\r\nINCR nosuch\r\nGET orders\r\nINCR orders\r\nEXEC\r\nPING\r\n");
  EXPECT_THAT(client.lines(5), ElementsAre("+OK", "+QUEUED", "+QUEUED", "+QUEUED", "+QUEUED"));
  EXPECT_THAT(client.lines(2), ElementsAre("*4", ":1"));
  EXPECT_THAT(client.line(), StartsWith("-NOTFOUND "));
  EXPECT_THAT(client.lines(4), ElementsAre("$1", "1", ":2", "+PONG"));
}

TEST_F(ServerTest, ATransactionWithAWrongCommandIsDiscarded) {
  const Running server(options());
  Client client(server);
  client.send(
      "MULTI\r\nINCR orders\r\nNOSUCH\r\nEXEC\r\nEXEC\r\nMULTI\r\nINCR orders\r\nDISCARD\r\n"
      "INCR orders\r\n");
  EXPECT_THAT(client.lines(2), ElementsAre("+OK", "+QUEUED"));
  EXPECT_THAT(client.line(), StartsWith("-ERR unknown command"));
  EXPECT_THAT(client.line(), StartsWith("-EXECABORT"));
  EXPECT_THAT(client.line(), StartsWith("-ERR EXEC without MULTI"));
  EXPECT_THAT(client.lines(4), ElementsAre("+OK", "+QUEUED", "+OK", ":1"));
}

TEST_F(ServerTest, ATransactionIsBounded) {
  const Running server(options());
  Client client(server);
  EXPECT_EQ(client.ask("MULTI"), "+OK");
  for (std::size_t i = 0; i < RedisSession::kMostQueued; ++i)
    ASSERT_EQ(client.ask("PING"), "+QUEUED");
  EXPECT_THAT(client.ask("PING"), StartsWith("-ERR a transaction takes at most"));
  EXPECT_THAT(client.ask("EXEC"), StartsWith("-EXECABORT"));
}

TEST_F(ServerTest, ListsSources) {
  const Running server(options());
  Client client(server);
  client.send("KEYS o*r*\r\nEXISTS orders uuid7 nosuch\r\nTYPE orders\r\nTYPE nosuch\r\n");
  EXPECT_THAT(client.lines(6), ElementsAre("*1", "$6", "orders", ":2", "+string", "+none"));
  client.send("SCAN 0 MATCH ord*\r\n");
  EXPECT_THAT(client.lines(6), ElementsAre("*2", "$1", "0", "*1", "$6", "orders"));
}

TEST_F(ServerTest, SpeaksVersion3) {
  const Running server(options());
  Client client(server);
  client.send("HELLO 3 SETNAME me\r\n");
  EXPECT_EQ(client.line(), "%7");
  client.lines(25);  // 7 names of two lines, 4 values of two and 3 of one
  EXPECT_EQ(client.ask_text("CLIENT GETNAME"), "me");
  EXPECT_EQ(client.ask("GET orders"), "_");
}

TEST_F(ServerTest, AnswersWhatWasSentBeforeTheClientEndedItsHalf) {
  const Running server(options());
  Client client(server);
  client.send("INCR orders\r\nGET orders\r\nINCR orders\r\n");
  client.end_sending();
  EXPECT_EQ(client.rest(), ":1\r\n$1\r\n1\r\n:2\r\n");
}

TEST_F(ServerTest, GarbageEndsTheConnectionWithAReason) {
  const Running server(options());
  for (const std::string_view garbage :
       {std::string_view("*1\r\n$1073741824\r\n"), std::string_view("*9999999\r\n"),
        std::string_view("*2\r\n$4\r\nINCR\r\n:5\r\n")}) {
    Client client(server);
    client.send(garbage);
    EXPECT_THAT(client.rest(), StartsWith("-ERR Protocol error"));
  }
  Client after(server);
  EXPECT_EQ(after.ask("INCR orders"), ":1");
}

// A browser sends what a page of the web wants in the body.
TEST_F(ServerTest, ARequestOfHttpEndsAConversationOfRedis) {
  const Running server(options());
  for (const std::string method : {"POST", "PUT", "GET"}) {
    Client client(server);
    client.send(method + " / HTTP/1.1\r\nHost: 127.0.0.1:7379\r\n\r\nINCR orders\r\n");
    EXPECT_THAT(client.rest(), testing::Not(HasSubstr(":1")));
  }
  for (const std::string method : {"PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "GET", "--bnd"}) {
    Client client(server);
    client.send(method + " / HTTP/1.0\r\n\r\nINCR orders\r\n");
    EXPECT_EQ(client.rest(), "") << method << " without a header";
  }
  Client after(server);
  after.send("*2\r\n$4\r\nECHO\r\n$8\r\nHTTP/1.1\r\n");
  EXPECT_THAT(after.lines(2), ElementsAre("$8", "HTTP/1.1")) << "an argument of a command";
  EXPECT_THAT(after.ask("INCR http/orders"), StartsWith("-NOTFOUND")) << "a store may be named so";
  EXPECT_EQ(after.ask("INCR orders"), ":1");
}

TEST_F(ServerTest, QuitAnswersAndCloses) {
  const Running server(options());
  Client client(server);
  client.send("INCR orders\r\nQUIT\r\nINCR orders\r\n");
  EXPECT_EQ(client.rest(), ":1\r\n+OK\r\n");
}

// A client that does not read gets no more answers, and does not stop the others.
TEST_F(ServerTest, AReaderThatNeverReadsIsNotReadFromAnyMore) {
  const Running server(options());
  Client deaf(server, Protocol::kRedis, 4096);
  const std::string many = [] {
    std::string text;
    for (int i = 0; i < 1000; ++i) text += "ID.NEXT uuid7 COUNT 10000\r\n";
    return text;
  }();
  // Until the socket takes nothing more: its buffers are full, and the server reads no further.
  std::size_t sent = 0;
  constexpr std::size_t far_more_than_buffers = std::size_t{256} << 20;
  Client other(server);
  while (sent < far_more_than_buffers && deaf.send_some(many)) {
    sent += many.size();
    ASSERT_EQ(other.ask("PING"), "+PONG");
  }
  EXPECT_TRUE(errno == EAGAIN || errno == EWOULDBLOCK) << "it was cut off";
  EXPECT_LT(sent, far_more_than_buffers);
  EXPECT_EQ(other.ask("INCR orders"), ":1");
}

TEST_F(ServerTest, TellsWhoIsOneTooMany) {
  ServerOptions two = options();
  two.most_connections = 2;
  const Running server(std::move(two));
  Client first(server);
  Client second(server);
  EXPECT_EQ(first.ask("PING"), "+PONG");
  EXPECT_EQ(second.ask("PING"), "+PONG");
  Client third(server);
  EXPECT_EQ(third.rest(), "-ERR max number of clients reached\r\n");
  EXPECT_EQ(first.ask("PING"), "+PONG");
}

TEST_F(ServerTest, NoValueComesTwiceToManyClients) {
  const Running server(options());
  constexpr int clients = 8;
  constexpr int each = 500;
  std::vector<std::vector<std::string>> taken(clients);
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) {
    threads.emplace_back([&, i] {
      Client client(server, i % 2 == 0 ? Protocol::kRedis : Protocol::kHttp);
      for (int k = 0; k < each; ++k) {
        taken[static_cast<std::size_t>(i)].push_back(
            i % 2 == 0 ? client.ask_text("ID.NEXT orders")
                       : client.http("POST /v1/ids/orders").body.substr(0, 10));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::int64_t> all;
  for (const auto& some : taken) {
    std::int64_t before = 0;
    for (const std::string& text : some) {
      const std::int64_t value = std::stoll(text);
      EXPECT_GT(value, before);
      before = value;
      all.insert(value);
    }
  }
  EXPECT_EQ(all.size(), std::size_t{clients * each});
  EXPECT_EQ(*all.rbegin(), clients * each);  // without a gap
}

// ---- the end

TEST_F(ServerTest, TheEndTellsWhichValuesNobodyGets) {
  testing::internal::CaptureStderr();
  {
    Log log;  // at its default level
    ServerOptions logged = options();
    logged.log = &log;
    Running server(std::move(logged));
    Client client(server);
    EXPECT_EQ(client.ask("INCR held"), ":1");
    EXPECT_EQ(client.ask("INCR orders"), ":1");
    server.stop();
    log.flush();
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr(" warning given_up source=held first=2 last=16 count=15\n"),
                    testing::Not(HasSubstr("orders"))));
}

TEST_F(ServerTest, ADrainEndsAStreamThatIsRead) {
  Running server(options());
  Client client(server, Protocol::kHttp, 4096);
  constexpr std::size_t count = 100'000;
  client.send("POST /v1/ids/uuid4?count=100000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.line(), "HTTP/1.1 200 OK");
  server.ask_to_stop();
  const std::string rest = client.rest();
  EXPECT_TRUE(rest.ends_with("0\r\n\r\n"));
  EXPECT_GT(rest.size(), 37U * count);
  server.wait();
}

TEST_F(ServerTest, ADrainEndsInTimeWhoeverDoesNotRead) {
  ServerOptions impatient = options();
  impatient.drain = std::chrono::milliseconds{100};
  Running server(std::move(impatient));
  Client deaf(server, Protocol::kHttp, 4096);
  deaf.send("POST /v1/ids/uuid4?count=1000000000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(deaf.line(), "HTTP/1.1 200 OK");
  server.stop();
}

// ---- HTTP

TEST_F(ServerTest, MintsOverHttp) {
  const Running server(options());
  Client client(server, Protocol::kHttp);
  EXPECT_EQ(client.http("POST /v1/ids/orders").body, "1\n");
  EXPECT_EQ(client.http("POST /v1/ids/orders?count=3").body, "2\n3\n4\n");
  EXPECT_EQ(client.http("POST /v1/ids/orders?count=2", "Accept: application/json\r\n").body,
            "{\"ids\":[\"5\",\"6\"]}\n");
  EXPECT_EQ(client.http("POST /v1/ids/orders?numbers=true", "Accept: application/json\r\n").body,
            "{\"ids\":[7]}\n");
  EXPECT_EQ(client.http("POST /v1/ids/orders", "Accept: application/x-ndjson\r\n").body,
            "{\"id\":\"8\"}\n");
  EXPECT_EQ(client.http("POST /v1/ids/uuid7").body.size(), 37U);
}

TEST_F(ServerTest, AnswersInTheFormThatIsWeighedMost) {
  const Running server(options());
  Client client(server, Protocol::kHttp);
  const auto as = [&](const std::string& accept) {
    return client.http("POST /v1/ids/uuid4", "Accept: " + accept + "\r\n").headers.front();
  };
  const std::string text = "Content-Type: text/plain; charset=utf-8";
  const std::string json = "Content-Type: application/json";
  EXPECT_EQ(as("*/*"), text);
  EXPECT_EQ(as("application/json, text/plain, */*"), json);
  EXPECT_EQ(as("application/json;q=0.5, text/plain"), text);
  EXPECT_EQ(as("text/plain;q=0, application/*"), json);
}

TEST_F(ServerTest, StreamsLargeCounts) {
  const Running server(options());
  Client client(server, Protocol::kHttp);
  constexpr int count = 300'000;
  const std::string body = client.http("POST /v1/ids/orders?count=" + std::to_string(count)).body;
  std::string wanted;
  for (int i = 1; i <= count; ++i) wanted += std::to_string(i) + "\n";
  EXPECT_TRUE(body == wanted);
  const std::string uuids = client.http("POST /v1/ids/uuid4?count=100000").body;
  EXPECT_EQ(uuids.size(), 37U * 100'000U);
  EXPECT_EQ(client.http("POST /v1/ids/few?count=3").body, "5\n6\n7\n");
}

TEST_F(ServerTest, AStreamEndsWithTheConnectionInHttp10) {
  const Running server(options());
  Client client(server, Protocol::kHttp);
  client.send("POST /v1/ids/uuid4?count=20000 HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.line(), "HTTP/1.1 200 OK");
  const std::string rest = client.rest();
  EXPECT_EQ(rest.size() - rest.find("\r\n\r\n") - 4, 37U * 20'000U);
}

// A client must not take a part for the whole.
TEST_F(ServerTest, AStreamThatFailsIsCutOff) {
  create({.name = "short", .last = 100'000});
  const Running server(options());
  Client client(server, Protocol::kHttp);
  client.send("POST /v1/ids/short?count=150000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const std::string all = client.rest();
  EXPECT_THAT(all, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_FALSE(all.ends_with("0\r\n\r\n"));
  // In HTTP/1.0 only a reset tells.
  create({.name = "brief", .last = 100'000});
  Client old(server, Protocol::kHttp);
  old.send("POST /v1/ids/brief?count=150000 HTTP/1.0\r\n\r\n");
  errno = 0;
  static_cast<void>(old.rest());
  EXPECT_EQ(errno, ECONNRESET);
}

TEST_F(ServerTest, ProblemsAreDetailed) {
  const Running server(options());
  Client client(server, Protocol::kHttp);
  const Client::Response unknown = client.http("POST /v1/ids/orderz");
  EXPECT_EQ(unknown.status, "HTTP/1.1 404 Not Found");
  EXPECT_THAT(unknown.headers, testing::Contains("Content-Type: application/problem+json"));
  EXPECT_THAT(unknown.body, AllOf(HasSubstr(R"("code":"NOT_FOUND")"), HasSubstr("did you mean")));
  EXPECT_EQ(client.http("POST /v1/ids/few?count=4").status, "HTTP/1.1 409 Conflict");
  EXPECT_EQ(client.http("POST /v1/ids/few?count=0").status, "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(client.http("POST /v1/ids/few?cuont=1").status, "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(client.http("POST /v1/ids/few", "Accept: image/png\r\n").status,
            "HTTP/1.1 406 Not Acceptable");
  EXPECT_EQ(client.http("GET /v1/nothing").status, "HTTP/1.1 404 Not Found");
  EXPECT_EQ(client.http("POST /v1/ids/%2Ffew").status, "HTTP/1.1 404 Not Found");
  EXPECT_THAT(client.http("POST /v1/sources/few/raise", "", R"({"past":1,"past":2})").body,
              HasSubstr("has a member twice"));
  EXPECT_THAT(client
                  .http("POST /v1/sources", "",
                        R"({"name":"held","strategy":"cached","step":9223372036854775806})")
                  .body,
              HasSubstr("give 1000000000 or less"));
  const Client::Response method = client.http("GET /v1/ids/few");
  EXPECT_EQ(method.status, "HTTP/1.1 405 Method Not Allowed");
  EXPECT_THAT(method.headers, testing::Contains("Allow: POST, OPTIONS"));
  EXPECT_THAT(method.body, HasSubstr(R"("detail":"this path takes only POST")"));
  EXPECT_THAT(client.http("DELETE /v1/sources/few").body, HasSubstr("takes only GET, HEAD"));
  EXPECT_EQ(client.http("POST /v1/ids/few").body, "5\n");  // nothing was taken
}

TEST_F(ServerTest, NoPageOfTheWebMintsThroughABrowser) {
  const Running server(options());
  Client client(server, Protocol::kHttp);
  EXPECT_EQ(client.http("POST /v1/ids/orders", "Origin: http://evil.example\r\n").status,
            "HTTP/1.1 403 Forbidden");
  Client rebound(server, Protocol::kHttp);
  rebound.send("POST /v1/ids/orders HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(rebound.response().status, "HTTP/1.1 421 Misdirected Request");
  EXPECT_EQ(client.http("POST /v1/ids/orders").body, "1\n");
}

TEST_F(ServerTest, MakesPeeksAndRaisesOverHttp) {
  const Running server(options());
  Client client(server, Protocol::kHttp);
  EXPECT_EQ(client.http("POST /v1/sources", "", R"({"name":"cards","start":"10"})").status,
            "HTTP/1.1 201 Created");
  EXPECT_EQ(client.http("POST /v1/sources", "", R"({"name":"cards","start":11})").status,
            "HTTP/1.1 409 Conflict");
  EXPECT_THAT(client.http("POST /v1/sources", "", R"({"nmae":"cards"})").body,
              HasSubstr("unknown member"));
  EXPECT_EQ(client.http("POST /v1/sources", "", "[1").status, "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(client.http("POST /v1/sources/cards/raise", "", R"({"past":99})").body,
            "{\"next\":\"100\",\"skipped\":\"90\"}\n");
  EXPECT_EQ(client.http("POST /v1/ids/cards").body, "100\n");
  EXPECT_THAT(client.http("GET /v1/sources/cards").body, HasSubstr(R"("next":"101")"));
  EXPECT_THAT(client.http("GET /v1/sources").body, HasSubstr(R"("name":"cards")"));
  EXPECT_THAT(client.http("GET /v1/formats").body, HasSubstr(R"("name":"uuid7")"));
  EXPECT_THAT(client.http("GET /v1/inspect/454947766275222906").body,
              HasSubstr(R"("worker":"786")"));
  EXPECT_EQ(client.http("GET /healthz").body, "ok\n");
  EXPECT_EQ(client.http("GET /readyz").body, "ready\n");
  EXPECT_EQ(client.http("HEAD /healthz").headers.front(),
            "Content-Type: text/plain; charset=utf-8");
  EXPECT_EQ(client.http("OPTIONS /v1/sources").status, "HTTP/1.1 204 No Content");
}

// As JSON Schema has integers. No number is taken for another one.
TEST_F(ServerTest, AnIntegerOfJsonMayHaveAFractionOfZero) {
  const Running server(options());
  Client client(server, Protocol::kHttp);
  const auto raise = [&](const std::string& past) {
    const auto response =
        client.http("POST /v1/sources/orders/raise", "", "{\"past\":" + past + "}");
    return response.status.contains("200") ? response.body.substr(0, response.body.find(',')) : "";
  };
  EXPECT_EQ(raise("20.0"), R"({"next":"21")");
  EXPECT_EQ(raise("3e1"), R"({"next":"31")");
  EXPECT_EQ(raise("-0"), R"({"next":"31")");
  EXPECT_EQ(raise("\"40\""), R"({"next":"41")");
  EXPECT_EQ(raise("9007199254740992.0"), R"({"next":"9007199254740993")");
  EXPECT_EQ(raise("9007199254740995"), R"({"next":"9007199254740996")");
  for (const std::string other :
       {"9007199254740995.0", "1e18", "20.5", "-1", "-1.0", "1e400", "18446744073709551615",
        "9223372036854775808", "36893488147419103232", "\"20.0\"", "true", "[1]"})
    EXPECT_EQ(raise(other), "") << other;
}

TEST_F(ServerTest, HttpRequestsMayComeInOnePiece) {
  const Running server(options());
  Client client(server, Protocol::kHttp);
  const std::string one = "POST /v1/ids/orders HTTP/1.1\r\nHost: localhost\r\n\r\n";
  client.send(one + one +
              "POST /v1/sources HTTP/1.1\r\nHost: [::1]:80\r\nTransfer-Encoding: chunked"
              "\r\n\r\n10\r\n{\"name\":\"cards\"}\r\n0\r\n\r\n" +
              one);
  EXPECT_EQ(client.response().body, "1\n");
  EXPECT_EQ(client.response().body, "2\n");
  EXPECT_EQ(client.response().status, "HTTP/1.1 201 Created");
  EXPECT_EQ(client.response().body, "3\n");
}

TEST_F(ServerTest, OversizedAndBrokenHttpEndsTheConnectionWithAReason) {
  const Running server(options());
  const auto status_of = [&](const std::string& request) {
    Client client(server, Protocol::kHttp);
    client.send(request);
    const std::string all = client.rest();
    return all.substr(0, all.find("\r\n"));
  };
  EXPECT_EQ(status_of("GET /" + std::string(20'000, 'a') + " HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            "HTTP/1.1 431 Request Header Fields Too Large");
  EXPECT_EQ(status_of("POST /v1/sources HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1073741824"
                      "\r\n\r\n"),
            "HTTP/1.1 413 Payload Too Large");
  EXPECT_EQ(status_of("\x01\x02\x03 nonsense\r\n\r\n"), "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(status_of("POST /v1/sources HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked"
                      "\r\n\r\n1;a=" +
                      std::string(200'000, 'a')),
            "HTTP/1.1 431 Request Header Fields Too Large");
  EXPECT_EQ(
      status_of("POST /v1/ids/orders HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked"
                "\r\n\r\n"),
      "HTTP/1.1 501 Not Implemented");
  EXPECT_EQ(status_of("POST /v1/ids/orders HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n"
                      "Connection: close\r\n\r\n"),
            "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(status_of("GET /%zz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
            "HTTP/1.1 400 Bad Request");
}

// ---- addresses

Code listening_on(const std::string& at) {
  ServerOptions options;
  options.listen = {{Protocol::kRedis, at}};
  return code_of(Server::open(std::move(options)));
}

TEST(Server, ListensWhereNobodyElseComesIn) {
  EXPECT_EQ(listening_on("0.0.0.0:0"), Code::kInvalidArgument);
  EXPECT_EQ(listening_on("[::]:0"), Code::kInvalidArgument);
  EXPECT_EQ(listening_on("192.0.2.1:7379"), Code::kInvalidArgument);
  EXPECT_EQ(listening_on("localhost"), Code::kInvalidArgument);
  EXPECT_EQ(listening_on("localhost:x"), Code::kInvalidArgument);
  EXPECT_EQ(listening_on("localhost:65536"), Code::kInvalidArgument);
  EXPECT_EQ(listening_on("unix:"), Code::kInvalidArgument);
  EXPECT_EQ(listening_on("unix:" + std::string(200, 'a')), Code::kInvalidArgument);
  EXPECT_EQ(listening_on("127.0.0.1:0"), Code{0});
}

// One call fails when it meets the closed counter; the next one opens the sequence where it is.
TEST_F(ServerTest, ASequenceThatWasMovedIsServedFromTheOtherStore) {
  const std::string other = "sqlite:" + folder_.path("new.db");
  ServerOptions following = options();
  following.stores.front().mint.also = {other};
  const Running server(std::move(following));
  const Running told(options());
  Client client(server);
  Client client_told(told);
  EXPECT_EQ(client.ask("INCR orders"), ":1");
  EXPECT_EQ(client_told.ask("INCR orders"), ":2");
  const auto from = Store::open(url());
  const auto to = Store::open(other);
  ASSERT_TRUE(from && to);
  const Result<Moved> moved = move_sequence(**from, **to, "orders");
  ASSERT_TRUE(moved) << moved.error().message();
  EXPECT_THAT(client.ask("INCR orders"),
              AllOf(StartsWith("-UNAVAILABLE "), HasSubstr("it was moved to another store")));
  EXPECT_EQ(client.ask("INCR orders"), ":3");
  EXPECT_EQ(client.ask("INCRBY orders 10"), ":13");
  EXPECT_EQ(client.ask_text("GET orders"), "13");
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(client_told.ask("INCR orders"), HasSubstr("it was moved to "));
}

TEST(Server, SaysThatAnAddressIsInUse) {
  ServerOptions options;
  options.listen = {{Protocol::kRedis, "127.0.0.1:0"}};
  const Result<std::unique_ptr<Server>> first = Server::open(options);
  ASSERT_TRUE(first);
  EXPECT_EQ(listening_on((*first)->addresses().front()), Code::kUnavailable);
}

}  // namespace
}  // namespace idmint::server
