// simulate SCENARIO [--from SEED] [--histories N] [--trace]
//
// Plays N histories (100000) from a seed on (0). With --trace it plays the one with this seed and
// prints it. Exit code 1: a property was broken; the shortest such history is printed.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/simulation/simulate.h"

int main(int argc, char** argv) {
  using namespace idmint::simulation;
  const Scenario* scenario = nullptr;
  std::uint64_t from = 0;
  std::uint64_t histories = 100'000;
  bool traced = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--from" && i + 1 < argc)
      from = std::strtoull(argv[++i], nullptr, 10);
    else if (word == "--histories" && i + 1 < argc)
      histories = std::strtoull(argv[++i], nullptr, 10);
    else if (word == "--trace")
      traced = true;
    else
      for (const Scenario& each : scenarios())
        if (each.name == word) scenario = &each;
  }
  if (scenario == nullptr) {
    std::fputs("usage: simulate leases|sequences [--from SEED] [--histories N] [--trace]\n",
               stderr);
    return 2;
  }
  if (traced) {
    const Played played = play(*scenario, from, nullptr, true);
    std::printf("%s%zu steps; %s\n", played.trace.c_str(), played.steps,
                played.failure.empty() ? "every property holds" : played.failure.c_str());
    std::fflush(stdout);
    std::_Exit(played.failure.empty() ? 0 : 1);
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto broken = simulate(*scenario, from, histories);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!broken) {
    std::printf("%.*s: %llu histories from seed %llu on, each property holds; %.1f s\n",
                static_cast<int>(scenario->name.size()), scenario->name.data(),
                static_cast<unsigned long long>(histories), static_cast<unsigned long long>(from),
                seconds);
    return 0;
  }
  std::printf("%s\nseed %llu, after %.1f s, the shortest history with it: %s\n",
              broken->trace.c_str(), static_cast<unsigned long long>(broken->seed), seconds,
              broken->what.c_str());
  return 1;
}
