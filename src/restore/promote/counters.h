// Counters of production, raised where they are: idmint's in the collections idmint.*, and those
// that programs count in by hand.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"
#include "restore/fence/fence.h"
#include "restore/observer.h"
#include "restore/promote/plan.h"
#include "restore/promote/record.h"
#include "restore/server.h"

namespace idmint::restore {

// Ends every advance of idmint's own counters in the databases of the promotion, and marks those
// that were open. Adopted ones are in collections that refuse writers.
[[nodiscard]] Result<void> close_counters(Server& production, const PromoteState& state);
// Opens those that it marked, but for those of sequences that were retired meanwhile.
[[nodiscard]] Result<void> open_counters(Server& production, const PromoteState& state);

// Brings every counter of production past the spare's value, past all that production's oplog has
// from the limit on, and past what is live. Counters, definitions, claims and rows of pools that
// production lacks are made from the spare's, closed. No value goes down, and again raises further.
// `options`: URIs and oplog; what counts and whether a gap may be left is in the state.
// `spare`: null in an undo, which has nothing to add. Sources that the fence refuses:
// kFailedPrecondition, with the first of them.
// REQUIRES: writers are blocked.
[[nodiscard]] Result<FenceReport> raise_counters(Server* spare, Server& production,
                                                 const PromoteState& state,
                                                 const PromoteOptions& options,
                                                 const TakeProgress& progress);

// What a fence on production would do now. Writes nothing.
[[nodiscard]] Result<FenceReport> preview_fence(const PromoteOptions& options,
                                                const PromoteState& state,
                                                const TakeProgress& progress);

// "shop/orders": sequences with counters that production lacks and the spare has. They are made
// again, before the fence is drawn.
[[nodiscard]] Result<std::set<std::string>> sources_to_make(Server& spare, Server& production,
                                                            const PromoteState& state);

// "shop/invoices: its numbers 120 to 133 ...": of gapless sequences whose documents are in
// collections that are set back.
[[nodiscard]] Result<std::vector<std::string>> lost_numbers(Server& spare, Server& production,
                                                            const PromoteState& state);

}  // namespace idmint::restore
