// What belongs together among the suspects of a whole oplog.
#pragma once

#include <vector>

#include "restore/find/answer.h"
#include "restore/find/suspects.h"

namespace idmint::restore {

// At the end, once. Moves what followed from a suspect into its effects, so that the limit before
// the cause comes first; takes what is routine out, into what is returned; and says of the others
// what a restore up to their limits leaves out.
[[nodiscard]] std::vector<Routine> link(Suspects& suspects, Timestamp oplog_first,
                                        Timestamp oplog_last);

}  // namespace idmint::restore
