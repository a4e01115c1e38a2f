// The idmint command: next, sequences, and what it says of itself.
#include "tests/e2e/cli.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "ids/format.h"

namespace {

using namespace idmint::e2e;
using idmint::Format;
using idmint::formats;
using idmint::kinds;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAreArray;

constexpr auto kUuid7 = "[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}";

// ---- next

TEST_F(Cli, EveryFormatPrintsIdsAndNothingElse) {
  const std::vector<std::pair<std::string, std::string>> formats = {
      {"uuid4", "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"},
      {"uuid7", kUuid7},
      {"ulid", "[0-7][0-9A-HJKMNP-TV-Z]{25}"},
      {"object-id", "[0-9a-f]{24}"},
      {"snowflake --worker 7", "[0-9]{18,19}"}};
  for (const auto& [format, pattern] : formats) {
    const std::vector<std::string> ids = lines_of(run("idmint next " + format + " -n 5000").out);
    EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), 5000u) << format;
    for (const std::string& id : ids) ASSERT_THAT(id, MatchesRegex(pattern)) << format;
  }
  EXPECT_THAT(output("idmint next uuid7"), MatchesRegex(std::string(kUuid7) + "\n"));
}

TEST_F(Cli, ASequenceGoesOnFromProcessToProcess) {
  EXPECT_EQ(output("idmint create orders --start 1000"), "");
  EXPECT_EQ(output("idmint next orders -n 3"), "1000\n1001\n1002\n");
  EXPECT_EQ(output("idmint next orders"), "1003\n");
}

TEST_F(Cli, ASequenceThatBeganElsewhereIsToBeRaised) {
  output("idmint create orders --start 1000");
  const Ended refused = run("idmint create orders --start 2000");
  EXPECT_EQ(refused.status, 5);
  EXPECT_THAT(refused.err,
              EndsWith("first: 1000 there, 2000 here; choose another name, or raise it "
                       "to go on from 2000: idmint raise orders --past 1999\n"));
  output("idmint raise orders --past 1999");
  EXPECT_EQ(output("idmint next orders"), "2000\n");
}

TEST_F(Cli, ABatchIsTakenWholeOrNotAtAll) {
  output("idmint create small --start 1 --max 10");
  EXPECT_EQ(output("idmint next small -n 8 | tail -n 1"), "8\n");
  const Ended refused = run("idmint next small -n 3");
  EXPECT_EQ(refused.status, 6);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, StartsWith("idmint: "));
  EXPECT_EQ(output("idmint next small -n 2"), "9\n10\n");
  EXPECT_EQ(run("idmint next small").status, 6);
  EXPECT_THAT(output("idmint list"), HasSubstr("used up"));
}

TEST_F(Cli, ACallForMoreThanIsLeftTakesNothingAndSaysHowManyAreLeft) {
  for (const char* const strategy : {"counter", "cached", "cached --step 10", "striped --stripes 3",
                                     "interleaved --stripes 3", "permuted"}) {
    const std::string store = "export IDMINT_STORE='sqlite:" + std::string(strategy) + ".db'\n";
    output(store + "idmint create few --start 1 --max 15 --strategy " + strategy);
    const Ended refused = run(store + "idmint next few -n 20");
    EXPECT_EQ(refused.status, 6) << strategy;
    EXPECT_EQ(refused.out, "") << strategy;
    EXPECT_THAT(refused.err, HasSubstr("15 are left")) << strategy;
    EXPECT_EQ(output(store + "idmint next few -n 15 | sort -n"), output("seq 15")) << strategy;
    EXPECT_EQ(run(store + "idmint next few -n 2").status, 6) << strategy;
  }
}

TEST_F(Cli, ServersWithAStrideGiveDifferentValues) {
  for (const char* const strategy :
       {"counter", "cached", "striped --stripes 3", "interleaved --stripes 3", "permuted"}) {
    const std::string server = "for k in 1 2 3; do export IDMINT_STORE=\"sqlite:$k-" +
                               std::string(strategy, 4) + ".db\"; ";
    output(server + "idmint create t --max 30 --stride 3 --offset $k --strategy " + strategy +
           "; done");
    EXPECT_EQ(output("(" + server + "idmint next t -n 10; done) | sort -n"), output("seq 30"))
        << strategy;
  }
  output("idmint create t --start 1000 --stride 2 --offset 1");
  EXPECT_EQ(output("idmint next t -n 2"), "1001\n1003\n");
  EXPECT_THAT(output("idmint list"), HasSubstr("counter, 1 of 2"));
  EXPECT_THAT(output("idmint list --json"), HasSubstr(R"("stride":2,"offset":1)"));
  output("idmint raise t --past 1010 --yes");
  EXPECT_EQ(output("idmint next t"), "1011\n");
  EXPECT_EQ(output("idmint list --toml >t.toml; idmint apply t.toml >/dev/null; echo $?"), "0\n");
  EXPECT_THAT(run("idmint create t --start 1000 --stride 2 --offset 2").err,
              HasSubstr("offset: 1 there, 2 here"));
}

