#include "idmint/encoding.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace idmint {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::array kAllEncodings = {
    Encoding::kDecimal,   Encoding::kHex,    Encoding::kBase32, Encoding::kBase32Lower,
    Encoding::kBase32Hex, Encoding::kBase36, Encoding::kBase58, Encoding::kBase62,
};

std::string encoded(Encoding encoding, const Bytes& bytes) {
  std::string text(encoded_width(encoding, bytes.size()) + 2, '#');
  const char* const end = encode(encoding, bytes, text.data() + 1);
  EXPECT_EQ(end, &text.back());
  EXPECT_EQ(text.front(), '#');
  EXPECT_EQ(text.back(), '#');
  return text.substr(1, text.size() - 2);
}

// By long division, a digit at a time.
std::string reference(Encoding encoding, Bytes bytes) {
  const std::string_view digits = alphabet(encoding);
  const std::size_t width = encoded_width(encoding, bytes.size());
  std::string text;
  while (text.size() < width) {
    unsigned rest = 0;
    for (std::uint8_t& byte : bytes) {
      rest = rest << 8 | byte;
      byte = static_cast<std::uint8_t>(rest / digits.size());
      rest %= static_cast<unsigned>(digits.size());
    }
    text.insert(text.begin(), digits[rest]);
  }
  EXPECT_TRUE(std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; }));
  return text;
}

std::string refusal(Encoding encoding, std::string_view text, std::size_t size) {
  Bytes bytes(size);
  const Result<void> decoded = decode(encoding, text, bytes);
  if (decoded) return "accepted";
  EXPECT_EQ(decoded.error().code, Code::kInvalidArgument);
  return decoded.error().message();
}

TEST(Encoding, NamesAreReadBack) {
  for (const Encoding encoding : kAllEncodings) EXPECT_EQ(encoding_named(name(encoding)), encoding);
  EXPECT_EQ(encoding_named("canonical"), Encoding::kCanonical);
  EXPECT_TRUE(alphabet(Encoding::kCanonical).empty());
  for (const std::string_view none : {"", "Hex", "hex ", "base64"}) {
    EXPECT_EQ(encoding_named(none).error().code, Code::kInvalidArgument);
  }
  EXPECT_EQ(encoding_named("base64").error().message(),
            "there is no encoding of that name: take one of canonical, decimal, hex, base32, "
            "base32-lower, base32hex, base36, base58, base62");
}

TEST(Encoding, AlphabetsAreInTheOrderOfAsciiAndLeaveOutWhatTheySay) {
  for (const Encoding encoding : kAllEncodings) {
    const std::string_view digits = alphabet(encoding);
    EXPECT_EQ(std::ranges::adjacent_find(digits, std::ranges::greater_equal{}), digits.end());
  }
  EXPECT_EQ(alphabet(Encoding::kBase32).find_first_of("ILOU"), std::string_view::npos);
  EXPECT_EQ(alphabet(Encoding::kBase32Lower).find_first_of("ilou"), std::string_view::npos);
  EXPECT_EQ(alphabet(Encoding::kBase58).find_first_of("0IOl"), std::string_view::npos);
  EXPECT_EQ(alphabet(Encoding::kBase32).size(), 32U);
  EXPECT_EQ(alphabet(Encoding::kBase58).size(), 58U);
  EXPECT_EQ(alphabet(Encoding::kBase62).size(), 62U);
}

TEST(Encoding, WidthsAreWhatTheLargestValueNeeds) {
  EXPECT_EQ(encoded_width(Encoding::kDecimal, 8), 20U);
  EXPECT_EQ(encoded_width(Encoding::kDecimal, 16), 39U);
  EXPECT_EQ(encoded_width(Encoding::kDecimal, kMaxIdBytes), kMaxEncodedChars);
  EXPECT_EQ(encoded_width(Encoding::kHex, 12), 24U);
  EXPECT_EQ(encoded_width(Encoding::kBase32, 16), 26U);
  EXPECT_EQ(encoded_width(Encoding::kBase32Hex, 12), 20U);
  EXPECT_EQ(encoded_width(Encoding::kBase36, 16), 25U);
  EXPECT_EQ(encoded_width(Encoding::kBase58, 16), 22U);
  EXPECT_EQ(encoded_width(Encoding::kBase62, 16), 22U);
  EXPECT_EQ(encoded_width(Encoding::kBase62, 20), 27U);
  for (const Encoding encoding : kAllEncodings) {
    for (std::size_t size = 1; size <= kMaxIdBytes; ++size) {
      // The first digit of the largest value is not zero: one character fewer would not do.
      EXPECT_NE(encoded(encoding, Bytes(size, 0xff)).front(), alphabet(encoding).front());
    }
  }
}

