#include "base/quantity.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>

namespace idmint {
namespace {

TEST(Quantity, Counts) {
  for (const auto& [text, value] : {std::pair{"1", 1.0},
                                    {"1000", 1e3},
                                    {"1_000_000", 1e6},
                                    {"1e9", 1e9},
                                    {"1E+9", 1e9},
                                    {"10^9", 1e9},
                                    {"2^40", 0x1p40},
                                    {"50k", 5e4},
                                    {"50K", 5e4},
                                    {"2.5M", 2.5e6},
                                    {"1G", 1e9},
                                    {"3T", 3e12},
                                    {"1e36", 1e36},
                                    {"1.5e3", 1500.0}}) {
    ASSERT_TRUE(parse_count(text)) << text;
    EXPECT_EQ(*parse_count(text), value) << text;
  }
  for (const std::string text :
       {"",    "0",  "-1", "1.5", "x",    "1e37",  "1e",  "10^", "1e-3", "k",   "1kk",
        "1 k", "_1", ".5", "5.",  "1..2", "1e999", "inf", "nan", "0x10", "1/s", "1,000"}) {
    ASSERT_FALSE(parse_count(text)) << text;
    EXPECT_EQ(parse_count(text).error().code, Code::kInvalidArgument);
  }
}

TEST(Quantity, Rates) {
  for (const auto& [text, value] : {std::pair{"50k/s", 5e4},
                                    {"2M/h", 2e6 / 3600},
                                    {"600/min", 10.0},
                                    {"86400/d", 1.0},
                                    {"0.5/s", 0.5},
                                    {"1e6/s", 1e6}}) {
    ASSERT_TRUE(parse_rate(text)) << text;
    EXPECT_DOUBLE_EQ(*parse_rate(text), value) << text;
  }
  for (const std::string text :
       {"", "50k", "50k/", "/s", "0/s", "50/k", "50/s/s", "-1/s", "1e16/s", "1e-9/s", "5 /s"}) {
    EXPECT_FALSE(parse_rate(text)) << text;
  }
}

TEST(Quantity, DurationsAndPercents) {
  using namespace std::chrono_literals;
  for (const auto& [text, value] : {std::pair{"500us", 500us + 0ns},
                                    {"25ms", 25ms + 0ns},
                                    {"10s", 10s + 0ns},
                                    {"1.5 s", 1500ms + 0ns},
                                    {"5min", 5min + 0ns},
                                    {"12h", 12h + 0ns},
                                    {"90d", 2160h + 0ns}}) {
    ASSERT_TRUE(parse_duration(text)) << text;
    EXPECT_EQ(*parse_duration(text), value) << text;
  }
  for (const std::string text : {"", "10", "s", "-1s", "200000d", "1y"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
  EXPECT_EQ(parse_percent("10%"), 0.1);
  EXPECT_EQ(parse_percent("0 %"), 0.0);
  for (const std::string text : {"", "10", "101%", "-1%", "%"}) {
    EXPECT_FALSE(parse_percent(text)) << text;
  }
}

TEST(Quantity, MessagesAreOneShortLine) {
  const std::string message = parse_count(std::string(5000, '\n')).error().message();
  EXPECT_LT(message.size(), 200u);
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

TEST(Quantity, Printed) {
  EXPECT_EQ(print_count(0), "0");
  EXPECT_EQ(print_count(999), "999");
  EXPECT_EQ(print_count(1000), "1,000");
  EXPECT_EQ(print_count(1e12), "1,000,000,000,000");
  EXPECT_EQ(print_count(0x1p122), "5.32e+36");
  EXPECT_EQ(print_rate(50'000), "50,000/s");
  EXPECT_EQ(print_rate(2.5 / 3600), "2.5/h");
  EXPECT_EQ(print_rate(1.0 / 86'400 / 4), "0.25/d");
  EXPECT_EQ(print_duration(2e7), "231 d 11 h");
  EXPECT_EQ(print_duration(86'400), "1 d");
  EXPECT_EQ(print_duration(61), "1 min 1 s");
  EXPECT_EQ(print_duration(0.025), "25 ms");
  EXPECT_EQ(print_duration(0), "0 s");
  EXPECT_EQ(print_duration(3e9), "95 years");
  EXPECT_EQ(print_duration(std::numeric_limits<double>::infinity()), "never");
  EXPECT_EQ(print_odds(0), "none");
  EXPECT_EQ(print_odds(1), "certain");
  EXPECT_EQ(print_odds(1e-30), "1 in 1e+30");
  EXPECT_EQ(print_odds(1.0 / 4096), "1 in 4,096");
  EXPECT_EQ(print_odds(0.001), "0.1 %");
  EXPECT_EQ(print_odds(0.54), "54 %");
  EXPECT_EQ(print_odds(1 - 1e-12), "99.999 %") << "never rounded up to certain";
  EXPECT_EQ(print_part(0), "0 %");
  EXPECT_EQ(print_part(3e-11), "< 0.1 %");
  EXPECT_EQ(print_part(0.00099), "< 0.1 %");
  EXPECT_EQ(print_part(0.001), "0.1 %");
  EXPECT_EQ(print_part(0.25), "25 %");
  EXPECT_EQ(print_part(1), "100 %");
}

}  // namespace
}  // namespace idmint