TEST_F(Cli, MoreThanAMillionComesInSeveralTakes) {
  output("idmint create many --max 2000005");
  EXPECT_EQ(output("idmint next many -n 2000003 | cmp - <(seq 2000003) && echo same"), "same\n");
  output("idmint create fewer --max 1000010");
  const Ended ended = run("idmint next fewer -n 1500000 >ids; echo $?; wc -l <ids");
  EXPECT_EQ(ended.out, "6\n0\n") << "refused before the first step";
  EXPECT_THAT(ended.err, HasSubstr("1000010 are left"));
  EXPECT_EQ(output("idmint next fewer -n 10 | head -n 1"), "1\n");
  // A reader of one id of a billion loses few: the first steps are small.
  output("idmint create billion");
  EXPECT_EQ(output("idmint next billion -n 1000000000 | head -n 1"), "1\n");
  EXPECT_LT(std::stoll(output("idmint next billion")), 100'000);
  // Somebody else takes between the steps: the pipe holds the first ones up.
  output("idmint create contested --max 2000000");
  const Ended late = run(
      "mkfifo p; idmint next contested -n 2000000 >p & exec 3<p; read -r first <&3; idmint next "
      "contested; cat <&3 | wc -l; wait $!; echo $?");
  std::istringstream said(late.out);
  std::int64_t taken = 0;
  std::int64_t rest = 0;
  int status = 0;
  said >> taken >> rest >> status;
  EXPECT_GT(taken, 1000);
  EXPECT_LT(taken, 1'000'000);
  EXPECT_EQ(status, 6);
  EXPECT_THAT(late.err, HasSubstr(std::to_string(rest + 1) + " ids were printed before"));
}

TEST_F(Cli, OptionsMayStandBeforeTheCommand) {
  output("idmint --store sqlite:other.db create orders");
  EXPECT_EQ(output("idmint --store=sqlite:other.db --json next orders | head -c 5"), "{\"id\"");
  EXPECT_EQ(output("idmint next orders --store sqlite:other.db"), "2\n");
  EXPECT_EQ(run("idmint --frob next uuid7").status, 2);
}

TEST_F(Cli, IdsComeFromStandardInputWhereNoneIsGiven) {
  EXPECT_THAT(output("idmint next ulid -n 2 | idmint inspect | grep -c ulid"), StartsWith("2"));
  EXPECT_EQ(output("echo 42 | idmint convert --to base58"),
            output("idmint convert 42 --to base58"));
}

TEST_F(Cli, CountsThatAreNone) {
  for (const std::string count :
       {"0", "-1", "1.5", "x", "''", "9223372036854775808", "99999999999999999999999"}) {
    const Ended ended = run("idmint next uuid7 -n " + count);
    EXPECT_EQ(ended.status, 2) << count;
    EXPECT_EQ(ended.out, "") << count;
    EXPECT_THAT(ended.err, StartsWith("idmint: ")) << count;
  }
}

// ---- JSON

TEST_F(Cli, NextAsJsonIsOneObjectALine) {
  output("idmint create big --start 9007199254740991");
  EXPECT_EQ(output("idmint next big -n 3 --json"),
            "{\"id\":\"9007199254740991\",\"source\":\"big\"}\n"
            "{\"id\":\"9007199254740992\",\"source\":\"big\"}\n"
            "{\"id\":\"9007199254740993\",\"source\":\"big\"}\n");
  const std::string check =
      " | python3 -c '\nimport json, sys\n"
      "ids = [json.loads(line) for line in sys.stdin]\n"
      "assert all(set(i) == {\"id\", \"source\"} and type(i[\"id\"]) is str for i in ids)\n"
      "print(len(ids), len({i[\"id\"] for i in ids}), {i[\"source\"] for i in ids})'";
  EXPECT_EQ(output("idmint next uuid7 -n 100000 --json" + check), "100000 100000 {'uuid7'}\n");
  EXPECT_EQ(run("idmint next snowflake --worker 1 -n 9 --json" + check).out, "9 9 {'snowflake'}\n");
}

TEST_F(Cli, WithNumbersIntegersAreNumbersOfAnySize) {
  output("idmint create big --start 9007199254740993; idmint create tags --prefix T-");
  EXPECT_EQ(output("idmint next big --json --numbers"),
            "{\"id\":9007199254740993,\"source\":\"big\"}\n");
  EXPECT_THAT(output("idmint next snowflake --worker 1 --json --numbers 2>/dev/null"),
              MatchesRegex("\\{\"id\":[0-9]+,\"source\":\"snowflake\"\\}\n"));
  EXPECT_EQ(output("idmint next tags --json --numbers"), "{\"id\":\"T-1\",\"source\":\"tags\"}\n");
  EXPECT_THAT(output("idmint next uuid4 --json --numbers"),
              MatchesRegex("\\{\"id\":\"[0-9a-f-]{36}\",\"source\":\"uuid4\"\\}\n"));
  const std::string values =
      R"("last":9223372036854775806,"next":9007199254740994,"index":null,"left":)"
      "9214364837600034813,";
  for (const std::string command : {"peek big", "list"})
    EXPECT_THAT(output("idmint " + command + " --json --numbers"), HasSubstr(values)) << command;
  EXPECT_THAT(output("idmint raise big --past 9007199254740995 --json --numbers"),
              HasSubstr(R"("skipped":2,"left_before":9214364837600034813,)"));
  const Ended alone = run("idmint next big --numbers");
  EXPECT_EQ(alone.status, 2);
  EXPECT_THAT(alone.err, HasSubstr("add --json"));
}

TEST_F(Cli, EveryCommandPrintsJsonThatParses) {
  output("idmint create orders --start 5 --json --max 9007199254740993");
  const std::string parse = " | python3 -c 'import json, sys; print(json.load(sys.stdin)";
  EXPECT_EQ(output("idmint create orders --start 5 --json --max 9007199254740993" + parse +
                   "[\"next\"])'"),
            "5\n");
  EXPECT_EQ(output("idmint peek orders --json" + parse + ")'"),
            "{'name': 'orders', 'strategy': 'counter', 'guarantee': 'linearizable', 'first': '5', "
            "'last': '9007199254740993', 'next': '5', 'index': None, 'left': '9007199254740989', "
            "'state': 'open', "
            "'store': 'sqlite:" +
                (folder_ / "home/.local/share/idmint/ids.db").string() + "'}\n");
  EXPECT_EQ(output("idmint create second --json" + parse + "[\"created\"])'"), "True\n");
  EXPECT_EQ(output("idmint create second --json" + parse + "[\"created\"])'"), "False\n");
  EXPECT_EQ(output("idmint inspect 017f22e2-79b0-7cc3-98c4-dc0c0c07398f --json" + parse +
                   "[\"readings\"][0][\"fields\"][\"version\"] == 7)'"),
            "True\n");
  EXPECT_EQ(output("idmint inspect 454947766275222906 --json" + parse +
                   "[\"readings\"][0][\"format\"])'"),
            "snowflake\n");
  EXPECT_EQ(output("idmint list --json" + parse + "[0][\"last\"])'"), "9007199254740993\n");
  EXPECT_EQ(output("idmint formats --json" + parse + "[2][\"guarantee\"])'"), "practical\n");
  EXPECT_EQ(output("idmint version --json" + parse + "[\"name\"])'"), "idmint\n");
  EXPECT_EQ(output("idmint inspect 454947766275222906 --json" + parse +
                   "[\"readings\"][0][\"fields\"][\"worker\"])'"),
            "786\n");
  EXPECT_EQ(run("idmint inspect $'\\xff\"\\n' --json" + parse + "[\"readings\"])'").out, "[]\n");
}

TEST_F(Cli, ErrorsAndNoticesAsJson) {
  const std::string parse =
      "; python3 -c 'import json; e = json.load(open(\"err\"))[\"error\"]; print(e[\"code\"], "
      "len(e[\"message\"]) > 20)'";
  EXPECT_EQ(run("idmint next orders --json 2>err" + parse).out, "NOT_FOUND True\n");
  EXPECT_EQ(run("idmint next uuid7 -n 0 --json 2>err" + parse).out, "INVALID_ARGUMENT True\n");
  EXPECT_EQ(run("idmint frobnicate --json 2>err" + parse).out, "INVALID_ARGUMENT True\n");
  EXPECT_EQ(run("idmint next uuid7 -n 9 --json 2>err >/dev/full" + parse).out,
            "UNAVAILABLE True\n");
  EXPECT_THAT(run("idmint next snowflake --worker 1 --json").err, StartsWith("{\"notice\":\"made"));
}

// ---- errors, each with its exit status

TEST_F(Cli, UnknownNames) {
  const Ended unknown = run("idmint next orders");
  EXPECT_EQ(unknown.status, 3);
  EXPECT_THAT(unknown.err, StartsWith("idmint: there is no format, sequence or pool \"orders\""));
  EXPECT_THAT(unknown.err, AllOf(HasSubstr(": idmint create orders; or, "),
                                 EndsWith("idmint create orders --kind pool\n")));
  EXPECT_FALSE(fs::exists(folder_ / "home/.local")) << "only create makes the data folder";
  for (const std::string near : {"uuidv7", "UUID7"}) {
    EXPECT_THAT(run("idmint next " + near).err, EndsWith("did you mean uuid7?\n")) << near;
  }
  EXPECT_THAT(
      run("idmint next orders --store sqlite:none.db").err,
      ContainsRegex(
          "there is no store sqlite:none.db: .*idmint create orders --store sqlite:none.db; "
          "or, .*--kind pool --store sqlite:none.db\n"));
  EXPECT_THAT(run("idmint next orders --store sqlite:none/x.db").err,
              EndsWith("there is no store sqlite:none/x.db: no folder ./none to hold ./none/x.db; "
                       "make it first, or give the path of a store\n"));
  // The store is named where it was typed, and as it was.
  EXPECT_THAT(run("IDMINT_STORE=sqlite:none.db idmint next orders").err,
              AllOf(HasSubstr("there is no store sqlite:none.db: "), Not(HasSubstr("--store"))));
  EXPECT_THAT(run("URL=sqlite:none.db idmint next orders --store env:URL").err,
              HasSubstr("idmint create orders --store env:URL; or, "));
  EXPECT_THAT(run("idmint list --store sqlite:none.db").err,
              EndsWith(": idmint create NAME --store sqlite:none.db\n"));
  EXPECT_THAT(run("IDMINT_STORE=sqlite:none.db idmint list").err,
              EndsWith(": idmint create NAME\n"));
  EXPECT_LT(run("idmint next $(head -c 5000 /dev/zero | tr '\\0' x)").err.size(), 400u);
  output("idmint create invoices");
  EXPECT_THAT(run("idmint next invocies").err, HasSubstr("did you mean invoices?"));
  EXPECT_EQ(run("idmint peek nothing").status, 3);
  const Ended strange = run("idmint next $'a\\e[31m\\nb'");
  EXPECT_EQ(strange.status, 3);
  EXPECT_EQ(lines_of(strange.err).size(), 1u);
  EXPECT_THAT(strange.err, Not(HasSubstr("\x1b")));
  EXPECT_EQ(run("idmint next orders --store sqlite:not-there.db").status, 3);
  EXPECT_FALSE(fs::exists(folder_ / "not-there.db"));
}

TEST_F(Cli, NamesOfFormatsAreNotForSequences) {
  for (const std::string name : {"uuid4", "uuid7", "ulid", "object-id", "snowflake", "ULID"}) {
    const Ended ended = run("idmint create " + name);
    EXPECT_EQ(ended.status, 2) << name;
    EXPECT_THAT(ended.err, HasSubstr("name of a format")) << name;
  }
  for (const std::string name : {"uuid3", "uuid5", "uuid8", "nil", "max", "integer", "twitter"}) {
    const Ended ended = run("idmint create " + name);
    EXPECT_EQ(ended.status, 2) << name;
    EXPECT_THAT(ended.err, EndsWith("choose another name\n")) << name;
  }
  EXPECT_EQ(run("idmint peek uuid7").status, 2);
  EXPECT_FALSE(fs::exists(folder_ / "home/.local"));
}

TEST_F(Cli, AdviceThatWorks) {
  EXPECT_THAT(run("idmint next guid").err, HasSubstr("uuid4 (random) or uuid7"));
  for (const std::string command :
       {"raise nosuch --past 5", "alter nosuch --max 5", "retire nosuch", "peek nosuch"}) {
    const Ended ended = run("idmint " + command);
    EXPECT_EQ(ended.status, 3) << command;
    EXPECT_THAT(ended.err,
                StartsWith("idmint: there is no sequence or pool \"nosuch\" in sqlite:"));
    EXPECT_THAT(ended.err, EndsWith("idmint list\n")) << command;
  }
  EXPECT_THAT(run("idmint next nosuch --store memory:").err,
              EndsWith("idmint create nosuch --store sqlite:ids.db; or, for Snowflake ids under "
                       "worker ids that are leased: idmint create nosuch --kind pool --store "
                       "sqlite:ids.db\n"));
  EXPECT_THAT(run("idmint create x --encoding base58 --digits 12").err,
              HasSubstr("digits counts decimal digits, and base58 has others: leave out the "
                        "encoding; or give width"));
  EXPECT_THAT(run("idmint create x --digits 20").err, HasSubstr("give digits 18 at most"));
  output("idmint create x --digits 20 --max 99; idmint create y --digits 2");
  EXPECT_EQ(output("idmint next x"), "00000000000000000001\n");
  EXPECT_THAT(run("idmint alter y --max 100").err, HasSubstr("new and wider sequence"));
  output("idmint retire y --yes");
  EXPECT_THAT(run("idmint raise y --past 5").err, HasSubstr("nothing to raise"));
}

// `next` is what comes next, whatever the strategy.
TEST_F(Cli, TheNextOfAPermutedSequence) {
  output("idmint create cards --digits 6 --strategy permuted; idmint next cards -n 7 >/dev/null");
  const std::string next = R"-( | sed 's/.*"next":"\([0-9]*\)","index":"\([^"]*\)",.*/\1 \2/')-";
  const std::string told = output("idmint peek cards --json" + next);
  EXPECT_EQ(output("idmint list --json" + next), told);
  const std::string value = told.substr(0, told.find(' '));
  EXPECT_EQ(told, value + " 7\n");
  EXPECT_THAT(output("idmint peek cards"), ContainsRegex("next +" + value + "\nindex +7\n"));
  EXPECT_THAT(output("idmint list"), ContainsRegex("cards +permuted +" + value + " "));
  EXPECT_EQ(output("idmint next cards | sed 's/^0*//'"), value + "\n");
  output("idmint create one --start 5 --max 5 --strategy permuted; idmint next one >/dev/null");
  EXPECT_THAT(output("idmint peek one"), ContainsRegex("next +-\nindex +1\n"));
  output("idmint create orders");
  EXPECT_THAT(output("idmint peek orders --json"), HasSubstr("\"next\":\"1\",\"index\":null,"));
}

// The sequences that are whole can be made elsewhere, and the list says that it is not complete.
TEST_F(Cli, AListAsTomlLeavesOutWhatIsDamaged) {
  const std::string store = "export IDMINT_STORE=sqlite:ids.db; ";
  output(
      store +
      "for each in gone good torn; do idmint create $each --max 9; done; sqlite3 ids.db \"DELETE "
      "FROM counters WHERE name = 'gone'; UPDATE definitions SET json = '{}' WHERE name = "
      "'torn'\"");
  const Ended listed = run(store + "idmint list --toml");
  EXPECT_EQ(listed.status, 10);
  EXPECT_THAT(listed.out,
              AllOf(HasSubstr("[sequence.good]\n"), Not(HasSubstr("[sequence.gone]")),
                    Not(HasSubstr("[sequence.torn]")),
                    EndsWith("\n\n# Damaged, so left out here:\n#   gone\n#   torn\n")));
  EXPECT_THAT(lines_of(listed.err),
              ElementsAre(AllOf(HasSubstr("gone"), EndsWith("; it is left out of the list")),
                          AllOf(HasSubstr("torn"), EndsWith("; it is left out of the list"))));
  EXPECT_EQ(output(store + "idmint list --toml 2>/dev/null >some.toml || idmint apply some.toml "
                           "--store sqlite:other.db"),
            "created    good\n");
}

// As root it shows only that they work.
TEST_F(Cli, ReadingCommandsOfWhoMayOnlyRead) {
  output("idmint create orders --store sqlite:ids.db");
  output(
      "mkdir -m 755 there; sqlite3 ids.db \"VACUUM INTO 'there/copy.db'\"; chmod 444 there/*; "
      "chmod 555 there; chmod 755 .");
  const std::string as = ::geteuid() == 0 ? "setpriv --reuid 65534 --clear-groups " : "";
  if (run(as + "idmint version").status != 0) GTEST_SKIP() << "no such user, or not for him";
  const std::string idmint = as + "idmint ";
  for (const std::string command : {"list", "peek orders", "check 5 --as orders"}) {
    EXPECT_NE(output(idmint + command + " --store sqlite:there/copy.db"), "") << command;
  }
  EXPECT_EQ(run(idmint + "next orders --store sqlite:there/copy.db").status, 9);
  EXPECT_THAT(run(idmint + "doctor --store sqlite:there/copy.db").out,
              ContainsRegex("ok +sequence orders"));
  EXPECT_THAT(
      run("echo '[sequence.orders]' | " + idmint + "apply - --dry-run --store sqlite:there/copy.db")
          .out,
      StartsWith("was there  orders"));
  run("chmod 755 there");
}

TEST_F(Cli, DefinitionsThatDoNotHold) {
  for (const std::string words : {"'a b'", "-- -x", "''", "x --start -1", "x --start 5 --max 4",
                                  "x --max 9223372036854775807", "x --start abc"}) {
    EXPECT_EQ(run("idmint create " + words).status, 2) << words;
  }
  output("idmint create orders --start 1000");
  output("idmint create orders --start 1000");
  EXPECT_EQ(run("idmint create orders --start 2000").status, 5);
  EXPECT_EQ(output("idmint next orders"), "1000\n");
}

TEST_F(Cli, WrongUsage) {
  for (const std::string words :
       {"", "uuid7", "next", "create", "peek", "next uuid7 ulid", "next uuid7 --frob", "completion",
        "completion tcsh", "--frob", "list extra"}) {
    const Ended ended = run("idmint " + words);
    EXPECT_EQ(ended.status, 2) << words;
    EXPECT_EQ(ended.out, "") << words;
    EXPECT_THAT(ended.err, MatchesRegex("idmint: [^\n]+\n")) << words;
  }
  EXPECT_THAT(run("idmint uuid7").err, EndsWith("did you mean: idmint next uuid7\n"));
  EXPECT_EQ(run("idmint creat x").err,
            "idmint: there is no command \"creat\": did you mean create?\n");
  EXPECT_THAT(run("idmint drop x").err, HasSubstr("did you mean: idmint retire?"));
  EXPECT_THAT(run("idmint orders").err, EndsWith("for ids: idmint next SOURCE\n")) << "not workers";
  for (const std::string command : {"next", "create", "peek", "retire", "raise"})
    EXPECT_THAT(run("idmint " + command + " ''").err,
                HasSubstr(" is empty: is a variable not set?"))
        << command;
  EXPECT_EQ(run("idmint name dns ''").status, 0) << "a text may be empty";
  EXPECT_EQ(lines_of(output("idmint -n 3 next uuid7")).size(), 3U);
  for (const auto& [url, meant] : std::vector<std::pair<std::string, std::string>>{
           {"ids.db", "sqlite:ids.db"},
           {"./ids", "sqlite:./ids"},
           {"SQLITE:ids.db", "sqlite:ids.db"},
           {"sqlite3:ids.db", "sqlite:ids.db"},
           {"mongo://me:secret@db/ids", "mongodb://me:***@db/ids"},
           {"psql://db/ids", "postgresql://db/ids"}}) {
    const Ended ended = run("idmint list --store " + url);
    EXPECT_EQ(ended.status, 2) << url;
    EXPECT_THAT(ended.err, AllOf(HasSubstr(": did you mean " + meant + "? (--store"),
                                 Not(HasSubstr("secret"))));
  }
  for (const std::string url : {"localhost:6379", "http://localhost", "sqlite"})
    EXPECT_THAT(run("idmint list --store " + url).err,
                HasSubstr("; give one such as sqlite:ids.db"));
  EXPECT_THAT(run("idmint create a --adopt counter").err, EndsWith("(--store or IDMINT_STORE)\n"));
  EXPECT_EQ(run("idmint next uuid7 --jsn").err,
            "idmint: there is no option \"--jsn\": did you mean --json? See idmint next --help\n");
  EXPECT_EQ(run("idmint workers web").err,
            "idmint: POOL is missing: workers ACTION POOL [WORKER]: see idmint workers --help\n");
  EXPECT_EQ(run("idmint next uuid7 ulid").err,
            "idmint: \"ulid\" is one word too many: next SOURCE: see idmint next --help\n");
  EXPECT_THAT(run("idmint next --frob").err, HasSubstr("\"--frob\""));
  EXPECT_EQ(
      run("idmint list --wait").err,
      "idmint: there is no option \"--wait\" of list: it is an option of next: see idmint next "
      "--help\n");
  EXPECT_EQ(
      run("idmint peek orders --dry-run=1").err,
      "idmint: there is no option \"--dry-run\" of peek: it is an option of raise, move and apply: "
      "see idmint peek --help\n");
  const std::vector<std::pair<std::string, std::string>> meant = {
      {"create orders --from 5",
       "no option \"--from\": did you mean --start? See idmint create --help\n"},
      {"create orders --to=5", "did you mean --max? See idmint create --help\n"},
      {"create orders 2000",
       "\"2000\" is one word too many: did you mean --start 2000? See idmint create --help\n"},
      {"raise orders --to 5", "did you mean --past? See idmint raise --help\n"},
      {"raise orders 2000",
       "\"2000\" is one word too many: did you mean --past 2000? See idmint raise --help\n"},
      {"next uuid7 10", "did you mean -n 10? See idmint next --help\n"},
      {"next uuid7 --number 10", "did you mean -n? See idmint next --help\n"},
      {"alter orders 5000",
       "\"5000\" is one word too many: did you mean --max 5000? See idmint alter --help\n"},
      {"alter orders --to 5", "did you mean --max? See idmint alter --help\n"},
      {"next uuid7 --format json", "did you mean --json? See idmint next --help\n"},
      {"list --format=json", "did you mean --json? See idmint list --help\n"},
      {"list -o json", "did you mean --json? See idmint list --help\n"},
      {"next uuid7 -n", "idmint: -n is missing its number: see idmint next --help\n"},
      {"next uuid7 --count", "--count is missing its number"},
      {"list --store", "idmint: --store is missing its URL: see idmint list --help\n"},
      {"next uuid7 --encoding",
       "idmint: --encoding is missing its value: see idmint next --help\n"}};
  for (const auto& [words, said] : meant) {
    const Ended ended = run("idmint " + words);
    EXPECT_EQ(ended.status, 2) << words;
    EXPECT_THAT(ended.err, HasSubstr(said)) << words;
  }
  EXPECT_THAT(run("idmint next --format uuid7").err, Not(HasSubstr("--json")));
  EXPECT_EQ(run("idmint list --store ''").status, 2);
  EXPECT_EQ(run("IDMINT_STORE= idmint list").status, 0);
  for (const std::string command : {"create a", "list", "peek a", "raise a --past 1",
                                    "alter a --max 2", "retire a", "doctor", "apply -"}) {
    const Ended ended = run("idmint " + command + " --store memory:");
    EXPECT_EQ(ended.status, 2) << command;
    EXPECT_THAT(ended.err, HasSubstr("give one that stays, such as sqlite:ids.db")) << command;
  }
  EXPECT_EQ(run("IDMINT_STORE=memory: idmint next uuid7").status, 0);
  EXPECT_EQ(run("idmint list --toml --json").status, 2);
  EXPECT_THAT(run("idmint next uuid5").err, HasSubstr("idmint name NAMESPACE TEXT --version 5"));
  EXPECT_THAT(run("idmint list --store sqlite:~/x.db").err, HasSubstr("$HOME/x.db"));
  const Ended origin = run("IDMINT_STORE=frob://me:secret@host/x idmint list");
  EXPECT_THAT(origin.err, HasSubstr("came from IDMINT_STORE"));
  EXPECT_THAT(origin.err, Not(HasSubstr("secret")));
  const Ended raised =
      run("export IDMINT_STORE=sqlite:r.db; idmint create r --strategy random --max 9; idmint "
          "raise r --past 5");
  EXPECT_EQ(raised.status, 2);
  EXPECT_THAT(raised.err, AllOf(HasSubstr("sqlite:r.db"), Not(HasSubstr("IDMINT_STORE"))));
  EXPECT_EQ(output("idmint help"), output("idmint --help"));
  EXPECT_EQ(output("idmint help next"), output("idmint next --help"));
  EXPECT_THAT(output("idmint next --help"),
              HasSubstr("uuid1, uuid2, uuid4, uuid6, uuid7, ulid, ksuid,"));
}

// If fewer ids are left than were asked for, those are printed and not lost.
TEST_F(Cli, SixtyFourIdsOfVersion2) {
  const Ended ended = run("idmint next uuid2 --domain org --local-id 1 -n 200 | sort -u");
  EXPECT_THAT(lines_of(ended.out).size(), AnyOf(64u, 128u)) << ended.err;  // a tick may begin
  EXPECT_THAT(ended.err, ContainsRegex("used up: [^\n]+; (64|128) ids were printed before\n"));
  EXPECT_EQ(run("idmint next uuid2 --domain org --local-id 1 -n 200").status, 8);
}

TEST_F(Cli, WorkerIds) {
  const Ended none = run("idmint next snowflake");
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err,
              HasSubstr("have one leased, from a pool: idmint create web --kind pool, then idmint "
                        "next web, or give one, 0 to 1023 (--worker or IDMINT_WORKER)"));
  for (const std::string worker : {"1024", "-1", "x", "4294967296"}) {
    const Ended ended = run("idmint next snowflake --worker " + worker);
    EXPECT_EQ(ended.status, 2) << worker;
    EXPECT_THAT(ended.err, HasSubstr("0 to 1023")) << worker;
  }
  EXPECT_EQ(run("idmint next uuid7 --worker 5").status, 2);
  EXPECT_EQ(run("IDMINT_WORKER=x idmint next uuid7").status, 0);
  EXPECT_EQ(run("IDMINT_WORKER=1024 idmint next snowflake").status, 2);
  const Ended made = run("IDMINT_WORKER=5 idmint next snowflake | idmint inspect -");
  EXPECT_EQ(made.status, 0);
  EXPECT_THAT(made.out, ContainsRegex("worker +5\n"));
  EXPECT_THAT(made.err, MatchesRegex("idmint: made the state file [^\n]+-5.state[^\n]+\n"));
  EXPECT_THAT(output("IDMINT_WORKER=6 idmint next snowflake --worker 5 | idmint inspect -"),
              ContainsRegex("worker +5\n"));
  EXPECT_EQ(run("IDMINT_WORKER=x idmint list").status, 0);
  const Ended far = run("idmint next snowflake --worker 5 --run-ahead 30s");
  EXPECT_EQ(far.status, 2);
  EXPECT_THAT(far.err, HasSubstr("--run-ahead is 30s: give 5s at most"));
  EXPECT_EQ(run("idmint next snowflake --worker 5 --run-ahead 5s").status, 0);
  const Ended drawn = run("idmint next snowflake --worker random --run-ahead 1s");
  EXPECT_EQ(drawn.status, 2);
  EXPECT_THAT(drawn.err, HasSubstr("give a number or mac with --worker"));
}

// The host name and the addresses are not known here; host_test has the worker ids made of them.
TEST_F(Cli, WorkerIdsThatTheHostHas) {
  const std::string mint = "idmint next snowflake --worker ";
  EXPECT_THAT(run("POD=7 " + mint + "env:POD | idmint inspect -").out,
              ContainsRegex("worker +7\n"));
  const Ended unset = run(mint + "env:POD");
  EXPECT_EQ(unset.status, 5);
  EXPECT_THAT(unset.err, HasSubstr("POD is not set: set it to a worker id of 0 to 1023"));
  EXPECT_EQ(run("POD=1024 " + mint + "env:POD").status, 5);
  EXPECT_EQ(run(mint + "env:").status, 2);
  EXPECT_EQ(run("POD=9 IDMINT_WORKER=env:POD idmint next snowflake").status, 0);
  EXPECT_EQ(run(mint + "address:no-such").status, 5);
  const Ended loopback = run(mint + "address:lo");
  EXPECT_EQ(loopback.status, 5);
  EXPECT_THAT(loopback.err, HasSubstr("loopback"));
  EXPECT_THAT(run(mint + "ordinal").status, AnyOf(0, 5));
}

TEST_F(Cli, ALayoutWhoseTimeIsOverLeavesNoStateFile) {
  EXPECT_EQ(run("idmint next snowflake --layout baidu --worker 2").status, 6);
  EXPECT_EQ(run("ls home/.local/share/idmint/*.state").out, "");
}

TEST_F(Cli, StoresThatCannotBeUsed) {
  for (const std::string url : {"frob:x", "ids.db", "sqlite:", "://"}) {
    const Ended ended = run("idmint create orders --store " + url);
    EXPECT_EQ(ended.status, 2) << url << ended.err;
    EXPECT_THAT(ended.err, StartsWith("idmint: ")) << url;
    EXPECT_EQ(run("IDMINT_STORE=" + url + " idmint list").status, 2) << url;
  }
  const Ended directory = run("mkdir d; idmint create orders --store sqlite:d");
  EXPECT_EQ(directory.status, 5);
  EXPECT_THAT(directory.err, MatchesRegex("idmint: [^\n]+\n"));
  const Ended foreign =
      run("echo this is a text file, and not a short one either >t; idmint create orders --store "
          "sqlite:t; echo $?; cat t");
  EXPECT_THAT(foreign.out, MatchesRegex("(5|10)\nthis is a text file[^\n]+\n"));
}

TEST_F(Cli, TheStoreByOptionThenByEnvironment) {
  output("idmint create orders --store sqlite:a.db --start 1");
  output("IDMINT_STORE=sqlite:b.db idmint create orders --start 100");
  EXPECT_EQ(output("IDMINT_STORE=sqlite:b.db idmint next orders"), "100\n");
  EXPECT_EQ(output("IDMINT_STORE=sqlite:b.db idmint next orders --store sqlite:a.db"), "1\n");
  EXPECT_FALSE(fs::exists(folder_ / "home/.local/share/idmint/ids.db"));
}

TEST_F(Cli, TheDataFolder) {
  output("idmint create orders");
  const fs::path data = folder_ / "home/.local/share/idmint";
  EXPECT_TRUE(fs::is_regular_file(data / "ids.db"));
  EXPECT_EQ(fs::status(data).permissions(), fs::perms::owner_all);
  output("XDG_DATA_HOME=$PWD/x idmint create orders");
  EXPECT_TRUE(fs::is_regular_file(folder_ / "x/idmint/ids.db"));
  output("XDG_DATA_HOME=relative idmint next orders");
  EXPECT_FALSE(fs::exists(folder_ / "relative"));

  const Ended homeless = run("unset HOME; idmint create orders");
  EXPECT_EQ(homeless.status, 5);
  EXPECT_THAT(homeless.err, HasSubstr("--store"));
  EXPECT_EQ(run("unset HOME; idmint next orders").status, 5);
  EXPECT_EQ(run("unset HOME; idmint next snowflake --worker 1").status, 5);
  EXPECT_THAT(output("unset HOME; idmint next uuid7"), MatchesRegex(std::string(kUuid7) + "\n"));
  EXPECT_EQ(run("touch file; XDG_DATA_HOME=$PWD/file idmint create orders").status, 5);
}

TEST_F(Cli, WithoutPermission) {
  std::string as_somebody;
  if (::geteuid() == 0) {  // whom permissions do not stop
    fs::permissions(folder_, fs::perms::all);
    fs::copy_file(IDMINT_BINARY, folder_ / "idmint");
    as_somebody = "setpriv --reuid 65534 --regid 65534 --clear-groups env PATH=$PWD ";
    if (run(as_somebody + "idmint version").status != 0) {
      GTEST_SKIP() << "runs as root, and cannot become anybody else";
    }
  }
  output("idmint create orders --store sqlite:ids.db; chmod 444 ids.db; mkdir d; chmod 555 d");
  const Ended next = run(as_somebody + "idmint next orders --store sqlite:ids.db");
  EXPECT_EQ(next.status, 9) << next.err;
  EXPECT_EQ(next.out, "");
  EXPECT_EQ(run("XDG_DATA_HOME=$PWD/d " + as_somebody + "idmint create orders").status, 9);
  EXPECT_EQ(run(as_somebody + "idmint create orders --store sqlite:d/ids.db").status, 9);
}

// ---- standard output

TEST_F(Cli, AReaderThatGoesAwayIsNoError) {
  const Ended ended = run("idmint next uuid7 -n 100000000 | head -n 1; echo ${PIPESTATUS[0]}");
  EXPECT_THAT(ended.out, MatchesRegex(std::string(kUuid7) + "\n141\n"));
  EXPECT_EQ(ended.err, "");
  EXPECT_EQ(run("trap '' PIPE; idmint next uuid7 -n 100000000 | head -n 1 >/dev/null; echo "
                "${PIPESTATUS[0]}")
                .out,
            "141\n");
  // Takes after the reader went away would be lost for nothing.
  output("idmint create orders");
  run("idmint next orders -n 50000000 | head -n 1");
  EXPECT_LT(std::stoll(output("idmint next orders")), 5'000'000);
}

TEST_F(Cli, AFullDiskIsAnError) {
  for (const std::string words :
       {"next uuid7", "next uuid7 -n 1000000", "formats", "--help", "--version", "help",
        "next --help", "check x --as integer", "inspect 1", "list --json", "version",
        "version --json", "completion bash", "completion zsh", "completion fish",
        "create --help --json", "create orders --json", "doctor", "plan --help"}) {
    const Ended ended = run("idmint " + words + " >/dev/full");
    EXPECT_EQ(ended.status, 7) << words;
    EXPECT_THAT(ended.err, HasSubstr("cannot write standard output (No space left")) << words;
    EXPECT_EQ(ended.err.find("is lost") != std::string::npos, words.starts_with("next uuid7"))
        << words;
  }
  const Ended limited = run("ulimit -f 8; trap '' XFSZ; idmint next uuid7 -n 1000 >ids");
  EXPECT_EQ(limited.status, 7);
}

TEST_F(Cli, AClosedStandardOutputNeverBecomesAFile) {
  output("idmint create orders");
  const Ended ended = run("idmint next orders >&-");
  EXPECT_EQ(ended.status, 7);
  EXPECT_THAT(ended.err, HasSubstr("cannot write standard output, which is closed"));
  const Ended reading = run("idmint next orders 1</dev/null");
  EXPECT_EQ(reading.status, 7);
  EXPECT_THAT(reading.err, HasSubstr("standard output, which is open for reading only"));
  EXPECT_EQ(run("idmint --help >&-").status, 7);
  run("idmint next snowflake --worker 1 >&-");
  // Nor does a file become standard error: the notice would stand in the state file.
  EXPECT_EQ(run("idmint next snowflake --worker 2 2>&-").status, 0);
  EXPECT_EQ(run("grep -c notice home/.local/share/idmint/snowflake-*-2.state; grep -c 'made the' "
                "home/.local/share/idmint/snowflake-*-2.state")
                .out,
            "0\n0\n");
  EXPECT_EQ(run("idmint next snowflake --worker 2 <&- 2>&-").status, 0);
  EXPECT_EQ(output("idmint next orders"), "1\n");
}

TEST_F(Cli, APipeThatDoesNotBlockGetsEveryLine) {
  // When the pipe is full, a page of it is read: what is written next is cut short.
  EXPECT_EQ(output("python3 -c '\nimport os, select, subprocess\n"
                   "r, w = os.pipe(); os.set_blocking(w, False)\n"
                   "p = subprocess.Popen([\"idmint\", \"next\", \"uuid7\", \"-n\", \"300000\"], "
                   "stdout=w)\n"
                   "while select.select([], [w], [], 0)[1]: os.sched_yield()\n"
                   "data = os.read(r, 5000)\n"
                   "while select.select([], [w], [], 0)[1]: os.sched_yield()\n"
                   "os.close(w)\n"
                   "data += open(r, \"rb\", 0).readall()\n"
                   "print(p.wait(), len(data), len(set(data.split())))'"),
            "0 11100000 300000\n");
}

TEST_F(Cli, ASignalStopsAfterAWholeLine) {
  // The reader takes half a block, so that the writer waits within one: it sleeps nowhere else.
  // The place in the block differs: a writer that is stopped at once may by chance end with a line.
  const std::array<std::pair<std::string, int>, 3> signals{
      {{"INT", 130}, {"TERM", 143}, {"HUP", 129}}};
  for (int i = 0; i < 18; ++i) {
    const auto& [signal, status] = signals.at(static_cast<std::size_t>(i % 3));
    const Ended ended =
        run("set -m; mkfifo p; idmint next uuid7 -n 1000000000000 >p & exec 3<p; head -c " +
            std::to_string(30'000 + 5'000 * i) +
            " <&3 >ids; until grep -q '^State:.S' /proc/$!/status; do :; done; kill -" + signal +
            " $!; cat <&3 >>ids; wait $!; echo $?; rm p; tail -c 1 ids | od -An -tx1; "
            "grep -vcE '^.{36}$' ids");
    EXPECT_THAT(ended.out, StartsWith(std::to_string(status) + "\n 0a\n0\n")) << signal;
  }
  // A signal that was ignored stays ignored.
  EXPECT_EQ(run("trap '' TERM; mkfifo p; idmint next uuid7 -n 200000 >p & exec 3<p; read -r first "
                "<&3; kill -TERM $!; cat <&3 | wc -l; wait $!; echo $?")
                .out,
            "199999\n0\n");
}

TEST_F(Cli, ProgressOnlyWhereATerminalShowsIt) {
  if (!has("script")) GTEST_SKIP() << "script (bsdutils) makes the terminal";
  // At 4096 ids a millisecond these take longer than a second.
  const std::string long_run = "idmint next snowflake --worker 1 -n 6000000 >/dev/null";
  EXPECT_THAT(run("script -qefc '" + long_run + "' /dev/null").out,
              ContainsRegex("idmint: [0-9]+ of 6000000 ids"));
  EXPECT_EQ(run(long_run).err, "");
}

TEST_F(Cli, ColourOnlyOnATerminalThatWantsIt) {
  if (!has("script")) GTEST_SKIP() << "script (bsdutils) makes the terminal";
  EXPECT_THAT(run("script -qefc 'idmint formats' /dev/null").out, HasSubstr("\x1b["));
  EXPECT_THAT(run("script -qefc 'NO_COLOR=1 idmint formats' /dev/null").out,
              Not(HasSubstr("\x1b[")));
  EXPECT_THAT(output("idmint formats"), Not(HasSubstr("\x1b[")));
}

// ---- several processes

TEST_F(Cli, ProcessesThatCreateAndTakeAtOnce) {
  const Ended ended = run(
      "for i in 1 2 3 4 5 6; do (idmint create orders --start 10 && for j in {1..20}; do idmint "
      "next orders -n 50 || exit; done) >out.$i & done; wait; cat out.* | sort -n | cmp - <(seq "
      "10 6009) && echo same");
  EXPECT_EQ(ended.out, "same\n");
  EXPECT_EQ(ended.err, "");
}

TEST_F(Cli, SnowflakesOfOneWorkerAtOnce) {
  const Ended ended = run(
      "for i in 1 2 3; do (idmint next snowflake --worker 5 -n 200000 >out.$i; echo $? >status.$i)"
      " & done; wait; cat status.*; cat out.* | sort | uniq -d | wc -l; cat out.* | wc -l");
  const std::vector<std::string> lines = lines_of(ended.out);
  ASSERT_EQ(lines.size(), 5u) << ended.out;
  const auto served = std::count(lines.begin(), lines.begin() + 3, "0");
  const auto refused = std::count(lines.begin(), lines.begin() + 3, "7");
  EXPECT_EQ(served + refused, 3) << ended.out << ended.err;
  EXPECT_GE(served, 1);
  EXPECT_EQ(lines[3], "0") << "repeats";
  EXPECT_GE(std::stol(lines[4]), served * 200'000);
}

// ---- list, peek, inspect, formats

TEST_F(Cli, Tables) {
  const Ended none = run("idmint list");
  EXPECT_EQ(none.status, 0);
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(output("idmint list --json"), "[]\n");
  output(
      "idmint create orders --start 1000; idmint create small --max 10; idmint next small -n 10 "
      ">/dev/null");
  EXPECT_EQ(output("idmint list"),
            "NAME    STRATEGY  NEXT      LEFT   USED  STATE\n"
            "orders  counter   1000  9.22e+18    0 %  open\n"
            "small   counter     11         0  100 %  used up\n");
  EXPECT_THAT(run("idmint doctor").out, HasSubstr("9.22e+18 left")) << "alike";
  output("idmint create wide --digits 15");
  EXPECT_THAT(output("idmint list"), HasSubstr("  999,999,999,999,999    0 %  open\n"));
  output("idmint create some --max 1000; idmint next some -n 5 >/dev/null");
  EXPECT_THAT(output("idmint list"), ContainsRegex("some +counter +6 +995 +<1 %"));
  output("idmint next some -n 490 >/dev/null; idmint create blocks --strategy striped --stripes 4");
  EXPECT_THAT(output("idmint list"), ContainsRegex("some +counter +496 +505 +49 %"));
  EXPECT_THAT(output("idmint list"), ContainsRegex("blocks +striped +- +9.22e.18 +0 %"));
  const std::string peek = output("idmint peek orders");
  EXPECT_THAT(peek, ContainsRegex("next +1000\n"));
  EXPECT_THAT(peek, ContainsRegex("left +9223372036854774807\n"));
  EXPECT_THAT(peek, ContainsRegex("store +sqlite:.*/home/.local/share/idmint/ids.db\n"));
  EXPECT_EQ(lines_of(output("idmint formats")).size(), 16u);
}

// ---- pools of worker ids

// As a process that mints from the pool web leaves it in ids.db.
std::string held(int worker, const std::string& until) {
  return "sqlite3 ids.db \"UPDATE workers SET token = x'a" + std::to_string(worker) +
         "000000000000000000000000000000', holder = 'db1, process 7', generation = 5, minted_until "
         "= 347155200000, held_until = " +
         until + " WHERE pool = 'web' AND worker = " + std::to_string(worker) + "\"; ";
}
const std::string kPoolLayout = "41t10w12s epoch 2025-01-01T00:00:00Z";
const std::string kForAnHour = "(strftime('%s', 'now') + 3600) * 1000";

TEST_F(Cli, APoolIsMadeOnceWithItsLayout) {
  const std::string store = "export IDMINT_STORE=sqlite:ids.db; ";
  EXPECT_EQ(output(store + "idmint create web --kind pool --layout twitter --workers 16"), "");
  EXPECT_EQ(output(store + "idmint create web --kind pool --layout twitter"), "") << "again";
  const Ended other =
      run(store + "idmint create web --kind pool --layout 'twitter epoch 2020-01-01'");
  EXPECT_EQ(other.status, 5);
  EXPECT_THAT(other.err, HasSubstr("epoch 2020-01-01T00:00:00Z here"));
  EXPECT_EQ(run(store + "idmint create web --kind pool --layout twitter --workers 17").status, 5);
  const Ended again = run(store + "idmint create web --kind pool");
  EXPECT_EQ(again.status, 0) << "as it has";
  EXPECT_EQ(again.err, "");
  EXPECT_EQ(run(store + "idmint create web --kind pool --prefix w-").status, 5);
  EXPECT_EQ(run(store + "idmint create web --kind pool --json").out.find("\"created\":true"),
            std::string::npos);
  const Ended usual = run(store + "idmint create jobs --kind pool --prefix j-");
  EXPECT_EQ(usual.status, 0);
  EXPECT_EQ(usual.err,
            "idmint: jobs has the layout sequence-generator, as no --layout was given\n");
  EXPECT_EQ(output(store + "idmint create jobs --kind pool --prefix j-"), "") << "no news";
  EXPECT_EQ(output(store + "idmint list"),
            "NAME  STRATEGY  NEXT   LEFT  USED  STATE\n"
            "jobs  pool         -  1,024   0 %  open\n"
            "web   pool         -     16   0 %  open\n");
  EXPECT_EQ(output(store + "idmint peek web"),
            "POOL       web\n"
            "strategy   pool\n"
            "guarantee  unique\n"
            "layout     41t10w12s epoch 2010-11-04T01:42:54.657Z\n"
            "workers    16\n"
            "free       16\n"
            "state      open\n"
            "store      sqlite:ids.db\n");
  EXPECT_EQ(
      output(store + "idmint peek web --json"),
      "{\"name\":\"web\",\"strategy\":\"pool\",\"guarantee\":\"unique\",\"first\":\"0\","
      "\"last\":\"15\",\"next\":null,\"index\":null,\"left\":\"16\",\"state\":\"open\",\"layout\":"
      "\"41t10w12s epoch 2010-11-04T01:42:54.657Z\",\"workers\":16,\"prefix\":\"\",\"encoding\":"
      "\"canonical\",\"check\":\"none\",\"leased_from\":null,\"store\":\"sqlite:ids.db\"}\n");
  output(store +
         "idmint create links --kind pool --layout js-safe --prefix l- --encoding base58 --check "
         "luhn");
  EXPECT_THAT(output(store + "idmint peek links"),
              HasSubstr("prefix     l-\nencoding   base58\ncheck      luhn\nfree       64\n"));
  EXPECT_THAT(output(store + "idmint peek links --json"),
              HasSubstr("\"prefix\":\"l-\",\"encoding\":\"base58\",\"check\":\"luhn\""));
  for (const std::string words :
       {"x --strategy pool", "x --kind pool --strategy counter", "x --kind pool --start 5",
        "x --kind pool --digits 9", "x --kind pond", "x --layout twitter", "x --workers 4",
        "x --kind pool --workers 0", "x --kind pool --workers 1025", "x --kind pool --layout nix",
        "x --kind pool --adopt counter"}) {
    const Ended refused = run(store + "idmint create " + words);
    EXPECT_EQ(refused.status, 2) << words;
    EXPECT_THAT(refused.err, MatchesRegex("idmint: [^\n]+\n")) << words;
  }
  EXPECT_THAT(run(store + "idmint raise web --past 5").err,
              AllOf(StartsWith("idmint: pool web in "), HasSubstr("workers raise web --past"),
                    Not(HasSubstr("IDMINT_STORE"))));
  EXPECT_EQ(run(store + "idmint alter web --max 31").status, 2);
  EXPECT_EQ(output(store + "idmint retire web --yes"), "");
  EXPECT_EQ(run(store + "idmint create web --kind pool --layout twitter").status, 5);
}

TEST_F(Cli, ASecondPoolOfOneLayoutIsToldOf) {
  const std::string create = "export IDMINT_STORE=sqlite:ids.db; idmint create ";
  EXPECT_EQ(run(create + "web --kind pool --layout discord").err, "");
  EXPECT_EQ(run(create + "shop --kind pool --layout twitter; idmint create orders").err, "");
  EXPECT_EQ(run(create + "app --kind pool --layout sequence-generator").err,
            "idmint: app gives the same ids as web, for it has the same layout: where ids of both "
            "meet, use one pool\n")
      << "but for the width of the time";
  EXPECT_EQ(run(create + "more --kind pool --layout twitter && idmint retire shop --yes; " +
                create + "more --kind pool --layout twitter")
                .err,
            "idmint: more gives the same ids as shop, for it has the same layout: where ids of "
            "both meet, use one pool\n");
}

TEST_F(Cli, APoolThatWouldMintNothingIsNotMade) {
  const std::string store = "export IDMINT_STORE=sqlite:ids.db; ";
  const Ended over = run(store + "idmint create web --kind pool --layout baidu");
  EXPECT_EQ(over.status, 2);
  EXPECT_THAT(over.err, ContainsRegex("pool web would mint nothing: the time of the Snowflake "
                                      "layout has passed its end, 2024-11-20T[^\n]+: give a layout "
                                      "with a later epoch or more time bits"));
  EXPECT_EQ(run("ls ids.db").status, 2) << "no store is made for it";
  const Ended soon =
      run(store + "idmint create web --kind pool --layout '41t10w12s epoch 2200-01-01'");
  EXPECT_EQ(soon.status, 2);
  EXPECT_THAT(soon.err, HasSubstr("give an earlier epoch"));
  output("printf '[sequence.orders]\n[sequence.web]\nkind = \"pool\"\nlayout = \"baidu\"\n' >f");
  for (const std::string dry : {"", " --dry-run"}) {
    const Ended file = run(store + "idmint apply f" + dry);
    EXPECT_EQ(file.status, 2) << "a fault of the file alone";
    EXPECT_THAT(file.out, HasSubstr("refused      web: pool web would mint nothing"));
  }
  EXPECT_EQ(run(store + "idmint peek orders").status, 3) << "none is made where one is refused";
}

TEST_F(Cli, WhoHoldsTheWorkerIdsOfAPool) {
  const std::string store = "export IDMINT_STORE=sqlite:ids.db; ";
  output(store + "idmint create web --kind pool --layout sequence-generator --workers 4");
  EXPECT_EQ(output(store + "idmint workers list web"),
            "not listed: 4 never used (--all lists them)\n0 of 4 worker ids are owned\n");
  EXPECT_EQ(lines_of(output(store + "idmint workers list web --all")).size(), 6u);
  output(held(1, kForAnHour) + held(2, "0"));
  EXPECT_THAT(
      output(store + "idmint workers list web"),
      MatchesRegex(
          "WORKER  HELD BY         GENERATION  MINTED UNTIL                 UNITS  HELD FOR\n"
          "     1  db1, process 7           5  2026-01-01T00:00:00Z  347155200000  [^\n]+\n"
          "     2  db1, process 7           5  2026-01-01T00:00:00Z  347155200000  over\n"
          "not listed: 2 never used \\(--all lists them\\)\n"
          "1 of 4 worker ids are owned\n"));
  EXPECT_THAT(output(store + "idmint peek web"), HasSubstr("free       3\n"));
  const std::string print =
      " | python3 -c 'import json, sys; pool = json.load(sys.stdin); print(pool[\"workers\"], "
      "pool[\"owned\"], [(w[\"worker\"], w[\"owned\"], w[\"held_by\"], w[\"generation\"], "
      "w[\"minted_until\"], w[\"minted_until_units\"], w[\"held_for_seconds\"] is None) for w in "
      "pool[\"used\"]], pool[\"left_out\"], pool[\"leased_from\"])'";
  EXPECT_EQ(
      output(store + "idmint workers list web --json" + print),
      "4 1 [(1, True, 'db1, process 7', '5', '2026-01-01T00:00:00Z', '347155200000', False), (2, "
      "False, 'db1, process 7', '5', '2026-01-01T00:00:00Z', '347155200000', True)] 2 None\n");
}

// Nobody reads 65,536 lines that say the same.
TEST_F(Cli, WorkerIdsThatNobodyHasUsedAreNotListed) {
  const std::string store = "export IDMINT_STORE=sqlite:ids.db; ";
  output(store + "idmint create web --kind pool --layout sequence-generator --workers 4");
  const std::string all = output(store + "idmint workers list web --all");
  EXPECT_EQ(run(store + "idmint workers raise web --past 2025-01-01").status, 0);
  EXPECT_EQ(output(store + "idmint workers list web"),
            "not listed: 4 not used from 2025-01-01T00:00:00.001Z on (--all lists them)\n"
            "0 of 4 worker ids are owned\n");
  EXPECT_EQ(lines_of(output(store + "idmint workers list web --all")).size(), lines_of(all).size());
  output(held(1, "0") + "idmint next web --store sqlite:ids.db");
  EXPECT_THAT(output(store + "idmint workers list web"),
              MatchesRegex("WORKER [^\n]+\n     0  - [^\n]+\n     1  db1[^\n]+ over\n"
                           "not listed: 2 not used [^\n]+\n0 of 4 worker ids are owned\n"));
  output(store + "idmint next web; idmint next web");
  EXPECT_EQ(lines_of(output(store + "idmint workers list web")).size(), 6u) << "all are used";
}

// As next says.
TEST_F(Cli, FromWhenOnIdsCanBeMintedWhereAllAreAheadOfTheClock) {
  const std::string store = "export IDMINT_STORE=sqlite:ids.db; ";
  output(store + "idmint create web --kind pool --layout sequence-generator --workers 4");
  // 2030-01-01, in milliseconds since 2015.
  output("sqlite3 ids.db 'UPDATE workers SET minted_until = 473385600000'");
  EXPECT_THAT(output(store + "idmint peek web"),
              HasSubstr("free       4, none before 2029-12-31T23:59:40Z\nstate      open\n"));
  EXPECT_EQ(output(store + "idmint workers list web | tail -n 1"),
            "0 of 4 worker ids are owned; none can be leased before "
            "2029-12-31T23:59:40Z\n");
  for (const std::string command : {"peek web", "workers list web"})
    EXPECT_THAT(output(store + "idmint " + command + " --json"),
                HasSubstr("\"leased_from\":\"2029-12-31T23:59:40Z\""));
  EXPECT_EQ(run(store + "idmint next web").status, 7);
}

TEST_F(Cli, AWorkerIdIsReleasedOrAllAreRaised) {
  const std::string store = "export IDMINT_STORE=sqlite:ids.db; ";
  output(store + "idmint create web --kind pool --layout sequence-generator --workers 4");
  output(held(1, kForAnHour) + held(2, kForAnHour));
  const Ended released = run(store + "idmint workers release web 1");
  EXPECT_EQ(released.status, 0);
  EXPECT_EQ(released.out,
            "released worker id 1 of web, held by db1, process 7 under generation 5\n");
  EXPECT_EQ(released.err,
            "idmint: its holder may mint on below 2026-01-01T00:00:00Z, which is safe: the next "
            "one begins there\n");
  EXPECT_EQ(output(store + "idmint workers release web 1"), "nobody owned worker id 1 of web\n");
  EXPECT_EQ(output(store + "idmint workers release web 1 --json | grep -o '\"released.*'"),
            "\"released\":false}\n");
  EXPECT_EQ(output(store + "idmint workers release web 2 --json | grep -o '\"released.*'"),
            "\"released\":true}\n");
  output(held(3, kForAnHour));
  const Ended raised = run(store + "idmint workers raise web --past 2026-01-02");
  EXPECT_EQ(raised.status, 0);
  EXPECT_THAT(raised.out, StartsWith("raised web past 2026-01-02T00:00:00Z: "));
  EXPECT_THAT(raised.err, HasSubstr("no process may mint from web while it is raised"));
  EXPECT_THAT(output(store + "idmint workers list web --all"),
              AllOf(HasSubstr("2026-01-02T00:00:00.001Z  347241600001"),
                    EndsWith("\n0 of 4 worker ids are owned\n")));
  EXPECT_EQ(
      output(store + "idmint workers raise web --past 2025-01-01 --json 2>/dev/null"),
      "{\"pool\":\"web\",\"past\":\"2025-01-01T00:00:00Z\",\"floor_units\":\"315619200001\"}\n");
  const Ended years = run(store + "idmint workers raise web --past 2080-01-01");
  EXPECT_EQ(years.status, 2);
  EXPECT_THAT(years.err, HasSubstr("there is no way back"));
  EXPECT_EQ(run(store + "idmint workers raise web --past 2262-01-01").status, 2) << "no such bits";
  EXPECT_EQ(run(store + "idmint workers raise web --past 2014-01-01").status, 2) << "no epoch yet";
}

TEST_F(Cli, WorkersOfWhatIsNoPool) {
  output("idmint create orders; idmint create web --kind pool --layout twitter");
  for (const std::string words :
       {"", "list", "lists web", "list web 1", "list web --past 2026-01-01", "release web",
        "release web x", "release web 1024", "release web 1 --all", "raise web", "raise web 1",
        "raise web --past soon", "list uuid7", "list web --store memory:"}) {
    const Ended refused = run("idmint workers " + words);
    EXPECT_EQ(refused.status, 2) << words;
    EXPECT_EQ(refused.out, "") << words;
    EXPECT_THAT(refused.err, MatchesRegex("idmint: [^\n]+\n")) << words;
  }
  EXPECT_EQ(run("idmint workers list nix").status, 3);
  EXPECT_EQ(run("idmint workers list orders").status, 5);
  output("idmint retire web --yes");
  EXPECT_EQ(run("idmint workers list web").status, 5);
}

// Python's output for the ids of a pipe, one a line: `parts` has (worker, time in milliseconds,
// sequence) of each.
std::string decoded(const std::string& print) {
  return " | idmint inspect - --json --layout '" + kPoolLayout +
         "' | python3 -c '\nimport datetime, json, sys\nparts = []\n"
         "for line in sys.stdin:\n"
         "  for reading in json.loads(line)[\"readings\"]:\n"
         "    fields = reading[\"fields\"]\n"
         "    if fields.get(\"layout\") != \"" +
         kPoolLayout +
         "\": continue\n"
         "    time = datetime.datetime.fromisoformat(fields[\"time\"].replace(\"Z\", \"+00:00\"))\n"
         "    parts.append((fields[\"worker\"], round(time.timestamp() * 1000), "
         "fields[\"sequence\"]))\n" +
         print + "'";
}

TEST_F(Cli, IdsOfAPoolAreOfItsLayout) {
  const std::string store = "export IDMINT_STORE=sqlite:ids.db; ";
  output(store + "idmint create web --kind pool --layout '" + kPoolLayout + "' --workers 4");
  output(store + "idmint next web >ids; idmint next web -n 9000 >>ids; idmint next web -n 2 >>ids");
  EXPECT_EQ(output("sort -u ids | wc -l; tail -n +2 ids | head -n 9000 | sort -nuc"), "9003\n");
  EXPECT_EQ(output("cat ids" + decoded("workers = [worker for worker, time, sequence in parts]\n"
                                       "print(len(parts), set(workers) <= set(range(4)), "
                                       "len(set(workers[1:9001])), len(set(workers)))\n"
                                       "now = datetime.datetime.now().timestamp() * 1000\n"
                                       "print(all(abs(part[1] - now) < 3.6e6 for part in parts))")),
            "9003 True 1 3\nTrue\n")
      << "a command has one worker id, and the next one that of the smallest bound";
  EXPECT_THAT(output(store + "idmint next web -n 2 --json"),
              MatchesRegex("(\\{\"id\":\"[0-9]{17,19}\",\"source\":\"web\"\\}\n){2}"));
  for (const std::string option : {"--prefix w-", "--worker 1", "--layout twitter"}) {
    const Ended refused = run(store + "idmint next web " + option);
    EXPECT_EQ(refused.status, 2) << option;
    EXPECT_THAT(refused.err, HasSubstr("settled when it is created")) << option;
    EXPECT_THAT(refused.err, HasSubstr(option.substr(0, option.find(' ')))) << option;
  }
  EXPECT_THAT(run(store + "idmint create x --kind pool --epoch 2025-01-01").err,
              HasSubstr("no option \"--epoch\": did you mean --layout "
                        "\"sequence-generator epoch"));
  output(store +
         "idmint create jobs --kind pool --layout twitter --prefix j- --encoding base32 --check "
         "luhn");
  const std::vector<std::string> jobs = lines_of(output(store + "idmint next jobs -n 5000"));
  EXPECT_EQ(std::set(jobs.begin(), jobs.end()).size(), 5000U);
  for (const std::string& job : jobs) ASSERT_THAT(job, MatchesRegex("j-[0-9A-Z]{14}"));
}

// A call takes as much id-time as it asks for, and no more: one unit if it mints a few ids.
TEST_F(Cli, TheWindowOfAPoolIsTakenByWhoMintsMore) {
  const std::string store = "export IDMINT_STORE=sqlite:ids.db; ";
  const std::string of_bound =
      "; idmint workers list web --json --numbers | grep -o '_units\":[0-9]*'";
  output(store + "idmint create web --kind pool --layout '" + kPoolLayout + "' --workers 1");
  const std::string print = "print(parts[-1][1] - parts[0][1], parts[0][1] - 1735689600000)";
  const auto taken = [&](const std::string& next) {
    std::istringstream answer(
        output(store + next + decoded(print) + of_bound + " | grep -o '[0-9]*$'"));
    std::int64_t lasted = 0;
    std::int64_t first = 0;
    std::int64_t bound = 0;
    answer >> lasted >> first >> bound;
    return std::pair{lasted, bound - first};
  };
  EXPECT_EQ(taken("idmint next web -n 3"), std::pair(std::int64_t{0}, std::int64_t{1}));
  EXPECT_EQ(taken("idmint next web --window 1h"), std::pair(std::int64_t{0}, std::int64_t{1}));
  const auto [lasted, units] = taken("idmint next web -n 5000 --window 1h");
  EXPECT_GE(lasted, 1);
  EXPECT_GE(units, 3'600'000);
  // The pool has no other worker id, so the next process waits, or allows as much.
  const Ended ahead = run(store + "idmint next web");
  EXPECT_EQ(ahead.status, 7);
  EXPECT_THAT(ahead.err,
              MatchesRegex("idmint: pool \"web\": [^\n]+ the nearest begins (59 min|1 h)[^\n]* "
                           "ahead of this clock, and 20 s are allowed [^\n]+\n"));
  EXPECT_GE(taken("idmint next web --window 1h").second, 1);
  for (const std::string window : {"-1s", "x", "''"})
    EXPECT_EQ(run(store + "idmint next web --window " + window).status, 2) << window;
}

TEST_F(Cli, CommandsOnAPoolOneAfterTheOther) {
  const std::string store = "export IDMINT_STORE=sqlite:ids.db; ";
  output(store + "idmint create one --kind pool --layout '" + kPoolLayout + "' --workers 1");
  const std::string ids = output(store +
                                 "for i in {1..50}; do idmint next one -n 2; done >ids; "
                                 "sort -nuc ids && wc -l <ids");
  EXPECT_EQ(ids, "100\n") << "with one worker id they go up from command to command";
  EXPECT_EQ(output(store + "idmint workers list one | tail -n 1"), "0 of 1 worker ids are owned\n");
  // There are few long units: four for each worker id, this one and three ahead of the clock.
  output(store + "idmint create few --kind pool --layout '30t10w12s unit 3600s' --workers 2");
  EXPECT_EQ(output(store + "for i in {1..8}; do idmint next few; done | sort -u | wc -l"), "8\n");
  const Ended ended = run(store + "for i in {1..50}; do idmint next few || exit; done");
  EXPECT_EQ(ended.status, 7);
  EXPECT_THAT(ended.err, HasSubstr("the nearest begins 4 h ahead of this clock, and 3 h are "
                                   "allowed (max_drift); ask again in 1 h, or"));
}

TEST_F(Cli, CommandsOnAPoolAtTheSameTime) {
  const std::string store = "export IDMINT_STORE=sqlite:ids.db; ";
  output(store + "idmint create web --kind pool --layout '" + kPoolLayout + "' --workers 8");
  EXPECT_EQ(output(store + R"(
      for round in {1..5}; do
        started=
        for i in {1..8}; do idmint next web -n 3000 >got.$i & started+=" $!"; done
        for command in $started; do wait $command || echo refused; done
        cat got.*
      done | sort -u | wc -l)"),
            "120000\n");
  // One holds a worker id until it is read from: so many ids are more than a pipe has room for.
  run(store + "idmint create two --kind pool --layout '" + kPoolLayout + "' --workers 2");
  const std::string print = "print(parts[0][0] != parts[1][0], len({part[0] for part in parts}))";
  EXPECT_EQ(output(store + R"(
      mkfifo p; idmint next two -n 200000 --window 1h >p & exec 3<p; read -r first <&3
      idmint workers list two | tail -n 1
      idmint next two >ids; echo $first >>ids; cat <&3 >>ids; wait $!
      sort -u ids | wc -l; head -n 100 ids)" +
                   decoded(print)),
            "1 of 2 worker ids are owned\n200001\nTrue 2\n");
}

TEST_F(Cli, APoolWhoseWorkerIdsAreAllOwned) {
  const std::string store = "export IDMINT_STORE=sqlite:ids.db; ";
  output(store + "idmint create web --kind pool --layout sequence-generator --workers 2");
  output(held(0, kForAnHour) + held(1, kForAnHour));
  const Ended refused = run(store + "idmint next web --json");
  EXPECT_EQ(refused.status, 8);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, HasSubstr("every worker id has an owner"));
  EXPECT_THAT(refused.err, HasSubstr("the first one is held until 2"));
  EXPECT_THAT(lines_of(refused.err), SizeIs(1));
  EXPECT_EQ(run(store + "idmint workers release web 1").status, 0);
  EXPECT_THAT(output(store + "idmint next web | idmint inspect -"), ContainsRegex("worker +1\n"));
  output(store + "idmint retire web --yes");
  EXPECT_EQ(run(store + "idmint next web").status, 5);
}

TEST_F(Cli, TheLockOfAStateFileIsWaitedForAsLongAsTimeoutSays) {
  // flock(1) holds the file while the command that it starts runs.
  for (const std::string format : {"snowflake --worker 3", "uuid1 --node 02:00:5e:00:00:01",
                                   "uuid2 --node 02:00:5e:00:00:01 --domain group --local-id 7"}) {
    output("idmint next " + format + " 2> /dev/null");
    const auto start = std::chrono::steady_clock::now();
    const Ended ended = run("flock $(ls -t ~/.local/share/idmint/*.state | head -1) idmint next " +
                            format + " --timeout 50ms");
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds{4}) << format;
    EXPECT_EQ(ended.status, 7) << format;
    EXPECT_THAT(ended.err, HasSubstr("another generator holds it")) << format;
  }
}

