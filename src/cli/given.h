// The values that were handed out for certain: those that commands of this host noted, and those in
// a field of MongoDB.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/id.h"
#include "idmint/mint.h"
#include "idmint/result.h"
#include "idmint/store.h"
#include "mint/seen.h"

namespace idmint::cli {

// Writes the record of the store (mint/records.h) with the last value of a sequence or a pool.
// `used_in`: "DATABASE.COLLECTION:FIELD", or empty. Formats are not noted, since they keep nothing
// in a store. Waits for no store: nothing is noted if that of the mint is not open.
void note_given(Mint& mint, std::string_view source, const Id& last,
                std::string_view used_in = {}) noexcept;
// The last values of the store that programs of this host noted, each with the name of its sequence
// or pool: values of permuted sequences, and ids of pools. Of counters, stripes and worker ids of
// one source the 16 latest. If the store is in doubt, those of its copies too: it may be a backup
// in the place of the original.
[[nodiscard]] std::vector<Seen> seen_of(Store& store, bool in_doubt);
// "this host was given 1740 at 2026-11-23T03:28:11Z". Of a pool an id that it may have been given.
[[nodiscard]] std::string given_here(const Seen& seen);

// The error of a source that is not there, with the last value that this host was given of it.
[[nodiscard]] Error with_given_before(Error error, Mint& mint, std::string_view source);

// Raises the sequence past its values in the field, in the MongoDB of `url`.
[[nodiscard]] Result<Raised> raise_past_field(Mint& mint, const Definition& definition,
                                              std::string_view url, std::string_view collection,
                                              std::string_view field,
                                              std::chrono::milliseconds deadline,
                                              RaiseMode mode = RaiseMode::kCarryOut);

}  // namespace idmint::cli
