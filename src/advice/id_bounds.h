// The smallest and the largest id of an instant or a span of time.
#pragma once

#include <string>
#include <string_view>

#include "advice/words.h"
#include "idmint/id.h"
#include "idmint/result.h"

namespace idmint::advice {

// As given; empty: not given.
struct BoundsTexts {
  std::string format{};  // a format ordered by time: "uuid7", "snowflake"
  std::string at{};      // the instant, or the start of the span
  std::string until{};   // the exclusive end of the span
  std::string layout{};  // for snowflake; default: sequence-generator
};

// "uuid6, uuid7, ulid": the formats that BoundsTexts::format takes.
[[nodiscard]] std::string formats_in_order_of_time();

// Both inclusive. kInvalidArgument, in these words: the format has no bounds for a time, a time
// cannot be read or has no ids, or the span is empty.
[[nodiscard]] Result<Bounds<Id>> id_bounds(const BoundsTexts& given, Words words);

}  // namespace idmint::advice
