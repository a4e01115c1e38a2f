#include "base/text.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

namespace idmint {
namespace {

using namespace std::string_view_literals;

TEST(IsUtf8, TakesEachLengthAndNothingElse) {
  for (const std::string_view text :
       {""sv, "a\0b"sv, "\u00e9"sv, "\u20ac"sv, "\U0001f600"sv, "\u0080"sv})
    EXPECT_TRUE(is_utf8(text)) << text;
  for (const std::string_view text :
       {"\x80"sv, "\x9b"sv, "\xc0\xaf"sv, "\xc2"sv, "\xe0\x80\x80"sv, "\xed\xa0\x80"sv,
        "\xf0\x80\x80\x80"sv, "\xf4\x90\x80\x80"sv, "\xf5\x80\x80\x80"sv, "a\xe2\x82"sv, "\xff"sv})
    EXPECT_FALSE(is_utf8(text)) << escaped(text);
}

TEST(AsUtf8, ChangesOnlyWhatIsNone) {
  EXPECT_EQ(as_utf8("a\u20ac\x9b\xe2\x82\x1b"), "a\u20ac\\x9b\\xe2\\x82\x1b");
}

TEST(Escaped, LeavesNothingThatControlsATerminal) {
  for (const auto& [text, shown] : {
           std::pair("orders \u00e9\u20ac\U0001f600 \u05d0"sv,
                     "orders \u00e9\u20ac\U0001f600 \u05d0"sv),
           std::pair("\x1b[31mred\x1b[0m\a"sv, "\\u001b[31mred\\u001b[0m\\u0007"sv),
           std::pair("a\0b\tc\nd\re\x7f"sv, "a\\u0000b\\u0009c\\u000ad\\u000de\\u007f"sv),
           std::pair("\u0080\u0085\u009b31m\u009f\u00a0"sv,
                     "\\u0080\\u0085\\u009b31m\\u009f\u00a0"sv),
           std::pair("\x9b"
                     "31m\xc2"sv,
                     "\\x9b31m\\xc2"sv),
           std::pair("\u202etxt.exe\u202c"sv, "\\u202etxt.exe\\u202c"sv),
           std::pair("\u061c\u200e\u200f\u202a\u202b\u202d\u2066\u2067\u2068\u2069"sv,
                     "\\u061c\\u200e\\u200f\\u202a\\u202b\\u202d\\u2066\\u2067\\u2068\\u2069"sv),
           std::pair("a\u2028b\u2029c"sv, "a\\u2028b\\u2029c"sv),
       })
    EXPECT_EQ(escaped(text), shown);
  EXPECT_EQ(escaped("a\nb\x1b", "\n"), "a\nb\\u001b");
}

TEST(Hex, IsReadAgain) {
  const std::string bytes("\0\x0a\x7f\x80\xff", 5);
  EXPECT_EQ(idmint::hex(bytes), "000a7f80ff");
  EXPECT_EQ(unhex("000a7f80ff"), bytes);
  EXPECT_EQ(idmint::hex(""), "");
}

}  // namespace
}  // namespace idmint
