// `find` tells mistakes from routine, and links changes that belong together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "restore/find/namespace_counts.h"
#include "restore/tests/written_oplog.h"

namespace idmint::restore {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// ---- scripts, beside programs that do the same

std::string in_session(int session) {
  return R"("lsid":{"id":)" + std::to_string(session) + R"(},"txnNumber":{"$numberLong":"1"})";
}

// Programs set the total of an order each 5 ms, through 12 sessions.
class BusyOrders {
 public:
  // `session` below 0: none.
  Timestamp set(int id, int session) {
    return oplog.add("u", "shop.orders",
                     R"("$v":2,"diff":{"u":{"total":)" + std::to_string(turn_ * 7 % 1000) + "}}",
                     R"("o2":{"_id":)" + std::to_string(id) + "}" +
                         (session < 0 ? "" : "," + in_session(session)));
  }
  void usual(int times, int sessions = 12) {
    for (int i = 0; i < times; ++i) {
      set(1'000'000 + turn_ * 7919 % 50'000, sessions == 0 ? -1 : turn_ * 31 % sessions);
      oplog.pause(3);
      ++turn_;
    }
  }
  Oplog oplog;

 private:
  int turn_ = 0;
};

TEST(Suspects, AScriptIsFoundByItsSessionBesideTheSameUpdatesOfPrograms) {
  BusyOrders busy;
  busy.usual(4'000);
  Timestamp first{};
  for (int i = 0; i < 3'000; ++i) {
    const Timestamp at = busy.set(i, 99);
    if (i == 0) first = at;
    busy.usual(1);
  }
  busy.usual(4'000);
  const OplogAnswer answer = busy.oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kMassUpdate));
  EXPECT_EQ(answer.suspects.front().limit, first);
  EXPECT_THAT(answer.suspects.front().why, HasSubstr("3,000 documents changed within"));
}

TEST(Suspects, TheThreadsOfAScriptAreOne) {
  BusyOrders busy;
  busy.usual(4'000);
  Timestamp first{};
  for (int i = 0; i < 4'000; ++i) {
    const Timestamp at =
        busy.oplog.add("u", "shop.orders", R"("$v":2,"diff":{"u":{"price":1}})",
                       R"("o2":{"_id":)" + std::to_string(i) + "}," + in_session(90 + i % 8));
    if (i == 0) first = at;
    busy.usual(1);
  }
  const OplogAnswer answer = busy.oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kMassUpdate));
  EXPECT_EQ(answer.suspects.front().limit, first);
  EXPECT_EQ(answer.suspects.front().operations, 4'000U);
  EXPECT_THAT(answer.suspects.front().why, HasSubstr("through 8 sessions"));
}

// One pool of sessions for all, or none at all: only the rate tells.
TEST(Suspects, AScriptIsFoundByTheRateWhereNoSessionTells) {
  for (const bool sessions : {true, false}) {
    BusyOrders busy;
    const int pool = sessions ? 12 : 0;
    busy.usual(12'000, pool);
    Timestamp first{};
    for (int i = 0; i < 9'000; ++i) {
      const Timestamp at = busy.set(i, sessions ? i * 5 % 12 : -1);
      if (i == 0) first = at;
      busy.oplog.pause(-1);
      if (i % 3 == 0) busy.usual(1, pool);
    }
    busy.usual(12'000, pool);
    const OplogAnswer answer = busy.oplog.finish();
    ASSERT_THAT(reasons(answer), testing::Contains(Reason::kMassUpdate)) << sessions;
    const Suspect& suspect = answer.suspects.front();
    EXPECT_LE(suspect.limit, first);
    EXPECT_LE(first.seconds - suspect.limit.seconds, 2U);
    EXPECT_THAT(suspect.why, HasSubstr("beyond the usual"));
  }
}

TEST(Suspects, TheWorkOfProgramsAloneIsNoSuspect) {
  for (const int sessions : {0, 1, 12}) {
    BusyOrders busy;
    busy.usual(40'000, sessions);
    EXPECT_THAT(reasons(busy.oplog.finish()), IsEmpty()) << sessions;
  }
}

// ---- indexes and options

TEST(Suspects, ALoneDropOfAUniqueIndexIsASuspect) {
  Oplog oplog;
  const Timestamp good = oplog.insert(1);
  const Timestamp first =
      oplog.add("c", "shop.$cmd", R"("dropIndexes":"users","index":"email")",
                R"("o2":{"v":2,"unique":true,"key":{"email":1},"name":"email"})");
  oplog.add("c", "shop.$cmd", R"("dropIndexes":"users","index":"city")",
            R"("o2":{"v":2,"key":{"city":1},"name":"city"})");
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kDropIndex)) << "of dropIndexes with *";
  const Suspect& suspect = answer.suspects.front();
  EXPECT_EQ(suspect.limit, first);
  EXPECT_EQ(suspect.before, good);
  EXPECT_THAT(suspect.why, HasSubstr("index email of shop.users on { \"email\" : 1 } dropped; it "
                                     "was unique"));
  ASSERT_THAT(suspect.effects, SizeIs(1));
  EXPECT_THAT(suspect.effects.front().text, HasSubstr("index city"));
}

TEST(Suspects, AnIndexThatIsBuiltAgainIsLessLikely) {
  Oplog oplog;
  oplog.add("c", "shop.$cmd", R"("dropIndexes":"users","index":"email")",
            R"("o2":{"v":2,"unique":true,"key":{"email":1},"name":"email"})");
  oplog.add("c", "shop.$cmd",
            R"("startIndexBuild":"users","indexes":[{"v":2,"key":{"email":1},"name":"email"}])");
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(answer.suspects, SizeIs(1));
  EXPECT_LT(answer.suspects.front().score, 40);
  EXPECT_THAT(answer.suspects.front().why, HasSubstr("it was built again at"));
}

TEST(Suspects, AShorterTimeToLiveIsTheCauseOfTheDeletesAfterIt) {
  for (const bool series : {false, true}) {
    Oplog oplog;
    const std::string collection = series ? "system.buckets.rates" : "sessions";
    oplog.insert(1);
    const Timestamp cause =
        oplog.add("c", "shop.$cmd",
                  R"("collMod":")" + collection + R"(",)" +
                      (series ? R"("expireAfterSeconds":60)"
                              : R"("index":{"name":"at","expireAfterSeconds":60})"),
                  series ? R"("o2":{"collectionOptions_old":{"expireAfterSeconds":86400}})"
                         : R"("o2":{"indexOptions_old":{"expireAfterSeconds":86400}})");
    oplog.pause(3000);
    for (int pass = 0; pass < 3; ++pass) {
      for (int i = 0; i < 100; ++i)
        oplog.add("d", "shop." + collection, "\"_id\":" + std::to_string(pass * 100 + i));
      oplog.pause(60'000);
    }
    oplog.insert(2);
    const OplogAnswer answer = oplog.finish();
    ASSERT_THAT(reasons(answer), ElementsAre(Reason::kTimeToLive));
    const Suspect& suspect = answer.suspects.front();
    EXPECT_EQ(suspect.limit, cause);
    EXPECT_GT(suspect.score, 75);
    EXPECT_THAT(suspect.why, HasSubstr("deleted after 1 min instead of 1 d"));
    ASSERT_THAT(suspect.effects, SizeIs(3));
    EXPECT_EQ(suspect.effects.front().operations, 100U);
    // A restore leaves the deletes out, which is no loss.
    ASSERT_THAT(suspect.lost, SizeIs(1));
    EXPECT_EQ(suspect.lost.front().ns, "shop.orders");
    EXPECT_EQ(suspect.lost.front().counts[0], 1U);
  }
}

TEST(Suspects, ALongerTimeToLiveIsNoSuspect) {
  Oplog oplog;
  oplog.add("c", "shop.$cmd",
            R"("collMod":"sessions","index":{"name":"at","expireAfterSeconds":600})",
            R"("o2":{"indexOptions_old":{"expireAfterSeconds":60}})");
  EXPECT_THAT(reasons(oplog.finish()), IsEmpty());
}

// ---- what else is lost

TEST(Suspects, SaysWhatARestoreToTheLimitLeavesOut) {
  Oplog oplog;
  for (int i = 0; i < 50; ++i) oplog.insert(i);
  const Timestamp first = oplog.remove(1000);
  for (int i = 1001; i < 1100; ++i) {
    oplog.remove(i);
    if (i % 10 == 0) oplog.add("i", "news.items", "\"_id\":" + std::to_string(i));
  }
  oplog.pause(1000);
  oplog.insert(51);
  oplog.add("n", "", R"("msg":"periodic noop")");
  const OplogAnswer answer = oplog.finish();
  ASSERT_FALSE(answer.suspects.empty());
  const Suspect& suspect = answer.suspects.front();
  EXPECT_EQ(suspect.limit, first);
  EXPECT_FALSE(suspect.lost_is_least);
  ASSERT_THAT(suspect.lost, SizeIs(2));
  EXPECT_EQ(suspect.lost[0].ns, "news.items");
  EXPECT_EQ(suspect.lost[0].counts, (KindCounts{9, 0, 0, 0}));
  EXPECT_EQ(suspect.lost[1].ns, "shop.orders");
  EXPECT_EQ(suspect.lost[1].counts, (KindCounts{1, 0, 0, 0}));
}

TEST(Suspects, TheFilterHidesNoLoss) {
  Oplog oplog({.namespaces = {"shop.gone"}});
  oplog.insert(1);
  oplog.add("c", "shop.$cmd", R"("drop":"gone")", R"("o2":{"numRecords":5})");
  oplog.insert(2);
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(answer.suspects, SizeIs(1));
  ASSERT_THAT(answer.suspects.front().lost, SizeIs(1));
  EXPECT_EQ(answer.suspects.front().lost.front().ns, "shop.orders");
}

// ---- one document

TEST(Suspects, TheDeleteOfTheDocumentThatIsAskedForIsASuspect) {
  Oplog oplog({.id = IdFilter::of("7").value(), .list_most = 10});
  oplog.insert(7);
  oplog.set("shop.orders", 7, R"("u":{"total":5})");
  const Timestamp gone = oplog.remove(7);
  oplog.insert(8);
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kDocument));
  EXPECT_EQ(answer.suspects.front().limit, gone);
  EXPECT_EQ(answer.suspects.front().why, "_id 7 was deleted");
  EXPECT_THAT(answer.listed, SizeIs(3)) << "its history";
}

TEST(Suspects, TheOverwritingOfADocumentIsASuspectAndADeleteThatWasUndoneIsLess) {
  Oplog oplog({.id = IdFilter::of("7").value()});
  oplog.remove(7);
  oplog.insert(7);
  const Timestamp over =
      oplog.add("u", "shop.orders", R"("_id":7,"status":"x")", R"("o2":{"_id":7})");
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kDocument, Reason::kDocument));
  EXPECT_EQ(answer.suspects.front().limit, over);
  EXPECT_THAT(answer.suspects.front().why, HasSubstr("replaced as a whole"));
}

