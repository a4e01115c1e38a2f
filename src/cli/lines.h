// The texts of a command, as arguments or on standard input.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"
#include "terminal/command.h"

namespace idmint::cli {

// Adds the argument for the ids of a command.
void add_texts(CLI::App& command, std::vector<std::string>& ids);

// Called with each text; `line` counts the lines of standard input from 1, and is 0 for an
// argument.
using TakeText = std::function<void(std::string_view text, std::size_t line)>;

// Calls `take` with every line of standard input, until it returns false, the output fails or a
// signal asks to stop. Otherwise as for_each_line().
[[nodiscard]] Result<void> while_lines(
    Output& out, const std::function<bool(std::string_view text, std::size_t line)>& take);

// Calls `take` with every text. For the text - it calls it with every line of standard input,
// without the line feed. Flushes the output when the input pauses. Stops when the output fails.
// kInvalidArgument: standard input is a folder. kUnavailable: it cannot be read.
[[nodiscard]] Result<void> for_each_line(Context& context, std::span<const std::string> texts,
                                         const TakeText& take);

// The same for ids: lines are trimmed, and empty ones are skipped.
[[nodiscard]] Result<void> for_each_text(Context& context, std::span<const std::string> texts,
                                         const TakeText& take);

// "standard input, line 7: ", or nothing for an argument.
[[nodiscard]] std::string place_of(std::size_t line);

}  // namespace idmint::cli
