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

// Stores on production which documents to merge, and from where, because its oplog may have rolled
// over by the time the collections are loaded; and of which ones the spare's are kept. Replaces an
// earlier note. REQUIRES: choose_versions().
[[nodiscard]] Result<void> note_later(Server& production, const PromoteState& state,
                                      const LaterWrites& later);

// Merges the noted documents: copies the version that was chosen, or deletes the document if it is
// deleted there. Writers of both collections are blocked, so a repeated call gives the same result.
// `progress` gets documents. kFailedPrecondition: a collection that has such a version was dropped
// meanwhile.
[[nodiscard]] Result<MergeCounts> merge_later(Server& production, const PromoteState& state,
                                              const TakeProgress& progress);

// Deletes from the promoted collections what programs have deleted from the old ones since the
// note, as a validator stops no deletes. Documents that were kept as the spare's stay. Returns the
// number of documents deleted. REQUIRES: the collections have their names. kOutOfRange:
// production's oplog does not reach back to the note.
[[nodiscard]] Result<std::uint64_t> merge_deletes(Server& production, const PromoteState& state,
                                                  const std::string& oplog);

}  // namespace idmint::restore
