// --numbers: how JSON prints ids, and what a store counts in 64 bits.
//
// Such an integer is a string whatever its size, because many readers of JSON round numbers above
// 2^53, and a field is not to change its type as a sequence grows. With --numbers it is a number
// with all of its digits, as in the answers of idmintd with numbers=true.
#pragma once

#include <cstdint>
#include <variant>

#include "idmint/id.h"
#include "idmint/result.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the name of the library
class App;
}

namespace idmint::cli {

// Declares --numbers, for a command whose JSON has such integers. The command owns `numbers`.
void add_numbers(CLI::App& command, bool& numbers);
// After parsing. kInvalidArgument: --numbers was given without --json.
[[nodiscard]] Result<void> settle_numbers(const CLI::App& command);

// Whether --numbers prints the id as a number, where no prefix, encoding or check goes with it.
[[nodiscard]] inline bool is_integer(const Id& id) noexcept {
  return std::holds_alternative<std::int64_t>(id) || std::holds_alternative<Snowflake>(id);
}

}  // namespace idmint::cli
