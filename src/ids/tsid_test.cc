#include "idmint/tsid.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ids/format.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

using namespace std::chrono_literals;

constexpr Instant kMoment{1'800'000'000'123ms};  // 2027-01-15

// ---- as tsid-creator has it

TEST(Tsid, TheExamplesOfItsDocumentation) {
  const std::vector<std::string> in_a_row = {"01226N0640J7K", "01226N0640J7M", "01226N0640J7N",
                                             "01226N0640J7P", "01226N0640J7Q", "01226N0640J7R",
                                             "01226N0640J7S", "01226N0640J7T"};
  const std::uint64_t first = Tsid::parse(in_a_row[0])->value();
  for (std::size_t i = 0; i < in_a_row.size(); ++i) {
    EXPECT_EQ(Tsid{first + i}.to_string(), in_a_row[i]);
  }
  EXPECT_EQ(Tsid::parse("01226N0693HDA")->time() - Tsid{first}.time(), 1ms);
  const Tsid id = Tsid::parse("0123456789ABC").value();
  EXPECT_EQ(id.time(), parse_time("2020-04-15T22:31:02.458Z"));
  EXPECT_EQ(id.value() >> 22, 9153062458U);
  EXPECT_EQ(id.random(), 305516U);
}

TEST(Tsid, SmallestAndLargest) {
  EXPECT_EQ(Tsid{}.to_string(), "0000000000000");
  EXPECT_EQ(Tsid{}.time(), parse_time("2020-01-01T00:00:00Z"));
  EXPECT_EQ(Tsid{10}.to_string(), "000000000000A");
  const Tsid largest{~std::uint64_t{0}};
  EXPECT_EQ(largest.to_string(), "FZZZZZZZZZZZZ");
  EXPECT_EQ(Tsid::parse("FZZZZZZZZZZZZ"), largest);
  EXPECT_EQ(largest.time(), parse_time("2159-05-15T07:35:11.103Z"));
  EXPECT_EQ(Tsid{std::uint64_t{1} << 63}.time(), parse_time("2089-09-06T15:47:35.552Z"));
}

TEST(Tsid, ReadsLowerCaseAndTheDigitsThatLookAlike) {
  EXPECT_EQ(Tsid::parse("0123456789abc"), Tsid::parse("0123456789ABC"));
  EXPECT_EQ(Tsid::parse("oI23456789AbC"), Tsid::parse("0123456789ABC"));
  EXPECT_EQ(Tsid::parse("Ol23456789AbC"), Tsid::parse("0123456789ABC"));
}

