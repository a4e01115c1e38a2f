#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "idmint/clock.h"

namespace idmint {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using std::chrono::sys_days;
using std::chrono::year;

constexpr Instant kNewYear = sys_days{year{2026} / 1 / 1};

TEST(FormatTime, IsToTheMillisecondInUtc) {
  EXPECT_EQ(format_time(Instant{}), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(format_time(Instant{-1ns}), "1969-12-31T23:59:59.999Z");
  EXPECT_EQ(format_time(Instant{1528538400000ms}), "2018-06-09T10:00:00.000Z");
  EXPECT_EQ(format_time(sys_days{year{2000} / 2 / 29} + 23h + 59min + 59s + 999999us),
            "2000-02-29T23:59:59.999Z");
  EXPECT_EQ(format_time(Instant::min()), "1677-09-21T00:12:43.145Z");
  EXPECT_EQ(format_time(Instant::max()), "2262-04-11T23:47:16.854Z");
}

TEST(FormatTime, ExactHasTheDigitsItTakes) {
  EXPECT_EQ(format_exact_time(Instant{}), "1970-01-01T00:00:00Z");
  EXPECT_EQ(format_exact_time(Instant{-1ns}), "1969-12-31T23:59:59.999999999Z");
  EXPECT_EQ(format_exact_time(Instant{100ms}), "1970-01-01T00:00:00.1Z");
  EXPECT_EQ(format_exact_time(Instant{1288834974657ms}), "2010-11-04T01:42:54.657Z");
  EXPECT_EQ(format_exact_time(Instant::min()), "1677-09-21T00:12:43.145224192Z");
  EXPECT_EQ(format_exact_time(Instant::max()), "2262-04-11T23:47:16.854775807Z");
}

RC_GTEST_PROP(FormatTime, IsReadBackToTheMillisecond, (std::int64_t ns)) {
  using namespace std::chrono;
  const Instant time{nanoseconds{ns}};
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, ms = 0;
  const std::string text = format_time(time);
  RC_ASSERT(text.size() == 24u);
  RC_ASSERT(std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ", &year, &month, &day, &hour,
                        &minute, &second, &ms) == 7);
  const sys_days date = std::chrono::year{year} / month / day;
  const auto read = sys_time<milliseconds>{date} + hours{hour} + minutes{minute} + seconds{second} +
                    milliseconds{ms};
  RC_ASSERT(read == floor<milliseconds>(time));
}

TEST(ParseTime, ReadsItsSpellings) {
  const Instant morning = kNewYear + 7h + 30min;
  for (const auto& [text, time] : std::initializer_list<std::pair<const char*, Instant>>{
           {"2026-01-01", kNewYear},
           {"2024-02-29", sys_days{year{2024} / 2 / 29}},
           {"2026-01-01T00:00:00Z", kNewYear},
           {"2026-01-01t07:30:00z", morning},
           {"2026-01-01 07:30:00Z", morning},
           {"2026-01-01T07:30Z", morning},
           {"2026-01-01T08:30:00+01:00", morning},
           {"2026-01-01T08:30:00+0100", morning},
           {"2026-01-01T08:30:00+01", morning},
           {"2026-01-01T08:30+01:00", morning},
           {"2026-01-01T02:15:00-05:15", morning},
           {"2025-12-31T22:30:00-09:00", morning},
           {"2026-01-01T07:30:00-00:00", morning},
           {"2026-01-01T07:30:00.5Z", morning + 500ms},
           {"2026-01-01T07:30:00.123456789Z", morning + 123456789ns},
           {"2026-01-01T07:30:00.000000001+00:00", morning + 1ns},
           {"1969-12-31T23:59:59.25Z", Instant{-750ms}},
           {"2026-01-01T23:59:59Z", kNewYear + 24h - 1s},
           {"@0", Instant{}},
           {"@1700000000", Instant{1700000000s}},
           {"@1700000000123ms", Instant{1700000000123ms}},
           {"@-1", Instant{-1s}},
           {"@-1ms", Instant{-1ms}},
           {"@-1001ms", Instant{-1001ms}},
           {"@-1000ms", Instant{-1s}},
           {"@007", Instant{7s}},
           {"1677-09-21T00:12:43.145224192Z", Instant::min()},
           {"2262-04-11T23:47:16.854775807Z", Instant::max()},
           {"2262-04-12T00:47:16.854775807+01:00", Instant::max()},
           {"@-9223372036854ms", Instant{-9223372036854ms}},
       }) {
    const Result<Instant> read = parse_time(text);
    ASSERT_TRUE(read) << text << ": " << read.error().message();
    EXPECT_EQ(*read, time) << text;
  }
}

TEST(ParseTime, RefusesWhatIsNoTime) {
  for (const char* text : {"",
                           " ",
                           "2026",
                           "2026-01",
                           "2026-1-1",
                           "26-01-01",
                           "20260101",
                           "2026-01-01 ",
                           " 2026-01-01",
                           "2026-01-01T",
                           "2026-01-01Z",
                           "2026-01-01T07",
                           "2026-01-01T07Z",
                           "2026-01-01T07:30",
                           "2026-01-01T07:30:00",
                           "2026-01-01T07:30:Z",
                           "2026-01-01T0730Z",
                           "2026-01-01T07:30:00.Z",
                           "2026-01-01T07:30:00.0000000001Z",
                           "2026-01-01T07:30:00,5Z",
                           "2026-01-01T07:30.5Z",
                           "2026-01-01T07:30:00Zulu",
                           "2026-01-01T07:30:00Z ",
                           "2026-01-01T24:00:00Z",
                           "2026-01-01T07:60:00Z",
                           "2016-12-31T23:59:60Z",
                           "2026-01-01T07:30:00+24:00",
                           "2026-01-01T07:30:00+01:60",
                           "2026-01-01T07:30:00+1",
                           "2026-01-01T07:30:00+01:",
                           "2026-01-01T07:30:00+01:0",
                           "2026-01-01T07:30:00+010",
                           "2026-01-01T07:30:00+01:00:00",
                           "2026-01-01X07:30:00Z",
                           "2026-00-01",
                           "2026-13-01",
                           "2026-01-00",
                           "2026-02-29",
                           "2026-04-31",
                           "-2026-01-01",
                           "2026-01--1",
                           "+026-01-01",
                           "@",
                           "@-",
                           "@+1",
                           "@1.5",
                           "@1s",
                           "@1 ",
                           "@ 1",
                           "@1us",
                           "@1msx",
                           "@1m",
                           "@--1",
                           "@1234567890123456789",
                           "now"}) {
    const Result<Instant> read = parse_time(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, Code::kInvalidArgument) << text;
    EXPECT_THAT(read.error().message(), testing::StartsWith("not a time: ")) << text;
    EXPECT_THAT(read.error().message(), testing::HasSubstr("give one like")) << text;
  }
}

TEST(ParseTime, OutsideOfInstantIsOutOfRange) {
  for (const char* text :
       {"1677-09-21T00:12:43.145224191Z", "2262-04-11T23:47:16.854775808Z", "1677-09-21",
        "2262-04-12", "0000-01-01", "9999-12-31T23:59:59.999999999Z", "@9223372037", "@-9223372037",
        "@9223372036855ms", "@-9223372036855ms", "@999999999999999999", "@-999999999999999999ms",
        "2262-04-11T23:47:16.854775807-00:01"}) {
    EXPECT_EQ(parse_time(text).error().code, Code::kOutOfRange) << text;
  }
}

RC_GTEST_PROP(ParseTime, IsTheInverseOfFormatExactTime, (std::int64_t ns)) {
  const Instant time{nanoseconds{ns}};
  RC_ASSERT(*parse_time(format_exact_time(time)) == time);
}

RC_GTEST_PROP(ParseTime, AtReadsSecondsAndMilliseconds, ()) {
  const auto s = *rc::gen::inRange<std::int64_t>(-9'223'372'036, 9'223'372'037);
  RC_ASSERT(*parse_time("@" + std::to_string(s)) == Instant{std::chrono::seconds{s}});
  const auto ms = *rc::gen::inRange<std::int64_t>(-9'223'372'036'854, 9'223'372'036'855);
  RC_ASSERT(*parse_time("@" + std::to_string(ms) + "ms") == Instant{std::chrono::milliseconds{ms}});
}

RC_GTEST_PROP(ParseTime, AnOffsetShiftsIt, ()) {
  const Instant time = kNewYear + std::chrono::seconds{*rc::gen::inRange(0, 1'000'000'000)};
  const int minutes = *rc::gen::inRange(-1439, 1440);
  std::string local = format_exact_time(time + std::chrono::minutes{minutes});
  local.pop_back();
  char offset[8];
  std::snprintf(offset, sizeof offset, "%c%02d:%02d", minutes < 0 ? '-' : '+',
                std::abs(minutes) / 60 % 24, std::abs(minutes) % 60);
  RC_ASSERT(*parse_time(local + offset) == time);
}

}  // namespace
}  // namespace idmint
