// Sequences over several stores: rounds, faults, and the acts on all stores.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "idmint/sequence.h"
#include "sequences/multi_store_range_source.h"
#include "sequences/strategies.h"
#include "store/counter_store.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/definitions.h"
#include "tests/fakes/gated_store.h"
#include "tests/fakes/manual_executor.h"
#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::GatedStore;
using fakes::ManualExecutor;
using fakes::why;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Values = std::vector<std::int64_t>;

const Error kNoAnswer{Code::kUnavailable, "no answer"};

// Each fixture has stores of its own, as the process remembers what it was given.
std::uint8_t fixtures_made = 0;

Uuid id_of(std::size_t k) {
  Uuid::Bytes bytes{};
  bytes[0] = static_cast<std::uint8_t>(k + 1);
  bytes[1] = fixtures_made;
  return Uuid(bytes);
}

std::string url_of(std::size_t k) { return "redis://gated-" + std::to_string(k); }

SequenceDefinition spread_tickets(std::int64_t last = 1'000'000) {
  return {.name = "tickets", .strategy = Strategy::kInterleaved, .last = last};
}

// Several stores, of which some do not open.
class SeveralStores {
 public:
  explicit SeveralStores(std::size_t count) {
    ++fixtures_made;
    for (std::size_t k = 0; k < count; ++k)
      all_.push_back(std::make_shared<GatedStore>(id_of(k), url_of(k)));
  }

  GatedStore& operator[](std::size_t k) { return *all_[k]; }
  [[nodiscard]] std::size_t size() const { return all_.size(); }

  Result<Changed> create(const SequenceDefinition& definition = spread_tickets()) {
    std::vector<Store*> stores;
    for (const auto& store : all_) stores.push_back(store.get());
    return create_sequence(stores, definition);
  }

  // Its calls fail, too, and its clock.
  void shut(std::size_t k, const Error& error = kNoAnswer) {
    closed_.insert_or_assign(url_of(k), error);
    all_[k]->fail_counter("tickets", error);
  }
  void mend(std::size_t k) {
    closed_.erase(url_of(k));
    all_[k]->fail_counter("tickets", std::nullopt);
  }
  // Puts a store at URL k.
  void put_at(std::size_t k, std::shared_ptr<GatedStore> store) { all_[k] = std::move(store); }

  MultiStoreOptions multi_store() {
    return {.open = [this](const std::string& url, SteadyTime) -> Result<std::shared_ptr<Store>> {
      if (const auto closed = closed_.find(url); closed != closed_.end())
        return std::unexpected(closed->second);
      for (std::size_t k = 0; k < all_.size(); ++k)
        if (url == url_of(k)) return all_[k];
      return std::unexpected(Error{Code::kNotFound, "nothing at " + url});
    }};
  }

  std::int64_t next_of(std::size_t k) { return all_[k]->do_peek("tickets", {})->next; }

 private:
  std::vector<std::shared_ptr<GatedStore>> all_;
  std::map<std::string, Error> closed_;
};

struct MultiStoreFixture {
  explicit MultiStoreFixture(std::size_t count,
                             const SequenceDefinition& definition = spread_tickets())
      : stores(count) {
    const auto made = stores.create(definition);
    EXPECT_TRUE(made) << why(made);
  }

  struct Uncreated {
    std::size_t count;
  };
  explicit MultiStoreFixture(Uncreated uncreated) : stores(uncreated.count) {}

  Result<std::unique_ptr<Sequence>> open(std::size_t own = 0) {
    return Sequence::open(stores[own], "tickets",
                          {.executor = &executor, .multi_store = stores.multi_store()}, clock,
                          entropy);
  }

  Values take(Sequence& sequence, std::size_t calls) {
    Values values;
    for (std::size_t i = 0; i < calls; ++i) {
      const Result<std::int64_t> value = sequence.next();
      EXPECT_TRUE(value) << why(value);
      values.push_back(value.value_or(-1));
    }
    return values;
  }

  SeveralStores stores;
  ManualExecutor executor;
  fakes::ManualClock clock{Instant{seconds{1'000'000}}};
  fakes::ScriptedEntropy entropy;
};

// ---- what is created

