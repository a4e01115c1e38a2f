// plan, bench, doctor as their users run them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/e2e/cli.h"

namespace {

using idmint::e2e::content;
using idmint::e2e::Ended;
using idmint::e2e::lines_of;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Operating : public idmint::e2e::Cli {
 protected:
  // The value of a Python expression over the JSON `json` that the script prints, as print() shows
  // it.
  std::string of_json(const std::string& script, const std::string& expression) {
    return run("(" + script +
               ") | python3 -c 'import json, sys; json = json.load(sys.stdin); print(" +
               expression + ")'")
        .out;
  }
};

// Their examples may end with a warning of doctor: the clock of a test machine, say.
TEST_F(Operating, EveryExampleOfTheHelpWorks) {
  int examples = 0;
  for (const std::string command : {"plan", "plan-change", "bench", "doctor", "apply"}) {
    const std::string help = output("idmint " + command + " --help");
    for (const std::string& line : lines_of(help)) {
      if (!line.starts_with("  $ ")) continue;
      ++examples;
      const Ended ended = run(line.substr(4));
      EXPECT_TRUE(ended.status == 0 ||
                  (line.starts_with("  $ idmint doctor") && ended.status == 20))
          << line << "\n"
          << ended.err;
      EXPECT_TRUE(!ended.out.empty() || line.starts_with("  $ idmint create") ||
                  line.starts_with("  $ printf"))
          << line;
    }
  }
  EXPECT_GE(examples, 10);
}

// ---- plan

TEST_F(Operating, PlanFitsEightyColumns) {
  for (const std::string needs :
       {"", "--digits 12 --hosts 40 --rate 50k/s --shared-store", "--bits 64 --hosts 40",
        "--hosts 500 --database postgresql --rate 2M/h", "--unguessable --database mysql"}) {
    const std::string text = output("idmint plan " + needs);
    EXPECT_THAT(text, HasSubstr("\nRECOMMENDED: ")) << needs;
    EXPECT_THAT(text, Not(HasSubstr("\x1b"))) << needs;
    for (const std::string& line : lines_of(text)) {
      EXPECT_TRUE(line.size() <= 80 || line.find(" idmint ") != std::string::npos) << line;
    }
  }
}

TEST_F(Operating, PlanTellsTheOddsOfABillionOfTwelveDigits) {
  const std::string plan =
      "idmint plan --digits 12 --count 10^9 --hosts 40 --rate 50k/s --shared-store --json";
  EXPECT_EQ(of_json(plan, R"(json["recommended"]["source"])"), "cached\n");
  EXPECT_THAT(output("idmint plan --json"), Not(HasSubstr("-0.0")));
  EXPECT_EQ(of_json(plan, R"([(round(c["odds_that_the_last_collides"], 9), round(c["redraws"]))
             for c in json["alternatives"] + json["lacking_store"] if c["redraws"]])"),
            "[(0.001, 500334), (0.001, 500334)]\n");
  EXPECT_EQ(of_json(plan, R"(json["needs"]["round_trip_seconds"])"), "0.025\n");
}

TEST_F(Operating, PlanTakesTheRoundTripOfEachHostsOwnStore) {
  const std::string plan = "idmint plan --digits 12 --hosts 40 --rate 50k/s";
  EXPECT_THAT(output(plan), ContainsRegex("each[ \n]+host's own takes 1 ms"));
  EXPECT_THAT(output(plan + " --round-trip 2ms"), ContainsRegex("each[ \n]+host's own takes 2 ms"));
  const std::string callers = R"([c["callers"] for c in [json["recommended"]] + json["alternatives"]
                                 if c["source"] == "counter for each host"])";
  EXPECT_EQ(of_json(plan + " --json", callers), "[75]\n");
  EXPECT_EQ(of_json(plan + " --json --round-trip 2ms", callers), "[150]\n");
  EXPECT_EQ(of_json(plan + " --json --round-trip 2ms --shared-store", callers), "[75]\n");
}

// Whole numbers are integers as far as 2^53; beyond that they are rounded figures.
TEST_F(Operating, PlanCountsInIntegers) {
  EXPECT_EQ(of_json("idmint plan --json --digits 12 --hosts 2 --count 100",
                    R"(json["needs"]["hosts"], json["needs"]["count"],
             json["recommended"]["space"], json["recommended"]["block"])"),
            "2 100 1000000000000 500000000000\n");
  EXPECT_EQ(
      of_json("idmint plan --json --hosts 2", R"(json["recommended"]["space"] == 2.0 ** 122)"),
      "True\n");
}

#ifdef IDMINT_MONGODB

TEST_F(Operating, PlanNamesAStoreOfAllHostsWhereThereIsOne) {
  const std::string plan = "idmint plan --digits 12 --hosts 40";
  EXPECT_THAT(output(plan), HasSubstr("RECOMMENDED: counter for each host"));
  EXPECT_THAT(output(plan + " --all"), HasSubstr("say so (shared-store)"));
  for (const std::string there : {" --shared-store", " --database mongodb"}) {
    EXPECT_THAT(
        output(plan + there),
        ContainsRegex("RECOMMENDED: cached\n(.*\n)*  command +idmint create NAME --digits 12 "
                      "--store mongodb://HOST/DATABASE --strategy cached"));
  }
  EXPECT_EQ(of_json(plan + " --shared-store --json",
                    R"(json["lacking_store"], json["needs"]["shared_store_url"])"),
            "[] mongodb://HOST/DATABASE\n");
  EXPECT_THAT(output(plan + " --shared-store"), HasSubstr("(mongodb:"))
      << "all stores that would do";
}

#else

