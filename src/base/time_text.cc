#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/print.h"
#include "idmint/clock.h"

namespace idmint {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

Error no_time(std::string_view why) {
  return {Code::kInvalidArgument,
          "not a time: " + std::string(why) +
              "; give one like 2026-01-01, 2026-01-01T08:30:00Z, 2026-01-01T08:30:00.5+01:00, "
              "@1767225600 or @1767225600000ms"};
}

// The rest of the text. Each take...() removes a match from its start, or nothing.
class Rest {
 public:
  explicit Rest(std::string_view text) : text_(text) {}

  [[nodiscard]] bool empty() const { return text_.empty(); }
  [[nodiscard]] bool begins_with_digit() const {
    return !text_.empty() && text_.front() >= '0' && text_.front() <= '9';
  }

  // Takes the next character if it is one of these; 0: it is not.
  char take_one_of(std::string_view characters) {
    if (text_.empty() || characters.find(text_.front()) == std::string_view::npos) return 0;
    const char taken = text_.front();
    text_.remove_prefix(1);
    return taken;
  }

  bool take(std::string_view word) {
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }

  // Takes exactly `count` digits, at most 18.
  std::optional<std::int64_t> take_digits(std::size_t count) {
    if (digits() < count) return std::nullopt;
    return take_number(count);
  }

  // REQUIRES: count <= digits() and count <= 18.
  std::int64_t take_number(std::size_t count) {
    std::int64_t value = 0;
    for (const char c : text_.substr(0, count)) value = value * 10 + (c - '0');
    text_.remove_prefix(count);
    return value;
  }

  [[nodiscard]] std::size_t digits() const {
    return std::min(text_.find_first_not_of("0123456789"), text_.size());
  }

 private:
  std::string_view text_;
};

Result<Instant> instant(std::int64_t seconds, std::int64_t ns) {
  if (seconds < 0 && ns > 0) {  // so that the product stays above the first instant
    ++seconds;
    ns -= kSecond;
  }
  std::int64_t count = 0;
  if (__builtin_mul_overflow(seconds, kSecond, &count) ||
      __builtin_add_overflow(count, ns, &count)) {
    return std::unexpected(Error{Code::kOutOfRange,
                                 "the time lies outside 1677-09-21T00:12:43.145224192Z to "
                                 "2262-04-11T23:47:16.854775807Z: give one between"});
  }
  return Instant{std::chrono::nanoseconds{count}};
}

// The part after the @.
Result<Instant> since_1970(Rest rest) {
  const bool before = rest.take("-");
  const std::size_t digits = rest.digits();
  if (digits == 0) return std::unexpected(no_time("after @ there are no digits"));
  if (digits > 18) return std::unexpected(no_time("after @ there are more than 18 digits"));
  const std::int64_t magnitude = rest.take_number(digits);
  const std::int64_t value = before ? -magnitude : magnitude;
  if (rest.empty()) return instant(value, 0);
  if (!rest.take("ms") || !rest.empty()) {
    return std::unexpected(no_time("after the digits there is something else than ms"));
  }
  return instant(value / 1000, value % 1000 * 1'000'000);
}

// In nanoseconds; 0 without a fraction.
Result<std::int64_t> take_fraction(Rest& rest) {
  if (!rest.take(".")) return 0;
  const std::size_t digits = rest.digits();
  if (digits == 0 || digits > 9) {
    return std::unexpected(no_time("the fraction of a second has 1 to 9 digits"));
  }
  std::int64_t value = rest.take_number(digits);
  for (std::size_t i = digits; i < 9; ++i) value *= 10;
  return value;
}

// The seconds by which local time is ahead of UTC.
Result<std::int64_t> take_offset(Rest& rest) {
  if (rest.take_one_of("Zz") != 0) return 0;
  const char sign = rest.take_one_of("+-");
  if (sign == 0) {
    return std::unexpected(no_time("after the time of day there must be Z or an offset"));
  }
  const std::optional<std::int64_t> hours = rest.take_digits(2);
  const bool more = rest.take(":") || rest.begins_with_digit();
  const std::optional<std::int64_t> minutes = more ? rest.take_digits(2) : 0;
  if (!hours || !minutes || *hours > 23 || *minutes > 59) {
    return std::unexpected(no_time("the offset is not one of -23:59 to +23:59"));
  }
  const std::int64_t seconds = *hours * 3600 + *minutes * 60;
  return sign == '-' ? -seconds : seconds;
}

constexpr std::size_t kMaxTimeChars = 30;  // with nine digits of a fraction

template <int Digits>
char* put(std::uint32_t value, char after, char* out) noexcept {
  for (int i = Digits; i-- != 0; value /= 10) out[i] = static_cast<char>('0' + value % 10);
  out[Digits] = after;
  return out + Digits + 1;
}

// Prints with that many fraction digits.
template <int FractionDigits>
char* print(Instant time, char* out) noexcept {
  using namespace std::chrono;
  // In seconds, because nanoseconds cannot express the start of the day of the first Instant.
  const auto whole = floor<seconds>(time);
  const auto day = floor<days>(whole);
  const year_month_day date{day};
  const auto of_day = static_cast<std::uint32_t>((whole - day).count());
  const std::int64_t begun =  // the nanosecond of the second; wraps past the first instant and back
      static_cast<std::int64_t>(static_cast<std::uint64_t>(time.time_since_epoch().count()) -
                                static_cast<std::uint64_t>(whole.time_since_epoch().count()) *
                                    static_cast<std::uint64_t>(kSecond));
  constexpr std::uint32_t unit = FractionDigits == 3 ? 1'000'000 : 1;
  static_assert(FractionDigits == 3 || FractionDigits == 9);
  out = put<4>(static_cast<std::uint32_t>(static_cast<int>(date.year())), '-', out);
  out = put<2>(static_cast<unsigned>(date.month()), '-', out);
  out = put<2>(static_cast<unsigned>(date.day()), 'T', out);
  out = put<2>(of_day / 3600, ':', out);
  out = put<2>(of_day / 60 % 60, ':', out);
  out = put<2>(of_day % 60, '.', out);
  return put<FractionDigits>(static_cast<std::uint32_t>(begun) / unit, 'Z', out);
}

}  // namespace

