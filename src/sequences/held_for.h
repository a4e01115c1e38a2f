// How long the worker ids of a pool are held, and by whom.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "ids/lease_table.h"

namespace idmint {

// For how long the first worker id to become free is held, by the store's clock, if its owner does
// not renew it; 0: one is free now. Nothing: the store did not answer.
[[nodiscard]] std::optional<std::chrono::milliseconds> held_for(LeaseTable& leases,
                                                                std::string_view pool);

// Who holds the worker ids that this process leases, if nothing else was given: "HOST, process N".
[[nodiscard]] IDMINT_EXPORT std::string this_process();

}  // namespace idmint
