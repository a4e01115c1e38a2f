#include "restore/oplog/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "restore/document_reader.h"
#include "restore/tests/oplog_builder.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::restore {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

class OplogCheckTest : public testing::Test {
 protected:
  Result<OplogFacts> check(const OplogBuilder& oplog, const OplogCheckOptions& options = {}) {
    Transactions transactions;
    return check_oplog(oplog.write(folder_.path("oplog.bson")), options, transactions, {});
  }
  // The error that it is refused with.
  Error refusal(const OplogBuilder& oplog, const OplogCheckOptions& options = {}) {
    const Result<OplogFacts> facts = check(oplog, options);
    if (!facts) return facts.error();
    ADD_FAILURE() << "it is not refused";
    return {};
  }

  fakes::TempFolder folder_;
};

std::string at_byte(std::size_t offset) { return "byte " + std::to_string(offset); }

OplogBuilder some_entries() {
  OplogBuilder oplog;
  oplog.noop().create("d.c").insert("d.c", R"({"_id":1})").set("d.c", "1", R"({"a":1})");
  oplog.insert("d.c", R"({"_id":2})").remove("d.c", "2").noop();
  return oplog;
}

TEST_F(OplogCheckTest, TellsWhatThereIs) {
  const Result<OplogFacts> facts = check(some_entries());
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(facts->entries, 7);
  EXPECT_EQ(facts->operations, 5);
  EXPECT_EQ(facts->first, (Timestamp{100, 1}));
  EXPECT_EQ(facts->last, (Timestamp{100, 7}));
  EXPECT_EQ(facts->last_applied, (Timestamp{100, 6}));
  ASSERT_TRUE(facts->tallies.contains("d.c"));
  const Tally& tally = facts->tallies.at("d.c");
  EXPECT_EQ(tally.base, "");
  EXPECT_EQ(tally.inserts, 2);
  EXPECT_EQ(tally.updates, 1);
  EXPECT_EQ(tally.deletes, 1);
}

TEST_F(OplogCheckTest, AFileCutAnywhereIsRefused) {
  const OplogBuilder whole = some_entries();
  const std::string bytes = OplogBuilder(whole).bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    OplogBuilder cut = whole;
    cut.bytes().resize(size);
    std::size_t begin = 0;
    bool between = false;
    for (std::size_t i = 0; i < 7; ++i) {
      if (whole.offset(i) <= size) begin = whole.offset(i);
      between = between || whole.offset(i) == size;
    }
    if (size == 0) {
      EXPECT_EQ(refusal(cut).code, Code::kDataLoss);
      continue;
    }
    if (between) {  // then the limit is missing, which is for the limit to say
      EXPECT_EQ(refusal(cut, {.limit = Timestamp{100, 7}}).code, Code::kOutOfRange);
      continue;
    }
    const Error error = refusal(cut);
    EXPECT_EQ(error.code, Code::kDataLoss) << size;
    EXPECT_THAT(error.message(), HasSubstr(at_byte(begin)));
  }
}

TEST_F(OplogCheckTest, DamageWithinADocumentIsRefusedWithItsPlace) {
  OplogBuilder oplog;
  oplog.insert("d.c", R"({"_id":1})").insert("d.c", R"({"_id":2,"text":"some"})").noop();
  const std::size_t at = oplog.bytes().find("text");
  oplog.bytes()[at - 1] = '\x55';  // no type
  const Error error = refusal(oplog);
  EXPECT_EQ(error.code, Code::kDataLoss);
  EXPECT_THAT(error.message(), AllOf(HasSubstr(at_byte(oplog.offset(1))), HasSubstr("100:1")));
}

// A flipped bit may make another well-formed oplog, and none can tell. Otherwise the oplog is
// refused with the place of the entry, or of the one after it, whose beginning is lost.
TEST_F(OplogCheckTest, FlippedBitsAreRefusedWithTheirPlaceOrMakeAnotherOplog) {
  const OplogBuilder whole = some_entries();
  const std::size_t size = OplogBuilder(whole).bytes().size();
  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < size * 8; bit += 9) {  // each in its turn
    OplogBuilder flipped = whole;
    char& byte = flipped.bytes()[bit / 8];
    byte = static_cast<char>(byte ^ (1 << (bit % 8)));
    const Result<OplogFacts> facts = check(flipped, {.after = Timestamp{100, 1}});
    if (facts) continue;
    ++refused;
    if (facts.error().code != Code::kDataLoss) continue;  // another command, another time
    std::size_t entry = 0;
    while (entry < 6 && whole.offset(entry + 1) <= bit / 8) ++entry;
    EXPECT_THAT(
        facts.error().message(),
        testing::AnyOf(HasSubstr(at_byte(whole.offset(entry))),
                       HasSubstr(at_byte(whole.offset(std::min<std::size_t>(entry + 1, 6))))))
        << bit;
  }
  EXPECT_GT(refused, size / 4);
}

