#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/outcome.h"
#include "engines/zookeeper/tables.h"
#include "ids/lease_table.h"
#include "store/backend.h"
#include "store/engine.h"
#include "store/protocol/lease_rules.h"
#include "store/protocol/leases.h"

namespace idmint::stores::zookeeper {
namespace {

// A row as it was at one version.
struct SeenRow {
  WorkerRecord record;
  std::int32_t version;
};

// Each row is a node. A swap reads the rows first, compares them by value, and writes at the
// version that it read on the same connection.
class Workers final : private WorkerRows {
 public:
  explicit Workers(Database& database) : database_(database) {}

  [[nodiscard]] LeaseTable& leases() noexcept { return leases_; }

 private:
  // The rows first: a pool that is there has all of its rows.
  Result<std::int64_t> make_pool(std::string_view pool, std::int64_t workers, SteadyTime until,
                                 std::string_view doing) override {
    const std::string path = database_.paths().named(kPools, pool);
    const Paths& paths = database_.paths();
    const std::string fresh = text_of(WorkerRecord{});
    const auto there = database_.run(
        Kind::kHandOut, until, doing, [&](Session& session) -> Attempt<Database::Nodes> {
          Request reading{.reads = {path}};
          const std::int64_t parts = (workers - 1) / Paths::kWorkersInPart + 1;
          for (std::int64_t part = 0; part < parts; ++part)
            reading.lists.push_back(paths.workers(pool, part));
          auto answer = database_.read(session, std::move(reading), until);
          if (!answer) return std::unexpected(std::move(answer.error()));
          if (answer->nodes.front()) return std::move(answer->nodes);
          std::vector<Change> making;
          for (std::int64_t worker = 0; worker < workers; ++worker) {
            const auto& made =
                answer->lists[static_cast<std::size_t>(worker / Paths::kWorkersInPart)];
            if (!made || std::ranges::find(*made, std::to_string(worker)) == made->end())
              making.push_back({create(paths.worker(pool, worker), fresh)});
          }
          auto rows = database_.change(session, Kind::kHandOut, making, until);
          if (!rows) return rows;
          Change last{create(path, pool_text(workers))};
          auto after = database_.change(session, Kind::kHandOut, std::span(&last, 1), until,
                                        nullptr, {path});
          if (!after) after.error().begun = true;
          return after;
        });
    if (!there) return std::unexpected(there.error());
    return size_in(pool, there->front());
  }

  Result<WorkerRow> read_worker(std::string_view pool, std::int64_t worker,
                                SteadyTime until) override {
    const Result<std::vector<SeenRow>> rows = read(pool, {{worker}}, until, Database::By::kQuorum);
    if (!rows) return std::unexpected(rows.error());
    return rows->front().record.at(clock_of_the_host());
  }

  Result<std::vector<WorkerRow>> read_workers(std::string_view pool, SteadyTime until) override {
    const Result<std::int64_t> size = known_size(pool, until);
    if (!size) return std::unexpected(size.error());
    return read_from(pool, 0, *size, until);
  }

