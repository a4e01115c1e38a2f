#include "ids/worker_lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "idmint/entropy.h"
#include "idmint/snowflake.h"
#include "idmint/store.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/faulty_table.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::FaultyTable;
using fakes::in_child;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr std::int64_t kStartOfLease = 1'000'000;  // ms after the epoch of the layout
// So long that no thread renews while a test runs, on a machine that stands still for minutes too.
constexpr std::int64_t kWindow = milliseconds{hours{1}}.count();
constexpr std::int64_t kDrift = kWindow + 5'000;

class WorkerLeaseTest : public testing::Test {
 protected:
  WorkerLeaseTest() { make_pool(3); }

  void make_pool(std::int64_t workers) {
    ASSERT_TRUE(table_.create_pool("p" + std::to_string(workers), workers));
    pool_ = "p" + std::to_string(workers);
  }
  static Instant at(std::int64_t tick) { return layout().epoch + milliseconds{tick}; }
  static SnowflakeLayout layout() { return snowflake_layout("sequence-generator").value(); }

  Result<std::unique_ptr<SnowflakeGenerator>> try_open(bool one_unit = false) {
    return open_leased(table_, pool_,
                       {.layout = layout(),
                        .holder = "me",
                        .max_drift = milliseconds{kDrift},
                        .window = milliseconds{kWindow},
                        .one_unit = one_unit},
                       clock_);
  }
  std::unique_ptr<SnowflakeGenerator> open(bool one_unit = false) {
    auto generator = try_open(one_unit);
    if (!generator) {
      ADD_FAILURE() << generator.error().message();
      std::abort();
    }
    return *std::move(generator);
  }
  SnowflakeParts next(SnowflakeGenerator& generator) {
    const Result<Snowflake> id = generator.next();
    if (!id) {
      ADD_FAILURE() << id.error().message();
      std::abort();
    }
    EXPECT_TRUE(seen_.insert(id->value()).second) << "twice: " << id->value();
    return layout().decode(*id).value();
  }
  LeaseState row(std::int64_t worker) {
    return table_.workers(pool_).value().at(static_cast<std::size_t>(worker));
  }
  // Somebody else takes the worker id, as if its time were over.
  Lease take_over(std::int64_t worker) {
    const LeaseState state = row(worker);
    EXPECT_TRUE(table_.release(pool_, worker, state.token, state.generation));
    const Uuid token(Uuid::Bytes{0xff});
    const auto lease = table_.acquire(pool_, {.token = token,
                                              .now = 0,
                                              .units = 5,
                                              .max_drift = std::int64_t{1} << 50,
                                              .terms = {.held = hours{1}}});
    return lease.value();
  }

  ManualClock clock_{at(kStartOfLease)};
  FaultyTable table_;
  std::string pool_;
  std::set<std::uint64_t> seen_;
};

