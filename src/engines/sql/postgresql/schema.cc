#include "engines/sql/postgresql/schema.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/text.h"
#include "engines/sql/postgresql/sqlstate.h"
#include "engines/sql/rows.h"

namespace idmint::stores::postgresql {
namespace {

using std::chrono::milliseconds;

// How a connection is to be, whatever the server, the database or the user say. A statement that
// nobody waits for any more is ended by the server after the deadline of the store.
// In another process than that of the login ($3), which others may use too, it sets nothing.
constexpr Query kSetUp{
    "set_up",
    "SELECT pg_is_in_recovery(), pg_backend_pid(), CASE pg_backend_pid() WHEN $3::bigint THEN"
    " concat(set_config('synchronous_commit', CASE current_setting('synchronous_commit')"
    "  WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false),"
    " set_config('default_transaction_isolation', 'read committed', false),"
    " set_config('default_transaction_read_only', CASE $2::bigint WHEN 1 THEN 'on'"
    "  ELSE current_setting('default_transaction_read_only') END, false),"
    " set_config('statement_timeout', $1::text, false),"
    " set_config('lock_timeout', $1::text, false),"
    " set_config('search_path', '', false)) END",
    Kind::kRead};
constexpr Query kOwnBackend{"backend", "SELECT pg_backend_pid()", Kind::kRead};

// The deadline as a setting of the server, which has whole ms and takes 0 for no end.
std::string server_timeout(milliseconds deadline) {
  constexpr milliseconds longest{std::numeric_limits<std::int32_t>::max()};
  return std::to_string(std::clamp(deadline, milliseconds{1}, longest).count());
}

// Whether a pooler gives the process of the server to others between two statements: this
// connection gets another, or another connection the same. A pool of sessions that has no room for
// a second one does not answer that.
bool shares_its_backend(std::span<const Setting> server, Connection& connection,
                        std::int64_t backend, SteadyTime until) {
  constexpr milliseconds kLongest{500};
  const SteadyTime by = std::min(until, std::chrono::steady_clock::now() + kLongest);
  const auto backend_of = [&](Connection& each) {
    const auto rows = each.run(kOwnBackend, {}, by);
    return rows && !rows->empty() ? (*rows)[0].integer(0) : 0;
  };
  auto other = Connection::open(server, by);
  if (!other) return false;
  (*other)->never_prepare();
  for (int attempt = 0; attempt < 3; ++attempt) {
    const std::int64_t now = backend_of(connection);
    const std::int64_t its = backend_of(**other);
    if (now == 0 || its == 0) return false;
    if (now != backend || its == backend) return true;
  }
  return false;
}

#define IDMINT_TIMELINE "substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)"
#define IDMINT_SYSTEM "(SELECT system_identifier::text FROM pg_control_system())"

#define IDMINT_DATABASE "(SELECT oid FROM pg_database WHERE datname = current_database())"

// By their names, so that a view with it does not keep a dump from making a table anew.
#define IDMINT_RELATIONS                                                \
  "ARRAY[to_regclass('idmint.counters'), to_regclass('idmint.claims')," \
  " to_regclass('idmint.claimed'), to_regclass('idmint.workers'),"      \
  " to_regclass('idmint.definitions'), to_regclass('idmint.spaces'),"   \
  " to_regclass('idmint.pools')]::oid[]"

#define IDMINT_SETTINGS                                            \
  "current_setting('fsync'), current_setting('full_page_writes')," \
  " current_setting('synchronous_commit')"

constexpr Query kSite{"site", "SELECT to_regnamespace('idmint') IS NOT NULL, " IDMINT_SETTINGS,
                      Kind::kRead};
constexpr Query kRecord{
    "record",
    "SELECT s.id, s.schema, s.system, s.timeline, " IDMINT_SYSTEM ", " IDMINT_TIMELINE
    ", " IDMINT_SETTINGS
    ", (SELECT string_agg(relname, ', ' ORDER BY relname) FROM pg_class"
    "  WHERE relnamespace = 'idmint'::regnamespace AND relkind = 'r' AND relpersistence <> 'p'),"
    " (SELECT json FROM idmint.definitions WHERE name = $1),"
    // Columns that an older store lacks.
    " coalesce((j.of ->> 'database')::oid = " IDMINT_DATABASE
    ", true),"
    " coalesce((j.of ->> 'relation')::oid = s.tableoid, true)"
    "  AND coalesce(j.of -> 'relations' = to_jsonb(" IDMINT_RELATIONS
    "), true),"
    " coalesce(j.of ->> 'gone_back', ''), coalesce((j.of ->> 'settled')::bigint, -1),"
    " pg_has_role((SELECT relowner FROM pg_class WHERE oid = s.tableoid), 'USAGE'),"
    " j.of ? 'relations', " IDMINT_DATABASE
    "::bigint"
    " FROM idmint.store s, to_jsonb(s) j (of)",
    Kind::kRead, "SELECT on idmint.store and on idmint.definitions"};

constexpr std::string_view kTables = R"(
CREATE TABLE idmint.store (
  single boolean PRIMARY KEY DEFAULT true CHECK (single),
  id uuid NOT NULL,
  schema integer NOT NULL,
  system text NOT NULL,
  timeline text NOT NULL,
  database oid NOT NULL DEFAULT 0,
  relation oid NOT NULL DEFAULT 0,
  relations oid[] NOT NULL DEFAULT '{}',
  gone_back text NOT NULL DEFAULT '',
  settled bigint NOT NULL DEFAULT 0
);
CREATE TABLE idmint.counters (
  name text COLLATE "C" PRIMARY KEY,
  first bigint NOT NULL,
  last bigint NOT NULL,
  stride bigint NOT NULL,
  next bigint NOT NULL,
  taken_from bigint NOT NULL,
  closed boolean NOT NULL,
  adopted text COLLATE "C" NOT NULL,
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
)";

// `tableoid` is that of the table in which the row is now.
constexpr std::string_view kView = R"(
CREATE OR REPLACE VIEW idmint.trusted AS
  SELECT true AS trusted FROM idmint.store
  WHERE timeline = )" IDMINT_TIMELINE R"(
    AND relation = tableoid
    AND relations = )" IDMINT_RELATIONS R"(
    AND gone_back = ''
    AND current_setting('fsync') = 'on'
    AND current_setting('full_page_writes') = 'on'
    AND current_setting('synchronous_commit') <> 'off';
)";

// The columns of IDMINT_SETTINGS begin with the column `at`.
Settings settings_in(const Row& row, int at) {
  return {.fsync = std::string(row.bytes(at)),
          .full_page_writes = std::string(row.bytes(at + 1)),
          .synchronous_commit = std::string(row.bytes(at + 2))};
}

// All tables, and the record. They fail where a part of it is there already.
std::string statements_that_make(const Uuid& id, bool with_schema) {
  std::string sql = with_schema ? "CREATE SCHEMA idmint;" : "";
  sql += kTables;
  sql += kView;
  sql +=
      "INSERT INTO idmint.store (id, schema, system, timeline, database, relation, relations)"
      " VALUES ('" +
      id.to_string() + "', " + std::to_string(Dialect::kSchemaVersion) +
      ", " IDMINT_SYSTEM ", " IDMINT_TIMELINE ", " IDMINT_DATABASE
      ", 'idmint.store'::regclass::oid, " IDMINT_RELATIONS ");";
  return sql;
}

}  // namespace