TEST_F(OplogCheckTest, OrderIsKept) {
  const std::string noop = R"("op":"n","ns":"","o":{})";
  OplogBuilder same;
  same.add_at({100, 1}, noop).add_at({100, 1}, noop);
  EXPECT_THAT(refusal(same).message(), AllOf(HasSubstr("out of order"), HasSubstr("byte 76")));
  OplogBuilder back;
  back.add_at({100, 2}, noop).add_at({99, 3}, noop);
  EXPECT_EQ(refusal(back).code, Code::kDataLoss);
  OplogBuilder term;
  term.add_at({100, 1}, noop, 3).add_at({100, 2}, noop, 2);
  EXPECT_THAT(refusal(term).message(), HasSubstr("rolled back"));
}

TEST_F(OplogCheckTest, OnlyVersion2IsKnown) {
  const std::string noop = R"("op":"n","ns":"","o":{})";
  OplogBuilder old;
  old.add_at({100, 1}, noop, 1, R"("v":1)");
  EXPECT_THAT(refusal(old).message(), HasSubstr("has v: 1"));
  OplogBuilder none;
  none.add_at({100, 1}, noop, 1, "");
  EXPECT_THAT(refusal(none).message(), HasSubstr("has v: none"));
}

TEST_F(OplogCheckTest, UnknownOperationsAndCommandsAreRefused) {
  OplogBuilder op;
  op.noop().add(R"("op":"zz","ns":"d.c","o":{"_id":1})");
  EXPECT_THAT(refusal(op).message(),
              AllOf(HasSubstr("op \"zz\""), HasSubstr(at_byte(op.offset(1)))));
  OplogBuilder command;
  command.command("d", R"({"shardThis":"c"})");
  EXPECT_THAT(refusal(command).message(), HasSubstr("the command shardThis on d"));
  OplogBuilder capped;
  capped.command("d", R"({"convertToCapped":"c","size":1})");
  EXPECT_THAT(refusal(capped).message(), HasSubstr("servers since 4.4"));
  OplogBuilder viewless;
  viewless.command("d", R"({"upgradeDowngradeViewlessTimeseries":"c"})");
  EXPECT_THAT(refusal(viewless).message(), HasSubstr("time-series"));
  OplogBuilder inner;
  inner.command("admin", R"({"applyOps":[{"op":"c","ns":"d.$cmd","o":{"shardThis":"c"}}]})");
  EXPECT_THAT(refusal(inner).message(), HasSubstr("shardThis"));
}

TEST_F(OplogCheckTest, CommandsWithoutEffectArePassedOver) {
  OplogBuilder oplog;
  for (const char* const command : {"setMultikeyMetadata", "dropIdent"})
    oplog.command("d", R"({")" + std::string(command) + R"(":"c"})");
  const Result<OplogFacts> facts = check(oplog);
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(facts->operations, 0);
}

TEST_F(OplogCheckTest, NamesThatAreNoneAreRefused) {
  for (const char* const command :
       {R"({"drop":"c\u0000x"})", R"({"drop":""})", R"({"drop":1})", R"({"create":{"a":1}})",
        R"({"collMod":"\u0000"})", R"({"dropIndexes":null,"index":"a"})",
        R"({"renameCollection":"d.a","to":"d.b\u0000x"})", R"({"renameCollection":"d.a"})",
        R"({"renameCollection":"d.a\u0000x","to":"d.b"})", R"({"renameCollection":"d","to":"d.b"})",
        R"({"renameCollection":".a","to":"d.b"})", R"({"renameCollection":"d.","to":"d.b"})"}) {
    OplogBuilder oplog;
    oplog.noop().command("d", command);
    const Error error = refusal(oplog);
    EXPECT_EQ(error.code, Code::kDataLoss) << command;
    EXPECT_THAT(error.message(), AllOf(HasSubstr("names no collection"), HasSubstr("100:2")))
        << command;
  }
  OplogBuilder write;
  write.insert("d.c\\u0000x", R"({"_id":1})");
  EXPECT_THAT(refusal(write).message(), HasSubstr("its ns is no namespace"));
}

TEST_F(OplogCheckTest, NoopsOfChangeStreamsArePassedOver) {
  OplogBuilder oplog;
  oplog.noop();
  for (const char* const op : {"ci", "cu", "cd", "km", "n"})
    oplog.add(R"("op":")" + std::string(op) + R"(","ns":"d.c","o":{"_id":1})");
  const Result<OplogFacts> facts = check(oplog, {.collections = {{"d.b"}}});
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(facts->operations, 0);
}

