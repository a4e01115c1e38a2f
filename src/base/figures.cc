#include "base/figures.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string_view>

namespace idmint {

std::string rounded(double value, int digits) {
  std::array<char, 64> text{};
  const auto [end, why] = std::to_chars(text.data(), text.data() + text.size(), value,
                                        std::chars_format::general, digits);
  return why == std::errc{} ? std::string(text.data(), end) : "?";
}

std::string print_count(double count) {
  if (!(count < 1e15)) return std::isfinite(count) ? rounded(count, 3) : "no end of";
  if (count < 1000 && std::floor(count) != count) return rounded(count, 3);
  const std::string digits = std::to_string(std::llround(count));
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string print_count(std::uint64_t count, std::string_view one, std::string_view many) {
  std::string text = print_count(static_cast<double>(count)) + " ";
  if (count == 1 || many.empty()) return text.append(one).append(count == 1 ? "" : "s");
  return text.append(many);
}

std::string print_duration(double seconds) {
  if (!std::isfinite(seconds)) return "never";
  constexpr double year = 365.25 * 86'400;
  if (seconds >= 10 * year) return print_count(std::floor(seconds / year)) + " years";
  struct Step {
    std::string_view name;
    double size;
    std::string_view next;
    double next_size;
  };
  constexpr std::array steps = {Step{" years", year, " d", 86'400}, Step{" d", 86'400, " h", 3600},
                                Step{" h", 3600, " min", 60}, Step{" min", 60, " s", 1}};
  for (const Step& step : steps) {
    if (seconds < step.size * (step.size == year ? 2 : 1)) continue;
    const double whole = std::floor(seconds / step.size);
    const double rest = std::floor((seconds - whole * step.size) / step.next_size);
    return print_count(whole) + std::string(step.name) +
           (rest == 0 ? "" : " " + print_count(rest) + std::string(step.next));
  }
  if (seconds >= 1 || seconds == 0) return rounded(seconds, 3) + " s";
  if (seconds >= 1e-3) return rounded(seconds * 1e3, 3) + " ms";
  if (seconds >= 1e-6) return rounded(seconds * 1e6, 3) + " us";
  return rounded(seconds * 1e9, 3) + " ns";
}

}  // namespace idmint
