// NanoID: 126 random bits. Original: github.com/ai/nanoid. Printed as 21 characters of A-Z a-z 0-9
// _ and -, which need no escapes in a URL.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "idmint/entropy.h"
#include "idmint/print.h"
#include "idmint/result.h"

namespace idmint {

// The order is that of the bytes, and not that of the text; it means nothing.
class Nanoid {
 public:
  // Six bits for each character, its place in kAlphabet, big-endian behind two zero bits.
  using Bytes = std::array<std::uint8_t, 16>;
  static constexpr std::size_t kChars = 21;
  static constexpr std::string_view kAlphabet =
      "useandom-26T198340PX75pxJACKVERYMINDBUSHWOLF_GQZbfghjklqvwyzrict";

  constexpr Nanoid() noexcept = default;

  // Accepts 21 characters of kAlphabet. Anything else is kInvalidArgument, as is an id of another
  // length or alphabet, which the original can make too.
  [[nodiscard]] IDMINT_EXPORT static Result<Nanoid> parse(std::string_view text);
  // kInvalidArgument: one of the two bits in front is set.
  [[nodiscard]] IDMINT_EXPORT static Result<Nanoid> from_bytes(const Bytes& bytes);
  // Leaves the two bits in front out.
  [[nodiscard]] static constexpr Nanoid from_random(Bytes bytes) noexcept {
    bytes[0] &= 0x3f;
    return Nanoid(bytes);
  }

  [[nodiscard]] constexpr const Bytes& bytes() const noexcept { return bytes_; }

  // Writes exactly kChars characters, no terminating zero; returns the end.
  IDMINT_EXPORT char* to_chars(char* out) const noexcept;
  [[nodiscard]] std::string to_string() const {
    std::string text(kChars, '\0');
    to_chars(text.data());
    return text;
  }

  friend constexpr auto operator<=>(const Nanoid&, const Nanoid&) noexcept = default;

 private:
  constexpr explicit Nanoid(const Bytes& bytes) noexcept : bytes_(bytes) {}

  Bytes bytes_{};
};

// Threads may share it; calls cannot fail. Guarantee: practical. The odds of a repeat among n ids
// are about n^2 / 2^127.
class IDMINT_EXPORT NanoidGenerator final {
 public:
  explicit NanoidGenerator(Entropy& entropy = system_entropy()) noexcept : entropy_(entropy) {}
  NanoidGenerator(const NanoidGenerator&) = delete;
  NanoidGenerator& operator=(const NanoidGenerator&) = delete;

  [[nodiscard]] Nanoid next() noexcept;
  void next(std::span<Nanoid> out) noexcept;

 private:
  Entropy& entropy_;
};

}  // namespace idmint

template <>
struct std::hash<idmint::Nanoid> {
  std::size_t operator()(const idmint::Nanoid& id) const noexcept {
    return std::hash<std::string_view>{}(
        {reinterpret_cast<const char*>(id.bytes().data()), id.bytes().size()});
  }
};
