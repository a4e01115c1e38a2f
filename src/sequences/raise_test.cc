// Raising each counter past its own value, past what another store has come to, and a whole store
// that was in doubt. Raises of one sequence are in life_cycle_test.cc, too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "idmint/sequence.h"
#include "idmint/store.h"
#include "idmint/testing.h"
#include "idmint/worker_pool.h"
#include "ids/lease_table.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/unique_index.h"
#include "tests/fakes/code_of.h"

namespace idmint {
namespace {

using namespace std::chrono_literals;
using fakes::code_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr Instant kEpoch{std::chrono::sys_days{std::chrono::year{2025} / 1 / 1}};

// A store in memory that is in doubt until it is settled.
class Doubtful final : public Store {
 public:
  explicit Doubtful(std::string url = "doubtful:") : url_(std::move(url)) {}

  int settled = 0;

  const Uuid& id() const noexcept override { return store_->id(); }
  std::string_view url() const noexcept override { return url_; }
  CounterStore* counters() noexcept override { return store_->counters(); }
  Catalog* catalog() noexcept override { return store_->catalog(); }
  UniqueIndex* unique_index() noexcept override { return store_->unique_index(); }
  LeaseTable* leases() noexcept override { return store_->leases(); }
  std::optional<Error> doubt(SteadyTime /*until*/) override {
    return settled != 0 ? std::nullopt : std::optional(Error{Code::kDataLoss, "a copy"});
  }
  Result<void> settle(Settle) override {
    ++settled;
    return {};
  }

  std::int64_t next(const std::string& counter) { return counters()->peek(counter)->next; }