  Result<std::vector<WorkerRow>> find_free(std::string_view pool, const FreeWorkers& wanted,
                                           SteadyTime until) override {
    // All rows of a large pool are read only where a few of them will not do.
    if (!wanted.may_own) {
      const Result<std::int64_t> size =
          wanted.workers > 0 ? wanted.workers : known_size(pool, until);
      if (!size) return std::unexpected(size.error());
      const auto first =
          static_cast<std::int64_t>(wanted.start % static_cast<std::uint64_t>(*size));
      const std::int64_t end = std::min(*size, first + std::int64_t{kLeastRead});
      const auto some = read_from(pool, first, end, until);
      if (!some) return std::unexpected(some.error());
      std::vector<WorkerRow> free = choose_free(*some, wanted);
      const bool near = !free.empty() && free.front().state.minted_until <= wanted.limit;
      if (near || std::ssize(*some) == *size) return free;
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
    std::vector<Change::Fate> fates(swaps.size(), Change::Fate::kPending);
    bool applied = false;
    Result<void> refused;
    const auto done = database_.run(kind, until, doing, [&](Session& session) -> Attempt<bool> {
      std::vector<std::int64_t> workers;
      std::vector<std::size_t> places;
      for (std::size_t i = 0; i < swaps.size(); ++i) {
        if (fates[i] != Change::Fate::kPending && fates[i] != Change::Fate::kPerhaps) continue;
        workers.push_back(swaps[i].from.state.worker);
        places.push_back(i);
      }
      auto rows = read(session, pool, workers, until);
      // A row that is another one may prove that the store has gone back.
      const auto is_other = [&](std::size_t k) {
        return !is_same_row((**rows)[k].record.row, swaps[places[k]].from);
      };
      if (rows && (!*rows || std::ranges::any_of(std::views::iota(0U, places.size()), is_other)))
        rows = read(session, pool, workers, until, Database::By::kQuorum);
      if (!rows) return std::unexpected(std::move(rows.error()));
      if (!*rows) {
        refused = std::unexpected(rows->error());
        return false;
      }
      const std::int64_t now = clock_of_the_host();
      std::vector<Change> changes;
      std::vector<std::size_t> changed;
      for (std::size_t k = 0; k < places.size(); ++k) {
        const WorkerSwap& swap = swaps[places[k]];
        const SeenRow& there = (**rows)[k];
        Change::Fate& fate = fates[places[k]];
        if (!is_same_row(there.record.row, swap.from)) {
          if (fate == Change::Fate::kPending) fate = Change::Fate::kRefused;
          continue;
        }
        WorkerRecord record{swap.to, now + swap.to.state.held_for.count()};
        LeaseState& state = record.row.state;
        if (state.token == swap.from.state.token) state.holder = there.record.row.state.holder;
        changes.push_back(
            {set(database_.paths().worker(pool, workers[k]), text_of(record), there.version)});
        changed.push_back(places[k]);
      }
      auto written = database_.change(session, kind, changes, until);
      for (std::size_t k = 0; k < changes.size(); ++k) {
        Change::Fate& fate = fates[changed[k]];
        // Refused after an attempt without an answer, it may be that one that changed it.
        if (changes[k].fate == Change::Fate::kRefused && fate == Change::Fate::kPerhaps) continue;
        if (changes[k].fate != Change::Fate::kPending) fate = changes[k].fate;
        applied = applied || fate == Change::Fate::kDone;
      }
      if (!written) return std::unexpected(std::move(written.error()));
      return true;
    });
    if (!done) return std::unexpected(applied ? after_a_write(done.error()) : done.error());
    if (!refused)
      return std::unexpected(applied ? after_a_write(refused.error()) : refused.error());
    std::vector<Swapped> swapped;
    for (const Change::Fate fate : fates)
      swapped.push_back(fate == Change::Fate::kDone      ? Swapped::kYes
                        : fate == Change::Fate::kPerhaps ? Swapped::kPerhaps
                                                         : Swapped::kNo);
    return swapped;
  }

  // ---- rows

  // The size of a pool. kNotFound: no such pool.
  [[nodiscard]] Result<std::int64_t> size_in(std::string_view pool,
                                             const std::optional<Node>& node) const {
    if (!node) return std::unexpected(no_pool(pool, database_.url()));
    if (const auto workers = read_pool(node->value)) return *workers;
    return database_.damaged("the pool " + shown(pool) + " has the value " + shown(node->value));
  }

  // In the order of the worker ids that are asked for. The result within is that of the pool and
  // its rows.
  Attempt<Result<std::vector<SeenRow>>> read(Session& session, std::string_view pool,
                                             std::span<const std::int64_t> workers,
                                             SteadyTime until,
                                             Database::By by = Database::By::kLeader) {
    Request reading{.reads = {database_.paths().named(kPools, pool)}};
    for (const std::int64_t worker : workers)
      reading.reads.push_back(database_.paths().worker(pool, worker));
    auto answer = database_.read(session, std::move(reading), until, by);
    if (!answer) return std::unexpected(std::move(answer.error()));
    return rows_in(pool, workers, answer->nodes);
  }

  [[nodiscard]] Result<std::vector<SeenRow>> rows_in(
      std::string_view pool, std::span<const std::int64_t> workers,
      std::span<const std::optional<Node>> nodes) const {
    const Result<std::int64_t> size = size_in(pool, nodes.front());
    if (!size) return std::unexpected(size.error());
    std::vector<SeenRow> rows;
    for (std::size_t i = 0; i < workers.size(); ++i) {
      const std::int64_t worker = workers[i];
      if (worker < 0 || worker >= *size) return std::unexpected(no_worker(pool, worker));
      const std::optional<Node>& node = nodes[i + 1];
      const std::string which = "pool " + shown(pool) + ", worker id " + std::to_string(worker);
      if (!node) return database_.damaged(which + ": the node is missing");
      std::optional<WorkerRecord> record = key_value::read_worker(worker, node->value);
      if (!record) return database_.damaged(which + ": the value is " + shown(node->value));
      rows.push_back({*std::move(record), node->version});
    }
    return rows;
  }

  Result<std::vector<SeenRow>> read(std::string_view pool, std::span<const std::int64_t> workers,
                                    SteadyTime until, Database::By by = Database::By::kLeader) {
    auto rows = database_.run(Kind::kRead, until, "read", [&](Session& session) {
      return read(session, pool, workers, until, by);
    });
    if (!rows) return std::unexpected(rows.error());
    return *std::move(rows);
  }

  Result<std::vector<WorkerRow>> read_from(std::string_view pool, std::int64_t first,
                                           std::int64_t end, SteadyTime until) {
    std::vector<std::int64_t> workers;
    for (std::int64_t worker = first; worker < end; ++worker) workers.push_back(worker);
    const Result<std::vector<SeenRow>> rows = read(pool, workers, until);
    if (!rows) return std::unexpected(rows.error());
    const std::int64_t now = clock_of_the_host();
    std::vector<WorkerRow> all;
    for (const SeenRow& each : *rows) all.push_back(each.record.at(now));
    return all;
  }

  // How large the pool was when it was read first. Only a pool of a store that took the place of
  // this one may have another size.
  Result<std::int64_t> known_size(std::string_view pool, SteadyTime until) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto at = sizes_.find(pool); at != sizes_.end()) return at->second;
    }
    const auto answer = database_.read({.reads = {database_.paths().named(kPools, pool)}}, until);
    if (!answer) return std::unexpected(answer.error());
    Result<std::int64_t> size = size_in(pool, answer->nodes.front());
    if (!size) return size;
    const std::lock_guard lock(mutex_);
    sizes_.insert_or_assign(std::string(pool), *size);
    return size;
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

}  // namespace idmint::stores::zookeeper
