// A process whose store was replaced by another may do nothing. Its connections stay as they are.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "idmint/definition.h"
#include "idmint/store.h"
#include "ids/lease_table.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/unique_index.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/opened_store.h"

namespace idmint::conformance {

// The sources that the tests make in a store, and the calls that take from it.
inline const LeaseRequest kReplacedRequest{
    .token = Uuid(Uuid::Bytes{1}), .now = 100, .max_drift = 1000};
inline const std::vector<std::int64_t> kReplacedKeys = {1, 2};

inline Lease fill_store(Store& store) {
  EXPECT_TRUE(store.counters()->create("c", {1, 1000}));
  EXPECT_TRUE(store.unique_index()->create_space("s"));
  EXPECT_TRUE(store.leases()->create_pool("p", 2));
  EXPECT_TRUE(store.catalog()->define(SequenceDefinition{.name = "orders", .last = 9}));
  const Result<Lease> lease = store.leases()->acquire("p", kReplacedRequest);
  EXPECT_TRUE(lease) << fakes::why(lease);
  return lease.value_or(Lease{});
}

// `replace` removes the store at the URL, and nothing is there then. `rows` are all rows of the
// tables, as a text.
inline void expect_a_replaced_store_is_left_alone(const std::string& url,
                                                  const std::function<void()>& replace,
                                                  const std::function<std::string()>& rows) {
  const std::unique_ptr<Store> store = fakes::opened(url);
  const Lease lease = fill_store(*store);
  const Definition old = SequenceDefinition{.name = "orders", .last = 9};
  // Each statement is sent three times: then it is prepared.
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(fakes::take(*store));
    EXPECT_TRUE(store->unique_index()->insert("s", std::vector<std::int64_t>{10 + i}));
    EXPECT_TRUE(store->leases()->acquire("p", kReplacedRequest));
    EXPECT_TRUE(store->counters()->raise("c", 3));
    EXPECT_TRUE(store->mark_gone_back("why", 7, SteadyTime::max()));
  }
  replace();
  const std::unique_ptr<Store> other = fakes::opened(url);
  fill_store(*other);
  const std::string before = rows();

  const auto expect_refused = [](const auto& result, const char* what) {
    EXPECT_EQ(fakes::code_of(result), Code::kFailedPrecondition) << what;
    EXPECT_THAT(fakes::why(result), testing::HasSubstr("another store is there now")) << what;
  };
  CounterStore& counters = *store->counters();
  UniqueIndex& claims = *store->unique_index();
  LeaseTable& leases = *store->leases();
  Catalog& catalog = *store->catalog();
  expect_refused(fakes::take(*store), "advance");
  expect_refused(claims.insert("s", kReplacedKeys), "insert");
  expect_refused(leases.acquire("p", kReplacedRequest), "acquire");
  expect_refused(leases.extend("p", lease, lease.to + 5, Uuid(Uuid::Bytes{2}), {}), "extend");
  expect_refused(counters.create("c", {1, 1000}), "create a counter that is there");
  expect_refused(counters.create("d", {1, 9}), "create a counter");
  expect_refused(claims.create_space("s"), "create a space that is there");
  expect_refused(claims.create_space("t"), "create a space");
  expect_refused(leases.create_pool("p", 2), "create a pool that is there");
  expect_refused(leases.create_pool("q", 1), "create a pool");
  expect_refused(catalog.define(old), "define what is there");
  expect_refused(catalog.define(SequenceDefinition{"more"}), "define");
  expect_refused(catalog.replace(old, SequenceDefinition{.name = "orders", .last = 10}), "replace");
  expect_refused(counters.raise("c", 500), "raise");
  expect_refused(counters.extend("c", 2000), "extend a counter");
  expect_refused(counters.close("c"), "close");
  expect_refused(claims.close_space("s"), "close a space");
  expect_refused(leases.release("p", lease.worker, lease.token, lease.generation), "release");
  expect_refused(leases.raise_floor("p", 5000), "raise a floor");
  expect_refused(store->settle(), "settle");
  expect_refused(store->mark_gone_back("why", 0, SteadyTime::max()), "mark");
  const std::optional<Error> doubt = store->doubt();
  ASSERT_TRUE(doubt);
  EXPECT_THAT(doubt->message(), testing::HasSubstr("another store is there now"));
  EXPECT_EQ(rows(), before);
  EXPECT_EQ(fakes::take(*other), (Range{1, 1, 1}));
}

}  // namespace idmint::conformance
