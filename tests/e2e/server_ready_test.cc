// The daemon answers GET /readyz while its MongoDB stands still, and after that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <string>
#include <utility>

#include "idmint/mint.h"
#include "idmint/sequence.h"
#include "idmint/store.h"
#include "tests/fakes/running_server.h"
#include "tests/servers/mongo.h"

namespace idmint::e2e {
namespace {

using server::Client;
using testing::HasSubstr;

TEST(ServerReady, IsNotWhileItsStoreStandsStill) {
  servers::MongoSet set({.members = 1});
  const std::string url = set.url("ids");
  {
    const auto store = Store::open(url, {.create = true});
    ASSERT_TRUE(store) << store.error().message();
    ASSERT_TRUE(create_sequence(**store, {.name = "orders"}));
  }
  server::ServerOptions options;
  options.stores.push_back({.mint = {.store = url}});
  options.stores.back().mint.store_options.deadline = std::chrono::seconds{1};
  options.drain = server::kNever;
  const server::Running daemon(std::move(options));
  Client client(daemon, server::Protocol::kHttp);
  const auto ready = client.http("GET /readyz");
  EXPECT_THAT(ready.status, HasSubstr("200")) << ready.body;
  set.member(0).signal(SIGSTOP);
  const auto away = client.http("GET /readyz");
  EXPECT_THAT(away.status, testing::AnyOf(HasSubstr("503"), HasSubstr("504")));
  EXPECT_THAT(away.body, HasSubstr(set.hosts()));
  EXPECT_THAT(client.http("GET /healthz").status, HasSubstr("200")) << "the process serves";
  set.member(0).signal(SIGCONT);
  while (!client.http("GET /readyz").status.contains("200")) {
  }
  EXPECT_EQ(client.http("POST /v1/ids/orders").body, "1\n");
}

}  // namespace
}  // namespace idmint::e2e
