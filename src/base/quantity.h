// Quantities in human notation, parsed and printed: 1e9, 50k/s, 10 %, 90d. Counts and durations are
// printed by base/figures.h, which the library's messages use too.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/figures.h"
#include "idmint/result.h"

namespace idmint {

// A count: 1000, 1_000, 1e9, 10^9, 50k, 2.5M, 1G, 1T; a whole number from 1 to 1e36.
// kInvalidArgument, here and below: another text; the message says what is accepted.
[[nodiscard]] Result<double> parse_count(std::string_view text);
// A rate per second: a count, possibly with a fraction, then /s, /min, /h or /d: 50k/s, 2M/h. From
// one in a year to 1e15/s.
[[nodiscard]] Result<double> parse_rate(std::string_view text);
// A duration: 500us, 25ms, 10s, 5min, 12h, 90d, up to 100 years.
[[nodiscard]] Result<std::chrono::nanoseconds> parse_duration(std::string_view text);
// A fraction, 0 to 1: 10%, 0.1 %.
[[nodiscard]] Result<double> parse_percent(std::string_view text);

// "50,000/s", "2.5/h".
[[nodiscard]] std::string print_rate(double per_second);
// "1 in 1.9e+18"; in percent from 0.05 % up; "none" and "certain" at the ends.
[[nodiscard]] std::string print_odds(double odds);
// "0.1 %"; never rounds up to 100.
[[nodiscard]] std::string print_percent(double fraction);
// The same with one decimal for small fractions: "0 %", "< 0.1 %".
[[nodiscard]] std::string print_part(double fraction);

}  // namespace idmint