TEST_F(Operating, PlanHasNoCommandForAStoreThatThisBuildLacks) {
  const std::string plan = "idmint plan --digits 12 --hosts 40 --shared-store";
  EXPECT_EQ(of_json(plan + " --json", R"({c["command"] for c in json["lacking_store"]},
             [c["source"] for c in json["lacking_store"]], json["needs"]["shared_store_url"])"),
            "{None} ['cached', 'counter', 'striped', 'interleaved', 'permuted', 'random'] None\n");
  EXPECT_THAT(output(plan),
              ContainsRegex("NOT IN THIS BUILD: cached\n(.*\n)*  command       none: it "
                            "needs a store that all 40 hosts reach"));
  const Ended ended = run("idmint plan --order strict --hosts 40 --shared-store");
  EXPECT_EQ(ended.status, 5);
  EXPECT_THAT(ended.err, HasSubstr("counter would, in a store that all hosts reach"));
}

#endif

TEST_F(Operating, PlanOfMoreThanTimeHolds) {
  const Ended ended = run("idmint plan --count 1e30");
  EXPECT_EQ(ended.status, 5);
  EXPECT_THAT(ended.out, Not(HasSubstr("RECOMMENDED")));
  EXPECT_THAT(ended.out, HasSubstr("uuid7, ulid: the time ends before the last id: 10889-08-02"));
}

TEST_F(Operating, PlanSaysWhenNothingFits) {
  const Ended ended = run("idmint plan --digits 3 --count 1e6");
  EXPECT_EQ(ended.status, 5);
  EXPECT_THAT(ended.out, HasSubstr("there are only 999 of them"));
  EXPECT_THAT(ended.err, HasSubstr("nothing fits"));
  EXPECT_EQ(of_json("idmint plan --digits 3 --count 1e6 --json 2>/dev/null",
                    R"(json["recommended"], len(json["unfitting"]) > 10)"),
            "None True\n");
}

TEST_F(Operating, PlanRefusesWhatIsNoNeed) {
  for (const std::string words :
       {"--digits 0", "--digits 37", "--bits 161", "--bits 1.5", "--digits 5 --bits 5",
        "--count none", "--count 0", "--hosts 0", "--rate 50", "--rate -1/s", "--order some",
        "--database oracle", "--round-trip 1", "--round-trip 1ns", "extra"}) {
    const Ended ended = run("idmint plan " + words);
    EXPECT_EQ(ended.status, 2) << words;
    EXPECT_EQ(ended.out, "") << words;
    EXPECT_EQ(lines_of(ended.err).size(), 1u) << words;
  }
  EXPECT_THAT(run("idmint plan --rate 50").err, HasSubstr("--rate: \"50\" is not a rate"));
}

// Every command that it prints, of what is recommended and of what fits as well, makes an id in a
// fresh folder.
TEST_F(Operating, PlanPrintsCommandsThatWork) {
  std::ofstream(folder_ / "commands.py") << R"(
import itertools, json, shlex, shutil, subprocess, sys

def idmint(*words):
    return subprocess.run(["idmint", *words], capture_output=True, text=True)

commands = set()
for needs in itertools.product(
        ["", "--digits 5", "--digits 12", "--digits 19", "--digits 36", "--bits 31", "--bits 53",
         "--bits 64", "--bits 96"],
        ["", "--hosts 40", "--hosts 40 --shared-store", "--hosts 5000"],
        ["", "--unguessable", "--order per-host", "--order strict", "--database mongodb"]):
    planned = idmint("plan", "--count", "5000", "--json", *shlex.split(" ".join(needs)))
    if planned.returncode not in (0, 5):
        sys.exit(f"{needs}: {planned.stderr}")
    plan = json.loads(planned.stdout)
    for choice in ([plan["recommended"]] if plan["recommended"] else []) + plan["alternatives"]:
        commands.add(choice["command"])
        if choice["next_host_command"]:
            commands.add(choice["next_host_command"])
for command in sorted(commands):
    if " --store " in command:  # of several hosts: it wants a server
        continue
    shutil.rmtree("home", ignore_errors=True)
    words = [word.replace("NAME", "orders") for word in shlex.split(command)][1:]
    done = idmint(*words)
    if words[0] == "create" and done.returncode == 0:
        done = idmint("next", "orders")
    if done.returncode != 0 or len(done.stdout.split()) != 1:
        print(f"{command}: {done.returncode} {done.stdout} {done.stderr}")
print(len(commands), "commands")
)";
  const std::vector<std::string> lines = lines_of(output("python3 commands.py"));
  ASSERT_EQ(lines.size(), 1u) << content(folder_ / ".out");
  EXPECT_GE(std::stoi(lines[0]), 40) << lines[0];
}

// ---- plan-change

TEST_F(Operating, PlanChangeProvesThatASwitchIsSafe) {
  const std::string change = "idmint plan-change --at 2026-06-01 --from sequence-generator ";
  const Ended safe = run(change + "--to instagram");
  EXPECT_EQ(safe.status, 0) << safe.err;
  EXPECT_THAT(safe.out, HasSubstr("proof         the largest old id is below the smallest new"));
  EXPECT_THAT(safe.out, HasSubstr("safe switch   from 2026-06-01T00:00:00Z on, at any time\n"));
  for (const std::string& line : lines_of(safe.out)) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_EQ(
      of_json(change + "--to instagram --json",
              R"(json["safe"], json["shared_id"], json["earliest_switch"], json["safe_until"])"),
      "True None 2026-06-01T00:00:00Z None\n");
  EXPECT_THAT(output(change + "--from-workers 0-511 --to discord --to-workers 512-1023"),
              HasSubstr("no integer has the fields of an old id"));
  EXPECT_THAT(output(change + "--since 2020-01-01 --to js-safe"),
              HasSubstr("the largest new id is below the smallest old one"));
}

