// The command line of idmintd, and what it says of its settings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/cli.h"
#include "tests/e2e/daemon.h"

namespace idmint::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using DaemonCli = Cli;

TEST_F(DaemonCli, ACheckFailsWhereNoStoreCanBeMade) {
  const Ended refused = run("idmintd --check --store sqlite:none/x.db");
  EXPECT_EQ(refused.status, 3);
  EXPECT_EQ(refused.out, "");
  EXPECT_EQ(refused.err,
            "idmintd: --store: no folder ./none to hold ./none/x.db; make it first, or give the "
            "path of a "
            "store\n");
  const Ended empty = run("mkdir none; idmintd --check --store sqlite:none/x.db");
  EXPECT_EQ(empty.status, 0) << "it may be made later";
  EXPECT_THAT(empty.err, HasSubstr("no sequences yet: no store at ./none/x.db"));
}

TEST_F(DaemonCli, AStoreThatIsRefusedIsNamedWhereItStands) {
  const Ended unset =
      run("printf 'drain_seconds = 5\\nstore = \"env:NOPE\"\\n' >a.toml; idmintd --check --config "
          "a.toml");
  EXPECT_EQ(unset.status, 3);
  EXPECT_EQ(unset.err, "idmintd: a.toml: line 2: store: the variable NOPE is not set\n");
  EXPECT_THAT(
      run("printf '[stores]\\neu = \"frob:x\"\\n' >b.toml; idmintd --check --config b.toml").err,
      StartsWith("idmintd: b.toml: line 2: stores.eu: "));
  EXPECT_THAT(run("IDMINT_STORE=env:NOPE idmintd --check").err,
              StartsWith("idmintd: IDMINT_STORE: the variable NOPE "));
  EXPECT_THAT(run("idmintd --check --store eu=env:NOPE").err,
              StartsWith("idmintd: --store: the variable NOPE "));
  EXPECT_THAT(run("IDMINT_ALSO=frob:x idmintd --check --store memory:").err,
              StartsWith("idmintd: IDMINT_ALSO: *** is not the URL of a store"));
  EXPECT_THAT(run("idmintd --check --store memory: --over sqlite:a.db --over env:NOPE").err,
              StartsWith("idmintd: --over: the variable NOPE "));
}

// Any text in the place of a URL may be a password or hold one.
TEST_F(DaemonCli, NothingOfWhatMayBeASecretIsPrinted) {
  std::vector<std::string> commands = {"idmintd --check --config mongodb://u:hunter2@h/d",
                                       "IDMINTD_CONFIG=mongodb://u:hunter2@h/d idmintd --check"};
  for (const std::string text :
       {"hunter2", "hunter2\nhunter2", "u:hunter2@h/d", "mongodb:/u:hunter2@h/d",
        "mongodb//hunter2", "frob://u:hunter2@h/d", "mysql://u@h/d#hunter2",
        "postgresql://h/d#hunter2", "postgresql://h/d?pasword=hunter2", "postgresql://h/d?hunter2",
        "redis://hunter2@h:x/0", "sqlite:a.db?key=hunter2", "etcd://u:hunter2",
        "https://h/?token=hunter2", "env:hunter2-2", "file:/hunter2@h", "env:redis://u:hunter2@h/0",
        "file:redis://u:hunter2@h/0"}) {
    const std::string quoted = "'" + text + "'";
    for (const std::string option : {"--store", "--also", "--over"}) {
      commands.push_back("IDS=" + quoted + " idmintd --check --store memory: " + option +
                         " env:IDS");
      commands.push_back("idmintd --check --store memory: " + option + " " + quoted);
    }
    commands.push_back("printf %s " + quoted + " >s; chmod 600 s; idmintd --check --store file:s");
    commands.push_back(
        "IDS=" + quoted +
        " sh -c 'printf \"[stores]\\neu = \\\"env:IDS\\\"\\n\" >a.toml; idmintd --check "
        "--config a.toml'");
  }
  for (const std::string& command : commands) {
    const Ended ended = run(command);
    if (!command.contains("--also") && !command.contains("--over")) {  // those are not opened
      EXPECT_NE(ended.status, 0) << command;
    }
    EXPECT_THAT(ended.out + ended.err, Not(HasSubstr("hunter2"))) << command;
  }
}

TEST_F(DaemonCli, TheFileOfTheVariableIsOverriddenByTheOption) {
  const std::string with =
      "printf 'drain_seconds = 5\\n' >a.toml; IDMINTD_CONFIG=none.toml idmintd --check ";
  EXPECT_THAT(run(with).err, StartsWith("idmintd: cannot read the file of --config: "));
  EXPECT_EQ(run(with + "--config a.toml").status, 0);
}

TEST_F(DaemonCli, TheHelpFitsEightyColumnsAndHasTheWordsOfIdmint) {
  const std::string help = output("idmintd --help");
  for (const std::string& line :
       lines_of(help + output("idmintd token --help") + output("idmintd probe --help")))
    EXPECT_LE(line.size(), 80U) << line;
  const std::vector<std::string> of_idmint = lines_of(output("idmint --help"));
  for (const std::string option : {"  -h,--help ", "  --version "}) {
    const auto line = std::ranges::find_if(
        of_idmint, [&](const std::string& each) { return each.starts_with(option); });
    ASSERT_NE(line, of_idmint.end()) << option;
    EXPECT_THAT(help, HasSubstr("\n" + *line + "\n"));
  }
}

TEST_F(DaemonCli, OutputThatCannotBeWrittenIsAnError) {
  for (const std::string words : {"--help", "--version", "--check", "token web", "token --help"}) {
    const Ended full = run("idmintd " + words + " >/dev/full");
    EXPECT_EQ(full.status, 7) << words;
    EXPECT_THAT(full.err, HasSubstr("cannot write standard output (No space left")) << words;
    EXPECT_EQ(run("idmintd " + words + " >&-").status, 7) << words;
  }
}

