#include "sequences/life_cycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "idmint/mongodb.h"
#include "idmint/sequence.h"
#include "idmint/worker_pool.h"
#include "ids/lease_table.h"
#include "sequences/strategies.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/definitions.h"
#include "tests/fakes/gated_store.h"
#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::GatedStore;
using fakes::ScriptedEntropy;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

SequenceDefinition definition_of_orders(std::int64_t first, std::int64_t last) {
  return {"orders", Strategy::kCounter, first, last};
}
SequenceDefinition of(Strategy strategy) {
  const bool stripes = strategy == Strategy::kStriped || strategy == Strategy::kInterleaved;
  return {.name = "s",
          .strategy = strategy,
          .first = 10,
          .last = 40,
          .stripes = stripes ? 3 : 1,
          .key = strategy == Strategy::kPermuted ? std::string(32, '7') : ""};
}
constexpr std::array kAll = {Strategy::kCounter, Strategy::kStriped, Strategy::kInterleaved,
                             Strategy::kCached,  Strategy::kRandom,  Strategy::kPermuted};

// ---- the counters of each strategy

std::vector<CounterBounds> bounds_of(const SequenceDefinition& definition) {
  std::vector<CounterBounds> all;
  for (std::int64_t k = 0; k < counter_count(definition); ++k)
    all.push_back(counter_of(definition, k).bounds);
  return all;
}

TEST(Counters, BlocksAreOfOneSizeAndTheLastTakesTheRest) {
  EXPECT_THAT(bounds_of(of(Strategy::kStriped)),
              ElementsAre(CounterBounds{10, 19}, CounterBounds{20, 29}, CounterBounds{30, 40}));
  const SequenceDefinition digits{.name = "accounts",
                                  .strategy = Strategy::kStriped,
                                  .first = 0,
                                  .last = 999'999'999'999,
                                  .stripes = 1000};
  EXPECT_EQ(counter_of(digits, 786).bounds, (CounterBounds{786'000'000'000, 786'999'999'999}));
  EXPECT_EQ(counter_of(digits, 786).name, "accounts/786");
}

TEST(Counters, EveryCutIntoBlocksCoversEveryValueOnce) {
  for (const std::int64_t last : {kLargestValue, std::int64_t{11}, std::int64_t{999'999}}) {
    for (const std::int64_t stripes : {2, 3, 7, 10}) {
      const SequenceDefinition definition{.name = "s",
                                          .strategy = Strategy::kStriped,
                                          .first = 2,
                                          .last = last,
                                          .stripes = stripes};
      ASSERT_TRUE(validate(definition));
      std::int64_t next = 2;
      for (const CounterBounds& bounds : bounds_of(definition)) {
        ASSERT_EQ(bounds.first, next);
        ASSERT_LE(bounds.first, bounds.last);
        ASSERT_EQ(bounds.stride, 1);
        next = bounds.last + 1;
      }
      EXPECT_EQ(next - 1, last);
    }
  }
}

TEST(Counters, InterleavedOnesStartSideBySide) {
  EXPECT_THAT(
      bounds_of(of(Strategy::kInterleaved)),
      ElementsAre(CounterBounds{10, 40, 3}, CounterBounds{11, 40, 3}, CounterBounds{12, 40, 3}));
}

TEST(Counters, OthersHaveOneOrNone) {
  EXPECT_EQ(counter_of(of(Strategy::kCounter), 0).name, "s");
  EXPECT_THAT(bounds_of(of(Strategy::kCounter)), ElementsAre(CounterBounds{10, 40}));
  EXPECT_THAT(bounds_of(of(Strategy::kCached)), ElementsAre(CounterBounds{10, 40}));
  EXPECT_THAT(bounds_of(of(Strategy::kPermuted)), ElementsAre(CounterBounds{0, 30}));
  EXPECT_THAT(bounds_of(of(Strategy::kRandom)), ElementsAre());
}

TEST(Counters, AreReadByNumberWhateverElseIsThere) {
  GatedStore store;
  SequenceDefinition many = of(Strategy::kInterleaved);
  many.stripes = 12;
  ASSERT_TRUE(create_sequence(store, many));
  ASSERT_TRUE(store.create("s/12", {1, 2}));  // of a create with more stripes that was cut off
  ASSERT_TRUE(store.create("s/1x", {1, 2}));
  const std::size_t before = store.calls();
  const auto counters = read_counters(store, many);
  ASSERT_TRUE(counters) << counters.error().message();
  EXPECT_EQ(store.calls(), before + 1) << "one call for all stripes";
  ASSERT_EQ(counters->size(), 12U);
  for (std::int64_t k = 0; k < 12; ++k)
    EXPECT_EQ((*counters)[static_cast<std::size_t>(k)].bounds.first, 10 + k);
}

// ---- create

TEST(CreateSequence, MakesTheCounterAndTheDefinition) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, definition_of_orders(5, 10)));
  EXPECT_EQ(store.find("orders"), Definition(definition_of_orders(5, 10)));
  EXPECT_EQ(store.peek("orders"), (CounterState{"orders", {5, 10}, 5, false}));
}

TEST(CreateSequence, AgainIsFineAndLeavesTheValueAlone) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, definition_of_orders(5, 10)));
  ASSERT_TRUE(store.advance("orders", 3, Take::kAll));
  EXPECT_TRUE(create_sequence(store, definition_of_orders(5, 10)));
  EXPECT_EQ(store.peek("orders")->next, 8);
}

TEST(CreateSequence, SaysWhatIsThereAndWhetherItMadeThat) {
  for (const Strategy strategy : {Strategy::kCounter, Strategy::kCached, Strategy::kStriped,
                                  Strategy::kInterleaved, Strategy::kPermuted, Strategy::kRandom}) {
    GatedStore store;
    for (const bool first : {true, false}) {
      const auto created = create_sequence(store, of(strategy));
      ASSERT_TRUE(created) << created.error().message();
      EXPECT_EQ(created->made, first);
      const auto there = peek_sequence(store, "s");
      ASSERT_TRUE(there);
      EXPECT_EQ(created->status.definition, there->definition);
      EXPECT_EQ(created->status.next, there->next);
      EXPECT_EQ(created->status.permuted, there->permuted);
      EXPECT_EQ(created->status.left, there->left);
      if (strategy == Strategy::kRandom) continue;
      ASSERT_TRUE(store.advance(counter_of(as_sequence(there->definition), 0).name, 1, Take::kAll));
    }
    EXPECT_TRUE(retire_sequence(store, "s")->made);
    const auto again = retire_sequence(store, "s");
    ASSERT_TRUE(again);
    EXPECT_FALSE(again->made);
    EXPECT_TRUE(is_retired(again->status.definition));
  }
}

