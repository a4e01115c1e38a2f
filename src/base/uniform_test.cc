#include "base/uniform.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

fakes::ScriptedEntropy drawing(const std::vector<std::uint64_t>& draws) {
  std::vector<std::uint8_t> bytes(draws.size() * sizeof(std::uint64_t));
  std::memcpy(bytes.data(), draws.data(), bytes.size());
  return fakes::ScriptedEntropy(bytes);
}

TEST(UniformBelow, GivesEachNumberAnEqualShareOfTheDraws) {
  // 2^64 = 6 x 3074457345618258602 + 4: of the first draws of each sixth, 4 in all are thrown away.
  constexpr std::uint64_t kShare = kMax / 6;
  for (std::uint64_t number = 0; number < 6; ++number) {
    const std::uint64_t begin = kShare * number + number;  // above the ones thrown away
    auto entropy = drawing({begin + 1, begin + kShare / 2, kShare * (number + 1)});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(uniform_below(entropy, 6), number);
  }
}

TEST(UniformBelow, ADrawThatWouldFavourSomeIsThrownAway) {
  // With n = 3 x 2^62 three numbers in four would have two draws, and the others one.
  constexpr std::uint64_t kN = 3 * (std::uint64_t{1} << 62);
  auto entropy = drawing({0, kMax});
  EXPECT_EQ(uniform_below(entropy, kN), kN - 1) << "0 was drawn, and not used";
}

TEST(UniformBelow, OneIsNoChoiceAndTheLargestRangeIsReached) {
  auto entropy = drawing({0, kMax, kMax});
  EXPECT_EQ(uniform_below(entropy, 1), 0U);
  EXPECT_EQ(uniform_below(entropy, 1), 0U);
  EXPECT_EQ(uniform_below(entropy, kMax), kMax - 1);
}

}  // namespace
}  // namespace idmint
