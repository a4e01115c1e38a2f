// Shared by the backends: the table behind Store::open(), and common errors.
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

#include "base/errors.h"
#include "base/text.h"
#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/entropy.h"
#include "idmint/mongodb.h"
#include "idmint/result.h"
#include "idmint/store.h"
#include "idmint/uuid.h"
#include "ids/lease_table.h"
#include "store/adoption.h"
#include "store/counter_store.h"

namespace idmint::stores {

using idmint::shown;

// A kind of store, with its functions; each parses its own URL. A new kind is a file that defines
// its Backend and a row of the table in stores.cc. Functions that a kind does not offer are null.
struct Backend {
  StoreKind kind;
  std::string_view other_scheme{};  // another scheme of its URLs
  Result<std::unique_ptr<Store>> (*open)(std::string_view url, const StoreOptions& options,
                                         Entropy& entropy);
  // For a kind in whose database other programs have values.
  Result<std::unique_ptr<ExistingValues>> (*existing_values)(
      std::string_view url, std::string_view collection, std::string_view field,
      const ExistingForm& form, std::chrono::milliseconds deadline) = nullptr;
  // The adoption of its stores (CounterStore::adoption).
  const Adoption* adoption = nullptr;
  // As stores::name_on_host(), for a kind whose places are not those of its URLs.
  std::string (*name_on_host)(const Uuid& id, std::string_view url) = nullptr;
};

// Null: stores of that URL adopt no records, or the URL is of no known kind.
[[nodiscard]] const Adoption* adoption_of(std::string_view url) noexcept;

// kDataLoss.
[[nodiscard]] Error damaged_definition(std::string why);
// kDataLoss of a store in a database. `where`: the store, for messages.
[[nodiscard]] Error damaged_database(std::string_view where, std::string_view why);
// As Store::doubt() of a store on a server, which can be raised, and was perhaps only moved.
[[nodiscard]] Error in_doubt(std::string_view url, const std::string& why);
// kInvalidArgument: not the name of a top-level field, or of a collection of MongoDB; the message
// says why.
[[nodiscard]] Result<void> check_field(std::string_view field);
[[nodiscard]] Result<void> check_collection(std::string_view name);
// Whether MongoDB allows the name. Does not reject MongoDB's own databases.
[[nodiscard]] bool is_database_name(std::string_view name);

// The place of numbers in MongoDB.
struct NumberField {
  std::string database;
  std::string collection;
  std::string field;
};
// kInvalidArgument: not "DATABASE.COLLECTION", or not the name of a top-level field.
[[nodiscard]] Result<NumberField> number_field(std::string_view collection, std::string_view field);

// Store::settle_count() after another settle().
[[nodiscard]] std::int64_t next_settle_count(std::int64_t count) noexcept;

// A version 4 UUID for a new store.
[[nodiscard]] Uuid draw_store_id(Entropy& entropy);

// kAlreadyExists: the counter exists with other bounds.
[[nodiscard]] Error other_bounds(const CounterState& there, const CounterBounds& wanted);
// kAlreadyExists, of a counter in the record that `there` names, or idmint's own if that is empty.
[[nodiscard]] Error other_record(std::string_view counter, const std::string& there,
                                 const std::string& wanted);
// The error of an advance that moved nothing: the counter is closed, or too little is left.
[[nodiscard]] Error refused_advance(const CounterState& counter, std::int64_t count);
// kInvalidArgument: an extend past largest_last(stride).
[[nodiscard]] Error too_large_an_end(std::string_view counter, std::int64_t last,
                                     std::int64_t stride);
[[nodiscard]] Error no_space(std::string_view space, std::string_view url);
[[nodiscard]] Error closed_space(std::string_view space);
[[nodiscard]] Error no_counter(std::string_view counter, std::string_view url);
[[nodiscard]] Error no_definition(std::string_view name, std::string_view url);
// The outcome of an error that promises that nothing was applied (was_not_applied()).
inline constexpr std::string_view kNothingChanged = "nothing was changed";
// The error with another outcome, if it was kNothingChanged.
[[nodiscard]] Error with_other_outcome(Error error, std::string_view outcome);
// For errors after a successful write, such as that of the second part of a call. They do not
// promise any more that nothing was applied: kUnavailable and kResourceExhausted become kUnknown,
// and the outcome says that a part may have been done.
[[nodiscard]] Error after_a_write(Error error);
// The store was written by a newer idmint.
[[nodiscard]] Error newer_schema(std::string_view url, std::int64_t there, std::int64_t known);
[[nodiscard]] Error read_only_handle(std::string_view what);
// The handle was inherited through fork().
[[nodiscard]] Error inherited_handle(std::string_view url);

}  // namespace idmint::stores
