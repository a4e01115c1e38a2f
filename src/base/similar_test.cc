#include "base/similar.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace idmint {
namespace {

TEST(CloseMatches, AreTheNearestNames) {
  const std::vector<std::string> known = {"create", "raise", "retire", "uuid4", "uuid7"};
  EXPECT_EQ(close_matches("creat", known), "create");
  EXPECT_EQ(close_matches("RETRIE", known), "retire");
  EXPECT_EQ(close_matches("uuid", known), "uuid4 or uuid7");
  EXPECT_EQ(close_matches("x", known), "");
  EXPECT_EQ(close_matches("something", known), "");
  EXPECT_EQ(close_matches("", known), "");
  EXPECT_EQ(close_matches(std::string(10'000, 'a'), known), "");
}

}  // namespace
}  // namespace idmint
