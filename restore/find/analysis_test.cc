#include "restore/find/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "restore/oplog/source.h"
#include "restore/server.h"
#include "restore/tests/written_oplog.h"

namespace idmint::restore {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

OplogAnswer answer_of(const std::string& fixture) {
  const auto oplog = open_oplog(IDMINT_FIXTURES "/" + fixture + "/oplog-dump");
  EXPECT_TRUE(oplog) << (oplog ? "" : oplog.error().message());
  OplogAnalysis analysis({});
  for (;;) {
    const Result<std::optional<Entry>> entry = (*oplog)->next();
    if (!entry || !*entry) break;
    EXPECT_TRUE(analysis.add(**entry));
  }
  return analysis.finish();
}

// ---- real ones

TEST(OplogAnalysis, FindsTheCounterThatFellInARealOplog) {
  const OplogAnswer answer = answer_of("s2_wrong_inc_ordinal");
  EXPECT_EQ(answer.entries, 898U);
  ASSERT_THAT(answer.suspects, SizeIs(1));
  const Suspect& suspect = answer.suspects.front();
  EXPECT_EQ(suspect.reason, Reason::kFall);
  EXPECT_EQ(print_timestamp(suspect.limit), "1795230181:16");
  EXPECT_EQ(print_timestamp(suspect.before.value()), "1795230181:15");
  EXPECT_EQ(print_timestamp(suspect.after.value()), "1795230181:18");
  EXPECT_THAT(suspect.before_text, HasSubstr("insert into ids.accounts"));
  EXPECT_THAT(suspect.why, HasSubstr("COUNT of _id \"COUNTER DOCUMENT NUMBER 4\" fell from "
                                     "4000000061 to 4000000041"));
}

TEST(OplogAnalysis, FindsTheMassDeleteInARealOplog) {
  const OplogAnswer answer = answer_of("s3_mass_delete_exclusive");
  ASSERT_FALSE(answer.suspects.empty());
  const Suspect& suspect = answer.suspects.front();
  EXPECT_EQ(suspect.reason, Reason::kMassDelete);
  EXPECT_EQ(print_timestamp(suspect.limit), "1795230032:3");
  EXPECT_EQ(print_timestamp(suspect.last), "1795230032:302");
  EXPECT_EQ(suspect.operations, 300U);
  EXPECT_EQ(print_timestamp(suspect.before.value()), "1795230032:2");
  EXPECT_THAT(suspect.before_text, HasSubstr("LAST GOOD OP"));
  EXPECT_EQ(answer.changes - suspect.changes_before, 310U);
}

// ---- drops

TEST(OplogAnalysis, DropDatabaseBeginsWithItsFirstDrop) {
  Oplog oplog;
  const Timestamp good = oplog.insert(1);
  const Timestamp first =
      oplog.add("c", "shop.$cmd", R"("drop":"orders")", R"("o2":{"numRecords":7})");
  const Timestamp other = oplog.add("i", "news.items", R"("_id":1)");
  oplog.add("c", "shop.$cmd", R"("drop":"customers")", R"("o2":{"numRecords":5})");
  const Timestamp last = oplog.add("c", "shop.$cmd", R"("dropDatabase":1)");
  oplog.add("i", "news.items", R"("_id":2)");
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kDropDatabase));
  const Suspect& suspect = answer.suspects.front();
  EXPECT_EQ(suspect.limit, first);
  EXPECT_EQ(suspect.last, last);
  EXPECT_EQ(suspect.before, good);
  EXPECT_EQ(suspect.after, other);
  EXPECT_EQ(suspect.operations, 3U);
  EXPECT_EQ(suspect.why,
            "database shop dropped, which begins with the drop of its 2 collections (orders, "
            "customers) with 12 documents");
  ASSERT_THAT(suspect.lost, SizeIs(1));
  EXPECT_EQ(suspect.lost.front().ns, "news.items");
  EXPECT_EQ(suspect.lost.front().counts, (KindCounts{2, 0, 0, 0}));
}