constinit const Query Dialect::kMarkGoneBack{
    "mark_gone_back",
    "UPDATE idmint.store SET gone_back = $1 WHERE settled = $2::bigint AND gone_back = ''"
    " AND id = '{id}' AND " IDMINT_OWN_BACKEND,
    Kind::kWrite, "SELECT on idmint.store and UPDATE of its column gone_back"};

// A count that two copies of a store, each settled for itself, do not share.
const Query& Dialect::settle(const Record& record) {
#define IDMINT_SETTLE_OLDEST \
  "UPDATE idmint.store SET system = " IDMINT_SYSTEM ", timeline = " IDMINT_TIMELINE
#define IDMINT_COUNT "greatest(settled + 1, extract(epoch FROM clock_timestamp())::bigint)"
#define IDMINT_SETTLE_OLDER                            \
  IDMINT_SETTLE_OLDEST ", database = " IDMINT_DATABASE \
                       ", relation = tableoid, gone_back = '', settled = " IDMINT_COUNT
#define IDMINT_THIS " WHERE id = '{id}' AND " IDMINT_OWN_BACKEND
  static constexpr Query kSettle{"settle",
                                 IDMINT_SETTLE_OLDER ", relations = " IDMINT_RELATIONS IDMINT_THIS,
                                 Kind::kWrite, "SELECT and UPDATE on idmint.store"};
  static constexpr Query kSettleOlder{"settle_older", IDMINT_SETTLE_OLDER IDMINT_THIS, Kind::kWrite,
                                      "SELECT and UPDATE on idmint.store"};
  static constexpr Query kSettleOldest{"settle_oldest", IDMINT_SETTLE_OLDEST IDMINT_THIS,
                                       Kind::kWrite, "SELECT and UPDATE on idmint.store"};
#undef IDMINT_THIS
#undef IDMINT_SETTLE_OLDER
#undef IDMINT_COUNT
#undef IDMINT_SETTLE_OLDEST
  if (record.settled < 0) return kSettleOldest;
  return record.has_relations ? kSettle : kSettleOlder;
}

