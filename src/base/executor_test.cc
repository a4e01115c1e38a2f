#include "idmint/executor.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace idmint {
namespace {

int twice(int of) { return 2 * of; }

// Counts how many of it are there.
class Counted {
 public:
  explicit Counted(int& alive) : alive_(&alive) { ++*alive_; }
  Counted(Counted&& other) noexcept : alive_(other.alive_) { ++*alive_; }
  Counted& operator=(Counted&&) = delete;
  ~Counted() { --*alive_; }

 private:
  int* alive_;
};

TEST(MoveOnlyFunction, CallsWhatItWasMadeOf) {
  MoveOnlyFunction<int(int)> function = [](int of) { return of + 1; };
  EXPECT_EQ(function(1), 2);
  function = &twice;
  EXPECT_EQ(function(4), 8);
  int calls = 0;
  MoveOnlyFunction<void()> counting = [&calls] { return ++calls; };  // what it returns is dropped
  counting();
  counting();
  EXPECT_EQ(calls, 2);
  MoveOnlyFunction<std::size_t(const std::string&)> member = &std::string::size;
  EXPECT_EQ(member("four"), 4U);
}

TEST(MoveOnlyFunction, TakesArgumentsThatOnlyMoveAndReferences) {
  MoveOnlyFunction<int(std::unique_ptr<int>, int&)> function =
      [kept = std::make_unique<int>(1)](std::unique_ptr<int> given, int& seen) {
        seen = *given;
        return *kept;
      };
  int seen = 0;
  EXPECT_EQ(function(std::make_unique<int>(2), seen), 1);
  EXPECT_EQ(seen, 2);
}

TEST(MoveOnlyFunction, IsEmptyIfMadeOfNothingAndAfterAMove) {
  EXPECT_FALSE(MoveOnlyFunction<void()>());
  EXPECT_FALSE(MoveOnlyFunction<void()>(nullptr));
  int (*const none)(int) = nullptr;
  EXPECT_FALSE(MoveOnlyFunction<int(int)>(none));
  EXPECT_FALSE(MoveOnlyFunction<int(int)>(std::function<int(int)>()));
  EXPECT_FALSE(MoveOnlyFunction<long(int)>(MoveOnlyFunction<int(int)>()));
  MoveOnlyFunction<int(int)> function = &twice;
  MoveOnlyFunction<int(int)> other = std::move(function);
  EXPECT_TRUE(function == nullptr);  // NOLINT(bugprone-use-after-move): stated
  EXPECT_EQ(other(1), 2);
  other = nullptr;
  EXPECT_FALSE(other);
}

template <std::size_t kWeight>
struct Weighing {
  Counted counted;
  std::array<char, kWeight> weight{};
  void operator()() const {}
};

// Small ones are inside, large ones on the heap: both are destroyed once.
template <class Callable>
class MoveOnlyFunctionOf : public testing::Test {};
using Callables = testing::Types<Weighing<1>, Weighing<100>>;
TYPED_TEST_SUITE(MoveOnlyFunctionOf, Callables);

TYPED_TEST(MoveOnlyFunctionOf, DestroysEachCallableOnce) {
  int alive = 0;
  int others_alive = 0;
  {
    MoveOnlyFunction<void()> function = TypeParam{Counted(alive)};
    EXPECT_EQ(alive, 1);
    MoveOnlyFunction<void()> moved = std::move(function);
    EXPECT_EQ(alive, 1);
    moved = MoveOnlyFunction<void()>(TypeParam{Counted(others_alive)});
    EXPECT_EQ(alive, 0);
    EXPECT_EQ(others_alive, 1);
    MoveOnlyFunction<void()>& same = moved;
    moved = std::move(same);
    EXPECT_TRUE(moved != nullptr);
    EXPECT_EQ(others_alive, 1);
  }
  EXPECT_EQ(others_alive, 0);
}

// What is replaced may look at the place in which it was.
TEST(MoveOnlyFunction, IsWholeWhileWhatItHeldIsDestroyed) {
  MoveOnlyFunction<int()> function;
  int seen = 0;
  const auto look = [&](const int* /*unused*/) { seen = function(); };
  int at = 0;
  function = [held = std::unique_ptr<int, decltype(look)>(&at, look)] { return 1; };
  function = [] { return 2; };
  EXPECT_EQ(seen, 2);
  function = nullptr;
}

static_assert(!std::is_copy_constructible_v<MoveOnlyFunction<void()>>);
static_assert(!std::is_constructible_v<MoveOnlyFunction<void()>, decltype(&twice)>);
static_assert(std::is_nothrow_move_constructible_v<MoveOnlyFunction<void()>>);

}  // namespace
}  // namespace idmint
