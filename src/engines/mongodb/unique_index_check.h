// Whether a collection rejects repeated values of a field, judged from the servers' descriptions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mongo/bson.h"

namespace idmint::stores::mongodb {

enum class IndexState : std::uint8_t {
  kUnique,   // it has a unique index on exactly the field, over all documents
  kMissing,  // it has none, but can
  kProxy,    // it can have none: it is sharded by something else, or a time series
};

struct UniqueIndexCheck {
  IndexState guard;
  std::string why{};  // unless kUnique: the reason, for a message
};

// `indexes` is the reply to listIndexes; empty: the collection does not exist. `sharding` is the
// reply to a find of the collection in config.collections; null: not a sharded cluster.
[[nodiscard]] UniqueIndexCheck judge(std::string_view field, const Bson& indexes,
                                     const Bson* sharding);

[[nodiscard]] bool is_there(const Bson& indexes);
// Whether an index begins with the field, so that a look-up does not scan the whole collection.
[[nodiscard]] bool can_look_up(const char* field, const Bson& indexes);

}  // namespace idmint::stores::mongodb
