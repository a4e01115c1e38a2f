// Strategies striped and interleaved, over a store whose faults are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "idmint/sequence.h"
#include "sequences/stripe_range_source.h"
#include "store/counter_store.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/gated_store.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::GatedStore;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Advance = GatedStore::Advance;
using Values = std::vector<std::int64_t>;

SequenceDefinition striped(std::int64_t first, std::int64_t last, std::int64_t stripes) {
  return {.name = "accounts",
          .strategy = Strategy::kStriped,
          .first = first,
          .last = last,
          .stripes = stripes};
}

SequenceDefinition interleaved(std::int64_t first, std::int64_t last, std::int64_t stripes) {
  SequenceDefinition definition = striped(first, last, stripes);
  definition.strategy = Strategy::kInterleaved;
  return definition;
}

struct Fixture {
  explicit Fixture(const SequenceDefinition& definition) : stripes(definition.stripes) {
    EXPECT_TRUE(create_sequence(store, definition));
    sequence = open();
  }

  // One more, as another process has it.
  std::unique_ptr<Sequence> open() {
    auto opened = Sequence::open(store, "accounts", {}, clock, entropy);
    EXPECT_TRUE(opened) << opened.error().message();
    return *std::move(opened);
  }

  // The next picks, out of so many open stripes.
  void pick(std::size_t place, std::size_t open) {
    const std::uint64_t draw = (~std::uint64_t{0} / open) * place + (~std::uint64_t{0} / open) / 2;
    std::array<std::uint8_t, sizeof draw> bytes{};
    std::memcpy(bytes.data(), &draw, sizeof draw);
    entropy.push(bytes);
  }

  Result<Values> next(std::size_t count) { return next(*sequence, count); }
  static Result<Values> next(Sequence& from, std::size_t count) {
    Values values(count);
    if (const Result<void> filled = from.next(values); !filled) {
      return std::unexpected(filled.error());
    }
    return values;
  }

  // The values that all stripes together have left.
  std::int64_t left() {
    std::int64_t sum = 0;
    const Result<std::vector<CounterState>> all = store.counters()->list("accounts/");
    for (const CounterState& stripe : all.value()) sum += stripe.left();
    return sum;
  }

  GatedStore store;
  fakes::ManualClock clock{Instant{std::chrono::seconds{1'000'000}}};
  fakes::ScriptedEntropy entropy;
  std::int64_t stripes;
  std::unique_ptr<Sequence> sequence;
};

Values from_to(std::int64_t first, std::int64_t last) {
  Values all(static_cast<std::size_t>(last - first + 1));
  std::iota(all.begin(), all.end(), first);
  return all;
}

Values sorted(Values values) {
  std::ranges::sort(values);
  return values;
}

// ---- every value once

class EveryStrategy : public testing::TestWithParam<Strategy> {
 protected:
  static SequenceDefinition values(std::int64_t first, std::int64_t last, std::int64_t stripes) {
    return GetParam() == Strategy::kStriped ? striped(first, last, stripes)
                                            : interleaved(first, last, stripes);
  }
};

INSTANTIATE_TEST_SUITE_P(Stripes, EveryStrategy,
                         testing::Values(Strategy::kStriped, Strategy::kInterleaved),
                         [](const auto& of) { return std::string(name(of.param)); });

TEST_P(EveryStrategy, GivesEachValueOnceAndThenSaysThatItIsUsedUp) {
  Fixture f(values(5, 104, 7));
  Values got;
  for (int i = 0; i < 100; ++i) got.push_back(f.next(1).value().front());
  EXPECT_FALSE(std::ranges::is_sorted(got)) << "stripes are picked at random";
  EXPECT_EQ(sorted(got), from_to(5, 104));
  const auto none = f.next(1);
  ASSERT_EQ(code_of(none), Code::kOutOfRange);
  EXPECT_THAT(none.error().message(), HasSubstr("accounts: used up; 104 is the last"));
  EXPECT_EQ(f.sequence->statistics().values, 100);
  EXPECT_EQ(f.sequence->statistics().waste, 0);
}