TEST_F(OplogCheckTest, IndexesWhoseBuildBeganBeforeAreTold) {
  const auto build = [](const std::string& command, const std::string& name, char id) {
    return R"({")" + command + R"(IndexBuild":"c","indexBuildUUID":{"$binary":{"base64":")" +
           std::string(21, id) +
           R"(A==","subType":"04"}},"indexes":[{"v":2,"key":{"a":1},"name":")" + name + R"("}]})";
  };
  OplogBuilder oplog;
  oplog.create("d.c").command("d", build("start", "before", 'A')).noop();
  const Timestamp after = oplog.last();
  oplog.command("d", build("start", "within", 'B')).command("d", build("commit", "within", 'B'));
  oplog.command("d", build("abort", "before", 'A'));
  const Timestamp limit = oplog.next();
  oplog.noop().command("d", build("commit", "after", 'C'));
  const Result<OplogFacts> facts = check(oplog, {.after = after, .limit = limit});
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_THAT(facts->building, ElementsAre(Pair("d.c", ElementsAre("after", "before"))));
}

TEST_F(OplogCheckTest, ShardedClustersAreRefused) {
  const std::string migrated = R"("op":"i","ns":"d.c","fromMigrate":true,"o":{"_id":1})";
  for (const char* const trace : {
           R"("op":"i","ns":"config.cache.collections","o":{"_id":"d.c"})",
           R"("op":"c","ns":"config.$cmd","o":{"applyOps":[
              {"op":"d","ns":"config.rangeDeletions","o":{"_id":1}}]})",
           R"("op":"n","ns":"d.c","o":{"msg":"x"},"o2":{"migrateChunkToNewShard":"d.c"})",
           R"("op":"n","ns":"d.c","o":{"msg":"x"},"o2":{"type":"migrateChunkToNewShard"})",
           R"("op":"i","ns":"admin.system.version","o":{"_id":"shardIdentity"})",
           R"("op":"u","ns":"admin.system.version","o":{"$v":2},"o2":{"_id":"shardIdentity"})",
       }) {
    OplogBuilder oplog;
    oplog.noop().add(migrated).add(trace);
    const Error error = refusal(oplog);
    EXPECT_EQ(error.code, Code::kFailedPrecondition) << trace;
    EXPECT_THAT(error.message(),
                AllOf(HasSubstr("sharded cluster"), HasSubstr("100:3"), HasSubstr("--not-sharded")))
        << trace;
    // An entry after the limit is refused, too. The user may say that the set is not sharded.
    EXPECT_EQ(refusal(oplog, {.limit = Timestamp{100, 2}}).code, Code::kFailedPrecondition);
    EXPECT_TRUE(check(oplog, {.not_sharded = true})) << trace;
  }
}

TEST_F(OplogCheckTest, NoSingleFlagMakesASetAShard) {
  OplogBuilder copied;  // as cloneCollectionAsCapped and convertToCapped do it, on any server
  copied.command("d", R"({"create":"c","capped":true,"size":4096})");
  copied.add(R"("op":"i","ns":"d.c","fromMigrate":true,"o":{"_id":1})");
  copied.add(R"("op":"i","ns":"d.tmpAbcde.convertToCapped.c","fromMigrate":true,"o":{"_id":1})");
  const Result<OplogFacts> facts = check(copied);
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(facts->migrated, 0);
  OplogBuilder begun;  // before the oplog does
  begun.add(R"("op":"i","ns":"d.c","fromMigrate":true,"o":{"_id":1})");
  begun.command("admin", R"({"applyOps":[
      {"op":"i","ns":"d.c","fromMigrate":true,"o":{"_id":2}}]})");
  EXPECT_EQ(check(begun)->migrated, 2);
}

TEST_F(OplogCheckTest, TheMomentOfTheBaseIsThere) {
  OplogBuilder oplog;
  oplog.noop().noop().insert("d.c", R"({"_id":1})").noop();
  EXPECT_TRUE(check(oplog, {.after = Timestamp{100, 2}}));
  const Error before = refusal(oplog, {.after = Timestamp{99, 9}});
  EXPECT_EQ(before.code, Code::kOutOfRange);
  EXPECT_THAT(before.message(), HasSubstr("begins with 100:1"));
  EXPECT_THAT(refusal(oplog, {.after = Timestamp{100, 9}}).message(), HasSubstr("ends with 100:4"));
  OplogBuilder gap;
  gap.noop().add_at({100, 3}, R"("op":"n","ns":"","o":{})");
  EXPECT_THAT(refusal(gap, {.after = Timestamp{100, 2}}).message(),
              HasSubstr("has no entry 100:2"));
}