TEST(OplogAnalysis, ADropThatWasNotOfDropDatabaseStandsAlone) {
  Oplog oplog;
  const Timestamp alone = oplog.add("c", "shop.$cmd", R"("drop":"carts")");
  oplog.insert(1);
  const Timestamp first = oplog.add("c", "shop.$cmd", R"("drop":"orders")");
  oplog.add("c", "shop.$cmd", R"("dropDatabase":1)");
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kDropDatabase, Reason::kDrop));
  EXPECT_EQ(answer.suspects[0].limit, first);
  EXPECT_EQ(answer.suspects[1].limit, alone);
}

// The drops of a promotion and its finish are the least likely mistakes.
TEST(OplogAnalysis, WhatAPromotionDropsStandsBehindTheMistake) {
  Oplog oplog;
  oplog.insert(1);
  oplog.add("c", "shop.$cmd", R"("drop":"orders.before-restore-20261128-200809")",
            R"("o2":{"numRecords":9000})");
  oplog.add("c", "idmint_restore.$cmd", R"("drop":"promote")", R"("o2":{"numRecords":1})");
  oplog.add("c", "idmint_restore.$cmd", R"("dropDatabase":1)");
  oplog.insert(2);
  const Timestamp mistake =
      oplog.add("c", "shop.$cmd", R"("drop":"orders")", R"("o2":{"numRecords":7})");
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(answer.suspects, SizeIs(2));
  EXPECT_EQ(answer.suspects[0].limit, mistake);
  EXPECT_THAT(answer.suspects[1].why, HasSubstr("a promotion had kept it"));
}

TEST(OplogAnalysis, ADropAnHourBeforeIsNotOfTheDropDatabase) {
  Oplog oplog;
  const Timestamp alone = oplog.add("c", "shop.$cmd", R"("drop":"carts")");
  oplog.pause(3'600'000);
  const Timestamp first = oplog.add("c", "shop.$cmd", R"("drop":"orders")");
  oplog.add("c", "shop.$cmd", R"("dropDatabase":1)");
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kDropDatabase, Reason::kDrop));
  EXPECT_EQ(answer.suspects[0].limit, first);
  EXPECT_EQ(answer.suspects[1].limit, alone);
}

// However little of it is asked for, the restore has to stop before its first drop.
TEST(OplogAnalysis, DropDatabaseBeginsWithItsFirstDropUnderAnyFilter) {
  for (const FindFilter& filter :
       {FindFilter{}, FindFilter{.operations = {"dropDatabase"}},
        FindFilter{.operations = {"drop"}}, FindFilter{.namespaces = {"shop.orders"}},
        FindFilter{.namespaces = {"shop"}},
        FindFilter{.span = {.from = {.seconds = 1000, .ordinal = 4}}}}) {
    Oplog oplog(filter);
    const Timestamp good = oplog.insert(1);
    const Timestamp first =
        oplog.add("c", "shop.$cmd", R"("drop":"customers")", R"("o2":{"numRecords":7})");
    const Timestamp after = oplog.add("i", "news.items", R"("_id":1)");
    oplog.add("c", "shop.$cmd", R"("drop":"orders")", R"("o2":{"numRecords":5})");
    const Timestamp last = oplog.add("c", "shop.$cmd", R"("dropDatabase":1)");
    oplog.add("i", "news.items", R"("_id":2)");
    const OplogAnswer answer = oplog.finish();
    ASSERT_THAT(reasons(answer), ElementsAre(Reason::kDropDatabase));
    const Suspect& suspect = answer.suspects.front();
    EXPECT_EQ(suspect.limit, first);
    EXPECT_EQ(suspect.last, last);
    EXPECT_EQ(suspect.before, good);
    EXPECT_EQ(suspect.after, after);
    EXPECT_EQ(suspect.operations, 3U);
  }
}

TEST(OplogAnalysis, AWriteBetweenDropsPartsThemThoughItIsFilteredOut) {
  Oplog oplog({.operations = {"drop", "dropDatabase"}});
  const Timestamp alone = oplog.add("c", "shop.$cmd", R"("drop":"orders")");
  oplog.insert(1);
  const Timestamp first = oplog.add("c", "shop.$cmd", R"("drop":"customers")");
  oplog.add("c", "shop.$cmd", R"("dropDatabase":1)");
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kDropDatabase, Reason::kDrop));
  EXPECT_EQ(answer.suspects[0].limit, first);
  EXPECT_EQ(answer.suspects[1].limit, alone);
}

