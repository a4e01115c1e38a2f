#include "restore/backup/crc64.h"

#include <gtest/gtest.h>

#include <string_view>

namespace idmint::restore {
namespace {

std::span<const std::uint8_t> bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

TEST(Crc64, IsThatOfXz) {
  EXPECT_EQ(crc64(0, {}), 0);
  EXPECT_EQ(crc64(0, bytes("123456789")), 0x995dc9bbdf1939fa);  // the check of the catalogues
  EXPECT_EQ(crc64(0, bytes("a")), 0x330284772e652b05);          // crc64_test.go
}

TEST(Crc64, GoesOn) {
  constexpr std::string_view text = "Discard medicine more than two years old.";
  for (std::size_t at = 0; at <= text.size(); ++at)
    EXPECT_EQ(crc64(crc64(0, bytes(text.substr(0, at))), bytes(text.substr(at))),
              crc64(0, bytes(text)));
}

}  // namespace
}  // namespace idmint::restore
