#include "advice/layout_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "idmint/clock.h"

namespace idmint::advice {
namespace {

using namespace std::chrono_literals;
using Order = SnowflakeLayout::Order;

LayoutUse all_of(const SnowflakeLayout& layout) { return {layout, {0, layout.max_worker()}}; }

LayoutChange change(const char* from, const char* to) {
  return {all_of(*parse_snowflake_layout(from)), all_of(*parse_snowflake_layout(to))};
}

Instant at(const char* time) { return *parse_time(time); }

// ---- against a count of every id

// All times are multiples of it.
constexpr std::chrono::nanoseconds kStep = 100us;

// Every id of the layout and the beginning of its time unit, by encode().
std::map<std::uint64_t, Instant> ids_of(const LayoutUse& use, Instant since) {
  const SnowflakeLayout& layout = use.layout;
  std::map<std::uint64_t, Instant> ids;
  for (std::int64_t tick = 0; tick <= layout.max_tick(); ++tick) {
    const Instant time = layout.epoch + tick * layout.unit;
    if (time + layout.unit <= since) continue;
    for (std::uint32_t worker = use.workers.least; worker <= use.workers.most; ++worker) {
      for (std::uint32_t sequence = 0; sequence <= layout.max_sequence(); ++sequence) {
        ids[layout.encode({time, worker, sequence})->value()] = time;
      }
    }
  }
  return ids;
}

struct Counted {
  explicit Counted(const LayoutChange& the_change)
      : change(the_change),
        from(ids_of(change.from, change.since)),
        to(ids_of(change.to, Instant::min())) {}

  // The smallest that the old generators minted before they stopped, and the new ones mint.
  [[nodiscard]] std::optional<std::uint64_t> shared(Instant stop, Instant start) const {
    for (const auto& [id, time] : from) {
      const auto same = to.find(id);
      if (same == to.end() || time > stop + change.clock_error + change.drift) continue;
      if (start - change.clock_error < same->second + change.to.layout.unit) return id;
    }
    return std::nullopt;
  }

  [[nodiscard]] Instant end() const {
    return change.to.layout.epoch + (change.to.layout.max_tick() + 1) * change.to.layout.unit;
  }

  const LayoutChange change;
  const std::map<std::uint64_t, Instant> from;
  const std::map<std::uint64_t, Instant> to;
};

template <class Test>
std::optional<Instant> first(Instant begin, Instant end, const Test& test) {
  for (Instant time = begin; time < end; time += kStep) {
    if (test(time)) return time;
  }
  return std::nullopt;
}

// From the whole range, in the first cases too.
template <class Number>
Number some(Number least, Number end) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<Number>(least, end));
}

LayoutUse tiny_use(bool all_workers) {
  SnowflakeLayout layout{.epoch = Instant{some(0, 40) * kStep},
                         .unit = some(1, 7) * kStep,
                         .time_bits = some(1, 6),
                         .worker_bits = some(0, 4),
                         .sequence_bits = some(0, 4)};
  if (*rc::gen::arbitrary<bool>()) layout.order = Order::kSequenceThenWorker;
  LayoutUse use = all_of(layout);
  if (!all_workers) {
    use.workers.most = some<std::uint32_t>(0, layout.max_worker() + 1);
    use.workers.least = some<std::uint32_t>(0, use.workers.most + 1);
  }
  return use;
}

LayoutChange tiny_change() {
  const bool all_workers = *rc::gen::arbitrary<bool>();
  LayoutChange change{.from = tiny_use(all_workers),
                      .to = tiny_use(all_workers),
                      .drift = some(0, 8) * kStep,
                      .clock_error = some(0, 8) * kStep};
  if (*rc::gen::arbitrary<bool>()) change.since = Instant{some(0, 200) * kStep};
  return change;
}

std::optional<std::uint64_t> value(const std::optional<SharedId>& shared) {
  if (!shared) return std::nullopt;
  return shared->id.value();
}

RC_GTEST_PROP(LayoutChange, SharesWhatACountOfAllIdsShares, ()) {
  const Counted counted(tiny_change());
  const LayoutChange& the_change = counted.change;
  for (int i = 0; i < 20; ++i) {
    const Instant stop{some(-10, 300) * kStep};
    const Instant start{some(-10, 300) * kStep};
    const std::optional<SharedId> shared = shared_id(the_change, stop, start);
    RC_ASSERT(value(shared) == counted.shared(stop, start));
    if (!shared) continue;
    RC_ASSERT(*the_change.from.layout.encode(shared->from) == shared->id);
    RC_ASSERT(*the_change.to.layout.encode(shared->to) == shared->id);
  }
  const Instant never = Instant{1s};
  RC_ASSERT(can_meet(the_change) == counted.shared(never, Instant{-1s}).has_value());
}

