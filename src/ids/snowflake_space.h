// Snowflake layouts: which of them mint the same ids, their present time, and how far they may be
// ahead of a clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "idmint/clock.h"
#include "idmint/result.h"
#include "idmint/snowflake.h"

namespace idmint {

// The upper limit of a generator's deadline.
inline constexpr std::chrono::nanoseconds kLongestDeadline = std::chrono::hours{24};

// One layout for all layouts that make the same id of the same time, worker and sequence number:
// those with the same epoch and unit, and with worker and sequence in the same places. The width of
// the time does not matter, since the time is above both. Only for comparing and naming: it may not
// be valid.
[[nodiscard]] IDMINT_EXPORT SnowflakeLayout space_of(const SnowflakeLayout& layout) noexcept;

// In whole units, rounded up, at least two.
[[nodiscard]] IDMINT_EXPORT std::int64_t units_of(std::chrono::nanoseconds window,
                                                  std::chrono::nanoseconds unit) noexcept;
// The last time of an id, in units. Leaves one more, so that no sum exceeds the last Instant.
[[nodiscard]] IDMINT_EXPORT std::int64_t last_tick(const SnowflakeLayout& layout) noexcept;

// How far ahead of its clock a generator with a leased worker id may be: max_drift, but at least a
// window (in whole units, at least two) and one unit.
[[nodiscard]] IDMINT_EXPORT std::chrono::nanoseconds drift_of(
    const SnowflakeLayout& layout, const SnowflakeLeaseOptions& options) noexcept;

// kOutOfRange: no id of the layout can have the time `now`. The message recommends to `take`
// another layout.
[[nodiscard]] Result<void> has_time(const SnowflakeLayout& layout, Instant now,
                                    std::string_view take = "take");

}  // namespace idmint
