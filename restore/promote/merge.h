// Merges later writes of production that the mistake did not touch into the restored collections,
// before these get their names.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "restore/error_in.h"
#include "restore/observer.h"
#include "restore/promote/later.h"
#include "restore/promote/record.h"
#include "restore/server.h"

namespace idmint::restore {

// Documents of one collection that are treated alike.
struct MergeBatch {
  std::string ns{};
  std::string from{};       // the collection that has their versions; empty: the spare's are kept
  std::string uuid{};       // of `from`
  bool gone = false;        // deleted there
  std::vector<Bson> ids{};  // {_id: ID}
};
// The batches for a collection. REQUIRES: choose_versions().
[[nodiscard]] std::vector<MergeBatch> batches_of(const std::string& ns,
                                                 const LaterCollection& collection);

// A document that the collection refuses.
struct MergeRefusal {
  Bson id = Bson::none();  // {_id: ID}
  std::string why{};
};
struct Merged {
  std::uint64_t documents = 0;  // including deletes
  std::vector<MergeRefusal> refused{};
};

// Puts the versions that the batches name into the collection `copy` of `into`, in the place of its
// own documents, which are deleted first: two versions may have exchanged a unique value. If one is
// refused, the spare's document is put back. A repeated call gives the same result. `progress`
// gets documents. kFailedPrecondition: a collection that has such a version was dropped meanwhile.
[[nodiscard]] Result<Merged> merge_into(Server& into, const std::string& copy,
                                        const std::vector<MergeBatch>& batches, Server& spare,
                                        Server& production, const TakeProgress& progress);

// Stores on production which documents the plan of this promotion names as lost, and why: a run
// that goes on after a kill has no plan.
[[nodiscard]] Result<void> note_planned(Server& production, const std::string& id,
                                        const LaterWrites& later);

// The reasons, by namespace and id_key(). Empty: none is noted.
using PlannedLosses =
    std::map<std::string, std::map<std::string, std::string, std::less<>>, std::less<>>;
[[nodiscard]] Result<PlannedLosses> planned_losses(Server& production, const std::string& id);

// Stores on production which documents to merge, and from where, because its oplog may have rolled
// over by the time the collections are loaded; and of which ones the spare's are kept. Replaces an
// earlier note. REQUIRES: choose_versions().
[[nodiscard]] Result<void> note_later(Server& production, const PromoteState& state,
                                      const LaterWrites& later);

// Merges the noted documents into the copies. Writers are blocked, so a repeated call gives the
// same result. Items keep which ones are refused. Errors and `progress` as merge_into().
// Returns how many documents it merged, including deletes.
[[nodiscard]] Result<std::uint64_t> merge_later(Server& spare, Server& production,
                                                PromoteState& state, const TakeProgress& progress);

// Deletes from the promoted collections what programs have deleted from the old ones since the
// note, as a validator stops no deletes. Documents that were kept as the spare's stay, and the
// items note which. REQUIRES: the collections have their names. kOutOfRange: production's oplog
// does not reach back to the note, and what was deleted is unknown.
struct MergedDeletes {
  std::uint64_t done = 0;
  std::uint64_t left = 0;  // of documents that were kept as the spare's
};
[[nodiscard]] Result<MergedDeletes> merge_deletes(Server& production, PromoteState& state,
                                                  const std::string& oplog);

}  // namespace idmint::restore