TEST(Suspects, TheDropOfTheDocumentsCollectionIsASuspect) {
  Oplog oplog({.id = IdFilter::of("7").value()});
  oplog.insert(7);
  oplog.add("c", "news.$cmd", R"("drop":"items")", R"("o2":{"numRecords":5})");
  oplog.add("c", "shop.$cmd", R"("drop":"orders")", R"("o2":{"numRecords":5})");
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kDrop));
  EXPECT_EQ(answer.suspects.front().ns, "shop.orders");
}

// ---- collections

TEST(Suspects, CollectionsOfGeneratedNamesAreOneRoutine) {
  Oplog oplog;
  for (int i = 0; i < 12; ++i) {
    const std::string name = "import_" + std::to_string(123'456 * (i + 2));
    oplog.add("c", "shop.$cmd", R"("create":")" + name + "\"");
    oplog.add("i", "shop." + name, R"("_id":1)");
    oplog.add("c", "shop.$cmd", R"("drop":")" + name + "\"", R"("o2":{"numRecords":1})");
    oplog.pause(300'000);
  }
  const OplogAnswer answer = oplog.finish();
  EXPECT_THAT(answer.suspects, IsEmpty());
  ASSERT_THAT(answer.routines, SizeIs(1));
  EXPECT_EQ(answer.routines.front().ns, "shop.import_*");
  EXPECT_EQ(answer.routines.front().times, 12U);
  ASSERT_THAT(answer.namespaces, SizeIs(1));
  EXPECT_EQ(answer.namespaces.front().ns, "shop.import_*");
}

