// The fence of idmint's sequences and pools on real servers: production is a replica set that goes
// on after the moment to which the target was brought back. Whatever it handed out in between does
// not come again from the target.
#include "restore/fence/fence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "idmint/sequence.h"
#include "idmint/store.h"
#include "idmint/worker_pool.h"
#include "ids/lease_table.h"
#include "restore/fence/server_state.h"
#include "restore/fence/sources.h"
#include "restore/tests/fenced_target.h"
#include "restore/tests/program.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/unique_index.h"

namespace idmint::restore {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Gt;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

std::map<std::string, std::int64_t> next_of_each(Store& store) {
  std::map<std::string, std::int64_t> all;
  const auto counters = store.counters()->list("");
  EXPECT_TRUE(counters) << counters.error().message();
  if (counters)
    for (const CounterState& each : *counters) all[each.name] = each.next;
  return all;
}

class FenceOfStores : public FenceTest {
 protected:
  void SetUp() override {
    shop_ = open(production_url("shop"));
    const std::vector<SequenceDefinition> definitions = {
        {.name = "adopted", .adopted = "numbers/a:last=n", .make_adopted = true},
        {.name = "blocks", .strategy = Strategy::kStriped, .last = 9'999, .stripes = 5},
        {.name = "cached", .strategy = Strategy::kCached, .step = 10},
        {.name = "cards", .strategy = Strategy::kPermuted, .last = 999'999},
        {.name = "codes", .strategy = Strategy::kRandom, .last = 999'999},
        {.name = "counter", .first = 1000},
        {.name = "idle"},
        {.name = "invoices", .strategy = Strategy::kGapless},
        {.name = "old"},
        {.name = "small", .last = 10},
        {.name = "turns", .strategy = Strategy::kInterleaved, .last = 999'999, .stripes = 3},
    };
    for (const SequenceDefinition& definition : definitions) {
      const auto created = create_sequence(*shop_, definition);
      ASSERT_TRUE(created) << created.error().message();
    }
    const auto made = create_pool(*shop_, {.name = "web", .workers = 4});
    ASSERT_TRUE(made) << made.error().message();
    mint_some();
    mint(*shop_, "idle", 3);
    give_invoices(3);
    restore_to_now();
    // Clients have seen this work, and the restore took it back.
    mint_some();
    give_invoices(4);
    ASSERT_TRUE(alter_sequence(*shop_, "small", 1000));
    mint(*shop_, "small", 20);
    ASSERT_TRUE(retire_sequence(*shop_, "old"));
    for (const SequenceDefinition& definition :
         {SequenceDefinition{.name = "later"},
          SequenceDefinition{.name = "later-cards", .strategy = Strategy::kPermuted, .last = 9'999},
          SequenceDefinition{.name = "later-codes", .strategy = Strategy::kRandom, .last = 9'999},
          SequenceDefinition{.name = "later-numbers", .strategy = Strategy::kGapless}}) {
      ASSERT_TRUE(create_sequence(*shop_, definition));
      if (definition.strategy != Strategy::kGapless) mint(*shop_, definition.name, 7);
    }
    ASSERT_TRUE(create_pool(*shop_, {.name = "later-web", .workers = 2}));
    mint(*shop_, "later-web", 7);
    set_next("later-numbers", 3);
  }

  // Numbers that documents got, in one transaction each.
  void give_invoices(int count) {
    mongoc_client_session_t* const session = production_.begin();
    production_.run("shop",
                    R"({"update":"idmint.counters","updates":[{"q":{"_id":"invoices"},"u":{"$inc":)"
                    R"({"next":{"$numberLong":")" +
                        std::to_string(count) + R"("}},"$set":{"numbers":"shop.invoices:no"}}}]})",
                    session);
    std::string documents;
    for (int i = 0; i < count; ++i)
      documents += (i == 0 ? "" : ",") + std::string(R"({"no":{"$numberLong":")") +
                   std::to_string(++invoices_) + R"("}})";
    production_.insert("shop.invoices", documents, session);
    Production::commit(session);
  }
  void set_next(const std::string& counter, std::int64_t next) {
    production_.run("shop", R"({"update":"idmint.counters","updates":[{"q":{"_id":")" + counter +
                                R"("},"u":{"$set":{"next":{"$numberLong":")" +
                                std::to_string(next) + R"("}}}}]})");
  }
  void mint_some() {
    for (const char* const name :
         {"adopted", "blocks", "cached", "cards", "codes", "counter", "turns", "web"})
      mint(*shop_, name, std::string_view(name) == "blocks" ? 12 : 4);
  }
  void mint(Store& store, const std::string& name, int count) {
    std::set<std::int64_t>& all = given_[name];
    if (name.ends_with("web")) {
      auto generator = SnowflakeGenerator::open(store, name);
      ASSERT_TRUE(generator) << generator.error().message();
      std::vector<Snowflake> ids(static_cast<std::size_t>(count));
      ASSERT_TRUE((*generator)->next(ids));
      for (const Snowflake& id : ids)
        EXPECT_TRUE(all.insert(static_cast<std::int64_t>(id.value())).second) << name;
      return;
    }
    const auto sequence = Sequence::open(store, name);
    ASSERT_TRUE(sequence) << name << ": " << sequence.error().message();
    for (int i = 0; i < count; ++i) {
      std::int64_t value = 0;
      ASSERT_TRUE((*sequence)->next({&value, 1})) << name;
      EXPECT_TRUE(all.insert(value).second) << name << " gave " << value << " twice";
    }
  }
  // Everything that production handed out is behind the target, as the target itself shows.
  void expect_fenced() {
    const auto there = open(target_url("shop"));
    auto expected = next_of_each(*shop_);
    expected.erase("old");
    auto next = next_of_each(*there);
    next.erase("old");
    EXPECT_EQ(next, expected) << "past all that was handed out, and no value further";
    for (const char* const pool : {"web", "later-web"}) {
      const auto theirs = shop_->leases()->workers(pool);
      const auto ours = there->leases()->workers(pool);
      ASSERT_TRUE(theirs && ours) << pool;
      const std::int64_t bound =
          std::ranges::max(*theirs, {}, &LeaseState::minted_until).minted_until;
      std::int64_t generation = std::ranges::max(*theirs, {}, &LeaseState::generation).generation;
      for (const LeaseState& worker : *ours) {
        EXPECT_EQ(worker.minted_until, bound) << pool;
        EXPECT_EQ(worker.token, Uuid{}) << pool << " has an owner";
        EXPECT_THAT(worker.generation, Gt(generation)) << pool;
      }
    }
    expect_no_repeat(*there);
    EXPECT_FALSE(Sequence::open(*there, "old")) << "retired, as in production";
  }
  void expect_no_repeat(Store& there) {
    for (const auto& [name, values] : given_) {
      if (name.ends_with("web")) continue;
      if (name.ends_with("codes")) {
        for (const std::int64_t value : values)
          EXPECT_EQ(there.unique_index()->contains(name, value), true) << name << " " << value;
      }
      mint(there, name, 10);
    }
  }

  std::unique_ptr<Store> shop_;
  std::map<std::string, std::set<std::int64_t>> given_;
  std::int64_t invoices_ = 0;
};

