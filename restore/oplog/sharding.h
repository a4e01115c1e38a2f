// Tells from all entries of an oplog whether it is of a sharded cluster.
//
// No single flag tells it. fromMigrate marks the copies of a chunk migration but, on any server,
// also those of cloneCollectionAsCapped and convertToCapped. But a shard writes the cluster's state
// into collections of its own, writes no-ops about chunks for change streams, and gets an identity
// when it is added. No other server does that.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "restore/oplog/entry.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// Takes entries in the order of the oplog, including those that no restore applies. For one thread.
class ShardTraces {
 public:
  void add(const Entry& entry);

  // Whether there are entries that only a shard or a config server writes.
  [[nodiscard]] bool sharded() const { return !traces_.empty(); }
  // Operations with fromMigrate in collections that the oplog does not create as capped ones. If
  // not sharded(), they are most likely of a copy that began before the oplog.
  [[nodiscard]] std::uint64_t migrated() const { return migrated_; }
  // "2 entries of config.cache.collections from 100:1 on, 1 entry of ...".
  [[nodiscard]] std::string in_words() const;

 private:
  struct Trace {
    std::uint64_t entries = 0;
    Timestamp first{};
  };
  void add(const Operation& operation, Timestamp at);

  std::map<std::string, Trace, std::less<>> traces_;  // by kind
  std::set<std::string, std::less<>> capped_;         // created in the oplog
  std::uint64_t migrated_ = 0;
};

// The message that refuses such an oplog, with advice.
[[nodiscard]] std::string of_sharded_cluster(const std::string& name, const ShardTraces& traces);

}  // namespace idmint::restore
