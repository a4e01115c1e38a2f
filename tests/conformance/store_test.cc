// The conformance suite of all stores: counters, definitions and claims. lease_table_test.cc has
// the leases.
#include "idmint/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store/counter_store.h"
#include "store/unique_index.h"
#include "tests/conformance/store_conformance.h"
#include "tests/fakes/definitions.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/temp_folder.h"

namespace idmint {
namespace {

TEST_P(StoreConformance, HasARandomIdAndItsUrl) {
  EXPECT_EQ(store_->id().version(), 4);
  EXPECT_TRUE(store_->id().has_rfc_variant());
  EXPECT_EQ(store_->url(), url_);
  ASSERT_NE(store_->counters(), nullptr);
  ASSERT_NE(store_->catalog(), nullptr);
  ASSERT_NE(store_->unique_index(), nullptr);
  const fakes::TempFolder elsewhere;
  const auto other = Store::open(GetParam().url(elsewhere), {.deadline = std::chrono::minutes{1}});
  ASSERT_TRUE(other.has_value());
  EXPECT_NE((*other)->id(), store_->id());
}

TEST_P(StoreConformance, AMissingCounterIsNotFoundAndNeverMade) {
  EXPECT_EQ(code_of(counters().advance("c", 1, Take::kAll)), Code::kNotFound);
  EXPECT_EQ(code_of(counters().advance("c", 1, Take::kTail)), Code::kNotFound);
  EXPECT_EQ(code_of(counters().raise("c", 10)), Code::kNotFound);
  EXPECT_EQ(code_of(counters().extend("c", 10)), Code::kNotFound);
  EXPECT_EQ(code_of(counters().peek("c")), Code::kNotFound);
  EXPECT_EQ(code_of(counters().close("c")), Code::kNotFound);
  const auto all = counters().list("");
  ASSERT_TRUE(all.has_value());
  EXPECT_TRUE(all->empty());
}

TEST_P(StoreConformance, CreateIsIdempotentAndRefusesOtherBounds) {
  ASSERT_TRUE(counters().create("c", {5, 10}).has_value());
  EXPECT_EQ(counters().peek("c"), (CounterState{"c", {5, 10}, 5, false}));
  EXPECT_EQ(counters().advance("c", 2, Take::kAll), (Range{5, 1, 2}));
  ASSERT_TRUE(counters().create("c", {5, 10}).has_value());
  EXPECT_EQ(counters().peek("c")->next, 7);
  EXPECT_EQ(code_of(counters().create("c", {5, 11})), Code::kAlreadyExists);
  EXPECT_EQ(code_of(counters().create("c", {6, 10})), Code::kAlreadyExists);
  EXPECT_EQ(counters().peek("c"), (CounterState{"c", {5, 10}, 7, false}));
}

TEST_P(StoreConformance, CreateOfAClosedCounterDoesNotOpenIt) {
  ASSERT_TRUE(counters().create("c", {0, 10}).has_value());
  ASSERT_TRUE(counters().close("c").has_value());
  ASSERT_TRUE(counters().create("c", {0, 10}).has_value());
  EXPECT_EQ(code_of(counters().advance("c", 1, Take::kAll)), Code::kFailedPrecondition);
}

TEST_P(StoreConformance, RefusesBadCounters) {
  EXPECT_EQ(code_of(counters().create("", {})), Code::kInvalidArgument);
  EXPECT_EQ(code_of(counters().create(std::string(1025, 'x'), {})), Code::kInvalidArgument);
  EXPECT_EQ(code_of(counters().create("c", {2, 1})), Code::kInvalidArgument);
  EXPECT_EQ(code_of(counters().create("c", {-1, 1})), Code::kInvalidArgument);
  EXPECT_EQ(code_of(counters().create("c", {0, kLargestValue + 1})), Code::kInvalidArgument);
  EXPECT_EQ(code_of(counters().create("c", {0, 9, 0})), Code::kInvalidArgument);
  EXPECT_EQ(code_of(counters().create("c", {0, 9, -1})), Code::kInvalidArgument);
  EXPECT_EQ(code_of(counters().create("c", {0, kLargestValue, 2})), Code::kInvalidArgument);
  EXPECT_EQ(code_of(counters().create("c", {0, 1, kLargestValue + 1})), Code::kInvalidArgument);
  EXPECT_EQ(code_of(counters().create("c", {0, 0, std::numeric_limits<std::int64_t>::min()})),
            Code::kInvalidArgument);
  EXPECT_TRUE(counters().list("")->empty());
}

TEST_P(StoreConformance, MakesManyCountersInOneCallAndTheRestInTheNext) {
  std::vector<NewCounter> many;
  for (std::int64_t k = 0; k < 1000; ++k)
    many.push_back({"s/" + std::to_string(k), {k, 10'000, 1000}});
  ASSERT_TRUE(counters().create("s/7", many[7].bounds).has_value());
  EXPECT_EQ(counters().advance("s/7", 2, Take::kAll), (Range{7, 1000, 2}));
  ASSERT_TRUE(counters().create(many).has_value());
  ASSERT_TRUE(counters().create(many).has_value());
  EXPECT_EQ(counters().list("s/")->size(), many.size());
  EXPECT_EQ(counters().peek("s/7")->next, 2007);
  EXPECT_EQ(counters().peek("s/999"), (CounterState{"s/999", {999, 10'000, 1000}, 999, false}));

  const NewCounter twice[] = {{"t", {1, 2}}, {"t", {1, 2}}};
  EXPECT_TRUE(counters().create(twice).has_value());
  const NewCounter two[] = {{"u", {1, 2}}, {"u", {1, 3}}};
  EXPECT_EQ(code_of(counters().create(two)), Code::kAlreadyExists);
  const NewCounter bad[] = {{"v", {1, 2}}, {"w", {2, 1}}};
  EXPECT_EQ(code_of(counters().create(bad)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(counters().peek("v")), Code::kNotFound);
  EXPECT_TRUE(counters().create(std::span<const NewCounter>{}).has_value());
  EXPECT_EQ(code_of(counters().create(
                std::vector<NewCounter>(CounterStore::kMaxCounters + 1, {"x", {1, 2}}))),
            Code::kInvalidArgument);
}

// A record of no store, with a control character.
TEST_P(StoreConformance, ARecordThatItDoesNotKnowIsNotAdopted) {
  const NewCounter some[] = {{"own", {1, 9}}, {"adopted", {1, 9}, "no record\n"}};
  const auto refused = counters().create(some);
  EXPECT_EQ(code_of(refused),
            counters().adoption() == nullptr ? Code::kUnimplemented : Code::kInvalidArgument);
  EXPECT_EQ(code_of(counters().peek("own")), Code::kNotFound) << "nothing was made";
  EXPECT_EQ(code_of(counters().peek("adopted")), Code::kNotFound);
}

// ---- strides

TEST_P(StoreConformance, AStrideHandsOutItsOwnValuesOnly) {
  ASSERT_TRUE(counters().create("c", {2, 20, 7}).has_value());  // 2, 9, 16
  EXPECT_EQ(counters().peek("c"), (CounterState{"c", {2, 20, 7}, 2, false}));
  EXPECT_EQ(counters().advance("c", 2, Take::kAll), (Range{2, 7, 2}));
  EXPECT_EQ(code_of(counters().advance("c", 2, Take::kAll)), Code::kOutOfRange);
  EXPECT_EQ(counters().advance("c", 2, Take::kTail), (Range{16, 7, 1}));
  EXPECT_EQ(code_of(counters().advance("c", 1, Take::kTail)), Code::kOutOfRange);
  EXPECT_EQ(counters().peek("c")->next, 23) << "the value after the last one";
  EXPECT_EQ(code_of(counters().create("c", {2, 20, 1})), Code::kAlreadyExists);
  EXPECT_TRUE(counters().create("c", {2, 20, 7}).has_value()) << "the end stays as it was given";
}

TEST_P(StoreConformance, InterleavedStridesCoverEveryValueOnce) {
  for (const std::int64_t stride : {1, 2, 3, 5}) {
    for (const std::int64_t last : {10, 11, 12, 13, 14, 15}) {
      std::vector<std::int64_t> all;
      for (std::int64_t k = 0; k < stride; ++k) {
        const std::string name =
            std::to_string(stride) + "/" + std::to_string(last) + "/" + std::to_string(k);
        ASSERT_TRUE(counters().create(name, {3 + k, last, stride}).has_value());
        std::ranges::copy(drain(name, 2), std::back_inserter(all));
      }
      std::ranges::sort(all);
      std::vector<std::int64_t> expected;
      for (std::int64_t value = 3; value <= last; ++value) expected.push_back(value);
      EXPECT_EQ(all, expected) << stride << ' ' << last;
    }
  }
}

TEST_P(StoreConformance, RaiseGoesToAValueOfTheStride) {
  ASSERT_TRUE(counters().create("c", {2, 20, 7}).has_value());  // 2, 9, 16
  EXPECT_EQ(counters().raise("c", 2), 2);
  EXPECT_EQ(counters().raise("c", 3), 9);
  EXPECT_EQ(counters().raise("c", 9), 9);
  EXPECT_EQ(counters().raise("c", -100), 9);
  EXPECT_EQ(counters().raise("c", 10), 16);
  EXPECT_EQ(counters().raise("c", 17), 23) << "there is none from 17 to 20";
  EXPECT_EQ(counters().raise("c", std::numeric_limits<std::int64_t>::max()), 23);
  EXPECT_EQ(code_of(counters().advance("c", 1, Take::kTail)), Code::kOutOfRange);
}

TEST_P(StoreConformance, TheLargestStridesAndValuesDoNotOverflow) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t stride :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{1000}, kMax / 2, kMax - 1, kMax}) {
    SCOPED_TRACE(stride);
    const std::int64_t last = kLargestValue - (stride - 1);
    const std::string name = "c" + std::to_string(stride);
    if (last < 0) {
      EXPECT_EQ(code_of(counters().create(name, {0, 0, stride})), Code::kInvalidArgument);
      continue;
    }
    ASSERT_TRUE(counters().create(name, {0, last, stride}).has_value());
    const std::int64_t count = last / stride + 1;
    EXPECT_EQ(code_of(counters().advance(name, kMax, Take::kAll)),
              count == kMax ? Code{0} : Code::kOutOfRange);
    if (count != kMax) {
      EXPECT_EQ(counters().advance(name, kMax, Take::kTail), (Range{0, stride, count}));
    }
    EXPECT_EQ(code_of(counters().advance(name, 1, Take::kTail)), Code::kOutOfRange);
    const std::int64_t end = counters().peek(name)->next;
    EXPECT_EQ(end - stride, (count - 1) * stride);
    EXPECT_EQ(counters().raise(name, kMax), end);
    EXPECT_EQ(counters().raise(name, 0), end);

    const std::string high = "high" + std::to_string(stride);
    ASSERT_TRUE(counters().create(high, {last, last, stride}).has_value());
    EXPECT_EQ(counters().raise(high, last), last);
    EXPECT_EQ(counters().advance(high, kMax, Take::kTail), (Range{last, stride, 1}));
    EXPECT_EQ(counters().raise(high, kMax), last + stride);
  }
}

// ---- a later end

TEST_P(StoreConformance, ExtendIsAMaximum) {
  ASSERT_TRUE(counters().create("c", {1, 10}).has_value());
  EXPECT_EQ(drain("c", 100).size(), 10U);
  EXPECT_EQ(counters().extend("c", 12), (CounterBounds{1, 12}));
  EXPECT_EQ(counters().extend("c", 12), (CounterBounds{1, 12}));
  EXPECT_EQ(counters().extend("c", 5), (CounterBounds{1, 12}));
  EXPECT_EQ(counters().extend("c", -1), (CounterBounds{1, 12}));
  EXPECT_EQ(counters().advance("c", 5, Take::kTail), (Range{11, 1, 2}));
  EXPECT_EQ(code_of(counters().extend("c", kLargestValue + 1)), Code::kInvalidArgument);
  EXPECT_EQ(counters().peek("c"), (CounterState{"c", {1, 12}, 13, false}));
  EXPECT_EQ(counters().extend("c", kLargestValue), (CounterBounds{1, kLargestValue}));
  EXPECT_EQ(counters().advance("c", 1, Take::kAll), (Range{13, 1, 1}));
}

TEST_P(StoreConformance, ExtendKeepsToTheStride) {
  ASSERT_TRUE(counters().create("c", {2, 20, 7}).has_value());  // 2, 9, 16
  EXPECT_EQ(drain("c", 2), (std::vector<std::int64_t>{2, 9, 16}));
  EXPECT_EQ(counters().extend("c", 22), (CounterBounds{2, 22, 7}));
  EXPECT_EQ(code_of(counters().advance("c", 1, Take::kTail)), Code::kOutOfRange);
  EXPECT_EQ(counters().extend("c", 30), (CounterBounds{2, 30, 7}));
  EXPECT_EQ(drain("c", 9), (std::vector<std::int64_t>{23, 30}));
  EXPECT_EQ(code_of(counters().extend("c", kLargestValue - 5)), Code::kInvalidArgument);
  EXPECT_EQ(counters().extend("c", kLargestValue - 6), (CounterBounds{2, kLargestValue - 6, 7}));
}

TEST_P(StoreConformance, ExtendDoesNotOpenWhatIsClosed) {
  ASSERT_TRUE(counters().create("c", {1, 10}).has_value());
  ASSERT_TRUE(counters().close("c").has_value());
  EXPECT_EQ(counters().extend("c", 20), (CounterBounds{1, 20}));
  EXPECT_EQ(code_of(counters().advance("c", 1, Take::kAll)), Code::kFailedPrecondition);
}

// ---- many counters in one call

TEST_P(StoreConformance, ManyCountersAreChangedInOneCall) {
  std::vector<NewCounter> many;
  std::vector<std::string> names;
  for (std::int64_t k = 0; k < 1000; ++k) {
    many.push_back({"s/" + std::to_string(k), {k, 10'000, 1000}});
    names.push_back(many.back().name);
  }
  ASSERT_TRUE(counters().create(many).has_value());
  EXPECT_EQ(counters().advance("s/7", 5, Take::kAll), (Range{7, 1000, 5}));

  const auto next = counters().raise(names, 2500);
  ASSERT_TRUE(next.has_value()) << next.error().message();
  ASSERT_EQ(next->size(), names.size());
  for (std::int64_t k = 0; k < 1000; ++k) {
    const std::int64_t expected = k == 7 ? 5007 : k < 500 ? k + 3000 : k + 2000;
    EXPECT_EQ(next->at(static_cast<std::size_t>(k)), expected);
    EXPECT_EQ(counters().peek(names[static_cast<std::size_t>(k)])->next, expected);
  }
  const auto bounds = counters().extend(names, 20'000);
  ASSERT_TRUE(bounds.has_value()) << bounds.error().message();
  ASSERT_EQ(bounds->size(), names.size());
  EXPECT_EQ(bounds->at(999), (CounterBounds{999, 20'000, 1000}));
  EXPECT_EQ(counters().peek("s/999")->bounds, (CounterBounds{999, 20'000, 1000}));

  ASSERT_TRUE(counters().close(names).has_value());
  ASSERT_TRUE(counters().close(names).has_value()) << "again";
  const auto all = counters().list("s/");
  ASSERT_TRUE(all.has_value());
  for (const CounterState& counter : *all) EXPECT_TRUE(counter.closed) << counter.name;
  EXPECT_EQ(counters().raise(names, 0), *next) << "never down";
}

TEST_P(StoreConformance, OneThatIsMissingKeepsTheOthersFromNothing) {
  ASSERT_TRUE(counters().create("a", {1, 10}).has_value());
  ASSERT_TRUE(counters().create("c", {1, 10}).has_value());
  const std::vector<std::string> names = {"a", "b", "c"};
  EXPECT_EQ(code_of(counters().raise(names, 5)), Code::kNotFound);
  EXPECT_EQ(counters().peek("a")->next, 5);
  EXPECT_EQ(counters().peek("c")->next, 5);
  EXPECT_EQ(code_of(counters().extend(names, 20)), Code::kNotFound);
  EXPECT_EQ(counters().peek("c")->bounds.last, 20);
  EXPECT_EQ(code_of(counters().close(names)), Code::kNotFound);
  EXPECT_TRUE(counters().peek("a")->closed);
  EXPECT_TRUE(counters().peek("c")->closed);
  EXPECT_EQ(code_of(counters().peek("b")), Code::kNotFound) << "and is not made";
}

TEST_P(StoreConformance, AnEndThatIsTooLargeForOneMovesTheOthers) {
  ASSERT_TRUE(counters().create("a", {1, 10, 2}).has_value());
  ASSERT_TRUE(counters().create("b", {1, 10}).has_value());
  EXPECT_EQ(code_of(counters().extend(std::vector<std::string>{"a", "b"}, kLargestValue)),
            Code::kInvalidArgument);
  EXPECT_EQ(counters().peek("a")->bounds.last, 10);
  EXPECT_EQ(counters().peek("b")->bounds.last, kLargestValue);
}

TEST_P(StoreConformance, NoCountersOrTooMany) {
  const std::span<const std::string> none;
  EXPECT_TRUE(counters().raise(none, 5).has_value());
  EXPECT_TRUE(counters().extend(none, 5).has_value());
  EXPECT_TRUE(counters().close(none).has_value());
  ASSERT_TRUE(counters().create("c", {1, 10}).has_value());
  const std::vector<std::string> many(CounterStore::kMaxCounters + 1, "c");
  EXPECT_EQ(code_of(counters().raise(many, 5)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(counters().extend(many, 20)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(counters().close(many)), Code::kInvalidArgument);
  EXPECT_EQ(counters().peek("c"), (CounterState{"c", {1, 10}, 1, false}));
}

TEST_P(StoreConformance, ConcurrentExtendsAndTakesLoseAndRepeatNothing) {
  ASSERT_TRUE(counters().create("c", {0, 0, 3}).has_value());
  std::array<std::vector<std::int64_t>, 4> taken;
  {
    std::atomic<bool> grown{false};
    std::vector<std::jthread> threads;
    for (auto& mine : taken)
      threads.emplace_back([&] {
        for (;;) {
          const bool last_look = grown;
          const auto range = counters().advance("c", 2, Take::kTail);
          if (range)
            for (std::int64_t i = 0; i < range->count; ++i) mine.push_back(range->at(i));
          else if (last_look)
            return;
        }
      });
    for (std::int64_t last = 10; last <= 300; last += 10) {
      EXPECT_TRUE(counters().extend("c", last).has_value());
      EXPECT_TRUE(counters().extend("c", last - 7).has_value());
    }
    grown = true;
  }
  std::vector<std::int64_t> all;
  for (const auto& each : taken) std::ranges::copy(each, std::back_inserter(all));
  std::ranges::sort(all);
  std::vector<std::int64_t> expected;
  for (std::int64_t value = 0; value <= 300; value += 3) expected.push_back(value);
  EXPECT_EQ(all, expected);
}

TEST_P(StoreConformance, RefusesACountBelowOne) {
  ASSERT_TRUE(counters().create("c", {}).has_value());
  for (const std::int64_t count :
       {std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_EQ(code_of(counters().advance("c", count, Take::kAll)), Code::kInvalidArgument);
    EXPECT_EQ(code_of(counters().advance("c", count, Take::kTail)), Code::kInvalidArgument);
  }
  EXPECT_EQ(counters().peek("c")->next, 0);
}

TEST_P(StoreConformance, AllIsEverythingOrNothing) {
  ASSERT_TRUE(counters().create("c", {1, 10}).has_value());
  EXPECT_EQ(counters().advance("c", 8, Take::kAll), (Range{1, 1, 8}));
  EXPECT_EQ(code_of(counters().advance("c", 3, Take::kAll)), Code::kOutOfRange);
  EXPECT_EQ(counters().peek("c")->next, 9);
  EXPECT_EQ(counters().advance("c", 2, Take::kAll), (Range{9, 1, 2}));
  EXPECT_EQ(code_of(counters().advance("c", 1, Take::kAll)), Code::kOutOfRange);
  EXPECT_EQ(counters().peek("c")->next, 11);
}

TEST_P(StoreConformance, TailIsAShorterRestButNeverNothing) {
  ASSERT_TRUE(counters().create("c", {1, 10}).has_value());
  EXPECT_EQ(counters().advance("c", 8, Take::kTail), (Range{1, 1, 8}));
  EXPECT_EQ(counters().advance("c", 8, Take::kTail), (Range{9, 1, 2}));
  EXPECT_EQ(code_of(counters().advance("c", 8, Take::kTail)), Code::kOutOfRange);
  EXPECT_EQ(counters().peek("c")->next, 11);
}

TEST_P(StoreConformance, TheLargestValuesDoNotOverflow) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  ASSERT_TRUE(counters().create("wide", {0, kLargestValue}).has_value());
  EXPECT_EQ(counters().advance("wide", kMax, Take::kAll), (Range{0, 1, kMax}));
  EXPECT_EQ(counters().peek("wide")->next, kMax);
  EXPECT_EQ(code_of(counters().advance("wide", 1, Take::kTail)), Code::kOutOfRange);

  ASSERT_TRUE(counters().create("end", {kLargestValue - 1, kLargestValue}).has_value());
  EXPECT_EQ(code_of(counters().advance("end", kMax, Take::kAll)), Code::kOutOfRange);
  EXPECT_EQ(counters().advance("end", 1, Take::kAll), (Range{kLargestValue - 1, 1, 1}));
  EXPECT_EQ(counters().advance("end", kMax, Take::kTail), (Range{kLargestValue, 1, 1}));
  EXPECT_EQ(code_of(counters().advance("end", 1, Take::kAll)), Code::kOutOfRange);
  EXPECT_EQ(counters().peek("end")->next, kMax);
}

TEST_P(StoreConformance, RaiseIsAMaximum) {
  ASSERT_TRUE(counters().create("c", {10, 100}).has_value());
  EXPECT_EQ(counters().raise("c", 50), 50);
  EXPECT_EQ(counters().raise("c", 20), 50);
  EXPECT_EQ(counters().raise("c", std::numeric_limits<std::int64_t>::min()), 50);
  EXPECT_EQ(counters().advance("c", 1, Take::kAll), (Range{50, 1, 1}));
  EXPECT_EQ(counters().raise("c", 51), 51);
  EXPECT_EQ(counters().raise("c", 100), 100);
  EXPECT_EQ(counters().advance("c", 5, Take::kTail), (Range{100, 1, 1}));
  EXPECT_EQ(counters().raise("c", 100), 101);
}

TEST_P(StoreConformance, RaisePastTheEndStopsThere) {
  ASSERT_TRUE(counters().create("c", {10, 100}).has_value());
  EXPECT_EQ(counters().raise("c", std::numeric_limits<std::int64_t>::max()), 101);
  EXPECT_EQ(counters().raise("c", 102), 101);
  EXPECT_EQ(code_of(counters().advance("c", 1, Take::kTail)), Code::kOutOfRange);
  ASSERT_TRUE(counters().create("wide", {}).has_value());
  EXPECT_EQ(counters().raise("wide", std::numeric_limits<std::int64_t>::max()),
            std::numeric_limits<std::int64_t>::max());
}

TEST_P(StoreConformance, CloseEndsACounterForGood) {
  ASSERT_TRUE(counters().create("c", {0, 100}).has_value());
  ASSERT_TRUE(counters().advance("c", 3, Take::kAll).has_value());
  ASSERT_TRUE(counters().close("c").has_value());
  ASSERT_TRUE(counters().close("c").has_value());
  EXPECT_EQ(code_of(counters().advance("c", 1, Take::kAll)), Code::kFailedPrecondition);
  EXPECT_EQ(code_of(counters().advance("c", 1, Take::kTail)), Code::kFailedPrecondition);
  EXPECT_EQ(counters().raise("c", 7), 7);
  EXPECT_EQ(counters().peek("c"), (CounterState{"c", {0, 100}, 7, true}));
}

TEST_P(StoreConformance, ListsByPrefixInOrder) {
  for (const char* name : {"b", "a/2", "a/1", "a", "aa", "A", "a/10"})
    ASSERT_TRUE(counters().create(name, {}).has_value());
  const auto names = [&](std::string_view prefix) {
    std::vector<std::string> found;
    const auto states = counters().list(prefix);
    EXPECT_TRUE(states.has_value());
    if (states)
      for (const CounterState& state : *states) found.push_back(state.name);
    return found;
  };
  using testing::ElementsAre;
  EXPECT_THAT(names("a/"), ElementsAre("a/1", "a/10", "a/2"));
  EXPECT_THAT(names("a"), ElementsAre("a", "a/1", "a/10", "a/2", "aa"));
  EXPECT_THAT(names(""), ElementsAre("A", "a", "a/1", "a/10", "a/2", "aa", "b"));
  EXPECT_THAT(names("c"), ElementsAre());
}

TEST_P(StoreConformance, AnyBytesMakeAName) {
  using namespace std::string_literals;
  const std::vector<std::string> names = {"'; DROP TABLE counters; --",
                                          "\"quoted\"",
                                          "with space",
                                          "100%",
                                          "a_b",
                                          "a*b?[c]",
                                          "\n\t",
                                          "größe",
                                          "順序",
                                          "\xf0\x9f\x99\x82",
                                          "\xff\xfe not utf-8",
                                          "$set.a",
                                          "a\0b"s,
                                          "a\0c"s,
                                          "a",
                                          "A",
                                          "{\"json\":1}",
                                          std::string(1024, 'x'),
                                          std::string(1023, 'x')};
  std::int64_t first = 0;
  for (const std::string& name : names)
    ASSERT_TRUE(counters().create(name, {first++, 1000}).has_value()) << name;
  first = 0;
  for (const std::string& name : names) {
    EXPECT_EQ(counters().advance(name, 1, Take::kAll), (Range{first, 1, 1})) << name;
    EXPECT_EQ(counters().peek(name), (CounterState{name, {first, 1000}, first + 1, false}));
    const auto same = counters().list(name);
    ASSERT_TRUE(same.has_value());
    EXPECT_TRUE(same->size() == 1 || name == "a" || name.size() == 1023) << name;
    EXPECT_EQ(same->front().name, name);
    ++first;
  }
  const auto all = counters().list("");
  ASSERT_EQ(all->size(), names.size());
  EXPECT_TRUE(std::ranges::is_sorted(*all, {}, &CounterState::name));
}

// An advance, and the points of one clock between which it took place.
struct Taken {
  std::int64_t began;
  std::int64_t ended;
  Range range;
};

TEST_P(StoreConformance, ConcurrentAdvancesAreDisjointCompleteAndLinearizable) {
  constexpr int kThreads = 8;
  constexpr int kEach = 100;
  ASSERT_TRUE(counters().create("c", {1, kLargestValue}).has_value());
  std::atomic<std::int64_t> clock{0};
  std::array<std::vector<Taken>, kThreads> taken;
  {
    std::barrier start(kThreads);
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        start.arrive_and_wait();
        for (int i = 0; i < kEach; ++i) {
          const std::int64_t began = clock.fetch_add(1);
          const auto range = counters().advance("c", 1 + (t + i) % 5, Take::kAll);
          const std::int64_t ended = clock.fetch_add(1);
          ASSERT_TRUE(range.has_value()) << range.error().message();
          taken[static_cast<std::size_t>(t)].push_back({began, ended, *range});
        }
      });
  }
  std::vector<Taken> all;
  for (const auto& each : taken) all.insert(all.end(), each.begin(), each.end());
  ASSERT_EQ(all.size(), std::size_t{kThreads * kEach});
  std::ranges::sort(all, {}, [](const Taken& t) { return t.range.first; });
  std::int64_t next = 1;
  std::int64_t latest_begin = -1;
  for (const Taken& each : all) {
    ASSERT_EQ(each.range.first, next);
    next += each.range.count;
    // Nobody with smaller values may have begun after this one ended.
    ASSERT_LT(latest_begin, each.ended);
    latest_begin = std::max(latest_begin, each.began);
  }
  EXPECT_EQ(counters().peek("c")->next, next);
}

TEST_P(StoreConformance, ConcurrentTailsShareTheRestExactly) {
  ASSERT_TRUE(counters().create("c", {1, 200}).has_value());
  std::atomic<std::int64_t> sum{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&] {
        for (;;) {
          const auto range = counters().advance("c", 7, Take::kTail);
          if (!range) {
            EXPECT_EQ(range.error().code, Code::kOutOfRange);
            return;
          }
          for (std::int64_t i = 0; i < range->count; ++i) sum += range->at(i);
        }
      });
  }
  EXPECT_EQ(sum.load(), 200 * 201 / 2);
}

TEST_P(StoreConformance, NothingBelowTheFloorIsTakenAfterRaise) {
  ASSERT_TRUE(counters().create("c", {0, kLargestValue}).has_value());
  std::atomic<bool> stop{false};
  std::atomic<std::int64_t> floor{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      while (!stop) {
        const std::int64_t known = floor.load();
        const auto range = counters().advance("c", 1, Take::kAll);
        ASSERT_TRUE(range.has_value()) << range.error().message();
        ASSERT_GE(range->first, known);
      }
    });
  for (std::int64_t to = 1000; to <= 100'000; to += 1000) {
    const auto next = counters().raise("c", to);
    EXPECT_TRUE(next.has_value() && *next >= to);
    floor = to;
  }
  stop = true;
}

TEST_P(StoreConformance, TheCatalogKeepsTheFirstDefinition) {
  const Definition orders = SequenceDefinition{"orders", Strategy::kCounter, 1000, 9999};
  EXPECT_EQ(code_of(catalog().find("orders")), Code::kNotFound);
  EXPECT_EQ(catalog().define(orders), orders);
  EXPECT_EQ(catalog().define(orders), orders);
  EXPECT_FALSE(catalog().define(orders)->made);
  EXPECT_EQ(catalog().define(SequenceDefinition{"orders", Strategy::kCounter, 1, 2}), orders);
  EXPECT_EQ(catalog().find("orders"), orders);
  EXPECT_EQ(code_of(catalog().find("Orders")), Code::kNotFound);
  const Definition cards = SequenceDefinition{"cards"};
  EXPECT_EQ(catalog().define(cards), cards);
  EXPECT_EQ(definitions(), (std::vector{cards, orders}));
  EXPECT_EQ(code_of(catalog().define(SequenceDefinition{"no spaces please"})),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of(counters().peek("orders")), Code::kNotFound);
}

TEST_P(StoreConformance, OneOfManyDefinersIsToldThatItWonAndAllHearWhich) {
  for (int round = 0; round < 10; ++round) {
    const std::string name = "n" + std::to_string(round);
    std::array<Result<Defined>, 8> heard;
    {
      std::barrier start(8);
      std::vector<std::jthread> threads;
      for (int t = 0; t < 8; ++t)
        threads.emplace_back([&, t] {
          start.arrive_and_wait();
          heard[static_cast<std::size_t>(t)] =
              catalog().define(SequenceDefinition{name, Strategy::kCounter, t, 100});
        });
    }
    for (const auto& each : heard) EXPECT_EQ(each, catalog().find(name).value());
    EXPECT_EQ(std::ranges::count_if(heard, [](const auto& each) { return each->made; }), 1);
  }
}

TEST_P(StoreConformance, ReplaceChangesOnlyWhatItWasToldIsThere) {
  const SequenceDefinition of_one{"orders", Strategy::kCounter, 1, 10};
  const auto changed = [&](auto change) -> Definition {
    SequenceDefinition definition = of_one;
    definition.last = 20;
    change(definition);
    return definition;
  };
  const Definition one = of_one;
  const Definition two = changed([](SequenceDefinition&) {});
  const Definition three = changed([](SequenceDefinition& its) { its.last = 30; });
  EXPECT_EQ(code_of(catalog().replace(one, two)), Code::kNotFound);
  EXPECT_EQ(code_of(catalog().find("orders")), Code::kNotFound);
  ASSERT_TRUE(catalog().define(one).has_value());
  EXPECT_EQ(catalog().replace(one, two), two);
  EXPECT_EQ(catalog().find("orders"), two);
  EXPECT_EQ(catalog().replace(one, three), two) << "what is there is not what was expected";
  EXPECT_EQ(catalog().find("orders"), two);
  EXPECT_EQ(catalog().replace(two, two), two);
  EXPECT_EQ(definitions(), std::vector{two});

  const Definition renamed = changed([](SequenceDefinition& its) { its.name = "bills"; });
  EXPECT_EQ(code_of(catalog().replace(two, renamed)), Code::kInvalidArgument);
  const Definition invalid = changed([](SequenceDefinition& its) { its.first = 21; });
  EXPECT_EQ(code_of(catalog().replace(two, invalid)), Code::kInvalidArgument);
  EXPECT_EQ(catalog().find("orders"), two);
}

TEST_P(StoreConformance, OfManyReplacementsOfOneDefinitionOneWins) {
  Definition now = SequenceDefinition{"orders", Strategy::kCounter, 1, 1};
  ASSERT_TRUE(catalog().define(now).has_value());
  for (int round = 0; round < 10; ++round) {
    std::array<Result<Defined>, 8> heard;
    {
      std::barrier start(8);
      std::vector<std::jthread> threads;
      for (int t = 0; t < 8; ++t)
        threads.emplace_back([&, t] {
          SequenceDefinition mine = as_sequence(now);
          mine.last += t + 1;
          start.arrive_and_wait();
          heard[static_cast<std::size_t>(t)] = catalog().replace(now, mine);
        });
    }
    now = catalog().find("orders").value();
    for (const auto& each : heard) EXPECT_EQ(each, now);
    EXPECT_EQ(std::ranges::count_if(heard, [](const auto& each) { return each->made; }), 1);
  }
  EXPECT_GT(as_sequence(now).last, 10);
}

TEST_P(StoreConformance, TheCatalogKeepsEveryFieldOfADefinition) {
  const Definition full =
      SequenceDefinition{.name = "cards",
                         .strategy = Strategy::kPermuted,
                         .first = 0,
                         .last = 999'999,
                         .key = "0123456789abcdef0123456789abcdef",
                         .largest_count = 100,
                         .form = {.prefix = "C-", .check = Check::kLuhn, .digits = 9},
                         .retired = true};
  const Definition striped = SequenceDefinition{
      .name = "accounts", .strategy = Strategy::kStriped, .last = 5000, .stripes = 1000};
  const Definition cached =
      SequenceDefinition{.name = "tickets", .strategy = Strategy::kCached, .step = 1000};
  const Definition pool =
      PoolDefinition{.name = "web",
                     .layout = {.time_bits = 39, .worker_bits = 16, .sequence_bits = 8},
                     .workers = 7,
                     .largest_count = 10,
                     .form = {.prefix = "w-"},
                     .retired = true};
  for (const Definition& each : {full, striped, cached, pool}) {
    EXPECT_EQ(catalog().define(each), each);
    EXPECT_EQ(catalog().find(name(each)), each);
  }
  EXPECT_EQ(definitions(), (std::vector{striped, full, cached, pool}));
  EXPECT_EQ(code_of(catalog().define(
                SequenceDefinition{.name = "keyless", .strategy = Strategy::kPermuted})),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of(catalog().define(PoolDefinition{.name = "unsized"})), Code::kInvalidArgument);
}

// ---- claims

using Keys = std::vector<std::int64_t>;
using Ours = std::vector<bool>;

TEST_P(StoreConformance, AMissingSpaceIsNotFoundAndNeverMade) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(code_of(claims().insert("s", Keys{1})), Code::kNotFound);
    EXPECT_EQ(code_of(claims().claimed("s")), Code::kNotFound);
    EXPECT_EQ(code_of(claims().contains("s", 1)), Code::kNotFound);
    EXPECT_EQ(code_of(claims().close_space("s")), Code::kNotFound);
  }
  EXPECT_EQ(code_of(claims().create_space("")), Code::kInvalidArgument);
  EXPECT_EQ(code_of(claims().create_space(std::string(1025, 'x'))), Code::kInvalidArgument);
  EXPECT_TRUE(claims().create_space(std::string(1024, 'x')).has_value());
}

TEST_P(StoreConformance, AClaimIsGivenOnceAndForEver) {
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  ASSERT_TRUE(claims().create_space("s").has_value());
  EXPECT_EQ(claims().claimed("s"), 0);
  EXPECT_EQ(claims().insert("s", Keys{5, 7, 5, kMin, kMax, -1}),
            (Ours{true, true, false, true, true, true}))
      << "5 stands there twice";
  EXPECT_EQ(claims().claimed("s"), 5);
  EXPECT_EQ(claims().insert("s", Keys{7, 8, kMax, kMin}), (Ours{false, true, false, false}));
  EXPECT_EQ(claims().insert("s", Keys{5}), Ours{false});
  EXPECT_EQ(claims().claimed("s"), 6);
  ASSERT_TRUE(claims().create_space("s").has_value());
  EXPECT_EQ(claims().claimed("s"), 6) << "a space that is there stays as it is";
  EXPECT_EQ(claims().insert("s", Keys{8}), Ours{false});
  for (const std::int64_t key : {std::int64_t{-1}, std::int64_t{5}, kMin, kMax})
    EXPECT_EQ(claims().contains("s", key), true) << key;
  for (const std::int64_t key : {0, -5, 6}) EXPECT_EQ(claims().contains("s", key), false) << key;
}

TEST_P(StoreConformance, SpacesAndCountersKeepApart) {
  ASSERT_TRUE(claims().create_space("a").has_value());
  ASSERT_TRUE(claims().create_space("b").has_value());
  ASSERT_TRUE(counters().create("a", {1, 10}).has_value());
  EXPECT_EQ(claims().insert("a", Keys{1, 2}), (Ours{true, true}));
  EXPECT_EQ(claims().insert("b", Keys{2, 3}), (Ours{true, true}));
  EXPECT_EQ(claims().claimed("a"), 2);
  ASSERT_TRUE(claims().close_space("a").has_value());
  EXPECT_EQ(claims().insert("b", Keys{4}), Ours{true});
  EXPECT_EQ(counters().advance("a", 1, Take::kAll), (Range{1, 1, 1}));
}

TEST_P(StoreConformance, TooManyKeysAndNoneAreRefused) {
  ASSERT_TRUE(claims().create_space("s").has_value());
  EXPECT_EQ(code_of(claims().insert("s", {})), Code::kInvalidArgument);
  Keys keys(UniqueIndex::kMaxKeys + 1);
  std::ranges::generate(keys, [key = std::int64_t{0}]() mutable { return key += 3; });
  EXPECT_EQ(code_of(claims().insert("s", keys)), Code::kInvalidArgument);
  EXPECT_EQ(claims().claimed("s"), 0);
  keys.pop_back();
  EXPECT_EQ(claims().insert("s", keys), Ours(keys.size(), true));
  EXPECT_EQ(claims().claimed("s"), static_cast<std::int64_t>(keys.size()));
}

TEST_P(StoreConformance, AClosedSpaceGivesNoClaimAndKeepsThoseItGave) {
  ASSERT_TRUE(claims().create_space("s").has_value());
  ASSERT_TRUE(claims().insert("s", Keys{1, 2}).has_value());
  ASSERT_TRUE(claims().close_space("s").has_value());
  ASSERT_TRUE(claims().close_space("s").has_value());
  EXPECT_EQ(code_of(claims().insert("s", Keys{3})), Code::kFailedPrecondition);
  ASSERT_TRUE(claims().create_space("s").has_value());
  EXPECT_EQ(code_of(claims().insert("s", Keys{3})), Code::kFailedPrecondition);
  EXPECT_EQ(claims().claimed("s"), 2);
}

TEST_P(StoreConformance, OfManyWhoClaimTheSameKeysEachKeyHasOneOwner) {
  constexpr int kThreads = 8;
  constexpr std::int64_t kKeys = 500;
  ASSERT_TRUE(claims().create_space("s").has_value());
  std::array<Keys, kThreads> won;
  {
    std::barrier start(kThreads);
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        start.arrive_and_wait();
        // Everybody tries all, from another place on, some at a time.
        for (std::int64_t i = 0; i < kKeys;) {
          Keys keys;
          for (std::int64_t end = std::min(kKeys, i + 1 + t); i < end; ++i)
            keys.push_back((i + t * kKeys / kThreads) % kKeys);
          const auto ours = claims().insert("s", keys);
          ASSERT_TRUE(ours.has_value()) << ours.error().message();
          ASSERT_EQ(ours->size(), keys.size());
          for (std::size_t at = 0; at < keys.size(); ++at)
            if ((*ours)[at]) won[static_cast<std::size_t>(t)].push_back(keys[at]);
        }
      });
  }
  Keys all;
  for (const Keys& each : won) std::ranges::copy(each, std::back_inserter(all));
  std::ranges::sort(all);
  Keys expected;
  for (std::int64_t key = 0; key < kKeys; ++key) expected.push_back(key);
  EXPECT_EQ(all, expected) << "each is somebody's, and nobody else's";
  EXPECT_EQ(claims().claimed("s"), kKeys);
}

TEST_P(StoreConformance, AChildOfForkIsRefused) {
  ASSERT_TRUE(counters().create("c", {}).has_value());
  ASSERT_TRUE(claims().create_space("s").has_value());
  fakes::in_child([&] {
    const auto refused = [](const auto& result) {
      return code_of(result) == Code::kFailedPrecondition;
    };
    EXPECT_TRUE(refused(counters().create("d", {})));
    EXPECT_TRUE(refused(counters().advance("c", 1, Take::kAll)));
    EXPECT_TRUE(refused(counters().raise("c", 9)));
    EXPECT_TRUE(refused(counters().peek("c")));
    EXPECT_TRUE(refused(counters().list("")));
    EXPECT_TRUE(refused(counters().close("c")));
    EXPECT_TRUE(refused(counters().extend("c", 9)));
    EXPECT_TRUE(refused(catalog().define(SequenceDefinition{"orders"})));
    EXPECT_TRUE(refused(catalog().find("orders")));
    EXPECT_TRUE(refused(catalog().list()));
    EXPECT_TRUE(refused(catalog().replace(SequenceDefinition{"a"}, SequenceDefinition{"a"})));
    EXPECT_TRUE(refused(claims().create_space("t")));
    EXPECT_TRUE(refused(claims().insert("s", Keys{1})));
    EXPECT_TRUE(refused(claims().claimed("s")));
    EXPECT_TRUE(refused(claims().close_space("s")));
    store_.reset();
  });
  EXPECT_EQ(counters().advance("c", 1, Take::kAll), (Range{0, 1, 1}));
  EXPECT_EQ(claims().insert("s", Keys{1}), Ours{true});
}

TEST_P(StoreConformance, OpenedAgainItIsTheSameStoreIfItPersists) {
  ASSERT_TRUE(counters().create("c", {5, 50}).has_value());
  ASSERT_TRUE(counters().create("gone", {0, 1}).has_value());
  ASSERT_TRUE(counters().advance("c", 3, Take::kAll).has_value());
  ASSERT_TRUE(counters().close("gone").has_value());
  ASSERT_TRUE(catalog().define(SequenceDefinition{"orders"}).has_value());
  ASSERT_TRUE(claims().create_space("s").has_value());
  ASSERT_TRUE(claims().create_space("over").has_value());
  ASSERT_TRUE(claims().insert("s", Keys{1, 2}).has_value());
  ASSERT_TRUE(claims().close_space("over").has_value());
  const Uuid id = store_->id();
  const auto beside = open();
  EXPECT_EQ(beside->id() == id, GetParam().persists);
  EXPECT_EQ(beside->counters()->peek("c").has_value(), GetParam().persists);
  if (GetParam().persists) {
    EXPECT_EQ(beside->counters()->advance("c", 1, Take::kAll), (Range{8, 1, 1}));
    EXPECT_EQ(counters().advance("c", 1, Take::kAll), (Range{9, 1, 1}));
    EXPECT_EQ(beside->unique_index()->insert("s", Keys{2, 3}), (Ours{false, true}));
    EXPECT_EQ(claims().insert("s", Keys{3, 4}), (Ours{false, true}));
  }
  store_.reset();
  store_ = open();
  EXPECT_EQ(store_->id() == id, GetParam().persists);
  EXPECT_EQ(counters().list("")->size(), GetParam().persists ? 2U : 0U);
  EXPECT_EQ(catalog().list()->size(), GetParam().persists ? 1U : 0U);
  if (GetParam().persists) {
    EXPECT_EQ(counters().advance("c", 1, Take::kAll), (Range{10, 1, 1}));
    EXPECT_EQ(code_of(counters().advance("gone", 1, Take::kAll)), Code::kFailedPrecondition);
    EXPECT_EQ(claims().insert("s", Keys{1, 2, 3, 4, 5}), (Ours{false, false, false, false, true}));
    EXPECT_EQ(claims().claimed("s"), 5);
    EXPECT_EQ(code_of(claims().insert("over", Keys{1})), Code::kFailedPrecondition);
  }
}

// Knowledge of values that were handed out is valid within one count.
TEST_P(StoreConformance, TheSettleCountGrowsWithEachEndOfADoubtAndOtherwiseNot) {
  const auto until = [] { return std::chrono::steady_clock::now() + std::chrono::minutes{1}; };
  const std::int64_t before = store_->read_settle_count(until()).value();
  EXPECT_EQ(store_->settle_count(), before);
  ASSERT_TRUE(store_->settle(Store::Settle::kOnlyMoved));
  EXPECT_EQ(store_->read_settle_count(until()).value(), before) << "it was not in doubt";
  ASSERT_TRUE(store_->mark_gone_back("a test was given more", before, until()));
  if (!store_->doubt()) return;  // it keeps no such mark
  ASSERT_TRUE(store_->settle());
  EXPECT_FALSE(store_->doubt());
  const std::int64_t after = store_->read_settle_count(until()).value();
  EXPECT_GT(after, before);
  EXPECT_EQ(store_->settle_count(), after);
  EXPECT_EQ(open()->settle_count(), after);
  ASSERT_TRUE(store_->mark_gone_back("a test was given more", before, until()));
  EXPECT_FALSE(store_->doubt()) << "what was known before is void";
}

TEST_P(StoreConformance, WithoutLeaveNothingIsMade) {
  const fakes::TempFolder elsewhere;
  const auto store = Store::open(GetParam().url(elsewhere),
                                 {.deadline = std::chrono::minutes{1}, .create = false});
  EXPECT_EQ(code_of(store), Code::kNotFound);
  EXPECT_TRUE(std::filesystem::is_empty(elsewhere.path("")));
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreConformance, testing::ValuesIn(kStores),
                         [](const auto& param) { return std::string(param.param.name); });

#if !defined(IDMINT_CONFORMANCE_MONGODB) && !defined(IDMINT_CONFORMANCE_POSTGRESQL) && \
    !defined(IDMINT_CONFORMANCE_MARIADB) && !defined(IDMINT_CONFORMANCE_REDIS) &&      \
    !defined(IDMINT_CONFORMANCE_ETCD) && !defined(IDMINT_CONFORMANCE_ZOOKEEPER)

TEST(StoreUrls, EveryKindIsListedAndTested) {
  std::vector<std::string_view> listed;
  for (const StoreKind& kind : store_kinds()) listed.push_back(kind.scheme);
  std::vector<std::string_view> tested;
  for (const StoreUnderTest& store : kStores) tested.emplace_back(store.name);
#ifdef IDMINT_MONGODB
  tested.emplace_back("mongodb");  // by mongodb_conformance_test
#endif
#ifdef IDMINT_POSTGRESQL
  tested.emplace_back("postgresql");  // by postgresql_conformance_test
#endif
#ifdef IDMINT_MARIADB
  tested.emplace_back("mysql");  // by mariadb_conformance_test
#endif
#ifdef IDMINT_REDIS
  tested.emplace_back("redis");  // by redis_conformance_test
#endif
#ifdef IDMINT_ETCD
  tested.emplace_back("etcd");  // by etcd_conformance_test
#endif
#ifdef IDMINT_ZOOKEEPER
  tested.emplace_back("zookeeper");  // by zookeeper_conformance_test
#endif
  EXPECT_THAT(listed, testing::UnorderedElementsAreArray(tested));
}

TEST(StoreUrls, TheKindOfAUrlIsThatOfItsScheme) {
  ASSERT_NE(store_kind("memory:"), nullptr);
  EXPECT_FALSE(store_kind("memory:")->lasts);
  EXPECT_EQ(store_kind("sqlite:a.db")->scheme, "sqlite");
  EXPECT_TRUE(store_kind("sqlite:a.db")->is_file);
  for (const char* const none : {"", ":", ":x", "sqlite", "sqlit:x", "other:x"}) {
    EXPECT_EQ(store_kind(none), nullptr) << none;
  }
#ifdef IDMINT_MONGODB
  EXPECT_EQ(store_kind("mongodb+srv://h/d"), store_kind("mongodb://h/d"));
  EXPECT_TRUE(store_kind("mongodb://h/d")->has_documents);
#endif
#ifdef IDMINT_MARIADB
  EXPECT_EQ(store_kind("mariadb://h/d"), store_kind("mysql://h/d"));
#endif
#ifdef IDMINT_POSTGRESQL
  EXPECT_EQ(store_kind("postgres://h/d"), store_kind("postgresql://h/d"));
#endif
#ifdef IDMINT_REDIS
  EXPECT_EQ(store_kind("rediss://h"), store_kind("redis://h"));
#endif
}

TEST(StoreUrls, WhatIsNoUrlIsRefusedNamingThoseThatAre) {
  constexpr const char* kEach = "sqlite:ids.db or memory:";
  for (const auto& [url, says] : {std::pair{"", kEach},
                                  {"sqlite", kEach},
                                  {"ids.db", "did you mean sqlite:ids.db?"},
                                  {"ftp:ids.db", kEach},
                                  {":x", kEach},
                                  {"SQLITE:x", "did you mean sqlite:x?"}}) {
    const auto store = Store::open(url);
    ASSERT_EQ(code_of(store), Code::kInvalidArgument) << url;
    EXPECT_THAT(store.error().message(), testing::HasSubstr(says)) << url;
  }
  for (const char* url : {"sqlite:", "sqlite:///", "sqlite://host/x", "sqlite:x/", "memory:x"})
    EXPECT_EQ(code_of(Store::open(url)), Code::kInvalidArgument) << url;
}

#ifndef IDMINT_MONGODB

TEST(StoreUrls, ABackendThatIsLeftOutSaysWhatToBuild) {
  for (const char* url : {"mongodb://host/ids", "mongodb+srv://host/ids"}) {
    const auto store = Store::open(url);
    ASSERT_EQ(code_of(store), Code::kUnimplemented) << url;
    EXPECT_THAT(store.error().message(), testing::HasSubstr("-DIDMINT_MONGODB=ON"));
  }
}

#endif

#ifndef IDMINT_REDIS

TEST(StoreUrls, RedisLeftOutSaysWhatToBuild) {
  for (const char* url : {"redis://host/0", "rediss://host"}) {
    const auto store = Store::open(url);
    ASSERT_EQ(code_of(store), Code::kUnimplemented) << url;
    EXPECT_THAT(store.error().message(), testing::HasSubstr("-DIDMINT_REDIS=ON"));
  }
}

#endif

#ifndef IDMINT_ETCD

TEST(StoreUrls, EtcdLeftOutSaysWhatToBuild) {
  const auto store = Store::open("etcd://host/ids");
  ASSERT_EQ(code_of(store), Code::kUnimplemented);
  EXPECT_THAT(store.error().message(), testing::HasSubstr("-DIDMINT_ETCD=ON"));
}

#endif

#ifndef IDMINT_ZOOKEEPER

TEST(StoreUrls, ZookeeperLeftOutSaysWhatToBuild) {
  const auto store = Store::open("zookeeper://host/ids");
  ASSERT_EQ(code_of(store), Code::kUnimplemented);
  EXPECT_THAT(store.error().message(), testing::HasSubstr("-DIDMINT_ZOOKEEPER=ON"));
}

#endif

#ifndef IDMINT_POSTGRESQL

TEST(StoreUrls, PostgresqlLeftOutSaysWhatToBuild) {
  for (const char* url : {"postgresql://host/ids", "postgres://host/ids"}) {
    const auto store = Store::open(url);
    ASSERT_EQ(code_of(store), Code::kUnimplemented) << url;
    EXPECT_THAT(store.error().message(), testing::HasSubstr("-DIDMINT_POSTGRESQL=ON"));
  }
}

#endif

#endif

}  // namespace
}  // namespace idmint
