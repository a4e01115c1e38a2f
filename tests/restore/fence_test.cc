// The fence on real servers: production is a replica set that goes on after the moment to which the
// target was brought back. Whatever it handed out in between does not come again from the target.
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
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "idmint/sequence.h"
#include "idmint/store.h"
#include "idmint/worker_pool.h"
#include "ids/lease_table.h"
#include "restore/collections.h"
#include "restore/fence/server_state.h"
#include "restore/fence/sources.h"
#include "restore/replay/record.h"
#include "stores/spi/counter_store.h"
#include "stores/spi/unique_index.h"
#include "tests/fakes/temp_folder.h"
#include "tests/restore/oplog_builder.h"
#include "tests/restore/production.h"
#include "tests/restore/program.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Gt;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// Stops after so many rows were fenced; never, where that is negative.
class StoppingFence final : public FenceObserver {
 public:
  explicit StoppingFence(std::int64_t after = -1) : after_(after) {}
  void begin(FenceStep step, std::string_view, std::optional<std::int64_t>) override {
    step_ = step;
  }
  Result<void> advance(std::int64_t done) override {
    if (step_ != FenceStep::kFence || after_ < 0 || done <= after_) return {};
    return std::unexpected(Error{Code::kUnavailable, "enough"});
  }
  Result<void> planned(const FenceReport&) override {
    ++plans;
    if (!refuses_plan) return {};
    return std::unexpected(Error{Code::kResourceExhausted, "the report cannot be kept"});
  }
  bool refuses_plan = false;
  int plans = 0;

 private:
  const std::int64_t after_;
  FenceStep step_{};
};

// Of three members: a write waits 100 ms for the journal of a member that is alone.
servers::MongoSet& production_set() { return servers::mongo_set(); }

class FenceTest : public testing::Test {
 protected:
  FenceTest() { began_ = production_.now(); }
  ~FenceTest() override {
    for (const char* const database : {"shop", "app"})
      production_.run(database, R"({"dropDatabase":1})");
  }

  static std::string production_url(const std::string& database = "") {
    return production_set().url(database);
  }
  [[nodiscard]] std::string target_url(const std::string& database = "") const {
    return target_.url(database + "?directConnection=true");
  }

  // The state that a restore brings back: production's as it is now; and the limit after it.
  void restore_to_now() {
    Result<std::vector<CollectionFacts>> there = list_collections(production_.server());
    ASSERT_TRUE(there) << there.error().message;
    for (const CollectionFacts& each : *there) {
      const Result<void> copied = for_each_document(
          production_.server(), each.database, each.name, [&](Document document) -> Result<void> {
            on_target_.insert(each.ns(), to_canonical_json(document));
            return {};
          });
      ASSERT_TRUE(copied) << copied.error().message;
    }
    limit_ = production_.now();
  }

  // The oplog since the begin of the test, as it is now.
  std::string dump() {
    const std::string path = folder_.path("oplog.bson");
    production_.now();
    production_.dump_oplog(began_, path);
    return path;
  }
  FenceOptions by_oplog() { return {.target = target_url(), .oplog = dump(), .limit = limit_}; }
  FenceOptions by_live() {
    return {.target = target_url(), .live = production_url(), .limit = limit_};
  }
  // A fence that is expected to succeed.
  FenceReport fenced(const FenceOptions& options, FenceMode mode = FenceMode::kCarryOut) {
    StoppingFence observer;
    FenceReport report;
    const Result<void> done = fence(options, mode, observer, report);
    EXPECT_TRUE(done) << done.error().message;
    return report;
  }
  // One that is refused and writes nothing.
  Error refused(const FenceOptions& options) {
    const State before = state_of(on_target_.server());
    StoppingFence observer;
    FenceReport report;
    const Result<void> done = fence(options, FenceMode::kCarryOut, observer, report);
    EXPECT_FALSE(done);
    EXPECT_EQ(observer.plans, 0);
    EXPECT_EQ(in_lines(differences(state_of(on_target_.server()), before)), "");
    return done ? Error{} : done.error();
  }

  // The field of a document on the target, as canonical JSON; "none".
  std::string on_target(const std::string& database, const std::string& collection,
                        const std::string& id, const std::string& field) {
    const Bson reply =
        on_target_.run(database, R"({"find":")" + collection + R"(","filter":{"_id":)" + id + "}}");
    std::string text = "none";
    reply.view().each_found([&](const Document& document) {
      bson_iter_t at;
      if (!document.find(field.c_str(), &at)) return;
      Bson only;
      only.add("v", &at);
      text = to_canonical_json(only.view());
    });
    return text;
  }

