// The status of a source as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "idmint/sequence.h"

namespace idmint::advice {

// The interface that the keys are for. Each has some that the others have not.
enum class StatusKeys : std::uint8_t { kCommand, kHttp, kRedis };

// `as_text`: integers that a store holds in 64 bits are strings, as many readers round those beyond
// 2^53.
[[nodiscard]] nlohmann::ordered_json status_json(const SequenceStatus& status, StatusKeys keys,
                                                 bool as_text);

}  // namespace idmint::advice