TEST(OplogAnalysis, AFilteredDropDatabaseIsNoSuspect) {
  Oplog oplog({.namespaces = {"news"}});
  oplog.add("i", "news.items", R"("_id":1)");
  oplog.add("c", "shop.$cmd", R"("drop":"orders")");
  oplog.add("c", "shop.$cmd", R"("dropDatabase":1)");
  EXPECT_THAT(reasons(oplog.finish()), IsEmpty());
}

TEST(OplogAnalysis, TheDropOfAnEmptyCollectionIsLessLikely) {
  Oplog oplog;
  oplog.add("c", "shop.$cmd", R"("drop":"empty")", R"("o2":{"numRecords":0})");
  oplog.add("c", "news.$cmd", R"("drop":"full")", R"("o2":{"numRecords":1000})");
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(answer.suspects, SizeIs(2));
  EXPECT_EQ(answer.suspects[0].ns, "news.full");
  EXPECT_THAT(answer.suspects[0].why, HasSubstr("1,000 documents"));
  EXPECT_THAT(answer.suspects[1].why, HasSubstr("it was empty"));
}

TEST(OplogAnalysis, ARenameOverACollectionIsLikelierThanAPlainOne) {
  Oplog oplog;
  oplog.add("c", "shop.$cmd", R"("renameCollection":"shop.a","to":"shop.b","stayTemp":false)");
  const Timestamp over = oplog.add(
      "c", "shop.$cmd",
      R"("renameCollection":"shop.c","to":"shop.d","dropTarget":{"$uuid":"00000000-0000-4000-8000-000000000000"})",
      R"("o2":{"numRecords":3})");
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kRenameOver, Reason::kRenameAway));
  EXPECT_EQ(answer.suspects.front().limit, over);
  EXPECT_EQ(answer.suspects.front().why, "shop.c took the place of shop.d of 3 documents");
}

TEST(OplogAnalysis, WhatOutWritesIsLessLikelyThanAPersonsRename) {
  Oplog oplog;
  oplog.add("c", "shop.$cmd",
            R"("renameCollection":"shop.tmp.agg_out.1","to":"shop.report","dropTarget":true)");
  oplog.add("c", "shop.$cmd", R"("renameCollection":"shop.new","to":"shop.old","dropTarget":true)");
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(answer.suspects, SizeIs(2));
  EXPECT_EQ(answer.suspects[0].ns, "shop.old");
  EXPECT_LT(answer.suspects[1].score, 50);
}

TEST(OplogAnalysis, EmptyCappedIsASuspect) {
  Oplog oplog;
  oplog.add("c", "shop.$cmd", R"("emptycapped":"log")");
  EXPECT_THAT(reasons(oplog.finish()), ElementsAre(Reason::kEmptied));
}

// ---- many at once

TEST(OplogAnalysis, SingleDeletesAreNoMassDelete) {
  Oplog oplog;
  for (int i = 0; i < 200; ++i) {
    oplog.remove(i);
    oplog.pause(200);
  }
  EXPECT_THAT(reasons(oplog.finish()), IsEmpty());
}

TEST(OplogAnalysis, AMassDeleteBeginsAfterTheSingleDeletesBeforeIt) {
  Oplog oplog;
  Timestamp single;
  for (int i = 0; i < 50; ++i) {
    single = oplog.remove(i);
    oplog.pause(200);
  }
  const Timestamp first = oplog.remove(1000);
  for (int i = 1001; i < 1500; ++i) {
    oplog.remove(i);
    if (i % 10 == 0) oplog.add("i", "news.items", "\"_id\":" + std::to_string(i));
  }
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kMassDelete));
  EXPECT_EQ(answer.suspects.front().limit, first);
  EXPECT_EQ(answer.suspects.front().before, single);
  EXPECT_EQ(answer.suspects.front().operations, 500U);
}

TEST(OplogAnalysis, AMassDeleteThatStoodStillAtItsBeginningBeginsThere) {
  Oplog oplog;
  const Timestamp first = oplog.remove(1);
  for (int i = 2; i < 6; ++i) oplog.remove(i);
  oplog.pause(1000);
  for (int i = 6; i < 500; ++i) oplog.remove(i);
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kMassDelete));
  EXPECT_EQ(answer.suspects.front().limit, first);
  EXPECT_EQ(answer.suspects.front().operations, 499U);
  EXPECT_THAT(answer.suspects.front().why, HasSubstr("the first 5 came a while before the others"));
}

