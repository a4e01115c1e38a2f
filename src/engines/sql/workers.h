// Workers: the worker ids of an SQL server, whatever its dialect.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "engines/sql/database.h"
#include "engines/sql/rows.h"
#include "ids/lease_table.h"
#include "store/backend.h"
#include "store/callers_clock.h"
#include "store/protocol/lease_rules.h"

namespace idmint::stores::sql {

// The statements of an engine, with their values -> the columns of their rows. In those with
// "clocks", the clock of the caller showed `clock` ms since 1970 when the statement was sent, and
// must be at most `skew` ms from that of the server when it comes; below 0 nothing is compared.
struct WorkerStatements {
  Query create_pool;  // Engine::workers(); a pool that is there stays as it is
  Query pool;         // name -> how many worker ids it has
  // pool 1, token 2, the clock of the pool 3, units 4 (as lease_end(), at least 1), the largest
  // minted_until 5, holder 6, for how many ms 7, clocks 8 and 9
  // -> worker, generation, taken_from, minted_until, whether it was given
  Query acquire;
  // pool, token -> minted_until and the server's clock, of the row that acquire would choose but
  // for its largest minted_until
  Query free_worker;
  // pool 1, worker 2, token 3, generation 4, the bound that is named 5, nonce 6, for how many ms 7,
  // clocks 8 and 9, the new end 10; as may_extend()
  Query extend;
  Query release;      // pool, worker, token, generation
  Query raise_floor;  // pool, floor, generation
  Query worker;       // pool, worker -> as in worker_of(), then nonce and the server's clock
  Query workers;      // pool -> the same, sorted by worker id
};

template <class Engine>
class Workers final : public LeaseTable {
 public:
  // Both must outlive it.
  Workers(Database<Engine>& database, const WorkerStatements& statements)
      : database_(database), sql_(statements) {}

 private:
  using Rows = typename Engine::Rows;
  using Row = typename Engine::Row;

  static constexpr int kNonce = 7;  // columns of sql_.worker and sql_.workers
  static constexpr int kNow = 8;

  Result<void> do_create_pool(std::string_view pool, std::int64_t workers) override {
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    const Result<Rows> made = database_.change(sql_.create_pool, Engine::workers(pool, workers),
                                               *until, "make worker ids in");
    // kAlreadyExists: another made it meanwhile.
    if (!made && made.error().code != Code::kAlreadyExists) return std::unexpected(made.error());
    const Result<std::int64_t> there = size_of(pool, *until);
    if (there && *there == workers) return {};
    if (there) return std::unexpected(other_pool(pool, *there, workers));
    return std::unexpected(database_.why_not_made(there.error(), *until));
  }

  Result<Lease> do_acquire(std::string_view pool, const LeaseRequest& request,
                           SteadyTime by) override {
    const CallersClock clock(request.terms);
    const Result<SteadyTime> until = database_.enter(by);
    if (!until) return std::unexpected(until.error());
    for (;;) {
      const Result<Rows> rows =
          database_.run(sql_.acquire,
                        values_of<Engine>(Name{pool}, request.token, request.now, request.units,
                                          request.now + request.max_drift, Name{request.holder},
                                          std::int64_t{request.terms.held.count()},
                                          since_1970(clock.now()), clock.max_skew()),
                        *until, "lease a worker id from");
      if (!rows) return std::unexpected(rows.error());
      if (!rows->empty()) {
        const Row row = (*rows)[0];
        if (row.integer(4) != 0)
          return Lease{row.integer(0), request.token, row.integer(1), row.integer(2),
                       row.integer(3)};
      }
      if (Result<void> none = why_none(pool, request, clock, *until); !none)
        return std::unexpected(std::move(none.error()));
      // Another holds the row just now.
      std::this_thread::sleep_until(
          std::min(*until, std::chrono::steady_clock::now() + std::chrono::milliseconds{5}));
    }
  }

  Result<Lease> do_extend(std::string_view pool, const Lease& lease, std::int64_t to,
                          const Uuid& nonce, const LeaseTerms& terms, SteadyTime by) override {
    const CallersClock clock(terms);
    const Result<SteadyTime> until = database_.enter(by);
    if (!until) return std::unexpected(until.error());
    // Another round only if the row or a clock has changed between the statements.
    for (;;) {
      const Result<Rows> rows =
          database_.run(sql_.extend,
                        values_of<Engine>(Name{pool}, lease.worker, lease.token, lease.generation,
                                          lease.to, nonce, std::int64_t{terms.held.count()},
                                          since_1970(clock.now()), clock.max_skew(), to),
                        *until, "extend a lease in");
      if (!rows) return std::unexpected(rows.error());
      if (rows->found() != 0) {
        Lease extended = lease;
        extended.to = to;
        return extended;
      }
      if (Result<void> trusted = database_.check_trust(*until); !trusted)
        return std::unexpected(std::move(trusted.error()));
      const Instant before = clock.now();
      const Result<Rows> there = read(pool, lease.worker, *until);
      if (!there) return std::unexpected(there.error());
      const Row row = (*there)[0];
      const LeaseState state = state_of(row);
      const Uuid latest = uuid_in(row, kNonce);
      if (!may_extend(state, latest, lease, to, nonce))
        return std::unexpected(refused_extension(pool, lease, state, latest, nonce));
      if (auto error = apart(pool, clock, before, row.integer(kNow), terms.max_skew))
        return std::unexpected(*std::move(error));
    }
  }

