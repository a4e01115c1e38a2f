#include "restore/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>

#include "restore/server.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class StandingStill : public testing::Test {
 protected:
  Server connect(const ConnectOptions& options) {
    Result<Server> server = Server::connect(mongod_.url("?directConnection=true"), options);
    EXPECT_TRUE(server) << server.error().message();
    return *std::move(server);
  }

  servers::MongoServer mongod_;
};

// Its host accepts connections and keeps them alive, so that the network tells nothing.
TEST_F(StandingStill, AServerIsGivenUpWhenItAnswersNothing) {
  Server server = connect({.watch = {.silence = 1s}});
  const Result<Server> another = server.another();
  ASSERT_TRUE(another) << another.error().message();
  mongod_.signal(SIGSTOP);
  const Bson command = Bson("listDatabases", 1);
  const Result<Bson> reply = server.command("admin", command);
  mongod_.signal(SIGCONT);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::kUnavailable) << reply.error().message();
  EXPECT_THAT(reply.error().message(), HasSubstr(mongod_.host() + " has answered nothing for"));
}

// A call that takes long is let be, as long as its server answers others.
TEST_F(StandingStill, AServerThatIsBusyIsWaitedFor) {
  Server server = connect({.watch = {.silence = 400ms}});
  const Bson insert = Bson("insert", "c", "documents", array(Bson("_id", 1)));
  ASSERT_TRUE(server.command("d", insert));
  const Bson slow = Bson("find", "c", "filter", Bson("$where", "sleep(2500); return true"));
  const Result<Bson> reply = server.command("d", slow);
  EXPECT_TRUE(reply) << reply.error().message();
}

TEST_F(StandingStill, WhoWantsToEndDoesNotWaitForAnAnswer) {
  std::atomic<bool> stopped = false;
  Server server = connect({.watch = {.silence = 24h, .stopped = [&] { return stopped.load(); }}});
  mongod_.signal(SIGSTOP);
  stopped = true;
  const Bson command = Bson("listDatabases", 1);
  const Result<Bson> reply = server.command("admin", command);
  mongod_.signal(SIGCONT);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::kUnavailable) << reply.error().message();
}

}  // namespace
}  // namespace idmint::restore
