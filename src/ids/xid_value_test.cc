#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

#include "idmint/xid.h"

namespace idmint {
namespace {

constexpr std::string_view kXid = "9m4e2mr0ui3e8a215n4g";

TEST(Xid, TheVectorOfRsXid) {
  const Result<Xid> id = Xid::parse(kXid);
  ASSERT_TRUE(id);
  const Xid::Bytes bytes{0x4d, 0x88, 0xe1, 0x5b, 0x60, 0xf4, 0x86, 0xe4, 0x28, 0x41, 0x2d, 0xc9};
  EXPECT_EQ(id->bytes(), bytes);
  EXPECT_EQ(id->seconds(), 1300816219U);
  EXPECT_EQ(id->machine(), 0x60f486U);
  EXPECT_EQ(id->process(), 0xe428U);
  EXPECT_EQ(id->counter(), 4271561U);
  EXPECT_EQ(Xid{bytes}.to_string(), kXid);
}

TEST(Xid, SmallestAndLargest) {
  Xid::Bytes bytes;
  bytes.fill(0xff);
  EXPECT_EQ(Xid{}.to_string(), "00000000000000000000");
  EXPECT_EQ(Xid{bytes}.to_string(), "vvvvvvvvvvvvvvvvvvvg");
  EXPECT_EQ(Xid::parse("vvvvvvvvvvvvvvvvvvvg"), Xid{bytes});
}

TEST(Xid, TheLastCharacterHoldsOneBit) {
  for (int c = 0; c < 256; ++c) {
    std::string text(kXid);
    text.back() = static_cast<char>(c);
    EXPECT_EQ(Xid::parse(text).has_value(), c == '0' || c == 'g') << c;
  }
}

TEST(Xid, EveryOtherCharacterIsOneOfTheAlphabet) {
  for (std::size_t at = 0; at + 1 < Xid::kChars; ++at) {
    for (int c = 0; c < 256; ++c) {
      std::string text(kXid);
      text[at] = static_cast<char>(c);
      const bool known = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'v');
      const Result<Xid> id = Xid::parse(text);
      ASSERT_EQ(id.has_value(), known) << at << ' ' << c;
      if (id) {
        ASSERT_EQ(id->to_string(), text);
      } else {
        ASSERT_EQ(id.error().code, Code::kInvalidArgument);
      }
    }
  }
}

TEST(Xid, RefusesOtherLengths) {
  for (const std::string_view text :
       {"", "9m4e2mr0ui3e8a215n4", "9m4e2mr0ui3e8a215n4g0", "9m4e2mr0ui3e8a215n4g ",
        "9M4E2MR0UI3E8A215N4G", "4d88e15b60f486e428412dc9"}) {
    EXPECT_FALSE(Xid::parse(text)) << text;
  }
}

RC_GTEST_PROP(Xid, PrintingAndReadingAreInverse, (const Xid::Bytes& bytes)) {
  RC_ASSERT(*Xid::parse(Xid{bytes}.to_string()) == Xid{bytes});
}

RC_GTEST_PROP(Xid, TheOrderOfTextsIsTheOrderOfIds, (const Xid::Bytes& a, const Xid::Bytes& b)) {
  RC_ASSERT((Xid{a} < Xid{b}) == (Xid{a}.to_string() < Xid{b}.to_string()));
}

}  // namespace
}  // namespace idmint
