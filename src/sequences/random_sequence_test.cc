// Strategy random, over a store whose faults are told and with draws that are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "idmint/sequence.h"
#include "store/unique_index.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/gated_store.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::GatedStore;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;
using Values = std::vector<std::int64_t>;

SequenceDefinition codes(std::int64_t first, std::int64_t last) {
  return {.name = "codes", .strategy = Strategy::kRandom, .first = first, .last = last};
}

std::set<std::int64_t> set_from_to(std::int64_t first, std::int64_t last) {
  std::set<std::int64_t> all;
  for (std::int64_t value = first; value <= last; ++value) all.insert(value);
  return all;
}

struct RandomFixture {
  explicit RandomFixture(SequenceDefinition its) : definition(std::move(its)) {
    EXPECT_TRUE(create_sequence(store, definition));
    sequence = open();
  }

  // One more, as another process has it.
  std::unique_ptr<Sequence> open() {
    auto opened = Sequence::open(store, "codes", {}, system_clock(), entropy);
    EXPECT_TRUE(opened) << opened.error().message();
    return *std::move(opened);
  }

  // Scripts the next draws.
  void draws(std::initializer_list<std::int64_t> values) {
    const auto share =
        ~std::uint64_t{0} / static_cast<std::uint64_t>(definition.last - definition.first + 1);
    for (const std::int64_t value : values) {
      const std::uint64_t draw =
          share * static_cast<std::uint64_t>(value - definition.first) + share / 2;
      std::array<std::uint8_t, sizeof draw> bytes{};
      std::memcpy(bytes.data(), &draw, sizeof draw);
      entropy.push(bytes);
    }
  }

  Result<Values> next(std::size_t count) { return next(*sequence, count); }
  static Result<Values> next(Sequence& from, std::size_t count) {
    Values values(count);
    if (const Result<void> filled = from.next(values); !filled) {
      return std::unexpected(filled.error());
    }
    return values;
  }

  SequenceDefinition definition;
  GatedStore store;
  fakes::ScriptedEntropy entropy;
  std::unique_ptr<Sequence> sequence;
};

// ---- drawing and claiming

TEST(Random, AValueIsDrawnAndClaimed) {
  RandomFixture f(codes(100, 999));
  f.draws({417});
  EXPECT_EQ(f.next(1), Values{417});
  EXPECT_THAT(f.store.inserts(), ElementsAre(Values{417}));
}

TEST(Random, ADrawThatCollidesIsDrawnAgain) {
  RandomFixture f(codes(0, 999));
  f.draws({5, 5, 5, 7});
  EXPECT_EQ(f.next(1), Values{5});
  EXPECT_EQ(f.next(1), Values{7});
  EXPECT_THAT(f.store.inserts(), ElementsAre(Values{5}, Values{5, 5}, Values{5, 5}, Values{5, 7}));
  EXPECT_EQ(f.sequence->statistics().waste, 0);
}

TEST(Random, WhatAnotherProcessClaimedIsDrawnAgain) {
  RandomFixture f(codes(0, 999));
  const auto other = f.open();
  f.draws({8, 8, 9});
  EXPECT_EQ(RandomFixture::next(*other, 1), Values{8});
  EXPECT_EQ(f.next(1), Values{9});
}

TEST(Random, ABatchIsOneInsertAndOnlyWhatCollidedIsDrawnAgain) {
  RandomFixture f(codes(0, 999));
  f.store.put_claims("codes", {2, 4});
  f.draws({1, 2, 3, 4, 5, 4, 6, 7});
  EXPECT_THAT(f.next(5).value(), testing::UnorderedElementsAre(1, 3, 5, 6, 7));
  EXPECT_THAT(f.store.inserts(), ElementsAre(Values{1, 2, 3, 4, 5}, Values{5, 4, 6}, Values{6, 7}));
}

TEST(Random, AValueDrawnTwiceInOneBatchIsGivenOnce) {
  RandomFixture f(codes(0, 999));
  f.draws({3, 3, 3, 4, 5});
  EXPECT_THAT(f.next(3).value(), testing::UnorderedElementsAre(3, 4, 5));
}