TEST_F(Cli, WithWaitAPoolWhoseOnlyOwnerWasKilledIsWaitedFor) {
  const std::string store = "export IDMINT_STORE=sqlite:ids.db; ";
  output(store + "idmint create web --kind pool --layout '" + kPoolLayout + "' --workers 1");
  // It holds its worker id until it is read from: so many ids are more than a pipe has room for.
  EXPECT_EQ(output(store + R"(
      mkfifo p; idmint next web -n 200000 --window 1s >p & exec 3<p; read -r first <&3
      kill -9 $!; wait $! 2>/dev/null; idmint next web --wait | wc -l)"),
            "1\n");
  output(held(0, kForAnHour));
  const Ended ended =
      run(store + "timeout --preserve-status -s INT 1 idmint next web --wait; echo $?");
  EXPECT_EQ(ended.out, "130\n") << ended.err;
  const Ended no_pool = run("idmint next uuid7 --wait");
  EXPECT_EQ(no_pool.status, 2);
  EXPECT_THAT(no_pool.err, HasSubstr("--wait waits for a worker id of a pool"));
}

// ---- what idmint says of itself

// A change of a sequence is reported on a terminal only.
bool quiet(const std::string& line) {
  return std::ranges::any_of(std::array{"create", "raise", "alter", "retire"}, [&](const char* c) {
    return line.starts_with(std::string("  $ idmint ") + c);
  });
}

