#include "mint/toml.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/byte_order_mark.h"

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

// Explains the parser's descriptions to the author of the file. The first row that fits counts.
struct Meaning {
  std::string_view said;
  std::string_view means;
};
constexpr std::array kMeanings = {
    Meaning{
        "parsing array",
        R"(a list that begins here or above is not closed, or lacks a comma: write ["a", "b"])"},
    Meaning{"parsing table header", "the name of a table is not closed: write ] behind it"},
    Meaning{"determine value type", R"(a text needs quotes: write "text")"},
    Meaning{"parsing date", R"(a text needs quotes: write "text")"},
    Meaning{"parsing time", R"(a text needs quotes: write "text")"},
    Meaning{"parsing integer", R"(a text needs quotes: write "text")"},
    Meaning{"parsing floating-point", R"(a text needs quotes: write "text")"},
    Meaning{"control characters",
            "a text is not closed: write a quote behind it, in the same line"},
    Meaning{"expected '='", "an equals sign is missing: write key = value"},
    Meaning{"expected value", "a value is missing: write key = value"},
    Meaning{"redefine existing", "it stands here a second time: leave one of them out"},
    Meaning{"expected a comment", "something follows the value: begin a new line for it"},
};

std::string in_plain_words(std::string_view description) {
  const auto* const row = std::ranges::find_if(
      kMeanings, [&](const Meaning& each) { return description.contains(each.said); });
  if (row == kMeanings.end()) return std::string(description);
  return std::string(row->means) + " (" + std::string(description) + ")";
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
  // toml++ 3.3 fails on a mark alone, and on two of them.
  for (std::size_t left = text.size() + 1; left != text.size();) {
    left = text.size();
    const Result<std::string_view> unmarked = without_mark(text);
    if (!unmarked) return std::unexpected(unmarked.error());
    text = *unmarked;
  }
  if (Result<void> shallow = check_depth(text, a_key_is); !shallow)
    return std::unexpected(std::move(shallow.error()));
  toml::parse_result parsed = toml::parse(text);
  if (!parsed)
    return at_line(parsed.error().source(),
                   "no TOML: " + in_plain_words(parsed.error().description()));
  return std::move(parsed).table();
}

}  // namespace idmint
