// Tables: the state of a store in memory, as a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/clock.h"
#include "idmint/result.h"
#include "store/counter_store.h"
#include "store/engine.h"

namespace idmint::stores::memory {

// Not for several threads at once. A copy is a backup. The methods are those of CounterRows,
// DefinitionRows, UniqueIndex and WorkerRows, with their errors; `now` is the store's clock.
class Tables {
 public:
  // For messages.
  explicit Tables(std::string_view url) : url_(url) {}

  Result<CounterStates> make_counters(std::span<const NewCounter> counters);
  Result<std::optional<Range>> advance(std::string_view counter, std::int64_t most,
                                       std::int64_t least);
  Result<CounterStates> lift(std::span<const std::string> counters, const CounterLift& lift);
  [[nodiscard]] Result<CounterStates> read_counters(std::span<const std::string> counters) const;
  [[nodiscard]] Result<std::vector<CounterState>> list_counters(std::string_view prefix) const;

  Result<Swapped> insert_definition(const DefinitionRow& row);
  Result<Swapped> swap_definition(const DefinitionRow& row, const std::string& json);
  [[nodiscard]] Result<std::optional<std::string>> read_definition(std::string_view name) const;
  [[nodiscard]] Result<std::vector<DefinitionRow>> list_definitions(std::string_view after,
                                                                    std::size_t most) const;

  Result<void> create_space(std::string_view space);
  Result<std::vector<bool>> insert(std::string_view space, std::span<const std::int64_t> keys);
  [[nodiscard]] Result<std::int64_t> claimed(std::string_view space) const;
  [[nodiscard]] Result<bool> contains(std::string_view space, std::int64_t key) const;
  Result<void> close_space(std::string_view space);

  Result<std::int64_t> make_pool(std::string_view pool, std::int64_t workers);
  [[nodiscard]] Result<WorkerRow> read_worker(std::string_view pool, std::int64_t worker,
                                              SteadyTime now) const;
  [[nodiscard]] Result<std::vector<WorkerRow>> read_workers(std::string_view pool,
                                                            SteadyTime now) const;
  [[nodiscard]] Result<std::vector<WorkerRow>> find_free(std::string_view pool,
                                                         const FreeWorkers& wanted,
                                                         SteadyTime now) const;
  Result<std::vector<Swapped>> swap_workers(std::string_view pool,
                                            std::span<const WorkerSwap> swaps, SteadyTime now);

 private:
  struct Space {
    std::set<std::int64_t> claims{};
    bool closed = false;
  };
  // LeaseState::held_for stands in held_until.
  struct HeldRow {
    WorkerRow row{};
    SteadyTime held_until{};

    [[nodiscard]] WorkerRow at(SteadyTime now) const;
  };
  using Pool = std::vector<HeldRow>;

  [[nodiscard]] Result<const Space*> space_of(std::string_view space) const;
  [[nodiscard]] Result<const Pool*> pool_of(std::string_view pool) const;

  std::string_view url_;
  CounterStates counters_;
  std::map<std::string, std::string, std::less<>> definitions_;
  std::map<std::string, Space, std::less<>> spaces_;
  std::map<std::string, Pool, std::less<>> pools_;
};

}  // namespace idmint::stores::memory
