#include "base/byte_order_mark.h"

#include <gtest/gtest.h>

#include <string_view>

namespace idmint {
namespace {

TEST(ByteOrderMark, ThatOfUtf8IsLeftOutAndOthersAreNamed) {
  EXPECT_EQ(without_mark("\xEF\xBB\xBF"
                         "a")
                .value(),
            "a");
  EXPECT_EQ(without_mark("\xEF\xBB\xBF").value(), "");
  for (const std::string_view text : {"", "a", "\xEF\xBB", "a\xEF\xBB\xBF"})
    EXPECT_EQ(without_mark(text).value(), text);
  for (const std::string_view text : {"\xFF\xFE"
                                      "a",
                                      "\xFE\xFF", "\xFF\xFE\0\0"}) {
    const Result<std::string_view> refused = without_mark(text);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_TRUE(refused.error().message().contains("iconv -f UTF-16 -t UTF-8"));
  }
}

}  // namespace
}  // namespace idmint
