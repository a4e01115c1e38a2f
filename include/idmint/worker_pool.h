// Worker pools: Snowflake ids of hosts that have no worker ids of their own, but lease them from a
// store. A pool is in its catalog, with the layout of its ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/result.h"
#include "idmint/snowflake.h"
#include "idmint/store.h"

namespace idmint {

// Makes the worker ids first and writes the definition last, so a call that was cut off is finished
// by the next. Again with the same definition is fine; with another one it is kFailedPrecondition,
// naming the difference, as it is on a retired name. Where no number of workers is given they are
// kUsualWorkers, or as many as the layout has, or those that are there. kUnimplemented: the store
// leases no worker ids.
[[nodiscard]] IDMINT_EXPORT Result<void> create_pool(Store& store, const PoolDefinition& pool);

// ---- the worker ids, for people; who mints takes them by itself

// By worker id. Here and below: kFailedPrecondition: no pool, or retired. kDataLoss: its worker ids
// are gone.
[[nodiscard]] IDMINT_EXPORT Result<std::vector<LeaseState>> list_workers(Store& store,
                                                                         std::string_view name);

// Takes the worker id from its owner, and returns who that was: with a nil token nobody was, and
// nothing changed. The owner may mint on below the bound that it was granted; ids of the next one
// begin there. kInvalidArgument: no such worker id. kFailedPrecondition, too: another took or
// released it at the same time.
[[nodiscard]] IDMINT_EXPORT Result<LeaseState> release_worker(Store& store, std::string_view name,
                                                              std::int64_t worker);

// The fence of a restore, with nobody minting: afterwards no id of the unit of `past` or an earlier
// one comes any more, and nobody owns a worker id. Returns the unit after that one. Worker ids that
// are gone are made anew. `past`: every bound that was ever granted, which may lie a window and
// max_drift past the time when the last one stopped. kOutOfRange: it is not a time of the layout.
[[nodiscard]] IDMINT_EXPORT Result<std::int64_t> raise_pool(Store& store, std::string_view name,
                                                            Instant past);

// The instant at which the units of a layout have come to `units`; nothing past the year 2262.
[[nodiscard]] IDMINT_EXPORT std::optional<Instant> time_of(const SnowflakeLayout& layout,
                                                           std::int64_t units) noexcept;

}  // namespace idmint
