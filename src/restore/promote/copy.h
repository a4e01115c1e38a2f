// The restored collections on production under other names: copied from the spare, and compared
// with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "idmint/result.h"
#include "restore/observer.h"
#include "restore/promote/record.h"
#include "restore/replay/state.h"
#include "restore/server.h"

namespace idmint::restore {

struct CopyCounts {
  std::uint64_t collections = 0;
  std::uint64_t documents = 0;  // by this run
};

// Makes NAME.restored-DATE of each item that is not in place; each refuses writers from the
// beginning. Ones that are whole are left. It waits for the slowest member that is up, so that the
// set stays together. `progress` is given bytes of documents. kUnavailable: a server is gone, or a
// member does not come along; the same call goes on.
[[nodiscard]] Result<CopyCounts> copy_collections(Server& spare, Server& production,
                                                  const PromoteState& state,
                                                  const TakeProgress& progress);

enum class WhichIndexes : bool { kAllButTtl, kTtl };
// The spare's, on the copies. A majority of the members is enough to build them.
[[nodiscard]] Result<void> index_copies(Server& spare, Server& production,
                                        const PromoteState& state, WhichIndexes which,
                                        const TakeProgress& progress);

// Documents and indexes of the copies against the spare's, without indexes that expire. `progress`
// is given documents.
[[nodiscard]] Result<std::vector<Difference>> compare_copies(Server& spare, Server& production,
                                                             const PromoteState& state,
                                                             const TakeProgress& progress);

// Waits until every member that is up has come as far as the primary was within the last seconds.
// Nothing to do for a server alone. kUnavailable: one has not moved for ten minutes.
[[nodiscard]] Result<void> await_members(Server& production, const TakeProgress& progress);

}  // namespace idmint::restore
