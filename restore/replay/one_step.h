// Deletes and inserts a document that no atomic applyOps writes as it is.
// See needs_one_step().
#pragma once

#include <cstdint>

#include "restore/error_in.h"
#include "restore/oplog/entry.h"
#include "restore/replay/apply_ops.h"
#include "restore/replay/chain.h"
#include "restore/replay/outcomes.h"
#include "restore/server.h"

namespace idmint::restore {

// Whether the document of the insert or update is there.
[[nodiscard]] Result<bool> has_document(Server& server, const Operation& write);
// Writes it, over one that is there or not. Can be repeated.
[[nodiscard]] Answer write_in_one_step(Server& server, const Operation& write);

// The count to which the write adds, by whether the document was there before. Counts::missed: it
// must not be done.
[[nodiscard]] std::int64_t Counts::* count_in_one_step(const Operation& write, bool present);
// The outcome that the oplog does not tell; null: it tells it.
[[nodiscard]] std::int64_t Outcome::* outcome_in_one_step(const Operation& write, bool present);

}  // namespace idmint::restore