TEST(Random, MoreThanOneInsertCanHoldIsSplit) {
  RandomFixture f(codes(0, kLargestValue));
  const auto got = f.next(2 * UniqueIndex::kMaxKeys - 1);
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_EQ(std::set<std::int64_t>(got->begin(), got->end()).size(), got->size());
  EXPECT_THAT(f.store.inserts(), ElementsAre(SizeIs(UniqueIndex::kMaxKeys - 1),
                                             SizeIs(UniqueIndex::kMaxKeys), SizeIs(2)));
}

TEST(Random, CallersThatWaitAreServedByOneInsert) {
  constexpr std::size_t kCallers = 12;
  RandomFixture f(codes(0, 999'999));
  f.store.shut_gate();
  std::vector<std::thread> threads;
  std::vector<Result<Values>> got(kCallers + 1);
  threads.emplace_back([&] { got[0] = f.next(1); });
  f.store.wait_for_inserts(1);
  std::atomic<std::size_t> begun{0};
  for (std::size_t i = 1; i <= kCallers; ++i) {
    threads.emplace_back([&, i] {
      begun.fetch_add(1);
      got[i] = f.next(i % 3 + 1);
    });
  }
  while (begun.load() < kCallers) std::this_thread::yield();
  f.store.open_gate();
  for (std::thread& thread : threads) thread.join();
  std::set<std::int64_t> values;
  std::size_t count = 0;
  for (const auto& each : got) {
    values.insert(each.value().begin(), each.value().end());
    count += each->size();
  }
  EXPECT_EQ(values.size(), count);
  EXPECT_EQ(f.store.most_in_flight(), 1U) << "rounds, as of a counter";
}

// ---- all values, and how full the space is

RC_GTEST_PROP(Random, NothingIsRepeatedWhateverIsAskedFor, ()) {
  const auto first = *rc::gen::inRange<std::int64_t>(0, 50);
  const auto size = *rc::gen::inRange<std::int64_t>(1, 120);
  const auto processes = *rc::gen::inRange<std::size_t>(1, 4);
  const auto counts =
      *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(1, 20));
  RandomFixture f(codes(first, first + size - 1));
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (std::size_t i = 0; i < processes; ++i) sequences.push_back(f.open());
  std::set<std::int64_t> got;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto some = RandomFixture::next(*sequences[i % processes], counts[i]);
    RC_ASSERT(some || some.error().code == Code::kOutOfRange);
    if (!some) continue;
    for (const std::int64_t value : *some) {
      RC_ASSERT(value >= first && value < first + size);
      RC_ASSERT(got.insert(value).second);
    }
  }
}

TEST(Random, GivesAsManyAsItSaysAndThenSaysHowFullTheSpaceIs) {
  for (const std::int64_t size : {1, 2, 10, 11, 100, 1000}) {
    RandomFixture f(codes(7, 7 + size - 1));
    std::set<std::int64_t> got;
    for (std::int64_t i = 0; i < most_claims(size); ++i) {
      const auto one = f.next(1);
      ASSERT_TRUE(one) << one.error().message();
      EXPECT_TRUE(got.insert(one->front()).second);
    }
    EXPECT_THAT(got, Each(AllOf(Ge(7), Le(7 + size - 1))));
    const auto inserts = f.store.inserts().size();
    const auto refused = f.next(1);
    ASSERT_EQ(code_of(refused), Code::kOutOfRange);
    EXPECT_EQ(f.store.inserts().size(), inserts) << "nothing more is claimed";
    if (size == 1000) {
      EXPECT_THAT(refused.error().message(),
                  HasSubstr("sequence codes: used up; 910 of 1000 values are claimed (91.0 % full, "
                            "10.1 redraws"));
      EXPECT_EQ(refused.error().advice, (Advice{Remedy::kAlterSequence, "codes"}));
    }
    if (size == 1) {
      EXPECT_THAT(refused.error().message(),
                  HasSubstr("used up; 1 of 1 values are claimed; go on"));
    }
  }
}

TEST(Random, EveryValueOfASmallSpaceIsReached) {
  std::set<std::int64_t> seen;
  for (int round = 0; round < 50; ++round) {
    RandomFixture f(codes(20, 29));
    for (int skip = 0; skip < round; ++skip) static_cast<void>(f.entropy.draw());
    const Values some = f.next(5).value();
    seen.insert(some.begin(), some.end());
  }
  EXPECT_EQ(seen, set_from_to(20, 29));
}

