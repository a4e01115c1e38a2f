#include "base/quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>

namespace idmint {

namespace {

std::unexpected<Error> not_a(std::string_view text, std::string_view wanted) {
  std::string shown;
  for (const char c : text.substr(0, 40)) shown += c >= ' ' && c < 0x7f ? c : '?';
  return std::unexpected(
      Error{Code::kInvalidArgument,
            "\"" + shown + (text.size() > 40 ? "..." : "") + "\" is not " + std::string(wanted)});
}

struct Unit {
  std::string_view name;
  double size;
};

constexpr std::array kMultiples = {Unit{"", 1},    Unit{"k", 1e3}, Unit{"K", 1e3},
                                   Unit{"M", 1e6}, Unit{"G", 1e9}, Unit{"T", 1e12}};
constexpr std::array kPerTime = {Unit{"/s", 1}, Unit{"/min", 60}, Unit{"/h", 3600},
                                 Unit{"/d", 86'400}};
constexpr std::array kTimes = {Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3}, Unit{"s", 1},
                               Unit{"min", 60},  Unit{"h", 3600},  Unit{"d", 86'400}};

std::optional<double> size_of(std::span<const Unit> units, std::string_view name) {
  const auto found = std::ranges::find(units, name, &Unit::name);
  if (found == units.end()) return std::nullopt;
  return found->size;
}

// Takes the number at the start of `text`: 12, 1_000, 2.5, 1e9, 10^9.
std::optional<double> take_number(std::string_view& text) {
  std::string plain;
  std::size_t end = 0;
  while (end < text.size() && ((text[end] >= '0' && text[end] <= '9') || text[end] == '.' ||
                               (text[end] == '_' && end != 0))) {
    if (text[end] != '_') plain += text[end];
    ++end;
  }
  if (plain.empty() || plain.front() == '.' || plain.back() == '.') return std::nullopt;
  const bool scientific = end + 1 < text.size() && (text[end] == 'e' || text[end] == 'E');
  const bool power = end + 1 < text.size() && text[end] == '^';
  double exponent = 0;
  if (scientific || power) {
    std::size_t from = end + 1;
    if (scientific && text[from] == '+') ++from;
    const char* const stop = text.data() + text.size();
    unsigned value = 0;
    const auto [at, why] = std::from_chars(text.data() + from, stop, value);
    if (why != std::errc{} || value > 400) return std::nullopt;
    end = static_cast<std::size_t>(at - text.data());
    exponent = value;
    if (scientific) plain += "e" + std::to_string(value);
  }
  double number = 0;
  const auto [at, why] = std::from_chars(plain.data(), plain.data() + plain.size(), number);
  if (why != std::errc{} || at != plain.data() + plain.size()) return std::nullopt;
  text.remove_prefix(end);
  return power ? std::pow(number, exponent) : number;
}

std::string_view without_blank(std::string_view text) {
  if (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return text;
}

}  // namespace

Result<double> parse_count(std::string_view text) {
  constexpr std::string_view wanted =
      "a whole number from 1 to 1e36: give one such as 1000, 50k, 2M, 1e9 or 10^9";
  std::string_view rest = text;
  const std::optional<double> number = take_number(rest);
  const std::optional<double> multiple = size_of(kMultiples, rest);
  if (!number || !multiple) return not_a(text, wanted);
  const double count = *number * *multiple;
  // 1e36 lies between two doubles; the nearer one is a little above it.
  if (!(count >= 1 && count <= 1e36) || std::floor(count) != count) return not_a(text, wanted);
  return count;
}

Result<double> parse_rate(std::string_view text) {
  constexpr std::string_view wanted =
      "a rate from 1 in a year to 1e15/s: give one such as 200/s, 50k/s, 100/min, 2M/h or 1e6/d";
  std::string_view rest = text;
  const std::optional<double> number = take_number(rest);
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::optional<double> multiple = size_of(kMultiples, rest.substr(0, slash));
  const std::optional<double> time = size_of(kPerTime, rest.substr(slash));
  if (!number || !multiple || !time) return not_a(text, wanted);
  const double rate = *number * *multiple / *time;
  if (!(rate >= 3e-8 && rate <= 1e15)) return not_a(text, wanted);
  return rate;
}

Result<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  constexpr std::string_view wanted =
      "a time up to 100 years: give one such as 500us, 25ms, 10s, 5min, 12h or 90d";
  std::string_view rest = text;
  const std::optional<double> number = take_number(rest);
  const std::optional<double> unit = size_of(kTimes, without_blank(rest));
  if (!number || !unit) return not_a(text, wanted);
  const double seconds = *number * *unit;
  if (!(seconds >= 0 && seconds <= 100 * 365.25 * 86'400)) return not_a(text, wanted);
  return std::chrono::nanoseconds{std::llround(seconds * 1e9)};
}

Result<double> parse_percent(std::string_view text) {
  constexpr std::string_view wanted = "a part of the whole: give one from 0% to 100%, such as 10%";
  std::string_view rest = text;
  const std::optional<double> number = take_number(rest);
  if (!number || without_blank(rest) != "%" || !(*number >= 0 && *number <= 100)) {
    return not_a(text, wanted);
  }
  return *number / 100;
}

std::string print_rate(double per_second) {
  for (const Unit& unit : kPerTime) {
    const double rate = per_second * unit.size;
    if (rate >= 1 || unit.name == "/d") {
      return (rate >= 1000 ? print_count(rate) : rounded(rate, 3)) + std::string(unit.name);
    }
  }
  return {};
}

std::string print_odds(double odds) {
  if (odds <= 0) return "none";
  if (odds >= 1) return "certain";
  if (odds >= 0.0005) return print_percent(odds);
  const double against = 1 / odds;
  return "1 in " + (against < 1e6 ? print_count(std::round(against)) : rounded(against, 2));
}

std::string print_percent(double fraction) {
  const double percent = fraction * 100;
  if (percent > 99 && percent < 100) {  // never rounds up to 100
    return rounded(std::floor(percent * 1000) / 1000, 5) + " %";
  }
  return rounded(percent, percent < 1 ? 2 : 3) + " %";
}

std::string print_part(double fraction) {
  return fraction > 0 && fraction < 0.001 ? "< 0.1 %" : print_percent(fraction);
}

}  // namespace idmint