TEST_F(Cli, EveryExampleOfTheHelpWorks) {
  int examples = 0;
  for (const std::string command :
       {"", "next", "create", "raise", "alter", "retire", "move", "list", "peek", "workers",
        "inspect", "bounds", "convert", "check", "name", "formats", "completion", "version"}) {
    const std::string help = output("idmint " + command + " --help");
    EXPECT_THAT(help, HasSubstr("Examples:\n")) << command;
    for (const std::string& line : lines_of(help)) {
      if (!line.starts_with("  $ idmint")) continue;
      ++examples;
      const Ended ended = run(line.substr(4));
      EXPECT_EQ(ended.status, 0) << line << "\n" << ended.err;
      EXPECT_TRUE(!ended.out.empty() || quiet(line)) << line;
    }
  }
  EXPECT_GE(examples, 15);
}

// But for examples, which are copied in one piece.
TEST_F(Cli, TheHelpFitsEightyColumns) {
  for (const std::string command :
       {"",        "next",       "create",  "raise",      "alter",   "retire", "move",
        "list",    "peek",       "inspect", "bounds",     "convert", "check",  "name",
        "plan",    "bench",      "doctor",  "apply",      "insert",  "sweep",  "workers",
        "formats", "completion", "version", "plan-change"}) {
    for (const std::string& line : lines_of(output("idmint " + command + " --help"))) {
      EXPECT_TRUE(line.size() <= 80 || line.starts_with("  $ ")) << command << ": " << line;
    }
  }
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// But for examples, and for a word that is too long for its place, behind a label at most.
void fits(const std::string& text, std::size_t columns, const std::string& what) {
  constexpr std::size_t label = 16;
  for (std::string line : lines_of(text)) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.starts_with("  $ ") || line.starts_with("  > ")) continue;
    const std::size_t last_word = line.find_last_of(' ') + 1;
    EXPECT_TRUE(line.size() <= columns || last_word <= label ||
                line.find_first_not_of(' ') == last_word)
        << what << ", " << columns << " columns: " << line;
  }
}

