#include "stores/postgresql/schema.h"

#include "stores/postgresql/names.h"
#include "stores/sql/rows.h"

namespace idmint::stores::postgresql {
namespace {

#define IDMINT_TIMELINE "substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)"
#define IDMINT_SYSTEM "(SELECT system_identifier::text FROM pg_control_system())"

#define IDMINT_SETTINGS                                            \
  "current_setting('fsync'), current_setting('full_page_writes')," \
  " current_setting('synchronous_commit')"

constexpr Query kSite{"site", "SELECT to_regnamespace('idmint') IS NOT NULL, " IDMINT_SETTINGS,
                      Kind::kRead};
constexpr Query kRecord{
    "record",
    "SELECT id, schema, system, timeline, " IDMINT_SYSTEM ", " IDMINT_TIMELINE ", " IDMINT_SETTINGS
    ", (SELECT string_agg(relname, ', ' ORDER BY relname) FROM pg_class"
    "  WHERE relnamespace = 'idmint'::regnamespace AND relkind = 'r' AND relpersistence <> 'p'),"
    " (SELECT json FROM idmint.definitions WHERE name = $1)"
    " FROM idmint.store",
    Kind::kRead, "SELECT on idmint.store and on idmint.definitions"};

constexpr std::string_view kTables = R"(
CREATE TABLE idmint.store (
  single boolean PRIMARY KEY DEFAULT true CHECK (single),
  id uuid NOT NULL,
  schema integer NOT NULL,
  system text NOT NULL,
  timeline text NOT NULL
);
CREATE TABLE idmint.counters (
  name text COLLATE "C" PRIMARY KEY,
  first bigint NOT NULL,
  last bigint NOT NULL,
  stride bigint NOT NULL,
  next bigint NOT NULL,
  taken_from bigint NOT NULL,
  closed boolean NOT NULL,
  CHECK (0 <= first AND 1 <= stride AND first <= next AND next <= last + stride),
  CHECK ((next - first) % stride = 0)
) WITH (fillfactor = 50);
CREATE TABLE idmint.definitions (
  name text COLLATE "C" PRIMARY KEY,
  json text NOT NULL
);
CREATE TABLE idmint.spaces (
  name text COLLATE "C" PRIMARY KEY,
  closed boolean NOT NULL
);
CREATE TABLE idmint.claimed (
  space text COLLATE "C",
  part integer,
  claimed bigint NOT NULL CHECK (claimed >= 0),
  PRIMARY KEY (space, part)
) WITH (fillfactor = 50);
CREATE TABLE idmint.claims (
  space text COLLATE "C",
  key bigint,
  PRIMARY KEY (space, key)
);
CREATE TABLE idmint.pools (
  name text COLLATE "C" PRIMARY KEY,
  workers bigint NOT NULL
);
CREATE TABLE idmint.workers (
  pool text COLLATE "C",
  worker bigint CHECK (worker >= 0),
  token uuid,
  holder text NOT NULL,
  generation bigint NOT NULL,
  minted_until bigint NOT NULL CHECK (minted_until >= 0),
  taken_from bigint NOT NULL,
  held_until timestamptz NOT NULL,
  nonce uuid,
  PRIMARY KEY (pool, worker)
) WITH (fillfactor = 50);
CREATE VIEW idmint.trusted AS
  SELECT true AS trusted FROM idmint.store
  WHERE timeline = )" IDMINT_TIMELINE R"(
    AND current_setting('fsync') = 'on'
    AND current_setting('full_page_writes') = 'on'
    AND current_setting('synchronous_commit') <> 'off';
)";

// Of IDMINT_SETTINGS, which begin with the column `at`.
Settings settings_in(const Row& row, int at) {
  return {.fsync = std::string(row.bytes(at)),
          .full_page_writes = std::string(row.bytes(at + 1)),
          .synchronous_commit = std::string(row.bytes(at + 2))};
}

}  // namespace