TEST(OplogAnalysis, DeletesOfAFewAtATimeAreNoMassDelete) {
  Oplog oplog;
  for (int i = 0; i < 600; ++i) {
    oplog.remove(i);
    if (i % 3 == 2) oplog.pause(100);
  }
  EXPECT_THAT(reasons(oplog.finish()), IsEmpty());
}

TEST(OplogAnalysis, SaysWhatWasDeletedShortlyBeforeAMassDelete) {
  Oplog oplog;
  for (int i = 0; i < 3; ++i) {
    oplog.remove(i);
    oplog.pause(1000);
  }
  for (int i = 3; i < 500; ++i) oplog.remove(i);
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kMassDelete));
  EXPECT_EQ(answer.suspects.front().operations, 497U);
  EXPECT_THAT(answer.suspects.front().why, HasSubstr("3 more on it in the seconds before"));
}

TEST(OplogAnalysis, ACommandThatStoodStillForAWhileIsOne) {
  Oplog oplog;
  const Timestamp first = oplog.remove(0);
  for (int i = 1; i < 100; ++i) oplog.remove(i);
  oplog.pause(8000);
  for (int i = 100; i < 300; ++i) oplog.remove(i);
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kMassDelete));
  EXPECT_EQ(answer.suspects.front().limit, first);
  EXPECT_EQ(answer.suspects.front().operations, 300U);
}

TEST(OplogAnalysis, WhatHappensEveryHourIsARoutineAndNoSuspect) {
  Oplog oplog;
  int id = 0;
  for (int hour = 0; hour < 30; ++hour) {
    for (int i = 0; i < 100; ++i) oplog.remove(id++);
    oplog.pause(3'600'000);
  }
  const OplogAnswer answer = oplog.finish();
  EXPECT_THAT(answer.suspects, IsEmpty());
  EXPECT_THAT(answer.notices, IsEmpty());
  ASSERT_THAT(answer.routines, SizeIs(1));
  const Routine& routine = answer.routines.front();
  EXPECT_EQ(routine.reason, Reason::kMassDelete);
  EXPECT_EQ(routine.ns, "shop.orders");
  EXPECT_EQ(routine.times, 30U);
  EXPECT_NEAR(routine.every, 3'600, 1);
  EXPECT_EQ(routine.documents, 100U);
}

TEST(OplogAnalysis, WhatIsFarLargerThanTheRoutineIsASuspect) {
  Oplog oplog;
  int id = 0;
  Timestamp large{};
  for (int hour = 0; hour < 30; ++hour) {
    for (int i = 0; i < (hour == 20 ? 5'000 : 100); ++i) {
      const Timestamp at = oplog.remove(id++);
      if (hour == 20 && i == 0) large = at;
    }
    oplog.pause(3'600'000);
  }
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kMassDelete));
  EXPECT_EQ(answer.suspects.front().limit, large);
  EXPECT_THAT(answer.suspects.front().why, HasSubstr("usually there are about 100 documents"));
  EXPECT_THAT(answer.routines, SizeIs(1));
}

TEST(OplogAnalysis, WhatBeganLateIsNoRoutine) {
  Oplog oplog;
  int id = 0;
  for (int hour = 0; hour < 60; ++hour) {
    oplog.insert(id++);
    oplog.pause(3'600'000);
  }
  const Timestamp first = oplog.remove(id++);
  for (int hour = 0; hour < 10; ++hour) {
    for (int i = 0; i < 100; ++i) oplog.remove(id++);
    oplog.pause(3'600'000);
  }
  const OplogAnswer answer = oplog.finish();
  EXPECT_THAT(answer.routines, IsEmpty());
  ASSERT_FALSE(answer.suspects.empty());
  EXPECT_EQ(answer.suspects.front().limit, first);
}

TEST(OplogAnalysis, FieldsThatAreRemovedFromManyAreAWave) {
  Oplog oplog;
  oplog.insert(1);
  const Timestamp first = oplog.set("shop.users", 0, R"("d":{"email":false})");
  for (int i = 1; i < 40; ++i) oplog.set("shop.users", i, R"("d":{"email":false})");
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kUnsetWave));
  EXPECT_EQ(answer.suspects.front().limit, first);
  EXPECT_EQ(answer.suspects.front().why,
            "40 documents changed within a second, all in the same way: email");
}