// The text stands neither in messages about a store, nor about another setting that has a URL by
// mistake.
TEST_F(DaemonCli, WhatIsNoUrlOfAStoreIsNotPrinted) {
  for (const std::string words :
       {"--store env:URL", "--store eu=env:URL", "--also env:URL", "--store memory: --over env:URL",
        "--store \"$URL\"", "--redis \"x:$URL@h\"", "--store file:url"}) {
    for (const std::string url :
         {"geheim", "geheim:x@y", "u:geheim@h", "//u:geheim@h", "foo://u:geheim@h",
          "mongodb://u:p@geheim/x@h", "REDIS://:geheim@", "postgres://u:geheim@h/d x",
          "sqlite://u:geheim@h/d", "sqlite:d?key=geheim", "memory:geheim",
          "mongodb://h/?tlsCertificateKeyFilePassword=geheim&x=1"}) {
      const Ended ended = run("export URL='" + url +
                              "'; echo \"$URL\" >url; chmod 600 url; idmintd "
                              "--check " +
                              words);
      EXPECT_THAT(ended.out + ended.err, Not(HasSubstr("geheim"))) << words << " " << url;
    }
  }
}

TEST_F(DaemonCli, TheProbeAsksTheAddressThatIsGivenOrThatOfTheSettings) {
  Daemon daemon("memory:");
  const std::string at = "127.0.0.1:" + std::to_string(daemon.http_port());
  const Ended ready = run("idmintd probe " + at);
  EXPECT_EQ(ready.status, 0) << ready.err;
  EXPECT_EQ(ready.out, at + ": ready\n");
  EXPECT_EQ(run("IDMINTD_HTTP=" + at + " idmintd probe --live").out, at + ": serves\n");
  EXPECT_EQ(run("printf 'http = [\"tls:0.0.0.0:1\", \"" + at +
                "\"]\\n' >a.toml; idmintd probe --config a.toml")
                .out,
            at + ": ready\n")
      << "an address without TLS first";
  EXPECT_EQ(run("echo 'frob = 1' >a.toml; IDMINTD_CONFIG=a.toml idmintd probe " + at).status, 0)
      << "a fault in settings that the daemon does not serve by";
  EXPECT_EQ(run("IDMINTD_CONFIG=a.toml idmintd probe").status, 2);

  EXPECT_NE(daemon.end(SIGKILL), 0);
  const Ended gone = run("idmintd probe " + at);
  EXPECT_EQ(gone.status, 7);
  EXPECT_EQ(gone.err, "idmintd: " + at +
                          ": no idmintd listens there; start it, or give the address where it "
                          "listens\n");
}

TEST_F(DaemonCli, WrongUsage) {
  const std::string listen =
      "did you mean --redis ADDRESS:PORT or --http ADDRESS:PORT? See idmintd --help\n";
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"--port 7379", "idmintd: there is no option \"--port\": " + listen},
      {"--listen=0.0.0.0:7379", "idmintd: there is no option \"--listen\": " + listen},
      {"-c x.toml",
       "idmintd: there is no option \"-c\": did you mean --config FILE? See idmintd --help\n"},
      {"--stroe memory:",
       "idmintd: there is no option \"--stroe\": did you mean --store? See idmintd --help\n"},
      {"--frob", "idmintd: there is no option \"--frob\": see idmintd --help\n"},
      {"--redis", "idmintd: --redis is missing its address: see idmintd --help\n"},
      {"frob", "idmintd: \"frob\" is one word too many: idmintd: see idmintd --help\n"},
      {"start",
       "idmintd: there is no command \"start\": idmintd alone starts it, in the foreground; as a "
       "service: systemctl start idmintd\n"},
      {"help",
       "idmintd: there is no command \"help\": type idmintd --help, idmintd token --help or "
       "idmintd "
       "probe --help\n"},
      {"help token",
       "idmintd: there is no command \"help\": type idmintd --help, idmintd token --help or "
       "idmintd "
       "probe --help\n"},
      {"--store memory: stop",
       "idmintd: there is no command \"stop\": send its process SIGTERM; as a service: systemctl "
       "stop "
       "idmintd\n"},
      {"version --check", "idmintd: there is no command \"version\": type idmintd --version\n"},
      {"token", "idmintd: NAME is missing: token NAME: see idmintd token --help\n"},
      {"token web next",
       "idmintd: \"next\" is one word too many: token NAME: see idmintd token --help\n"},
      {"--check token web --alow x",
       "idmintd: there is no option \"--alow\": did you mean --allow? See idmintd token --help\n"},
      {"probe :7380 :7381",
       "idmintd: \":7381\" is one word too many: probe [ADDRESS]: see idmintd probe --help\n"},
      {"probe --timeout 61",
       "idmintd: --timeout: Value 61 not in range 1 to 60: see idmintd probe --help\n"},
      {"probe --liv",
       "idmintd: there is no option \"--liv\": did you mean --live? See idmintd probe --help\n"},
      {"probe nowhere",
       "idmintd: cannot use the address \"nowhere\": the port is missing; give ADDRESS:PORT, such "
       "as "
       "127.0.0.1:7379, tls:ADDRESS:PORT or unix:PATH\n"},
      {"mongodb://u:secret@host",
       "idmintd: there is a URL where none is taken: see idmintd --help\n"}};
  for (const auto& [words, said] : rows) {
    const Ended ended = run("idmintd " + words);
    EXPECT_EQ(ended.status, 2) << words;
    EXPECT_EQ(ended.err, said) << words;
  }
}

}  // namespace
}  // namespace idmint::e2e
