// "Did you mean": names that are close to a misspelt one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace idmint {

// The known names that are closest to this one by their edit distance, ignoring the case of ASCII
// letters: "uuid4 or uuid7". Empty if none is close: about one letter in four may differ.
[[nodiscard]] std::string close_matches(std::string_view name,
                                        const std::vector<std::string>& known);

}  // namespace idmint
