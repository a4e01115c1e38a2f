// idmint: the command line.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/text.h"
#include "base/url.h"
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

// What users of other programs type, and what does it here.
struct Instead {
  std::string_view word;
  std::string_view command;
};
constexpr std::array kInstead = {
    Instead{"delete", "retire"}, Instead{"drop", "retire"},   Instead{"generate", "next"},
    Instead{"get", "peek"},      Instead{"ls", "list"},       Instead{"mint", "next"},
    Instead{"new", "create"},    Instead{"remove", "retire"}, Instead{"rm", "retire"},
    Instead{"set", "raise"},     Instead{"show", "peek"}};

std::optional<Error> meant(std::string_view word) {
  if (const auto* const row = std::ranges::find(kInstead, word, &Instead::word);
      row != kInstead.end())
    return Error{Code::kInvalidArgument, "there is no command \"" + std::string(word) +
                                             "\": did you mean: idmint " +
                                             std::string(row->command) + "? See idmint " +
                                             std::string(row->command) + " --help"};
  for (const Declaration& format : Mint::formats()) {
    if (format.name == word)
      return Error{Code::kInvalidArgument,
                   "\"" + format.name +
                       "\" is a format, not a command: did you mean: idmint next " + format.name};
  }
  return std::nullopt;
}

Result<void> settle(CLI::App& command) {
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
  NO_COLOR       when it is not empty: no colour on a terminal
)",
    .meaning = &ExitStatus::of_idmint,
    .examples = R"(Examples:
  $ idmint next uuid7 -n 3
  $ idmint create orders --start 1000
  $ idmint next orders -n 5
  $ idmint inspect 454947766275222906
)",
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
