// bounds: the smallest and the largest id of an instant or a span of time.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <string_view>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/source_options.h"
#include "idmint/clock.h"
#include "idmint/id.h"
#include "idmint/uuid_time.h"

namespace idmint::cli {

namespace {

// As given; empty: not given.
struct BoundsOptions {
  std::string format;
  std::string at;
  std::string until;
  std::string layout;
} bounds_options;

void add_bounds(CLI::App& command) {
  command
      .add_option("FORMAT", bounds_options.format,
                  "uuid6, uuid7, ulid, object-id, object-id-classic, ksuid, xid, snowflake")
      ->required()
      ->type_name("");
  command.add_option("--at", bounds_options.at, "The instant, or the beginning of the span")
      ->required()
      ->type_name("TIME");
  command
      .add_option("--until", bounds_options.until, "The end of the span, which is not part of it")
      ->type_name("TIME");
  command.add_option("--layout", bounds_options.layout, "Of snowflake (sequence-generator)")
      ->type_name("L");
}

Result<SnowflakeLayout> layout_of(const BoundsOptions& given) {
  const std::string& text = given.layout;
  return text.empty() ? snowflake_presets().front().layout : layout_option(text);
}

template <auto BoundsOf>
Result<Bounds<Id>> of_format(Instant at, const BoundsOptions&) {
  const auto bounds = BoundsOf(at);
  if (!bounds) return std::unexpected(bounds.error());
  return Bounds<Id>{bounds->smallest, bounds->largest};
}

Result<Bounds<Id>> of_uuid6(Instant at, const BoundsOptions&) {
  const Bounds<Uuid> bounds = uuid6_bounds(at);
  return Bounds<Id>{bounds.smallest, bounds.largest};
}

Result<Bounds<Id>> of_snowflake(Instant at, const BoundsOptions& given) {
  const Result<SnowflakeLayout> layout = layout_of(given);
  if (!layout) return std::unexpected(layout.error());
  const Result<Bounds<Snowflake>> bounds = layout->bounds(at);
  // Of the command line it is what is wrong.
  if (!bounds) return std::unexpected(Error{Code::kInvalidArgument, bounds.error().message});
  return Bounds<Id>{bounds->smallest, bounds->largest};
}

struct Timed {
  std::string_view format;
  Result<Bounds<Id>> (*bounds)(Instant at, const BoundsOptions& given);
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

Result<void> run_bounds(Context& context) {
  const BoundsOptions& given = bounds_options;
  const auto* const row = std::ranges::find(kTimed, given.format, &Timed::format);
  if (row == kTimed.end()) return std::unexpected(no_bounds(given.format));
  if (!given.layout.empty() && row->format != "snowflake") {
    return std::unexpected(
        Error{Code::kInvalidArgument, "--layout is for snowflake only: leave it out"});
  }
  const Result<Instant> at = time_option("--at", given.at);
  if (!at) return std::unexpected(at.error());
  Result<Bounds<Id>> bounds = row->bounds(*at, given);
  if (!bounds) return std::unexpected(bounds.error());
  if (!given.until.empty()) {
    const Result<Instant> until = time_option("--until", given.until);
    if (!until) return std::unexpected(until.error());
    if (*until <= *at) {
      return std::unexpected(
          Error{Code::kInvalidArgument, "--until is not after --at: the span from " +
                                            format_exact_time(*at) + " to " +
                                            format_exact_time(*until) + " is empty"});
    }
    const Result<Bounds<Id>> last = row->bounds(*until - std::chrono::nanoseconds{1}, given);
    if (!last) return std::unexpected(last.error());
    bounds->largest = last->largest;
  }
  const std::string smallest = to_string(bounds->smallest);
  const std::string largest = to_string(bounds->largest);
  context.out.write(context.json ? json_bounds(row->format, smallest, largest) + "\n"
                                 : smallest + "\n" + largest + "\n");
  return {};
}

}  // namespace

const Command kBounds = {
    "bounds", "Print the smallest and the largest id of a time", add_bounds, run_bounds,
    R"(Two lines, both ends included, for range queries on a column of ids, without an
index on a time. --until TIME makes it a span, which ends before that time.
Times: 2026-01-01, 2026-01-01T08:30:00.5+01:00, @1767225600 (seconds),
@1767225600000ms.

Examples:
  $ idmint bounds uuid7 --at 2026-01-01T00:00:00Z
  $ idmint bounds object-id --at 2026-01-01 --until 2026-02-01
  $ idmint bounds snowflake --layout discord --at 2026-01-01 --json

All orders of January 2026, by their key alone:
  $ set -- $(idmint bounds uuid7 --at 2026-01-01 --until 2026-02-01)
  $ psql -c "SELECT count(*) FROM orders WHERE id BETWEEN '$1' AND '$2'"
)"};

}  // namespace idmint::cli
