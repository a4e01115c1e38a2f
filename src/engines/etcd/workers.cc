#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engines/etcd/tables.h"
#include "ids/lease_table.h"
#include "store/backend.h"
#include "store/engine.h"
#include "store/protocol/lease_rules.h"
#include "store/protocol/leases.h"

namespace idmint::stores::etcd {
namespace {

// A row as it was at one revision, which is that of its latest change.
struct SeenRow {
  WorkerRecord record;
  std::int64_t changed;
};

// Each row is a key. etcd compares revisions, and a restored snapshot has them again; so a swap
// reads the rows first and compares them by value.
class Workers final : private WorkerRows {
 public:
  explicit Workers(Database& database) : database_(database) {}

  [[nodiscard]] LeaseTable& leases() noexcept { return leases_; }

 private:
  // The rows first: a pool that is there has all of its rows.
  Result<std::int64_t> make_pool(std::string_view pool, std::int64_t workers, SteadyTime until,
                                 std::string_view doing) override {
    const std::string key = database_.keys().pool(pool);
    const std::string rows = database_.keys().workers(pool);
    const auto found = database_.read({get(key), get_keys(rows, after_prefix(rows), 0)}, until);
    if (!found) return std::unexpected(found.error());
    if (!found->front().entries.empty()) return size_in(pool, found->front());
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
          database_.change(Kind::kHandOut, std::move(making), until, doing);
      if (!answer) return failed(answer.error());
      applied = true;
    }
    const Result<Answer> answer = database_.change(Kind::kHandOut,
                                                   {.compares = {is_as_changed(key, 0)},
                                                    .then = {put(key, pool_text(workers))},
                                                    .otherwise = {get(key)}},
                                                   until, doing);
    if (!answer) return failed(answer.error());
    if (answer->succeeded) return workers;
    return size_in(pool, answer->found.front());
  }

  Result<WorkerRow> read_worker(std::string_view pool, std::int64_t worker,
                                SteadyTime until) override {
    const Result<std::vector<SeenRow>> rows = read(pool, std::span(&worker, 1), until);
    if (!rows) return std::unexpected(rows.error());
    return rows->front().record.at(clock_of_the_host());
  }

  Result<std::vector<WorkerRow>> read_workers(std::string_view pool, SteadyTime until) override {
    const Result<std::vector<SeenRow>> rows = read_all(pool, until);
    if (!rows) return std::unexpected(rows.error());
    const std::int64_t now = clock_of_the_host();
    std::vector<WorkerRow> all;
    for (const SeenRow& each : *rows) all.push_back(each.record.at(now));
    return all;
  }

  Result<std::vector<WorkerRow>> find_free(std::string_view pool, const FreeWorkers& wanted,
                                           SteadyTime until) override {
    // All rows of a large pool are read only where a few of them will not do.
    if (!wanted.may_own) {
      const Result<Some> some = read_some(pool, wanted, until);
      if (!some) return std::unexpected(some.error());
      std::vector<WorkerRow> free = choose_free(some->rows, wanted);
      const bool near = !free.empty() && free.front().state.minted_until <= wanted.limit;
      if (near || some->is_all) return free;
    }
    const Result<std::vector<WorkerRow>> rows = read_workers(pool, until);
    if (!rows) return std::unexpected(rows.error());
    return choose_free(*rows, wanted);
  }

