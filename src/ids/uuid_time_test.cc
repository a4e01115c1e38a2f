#include "idmint/uuid_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "tests/fakes/code_of.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/scripted.h"
#include "tests/fakes/temp_folder.h"

namespace idmint {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using fakes::code_of;
using fakes::in_child;
using std::chrono::nanoseconds;
using testing::HasSubstr;

// RFC 9562, appendix A.1 and A.5: 2022-02-22T14:22:22-05:00.
constexpr std::string_view kVersion1 = "c232ab00-9414-11ec-b3c8-9f6bdeced846";
constexpr std::string_view kVersion6 = "1ec9414c-232a-6b00-b3c8-9f6bdeced846";
constexpr Instant kRfcTime{1645557742s};
constexpr HardwareAddress kRfcNode = {0x9f, 0x6b, 0xde, 0xce, 0xd8, 0x46};
constexpr HardwareAddress kCard = {0x02, 0x42, 0xac, 0x11, 0x00, 0x02};

Uuid uuid(std::string_view text) { return Uuid::parse(text).value(); }

UuidTimeParts parts1(const Result<Uuid>& id) { return decode_uuid1(id.value()).value(); }
UuidTimeParts parts6(const Result<Uuid>& id) { return decode_uuid6(id.value()).value(); }

template <class Generator>
void expect_distinct_from_two_threads(Generator& generator) {
  std::vector<std::vector<Uuid>> ids(2, std::vector<Uuid>(100'000));
  {
    std::vector<std::jthread> threads;
    for (auto& mine : ids) {
      threads.emplace_back([&generator, &mine] {
        for (std::size_t i = 0; i < mine.size() / 2; ++i) mine[i] = generator.next().value();
        EXPECT_TRUE(generator.next(std::span(mine).subspan(mine.size() / 2)));
      });
    }
  }
  std::vector<Uuid> all;
  for (const auto& mine : ids) all.insert(all.end(), mine.begin(), mine.end());
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
}

// ---- the values

TEST(UuidTime, VectorsOfTheRfcDecode) {
  const UuidTimeParts expected{.time = kRfcTime, .clock_seq = 0x33c8, .node = kRfcNode};
  EXPECT_EQ(decode_uuid1(uuid(kVersion1)), expected);
  EXPECT_EQ(decode_uuid6(uuid(kVersion6)), expected);
  EXPECT_FALSE(decode_uuid1(uuid(kVersion6)));
  EXPECT_FALSE(decode_uuid6(uuid(kVersion1)));
  EXPECT_FALSE(decode_uuid1(uuid("c232ab00-9414-11ec-f3c8-9f6bdeced846"))) << "another variant";
  EXPECT_FALSE(decode_uuid1(Uuid::nil()));
  EXPECT_FALSE(decode_uuid6(Uuid::max()));
}

TEST(UuidTime, TheNamespacesOfTheRfcAreVersion1) {
  const std::optional<UuidTimeParts> dns = decode_uuid1(kUuidNamespaceDns);
  ASSERT_TRUE(dns);
  EXPECT_EQ(dns->clock_seq, 0xb4);
  EXPECT_EQ(dns->node, (HardwareAddress{0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8}));
  EXPECT_EQ(std::chrono::floor<std::chrono::days>(dns->time),
            std::chrono::sys_days{std::chrono::year{1998} / 2 / 4});
}

TEST(UuidTime, ATimeThatNoInstantHoldsIsNotDecoded) {
  EXPECT_FALSE(decode_uuid1(uuid("00000000-0000-1000-8000-000000000000"))) << "1582";
  EXPECT_FALSE(decode_uuid6(uuid("ffffffff-ffff-6fff-8000-000000000000"))) << "5236";
  EXPECT_FALSE(decode_uuid2(uuid("000003e8-0000-2000-8000-000000000000"))) << "1582";
}

// Written apart from the sources, field by field.
Uuid version1(std::uint64_t timestamp, std::uint16_t clock_seq, const HardwareAddress& node) {
  char text[80];
  std::snprintf(text, sizeof text, "%08llx-%04llx-1%03llx-%04x-%02x%02x%02x%02x%02x%02x",
                static_cast<unsigned long long>(timestamp & 0xffffffff),
                static_cast<unsigned long long>(timestamp >> 32 & 0xffff),
                static_cast<unsigned long long>(timestamp >> 48), 0x8000U | clock_seq, node[0],
                node[1], node[2], node[3], node[4], node[5]);
  return uuid(text);
}

Uuid version6(std::uint64_t timestamp, std::uint16_t clock_seq, const HardwareAddress& node) {
  char text[80];
  std::snprintf(text, sizeof text, "%08llx-%04llx-6%03llx-%04x-%02x%02x%02x%02x%02x%02x",
                static_cast<unsigned long long>(timestamp >> 28),
                static_cast<unsigned long long>(timestamp >> 12 & 0xffff),
                static_cast<unsigned long long>(timestamp & 0xfff), 0x8000U | clock_seq, node[0],
                node[1], node[2], node[3], node[4], node[5]);
  return uuid(text);
}

constexpr std::int64_t kLastStep = Instant::max().time_since_epoch().count() / 100;
constexpr std::int64_t kStepsTo1970 = 122'192'928'000'000'000;

RC_GTEST_PROP(UuidTime, DecodingIsTheInverseOfTheLayout, (const HardwareAddress& node)) {
  const auto step = *rc::gen::inRange<std::int64_t>(-kLastStep, kLastStep);
  const auto clock_seq = *rc::gen::inRange<std::uint16_t>(0, 1 << 14);
  const auto timestamp = static_cast<std::uint64_t>(kStepsTo1970 + step);
  const UuidTimeParts parts{Instant{nanoseconds{step * 100}}, clock_seq, node};
  RC_ASSERT(decode_uuid1(version1(timestamp, clock_seq, node)) == parts);
  const Uuid id6 = version6(timestamp, clock_seq, node);
  RC_ASSERT(decode_uuid6(id6) == parts);
  const Bounds<Uuid> bounds = uuid6_bounds(parts.time + nanoseconds{99});
  RC_ASSERT(uuid6_bounds(parts.time) == bounds);
  RC_ASSERT(bounds.smallest <= id6 && id6 <= bounds.largest);
  RC_ASSERT(bounds.largest < uuid6_bounds(parts.time + nanoseconds{100}).smallest);
}

TEST(UuidTime, BoundsOfVersion6) {
  const Bounds<Uuid> bounds = uuid6_bounds(kRfcTime);
  EXPECT_EQ(bounds.smallest.to_string(), "1ec9414c-232a-6b00-8000-000000000000");
  EXPECT_EQ(bounds.largest.to_string(), "1ec9414c-232a-6b00-bfff-ffffffffffff");
  EXPECT_LT(uuid6_bounds(Instant::min()).largest, uuid6_bounds(Instant{}).smallest);
  EXPECT_LT(uuid6_bounds(Instant{}).largest, uuid6_bounds(Instant::max()).smallest);
}

// ---- version 1

class Uuid1Test : public testing::Test {
 protected:
  Result<std::unique_ptr<Uuid1Generator>> open() {
    return Uuid1Generator::open(options_, clock_, entropy_);
  }
  void keep_state() { options_.state_file = folder_.path("node.state"); }
  [[nodiscard]] fs::path copy_of_state() const {
    const fs::path copy = folder_.path("copy");
    fs::copy_file(options_.state_file, copy, fs::copy_options::overwrite_existing);
    return copy;
  }

  fakes::TempFolder folder_;
  Uuid1Options options_{.node = kCard};
  fakes::ManualClock clock_{kRfcTime + 1234567ns};
  fakes::ScriptedEntropy entropy_;
};

TEST_F(Uuid1Test, TheVectorOfTheRfcIsMinted) {
  clock_.set(kRfcTime);
  // The clock sequence is the low 14 bits of eight bytes.
  entropy_.push(std::vector<std::uint8_t>{0xc8, 0xf3, 1, 2, 3, 4, 5, 6});
  options_.node = kRfcNode;
  EXPECT_EQ((*open())->next()->to_string(), kVersion1);
}

TEST_F(Uuid1Test, HasTheClocksTimeAndThenCountsSteps) {
  const auto generator = open();
  const UuidTimeParts first = parts1((*generator)->next());
  EXPECT_EQ(first.time, kRfcTime + 1234500ns);
  EXPECT_EQ(first.node, kCard);
  std::vector<Uuid> more(3);
  ASSERT_TRUE((*generator)->next(more));
  for (std::size_t i = 0; i < more.size(); ++i) {
    const UuidTimeParts parts = parts1(more[i]);
    EXPECT_EQ(parts.time, first.time + 100ns * (i + 1));
    EXPECT_EQ(parts.clock_seq, first.clock_seq);
    EXPECT_EQ(parts.node, first.node);
  }
}

TEST_F(Uuid1Test, AMillisecondHoldsTenThousandAndThenTheNextIsWaitedFor) {
  clock_.set(kRfcTime);
  const auto generator = open();
  std::vector<Uuid> ids(10'000);
  ASSERT_TRUE((*generator)->next(ids));
  EXPECT_EQ(parts1(ids.front()).time, kRfcTime);
  EXPECT_EQ(parts1(ids.back()).time, kRfcTime + 999'900ns);
  EXPECT_EQ(clock_.sleeps(), 0);
  EXPECT_EQ(parts1((*generator)->next()).time, kRfcTime + 1ms);
  EXPECT_EQ(clock_.sleeps(), 1);
}

TEST_F(Uuid1Test, ARandomNodeIsMulticastAndAnotherOneEachTime) {
  options_.node.reset();
  std::set<HardwareAddress> nodes;
  for (int i = 0; i < 20; ++i) {
    const HardwareAddress node = parts1((*open())->next()).node;
    EXPECT_EQ(node[0] & 1, 1);
    nodes.insert(node);
  }
  EXPECT_EQ(nodes.size(), 20U);
}

TEST_F(Uuid1Test, AClockSetBackALittleIsCountedOnUnderTheSameClockSequence) {
  const auto generator = open();
  UuidTimeParts last = parts1((*generator)->next());
  for (const nanoseconds step : {-5'000ms, 0ms, -14'998ms, 19'999ms, 1ms}) {
    clock_.advance(step);
    const UuidTimeParts parts = parts1((*generator)->next());
    EXPECT_GT(parts.time, last.time);
    EXPECT_EQ(parts.clock_seq, last.clock_seq);
    last = parts;
  }
}

TEST_F(Uuid1Test, PastMaxDriftTheClockSequenceIsAnotherOneEachTime) {
  for (const bool kept : {false, true}) {
    if (kept) keep_state();
    const auto generator = open();
    const UuidTimeParts before = parts1((*generator)->next());
    std::unordered_set<Uuid> ids;
    for (int i = 1; i <= 50; ++i) {
      // Every time the same 100 ns: only the clock sequence keeps these apart.
      clock_.set(kRfcTime - 1h);
      const Result<Uuid> id = (*generator)->next();
      ASSERT_TRUE(id) << id.error().message();
      const UuidTimeParts parts = parts1(id);
      EXPECT_EQ(parts.time, kRfcTime - 1h);
      EXPECT_EQ(parts.clock_seq, (before.clock_seq + i) & 0x3fff);
      EXPECT_EQ(parts.node, before.node);
      EXPECT_TRUE(ids.insert(*id).second);
      clock_.set(kRfcTime + 1h);
      ASSERT_TRUE((*generator)->next());
    }
    clock_.set(kRfcTime + 2h);
  }
}

TEST_F(Uuid1Test, ClockSequencesDoNotWrapRound) {
  const auto generator = open();
  ASSERT_TRUE((*generator)->next());
  std::unordered_set<Uuid> ids;
  for (int i = 1; i < 1 << 14; ++i) {
    clock_.set(kRfcTime - 1h);
    const Result<Uuid> id = (*generator)->next();
    ASSERT_TRUE(id) << i;
    ASSERT_TRUE(ids.insert(*id).second) << i;
    clock_.set(kRfcTime + 1h);
    ASSERT_TRUE((*generator)->next());
  }
  clock_.set(kRfcTime - 1h);
  EXPECT_EQ((*generator)->next().error().code, Code::kOutOfRange);
  EXPECT_EQ((*generator)->next().error().code, Code::kOutOfRange);
}

TEST_F(Uuid1Test, ARestartGoesOnAboveTheBoundUnderTheSameClockSequence) {
  keep_state();
  for (const bool random : {false, true}) {
    if (random) {
      options_.node.reset();
      options_.state_file = folder_.path("random.state");
    }
    std::optional<UuidTimeParts> last;
    for (int run = 0; run < 20; ++run) {
      const auto generator = open();
      ASSERT_TRUE(generator) << generator.error().message();
      EXPECT_EQ((*generator)->made_state_file(), run == 0);
      for (int i = 0; i < 10; ++i) {
        const UuidTimeParts parts = parts1((*generator)->next());
        if (last) {
          EXPECT_GT(parts.time, last->time);
          EXPECT_EQ(parts.clock_seq, last->clock_seq);
          EXPECT_EQ(parts.node, last->node);
        }
        last = parts;
      }
      clock_.advance(-1ms);
    }
  }
}

TEST_F(Uuid1Test, ARestartTooFarBackTakesTheNextClockSequence) {
  keep_state();
  UuidTimeParts last = parts1((*open())->next());
  for (int run = 1; run <= 3; ++run) {
    clock_.advance(-1h);
    {
      const auto generator = open();
      ASSERT_TRUE(generator) << generator.error().message();
      const UuidTimeParts parts = parts1((*generator)->next());
      EXPECT_EQ(parts.clock_seq, (last.clock_seq + 1) & 0x3fff);
      EXPECT_EQ(parts.time, last.time - 1h) << "at the clock's time";
      last = parts;
    }
    clock_.advance(1ms);  // and is kept from then on
    const UuidTimeParts again = parts1((*open())->next());
    EXPECT_EQ(again.clock_seq, last.clock_seq);
    last = again;
  }
}

// A crash leaves the file as it is: the bytes of every moment are put back, and the next run begins
// with them at a clock that shows anything.
TEST_F(Uuid1Test, NoIdIsMintedBeyondWhatTheFileHolds) {
  keep_state();
  const auto generator = open();
  std::unordered_set<Uuid> minted;
  for (int i = 0; i < 40; ++i) {
    const Result<Uuid> id = (*generator)->next();
    ASSERT_TRUE(id) << id.error().message();
    ASSERT_TRUE(minted.insert(*id).second);
    Uuid1Options after_crash = options_;
    after_crash.state_file = copy_of_state();
    for (const nanoseconds step : {0ns, nanoseconds{-10s}, nanoseconds{-2h}, nanoseconds{5ms}}) {
      fakes::ManualClock clock(clock_.now() + step);
      const auto next = Uuid1Generator::open(after_crash, clock, entropy_);
      ASSERT_TRUE(next) << next.error().message();
      ASSERT_FALSE(minted.contains((*next)->next().value())) << i << " " << step.count();
      fs::copy_file(options_.state_file, after_crash.state_file,
                    fs::copy_options::overwrite_existing);
    }
    clock_.advance(nanoseconds{i * 7919 % 1'000'003} - (i % 5 == 4 ? 1h : 0h));
  }
}

TEST_F(Uuid1Test, TheClockSequenceIsSyncedBeforeAnIdUnderIt) {
  keep_state();
  const auto generator = open();
  ASSERT_TRUE((*generator)->next());
  fs::remove(options_.state_file);
  for (const nanoseconds step : {nanoseconds{-1h}, nanoseconds{1h}, nanoseconds{1min}}) {
    clock_.advance(step);
    EXPECT_EQ((*generator)->next().error().code, Code::kDataLoss)
        << "for ever, below the bound that was synced too";
  }
}

TEST_F(Uuid1Test, AFileIsForOneNode) {
  keep_state();
  ASSERT_TRUE(open());
  options_.node = kRfcNode;
  const auto other = open();
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(other.error().message(), HasSubstr("02:42:ac:11:00:02"));
  options_.node.reset();
  EXPECT_EQ(open().error().code, Code::kFailedPrecondition);
}

TEST_F(Uuid1Test, ASecondGeneratorOnTheFileIsRefused) {
  keep_state();
  options_.lock_wait = {};
  const auto first = open();
  EXPECT_EQ(open().error().code, Code::kUnavailable);
  EXPECT_TRUE((*first)->next());
}

TEST_F(Uuid1Test, AChildOfForkStartsAfreshOrIsRefused) {
  for (const bool random : {false, true}) {
    if (random) options_.node.reset();
    const auto generator = open();
    const UuidTimeParts parents = parts1((*generator)->next());
    // The same draw as the parent's must not give the same clock sequence.
    EXPECT_TRUE(in_child([&] {
      const std::vector<std::uint8_t> draw = {static_cast<std::uint8_t>(parents.clock_seq),
                                              static_cast<std::uint8_t>(parents.clock_seq >> 8),
                                              0,
                                              0,
                                              0,
                                              0,
                                              0,
                                              0};
      if (!random) entropy_.push(draw);
      const UuidTimeParts childs = parts1((*generator)->next());
      return childs.clock_seq != parents.clock_seq && (childs.node != parents.node) == random;
    }));
    EXPECT_EQ(parts1((*generator)->next()).time, parents.time + 100ns) << "the parent goes on";
  }
  keep_state();
  const auto generator = open();
  ASSERT_TRUE((*generator)->next());
  EXPECT_TRUE(in_child([&] {
    std::vector<Uuid> ids(2);
    return (*generator)->next().error().code == Code::kFailedPrecondition &&
           (*generator)->next(ids).error().code == Code::kFailedPrecondition;
  }));
  EXPECT_TRUE((*generator)->next());
}

TEST_F(Uuid1Test, TimesOutsideAreOutOfRange) {
  clock_.set(Instant{-1ns});
  const auto generator = open();
  EXPECT_EQ((*generator)->next().error().code, Code::kOutOfRange);
  clock_.set(Instant::max());
  EXPECT_EQ((*generator)->next().error().code, Code::kOutOfRange);
  keep_state();
  EXPECT_EQ(open().error().code, Code::kOutOfRange);
  clock_.set(kRfcTime);
  ASSERT_TRUE(open());
  clock_.set(Instant{-1ns});
  EXPECT_EQ(open().error().code, Code::kOutOfRange);
}

TEST_F(Uuid1Test, OptionsThatAreWrongAreRefused) {
  options_.window = 21s;
  EXPECT_TRUE(open()) << "no file, no window";
  keep_state();
  EXPECT_EQ(open().error().code, Code::kInvalidArgument);
  options_ = {.max_drift = -1ns};
  EXPECT_EQ(open().error().code, Code::kInvalidArgument);
  options_ = {.lock_wait = -1ns};
  EXPECT_EQ(open().error().code, Code::kInvalidArgument);
  options_ = {.window = -1ns};
  EXPECT_EQ(open().error().code, Code::kInvalidArgument);
}

TEST_F(Uuid1Test, TwoThreadsNeverRepeatAnId) {
  const auto practical = Uuid1Generator::open();
  expect_distinct_from_two_threads(**practical);
  keep_state();
  const auto kept = Uuid1Generator::open(options_);
  expect_distinct_from_two_threads(**kept);
}

TEST_F(Uuid1Test, TwoThreadsNeverRepeatAnIdUnderAClockThatJumps) {
  const auto generator = open();
  std::vector<std::vector<Uuid>> ids(2);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : ids) {
      threads.emplace_back([&] {
        for (int i = 0; i < 20'000; ++i) {
          if (&mine == ids.data() && i % 10 == 0) {
            clock_.set(i % 20 == 0 ? kRfcTime : kRfcTime + 1min);
          }
          if (const Result<Uuid> id = (*generator)->next()) mine.push_back(*id);
        }
      });
    }
  }
  std::vector<Uuid> all;
  for (const auto& mine : ids) {
    EXPECT_GT(mine.size(), 10'000U);
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
}

// ---- version 2

class Uuid2Test : public testing::Test {
 protected:
  Result<std::unique_ptr<Uuid2Generator>> open() {
    return Uuid2Generator::open(options_, clock_, entropy_);
  }
  static Uuid2Parts parts(const Result<Uuid>& id) { return decode_uuid2(id.value()).value(); }

  static constexpr nanoseconds kTick{429'496'729'600};
  fakes::TempFolder folder_;
  Uuid2Options options_{.domain = DceDomain::kGroup,
                        .local_id = 1000,
                        .node = kRfcNode,
                        .state_file = folder_.path("group-1000.state")};
  fakes::ManualClock clock_{kRfcTime};
  fakes::ScriptedEntropy entropy_;
};

TEST_F(Uuid2Test, IsLocalIdTickClockDomainAndNode) {
  const Result<Uuid> id = (*open())->next();
  ASSERT_TRUE(id);
  // The upper 28 bits of the time of the RFC's vector for version 1.
  EXPECT_EQ(id->to_string(), "000003e8-9414-21ec-8001-9f6bdeced846");
  const Uuid2Parts expected{.time = Instant{nanoseconds{(0x1ec941400000000 - kStepsTo1970) * 100}},
                            .clock = 0,
                            .domain = 1,
                            .local_id = 1000,
                            .node = kRfcNode};
  EXPECT_EQ(decode_uuid2(*id), expected);
  EXPECT_LE(expected.time, kRfcTime);
  EXPECT_LT(kRfcTime, expected.time + kTick);
  EXPECT_FALSE(decode_uuid2(uuid(kVersion1)));
}

RC_GTEST_PROP(Uuid2, DecodingIsTheInverseOfTheLayout,
              (std::uint32_t local_id, std::uint8_t domain, const HardwareAddress& node)) {
  constexpr std::uint64_t first = (kStepsTo1970 - kLastStep) / (std::int64_t{1} << 32) + 1;
  constexpr std::uint64_t last = (kStepsTo1970 + kLastStep) / (std::int64_t{1} << 32);
  const auto tick = *rc::gen::inRange(first, last);
  const auto clock = *rc::gen::inRange<std::uint8_t>(0, 64);
  char text[80];
  std::snprintf(text, sizeof text, "%08x-%04x-2%03x-%02x%02x-%02x%02x%02x%02x%02x%02x", local_id,
                static_cast<unsigned>(tick & 0xffff), static_cast<unsigned>(tick >> 16),
                0x80U | clock, domain, node[0], node[1], node[2], node[3], node[4], node[5]);
  const Uuid2Parts expected{
      Instant{nanoseconds{(static_cast<std::int64_t>(tick << 32) - kStepsTo1970) * 100}}, clock,
      domain, local_id, node};
  RC_ASSERT(decode_uuid2(uuid(text)) == expected);
}

TEST_F(Uuid2Test, SixtyFourInATickAcrossRestartsAndThenTheWaitIsSaid) {
  std::unordered_set<Uuid> ids;
  for (int i = 0; i < 64; ++i) {
    const auto generator = open();  // another one for each
    ASSERT_TRUE(generator) << generator.error().message();
    EXPECT_EQ((*generator)->made_state_file(), i == 0);
    const Result<Uuid> id = (*generator)->next();
    ASSERT_TRUE(id) << i << " " << id.error().message();
    EXPECT_EQ(parts(id).clock, i);
    EXPECT_TRUE(ids.insert(*id).second);
  }
  const auto generator = open();
  const Result<Uuid> refused = (*generator)->next();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  const Instant end = parts(*ids.begin()).time + kTick;
  const auto wait = std::chrono::ceil<std::chrono::seconds>(end - clock_.now());
  EXPECT_THAT(refused.error().message(), HasSubstr("in " + std::to_string(wait.count()) + " s"));
  clock_.set(end - 100ns);
  EXPECT_EQ((*generator)->next().error().code, Code::kResourceExhausted);
  clock_.set(end);
  for (int i = 0; i < 64; ++i) {
    const Result<Uuid> id = (*generator)->next();
    ASSERT_TRUE(id) << id.error().message();
    EXPECT_EQ(parts(id).time, end);
    EXPECT_TRUE(ids.insert(*id).second);
  }
  EXPECT_EQ((*generator)->next().error().code, Code::kResourceExhausted);
}

TEST_F(Uuid2Test, ManyAreMintedInOneCallOrNone) {
  const auto generator = open();
  std::vector<Uuid> ids(60);
  ASSERT_TRUE((*generator)->next(ids));
  EXPECT_EQ(std::unordered_set<Uuid>(ids.begin(), ids.end()).size(), 60U);
  EXPECT_EQ(code_of((*generator)->next(std::span(ids).first(5))), Code::kResourceExhausted);
  EXPECT_EQ(code_of((*generator)->next()), Code::kResourceExhausted) << "the other four are lost";
  EXPECT_TRUE((*generator)->next(std::span<Uuid>()));
}

TEST_F(Uuid2Test, EachIdIsOneDurableWrite) {
  const auto generator = open();
  std::unordered_set<Uuid> ids;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(ids.insert((*generator)->next().value()).second);
    Uuid2Options after_crash = options_;
    after_crash.state_file = folder_.path("copy");
    fs::copy_file(options_.state_file, after_crash.state_file,
                  fs::copy_options::overwrite_existing);
    const auto next = Uuid2Generator::open(after_crash, clock_, entropy_);
    ASSERT_TRUE(next) << next.error().message();
    const Result<Uuid> id = (*next)->next();
    EXPECT_FALSE(ids.contains(id.value()));
    EXPECT_EQ(parts(id).clock, i + 1) << "nothing is skipped";
  }
}

TEST_F(Uuid2Test, AStateFileThatIsGoneStopsIt) {
  const auto generator = open();
  ASSERT_TRUE((*generator)->next());
  fs::remove(options_.state_file);
  EXPECT_EQ((*generator)->next().error().code, Code::kDataLoss);
  EXPECT_EQ((*generator)->next().error().code, Code::kDataLoss);
}

TEST_F(Uuid2Test, AClockSetBackBehindTheTickIsRefused) {
  std::unique_ptr<Uuid2Generator> generator = open().value();
  clock_.set(parts(generator->next()).time - 1s);
  for (int run = 0; run < 2; ++run) {
    const Result<Uuid> refused = generator->next();
    ASSERT_FALSE(refused) << run;
    EXPECT_EQ(refused.error().code, Code::kUnavailable);
    EXPECT_THAT(refused.error().message(), HasSubstr("in 1 s"));
    generator.reset();
    generator = open().value();
  }
  clock_.advance(1s);
  EXPECT_EQ(parts(generator->next()).clock, 1);
}

TEST_F(Uuid2Test, AFileIsForOneNodeDomainAndLocalId) {
  ASSERT_TRUE(open());
  const std::vector<void (*)(Uuid2Options&)> changes = {
      [](Uuid2Options& o) { o.domain = DceDomain::kPerson; },
      [](Uuid2Options& o) { o.local_id = 1001; },
      [](Uuid2Options& o) { o.node = kCard; },
      [](Uuid2Options& o) { o.node.reset(); },
  };
  for (const auto change : changes) {
    const Uuid2Options before = options_;
    change(options_);
    EXPECT_EQ(open().error().code, Code::kFailedPrecondition);
    options_ = before;
  }
}

TEST_F(Uuid2Test, ARandomNodeIsKept) {
  options_.node.reset();
  const HardwareAddress node = parts((*open())->next()).node;
  EXPECT_EQ(node[0] & 1, 1);
  EXPECT_EQ(parts((*open())->next()).node, node);
}

TEST_F(Uuid2Test, OptionsThatAreWrongAreRefused) {
  options_.lock_wait = -1ns;
  EXPECT_EQ(open().error().code, Code::kInvalidArgument);
  options_.lock_wait = {};
  options_.domain = static_cast<DceDomain>(3);
  EXPECT_EQ(open().error().code, Code::kInvalidArgument);
  options_.domain = DceDomain::kOrg;
  options_.state_file.clear();
  EXPECT_EQ(open().error().code, Code::kInvalidArgument);
}

TEST_F(Uuid2Test, AChildOfForkIsRefused) {
  const auto generator = open();
  ASSERT_TRUE((*generator)->next());
  EXPECT_EQ(in_child([&] { return code_of((*generator)->next()); }), Code::kFailedPrecondition);
  EXPECT_TRUE((*generator)->next());
}

// Keeps whoever asks for the time until it is opened.
class GatedClock final : public Clock {
 public:
  Instant now() noexcept override {
    asked = true;
    opened.wait(false);
    return kRfcTime;
  }
  void sleep_until(Instant, std::chrono::nanoseconds) noexcept override {}

  std::atomic<bool> asked{false};
  std::atomic<bool> opened{false};
};

TEST_F(Uuid2Test, AChildOfForkDoesNotWaitForAThreadOfItsParent) {
  GatedClock clock;
  const auto generator = Uuid2Generator::open(options_, clock, entropy_);
  ASSERT_TRUE(generator);
  std::jthread minting([&] { EXPECT_TRUE((*generator)->next()); });
  while (!clock.asked) std::this_thread::yield();
  EXPECT_EQ(in_child([&] { return code_of((*generator)->next()); }), Code::kFailedPrecondition);
  clock.opened = true;
  clock.opened.notify_all();
}

TEST_F(Uuid2Test, TwoThreadsShareTheSixtyFour) {
  const auto generator = open();
  std::vector<std::vector<Uuid>> ids(2);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : ids) {
      threads.emplace_back([&] {
        for (Result<Uuid> id = (*generator)->next(); id; id = (*generator)->next()) {
          mine.push_back(*id);
        }
      });
    }
  }
  std::unordered_set<Uuid> all;
  for (const auto& mine : ids) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), 64U);
  EXPECT_EQ(ids[0].size() + ids[1].size(), 64U);
}

// ---- version 6

TEST(Uuid6, TheVectorOfTheRfcIsMinted) {
  fakes::ManualClock clock(kRfcTime);
  // 0xb3c8: the counter is 0x33, of which the seed may have five bits; counted up to it below.
  fakes::ScriptedEntropy entropy;
  entropy.push(std::vector<std::uint8_t>{0x13, 0, 0, 0, 0, 0, 0, 0});
  std::vector<std::uint8_t> tail = {0x46, 0xd8, 0xce, 0xde, 0x6b, 0x9f, 0xc8, 0xff};
  for (int i = 0; i <= 0x33 - 0x13; ++i) entropy.push(tail);
  Uuid6Generator generator({}, clock, entropy);
  for (int i = 0; i < 0x33 - 0x13; ++i) ASSERT_TRUE(generator.next());
  EXPECT_EQ(generator.next()->to_string(), kVersion6);
}

TEST(Uuid6, IsIncreasingOneByOneInBulkAndUnderAClockThatJumps) {
  fakes::ManualClock clock(kRfcTime + 999'999ns);
  Uuid6Generator generator({}, clock);
  Uuid previous = generator.next().value();
  EXPECT_EQ(parts6(previous).time, kRfcTime + 999'900ns);
  std::vector<Uuid> bulk(700);
  for (const auto step : {0ms, 1ms, 0ms, -5'000ms, 0ms, 5'001ms, -19'990ms, 0ms}) {
    clock.advance(step);
    const Uuid one = generator.next().value();
    EXPECT_LT(previous, one);
    ASSERT_TRUE(generator.next(bulk));
    EXPECT_LT(one, bulk.front());
    EXPECT_EQ(std::ranges::adjacent_find(bulk, std::greater_equal<>{}), bulk.end());
    previous = bulk.back();
  }
}

TEST(Uuid6, ClockSequenceAndNodeAreFreshInEachId) {
  fakes::ManualClock clock(kRfcTime);
  Uuid6Generator generator({}, clock);
  std::set<HardwareAddress> nodes;
  std::set<int> clock_seqs;
  std::vector<Uuid> ids(1000);
  ASSERT_TRUE(generator.next(std::span(ids).first(500)));
  for (std::size_t i = 500; i < ids.size(); ++i) ids[i] = generator.next().value();
  for (const Uuid& id : ids) {
    const UuidTimeParts parts = parts6(id);
    EXPECT_EQ(parts.node[0] & 1, 1);
    nodes.insert(parts.node);
    clock_seqs.insert(parts.clock_seq & 0xff);
  }
  EXPECT_EQ(nodes.size(), ids.size());
  EXPECT_GT(clock_seqs.size(), 200U) << "of 256, 1000 drawn";
}

TEST(Uuid6, AMillisecondHolds640Thousand) {
  fakes::ManualClock clock(kRfcTime);
  Uuid6Generator generator({}, clock);
  std::vector<Uuid> ids(640'000 - 31);
  ASSERT_TRUE(generator.next(ids));
  EXPECT_EQ(clock.sleeps(), 0);
  EXPECT_LT(parts6(ids.back()).time, kRfcTime + 1ms);
  std::vector<Uuid> more(32);
  ASSERT_TRUE(generator.next(more));
  EXPECT_EQ(clock.sleeps(), 1);
  EXPECT_GE(parts6(more.back()).time, kRfcTime + 1ms);
  EXPECT_LT(ids.back(), more.front());
}

TEST(Uuid6, PastMaxDriftItStartsAfreshOrRefusesWhenStrict) {
  fakes::ManualClock clock(kRfcTime);
  Uuid6Generator practical({}, clock);
  Uuid6Generator strict({.strict = true}, clock);
  ASSERT_TRUE(practical.next());
  ASSERT_TRUE(strict.next());
  clock.advance(-1h);
  EXPECT_EQ(parts6(practical.next()).time, clock.now());
  EXPECT_EQ(strict.next().error().code, Code::kUnavailable);
  clock.set(Instant{-1ns});
  EXPECT_EQ(practical.next().error().code, Code::kOutOfRange);
}

TEST(Uuid6, AChildOfForkStartsAfresh) {
  fakes::ManualClock clock(kRfcTime);
  Uuid6Generator generator({}, clock);
  std::vector<Uuid> before(100);
  ASSERT_TRUE(generator.next(before));
  // A child that went on would be in the next 100 ns.
  EXPECT_TRUE(in_child([&] {
    const Uuid id = generator.next().value();
    return parts6(id).time == kRfcTime && (parts6(id).clock_seq >> 8) < 32 &&
           std::ranges::find(before, id) == before.end();
  }));
}

TEST(Uuid6, TwoThreadsNeverRepeatAnIdAndEachSeesThemIncrease) {
  Uuid6Generator generator;
  expect_distinct_from_two_threads(generator);
  std::vector<std::vector<Uuid>> ids(2, std::vector<Uuid>(100'000));
  {
    std::vector<std::jthread> threads;
    for (auto& mine : ids) {
      threads.emplace_back([&] {
        for (Uuid& id : mine) id = generator.next().value();
      });
    }
  }
  for (const auto& mine : ids) {
    EXPECT_EQ(std::ranges::adjacent_find(mine, std::greater_equal<>{}), mine.end());
  }
}

}  // namespace
}  // namespace idmint