extern const Query kSettle;
constinit const Query kSettle{
    "settle", "UPDATE idmint.store SET system = " IDMINT_SYSTEM ", timeline = " IDMINT_TIMELINE,
    Kind::kWrite, "SELECT and UPDATE on idmint.store"};

std::expected<std::optional<Record>, Failure> read_record(Connection& connection,
                                                          std::string_view definition,
                                                          SteadyTime until) {
  auto rows = connection.run(kRecord, values_of(stored_name(definition)), until);
  if (!rows) {
    const bool none = rows.error().reason == "42P01" || rows.error().reason == "3F000";
    if (none) return std::nullopt;
    return std::unexpected(std::move(rows.error()));
  }
  if (rows->empty()) return std::nullopt;
  const Row row = (*rows)[0];
  Record record{.id = sql::uuid_in(row, 0),
                .schema = row.integer(1),
                .system = std::string(row.bytes(2)),
                .timeline = std::string(row.bytes(3)),
                .system_now = std::string(row.bytes(4)),
                .timeline_now = std::string(row.bytes(5)),
                .settings = settings_in(row, 6)};
  record.settings.unlogged = row.bytes(9);
  if (const std::string_view json = row.bytes(10); !json.empty()) record.definition = json;
  return record;
}

std::expected<Site, Failure> read_site(Connection& connection, SteadyTime until) {
  auto rows = connection.run(kSite, {}, until);
  if (!rows) return std::unexpected(std::move(rows.error()));
  if (rows->empty()) return Site{};
  return Site{.has_schema = (*rows)[0].integer(0) != 0, .settings = settings_in((*rows)[0], 1)};
}

std::optional<Error> refused_settings(const Settings& settings, std::string_view url) {
  const auto refuse = [&](const std::string& what, const std::string& instead) {
    return Error{Code::kFailedPrecondition, std::string(url) + ": " + what + "; " + instead};
  };
  if (settings.fsync != "on")
    return refuse("the server runs with fsync = " + settings.fsync +
                      ", and loses values that were handed out when its host stops",
                  "set fsync = on in postgresql.conf, and reload it");
  if (settings.full_page_writes != "on")
    return refuse("the server runs with full_page_writes = " + settings.full_page_writes +
                      ", and may lose whole pages when its host stops while it writes them",
                  "set full_page_writes = on in postgresql.conf, and reload it");
  if (settings.synchronous_commit == "off")
    return refuse(
        "the connection has synchronous_commit = off, although idmint set it to on: a "
        "connection pooler seems to hand each transaction another connection",
        "pool by session, or name the server itself");
  if (!settings.unlogged.empty()) {
    const std::string first = settings.unlogged.substr(0, settings.unlogged.find(','));
    return refuse("it has unlogged tables, which are empty after a crash: " + settings.unlogged,
                  "make each a logged one: ALTER TABLE idmint." + first + " SET LOGGED");
  }
  return std::nullopt;
}

std::optional<Error> doubt_of(const Record& record, std::string_view url) {
  std::string why;
  if (record.is_elsewhere())
    why = "it is on the cluster " + record.system_now + " now, and was on " + record.system +
          ": it is a copy, or was restored from a dump";
  else if (record.timeline != record.timeline_now)
    why = "the server is on timeline " + record.timeline_now + ", and the store was on " +
          record.timeline + ": a standby was promoted, or a backup was restored";
  else
    return std::nullopt;
  return Error{Code::kFailedPrecondition,
               std::string(url) + ": " + why +
                   "; what was handed out last may be missing in it; it can be read, and gives no "
                   "value until it is raised past every value in use",
               {Remedy::kRaiseStore, std::string(url), {"moved"}}};
}

std::string statements_that_make(const Uuid& id, bool with_schema) {
  std::string sql = with_schema ? "CREATE SCHEMA idmint;" : "";
  sql += kTables;
  sql += "INSERT INTO idmint.store (id, schema, system, timeline) VALUES ('" + id.to_string() +
         "', " + std::to_string(kSchemaVersion) + ", " IDMINT_SYSTEM ", " IDMINT_TIMELINE ");";
  return sql;
}

}  // namespace idmint::stores::postgresql