// The other one makes the sequence, and takes from it, between the look and the making.
TEST(CreateSequence, SaysWhatIsThereIfAnotherWasQuicker) {
  for (const Strategy strategy : {Strategy::kCounter, Strategy::kStriped, Strategy::kRandom}) {
    GatedStore store;
    const CreateOptions overtaken{.may_make = [&]() -> Result<void> {
      EXPECT_TRUE(create_sequence(store, of(strategy))->made);
      const auto sequence = Sequence::open(store, "s");
      EXPECT_TRUE(sequence && (*sequence)->next());
      return {};
    }};
    const auto created = create_sequence(store, of(strategy), overtaken);
    ASSERT_TRUE(created) << created.error().message();
    EXPECT_FALSE(created->made);
    const auto there = peek_sequence(store, "s");
    ASSERT_TRUE(there);
    EXPECT_EQ(created->status.next, there->next);
    EXPECT_EQ(created->status.left, there->left);
    EXPECT_LT(created->status.left, 31);
  }
}

TEST(CreateSequence, AsksBeforeItMakesSomethingAndOnlyThen) {
  GatedStore store;
  int asked = 0;
  const CreateOptions refusing{.may_make = [&]() -> Result<void> {
    ++asked;
    return std::unexpected(Error{Code::kResourceExhausted, "no more"});
  }};
  EXPECT_EQ(code_of(create_sequence(store, definition_of_orders(1, 10), refusing)),
            Code::kResourceExhausted);
  EXPECT_EQ(code_of(store.peek("orders")), Code::kNotFound);
  ASSERT_TRUE(create_sequence(store, definition_of_orders(1, 10)));
  EXPECT_TRUE(create_sequence(store, definition_of_orders(1, 10), refusing));
  EXPECT_EQ(code_of(create_sequence(store, definition_of_orders(1, 20), refusing)),
            Code::kFailedPrecondition);
  EXPECT_EQ(asked, 1);
}

TEST(CreateSequence, ACallThatWasCutOffIsFinished) {
  GatedStore store;
  store.fail_next({{Code::kUnavailable, "cut off"}, false});
  const auto cut = create_sequence(store, definition_of_orders(5, 10));
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().message(), "cut off");
  EXPECT_TRUE(store.peek("orders")) << "the counter is made first";
  EXPECT_FALSE(store.find("orders")) << "the definition last";
  EXPECT_TRUE(create_sequence(store, definition_of_orders(5, 10)));
  EXPECT_TRUE(CounterSequence::open(store, "orders"));
}

TEST(CreateSequence, AnotherDefinitionIsRefusedNamingEachDifference) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, definition_of_orders(1, 10)));
  const auto last = create_sequence(store, definition_of_orders(1, 20));
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(last.error().message(), HasSubstr("last: 10 there, 20 here"));
  EXPECT_THAT(last.error().message(), Not(HasSubstr("first:")));
  const auto both = create_sequence(store, definition_of_orders(2, 20));
  ASSERT_FALSE(both);
  EXPECT_THAT(both.error().message(), HasSubstr("first: 1 there, 2 here; last: 10 there, 20 here"));
  EXPECT_EQ(store.find("orders"), Definition(definition_of_orders(1, 10)));
}

TEST(CreateSequence, AdvisesToMoveTheEndOnlyWhereThatCanBe) {
  GatedStore store;
  SequenceDefinition codes = definition_of_orders(1, 10);
  codes.form.encoding = Encoding::kHex;
  ASSERT_TRUE(create_sequence(store, codes));
  codes.last = 15;
  EXPECT_EQ(create_sequence(store, codes).error().advice,
            (Advice{Remedy::kAlterSequence, "orders", {"15"}}));
  codes.last = 16;
  EXPECT_THAT(create_sequence(store, codes).error().message(),
              AllOf(HasSubstr("; its width 1 in hex has room for values up to 15; use it as it is"),
                    Not(HasSubstr("alter"))));
}

TEST(CreateSequence, AdvisesToRaiseOnlyWhatComesInOrder) {
  GatedStore store;
  const auto advice = [&](SequenceDefinition there, std::int64_t first) {
    EXPECT_TRUE(create_sequence(store, there));
    there.first = first;
    return create_sequence(store, there).error().advice;
  };
  EXPECT_EQ(advice({.name = "a", .first = 2, .last = 9000}, 2000),
            (Advice{Remedy::kRaiseSequence, "a", {"1999"}}));
  EXPECT_EQ(advice({.name = "b", .strategy = Strategy::kCached}, 2000),
            (Advice{Remedy::kRaiseSequence, "b", {"1999"}}));
  EXPECT_EQ(advice({.name = "c", .first = 2}, 1), Advice{}) << "nothing goes back";
  EXPECT_EQ(advice({.name = "d", .strategy = Strategy::kPermuted, .last = 9000}, 2000), Advice{});
  EXPECT_EQ(advice({.name = "e", .strategy = Strategy::kStriped, .last = 9000, .stripes = 2}, 2001),
            Advice{});
}

TEST(CreateSequence, ACounterWithOtherBoundsIsNotTakenOver) {
  GatedStore store;
  ASSERT_TRUE(store.create("orders", {1, 10}));
  const auto made = create_sequence(store, definition_of_orders(1, 20));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kFailedPrecondition);
  EXPECT_FALSE(store.find("orders"));
  EXPECT_EQ(store.peek("orders")->bounds, (CounterBounds{1, 10}));
}

TEST(CreateSequence, ALostCounterIsNotMadeAgain) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, definition_of_orders(1, 10)));
  store.lose("orders");
  const auto made = create_sequence(store, definition_of_orders(1, 10));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kDataLoss);
  EXPECT_FALSE(store.peek("orders")) << "it would start over";
}

TEST(CreateSequence, WantsAStoreWithSequencesAndAValidDefinition) {
  GatedStore store;
  EXPECT_EQ(create_sequence(store, definition_of_orders(10, 1)).error().code,
            Code::kInvalidArgument);
  store.offer_nothing();
  EXPECT_EQ(create_sequence(store, definition_of_orders(1, 10)).error().code, Code::kUnimplemented);
  EXPECT_EQ(Sequence::open(store, "orders").error().code, Code::kUnimplemented);
}

TEST(CreateSequence, MakesWhatEachStrategyNeeds) {
  for (const Strategy strategy : kAll) {
    GatedStore store;
    ASSERT_TRUE(create_sequence(store, of(strategy))) << name(strategy);
    EXPECT_TRUE(create_sequence(store, of(strategy))) << "again";
    EXPECT_EQ(store.find("s"), Definition(of(strategy)));
    EXPECT_EQ(store.claimed("s").has_value(), strategy == Strategy::kRandom);
    EXPECT_EQ(static_cast<std::int64_t>(store.counters()->list("")->size()),
              counter_count(of(strategy)));
  }
}

