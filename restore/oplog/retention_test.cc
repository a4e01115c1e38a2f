#include "restore/oplog/retention.h"

#include <gtest/gtest.h>

#include <cmath>

namespace idmint::restore {
namespace {

constexpr OplogWindow kWindow{.first = {.seconds = 1000, .ordinal = 1},
                              .last = {.seconds = 2000, .ordinal = 1}};

Timestamp at(std::uint32_t seconds) { return {.seconds = seconds, .ordinal = 1}; }

TEST(OplogRetention, WhatIsOlderMakesWayFirst) {
  const OplogRetention full{.bytes = 1e6, .most_bytes = 1e6, .bytes_per_second = 1000};
  EXPECT_DOUBLE_EQ(seconds_left(full, kWindow, at(1000)), 0);
  EXPECT_DOUBLE_EQ(seconds_left(full, kWindow, at(1500)), 500);
  EXPECT_DOUBLE_EQ(seconds_left(full, kWindow, at(2000)), 1000);
}

TEST(OplogRetention, ThenComesWhatIsFree) {
  const OplogRetention half{.bytes = 1e6, .most_bytes = 2e6, .bytes_per_second = 1000};
  EXPECT_DOUBLE_EQ(seconds_left(half, kWindow, at(1000)), 1000);
  const OplogRetention over{.bytes = 2e6, .most_bytes = 1e6, .bytes_per_second = 1000};
  EXPECT_DOUBLE_EQ(seconds_left(over, kWindow, at(1000)), 0);
}

TEST(OplogRetention, IsUsedUpAtThePresentRate) {
  const OplogRetention busy{.bytes = 1e6, .most_bytes = 1e6, .bytes_per_second = 10'000};
  EXPECT_DOUBLE_EQ(seconds_left(busy, kWindow, at(1500)), 50);
  const OplogRetention idle{.bytes = 1e6, .most_bytes = 1e6, .bytes_per_second = 0};
  EXPECT_TRUE(std::isinf(seconds_left(idle, kWindow, at(1500))));
}

}  // namespace
}  // namespace idmint::restore
