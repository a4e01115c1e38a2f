#include "base/unshared.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>

namespace idmint {
namespace {

// As two copies of a machine whose random generators were all copied.
TEST(CloneSafeNonce, EqualRandomnessIsDrawnApartAtAnotherMoment) {
  std::set<CloneSafeNonce> draws;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(draws.insert(unshared({1, 2}, this_moment())).second);
}

TEST(CloneSafeNonce, EqualMomentsAreAsRandomAsTheWords) {
  constexpr Moment kMoment{.processor = 1, .ticks = 2, .wall = 3, .boot = 4};
  EXPECT_NE(unshared({1, 2}, kMoment), unshared({1, 3}, kMoment));
  EXPECT_NE(unshared({1, 2}, kMoment), unshared({2, 2}, kMoment));
  EXPECT_EQ(unshared({1, 2}, kMoment), unshared({1, 2}, kMoment));
}

TEST(CloneSafeNonce, NoBitOfADrawStands) {
  CloneSafeNonce once_set{};
  CloneSafeNonce once_clear{};
  for (int i = 0; i < 200; ++i) {
    const CloneSafeNonce draw = draw_unshared();
    for (std::size_t at = 0; at < draw.size(); ++at) {
      once_set.at(at) |= draw.at(at);
      once_clear.at(at) |= static_cast<std::uint8_t>(~draw.at(at));
    }
  }
  for (std::size_t at = 0; at < once_set.size(); ++at) {
    EXPECT_EQ(once_set.at(at), 0xff) << at;
    EXPECT_EQ(once_clear.at(at), 0xff) << at;
  }
}

}  // namespace
}  // namespace idmint
