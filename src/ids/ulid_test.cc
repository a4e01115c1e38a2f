#include "idmint/ulid.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "tests/fakes/in_child.h"
#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kUlid = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
constexpr std::string_view kLargest = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ";

static_assert(Ulid::parse(kUlid)->milliseconds() == 1469922850259);
static_assert(Ulid::parse(kLargest)->milliseconds() == 281474976710655);
static_assert([] {
  char text[Ulid::kChars];
  return Ulid::parse(kUlid)->to_chars(text) == text + 26 && std::string_view(text, 26) == kUlid;
}());

TEST(Ulid, VectorHasTheBytesOfTheSpecification) {
  const Ulid::Bytes bytes{0x01, 0x56, 0x3e, 0x3a, 0xb5, 0xd3, 0xd6, 0x76,
                          0x4c, 0x61, 0xef, 0xb9, 0x93, 0x02, 0xbd, 0x5b};
  EXPECT_EQ(Ulid::parse(kUlid)->bytes(), bytes);
  EXPECT_EQ(Ulid{bytes}.to_string(), kUlid);
  EXPECT_EQ(Ulid::parse(kLargest)->to_string(), kLargest);
}

TEST(Ulid, ReadsLowerCaseAndTheDigitsThatLookAlike) {
  EXPECT_EQ(*Ulid::parse("01arz3ndektsv4rrffq69g5fav"), *Ulid::parse(kUlid));
  EXPECT_EQ(*Ulid::parse("OIARZ3NDEKTSV4RRFFQ69G5FAV"), *Ulid::parse(kUlid));
  EXPECT_EQ(*Ulid::parse("oLARZ3NDEKTSV4RRFFQ69G5FAV"), *Ulid::parse(kUlid));
}

