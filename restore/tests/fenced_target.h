// A target that was brought back to a moment, and production, which went on after it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "idmint/store.h"
#include "restore/collections.h"
#include "restore/fence/fence.h"
#include "restore/tests/production.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {

// Stops after so many rows were fenced; never, where that is negative.
class StoppingFence final : public Observer {
 public:
  explicit StoppingFence(std::uint64_t after = UINT64_MAX) : after_(after) {}
  void begin(std::string_view step, std::optional<std::uint64_t>) override { step_ = step; }
  Result<void> advance(std::optional<std::uint64_t> done) override {
    if (step_ != kFenceStep || !done || *done <= after_) return {};
    return std::unexpected(Error{Code::kUnavailable, "enough"});
  }
  Result<void> about_to(std::string_view) override {
    ++plans;
    if (!refuses_plan) return {};
    return std::unexpected(Error{Code::kResourceExhausted, "the report cannot be kept"});
  }
  bool refuses_plan = false;
  int plans = 0;

 private:
  const std::uint64_t after_;
  std::string step_{};
};

// The set has three members: a write waits 100 ms for the journal of a member that is alone.
inline servers::MongoSet& production_set() { return servers::mongo_set(); }

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
    ASSERT_TRUE(there) << there.error().message();
    for (const CollectionFacts& each : *there) {
      const Result<void> copied = for_each_document(
          production_.server(), each.database, each.name, [&](Document document) -> Result<void> {
            on_target_.insert(each.ns(), to_canonical_json(document));
            return {};
          });
      ASSERT_TRUE(copied) << copied.error().message();
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
    EXPECT_TRUE(done) << done.error().message();
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
      Bson only;
      if (only.add_from(document, field.c_str(), "v")) text = to_canonical_json(only.view());
    });
    return text;
  }

  std::unique_ptr<Store> open(const std::string& url) {
    Result<std::unique_ptr<Store>> store = Store::open(url, {.deadline = std::chrono::seconds{60}});
    EXPECT_TRUE(store) << store.error().message();
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

// An int32 as on_target() returns it.
inline std::string integer(std::int64_t value) {
  return R"({ "v" : { "$numberInt" : ")" + std::to_string(value) + R"(" } })";
}

inline const FencedSource& source(const FenceReport& report, const std::string& label) {
  static const FencedSource kNone;
  for (const FencedSource& each : report.sources)
    if (each.label() == label) return each;
  ADD_FAILURE() << "no row of " << label;
  return kNone;
}
inline const FencedDocument& document(const FenceReport& report, const std::string& label) {
  static const FencedDocument kNone;
  for (const FencedDocument& each : report.documents)
    if (each.label() == label) return each;
  ADD_FAILURE() << "no row of " << label;
  return kNone;
}

}  // namespace idmint::restore