TEST(CreateSequence, MakesAThousandStripesInAFewCallsAndTellsHowFarItIs) {
  GatedStore store;
  SequenceDefinition definition = of(Strategy::kInterleaved);
  definition.last = 1'000'000;
  definition.stripes = 12'000;
  std::vector<std::pair<std::int64_t, std::int64_t>> told;
  ASSERT_TRUE(create_sequence(
      store, definition,
      {.progress = [&](std::int64_t done, std::int64_t of) { told.emplace_back(done, of); }}));
  EXPECT_THAT(told, ElementsAre(std::pair(5000, 12'000), std::pair(10'000, 12'000),
                                std::pair(12'000, 12'000)));
  EXPECT_LE(store.calls(), 5U);
  EXPECT_TRUE(read_counters(store, definition));
}

TEST(CreateSequence, DrawsAKeyOnceAndThenKeepsIt) {
  GatedStore store;
  ScriptedEntropy entropy({0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xfe, 0xdc, 0xba, 0x98,
                           0x76, 0x54, 0x32, 0x10});
  SequenceDefinition keyless = of(Strategy::kPermuted);
  keyless.key.clear();
  ASSERT_TRUE(create_sequence(store, keyless, {}, entropy));
  EXPECT_EQ(as_sequence(*store.find("s")).key, "0123456789abcdeffedcba9876543210");
  EXPECT_TRUE(create_sequence(store, keyless, {}, entropy)) << "whatever is there";
  EXPECT_EQ(as_sequence(*store.find("s")).key, "0123456789abcdeffedcba9876543210");
  const auto other = create_sequence(store, of(Strategy::kPermuted), {}, entropy);
  ASSERT_EQ(code_of(other), Code::kFailedPrecondition);
  EXPECT_THAT(other.error().message(),
              AllOf(HasSubstr("key: one there, another here"), Not(HasSubstr("0123456789abcdef"))));
}

TEST(CreateSequence, NamesEveryFieldThatDiffers) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, of(Strategy::kCached)));
  SequenceDefinition other = of(Strategy::kCached);
  other.step = 100;
  other.largest_count = 7;
  other.form.prefix = "A-";
  const auto made = create_sequence(store, other);
  ASSERT_EQ(code_of(made), Code::kFailedPrecondition);
  EXPECT_THAT(
      made.error().message(),
      AllOf(HasSubstr("step: 0 there, 100 here"), HasSubstr("largest count: 0 there, 7 here"),
            HasSubstr("prefix: none there, A- here"), Not(HasSubstr("first"))));
  SequenceDefinition encoded = of(Strategy::kCached);
  encoded.form.encoding = Encoding::kBase58;
  EXPECT_THAT(create_sequence(store, encoded).error().message(),
              HasSubstr("encoding: canonical there, base58 here"));
  SequenceDefinition checked = of(Strategy::kCached);
  checked.form.check = Check::kDamm;
  EXPECT_THAT(create_sequence(store, checked).error().message(),
              HasSubstr("check: none there, damm here;"));
}

TEST(CreateSequence, GivesAnEncodingTheWidthOfTheLastValue) {
  GatedStore store;
  SequenceDefinition codes = definition_of_orders(1, 999'999'999);
  codes.form.encoding = Encoding::kBase62;
  ASSERT_TRUE(create_sequence(store, codes));
  EXPECT_EQ(as_sequence(*store.find("orders")).form.width, 6);
  EXPECT_TRUE(create_sequence(store, codes)) << "a width that is left open is what is there";
  codes.form.width = 7;
  EXPECT_THAT(create_sequence(store, codes).error().message(), HasSubstr("width: 6 there, 7 here"));
  codes.name = "wide";
  ASSERT_TRUE(create_sequence(store, codes));
  EXPECT_EQ(as_sequence(*store.find("wide")).form.width, 7);
  codes.form.width = 0;
  EXPECT_TRUE(create_sequence(store, codes));
}

TEST(CreateSequence, ARetiredNameIsNotGivenAgain) {
  for (const Strategy strategy : kAll) {
    GatedStore store;
    ASSERT_TRUE(create_sequence(store, of(strategy)));
    ASSERT_TRUE(retire_sequence(store, "s"));
    const auto again = create_sequence(store, of(strategy));
    ASSERT_EQ(code_of(again), Code::kFailedPrecondition);
    EXPECT_THAT(again.error().message(), HasSubstr("retired"));
    SequenceDefinition tombstone = of(strategy);
    tombstone.name = "t";
    tombstone.retired = true;
    EXPECT_EQ(code_of(create_sequence(store, tombstone)), Code::kInvalidArgument);
  }
}

TEST(CreateSequence, ALostStripeOrSpaceIsNotMadeAgain) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, of(Strategy::kStriped)));
  store.lose("s/1");
  const auto made = create_sequence(store, of(Strategy::kStriped));
  ASSERT_EQ(code_of(made), Code::kDataLoss);
  EXPECT_THAT(made.error().message(), HasSubstr("s/1"));
  EXPECT_FALSE(store.peek("s/1"));

  GatedStore claims;
  claims.put(of(Strategy::kRandom));
  EXPECT_EQ(code_of(create_sequence(claims, of(Strategy::kRandom))), Code::kDataLoss);
  EXPECT_EQ(code_of(claims.claimed("s")), Code::kNotFound);
}

// ---- raise

TEST(RaiseSequence, SkipsWhatLiesBelow) {
  for (const Strategy strategy : {Strategy::kCounter, Strategy::kCached}) {
    GatedStore store;
    ASSERT_TRUE(create_sequence(store, of(strategy)));  // 10 to 40
    const auto raised = raise_sequence(store, "s", 25);
    ASSERT_TRUE(raised) << raised.error().message();
    EXPECT_EQ(raised->next, 26);
    EXPECT_EQ(raised->skipped, 16);
    EXPECT_EQ(store.advance("s", 1, Take::kAll), (Range{26, 1, 1}));
    EXPECT_EQ(raise_sequence(store, "s", 5)->next, 27) << "never down";
    EXPECT_EQ(raise_sequence(store, "s", 5)->skipped, 0);
    EXPECT_EQ(raise_sequence(store, "s", -7)->next, 27);
    EXPECT_EQ(raise_sequence(store, "s", 40)->next, 41) << "none is left";
    EXPECT_EQ(code_of(store.advance("s", 1, Take::kTail)), Code::kOutOfRange);
  }
}

