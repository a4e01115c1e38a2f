// The layout of the help of a command, and the messages about an unknown command line.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "idmint/result.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the name of the library
class App;
}

namespace idmint {

inline constexpr std::size_t kHelpColumns = 80;

// Breaks the text into lines of at most `width` characters, unless a word is longer.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t width);

// The text of a help, which is for kHelpColumns, in the lines of a narrower output. Examples stay
// in one piece.
[[nodiscard]] std::string fitted(std::string_view help, std::size_t columns);

// A row of a table of exit statuses in the help.
[[nodiscard]] std::string exit_status_row(int status, std::string_view meaning);

// Must be called before commands are added, which inherit it.
void fit_help(CLI::App& app);

// An option that users of other commands and programs type, and the one that does it here.
struct Meant {
  std::string_view typed;   // "--from", whatever its value is; or "--format json"
  std::string_view option;  // "--start"
};

struct UnknownOption {
  std::string name;   // "--format"
  std::string value;  // "json", as it follows or after an equals sign; or empty
};

// The first of the words that looks like an option and is none of the command.
[[nodiscard]] std::optional<UnknownOption> unknown_option(const CLI::App& app,
                                                          std::span<const char* const> words);

// The option that is meant; empty: no row has it.
[[nodiscard]] std::string_view meant_by(const UnknownOption& unknown, std::span<const Meant> rows);

// The error in the command line, given the parser's `message`: the message without a full stop; or
// that an option is unknown or has no value, which the parser says less clearly; or, if the message
// quotes a URL with a password, only that there is one. It ends with where the help is.
// - help: the words that print the help without its --help, such as "idmint next".
// - meant: what unknown options stand for.
// - of_number: the option that a whole number too many was meant for, such as "-n"; empty: none.
[[nodiscard]] std::string wrong_usage(std::string message, const CLI::App& app,
                                      std::span<const char* const> words, std::string_view help,
                                      std::span<const Meant> meant = {},
                                      std::string_view of_number = {});

struct CompletionScript {
  std::string_view shell;
  std::string_view text;
};

// kInvalidArgument: no script for this shell.
[[nodiscard]] Result<std::string_view> completion_for(std::string_view shell,
                                                      std::span<const CompletionScript> scripts);

}  // namespace idmint
