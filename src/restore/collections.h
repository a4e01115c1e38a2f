// The collections of a server, as listDatabases, listCollections and listIndexes tell of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"
#include "mongo/bson.h"
#include "restore/server.h"

namespace idmint::restore {

enum class CollectionKind : std::uint8_t { kCollection, kView, kTimeSeries };
// "collection", "view", "timeseries": as the server has it.
[[nodiscard]] std::string_view name(CollectionKind kind) noexcept;
[[nodiscard]] std::optional<CollectionKind> kind_named(std::string_view name) noexcept;

// What the metadata says of one.
struct CollectionFacts {
  std::string database;
  std::string name;  // of a time-series collection: X, while its documents are system.buckets.X's
  CollectionKind kind = CollectionKind::kCollection;
  std::string uuid{};           // 32 hex digits; empty: none
  Bson options{};               // of create
  std::vector<Bson> indexes{};  // as listIndexes gives them, _id_ too; none of a view
  // Of its documents in the backup, compressed or not; 0: none, or not known, as in archives.
  std::uint64_t bytes = 0;

  [[nodiscard]] std::string ns() const { return database + "." + name; }
};

// What a server is asked, and what its answers say. It names every database, or fails where the
// user may not see all.
[[nodiscard]] Bson listing_of_databases();
[[nodiscard]] std::vector<std::string> databases_in(Document reply);  // sorted
[[nodiscard]] Bson listing_of_collections();
[[nodiscard]] CollectionFacts facts_of(const std::string& database, Document row);  // no indexes

[[nodiscard]] Result<std::vector<std::string>> list_databases(Server& server);
// By database and name. Without is_own_database(), system.views and system.profile;
// system.buckets.X of a time-series collection is there beside X.
[[nodiscard]] Result<std::vector<CollectionFacts>> list_collections(Server& server);
// With those two, without indexes, and in no order.
[[nodiscard]] Result<std::vector<CollectionFacts>> list_namespaces(Server& server);

}  // namespace idmint::restore
