#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "idmint/encoding.h"

namespace idmint {
namespace {

constexpr std::string_view kDecimal = "0123456789";

constexpr std::array kAllChecks = {Check::kNone,     Check::kLuhn,     Check::kDamm,
                                   Check::kVerhoeff, Check::kMod11_10, Check::kMod97_10,
                                   Check::kMod37};

std::string with_check(Check check, std::string_view alphabet, std::string_view text) {
  std::string out(text);
  out.resize(text.size() + check_width(check));
  EXPECT_EQ(append_check(check, alphabet, text, out.data() + text.size()), out.data() + out.size());
  return out;
}

std::string check_of(Check check, std::string_view text, std::string_view alphabet = kDecimal) {
  return with_check(check, alphabet, text).substr(text.size());
}

TEST(CheckSymbol, NamesAndWidths) {
  for (const Check check : kAllChecks) EXPECT_EQ(check_named(name(check)), check);
  EXPECT_EQ(check_named("mod36").error().message(),
            "there is no check of that name: take one of none, luhn, damm, verhoeff, mod11-10, "
            "mod97-10, mod37");
  EXPECT_EQ(check_named("").error().code, Code::kInvalidArgument);
  EXPECT_EQ(check_width(Check::kNone), 0U);
  EXPECT_EQ(check_width(Check::kMod97_10), kMaxCheckChars);
  EXPECT_EQ(check_width(Check::kMod37), 1U);
}

TEST(CheckSymbol, KnownCheckDigits) {
  EXPECT_EQ(check_of(Check::kLuhn, "7992739871"), "3");
  EXPECT_EQ(check_of(Check::kLuhn, "453201511283036"), "6");
  EXPECT_EQ(check_of(Check::kDamm, "572"), "4");
  EXPECT_EQ(check_of(Check::kDamm, "11294"), "6");
  EXPECT_EQ(check_of(Check::kDamm, "12345"), "9");
  EXPECT_EQ(check_of(Check::kVerhoeff, "236"), "3");
  EXPECT_EQ(check_of(Check::kVerhoeff, "12345"), "1");
  EXPECT_EQ(check_of(Check::kVerhoeff, "142857"), "0");
  EXPECT_EQ(check_of(Check::kVerhoeff, "123456789012"), "0");
  EXPECT_EQ(check_of(Check::kMod11_10, "79462"), "3");
  EXPECT_EQ(check_of(Check::kMod11_10, "0794"), "5");
  EXPECT_EQ(check_of(Check::kMod97_10, "794"), "44");
  EXPECT_EQ(check_of(Check::kMod97_10, "97"), "98");  // from 02 to 98, as ISO 7064 has them
  EXPECT_EQ(check_of(Check::kMod97_10, "65"), "97");
  const std::string_view base32 = alphabet(Encoding::kBase32);
  EXPECT_EQ(check_of(Check::kMod37, "1H62WV5", base32), "J");  // 1650553701
  EXPECT_EQ(check_of(Check::kMod37, "1h62wv5", alphabet(Encoding::kBase32Lower)), "j");
  EXPECT_EQ(check_of(Check::kNone, "572"), "");
  EXPECT_FALSE(has_valid_check(Check::kDamm, kDecimal, "5727"));
  EXPECT_FALSE(has_valid_check(Check::kDamm, kDecimal, "112949"));
}

TEST(CheckSymbol, Mod37HasFiveSymbolsOfItsOwn) {
  const std::string_view upper = alphabet(Encoding::kBase32);
  const std::string_view lower = alphabet(Encoding::kBase32Lower);
  EXPECT_EQ(check_of(Check::kMod37, "10", upper), "*");  // 32
  EXPECT_EQ(check_of(Check::kMod37, "11", upper), "~");
  EXPECT_EQ(check_of(Check::kMod37, "12", upper), "$");
  EXPECT_EQ(check_of(Check::kMod37, "13", upper), "=");
  EXPECT_EQ(check_of(Check::kMod37, "14", upper), "U");
  EXPECT_EQ(check_of(Check::kMod37, "14", lower), "u");
  EXPECT_EQ(check_of(Check::kMod37, "15", upper), "0");
  EXPECT_TRUE(has_valid_check(Check::kMod37, upper, "14U"));
  EXPECT_FALSE(has_valid_check(Check::kMod37, upper, "14u"));
  EXPECT_FALSE(has_valid_check(Check::kMod37, upper, "U0U"));
}

TEST(CheckSymbol, FitsTheAlphabetsItIsDefinedFor) {
  for (const Encoding encoding :
       {Encoding::kDecimal, Encoding::kHex, Encoding::kBase32, Encoding::kBase32Lower,
        Encoding::kBase32Hex, Encoding::kBase36, Encoding::kBase58, Encoding::kBase62}) {
    const std::string_view digits = alphabet(encoding);
    const bool decimal = encoding == Encoding::kDecimal;
    EXPECT_TRUE(fits(Check::kNone, digits));
    EXPECT_TRUE(fits(Check::kLuhn, digits)) << name(encoding);
    for (const Check check : {Check::kDamm, Check::kVerhoeff, Check::kMod11_10, Check::kMod97_10}) {
      EXPECT_EQ(fits(check, digits), decimal) << name(encoding) << ' ' << name(check);
    }
    EXPECT_EQ(fits(Check::kMod37, digits),
              encoding == Encoding::kBase32 || encoding == Encoding::kBase32Lower);
  }
  EXPECT_FALSE(fits(Check::kLuhn, ""));
  EXPECT_FALSE(fits(Check::kLuhn, "abc"));
}

TEST(CheckSymbol, WhatIsTooShortOrOutsideTheAlphabetIsNotValid) {
  for (const Check check : kAllChecks) {
    const std::string_view digits = check == Check::kMod37 ? alphabet(Encoding::kBase32) : kDecimal;
    EXPECT_FALSE(has_valid_check(check, digits, "")) << name(check);
    std::string text = with_check(check, digits, "12345");
    EXPECT_TRUE(has_valid_check(check, digits, text)) << name(check);
    EXPECT_FALSE(has_valid_check(check, digits, text.substr(0, check_width(check))));
    for (std::size_t at = 0; at < text.size(); ++at) {
      for (int c = 0; c < 256; ++c) {
        if (digits.find(static_cast<char>(c)) != std::string_view::npos) continue;
        std::string changed = text;
        changed[at] = static_cast<char>(c);
        EXPECT_FALSE(has_valid_check(check, digits, changed)) << name(check) << ' ' << at << c;
      }
    }
  }
}

// ---- what is found: all texts, all errors

struct Missed {
  std::set<std::string> substitutions;  // "05": 0 was written where 5 stood, somewhere
  std::set<std::string> swaps;          // "09": 09 was written where 90 stood, or the reverse
};

// Tries all texts of `length` characters with their check symbols.
Missed missed(Check check, std::string_view alphabet, std::size_t length) {
  Missed found;
  std::vector<std::size_t> places(length);
  for (bool more = true; more;) {
    std::string text;
    for (const std::size_t place : places) text += alphabet[place];
    text = with_check(check, alphabet, text);
    EXPECT_TRUE(has_valid_check(check, alphabet, text)) << text;
    for (std::size_t at = 0; at < text.size(); ++at) {
      const char right = text[at];
      for (const char wrong : alphabet) {
        if (wrong == right) continue;
        text[at] = wrong;
        if (has_valid_check(check, alphabet, text)) {
          found.substitutions.insert({std::min(right, wrong), std::max(right, wrong)});
        }
      }
      text[at] = right;
      if (at == 0 || text[at - 1] == right) continue;
      std::swap(text[at - 1], text[at]);
      if (has_valid_check(check, alphabet, text)) {
        found.swaps.insert({std::min(right, text[at]), std::max(right, text[at])});
      }
      std::swap(text[at - 1], text[at]);
    }
    more = false;
    for (std::size_t i = length; i-- != 0 && !more;) {
      places[i] = (places[i] + 1) % alphabet.size();
      more = places[i] != 0;
    }
  }
  return found;
}

TEST(CheckSymbolFinds, DammAndVerhoeffAndMod97AllSingleErrorsAndAllSwaps) {
  for (const Check check : {Check::kDamm, Check::kVerhoeff, Check::kMod97_10}) {
    for (const std::size_t length : {1U, 2U, 3U, 4U}) {
      const Missed none = missed(check, kDecimal, length);
      EXPECT_TRUE(none.substitutions.empty()) << name(check);
      EXPECT_TRUE(none.swaps.empty()) << name(check) << ' ' << *none.swaps.begin();
    }
  }
}

TEST(CheckSymbolFinds, LuhnAllButTheSwapOfTheFirstAndTheLastDigit) {
  for (const auto& [digits, length, swap] :
       {std::tuple{kDecimal, 4U, "09"}, std::tuple{alphabet(Encoding::kHex), 3U, "0f"},
        std::tuple{alphabet(Encoding::kBase36), 2U, "0z"},
        std::tuple{alphabet(Encoding::kBase58), 2U, "1z"}}) {
    const Missed some = missed(Check::kLuhn, digits, length);
    EXPECT_TRUE(some.substitutions.empty());
    EXPECT_EQ(some.swaps, std::set<std::string>{swap});
  }
}

TEST(CheckSymbolFinds, Mod37AllSingleErrorsAndAllSwaps) {
  for (const Encoding encoding : {Encoding::kBase32, Encoding::kBase32Lower}) {
    const Missed none = missed(Check::kMod37, alphabet(encoding), 2);
    EXPECT_TRUE(none.substitutions.empty());
    EXPECT_TRUE(none.swaps.empty());
  }
}

TEST(CheckSymbolFinds, Mod11And10AllSingleErrorsAndNearlyAllSwaps) {
  const Missed some = missed(Check::kMod11_10, kDecimal, 4);
  EXPECT_TRUE(some.substitutions.empty());
  EXPECT_FALSE(some.swaps.empty());
  // How often: of the swaps of two different digits in texts of four and their check digit.
  int swaps = 0;
  int unseen = 0;
  for (int value = 0; value < 10'000; ++value) {
    std::string text = std::to_string(value + 10'000).substr(1);
    text = with_check(Check::kMod11_10, kDecimal, text);
    for (std::size_t at = 1; at < text.size(); ++at) {
      if (text[at - 1] == text[at]) continue;
      std::swap(text[at - 1], text[at]);
      ++swaps;
      unseen += has_valid_check(Check::kMod11_10, kDecimal, text) ? 1 : 0;
      std::swap(text[at - 1], text[at]);
    }
  }
  EXPECT_LT(unseen * 40, swaps) << unseen << " of " << swaps;
  EXPECT_GT(unseen, 0);
}

TEST(CheckSymbolFinds, NoTextHasTwoValidChecks) {
  for (const Check check :
       {Check::kLuhn, Check::kDamm, Check::kVerhoeff, Check::kMod11_10, Check::kMod97_10}) {
    for (int value = 0; value < 1000; ++value) {
      const std::string text = std::to_string(value + 1000).substr(1);
      int valid = 0;
      const int checks = check_width(check) == 1 ? 10 : 100;
      for (int i = 0; i < checks; ++i) {
        const std::string digits = std::to_string(i + checks).substr(1);
        valid += has_valid_check(check, kDecimal, text + digits) ? 1 : 0;
      }
      ASSERT_EQ(valid, 1) << name(check) << ' ' << text;
    }
  }
}

RC_GTEST_PROP(CheckSymbolFinds, SwapsAndSingleErrorsInLongTexts,
              (std::uint64_t a, std::uint64_t b)) {
  const std::string body = std::to_string(a) + std::to_string(b);
  for (const Check check : {Check::kDamm, Check::kVerhoeff, Check::kMod97_10}) {
    const std::string text = with_check(check, kDecimal, body);
    RC_ASSERT(has_valid_check(check, kDecimal, text));
    std::string changed = text;
    const auto at = *rc::gen::inRange<std::size_t>(0, text.size() - 1);
    changed[at] = *rc::gen::elementOf(std::string(kDecimal));
    RC_ASSERT(has_valid_check(check, kDecimal, changed) == (changed == text));
    changed = text;
    std::swap(changed[at], changed[at + 1]);
    RC_ASSERT(has_valid_check(check, kDecimal, changed) == (changed == text));
  }
}

}  // namespace
}  // namespace idmint
