// The command over a store of MongoDB.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/e2e/store_cli.h"
#include "tests/servers/mongo.h"

namespace idmint::e2e {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

TEST_F(Cli, EveryStrategyWorksOverAReplicaSet) {
  const std::string store = "export IDMINT_STORE='" + servers::mongo_set().url("shop") + "'\n";
  output(store + R"(
      idmint create orders --start 1000 --max 5000
      idmint create accounts --strategy striped --stripes 100 --max 100000
      idmint create parts --strategy interleaved --stripes 7
      idmint create tickets --strategy cached
      idmint create cards --strategy random --max 999999
      idmint create codes --strategy permuted --max 999999)");
  EXPECT_EQ(output(store + "idmint next orders -n 3"), "1000\n1001\n1002\n");
  EXPECT_EQ(output(store + "idmint next orders"), "1003\n");
  for (const char* const name : {"accounts", "parts", "tickets", "cards", "codes"}) {
    const std::string ten = output(store + "idmint next " + name + " -n 5; idmint next " + name +
                                   " -n 5 | sort | uniq");
    EXPECT_EQ(lines_of(ten).size(), 10U) << name;
  }
  EXPECT_EQ(lines_of(output(store + "idmint list")).size(), 7U);
  output(store + "idmint raise orders --past 4999 --yes; idmint alter orders --max 5001");
  EXPECT_EQ(output(store + "idmint next orders -n 2"), "5000\n5001\n");
  EXPECT_EQ(run(store + "idmint next orders").status, 6);
  output(store + "idmint retire orders --yes");
  EXPECT_EQ(run(store + "idmint next orders").status, 5);
  const Ended weak = run("idmint list --store 'mongodb://localhost/shop?w=1'");
  EXPECT_EQ(weak.status, 2);
  EXPECT_THAT(weak.err, HasSubstr("w=1 cannot be had"));
}

TEST_F(StoreCli, WhatThisHostWasGivenIsComparedInMongodb) {
  const std::string url = servers::mongo_set().url("recorded");
  expect_record_is_compared(url, [&] {
    servers::mongo_command(url, "recorded",
                           R"({"update":"idmint.counters","updates":[)"
                           R"({"q":{"_id":"c"},"u":{"$set":{"next":{"$numberLong":"11"}}}}]})");
  });
}

// Taking it down takes half a second.
TEST_F(Cli, TheCommandDoesNotTakeTheDriverDown) {
  const std::string store = "export IDMINT_STORE='" + servers::mongo_set().url("quick") + "'\n";
  output(store + "idmint create orders");
  EXPECT_EQ(output(store + R"(
      LD_DEBUG=files LD_DEBUG_OUTPUT=loader idmint next orders
      cat loader.* | grep -c 'calling init: .*libmongoc-1'
      cat loader.* | grep -c 'calling fini' || true)"),
            "1\n1\n0\n");
}

TEST_F(Cli, APoolWorksOverAReplicaSet) {
  const std::string store = "export IDMINT_STORE='" + servers::mongo_set().url("pools") + "'\n";
  output(store + R"(
      idmint create web --kind pool --layout twitter --workers 16
      idmint create web --kind pool --layout twitter)");
  // There are worker ids for all processes at a time, and for any number in a row. On a busy
  // machine one may come to its deadline, and its worker id is held for a window.
  EXPECT_EQ(output(store + R"(
      mint() {
        until idmint next web -n $1 >$2 2>err.$2; do
          case $? in 7 | 8 | 11) ;; *) cat err.$2 >&2; return ;; esac
        done
      }
      for round in 1 2; do
        for i in {1..8}; do mint 1000 got.$i & done
        wait
        cat got.*
      done >ids
      for i in {1..9}; do mint 1 one; cat one; done >>ids
      mint 9000 many; cat many >>ids
      sort -u ids | wc -l; tail -n 9000 ids | sort -nuc
      idmint check - --as web <ids | grep -c ': valid')"),
            "25009\n25009\n");
  EXPECT_EQ(run(store + R"(
      for i in {1..60}; do
        idmint workers list web | grep '^0 of 16 worker ids are owned' && break; sleep 1
      done)")
                .out,
            "0 of 16 worker ids are owned\n");
  EXPECT_EQ(output(store + "idmint peek web | grep free"), "free       16\n");

  // One command has a worker id until it is read from; then it is taken from it.
  EXPECT_THAT(run(store + "idmint create one --kind pool --layout twitter --workers 1").err,
              HasSubstr("one gives the same ids as web"));
  const Ended held = run(store + R"(
      mkfifo p; idmint next one -n 200000 --window 10min >p & exec 3<p; read -r first <&3
      idmint workers list one --json | python3 -c 'import json, sys; used = json.load(sys.stdin)["used"]
print([(w["worker"], w["owned"], "process" in w["held_by"], w["held_for_seconds"] > 0) for w in used])'
      idmint next one --timeout 20s; echo $?
      idmint doctor | grep 'pool one'
      idmint workers release one 0; idmint workers list one | tail -n 1
      cat <&3 | wc -l; wait $!; echo $?)");
  EXPECT_THAT(
      held.out,
      testing::MatchesRegex(
          "\\[\\(0, True, True, True\\)\\]\n8\n"
          "warn  pool one: 1 of 1 worker ids owned: who starts now gets none[^\n]+\n"
          "released worker id 0 of one, held by [^\n]+\n0 of 1 worker ids are owned; none can "
          "be leased before 20[^\n]+\n"
          "199999\n0\n"));
  EXPECT_THAT(held.err, HasSubstr("every worker id has an owner"));
  EXPECT_THAT(held.err, HasSubstr("its holder may mint on below "));
  // Its bound is ten minutes ahead, so doctor and a command with the usual window say the same.
  EXPECT_THAT(run(store + "idmint doctor").out,
              testing::AllOf(HasSubstr("ok    pool web: 0 of 16 worker ids owned"),
                             HasSubstr("warn  pool one: 0 of 1 worker ids owned; who starts now "
                                       "gets none for ")));
  EXPECT_EQ(run(store + "idmint next one").status, 7);
  EXPECT_EQ(run(store + "idmint next one --window 10min").status, 0);
  output(store + "idmint retire one --yes");
  EXPECT_EQ(run(store + "idmint next one").status, 5);
}

