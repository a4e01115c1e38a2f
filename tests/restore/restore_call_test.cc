// A restore as a call: options in, report out, and an observer that is told of each step and may
// stop it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "restore/replay/restore.h"
#include "restore/replay/state.h"
#include "tests/restore/production.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

using testing::ElementsAre;

// Remembers the steps, and stops in one of them.
class Stopping final : public Observer {
 public:
  explicit Stopping(std::optional<RestoreStep> where) : where_(where) {}
  void begin(RestoreStep step, std::optional<std::uint64_t>) override { steps.push_back(step); }
  Result<void> advance(std::uint64_t) override {
    if (steps.empty() || steps.back() != where_) return {};
    return std::unexpected(Error{Code::kUnavailable, "enough"});
  }
  std::vector<RestoreStep> steps{};

 private:
  const std::optional<RestoreStep> where_;
};

Result<RestoreReport> restored(const RestoreOptions& options, Observer& observer) {
  Result<RestorePlan> plan = plan_restore(options, observer);
  if (!plan) return std::unexpected(std::move(plan.error()));
  return restore(*plan, observer);
}

TEST(Restore, IsStoppedInAnyStepAndTheSameCallGoesOn) {
  const std::string fixture = std::string(IDMINT_FIXTURES) + "/s2_wrong_inc_ordinal";
  servers::MongoServer server;
  RestoreOptions options{.base = fixture + "/base-dump",
                         .oplog = fixture + "/oplog-dump",
                         .limit = Timestamp{.seconds = 1795230181, .ordinal = 16},
                         .target = server.url("?directConnection=true")};
  using enum RestoreStep;
  for (const RestoreStep step :
       {kCheckBase, kCheckOplog, kLoad, kReplaySlice, kBuildIndexes, kReplayOplog}) {
    Stopping observer(step);
    const Result<RestoreReport> report = restored(options, observer);
    ASSERT_FALSE(report) << "step " << static_cast<int>(step);
    EXPECT_EQ(report.error().code, Code::kUnavailable);
    EXPECT_EQ(report.error().message, "enough") << "step " << static_cast<int>(step);
    EXPECT_EQ(observer.steps.back(), step);
  }

  Stopping observer(std::nullopt);
  const Result<RestoreReport> report = restored(options, observer);
  ASSERT_TRUE(report) << report.error().message;
  // The base is loaded and its indexes are built, and its slice is read again for its transactions.
  EXPECT_THAT(observer.steps, ElementsAre(kCheckBase, kCheckOplog, kReplaySlice, kReplayOplog));
  EXPECT_TRUE(report->resumed);
  EXPECT_EQ(report->oplog.missed, 0);
  EXPECT_FALSE(report->spare);
  Result<Server> target = Server::connect(options.target);
  ASSERT_TRUE(target) << target.error().message;
  const Result<State> expected = read_state_file(fixture + "/expected.json");
  ASSERT_TRUE(expected) << expected.error().message;
  EXPECT_EQ(in_lines(differences(state_of(*target), *expected)), "");
}

}  // namespace
}  // namespace idmint::restore
