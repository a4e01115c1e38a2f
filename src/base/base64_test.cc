#include "base/base64.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <optional>
#include <string>
#include <utility>

namespace idmint {
namespace {

// RFC 4648, section 10.
TEST(Base64, HasTheVectorsOfItsSpecification) {
  for (const auto& [bytes, text] :
       {std::pair("", ""), std::pair("f", "Zg=="), std::pair("fo", "Zm8="),
        std::pair("foo", "Zm9v"), std::pair("foob", "Zm9vYg=="), std::pair("fooba", "Zm9vYmE="),
        std::pair("foobar", "Zm9vYmFy")}) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
  EXPECT_EQ(to_base64("\xfb\xff\xfe"), "+//+");
}

TEST(Base64, IsRefusedWhereItIsNot) {
  for (const char* const text : {"Z", "Zg", "Zg=", "Zh==", "Zm9=", "====", "Zg==Zg==", "Zm9-",
                                 "Zm 9", "=Zg=", "Z===", "Zm9v\n"})
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
}

TEST(Base64, AnyBytesComeBack) {
  const auto held = rc::check([](const std::string& bytes) {
    RC_ASSERT(from_base64(to_base64(bytes)) == std::optional(bytes));
  });
  EXPECT_TRUE(held);
}

}  // namespace
}  // namespace idmint
