#include "advice/storage.h"

#include <algorithm>
#include <cmath>

#include "advice/named.h"

namespace idmint::advice {

namespace {

constexpr std::array kDatabases = {Named{"none", Database::kNone},
                                   Named{"mongodb", Database::kMongodb},
                                   Named{"postgresql", Database::kPostgresql},
                                   Named{"mysql", Database::kMysql},
                                   Named{"sqlite", Database::kSqlite},
                                   Named{"redis", Database::kRedis}};

double fill_of(double appended, bool appends) { return appends ? appended : kRandomFill; }
double aligned(double bytes) { return std::ceil(bytes / 8) * 8; }

}  // namespace

Result<Database> database_named(std::string_view name) { return value_named(kDatabases, name); }

std::string_view name(Database database) noexcept {
  return kDatabases[static_cast<std::size_t>(database)].name;
}

std::string_view storage_note(Database database) noexcept {
  switch (database) {
    case Database::kPostgresql:
      return "PostgreSQL: an index entry has 8 bytes of header, the key in multiples of 8, and 4 "
             "in "
             "the page; pages 90 % full where ids append";
    case Database::kMysql:
      return "InnoDB: the key of a primary index is the row itself; the index bytes are those that "
             "each further index repeats; pages 15/16 full where ids append";
    case Database::kSqlite:
      return "SQLite: an INTEGER PRIMARY KEY is the row id, without an index of its own; other "
             "keys "
             "have an index with the key, a row id of 4 bytes and 5 of headers";
    case Database::kMongodb:
      return "MongoDB: the row bytes are those of the field _id in BSON; the index bytes come "
             "before "
             "its prefix compression, with 4 of record id, pages 90 % full where ids append";
    case Database::kRedis:
      return "Redis: the row bytes are the key's string with its header, the index bytes its entry "
             "in the hash table";
    case Database::kNone:
      return "the bare values; name a database for its own overhead";
  }
  return "";
}

Stored stored_integer(Database database, double largest, bool appends) {
  const double bits = std::floor(std::log2(std::max(largest, 1.0))) + 1;
  switch (database) {
    case Database::kPostgresql:
      return {"bigint", 8, (8 + 8 + 4) / fill_of(0.9, appends)};
    case Database::kMysql:
      return {"BIGINT", 8, 8 / fill_of(15.0 / 16, appends)};
    case Database::kSqlite:  // a varint: 7 bits in each byte, 8 in the ninth
      return {"INTEGER PRIMARY KEY", std::min(9.0, std::ceil(bits / 7)), 0};
    case Database::kMongodb:  // type, "_id", zero, value; in the index a type, the bytes, an end
      return {"int64", 5 + 8, (1 + std::ceil((bits + 1) / 8) + 1 + 4) / fill_of(0.9, appends)};
    case Database::kRedis:
    case Database::kNone:
      return {"int64", 8, 8};
  }
  return {};
}

Stored stored_binary(Database database, int bytes, bool appends, bool object_id) {
  const double n = bytes;
  const std::string size = std::to_string(bytes);
  switch (database) {
    case Database::kPostgresql:
      if (bytes == 16) return {"uuid", 16, (8 + 16 + 4) / fill_of(0.9, appends)};
      return {"bytea", n + 1, (8 + aligned(n + 1) + 4) / fill_of(0.9, appends)};
    case Database::kMysql:
      return {"BINARY(" + size + ")", n, n / fill_of(15.0 / 16, appends)};
    case Database::kSqlite:
      return {"BLOB(" + size + ")", n + 1, (n + 4 + 5) / fill_of(1, appends)};
    case Database::kMongodb:
      if (object_id) return {"ObjectId", 5 + n, (1 + n + 1 + 4) / fill_of(0.9, appends)};
      return {bytes == 16 ? "binary, subtype 4" : "binary", 5 + 4 + 1 + n,
              (3 + n + 1 + 4) / fill_of(0.9, appends)};
    case Database::kRedis:
    case Database::kNone:
      return {"binary, " + size + " bytes", n, n};
  }
  return {};
}

Stored stored_text(Database database, int chars, bool appends) {
  const double n = chars;
  const std::string size = std::to_string(chars);
  switch (database) {
    case Database::kPostgresql:
      return {"text, " + size, n + 1, (8 + aligned(n + 1) + 4) / fill_of(0.9, appends)};
    case Database::kMysql:
      return {"CHAR(" + size + ") ascii", n, n / fill_of(15.0 / 16, appends)};
    case Database::kSqlite:
      return {"TEXT, " + size, n + 1, (n + 4 + 5) / fill_of(1, appends)};
    case Database::kMongodb:
      return {"string, " + size, 5 + 4 + n + 1, (1 + n + 1 + 1 + 4) / fill_of(0.9, appends)};
    case Database::kRedis:  // 3 bytes of header and a zero, in the allocator's steps of 8
      return {"key of " + size, aligned(n + 4), 24 + 8};
    case Database::kNone:
      return {"text, " + size, n, n};
  }
  return {};
}

}  // namespace idmint::advice