TEST(RaiseSequence, PassesWholeBlocks) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, of(Strategy::kStriped)));  // 10-19, 20-29, 30-40
  const auto raised = raise_sequence(store, "s", 24);
  ASSERT_TRUE(raised);
  EXPECT_EQ(raised->next, 25);
  EXPECT_EQ(raised->skipped, 15);
  EXPECT_EQ(code_of(store.advance("s/0", 1, Take::kTail)), Code::kOutOfRange);
  EXPECT_EQ(store.peek("s/1")->next, 25);
  EXPECT_EQ(store.peek("s/2")->next, 30);
}

TEST(RaiseSequence, RoundsUpToEachStripesOwnValues) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, of(Strategy::kInterleaved)));  // 10, 13 ..; 11, 14 ..; 12 ..
  const auto raised = raise_sequence(store, "s", 24);
  ASSERT_TRUE(raised);
  EXPECT_EQ(raised->next, 25);
  EXPECT_EQ(raised->skipped, 15);
  EXPECT_EQ(store.peek("s/0")->next, 25);
  EXPECT_EQ(store.peek("s/1")->next, 26);
  EXPECT_EQ(store.peek("s/2")->next, 27);
}

TEST(RaiseSequence, OfAPermutationGoesByIndex) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, of(Strategy::kPermuted)));  // 31 values
  const auto raised = raise_sequence(store, "s", 12);
  ASSERT_TRUE(raised);
  EXPECT_EQ(raised->next, 12) << "0 to 11 are passed";
  EXPECT_EQ(raised->skipped, 12);
  const auto status = peek_sequence(store, "s");
  EXPECT_EQ(status->next, 12);
  std::vector<std::int64_t> values(1);
  ASSERT_TRUE((*Sequence::open(store, "s"))->next(values));
  EXPECT_EQ(status->permuted, values[0]) << "the value that comes next";
  EXPECT_EQ(raise_sequence(store, "s", 31)->next, 31);
  EXPECT_EQ(peek_sequence(store, "s")->permuted, std::nullopt);
  EXPECT_EQ(code_of(raise_sequence(store, "s", 32)), Code::kOutOfRange);
}

TEST(RaiseSequence, SaysWhyItCannot) {
  GatedStore store;
  EXPECT_EQ(code_of(raise_sequence(store, "s", 12)), Code::kNotFound);
  ASSERT_TRUE(create_sequence(store, of(Strategy::kRandom)));
  EXPECT_EQ(code_of(raise_sequence(store, "s", 12)), Code::kInvalidArgument);
  ASSERT_TRUE(create_sequence(store, definition_of_orders(1, 10)));
  for (const std::int64_t past : {std::int64_t{11}, std::numeric_limits<std::int64_t>::max()})
    EXPECT_EQ(code_of(raise_sequence(store, "orders", past)), Code::kOutOfRange);
  EXPECT_EQ(store.peek("orders")->next, 1);
  ASSERT_TRUE(retire_sequence(store, "orders"));
  const auto retired = raise_sequence(store, "orders", 5);
  ASSERT_EQ(code_of(retired), Code::kFailedPrecondition);
  EXPECT_THAT(retired.error().message(), HasSubstr("nothing to raise"));
  const auto blocks = of(Strategy::kStriped);
  GatedStore other;
  ASSERT_TRUE(create_sequence(other, blocks));
  EXPECT_THAT(raise_sequence(other, "s", 41).error().message(), Not(HasSubstr("alter")))
      << "its end cannot be moved";
}

// Scripted values of a collection.
class Existing final : public ExistingValues {
 public:
  explicit Existing(std::vector<std::int64_t> values) : values_(std::move(values)) {}
  Result<std::optional<std::int64_t>> largest(std::int64_t from, std::int64_t to) override {
    std::optional<std::int64_t> found;
    for (const std::int64_t value : values_)
      if (from <= value && value <= to) found = std::max(found, std::optional(value));
    return found;
  }

 private:
  std::vector<std::int64_t> values_;
};

TEST(RaiseSequence, GoesPastTheLargestExistingValueOfItsOwn) {
  for (const Strategy strategy : {Strategy::kCounter, Strategy::kCached, Strategy::kInterleaved}) {
    GatedStore store;
    ASSERT_TRUE(create_sequence(store, of(strategy)));  // 10 to 40
    Existing none({1, 9, 41, 100});
    EXPECT_EQ(raise_sequence(store, "s", none)->skipped, 0);
    EXPECT_EQ(raise_sequence(store, "s", none)->next, 10);
    Existing some({1, 12, 25, 9, 41});
    EXPECT_EQ(raise_sequence(store, "s", some)->next, 26);
    Existing fewer({12});
    EXPECT_EQ(raise_sequence(store, "s", fewer)->next, 26) << "never down";
    Existing all({40});
    EXPECT_EQ(raise_sequence(store, "s", all)->next, 41);
  }
}

TEST(RaiseSequence, GoesPastTheLargestExistingValueOfEachBlock) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, of(Strategy::kStriped)));  // 10-19, 20-29, 30-40
  Existing some({5, 12, 11, 40, 41});
  const auto raised = raise_sequence(store, "s", some);
  ASSERT_TRUE(raised) << raised.error().message();
  EXPECT_EQ(raised->skipped, 3 + 11);
  EXPECT_EQ(raised->next, 13);
  EXPECT_EQ(store.peek("s/0")->next, 13);
  EXPECT_EQ(store.peek("s/1")->next, 20);
  EXPECT_EQ(store.peek("s/2")->next, 41);
  Existing middle({20, 29, 10});
  EXPECT_EQ(raise_sequence(store, "s", middle)->skipped, 10);
  EXPECT_EQ(store.peek("s/0")->next, 13) << "never down";
  EXPECT_EQ(store.peek("s/1")->next, 30);
}

TEST(RaiseSequence, SaysOfWhichExistingValuesItCannotBe) {
  Existing some({12});
  for (const Strategy strategy : {Strategy::kRandom, Strategy::kPermuted}) {
    GatedStore store;
    ASSERT_TRUE(create_sequence(store, of(strategy)));
    EXPECT_EQ(code_of(raise_sequence(store, "s", some)), Code::kInvalidArgument);
  }
  GatedStore store;
  EXPECT_EQ(code_of(raise_sequence(store, "s", some)), Code::kNotFound);
  ASSERT_TRUE(create_sequence(store, of(Strategy::kStriped)));
  ASSERT_TRUE(retire_sequence(store, "s"));
  EXPECT_EQ(code_of(raise_sequence(store, "s", some)), Code::kFailedPrecondition);
}

