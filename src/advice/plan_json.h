// A plan as JSON, for every front end.
#pragma once

#include <string>

#include "advice/plan.h"

namespace idmint::advice {

// One line, without the newline. Figures are numbers; those above 2^53 are rounded.
[[nodiscard]] std::string json_plan(const Needs& needs, const Plan& plan);

}  // namespace idmint::advice
