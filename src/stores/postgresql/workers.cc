#include <algorithm>

#include "ids/lease_table.h"
#include "stores/backend.h"
#include "stores/postgresql/names.h"
#include "stores/postgresql/tables.h"
#include "stores/sql/rows.h"

namespace idmint::stores::postgresql {
namespace {

#define IDMINT_MS(time) "(extract(epoch FROM " time ") * 1000)::bigint"
// That the clock of the caller, which showed $8 ms since 1970 when the statement was sent, is at
// most $9 ms from that of the server when it came. $9 below 0: nothing is compared.
#define IDMINT_CLOCKS_AGREE \
  "($9::bigint < 0 OR"      \
  " abs(" IDMINT_MS("statement_timestamp()") " - $8::bigint) <= $9::bigint)"
#define IDMINT_FREE "(token = $2::uuid OR token IS NULL OR held_until <= clock_timestamp())"
#define IDMINT_OWN_FIRST "(token IS NOT DISTINCT FROM $2::uuid) DESC, minted_until, worker"
#define IDMINT_ROW                                               \
  "worker, token, holder, generation, minted_until, " IDMINT_MS( \
      "held_until") ", taken_from, nonce, " IDMINT_MS("clock_timestamp()")

constexpr Query kCreatePool{
    "create_pool",
    "WITH made AS (INSERT INTO idmint.pools (name, workers) SELECT $1, $2::bigint"
    "  WHERE " IDMINT_TRUSTED
    " ON CONFLICT DO NOTHING RETURNING name, workers)"
    " INSERT INTO idmint.workers (pool, worker, holder, generation, minted_until, taken_from,"
    "  held_until)"
    " SELECT made.name, each.worker, '', 0, 0, 0, 'epoch'"
    " FROM made, generate_series(0::bigint, made.workers - 1) AS each (worker)",
    Kind::kHandOut,
    "SELECT and INSERT on idmint.pools, INSERT on idmint.workers, and SELECT on idmint.trusted"};
constexpr Query kPool{"pool", "SELECT workers FROM idmint.pools WHERE name = $1", Kind::kRead,
                      "SELECT on idmint.pools"};
// $3 the clock of the pool, $4 units (as lease_end(), $4 being at least 1), $5 how far ahead, $7
// for how long. A row that another takes just now is passed over.
constexpr Query kAcquire{
    "acquire",
    "WITH chosen AS MATERIALIZED (SELECT worker FROM idmint.workers"
    "  WHERE pool = $1 AND minted_until <= $5::bigint AND " IDMINT_FREE
    "   AND " IDMINT_CLOCKS_AGREE " AND " IDMINT_TRUSTED "  ORDER BY " IDMINT_OWN_FIRST
    " LIMIT 1 FOR UPDATE SKIP LOCKED)"
    " UPDATE idmint.workers w SET taken_from = greatest(minted_until, $3::bigint),"
    "  minted_until = greatest(minted_until + 1, $3::bigint + $4::bigint),"
    "  generation = generation"
    "   + CASE WHEN token IS NOT DISTINCT FROM $2::uuid THEN 0 ELSE 1 END,"
    "  token = $2::uuid, holder = $6,"
    "  held_until = clock_timestamp() + $7::bigint * interval '1 millisecond'"
    " FROM chosen WHERE w.pool = $1 AND w.worker = chosen.worker"
    " RETURNING w.worker, generation, taken_from, minted_until",
    Kind::kHandOut, "SELECT and UPDATE on idmint.workers and SELECT on idmint.trusted"};
constexpr Query kFreeWorker{
    "free_worker",
    "SELECT minted_until, " IDMINT_MS(
        "clock_timestamp()") " FROM idmint.workers WHERE pool = $1 AND " IDMINT_FREE
                             " ORDER BY " IDMINT_OWN_FIRST " LIMIT 1",
    Kind::kRead, "SELECT on idmint.workers"};
// $5 the bound that is named, $6 the nonce: as may_extend(). $10 the new end.
constexpr Query kExtendLease{
    "extend_lease",
    "UPDATE idmint.workers SET minted_until = greatest(minted_until, $10::bigint),"
    "  held_until = clock_timestamp() + $7::bigint * interval '1 millisecond', nonce = $6::uuid"
    " WHERE pool = $1 AND worker = $2::bigint AND token = $3::uuid AND generation = $4::bigint"
    "  AND (minted_until = $5::bigint OR (nonce = $6::uuid AND minted_until >= $10::bigint))"
    "  AND " IDMINT_CLOCKS_AGREE " AND " IDMINT_TRUSTED " RETURNING 1",
    Kind::kHandOut, "SELECT and UPDATE on idmint.workers and SELECT on idmint.trusted"};
constexpr Query kRelease{
    "release",
    "UPDATE idmint.workers SET token = NULL, holder = ''"
    " WHERE pool = $1 AND worker = $2::bigint AND token = $3::uuid AND generation = $4::bigint"
    " RETURNING 1",
    Kind::kWrite, "SELECT and UPDATE on idmint.workers"};
constexpr Query kRaiseFloor{
    "raise_floor",
    "UPDATE idmint.workers SET token = NULL, holder = '', generation = $3::bigint,"
    "  taken_from = greatest(minted_until, $2::bigint),"
    "  minted_until = greatest(minted_until, $2::bigint) WHERE pool = $1",
    Kind::kWrite, "SELECT and UPDATE on idmint.workers"};
constexpr Query kWorker{
    "worker", "SELECT " IDMINT_ROW " FROM idmint.workers WHERE pool = $1 AND worker = $2::bigint",
    Kind::kRead, "SELECT on idmint.workers"};
constexpr Query kWorkers{
    "workers", "SELECT " IDMINT_ROW " FROM idmint.workers WHERE pool = $1 ORDER BY worker",
    Kind::kRead, "SELECT on idmint.workers"};

#undef IDMINT_ROW
#undef IDMINT_OWN_FIRST
#undef IDMINT_FREE
#undef IDMINT_CLOCKS_AGREE
#undef IDMINT_MS

constexpr int kNonce = 7;  // columns of kWorker and kWorkers
constexpr int kNow = 8;

std::int64_t since_1970(Instant at) {
  return std::chrono::floor<milliseconds>(at.time_since_epoch()).count();
}

// What the caller's clock shows now, given what it showed when the call began.
class CallersClock {
 public:
  explicit CallersClock(const LeaseTerms& terms) : terms_(terms) {}
  [[nodiscard]] Instant now() const {
    return terms_.clock + (std::chrono::steady_clock::now() - begin_);
  }
  // Below 0: nothing is compared.
  [[nodiscard]] std::int64_t max_skew() const {
    return terms_.clock == Instant{} ? -1 : terms_.max_skew.count();
  }

