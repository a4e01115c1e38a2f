#include "terminal/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace idmint {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Chart, BarsAreAsLongAsTheirValues) {
  const std::array bars = {Bar{"a", 100, "100"}, Bar{"bcd", 50, "50"}, Bar{"e", 0, "0"},
                           Bar{"f", 1e-9, "few"}};
  // 80 columns less label 3, text 3 and 4 blanks.
  const std::string hashes(70, '#');
  EXPECT_EQ(text_chart(bars, false), "a    " + hashes + "  100\n" + "bcd  " + hashes.substr(35) +
                                         std::string(35, ' ') + "   50\n" + "e    " +
                                         std::string(70, ' ') + "    0\n" + "f    #" +
                                         std::string(69, ' ') + "  few\n");
}

TEST(Chart, BlocksInEighths) {
  const std::array bars = {Bar{"a", 560, "x"}, Bar{"b", 5, "x"}, Bar{"c", 8 + 3, "x"}};
  const std::string chart = text_chart(bars, true);  // 74 columns
  EXPECT_THAT(chart, HasSubstr("a  \u2588"));
  EXPECT_THAT(chart, HasSubstr("b  \u258b "));       // 5/560 of 592 eighths: 5
  EXPECT_THAT(chart, HasSubstr("c  \u2588\u258c"));  // 11/560: 12, one and a half
}

TEST(Chart, NoRoomStillMakesABar) {
  const std::array bars = {Bar{std::string(100, 'x'), 1, "1"}};
  EXPECT_THAT(text_chart(bars, false), HasSubstr("x  ##########  1\n"));
  EXPECT_EQ(text_chart({}, true), "");
}

TEST(Chart, SvgIsEscaped) {
  const std::array bars = {Bar{"<a> & \"b\"\x01", 1, "1 < 2"}, Bar{"c", 0, "0"}};
  const std::string svg = svg_chart("T & T", "n\no", bars);
  EXPECT_THAT(svg, HasSubstr(">&lt;a&gt; &amp; &quot;b&quot;\\u0001</text>"));
  EXPECT_THAT(svg, HasSubstr("<title>T &amp; T</title>"));
  EXPECT_THAT(svg, HasSubstr("<desc>n\\u000ao</desc>"));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(svg, HasSubstr("width=\"400.0\" height=\"22.0\""));
  EXPECT_THAT(svg, HasSubstr("width=\"0.0\" height=\"22.0\""));
  EXPECT_THAT(svg, Not(HasSubstr("\x01")));
}

}  // namespace
}  // namespace idmint
