#include "restore/collections.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "restore/cursor.h"
#include "restore/namespaces.h"

namespace idmint::restore {
namespace {

constexpr std::array<std::string_view, 3> kCollectionKinds = {"collection", "view", "timeseries"};

Result<std::vector<Bson>> rows_of(const Cursor& cursor, const std::string& doing) {
  std::vector<Bson> rows;
  Result<void> listed = each(cursor, doing, [&](Document row) -> Result<void> {
    rows.push_back(Bson::copy_of(row));
    return {};
  });
  if (!listed) return error_in(listed);
  return rows;
}

}  // namespace

std::string_view name(CollectionKind kind) noexcept {
  return kCollectionKinds[static_cast<std::size_t>(kind)];
}

std::optional<CollectionKind> kind_named(std::string_view name) noexcept {
  const auto* const kind = std::ranges::find(kCollectionKinds, name);
  if (kind == kCollectionKinds.end()) return std::nullopt;
  return static_cast<CollectionKind>(kind - kCollectionKinds.begin());
}

Bson listing_of_databases() {
  return std::move(
      Bson().add("listDatabases", 1).add("nameOnly", true).add("authorizedDatabases", false));
}

std::vector<std::string> databases_in(Document reply) {
  std::vector<std::string> names;
  reply.each("databases", [&](const Document& row) { names.push_back(text_of(row, "name")); });
  std::ranges::sort(names);
  return names;
}

Bson listing_of_collections() { return std::move(Bson().add("listCollections", 1)); }

CollectionFacts facts_of(const std::string& database, Document row) {
  CollectionFacts facts{.database = database, .name = text_of(row, "name")};
  facts.kind = kind_named(text_of(row, "type")).value_or(CollectionKind::kCollection);
  const Document options = row.document("options");
  facts.options = options ? Bson::copy_of(options) : Bson();
  const Document info = row.document("info");
  if (info.type("uuid") == BSON_TYPE_BINARY) facts.uuid = hex(info.bytes("uuid").value_or(""));
  return facts;
}

Result<std::vector<std::string>> list_databases(Server& server) {
  const Result<Bson> reply = server.command("admin", listing_of_databases());
  if (!reply) return error_in(reply);
  return databases_in(reply->view());
}

Result<std::vector<CollectionFacts>> list_namespaces(Server& server, bool users) {
  const Result<std::vector<std::string>> databases = list_databases(server);
  if (!databases) return error_in(databases);
  std::vector<CollectionFacts> all;
  for (const std::string& database : *databases) {
    const bool own = is_own_database(database);
    if (own && !(users && database == "admin")) continue;
    const Database at(mongoc_client_get_database(server.client(), database.c_str()));
    const Cursor cursor(mongoc_database_find_collections_with_opts(at.get(), nullptr));
    const Result<std::vector<Bson>> rows = rows_of(cursor, "listCollections of " + database);
    if (!rows) return error_in(rows);
    for (const Bson& row : *rows) {
      CollectionFacts facts = facts_of(database, row.view());
      if (!own || is_users(facts.ns())) all.push_back(std::move(facts));
    }
  }
  return all;
}

Result<std::vector<CollectionFacts>> list_collections(Server& server, bool users) {
  Result<std::vector<CollectionFacts>> listed = list_namespaces(server, users);
  if (!listed) return listed;
  std::vector<CollectionFacts>& all = *listed;
  std::erase_if(all, [](const CollectionFacts& each) {
    return each.name == "system.views" || each.name == "system.profile";
  });
  for (CollectionFacts& each : all) {
    if (each.kind == CollectionKind::kView) continue;
    const Collection at(
        mongoc_client_get_collection(server.client(), each.database.c_str(), each.name.c_str()));
    // An index that is being built is not there yet.
    const Bson options = Bson("includeBuildUUIDs", true);
    const Cursor cursor(mongoc_collection_find_indexes_with_opts(at.get(), options.get()));
    Result<std::vector<Bson>> indexes = rows_of(cursor, "listIndexes of " + each.ns());
    if (!indexes) return error_in(indexes);
    std::erase_if(*indexes, [](const Bson& index) { return index.view().has("buildUUID"); });
    each.indexes = *std::move(indexes);
  }
  std::ranges::sort(
      all, {}, [](const CollectionFacts& each) { return std::pair(each.database, each.name); });
  return listed;
}

}  // namespace idmint::restore
