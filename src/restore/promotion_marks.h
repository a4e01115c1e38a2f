// The names and the validator that idmint-restore promote gives to what it writes to production.
// They tell its operations in an oplog from those of others.
#pragma once

#include <string>
#include <string_view>

#include "mongo/bson.h"

namespace idmint::restore {

// Has the records of runs and of promotions.
inline constexpr const char* kRecordDatabase = "idmint_restore";
inline constexpr const char* kPromoteCollection = "promote";

// A collection's name, one of these and the id of the promotion.
inline constexpr std::string_view kOldSuffix = ".before-restore-";
inline constexpr std::string_view kCopySuffix = ".restored-";
inline constexpr std::string_view kPromotedSuffix = ".promoted-";

// Whether the text has the form of "20261122-175426", the id of a promotion.
[[nodiscard]] bool is_promotion_id(std::string_view text);

// A validator that rejects every document. Writes that bypass validation still pass.
[[nodiscard]] Bson refusing_validator(const std::string& id);
// The id in it. Empty: it is another validator, or none.
[[nodiscard]] std::string refused_by(Document validator);

}  // namespace idmint::restore
