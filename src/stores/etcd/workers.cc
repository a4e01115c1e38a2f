#include <algorithm>
#include <cstddef>
#include <optional>
#include <tuple>
#include <utility>

#include "ids/lease_table.h"
#include "stores/backend.h"
#include "stores/etcd/tables.h"

namespace idmint::stores::etcd {
namespace {

// The clock of the host, since etcd has none. It only decides which worker ids are free.
std::int64_t clock_of_the_host() {
  return std::chrono::floor<milliseconds>(system_clock().now().time_since_epoch()).count();
}

// A row as it was at one revision, which is that of its latest change.
struct SeenRow {
  WorkerRecord row;
  std::int64_t changed;
};

class Workers final : public LeaseTable {
 public:
  explicit Workers(Database& database) : database_(database) {}

 private:
  // The rows first: a pool that is there has all of its rows.
  Result<void> do_create_pool(std::string_view pool, std::int64_t workers) override {
    constexpr std::string_view kDoing = "make worker ids in";
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    const std::string key = database_.keys().pool(pool);
    const std::string rows = database_.keys().workers(pool);
    const auto found = database_.read({get(key), get_keys(rows, after_prefix(rows), 0)}, *until);
    if (!found) return std::unexpected(found.error());
    if (!found->front().entries.empty()) return expect_size(pool, found->front(), workers);
    std::vector<bool> made(static_cast<std::size_t>(workers));
    for (const Entry& entry : found->back().entries)
      if (const auto worker = number_behind(rows, entry.key);
          worker && *worker >= 0 && *worker < workers)
        made[static_cast<std::size_t>(*worker)] = true;
    bool applied = false;
    const auto failed = [&](const Error& error) {
      return std::unexpected(applied ? after_a_write(error) : error);
    };
    const std::string fresh = text_of(WorkerRecord{});
    for (std::size_t worker = 0; worker < made.size();) {
      Transaction making;
      for (; worker < made.size() && making.then.size() < kMostOperations; ++worker) {
        if (made[worker]) continue;
        const std::string row = database_.keys().worker(pool, static_cast<std::int64_t>(worker));
        making.then.push_back(
            nested({.compares = {is_as_changed(row, 0)}, .then = {put(row, fresh)}}));
      }
      if (making.then.empty()) break;
      const Result<Answer> answer =
          database_.change(Kind::kHandOut, std::move(making), *until, kDoing);
      if (!answer) return failed(answer.error());
      applied = true;
    }
    const Result<Answer> answer = database_.change(Kind::kHandOut,
                                                   {.compares = {is_as_changed(key, 0)},
                                                    .then = {put(key, pool_text(workers))},
                                                    .otherwise = {get(key)}},
                                                   *until, kDoing);
    if (!answer) return failed(answer.error());
    return answer->succeeded ? Result<void>{} : expect_size(pool, answer->found.front(), workers);
  }

  Result<Lease> do_acquire(std::string_view pool, const LeaseRequest& request,
                           SteadyTime by) override {
    constexpr std::string_view kDoing = "lease a worker id from";
    const Result<SteadyTime> until = database_.enter(by);
    if (!until) return std::unexpected(until.error());
    bool sent = false;  // an attempt may have been applied
    const auto failed = [&sent](Error error) {
      return std::unexpected(sent ? after_a_write(std::move(error)) : std::move(error));
    };
    for (int attempt = 0;; ++attempt) {
      Result<std::vector<SeenRow>> rows = read_all(pool, *until);
      if (!rows) return failed(std::move(rows.error()));
      const std::int64_t now = clock_of_the_host();
      std::erase_if(*rows, [&](const SeenRow& each) {
        return !each.row.is_free(now) && each.row.state.token != request.token;
      });
      std::ranges::sort(*rows, {}, [&](const SeenRow& each) {
        const LeaseState& state = each.row.state;
        return std::tuple(state.token != request.token, state.minted_until, state.worker);
      });
      const auto is_too_far = [&](const SeenRow& each) {
        return each.row.state.minted_until > request.now + request.max_drift;
      };
      if (rows->empty() || is_too_far(rows->front())) {
        if (Result<void> trusted = database_.expect_trust(*until); !trusted)
          return failed(std::move(trusted.error()));
        return failed(refused_acquire(
            pool, request,
            rows->empty() ? std::nullopt : std::optional(rows->front().row.state.minted_until)));
      }
      // A row that another takes just now is passed over; but not one that is the token's own.
      const bool own = rows->front().row.state.token == request.token;
      for (const SeenRow& each : *rows) {
        if (is_too_far(each)) break;
        const SeenRow taken{taken_by(request, each.row), each.changed};
        const Result<Answer> done =
            database_.change(Kind::kHandOut, replacing(pool, taken), *until, kDoing);
        if (!done) return failed(done.error());
        const LeaseState& state = taken.row.state;
        if (done->succeeded)
          return Lease{state.worker, state.token, state.generation, state.taken_from.value_or(0),
                       state.minted_until};
        // The row may be the token's own now: that is looked up.
        sent = sent || done->sent_before;
        if (own || done->sent_before) break;
      }
      if (Result<void> on = database_.step_aside(attempt, *until, kDoing); !on)
        return failed(std::move(on.error()));
    }
  }

