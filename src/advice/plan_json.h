// A plan as JSON, for every front end.
#pragma once

#include <cstdint>
#include <string>

#include "advice/plan.h"

namespace idmint::advice {

// Many readers of JSON round larger numbers: larger integers are printed as strings, larger figures
// are rounded.
inline constexpr std::int64_t kLargestJsonNumber = std::int64_t{1} << 53;

// One line, without the newline.
[[nodiscard]] std::string json_plan(const Needs& needs, const Plan& plan);

}  // namespace idmint::advice