  Result<void> do_release(std::string_view pool, std::int64_t worker, const Uuid& token,
                          std::int64_t generation, SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter(by);
    if (!until) return std::unexpected(until.error());
    const Result<Rows> rows =
        database_.change(sql_.release, values_of<Engine>(Name{pool}, worker, token, generation),
                         *until, "release a worker id of");
    if (!rows) return std::unexpected(rows.error());
    if (rows->found() != 0) return {};
    const Result<Rows> there = read(pool, worker, *until);
    if (!there) return std::unexpected(there.error());
    return std::unexpected(
        refused_lease(pool, {worker, token, generation, 0, 0}, state_of((*there)[0])));
  }

  Result<void> do_raise_floor(std::string_view pool, std::int64_t floor) override {
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    if (const Result<std::int64_t> there = size_of(pool, *until); !there)
      return std::unexpected(there.error());
    const std::int64_t generation = draw_generation(database_.entropy());
    const Result<Rows> rows =
        database_.change(sql_.raise_floor, values_of<Engine>(Name{pool}, floor, generation), *until,
                         "raise the worker ids of");
    if (!rows) return std::unexpected(rows.error());
    return {};
  }

  Result<std::vector<LeaseState>> do_workers(std::string_view pool, SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter_to_read(by);
    if (!until) return std::unexpected(until.error());
    const Result<Rows> rows =
        database_.run(sql_.workers, values_of<Engine>(Name{pool}), *until, "read");
    if (!rows) return std::unexpected(rows.error());
    if (rows->empty()) return std::unexpected(no_pool(pool, database_.url()));
    std::vector<LeaseState> all;
    for (int i = 0; i < rows->size(); ++i) all.push_back(state_of((*rows)[i]));
    return all;
  }

  static LeaseState state_of(const Row& row) {
    LeaseState state = worker_of(row, row.integer(kNow));
    state.holder = Engine::name_of(state.holder);
    return state;
  }

  // `before`: what the caller's clock showed before the server was asked for its own.
  static std::optional<Error> apart(std::string_view pool, const CallersClock& clock,
                                    Instant before, std::int64_t servers,
                                    std::chrono::milliseconds max_skew) {
    if (clock.max_skew() < 0) return std::nullopt;
    return clocks_apart(pool, before, clock.now(), Instant{std::chrono::milliseconds{servers}},
                        max_skew);
  }

  Result<std::int64_t> size_of(std::string_view pool, SteadyTime until) {
    const Result<Rows> rows =
        database_.run(sql_.pool, values_of<Engine>(Name{pool}), until, "read");
    if (!rows) return std::unexpected(rows.error());
    if (rows->empty()) return std::unexpected(no_pool(pool, database_.url()));
    return (*rows)[0].integer(0);
  }

  // The row of a worker id, as sql_.worker has it.
  Result<Rows> read(std::string_view pool, std::int64_t worker, SteadyTime until) {
    Result<Rows> rows =
        database_.run(sql_.worker, values_of<Engine>(Name{pool}, worker), until, "read");
    if (!rows || !rows->empty()) return rows;
    const Result<std::int64_t> there = size_of(pool, until);
    return std::unexpected(there ? no_worker(pool, worker) : there.error());
  }

  // Why there was no row for the request. No error: one may be taken now, and somebody else was
  // quicker.
  Result<void> why_none(std::string_view pool, const LeaseRequest& request,
                        const CallersClock& clock, SteadyTime until) {
    if (Result<void> trusted = database_.check_trust(until); !trusted) return trusted;
    const Instant before = clock.now();
    const Result<Rows> rows = database_.run(
        sql_.free_worker, values_of<Engine>(Name{pool}, request.token), until, "read");
    if (!rows) return std::unexpected(rows.error());
    if (rows->empty()) {
      const Result<std::int64_t> there = size_of(pool, until);
      return std::unexpected(there ? refused_acquire(pool, request, std::nullopt) : there.error());
    }
    const Row row = (*rows)[0];
    if (auto error = apart(pool, clock, before, row.integer(1), request.terms.max_skew))
      return std::unexpected(*std::move(error));
    if (row.integer(0) > request.now + request.max_drift)
      return std::unexpected(refused_acquire(pool, request, row.integer(0)));
    return {};
  }

  Database<Engine>& database_;
  const WorkerStatements& sql_;
};

}  // namespace idmint::stores::sql
