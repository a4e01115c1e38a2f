// The collections of a server, as reported by listDatabases, listCollections and listIndexes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mongo/bson.h"
#include "restore/error_in.h"
#include "restore/server.h"

namespace idmint::restore {

enum class CollectionKind : std::uint8_t { kCollection, kView, kTimeSeries };
// The server's names: "collection", "view", "timeseries".
[[nodiscard]] std::string_view name(CollectionKind kind) noexcept;
[[nodiscard]] std::optional<CollectionKind> kind_named(std::string_view name) noexcept;

// The metadata of a collection.
struct CollectionFacts {
  std::string database;
  std::string name;  // a time-series collection X has its documents in system.buckets.X
  CollectionKind kind = CollectionKind::kCollection;
  std::string uuid{};           // 32 hex digits; empty: none
  Bson options{};               // those of create
  std::vector<Bson> indexes{};  // as listIndexes returns them, with _id_; none for a view
  // The size of its documents in the backup, compressed or not. 0: none, or unknown (archives).
  std::uint64_t bytes = 0;

  [[nodiscard]] std::string ns() const { return database + "." + name; }
};

// Commands for the server, and parsers of its replies. listing_of_databases() names every database,
// or fails if the user may not see all of them.
[[nodiscard]] Bson listing_of_databases();
[[nodiscard]] std::vector<std::string> databases_in(Document reply);  // sorted
[[nodiscard]] Bson listing_of_collections();
[[nodiscard]] CollectionFacts facts_of(const std::string& database, Document row);  // no indexes

[[nodiscard]] Result<std::vector<std::string>> list_databases(Server& server);
// Sorted by database and name. Omits is_own_database(), but is_users() with `users`; system.views
// and system.profile. A time-series collection X is listed beside its system.buckets.X.
[[nodiscard]] Result<std::vector<CollectionFacts>> list_collections(Server& server,
                                                                    bool users = false);
// The same with system.views and system.profile, without indexes, unsorted.
[[nodiscard]] Result<std::vector<CollectionFacts>> list_namespaces(Server& server,
                                                                   bool users = false);

}  // namespace idmint::restore