TEST_F(Operating, PlanChangeNamesAnIdOfBothAndWhenASwitchIsSafe) {
  const std::string change = "idmint plan-change --at 2026-06-01 --from twitter --to discord";
  const Ended unsafe = run(change);
  EXPECT_EQ(unsafe.status, 5);
  EXPECT_THAT(unsafe.out,
              HasSubstr("not safe: 1510795007492096000 is an id of both\n"
                        "  as an old one 2022-04-04T01:42:53.657Z, worker 0, sequence 0\n"
                        "  as a new one  2026-05-31T23:59:59Z, worker 0, sequence 0\n"));
  EXPECT_THAT(unsafe.err, HasSubstr("a switch is safe from 2084-09-06T15:47:36.552Z on"));
  // The output of inspect for it.
  const std::string read = output("idmint inspect 1510795007492096000");
  EXPECT_THAT(read, HasSubstr("2022-04-04T01:42:53.657Z"));
  EXPECT_THAT(read, HasSubstr("2026-05-31T23:59:59"));
  EXPECT_EQ(of_json(change + " --json", R"(json["safe"], json["shared_id"]["id"],
                    json["shared_id"]["old"]["time"], json["earliest_start"])"),
            "False 1510795007492096000 2022-04-04T01:42:53.657Z 2030-07-28T22:17:27.344Z\n");
  const std::string later = " --to \"41t10w12s epoch 2025-01-01\"";
  const Ended never = run("idmint plan-change --at 2026-06-01 --from sequence-generator" + later);
  EXPECT_EQ(never.status, 5);
  EXPECT_THAT(never.out, HasSubstr("safe switch   never"));
  EXPECT_THAT(never.err, HasSubstr("start the new ones at 2036-06-01T00:00:22.001Z or later"));
  // Both clocks count, the one that is ahead and the one that is behind.
  EXPECT_THAT(
      run("idmint plan-change --clock-error 0s --at 2026-06-01 --from sequence-generator" + later)
          .err,
      HasSubstr("start the new ones at 2036-06-01T00:00:20.001Z or later"));
  EXPECT_EQ(of_json(change + " --json --clock-error 5s --drift 30s",
                    R"(json["clock_error_seconds"], json["drift_seconds"],
                       json["earliest_start"])"),
            "5.0 30.0 2030-07-28T22:17:45.344Z\n");
}

TEST_F(Operating, PlanChangeCountsTheLongUnitsThatAGeneratorMayBeAhead) {
  const std::string change = "idmint plan-change --at 2026-06-01 --to \"33t11w12s unit 3600s\"";
  EXPECT_THAT(run(change + " --from \"33t10w12s unit 3600s\"").out,
              HasSubstr("host's by up to 3 h\n"));
  EXPECT_THAT(run(change + " --from \"33t10w12s unit 7s\"").out,
              HasSubstr("host's by up to 28 s\n"));
  EXPECT_THAT(run(change + " --from twitter").out,
              HasSubstr("clocks        each host's is wrong by up to 1 s; old ids are ahead of "
                        "their\n                host's by up to 20 s\n"));
}

TEST_F(Operating, PlanChangeOfALayoutThatHasNoTime) {
  const std::string change = "idmint plan-change --at 2026-06-01 --from twitter --to ";
  const Ended over = run(change + "baidu");
  EXPECT_EQ(over.status, 5);
  EXPECT_THAT(over.out, HasSubstr("the time of the new layout has ended"));
  const Ended early =
      run(change + "\"41t10w12s epoch 2030-01-01\" --from-workers 0 --to-workers 1");
  EXPECT_EQ(early.status, 5);
  EXPECT_THAT(early.err, HasSubstr("has not begun"));
  EXPECT_THAT(early.err, HasSubstr("a switch is safe from 2030-01-01T00:00:00Z on, at any time"));
  EXPECT_THAT(output(change + "twitter --to-workers 1 --from-workers 0"),
              HasSubstr("one id space"));
}

TEST_F(Operating, PlanChangeWantsWhatItCanRead) {
  EXPECT_EQ(run("idmint plan-change --from twitter").status, 2);
  const std::string change = "idmint plan-change --from twitter --to discord ";
  for (const std::string wrong : {"--from-workers 5-3", "--to-workers 0-1024", "--to-workers -5",
                                  "--from-workers 1-", "--at noon", "--since x", "--drift 20",
                                  "--drift -1s", "--clock-error 1", "--clock-error -1s"}) {
    const Ended ended = run(change + wrong);
    EXPECT_EQ(ended.status, 2) << wrong;
    EXPECT_THAT(ended.err, HasSubstr(wrong.substr(0, wrong.find(' ')))) << wrong;
  }
}

// ---- bench

TEST_F(Operating, BenchMeasuresTheFormats) {
  const std::string text = output("idmint bench --seconds 0.02");
  for (const std::string format : {"uuid4", "uuid7", "ulid", "object-id"}) {
    EXPECT_THAT(text, ContainsRegex("\n" + format + " +[0-9,]+ +[0-9.,]+ ")) << format;
  }
  EXPECT_THAT(text, Not(HasSubstr("snowflake")));  // it needs a worker id
  EXPECT_THAT(text, HasSubstr("\u2588"));
  EXPECT_THAT(output("LC_ALL=C idmint bench uuid4 --seconds 0.02"), HasSubstr("###"));
  EXPECT_THAT(run("idmint bench snowflake --worker 5 --seconds 0.02").out, HasSubstr("snowflake"));
  EXPECT_EQ(run("idmint bench snowflake --seconds 0.02").status, 2);
}