// The driver says so where a process before this one left its shared memory under the same number.
TEST_F(Cli, WhatTheDriverLogsIsNotSeen) {
  const std::string url = servers::mongo_set().url("quiet");
  const std::string script = "export IDMINT_STORE='" + url + R"('
      idmint create orders
      bash -c 'echo /dev/shm/mongoc-$$ >name; touch $(cat name); exec idmint next orders'
      rm -f $(cat name))";
  EXPECT_EQ(output(script), "1\n");
}

TEST_F(Cli, TheClassicDocumentsAreMadeAndTakenFrom) {
  const std::string store = "export IDMINT_STORE='" + servers::mongo_set().url("classic") + "'\n";
  const Ended created = run(store + R"(
      idmint create users --adopt counter --make &&
      idmint create accounts --adopt counters --stripes 10 --max 999 --validator --make &&
      idmint create orders --adopt ids:orders --make)");
  EXPECT_EQ(created.status, 0) << created.err;
  EXPECT_EQ(output(store + "idmint next users -n 2"), "0\n1\n");
  EXPECT_EQ(output(store + "idmint next orders"), "1000\n");
  EXPECT_EQ(output(store + "idmint next orders"), "1010\n");
  EXPECT_EQ(lines_of(output(store + "idmint next accounts -n 10 | sort -u")).size(), 10U);
  EXPECT_THAT(output(store + "idmint peek users"),
              HasSubstr("adopted    uniqueIdentifierCounter/UNIQUE COUNT DOCUMENT "
                        "IDENTIFIER:next=COUNT"));
  EXPECT_THAT(output(store + "idmint peek users --json"),
              HasSubstr(R"("adopted":"uniqueIdentifierCounter/UNIQUE)"));
  EXPECT_THAT(output(store + "idmint list"), HasSubstr("counter, adopted"));
  EXPECT_THAT(run(store + "idmint doctor").out,
              testing::AllOf(HasSubstr("opens; every value is in the journals of a majority"),
                             HasSubstr("left; adopted from ids\n")));
  EXPECT_THAT(run(store + "idmint doctor --rate orders=1e12/s").out,
              HasSubstr(", less than 90 d; adopted from ids\n"));
  // Again changes nothing, from the file of what there is neither.
  output(store + "idmint create users --adopt counter");
  EXPECT_THAT(output(store + "idmint list --toml | tee a.toml; idmint apply a.toml"),
              HasSubstr("was there  users"));
  const Ended other = run(store + "idmint create users");
  EXPECT_EQ(other.status, 5);
  EXPECT_THAT(other.err, HasSubstr("adopted: uniqueIdentifierCounter/UNIQUE"));
  output(store + "idmint raise users --past 99; idmint retire orders --yes");
  EXPECT_EQ(output(store + "idmint next users"), "100\n");
  EXPECT_EQ(run(store + "idmint next orders").status, 5);
  const Ended elsewhere = run("idmint create users --adopt counter --store sqlite:ids.db");
  EXPECT_EQ(elsewhere.status, 12);
  EXPECT_THAT(elsewhere.err, HasSubstr("adopts no documents"));
}

// With a typo or the wrong database in the URL a second counter would begin, and every id would
// repeat.
TEST_F(Cli, AnAdoptedDocumentThatIsMissingIsRefusedAndWhatIsThereIsNamed) {
  const std::string url = servers::mongo_set().url("refused");
  const std::string store = "export IDMINT_STORE='" + url + "'\n";
  servers::mongo_command(
      url, "refused",
      R"({"insert":"counters","documents":[{"_id":{"$oid":"5c5f23e0114925934b3a53b7"},)"
      R"("id":"employees","seq":20},{"_id":"orderid","seq":7},{"_id":42,"seq":5}]})");
  const auto refused = [&](const std::string& arguments, const std::string& says) {
    const Ended ended = run(store + "idmint create none --adopt " + arguments);
    EXPECT_EQ(ended.status, 5) << arguments;
    EXPECT_THAT(ended.err, HasSubstr(says)) << arguments;
    EXPECT_EQ(run(store + "idmint next none").status, 3) << arguments;
  };
  refused("counters/5c5f23e0114925934b3a53b7:last=seq",
          "counters/oid=5c5f23e0114925934b3a53b7 is: name it so");
  refused("counters/orderId:last=seq",
          "did you mean orderid; to begin a new one, have it made "
          "(--make)");
  refused("counter/orderid:last=seq", "did you mean counters");
  refused("counter", "the document \"UNIQUE COUNT DOCUMENT IDENTIFIER\"");
  refused("counters", "nor is the collection uniqueIdentifierCounter");
  refused("ids:orders", "it is not there");
  EXPECT_THAT(run(store + "printf '[sequence.a]\nadopt = \"ids:a\"\n' | idmint apply -").err,
              HasSubstr("--make"));
  EXPECT_THAT(output(store + "idmint list --toml"), testing::Not(HasSubstr("[sequence")));
  EXPECT_THAT(
      servers::mongo_command(url, "refused", R"({"listCollections":1,"nameOnly":true})"),
      testing::AllOf(testing::Not(HasSubstr("\"ids\"")), testing::Not(HasSubstr("uniqueId"))));
  output(store + R"(idmint create emp --adopt counters:last=seq --where '{"id": "employees"}'
      idmint create five --adopt counters/42:last=seq --max 100)");
  EXPECT_EQ(output(store + "idmint next emp; idmint next five"), "21\n6\n");
  // A file goes on as it was written.
  EXPECT_THAT(run(store + R"(cat >a.toml <<'END'
[sequence.emp]
adopt = "counters:last=seq"
where = '{"id": "employees"}'
[sequence.five]
adopt = "counters/42:last=seq"
max = 200
[sequence.new]
adopt = "ids:new"
make = true
END
idmint apply a.toml)")
                  .out,
              testing::AllOf(HasSubstr("was there  emp"), HasSubstr("extended   five"),
                             HasSubstr("created    new")));
  EXPECT_THAT(output(store + "idmint list --toml | tee b.toml; idmint apply b.toml"),
              HasSubstr("was there  emp"));
  // Set back, for all that start later.
  servers::mongo_command(url, "refused",
                         R"({"update":"counters","updates":[{"q":{"id":"employees"},)"
                         R"("u":{"$set":{"seq":3}}}],"writeConcern":{"w":"majority"}})");
  const Ended lost = run(store + "idmint next emp");
  EXPECT_EQ(lost.status, 10);
  EXPECT_THAT(lost.err, testing::AllOf(HasSubstr("seq is 3"), HasSubstr("was 22 when"),
                                       HasSubstr("idmint raise emp --past N")));
  EXPECT_NE(run(store + "idmint doctor").status, 0);
  output(store + R"(idmint retire emp --yes
      idmint create emp2 --adopt counters:last=seq --where '{"id": "employees"}')");
  EXPECT_EQ(output(store + "idmint next emp2"), "4\n");
}

TEST_F(Cli, AnAdoptedDocumentThatWasMadeIsTold) {
  const std::string url = servers::mongo_set().url("missing");
  const std::string store = "export IDMINT_STORE='" + url + "'\n";
  const auto told = [&](const std::string& name, const std::string& first,
                        const std::string& collection) {
    return name + " begins at " + first + ": what it takes from, in " + collection +
           ", was made in " + url + ", or had counted nothing yet";
  };
  const std::string recipes = "uniqueIdentifierCounter";
  EXPECT_EQ(run(store + "idmint create typo --make --adopt counters/usrid:last=seq").err,
            "idmint: " + told("typo", "1", "counters") + "\n");
  EXPECT_EQ(run(store + "idmint create users --make --adopt counter").err,
            "idmint: " + told("users", "0", recipes) + "\n");
  EXPECT_EQ(run(store + "idmint create accounts --make --adopt counters --stripes 10").err,
            "idmint: " + told("accounts", "0", recipes) + "\n");
  EXPECT_EQ(run(store + "idmint create orders --make --adopt ids:orders --json").err,
            R"({"notice":")" + told("orders", "1000", "ids") + "\"}\n");
  EXPECT_EQ(run(store + R"(printf '[sequence.%s]\nadopt = "ids:%s"\nmake = true\n' a a b b | )"
                        "idmint apply -")
                .err,
            "idmint: " + told("a", "1000", "ids") + "\nidmint: " + told("b", "1000", "ids") + "\n");
  // Those that have counted are as expected.
  output(store + "idmint next users; idmint next accounts; idmint next orders");
  EXPECT_EQ(run(store + "idmint create users --adopt counter").err, "");
  EXPECT_EQ(run(store + "idmint create accounts --adopt counters --stripes 10").err, "");
  EXPECT_EQ(run(store + "idmint create again --adopt ids:orders").err, "");
}

