#include "base/text.h"

#include <cstddef>
#include <cstdint>

namespace idmint {
namespace {

// The first character of a text: its size in bytes; 0: not UTF-8.
struct Character {
  std::size_t size;
  std::uint32_t code;
};

Character first_of(std::string_view text) noexcept {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::uint32_t lead = at(0);
  if (lead < 0x80) return {1, lead};
  const std::size_t size = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (lead < 0xc2 || lead > 0xf4 || size > text.size()) return {0, 0};
  std::uint32_t code = lead & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((at(i) & 0xc0) != 0x80) return {0, 0};
    code = code << 6 | (at(i) & 0x3fU);
  }
  const bool overlong = size == 3 ? code < 0x800 : size == 4 && code < 0x10000;
  if (overlong || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) return {0, 0};
  return {size, code};
}

bool is_control(std::uint32_t code) noexcept {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) ||        // C0, DEL, C1
         code == 0x061c || code == 0x200e || code == 0x200f ||  // marks of direction
         (code >= 0x2028 && code <= 0x202e) ||                  // separators, embeddings
         (code >= 0x2066 && code <= 0x2069);                    // isolates
}

void append_hex(std::string& text, std::uint32_t value, int digits) {
  constexpr std::string_view hex = "0123456789abcdef";
  for (int i = digits - 1; i >= 0; --i) text += hex[value >> (4 * i) & 15];
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t size = first_of(text).size;
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::string as_utf8(std::string_view text) {
  std::string all;
  while (!text.empty()) {
    const std::size_t size = first_of(text).size;
    if (size == 0) {
      all += "\\x";
      append_hex(all, static_cast<unsigned char>(text.front()), 2);
    }
    all += text.substr(0, size);
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return all;
}

std::string escaped(std::string_view text, std::string_view keep) {
  std::string all;
  const std::string clean = as_utf8(text);
  for (std::string_view rest = clean; !rest.empty();) {
    const auto [size, code] = first_of(rest);
    if (is_control(code) && keep.find(rest.substr(0, size)) == std::string_view::npos) {
      all += "\\u";
      append_hex(all, code, 4);
    } else {
      all += rest.substr(0, size);
    }
    rest.remove_prefix(size);
  }
  return all;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string upper_case(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return upper;
}

std::string hex(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

std::string unhex(std::string_view digits) {
  const auto value = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(value(digits[i]) * 16 + value(digits[i + 1]));
  return bytes;
}

std::string shortened(std::string_view text) {
  constexpr std::size_t longest = 100;
  if (text.size() <= longest) return std::string(text);
  std::size_t size = longest;
  while (size > longest - 4 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  return std::string(text.substr(0, size)) + "...";
}

std::string shown(std::string_view name) {
  constexpr std::size_t kMost = 120;
  if (name.size() <= kMost) return "\"" + escaped(name) + "\"";
  std::size_t end = kMost;  // no character is cut in two
  while (end > kMost - 4 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;
  return "\"" + escaped(name.substr(0, end)) + "...\"";
}

}  // namespace idmint