RC_GTEST_PROP(LayoutChange, TheEarliestSwitchIsThatOfACountOfAllIds, ()) {
  const Counted counted(tiny_change());
  const LayoutChange& the_change = counted.change;
  const auto safe = [&](Instant time) { return !counted.shared(time, time); };
  const auto unsafe = [&](Instant time) { return !safe(time); };
  for (int i = 0; i < 10; ++i) {
    const Instant from{some(-10, 300) * kStep};
    const Instant begin = std::max(from, the_change.to.layout.epoch);
    const std::optional<Instant> earliest = earliest_switch(the_change, from);
    RC_ASSERT(earliest == first(begin, counted.end(), safe));
    if (!earliest) continue;
    RC_ASSERT(end_of_safety(the_change, *earliest) == first(*earliest, counted.end(), unsafe));
  }
}

RC_GTEST_PROP(LayoutChange, TheEarliestStartIsThatOfACountOfAllIds, ()) {
  const Counted counted(tiny_change());
  const Instant stop{some(-10, 300) * kStep};
  const Instant begin = std::max(stop, counted.change.to.layout.epoch);
  RC_ASSERT(earliest_start(counted.change, stop) == first(begin, counted.end(), [&](Instant start) {
              return !counted.shared(stop, start);
            }));
}

// ---- against generators that mint

// The ids that hosts mint from `begin` to `end`, both included, in steps, with every error that
// their clocks may have and every distance that their ids may be ahead of their clocks.
std::set<std::uint64_t> minted(const LayoutUse& use, Instant begin, Instant end,
                               std::chrono::nanoseconds clock_error,
                               std::chrono::nanoseconds drift) {
  const SnowflakeLayout& layout = use.layout;
  std::set<std::uint64_t> ids;
  for (Instant now = begin; now <= end; now += kStep) {
    for (auto error = -clock_error; error <= clock_error; error += kStep) {
      for (std::chrono::nanoseconds ahead{0}; ahead <= drift; ahead += kStep) {
        for (std::uint32_t worker = use.workers.least; worker <= use.workers.most; ++worker) {
          for (std::uint32_t sequence = 0; sequence <= layout.max_sequence(); ++sequence) {
            const auto id = layout.encode({now + error + ahead, worker, sequence});
            if (id) ids.insert(id->value());
          }
        }
      }
    }
  }
  return ids;
}

bool meet(const std::set<std::uint64_t>& a, const std::set<std::uint64_t>& b) {
  return std::ranges::any_of(a, [&](std::uint64_t id) { return b.contains(id); });
}

// Both populations have hosts whose clocks are ahead and hosts whose clocks are behind, by up to
// the clock error.
RC_GTEST_PROP(LayoutChange, ThePauseIsEnoughForClocksThatAreWrongAndNotAStepLonger, ()) {
  const auto layout = [] {
    return SnowflakeLayout{.epoch = Instant{some(0, 10) * kStep},
                           .unit = some(1, 4) * kStep,
                           .time_bits = 5,
                           .worker_bits = 1,
                           .sequence_bits = some(0, 3)};
  };
  const LayoutChange the_change{.from = all_of(layout()),
                                .to = all_of(layout()),
                                .drift = some(0, 3) * kStep,
                                .clock_error = some(1, 4) * kStep};
  const Instant stop{some(10, 40) * kStep};
  const std::set<std::uint64_t> old_ids =
      minted(the_change.from, Instant{}, stop, the_change.clock_error, the_change.drift);
  const Instant ends = the_change.to.layout.epoch +
                       (the_change.to.layout.max_tick() + 1) * the_change.to.layout.unit;
  const auto new_ids = [&](Instant start) {
    return minted(the_change.to, start, ends, the_change.clock_error, {});
  };
  const std::optional<Instant> start = earliest_start(the_change, stop);
  if (!start) return;
  RC_ASSERT(!meet(old_ids, new_ids(*start)));
  const bool is_a_pause = *start > std::max(stop, the_change.to.layout.epoch);
  RC_CLASSIFY(is_a_pause, "with a pause");
  if (is_a_pause) RC_ASSERT(meet(old_ids, new_ids(*start - kStep)));
}