// Waits for nobody who reads the store, such as pg_dump, as all others would wait for it.
std::expected<void, Failure> Dialect::upgrade(Connection& connection, SteadyTime until) {
  std::string sql = R"(SELECT set_config('lock_timeout', '500ms', true);
ALTER TABLE idmint.store ADD COLUMN IF NOT EXISTS database oid NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS relation oid NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS relations oid[] NOT NULL DEFAULT '{}',
  ADD COLUMN IF NOT EXISTS gone_back text NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS settled bigint NOT NULL DEFAULT 0;
UPDATE idmint.store SET database = )" IDMINT_DATABASE R"(, relation = tableoid WHERE relation = 0;
UPDATE idmint.store SET relations = )" IDMINT_RELATIONS R"( WHERE relations = '{}';
)";
  sql += kView;
  auto done = connection.execute(sql, until);
  if (!done) return std::unexpected(std::move(done.error()));
  return {};
}

std::string Dialect::names(std::span<const std::string> names) {
  std::vector<std::string> stored;
  stored.reserve(names.size());
  for (const std::string& name : names) stored.push_back(stored_name(name));
  return array_of(stored);
}

Values Dialect::rows(std::span<const sql::NewRow> rows) {
  std::vector<std::string> names;
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> last;
  std::vector<std::int64_t> stride;
  std::vector<std::string> adopted;
  std::vector<std::int64_t> next;
  for (const auto& [counter, from] : rows) {
    names.push_back(stored_name(counter.name));
    first.push_back(counter.bounds.first);
    last.push_back(counter.bounds.last);
    stride.push_back(counter.bounds.stride);
    adopted.push_back(counter.adopted);
    next.push_back(from);
  }
  return {array_of(names),  array_of(first),   array_of(last),
          array_of(stride), array_of(adopted), array_of(next)};
}

// A prefix may end within a character, or hold what no text of PostgreSQL does.
Values Dialect::prefix(std::string_view prefix) {
  std::string_view from = prefix.substr(0, prefix.find('\0'));
  while (!is_utf8(from)) from.remove_suffix(1);
  return {std::string(from), std::string(kHexName)};
}