// Any calls of any number of processes: no value twice, none out of bounds, none lost, and
// kOutOfRange for one value exactly when all are handed out.
TEST_P(EveryStrategy, NothingIsRepeatedOrLostWhateverIsAskedFor) {
  EXPECT_TRUE(rc::check([] {
    const auto first = *rc::gen::inRange<std::int64_t>(0, 50);
    const auto stripes = *rc::gen::inRange<std::int64_t>(2, 9);
    const auto last = first + *rc::gen::inRange<std::int64_t>(stripes - 1, 200);
    const auto processes = *rc::gen::inRange<std::size_t>(1, 4);
    const auto counts =
        *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(1, 40));
    Fixture f(values(first, last, stripes));
    std::vector<std::unique_ptr<Sequence>> sequences;
    for (std::size_t i = 0; i < processes; ++i) sequences.push_back(f.open());
    Values got;
    const auto take = [&](Sequence& from, std::size_t count) {
      const Result<Values> some = Fixture::next(from, count);
      if (some) got.insert(got.end(), some->begin(), some->end());
      RC_ASSERT(some || some.error().code == Code::kOutOfRange);
      return some.has_value();
    };
    for (std::size_t i = 0; i < counts.size(); ++i) take(*sequences[i % processes], counts[i]);
    for (const auto& sequence : sequences) {
      while (take(*sequence, 1)) {
      }
    }
    RC_ASSERT(sorted(got) == from_to(first, last));
  }));
}

