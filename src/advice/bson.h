// MongoDB's Extended JSON of ids: what its shell and its import and export tools read and write.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "idmint/id.h"
#include "idmint/result.h"

namespace idmint::advice {

// A UUID or ULID as {"$binary":{"base64":"...","subType":"04"}}, an ObjectId or xid as
// {"$oid":"..."}, an integer or Snowflake up to 2^63-1 as {"$numberLong":"..."}; nothing for the
// others, which BSON has no type for.
[[nodiscard]] std::optional<std::string> bson(const Id& id);

// The inverse: a Uuid, an ObjectId or a Snowflake. Blanks do not matter, the order of fields does.
// kInvalidArgument: none of the three, or another subtype: 3 has three byte orders, and does not
// say which.
[[nodiscard]] Result<Id> id_from_bson(std::string_view text);

}  // namespace idmint::advice
