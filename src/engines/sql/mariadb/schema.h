// The tables of a store in a database of MariaDB, and what its own record says.
//
// Version 1, all InnoDB, in the database that the URL names:
//
//   idmint_store        one row:
//                       id, schema_version (1)
//                       server: the server_id of the server that the store is known to be complete
//                       on
//                       place: the same, the name of the database; empty: not known
//                       settled: Store::settle_count()
//                       gone_back: what a process saw of values that the store has lost, or empty
//   idmint_counters     name, first, last, stride, next, taken_from, granted, closed, adopted (the
//                       text of the record of another program that has the value, see adoption.cc;
//                       otherwise empty)
//   idmint_definitions  name, json (to_json)
//   idmint_spaces       name, closed
//   idmint_claims       space, number
//   idmint_workers      pool, worker, token (NULL: no owner), holder, generation, minted_until,
//                       taken_from, held_until (ms since 1970), nonce (of the latest extension;
//                       NULL: none), granted
//
// Older stores lack the last three columns of idmint_store; the first process that may adds them.
// Without them a store goes on as before.
//
// `next` is what the next advance hands out; of an adopted counter, the floor: the next value that
// idmint knows, below which its record was set back. `taken_from` is where the latest take began.
// `granted`: whether the latest advance that locked the row was given what it asked for; of a
// worker id it is 0, and older versions write it.
//
// MariaDB 10.11 has no UPDATE that returns rows. An UPDATE with LAST_INSERT_ID(next) returns one
// number in one round trip, and an advance needs three; a SELECT of user variables after it is
// another statement, and in a procedure it needs a right of its own. So a statement that changes
// rows and returns them is an INSERT of rows that are there already, ON DUPLICATE KEY UPDATE, with
// RETURNING: one statement, one transaction and one round trip. Its SELECT finds the rows without
// locking them, and only its UPDATE, which has the row locked, decides: the condition stands there
// again, as `granted`. The rows are locked by their primary key alone, under READ COMMITTED, and
// several in the order of their keys, so no two statements wait for each other.
//
// A replica has another server_id than its primary, or MariaDB does not replicate. When it is
// promoted, what it had not received is missing there, and nothing else tells. A copy on the same
// server is in another database. So every statement that hands something out has both of the record
// in its own condition. It also has the settings that can change while the server runs and without
// which a crash of the host loses what was acknowledged.
//
// The database may be dropped and made again while a process has a connection. So every statement
// that writes compares the id of the store with the one that the process opened.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engines/sql/adopted_record.h"
#include "engines/sql/existing_values.h"
#include "engines/sql/mariadb/address.h"
#include "engines/sql/mariadb/connection.h"
#include "engines/sql/query.h"
#include "idmint/result.h"
#include "idmint/store.h"
#include "idmint/uuid.h"
#include "store/counter_store.h"
#include "store/engine.h"
#include "store/sessions.h"

namespace idmint::stores::mariadb {

// In the condition of each Query that writes. Connection::run() puts in the {id}.
#define IDMINT_OWN_STORE "EXISTS (SELECT 1 FROM idmint_store o WHERE o.id = {id})"
// In the condition of each Query of Kind::kHandOut, with idmint_store as t. Connection::run() also
// puts in the {place}.
#define IDMINT_TRUSTED                                      \
  "t.id = {id} AND t.server = @@global.server_id"           \
  " AND @@global.innodb_flush_log_at_trx_commit = 1"        \
  " AND (@@global.log_bin = 0 OR @@global.sync_binlog = 1)" \
  " AND @@global.read_only = 0{place}"

// The settings that decide whether a crash of the server, or a fail-over that it does by itself,
// loses acknowledged writes. By name, in lower case; a variable that the server does not have is
// missing.
struct Settings {
  std::map<std::string, std::string, std::less<>> variables{};
  std::string other_engines{};  // tables of ours that are not InnoDB
};

// The store's record of itself, and the server's state, at one time.
struct Record {
  Uuid id{};
  std::int64_t schema = 0;
  std::int64_t server = 0;
  std::int64_t server_now = 0;
  bool same_place = true;
  std::string gone_back{};
  std::int64_t settled = -1;                 // -1: an older store, which lacks the columns
  static constexpr bool may_upgrade = true;  // which only the attempt shows
  // The definition that was asked for with it, if it is there.
  std::optional<std::string> definition{};

  // Nothing tells a server for sure: many have the same server_id, and a replica another one.
  [[nodiscard]] static std::string place() { return {}; }
  [[nodiscard]] bool is_older() const { return settled < 0; }
  [[nodiscard]] bool is_elsewhere() const { return server != server_now || !same_place; }
};

// As sql::Database asks for.
struct Dialect {
  using Address = mariadb::Address;
  using Connection = mariadb::Connection;
  using Values = mariadb::Values;
  using Rows = mariadb::Rows;
  using Row = mariadb::Row;
  using Record = mariadb::Record;

  struct Site {
    Settings settings{};
    std::optional<Record> record{};
  };

  static constexpr std::string_view kRecord = "idmint_store";
  static constexpr std::int64_t kSchemaVersion = 1;
  // Names may be long, and max_allowed_packet is what a server takes at once.
  static constexpr std::size_t kAtOnce = 1000;
  static const Query kMarkGoneBack;
  static const sql::AdoptionRules kAdoptionRules;
  static const sql::RecordAdoption kAdoption;
  static const sql::ColumnStatements kColumnStatements;

  static Value text(std::string_view text) { return Text{std::string(text)}; }
  static Value value(std::int64_t value) { return value; }
  static Value value(const Uuid& id) {
    return std::string(reinterpret_cast<const char*>(id.bytes().data()), id.bytes().size());
  }
  static Value value(sql::Name name) { return std::string(name.name); }
  static Value value(sql::Json json) { return Text{std::string(json.json)}; }
  static Value names(std::span<const std::string> names) { return list_of(names); }
  static Value numbers(std::span<const std::int64_t> numbers) { return list_of(numbers); }
  static Values rows(std::span<const sql::NewRow> rows);
  static Values prefix(std::string_view prefix) { return {std::string(prefix)}; }
  static Values workers(std::string_view pool, std::int64_t workers);
  static Values swaps(std::span<const WorkerSwap> swaps);
  static std::string name_of(std::string_view stored) { return std::string(stored); }

  static std::expected<std::unique_ptr<Connection>, Failure> login(
      const Address& address, std::size_t server, std::chrono::milliseconds deadline, Access access,
      SteadyTime until);
  static std::expected<Site, Failure> read_site(Connection& connection, std::string_view definition,
                                                SteadyTime until);
  static std::expected<void, Failure> make(Connection& connection, const Uuid& id,
                                           SteadyTime until);
  static std::expected<void, Failure> upgrade(Connection& connection, SteadyTime until);
  static const Query& settle(const Record& record);
  static std::optional<Error> refused_settings(const Site& site, std::string_view url);
  static std::optional<Error> doubt_of(const Record& record, std::string_view url);
};

}  // namespace idmint::stores::mariadb
