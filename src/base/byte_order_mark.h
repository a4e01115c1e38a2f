// Byte-order marks, which some editors and spreadsheets write before a text.
#pragma once

#include <cstddef>
#include <string_view>

#include "idmint/result.h"

namespace idmint {

// So many bytes tell whether a text begins with a mark.
inline constexpr std::size_t kLongestMark = 3;

// The text without the mark of UTF-8 before it, if there is one. kInvalidArgument: the mark is that
// of UTF-16 or UTF-32, which nothing here reads; the message names what converts it.
[[nodiscard]] IDMINT_EXPORT Result<std::string_view> without_mark(std::string_view text);

}  // namespace idmint