TEST(Spread, EachStoreHasItsStripeAndNamesAll) {
  MultiStoreFixture fixture(3);
  for (std::size_t k = 0; k < 3; ++k) {
    const SequenceDefinition its =
        as_sequence(fixture.stores[k].catalog()->find("tickets").value());
    EXPECT_EQ(its.stripe, static_cast<std::int64_t>(k));
    EXPECT_EQ(its.stripes, 3);
    ASSERT_EQ(its.over.size(), 3U);
    EXPECT_EQ(its.over[2], (StoreOfStripe{id_of(2), "redis://gated-2"}));
    EXPECT_EQ(fixture.stores[k].do_peek("tickets", {})->bounds,
              (CounterBounds{static_cast<std::int64_t>(k) + 1, 1'000'000, 3}));
    EXPECT_EQ(definition_from_json(to_json(Definition(its))), Definition(its));
  }
}

TEST(Spread, CreateRefusesWhatMakesNoSense) {
  SeveralStores stores(2);
  SequenceDefinition counter = spread_tickets();
  counter.strategy = Strategy::kCounter;
  EXPECT_THAT(why(stores.create(counter)), HasSubstr("only an interleaved sequence"));
  const std::vector<Store*> twice{&stores[0], &stores[0]};
  EXPECT_THAT(why(create_sequence(twice, spread_tickets())), HasSubstr("names one store twice"));
  const std::vector<Store*> one{&stores[0]};
  EXPECT_EQ(code_of(create_sequence(one, spread_tickets())), Code::kInvalidArgument);
  SeveralStores many(17);
  EXPECT_THAT(why(many.create()), HasSubstr("2 to 16"));
}

TEST(Spread, AnotherOrderOrNumberOfStoresIsAnotherDefinition) {
  MultiStoreFixture fixture(3);
  EXPECT_TRUE(fixture.stores.create());
  SeveralStores& stores = fixture.stores;
  const std::vector<Store*> swapped{&stores[1], &stores[0], &stores[2]};
  EXPECT_THAT(why(create_sequence(swapped, spread_tickets())),
              AllOf(HasSubstr("defined otherwise already"), HasSubstr("own stripe: 1 there")));
  const std::vector<Store*> fewer{&stores[0], &stores[1]};
  EXPECT_THAT(why(create_sequence(fewer, spread_tickets())), HasSubstr("stripes: 3 there, 2 here"));
}

// Wherever a create is cut off, the same again finishes it, and no value comes twice.
TEST(Spread, ACreateThatIsCutOffIsFinishedByTheNext) {
  for (std::size_t k = 0; k < 3; ++k) {
    for (const bool applied : {false, true}) {
      for (std::size_t call = 1;; ++call) {
        MultiStoreFixture fixture(MultiStoreFixture::Uncreated{3});
        fixture.stores[k].fail_call(call, {{Code::kUnknown, "cut off"}, applied});
        const auto first = fixture.stores.create();
        if (first) {
          EXPECT_EQ(call, 4U) << "find, create and define in each store";
          break;
        }
        const auto again = fixture.stores.create();
        ASSERT_TRUE(again) << why(again);
        const auto sequence = fixture.open(k).value();
        EXPECT_THAT(fixture.take(*sequence, 4), ElementsAre(1, 2, 3, 4));
      }
    }
  }
}

TEST(Spread, ALostCounterIsNeverMadeAnew) {
  MultiStoreFixture fixture(2);
  // The state of its second store before it was created there, with the counter of nobody.
  fixture.stores.put_at(1, std::make_shared<GatedStore>(id_of(1), url_of(1)));
  EXPECT_EQ(code_of(fixture.stores.create()), Code::kDataLoss);
}

// ---- values