TEST_F(Cli, ADocumentThatHasComeToItsEndIsAdoptedWithTheRemedy) {
  const std::string url = servers::mongo_set().url("adoptend");
  const std::string store = "export IDMINT_STORE='" + url + "'\n";
  const std::string create =
      "idmint create parcels --adopt counters/parcels:last=seq,max=end --max ";
  servers::mongo_command(
      url, "adoptend", R"({"insert":"counters","documents":[{"_id":"parcels","seq":9,"end":9}]})");
  const Ended larger = run(store + create + "20");
  EXPECT_EQ(larger.status, 5);
  EXPECT_THAT(larger.err,
              HasSubstr("end is 9, and the last value is to be 20; create the sequence "
                        "with 9 as its last value, and then move that up, end with it"));
  EXPECT_THAT(larger.err, EndsWith("(--max 9)\n"));
  const Ended further =
      run(store + "idmint create parcels --adopt counters/parcels:last=seq --start 11");
  EXPECT_EQ(further.status, 5);
  EXPECT_THAT(further.err, EndsWith("(--start 10)\n"));
  const Ended adopted = run(store + create + "9");
  EXPECT_EQ(adopted.status, 0);
  EXPECT_EQ(
      adopted.err,
      "idmint: parcels is used up already: what it takes from, in counters, has reached 9, its "
      "last value; go on with another, or move its last value up: idmint alter parcels --max "
      "N\n");
  const Ended none = run(store + "idmint next parcels");
  EXPECT_EQ(none.status, 6);
  EXPECT_THAT(none.err, HasSubstr("move its last value up: idmint alter parcels --max N"));
  output(store + "idmint alter parcels --max 20");
  EXPECT_EQ(output(store + "idmint next parcels"), "10\n");
  EXPECT_EQ(
      run(store + "idmint create parcels --adopt counters/parcels:last=seq,max=end --max 20").err,
      "");
}

class InsertCli : public Cli {
 protected:
  InsertCli() {
    static int number = 0;
    database_ = "insert" + std::to_string(++number);
    store_ = "export IDMINT_STORE='" + servers::mongo_set().url(database_) + "'\n";
  }
  std::string command(const std::string& json) {
    return servers::mongo_command(servers::mongo_set().url(database_), database_, json);
  }

  std::string database_;
  std::string store_;
};

