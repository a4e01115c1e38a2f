// Whether an oplog is of a sharded cluster, told by all of its entries together.
//
// No single flag tells it: fromMigrate marks what a migration of a chunk copies, and on any server
// what cloneCollectionAsCapped and convertToCapped copy. But a shard keeps books of the cluster in
// collections of its own, tells change streams of chunks by no-ops, and gets an identity when it is
// added. No other server writes these.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "restore/oplog/entry.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// Entries are given in the order of the oplog, those that no restore applies too. For one thread.
class ShardTraces {
 public:
  void add(const Entry& entry);

  // It has what only a shard or a config server writes.
  [[nodiscard]] bool sharded() const { return !traces_.empty(); }
  // Operations marked fromMigrate in collections whose creation as a capped one the oplog does not
  // have. Without sharded() most likely of a copy that began before the oplog does.
  [[nodiscard]] std::uint64_t migrated() const { return migrated_; }
  // "2 entries of config.cache.collections from 100:1 on, 1 entry of ...".
  [[nodiscard]] std::string in_words() const;

 private:
  struct Trace {
    std::uint64_t entries = 0;
    Timestamp first{};
  };
  void add(const Operation& operation, Timestamp at);

  std::map<std::string, Trace, std::less<>> traces_;  // by what it is
  std::set<std::string, std::less<>> capped_;         // made within the oplog
  std::uint64_t migrated_ = 0;
};

// How an oplog that is refused for them is told, with what to do.
[[nodiscard]] std::string of_sharded_cluster(const std::string& name, const ShardTraces& traces);

}  // namespace idmint::restore
