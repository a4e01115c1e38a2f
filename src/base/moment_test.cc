#include "base/moment.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>

namespace idmint {
namespace {

TEST(Moment, EveryWordOfItChangesBothHalvesOfTheDigest) {
  constexpr Moment kBase{.processor = 1, .ticks = 2, .wall = 3, .boot = 4};
  for (std::uint64_t Moment::* word :
       {&Moment::processor, &Moment::ticks, &Moment::wall, &Moment::boot}) {
    std::set<std::uint64_t> low{digest_of(kBase)[0]};
    std::set<std::uint64_t> high{digest_of(kBase)[1]};
    for (int bit = 0; bit < 64; ++bit) {
      Moment other = kBase;
      other.*word ^= std::uint64_t{1} << bit;
      EXPECT_TRUE(low.insert(digest_of(other)[0]).second);
      EXPECT_TRUE(high.insert(digest_of(other)[1]).second);
    }
  }
}

TEST(Moment, NoTwoAreTheSame) {
  std::set<std::array<std::uint64_t, 2>> seen;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(seen.insert(digest_of(this_moment())).second);
  EXPECT_NE(this_moment().wall, 0U);
  EXPECT_NE(this_moment().boot, 0U);
}

#if defined(__x86_64__)
TEST(Moment, TheTimeStampCounterIsRead) {
  const std::uint64_t before = this_moment().ticks;
  EXPECT_NE(this_moment().ticks, before);
}
#endif

}  // namespace
}  // namespace idmint
