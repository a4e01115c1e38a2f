#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "idmint/sequence.h"
#include "store/counter_store.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/definitions.h"
#include "tests/fakes/gated_store.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

using fakes::GatedStore;
using testing::ElementsAre;
using testing::HasSubstr;

SequenceDefinition cards(std::int64_t first, std::int64_t last) {
  return {.name = "cards",
          .strategy = Strategy::kPermuted,
          .first = first,
          .last = last,
          .key = "000102030405060708090a0b0c0d0e0f"};
}

struct PermutedFixture {
  explicit PermutedFixture(const SequenceDefinition& definition) {
    EXPECT_TRUE(create_sequence(store, definition));
    sequence = Sequence::open(store, "cards").value();
  }
  std::vector<std::int64_t> next(std::size_t count) const {
    std::vector<std::int64_t> values(count);
    EXPECT_TRUE(sequence->next(values));
    return values;
  }

  GatedStore store;
  std::unique_ptr<Sequence> sequence;
};

TEST(PermutedSequence, HandsOutTheNumbersThatAreWrittenDown) {
  PermutedFixture f(cards(0, 9));
  EXPECT_THAT(f.next(1), ElementsAre(7));
  EXPECT_THAT(f.next(9), ElementsAre(2, 5, 9, 6, 4, 8, 0, 1, 3));
}

TEST(PermutedSequence, EachValueOnceAndThenNoMore) {
  PermutedFixture f(cards(100, 1099));
  std::set<std::int64_t> seen;
  std::vector<std::thread> threads;
  std::array<std::vector<std::int64_t>, 4> got;
  for (auto& mine : got) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        for (const std::int64_t value : f.next(5)) mine.push_back(value);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : got) seen.insert(mine.begin(), mine.end());
  EXPECT_EQ(seen.size(), 1000U) << "none twice";
  EXPECT_EQ(*seen.begin(), 100);
  EXPECT_EQ(*seen.rbegin(), 1099);
  std::int64_t value = 0;
  const Result<void> more = f.sequence->next(std::span(&value, 1));
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Code::kOutOfRange);
  EXPECT_THAT(more.error().message(),
              HasSubstr("sequence cards: used up, of 1000 in all; go on with "
                        "a new sequence that begins above 1099"));
  EXPECT_EQ(more.error().advice, Advice()) << "its last value cannot be moved";
  EXPECT_EQ(f.sequence->statistics().values, 1000);
}

TEST(PermutedSequence, ABatchThatDoesNotFitTakesNothing) {
  PermutedFixture f(cards(0, 9));
  static_cast<void>(f.next(8));
  std::array<std::int64_t, 3> three{};
  const Result<void> batch = f.sequence->next(three);
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().code, Code::kOutOfRange);
  EXPECT_THAT(batch.error().message(), HasSubstr("fewer than 3 values are left, of 10"));
  EXPECT_THAT(f.next(2), ElementsAre(1, 3));
}

TEST(PermutedSequence, ItsCounterHoldsIndicesAndRaisesByIndex) {
  PermutedFixture f(cards(100, 199));
  EXPECT_EQ(f.store.peek("cards")->bounds, (CounterBounds{0, 99}));
  ASSERT_TRUE(f.store.raise("cards", 7));
  std::vector<std::int64_t> rest = f.next(93);
  PermutedFixture all(cards(100, 199));
  const std::vector<std::int64_t> values = all.next(100);
  EXPECT_TRUE(std::ranges::equal(rest, std::span(values).subspan(7)));
}

TEST(PermutedSequence, AnotherProcessGoesOnWithTheSameKey) {
  PermutedFixture f({.name = "cards", .strategy = Strategy::kPermuted, .first = 0, .last = 9});
  const std::string key = as_sequence(*f.store.find("cards")).key;
  EXPECT_EQ(key.size(), 32U) << "drawn when it was created";
  std::vector<std::int64_t> values = f.next(5);
  f.sequence = Sequence::open(f.store, "cards").value();
  for (const std::int64_t value : f.next(5)) values.push_back(value);
  std::ranges::sort(values);
  EXPECT_THAT(values, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST(PermutedSequence, WantsNoMoreThanItsLargestCount) {
  SequenceDefinition definition = cards(0, 99);
  definition.largest_count = 3;
  PermutedFixture f(definition);
  std::array<std::int64_t, 4> four{};
  EXPECT_EQ(f.sequence->next(four).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(f.sequence->next({}));
  EXPECT_EQ(f.next(3).size(), 3U);
}

TEST(PermutedSequence, AStoreThatWentBackIsDataLossForEver) {
  PermutedFixture f(cards(0, 99));
  static_cast<void>(f.next(10));
  f.store.set_next("cards", 5);
  std::int64_t value = 0;
  EXPECT_EQ(f.sequence->next(std::span(&value, 1)).error().code, Code::kDataLoss);
  f.store.set_next("cards", 50);
  EXPECT_EQ(f.sequence->next(std::span(&value, 1)).error().code, Code::kDataLoss);
}

TEST(PermutedSequence, AChildOfForkIsRefusedAndMayDestroyIt) {
  PermutedFixture f(cards(0, 99));
  static_cast<void>(f.next(1));
  fakes::in_child([&] {
    std::int64_t value = 0;
    EXPECT_EQ(fakes::code_of(f.sequence->next(std::span(&value, 1))), Code::kFailedPrecondition);
    f.sequence.reset();
  });
}

}  // namespace
}  // namespace idmint
