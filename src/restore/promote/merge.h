// Later writes of production that the mistake did not touch, taken over into the restored
// collections before these get their names.
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

// Notes on production which documents are to be taken over, as its oplog may have rolled over when
// their collections are loaded. Replaces what was noted before.
[[nodiscard]] Result<void> note_later(Server& production, const PromoteState& state,
                                      const LaterWrites& later);

// Takes over what was noted: the document as production has it, or that it has none. The writers of
// both collections are blocked, so that again gives the same. `progress` is given documents.
[[nodiscard]] Result<MergeCounts> merge_later(Server& production, const PromoteState& state,
                                              const TakeProgress& progress);

}  // namespace idmint::restore
