// The existing values in a collection of MongoDB.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "idmint/mongodb.h"
#include "idmint/result.h"

namespace idmint::stores::mongodb {

// Implements ExistingValues::open().
[[nodiscard]] Result<std::unique_ptr<ExistingValues>> open_values(
    std::string_view url, std::string_view collection, std::string_view field,
    const ExistingForm& form, std::chrono::milliseconds deadline);

}  // namespace idmint::stores::mongodb
