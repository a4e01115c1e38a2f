// The names of collections and fields.
#pragma once

#include <string>
#include <string_view>

#include "idmint/result.h"

namespace idmint::stores::mongodb {

// PREFIX.NAME, or PREFIX-of-SHA256 if that is not the name of a collection. Every name has its own
// collection.
[[nodiscard]] IDMINT_EXPORT std::string collection_of(std::string_view prefix,
                                                      std::string_view name);

// A field of an adopted document, itself a document. It has the next value that idmint may give,
// under the name of the adopted field.
inline constexpr const char* kFloors = "next_by_idmint";

}  // namespace idmint::stores::mongodb