TEST(CreateSequence, GaplessNeedsTransactions) {
  GatedStore store;
  const auto refused = create_sequence(store, of(Strategy::kGapless));
  EXPECT_EQ(code_of(refused), Code::kUnimplemented);
  EXPECT_THAT(refused.error().message(), HasSubstr("MongoDB replica set"));
  EXPECT_EQ(refused.error().advice, (Advice{.remedy = Remedy::kSetOption, .values = {"store"}}));
  EXPECT_EQ(code_of(store.find("s")), Code::kNotFound);
}

TEST(RaiseSequence, HoldsForAnExtensionThatWasCutOffBefore) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, definition_of_orders(1, 10)));
  store.put(definition_of_orders(1, 30));  // the definition was extended, the counter not yet
  ASSERT_TRUE(raise_sequence(store, "orders", 20));
  ASSERT_TRUE(alter_sequence(store, "orders", 30));
  EXPECT_EQ(store.advance("orders", 1, Take::kAll), (Range{21, 1, 1}));
}

// ---- extend

TEST(ExtendSequence, MovesTheEndUp) {
  for (const Strategy strategy : {Strategy::kCounter, Strategy::kCached}) {
    GatedStore store;
    ASSERT_TRUE(create_sequence(store, of(strategy)));
    ASSERT_TRUE(store.advance("s", 31, Take::kAll));
    const auto extended = alter_sequence(store, "s", 42);
    ASSERT_TRUE(extended) << extended.error().message();
    EXPECT_TRUE(extended->made);
    EXPECT_EQ(as_sequence(extended->status.definition).last, 42);
    EXPECT_EQ(extended->status.left, 2);
    EXPECT_EQ(store.find("s"), extended->status.definition);
    EXPECT_EQ(store.advance("s", 9, Take::kTail), (Range{41, 1, 2}));
    const auto again = alter_sequence(store, "s", 42);
    ASSERT_TRUE(again);
    EXPECT_FALSE(again->made);
    EXPECT_EQ(again->status.definition, extended->status.definition);
    EXPECT_EQ(again->status.left, 0);
    EXPECT_EQ(peek_sequence(store, "s")->left, 0);
  }
}

TEST(ExtendSequence, MovesTheEndOfEveryInterleavedStripe) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, of(Strategy::kInterleaved)));
  ASSERT_TRUE(alter_sequence(store, "s", 43));
  std::int64_t values = 0;
  for (const char* stripe : {"s/0", "s/1", "s/2"})
    values += store.advance(stripe, 100, Take::kTail)->count;
  EXPECT_EQ(values, 34);
}

TEST(ExtendSequence, OfRandomValuesNeedsNoCounter) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, of(Strategy::kRandom)));
  const auto extended = alter_sequence(store, "s", 49);
  ASSERT_TRUE(extended);
  EXPECT_EQ(extended->status.left, 37);
  EXPECT_EQ(peek_sequence(store, "s")->left, 37);
}

TEST(ExtendSequence, SaysWhyItCannot) {
  GatedStore store;
  EXPECT_EQ(code_of(alter_sequence(store, "orders", 12)), Code::kNotFound);
  ASSERT_TRUE(create_sequence(store, definition_of_orders(1, 10)));
  const auto down = alter_sequence(store, "orders", 9);
  ASSERT_EQ(code_of(down), Code::kFailedPrecondition);
  EXPECT_THAT(down.error().message(), HasSubstr("10"));
  EXPECT_EQ(code_of(alter_sequence(store, "orders", kLargestValue + 1)), Code::kInvalidArgument);
  EXPECT_EQ(store.find("orders"), Definition(definition_of_orders(1, 10)));
  for (const Strategy strategy : {Strategy::kStriped, Strategy::kPermuted}) {
    GatedStore other;
    ASSERT_TRUE(create_sequence(other, of(strategy)));
    EXPECT_EQ(code_of(alter_sequence(other, "s", 100)), Code::kFailedPrecondition);
    EXPECT_EQ(other.find("s"), Definition(of(strategy)));
  }
  ASSERT_TRUE(retire_sequence(store, "orders"));
  EXPECT_EQ(code_of(alter_sequence(store, "orders", 20)), Code::kFailedPrecondition);
}

TEST(ExtendSequence, NotBeyondTheDigitsThatArePrinted) {
  GatedStore store;
  SequenceDefinition two_digits = definition_of_orders(1, 50);
  two_digits.form.digits = 2;
  ASSERT_TRUE(create_sequence(store, two_digits));
  const auto far = alter_sequence(store, "orders", 100);
  ASSERT_EQ(code_of(far), Code::kInvalidArgument) << "100 would be printed as another value is";
  EXPECT_THAT(far.error().message(), HasSubstr("99"));
  EXPECT_THAT(far.error().message(), HasSubstr("move its end there at most"));
  EXPECT_EQ(store.peek("orders")->bounds.last, 50);
  EXPECT_EQ(as_sequence(alter_sequence(store, "orders", 99)->status.definition).last, 99);
  const auto full = alter_sequence(store, "orders", 100);
  ASSERT_EQ(code_of(full), Code::kInvalidArgument);
  EXPECT_THAT(full.error().message(), HasSubstr("a new and wider sequence"));
  EXPECT_THAT(full.error().message(), Not(HasSubstr("there at most")));
}

TEST(ExtendSequence, NotBeyondTheWidthThatIsPrinted) {
  GatedStore store;
  SequenceDefinition hex = definition_of_orders(1, 50);
  hex.form.encoding = Encoding::kHex;
  ASSERT_TRUE(create_sequence(store, hex));
  EXPECT_EQ(code_of(alter_sequence(store, "orders", 256)), Code::kInvalidArgument)
      << "256 would be printed as 0 is";
  EXPECT_EQ(store.peek("orders")->bounds.last, 50);
  EXPECT_EQ(as_sequence(alter_sequence(store, "orders", 255)->status.definition).last, 255);
}

// ---- retire

TEST(RetireSequence, ClosesEverythingAndLeavesATombstone) {
  for (const Strategy strategy : kAll) {
    GatedStore store;
    ASSERT_TRUE(create_sequence(store, of(strategy)));
    ASSERT_TRUE(retire_sequence(store, "s")) << name(strategy);
    ASSERT_TRUE(retire_sequence(store, "s")) << "again";
    SequenceDefinition tombstone = of(strategy);
    tombstone.retired = true;
    EXPECT_EQ(store.find("s"), Definition(tombstone));
    const auto counters = store.counters()->list("");
    for (const CounterState& counter : *counters) EXPECT_TRUE(counter.closed);
    if (strategy == Strategy::kRandom) {
      EXPECT_EQ(code_of(store.insert("s", std::vector<std::int64_t>{11})),
                Code::kFailedPrecondition);
    }
    const auto opened = Sequence::open(store, "s");
    ASSERT_EQ(code_of(opened), Code::kFailedPrecondition);
    EXPECT_THAT(opened.error().message(), HasSubstr("retired"));
  }
  GatedStore store;
  EXPECT_EQ(code_of(retire_sequence(store, "s")), Code::kNotFound);
}

