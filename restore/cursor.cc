#include "restore/cursor.h"

#include "restore/server.h"

namespace idmint::restore {

Result<void> each(const Cursor& cursor, const std::string& doing,
                  const std::function<Result<void>(Document)>& take) {
  const bson_t* document = nullptr;
  while (mongoc_cursor_next(cursor.get(), &document)) {
    if (Result<void> taken = take(Document::of(document)); !taken) return taken;
  }
  bson_error_t error{};
  if (mongoc_cursor_error(cursor.get(), &error)) return std::unexpected(told(doing, error));
  return {};
}

}  // namespace idmint::restore
