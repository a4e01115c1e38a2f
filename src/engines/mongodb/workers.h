// The worker ids of a store of MongoDB. Each pool has a collection:
//
//   idmint.workers.POOL  {_id: WORKER, token: UUID or missing, holder, generation, minted_until,
//                         held_until: DATE, taken: {generation, from}, nonce: UUID, store: UUID},
//                         and
//                        {_id: "pool", name: POOL, workers, made}
//
// The document "pool" is created first: if two processes create a pool of different sizes, only one
// succeeds. Without `made` a row may be missing, and the pool counts as one that is not there. The
// clock is the primary's ($$NOW). `taken` is of the latest acquire or fence, `nonce` of the latest
// extension. Older programs neither write nor read these two: so `taken` counts only if its
// generation is that of the row. There is no index but that of _id: an extension is one update by
// its number, and touches none. (Pools of older versions have an index of minted_until, which may
// be dropped.)
#pragma once

#include <memory>

#include "engines/mongodb/database.h"
#include "ids/lease_table.h"

namespace idmint::stores::mongodb {

// Both must outlive it.
[[nodiscard]] std::shared_ptr<LeaseTable> workers_of(const Database& database,
                                                     DatabaseEngine& engine);

}  // namespace idmint::stores::mongodb
