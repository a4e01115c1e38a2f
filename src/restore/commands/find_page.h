// The page of `find --html`: time line, suspects, and the commands for each.
#pragma once

#include <string>

#include "restore/commands/find_report.h"

namespace idmint::restore {

// HTML that refers to nothing outside of it, and is readable on light and on dark ground.
[[nodiscard]] std::string find_page(const FindReport& report);

}  // namespace idmint::restore
