// The texts that a command is given, as arguments or on standard input.
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

// The ids that a command is given.
void add_texts(CLI::App& command, std::vector<std::string>& ids);

// What is done with each text; `line` counts the lines of standard input from 1, 0 is an argument.
using TakeText = std::function<void(std::string_view text, std::size_t line)>;

// Calls `take` with every line of standard input, until it says false, the output has failed or a
// signal asks to stop. Otherwise as for_each_line.
[[nodiscard]] Result<void> while_lines(
    Output& out, const std::function<bool(std::string_view text, std::size_t line)>& take);

// Calls `take` with every text, and for the text - with every line of standard input, as it
// is but for its line feed. Where the input pauses, what was printed until then is flushed. Stops
// when the output has failed. kInvalidArgument: standard input is a folder. kUnavailable: it cannot
// be read.
[[nodiscard]] Result<void> for_each_line(Context& context, std::span<const std::string> texts,
                                         const TakeText& take);

// The same for ids: lines without the blanks around them, and none that is empty.
[[nodiscard]] Result<void> for_each_text(Context& context, std::span<const std::string> texts,
                                         const TakeText& take);

// "standard input, line 7: ", or nothing for an argument.
[[nodiscard]] std::string place_of(std::size_t line);

}  // namespace idmint::cli
