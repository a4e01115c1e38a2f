#include "engines/memory/tables.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>
#include <utility>

#include "store/backend.h"
#include "store/protocol/lease_rules.h"

namespace idmint::stores::memory {

// ---- counters

Result<CounterStates> Tables::make_counters(std::span<const NewCounter> counters) {
  CounterStates there;
  for (const NewCounter& counter : counters) {
    const auto made = counters_.try_emplace(counter.name, counter.name, counter.bounds,
                                            counter.bounds.first, false);
    there.insert(*made.first);
  }
  return there;
}

Result<std::optional<Range>> Tables::advance(std::string_view counter, std::int64_t most,
                                             std::int64_t least) {
  const auto at = counters_.find(counter);
  if (at == counters_.end()) return std::nullopt;
  CounterState& state = at->second;
  if (state.closed || state.left() < least) return std::nullopt;
  const Range range{state.next, state.bounds.stride, std::min(most, state.left())};
  state.next += range.count * range.stride;
  return range;
}

Result<CounterStates> Tables::lift(std::span<const std::string> counters, const CounterLift& lift) {
  CounterStates lifted;
  for (const std::string& counter : counters) {
    const auto at = counters_.find(counter);
    if (at == counters_.end()) continue;
    lift_to(lift, at->second);
    lifted.insert(*at);
  }
  return lifted;
}

Result<CounterStates> Tables::read_counters(std::span<const std::string> counters) const {
  CounterStates there;
  for (const std::string& counter : counters)
    if (const auto at = counters_.find(counter); at != counters_.end()) there.insert(*at);
  return there;
}

Result<std::vector<CounterState>> Tables::list_counters(std::string_view prefix) const {
  std::vector<CounterState> found;
  for (auto at = counters_.lower_bound(prefix);
       at != counters_.end() && at->first.starts_with(prefix); ++at)
    found.push_back(at->second);
  return found;
}

// ---- definitions

Result<Swapped> Tables::insert_definition(const DefinitionRow& row) {
  return definitions_.try_emplace(row.name, row.json).second ? Swapped::kYes : Swapped::kNo;
}

Result<Swapped> Tables::swap_definition(const DefinitionRow& row, const std::string& json) {
  const auto at = definitions_.find(row.name);
  if (at == definitions_.end() || at->second != row.json) return Swapped::kNo;
  at->second = json;
  return Swapped::kYes;
}

Result<std::optional<std::string>> Tables::read_definition(std::string_view name) const {
  const auto at = definitions_.find(name);
  return at != definitions_.end() ? std::optional(at->second) : std::nullopt;
}

Result<std::vector<DefinitionRow>> Tables::list_definitions(std::string_view after,
                                                            std::size_t most) const {
  std::vector<DefinitionRow> some;
  for (auto at = definitions_.upper_bound(after); at != definitions_.end() && some.size() < most;
       ++at)
    some.push_back({at->first, at->second});
  return some;
}

// ---- claims

Result<void> Tables::create_space(std::string_view space) {
  spaces_.try_emplace(std::string(space));
  return {};
}

Result<const Tables::Space*> Tables::space_of(std::string_view space) const {
  const auto at = spaces_.find(space);
  if (at == spaces_.end()) return std::unexpected(no_space(space, url_));
  return &at->second;
}

Result<std::vector<bool>> Tables::insert(std::string_view space,
                                         std::span<const std::int64_t> keys) {
  const auto at = spaces_.find(space);
  if (at == spaces_.end()) return std::unexpected(no_space(space, url_));
  if (at->second.closed) return std::unexpected(closed_space(space));
  std::vector<bool> ours;
  ours.reserve(keys.size());
  for (const std::int64_t key : keys) ours.push_back(at->second.claims.insert(key).second);
  return ours;
}

Result<std::int64_t> Tables::claimed(std::string_view space) const {
  const Result<const Space*> found = space_of(space);
  if (!found) return std::unexpected(found.error());
  return std::ssize((*found)->claims);
}

Result<bool> Tables::contains(std::string_view space, std::int64_t key) const {
  const Result<const Space*> found = space_of(space);
  if (!found) return std::unexpected(found.error());
  return (*found)->claims.contains(key);
}

Result<void> Tables::close_space(std::string_view space) {
  const auto at = spaces_.find(space);
  if (at == spaces_.end()) return std::unexpected(no_space(space, url_));
  at->second.closed = true;
  return {};
}

// ---- worker ids

WorkerRow Tables::HeldRow::at(SteadyTime now) const {
  WorkerRow there = row;
  there.state.held_for = {};
  if (there.state.token != Uuid{} && held_until > now)
    there.state.held_for = std::chrono::ceil<std::chrono::milliseconds>(held_until - now);
  return there;
}

Result<const Tables::Pool*> Tables::pool_of(std::string_view pool) const {
  const auto at = pools_.find(pool);
  if (at == pools_.end()) return std::unexpected(no_pool(pool, url_));
  return &at->second;
}

Result<std::int64_t> Tables::make_pool(std::string_view pool, std::int64_t workers) {
  const auto [at, made] = pools_.try_emplace(std::string(pool));
  if (made) {
    at->second.resize(static_cast<std::size_t>(workers));
    for (std::int64_t worker = 0; HeldRow & held : at->second) held.row.state.worker = worker++;
  }
  return std::ssize(at->second);
}

Result<WorkerRow> Tables::read_worker(std::string_view pool, std::int64_t worker,
                                      SteadyTime now) const {
  const Result<const Pool*> rows = pool_of(pool);
  if (!rows) return std::unexpected(rows.error());
  if (worker < 0 || worker >= std::ssize(**rows)) return std::unexpected(no_worker(pool, worker));
  return (**rows)[static_cast<std::size_t>(worker)].at(now);
}

Result<std::vector<WorkerRow>> Tables::read_workers(std::string_view pool, SteadyTime now) const {
  const Result<const Pool*> rows = pool_of(pool);
  if (!rows) return std::unexpected(rows.error());
  std::vector<WorkerRow> all;
  for (const HeldRow& held : **rows) all.push_back(held.at(now));
  return all;
}

Result<std::vector<WorkerRow>> Tables::find_free(std::string_view pool, const FreeWorkers& wanted,
                                                 SteadyTime now) const {
  const Result<std::vector<WorkerRow>> rows = read_workers(pool, now);
  if (!rows) return std::unexpected(rows.error());
  return choose_free(*rows, wanted);
}

Result<std::vector<Swapped>> Tables::swap_workers(std::string_view pool,
                                                  std::span<const WorkerSwap> swaps,
                                                  SteadyTime now) {
  const auto at = pools_.find(pool);
  if (at == pools_.end()) return std::unexpected(no_pool(pool, url_));
  std::vector<Swapped> swapped;
  swapped.reserve(swaps.size());
  for (const auto& [from, to] : swaps) {
    const std::int64_t worker = from.state.worker;
    if (worker < 0 || worker >= std::ssize(at->second))
      return std::unexpected(no_worker(pool, worker));
    HeldRow& held = at->second[static_cast<std::size_t>(worker)];
    const bool as_read = is_same_row(held.row, from);
    swapped.push_back(as_read ? Swapped::kYes : Swapped::kNo);
    if (!as_read) continue;
    std::string holder =
        from.state.token == to.state.token ? held.row.state.holder : to.state.holder;
    held = {to, now + to.state.held_for};
    held.row.state.holder = std::move(holder);
  }
  return swapped;
}

}  // namespace idmint::stores::memory
