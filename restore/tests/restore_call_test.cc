// A restore as a call: options in, report out, and an observer that is told of each step and may
// stop it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "restore/backup/dump.h"
#include "restore/replay/restore.h"
#include "restore/replay/state.h"
#include "restore/tests/production.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

using testing::ElementsAre;

// Remembers the steps, and stops in one of them.
class Stopping final : public Observer {
 public:
  explicit Stopping(std::optional<std::string_view> where) : where_(where) {}
  void begin(std::string_view step, std::optional<std::uint64_t>) override {
    steps.emplace_back(step);
  }
  Result<void> advance(std::optional<std::uint64_t>) override {
    if (steps.empty() || steps.back() != where_) return {};
    return std::unexpected(Error{Code::kUnavailable, "enough"});
  }
  std::vector<std::string> steps{};

 private:
  const std::optional<std::string_view> where_;
};

Result<RestoreReport> restored(const RestoreOptions& options, Observer& observer) {
  Result<RestorePlan> plan = plan_restore(options, observer);
  if (!plan) return std::unexpected(std::move(plan.error()));
  return restore(*plan, observer);
}

TEST(Restore, IsStoppedInAnyStepAndTheSameCallGoesOn) {
  const std::string fixture = std::string(IDMINT_FIXTURES) + "/s2_wrong_inc_ordinal";
  servers::MongoServer server;
  const fakes::TempFolder folder;
  RestoreOptions options{.base = fixture + "/base-dump",
                         .oplog = fixture + "/oplog-dump",
                         .limit = Timestamp{.seconds = 1795230181, .ordinal = 16},
                         .target = server.url("?directConnection=true"),
                         .report = folder.path("report")};
  using namespace restore_step;
  for (const std::string_view step :
       {kCheckBase, kCheckOplog, kLoad, kReplaySlice, kBuildIndexes, kReplayOplog}) {
    Stopping observer(step);
    const Result<RestoreReport> report = restored(options, observer);
    ASSERT_FALSE(report) << "step " << step;
    EXPECT_EQ(report.error().code, Code::kUnavailable);
    EXPECT_EQ(report.error().message(), "enough") << "step " << step;
    EXPECT_EQ(observer.steps.back(), step);
  }

  Stopping observer(std::nullopt);
  const Result<RestoreReport> report = restored(options, observer);
  ASSERT_TRUE(report) << report.error().message();
  // The base is loaded and its indexes are built, and its slice is read again for its transactions.
  EXPECT_THAT(observer.steps, ElementsAre(kCheckBase, kCheckOplog, kReplaySlice, kReplayOplog));
  EXPECT_TRUE(report->resumed);
  EXPECT_EQ(report->oplog.missed, 0);
  EXPECT_FALSE(report->spare);
  Result<Server> target = Server::connect(options.target);
  ASSERT_TRUE(target) << target.error().message();
  const Result<State> expected = read_state_file(fixture + "/expected.json");
  ASSERT_TRUE(expected) << expected.error().message();
  EXPECT_EQ(in_lines(differences(state_of(*target), *expected)), "");
}

// Users are there already when it goes on, and they are its own.
TEST(Restore, GoesOnWithUsersAndNotWithout) {
  servers::MongoSet set({.members = 1});
  Production production(set.url("admin"));
  production.run("shop", R"({"createUser":"changed","pwd":"old","roles":["read"]})");
  production.run("shop", R"({"createUser":"dropped","pwd":"old","roles":["read"]})");
  const fakes::TempFolder folder;
  Result<Server> from = Server::connect(set.url("admin"));
  ASSERT_TRUE(from) << from.error().message();
  const Result<DumpFacts> dumped = dump(*std::move(from), {.path = folder.path("base")},
                                        [](std::int64_t, std::int64_t) { return Result<void>{}; });
  ASSERT_TRUE(dumped) << dumped.error().message();
  production.run("shop", R"({"updateUser":"changed","pwd":"new"})");
  production.run("shop", R"({"dropUser":"dropped"})");
  production.run("shop", R"({"createRole":"late","privileges":[],"roles":["read"]})");
  production.now();
  production.dump_oplog(dumped->first, folder.path("oplog.bson"));

  servers::MongoServer server;
  RestoreOptions options{.base = folder.path("base"),
                         .oplog = folder.path("oplog.bson"),
                         .target = server.url("?directConnection=true"),
                         .report = folder.path("report")};
  RestoreOptions with_users = options;
  with_users.filter.include_users();
  for (const std::string_view step : {restore_step::kLoad, restore_step::kReplayOplog}) {
    Stopping observer(step);
    EXPECT_EQ(restored(with_users, observer).error().message(), "enough");
  }
  Stopping observer(std::nullopt);
  const Result<RestoreReport> without = restored(options, observer);
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().code, Code::kAlreadyExists) << without.error().message();
  const Result<RestoreReport> report = restored(with_users, observer);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(report->resumed);
  Result<Server> target = Server::connect(options.target);
  ASSERT_TRUE(target) << target.error().message();
  const Result<State> is = read_state(*target, {.users = true});
  const Result<State> should = read_state(production.server(), {.users = true});
  ASSERT_TRUE(is && should);
  EXPECT_EQ(is->at("admin.system.users").count, 1);
  EXPECT_EQ(in_lines(differences(*is, *should)), "");
}

}  // namespace
}  // namespace idmint::restore
