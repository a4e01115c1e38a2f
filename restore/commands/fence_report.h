// The output of `fence`: text, and JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "restore/fence/report.h"
#include "terminal/output.h"

namespace idmint::restore {

void print_fence(Output& out, const FenceReport& report);

// `state`: "dry run", "planned", "fenced", "failed".
[[nodiscard]] nlohmann::ordered_json json_of(const FenceReport& report, std::string_view state);

}  // namespace idmint::restore