TEST_F(FenceOfStores, EachStrategyGoesPastWhatTheOplogHas) {
  FenceOptions options = by_oplog();
  // A dry run writes nothing, and says what is to be done.
  const State before = state_of(on_target_.server());
  FenceReport report = fenced(options, FenceMode::kPreview);
  EXPECT_EQ(in_lines(differences(state_of(on_target_.server()), before)), "");
  EXPECT_FALSE(report.carried_out);
  EXPECT_EQ(source(report, "shop/invoices").outcome, FenceOutcome::kRefused);
  EXPECT_THAT(source(report, "shop/invoices").why,
              HasSubstr("its numbers 4 to 7 were given to documents that are not on the target"));
  EXPECT_EQ(source(report, "shop/idle").outcome, FenceOutcome::kAsItWas);
  EXPECT_EQ(source(report, "shop/codes").claims, 4);

  // Gapless numbers are passed only on demand; until then nothing is.
  EXPECT_THAT(refused(options).message(), HasSubstr("--leave-gap"));
  options.leave_gap = true;
  report = fenced(options);
  EXPECT_THAT(source(report, "shop/invoices").lost, ElementsAre(NumberSpan{4, 7}));
  EXPECT_THAT(source(report, "shop/later-numbers").lost, ElementsAre(NumberSpan{1, 2}));
  EXPECT_EQ(source(report, "shop/old").outcome, FenceOutcome::kRetired);
  EXPECT_EQ(source(report, "shop/later").outcome, FenceOutcome::kMade);
  EXPECT_EQ(source(report, "shop/codes").claims, 4);
  EXPECT_THAT(source(report, "shop/blocks").counters, Not(IsEmpty()));
  EXPECT_NE(source(report, "shop/web").past, "");
  expect_fenced();
}

