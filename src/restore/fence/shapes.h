// Counter documents of programs that do without idmint: how the classic recipes make them, and the
// numbers that they count in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "idmint/result.h"
#include "mongo/bson.h"
#include "mongo/document.h"
#include "restore/oplog/fields.h"

namespace idmint::restore {

// A number as a document has it.
struct CountedNumber {
  std::int64_t value = 0;  // a fraction is rounded up
  std::uint8_t type = 0;   // as BSON numbers it: int32, int64, double or Decimal128

  friend bool operator==(const CountedNumber&, const CountedNumber&) = default;
};
// Nothing: no number, or none that 64 bits hold.
[[nodiscard]] std::optional<CountedNumber> counted_number(const Field& field);
// Of a field at the top of the document.
[[nodiscard]] std::optional<CountedNumber> counted_number(Document document,
                                                          std::string_view field);
// The field at the top of the document. Type 0: there is none.
[[nodiscard]] Field field_of(Document document, std::string_view name);
// "an int", "a string"; "missing" of type 0.
[[nodiscard]] std::string_view type_text(std::uint8_t type);

// The field that becomes `value`, in the type that it has, as $inc would leave it: an int that is
// full goes on as a long. kFailedPrecondition: a type that is no number, or a double that cannot
// count from there on by one.
[[nodiscard]] Result<Bson> field_with(std::string_view field, std::uint8_t type,
                                      std::int64_t value);

// Whether a classic recipe counts in a field of this name: COUNT, seq, index,
// uniqueIdentifierCounter.
[[nodiscard]] bool is_classic_field(std::string_view field);
// The classic recipe by which this document of the collection counts in the field. Empty: by none.
// A document that has anything else beside the counter, but notes and a largest value, is no
// counter of these recipes.
[[nodiscard]] std::string_view classic_recipe(std::string_view collection, Document document,
                                              std::string_view field);
// Where the set-up scripts of the recipes and their relatives make such documents.
[[nodiscard]] bool is_classic_collection(std::string_view collection);

// DATABASE.COLLECTION.FIELD: the field is what follows the last dot.
struct CounterField {
  std::string ns{};
  std::string field{};
};
// kInvalidArgument: no such text, or a database or a collection that is not a program's.
[[nodiscard]] Result<CounterField> parse_counter_field(std::string_view text);

}  // namespace idmint::restore
