// Plays histories, and shortens those that break a property.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/scenario.h"

namespace idmint::simulation {

// A history that breaks a property.
struct Broken {
  std::uint64_t seed = 0;
  std::vector<std::uint32_t> choices{};  // empty: those of the seed
  std::string what{};
  std::string trace{};
  std::size_t steps = 0;
};

struct Played {
  std::string failure{};
  std::string trace{};
  std::vector<std::uint32_t> choices{};
  std::size_t steps = 0;
};

// One history; with `choices`, those in place of the seed's.
[[nodiscard]] Played play(const Scenario& scenario, std::uint64_t seed,
                          const std::vector<std::uint32_t>* choices = nullptr, bool traced = false);

// The shortest history that was found by leaving choices out of this one and by making others 0.
[[nodiscard]] Broken shorten(const Scenario& scenario, std::uint64_t seed);

// Histories with the seeds from `first` on. Returns the first that breaks a property, shortened.
// They are played in processes of their own, a few thousand in each: what the library remembers for
// the life of a process does not add up, and one that crashes or hangs is named by its seed.
[[nodiscard]] std::optional<Broken> simulate(const Scenario& scenario, std::uint64_t first,
                                             std::uint64_t count);

}  // namespace idmint::simulation
