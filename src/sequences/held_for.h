// The remaining lease times of a pool's worker ids, and the default holder.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "ids/lease_table.h"

namespace idmint {

// The time until the first lease expires, by the store's clock, if its owner does not renew it. 0:
// a worker id is free now. Nothing: the store did not answer.
[[nodiscard]] std::optional<std::chrono::milliseconds> held_for(LeaseTable& leases,
                                                                std::string_view pool);

// The default holder of the worker ids of this process: "HOST, process N".
[[nodiscard]] IDMINT_EXPORT std::string this_process();

}  // namespace idmint
