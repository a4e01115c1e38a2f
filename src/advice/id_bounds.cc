#include "advice/id_bounds.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "base/errors.h"
#include "base/text.h"
#include "idmint/clock.h"
#include "idmint/snowflake.h"
#include "idmint/uuid_time.h"

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

template <auto BoundsOf>
Result<Bounds<Id>> of_format(Instant at, const Asked& /*given*/) {
  const auto bounds = BoundsOf(at);
  if (!bounds) return std::unexpected(bounds.error());
  return Bounds<Id>{bounds->smallest, bounds->largest};
}

Result<Bounds<Id>> of_uuid6(Instant at, const Asked& /*given*/) {
  const Bounds<Uuid> bounds = uuid6_bounds(at);
  return Bounds<Id>{bounds.smallest, bounds.largest};
}

Result<Bounds<Id>> of_snowflake(Instant at, const Asked& given) {
  const Result<SnowflakeLayout> layout = layout_asked(given);
  if (!layout) return std::unexpected(layout.error());
  const Result<Bounds<Snowflake>> bounds = layout->bounds(at);
  // The time is the argument that is wrong.
  if (!bounds) return refuse(bounds.error().message());
  return Bounds<Id>{bounds->smallest, bounds->largest};
}

struct Timed {
  std::string_view format;
  Result<Bounds<Id>> (*bounds)(Instant at, const Asked& given);
};
constexpr std::array kTimed = {
    Timed{"uuid6", of_uuid6},
    Timed{"uuid7", of_format<uuid7_bounds>},
    Timed{"ulid", of_format<ulid_bounds>},
    Timed{"object-id", of_format<object_id_bounds>},
    Timed{"object-id-classic", of_format<object_id_bounds>},
    Timed{"ksuid", of_format<ksuid_bounds>},
    Timed{"xid", of_format<xid_bounds>},
    Timed{"snowflake", of_snowflake},
};

struct Untimed {
  std::string_view format;
  std::string_view why;
};
constexpr std::string_view kScattered =
    "the fast bits of its time come first, so that the ids of a span do not lie together";
constexpr std::string_view kNoTime = "there is no time in it";
constexpr std::array kUntimed = {
    Untimed{"uuid1", kScattered},
    Untimed{"uuid2", kScattered},
    Untimed{"uuid3", kNoTime},
    Untimed{"uuid4", kNoTime},
    Untimed{"uuid5", kNoTime},
    Untimed{"uuid8", "what its bits mean is up to who made it"},
    Untimed{"digits", kNoTime},
    Untimed{"typeid", "its prefix comes first; ask for uuid7, and convert both to typeid"},
};

std::unexpected<Error> no_bounds(std::string_view format) {
  std::string names;
  for (const Timed& row : kTimed) names += (names.empty() ? "" : ", ") + std::string(row.format);
  for (const Untimed& row : kUntimed) {
    if (row.format != format) continue;
    return refuse("the ids of a time cannot be told in " + std::string(format) + ": " +
                  std::string(row.why) + "; formats in order of time: " + names);
  }
  return refuse("\"" + shortened(format) + "\" is not a format in order of time: give one of " +
                names);
}

}  // namespace

Result<Bounds<Id>> id_bounds(const BoundsTexts& texts, Words words) {
  const Asked given{texts, words};
  const auto option = [words](std::string_view its_name) { return spelled(words, its_name); };
  const auto* const row = std::ranges::find(kTimed, texts.format, &Timed::format);
  if (row == kTimed.end()) return no_bounds(texts.format);
  if (!texts.layout.empty() && row->format != "snowflake")
    return refuse(option("layout") + " is for snowflake only: leave it out");
  const Result<Instant> at = time_option(option("at"), texts.at);
  if (!at) return std::unexpected(at.error());
  Result<Bounds<Id>> bounds = row->bounds(*at, given);
  if (!bounds || texts.until.empty()) return bounds;
  const Result<Instant> until = time_option(option("until"), texts.until);
  if (!until) return std::unexpected(until.error());
  if (*until <= *at) {
    return refuse(option("until") + " is not after " + option("at") + ": the span from " +
                  format_exact_time(*at) + " to " + format_exact_time(*until) + " is empty");
  }
  Result<Bounds<Id>> last = row->bounds(*until - std::chrono::nanoseconds{1}, given);
  if (last) last->smallest = bounds->smallest;
  return last;
}

}  // namespace idmint::advice
