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

// The most bytes of a line of standard input. So much memory is used for one at most.
inline constexpr std::size_t kLongestId = std::size_t{64} * 1024;
inline constexpr std::size_t kLongestName = std::size_t{1024} * 1024;
// The JSON of a document of 16 MB, each character of which is escaped.
inline constexpr std::size_t kLongestDocument = std::size_t{128} * 1024 * 1024;

// Calls `take` with every line of standard input, until it returns false, the output fails or a
// signal asks to stop. Otherwise as for_each_line().
[[nodiscard]] Result<void> while_lines(
    Output& out, std::size_t longest,
    const std::function<bool(std::string_view text, std::size_t line)>& take);

// Calls `take` with every text. For the text - it calls it with every line of standard input,
// without the line feed and without a byte-order mark before the first one. Flushes the output when
// the input pauses. Stops when the output fails. Errors:
// - kInvalidArgument: standard input is a folder, is UTF-16, has a line longer than `longest`, or a
//   NUL, which no text has. The lines before it were taken.
// - kUnavailable: standard input cannot be read.
[[nodiscard]] Result<void> for_each_line(Context& context, std::span<const std::string> texts,
                                         std::size_t longest, const TakeText& take);

// The same for ids, of kLongestId: lines are trimmed, and empty ones are skipped.
[[nodiscard]] Result<void> for_each_text(Context& context, std::span<const std::string> texts,
                                         const TakeText& take);

// "standard input, line 7: ", or nothing for an argument.
[[nodiscard]] std::string place_of(std::size_t line);

}  // namespace idmint::cli
