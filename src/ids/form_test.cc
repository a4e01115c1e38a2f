#include "idmint/form.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "idmint/id.h"
#include "ids/form_width.h"

namespace idmint {
namespace {

constexpr std::array kEncodings = {
    Encoding::kCanonical, Encoding::kDecimal,     Encoding::kHex,
    Encoding::kBase32,    Encoding::kBase32Lower, Encoding::kBase32Hex,
    Encoding::kBase36,    Encoding::kBase58,      Encoding::kBase62,
};
constexpr std::array kChecks = {Check::kNone,     Check::kLuhn,     Check::kDamm, Check::kVerhoeff,
                                Check::kMod11_10, Check::kMod97_10, Check::kMod37};
constexpr std::array<std::string_view, 10> kFormats = {"integer",   "snowflake", "uuid", "ulid",
                                                       "object-id", "ksuid",     "xid",  "digits",
                                                       "tsid",      "nanoid"};
constexpr std::int64_t kLargestNumber = std::numeric_limits<std::int64_t>::max() - 1;

template <class T>
Id any_of_bytes() {
  return Id{T(*rc::gen::arbitrary<typename T::Bytes>())};
}

Id any_id(std::string_view format) {
  if (format == "integer") return Id{*rc::gen::inRange<std::int64_t>(0, kLargestNumber)};
  if (format == "snowflake") return Id{Snowflake{*rc::gen::arbitrary<std::uint64_t>()}};
  if (format == "uuid") return any_of_bytes<Uuid>();
  if (format == "ulid") return any_of_bytes<Ulid>();
  if (format == "object-id") return any_of_bytes<ObjectId>();
  if (format == "ksuid") return any_of_bytes<Ksuid>();
  if (format == "xid") return any_of_bytes<Xid>();
  if (format == "tsid") return Id{Tsid{*rc::gen::arbitrary<std::uint64_t>()}};
  if (format == "nanoid") {
    return Id{Nanoid::from_random(*rc::gen::arbitrary<Nanoid::Bytes>())};
  }
  const auto digit = rc::gen::inRange('0', static_cast<char>('9' + 1));
  const auto size = *rc::gen::inRange<std::size_t>(1, Digits::kMaxChars + 1);
  return Id{*Digits::parse(*rc::gen::container<std::string>(size, digit))};
}

std::string refusal(const Form& form, std::string_view format) {
  const Result<void> valid = validate(form, format);
  if (valid) return "valid";
  EXPECT_EQ(valid.error().code, Code::kInvalidArgument);
  return valid.error().message();
}

std::string refusal(std::string_view text, std::string_view format, const Form& form = {}) {
  const Result<Id> id = parse(text, format, form);
  if (id) return "read";
  EXPECT_EQ(id.error().code, Code::kInvalidArgument);
  return id.error().message();
}

TEST(Form, ATypeIdIsAFormOfAUuid) {
  const Form form{.prefix = "user_", .encoding = Encoding::kBase32Lower};
  const Id id{*Uuid::parse("01890a5d-ac96-774b-bcce-b302099a8057")};
  ASSERT_TRUE(validate(form, "uuid"));
  EXPECT_EQ(to_string(id, form), "user_01h455vb4pex5vsknk084sn02q");
  EXPECT_EQ(parse("user_01h455vb4pex5vsknk084sn02q", "uuid", form), id);
}

TEST(Form, WhatGoesTogether) {
  for (const std::string_view format : kFormats) {
    const bool decimal_format = format == "integer" || format == "digits";
    for (const Encoding encoding : kEncodings) {
      const bool decimal =
          encoding == Encoding::kDecimal || (encoding == Encoding::kCanonical && decimal_format);
      const bool crockford = encoding == Encoding::kBase32 || encoding == Encoding::kBase32Lower;
      for (const Check check : kChecks) {
        const bool fits = check == Check::kNone    ? true
                          : check == Check::kLuhn  ? decimal || encoding != Encoding::kCanonical
                          : check == Check::kMod37 ? crockford
                                                   : decimal;
        EXPECT_EQ(refusal({.encoding = encoding, .check = check}, format) == "valid", fits)
            << format << ' ' << name(encoding) << ' ' << name(check);
      }
      const bool counts = format == "integer" && decimal;
      EXPECT_EQ(refusal({.encoding = encoding, .digits = 12}, format) == "valid", counts);
    }
  }
}

TEST(Form, IsRefusedByTheNameOfTheField) {
  EXPECT_NE(refusal(Form{}, "uuid7"), "valid");
  EXPECT_NE(refusal(Form{}, ""), "valid");
  EXPECT_EQ(refusal(Form{.digits = 37}, "integer"), "digits is 37: take 1 to 36, or leave it out");
  EXPECT_EQ(refusal(Form{.digits = -1}, "integer"), "digits is -1: take 1 to 36, or leave it out");
  EXPECT_EQ(refusal(Form{.check = Check::kDamm}, "snowflake"),
            "check damm is not for snowflake without an encoding: take encoding decimal, or check "
            "none");
  EXPECT_EQ(refusal(Form{.encoding = Encoding::kHex, .check = Check::kMod37}, "uuid"),
            "check mod37 is not for uuid in encoding hex: take encoding base32 or "
            "base32-lower, or check none");
  EXPECT_EQ(refusal(Form{.prefix = "26", .check = Check::kMod97_10, .digits = 4}, "integer"),
            "digits is 4, which the prefix and the check digits take: one at least must be left");
  EXPECT_EQ(refusal(Form{.prefix = "26", .check = Check::kMod97_10, .digits = 5}, "integer"),
            "valid");
  EXPECT_EQ(refusal(Form{.prefix = std::string(64, '~')}, "uuid"), "valid");
  EXPECT_EQ(refusal(Form{.prefix = std::string(65, '~')}, "uuid"),
            "the prefix has 65 characters: at most 64 are allowed");
  for (int c = 0; c < 256; ++c) {
    const bool fine = c > 0x20 && c < 0x7f && c != '"' && c != '\\';
    EXPECT_EQ(refusal(Form{.prefix = {'a', static_cast<char>(c)}}, "uuid") == "valid", fine) << c;
  }
}

TEST(Form, DigitsCountThoseOfThePrefixAndOfTheCheckSymbols) {
  const Form form{.prefix = "INV-26-", .check = Check::kDamm, .digits = 12};
  ASSERT_TRUE(validate(form, "integer"));
  EXPECT_EQ(largest_integer(form), 999'999'999);
  const std::string text = to_string(Id{std::int64_t{81234}}, form);
  EXPECT_EQ(std::ranges::count_if(text, [](char c) { return c >= '0' && c <= '9'; }), 12);
  EXPECT_TRUE(text.starts_with("INV-26-000081234")) << text;
  EXPECT_EQ(parse(text, "integer", form), Id{std::int64_t{81234}});

  EXPECT_EQ(largest_integer({}), kLargestNumber);
  EXPECT_EQ(largest_integer({.digits = 1}), 9);
  EXPECT_EQ(largest_integer({.digits = 18}), 999'999'999'999'999'999);
  EXPECT_EQ(largest_integer({.digits = 19}), kLargestNumber);
  EXPECT_EQ(largest_integer({.digits = 36}), kLargestNumber);
  EXPECT_EQ(largest_integer({.check = Check::kMod97_10, .digits = 20}), 999'999'999'999'999'999);
  const Form wide{.digits = 36};
  EXPECT_EQ(to_string(Id{kLargestNumber}, wide), "000000000000000009223372036854775806");
  EXPECT_EQ(parse("000000000000000009223372036854775806", "integer", wide), Id{kLargestNumber});
  EXPECT_NE(refusal("000000000000000009223372036854775807", "integer", wide), "read");
  EXPECT_NE(refusal("999999999999999999999999999999999999", "integer", wide), "read");
}

TEST(Form, AWidthIsOfIntegersInAnEncoding) {
  for (const std::string_view format : kFormats) {
    for (const Encoding encoding : kEncodings) {
      const bool fits =
          format == "integer" && encoding != Encoding::kCanonical && encoding != Encoding::kDecimal;
      EXPECT_EQ(refusal(Form{.encoding = encoding, .width = 6}, format) == "valid", fits)
          << format << ' ' << name(encoding);
    }
  }
  EXPECT_EQ(refusal(Form{.encoding = Encoding::kBase62, .width = 11}, "integer"), "valid");
  EXPECT_EQ(refusal(Form{.encoding = Encoding::kBase62, .width = 12}, "integer"),
            "width is 12: in base62 take 1 to 11, or leave it out");
  EXPECT_EQ(refusal(Form{.encoding = Encoding::kHex, .width = -1}, "integer"),
            "width is -1: in hex take 1 to 16, or leave it out");

  const Form six{.encoding = Encoding::kBase62, .width = 6};
  EXPECT_EQ(largest_integer(six), 56'800'235'583);  // 62^6 - 1
  EXPECT_EQ(to_string(Id{largest_integer(six)}, six), "zzzzzz");
  EXPECT_EQ(to_string(Id{std::int64_t{999'999'999}}, six), "15ftgF");
  EXPECT_EQ(to_string(Id{std::int64_t{1}}, six), "000001");
  EXPECT_EQ(largest_integer({.encoding = Encoding::kHex, .width = 15}),
            (std::int64_t{1} << 60) - 1);
  EXPECT_EQ(largest_integer({.encoding = Encoding::kHex, .width = 16}), kLargestNumber);
  EXPECT_EQ(largest_integer({.encoding = Encoding::kBase62, .width = 11}), kLargestNumber);

  EXPECT_EQ(refusal("15ftgF", "integer", six), "read");
  EXPECT_EQ(refusal("5ftgF", "integer", six),
            "not integer in this form: not 6 characters in base62: there are 5");
  EXPECT_NE(refusal("0015ftgF", "integer", six), "read");
  EXPECT_NE(refusal("0000015ftgF", "integer", six), "read") << "the width of 64 bits";
  EXPECT_EQ(refusal("15f-gF", "integer", six),
            "not integer in this form: not 6 characters in base62: character 4 is none of its "
            "digits");
  const Form all{.encoding = Encoding::kHex, .width = 16};
  EXPECT_NE(refusal("7fffffffffffffff", "integer", all), "read") << "past the last value";
  EXPECT_EQ(refusal("7ffffffffffffffe", "integer", all), "read");
}

TEST(Form, IsSettledByTheLastValue) {
  for (const Encoding encoding : kEncodings) {
    const Form form{.encoding = encoding};
    if (encoding == Encoding::kCanonical || encoding == Encoding::kDecimal) {
      EXPECT_EQ(settled(form, 999), form);
      continue;
    }
    const auto base = static_cast<std::int64_t>(alphabet(encoding).size());
    EXPECT_EQ(settled(form, 0).width, 1);
    EXPECT_EQ(settled(form, base - 1).width, 1);
    EXPECT_EQ(settled(form, base).width, 2);
    EXPECT_EQ(settled(form, base * base - 1).width, 2);
    EXPECT_EQ(settled(form, kLargestNumber).width, encoded_width(encoding, 8)) << name(encoding);
    EXPECT_EQ(settled({.encoding = encoding, .width = 5}, 0).width, 5);
  }
}

TEST(Form, SaysWhatItHasRoomFor) {
  EXPECT_EQ(room_of({.prefix = "A7", .digits = 4}), "4 digits have room for values up to 999");
  EXPECT_EQ(room_of({.encoding = Encoding::kHex, .width = 2}),
            "width 2 in hex has room for values up to 255");
}

TEST(Form, APrefixOfTheAlphabetIsInTheCheck) {
  // 4532015112830366 is the usual example of a card number.
  const Form card{.prefix = "4", .check = Check::kLuhn, .digits = 16};
  EXPECT_EQ(to_string(Id{std::int64_t{53201511283036}}, card), "4532015112830366");
  EXPECT_NE(refusal("4532015112830367", "integer", card), "read");
  EXPECT_EQ(refusal("4532 0151 1283 0366", "integer", {.check = Check::kLuhn}),
            "not integer in this form: character 5 is none of its digits");
  const Form named{.prefix = "A", .check = Check::kLuhn};
  EXPECT_EQ(to_string(Id{std::int64_t{7992739871}}, named), "A79927398713");
  EXPECT_EQ(refusal("A79927398710", "integer", named),
            "not integer in this form: its check symbol (luhn) is wrong: it is mistyped");
}

TEST(Form, OnlyTheTextThatIsPrintedIsRead) {
  EXPECT_EQ(refusal("01890a5d-ac96-774b-bcce-b302099a8057", "uuid"), "read");
  EXPECT_NE(refusal("01890A5D-AC96-774B-BCCE-B302099A8057", "uuid"), "read");
  EXPECT_NE(refusal("{01890a5d-ac96-774b-bcce-b302099a8057}", "uuid"), "read");
  EXPECT_NE(refusal("01arz3ndektsv4rrffq69g5fav", "ulid"), "read");
  EXPECT_NE(refusal("ObjectId('507f1f77bcf86cd799439011')", "object-id"), "read");
  EXPECT_NE(refusal("007", "integer"), "read");
  EXPECT_NE(refusal("-1", "integer"), "read");
  EXPECT_NE(refusal("", "integer"), "read");
  EXPECT_NE(refusal("9223372036854775807", "integer"), "read");
  EXPECT_EQ(refusal("9223372036854775806", "integer"), "read");
  EXPECT_NE(refusal("7", "integer", {.digits = 2}), "read");
  EXPECT_NE(refusal("007", "integer", {.digits = 2}), "read");
  EXPECT_EQ(refusal("007", "digits"), "read");
  EXPECT_NE(refusal("7fffffffffffffff", "integer", {.encoding = Encoding::kHex}), "read");
  EXPECT_EQ(refusal("7ffffffffffffffe", "integer", {.encoding = Encoding::kHex}), "read");
  EXPECT_NE(refusal("1", "no-such-format"), "read");
  EXPECT_NE(refusal("1", "integer", {.digits = 99}), "read");
}

TEST(Form, SaysWhatIsWrong) {
  const Form form{.prefix = "u_", .encoding = Encoding::kBase58};
  const std::string text = to_string(Id{Uuid::max()}, form);
  EXPECT_EQ(refusal("v_" + text.substr(2), "uuid", form),
            "not uuid in this form: it does not begin with the prefix u_");
  EXPECT_EQ(refusal(text + "1", "uuid", form),
            "not uuid in this form: not 16 bytes in base58: expected 22 characters, there are 23");
  EXPECT_EQ(refusal("u_O" + text.substr(3), "uuid", form),
            "not uuid in this form: not 16 bytes in base58: character 1 is none of its digits");
  EXPECT_EQ(refusal("u_z" + text.substr(3), "uuid", form),
            "not uuid in this form: not 16 bytes in base58: the value is too large");
}

TEST(Form, ThePrefixAloneIsNoId) {
  for (const Check check : kChecks) {
    if (check == Check::kMod37) continue;
    for (const std::string prefix : {"79927398713", "5724", "00", "A"}) {
      EXPECT_NE(refusal(prefix, "integer", {.prefix = prefix, .check = check}), "read") << prefix;
      EXPECT_NE(refusal("", "integer", {.prefix = prefix, .check = check}), "read") << prefix;
    }
  }
}

TEST(Form, DigitsKeepTheirWidthInEveryEncoding) {
  for (const Encoding encoding : kEncodings) {
    const Form form{.encoding = encoding};
    std::string before;
    for (const std::string_view text :
         {"0", "1", "9", "00", "09", "10", "99", "000", "123456789012",
          "000000000000000000000000000000000000", "999999999999999999999999999999999999"}) {
      const Id id{*Digits::parse(text)};
      const std::string printed = to_string(id, form);
      EXPECT_EQ(parse(printed, "digits", form), id) << text << ' ' << name(encoding);
      if (encoding != Encoding::kCanonical && encoding != Encoding::kDecimal) {
        EXPECT_LT(before, printed) << text << ' ' << name(encoding);
        before = printed;
      }
    }
  }
  // The number after the largest.
  const Form hex{.encoding = Encoding::kHex};
  std::string text = to_string(Id{*Digits::parse(std::string(36, '9'))}, hex);
  for (auto c = text.rbegin(); c != text.rend(); ++c) {
    if (*c != 'f') {
      *c = *c == '9' ? 'a' : static_cast<char>(*c + 1);
      break;
    }
    *c = '0';
  }
  EXPECT_NE(refusal(text, "digits", hex), "read");
  EXPECT_NE(refusal(std::string(30, 'f'), "digits", hex), "read");
}

RC_GTEST_PROP(Form, EveryFormatEncodingAndCheckIsReadBack, (std::uint64_t)) {
  const std::string prefix =
      *rc::gen::container<std::string>(rc::gen::elementOf(std::string("0179azAZ-_.#~")));
  for (const std::string_view format : kFormats) {
    const Id id = any_id(format);
    const Id other = any_id(format);
    for (const Encoding encoding : kEncodings) {
      for (const Check check : kChecks) {
        const Form form{.prefix = prefix.substr(0, 64), .encoding = encoding, .check = check};
        if (!validate(form, format)) continue;
        char buffer[kMaxFormChars];
        const std::string text(buffer, to_chars(id, form, buffer));
        RC_ASSERT(text == to_string(id, form));
        RC_ASSERT(text.starts_with(form.prefix));
        const Result<Id> back = parse(text, format, form);
        RC_ASSERT(back.has_value());
        RC_ASSERT(*back == id);
        RC_ASSERT((to_string(other, form) == text) == (other == id));
        if (encoding == Encoding::kCanonical || check != Check::kNone) continue;
        if (encoding == Encoding::kDecimal && (format == "integer" || format == "digits")) continue;
        RC_ASSERT((to_string(other, form) < text) == (other < id));
      }
    }
  }
}

RC_GTEST_PROP(Form, PaddedIntegersAreReadBackAndInOrder, (std::uint64_t)) {
  const Form form{.prefix = *rc::gen::element<std::string>("", "7", "A1-", "00"),
                  .encoding = *rc::gen::element(Encoding::kCanonical, Encoding::kDecimal),
                  .check = *rc::gen::element(Check::kNone, Check::kLuhn, Check::kMod97_10),
                  .digits = *rc::gen::inRange(1, 37)};
  RC_PRE(validate(form, "integer").has_value());
  const std::int64_t most = largest_integer(form);
  const std::int64_t a = *rc::gen::arbitrary<std::int64_t>() & kLargestNumber;
  const std::int64_t value = a % (most + 1);
  const std::string text = to_string(Id{value}, form);
  RC_ASSERT(std::ranges::count_if(text, [](char c) { return c >= '0' && c <= '9'; }) ==
            form.digits);
  RC_ASSERT(*parse(text, "integer", form) == Id{value});
  if (value > 0) RC_ASSERT(to_string(Id{value - 1}, form) < text);
}

RC_GTEST_PROP(Form, IntegersInAWidthAreReadBackAndInOrder, (std::uint64_t)) {
  const std::int64_t last =
      (*rc::gen::arbitrary<std::int64_t>() & kLargestNumber) >> *rc::gen::inRange(0, 63);
  const Form form =
      settled({.prefix = *rc::gen::element<std::string>("", "7", "A1-", "00"),
               .encoding = *rc::gen::element(Encoding::kHex, Encoding::kBase32, Encoding::kBase36,
                                             Encoding::kBase58, Encoding::kBase62),
               .check = *rc::gen::element(Check::kNone, Check::kLuhn)},
              last);
  RC_ASSERT(validate(form, "integer").has_value());
  RC_ASSERT(last <= largest_integer(form));
  if (form.width > 1) {
    Form narrower = form;
    --narrower.width;
    RC_ASSERT(largest_integer(narrower) < last);
  }
  const std::int64_t value = (*rc::gen::arbitrary<std::int64_t>() & kLargestNumber) % (last + 1);
  const std::string text = to_string(Id{value}, form);
  RC_ASSERT(text.size() ==
            form.prefix.size() + static_cast<std::size_t>(form.width) + check_width(form.check));
  RC_ASSERT(*parse(text, "integer", form) == Id{value});
  if (value > 0) {
    Form bare = form;
    bare.check = Check::kNone;
    RC_ASSERT(to_string(Id{value - 1}, bare) < to_string(Id{value}, bare));
  }
  const std::size_t at = *rc::gen::inRange<std::size_t>(0, text.size());
  std::string other = text;
  other[at] = *rc::gen::elementOf(std::string(alphabet(form.encoding)) + "-_~");
  if (const Result<Id> id = parse(other, "integer", form)) RC_ASSERT(to_string(*id, form) == other);
}

RC_GTEST_PROP(Form, WhateverIsReadIsPrintedTheSame, (std::string text)) {
  for (const std::string_view format : kFormats) {
    for (const Encoding encoding : kEncodings) {
      const Form form{.encoding = encoding};
      if (const Result<Id> id = parse(text, format, form)) {
        RC_ASSERT(to_string(*id, form) == text);
        RC_ASSERT(format_of(*id) == format);
      }
    }
  }
}

}  // namespace
}  // namespace idmint
