// Which operations find takes for those of idmint-restore promote. promote_test judges real ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>

#include "restore/promotion_marks.h"
#include "tests/restore/written_oplog.h"

namespace idmint::restore {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

const std::string kPromotion = "20261126-101500";
const std::string kCopy = "orders.restored-" + kPromotion;
const std::string kOld = "orders.before-restore-" + kPromotion;
constexpr std::string_view kPlain = R"("validator":{"total":{"$gte":0}})";

std::string refusing(const std::string& id) {
  return R"("validator":)" + to_relaxed_json(refusing_validator(id).view());
}
// What a collMod of the collection orders makes of one validator.
void change_validator(Oplog& oplog, const std::string& from, const std::string& to,
                      const std::string& more = "") {
  oplog.add("c", "shop.$cmd",
            R"("collMod":"orders",)" + to +
                R"(,"validationLevel":"strict","validationAction":"error")" + more,
            R"("o2":{"collectionOptions_old":{)" + from + "}}");
}
void rename(Oplog& oplog, const std::string& from, const std::string& to) {
  oplog.add("c", "shop.$cmd",
            R"("renameCollection":"shop.)" + from + R"(","to":"shop.)" + to + '"');
}
void drop(Oplog& oplog, const std::string& name) {
  oplog.add("c", "shop.$cmd", R"("drop":")" + name + '"', R"("o2":{"numRecords":300})");
}
void begin(Oplog& oplog) {
  oplog.add("i", "idmint_restore.promote",
            R"("_id":"promote","owner":"a","id":")" + kPromotion + '"');
}
void take_over(Oplog& oplog) {
  oplog.add("u", "idmint_restore.promote", R"("$v":2,"diff":{"u":{"owner":"b"}})",
            R"("o2":{"_id":"promote"})");
}
void undo(Oplog& oplog) {
  take_over(oplog);
  oplog.add("u", "idmint_restore.promote",
            R"("_id":"promote","owner":"b","undoing":true,"id":")" + kPromotion + '"',
            R"("o2":{"_id":"promote"})");
}
void forget(Oplog& oplog) {
  oplog.add("c", "idmint_restore.$cmd", R"("drop":"promote")", R"("o2":{"numRecords":1})");
  oplog.add("c", "idmint_restore.$cmd", R"("dropDatabase":1)");
}
void promote(Oplog& oplog) {
  begin(oplog);
  change_validator(oplog, std::string(kPlain), refusing(kPromotion));
  oplog.add("c", "shop.$cmd", R"("create":")" + kCopy + "\"," + refusing(kPromotion));
  for (int i = 0; i < 400; ++i)
    oplog.add("i", "shop." + kCopy, "\"_id\":" + std::to_string(i) + R"(,"total":1)");
  rename(oplog, "orders", kOld);
  rename(oplog, kCopy, "orders");
  change_validator(oplog, refusing(kPromotion), std::string(kPlain));
}
std::vector<std::string> routines(const OplogAnswer& answer) {
  std::vector<std::string> all;
  for (const Routine& each : answer.routines) {
    if (each.reason == Reason::kPromotion)
      all.push_back(each.ns + " " + std::to_string(each.times));
  }
  return all;
}

TEST(PromotionTraces, APromotionThatIsFinishedIsNoSuspectAndNotInTheChart) {
  Oplog oplog;
  oplog.insert(1);
  promote(oplog);
  take_over(oplog);
  drop(oplog, kOld);
  forget(oplog);
  const OplogAnswer answer = oplog.finish();
  EXPECT_THAT(answer.suspects, IsEmpty());
  EXPECT_THAT(routines(answer), ElementsAre("shop.orders.restored-* 402", "idmint_restore 4",
                                            "shop.orders 3", "shop.orders.before-restore-* 1"));
  ASSERT_EQ(answer.namespaces.size(), 1U);
  EXPECT_EQ(answer.namespaces.front().ns, "shop.orders");
  EXPECT_EQ(answer.namespaces.front().counts, (KindCounts{1, 0, 0, 0}));
}

TEST(PromotionTraces, APromotionThatIsUndoneIsNoSuspect) {
  Oplog oplog;
  promote(oplog);
  undo(oplog);
  change_validator(oplog, std::string(kPlain), refusing(kPromotion));
  rename(oplog, "orders", "orders.promoted-" + kPromotion);
  rename(oplog, kOld, "orders");
  drop(oplog, "orders.promoted-" + kPromotion);
  change_validator(oplog, refusing(kPromotion), std::string(kPlain));
  forget(oplog);
  EXPECT_THAT(oplog.finish().suspects, IsEmpty());
}

TEST(PromotionTraces, WhatAUserDoesToTheKeptCollectionIsASuspect) {
  Oplog oplog;
  promote(oplog);
  drop(oplog, kOld);  // before --finish
  EXPECT_THAT(reasons(oplog.finish()), ElementsAre(Reason::kDrop));

  Oplog later;
  promote(later);
  for (int i = 0; i < 300; ++i) later.add("d", "shop." + kOld, "\"_id\":" + std::to_string(i));
  EXPECT_THAT(reasons(later.finish()), ElementsAre(Reason::kMassDelete));

  Oplog back;
  promote(back);
  rename(back, "orders", "orders.promoted-" + kPromotion);
  rename(back, kOld, "orders");
  EXPECT_THAT(reasons(back.finish()),
              UnorderedElementsAre(Reason::kRenameAway, Reason::kRenameAway));
}

TEST(PromotionTraces, WhatMerelyLooksAlikeIsASuspect) {
  Oplog names;
  promote(names);
  take_over(names);
  drop(names, "orders.before-restore-2026");
  drop(names, "orders.restored-20261126-101501");  // no promotion of this oplog
  EXPECT_THAT(reasons(names.finish()), UnorderedElementsAre(Reason::kDrop));

  Oplog renames;
  promote(renames);
  rename(renames, "stock", kOld);
  rename(renames, "stock", "stock.before-restore-20261126-101501");
  EXPECT_THAT(reasons(renames.finish()),
              UnorderedElementsAre(Reason::kRenameAway, Reason::kRenameAway));

  for (const auto& [from, to, more] :
       {std::array<std::string, 3>{"", R"("validator":{"$expr":false})", ""},
        {std::string(kPlain), R"("validator":{})", ""},
        {"", refusing("of mine"), ""},
        {"", refusing(kPromotion), R"(,"viewOn":"other")"},
        {refusing(kPromotion), std::string(kPlain), R"(,"viewOn":"other")"}}) {
    Oplog oplog;
    change_validator(oplog, from, to, more);
    EXPECT_THAT(reasons(oplog.finish()), ElementsAre(Reason::kOptions)) << from << " " << to;
  }
}

// The other drops of the series have the drop of a promotion between them.
TEST(PromotionTraces, AMistakeBeforeThePromotionStaysTheFirst) {
  Oplog oplog;
  oplog.insert(1);
  const Timestamp mistake =
      oplog.add("c", "shop.$cmd", R"("drop":"orders")", R"("o2":{"numRecords":300})");
  oplog.pause(60'000);
  promote(oplog);
  const OplogAnswer answer = oplog.finish();
  ASSERT_THAT(reasons(answer), ElementsAre(Reason::kDrop));
  EXPECT_EQ(answer.suspects.front().limit, mistake);
}

}  // namespace
}  // namespace idmint::restore