Values Dialect::swaps(std::span<const WorkerSwap> swaps) {
  const auto numbers = [&](const auto& number_of) {
    std::vector<std::int64_t> all;
    for (const WorkerSwap& swap : swaps) all.push_back(number_of(swap));
    return array_of(all);
  };
  const auto texts = [&](const auto& text_of) {
    std::vector<std::string> all;
    for (const WorkerSwap& swap : swaps) all.push_back(text_of(swap));
    return array_of(all);
  };
  using Side = WorkerRow WorkerSwap::*;
  const auto tokens = [&](Side side) {
    return texts([&](const WorkerSwap& swap) { return (swap.*side).state.token.to_string(); });
  };
  const auto nonces = [&](Side side) {
    return texts([&](const WorkerSwap& swap) { return (swap.*side).nonce.to_string(); });
  };
  const auto states = [&](Side side, std::int64_t LeaseState::* number) {
    return numbers([&](const WorkerSwap& swap) { return (swap.*side).state.*number; });
  };
  const auto taken = [&](Side side) {
    return numbers(
        [&](const WorkerSwap& swap) { return (swap.*side).state.taken_from.value_or(0); });
  };
  constexpr Side kFrom = &WorkerSwap::from;
  constexpr Side kTo = &WorkerSwap::to;
  return {states(kFrom, &LeaseState::worker),
          tokens(kFrom),
          states(kFrom, &LeaseState::generation),
          states(kFrom, &LeaseState::minted_until),
          taken(kFrom),
          nonces(kFrom),
          tokens(kTo),
          texts([](const WorkerSwap& swap) { return stored_name(swap.to.state.holder); }),
          states(kTo, &LeaseState::generation),
          states(kTo, &LeaseState::minted_until),
          taken(kTo),
          nonces(kTo),
          numbers([](const WorkerSwap& swap) { return swap.to.state.held_for.count(); }),
          std::to_string(swaps.size())};
}

std::expected<std::unique_ptr<Connection>, Failure> Dialect::login(const Address& address,
                                                                   std::size_t server,
                                                                   milliseconds deadline,
                                                                   Access access,
                                                                   SteadyTime until) {
  auto opened = Connection::open(address.servers[server], until);
  if (!opened) return opened;
  Connection& connection = **opened;
  const std::int64_t read_only = access == Access::kReadOnly ? 1 : 0;
  const auto set_up_in = [&](std::int64_t backend) {
    return connection.run(kSetUp, {server_timeout(deadline), value(read_only), value(backend)},
                          until);
  };
  auto set_up = set_up_in(connection.backend_at_login());
  if (!set_up) return std::unexpected(std::move(set_up.error()));
  if (set_up->empty() || (*set_up)[0].integer(0) != 0)
    return std::unexpected(Failure{
        .error = {Code::kFailedPrecondition,
                  "the server is a standby, which can lag behind; name the primary, or all servers "
                  "of the cluster"},
        .passing = address.servers.size() > 1});
  const std::int64_t backend = (*set_up)[0].integer(1);
  if (backend != connection.backend_at_login()) {
    connection.never_prepare();
    const bool shared = shares_its_backend(address.servers[server], connection, backend, until);
    if (!shared) set_up = set_up_in(backend);
    if (!set_up) return std::unexpected(std::move(set_up.error()));
    if (shared || set_up->empty() || (*set_up)[0].integer(1) != backend)
      return std::unexpected(Failure{.error = {Code::kFailedPrecondition,
                                               "a connection pooler gives each transaction another "
                                               "connection; pool by session, or name the server "
                                               "itself"}});
  }
  connection.is_set_up_in(backend);
  return opened;
}

// One statement where there is a store.
std::expected<Dialect::Site, Failure> Dialect::read_site(Connection& connection,
                                                         std::string_view definition,
                                                         SteadyTime until) {
  auto rows = connection.run(postgresql::kRecord, {stored_name(definition)}, until);
  const bool no_table = !rows && (rows.error().reason == "42P01" || rows.error().reason == "3F000");
  if (!rows && !no_table) return std::unexpected(std::move(rows.error()));
  if (no_table || rows->empty()) {
    rows = connection.run(kSite, {}, until);
    if (!rows) return std::unexpected(std::move(rows.error()));
    if (rows->empty()) return Site{};
    return Site{.settings = settings_in((*rows)[0], 1), .has_schema = (*rows)[0].integer(0) != 0};
  }
  const Row row = (*rows)[0];
  Site site{.settings = settings_in(row, 6),
            .has_schema = true,
            .record = Record{.id = sql::uuid_in(row, 0),
                             .schema = row.integer(1),
                             .system = std::string(row.bytes(2)),
                             .timeline = std::string(row.bytes(3)),
                             .system_now = std::string(row.bytes(4)),
                             .timeline_now = std::string(row.bytes(5)),
                             .database_now = row.integer(17),
                             .same_database = row.integer(11) != 0,
                             .same_relations = row.integer(12) != 0,
                             .has_relations = row.integer(16) != 0,
                             .gone_back = std::string(row.bytes(13)),
                             .settled = row.integer(14),
                             .may_upgrade = row.integer(15) != 0}};
  site.settings.unlogged = row.bytes(9);
  if (const std::string_view json = row.bytes(10); !json.empty()) site.record->definition = json;
  return site;
}