TEST_F(OplogCheckTest, TheLimitIsWithin) {
  OplogBuilder oplog;
  oplog.noop().insert("d.c", R"({"_id":1})").insert("d.c", R"({"_id":2})").noop();
  const auto limit = [](std::uint32_t ordinal) {
    return OplogCheckOptions{.after = Timestamp{100, 1}, .limit = Timestamp{100, ordinal}};
  };
  EXPECT_THAT(refusal(oplog, limit(1)).message(), HasSubstr("not after 100:1, the moment"));
  EXPECT_EQ(check(oplog, limit(2))->operations, 0);
  EXPECT_EQ(check(oplog, limit(3))->operations, 1);
  EXPECT_EQ(check(oplog, limit(4))->operations, 2);
  const Error future = refusal(oplog, limit(5));
  EXPECT_EQ(future.code, Code::kOutOfRange);
  EXPECT_THAT(future.message(), HasSubstr("after its last entry 100:4"));
  EXPECT_THAT(refusal(oplog, {.limit = Timestamp{100, 1}}).message(),
              HasSubstr("nothing would be replayed"));
}

TEST_F(OplogCheckTest, WhereNobodyKnowsItsBeginningTheRestIsChecked) {
  OplogBuilder oplog;
  oplog.noop().command("d", R"({"shardThis":"c"})").insert("d.c", R"({"_id":1})").noop();
  oplog.transaction(1, 1, {99, 1}, R"({"applyOps":[]})");  // of which a part came before
  const auto anywhere = [](Timestamp limit) {
    return OplogCheckOptions{.anywhere = true, .limit = limit, .skip = {{100, 9}}};
  };
  const Result<OplogFacts> facts = check(oplog, anywhere({100, 4}));
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(facts->operations, 0);
  EXPECT_EQ(refusal(oplog, anywhere({100, 6})).code, Code::kOutOfRange);
  oplog.bytes().pop_back();
  EXPECT_EQ(refusal(oplog, anywhere({100, 4})).code, Code::kDataLoss);
}

TEST_F(OplogCheckTest, WhatIsAfterTheLimitIsNotApplied) {
  OplogBuilder oplog;
  oplog.noop().insert("d.c", R"({"_id":1})").command("d", R"({"shardThis":"c"})");
  EXPECT_TRUE(check(oplog, {.limit = Timestamp{100, 3}}));
  OplogBuilder damaged;
  damaged.noop().insert("d.c", R"({"_id":1})").noop();
  damaged.bytes().pop_back();
  EXPECT_EQ(refusal(damaged, {.limit = Timestamp{100, 3}}).code, Code::kDataLoss);
}

TEST_F(OplogCheckTest, OwnDatabasesAreLeftOut) {
  OplogBuilder oplog;
  oplog.insert("admin.system.users", R"({"_id":"u"})")
      .insert("config.transactions", R"({"_id":1})");
  oplog.insert("idmint_restore.progress", R"({"_id":1})").command("config", R"({"drop":"c"})");
  oplog.insert("__mdb_internal_x.c", R"({"_id":1})");
  const Result<OplogFacts> facts = check(oplog);
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(facts->operations, 0);
  EXPECT_THAT(facts->tallies, IsEmpty());
  EXPECT_THAT(facts->left_out, ElementsAre(Pair("__mdb_internal_x", 1), Pair("config", 2),
                                           Pair("idmint_restore", 1), Pair("users and roles", 1)));
}

TEST_F(OplogCheckTest, TalliesFollowCollections) {
  OplogBuilder oplog;
  oplog.insert("d.a", R"({"_id":1})").insert("d.target", R"({"_id":1})");
  oplog.command("d", R"({"renameCollection":"d.a","to":"d.target","dropTarget":true})");
  oplog.insert("d.target", R"({"_id":2})");
  oplog.insert("d.dropped", R"({"_id":1})").command("d", R"({"drop":"dropped"})");
  oplog.create("d.dropped").insert("d.dropped", R"({"_id":2})");
  oplog.insert("e.x", R"({"_id":1})").command("e", R"({"dropDatabase":1})");
  oplog.insert("d.log", R"({"_id":1})").command("d", R"({"emptycapped":"log"})");
  oplog.insert("d.log", R"({"_id":2})");
  const Result<OplogFacts> facts = check(oplog);
  ASSERT_TRUE(facts) << facts.error().message();
  std::map<std::string, std::string> tallies;
  for (const auto& [ns, tally] : facts->tallies)
    tallies[ns] = tally.base + "+" + std::to_string(tally.inserts);
  EXPECT_THAT(tallies,
              ElementsAre(Pair("d.dropped", "+1"), Pair("d.log", "+1"), Pair("d.target", "d.a+2")));
  EXPECT_THAT(facts->gone, UnorderedElementsAre("d.a", "d.target", "d.dropped", "d.log", "e.x"));
  const Result<OplogFacts> known =
      check(oplog, {.collections = {{"d.a", "d.target", "d.dropped", "d.log", "e.x"}}});
  ASSERT_TRUE(known) << known.error().message();
  EXPECT_EQ(known->gone, facts->gone);
}

