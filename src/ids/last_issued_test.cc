// The bounds of worker ids that a process was granted it remembers for its life.
#include "ids/last_issued.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "ids/lease_table.h"
#include "tests/fakes/code_of.h"

namespace idmint {
namespace {

using fakes::code_of;
using testing::AllOf;
using testing::HasSubstr;

// Grants what it is told to.
class Granting final : public LeaseTable {
 public:
  Lease next{};
  std::function<void()> meanwhile;  // between the grant and the answer, once
  int released = 0;

 private:
  Result<void> do_create_pool(std::string_view, std::int64_t) override { return {}; }
  Result<Lease> do_acquire(std::string_view, const LeaseRequest& request, SteadyTime) override {
    Lease granted = next;
    granted.token = request.token;
    if (const auto act = std::exchange(meanwhile, {})) act();
    return granted;
  }
  Result<Lease> do_extend(std::string_view, const Lease& lease, std::int64_t to, const Uuid&,
                          const LeaseTerms&, SteadyTime) override {
    Lease longer = lease;
    longer.to = to;
    return longer;
  }
  Result<void> do_release(std::string_view, std::int64_t, const Uuid&, std::int64_t,
                          SteadyTime) override {
    ++released;
    return {};
  }
  Result<void> do_raise_floor(std::string_view, std::int64_t) override { return {}; }
  Result<std::vector<LeaseState>> do_workers(std::string_view, SteadyTime) override {
    return std::vector<LeaseState>{};
  }
};

class BoundsRemembered : public testing::Test {
 protected:
  // The store is one that no other test has.
  BoundsRemembered() {
    table_.remember_in(issued_);
    again_.remember_in(issued_);
  }
  static Result<Lease> acquire(Granting& table, std::int64_t worker, std::int64_t from,
                               std::int64_t to) {
    table.next = {.worker = worker, .generation = 1, .from = from, .to = to};
    return table.acquire("web", {.token = Uuid4Generator().next()});
  }

  StoreIssued& issued_ = StoreIssued::of(Uuid4Generator().next().to_string());
  Granting table_;
  Granting again_;  // another handle, later
};

TEST_F(BoundsRemembered, ARangeBelowAnAcknowledgedBoundIsDataLoss) {
  ASSERT_TRUE(acquire(table_, 3, 1000, 2000));
  const auto again = acquire(again_, 3, 1500, 2500);
  ASSERT_EQ(code_of(again), Code::kDataLoss);
  EXPECT_THAT(again.error().message(),
              AllOf(HasSubstr("worker id 3"), HasSubstr("1500"), HasSubstr("2000 (0.5 s later)")));
  EXPECT_EQ(again.error().advice, (Advice{Remedy::kRaisePool, "web"}));
  EXPECT_EQ(again_.released, 1);
}

TEST_F(BoundsRemembered, AnExtensionMovesTheBound) {
  const auto lease = acquire(table_, 3, 1000, 2000);
  ASSERT_TRUE(lease);
  ASSERT_TRUE(table_.extend("web", *lease, 5000, Uuid4Generator().next(), {}));
  EXPECT_EQ(code_of(acquire(again_, 3, 4999, 6000)), Code::kDataLoss);
}

// The bounds of the other worker ids are not known, and time passes them soon.
TEST_F(BoundsRemembered, ThenNoWorkerIdOfThePoolIsLeasedBelowThatBound) {
  ASSERT_TRUE(acquire(table_, 3, 1000, 2000));
  ASSERT_EQ(code_of(acquire(again_, 3, 1500, 2500)), Code::kDataLoss);
  EXPECT_EQ(code_of(acquire(again_, 4, 1600, 2600)), Code::kDataLoss);
  EXPECT_TRUE(acquire(again_, 4, 2000, 3000));
}

TEST_F(BoundsRemembered, OtherWorkerIdsAndPoolsHaveBoundsOfTheirOwn) {
  ASSERT_TRUE(acquire(table_, 3, 1000, 2000));
  EXPECT_TRUE(acquire(again_, 4, 1500, 2500));
  again_.next = {.worker = 3, .from = 10, .to = 20};
  EXPECT_TRUE(again_.acquire("other", {.token = Uuid4Generator().next()}));
}

// Its lease lapsed while its answer was under way, and another thread has had the worker id since.
TEST_F(BoundsRemembered, AnAnswerThatComesLateIsNoDataLoss) {
  table_.meanwhile = [&] { EXPECT_TRUE(acquire(again_, 3, 2000, 3000)); };
  EXPECT_TRUE(acquire(table_, 3, 1000, 2000));
}

}  // namespace
}  // namespace idmint
