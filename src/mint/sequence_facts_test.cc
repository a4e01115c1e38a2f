// The word for the state of a sequence.
#include "mint/sequence_facts.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "idmint/sequence.h"
#include "idmint/store.h"
#include "store/counter_store.h"
#include "tests/fakes/gated_store.h"
#include "tests/fakes/multi_store_pair.h"

namespace idmint {
namespace {

std::string state_of(Store& store, std::string_view name) {
  const Result<SequenceStatus> status = peek_sequence(store, name);
  return status ? std::string(state_name(*status)) : status.error().message();
}

TEST(SequenceState, AStoreThatRefusesIsNotASequenceThatWasClosed) {
  fakes::GatedStore store;
  ASSERT_TRUE(create_sequence(store, {.name = "orders", .last = 1}));
  EXPECT_EQ(state_of(store, "orders"), "open");
  store.fail_call(2, {.error = {Code::kFailedPrecondition, "a setting"}});  // after find
  EXPECT_EQ(state_of(store, "orders"), "refused");
  store.fail_call(2, {.error = {Code::kDataLoss, "no integer"}});
  EXPECT_EQ(state_of(store, "orders"), "damaged");
  ASSERT_TRUE(store.counters()->advance("orders", 1, Take::kAll));
  EXPECT_EQ(state_of(store, "orders"), "used up");
  ASSERT_TRUE(store.counters()->close("orders"));
  EXPECT_EQ(state_of(store, "orders"), "closed");
  ASSERT_TRUE(retire_sequence(store, "orders"));
  EXPECT_EQ(state_of(store, "orders"), "retired");
}

TEST(SequenceState, OfSeveralStoresOneMayRefuseOrBeClosed) {
  const fakes::MultiStorePair pair;
  EXPECT_EQ(state_of(*pair.gated, "tickets"), "open");
  ASSERT_TRUE(pair.gated->counters()->close("tickets"));
  EXPECT_EQ(state_of(*pair.gated, "tickets"), "closed");
  const fakes::MultiStorePair other;
  other.forget_file();
  EXPECT_EQ(state_of(*other.gated, "tickets"), "refused");
}

}  // namespace
}  // namespace idmint
