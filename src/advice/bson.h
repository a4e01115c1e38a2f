// Ids in MongoDB's Extended JSON, the format of its shell and of its import and export tools.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "idmint/id.h"
#include "idmint/result.h"

namespace idmint::advice {

// A UUID or ULID as {"$binary":{"base64":"...","subType":"04"}}, an ObjectId or xid as
// {"$oid":"..."}, an integer or Snowflake up to 2^63-1 as {"$numberLong":"..."}. Nothing for
// others, since BSON has no type for them.
[[nodiscard]] std::optional<std::string> bson(const Id& id);

// The inverse: a Uuid, an ObjectId or a Snowflake. Ignores blanks; the order of fields matters.
// kInvalidArgument: none of the three, or another subtype. Subtype 3 has three byte orders and does
// not say which.
[[nodiscard]] Result<Id> id_from_bson(std::string_view text);

}  // namespace idmint::advice