TEST_F(Cli, OutputBreaksBetweenWordsWhereThereAreFewColumns) {
  output("idmint create orders --start 1000; idmint create web --kind pool --layout twitter");
  for (const std::string command :
       {"--help", "create --help", "raise --help", "insert --help", "plan --help", "convert --help",
        "list", "formats", "peek orders", "plan --count 1e6"}) {
    const std::string wide = output("idmint " + command);
    for (const std::size_t columns : {40U, 60U, 79U}) {
      const std::string narrow =
          output("COLUMNS=" + std::to_string(columns) + " idmint " + command);
      if (columns >= 60) fits(narrow, columns, command);
      if (!command.ends_with("help")) continue;
      fits(narrow, columns, command);
      EXPECT_EQ(words_of(narrow), words_of(wide)) << command;
    }
  }
  for (const std::string columns : {"80", "200", "x", ""})
    EXPECT_EQ(output("COLUMNS=" + columns + " idmint create --help"),
              output("idmint create --help"));
  // Without a terminal a message is one line.
  EXPECT_EQ(lines_of(run("COLUMNS=60 idmint next nosuch").err).size(), 1U);
  if (!has("script")) GTEST_SKIP() << "script (bsdutils) makes the terminal";
  const std::string told =
      run("script -qec 'stty cols 60; idmint next nosuch; idmint formats' /dev/null").out;
  fits(told, 60, "terminal");
  EXPECT_GT(lines_of(told).size(), 4U);
}

