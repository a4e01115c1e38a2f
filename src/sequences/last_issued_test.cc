// A process remembers its values through every closing and opening, so its first take notices a
// store that went back meanwhile.
#include "ids/last_issued.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "idmint/gapless.h"
#include "idmint/sequence.h"
#include "sequences/range_source.h"
#include "sequences/strategies.h"
#include "store/counter_store.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/gated_store.h"
#include "tests/fakes/in_child.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::GatedStore;
using testing::AllOf;
using testing::HasSubstr;

// The id of a store that no other test has.
Uuid fresh_id() { return Uuid4Generator().next(); }

Result<std::vector<std::int64_t>> take(Store& store, std::string_view name, std::size_t count) {
  const auto sequence = Sequence::open(store, name);
  if (!sequence) return std::unexpected(sequence.error());
  std::vector<std::int64_t> values(count);
  if (Result<void> filled = (*sequence)->next(values); !filled)
    return std::unexpected(std::move(filled.error()));
  return values;
}

class Remembered : public testing::TestWithParam<SequenceDefinition> {
 protected:
  Remembered() {
    const auto created = create_sequence(store_, GetParam());
    EXPECT_TRUE(created) << created.error().message();
    const auto found = find_definition(store_, GetParam().name);
    definition_ = std::get<SequenceDefinition>(found.value());
  }

  // So many values that no stripe is left out.
  static Result<void> use(Sequence& sequence) {
    for (int i = 0; i < 64; ++i) {
      std::int64_t value = 0;
      if (Result<void> got = sequence.next({&value, 1}); !got) return got;
    }
    return {};
  }
  Result<void> use(Store& store) {
    const auto sequence = Sequence::open(store, definition_.name);
    return sequence ? use(**sequence) : std::unexpected(sequence.error());
  }
  // As restoring an older backup does.
  void set_back() {
    for (std::int64_t k = 0; k < counter_count(definition_); ++k) {
      const NewCounter counter = counter_of(definition_, k);
      store_.set_next(counter.name, counter.bounds.first);
    }
    if (definition_.strategy == Strategy::kRandom) store_.put_claims(definition_.name, {});
  }

  GatedStore store_{fresh_id(), "gated://host/db"};
  SequenceDefinition definition_;
};

TEST_P(Remembered, AStoreThatWentBackWhileNothingWasOpenIsDataLoss) {
  ASSERT_TRUE(use(store_));
  set_back();
  const Result<void> again = use(store_);
  ASSERT_EQ(code_of(again), Code::kDataLoss);
  EXPECT_THAT(again.error().message(), HasSubstr("gone back"));
}

TEST_P(Remembered, AFreshHandleOfTheStoreIsHeldToItToo) {
  ASSERT_TRUE(use(store_));
  GatedStore other(store_.id(), "gated://host/db");
  other.put(definition_);
  std::vector<NewCounter> counters;
  for (std::int64_t k = 0; k < counter_count(definition_); ++k)
    counters.push_back(counter_of(definition_, k));
  if (counters.empty()) {
    ASSERT_TRUE(other.create_space(definition_.name));
  } else {
    ASSERT_TRUE(other.do_create(counters));
  }
  EXPECT_EQ(code_of(use(other)), Code::kDataLoss);
}

TEST_P(Remembered, ACopyInAnotherPlaceIsAnotherStore) {
  ASSERT_TRUE(use(store_));
  GatedStore copy(store_.id(), "gated://host/copy");
  ASSERT_TRUE(create_sequence(copy, GetParam()));
  EXPECT_TRUE(use(copy));
}

// Sequences with an order: an operator who raised too little gets an error. No raise brings claims
// back.
TEST_P(Remembered, WhatTheProcessWasGivenHoldsWhateverWasSettled) {
  ASSERT_TRUE(use(store_));
  set_back();
  store_.be_settled(1);
  const Result<void> again = use(store_);
  EXPECT_EQ(code_of(again), definition_.strategy == Strategy::kRandom ? Code{0} : Code::kDataLoss);
}

TEST_P(Remembered, AStoreThatWasSettledLessOftenIsAnOlderState) {
  store_.be_settled(2);
  ASSERT_TRUE(use(store_));
  store_.be_settled(1);
  const Result<void> less = use(store_);
  ASSERT_EQ(code_of(less), Code::kDataLoss);
  EXPECT_THAT(less.error().message(), HasSubstr("settled"));
}

