// How stores are looked at, and when a sequence is said to be used up.
#include "server/store_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "idmint/sequence.h"
#include "idmint/testing.h"
#include "tests/fakes/gated_store.h"
#include "tests/fakes/manual_executor.h"
#include "tests/fakes/multi_store_pair.h"

namespace idmint::server {
namespace {

using fakes::GatedStore;
using fakes::ManualExecutor;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::Optional;

// ---- Exhaustion

class ExhaustionTest : public testing::Test {
 protected:
  void note_after(seconds passed, std::int64_t left) {
    now_ += passed;
    exhaustion_.note(now_, left);
  }

  SteadyTime now_{};
  Exhaustion exhaustion_;
};

TEST_F(ExhaustionTest, GoesOnAtTheRateSoFar) {
  EXPECT_EQ(exhaustion_.seconds(), std::nullopt);
  note_after(seconds{0}, 1000);
  EXPECT_EQ(exhaustion_.seconds(), std::nullopt) << "one look has no rate";
  note_after(seconds{9}, 991);
  EXPECT_EQ(exhaustion_.seconds(), std::nullopt) << "not for long enough";
  note_after(seconds{1}, 990);
  EXPECT_THAT(exhaustion_.seconds(), Optional(990.0));
  note_after(seconds{10}, 900);  // 100 in 20 s
  EXPECT_THAT(exhaustion_.seconds(), Optional(180.0));
}

TEST_F(ExhaustionTest, ForgetsWhatIsOlderThanAnHour) {
  note_after(seconds{0}, 1'000'000);
  note_after(minutes{5}, 900'000);  // a burst
  for (int i = 0; i < 14; ++i) note_after(minutes{5}, 900'000 - 300 * (i + 1));
  // One a second since then; the burst is out of view.
  ASSERT_TRUE(exhaustion_.seconds().has_value());
  EXPECT_DOUBLE_EQ(exhaustion_.seconds().value_or(0), 900'000 - 300 * 14);
}

TEST_F(ExhaustionTest, LooksThatComeOftenTakeNoMore) {
  for (int i = 0; i <= 7200; i += 15) note_after(seconds{15}, 100'000 - i);
  EXPECT_DOUBLE_EQ(exhaustion_.seconds().value_or(0), 100'000 - 7200);
}

TEST_F(ExhaustionTest, NeverWhereNothingIsTaken) {
  note_after(seconds{0}, 7);
  note_after(minutes{1}, 7);
  EXPECT_TRUE(std::isinf(exhaustion_.seconds().value_or(0)));
}

TEST_F(ExhaustionTest, NowWhereNothingIsLeft) {
  note_after(seconds{0}, 0);
  EXPECT_THAT(exhaustion_.seconds(), Optional(0.0));
}

TEST_F(ExhaustionTest, BeginsAnewWhenMoreIsLeftThanBefore) {
  note_after(seconds{0}, 100);
  note_after(minutes{1}, 40);
  note_after(minutes{1}, 1000);
  EXPECT_EQ(exhaustion_.seconds(), std::nullopt);
  note_after(minutes{1}, 940);
  EXPECT_THAT(exhaustion_.seconds(), Optional(940.0));
}

// ---- StoreProbe

class StoreProbeTest : public testing::Test {
 protected:
  // So many stores, each with a sequence of ten values.
  void serve(std::size_t count, std::chrono::milliseconds patience = std::chrono::hours{1}) {
    std::vector<ServedStore> served;
    for (std::size_t i = 0; i < count; ++i) {
      stores_.push_back(std::make_shared<GatedStore>());
      EXPECT_TRUE(create_sequence(*stores_.back(), {.name = "orders", .last = 10}));
      served.push_back({.name = i == 0 ? "" : "s" + std::to_string(i), .store = stores_.back()});
    }
    sources_ = std::make_unique<Sources>(loop_, std::move(served));
    probe_ = std::make_unique<StoreProbe>(loop_, *sources_, patience, clock_);
  }
  void look() {
    probe_->look([this] { ++answers_; });
  }
  // Runs everything that needs no other thread.
  void poll() {
    loop_.context().restart();
    loop_.context().poll();
  }

  ManualExecutor executor_;
  Loop loop_{executor_, std::chrono::hours{1}};
  ManualClock clock_{Instant{seconds{1'800'000'000}}};
  std::vector<std::shared_ptr<GatedStore>> stores_;
  std::unique_ptr<Sources> sources_;
  std::unique_ptr<StoreProbe> probe_;
  int answers_ = 0;
};

TEST_F(StoreProbeTest, LooksAtEachStoreAndThenAnswers) {
  serve(2);
  look();
  poll();
  EXPECT_EQ(answers_, 0);
  EXPECT_EQ(executor_.size(), 2U);
  executor_.run_all();
  poll();
  EXPECT_EQ(answers_, 1);
  ASSERT_EQ(probe_->stores().size(), 2U);
  const ProbedStore& second = probe_->stores()[1];
  EXPECT_TRUE(second.up);
  EXPECT_EQ(second.looked_at, clock_.now());
  ASSERT_EQ(second.sources.size(), 1U);
  EXPECT_EQ(second.sources[0].name, "s1/orders");
  EXPECT_EQ(second.sources[0].left, 10);
  EXPECT_EQ(second.sources[0].exhausts_at, std::nullopt);
}

TEST_F(StoreProbeTest, WhoComesMeanwhileSharesTheLook) {
  serve(1);
  look();
  look();
  EXPECT_EQ(executor_.size(), 1U);
  executor_.run_all();
  poll();
  EXPECT_EQ(answers_, 2);
  look();
  EXPECT_EQ(executor_.size(), 1U) << "a later one is another look";
  executor_.run_all();
  poll();
}

TEST_F(StoreProbeTest, SomeStoresAtATimeLeaveThreadsForOthers) {
  serve(StoreProbe::kMostAtOnce + 2);
  look();
  EXPECT_EQ(executor_.size(), StoreProbe::kMostAtOnce);
  for (std::size_t done = 1; done <= StoreProbe::kMostAtOnce + 2; ++done) {
    EXPECT_EQ(answers_, 0);
    ASSERT_TRUE(executor_.run_one());
    poll();
    EXPECT_LE(executor_.size(), StoreProbe::kMostAtOnce);
  }
  EXPECT_EQ(answers_, 1);
  for (const ProbedStore& store : probe_->stores()) EXPECT_TRUE(store.up);
}

TEST_F(StoreProbeTest, WhoHasNoPatienceGetsWhatIsKnown) {
  serve(1, std::chrono::milliseconds{0});
  look();
  while (answers_ == 0) {
    loop_.context().restart();
    loop_.context().run_one();
  }
  EXPECT_FALSE(probe_->stores()[0].up);
  executor_.run_all();
  poll();
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(probe_->stores()[0].up) << "it has answered since";
}

TEST_F(StoreProbeTest, WithoutAThreadNoStoreIsUp) {
  serve(1);
  executor_.refuse(Error{Code::kResourceExhausted, "no thread"});
  look();
  poll();
  EXPECT_EQ(answers_, 1);
  EXPECT_FALSE(probe_->stores()[0].up);
}

// A sequence over several stores waits for those that do not answer. Of the patience enough is left
// to look at the store itself, which is up.
TEST_F(StoreProbeTest, AStoreIsUpBesideOneThatIsNotThere) {
  const fakes::MultiStorePair pair;
  pair.forget_file();
  std::vector<ServedStore> served;
  served.push_back({.store = pair.gated, .mint = pair.options()});
  sources_ = std::make_unique<Sources>(loop_, std::move(served));
  probe_ = std::make_unique<StoreProbe>(loop_, *sources_, std::chrono::hours{1}, clock_);
  const SteadyTime begin = std::chrono::steady_clock::now();
  look();
  executor_.run_all();
  const auto took = std::chrono::steady_clock::now() - begin;
  poll();
  const ProbedStore& seen = probe_->stores()[0];
  EXPECT_TRUE(seen.up);
  ASSERT_EQ(seen.sources.size(), 1U);
  EXPECT_EQ(seen.sources[0].left, 3) << "in this store";
  ASSERT_TRUE(pair.gated->listed_until());
  EXPECT_LE(*pair.gated->listed_until() - begin, took + minutes{45});
}

TEST_F(StoreProbeTest, RetiredAndDamagedSequencesHaveNoRow) {
  serve(1);
  GatedStore& store = *stores_[0];
  ASSERT_TRUE(create_sequence(store, {.name = "gone"}));
  ASSERT_TRUE(create_sequence(store, {.name = "old"}));
  ASSERT_TRUE(retire_sequence(store, "old"));
  store.lose("gone");
  look();
  executor_.run_all();
  poll();
  const ProbedStore& seen = probe_->stores()[0];
  EXPECT_TRUE(seen.up);
  ASSERT_EQ(seen.sources.size(), 1U);
  EXPECT_EQ(seen.sources[0].name, "orders");
  EXPECT_EQ(seen.damaged, 1U);
}

}  // namespace
}  // namespace idmint::server