  Result<std::vector<Swapped>> swap_workers(std::string_view pool,
                                            std::span<const WorkerSwap> swaps, Purpose purpose,
                                            const LeaseTerms* /*terms*/, SteadyTime until,
                                            std::string_view doing) override {
    const Kind kind = purpose == Purpose::kHandOut ? Kind::kHandOut : Kind::kWrite;
    std::vector<Swapped> swapped;
    bool applied = false;
    const auto failed = [&](const Error& error) {
      return std::unexpected(applied ? after_a_write(error) : error);
    };
    while (!swaps.empty()) {
      const auto some = swaps.first(std::min(swaps.size(), kMostOperations - 1));
      swaps = swaps.subspan(some.size());
      std::vector<std::int64_t> workers;
      for (const WorkerSwap& swap : some) workers.push_back(swap.from.state.worker);
      const Result<std::vector<SeenRow>> rows = read(pool, workers, until);
      if (!rows) return failed(rows.error());
      const std::int64_t now = clock_of_the_host();
      Transaction changing;
      std::vector<std::size_t> changed;
      for (std::size_t i = 0; i < some.size(); ++i) {
        swapped.push_back(Swapped::kNo);
        if (!is_same_row((*rows)[i].record.row, some[i].from)) continue;
        const std::string key = database_.keys().worker(pool, workers[i]);
        WorkerRecord record{some[i].to, now + some[i].to.state.held_for.count()};
        LeaseState& state = record.row.state;
        if (state.token == some[i].from.state.token)
          state.holder = (*rows)[i].record.row.state.holder;
        Transaction one{.compares = {is_as_changed(key, (*rows)[i].changed)},
                        .then = {put(key, text_of(record))}};
        // By itself: what became of it before an answer was lost, or when there is no space, is
        // known of a transaction that is not nested.
        if (some.size() == 1)
          changing = std::move(one);
        else
          changing.then.push_back(nested(one));
        changed.push_back(swapped.size() - 1);
      }
      if (changed.empty()) continue;
      const Result<Answer> answer = database_.change(kind, std::move(changing), until, doing);
      if (!answer) return failed(answer.error());
      applied = true;
      for (std::size_t i = 0; i < changed.size(); ++i) {
        const bool done = some.size() == 1 ? answer->succeeded : answer->found[i].succeeded;
        // With several, the answer does not tell whether an earlier attempt changed one.
        if (done)
          swapped[changed[i]] = Swapped::kYes;
        else if (some.size() > 1 || answer->sent_before)
          swapped[changed[i]] = Swapped::kPerhaps;
      }
    }
    return swapped;
  }

  // ---- rows

  // The size of a pool. kNotFound: no such pool.
  [[nodiscard]] Result<std::int64_t> size_in(std::string_view pool, const Found& found) const {
    if (found.entries.empty()) return std::unexpected(no_pool(pool, database_.url()));
    const std::string& value = found.entries.front().value;
    if (const auto workers = read_pool(value)) return *workers;
    return database_.damaged("the pool " + shown(pool) + " has the value " + shown(value));
  }

  [[nodiscard]] Result<SeenRow> parse(std::string_view pool, std::int64_t worker,
                                      const Entry& entry) const {
    std::optional<WorkerRecord> row = key_value::read_worker(worker, entry.value);
    if (!row)
      return database_.damaged("pool " + shown(pool) + ", worker id " + std::to_string(worker) +
                               ": the value is " + shown(entry.value));
    return SeenRow{*std::move(row), entry.changed};
  }

  // At one revision, in the order of the worker ids that are asked for.
  Result<std::vector<SeenRow>> read(std::string_view pool, std::span<const std::int64_t> workers,
                                    SteadyTime until) {
    Operations reading{get(database_.keys().pool(pool))};
    for (const std::int64_t worker : workers)
      reading.push_back(get(database_.keys().worker(pool, worker)));
    const auto found = database_.read(reading, until);
    if (!found) return std::unexpected(found.error());
    const Result<std::int64_t> size = size_in(pool, found->front());
    if (!size) return std::unexpected(size.error());
    std::vector<SeenRow> rows;
    for (std::size_t i = 0; i < workers.size(); ++i) {
      if (workers[i] < 0 || workers[i] >= *size)
        return std::unexpected(no_worker(pool, workers[i]));
      const Found& row = (*found)[i + 1];
      if (row.entries.empty()) return missing(pool, workers[i]);
      Result<SeenRow> seen = parse(pool, workers[i], row.entries.front());
      if (!seen) return std::unexpected(std::move(seen.error()));
      rows.push_back(*std::move(seen));
    }
    return rows;
  }

