// Timestamps of the oplog, as MongoDB's Timestamp type: seconds since 1970 and an ordinal within
// the second. Ordinals are not consecutive.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "idmint/result.h"

namespace idmint::restore {

struct Timestamp {
  std::uint32_t seconds = 0;
  std::uint32_t ordinal = 0;

  friend auto operator<=>(const Timestamp&, const Timestamp&) = default;
};

// A timestamp and the term of the primary that wrote it. {0:0, -1}: none.
struct OpTime {
  Timestamp ts{};
  std::int64_t term = -1;

  friend bool operator==(const OpTime&, const OpTime&) = default;
};

// A part of an oplog. Both ends are inclusive.
struct OplogSpan {
  Timestamp from{};
  Timestamp to{.seconds = UINT32_MAX, .ordinal = UINT32_MAX};
};

// Accepts "SECONDS:ORDINAL" only. kInvalidArgument: anything else, a missing ordinal, or 0:0.
[[nodiscard]] Result<Timestamp> parse_timestamp(std::string_view text);
// Accepts the same, or a time as of parse_time(), which means the first timestamp of its second.
[[nodiscard]] Result<Timestamp> parse_moment(std::string_view text);
[[nodiscard]] std::string print_timestamp(Timestamp timestamp);
// The seconds as "2026-11-22T09:15:01Z".
[[nodiscard]] std::string print_seconds(Timestamp timestamp);

}  // namespace idmint::restore