 private:
  std::string url_;
  std::unique_ptr<Store> store_ = *Store::open("memory:");
};

SequenceDefinition counter(std::string name = "orders") {
  return {.name = std::move(name), .last = 1000};
}
SequenceDefinition blocks() {  // 1 to 100, 101 to 200, 201 to 300
  return {.name = "accounts", .strategy = Strategy::kStriped, .last = 300, .stripes = 3};
}
SequenceDefinition interleaved() {
  return {.name = "turns", .strategy = Strategy::kInterleaved, .last = 300, .stripes = 3};
}
SequenceDefinition permuted() {
  return {
      .name = "cards", .strategy = Strategy::kPermuted, .last = 1000, .key = std::string(32, '7')};
}
SequenceDefinition random_values() {
  return {.name = "codes", .strategy = Strategy::kRandom, .last = 1'000'000};
}
PoolDefinition pool() { return {.name = "web", .layout = {.epoch = kEpoch}, .workers = 4}; }

void make_all(Store& store, std::initializer_list<SequenceDefinition> sequences) {
  for (const SequenceDefinition& sequence : sequences)
    ASSERT_TRUE(create_sequence(store, sequence));
  ASSERT_TRUE(create_pool(store, pool()));
}

const RaisedSource& row_of(const std::vector<RaisedSource>& rows, std::string_view name) {
  return *std::ranges::find_if(
      rows, [&](const RaisedSource& row) { return idmint::name(row.definition) == name; });
}

// ---- each past its own

TEST(RaiseEach, GoesPastTheLargestOfEachCounter) {
  Doubtful store;
  ASSERT_TRUE(create_sequence(store, blocks()));
  const std::vector<std::int64_t> values = {17, 5, 242};
  const auto raised = raise_sequence(store, "accounts", values);
  ASSERT_TRUE(raised) << raised.error().message();
  EXPECT_EQ(raised->skipped, 17 + 42);
  EXPECT_EQ(raised->left, 300);
  EXPECT_EQ(raised->next, 18);
  EXPECT_EQ(store.next("accounts/0"), 18);
  EXPECT_EQ(store.next("accounts/1"), 101) << "without a value it stays";
  EXPECT_EQ(store.next("accounts/2"), 243);

  ASSERT_TRUE(create_sequence(store, interleaved()));  // 1, 4 ..; 2, 5 ..; 3, 6 ..
  const std::vector<std::int64_t> turns = {31, 3};
  ASSERT_TRUE(raise_sequence(store, "turns", turns));
  EXPECT_EQ(store.next("turns/0"), 34);
  EXPECT_EQ(store.next("turns/1"), 2);
  EXPECT_EQ(store.next("turns/2"), 6);
}

TEST(RaiseEach, RefusesWhatIsNoValueOfTheSequence) {
  Doubtful store;
  ASSERT_TRUE(create_sequence(store, blocks()));
  ASSERT_TRUE(create_sequence(store, counter()));
  for (const std::int64_t value : {0, 301}) {
    const std::vector<std::int64_t> values = {17, value};
    EXPECT_EQ(code_of(raise_sequence(store, "accounts", values)), Code::kInvalidArgument);
  }
  EXPECT_EQ(store.next("accounts/0"), 1) << "nothing was raised";
  const std::vector<std::int64_t> one = {17};
  EXPECT_EQ(code_of(raise_sequence(store, "orders", one)), Code::kInvalidArgument);
}

TEST(RaisePreview, CountsAndChangesNothing) {
  Doubtful store;
  ASSERT_TRUE(create_sequence(store, blocks()));
  const auto preview = raise_sequence(store, "accounts", 150, RaiseMode::kPreview);
  ASSERT_TRUE(preview) << preview.error().message();
  EXPECT_EQ(preview->skipped, 150);
  EXPECT_EQ(preview->left, 300);
  EXPECT_EQ(preview->next, 151);
  EXPECT_EQ(store.next("accounts/0"), 1);
  const auto done = raise_sequence(store, "accounts", 150);
  EXPECT_EQ(done->skipped, preview->skipped);
  EXPECT_EQ(done->next, preview->next);
}

// ---- past another store

TEST(RaisePastAStore, TakesEachCounterToWhereItIsThere) {
  Doubtful store;
  Doubtful newer("newer:");
  for (Doubtful* const each : {&store, &newer})
    for (const SequenceDefinition& definition : {counter(), blocks(), permuted()})
      ASSERT_TRUE(create_sequence(*each, definition));
  ASSERT_TRUE(newer.counters()->advance("orders", 40, Take::kAll));
  ASSERT_TRUE(newer.counters()->advance("accounts/1", 7, Take::kAll));
  ASSERT_TRUE(newer.counters()->advance("cards", 12, Take::kAll));
  ASSERT_TRUE(store.counters()->advance("accounts/0", 3, Take::kAll));

  EXPECT_EQ(raise_sequence(store, "orders", newer)->skipped, 40);
  EXPECT_EQ(store.next("orders"), 41);
  EXPECT_EQ(raise_sequence(store, "accounts", newer)->skipped, 7);
  EXPECT_EQ(store.next("accounts/0"), 4) << "never down";
  EXPECT_EQ(store.next("accounts/1"), 108);
  EXPECT_EQ(raise_sequence(store, "cards", newer)->skipped, 12) << "by index";
  EXPECT_EQ(store.next("cards"), 12);
}

TEST(RaisePastAStore, SaysWhereTheTwoDoNotGoTogether) {
  Doubtful store;
  Doubtful newer("newer:");
  ASSERT_TRUE(create_sequence(store, counter()));
  EXPECT_THAT(raise_sequence(store, "orders", newer).error().message(), HasSubstr("not in newer:"));
  SequenceDefinition other = counter();
  other.first = 5;
  ASSERT_TRUE(create_sequence(newer, other));
  const auto otherwise = raise_sequence(store, "orders", newer);
  EXPECT_EQ(code_of(otherwise), Code::kFailedPrecondition);
  EXPECT_THAT(otherwise.error().message(), HasSubstr("defined otherwise"));
}

TEST(RaisePastAStore, ThatWasExtendedSinceSaysWhichCommandIsFirst) {
  Doubtful store;
  Doubtful newer("newer:");
  for (Doubtful* const each : {&store, &newer}) ASSERT_TRUE(create_sequence(*each, counter()));
  ASSERT_TRUE(alter_sequence(newer, "orders", 2000));
  ASSERT_TRUE(newer.counters()->advance("orders", 1500, Take::kAll));
  const auto beyond = raise_sequence(store, "orders", newer);
  EXPECT_EQ(code_of(beyond), Code::kFailedPrecondition);
  EXPECT_EQ(beyond.error().advice, (Advice{Remedy::kAlterSequence, "orders", {"2000"}}));
  ASSERT_TRUE(alter_sequence(store, "orders", 2000));
  ASSERT_TRUE(raise_sequence(store, "orders", newer));
  EXPECT_EQ(store.next("orders"), 1501);
}

// ---- a whole store

TEST(RaiseAll, PastANumberEachInItsOwnMeasure) {
  Doubtful store;
  make_all(store, {counter(), blocks(), interleaved(), permuted(), random_values()});
  ManualClock clock{kEpoch + 10min};
  const auto rows = raise_all(store, 20, RaiseMode::kCarryOut, {}, clock);
  ASSERT_TRUE(rows) << rows.error().message();
  EXPECT_EQ(rows->size(), 6U);
  for (const RaisedSource& row : *rows) EXPECT_FALSE(row.error) << row.error->message();
  EXPECT_EQ(store.next("orders"), 21);
  EXPECT_EQ(store.next("accounts/0"), 21) << "each block past its own first 20";
  EXPECT_EQ(store.next("accounts/2"), 221);
  EXPECT_EQ(store.next("turns/0"), 22);
  EXPECT_EQ(store.next("turns/2"), 21);
  EXPECT_EQ(store.next("cards"), 20) << "index 0 to 19 are passed";
  EXPECT_THAT(row_of(*rows, "codes").remains, HasSubstr("can come again"));
  const auto leases = store.leases()->workers("web");
  EXPECT_EQ(leases->front().minted_until, 660'001) << "a minute past the clock, in ms";
  EXPECT_EQ(row_of(*rows, "web").past_unit, 660'000);
  EXPECT_EQ(store.settled, 1);
}

TEST(RaiseAll, IsTheSameAgain) {
  Doubtful store;
  for (const SequenceDefinition& definition : {counter(), blocks(), interleaved(), permuted()})
    ASSERT_TRUE(create_sequence(store, definition));
  ASSERT_TRUE(raise_all(store, 20));
  const auto again = raise_all(store, 20);
  ASSERT_TRUE(again);
  for (const RaisedSource& row : *again) {
    EXPECT_EQ(row.raised.skipped, 0) << name(row.definition);
    EXPECT_FALSE(row.error) << row.error->message();
  }
}

TEST(RaiseAll, LeavesTheDoubtWhereTheNumberIsTooSmall) {
  Doubtful store;
  ASSERT_TRUE(create_sequence(store, counter()));
  ASSERT_TRUE(create_sequence(store, counter("tickets")));
  ASSERT_TRUE(store.counters()->advance("tickets", 50, Take::kAll));
  const auto rows = raise_all(store, 20);
  ASSERT_TRUE(rows) << rows.error().message();
  ASSERT_TRUE(row_of(*rows, "tickets").error);
  EXPECT_EQ(row_of(*rows, "tickets").error->code, Code::kInvalidArgument);
  EXPECT_THAT(row_of(*rows, "tickets").error->message(), HasSubstr("has reached 50"));
  EXPECT_EQ(row_of(*rows, "tickets").error->advice, (Advice{Remedy::kRaiseSequence, "tickets"}));
  EXPECT_EQ(store.next("orders"), 21) << "the others are raised";
  EXPECT_EQ(store.settled, 0);
}

TEST(RaiseAll, LeavesTheDoubtWhereTheNumberLiesOutsideTheRange) {
  for (const std::int64_t past : {20, 5000}) {
    Doubtful store;
    SequenceDefinition above = counter("above");
    above.first = 100;
    ASSERT_TRUE(create_sequence(store, above));
    const auto rows = raise_all(store, past);
    ASSERT_TRUE(rows);
    EXPECT_TRUE(rows->front().error) << past;
    EXPECT_EQ(store.next("above"), 100);
    EXPECT_EQ(store.settled, 0) << past;
  }
}

TEST(RaiseAll, PastAStoreSaysWhatIsMissing) {
  Doubtful store;
  Doubtful newer("newer:");
  for (Doubtful* const each : {&store, &newer}) make_all(*each, {counter(), random_values()});
  ASSERT_TRUE(create_sequence(newer, counter("later")));
  ASSERT_TRUE(newer.counters()->advance("orders", 40, Take::kAll));
  const std::vector<std::int64_t> claims = {17};
  ASSERT_TRUE(newer.unique_index()->insert("codes", claims));
  ASSERT_TRUE(newer.leases()->raise_floor("web", 900'000));
  ManualClock clock{kEpoch + 10min};
  const auto rows = raise_all(store, newer, RaiseMode::kCarryOut, {}, clock);
  ASSERT_TRUE(rows) << rows.error().message();
  EXPECT_EQ(store.next("orders"), 41);
  EXPECT_THAT(row_of(*rows, "codes").remains, HasSubstr("1 of its claims"));
  EXPECT_THAT(row_of(*rows, "later").remains, HasSubstr("in newer: alone"));
  EXPECT_EQ(store.leases()->workers("web")->front().minted_until, 900'000)
      << "past every bound that was granted, not only the clock";
  EXPECT_EQ(store.settled, 1);
}

// A value that somebody was given, and that the store has forgotten, is not settled away.
TEST(RaiseAll, RefusesWhatItWouldNotTakePastAGivenValue) {
  Doubtful store;
  make_all(store, {counter(), counter("tickets"), blocks(), permuted(), random_values()});
  ManualClock clock{kEpoch + 10min};
  Doubtful other;
  ASSERT_TRUE(create_sequence(other, permuted()));
  ASSERT_TRUE(raise_sequence(other, "cards", 20));
  const std::int64_t card = *peek_sequence(other, "cards")->permuted;  // of index 20
  const auto late = pool().layout.encode({.time = kEpoch + 3h, .worker = 1, .sequence = 0});
  const std::vector<GivenValue> given = {
      {"orders", 21, "A"},    {"tickets", 20, "B"},
      {"accounts", 130, "C"}, {"cards", card, "D"},
      {"codes", 17, "E"},     {"web", static_cast<std::int64_t>(late->value()), "F"}};
  const auto rows = raise_all(store, 20, RaiseMode::kCarryOut, given, clock);
  ASSERT_TRUE(rows) << rows.error().message();
  const auto advice = [&](std::string_view name) {
    const RaisedSource& row = row_of(*rows, name);
    return row.error ? row.error->advice : Advice{};
  };
  EXPECT_THAT(row_of(*rows, "orders").error.value().message(),
              HasSubstr("A, which this raise does not reach"));
  EXPECT_EQ(advice("orders"), (Advice{Remedy::kRaiseSequence, "orders", {"21"}}));
  EXPECT_FALSE(row_of(*rows, "tickets").error) << "20 is reached";
  EXPECT_EQ(advice("accounts"), (Advice{Remedy::kRaiseEach, "accounts", {"130"}}));
  EXPECT_EQ(advice("cards"), (Advice{Remedy::kRaiseSequence, "cards", {"21"}}));
  EXPECT_EQ(advice("web").remedy, Remedy::kRaisePool);
  EXPECT_THAT(advice("web").values, ElementsAre(StartsWith("2025-01-01T03:00:00")));
  EXPECT_THAT(row_of(*rows, "codes").remains, HasSubstr("E, and the store does not know of it"));
  EXPECT_EQ(store.next("orders"), 1) << "nothing of it was raised";
  EXPECT_EQ(store.next("tickets"), 21);
  EXPECT_EQ(store.settled, 0);
  EXPECT_TRUE(row_of(*raise_all(store, 20, RaiseMode::kPreview, given, clock), "orders").error);

  ASSERT_TRUE(raise_sequence(store, "orders", 21));
  const std::vector<std::int64_t> block = {130};
  ASSERT_TRUE(raise_sequence(store, "accounts", block));
  ASSERT_TRUE(raise_sequence(store, "cards", 21));
  ASSERT_TRUE(raise_pool(store, "web", kEpoch + 3h));
  for (const GivenValue& each : given)
    if (each.source != "codes") {
      EXPECT_EQ(has_given(store, each.source, each.value), true) << each.source;
    }
}

TEST(RaiseAll, PastAStoreRefusesWhatItWouldNotTakePastAGivenValue) {
  Doubtful store;
  Doubtful newer("newer:");
  for (Doubtful* const each : {&store, &newer}) ASSERT_TRUE(create_sequence(*each, counter()));
  ASSERT_TRUE(newer.counters()->advance("orders", 40, Take::kAll));
  std::vector<GivenValue> given = {{"orders", 41, "A"}};
  const auto rows = raise_all(store, newer, RaiseMode::kCarryOut, given);
  ASSERT_TRUE(rows) << rows.error().message();
  ASSERT_TRUE(rows->front().error) << "the other one was set back, too";
  EXPECT_EQ(rows->front().error->advice, (Advice{Remedy::kRaiseSequence, "orders", {"41"}}));
  given = {{"orders", 1500, "A"}};
  const auto extended = raise_all(store, newer, RaiseMode::kCarryOut, given);
  EXPECT_THAT(extended->front().error->message(),
              HasSubstr("move its end up to 1500, then raise it"))
      << "it was extended";
  EXPECT_EQ(extended->front().error->advice, (Advice{Remedy::kRaiseSequence, "orders", {"1500"}}));
  EXPECT_EQ(store.settled, 0);
  given = {{"orders", 40, "A"}, {"gone", 7, "B"}};
  const auto reached = raise_all(store, newer, RaiseMode::kCarryOut, given);
  EXPECT_FALSE(row_of(*reached, "orders").error);
  EXPECT_THAT(row_of(*reached, "gone").remains, HasSubstr("B, and the store has nothing"));
  EXPECT_EQ(store.settled, 1);
}

TEST(RaiseAll, WhatIsRetiredInTheNewerStoreIsRetiredHere) {
  Doubtful store;
  Doubtful newer("newer:");
  for (Doubtful* const each : {&store, &newer})
    make_all(*each, {counter(), random_values(), counter("stays")});
  for (const std::string name : {"orders", "codes", "web"})
    ASSERT_TRUE(retire_sequence(newer, name));
  const auto alone = raise_sequence(store, "orders", newer);
  EXPECT_EQ(code_of(alone), Code::kFailedPrecondition);
  EXPECT_EQ(alone.error().advice, (Advice{Remedy::kRetireSequence, "orders"}));

  ASSERT_TRUE(row_of(*raise_all(store, newer, RaiseMode::kPreview), "orders").retired);
  EXPECT_FALSE(is_retired(*store.catalog()->find("orders"))) << "a preview";
  const auto rows = raise_all(store, newer);
  ASSERT_TRUE(rows) << rows.error().message();
  for (const RaisedSource& row : *rows) {
    EXPECT_FALSE(row.error) << row.error->message();
    EXPECT_EQ(row.retired, name(row.definition) != "stays") << name(row.definition);
    EXPECT_EQ(is_retired(*store.catalog()->find(name(row.definition))), row.retired);
  }
  EXPECT_FALSE(store.counters()->advance("orders", 1, Take::kAll));
  EXPECT_EQ(store.settled, 1);
}

TEST(RaiseAll, PastAStoreThatLacksASequenceLeavesTheDoubt) {
  Doubtful store;
  Doubtful newer("newer:");
  ASSERT_TRUE(create_sequence(store, counter()));
  const auto rows = raise_all(store, newer);
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->front().error->code, Code::kFailedPrecondition);
  EXPECT_EQ(store.settled, 0);
  EXPECT_EQ(code_of(raise_all(store, store)), Code::kInvalidArgument) << "itself";
}

TEST(RaiseAll, APreviewChangesNothing) {
  Doubtful store;
  make_all(store, {counter()});
  const auto rows = raise_all(store, 20, RaiseMode::kPreview);
  ASSERT_TRUE(rows);
  EXPECT_EQ(row_of(*rows, "orders").raised.skipped, 20);
  EXPECT_EQ(store.next("orders"), 1);
  EXPECT_EQ(store.leases()->workers("web")->front().minted_until, 0);
  EXPECT_EQ(store.settled, 0);
}

}  // namespace
}  // namespace idmint
