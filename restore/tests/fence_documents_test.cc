// The fence of counter documents of programs that do without idmint, on real servers; and what a
// fence refuses before it writes anything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "restore/fence/documents.h"
#include "restore/fence/fence.h"
#include "restore/replay/record.h"
#include "restore/tests/fenced_target.h"
#include "restore/tests/oplog_builder.h"
#include "restore/tests/program.h"

namespace idmint::restore {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class FenceOfDocuments : public FenceTest {
 protected:
  void inc(const std::string& ns, const std::string& id, const std::string& field,
           const std::string& by, bool upsert = false) {
    const std::size_t dot = ns.find('.');
    production_.run(ns.substr(0, dot), R"({"findAndModify":")" + ns.substr(dot + 1) +
                                           R"(","query":{"_id":)" + id +
                                           R"(},"update":{"$inc":{")" + field + "\":" + by +
                                           R"(}},"upsert":)" + (upsert ? "true" : "false") + "}");
  }
  void set(const std::string& ns, const std::string& id, const std::string& fields) {
    const std::size_t dot = ns.find('.');
    production_.run(ns.substr(0, dot), R"({"update":")" + ns.substr(dot + 1) +
                                           R"(","updates":[{"q":{"_id":)" + id +
                                           R"(},"u":{"$set":)" + fields + "}}]}");
  }
};

TEST_F(FenceOfDocuments, EachClassicShapeGoesOnWhereProductionWas) {
  production_.insert("app.uniqueIdentifierCounter",
                     R"({"_id":"UNIQUE COUNT DOCUMENT IDENTIFIER","COUNT":0,"NOTES":"n"},)"
                     R"({"_id":"COUNTER DOCUMENT NUMBER 0","COUNT":0,"MAX_VALUE":999},)"
                     R"({"_id":"COUNTER DOCUMENT NUMBER 1","COUNT":1000,"MAX_VALUE":1999})");
  production_.insert("app.blocks", R"({"_id":"b","COUNT":{"$numberLong":"7"},"MAXCOUNT":999})");
  production_.insert("app.counters", R"({"_id":"userid","seq":{"$numberDouble":"0"}})");
  production_.insert("app.ids", R"({"_id":"orders","index":1000})");
  production_.insert("app.numbers", R"({"_id":1,"uniqueIdentifierCounter":2147483640})");
  production_.insert("app.accounts", R"({"_id":1,"owner":"a","balance":10})");
  const auto take = [&](int times) {
    for (int i = 0; i < times; ++i) {
      inc("app.uniqueIdentifierCounter", R"("UNIQUE COUNT DOCUMENT IDENTIFIER")", "COUNT", "20");
      inc("app.uniqueIdentifierCounter", R"("COUNTER DOCUMENT NUMBER 1")", "COUNT", "100");
      inc("app.blocks", R"("b")", "COUNT", "1");
      inc("app.counters", R"("userid")", "seq", "1");
      inc("app.ids", R"("orders")", "index", "10");
      inc("app.numbers", "1", "uniqueIdentifierCounter", "5");
      inc("app.accounts", "1", "balance", "3");
    }
  };
  take(2);
  restore_to_now();
  take(4);
  // Made after the limit, by a recipe that makes what is missing and would begin again.
  inc("app.counters", R"("invoiceid")", "seq", "1", true);
  inc("app.counters", R"("invoiceid")", "seq", "1", true);
  // The mistake: counted down instead of up.
  inc("app.uniqueIdentifierCounter", R"("UNIQUE COUNT DOCUMENT IDENTIFIER")", "COUNT", "-115");

  const FenceOptions options = by_oplog();
  const FenceReport report = fenced(options);
  const std::string counters = "uniqueIdentifierCounter";
  EXPECT_EQ(on_target("app", counters, R"("UNIQUE COUNT DOCUMENT IDENTIFIER")", "COUNT"),
            integer(120))
      << "what it came to before it fell";
  EXPECT_EQ(on_target("app", counters, R"("COUNTER DOCUMENT NUMBER 0")", "COUNT"), integer(0));
  EXPECT_EQ(on_target("app", counters, R"("COUNTER DOCUMENT NUMBER 1")", "COUNT"), integer(1600));
  EXPECT_EQ(on_target("app", "blocks", R"("b")", "COUNT"), R"({ "v" : { "$numberLong" : "13" } })");
  EXPECT_EQ(on_target("app", "counters", R"("userid")", "seq"),
            R"({ "v" : { "$numberDouble" : "6.0" } })");
  EXPECT_EQ(on_target("app", "ids", R"("orders")", "index"), integer(1060));
  EXPECT_EQ(on_target("app", "numbers", "1", counters),
            R"({ "v" : { "$numberLong" : "2147483670" } })")
      << "an int that is full";
  EXPECT_EQ(on_target("app", "counters", R"("invoiceid")", "seq"), integer(2)) << "made again";
  EXPECT_EQ(on_target("app", "accounts", "1", "balance"), integer(16)) << "left alone";

  ASSERT_THAT(report.left_alone, SizeIs(1));
  EXPECT_EQ(report.left_alone.front().field, "balance");
  EXPECT_EQ(document(report, "app.counters/invoiceid").outcome, FenceOutcome::kMade);
  EXPECT_EQ(document(report, "app.uniqueIdentifierCounter/COUNTER DOCUMENT NUMBER 1").largest_step,
            100);
  EXPECT_THAT(report.notes, testing::Contains(HasSubstr("values and no increments")));
  EXPECT_THAT(report.notes, testing::Contains(HasSubstr("known is what was handed out up to")));

  // A counter that moved on since is not set back.
  on_target_.run("app", R"({"update":"ids","updates":[{"q":{"_id":"orders"},"u":{"$inc":)"
                        R"({"index":1000}}}]})");
  fenced(options);
  EXPECT_EQ(on_target("app", "ids", R"("orders")", "index"), integer(2060));
}

