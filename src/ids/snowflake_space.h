// Which Snowflake layouts mint the same ids, which mint any, and how far ahead of a clock.
#pragma once

#include <chrono>
#include <string_view>

#include "idmint/clock.h"
#include "idmint/result.h"
#include "idmint/snowflake.h"

namespace idmint {

// The longest that a generator waits, whatever its options say.
inline constexpr std::chrono::nanoseconds kLongestDeadline = std::chrono::hours{24};

// One layout for all that make the same id of the same time, worker and sequence number: those with
// one epoch and unit, and with worker and sequence in the same places. The time lies above both, so
// its width does not part them. Only for comparing and naming: it may not be valid.
[[nodiscard]] IDMINT_EXPORT SnowflakeLayout space_of(const SnowflakeLayout& layout) noexcept;

// How far ahead of its clock a generator with a leased worker id may be: max_drift, but room for a
// window in whole units, at least two, and a unit.
[[nodiscard]] IDMINT_EXPORT std::chrono::nanoseconds drift_of(
    const SnowflakeLayout& layout, const SnowflakeLeaseOptions& options) noexcept;

// kOutOfRange: `now` is a time that no id of the layout can have. The message says what to do:
// `take` another layout.
[[nodiscard]] Result<void> has_time(const SnowflakeLayout& layout, Instant now,
                                    std::string_view take = "take");

}  // namespace idmint