TEST(Tsid, RefusesWhatIsNotOne) {
  for (const std::string_view text :
       {"", "0123456789AB", "0123456789ABCC", "G000000000000", "ZZZZZZZZZZZZZ", "0123456789ABU",
        "0123456789AB#", "0123456789AB ", " 123456789ABC"}) {
    const Result<Tsid> refused = Tsid::parse(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_TRUE(refused.error().message().starts_with("not a TSID: ")) << refused.error().message();
  }
}

RC_GTEST_PROP(Tsid, PrintingAndReadingAreInverse, (std::uint64_t value)) {
  RC_ASSERT(*Tsid::parse(Tsid{value}.to_string()) == Tsid{value});
}

RC_GTEST_PROP(Tsid, TheOrderOfTextsIsTheOrderOfIds, (std::uint64_t a, std::uint64_t b)) {
  RC_ASSERT((Tsid{a} < Tsid{b}) == (Tsid{a}.to_string() < Tsid{b}.to_string()));
}

TEST(Tsid, IsASnowflakeOfItsLayoutInBase32) {
  const auto layout = parse_snowflake_layout("42t10w12s epoch 2020-01-01").value();
  const Snowflake number = layout.encode({.time = kMoment, .worker = 5, .sequence = 17}).value();
  const std::string text = to_string(Id{number}, {.encoding = Encoding::kBase32});
  EXPECT_EQ(Tsid::parse(text)->value(), number.value());
  EXPECT_EQ(Tsid::parse(text)->time(), std::chrono::floor<std::chrono::milliseconds>(kMoment));
}

// ---- the generator

struct StartingAtCount {
  explicit StartingAtCount(std::uint32_t count, Instant at = kMoment)
      : clock(at),
        entropy({static_cast<std::uint8_t>(count), static_cast<std::uint8_t>(count >> 8),
                 static_cast<std::uint8_t>(count >> 16), 0, 0, 0, 0, 0}) {}
  fakes::ManualClock clock;
  fakes::ScriptedEntropy entropy;
  TsidGenerator generator{clock, entropy};
};

constexpr std::uint32_t kLastCount = (1U << 22) - 1;

TEST(Tsid, BeginsAtRandomInAMillisecondAndCountsUp) {
  StartingAtCount at(305516);
  const Tsid first = at.generator.next().value();
  EXPECT_EQ(first.random(), 305516U);
  EXPECT_EQ(first.time(), std::chrono::floor<std::chrono::milliseconds>(kMoment));
  EXPECT_EQ(at.generator.next()->value(), first.value() + 1);
  at.clock.advance(1ms);
  EXPECT_EQ(at.generator.next()->time() - first.time(), 1ms);
}

TEST(Tsid, WaitsForTheNextMillisecondAtTheEndOfTheRandomBits) {
  StartingAtCount at(kLastCount - 1);
  std::array<Tsid, 4> ids;
  ASSERT_TRUE(at.generator.next(ids));
  EXPECT_EQ(ids[1].random(), kLastCount);
  EXPECT_EQ(ids[2].time() - ids[1].time(), 1ms);
  EXPECT_TRUE(std::ranges::is_sorted(ids));
  EXPECT_GT(at.clock.sleeps(), 0);
}

TEST(Tsid, IncreasesWhenTheClockIsSetBackAndRefusesPast20Seconds) {
  StartingAtCount at(0);
  Tsid last = at.generator.next().value();
  at.clock.advance(-20s);
  for (int i = 0; i < 1000; ++i) {
    const Tsid id = at.generator.next().value();
    ASSERT_GT(id, last);
    last = id;
  }
  at.clock.advance(-2s);
  const Result<Tsid> refused = at.generator.next();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  at.clock.set(kMoment);
  EXPECT_GT(at.generator.next().value(), last);
}

TEST(Tsid, HasNoTimeOutsideItsBits) {
  StartingAtCount before(0, Tsid::kEpoch - 1ms);
  EXPECT_EQ(before.generator.next().error().code, Code::kOutOfRange);
  StartingAtCount after(0, Tsid{~std::uint64_t{0}}.time() + 1ms);
  EXPECT_EQ(after.generator.next().error().code, Code::kOutOfRange);
  StartingAtCount last(0, Tsid{~std::uint64_t{0}}.time());
  EXPECT_TRUE(last.generator.next());
}

TEST(Tsid, BoundsHoldEveryIdOfTheirMillisecond) {
  const Bounds<Tsid> bounds = tsid_bounds(kMoment).value();
  EXPECT_EQ(bounds.smallest.random(), 0U);
  EXPECT_EQ(bounds.largest.random(), kLastCount);
  EXPECT_EQ(bounds.smallest.time(), bounds.largest.time());
  EXPECT_EQ(bounds.smallest.time(), std::chrono::floor<std::chrono::milliseconds>(kMoment));
  EXPECT_EQ(tsid_bounds(Tsid::kEpoch - 1ns).error().code, Code::kInvalidArgument);
  EXPECT_EQ(tsid_bounds(Tsid::kEpoch)->smallest, Tsid{});
  const Instant end = Tsid{~std::uint64_t{0}}.time();
  EXPECT_EQ(tsid_bounds(end + 999'999ns)->largest, Tsid{~std::uint64_t{0}});
  EXPECT_EQ(tsid_bounds(end + 1ms).error().code, Code::kInvalidArgument);
  EXPECT_EQ(tsid_bounds(Instant::min()).error().code, Code::kInvalidArgument);
  EXPECT_EQ(tsid_bounds(Instant::max()).error().code, Code::kInvalidArgument);
}

// With 22 random bits, sequences of their own would repeat ids here.
TEST(Tsid, GeneratorsAndThreadsOfOneProcessNeverRepeat) {
  constexpr std::size_t kEach = 50'000;
  std::mutex mutex;
  std::vector<Tsid> all;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      TsidGenerator generator;
      std::vector<Tsid> ids(kEach);
      for (Tsid& id : ids) id = generator.next().value();
      EXPECT_TRUE(std::ranges::is_sorted(ids));
      const std::lock_guard lock(mutex);
      all.insert(all.end(), ids.begin(), ids.end());
    });
  }
  threads.clear();
  std::ranges::sort(all);
  EXPECT_EQ(all.size(), 4 * kEach);
  EXPECT_TRUE(std::ranges::adjacent_find(all) == all.end());
}

TEST(Tsid, AChildOfForkDrawsAnew) {
  StartingAtCount at(1000);
  at.entropy.push(std::array<std::uint8_t, 8>{0x88, 0x13});
  EXPECT_EQ(at.generator.next()->random(), 1000U);
  EXPECT_EQ(fakes::in_child([&] { return at.generator.next().value(); }).random(), 0x1388U);
  EXPECT_EQ(at.generator.next()->random(), 1001U);
}

TEST(Tsid, HasItsRowInTheListOfFormats) {
  const Format* const format = find_format("tsid");
  ASSERT_NE(format, nullptr);
  EXPECT_EQ(find_kind("tsid"), format);
  EXPECT_EQ(format_of(Id{Tsid{1}}), "tsid");
  EXPECT_EQ(format->from_bytes(bytes_of(Id{Tsid{12345}}).span()), Id{Tsid{12345}});
}

TEST(Tsid, IsInspected) {
  const std::vector<Reading> readings = inspect("0AWE5HZP3SKTK", kMoment);
  ASSERT_FALSE(readings.empty());
  EXPECT_EQ(readings[0].format, "tsid");
  EXPECT_EQ(readings[0].canonical, "0AWE5HZP3SKTK");
  EXPECT_EQ(readings[0].time, parse_time("2022-12-18T13:47:17.296Z"));
  EXPECT_EQ(readings[0].fields.back().value, "392311864492347219");
  const std::vector<Reading> lower = inspect("0awe5hzp3sktk", kMoment);
  EXPECT_EQ(lower[0].canonical, "0AWE5HZP3SKTK");
  for (const std::string_view text : {"1528538400000", "GAWE5HZP3SKTK", "DOCUMENTATION"}) {
    EXPECT_TRUE(std::ranges::none_of(inspect(text, kMoment), [](const Reading& reading) {
      return reading.format == "tsid";
    })) << text;
  }
}

}  // namespace
}  // namespace idmint
