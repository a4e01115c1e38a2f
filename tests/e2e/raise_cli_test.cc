// raise and retire as people run them: what is asked, what is refused without a terminal, each
// block past its own value, and everything in a store at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/e2e/cli.h"

namespace idmint::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class RaiseCli : public Cli {
 protected:
  // With this answer typed at a terminal.
  Ended answer(const std::string& typed, const std::string& command) {
    return run("printf '" + typed + "\\n' | script -qefc '" + command + "' /dev/null");
  }

  // The store ids.db, in which orders gives `last` + 1 then.
  void expect_doubt_until_raised_past(int last) {
    const std::string store = " --store sqlite:ids.db";
    EXPECT_EQ(run("idmint next orders" + store).status, 10);
    EXPECT_EQ(run("idmint raise --all --past " + std::to_string(last) + store).status, 0);
    EXPECT_EQ(output("idmint next orders" + store), std::to_string(last + 1) + "\n");
  }
};

TEST_F(RaiseCli, AsksBeforeItPassesOverMoreThanATenth) {
  output("idmint create orders --max 100");
  EXPECT_EQ(run("idmint raise orders --past 10").status, 0) << "a tenth is not more than a tenth";
  const Ended refused = run("idmint raise orders --past 60");
  EXPECT_EQ(refused.status, 5);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("nothing was changed"), HasSubstr("add --yes"),
                                 HasSubstr("50 of the 90 values that are left (55.6 %)")));
  EXPECT_EQ(run("idmint raise orders --past 60 --json").status, 5);
  EXPECT_EQ(output("idmint raise orders --past 60 --dry-run"),
            "orders would pass over 50 of the 90 values that are left (55.6 %)\n");
  const Ended no = answer("n", "idmint raise orders --past 60");
  EXPECT_EQ(no.status, 5);
  EXPECT_THAT(no.out, HasSubstr("Raise? [y/N]"));
  EXPECT_EQ(output("idmint next orders"), "11\n") << "nothing was changed";
  EXPECT_EQ(answer("y", "idmint raise orders --past 60").status, 0);
  EXPECT_EQ(output("idmint next orders"), "61\n");
  EXPECT_THAT(output("idmint raise orders --past 80 --yes --json"),
              AllOf(HasSubstr(R"("skipped":"19")"), HasSubstr(R"("left_before":"39")")));
  EXPECT_EQ(output("idmint next orders"), "81\n");
}

TEST_F(RaiseCli, AsksBeforeItRetires) {
  output("idmint create orders");
  const Ended refused = run("idmint retire orders");
  EXPECT_EQ(refused.status, 5);
  EXPECT_THAT(refused.err, HasSubstr("add --yes to retire it"));
  EXPECT_EQ(answer("n", "idmint retire orders").status, 5);
  EXPECT_EQ(output("idmint next orders"), "1\n");
  EXPECT_EQ(answer("y", "idmint retire orders").status, 0);
  EXPECT_EQ(run("idmint next orders").status, 5);
}

TEST_F(RaiseCli, EachBlockPastItsOwn) {
  output("idmint create accounts --max 3000000 --stripes 3");
  EXPECT_THAT(output("idmint raise accounts --past-each 17,2000042 --json"),
              HasSubstr(R"("skipped":"59")"))
      << "1,000,017 of blocks 1 and 2 would be gone with --past";
  EXPECT_EQ(run("idmint raise accounts --past-each 17,3000001").status, 2);
  EXPECT_EQ(run("idmint raise accounts --past-each 17,x").status, 2);
}

TEST_F(RaiseCli, TakesOneOfItsWays) {
  output("idmint create orders");
  for (const std::string words : {"orders", "--all", "", "orders --all --past 5", "--past 5",
                                  "orders --moved", "--all --past 5 --moved", "--all --past-each 5",
                                  "orders --past 5 --past-from sqlite:b.db", "--all --past x"}) {
    const Ended refused = run("idmint raise " + words);
    EXPECT_EQ(refused.status, 2) << words;
    EXPECT_EQ(refused.out, "") << words;
  }
}

