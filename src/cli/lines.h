// The texts that a command is given, as arguments or on standard input.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "cli/commands.h"
#include "idmint/result.h"

namespace idmint::cli {

// What is done with each text; `line` counts the lines of standard input from 1, 0 is an argument.
using TakeText = std::function<void(std::string_view text, std::size_t line)>;

// Calls `take` with every line of standard input, until it says false, the output has failed or a
// signal asks to stop. Otherwise as for_each_line.
[[nodiscard]] Result<void> while_lines(
    Output& out, const std::function<bool(std::string_view text, std::size_t line)>& take);

// Calls `take` with every argument, and for the argument - with every line of standard input, as it
// is but for its line feed. Where the input pauses, what was printed until then is flushed. Stops
// when the output has failed. kInvalidArgument: standard input is a folder. kUnavailable: it cannot
// be read.
[[nodiscard]] Result<void> for_each_line(Context& context, const TakeText& take);

// The same for ids: lines without the blanks around them, and none that is empty.
[[nodiscard]] Result<void> for_each_text(Context& context, const TakeText& take);

// "standard input, line 7: ", or nothing for an argument.
[[nodiscard]] std::string place_of(std::size_t line);

}  // namespace idmint::cli
