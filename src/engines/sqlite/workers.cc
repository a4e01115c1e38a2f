#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>

#include "engines/sql/rows.h"
#include "engines/sqlite/tables.h"
#include "ids/lease_table.h"
#include "store/backend.h"
#include "store/callers_clock.h"
#include "store/engine.h"
#include "store/protocol/lease_rules.h"
#include "store/protocol/leases.h"

namespace idmint::stores::sqlite {
namespace {

using std::chrono::milliseconds;

// The clock of the host, since SQLite has none. It only decides which worker ids are free.
std::int64_t clock_of_the_host() { return since_1970(system_clock().now()); }

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

// The columns of a row, as worker_of() and the nonce read them.
#define IDMINT_ROW                                                                        \
  "SELECT worker, token, holder, generation, minted_until, held_until, taken_from, nonce" \
  " FROM workers WHERE pool = ?1"

class Workers final : private WorkerRows {
 public:
  explicit Workers(TrustedFile& file) : file_(file) {}

  [[nodiscard]] LeaseTable& leases() noexcept { return leases_; }

 private:
  Result<std::int64_t> make_pool(std::string_view pool, std::int64_t workers, SteadyTime until,
                                 std::string_view doing) override {
    std::int64_t size = workers;
    const Result<void> made = file_.change({doing, until}, [&]() -> Result<void> {
      const Result<std::int64_t> there = size_of(pool);
      if (!there) return std::unexpected(there.error());
      if (*there != 0) size = *there;
      for (std::int64_t worker = 0; *there == 0 && worker < workers; ++worker)
        if (Result<void> row = Statement(file_, make_, doing, pool, worker).end(); !row) return row;
      return {};
    });
    if (!made) return std::unexpected(made.error());
    return size;
  }

  Result<WorkerRow> read_worker(std::string_view pool, std::int64_t worker,
                                SteadyTime until) override {
    const auto lock = file_.enter(until);
    if (!lock) return std::unexpected(lock.error());
    Result<std::vector<WorkerRow>> rows = read(worker_, pool, worker);
    if (!rows) return std::unexpected(std::move(rows.error()));
    if (!rows->empty()) return std::move(rows->front());
    const Result<std::int64_t> size = size_in(pool);
    return std::unexpected(size ? no_worker(pool, worker) : size.error());
  }

  Result<std::vector<WorkerRow>> read_workers(std::string_view pool, SteadyTime until) override {
    const auto lock = file_.enter(until);
    if (!lock) return std::unexpected(lock.error());
    Result<std::vector<WorkerRow>> rows =
        read(file_.is_read_only() ? workers_to_read_ : workers_, pool);
    if (rows && rows->empty()) return std::unexpected(no_pool(pool, file_.url()));
    return rows;
  }

  Result<std::vector<WorkerRow>> find_free(std::string_view pool, const FreeWorkers& wanted,
                                           SteadyTime until) override {
    const auto lock = file_.enter(until);
    if (!lock) return std::unexpected(lock.error());
    if (const Result<std::int64_t> size = size_in(pool); !size)
      return std::unexpected(size.error());
    Result<std::vector<WorkerRow>> own = read(own_, pool, wanted.token);
    if (!own || !own->empty()) return own;
    const std::int64_t now = clock_of_the_host();
    const std::size_t most = wanted.start == 0 ? wanted.most : kMostCandidates;
    const Result<std::vector<WorkerRow>> free =
        read(free_, pool, now, wanted.limit, static_cast<std::int64_t>(most));
    if (!free) return std::unexpected(free.error());
    if (free->empty()) return read(nearest_, pool, now);
    return choose_free(*free, wanted);
  }

  Result<std::vector<Swapped>> swap_workers(std::string_view pool,
                                            std::span<const WorkerSwap> swaps, Purpose purpose,
                                            const LeaseTerms* terms, SteadyTime until,
                                            std::string_view doing) override {
    const Needs needs = purpose == Purpose::kHandOut ? Needs::kTrust : Needs::kNothing;
    std::vector<Swapped> swapped;
    bool none = false;
    const Result<void> done = file_.change({doing, until, needs}, [&]() -> Result<void> {
      if (terms != nullptr)
        if (Result<void> right = check_clock(pool, *terms); !right) return right;
      const std::int64_t now = clock_of_the_host();  // after the wait for the lock
      bool fenced = false;
      for (const auto& [from, to] : swaps) {
        const LeaseState& there = from.state;
        const LeaseState& state = to.state;
        Statement run(file_, swap_, doing, pool, there.worker, there.token, there.generation,
                      there.minted_until, there.taken_from, from.nonce, state.token, state.holder,
                      state.generation, state.minted_until, state.taken_from, to.nonce,
                      now + state.held_for.count());
        const bool as_read = run.next();
        if (Result<void> ended = run.end(); !ended) return ended;
        swapped.push_back(as_read ? Swapped::kYes : Swapped::kNo);
        fenced = fenced || (purpose == Purpose::kOperate && there.generation != state.generation);
      }
      if (std::ranges::find(swapped, Swapped::kYes) == swapped.end()) {
        none = true;  // no sync for that
        return std::unexpected(Error{Code::kUnavailable, "nothing is to be written"});
      }
      // The operator who raises has checked the clock.
      return fenced ? write_clocks("", 0, 0) : Result<void>{};
    });
    if (!done && !none) return std::unexpected(done.error());
    return swapped;
  }