TEST(OplogAnalysis, OldModifiersAreAWaveToo) {
  Oplog oplog;
  for (int i = 0; i < 40; ++i)
    oplog.add("u", "shop.users", R"("$v":1,"$unset":{"address.city":true})",
              R"("o2":{"_id":)" + std::to_string(i) + "}");
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kUnsetWave));
  EXPECT_THAT(answer.suspects.front().why, HasSubstr("address.city"));
}

TEST(OplogAnalysis, TheSameDocumentsAgainAndAgainAreNoMassUpdate) {
  Oplog oplog;
  for (int i = 0; i < 400; ++i) oplog.count(i % 4, i);
  EXPECT_THAT(reasons(oplog.finish()), IsEmpty());
}

TEST(OplogAnalysis, ManyDocumentsWithTheSameChangeAreAMassUpdate) {
  Oplog oplog;
  for (int i = 0; i < 50; ++i) oplog.set("shop.users", i, R"("sprofile":{"u":{"active":false}})");
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kMassUpdate));
  EXPECT_THAT(answer.suspects.front().why, HasSubstr("all in the same way: profile.active"));
}

// ---- numbers

TEST(OplogAnalysis, ANumberFallsInEachFormOfAnUpdate) {
  struct Case {
    const char* rise;
    const char* fall;
    const char* says;
  };
  for (const Case& c : {
           Case{R"("$v":2,"diff":{"u":{"n":5}})", R"("$v":2,"diff":{"u":{"n":4}})", "n of _id 1"},
           Case{R"("$v":2,"diff":{"i":{"n":5.5}})", R"("$v":2,"diff":{"u":{"n":5}})",
                "from 5.5 to 5"},
           Case{R"("$v":2,"diff":{"sa":{"u":{"n":5}}})", R"("$v":2,"diff":{"sa":{"u":{"n":4}}})",
                "a.n of _id 1"},
           Case{R"("$v":2,"diff":{"sa":{"a":true,"u0":5}})",
                R"("$v":2,"diff":{"sa":{"a":true,"u0":4}})", "a.0 of _id 1"},
           Case{R"("$v":2,"diff":{"u":{"a":{"n":5}}})", R"("$v":2,"diff":{"sa":{"u":{"n":4}}})",
                "a.n of _id 1"},
           Case{R"("$v":1,"$set":{"a.n":5})", R"("$v":2,"diff":{"sa":{"u":{"n":4}}})",
                "a.n of _id 1"},
           Case{R"("_id":1,"n":5)", R"("_id":1,"n":4)", "n of _id 1 fell from 5 to 4"},
           Case{R"("$v":2,"diff":{"u":{"n":{"$numberDecimal":"1.25"}}})",
                R"("$v":2,"diff":{"u":{"n":{"$numberDecimal":"1.20"}}})", "from 1.25 to 1.2"},
           Case{R"("$v":2,"diff":{"u":{"n":{"$numberLong":"9007199254740993"}}})",
                R"("$v":2,"diff":{"u":{"n":{"$numberLong":"9007199254740992"}}})",
                "from 9007199254740993 to 9007199254740992"},
       }) {
    Oplog oplog;
    oplog.add("u", "shop.counters", c.rise, R"("o2":{"_id":1})");
    const Timestamp fall = oplog.add("u", "shop.counters", c.fall, R"("o2":{"_id":1})");
    const OplogAnswer answer = oplog.finish();
    ASSERT_THAT(reasons(answer), ElementsAre(Reason::kFall)) << c.fall;
    EXPECT_EQ(answer.suspects.front().limit, fall);
    EXPECT_THAT(answer.suspects.front().why, HasSubstr(c.says));
  }
}

TEST(OplogAnalysis, AFractionThatStaysIsNoFall) {
  Oplog oplog;
  for (const char* const price : {"0.1", "0.1", "0.10", "0.3", "0.3"})
    oplog.set("shop.prices", 1, R"("u":{"n":{"$numberDecimal":")" + std::string(price) + R"("}})");
  EXPECT_THAT(oplog.finish().suspects, IsEmpty());
}

