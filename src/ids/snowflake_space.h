// Which Snowflake layouts mint the same ids.
#pragma once

#include "idmint/export.h"
#include "idmint/snowflake.h"

namespace idmint {

// One layout for all that make the same id of the same time, worker and sequence number: those with
// one epoch and unit, and with worker and sequence in the same places. The time lies above both, so
// its width does not part them. Only for comparing and naming: it may not be valid.
[[nodiscard]] IDMINT_EXPORT SnowflakeLayout space_of(const SnowflakeLayout& layout) noexcept;

}  // namespace idmint
