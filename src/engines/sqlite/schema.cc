#include "engines/sqlite/schema.h"

#include <algorithm>
#include <array>

#include "engines/sqlite/trust.h"
#include "engines/sqlite/trusted_file.h"
#include "store/backend.h"

namespace idmint::stores::sqlite {
namespace {

constexpr std::int64_t kSchemaVersion = 2;

// application_id and user_version are kApplicationId and kSchemaVersion.
constexpr const char* kSchema = R"(
  CREATE TABLE store (
    id BLOB NOT NULL CHECK (length(id) = 16),
    inode INTEGER,
    born INTEGER,
    volume INTEGER,
    changes INTEGER NOT NULL DEFAULT 0,
    unmarked INTEGER,
    settled INTEGER NOT NULL DEFAULT 0,
    gone_back TEXT,
    boot TEXT,
    boot_clock INTEGER,
    clock INTEGER
  ) STRICT;
  CREATE TABLE counters (
    name TEXT NOT NULL PRIMARY KEY,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    stride INTEGER NOT NULL,
    next INTEGER NOT NULL,
    taken_from INTEGER NOT NULL,
    closed INTEGER NOT NULL,
    CHECK (0 <= first AND 1 <= stride AND first <= next AND next <= last + stride),
    CHECK ((next - first) % stride = 0)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE definitions (
    name TEXT NOT NULL PRIMARY KEY,
    json TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE spaces (
    name TEXT NOT NULL PRIMARY KEY,
    claimed INTEGER NOT NULL CHECK (claimed >= 0),
    closed INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE claims (
    space TEXT NOT NULL,
    key INTEGER NOT NULL,
    PRIMARY KEY (space, key)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE workers (
    pool TEXT NOT NULL,
    worker INTEGER NOT NULL CHECK (worker >= 0),
    token BLOB CHECK (length(token) = 16),
    holder TEXT NOT NULL,
    generation INTEGER NOT NULL,
    minted_until INTEGER NOT NULL CHECK (minted_until >= 0),
    taken_from INTEGER NOT NULL,
    held_until INTEGER NOT NULL,
    nonce BLOB CHECK (length(nonce) = 16),
    PRIMARY KEY (pool, worker)
  ) STRICT, WITHOUT ROWID;
  PRAGMA application_id = 0x69646d74;
  PRAGMA user_version = 2;
)";

constexpr const char* kUpgradeFrom1 = R"(
  ALTER TABLE store ADD COLUMN inode INTEGER;
  ALTER TABLE store ADD COLUMN born INTEGER;
  ALTER TABLE store ADD COLUMN changes INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE store ADD COLUMN unmarked INTEGER;
  ALTER TABLE store ADD COLUMN boot TEXT;
  ALTER TABLE store ADD COLUMN boot_clock INTEGER;
  ALTER TABLE store ADD COLUMN clock INTEGER;
  ALTER TABLE workers ADD COLUMN nonce BLOB CHECK (length(nonce) = 16);
  PRAGMA user_version = 2;
)";

constexpr std::string_view kMaking = "make the tables of";

}  // namespace

Result<bool> has_all_columns(Connection& db) {
  const Result<std::int64_t> found = db.read_integer(
      "SELECT count(*) FROM pragma_table_info('store')"
      " WHERE name IN ('volume', 'settled', 'gone_back')");
  if (!found) return std::unexpected(found.error());
  return *found == 3;
}

Result<void> add_columns(Connection& db) {
  struct Column {
    const char* is_there;
    const char* add;
  };
  constexpr std::array kColumns = {
      Column{"SELECT count(*) FROM pragma_table_info('store') WHERE name = 'volume'",
             "ALTER TABLE store ADD COLUMN volume INTEGER"},
      Column{"SELECT count(*) FROM pragma_table_info('store') WHERE name = 'settled'",
             "ALTER TABLE store ADD COLUMN settled INTEGER NOT NULL DEFAULT 0"},
      Column{"SELECT count(*) FROM pragma_table_info('store') WHERE name = 'gone_back'",
             "ALTER TABLE store ADD COLUMN gone_back TEXT"}};
  for (const Column& column : kColumns) {
    const Result<std::int64_t> there = db.read_integer(column.is_there);
    if (!there) return std::unexpected(there.error());
    if (*there != 0) continue;
    if (Result<void> ok = db.execute(column.add, "upgrade the tables of"); !ok) return ok;
  }
  return {};
}

namespace {

// REQUIRES: a write transaction is open.
Result<void> make_tables(TrustedFile& file) {
  const Result<Content> content = identify(file);
  if (!content) return std::unexpected(content.error());
  if (*content == Content::kOurs) return {};
  if (*content == Content::kNothing) {
    if (Result<void> ok = file.execute(kSchema, kMaking); !ok) return ok;
    const Uuid id = draw_store_id(file.entropy());
    Statement name(file, "INSERT INTO store (id) VALUES (?1)", "name", id);
    if (Result<void> ok = name.end(); !ok) return ok;
  } else {
    if (Result<void> ok = file.execute(kUpgradeFrom1, "upgrade the tables of"); !ok) return ok;
    if (Result<void> ok = add_columns(file); !ok) return ok;
    const Result<Uuid> id = read_id(file);
    if (!id) return std::unexpected(id.error());
    // This user saw the store after its upgrade, so this is an older backup, and its place is
    // unknown.
    if (is_counted(file.trust_folder(), *id))
      return file.write_place(Place{0, std::nullopt, std::nullopt}, 0, 0);
  }
  return file.write_place(place_of(file.full_path()), 0, 0);
}

}  // namespace

Result<Content> identify(Connection& db) {
  const Result<std::int64_t> application = db.read_integer("PRAGMA application_id");
  if (!application) return std::unexpected(application.error());
  Result<std::int64_t> version = db.read_integer("PRAGMA user_version");
  if (!version) return std::unexpected(version.error());
  if (*application == kApplicationId) {
    *version &= kVersionBits;
    if (*version == kSchemaVersion) return Content::kOurs;
    if (*version == 1) return Content::kVersion1;
    if (*version > kSchemaVersion)
      return std::unexpected(Error{Code::kFailedPrecondition,
                                   db.path() + " has schema version " + std::to_string(*version) +
                                       ", and this idmint knows versions up to " +
                                       std::to_string(kSchemaVersion) +
                                       "; it was left as it is: use a newer idmint"});
    return db.damaged("it has schema version " + std::to_string(*version));
  }
  if (!db.is_in_transaction()) {
    // Another process may be creating the store now, so all reads must be of one snapshot.
    if (Result<void> begun = db.execute("BEGIN", "read"); !begun)
      return std::unexpected(begun.error());
    Result<Content> content = identify(db);
    if (!content) {
      db.roll_back();
      return content;
    }
    if (Result<void> ended = db.execute("END", "read"); !ended)
      return std::unexpected(ended.error());
    return content;
  }
  const Result<std::int64_t> tables = db.read_integer("SELECT count(*) FROM sqlite_schema");
  if (!tables) return std::unexpected(tables.error());
  if (*application == 0 && *version == 0 && *tables == 0) return Content::kNothing;
  return std::unexpected(Error{Code::kFailedPrecondition,
                               db.path() + " is an SQLite file of another program; it was left as "
                                           "it is: give another path"});
}

Result<void> make_schema(TrustedFile& file) {
  if (Result<void> begun = file.execute("BEGIN IMMEDIATE", kMaking); !begun) return begun;
  Result<void> made = make_tables(file);
  if (made) made = file.execute("COMMIT", kMaking);
  file.roll_back();
  if (!made) return made;
  // Moved into the file at once, so that it is readable without its log. If readers prevent this, a
  // file that loses its log is found damaged.
  if (const int error = file.checkpoint().io_error; error != 0)
    return std::unexpected(file.failed(error, kMaking));
  return {};
}

Result<Uuid> read_id(Connection& db) {
  Statement row(db, "SELECT id FROM store", "read");
  if (row.next()) {
    Uuid::Bytes bytes{};
    const std::string_view id = row.bytes(0);
    if (id.size() != bytes.size())
      return db.damaged("its id has " + std::to_string(id.size()) + " bytes");
    std::ranges::copy(id, bytes.begin());
    return Uuid(bytes);
  }
  if (row.is_done()) return db.damaged("its id is missing");
  return std::unexpected(row.failure());
}

}  // namespace idmint::stores::sqlite
