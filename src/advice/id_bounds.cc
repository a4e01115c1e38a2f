#include "advice/id_bounds.h"

#include <array>
#include <chrono>
#include <utility>

#include "base/errors.h"
#include "base/text.h"
#include "idmint/clock.h"
#include "idmint/snowflake.h"
#include "ids/format.h"

namespace idmint::advice {

namespace {

struct Asked {
  const BoundsTexts& texts;
  Words words;
};

Result<SnowflakeLayout> layout_asked(const Asked& given) {
  const std::string& text = given.texts.layout;
  return text.empty() ? snowflake_presets().front().layout
                      : layout_option(spelled(given.words, "layout"), text);
}

struct Untimed {
  std::string_view format;
  std::string_view why;
};
// Formats that nothing mints.
constexpr std::array kUntimed = {
    Untimed{"uuid3", kNoTimeInIt},
    Untimed{"uuid5", kNoTimeInIt},
    Untimed{"uuid8", "what its bits mean is up to who made it"},
};

std::unexpected<Error> no_bounds(std::string_view name) {
  const Format* const format = find_format(name);
  std::string_view why = format != nullptr ? format->unbounded : std::string_view{};
  for (const Untimed& row : kUntimed) {
    if (row.format == name) why = row.why;
  }
  if (!why.empty()) {
    return refuse("the ids of a time cannot be told in " + std::string(name) + ": " +
                  std::string(why) + "; formats in order of time: " + formats_in_order_of_time());
  }
  return refuse("\"" + shortened(name) + "\" is not a format in order of time: give one of " +
                formats_in_order_of_time());
}

}  // namespace

std::string formats_in_order_of_time() {
  std::string names;
  for (const Format* const format : formats()) {
    if (format->bounds != nullptr) (names += names.empty() ? "" : ", ") += format->name;
  }
  return names;
}

Result<Bounds<Id>> id_bounds(const BoundsTexts& texts, Words words) {
  const Asked given{texts, words};
  const auto option = [words](std::string_view its_name) { return spelled(words, its_name); };
  const Format* const format = find_format(texts.format);
  if (format == nullptr || format->bounds == nullptr) return no_bounds(texts.format);
  if (!texts.layout.empty() && format->name != "snowflake")
    return refuse(option("layout") + " is for snowflake only: leave it out");
  const Result<Instant> at = time_option(option("at"), texts.at);
  if (!at) return std::unexpected(at.error());
  const Result<SnowflakeLayout> layout = layout_asked(given);
  if (!layout) return std::unexpected(layout.error());
  Result<Bounds<Id>> bounds = format->bounds(*at, *layout);
  if (!bounds || texts.until.empty()) return bounds;
  const Result<Instant> until = time_option(option("until"), texts.until);
  if (!until) return std::unexpected(until.error());
  if (*until <= *at) {
    return refuse(option("until") + " is not after " + option("at") + ": the span from " +
                  format_exact_time(*at) + " to " + format_exact_time(*until) + " is empty");
  }
  Result<Bounds<Id>> last = format->bounds(*until - std::chrono::nanoseconds{1}, *layout);
  if (last) last->smallest = bounds->smallest;
  return last;
}

}  // namespace idmint::advice
