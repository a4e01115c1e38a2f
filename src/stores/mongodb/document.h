// Documents that are to be inserted: what is wrong with one, whatever the servers say.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "mongo/driver.h"

namespace idmint::stores::mongodb {

constexpr std::size_t kLargestDocument = 16'777'216;  // of MongoDB, with all its fields

// What it is with an id or number in the field, and a key in an array; at most.
[[nodiscard]] std::size_t size_with_id(std::size_t document, const std::string& field);

// "is not BSON", or what else the document is or has; nothing: `field` can be added to it.
[[nodiscard]] std::optional<std::string> fault_of(std::span<const std::byte> bytes,
                                                  const std::string& field);

// REQUIRES: fault_of() found nothing. The bytes stay the caller's.
[[nodiscard]] bson_t view_of(std::span<const std::byte> bytes);

}  // namespace idmint::stores::mongodb
