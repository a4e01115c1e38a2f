// The page of `find --html`: time line, suspects, and the commands for each.
#pragma once

#include <string>

#include "restore/commands/find_report.h"

namespace idmint::restore {

// HTML without external references, readable in light and dark mode.
[[nodiscard]] std::string find_page(const FindReport& report);

}  // namespace idmint::restore
