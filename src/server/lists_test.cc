// Lists of what is in the stores: read in parts, sent as the client reads, and bounded.
#include "server/lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/server.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/gated_server.h"
#include "tests/fakes/manual_executor.h"

namespace idmint::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ListsTest : public fakes::GatedServer {
 protected:
  static constexpr int kMany = 6000;  // more than one part
  void create_many(const std::string& before, int count) {
    for (int i = 0; i < count; ++i) {
      const std::string digits = std::to_string(i);
      ASSERT_TRUE(create_sequence(*store_,
                                  {.name = before + std::string(4 - digits.size(), '0') + digits}));
    }
  }
};

TEST_F(ListsTest, AreSentAsTheClientReads) {
  create_many("stock", kMany);
  const Running server(options());
  Client client(server, Protocol::kRedis, 4096);
  client.send("ID.LIST\r\nPING\r\nMULTI\r\nKEYS stock*\r\nECHO end\r\nEXEC\r\n");
  EXPECT_EQ(client.line(), "*" + std::to_string(kMany + 1));
  int states = 0;
  for (std::string line = client.line(); line != "+PONG"; line = client.line()) {
    if (line == "(closed)") FAIL() << "it is cut off after " << states;
    if (line == "strategy") ++states;
  }
  EXPECT_EQ(states, kMany + 1);
  EXPECT_THAT(client.lines(5),
              ElementsAre("+OK", "+QUEUED", "+QUEUED", "*2", "*" + std::to_string(kMany)));
  std::string last;
  for (int i = 0; i < kMany; ++i) {
    client.line();
    const std::string name = client.line();
    EXPECT_LT(last, name);
    last = name;
  }
  EXPECT_THAT(client.lines(2), ElementsAre("$3", "end"));
}

TEST_F(ListsTest, OfClientsThatDoNotReadKeepNobodyWaiting) {
  create_many("stock", kMany);
  const Running server(options());
  std::vector<std::unique_ptr<Client>> deaf;
  for (int i = 0; i < 8; ++i) {
    deaf.push_back(std::make_unique<Client>(server, Protocol::kRedis, 4096));
    deaf.back()->send("ID.LIST\r\nID.LIST\r\nID.LIST\r\n");
  }
  Client client(server);
  EXPECT_EQ(client.ask("DBSIZE").front(), ':');
  EXPECT_EQ(client.ask("INCR orders"), ":1");
  deaf.clear();
  EXPECT_EQ(client.ask("PING"), "+PONG");
}

TEST_F(ListsTest, PagesOverHttpHaveEachSourceOnce) {
  create_many("s", 7);
  const auto other = std::make_shared<fakes::GatedStore>();
  for (const std::string name : {"a", "orders", "z"})
    ASSERT_TRUE(create_sequence(*other, {.name = name}));
  ServerOptions two = options();
  for (const std::string store : {"eu", "t"}) {
    two.stores.push_back({.name = store, .store = other});
    two.stores.back().mint.store_options.deadline = kNever;
  }
  const Running server(std::move(two));
  Client client(server, Protocol::kHttp);
  const std::vector<std::string> all = {"eu/a",  "eu/orders", "eu/z",     "orders", "s0000",
                                        "s0001", "s0002",     "s0003",    "s0004",  "s0005",
                                        "s0006", "t/a",       "t/orders", "t/z"};
  for (const std::size_t limit : {1U, 2U, 3U, 5U, 14U, 100U}) {
    std::vector<std::string> came;
    std::string after;
    for (bool more = true; more;) {
      const nlohmann::json page = nlohmann::json::parse(
          client.http("GET /v1/sources?limit=" + std::to_string(limit) + "&after=" + after).body);
      for (const auto& source : page["sources"]) came.push_back(source["name"]);
      more = page.contains("next");
      if (more) {
        after = page["next"];
        EXPECT_EQ(page["sources"].size(), limit);
        EXPECT_EQ(after, came.back());
      }
    }
    EXPECT_EQ(came, all) << limit;
  }
}

TEST_F(ListsTest, AreNoLongerThanTheyMayBe) {
  create_many("stock", 20);
  fakes::ManualExecutor executor;
  Loop loop(executor);
  std::vector<ServedStore> stores;
  stores.push_back({.store = store_});
  const Sources sources(loop, std::move(stores));
  const AuthorizedView view{sources, {""}, {.all = true}};
  const SteadyTime never = SteadyTime::max();
  const auto states = [&](std::size_t most) {
    return states_reply(view, Resp::k2, Integers::kWhole, never, most);
  };
  ASSERT_TRUE(states(kLongestList));
  EXPECT_TRUE(states(states(kLongestList)->size()));
  const Result<std::string> longer = states(1000);
  ASSERT_EQ(fakes::code_of(longer), Code::kResourceExhausted);
  EXPECT_THAT(longer.error().message(), HasSubstr("GET /v1/sources?limit=1000"));
  EXPECT_EQ(names(view, "stock*", never, 20 * 17)->size(), 20U);
  EXPECT_EQ(fakes::code_of(names(view, "stock*", never, 20 * 17 - 1)), Code::kResourceExhausted);
  EXPECT_EQ(fakes::code_of(names_reply(view, "*", never, 10)), Code::kResourceExhausted);
}

}  // namespace
}  // namespace idmint::server
