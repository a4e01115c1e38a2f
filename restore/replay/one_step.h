// How a document is written that no atomic applyOps writes as it is: it is deleted and inserted.
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

// What the write counts as, where the document was there before or not. Counts::missed: it must not
// be done.
[[nodiscard]] std::int64_t Counts::* count_in_one_step(const Operation& write, bool present);
// What it did where the oplog does not say; null: what it says.
[[nodiscard]] std::int64_t Outcome::* outcome_in_one_step(const Operation& write, bool present);

}  // namespace idmint::restore