TEST_F(RaiseCli, EverythingPastWhatTheNewerFileHas) {
  output(
      "export IDMINT_STORE=sqlite:new.db; idmint create orders; idmint create cards --strategy "
      "permuted --digits 12; idmint create accounts --digits 12 --stripes 2; idmint create codes "
      "--strategy random --digits 12; idmint create web --kind pool --workers 2 2>/dev/null; "
      "sqlite3 new.db '.backup old.db'; "
      "for each in orders cards accounts codes; do idmint next $each -n 40 > /dev/null; done");
  EXPECT_EQ(run("idmint next orders --store sqlite:old.db").status, 10) << "a backup is in doubt";
  const std::string command = "idmint raise --all --past-from sqlite:new.db --store sqlite:old.db";
  EXPECT_THAT(output(command + " --dry-run --json"),
              AllOf(HasSubstr(R"("dry_run":true)"), HasSubstr(R"("skipped":"40")")));
  EXPECT_EQ(output("idmint peek orders --store sqlite:old.db | grep ^next"), "next       1\n");
  const Ended raised = run(command);
  ASSERT_EQ(raised.status, 0) << raised.err;
  EXPECT_THAT(raised.out, HasSubstr("codes: 40 of its claims are in sqlite:"));
  for (const std::string name : {"orders", "cards", "accounts"})
    EXPECT_EQ(output("idmint peek " + name +
                     " --store sqlite:old.db --json | grep -o '\"left\":\"[0-9]*'"),
              output("idmint peek " + name +
                     " --store sqlite:new.db --json | grep -o '\"left\":\"[0-9]*'"))
        << name;
  EXPECT_EQ(output("idmint next orders --store sqlite:old.db"), "41\n");
  output(
      "sqlite3 new.db '.backup before.db'; idmint next orders --store sqlite:new.db; "
      "cp before.db new.db");
  const Ended older = run(command);
  EXPECT_EQ(older.status, 10);
  EXPECT_THAT(older.err, AllOf(HasSubstr("may itself be behind"), HasSubstr("add --yes")))
      << "the newer one was set back";
  EXPECT_THAT(output(command + " --json --yes"), Not(HasSubstr(R"("skipped":"40")"))) << "again";
  output("idmint create orders --store sqlite:other.db");
  const Ended another = run("idmint raise --all --past-from sqlite:other.db --store sqlite:old.db");
  EXPECT_EQ(another.status, 5);
  EXPECT_THAT(another.err, HasSubstr("it is another store"));
  const Ended itself = run("idmint raise --all --past-from sqlite:./old.db --store sqlite:old.db");
  EXPECT_EQ(itself.status, 2);
  EXPECT_THAT(itself.err, HasSubstr("is the store itself"));
  const Ended missing = run("idmint raise --all --past-from sqlite:none.db --store sqlite:old.db");
  EXPECT_EQ(missing.status, 3);
  EXPECT_EQ(missing.err,
            "idmint: --past-from sqlite:none.db: there is no store to compare with; look at the "
            "URL\n");
}

// The data folder knows what this host was given, and the backup does not.
TEST_F(RaiseCli, WhatThisHostWasGivenIsNotSettledAway) {
  output(
      "export IDMINT_STORE=sqlite:ids.db; idmint create orders; idmint create tickets; idmint "
      "create old; sqlite3 ids.db '.backup old.db'; for each in orders tickets old; do idmint next "
      "$each -n 40 > /dev/null; done; rm -f ids.db*; mv old.db ids.db");
  const std::string store = " --store sqlite:ids.db";
  EXPECT_EQ(run("idmint raise tickets --past 40" + store).status, 0);
  EXPECT_EQ(run("idmint retire old --yes" + store).status, 0) << "a store in doubt retires";
  const Ended moved = run("idmint raise --all --moved" + store);
  EXPECT_EQ(moved.status, 5);
  EXPECT_THAT(moved.err, AllOf(HasSubstr("was not only moved"),
                               HasSubstr("orders: this host was given 40 at "),
                               HasSubstr("idmint raise orders --past N")));
  EXPECT_THAT(moved.err, AllOf(Not(HasSubstr("tickets:")), Not(HasSubstr("old:"))));
  const Ended low = run("idmint raise --all --past 39 --yes" + store);
  EXPECT_EQ(low.status, 5);
  EXPECT_THAT(low.out, AllOf(HasSubstr("this host was given 40 at "),
                             HasSubstr("idmint raise orders --past 40 --store sqlite:ids.db")));
  EXPECT_EQ(run("idmint next orders" + store).status, 10) << "it gives no value yet";
  EXPECT_EQ(run("idmint raise orders --past 40" + store).status, 0);
  const Ended fewer = run("idmint raise --all --moved" + store);
  EXPECT_EQ(fewer.status, 10) << "more changes were counted where it was";
  EXPECT_THAT(fewer.err, HasSubstr("if each sequence was raised by itself: "));
  EXPECT_EQ(run("idmint raise --all --moved --yes" + store).status, 0);
  EXPECT_EQ(output("idmint next orders" + store), "41\n");
}

