// seed: a set of three from a restored server, stopped before each step and gone on with.
#include "restore/promote/seed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/errors.h"
#include "restore/replay/state.h"
#include "restore/tests/production.h"
#include "restore/tests/program.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/loopback.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

// Stops before its nth step.
class StopsSeeding final : public Observer {
 public:
  explicit StopsSeeding(std::size_t stop = SIZE_MAX) : stop_(stop) {}
  Result<void> about_to(std::string_view command) override {
    steps_.emplace_back(command);
    if (steps_.size() <= stop_) return {};
    return fail(Code::kUnavailable, "stopped before " + std::string(command));
  }
  void notice(std::string_view command) override { left_.emplace_back(command); }
  [[nodiscard]] const std::vector<std::string>& left() const { return left_; }

 private:
  std::size_t stop_;
  std::vector<std::string> steps_{};
  std::vector<std::string> left_{};
};

class Seed : public testing::Test {
 protected:
  ~Seed() override {
    for (const SeedMember& each : options_.members) {
      std::ifstream lock(each.folder + "/mongod.lock");
      pid_t pid = 0;
      if (lock >> pid && pid > 0) ::kill(pid, SIGKILL);
    }
  }
  // A restore of a base alone, by the commands.
  State restore() {
    servers::MongoSet set({.members = 1});
    Production production(set.url(""));
    for (int i = 0; i < 100; ++i)
      production.insert("shop.orders", R"({"_id":)" + std::to_string(i) + "}");
    production.run("shop", R"({"createIndexes":"orders","indexes":[{"key":{"a":1},"name":"a"}]})");
    const std::string base = folder_.path("base");
    const std::string oplog = folder_.path("oplog.bson");
    EXPECT_EQ(Program(folder_, {"dump", "--uri", set.url(""), "--out", base}).end().status, 0);
    production.insert("shop.orders", R"({"_id":"late"})");
    const State state = state_of(production.server());
    const std::string limit = print_timestamp(production.now());
    EXPECT_EQ(Program(folder_, {"oplog", "--uri", set.url(""), "--base", base, "--out", oplog})
                  .end()
                  .status,
              0);
    const Ended ended =
        Program(folder_, with({"run", "--base", base, "--oplog", oplog, "--limit", limit, "--yes"},
                              spare_.words()))
            .end();
    EXPECT_EQ(ended.status, 0) << ended.err;
    return state;
  }

  fakes::TempFolder folder_;
  SpareServer spare_;
  SeedOptions options_{};
};

TEST_F(Seed, MakesASetOfThreeThoughItIsStoppedBeforeEachStep) {
  const State should = restore();
  options_ = {.spare = spare_.path(),
              .set = "new",
              .mongod = servers::mongod_program(),
              .arguments = {"--wiredTigerCacheSizeGB", "0.25"}};
  for (const char* const name : {"one", "two", "three"})
    options_.members.push_back(
        {.host = "127.0.0.1", .port = servers::unused_port(), .folder = folder_.path(name)});
  const Result<std::vector<std::string>> steps = seed_steps(options_);
  ASSERT_TRUE(steps) << steps.error().message();
  EXPECT_THAT(*steps, SizeIs(14U));

  bool done = false;
  for (std::size_t stop = 0; !done && stop < 30; ++stop) {
    StopsSeeding observer(stop);
    const Result<void> seeded = seed(options_, observer);
    done = seeded.has_value();
    ASSERT_TRUE(done || seeded.error().code == Code::kUnavailable)
        << stop << seeded.error().message() << content(folder_.path("one/mongod.log"));
  }
  EXPECT_TRUE(done);
  std::string uri = "mongodb://";
  for (const SeedMember& each : options_.members)
    uri += (uri.ends_with('/') ? "" : ",") + each.host + ":" + std::to_string(each.port);
  Production production(uri + "/?replicaSet=new");
  State is = state_of(production.server());
  State same = should;
  for (State* const each : {&is, &same})
    std::erase_if(*each, [](const auto& row) { return !row.first.starts_with("shop."); });
  EXPECT_EQ(in_lines(differences(is, same)), "");
  // All three members acknowledge it, so all three have it.
  production.run("shop", R"({"insert":"orders","documents":[{"_id":"new"}],
      "writeConcern":{"w":3,"wtimeout":60000}})");
  StopsSeeding again;
  EXPECT_TRUE(seed(options_, again)) << "there is nothing left to do";
}

TEST_F(Seed, SaysWhyAMongodDoesNotStart) {
  restore();
  const int taken = servers::bound_socket();
  options_ = {.spare = spare_.path(), .set = "new", .mongod = servers::mongod_program()};
  options_.members.push_back(
      {.host = "127.0.0.1", .port = servers::port_of(taken), .folder = folder_.path("one")});
  StopsSeeding observer;
  const Result<void> seeded = seed(options_, observer);
  ::close(taken);
  ASSERT_FALSE(seeded);
  EXPECT_EQ(seeded.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(seeded.error().message(),
              testing::AllOf(HasSubstr("mongod does not start on " + folder_.path("one") + ": "),
                             HasSubstr("ddress already in use")));
}

TEST_F(Seed, PrintsWhatIsToBeDoneOnOtherHosts) {
  const std::vector<std::string> words = {"seed",
                                          "--spare",
                                          "spare",
                                          "--set",
                                          "rs0",
                                          "--member",
                                          "db1:27017=/data/db1",
                                          "--member",
                                          "db2:27017",
                                          "--mongod",
                                          servers::mongod_program(),
                                          "--dry-run"};
  const Ended ended = Program(folder_, words).end();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("rsync -a /data/db1/ db2:/data/db1/"));
  EXPECT_THAT(ended.out, HasSubstr("rs.add(\"db2:27017\")"));
}

TEST_F(Seed, RefusesWhatIsNoSpareAndWhatIsThere) {
  options_ = {.spare = folder_.path("none"), .set = "new", .mongod = servers::mongod_program()};
  options_.members.push_back({.host = "127.0.0.1", .port = 1, .folder = folder_.path("one")});
  StopsSeeding observer;
  EXPECT_EQ(seed(options_, observer).error().code, Code::kNotFound);
  std::filesystem::create_directories(folder_.path("one"));
  EXPECT_EQ(seed(options_, observer).error().code, Code::kAlreadyExists);
  options_.members.push_back(options_.members.front());
  EXPECT_EQ(seed(options_, observer).error().code, Code::kInvalidArgument);
  for (const char* const wrong :
       {"", "db1", "db1:", "db1:x=/data", ":1=/data", "db1:1=", "db1:70000"})
    EXPECT_EQ(parse_member(wrong).error().code, Code::kInvalidArgument) << wrong;
}

}  // namespace
}  // namespace idmint::restore