char* detail::print_time(Instant time, char* out) noexcept { return print<3>(time, out); }

std::string format_time(Instant time) {
  char text[detail::kTimeChars];
  return {text, detail::print_time(time, text)};
}

std::string format_exact_time(Instant time) {
  char text[kMaxTimeChars];
  std::string exact(text, print<9>(time, text));
  exact.pop_back();
  exact.erase(exact.find_last_not_of('0') + 1);
  if (exact.back() == '.') exact.pop_back();
  return exact + 'Z';
}

Result<Instant> parse_time(std::string_view text) {
  using namespace std::chrono;
  Rest rest(text);
  if (rest.take("@")) return since_1970(rest);
  const std::optional<std::int64_t> y = rest.take_digits(4);
  const bool year_ended = rest.take("-");
  const std::optional<std::int64_t> m = rest.take_digits(2);
  const bool month_ended = rest.take("-");
  const std::optional<std::int64_t> d = rest.take_digits(2);
  if (!y || !year_ended || !m || !month_ended || !d) {
    return std::unexpected(no_time("it begins neither with a date, year-month-day, nor with @"));
  }
  const year_month_day date{year{static_cast<int>(*y)}, month{static_cast<unsigned>(*m)},
                            day{static_cast<unsigned>(*d)}};
  if (!date.ok()) return std::unexpected(no_time("there is no such day"));
  const std::int64_t midnight = seconds{sys_days{date}.time_since_epoch()}.count();
  if (rest.empty()) return instant(midnight, 0);

  if (rest.take_one_of("Tt ") == 0) {
    return std::unexpected(no_time("after the date there is something else than T"));
  }
  const std::optional<std::int64_t> hour = rest.take_digits(2);
  const bool hour_ended = rest.take(":");
  const std::optional<std::int64_t> minute = rest.take_digits(2);
  const bool minute_ended = rest.take(":");
  const std::optional<std::int64_t> second = minute_ended ? rest.take_digits(2) : 0;
  if (!hour || !hour_ended || !minute || !second) {
    return std::unexpected(no_time("after the date there is no time of day, hh:mm:ss"));
  }
  if (*hour > 23 || *minute > 59 || *second > 59) {
    return std::unexpected(no_time("the time of day is not one of 00:00:00 to 23:59:59"));
  }
  Result<std::int64_t> ns = 0;
  if (minute_ended) ns = take_fraction(rest);
  if (!ns) return std::unexpected(std::move(ns.error()));
  Result<std::int64_t> offset = take_offset(rest);
  if (!offset) return std::unexpected(std::move(offset.error()));
  if (!rest.empty()) return std::unexpected(no_time("after its end there is something else"));
  return instant(midnight + *hour * 3600 + *minute * 60 + *second - *offset, *ns);
}

}  // namespace idmint
