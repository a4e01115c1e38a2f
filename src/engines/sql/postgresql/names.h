// Names as the tables keep them.
#pragma once

#include <string>
#include <string_view>

namespace idmint::stores::postgresql {

// The prefix of the names that are kept as hexadecimal digits.
inline constexpr std::string_view kHexName = "\\x";

// A name may be any bytes, and a text of PostgreSQL is UTF-8 without NUL: so a name that is not, or
// begins with kHexName, stands there as kHexName and the hexadecimal digits of its bytes.
[[nodiscard]] std::string stored_name(std::string_view name);
[[nodiscard]] std::string name_of(std::string_view stored);

}  // namespace idmint::stores::postgresql
