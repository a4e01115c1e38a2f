// Documents to be inserted: their faults, independent of the servers.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "mongo/driver.h"

namespace idmint::stores::mongodb {

constexpr std::size_t kLargestDocument = 16'777'216;  // MongoDB's limit, with all fields

// The largest size of the document with an id or number in the field, and a key in an array.
[[nodiscard]] std::size_t size_with_id(std::size_t document, const std::string& field);

// "is not BSON", or another fault; nothing: `field` can be added to it.
[[nodiscard]] std::optional<std::string> fault_of(std::span<const std::byte> bytes,
                                                  const std::string& field);

// REQUIRES: fault_of() found nothing. The caller keeps the bytes.
[[nodiscard]] bson_t view_of(std::span<const std::byte> bytes);

}  // namespace idmint::stores::mongodb
