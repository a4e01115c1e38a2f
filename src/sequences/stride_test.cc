// Sequences with a stride: several stores share out one range of values without knowing of each
// other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "idmint/sequence.h"
#include "sequences/strategies.h"
#include "store/counter_store.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/definitions.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::why;
using testing::ElementsAre;
using testing::HasSubstr;
using Values = std::vector<std::int64_t>;

std::unique_ptr<Store> memory_store() { return Store::open("memory:").value(); }

std::unique_ptr<Sequence> sequence_in(Store& store, std::string_view name) {
  return Sequence::open(store, name).value();
}

SequenceDefinition with_stride(SequenceDefinition all, std::int64_t stride, std::int64_t offset) {
  return with_offset(std::move(all), stride, offset).value();
}

Values taken_from(Sequence& sequence, std::size_t count) {
  Values values(count);
  const Result<void> filled = sequence.next(values);
  EXPECT_TRUE(filled) << why(filled);
  return values;
}

// All values that are left, taken in calls of `count` and then one by one.
Values rest_of(Sequence& sequence, std::size_t count) {
  Values all;
  for (Values some(count); sequence.next(some);) all.insert(all.end(), some.begin(), some.end());
  while (const Result<std::int64_t> value = sequence.next()) all.push_back(*value);
  return all;
}

TEST(Stride, TwoServersCountAsInMySql) {
  const auto one = memory_store();
  const auto other = memory_store();
  ASSERT_TRUE(create_sequence(*one, with_stride({.name = "tickets"}, 2, 1)));
  ASSERT_TRUE(create_sequence(*other, with_stride({.name = "tickets"}, 2, 2)));
  EXPECT_THAT(taken_from(*sequence_in(*one, "tickets"), 3), ElementsAre(1, 3, 5));
  EXPECT_THAT(taken_from(*sequence_in(*other, "tickets"), 3), ElementsAre(2, 4, 6));
}

TEST(Stride, TheOffsetIsARemainderWhereverTheSequenceBegins) {
  EXPECT_EQ(with_stride({.name = "a", .first = 1000}, 2, 1).first, 1001);
  EXPECT_EQ(with_stride({.name = "a", .first = 1000}, 2, 2).first, 1000);
  EXPECT_EQ(with_stride({.name = "a", .first = 0}, 3, 3).first, 0);
  EXPECT_EQ(with_stride({.name = "a", .first = 0}, 3, 1).first, 1);
  EXPECT_EQ(with_stride({.name = "a", .first = 7}, 1, 1),
            (SequenceDefinition{.name = "a", .first = 7}));
  for (std::int64_t first = 0; first < 9; ++first) {
    for (std::int64_t offset = 1; offset <= 4; ++offset) {
      const SequenceDefinition its = with_stride({.name = "a", .first = first}, 4, offset);
      EXPECT_EQ(its.offset(), offset);
      EXPECT_GE(its.first, first);
      EXPECT_LT(its.first, first + 4);
    }
  }
}

