// The answers to many commands that a connection sends at once: in the order of the commands, from
// memory, from stores, and from both in turn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

#include "idmint/mint.h"
#include "idmint/sequence.h"
#include "server/server.h"
#include "tests/fakes/running_server.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::server {
namespace {

using testing::ElementsAre;

class Pipeline : public testing::Test {
 protected:
  Pipeline() {
    create({.name = "orders"});
    create({.name = "held", .strategy = Strategy::kCached, .step = 1000});
  }

  void create(const SequenceDefinition& definition) const {
    Mint mint(MintOptions{.store = url()});
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

  fakes::TempFolder folder_;
};

TEST_F(Pipeline, AValueFromMemoryDoesNotOvertakeOneFromTheStore) {
  const Running server(options());
  Client client(server);
  EXPECT_EQ(client.ask("INCR held"), ":1");
  for (int i = 0; i < 100; ++i) {
    client.send("INCR orders\r\nINCR held\r\nID.NEXT held COUNT 2\r\nINCR orders\r\n");
    const std::string a = std::to_string(2 * i + 1);
    const std::string b = std::to_string(2 * i + 2);
    EXPECT_EQ(client.line(), ":" + a);
    const std::int64_t first = 3 * i + 2;
    EXPECT_EQ(client.line(), ":" + std::to_string(first));
    EXPECT_EQ(client.line(), "*2");
    for (const std::int64_t value : {first + 1, first + 2}) {
      const std::string text = std::to_string(value);
      EXPECT_THAT(client.lines(2), ElementsAre("$" + std::to_string(text.size()), text));
    }
    EXPECT_EQ(client.line(), ":" + b);
  }
}

// Commands of one value that follow each other share a request; whatever stands between them keeps
// its place.
TEST_F(Pipeline, CommandsOfOneValueKeepTheirPlaces) {
  const Running server(options());
  Client client(server);
  client.send(
      "INCR orders\r\nINCR orders\r\nPING\r\nINCR orders\r\nID.NEXT orders\r\nID.NEXT orders\r\n"
      "INCRBY orders 10\r\nINCR orders\r\nINCR nothing\r\nINCR orders\r\nINCR orders\r\n"
      "GET orders\r\nMULTI\r\nINCR orders\r\nINCR orders\r\nINCRBY orders 2\r\nEXEC\r\n"
      "INCR orders\r\nQUIT\r\n");
  EXPECT_THAT(client.lines(4), ElementsAre(":1", ":2", "+PONG", ":3"));
  EXPECT_THAT(client.lines(4), ElementsAre("$1", "4", "$1", "5"));
  EXPECT_THAT(client.lines(2), ElementsAre(":15", ":16"));
  EXPECT_THAT(client.line(), testing::StartsWith("-NOTFOUND"));
  EXPECT_THAT(client.lines(2), ElementsAre(":17", ":18"));
  EXPECT_THAT(client.lines(2), ElementsAre("$2", "18"));
  EXPECT_THAT(client.lines(5), ElementsAre("+OK", "+QUEUED", "+QUEUED", "+QUEUED", "*3"));
  EXPECT_THAT(client.lines(5), ElementsAre(":19", ":20", ":22", ":23", "+OK"));
}

TEST_F(Pipeline, TheLastValuesOfACounterGoToTheFirstCommands) {
  create({.name = "few", .last = 5});
  const Running server(options());
  Client client(server);
  client.send(
      "INCR few\r\nINCR few\r\nINCR few\r\nINCR few\r\nINCR few\r\nINCR few\r\nINCR few\r\n");
  EXPECT_THAT(client.lines(5), ElementsAre(":1", ":2", ":3", ":4", ":5"));
  EXPECT_THAT(client.line(), testing::StartsWith("-OUTOFRANGE"));
  EXPECT_THAT(client.line(), testing::StartsWith("-OUTOFRANGE"));
}

// More than one range, so that commands wait for the store in between.
TEST_F(Pipeline, ValuesOfACachedSequenceIncreaseOverItsRanges) {
  const Running server(options());
  Client client(server);
  constexpr int count = 20'000;
  std::string pipeline;
  for (int i = 0; i < count; ++i) pipeline += "INCR held\r\n";
  std::thread sender([&] { client.send(pipeline); });
  std::int64_t before = 0;
  for (int i = 0; i < count; ++i) {
    const std::string line = client.line();
    ASSERT_EQ(line.front(), ':') << line;
    const std::int64_t value = std::stoll(line.substr(1));
    ASSERT_GT(value, before);
    before = value;
  }
  sender.join();
}

TEST_F(Pipeline, AStreamOfACachedSequenceIncreases) {
  const Running server(options());
  Client client(server, Protocol::kHttp);
  const Client::Response ids = client.http("POST /v1/ids/held?count=5000");
  std::int64_t before = 0;
  std::size_t lines = 0;
  for (std::size_t begin = 0; begin < ids.body.size(); ++lines) {
    const std::size_t end = ids.body.find('\n', begin);
    const std::int64_t value = std::stoll(ids.body.substr(begin, end - begin));
    ASSERT_GT(value, before);
    before = value;
    begin = end + 1;
  }
  EXPECT_EQ(lines, 5000U);
  const Client::Response one = client.http("POST /v1/ids/held");
  EXPECT_GT(std::stoll(one.body), before);
}

}  // namespace
}  // namespace idmint::server
