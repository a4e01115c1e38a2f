// TSID: 64 bits. Original: github.com/f4b6a3/tsid-creator. Printed in Crockford's base32, 13
// characters, or kept as a number.
//
//   milliseconds since 2020-01-01T00:00:00Z 42 | random 22
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "idmint/print.h"
#include "idmint/result.h"

namespace idmint {

// Ordered as a number, which is also the byte order of its text.
class Tsid {
 public:
  static constexpr std::size_t kChars = 13;
  static constexpr int kRandomBits = 22;
  static constexpr Instant kEpoch = std::chrono::sys_days{std::chrono::January / 1 / 2020};

  constexpr Tsid() noexcept = default;
  constexpr explicit Tsid(std::uint64_t value) noexcept : value_(value) {}

  // Accepts 13 base32 characters in either case; I and L are read as 1, O as 0, as Crockford
  // specifies. Anything else is kInvalidArgument, as is a first character above F, which exceeds 64
  // bits.
  [[nodiscard]] IDMINT_EXPORT static Result<Tsid> parse(std::string_view text);

  // Past 2^63 - 1, so negative in a signed column, from 2089-09-06T15:47:35.552Z on.
  [[nodiscard]] constexpr std::uint64_t value() const noexcept { return value_; }
  // 2020 to 2159.
  [[nodiscard]] constexpr Instant time() const noexcept {
    return kEpoch + std::chrono::milliseconds{static_cast<std::int64_t>(value_ >> kRandomBits)};
  }
  [[nodiscard]] constexpr std::uint32_t random() const noexcept {
    return static_cast<std::uint32_t>(value_ & ((1U << kRandomBits) - 1));
  }

  // Writes exactly kChars characters, upper case, no terminating zero; returns the end.
  IDMINT_EXPORT char* to_chars(char* out) const noexcept;
  [[nodiscard]] std::string to_string() const {
    std::string text(kChars, '\0');
    to_chars(text.data());
    return text;
  }

  friend constexpr auto operator<=>(const Tsid&, const Tsid&) noexcept = default;

 private:
  std::uint64_t value_ = 0;
};

// The smallest and the largest TSID of the millisecond of `at`. kInvalidArgument: the time lies
// outside 2020-01-01 to 2159-05-15T07:35:11.103Z.
[[nodiscard]] IDMINT_EXPORT Result<Bounds<Tsid>> tsid_bounds(Instant at);

// The first id of a millisecond has 22 random bits, and each further id adds one; at the end of the
// 22 bits the generator waits for the next millisecond. Strictly increasing, across threads and in
// bulk. All generators of a process share one sequence, unless they are given a clock or an entropy
// of their own, so no id comes twice in a process. Threads may share it; neither copied nor moved;
// a child of fork() starts afresh.
//
// Guarantee: practical, and weak. Two processes that both mint in one millisecond repeat an id with
// odds of 1 in 4 million, and more often if they mint several. Where ids must not repeat, mint
// Snowflakes with a worker id and print them in base32: in the layout "42t10w12s epoch 2020-01-01"
// they are TSIDs too (snowflake.h, form.h).
class IDMINT_EXPORT TsidGenerator final {
 public:
  explicit TsidGenerator(Clock& clock = system_clock(), Entropy& entropy = system_entropy());
  ~TsidGenerator();
  TsidGenerator(const TsidGenerator&) = delete;
  TsidGenerator& operator=(const TsidGenerator&) = delete;

  // Nothing is handed out on an error.
  // - kUnavailable: the clock was set back by more than 20 s, or stands still.
  // - kOutOfRange: the clock shows a time that no TSID can hold.
  [[nodiscard]] Result<Tsid> next();

  // Fills all of `out`, increasing; on an error its content is unspecified. Ids of other threads
  // may lie between.
  [[nodiscard]] Result<void> next(std::span<Tsid> out);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace idmint

template <>
struct std::hash<idmint::Tsid> {
  std::size_t operator()(const idmint::Tsid& id) const noexcept {
    return std::hash<std::uint64_t>{}(id.value());
  }
};
