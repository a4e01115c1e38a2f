// How many bytes an id takes as the key of a table or a collection.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "idmint/result.h"

namespace idmint::advice {

enum class Database : std::uint8_t { kNone, kMongodb, kPostgresql, kMysql, kSqlite, kRedis };
// "none", "mongodb", ... kInvalidArgument, with the names there are.
[[nodiscard]] Result<Database> database_named(std::string_view name);
[[nodiscard]] std::string_view name(Database database) noexcept;

// The id as a database keeps it. Bytes without what every row has anyway.
struct Stored {
  std::string type{};      // "uuid", "BINARY(16)"
  double row_bytes = 0;    // of the value in its row or document
  double index_bytes = 0;  // in the index over it; see storage_note()
};

// How full a B-tree's pages are: where keys arrive in their order, and in any (log 2).
inline constexpr double kRandomFill = 0.69;

[[nodiscard]] Stored stored_integer(Database database, double largest, bool appends);
// Of `bytes` bytes: 12 (ObjectId, xid), 16 (UUID, ULID), 20 (KSUID).
[[nodiscard]] Stored stored_binary(Database database, int bytes, bool appends,
                                   bool object_id = false);
[[nodiscard]] Stored stored_text(Database database, int chars, bool appends);

// What the bytes of the database rest on.
[[nodiscard]] std::string_view storage_note(Database database) noexcept;

}  // namespace idmint::advice
