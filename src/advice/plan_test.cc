#include "advice/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "advice/odds.h"

namespace idmint::advice {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Instant kNow = Instant{1'800'000'000s};  // 2027-01-15

std::string recommended(const Needs& needs) {
  const Plan plan = make_plan(needs, kNow);
  return plan.fitting.empty() ? "" : plan.fitting.front().source;
}

// "create digits=12 strategy=cached"; "next digits digits=24"; empty: none.
std::string text(const Steps& steps) {
  if (steps.verb == Steps::Verb::kNone) return {};
  std::string text =
      steps.verb == Steps::Verb::kCreate ? "create" : "next " + std::string(steps.format);
  for (const auto& [name, value] : steps.options) text.append(" ").append(name) += "=" + value;
  return text;
}

const Choice* find(const std::vector<Choice>& choices, std::string_view source) {
  const auto found = std::ranges::find(choices, source, &Choice::source);
  return found == choices.end() ? nullptr : &*found;
}

Choice fitting(const Needs& needs, std::string_view source) {
  const Plan plan = make_plan(needs, kNow);
  const Choice* const choice = find(plan.fitting, source);
  EXPECT_NE(choice, nullptr) << source;
  return choice != nullptr ? *choice : Choice{};
}

// Why not; empty when it fits.
std::string objection(const Needs& needs, std::string_view source) {
  const Plan plan = make_plan(needs, kNow);
  const Choice* const choice = find(plan.unfitting, source);
  return choice != nullptr ? choice->reason : "";
}

// With a store that all hosts reach, which the build can open.
constexpr std::string_view kShared = "db://host/ids";
Needs twelve_digits() {
  return {.digits = 12,
          .count = 1e9,
          .hosts = 40,
          .rate = 5e4,
          .shared_store = true,
          .shared_url = kShared};
}
Needs twelve_digits_unshared() {
  Needs needs = twelve_digits();
  needs.shared_store = false;
  needs.shared_url = {};
  return needs;
}

// ---- the rules, one by one

TEST(Plan, StrictOrderTakesOneCounter) {
  Needs needs{.hosts = 40, .order = Ordering::kStrict, .shared_store = true, .shared_url = kShared};
  EXPECT_EQ(recommended(needs), "counter");
  EXPECT_EQ(make_plan(needs, kNow).fitting.size(), 1u);
  needs.digits = 12;
  EXPECT_EQ(recommended(needs), "counter");
  needs.shared_store = false;
  needs.shared_url = {};
  EXPECT_EQ(recommended(needs), "") << "nothing orders 40 hosts that share no store";
  needs.hosts = 1;
  EXPECT_EQ(recommended(needs), "counter");
}

TEST(Plan, UnguessableNumbersAreClaimed) {
  Needs needs = twelve_digits();
  needs.unguessable = true;
  const Plan plan = make_plan(needs, kNow);
  ASSERT_EQ(plan.fitting.size(), 2u);
  EXPECT_EQ(plan.fitting.front().source, "random");
  EXPECT_EQ(plan.fitting.back().source, "random for each host");
  EXPECT_THAT(objection(needs, "permuted"), HasSubstr("no encryption"));
  EXPECT_THAT(objection(needs, "cached"), HasSubstr("can tell others"));
}

// n^2 / (2 x 10^digits) is below 1 in a million from 24 digits on, for 10^9 ids.
TEST(Plan, ManyRandomDigitsNeedNoStore) {
  Needs needs;
  needs.count = 1e9;
  needs.hosts = 40;
  needs.unguessable = true;
  for (const int digits : {12, 23}) {
    needs.digits = digits;
    EXPECT_EQ(recommended(needs), "random for each host") << digits;
  }
  EXPECT_THAT(objection(needs, "digits"), HasSubstr("above 1 in a million"));
  needs.digits = 12;
  EXPECT_EQ(objection(needs, "digits"), "among 1,000,000,000 of them a repeat is certain");
  needs.digits = 24;
  const Choice choice = make_plan(needs, kNow).fitting.at(0);
  EXPECT_EQ(choice.source, "digits");
  EXPECT_EQ(text(choice.steps), "next digits digits=24");
  EXPECT_NEAR(*choice.odds_of_a_repeat, 5e-7, 1e-9);
  ASSERT_EQ(choice.stored.size(), 1u);  // 24 digits are no integer of 64 bits
  EXPECT_THAT(choice.stored[0].type, HasSubstr("24"));
  needs.shared_store = true;
  needs.shared_url = kShared;
  EXPECT_EQ(make_plan(needs, kNow).fitting.at(0).source, "random");
  needs.digits = std::nullopt;
  EXPECT_THAT(objection(needs, "digits"), HasSubstr("a number of digits"));
}

TEST(Plan, UnguessableIdsAreVersion4) {
  EXPECT_EQ(recommended({.hosts = 40, .unguessable = true}), "uuid4");
  EXPECT_THAT(objection({.unguessable = true}, "uuid7"), HasSubstr("can tell others"));
}

TEST(Plan, NumbersOfOneHostComeFromItsCounter) {
  Needs needs{.digits = 12, .hosts = 1, .rate = 5e4, .round_trip = 1ms};
  EXPECT_EQ(recommended(needs), "counter");
  needs.rate = 1e6;  // 1500 callers would wait
  EXPECT_EQ(recommended(needs), "cached");
  EXPECT_THAT(objection(needs, "counter for each host"), HasSubstr("there is one host"));
}

TEST(Plan, NumbersWithRoomForATimeAreSnowflakes) {
  EXPECT_EQ(recommended({.bits = 64, .hosts = 40}), "snowflake");
  EXPECT_EQ(recommended({.bits = 63, .hosts = 40, .order = Ordering::kPerHost}), "snowflake");
  const Choice js_safe = fitting({.bits = 53, .hosts = 40}, "snowflake");
  EXPECT_EQ(js_safe.workers, 64);
  EXPECT_THAT(text(js_safe.steps), HasSubstr("js-safe"));
  EXPECT_EQ(js_safe.ids_per_second, 40 * 64e3);
  EXPECT_THAT(objection({.bits = 52, .hosts = 40}, "snowflake"), HasSubstr("53 bits"));
  EXPECT_THAT(objection({.bits = 53, .hosts = 65}, "snowflake"), HasSubstr("64 worker ids"));
  EXPECT_THAT(objection({.bits = 63, .hosts = 1025}, "snowflake"), HasSubstr("1,024 worker ids"));
  EXPECT_EQ(objection({.bits = 64, .hosts = 5000}, "snowflake"),
            "it has 1,024 worker ids, for 5,000 hosts; of the layouts instagram 8,192, sonyflake "
            "65,536, sonyflake-v1 65,536")
      << "baidu's time has ended";
  EXPECT_THAT(objection({.bits = 63, .hosts = 5000}, "snowflake"), Not(HasSubstr("instagram")));
  EXPECT_THAT(objection({.bits = 64, .hosts = 1e7}, "snowflake"), Not(HasSubstr("layouts")));
}

TEST(Plan, WorkerIdsOfManyHostsAreLeasedWhereTheyShareAStore) {
  Needs needs{.bits = 64, .hosts = 40, .shared_store = true, .shared_url = kShared};
  EXPECT_EQ(recommended(needs), "pool");
  const Choice pool = fitting(needs, "pool");
  EXPECT_EQ(text(pool.steps), "create kind=pool store=db://host/ids");
  EXPECT_EQ(text(pool.of_next_host), "") << "all hosts have the same one";
  EXPECT_EQ(pool.then, Then::kMintFromPool);
  EXPECT_EQ(pool.guarantee, Guarantee::kUnique);
  EXPECT_EQ(pool.workers, 1024);
  EXPECT_EQ(pool.odds_of_shared_worker, std::nullopt) << "nobody gives them out";
  EXPECT_TRUE(pool.worker_terms.empty());
  EXPECT_EQ(pool.store_writes_per_second, 8) << "each renews its lease every 5 s";
  EXPECT_THAT(pool.store_down, HasSubstr("up to the bound"));
  EXPECT_EQ(make_plan(needs, kNow).fitting.at(1).source, "snowflake");
  needs.bits = 53;
  EXPECT_EQ(text(fitting(needs, "pool").steps),
            "create kind=pool layout=js-safe store=db://host/ids");
  needs.hosts = 65;
  EXPECT_THAT(objection(needs, "pool"), HasSubstr("64 worker ids"));
  needs.bits = std::nullopt;
  EXPECT_EQ(recommended(needs), "uuid7") << "nothing to run";
  needs.digits = 12;
  EXPECT_THAT(objection(needs, "pool"), HasSubstr("grow with time"));
  EXPECT_THAT(objection({.bits = 64, .hosts = 40}, "pool"), HasSubstr("shared-store"));
  const Plan elsewhere = make_plan({.bits = 64, .hosts = 40, .shared_store = true}, kNow);
  EXPECT_EQ(elsewhere.fitting.front().source, "snowflake") << "this build has no such store";
  EXPECT_NE(find(elsewhere.lacking_store, "pool"), nullptr);
  EXPECT_EQ(text(fitting({.bits = 64, .hosts = 1}, "pool").steps), "create kind=pool");
}

TEST(Plan, NumbersInOrderPerHostComeFromOneCounter) {
  Needs needs = twelve_digits();
  needs.order = Ordering::kPerHost;
  EXPECT_EQ(recommended(needs), "counter");
  EXPECT_THAT(objection(needs, "cached"), HasSubstr("each thread only"));
  EXPECT_THAT(objection(needs, "striped"), HasSubstr("do not come in their order"));
}

TEST(Plan, NumbersWithoutASharedStoreAreDealtOutInBlocks) {
  const Needs needs = twelve_digits_unshared();
  const Plan plan = make_plan(needs, kNow);
  ASSERT_EQ(plan.fitting.size(), 2u);
  const Choice& choice = plan.fitting.front();
  EXPECT_EQ(choice.source, "counter for each host");
  EXPECT_EQ(text(choice.steps), "create digits=12 start=0 max=24999999999");
  EXPECT_EQ(text(choice.of_next_host), "create digits=12 start=25000000000 max=49999999999");
  EXPECT_THAT(choice.note, HasSubstr("both 25000000000 more"));
  EXPECT_EQ(choice.block, 25e9);
  EXPECT_EQ(choice.space, 1e12);
  EXPECT_EQ(text(plan.fitting.back().steps),
            "create digits=12 strategy=random start=0 max=24999999999");
  EXPECT_EQ(choice.callers, 75) << "its store is near, whatever the round trip of a shared one";
  EXPECT_THAT(objection(needs, "cached"), HasSubstr("all 40 hosts"));
}

// Run on each host, a command that makes a store there would make 40 sequences with the same ids.
TEST(Plan, NoCommandMakesTheSameIdsOnEveryHost) {
  for (const Needs& asked :
       {twelve_digits_unshared(), Needs{.hosts = 40}, Needs{.bits = 63, .hosts = 40},
        Needs{.bits = 40, .hosts = 2, .unguessable = true},
        Needs{.hosts = 2, .order = Ordering::kStrict}}) {
    for (const bool elsewhere : {false, true}) {
      Needs needs = asked;
      needs.shared_store = elsewhere;
      const Plan plan = make_plan(needs, kNow);
      for (const Choice& choice : plan.fitting) {
        const bool makes = text(choice.steps).find("create") != std::string::npos;
        EXPECT_EQ(makes || choice.source == "snowflake", !text(choice.of_next_host).empty())
            << choice.source;
        EXPECT_NE(text(choice.steps), text(choice.of_next_host));
      }
      EXPECT_EQ(plan.lacking_store.empty(), !elsewhere);
      for (const Choice& choice : plan.lacking_store) {
        EXPECT_EQ(text(choice.steps), "") << choice.source;
        EXPECT_THAT(choice.note, HasSubstr("would repeat ids"));
      }
    }
  }
}

TEST(Plan, ASharedStoreIsNamedInTheCommand) {
  const Plan plan = make_plan(twelve_digits(), kNow);
  EXPECT_TRUE(plan.lacking_store.empty());
  for (const Choice& choice : plan.fitting) {
    const bool names = text(choice.steps).find(" store=db://host/ids") != std::string::npos;
    EXPECT_EQ(names, text(choice.of_next_host).empty()) << choice.source;
  }
  EXPECT_EQ(text(fitting({.digits = 12, .hosts = 1, .shared_store = true, .shared_url = kShared},
                         "counter")
                     .steps),
            "create digits=12");
}

TEST(Plan, BlocksOfAllHostsFit) {
  // The largest next value is 2^63 - 1, so there are as many: 2^63 - 1 = 40 x 230584300921369395
  // + 7.
  EXPECT_EQ(text(fitting({.bits = 64, .hosts = 40}, "counter for each host").steps),
            "create start=0 max=230584300921369394");
}

TEST(Plan, NumbersOfManyHostsAreCached) {
  const Plan plan = make_plan(twelve_digits(), kNow);
  std::vector<std::string> order;
  for (const Choice& choice : plan.fitting) order.push_back(choice.source);
  EXPECT_THAT(order, ElementsAre("cached", "counter", "striped", "interleaved", "permuted",
                                 "random", "counter for each host", "random for each host"));
  const Choice& cached = plan.fitting.front();
  EXPECT_EQ(text(cached.steps), "create digits=12 store=db://host/ids strategy=cached");
  EXPECT_EQ(text(plan.fitting[2].steps), "create digits=12 store=db://host/ids stripes=1000");
  EXPECT_EQ(plan.fitting[2].space, 1e12) << "with digits, what has no order begins at 0";
  EXPECT_EQ(plan.fitting[2].block, 1e9);
  EXPECT_EQ(cached.space, 1e12 - 1);
  EXPECT_EQ(cached.store_writes_per_second, 4);
  EXPECT_EQ(cached.seconds_to_count, 2e4);
  EXPECT_NEAR(cached.seconds_to_end, 2e7, 1);
}

TEST(Plan, SqliteOnOneHostTakesAnInteger) {
  EXPECT_EQ(recommended({.hosts = 1, .database = Database::kSqlite}), "counter");
  EXPECT_EQ(recommended({.hosts = 2, .database = Database::kSqlite}), "uuid7");
}

TEST(Plan, MongodbTakesItsOwnType) {
  EXPECT_EQ(recommended({.hosts = 40, .database = Database::kMongodb}), "object-id");
  EXPECT_EQ(recommended({.hosts = 40, .order = Ordering::kPerHost, .database = Database::kMongodb}),
            "uuid7");
  // 40 random bits are too few for very many processes.
  EXPECT_EQ(recommended({.hosts = 5000, .database = Database::kMongodb}), "uuid7");
  EXPECT_THAT(objection({.hosts = 5000, .database = Database::kMongodb}, "object-id"),
              HasSubstr("odds of a repeat"));
}

TEST(Plan, WithoutAWidthVersion7) {
  for (const Database database : {Database::kNone, Database::kPostgresql, Database::kMysql}) {
    EXPECT_EQ(recommended({.hosts = 40, .database = database}), "uuid7");
  }
  EXPECT_EQ(recommended({.bits = 128}), "uuid7");
  EXPECT_EQ(recommended({.hosts = 40, .order = Ordering::kPerHost}), "uuid7");
  EXPECT_THAT(objection({.hosts = 40}, "cached"), HasSubstr("all 40 hosts"));
}

// ---- what is refused

TEST(Plan, TooManyForTheNumbers) {
  Needs needs = twelve_digits();
  needs.digits = 8;
  EXPECT_TRUE(make_plan(needs, kNow).fitting.empty());
  EXPECT_THAT(objection(needs, "cached"), HasSubstr("only 99,999,999"));
  needs.count = 9e7;
  EXPECT_EQ(recommended(needs), "cached");
  EXPECT_THAT(objection(needs, "random"), HasSubstr("90 % of the numbers would be used up"));
  needs.count = 4e7;
  EXPECT_EQ(objection(needs, "random"), "");
  EXPECT_THAT(objection({.bits = 8, .count = 100, .hosts = 1}, "striped"), HasSubstr("too few"));
  EXPECT_EQ(objection({.digits = 1, .count = 1, .hosts = 11}, "counter for each host"),
            "the numbers are too few for 11 blocks");
  EXPECT_EQ(text(fitting({.digits = 1, .count = 1, .hosts = 10}, "counter for each host").steps),
            "create digits=1 start=0 max=0");
}

TEST(Plan, TooFast) {
  EXPECT_THAT(objection({.bits = 53, .hosts = 1, .rate = 65e3}, "snowflake"),
              HasSubstr("at most 64,000/s"));
  EXPECT_EQ(objection({.bits = 53, .hosts = 1, .rate = 64e3}, "snowflake"), "");
  EXPECT_THAT(objection({.hosts = 1, .rate = 2e7}, "object-id"), HasSubstr("at most 16,777,216/s"));
}

// One id in a call is promised no faster than it was measured; batches are named apart.
TEST(Plan, TooFastForOneInACall) {
  Needs needs{.digits = 18, .hosts = 1, .rate = 224e3, .round_trip = 1ms};
  EXPECT_EQ(objection(needs, "counter"), "");
  needs.rate = 1e6;
  for (const std::string_view source :
       {"counter", "striped", "interleaved", "permuted", "random"}) {
    EXPECT_EQ(objection(needs, source),
              "one id in a call, it gives at most 224,000/s, as measured; 1,000,000/s take batches "
              "of 5: give the rate of the calls instead")
        << source;
  }
  EXPECT_EQ(recommended(needs), "cached");
  needs.order = Ordering::kStrict;
  EXPECT_EQ(recommended(needs), "");
  const Plan plan = make_plan(needs, kNow);
  const Choice* const counter = find(plan.unfitting, "counter");
  ASSERT_NE(counter, nullptr);
  EXPECT_EQ(counter->batch, 5);
  EXPECT_EQ(counter->ids_per_second, 224e3);
}

TEST(Plan, StrictOrderOnOneHost) {
  const Needs needs{.hosts = 1, .order = Ordering::kStrict};
  EXPECT_EQ(recommended(needs), "counter");
  EXPECT_EQ(objection(needs, "uuid7"), "the ids of two processes are in no strict order");
  EXPECT_EQ(objection(needs, "uuid4"), "ids of one host do not come in their order (none)");
  EXPECT_THAT(objection(needs, "counter for each host"), HasSubstr("there is one host"));
  for (const Choice& choice : make_plan(needs, kNow).unfitting) {
    EXPECT_THAT(choice.reason, Not(HasSubstr("two hosts"))) << choice.source;
  }
  EXPECT_EQ(objection({.hosts = 2, .order = Ordering::kStrict}, "uuid7"),
            "the ids of two hosts are in no strict order");
}

TEST(Plan, WhereNoneMayBeMissingANumberComesWithItsDocument) {
  Needs needs{.order = Ordering::kGapless,
              .database = Database::kMongodb,
              .shared_store = true,
              .shared_url = kShared};
  EXPECT_EQ(recommended(needs), "gapless");
  const Plan plan = make_plan(needs, kNow);
  EXPECT_EQ(plan.fitting.size(), 1U);
  EXPECT_EQ(text(plan.fitting.front().steps),
            "create store=" + std::string(kShared) + " strategy=gapless");
  EXPECT_EQ(plan.fitting.front().then, Then::kInsertWithIt);
  EXPECT_THAT(objection(needs, "counter"), HasSubstr("missing for ever"));
  needs.hosts = 40;
  EXPECT_EQ(recommended(needs), "gapless");
  needs.rate = 1e4;
  EXPECT_THAT(objection(needs, "gapless"), HasSubstr("take batches of 2"));
  needs.order = Ordering::kStrict;
  EXPECT_THAT(objection(needs, "gapless"), HasSubstr("only with its document"));
  EXPECT_THAT(objection({.order = Ordering::kGapless}, "gapless"),
              HasSubstr("it takes the database mongodb"));
  EXPECT_THAT(objection({.database = Database::kMongodb}, "gapless"), HasSubstr("left out"));
}

TEST(Plan, EachHostsOwnStoreHasARoundTripToo) {
  Needs needs = twelve_digits_unshared();
  needs.own_round_trip = 2ms;
  EXPECT_EQ(fitting(needs, "counter for each host").callers, 150);
  needs.round_trip = 100us;
  EXPECT_EQ(fitting(needs, "counter for each host").callers, 8) << "not slower than the shared one";
}

TEST(Plan, TheEndOfTime) {
  // 2^41 ms after 2015: 2084-09-06; at 10 ids a second 10^10 take 31 years, 10^11 ten times that.
  EXPECT_EQ(objection({.bits = 63, .count = 1e10, .hosts = 2, .rate = 10}, "snowflake"), "");
  EXPECT_THAT(objection({.bits = 63, .count = 1e11, .hosts = 2, .rate = 10}, "snowflake"),
              HasSubstr("time ends before the last id"));
  EXPECT_EQ(fitting({.bits = 63, .hosts = 2}, "snowflake").time_ends,
            std::chrono::sys_seconds{1420070400s + 2199023255s});
  EXPECT_EQ(objection({.bits = 63, .hosts = 2}, "snowflake"), "");
  // UUIDv7 and ULID have 48 bits of milliseconds: 8,862 years from 2027.
  EXPECT_EQ(print_day(*fitting({}, "uuid7").time_ends), "10889-08-02");
  const Needs endless{.count = 1e30};
  EXPECT_TRUE(make_plan(endless, kNow).fitting.empty());
  for (const std::string_view source : {"uuid7", "ulid"}) {
    EXPECT_EQ(objection(endless, source),
              "the time ends before the last id: 10889-08-02, in 8,862 years, and 1e+30 ids take "
              "3.17e+19 years at 1,000/s");
  }
  EXPECT_EQ(objection({.count = 2.7e14}, "uuid7"), "");
  EXPECT_THAT(objection({.count = 2.8e14}, "uuid7"), HasSubstr("the time ends"));
  const Plan late = make_plan({.bits = 63, .hosts = 2}, Instant{4'000'000'000s});
  EXPECT_EQ(find(late.unfitting, "snowflake")->reason, "the time ended 2084-09-06");
}

TEST(Plan, TheCommandMakesAsManyAsAreCounted) {
  const Needs needs{.digits = 19, .count = 9.1e18, .hosts = 1};
  EXPECT_EQ(text(fitting(needs, "cached").steps),
            "create digits=19 max=9223372036854775806 strategy=cached");
  EXPECT_EQ(text(fitting(needs, "interleaved").steps),
            "create digits=19 max=9223372036854775791 strategy=interleaved "
            "stripes=16");
  EXPECT_EQ(text(fitting({.bits = 53, .hosts = 1}, "interleaved").steps),
            "create max=9007199254740991 strategy=interleaved stripes=16");
}

// The second of two blocks would end past every integer: the sanitizers see it.
TEST(Plan, OneHostHasNoSecondBlock) {
  for (const std::string_view source : {"counter for each host", "random for each host"}) {
    const Plan plan = make_plan({.bits = 64, .hosts = 1}, Instant{});
    EXPECT_THAT(find(plan.unfitting, source)->reason, HasSubstr("one host"));
  }
}

TEST(Plan, Days) {
  EXPECT_EQ(print_day(std::chrono::sys_seconds{0s}), "1970-01-01");
  EXPECT_EQ(print_day(std::chrono::sys_seconds{3619093655s}), "2084-09-06");
}

TEST(Plan, NoDecimalDigits) {
  EXPECT_THAT(objection(twelve_digits(), "uuid7"), HasSubstr("letters"));
  EXPECT_THAT(objection(twelve_digits(), "snowflake"), HasSubstr("grow with time"));
  EXPECT_THAT(objection({.bits = 64}, "uuid4"), HasSubstr("128 bits"));
}

// ---- arithmetic

TEST(Plan, OddsOfWhatIsNotCoordinated) {
  const Needs needs{.count = 1e9, .hosts = 40, .rate = 5e4};
  const auto odds = [&](std::string_view source) {
    return *fitting(needs, source).odds_of_a_repeat;
  };
  EXPECT_NEAR(odds("uuid4") / (1e9 * (1e9 - 1) / 2 / 0x1p122), 1, 1e-12);
  // 50 ids in a millisecond, 25 pairs for each id.
  EXPECT_NEAR(odds("uuid7") / (1e9 * 25 / 0x1p73), 1, 1e-12);
  EXPECT_NEAR(odds("ulid") / (1e9 * 25 / 0x1p80), 1, 1e-12);
  EXPECT_NEAR(odds("ksuid") / (1e9 * 25'000 / 0x1p128), 1, 1e-12);
  EXPECT_NEAR(odds("object-id") / (40 * 39 / 2 / 0x1p40), 1, 1e-9);
  EXPECT_THAT(objection(needs, "xid"), HasSubstr("1 in 21,510"));  // 780 pairs of 2^24 machines
  EXPECT_GT(*fitting({.hosts = 1}, "uuid7").odds_of_a_repeat, 0) << "of two processes, they may";
  EXPECT_GT(*fitting({.hosts = 1}, "ulid").odds_of_a_repeat, 0);
  // All 10 in one second: no more than 45 pairs, whatever the rate.
  EXPECT_NEAR(*fitting({.count = 10, .rate = 1e6}, "ksuid").odds_of_a_repeat / (45 / 0x1p128), 1,
              1e-12);
}

TEST(Plan, RandomNumbersAndTheirRedraws) {
  const Choice random = fitting(twelve_digits(), "random");
  EXPECT_NEAR(*random.odds_that_the_last_collides, 0.001, 1e-8);
  EXPECT_NEAR(*random.redraws, 500'334, 1);
  EXPECT_EQ(random.odds_of_a_repeat, std::nullopt) << "claimed: none repeats";
}

TEST(Plan, WorkerIdsHashedFromAddresses) {
  long double different = 1;
  for (int i = 1; i < 40; ++i) different *= 1 - i / 1024.0L;
  EXPECT_NEAR(*fitting({.bits = 63, .hosts = 40}, "snowflake").odds_of_shared_worker,
              static_cast<double>(1 - different), 1e-14);
}

TEST(Plan, EachOriginOfAWorkerIdHasItsConditionOrItsOdds) {
  const Choice snowflake = fitting({.bits = 63, .hosts = 40}, "snowflake");
  std::string origins;
  for (const WorkerTerms& terms : snowflake.worker_terms) {
    origins += std::string(terms.origin) + " ";
    const bool practical = terms.guarantee == Guarantee::kPractical;
    EXPECT_EQ(terms.odds_of_share, practical ? snowflake.odds_of_shared_worker : std::nullopt)
        << terms.origin;
    if (terms.origin == "mac") {  // as if it had two bits less
      EXPECT_EQ(terms.most_odds_of_share, odds_of_a_repeat(40, 256));
    } else {
      EXPECT_EQ(terms.most_odds_of_share, terms.odds_of_share);
    }
    EXPECT_EQ(terms.condition.starts_with("if "), terms.guarantee == Guarantee::kUniqueIfConfigured)
        << terms.condition;
    if (terms.origin == "address") {
      EXPECT_THAT(terms.condition, HasSubstr("prefix 22 "));
    }
  }
  EXPECT_EQ(origins, "leased N env:NAME ordinal address mac random ");
  // On stores of their own two hosts would lease one worker id.
  const auto leased = [](const Needs& needs) {
    const WorkerTerms terms = fitting(needs, "snowflake").worker_terms.front();
    return terms.condition + ": " + text(terms.steps);
  };
  EXPECT_THAT(leased({.bits = 64, .hosts = 40}),
              AllOf(HasSubstr("in a store that all hosts reach"), HasSubstr(" store=URL")));
  EXPECT_THAT(leased({.bits = 64, .hosts = 40, .shared_store = true, .shared_url = kShared}),
              HasSubstr("kind=pool store=" + std::string(kShared)));
  EXPECT_THAT(leased({.bits = 64}), Not(HasSubstr("store=")));
  // 64 worker ids.
  EXPECT_THAT(fitting({.bits = 53, .hosts = 40}, "snowflake").worker_terms[4].condition,
              HasSubstr("prefix 26 "));
  EXPECT_TRUE(fitting({}, "uuid7").worker_terms.empty());
}

TEST(Plan, CallersThatAreCombined) {
  // Half a round to wait for the one under way, and one of its own: 37.5 ms at 50,000/s.
  const Choice counter = fitting(twelve_digits(), "counter");
  EXPECT_EQ(counter.callers, 1875);
  EXPECT_THAT(counter.speed, HasSubstr("one caller 40/s"));
  EXPECT_EQ(counter.store_writes_per_second, 1600);
  EXPECT_EQ(counter.ids_per_second, 40 * 224e3) << "as measured";
  EXPECT_EQ(counter.batch, 1);
  EXPECT_THAT(counter.speed,
              HasSubstr("one in a call, at most 224,000/s on each host, as measured"));
  EXPECT_EQ(fitting({.digits = 12, .hosts = 1, .round_trip = 10s}, "counter").ids_per_second,
            1e6 / 15)
      << "no more may wait at a time";
  EXPECT_EQ(fitting(twelve_digits(), "striped").store_writes_per_second, 1600)
      << "each open sequence has one round under way";
  EXPECT_EQ(fitting(twelve_digits(), "cached").callers, std::nullopt);
}

// ---- bytes

TEST(Plan, BytesInPostgresql) {
  const Stored integer = stored_integer(Database::kPostgresql, 1e12, true);
  EXPECT_EQ(integer.row_bytes, 8);
  EXPECT_NEAR(integer.index_bytes, 20 / 0.9, 1e-9);
  const Stored uuid = stored_binary(Database::kPostgresql, 16, false);
  EXPECT_EQ(uuid.type, "uuid");
  EXPECT_EQ(uuid.row_bytes, 16);
  EXPECT_NEAR(uuid.index_bytes, 28 / kRandomFill, 1e-9);
  const Stored text = stored_text(Database::kPostgresql, 36, true);
  EXPECT_EQ(text.row_bytes, 37);
  EXPECT_NEAR(text.index_bytes, (8 + 40 + 4) / 0.9, 1e-9);
}

TEST(Plan, BytesInMysql) {
  EXPECT_EQ(stored_integer(Database::kMysql, 1e12, true).row_bytes, 8);
  EXPECT_EQ(stored_binary(Database::kMysql, 16, true).type, "BINARY(16)");
  EXPECT_NEAR(stored_binary(Database::kMysql, 16, true).index_bytes, 16 * 16 / 15.0, 1e-9);
  EXPECT_NEAR(stored_text(Database::kMysql, 36, false).index_bytes, 36 / kRandomFill, 1e-9);
}

TEST(Plan, BytesInSqlite) {
  EXPECT_EQ(stored_integer(Database::kSqlite, 127, true).row_bytes, 1);
  EXPECT_EQ(stored_integer(Database::kSqlite, 128, true).row_bytes, 2);
  EXPECT_EQ(stored_integer(Database::kSqlite, 1e12 - 1, true).row_bytes, 6);
  EXPECT_EQ(stored_integer(Database::kSqlite, 0x1p62, true).row_bytes, 9);
  EXPECT_EQ(stored_integer(Database::kSqlite, 1e12, true).index_bytes, 0);
  EXPECT_EQ(stored_binary(Database::kSqlite, 16, true).index_bytes, 25);
  // A counter up to 10^9 has 30 bits, and a value drawn out of all numbers has 63.
  const Needs billion{.count = 1e9, .hosts = 1, .database = Database::kSqlite};
  EXPECT_EQ(fitting(billion, "counter").stored.front().row_bytes, 5);
  EXPECT_EQ(fitting(billion, "counter").stored.back().type, "TEXT, 10");
  EXPECT_EQ(fitting(billion, "random").stored.front().row_bytes, 9);
}

TEST(Plan, BytesInMongodb) {
  EXPECT_EQ(stored_integer(Database::kMongodb, 1e9, true).row_bytes, 13);
  EXPECT_EQ(stored_binary(Database::kMongodb, 12, true, true).row_bytes, 17);
  EXPECT_EQ(stored_binary(Database::kMongodb, 16, true).row_bytes, 26);
  EXPECT_EQ(stored_text(Database::kMongodb, 24, true).row_bytes, 34);
}

TEST(Plan, BytesInRedisAndBare) {
  EXPECT_EQ(stored_text(Database::kRedis, 36, true).row_bytes, 40);
  EXPECT_EQ(stored_text(Database::kRedis, 12, true).row_bytes, 16);
  EXPECT_EQ(stored_binary(Database::kNone, 16, true).row_bytes, 16);
  const Choice cached = fitting({.digits = 12, .hosts = 1, .database = Database::kRedis}, "cached");
  ASSERT_EQ(cached.stored.size(), 1u);
  EXPECT_EQ(cached.stored.front().type, "key of 12");
}

TEST(Plan, EveryChoiceSaysEverything) {
  for (const Needs& needs : {twelve_digits(), Needs{.hosts = 40}, Needs{.bits = 63, .hosts = 3}}) {
    const Plan plan = make_plan(needs, kNow);
    EXPECT_EQ(plan.fitting.size() + plan.unfitting.size(), 20u);
    for (const auto* const choices : {&plan.fitting, &plan.unfitting}) {
      for (const Choice& choice : *choices) {
        for (const std::string& text :
             {choice.about, choice.reason, choice.order, choice.speed, choice.locality,
              choice.clock_goes_back, choice.host_dies, choice.store_down}) {
          EXPECT_FALSE(text.empty()) << choice.source;
        }
        EXPECT_FALSE(choice.stored.empty());
        EXPECT_EQ(text(choice.steps).empty(), choices == &plan.unfitting) << choice.source;
      }
    }
  }
}

TEST(Plan, Names) {
  for (const std::string_view text : {"none", "per-host", "strict", "gapless"}) {
    EXPECT_EQ(name(*ordering_named(text)), text);
  }
  for (const std::string_view text :
       {"none", "mongodb", "postgresql", "mysql", "sqlite", "redis"}) {
    EXPECT_EQ(name(*database_named(text)), text);
  }
  EXPECT_THAT(ordering_named("any").error().message(), HasSubstr("none, per-host, strict"));
  EXPECT_THAT(database_named("oracle").error().message(), HasSubstr("postgresql"));
}

}  // namespace
}  // namespace idmint::advice
