// External text, such as names in a store and messages of a server: UTF-8, and its printable form.
#pragma once

#include <string>
#include <string_view>

namespace idmint {

// Rejects overlong forms and surrogates.
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

// The text with each byte that is not UTF-8 as \xNN.
[[nodiscard]] std::string as_utf8(std::string_view text);

// For a terminal, a log or a page. Like as_utf8(), with \uNNNN for each control character: C0, DEL,
// C1, the line and paragraph separators, and those that change the direction of text. Characters in
// `keep` stay. JSON stays valid and keeps its meaning.
[[nodiscard]] std::string escaped(std::string_view text, std::string_view keep = "");

// The text with its ASCII letters in one case.
[[nodiscard]] std::string lower_case(std::string_view text);
[[nodiscard]] std::string upper_case(std::string_view text);

// Each byte as two lower-case hexadecimal digits.
[[nodiscard]] std::string hex(std::string_view bytes);
// The bytes again. REQUIRES: what hex() returned.
[[nodiscard]] std::string unhex(std::string_view digits);

// The first 100 characters or so, for a message.
[[nodiscard]] std::string shortened(std::string_view text);

// A name for a message: in quotes, on one line, truncated if it is long.
[[nodiscard]] std::string shown(std::string_view name);

}  // namespace idmint
