#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "idmint/sequence.h"
#include "sequences/strategies.h"

namespace idmint {

Occupancy occupancy(std::int64_t claimed, std::int64_t size) noexcept {
  const std::int64_t left = size - claimed;
  return {claimed, size,
          left > 0 ? static_cast<double>(claimed) / static_cast<double>(left)
                   : std::numeric_limits<double>::infinity()};
}

Result<Occupancy> occupancy(Store& store, std::string_view sequence) {
  const Result<Definition> found = find_definition(store, sequence);
  if (!found) return std::unexpected(found.error());
  const auto* const its = std::get_if<SequenceDefinition>(&*found);
  if (its == nullptr || its->strategy != Strategy::kRandom) {
    return std::unexpected(error_at(store, Code::kFailedPrecondition, sequence,
                                    "it is of strategy " + std::string(strategy_name(*found)) +
                                        ": only random sequences have claims"));
  }
  const Result<std::int64_t> claimed = read_claimed(store, *its);
  if (!claimed) return std::unexpected(claimed.error());
  return occupancy(*claimed, its->size());
}

// The last claim is made with most_claims(size) - 1 = size * 10 / 11, rounded down, before it.
std::int64_t most_claims(std::int64_t size) noexcept {
  constexpr std::int64_t kParts = Occupancy::kMostRedraws + 1;
  return size - (size - 1) / kParts;
}

// The next id costs size / left draws, the one after it size / (left - 1), ...
double expected_redraws(const Occupancy& from, std::int64_t count) noexcept {
  constexpr std::int64_t kSmall = 1000;  // sums 1/j below, integrates above
  std::int64_t left = from.size - from.claimed;
  if (count > left) return std::numeric_limits<double>::infinity();
  const std::int64_t end = left - count;
  double sum = 0;  // sum of 1/j for j from end + 1 to left
  if (const std::int64_t middle = std::max(end, kSmall); left > middle) {
    const auto top = static_cast<double>(left);
    const auto bottom = static_cast<double>(middle);
    sum = -std::log1p(-static_cast<double>(left - middle) / top) + 1 / (2 * top) - 1 / (2 * bottom);
    left = middle;
  }
  for (; left > end; --left) sum += 1 / static_cast<double>(left);
  return std::max(0.0, static_cast<double>(from.size) * sum - static_cast<double>(count));
}

}  // namespace idmint
