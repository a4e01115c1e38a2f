#include "restore/cursor.h"

#include "restore/namespaces.h"

namespace idmint::restore {

Result<void> find_each(Server& server, const std::string& ns, const Bson& filter,
                       const Bson& options, const std::function<Result<void>(Document)>& take,
                       const std::string& doing, const mongoc_read_prefs_t* preference) {
  const Collection collection(mongoc_client_get_collection(server.client(), database_of(ns).c_str(),
                                                           collection_of(ns).c_str()));
  const Cursor cursor(
      mongoc_collection_find_with_opts(collection.get(), filter.get(), options.get(), preference));
  return each(cursor, doing.empty() ? "find in " + ns : doing, take);
}

Result<void> each(const Cursor& cursor, const std::string& doing,
                  const std::function<Result<void>(Document)>& take) {
  const bson_t* document = nullptr;
  while (mongoc_cursor_next(cursor.get(), &document))
    if (Result<void> taken = take(Document::of(document)); !taken) return taken;
  bson_error_t error{};
  if (mongoc_cursor_error(cursor.get(), &error)) return std::unexpected(told(doing, error));
  return {};
}

}  // namespace idmint::restore
