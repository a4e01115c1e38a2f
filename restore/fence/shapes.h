// The shapes of counter documents of programs without idmint: the classic recipes, and the numeric
// types that they use.
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

// A number in a document.
struct CountedNumber {
  std::int64_t value = 0;  // a fraction is rounded up
  std::uint8_t type = 0;   // the BSON type: int32, int64, double or Decimal128

  friend bool operator==(const CountedNumber&, const CountedNumber&) = default;
};
// nullopt: not a number, or one that does not fit 64 bits.
[[nodiscard]] std::optional<CountedNumber> counted_number(const Field& field);
// The number in a top-level field.
[[nodiscard]] std::optional<CountedNumber> counted_number(Document document,
                                                          std::string_view field);
// The top-level field. Type 0: there is none.
[[nodiscard]] Field field_of(Document document, std::string_view name);
// "an int", "a string"; "missing" for type 0.
[[nodiscard]] std::string_view type_text(std::uint8_t type);

// {FIELD: value} in the type that the field has. Like $inc, turns an int that would overflow into a
// long. kFailedPrecondition: the type is not numeric, or a double cannot count by one from there
// on.
[[nodiscard]] Result<Bson> field_with(std::string_view field, std::uint8_t type,
                                      std::int64_t value);

// Whether a classic recipe uses a field of this name: COUNT, seq, index, uniqueIdentifierCounter.
[[nodiscard]] bool is_classic_field(std::string_view field);
// The classic recipe that counts in this field of the document. Empty: none. Besides the counter,
// such a document may have notes and a largest value only.
[[nodiscard]] std::string_view classic_recipe(std::string_view collection, Document document,
                                              std::string_view field);
// Whether the set-up scripts of the recipes and of related programs create such documents in it.
[[nodiscard]] bool is_classic_collection(std::string_view collection);

// DATABASE.COLLECTION.FIELD; the field is the part after the last dot.
struct CounterField {
  std::string ns{};
  std::string field{};
};
// kInvalidArgument: the text has another form, or the database or collection does not belong to a
// program.
[[nodiscard]] Result<CounterField> parse_counter_field(std::string_view text);

}  // namespace idmint::restore
