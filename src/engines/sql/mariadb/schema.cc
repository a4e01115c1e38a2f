#include "engines/sql/mariadb/schema.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/text.h"
#include "engines/sql/mariadb/error_number.h"
#include "engines/sql/rows.h"

namespace idmint::stores::mariadb {
namespace {

using std::chrono::milliseconds;

// How a connection is to be, whatever the server or the user say. A statement that nobody waits for
// any more is ended by the server after the deadline of the store.
std::string set_up(milliseconds deadline, Access access) {
  const std::int64_t ms = std::clamp<std::int64_t>(deadline.count(), 1, 30'000'000'000);
  const std::string whole = std::to_string(ms / 1000);
  const std::string rest = std::to_string(1000 + ms % 1000).substr(1);
  const std::string lock = std::to_string(std::min<std::int64_t>(ms / 1000 + 1, 1'000'000));
  return "SET SESSION autocommit = 1, completion_type = 0, tx_isolation = 'READ-COMMITTED',"
         " sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION',"
         " time_zone = '+00:00', max_statement_time = " +
         whole + "." + rest + ", innodb_lock_wait_timeout = " + lock +
         ", tx_read_only = " + (access == Access::kReadOnly ? "1" : "0");
}

// The name of the database, as it is compared by the server's rules.
#define IDMINT_PLACE \
  "CAST(IF(@@global.lower_case_table_names = 0, DATABASE(), LOWER(DATABASE())) AS BINARY)"

#define IDMINT_RECORD                                      \
  "SELECT id, schema_version, server, @@global.server_id," \
  " (SELECT json FROM idmint_definitions WHERE name = $1)"
constexpr Query kRecord{"record",
                        IDMINT_RECORD ", place IN ('', " IDMINT_PLACE
                                      "), gone_back, settled FROM idmint_store",
                        Kind::kRead};
constexpr Query kOlderRecord{"older_record",
                             IDMINT_RECORD
                             ", 1, '', -1, (SELECT COUNT(*) FROM information_schema.columns"
                             "  WHERE table_schema = DATABASE() AND table_name = 'idmint_store')"
                             " FROM idmint_store",
                             Kind::kRead};
#undef IDMINT_RECORD
constexpr Query kSettings{
    "settings",
    "SELECT LOWER(variable_name), variable_value FROM information_schema.global_variables"
    " WHERE variable_name IN ('version', 'innodb_flush_log_at_trx_commit', 'innodb_doublewrite',"
    "  'innodb_flush_method', 'log_bin', 'sync_binlog', 'binlog_format', 'read_only', 'wsrep_on')"
    " UNION ALL SELECT 'slaves_running', variable_value FROM information_schema.global_status"
    " WHERE variable_name = 'slaves_running'"
    " UNION ALL SELECT 'other_engine', table_name FROM information_schema.tables"
    " WHERE table_schema = DATABASE() AND LEFT(table_name, 7) = 'idmint_' AND engine <> 'InnoDB'",
    Kind::kRead};
constexpr Query kTables{"tables",
                        "SELECT COUNT(*), COALESCE(SUM(table_name = 'idmint_store'), 0)"
                        " FROM information_schema.tables WHERE table_schema = DATABASE()"
                        "  AND LEFT(table_name, 7) = 'idmint_'",
                        Kind::kRead};
constexpr Query kMakeRecord{"make_record",
                            "INSERT INTO idmint_store (single, id, schema_version, server, place)"
                            " VALUES (1, $1, $2, @@global.server_id, " IDMINT_PLACE
                            ")"
                            " ON DUPLICATE KEY UPDATE single = idmint_store.single",
                            Kind::kWrite};

// idmint_store first: without it the others are not ours.
constexpr std::array kMakeTables = {
    R"(CREATE TABLE IF NOT EXISTS idmint_store (
  single tinyint PRIMARY KEY CHECK (single = 1),
  id binary(16) NOT NULL,
  schema_version int NOT NULL,
  server bigint NOT NULL,
  place varbinary(256) NOT NULL DEFAULT '',
  gone_back varbinary(1024) NOT NULL DEFAULT '',
  settled bigint NOT NULL DEFAULT 0
) ENGINE=InnoDB)",
    R"(CREATE TABLE IF NOT EXISTS idmint_counters (
  name varbinary(1024) PRIMARY KEY,
  first bigint NOT NULL,
  last bigint NOT NULL,
  stride bigint NOT NULL,
  next bigint NOT NULL,
  taken_from bigint NOT NULL,
  granted tinyint NOT NULL,
  closed tinyint NOT NULL,
  adopted varbinary(1000) NOT NULL,
  CHECK (0 <= first AND 1 <= stride AND first <= next AND next <= last + stride),
  CHECK ((next - first) % stride = 0)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC)",
    R"(CREATE TABLE IF NOT EXISTS idmint_definitions (
  name varbinary(1024) PRIMARY KEY,
  json longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC)",
    R"(CREATE TABLE IF NOT EXISTS idmint_spaces (
  name varbinary(1024) PRIMARY KEY,
  closed tinyint NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC)",
    R"(CREATE TABLE IF NOT EXISTS idmint_claims (
  space varbinary(1024),
  number bigint,
  PRIMARY KEY (space, number)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC)",
    R"(CREATE TABLE IF NOT EXISTS idmint_workers (
  pool varbinary(1024),
  worker bigint CHECK (worker >= 0),
  token binary(16),
  holder varbinary(4096) NOT NULL,
  generation bigint NOT NULL,
  minted_until bigint NOT NULL CHECK (minted_until >= 0),
  taken_from bigint NOT NULL,
  held_until bigint NOT NULL,
  nonce binary(16),
  granted tinyint NOT NULL,
  PRIMARY KEY (pool, worker)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC)"};

}  // namespace

