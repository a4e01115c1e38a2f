// Cursors of the driver, which ask one server for batch after batch.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "idmint/result.h"
#include "mongo/document.h"
#include "mongo/driver.h"

namespace idmint::restore {

template <class T, auto& kDestroy>
struct MongocDeleter {
  void operator()(T* object) const { kDestroy(object); }
};
using Collection = std::unique_ptr<mongoc_collection_t,
                                   MongocDeleter<mongoc_collection_t, mongoc_collection_destroy>>;
using Cursor =
    std::unique_ptr<mongoc_cursor_t, MongocDeleter<mongoc_cursor_t, mongoc_cursor_destroy>>;
using Database =
    std::unique_ptr<mongoc_database_t, MongocDeleter<mongoc_database_t, mongoc_database_destroy>>;

// Each document that is left, and the error that ended it.
[[nodiscard]] Result<void> each(const Cursor& cursor, const std::string& doing,
                                const std::function<Result<void>(Document)>& take);

}  // namespace idmint::restore
