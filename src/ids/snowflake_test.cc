#include "idmint/snowflake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ids/state_file.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/manual_executor.h"
#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

using namespace std::chrono_literals;
using fakes::ManualClock;
using fakes::ScriptedEntropy;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr Instant kArticleTime{1528538400000ms};  // 2018-06-09T10:00:00Z
constexpr Instant kEpoch{1420070400000ms};        // 2015-01-01

SnowflakeLayout classic() { return snowflake_layout("sequence-generator").value(); }

TEST(SnowflakeLayoutTest, ThePresetIsTheClassicSequenceGenerator) {
  const SnowflakeLayout layout = classic();
  EXPECT_EQ(layout.epoch, kEpoch);
  EXPECT_EQ(layout.unit, 1ms);
  EXPECT_EQ(layout.max_tick(), 2199023255551);
  EXPECT_EQ(layout.max_worker(), 1023U);
  EXPECT_EQ(layout.max_sequence(), 4095U);
  const auto id = layout.encode({.time = kArticleTime, .worker = 786, .sequence = 3450});
  EXPECT_EQ(id, Snowflake{454947766275222906});
  EXPECT_EQ(layout.encode({.time = kArticleTime, .worker = 786}), Snowflake{454947766275219456});
  EXPECT_EQ(layout.decode(Snowflake{454947766275222906}),
            (SnowflakeParts{.time = kArticleTime, .worker = 786, .sequence = 3450}));
}

TEST(SnowflakeLayoutTest, UnknownPresetsAreRefusedWithTheKnownOnes) {
  const auto layout = snowflake_layout("nonsense");
  EXPECT_EQ(layout.error().code, Code::kNotFound);
  EXPECT_THAT(layout.error().message(), HasSubstr("sequence-generator"));
  for (const SnowflakePreset& preset : snowflake_presets()) {
    EXPECT_TRUE(preset.layout.validate()) << preset.name;
    EXPECT_EQ(snowflake_layout(preset.name), preset.layout);
  }
}

SnowflakeLayout preset(std::string_view name) { return snowflake_layout(name).value(); }

// Ids that others published, and what they said was in them.
TEST(SnowflakeLayoutTest, PublishedIdsOfEveryPreset) {
  struct Vector {
    SnowflakeLayout layout;
    std::uint64_t id;
    SnowflakeParts parts;
  };
  // Baidu's README has a layout of its own: 29 | 21 | 13 since 2016-09-20.
  SnowflakeLayout baidu = preset("baidu");
  baidu.epoch = Instant{1474329600000ms};
  baidu.time_bits = 29;
  baidu.worker_bits = 21;
  for (const Vector& v : {
           Vector{preset("discord"), 90339695967350784, {Instant{1441609061949ms}, 3, 0}},
           Vector{
               preset("discord"), 937847820382261308, {Instant{1643670744749ms}, 1 << 5 | 5, 60}},
           Vector{preset("discord"), 266241948824764416, {Instant{1483547427136ms}, 1 << 5, 0}},
           Vector{baidu, 180363646902239241, {Instant{1484828146s}, 4, 9}},
           // The fields that Leaf's source names as an example.
           Vector{preset("twitter"), 1169786042799259000, {Instant{1567733700834ms}, 39, 3448}},
       }) {
    EXPECT_EQ(v.layout.decode(Snowflake{v.id}), v.parts) << v.id;
    EXPECT_EQ(v.layout.encode(v.parts), Snowflake{v.id});
  }
}

TEST(SnowflakeLayoutTest, EveryPresetEndsWhenItsDocumentationSays) {
  struct End {
    std::string_view preset;
    std::string_view last;  // the last unit
    int bits;               // of the largest id
  };
  constexpr End ends[] = {
      {"sequence-generator", "2084-09-06T15:47:35.551Z", 63},
      {"twitter", "2080-07-10T17:30:30.208Z", 63},
      {"discord", "2154-05-15T07:35:11.103Z", 64},
      {"instagram", "2081-04-30T12:54:37.272Z", 64},
      {"sonyflake", "2199-03-19T03:28:58.87Z", 63},
      {"sonyflake-v1", "2188-11-16T03:28:58.87Z", 63},
      {"baidu", "2024-11-20T21:24:15Z", 63},
      {"js-safe", "2084-09-06T15:47:35.551Z", 53},
  };
  ASSERT_EQ(std::size(ends), snowflake_presets().size());
  for (const End& end : ends) {
    const SnowflakeLayout layout = preset(end.preset);
    const Instant last = parse_time(end.last).value();
    const auto bounds = layout.bounds(last);
    ASSERT_TRUE(bounds) << end.preset;
    EXPECT_EQ(bounds->largest.value(), ~std::uint64_t{0} >> (64 - end.bits)) << end.preset;
    EXPECT_EQ(layout.encode({.time = last + layout.unit}).error().code, Code::kOutOfRange);
  }
}