TEST(NamePattern, StandsForWhatIsGenerated) {
  for (const auto& [name, pattern] : std::initializer_list<std::pair<const char*, const char*>>{
           {"shop.orders", "shop.orders"},
           {"shop.orders_2026", "shop.orders_2026"},
           {"shop.facade", "shop.facade"},
           {"shop.import_2a143e1b17a0", "shop.import_*"},
           {"shop.day_20261125.log", "shop.day_*.log"},
           {"shop.x_0f8d8d3e-9c7c-4a39-a3d7-0b8f32b6f8a1", "shop.x_*"},
           {"shop.tmp.agg_out.0f8d8d3e-9c7c-4a39-a3d7-0b8f32b6f8a1", "shop.tmp.agg_out.*"},
           {"shop.tmpn2WmO.convertToCapped.audit", "shop.tmp*.convertToCapped.audit"},
           {"shop", "shop"},
           {"shop.", "shop."}})
    EXPECT_EQ(name_pattern(name), pattern);
}

TEST(Suspects, AnOutThatLosesDocumentsIsLikelierThanOneThatReplacesThem) {
  double before = 0;
  for (const int records : {3, 3'000}) {
    Oplog oplog;
    oplog.add("c", "shop.$cmd", R"("create":"tmp.agg_out.0f8d8d3e-9c7c","temp":true)");
    for (int i = 0; i < 3; ++i)
      oplog.add("i", "shop.tmp.agg_out.0f8d8d3e-9c7c", "\"_id\":" + std::to_string(i));
    const Timestamp cause = oplog.add(
        "c", "shop.$cmd",
        R"("renameCollection":"shop.tmp.agg_out.0f8d8d3e-9c7c","to":"shop.report","dropTarget":true)",
        R"("o2":{"numRecords":)" + std::to_string(records) + "}");
    const OplogAnswer answer = oplog.finish();
    ASSERT_THAT(reasons(answer), ElementsAre(Reason::kReplaced));
    EXPECT_EQ(answer.suspects.front().limit, cause);
    EXPECT_THAT(answer.suspects.front().why, HasSubstr("the new one has 3"));
    EXPECT_GT(answer.suspects.front().score, before + 20);
    before = answer.suspects.front().score;
  }
}

TEST(Suspects, ARenamedCollectionThatAProgramMakesAnewIsLikely) {
  Oplog oplog;
  const Timestamp cause =
      oplog.add("c", "shop.$cmd", R"("renameCollection":"shop.orders","to":"shop.orders_old")");
  oplog.add("c", "shop.$cmd", R"("create":"orders")");
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kRenameAway));
  EXPECT_EQ(answer.suspects.front().limit, cause);
  EXPECT_GT(answer.suspects.front().score, 80);
  EXPECT_THAT(answer.suspects.front().why, HasSubstr("a program made it anew at once"));
}

