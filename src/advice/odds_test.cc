#include "advice/odds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace idmint::advice {
namespace {

void expect_near(double value, double exact, double relative) {
  EXPECT_LE(std::abs(value - exact), std::abs(exact) * relative) << value << " for " << exact;
}

TEST(Odds, TheBirthdayProblem) {
  EXPECT_EQ(odds_of_a_repeat(0, 365), 0);
  EXPECT_EQ(odds_of_a_repeat(1, 365), 0);
  EXPECT_FALSE(std::signbit(odds_of_a_repeat(1, 365))) << "it would be printed as -0.0";
  expect_near(odds_of_a_repeat(2, 365), 1.0 / 365, 1e-15);
  expect_near(odds_of_a_repeat(23, 365), 0.507297234323985, 1e-14);
  EXPECT_EQ(odds_of_a_repeat(366, 365), 1);
  EXPECT_EQ(odds_of_a_repeat(2, 1), 1);
}

TEST(Odds, NeitherEndIsLostToRounding) {
  // n (n - 1) / (2 s) is exact to about n / s here.
  expect_near(odds_of_a_repeat(1e6, 0x1p160), 1e6 * (1e6 - 1) / 2 / 0x1p160, 1e-13);
  expect_near(odds_of_a_repeat(2, 0x1p122), 0x1p-122, 1e-15);
  expect_near(odds_of_a_repeat(1e9, 0x1p122), 1e9 * (1e9 - 1) / 2 / 0x1p122, 1e-13);
  // 365! / 365^365, a day for each of 365 people.
  expect_near(log_all_different(365, 365), std::lgamma(366) - 365 * std::log(365), 1e-12);
  // All 10^6 values at once: log(10^6!) - 10^6 log(10^6), by Stirling's series.
  const double s = 1e6;
  const double exact = -s + 0.5 * std::log(2 * std::acos(-1.0) * s) + 1 / (12 * s);
  expect_near(log_all_different(s, s), exact, 1e-12);
  EXPECT_EQ(log_all_different(s + 1, s), -std::numeric_limits<double>::infinity());
}

TEST(Odds, TheFormulaAgreesWithTheTerms) {
  for (const double space : {3e4, 1e6, 1e9, 1e15}) {
    for (const double count : {9'999.0, 10'001.0, 10'002.0, 20'000.0, 30'000.0}) {
      long double sum = 0;
      long double redraws = 0;
      for (double i = count - 1; i >= 1; --i) {
        sum += std::log1p(static_cast<long double>(-i) / space);
        redraws += i / (static_cast<long double>(space) - i);
      }
      expect_near(log_all_different(count, space), static_cast<double>(sum), 1e-12);
      expect_near(expected_redraws(count, space), static_cast<double>(redraws), 1e-12);
    }
  }
}

TEST(Odds, ABillionRandomIdsOfTwelveDigits) {
  expect_near(odds_that_the_last_collides(1e9, 1e12), 0.001, 1e-8);
  expect_near(expected_redraws(1e9, 1e12), 500'333.6, 1e-5);
  EXPECT_EQ(odds_of_a_repeat(1e9, 1e12), 1);
  expect_near(odds_of_a_repeat(1'177'411, 1e12), 0.5, 1e-5);
}

TEST(Odds, ClaimingEverything) {
  EXPECT_EQ(expected_redraws(1, 10), 0);
  expect_near(expected_redraws(2, 10), 1.0 / 9, 1e-15);
  // The coupon collector: s (1 + 1/2 + ... + 1/s) - s.
  expect_near(expected_redraws(3, 3), 3 * (1 + 0.5 + 1.0 / 3) - 3, 1e-15);
  EXPECT_EQ(expected_redraws(11, 10), std::numeric_limits<double>::infinity());
  EXPECT_EQ(odds_that_the_last_collides(1, 10), 0);
  EXPECT_EQ(odds_that_the_last_collides(11, 10), 1);
}

// 1 - (1 - 1/1024) (1 - 2/1024) ... (1 - 39/1024), multiplied out.
TEST(Odds, WorkerIdsHashedFromAddresses) {
  long double different = 1;
  for (int i = 1; i < 40; ++i) different *= 1 - i / 1024.0L;
  expect_near(odds_of_a_repeat(40, 1024), static_cast<double>(1 - different), 1e-14);
  EXPECT_GT(odds_of_a_repeat(40, 1024), 0.5);
  EXPECT_EQ(odds_of_a_repeat(1025, 1024), 1);
}

}  // namespace
}  // namespace idmint::advice