// A signed 64-bit column turns negative at these times.
TEST(SnowflakeLayoutTest, LayoutsOf64BitsLeaveTheSignedIntegersLate) {
  for (const auto& [name, first_negative] : {std::pair{"discord", "2084-09-06T15:47:35.552Z"},
                                             std::pair{"instagram", "2046-06-27T17:00:49.497Z"}}) {
    const auto bounds = preset(name).bounds(parse_time(first_negative).value());
    EXPECT_EQ(bounds->smallest.value(), std::uint64_t{1} << 63) << name;
  }
}

TEST(SnowflakeLayoutTest, SplitsOfAWorkerIdLieWithinIt) {
  for (const SnowflakePreset& p : snowflake_presets()) {
    if (p.split) {
      EXPECT_LT(p.split->low_bits, p.layout.worker_bits) << p.name;
    }
  }
}

// ---- as text

TEST(SnowflakeLayoutText, SaysTheFieldsFromTheTopAndWhatIsNotUsual) {
  EXPECT_EQ(to_string(SnowflakeLayout{}), "41t10w12s");
  EXPECT_EQ(to_string(classic()), "41t10w12s epoch 2015-01-01T00:00:00Z");
  EXPECT_EQ(to_string(preset("twitter")), "41t10w12s epoch 2010-11-04T01:42:54.657Z");
  EXPECT_EQ(to_string(preset("sonyflake")), "39t8s16w epoch 2025-01-01T00:00:00Z unit 10ms");
  EXPECT_EQ(to_string(preset("baidu")), "28t22w13s epoch 2016-05-20T00:00:00Z unit 1s");
  EXPECT_EQ(to_string(SnowflakeLayout{.unit = 100us}), "41t10w12s unit 100us");
  EXPECT_EQ(to_string(SnowflakeLayout{.unit = 100'001ns}), "41t10w12s unit 100001ns");
  EXPECT_EQ(to_string(SnowflakeLayout{.unit = 1500ms, .worker_bits = 0}), "41t0w12s unit 1500ms");
  EXPECT_EQ(to_string(SnowflakeLayout{.unit = 1h, .sequence_bits = 0}), "41t10w0s unit 3600s");
}

TEST(SnowflakeLayoutText, ReadsPresetsAndFields) {
  for (const SnowflakePreset& p : snowflake_presets()) {
    EXPECT_EQ(parse_snowflake_layout(p.name), p.layout);
  }
  EXPECT_EQ(parse_snowflake_layout("41t10w12s"), SnowflakeLayout{});
  EXPECT_EQ(parse_snowflake_layout("39t8s16w unit 10ms epoch 2025-01-01"), preset("sonyflake"));
  EXPECT_EQ(parse_snowflake_layout("39t8s16w unit 10000us epoch @1735689600"), preset("sonyflake"));
  SnowflakeLayout later = preset("sonyflake");
  later.epoch = Instant{1767225600s};
  EXPECT_EQ(parse_snowflake_layout("sonyflake epoch 2026-01-01"), later);
  EXPECT_EQ(parse_snowflake_layout("42t12w10s unit 1s"),
            (SnowflakeLayout{.unit = 1s, .time_bits = 42, .worker_bits = 12, .sequence_bits = 10}))
      << "64 bits";
  EXPECT_EQ(parse_snowflake_layout("30t10w12s unit 15min"),
            parse_snowflake_layout("30t10w12s unit 900s"));
  EXPECT_EQ(parse_snowflake_layout("30t10w12s unit 1h"),
            parse_snowflake_layout("30t10w12s unit 3600s"));
}

TEST(SnowflakeLayoutText, RefusesWhatIsNone) {
  for (const char* text :
       {"", " ", "41", "41t", "41t10w", "10w41t12s", "41t10w12s!", "41t10w12s ", " 41t10w12s",
        "41t10w12", "41t10w12s5s", "41t10w10w12s", "41t10w12x", "41T10W12S", "041t10w12s",
        "41t-1w12s", "41t+10w12s", "41t010w12s", "41t100w1s", "41tw12s", "41t10w12s  unit 1s",
        "41t10w12s unit", "41t10w12s unit ", "41t10w12s unit 1", "41t10w12s unit 1m",
        "41t10w12s unit s", "41t10w12s unit 01s", "41t10w12s unit 1s unit 1s",
        "41t10w12s unit 1.5s", "41t10w12s unit -1s", "41t10w12s unit 9999999999999s",
        "41t10w12s unit 99999999999999ns", "41t10w12s epoch", "41t10w12s epoch 2015",
        "41t10w12s epoch 2015-01-01 epoch 2015-01-01", "41t10w12s year 2015", "twitter 5",
        "twitter ", "41t10w12s epoch 2015-01-01 00:00:00Z",
        // what validate() refuses
        "43t10w12s", "63t0w0s", "0t31w22s", "1t32w0s", "1t0w23s", "41t10w12s unit 99us",
        "41t10w12s unit 3601s", "41t10w12s unit 61min", "41t10w12s unit 2h"}) {
    const auto layout = parse_snowflake_layout(text);
    ASSERT_FALSE(layout) << text;
    EXPECT_EQ(layout.error().code, Code::kInvalidArgument) << text;
  }
  EXPECT_EQ(parse_snowflake_layout("41t10w12s epoch 1066-10-14").error().code, Code::kOutOfRange);
  EXPECT_EQ(parse_snowflake_layout("t10w12s").error().code, Code::kNotFound);
  EXPECT_THAT(parse_snowflake_layout("41t22s").error().message(),
              HasSubstr("\"41t22s\" lacks the worker (w), of 0 bits"));
  EXPECT_THAT(parse_snowflake_layout("41t").error().message(),
              HasSubstr("lacks the worker (w) and sequence (s)"));
  const auto unknown = parse_snowflake_layout("twiter");
  EXPECT_EQ(unknown.error().code, Code::kNotFound);
  EXPECT_THAT(unknown.error().message(), HasSubstr("sonyflake-v1"));
  EXPECT_THAT(unknown.error().message(), HasSubstr("41t10w12s"));
}

TEST(SnowflakeLayoutTest, TimeEndsIn2084) {
  constexpr Instant last{3619093655551ms};  // 2084-09-06T15:47:35.551Z
  const auto id = classic().encode({.time = last, .worker = 1023, .sequence = 4095});
  EXPECT_EQ(id, Snowflake{std::numeric_limits<std::int64_t>::max()});
  EXPECT_EQ(classic().encode({.time = last + 1ms}).error().code, Code::kOutOfRange);
  EXPECT_EQ(classic().encode({.time = kEpoch - 1ns}).error().code, Code::kOutOfRange);
  EXPECT_EQ(classic().encode({.time = kEpoch}), Snowflake{0});
}

TEST(SnowflakeLayoutTest, FieldsThatDoNotFitAreNamed) {
  const auto worker = classic().encode({.time = kEpoch, .worker = 1024});
  EXPECT_EQ(worker.error().code, Code::kInvalidArgument);
  EXPECT_THAT(worker.error().message(), HasSubstr("worker 1024"));
  const auto sequence = classic().encode({.time = kEpoch, .sequence = 4096});
  EXPECT_EQ(sequence.error().code, Code::kInvalidArgument);
  EXPECT_THAT(sequence.error().message(), HasSubstr("sequence 4096"));
}

TEST(SnowflakeLayoutTest, ValidateNamesTheField) {
  const auto refusal = [](auto change) {
    SnowflakeLayout layout = classic();
    change(layout);
    const auto valid = layout.validate();
    return valid ? std::string() : valid.error().message();
  };
  EXPECT_THAT(refusal([](auto& l) { l.unit = 99us; }), HasSubstr("unit"));
  EXPECT_EQ(refusal([](auto& l) { l.unit = 100us; }), "");
  EXPECT_EQ(refusal([](auto& l) { l.unit = 1h; }), "");
  EXPECT_THAT(refusal([](auto& l) { l.unit = 1h + 1ns; }), HasSubstr("unit"));
  EXPECT_THAT(refusal([](auto& l) { l.unit = -1ms; }), HasSubstr("unit"));
  EXPECT_THAT(refusal([](auto& l) { l.time_bits = 0; }), HasSubstr("time_bits"));
  EXPECT_THAT(refusal([](auto& l) { l.time_bits = 63; }), HasSubstr("time_bits"));
  EXPECT_THAT(refusal([](auto& l) { l.worker_bits = -1; }), HasSubstr("worker_bits"));
  EXPECT_THAT(refusal([](auto& l) { l.worker_bits = 32; }), HasSubstr("worker_bits"));
  EXPECT_THAT(refusal([](auto& l) { l.sequence_bits = -1; }), HasSubstr("sequence_bits"));
  EXPECT_THAT(refusal([](auto& l) { l.sequence_bits = 23; }), HasSubstr("sequence_bits"));
  EXPECT_EQ(refusal([](auto& l) { l.time_bits = 42; }), "");
  EXPECT_THAT(refusal([](auto& l) { l.time_bits = 43; }), HasSubstr("together"));
}

TEST(SnowflakeLayoutTest, BitsAboveTheLayoutAreRefused) {
  EXPECT_EQ(classic().decode(Snowflake{std::uint64_t{1} << 63}).error().code,
            Code::kInvalidArgument);
  EXPECT_TRUE(classic().decode(Snowflake{(std::uint64_t{1} << 63) - 1}));
}

TEST(SnowflakeLayoutTest, TimesPast2262AreRefusedWithoutOverflow) {
  SnowflakeLayout layout{
      .epoch = Instant::min(), .unit = 1h, .time_bits = 62, .worker_bits = 1, .sequence_bits = 1};
  EXPECT_EQ(layout.decode(Snowflake{~std::uint64_t{0}}).error().code, Code::kInvalidArgument);
  // 2^62 units are a multiple of 2^64 ns here: a product that wraps would come back as the epoch.
  layout.unit = std::chrono::nanoseconds{3600} * (std::int64_t{1} << 20) / 1;
  EXPECT_EQ(layout.decode(Snowflake{std::uint64_t{1} << 63}).error().code, Code::kInvalidArgument);
  const auto whole = (static_cast<std::uint64_t>(Instant::max().time_since_epoch().count()) -
                      static_cast<std::uint64_t>(Instant::min().time_since_epoch().count())) /
                     static_cast<std::uint64_t>(layout.unit.count());
  EXPECT_TRUE(layout.decode(Snowflake{whole << 2}));
  EXPECT_FALSE(layout.decode(Snowflake{(whole + 1) << 2}));
  const auto last = layout.encode({.time = Instant::max()});
  ASSERT_TRUE(last);
  EXPECT_EQ(last->value(), whole << 2);
}

SnowflakeLayout any_layout() {
  SnowflakeLayout layout;
  layout.time_bits = *rc::gen::inRange(1, 63);
  layout.worker_bits = *rc::gen::inRange(0, std::min(31, 64 - layout.time_bits) + 1);
  layout.sequence_bits =
      *rc::gen::inRange(0, std::min(22, 64 - layout.time_bits - layout.worker_bits) + 1);
  layout.unit = std::chrono::nanoseconds{*rc::gen::element<std::int64_t>(
      100'000, 1'000'000, 10'000'000, 1'000'000'000, 3'600'000'000'000, 100'001)};
  layout.epoch = Instant{std::chrono::nanoseconds{*rc::gen::arbitrary<std::int64_t>()}};
  layout.order = *rc::gen::element(SnowflakeLayout::Order::kWorkerThenSequence,
                                   SnowflakeLayout::Order::kSequenceThenWorker);
  RC_ASSERT(layout.validate().has_value());
  return layout;
}

RC_GTEST_PROP(SnowflakeLayoutProperty, ReadingIsTheInverseOfPrinting, ()) {
  SnowflakeLayout layout = any_layout();
  if (*rc::gen::arbitrary<bool>()) {
    layout.unit =
        std::chrono::nanoseconds{*rc::gen::inRange<std::int64_t>(100'000, 3'600'000'000'001)};
  }
  RC_ASSERT((parse_snowflake_layout(to_string(layout)).value() == layout));
}

RC_GTEST_PROP(SnowflakeLayoutProperty, EncodeIsTheInverseOfDecode, ()) {
  const SnowflakeLayout layout = any_layout();
  const int bits = layout.time_bits + layout.worker_bits + layout.sequence_bits;
  const std::uint64_t value =
      *rc::gen::arbitrary<std::uint64_t>() >> (64 - bits) >> *rc::gen::inRange(0, bits);
  const auto parts = layout.decode(Snowflake{value});
  if (!parts) {
    RC_ASSERT(parts.error().code == Code::kInvalidArgument);
    RC_DISCARD("past 2262");
  }
  RC_ASSERT(parts->time >= layout.epoch);
  RC_ASSERT((layout.encode(*parts) == Snowflake{value}));
}

RC_GTEST_PROP(SnowflakeLayoutProperty, DecodeIsTheInverseOfEncode, ()) {
  const SnowflakeLayout layout = any_layout();
  const Instant time{std::chrono::nanoseconds{*rc::gen::arbitrary<std::int64_t>()}};
  const auto worker = *rc::gen::arbitrary<std::uint32_t>() & layout.max_worker();
  const auto sequence = *rc::gen::arbitrary<std::uint32_t>() & layout.max_sequence();
  const auto id = layout.encode({.time = time, .worker = worker, .sequence = sequence});
  if (!id) {
    RC_ASSERT(id.error().code == Code::kOutOfRange);
    RC_DISCARD("outside the layout");
  }
  const auto parts = layout.decode(*id);
  RC_ASSERT(parts.has_value());
  RC_ASSERT(parts->worker == worker);
  RC_ASSERT(parts->sequence == sequence);
  RC_ASSERT(parts->time <= time);
  RC_ASSERT(static_cast<std::uint64_t>(time.time_since_epoch().count()) -
                static_cast<std::uint64_t>(parts->time.time_since_epoch().count()) <
            static_cast<std::uint64_t>(layout.unit.count()));
  const auto bounds = layout.bounds(time);
  RC_ASSERT(bounds.has_value());
  RC_ASSERT(bounds->smallest <= *id);
  RC_ASSERT(*id <= bounds->largest);
  RC_ASSERT((layout.encode({.time = time}) == bounds->smallest));
  const SnowflakeParts highest{
      .time = time, .worker = layout.max_worker(), .sequence = layout.max_sequence()};
  RC_ASSERT((layout.encode(highest) == bounds->largest));
}

TEST(SnowflakeLayoutTest, BoundsAreThoseOfTheUnitOverAllWorkers) {
  const auto bounds = classic().bounds(kArticleTime + 999us);
  ASSERT_TRUE(bounds);
  EXPECT_EQ(bounds->smallest, classic().encode({.time = kArticleTime}));
  EXPECT_EQ(bounds->largest.value() + 1, classic().encode({.time = kArticleTime + 1ms})->value());
  EXPECT_EQ(classic().bounds(kEpoch - 1ns).error().code, Code::kOutOfRange);
}

class SnowflakeGeneratorTest : public testing::Test {
 protected:
  SnowflakeGeneratorTest() {
    std::string pattern = (fs::temp_directory_path() / "idmint-snowflake-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    options_.layout = classic();
    options_.worker = 786;
    options_.state_file = folder_ / "state";
    options_.lock_wait = 0ns;
  }
  ~SnowflakeGeneratorTest() override { fs::remove_all(folder_); }

  Result<std::unique_ptr<SnowflakeGenerator>> open() {
    return SnowflakeGenerator::open(options_, clock_, entropy_);
  }
  SnowflakeParts parts(const Result<Snowflake>& id) {
    return options_.layout.decode(id.value()).value();
  }

  fs::path folder_;
  SnowflakeOptions options_;
  ManualClock clock_{kArticleTime};
  ScriptedEntropy entropy_;
};

TEST_F(SnowflakeGeneratorTest, CountsWithinAUnitAndStartsOverInTheNext) {
  const auto generator = open();
  ASSERT_TRUE(generator) << generator.error().message();
  EXPECT_TRUE((*generator)->made_state_file());
  EXPECT_EQ((*generator)->next(), Snowflake{454947766275219456});
  EXPECT_EQ((*generator)->next(), Snowflake{454947766275219457});
  clock_.advance(1ms);
  EXPECT_EQ(parts((*generator)->next()),
            (SnowflakeParts{.time = kArticleTime + 1ms, .worker = 786, .sequence = 0}));
}

TEST_F(SnowflakeGeneratorTest, EveryOrderOfFieldsIsMinted) {
  options_.layout.order = SnowflakeLayout::Order::kSequenceThenWorker;
  const auto generator = open();
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(parts((*generator)->next()),
              (SnowflakeParts{.time = kArticleTime, .worker = 786, .sequence = i}));
  }
}

TEST_F(SnowflakeGeneratorTest, AnExhaustedUnitWaitsForTheNextOne) {
  const auto generator = open();
  std::vector<Snowflake> ids(4096);
  ASSERT_TRUE((*generator)->next(ids));
  EXPECT_EQ(clock_.sleeps(), 0);
  EXPECT_EQ(ids.back().value() & 4095, 4095U);
  const auto next = (*generator)->next();
  EXPECT_EQ(clock_.sleeps(), 1);
  EXPECT_EQ(clock_.now(), kArticleTime + 1ms);
  EXPECT_EQ(parts(next), (SnowflakeParts{.time = kArticleTime + 1ms, .worker = 786}));
}

TEST_F(SnowflakeGeneratorTest, BulkCrossesUnitsInOrder) {
  const auto generator = open();
  std::vector<Snowflake> ids(10'000);
  ASSERT_TRUE((*generator)->next(ids));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(parts(ids[i]),
              (SnowflakeParts{.time = kArticleTime + std::chrono::milliseconds(i / 4096),
                              .worker = 786,
                              .sequence = static_cast<std::uint32_t>(i % 4096)}));
  }
  EXPECT_EQ(clock_.sleeps(), 2);
}

TEST_F(SnowflakeGeneratorTest, RunAheadTakesTheNextUnitsNumbersAtOnce) {
  options_.max_run_ahead = 5s;
  const auto generator = open();
  ASSERT_TRUE(generator) << generator.error().message();
  std::vector<Snowflake> ids(5001 * 4096);
  ASSERT_TRUE((*generator)->next(ids));
  EXPECT_EQ(clock_.now(), kArticleTime);
  EXPECT_EQ(parts(ids.back()),
            (SnowflakeParts{.time = kArticleTime + 5s, .worker = 786, .sequence = 4095}));
  EXPECT_EQ(std::ranges::adjacent_find(ids, std::greater_equal<>{}), ids.end());
  EXPECT_EQ(parts((*generator)->next()).time, kArticleTime + 5s + 1ms);
  EXPECT_EQ(clock_.now(), kArticleTime + 1ms);
}

TEST_F(SnowflakeGeneratorTest, ARestartAfterRunningAheadGoesOnAboveTheOldIds) {
  options_.max_run_ahead = 5s;
  Snowflake last;
  for (int run = 0; run < 3; ++run) {
    const auto generator = open();
    ASSERT_TRUE(generator) << generator.error().message();
    std::vector<Snowflake> ids(10 * 4096);
    ASSERT_TRUE((*generator)->next(ids));
    EXPECT_GT(ids.front(), last);
    last = ids.back();
  }
}

TEST_F(SnowflakeGeneratorTest, RunAheadWithoutAStateFileIsRefused) {
  options_.max_run_ahead = 1ms;
  options_.state_file.clear();
  EXPECT_EQ(open().error().code, Code::kInvalidArgument);
}

TEST_F(SnowflakeGeneratorTest, AClockSetBackALittleIsOutlived) {
  const auto generator = open();
  const Snowflake before = (*generator)->next().value();
  clock_.set(kArticleTime - options_.max_drift);
  EXPECT_EQ((*generator)->next()->value(), before.value() + 1);
}

TEST_F(SnowflakeGeneratorTest, AClockSetBackTooFarIsRefusedUntilItCatchesUp) {
  const auto generator = open();
  const Snowflake before = (*generator)->next().value();
  clock_.set(kArticleTime - options_.max_drift - 1ns);
  EXPECT_EQ((*generator)->next().error().code, Code::kUnavailable);
  std::array<Snowflake, 3> out;
  EXPECT_EQ((*generator)->next(out).error().code, Code::kUnavailable);
  clock_.set(kArticleTime - options_.max_drift);
  EXPECT_GT((*generator)->next().value(), before);
}

TEST_F(SnowflakeGeneratorTest, ARestartAfterTheClockWentBackGoesOnAboveTheOldIds) {
  std::set<Snowflake> ids;
  Snowflake last;
  for (int run = 0; run < 20; ++run) {
    const auto generator = open();
    ASSERT_TRUE(generator) << generator.error().message();
    EXPECT_EQ((*generator)->made_state_file(), run == 0);
    for (int i = 0; i < 100; ++i) {
      const Snowflake id = (*generator)->next().value();
      EXPECT_GT(id, last);
      last = id;
      ids.insert(id);
    }
    clock_.set(kArticleTime - 1ms * run);
  }
  EXPECT_EQ(ids.size(), 2000U);
}

TEST_F(SnowflakeGeneratorTest, ARestartTooFarBackIsRefusedAndSaysForHowLong) {
  const Snowflake before = (*open())->next().value();
  clock_.set(kArticleTime - 1h);
  const auto refused = open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_THAT(refused.error().message(), HasSubstr("3580.001 s"));
  clock_.set(kArticleTime - 1h + 3580001ms);
  const auto generator = open();
  ASSERT_TRUE(generator) << generator.error().message();
  EXPECT_GT((*generator)->next().value(), before);
}

TEST_F(SnowflakeGeneratorTest, ShortRunsFollowEachOtherWithoutAGap) {
  for (int run = 0; run < 5; ++run) {
    EXPECT_EQ(parts((*open())->next()).time, kArticleTime + 1ms * run);
  }
}

TEST_F(SnowflakeGeneratorTest, AUnitLongerThanMaxDriftCanBeOpenedAgain) {
  options_.layout.unit = 60s;
  Snowflake before;
  for (int run = 0; run < 3; ++run) {
    const auto generator = open();
    ASSERT_TRUE(generator) << generator.error().message();
    const auto id = (*generator)->next();
    ASSERT_TRUE(id);
    EXPECT_LT(before, *id);
    before = *id;
    clock_.advance(60s);
  }
}

TEST_F(SnowflakeGeneratorTest, WithoutAStateFileItStartsAtTheClock) {
  options_.state_file.clear();
  const auto generator = open();
  ASSERT_TRUE(generator);
  EXPECT_FALSE((*generator)->made_state_file());
  EXPECT_EQ((*generator)->next(), Snowflake{454947766275219456});
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(SnowflakeGeneratorTest, TimeHasAnEnd) {
  clock_.set(Instant{3619093655551ms});
  options_.worker = 1023;
  const auto generator = open();
  ASSERT_TRUE((*generator)->next());
  std::vector<Snowflake> rest(4095);
  ASSERT_TRUE((*generator)->next(rest));
  EXPECT_EQ(rest.back(), Snowflake{std::numeric_limits<std::int64_t>::max()});
  EXPECT_EQ((*generator)->next().error().code, Code::kOutOfRange);
  EXPECT_EQ((*generator)->next().error().code, Code::kOutOfRange);
}

TEST_F(SnowflakeGeneratorTest, TheEndOfTheClockIsNoOverflow) {
  options_.layout = {.epoch = kEpoch, .unit = 1h, .time_bits = 40, .sequence_bits = 0};
  clock_.set(Instant::max());
  EXPECT_EQ(open().error().code, Code::kOutOfRange);
}

TEST_F(SnowflakeGeneratorTest, PastTheEndNoFileIsMade) {
  clock_.set(Instant{3619093655552ms});
  const auto late = open();
  ASSERT_EQ(late.error().code, Code::kOutOfRange);
  EXPECT_NE(late.error().message().find("its end, 2084-09-06T15:47:35.551Z, and the clock shows"),
            std::string::npos)
      << late.error().message();
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(SnowflakeGeneratorTest, BeforeTheEpochNothingIsMinted) {
  clock_.set(kEpoch - 1ns);
  const auto early = open();
  ASSERT_EQ(early.error().code, Code::kOutOfRange);
  EXPECT_NE(
      early.error().message().find("its epoch, 2015-01-01T00:00:00Z, and the clock shows 2014-"),
      std::string::npos)
      << early.error().message();
  EXPECT_FALSE(fs::exists(options_.state_file)) << "nothing is left of a mistaken epoch";
  clock_.set(kEpoch);
  EXPECT_EQ(parts((*open())->next()).time, kEpoch);
}

TEST_F(SnowflakeGeneratorTest, OptionsThatAreWrongAreRefused) {
  const auto code = [&](auto change) {
    const SnowflakeOptions before = options_;
    change(options_);
    const Code answer = open().error().code;
    options_ = before;
    return answer;
  };
  EXPECT_EQ(code([](auto& o) { o.worker = 1024; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](auto& o) { o.layout.time_bits = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](auto& o) { o.max_drift = -1ns; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](auto& o) { o.lock_wait = -1ns; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](auto& o) { o.window = -1ns; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](auto& o) { o.max_run_ahead = -1ns; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](auto& o) { o.max_run_ahead = 5s + 1ns; }), Code::kInvalidArgument)
      << "with the window more than max_drift";
  EXPECT_EQ(code([](auto& o) { o.max_run_ahead = std::chrono::nanoseconds::max(); }),
            Code::kInvalidArgument);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(SnowflakeGeneratorTest, ASecondGeneratorOnTheFileIsRefused) {
  const auto first = open();
  EXPECT_EQ(open().error().code, Code::kUnavailable);
  EXPECT_TRUE((*first)->next());
}

TEST_F(SnowflakeGeneratorTest, TheFileOfAnotherLayoutOrWorkerIsRefused) {
  ASSERT_TRUE(open());
  const std::vector<void (*)(SnowflakeOptions&)> changes = {
      [](SnowflakeOptions& o) { o.worker = 785; },
      [](SnowflakeOptions& o) { o.layout.epoch += 1ns; },
      [](SnowflakeOptions& o) { o.layout.unit *= 10; },
      [](SnowflakeOptions& o) { o.layout.worker_bits += 1; },
      [](SnowflakeOptions& o) { o.layout.sequence_bits -= 1; },
      [](SnowflakeOptions& o) { o.layout.order = SnowflakeLayout::Order::kSequenceThenWorker; },
  };
  for (const auto change : changes) {
    const SnowflakeOptions before = options_;
    change(options_);
    EXPECT_EQ(open().error().code, Code::kFailedPrecondition);
    options_ = before;
  }
  EXPECT_TRUE(open());
}

TEST_F(SnowflakeGeneratorTest, LayoutsOfOtherTimeBitsMintTheSameIdsAndShareTheFile) {
  auto first = open();
  ASSERT_TRUE(first) << first.error().message();
  const Snowflake last = (*first)->next().value();
  options_.layout.time_bits += 1;
  EXPECT_EQ(open().error().code, Code::kUnavailable) << "the other layout holds it";
  first->reset();
  const auto second = open();
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_GT((*second)->next().value(), last);
  EXPECT_EQ(read_state_file(options_.state_file)->words[0], 42u) << "of who minted last";
}

TEST_F(SnowflakeGeneratorTest, AFieldWithoutBitsHasNoOrder) {
  options_.layout.sequence_bits = 0;
  Snowflake last;
  {
    const auto first = open();
    ASSERT_TRUE(first) << first.error().message();
    last = (*first)->next().value();
  }
  options_.layout.order = SnowflakeLayout::Order::kSequenceThenWorker;
  const auto second = open();
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_GT((*second)->next().value(), last);
}

TEST_F(SnowflakeGeneratorTest, ARemovedFileStopsItAtTheNextWriteForGood) {
  const auto generator = open();
  ASSERT_TRUE((*generator)->next());
  fs::remove(options_.state_file);
  EXPECT_TRUE((*generator)->next()) << "below the bound that was synced";
  clock_.advance(1min);
  EXPECT_EQ((*generator)->next().error().code, Code::kDataLoss);
  EXPECT_EQ((*generator)->next().error().code, Code::kDataLoss);
}

// A crash leaves the file as it is: the bytes of every moment are put back, and the next run begins
// with them, at a clock that shows the same as then.
TEST_F(SnowflakeGeneratorTest, NoIdIsMintedBeyondWhatTheFileHolds) {
  const auto generator = open();
  fs::path copy = folder_ / "copy";
  for (int i = 0; i < 200; ++i) {
    const Snowflake last = (*generator)->next().value();
    fs::copy_file(options_.state_file, copy, fs::copy_options::overwrite_existing);
    SnowflakeOptions after_crash = options_;
    after_crash.state_file = copy;
    const auto next = SnowflakeGenerator::open(after_crash, clock_, entropy_);
    ASSERT_TRUE(next) << next.error().message();
    ASSERT_GT((*next)->next().value(), last);
    clock_.advance(std::chrono::milliseconds{i % 7 * i});
  }
}

TEST_F(SnowflakeGeneratorTest, RequestsAreFilledInTheirOrderByATask) {
  fakes::ManualExecutor executor;
  options_.executor = &executor;
  const auto generator = SnowflakeGenerator::open(options_, system_clock(), entropy_);
  ASSERT_TRUE(generator) << generator.error().message();
  std::array<Snowflake, 10'000> out;  // of several units
  std::vector<Code> codes;
  const auto note = [&](const Result<void>& result) { codes.push_back(fakes::code_of(result)); };
  const std::span<Snowflake> all(out);
  ASSERT_TRUE((*generator)->submit(all.first(1), note));
  ASSERT_TRUE((*generator)->submit(all.subspan(1), note));
  ASSERT_TRUE((*generator)->submit({}, note));
  EXPECT_TRUE(codes.empty()) << "called back inside submit()";
  executor.run_all();
  EXPECT_EQ(codes, std::vector<Code>(3));
  EXPECT_EQ(std::ranges::adjacent_find(out, std::ranges::greater_equal()), out.end());
}

TEST_F(SnowflakeGeneratorTest, RequestsThatWaitAreBoundedAndAnsweredWhenItIsDestroyed) {
  fakes::ManualExecutor executor;
  options_.executor = &executor;
  options_.max_outstanding = 2;
  auto generator = open();
  ASSERT_TRUE(generator) << generator.error().message();
  std::array<Snowflake, 1> out;
  std::vector<Code> codes;
  const auto note = [&](const Result<void>& result) { codes.push_back(fakes::code_of(result)); };
  ASSERT_TRUE((*generator)->submit(out, note));
  ASSERT_TRUE((*generator)->submit(out, note));
  EXPECT_EQ(fakes::code_of((*generator)->submit(out, note)), Code::kResourceExhausted);
  executor.refuse(Error{Code::kResourceExhausted, "no thread"});
  generator->reset();
  EXPECT_EQ(codes, (std::vector<Code>{Code::kUnavailable, Code::kUnavailable}));
  executor.run_all();  // the task finds nobody
  EXPECT_EQ(codes.size(), 2U);
}

TEST_F(SnowflakeGeneratorTest, AChildOfForkIsRefused) {
  auto generator = open();
  ASSERT_TRUE((*generator)->next());
  fakes::in_child([&] {
    std::array<Snowflake, 2> out;
    EXPECT_EQ(fakes::code_of((*generator)->next()), Code::kFailedPrecondition);
    EXPECT_EQ(fakes::code_of((*generator)->next(out)), Code::kFailedPrecondition);
    EXPECT_EQ(fakes::code_of((*generator)->submit(out, [](const Result<void>&) {})),
              Code::kFailedPrecondition);
    generator->reset();
  });
  EXPECT_EQ(open().error().code, Code::kUnavailable) << "the parent's lock was released";
  EXPECT_TRUE((*generator)->next());
}

TEST_F(SnowflakeGeneratorTest, ThreadsGetDistinctAndIncreasingIds) {
  options_.layout.sequence_bits = 22;
  options_.layout.worker_bits = 1;
  options_.worker = 1;
  const auto generator = SnowflakeGenerator::open(options_, system_clock(), entropy_);
  ASSERT_TRUE(generator) << generator.error().message();
  constexpr std::size_t each = 300'000;
  std::array<std::vector<Snowflake>, 2> minted;
  std::vector<std::thread> threads;
  for (std::vector<Snowflake>& ids : minted) {
    threads.emplace_back([&] {
      ids.resize(each);
      for (std::size_t i = 0; i < each / 2; ++i) ids[i] = (*generator)->next().value();
      for (std::size_t i = each / 2; i < each; i += 100) {
        ASSERT_TRUE((*generator)->next(std::span(ids).subspan(i, 100)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Snowflake> all;
  for (const std::vector<Snowflake>& ids : minted) {
    EXPECT_EQ(std::ranges::adjacent_find(ids, std::greater_equal<>{}), ids.end());
    all.insert(all.end(), ids.begin(), ids.end());
  }
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
}

// 16 ids a millisecond for 16 threads: each call waits its turn, and none fails.
TEST_F(SnowflakeGeneratorTest, ThreadsAtTheCapWaitTheirTurn) {
  options_.layout.sequence_bits = 4;
  const auto generator = SnowflakeGenerator::open(options_, system_clock(), entropy_);
  ASSERT_TRUE(generator) << generator.error().message();
  std::array<std::vector<Snowflake>, 16> minted;
  std::vector<std::thread> threads;
  for (std::vector<Snowflake>& ids : minted) {
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        const Result<Snowflake> id = (*generator)->next();
        ASSERT_TRUE(id) << id.error().message();
        ids.push_back(*id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Snowflake> all;
  for (const std::vector<Snowflake>& ids : minted) all.insert(all.end(), ids.begin(), ids.end());
  std::ranges::sort(all);
  EXPECT_EQ(all.size(), 4800U);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
}

TEST_F(SnowflakeGeneratorTest, ARefusalSaysWhatARestartDoes) {
  const auto refusal = [this] {
    const auto generator = open();
    if (!generator) return generator.error().message();
    EXPECT_TRUE((*generator)->next());
    clock_.advance(-1h);
    const Result<Snowflake> refused = (*generator)->next();
    clock_.advance(1h);
    return refused ? "minted" : refused.error().message();
  };
  EXPECT_THAT(refusal(), HasSubstr("a restart does not mint earlier"));
  options_.state_file.clear();
  EXPECT_THAT(refusal(), HasSubstr("it may mint those ids again: restart with another worker id"));
}

}  // namespace
}  // namespace idmint