  std::unique_ptr<Store> open(const std::string& url) {
    Result<std::unique_ptr<Store>> store = Store::open(url, {.deadline = std::chrono::seconds{60}});
    EXPECT_TRUE(store) << store.error().message;
    if (!store) std::abort();
    return *std::move(store);
  }

  Production production_{production_url("admin")};
  servers::MongoServer target_;
  Production on_target_{target_.url("admin?directConnection=true")};
  fakes::TempFolder folder_;
  Timestamp began_{};
  Timestamp limit_{};
};

std::string integer(std::int64_t value) {
  return R"({ "v" : { "$numberInt" : ")" + std::to_string(value) + R"(" } })";
}

const FencedSource& source(const FenceReport& report, const std::string& label) {
  static const FencedSource kNone;
  for (const FencedSource& each : report.sources)
    if (each.label() == label) return each;
  ADD_FAILURE() << "no row of " << label;
  return kNone;
}
const FencedDocument& document(const FenceReport& report, const std::string& label) {
  static const FencedDocument kNone;
  for (const FencedDocument& each : report.documents)
    if (each.label() == label) return each;
  ADD_FAILURE() << "no row of " << label;
  return kNone;
}

// ---- idmint's own

std::map<std::string, std::int64_t> next_of_each(Store& store) {
  std::map<std::string, std::int64_t> all;
  const auto counters = store.counters()->list("");
  EXPECT_TRUE(counters) << counters.error().message;
  if (counters)
    for (const CounterState& each : *counters) all[each.name] = each.next;
  return all;
}

