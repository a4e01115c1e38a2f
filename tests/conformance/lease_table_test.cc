// The conformance suite of the lease tables of all stores.
#include "ids/lease_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "idmint/clock.h"
#include "store/counter_store.h"
#include "tests/conformance/store_conformance.h"
#include "tests/fakes/in_child.h"

namespace idmint {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr std::int64_t kNow = 1'000;

// `kHeld`: no test sees the end of it; `kLapsed`: anybody may take it at once. They are so far
// apart that it is no matter if the store's clock is set meanwhile.
constexpr milliseconds kHeld = hours{1};
constexpr milliseconds kLapsed = -hours{1};

Uuid token(std::uint8_t number) {
  Uuid::Bytes bytes{};
  bytes[0] = number;
  return Uuid(bytes);
}

// Another nonce with each call.
Uuid fresh() {
  static std::atomic<std::uint32_t> drawn{0};
  const std::uint32_t number = ++drawn;
  return Uuid(Uuid::Bytes{1, static_cast<std::uint8_t>(number >> 16),
                          static_cast<std::uint8_t>(number >> 8),
                          static_cast<std::uint8_t>(number)});
}

LeaseTerms terms(milliseconds held = kHeld) {
  return {.held = held, .clock = system_clock().now(), .max_skew = hours{1}};
}

LeaseRequest request(std::uint8_t number, std::int64_t units = 10, milliseconds held = kHeld) {
  return {.token = token(number),
          .holder = "host " + std::to_string(number),
          .now = kNow,
          .units = units,
          .max_drift = 100,
          .terms = terms(held)};
}

class LeaseConformance : public StoreConformance {
 protected:
  Lease acquire(const LeaseRequest& of) {
    const Result<Lease> lease = leases().acquire("p", of);
    if (!lease) {
      ADD_FAILURE() << lease.error().message();
      std::abort();
    }
    return *lease;
  }
  LeaseState row(std::int64_t worker) {
    const auto all = leases().workers("p");
    EXPECT_TRUE(all) << all.error().message();
    return all.value().at(static_cast<std::size_t>(worker));
  }
};

TEST_P(LeaseConformance, AMissingPoolIsNotFoundAndNeverMade) {
  EXPECT_EQ(code_of(leases().acquire("p", request(1))), Code::kNotFound);
  EXPECT_EQ(code_of(leases().extend("p", {0, token(1), 1, 0, 5}, 9, fresh(), terms())),
            Code::kNotFound);
  EXPECT_EQ(code_of(leases().release("p", 0, token(1), 1)), Code::kNotFound);
  EXPECT_EQ(code_of(leases().raise_floor("p", 5)), Code::kNotFound);
  EXPECT_EQ(code_of(leases().workers("p")), Code::kNotFound);
}

TEST_P(LeaseConformance, APoolIsMadeOnceAndKeepsItsSize) {
  ASSERT_TRUE(leases().create_pool("p", 3));
  const Lease lease = acquire(request(1));
  ASSERT_TRUE(leases().create_pool("p", 3));
  EXPECT_EQ(row(lease.worker).token, token(1)) << "what is there is left";
  const auto other = leases().create_pool("p", 4);
  EXPECT_EQ(code_of(other), Code::kAlreadyExists);
  EXPECT_THAT(other.error().message(), HasSubstr("3 worker ids, not 4"));
  const auto all = leases().workers("p");
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 3U);
  for (std::int64_t worker = 0; worker < 3; ++worker)
    EXPECT_EQ((*all)[static_cast<std::size_t>(worker)].worker, worker);
}