TEST(Stride, RefusesWhatMakesNoSense) {
  const SequenceDefinition plain{.name = "a", .first = 10, .last = 12};
  EXPECT_EQ(code_of(with_offset(plain, 0, 1)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(with_offset(plain, 65'536, 1)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(with_offset(plain, 2, 0)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(with_offset(plain, 2, 3)), Code::kInvalidArgument);
  EXPECT_THAT(why(with_offset(plain, 5, 4)), HasSubstr("no value from 10 to 12"));
  EXPECT_THAT(why(with_offset({.name = "a", .strategy = Strategy::kGapless}, 2, 1)),
              HasSubstr("gapless, and a stride leaves numbers out"));
  EXPECT_TRUE(
      validate(SequenceDefinition{.name = "a", .last = 9, .stride = 2, .adopted = "c/d:next=n"}))
      << "the store says which of its records are counted in steps";
  EXPECT_EQ(code_of(validate(SequenceDefinition{.name = "a", .stride = 2})), Code::kInvalidArgument)
      << "the value after the last one could not be stored";
  EXPECT_TRUE(validate(SequenceDefinition{.name = "a", .last = kLargestValue - 1, .stride = 2}));
}

// ---- every strategy that takes a stride

SequenceDefinition with_strategy(Strategy strategy, std::int64_t first, std::int64_t last,
                                 std::int64_t stripes = 1) {
  return {.name = "tickets",
          .strategy = strategy,
          .first = first,
          .last = last,
          .stripes = stripes,
          .key = strategy == Strategy::kPermuted ? "00112233445566778899aabbccddeeff" : ""};
}

// The values of all servers together are those from first to last, each of them once.
RC_GTEST_PROP(StrideProperty, ServersShareOutTheValuesAndNoneComesTwice, ()) {
  const auto strategy = *rc::gen::element(Strategy::kCounter, Strategy::kCached, Strategy::kStriped,
                                          Strategy::kInterleaved, Strategy::kPermuted);
  const auto servers = *rc::gen::inRange<std::int64_t>(1, 6);
  const auto first = *rc::gen::inRange<std::int64_t>(0, 40);
  const auto last = first + *rc::gen::inRange<std::int64_t>(40, 300);
  const auto count = static_cast<std::size_t>(*rc::gen::inRange(1, 30));
  const bool striped = strategy == Strategy::kStriped || strategy == Strategy::kInterleaved;
  Values all;
  for (std::int64_t k = 1; k <= servers; ++k) {
    const auto store = memory_store();
    const SequenceDefinition its = with_stride(
        with_strategy(strategy, first, last, striped ? *rc::gen::inRange(2, 6) : 1), servers, k);
    const auto made = create_sequence(*store, its);
    RC_ASSERT(made.has_value());
    RC_ASSERT(peek_sequence(*store, "tickets")->left == its.size());
    Values values = rest_of(*sequence_in(*store, "tickets"), count);
    for (const std::int64_t value : values) {
      RC_ASSERT(value % servers == k % servers);
      RC_ASSERT(has_given(*store, "tickets", value).value());
    }
    RC_ASSERT(static_cast<std::int64_t>(values.size()) == its.size());
    all.insert(all.end(), values.begin(), values.end());
  }
  std::ranges::sort(all);
  Values expected(static_cast<std::size_t>(last - first + 1));
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] = first + static_cast<std::int64_t>(i);
  RC_ASSERT(all == expected);
}

// Nothing up to the floor comes any more, and everything above it does.
RC_GTEST_PROP(StrideProperty, ARaiseRoundsUpToTheNextValue, ()) {
  const auto strategy = *rc::gen::element(Strategy::kCounter, Strategy::kCached, Strategy::kStriped,
                                          Strategy::kInterleaved);
  const bool striped = strategy == Strategy::kStriped || strategy == Strategy::kInterleaved;
  const auto stride = *rc::gen::inRange<std::int64_t>(2, 6);
  const auto past = *rc::gen::inRange<std::int64_t>(0, 201);
  const SequenceDefinition its =
      with_stride(with_strategy(strategy, 1, 200, striped ? 3 : 1), stride,
                  *rc::gen::inRange<std::int64_t>(1, stride + 1));
  const auto store = memory_store();
  RC_ASSERT(create_sequence(*store, its).has_value());
  RC_ASSERT(raise_sequence(*store, "tickets", past).has_value());
  Values values = rest_of(*sequence_in(*store, "tickets"), 1);
  std::ranges::sort(values);
  Values expected;
  for (std::int64_t value = its.first; value <= its.last; value += stride)
    if (value > past) expected.push_back(value);
  RC_ASSERT(values == expected);
}

TEST(Stride, ARandomSequenceDrawsOnlyItsOwnValues) {
  const auto store = memory_store();
  ASSERT_TRUE(create_sequence(*store, with_stride(with_strategy(Strategy::kRandom, 0, 999), 4, 3)));
  const Values values = rest_of(*sequence_in(*store, "tickets"), 7);
  EXPECT_GT(values.size(), 200U);
  EXPECT_THAT(values, testing::Each(testing::Truly([](std::int64_t v) { return v % 4 == 3; })));
}

TEST(Stride, AValueOfAnotherServerIsNone) {
  const auto store = memory_store();
  ASSERT_TRUE(
      create_sequence(*store, with_stride(with_strategy(Strategy::kCounter, 1, 100), 2, 1)));
  EXPECT_EQ(code_of(has_given(*store, "tickets", 2)), Code::kInvalidArgument);
  EXPECT_FALSE(has_given(*store, "tickets", 3).value());
}

TEST(Stride, AnotherStrideOrOffsetIsAnotherDefinition) {
  const auto store = memory_store();
  const SequenceDefinition its = with_stride({.name = "tickets", .last = 100}, 2, 1);
  ASSERT_TRUE(create_sequence(*store, its));
  EXPECT_TRUE(create_sequence(*store, its));
  const auto other = create_sequence(*store, with_stride({.name = "tickets", .last = 100}, 3, 2));
  EXPECT_EQ(code_of(other), Code::kFailedPrecondition);
  EXPECT_THAT(why(other), HasSubstr("stride: 2 there, 3 here; offset: 1 there, 2 here"));
}

TEST(Stride, TheEndMovesUp) {
  const auto store = memory_store();
  ASSERT_TRUE(create_sequence(*store, with_stride({.name = "tickets", .last = 6}, 2, 1)));
  EXPECT_THAT(rest_of(*sequence_in(*store, "tickets"), 1), ElementsAre(1, 3, 5));
  ASSERT_TRUE(alter_sequence(*store, "tickets", 10));
  EXPECT_THAT(rest_of(*sequence_in(*store, "tickets"), 1), ElementsAre(7, 9));
  EXPECT_EQ(code_of(alter_sequence(*store, "tickets", kLargestValue)), Code::kInvalidArgument);
}

TEST(Stride, TheLastValueIsNamedInTheError) {
  const auto store = memory_store();
  ASSERT_TRUE(create_sequence(*store, with_stride({.name = "tickets", .last = 6}, 2, 1)));
  const auto sequence = sequence_in(*store, "tickets");
  rest_of(*sequence, 1);
  EXPECT_THAT(why(sequence->next()), HasSubstr("5 is the last"));
}

// Threads cut slices of a cached range; a waiting rest, try_next() and submit() take from it too.
TEST(Stride, ThreadsOfACachedSequenceShareItsValues) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kEach = 5000;
  const auto store = memory_store();
  const SequenceDefinition its = with_stride(
      {.name = "tickets", .strategy = Strategy::kCached, .last = 1'000'000, .step = 1000}, 3, 2);
  ASSERT_TRUE(create_sequence(*store, its));
  const auto sequence = CachedSequence::open(*store, "tickets").value();
  std::array<Values, kThreads> values;
  std::vector<std::thread> threads;
  for (Values& mine : values) {
    threads.emplace_back([&mine, &sequence] {
      while (mine.size() < kEach) {
        std::array<std::int64_t, 3> several{};
        if (!sequence->next(several)) return;
        mine.insert(mine.end(), several.begin(), several.end());
        if (const Result<std::int64_t> one = sequence->next()) mine.push_back(*one);
        if (sequence->try_next(several)) mine.insert(mine.end(), several.begin(), several.end());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Values all;
  for (const Values& mine : values) all.insert(all.end(), mine.begin(), mine.end());
  sequence->close();
  for (const Range& range : sequence->given_up()) {
    EXPECT_EQ(range.stride, 3);
    for (std::int64_t i = 0; i < range.count; ++i) all.push_back(range.at(i));
  }
  std::ranges::sort(all);
  const std::int64_t next = peek_sequence(*store, "tickets")->next.value();
  Values expected;
  for (std::int64_t value = its.first; value < next; value += 3) expected.push_back(value);
  EXPECT_EQ(all, expected);
}

TEST(Stride, EachCounterOfStripesIsRaisedPastItsOwnValue) {
  for (const Strategy strategy : {Strategy::kStriped, Strategy::kInterleaved}) {
    const auto store = memory_store();
    ASSERT_TRUE(create_sequence(*store, with_stride(with_strategy(strategy, 1, 60, 3), 2, 2)));
    const Values values = rest_of(*sequence_in(*store, "tickets"), 1);
    const auto other = memory_store();
    ASSERT_TRUE(create_sequence(*other, with_stride(with_strategy(strategy, 1, 60, 3), 2, 2)));
    ASSERT_TRUE(raise_sequence(*other, "tickets", values));
    EXPECT_EQ(peek_sequence(*other, "tickets")->left, 0);
    EXPECT_EQ(code_of(raise_sequence(*other, "tickets", Values{3})), Code::kInvalidArgument);
  }
}

TEST(Stride, AnotherStoreIsRaisedToThePositionOfThisOne) {
  for (const Strategy strategy : {Strategy::kCounter, Strategy::kCached, Strategy::kStriped,
                                  Strategy::kInterleaved, Strategy::kPermuted}) {
    const bool striped = strategy == Strategy::kStriped || strategy == Strategy::kInterleaved;
    const SequenceDefinition its =
        with_stride(with_strategy(strategy, 1, 90, striped ? 3 : 1), 2, 2);
    const auto store = memory_store();
    const auto backup = memory_store();
    ASSERT_TRUE(create_sequence(*store, its));
    ASSERT_TRUE(create_sequence(*backup, its));
    Values all = taken_from(*sequence_in(*store, "tickets"), 20);
    ASSERT_TRUE(raise_sequence(*backup, "tickets", *store));
    for (const std::int64_t value : all) EXPECT_TRUE(has_given(*backup, "tickets", value).value());
    const Values more = rest_of(*sequence_in(*backup, "tickets"), 1);
    all.insert(all.end(), more.begin(), more.end());
    std::ranges::sort(all);
    EXPECT_EQ(std::ranges::adjacent_find(all), all.end()) << name(strategy);
  }
}

}  // namespace
}  // namespace idmint
