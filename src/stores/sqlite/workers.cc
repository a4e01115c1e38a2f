#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "ids/lease_table.h"
#include "stores/backend.h"
#include "stores/sql/rows.h"
#include "stores/sqlite/tables.h"

namespace idmint::stores::sqlite {
namespace {

using std::chrono::milliseconds;

std::int64_t milliseconds_since_1970(Instant at) {
  return std::chrono::floor<milliseconds>(at.time_since_epoch()).count();
}

// The clock of the host, since SQLite has none. It only decides which worker ids are free.
std::int64_t clock_of_the_host() { return milliseconds_since_1970(system_clock().now()); }

// The boot of the host and the time namespace, since CLOCK_BOOTTIME has an offset in each. " ":
// unknown on this host.
const std::string& this_boot() {
  static const std::string boot = [] {
    std::string id;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
    std::error_code none;
    return id + " " + std::filesystem::read_symlink("/proc/self/ns/time", none).string();
  }();
  return boot;
}

std::int64_t time_since_boot() {
  timespec at{};
  ::clock_gettime(CLOCK_BOOTTIME, &at);
  return std::int64_t{at.tv_sec} * 1000 + at.tv_nsec / 1'000'000;
}

class Workers final : public LeaseTable {
 public:
  explicit Workers(TrustedFile& file) : file_(file) {}

  Result<void> do_create_pool(std::string_view pool, std::int64_t workers) override {
    const Call call{"make worker ids in"};
    return file_.change(call, [&]() -> Result<void> {
      const Result<std::int64_t> there = count(pool);
      if (!there) return std::unexpected(there.error());
      if (*there == workers) return {};
      if (*there != 0) return std::unexpected(other_pool(pool, *there, workers));
      for (std::int64_t worker = 0; worker < workers; ++worker)
        if (Result<void> made = Statement(file_, make_, call.doing, pool, worker).end(); !made)
          return made;
      return {};
    });
  }

  Result<Lease> do_acquire(std::string_view pool, const LeaseRequest& request,
                           SteadyTime until) override {
    const Call call{"lease a worker id from", until};
    Lease lease;
    // In one transaction with the look-up of the reason for a failure.
    const auto acquire = [&]() -> Result<void> {
      if (Result<void> right = check_clock(pool, request.terms); !right) return right;
      const std::int64_t now = clock_of_the_host();  // after the wait for the lock
      {
        Statement run(file_, acquire_, call.doing, pool, request.token, request.now, request.units,
                      request.now + request.max_drift, request.holder, now,
                      now + request.terms.held.count());
        const bool taken = run.next();
        if (taken)
          lease = {run.integer(0), request.token, run.integer(1), run.integer(2), run.integer(3)};
        if (Result<void> ended = run.end(); !ended || taken) return ended;
      }
      if (Result<void> there = need_pool(pool); !there) return there;
      Statement row(file_, smallest_bound_, "read", pool, request.token, now);
      std::optional<std::int64_t> bound;
      if (row.next())
        bound = row.integer(0);
      else if (!row.is_done())
        return std::unexpected(row.failure());
      return std::unexpected(refused_acquire(pool, request, bound));
    };
    const Result<void> done = file_.change(call, acquire);
    if (!done) return std::unexpected(done.error());
    return lease;
  }

  Result<Lease> do_extend(std::string_view pool, const Lease& lease, std::int64_t to,
                          const Uuid& nonce, const LeaseTerms& terms, SteadyTime until) override {
    const Call call{"extend a lease in", until};
    const auto extend = [&]() -> Result<void> {
      if (Result<void> right = check_clock(pool, terms); !right) return right;
      {
        Statement run(file_, extend_, call.doing, pool, lease.worker, lease.token, lease.generation,
                      lease.to, to, clock_of_the_host() + terms.held.count(), nonce);
        const bool moved = run.next();
        if (Result<void> ended = run.end(); !ended || moved) return ended;
      }
      return refused(pool, lease, &nonce);
    };
    const Result<void> done = file_.change(call, extend);
    if (!done) return std::unexpected(done.error());
    Lease extended = lease;
    extended.to = to;
    return extended;
  }