TEST_F(Cli, TheFirstAndTheLastIdAreTold) {
  const std::string parse =
      " --json | python3 -c 'import json, sys; s = json.load(sys.stdin); "
      "print(s[\"first_id\"], s[\"last_id\"])'";
  EXPECT_EQ(output("idmint create a --prefix INV- --digits 6" + parse), "INV-000001 INV-999999\n");
  EXPECT_EQ(output("idmint create b --max 999999999 --encoding base62" + parse), "000001 15ftgF\n");
  EXPECT_EQ(output("idmint create c --stride 2 --offset 2 --max 99" + parse), "2 98\n");
  EXPECT_EQ(output("idmint create d --digits 8 --check damm --strategy permuted" + parse),
            "00000000 99999992\n");
  if (!has("script")) GTEST_SKIP() << "script (bsdutils) makes the terminal";
  for (const std::string made : {"made e in sqlite:", "e was there already, as defined"})
    EXPECT_THAT(
        run("script -qec 'idmint create e --prefix INV-2026- --digits 10' /dev/null").out,
        AllOf(HasSubstr(made), HasSubstr("; its ids are INV-2026-000001 to INV-2026-999999")));
  EXPECT_EQ(run("idmint create f 2>&1").out, "");
}

// The year in a prefix is seldom meant to count among the digits.
TEST_F(Cli, DigitsOfAPrefixThatLeaveFewAreRefused) {
  const Ended year = run("idmint create a --prefix INV-2026- --digits 6");
  EXPECT_EQ(year.status, 2);
  EXPECT_THAT(year.err,
              AllOf(HasSubstr("4 of them are in the prefix \"INV-2026-\""),
                    HasSubstr("leaves 2 for numbers up to 99"), HasSubstr("(--digits 10)")));
  for (const std::string refused :
       {"--prefix INV-2026- --digits 8", "--prefix 2026 --digits 6", "--prefix A1- --digits 2",
        "--prefix R2D2 --digits 3 --strategy random", "--prefix 2026-11- --digits 8 --check damm"})
    EXPECT_EQ(run("idmint create a " + refused).status, 2) << refused;
  EXPECT_EQ(
      run("printf '[sequence.a]\ndigits = 6\nprefix = \"INV-2026-\"\n' | idmint apply -").status,
      2);
  EXPECT_EQ(run("idmint next digits --prefix INV-2026- --digits 6").status, 2);
  for (const std::string made :
       {"a --prefix INV-2026- --digits 10", "b --prefix INV-2026- --digits 6 --max 99",
        "c --prefix 4 --digits 16 --check luhn --strategy permuted", "d --prefix INV- --digits 2",
        "e --prefix 49 --digits 4", "f --prefix INV-2026- --width 2 --encoding base62"})
    EXPECT_EQ(run("idmint create " + made).status, 0) << made;
  EXPECT_EQ(output("idmint list --toml >all.toml; idmint apply all.toml >/dev/null"), "");
}

