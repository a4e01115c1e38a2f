#include "restore/timestamp.h"

#include <charconv>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <system_error>

#include "base/errors.h"
#include "base/shell.h"
#include "idmint/clock.h"

namespace idmint::restore {
namespace {

bool parse_whole(std::string_view text, std::uint32_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

Result<Timestamp> parse_timestamp(std::string_view text) {
  const std::size_t colon = text.find(':');
  Timestamp parsed;
  if (colon == std::string_view::npos || !parse_whole(text.substr(0, colon), parsed.seconds) ||
      !parse_whole(text.substr(colon + 1), parsed.ordinal) || parsed == Timestamp{}) {
    return fail(Code::kInvalidArgument,
                shell_word(text) +
                    " is no timestamp of an oplog: give SECONDS:ORDINAL, such as "
                    "1795230181:16, as find prints it");
  }
  return parsed;
}

Result<Timestamp> parse_moment(std::string_view text) {
  if (Result<Timestamp> timestamp = parse_timestamp(text)) return timestamp;
  const Result<Instant> time = parse_time(text);
  const std::int64_t seconds =
      time ? std::chrono::floor<std::chrono::seconds>(time->time_since_epoch()).count() : 0;
  if (seconds <= 0 || seconds > UINT32_MAX)
    return fail(Code::kInvalidArgument,
                shell_word(text) +
                    " is no moment of an oplog: give SECONDS:ORDINAL, such as "
                    "1795230181:16, or a time, such as 2026-11-22T09:15:01Z");
  return Timestamp{.seconds = static_cast<std::uint32_t>(seconds), .ordinal = 0};
}

std::string print_timestamp(Timestamp timestamp) {
  return std::to_string(timestamp.seconds) + ":" + std::to_string(timestamp.ordinal);
}

std::string print_seconds(Timestamp timestamp) {
  const std::time_t seconds = timestamp.seconds;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char text[sizeof "2106-02-07T06:28:15Z"];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace idmint::restore
