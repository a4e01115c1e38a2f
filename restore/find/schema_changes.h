// Commands that change a collection's behaviour: dropped indexes, earlier expiry, options.
#pragma once

#include <cstdint>
#include <string>

#include "restore/find/bounded_table.h"
#include "restore/find/suspects.h"
#include "restore/oplog/entry.h"

namespace idmint::restore {

class SchemaChanges {
 public:
  explicit SchemaChanges(Suspects& suspects) : suspects_(suspects) {}

  // Any command. `wanted`: the filter accepts it, and it is in the span.
  void command(const Operation& operation, const Place& place, bool wanted);
  // At the end: notes whether a dropped index was built again, or whether that failed.
  void weigh(Suspect& suspect) const;

 private:
  enum class Fate : std::uint8_t { kNone, kBuilt, kFailed };
  struct Index {
    Timestamp at{};
    Fate fate = Fate::kNone;
  };

  void dropped_index(const Operation& command, const Place& place);
  void modified(const Operation& command, const Place& place);
  void built(const Operation& command, Document spec, const Place& place, bool wanted);
  void expires(const Operation& command, const Place& place, std::string why, double score);

  Suspects& suspects_;
  // The latest builds, by a hash of the namespace, and by one of the namespace and the index name.
  BoundedTable<Index> built_{std::size_t{1} << 12};
};

}  // namespace idmint::restore
