// Raises the counters of production in place: idmint's in the collections idmint.*, and the counter
// documents of programs.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "restore/error_in.h"
#include "restore/fence/fence.h"
#include "restore/observer.h"
#include "restore/promote/plan.h"
#include "restore/promote/record.h"
#include "restore/server.h"

namespace idmint::restore {

// Stops every advance of idmint's own counters in the databases of the promotion, and marks those
// that were open. Adopted counters are in collections whose writers are blocked.
[[nodiscard]] Result<void> close_counters(Server& production, const PromoteState& state);
// Opens the marked counters, except those of sequences that were retired meanwhile.
[[nodiscard]] Result<void> open_counters(Server& production, const PromoteState& state);

// Raises every counter of production past the spare's value, past everything in production's oplog
// from the limit on, and past live values. Creates counters, definitions, claims and rows of pools
// that production lacks from the spare's, closed. Lowers no value; a repeated call raises further.
// `options` has the URIs and the oplog; the state says what counts and whether gaps are allowed.
// `spare` is null in an undo, which has nothing to add. kFailedPrecondition: the fence refuses
// sources; the message has the first.
// REQUIRES: writers are blocked.
[[nodiscard]] Result<FenceReport> raise_counters(Server* spare, Server& production,
                                                 const PromoteState& state,
                                                 const PromoteOptions& options,
                                                 const TakeProgress& progress);

// The actions of a fence on production now. Writes nothing.
[[nodiscard]] Result<FenceReport> preview_fence(const PromoteOptions& options,
                                                const PromoteState& state,
                                                const TakeProgress& progress);

// The databases whose store of idmint production lacks in part, or where one of its counters is
// below the spare's: a store never goes back by itself.
[[nodiscard]] Result<std::set<std::string>> stores_set_back(Server& spare, Server& production);

// Sequences and pools that the spare has and production lacks, or lacks a counter of, such as
// "shop/orders". They are created before the fence.
[[nodiscard]] Result<std::set<std::string>> sources_to_make(Server& spare, Server& production,
                                                            const PromoteState& state);

// Lost numbers of gapless sequences whose documents are in collections that are set back:
// "shop/invoices: its numbers 120 to 133 ...".
[[nodiscard]] Result<std::vector<std::string>> lost_numbers(Server& spare, Server& production,
                                                            const PromoteState& state);

}  // namespace idmint::restore