TEST_F(FenceOfDocuments, OneValueInTheOplogIsAStepFromWhatTheTargetHas) {
  production_.insert("app.counters", R"({"_id":"userid","seq":5})");
  restore_to_now();
  began_ = limit_;  // the oplog was copied from the limit on
  inc("app.counters", R"("userid")", "seq", "1");
  fenced(by_oplog());
  EXPECT_EQ(on_target("app", "counters", R"("userid")", "seq"), integer(6));
}

TEST_F(FenceOfDocuments, AFieldIsNeverLowered) {
  on_target_.insert("app.counters",
                    R"({"_id":"userid","seq":7},{"_id":"text","seq":"7"},{"_id":1})");
  const auto raise = [&](const char* id, std::int64_t to) {
    const Bson document = *from_json(std::string(R"({"_id":)") + id + "}");
    const auto bytes = document.view().bytes();
    const Result<void> raised =
        raise_field(on_target_.server(),
                    {"app.counters", "seq",
                     std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())},
                    to);
    return raised ? std::string("raised") : std::string(name(raised.error().code));
  };
  EXPECT_EQ(raise(R"("userid")", 5), "raised");
  EXPECT_EQ(on_target("app", "counters", R"("userid")", "seq"), integer(7));
  EXPECT_EQ(raise(R"("userid")", 8), "raised");
  EXPECT_EQ(on_target("app", "counters", R"("userid")", "seq"), integer(8));
  EXPECT_EQ(raise(R"("text")", 9), "FAILED_PRECONDITION");
  EXPECT_EQ(raise("1", 9), "raised") << "where the field is missing";
  EXPECT_EQ(raise("2", 9), "NOT_FOUND");
  on_target_.run("app", R"({"dropDatabase":1})");
}

TEST_F(FenceOfDocuments, AnyOtherIsACounterWhereItIsNamed) {
  production_.insert("app.own.numbers",
                     R"({"_id":{"k":1},"next":5,"made":"x"},{"_id":2,"next":7})");
  restore_to_now();
  inc("app.own.numbers", R"({"k":1})", "next", "37");
  FenceOptions options = by_oplog();
  FenceReport report = fenced(options);
  EXPECT_THAT(report.documents, IsEmpty());
  options.counters = {{.ns = "app.own.numbers", .field = "next"}};
  report = fenced(options);
  EXPECT_EQ(on_target("app", "own.numbers", R"({"k":1})", "next"), integer(42));
  EXPECT_EQ(on_target("app", "own.numbers", "2", "next"), integer(7));
}

