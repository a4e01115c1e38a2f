// idmint: the command line.
#include <CLI/CLI.hpp>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/errors.h"
#include "cli/commands.h"
#include "cli/numbers_option.h"
#include "cli/store_option.h"
#include "idmint/mint.h"
#include "terminal/process.h"

namespace idmint::cli {
namespace {

constexpr std::array kCommands = {
    &kNext,    &kCreate,  &kRaise, &kAlter,      &kRetire, &kMove,    &kList,       &kPeek,
    &kWorkers, &kInspect, &kPlan,  &kPlanChange, &kBench,  &kBounds,  &kConvert,    &kCheck,
    &kName,    &kDoctor,  &kApply, &kInsert,     &kSweep,  &kFormats, &kCompletion, &kVersion};

constexpr std::array kInstead = {
    Instead{"add", "create"},    Instead{"delete", "retire"}, Instead{"drop", "retire"},
    Instead{"gen", "next"},      Instead{"generate", "next"}, Instead{"get", "peek"},
    Instead{"incr", "next"},     Instead{"info", "peek"},     Instead{"init", "create"},
    Instead{"ls", "list"},       Instead{"mint", "next"},     Instead{"new", "create"},
    Instead{"remove", "retire"}, Instead{"rm", "retire"},     Instead{"set", "raise"},
    Instead{"show", "peek"},     Instead{"status", "doctor"}, Instead{"uuid", "next"}};

std::optional<Error> meant(std::string_view word) {
  for (const Declaration& format : Mint::formats()) {
    if (format.name == word)
      return Error{Code::kInvalidArgument,
                   "\"" + format.name +
                       "\" is a format, not a command: did you mean: idmint next " + format.name};
  }
  return std::nullopt;
}

// An empty name is that of a variable which is not set. Other arguments may be empty.
Result<void> are_named(const CLI::App& command) {
  for (const char* const name : {"NAME", "SOURCE", "POOL"}) {
    const CLI::Option* const option = command.get_option_no_throw(name);
    if (option != nullptr && !option->empty() && option->results().front().empty())
      return refuse(std::string(name) + " is empty: is a variable not set?");
  }
  return {};
}

Result<void> settle(CLI::App& command) {
  if (Result<void> named = are_named(command); !named) return named;
  if (Result<void> settled = settle_numbers(command); !settled) return settled;
  return settle_store(command);
}

constexpr Program kProgram = {
    .name = "idmint",
    .about = "idmint mints globally unique ids, and never the same one twice.",
    .commands = kCommands,
    .environment = R"(Environment:
  IDMINT_STORE   as --store
  IDMINT_ALSO    as --also; several are separated by blanks
  IDMINT_OVER    as --over; several are separated by blanks
  IDMINT_WORKER  as --worker
  COLUMNS        the width of the output (that of the terminal)
  NO_COLOR       when it is not empty: no colour on a terminal
)",
    .meaning = &ExitStatus::of_idmint,
    .examples = R"(Examples:
  $ idmint next uuid7 -n 3
  $ idmint create orders --start 1000
  $ idmint next orders -n 5
  $ idmint inspect 454947766275222906
)",
    .instead = kInstead,
    .meant = meant,
    .otherwise = "; for ids: idmint next SOURCE",
    .settle = settle,
    .worded = worded,
};

}  // namespace
}  // namespace idmint::cli

int main(int argc, char** argv) {
  return idmint::run_program(argc, argv, [](std::span<const char* const> words) {
    return idmint::run(idmint::cli::kProgram, words);
  });
}
