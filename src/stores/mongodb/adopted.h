// Counters in documents that other programs made, and go on with: {_id: ID, FIELD: ..., MAX: ...}.
//
// What is particular to each is in idmint.counters: {_id: NAME, first, last, stride: 1, adopted:
// {collection, id, field, holds_last, max}}; the value is in the document alone. FIELD is an int, a
// long or a double below 2^53, and stays what it is, but that an int goes on as a long where $inc
// would. The last value is the least of `last`, of MAX and of what a double can count to. A counter
// that is closed has closed_by_idmint: true in the document.
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
  CounterBounds bounds{};  // as idmint.counters has them
};

// Doubles tell each integer from the next up to 2^53.
inline constexpr std::int64_t kLargestInDouble = (std::int64_t{1} << 53) - 2;

// `the document "ID" in COLLECTION`, for messages.
[[nodiscard]] std::string place_of(const AdoptedRecord& record);

// The document in idmint.counters; and back: null where it is of a counter of idmint's own, or not
// as idmint writes it.
[[nodiscard]] Bson record_for(const Adopted& adopted);
[[nodiscard]] std::shared_ptr<const Adopted> adopted_in(const Document& record);

// The document as the classic set-up scripts make it, before any value was taken.
[[nodiscard]] Bson new_document(const Adopted& adopted);

// The counter that is in the document, or what is wrong with it.
struct Reading {
  CounterState state{};
  std::string wrong{};
  bool is_double = false;            // counts to kLargestInDouble
  std::int64_t max = kLargestValue;  // in MAX, where there is one
};
[[nodiscard]] Reading read_adopted(const Adopted& adopted, const Document& document);

// Finds the document where it is as read_adopted() wants it.
[[nodiscard]] Bson whole_document(const Adopted& adopted);
// ... and open, with so many values left.
[[nodiscard]] Bson document_with(const Adopted& adopted, std::int64_t least);

// Updates, each an array of stages, of a document that is whole.
[[nodiscard]] Bson take_up_to(const Adopted& adopted, std::int64_t count);
[[nodiscard]] Bson raise_to(const Adopted& adopted, std::int64_t floor);
// MAX of a double stays where it cannot count to it.
[[nodiscard]] Bson extend_to(const Adopted& adopted, std::int64_t last);
[[nodiscard]] Bson close_document();

// For collMod: no document of the collection with these fields may pass its last value.
[[nodiscard]] Bson validator_for(const AdoptedRecord& record);

}  // namespace idmint::stores::mongodb