TEST_F(FenceOfDocuments, AFallBeforeTheLimitIsNoCounterUntilItIsNamed) {
  production_.insert("app.counters", R"({"_id":"stock","seq":5},{"_id":"userid","seq":1})");
  for (const char* const by : {"3", "-4", "6"}) inc("app.counters", R"("stock")", "seq", by);
  inc("app.counters", R"("userid")", "seq", "1");
  restore_to_now();
  inc("app.counters", R"("stock")", "seq", "9");
  inc("app.counters", R"("userid")", "seq", "1");
  FenceOptions options = by_oplog();
  EXPECT_THAT(refused(options).message(),
              AllOf(HasSubstr("app.counters/stock"), HasSubstr("--counter app.counters.seq")));
  options.exclude = {"app.counters/stock"};
  fenced(options);
  EXPECT_EQ(on_target("app", "counters", R"("stock")", "seq"), integer(10));
  EXPECT_EQ(on_target("app", "counters", R"("userid")", "seq"), integer(3));
  options.exclude.clear();
  options.counters = {{.ns = "app.counters", .field = "seq"}};
  fenced(options);
  EXPECT_EQ(on_target("app", "counters", R"("stock")", "seq"), integer(19));
}

TEST_F(FenceOfDocuments, CountersOfOddTypesAreRaisedOrRefused) {
  production_.insert("app.counters",
                     R"({"_id":"decimal","seq":{"$numberDecimal":"5"}},)"
                     R"({"_id":"long","seq":{"$numberLong":"9223372036854775800"}},)"
                     R"({"_id":"double","seq":{"$numberDouble":"9007199254740980"}},)"
                     R"({"_id":"text","seq":7})");
  restore_to_now();
  inc("app.counters", R"("decimal")", "seq", "2");
  inc("app.counters", R"("long")", "seq", "7");
  inc("app.counters", R"("double")", "seq", "20");
  inc("app.counters", R"("text")", "seq", "1");
  on_target_.run("app", R"({"update":"counters","updates":[{"q":{"_id":"text"},"u":{"$set":)"
                        R"({"seq":"7"}}}]})");
  FenceOptions options = by_oplog();
  const FenceReport plan = fenced(options, FenceMode::kPreview);
  EXPECT_THAT(document(plan, "app.counters/double").why, HasSubstr("make it a NumberLong"));
  EXPECT_THAT(document(plan, "app.counters/text").why, HasSubstr("is a string on the target"));
  EXPECT_EQ(refused(options).code, Code::kFailedPrecondition);
  options.exclude = {"app.counters/double", "app.counters/text"};
  const FenceReport report = fenced(options);
  EXPECT_EQ(on_target("app", "counters", R"("decimal")", "seq"),
            R"({ "v" : { "$numberDecimal" : "7" } })");
  EXPECT_EQ(on_target("app", "counters", R"("long")", "seq"),
            R"({ "v" : { "$numberLong" : "9223372036854775807" } })");
  EXPECT_THAT(document(report, "app.counters/long").note, HasSubstr("no larger value"));
  EXPECT_EQ(document(report, "app.counters/text").outcome, FenceOutcome::kLeftOut);
}

TEST_F(FenceOfDocuments, TheLiveServerTellsWhatItsOplogLost) {
  production_.insert("app.counters", R"({"_id":"userid","seq":5})");
  restore_to_now();
  set("app.counters", R"("userid")", R"({"seq":900})");
  production_.insert("app.users", R"({"_id":{"$numberLong":"950"}})");
  FenceOptions options = by_live();
  // As if the oplog had rolled over: nothing of it is within.
  options.limit = production_.now();
  options.used_in = {{.source = "app.counters/userid", .collection = "app.users", .field = "_id"}};
  const FenceReport report = fenced(options);
  EXPECT_EQ(on_target("app", "counters", R"("userid")", "seq"), integer(951));
  EXPECT_THAT(document(report, "app.counters/userid").note,
              HasSubstr("951 is the smallest that is safe for both"));
}