  Result<void> do_release(std::string_view pool, std::int64_t worker, const Uuid& token,
                          std::int64_t generation, SteadyTime until) override {
    const Call call{"release a worker id of", until, Needs::kNothing};
    return file_.change(call, [&]() -> Result<void> {
      {
        Statement run(file_, release_, call.doing, pool, worker, token, generation);
        const bool released = run.next();
        if (Result<void> ended = run.end(); !ended || released) return ended;
      }
      return refused(pool, {worker, token, generation, 0, 0});
    });
  }

  Result<void> do_raise_floor(std::string_view pool, std::int64_t floor) override {
    const Call call{.doing = "raise the worker ids of", .needs = Needs::kNothing};
    return file_.change(call, [&]() -> Result<void> {
      if (Result<void> there = need_pool(pool); !there) return there;
      const std::int64_t generation = draw_generation(file_.entropy());
      Statement run(file_, raise_floor_, call.doing, pool, floor, generation);
      if (Result<void> raised = run.end(); !raised) return raised;
      return write_clocks("", 0, 0);  // the operator who raises has checked the clock
    });
  }

  Result<std::vector<LeaseState>> do_workers(std::string_view pool, SteadyTime until) override {
    const auto lock = file_.enter(until);
    if (!lock) return std::unexpected(lock.error());
    Statement row(file_, workers_, "read", pool);
    const std::int64_t now = clock_of_the_host();
    std::vector<LeaseState> all;
    while (row.next()) {
      if (file_.is_late()) return std::unexpected(file_.too_long_a_list(all.size()));
      Result<LeaseState> state = worker_of(row, now);
      if (!state) return std::unexpected(std::move(state.error()));
      all.push_back(*std::move(state));
    }
    if (!row.is_done()) return std::unexpected(row.failure());
    if (all.empty()) return std::unexpected(no_pool(pool, file_.url()));
    return all;
  }

 private:
  Result<std::int64_t> count(std::string_view pool) {
    Statement row(file_, count_, "read", pool);
    if (!row.next()) return std::unexpected(row.failure());
    return row.integer(0);
  }

  Result<void> need_pool(std::string_view pool) {
    const Result<std::int64_t> workers = count(pool);
    if (!workers) return std::unexpected(workers.error());
    if (*workers == 0) return std::unexpected(no_pool(pool, file_.url()));
    return {};
  }

  // Rejects a clock that is far ahead: it would move every worker id that far ahead, and nobody
  // could mint before that time. While the host runs, such a clock differs from the time since
  // boot. A day is allowed, because clocks are set by hours after a machine was paused. REQUIRES:
  // within the transaction of a lease.
  Result<void> check_clock(std::string_view pool, const LeaseTerms& terms) {
    constexpr std::int64_t kFarAhead = std::int64_t{24} * 60 * 60 * 1000;
    constexpr std::int64_t kKept = 60'000;  // written this rarely, since most clocks agree
    constexpr std::int64_t kAgrees = 1000;
    if (terms.clock == Instant{} || this_boot().size() <= 1) return {};
    const std::int64_t clock = milliseconds_since_1970(terms.clock);
    const std::int64_t boot_clock = time_since_boot();
    {
      Statement row(file_, read_clocks_, "read");
      if (!row.next()) return std::unexpected(row.failure());
      if (row.bytes(0) == this_boot()) {
        const std::int64_t since = boot_clock - row.integer(1);
        const std::int64_t right = row.integer(2) + since;
        if (clock - right > std::max<std::int64_t>(kFarAhead, terms.max_skew.count()))
          return std::unexpected(clock_far_ahead(pool, terms.clock, Instant{milliseconds{right}}));
        if (since >= 0 && since < kKept && std::abs(clock - right) < kAgrees) return {};
      }
    }
    return write_clocks(this_boot(), boot_clock, clock);
  }

  Result<void> write_clocks(std::string_view boot, std::int64_t boot_clock, std::int64_t clock) {
    return Statement(file_, write_clocks_, "keep the time of a lease in", boot, boot_clock, clock)
        .end();
  }