TEST(OplogAnalysis, ACounterThatIsMadeAnewWithLessFell) {
  Oplog oplog;
  for (int i = 0; i < 10; ++i) oplog.count(1, 100 + i);
  oplog.add("d", "shop.counters", R"("_id":1)");
  const Timestamp anew = oplog.add("i", "shop.counters", R"("_id":1,"seq":1)");
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kFall));
  EXPECT_EQ(answer.suspects.front().limit, anew);
}

TEST(OplogAnalysis, ANumberThatGoesUpAndDownIsNoCounter) {
  Oplog oplog;
  for (int i = 0; i < 300; ++i) oplog.count(1, i % 2);
  EXPECT_THAT(reasons(oplog.finish()), IsEmpty());
}

TEST(OplogAnalysis, OfTwoFallsTheOneOfACounterThatRoseIsLikelier) {
  Oplog oplog;
  for (int i = 0; i < 50; ++i) oplog.count(1, i);
  oplog.set("shop.users", 5, R"("u":{"age":40})");
  oplog.set("shop.users", 5, R"("u":{"age":39})");
  const Timestamp fall = oplog.count(1, 10);
  const OplogAnswer answer = oplog.finish();
  ASSERT_FALSE(answer.suspects.empty());
  EXPECT_EQ(answer.suspects.front().limit, fall);
}

TEST(OplogAnalysis, SaysWhenItForgotCounters) {
  Oplog oplog;
  for (int i = 0; i < 100; ++i) oplog.count(-1, i);
  for (int i = 0; i < 300'000; ++i) oplog.count(i, 1);
  const Timestamp fall = oplog.count(-1, 50);
  const OplogAnswer answer = oplog.finish();
  EXPECT_THAT(answer.notices, ElementsAre(HasSubstr("were forgotten: there is room for 262,144")));
  // Those that are updated most stay.
  ASSERT_FALSE(answer.suspects.empty());
  EXPECT_EQ(answer.suspects.front().limit, fall);
}

// ---- transactions

constexpr std::string_view kLsid =
    R"("lsid":{"id":{"$uuid":"00000000-0000-4000-8000-000000000001"}},"txnNumber":{"$numberLong":"1"})";
constexpr std::string_view kFirst =
    R"(,"prevOpTime":{"ts":{"$timestamp":{"t":0,"i":0}},"t":{"$numberLong":"-1"}})";

std::string deletes(int from, int to) {
  std::string all;
  for (int i = from; i < to; ++i) {
    all += (all.empty() ? "" : ",") + std::string(R"({"op":"d","ns":"shop.orders","o":{"_id":)") +
           std::to_string(i) + "}}";
  }
  return R"("applyOps":[)" + all + "]";
}

TEST(OplogAnalysis, TheLimitOfATransactionIsItsCommit) {
  Oplog oplog;
  oplog.add("c", "admin.$cmd", deletes(0, 30) + R"(,"partialTxn":true)",
            std::string(kLsid) + std::string(kFirst));
  const Timestamp between = oplog.insert(1000);
  const Timestamp commit = oplog.add("c", "admin.$cmd", deletes(30, 60), kLsid);
  oplog.insert(1001);
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kMassDelete));
  EXPECT_EQ(answer.suspects.front().limit, commit);
  EXPECT_EQ(answer.suspects.front().before, between);
  EXPECT_EQ(answer.suspects.front().operations, 60U);
  EXPECT_THAT(answer.notices, IsEmpty());
  EXPECT_EQ(answer.changes, 62U);
}

TEST(OplogAnalysis, APreparedTransactionCountsWhereItCommitsAndNotWhereItAborts) {
  for (const bool commits : {true, false}) {
    Oplog oplog;
    oplog.add("c", "admin.$cmd", deletes(0, 30) + R"(,"prepare":true)",
              std::string(kLsid) + std::string(kFirst));
    oplog.insert(1000);
    const Timestamp end = oplog.add(
        "c", "admin.$cmd", commits ? R"("commitTransaction":1)" : R"("abortTransaction":1)", kLsid);
    const OplogAnswer answer = oplog.finish();
    if (commits) {
      ASSERT_THAT(reasons(answer), ElementsAre(Reason::kMassDelete));
      EXPECT_EQ(answer.suspects.front().limit, end);
    } else {
      EXPECT_THAT(reasons(answer), IsEmpty());
      EXPECT_EQ(answer.changes, 1U);
    }
    EXPECT_THAT(answer.notices, IsEmpty());
  }
}

