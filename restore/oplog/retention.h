// How long an oplog keeps its entries.
#pragma once

#include "restore/error_in.h"
#include "restore/oplog/live.h"
#include "restore/timestamp.h"

namespace idmint::restore {

struct OplogRetention {
  double bytes = 0;             // of all entries
  double most_bytes = 0;        // the size from which the oldest are removed
  double bytes_per_second = 0;  // of the newest few thousand entries
};

// kPermissionDenied: the user lacks the role clusterMonitor, which collStats on local needs.
[[nodiscard]] Result<OplogRetention> oplog_retention(Member& member, const OplogWindow& window);

// The time until the entry `at` is removed, assuming entries of equal size over time. Infinite:
// nothing is written. REQUIRES: window.first <= at.
[[nodiscard]] double seconds_left(const OplogRetention& room, const OplogWindow& window,
                                  Timestamp at);

}  // namespace idmint::restore
