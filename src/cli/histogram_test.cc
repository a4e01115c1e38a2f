#include "cli/histogram.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "cli/measurement.h"

namespace idmint::cli {
namespace {

TEST(Histogram, SmallValuesAreExact) {
  Histogram histogram;
  for (std::uint64_t ns = 1; ns <= 100; ++ns) histogram.record(ns);
  EXPECT_EQ(histogram.count(), 100u);
  EXPECT_EQ(histogram.quantile(0), 1u);
  EXPECT_EQ(histogram.quantile(0.5), 51u);
  EXPECT_EQ(histogram.quantile(0.99), 100u);
  EXPECT_EQ(histogram.quantile(1), 100u);
  EXPECT_EQ(histogram.max(), 100u);
}

TEST(Histogram, LargeValuesAreRightToTwoPercent) {
  std::vector<std::uint64_t> values = {127, 128, 129, 255, 256, 1000, 65'535, 65'536};
  values.insert(values.end(), {1'000'000'007, std::uint64_t{1} << 62});
  for (const std::uint64_t value : values) {
    Histogram histogram;
    histogram.record(value);
    histogram.record(std::numeric_limits<std::uint64_t>::max());
    EXPECT_GE(histogram.quantile(0), value);
    EXPECT_LE(static_cast<double>(histogram.quantile(0)), static_cast<double>(value) * 1.016);
  }
}

TEST(Histogram, NeverAboveTheLargest) {
  Histogram histogram;
  EXPECT_EQ(histogram.quantile(0.5), 0u);
  histogram.record(1'000'001);
  EXPECT_EQ(histogram.quantile(0.999), 1'000'001u);
  histogram.record(std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(histogram.quantile(1), std::numeric_limits<std::uint64_t>::max());
}

TEST(Histogram, Merged) {
  Histogram fast;
  Histogram slow;
  for (int i = 0; i < 99; ++i) fast.record(10);
  slow.record(5'000);
  fast.merge(slow);
  EXPECT_EQ(fast.count(), 100u);
  EXPECT_EQ(fast.quantile(0.5), 10u);
  EXPECT_EQ(fast.quantile(0.99), 5'000u);
  EXPECT_EQ(fast.max(), 5'000u);
}

// Other programs took the processor for nearly all of the second, and during some of the blocks.
TEST(Measurement, AnIdTakesTheMedianOfTheBlocks) {
  Measurement measured{.batch = 1, .seconds = 1, .ids = 100};
  for (int i = 0; i < 90; ++i) measured.blocks.record(1'800);
  for (int i = 0; i < 10; ++i) measured.blocks.record(40'000'000);
  measured.calls.record(43);
  EXPECT_NEAR(measured.ns_per_id(), 1.8, 0.03);
}

TEST(Measurement, OfCallsThatAskAStoreAnIdTakesItsPartOfTheMedianCall) {
  Measurement measured{.batch = 10, .seconds = 1, .ids = 100};
  for (int i = 0; i < 10; ++i) measured.calls.record(1'000'000);
  EXPECT_NEAR(measured.ns_per_id(), 1e5, 2e3);
}

}  // namespace
}  // namespace idmint::cli
