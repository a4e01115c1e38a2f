// Chooses the version of each later document that a promotion takes. After promotions that were
// undone or finished, production may have several: that of the collection that had the name at
// first, and that of each collection that a promotion put in its place.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "restore/error_in.h"
#include "restore/promote/later.h"
#include "restore/server.h"

namespace idmint::restore {

// Chooses for each document the version with the latest write that the mistake did not touch, of
// the collections that production still has; and notes as lost what that version lacks. `merge`:
// whether later writes are merged; otherwise all of them are lost. Reads the _ids of the spare
// where a collection was made anew. Errors: those of the servers.
[[nodiscard]] Result<void> choose_versions(LaterWrites& later, const LaterSearch& search,
                                           bool merge, Server& spare, Server& production);

// The documents, by id_key(), with writes that only the collection with this UUID has, of all on
// production. Includes documents of which that is unknown. nullopt: `later` has no record of a
// promotion from which the collection came, so its contents are unknown.
[[nodiscard]] Result<std::optional<std::vector<std::string>>> find_only_copies(
    LaterWrites& later, const LaterSearch& search, const std::string& ns, std::string_view uuid,
    Server& production);

}  // namespace idmint::restore
