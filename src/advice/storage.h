// The bytes of an id as the key of a table or a collection.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "idmint/result.h"

namespace idmint::advice {

enum class Database : std::uint8_t { kNone, kMongodb, kPostgresql, kMysql, kSqlite, kRedis };
// "none", "mongodb", ... kInvalidArgument: none of these; the message lists them.
[[nodiscard]] Result<Database> database_named(std::string_view name);
[[nodiscard]] std::string_view name(Database database) noexcept;

// An id as a database stores it. Bytes exclude the overhead that every row has.
struct Stored {
  std::string type{};      // "uuid", "BINARY(16)"
  double row_bytes = 0;    // of the value in its row or document
  double index_bytes = 0;  // in the index over it; see storage_note()
};

// The fill factor of a B-tree's pages if keys arrive in random order (log 2).
inline constexpr double kRandomFill = 0.69;

[[nodiscard]] Stored stored_integer(Database database, double largest, bool appends);
// `bytes`: of a kind of id (Format::bytes).
[[nodiscard]] Stored stored_binary(Database database, int bytes, bool appends,
                                   bool object_id = false);
[[nodiscard]] Stored stored_text(Database database, int chars, bool appends);

// The assumptions behind the bytes of the database.
[[nodiscard]] std::string_view storage_note(Database database) noexcept;

}  // namespace idmint::advice
