// Ids beyond 2^53-1 over the Redis protocol and as numbers of JSON: nobody gets one that it would
// round.
#include "server/integers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idmint/mint.h"
#include "server/server.h"
#include "tests/fakes/running_server.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::server {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kWaysOut = "nothing was taken. Ask with ID.NEXT ";

class IntegersTest : public testing::Test {
 protected:
  [[nodiscard]] ServerOptions options() const {
    ServerOptions options;
    options.stores.push_back({.mint = {.store = url()}});
    options.stores.back().mint.store_options.deadline = kNever;
    options.drain = kNever;
    return options;
  }
  [[nodiscard]] std::string url() const { return "sqlite:" + folder_.path("ids.db"); }
  void create(const Definition& definition) {
    const auto made = mint_.create(definition);
    ASSERT_TRUE(made) << made.error().message();
  }
  void create_pool() { create(PoolDefinition{.name = "web"}); }

  fakes::TempFolder folder_;
  Mint mint_{MintOptions{.store = url()}};
};

// A value as an integer, as text, or the refusal: ":1", "$1", "-ERR ...".
std::string reply(Client& client, const std::string& command) {
  const std::string head = client.ask(command);
  return head.starts_with('$') ? "$" + client.line() : head;
}

TEST(Integers, AreByTheNameOfTheLibrary) {
  for (const std::string name : {"redis-py", "go-redis(,go1.26.0)", "Jedis", "redis-rs", "SE.Redis",
                                 "jedis(redis-om-spring_v1.0.0)", "Lettuce"})
    EXPECT_EQ(integers_of(name), Integers::kWhole) << name;
  for (const std::string name : {"ioredis", "node-redis", "node-redis(tag)", "ioredis(redis-py)"})
    EXPECT_EQ(integers_of(name), Integers::kText) << name;
  for (const std::string name : {"", "redis", "lua-resty-redis", "redis-py2", "(redis-py)"})
    EXPECT_EQ(integers_of(name), Integers::kUnknown) << name;
}

TEST_F(IntegersTest, OfAPoolGoToClientsThatHoldThem) {
  create_pool();
  const Running server(options());
  Client whole(server);
  EXPECT_EQ(whole.ask("CLIENT SETINFO lib-name redis-py"), "+OK");
  EXPECT_THAT(reply(whole, "INCR web"), StartsWith(":"));
  Client script(server);
  EXPECT_EQ(script.ask("CLIENT SETINFO LIB-NAME ioredis(mine)"), "+OK");
  std::set<std::string> came;
  script.send([] {
    std::string many;
    for (int i = 0; i < 2000; ++i) many += "INCR web\r\n";
    return many;
  }());
  for (int i = 0; i < 2000; ++i) {
    EXPECT_THAT(script.line(), StartsWith("$"));
    came.insert(script.line());
  }
  EXPECT_EQ(came.size(), 2000);
  EXPECT_EQ(script.ask("CLIENT INFO").front(), '$');
  EXPECT_THAT(script.line(), HasSubstr("lib-name=ioredis(mine)"));
}