// Another handle of the process was opened after it.
TEST_P(Remembered, AHandleThatDoesNotKnowThatTheStoreWasSettledAsksIt) {
  ASSERT_TRUE(use(store_));
  store_.be_settled_unread(2);
  StoreIssued::of(store_.name_on_host()).know_settled(2);
  const Result<void> used = use(store_);
  EXPECT_TRUE(used) << used.error().message();
  EXPECT_EQ(store_.settle_count(), 2);
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, Remembered,
    testing::Values(
        SequenceDefinition{.name = "counter"},
        SequenceDefinition{.name = "striped", .strategy = Strategy::kStriped, .stripes = 2},
        SequenceDefinition{.name = "interleaved",
                           .strategy = Strategy::kInterleaved,
                           .last = 99'999,
                           .stripes = 2},
        SequenceDefinition{.name = "cached", .strategy = Strategy::kCached, .step = 4},
        SequenceDefinition{.name = "permuted", .strategy = Strategy::kPermuted, .last = 9'999},
        SequenceDefinition{.name = "random", .strategy = Strategy::kRandom, .last = 999'999'999}),
    [](const auto& test) { return test.param.name; });

TEST(LastIssuedOfACounter, TheErrorHasBothFiguresAndTheWayOut) {
  GatedStore store(fresh_id(), "gated:");
  ASSERT_TRUE(create_sequence(store, {.name = "c"}));
  ASSERT_TRUE(take(store, "c", 40));
  store.set_next("c", 11);
  const auto again = take(store, "c", 1);
  ASSERT_EQ(code_of(again), Code::kDataLoss);
  EXPECT_THAT(again.error().message(),
              AllOf(HasSubstr("the store gave 11, and 40 was given before"), HasSubstr("raise")));
  EXPECT_EQ(again.error().advice, (Advice{Remedy::kRaiseStore, "gated:"}));
  ASSERT_TRUE(raise_sequence(store, "c", 40));
  EXPECT_EQ(take(store, "c", 1).value().front(), 41);
}

// The first insert after the reopening notices it.
TEST(LastIssuedOfRandom, ASequenceThatLostClaimsGivesNothingThoughTheWitnessIsClaimedNow) {
  GatedStore store(fresh_id(), "gated:");
  const SequenceDefinition codes{.name = "r", .strategy = Strategy::kRandom, .last = 999'999'999};
  ASSERT_TRUE(create_sequence(store, codes));
  ASSERT_TRUE(take(store, "r", 3));
  ASSERT_TRUE(take(store, "r", 3));
  store.put_claims("r", {});
  EXPECT_EQ(code_of(take(store, "r", 1)), Code::kDataLoss);
  EXPECT_EQ(code_of(take(store, "r", 1)), Code::kDataLoss);
  const std::size_t asked = store.inserts().size();
  EXPECT_EQ(asked, 3U) << "it is not asked any more";
}

// Answers of two handles may come in another order than the store gave the values in.
class Late final : public Store, public CounterStore {
 public:
  explicit Late(GatedStore& inner) : inner_(inner) {}
  std::function<void()> meanwhile;  // between the store and the answer, once

  const Uuid& id() const noexcept override { return inner_.id(); }
  std::string_view url() const noexcept override { return inner_.url(); }
  CounterStore* counters() noexcept override { return this; }
  Catalog* catalog() noexcept override { return inner_.catalog(); }
  UniqueIndex* unique_index() noexcept override { return inner_.unique_index(); }
  LeaseTable* leases() noexcept override { return nullptr; }

  Result<Range> do_advance(std::string_view counter, std::int64_t count, Take take,
                           SteadyTime until) override {
    Result<Range> values = inner_.do_advance(counter, count, take, until);
    if (const auto act = std::exchange(meanwhile, {})) act();
    return values;
  }
  Result<std::vector<CounterState>> do_create(std::span<const NewCounter> all) override {
    return inner_.do_create(all);
  }
  Result<std::vector<std::int64_t>> do_raise(std::span<const std::string> all, std::int64_t floor,
                                             SteadyTime until) override {
    return inner_.do_raise(all, floor, until);
  }
  Result<std::vector<CounterBounds>> do_extend(std::span<const std::string> all,
                                               std::int64_t last) override {
    return inner_.do_extend(all, last);
  }
  Result<void> do_close(std::span<const std::string> all) override { return inner_.do_close(all); }
  Result<CounterState> do_peek(std::string_view counter, SteadyTime until) override {
    return inner_.do_peek(counter, until);
  }
  Result<std::vector<CounterState>> do_list(std::string_view prefix, SteadyTime until) override {
    return inner_.do_list(prefix, until);
  }

 private:
  GatedStore& inner_;
};

TEST(LastIssuedOfACounter, AnAnswerThatComesLateIsNoDataLoss) {
  GatedStore store(fresh_id(), "gated:");
  ASSERT_TRUE(create_sequence(store, {.name = "c"}));
  Late late(store);
  late.meanwhile = [&] { EXPECT_EQ(take(store, "c", 10).value().back(), 20); };
  EXPECT_EQ(take(late, "c", 10).value().front(), 1);
}

TEST(LastIssuedOfACounter, AChildRemembersWhatItsParentWasGiven) {
  GatedStore store(fresh_id(), "gated:");
  ASSERT_TRUE(create_sequence(store, {.name = "c"}));
  ASSERT_TRUE(take(store, "c", 40));
  store.set_next("c", 11);
  EXPECT_EQ(fakes::in_child([&] {
              const auto again = take(store, "c", 1);
              return again ? Code::kUnknown : again.error().code;
            }),
            Code::kDataLoss);
}

TEST(StoreIssuedTable, ANameMayHaveOneCounterOfEachKind) {
  StoreIssued& issued = StoreIssued::of(fresh_id().to_string());
  LastIssued& value = issued.counter("codes", LastIssued::Kind::kValue);
  value.raise(40, 0);
  LastIssued& claim = issued.counter("codes", LastIssued::Kind::kClaim);
  EXPECT_NE(&claim, &value);
  EXPECT_THAT(claim.claims(0), testing::IsEmpty());
  claim.add_claim(7, 0);
  EXPECT_EQ(value.last(), 40);
  EXPECT_EQ(&issued.counter("codes", LastIssued::Kind::kValue), &value);
}

TEST(StoreIssuedTable, ThreadsThatMeetAtANewCounterShareIt) {
  StoreIssued& store = StoreIssued::of("threads");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int k = 0; k < 2000; ++k)
        StoreIssued::of("threads")
            .counter(std::to_string(k), LastIssued::Kind::kValue)
            .raise(4 * k + i, 0);
    });
  for (std::thread& each : threads) each.join();
  std::size_t counters = 0;
  store.for_each([&](const LastIssued& each) {
    ++counters;
    EXPECT_EQ(each.last(), 4 * std::stoi(each.name()) + 3);
  });
  EXPECT_EQ(counters, 2000U);
}

}  // namespace
}  // namespace idmint
