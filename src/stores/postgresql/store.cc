// postgresql://... and postgres://...: the schema `idmint` of a database. schema.h has its tables.
//
// Each call that changes something is one statement, which is a transaction by itself, and is
// durable when it is answered: idmint sets synchronous_commit on each connection, and refuses a
// server whose settings would not keep the value. One that hands something out has in its own
// condition that the store is complete on this server (schema.h).
#include "idmint/store.h"

#include <utility>

#include "ids/lease_table.h"
#include "stores/backend.h"
#include "stores/postgresql/driver.h"
#include "stores/postgresql/tables.h"

namespace idmint::stores {
namespace postgresql {
namespace {

constexpr Query kClock{"clock", "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint",
                       Kind::kRead};

class PostgresqlStore final : public Store {
 public:
  PostgresqlStore(Address address, const StoreOptions& options, Entropy& entropy)
      : database_(std::move(address), options.deadline, options.access, entropy) {}

  Result<void> open(const StoreOptions& options) {
    return database_.open(options, [&](std::string_view json) {
      definitions_.first().remember(options.first_definition, json);
    });
  }

  const Uuid& id() const noexcept override { return database_.id(); }
  std::string_view url() const noexcept override { return database_.url(); }
  milliseconds deadline() const noexcept override { return database_.deadline(); }
  CounterStore* counters() noexcept override { return counters_.get(); }
  Catalog* catalog() noexcept override { return &definitions_; }
  UniqueIndex* unique_index() noexcept override { return claims_.get(); }
  LeaseTable* leases() noexcept override { return workers_.get(); }
  std::optional<Error> doubt() override { return database_.doubt(); }
  Result<void> settle(Settle /*how*/) override { return database_.settle(); }

  Result<std::optional<Instant>> time(SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter_to_read(by);
    if (!until) return std::unexpected(until.error());
    const Result<Rows> rows = database_.run(kClock, {}, *until, "read the clock in");
    if (!rows) return std::unexpected(rows.error());
    if (rows->empty()) return std::nullopt;
    return Instant{milliseconds{(*rows)[0].integer(0)}};
  }

 private:
  Database database_;
  Definitions definitions_{database_};
  const std::shared_ptr<CounterStore> counters_ = counters_of(database_);
  const std::shared_ptr<UniqueIndex> claims_ = claims_of(database_);
  const std::shared_ptr<LeaseTable> workers_ = workers_of(database_);
};

}  // namespace
}  // namespace postgresql

namespace {

Result<std::unique_ptr<Store>> open_postgresql(std::string_view url, const StoreOptions& options,
                                               Entropy& entropy) {
  if (Result<void> loaded = postgresql::load_libpq(); !loaded)
    return std::unexpected(std::move(loaded.error()));
  Result<postgresql::Address> address = postgresql::parse_address(url);
  if (!address) return std::unexpected(std::move(address.error()));
  auto store = std::make_unique<postgresql::PostgresqlStore>(*std::move(address), options, entropy);
  if (Result<void> ok = store->open(options); !ok) return std::unexpected(std::move(ok.error()));
  return store;
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
    .open = open_postgresql};

}  // namespace idmint::stores
