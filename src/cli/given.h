// The values that are known to have been given: those that commands of this host noted, and those
// that a field in MongoDB holds.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/id.h"
#include "idmint/mint.h"
#include "idmint/result.h"
#include "idmint/store.h"
#include "mint/seen.h"

namespace idmint::cli {

// Leaves behind what a sequence or a pool gave last, for doctor; `used_in`:
// "DATABASE.COLLECTION:FIELD", or empty. A format keeps nothing in a store: nothing is noted.
void note_given(Mint& mint, std::string_view source, const Id& last,
                std::string_view used_in = {}) noexcept;
// What commands of this host saw last of the store. If the store is in doubt, also what they saw of
// its copies: it may be a backup in the place of the one that gave the values.
[[nodiscard]] std::vector<Seen> seen_of(const Store& store, bool in_doubt);
// "this host was given 1740 at 2026-11-23T03:28:11Z".
[[nodiscard]] std::string given_here(const Seen& seen);

// Raises the sequence past those of its values that are in the field, in the MongoDB of `url`.
[[nodiscard]] Result<Raised> raise_past_field(Mint& mint, const Definition& definition,
                                              std::string_view url, std::string_view collection,
                                              std::string_view field,
                                              std::chrono::milliseconds deadline,
                                              RaiseMode mode = RaiseMode::kCarryOut);

}  // namespace idmint::cli
