// The scenarios: what the processes of a history do, and what must be true of it.
#pragma once

#include <span>
#include <string_view>

#include "tests/simulation/history.h"

namespace idmint::simulation {

struct Scenario {
  std::string_view name;
  // Plays it to its end. A property that is broken is History::failure().
  void (*play)(History& history);
};

[[nodiscard]] std::span<const Scenario> scenarios() noexcept;

// Generators that lease worker ids, with everything that may happen to them.
void play_leases(History& history);
// Sequences of each strategy, and operators who raise, alter, move and retire them.
void play_sequences(History& history);

}  // namespace idmint::simulation