TEST_F(Operating, BenchTellsWhatItUsedUp) {
  output("idmint create orders");
  const Ended ended = run("idmint bench orders --seconds 0.1 --threads 2 --json");
  EXPECT_EQ(ended.status, 0) << ended.err;
  const std::string next = output("idmint next orders");
  EXPECT_EQ(
      of_json("echo '" + ended.out + "'",
              R"(json[0]["used_up"], json[0]["ids"], json[0]["threads"])"),
      std::to_string(std::stoll(next) - 1) + " " + std::to_string(std::stoll(next) - 1) + " 2\n")
      << "every value that is gone was counted";
  EXPECT_THAT(ended.err, HasSubstr("are used up, and never come again"));
  EXPECT_EQ(output("idmint bench uuid4 --seconds 0.02 --json | grep -c '\"used_up\":0'"), "1\n");
}

TEST_F(Operating, BenchOfASequenceThatEnds) {
  output("idmint create few --max 5");
  const Ended ended = run("idmint bench few --seconds 5 --json");
  EXPECT_EQ(ended.status, 6);
  EXPECT_EQ(of_json("echo '" + ended.out + "'", R"(json[0]["used_up"])"), "5\n");
  EXPECT_EQ(run("idmint bench few --seconds 0.02").status, 6);
  EXPECT_EQ(run("idmint bench nothing").status, 3);
}

TEST_F(Operating, BenchDrawsAnSvgThatParses) {
  output("idmint bench uuid4 uuid7 --seconds 0.02 --svg a.svg >/dev/null");
  EXPECT_EQ(output("python3 -c '\n"
                   "import xml.etree.ElementTree as tree\n"
                   "root = tree.parse(\"a.svg\").getroot()\n"
                   "names = [t.text for t in root.iter(\"{http://www.w3.org/2000/svg}text\")]\n"
                   "print(root.tag, \"uuid4\" in names, \"uuid7\" in names)'"),
            "{http://www.w3.org/2000/svg}svg True True\n");
  const Ended missing = run("idmint bench uuid4 --svg none/a.svg");
  EXPECT_EQ(missing.status, 5);
  EXPECT_EQ(missing.out, "") << "refused before anything is run";
  EXPECT_EQ(run("idmint bench uuid4 --seconds 0.02 --svg /dev/full").status, 8);
}

TEST_F(Operating, BenchEndsEarlyWithItsResults) {
  const Ended ended =
      run("set -m; idmint bench uuid4 ulid --seconds 600 --svg a.svg >out & until [[ -e "
          "a.svg.partial ]]; "
          "do sleep 0.01; done; kill -INT $!; wait $!; echo $?; grep -c '</svg>' a.svg");
  EXPECT_THAT(ended.out, HasSubstr("130\n1\n"));
  EXPECT_THAT(content(folder_ / "out"), StartsWith("SOURCE"));
}

TEST_F(Operating, BenchOptionsThatAreNone) {
  for (const std::string words :
       {"--threads 0", "--threads 2000", "--batch 0", "--batch 1000001", "--seconds 0",
        "--seconds -1", "--seconds x", "--seconds 1s", "--seconds nan", "--seconds 1e9"}) {
    EXPECT_EQ(run("idmint bench uuid4 " + words).status, 2) << words;
  }
}

// ---- doctor

TEST_F(Operating, DoctorOfAnEmptyHome) {
  const Ended ended = run("idmint doctor");
  EXPECT_THAT(ended.status, AnyOf(0, 20)) << ended.out;
  EXPECT_THAT(ended.out, ContainsRegex("ok +store sqlite:.*ids.db: not made yet"));
  EXPECT_THAT(ended.out, ContainsRegex("clock system: "));
  EXPECT_THAT(ended.out, Not(HasSubstr(" layout ")));
  EXPECT_THAT(ended.out, ContainsRegex("\nok +layouts: [0-9]+ more, not used here or not ending "
                                       "within 90 d"));
  const std::string all = output("idmint doctor --all || [[ $? == 20 ]]");
  EXPECT_THAT(all, ContainsRegex("ok +layout object-id: its time ends 2106-02-07"));
  EXPECT_THAT(all, ContainsRegex("ok +layout ksuid: its time ends 2150-06-19"));
  EXPECT_THAT(all, ContainsRegex("ok +layout snowflake sequence-generator: .* 2084-09-06"));
  EXPECT_THAT(all, Not(HasSubstr("layouts: ")));
  // 100 years: all of 32 bits of seconds and 41 of milliseconds end.
  EXPECT_THAT(run("idmint doctor --horizon 36500d").out,
              ContainsRegex("warn +layout object-id: its time ends 2106-02-07, in "));
  EXPECT_EQ(of_json("idmint doctor --json",
                    R"(len([f for f in json["findings"] if f["kind"] == "layout"]) > 8)"),
            "True\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "home/.local")) << "it changes nothing";
}

TEST_F(Operating, DoctorJudgesSequences) {
  output("idmint create large; idmint create small --max 10; idmint next small -n 10 >/dev/null");
  output("idmint create low --max 100; idmint next low -n 95 >/dev/null");
  const std::string health = R"({f["subject"]: f["health"] for f in json["findings"]
             if f["kind"] == "sequence"}, json["health"])";
  EXPECT_EQ(of_json("idmint doctor --json", health),
            "{'large': 'ok', 'low': 'warn', 'small': 'fail'} fail\n");
  EXPECT_EQ(run("idmint doctor").status, 21);
  EXPECT_EQ(of_json("idmint doctor --json",
                    R"([f["left_fraction"] for f in json["findings"] if f["subject"] == "low"])"),
            "[0.05]\n");
  EXPECT_EQ(of_json("idmint doctor --json --warn-below 1%", health),
            "{'large': 'ok', 'low': 'ok', 'small': 'fail'} fail\n");
  EXPECT_EQ(
      of_json("idmint doctor --json --warn-below 1% --rate low=1/h --rate large=1M/s", health),
      "{'large': 'ok', 'low': 'warn', 'small': 'fail'} fail\n");
  EXPECT_EQ(of_json("idmint doctor --json --warn-below 1% --rate low=1/h --horizon 4h", health),
            "{'large': 'ok', 'low': 'ok', 'small': 'fail'} fail\n");
  EXPECT_EQ(run("idmint doctor --rate none=1/s").status, 3);
}

