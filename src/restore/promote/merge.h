// Merges later writes of production that the mistake did not touch into the restored collections,
// before these get their names.
#pragma once

#include <string>
#include <vector>

#include "idmint/result.h"
#include "restore/observer.h"
#include "restore/promote/later.h"
#include "restore/promote/promote.h"
#include "restore/promote/record.h"
#include "restore/server.h"

namespace idmint::restore {

// Stores on production which documents to merge, because its oplog may have rolled over by the time
// the collections are loaded. Replaces an earlier note.
[[nodiscard]] Result<void> note_later(Server& production, const PromoteState& state,
                                      const LaterWrites& later);

// Merges the noted documents: copies the document from production, or deletes it if production has
// none. Writers of both collections are blocked, so a repeated call gives the same result.
// `progress` gets documents.
[[nodiscard]] Result<MergeCounts> merge_later(Server& production, const PromoteState& state,
                                              const TakeProgress& progress);

}  // namespace idmint::restore
