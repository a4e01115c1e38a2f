// Requests of Source::submit(), by an executor whose tasks run when the test says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "idmint/mint.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/manual_executor.h"
#include "tests/fakes/temp_folder.h"

namespace idmint {
namespace {

using fakes::code_of;
using testing::ElementsAre;
using testing::HasSubstr;

// Ids that were asked for, and what came of it.
struct Asked {
  explicit Asked(std::size_t size) : ids(size) {}

  std::vector<Id> ids;
  std::optional<Result<void>> result;
};

class SubmitTest : public testing::Test {
 protected:
  std::unique_ptr<Source> open(const std::string& name) {
    auto source = mint_.source(name);
    EXPECT_TRUE(source) << source.error().message();
    return *std::move(source);
  }
  static Result<void> submit(Source& source, Asked& asked) {
    return source.submit(asked.ids,
                         [&asked](Result<void> filled) { asked.result = std::move(filled); });
  }

  fakes::TempFolder folder_;
  fakes::ManualExecutor executor_;
  Mint mint_{[this] {
    MintOptions options{.store = "memory:", .executor = &executor_};
    options.state_directory = folder_.path("state");
    return options;
  }()};
};

TEST_F(SubmitTest, EachKindOfSourceFillsARequestInATask) {
  ASSERT_TRUE(mint_.create(SequenceDefinition{.name = "orders", .last = 100}));
  ASSERT_TRUE(mint_.create(PoolDefinition{.name = "web", .workers = 2}));
  for (const std::string name : {"uuid7", "ulid", "orders", "web"}) {
    const auto source = open(name);
    Asked first(3);
    Asked second(2);
    ASSERT_TRUE(submit(*source, first)) << name;
    ASSERT_TRUE(submit(*source, second)) << name;
    EXPECT_FALSE(first.result) << name << ": not inside submit()";
    executor_.run_all();
    ASSERT_TRUE(first.result && second.result) << name;
    EXPECT_TRUE(*first.result) << name << first.result->error().message();
    EXPECT_TRUE(*second.result) << name;
    std::vector<Id> all = first.ids;
    all.insert(all.end(), second.ids.begin(), second.ids.end());
    EXPECT_EQ(std::ranges::adjacent_find(all, std::greater_equal()), all.end())
        << name << ": in the order of the calls";
  }
}

TEST_F(SubmitTest, WhoWaitsAtTheSameTimeSharesARoundTrip) {
  ASSERT_TRUE(mint_.create(SequenceDefinition{.name = "orders", .last = 100}));
  const auto source = open("orders");
  std::vector<Asked> asked(10, Asked(1));
  for (Asked& each : asked) ASSERT_TRUE(submit(*source, each));
  executor_.run_all();
  EXPECT_EQ(source->sequence()->statistics().rounds, 1);
  EXPECT_THAT(asked.front().ids, ElementsAre(Id(1)));
  EXPECT_THAT(asked.back().ids, ElementsAre(Id(10)));
}

TEST_F(SubmitTest, WhatIsLeftGoesToTheRequestsThatItIsEnoughFor) {
  ASSERT_TRUE(mint_.create(SequenceDefinition{.name = "orders", .last = 4}));
  const auto source = open("orders");
  std::vector<Asked> asked(3, Asked(2));
  for (Asked& each : asked) ASSERT_TRUE(submit(*source, each));
  executor_.run_all();
  EXPECT_THAT(asked[0].ids, ElementsAre(Id(1), Id(2)));
  EXPECT_THAT(asked[1].ids, ElementsAre(Id(3), Id(4)));
  EXPECT_EQ(code_of(*asked[2].result), Code::kOutOfRange);
}

// The limit of a call is that of each request, not of those that wait beside it.
TEST_F(SubmitTest, RequestsShareACallUpToItsLargestCount) {
  ASSERT_TRUE(mint_.create(SequenceDefinition{.name = "orders", .last = 100, .largest_count = 3}));
  const auto source = open("orders");
  std::vector<Asked> asked(3, Asked(2));
  asked.emplace_back(4);
  for (Asked& each : asked) ASSERT_TRUE(submit(*source, each));
  executor_.run_all();
  EXPECT_THAT(asked[2].ids, ElementsAre(Id(5), Id(6)));
  EXPECT_EQ(code_of(*asked[3].result), Code::kInvalidArgument);
}

// It would cut the others of its call short.
TEST_F(SubmitTest, ARequestWhoseTimeIsOverTakesNothing) {
  MintOptions options{.store = "memory:", .executor = &executor_};
  options.store_options.deadline = std::chrono::milliseconds{0};
  Mint hasty(std::move(options));
  const auto source = hasty.source("ulid").value();
  Asked asked(1);
  ASSERT_TRUE(submit(*source, asked));
  executor_.run_all();
  ASSERT_TRUE(asked.result);
  EXPECT_EQ(code_of(*asked.result), Code::kUnavailable);
  EXPECT_THAT(asked.result->error().message(), HasSubstr("ask again"));
}

TEST_F(SubmitTest, ASourceThatEndsRefusesWhatWaits) {
  auto source = open("ulid");
  Asked asked(1);
  ASSERT_TRUE(submit(*source, asked));
  source.reset();
  ASSERT_TRUE(asked.result);
  EXPECT_EQ(code_of(*asked.result), Code::kUnavailable);
  executor_.run_all();
}

TEST_F(SubmitTest, AChildOfForkGetsNothing) {
  const auto source = open("ulid");
  const Code code = fakes::in_child([&] {
    Asked asked(1);
    return code_of(submit(*source, asked));
  });
  EXPECT_EQ(code, Code::kFailedPrecondition);
}

TEST_F(SubmitTest, ASourceOfAnotherMakerHasNone) {
  class Fixed final : public Source {
   public:
    const Declaration& declaration() const noexcept override { return declaration_; }
    using Source::next;
    Result<void> next(std::span<Id> out) override {
      std::ranges::fill(out, Id(7));
      return {};
    }

   private:
    Declaration declaration_;
  };
  Fixed fixed;
  Asked asked(1);
  const Result<void> refused = submit(fixed, asked);
  ASSERT_EQ(code_of(refused), Code::kUnimplemented);
  EXPECT_THAT(refused.error().message(), HasSubstr("use next()"));
}

}  // namespace
}  // namespace idmint
