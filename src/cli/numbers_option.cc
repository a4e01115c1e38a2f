#include "cli/numbers_option.h"

#include <CLI/CLI.hpp>

#include "base/errors.h"

namespace idmint::cli {

void add_numbers(CLI::App& command, bool& numbers) {
  command.add_flag("--numbers", numbers, "--json: print integers as exact numbers, not as strings");
}

Result<void> settle_numbers(const CLI::App& command) {
  const CLI::Option* const numbers = command.get_option_no_throw("--numbers");
  if (numbers != nullptr && !numbers->empty() && numbers->as<bool>() &&
      command.count("--json") == 0)
    return refuse("--numbers says how --json prints integers: add --json, or leave it out");
  return {};
}

}  // namespace idmint::cli
