// mysql://... and mariadb://...: tables in a database of MariaDB. schema.h has them.
//
// Each call that changes something is one statement, which is a transaction by itself, and is
// durable when it is answered: idmint refuses a server whose settings would not keep the value. One
// that hands something out has in its own condition that the store is complete on this server
// (schema.h).
#include "idmint/store.h"

#include <chrono>
#include <memory>
#include <string_view>
#include <utility>

#include "engines/sql/existing_values.h"
#include "engines/sql/mariadb/driver.h"
#include "engines/sql/mariadb/schema.h"
#include "engines/sql/store.h"
#include "store/backend.h"

namespace idmint::stores {
namespace mariadb {

extern const sql::Statements kStatements;

}  // namespace mariadb

namespace {

Result<std::unique_ptr<Store>> open_mariadb(std::string_view url, const StoreOptions& options,
                                            Entropy& entropy) {
  if (Result<void> loaded = mariadb::load_libmariadb(); !loaded)
    return std::unexpected(std::move(loaded.error()));
  Result<mariadb::Address> address = mariadb::parse_address(url);
  if (!address) return std::unexpected(std::move(address.error()));
  auto store = std::make_unique<sql::SqlStore<mariadb::Dialect>>(
      *std::move(address), mariadb::kStatements, options, entropy);
  if (Result<void> ok = store->open(options); !ok) return std::unexpected(std::move(ok.error()));
  return store;
}

Result<std::unique_ptr<ExistingValues>> open_mariadb_column(std::string_view url,
                                                            std::string_view table,
                                                            std::string_view column,
                                                            const ExistingForm& form,
                                                            std::chrono::milliseconds deadline) {
  if (Result<void> loaded = mariadb::load_libmariadb(); !loaded)
    return std::unexpected(std::move(loaded.error()));
  return sql::open_column<mariadb::Dialect>(mariadb::parse_address(url), table, column, form,
                                            deadline);
}

}  // namespace

extern const Backend kMariadb;
constinit const Backend kMariadb{
    .kind = {.scheme = "mysql",
             .example = "mysql://USER@HOST/DATABASE",
             .about = "MariaDB 10.11 or later, any number of hosts; a fail-over that may have lost "
                      "values is noticed",
             .durability = "every value is in InnoDB's log, and in the binary log where there is "
                           "one, before it is handed out",
             .shared = true},
    .other_scheme = "mariadb",
    .open = open_mariadb,
    .existing_values = open_mariadb_column,
    .adoption = &mariadb::Dialect::kAdoption};

}  // namespace idmint::stores
