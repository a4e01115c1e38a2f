// Quoting of names in commands that messages recommend.
#pragma once

#include <string>
#include <string_view>

namespace idmint {

// The text as one word of a POSIX shell: bare, or in single quotes.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace idmint
