// The oplog of the time that a base backup takes: whether it can be replayed over that backup.
#pragma once

#include <set>
#include <vector>

#include "idmint/result.h"
#include "restore/oplog/entry.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// Entries are given in the order of the oplog. For one thread.
class SliceCheck {
 public:
  // `listed`: when the collections were listed that the backup has, and that were read by their
  // UUIDs. A rename after it is replayed as any command. One that is the first entry came before
  // the listing, and is passed over.
  explicit SliceCheck(Timestamp listed = {}) : listed_(listed) {}

  // kUnavailable: what happened forbids a backup of that time, and the next one may succeed: a
  // collection was renamed before it was listed, the version of the server's data was changed.
  // kDataLoss: an applyOps has no operations. Whether the set is a shard is not asked
  // here, but of the set. What is within an applyOps counts too.
  [[nodiscard]] Result<void> add(const Entry& entry);

  // What the entries of transactions come after, where that is before the first entry: without it,
  // and what that comes after, the transaction is lost.
  [[nodiscard]] std::vector<Timestamp> missing() const {
    return {missing_.begin(), missing_.end()};
  }

 private:
  Timestamp listed_;
  Timestamp first_{};
  std::set<Timestamp> missing_;
};

}  // namespace idmint::restore