TEST(Random, ASpaceThatIsFullAtTheOpeningIsNotDrawnFrom) {
  RandomFixture f(codes(0, 99));
  f.store.put_claims("codes", set_from_to(0, 90));
  const auto later = f.open();
  const auto refused = RandomFixture::next(*later, 1);
  ASSERT_EQ(code_of(refused), Code::kOutOfRange);
  EXPECT_THAT(refused.error().message(), HasSubstr("91 of 100"));
  EXPECT_THAT(f.store.inserts(), IsEmpty());
}

TEST(Random, ARequestThatWouldGoBeyondIsRefusedBeforeItClaimsAnything) {
  RandomFixture f(codes(0, 99));
  EXPECT_EQ(code_of(f.next(92)), Code::kOutOfRange);
  EXPECT_THAT(f.store.inserts(), IsEmpty());
  EXPECT_TRUE(f.next(91));
}

TEST(Random, ThatOthersFilledTheSpaceIsNoticedByTheCollisions) {
  RandomFixture f(codes(0, 9'999));
  f.store.put_claims("codes", set_from_to(0, 9'599));
  const auto refused = f.next(100);
  ASSERT_EQ(code_of(refused), Code::kOutOfRange) << "24 redraws each";
  EXPECT_THAT(refused.error().message(), HasSubstr("of 10000 values are claimed (96."));
  const auto inserts = f.store.inserts().size();
  EXPECT_LE(inserts, 20U) << "a thousand draws, and what is missing gets less";
  for (std::int64_t kept = f.sequence->statistics().waste; kept > 0; --kept) {
    EXPECT_TRUE(f.next(1)) << "claimed before that";
  }
  EXPECT_EQ(code_of(f.next(1)), Code::kOutOfRange);
  EXPECT_EQ(f.store.inserts().size(), inserts);
}

TEST(Random, ARoundThatDrawsInVainGivesUp) {
  RandomFixture f(codes(0, 999'999'999));
  f.store.put_claims("codes", {5});
  for (int i = 0; i < 400; ++i) f.draws({5});
  EXPECT_EQ(code_of(f.next(1)), Code::kResourceExhausted) << "bad luck: the next may come";
  EXPECT_THAT(f.store.inserts(), SizeIs(400));
}

TEST(Random, TheNextIdHasOneClaimMoreBeforeIt) {
  EXPECT_EQ(most_claims(1), 1);
  EXPECT_EQ(most_claims(kLargestValue), kLargestValue - (kLargestValue - 1) / 11);
  for (std::int64_t size = 1; size < 500; ++size) {
    const std::int64_t most = most_claims(size);
    EXPECT_LE(occupancy(most - 1, size).expected_redraws, Occupancy::kMostRedraws);
    if (most < size) {
      EXPECT_GT(occupancy(most, size).expected_redraws, Occupancy::kMostRedraws);
    }
  }
}

// ---- faults of the store

TEST(Random, AfterAnUnknownOutcomeOthersAreDrawn) {
  for (const bool applied : {false, true}) {
    RandomFixture f(codes(0, 999));
    f.draws({5, 6});
    f.store.fail_next({{Code::kUnknown, "no reply"}, applied});
    EXPECT_EQ(f.next(1), Values{6});
    EXPECT_EQ(f.sequence->statistics().waste, 1);
    f.draws({5, 7});
    EXPECT_EQ(f.next(1), applied ? Values{7} : Values{5});
  }
}

TEST(Random, NotForEverAndNotPastADeadline) {
  RandomFixture f(codes(0, 999));
  for (int i = 0; i < 3; ++i) f.store.fail_next({{Code::kUnknown, "no reply"}, true});
  EXPECT_EQ(code_of(f.next(1)), Code::kUnknown);
  EXPECT_THAT(f.store.inserts(), SizeIs(3));
  f.store.fail_next({{Code::kDeadlineExceeded, "too slow"}, true});
  EXPECT_EQ(code_of(f.next(1)), Code::kDeadlineExceeded);
  EXPECT_THAT(f.store.inserts(), SizeIs(4));
  EXPECT_EQ(f.sequence->statistics().waste, 4);
}

TEST(Random, EveryAttemptEndsByTheDeadlineOfTheCall) {
  RandomFixture f(codes(0, 999));
  for (int i = 0; i < 2; ++i) f.store.fail_next({{Code::kUnknown, "no reply"}, false});
  const SteadyTime until = std::chrono::steady_clock::now() + std::chrono::seconds{3};
  std::vector<std::int64_t> values(1);
  ASSERT_TRUE(f.sequence->next(values, until));
  EXPECT_THAT(f.store.deadlines(), testing::ElementsAre(until, until, until));
}

TEST(Random, WhatWasClaimedForABatchThatFailedGoesOutWithTheNext) {
  RandomFixture f(codes(0, 999));
  f.store.put_claims("codes", {2});
  f.draws({1, 2, 3, 4});
  f.store.fail_call(2, {{Code::kUnavailable, "down"}, false});
  EXPECT_EQ(code_of(f.next(3)), Code::kUnavailable);
  EXPECT_EQ(f.sequence->statistics().waste, 2);
  EXPECT_THAT(f.next(2).value(), testing::UnorderedElementsAre(1, 3));
  EXPECT_EQ(f.sequence->statistics().waste, 0);
  EXPECT_THAT(f.store.inserts(), SizeIs(2));
}

TEST(Random, ClaimsThatAreGoneAreDataLossForEver) {
  RandomFixture f(codes(0, 999));
  f.store.lose_claims("codes");
  EXPECT_EQ(code_of(f.next(1)), Code::kDataLoss);
  ASSERT_TRUE(f.store.create_space("codes"));
  EXPECT_EQ(code_of(f.next(1)), Code::kDataLoss) << "made anew: it would repeat";
  f.store.lose_claims("codes");
  const auto opened = Sequence::open(f.store, "codes");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kDataLoss);
}

// As restoring an old backup does.
TEST(Random, AStoreThatLostTheLastClaimHasGoneBackForEver) {
  RandomFixture f(codes(0, 999));
  f.draws({1, 2, 3, 4, 2});
  ASSERT_TRUE(f.next(1));
  ASSERT_TRUE(f.next(2));
  f.store.put_claims("codes", {1, 2});
  const auto got = f.next(1);
  ASSERT_EQ(code_of(got), Code::kDataLoss);
  EXPECT_THAT(got.error().message(), AllOf(HasSubstr("the value 3"), HasSubstr("gone back")));
  EXPECT_EQ(code_of(f.next(1)), Code::kDataLoss);
  EXPECT_EQ(f.sequence->statistics().waste, 1);
  EXPECT_THAT(f.store.inserts(), SizeIs(3));
}

// An insert of unknown outcome may have made the witness a claim again.
TEST(Random, AStoreThatWentBackIsNoticedAfterAnUnknownOutcomeToo) {
  RandomFixture f(codes(0, 999));
  f.draws({1, 2, 3, 4, 5});
  ASSERT_TRUE(f.next(1));
  ASSERT_TRUE(f.next(1));
  f.store.put_claims("codes", {});
  f.store.fail_next({{Code::kDeadlineExceeded, "too slow"}, true});
  EXPECT_EQ(code_of(f.next(1)), Code::kDeadlineExceeded);
  EXPECT_EQ(code_of(f.next(1)), Code::kDataLoss);
  EXPECT_THAT(f.store.inserts(), ElementsAre(Values{1}, Values{1, 2}, Values{2, 3}, Values{1, 4}));
}

TEST(Random, FewerClaimsThanThereWereAreDataLossForEver) {
  RandomFixture f(codes(0, 999'999'999));
  const auto claimed = f.next(10);
  ASSERT_TRUE(claimed);
  f.store.put_claims("codes", {claimed->back(), 5});
  for (int i = 0; i < 400; ++i) f.draws({5});  // so that it looks how many there are
  const auto got = f.next(1);
  ASSERT_EQ(code_of(got), Code::kDataLoss);
  EXPECT_THAT(got.error().message(), HasSubstr("gone back"));
  EXPECT_EQ(code_of(f.next(1)), Code::kDataLoss);
}

TEST(Random, ARetiredSequenceIsAFailedPrecondition) {
  RandomFixture f(codes(0, 999));
  ASSERT_TRUE(retire_sequence(f.store, "codes"));
  EXPECT_EQ(code_of(f.next(1)), Code::kFailedPrecondition);
}

// ---- threads, and fork

TEST(Random, ManyThreadsOfSeveralProcessesGetEachValueOnce) {
  RandomFixture f(codes(0, 9'999));
  const auto other = f.open();
  std::vector<Values> got(8);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < got.size(); ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 200; ++i) {
        const auto some = RandomFixture::next(t % 2 == 0 ? *f.sequence : *other, 1 + (i + t) % 5);
        ASSERT_TRUE(some) << some.error().message();
        got[t].insert(got[t].end(), some->begin(), some->end());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::int64_t> all;
  std::size_t count = 0;
  for (const Values& some : got) {
    all.insert(some.begin(), some.end());
    count += some.size();
  }
  EXPECT_EQ(all.size(), count);
  EXPECT_EQ(f.store.claimed("codes"), static_cast<std::int64_t>(count));
}

TEST(Random, AChildOfForkIsRefusedAndCanDestroyIt) {
  RandomFixture f(codes(0, 999));
  ASSERT_TRUE(f.next(1));
  fakes::in_child([&] {
    EXPECT_EQ(code_of(f.next(1)), Code::kFailedPrecondition);
    f.sequence.reset();
  });
  EXPECT_TRUE(f.next(1));
}

// ---- the facts

TEST(OccupancyFacts, AreThoseOfTheStore) {
  RandomFixture f(codes(0, 999));
  ASSERT_TRUE(f.next(250));
  const Result<Occupancy> is = occupancy(f.store, "codes");
  ASSERT_TRUE(is) << is.error().message();
  EXPECT_EQ(is->claimed, 250);
  EXPECT_EQ(is->size, 1000);
  EXPECT_DOUBLE_EQ(is->expected_redraws, 250.0 / 750.0);
}

TEST(OccupancyFacts, AreOfRandomSequencesThatAreThere) {
  GatedStore store;
  EXPECT_EQ(occupancy(store, "codes").error().code, Code::kNotFound);
  ASSERT_TRUE(create_sequence(store, {.name = "orders"}));
  EXPECT_EQ(occupancy(store, "orders").error().code, Code::kFailedPrecondition);
  ASSERT_TRUE(create_sequence(store, codes(0, 9)));
  store.lose_claims("codes");
  EXPECT_EQ(occupancy(store, "codes").error().code, Code::kDataLoss);
}

// 10^9 ids in 12 digits: the last one collides with 0.1 %, and 5 x 10^5 redraws in all.
TEST(OccupancyFacts, OfABillionIdsInTwelveDigits) {
  constexpr std::int64_t kSize = 1'000'000'000'000;
  EXPECT_NEAR(occupancy(1'000'000'000, kSize).expected_redraws, 0.001, 0.000'002);
  EXPECT_NEAR(expected_redraws(occupancy(0, kSize), 1'000'000'000), 500'000, 500);
}

TEST(OccupancyFacts, ExpectedRedrawsAreTheSumOverTheIds) {
  for (const std::int64_t size : {1, 7, 1000, 1001, 30'000}) {
    for (const std::int64_t claimed : {std::int64_t{0}, size / 3, size - 1}) {
      for (const std::int64_t count : {std::int64_t{0}, (size - claimed) / 2, size - claimed}) {
        double sum = 0;
        for (std::int64_t i = 0; i < count; ++i) {
          sum += occupancy(claimed + i, size).expected_redraws;
        }
        EXPECT_NEAR(expected_redraws(occupancy(claimed, size), count), sum, 1e-6 * (1 + sum))
            << size << ' ' << claimed << ' ' << count;
      }
    }
  }
  EXPECT_EQ(expected_redraws(occupancy(5, 10), 6), std::numeric_limits<double>::infinity());
  EXPECT_NEAR(expected_redraws(occupancy(0, kLargestValue), 1000), 0, 1e-6);
}

}  // namespace
}  // namespace idmint
