// idmint-restore: MongoDB back to the moment before the mistake.
#include <mongoc/mongoc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/url.h"
#include "restore/commands.h"
#include "restore/exit_status.h"
#include "restore/oplog_source.h"
#include "terminal/credentials.h"
#include "terminal/help.h"
#include "terminal/process.h"
#include "terminal/stop.h"

namespace idmint::restore {
namespace {

// In the order in which they are used.
constexpr std::array kCommands = {
    &kDump, &kReady, &kOplogCopy, &kFind, &kShow, &kRun, &kVerify, &kCompletion, &kVersion,
};

int fail(const Error& error, bool json) {
  report(error, json);
  return exit_status(error.code);
}

std::string footer() {
  std::string text =
      "Credentials:\n"
      "  Give env:NAME or file:PATH in the place of a URI to have it read from a\n"
      "  variable, or from a file that no other user may read. Where the URI names a\n"
      "  user without a password, that is asked for on the terminal.\n\n"
      "Environment:\n  NO_COLOR  when it is not empty: no colour on a terminal\n\n"
      "Exit status:\n   0  done\n";
  for (const ExitStatus& row : kExitStatuses) text += exit_status_row(row.status, row.meaning);
  return text + R"(  Stopped by a signal, it ends by that signal: 130 (Ctrl-C), 141 (the reader of
  a pipe went away) and 143 in a shell.

Examples:
  $ idmint-restore dump --uri mongodb://db1,db2,db3/?replicaSet=rs0 --out base
  $ idmint-restore oplog --uri mongodb://db1,db2,db3/?replicaSet=rs0 --out oplog.bson
  $ idmint-restore find --oplog oplog.bson
  $ idmint-restore run --base base --oplog oplog.bson --limit 1795230181:16 --spare spare
  $ idmint-restore verify --spare spare

What a command takes: idmint-restore COMMAND --help
)";
}

const Command* command_named(std::string_view name) {
  const auto* const row = std::ranges::find(
      kCommands, name, [](const Command* each) { return std::string_view(each->name); });
  return row == kCommands.end() ? nullptr : *row;
}

// Puts what url_given() finds in the place of each URL that was given. An option that takes none is
// refused where it was given one with a password, before a message quotes it.
Result<void> read_urls(CLI::App& command) {
  for (CLI::Option* const option : command.get_options()) {
    const std::string name = option->get_name();
    const std::string type = option->get_type_name();
    for (const std::string& value : std::vector<std::string>(option->results())) {
      if (type != "URI" && type != "OPLOG") {
        const bool is_path = type == "BASE" || type == "DIR" || type == "FILE" || type == "PATH";
        if (!is_path || !has_secret(value)) continue;
        return std::unexpected(
            Error{Code::kInvalidArgument, name + " takes a path, and no URL: see idmint-restore " +
                                              command.get_name() + " --help"});
      }
      Result<std::string> url = url_given(name, value);
      if (!url) return std::unexpected(std::move(url.error()));
      if (std::error_code ignored; type == "OPLOG" && !is_uri(*url) && redacted(*url) != *url &&
                                   !std::filesystem::exists(*url, ignored))
        return std::unexpected(
            Error{Code::kNotFound, name + ": " + redacted(*url) + " is no file and no URI"});
      option->clear();
      option->add_result(*std::move(url));
      option->run_callback();
    }
  }
  return {};
}

int run(std::span<const char* const> words) {
  const bool json = std::ranges::find(words, std::string_view("--json")) != words.end();
  const auto usage = [&](const std::string& message) {
    return fail({Code::kInvalidArgument, message}, json);
  };
  const std::string first = words.size() > 1 ? words[1] : "";
  if (words.size() < 2) return usage("no command is given: see idmint-restore --help");
  if (first == "help") {  // as --help; help COMMAND as COMMAND --help
    const std::array help = {words[0], words.size() > 2 ? words[2] : "--help", "--help"};
    return run(help);
  }
  const Command* const row = command_named(first);
  if (row == nullptr && !first.starts_with('-'))
    return usage("there is no command \"" + shortened(redacted(first)) +
                 "\": see idmint-restore --help");

  CLI::App app("idmint-restore: MongoDB back to the moment before the mistake.", "idmint-restore");
  app.set_help_flag("-h,--help", "Print this help");
  app.set_version_flag("--version", "idmint-restore " IDMINT_VERSION "\n", "Print the version");
  app.require_subcommand(1);
  fit_help(app);
  app.footer(footer());
  Output out(STDOUT_FILENO);
  Context context{.out = out, .json = json};
  for (const Command* const each : kCommands) {
    CLI::App* const command = app.add_subcommand(each->name, each->summary);
    command->footer(each->footer);
    each->add(*command);
    command->add_flag("--json", context.json, "Print JSON, on standard error too");
    command->group("Commands");
  }
  std::optional<std::string> asked;  // of --help, --version
  try {
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::CallForHelp&) {
    asked = app.help();
  } catch (const CLI::CallForVersion& version) {
    asked = version.what();
  } catch (const CLI::ParseError& error) {
    const CLI::App& taker = row != nullptr ? *app.get_subcommand(first) : app;
    return usage(wrong_usage(error.what(), taker, words.subspan(1)) + ": see idmint-restore " +
                 (row != nullptr ? first + " " : "") + "--help");
  }
  Result<void> result;
  if (asked) {
    out.write(*asked);
  } else {
    CLI::App& command = *app.get_subcommands().front();
    if (result = read_urls(command); result) {
      stop_at_signals();
      result = command_named(command.get_name())->run(context);
    }
  }
  out.close();
  if (out.reader_gone()) return end_by(SIGPIPE);
  if (!result) return fail(result.error(), json);
  if (out.failed()) return fail(out.failure(false), json);
  return context.stopped_by != 0 ? end_by(context.stopped_by) : context.status;
}

// MongoDB's driver starts itself as it is loaded, before main(), and writes to standard error where
// it meets a file in /dev/shm that a killed process of the same number left. Only what is in this
// table comes before that.
void keep_driver_silent() { mongoc_log_set_handler(nullptr, nullptr); }
[[gnu::section(".preinit_array"),
  gnu::used]] void (*const silence_before_driver)() = keep_driver_silent;

}  // namespace
}  // namespace idmint::restore

int main(int argc, char** argv) {
  using namespace idmint;
  std::signal(SIGPIPE, SIG_IGN);  // told by write() instead, when everything is in order
  // The driver has made a file there as it was loaded, which would stay if this process is killed.
  ::shm_unlink(("/mongoc-" + std::to_string(::getpid())).c_str());
  if (!occupy_standard_descriptors()) {
    return restore::fail({Code::kInvalidArgument,
                          "standard output is closed: redirect it to a file, a pipe or /dev/null"},
                         false);
  }
  try {
    return restore::run(std::span<const char* const>(argv, static_cast<std::size_t>(argc)));
  } catch (const std::exception& error) {
    return restore::fail({Code::kInternal, std::string(error.what()) + ": please report it"},
                         false);
  }
}