TEST_F(InsertCli, DocumentsGetIdsWhichArePrintedInTheirOrder) {
  output("printf '{\"name\":\"ann\"}\\n{\"at\":{\"$date\":\"2026-01-01T00:00:00Z\"}}\\n' >two");
  const std::string insert = store_ + "idmint insert accounts --digits 12 --field account <two";
  const Ended refused = run(insert);
  EXPECT_EQ(refused.status, 5);
  EXPECT_THAT(refused.err, HasSubstr("--create-index"));
  EXPECT_EQ(refused.out, "");
  const std::vector<std::string> ids = lines_of(output(insert + " --create-index"));
  ASSERT_EQ(ids.size(), 2U);
  const auto find = [&](const std::string& id) {
    return command(R"({"find":"accounts","filter":{"account":")" + id + R"("}})");
  };
  EXPECT_EQ(ids[0].size(), 12U);
  EXPECT_THAT(find(ids[0]), HasSubstr(R"("name" : "ann")"));
  EXPECT_THAT(find(ids[1]), HasSubstr("2026-01-01T00:00:00Z"));
  // A sequence of the same store, and another database.
  output(store_ + "idmint create orders --start 7");
  EXPECT_EQ(output(store_ + "idmint insert " + database_ + "x.orders --from orders --json <two"),
            "{\"line\":1,\"outcome\":\"inserted\",\"id\":\"7\"}\n"
            "{\"line\":2,\"outcome\":\"inserted\",\"id\":\"8\"}\n"
            "{\"inserted\":2,\"collisions\":0}\n");
  EXPECT_EQ(output(store_ + "idmint insert accounts --from uuid7 </dev/null"), "");
}

TEST_F(InsertCli, ALineThatIsNoDocumentIsNamedAndNothingOfItsBatchIsInserted) {
  output("(yes '{\"a\":1}' | head -n 10002; echo '{\"a\":}'; echo '{}') >docs");
  const Ended ended = run(store_ + "idmint insert docs --from uuid4 <docs");
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.err, HasSubstr("standard input, line 10003: not JSON"));
  EXPECT_THAT(ended.err, HasSubstr("the lines 1 to 10000 were inserted, and none of the lines from "
                                   "10001 on"));
  EXPECT_EQ(lines_of(ended.out).size(), 10'000U) << "the ids of those that are in";
  EXPECT_THAT(command(R"({"count":"docs"})"), HasSubstr("\"n\" : 10000"));
  for (const char* const line : {"[{}]", "5", "{} {}", "{\"_id\":1}", "{\"a\\u0000b\":1}"}) {
    const Ended bad = run(store_ + "echo '" + line + "' | idmint insert bad --from uuid4");
    EXPECT_EQ(bad.status, 2) << line;
    EXPECT_EQ(bad.out, "") << line;
  }
}

TEST_F(InsertCli, BlankLinesAreSkippedAndCounted) {
  command(R"({"createIndexes":"some","indexes":[{"key":{"k":1},"name":"k","unique":true}]})");
  const std::string insert = store_ + "printf '\\n{\"k\":1}\\n \\t\\r\\n{\"k\":%s}\\n\\n' ";
  EXPECT_THAT(output(insert + "2 | idmint insert some --from uuid4 --json"),
              testing::MatchesRegex(
                  "\\{\"line\":2,[^\n]+\n\\{\"line\":4,[^\n]+\n\\{\"inserted\":2,[^\n]+\n"));
  const Ended refused = run(insert + "3 | idmint insert some --from uuid4");
  EXPECT_EQ(refused.status, 4);
  EXPECT_THAT(refused.err, HasSubstr("idmint: line 2 of"));
  output(store_ + "idmint create invoices --strategy gapless");
  const Ended gapless = run(insert + "1 | idmint insert bills --from invoices --field no");
  EXPECT_EQ(gapless.out, "1\n2\n") << gapless.err;
  const Ended again = run(insert + "3 | idmint insert some --from invoices --field no");
  EXPECT_EQ(again.status, 5);
  EXPECT_THAT(again.err, HasSubstr("idmint: lines 2 to 4: "));
}

// Each message names a tool that makes documents of the input, and quotes no parser.
TEST_F(InsertCli, WhatIsNoJsonByTheLineIsNamed) {
  struct Input {
    const char* text;
    const char* told;
  };
  for (const auto& [text, told] :
       {Input{"[{\"a\":1},{\"a\":2}]",
              "it is an array, and each line is to be one document: jq -c '.[]' "},
        Input{"[\\n  {\"a\":1}\\n]", "line 1: it is an array, "},
        Input{"{\\n  \"a\": 1\\n}",
              "it is only the beginning of a document, and each line is to be "
              "a whole one: jq -c . "},
        Input{"name,email\\nann,ann@example.org",
              "line 1: it is CSV, as it looks, and each line is "
              "to be one document of JSON: mlr --icsv --ojsonl"},
        Input{"\"name\";\"email\"", "it is CSV, "}}) {
    const Ended ended = run(store_ + "printf '" + text + "' | idmint insert other --from uuid4");
    EXPECT_EQ(ended.status, 2) << text;
    EXPECT_THAT(
        ended.err,
        testing::AllOf(HasSubstr(told), HasSubstr("; no line before it was inserted, "),
                       testing::Not(HasSubstr("not JSON")), testing::Not(HasSubstr("parse"))));
  }
}

TEST_F(InsertCli, WhatIsRefusedIsNamedByItsLineAndTheOthersArePrinted) {
  command(R"({"createIndexes":"users","indexes":[{"key":{"email":1},"name":"e","unique":true}]})");
  const Ended ended = run(store_ +
                          "printf '{\"email\":1}\\n{\"email\":1}\\n{\"email\":2}\\n' | idmint "
                          "insert users --from ulid");
  EXPECT_EQ(ended.status, 4);
  EXPECT_THAT(ended.err, HasSubstr("idmint: line 2 of"));
  EXPECT_THAT(ended.err, HasSubstr("another unique index, \"e\""));
  const std::vector<std::string> lines = lines_of(ended.out);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].size(), 26U);
  EXPECT_EQ(lines[1], "-");
  EXPECT_EQ(lines[2].size(), 26U);
}