  // 0: no such pool.
  Result<std::int64_t> size_of(std::string_view pool) {
    Statement row(file_, size_, "read", pool);
    if (!row.next()) return std::unexpected(row.failure());
    return row.integer(0);
  }
  Result<std::int64_t> size_in(std::string_view pool) {
    Result<std::int64_t> size = size_of(pool);
    if (size && *size == 0) return std::unexpected(no_pool(pool, file_.url()));
    return size;
  }

  // The rows of a query.
  Result<std::vector<WorkerRow>> read(Query& query, const auto&... values) {
    Statement row(file_, query, "read", values...);
    const std::int64_t now = clock_of_the_host();
    std::vector<WorkerRow> all;
    while (row.next()) {
      if (file_.is_late()) return std::unexpected(file_.too_long_a_list(all.size()));
      if (const std::size_t token = row.bytes(1).size();
          token != 0 && token != Uuid::Bytes{}.size())
        return file_.damaged("a token has " + std::to_string(token) + " bytes");
      all.push_back({sql::worker_of(row, now), sql::uuid_in(row, 7)});
    }
    if (!row.is_done()) return std::unexpected(row.failure());
    return all;
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
    const std::int64_t clock = since_1970(terms.clock);
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

  TrustedFile& file_;
  Leases leases_{file_, *this};
  Query make_{
      "INSERT INTO workers (pool, worker, holder, generation, minted_until, taken_from, held_until)"
      " VALUES (?1, ?2, '', 0, 0, 0, 0) ON CONFLICT DO NOTHING"};
  Query size_{"SELECT coalesce(max(worker) + 1, 0) FROM workers WHERE pool = ?1"};
  Query worker_{IDMINT_ROW " AND worker = ?2"};
  Query workers_{IDMINT_ROW " ORDER BY worker"};
  // A file of version 1, which a reader leaves as it is, has no nonces.
  Query workers_to_read_{
      "SELECT worker, token, holder, generation, minted_until, held_until, taken_from, NULL"
      " FROM workers WHERE pool = ?1 ORDER BY worker"};
  Query own_{IDMINT_ROW " AND token = ?2 LIMIT 1"};
  Query free_{IDMINT_ROW
              " AND (token IS NULL OR held_until <= ?2) AND minted_until <= ?3"
              " ORDER BY minted_until, worker LIMIT ?4"};
  Query nearest_{IDMINT_ROW
                 " AND (token IS NULL OR held_until <= ?2) ORDER BY minted_until, worker LIMIT 1"};
  // A nil UUID stands for NULL.
  Query swap_{
      "UPDATE workers SET holder = CASE WHEN token IS nullif(?8, zeroblob(16)) THEN holder"
      "  ELSE ?9 END, token = nullif(?8, zeroblob(16)), generation = ?10, minted_until = ?11,"
      " taken_from = ?12, nonce = nullif(?13, zeroblob(16)), held_until = ?14"
      " WHERE pool = ?1 AND worker = ?2 AND token IS nullif(?3, zeroblob(16)) AND generation = ?4"
      "  AND minted_until = ?5 AND taken_from = ?6 AND nonce IS nullif(?7, zeroblob(16))"
      " RETURNING 1"};
  Query read_clocks_{"SELECT boot, boot_clock, clock FROM store"};
  Query write_clocks_{"UPDATE store SET boot = ?1, boot_clock = ?2, clock = ?3"};
};

#undef IDMINT_ROW

}  // namespace

std::shared_ptr<LeaseTable> workers_of(TrustedFile& file) {
  const auto workers = std::make_shared<Workers>(file);
  return {workers, &workers->leases()};
}

}  // namespace idmint::stores::sqlite
