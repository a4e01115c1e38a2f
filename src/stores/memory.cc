#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/fork_wiped.h"
#include "base/url.h"
#include "idmint/store.h"
#include "ids/lease_table.h"
#include "stores/backend.h"
#include "stores/spi/catalog.h"
#include "stores/spi/counter_store.h"
#include "stores/spi/unique_index.h"

namespace idmint::stores {
namespace {

constexpr std::string_view kUrl = "memory:";

// Maps under a mutex. Durable as long as the process, as its URL promises.
class MemoryStore final : public Store,
                          private CounterStore,
                          private Catalog,
                          private UniqueIndex,
                          private LeaseTable {
 public:
  MemoryStore(const StoreOptions& options, Entropy& entropy)
      : options_(options), entropy_(entropy), id_(draw_store_id(entropy)) {}

  const Uuid& id() const noexcept override { return id_; }
  std::string_view url() const noexcept override { return kUrl; }
  std::chrono::milliseconds deadline() const noexcept override { return options_.deadline; }
  CounterStore* counters() noexcept override { return this; }
  Catalog* catalog() noexcept override { return this; }
  UniqueIndex* unique_index() noexcept override { return this; }
  LeaseTable* leases() noexcept override { return this; }

 private:
  struct Space {
    std::set<std::int64_t> claims;
    bool closed = false;
  };
  using SteadyClock = std::chrono::steady_clock;
  struct Row {
    LeaseState state;
    Uuid nonce{};  // of the latest extension
    SteadyClock::time_point held_until{};

    [[nodiscard]] bool is_free(SteadyClock::time_point now) const {
      return state.token == Uuid{} || held_until <= now;
    }
  };

  Result<void> do_create(std::span<const NewCounter> counters) override {
    if (!owner_) return inherited();
    const std::lock_guard lock(mutex_);
    for (const auto& [name, bounds, adopted, stripe, make] : counters) {
      const auto at = counters_.try_emplace(name, name, bounds, bounds.first, false).first;
      if (at->second.bounds != bounds) return std::unexpected(other_bounds(at->second, bounds));
    }
    return {};
  }

  Result<Range> do_advance(std::string_view counter, std::int64_t count, Take take,
                           SteadyTime /*until*/) override {
    if (!owner_) return inherited();
    const std::lock_guard lock(mutex_);
    const auto at = counters_.find(counter);
    if (at == counters_.end()) return std::unexpected(no_counter(counter, kUrl));
    CounterState& state = at->second;
    const std::int64_t left = state.left();
    const std::int64_t least = take == Take::kAll ? count : 1;
    if (state.closed || left < least) return std::unexpected(refused_advance(state, count));
    const Range range{state.next, state.bounds.stride, std::min(count, left)};
    state.next += range.count * range.stride;
    return range;
  }

  Result<std::vector<std::int64_t>> do_raise(std::span<const std::string> counters,
                                             std::int64_t floor, SteadyTime /*until*/) override {
    std::vector<std::int64_t> next;
    const Result<void> raised = on_each(counters, [&](CounterState& state) -> Result<void> {
      state.next = std::max(state.next, state.bounds.at_or_above(floor));
      next.push_back(state.next);
      return {};
    });
    if (!raised) return std::unexpected(raised.error());
    return next;
  }

  Result<std::vector<CounterBounds>> do_extend(std::span<const std::string> counters,
                                               std::int64_t last) override {
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

  Result<void> do_close(std::span<const std::string> counters) override {
    return on_each(counters, [](CounterState& state) -> Result<void> {
      state.closed = true;
      return {};
    });
  }

  Result<CounterState> do_peek(std::string_view counter, SteadyTime /*until*/) override {
    if (!owner_) return inherited();
    const std::lock_guard lock(mutex_);
    const auto at = counters_.find(counter);
    if (at == counters_.end()) return std::unexpected(no_counter(counter, kUrl));
    return at->second;
  }

  Result<std::vector<CounterState>> do_list(std::string_view prefix,
                                            SteadyTime /*until*/) override {
    if (!owner_) return inherited();
    const std::lock_guard lock(mutex_);
    std::vector<CounterState> found;
    for (auto at = counters_.lower_bound(prefix);
         at != counters_.end() && at->first.starts_with(prefix); ++at)
      found.push_back(at->second);
    return found;
  }

  Result<Definition> do_define(const Definition& definition) override {
    if (!owner_) return inherited();
    const std::lock_guard lock(mutex_);
    return definitions_.try_emplace(name(definition), definition).first->second;
  }

  Result<Definition> do_replace(const Definition& old, const Definition& updated) override {
    if (!owner_) return inherited();
    const std::lock_guard lock(mutex_);
    const auto at = definitions_.find(name(old));
    if (at == definitions_.end()) return std::unexpected(no_definition(name(old), kUrl));
    if (at->second == old) at->second = updated;
    return at->second;
  }

  Result<Definition> do_find(std::string_view name, SteadyTime /*until*/) override {
    if (!owner_) return inherited();
    const std::lock_guard lock(mutex_);
    const auto at = definitions_.find(name);
    if (at == definitions_.end()) return std::unexpected(no_definition(name, kUrl));
    return at->second;
  }

  Result<std::vector<CatalogEntry>> do_list_after(std::string_view after, std::size_t most,
                                                  SteadyTime /*until*/) override {
    if (!owner_) return inherited();
    const std::lock_guard lock(mutex_);
    std::vector<CatalogEntry> some;
    for (auto at = definitions_.upper_bound(after); at != definitions_.end() && some.size() < most;
         ++at)
      some.push_back({at->first, at->second});
    return some;
  }

  Result<void> do_create_space(std::string_view space) override {
    if (!owner_) return inherited();
    const std::lock_guard lock(mutex_);
    spaces_.try_emplace(std::string(space));
    return {};
  }

  Result<std::vector<bool>> do_insert(std::string_view space, std::span<const std::int64_t> keys,
                                      SteadyTime /*until*/) override {
    if (!owner_) return inherited();
    const std::lock_guard lock(mutex_);
    const auto at = spaces_.find(space);
    if (at == spaces_.end()) return std::unexpected(no_space(space, kUrl));
    if (at->second.closed) return std::unexpected(closed_space(space));
    std::vector<bool> ours;
    ours.reserve(keys.size());
    for (const std::int64_t key : keys) ours.push_back(at->second.claims.insert(key).second);
    return ours;
  }

  Result<std::int64_t> do_claimed(std::string_view space, SteadyTime /*until*/) override {
    if (!owner_) return inherited();
    const std::lock_guard lock(mutex_);
    const auto at = spaces_.find(space);
    if (at == spaces_.end()) return std::unexpected(no_space(space, kUrl));
    return std::ssize(at->second.claims);
  }

  Result<bool> do_contains(std::string_view space, std::int64_t key) override {
    if (!owner_) return inherited();
    const std::lock_guard lock(mutex_);
    const auto at = spaces_.find(space);
    if (at == spaces_.end()) return std::unexpected(no_space(space, kUrl));
    return at->second.claims.contains(key);
  }

  Result<void> do_close_space(std::string_view space) override {
    if (!owner_) return inherited();
    const std::lock_guard lock(mutex_);
    const auto at = spaces_.find(space);
    if (at == spaces_.end()) return std::unexpected(no_space(space, kUrl));
    at->second.closed = true;
    return {};
  }

  Result<void> do_create_pool(std::string_view pool, std::int64_t workers) override {
    if (!owner_) return inherited();
    const std::lock_guard lock(mutex_);
    const auto [at, made] = pools_.try_emplace(std::string(pool));
    if (made) {
      at->second.resize(static_cast<std::size_t>(workers));
      for (std::int64_t worker = 0; Row & row : at->second) row.state.worker = worker++;
    }
    if (std::ssize(at->second) != workers)
      return std::unexpected(other_pool(pool, std::ssize(at->second), workers));
    return {};
  }

  Result<Lease> do_acquire(std::string_view pool, const LeaseRequest& request,
                           SteadyTime /*until*/) override {
    if (!owner_) return inherited();
    const std::lock_guard lock(mutex_);
    const auto at = pools_.find(pool);
    if (at == pools_.end()) return std::unexpected(no_pool(pool, kUrl));
    const auto now = SteadyClock::now();
    Row* best = nullptr;
    for (Row& row : at->second) {
      if (row.state.token == request.token) {
        best = &row;
        break;
      }
      if (row.is_free(now) &&
          (best == nullptr || row.state.minted_until < best->state.minted_until))
        best = &row;
    }
    if (best == nullptr || best->state.minted_until > request.now + request.max_drift)
      return std::unexpected(refused_acquire(
          pool, request, best ? std::optional(best->state.minted_until) : std::nullopt));
    LeaseState& state = best->state;
    if (state.token != request.token) ++state.generation;
    state.token = request.token;
    state.holder = request.holder;
    const std::int64_t from = std::max(state.minted_until, request.now);
    state.minted_until = lease_end(request, from);
    state.taken_from = from;
    best->held_until = now + request.terms.held;
    return Lease{state.worker, state.token, state.generation, from, state.minted_until};
  }

  Result<Lease> do_extend(std::string_view pool, const Lease& lease, std::int64_t to,
                          const Uuid& nonce, const LeaseTerms& terms,
                          SteadyTime /*until*/) override {
    if (!owner_) return inherited();
    const std::lock_guard lock(mutex_);
    const Result<Row*> row = row_of(pool, lease.worker);
    if (!row) return std::unexpected(row.error());
    LeaseState& state = (*row)->state;
    if (!may_extend(state, (*row)->nonce, lease, to, nonce))
      return std::unexpected(refused_extension(pool, lease, state, (*row)->nonce, nonce));
    state.minted_until = std::max(state.minted_until, to);
    (*row)->nonce = nonce;
    (*row)->held_until = SteadyClock::now() + terms.held;
    Lease extended = lease;
    extended.to = to;
    return extended;
  }

  Result<void> do_release(std::string_view pool, std::int64_t worker, const Uuid& token,
                          std::int64_t generation, SteadyTime /*until*/) override {
    if (!owner_) return inherited();
    const std::lock_guard lock(mutex_);
    const Result<Row*> row = row_of(pool, worker);
    if (!row) return std::unexpected(row.error());
    LeaseState& state = (*row)->state;
    const Lease lease{worker, token, generation, 0, 0};
    if (!is_owned_by(state, lease)) return std::unexpected(refused_lease(pool, lease, state));
    state.token = Uuid{};
    state.holder.clear();
    return {};
  }

  Result<void> do_raise_floor(std::string_view pool, std::int64_t floor) override {
    if (!owner_) return inherited();
    const std::lock_guard lock(mutex_);
    const auto at = pools_.find(pool);
    if (at == pools_.end()) return std::unexpected(no_pool(pool, kUrl));
    const std::int64_t generation = draw_generation(entropy_);
    for (Row& row : at->second) {
      const std::int64_t bound = std::max(row.state.minted_until, floor);
      row.state = {.worker = row.state.worker,
                   .generation = generation,
                   .minted_until = bound,
                   .taken_from = bound};
    }
    return {};
  }

  Result<std::vector<LeaseState>> do_workers(std::string_view pool, SteadyTime /*until*/) override {
    if (!owner_) return inherited();
    const std::lock_guard lock(mutex_);
    const auto at = pools_.find(pool);
    if (at == pools_.end()) return std::unexpected(no_pool(pool, kUrl));
    const auto now = SteadyClock::now();
    std::vector<LeaseState> all;
    for (const Row& row : at->second) {
      all.push_back(row.state);
      if (!row.is_free(now))
        all.back().held_for = std::chrono::ceil<std::chrono::milliseconds>(row.held_until - now);
    }
    return all;
  }

  Result<Row*> row_of(std::string_view pool, std::int64_t worker) {
    const auto at = pools_.find(pool);
    if (at == pools_.end()) return std::unexpected(no_pool(pool, kUrl));
    if (worker < 0 || worker >= std::ssize(at->second))
      return std::unexpected(no_worker(pool, worker));
    return &at->second[static_cast<std::size_t>(worker)];
  }

  // Tries all counters and returns the first error of `change` or of a missing counter.
  template <class Change>
  Result<void> on_each(std::span<const std::string> counters, const Change& change) {
    if (!owner_) return inherited();
    const std::lock_guard lock(mutex_);
    Result<void> all;
    for (const std::string& counter : counters) {
      const auto at = counters_.find(counter);
      Result<void> changed =
          at != counters_.end() ? change(at->second) : std::unexpected(no_counter(counter, kUrl));
      if (!changed && all) all = std::move(changed);
    }
    return all;
  }

  static std::unexpected<Error> inherited() { return std::unexpected(inherited_handle(kUrl)); }

  const OwnedByProcess owner_;
  const StoreOptions options_;
  Entropy& entropy_;
  const Uuid id_;
  std::mutex mutex_;
  std::map<std::string, CounterState, std::less<>> counters_;
  std::map<std::string, Definition, std::less<>> definitions_;
  std::map<std::string, Space, std::less<>> spaces_;
  std::map<std::string, std::vector<Row>, std::less<>> pools_;
};

Result<std::unique_ptr<Store>> open_memory(std::string_view url, const StoreOptions& options,
                                           Entropy& entropy) {
  if (url != kUrl)
    return std::unexpected(Error{Code::kInvalidArgument,
                                 "a memory store has no name: use \"memory:\", "
                                 "not " +
                                     shown(redacted(url))});
  if (!options.create || options.access == Access::kReadOnly)
    return std::unexpected(Error{Code::kNotFound,
                                 "no memory store is there before it is opened: open it with "
                                 "StoreOptions::create"});
  return std::make_unique<MemoryStore>(options, entropy);
}

}  // namespace

extern const Backend kMemory;
constinit const Backend kMemory{.kind = {.scheme = "memory",
                                         .example = "memory:",
                                         .about = "this process only, gone with it; for tests",
                                         .lasts = false},
                                .open = open_memory};

}  // namespace idmint::stores
