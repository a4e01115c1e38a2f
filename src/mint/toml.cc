#include "mint/toml.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace idmint {

namespace {

// toml++ makes a table of each part of a dotted key and destroys them recursively: half a million
// parts overflow the stack. The dots of a line bound its parts. Dots in strings and comments count
// too, because only the parser can tell them apart.
constexpr std::ptrdiff_t kMostDots = 256;

Result<void> check_depth(std::string_view text, std::string_view a_key_is) {
  std::size_t number = 1;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const std::string_view line = text.substr(at, text.find('\n', at) - at);
    if (const auto dots = std::ranges::count(line, '.'); dots > kMostDots) {
      return std::unexpected(Error{
          Code::kInvalidArgument,
          "line " + std::to_string(number) + ": it has " + std::to_string(dots) + " dots, of " +
              std::to_string(kMostDots) + " at most: " + std::string(a_key_is)});
    }
    at += line.size() + 1;
  }
  return {};
}

}  // namespace

std::unexpected<Error> at_line(const toml::source_region& where, std::string what) {
  // One line, whatever character the parser quotes.
  std::ranges::replace_if(what, [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  return std::unexpected(Error{
      Code::kInvalidArgument, "line " + std::to_string(where.begin.line) + ": " + std::move(what)});
}

std::string quoted_key(std::string_view text) {
  std::string shown = "\"";
  for (const char c : text.substr(0, 60)) shown += c >= ' ' && c < 0x7f ? c : '?';
  return shown + (text.size() > 60 ? "...\"" : "\"");
}

Result<toml::table> parse_toml(std::string_view text, std::string_view a_key_is) {
  constexpr std::string_view mark = "\xef\xbb\xbf";  // UTF-8's BOM; toml++ 3.3 fails on it alone
  while (text.starts_with(mark)) text.remove_prefix(mark.size());
  if (Result<void> shallow = check_depth(text, a_key_is); !shallow)
    return std::unexpected(std::move(shallow.error()));
  toml::parse_result parsed = toml::parse(text);
  if (!parsed)
    return at_line(parsed.error().source(),
                   "no TOML: " + std::string(parsed.error().description()));
  return std::move(parsed).table();
}

}  // namespace idmint