TEST_F(FenceOfStores, TheLiveServerIsAskedAfterADropToo) {
  // The mistake: production's store is gone, and only its oplog has it.
  const auto expected = next_of_each(*shop_);
  FenceOptions options = by_live();
  options.leave_gap = true;
  // This is before the mistake, so the live server alone tells.
  FenceReport report = fenced(options, FenceMode::kPreview);
  EXPECT_EQ(source(report, "shop/codes").claims, 4);
  production_.run("shop", R"({"dropDatabase":1})");
  report = fenced(options);
  EXPECT_EQ(source(report, "shop/codes").claims, 4);
  const auto there = open(target_url("shop"));
  auto next = next_of_each(*there);
  EXPECT_EQ(next, expected);
  expect_no_repeat(*there);
}

TEST_F(FenceOfStores, IsStoppedAnywhereAndTheSameAgainFinishesIt) {
  FenceOptions options = by_oplog();
  options.leave_gap = true;
  const FenceReport plan = fenced(options, FenceMode::kPreview);
  const auto target = open(target_url("shop"));
  auto last = next_of_each(*target);
  for (std::uint64_t after = 0; after < plan.sources.size(); ++after) {
    StoppingFence observer(after);
    FenceReport report;
    const Result<void> done = fence(options, FenceMode::kCarryOut, observer, report);
    // A sequence that is retired by then has no row any more.
    EXPECT_EQ(done.has_value(), after >= report.sources.size());
    EXPECT_EQ(observer.plans, 1);
    const auto now = next_of_each(*target);
    for (const auto& [name, next] : last) EXPECT_GE(now.at(name), next) << name << " went back";
    last = now;
  }
  fenced(options);
  expect_fenced();
  // Values that came since are not taken back by one more.
  const auto moved = next_of_each(*target);
  const FenceReport again = fenced(options);
  EXPECT_EQ(next_of_each(*target), moved);
  EXPECT_EQ(source(again, "shop/counter").outcome, FenceOutcome::kAsItWas);
  EXPECT_THAT(source(again, "shop/invoices").lost, IsEmpty());
}

TEST_F(FenceOfStores, NothingIsWrittenWhereTheReportCannotBeKept) {
  FenceOptions options = by_oplog();
  options.leave_gap = true;
  const State before = state_of(on_target_.server());
  StoppingFence observer;
  observer.refuses_plan = true;
  FenceReport report;
  const Result<void> done = fence(options, FenceMode::kCarryOut, observer, report);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kResourceExhausted);
  EXPECT_EQ(in_lines(differences(state_of(on_target_.server()), before)), "");
}