 private:
  const LeaseTerms& terms_;
  const SteadyTime begin_ = std::chrono::steady_clock::now();
};

class Workers final : public LeaseTable {
 public:
  explicit Workers(Database& database) : database_(database) {}

 private:
  Result<void> do_create_pool(std::string_view pool, std::int64_t workers) override {
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    const Result<Rows> made = database_.run(kCreatePool, values_of(stored_name(pool), workers),
                                            *until, "make worker ids in");
    if (!made) return std::unexpected(made.error());
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
          database_.run(kAcquire,
                        values_of(stored_name(pool), request.token, request.now, request.units,
                                  request.now + request.max_drift, stored_name(request.holder),
                                  std::int64_t{request.terms.held.count()}, since_1970(clock.now()),
                                  clock.max_skew()),
                        *until, "lease a worker id from");
      if (!rows) return std::unexpected(rows.error());
      if (!rows->empty()) {
        const Row row = (*rows)[0];
        return Lease{row.integer(0), request.token, row.integer(1), row.integer(2), row.integer(3)};
      }
      if (Result<void> none = why_none(pool, request, clock, *until); !none)
        return std::unexpected(std::move(none.error()));
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
          database_.run(kExtendLease,
                        values_of(stored_name(pool), lease.worker, lease.token, lease.generation,
                                  lease.to, nonce, std::int64_t{terms.held.count()},
                                  since_1970(clock.now()), clock.max_skew(), to),
                        *until, "extend a lease in");
      if (!rows) return std::unexpected(rows.error());
      if (!rows->empty()) {
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
      const Uuid latest = sql::uuid_in(row, kNonce);
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
        database_.run(kRelease, values_of(stored_name(pool), worker, token, generation), *until,
                      "release a worker id of");
    if (!rows) return std::unexpected(rows.error());
    if (!rows->empty()) return {};
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
        database_.run(kRaiseFloor, values_of(stored_name(pool), floor, generation), *until,
                      "raise the worker ids of");
    if (!rows) return std::unexpected(rows.error());
    return {};
  }

  Result<std::vector<LeaseState>> do_workers(std::string_view pool, SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter_to_read(by);
    if (!until) return std::unexpected(until.error());
    const Result<Rows> rows = database_.run(kWorkers, values_of(stored_name(pool)), *until, "read");
    if (!rows) return std::unexpected(rows.error());
    if (rows->empty()) return std::unexpected(no_pool(pool, database_.url()));
    std::vector<LeaseState> all;
    for (int i = 0; i < rows->size(); ++i) all.push_back(state_of((*rows)[i]));
    return all;
  }

  static LeaseState state_of(const Row& row) {
    LeaseState state = sql::worker_of(row, row.integer(kNow));
    state.holder = name_of(state.holder);
    return state;
  }

  // `before`: what the caller's clock showed before the server was asked for its own.
  static std::optional<Error> apart(std::string_view pool, const CallersClock& clock,
                                    Instant before, std::int64_t servers, milliseconds max_skew) {
    if (clock.max_skew() < 0) return std::nullopt;
    return clocks_apart(pool, before, clock.now(), Instant{milliseconds{servers}}, max_skew);
  }

  Result<std::int64_t> size_of(std::string_view pool, SteadyTime until) {
    const Result<Rows> rows = database_.run(kPool, values_of(stored_name(pool)), until, "read");
    if (!rows) return std::unexpected(rows.error());
    if (rows->empty()) return std::unexpected(no_pool(pool, database_.url()));
    return (*rows)[0].integer(0);
  }

  // The row of a worker id, as kWorker has it.
  Result<Rows> read(std::string_view pool, std::int64_t worker, SteadyTime until) {
    Result<Rows> rows = database_.run(kWorker, values_of(stored_name(pool), worker), until, "read");
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
    const Result<Rows> rows =
        database_.run(kFreeWorker, values_of(stored_name(pool), request.token), until, "read");
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

  Database& database_;
};

}  // namespace

std::shared_ptr<LeaseTable> workers_of(Database& database) {
  return std::make_shared<Workers>(database);
}

}  // namespace idmint::stores::postgresql
