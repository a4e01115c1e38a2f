// Where a worker id comes from, and what may be promised of it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/host_facts.h"
#include "idmint/entropy.h"
#include "idmint/export.h"
#include "idmint/mint.h"
#include "idmint/result.h"
#include "idmint/snowflake.h"
#include "idmint/source.h"

namespace idmint {

struct WorkerOrigin {
  Worker::From from;
  std::string_view name;  // as --worker has it: "N", "env:NAME", "ordinal", "address", ...
  Guarantee guarantee;    // of the ids
  // When no two generators have the same one of 2^bits; where practical, how it is come by.
  std::string (*terms)(int bits);
};

// One for each Worker::From, in their order.
[[nodiscard]] IDMINT_EXPORT std::span<const WorkerOrigin> worker_origins() noexcept;

struct ChosenWorker {
  std::uint32_t id = 0;
  Guarantee guarantee = Guarantee::kUniqueIfConfigured;
  std::string notes{};  // how it was come by, and the condition or the odds
};

// kInvalidArgument: the number given is not in the layout. kFailedPrecondition: this host has none
// of that origin, or one that does not fit. REQUIRES: layout.validate() succeeds.
[[nodiscard]] IDMINT_EXPORT Result<ChosenWorker> choose_worker(
    const Worker& worker, const SnowflakeLayout& layout, Entropy& entropy,
    detail::HostFacts (*facts)() = detail::host_facts);

}  // namespace idmint