// The clock and the disk of the host that runs the test may be worth a warning.
TEST_F(Operating, DoctorLeavesOutWhatIsIgnored) {
  output("idmint create small --max 1; idmint next small");
  const Ended failed = run("idmint doctor --ignore clock --ignore disk");
  EXPECT_EQ(failed.status, 21);
  EXPECT_THAT(failed.out, AllOf(Not(HasSubstr(" clock ")), Not(HasSubstr(" disk ")),
                                HasSubstr("fail  sequence small: ")));
  const std::string all_of_them = "idmint doctor --ignore clock --ignore disk --ignore sequence";
  const Ended ignored = run(all_of_them);
  EXPECT_EQ(ignored.status, 0) << ignored.out;
  EXPECT_THAT(ignored.out, Not(HasSubstr("small")));
  EXPECT_EQ(of_json(all_of_them + " --json",
                    R"(json["health"], sorted({f["kind"] for f in json["findings"]}))"),
            "ok ['layout', 'store']\n");
  const Ended unknown = run("idmint doctor --ignore clok");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, HasSubstr("there is no check \"clok\": give one of disk, data-folder, "
                                     "record, sequence, pool, state-file, clock, layout"));
  EXPECT_EQ(run("idmint doctor --ignore store").status, 2) << "the others are read from it";
}

TEST_F(Operating, DoctorJudgesPools) {
  const std::string store = "export IDMINT_STORE=sqlite:ids.db; ";
  output(store +
         "for pool in ahead far free full gone old window; do idmint create $pool --kind pool "
         "--layout sequence-generator --workers 2 2>notices; done; idmint retire old --yes");
  const auto set = [&](const std::string& change) {
    output("sqlite3 ids.db \"UPDATE workers SET " + change + '"');
  };
  const auto bound = [](const std::string& ahead) {
    return "minted_until = (strftime('%s', 'now') - 1420070400 + " + ahead + ") * 1000 WHERE pool ";
  };
  set("token = x'01000000000000000000000000000000', held_until = (strftime('%s', 'now') + 3600) "
      "* 1000 WHERE pool = 'full'");
  set(bound("3600") + "= 'ahead'");
  set(bound("3600") + "= 'window' AND worker = 1");
  set(bound("200000") + "= 'far' AND worker = 1");
  output("sqlite3 ids.db \"DELETE FROM workers WHERE pool = 'gone'\"");
  // The state after minting is no fault, however long a unit or a window is.
  output(store +
         "idmint create hours --kind pool --layout '30t10w12s unit 3600s' --workers 1; "
         "idmint next hours; idmint next hours; idmint next free --window 1h -n 5000");
  EXPECT_EQ(of_json(store + "idmint doctor --json",
                    R"({f["subject"]: f["health"] for f in json["findings"]
             if f["kind"] == "pool"}, json["health"])"),
            "{'ahead': 'warn', 'far': 'warn', 'free': 'ok', 'full': 'warn', 'gone': 'fail', "
            "'hours': 'ok', 'old': 'ok', 'window': 'ok'} fail\n");
  EXPECT_THAT(
      run(store + "idmint doctor").out,
      AllOf(HasSubstr("ok    pool free: 0 of 2 worker ids owned\n"),
            ContainsRegex("warn  pool ahead: 0 of 2 worker ids owned; who starts now gets none for "
                          "[0-9]+ (min|h)"),
            ContainsRegex("warn  pool far: [^;]+; under 1 of them ids go up to 2 d"),
            HasSubstr("warn  pool full: 2 of 2 worker ids owned: who starts now gets none"),
            HasSubstr("fail  pool gone: ")));
  EXPECT_EQ(run(store + "idmint next ahead").status, 7) << "doctor was right";
  EXPECT_EQ(run(store + "idmint next window").status, 0);
}

// It refuses when 910 of 1000 are claimed.
TEST_F(Operating, ARandomSequenceThatRefusesIsUsedUp) {
  output("idmint create r --strategy random --max 1000");
  EXPECT_THAT(output("idmint list"), ContainsRegex("r +random +- +910 +0 % +open"));
  EXPECT_EQ(run("idmint next r -n 900").status, 0);
  EXPECT_THAT(output("idmint list"), ContainsRegex("r +random +- +10 +98 % +open"));
  EXPECT_THAT(output("idmint peek r"), HasSubstr("left       10\n"));
  EXPECT_EQ(run("idmint next r -n 10").status, 0);
  const Ended none = run("idmint next r");
  EXPECT_EQ(none.status, 6);
  EXPECT_THAT(none.err, HasSubstr("sequence r: used up; 910 of 1000 values are claimed"));
  EXPECT_THAT(output("idmint peek r"), HasSubstr("left       0\n"));
  EXPECT_THAT(output("idmint list"), HasSubstr("used up"));
  const Ended ended = run("idmint doctor");
  EXPECT_EQ(ended.status, 21);
  EXPECT_THAT(ended.out,
              HasSubstr("fail  sequence r: used up: go on with another, or move its last "
                        "value up: idmint alter r --max N\n"));
}

