#include "base/print.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <limits>
#include <string>

#include "idmint/object_id.h"
#include "idmint/snowflake.h"
#include "idmint/ulid.h"
#include "idmint/uuid.h"

namespace idmint {
namespace {

using Print = char* (*)(const std::uint8_t*, char*) noexcept;

// The output of `print`, which must be `chars` characters and nothing around them.
std::string printed(Print print, const std::uint8_t* bytes, std::size_t chars) {
  std::string text(chars + 32, '#');
  char* end = print(bytes, text.data() + 16);
  EXPECT_EQ(end, text.data() + 16 + chars);
  EXPECT_EQ(text.substr(0, 16), std::string(16, '#'));
  EXPECT_EQ(text.substr(16 + chars), std::string(16, '#'));
  return text.substr(16, chars);
}

std::string hex(const std::uint8_t* bytes, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    char pair[3];
    std::snprintf(pair, sizeof pair, "%02x", unsigned{bytes[i]});
    text += pair;
  }
  return text;
}

std::string reference_uuid(const Uuid::Bytes& bytes) {
  std::string text = hex(bytes.data(), bytes.size());
  for (const std::size_t dash : {8U, 13U, 18U, 23U}) text.insert(dash, 1, '-');
  return text;
}

// Bit by bit: 130 of them, the first two zero.
std::string reference_ulid(const Ulid::Bytes& bytes) {
  std::string text;
  for (std::size_t digit = 0; digit < 26; ++digit) {
    unsigned value = 0;
    for (std::size_t bit = 5 * digit; bit < 5 * digit + 5; ++bit) {
      value =
          2 * value + (bit < 2 ? 0U : unsigned{bytes[(bit - 2) / 8]} >> (7 - (bit - 2) % 8) & 1U);
    }
    text += "0123456789ABCDEFGHJKMNPQRSTVWXYZ"[value];
  }
  return text;
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string decimal(std::uint64_t value) {
  char text[20];
  return {text, detail::print_decimal(value, text)};
}

struct Path {
  const char* name;
  Print uuid, ulid, type_id, object_id;
};

class EachPath : public testing::TestWithParam<Path> {
 protected:
  void SetUp() override {
    if (GetParam().uuid == &detail::print_uuid_ssse3 && !detail::has_ssse3()) {
      GTEST_SKIP() << "this processor has no SSSE3";
    }
  }
};

TEST_P(EachPath, PrintsTheVectorsOfTheSpecifications) {
  const auto uuid = *Uuid::parse("017f22e2-79b0-7cc3-98c4-dc0c0c07398f");  // RFC 9562, A.6
  EXPECT_EQ(printed(GetParam().uuid, uuid.bytes().data(), 36),
            "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
  const auto ulid = *Ulid::parse("01ARZ3NDEKTSV4RRFFQ69G5FAV");
  EXPECT_EQ(printed(GetParam().ulid, ulid.bytes().data(), 26), "01ARZ3NDEKTSV4RRFFQ69G5FAV");
  const ObjectId::Bytes object_id{0x50, 0x7f, 0x1f, 0x77, 0xbc, 0xf8,
                                  0x6c, 0xd7, 0x99, 0x43, 0x90, 0x11};
  EXPECT_EQ(printed(GetParam().object_id, object_id.data(), 24), "507f1f77bcf86cd799439011");
}

TEST_P(EachPath, PrintsTheSmallestAndTheLargest) {
  EXPECT_EQ(printed(GetParam().uuid, Uuid::nil().bytes().data(), 36),
            "00000000-0000-0000-0000-000000000000");
  EXPECT_EQ(printed(GetParam().uuid, Uuid::max().bytes().data(), 36),
            "ffffffff-ffff-ffff-ffff-ffffffffffff");
  EXPECT_EQ(printed(GetParam().ulid, Uuid::nil().bytes().data(), 26), "00000000000000000000000000");
  EXPECT_EQ(printed(GetParam().ulid, Uuid::max().bytes().data(), 26), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
}

TEST_P(EachPath, PrintsEachBitInItsPlace) {
  for (std::size_t bit = 0; bit < 128; ++bit) {
    Uuid::Bytes bytes{};
    bytes[bit / 8] = static_cast<std::uint8_t>(0x80 >> (bit % 8));
    EXPECT_EQ(printed(GetParam().uuid, bytes.data(), 36), reference_uuid(bytes)) << bit;
    EXPECT_EQ(printed(GetParam().ulid, bytes.data(), 26), reference_ulid(bytes)) << bit;
    EXPECT_EQ(printed(GetParam().type_id, bytes.data(), 26), lower(reference_ulid(bytes))) << bit;
  }
}

TEST_P(EachPath, PrintsAnyBytesAsTheReferenceDoes) {
  const Path path = GetParam();
  rc::check("any bytes", [path](const Uuid::Bytes& bytes) {
    RC_ASSERT(printed(path.uuid, bytes.data(), 36) == reference_uuid(bytes));
    RC_ASSERT(printed(path.ulid, bytes.data(), 26) == reference_ulid(bytes));
    RC_ASSERT(printed(path.type_id, bytes.data(), 26) == lower(reference_ulid(bytes)));
    RC_ASSERT(printed(path.object_id, bytes.data(), 24) == hex(bytes.data(), 12));
  });
}

INSTANTIATE_TEST_SUITE_P(
    Print, EachPath,
    testing::Values(Path{"Chosen", &detail::print_uuid, &detail::print_ulid, &detail::print_type_id,
                         &detail::print_object_id},
                    Path{"Portable", &detail::print_uuid_portable, &detail::print_ulid_portable,
                         &detail::print_type_id_portable, &detail::print_object_id_portable},
                    Path{"Ssse3", &detail::print_uuid_ssse3, &detail::print_ulid_ssse3,
                         &detail::print_type_id_ssse3, &detail::print_object_id_ssse3}),
    [](const auto& path) { return std::string(path.param.name); });

TEST(PrintDecimal, IsRightAroundEveryPowerOfTen) {
  std::uint64_t power = 1;
  for (int digits = 1; digits <= 20; ++digits, power *= 10) {
    for (const std::uint64_t value : {power - 1, power, power + 1, power / 2 * 3}) {
      EXPECT_EQ(decimal(value), std::to_string(value));
    }
  }
}

TEST(PrintDecimal, PrintsTheEndsOfTheIntegers) {
  EXPECT_EQ(decimal(0), "0");
  EXPECT_EQ(decimal(9223372036854775807U), "9223372036854775807");
  EXPECT_EQ(decimal(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
}

TEST(PrintDecimal, IsRightForEveryGroupOfFourDigitsInEveryPlace) {
  for (std::uint64_t group = 0; group < 10000; ++group) {
    for (std::uint64_t place = 1; place <= 1'000'000'000'000; place *= 10000) {
      const std::uint64_t value = 1'000'000'000'000'000'000 + group * place;
      ASSERT_EQ(decimal(value), std::to_string(value));
      ASSERT_EQ(decimal(group * place), std::to_string(group * place));
    }
  }
}

TEST(PrintDecimal, WritesNothingPastTwentyCharacters) {
  for (int shift = 0; shift < 64; ++shift) {
    char text[28];
    std::fill(std::begin(text), std::end(text), '#');
    detail::print_decimal(~std::uint64_t{0} >> shift, text);
    EXPECT_EQ(std::string(text + 20, 8), "########") << shift;
  }
}

RC_GTEST_PROP(PrintDecimal, AnyIntegerAsTheReferenceDoes, (std::uint64_t seed)) {
  const std::uint64_t value = seed * 0x9e3779b97f4a7c15 >> *rc::gen::inRange(0, 64);
  RC_ASSERT(decimal(value) == std::to_string(value));
}

}  // namespace
}  // namespace idmint