TEST(Suspects, DropsOneAfterAnotherAreASeriesAndTheFirstIsTheLimit) {
  Oplog oplog;
  const Timestamp first =
      oplog.add("c", "shop.$cmd", R"("drop":"carts")", R"("o2":{"numRecords":5})");
  oplog.add("c", "shop.$cmd", R"("create":"carts")");
  oplog.pause(2'000);
  oplog.add("c", "shop.$cmd", R"("drop":"orders")", R"("o2":{"numRecords":50000})");
  oplog.add("c", "shop.$cmd", R"("create":"orders")");
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kDrop));
  EXPECT_EQ(answer.suspects.front().limit, first);
  ASSERT_THAT(answer.suspects.front().effects, SizeIs(1));
  EXPECT_THAT(answer.suspects.front().effects.front().text, HasSubstr("shop.orders dropped"));
}

TEST(Suspects, AnIncWithTheWrongSignIsOneSuspectAndNotManyFalls) {
  Oplog oplog;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 40; ++i) {
      oplog.set("bank.points", i, R"("u":{"points":)" + std::to_string(100 + round) + "}");
      oplog.pause(300);
    }
  }
  const Timestamp first = oplog.set("bank.points", 0, R"("u":{"points":82})");
  for (int i = 1; i < 40; ++i) oplog.set("bank.points", i, R"("u":{"points":82})");
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kMassUpdate));
  EXPECT_EQ(answer.suspects.front().limit, first);
  EXPECT_THAT(answer.suspects.front().why, HasSubstr("numbers fell by it: points of _id 0 fell"));
}

}  // namespace
}  // namespace idmint::restore
