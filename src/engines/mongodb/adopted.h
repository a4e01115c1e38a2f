// Counters in documents that other programs made and continue to use: {_id: ID, FIELD: ..., MAX:
// ...}.
//
// idmint.counters has the properties of each: {_id: NAME, first, last, stride: 1, adopted:
// {collection, id, field, holds_last, max, floor}, closed}. `id` has the type of the _id. Only the
// document has the value. FIELD is an int, a long or a double below 2^53 and keeps its type, except
// that an int becomes a long when $inc would make it one. The last value is the smallest of `last`,
// MAX and the largest value that a double can count to.
//
// The document also has:
//   next_by_idmint: {FIELD: N}   the floor: idmint knows of every value below N that it was taken.
//                                Whatever takes or raises moves it in the same update. FIELD below
//                                it, or none, means that a program set FIELD back.
//   closed_by_idmint: [NAME]     the closed counters; true: all, as older versions wrote
//
// A counter without floor: true in idmint.counters was adopted by a version that kept no floor. Its
// document gets one with the next value that is taken.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "engines/mongodb/adopted_record.h"
#include "mongo/bson.h"
#include "store/counter_store.h"

namespace idmint::stores::mongodb {

struct Adopted {
  std::string name{};
  AdoptedRecord record{};
  CounterBounds bounds{};  // as in idmint.counters
  bool has_floor = true;   // no floor in the document is a fault
  bool may_floor = true;   // false: the document takes no floor
  bool closed = false;     // closed in idmint.counters, and so whatever the document says
};

// Doubles represent every integer up to 2^53.
inline constexpr std::int64_t kLargestInDouble = (std::int64_t{1} << 53) - 2;

// The record whose document has the _id at the iterator, as a record that is kept names it.
[[nodiscard]] AdoptedRecord with_id(AdoptedRecord adopted, const bson_iter_t& id);
// {_id: ID}, or the query of kWhere. REQUIRES: the record is from a text or from with_id(), and has
// no {k}.
[[nodiscard]] Bson filter_of(const AdoptedRecord& adopted);
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
  bool is_floored = false;              // there is a floor
  std::string set_back{};               // FIELD is below the floor, or the floor is missing
  bool all_closed = false;              // closed_by_idmint is true
  std::set<std::string> closed{};       // the counters in closed_by_idmint
};
[[nodiscard]] Reading read_adopted(const Adopted& adopted, const Document& document);

// Matches the document if read_adopted() accepts it, set back or not.
[[nodiscard]] Bson whole_document(const Adopted& adopted);
// Matches it if it is also open, has `least` values left, and was not set back.
[[nodiscard]] Bson document_with(const Adopted& adopted, std::int64_t least);

// The document, whatever is in it.
[[nodiscard]] Bson any_document(const Adopted& adopted);

// Updates, each an array of stages, for a document that whole_document() matches.
[[nodiscard]] Bson take_up_to(const Adopted& adopted, std::int64_t count);
// Sets the floor to the next value, or leaves a higher one if `keep`. Closes `closed` in place of
// all counters, if all are closed.
[[nodiscard]] Bson begin_floor(const Adopted& adopted, bool keep,
                               const std::set<std::string>& closed);
[[nodiscard]] Bson raise_to(const Adopted& adopted, std::int64_t floor);
// MAX stays if it is a double and cannot count to `last`.
[[nodiscard]] Bson extend_to(const Adopted& adopted, std::int64_t last);
// For any document.
[[nodiscard]] Bson close_document(const Adopted& adopted);

// For collMod: rejects values beyond the last one in all documents of the collection with these
// fields.
[[nodiscard]] Bson validator_for(const AdoptedRecord& record);

}  // namespace idmint::stores::mongodb
