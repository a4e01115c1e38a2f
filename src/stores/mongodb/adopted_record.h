// The documents of other programs that counters adopt, and the text that names them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "idmint/result.h"

namespace idmint::stores::mongodb {

// A counting field of a document.
struct AdoptedRecord {
  std::string collection{};  // a collection in the database of the store
  std::string id{};          // the _id of the document, a string; {k}: the stripe
  std::string field{};
  bool holds_last = false;  // the field has the latest value; otherwise the next one
  std::string max{};        // the field of the same document with the last value; empty: none
  bool validator = false;   // the collection rejects values beyond the last one

  friend bool operator==(const AdoptedRecord&, const AdoptedRecord&) = default;
};

// "COLLECTION/ID:next=FIELD", or last= if the field holds the latest value; then ",max=FIELD" and
// ",validator" if wanted; and the inverse. kInvalidArgument: another text, or a name in it that
// cannot be adopted.
[[nodiscard]] std::string to_text(const AdoptedRecord& adopted);
[[nodiscard]] Result<AdoptedRecord> adopted_from_text(std::string_view text);

// Whether each stripe has its own document: the _id has {k}.
[[nodiscard]] bool has_stripes(const AdoptedRecord& adopted);
// The document of a stripe, or the record itself if there are no stripes.
[[nodiscard]] AdoptedRecord of_stripe(AdoptedRecord adopted, std::int64_t stripe);

}  // namespace idmint::stores::mongodb