TEST_F(Cli, TheHelpAndTheManPageKnowEveryExitStatus) {
  std::string help = output("idmint --help");
  const std::string more = "\n      ";  // of a meaning that takes two lines
  for (std::size_t at = 0; (at = help.find(more)) != std::string::npos;) {
    help.replace(at, more.size(), " ");
  }
  const std::string page = content(IDMINT_MAN_PAGE);
  std::istringstream lines(help.substr(help.find("Exit status:\n")));
  std::string line;
  std::getline(lines, line);
  int rows = 0;
  for (; std::getline(lines, line) && line.starts_with("  ") && line.size() > 4 &&
         std::isdigit(static_cast<unsigned char>(line[3])) != 0;
       ++rows) {
    const std::string status = line.substr(line.find_first_not_of(' '), line.find_last_of(' ', 5));
    const std::size_t meaning = line.find("  ", 4) + 2;
    const std::string number = std::to_string(std::stoi(line));
    EXPECT_THAT(page, HasSubstr("\n" + number + "|T{\n" + line.substr(meaning) + "\nT}\n"));
  }
  EXPECT_EQ(rows, 13);
}

TEST_F(Cli, TheManPageRendersWithoutAWarning) {
  const std::string page = IDMINT_MAN_PAGE;
  if (has("groff")) {
    EXPECT_THAT(output("groff -t -man -ww -Tutf8 " + page), HasSubstr("idmint"));
  } else if (has("man")) {
    EXPECT_THAT(output("man --warnings -l " + page), HasSubstr("idmint"));
  } else {
    GTEST_SKIP() << "neither groff nor man is installed";
  }
  const std::string version = output("idmint version");
  EXPECT_THAT(content(page), HasSubstr("\"" + version.substr(0, version.size() - 1) + "\""));
}