TEST_P(EveryStrategy, ManyThreadsOfSeveralProcessesGetEachValueOnce) {
  constexpr std::int64_t kValues = 6000;
  Fixture f(values(1, kValues, 10));
  const auto other = f.open();
  std::vector<Values> got(8);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < got.size(); ++t) {
    threads.emplace_back([&, t] {
      Sequence& mine = t % 2 == 0 ? *f.sequence : *other;
      for (std::size_t i = 0;; ++i) {
        const auto some = Fixture::next(mine, 1 + (i + t) % 5);
        if (!some && some.error().code != Code::kOutOfRange) {
          ADD_FAILURE() << some.error().message();
        }
        if (!some) return;
        got[t].insert(got[t].end(), some->begin(), some->end());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Values all;
  for (const Values& some : got) all.insert(all.end(), some.begin(), some.end());
  for (Sequence* const each : {f.sequence.get(), other.get()}) {
    while (const auto one = Fixture::next(*each, 1)) all.push_back(one->front());
  }
  EXPECT_EQ(sorted(all), from_to(1, kValues));
}

TEST_P(EveryStrategy, ARaiseUnderWayHoldsForTheRoundsAfterIt) {
  Fixture f(values(0, 999, 8));
  f.store.shut_gate();
  std::optional<Result<Values>> held;
  std::thread caller([&] { held = f.next(1); });
  f.store.wait_for_advances(1);  // and not applied yet
  ASSERT_TRUE(raise_sequence(f.store, "accounts", 700));
  f.store.open_gate();
  caller.join();
  Values got;
  if (*held) got.push_back((*held)->front());
  while (const auto one = f.next(1)) got.push_back(one->front());
  EXPECT_EQ(sorted(got), from_to(701, 999));
}

// ---- which stripe

TEST(Striped, EachStripeIsPickedAsOftenAsTheOthers) {
  Fixture f(striped(0, 3'999'999, 4));
  std::array<int, 4> picked{};
  for (int i = 0; i < 4000; ++i) ++picked[static_cast<std::size_t>(f.next(1)->front() / 1'000'000)];
  EXPECT_THAT(picked, Each(testing::AllOf(testing::Gt(900), testing::Lt(1100))));
}

TEST(Striped, AStripeThatIsUsedUpIsNotAskedAgain) {
  Fixture f(striped(0, 2, 3));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(f.next(1));
  ASSERT_EQ(f.store.advances().size(), 3U) << "none was asked twice";
  const std::size_t calls = f.store.calls();
  EXPECT_EQ(code_of(f.next(1)), Code::kOutOfRange);
  EXPECT_EQ(f.store.calls(), calls) << "nor is the store looked at";
}

TEST(Striped, StripesThatOthersUsedUpAreFoundOutWithOneLook) {
  Fixture f(striped(0, 99, 100));
  const auto other = f.open();
  ASSERT_TRUE(Fixture::next(*other, 99));
  const std::size_t before = f.store.calls();
  ASSERT_TRUE(f.next(1));
  EXPECT_LE(f.store.calls() - before, 3U) << "an advance, a list, an advance";
}

TEST(Striped, StripesThatAreUsedUpAtTheOpeningAreNotAsked) {
  Fixture f(striped(0, 29, 3));
  for (const char* const stripe : {"accounts/0", "accounts/2"}) {
    ASSERT_TRUE(f.store.advance(stripe, 10, Take::kAll));
  }
  const auto later = f.open();
  const std::size_t before = f.store.calls();
  EXPECT_EQ(Fixture::next(*later, 10), from_to(10, 19));
  EXPECT_EQ(f.store.calls() - before, 1U);
  EXPECT_EQ(code_of(Fixture::next(*later, 1)), Code::kOutOfRange);
}

// ---- batches

TEST(Striped, ABatchIsOneRunOfOneStripe) {
  Fixture f(striped(0, 999, 10));
  f.pick(3, 10);
  EXPECT_EQ(f.next(50), from_to(300, 349));
  EXPECT_THAT(f.store.advances(), ElementsAre(Advance{50, Take::kAll}));
}

TEST(Interleaved, ABatchHasTheStrideOfItsStripe) {
  Fixture f(interleaved(100, 199, 10));
  f.pick(7, 10);
  EXPECT_THAT(f.next(4).value(), ElementsAre(107, 117, 127, 137));
}

TEST(Striped, ABatchThatIsLargerThanAnyStripeIsTakenFromSeveral) {
  Fixture f(striped(0, 99, 10));
  const auto got = f.next(95);
  ASSERT_TRUE(got) << got.error().message();
  const Values values = sorted(*got);
  EXPECT_EQ(std::ranges::adjacent_find(values), values.end());
  EXPECT_EQ(f.left(), 5);
  EXPECT_EQ(f.sequence->statistics().waste, 0);
}

// It would take what is left from everybody, and for nothing.
TEST(Striped, ABatchThatNobodyCanServeTakesNothing) {
  Fixture f(striped(0, 99, 10));
  const auto got = f.next(101);
  ASSERT_EQ(code_of(got), Code::kOutOfRange);
  EXPECT_THAT(got.error().message(), HasSubstr("fewer than 101 are left; 99 is the last"));
  EXPECT_EQ(f.left(), 100);
  EXPECT_EQ(f.sequence->statistics().waste, 0);
  EXPECT_TRUE(f.next(100));
}

TEST(Striped, WhatWasTakenForABatchThatFailedGoesOutWithTheNext) {
  Fixture f(striped(0, 29, 3));
  // No stripe has 25: a list, an advance of 10, and the next one.
  f.store.fail_call(3, {{Code::kPermissionDenied, "read only"}, false});
  EXPECT_EQ(code_of(f.next(25)), Code::kPermissionDenied);
  EXPECT_EQ(f.left(), 20);
  EXPECT_EQ(f.sequence->statistics().waste, 10);
  const std::size_t before = f.store.calls();
  const Values kept = f.next(10).value();
  EXPECT_EQ(f.store.calls(), before) << "they were here already";
  EXPECT_EQ(f.sequence->statistics().waste, 0);
  Values all = f.next(20).value();
  all.insert(all.end(), kept.begin(), kept.end());
  EXPECT_EQ(sorted(all), from_to(0, 29));
}

TEST(Striped, WhatItKeptIsGivenUpWhenItIsClosed) {
  Fixture f(striped(0, 29, 3));
  f.store.fail_call(3, {{Code::kPermissionDenied, "read only"}, false});
  ASSERT_EQ(code_of(f.next(25)), Code::kPermissionDenied);
  const std::int64_t kept = f.sequence->statistics().waste;
  ASSERT_EQ(kept, 10);
  EXPECT_THAT(f.sequence->given_up(), IsEmpty());
  f.sequence->close();
  const std::vector<Range> given_up = f.sequence->given_up();
  ASSERT_EQ(given_up.size(), 1U);
  EXPECT_EQ(given_up.front().count, kept);
  EXPECT_EQ(given_up.front().first % 10, 0) << "a whole stripe";
}

TEST(Striped, ACallMayTakeNoMoreThanTheDefinitionSays) {
  SequenceDefinition definition = striped(0, 99, 10);
  definition.largest_count = 5;
  Fixture f(definition);
  EXPECT_TRUE(f.next(5));
  EXPECT_EQ(code_of(f.next(6)), Code::kInvalidArgument);
  EXPECT_EQ(f.left(), 95);
}

TEST(Striped, NoValuesAreGivenAtOnce) {
  Fixture f(striped(0, 99, 10));
  EXPECT_TRUE(f.next(0));
  EXPECT_THAT(f.store.advances(), IsEmpty());
}

// ---- callers are combined

TEST(Striped, CallersThatWaitShareARoundAndWhatAStripeLacksComesFromOthers) {
  constexpr std::size_t kCallers = 16;
  Fixture f(striped(0, 29, 3));
  f.store.shut_gate();
  std::vector<std::thread> threads;
  std::vector<Result<Values>> got(kCallers + 1);
  threads.emplace_back([&] { got[0] = f.next(1); });
  f.store.wait_for_advances(1);
  // All of them wait, or will before the round that is held ends: nothing else can be under way.
  for (std::size_t i = 1; i <= kCallers; ++i) threads.emplace_back([&, i] { got[i] = f.next(1); });
  f.store.open_gate();
  for (std::thread& thread : threads) thread.join();
  std::set<std::int64_t> values;
  for (const auto& each : got) values.insert(each.value().front());
  EXPECT_EQ(values.size(), kCallers + 1);
  EXPECT_EQ(f.store.most_in_flight(), 1U);
  EXPECT_EQ(f.left(), 30 - static_cast<std::int64_t>(kCallers) - 1);
}

// ---- faults of the store

TEST(Striped, AStripeThatIsNotThereIsLeftAloneForAWhileInFavourOfOthers) {
  Fixture f(striped(0, 299, 3));
  f.store.fail_counter("accounts/1", Error{Code::kUnavailable, "no connection"});
  f.pick(1, 3);
  f.pick(0, 3);
  EXPECT_EQ(f.next(1), Values{0}) << "the caller does not notice";
  EXPECT_THAT(f.store.asked(), ElementsAre("accounts/1", "accounts/0"));
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(f.next(1));
  EXPECT_EQ(std::ranges::count(f.store.asked(), "accounts/1"), 1) << "not asked for a while";
  f.store.fail_counter("accounts/1", std::nullopt);
  f.clock.advance(StripeRangeSource::kLeftAlone);
  f.pick(1, 3);
  EXPECT_EQ(f.next(1), Values{100}) << "it is back";
}

TEST(Striped, AClockThatGoesBackDoesNotKeepAStripeAloneForLong) {
  Fixture f(striped(0, 299, 3));
  f.store.fail_counter("accounts/1", Error{Code::kUnavailable, "no connection"});
  f.pick(1, 3);
  ASSERT_TRUE(f.next(1));
  f.store.fail_counter("accounts/1", std::nullopt);
  f.clock.set(Instant{std::chrono::seconds{5}});
  f.pick(1, 3);
  EXPECT_EQ(f.next(1), Values{100});
}

TEST(Striped, WhenAllAreAwayOneRoundTriesOnlyAFew) {
  Fixture f(striped(0, 999, 100));
  for (int k = 0; k < 100; ++k) {
    f.store.fail_counter("accounts/" + std::to_string(k), Error{Code::kUnavailable, "down"});
  }
  const auto got = f.next(1);
  ASSERT_EQ(code_of(got), Code::kUnavailable);
  EXPECT_THAT(got.error().message(), HasSubstr("down"));
  EXPECT_EQ(f.store.advances().size(), 3U);
  EXPECT_EQ(f.sequence->statistics().waste, 0);
}

TEST(Striped, WhenAllAreLeftAloneOneIsAskedAllTheSame) {
  Fixture f(striped(0, 19, 2));
  for (const char* const stripe : {"accounts/0", "accounts/1"}) {
    f.store.fail_counter(stripe, Error{Code::kUnavailable, "down"});
  }
  EXPECT_EQ(code_of(f.next(1)), Code::kUnavailable);
  EXPECT_EQ(f.store.advances().size(), 2U);
  EXPECT_EQ(code_of(f.next(1)), Code::kUnavailable);
  EXPECT_EQ(f.store.advances().size(), 3U) << "one at a time, while none is there";
  for (const char* const stripe : {"accounts/0", "accounts/1"}) {
    f.store.fail_counter(stripe, std::nullopt);
  }
  EXPECT_TRUE(f.next(1)) << "noticed at once";
}

TEST(Striped, ValuesOfAnUnknownOutcomeAreNeverHandedOut) {
  for (const Code unknown : {Code::kUnknown, Code::kDeadlineExceeded}) {
    for (const bool applied : {false, true}) {
      Fixture f(striped(0, 29, 3));
      f.pick(1, 3);
      f.store.fail_next({{unknown, "no reply"}, applied});
      // After an attempt whose time was over the round has time for another.
      const bool goes_on = unknown == Code::kDeadlineExceeded;
      const auto got = f.next(4);
      EXPECT_EQ(got.has_value(), goes_on);
      if (!goes_on) {
        EXPECT_EQ(code_of(got), unknown);
        EXPECT_EQ(f.store.advances().size(), 1U) << "asking again is for the caller to decide";
      }
      EXPECT_EQ(f.sequence->statistics().waste, 4);
      f.pick(1, 3);
      const auto other = f.next(1);
      ASSERT_TRUE(other);
      EXPECT_THAT(f.store.asked().back(), testing::Ne("accounts/1")) << "left alone for a while";
      f.clock.advance(StripeRangeSource::kLeftAlone);
      Values all = got.value_or(Values{});
      all.push_back(other->front());
      while (const auto one = f.next(1)) all.push_back(one->front());
      EXPECT_EQ(all.size(), applied ? 26U : 30U);
      for (std::int64_t lost = 10; lost <= 13; ++lost) {
        EXPECT_EQ(std::ranges::count(all, lost), applied ? 0 : 1);
      }
    }
  }
}

TEST(Striped, TheAttemptsOfARoundDivideTheTimeThatIsLeft) {
  using std::chrono::minutes;
  for (const std::int64_t stripes : {100, 2}) {
    Fixture f(striped(0, 999, stripes));
    for (int k = 0; k < stripes; ++k)
      f.store.fail_counter("accounts/" + std::to_string(k), Error{Code::kUnavailable, "down"});
    const SteadyTime before = std::chrono::steady_clock::now();
    const SteadyTime until = before + minutes{60};
    Values values(1);
    const auto sequence = Sequence::open(f.store, "accounts", {.deadline = minutes{90}}).value();
    const Result<void> got = sequence->next(values, until);
    const auto taken = std::chrono::steady_clock::now() - before;
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, Code::kUnavailable);
    const std::vector<SteadyTime> ends = f.store.deadlines();
    const std::size_t attempts = stripes == 2 ? 2 : 3;
    ASSERT_EQ(ends.size(), attempts);
    EXPECT_EQ(ends.back(), until) << "the last has all that is left";
    const auto share = minutes{60} / static_cast<int>(attempts);
    EXPECT_LE(before + share, ends[0]);
    EXPECT_LE(ends[0], before + share + taken);
    EXPECT_THAT(got.error().message(), HasSubstr(std::to_string(attempts) + " of its counters"));
  }
}

TEST(Striped, AnAttemptThatMayHaveBeenAppliedIsNeverSaidToBeNotApplied) {
  Fixture f(striped(0, 29, 3));
  f.store.fail_next({{Code::kDeadlineExceeded, "no reply"}, true});
  for (int i = 0; i < 2; ++i) f.store.fail_next({{Code::kUnavailable, "down"}, false});
  EXPECT_EQ(code_of(f.next(4)), Code::kDeadlineExceeded);
  EXPECT_EQ(f.store.advances().size(), 3U);
  EXPECT_EQ(f.sequence->statistics().waste, 4);
}

TEST(Striped, OneStripeThatWentBackIsDataLossForAllAndForEver) {
  Fixture f(striped(0, 299, 3));
  f.pick(2, 3);
  EXPECT_EQ(f.next(10), from_to(200, 209));
  f.store.set_next("accounts/2", 209);
  f.pick(2, 3);
  const auto back = f.next(1);
  ASSERT_EQ(code_of(back), Code::kDataLoss);
  EXPECT_THAT(back.error().message(), HasSubstr("accounts/2"));
  EXPECT_THAT(back.error().message(), HasSubstr("gone back"));
  f.store.set_next("accounts/2", 250);
  EXPECT_EQ(code_of(f.next(1)), Code::kDataLoss);
  EXPECT_EQ(f.store.advances().size(), 2U) << "nothing is asked any more";
}

TEST(Interleaved, ValuesOffTheLatticeOfTheStripeAreDataLoss) {
  Fixture f(interleaved(0, 299, 3));
  f.store.set_next("accounts/1", 5);
  f.pick(1, 3);
  EXPECT_EQ(code_of(f.next(1)), Code::kDataLoss) << "5 is a value of stripe 2";
}

TEST(Striped, NothingOfAStripesNeighbourIsHandedOut) {
  Fixture f(striped(0, 29, 3));
  ASSERT_TRUE(f.store.advance("accounts/0", 5, Take::kAll));  // another process
  ASSERT_TRUE(f.store.extend("accounts/0", 19));              // somebody, by hand
  f.pick(0, 3);
  Values got = f.next(6).value();
  while (const auto one = f.next(1)) got.push_back(one->front());
  EXPECT_EQ(sorted(got), from_to(10, 29)) << "what came with 10 is lost";
  EXPECT_EQ(f.sequence->statistics().waste, 6);
}

TEST(Interleaved, WhatAnExtensionAddedIsNotTakenForAProcessThatDoesNotKnowOfIt) {
  Fixture f(interleaved(0, 9, 2));
  ASSERT_TRUE(alter_sequence(f.store, "accounts", 19));
  EXPECT_EQ(sorted(f.next(10).value()), from_to(0, 9));
  const auto more = f.next(1);
  ASSERT_EQ(code_of(more), Code::kOutOfRange);
  EXPECT_THAT(more.error().message(), HasSubstr("9 is the last"));
  EXPECT_EQ(sorted(Fixture::next(*f.open(), 10).value()), from_to(10, 19));
}

TEST(Striped, AStripeThatIsGoneIsDataLoss) {
  Fixture f(striped(0, 29, 3));
  f.store.lose("accounts/1");
  f.pick(1, 3);
  const auto gone = f.next(1);
  ASSERT_EQ(code_of(gone), Code::kDataLoss);
  EXPECT_THAT(gone.error().message(), HasSubstr("accounts/1"));
  const auto opened = Sequence::open(f.store, "accounts");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kDataLoss);
  EXPECT_THAT(opened.error().message(), HasSubstr("accounts/1"));
}

TEST(Striped, AClosedStripeIsAFailedPrecondition) {
  Fixture f(striped(0, 29, 3));
  ASSERT_TRUE(f.store.close("accounts/1"));
  f.pick(1, 3);
  EXPECT_EQ(code_of(f.next(1)), Code::kFailedPrecondition);
  ASSERT_TRUE(retire_sequence(f.store, "accounts"));
  EXPECT_EQ(code_of(f.next(1)), Code::kFailedPrecondition);
}

// ---- opening, and fork

TEST(Striped, OpeningAThousandStripesIsOneListAndNotAThousandPeeks) {
  Fixture f(striped(0, 99'999, 1000));
  const std::size_t before = f.store.calls();
  ASSERT_TRUE(f.open());
  EXPECT_EQ(f.store.calls() - before, 2U) << "find, list";
}

TEST(Striped, AChildOfForkIsRefusedAndCanDestroyIt) {
  Fixture f(striped(0, 29, 3));
  ASSERT_TRUE(f.next(1));
  fakes::in_child([&] {
    EXPECT_EQ(code_of(f.next(1)), Code::kFailedPrecondition);
    f.sequence.reset();
  });
  EXPECT_TRUE(f.next(1));
}

}  // namespace
}  // namespace idmint
