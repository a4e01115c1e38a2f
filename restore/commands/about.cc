// completion, version: information about idmint-restore.
#include <CLI/CLI.hpp>
#include <string>

#include "restore/commands/commands.h"
#include "restore/error_in.h"
#include "terminal/completion_scripts.h"

namespace idmint::restore {
namespace {

void add_completion(CLI::App& command, std::string& shell) {
  command.add_option("SHELL", shell, "bash, zsh or fish")->required()->type_name("");
}

Result<void> run_completion(Context& context, const std::string& shell) {
  const Result<std::string_view> script = completion_for(shell, kCompletionScripts);
  if (!script) return error_in(script);
  context.out.write(*script);
  return {};
}

Result<void> run_version(Context& context) {
  context.out.write(context.json ? R"({"name":"idmint-restore","version":")" IDMINT_VERSION "\"}\n"
                                 : "idmint-restore " IDMINT_VERSION "\n");
  return {};
}

Work add_version(CLI::App&) { return run_version; }

}  // namespace

const Command kCompletion = {"completion", "Print the completion script of a shell",
                             with_options<std::string, add_completion, run_completion>, R"(Examples:
  $ idmint-restore completion bash
)"};
const Command kVersion = {"version", "Print the version", add_version, R"(Examples:
  $ idmint-restore version
)"};

}  // namespace idmint::restore
