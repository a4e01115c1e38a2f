// Whether a collection lets no value of a field in twice: read from what the servers say of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mongo/bson.h"

namespace idmint::stores::mongodb {

enum class Guard : std::uint8_t {
  kUnique,   // it has a unique index on exactly the field, over all documents
  kMissing,  // it can have one
  kProxy,    // it can have none: it is sharded by something else, or a time series
};

struct Judgement {
  Guard guard;
  std::string why{};  // but for kUnique: what there is instead, for a message
};

// `indexes`: the reply to listIndexes; empty: there is no such collection. `sharding`: the reply to
// a find of the collection in config.collections; null: the servers are no sharded cluster.
[[nodiscard]] Judgement judge(std::string_view field, const Bson& indexes, const Bson* sharding);

[[nodiscard]] bool is_there(const Bson& indexes);
// Whether an index begins with the field, so that a look-up need not read the whole collection.
[[nodiscard]] bool can_look_up(const char* field, const Bson& indexes);

}  // namespace idmint::stores::mongodb
