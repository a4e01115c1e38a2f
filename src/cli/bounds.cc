// bounds: the smallest and the largest id of an instant or a span of time.
#include <CLI/CLI.hpp>
#include <string>

#include "advice/id_bounds.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "idmint/id.h"

namespace idmint::cli {

namespace {

void add_bounds(CLI::App& command, advice::BoundsTexts& given) {
  command.add_option("FORMAT", given.format, advice::formats_in_order_of_time())
      ->required()
      ->type_name("");
  command.add_option("--at", given.at, "The instant, or the beginning of the span")
      ->required()
      ->type_name("TIME");
  command.add_option("--until", given.until, "The end of the span, which is not part of it")
      ->type_name("TIME");
  command.add_option("--layout", given.layout, "The layout of snowflake ids (sequence-generator)")
      ->type_name("L");
}

Result<void> run_bounds(Context& context, const advice::BoundsTexts& given) {
  const Result<Bounds<Id>> bounds = advice::id_bounds(given, advice::Words::kOptions);
  if (!bounds) return std::unexpected(bounds.error());
  const std::string smallest = to_string(bounds->smallest);
  const std::string largest = to_string(bounds->largest);
  context.out.write(context.json ? json_bounds(given.format, smallest, largest) + "\n"
                                 : smallest + "\n" + largest + "\n");
  return {};
}

}  // namespace

const Command kBounds = {
    "bounds", "Print the smallest and the largest id of a time",
    with_options<advice::BoundsTexts, add_bounds, run_bounds>,
    R"(Prints two lines, both inclusive, for range queries on a column of ids without
an index on time. --until TIME makes it a span, which ends before that time.
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