// An old id minted 20.25 s after the switch, by a clock that is 0.75 s ahead, is 19.5 s ahead of
// it. A new host whose clock is a second behind minted the same id 0.75 s before the start that
// counts the error of one clock alone.
TEST(LayoutChange, TheErrorsOfBothClocksCount) {
  LayoutChange later = change("sequence-generator", "41t10w12s epoch 2025-01-01");
  const Instant stop = at("2026-06-01");
  const auto apart = later.to.layout.epoch - later.from.layout.epoch;
  const Instant one_error = stop + 21s + 1ms + apart;
  const Snowflake old_id = *later.from.layout.encode({stop + 20s + 250ms, 0, 0});
  const Snowflake new_id = *later.to.layout.encode({one_error - 750ms - 1ms, 0, 0});
  EXPECT_EQ(old_id, new_id);
  EXPECT_TRUE(shared_id(later, stop, one_error));
  EXPECT_EQ(earliest_start(later, stop), one_error + 1s);
  later.clock_error = 0s;
  EXPECT_EQ(earliest_start(later, stop), one_error - 1s);
}

// An old generator that stops earlier, or a new one that starts later, is as safe.
RC_GTEST_PROP(LayoutChange, ASafeSwitchMayTakeTime, ()) {
  const Counted counted(tiny_change());
  const std::optional<Instant> safe = earliest_switch(counted.change, Instant{});
  if (!safe) return;
  RC_ASSERT(!shared_id(counted.change, *safe - some(0, 50) * kStep, *safe + some(0, 50) * kStep));
}

// All times that are safe, one span after the other, of the same layouts in each run.
TEST(LayoutChange, SafeTimesAreThoseOfACountOfAllIds) {
  std::vector<LayoutUse> uses;
  for (const int epoch : {0, 7}) {
    for (const int unit : {1, 3}) {
      for (const int time_bits : {1, 3}) {
        for (const int worker_bits : {0, 2}) {
          for (const int sequence_bits : {0, 1}) {
            uses.push_back(all_of({Instant{epoch * kStep}, unit * kStep, time_bits, worker_bits,
                                   sequence_bits, Order::kWorkerThenSequence}));
          }
        }
      }
    }
  }
  int spans = 0;
  for (const LayoutUse& from : uses) {
    for (const LayoutUse& to : uses) {
      const Counted counted({.from = from, .to = to, .drift = kStep, .clock_error = kStep});
      const auto safe = [&](Instant time) { return !counted.shared(time, time); };
      const auto unsafe = [&](Instant time) { return !safe(time); };
      for (std::optional<Instant> time = to.layout.epoch; time; ++spans) {
        const auto earliest = earliest_switch(counted.change, *time);
        ASSERT_EQ(earliest, first(*time, counted.end(), safe))
            << to_string(from.layout) << " to " << to_string(to.layout);
        if (!earliest) break;
        time = end_of_safety(counted.change, *earliest);
        ASSERT_EQ(time, first(*earliest, counted.end(), unsafe))
            << to_string(from.layout) << " to " << to_string(to.layout);
      }
    }
  }
  EXPECT_GT(spans, 500);
}

// ---- by hand

constexpr const char* kSwitch = "2026-06-01";

TEST(LayoutChange, ToAnEarlierEpochIsSafeAtOnce) {
  const LayoutChange earlier = change("sequence-generator", "41t10w12s epoch 2010-01-01");
  EXPECT_TRUE(can_meet(earlier));
  EXPECT_EQ(earliest_switch(earlier, at(kSwitch)), at(kSwitch));
  EXPECT_EQ(end_of_safety(earlier, at(kSwitch)), std::nullopt);
  // All old ids are below all new ones.
  EXPECT_LT(ids_until(earlier, at(kSwitch))->largest, ids_from(earlier, at(kSwitch))->smallest);
}

TEST(LayoutChange, TheAnswerHoldsAllOfThem) {
  const LayoutChange slower = change("41t10w13s epoch 2020-01-01", "42t10w12s");
  const ChangeAnswer safe = answer(slower, at(kSwitch));
  EXPECT_EQ(safe.shared, std::nullopt);
  EXPECT_EQ(safe.earliest, at(kSwitch));
  EXPECT_EQ(safe.safe_until, end_of_safety(slower, at(kSwitch)));
  EXPECT_NE(safe.safe_until, std::nullopt);
  EXPECT_EQ(safe.start, at(kSwitch));
  const LayoutChange later = change("twitter", "discord");
  const ChangeAnswer unsafe = answer(later, at(kSwitch));
  EXPECT_EQ(unsafe.shared, shared_id(later, at(kSwitch), at(kSwitch)));
  EXPECT_EQ(unsafe.earliest, at("2084-09-06T15:47:36.552Z"));
  EXPECT_EQ(unsafe.safe_until, std::nullopt);
  EXPECT_EQ(unsafe.start, earliest_start(later, at(kSwitch)));
}