TEST_F(InsertCli, ASequenceBehindTheDataIsToldAndHealed) {
  std::string documents;
  for (int i = 1; i <= 30; ++i)
    documents += (i > 1 ? "," : "") + std::string("{\"_id\":") + std::to_string(i) + "}";
  // A value beyond the last one of the sequence is not its own.
  command(R"({"insert":"orders","documents":[)" + documents +
          R"(,{"_id":{"$numberLong":"9223372036854775807"}}]})");
  for (const std::string strategy : {"counter", "cached"}) {
    output(store_ + "idmint create " + strategy + " --strategy " + strategy);
    const std::string insert =
        store_ + "echo '{}' | idmint insert orders --attempts 3 --from " + strategy;
    const Ended behind = run(insert);
    EXPECT_EQ(behind.status, 5);
    EXPECT_EQ(behind.out, "-\n");
    EXPECT_THAT(behind.err, HasSubstr("idmint raise " + strategy + " --from-collection " +
                                      database_ + ".orders --field _id"));
    const Ended healed = run(insert + " --heal");
    EXPECT_EQ(healed.status, 0) << healed.err;
    EXPECT_THAT(healed.err, HasSubstr(strategy + " was behind the data: it was raised, and "));
    EXPECT_THAT(healed.out, testing::MatchesRegex("3[1-9]\n"));
  }
  output(store_ + "idmint create striped --strategy striped --stripes 2 --start 1 --max 200");
  const Ended striped =
      run(store_ + "yes '{}' | head -n 100 | idmint insert orders --heal --from striped");
  EXPECT_EQ(striped.status, 0) << striped.err;
  EXPECT_EQ(lines_of(striped.out).size(), 100U);
  output(store_ + "idmint create permuted --strategy permuted --start 1 --max 30");
  const Ended permuted = run(store_ + "echo '{}' | idmint insert orders --heal --from permuted");
  EXPECT_EQ(permuted.status, 2) << permuted.err;
  EXPECT_THAT(permuted.err, HasSubstr("it is permuted"));
}

TEST_F(InsertCli, ACommandThatIsAdvisedCanBePasted) {
  command(R"({"insert":"my order's","documents":[{"_id":1,"a:b":1}]})");
  command(
      R"({"createIndexes":"my order's","indexes":[{"key":{"a:b":1},"name":"i","unique":true}]})");
  output(store_ + "idmint create orders");
  const Ended behind = run(store_ + "echo '{}' | idmint insert " + database_ +
                           R"(."my order's" --from orders --attempts 1 --field a:b)");
  EXPECT_EQ(behind.status, 5) << behind.err;
  const std::size_t at = behind.err.find("idmint raise ");
  ASSERT_NE(at, std::string::npos) << behind.err;
  output(store_ + behind.err.substr(at, behind.err.find(';', at) - at));
  EXPECT_EQ(output(store_ + "idmint next orders"), "2\n");
}

TEST_F(InsertCli, ALargestCountIsNoLimitOfAnImport) {
  output(store_ + "idmint create few --largest-count 3");
  EXPECT_EQ(output(store_ + "yes '{}' | head -n 8 | idmint insert docs --from few"),
            "1\n2\n3\n4\n5\n6\n7\n8\n");
}

TEST_F(InsertCli, GaplessSequencesOfOneFieldNeedAUniqueIndex) {
  for (const std::string words : {"a", "b", "prefixed --prefix B-", "later --start 100", "after"})
    output(store_ + "idmint create " + words + " --strategy gapless");
  const auto insert = [&](const std::string& from, const std::string& into, int count) {
    return run(store_ + "yes '{}' | head -n " + std::to_string(count) + " | idmint insert " + into +
               " --field no --from " + from);
  };
  EXPECT_EQ(insert("a", "bills", 0).status, 0) << "bound before its first document";
  const Ended refused = insert("b", "bills", 1);
  EXPECT_EQ(refused.status, 5);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, testing::AllOf(HasSubstr("idmint: sequence a numbers \"" + database_ +
                                                    ".bills:no\", "
                                                    "and sequence b can give the same numbers: "),
                                          HasSubstr("has no unique index on exactly \"no\""),
                                          HasSubstr("--create-index")));
  EXPECT_EQ(insert("a", "bills", 2).out, "1\n2\n") << "b was refused, and is not in its way";
  EXPECT_EQ(insert("prefixed", "bills", 1).out, "B-1\n") << "it prints other texts";
  EXPECT_EQ(insert("later", "bills", 1).status, 5) << "a may come to its numbers";
  EXPECT_EQ(insert("b", "others", 0).status, 0);
  EXPECT_EQ(insert("b", "bills", 1).status, 5) << "no number was given: bound anew, and refused";
  const Ended repeated = insert("b --create-index", "bills", 1);
  EXPECT_EQ(repeated.status, 5);
  EXPECT_THAT(repeated.err, HasSubstr("has the number 1 in no already"));
  EXPECT_EQ(insert("later", "bills", 1).out, "100\n") << "the index keeps them apart";
  // One that is retired comes to no number above its last.
  output(store_ + "idmint create old --strategy gapless");
  EXPECT_EQ(insert("old", "papers", 1).out, "1\n");
  EXPECT_EQ(insert("after", "papers", 1).status, 5);
  output(store_ + "idmint retire old --yes; idmint create new --strategy gapless --start 2");
  EXPECT_EQ(insert("after", "papers", 1).status, 5) << "it begins at 1";
  EXPECT_EQ(insert("new", "papers", 1).out, "2\n");
}

TEST_F(InsertCli, GaplessNumbersAreTakenWithTheDocuments) {
  output(store_ + "idmint create invoices --strategy gapless");
  const std::string insert = store_ + "idmint insert bills --from invoices --field number";
  EXPECT_EQ(output("yes '{\"a\":1}' | head -n 3 >three\n" + insert + " <three"), "1\n2\n3\n");
  command(R"({"createIndexes":"bills","indexes":[{"key":{"k":1},"name":"k","unique":true,)"
          R"("partialFilterExpression":{"k":{"$exists":true}}}]})");
  const Ended refused = run("printf '{\"k\":1}\\n{\"k\":1}\\n' >same\n" + insert + " <same");
  EXPECT_EQ(refused.status, 4) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("idmint: lines 1 to 2: document 2: "));
  EXPECT_THAT(refused.err, HasSubstr("; mend line 2; nothing of the lines from 1 on was inserted"));
  EXPECT_EQ(refused.out, "-\n-\n");
  EXPECT_EQ(output(insert + " --json --numbers <three"),
            "{\"line\":1,\"outcome\":\"inserted\",\"id\":4}\n"
            "{\"line\":2,\"outcome\":\"inserted\",\"id\":5}\n"
            "{\"line\":3,\"outcome\":\"inserted\",\"id\":6}\n"
            "{\"inserted\":3,\"collisions\":0}\n");
  EXPECT_THAT(command(R"({"count":"bills","query":{"number":{"$gte":1,"$lte":6}}})"),
              HasSubstr("\"n\" : 6"));
  const Ended usage = run(insert + " --heal <three");
  EXPECT_EQ(usage.status, 2);
  EXPECT_THAT(usage.err, HasSubstr("only --field and --create-index go with it"));
  for (const char* const option : {"--check luhn", "--encoding hex", "--prefix A", "--worker 5"}) {
    const Ended form = run(insert + " " + option + " <three");
    EXPECT_EQ(form.status, 2) << option;
    EXPECT_THAT(form.err, HasSubstr("is settled when it is created")) << option;
  }
}

// As restoring an older backup does.
TEST_F(InsertCli, DoctorComparesTheStoreWithTheCollections) {
  output(store_ + "idmint create orders; idmint create invoices --strategy gapless");
  output(store_ +
         "yes '{}' | head -n 5 >five; idmint insert orders --from orders --field number "
         "--create-index <five >ids; idmint insert bills --from invoices --field number "
         "<five >>ids");
  const auto fails = testing::ContainsRegex("fail +sequence");
  EXPECT_THAT(run(store_ + "idmint doctor").out, testing::Not(fails));
  const auto set_next = [&](const std::string& name, const std::string& next) {
    command(R"({"update":"idmint.counters","updates":[{"q":{"_id":")" + name +
            R"("},"u":{"$set":{"next":{"$numberLong":")" + next +
            R"("}}}}],"writeConcern":{"w":"majority"}})");
  };
  set_next("orders", "3");
  set_next("invoices", "2");
  EXPECT_THAT(
      run(store_ + "idmint doctor").out,
      testing::AllOf(testing::ContainsRegex("fail +sequence invoices: this host was given 5"),
                     testing::ContainsRegex("fail +sequence orders: this host was given 5")));
  // A host that minted none of them.
  const std::string other = store_ + "export HOME=$PWD/other\n";
  EXPECT_THAT(run(other + "idmint doctor").out, testing::Not(fails));
  const Ended named = run(other + "idmint doctor --used-in orders=" + database_ + ".orders:number");
  EXPECT_EQ(named.status, 21);
  EXPECT_THAT(named.out, HasSubstr("orders: " + database_ +
                                   ".orders has 5 in number, and the store "
                                   "does not know of it"));
  const std::size_t raise = named.out.find("idmint raise orders");
  ASSERT_NE(raise, std::string::npos);
  output(store_ + named.out.substr(raise, named.out.find('\n', raise) - raise));
  set_next("invoices", "6");
  EXPECT_THAT(run(store_ + "idmint doctor").out, testing::Not(fails));
  // Others inserted, and this host did too.
  command(R"({"insert":"orders","documents":[{"number":{"$numberLong":"9"}}]})");
  EXPECT_THAT(run(store_ + "idmint doctor").out, HasSubstr(".orders has 9 in number"));
  command(R"({"drop":"orders"})");
  EXPECT_THAT(run(store_ + "idmint doctor").out,
              HasSubstr("it cannot be compared with its values in use ("));
}

