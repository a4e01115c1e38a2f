// The tables of a store in a database of PostgreSQL, and what its own record says.
//
// Version 1, in the schema `idmint`:
//
//   store        one row:
//                id (uuid), schema (1)
//                system, timeline: of the server that the store is known to be complete on, the
//                identifier of the cluster and the timeline of the write-ahead log
//                database, relation: the same, the oid of the database and of this table, which are
//                others where a dump was restored or the database copied. (No rename, VACUUM, ALTER
//                or REINDEX changes them.)
//                relations: likewise the oids of the other tables, which a dump of one of them may
//                make anew alone
//                settled: Store::settle_count()
//                gone_back: what a process saw of values that the store has lost, or an empty text
//   counters     name, first, last, stride, next, taken_from, closed, adopted (the text of the
//                record of another program that has the value, see adoption.cc; otherwise empty)
//   definitions  name, json (to_json)
//   spaces       name, closed
//   claimed      space, part, claimed: how many claims a space has, as a sum over its parts, so
//                that those who claim at once do not wait for each other
//   claims       space, key
//   pools        name, workers
//   workers      pool, worker, token (NULL: no owner), holder, generation, minted_until,
//                taken_from, held_until, nonce (of the latest extension; NULL: none)
//   trusted      a view: one row, if a statement may hand something out now; otherwise none
//
// Older stores lack the five columns after `timeline`, or `relations` alone; the first process that
// may adds them. Without them a store goes on as before.
//
// Names are text as names.h says. `next` is what the next advance hands out; of an adopted counter,
// the floor: the next value that idmint knows, below which its record was set back. `taken_from` is
// where the latest take began, kept so that the UPDATE can return it.
//
// A new timeline begins when a standby is promoted, or a backup is recovered. Data of the old one
// that its server had not received is missing there, and nothing else tells. So every statement
// that hands something out has the row of `trusted` in its own condition, and with it the settings
// without which a crash of the host loses what was acknowledged.
//
// The schema may be dropped and made again while a process has a connection. So every statement
// that writes compares the id of the store with the one that the process opened.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engines/sql/adopted_record.h"
#include "engines/sql/existing_values.h"
#include "engines/sql/postgresql/address.h"
#include "engines/sql/postgresql/connection.h"
#include "engines/sql/postgresql/names.h"
#include "engines/sql/query.h"
#include "idmint/result.h"
#include "idmint/store.h"
#include "idmint/uuid.h"
#include "store/counter_store.h"
#include "store/engine.h"
#include "store/sessions.h"

namespace idmint::stores::postgresql {

// In the condition of each Query that writes. The settings that make the writes of a connection
// durable are kept by one process of the server. A pooler may give a transaction to another
// process: there the division fails (kOtherBackend). Connection::run() puts in the {backend}.
#define IDMINT_OWN_BACKEND "1 / (CASE pg_backend_pid() WHEN {backend} THEN 1 ELSE 0 END) = 1"
// In the condition of each Query that writes, with that. Connection::run() puts in the {id}.
#define IDMINT_OWN_STORE \
  "EXISTS (SELECT FROM idmint.store WHERE id = '{id}') AND " IDMINT_OWN_BACKEND
// In the condition of each Query of Kind::kHandOut.
#define IDMINT_TRUSTED "EXISTS (SELECT FROM idmint.trusted) AND " IDMINT_OWN_STORE

// The settings that decide whether a crash of the server loses acknowledged writes.
struct Settings {
  std::string fsync{};
  std::string full_page_writes{};
  std::string synchronous_commit{};
  std::string unlogged{};  // tables of ours that a crash empties
};

// The store's record of itself, and the server's state, at one time.
struct Record {
  Uuid id{};
  std::int64_t schema = 0;
  std::string system{};
  std::string timeline{};

  std::string system_now{};
  std::string timeline_now{};
  std::int64_t database_now = 0;  // its oid
  bool same_database = true;
  bool same_relations = true;
  bool has_relations = false;
  std::string gone_back{};
  std::int64_t settled = -1;  // -1: an older store, which lacks the columns
  bool may_upgrade = false;
  // The definition that was asked for with it, if it is there.
  std::optional<std::string> definition{};

  [[nodiscard]] bool is_older() const { return !has_relations; }
  [[nodiscard]] std::string place() const {
    return system_now + "/" + std::to_string(database_now);
  }
  // The cluster or the database is another than that of the store. Neither changes while a
  // connection lasts.
  [[nodiscard]] bool is_elsewhere() const { return system != system_now || !same_database; }
};

// As sql::Database asks for.
struct Dialect {
  using Address = postgresql::Address;
  using Connection = postgresql::Connection;
  using Values = postgresql::Values;
  using Rows = postgresql::Rows;
  using Row = postgresql::Row;
  using Record = postgresql::Record;

  struct Site {
    Settings settings{};
    bool has_schema = false;  // idmint
    std::optional<Record> record{};
  };

  static constexpr std::string_view kRecord = "idmint.store";
  static constexpr std::int64_t kSchemaVersion = 1;
  static constexpr std::size_t kAtOnce = CounterStore::kMaxCounters;
  static const Query kMarkGoneBack;
  static const sql::AdoptionRules kAdoptionRules;
  static const sql::RecordAdoption kAdoption;
  static const sql::ColumnStatements kColumnStatements;

  static std::string text(std::string_view text) { return std::string(text); }
  static std::string value(std::int64_t value) { return std::to_string(value); }
  static std::string value(const Uuid& id) { return id.to_string(); }
  static std::string value(sql::Name name) { return stored_name(name.name); }
  static std::string value(sql::Json json) { return std::string(json.json); }
  static std::string names(std::span<const std::string> names);
  static std::string numbers(std::span<const std::int64_t> numbers) { return array_of(numbers); }
  static Values rows(std::span<const sql::NewRow> rows);
  static Values prefix(std::string_view prefix);
  static Values workers(std::string_view pool, std::int64_t workers) {
    return {value(sql::Name{pool}), value(workers)};
  }
  static Values swaps(std::span<const WorkerSwap> swaps);
  static std::string name_of(std::string_view stored) { return postgresql::name_of(stored); }

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

}  // namespace idmint::stores::postgresql
