// Names in commands that messages advise.
#pragma once

#include <string>
#include <string_view>

namespace idmint {

// As a POSIX shell reads it back as one word: bare, or in single quotes.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace idmint
