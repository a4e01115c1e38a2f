// The formats that every mint has, and how a source of each is opened.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/mint.h"
#include "idmint/result.h"
#include "idmint/snowflake.h"
#include "idmint/source.h"

namespace idmint {

[[nodiscard]] std::vector<Declaration> format_declarations();
[[nodiscard]] bool is_format(std::string_view name) noexcept;

// A layout as the names of state files have it, snowflake-LAYOUT-WORKER.state: equal for equal
// layouts only, and never a preset's name, as a preset that comes later must not part a layout from
// what it minted.
[[nodiscard]] std::string in_file_names(const SnowflakeLayout& layout);

// As Mint::source. REQUIRES: is_format(name).
[[nodiscard]] Result<std::unique_ptr<Source>> open_format(std::string_view name,
                                                          const FormatOptions& options,
                                                          const MintOptions& mint);

}  // namespace idmint