// A database may grant the counters and not the definitions.
TEST(RetireSequence, ClosesNothingWhoseDefinitionCannotBeWritten) {
  for (const Strategy strategy : kAll) {
    GatedStore store;
    ASSERT_TRUE(create_sequence(store, of(strategy)));
    store.fail_call(2, {{Code::kPermissionDenied, "no right to write definitions"}, false});
    EXPECT_EQ(code_of(retire_sequence(store, "s")), Code::kPermissionDenied);
    const auto counters = store.counters()->list("");
    for (const CounterState& counter : *counters) EXPECT_FALSE(counter.closed) << counter.name;
    if (strategy == Strategy::kRandom) {
      EXPECT_TRUE(store.insert("s", std::vector<std::int64_t>{11}));
    }
    EXPECT_TRUE(retire_sequence(store, "s"));
  }
}

TEST(RetireSequence, EndsWhatHasLostItsCounterToo) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, of(Strategy::kStriped)));
  store.lose("s/1");
  EXPECT_TRUE(retire_sequence(store, "s"));
  EXPECT_TRUE(is_retired(*store.find("s")));
}

TEST(RetireSequence, EndsEveryStripeWhateverIsLost) {
  GatedStore store;
  SequenceDefinition striped = of(Strategy::kStriped);
  striped.stripes = 12'000;
  striped.last = 50'000;
  ASSERT_TRUE(create_sequence(store, striped));
  store.lose("s/1");
  ASSERT_TRUE(retire_sequence(store, "s"));
  const auto counters = store.counters()->list("s/");
  for (const CounterState& counter : *counters) ASSERT_TRUE(counter.closed) << counter.name;
}