TEST(Ulid, RefusesWhatIsNotOne) {
  for (const std::string_view text :
       {"", "01ARZ3NDEKTSV4RRFFQ69G5FA", "01ARZ3NDEKTSV4RRFFQ69G5FAVX",
        "81ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAU", "01ARZ3NDEKTSV4RRFFQ69G5FA ",
        "01ARZ3NDEK-SV4RRFFQ69G5FAV"}) {
    const Result<Ulid> refused = Ulid::parse(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  }
}

RC_GTEST_PROP(Ulid, PrintingAndReadingAreInverse, (const Ulid::Bytes& bytes)) {
  RC_ASSERT(*Ulid::parse(Ulid{bytes}.to_string()) == Ulid{bytes});
}

RC_GTEST_PROP(Ulid, TheOrderOfTextsIsTheOrderOfIds, (const Ulid::Bytes& a, const Ulid::Bytes& b)) {
  RC_ASSERT((Ulid{a} < Ulid{b}) == (Ulid{a}.to_string() < Ulid{b}.to_string()));
}

// A generator whose first id is `text`.
struct StartingAt {
  explicit StartingAt(std::string_view text)
      : clock(Instant{milliseconds{static_cast<std::int64_t>(Ulid::parse(text)->milliseconds())}}),
        entropy([&] {
          const Ulid::Bytes bytes = Ulid::parse(text)->bytes();
          return std::vector<std::uint8_t>(bytes.begin() + 6, bytes.end());
        }()) {}
  fakes::ManualClock clock;
  fakes::ScriptedEntropy entropy;
  UlidGenerator generator{{}, clock, entropy};
};

TEST(Ulid, IsMonotonicWithinAMillisecondAsTheSpecificationShows) {
  StartingAt at("01BX5ZZKBKACTAV9WEVGEMMVRZ");
  EXPECT_EQ(at.generator.next()->to_string(), "01BX5ZZKBKACTAV9WEVGEMMVRZ");
  EXPECT_EQ(at.generator.next()->to_string(), "01BX5ZZKBKACTAV9WEVGEMMVS0");
  EXPECT_EQ(at.generator.next()->to_string(), "01BX5ZZKBKACTAV9WEVGEMMVS1");
}

TEST(Ulid, OverflowIsAnErrorAndNeverCarriesIntoTheTime) {
  StartingAt at("01BX5ZZKBKZZZZZZZZZZZZZZZY");
  EXPECT_EQ(at.generator.next()->to_string(), "01BX5ZZKBKZZZZZZZZZZZZZZZY");
  EXPECT_EQ(at.generator.next()->to_string(), "01BX5ZZKBKZZZZZZZZZZZZZZZZ");
  for (int i = 0; i < 3; ++i) {
    const Result<Ulid> overflow = at.generator.next();
    ASSERT_FALSE(overflow);
    EXPECT_EQ(overflow.error().code, Code::kResourceExhausted);
  }
  at.clock.advance(milliseconds{1});
  EXPECT_EQ(at.generator.next()->milliseconds(),
            at.clock.now().time_since_epoch() / milliseconds{1});
}

TEST(Ulid, OverflowInBulkIsAnErrorToo) {
  StartingAt at("01BX5ZZKBKZZZZZZZZZZZZZZZX");
  std::vector<Ulid> ids(4);
  EXPECT_EQ(at.generator.next(ids).error().code, Code::kResourceExhausted);
  StartingAt fits("01BX5ZZKBKZZZZZZZZZZZZZZZX");
  ids.resize(3);
  ASSERT_TRUE(fits.generator.next(ids));
  EXPECT_EQ(ids.back().to_string(), "01BX5ZZKBKZZZZZZZZZZZZZZZZ");
}

TEST(Ulid, CarriesThroughTheLow64Bits) {
  StartingAt at("01BX5ZZKBK00FZZZZZZZZZZZZZ");
  const Ulid first = *at.generator.next();
  const Ulid second = *at.generator.next();
  EXPECT_LT(first, second);
  EXPECT_EQ(second.to_string(), "01BX5ZZKBK00G0000000000000");
}

TEST(Ulid, IncreasesAcrossStepsBackAndBulk) {
  fakes::ManualClock clock(Instant{milliseconds{1469922850259}});
  UlidGenerator generator({}, clock);
  Ulid previous = *generator.next();
  std::vector<Ulid> bulk(3000);
  for (const int step : {0, 1, 0, -5000, 0, 5001, -19'999, 0}) {
    clock.advance(milliseconds{step});
    ASSERT_TRUE(generator.next(bulk));
    EXPECT_LT(previous, bulk.front());
    EXPECT_EQ(std::adjacent_find(bulk.begin(), bulk.end(), std::greater_equal<>{}), bulk.end());
    previous = bulk.back();
  }
  clock.advance(-std::chrono::hours{1});
  EXPECT_LT(*generator.next(), previous) << "past max_drift it starts afresh";
}

TEST(Ulid, StrictRefusesPastMaxDriftAndNothingIsBeforeTheEpoch) {
  fakes::ManualClock clock(Instant{milliseconds{1469922850259}});
  UlidGenerator strict({.strict = true}, clock);
  ASSERT_TRUE(strict.next());
  clock.advance(-std::chrono::hours{1});
  EXPECT_EQ(strict.next().error().code, Code::kUnavailable);
  clock.set(Instant{milliseconds{-1}});
  UlidGenerator early({}, clock);
  EXPECT_EQ(early.next().error().code, Code::kOutOfRange);
  EXPECT_EQ(ulid_bounds(clock.now()).error().code, Code::kInvalidArgument);
}

TEST(Ulid, BoundsHoldEveryIdOfTheirMillisecond) {
  const Bounds<Ulid> bounds = *ulid_bounds(Instant{milliseconds{1469922850259}});
  EXPECT_EQ(bounds.smallest.to_string(), "01ARZ3NDEK0000000000000000");
  EXPECT_EQ(bounds.largest.to_string(), "01ARZ3NDEKZZZZZZZZZZZZZZZZ");
}

TEST(Ulid, ThreadsOfOneGeneratorNeverRepeatAndEachSeesThemIncrease) {
  UlidGenerator generator;
  std::vector<std::vector<Ulid>> ids(4, std::vector<Ulid>(50'000));
  {
    std::vector<std::jthread> threads;
    for (auto& mine : ids) {
      threads.emplace_back([&generator, &mine] {
        for (std::size_t i = 0; i < mine.size() / 2; ++i) mine[i] = *generator.next();
        const Result<void> filled = generator.next(std::span(mine).subspan(mine.size() / 2));
        EXPECT_TRUE(filled);
      });
    }
  }
  std::vector<Ulid> all;
  for (const auto& mine : ids) {
    EXPECT_EQ(std::adjacent_find(mine.begin(), mine.end(), std::greater_equal<>{}), mine.end());
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

TEST(Ulid, AChildOfForkNeverCountsOnWhereItsParentDoes) {
  fakes::ManualClock clock(Instant{milliseconds{1469922850259}});
  UlidGenerator generator({}, clock);
  ASSERT_TRUE(generator.next());
  const Ulid childs = fakes::in_child([&] { return generator.next().value(); });
  EXPECT_NE(generator.next().value(), childs);
}

}  // namespace
}  // namespace idmint
