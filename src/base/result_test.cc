#include "idmint/result.h"

#include <gtest/gtest.h>

#include <string_view>
#include <utility>

namespace idmint {
namespace {

TEST(Code, HasTheNamesAndNumbersOfGoogleRpc) {
  const std::pair<int, std::string_view> codes[] = {
      {2, "UNKNOWN"},
      {3, "INVALID_ARGUMENT"},
      {4, "DEADLINE_EXCEEDED"},
      {5, "NOT_FOUND"},
      {6, "ALREADY_EXISTS"},
      {7, "PERMISSION_DENIED"},
      {8, "RESOURCE_EXHAUSTED"},
      {9, "FAILED_PRECONDITION"},
      {11, "OUT_OF_RANGE"},
      {12, "UNIMPLEMENTED"},
      {13, "INTERNAL"},
      {14, "UNAVAILABLE"},
      {15, "DATA_LOSS"},
      {16, "UNAUTHENTICATED"},
  };
  for (const auto& [number, text] : codes) EXPECT_EQ(name(Code{number}), text) << number;
}

TEST(Code, UnnamedNumberIsUnknown) { EXPECT_EQ(name(Code{99}), "UNKNOWN"); }

}  // namespace
}  // namespace idmint
