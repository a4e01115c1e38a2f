// The help, the manual page and the completion scripts of idmint-restore have the same options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "terminal/exit_status.h"
#include "tests/e2e/cli.h"

namespace idmint::restore {
namespace {

using e2e::content;
using e2e::Ended;
using e2e::lines_of;
using testing::EndsWith;
using testing::HasSubstr;

const std::vector<std::string> kCommands = {"keep", "dump",       "ready",  "oplog", "find",
                                            "show", "run",        "verify", "fence", "promote",
                                            "seed", "completion", "version"};

bool installed(const std::string& program) {
  return e2e::fs::exists("/usr/bin/" + program) || e2e::fs::exists("/bin/" + program);
}

// "--base-at" of "  --base-at S:O", for each line that has one.
std::set<std::string> options_of(const std::string& help) {
  std::set<std::string> options;
  for (const std::string& line : lines_of(help)) {
    const std::size_t at = line.find("--");
    if (!line.starts_with("  -") || at == std::string::npos) continue;
    options.insert(line.substr(at, line.find(' ', at) - at));
  }
  return options;
}

std::set<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

// From `begin` up to `end`.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin);
  if (from == std::string::npos) return {};
  return text.substr(from, text.find(end, from + begin.size()) - from);
}

class CommandLine : public e2e::Cli {};

// The driver says so where a process before this one left its shared memory under the same number.
TEST_F(CommandLine, WhatTheDriverLogsIsNotSeen) {
  const Ended ended = run(R"(
      bash -c 'echo /dev/shm/mongoc-$$ >name; touch $(cat name); exec idmint-restore version'
      rm -f $(cat name))");
  EXPECT_THAT(ended.out, testing::StartsWith("idmint-restore "));
  EXPECT_EQ(ended.err, "");
}

TEST_F(CommandLine, TheHelpFitsEightyColumns) {
  for (std::string command : kCommands) {
    for (const std::string& line : lines_of(output("idmint-restore " + command + " --help")))
      EXPECT_TRUE(line.size() <= 80 || line.starts_with("  $ ")) << command << ": " << line;
    EXPECT_EQ(output("idmint-restore help " + command),
              output("idmint-restore " + command + " --help"));
  }
  const std::string help = output("idmint-restore --help");
  for (const std::string& command : kCommands) EXPECT_THAT(help, HasSubstr("\n  " + command + " "));
  const std::string find = output("idmint-restore find --help");
  EXPECT_THAT(find, HasSubstr("\n  OPLOG             A dump of the oplog"));
  EXPECT_THAT(find, HasSubstr("\n  --oplog OPLOG     The same"));
  for (const std::string& line : lines_of(help))
    EXPECT_TRUE(line.size() <= 80 || line.starts_with("  $ ")) << line;
}

TEST_F(CommandLine, WhatIsWrongIsNamed) {
  const auto refused = [&](const std::string& words) {
    const Ended ended = run("idmint-restore " + words);
    EXPECT_EQ(ended.status, 2) << words;
    return ended.err;
  };
  EXPECT_THAT(refused(""), HasSubstr("no command is given: see idmint-restore --help"));
  EXPECT_THAT(refused("frob"), HasSubstr("no command \"frob\""));
  EXPECT_THAT(refused("run --xyzzy"),
              EndsWith("no option \"--xyzzy\": see idmint-restore run --help\n"));
  EXPECT_THAT(refused("restore"),
              EndsWith("did you mean: idmint-restore run? See idmint-restore run --help\n"));
  EXPECT_THAT(refused("--frob"), EndsWith("no option \"--frob\": see idmint-restore --help\n"));
  EXPECT_THAT(refused("show --oplog o --id 5"),
              EndsWith("there is no option \"--id\" of show: it is an option of find: see "
                       "idmint-restore find --help\n"));
  EXPECT_THAT(refused("show --oplog"),
              EndsWith("--oplog is missing its value: see idmint-restore show --help\n"));
  EXPECT_THAT(refused("dump --out x --json"), HasSubstr(R"({"error":{"code":"INVALID_ARGUMENT")"));
  EXPECT_THAT(refused("show --oplog o --since '' --until 2:1"),
              HasSubstr("--since has an empty value: is a variable not set?"));
  EXPECT_EQ(refused("show --oplog o --from=2:1 --to 1:1"),
            "idmint-restore: --from is --since now, and will not be known under its former name in "
            "the next "
            "version\nidmint-restore: --to is --until now, and will not be known under its former "
            "name in "
            "the next version\nidmint-restore: --until 1:1 is before --since 2:1\n");
  EXPECT_THAT(refused("completion tcsh"), HasSubstr("give bash, zsh or fish"));
}

TEST_F(CommandLine, TheManPageHasEveryOptionAndExitStatus) {
  const std::string page = content(IDMINT_RESTORE_MAN_PAGE);
  for (const ExitStatus& row : kExitStatuses)
    EXPECT_THAT(page, HasSubstr("\n" + std::to_string(row.status) + "|T{\n" +
                                std::string(row.of_restore) + "\nT}\n"));
  const std::set<std::string> of_all = {"--help", "--json"};
  for (const std::string& command : kCommands) {
    std::string section = between(page, ".SS " + command + "\n", "\n.S");
    EXPECT_NE(section, "") << command;
    std::string plain;
    std::ranges::copy_if(section, std::back_inserter(plain), [](char c) { return c != '\\'; });
    for (const std::string& option : options_of(output("idmint-restore " + command + " --help"))) {
      if (of_all.contains(option)) continue;
      EXPECT_TRUE(plain.find("\n.BI " + option + " ") != std::string::npos ||
                  plain.find("\n.B " + option + "\n") != std::string::npos)
          << command << " " << option;
    }
  }
  const std::string version = output("idmint-restore version");
  EXPECT_EQ(version, output("idmint-restore --version"));
  EXPECT_THAT(page, HasSubstr("\"" + version.substr(0, version.size() - 1) + "\""));
  if (installed("groff")) {
    EXPECT_EQ(run("groff -t -man -ww -Tutf8 " IDMINT_RESTORE_MAN_PAGE).err, "");
  }
}

TEST_F(CommandLine, CompletionHasEveryOption) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    output("idmint-restore completion " + shell + " >" + shell + ".script");
    if (installed(shell)) output(shell + " -n " + shell + ".script");
  }
  const auto complete = [&](const std::string& words, int at) {
    return words_of(output("source bash.script; COMP_WORDS=(" + words + "); COMP_CWORD=" +
                           std::to_string(at) + "; _idmint_restore; echo ${COMPREPLY[*]}"));
  };
  std::set<std::string> first(kCommands.begin(), kCommands.end());
  first.insert({"--help", "--version"});
  EXPECT_EQ(complete("idmint-restore ''", 1), first);
  const std::string zsh = content(folder_ / "zsh.script");
  const std::vector<std::string> fish = lines_of(content(folder_ / "fish.script"));
  for (const std::string& command : kCommands) {
    const std::set<std::string> options =
        options_of(output("idmint-restore " + command + " --help"));
    EXPECT_EQ(complete("idmint-restore " + command + " --", 2), options) << command;
    EXPECT_THAT(zsh, HasSubstr("\n    '" + command + ":"));
    for (const std::string& option : options) {
      if (option == "--help" || option == "--json") continue;
      const std::string of_command = between(zsh, "\n    " + command + ")\n", ";;");
      EXPECT_TRUE(of_command.find("'" + option + "=") != std::string::npos ||
                  of_command.find("'" + option + "[") != std::string::npos ||
                  of_command.find("*" + option + "=") != std::string::npos)
          << "zsh " << command << " " << option;
      EXPECT_TRUE(std::ranges::any_of(
          fish,
          [&](const std::string& line) {
            return words_of(between(line, "from", "'")).contains(command) &&
                   line.find(" -l " + option.substr(2) + " ") != std::string::npos;
          }))
          << "fish " << command << " " << option;
    }
  }
  output("touch oplog.bson");
  EXPECT_EQ(complete("idmint-restore find --oplog op", 3), std::set<std::string>{"oplog.bson"});
  EXPECT_EQ(complete("idmint-restore find --op dropD", 3), std::set<std::string>{"dropDatabase"});
}

}  // namespace
}  // namespace idmint::restore