TEST(OplogAnalysis, SaysWhichTransactionsAreNotWhole) {
  Oplog oplog;
  oplog.add("c", "admin.$cmd", R"("commitTransaction":1)", kLsid);
  oplog.add("c", "admin.$cmd", deletes(0, 3) + R"(,"partialTxn":true)",
            R"("lsid":{"id":2},"txnNumber":{"$numberLong":"1"})" + std::string(kFirst));
  EXPECT_THAT(oplog.finish().notices,
              ElementsAre(HasSubstr("the beginning of 1 transaction lies before this oplog"),
                          HasSubstr("1 transaction did not commit")));
}

TEST(OplogAnalysis, ATransactionBeforeTheMistakeIsToldAsOne) {
  Oplog oplog;
  const Timestamp both =
      oplog.add("c", "admin.$cmd", deletes(0, 2), std::string(kLsid) + std::string(kFirst));
  oplog.add("c", "shop.$cmd", R"("drop":"orders")");
  const OplogAnswer answer = oplog.finish();
  ASSERT_FALSE(answer.suspects.empty());
  EXPECT_EQ(answer.suspects.front().before, both);
  EXPECT_EQ(answer.suspects.front().before_text,
            "a transaction of 2 operations, the first of them: delete from shop.orders, _id 0");
}

TEST(OplogAnalysis, NestedApplyOpsCount) {
  Oplog oplog;
  oplog.add("c", "admin.$cmd",
            R"("applyOps":[{"op":"c","ns":"admin.$cmd","o":{)" + deletes(0, 25) + "}}]");
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kMassDelete));
  EXPECT_EQ(answer.suspects.front().operations, 25U);
}

// ---- what is looked at

TEST(OplogAnalysis, FiltersByNamespaceOperationIdAndField) {
  struct Case {
    FindFilter filter;
    std::uint64_t matched;
  };
  const auto id = [](const char* text) { return IdFilter::of(text).value(); };
  for (const Case& c : {
           Case{{}, 6},
           Case{{.namespaces = {"shop"}}, 5},
           Case{{.namespaces = {"shop.orders"}}, 2},
           Case{{.namespaces = {"shop.o*", "n*"}}, 3},
           Case{{.namespaces = {"shop.weather"}}, 1},
           Case{{.operations = {"insert", "drop"}}, 4},
           Case{{.operations = {"command"}}, 1},
           Case{{.id = id("7")}, 2},
           Case{{.id = id("seven")}, 1},
           Case{{.id = id("65a1b2c3d4e5f60718293a4b")}, 1},
           Case{{.field = "address.city"}, 2},
           Case{{.field = "address"}, 2},
           Case{{.field = "addr"}, 0},
           Case{{.span = {.from = {.seconds = 2000, .ordinal = 0}}}, 1},
       }) {
    FindFilter filter = c.filter;
    filter.list_most = 10;
    Oplog oplog(filter);
    oplog.add("i", "shop.orders", R"("_id":7,"address":{"city":"Ulm"})");
    oplog.add("d", "shop.orders", R"("_id":{"$numberLong":"7"})");
    oplog.set("shop.users", 3, R"("saddress":{"u":{"city":"Bonn"}})");
    oplog.add("i", "news.items", R"("_id":"seven")");
    oplog.add("i", "shop.system.buckets.weather", R"("_id":{"$oid":"65a1b2c3d4e5f60718293a4b"})");
    oplog.pause(2'000'000);
    oplog.add("c", "shop.$cmd", R"("drop":"carts")");
    const OplogAnswer answer = oplog.finish();
    EXPECT_EQ(answer.matched, c.matched) << &c;
    EXPECT_EQ(answer.changes, 6U);
    EXPECT_THAT(answer.listed, SizeIs(c.matched));
  }
}

TEST(OplogAnalysis, ANumberFromBeforeTheSpanIsKnown) {
  Oplog oplog({.span = {.from = {.seconds = 2000, .ordinal = 0}}});
  for (int i = 0; i < 10; ++i) oplog.count(1, i);
  oplog.pause(2'000'000);
  const Timestamp fall = oplog.count(1, 3);
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kFall));
  EXPECT_EQ(answer.suspects.front().limit, fall);
  EXPECT_TRUE(answer.suspects.front().before);
}

