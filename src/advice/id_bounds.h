// The smallest and the largest id of an instant or a span of time.
#pragma once

#include <string>
#include <string_view>

#include "advice/words.h"
#include "idmint/id.h"
#include "idmint/result.h"
#include "idmint/uuid_time.h"

namespace idmint::advice {

// As given; empty: not given.
struct BoundsTexts {
  std::string format{};  // one in order of time: "uuid7", "snowflake"
  std::string at{};      // the instant, or the beginning of the span
  std::string until{};   // the end of the span, which is not part of it
  std::string layout{};  // of snowflake; sequence-generator if not given
};

// Both ends included. kInvalidArgument, in these words: the ids of a time cannot be told in the
// format, a time cannot be read or has no ids, or the span is empty.
[[nodiscard]] Result<Bounds<Id>> id_bounds(const BoundsTexts& given, Words words);

}  // namespace idmint::advice
