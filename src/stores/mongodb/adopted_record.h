// The documents of other programs that counters are adopted from, and the text that names them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "idmint/result.h"

namespace idmint::stores::mongodb {

// A field of a document that counts.
struct AdoptedRecord {
  std::string collection{};  // in the database of the store
  std::string id{};          // the _id of the document, a string; {k} is the number of a stripe
  std::string field{};
  bool holds_last = false;  // the field has the value handed out last; otherwise the next one
  std::string max{};  // the field of the same document with the last value; empty: there is none
  bool validator = false;  // the collection refuses what would pass the last value

  friend bool operator==(const AdoptedRecord&, const AdoptedRecord&) = default;
};

// "COLLECTION/ID:next=FIELD", or last= where the field holds the last value; then ",max=FIELD" and
// ",validator" where they are wanted; and back. kInvalidArgument: not such a text, or a name in it
// that cannot be adopted.
[[nodiscard]] std::string to_text(const AdoptedRecord& adopted);
[[nodiscard]] Result<AdoptedRecord> adopted_from_text(std::string_view text);

// Whether each stripe has a document of its own: there is {k} in the _id.
[[nodiscard]] bool has_stripes(const AdoptedRecord& adopted);
// The document of a stripe; the record itself where it has none.
[[nodiscard]] AdoptedRecord of_stripe(AdoptedRecord adopted, std::int64_t stripe);

}  // namespace idmint::stores::mongodb
