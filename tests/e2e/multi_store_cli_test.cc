// One sequence over several stores, from the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/e2e/cli.h"

namespace idmint::e2e {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

TEST_F(Cli, OneSequenceOverSeveralStores) {
  const std::string create =
      "idmint create tickets --max 3000 --over sqlite:a.db --over sqlite:b.db --over sqlite:c.db";
  output(create + "; " + create);
  EXPECT_EQ(output("for store in a b c a b c; do idmint next tickets --store sqlite:$store.db; "
                   "done; idmint next tickets -n 3 --store sqlite:b.db"),
            "1\n2\n3\n4\n5\n6\n7\n10\n13\n");
  EXPECT_THAT(output("idmint list --store sqlite:b.db"),
              ContainsRegex("tickets  interleaved, 3 stores, skew 8 +8  2,991  <1 %  open"));
  EXPECT_THAT(
      output("idmint peek tickets --store sqlite:c.db"),
      AllOf(ContainsRegex("stripe 0 +next 16, in sqlite:/.*a.db\n"),
            ContainsRegex("stripe 1 +next 8, in sqlite:/.*b.db\n"), ContainsRegex("skew +8\n")));
  EXPECT_THAT(output("idmint peek tickets --json --store sqlite:c.db"),
              AllOf(HasSubstr(R"("stores":[{"id":)"), HasSubstr(R"("skew":"8")")));
  EXPECT_THAT(run("idmint doctor --ignore clock --store sqlite:a.db").out,
              HasSubstr("in 3 stores, the next values 8 apart"));
  const Ended listed =
      run("idmint create parts --store sqlite:a.db; idmint list --toml --store "
          "sqlite:a.db | tee all.toml; idmint apply all.toml --store sqlite:d.db");
  EXPECT_EQ(listed.status, 0);
  EXPECT_THAT(listed.out,
              AllOf(HasSubstr("[sequence.parts]"),
                    HasSubstr("# Over several stores, which a file does not name, so left out "
                              "here:\n#   tickets\n")));
  EXPECT_EQ(listed.err,
            "idmint: tickets is over several stores, and left out of the file: make it with idmint "
            "create tickets --over URL --over URL\n");

  output("idmint raise tickets --past 100 --yes --store sqlite:a.db");
  EXPECT_EQ(output("for i in 1 2 3; do idmint next tickets --store sqlite:a.db; done"),
            "101\n102\n103\n");
  output("idmint alter tickets --max 3003 --store sqlite:b.db");
  EXPECT_THAT(output("idmint peek tickets --store sqlite:c.db"), ContainsRegex("last +3003\n"));
  EXPECT_EQ(output("idmint next tickets -n 2900 --store sqlite:a.db | sort -n | uniq -d"), "");
  EXPECT_EQ(run("idmint next tickets --store sqlite:a.db").status, 6);
  output("idmint retire tickets --yes --store sqlite:a.db");
  for (const std::string store : {"a", "b", "c"})
    EXPECT_EQ(run("idmint next tickets --store sqlite:" + store + ".db").status, 5);
}

TEST_F(Cli, WhoMakesOneOverSeveralStoresIsToldWhereToAsk) {
  EXPECT_THAT(
      run("script -qefc 'idmint create tickets --over sqlite:a.db --over sqlite:b.db' /dev/null")
          .out,
      HasSubstr("made tickets over 2 stores: try idmint next tickets --store sqlite:"));
}

TEST_F(Cli, AWrongStoreOfSeveralIsRefused) {
  output("idmint create tickets --over sqlite:a.db --over sqlite:b.db");
  const std::string next = "idmint next tickets --store sqlite:a.db";
  EXPECT_EQ(output(next + " -n 2"), "1\n3\n");
  // Missing; moved, and its place given; another one at its place; a copy of the first.
  const Ended missing = run("mkdir moved; mv b.db* moved; " + next);
  EXPECT_EQ(missing.status, 5);
  EXPECT_THAT(missing.err, AllOf(HasSubstr("is not at sqlite:/"), HasSubstr("(--over)")));
  EXPECT_EQ(output(next + " --over sqlite:moved/b.db"), "2\n");
  EXPECT_EQ(output("IDMINT_OVER='sqlite:none.db sqlite:moved/b.db' " + next), "4\n");
  const Ended other = run("idmint create tickets --store sqlite:b.db; " + next);
  EXPECT_EQ(other.status, 5);
  EXPECT_THAT(other.err, HasSubstr("it is another store than that of its stripe 1"));
  EXPECT_EQ(run("idmint next tickets --store sqlite:b.db").out, "1\n") << "a sequence of its own";
  EXPECT_THAT(run(next + " --over sqlite:b.db").err, HasSubstr("another store"));
  EXPECT_EQ(run("idmint peek tickets --store sqlite:a.db").status, 0);
  EXPECT_EQ(run("idmint doctor --ignore clock --store sqlite:a.db").status, 21);
}

TEST_F(Cli, PeekSaysWhichStoresItsCountIsOf) {
  output("idmint create tickets --max 100 --over sqlite:a.db --over sqlite:b.db; mv b.db away.db");
  const std::string peeked = output("idmint peek tickets --store sqlite:a.db");
  EXPECT_THAT(peeked, ContainsRegex("left +50 in the 1 of 2 stores that could be read\n"));
  for (const std::string& line : lines_of(peeked)) {
    if (!line.starts_with("stripe 1")) continue;
    const std::size_t url = line.find("sqlite:/");
    ASSERT_NE(url, std::string::npos) << line;
    EXPECT_EQ(line.find("sqlite:/", url + 1), std::string::npos) << line;
  }
  EXPECT_THAT(output("mv away.db b.db; idmint peek tickets --store sqlite:a.db"),
              ContainsRegex("left +100\n"));
}

#ifdef IDMINTD_BINARY

// The daemon gets a store that the definition does not find, and that of another sequence.
TEST_F(Cli, TheDaemonIsToldWhereTheStoresOfSeveralAre) {
  output(
      "idmint create tickets --over sqlite:a.db --over sqlite:b.db;"
      "idmint create parts --over sqlite:c.db --over sqlite:d.db; mkdir moved; mv b.db* moved");
  const Ended served = run(R"(
    IDMINT_OVER='sqlite:d.db sqlite:moved/b.db' idmintd --store sqlite:a.db --http unix:http &
    until [[ -S http ]]; do sleep 0.02; done
    for i in 1 2 3; do curl -s --unix-socket http -X POST http://localhost/v1/ids/tickets; done
    kill $!
    wait $!)");
  EXPECT_EQ(served.status, 0) << served.err;
  EXPECT_EQ(served.out, "1\n2\n3\n");
}

#endif

TEST_F(Cli, WhatCreateRefusesOfSeveralStores) {
  EXPECT_THAT(run("idmint create t --over sqlite:a.db").err, HasSubstr("given once"));
  EXPECT_THAT(run("idmint create t --over sqlite:a.db --over sqlite:a.db").err,
              HasSubstr("names one store twice"));
  EXPECT_THAT(run("idmint create t --over sqlite:a.db --over sqlite:b.db --store sqlite:c.db").err,
              HasSubstr("leave --store out"));
  EXPECT_THAT(run("idmint create t --over sqlite:a.db --over sqlite:b.db --strategy cached").err,
              HasSubstr("strategy interleaved"));
  EXPECT_THAT(run("idmint create t --over sqlite:a.db --over sqlite:b.db --stripes 3").err,
              HasSubstr("leave --stripes out, or give 2"));
  // The same stores in another order.
  output("idmint create t --over sqlite:a.db --over sqlite:b.db");
  EXPECT_EQ(run("idmint create t --over sqlite:b.db --over sqlite:a.db").status, 5);
}

}  // namespace
}  // namespace idmint::e2e
