// The rights that a user of an SQL server needs. Each is taken away in turn, and the error must
// name it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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

// A store with what mint() takes from.
inline void make_store_to_mint_from(const std::string& url) {
  const auto owner = fakes::with_counter(url);
  EXPECT_TRUE(owner->unique_index()->create_space("s"));
  EXPECT_TRUE(owner->leases()->create_pool("p", 2));
  EXPECT_TRUE(owner->catalog()->define(SequenceDefinition{.name = "orders", .last = 9}));
}

// The rights of a user who has only what the test grants.
struct LeastRights {
  std::string url;     // of that store, for the user
  std::string owners;  // the same, for its owner
  std::span<const char* const> to_mint;
  std::span<const char* const> to_make;
  std::function<void(const char*)> grant;
  std::function<void(const char*)> revoke;
  std::function<void()> doubt;  // puts the store in doubt
  std::function<void(const Result<void>& refused, std::string_view right)> expect_named;
};

// All that hands something out. `key` was not claimed before.
inline Result<void> mint(const LeastRights& user, std::int64_t key) {
  const auto store = Store::open(user.url, {.create = false});
  if (!store) return std::unexpected(store.error());
  if (const auto found = (*store)->catalog()->find("orders"); !found)
    return std::unexpected(found.error());
  if (const auto taken = fakes::take(**store); !taken) return std::unexpected(taken.error());
  const std::vector<std::int64_t> keys = {key};
  if (const auto ours = (*store)->unique_index()->insert("s", keys); !ours)
    return std::unexpected(ours.error());
  const auto lease = (*store)->leases()->acquire(
      "p", {.token = Uuid(Uuid::Bytes{1}), .now = 1, .max_drift = 1'000'000});
  if (!lease) return std::unexpected(lease.error());
  return (*store)->leases()->release("p", lease->worker, lease->token, lease->generation);
}

// All that makes something, changes a definition or ends a doubt. `name` is new.
inline Result<void> make(const LeastRights& user, const std::string& name) {
  const auto store = Store::open(user.url, {.create = false});
  if (!store) return std::unexpected(store.error());
  if (auto made = (*store)->counters()->create(name, {1, 9}); !made)
    return std::unexpected(std::move(made.error()));
  if (auto made = (*store)->unique_index()->create_space(name); !made) return made;
  if (auto closed = (*store)->unique_index()->close_space(name); !closed) return closed;
  if (auto made = (*store)->leases()->create_pool(name, 1); !made) return made;
  const auto old = (*store)->catalog()->define(SequenceDefinition{.name = name, .last = 9});
  if (!old) return std::unexpected(old.error());
  const auto altered =
      (*store)->catalog()->replace(old->definition, SequenceDefinition{.name = name, .last = 10});
  if (!altered) return std::unexpected(altered.error());
  user.doubt();
  Result<void> settled = (*store)->settle();
  if (!settled) {
    EXPECT_TRUE(fakes::opened(user.owners)->settle());
  }
  return settled;
}

inline void expect_each_missing_right_to_be_named(const LeastRights& user) {
  std::int64_t key = 0;
  const auto minted = [&] { return mint(user, ++key); };
  const auto made = [&] { return make(user, "new" + std::to_string(++key)); };
  for (const char* const right : user.to_mint) user.grant(right);
  const Result<void> first = minted();
  EXPECT_TRUE(first) << fakes::why(first);
  EXPECT_EQ(fakes::code_of(made()), Code::kPermissionDenied);
  for (const char* const right : user.to_make) user.grant(right);
  const Result<void> first_made = made();
  EXPECT_TRUE(first_made) << fakes::why(first_made);
  for (const char* const right : user.to_mint) {
    user.revoke(right);
    user.expect_named(minted(), right);
    user.grant(right);
  }
  for (const char* const right : user.to_make) {
    user.revoke(right);
    user.expect_named(made(), right);
    user.grant(right);
  }
  EXPECT_TRUE(minted());
  EXPECT_TRUE(made());
}

}  // namespace idmint::conformance
