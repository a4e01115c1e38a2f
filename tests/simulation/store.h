// A store in memory whose calls fail as a history says.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engines/memory/tables.h"
#include "idmint/store.h"
#include "ids/lease_table.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/engine.h"
#include "store/protocol/counters.h"
#include "store/protocol/definitions.h"
#include "store/protocol/leases.h"
#include "store/unique_index.h"
#include "tests/simulation/history.h"

namespace idmint::simulation {

// The state that the processes of a history share.
struct Place {
  explicit Place(std::string its_url) : url(std::move(its_url)), tables(url) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  const std::string url;
  // The id is of this history alone, as the library remembers for the life of a process what a
  // store gave.
  const Uuid id = fresh_id();
  stores::memory::Tables tables;
  // The tables that a fail-over leaves: all up to the latest change that was acknowledged. nullopt:
  // it never takes anything back.
  std::optional<stores::memory::Tables> durable{};
  std::mutex mutex{};  // for threads that the code starts itself

 private:
  static Uuid fresh_id() noexcept;
};

// One process's handle. The rules of counters, definitions and leases are the real ones, over the
// rows of the place.
class SimulatedStore final : public Store,
                             private UniqueIndex,
                             private stores::Engine,
                             private stores::CounterRows,
                             private stores::DefinitionRows,
                             private stores::WorkerRows {
 public:
  // Undisturbed: its calls are no steps, and none fails.
  SimulatedStore(Process& process, Place& place, bool disturbed = true)
      : process_(process), place_(place), disturbed_(disturbed), server_(process.name()) {}

  const Uuid& id() const noexcept override { return place_.id; }
  std::string_view url() const noexcept override { return place_.url; }
  // The values that a process was given are its own: processes of one history are hosts of their
  // own.
  std::string server() const override { return server_; }
  std::chrono::milliseconds deadline() const noexcept override { return kDeadline; }
  CounterStore* counters() noexcept override { return &counters_; }
  Catalog* catalog() noexcept override { return &definitions_; }
  UniqueIndex* unique_index() noexcept override { return this; }
  LeaseTable* leases() noexcept override { return &leases_; }

  // Told of each swap that this process sends, of each that it is told was applied, and of each row
  // that it reads by its number.
  std::function<void(const stores::WorkerSwap&)> on_swap{};
  std::function<void(const stores::WorkerSwap&)> on_swapped{};
  std::function<void(const stores::WorkerRow&)> on_row{};

 private:
  // A long time, as histories do not take any by the steady clock.
  static constexpr std::chrono::milliseconds kDeadline = std::chrono::seconds{20};

  // A call of the process. Threads that the code starts itself meet no faults: their order is not
  // chosen.
  template <class T>
  Result<T> call(std::string_view what, std::function<Result<T>(Place&)> apply) {
    Place* const place = &place_;
    const auto locked = [place, apply = std::move(apply)] {
      const std::lock_guard lock(place->mutex);
      return apply(*place);
    };
    if (!disturbed_ || !process_.is_this_thread()) return locked();
    return process_.call<T>(what, locked);
  }
  // The store's clock.
  [[nodiscard]] SteadyTime now() const {
    return SteadyTime{process_.history().now().time_since_epoch()};
  }

  std::string_view shown_url() const noexcept override { return place_.url; }
  Entropy& entropy() const noexcept override { return process_.entropy(); }
  Result<SteadyTime> enter(stores::Purpose, SteadyTime by) override {
    return std::min(by, std::chrono::steady_clock::now() + kDeadline);
  }
  Result<void> expect_trust(SteadyTime) override { return {}; }
  void pause(std::chrono::nanoseconds time) override {
    process_.clock().sleep_until(Instant::max(), time);
  }

  Result<std::int64_t> make_pool(std::string_view pool, std::int64_t workers, SteadyTime,
                                 std::string_view) override {
    return call<std::int64_t>("makes the pool", [pool = std::string(pool), workers](Place& place) {
      return place.tables.make_pool(pool, workers);
    });
  }
  Result<stores::WorkerRow> read_worker(std::string_view pool, std::int64_t worker,
                                        SteadyTime) override {
    Result<stores::WorkerRow> row =
        call<stores::WorkerRow>("reads worker id " + std::to_string(worker),
                                [pool = std::string(pool), worker, now = now()](Place& place) {
                                  return place.tables.read_worker(pool, worker, now);
                                });
    if (row && on_row) on_row(*row);
    return row;
  }
  Result<std::vector<stores::WorkerRow>> read_workers(std::string_view pool, SteadyTime) override {
    return call<std::vector<stores::WorkerRow>>(
        "reads all worker ids", [pool = std::string(pool), now = now()](Place& place) {
          return place.tables.read_workers(pool, now);
        });
  }
  Result<std::vector<stores::WorkerRow>> find_free(std::string_view pool,
                                                   const stores::FreeWorkers& wanted,
                                                   SteadyTime) override {
    return call<std::vector<stores::WorkerRow>>(
        "looks for a free worker id",
        [pool = std::string(pool), wanted, now = now()](Place& place) {
          return place.tables.find_free(pool, wanted, now);
        });
  }
  Result<std::vector<stores::Swapped>> swap_workers(std::string_view pool,
                                                    std::span<const stores::WorkerSwap> swaps,
                                                    stores::Purpose, const LeaseTerms*, SteadyTime,
                                                    std::string_view doing) override;

  Result<stores::CounterStates> make_counters(std::span<const NewCounter> counters, SteadyTime,
                                              std::string_view) override {
    return call<stores::CounterStates>(
        "makes " + counters.front().name,
        [counters = std::vector(counters.begin(), counters.end())](Place& place) {
          return place.tables.make_counters(counters);
        });
  }
  Result<std::optional<Range>> advance(std::string_view counter, std::int64_t most,
                                       std::int64_t least, SteadyTime, std::string_view) override {
    return call<std::optional<Range>>(
        "takes " + std::to_string(most) + " of " + std::string(counter),
        [counter = std::string(counter), most, least](Place& place) {
          return place.tables.advance(counter, most, least);
        });
  }
  Result<stores::CounterStates> lift(std::span<const std::string> counters,
                                     const stores::CounterLift& lift, SteadyTime,
                                     std::string_view) override {
    return call<stores::CounterStates>(
        "lifts " + counters.front() + " to " + std::to_string(lift.next.value_or(0)) +
            ", its end to " + std::to_string(lift.last) + (lift.closed ? ", closed" : ""),
        [counters = std::vector(counters.begin(), counters.end()), lift](Place& place) {
          return place.tables.lift(counters, lift);
        });
  }
  Result<stores::CounterStates> read_counters(std::span<const std::string> counters,
                                              SteadyTime) override {
    return call<stores::CounterStates>(
        "reads " + counters.front(),
        [counters = std::vector(counters.begin(), counters.end())](Place& place) {
          return place.tables.read_counters(counters);
        });
  }
  Result<std::vector<CounterState>> list_counters(std::string_view prefix, SteadyTime) override {
    return call<std::vector<CounterState>>("lists " + std::string(prefix),
                                           [prefix = std::string(prefix)](Place& place) {
                                             return place.tables.list_counters(prefix);
                                           });
  }

  Result<stores::Swapped> insert_definition(const stores::DefinitionRow& row, SteadyTime,
                                            std::string_view) override {
    return call<stores::Swapped>(
        "defines " + row.name, [row](Place& place) { return place.tables.insert_definition(row); });
  }
  Result<stores::Swapped> swap_definition(const stores::DefinitionRow& row, const std::string& json,
                                          SteadyTime, std::string_view) override {
    return call<stores::Swapped>("replaces a definition", [row, json](Place& place) {
      return place.tables.swap_definition(row, json);
    });
  }
  Result<std::optional<std::string>> read_definition(std::string_view name, SteadyTime) override {
    return call<std::optional<std::string>>(
        "reads the definition",
        [name = std::string(name)](Place& place) { return place.tables.read_definition(name); });
  }
  Result<std::vector<stores::DefinitionRow>> list_definitions(std::string_view after,
                                                              std::size_t most,
                                                              SteadyTime) override {
    return call<std::vector<stores::DefinitionRow>>(
        "lists the definitions", [after = std::string(after), most](Place& place) {
          return place.tables.list_definitions(after, most);
        });
  }

  Result<void> do_create_space(std::string_view space) override {
    return call<void>("makes a space of claims", [space = std::string(space)](Place& place) {
      return place.tables.create_space(space);
    });
  }
  Result<std::vector<bool>> do_insert(std::string_view space, std::span<const std::int64_t> keys,
                                      SteadyTime) override {
    return call<std::vector<bool>>(
        "claims numbers",
        [space = std::string(space), keys = std::vector(keys.begin(), keys.end())](Place& place) {
          return place.tables.insert(space, keys);
        });
  }
  Result<std::int64_t> do_claimed(std::string_view space, SteadyTime) override {
    return call<std::int64_t>("counts claims", [space = std::string(space)](Place& place) {
      return place.tables.claimed(space);
    });
  }
  Result<bool> do_contains(std::string_view space, std::int64_t key) override {
    return call<bool>("reads a claim", [space = std::string(space), key](Place& place) {
      return place.tables.contains(space, key);
    });
  }
  Result<void> do_close_space(std::string_view space) override {
    return call<void>("closes a space of claims", [space = std::string(space)](Place& place) {
      return place.tables.close_space(space);
    });
  }

  Process& process_;
  Place& place_;
  const bool disturbed_;
  const std::string server_;
  stores::Counters counters_{*this, *this};
  stores::Definitions definitions_{*this, *this};
  stores::Leases leases_{*this, *this};
};

}  // namespace idmint::simulation