// Over RESP2 and 3, in a transaction and out of one, from a library without a name and from one
// that nobody knows.
TEST_F(IntegersTest, BeyondWhatAnUnknownClientHoldsAreRefusedBeforeTheyAreTaken) {
  create_pool();
  create(SequenceDefinition{
      .name = "cards", .strategy = Strategy::kPermuted, .last = 9'999'999'999'999'999});
  create(SequenceDefinition{.name = "blocks", .strategy = Strategy::kStriped, .stripes = 8});
  create(SequenceDefinition{.name = "big", .first = kMostExact + 1});
  create(SequenceDefinition{
      .name = "tickets", .strategy = Strategy::kCached, .first = kMostExact + 1});
  const Running server(options());
  for (const std::string greeting :
       {"PING", "HELLO 3", "CLIENT SETINFO LIB-NAME lua-resty-redis"}) {
    Client client(server);
    client.send(greeting + "\r\nMULTI\r\nINCR big\r\nID.NEXT uuid7\r\nEXEC\r\n");
    while (client.line() != "*2") {
    }
    EXPECT_THAT(client.line(), StartsWith("-ERR big gives values above 2^53-1"));
    EXPECT_EQ(client.line(), "$36");
    client.line();
    for (const std::string command : {"INCR web", "INCR cards", "INCR blocks", "INCR big",
                                      "INCR tickets", "INCRBY big 2", "ID.RANGE big 2"}) {
      const std::string name = command.substr(command.find(' ') + 1, 4);
      EXPECT_THAT(client.ask(command), AllOf(StartsWith("-ERR "), HasSubstr(kWaysOut),
                                             HasSubstr(name), HasSubstr("integers = \"64-bit\"")))
          << greeting;
    }
  }
  for (const std::string name : {"big", "tickets"})
    EXPECT_EQ(mint_.peek(name)->next, kMostExact + 1) << name;
  EXPECT_EQ(mint_.peek("cards")->next, 0);
  Client client(server);
  EXPECT_EQ(reply(client, "ID.NEXT big"), "$" + std::to_string(kMostExact + 1));
  EXPECT_THAT(reply(client, "ID.NEXT web"), StartsWith("$"));
}

// A counter is asked for until it is there, however far its last value is.
TEST_F(IntegersTest, OfACounterAreRefusedWhenItCrosses) {
  create(SequenceDefinition{.name = "orders", .first = kMostExact - 5});
  create(SequenceDefinition{
      .name = "odd", .first = kMostExact - 6, .last = kLargestValue - 1, .stride = 2});
  const Running server(options());
  Client client(server);
  client.send(
      "INCR orders\r\nINCRBY orders 3\r\nID.RANGE orders 3\r\nINCR orders\r\nINCR orders\r\n"
      "INCR orders\r\n");
  EXPECT_EQ(client.line(), ":" + std::to_string(kMostExact - 5));
  EXPECT_EQ(client.line(), ":" + std::to_string(kMostExact - 2));
  EXPECT_THAT(client.line(), HasSubstr(kWaysOut));
  EXPECT_EQ(client.line(), ":" + std::to_string(kMostExact - 1));
  EXPECT_EQ(client.line(), ":" + std::to_string(kMostExact));
  EXPECT_THAT(client.line(), HasSubstr(kWaysOut));
  EXPECT_EQ(mint_.peek("orders")->next, kMostExact + 1) << "nothing was skipped";
  std::string many;
  for (int i = 0; i < 10; ++i) many += "INCR odd\r\n";
  client.send(many);
  for (std::int64_t value = kMostExact - 6; value <= kMostExact; value += 2)
    EXPECT_EQ(client.line(), ":" + std::to_string(value));
  EXPECT_THAT(client.lines(6), Each(HasSubstr(kWaysOut)));
  EXPECT_EQ(mint_.peek("odd")->next, kMostExact + 2);
}

TEST_F(IntegersTest, AreGivenToAnybodyWhileTheyAreSmall) {
  create(SequenceDefinition{.name = "orders", .first = 10});
  create(SequenceDefinition{.name = "tickets", .strategy = Strategy::kCached, .first = 10});
  create(SequenceDefinition{.name = "stripes",
                            .strategy = Strategy::kInterleaved,
                            .last = kLargestValue - 1000,
                            .stripes = 1000});
  create(SequenceDefinition{.name = "random", .strategy = Strategy::kRandom, .last = 99});
  create(PoolDefinition{.name = "small",
                        .layout = {.epoch = kUsualSnowflakeLayout.epoch,
                                   .unit = std::chrono::seconds{1},
                                   .time_bits = 35,
                                   .worker_bits = 6,
                                   .sequence_bits = 12}});
  const Running server(options());
  Client client(server);
  EXPECT_EQ(client.ask("INCR orders"), ":10");
  EXPECT_EQ(client.ask("INCRBY orders 5"), ":15");
  EXPECT_EQ(client.ask("INCR tickets"), ":10");
  for (const std::string name : {"stripes", "random", "small"})
    EXPECT_THAT(client.ask("INCR " + name), StartsWith(":")) << name;
}

// Another process has raised it meanwhile: the value that comes is skipped, and no further one.
TEST_F(IntegersTest, ThatComeUnexpectedlyAreNotHandedOut) {
  create(SequenceDefinition{.name = "orders"});
  const Running server(options());
  Client client(server);
  EXPECT_EQ(client.ask("INCR orders"), ":1");
  ASSERT_TRUE(mint_.raise("orders", kMostExact));
  EXPECT_THAT(client.ask("ID.RANGE orders 2"),
              AllOf(StartsWith("-OUTOFRANGE orders gives values"), HasSubstr("was skipped")));
  EXPECT_THAT(client.ask("INCR orders"), HasSubstr(kWaysOut));
  EXPECT_EQ(mint_.peek("orders")->next, kMostExact + 3);
  Client raising(server);
  EXPECT_THAT(reply(raising, "ID.RAISE orders " + std::to_string(kMostExact + 9)),
              "$" + std::to_string(kMostExact + 10));
}

TEST_F(IntegersTest, ARaiseOfThisServerIsKnown) {
  create(SequenceDefinition{.name = "orders"});
  const Running server(options());
  Client client(server);
  EXPECT_EQ(client.ask("INCR orders"), ":1");
  EXPECT_THAT(reply(client, "ID.RAISE orders " + std::to_string(kMostExact)), StartsWith("$"));
  EXPECT_THAT(client.ask("INCR orders"), HasSubstr(kWaysOut));
  EXPECT_EQ(mint_.peek("orders")->next, kMostExact + 1);
}

// The integers of a state are texts if the client may round them.
TEST_F(IntegersTest, OfAStateAreTextToWhoeverMayRoundThem) {
  create(SequenceDefinition{.name = "orders", .first = 7});
  const Running server(options());
  Client client(server);
  client.send("ID.PEEK orders\r\n");
  const std::vector<std::string> state = client.lines(31);
  EXPECT_THAT(state, AllOf(Contains(":7"), Contains(std::to_string(kLargestValue))));
  EXPECT_EQ(client.ask("CLIENT SETINFO LIB-NAME jedis"), "+OK");
  client.send("ID.PEEK orders\r\n");
  EXPECT_THAT(client.lines(29), Contains(":" + std::to_string(kLargestValue)));
}

TEST_F(IntegersTest, AreWholeForAllIfTheSettingsSaySo) {
  create_pool();
  create(SequenceDefinition{.name = "big", .first = kMostExact + 1});
  ServerOptions all = options();
  all.all_hold_64_bits = true;
  const Running server(std::move(all));
  Client client(server);
  EXPECT_THAT(client.ask("INCR web"), StartsWith(":"));
  client.send("ID.RANGE big 2\r\n");
  EXPECT_THAT(client.lines(3), ElementsAre("*2", ":" + std::to_string(kMostExact + 1),
                                           ":" + std::to_string(kMostExact + 2)));
  EXPECT_EQ(client.ask("CLIENT SETINFO LIB-NAME node-redis"), "+OK");
  EXPECT_EQ(reply(client, "INCR big"), "$" + std::to_string(kMostExact + 3))
      << "it says what it is";
}

// Several clients share a connection through a proxy: what holds for one of them is right for none.
TEST_F(IntegersTest, OfASharedConnectionAreForTheLeastOfItsClients) {
  create(SequenceDefinition{.name = "big", .first = kMostExact + 1});
  const Running server(options());
  Client client(server);
  EXPECT_EQ(client.ask("CLIENT SETINFO LIB-NAME node-redis"), "+OK");
  EXPECT_EQ(client.ask("CLIENT SETINFO LIB-NAME jedis"), "+OK");
  EXPECT_EQ(client.ask("RESET"), "+RESET");
  EXPECT_EQ(reply(client, "INCR big"), "$" + std::to_string(kMostExact + 1));
  client.send("ID.RANGE big 2\r\n");
  EXPECT_THAT(client.lines(5), ElementsAre("*2", "$16", std::to_string(kMostExact + 2), "$16",
                                           std::to_string(kMostExact + 3)));
}

TEST_F(IntegersTest, AsNumbersOfJsonAreRefusedWhereTheyWouldBeRounded) {
  create_pool();
  create(SequenceDefinition{.name = "orders", .first = kMostExact - 1});
  const Running server(options());
  Client web(server, Protocol::kHttp);
  for (const std::string accept : {"application/json", "application/x-ndjson"}) {
    for (const std::string path : {"web?numbers=true", "orders?count=3&numbers=true"}) {
      const Client::Response refused =
          web.http("POST /v1/ids/" + path, "Accept: " + accept + "\r\n");
      EXPECT_THAT(refused.status, HasSubstr("400")) << path;
      EXPECT_THAT(refused.body, AllOf(HasSubstr("nothing was taken"), HasSubstr("64-bit")));
    }
  }
  const auto ids = [&](const std::string& path) {
    return web.http("POST /v1/ids/orders?" + path, "Accept: application/json\r\n").body;
  };
  EXPECT_EQ(ids("count=2&numbers=true"), "{\"ids\":[9007199254740990,9007199254740991]}\n");
  EXPECT_THAT(ids("numbers=true"), HasSubstr("nothing was taken"));
  EXPECT_EQ(ids(""), "{\"ids\":[\"9007199254740992\"]}\n");
}

}  // namespace
}  // namespace idmint::server