TEST_F(OplogCheckTest, WhatCameAndWentHasNoName) {
  OplogBuilder oplog;
  for (const char* const name : {"a", "b", "a"}) {
    const std::string ns = std::string("d.") + name;
    oplog.create(ns)
        .insert(ns, R"({"_id":1})")
        .command("d", R"({"drop":")" + ns.substr(2) + R"("})");
  }
  oplog.command("d", R"({"drop":"c"})").command("d", R"({"drop":"system.buckets.x"})");
  EXPECT_THAT(check(oplog, {.collections = {{"d.c", "d.x"}}})->gone,
              UnorderedElementsAre("d.c", "d.system.buckets.x"));
}

TEST_F(OplogCheckTest, WritesToACollectionThatIsNotThereAreRefused) {
  OplogBuilder oplog;
  oplog.noop().insert("d.c", R"({"_id":1})");
  EXPECT_THAT(refusal(oplog, {.collections = {{"d.b"}}}).message(),
              HasSubstr("neither in the base"));
  EXPECT_TRUE(check(oplog, {.collections = {{"d.c"}}}));
  OplogBuilder made;
  made.create("d.c").insert("d.c", R"({"_id":1})");
  EXPECT_THAT(*check(made, {.collections = {{"d.b"}}})->collections, ElementsAre("d.b", "d.c"));
  OplogBuilder buckets;
  buckets.insert("d.system.buckets.x", R"({"_id":1})");
  EXPECT_TRUE(check(buckets, {.collections = {{"d.x"}}}));
  // A slice may write to a collection that it drops later.
  OplogBuilder slice;
  slice.insert("d.c", R"({"_id":1})");
  EXPECT_EQ(refusal(slice, {.slice = true, .collections = {{"d.b"}}}).code,
            Code::kFailedPrecondition);
  slice.command("d", R"({"drop":"c"})");
  EXPECT_TRUE(check(slice, {.slice = true, .collections = {{"d.b"}}}));
}

TEST_F(OplogCheckTest, CommandsOfACollectionThatIsNotThereAreRefused) {
  for (const char* const command :
       {R"({"collMod":"c","validator":{}})", R"({"emptycapped":"c"})",
        R"({"createIndexes":"c","v":2,"key":{"a":1},"name":"a"})",
        R"({"commitIndexBuild":"c","indexes":[{"v":2,"key":{"a":1},"name":"a"}]})",
        R"({"dropIndexes":"c","index":"a"})", R"({"renameCollection":"d.c","to":"d.e"})"}) {
    OplogBuilder oplog;
    oplog.noop().command("d", command);
    const Error error = refusal(oplog, {.collections = {{"d.b"}}});
    EXPECT_EQ(error.code, Code::kFailedPrecondition) << command;
    EXPECT_THAT(error.message(), HasSubstr("neither in the base")) << command;
    EXPECT_TRUE(check(oplog, {.collections = {{"d.c"}}})) << command;
  }
  OplogBuilder dropped;  // production's was another, and went
  dropped.noop().command("d", R"({"drop":"c"})");
  EXPECT_TRUE(check(dropped, {.collections = {{"d.b"}}}));
  OplogBuilder slice;
  slice.command("d", R"({"collMod":"c","validator":{}})");
  EXPECT_FALSE(check(slice, {.slice = true, .collections = {{"d.b"}}}));
  slice.command("d", R"({"drop":"c"})");
  EXPECT_TRUE(check(slice, {.slice = true, .collections = {{"d.b"}}}));
}

TEST_F(OplogCheckTest, ARenameInASliceIsRefused) {
  OplogBuilder oplog;
  oplog.noop().command("d", R"({"renameCollection":"d.a","to":"d.b"})");
  EXPECT_TRUE(check(oplog));
  EXPECT_THAT(refusal(oplog, {.slice = true}).message(), HasSubstr("take another base"));
}

TEST_F(OplogCheckTest, ARenameOutOfTheFilterIsRefused) {
  OplogBuilder oplog;
  oplog.noop().command("d", R"({"renameCollection":"d.a","to":"d.b"})");
  const auto only = [](const char* pattern) {
    return OplogCheckOptions{.filter = *NamespaceFilter::of({pattern}, {})};
  };
  EXPECT_THAT(refusal(oplog, only("d.a")).message(), HasSubstr("d.b is not restored"));
  EXPECT_THAT(refusal(oplog, only("d.b")).message(), HasSubstr("d.a is not restored"));
  EXPECT_TRUE(check(oplog, only("d")));
  EXPECT_TRUE(check(oplog, only("e")));
}

