// Digits: ids of exactly N decimal digits, 1 to 36.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "idmint/encoding.h"
#include "idmint/entropy.h"
#include "idmint/print.h"
#include "idmint/result.h"

namespace idmint {

// Numbers up to 10^36.
__extension__ using Uint128 = unsigned __int128;

// A number and its width: "007" differs from "7". Ordered by width, then by value; ids of one width
// sort like their texts.
class Digits {
 public:
  static constexpr std::size_t kMaxChars = 36;

  constexpr Digits() noexcept = default;  // "0"
  // REQUIRES: 1 <= size <= 36, value < 10^size.
  constexpr Digits(std::size_t size, Uint128 value) noexcept
      : size_(size),
        high_(value < kHalf ? 0 : static_cast<std::uint64_t>(value / kHalf)),
        low_(static_cast<std::uint64_t>(value - Uint128{high_} * kHalf)) {}

  // Accepts 1 to 36 characters 0-9. Anything else is kInvalidArgument.
  [[nodiscard]] IDMINT_EXPORT static Result<Digits> parse(std::string_view text);

  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
  [[nodiscard]] constexpr Uint128 value() const noexcept { return Uint128{high_} * kHalf + low_; }

  // Writes exactly size() characters, no terminating zero; returns the end.
  IDMINT_EXPORT char* to_chars(char* out) const noexcept;
  [[nodiscard]] std::string to_string() const {
    std::string text(size_, '\0');
    to_chars(text.data());
    return text;
  }

  friend constexpr auto operator<=>(const Digits&, const Digits&) noexcept = default;

 private:
  static constexpr std::uint64_t kHalf = 1'000'000'000'000'000'000;  // 10^18

  std::uint64_t size_ = 1;  // a whole word, to avoid a store-forwarding stall
  std::uint64_t high_ = 0;  // the digits before the last 18
  std::uint64_t low_ = 0;   // the last 18
};

// The set of ids: prefix | payload | check digits, N digits in all.
struct DigitsLayout {
  int digits = 12;       // N, with the prefix and the check digits
  std::string prefix{};  // decimal digits that every id begins with
  Check check = Check::kNone;
  bool leading_zeros = true;  // whether the first printed digit may be 0

  // kInvalidArgument, naming the field, unless:
  // - N is 1 to 36;
  // - the prefix has digits only, and without leading_zeros its first one is not 0;
  // - the check is none or a decimal one;
  // - the payload has at least one digit.
  [[nodiscard]] IDMINT_EXPORT Result<void> validate() const;

  // The number of ids. REQUIRES (here and below): validate() succeeds.
  [[nodiscard]] IDMINT_EXPORT Uint128 capacity() const noexcept;
  // The id at a zero-based index in ascending order. REQUIRES: index < capacity().
  [[nodiscard]] IDMINT_EXPORT Digits at(Uint128 index) const noexcept;
  // The inverse of at(). kInvalidArgument: not an id of this layout; the message names the fault
  // (length, prefix, leading zero, check digit).
  [[nodiscard]] IDMINT_EXPORT Result<Uint128> index_of(const Digits& id) const;

  friend bool operator==(const DigitsLayout&, const DigitsLayout&) = default;
};

// Uniformly random over the layout, without modulo bias. Guarantee: practical. The odds of a repeat
// among n of c ids are about n^2 / (2 c): 1 in 2 for 1.2 million ids of 12 digits. For ids that
// never repeat use a sequence of strategy random or permuted. Threads may share it.
class IDMINT_EXPORT DigitsGenerator final {
 public:
  // REQUIRES: layout.validate() succeeds.
  explicit DigitsGenerator(const DigitsLayout& layout = {}, Entropy& entropy = system_entropy());
  DigitsGenerator(const DigitsGenerator&) = delete;
  DigitsGenerator& operator=(const DigitsGenerator&) = delete;

  [[nodiscard]] const DigitsLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] Digits next() noexcept;
  void next(std::span<Digits> out) noexcept;

 private:
  struct Recipe {
    Uint128 capacity;
    Uint128 unfair;  // the number of random values that are rejected
    Uint128 first;   // the id at index 0, without its check digits
    std::size_t size;
    const DigitsLayout* checked;  // null without check digits
  };
  template <class Draw>
  [[nodiscard]] static Digits make(const Recipe& recipe, Draw&& draw) noexcept;

  const DigitsLayout layout_;
  const Recipe recipe_;
  Entropy& entropy_;
};

}  // namespace idmint

template <>
struct std::hash<idmint::Digits> {
  std::size_t operator()(const idmint::Digits& id) const noexcept {
    return std::hash<std::uint64_t>{}(static_cast<std::uint64_t>(id.value()) ^
                                      static_cast<std::uint64_t>(id.value() >> 64) ^
                                      id.size() << 56);
  }
};