TEST(Spread, TheStoresTakeTurns) {
  MultiStoreFixture fixture(3);
  const auto sequence = fixture.open(1).value();
  EXPECT_THAT(fixture.take(*sequence, 7), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(sequence->definition().strategy, Strategy::kInterleaved);
  Values several(4);
  ASSERT_TRUE(sequence->next(several));
  EXPECT_THAT(several, ElementsAre(8, 11, 14, 17)) << "of the store whose next value is smallest";
}

TEST(Spread, AllValuesComeOnceAndThenItIsUsedUp) {
  MultiStoreFixture fixture(3, spread_tickets(20));
  const auto sequence = fixture.open().value();
  Values all(11);
  ASSERT_TRUE(sequence->next(all)) << "more than any one store has";
  EXPECT_EQ(code_of([&] {
              Values too_many(10);
              return sequence->next(too_many);
            }()),
            Code::kOutOfRange);
  for (int i = 0; i < 9; ++i) all.push_back(sequence->next().value());
  EXPECT_EQ(code_of(sequence->next()), Code::kOutOfRange);
  std::ranges::sort(all);
  Values expected(20);
  for (std::size_t i = 0; i < 20; ++i) expected[i] = static_cast<std::int64_t>(i) + 1;
  EXPECT_EQ(all, expected);
}

// ---- faults

TEST(Spread, IdsGoOnWhenAStoreFails) {
  for (const Code code : {Code::kUnavailable, Code::kDeadlineExceeded, Code::kUnknown,
                          Code::kResourceExhausted, Code::kPermissionDenied}) {
    MultiStoreFixture fixture(2);
    const auto sequence = fixture.open().value();
    EXPECT_THAT(fixture.take(*sequence, 2), ElementsAre(1, 2));
    fixture.stores[0].fail_counter("tickets", Error{code, "broken"});
    EXPECT_THAT(fixture.take(*sequence, 5), ElementsAre(4, 6, 8, 10, 12));
    EXPECT_EQ(fixture.stores[0].asked().size(), 2U) << "it is left out after one attempt";
  }
}

// The first attempt leaves time for the others.
TEST(Spread, AStoreThatHangsTakesAShareOfTheDeadline) {
  MultiStoreFixture fixture(2);
  const auto sequence = fixture.open().value();
  fixture.stores[0].fail_counter("tickets", Error{Code::kDeadlineExceeded, "hangs"});
  const SteadyTime begun = std::chrono::steady_clock::now();
  EXPECT_TRUE(sequence->next({}, begun));
  std::int64_t value = 0;
  ASSERT_TRUE(sequence->next({&value, 1}, begun + seconds{100}));
  EXPECT_EQ(value, 2);
  ASSERT_EQ(fixture.stores[0].deadlines().size(), 1U);
  // The deadline of the sequence is 5 s, from the beginning of the call on.
  EXPECT_LE(fixture.stores[0].deadlines().front(),
            std::chrono::steady_clock::now() + std::chrono::milliseconds{2500});
}

TEST(Spread, ValuesOfAnUnknownOutcomeAreLost) {
  MultiStoreFixture fixture(2);
  const auto sequence = fixture.open().value();
  fixture.stores[0].fail_next({{Code::kUnknown, "cut off"}, true});  // 1 was taken
  EXPECT_THAT(fixture.take(*sequence, 1), ElementsAre(2));
  EXPECT_EQ(sequence->statistics().waste, 1);
  fixture.clock.advance(seconds{1});
  EXPECT_THAT(fixture.take(*sequence, 1), ElementsAre(4));
  fixture.executor.run_all();
  EXPECT_THAT(fixture.take(*sequence, 3), ElementsAre(3, 5, 6));
}

TEST(Spread, AnUnknownOutcomeIsToldWhereTheOthersHaveTooFew) {
  MultiStoreFixture fixture(2, spread_tickets(10));
  fixture.stores[1].set_next("tickets", 10);  // others were quicker
  const auto sequence = fixture.open().value();
  fixture.stores[0].fail_next({{Code::kUnknown, "cut off"}, true});  // 1 and 3 were taken
  Values two(2);
  EXPECT_EQ(code_of(sequence->next(two)), Code::kUnknown);
  fixture.clock.advance(seconds{1});
  EXPECT_THAT(fixture.take(*sequence, 1), ElementsAre(10));
  fixture.executor.run_all();
  EXPECT_THAT(fixture.take(*sequence, 3), ElementsAre(5, 7, 9));
}

TEST(Spread, AStoreThatComesBackCatchesUp) {
  MultiStoreFixture fixture(3);
  const auto sequence = fixture.open().value();
  fixture.stores[1].fail_counter("tickets", kNoAnswer);
  EXPECT_THAT(fixture.take(*sequence, 7), ElementsAre(1, 3, 4, 6, 7, 9, 10));
  fixture.stores[1].fail_counter("tickets", std::nullopt);
  EXPECT_THAT(fixture.take(*sequence, 1), ElementsAre(12)) << "the pause is not over";
  EXPECT_EQ(fixture.executor.size(), 0U);
  fixture.clock.advance(seconds{1});
  EXPECT_THAT(fixture.take(*sequence, 2), ElementsAre(13, 15));
  EXPECT_EQ(fixture.executor.size(), 1U) << "one probe, beside calls that others serve";
  fixture.executor.run_all();
  EXPECT_THAT(fixture.take(*sequence, 8), ElementsAre(2, 5, 8, 11, 14, 16, 17, 18));
}

TEST(Spread, ThePauseGrowsWhileAStoreStaysAway) {
  MultiStoreFixture fixture(2);
  fixture.stores.shut(1);
  const auto sequence = fixture.open().value();
  std::vector<std::int64_t> probes;  // when, in seconds
  for (std::int64_t second = 0; second < 200; ++second) {
    fixture.clock.advance(seconds{1});
    EXPECT_TRUE(sequence->next());
    if (fixture.executor.size() == 0) continue;
    probes.push_back(second);
    fixture.executor.run_all();
  }
  EXPECT_LE(probes.size(), 18U);
  EXPECT_GE(probes.size(), 8U) << "30 s at most";
  EXPECT_LE(probes.front(), 1);
  fixture.clock.advance(-std::chrono::hours{1});
  EXPECT_TRUE(sequence->next());
  EXPECT_EQ(fixture.executor.size(), 1U) << "a clock that is set back prolongs no pause";
}

TEST(Spread, WhenAllAreDownEachIsNamed) {
  MultiStoreFixture fixture(2);
  const auto sequence = fixture.open().value();
  fixture.stores[0].fail_counter("tickets", kNoAnswer);
  fixture.stores[1].fail_counter("tickets", Error{Code::kUnavailable, "cable cut"});
  for (int i = 0; i < 2; ++i) {
    const Result<std::int64_t> none = sequence->next();
    EXPECT_EQ(code_of(none), Code::kUnavailable);
    EXPECT_THAT(why(none),
                AllOf(HasSubstr("none of its 2 stores"), HasSubstr("redis://gated-0 (no answer"),
                      HasSubstr("redis://gated-1 (cable cut")));
  }
  fixture.stores[1].fail_counter("tickets", Error{Code::kUnknown, "perhaps"});
  EXPECT_EQ(code_of(sequence->next()), Code::kUnknown);
  fixture.stores[1].fail_counter("tickets", std::nullopt);
  EXPECT_THAT(fixture.take(*sequence, 2), ElementsAre(2, 4)) << "without a probe";
}

TEST(Spread, NobodyIsToldThatItIsUsedUpWhileAStoreIsLeftOut) {
  MultiStoreFixture fixture(2, spread_tickets(6));
  const auto sequence = fixture.open().value();
  fixture.stores[1].fail_counter("tickets", kNoAnswer);
  EXPECT_THAT(fixture.take(*sequence, 3), ElementsAre(1, 3, 5));
  EXPECT_EQ(code_of(sequence->next()), Code::kUnavailable);
  Values both(2);
  EXPECT_EQ(code_of(sequence->next(both)), Code::kUnavailable);
  fixture.stores[1].fail_counter("tickets", std::nullopt);
  EXPECT_THAT(fixture.take(*sequence, 3), ElementsAre(2, 4, 6));
  EXPECT_EQ(code_of(sequence->next()), Code::kOutOfRange);
}

TEST(Spread, AStoreThatWentBackStopsTheSequence) {
  MultiStoreFixture fixture(2);
  const auto sequence = fixture.open().value();
  fixture.take(*sequence, 6);
  fixture.stores[1].set_next("tickets", 2);
  EXPECT_THAT(fixture.take(*sequence, 1), ElementsAre(7));
  const Result<std::int64_t> lost = sequence->next();
  EXPECT_EQ(code_of(lost), Code::kDataLoss);
  EXPECT_THAT(why(lost), HasSubstr("redis://gated-1"));
  EXPECT_EQ(code_of(sequence->next()), Code::kDataLoss);
}

TEST(Spread, AProbeThatBeginsAfterItsSequenceIsGoneDoesNothing) {
  MultiStoreFixture fixture(2);
  fixture.stores.shut(1);
  auto sequence = fixture.open().value();
  fixture.clock.advance(seconds{1});
  fixture.take(*sequence, 1);
  EXPECT_EQ(fixture.executor.size(), 1U);
  sequence.reset();
  const std::size_t calls = fixture.stores[1].calls();
  fixture.stores.mend(1);
  fixture.executor.run_all();
  EXPECT_EQ(fixture.stores[1].calls(), calls);
}

// An executor may be busy for long, or with the very round that waits.
TEST(Spread, AProbeThatHasNotBegunHoldsNobodyUp) {
  MultiStoreFixture fixture(2);
  const auto sequence = fixture.open().value();
  fixture.stores[0].fail_counter("tickets", kNoAnswer);
  EXPECT_THAT(fixture.take(*sequence, 1), ElementsAre(2));
  fixture.clock.advance(seconds{1});
  EXPECT_THAT(fixture.take(*sequence, 1), ElementsAre(4));
  EXPECT_EQ(fixture.executor.size(), 1U);
  fixture.stores[0].fail_counter("tickets", std::nullopt);
  fixture.stores[1].fail_counter("tickets", kNoAnswer);
  EXPECT_THAT(fixture.take(*sequence, 1), ElementsAre(1)) << "the caller asks instead";
  const std::size_t calls = fixture.stores[0].calls();
  fixture.executor.run_all();
  EXPECT_EQ(fixture.stores[0].calls(), calls);
}

// ---- opening

TEST(Spread, OpensWhileAStoreIsDownAndTakesItInLater) {
  MultiStoreFixture fixture(3);
  fixture.stores.shut(2);
  const auto sequence = fixture.open().value();
  EXPECT_THAT(fixture.take(*sequence, 4), ElementsAre(1, 2, 4, 5));
  fixture.stores.mend(2);
  fixture.clock.advance(seconds{1});
  fixture.take(*sequence, 1);
  fixture.executor.run_all();
  EXPECT_THAT(fixture.take(*sequence, 3), ElementsAre(3, 6, 8));
}

TEST(Spread, AStoreThatAPersonMustMendIsReportedWhenItIsLeftOut) {
  for (const Code code : {Code::kUnauthenticated, Code::kFailedPrecondition}) {
    MultiStoreFixture fixture(3);
    fixture.stores.shut(1, {code, "no password, or a setting"});
    fixture.stores.shut(2);
    MultiStoreOptions multi_store = fixture.stores.multi_store();
    std::vector<std::string> reports;
    multi_store.left_out = [&](std::string_view url, const Error& error) {
      reports.push_back(std::string(url) + ": " + error.message());
    };
    const auto sequence = Sequence::open(
        fixture.stores[0], "tickets", {.executor = &fixture.executor, .multi_store = multi_store},
        fixture.clock, fixture.entropy);
    ASSERT_TRUE(sequence) << why(sequence);
    EXPECT_THAT(reports, ElementsAre("redis://gated-1: no password, or a setting"))
        << "the other one may come back";
    EXPECT_EQ((*sequence)->next(), 1);
  }
}

// By the round that fails, and by whatever finds that the store is back: a probe, or a round.
TEST(Spread, AChangeOfAStoreIsReportedOnce) {
  MultiStoreFixture fixture(2, spread_tickets(40));
  fixture.stores.shut(1);
  MultiStoreOptions multi_store = fixture.stores.multi_store();
  std::vector<std::string> reports;
  multi_store.store_changed = [&](std::string_view url, const Error* its_why) {
    reports.push_back(std::string(url) + (its_why != nullptr ? ": " + its_why->message() : ""));
  };
  const auto reported = [&] { return std::exchange(reports, {}); };
  const auto sequence = Sequence::open(fixture.stores[0], "tickets",
                                       {.executor = &fixture.executor, .multi_store = multi_store},
                                       fixture.clock, fixture.entropy)
                            .value();
  EXPECT_THAT(reported(), ElementsAre("redis://gated-0", "redis://gated-1: no answer"));
  fixture.clock.advance(seconds{1});
  fixture.take(*sequence, 1);
  fixture.executor.run_all();
  fixture.take(*sequence, 2);
  EXPECT_THAT(reported(), testing::IsEmpty()) << "it was left out before";
  fixture.stores.mend(1);
  fixture.clock.advance(seconds{10});
  fixture.take(*sequence, 1);
  fixture.executor.run_all();
  EXPECT_THAT(reported(), ElementsAre("redis://gated-1"));
  fixture.take(*sequence, 4);
  fixture.stores.shut(0);
  fixture.stores.shut(1);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(sequence->next());
  EXPECT_THAT(reported(), testing::UnorderedElementsAre("redis://gated-0: no answer",
                                                        "redis://gated-1: no answer"));
  fixture.stores.mend(0);
  fixture.take(*sequence, 3);
  EXPECT_THAT(reported(), ElementsAre("redis://gated-0"));
}

TEST(Spread, AWrongStoreIsRefusedAndTheDifferenceNamed) {
  {
    MultiStoreFixture fixture(2);
    fixture.stores.put_at(1, std::make_shared<GatedStore>(id_of(7), "redis://gated-1"));
    const auto other = fixture.open();
    EXPECT_EQ(code_of(other), Code::kFailedPrecondition);
    EXPECT_THAT(why(other), AllOf(HasSubstr("another store"), HasSubstr(id_of(7).to_string()),
                                  HasSubstr(id_of(1).to_string())));
  }
  {
    MultiStoreFixture fixture(2);
    fixture.stores.shut(1, {Code::kNotFound, "no such file"});
    const auto missing = fixture.open();
    EXPECT_EQ(code_of(missing), Code::kFailedPrecondition);
    EXPECT_THAT(why(missing), HasSubstr("no such file"));
    EXPECT_EQ(missing.error().advice.values, std::vector<std::string>{"over"});
  }
  {
    MultiStoreFixture fixture(2);
    fixture.stores.put_at(1, std::make_shared<GatedStore>(id_of(1), "redis://gated-1"));
    const auto undefined = fixture.open();
    EXPECT_EQ(code_of(undefined), Code::kFailedPrecondition);
    EXPECT_THAT(why(undefined), HasSubstr("not defined in it"));
  }
  {
    // Two sequences of that name, over two and over three stores.
    MultiStoreFixture fixture(3);
    MultiStoreFixture fewer(2);
    fixture.stores[1].put(fewer.stores[1].catalog()->find("tickets").value());
    const auto differs = fixture.open();
    EXPECT_EQ(code_of(differs), Code::kFailedPrecondition);
    EXPECT_THAT(why(differs),
                AllOf(HasSubstr("stripes: 2 there, 3 here"), HasSubstr("redis://gated-1")));
  }
  {
    // The definition of another stripe.
    MultiStoreFixture fixture(2);
    fixture.stores[1].put(fixture.stores[0].catalog()->find("tickets").value());
    EXPECT_EQ(code_of(fixture.open()), Code::kFailedPrecondition);
    EXPECT_EQ(code_of(fixture.open(1)), Code::kFailedPrecondition);
  }
}

TEST(Spread, AUrlThatIsGivenTakesThePlaceOfTheOneInTheDefinition) {
  MultiStoreFixture fixture(2);
  MultiStoreOptions multi_store = fixture.stores.multi_store();
  std::mutex mutex;
  std::vector<std::string> opened;
  const auto open = multi_store.open;
  const auto moved = [&](const std::string& url, SteadyTime until) {
    const std::lock_guard lock(mutex);
    opened.push_back(url);
    return open(url == "redis://gated-moved" ? "redis://gated-1" : url, until);
  };
  const auto with = [&](std::vector<std::string> over) {
    return Sequence::open(
        fixture.stores[0], "tickets",
        {.executor = &fixture.executor, .multi_store = {.over = std::move(over), .open = moved}},
        fixture.clock, fixture.entropy);
  };
  EXPECT_TRUE(with({"redis://gated-moved"}));
  EXPECT_EQ(opened, std::vector<std::string>{"redis://gated-moved"});
  MultiStoreFixture other(2);
  EXPECT_EQ(code_of(with({"redis://gated-nowhere"})), Code::kNotFound);
}

TEST(Spread, AmongUrlsOfStoresOfOtherSequencesTheNewPlaceOfAStoreIsFound) {
  MultiStoreFixture fixture(3);
  MultiStoreOptions multi_store = fixture.stores.multi_store();
  std::mutex mutex;
  std::vector<std::string> opened;  // side by side
  multi_store.open = [&, open = multi_store.open](const std::string& url, SteadyTime until) {
    const std::lock_guard lock(mutex);
    opened.push_back(url);
    return open(url == "redis://gated-moved" ? "redis://gated-2" : url, until);
  };
  multi_store.over = {"redis://gated-other", "redis://gated-moved"};
  multi_store.over_others = true;
  const auto sequence = Sequence::open(fixture.stores[0], "tickets",
                                       {.executor = &fixture.executor, .multi_store = multi_store},
                                       fixture.clock, fixture.entropy);
  ASSERT_TRUE(sequence) << why(sequence);
  EXPECT_THAT(opened, testing::UnorderedElementsAre("redis://gated-other", "redis://gated-moved",
                                                    "redis://gated-1", "redis://gated-other",
                                                    "redis://gated-moved"))
      << "never at its old place, where a copy may be";
  EXPECT_THAT(fixture.take(**sequence, 3), ElementsAre(1, 2, 3));
  multi_store.over = {"redis://gated-other"};
  multi_store.open = [open = fixture.stores.multi_store().open](const std::string& url,
                                                                SteadyTime until) {
    return open(url == "redis://gated-2" ? "redis://gated-gone" : url, until);
  };
  const auto missing = Sequence::open(fixture.stores[0], "tickets",
                                      {.executor = &fixture.executor, .multi_store = multi_store},
                                      fixture.clock, fixture.entropy);
  EXPECT_EQ(code_of(missing), Code::kFailedPrecondition);
  EXPECT_THAT(why(missing), HasSubstr("is not at redis://gated-2"));
}

// ---- acts on all stores

TEST(Spread, ARaiseRoundsUpInEachStore) {
  MultiStoreFixture fixture(3);
  const MultiStoreOptions multi_store = fixture.stores.multi_store();
  const auto preview = raise_sequence(fixture.stores[1], "tickets", 10, RaiseMode::kPreview,
                                      SteadyTime::max(), multi_store);
  EXPECT_EQ(preview->next, 11);
  EXPECT_EQ(preview->skipped, 10);
  EXPECT_EQ(fixture.stores.next_of(0), 1);
  const auto raised = raise_sequence(fixture.stores[1], "tickets", 10, RaiseMode::kCarryOut,
                                     SteadyTime::max(), multi_store);
  ASSERT_TRUE(raised) << why(raised);
  EXPECT_EQ(raised->skipped, 10);
  EXPECT_THAT(fixture.take(*fixture.open().value(), 3), ElementsAre(11, 12, 13));
  EXPECT_EQ(code_of(raise_sequence(fixture.stores[0], "tickets", 2'000'000, RaiseMode::kCarryOut,
                                   SteadyTime::max(), multi_store)),
            Code::kOutOfRange);
}

TEST(Spread, ARaiseNamesTheStoresThatItDidNotReachAndCanBeRunAgain) {
  MultiStoreFixture fixture(3);
  const MultiStoreOptions multi_store = fixture.stores.multi_store();
  const auto raise = [&] {
    return raise_sequence(fixture.stores[0], "tickets", 10, RaiseMode::kCarryOut, SteadyTime::max(),
                          multi_store);
  };
  fixture.stores.shut(1);
  const auto partly = raise();
  EXPECT_EQ(code_of(partly), Code::kUnavailable);
  EXPECT_THAT(why(partly), AllOf(HasSubstr("raised in 2 of its 3 stores, not in redis://gated-1"),
                                 HasSubstr("no answer"), Not(HasSubstr("redis://gated-2"))));
  EXPECT_EQ(fixture.stores.next_of(0), 13);
  EXPECT_EQ(fixture.stores.next_of(1), 2);
  EXPECT_EQ(fixture.stores.next_of(2), 12);
  fixture.stores.mend(1);
  EXPECT_TRUE(raise());
  EXPECT_EQ(fixture.stores.next_of(1), 11);
}

TEST(Spread, AnAlterAndARetireActInEachStoreAndCanBeRunAgain) {
  MultiStoreFixture fixture(2, spread_tickets(4));
  const MultiStoreOptions multi_store = fixture.stores.multi_store();
  fixture.stores.shut(1);
  EXPECT_EQ(code_of(alter_sequence(fixture.stores[0], "tickets", 8, multi_store)),
            Code::kUnavailable);
  fixture.stores.mend(1);
  // An end that is moved in one store only does no harm.
  EXPECT_THAT(fixture.take(*fixture.open().value(), 6), ElementsAre(1, 2, 3, 4, 5, 7));
  ASSERT_TRUE(alter_sequence(fixture.stores[0], "tickets", 8, multi_store));
  EXPECT_THAT(fixture.take(*fixture.open().value(), 2), ElementsAre(6, 8));
  ASSERT_TRUE(alter_sequence(fixture.stores[1], "tickets", 12, multi_store));

  fixture.stores.shut(1);
  EXPECT_THAT(why(retire_sequence(fixture.stores[0], "tickets", multi_store)),
              HasSubstr("retired in 1 of its 2 stores, not in redis://gated-1"));
  fixture.stores.mend(1);
  EXPECT_THAT(why(fixture.open(1)), HasSubstr("retire it again"));
  EXPECT_TRUE(retire_sequence(fixture.stores[1], "tickets", multi_store));
  EXPECT_THAT(why(fixture.open(1)), HasSubstr("retired"));
  // One that is lost for good keeps no other from being retired.
  MultiStoreFixture lost(2);
  lost.stores.shut(1, {Code::kNotFound, "no such file"});
  EXPECT_EQ(code_of(retire_sequence(lost.stores[0], "tickets", lost.stores.multi_store())),
            Code::kFailedPrecondition);
  EXPECT_THAT(why(lost.open()), HasSubstr("it is retired"));
  EXPECT_EQ(code_of(fixture.stores.create()), Code::kFailedPrecondition);
}

TEST(Spread, TheStatusShowsEachStripeAndTheSkew) {
  MultiStoreFixture fixture(3);
  const MultiStoreOptions multi_store = fixture.stores.multi_store();
  fixture.stores[1].fail_counter("tickets", kNoAnswer);
  fixture.take(*fixture.open().value(), 6);  // 1, 3, 4, 6, 7, 9
  const SequenceStatus status =
      peek_sequence(fixture.stores[2], "tickets", SteadyTime::max(), multi_store).value();
  ASSERT_EQ(status.stripes.size(), 3U);
  EXPECT_EQ(status.stripes[1].next, 2);
  EXPECT_EQ(status.next, 2);
  EXPECT_EQ(status.left, 1'000'000 - 6);
  EXPECT_EQ(status.skew(), 10);
  EXPECT_FALSE(status.error);
  fixture.stores.shut(0);
  const SequenceStatus partly =
      list_sequences(fixture.stores[2], SteadyTime::max(), multi_store).value().front();
  EXPECT_EQ(partly.stripes[0].error, kNoAnswer);
  EXPECT_EQ(partly.error->code, Code::kUnavailable);
  EXPECT_EQ(partly.next, 2);
  EXPECT_EQ(code_of(has_given(fixture.stores[2], "tickets", 2)), Code::kInvalidArgument);
  EXPECT_TRUE(has_given(fixture.stores[2], "tickets", 6).value());
}

// A restored store is raised to the position of its newer state, and the others stay.
TEST(Spread, OneStoreIsRaisedToItsNewerState) {
  MultiStoreFixture fixture(2);
  --fixtures_made;  // the same stores
  MultiStoreFixture newer(2);
  newer.take(*newer.open().value(), 10);
  const auto raised = raise_sequence(fixture.stores[1], "tickets", newer.stores[1]);
  ASSERT_TRUE(raised) << raised.error().message();
  EXPECT_EQ(fixture.stores.next_of(0), 1);
  EXPECT_EQ(fixture.stores.next_of(1), 12);
}

// ---- no value comes twice, whatever fails

RC_GTEST_PROP(MultiStoreProperty, NoValueComesTwiceOverRandomFaults, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(2, 5);
  MultiStoreFixture fixture(count, spread_tickets(*rc::gen::inRange<std::int64_t>(40, 2000)));
  std::vector<std::unique_ptr<Sequence>> processes;
  for (std::size_t i = 0; i < 2; ++i) processes.push_back(fixture.open(i).value());
  std::set<std::int64_t> seen;
  const auto steps = *rc::gen::inRange(20, 120);
  for (int step = 0; step < steps; ++step) {
    const auto k = *rc::gen::inRange<std::size_t>(0, count);
    switch (*rc::gen::inRange(0, 8)) {
      case 0:
        fixture.stores.shut(k, *rc::gen::element(kNoAnswer, Error{Code::kUnknown, "perhaps"},
                                                 Error{Code::kDeadlineExceeded, "late"}));
        break;
      case 1:
        fixture.stores.mend(k);
        break;
      case 2:
        fixture.stores[k].fail_next({{Code::kUnknown, "cut off"}, *rc::gen::arbitrary<bool>()});
        break;
      case 3:
        fixture.clock.advance(seconds{*rc::gen::inRange(-5, 40)});
        fixture.executor.run_all();
        break;
      case 4: {
        // A restart of one process, while stores may be away.
        auto opened = fixture.open(k);
        if (opened) processes[*rc::gen::inRange<std::size_t>(0, 2)] = *std::move(opened);
        break;
      }
      default: {
        Values values(*rc::gen::inRange<std::size_t>(1, 9));
        const Result<void> filled = processes[*rc::gen::inRange<std::size_t>(0, 2)]->next(values);
        if (!filled) {
          RC_ASSERT(filled.error().code == Code::kUnavailable ||
                    filled.error().code == Code::kUnknown ||
                    filled.error().code == Code::kOutOfRange);
          break;
        }
        for (const std::int64_t value : values) RC_ASSERT(seen.insert(value).second);
      }
    }
  }
  processes.clear();
  fixture.executor.run_all();
}

}  // namespace
}  // namespace idmint