// ---- hostile input

TEST_F(FenceOfDocuments, AnOplogThatIsCutIsRefused) {
  production_.insert("app.counters", R"({"_id":"userid","seq":5})");
  restore_to_now();
  inc("app.counters", R"("userid")", "seq", "1");
  const FenceOptions options = by_oplog();
  const std::string whole = content(options.oplog);
  for (const std::size_t less : {std::size_t{1}, std::size_t{40}}) {
    write(options.oplog, whole.substr(0, whole.size() - less));
    const Error error = refused(options);
    EXPECT_EQ(error.code, Code::kDataLoss);
    EXPECT_THAT(error.message(), HasSubstr("nothing was written"));
  }
}

TEST_F(FenceOfDocuments, AnOplogThatDoesNotReachFromTheLimitOnIsRefused) {
  production_.insert("app.counters", R"({"_id":"userid","seq":5})");
  restore_to_now();
  FenceOptions options = by_oplog();
  options.limit = Timestamp{.seconds = limit_.seconds + 100'000, .ordinal = 1};
  EXPECT_EQ(refused(options).code, Code::kOutOfRange) << "it ends before";
  options.limit = Timestamp{.seconds = began_.seconds - 1000, .ordinal = 1};
  EXPECT_EQ(refused(options).code, Code::kOutOfRange) << "it begins after";
  options.limit.reset();
  FenceReport report = fenced(options);
  EXPECT_THAT(report.notes, testing::Contains(HasSubstr("the limit of the restore is not known")));
  // The limit is that of the record of the restore, if there is one.
  const Bson fingerprint = Bson("limit", print_timestamp(limit_));
  ASSERT_TRUE(Record::begin(on_target_.server(), fingerprint.view()));
  report = fenced(options);
  EXPECT_EQ(report.limit, limit_);
}

TEST_F(FenceOfDocuments, ProductionItselfIsNotFencedUnasked) {
  production_.insert("app.counters", R"({"_id":"userid","seq":5})");
  limit_ = production_.now();
  inc("app.counters", R"("userid")", "seq", "1");
  FenceOptions options = by_oplog();
  options.target = production_url();
  Error error = refused(options);
  EXPECT_EQ(error.code, Code::kFailedPrecondition);
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("is production itself"), HasSubstr("its oplog has")));
  // One that ends with an entry which the target does not have; its collections are those of it.
  OplogBuilder later;
  later.add_at({.seconds = limit_.seconds + 1000, .ordinal = 1}, R"("op":"n","ns":"","o":{})");
  write(options.oplog, content(options.oplog) + later.bytes());
  EXPECT_THAT(refused(options).message(), HasSubstr("is the one that the oplog writes to"));
  options.oplog.clear();
  options.live = production_url();
  error = refused(options);
  EXPECT_THAT(error.message(), HasSubstr("is production itself: it is the server of --live"));
  options.allow_production = true;
  inc("app.counters", R"("userid")", "seq", "10");
  set("app.counters", R"("userid")", R"({"seq":3})");  // a counter that was copied back
  fenced(options);
  Production check(production_url("admin"));
  EXPECT_THAT(to_relaxed_json(check.run("app", R"({"find":"counters"})").view()),
              HasSubstr(R"("seq" : 16)"));
}

TEST_F(FenceTest, WhatTakesNoWritesIsRefused) {
  restore_to_now();
  servers::MongoSet& set = production_set();
  const std::size_t secondary = set.primary() == 0 ? 1 : 0;
  FenceOptions options = by_oplog();
  options.target = set.direct(secondary);
  StoppingFence observer;
  FenceReport report;
  const Result<void> done = fence(options, FenceMode::kCarryOut, observer, report);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(done.error().message(), HasSubstr("takes no writes"));
}

}  // namespace
}  // namespace idmint::restore