// As a restored backup does.
TEST_F(Operating, DoctorTellsThatTheStoreHoldsLessThanWasGiven) {
  const std::string all = "counter cached striped interleaved permuted random pool";
  output(
      "for s in " + all +
      "; do options=\"--strategy $s --max 9999\"; case $s in striped|interleaved) "
      "options+=' --stripes 2';; pool) options='--kind pool --workers 2';; esac; "
      "idmint create $s $options 2>notices && idmint next $s -n 20 >ids; done; idmint create late");
  EXPECT_THAT(run("idmint doctor").out, Not(HasSubstr("fail")));
  output(
      "cd home/.local/share/idmint; for t in counters definitions spaces claims workers; do "
      "sqlite3 ids.db \"CREATE TABLE copy_of_$t AS SELECT * FROM $t\"; done");
  output("for s in " + all + " late; do for i in {1..9}; do idmint next $s >ids; done; done");
  EXPECT_THAT(run("idmint doctor").out, Not(HasSubstr("fail")));
  output(
      "cd home/.local/share/idmint; for t in counters definitions spaces claims workers; do "
      "sqlite3 ids.db \"DELETE FROM $t; INSERT INTO $t SELECT * FROM copy_of_$t; DROP TABLE "
      "copy_of_$t\"; done; sqlite3 ids.db \"DELETE FROM definitions WHERE name = 'late'\"");
  const Ended ended = run("idmint doctor");
  EXPECT_EQ(ended.status, 21);
  for (const std::string lost :
       {"sequence counter", "sequence cached", "sequence striped", "sequence interleaved",
        "sequence permuted", "sequence random", "pool pool"}) {
    EXPECT_THAT(ended.out, ContainsRegex("fail +" + lost +
                                         ": this host (was given [0-9]+ at|may have minted "
                                         "[0-9]+, granted at) 20[^ ]+, and the store does not know "
                                         "of it"));
  }
  EXPECT_THAT(ended.out, ContainsRegex("fail +sequence late: this host was given 9 at [^ ]+, and "
                                       "the store has nothing of that name"));
  output("idmint raise counter --past 29");
  EXPECT_THAT(run("idmint doctor").out, HasSubstr("ok    sequence counter: "));
}

TEST_F(Operating, ADataFolderThatCannotBeUsedIsToldAndStopsNothing) {
  const std::string store = "export IDMINT_STORE=sqlite:ids.db; ";
  output(store + "idmint create orders");
  for (const std::string broken :
       {"touch file; XDG_DATA_HOME=$PWD/file ", "ln -sfn $PWD/l l; XDG_DATA_HOME=$PWD/l ",
        "env -u XDG_DATA_HOME -u HOME "}) {
    SCOPED_TRACE(broken);
    const Ended next = run(store + broken + "idmint next orders");
    EXPECT_EQ(next.status, 0);
    EXPECT_NE(next.out, "");
    EXPECT_THAT(next.err, AllOf(HasSubstr("is not recorded"), HasSubstr("XDG_DATA_HOME")));
    EXPECT_EQ(lines_of(next.err).size(), 1U);
    const Ended doctor = run(store + broken + "idmint doctor --ignore clock --ignore disk");
    EXPECT_EQ(doctor.status, 20) << doctor.out;
    EXPECT_THAT(doctor.out, HasSubstr("warn  data folder "));
    EXPECT_EQ(run(store + broken +
                  "idmint doctor --ignore clock --ignore disk "
                  "--ignore data-folder")
                  .status,
              0);
  }
}

TEST_F(Operating, DoctorFailsOnAStoreInDoubt) {
  output("idmint create orders --store sqlite:ids.db; cp ids.db copy.db");
  const Ended copy = run("idmint doctor --store sqlite:copy.db");
  EXPECT_EQ(copy.status, 21);
  EXPECT_THAT(copy.out, AllOf(HasSubstr("fail  store sqlite:"), HasSubstr("is a copy"),
                              HasSubstr("idmint raise --all --store sqlite:copy.db --past N"),
                              Not(HasSubstr("ok    store"))));
  // A reader keeps the log from being moved into the file.
  const Ended mixture =
      run("mkfifo commands; sqlite3 ids.db <commands >answers & exec 3>commands; "
          "echo 'SELECT 1 FROM store;' >&3; until [ -s answers ]; do :; done; "
          "idmint next orders --store sqlite:ids.db; cp copy.db ids.db; "
          "idmint doctor --store sqlite:ids.db; found=$?; exec 3>&-; wait; exit $found");
  EXPECT_EQ(mixture.status, 21);
  EXPECT_THAT(mixture.out, AllOf(ContainsRegex("fail  store sqlite:.*is not the file that its log"),
                                 Not(HasSubstr("ok    store"))));
}

TEST_F(Operating, DoctorIsToldOfCollectionsAsNamesThatAreThere) {
  output("idmint create orders");
  EXPECT_THAT(run("idmint doctor --used-in orders=orders").err,
              HasSubstr("give NAME=DATABASE.COLLECTION:FIELD"));
  EXPECT_EQ(run("idmint doctor --used-in none=app.orders:number").status, 3);
  EXPECT_EQ(run("idmint doctor --used-in orders=app.orders:number").status, 20);
}

TEST_F(Operating, DoctorDoesNotWaitForAPipe) {
  output(
      "mkdir -p home/.local/share/idmint; cd home/.local/share/idmint; "
      "mkfifo snowflake-10w12s-5.state uuid1-020000000007.state");
  const Ended ended = run("timeout 60 idmint doctor");
  EXPECT_EQ(ended.status, 21);
  EXPECT_THAT(ended.out,
              AllOf(ContainsRegex("fail +state file snowflake-10w12s-5.state: .*no plain "
                                  "file"),
                    ContainsRegex("fail +state file uuid1-.*no plain file")));
}