class FenceOfStores : public FenceTest {
 protected:
  void SetUp() override {
    shop_ = open(production_url("shop"));
    const std::vector<SequenceDefinition> definitions = {
        {.name = "adopted", .adopted = "numbers/a:last=n"},
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
      ASSERT_TRUE(created) << created.error().message;
    }
    const auto made = create_pool(*shop_, {.name = "web", .workers = 4});
    ASSERT_TRUE(made) << made.error().message;
    mint_some();
    mint(*shop_, "idle", 3);
    give_invoices(3);
    restore_to_now();
    // What clients have seen, and the restore took back.
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
      ASSERT_TRUE(generator) << generator.error().message;
      std::vector<Snowflake> ids(static_cast<std::size_t>(count));
      ASSERT_TRUE((*generator)->next(ids));
      for (const Snowflake& id : ids)
        EXPECT_TRUE(all.insert(static_cast<std::int64_t>(id.value())).second) << name;
      return;
    }
    const auto sequence = Sequence::open(store, name);
    ASSERT_TRUE(sequence) << name << ": " << sequence.error().message;
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
  EXPECT_THAT(refused(options).message, HasSubstr("--leave-gap"));
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
  // As it is before the mistake, the live server alone tells.
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
  const auto rows = static_cast<std::int64_t>(plan.sources.size());
  const auto target = open(target_url("shop"));
  auto last = next_of_each(*target);
  for (std::int64_t after = 0; after < rows; ++after) {
    StoppingFence observer(after);
    FenceReport report;
    const Result<void> done = fence(options, FenceMode::kCarryOut, observer, report);
    // What is retired by then has no row any more.
    EXPECT_EQ(done.has_value(), std::cmp_greater_equal(after, report.sources.size()));
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
  EXPECT_THAT(refused(options).message,
              AllOf(HasSubstr("shop/cards"), HasSubstr("defined it otherwise")));
}

TEST_F(FenceOfStores, WhatNobodyKnowsOfIsRefusedWhereTheOplogBeginsTooLate) {
  const Result<ServerState> there = read_server_state(on_target_.server());
  ASSERT_TRUE(there) << there.error().message;
  const HandedOutStores nothing;
  SourceFence fence({.target = target_url(), .must_be_seen = true}, on_target_.server(), nullptr,
                    there->stores, nothing);
  const Result<std::vector<FencedSource>> rows = fence.plan();
  ASSERT_TRUE(rows) << rows.error().message;
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

TEST_F(FenceOfStores, CollectionsThatHoldIdsCount) {
  // By a program that took the ids, and of which neither the oplog's counter nor the live one
  // knows.
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

// ---- counter documents

class FenceOfDocuments : public FenceTest {
 protected:
  void inc(const std::string& ns, const std::string& id, const std::string& field,
           const std::string& by, bool upsert = false) {
    const std::size_t dot = ns.find('.');
    production_.run(ns.substr(0, dot), R"({"findAndModify":")" + ns.substr(dot + 1) +
                                           R"(","query":{"_id":)" + id +
                                           R"(},"update":{"$inc":{")" + field + "\":" + by +
                                           R"(}},"upsert":)" + (upsert ? "true" : "false") + "}");
  }
  void set(const std::string& ns, const std::string& id, const std::string& fields) {
    const std::size_t dot = ns.find('.');
    production_.run(ns.substr(0, dot), R"({"update":")" + ns.substr(dot + 1) +
                                           R"(","updates":[{"q":{"_id":)" + id +
                                           R"(},"u":{"$set":)" + fields + "}}]}");
  }
};

TEST_F(FenceOfDocuments, EachClassicShapeGoesOnWhereProductionWas) {
  production_.insert("app.uniqueIdentifierCounter",
                     R"({"_id":"UNIQUE COUNT DOCUMENT IDENTIFIER","COUNT":0,"NOTES":"n"},)"
                     R"({"_id":"COUNTER DOCUMENT NUMBER 0","COUNT":0,"MAX_VALUE":999},)"
                     R"({"_id":"COUNTER DOCUMENT NUMBER 1","COUNT":1000,"MAX_VALUE":1999})");
  production_.insert("app.blocks", R"({"_id":"b","COUNT":{"$numberLong":"7"},"MAXCOUNT":999})");
  production_.insert("app.counters", R"({"_id":"userid","seq":{"$numberDouble":"0"}})");
  production_.insert("app.ids", R"({"_id":"orders","index":1000})");
  production_.insert("app.numbers", R"({"_id":1,"uniqueIdentifierCounter":2147483640})");
  production_.insert("app.accounts", R"({"_id":1,"owner":"a","balance":10})");
  const auto take = [&](int times) {
    for (int i = 0; i < times; ++i) {
      inc("app.uniqueIdentifierCounter", R"("UNIQUE COUNT DOCUMENT IDENTIFIER")", "COUNT", "20");
      inc("app.uniqueIdentifierCounter", R"("COUNTER DOCUMENT NUMBER 1")", "COUNT", "100");
      inc("app.blocks", R"("b")", "COUNT", "1");
      inc("app.counters", R"("userid")", "seq", "1");
      inc("app.ids", R"("orders")", "index", "10");
      inc("app.numbers", "1", "uniqueIdentifierCounter", "5");
      inc("app.accounts", "1", "balance", "3");
    }
  };
  take(2);
  restore_to_now();
  take(4);
  // Made after the limit, by a recipe that makes what is missing and would begin again.
  inc("app.counters", R"("invoiceid")", "seq", "1", true);
  inc("app.counters", R"("invoiceid")", "seq", "1", true);
  // The mistake: counted down instead of up.
  inc("app.uniqueIdentifierCounter", R"("UNIQUE COUNT DOCUMENT IDENTIFIER")", "COUNT", "-115");

  const FenceOptions options = by_oplog();
  const FenceReport report = fenced(options);
  const std::string counters = "uniqueIdentifierCounter";
  EXPECT_EQ(on_target("app", counters, R"("UNIQUE COUNT DOCUMENT IDENTIFIER")", "COUNT"),
            integer(120))
      << "what it came to before it fell";
  EXPECT_EQ(on_target("app", counters, R"("COUNTER DOCUMENT NUMBER 0")", "COUNT"), integer(0));
  EXPECT_EQ(on_target("app", counters, R"("COUNTER DOCUMENT NUMBER 1")", "COUNT"), integer(1600));
  EXPECT_EQ(on_target("app", "blocks", R"("b")", "COUNT"), R"({ "v" : { "$numberLong" : "13" } })");
  EXPECT_EQ(on_target("app", "counters", R"("userid")", "seq"),
            R"({ "v" : { "$numberDouble" : "6.0" } })");
  EXPECT_EQ(on_target("app", "ids", R"("orders")", "index"), integer(1060));
  EXPECT_EQ(on_target("app", "numbers", "1", counters),
            R"({ "v" : { "$numberLong" : "2147483670" } })")
      << "an int that is full";
  EXPECT_EQ(on_target("app", "counters", R"("invoiceid")", "seq"), integer(2)) << "made again";
  EXPECT_EQ(on_target("app", "accounts", "1", "balance"), integer(16)) << "left alone";

  ASSERT_THAT(report.left_alone, SizeIs(1));
  EXPECT_EQ(report.left_alone.front().field, "balance");
  EXPECT_EQ(document(report, "app.counters/invoiceid").outcome, FenceOutcome::kMade);
  EXPECT_EQ(document(report, "app.uniqueIdentifierCounter/COUNTER DOCUMENT NUMBER 1").largest_step,
            100);
  EXPECT_THAT(report.notes, testing::Contains(HasSubstr("values and no increments")));
  EXPECT_THAT(report.notes, testing::Contains(HasSubstr("known is what was handed out up to")));

  // Whoever moved on since is not set back.
  on_target_.run("app", R"({"update":"ids","updates":[{"q":{"_id":"orders"},"u":{"$inc":)"
                        R"({"index":1000}}}]})");
  fenced(options);
  EXPECT_EQ(on_target("app", "ids", R"("orders")", "index"), integer(2060));
}

TEST_F(FenceOfDocuments, AnyOtherIsACounterWhereItIsNamed) {
  production_.insert("app.own.numbers",
                     R"({"_id":{"k":1},"next":5,"made":"x"},{"_id":2,"next":7})");
  restore_to_now();
  inc("app.own.numbers", R"({"k":1})", "next", "37");
  FenceOptions options = by_oplog();
  FenceReport report = fenced(options);
  EXPECT_THAT(report.documents, IsEmpty());
  options.counters = {{.ns = "app.own.numbers", .field = "next"}};
  report = fenced(options);
  EXPECT_EQ(on_target("app", "own.numbers", R"({"k":1})", "next"), integer(42));
  EXPECT_EQ(on_target("app", "own.numbers", "2", "next"), integer(7));
}

TEST_F(FenceOfDocuments, AFallBeforeTheLimitIsNoCounterUntilItIsNamed) {
  production_.insert("app.counters", R"({"_id":"stock","seq":5},{"_id":"userid","seq":1})");
  for (const char* const by : {"3", "-4", "6"}) inc("app.counters", R"("stock")", "seq", by);
  inc("app.counters", R"("userid")", "seq", "1");
  restore_to_now();
  inc("app.counters", R"("stock")", "seq", "9");
  inc("app.counters", R"("userid")", "seq", "1");
  FenceOptions options = by_oplog();
  EXPECT_THAT(refused(options).message,
              AllOf(HasSubstr("app.counters/stock"), HasSubstr("--counter app.counters.seq")));
  options.exclude = {"app.counters/stock"};
  fenced(options);
  EXPECT_EQ(on_target("app", "counters", R"("stock")", "seq"), integer(10));
  EXPECT_EQ(on_target("app", "counters", R"("userid")", "seq"), integer(3));
  options.exclude.clear();
  options.counters = {{.ns = "app.counters", .field = "seq"}};
  fenced(options);
  EXPECT_EQ(on_target("app", "counters", R"("stock")", "seq"), integer(19));
}

TEST_F(FenceOfDocuments, CountersOfOddTypesAreRaisedOrRefused) {
  production_.insert("app.counters",
                     R"({"_id":"decimal","seq":{"$numberDecimal":"5"}},)"
                     R"({"_id":"long","seq":{"$numberLong":"9223372036854775800"}},)"
                     R"({"_id":"double","seq":{"$numberDouble":"9007199254740980"}},)"
                     R"({"_id":"text","seq":7})");
  restore_to_now();
  inc("app.counters", R"("decimal")", "seq", "2");
  inc("app.counters", R"("long")", "seq", "7");
  inc("app.counters", R"("double")", "seq", "20");
  inc("app.counters", R"("text")", "seq", "1");
  on_target_.run("app", R"({"update":"counters","updates":[{"q":{"_id":"text"},"u":{"$set":)"
                        R"({"seq":"7"}}}]})");
  FenceOptions options = by_oplog();
  const FenceReport plan = fenced(options, FenceMode::kPreview);
  EXPECT_THAT(document(plan, "app.counters/double").why, HasSubstr("make it a NumberLong"));
  EXPECT_THAT(document(plan, "app.counters/text").why, HasSubstr("is a string on the target"));
  EXPECT_EQ(refused(options).code, Code::kFailedPrecondition);
  options.exclude = {"app.counters/double", "app.counters/text"};
  const FenceReport report = fenced(options);
  EXPECT_EQ(on_target("app", "counters", R"("decimal")", "seq"),
            R"({ "v" : { "$numberDecimal" : "7" } })");
  EXPECT_EQ(on_target("app", "counters", R"("long")", "seq"),
            R"({ "v" : { "$numberLong" : "9223372036854775807" } })");
  EXPECT_THAT(document(report, "app.counters/long").note, HasSubstr("no larger value"));
  EXPECT_EQ(document(report, "app.counters/text").outcome, FenceOutcome::kLeftOut);
}

TEST_F(FenceOfDocuments, TheLiveServerTellsWhatItsOplogLost) {
  production_.insert("app.counters", R"({"_id":"userid","seq":5})");
  restore_to_now();
  set("app.counters", R"("userid")", R"({"seq":900})");
  production_.insert("app.users", R"({"_id":{"$numberLong":"950"}})");
  FenceOptions options = by_live();
  // As if the oplog had rolled over: nothing of it is within.
  options.limit = production_.now();
  options.used_in = {{.source = "app.counters/userid", .collection = "app.users", .field = "_id"}};
  const FenceReport report = fenced(options);
  EXPECT_EQ(on_target("app", "counters", R"("userid")", "seq"), integer(951));
  EXPECT_THAT(document(report, "app.counters/userid").note,
              HasSubstr("951 is the smallest that is safe for both"));
}

// ---- hostile input

TEST_F(FenceOfDocuments, AnOplogThatIsCutIsRefused) {
  production_.insert("app.counters", R"({"_id":"userid","seq":5})");
  restore_to_now();
  inc("app.counters", R"("userid")", "seq", "1");
  const FenceOptions options = by_oplog();
  const std::string whole = content(options.oplog);
  for (const std::size_t less : {std::size_t{1}, std::size_t{40}}) {
    write(options.oplog, whole.substr(0, whole.size() - less));
    const Error error = refused(options);
    EXPECT_EQ(error.code, Code::kDataLoss);
    EXPECT_THAT(error.message, HasSubstr("nothing was written"));
  }
}

TEST_F(FenceOfDocuments, AnOplogThatDoesNotReachFromTheLimitOnIsRefused) {
  production_.insert("app.counters", R"({"_id":"userid","seq":5})");
  restore_to_now();
  FenceOptions options = by_oplog();
  options.limit = Timestamp{.seconds = limit_.seconds + 100'000, .ordinal = 1};
  EXPECT_EQ(refused(options).code, Code::kOutOfRange) << "it ends before";
  options.limit = Timestamp{.seconds = began_.seconds - 1000, .ordinal = 1};
  EXPECT_EQ(refused(options).code, Code::kOutOfRange) << "it begins after";
  options.limit.reset();
  FenceReport report = fenced(options);
  EXPECT_THAT(report.notes, testing::Contains(HasSubstr("the limit of the restore is not known")));
  // That of the record of the restore, where that is there.
  const Bson fingerprint = Bson("limit", print_timestamp(limit_));
  ASSERT_TRUE(Record::begin(on_target_.server(), fingerprint.view()));
  report = fenced(options);
  EXPECT_EQ(report.limit, limit_);
}

TEST_F(FenceOfDocuments, ProductionItselfIsNotFencedUnasked) {
  production_.insert("app.counters", R"({"_id":"userid","seq":5})");
  limit_ = production_.now();
  inc("app.counters", R"("userid")", "seq", "1");
  FenceOptions options = by_oplog();
  options.target = production_url();
  Error error = refused(options);
  EXPECT_EQ(error.code, Code::kFailedPrecondition);
  EXPECT_THAT(error.message, AllOf(HasSubstr("is production itself"), HasSubstr("its oplog has")));
  // One that ends with an entry which the target does not have; its collections are those of it.
  OplogBuilder later;
  later.add_at({.seconds = limit_.seconds + 1000, .ordinal = 1}, R"("op":"n","ns":"","o":{})");
  write(options.oplog, content(options.oplog) + later.bytes());
  EXPECT_THAT(refused(options).message, HasSubstr("is the one that the oplog writes to"));
  options.oplog.clear();
  options.live = production_url();
  error = refused(options);
  EXPECT_THAT(error.message, HasSubstr("is production itself: it is the server of --live"));
  options.allow_production = true;
  inc("app.counters", R"("userid")", "seq", "10");
  set("app.counters", R"("userid")", R"({"seq":3})");  // a counter that was copied back
  fenced(options);
  Production check(production_url("admin"));
  EXPECT_THAT(to_relaxed_json(check.run("app", R"({"find":"counters"})").view()),
              HasSubstr(R"("seq" : 16)"));
}

TEST_F(FenceTest, WhatTakesNoWritesIsRefused) {
  restore_to_now();
  servers::MongoSet& set = production_set();
  const std::size_t secondary = set.primary() == 0 ? 1 : 0;
  FenceOptions options = by_oplog();
  options.target = set.direct(secondary);
  StoppingFence observer;
  FenceReport report;
  const Result<void> done = fence(options, FenceMode::kCarryOut, observer, report);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(done.error().message, HasSubstr("takes no writes"));
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
