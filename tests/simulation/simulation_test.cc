// Histories of simulated processes over a simulated store: docs/design/012-simulation.md.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/simulation/simulate.h"

namespace idmint::simulation {
namespace {

constexpr std::uint64_t kHistories = 50'000;  // of each scenario

std::uint64_t number_in(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

class Simulation : public testing::TestWithParam<Scenario> {};

TEST_P(Simulation, NoHistoryBreaksAProperty) {
  const auto broken =
      simulate(GetParam(), number_in("IDMINT_SEED", 0), number_in("IDMINT_HISTORIES", kHistories));
  EXPECT_FALSE(broken) << broken->trace << "seed " << broken->seed << ": " << broken->what;
}

TEST_P(Simulation, OneSeedIsOneHistory) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Played one = play(GetParam(), seed);
    for (const std::vector<std::uint32_t>* choices :
         {static_cast<const std::vector<std::uint32_t>*>(nullptr), &one.choices}) {
      const Played again = play(GetParam(), seed, choices);
      EXPECT_EQ(again.choices, one.choices) << "seed " << seed;
      EXPECT_EQ(again.steps, one.steps) << "seed " << seed;
      EXPECT_EQ(again.failure, one.failure) << "seed " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Scenarios, Simulation, testing::ValuesIn(scenarios()),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace idmint::simulation