  // The row as it is when the request has it.
  static WorkerRecord taken_by(const LeaseRequest& request, WorkerRecord row) {
    LeaseState& state = row.state;
    if (state.token != request.token) ++state.generation;
    state.token = request.token;
    state.holder = request.holder;
    const std::int64_t from = std::max(state.minted_until, request.now);
    state.minted_until = lease_end(request, from);
    state.taken_from = from;
    row.held_until = clock_of_the_host() + request.terms.held.count();
    return row;
  }

  Result<Lease> do_extend(std::string_view pool, const Lease& lease, std::int64_t to,
                          const Uuid& nonce, const LeaseTerms& terms, SteadyTime by) override {
    constexpr std::string_view kDoing = "extend a lease in";
    const Result<SteadyTime> until = database_.enter(by);
    if (!until) return std::unexpected(until.error());
    bool sent = false;  // an attempt may have been applied: its nonce shows that
    const auto failed = [&sent](Error error) {
      return std::unexpected(sent ? after_a_write(std::move(error)) : std::move(error));
    };
    for (int attempt = 0;; ++attempt) {
      Result<SeenRow> there = read(pool, lease.worker, *until);
      if (!there) return failed(std::move(there.error()));
      WorkerRecord& row = there->row;
      if (!may_extend(row.state, row.nonce, lease, to, nonce)) {
        if (Result<void> trusted = database_.expect_trust(*until); !trusted)
          return failed(std::move(trusted.error()));
        return std::unexpected(refused_extension(pool, lease, row.state, row.nonce, nonce));
      }
      row.state.minted_until = std::max(row.state.minted_until, to);
      row.nonce = nonce;
      row.held_until = clock_of_the_host() + terms.held.count();
      const Result<Answer> done =
          database_.change(Kind::kHandOut, replacing(pool, *there), *until, kDoing);
      if (!done) return failed(done.error());
      if (done->succeeded) {
        Lease extended = lease;
        extended.to = to;
        return extended;
      }
      sent = sent || done->sent_before;
      if (Result<void> on = database_.step_aside(attempt, *until, kDoing); !on)
        return failed(std::move(on.error()));
    }
  }

  Result<void> do_release(std::string_view pool, std::int64_t worker, const Uuid& token,
                          std::int64_t generation, SteadyTime by) override {
    constexpr std::string_view kDoing = "release a worker id of";
    const Result<SteadyTime> until = database_.enter(by);
    if (!until) return std::unexpected(until.error());
    const Lease lease{worker, token, generation, 0, 0};
    bool sent = false;  // an attempt may have been applied
    const auto failed = [&sent](Error error) {
      return std::unexpected(sent ? after_a_write(std::move(error)) : std::move(error));
    };
    for (int attempt = 0;; ++attempt) {
      Result<SeenRow> there = read(pool, worker, *until);
      if (!there) return failed(std::move(there.error()));
      LeaseState& state = there->row.state;
      if (!is_owned_by(state, lease) && sent) return {};
      if (!is_owned_by(state, lease)) return std::unexpected(refused_lease(pool, lease, state));
      state.token = Uuid{};
      state.holder.clear();
      const Result<Answer> done =
          database_.change(Kind::kWrite, replacing(pool, *there), *until, kDoing);
      if (!done) return failed(done.error());
      if (done->succeeded) return {};
      sent = sent || done->sent_before;
      if (Result<void> on = database_.step_aside(attempt, *until, kDoing); !on)
        return failed(std::move(on.error()));
    }
  }

  Result<void> do_raise_floor(std::string_view pool, std::int64_t floor) override {
    constexpr std::string_view kDoing = "raise the worker ids of";
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    const std::int64_t generation = draw_generation(database_.entropy());
    bool applied = false;
    const auto failed = [&](const Error& error) {
      return std::unexpected(applied ? after_a_write(error) : error);
    };
    for (int attempt = 0;; ++attempt) {
      Result<std::vector<SeenRow>> rows = read_all(pool, *until);
      if (!rows) return failed(rows.error());
      std::erase_if(*rows, [&](const SeenRow& each) {
        return each.row.state.generation / kEpoch == generation / kEpoch;  // it is raised
      });
      if (rows->empty()) return {};
      for (auto at = rows->begin(); at != rows->end();) {
        Transaction raising;
        for (; at != rows->end() && raising.then.size() < kMostOperations; ++at) {
          LeaseState& state = at->row.state;
          const std::int64_t bound = std::max(state.minted_until, floor);
          state = {.worker = state.worker,
                   .generation = generation,
                   .minted_until = bound,
                   .taken_from = bound};
          raising.then.push_back(nested(replacing(pool, *at)));
        }
        const Result<Answer> answer =
            database_.change(Kind::kWrite, std::move(raising), *until, kDoing);
        if (!answer) return failed(answer.error());
        applied = true;
      }
      // The rows that were not as they had been read are raised in the next round, which finds all
      // of them as they are to be, and so ends.
      if (Result<void> on = database_.step_aside(attempt, *until, kDoing); !on)
        return failed(on.error());
    }
  }