TEST_F(Operating, DoctorReadsStateFiles) {
  run("idmint next snowflake --worker 5");
  const Ended ended = run("idmint doctor");
  // A layout that is used here has a warning before its time ends. The layout counts, not its name.
  EXPECT_THAT(run("idmint doctor --horizon 25000d").out,
              AllOf(ContainsRegex("warn +layout snowflake sequence-generator:"),
                    ContainsRegex("ok +layout snowflake twitter:")));
  EXPECT_THAT(run("idmint doctor --all").out,
              ContainsRegex("layout snowflake discord:[^\n]+nothing here uses it"))
      << "it shares the state file, and its time ends later";
  EXPECT_THAT(
      ended.out,
      ContainsRegex("ok +state file snowflake-10w12s-epoch-2015-01-01T00-00-00Z-5.state: worker "
                    "5, bound"));
  EXPECT_THAT(ended.out, ContainsRegex("ok +layout snowflake sequence-generator: .* 2084-09-06"));
  EXPECT_THAT(ended.out, Not(HasSubstr("js-safe")));
  const std::string state =
      "home/.local/share/idmint/snowflake-10w12s-epoch-2015-01-01T00-00-00Z-5.state";
  run("head -c 100 " + state + " >x; mv x " + state);
  const Ended damaged = run("idmint doctor");
  EXPECT_EQ(damaged.status, 21);
  EXPECT_THAT(damaged.out, ContainsRegex("fail +state file .*cut short"));
}

TEST_F(Operating, DoctorReadsStateFilesOfUuids) {
  const std::string node = " --node 02:00:00:00:00:07";
  run("idmint next uuid1" + node + "; idmint next uuid2 --domain person --local-id 9" + node);
  const std::string found = run("idmint doctor").out;
  EXPECT_THAT(found, ContainsRegex("ok +state file uuid1-020000000007.state: node "
                                   "02:00:00:00:00:07, bound "));
  EXPECT_THAT(found, ContainsRegex("ok +state file uuid2-020000000007-0-9.state: person 9, node "
                                   "02:00:00:00:00:07, 6[34] of the 64 ids "));
  output("truncate -s 5 home/.local/share/idmint/uuid1-*.state");
  EXPECT_THAT(run("idmint doctor").out, ContainsRegex("fail +state file uuid1-020000000007.state"));
}

TEST_F(Operating, DoctorOfAStoreThatCannotBeUsed) {
  output("echo 'this is a text file, and no database at all' >notes.txt");
  const Ended ended = run("idmint doctor --store sqlite:notes.txt");
  EXPECT_EQ(ended.status, 21);
  EXPECT_THAT(ended.out, ContainsRegex("fail +store sqlite:notes.txt"));
  EXPECT_EQ(run("idmint doctor --store sqlite:none.db").status, 21);
  EXPECT_EQ(run("idmint doctor --store frob:x").status, 2);
  for (const std::string words : {"--warn-below 10", "--horizon soon", "--rate 5", "--rate a=b"}) {
    EXPECT_EQ(run("idmint doctor " + words).status, 2) << words;
  }
}

// ---- apply

TEST_F(Operating, TheExampleIsAppliedTwice) {
  const std::string file = IDMINT_EXAMPLES "/sources.toml";
  const std::string plan = output("idmint apply " + file + " --dry-run --json 2>/dev/null");
  EXPECT_THAT(plan, HasSubstr("\"carried_out\":false"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "home/.local"));
  const std::string outcomes = R"(json["carried_out"], {s["outcome"] for s in json["sequences"]})";
  EXPECT_EQ(of_json("idmint apply --json --dry-run " + file + " 2>/dev/null", outcomes),
            "False {'would create'}\n");
  EXPECT_EQ(of_json("idmint apply --json " + file, outcomes), "True {'created'}\n");
  EXPECT_EQ(of_json("idmint apply --json " + file, outcomes), "True {'was there'}\n");
  EXPECT_EQ(output("idmint next orders"), "1000\n");
  // Its export makes the same in another store, and finds all of it there.
  output("idmint list --toml >exported.toml; idmint apply exported.toml --store sqlite:b.db");
  EXPECT_EQ(of_json("idmint apply --json exported.toml --store sqlite:b.db", outcomes),
            "True {'was there'}\n");
  EXPECT_EQ(output("idmint list --toml --store sqlite:b.db | cmp - exported.toml && echo same"),
            "same\n");
}

TEST_F(Operating, ApplyExtendsAndRefuses) {
  output("printf '[sequence.a]\\nmax = 10\\n[sequence.b]\\n' >s.toml; idmint apply s.toml");
  EXPECT_EQ(output("idmint next a -n 10 | tail -n 1"), "10\n");
  EXPECT_EQ(
      output("printf '[sequence.b]\\n[sequence.a]\\nmax = 20\\n' >s.toml; idmint apply s.toml"),
      "was there  b\nextended   a: last: from 10 to 20\n");
  EXPECT_EQ(output("idmint next a"), "11\n");
  // One that is refused keeps the others from being made.
  const Ended refused = run(
      "printf '[sequence.new]\\n[sequence.a]\\nmax = 5\\n[sequence.ULID]\\n' >s.toml; idmint apply "
      "s.toml");
  EXPECT_EQ(refused.status, 5);
  EXPECT_THAT(refused.out, ContainsRegex("refused +a: .*last: 20 there, 5 here"));
  EXPECT_THAT(refused.out, ContainsRegex("refused +ULID: it is the name of a format"));
  EXPECT_THAT(refused.out, StartsWith("not created  new\n"));
  EXPECT_THAT(refused.err, HasSubstr("2 of 3 sequences are refused, and nothing was changed"));
  EXPECT_EQ(run("idmint peek new").status, 3);
  EXPECT_EQ(run("idmint apply s.toml --dry-run").out, refused.out) << "nor would it be";
  EXPECT_THAT(run("printf '[sequence.a]\\nmax = 5\\n' | idmint apply -").err,
              HasSubstr("idmint: the sequence is refused, and nothing was changed"));
  const std::string outcomes = R"(json["carried_out"], [s["outcome"] for s in json["sequences"]])";
  EXPECT_EQ(of_json("idmint apply s.toml --json 2>/dev/null", outcomes),
            "False ['not created', 'refused', 'refused']\n");
  output("printf '[sequence.a]\\nmax = 30\\n[sequence.nil]\\n' >s.toml");
  EXPECT_THAT(run("idmint apply s.toml").out,
              ContainsRegex("not extended +a: last: from 20 to 30\nrefused +nil: "));
  EXPECT_EQ(run("idmint apply s.toml").status, run("idmint create nil").status)
      << "one mistake, one status";
  output("printf '[sequence.a]\\nmax = 30\\n' >s.toml");
  EXPECT_EQ(run("idmint apply s.toml --dry-run").out, "would extend  a: last: from 20 to 30\n");
  EXPECT_THAT(output("idmint peek a"), ContainsRegex("last +20\n"));
}

