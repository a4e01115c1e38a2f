// Checks whether the slice of a base backup can be replayed over that backup.
#pragma once

#include <set>
#include <vector>

#include "idmint/result.h"
#include "restore/oplog/entry.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// Takes entries in the order of the oplog. For one thread.
class SliceCheck {
 public:
  // `listed`: when the backup's collections, which were read by UUID, were listed. Later renames
  // are replayed like any command. A rename that is the first entry came before the listing, and is
  // ignored.
  explicit SliceCheck(Timestamp listed = {}) : listed_(listed) {}

  // Examines the elements of an applyOps too. Does not ask whether the set is a shard; the set
  // itself is asked. Errors:
  // - kUnavailable: an operation prevents a backup at this time; the next attempt may succeed. A
  //   collection was renamed before it was listed, or the version of the server's data changed.
  // - kDataLoss: an applyOps has no operations.
  [[nodiscard]] Result<void> add(const Entry& entry);

  // Earlier entries of transactions, before the first entry of the slice. Without them and their
  // own predecessors the transactions are lost.
  [[nodiscard]] std::vector<Timestamp> missing() const {
    return {missing_.begin(), missing_.end()};
  }

 private:
  Timestamp listed_;
  Timestamp first_{};
  std::set<Timestamp> missing_;
};

}  // namespace idmint::restore
