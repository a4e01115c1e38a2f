#include "advice/diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "base/errors.h"
#include "tests/fakes/definitions.h"

namespace idmint::advice {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Instant kTimeOfDiagnosis = Instant{1'800'000'000s};  // 2027-01-15

SequenceStatus thousand(std::int64_t left) {
  SequenceStatus status;
  status.definition = SequenceDefinition{.name = "orders", .first = 1, .last = 1000};
  status.left = left;
  return status;
}

TEST(Diagnosis, SequencesByWhatIsLeft) {
  EXPECT_EQ(diagnose(thousand(1000), {}, {}, kTimeOfDiagnosis).health, Health::kOk);
  EXPECT_EQ(diagnose(thousand(100), {}, {}, kTimeOfDiagnosis).health, Health::kOk);
  const Finding low = diagnose(thousand(99), {}, {}, kTimeOfDiagnosis);
  EXPECT_EQ(low.health, Health::kWarn);
  EXPECT_EQ(low.left, 0.099);
  EXPECT_THAT(low.text, HasSubstr("99 left"));
  EXPECT_EQ(diagnose(thousand(99), {}, {.least_left = 0.05}, kTimeOfDiagnosis).health, Health::kOk);
  const Finding none = diagnose(thousand(0), {}, {}, kTimeOfDiagnosis);
  EXPECT_EQ(none.health, Health::kFail);
  EXPECT_THAT(none.text, HasSubstr("used up"));
  EXPECT_EQ(none.advice, (Advice{Remedy::kAlterSequence, name(thousand(0).definition)}));
}

TEST(Diagnosis, WhatTheStoreDoesNotKnowOfIsAFailureWithTheWayOutOfItsStrategy) {
  struct Case {
    std::optional<Strategy> strategy;  // nothing: a pool
    std::optional<FieldInUse> place;
    const char* way;
    Advice advice;
  };
  const FieldInUse field{"a.b", "f"};
  const Advice past_field{Remedy::kRaisePastField, "s", {"a.b", "f"}};
  for (const auto& [strategy, place, way, advice] :
       {Case{Strategy::kCounter,
             {},
             "then raise it past the largest value in use, 7 or above",
             {Remedy::kRaiseSequence, "s"}},
        Case{Strategy::kCached, field, "then raise it past the largest value in use", past_field},
        Case{Strategy::kInterleaved, {}, "raise it past", {Remedy::kRaiseSequence, "s"}},
        Case{Strategy::kStriped,
             {},
             "one for each block, with 7 or above",
             {Remedy::kRaiseEach, "s"}},
        Case{Strategy::kStriped, field, "raise each block", past_field},
        Case{Strategy::kPermuted, field, "by index", {Remedy::kRaiseSequence, "s"}},
        Case{Strategy::kRandom, {}, "retire this one", {Remedy::kRetireSequence, "s"}},
        Case{Strategy::kGapless,
             {},
             "begins above every number in use, 7 or above",
             {Remedy::kCreateAbove, "", {"gapless"}}},
        Case{{}, {}, "a time later than", {Remedy::kRaisePool, "s"}}}) {
    const Finding lost =
        diagnose_lost({.kind = "sequence", .subject = "s", .text = "ok"},
                      strategy ? Definition(SequenceDefinition{.name = "s", .strategy = *strategy})
                               : Definition(PoolDefinition{.name = "s"}),
                      7, "a.b has 7 in f", place);
    EXPECT_EQ(lost.advice, advice) << lost.text;
    EXPECT_EQ(lost.health, Health::kFail);
    EXPECT_EQ(lost.subject, "s");
    EXPECT_THAT(lost.text, AllOf(HasSubstr("a.b has 7 in f, and the store does not know of it: "),
                                 HasSubstr("values come again"), HasSubstr(way)));
  }
}

// A random sequence gives 910 of 1000 values, and no more.
TEST(Diagnosis, ARandomSequenceIsUsedUpWhereItRefuses) {
  SequenceStatus status = thousand(0);
  std::get<SequenceDefinition>(status.definition).strategy = Strategy::kRandom;
  EXPECT_EQ(diagnose(status, {}, {}, kTimeOfDiagnosis).health, Health::kFail);
  status.left = 91;
  const Finding tenth = diagnose(status, {}, {}, kTimeOfDiagnosis);
  EXPECT_EQ(tenth.health, Health::kOk);
  EXPECT_EQ(tenth.left, 0.1);
  EXPECT_THAT(tenth.text, HasSubstr("90 % used, 91 left"));
  status.left = 90;
  EXPECT_EQ(diagnose(status, {}, {}, kTimeOfDiagnosis).health, Health::kWarn);
}

// Four worker ids, of which so many are owned; ids of the first may go up to `ahead` of now.
struct PoolOfFour {
  std::int64_t owned = 1;                        // from worker id 0 on
  std::chrono::nanoseconds ahead = 0s;           // the bound of worker id 0
  std::chrono::nanoseconds others_ahead = -24h;  // of each other
  std::chrono::nanoseconds unit = 10ms;
};

Finding diagnosed(const PoolOfFour& pool, const Limits& limits = {},
                  Instant now = kTimeOfDiagnosis) {
  SequenceStatus status;
  status.definition = PoolDefinition{
      .name = "web",
      .layout = {.epoch = Instant{1'735'689'600s}, .unit = pool.unit, .time_bits = 39},
      .workers = 4};
  std::vector<LeaseState> workers(4);
  for (std::size_t worker = 0; worker < workers.size(); ++worker) {
    const auto bound = kTimeOfDiagnosis + (worker == 0 ? pool.ahead : pool.others_ahead);
    workers[worker].minted_until = (bound - as_pool(status.definition).layout.epoch) / pool.unit;
    if (static_cast<std::int64_t>(worker) >= pool.owned) continue;
    workers[worker].token = Uuid(Uuid::Bytes{1});
    workers[worker].held_for = 5s;
  }
  workers[3].token = Uuid(Uuid::Bytes{2});  // its time is over, unless it is owned
  return diagnose_pool(status, workers, limits, now);
}

TEST(Diagnosis, PoolsByWhoOwnsTheirWorkerIds) {
  const Finding some = diagnosed({.owned = 3});
  EXPECT_EQ(some.health, Health::kOk);
  EXPECT_EQ(some.kind, "pool");
  EXPECT_EQ(some.left, 0.25);
  EXPECT_EQ(some.text, "3 of 4 worker ids owned");
  const Finding all = diagnosed({.owned = 4, .ahead = 15s, .others_ahead = 1h});
  EXPECT_EQ(all.health, Health::kWarn);
  EXPECT_EQ(all.advice.remedy, Remedy::kListWorkers);
  EXPECT_THAT(all.text, AllOf(HasSubstr("gets none"), Not(HasSubstr("ahead"))));
}

// A window as long as its holder likes is no fault, as long as others find a worker id.
TEST(Diagnosis, PoolsByHowFarTheyAreAhead) {
  EXPECT_EQ(diagnosed({.owned = 1, .ahead = 23h}).health, Health::kOk);
  EXPECT_EQ(diagnosed({.owned = 0, .ahead = 23h}).health, Health::kOk) << "three others are free";
  EXPECT_EQ(diagnosed({.owned = 0, .ahead = 1h, .others_ahead = 20s}).health, Health::kOk);
  const Finding waits = diagnosed({.owned = 1, .ahead = 0s, .others_ahead = 1h + 20s});
  EXPECT_EQ(waits.health, Health::kWarn);
  EXPECT_THAT(waits.text, HasSubstr("who starts now gets none for 1 h, as"));
  const Finding long_ahead = diagnosed({.owned = 1, .ahead = 25h});
  EXPECT_EQ(long_ahead.health, Health::kWarn);
  EXPECT_THAT(long_ahead.text,
              HasSubstr("under 1 of them ids go up to 1 d 1 h ahead of this clock"));
  // A window is two units at least, and one may be had beyond it.
  EXPECT_EQ(diagnosed({.owned = 0, .ahead = 3h, .others_ahead = 3h, .unit = 1h}).health,
            Health::kOk);
  EXPECT_EQ(diagnosed({.owned = 0, .ahead = 4h, .others_ahead = 4h, .unit = 1h}).health,
            Health::kWarn);
  SequenceStatus lost;
  lost.definition = PoolDefinition{.name = "web"};
  lost.error = Error{Code::kDataLoss, "0 are there"};
  EXPECT_EQ(diagnose_pool(lost, {}, {}, kTimeOfDiagnosis).health, Health::kFail);
  std::get<PoolDefinition>(lost.definition).retired = true;
  EXPECT_EQ(diagnose_pool(lost, {}, {}, kTimeOfDiagnosis).text, "retired");
}

TEST(Diagnosis, FromWhenOnAWorkerIdCanBeLeased) {
  const auto from = [](std::vector<std::int64_t> bounds, std::chrono::nanoseconds unit) {
    std::vector<LeaseState> workers;
    for (const std::int64_t bound : bounds) workers.push_back({.minted_until = bound});
    return leased_from({.epoch = kTimeOfDiagnosis, .unit = unit}, workers, kTimeOfDiagnosis);
  };
  EXPECT_EQ(from({0, 40'000}, 1ms), std::nullopt);
  EXPECT_EQ(from({20'000, 40'000}, 1ms), std::nullopt);
  EXPECT_EQ(from({40'000, 20'001}, 1ms), kTimeOfDiagnosis + 1ms);
  EXPECT_EQ(from({67}, 300ms), kTimeOfDiagnosis + 300ms) << "of 20 s, whole units";
  EXPECT_EQ(from({5}, 1h), kTimeOfDiagnosis + 2h) << "three units of an hour";
  EXPECT_EQ(from({std::int64_t{1} << 62}, 1h), Instant::max());
  EXPECT_EQ(from({}, 1h), std::nullopt);
  const std::vector<LeaseState> owned = {
      {.token = Uuid(Uuid::Bytes{1}), .minted_until = 40'000, .held_for = 5s}};
  EXPECT_EQ(leased_from({.epoch = kTimeOfDiagnosis}, owned, kTimeOfDiagnosis), std::nullopt);
}

TEST(Diagnosis, PoolsByTheEndOfTheirTime) {
  const Instant end = *diagnosed({}).ends;
  EXPECT_EQ(diagnosed({}, {}, end - 91 * 24h).health, Health::kOk);
  EXPECT_EQ(diagnosed({}, {}, end - 89 * 24h).health, Health::kWarn);
  EXPECT_EQ(diagnosed({.owned = 4}, {}, end).health, Health::kFail);
}

// Only what alter would accept is told to be altered.
TEST(Diagnosis, WhatToDoWhenASequenceIsUsedUp) {
  const auto advice = [](SequenceDefinition definition) {
    SequenceStatus status;
    status.definition = std::move(definition);
    const Finding finding = diagnose(status, {}, {}, kTimeOfDiagnosis);
    EXPECT_EQ(finding.advice == Advice{}, !finding.text.contains("move its last value up"));
    return finding.text;
  };
  const SequenceDefinition orders{.name = "orders", .first = 1, .last = 999};
  for (const Strategy strategy : {Strategy::kCounter, Strategy::kCached, Strategy::kInterleaved,
                                  Strategy::kRandom, Strategy::kStriped, Strategy::kPermuted}) {
    SequenceDefinition its = orders;
    its.strategy = strategy;
    const bool stays = strategy == Strategy::kStriped || strategy == Strategy::kPermuted;
    const std::string open = stays ? "used up: go on with a new sequence that begins above 999"
                                   : "used up: go on with another, or move its last value up";
    EXPECT_EQ(advice(its), open);
    its.form.digits = 4;
    EXPECT_EQ(advice(its), open);
    its.form.digits = 3;
    EXPECT_EQ(advice(its), "used up: go on with a new and wider sequence that begins above 999");
  }
  SequenceDefinition wide = orders;
  wide.last = 61;
  wide.form = {.encoding = Encoding::kBase62, .width = 1};
  EXPECT_THAT(advice(wide), HasSubstr("new and wider sequence that begins above 61"));
  wide.form = {};
  wide.last = kLargestValue;
  EXPECT_EQ(advice(wide), "used up: go on with a new sequence, under another prefix");
}

TEST(Diagnosis, SequencesByRate) {
  const Finding soon = diagnose(thousand(1000), 1.0, {}, kTimeOfDiagnosis);
  EXPECT_EQ(soon.health, Health::kWarn);
  EXPECT_EQ(soon.ends, kTimeOfDiagnosis + 1000s);
  EXPECT_EQ(diagnose(thousand(1000), 1.0, {.horizon = 999s}, kTimeOfDiagnosis).health, Health::kOk);
  SequenceStatus large = thousand(kLargestValue);
  std::get<SequenceDefinition>(large.definition).last = kLargestValue;
  const Finding never = diagnose(large, 1.0, {}, kTimeOfDiagnosis);
  EXPECT_EQ(never.health, Health::kOk);
  EXPECT_EQ(never.ends, std::nullopt) << "past the year 2262";
  EXPECT_EQ(diagnose(thousand(1000), {}, {}, kTimeOfDiagnosis).ends, std::nullopt)
      << "no rate, no date";
}

TEST(Diagnosis, SequencesThatAreOver) {
  SequenceStatus status = thousand(0);
  std::get<SequenceDefinition>(status.definition).retired = true;
  EXPECT_EQ(diagnose(status, 1.0, {}, kTimeOfDiagnosis).health, Health::kOk);
  std::get<SequenceDefinition>(status.definition).retired = false;
  status.left = 10;
  const Advice compare{Remedy::kCompare, "s"};
  status.error = Error{Code::kDataLoss, "its counter is gone", compare};
  const Finding damaged = diagnose(status, {}, {}, kTimeOfDiagnosis);
  EXPECT_EQ(damaged.health, Health::kFail);
  EXPECT_EQ(damaged.text, "its counter is gone");
  EXPECT_EQ(damaged.advice, compare);
  status.error->subject = "sequence " + name(status.definition);
  status.error->place = "sqlite:ids.db";
  status.error->outcome = "look at it";
  EXPECT_EQ(diagnose(status, {}, {}, kTimeOfDiagnosis).text, "its counter is gone; look at it")
      << "the subject of the finding is said once";
}

TEST(Diagnosis, LayoutsEnd) {
  EXPECT_EQ(end_of({.epoch = Instant{0s}, .unit = 1s, .time_bits = 4}), Instant{15s});
  EXPECT_EQ(end_of({.unit = 1ms, .time_bits = 62}), std::nullopt);
  const Instant ends = kTimeOfDiagnosis + 100 * 24h;
  const auto end = [](std::optional<Instant> at, Use use, std::chrono::hours horizon) {
    return diagnose_end("x", at, use, {.horizon = horizon}, kTimeOfDiagnosis);
  };
  EXPECT_EQ(end(ends, Use::kYes, 99 * 24h).health, Health::kOk);
  EXPECT_EQ(end(ends, Use::kYes, 101 * 24h).health, Health::kWarn);
  EXPECT_EQ(end(ends, Use::kPerhaps, 101 * 24h).health, Health::kWarn);
  EXPECT_EQ(end(ends, Use::kNo, 101 * 24h).health, Health::kOk);
  EXPECT_EQ(end(kTimeOfDiagnosis, Use::kYes, 24h).health, Health::kFail);
  EXPECT_EQ(end(kTimeOfDiagnosis, Use::kPerhaps, 24h).health, Health::kFail);
  EXPECT_EQ(end(kTimeOfDiagnosis, Use::kNo, 24h).health, Health::kOk);
  EXPECT_THAT(end(kTimeOfDiagnosis, Use::kNo, 24h).text, HasSubstr("nothing here uses it"));
  EXPECT_EQ(end(std::nullopt, Use::kYes, 24h).health, Health::kOk);
}

// Those of this host, and those that end: whatever is a warning or a failure matters.
TEST(Diagnosis, LayoutsThatMatter) {
  for (const Use use : {Use::kNo, Use::kPerhaps, Use::kYes}) {
    for (const auto in : {-24h, 0h, 24h, 90 * 24h, 91 * 24h}) {
      const Finding finding = diagnose_end("x", kTimeOfDiagnosis + in, use, {}, kTimeOfDiagnosis);
      const bool soon = in > 0h && in < 90 * 24h;
      const bool over = in <= 0h;
      EXPECT_EQ(finding.matters, use == Use::kYes || soon || (over && use == Use::kPerhaps))
          << static_cast<int>(use) << " " << in.count();
      EXPECT_TRUE(finding.matters || finding.health == Health::kOk);
    }
    EXPECT_EQ(diagnose_end("x", std::nullopt, use, {}, kTimeOfDiagnosis).matters, use == Use::kYes);
  }
}

TEST(Diagnosis, LittleThatIsUsed) {
  SequenceStatus large = thousand(kLargestValue);
  std::get<SequenceDefinition>(large.definition).last = kLargestValue;
  EXPECT_THAT(diagnose(large, {}, {}, kTimeOfDiagnosis).text, HasSubstr("0 % used"));
  large.left -= 3;
  EXPECT_THAT(diagnose(large, {}, {}, kTimeOfDiagnosis).text, HasSubstr("< 0.1 % used"));
  EXPECT_THAT(diagnose(thousand(999), {}, {}, kTimeOfDiagnosis).text,
              HasSubstr("0.1 % used, 999 left"));
}

TEST(Diagnosis, IdSpacesOfStateFiles) {
  const auto space = parse_id_space(
      "snowflake epoch 1420070400000000000 ns, unit 1000000 ns, 10 worker, 12 sequence "
      "bits, worker 786");
  ASSERT_TRUE(space);
  EXPECT_EQ(space->epoch, Instant{1420070400s});
  EXPECT_EQ(space->unit, 1ms);
  EXPECT_EQ(space->worker, 786u);
  for (const std::string_view text :
       {"", "snowflake", "uuid1 node 5", "snowflake epoch 1 ns, unit 0 ns, worker 1",
        "snowflake epoch 1 ns, unit 1 ns, 10 w"}) {
    EXPECT_FALSE(parse_id_space(text)) << text;
  }
}

TEST(Diagnosis, StateFilesAheadOfTheClock) {
  const IdSpace space{.epoch = Instant{0s}, .unit = 1s, .time_bits = 41, .worker = 5};
  const auto health = [&](std::int64_t until) {
    return diagnose_state("f", space, until, {}, kTimeOfDiagnosis).health;
  };
  EXPECT_EQ(health(0), Health::kOk);
  EXPECT_EQ(health(1'800'000'000), Health::kOk);
  EXPECT_EQ(health(1'800'000'020), Health::kOk);
  EXPECT_EQ(health(1'800'000'021), Health::kFail);
  EXPECT_THAT(diagnose_state("f", space, 1'800'000'080, {}, kTimeOfDiagnosis).text,
              HasSubstr("in 1 min"));
  EXPECT_THAT(diagnose_state("f", space, 1'800'000'015, {}, kTimeOfDiagnosis).text,
              HasSubstr("worker 5, bound 15 s ahead"));
  // 2^31 - 1 seconds: 2038-01-19.
  const IdSpace old{.epoch = Instant{0s}, .unit = 1s, .time_bits = 31, .worker = 5};
  EXPECT_EQ(diagnose_state("f", old, 0, {}, Instant{2'147'483'646s}).health, Health::kWarn);
  EXPECT_EQ(diagnose_state("f", old, 0, {}, Instant{2'147'483'647s}).health, Health::kFail);
  EXPECT_FALSE(diagnose_state("f", {.unit = 1s}, 0, {}, kTimeOfDiagnosis).ends)
      << "of no layout yet";
}

TEST(Diagnosis, StateFilesOfUuids) {
  const auto of_1 = [](Instant bound) {
    const auto ms = std::chrono::floor<std::chrono::milliseconds>(bound.time_since_epoch());
    return *diagnose_uuid_state("f", "uuid version 1, node 02:00:00:00:00:01", ms.count(),
                                kTimeOfDiagnosis);
  };
  EXPECT_EQ(of_1(kTimeOfDiagnosis).text, "node 02:00:00:00:00:01, bound behind the clock");
  EXPECT_THAT(of_1(Instant{}).text, HasSubstr("has not minted yet"));
  EXPECT_EQ(of_1(kTimeOfDiagnosis + 20s).health, Health::kOk);
  EXPECT_THAT(of_1(kTimeOfDiagnosis + 20s).text, HasSubstr("bound 20 s ahead"));
  EXPECT_EQ(of_1(kTimeOfDiagnosis + 21s).health, Health::kWarn) << "it never refuses";
  EXPECT_THAT(of_1(kTimeOfDiagnosis + 21s).text, HasSubstr("another clock sequence"));

  const std::int64_t steps =
      122'192'928'000'000'000 + 18'000'000'000'000'000;  // 1582 to kTimeOfDiagnosis
  const std::int64_t begun = (steps >> 32) * 64;
  const auto of_2 = [](std::int64_t number) {
    return *diagnose_uuid_state("f", "uuid version 2, person 7, node 02:00:00:00:00:01", number,
                                kTimeOfDiagnosis);
  };
  EXPECT_THAT(of_2(0).text, HasSubstr("person 7, node 02:00:00:00:00:01, has not minted yet"));
  EXPECT_THAT(of_2(begun - 5).text, HasSubstr(", 64 of the 64 ids of these 7 minutes left"));
  EXPECT_THAT(of_2(begun + 63).text, HasSubstr(", 1 of the 64 ids"));
  EXPECT_THAT(of_2(begun + 64).text, HasSubstr("used up: more in "));
  EXPECT_EQ(of_2(begun + 64).health, Health::kOk) << "in minutes there are more";
  EXPECT_EQ(of_2(begun + 65).health, Health::kFail);
  EXPECT_THAT(of_2(begun + 65).text, HasSubstr("node 02:00:00:00:00:01 may mint again in "));
  for (const std::string_view text : {"", "snowflake epoch 1 ns", "uuid version 6, node x"}) {
    EXPECT_EQ(diagnose_uuid_state("f", text, 1, kTimeOfDiagnosis), std::nullopt) << text;
  }
}

TEST(Diagnosis, TheClock) {
  EXPECT_EQ(diagnose_clock(true, 500us).health, Health::kOk);
  EXPECT_EQ(diagnose_clock(true, 2s).health, Health::kWarn);
  EXPECT_EQ(diagnose_clock(false, 0us).health, Health::kWarn);
}

TEST(Diagnosis, Disks) {
  constexpr long kExt4 = 0xef53;
  EXPECT_EQ(diagnose_disk("d", 1e9, kExt4).health, Health::kOk);
  EXPECT_EQ(diagnose_disk("d", 1e9, kExt4).text, "1,000 MB free");
  EXPECT_EQ(diagnose_disk("d", 99e6, kExt4).health, Health::kWarn);
  EXPECT_EQ(diagnose_disk("d", 0, kExt4).health, Health::kFail);
  EXPECT_EQ(diagnose_disk("d", 1e9, 0x01021994).health, Health::kWarn);
  EXPECT_EQ(diagnose_disk("d", 1e9, 0x6969).health, Health::kFail);
  EXPECT_EQ(diagnose_disk("d", 0, 0x01021994).health, Health::kFail) << "the worse of both";
}

}  // namespace
}  // namespace idmint::advice
