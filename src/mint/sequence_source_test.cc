// Sources of sequences that are moved to another store while they are open.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "idmint/mint.h"
#include "idmint/sequence.h"
#include "idmint/store.h"
#include "idmint/testing.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/temp_folder.h"

namespace idmint {
namespace {

using namespace std::chrono_literals;
using fakes::code_of;
using testing::HasSubstr;

// Two stores in files, and a sequence in the first one.
class FollowedSequence : public testing::Test {
 protected:
  FollowedSequence() { EXPECT_TRUE(create_sequence(*from, {.name = "orders", .last = 100'000})); }

  std::string url(const std::string& name) { return "sqlite:" + folder.path(name + ".db"); }
  std::unique_ptr<Store> open(const std::string& name) {
    return Store::open(url(name), {.trust_folder = folder.path("trust")}).value();
  }
  Mint mint(std::vector<std::string> also, std::chrono::milliseconds deadline = 5s) {
    MintOptions options{.store = url("from"), .also = std::move(also)};
    options.store_options.deadline = deadline;
    options.store_options.trust_folder = trust;
    return Mint(std::move(options));
  }

  fakes::TempFolder folder;
  const std::string trust = folder.path("trust");
  std::unique_ptr<Store> from = open("from");
  std::unique_ptr<Store> to = open("to");
};

Result<std::int64_t> next_of(Source& source) {
  Id id;
  if (Result<void> filled = source.next({&id, 1}); !filled) return std::unexpected(filled.error());
  return std::get<std::int64_t>(id);
}

TEST_F(FollowedSequence, AnOpenSourceGoesOnInTheOtherStore) {
  Mint with = mint({url("absent"), url("to")});
  Mint without = mint({url("absent")});
  const auto follows = with.source("orders").value();
  const auto stays = without.source("orders").value();
  EXPECT_EQ(next_of(*follows), 1);
  EXPECT_EQ(next_of(*stays), 2);
  ASSERT_TRUE(move_sequence(*from, *to, "orders"));
  EXPECT_EQ(next_of(*follows), 3);
  const Result<std::int64_t> told = next_of(*stays);
  EXPECT_EQ(code_of(told), Code::kFailedPrecondition);
  EXPECT_THAT(told.error().message(), HasSubstr("it was moved to "));
  EXPECT_EQ(told.error().advice, (Advice{Remedy::kFollowMove, "orders", {std::string(to->url())}}));
  // One that is opened later, too.
  EXPECT_EQ(next_of(*with.source("orders").value()), 4);
  EXPECT_EQ(code_of(without.source("orders")), Code::kFailedPrecondition);
}

TEST_F(FollowedSequence, GoesFromStoreToStore) {
  const std::unique_ptr<Store> third = open("third");
  Mint with = mint({url("third"), url("to")});
  const auto source = with.source("orders").value();
  EXPECT_EQ(next_of(*source), 1);
  ASSERT_TRUE(move_sequence(*from, *to, "orders"));
  EXPECT_EQ(next_of(*source), 2);
  ASSERT_TRUE(move_sequence(*to, *third, "orders"));
  EXPECT_EQ(next_of(*source), 3);
  EXPECT_EQ(next_of(*with.source("orders").value()), 4);
}

// As if the mover was killed after it closed the counter.
TEST_F(FollowedSequence, WaitsForTheEndOfAMoveUntilItsDeadline) {
  const Definition here = from->catalog()->find("orders").value();
  SequenceDefinition leaving = std::get<SequenceDefinition>(here);
  SequenceDefinition arriving = leaving;
  leaving.move = {Move::Stage::kLeaving, to->id(), std::string(to->url())};
  arriving.move = {Move::Stage::kArriving, from->id(), std::string(from->url())};
  Mint patient = mint({url("to")});
  Mint hasty = mint({url("to")}, 30ms);
  const auto source = patient.source("orders").value();
  const auto other = hasty.source("orders").value();
  ASSERT_TRUE(to->catalog()->define(arriving));
  ASSERT_TRUE(to->counters()->create("orders", {1, 100'000}));
  ASSERT_TRUE(from->catalog()->replace(here, leaving));
  EXPECT_EQ(next_of(*source), 1) << "open until the counter is closed";
  ASSERT_TRUE(from->counters()->close("orders"));
  const Result<std::int64_t> told = next_of(*other);
  EXPECT_EQ(code_of(told), Code::kUnavailable);
  EXPECT_EQ(told.error().advice.remedy, Remedy::kFinishMove);
  std::jthread waiting([&] { EXPECT_EQ(next_of(*source), 2); });
  EXPECT_TRUE(move_sequence(*from, *to, "orders").value().was_begun);
}

TEST_F(FollowedSequence, WhoTakesAllTheWhileGetsNoValueTwice) {
  for (const Strategy strategy : {Strategy::kCounter, Strategy::kInterleaved, Strategy::kCached}) {
    SequenceDefinition definition{
        .name = std::string(name(strategy)), .strategy = strategy, .last = 10'000'000};
    if (strategy == Strategy::kInterleaved) definition.stripes = 4;
    ASSERT_TRUE(create_sequence(*from, definition));
    Mint with = mint({url("to")}, 60s);
    const auto source = with.source(definition.name).value();
    std::atomic<bool> done = false;
    std::vector<std::vector<std::int64_t>> taken(4);
    std::vector<std::jthread> takers;
    std::atomic<int> begun = 0;
    for (std::vector<std::int64_t>& its : taken) {
      takers.emplace_back([&] {
        for (int later = 0; later < 20; later += done ? 1 : 0) {
          const Result<std::int64_t> value = next_of(*source);
          ASSERT_TRUE(value) << value.error().message();
          its.push_back(*value);
          if (its.size() == 5) ++begun;
        }
      });
    }
    while (begun < 4) std::this_thread::yield();
    ASSERT_TRUE(move_sequence(*from, *to, definition.name));
    done = true;
    takers.clear();
    std::vector<std::int64_t> all;
    for (const auto& its : taken) all.insert(all.end(), its.begin(), its.end());
    std::ranges::sort(all);
    EXPECT_EQ(std::ranges::adjacent_find(all), all.end()) << name(strategy);
    if (strategy == Strategy::kCounter) {
      EXPECT_EQ(all.back(), std::ssize(all)) << "and none was skipped";
    }
  }
}

}  // namespace
}  // namespace idmint
