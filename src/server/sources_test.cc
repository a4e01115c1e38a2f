// Opening and looking at sources, with a loop on which the test decides when each call is carried
// out.
#include "server/sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idmint/sequence.h"
#include "tests/fakes/gated_store.h"
#include "tests/fakes/manual_executor.h"
#include "tests/fakes/multi_store_pair.h"

namespace idmint::server {
namespace {

using fakes::GatedStore;
using fakes::ManualExecutor;
using testing::ElementsAre;
using testing::IsEmpty;

class SourcesTest : public testing::Test {
 protected:
  SourcesTest() {
    EXPECT_TRUE(create_sequence(*here_, {.name = "few", .last = 3}));
    EXPECT_TRUE(create_sequence(*eu_, {.name = "orders"}));
    std::vector<ServedStore> served;
    served.push_back({.store = here_});
    served.push_back({.name = "eu", .store = eu_});
    sources_ = std::make_unique<Sources>(loop_, std::move(served));
  }
  ~SourcesTest() override {
    sources_.reset();
    elsewhere_.run_all();
  }

  // Opens "few"; what came of it is in `opened` once the loop has run.
  void open_few(std::optional<Result<SourceHandle>>& opened) {
    sources_->open("few", [&opened](const Result<SourceHandle>& is) { opened = is; });
  }
  // The oldest call, and what the loop does with its answer.
  void carry_out_one() {
    ASSERT_TRUE(elsewhere_.run_one());
    loop_.context().restart();
    loop_.context().poll();
  }

  const std::shared_ptr<GatedStore> here_ = std::make_shared<GatedStore>();
  const std::shared_ptr<GatedStore> eu_ = std::make_shared<GatedStore>();
  ManualExecutor elsewhere_;
  Loop loop_{elsewhere_};
  std::unique_ptr<Sources> sources_;
};

TEST_F(SourcesTest, AllWhoAskForASourceThatIsBeingOpenedShareIt) {
  std::optional<Result<SourceHandle>> first;
  std::optional<Result<SourceHandle>> second;
  open_few(first);
  open_few(second);
  EXPECT_EQ(elsewhere_.size(), 1U);
  carry_out_one();
  ASSERT_TRUE(first && *first && second && *second);
  EXPECT_EQ(**first, **second);
  EXPECT_EQ(sources_->find("few"), **first);
}

// It may have read the definition that there was.
TEST_F(SourcesTest, AnOpeningThatADefinitionOvertakesIsForThoseWhoAskedBefore) {
  std::optional<Result<SourceHandle>> before;
  std::optional<Result<SourceHandle>> after;
  open_few(before);
  sources_->reopen("few");
  open_few(after);
  carry_out_one();
  ASSERT_TRUE(before && *before);
  EXPECT_FALSE(after);
  EXPECT_EQ(sources_->find("few"), nullptr);
  carry_out_one();
  ASSERT_TRUE(after && *after);
  EXPECT_NE(**before, **after);
  EXPECT_EQ(sources_->find("few"), **after);
}

TEST_F(SourcesTest, OnlyStoresThatAreAskedForAreListed) {
  using Strings = std::vector<std::string>;
  const auto listed = [&](const Strings& stores) {
    Strings names;
    EXPECT_TRUE(sources_->each(stores, {}, SteadyTime::max(), [&](const SequenceStatus& status) {
      names.push_back(name(status.definition));
      return true;
    }));
    return names;
  };
  EXPECT_THAT(listed({"", "eu"}), ElementsAre("few", "eu/orders"));
  EXPECT_THAT(listed({}), IsEmpty());
  here_->fail_call(1, {.error = {Code::kUnavailable, "gone"}});
  EXPECT_THAT(listed({"eu"}), ElementsAre("eu/orders"));
  const auto all = [](const SequenceStatus&) { return true; };
  EXPECT_FALSE(sources_->each(Strings{"", "eu"}, {}, SteadyTime::max(), all));
}

TEST_F(SourcesTest, ProbesThatComeDuringALookShareIt) {
  std::vector<Code> codes;
  const auto note = [&](const Result<void>& is) { codes.push_back(is ? Code{} : is.error().code); };
  for (int i = 0; i < 100; ++i) sources_->look_ready(note);
  EXPECT_EQ(elsewhere_.size(), 1U);
  carry_out_one();
  EXPECT_THAT(codes, testing::AllOf(testing::SizeIs(100), testing::Each(Code{})));
  eu_->be_away({{Code::kUnavailable, "gone"}});
  sources_->look_ready(note);
  carry_out_one();
  EXPECT_EQ(codes.back(), Code::kUnavailable);
  eu_->be_away(std::nullopt);
  sources_->look_ready(note);
  carry_out_one();
  EXPECT_EQ(codes.back(), Code{});
}

// The round that fails is the first, and one that finds the file used up asks the other store
// again.
TEST(SourcesOverTwoStores, AChangeOfOneIsToldOnce) {
  fakes::MultiStorePair pair;
  ManualExecutor elsewhere;
  Loop loop{elsewhere};
  std::vector<ServedStore> served;
  served.push_back({.name = "eu", .store = pair.gated, .mint = pair.options()});
  Sources sources(loop, std::move(served));
  std::vector<std::string> told;
  sources.on_store_change([&](std::string_view source, std::string_view url, const Error* why) {
    told.push_back(std::string(source) + " " + std::string(url) +
                   (why != nullptr ? ": " + why->message() : ""));
  });
  const auto poll = [&] {
    loop.context().restart();
    loop.context().poll();
    return std::exchange(told, {});
  };
  SourceHandle source;
  sources.open("eu/tickets",
               [&](const Result<SourceHandle>& is) { source = is.value_or(nullptr); });
  ASSERT_TRUE(elsewhere.run_one());
  EXPECT_THAT(poll(), IsEmpty()) << "both give values";
  ASSERT_NE(source, nullptr);
  pair.fail();
  EXPECT_EQ(source->sequence->next(), 2);
  EXPECT_EQ(source->sequence->next(), 4);
  pair.mend();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(source->sequence->next());
  EXPECT_THAT(poll(),
              ElementsAre("eu/tickets redis://gated-a: away", "eu/tickets redis://gated-a"));
}

}  // namespace
}  // namespace idmint::server