TEST_F(OplogCheckTest, TemporaryCollectionsAtTheLimitAreTold) {
  OplogBuilder oplog;
  oplog.command("d", R"({"create":"tmp.agg_out.1","temp":true})");
  oplog.insert("d.tmp.agg_out.1", R"({"_id":1})");
  oplog.command("d", R"({"renameCollection":"d.tmp.agg_out.1","to":"d.out"})").noop();
  EXPECT_THAT(check(oplog)->temporary, IsEmpty());
  EXPECT_THAT(check(oplog, {.limit = Timestamp{100, 3}})->temporary,
              ElementsAre("d.tmp.agg_out.1"));
}

TEST_F(OplogCheckTest, TemporaryCollectionsOfTheBaseAreTold) {
  OplogBuilder oplog;
  oplog.noop().command("d", R"({"drop":"tmp.a"})").noop();
  EXPECT_THAT(check(oplog, {.temporary = {"d.tmp.a", "d.tmp.b"}})->temporary,
              ElementsAre("d.tmp.b"));
}

class SkipTest : public OplogCheckTest {
 protected:
  SkipTest() {
    oplog_.create("d.c").insert("d.c", R"({"_id":1})").insert("d.c", R"({"_id":2})");
    oplog_.set("d.c", "1", R"({"a":1})").remove("d.c", "2").set("d.c", "1", R"({"a":2})");
    oplog_.insert("d.other", R"({"_id":1})").command("d", R"({"drop":"other"})");
  }
  Result<OplogFacts> skip(std::uint32_t ordinal, bool forced = false) {
    return check(oplog_, {.skip = {{100, ordinal}}, .skip_forced = forced});
  }
  OplogBuilder oplog_;
};

TEST_F(SkipTest, LeavesOneOut) {
  const Result<OplogFacts> facts = skip(5);
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_THAT(facts->skipped, ElementsAre("d on d.c, _id 2, at 100:5"));
  EXPECT_EQ(facts->tallies.at("d.c").deletes, 0);
  EXPECT_TRUE(skip(6));
  EXPECT_TRUE(skip(8));
}

TEST_F(SkipTest, IsRefusedWhereALaterEntryTouchesTheDocument) {
  const Result<OplogFacts> facts = skip(4);
  ASSERT_FALSE(facts);
  EXPECT_EQ(facts.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(facts.error().message(),
              AllOf(HasSubstr("_id 1, at 100:6"), HasSubstr("touches that document")));
  EXPECT_TRUE(skip(4, true));
  EXPECT_FALSE(skip(3));
  // All that touch it.
  EXPECT_TRUE(check(oplog_, {.skip = {{100, 4}, {100, 6}}}));
}

TEST_F(SkipTest, OfACommandIsRefusedWhereALaterEntryIsOfTheCollection) {
  EXPECT_FALSE(skip(1));
  OplogBuilder drops;
  drops.insert("d.c", R"({"_id":1})").command("d", R"({"drop":"c"})").insert("e.c", R"({"_id":1})");
  EXPECT_TRUE(check(drops, {.skip = {{100, 2}}}));
  drops.create("d.c");
  EXPECT_FALSE(check(drops, {.skip = {{100, 2}}}));
  OplogBuilder database;
  database.command("d", R"({"dropDatabase":1})").insert("e.c", R"({"_id":1})");
  EXPECT_TRUE(check(database, {.skip = {{100, 1}}}));
  database.insert("d.x", R"({"_id":1})");
  EXPECT_FALSE(check(database, {.skip = {{100, 1}}}));
}

TEST_F(SkipTest, OfACommandExplainsAnotherUuid) {
  for (const auto& [database, command] :
       {std::pair("d", R"({"drop":"c"})"), std::pair("d", R"({"dropDatabase":1})"),
        std::pair("d", R"({"renameCollection":"d.tmp","to":"d.c","dropTarget":true})"),
        std::pair("e", R"({"drop":"c"})")}) {
    OplogBuilder oplog;
    oplog.create("d.tmp").create("e.c").noop().command(database, command);
    const Timestamp skipped = oplog.last();
    oplog.add(R"("op":"i","ns":"d.c","o":{"_id":1},)"
              R"("ui":{"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAAA==","subType":"04"}})");
    const Result<OplogFacts> facts = check(
        oplog, {.skip = {skipped}, .skip_forced = true, .uuids = {{"d.c", std::string(16, 'x')}}});
    EXPECT_EQ(facts.has_value(), database == std::string("d"))
        << command << (facts ? "" : facts.error().message());
  }
}

TEST_F(SkipTest, FollowsADocumentThroughARename) {
  OplogBuilder oplog;
  oplog.insert("d.a", R"({"_id":1})").command("d", R"({"renameCollection":"d.a","to":"d.b"})");
  oplog.insert("d.a", R"({"_id":1})");
  EXPECT_TRUE(check(oplog, {.skip = {{100, 1}}}));
  oplog.set("d.b", "1", R"({"a":1})");
  EXPECT_FALSE(check(oplog, {.skip = {{100, 1}}}));
}

TEST_F(SkipTest, OfWhatIsNotReplayedIsRefused) {
  EXPECT_THAT(skip(99).error().message(), HasSubstr("no operation 100:99"));
  const Result<OplogFacts> after = check(oplog_, {.limit = Timestamp{100, 4}, .skip = {{100, 5}}});
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().code, Code::kOutOfRange);
}

