// What may become of a sequence that is there, for callers that ask before it is done; and the
// steps that creating, raising, extending and retiring share.
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
#include "idmint/store.h"
#include "stores/spi/catalog.h"
#include "stores/spi/counter_store.h"

namespace idmint {

// Whether alter_sequence() makes of what is there what is wanted: the same with its end further
// up, or where it is, which finishes an extension that was cut off. A key or a width that `wanted`
// leaves open is whatever is there.
[[nodiscard]] IDMINT_EXPORT bool can_extend(const SequenceDefinition& there,
                                            const SequenceDefinition& wanted);

// How often a definition that others are changing is read again. Each time one of them got on.
inline constexpr int kAttempts = 100;

// The result of `act` with `definition`, as it is now: others may extend the sequence after it was
// read, and its counters then look damaged, as they go beyond it.
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

// Counters in one call to the store: few syncs for many, and others get their turn in between.
inline constexpr std::int64_t kAtOnce = 5000;
static_assert(kAtOnce <= CounterStore::kMaxCounters);

// Calls `change` with all `names`, at most kAtOnce at a time, and returns its first error.
[[nodiscard]] Result<void> in_batches(
    std::span<const std::string> names,
    const std::function<Result<void>(std::span<const std::string>)>& change);

// Moves the ends that lie below the definition's, in the store and in `counters`, which are those
// that read_counters() returned.
[[nodiscard]] Result<void> extend_counters(Store& store, const SequenceDefinition& definition,
                                           std::vector<CounterState>& counters);

// Where a value stands in the order in which its counter hands values out: the value itself, or
// the index of a permuted one. nullopt: no value of the sequence, nor one that it could have after
// an extension.
[[nodiscard]] std::optional<std::int64_t> position_of(const SequenceDefinition& definition,
                                                      std::int64_t value);
// The unit of time of an id. nullopt: no id of the pool.
[[nodiscard]] std::optional<std::int64_t> position_of(const PoolDefinition& pool, std::int64_t id);

// The counter that hands out this position; null: none does.
[[nodiscard]] const CounterState* counter_at(std::span<const CounterState> counters,
                                             std::int64_t position);

// kFailedPrecondition: "it is retired, SO"; `so` says what follows for the caller.
[[nodiscard]] Error refuse_retired(const Store& store, const Definition& retired,
                                   std::string_view so);

// What is left open in `here` filled in from what is there: a key, a width, a number of worker ids.
// kFailedPrecondition, naming each difference: something else is there, or it is retired.
[[nodiscard]] Result<void> must_agree(const Store& store, const Definition& there, Definition here);

// No process gets a worker id of the pool any more.
[[nodiscard]] Result<void> close_pool(Store& store, const PoolDefinition& pool);
struct WorkersLeft {
  std::int64_t free = 0;    // that nobody owns, or whose owner's time is over
  std::int64_t closed = 0;  // by close_pool()
};
[[nodiscard]] Result<WorkersLeft> workers_left(Store& store, const PoolDefinition& pool,
                                               SteadyTime until = SteadyTime::max());

}  // namespace idmint
