// A program of commands, such as `idmint`: from the words of its command line to its exit status.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "idmint/result.h"
#include "terminal/exit_status.h"
#include "terminal/output.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the name of the library
class App;
}

namespace idmint {

struct Context {
  Output& out;
  bool json = false;
  int status = 0;           // to exit with where nothing failed; told already
  int stopped_by = 0;       // the signal that ended the command early, after a whole line
  bool prints_ids = false;  // what is not printed cannot be asked for again
  std::string unwritten{};  // what to do if the output cannot be written; empty: try again
};

// A command is a file: its options, its work, and what its help says. `add` declares the options,
// into a static of the file; `run` is called once, when they are parsed. Its caller flushes the
// output, and tells of its failure and of the error returned.
struct Command {
  const char* name;
  const char* summary;
  void (*add)(CLI::App& command);
  Result<void> (*run)(Context& context);
  const char* footer;  // what the options do not say, and examples
  // What is added to a message on wrong usage, such as "there is no option \"--epoch\"". Null:
  // nothing.
  std::string_view (*hint)(std::string_view wrong) = nullptr;
};

struct Program {
  const char* name;
  const char* about;
  std::span<const Command* const> commands;  // in the order of the help
  const char* environment;                   // of the help, before the exit statuses
  std::string_view ExitStatus::* meaning;    // of them, in this program
  const char* examples;
  Error (*no_command)(std::string_view word);  // what is said of a word that names none
  Result<void> (*settle)(CLI::App& command);   // after the words are parsed, before the work
  Error (*worded)(Error error);                // with its advice
};

// The exit status. Options come from `words`, the first of which is the name of the program.
[[nodiscard]] int run(const Program& program, std::span<const char* const> words);

}  // namespace idmint
