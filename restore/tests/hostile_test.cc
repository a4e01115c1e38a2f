// Both commands in hostile surroundings: no secret of a URL is printed, no planted link is
// followed, and nothing that a store or an oplog contains reaches the terminal as it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/text.h"
#include "restore/tests/oplog_builder.h"
#include "tests/e2e/cli.h"

namespace idmint::restore {
namespace {

using e2e::content;
using e2e::Ended;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Hostile : public e2e::Cli {
 protected:
  Ended python(const std::string& script) {
    std::ofstream(folder_ / "script.py") << script;
    return run("python3 script.py");
  }
};

// ---- secrets

// Each holds "geheim" where a secret is or may be, and none leads anywhere.
constexpr auto kUrls = std::to_array<const char*>({
    // As they should be.
    "mongodb://ann:geheim@127.0.0.1:1/local?serverSelectionTimeoutMS=10",
    "mongodb://ann:geheim@127.0.0.1:1,127.0.0.1:2/local?replicaSet=r&serverSelectionTimeoutMS=10",
    "mongodb://ann:geheim@[::1]:1/local?serverSelectionTimeoutMS=10",
    "mongodb://ann%40x:ge%40geheim%2F@127.0.0.1:1/local?serverSelectionTimeoutMS=10",
    "mongodb://:geheim@127.0.0.1:1/local?serverSelectionTimeoutMS=10",
    "mongodb://ann:geheim@127.0.0.1:1/admin?serverSelectionTimeoutMS=10&appName=a@b",
    "mongodb://127.0.0.1:1/local?tls=true&tlsCertificateKeyFilePassword=geheim&"
    "serverSelectionTimeoutMS=10",
    "mongodb://127.0.0.1:1/local?tls=true&TLSCERTIFICATEKEYFILEPASSWORD=geheim&"
    "serverSelectionTimeoutMS=10",
    "mongodb://ann:x@127.0.0.1:1/local?authMechanism=MONGODB-AWS&authMechanismProperties="
    "AWS_SESSION_TOKEN:geheim&serverSelectionTimeoutMS=10",
    "mongodb://127.0.0.1:1/local?ssl=true&sslClientCertificateKeyPassword=geheim&"
    "serverSelectionTimeoutMS=10",
    // Options that are wrong.
    "mongodb://ann:geheim@127.0.0.1:1/ids?tsl=true",
    "mongodb://127.0.0.1:1/ids?proxyHost=a&proxyUsername=b&proxyPassword=geheim",
    "mongodb://127.0.0.1:1/ids?pass%77ord=geheim",
    "mongodb://127.0.0.1:1/ids?PASSWORD=geheim",
    "mongodb://127.0.0.1:1/ids?tlsCertificateKeyFilePasword=geheim",
    "mongodb://127.0.0.1:1/ids?tlsCertificateKeyFilePassword=a&geheim=b",
    "mongodb://127.0.0.1:1/ids?tlsCertificateKeyFilePassword=a&geheim",
    "mongodb://127.0.0.1:1/"
    "local?tlsCertificateKeyFilePassword=a@geheim&serverSelectionTimeoutMS=10",
    "mongodb://127.0.0.1:1/"
    "local?authMechanismProperties=SERVICE_NAME:a,TOKEN:geheim&serverSelectionTimeoutMS=10",
    "mongodb://ann:geheim@127.0.0.1:1/local?tls=maybe&serverSelectionTimeoutMS=10",
    "mongodb://ann:geheim@127.0.0.1:1/ids?w=1&serverSelectionTimeoutMS=10",
    // Characters that should be escaped and are not.
    "mongodb://ann:p@geheim@127.0.0.1:1/ids",
    "mongodb://ann:geheim@p@127.0.0.1:1/ids",
    "mongodb://ann:geheim/p@127.0.0.1:1/ids",
    "mongodb://ann:p/geheim@127.0.0.1:1/ids",
    "mongodb://ann:1/geheim@127.0.0.1:1/ids",
    "mongodb://ann:p?geheim@127.0.0.1:1/a.b?serverSelectionTimeoutMS=10",
    "mongodb://ann:p/x?geheim=y@127.0.0.1:1/ids",
    "mongodb://ann:p/?tls=geheim@127.0.0.1:1/ids",
    "mongodb://ann:p#geheim@127.0.0.1:1/ids?x",
    "mongodb://ann:p%geheim@127.0.0.1:1/ids",
    "mongodb://ann:p&geheim=1@127.0.0.1:1/a.b?serverSelectionTimeoutMS=10",
    "mongodb://ann:p://geheim@127.0.0.1:1/ids",
    // Texts that are no URL of MongoDB.
    "mongodb://ann:geheim",
    "mongodb://ann:geheim@127.0.0.1:port/ids",
    "mongodb:ann:geheim@127.0.0.1:1/ids",
    "mongodb:/ann:geheim@127.0.0.1:1/ids",
    "mongodb//ann:geheim@127.0.0.1:1/ids",
    "ann:geheim@127.0.0.1:1/ids",
    "postgresql://ann:geheim@127.0.0.1:1/ids?sslpassword=geheim",
    "Mongodb://ann:geheim@127.0.0.1:1/ids",
    "redis://:geheim@",
    "//ann:geheim@127.0.0.1:1/ids",
    "foo://ann:geheim@127.0.0.1:1/ids",
    "mongodb://ann@geheim:p@127.0.0.1:1/ids",
    "postgresql://ann:p@127.0.0.1:1/ids#geheim",
    "mongodb://ann:geheim@127.0.0.1:1/a b",
    "mongodb://127.0.0.1:1/ids?geheim@x",
    "sqlite://ann:geheim@127.0.0.1/ids",
});
static_assert(kUrls.size() >= 40);

// Each URL over all commands takes 1500 processes: that is the slow test. Otherwise each URL goes
// over every sixth command, and each command over every sixth URL.
TEST_F(Hostile, NoCommandPrintsASecretOfAUrl) {
  const std::string step = std::getenv("IDMINT_ALL_COMMANDS") != nullptr ? "1" : "6";
  std::string script =
      "printf '[a]\\nstrategy = \"counter\"\\n' >a.toml; echo '{}' >line\n"
      "F=" IDMINT_FIXTURES "/s3_mass_delete_exclusive; STEP=" +
      step + "\n" + R"(
    t() {
      (( (N + K++) % STEP == 0 )) && "$@" <line
    }
    commands() {
      local N=$1 URL=$2 K=0
      for words in 'create a' list 'list --json' 'next a' 'peek a' 'alter a --max 9' \
          'retire a --yes' 'raise a --past 1' doctor 'doctor --json' 'workers list a' 'bench a' \
          'apply a.toml' 'check 1 --as a' 'insert x.y --from a --json' 'sweep x.y --field f'; do
        t idmint $words --store "$URL"
      done
      IDMINT_STORE=$URL t idmint list
      IDMINT_STORE=$URL t idmint next a --json
      V=$URL t idmint list --store env:V
      t idmint raise a --from-collection x.y:z --uri "$URL" --store "$URL"
      t idmint raise a --past-from "$URL"
      t idmint raise --all --past-from "$URL"
      t idmint next "$URL"
      t idmint "$URL"
      t idmint next a --stor="$URL"
      t idmint next a --count="$URL"
      t idmint-restore dump --uri "$URL" --out $N.dump
      t idmint-restore dump --uri "$URL" --out $N.dump --json
      V=$URL t idmint-restore dump --uri env:V --out $N.dump
      t idmint-restore dump "$URL"
      t idmint-restore ready --uri "$URL" --base $F/base-dump --base-at 1:1
      t idmint-restore oplog --uri "$URL" --out $N.bson
      t idmint-restore find --oplog "$URL"
      t idmint-restore show --oplog "$URL" --json
      t idmint-restore run --base $F/base-dump --oplog $F/oplog-dump --limit 1795230032:3 \
        --target "$URL" --yes --json
      t idmint-restore verify --target "$URL" --against "$URL"
      t idmint-restore verify --target mongodb://127.0.0.1:1/ --oplog "$URL"
      t idmint-restore fence --target "$URL" --oplog $F/oplog-dump
      t idmint-restore fence --target mongodb://127.0.0.1:1/ --live "$URL" --yes --json
      t idmint-restore promote --from "$URL" --to "$URL" --limit 1:1 --dry-run
      t idmint-restore promote --to "$URL" --undo --yes --json
      t idmint-restore promote --to "$URL" --finish --yes
      t idmint-restore "$URL"
      # What begins as a URL is none of these paths.
      [[ $URL != *://* ]] && return
      t idmint-restore dump --out "$URL" --uri "$URL"
      t idmint-restore ready --uri mongodb://127.0.0.1:1/ --base "$URL"
      t idmint-restore find --oplog "$URL" --svg "$URL"
      t idmint-restore run --base "$URL" --oplog "$URL" --limit 1795230032:3 --spare "$URL"
      t idmint-restore fence --target mongodb://127.0.0.1:1/ --oplog "$URL" --report "$URL"
      t idmint-restore promote --from mongodb://127.0.0.1:1/ --to mongodb://127.0.0.1:1/ --oplog "$URL"
      t idmint-restore seed --spare "$URL" --set s --member "h:1=$URL" --dry-run --mongod /bin/false
      t idmint-restore verify --spare "$URL" --expected "$URL" --save "$URL"
    }
)";
  for (std::size_t i = 0; i < kUrls.size(); ++i)
    script += "commands " + std::to_string(i) + " '" + kUrls[i] + "' >" + std::to_string(i) +
              ".out 2>&1 &\n";
  const Ended ended = run(script + "wait; cat *.out; ls");
  EXPECT_GT(e2e::lines_of(ended.out).size(), 5 * kUrls.size()) << "each command says something";
  for (const std::string& line : e2e::lines_of(ended.out))
    EXPECT_THAT(line, Not(HasSubstr("geheim")));
  EXPECT_THAT(ended.out, HasSubstr("ann:***@127.0.0.1:1"));
  EXPECT_THAT(ended.out, HasSubstr("knows no option \"tsl\""));
}

// A variable may hold a password alone, or anything else: none of it is told.
TEST_F(Hostile, WhatAVariableOrAFileHoldsIsNotPrintedIfItIsNoUrl) {
  for (const std::string text : {"geheim", "geheim:x", "x:geheim", "a/geheim", "./geheim.db",
                                 "geheim@x:y", "x y geheim", "geheim://x", "memory:geheim"}) {
    for (const std::string command :
         {"idmint list --json --store ", "idmint next a --also ", "idmint raise a --past-from ",
          "idmint move a --to sqlite:b.db --from ", "idmint create a --over sqlite:b.db --over ",
          "idmint-restore dump --out d --uri ", "idmint-restore find --json --oplog ",
          "idmint-restore promote --limit 1:1 --from mongodb://127.0.0.1:1/ --to "}) {
      for (const std::string place : {"env:V", "file:u"}) {
        const Ended ended =
            run("export V='" + text + "'; echo \"$V\" >u; chmod 600 u; " + command + place);
        EXPECT_THAT(ended.out + ended.err, AllOf(Not(HasSubstr("geheim")), Not(IsEmpty())))
            << text << " " << command << place;
      }
    }
    const Ended ended = run("IDMINT_STORE='" + text + "' idmint list");
    // This one is a path.
    EXPECT_EQ(ended.err.contains("geheim"), text == "./geheim.db") << text;
  }
}

TEST_F(Hostile, AUrlComesFromAVariableOrAFileThatNobodyElseCanRead) {
  for (const std::string command : {"idmint list --store ", "idmint-restore dump --out d --uri "}) {
    const auto refused = [&](const std::string& before, const std::string& from) {
      const Ended ended = run(before + command + from);
      EXPECT_NE(ended.status, 0);
      EXPECT_THAT(ended.err, Not(HasSubstr("geheim")));
      return ended.err;
    };
    output("rm -f u; echo 'mongodb://ann:geheim@127.0.0.1:1/local?tsl=true' >u; chmod 600 u");
    EXPECT_THAT(refused("V=$(<u) ", "env:V"), HasSubstr("knows no option \"tsl\""));
    EXPECT_THAT(refused("", "file:u"), HasSubstr("knows no option \"tsl\""));
    EXPECT_THAT(refused("", "env:V"), HasSubstr("the variable V is not set"));
    EXPECT_THAT(refused("V= ", "env:V"), HasSubstr("is empty"));
    EXPECT_THAT(refused("chmod 640 u; ", "file:u"), HasSubstr("open to other users: chmod 600 u"));
    EXPECT_THAT(refused("chmod 604 u; ", "file:u"), HasSubstr("open to other users: chmod 600 u"));
    EXPECT_THAT(refused("chmod 600 u; echo more >>u; ", "file:u"), HasSubstr("one line"));
    EXPECT_THAT(refused("rm u; mkfifo -m 600 u; ", "file:u"), HasSubstr("no plain file"));
    EXPECT_THAT(refused("", "file:absent"), HasSubstr("absent: No such file"));
    EXPECT_THAT(refused("setsid -w ", "mongodb://ann@127.0.0.1:1/"),
                AllOf(HasSubstr("the password of ann"), HasSubstr("no terminal")));
  }
}

TEST_F(Hostile, APasswordIsAskedForOnTheTerminalAndNotEchoed) {
  // The answer is given when the echo is off. Ctrl-C instead of it ends the command, and leaves the
  // terminal as it was for the shell that started it.
  const std::string script = R"(
import fcntl, os, pty, struct, sys, termios
def run(answer):
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp('sh', ['sh', '-c', 'trap : INT; ' + sys.argv[1] +
                         ' "mongodb://ann@127.0.0.1:1/local?serverSelectionTimeoutMS=10"; '
                         'echo "ended $?"; stty -a; echo all is said'])
    # While this end is open, too, nothing of what was said last is lost with the other one.
    number, = struct.unpack('i', fcntl.ioctl(terminal, 0x80045430, bytes(4)))  # TIOCGPTN
    end = os.open(f'/dev/pts/{number}', os.O_RDWR | os.O_NOCTTY)
    said = b''
    while b'127.0.0.1:1/local?serverSelectionTimeoutMS=10: ' not in said:
        said += os.read(terminal, 1024)
    assert not termios.tcgetattr(terminal)[3] & termios.ECHO
    os.write(terminal, answer)
    while b'all is said' not in said:
        said += os.read(terminal, 1024)
    os.waitpid(pid, 0)
    os.close(end)
    assert b' echo ' in said, said
    return said
said = run(b'geheim@/:\n')
assert b'geheim' not in said and b'ann:***@127.0.0.1:1' in said, said
said = run(b'geh\x03')
assert b'ended 130' in said and b'geh' not in said, said
)";
  std::ofstream(folder_ / "ask.py") << script;
  for (const std::string command : {"idmint list --store", "idmint-restore dump --out d --uri"}) {
    const Ended ended = run("python3 ask.py '" + command + "'");
    EXPECT_EQ(ended.status, 0) << ended.err;
  }
}

// ---- planted links

TEST_F(Hostile, AnOutputFollowsNoPlantedLink) {
  const std::string oplog = IDMINT_FIXTURES "/s3_mass_delete_exclusive/oplog-dump";
  for (const std::string& command :
       std::vector<std::string>{"idmint bench uuid4 --seconds 0.01 --svg out",
                                "idmint-restore find --svg out --oplog " + oplog,
                                "idmint-restore oplog --uri mongodb://127.0.0.1:1/ --out out"}) {
    for (const std::string target : {"victim", "absent"}) {
      const Ended ended = run("echo precious >victim; ln -s " + target + " out; " + command +
                              "; status=$?; rm out; exit $status");
      EXPECT_EQ(ended.status, 4) << command;
      EXPECT_THAT(ended.err, HasSubstr("symbolic link")) << command;
      EXPECT_EQ(output("cat victim; ls absent 2>&1 || true"),
                "precious\nls: cannot access 'absent': No such file or directory\n");
    }
  }
}

// ---- what comes from a store

// C0, C1 as UTF-8, a new line, and text that is shown backwards.
const std::string kEvil = "a\x1b[31m\u009b32m\nb\x7f\u202ec";

bool is_harmless(const std::string& text) { return escaped(text, "\n") == text; }

TEST_F(Hostile, NamesInAnSqliteFileArePrintedEscaped) {
  const Ended made = run(
      "export IDMINT_STORE=sqlite:s.db; idmint create orders && idmint create pool --kind pool && "
      "idmint next pool");
  EXPECT_EQ(made.status, 0) << made.err;
  const Ended planted = python(R"py(
import json, sqlite3
evil = 'a\x1b[31m\u009b32m\nb\x7f\u202ec'
db = sqlite3.connect('s.db')
db.execute("UPDATE workers SET holder = ?, token = randomblob(16)", (evil,))
db.execute("UPDATE definitions SET json = replace(json, 'orders', ?) WHERE name = 'orders'",
           (json.dumps(evil)[1:-1],))
for table in ('definitions', 'counters'):
    db.execute(f"UPDATE {table} SET name = replace(name, 'orders', ?)", (evil,))
db.commit()
)py");
  EXPECT_EQ(planted.status, 0) << planted.err;
  for (const std::string command :
       {"list", "doctor", "workers list pool", "workers list pool --all",
        "peek $'"
        "a\\x1b[31m"
        "'",
        "workers release pool 0", "list --toml", "next $'a\\x1b[31m\\n\\u202e'"}) {
    const Ended ended = run("idmint " + command + " --store sqlite:s.db");
    EXPECT_TRUE(is_harmless(ended.out)) << command << escaped(ended.out);
    EXPECT_TRUE(is_harmless(ended.err)) << command << escaped(ended.err);
    for (const std::string& line : e2e::lines_of(ended.out))
      EXPECT_FALSE(line.starts_with("b")) << line;
  }
  for (const std::string command : {"list", "doctor", "workers list pool", "peek pool"}) {
    const Ended ended = run("idmint " + command + " --json --store sqlite:s.db");
    EXPECT_TRUE(is_harmless(ended.out + ended.err)) << escaped(ended.out + ended.err);
    EXPECT_TRUE(nlohmann::json::accept(ended.out)) << ended.out;
  }
  EXPECT_THAT(
      run("idmint list --store sqlite:s.db").out + run("idmint list --store sqlite:s.db").err,
      HasSubstr("a\\u001b[31m\\u009b32m"));
}

TEST_F(Hostile, AnOplogIsPrintedEscaped) {
  const std::string evil = nlohmann::json(kEvil).dump();
  const std::string name = evil.substr(1, evil.size() - 2);
  OplogBuilder oplog;
  oplog.noop().create("d." + name).insert("d." + name, R"({"_id":)" + evil + R"(,"n":1})");
  for (int i = 0; i < 60; ++i) oplog.remove("d." + name, "\"" + name + std::to_string(i) + "\"");
  oplog.command("d", R"({"drop":)" + evil + "}");
  oplog.write((folder_ / "oplog.bson").string());
  for (const std::string command : {"find", "find --list 100", "show", "find --svg /dev/stdout"}) {
    const Ended ended = run("idmint-restore " + command + " --oplog oplog.bson");
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_TRUE(is_harmless(ended.out + ended.err)) << command << escaped(ended.out + ended.err);
    EXPECT_THAT(ended.out, HasSubstr("\\u009b32m")) << command;
    for (const std::string& line : e2e::lines_of(ended.out))
      EXPECT_FALSE(line.starts_with("b")) << line;
  }
  const Ended found = run("idmint-restore find --json --list 9 --oplog oplog.bson");
  const auto json = nlohmann::json::parse(found.out);
  EXPECT_TRUE(is_harmless(found.out)) << escaped(found.out);
  EXPECT_EQ(json["timeline"]["namespaces"][0]["namespace"], "d." + kEvil) << "and means the same";
  for (const std::string& line : e2e::lines_of(output("idmint-restore show --oplog oplog.bson")))
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
}

}  // namespace
}  // namespace idmint::restore