// A trigger makes the store fail at one of them.
TEST_F(Operating, ApplyThatFailsOnTheWaySaysHowFarItCame) {
  output("idmint create z --store sqlite:a.db");
  output(
      "sqlite3 a.db \"CREATE TRIGGER no BEFORE INSERT ON counters WHEN new.name = 'b' BEGIN "
      "SELECT raise(ABORT, 'no'); END\"");
  output("printf '[sequence.a]\\n[sequence.b]\\n[sequence.c]\\n' >s.toml");
  const Ended failed = run("idmint apply s.toml --store sqlite:a.db");
  EXPECT_EQ(failed.status, 10) << failed.err;
  EXPECT_EQ(failed.out, "created      a\nfailed       b\nnot created  c\n");
  EXPECT_THAT(failed.err, HasSubstr("1 of 3 sequences are as the file has them: apply it again"));
}

TEST_F(Operating, ApplyFinishesAnExtensionThatWasCutOff) {
  output("idmint create a --max 10 --store sqlite:a.db");
  output("printf '[sequence.a]\\nmax = 20\\n' >s.toml");
  output(
      "sqlite3 a.db \"CREATE TRIGGER no BEFORE UPDATE ON counters BEGIN SELECT raise(ABORT, 'no'); "
      "END\"");
  const std::string again = "idmint apply s.toml --store sqlite:a.db";
  const Ended failed = run(again);
  EXPECT_EQ(failed.out, "failed     a: last: from 10 to 20\n") << failed.err;
  EXPECT_THAT(failed.err, HasSubstr("apply it again"));
  output("sqlite3 a.db 'DROP TRIGGER no'");
  EXPECT_EQ(output(again + " --dry-run 2>/dev/null"),
            "would extend  a: last: to 20, as was begun before\n");
  const Ended smaller =
      run("printf '[sequence.a]\\nmax = 15\\n' | idmint apply - --store sqlite:a.db");
  EXPECT_EQ(smaller.status, 5);
  EXPECT_THAT(smaller.out, ContainsRegex("refused +a: .*last: 20 there, 15 here"));
  EXPECT_EQ(output(again), "extended   a: last: to 20, as was begun before\n");
  EXPECT_EQ(output(again), "was there  a\n");
  EXPECT_EQ(output("idmint next a -n 20 --store sqlite:a.db | tail -n 1"), "20\n");
}

TEST_F(Operating, TheExportSaysWhatComesOfItElsewhere) {
  output("idmint create cards --digits 6 --strategy permuted");
  const std::string text = output("idmint list --toml | tee exported.toml");
  EXPECT_THAT(text, StartsWith("# A sequence is of one store."));
  EXPECT_THAT(text, HasSubstr("leave it out there.\nkey = "));
  output("idmint apply exported.toml --store sqlite:b.db");
  EXPECT_EQ(output("idmint next cards -n 9"), output("idmint next cards -n 9 --store sqlite:b.db"));
}

TEST_F(Operating, ApplyExtendsAsFarAsTheWidthGoes) {
  const std::string apply =
      "printf '[sequence.new]\\n[sequence.a]\\nencoding = \"hex\"\\nmax = %s\\n' ";
  output("printf '[sequence.a]\\nencoding = \"hex\"\\nmax = 16\\n' >s.toml; idmint apply s.toml");
  const Ended refused = run(apply + "256 >s.toml; idmint apply s.toml");
  EXPECT_EQ(refused.status, 5);
  EXPECT_THAT(refused.out,
              ContainsRegex("refused +a: defined otherwise already: last: 16 there, 256 here; its "
                            "width 2 in hex has room for values up to 255; use it as it is, or"));
  EXPECT_EQ(run("idmint peek new").status, 3) << "looked at before anything is made";
  EXPECT_EQ(output(apply + "255 >s.toml; idmint apply s.toml"),
            "created    new\nextended   a: last: from 16 to 255\n");
  EXPECT_THAT(output("idmint list --toml"), HasSubstr("encoding = \"hex\"\nwidth = 2\n"));
  EXPECT_EQ(output("idmint next a"), "01\n");
}

TEST_F(Operating, ApplyOfWhatIsNoFileOfSequences) {
  const Ended unknown = run("printf '[sequence.a]\\ncolour = 1\\n' >s.toml; idmint apply s.toml");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, StartsWith("idmint: s.toml: line 2: there is no key \"colour\""));
  EXPECT_EQ(run("idmint apply none.toml").status, 3);
  EXPECT_EQ(run("idmint apply .").status, 3);
  EXPECT_EQ(run("idmint apply").status, 2);
  EXPECT_EQ(run("echo '[sequence.a]' >s.toml; idmint apply s.toml --store memory:").status, 2);
  EXPECT_THAT(run("echo '[sequence.a' | idmint apply -").err,
              HasSubstr("standard input: line 1: "));
  EXPECT_EQ(output("echo '[sequence.a]' | idmint apply - --store sqlite:a.db"), "created    a\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "home/.local/share/idmint/ids.db"));
}

}  // namespace
