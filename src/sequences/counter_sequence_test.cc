#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <future>
#include <optional>
#include <span>
#include <utility>

#include "idmint/sequence.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/gated_store.h"
#include "tests/fakes/in_child.h"

namespace idmint {
namespace {

using fakes::GatedStore;
using testing::HasSubstr;

SequenceDefinition orders(std::int64_t first, std::int64_t last) {
  return {"orders", Strategy::kCounter, first, last};
}

TEST(CounterSequence, AnUnknownNameComesWithTheAdviceToCreateIt) {
  GatedStore store;
  const auto opened = CounterSequence::open(store, "orders");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kNotFound);
  EXPECT_EQ(opened.error().advice, (Advice{Remedy::kCreateSequence, "orders"}));
}

TEST(CounterSequence, ALostCounterIsDataLoss) {
  GatedStore store;
  store.put(orders(1, 10));
  const auto opened = CounterSequence::open(store, "orders");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kDataLoss);
}

TEST(CounterSequence, BoundsThatWereChangedByHandAreDataLoss) {
  GatedStore store;
  store.put(orders(1, 10));
  ASSERT_TRUE(store.create("orders", {1, 20}));
  const auto opened = CounterSequence::open(store, "orders");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kDataLoss);
}

TEST(CounterSequence, TakesSubmitsCountsAndCloses) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, orders(5, 10)));
  const auto sequence = CounterSequence::open(store, "orders").value();
  EXPECT_EQ(sequence->definition(), orders(5, 10));
  EXPECT_EQ(sequence->take(2), (Range{5, 1, 2}));
  std::promise<Result<Range>> submitted;
  ASSERT_TRUE(
      sequence->submit(1, [&](Result<Range> result) { submitted.set_value(std::move(result)); }));
  EXPECT_EQ(submitted.get_future().get(), (Range{7, 1, 1}));
  EXPECT_EQ(sequence->next(), 8);
  EXPECT_EQ(sequence->statistics().values, 4);
  sequence->close();
  EXPECT_EQ(sequence->take(1).error().code, Code::kUnavailable);
}

TEST(CounterSequence, FillsWithConsecutiveValues) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, orders(5, 10)));
  const auto sequence = Sequence::open(store, "orders").value();
  std::array<std::int64_t, 4> values{};
  ASSERT_TRUE(sequence->next(values));
  EXPECT_THAT(values, testing::ElementsAre(5, 6, 7, 8));
  EXPECT_TRUE(sequence->next({}));
  EXPECT_EQ(sequence->next(values).error().code, Code::kOutOfRange) << "all or nothing";
  ASSERT_TRUE(sequence->next(std::span(values).first(2)));
  EXPECT_EQ(values[1], 10);
}

TEST(CounterSequence, NoCallTakesMoreThanTheDefinitionAllows) {
  GatedStore store;
  SequenceDefinition limited = orders(1, 100);
  limited.largest_count = 3;
  ASSERT_TRUE(create_sequence(store, limited));
  const auto sequence = CounterSequence::open(store, "orders").value();
  std::array<std::int64_t, 4> values{};
  EXPECT_EQ(sequence->next(values).error().code, Code::kInvalidArgument);
  EXPECT_EQ(sequence->take(4).error().code, Code::kInvalidArgument);
  EXPECT_EQ(sequence->take(0).error().code, Code::kInvalidArgument);
  const Result<void> submitted =
      sequence->submit(4, [](const Result<Range>&) { ADD_FAILURE() << "called"; });
  EXPECT_EQ(fakes::code_of(submitted), Code::kInvalidArgument);
  EXPECT_EQ(sequence->take(3), (Range{1, 1, 3})) << "nothing was taken by those refused";
}

TEST(CounterSequence, AnEndThatWasMovedIsKnownOnceItIsOpenedAgain) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, orders(1, 3)));
  const auto before = CounterSequence::open(store, "orders").value();
  EXPECT_EQ(before->take(3), (Range{1, 1, 3}));
  ASSERT_TRUE(alter_sequence(store, "orders", 9));
  EXPECT_EQ(before->take(1).error().code, Code::kOutOfRange);
  const auto after = CounterSequence::open(store, "orders").value();
  EXPECT_EQ(after->take(1), (Range{5, 1, 1})) << "4 was taken by the one that could not use it";
}

TEST(CounterSequence, ARetiredOneStops) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, orders(1, 9)));
  const auto sequence = CounterSequence::open(store, "orders").value();
  EXPECT_TRUE(sequence->take(1));
  ASSERT_TRUE(retire_sequence(store, "orders"));
  EXPECT_EQ(sequence->take(1).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(CounterSequence::open(store, "orders").error().code, Code::kFailedPrecondition);
}

TEST(CounterSequence, CanBeDestroyedInAChildOfForkWhoseThreadsAreGone) {
  GatedStore store;
  ASSERT_TRUE(create_sequence(store, orders(1, 10)));
  auto sequence = CounterSequence::open(store, "orders").value();
  std::promise<void> done;
  ASSERT_TRUE(sequence->submit(1, [&](const Result<Range>&) { done.set_value(); }));
  done.get_future().get();
  fakes::in_child([&] {
    EXPECT_EQ(fakes::code_of(sequence->take(1)), Code::kFailedPrecondition);
    sequence.reset();
  });
  EXPECT_EQ(sequence->take(1), (Range{2, 1, 1}));
}

}  // namespace
}  // namespace idmint