// An epoch earlier by less than old ids may run ahead and two clocks be apart is not enough, to the
// millisecond.
TEST(LayoutChange, ToAnEpochEarlierByLessThanIdsRunAheadIsNeverSafe) {
  EXPECT_EQ(earliest_switch(change("sequence-generator", "41t10w12s epoch 2014-12-31T23:59:38Z"),
                            at(kSwitch)),
            std::nullopt);
  EXPECT_EQ(
      earliest_switch(change("sequence-generator", "41t10w12s epoch 2014-12-31T23:59:37.999Z"),
                      at(kSwitch)),
      at(kSwitch));
}

TEST(LayoutChange, ToALaterEpochIsNeverSafe) {
  const LayoutChange later = change("sequence-generator", "41t10w12s epoch 2025-01-01");
  EXPECT_EQ(earliest_switch(later, at(kSwitch)), std::nullopt);
  const auto shared = shared_id(later, at(kSwitch), at(kSwitch));
  ASSERT_TRUE(shared);
  EXPECT_EQ(shared->to.time, at(kSwitch) - 1s);
  EXPECT_EQ(shared->to.time - shared->from.time, at("2025-01-01") - at("2015-01-01"));
  // With a pause until the new layout is past all old ids.
  EXPECT_EQ(earliest_start(later, at(kSwitch)),
            at(kSwitch) + 22s + 1ms + (at("2025-01-01") - at("2015-01-01")));
}

// One bit more below the time: the ids double. From 2020 they begin at 0, and are past those of
// 1970 in 2070.
TEST(LayoutChange, ToFasterIdsIsSafeFromWhereTheyCross) {
  const LayoutChange faster = change("42t10w12s", "41t10w13s epoch 2020-01-01");
  const std::optional<Instant> earliest = earliest_switch(faster, at(kSwitch));
  // 2 * (T - 1 s - 2020) > T + 1 s - 1970 + 20 s
  const Instant crossing = at("2020-01-01") + (at("2020-01-01") - Instant{}) + 23s;
  ASSERT_TRUE(earliest);
  EXPECT_GT(*earliest, crossing);
  EXPECT_LE(*earliest, crossing + 2ms);
  EXPECT_EQ(end_of_safety(faster, *earliest), std::nullopt);
  EXPECT_TRUE(shared_id(faster, *earliest - 1ns, *earliest - 1ns));
  EXPECT_FALSE(shared_id(faster, *earliest, *earliest));
}

// The other way round it is safe until they cross.
TEST(LayoutChange, ToSlowerIdsIsSafeUntilTheyCross) {
  const LayoutChange slower = change("41t10w13s epoch 2020-01-01", "42t10w12s");
  EXPECT_EQ(earliest_switch(slower, at(kSwitch)), at(kSwitch));
  const std::optional<Instant> end = end_of_safety(slower, at(kSwitch));
  const Instant crossing = at("2020-01-01") + (at("2020-01-01") - Instant{}) - 43s;
  ASSERT_TRUE(end);
  EXPECT_GE(*end, crossing - 2ms);
  EXPECT_LE(*end, crossing + 2ms);
  EXPECT_FALSE(shared_id(slower, *end - 1ns, *end - 1ns));
  EXPECT_TRUE(shared_id(slower, *end, *end));
  EXPECT_EQ(earliest_switch(slower, *end), std::nullopt);
}

TEST(LayoutChange, WorkerIdsThatLieInOnePlaceAndDifferKeepIdsApartForEver) {
  LayoutChange later = change("sequence-generator", "41t10w12s epoch 2025-01-01");
  later.from.workers = {0, 511};
  later.to.workers = {512, 1023};
  EXPECT_FALSE(can_meet(later));
  EXPECT_EQ(earliest_switch(later, at(kSwitch)), at(kSwitch));
  later.to.workers = {511, 1023};
  EXPECT_TRUE(can_meet(later));
  EXPECT_EQ(earliest_switch(later, at(kSwitch)), std::nullopt);
  EXPECT_EQ(shared_id(later, at(kSwitch), at(kSwitch))->from.worker, 511U);
  EXPECT_EQ(shared_id(later, at(kSwitch), at(kSwitch))->to.worker, 511U);
  // In another place they do not: the worker id of one is the sequence number of the other.
  later = change("41t10w10s", "41t10s10w epoch 2025-01-01");
  later.from.workers = {0, 511};
  later.to.workers = {512, 1023};
  EXPECT_TRUE(can_meet(later));
}

