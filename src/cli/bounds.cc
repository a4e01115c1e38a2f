// bounds: the smallest and the largest id of an instant or a span of time.
#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <string_view>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/source_options.h"
#include "idmint/clock.h"
#include "idmint/id.h"
#include "idmint/uuid_time.h"

namespace idmint::cli {

namespace {

Result<SnowflakeLayout> layout_of(const Arguments& arguments) {
  const std::string& text = arguments.ids.layout;
  return text.empty() ? snowflake_presets().front().layout : layout_option(text);
}

template <auto BoundsOf>
Result<Bounds<Id>> of_format(Instant at, const Arguments&) {
  const auto bounds = BoundsOf(at);
  if (!bounds) return std::unexpected(bounds.error());
  return Bounds<Id>{bounds->smallest, bounds->largest};
}

Result<Bounds<Id>> of_uuid6(Instant at, const Arguments&) {
  const Bounds<Uuid> bounds = uuid6_bounds(at);
  return Bounds<Id>{bounds.smallest, bounds.largest};
}

Result<Bounds<Id>> of_snowflake(Instant at, const Arguments& arguments) {
  const Result<SnowflakeLayout> layout = layout_of(arguments);
  if (!layout) return std::unexpected(layout.error());
  const Result<Bounds<Snowflake>> bounds = layout->bounds(at);
  // Of the command line it is what is wrong.
  if (!bounds) return std::unexpected(Error{Code::kInvalidArgument, bounds.error().message});
  return Bounds<Id>{bounds->smallest, bounds->largest};
}

struct Timed {
  std::string_view format;
  Result<Bounds<Id>> (*bounds)(Instant at, const Arguments& arguments);
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
    Untimed{"typeid", "its prefix comes first; ask for uuid7, and convert both with --to typeid"},
};

Error no_bounds(std::string_view format) {
  std::string names;
  for (const Timed& row : kTimed) names += (names.empty() ? "" : ", ") + std::string(row.format);
  for (const Untimed& row : kUntimed) {
    if (row.format != format) continue;
    return {Code::kInvalidArgument, "the ids of a time cannot be told in " + std::string(format) +
                                        ": " + std::string(row.why) +
                                        "; formats in order of "
                                        "time: " +
                                        names};
  }
  return {Code::kInvalidArgument,
          "\"" + shortened(format) + "\" is not a format in order of time: give one of " + names};
}

}  // namespace

Result<void> run_bounds(Context& context) {
  const Arguments& arguments = context.arguments;
  const auto* const row = std::ranges::find(kTimed, arguments.name, &Timed::format);
  if (row == kTimed.end()) return std::unexpected(no_bounds(arguments.name));
  if (!arguments.ids.layout.empty() && row->format != "snowflake") {
    return std::unexpected(
        Error{Code::kInvalidArgument, "--layout is for snowflake only: leave it out"});
  }
  const Result<Instant> at = time_option("--at", arguments.ids.at);
  if (!at) return std::unexpected(at.error());
  Result<Bounds<Id>> bounds = row->bounds(*at, arguments);
  if (!bounds) return std::unexpected(bounds.error());
  if (!arguments.ids.until.empty()) {
    const Result<Instant> until = time_option("--until", arguments.ids.until);
    if (!until) return std::unexpected(until.error());
    if (*until <= *at) {
      return std::unexpected(
          Error{Code::kInvalidArgument, "--until is not after --at: the span from " +
                                            format_exact_time(*at) + " to " +
                                            format_exact_time(*until) + " is empty"});
    }
    const Result<Bounds<Id>> last = row->bounds(*until - std::chrono::nanoseconds{1}, arguments);
    if (!last) return std::unexpected(last.error());
    bounds->largest = last->largest;
  }
  const std::string smallest = to_string(bounds->smallest);
  const std::string largest = to_string(bounds->largest);
  context.out.write(arguments.json ? json_bounds(row->format, smallest, largest) + "\n"
                                   : smallest + "\n" + largest + "\n");
  return {};
}

}  // namespace idmint::cli
