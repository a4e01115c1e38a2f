// Counters in documents that other programs made and continue to use: {_id: ID, FIELD: ..., MAX:
// ...}.
//
// idmint.counters has the properties of each: {_id: NAME, first, last, stride: 1, adopted:
// {collection, id, field, holds_last, max}}. Only the document has the value. FIELD is an int, a
// long or a double below 2^53 and keeps its type, except that an int becomes a long when $inc would
// make it one. The last value is the smallest of `last`, MAX and the largest value that a double
// can count to. A closed counter has closed_by_idmint: true in the document.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mongo/bson.h"
#include "stores/mongodb/adopted_record.h"
#include "stores/spi/counter_store.h"

namespace idmint::stores::mongodb {

struct Adopted {
  std::string name{};
  AdoptedRecord record{};
  CounterBounds bounds{};  // as in idmint.counters
};

// Doubles represent every integer up to 2^53.
inline constexpr std::int64_t kLargestInDouble = (std::int64_t{1} << 53) - 2;

// `the document "ID" in COLLECTION`, for messages.
[[nodiscard]] std::string place_of(const AdoptedRecord& record);

// The document in idmint.counters, and the inverse. Null: it belongs to a counter of idmint's own,
// or idmint did not write it like this.
[[nodiscard]] Bson record_for(const Adopted& adopted);
[[nodiscard]] std::shared_ptr<const Adopted> adopted_in(const Document& record);

// The document as the classic set-up scripts create it, before any value was taken.
[[nodiscard]] Bson new_document(const Adopted& adopted);

// The counter in the document, or what is wrong with it.
struct Reading {
  CounterState state{};
  std::string wrong{};
  std::optional<std::int64_t> below{};  // the next value, if it is below the first one
  bool is_double = false;               // counts to kLargestInDouble
  std::int64_t max = kLargestValue;     // the value of MAX, if any
};
[[nodiscard]] Reading read_adopted(const Adopted& adopted, const Document& document);

// Matches the document if read_adopted() accepts it.
[[nodiscard]] Bson whole_document(const Adopted& adopted);
// Matches it if it is also open and has `least` values left.
[[nodiscard]] Bson document_with(const Adopted& adopted, std::int64_t least);

// Updates, each an array of stages, for a document that whole_document() matches.
[[nodiscard]] Bson take_up_to(const Adopted& adopted, std::int64_t count);
[[nodiscard]] Bson raise_to(const Adopted& adopted, std::int64_t floor);
// MAX stays if it is a double and cannot count to `last`.
[[nodiscard]] Bson extend_to(const Adopted& adopted, std::int64_t last);
[[nodiscard]] Bson close_document();

// For collMod: rejects values beyond the last one in all documents of the collection with these
// fields.
[[nodiscard]] Bson validator_for(const AdoptedRecord& record);

}  // namespace idmint::stores::mongodb
