#include <utility>

#include "sequences/combined_sequence.h"
#include "sequences/random_range_source.h"
#include "sequences/strategies.h"

namespace idmint {

Opened open_random(Store& store, SequenceDefinition definition, const SequenceOptions& options,
                   Clock&, Entropy& entropy) {
  const Result<std::int64_t> claimed = read_claimed(store, definition, options.until);
  if (!claimed) return std::unexpected(claimed.error());
  return std::make_unique<CombinedSequence>(
      std::move(definition), options, deadline_of(store, options),
      [&](const SequenceDefinition& its) {
        return std::make_unique<RandomRangeSource>(store, its, *claimed, entropy);
      });
}

}  // namespace idmint
