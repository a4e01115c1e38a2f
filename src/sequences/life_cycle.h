// Questions about changes to an existing sequence, and the steps that creating, raising, extending
// and retiring share.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idmint/definition.h"
#include "idmint/result.h"
#include "idmint/sequence.h"
#include "idmint/store.h"
#include "store/catalog.h"
#include "store/counter_store.h"

namespace idmint {

// Whether alter_sequence() can turn the existing sequence into the wanted one: they differ in a
// larger end only, or not at all, which completes an interrupted extension. A key or a width that
// `wanted` omits matches any.
[[nodiscard]] IDMINT_EXPORT bool can_extend(const SequenceDefinition& there,
                                            const SequenceDefinition& wanted);

// The most times that a definition is read again while others change it. Each time one of them made
// progress.
inline constexpr int kAttempts = 100;

// Runs `act` with the latest definition. Others may have extended the sequence since it was read,
// and its counters then look damaged, because they exceed the definition.
template <class Act>
auto with_latest(Store& store, SequenceDefinition definition, const Act& act,
                 SteadyTime until = SteadyTime::max()) -> decltype(act(std::as_const(definition))) {
  for (int attempt = 1;; ++attempt) {
    auto done = act(std::as_const(definition));
    if (done || done.error().code != Code::kDataLoss || attempt == kAttempts) return done;
    Result<Definition> now = store.catalog()->find(definition.name, until);
    auto* const latest = now ? std::get_if<SequenceDefinition>(&*now) : nullptr;
    if (latest == nullptr || *latest == definition) return done;
    definition = std::move(*latest);
  }
}

// The counters in one call to the store: few syncs for many, with turns for others in between.
inline constexpr std::int64_t kAtOnce = 5000;
static_assert(kAtOnce <= CounterStore::kMaxCounters);

// Calls `change` with all `names`, at most kAtOnce at a time. Returns the first error.
[[nodiscard]] Result<void> in_batches(
    std::span<const std::string> names,
    const std::function<Result<void>(std::span<const std::string>)>& change);

// Closes the counters of the sequence, or its space. A missing one hands out nothing either.
[[nodiscard]] Result<void> close_values(Store& store, const SequenceDefinition& definition);
// Moves the ends that are below the definition's, in the store and in `counters`, the result of
// read_counters().
[[nodiscard]] Result<void> extend_counters(Store& store, const SequenceDefinition& definition,
                                           std::vector<CounterState>& counters);

// The position of a value in the order of its counter: the value itself, or the index of a permuted
// one. nullopt: not a value of the sequence, even after an extension.
[[nodiscard]] std::optional<std::int64_t> position_of(const SequenceDefinition& definition,
                                                      std::int64_t value);
// The time unit of an id. nullopt: not an id of the pool.
[[nodiscard]] std::optional<std::int64_t> position_of(const PoolDefinition& pool, std::int64_t id);

// The counter that hands out this position; null: none.
[[nodiscard]] const CounterState* counter_at(std::span<const CounterState> counters,
                                             std::int64_t position);

// "first: 1 there, 5 here; last: 10 there, 20 here".
[[nodiscard]] std::string differences(const Definition& there, const Definition& here);

// The counters of the definition in this store, as they are then; existing ones stay. `progress` as
// in CreateOptions.
[[nodiscard]] Result<std::vector<CounterState>> make_counters(
    Store& store, const SequenceDefinition& definition,
    const std::function<void(std::int64_t, std::int64_t)>& progress = {});

struct WorkersLeft {
  std::int64_t free = 0;    // without an owner, or with an expired lease
  std::int64_t closed = 0;  // by close_pool()
};

// alter_sequence(), retire_sequence() and the state of the definition that was read, in this store
// alone.
[[nodiscard]] Result<Changed> alter_here(Store& store, const Definition& read, std::int64_t last);
[[nodiscard]] Result<Changed> retire_here(Store& store, const Definition& read);
[[nodiscard]] Result<SequenceStatus> status_of(Store& store, Definition definition,
                                               SteadyTime until);
// The status of a sequence with these counters, which are in the order of counter_of(), and of a
// pool with these worker ids.
[[nodiscard]] SequenceStatus status_with(Store& store, const SequenceDefinition& definition,
                                         std::span<const CounterState> counters);
[[nodiscard]] SequenceStatus status_with(const Store& store, const PoolDefinition& pool,
                                         const WorkersLeft& workers);
// raise_sequence() past a value, in this store alone (raise.cc).
[[nodiscard]] Result<Raised> raise_here(Store& store, const SequenceDefinition& definition,
                                        std::int64_t past, RaiseMode mode, SteadyTime until);

// kFailedPrecondition: "it is retired, SO". `so` is the consequence for the caller. If it was
// moved: refuse_moved().
[[nodiscard]] Error refuse_retired(const Store& store, const Definition& retired,
                                   std::string_view so);

// Compares the definitions after filling the gaps of `here` from `there`: a key, a width, a number
// of worker ids. kFailedPrecondition: they differ (the message names each difference), or it is
// retired.
[[nodiscard]] Result<void> must_agree(const Store& store, const Definition& there, Definition here);

// Closes the pool: no process gets a worker id of it any more.
[[nodiscard]] Result<void> close_pool(Store& store, const PoolDefinition& pool);
[[nodiscard]] Result<WorkersLeft> workers_left(Store& store, const PoolDefinition& pool,
                                               SteadyTime until = SteadyTime::max());

// The value of a permuted sequence with this index. Nothing: its key is damaged.
[[nodiscard]] IDMINT_EXPORT std::optional<std::int64_t> permuted_value(
    const SequenceDefinition& definition, std::int64_t index);

}  // namespace idmint