TEST(LifeCycle, AThousandStripesTakeAFewCalls) {
  GatedStore store;
  SequenceDefinition interleaved = of(Strategy::kInterleaved);
  interleaved.stripes = 1000;
  interleaved.last = 50'000;
  ASSERT_TRUE(create_sequence(store, interleaved));
  std::size_t calls = store.calls();
  const auto raised = raise_sequence(store, "s", 1500);
  ASSERT_TRUE(raised);
  EXPECT_EQ(raised->next, 1501);
  EXPECT_EQ(raised->skipped, 1491);
  EXPECT_EQ(store.calls() - calls, 4U) << "find, list, raise, find";
  calls = store.calls();
  ASSERT_TRUE(alter_sequence(store, "s", 60'000));
  EXPECT_EQ(store.calls() - calls, 4U) << "find, replace, list, extend";
  EXPECT_EQ(peek_sequence(store, "s")->left, 60'000 - 1500);
  calls = store.calls();
  ASSERT_TRUE(retire_sequence(store, "s"));
  EXPECT_EQ(store.calls() - calls, 4U) << "find, replace to try, close, replace";
}

TEST(ExtendSequence, WhetherItCanBeIsToldBefore) {
  EXPECT_TRUE(can_extend(definition_of_orders(1, 10), definition_of_orders(1, 20)));
  EXPECT_TRUE(can_extend(definition_of_orders(1, 10), definition_of_orders(1, 10)))
      << "which finishes one that was cut off";
  EXPECT_FALSE(can_extend(definition_of_orders(1, 10), definition_of_orders(1, 9)));
  EXPECT_FALSE(can_extend(definition_of_orders(1, 10), definition_of_orders(2, 20)));
  SequenceDefinition there = definition_of_orders(1, 10);
  there.form = {.encoding = Encoding::kHex, .width = 2};
  SequenceDefinition wanted = definition_of_orders(1, 255);
  wanted.form.encoding = Encoding::kHex;
  EXPECT_TRUE(can_extend(there, wanted)) << "its width is left open";
  wanted.last = 256;
  EXPECT_FALSE(can_extend(there, wanted));
  SequenceDefinition retired = definition_of_orders(1, 10);
  retired.retired = true;
  EXPECT_FALSE(can_extend(retired, definition_of_orders(1, 20)));
  for (const Strategy fixed : {Strategy::kStriped, Strategy::kPermuted}) {
    SequenceDefinition longer = of(fixed);
    ++longer.last;
    EXPECT_FALSE(can_extend(of(fixed), longer));
  }
}

// ---- cut off at every call to the store

// Everything that is in a store.
struct Contents {
  std::vector<CounterState> counters;
  std::vector<Definition> definitions;
  std::int64_t claims = -1;
  friend bool operator==(const Contents&, const Contents&) = default;
};
Contents contents_of(GatedStore& store) {
  Contents all{*store.counters()->list(""), {}, store.claimed("s").value_or(-1)};
  const auto entries = store.catalog()->list();
  for (const CatalogEntry& entry : *entries) all.definitions.push_back(*entry.definition);
  return all;
}

// The invariants after a process died at any point.
void expect_sound(GatedStore& store, const SequenceDefinition& definition) {
  const auto found = store.find("s");
  if (!found) return;  // nobody can open it
  if (definition.strategy == Strategy::kRandom) {
    EXPECT_TRUE(store.claimed("s")) << "defined without its claims";
    if (is_retired(*found)) {
      EXPECT_FALSE(store.insert("s", std::vector<std::int64_t>{11}));
    }
    return;
  }
  const auto counters = read_counters(store, as_sequence(*found));
  ASSERT_TRUE(counters) << counters.error().message();
  for (const CounterState& counter : *counters) {
    EXPECT_TRUE(!is_retired(*found) || counter.closed) << "a tombstone over what lives";
    EXPECT_LE(counter.bounds.last, as_sequence(*found).last) << "an end that nobody knows";
  }
}

struct Step {
  const char* name;
  std::function<bool(GatedStore&, const SequenceDefinition&)> run;
  bool (*goes_for)(Strategy);
};

TEST(LifeCycle, CutOffAtAnyCallItIsFinishedByTheNextAndSoundInBetween) {
  const auto create = [](GatedStore& store, const SequenceDefinition& definition) {
    return create_sequence(store, definition).has_value();
  };
  const std::vector<Step> steps = {
      {"create", create, [](Strategy) { return true; }},
      {"raise",
       [](GatedStore& store, const SequenceDefinition&) {
         return raise_sequence(store, "s", 24).has_value();
       },
       [](Strategy strategy) { return strategy != Strategy::kRandom; }},
      {"extend",
       [](GatedStore& store, const SequenceDefinition&) {
         return alter_sequence(store, "s", 100).has_value();
       },
       [](Strategy strategy) {
         return strategy != Strategy::kStriped && strategy != Strategy::kPermuted;
       }},
      {"retire",
       [](GatedStore& store, const SequenceDefinition&) {
         return retire_sequence(store, "s").has_value();
       },
       [](Strategy) { return true; }},
  };
  int cuts = 0;
  for (const Strategy strategy : kAll) {
    const SequenceDefinition definition = of(strategy);
    for (std::size_t step = 0; step < steps.size(); ++step) {
      if (!steps[step].goes_for(strategy)) continue;
      const auto before = [&](GatedStore& store) {
        if (step > 0) {
          ASSERT_TRUE(create(store, definition));
        }
      };
      GatedStore whole;
      before(whole);
      const std::size_t begin = whole.calls();
      ASSERT_TRUE(steps[step].run(whole, definition));
      const std::size_t calls = whole.calls() - begin;
      for (std::size_t call = 1; call <= calls; ++call) {
        for (const bool applied : {false, true}) {
          SCOPED_TRACE(std::string(name(strategy)) + ", " + steps[step].name + ", call " +
                       std::to_string(call) + (applied ? ", applied" : ""));
          GatedStore store;
          before(store);
          store.fail_call(call, {{Code::kUnknown, "cut off"}, applied});
          EXPECT_FALSE(steps[step].run(store, definition));
          expect_sound(store, definition);
          EXPECT_TRUE(steps[step].run(store, definition)) << "finished by the next";
          expect_sound(store, definition);
          EXPECT_EQ(contents_of(store), contents_of(whole));
          ++cuts;
        }
      }
    }
  }
  EXPECT_GT(cuts, 100);
}

TEST(LifeCycle, OthersMayChangeTheDefinitionMeanwhile) {
  // Between the find and the replace of an extend, or of a retire, another extends.
  for (const bool retire : {false, true}) {
    GatedStore store;
    ASSERT_TRUE(create_sequence(store, definition_of_orders(1, 10)));
    store.meanwhile(retire ? 4 : 2,
                    [](auto& definitions) { definitions["orders"] = definition_of_orders(1, 20); });
    if (retire) {
      EXPECT_TRUE(retire_sequence(store, "orders"));
      EXPECT_TRUE(is_retired(*store.find("orders")));
      EXPECT_EQ(as_sequence(*store.find("orders")).last, 20) << "what the other wrote is kept";
    } else {
      EXPECT_EQ(as_sequence(alter_sequence(store, "orders", 30)->status.definition).last, 30);
      EXPECT_EQ(as_sequence(*store.find("orders")).last, 30);
      EXPECT_EQ(store.peek("orders")->bounds.last, 30);
    }
  }
}

TEST(LifeCycle, AnExtensionBetweenDefinitionAndCounterIsNoDamage) {
  // Another process extended between the two reads, with both of its steps.
  const auto extended_meanwhile = [](GatedStore& store, std::size_t call) {
    ASSERT_TRUE(create_sequence(store, definition_of_orders(1, 10)));
    ASSERT_TRUE(store.extend("orders", 20));
    store.meanwhile(call,
                    [](auto& definitions) { definitions["orders"] = definition_of_orders(1, 20); });
  };
  {
    GatedStore store;
    extended_meanwhile(store, 2);
    const auto raised = raise_sequence(store, "orders", 5);
    ASSERT_TRUE(raised) << raised.error().message();
    EXPECT_EQ(raised->next, 6);
    EXPECT_EQ(store.peek("orders")->next, 6);
  }
  {
    GatedStore store;  // to the last value there is, which the other one moved
    extended_meanwhile(store, 2);
    EXPECT_EQ(code_of(alter_sequence(store, "orders", 10)), Code::kFailedPrecondition);
    EXPECT_EQ(as_sequence(*store.find("orders")).last, 20);
  }
  {
    GatedStore store;  // one that was there a moment before
    extended_meanwhile(store, 2);
    EXPECT_EQ(code_of(create_sequence(store, definition_of_orders(1, 10))),
              Code::kFailedPrecondition);
  }
  {
    GatedStore store;
    extended_meanwhile(store, 2);
    const auto status = peek_sequence(store, "orders");
    ASSERT_TRUE(status);
    EXPECT_EQ(status->error, std::nullopt);
    EXPECT_EQ(as_sequence(status->definition).last, 20);
    EXPECT_EQ(status->left, 20);
  }
  {
    GatedStore store;
    extended_meanwhile(store, 2);
    const auto all = list_sequences(store);
    ASSERT_TRUE(all);
    ASSERT_EQ(all->size(), 1U);
    EXPECT_EQ(all->front().error, std::nullopt);
    EXPECT_EQ(all->front().left, 20);
  }
  GatedStore changed;  // by hand: it stays as it is
  ASSERT_TRUE(create_sequence(changed, definition_of_orders(1, 10)));
  ASSERT_TRUE(changed.extend("orders", 20));
  EXPECT_EQ(code_of(raise_sequence(changed, "orders", 5)), Code::kDataLoss);
  EXPECT_EQ(code_of(alter_sequence(changed, "orders", 10)), Code::kDataLoss);
  EXPECT_EQ(code_of(create_sequence(changed, definition_of_orders(1, 10))), Code::kDataLoss);
  const auto status = peek_sequence(changed, "orders");
  ASSERT_TRUE(status && status->error);
  EXPECT_EQ(status->error->code, Code::kDataLoss);
}

// ---- status

TEST(SequenceStatus, CountsWhatIsLeft) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, definition_of_orders(5, 10)));
  ASSERT_TRUE(store.advance("orders", 2, Take::kAll));
  auto status = peek_sequence(store, "orders");
  ASSERT_TRUE(status);
  EXPECT_EQ(as_sequence(status->definition), definition_of_orders(5, 10));
  EXPECT_EQ(status->next, 7);
  EXPECT_EQ(status->left, 4);
  EXPECT_EQ(status->error, std::nullopt);
  for (const Strategy strategy : {Strategy::kStriped, Strategy::kInterleaved}) {
    GatedStore striped;
    ASSERT_TRUE(create_sequence(striped, of(strategy)));
    ASSERT_TRUE(striped.advance("s/2", 4, Take::kAll));
    status = peek_sequence(striped, "s");
    ASSERT_TRUE(status);
    EXPECT_EQ(status->next, std::nullopt);
    EXPECT_EQ(status->left, 27);
  }
  GatedStore random;
  ASSERT_TRUE(create_sequence(random, of(Strategy::kRandom)));
  ASSERT_TRUE(random.insert("s", std::vector<std::int64_t>{11, 12, 13}));
  EXPECT_EQ(peek_sequence(random, "s")->left, 26) << "of 31 values it gives 29";
  std::vector<std::int64_t> others(27);
  std::iota(others.begin(), others.end(), 14);
  ASSERT_TRUE(random.insert("s", others));
  EXPECT_EQ(peek_sequence(random, "s")->left, 0) << "30 are claimed";
  ASSERT_TRUE(retire_sequence(random, "s"));
  EXPECT_EQ(peek_sequence(random, "s")->left, 0);
  EXPECT_EQ(code_of(peek_sequence(random, "t")), Code::kNotFound);
}