  struct Some {
    std::vector<WorkerRow> rows{};
    bool is_all = false;  // of the pool
  };
  // Rows from a worker id on, in the order of their keys; none if some are missing. kNotFound: no
  // such pool.
  Result<Some> read_some(std::string_view pool, const FreeWorkers& wanted, SteadyTime until) {
    const std::string prefix = database_.keys().workers(pool);
    const bool from_first = wanted.start == 0;
    std::int64_t first = 0;
    if (!from_first) {
      const Result<std::int64_t> size =
          wanted.workers > 0 ? wanted.workers : known_size(pool, until);
      if (!size) return std::unexpected(size.error());
      first = static_cast<std::int64_t>(wanted.start % static_cast<std::uint64_t>(*size));
    }
    const auto found = database_.read(
        {get(database_.keys().pool(pool)),
         get_range(database_.keys().worker(pool, first), after_prefix(prefix), kLeastRead)},
        until);
    if (!found) return std::unexpected(found.error());
    const Result<std::int64_t> size = size_in(pool, found->front());
    if (!size) return std::unexpected(size.error());
    const Result<std::vector<SeenRow>> rows = rows_in(pool, *size, found->back());
    if (!rows) return std::unexpected(rows.error());
    const std::int64_t now = clock_of_the_host();
    Some some;
    for (const SeenRow& each : *rows) some.rows.push_back(each.record.at(now));
    some.is_all = std::ssize(some.rows) == *size;
    if (from_first && !some.is_all && some.rows.size() < kLeastRead) some.rows.clear();
    return some;
  }

  // How large the pool was when it was read first. Only a pool of a store that took the place of
  // this one may have another size.
  Result<std::int64_t> known_size(std::string_view pool, SteadyTime until) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto at = sizes_.find(pool); at != sizes_.end()) return at->second;
    }
    const auto there = database_.read({get(database_.keys().pool(pool))}, until);
    if (!there) return std::unexpected(there.error());
    Result<std::int64_t> size = size_in(pool, there->front());
    if (!size) return size;
    const std::lock_guard lock(mutex_);
    sizes_.insert_or_assign(std::string(pool), *size);
    return size;
  }

  // All rows of a pool at one revision, sorted by worker id.
  Result<std::vector<SeenRow>> read_all(std::string_view pool, SteadyTime until) {
    const std::string prefix = database_.keys().workers(pool);
    const auto found = database_.read(
        {get(database_.keys().pool(pool)), get_range(prefix, after_prefix(prefix), 0)}, until);
    if (!found) return std::unexpected(found.error());
    const Result<std::int64_t> size = size_in(pool, found->front());
    if (!size) return std::unexpected(size.error());
    Result<std::vector<SeenRow>> rows = rows_in(pool, *size, found->back());
    if (!rows) return rows;
    const auto worker_of = [](const SeenRow& row) { return row.record.row.state.worker; };
    std::ranges::sort(*rows, {}, worker_of);
    std::int64_t next = 0;
    for (const SeenRow& each : *rows)
      if (worker_of(each) != next++) return missing(pool, next - 1);
    if (next != *size) return missing(pool, next);
    return rows;
  }

  // In the order of their keys.
  [[nodiscard]] Result<std::vector<SeenRow>> rows_in(std::string_view pool, std::int64_t size,
                                                     const Found& found) const {
    const std::string prefix = database_.keys().workers(pool);
    std::vector<SeenRow> rows;
    for (const Entry& entry : found.entries) {
      const auto worker = number_behind(prefix, entry.key);
      if (!worker || *worker < 0 || *worker >= size) continue;  // of a pool that was not finished
      Result<SeenRow> row = parse(pool, *worker, entry);
      if (!row) return std::unexpected(std::move(row.error()));
      rows.push_back(*std::move(row));
    }
    return rows;
  }

  [[nodiscard]] std::unexpected<Error> missing(std::string_view pool, std::int64_t worker) const {
    return database_.damaged("pool " + shown(pool) + ": the key of worker id " +
                             std::to_string(worker) + " is missing");
  }

  Database& database_;
  std::mutex mutex_{};  // guards sizes_
  std::map<std::string, std::int64_t, std::less<>> sizes_{};
  Leases leases_{database_, *this};
};

}  // namespace

std::shared_ptr<LeaseTable> workers_of(Database& database) {
  const auto workers = std::make_shared<Workers>(database);
  return {workers, &workers->leases()};
}

}  // namespace idmint::stores::etcd
