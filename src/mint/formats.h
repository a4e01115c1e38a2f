// The formats that every mint has, and how a source of each is opened.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "idmint/mint.h"
#include "idmint/result.h"
#include "idmint/source.h"

namespace idmint {

[[nodiscard]] std::vector<Declaration> format_declarations();
[[nodiscard]] bool is_format(std::string_view name) noexcept;

// As Mint::source. REQUIRES: is_format(name).
[[nodiscard]] Result<std::unique_ptr<Source>> open_format(std::string_view name,
                                                          const FormatOptions& options,
                                                          const MintOptions& mint);

}  // namespace idmint
