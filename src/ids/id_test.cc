#include "idmint/id.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <chrono>
#include <limits>

namespace idmint {
namespace {

using namespace std::chrono;

// ---- printing

TEST(Print, EveryKindOfId) {
  EXPECT_EQ(to_string(Id{std::int64_t{0}}), "0");
  EXPECT_EQ(to_string(Id{std::numeric_limits<std::int64_t>::max()}), "9223372036854775807");
  EXPECT_EQ(to_string(Id{std::numeric_limits<std::int64_t>::min()}), "-9223372036854775808");
  EXPECT_EQ(to_string(Id{Snowflake{~std::uint64_t{0}}}), "18446744073709551615");
  EXPECT_EQ(to_string(Id{Uuid::nil()}), "00000000-0000-0000-0000-000000000000");
  EXPECT_EQ(to_string(Id{Ulid{}}), "00000000000000000000000000");
  EXPECT_EQ(to_string(Id{ObjectId{}}), "000000000000000000000000");
}

}  // namespace
}  // namespace idmint
