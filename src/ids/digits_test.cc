#include "idmint/digits.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <unordered_set>
#include <vector>

#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

Uint128 power_of_ten(int exponent) {
  Uint128 power = 1;
  for (; exponent > 0; --exponent) power *= 10;
  return power;
}

std::string decimal(Uint128 value, std::size_t width) {
  std::string text;
  for (; text.size() < width; value /= 10) {
    text.insert(text.begin(), static_cast<char>('0' + static_cast<int>(value % 10)));
  }
  return text;
}

// ---- Digits

TEST(Digits, AreReadBackWithTheirWidth) {
  for (const std::string_view text :
       {"0", "7", "007", "123456789012", "000000000000000000", "999999999999999999",
        "1000000000000000000", "999999999999999999999999999999999999",
        "000000000000000000000000000000000001"}) {
    const Result<Digits> digits = Digits::parse(text);
    ASSERT_TRUE(digits) << text;
    EXPECT_EQ(digits->size(), text.size());
    EXPECT_EQ(digits->to_string(), text);
  }
  EXPECT_EQ(Digits{}.to_string(), "0");
}

TEST(Digits, RefusesWhatAreNone) {
  for (const std::string& text :
       {std::string{}, std::string("-1"), std::string("+1"), std::string(" 1"), std::string("1 "),
        std::string("1.0"), std::string("0x1"), std::string("1\0", 2), std::string(37, '1'),
        std::string("/"), std::string(":"), std::string("\xd9\xa1")}) {
    const Result<Digits> refused = Digits::parse(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  }
}

TEST(Digits, EverySizePrintsItsSmallestAndLargest) {
  for (std::size_t size = 1; size <= Digits::kMaxChars; ++size) {
    const Uint128 past = power_of_ten(static_cast<int>(size));
    for (const Uint128 value : {Uint128{0}, Uint128{1}, past / 2, past / 10, past - 1}) {
      std::string text(size + 2, '#');
      EXPECT_EQ(Digits(size, value).to_chars(text.data() + 1), &text.back());
      EXPECT_EQ(text, "#" + decimal(value, size) + "#");
      EXPECT_TRUE(Digits(size, value).value() == value);
    }
  }
}

RC_GTEST_PROP(Digits, PrintingAndReadingAreInverseAndInOrder, (std::uint64_t)) {
  const auto text = [] {
    const auto size = *rc::gen::inRange<std::size_t>(1, Digits::kMaxChars + 1);
    return *rc::gen::container<std::string>(size,
                                            rc::gen::inRange('0', static_cast<char>('9' + 1)));
  };
  const std::string a = text();
  const std::string b = *rc::gen::element(text(), a);
  const Digits first = *Digits::parse(a);
  const Digits second = *Digits::parse(b);
  RC_ASSERT(first.to_string() == a);
  RC_ASSERT((first < second) == (a.size() != b.size() ? a.size() < b.size() : a < b));
  RC_ASSERT((first == second) == (a == b));
}

// ---- DigitsLayout

std::string refusal(const DigitsLayout& layout) {
  const Result<void> valid = layout.validate();
  if (valid) return "valid";
  EXPECT_EQ(valid.error().code, Code::kInvalidArgument);
  return valid.error().message();
}

TEST(DigitsLayout, IsRefusedByTheNameOfTheField) {
  EXPECT_EQ(refusal({}), "valid");
  EXPECT_EQ(refusal({.digits = 1}), "valid");
  EXPECT_EQ(refusal({.digits = 36, .prefix = std::string(33, '9'), .check = Check::kMod97_10}),
            "valid");
  EXPECT_EQ(refusal({.digits = 0}), "digits is 0: take 1 to 36");
  EXPECT_EQ(refusal({.digits = 37}), "digits is 37: take 1 to 36");
  EXPECT_EQ(refusal({.digits = -1}), "digits is -1: take 1 to 36");
  EXPECT_NE(refusal({.prefix = "4a"}), "valid");
  EXPECT_NE(refusal({.prefix = " "}), "valid");
  EXPECT_NE(refusal({.prefix = "04", .leading_zeros = false}), "valid");
  EXPECT_EQ(refusal({.prefix = "40", .leading_zeros = false}), "valid");
  EXPECT_NE(refusal({.check = Check::kMod37}), "valid");
  EXPECT_NE(refusal({.digits = 3, .prefix = "123"}), "valid");
  EXPECT_NE(refusal({.digits = 3, .prefix = "1", .check = Check::kMod97_10}), "valid");
  EXPECT_NE(refusal({.digits = 1, .check = Check::kLuhn}), "valid");
  EXPECT_NE(refusal({.digits = 3, .prefix = std::string(1000, '1')}), "valid");
}

TEST(DigitsLayout, IsNumberedThroughWithPrefixAndCheckDigit) {
  const DigitsLayout cards{.digits = 16, .prefix = "4", .check = Check::kLuhn};
  ASSERT_TRUE(cards.validate());
  EXPECT_TRUE(cards.capacity() == power_of_ten(14));
  EXPECT_EQ(cards.at(53'201'511'283'036).to_string(), "4532015112830366");
  EXPECT_TRUE(cards.index_of(Digits(16, 4532015112830366)) == Uint128{53'201'511'283'036});
}

// Every id of a small layout, against every text of that length.
TEST(DigitsLayout, HoldsExactlyTheTextsThatFitIt) {
  const std::string_view decimal_digits = "0123456789";
  for (const std::string prefix : {"", "0", "7", "70"}) {
    for (const Check check : {Check::kNone, Check::kLuhn, Check::kDamm, Check::kVerhoeff,
                              Check::kMod11_10, Check::kMod97_10}) {
      for (const bool leading_zeros : {true, false}) {
        const DigitsLayout layout{
            .digits = 5, .prefix = prefix, .check = check, .leading_zeros = leading_zeros};
        if (!layout.validate()) continue;
        Uint128 next = 0;
        for (Uint128 value = 0; value < 100'000; ++value) {
          const Digits id(5, value);
          const std::string text = id.to_string();
          const bool belongs = text.starts_with(prefix) && (leading_zeros || text[0] != '0') &&
                               has_valid_check(check, decimal_digits, text);
          const Result<Uint128> index = layout.index_of(id);
          if (index.has_value() != belongs) FAIL() << text << ' ' << name(check);
          if (!belongs) continue;
          if (*index != next || layout.at(next) != id) FAIL() << text << ' ' << name(check);
          ++next;
        }
        EXPECT_TRUE(next == layout.capacity()) << prefix << ' ' << name(check);
      }
    }
  }
}

TEST(DigitsLayout, SaysInWhatAnIdDoesNotFit) {
  const DigitsLayout layout{.digits = 6, .prefix = "12", .check = Check::kDamm};
  EXPECT_EQ(layout.index_of(*Digits::parse("12345")).error().message(), "it has 5 digits, not 6");
  EXPECT_EQ(layout.index_of(*Digits::parse("132345")).error().message(),
            "it does not begin with 12");
  EXPECT_EQ(layout.index_of(*Digits::parse("123450")).error().message(),
            "it is mistyped: its damm check digit is another");
  const DigitsLayout no_zero{.digits = 3, .leading_zeros = false};
  EXPECT_EQ(no_zero.index_of(*Digits::parse("099")).error().message(), "it begins with 0");
  EXPECT_EQ(no_zero.index_of(*Digits::parse("099")).error().code, Code::kInvalidArgument);
}

RC_GTEST_PROP(DigitsLayout, NumberingIsInverseAndInOrderAtEverySize,
              (std::uint64_t a, std::uint64_t b)) {
  const int digits = *rc::gen::inRange(1, 37);
  const DigitsLayout layout{
      .digits = digits,
      .prefix = std::string(*rc::gen::inRange<std::size_t>(0, 5), '3'),
      .check = *rc::gen::element(Check::kNone, Check::kLuhn, Check::kMod97_10),
      .leading_zeros = *rc::gen::arbitrary<bool>()};
  RC_PRE(layout.validate().has_value());
  const Uint128 index = (Uint128{a} << 64 | b) % layout.capacity();
  const Digits id = layout.at(index);
  RC_ASSERT(id.size() == static_cast<std::size_t>(digits));
  RC_ASSERT(*layout.index_of(id) == index);
  if (index != 0) RC_ASSERT(layout.at(index - 1) < id);
}

// ---- DigitsGenerator

std::vector<std::uint8_t> bytes_of(const std::vector<std::uint64_t>& draws) {
  std::vector<std::uint8_t> bytes(8 * draws.size());
  std::memcpy(bytes.data(), draws.data(), bytes.size());
  return bytes;
}

// A draw of a half that is not rejected.
constexpr std::uint64_t kTop = std::uint64_t{1} << 63;
constexpr std::uint64_t kHalf = kTop + 1;

// The first id after these draws.
std::string first_after(const DigitsLayout& layout, const std::vector<std::uint64_t>& draws) {
  fakes::ScriptedEntropy entropy(bytes_of(draws));
  return DigitsGenerator(layout, entropy).next().to_string();
}

TEST(DigitsGenerator, ADrawIsAFractionOfTheCapacity) {
  EXPECT_EQ(first_after({.digits = 1}, {kHalf}), "5");
  EXPECT_EQ(first_after({.digits = 12}, {kHalf / 2 + 1}), "250000000000");
  EXPECT_EQ(first_after({.digits = 12, .prefix = "99"}, {kHalf}), "995000000000");
  EXPECT_EQ(first_after({.digits = 3, .leading_zeros = false}, {kHalf}), "550");
  EXPECT_EQ(first_after({.digits = 4, .check = Check::kDamm}, {kHalf}), "5004");
  EXPECT_EQ(first_after({.digits = 20}, {kTop, 1}), "50000000000000000000");
}

// 2^64 is 6 more than a multiple of 10: each digit has 1844674407370955161 draws and one in six of
// those that begin it would be one too many. They are rejected, exactly they.
TEST(DigitsGenerator, RejectsExactlyTheDrawsThatWouldFavourSomeIds) {
  const DigitsLayout one{.digits = 1};
  constexpr std::uint64_t accepted = std::numeric_limits<std::uint64_t>::max();  // is 9
  std::array<std::uint64_t, 10> width{};
  int rejected = 0;
  for (unsigned digit = 0; digit < 10; ++digit) {
    // The first draw of the digit's, and the last one.
    const auto first = static_cast<std::uint64_t>(((Uint128{digit} << 64) + 9) / 10);
    const auto last = static_cast<std::uint64_t>(((Uint128{digit + 1} << 64) - 1) / 10);
    const auto fraction = static_cast<std::uint64_t>(Uint128{first} * 10);
    const bool refused = fraction < 6;
    const std::string expected(1, static_cast<char>('0' + digit));
    EXPECT_EQ(first_after(one, {first, accepted}), refused ? "9" : expected);
    EXPECT_EQ(first_after(one, {first + 1, accepted}), expected);
    EXPECT_EQ(first_after(one, {last, accepted}), expected);
    width[digit] = last - first + 1 - (refused ? 1 : 0);
    rejected += refused ? 1 : 0;
  }
  EXPECT_EQ(rejected, 6);
  for (const std::uint64_t each : width) EXPECT_EQ(each, 1'844'674'407'370'955'161U);
}

TEST(DigitsGenerator, RejectsInBulkAndBeyond64BitsAsWell) {
  // Draw 0 is always one of those that are rejected, unless the capacity is a power of two.
  fakes::ScriptedEntropy entropy(bytes_of({0, kHalf, 0}));
  std::vector<Digits> ids(2);
  DigitsGenerator({.digits = 1}, entropy).next(ids);
  EXPECT_EQ(ids[0].to_string(), "5");
  EXPECT_EQ(first_after({.digits = 30}, {0, 0, kTop, 1}), "500000000000000000000000000000");
  // 2^128 mod 10^30, the first draw that is kept, and the last one that is not.
  const Uint128 capacity = power_of_ten(30);
  const Uint128 unfair = (0 - capacity) % capacity;
  EXPECT_LT(0U, static_cast<std::uint64_t>(unfair >> 64));
  const auto first_id = [&](Uint128 draw) {
    return first_after({.digits = 30}, {static_cast<std::uint64_t>(draw >> 64),
                                        static_cast<std::uint64_t>(draw), kTop, 1});
  };
  const Uint128 kept = (unfair + capacity - 1) / capacity;
  EXPECT_EQ(first_id(kept), std::string(30, '0'));
  EXPECT_EQ(first_id(kept - 1), "5" + std::string(29, '0'));
}

TEST(DigitsGenerator, BulkMakesWhatOneAtATimeMakes) {
  for (const DigitsLayout& layout :
       {DigitsLayout{.digits = 12}, DigitsLayout{.digits = 18}, DigitsLayout{.digits = 36},
        DigitsLayout{.digits = 16, .prefix = "4", .check = Check::kLuhn}}) {
    fakes::ScriptedEntropy first;
    fakes::ScriptedEntropy second;
    DigitsGenerator one(layout, first);
    DigitsGenerator many(layout, second);
    std::vector<Digits> ids(1000);
    many.next(ids);
    many.next({});
    for (const Digits& id : ids) ASSERT_EQ(one.next(), id);
    EXPECT_EQ(many.next(), one.next()) << "no draw was in vain";
    EXPECT_EQ(one.layout(), layout);
  }
}

TEST(DigitsGenerator, EveryIdIsOneOfTheLayout) {
  for (const DigitsLayout& layout :
       {DigitsLayout{.digits = 2}, DigitsLayout{.digits = 2, .leading_zeros = false},
        DigitsLayout{.digits = 3, .check = Check::kVerhoeff},
        DigitsLayout{.digits = 36, .prefix = "007", .check = Check::kMod97_10}}) {
    fakes::ScriptedEntropy entropy;
    DigitsGenerator generator(layout, entropy);
    std::vector<Digits> ids(2000);
    generator.next(ids);
    for (const Digits& id : ids) ASSERT_TRUE(layout.index_of(id)) << id.to_string();
    if (layout.capacity() > 100) continue;
    const std::unordered_set<Digits> seen(ids.begin(), ids.end());
    EXPECT_TRUE(seen.size() == layout.capacity());
  }
}

// Chi-square over 1000 equal parts, on a fixed stream: the same figure in every run.
TEST(DigitsGenerator, IsUniform) {
  for (const int digits : {3, 12, 18, 20, 36}) {
    fakes::ScriptedEntropy entropy;
    DigitsGenerator generator({.digits = digits}, entropy);
    std::vector<Digits> ids(100'000);
    generator.next(ids);
    std::array<int, 1000> counts{};
    const Uint128 part = power_of_ten(digits - 3);
    for (const Digits& id : ids) ++counts[static_cast<std::size_t>(id.value() / part)];
    double chi_square = 0;
    for (const int count : counts) chi_square += (count - 100.0) * (count - 100.0) / 100.0;
    // 999 degrees of freedom: 999 +- 45; beyond five of those it is not uniform.
    EXPECT_GT(chi_square, 999 - 225) << digits;
    EXPECT_LT(chi_square, 999 + 225) << digits;
  }
}

}  // namespace
}  // namespace idmint
