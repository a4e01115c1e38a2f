// Human-readable figures for messages, tables and reports.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace idmint {

// The value with `digits` significant digits; large values as 1.2e+20.
[[nodiscard]] std::string rounded(double value, int digits);
// Whole numbers below 10^15 in full with separators (1,000,000), others as 1.2e+20.
[[nodiscard]] std::string print_count(double count);
// "1 entry", "2,000 entries". `many` is the plural; empty: `one` with an s.
[[nodiscard]] std::string print_count(std::uint64_t count, std::string_view one,
                                      std::string_view many = {});
// Two units for a second or more, "231 d 11 h"; years alone from ten years up; "never" if not
// finite.
[[nodiscard]] std::string print_duration(double seconds);
[[nodiscard]] inline std::string print_duration(std::chrono::duration<double> time) {
  return print_duration(time.count());
}

}  // namespace idmint