// If two callers come here at once, one makes the store, and the other finds it made.
std::expected<void, Failure> Dialect::make(Connection& connection, const Uuid& id,
                                           SteadyTime until) {
  auto site = read_site(connection, "", until);
  if (!site) return std::unexpected(std::move(site.error()));
  auto made = connection.execute(statements_that_make(id, !site->has_schema), until);
  if (made) return {};
  Failure failure = std::move(made.error());
  constexpr std::array<std::string_view, 4> kThere = {"23505", "42P06", "42P07", "42710"};
  if (std::ranges::find(kThere, failure.reason) == kThere.end()) {
    if (failure.reason == kInsufficientPrivilege)
      add_clause(
          failure.error.what,
          "the user who makes a store needs CREATE on the database, or a schema idmint of its "
          "own");
    return std::unexpected(std::move(failure));
  }
  site = read_site(connection, "", until);
  if (!site) return std::unexpected(std::move(site.error()));
  if (site->record) return {};
  return std::unexpected(
      Failure{.error = {Code::kFailedPrecondition,
                        "it has a schema idmint of another program (" + failure.error.message() +
                            "); it was left as it is: name another database"}});
}

std::optional<Error> Dialect::refused_settings(const Site& site, std::string_view url) {
  const Settings& settings = site.settings;
  const auto refuse = [&](const std::string& what, const std::string& instead) {
    return at_place(url, {Code::kFailedPrecondition, what + "; " + instead});
  };
  const std::string after_a_crash(sql::kAfterACrash);
  if (settings.fsync != "on")
    return refuse("the server runs with fsync = " + settings.fsync +
                      ", and loses values that were handed out when its host stops",
                  "set fsync = on in postgresql.conf, and reload it" + after_a_crash);
  if (settings.full_page_writes != "on")
    return refuse("the server runs with full_page_writes = " + settings.full_page_writes +
                      ", and may lose whole pages when its host stops while it writes them",
                  "set full_page_writes = on in postgresql.conf, and reload it" + after_a_crash);
  if (settings.synchronous_commit == "off")
    return refuse(
        "the connection has synchronous_commit = off, although idmint set it to on: a "
        "connection pooler seems to hand each transaction another connection",
        "pool by session, or name the server itself");
  if (!settings.unlogged.empty()) {
    const std::string first = settings.unlogged.substr(0, settings.unlogged.find(','));
    return refuse(
        "it has unlogged tables, which are empty after a crash: " + settings.unlogged,
        "make each a logged one: ALTER TABLE idmint." + first + " SET LOGGED" + after_a_crash);
  }
  return std::nullopt;
}

std::optional<Error> Dialect::doubt_of(const Record& record, std::string_view url) {
  std::string why;
  if (!record.gone_back.empty()) return sql::gone_back(url, record.gone_back);
  if (record.system != record.system_now)
    why = "it is on the cluster " + record.system_now + " now, and was on " + record.system +
          ": it is a copy, or was restored from a dump";
  else if (record.timeline != record.timeline_now)
    why = "the server is on timeline " + record.timeline_now + ", and the store was on " +
          record.timeline + ": a standby was promoted, or a backup was restored";
  else if (!record.same_database)
    why = "it is in another database than before: it is a copy, or was restored from a dump";
  else if (!record.same_relations)
    why = "its tables were made anew: it was restored from a dump";
  else
    return std::nullopt;
  return in_doubt(url, why);
}

}  // namespace idmint::stores::postgresql