TEST(SequenceStatus, TellsWhatWasCutOff) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, definition_of_orders(1, 10)));
  store.put(definition_of_orders(1, 20));
  auto status = peek_sequence(store, "orders");
  ASSERT_TRUE(status && status->error);
  EXPECT_EQ(status->error->code, Code::kUnavailable);
  EXPECT_EQ(status->error->advice, (Advice{Remedy::kAlterSequence, "orders", {"20"}}));
  EXPECT_EQ(status->left, 10);

  ASSERT_TRUE(alter_sequence(store, "orders", 20));
  ASSERT_TRUE(store.close("orders"));
  status = peek_sequence(store, "orders");
  ASSERT_TRUE(status && status->error);
  EXPECT_EQ(status->error->code, Code::kFailedPrecondition);
  EXPECT_EQ(status->left, 0);
}

TEST(SequenceStatuses, HaveTheirErrorsInTheirRows) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, definition_of_orders(1, 10)));
  SequenceDefinition lost = of(Strategy::kStriped);
  store.put(lost);
  SequenceDefinition claims = of(Strategy::kRandom);
  claims.name = "z";
  store.put(claims);
  const auto all = list_sequences(store);
  ASSERT_TRUE(all) << all.error().message();
  ASSERT_EQ(all->size(), 3U);
  EXPECT_EQ((*all)[0].error, std::nullopt);
  EXPECT_EQ((*all)[0].left, 10);
  ASSERT_TRUE((*all)[1].error);
  EXPECT_EQ((*all)[1].error->code, Code::kDataLoss);
  EXPECT_THAT((*all)[1].error->message(), HasSubstr("s/0"));
  ASSERT_TRUE((*all)[2].error);
  EXPECT_EQ((*all)[2].error->code, Code::kDataLoss);
}

TEST(SequenceStatuses, AStoreThatDoesNotAnswerIsNotTheSequencesFault) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, definition_of_orders(1, 10)));
  store.fail_call(2, {{Code::kUnavailable, "away"}, false});
  EXPECT_EQ(code_of(list_sequences(store)), Code::kUnavailable);
}

// ---- whether a value was given

TEST(HasGiven, ValuesThatWereHandedOutAndNoOthers) {
  for (const Strategy strategy : kAll) {
    GatedStore store;
    ScriptedEntropy entropy;
    ASSERT_TRUE(create_sequence(store, of(strategy)));
    std::vector<std::int64_t> given(10);
    const auto sequence = Sequence::open(store, "s", {}, system_clock(), entropy);
    ASSERT_TRUE(sequence && (*sequence)->next(given));
    const std::int64_t fetched = strategy == Strategy::kCached ? 31 : 10;
    std::int64_t known = 0;
    for (std::int64_t value = 10; value <= 40; ++value) {
      const Result<bool> is_given = has_given(store, "s", value);
      ASSERT_TRUE(is_given) << is_given.error().message();
      known += *is_given ? 1 : 0;
      if (std::ranges::find(given, value) != given.end()) {
        EXPECT_TRUE(*is_given) << name(strategy) << ' ' << value;
      }
    }
    EXPECT_LE(known, fetched) << name(strategy);
    EXPECT_GE(known, 10) << name(strategy);
    EXPECT_EQ(code_of(has_given(store, "s", 9)), Code::kInvalidArgument);
    const Result<bool> above = has_given(store, "s", 41);
    if (strategy != Strategy::kStriped && strategy != Strategy::kPermuted) {
      EXPECT_EQ(above, false) << "it was given after an extension that the store lacks";
    } else {
      EXPECT_EQ(code_of(above), Code::kInvalidArgument) << name(strategy);
    }
  }
  GatedStore store;
  EXPECT_EQ(code_of(has_given(store, "s", 1)), Code::kNotFound);
}

TEST(HasGiven, IdsOfAPoolBelowTheBoundOfTheirWorker) {
  const auto store = Store::open("memory:");
  ASSERT_TRUE(store);
  const SnowflakeLayout layout = *snowflake_layout("twitter");
  ASSERT_TRUE(create_pool(**store, {.name = "web", .layout = layout, .workers = 2}));
  const Uuid token = *Uuid::parse("01234567-89ab-4cde-8f01-23456789abcd");
  const auto lease = (*store)->leases()->acquire(
      "web", {.token = token, .now = 1000, .units = 50, .max_drift = 1000});
  ASSERT_TRUE(lease) << lease.error().message();
  const auto id = [&](std::int64_t tick, std::int64_t worker) {
    return static_cast<std::int64_t>(layout
                                         .encode({.time = layout.epoch + tick * layout.unit,
                                                  .worker = static_cast<std::uint32_t>(worker)})
                                         ->value());
  };
  EXPECT_EQ(has_given(**store, "web", id(lease->to - 1, lease->worker)), true);
  EXPECT_EQ(has_given(**store, "web", id(lease->to, lease->worker)), false);
  EXPECT_EQ(has_given(**store, "web", id(lease->to - 1, 1 - lease->worker)), false);
  EXPECT_EQ(code_of(has_given(**store, "web", id(0, 2))), Code::kInvalidArgument);
}

// ---- open

TEST(OpenSequence, AnExtensionBetweenDefinitionAndCounterIsNoDamage) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, definition_of_orders(1, 10)));
  ASSERT_TRUE(store.extend("orders", 20));
  store.meanwhile(2,
                  [](auto& definitions) { definitions["orders"] = definition_of_orders(1, 20); });
  const auto opened = Sequence::open(store, "orders");
  ASSERT_TRUE(opened) << opened.error().message();
  EXPECT_EQ((*opened)->definition().last, 20);
}

TEST(OpenSequence, AnEndBelowTheDefinitionsIsNoDamageEither) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, definition_of_orders(1, 3)));
  store.put(definition_of_orders(1, 20));
  const auto opened = CounterSequence::open(store, "orders");
  ASSERT_TRUE(opened) << opened.error().message();
  EXPECT_EQ((*opened)->take(3), (Range{1, 1, 3}));
  EXPECT_EQ(code_of((*opened)->take(1)), Code::kOutOfRange);
  ASSERT_TRUE(alter_sequence(store, "orders", 20));
  EXPECT_EQ((*opened)->take(1), (Range{4, 1, 1})) << "it knows of that end";
}

}  // namespace
}  // namespace idmint
