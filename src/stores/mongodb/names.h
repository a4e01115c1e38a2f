// How collections are called.
#pragma once

#include <string>
#include <string_view>

#include "idmint/result.h"

namespace idmint::stores::mongodb {

// PREFIX.NAME, or PREFIX-of-SHA256 where that is not the name of a collection: any name has one of
// its own.
[[nodiscard]] IDMINT_EXPORT std::string collection_of(std::string_view prefix,
                                                      std::string_view name);

}  // namespace idmint::stores::mongodb