// A layout of few bits counts up to where the ids of a wide one were long ago.
TEST(LayoutChange, NoOldIdsBeforeATimeLeaveRoomForSmallNewOnes) {
  LayoutChange smaller = change("twitter", "js-safe");
  EXPECT_EQ(earliest_switch(smaller, at(kSwitch)), std::nullopt);
  smaller.since = at("2020-01-01");
  EXPECT_FALSE(can_meet(smaller));
  EXPECT_EQ(earliest_switch(smaller, at(kSwitch)), at(kSwitch));
  EXPECT_GT(ids_until(smaller, at(kSwitch))->smallest, ids_from(smaller, at(kSwitch))->largest);
}

TEST(LayoutChange, RangesOfWorkerIdsMeetWhereTheyOverlap) {
  LayoutChange both = change("twitter", "discord");
  for (std::uint32_t most = 0; most < 16; ++most) {
    for (std::uint32_t least = 0; least < 16; ++least) {
      both.from.workers = {0, most};
      both.to.workers = {least, 15};
      EXPECT_EQ(can_meet(both), least <= most) << least << " " << most;
      const auto shared = shared_id(both, at(kSwitch), at(kSwitch));
      ASSERT_EQ(shared.has_value(), least <= most);
      if (shared) {
        EXPECT_EQ(shared->to.worker, least);
      }
    }
  }
}

TEST(LayoutChange, BeforeTheEpochOfTheNewLayoutThereIsNothingToSwitchTo) {
  const LayoutChange future = change("41t10w12s epoch 2040-01-01", "41t10w12s epoch 2030-01-01");
  EXPECT_EQ(earliest_switch(future, at(kSwitch)), at("2030-01-01"));
  EXPECT_EQ(ids_until(future, at(kSwitch)), std::nullopt);
  EXPECT_EQ(earliest_start(future, at(kSwitch)), at("2030-01-01"));
}

TEST(LayoutChange, PastTheTimeOfTheNewLayoutThereIsNothingEither) {
  const LayoutChange over = change("sequence-generator", "baidu");
  EXPECT_EQ(earliest_switch(over, at(kSwitch)), std::nullopt);
  EXPECT_EQ(ids_from(over, at(kSwitch)), std::nullopt);
}

// The ends of what the arithmetic has to hold: 2^53 periods, 64 bits, the first and the last
// Instant.
TEST(LayoutChange, LayoutsAtTheEndsOfTheirRanges) {
  const char* const layouts[] = {"62t0w0s unit 100us",
                                 "62t0w0s unit 3600s epoch 1677-09-22",
                                 "11t31w22s unit 3600s",
                                 "11t22s31w unit 100us",
                                 "42t10w12s epoch 2262-04-01",
                                 "1t0w0s unit 3600s",
                                 "62t1w1s epoch 1677-09-22 unit 100us"};
  for (const char* const from : layouts) {
    for (const char* const to : layouts) {
      LayoutChange the_change = change(from, to);
      the_change.drift = 100 * 8766h;
      for (const char* const begin : {"1678-01-01", "1970-01-01", "2026-01-01", "2262-04-11"}) {
        const auto earliest = earliest_switch(the_change, at(begin));
        if (!earliest) continue;
        EXPECT_GE(*earliest, at(begin));
        EXPECT_FALSE(shared_id(the_change, *earliest, *earliest)) << from << " to " << to;
        if (*earliest > std::max(at(begin), the_change.to.layout.epoch)) {
          EXPECT_TRUE(shared_id(the_change, *earliest - 1ns, *earliest - 1ns));
        }
        const auto end = end_of_safety(the_change, *earliest);
        if (end) {
          EXPECT_TRUE(shared_id(the_change, *end, *end)) << from << " to " << to;
          EXPECT_FALSE(shared_id(the_change, *end - 1ns, *end - 1ns)) << from << " to " << to;
        }
      }
    }
  }
}

}  // namespace
}  // namespace idmint::advice
