// Text from outside, such as names in a store and messages of a server: UTF-8, and what may be
// printed of it.
#pragma once

#include <string>
#include <string_view>

namespace idmint {

// Without overlong forms and surrogates.
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

// Each byte that is not UTF-8 as \xNN.
[[nodiscard]] std::string as_utf8(std::string_view text);

// For a terminal, a log or a page: also \uNNNN for each character that would control it instead of
// being seen, which are C0, DEL, C1, the line and paragraph separators, and those that change the
// direction of text. Those in `keep` stay. JSON stays valid, and means the same.
[[nodiscard]] std::string escaped(std::string_view text, std::string_view keep = "");

// With ASCII letters of one case; whatever else stays.
[[nodiscard]] std::string lower_case(std::string_view text);
[[nodiscard]] std::string upper_case(std::string_view text);

// At most about 100 characters of it, for a message.
[[nodiscard]] std::string shortened(std::string_view text);

// A name for a message: in quotes, on one line, cut where it is long.
[[nodiscard]] std::string shown(std::string_view name);

}  // namespace idmint
