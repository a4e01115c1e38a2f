#include "terminal/advice.h"

#include <gtest/gtest.h>

#include <string>

namespace idmint {
namespace {

std::string words(const Advice& advice, std::string_view store = "") {
  return worded({Code::kNotFound, "no", advice}, store).message();
}

TEST(Advice, IsTheCommandThatDoesIt) {
  EXPECT_EQ(words({}), "no");
  EXPECT_EQ(words({Remedy::kCreateSequence, "orders"}), "no: idmint create orders");
  EXPECT_EQ(words({Remedy::kCreateSequence, "", {"gapless"}}),
            "no: idmint create NAME --strategy gapless");
  EXPECT_EQ(words({Remedy::kCreateAbove, "", {"gapless"}}),
            "no: idmint create NAME --strategy gapless --start N");
  EXPECT_EQ(words({Remedy::kCreatePool, "web"}), "no: idmint create web --kind pool");
  EXPECT_EQ(words({Remedy::kCreateSource, "web"}),
            "no: idmint create web; or, for Snowflake ids under worker ids that are leased: "
            "idmint create web --kind pool");
  EXPECT_EQ(words({Remedy::kCreateStore, "sqlite:a.db"}),
            "no: idmint create NAME --store sqlite:a.db");
  EXPECT_EQ(words({Remedy::kAlterSequence, "orders"}), "no: idmint alter orders --max N");
  EXPECT_EQ(words({Remedy::kAlterSequence, "orders", {"20"}}), "no: idmint alter orders --max 20");
  EXPECT_EQ(words({Remedy::kRetireSequence, "orders"}), "no: idmint retire orders");
  EXPECT_EQ(words({Remedy::kRaiseSequence, "orders", {"7"}}), "no: idmint raise orders --past 7");
  EXPECT_EQ(words({Remedy::kRaiseEach, "orders"}), "no: idmint raise orders --past-each V,V,...");
  EXPECT_EQ(words({Remedy::kRaisePastField, "orders", {"app.orders", "_id"}}),
            "no: idmint raise orders --from-collection app.orders --field _id");
  EXPECT_EQ(words({Remedy::kRaisePool, "web"}), "no: idmint workers raise web --past TIME");
  EXPECT_EQ(words({Remedy::kRaiseStore, "sqlite:a.db"}),
            "no: idmint raise --all --store sqlite:a.db --past N (or --past-from URL)");
  EXPECT_EQ(words({Remedy::kRaiseStore, "sqlite:a.db", {"moved"}}),
            "no: idmint raise --all --store sqlite:a.db --past N (or --past-from URL); if nothing "
            "was handed out since it was moved: idmint raise --all --store sqlite:a.db --moved");
  EXPECT_EQ(words({Remedy::kFollowMove, "orders", {"sqlite:b.db"}}), "no: --also sqlite:b.db");
  EXPECT_EQ(words({Remedy::kFinishMove, "orders", {"sqlite:a.db", "sqlite:b.db"}}),
            "no: idmint move orders --from sqlite:a.db --to sqlite:b.db");
  EXPECT_EQ(words({Remedy::kInsertDocuments, "bills"}),
            "no: idmint insert COLLECTION --from bills");
  EXPECT_EQ(words({Remedy::kCompare, "orders"}), "no: idmint peek orders");
  EXPECT_EQ(words({Remedy::kListWorkers, "web"}), "no: idmint workers list web");
  EXPECT_EQ(words({Remedy::kPlanPool, "web"}), "no: idmint plan-change");
  EXPECT_EQ(words({Remedy::kListSources}), "no: idmint formats, idmint list");
  EXPECT_EQ(words({Remedy::kListSequences}), "no: idmint list");
  EXPECT_EQ(words({Remedy::kListFormats}), "no: idmint formats");
  EXPECT_EQ(words({Remedy::kNameUuid, "", {"3"}}), "no: idmint name NAMESPACE TEXT --version 3");
  EXPECT_EQ(words({Remedy::kMintSnowflake, "", {"twitter"}}),
            "no: idmint next snowflake --layout twitter --worker W");
  EXPECT_EQ(words({Remedy::kInspect}), "no: idmint inspect");
}

TEST(Advice, NamesOptionsAsTheCommandLineDoes) {
  EXPECT_EQ(words({Remedy::kSetOption, "", {"worker"}}), "no (--worker or IDMINT_WORKER)");
  EXPECT_EQ(words({Remedy::kSetOption, "", {"domain", "local_id"}}), "no (--domain, --local-id)");
  EXPECT_EQ(words({Remedy::kSetOption, "", {"make_index"}}), "no (--create-index)");
  EXPECT_EQ(words({Remedy::kSetOption, ", or give one", {"node"}}), "no, or give one (--node)");
  EXPECT_EQ(words({Remedy::kSetOption, "", {"stride=2", "offset=1"}}),
            "no (--stride 2 --offset 1)");
  EXPECT_EQ(words({Remedy::kSetOption, "", {"first=7", "last=9"}}), "no (--start 7 --max 9)");
  EXPECT_EQ(words({Remedy::kSetOption, ", or give one, 0 to 1023", {"worker"}}, "sqlite:a.db"),
            "no: idmint create web --kind pool --store sqlite:a.db, then idmint next web --store "
            "sqlite:a.db, or give one, 0 to 1023 (--worker or IDMINT_WORKER)");
}

TEST(Advice, NamesTheStoreThatIsGivenAndNoneOtherwise) {
  EXPECT_EQ(words({Remedy::kRaiseSequence, "orders"}, "sqlite:my ids.db"),
            "no: idmint raise orders --past N --store 'sqlite:my ids.db'");
  EXPECT_EQ(words({Remedy::kCreateSequence, "orders"}, "sqlite:ids.db"),
            "no: idmint create orders --store sqlite:ids.db");
  EXPECT_EQ(words({Remedy::kCreateStore, "sqlite:b.db"}, "sqlite:a.db"),
            "no: idmint create NAME --store sqlite:b.db")
      << "that of the advice";
  EXPECT_EQ(words({Remedy::kCreateStore}, "sqlite:a.db"),
            "no: idmint create NAME --store sqlite:a.db");
  EXPECT_EQ(words({Remedy::kRaiseStore}), "no: idmint raise --all --past N (or --past-from URL)");
}

TEST(Advice, IsWordedOnce) {
  const Error once = worded({Code::kNotFound, "no", {Remedy::kListFormats}}, "");
  EXPECT_EQ(once.advice, Advice{});
  EXPECT_EQ(worded(once, "sqlite:a.db"), once);
}

}  // namespace
}  // namespace idmint