TEST_F(InsertCli, WhoIsStoppedSaysHowFarItCame) {
  output(store_ + "idmint create invoices --strategy gapless");
  const Ended stopped = run(store_ + R"sh(mkfifo in ids
      idmint insert bills --from invoices --field number <in >ids & pid=$!
      exec 3>in 4<ids
      yes '{"a":1}' | head -n 10000 >&3
      head -n 10000 <&4 >printed
      kill -TERM $pid; exec 3>&-; wait $pid)sh");
  EXPECT_EQ(stopped.status, 143);
  EXPECT_THAT(stopped.err, HasSubstr("stopped by a signal: the lines 1 to 10000 were inserted, and "
                                     "their ids printed; go on with line 10001"));
  // A refused command tells the lines that are in, too.
  const Ended refused = run(store_ + R"((yes '{"a":1}' | head -n 10000; echo '{"number":1}') |
      idmint insert bills --from invoices --field number)");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err,
              HasSubstr("idmint: line 10001: document 1: it has the field \"number\" already"));
  EXPECT_THAT(refused.err, HasSubstr("the lines 1 to 10000 are in"));
}

// Before it waits for lines, of which there is never one here.
TEST_F(InsertCli, AHostThatIsDeadIsToldBeforeLinesAreRead) {
  const Ended dead =
      run("mkfifo in; idmint insert a.b --from uuid4 --store mongodb://127.0.0.1:1/app 0<>in");
  EXPECT_EQ(dead.status, 7) << dead.err;
  EXPECT_THAT(dead.err, HasSubstr("127.0.0.1:1"));
}

TEST_F(InsertCli, ALineThatIsNoTextIsRefusedAndAMarkBeforeTheFirstIsSkipped) {
  const std::string insert = store_ + "idmint insert docs --from uuid7 ";
  const Ended endless = run(insert + "</dev/zero");
  EXPECT_EQ(endless.status, 2);
  EXPECT_THAT(endless.err, HasSubstr("line 1: it has a NUL, which no text has: give another input; "
                                     "no line before it was inserted"));
  const Ended wide = run("printf '{\"a\":1}\n' | iconv -f UTF-8 -t UTF-16 | (" + insert + ")");
  EXPECT_EQ(wide.status, 2);
  EXPECT_THAT(wide.err, HasSubstr("it is UTF-16: convert it with iconv"));
  const Ended marked = run("printf '\\xEF\\xBB\\xBF{\"a\":1}\n{\"a\":2}\n' | (" + insert + ")");
  EXPECT_EQ(marked.status, 0) << marked.err;
  EXPECT_THAT(command(R"({"count":"docs"})"), HasSubstr("\"n\" : 2"));
}

