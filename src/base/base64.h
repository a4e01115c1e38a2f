// Base64 (RFC 4648, section 4): any bytes as text, with padding.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace idmint {

[[nodiscard]] std::string to_base64(std::string_view bytes);

// The exact inverse. Nothing: a character outside the alphabet, a length that is no multiple of 4,
// or bits that stand for no byte and are not 0.
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

}  // namespace idmint
