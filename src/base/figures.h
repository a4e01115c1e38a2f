// Figures that people can read, for messages, tables and reports.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace idmint {

// So many significant digits, as 1.2e+20 where it is large.
[[nodiscard]] std::string rounded(double value, int digits);
// Whole numbers below 10^15 in full and in threes (1,000,000), others as 1.2e+20.
[[nodiscard]] std::string print_count(double count);
// "1 entry", "2,000 entries". `many` is the plural; empty: `one` and an s.
[[nodiscard]] std::string print_count(std::uint64_t count, std::string_view one,
                                      std::string_view many = {});
// Of a second or more in two units, "231 d 11 h"; "never" for what is not finite, and years alone
// beyond ten of them.
[[nodiscard]] std::string print_duration(double seconds);
[[nodiscard]] inline std::string print_duration(std::chrono::duration<double> time) {
  return print_duration(time.count());
}

}  // namespace idmint
