// What the backends share: how Store::open() reaches them, and the refusals that read alike in all.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/entropy.h"
#include "idmint/mongodb.h"
#include "idmint/result.h"
#include "idmint/store.h"
#include "idmint/uuid.h"
#include "ids/lease_table.h"
#include "stores/spi/adoption.h"
#include "stores/spi/counter_store.h"

namespace idmint::stores {

using idmint::shown;

// A kind of store, and how it is reached: each reads its own URL. A new one is a file that defines
// its Backend, and a row of the table in stores.cc. What a kind cannot do is null.
struct Backend {
  StoreKind kind;
  std::string_view other_scheme{};  // that its URLs may have, too
  Result<std::unique_ptr<Store>> (*open)(std::string_view url, const StoreOptions& options,
                                         Entropy& entropy);
  // Of a kind with documents.
  Result<std::unique_ptr<ExistingValues>> (*existing_values)(
      std::string_view url, std::string_view collection, std::string_view field,
      const ExistingForm& form, std::chrono::milliseconds deadline) = nullptr;
  // That its stores have (CounterStore::adoption).
  const Adoption* adoption = nullptr;
  // Names a store among all files of this host, where its copies have the id of the store.
  std::string (*name_on_host)(const Uuid& id, std::string_view url) = nullptr;
};

// Null: the stores of that URL adopt no records of other programs, or it is the URL of none.
[[nodiscard]] const Adoption* adoption_of(std::string_view url) noexcept;
// What files of this host that speak of a store are called after.
[[nodiscard]] std::string name_on_host(const Uuid& id, std::string_view url);

// kDataLoss.
[[nodiscard]] Error damaged_definition(std::string why);

// kInvalidArgument, saying what is wrong with the name of a field of a document itself, or of a
// collection of MongoDB.
[[nodiscard]] Result<void> check_field(std::string_view field);
[[nodiscard]] Result<void> check_collection(std::string_view name);
// Whether MongoDB allows it, but for its own databases.
[[nodiscard]] bool is_database_name(std::string_view name);

// Where in MongoDB numbers stand.
struct NumberField {
  std::string database;
  std::string collection;
  std::string field;
};
// kInvalidArgument: not "DATABASE.COLLECTION" with the name of a field of a document itself.
[[nodiscard]] Result<NumberField> number_field(std::string_view collection, std::string_view field);

// A version 4 UUID for a new store.
[[nodiscard]] Uuid draw_store_id(Entropy& entropy);

// Where the range ends that begins at `from`.
[[nodiscard]] std::int64_t lease_end(const LeaseRequest& request, std::int64_t from) noexcept;
// The first of an epoch that is drawn at random, so that none of them was there before. The largest
// of it is kEpoch - 1 more.
constexpr std::int64_t kEpoch = std::int64_t{1} << 32;
[[nodiscard]] std::int64_t draw_generation(Entropy& entropy);

// kAlreadyExists: a counter that exists with bounds other than those wanted.
[[nodiscard]] Error other_bounds(const CounterState& there, const CounterBounds& wanted);
// Why an advance that moved nothing did not: the counter is closed, or too little is left.
[[nodiscard]] Error refused_advance(const CounterState& counter, std::int64_t count);
// kInvalidArgument: an extend past largest_last(stride).
[[nodiscard]] Error too_large_an_end(std::string_view counter, std::int64_t last,
                                     std::int64_t stride);
[[nodiscard]] Error no_space(std::string_view space, std::string_view url);
[[nodiscard]] Error closed_space(std::string_view space);
[[nodiscard]] Error no_counter(std::string_view counter, std::string_view url);
[[nodiscard]] Error no_definition(std::string_view name, std::string_view url);
[[nodiscard]] Error no_pool(std::string_view pool, std::string_view url);
[[nodiscard]] Error no_worker(std::string_view pool, std::int64_t worker);
[[nodiscard]] Error other_pool(std::string_view pool, std::int64_t there, std::int64_t wanted);
// Why nobody gave a worker id: `bound` is the smallest minted_until of those without an owner, or
// of the one that the token owns; nothing: all have another one.
[[nodiscard]] Error refused_acquire(std::string_view pool, const LeaseRequest& request,
                                    std::optional<std::int64_t> bound);
// The clock of a request went far ahead in this boot of the host: it shows `clock` and not `right`.
[[nodiscard]] Error clock_far_ahead(std::string_view pool, Instant clock, Instant right);
[[nodiscard]] bool is_owned_by(const LeaseState& there, const Lease& lease) noexcept;
// Whether the row, whose latest extension had the nonce `latest`, lets the lease be extended to
// `to`.
[[nodiscard]] bool may_extend(const LeaseState& there, const Uuid& latest, const Lease& lease,
                              std::int64_t to, const Uuid& nonce) noexcept;
// Why it does not: kDataLoss where the row shows what a store that knew the lease cannot show.
[[nodiscard]] Error refused_extension(std::string_view pool, const Lease& lease,
                                      const LeaseState& there, const Uuid& latest,
                                      const Uuid& nonce);
// Why a lease was not released: the row has another owner, or none.
[[nodiscard]] Error refused_lease(std::string_view pool, const Lease& lease,
                                  const LeaseState& there);
[[nodiscard]] Error read_only_handle(std::string_view what);
// The handle came through fork().
[[nodiscard]] Error inherited_handle(std::string_view url);

}  // namespace idmint::stores
