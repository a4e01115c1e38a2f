#include <utility>
#include <vector>

#include "sequences/combined_sequence.h"
#include "sequences/strategies.h"
#include "sequences/stripe_range_source.h"
#include "store/counter_store.h"

namespace idmint {

Opened open_striped(Store& store, SequenceDefinition definition, const SequenceOptions& options,
                    Clock& clock, Entropy& entropy) {
  const Result<std::vector<CounterState>> stripes = read_counters(store, definition, options.until);
  if (!stripes) return std::unexpected(stripes.error());
  return std::make_unique<CombinedSequence>(
      std::move(definition), options, deadline_of(store, options),
      [&](const SequenceDefinition& its) {
        return std::make_unique<StripeRangeSource>(store, its, *stripes, clock, entropy);
      });
}

}  // namespace idmint