class TransactionsInOplog : public OplogCheckTest {
 protected:
  static std::string partial(const std::string& ops) {
    return R"({"applyOps":[)" + ops + R"(],"partialTxn":true})";
  }
  static std::string prepare(const std::string& ops) {
    return R"({"applyOps":[)" + ops + R"(],"prepare":true})";
  }
  static std::string whole(const std::string& ops) { return R"({"applyOps":[)" + ops + "]}"; }
  static std::string one(int id) {
    return OplogBuilder::insert_op("d.c", R"({"_id":)" + std::to_string(id) + "}");
  }
  static constexpr const char* kCommit = R"({"commitTransaction":1})";
  static constexpr const char* kAbort = R"({"abortTransaction":1})";
  static std::uint64_t inserts(const Result<OplogFacts>& facts) {
    EXPECT_TRUE(facts) << facts.error().message();
    return facts && facts->tallies.contains("d.c") ? facts->tallies.at("d.c").inserts : 0;
  }
};

TEST_F(TransactionsInOplog, CountWhereTheyCommit) {
  OplogBuilder oplog;
  oplog.noop();
  oplog.transaction(1, 1, {}, partial(one(1) + "," + one(2)));  // 100:2
  oplog.transaction(2, 1, {}, prepare(one(3)));                 // 100:3
  oplog.transaction(1, 1, {100, 2}, partial(one(4)));           // 100:4
  oplog.transaction(1, 1, {100, 4}, whole(one(5)));             // 100:5
  oplog.transaction(3, 1, {}, prepare(one(6)));                 // 100:6
  oplog.transaction(3, 1, {100, 6}, kAbort);                    // 100:7
  oplog.transaction(2, 1, {100, 3}, kCommit).noop();            // 100:8
  EXPECT_EQ(inserts(check(oplog)), 5);
  EXPECT_THAT(check(oplog)->open, IsEmpty());
  EXPECT_EQ(inserts(check(oplog, {.limit = Timestamp{100, 5}})), 0);
  EXPECT_EQ(inserts(check(oplog, {.limit = Timestamp{100, 6}})), 4);
  // Begun before the moment of the base, and committed after it.
  EXPECT_EQ(inserts(check(oplog, {.after = Timestamp{100, 4}})), 5);
  EXPECT_EQ(inserts(check(oplog, {.after = Timestamp{100, 5}})), 1);
}

TEST_F(TransactionsInOplog, OnlyUpdatesOfAnApplyOpsUpsert) {
  OplogBuilder oplog;
  oplog.command("admin", R"({"applyOps":[{"op":"i","ns":"d.c","o":{"_id":1}},
      {"op":"u","ns":"d.c","o":{"_id":2},"o2":{"_id":2}},
      {"op":"d","ns":"d.c","b":true,"o":{"_id":1}},{"op":"c","ns":"d.$cmd","o":{"drop":"c"}}]})");
  const std::string& bytes = oplog.bytes();
  const Result<Entry> entry = parse_entry(
      Document::of({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}));
  ASSERT_TRUE(entry);
  std::vector<bool> upserts;
  ASSERT_TRUE(for_each_operation(*entry, [&](const Operation& each, std::uint32_t) -> Result<void> {
    upserts.push_back(each.upsert);
    return {};
  }));
  EXPECT_THAT(upserts, ElementsAre(false, true, false, false));
}

TEST_F(TransactionsInOplog, OpenAtTheLimitAreTold) {
  OplogBuilder oplog;
  oplog.noop().transaction(1, 1, {}, prepare(one(1)));
  oplog.transaction(2, 1, {}, partial(one(2))).noop();
  oplog.transaction(1, 1, {100, 2}, kCommit);
  const Result<OplogFacts> facts = check(oplog, {.limit = Timestamp{100, 4}});
  ASSERT_TRUE(facts) << facts.error().message();
  ASSERT_EQ(facts->open.size(), 2);
  EXPECT_EQ(facts->open[0].first, (Timestamp{100, 2}));
  EXPECT_TRUE(facts->open[0].prepared);
  EXPECT_EQ(facts->open[1].operations, 1);
  EXPECT_FALSE(facts->open[1].prepared);
}

