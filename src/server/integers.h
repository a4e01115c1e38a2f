// Integers beyond 2^53-1: which clients hold them, and which sources give them. Many parsers read
// an integer as a double, which rounds it there, so that different ids become equal.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "idmint/result.h"
#include "idmint/sequence.h"

namespace idmint::server {

// The largest integer up to which a double holds each one; its negative is the smallest.
inline constexpr std::int64_t kMostExact = (std::int64_t{1} << 53) - 1;

[[nodiscard]] constexpr bool is_exact(std::int64_t value) noexcept {
  return -kMostExact <= value && value <= kMostExact;
}

// How a client of the Redis protocol gets an integer beyond kMostExact. In this order: the lesser
// one is right for both of two clients that share a connection.
enum class Integers : std::uint8_t {
  kText,     // as a bulk string: its library is for JavaScript
  kUnknown,  // not at all: it has not said what it is, or is not known here
  kWhole,    // as an integer: its library holds 64 bits
};

// By the name that a library gives with CLIENT SETINFO LIB-NAME, such as "redis-py" or
// "jedis(redis-om-spring_v1.0.0)".
[[nodiscard]] Integers integers_of(std::string_view library);

// Whether the next values of an open source may be beyond kMostExact, as far as this process knows.
// Another process may raise or use up the source meanwhile, so look at the values that come, too.
// On the loop.
class Height final {
 public:
  // `format` is the name of the format of its ids.
  [[nodiscard]] static Height of_format(std::string_view format) noexcept;
  [[nodiscard]] static Height of_sequence(const SequenceDefinition& sequence) noexcept;
  [[nodiscard]] static Height of_pool() noexcept { return Height(Values::kNotSeen); }

  // Whether may_pass() needs look() before it.
  [[nodiscard]] bool is_unseen() const noexcept { return values_ == Values::kNotSeen; }
  // Learns from what is in the store. The error is that of the status.
  [[nodiscard]] Result<void> look(const SequenceStatus& status);
  // Counts values that are asked for, and those that came (0: none did), with the largest of them.
  void ask(std::int64_t count) noexcept { asked_ += count; }
  void got(std::int64_t asked, std::int64_t highest) noexcept;
  // Whether one of the next `count` values may be beyond kMostExact. REQUIRES: !is_unseen().
  [[nodiscard]] bool may_pass(std::int64_t count) const noexcept;

 private:
  enum class Values : std::uint8_t {
    kBelow,    // all are at most kMostExact
    kAny,      // in no order, or made of the time: some may be beyond at any time
    kNotSeen,  // they rise, from where is not known
    kRising,
  };
  explicit Height(Values values, std::int64_t pace = 1) noexcept : values_(values), pace_(pace) {}

  Values values_;
  std::int64_t pace_;         // the most by which a value is above all that came before it
  std::int64_t reached_ = 0;  // kRising: no value above it has come, but those that are asked for
  std::int64_t asked_ = 0;    // values asked for that have not come
};

}  // namespace idmint::server
