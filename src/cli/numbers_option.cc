#include "cli/numbers_option.h"

#include <CLI/CLI.hpp>

#include "base/errors.h"

namespace idmint::cli {
namespace {

bool as_numbers = false;

}  // namespace

void add_numbers(CLI::App& command) {
  command.add_flag("--numbers", as_numbers,
                   "--json: print integers as exact numbers, not as strings");
}

Result<void> settle_numbers(const CLI::App& command) {
  if (as_numbers && command.count("--json") == 0)
    return refuse("--numbers says how --json prints integers: add --json, or leave it out");
  return {};
}

bool numbers_given() noexcept { return as_numbers; }

}  // namespace idmint::cli