TEST_F(TransactionsInOplog, WithAMissingPartAreRefused) {
  for (const auto& [what, oplog] : std::vector<std::pair<std::string, OplogBuilder>>{
           {"the first", OplogBuilder().noop().transaction(1, 1, {99, 9}, whole(one(1)))},
           {"one between", OplogBuilder()
                               .transaction(1, 1, {}, partial(one(1)))
                               .transaction(1, 1, {99, 9}, whole(one(2)))},
           {"the prepare", OplogBuilder().noop().transaction(1, 1, {99, 9}, kCommit)}}) {
    const Error error = refusal(oplog);
    EXPECT_EQ(error.code, Code::kOutOfRange) << what;
    EXPECT_THAT(error.message(), HasSubstr("99:9")) << what;
  }
  // A missing part does not matter if the transaction aborts, or is over before the base.
  OplogBuilder aborted;
  aborted.noop().transaction(1, 1, {99, 9}, kAbort).noop();
  EXPECT_TRUE(check(aborted));
  OplogBuilder over;
  over.noop().transaction(1, 1, {99, 9}, whole(one(1))).noop();
  EXPECT_TRUE(check(over, {.after = Timestamp{100, 2}}));
}

TEST_F(TransactionsInOplog, OfTheSliceGoOn) {
  OplogBuilder slice;
  slice.transaction(1, 1, {}, partial(one(1))).noop();
  OplogBuilder oplog;  // which begins within it
  oplog.add_at({100, 2}, R"("op":"n","ns":"","o":{})");
  oplog.transaction(1, 1, {100, 1}, whole(one(2)));
  Transactions transactions;
  ASSERT_TRUE(
      check_oplog(slice.write(folder_.path("slice.bson")), {.slice = true}, transactions, {}));
  EXPECT_EQ(inserts(check_oplog(oplog.write(folder_.path("oplog.bson")),
                                {.after = Timestamp{100, 2}}, transactions, {})),
            2);
  EXPECT_FALSE(check(oplog, {.after = Timestamp{100, 2}}));
}

TEST_F(TransactionsInOplog, AreSkippedByTheEntryThatCommits) {
  OplogBuilder oplog;
  oplog.noop().transaction(1, 1, {}, partial(one(1))).transaction(1, 1, {100, 2}, whole(one(2)));
  oplog.insert("d.c", R"({"_id":3})");
  EXPECT_EQ(inserts(check(oplog, {.skip = {{100, 3}}})), 1);
  EXPECT_THAT(check(oplog, {.skip = {{100, 2}}}).error().message(),
              HasSubstr("name the entry that commits it"));
  oplog.remove("d.c", "1");
  EXPECT_FALSE(check(oplog, {.skip = {{100, 3}}}));
}

TEST_F(TransactionsInOplog, RetryableWritesAreNone) {
  OplogBuilder oplog;
  oplog.add(OplogBuilder::in_session(1, 1) + R"("op":"i","ns":"d.c","o":{"_id":1})");
  // Several inserts in one, as MongoDB 7 writes them.
  oplog.add(OplogBuilder::in_session(1, 2) + R"("multiOpType":1,"op":"c","ns":"admin.$cmd","o":)" +
            whole(one(2) + "," + one(3)));
  EXPECT_EQ(inserts(check(oplog)), 3);
}

TEST(TransactionsTest, LargeOnesAreKeptInAFile) {
  for (const std::size_t memory : {std::size_t{0}, std::size_t{300}, std::size_t{1} << 20}) {
    fakes::TempFolder folder;
    OplogBuilder oplog;
    Timestamp previous{};
    for (int i = 0; i < 20; ++i) {
      const std::string ops =
          "[" + OplogBuilder::insert_op("d.c", R"({"_id":)" + std::to_string(i) + "}") + "]";
      oplog.transaction(1, 1, previous,
                        R"({"applyOps":)" + ops + (i < 19 ? R"(,"partialTxn":true})" : "}"));
      previous = oplog.last();
      if (i == 10) oplog.transaction(2, 1, {}, R"({"applyOps":)" + ops + R"(,"prepare":true})");
    }
    Transactions transactions(memory);
    Result<DocumentReader> reader = DocumentReader::open(oplog.write(folder.path("o")));
    ASSERT_TRUE(reader);
    std::string order;
    while (true) {
      const Result<std::optional<Document>> document = reader->next();
      ASSERT_TRUE(document);
      if (!*document) break;
      const Result<Entry> entry = parse_entry(**document);
      ASSERT_TRUE(entry);
      const Result<void> added = transactions.add(
          *entry, [&](const Operation& operation, std::uint32_t index) -> Result<void> {
            order += std::to_string(operation.o.numeric("_id").value_or(-1)) + "@" +
                     std::to_string(index) + " ";
            return {};
          });
      ASSERT_TRUE(added) << added.error().message();
    }
    EXPECT_THAT(order, AllOf(testing::StartsWith("0@0 1@1 "), testing::EndsWith(" 19@19 ")));
    EXPECT_EQ(transactions.open().front().first, (Timestamp{100, 12}));
  }
}

}  // namespace
}  // namespace idmint::restore
