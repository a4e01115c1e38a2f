#include "idmint/xid.h"

namespace idmint {
namespace {

constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuv";

int digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'v') return c - 'a' + 10;
  return -1;
}

}  // namespace

Result<Xid> Xid::parse(std::string_view text) {
  const auto refuse = [](const char* why) {
    return std::unexpected(Error{Code::kInvalidArgument, std::string("not an xid: ") + why});
  };
  if (text.size() != kChars) return refuse("expected 20 characters of 0-9a-v");
  Xid id;
  unsigned pending = 0;
  int bits = 0;
  std::size_t byte = 0;
  for (const char c : text) {
    const int digit = digit_of(c);
    if (digit < 0) return refuse("a character is none of 0-9a-v");
    pending = pending << 5 | static_cast<unsigned>(digit);
    bits += 5;
    if (bits >= 8 && byte < id.bytes_.size()) {
      bits -= 8;
      id.bytes_[byte++] = static_cast<std::uint8_t>(pending >> bits);
    }
  }
  if ((pending & 15) != 0) return refuse("the last character holds one bit, it must be 0 or g");
  return id;
}

char* Xid::to_chars(char* out) const noexcept {
  unsigned pending = 0;
  int bits = 0;
  for (const std::uint8_t byte : bytes_) {
    pending = pending << 8 | byte;
    for (bits += 8; bits >= 5; bits -= 5) *out++ = kDigits[pending >> (bits - 5) & 31];
  }
  *out++ = kDigits[pending << 4 & 31];
  return out;
}

}  // namespace idmint
