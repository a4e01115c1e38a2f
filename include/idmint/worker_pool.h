// Worker pools: hosts without a worker id of their own lease one from a store. The catalog of the
// store has the pool and the layout of its ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/result.h"
#include "idmint/sequence.h"
#include "idmint/snowflake.h"
#include "idmint/store.h"

namespace idmint {

// Creates the worker ids first and writes the definition last, so a repeated call completes an
// interrupted one. If `workers` is 0, an existing pool keeps its number, and a new one gets the
// number of the layout, at most kUsualWorkers. Errors:
// - kFailedPrecondition: another definition is there (the message names the difference; the same
//   one is fine), or the name is retired.
// - kUnimplemented: the store leases no worker ids.
[[nodiscard]] IDMINT_EXPORT Result<Changed> create_pool(Store& store, const PoolDefinition& pool,
                                                        const CreateOptions& options = {});

// ---- the worker ids, for operators; generators lease them without these calls

// Sorted by worker id. Errors, here and below:
// - kFailedPrecondition: not a pool, or retired.
// - kDataLoss: its worker ids are gone.
[[nodiscard]] IDMINT_EXPORT Result<std::vector<LeaseState>> list_workers(Store& store,
                                                                         std::string_view name);

// Takes the worker id from its owner and returns the lease as it was. A nil token: it had no owner,
// and nothing changed. The former owner may still mint below the bound that it was granted; the
// next owner's ids begin there. More errors:
// - kInvalidArgument: no such worker id.
// - kFailedPrecondition: another process took or released it at the same time.
[[nodiscard]] IDMINT_EXPORT Result<LeaseState> release_worker(Store& store, std::string_view name,
                                                              std::int64_t worker);

// Makes a restored pool safe to use; nobody may mint meanwhile. Afterwards nobody owns a worker id,
// and no id of the unit of `past` or of an earlier unit comes any more. Returns the unit after the
// unit of `past`. Recreates the worker ids if all are gone. `past` must cover every bound that was
// ever granted, which may be a window and max_drift later than the time at which the last generator
// stopped. kOutOfRange: `past` is not a time of the layout.
[[nodiscard]] IDMINT_EXPORT Result<std::int64_t> raise_pool(Store& store, std::string_view name,
                                                            Instant past);

// The instant at which a layout's time reaches `units`; nothing if it is later than the year 2262.
[[nodiscard]] IDMINT_EXPORT std::optional<Instant> time_of(const SnowflakeLayout& layout,
                                                           std::int64_t units) noexcept;

}  // namespace idmint