constinit const Query Dialect::kMarkGoneBack{
    "mark_gone_back",
    "UPDATE idmint_store SET gone_back = $1 WHERE settled = $2 AND gone_back = '' AND id = {id}",
    Kind::kWrite};

// A count that two copies of a store, each settled for itself, do not share.
const Query& Dialect::settle(const Record& record) {
  static constexpr Query kSettle{
      "settle",
      "UPDATE idmint_store SET server = @@global.server_id, place = " IDMINT_PLACE
      ", gone_back = '', settled = GREATEST(settled + 1, UNIX_TIMESTAMP()) WHERE id = {id}",
      Kind::kWrite};
  static constexpr Query kSettleOlder{
      "settle_older", "UPDATE idmint_store SET server = @@global.server_id WHERE id = {id}",
      Kind::kWrite};
  return record.settled < 0 ? kSettleOlder : kSettle;
}

// Waits for nobody who reads the store, such as a dump, as all others would wait for it.
std::expected<void, Failure> Dialect::upgrade(Connection& connection, SteadyTime until) {
  for (const char* const sql :
       {"ALTER TABLE idmint_store WAIT 1"
        " ADD COLUMN IF NOT EXISTS place varbinary(256) NOT NULL DEFAULT '',"
        " ADD COLUMN IF NOT EXISTS gone_back varbinary(1024) NOT NULL DEFAULT '',"
        " ADD COLUMN IF NOT EXISTS settled bigint NOT NULL DEFAULT 0",
        "UPDATE idmint_store SET place = " IDMINT_PLACE " WHERE place = ''"})
    if (auto done = connection.execute(sql, until); !done) return done;
  return {};
}

Values Dialect::rows(std::span<const sql::NewRow> rows) {
  std::string list = "[";
  for (const auto& [counter, next] : rows) {
    const CounterBounds& bounds = counter.bounds;
    if (list.size() > 1) list += ',';
    list += "[\"" + hex(counter.name) + "\"," + std::to_string(bounds.first) + "," +
            std::to_string(bounds.last) + "," + std::to_string(bounds.stride) + ",\"" +
            hex(counter.adopted) + "\"," + std::to_string(next) + "]";
  }
  return {Text{list + "]"}};
}

Values Dialect::workers(std::string_view pool, std::int64_t workers) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(workers));
  std::iota(ids.begin(), ids.end(), 0);
  return {std::string(pool), list_of(ids)};
}

