// Copies restored collections from the spare to production under other names, and compares them.
#pragma once

#include <cstdint>
#include <vector>

#include "restore/error_in.h"
#include "restore/observer.h"
#include "restore/promote/plan.h"
#include "restore/promote/record.h"
#include "restore/replay/state.h"
#include "restore/server.h"

namespace idmint::restore {

// The collections that production refuses to copy, by options or indexes: creates each copy empty,
// with its indexes, and drops it.
[[nodiscard]] Result<std::vector<PlannedRefusal>> try_copies(Server& spare, Server& production,
                                                             const PromoteState& state);

struct CopyCounts {
  std::uint64_t collections = 0;
  std::uint64_t documents = 0;  // copied by this run
};

// Creates NAME.restored-DATE for each item that is not in place, and blocks its writers from the
// beginning. Skips copies that are complete. Waits for the slowest running member, so that the set
// stays together. `progress` gets bytes of documents. kUnavailable: a server is gone, or a member
// does not keep up; the same call continues.
[[nodiscard]] Result<CopyCounts> copy_collections(Server& spare, Server& production,
                                                  const PromoteState& state,
                                                  const TakeProgress& progress);

enum class WhichIndexes : bool { kAllButTtl, kTtl };
// Builds the spare's indexes on the copies. It is enough that a majority of the members builds
// them.
[[nodiscard]] Result<void> index_copies(Server& spare, Server& production,
                                        const PromoteState& state, WhichIndexes which,
                                        const TakeProgress& progress);

// Compares documents and indexes of the copies with the spare's, without TTL indexes. `progress`
// gets documents.
[[nodiscard]] Result<std::vector<Difference>> compare_copies(Server& spare, Server& production,
                                                             const PromoteState& state,
                                                             const TakeProgress& progress);

// Waits until every running member has come to within a few seconds of the primary's present state.
// Does nothing for a standalone. kUnavailable: a member has made no progress for ten minutes.
[[nodiscard]] Result<void> await_members(Server& production, const TakeProgress& progress);

}  // namespace idmint::restore