TEST_F(InsertCli, IdsThatCannotBePrintedAreSaidToBeIn) {
  const Ended full = run("yes '{\"a\":1}' | head -n 3 >three\n" + store_ +
                         "idmint insert docs --from uuid7 <three >/dev/full");
  EXPECT_EQ(full.status, 7);
  EXPECT_THAT(full.err, HasSubstr("the lines 1 to 3 were inserted, but the ids could not all be "
                                  "told"));
  EXPECT_THAT(command(R"({"count":"docs"})"), HasSubstr("\"n\" : 3"));
  // A line that was refused is not said to be in, either.
  command(R"({"createIndexes":"docs","indexes":[{"key":{"k":1},"name":"by_k","unique":true,)"
          R"("sparse":true}]})");
  const Ended refused = run("printf '{\"k\":1}\\n{\"k\":1}\\n{\"k\":2}\\n' >keys\n" + store_ +
                            "idmint insert docs --from uuid7 <keys >/dev/full");
  EXPECT_EQ(refused.status, 7);
  EXPECT_THAT(refused.err, testing::AllOf(HasSubstr("line 2 of "), HasSubstr("2 of 3 documents"),
                                          testing::Not(HasSubstr("lines 1 to 3"))));
}

TEST_F(InsertCli, AProxyClaimsAndASweepSettles) {
  output("yes '{\"a\":1}' | head -n 5 >docs");
  const std::string insert = store_ + "idmint insert users --digits 6 --proxy users.ids <docs";
  EXPECT_EQ(lines_of(output(insert)).size(), 5U);
  EXPECT_THAT(command(R"({"count":"users.ids","query":{"state":"used"}})"), HasSubstr("\"n\" : 5"));
  command(R"({"insert":"users.ids","documents":[{"_id":"x","state":"claimed",)"
          R"("at":{"$date":"2020-01-01T00:00:00Z"},"owner":"dead"}]})");
  EXPECT_EQ(output(store_ + "idmint sweep users --field _id --older-than 10min"),
            "CLAIMS     MARKED NOW\nused                0\nabandoned           1\n");
  EXPECT_EQ(output(store_ + "idmint sweep users --field _id --json"),
            "{\"used\":0,\"abandoned\":0}\n");
  const Ended typo = run(store_ + "idmint sweep users --field _id --proxy user.ids");
  EXPECT_EQ(typo.status, 3);
  EXPECT_THAT(typo.err, HasSubstr("there is no proxy collection \"user.ids\" beside"));
  // Without an index on it, no sweep would find the documents.
  const std::string by_field = store_ + "idmint insert cards --digits 6 --field n --proxy n.ids ";
  const Ended unguarded = run(by_field + "<docs");
  EXPECT_EQ(unguarded.status, 5);
  EXPECT_THAT(unguarded.err, HasSubstr("no index that begins with \"n\""));
  EXPECT_EQ(lines_of(output(by_field + "--create-index <docs")).size(), 5U);
  output(store_ + "idmint sweep cards --field n --proxy n.ids");
  EXPECT_THAT(command(R"({"listIndexes":"cards"})"), testing::Not(HasSubstr("unique")));
  // Claims of documents that never came: to heal from there is nothing, and another id is taken.
  output(store_ + "idmint create seats");
  command(R"({"insert":"halls.ids","documents":[{"_id":1,"state":"claimed"}]})");
  EXPECT_EQ(
      output(store_ + "echo '{}' | idmint insert halls --from seats --proxy halls.ids --heal"),
      "2\n");
}

TEST_F(InsertCli, WrongArgumentsAreUsage) {
  for (const char* const wrong : {"insert",
                                  "insert a.b",
                                  "insert a.b --from nosuch --attempts 0",
                                  "insert a.b --digits 0",
                                  "insert a.b --from uuid4 --stored-as x",
                                  "insert a.b --from uuid4 --field a.b",
                                  "insert a.b --from uuid4 --field '$a'",
                                  "insert a.b --from uuid4 --field ''",
                                  "insert 'a.$b' --from uuid4",
                                  "insert .b --from uuid4",
                                  "insert admin.b --from uuid4",
                                  "insert a.idmint.counters --from uuid4",
                                  "insert a.b --from uuid4 --proxy idmint.counters",
                                  "insert a.b --from uuid4 --store sqlite:ids.db",
                                  "insert a.b --from uuid4 --digits 5",
                                  "insert a.b --from uuid4 --store 'mongodb://h/a?w=1'",
                                  "insert a.b --from uuid4 --store 'mongodb://h/a?retryWrite=true'",
                                  "sweep",
                                  "sweep a.b --older-than x",
                                  "insert a.b --from uuid4 --proxy b",
                                  "insert a.b --from uuid4 --proxy a.p",
                                  "sweep a.b --proxy a.p"}) {
    const Ended ended = run(store_ + "echo '{}' | idmint " + wrong);
    EXPECT_EQ(ended.status, 2) << wrong << ended.err;
    EXPECT_EQ(ended.out, "") << wrong;
  }
  EXPECT_EQ(run(store_ + "echo '{}' | idmint insert a.b --from nosuch").status, 3);
  EXPECT_EQ(run("echo '{}' | idmint insert a.b --from uuid4").status, 2) << "no store";
}

TEST_F(Cli, AGaplessSequenceHasNoNext) {
  const std::string store = "export IDMINT_STORE='" + servers::mongo_set().url("gapless") + "'\n";
  output(store + "idmint create invoices --strategy gapless");
  const Ended next = run(store + "idmint next invoices");
  EXPECT_EQ(next.status, 5);
  EXPECT_THAT(next.err, HasSubstr("it is gapless"));
  EXPECT_THAT(output(store + "idmint peek invoices"), HasSubstr("gapless"));
  const Ended local = run("idmint create invoices --strategy gapless --store sqlite:a.db");
  EXPECT_EQ(local.status, 12);
  EXPECT_THAT(local.err,
              HasSubstr("MongoDB replica set that holds them (--store or IDMINT_STORE)"));
}

