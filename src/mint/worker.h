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
  std::string_view name;  // as in --worker: "N", "env:NAME", "ordinal", "address", ...
  Guarantee guarantee;    // of the ids
  // The condition under which no two generators have the same worker id of 2^bits. If practical:
  // how it is made.
  std::string (*terms)(int bits);
  // The number of bits that the worker ids of similar hosts may have in common. Such hosts share a
  // worker id as often as if it had this many bits less.
  int lost_bits = 0;
};

// One for each Worker::From, in order.
[[nodiscard]] IDMINT_EXPORT std::span<const WorkerOrigin> worker_origins() noexcept;

struct ChosenWorker {
  std::uint32_t id = 0;
  Guarantee guarantee = Guarantee::kUniqueIfConfigured;
  std::string notes{};  // its origin, and the condition or the odds
};

// Errors. REQUIRES: layout.validate() succeeds.
// - kInvalidArgument: the given number is not in the layout.
// - kFailedPrecondition: this host has no worker id of that origin, or one that does not fit.
[[nodiscard]] IDMINT_EXPORT Result<ChosenWorker> choose_worker(
    const Worker& worker, const SnowflakeLayout& layout, Entropy& entropy,
    detail::HostFacts (*facts)() = detail::host_facts);

}  // namespace idmint
