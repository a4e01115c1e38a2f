// KSUID: 160 bits, specification at github.com/segmentio/ksuid. Printed in base62, 27 characters.
//
//   seconds since 2014-05-13T16:53:20Z, unsigned 32 | random 128
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "idmint/print.h"
#include "idmint/result.h"

namespace idmint {

// Big-endian. Ordered by its bytes, which is also the byte order of its text.
class Ksuid {
 public:
  using Bytes = std::array<std::uint8_t, 20>;
  static constexpr std::size_t kChars = 27;
  static constexpr std::int64_t kEpochSeconds = 1'400'000'000;

  constexpr Ksuid() noexcept = default;
  constexpr explicit Ksuid(const Bytes& bytes) noexcept : bytes_(bytes) {}

  // Accepts 27 characters of base62 (0-9A-Za-z) up to aWgEPTl1tmebfsQzFP4bxwgy80V, the largest that
  // fits 160 bits. Anything else is kInvalidArgument.
  [[nodiscard]] IDMINT_EXPORT static Result<Ksuid> parse(std::string_view text);

  [[nodiscard]] constexpr const Bytes& bytes() const noexcept { return bytes_; }
  // Seconds since kEpochSeconds.
  [[nodiscard]] constexpr std::uint32_t timestamp() const noexcept {
    return std::uint32_t{bytes_[0]} << 24 | std::uint32_t{bytes_[1]} << 16 |
           std::uint32_t{bytes_[2]} << 8 | bytes_[3];
  }
  [[nodiscard]] constexpr Instant time() const noexcept {
    return Instant{std::chrono::seconds{kEpochSeconds + timestamp()}};
  }

  // Writes exactly kChars characters, no terminating zero; returns the end.
  IDMINT_EXPORT char* to_chars(char* out) const noexcept;
  [[nodiscard]] std::string to_string() const {
    std::string text(kChars, '\0');
    to_chars(text.data());
    return text;
  }

  friend constexpr auto operator<=>(const Ksuid&, const Ksuid&) noexcept = default;

 private:
  Bytes bytes_{};
};

// The smallest and the largest KSUID of the second of `at`. kInvalidArgument: the time lies outside
// 2014-05-13T16:53:20Z to 2150-06-19T23:21:35Z.
[[nodiscard]] IDMINT_EXPORT Result<Bounds<Ksuid>> ksuid_bounds(Instant at);

// Ids are ordered by second only. Threads may share it. Guarantee: practical. The odds of a repeat
// among n ids of one second are about n^2 / 2^129.
class IDMINT_EXPORT KsuidGenerator final {
 public:
  explicit KsuidGenerator(Clock& clock = seconds_clock(),
                          Entropy& entropy = system_entropy()) noexcept
      : clock_(clock), entropy_(entropy) {}
  KsuidGenerator(const KsuidGenerator&) = delete;
  KsuidGenerator& operator=(const KsuidGenerator&) = delete;

  // kOutOfRange: the clock shows a time that no KSUID can hold. Nothing was handed out.
  [[nodiscard]] Result<Ksuid> next();
  // Fills all of `out`; on an error its content is unspecified.
  [[nodiscard]] Result<void> next(std::span<Ksuid> out);

 private:
  Clock& clock_;
  Entropy& entropy_;
};

}  // namespace idmint

template <>
struct std::hash<idmint::Ksuid> {
  std::size_t operator()(const idmint::Ksuid& id) const noexcept {
    return std::hash<std::string_view>{}(
        {reinterpret_cast<const char*>(id.bytes().data()), id.bytes().size()});
  }
};
