#include "tests/simulation/store.h"

#include <algorithm>
#include <cstring>

namespace idmint::simulation {

using stores::Swapped;
using stores::WorkerSwap;

Uuid Place::fresh_id() noexcept {
  static std::uint64_t made = 0;
  ++made;
  Uuid::Bytes bytes{};
  std::memcpy(bytes.data(), &made, sizeof made);
  return Uuid(bytes);
}

// A swap may be sent again by the engine itself, as a driver does after a lost connection: then the
// first attempt counts, and its sender is told that it may have been applied.
Result<std::vector<Swapped>> SimulatedStore::swap_workers(std::string_view pool,
                                                          std::span<const WorkerSwap> swaps,
                                                          stores::Purpose, const LeaseTerms*,
                                                          SteadyTime, std::string_view) {
  if (on_swap)
    for (const WorkerSwap& swap : swaps) on_swap(swap);
  const WorkerSwap& first = swaps.front();
  const std::string what = "swaps worker id " + std::to_string(first.from.state.worker) +
                           ": bound " + std::to_string(first.from.state.minted_until) + " to " +
                           std::to_string(first.to.state.minted_until) + ", generation " +
                           std::to_string(first.to.state.generation);
  // The store's clock is read when it is applied.
  const auto apply = [pool = std::string(pool), swaps = std::vector(swaps.begin(), swaps.end()),
                      history = &process_.history()](Place& place) {
    return place.tables.swap_workers(pool, swaps, SteadyTime{history->now().time_since_epoch()});
  };
  const bool resent = disturbed_ && process_.history().one_fault_in > 0 && process_.decide(8) == 7;
  if (resent) static_cast<void>(call<std::vector<Swapped>>(what + ", without an answer", apply));
  Result<std::vector<Swapped>> answer = call<std::vector<Swapped>>(what, apply);
  if (answer && resent) std::ranges::replace(*answer, Swapped::kNo, Swapped::kPerhaps);
  // An answer that says of nothing that it is done acknowledges nothing.
  if (answer && place_.durable && std::ranges::find(*answer, Swapped::kYes) != answer->end())
    place_.durable = place_.tables;
  if (answer && on_swapped)
    for (std::size_t i = 0; i < swaps.size(); ++i)
      if ((*answer)[i] == Swapped::kYes) on_swapped(swaps[i]);
  return answer;
}

}  // namespace idmint::simulation
