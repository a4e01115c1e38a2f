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

Result<void> Tables::create(std::span<const NewCounter> counters) {
  for (const NewCounter& counter : counters) {
    const CounterState& there =
        counters_
            .try_emplace(counter.name, counter.name, counter.bounds, counter.bounds.first, false)
            .first->second;
    if (there.bounds != counter.bounds) return std::unexpected(other_bounds(there, counter.bounds));
  }
  return {};
}

Result<Range> Tables::advance(std::string_view counter, std::int64_t count, Take take) {
  const auto at = counters_.find(counter);
  if (at == counters_.end()) return std::unexpected(no_counter(counter, url_));
  CounterState& state = at->second;
  const std::int64_t left = state.left();
  const std::int64_t least = take == Take::kAll ? count : 1;
  if (state.closed || left < least) return std::unexpected(refused_advance(state, count));
  const Range range{state.next, state.bounds.stride, std::min(count, left)};
  state.next += range.count * range.stride;
  return range;
}

// Tries all counters and returns the first error of `change` or of a missing counter.
template <class Change>
Result<void> Tables::on_each(std::span<const std::string> counters, const Change& change) {
  Result<void> all;
  for (const std::string& counter : counters) {
    const auto at = counters_.find(counter);
    Result<void> changed =
        at != counters_.end() ? change(at->second) : std::unexpected(no_counter(counter, url_));
    if (!changed && all) all = std::move(changed);
  }
  return all;
}

Result<std::vector<std::int64_t>> Tables::raise(std::span<const std::string> counters,
                                                std::int64_t floor) {
  std::vector<std::int64_t> next;
  const Result<void> raised = on_each(counters, [&](CounterState& state) -> Result<void> {
    state.next = std::max(state.next, state.bounds.at_or_above(floor));
    next.push_back(state.next);
    return {};
  });
  if (!raised) return std::unexpected(raised.error());
  return next;
}

Result<std::vector<CounterBounds>> Tables::extend(std::span<const std::string> counters,
                                                  std::int64_t last) {
  std::vector<CounterBounds> all;
  const Result<void> extended = on_each(counters, [&](CounterState& state) -> Result<void> {
    CounterBounds& bounds = state.bounds;
    if (last > largest_last(bounds.stride))
      return std::unexpected(too_large_an_end(state.name, last, bounds.stride));
    bounds.last = std::max(bounds.last, last);
    all.push_back(bounds);
    return {};
  });
  if (!extended) return std::unexpected(extended.error());
  return all;
}

Result<void> Tables::close(std::span<const std::string> counters) {
  return on_each(counters, [](CounterState& state) -> Result<void> {
    state.closed = true;
    return {};
  });
}

Result<CounterState> Tables::peek(std::string_view counter) const {
  const auto at = counters_.find(counter);
  if (at == counters_.end()) return std::unexpected(no_counter(counter, url_));
  return at->second;
}

Result<std::vector<CounterState>> Tables::list(std::string_view prefix) const {
  std::vector<CounterState> found;
  for (auto at = counters_.lower_bound(prefix);
       at != counters_.end() && at->first.starts_with(prefix); ++at)
    found.push_back(at->second);
  return found;
}

// ---- definitions

Result<Definition> Tables::define(const Definition& definition) {
  return definitions_.try_emplace(name(definition), definition).first->second;
}

Result<Definition> Tables::replace(const Definition& old, const Definition& updated) {
  const auto at = definitions_.find(name(old));
  if (at == definitions_.end()) return std::unexpected(no_definition(name(old), url_));
  if (at->second == old) at->second = updated;
  return at->second;
}

Result<Definition> Tables::find(std::string_view name) const {
  const auto at = definitions_.find(name);
  if (at == definitions_.end()) return std::unexpected(no_definition(name, url_));
  return at->second;
}

Result<std::vector<CatalogEntry>> Tables::list_after(std::string_view after,
                                                     std::size_t most) const {
  std::vector<CatalogEntry> some;
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
