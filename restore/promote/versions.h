// Which version of each later document a promotion takes. After promotions that were undone or
// finished, production may have several: of the collection that had the name at first, and of each
// that a promotion put in its place.
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

// The documents with writes that of all collections on production only the one with this UUID has.
// By id_key(). Where that is unknown of a document, has it. nullopt: it came from no promotion of
// which `later` has the record, so what it has is unknown.
[[nodiscard]] Result<std::optional<std::vector<std::string>>> find_only_copies(
    LaterWrites& later, const LaterSearch& search, const std::string& ns, std::string_view uuid,
    Server& production);

}  // namespace idmint::restore
