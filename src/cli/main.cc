// idmint: the command line.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <string_view>

#include "base/background.h"
#include "base/url.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "terminal/output.h"
#include "terminal/process.h"

namespace idmint::cli {
namespace {

int fail(const Error& error, bool json) {
  report(error, json);
  return exit_status(error.code);
}

// Says so where the URL that a message refuses came from the environment.
Error with_origin(Error error, const Arguments& arguments) {
  // If a sequence or a pool in the store is refused, the URL is right.
  const bool of_url =
      error.code == Code::kInvalidArgument && error.message.contains(redacted(arguments.store)) &&
      !error.message.starts_with("sequence ") && !error.message.starts_with("pool ");
  if (arguments.store_is_from_environment && of_url)
    error.message += " (the value came from IDMINT_STORE)";
  return error;
}

int run(int argc, char** argv) {
  const std::span<char*> words(argv, static_cast<std::size_t>(argc));
  const Result<Arguments> arguments = parse(argc, argv);
  if (!arguments) {
    const bool json = std::ranges::find(words, std::string_view("--json")) != words.end();
    return fail(arguments.error(), json);
  }
  Output out(STDOUT_FILENO);
  Context context{.arguments = *arguments, .out = out};
  const Result<void> result = arguments->run(context);
  out.close();
  if (out.reader_gone()) {
    if (!context.unwritten.empty()) report_notice(context.unwritten, arguments->json);
    return end_by(SIGPIPE);
  }
  if (out.failed())
    return fail(out.failure(arguments->command == "next", context.unwritten), arguments->json);
  if (!result) return fail(with_origin(result.error(), *arguments), arguments->json);
  return context.stopped_by != 0 ? end_by(context.stopped_by) : context.status;
}

}  // namespace
}  // namespace idmint::cli

int main(int argc, char** argv) {
  using namespace idmint;
  std::signal(SIGPIPE, SIG_IGN);  // told by write() instead, when everything is in order
  // MongoDB's driver makes a file in /dev/shm for each process, which one that is killed leaves,
  // and says so in the midst of the output where it meets one.
  ::setenv("MONGOC_DISABLE_SHM", "1", 0);
  if (!occupy_standard_descriptors()) {
    return cli::fail({Code::kInvalidArgument,
                      "standard output is closed: redirect it to a file, a pipe or /dev/null"},
                     false);
  }
  try {
    const int status = cli::run(argc, argv);
    // The connections of stores that were closed, which the end of the process closes as well.
    if (background_was_used()) std::_Exit(status);
    return status;
  } catch (const std::exception& error) {
    return cli::fail({Code::kInternal, std::string(error.what()) + ": please report it"}, false);
  }
}
