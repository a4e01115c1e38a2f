// postgresql://... and postgres://...: the schema `idmint` of a database. schema.h has its tables.
//
// Each call that changes something is one transaction, of one statement but for a raise of a
// sequence that was adopted (adoption.cc), and is durable when it is answered: idmint sets
// synchronous_commit on each connection, and refuses a server whose settings would not keep the
// value. One that hands something out has in its own condition that the store is complete on this
// server (schema.h).
#include "idmint/store.h"

#include <chrono>
#include <memory>
#include <string_view>
#include <utility>

#include "engines/sql/existing_values.h"
#include "engines/sql/postgresql/driver.h"
#include "engines/sql/postgresql/schema.h"
#include "engines/sql/store.h"
#include "store/backend.h"

namespace idmint::stores {
namespace postgresql {

extern const sql::Statements kStatements;

}  // namespace postgresql

namespace {

Result<std::unique_ptr<Store>> open_postgresql(std::string_view url, const StoreOptions& options,
                                               Entropy& entropy) {
  if (Result<void> loaded = postgresql::load_libpq(); !loaded)
    return std::unexpected(std::move(loaded.error()));
  Result<postgresql::Address> address = postgresql::parse_address(url);
  if (!address) return std::unexpected(std::move(address.error()));
  auto store = std::make_unique<sql::SqlStore<postgresql::Dialect>>(
      *std::move(address), postgresql::kStatements, options, entropy);
  if (Result<void> ok = store->open(options); !ok) return std::unexpected(std::move(ok.error()));
  return store;
}

Result<std::unique_ptr<ExistingValues>> open_postgresql_column(std::string_view url,
                                                               std::string_view table,
                                                               std::string_view column,
                                                               const ExistingForm& form,
                                                               std::chrono::milliseconds deadline) {
  if (Result<void> loaded = postgresql::load_libpq(); !loaded)
    return std::unexpected(std::move(loaded.error()));
  return sql::open_column<postgresql::Dialect>(postgresql::parse_address(url), table, column, form,
                                               deadline);
}

}  // namespace

extern const Backend kPostgresql;
constinit const Backend kPostgresql{
    .kind = {.scheme = "postgresql",
             .example = "postgresql://HOST/DATABASE",
             .about = "PostgreSQL 13 or later, any number of hosts; a fail-over that may have lost "
                      "values is noticed",
             .durability = "every value is in the write-ahead log of the primary, and of its "
                           "synchronous standbys where it has some, before it is handed out",
             .shared = true},
    .other_scheme = "postgres",
    .open = open_postgresql,
    .existing_values = open_postgresql_column,
    .adoption = &postgresql::Dialect::kAdoption};

}  // namespace idmint::stores
