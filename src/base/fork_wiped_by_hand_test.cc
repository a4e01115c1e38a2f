// A program of its own, for a madvise() that grants everything and does nothing, like qemu-user's.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/fork_wiped.h"
#include "tests/fakes/in_child.h"

extern "C" int madvise(void* /*pages*/, std::size_t /*size*/, int /*advice*/) noexcept { return 0; }

namespace idmint {
namespace {

using fakes::in_child;

struct Large {
  std::array<std::uint64_t, 2000> words;  // several pages
};

TEST(ForkWipedByHand, EachIsZeroInAChildAndKeptInTheParent) {
  std::vector<std::unique_ptr<ForkWiped<Large>>> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(std::make_unique<ForkWiped<Large>>());
    (*all.back())->words.fill(7);
  }
  EXPECT_EQ(in_child([&] {
              int nonzero = 0;
              for (const auto& each : all)
                for (const std::uint64_t word : (*each)->words) nonzero += word != 0;
              return nonzero;
            }),
            0);
  for (const auto& each : all) EXPECT_EQ((*each)->words.back(), 7U);
}

TEST(ForkWipedByHand, AChildsWritesAreWipedInItsOwnChildAndWhatIsFreedIsLeftAlone) {
  std::optional<ForkWiped<std::uint64_t>> word(std::in_place);
  EXPECT_EQ(in_child([&] {
              **word = 9;
              return in_child([&] { return **word; });
            }),
            0U);
  word.reset();
  in_child([] {});  // fails if it ends by a signal
}

TEST(ForkWipedByHand, AChildOfAnyMomentMayMakeItsOwn) {
  std::atomic<bool> ended{false};
  std::jthread other([&] {
    while (!ended) const ForkWiped<std::uint64_t> each;
  });
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(in_child([] {
                const ForkWiped<std::uint64_t> own;
                *own = 1;
                return *own;
              }),
              1U);
  ended = true;
}

TEST(ForkWipedByHand, AProcessHasANumberOfItsOwn) {
  const OwnedByProcess owner;
  EXPECT_TRUE(owner);
  EXPECT_FALSE(in_child([&] { return static_cast<bool>(owner); }));
}

}  // namespace
}  // namespace idmint
