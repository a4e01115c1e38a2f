// The values that were handed out for certain: those that commands of this host noted, and those in
// a field of MongoDB.
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

// Notes the last value of a sequence or a pool for doctor. `used_in`: "DATABASE.COLLECTION:FIELD",
// or empty. Formats are not noted, since they keep nothing in a store. Waits for no store: nothing
// is noted if that of the mint is not open.
void note_given(Mint& mint, std::string_view source, const Id& last,
                std::string_view used_in = {}) noexcept;
// The last values of the store that commands of this host noted. If the store is in doubt, those of
// its copies too: it may be a backup in the place of the original.
[[nodiscard]] std::vector<Seen> seen_of(const Store& store, bool in_doubt);
// "this host was given 1740 at 2026-11-23T03:28:11Z".
[[nodiscard]] std::string given_here(const Seen& seen);

// Raises the sequence past its values in the field, in the MongoDB of `url`.
[[nodiscard]] Result<Raised> raise_past_field(Mint& mint, const Definition& definition,
                                              std::string_view url, std::string_view collection,
                                              std::string_view field,
                                              std::chrono::milliseconds deadline,
                                              RaiseMode mode = RaiseMode::kCarryOut);

}  // namespace idmint::cli
