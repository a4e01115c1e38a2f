// The strategies: the counters of each in the store, and its opener. Each opener has a file of its
// own; Sequence::open() has the table.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/entropy.h"
#include "idmint/executor.h"
#include "idmint/result.h"
#include "idmint/sequence.h"
#include "idmint/snowflake.h"
#include "idmint/store.h"
#include "ids/lease_table.h"
#include "store/counter_store.h"

namespace idmint {

// Opens the sequence of `definition`, which is valid, read from the store and not retired. Each
// opener first verifies its counters with read_counters(), or its claims.
using Opened = Result<std::unique_ptr<Sequence>>;
[[nodiscard]] Opened open_counter(Store& store, SequenceDefinition definition,
                                  const SequenceOptions& options, Clock& clock, Entropy& entropy);
[[nodiscard]] Opened open_striped(Store& store, SequenceDefinition definition,
                                  const SequenceOptions& options, Clock& clock,
                                  Entropy& entropy);  // kInterleaved too
[[nodiscard]] Opened open_cached(Store& store, SequenceDefinition definition,
                                 const SequenceOptions& options, Clock& clock, Entropy& entropy);
[[nodiscard]] Opened open_random(Store& store, SequenceDefinition definition,
                                 const SequenceOptions& options, Clock& clock, Entropy& entropy);
[[nodiscard]] Opened open_multi_store(Store& store, SequenceDefinition definition,
                                      const SequenceOptions& options, Clock& clock,
                                      Entropy& entropy);  // kInterleaved over several stores
[[nodiscard]] Opened open_permuted(Store& store, SequenceDefinition definition,
                                   const SequenceOptions& options, Clock& clock, Entropy& entropy);

// Opens the sequence of the definition that was found.
[[nodiscard]] Opened open_defined(Store& store, Result<Definition> found,
                                  const SequenceOptions& options, Clock& clock, Entropy& entropy);
// REQUIRES: not retired.
[[nodiscard]] Result<std::unique_ptr<SnowflakeGenerator>> open_pool(Store& store,
                                                                    const PoolDefinition& pool,
                                                                    SnowflakeLeaseOptions options,
                                                                    Clock& clock, Entropy& entropy);

// The longest that one call of the sequence waits.
[[nodiscard]] inline std::chrono::milliseconds deadline_of(const Store& store,
                                                           const SequenceOptions& options) {
  return options.deadline.value_or(store.deadline());
}

// The executor of its tasks.
[[nodiscard]] inline Executor& executor_of(const SequenceOptions& options) {
  return options.executor != nullptr ? *options.executor : shared_executor();
}

// submit() with an empty `out`.
[[nodiscard]] inline Result<void> submit_nothing(Executor& executor,
                                                 MoveOnlyFunction<void(Result<void>)> done) {
  return executor.post([done = std::move(done)]() mutable { done({}); });
}

// ---- counters of a sequence

// The number of counters in the store of this definition; 0 for kRandom, whose claims are in the
// space of its name.
[[nodiscard]] IDMINT_EXPORT std::int64_t counter_count(
    const SequenceDefinition& definition) noexcept;

// Whether the values stay the same when the last one moves.
[[nodiscard]] IDMINT_EXPORT bool has_movable_end(const SequenceDefinition& definition) noexcept;

// How to go on after a sequence that has no values left.
struct Onward {
  std::string words;  // to follow "go on with "
  Advice advice{};    // if its last value can be moved up
};
[[nodiscard]] IDMINT_EXPORT Onward onward_from(const SequenceDefinition& definition);

// Counter k: NAME if there is only one, NAME/k for stripes. The blocks of kStriped have one size;
// the last one takes the rest. A sequence over several stores has one counter in each, NAME.
// kPermuted counts indices, 0 to size - 1. REQUIRES: 0 <= k < counter_count().
[[nodiscard]] IDMINT_EXPORT NewCounter counter_of(const SequenceDefinition& definition,
                                                  std::int64_t k);

// All counters, stripe k at index k, in one call to the store. One may end below the definition
// after an interrupted extension. kDataLoss: one is gone, or has other bounds than the definition.
[[nodiscard]] Result<std::vector<CounterState>> read_counters(Store& store,
                                                              const SequenceDefinition& definition,
                                                              SteadyTime until = SteadyTime::max());

// The number of claims of a kRandom sequence. kDataLoss: its claims are gone.
[[nodiscard]] Result<std::int64_t> read_claimed(Store& store, const SequenceDefinition& definition,
                                                SteadyTime until = SteadyTime::max());

// The worker ids of a pool. kDataLoss: they are gone, or their number differs from the definition.
[[nodiscard]] Result<std::vector<LeaseState>> read_workers(Store& store, const PoolDefinition& pool,
                                                           SteadyTime until = SteadyTime::max());

// ---- shared errors

// The subject of an error about it: "sequence NAME" or "pool NAME".
[[nodiscard]] std::string subject_of(const Definition& definition);
// An error about it in that store.
[[nodiscard]] Error error_at(const Store& store, Code code, std::string_view name,
                             const std::string& what, Advice advice = {});
[[nodiscard]] Error error_at(const Store& store, Code code, const Definition& definition,
                             const std::string& what, Advice advice = {});
// The message without its subject and place if the definition is the subject, to follow its name.
[[nodiscard]] IDMINT_EXPORT std::string without_subject(Error error, const Definition& definition);

// The error of every call of a sequence in a child of fork().
[[nodiscard]] Error inherited_through_fork(std::string_view name);

// kUnimplemented: the store lacks what the strategy, or a pool, needs.
[[nodiscard]] Result<void> offers(Store& store, const Definition& definition);

// Whether the store can number documents in its transactions.
// - kUnimplemented: no store of its kind can.
// - kFailedPrecondition: its setup does not allow it.
[[nodiscard]] Result<void> has_transactions(Store& store, const Definition& gapless,
                                            SteadyTime until = SteadyTime::max());

// The definition, retired or not.
[[nodiscard]] Result<Definition> find_definition(Store& store, std::string_view name,
                                                 SteadyTime until = SteadyTime::max());

// kInvalidArgument: `count` is below 1, or more than the definition's largest_count.
[[nodiscard]] Result<void> check_count(const SequenceDefinition& definition, std::int64_t count);
// The same for a call that may be for no value.
[[nodiscard]] inline Result<void> check_values(const SequenceDefinition& definition,
                                               std::span<const std::int64_t> out) {
  return out.empty() ? Result<void>{} : check_count(definition, std::ssize(out));
}

}  // namespace idmint
