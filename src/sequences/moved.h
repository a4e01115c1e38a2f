// The move of a sequence to another store, as its definition records it: see Move, and
// docs/design/010-move.md.
#pragma once

#include <optional>

#include "idmint/definition.h"
#include "idmint/result.h"
#include "idmint/store.h"

namespace idmint {

// Null: it does not move, and was not moved.
[[nodiscard]] const Move* move_of(const Definition& definition) noexcept;

// The error of a call for values, or for a change, of a sequence that is moved. kGone:
// kFailedPrecondition, Remedy::kFollowMove. kLeaving, kArriving: kUnavailable, Remedy::kFinishMove,
// since the call can succeed when the move is done. `move` is that of the sequence.
[[nodiscard]] Error refuse_moved(const Store& store, const SequenceDefinition& moving,
                                 const Move& move);
// Whether a move from another store to this one is under way, or was cut off.
[[nodiscard]] bool is_arriving(const Definition& definition);
// Nothing: the definition is not one that is being moved, or was moved.
[[nodiscard]] std::optional<Error> moved_away(const Store& store, const Definition& definition);

// Closes the counters, and writes into the definition that the sequence goes to another store, or
// went there. kUnavailable: the definition is no longer `read`; nothing was written.
[[nodiscard]] Result<void> send_away(Store& store, const SequenceDefinition& read,
                                     const Move& move);

}  // namespace idmint
