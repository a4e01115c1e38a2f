#include "sequences/permutation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

namespace idmint {
namespace {

using testing::HasSubstr;

constexpr std::string_view kKey = "000102030405060708090a0b0c0d0e0f";
constexpr std::string_view kOtherKey = "f0e1d2c3b4a5968778695a4b3c2d1e0f";
constexpr std::uint64_t kTrillion = 1'000'000'000'000;
constexpr std::uint64_t kLargest = 9'223'372'036'854'775'807;

Permutation permutation(std::uint64_t size, std::string_view key = kKey) {
  return Permutation::make(key, size).value();
}

// docs/strategies.md has some of these vectors. They were made by a program of its own, in another
// language, from the description; its SipHash-1-3 was held against that of OpenSSL.
struct Vector {
  std::uint64_t size;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pairs;
};

const std::vector<Vector>& vectors() {
  static const std::vector<Vector> all = {
      {1, {{0, 0}}},
      {2, {{0, 0}, {1, 1}}},
      {3, {{0, 1}, {1, 0}, {2, 2}}},
      {10, {{0, 7}, {1, 2}, {2, 5}, {3, 9}, {4, 6}, {5, 4}, {6, 8}, {7, 0}, {8, 1}, {9, 3}}},
      {97, {{0, 26}, {1, 67}, {48, 60}, {96, 4}}},
      {1000, {{0, 664}, {1, 270}, {500, 416}, {999, 373}}},
      {65536, {{0, 43355}, {1, 30154}, {32768, 52158}, {65535, 27655}}},
      {1'000'000, {{0, 881431}, {1, 51398}, {500'000, 654284}, {999'999, 554520}}},
      {1'000'000'000,
       {{0, 429788394}, {1, 621878230}, {500'000'000, 817865906}, {999'999'999, 204478064}}},
      {kTrillion,
       {{0, 860872441634},
        {1, 109076522158},
        {2, 578428898300},
        {kTrillion / 2, 662901544519},
        {kTrillion - 1, 390461625569}}},
      {10'000'000'000'000'000,
       {{0, 9528718112412275},
        {1, 9897700197659407},
        {5'000'000'000'000'000, 8210526561726154},
        {9'999'999'999'999'999, 2481227309292955}}},
      {kLargest,
       {{0, 5839409104772194283},
        {1, 6690441851575106296},
        {kLargest / 2, 3597475262384941942},
        {kLargest - 1, 8446365398551869184}}},
  };
  return all;
}

TEST(Permutation, GivesTheNumbersThatAreWrittenDown) {
  for (const auto& [size, pairs] : vectors()) {
    const Permutation p = permutation(size);
    for (const auto& [index, value] : pairs) {
      EXPECT_EQ(p.permuted(index), value) << index << " of " << size;
      EXPECT_EQ(p.index_of(value), index) << value << " of " << size;
    }
  }
  EXPECT_EQ(permutation(kTrillion, kOtherKey).permuted(0), 79427918440U);
  EXPECT_EQ(permutation(kLargest, kOtherKey).permuted(kLargest - 1), 9148723368172040505U);
}

TEST(Permutation, IsABijectionOfExactlyItsNumbers) {
  for (const std::uint64_t size :
       {1U, 2U, 3U, 4U, 5U, 10U, 11U, 97U, 100U, 1000U, 9999U, 65536U, 65537U, 100'000U}) {
    for (const std::string_view key : {kKey, kOtherKey}) {
      const Permutation p = permutation(size, key);
      std::vector<bool> seen(size);
      for (std::uint64_t index = 0; index < size; ++index) {
        const std::uint64_t value = p.permuted(index);
        ASSERT_LT(value, size);
        ASSERT_FALSE(seen[value]) << value << " twice, of " << size;
        seen[value] = true;
        ASSERT_EQ(p.index_of(value), index) << "of " << size;
      }
    }
  }
}

RC_GTEST_PROP(PermutationOfAnySize, StaysWithinItAndHasAnInverse, ()) {
  const auto size = *rc::gen::inRange<std::uint64_t>(1, kLargest);
  const auto index = *rc::gen::inRange<std::uint64_t>(0, size);
  const Permutation p = permutation(size);
  RC_ASSERT(p.permuted(index) < size);
  RC_ASSERT(p.index_of(p.permuted(index)) == index);
  RC_ASSERT(p.permuted(p.index_of(index)) == index);
}

// Around squares, where a and b change, and at the ends.
TEST(Permutation, HasAnInverseWhereTheHalvesJustFit) {
  for (const std::uint64_t root : {3U, 1000U, 65536U, 4'000'000U, 3'037'000'499U}) {
    for (const std::uint64_t size : {root * root - 1, root * root, root * root + 1}) {
      const Permutation p = permutation(size);
      for (const std::uint64_t index : {std::uint64_t{0}, std::uint64_t{1}, size / 3, size - 1}) {
        EXPECT_LT(p.permuted(index), size);
        EXPECT_EQ(p.index_of(p.permuted(index)), index) << index << " of " << size;
      }
    }
  }
}

TEST(Permutation, InBulkIsTheSameAsOneByOne) {
  for (const std::uint64_t size : {std::uint64_t{57}, std::uint64_t{9999}, kTrillion, kLargest}) {
    const Permutation p = permutation(size);
    for (const std::size_t count : {0U, 1U, 3U, 4U, 5U, 11U, 56U}) {
      std::vector<std::int64_t> values(count);
      std::iota(values.begin(), values.end(), 0);
      p.permute(values);
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(static_cast<std::uint64_t>(values[i]), p.permuted(i)) << i << " of " << size;
      }
    }
    std::vector<std::int64_t> last(7, static_cast<std::int64_t>(size - 1));
    p.permute(last);
    for (const std::int64_t value : last) {
      EXPECT_EQ(static_cast<std::uint64_t>(value), p.permuted(size - 1));
    }
  }
}

// ---- looks random. All of it is computed from fixed keys: it holds always, or never.

TEST(Permutation, EachDigitOfSuccessiveNumbersIsEvenlyDistributed) {
  constexpr std::size_t kNumbers = 100'000;
  std::array<std::array<int, 10>, 12> counts{};
  const Permutation p = permutation(kTrillion);
  for (std::uint64_t index = 0; index < kNumbers; ++index) {
    std::uint64_t value = p.permuted(index);
    for (auto& place : counts) {
      ++place[value % 10];
      value /= 10;
    }
  }
  for (const auto& place : counts) {
    double chi_squared = 0;
    for (const int count : place) {
      const double off = count - kNumbers / 10.0;
      chi_squared += off * off / (kNumbers / 10.0);
    }
    EXPECT_LT(chi_squared, 33.7) << "9 degrees of freedom: one in 10^4 is above";
  }
}

// The next index, or a key of one bit more, changes everything: the distance of two values is that
// of two random ones, a third of the size in the mean.
TEST(Permutation, ASmallChangeOfTheIndexOrTheKeyMovesAValueAnywhere) {
  constexpr int kPairs = 20'000;
  const Permutation p = permutation(kTrillion);
  const Permutation q = permutation(kTrillion, "000102030405060708090a0b0c0d0e0e");
  double by_index = 0;
  double by_key = 0;
  int same = 0;
  const auto distance = [](std::uint64_t a, std::uint64_t b) {
    return std::abs(static_cast<double>(a) - static_cast<double>(b));
  };
  for (std::uint64_t index = 0; index < kPairs; ++index) {
    by_index += distance(p.permuted(index), p.permuted(index + 1)) / kPairs;
    by_key += distance(p.permuted(index), q.permuted(index)) / kPairs;
    same += p.permuted(index) == q.permuted(index) ? 1 : 0;
  }
  const double third = static_cast<double>(kTrillion) / 3;
  EXPECT_NEAR(by_index, third, third * 0.02);
  EXPECT_NEAR(by_key, third, third * 0.02);
  EXPECT_EQ(same, 0);
}

TEST(Permutation, ABitOfTheIndexChangesHalfOfTheBitsOfTheValue) {
  constexpr std::uint64_t kSize = std::uint64_t{1} << 62;
  const Permutation p = permutation(kSize);
  for (int bit = 0; bit < 62; ++bit) {
    int changed = 0;
    for (std::uint64_t i = 0; i < 200; ++i) {
      const std::uint64_t index = i * 0x2545f4914f6cdd1d % kSize;
      changed +=
          __builtin_popcountll(p.permuted(index) ^ p.permuted(index ^ std::uint64_t{1} << bit));
    }
    EXPECT_NEAR(changed / 200.0, 31, 1.5) << "bit " << bit;
  }
}

TEST(Permutation, HasAboutOneFixedPointAndNoTrendAsARandomOneHas) {
  constexpr std::uint64_t kSize = 10'000;
  int fixed = 0;
  double product = 0;
  const Permutation p = permutation(kSize);
  for (std::uint64_t index = 0; index < kSize; ++index) {
    const std::uint64_t value = p.permuted(index);
    fixed += value == index ? 1 : 0;
    product += (static_cast<double>(index) - 4999.5) * (static_cast<double>(value) - 4999.5);
  }
  EXPECT_LT(fixed, 8);
  const double variance = (static_cast<double>(kSize) * kSize - 1) / 12 * kSize;
  EXPECT_LT(std::abs(product / variance), 0.04) << "correlation: one in 10^4 is above";
}

// ---- refusals

TEST(Permutation, RefusesASizeOfNoneAndOneThatIsTooLarge) {
  for (const std::uint64_t size : {std::uint64_t{0}, kLargest + 1}) {
    const auto made = Permutation::make(kKey, size);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Code::kInvalidArgument);
    EXPECT_THAT(made.error().message(), HasSubstr("use 1 to 2^63-1"));
  }
}

TEST(Permutation, RefusesAKeyThatIsNot32HexadecimalDigits) {
  for (const std::string_view key :
       {"", "00", "000102030405060708090a0b0c0d0e0f0", "000102030405060708090a0b0c0d0e0",
        "000102030405060708090a0b0c0d0e0g", "0x0102030405060708090a0b0c0d0e0f",
        "-00102030405060708090a0b0c0d0e0f", "0001020304050607 8090a0b0c0d0e0f"}) {
    const auto made = Permutation::make(key, 10);
    ASSERT_FALSE(made) << key;
    EXPECT_EQ(made.error().code, Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace idmint
