// The origins of worker ids, and the promise that each one allows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/host_facts.h"
#include "idmint/entropy.h"
#include "idmint/mint.h"
#include "idmint/result.h"
#include "idmint/snowflake.h"
#include "idmint/source.h"

namespace idmint {

struct WorkerOrigin {
  Worker::From from;
  std::string_view name;  // as --worker has it: "N", "env:NAME", "ordinal", "address", ...
  Guarantee guarantee;    // of the ids
  // The condition under which no two generators have the same one of 2^bits. If practical: how the
  // worker id is made.
  std::string (*terms)(int bits);
  // How many of its bits the worker ids of similar hosts may have in common, so that these hosts
  // share one as often as if it had that many bits less.
  int lost_bits = 0;
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