  Result<std::vector<LeaseState>> do_workers(std::string_view pool, SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter_to_read(by);
    if (!until) return std::unexpected(until.error());
    const Result<std::vector<SeenRow>> rows = read_all(pool, *until);
    if (!rows) return std::unexpected(rows.error());
    const std::int64_t now = clock_of_the_host();
    std::vector<LeaseState> all;
    for (const SeenRow& each : *rows) {
      all.push_back(each.row.state);
      if (!each.row.is_free(now)) all.back().held_for = milliseconds{each.row.held_until - now};
    }
    return all;
  }

  // ---- rows

  [[nodiscard]] Transaction replacing(std::string_view pool, const SeenRow& row) const {
    const std::string key = database_.keys().worker(pool, row.row.state.worker);
    return {.compares = {is_as_changed(key, row.changed)}, .then = {put(key, text_of(row.row))}};
  }

  // The size of a pool. kNotFound: no such pool.
  [[nodiscard]] Result<std::int64_t> size_in(std::string_view pool, const Found& found) const {
    if (found.entries.empty()) return std::unexpected(no_pool(pool, database_.url()));
    const std::string& value = found.entries.front().value;
    if (const auto workers = read_pool(value)) return *workers;
    return database_.damaged("the pool " + shown(pool) + " has the value " + shown(value));
  }

  [[nodiscard]] Result<void> expect_size(std::string_view pool, const Found& found,
                                         std::int64_t workers) const {
    const Result<std::int64_t> there = size_in(pool, found);
    if (!there) return std::unexpected(there.error());
    if (*there != workers) return std::unexpected(other_pool(pool, *there, workers));
    return {};
  }

  [[nodiscard]] Result<SeenRow> parse(std::string_view pool, std::int64_t worker,
                                      const Entry& entry) const {
    std::optional<WorkerRecord> row = read_worker(worker, entry.value);
    if (!row)
      return database_.damaged("pool " + shown(pool) + ", worker id " + std::to_string(worker) +
                               ": the value is " + shown(entry.value));
    return SeenRow{*std::move(row), entry.changed};
  }

  Result<SeenRow> read(std::string_view pool, std::int64_t worker, SteadyTime until) {
    const auto found = database_.read(
        {get(database_.keys().pool(pool)), get(database_.keys().worker(pool, worker))}, until);
    if (!found) return std::unexpected(found.error());
    const Result<std::int64_t> size = size_in(pool, found->front());
    if (!size) return std::unexpected(size.error());
    if (worker < 0 || worker >= *size) return std::unexpected(no_worker(pool, worker));
    if (found->back().entries.empty()) return missing(pool, worker);
    return parse(pool, worker, found->back().entries.front());
  }

  // All rows of a pool at one revision, sorted by worker id.
  Result<std::vector<SeenRow>> read_all(std::string_view pool, SteadyTime until) {
    const std::string prefix = database_.keys().workers(pool);
    const auto found = database_.read(
        {get(database_.keys().pool(pool)), get_range(prefix, after_prefix(prefix), 0)}, until);
    if (!found) return std::unexpected(found.error());
    const Result<std::int64_t> size = size_in(pool, found->front());
    if (!size) return std::unexpected(size.error());
    std::vector<std::optional<SeenRow>> rows(static_cast<std::size_t>(*size));
    for (const Entry& entry : found->back().entries) {
      const auto worker = number_behind(prefix, entry.key);
      if (!worker || *worker < 0 || *worker >= *size) continue;  // of a pool that was not finished
      Result<SeenRow> row = parse(pool, *worker, entry);
      if (!row) return std::unexpected(std::move(row.error()));
      rows[static_cast<std::size_t>(*worker)] = *std::move(row);
    }
    std::vector<SeenRow> all;
    all.reserve(rows.size());
    for (std::optional<SeenRow>& row : rows) {
      if (!row) return missing(pool, std::ssize(all));
      all.push_back(*std::move(row));
    }
    return all;
  }

  [[nodiscard]] std::unexpected<Error> missing(std::string_view pool, std::int64_t worker) const {
    return database_.damaged("pool " + shown(pool) + ": the key of worker id " +
                             std::to_string(worker) + " is missing");
  }

  Database& database_;
};

}  // namespace

std::shared_ptr<LeaseTable> workers_of(Database& database) {
  return std::make_shared<Workers>(database);
}

}  // namespace idmint::stores::etcd