TEST_F(Cli, CompletionScripts) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const std::string script = output("idmint completion " + shell + " | tee " + shell + ".script");
    for (const std::string command : {"next", "create", "list", "peek", "workers", "inspect",
                                      "bounds", "convert", "check", "name", "formats"}) {
      EXPECT_THAT(script, HasSubstr(command)) << shell;
    }
    if (has(shell)) output(shell + " -n " + shell + ".script");
  }
  output("idmint create orders");
  const auto complete = [&](const std::string& words, int at) {
    return output("source bash.script; COMP_WORDS=(" + words +
                  "); COMP_CWORD=" + std::to_string(at) + "; _idmint; echo ${COMPREPLY[*]}");
  };
  EXPECT_EQ(complete("idmint in", 1), "inspect insert\n");
  EXPECT_EQ(complete("idmint next o", 2), "object-id object-id-classic orders\n");
  EXPECT_EQ(complete("idmint peek ''", 2), "orders\n");
  EXPECT_EQ(complete("idmint create x --st", 3),
            "--strategy --start --stride --stripes --step --store\n");
  EXPECT_EQ(complete("idmint bounds k", 2), "ksuid\n");
  EXPECT_EQ(complete("idmint create x --kind p", 4), "pool\n");
  EXPECT_EQ(complete("idmint workers r", 2), "release raise\n");
  output("idmint create ids-pool --kind pool --layout twitter");
  EXPECT_EQ(complete("idmint workers list ''", 3), "ids-pool\n");
  EXPECT_EQ(complete("idmint workers release ids-pool ''", 4), "\n");
  EXPECT_EQ(complete("idmint convert x --to base3", 4), "base32 base32-lower base32hex base36\n");
  EXPECT_EQ(complete("idmint check x --check d", 4), "damm\n");
  EXPECT_EQ(complete("idmint insert x --from o", 4), "object-id object-id-classic orders\n");
  EXPECT_EQ(complete("idmint insert x --stored-as t", 4), "text\n");
  EXPECT_EQ(complete("idmint next snowflake --worker a", 4), "address\n");
  EXPECT_EQ(complete("idmint plan-change --to son", 3), "sonyflake sonyflake-v1\n");
}

// bash for each command; zsh and fish have lists that commands share, so there an option counts
// wherever it stands.
TEST_F(Cli, TheCompletionScriptsHaveEveryOption) {
  const auto words_of = [](const std::string& text) {
    std::istringstream words(text);
    return std::set<std::string>{std::istream_iterator<std::string>(words), {}};
  };
  for (const std::string shell : {"bash", "zsh", "fish"})
    output("idmint completion " + shell + " > " + shell + ".script");
  const std::string zsh = content(folder_ / "zsh.script");
  const std::string fish = content(folder_ / "fish.script");
  std::istringstream commands(
      output("source bash.script; COMP_WORDS=(idmint ''); COMP_CWORD=1; "
             "_idmint; printf '%s\\n' \"${COMPREPLY[@]}\""));
  int with_options = 0;
  for (std::string command; std::getline(commands, command);) {
    if (command.starts_with("-")) continue;
    const std::set<std::string> completed =
        words_of(output("source bash.script; COMP_WORDS=(idmint " + command +
                        " --); COMP_CWORD=2; _idmint; echo ${COMPREPLY[*]}"));
    std::istringstream help(output("idmint " + command + " --help"));
    for (std::string line; std::getline(help, line);) {
      const std::size_t at = line.find("--");
      if (!line.starts_with("  -") || at > 8) continue;
      const std::string option = line.substr(at, line.find_first_of(" ,", at) - at);
      EXPECT_TRUE(completed.contains(option)) << "bash: " << command << " " << option;
      EXPECT_TRUE(zsh.contains("'" + option) || zsh.contains("," + option + "}") ||
                  zsh.contains("*" + option) || zsh.contains("\"" + option + "="))
          << "zsh: " << command << " " << option;
      EXPECT_TRUE(fish.contains(" -l " + option.substr(2) + " "))
          << "fish: " << command << " " << option;
      ++with_options;
    }
  }
  EXPECT_GT(with_options, 100);
}

TEST_F(Cli, TheCompletionScriptsHaveTheFormatsOfTheDescriptors) {
  const std::string correct = "correct the words in src/ids/CMakeLists.txt";
  output("idmint completion bash > bash.script");
  const auto completed = [&](const std::string& words, int at) {
    std::istringstream found(output("source bash.script; COMP_WORDS=(" + words + "); COMP_CWORD=" +
                                    std::to_string(at) + "; _idmint; echo ${COMPREPLY[*]}"));
    return std::vector<std::string>{std::istream_iterator<std::string>(found), {}};
  };
  std::vector<std::string> as = {"typeid"};
  for (const Format* const kind : kinds()) as.emplace_back(kind->name);
  EXPECT_THAT(completed("idmint check x --as ''", 4), UnorderedElementsAreArray(as)) << correct;
  std::vector<std::string> with_bounds;
  for (const Format* const format : formats()) {
    if (format->bounds != nullptr) with_bounds.emplace_back(format->name);
  }
  EXPECT_THAT(completed("idmint bounds ''", 2), UnorderedElementsAreArray(with_bounds)) << correct;
  // "give one of uuid, ulid, ..., or an encoding: canonical, decimal, ...".
  const std::string refusal = run("idmint convert 1 --to none").err;
  for (const std::string& word : completed("idmint convert x --to ''", 4)) {
    EXPECT_THAT(refusal, ContainsRegex("[ ]" + word + "[,\n]")) << correct;
  }
  for (const Format* const kind : kinds()) {
    const std::string name(kind->name);
    EXPECT_EQ(output("source bash.script; COMP_WORDS=(idmint convert x --to " + name +
                     "); COMP_CWORD=4; _idmint; echo ${COMPREPLY[*]}")
                  .starts_with(name),
              refusal.find(" " + name + ",") != std::string::npos)
        << name << ": " << correct;
  }
  for (const std::string shell : {"bash", "zsh", "fish"})
    EXPECT_THAT(output("idmint completion " + shell), Not(HasSubstr("@IDMINT"))) << shell;
}

}  // namespace