// A program that is killed notes nothing of what it was given, but the file counts it.
TEST_F(RaiseCli, AnOlderStateIsNotSettledAsOneThatWasOnlyMoved) {
  output(
      "export IDMINT_STORE=sqlite:ids.db; idmint create orders; sqlite3 ids.db '.backup b.db'; "
      "idmint next orders; rm -f $HOME/.local/share/idmint/seen-*; cp b.db ids.db");
  const std::string store = " --store sqlite:ids.db";
  EXPECT_EQ(run("idmint raise --all --moved" + store).status, 10);
  expect_doubt_until_raised_past(1);
}

// The upgraded store was seen here, so that a file of version 1 is an older backup of it.
TEST_F(RaiseCli, ABackupOfTheFirstVersionIsInDoubt) {
  output(
      "export IDMINT_STORE=sqlite:ids.db; idmint create orders; idmint next orders; sqlite3 ids.db "
      "'.backup b.db'; for column in inode born changes unmarked boot boot_clock clock; do sqlite3 "
      "b.db \"alter table store drop column $column\"; done; sqlite3 b.db 'alter table workers "
      "drop "
      "column nonce; pragma user_version = 1'; idmint next orders; rm -f ids.db*; mv b.db ids.db");
  expect_doubt_until_raised_past(2);
}

TEST_F(RaiseCli, WhatIsRetiredInTheNewerFileStaysSo) {
  output(
      "export IDMINT_STORE=sqlite:new.db; idmint create orders; idmint create codes; sqlite3 "
      "new.db '.backup old.db'; idmint next codes > /dev/null; idmint retire codes --yes");
  const std::string command = "idmint raise --all --past-from sqlite:new.db --store sqlite:old.db";
  const Ended asked = run(command);
  EXPECT_EQ(asked.status, 5);
  EXPECT_THAT(asked.err, HasSubstr("codes is retired for ever"));
  EXPECT_THAT(run(command + " --yes").out, HasSubstr("retired"));
  EXPECT_EQ(output("idmint next orders --store sqlite:old.db"), "1\n");
  EXPECT_THAT(run("idmint next codes --store sqlite:old.db").err, HasSubstr("retired"));
}

TEST_F(RaiseCli, EverythingPastANumberNamesWhatItCannotBeRightFor) {
  output("idmint create orders; idmint create small --max 50; idmint create above --start 90000");
  const Ended raised = run("idmint raise --all --past 5000");
  EXPECT_NE(raised.status, 0);
  EXPECT_THAT(raised.out, AllOf(HasSubstr("small in sqlite:"), HasSubstr("it ends at 50"),
                                HasSubstr("its first value is 90000")));
  EXPECT_THAT(raised.err, HasSubstr("2 of 3 were not raised"));
  EXPECT_EQ(output("idmint next orders"), "5001\n");
  EXPECT_EQ(output("idmint next small"), "1\n");
  EXPECT_THAT(run("idmint raise --all --moved").err, HasSubstr("nothing was to be settled"));
}

}  // namespace
}  // namespace idmint::e2e
