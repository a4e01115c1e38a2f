// How long an oplog still holds what it holds.
#pragma once

#include "idmint/result.h"
#include "restore/oplog/live.h"
#include "restore/timestamp.h"

namespace idmint::restore {

struct OplogRoom {
  double bytes = 0;             // of its entries
  double most_bytes = 0;        // before the oldest make way
  double bytes_per_second = 0;  // at present: of the newest few thousand entries
};

// kPermissionDenied: collStats on local needs the role clusterMonitor.
[[nodiscard]] Result<OplogRoom> oplog_room(Member& member, const OplogWindow& window);

// Until the entry `at` makes way, as though entries before it were as large as the others.
// Infinite: nothing is written. REQUIRES: window.first <= at.
[[nodiscard]] double seconds_left(const OplogRoom& room, const OplogWindow& window, Timestamp at);

}  // namespace idmint::restore
