// ULID: 128 bits. Specification: github.com/ulid/spec. Printed in Crockford's base32.
//
//   milliseconds since 1970 48 | random 80
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "idmint/print.h"
#include "idmint/result.h"

namespace idmint {

// Big-endian. Ordered by its bytes, which is also the order of its text.
class Ulid {
 public:
  using Bytes = std::array<std::uint8_t, 16>;
  static constexpr std::size_t kChars = 26;

  constexpr Ulid() noexcept = default;
  constexpr explicit Ulid(const Bytes& bytes) noexcept : bytes_(bytes) {}

  // Accepts 26 base32 characters in either case; I and L are read as 1, O as 0, as Crockford
  // specifies. Anything else is kInvalidArgument, as is a first character above 7, which exceeds
  // 128 bits.
  [[nodiscard]] static constexpr Result<Ulid> parse(std::string_view text);

  [[nodiscard]] constexpr const Bytes& bytes() const noexcept { return bytes_; }
  // Milliseconds since 1970.
  [[nodiscard]] constexpr std::uint64_t milliseconds() const noexcept {
    std::uint64_t ms = 0;
    for (std::size_t i = 0; i < 6; ++i) ms = ms << 8 | bytes_[i];
    return ms;
  }

  // Writes exactly kChars characters, upper case, no terminating zero; returns the end.
  constexpr char* to_chars(char* out) const noexcept;
  [[nodiscard]] std::string to_string() const {
    std::string text(kChars, '\0');
    to_chars(text.data());
    return text;
  }

  friend constexpr auto operator<=>(const Ulid&, const Ulid&) noexcept = default;

 private:
  Bytes bytes_{};
};

// The smallest and the largest ULID of the millisecond of `at`. kInvalidArgument: before 1970.
[[nodiscard]] IDMINT_EXPORT Result<Bounds<Ulid>> ulid_bounds(Instant at);

struct UlidOptions {
  // As Uuid7Options.
  std::chrono::nanoseconds max_drift = std::chrono::seconds{20};
  bool strict = false;
};

// Monotonic: the first id of a millisecond has 80 random bits, and each further id adds one.
// Strictly increasing within one generator, across its threads and in bulk. Threads may share it;
// neither copied nor moved; a child of fork() starts afresh. Guarantee: practical. Two generators
// repeat an id only if their 80-bit runs overlap in the same millisecond.
class IDMINT_EXPORT UlidGenerator final {
 public:
  explicit UlidGenerator(const UlidOptions& options = {}, Clock& clock = system_clock(),
                         Entropy& entropy = system_entropy());
  ~UlidGenerator();
  UlidGenerator(const UlidGenerator&) = delete;
  UlidGenerator& operator=(const UlidGenerator&) = delete;

  // Nothing is handed out on an error.
  // - kResourceExhausted: the 80 bits overflowed in this millisecond, an error that the
  //   specification demands; the next millisecond succeeds.
  // - kUnavailable: the options are strict, and the clock was set back by more than max_drift.
  // - kOutOfRange: the clock shows a time before 1970.
  [[nodiscard]] Result<Ulid> next();

  // Fills all of `out`, increasing; on an error its content is unspecified. Ids of other threads
  // may lie between.
  [[nodiscard]] Result<void> next(std::span<Ulid> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// ---- implementation of the constexpr parts

namespace detail {

IDMINT_EXPORT char* print_ulid(const std::uint8_t* bytes, char* out) noexcept;

constexpr std::string_view kCrockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

// 0 to 31; -1: not a digit.
constexpr int crockford_digit(char c) noexcept {
  if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  if (c == 'O') return 0;
  if (c == 'I' || c == 'L') return 1;
  for (std::size_t i = 0; i < kCrockford.size(); ++i) {
    if (kCrockford[i] == c) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace detail

constexpr char* Ulid::to_chars(char* out) const noexcept {
  if consteval {
    unsigned pending = 0;
    int bits = 2;  // 26 digits hold 130 bits: two zero bits lead
    for (const std::uint8_t byte : bytes_) {
      pending = pending << 8 | byte;
      for (bits += 8; bits >= 5; bits -= 5) *out++ = detail::kCrockford[pending >> (bits - 5) & 31];
    }
    return out;
  } else {
    return detail::print_ulid(bytes_.data(), out);
  }
}

constexpr Result<Ulid> Ulid::parse(std::string_view text) {
  const auto refuse = [](const char* why) {
    return std::unexpected(Error{Code::kInvalidArgument, std::string("not a ULID: ") + why});
  };
  if (text.size() != kChars) return refuse("expected 26 characters of Crockford's base32");
  Ulid u;
  unsigned pending = 0;
  int bits = -2;
  std::size_t byte = 0;
  for (std::size_t i = 0; i < kChars; ++i) {
    const int digit = detail::crockford_digit(text[i]);
    if (digit < 0) return refuse("a character is not one of Crockford's base32 digits");
    if (i == 0 && digit > 7)
      return refuse("larger than 7ZZZZZZZZZZZZZZZZZZZZZZZZZ, it does not fit 128 bits");
    pending = pending << 5 | static_cast<unsigned>(digit);
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      u.bytes_[byte++] = static_cast<std::uint8_t>(pending >> bits);
    }
  }
  return u;
}

}  // namespace idmint

template <>
struct std::hash<idmint::Ulid> {
  std::size_t operator()(const idmint::Ulid& id) const noexcept {
    return std::hash<std::string_view>{}(
        {reinterpret_cast<const char*>(id.bytes().data()), id.bytes().size()});
  }
};
