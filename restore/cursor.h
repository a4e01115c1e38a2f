// Cursors of the driver: they read batches from one server.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "idmint/result.h"
#include "mongo/bson.h"
#include "mongo/driver.h"
#include "restore/server.h"

namespace idmint::restore {

using Collection = std::unique_ptr<mongoc_collection_t,
                                   MongocDeleter<mongoc_collection_t, mongoc_collection_destroy>>;
using Cursor =
    std::unique_ptr<mongoc_cursor_t, MongocDeleter<mongoc_cursor_t, mongoc_cursor_destroy>>;
using Database =
    std::unique_ptr<mongoc_database_t, MongocDeleter<mongoc_database_t, mongoc_database_destroy>>;

// Calls `take` with each document that the collection has by the filter. `options` are those of
// find. Errors as for each(); `doing` is "find in NS" if it is empty.
[[nodiscard]] Result<void> find_each(Server& server, const std::string& ns, const Bson& filter,
                                     const Bson& options,
                                     const std::function<Result<void>(Document)>& take,
                                     const std::string& doing = {},
                                     const mongoc_read_prefs_t* preference = nullptr);

// Calls `take` with each remaining document. Returns the first error: of `take`, or of the cursor.
[[nodiscard]] Result<void> each(const Cursor& cursor, const std::string& doing,
                                const std::function<Result<void>(Document)>& take);

}  // namespace idmint::restore