TEST_P(LeaseConformance, BadPoolsAndRequestsAreRefused) {
  EXPECT_EQ(code_of(leases().create_pool("", 1)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(leases().create_pool(std::string(1025, 'x'), 1)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(leases().create_pool("p", 0)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(leases().create_pool("p", LeaseTable::kMaxWorkers + 1)),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of(leases().workers("p")), Code::kNotFound) << "nothing was made";

  ASSERT_TRUE(leases().create_pool("p", 1));
  constexpr std::int64_t kLast = std::int64_t{1} << 62;
  const auto refused = [&](const auto& change) {
    LeaseRequest of = request(1);
    change(of);
    return code_of(leases().acquire("p", of)) == Code::kInvalidArgument;
  };
  EXPECT_TRUE(refused([](LeaseRequest& of) { of.token = Uuid{}; }));
  EXPECT_TRUE(refused([](LeaseRequest& of) { of.units = 0; }));
  EXPECT_TRUE(refused([](LeaseRequest& of) { of.max_drift = -1; }));
  EXPECT_TRUE(refused([](LeaseRequest& of) { of.now = kLast; }));
  EXPECT_TRUE(refused([](LeaseRequest& of) { of.units = kLast; }));
  EXPECT_TRUE(refused([](LeaseRequest& of) { of.max_drift = kLast; }));
  EXPECT_EQ(row(0).minted_until, 0);

  const Lease lease = acquire(request(1));
  EXPECT_EQ(code_of(leases().extend("p", lease, lease.to, Uuid{}, terms())),
            Code::kInvalidArgument);
  for (const std::int64_t to : {lease.to - 1, kLast + 1})
    EXPECT_EQ(code_of(leases().extend("p", lease, to, fresh(), terms())), Code::kInvalidArgument)
        << to;
  EXPECT_EQ(code_of(leases().extend("p", {1, token(1), 1, 0, 5}, 9, fresh(), terms())),
            Code::kNotFound)
      << "a worker id past the end";
  EXPECT_EQ(code_of(leases().extend("p", {-1, token(1), 1, 0, 5}, 9, fresh(), terms())),
            Code::kNotFound);
  EXPECT_EQ(code_of(leases().release("p", 1, token(1), 1)), Code::kNotFound);
  EXPECT_EQ(code_of(leases().raise_floor("p", kLast + 1)), Code::kInvalidArgument);
}

TEST_P(LeaseConformance, ALeaseBeginsAtTheClockAndMovesTheBound) {
  ASSERT_TRUE(leases().create_pool("p", 1));
  const Lease lease = acquire(request(1));
  EXPECT_EQ(lease.worker, 0);
  EXPECT_EQ(lease.token, token(1));
  EXPECT_EQ(lease.from, kNow);
  EXPECT_EQ(lease.to, kNow + 10);
  const LeaseState there = row(0);
  EXPECT_EQ(there.token, token(1));
  EXPECT_EQ(there.holder, "host 1");
  EXPECT_EQ(there.generation, lease.generation);
  EXPECT_EQ(there.minted_until, kNow + 10);
  EXPECT_GT(there.held_for, milliseconds{0});
  EXPECT_LE(there.held_for, 2 * kHeld);
}

TEST_P(LeaseConformance, AClockBeforeTheEpochStartsAtZero) {
  ASSERT_TRUE(leases().create_pool("p", 1));
  LeaseRequest of = request(1);
  of.now = -50;
  const Lease lease = acquire(of);
  EXPECT_EQ(lease.from, 0);
  EXPECT_EQ(lease.to, 1);
}

TEST_P(LeaseConformance, WindowsAreNotAddedUp) {
  ASSERT_TRUE(leases().create_pool("p", 1));
  for (std::int64_t run = 0; run < 3; ++run) {
    const Lease lease = acquire(request(1));
    EXPECT_EQ(lease.from, run == 0 ? kNow : kNow + 9 + run);
    EXPECT_EQ(lease.to, kNow + 10 + run);
    ASSERT_TRUE(leases().release("p", 0, lease.token, lease.generation));
  }
}

TEST_P(LeaseConformance, TheLargestBoundsDoNotOverflow) {
  ASSERT_TRUE(leases().create_pool("p", 1));
  constexpr std::int64_t kLast = std::int64_t{1} << 62;
  LeaseRequest of = request(1);
  of.now = kLast - 20;
  of.max_drift = 10;
  const Lease lease = acquire(of);
  EXPECT_EQ(lease.to, kLast - 10);
  EXPECT_EQ(leases().extend("p", lease, kLast, fresh(), terms())->to, kLast);
  EXPECT_EQ(row(0).minted_until, kLast);
}

TEST_P(LeaseConformance, WhatIsOwnedIsNobodyElsesUntilItsTimeIsOver) {
  ASSERT_TRUE(leases().create_pool("p", 2));
  const Lease one = acquire(request(1));
  const Lease two = acquire(request(2, 10, kLapsed));
  EXPECT_NE(one.worker, two.worker);
  const Lease three = acquire(request(3));
  EXPECT_EQ(three.worker, two.worker);
  EXPECT_EQ(three.from, two.to);
  EXPECT_NE(three.generation, two.generation);
  const auto four = leases().acquire("p", request(4));
  EXPECT_EQ(code_of(four), Code::kResourceExhausted);
  EXPECT_THAT(four.error().message(), HasSubstr("every worker id has an owner"));
}

TEST_P(LeaseConformance, TheSmallestBoundIsTakenFirst) {
  ASSERT_TRUE(leases().create_pool("p", 3));
  for (const std::int64_t units : {30, 10, 20}) {
    const Lease lease = acquire(request(static_cast<std::uint8_t>(units), units));
    EXPECT_EQ(lease.from, kNow);
  }
  std::vector<std::int64_t> bounds;
  const auto all = leases().workers("p");
  ASSERT_TRUE(all);
  for (const LeaseState& state : *all) {
    ASSERT_TRUE(leases().release("p", state.worker, state.token, state.generation));
  }
  for (std::uint8_t next = 1; next <= 3; ++next) bounds.push_back(acquire(request(next)).from);
  EXPECT_EQ(bounds, (std::vector<std::int64_t>{kNow + 10, kNow + 20, kNow + 30}));
}

TEST_P(LeaseConformance, NoWaitBeyondMaxDrift) {
  ASSERT_TRUE(leases().create_pool("p", 2));
  const Lease ahead = acquire(request(1, 101));
  ASSERT_TRUE(leases().release("p", ahead.worker, ahead.token, ahead.generation));
  EXPECT_EQ(acquire(request(2, 100)).from, kNow) << "the other one is not ahead";
  const auto three = leases().acquire("p", request(3));
  EXPECT_EQ(code_of(three), Code::kUnavailable);
  EXPECT_THAT(three.error().message(), HasSubstr("101 ms ahead of this clock"));
  EXPECT_EQ(row(ahead.worker).token, Uuid{}) << "nothing was changed";
  EXPECT_EQ(row(ahead.worker).minted_until, kNow + 101);
  LeaseRequest later = request(3);
  later.now = kNow + 1;
  EXPECT_EQ(acquire(later).from, kNow + 101) << "100 units ahead are allowed";
}

TEST_P(LeaseConformance, OneTokenAskingAgainGetsALaterRangeUnderOneGeneration) {
  ASSERT_TRUE(leases().create_pool("p", 3));
  const Lease first = acquire(request(1));
  LeaseRequest again = request(1);
  again.repeated = true;
  const Lease second = acquire(again);
  EXPECT_EQ(second.worker, first.worker);
  EXPECT_EQ(second.generation, first.generation);
  EXPECT_EQ(second.from, first.to);
  EXPECT_EQ(row(first.worker).minted_until, second.to);
  // Its first request, whose outcome is unknown, owns nothing any more.
  ASSERT_TRUE(leases().release("p", first.worker, first.token, first.generation));
  again.token = token(2);
  EXPECT_EQ(acquire(again).from, kNow) << "its first request was never applied";
}

TEST_P(LeaseConformance, ExtendMovesTheBoundOfItsOwner) {
  ASSERT_TRUE(leases().create_pool("p", 1));
  const Lease lease = acquire(request(1));
  const Uuid nonce = fresh();
  const auto extended = leases().extend("p", lease, kNow + 50, nonce, terms());
  ASSERT_TRUE(extended) << extended.error().message();
  EXPECT_EQ(*extended, (Lease{0, token(1), lease.generation, kNow, kNow + 50, nonce}));
  EXPECT_EQ(row(0).minted_until, kNow + 50);
  EXPECT_EQ(leases().extend("p", *extended, kNow + 50, fresh(), terms())->to, kNow + 50)
      << "its time only";
  EXPECT_EQ(row(0).minted_until, kNow + 50);
}

TEST_P(LeaseConformance, AnExtensionNamesTheBoundThatItExtends) {
  ASSERT_TRUE(leases().create_pool("p", 1));
  const Lease lease = acquire(request(1));
  const auto extended = leases().extend("p", lease, kNow + 50, fresh(), terms());
  ASSERT_TRUE(extended) << extended.error().message();
  for (const std::int64_t to : {lease.to, kNow + 20, kNow + 50, kNow + 80}) {
    const auto refused = leases().extend("p", lease, to, fresh(), terms());
    EXPECT_EQ(code_of(refused), Code::kFailedPrecondition) << to;
    EXPECT_THAT(refused.error().message(), HasSubstr("a copy of this process has extended it"));
  }
  EXPECT_EQ(row(0).minted_until, kNow + 50) << "nothing was changed";
  EXPECT_TRUE(leases().extend("p", *extended, kNow + 60, fresh(), terms()));
}

TEST_P(LeaseConformance, TheLatestExtensionIsAnsweredAgain) {
  ASSERT_TRUE(leases().create_pool("p", 1));
  const Lease lease = acquire(request(1));
  const Uuid nonce = fresh();
  const auto first = leases().extend("p", lease, kNow + 50, nonce, terms(kLapsed));
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_EQ(leases().extend("p", lease, kNow + 50, nonce, terms()), first);
  EXPECT_GT(row(0).held_for, milliseconds{0}) << "the owner's time begins anew";
  EXPECT_EQ(row(0).minted_until, kNow + 50);
  EXPECT_EQ(code_of(leases().extend("p", lease, kNow + 51, nonce, terms())),
            Code::kFailedPrecondition)
      << "it was another one, that went less far";
  // Its first request, for the lease as it was, is applied late: nobody has that range.
  LeaseRequest again = request(1);
  again.repeated = true;
  EXPECT_EQ(acquire(again).from, kNow + 50);
  EXPECT_EQ(leases().extend("p", lease, kNow + 50, nonce, terms()), first);
  EXPECT_EQ(row(0).minted_until, kNow + 51) << "a bound never falls";
  Lease longer = *first;
  longer.to = kNow + 51;
  ASSERT_TRUE(leases().extend("p", longer, kNow + 60, fresh(), terms()));
  EXPECT_EQ(code_of(leases().extend("p", lease, kNow + 50, nonce, terms())),
            Code::kFailedPrecondition)
      << "no longer the latest";
}

TEST_P(LeaseConformance, AnExtensionThatWasAppliedUnknownIsNoAlarmOnceReleased) {
  ASSERT_TRUE(leases().create_pool("p", 1));
  const Lease lease = acquire(request(1));
  const Uuid nonce = fresh();
  ASSERT_TRUE(leases().extend("p", lease, kNow + 50, nonce, terms()));
  ASSERT_TRUE(leases().release("p", 0, lease.token, lease.generation)) << "by an operator";
  EXPECT_EQ(code_of(leases().extend("p", lease, kNow + 50, nonce, terms())),
            Code::kFailedPrecondition);
}

// As after a snapshot of a machine: both know the lease, and the extension that was pending.
TEST_P(LeaseConformance, TwoCopiesOfAnOwnerShareNoFurtherRange) {
  ASSERT_TRUE(leases().create_pool("p", 2));
  std::array<Lease, 2> copies;
  copies.fill(acquire(request(1)));
  const Uuid pending = fresh();
  for (Lease& mine : copies) {
    const auto extended = leases().extend("p", mine, mine.to + 5, pending, terms());
    ASSERT_TRUE(extended) << extended.error().message();
    mine = *extended;
  }
  EXPECT_EQ(copies[0], copies[1]) << "the pending one is theirs together";
  std::set<std::pair<std::int64_t, std::int64_t>> units;  // of a worker id
  std::uint8_t next_token = 2;
  std::array<int, 2> lost{};
  for (std::size_t round = 0; round < 10; ++round) {
    Lease& mine = copies.at(round % 2);
    std::int64_t from = mine.to;
    auto extended = leases().extend("p", mine, mine.to + 5, fresh(), terms());
    if (!extended) {
      EXPECT_EQ(code_of(extended), Code::kFailedPrecondition) << extended.error().message();
      ++lost.at(round % 2);
      extended = acquire(request(next_token++));
      from = extended->from;
    }
    mine = *extended;
    for (; from < mine.to; ++from)
      EXPECT_TRUE(units.emplace(mine.worker, from).second) << mine.worker << ", " << from;
  }
  EXPECT_EQ(lost, (std::array{0, 1})) << "the second is told so, once";
}

// A copy that was made while an acquire was pending: both ask again.
TEST_P(LeaseConformance, TwoCopiesThatAskAgainGetRangesApart) {
  ASSERT_TRUE(leases().create_pool("p", 2));
  acquire(request(1));
  LeaseRequest again = request(1);
  again.repeated = true;
  const Lease one = acquire(again);
  const Lease two = acquire(again);
  EXPECT_EQ(one.worker, two.worker);
  EXPECT_EQ(two.from, one.to);
  EXPECT_EQ(code_of(leases().extend("p", one, one.to + 5, fresh(), terms())),
            Code::kFailedPrecondition);
  EXPECT_TRUE(leases().extend("p", two, two.to + 5, fresh(), terms()));
}

TEST_P(LeaseConformance, ExtendKeepsTheOwnersTime) {
  ASSERT_TRUE(leases().create_pool("p", 1));
  const Lease lease = acquire(request(1, 10, kLapsed));
  ASSERT_TRUE(leases().extend("p", lease, kNow + 50, fresh(), terms()))
      << "over, but taken by nobody: it goes on";
  EXPECT_EQ(code_of(leases().acquire("p", request(2))), Code::kResourceExhausted);
  EXPECT_GT(row(0).held_for, milliseconds{0});
}

TEST_P(LeaseConformance, OnlyTokenAndGenerationTogetherOwn) {
  ASSERT_TRUE(leases().create_pool("p", 1));
  const Lease lease = acquire(request(1));
  Lease other_token = lease;
  other_token.token = token(2);
  Lease earlier = lease;
  --earlier.generation;
  Lease later = lease;
  ++later.generation;
  for (const Lease& wrong : {other_token, earlier, later}) {
    EXPECT_EQ(code_of(leases().extend("p", wrong, kNow + 50, fresh(), terms())), Code::kDataLoss)
        << "no such lease is known there";
    const auto released = leases().release("p", 0, wrong.token, wrong.generation);
    EXPECT_EQ(code_of(released), Code::kFailedPrecondition);
    EXPECT_THAT(released.error().message(), HasSubstr("another owner"));
  }
  EXPECT_EQ(row(0).token, token(1));
  EXPECT_EQ(row(0).minted_until, lease.to);
}

TEST_P(LeaseConformance, ATokenThatComesBackHasAnotherGeneration) {
  ASSERT_TRUE(leases().create_pool("p", 1));
  const Lease first = acquire(request(1, 10, kLapsed));
  const Lease between = acquire(request(2, 10, kLapsed));
  const Lease again = acquire(request(1));  // a repeated request, applied late
  EXPECT_EQ(again.worker, first.worker);
  EXPECT_EQ(again.from, between.to);
  EXPECT_NE(again.generation, first.generation);
  const auto extended = leases().extend("p", first, kNow + 50, fresh(), terms());
  EXPECT_EQ(code_of(extended), Code::kFailedPrecondition);
  EXPECT_THAT(extended.error().message(), HasSubstr("another owner"));
}

TEST_P(LeaseConformance, ReleaseKeepsTheBound) {
  ASSERT_TRUE(leases().create_pool("p", 1));
  const Lease lease = acquire(request(1));
  ASSERT_TRUE(leases().release("p", 0, lease.token, lease.generation));
  EXPECT_EQ(row(0).token, Uuid{});
  EXPECT_EQ(row(0).holder, "");
  EXPECT_EQ(row(0).held_for, milliseconds{0});
  EXPECT_EQ(row(0).minted_until, lease.to);
  const auto extended = leases().extend("p", lease, kNow + 50, fresh(), terms());
  EXPECT_EQ(code_of(extended), Code::kFailedPrecondition);
  EXPECT_THAT(extended.error().message(), HasSubstr("nobody owns it"));
  EXPECT_EQ(code_of(leases().release("p", 0, lease.token, lease.generation)),
            Code::kFailedPrecondition);
  const Lease next = acquire(request(2));
  EXPECT_EQ(next.from, lease.to);
  EXPECT_GT(next.to, next.from);
  EXPECT_EQ(row(0).minted_until, next.to) << "what is told is what is kept";
  EXPECT_NE(next.generation, lease.generation);
}

TEST_P(LeaseConformance, AStoreThatHasGoneBackIsDataLoss) {
  ASSERT_TRUE(leases().create_pool("p", 1));
  Lease lease = acquire(request(1));
  lease.to += 5;  // as it would be, had the store forgotten the last extend
  const auto extended = leases().extend("p", lease, lease.to + 10, fresh(), terms());
  EXPECT_EQ(code_of(extended), Code::kDataLoss);
  EXPECT_THAT(extended.error().message(), HasSubstr("it has gone back"));
  EXPECT_EQ(row(0).minted_until, lease.to - 5) << "nothing was changed";
}

// Each lease is as it would be, had the store forgotten it and been leased from anew.
TEST_P(LeaseConformance, WhatOthersDidInAStoreThatHasGoneBackIsDataLoss) {
  ASSERT_TRUE(leases().create_pool("p", 1));
  const Lease first = acquire(request(1, 10, kLapsed));
  const Lease second = acquire(request(2, 20));
  const auto why_refused = [&](const Lease& lease) {
    const auto extended = leases().extend("p", lease, kNow + 90, fresh(), terms());
    EXPECT_EQ(code_of(extended), Code::kDataLoss);
    EXPECT_THAT(extended.error().message(), HasSubstr("it has gone back"));
    return extended.error().message();
  };
  Lease extended_before = first;
  extended_before.to = first.to + 1;
  EXPECT_THAT(why_refused(extended_before), HasSubstr("a later range begins at 1010"));
  Lease same_generation = second;
  same_generation.token = token(3);
  EXPECT_THAT(why_refused(same_generation), HasSubstr("another owner has the same generation"));
  Lease later = second;
  later.generation += 2;
  EXPECT_THAT(why_refused(later), HasSubstr("is its latest"));
  // A lease that was released since has the same error.
  ASSERT_TRUE(leases().release("p", 0, second.token, second.generation));
  EXPECT_THAT(why_refused(extended_before), HasSubstr("a later range begins at 1010"));
  EXPECT_THAT(why_refused(later), HasSubstr("is its latest"));
  Lease went_on = second;
  went_on.to = second.to - 1;
  EXPECT_THAT(why_refused(went_on), HasSubstr("another owner has the same generation, and"));
  EXPECT_EQ(code_of(leases().extend("p", second, kNow + 90, fresh(), terms())),
            Code::kFailedPrecondition)
      << "somebody has released it";
  EXPECT_EQ(row(0).minted_until, second.to) << "nothing was changed";
  EXPECT_EQ(code_of(leases().extend("p", first, kNow + 90, fresh(), terms())),
            Code::kFailedPrecondition)
      << "whoever lost it to them in one and the same store";
}

TEST_P(LeaseConformance, AFenceIsNoAlarmToItsOwners) {
  ASSERT_TRUE(leases().create_pool("p", 1));
  const auto refused_only = [&](const Lease& lease) {
    const auto extended = leases().extend("p", lease, kNow + 5000, fresh(), terms());
    EXPECT_EQ(code_of(extended), Code::kFailedPrecondition) << extended.error().message();
  };
  Lease lease = acquire(request(1));
  for (std::int64_t fence = 1; fence <= 4; ++fence) {
    ASSERT_TRUE(leases().raise_floor("p", kNow + 50 * fence));
    refused_only(lease);
    LeaseRequest next = request(static_cast<std::uint8_t>(1 + fence), 5);
    next.max_drift = 1000;
    const Lease others = acquire(next);
    refused_only(lease);
    lease = others;
  }
  // One that is not past the bound is.
  lease.to = kNow + 400;
  ASSERT_TRUE(leases().raise_floor("p", kNow + 399));
  EXPECT_EQ(code_of(leases().extend("p", lease, kNow + 5000, fresh(), terms())), Code::kDataLoss);
}

TEST_P(LeaseConformance, RaiseFloorFencesEveryWorkerOff) {
  ASSERT_TRUE(leases().create_pool("p", 3));
  const Lease lease = acquire(request(1));
  const Lease far = acquire(request(2, 90));
  std::set<std::int64_t> generations{lease.generation, far.generation};
  ASSERT_TRUE(leases().raise_floor("p", kNow + 50));
  EXPECT_EQ(code_of(leases().extend("p", lease, kNow + 99, fresh(), terms())),
            Code::kFailedPrecondition);
  const auto all = leases().workers("p");
  ASSERT_TRUE(all);
  for (const LeaseState& state : *all) {
    EXPECT_EQ(state.token, Uuid{});
    EXPECT_EQ(state.minted_until, state.worker == far.worker ? far.to : kNow + 50)
        << "a bound never falls";
    EXPECT_FALSE(generations.contains(state.generation));
  }
  const std::int64_t epoch = all->front().generation;
  ASSERT_TRUE(leases().raise_floor("p", 1));
  EXPECT_NE(row(0).generation, epoch) << "each fence begins an epoch of its own";
  const Lease next = acquire(request(3));
  EXPECT_EQ(next.from, kNow + 50);
}

TEST_P(LeaseConformance, PoolsAndCountersKeepApart) {
  ASSERT_TRUE(leases().create_pool("p", 1));
  ASSERT_TRUE(leases().create_pool("p.q", 2));
  ASSERT_TRUE(counters().create("p", {}));
  const Lease lease = acquire(request(1));
  EXPECT_EQ(leases().acquire("p.q", request(1))->from, kNow);
  EXPECT_EQ(counters().advance("p", 1, Take::kAll), (Range{0, 1, 1}));
  ASSERT_TRUE(leases().raise_floor("p.q", kNow + 500));
  EXPECT_EQ(row(0).token, lease.token);
  EXPECT_EQ(leases().workers("p.q")->size(), 2U);
}

// Concurrent owners: no timestamp of a worker id is given twice, and a worker id has one owner.
TEST_P(LeaseConformance, ConcurrentOwnersGetDisjointRanges) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 15;
  constexpr int kWorkers = 3;
  ASSERT_TRUE(leases().create_pool("p", kWorkers));
  std::mutex mutex;
  std::map<std::int64_t, std::vector<std::pair<std::int64_t, std::int64_t>>> ranges;
  std::set<std::pair<std::int64_t, std::int64_t>> owners;
  int acquired = 0;
  {
    std::barrier start(kThreads);
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([&, thread] {
        for (int round = 0; round < kRounds; ++round) {
          start.arrive_and_wait();  // all are free then
          // Some are held, some may be taken from their owner under way.
          LeaseRequest of = request(static_cast<std::uint8_t>(1 + thread * kRounds + round), 5,
                                    round % 3 == 0 ? kLapsed : kHeld);
          of.max_drift = 1'000'000;
          const auto lease = leases().acquire("p", of);
          if (!lease) {
            EXPECT_EQ(lease.error().code, Code::kResourceExhausted) << lease.error().message();
            continue;
          }
          const auto extended = leases().extend("p", *lease, lease->to + 7, fresh(), terms());
          if (!extended) {
            EXPECT_EQ(extended.error().code, Code::kFailedPrecondition)
                << extended.error().message();
          }
          const auto released =
              leases().release("p", lease->worker, lease->token, lease->generation);
          if (!released) {
            EXPECT_EQ(released.error().code, Code::kFailedPrecondition)
                << released.error().message();
          }
          const std::lock_guard lock(mutex);
          ++acquired;
          EXPECT_TRUE(owners.emplace(lease->worker, lease->generation).second)
              << "a generation has one owner";
          ranges[lease->worker].emplace_back(lease->from, (extended ? *extended : *lease).to);
        }
      });
  }
  EXPECT_GE(acquired, kRounds * kWorkers);
  for (auto& [worker, taken] : ranges) {
    std::ranges::sort(taken);
    for (std::size_t i = 1; i < taken.size(); ++i)
      EXPECT_LE(taken[i - 1].second, taken[i].first) << "worker id " << worker;
    EXPECT_GE(row(worker).minted_until, taken.back().second);
  }
}

// ---- each method is one step

// Threads do what they like to a pool of two worker ids, some through a handle of their own, and
// note between which two instants each step lay.
class LeaseHistory : public LeaseConformance {
 protected:
  struct Step {
    std::int64_t begin, end;  // instants: the answer was there before what began later
    Lease lease;
    milliseconds held{};  // of an acquire
  };
  struct History {
    std::vector<Step> acquired, extended, released;
    std::vector<Step> raised;  // to lease.from
    std::vector<Step> seen;    // by workers(), as lease.to
  };

  std::int64_t instant() { return ++instants_; }

  static constexpr int kRounds = 12;
  static constexpr int kWorkers = 2;

  History run(std::int64_t fences) {
    constexpr int kThreads = 6;
    EXPECT_TRUE(leases().create_pool("p", kWorkers));
    const std::unique_ptr<Store> second = GetParam().persists ? open() : nullptr;
    std::array<History, kThreads + 1> parts;
    std::barrier start(kThreads + 1);
    {
      std::vector<std::jthread> threads;
      for (int thread = 0; thread < kThreads; ++thread)
        threads.emplace_back([&, thread] {
          LeaseTable& table = second && thread % 2 == 1 ? *second->leases() : leases();
          for (int round = 0; round < kRounds; ++round) {
            start.arrive_and_wait();  // all are free then
            go(table, static_cast<std::uint8_t>(1 + thread * kRounds + round), thread + round,
               parts.at(static_cast<std::size_t>(thread)));
          }
        });
      start.arrive_and_drop();
      // Each further than they come by themselves.
      for (std::int64_t fence = 1; fence <= fences; ++fence) {
        const std::int64_t begin = instant();
        const auto raised = leases().raise_floor("p", kNow + 1000 * fence);
        EXPECT_TRUE(raised) << raised.error().message();
        parts.back().raised.push_back({begin, instant(), {.from = kNow + 1000 * fence}});
      }
    }
    look(leases(), parts.back());
    History all;
    for (const History& part : parts)
      for (const auto member : {&History::acquired, &History::extended, &History::released,
                                &History::raised, &History::seen})
        (all.*member).insert((all.*member).end(), (part.*member).begin(), (part.*member).end());
    return all;
  }

  // The ranges given of one worker id do not meet, and begin in the order in which they were given.
  static void expect_in_order(const History& all) {
    const auto steps = [&](auto check) {
      for (const Step& later : all.acquired) {
        for (const auto member : {&History::acquired, &History::extended, &History::seen})
          for (const Step& earlier : all.*member)
            if (earlier.end < later.begin && earlier.lease.worker == later.lease.worker)
              check(earlier, later);
      }
    };
    steps([](const Step& earlier, const Step& later) {
      EXPECT_LE(earlier.lease.to, later.lease.from) << "worker id " << later.lease.worker;
    });
    std::map<std::pair<std::int64_t, std::int64_t>, Uuid> owners;
    for (const Step& step : all.acquired)
      EXPECT_TRUE(
          owners.emplace(std::pair(step.lease.worker, step.lease.generation), step.lease.token)
              .second)
          << "a generation has one owner";
    // A later read has every acknowledged lease.
    for (const auto member : {&History::acquired, &History::extended})
      for (const Step& step : all.*member)
        for (const Step& seen : all.seen)
          if (step.end < seen.begin && step.lease.worker == seen.lease.worker) {
            EXPECT_LE(step.lease.to, seen.lease.to);
          }
    for (const Step& step : all.extended)
      EXPECT_EQ((owners[{step.lease.worker, step.lease.generation}]), step.lease.token);
    // The acknowledged ranges of one worker id do not overlap, in any order.
    std::map<std::pair<std::int64_t, std::int64_t>, std::pair<std::int64_t, std::int64_t>> granted;
    for (const auto member : {&History::acquired, &History::extended})
      for (const auto& [begin, end, lease, held] : all.*member) {
        auto& range = granted.try_emplace({lease.worker, lease.generation}, lease.from, lease.to)
                          .first->second;
        range.second = std::max(range.second, lease.to);
      }
    std::map<std::int64_t, std::vector<std::pair<std::int64_t, std::int64_t>>> ranges;
    for (const auto& [owner, range] : granted) ranges[owner.first].push_back(range);
    for (auto& [worker, taken] : ranges) {
      std::ranges::sort(taken);
      for (std::size_t i = 1; i < taken.size(); ++i)
        EXPECT_LE(taken[i - 1].second, taken[i].first) << "worker id " << worker;
    }
  }

 private:
  void go(LeaseTable& table, std::uint8_t number, int choice, History& mine) {
    LeaseRequest of = request(number, 5, choice % 3 == 0 ? kLapsed : kHeld);
    of.max_drift = 1'000'000;
    std::int64_t begin = instant();
    const auto acquired = table.acquire("p", of);
    if (!acquired) {
      EXPECT_EQ(acquired.error().code, Code::kResourceExhausted) << acquired.error().message();
      return;
    }
    Lease lease = *acquired;
    mine.acquired.push_back({begin, instant(), lease, of.terms.held});
    const auto refused = [](const auto& result) {
      EXPECT_EQ(result.error().code, Code::kFailedPrecondition) << result.error().message();
    };
    for (int more = choice % 4; more > 0; --more) {
      begin = instant();
      const auto extended = table.extend("p", lease, lease.to + 3, fresh(), of.terms);
      if (!extended) return refused(extended);
      lease = *extended;
      mine.extended.push_back({begin, instant(), lease});
    }
    look(table, mine);
    begin = instant();
    const auto released = table.release("p", lease.worker, lease.token, lease.generation);
    if (!released) return refused(released);
    mine.released.push_back({begin, instant(), lease});
  }

  void look(LeaseTable& table, History& mine) {
    const std::int64_t begin = instant();
    const auto all = table.workers("p");
    ASSERT_TRUE(all) << all.error().message();
    const std::int64_t end = instant();
    for (const LeaseState& state : *all)
      mine.seen.push_back({begin, end, {.worker = state.worker, .to = state.minted_until}});
  }

  std::atomic<std::int64_t> instants_{0};
};

TEST_P(LeaseHistory, WhatBeganAfterAnAnswerComesAfterIt) {
  const History all = run(0);
  expect_in_order(all);
  EXPECT_GE(all.acquired.size(), std::size_t{kRounds} * kWorkers);
  const auto precede = [](const Step& earlier, const Step& later) {
    return earlier.end < later.begin && earlier.lease.worker == later.lease.worker;
  };
  for (const Step& later : all.acquired) {
    for (const Step& earlier : all.acquired) {
      if (!precede(earlier, later)) continue;
      EXPECT_LT(earlier.lease.generation, later.lease.generation);
      // An owner whose time is not over keeps its worker id until its release is asked for.
      EXPECT_TRUE(earlier.held == kLapsed || std::ranges::any_of(all.released,
                                                                 [&](const Step& release) {
                                                                   return release.lease.token ==
                                                                              earlier.lease.token &&
                                                                          release.begin < later.end;
                                                                 }))
          << "taken from its owner";
    }
  }
  // A bound that was read had been asked for by then.
  for (const Step& seen : all.seen) {
    bool asked = seen.lease.to == 0;
    for (const auto member : {&History::acquired, &History::extended})
      for (const Step& step : all.*member) {
        asked = asked || (step.lease.worker == seen.lease.worker &&
                          step.lease.to == seen.lease.to && step.begin < seen.end);
      }
    EXPECT_TRUE(asked) << "nobody has " << seen.lease.to;
  }
}

TEST_P(LeaseHistory, WhatBeganAfterAFenceIsAboveItsFloor) {
  const History all = run(10);
  expect_in_order(all);
  EXPECT_EQ(all.raised.size(), 10U);
  for (const Step& fence : all.raised)
    for (const auto member : {&History::acquired, &History::extended, &History::released})
      for (const Step& later : all.*member)
        if (fence.end < later.begin) {
          EXPECT_GE(later.lease.from, fence.lease.from);
        }
  for (const Step& fence : all.raised)
    for (const Step& seen : all.seen)
      if (fence.end < seen.begin) {
        EXPECT_GE(seen.lease.to, fence.lease.from);
      }
}

TEST_P(LeaseConformance, AChildOfForkIsRefused) {
  ASSERT_TRUE(leases().create_pool("p", 2));
  const Lease lease = acquire(request(1));
  fakes::in_child([&] {
    const auto refused = [](const auto& result) {
      return code_of(result) == Code::kFailedPrecondition;
    };
    EXPECT_TRUE(refused(leases().create_pool("q", 1)));
    EXPECT_TRUE(refused(leases().acquire("p", request(2))));
    EXPECT_TRUE(refused(leases().extend("p", lease, lease.to + 5, fresh(), terms())));
    EXPECT_TRUE(refused(leases().release("p", 0, lease.token, lease.generation)));
    EXPECT_TRUE(refused(leases().raise_floor("p", 5)));
    EXPECT_TRUE(refused(leases().workers("p")));
  });
  EXPECT_TRUE(leases().extend("p", lease, lease.to + 5, fresh(), terms()));
}

TEST_P(LeaseConformance, LeasesPersistIfTheStoreDoes) {
  ASSERT_TRUE(leases().create_pool("p", 2));
  const Lease lease = acquire(request(1));
  const LeaseState there = row(lease.worker);
  store_.reset();
  store_ = open();
  if (!GetParam().persists) {
    EXPECT_EQ(code_of(leases().workers("p")), Code::kNotFound);
    return;
  }
  LeaseState now = row(lease.worker);
  EXPECT_GT(now.held_for, milliseconds{0});
  now.held_for = there.held_for;
  EXPECT_EQ(now, there);
  EXPECT_TRUE(leases().extend("p", lease, lease.to + 5, fresh(), terms()));
}

INSTANTIATE_TEST_SUITE_P(Stores, LeaseConformance, testing::ValuesIn(kStores),
                         [](const auto& param) { return std::string(param.param.name); });
INSTANTIATE_TEST_SUITE_P(Stores, LeaseHistory, testing::ValuesIn(kStores),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace idmint
