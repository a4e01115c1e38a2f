// Finds the later documents that an index of a restored collection will refuse, before anything is
// done.
#pragma once

#include <vector>

#include "restore/error_in.h"
#include "restore/observer.h"
#include "restore/promote/later.h"
#include "restore/promote/record.h"
#include "restore/server.h"

namespace idmint::restore {

// Merges the chosen versions on the spare, into an empty collection with the options and indexes of
// the restored one and with those of its documents that may stand in their way; marks those that
// are refused as lost. The collection is dropped again. Nothing is written to production. Errors:
// those of merge_into(), and:
// - kPermissionDenied: the user may not write to the spare.
[[nodiscard]] Result<void> try_merge(const std::vector<PromoteItem>& items, LaterWrites& later,
                                     Server& spare, Server& production,
                                     const TakeProgress& progress);

}  // namespace idmint::restore