TEST(OplogAnalysis, TheTimelineHasEveryOperationHoweverLongItIs) {
  Oplog oplog;
  std::uint64_t inserts = 0;
  for (int day = 0; day < 40; ++day) {
    for (int i = 0; i < day; ++i) {
      oplog.insert(static_cast<int>(inserts++));
      oplog.pause(1000);
    }
    oplog.remove(day);
    oplog.pause(86'400'000);
  }
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(answer.namespaces, SizeIs(1));
  const NamespaceFacts& row = answer.namespaces.front();
  EXPECT_EQ(row.ns, "shop.orders");
  EXPECT_EQ(row.counts[0], inserts);
  EXPECT_EQ(row.counts[2], 40U);
  for (const unsigned kind : {0U, 2U}) {
    std::uint64_t sum = 0;
    for (const std::uint64_t each : row.buckets[kind]) sum += each;
    EXPECT_EQ(sum, row.counts[kind]);
  }
  EXPECT_GT(answer.timeline.used, Timeline::kBuckets / 4);
  EXPECT_GE(std::uint64_t{answer.timeline.width} * answer.timeline.used, 39U * 86'400);
}

TEST(OplogAnalysis, NoOpsAreNoChanges) {
  Oplog oplog;
  const Timestamp good = oplog.insert(1);
  oplog.add("n", "", R"("msg":"periodic noop")");
  oplog.add("c", "shop.$cmd", R"("drop":"orders")");
  const OplogAnswer answer = oplog.finish();
  EXPECT_EQ(answer.entries, 3U);
  EXPECT_EQ(answer.changes, 2U);
  ASSERT_FALSE(answer.suspects.empty());
  EXPECT_EQ(answer.suspects.front().before, good);
  EXPECT_FALSE(answer.suspects.front().after);
}

TEST(OplogAnalysis, TellsAShardedClusterByItsBooks) {
  Oplog oplog;
  oplog.add("i", "shop.orders", R"("_id":1)", R"("fromMigrate":true)");
  oplog.add("c", "admin.$cmd",
            R"("applyOps":[{"op":"i","ns":"config.cache.chunks.shop.orders","o":{"_id":2}}])");
  const OplogAnswer answer = oplog.finish();
  EXPECT_TRUE(answer.sharding.sharded());
  EXPECT_THAT(answer.sharding.in_words(), HasSubstr("config.cache.chunks.shop.orders"));
}

TEST(OplogAnalysis, NoFlagMakesASetAShard) {
  Oplog oplog;
  oplog.add("i", "shop.orders", R"("_id":1)", R"("fromMigrate":true)");
  const OplogAnswer answer = oplog.finish();
  EXPECT_FALSE(answer.sharding.sharded());
  EXPECT_THAT(answer.notices, ElementsAre(HasSubstr("fromMigrate")));
}

TEST(OplogAnalysis, DamagedApplyOpsAreRefused) {
  Oplog oplog;
  for (const char* const damaged : {R"("applyOps":1)", R"("applyOps":[{"op":"d"}])",
                                    R"("applyOps":[{"op":"d","ns":"shop.orders"}])"}) {
    const Result<Timestamp> at = oplog.try_add("c", "admin.$cmd", damaged);
    ASSERT_FALSE(at) << damaged;
    EXPECT_EQ(at.error().code, Code::kDataLoss);
  }
}

TEST(OplogAnalysis, SaysWhenEntriesAreOutOfOrder) {
  OplogAnalysis analysis({});
  for (const char* const second : {"5", "7", "6"}) {
    const Result<Bson> document = from_json(std::string(R"({"ts":{"$timestamp":{"t":)") + second +
                                            R"(,"i":1}},"v":2,"op":"i","ns":"a.b","o":{"_id":1}})");
    ASSERT_TRUE(analysis.add(parse_entry(document->view()).value()));
  }
  EXPECT_THAT(analysis.finish().notices, ElementsAre(HasSubstr("1 entry out of order, first 6:1")));
}

}  // namespace
}  // namespace idmint::restore