  // The error if the row did not allow the extension with that nonce, or the release.
  std::unexpected<Error> refused(std::string_view pool, const Lease& lease,
                                 const Uuid* nonce = nullptr) {
    Statement row(file_, worker_, "read", pool, lease.worker);
    if (row.next()) {
      const Result<LeaseState> there = worker_of(row, 0);
      if (!there) return std::unexpected(there.error());
      if (nonce == nullptr) return std::unexpected(refused_lease(pool, lease, *there));
      const Uuid latest = sql::uuid_in(row, 7);  // nil: no extension yet
      return std::unexpected(refused_extension(pool, lease, *there, latest, *nonce));
    }
    if (!row.is_done()) return std::unexpected(row.failure());
    const Result<void> there = need_pool(pool);
    return std::unexpected(there ? no_worker(pool, lease.worker) : there.error());
  }

  [[nodiscard]] Result<LeaseState> worker_of(const Statement& row, std::int64_t now) const {
    const std::size_t token = row.bytes(1).size();
    if (token != 0 && token != Uuid::Bytes{}.size())
      return file_.damaged("a token has " + std::to_string(token) + " bytes");
    return sql::worker_of(row, now);
  }

  TrustedFile& file_;
  Query make_{
      "INSERT INTO workers (pool, worker, holder, generation, minted_until, taken_from, held_until)"
      " VALUES (?1, ?2, '', 0, 0, 0, 0) ON CONFLICT DO NOTHING"};
  Query count_{"SELECT count(*) FROM workers WHERE pool = ?1"};
  // ?3 the clock of the pool, ?4 units (as lease_end(), ?4 being at least 1), ?5 how far ahead,
  // ?7 and ?8 the clock of the host
  Query acquire_{
      "UPDATE workers SET taken_from = max(minted_until, ?3),"
      " minted_until = max(minted_until + 1, ?3 + ?4), generation = generation + (token IS NOT ?2),"
      " token = ?2, holder = ?6, held_until = ?8"
      " WHERE pool = ?1 AND minted_until <= ?5 AND worker = (SELECT worker FROM workers"
      "  WHERE pool = ?1 AND (token = ?2 OR token IS NULL OR held_until <= ?7)"
      "  ORDER BY token IS ?2 DESC, minted_until, worker LIMIT 1)"
      " RETURNING worker, generation, taken_from, minted_until"};
  Query smallest_bound_{
      "SELECT minted_until FROM workers"
      " WHERE pool = ?1 AND (token = ?2 OR token IS NULL OR held_until <= ?3)"
      " ORDER BY token IS ?2 DESC, minted_until LIMIT 1"};
  // ?5 the bound named by the lease, ?8 the nonce: as may_extend()
  Query extend_{
      "UPDATE workers SET minted_until = max(minted_until, ?6), held_until = ?7, nonce = ?8"
      " WHERE pool = ?1 AND worker = ?2 AND token = ?3 AND generation = ?4"
      "  AND (minted_until = ?5 OR (nonce = ?8 AND minted_until >= ?6))"
      " RETURNING 1"};
  Query release_{
      "UPDATE workers SET token = NULL, holder = ''"
      " WHERE pool = ?1 AND worker = ?2 AND token = ?3 AND generation = ?4 RETURNING 1"};
  Query raise_floor_{
      "UPDATE workers SET token = NULL, holder = '', generation = ?3,"
      " taken_from = max(minted_until, ?2),"
      " minted_until = max(minted_until, ?2) WHERE pool = ?1"};
  Query worker_{
      "SELECT worker, token, holder, generation, minted_until, held_until, taken_from, nonce"
      " FROM workers WHERE pool = ?1 AND worker = ?2"};
  Query workers_{
      "SELECT worker, token, holder, generation, minted_until, held_until, taken_from FROM workers"
      " WHERE pool = ?1 ORDER BY worker"};
  Query read_clocks_{"SELECT boot, boot_clock, clock FROM store"};
  Query write_clocks_{"UPDATE store SET boot = ?1, boot_clock = ?2, clock = ?3"};
};

}  // namespace

std::shared_ptr<LeaseTable> workers_of(TrustedFile& file) {
  return std::make_shared<Workers>(file);
}

}  // namespace idmint::stores::sqlite
