// The documents of other programs that counters adopt, and the text that names them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "idmint/result.h"

namespace idmint::stores::mongodb {

// How `id` names the document. A record that is kept has one _id, with its type.
enum class IdType : std::uint8_t {
  kPlain,  // a text; of a record that a user names, an integer too if there is no such text
  kText,
  kObjectId,
  kInt,  // 32 bits
  kLong,
  kDouble,
  kUuid,   // binary of subtype 4
  kWhere,  // a query in canonical extended JSON; of a record that is kept: { "_id" : ... }
};

// A counting field of a document.
struct AdoptedRecord {
  std::string collection{};  // a collection in the database of the store
  std::string id{};          // the _id of the document, as text; {k}: the stripe
  std::string field{};
  bool holds_last = false;  // the field has the latest value; otherwise the next one
  std::string max{};        // the field of the same document with the last value; empty: none
  bool validator = false;   // the collection rejects values beyond the last one
  IdType type = IdType::kPlain;

  friend bool operator==(const AdoptedRecord&, const AdoptedRecord&) = default;
};

// "COLLECTION/ID:next=FIELD", or last= if the field holds the latest value; then ",max=FIELD" and
// ",validator" if wanted; and the inverse. ID is a text, or text=, oid=, int=, long=, double= or
// uuid= and the value, or a query in extended JSON. kInvalidArgument: another text, or a name in it
// that cannot be adopted.
[[nodiscard]] std::string to_text(const AdoptedRecord& adopted);
[[nodiscard]] Result<AdoptedRecord> adopted_from_text(std::string_view text);

// The document as a text names it: "COLLECTION/ID".
[[nodiscard]] std::string spelled(const AdoptedRecord& adopted);
// "COLLECTION:next=FIELD" with the query put in as ID. kInvalidArgument: it has an ID already.
[[nodiscard]] Result<std::string> with_query(std::string_view text, std::string_view json);

// Whether each stripe has its own document: the _id has {k}.
[[nodiscard]] bool has_stripes(const AdoptedRecord& adopted);
// The document of a stripe, or the record itself if there are no stripes.
[[nodiscard]] AdoptedRecord of_stripe(AdoptedRecord adopted, std::int64_t stripe);

}  // namespace idmint::stores::mongodb
