// idmint-restore: restores MongoDB to the moment before a mistake.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/url.h"
#include "mongo/driver.h"
#include "restore/commands/commands.h"
#include "restore/oplog/source.h"
#include "terminal/advice.h"
#include "terminal/credentials.h"
#include "terminal/process.h"
#include "terminal/stop.h"

namespace idmint::restore {
namespace {

// In the order of use.
constexpr std::array kCommands = {
    &kKeep,   &kReady, &kDump,    &kOplogCopy, &kFind,       &kShow,    &kRun,
    &kVerify, &kFence, &kPromote, &kSeed,      &kCompletion, &kVersion,
};

constexpr std::array kInstead = {Instead{"backup", "dump"},    Instead{"copy", "oplog"},
                                 Instead{"mongodump", "dump"}, Instead{"mongorestore", "run"},
                                 Instead{"restore", "run"},    Instead{"status", "ready"}};

// Loads the driver, installs the signal handlers, and replaces each URL argument by url_given().
// Refuses a URL with a password in any other option, before a message quotes it. Refuses empty
// values, because omitting most options has another meaning.
Result<void> settle(CLI::App& command) {
  if (Result<void> loaded = mongo::load_driver(); !loaded) return loaded;
  for (CLI::Option* const option : command.get_options()) {
    if (option->empty()) continue;
    const std::string name = option->get_name();
    const std::string type = option->get_type_name();
    if (std::ranges::any_of(option->results(),
                            [](const std::string& each) { return each.empty(); }))
      return refuse(name + " has an empty value: is a variable not set?");
    if (type != "URI" && type != "OPLOG") {
      const bool is_path = type == "BASE" || type == "DIR" || type == "FILE" || type == "PATH";
      if (is_path && std::ranges::any_of(option->results(), has_secret))
        return refuse(name + " takes a path, and no URL: see idmint-restore " + command.get_name() +
                      " --help");
      continue;
    }
    const std::string given = option->results().front();
    if (Result<void> read = read_url(*option); !read) return read;
    const std::string url = option->results().front();
    if (given != url && (given.starts_with("env:") || given.starts_with("file:")) && !is_uri(url))
      return refuse(std::string(name).append(": what ").append(given).append(
          " stands for is no URI: put one there"));
    if (std::error_code ignored; type == "OPLOG" && !is_uri(url) && without_url(url) != url &&
                                 !std::filesystem::exists(url, ignored))
      return fail(Code::kNotFound, name + ": " + without_url(url) + " is no file and no URI");
  }
  stop_at_signals();
  return {};
}

constexpr Program kProgram = {
    .name = "idmint-restore",
    .about = "idmint-restore: MongoDB back to the moment before the mistake.",
    .commands = kCommands,
    .environment = R"(Credentials:
  Give env:NAME or file:PATH in the place of a URI to have it read from a
  variable, or from a file that no other user may read. If the URI names a user
  without a password, the password is asked for on the terminal.

Environment:
  COLUMNS   the width of the output (that of the terminal)
  NO_COLOR  when it is not empty: no colour on a terminal
)",
    .meaning = &ExitStatus::of_restore,
    .examples = R"(Examples:
  $ idmint-restore dump --uri mongodb://db1,db2,db3/?replicaSet=rs0 --out base
  $ idmint-restore oplog --uri mongodb://db1,db2,db3/?replicaSet=rs0 --out oplog.bson
  $ idmint-restore find --oplog oplog.bson
  $ idmint-restore run --base base --oplog oplog.bson --limit 1795230181:16 --spare spare
  $ idmint-restore verify --spare spare
  $ idmint-restore fence --target mongodb://127.0.0.1:27117/ --oplog oplog.bson
)",
    .instead = kInstead,
    .meant = nullptr,
    .otherwise = "",
    .settle = settle,
    .worded = [](Error error) { return worded(std::move(error), ""); },
};

}  // namespace
}  // namespace idmint::restore

int main(int argc, char** argv) {
  return idmint::run_program(argc, argv, [](std::span<const char* const> words) {
    return idmint::run(idmint::restore::kProgram, words);
  });
}
