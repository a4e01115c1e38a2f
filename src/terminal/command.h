// A program with commands, such as `idmint`: from its command line to its exit status.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "idmint/executor.h"
#include "idmint/result.h"
#include "terminal/exit_status.h"
#include "terminal/help.h"
#include "terminal/output.h"

namespace idmint {

struct Context {
  Output& out;
  bool json = false;
  int status = 0;           // the exit status without an error; reported already
  int stopped_by = 0;       // the signal that ended the command early, after a complete line
  bool prints_ids = false;  // output that is not printed cannot be recovered
  std::string unwritten{};  // advice if the output cannot be written; empty: try again
};

// An option that has another name now. Its former name is accepted for one more version, with a
// notice, and is in no help.
struct Renamed {
  std::string_view former;
  std::string_view name;
};

// The work of a command owns the options that it reads. It is called once, after parsing. The
// caller flushes the output, and reports its failure and the returned error.
using Work = MoveOnlyFunction<Result<void>(Context& context)>;

// A command is one file with its options, its work and its help. `add` declares the options and
// returns the work. The caller keeps the work for as long as it parses, because the parser writes
// into the options.
struct Command {
  const char* name;
  const char* summary;
  Work (*add)(CLI::App& command);
  const char* footer;  // help beyond the options, and examples
  std::span<const Renamed> renamed{};
  std::span<const Meant> meant{};
  std::string_view of_number{};  // the option that a whole number too many was meant for: "-n"
};

// This is the `add` of a command with options. It makes them with their defaults, and kAdd declares
// them; the returned work owns them, and gives them to kRun.
template <class Options, void (*kAdd)(CLI::App&, Options&),
          Result<void> (*kRun)(Context&, const Options&)>
[[nodiscard]] Work with_options(CLI::App& command) {
  auto options = std::make_unique<Options>();
  kAdd(command, *options);
  return [options = std::move(options)](Context& context) { return kRun(context, *options); };
}

// A word that users of other programs type, and the command that does it here.
struct Instead {
  std::string_view word;
  std::string_view command;
};

struct Program {
  const char* name;
  const char* about;
  std::span<const Command* const> commands;  // in the order of the help
  const char* environment;                   // text of the help before the exit statuses
  std::string_view ExitStatus::* meaning;    // the column of meanings for this program
  const char* examples;
  std::span<const Instead> instead;
  // The error for another word that is no command, but stands for something else. Null: there are
  // none.
  std::optional<Error> (*meant)(std::string_view word);
  const char* otherwise;                      // advice for any other word, after "see NAME --help"
  Result<void> (*settle)(CLI::App& command);  // after parsing, before the work
  Error (*worded)(Error error);               // words the advice of an error
};

// Runs the program and returns its exit status. The first of `words` is the name of the program.
[[nodiscard]] int run(const Program& program, std::span<const char* const> words);

}  // namespace idmint