Values Dialect::swaps(std::span<const WorkerSwap> swaps) {
  std::string list = "[";
  const auto add_number = [&](std::int64_t number) { list += std::to_string(number) + ","; };
  const auto add_text = [&](std::string_view text) { list += "\"" + hex(text) + "\","; };
  const auto add_uuid = [&](const Uuid& id) {
    add_text(id == Uuid{} ? std::string_view()
                          : std::string_view(reinterpret_cast<const char*>(id.bytes().data()),
                                             id.bytes().size()));
  };
  const auto add_row = [&](const WorkerRow& row, bool with_holder) {
    add_uuid(row.state.token);
    if (with_holder) add_text(row.state.holder);
    add_number(row.state.generation);
    add_number(row.state.minted_until);
    add_number(row.state.taken_from.value_or(0));
    add_uuid(row.nonce);
  };
  for (const auto& [from, to] : swaps) {
    list += list.size() > 1 ? ",[" : "[";
    add_number(from.state.worker);
    add_row(from, false);
    add_row(to, true);
    list += std::to_string(to.state.held_for.count()) + "]";
  }
  return {Text{list + "]"}};
}

std::expected<std::unique_ptr<Connection>, Failure> Dialect::login(const Address& address,
                                                                   std::size_t server,
                                                                   milliseconds deadline,
                                                                   Access access,
                                                                   SteadyTime until) {
  auto connection = Connection::open(address, address.servers[server], until);
  if (!connection) return connection;
  if (auto set = (*connection)->execute(set_up(deadline, access), until, Kind::kRead); !set)
    return std::unexpected(std::move(set.error()));
  return connection;
}

std::expected<Dialect::Site, Failure> Dialect::read_site(Connection& connection,
                                                         std::string_view definition,
                                                         SteadyTime until) {
  auto rows = connection.run(kSettings, {}, until);
  if (!rows) return std::unexpected(std::move(rows.error()));
  Site site;
  for (int i = 0; i < rows->size(); ++i) {
    const Row row = (*rows)[i];
    std::string& others = site.settings.other_engines;
    if (row.bytes(0) == "other_engine")
      others += (others.empty() ? "" : ", ") + std::string(row.bytes(1));
    else
      site.settings.variables.emplace(row.bytes(0), row.bytes(1));
  }
  rows = connection.run(mariadb::kRecord, {std::string(definition)}, until);
  const bool older = !rows && rows.error().reason == std::to_string(kNoSuchColumn);
  if (older) rows = connection.run(kOlderRecord, {std::string(definition)}, until);
  // The condition of an older store fails with kOtherColumns once another process has added the
  // columns.
  const bool has_only_older = older && rows && !rows->empty() && (*rows)[0].integer(8) == 4;
  if (!older)
    connection.compares_place(" AND t.place IN ('', " IDMINT_PLACE ") AND t.gone_back = ''");
  else if (has_only_older)
    connection.compares_place(
        " AND (t.single, t.id, t.schema_version, t.server) = (SELECT * FROM idmint_store)");
  else
    connection.compares_place("");
  if (!rows) {
    if (rows.error().reason == std::to_string(kNoSuchTable)) return site;
    return std::unexpected(std::move(rows.error()));
  }
  if (rows->empty()) return site;
  const Row row = (*rows)[0];
  site.record = Record{.id = sql::uuid_in(row, 0),
                       .schema = row.integer(1),
                       .server = row.integer(2),
                       .server_now = row.integer(3),
                       .same_place = row.integer(5) != 0,
                       .gone_back = std::string(row.bytes(6)),
                       .settled = row.integer(7)};
  if (const std::string_view json = row.bytes(4); !json.empty()) site.record->definition = json;
  return site;
}