TEST_F(WorkerLeaseTest, TakesAWindowAndMintsBelowIt) {
  const auto begin = std::chrono::steady_clock::now();
  const auto generator = open_leased(table_, pool_, {.layout = layout(), .holder = "me"}, clock_);
  ASSERT_TRUE(generator) << generator.error().message();
  const SnowflakeParts parts = next(**generator);
  EXPECT_EQ(parts.time, at(kStartOfLease));
  const LeaseState state = row(parts.worker);
  EXPECT_EQ(state.minted_until, kStartOfLease + 15'000);
  EXPECT_EQ(state.holder, "me");
  EXPECT_LE(state.held_for, seconds{15});
  EXPECT_GT(state.held_for + (std::chrono::steady_clock::now() - begin),
            seconds{15} - milliseconds{1});
}

TEST_F(WorkerLeaseTest, OneUnitIsAllAShortRunTakes) {
  std::set<std::uint32_t> workers;
  for (int run = 0; run < 5; ++run) {
    const auto generator = open(true);
    std::vector<Snowflake> ids(4096);
    ASSERT_TRUE(generator->next(ids));
    for (const Snowflake id : ids) EXPECT_TRUE(seen_.insert(id.value()).second);
    const SnowflakeParts parts = layout().decode(ids.back()).value();
    workers.insert(parts.worker);
    EXPECT_EQ(row(parts.worker).minted_until, kStartOfLease + 1 + run / 3);
  }
  EXPECT_EQ(workers.size(), 3U) << "those whose bound is in the past come first";
  EXPECT_EQ(table_.calls(), 5U) << "one command each";
}

TEST_F(WorkerLeaseTest, AWindowFollowsTheFirstUnit) {
  const auto generator = open(true);
  const SnowflakeParts first = next(*generator);
  clock_.set(at(kStartOfLease + 1));
  EXPECT_EQ(next(*generator).worker, first.worker);
  EXPECT_EQ(row(first.worker).minted_until, kStartOfLease + 1 + kWindow);
}

TEST_F(WorkerLeaseTest, TwoInOneProcessHaveTwoWorkerIds) {
  const auto one = open();
  const auto two = open();
  EXPECT_NE(next(*one).worker, next(*two).worker);
}

TEST_F(WorkerLeaseTest, ReleaseHandsOverAtOnceAndTheBoundStays) {
  make_pool(1);
  for (int run = 0; run < 3; ++run) {
    const auto generator = open(true);
    EXPECT_EQ(next(*generator).time, at(kStartOfLease + run)) << "each above the one before";
    EXPECT_EQ(try_open(true).error().code, Code::kResourceExhausted);
  }
}

TEST_F(WorkerLeaseTest, AllWorkerIdsHeldIsAClearRefusal) {
  make_pool(1);
  const auto generator = open();
  const auto refused = try_open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_THAT(refused.error().message(), HasSubstr("every worker id has an owner"));
}

TEST_F(WorkerLeaseTest, StopsAtTheBoundWhileTheStoreDoesNotAnswerAndGoesOn) {
  const auto generator = open();
  const std::uint32_t worker = next(*generator).worker;
  table_.fail_all(Code::kUnavailable);
  clock_.set(at(kStartOfLease + kWindow - 1));
  EXPECT_EQ(next(*generator).time, at(kStartOfLease + kWindow - 1))
      << "below the bound it needs no store";
  clock_.set(at(kStartOfLease + kWindow));
  const auto refused = generator->next();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_THAT(refused.error().message(), HasSubstr("was not renewed"));
  const std::size_t calls = table_.calls();
  EXPECT_EQ(generator->next().error().code, Code::kUnavailable);
  EXPECT_EQ(table_.calls(), calls) << "not asked again at once";
  table_.fail_all(std::nullopt);
  clock_.set(at(kStartOfLease + kWindow + 200));
  EXPECT_EQ(next(*generator).worker, worker);
}

TEST_F(WorkerLeaseTest, AClockThatIsSetBackDoesNotKeepItFromAskingAgain) {
  const auto generator = open();
  static_cast<void>(next(*generator));
  clock_.set(at(kStartOfLease + kWindow + 1'000));
  table_.fail_next(Code::kUnavailable);
  EXPECT_EQ(generator->next().error().code, Code::kUnavailable);
  clock_.set(at(kStartOfLease + kWindow));
  EXPECT_EQ(next(*generator).time, at(kStartOfLease + kWindow));
}

TEST_F(WorkerLeaseTest, AnExtendOfUnknownOutcomeDoesNotMoveTheBound) {
  for (const bool applied : {false, true}) {
    const auto generator = open();
    const std::uint32_t worker = next(*generator).worker;
    const std::int64_t bound = row(worker).minted_until;
    clock_.set(at(bound));
    table_.fail_next(Code::kUnknown, applied);
    EXPECT_EQ(generator->next().error().code, Code::kUnavailable);
    EXPECT_EQ(row(worker).minted_until > bound, applied);
    clock_.set(at(bound + 500));
    EXPECT_EQ(next(*generator).worker, worker) << "asked for again";
  }
}

TEST_F(WorkerLeaseTest, AnExtendOfUnknownOutcomeIsAskedForAgainUnderItsNonce) {
  const auto generator = open();
  const std::uint32_t worker = next(*generator).worker;
  clock_.set(at(kStartOfLease + kWindow));
  table_.fail_next(Code::kUnknown, /* applied = */ true);
  EXPECT_EQ(generator->next().error().code, Code::kUnavailable);
  clock_.set(at(kStartOfLease + kWindow + 300));
  table_.fail_next(
      Code::kUnavailable);  // this time it was not applied: the first one may have been
  EXPECT_EQ(generator->next().error().code, Code::kUnavailable);
  clock_.set(at(kStartOfLease + kWindow + 600));
  EXPECT_EQ(next(*generator).worker, worker);
  clock_.set(at(kStartOfLease + 2 * kWindow + 600));
  table_.fail_next(Code::kUnavailable);  // nothing was applied: the next is another one
  EXPECT_EQ(generator->next().error().code, Code::kUnavailable);
  clock_.set(at(kStartOfLease + 2 * kWindow + 900));
  EXPECT_EQ(next(*generator).worker, worker);
  const auto sent = table_.extensions();
  ASSERT_EQ(sent.size(), 6U);
  for (const std::size_t again : {1U, 2U}) {
    EXPECT_EQ(sent[again].nonce, sent[0].nonce);
    EXPECT_EQ(sent[again].to, sent[0].to);
    EXPECT_EQ(sent[again].lease, sent[0].lease);
  }
  EXPECT_EQ(sent[3].lease.to, sent[0].to) << "then from there a window ahead of the clock";
  EXPECT_EQ(sent[3].to, kStartOfLease + 2 * kWindow + 600);
  const std::set<Uuid> drawn{sent[2].nonce, sent[3].nonce, sent[4].nonce, sent[5].nonce};
  EXPECT_EQ(drawn.size(), 4U) << "drawn for each";
}

// A copy of the process has the same lease and goes on with it.
TEST_F(WorkerLeaseTest, ACopyThatComesSecondTakesAnotherWorkerId) {
  const auto generator = open();
  const std::uint32_t worker = next(*generator).worker;
  const LeaseState state = row(worker);
  const Lease copied{worker, state.token, state.generation, kStartOfLease, state.minted_until};
  const auto others =
      table_.extend(pool_, copied, copied.to + kWindow, Uuid::max(), {.held = hours{1}});
  ASSERT_TRUE(others) << others.error().message();
  clock_.set(at(kStartOfLease + kWindow - 1));
  EXPECT_EQ(next(*generator).worker, worker) << "below the bound that both have";
  clock_.set(at(kStartOfLease + kWindow));
  const SnowflakeParts parts = next(*generator);
  EXPECT_NE(parts.worker, worker);
  EXPECT_NE(row(parts.worker).token, state.token);
  EXPECT_TRUE(
      table_.extend(pool_, *others, others->to + kWindow, Uuid{Uuid::Bytes{1}}, {.held = hours{1}}))
      << "the first goes on";
}

// ---- deadlines

TEST_F(WorkerLeaseTest, ADeadlineTravelsDownAsAPointInTime) {
  const auto generator = open();
  clock_.set(at(kStartOfLease + kWindow));
  const SteadyTime until = std::chrono::steady_clock::now() + hours{7};
  std::array<Snowflake, 1> ids;
  table_.fail_next(Code::kUnknown);
  ASSERT_FALSE(generator->next(ids, until));
  clock_.set(at(kStartOfLease + kWindow + 300));
  ASSERT_TRUE(generator->next(ids, until)) << "two requests, the one of before first";
  clock_.set(at(kStartOfLease + 3 * kWindow));
  const SteadyTime begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(generator->next());
  const SteadyTime end = std::chrono::steady_clock::now();
  const auto sent = table_.extensions();
  ASSERT_EQ(sent.size(), 4U);
  for (const std::size_t i : {0U, 1U, 2U}) EXPECT_EQ(sent[i].until, until);
  EXPECT_GE(sent[3].until, begin + seconds{5});
  EXPECT_LE(sent[3].until, end + seconds{5});
}

// The table answers none of them before all but one have gone.
TEST_F(WorkerLeaseTest, CallersBehindOneThatAsksLeaveAtTheirOwnTime) {
  const auto generator = open();
  clock_.set(at(kStartOfLease + kWindow));
  table_.hold(true);
  std::jthread first([&] { EXPECT_TRUE(generator->next()); });
  table_.wait_until_one_is_held();
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 16; ++i)
      callers.emplace_back([&] {
        std::array<Snowflake, 1> ids;
        const auto late = generator->next(ids, std::chrono::steady_clock::now() + milliseconds{20});
        EXPECT_EQ(late.error().code, Code::kUnavailable);
      });
  }
  EXPECT_EQ(table_.extensions().size(), 1U);
  table_.hold(false);
}

TEST_F(WorkerLeaseTest, CallersBehindARenewalLeaveAtTheirOwnTimeOrShareItsFailure) {
  const auto lease = WorkerLease::acquire(table_,
                                          {.pool = pool_,
                                           .holder = "me",
                                           .epoch = layout().epoch,
                                           .unit = layout().unit,
                                           .max_tick = layout().max_tick(),
                                           .max_worker = layout().max_worker(),
                                           .max_drift = kDrift,
                                           .held = hours{1},
                                           .deadline = seconds{5}},
                                          clock_, system_entropy(), SteadyTime::max());
  ASSERT_TRUE(lease) << lease.error().message();
  table_.fail_next(Code::kPermissionDenied);
  table_.hold(true);
  std::jthread renewal([&] { EXPECT_FALSE((*lease)->renew()); });
  table_.wait_until_one_is_held();
  const auto late =
      (*lease)->extend(kStartOfLease + 1, std::chrono::steady_clock::now() + milliseconds{20});
  EXPECT_EQ(late.error().code, Code::kUnavailable);
  EXPECT_THAT(late.error().message(), HasSubstr("was not renewed in time"));
  std::jthread waiting([&] {
    EXPECT_EQ((*lease)->extend(kStartOfLease + 1, SteadyTime::max()).error().code,
              Code::kPermissionDenied);
  });
  table_.hold(false);
  waiting.join();
  EXPECT_EQ(table_.extensions().size(), 1U) << "of the renewal alone";
}

TEST_F(WorkerLeaseTest, ALostLeaseIsUsedToItsBoundThenTakenAnewAboveTheLastId) {
  const auto generator = open();
  const std::uint32_t worker = next(*generator).worker;
  const Lease others = take_over(worker);
  EXPECT_EQ(others.worker, worker + 1) << "of the smallest bound";
  const Uuid stolen = row(worker).token;
  EXPECT_EQ(stolen, Uuid{});
  clock_.set(at(kStartOfLease + kWindow - 1'000));
  EXPECT_EQ(next(*generator).worker, worker);
  clock_.set(at(kStartOfLease + kWindow));
  const SnowflakeParts parts = next(*generator);
  EXPECT_GE(parts.time, at(kStartOfLease + kWindow));
  EXPECT_NE(parts.worker, others.worker);
  EXPECT_EQ(row(parts.worker).holder, "me");
}

TEST_F(WorkerLeaseTest, TakenAnewPastWhatOthersMintedItBeginsThere) {
  make_pool(1);
  const auto generator = open();
  static_cast<void>(next(*generator));
  const LeaseState mine = row(0);
  ASSERT_TRUE(table_.release(pool_, 0, mine.token, mine.generation));
  const auto other = table_.acquire(pool_, {.token = Uuid(Uuid::Bytes{1}),
                                            .now = kStartOfLease,
                                            .units = 4'000,
                                            .max_drift = kDrift,
                                            .terms = {.held = milliseconds{0}}});
  ASSERT_TRUE(other);
  EXPECT_EQ(other->from, kStartOfLease + kWindow);
  clock_.set(at(kStartOfLease + kWindow));
  const SnowflakeParts parts = next(*generator);
  EXPECT_EQ(parts.time, at(other->to)) << "ahead of the clock, within max_drift";
  // The next is not below it, whatever was had before.
  clock_.set(at(kStartOfLease + kWindow + 1));
  EXPECT_EQ(next(*generator).time, at(other->to));
}

TEST_F(WorkerLeaseTest, WhoIsAheadOfTheClockLeavesTheNextWithinMaxDrift) {
  make_pool(1);
  ASSERT_TRUE(table_.raise_floor(pool_, kStartOfLease + kDrift - 5));
  const auto generator = open();
  EXPECT_EQ(next(*generator).time, at(kStartOfLease + kDrift - 5));
  std::vector<Snowflake> ids(3 * 4096);
  ASSERT_TRUE(generator->next(ids));
  EXPECT_EQ(layout().decode(ids.back())->time, at(kStartOfLease + kDrift - 2));
  EXPECT_LE(row(0).minted_until, kStartOfLease + kDrift + 3) << "and not a window past the last id";
}

// kDrift past the clock, not past the id that it is ahead with.
TEST_F(WorkerLeaseTest, TakenAnewAheadOfTheClockItStaysWithinMaxDrift) {
  make_pool(1);
  ASSERT_TRUE(table_.raise_floor(pool_, kStartOfLease + kDrift - 5));
  const auto generator = open();
  static_cast<void>(next(*generator));
  const LeaseState mine = row(0);
  ASSERT_TRUE(table_.release(pool_, 0, mine.token, mine.generation));
  ASSERT_TRUE(table_.raise_floor(pool_, kStartOfLease + kDrift + 100));
  std::vector<Snowflake> ids(4096);
  const auto refused = generator->next(ids);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_EQ(row(0).token, Uuid{}) << "nobody has it for nothing";
  ASSERT_TRUE(table_.raise_floor(pool_, 0));
  clock_.set(at(kStartOfLease + 1'000));
  EXPECT_EQ(next(*generator).time, at(kStartOfLease + kDrift + 100));
  EXPECT_LE(row(0).minted_until, kStartOfLease + 1'000 + kDrift);
}

TEST_F(WorkerLeaseTest, NoWaitBeyondMaxDrift) {
  make_pool(1);
  ASSERT_TRUE(table_.raise_floor(pool_, kStartOfLease + kDrift + 1));
  const auto refused = try_open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  ASSERT_TRUE(table_.raise_floor(pool_, 0));
  clock_.set(at(kStartOfLease + 1));
  EXPECT_EQ(next(*open()).time, at(kStartOfLease + kDrift + 1));
}

TEST_F(WorkerLeaseTest, AnAcquireOfUnknownOutcomeIsAskedForAgainUnderItsToken) {
  const auto generator = open();
  const std::uint32_t worker = next(*generator).worker;
  const LeaseState mine = row(worker);
  ASSERT_TRUE(table_.release(pool_, worker, mine.token, mine.generation));
  clock_.set(at(kStartOfLease + kWindow));
  table_.fail_next(Code::kFailedPrecondition);             // the extend
  table_.fail_next(Code::kUnknown, /* applied = */ true);  // the acquire
  EXPECT_EQ(generator->next().error().code, Code::kUnavailable);
  clock_.set(at(kStartOfLease + kWindow + 300));
  static_cast<void>(next(*generator));
  const std::vector<LeaseRequest> requests = table_.requests();
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_NE(requests[1].token, requests[0].token) << "drawn for each";
  EXPECT_FALSE(requests[1].repeated);
  EXPECT_EQ(requests[2].token, requests[1].token);
  EXPECT_TRUE(requests[2].repeated);
  const auto all = table_.workers(pool_);
  ASSERT_TRUE(all);
  EXPECT_EQ(std::ranges::count(*all, "me", &LeaseState::holder), 1);
}

TEST_F(WorkerLeaseTest, AStoreThatHasGoneBackStopsItAtOnce) {
  const auto generator = open();
  static_cast<void>(next(*generator));
  table_.go_back();
  clock_.set(at(kStartOfLease + kWindow));
  EXPECT_EQ(generator->next().error().code, Code::kDataLoss);
  clock_.set(at(kStartOfLease + kWindow + 1'000));
  EXPECT_EQ(generator->next().error().code, Code::kDataLoss) << "for ever";
}

TEST_F(WorkerLeaseTest, APoolThatIsGoneStopsIt) {
  const auto generator = open();
  static_cast<void>(next(*generator));
  table_.fail_next(Code::kNotFound);
  clock_.set(at(kStartOfLease + kWindow));
  EXPECT_EQ(generator->next().error().code, Code::kDataLoss);
  clock_.set(at(kStartOfLease));
  EXPECT_EQ(generator->next().error().code, Code::kDataLoss) << "for ever, below its bound too";
}

// The thread of a generator finds it in the background, long before anybody comes to the bound.
TEST_F(WorkerLeaseTest, TheThreadStopsItAtOnce) {
  SnowflakeLayout many = layout();  // numbers in a unit, for as long as the thread may take
  many.worker_bits = 0;
  many.sequence_bits = 22;
  make_pool(1);
  const auto generator =
      open_leased(table_, pool_, {.layout = many, .window = milliseconds{30}}, clock_);
  ASSERT_TRUE(generator) << generator.error().message();
  ASSERT_TRUE((*generator)->next());
  table_.go_back();
  for (;;) {
    const auto id = (*generator)->next();
    if (!id) {
      EXPECT_EQ(id.error().code, Code::kDataLoss) << id.error().message();
      break;
    }
    ASSERT_LT(many.decode(*id)->time, at(kStartOfLease + 29)) << "nobody stops it below its bound";
    std::this_thread::yield();
  }
  EXPECT_EQ((*generator)->next().error().code, Code::kDataLoss) << "for ever";
}

TEST_F(WorkerLeaseTest, TheThreadKeepsTheBoundAheadWithoutAnybodyAsking) {
  auto options = SnowflakeLeaseOptions{.layout = layout(), .window = milliseconds{30}};
  const auto generator = open_leased(table_, pool_, options, clock_);
  ASSERT_TRUE(generator);
  const std::uint32_t worker = next(**generator).worker;
  clock_.set(at(kStartOfLease + 20));
  table_.wait_for_extends(table_.calls() + 2);
  EXPECT_EQ(row(worker).minted_until, kStartOfLease + 50);
  table_.wait_for_extends(table_.calls() + 2);
  EXPECT_EQ(row(worker).minted_until, kStartOfLease + 50) << "no further than a window ahead";
  // Failures do not end it.
  table_.fail_next(Code::kUnavailable);
  table_.wait_for_extends(table_.calls() + 1);
  clock_.set(at(kStartOfLease + 45));
  table_.wait_for_extends(table_.calls() + 2);
  EXPECT_EQ(row(worker).minted_until, kStartOfLease + 75);
}

TEST_F(WorkerLeaseTest, AChildOfForkMintsNothingAndLeavesTheLeaseAlone) {
  auto generator = open();
  const std::uint32_t worker = next(*generator).worker;
  in_child([&] {
    EXPECT_EQ(code_of(generator->next()), Code::kFailedPrecondition);
    generator.reset();
  });
  EXPECT_EQ(row(worker).holder, "me");
  clock_.set(at(kStartOfLease + kWindow));
  EXPECT_EQ(next(*generator).worker, worker);
}

// Children are forked while threads mint, one of them in the middle of a renewal or two.
TEST_F(WorkerLeaseTest, ForkWhileThreadsMint) {
  auto generator =
      open_leased(table_, pool_, {.layout = layout(), .window = milliseconds{3}}, system_clock());
  ASSERT_TRUE(generator) << generator.error().message();
  std::atomic<bool> stop{false};
  std::array<std::vector<Snowflake>, 2> ids;
  std::vector<std::jthread> threads;
  for (std::vector<Snowflake>& mine : ids)
    threads.emplace_back([&] {
      while (!stop) {
        const auto id = (*generator)->next();
        if (id) mine.push_back(*id);
      }
    });
  for (int i = 0; i < 8; ++i) {
    in_child([&] {
      EXPECT_EQ(code_of((*generator)->next()), Code::kFailedPrecondition);
      generator->reset();
    });
  }
  stop = true;
  threads.clear();
  const auto last = (*generator)->next();
  ASSERT_TRUE(last) << "the parent goes on: " << last.error().message();
  std::vector<Snowflake> all{*last};
  for (const std::vector<Snowflake>& mine : ids) all.insert(all.end(), mine.begin(), mine.end());
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
}

TEST_F(WorkerLeaseTest, TheLastUnitOfALayoutIsMintedAndNoLater) {
  clock_.set(at(layout().max_tick()));
  const auto generator = open();
  EXPECT_EQ(next(*generator).time, at(layout().max_tick()));
  clock_.set(at(layout().max_tick() + 1));
  EXPECT_EQ(generator->next().error().code, Code::kOutOfRange);
}

TEST_F(WorkerLeaseTest, AClockBeforeTheEpochIsRefusedBeforeALeaseIsHad) {
  clock_.set(at(-1));
  EXPECT_EQ(try_open().error().code, Code::kOutOfRange);
  EXPECT_EQ(table_.calls(), 0U);
}

TEST_F(WorkerLeaseTest, LongUnitsHaveWindowsOfTwo) {
  SnowflakeLayout hourly = layout();
  hourly.unit = hours{1};
  hourly.time_bits = 20;
  clock_.set(hourly.epoch + hours{100});
  make_pool(1);
  for (int run = 0; run < 2; ++run) {
    const auto generator = open_leased(table_, pool_, {.layout = hourly}, clock_);
    ASSERT_TRUE(generator) << generator.error().message();
    const auto id = (*generator)->next();
    ASSERT_TRUE(id);
    EXPECT_EQ(hourly.decode(*id)->time, hourly.epoch + hours{100 + 2 * run});
    EXPECT_EQ(row(0).minted_until, 102 + run);
  }
}

TEST_F(WorkerLeaseTest, BadOptionsAreRefused) {
  const auto code = [&](const SnowflakeLeaseOptions& options) {
    const auto generator = open_leased(table_, pool_, options, clock_);
    return generator ? Code{0} : generator.error().code;
  };
  EXPECT_EQ(code({.layout = {.time_bits = 0}}), Code::kInvalidArgument);
  EXPECT_EQ(code({.layout = layout(), .window = -seconds{1}}), Code::kInvalidArgument);
  EXPECT_EQ(code({.layout = layout(), .window = seconds{20}}), Code::kInvalidArgument)
      << "no room for max_skew";
  EXPECT_EQ(code({.layout = layout(), .max_run_ahead = seconds{5}}), Code::kInvalidArgument);
  EXPECT_EQ(code({.layout = layout(), .deadline = milliseconds{-1}}), Code::kInvalidArgument);
  SnowflakeLayout narrow = layout();
  narrow.worker_bits = 1;
  make_pool(10);
  const auto held = open();
  const auto also = open();
  EXPECT_EQ(code({.layout = narrow}), Code::kFailedPrecondition) << "worker id 2 has no room";
}

}  // namespace
}  // namespace idmint