TEST_F(FenceOfStores, WhatCannotBeRightIsNotTakenForHandedOut) {
  // A hand wrote these: past the end, and between two values of the stripe. idmint gives nothing
  // from there; what it gave before counts.
  const auto expected = next_of_each(*shop_);
  set_next("small", 5000);
  set_next("turns/1", 500'001);
  FenceOptions options = by_oplog();
  options.exclude = {"shop/inv*", "shop/later-n*"};
  const FenceReport report = fenced(options);
  EXPECT_EQ(source(report, "shop/invoices").outcome, FenceOutcome::kLeftOut);
  EXPECT_THAT(source(report, "shop/small").note, HasSubstr("cannot be idmint's"));
  const auto there = open(target_url("shop"));
  const auto next = next_of_each(*there);
  EXPECT_EQ(next.at("small"), expected.at("small"));
  EXPECT_EQ(next.at("turns/1"), expected.at("turns/1"));
  EXPECT_LT(next.at("invoices"), expected.at("invoices")) << "left out";
}

TEST_F(FenceOfStores, ASequenceThatWasDefinedAnewIsRefused) {
  production_.run("shop", R"({"delete":"idmint.definitions","deletes":[{"q":{"_id":"cards"},)"
                          R"("limit":1}]})");
  production_.run("shop", R"({"delete":"idmint.counters","deletes":[{"q":{"_id":"cards"},)"
                          R"("limit":1}]})");
  ASSERT_TRUE(
      create_sequence(*shop_, {.name = "cards", .strategy = Strategy::kPermuted, .last = 999'999}));
  FenceOptions options = by_oplog();
  options.leave_gap = true;
  EXPECT_THAT(refused(options).message(),
              AllOf(HasSubstr("shop/cards"), HasSubstr("defined it otherwise")));
}

TEST_F(FenceOfStores, WhatNobodyKnowsOfIsRefusedWhereTheOplogBeginsTooLate) {
  const Result<ServerState> there = read_server_state(on_target_.server());
  ASSERT_TRUE(there) << there.error().message();
  const HandedOutStores nothing;
  SourceFence fence({.target = target_url(), .must_be_seen = true}, on_target_.server(), nullptr,
                    there->stores, nothing);
  const Result<std::vector<FencedSource>> rows = fence.plan();
  ASSERT_TRUE(rows) << rows.error().message();
  EXPECT_THAT(*rows, SizeIs(12));
  for (const FencedSource& row : *rows) {
    EXPECT_EQ(row.outcome, FenceOutcome::kRefused) << row.label();
    EXPECT_THAT(row.why, HasSubstr("find an oplog that reaches back to the limit"));
  }
}

TEST_F(FenceOfStores, WhatWasClosedToBeGivenUpGoesOnHere) {
  const auto expected = next_of_each(*shop_);
  const auto bounds = shop_->leases()->workers("web");
  ASSERT_TRUE(bounds);
  for (const char* const name : {"counter", "web", "blocks"})
    ASSERT_TRUE(retire_sequence(*shop_, name));
  FenceOptions options = by_oplog();
  options.leave_gap = true;
  EXPECT_EQ(source(fenced(options, FenceMode::kPreview), "shop/web").outcome,
            FenceOutcome::kRetired);
  options.reopen = true;
  fenced(options);
  const auto there = open(target_url("shop"));
  EXPECT_EQ(next_of_each(*there), expected);
  mint(*there, "counter", 10);
  mint(*there, "blocks", 10);
  const auto workers = there->leases()->workers("web");
  ASSERT_TRUE(workers);
  EXPECT_EQ(workers->front().minted_until,
            std::ranges::max(*bounds, {}, &LeaseState::minted_until).minted_until)
      << "what retiring made of the bounds was never granted";
}

TEST_F(FenceOfStores, WhatWasMovedToAnotherStoreGivesNothingHere) {
  const auto elsewhere = Store::open("memory:");
  ASSERT_TRUE(elsewhere && move_sequence(*shop_, **elsewhere, "counter"));
  FenceOptions options = by_oplog();
  options.leave_gap = true;
  options.reopen = true;
  const FencedSource moved = source(fenced(options), "shop/counter");
  EXPECT_EQ(moved.outcome, FenceOutcome::kRetired);
  EXPECT_THAT(moved.note, HasSubstr("production moved it to memory:"));
  EXPECT_THAT(Sequence::open(*open(target_url("shop")), "counter").error().message(),
              HasSubstr("it was moved to memory:"));

  const auto blocks = std::get<SequenceDefinition>(shop_->catalog()->find("blocks").value());
  SequenceDefinition leaving = blocks;
  leaving.move = {Move::Stage::kLeaving, (*elsewhere)->id(), "memory:"};
  ASSERT_TRUE(shop_->catalog()->replace(blocks, leaving));
  options = by_oplog();
  options.leave_gap = true;
  EXPECT_THAT(refused(options).message(),
              AllOf(HasSubstr("shop/blocks"), HasSubstr("production is moving it")));
}

TEST_F(FenceOfStores, CollectionsThatHoldIdsCount) {
  // A program took these ids, and neither the oplog's counter nor the live one has them.
  production_.insert("app.orders", R"({"number":{"$numberLong":"5000"}},{"number":1001})");
  FenceOptions options = by_live();
  options.leave_gap = true;
  options.used_in = {{.source = "shop/counter", .collection = "app.orders", .field = "number"}};
  FenceReport report = fenced(options, FenceMode::kPreview);
  EXPECT_THAT(source(report, "shop/counter").note, HasSubstr("app.orders:number"));
  fenced(options);
  const auto there = open(target_url("shop"));
  EXPECT_EQ(next_of_each(*there).at("counter"), 5001);
}

// ---- the command

TEST_F(FenceOfStores, TheCommandIsADryRunUntilItIsToldAndKeepsItsReport) {
  const std::string report_file = folder_.path("fence.jsonl");
  const std::vector<std::string> words = {
      "fence",    "--target", target_url(), "--oplog", dump(), "--limit", print_timestamp(limit_),
      "--report", report_file};
  const State before = state_of(on_target_.server());
  Ended ended = Program(folder_, words).end();
  EXPECT_EQ(ended.status, 5) << ended.out << ended.err;
  EXPECT_THAT(ended.out, AllOf(HasSubstr("this is a dry run"), HasSubstr("NOT FENCED"),
                               HasSubstr("shop/invoices: it is gapless")));
  EXPECT_FALSE(std::filesystem::exists(report_file));
  ended = Program(folder_, with(words, {"--yes"})).end();
  EXPECT_EQ(ended.status, 5) << ended.out << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("nothing was written"));
  EXPECT_EQ(in_lines(differences(state_of(on_target_.server()), before)), "");

  const std::vector<std::string> all = with(words, {"--leave-gap", "--yes"});
  {
    // Killed between its plan and its end: what is planned is on the disk before the first write.
    Program program(folder_, all);
    while (program.runs() && !content(report_file).ends_with("\n")) std::this_thread::yield();
    program.kill();
  }
  ended = Program(folder_, with(all, {"--json"})).end();
  ASSERT_EQ(ended.status, 0) << ended.out << ended.err;
  EXPECT_EQ(nlohmann::json::parse(ended.out).at("fence"), "fenced");
  expect_fenced();

  // The first line has the numbers that are lost, whatever the kill left for the later runs.
  std::ifstream lines(report_file);
  std::vector<nlohmann::json> kept;
  for (std::string line; std::getline(lines, line);) kept.push_back(nlohmann::json::parse(line));
  ASSERT_GE(kept.size(), 3);
  EXPECT_EQ(kept.front().at("fence"), "planned");
  EXPECT_EQ(kept.back().at("fence"), "fenced");
  std::string lost;
  for (const auto& row : kept.front().at("sources"))
    if (row.at("source") == "shop/invoices") lost = row.at("lost").dump();
  EXPECT_EQ(lost, R"([{"first":4,"last":7}])");
}

}  // namespace
}  // namespace idmint::restore
