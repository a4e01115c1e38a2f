// Records: what programs of this host were given from a store, for those that start later.
//
// A record (mint/seen.h) is read before anything is taken, into what the process itself remembers
// (ids/last_issued.h), with which every take is compared. While the process mints, its record is
// written by the first change that comes a second after the last writing, on a thread of
// shared_executor(), and when a handle of the store is closed; a daemon writes once a second.
// Nothing is synced. What a killed process was given since the last writing is not noted. A record
// that cannot be read or written never stops minting; doctor reports it.
#pragma once

#include <memory>

#include "idmint/result.h"
#include "idmint/store.h"
#include "mint/seen.h"

namespace idmint {

// Reads the record of the store, and keeps it from now on. Values that were noted before the store
// was settled last are void. The result is the same store, which notes what was given when it is
// closed. If the record has a later settle count than the store shows when something is taken, that
// is kDataLoss.
[[nodiscard]] std::shared_ptr<Store> with_record(std::shared_ptr<Store> store);

// Writes now what was given since the last time, and `printed`, the value that a command printed.
IDMINT_EXPORT void write_record(const Store& store, const Seen* printed = nullptr) noexcept;
// The same for every store of this process, after asking it for its settle count, for 0.2 s at
// most. For a daemon, on a thread that may wait.
IDMINT_EXPORT void write_all_records() noexcept;

}  // namespace idmint