std::optional<Error> Dialect::refused_settings(const Site& site, std::string_view url) {
  const Settings& settings = site.settings;
  const auto refuse_it = [&](const std::string& what, const std::string& instead) {
    return at_place(url, {Code::kFailedPrecondition, what + "; " + instead});
  };
  const auto value = [&](std::string_view name) -> std::string {
    const auto at = settings.variables.find(name);
    return at != settings.variables.end() ? at->second : "";
  };
  const std::string version = value("version");
  if (!version.contains("MariaDB"))
    return refuse_it("the server is not MariaDB (version \"" + version + "\")",
                     "name one of MariaDB 10.11 or later");
  constexpr std::string_view kFile = " in the server's configuration";
  const auto wrong = [&](const std::string& name, const std::string& right,
                         const std::string& why) {
    return refuse_it("the server runs with " + name + " = " + value(name) + ", and " + why,
                     "set " + name + " = " + right + std::string(kFile) +
                         std::string(name == "binlog_format" ? "" : sql::kAfterACrash));
  };
  if (value("innodb_flush_log_at_trx_commit") != "1")
    return wrong("innodb_flush_log_at_trx_commit", "1",
                 "loses values that were handed out when its host stops");
  if (value("innodb_doublewrite") == "OFF" || value("innodb_doublewrite") == "0")
    return wrong("innodb_doublewrite", "ON",
                 "may lose whole pages when its host stops while it writes them");
  if (const std::string method = value("innodb_flush_method");
      method == "nosync" || method == "littlesync")
    return wrong("innodb_flush_method", "O_DIRECT",
                 "loses values that were handed out when its host stops");
  // With a binary log, recovery rolls back what InnoDB has and the log lacks.
  if (value("log_bin") != "OFF") {
    if (value("sync_binlog") != "1")
      return wrong("sync_binlog", "1",
                   "takes back values that were handed out when its host stops before the binary "
                   "log is on its disk");
    if (value("binlog_format") == "STATEMENT")
      return wrong("binlog_format", "MIXED", "its replicas would repeat statements, not values");
  }
  if (value("wsrep_on") == "ON")
    return refuse_it(
        "the server belongs to a Galera cluster, whose members hand out values without "
        "asking each other first",
        "name a server that is in none (wsrep_on = OFF)");
  if (value("read_only") != "OFF" && value("read_only") != "0")
    return refuse_it("the server is read-only (read_only = " + value("read_only") + ")",
                     "name the primary, or set read_only = OFF");
  if (const std::string running = value("slaves_running"); running != "0")
    return refuse_it("the server is a replica, which can lag behind", "name the primary");
  if (!settings.other_engines.empty()) {
    const std::string first = settings.other_engines.substr(0, settings.other_engines.find(','));
    return refuse_it(
        "it has tables that are not of InnoDB: " + settings.other_engines,
        "convert each: ALTER TABLE " + first + " ENGINE = InnoDB" + std::string(sql::kAfterACrash));
  }
  return std::nullopt;
}

std::optional<Error> Dialect::doubt_of(const Record& record, std::string_view url) {
  if (!record.gone_back.empty()) return sql::gone_back(url, record.gone_back);
  if (record.server != record.server_now)
    return in_doubt(url, "the server has the server_id " + std::to_string(record.server_now) +
                             ", and the store was on " + std::to_string(record.server) +
                             ": a replica was promoted, or the store was copied");
  if (!record.same_place)
    return in_doubt(url,
                    "it is in another database than before: it was copied, or its tables were "
                    "renamed into this one");
  return std::nullopt;
}

// Each is a transaction by itself: after an error the same call again makes the rest.
std::expected<void, Failure> Dialect::make(Connection& connection, const Uuid& id,
                                           SteadyTime until) {
  const auto there = connection.run(kTables, {}, until);
  if (!there) return std::unexpected(there.error());
  if (!there->empty() && (*there)[0].integer(0) != 0 && (*there)[0].integer(1) == 0)
    return std::unexpected(
        Failure{.error = {Code::kFailedPrecondition,
                          "it has tables idmint_* of another program, and no idmint_store; they "
                          "were left as they are: name another database"}});
  for (const char* const sql : kMakeTables)
    if (auto made = connection.execute(sql, until); !made) return made;
  const auto made = connection.run(kMakeRecord, {value(id), value(kSchemaVersion)}, until);
  if (!made) return std::unexpected(made.error());
  return {};
}

}  // namespace idmint::stores::mariadb