TEST(Encoding, KnownTexts) {
  const Bytes million{0x0f, 0x42, 0x40};
  EXPECT_EQ(encoded(Encoding::kDecimal, million), "01000000");
  EXPECT_EQ(encoded(Encoding::kHex, million), "0f4240");
  EXPECT_EQ(encoded(Encoding::kBase32, million), "0YGJ0");
  EXPECT_EQ(encoded(Encoding::kBase32Lower, million), "0ygj0");
  EXPECT_EQ(encoded(Encoding::kBase32Hex, million), "0UGI0");
  EXPECT_EQ(encoded(Encoding::kBase36, million), "0lfls");
  EXPECT_EQ(encoded(Encoding::kBase58, million), "168GP");
  EXPECT_EQ(encoded(Encoding::kBase62, million), "04C92");
  // The largest UUID.
  const Bytes largest(16, 0xff);
  EXPECT_EQ(encoded(Encoding::kDecimal, largest), "340282366920938463463374607431768211455");
  EXPECT_EQ(encoded(Encoding::kBase32, largest), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
  EXPECT_EQ(encoded(Encoding::kBase36, largest), "f5lxx1zz5pnorynqglhzmsp33");
  EXPECT_EQ(encoded(Encoding::kBase58, largest), "YcVfxkQb6JRzqk5kF2tNLv");
  EXPECT_EQ(encoded(Encoding::kBase62, largest), "7n42DGM5Tflk9n8mt7Fhc7");
}

RC_GTEST_PROP(Encoding, EveryEncodingAndSizeIsReadBackAndInOrder, (std::uint64_t)) {
  const auto size = *rc::gen::inRange<std::size_t>(1, kMaxIdBytes + 1);
  // Long runs of one byte are where carries and borrows go wrong.
  const auto byte = rc::gen::weightedOneOf<std::uint8_t>(
      {{4, rc::gen::arbitrary<std::uint8_t>()},
       {1, rc::gen::element<std::uint8_t>(0, 1, 0x7f, 0x80, 0xfe, 0xff)}});
  const auto a = *rc::gen::container<Bytes>(size, byte);
  auto b = *rc::gen::oneOf(rc::gen::container<Bytes>(size, byte), rc::gen::just(a));
  b[*rc::gen::inRange<std::size_t>(0, size)] = *byte;
  for (const Encoding encoding : kAllEncodings) {
    const std::string text = encoded(encoding, a);
    RC_ASSERT(text == reference(encoding, a));
    RC_ASSERT(text.find_first_not_of(alphabet(encoding)) == std::string::npos);
    RC_ASSERT((a < b) == (text < encoded(encoding, b)));
    RC_ASSERT((a == b) == (text == encoded(encoding, b)));
    Bytes back(size);
    RC_ASSERT(decode(encoding, text, back).has_value());
    RC_ASSERT(back == a);
  }
}

TEST(Encoding, EveryOneAndTwoBytesAreReadBackAndNothingElseIs) {
  for (const Encoding encoding : kAllEncodings) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{2}}) {
      const std::size_t values = std::size_t{1} << (8 * size);
      std::size_t accepted = 0;
      // All texts of that width, in order.
      const std::string_view digits = alphabet(encoding);
      std::vector<std::size_t> places(encoded_width(encoding, size));
      std::string text(places.size(), digits[0]);
      Bytes bytes(size);
      for (bool more = true; more;) {
        if (decode(encoding, text, bytes)) {
          const std::size_t value = size == 1 ? bytes[0] : bytes[0] * 256U + bytes[1];
          if (value != accepted++ || encoded(encoding, bytes) != text)
            FAIL() << name(encoding) << ' ' << text;
        }
        more = false;
        for (std::size_t i = places.size(); i-- != 0 && !more;) {
          places[i] = (places[i] + 1) % digits.size();
          text[i] = digits[places[i]];
          more = places[i] != 0;
        }
      }
      EXPECT_EQ(accepted, values) << name(encoding);
    }
  }
}

TEST(Encoding, RefusesTheValueAfterTheLargest) {
  for (const Encoding encoding : kAllEncodings) {
    const std::string_view digits = alphabet(encoding);
    for (std::size_t size = 1; size <= kMaxIdBytes; ++size) {
      std::string text = encoded(encoding, Bytes(size, 0xff));
      EXPECT_EQ(refusal(encoding, text, size), "accepted");
      auto place = text.rbegin();
      for (; place != text.rend() && *place == digits.back(); ++place) *place = digits.front();
      if (place == text.rend()) continue;  // hex: it has no text of that width
      *place = digits[digits.find(*place) + 1];
      EXPECT_TRUE(refusal(encoding, text, size).ends_with("the value is too large"))
          << name(encoding) << ' ' << text;
      if (encoding == Encoding::kHex) continue;
      std::ranges::fill(text, digits.back());
      EXPECT_TRUE(refusal(encoding, text, size).ends_with("the value is too large"))
          << name(encoding) << ' ' << text;
    }
  }
}

TEST(Encoding, RefusesOtherWidthsAndEveryCharacterOutsideTheAlphabet) {
  for (const Encoding encoding : kAllEncodings) {
    const std::string text = encoded(encoding, Bytes(16, 0x5a));
    EXPECT_NE(refusal(encoding, text.substr(1), 16), "accepted");
    EXPECT_NE(refusal(encoding, text + alphabet(encoding).front(), 16), "accepted");
    EXPECT_NE(refusal(encoding, alphabet(encoding).front() + text, 16), "accepted");
    EXPECT_NE(refusal(encoding, "", 16), "accepted");
    for (int c = 0; c < 256; ++c) {
      const char letter = static_cast<char>(c);
      for (const std::size_t at : {std::size_t{1}, text.size() - 1}) {
        std::string changed = text;
        changed[at] = letter;
        const bool known = alphabet(encoding).find(letter) != std::string_view::npos;
        const std::string why = refusal(encoding, changed, 16);
        EXPECT_EQ(why == "accepted", known) << name(encoding) << ' ' << c;
        if (!known) {
          EXPECT_TRUE(
              why.ends_with("character " + std::to_string(at + 1) + " is none of its digits"))
              << why;
        }
      }
    }
  }
  EXPECT_EQ(refusal(Encoding::kHex, "0f", 2),
            "not 2 bytes in hex: expected 4 characters, there are 2");
}

}  // namespace
}  // namespace idmint
