#include "terminal/command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "base/similar.h"
#include "base/text.h"
#include "base/url.h"
#include "terminal/help.h"
#include "terminal/process.h"

namespace idmint {
namespace {

std::string footer_of(const Program& program) {
  std::string text = program.environment;
  text += "\nExit status:\n   0  done\n";
  for (const ExitStatus& row : kExitStatuses)
    text += exit_status_row(row.status, row.*program.meaning);
  text +=
      "  On a signal it ends by that signal: 130 (Ctrl-C), 141 (the reader of a pipe\n"
      "  went away) and 143 in a shell.\n\n";
  return text + program.examples + "\nWhat a command takes: " + program.name + " COMMAND --help";
}

const Command* command_named(const Program& program, std::string_view word) {
  const auto row = std::ranges::find(
      program.commands, word, [](const Command* each) { return std::string_view(each->name); });
  return row != program.commands.end() ? *row : nullptr;
}

// Options before the command, as in "idmint -n 5 next orders", moved behind it. Empty: there
// are none, or no command is named.
std::vector<const char*> with_command_first(const Program& program,
                                            std::span<const char* const> words) {
  const std::string_view first = words[1];
  if (!first.starts_with("-") || first == "--help" || first == "-h" || first == "--version")
    return {};
  const auto at = std::ranges::find_if(
      words.subspan(1), [&](const char* word) { return command_named(program, word) != nullptr; });
  if (at == words.end()) return {};
  std::vector<const char*> moved = {words[0], *at};
  moved.insert(moved.end(), words.begin() + 1, at);
  moved.insert(moved.end(), at + 1, words.end());
  return moved;
}

Error no_command(const Program& program, std::string_view word) {
  if (const auto row = std::ranges::find(program.instead, word, &Instead::word);
      row != program.instead.end()) {
    const std::string command = std::string(program.name) + " " + std::string(row->command);
    return {Code::kInvalidArgument, "there is no command \"" + std::string(word) +
                                        "\": did you mean: " + command + "? See " + command +
                                        " --help"};
  }
  if (std::optional<Error> meant = program.meant != nullptr ? program.meant(word) : std::nullopt)
    return *std::move(meant);
  // The first letter is seldom wrong, and short names are close to many words.
  std::vector<std::string> names;
  for (const Command* const each : program.commands)
    if (word.starts_with(each->name[0])) names.emplace_back(each->name);
  const std::string near = close_matches(word, names);
  return {Code::kInvalidArgument,
          "there is no command \"" + shortened(without_url(word)) + "\": " +
              (near.empty() ? "see " + std::string(program.name) + " --help" + program.otherwise
                            : "did you mean " + near + "?")};
}

// The words with each option under its present name; those under a former one are reported.
std::vector<std::string> present_words(const Command& command, std::span<const char* const> words,
                                       bool json) {
  std::vector<std::string> present(words.begin(), words.end());
  for (std::string& word : present) {
    if (word == "--") break;
    const std::string_view option = std::string_view(word).substr(0, word.find('='));
    const auto row = std::ranges::find(command.renamed, option, &Renamed::former);
    if (row == command.renamed.end()) continue;
    report_notice(std::string(row->former) + " is " + std::string(row->name) +
                      " now, and will not be known under its former name in the next version",
                  json);
    word.replace(0, option.size(), row->name);
  }
  return present;
}

// Every command has --json.
constexpr std::array kMeantEverywhere = {
    Meant{"--format json", "--json"}, Meant{"--output json", "--json"}, Meant{"-o json", "--json"}};

// The other commands that have the option, in the order of the help.
std::vector<std::string_view> takers_of(const Program& program, const std::string& option,
                                        const Command& besides) {
  std::vector<std::string_view> takers;
  for (const Command* const each : program.commands) {
    if (each == &besides) continue;
    CLI::App command;
    const Work work = each->add(command);
    if (command.get_option_no_throw(option) != nullptr) takers.emplace_back(each->name);
  }
  return takers;
}

// "there is no option "--id" of show: it is an option of find: see idmint-restore find --help".
// Nothing: no other command has it.
std::optional<std::string> of_another_command(const Program& program, const std::string& option,
                                              const Command& command) {
  const std::vector<std::string_view> takers = takers_of(program, option, command);
  if (takers.empty()) return std::nullopt;
  std::string names(takers[0]);
  for (std::size_t i = 1; i < takers.size(); ++i)
    names += (i + 1 < takers.size() ? ", " : " and ") + std::string(takers[i]);
  const std::string_view explained = takers.size() == 1 ? takers[0] : command.name;
  return "there is no option \"" + option + "\" of " + command.name + ": it is an option of " +
         names + ": see " + program.name + " " + std::string(explained) + " --help";
}

}  // namespace

int run(const Program& program, std::span<const char* const> words) {
  const std::string name = program.name;
  const bool json = std::ranges::find(words, std::string_view("--json")) != words.end();
  const auto usage = [&](const std::string& message) {
    return fail_with({Code::kInvalidArgument, message}, json);
  };
  if (words.size() < 2) return usage("no command is given: see " + name + " --help");
  if (const std::vector<const char*> moved = with_command_first(program, words); !moved.empty())
    return run(program, moved);
  const std::string_view first = words[1];
  if (first == "help") {  // like --help; help COMMAND is like COMMAND --help
    const std::array help = {words[0], words.size() > 2 ? words[2] : "--help", "--help"};
    return run(program, help);
  }
  const Command* const known = command_named(program, first);
  if (known == nullptr && !first.starts_with('-'))
    return fail_with(no_command(program, first), json);

  std::vector<std::string> present;
  std::vector<const char*> pointers;
  if (known != nullptr && !known->renamed.empty()) {
    present = present_words(*known, words, json);
    for (const std::string& word : present) pointers.push_back(word.c_str());
    words = pointers;
  }

  CLI::App app(program.about, name);
  app.set_help_flag("-h,--help", "Print this help");
  app.set_version_flag("--version", name + " " IDMINT_VERSION "\n", "Print the version");
  app.require_subcommand(1);
  fit_help(app);
  app.footer([&program] { return footer_of(program); });
  Output out(STDOUT_FILENO);
  Context context{.out = out};
  std::vector<Work> works;  // one for each command that is added
  // Adding only this command saves the set-up of the others in the common case.
  for (const Command* const each : known != nullptr ? std::span(&known, 1) : program.commands) {
    CLI::App* const command = app.add_subcommand(each->name, each->summary);
    command->footer(each->footer);
    works.push_back(each->add(*command));
    command->add_flag("--json", context.json, "Print JSON, on standard error too");
    command->group("Commands");
  }
  std::optional<std::string> asked;  // the text of --help or --version
  try {
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::CallForHelp&) {
    asked = app.help();
  } catch (const CLI::CallForVersion& version) {
    asked = version.what();
  } catch (const CLI::ParseError& error) {
    if (known == nullptr) return usage(wrong_usage(error.what(), app, words.subspan(1), name));
    const CLI::App& taker = *app.get_subcommand(std::string(first));
    std::vector<Meant> meant(known->meant.begin(), known->meant.end());
    meant.insert(meant.end(), kMeantEverywhere.begin(), kMeantEverywhere.end());
    const auto unknown = unknown_option(taker, words.subspan(1));
    if (unknown.has_value() && meant_by(*unknown, meant).empty()) {
      if (const auto of_another = of_another_command(program, unknown->name, *known))
        return usage(*of_another);
    }
    return usage(wrong_usage(error.what(), taker, words.subspan(1), name + " " + known->name, meant,
                             known->of_number));
  }
  Result<void> result;
  if (asked) {
    out.write(fitted(*asked, out.columns().value_or(kHelpColumns)));
  } else if (result = program.settle(*app.get_subcommands().front()); result) {
    result = works.front()(context);
  }
  out.close();
  if (out.reader_gone()) {
    if (!context.unwritten.empty()) report_notice(context.unwritten, context.json);
    return end_by(SIGPIPE);
  }
  if (out.failed()) {
    const Error unwritten = out.failure(context.prints_ids, context.unwritten);
    if (result || context.prints_ids || !context.unwritten.empty())
      return fail_with(unwritten, context.json);
    report(unwritten, context.json);  // the error of the command is more important
  }
  if (!result) return fail_with(program.worded(std::move(result.error())), context.json);
  return context.stopped_by != 0 ? end_by(context.stopped_by) : context.status;
}

}  // namespace idmint