TEST_F(Cli, RaisesPastWhatOnlyThePrimaryHas) {
  servers::MongoSet& set = servers::mongo_set();
  const std::string url = set.url("ahead");
  output("idmint create local");
  servers::mongo_command(
      url, "ahead",
      R"({"insert":"orders","documents":[{"n":7}],"writeConcern":{"w":3,"wtimeout":60000}})");
  const std::size_t primary = set.primary();
  const auto on_secondaries = [&](const std::string& command) {
    for (std::size_t i = 0; i < 3; ++i) {
      if (i == primary) continue;
      EXPECT_THAT(servers::mongo_command(set.direct(i), "admin", command),
                  HasSubstr(R"("ok" : 1.0)"));
    }
  };
  on_secondaries(R"({"configureFailPoint":"stopReplProducer","mode":"alwaysOn"})");
  on_secondaries(R"({"waitForFailPoint":"stopReplProducer","timesEntered":1,"maxTimeMS":60000})");
  servers::mongo_command(url, "ahead",
                         R"({"insert":"orders","documents":[{"n":9}],"writeConcern":{"w":1}})");
  const Ended raised =
      run("idmint raise local --from-collection ahead.orders:n --uri '" + url + "'");
  on_secondaries(R"({"configureFailPoint":"stopReplProducer","mode":"off"})");
  EXPECT_EQ(raised.status, 0) << raised.err;
  EXPECT_EQ(output("idmint next local"), "10\n");
}

TEST_F(Cli, RaisesPastWhatACollectionHolds) {
  const std::string url = servers::mongo_set().url("raised");
  const std::string store = "export IDMINT_STORE='" + url + "'\n";
  const auto put = [&](const std::string& values) {
    servers::mongo_command(
        url, "app",
        R"({"insert":"orders","documents":[)" + values + R"(],"writeConcern":{"w":"majority"}})");
  };
  put(R"({"n":7},{"n":{"$numberLong":"1200"}},{"n":1300.0},{"n":null},{"m":9999},{"n":true})");
  output(store +
         "idmint create orders; idmint create blocks --strategy striped --stripes 2 --max " +
         "2000");
  EXPECT_THAT(output(store + "idmint raise orders --from-collection app.orders:n --json"),
              HasSubstr(R"("skipped":"1300")"));
  EXPECT_EQ(output(store + "idmint next orders"), "1301\n");
  EXPECT_THAT(output(store + "idmint raise orders --from-collection app.orders:n --json"),
              HasSubstr(R"("skipped":"0")"));
  EXPECT_THAT(output(store + "idmint raise blocks --from-collection app.orders:n --yes --json"),
              HasSubstr(R"("skipped":"307")"));
  output("idmint create local && idmint raise local --from-collection app.orders:n --uri '" + url +
         "'");
  EXPECT_EQ(output("idmint next local"), "1301\n");
  EXPECT_EQ(run("idmint raise local --from-collection app.orders:n").status, 2);
  EXPECT_EQ(run(store + "idmint raise orders").status, 2);
  EXPECT_EQ(run(store + "idmint raise orders --past 5 --from-collection app.orders:n").status, 2);
  EXPECT_EQ(run(store + "idmint raise orders --from-collection app.orders").status, 2);
  EXPECT_EQ(run(store + "idmint raise orders --from-collection orders:n").status, 2);

  // A name that is misspelt is no collection that has nothing.
  const Ended no_collection = run(store + "idmint raise orders --from-collection app.order:n");
  EXPECT_EQ(no_collection.status, 3);
  EXPECT_THAT(no_collection.err, HasSubstr("there is no collection app.order;"));
  const Ended no_field = run(store + "idmint raise orders --from-collection app.orders:nn");
  EXPECT_EQ(no_field.status, 3);
  EXPECT_THAT(no_field.err, HasSubstr("no document of app.orders has the field \"nn\""));
  servers::mongo_command(url, "app", R"({"create":"empty"})");
  EXPECT_EQ(run(store + "idmint raise orders --from-collection app.empty:n").status, 0);

  // A colon may belong to the collection or to the field.
  servers::mongo_command(
      url, "app", R"({"insert":"a:b","documents":[{"c:d":5000}],"writeConcern":{"w":"majority"}})");
  output(store + "idmint create colons");
  EXPECT_EQ(run(store + "idmint raise colons --from-collection app.a:b:c:d").status, 2);
  output(store + "idmint raise colons --from-collection app.a:b --field c:d");
  EXPECT_EQ(output(store + "idmint next colons"), "5001\n");

  // Texts, as the sequence prints them.
  put(R"({"n":"A-000041"},{"n":"A-00005"},{"n":"A-00006x"},{"n":"B-000999"},{"n":"A-000042 "})");
  output(store + "idmint create texts --prefix A- --digits 6");
  output(store + "idmint raise texts --from-collection app.orders:n");
  EXPECT_EQ(output(store + "idmint next texts"), "A-001301\n") << "the largest of both kinds";
  const Ended unclear = run(store + "idmint raise orders --from-collection app.orders:n");
  EXPECT_EQ(unclear.status, 5);
  EXPECT_THAT(unclear.err, HasSubstr("the text \"B-000999\""));
  put(R"({"t":["A-000001"]},{"t":"A-000050"},{"t":"A-000049"},{"t":"A-0000500"})");
  output(store + "idmint create more --prefix A- --digits 6");
  EXPECT_EQ(run(store + "idmint raise more --from-collection app.orders:t").status, 5);
  servers::mongo_command(url, "app",
                         R"({"delete":"orders","deletes":[{"q":{"t":"A-000001"},"limit":0}]})");
  output(store + "idmint raise more --from-collection app.orders:t");
  EXPECT_EQ(output(store + "idmint next more"), "A-000051\n");
}

}  // namespace
}  // namespace idmint::e2e
