// SqlStore: a store in an SQL server, whatever its dialect.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "engines/sql/claims.h"
#include "engines/sql/counters.h"
#include "engines/sql/database.h"
#include "engines/sql/definitions.h"
#include "engines/sql/workers.h"
#include "idmint/store.h"

namespace idmint::stores::sql {

// All statements of an engine.
struct Statements {
  CounterStatements counters;
  ClaimStatements claims;
  WorkerStatements workers;
  DefinitionStatements definitions;
  Query clock;  // -> the server's clock, in ms since 1970
};

template <class Dialect>
class SqlStore final : public Store {
 public:
  // `statements` must outlive it.
  SqlStore(typename Dialect::Address address, const Statements& statements,
           const StoreOptions& options, Entropy& entropy)
      : sql_(statements),
        database_(std::move(address), options.deadline, options.access, entropy) {}

  Result<void> open(const StoreOptions& options) {
    return database_.open(options, [&](std::string_view json) {
      definitions_.catalog().remember(options.first_definition, json);
    });
  }

  const Uuid& id() const noexcept override { return database_.id(); }
  std::string server() const override { return database_.server(); }
  std::string_view url() const noexcept override { return database_.url(); }
  std::chrono::milliseconds deadline() const noexcept override { return database_.deadline(); }
  CounterStore* counters() noexcept override { return &counters_.counters(); }
  Catalog* catalog() noexcept override { return &definitions_.catalog(); }
  UniqueIndex* unique_index() noexcept override { return &claims_; }
  LeaseTable* leases() noexcept override { return &workers_.leases(); }
  std::optional<Error> doubt(SteadyTime until) override { return database_.doubt(until); }
  Result<void> settle(Settle how) override { return database_.settle(how); }
  std::int64_t settle_count() const noexcept override { return database_.settle_count(); }
  Result<std::int64_t> read_settle_count(SteadyTime until) override {
    return database_.read_settle_count(until);
  }
  Result<void> mark_gone_back(std::string_view why, std::int64_t settled,
                              SteadyTime until) override {
    return database_.mark_gone_back(why, settled, until);
  }

  Result<std::optional<Instant>> time(SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter_to_read(by);
    if (!until) return std::unexpected(until.error());
    const auto rows = database_.run(sql_.clock, {}, *until, "read the clock in");
    if (!rows) return std::unexpected(rows.error());
    if (rows->empty()) return std::nullopt;
    return Instant{std::chrono::milliseconds{(*rows)[0].integer(0)}};
  }

 private:
  const Statements& sql_;
  Database<Dialect> database_;
  DefinitionTable<Dialect> definitions_{database_, sql_.definitions};
  CounterTable<Dialect> counters_{database_, sql_.counters};
  Claims<Dialect> claims_{database_, sql_.claims};
  Workers<Dialect> workers_{database_, sql_.workers};
};

}  // namespace idmint::stores::sql
