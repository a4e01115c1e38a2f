// Whether a server accepts the specifications of indexes, tried before the documents are there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mongo/bson.h"
#include "restore/error_in.h"
#include "restore/replay/index_catalog.h"
#include "restore/server.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// Indexes that one collection is to have at the same time.
struct IndexTrial {
  std::string ns;
  std::shared_ptr<const Bson> options;  // of the collection, as for create; null: none
  std::vector<Document> specs;
  Timestamp built{};  // as in RefusedIndex
};

// The indexes that the server refuses: servers allowed more once. Each is created on an empty
// collection of the record's database, which has the options of its own and is dropped again.
[[nodiscard]] Result<std::vector<RefusedIndex>> refused_indexes(
    Server& server, const std::vector<IndexTrial>& trials);

}  // namespace idmint::restore
