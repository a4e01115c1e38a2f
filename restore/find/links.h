// Relations between the suspects of a whole oplog.
#pragma once

#include <vector>

#include "restore/find/answer.h"
#include "restore/find/suspects.h"

namespace idmint::restore {

// At the end, once. Moves consequences of a suspect into its effects, so that the limit before the
// cause comes first. Moves routine events from the suspects to the result. Computes for the other
// suspects the losses of a restore up to their limits.
[[nodiscard]] std::vector<Routine> link(Suspects& suspects, Timestamp oplog_first,
                                        Timestamp oplog_last);

}  // namespace idmint::restore
