#include "restore/replay/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "restore/backup/base.h"
#include "restore/oplog/check.h"
#include "restore/oplog/command.h"
#include "restore/oplog/fields.h"
#include "restore/oplog/reader.h"
#include "restore/replay/left_out.h"
#include "restore/replay/outcomes.h"
#include "restore/replay/state.h"
#include "restore/tests/oplog_builder.h"
#include "restore/tests/production.h"
#include "restore/tests/random_work.h"
#include "restore/tests/workload.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

using servers::MongoServer;
using servers::MongoSet;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

Server connected(const std::string& uri) {
  Result<Server> server = Server::connect(uri);
  EXPECT_TRUE(server) << server.error().message();
  return *std::move(server);
}

// Fast, and never what an oplog is replayed to.
MongoSet& production_set() {
  static MongoSet set({.members = 1});
  return set;
}

// Another server's collections, as a base. Indexes go to `catalog`, or are built at once.
void copy(Server& from, Server& to, IndexCatalog* catalog = nullptr) {
  Result<std::vector<CollectionFacts>> all = list_collections(from);
  ASSERT_TRUE(all) << all.error().message();
  for (const CollectionFacts& each : *all) {
    if (each.name.starts_with("system.buckets.")) continue;
    const Bson create = Bson("create", each.name);
    bson_concat(create.get(), each.options.get());
    const Result<Bson> made = to.command(each.database, create);
    ASSERT_TRUE(made) << made.error().message();
    const std::string data = data_name(each);
    if (each.kind == CollectionKind::kView) continue;
    const Result<void> copied =
        for_each_document(from, each.database, data, [&](Document document) -> Result<void> {
          const bson_t view = document.view();
          const Bson insert = Bson("insert", data, "documents", array(Document::of(&view)),
                                   "bypassDocumentValidation", true);
          const Result<Bson> reply = to.command(each.database, insert);
          if (!reply) return std::unexpected(reply.error());
          return {};
        });
    ASSERT_TRUE(copied) << copied.error().message();
    std::vector<Document> specs;
    for (const Bson& index : each.indexes)
      if (index.view().text("name") != "_id_") specs.push_back(index.view());
    if (catalog != nullptr) {
      for (const Document spec : specs) catalog->add(each.ns(), spec);
      continue;
    }
    const Result<void> built = create_indexes(to, each.ns(), specs);
    ASSERT_TRUE(built) << built.error().message();
  }
}

// The updates that the server has done, those of applyOps too.
std::int64_t updates_of(Server& server) {
  const Bson ask = Bson("serverStatus", 1);
  const Result<Bson> status = server.command("admin", ask);
  EXPECT_TRUE(status) << status.error().message();
  return status ? status->view().document("opcounters").number("update") : 0;
}

Bson fingerprint() { return Bson("of", "a test"); }

Result<ReplayCounts> replay(Server& target, const std::string& path, const ReplayOptions& options) {
  Result<Record> record = Record::begin(target, fingerprint().view());
  if (!record) return std::unexpected(record.error());
  if (Result<void> reached = record->reach(RunStage::kOplog); !reached)
    return std::unexpected(reached.error());
  Transactions transactions;
  return replay_oplog(path, target, *record, transactions, options, {});
}

TEST(LiveOplog, OfEveryKindIsReplayed) {
  fakes::TempFolder folder;
  const std::string path = folder.path("oplog.bson");
  Production production(production_set().url(""));
  work_before_base(production);
  MongoServer spare({"--setParameter", "ttlMonitorEnabled=false"});
  Server target = connected(spare.url(""));
  copy(production.server(), target);
  const Timestamp base = production.now();
  work_of_every_kind(production);
  const State expected = state_of(production.server());
  const Timestamp limit = production.now();
  production.run("shop", R"({"dropDatabase":1})");
  production.dump_oplog(base, path);

  Transactions transactions;
  const Result<OplogFacts> facts =
      check_oplog(path, {.after = base, .limit = limit}, transactions, {});
  ASSERT_TRUE(facts) << facts.error().message();
  const Result<ReplayCounts> counts = replay(target, path, {.after = base, .limit = limit});
  ASSERT_TRUE(counts) << counts.error().message();
  EXPECT_EQ(in_lines(differences(state_of(target), expected)), "");
  EXPECT_EQ(counts->missed, 0);
  for (const std::string& note : counts->notes) ADD_FAILURE() << note;
}

// Writes of every sort to few documents, so that what a base has of them is of many moments.
void write_at_random(Production& production, std::mt19937& random) {
  const std::string id = std::to_string(random() % 40);
  const std::string value = std::to_string(random() % 1'000'000);
  const std::string collection = random() % 2 == 0 ? "one" : "two";
  switch (random() % 24) {
    case 0:
      production.run("f", R"({"drop":"passing"})");
      production.run("f", random() % 2 == 0 ? R"({"create":"passing"})"
                                            : R"({"create":"passing","validator":{"a":1}})");
      break;
    case 1:
      production.run("f", R"({"createIndexes":"two","indexes":[{"key":{"x":1},"name":"x"}]})");
      break;
    case 2:
      production.run("f", R"({"createIndexes":"two","indexes":[{"key":{"x":1},"name":"x"}]})");
      production.run("f", R"({"dropIndexes":"two","index":"x"})");
      break;
    case 3: {
      auto* const session = production.begin();
      production.run("f",
                     R"({"update":"one","updates":[{"q":{"_id":)" + id +
                         R"(},"u":{"$inc":{"n":1}},"upsert":true}]})",
                     session);
      production.run("f",
                     R"({"update":"two","updates":[{"q":{"_id":)" + id +
                         R"(},"u":{"$inc":{"n":1}},"upsert":true}]})",
                     session);
      Production::commit(session);
      break;
    }
    case 4:
      production.run("f", R"({"collMod":"two","validator":{"n":{"$lt":)" + value + "}}}");
      production.run("f", R"({"collMod":"two","validator":{}})");
      break;
    case 5:
    case 6:
    case 7:
      production.run("f", R"({"delete":")" + collection + R"(","deletes":[{"q":{"_id":)" + id +
                              R"(},"limit":1}]})");
      break;
    case 8:
    case 9:
      production.insert("f.passing", R"({"a":1,"_id":)" + value + "}");
      break;
    default:
      production.run("f", R"({"update":")" + collection + R"(","updates":[{"q":{"_id":)" + id +
                              R"(},"u":{"$set":{"x":)" + value +
                              R"(},"$inc":{"n":1},"$push":{"all":{"$each":[)" + value +
                              R"(],"$slice":-5}}},"upsert":true}]})");
  }
}

TEST(FuzzyBase, IsMadeConsistentByItsSlice) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  fakes::TempFolder folder;
  Production production(production_set().url(""));
  production.run("f", R"({"create":"passing"})");
  // It goes from one document to another while the base is read.
  production.run("f", R"({"createIndexes":"one","indexes":[
      {"key":{"x":1},"name":"x","unique":true,"partialFilterExpression":{"x":{"$exists":true}}}]})");
  production.run("f", R"({"create":"two"})");
  for (int i = 0; i < 100; ++i) write_at_random(production, random);
  production.run("f_agreed", R"({"create":"c"})");
  const Timestamp begin = production.now();
  auto* const open = production.begin();
  production.insert("f_agreed.c", R"({"_id":"prepared"})", open);
  const Bson prepared = production.run("admin", R"({"prepareTransaction":1})", open);

  MongoServer spare;
  Server target = connected(spare.url(""));
  IndexCatalog catalog;
  const Timestamp slice_begin = begin;
  {
    Production reader(production_set().url(""));
    std::atomic<bool> over = false;
    std::thread writer([&] {
      while (!over) write_at_random(production, random);
    });
    copy(reader.server(), target, &catalog);
    over = true;
    writer.join();
  }
  const Timestamp base = production.now();
  production.dump_oplog(slice_begin, folder.path("slice.bson"));
  for (int i = 0; i < 100; ++i) write_at_random(production, random);
  const std::optional<Timestamp> when = timestamp_in(prepared.view(), "prepareTimestamp");
  ASSERT_TRUE(when);
  production.run("admin",
                 R"({"commitTransaction":1,"commitTimestamp":)" + OplogBuilder::json(*when) + "}",
                 open);
  mongoc_client_session_destroy(open);
  for (int i = 0; i < 100; ++i) write_at_random(production, random);
  const State expected = state_of(production.server());
  const Timestamp limit = production.now();
  production.run("f", R"({"dropDatabase":1})");
  // It begins after the transaction was prepared: the slice has that.
  production.dump_oplog(base, folder.path("oplog.bson"));

  Transactions checked;
  const Result<OplogFacts> slice =
      check_oplog(folder.path("slice.bson"), {.slice = true, .limit = std::nullopt}, checked, {});
  ASSERT_TRUE(slice) << slice.error().message();
  ASSERT_EQ(slice->last, base);
  const OplogCheckOptions options{.after = base, .limit = limit};
  const Result<OplogFacts> facts = check_oplog(folder.path("oplog.bson"), options, checked, {});
  ASSERT_TRUE(facts) << facts.error().message();

  Result<Record> record = Record::begin(target, fingerprint().view());
  ASSERT_TRUE(record) << record.error().message();
  ASSERT_TRUE(record->reach(RunStage::kSlice));
  Transactions transactions;
  const Result<std::unique_ptr<Replay>> replay =
      Replay::begin(target, *record, transactions, &catalog, {.slice = true});
  ASSERT_TRUE(replay) << replay.error().message();
  Result<OplogReader> reader = OplogReader::open(folder.path("slice.bson"));
  while (true) {
    const Result<std::optional<Entry>> entry = reader->next();
    ASSERT_TRUE(entry) << entry.error().message();
    if (!*entry) break;
    const Result<void> applied = (*replay)->apply(**entry);
    ASSERT_TRUE(applied) << applied.error().message();
  }
  const Result<ReplayCounts> sliced = (*replay)->finish();
  ASSERT_TRUE(sliced) << sliced.error().message();
  const Result<void> built = build_indexes(target, catalog, {});
  ASSERT_TRUE(built) << built.error().message();
  ASSERT_TRUE(record->reach(RunStage::kOplog));
  const Result<ReplayCounts> counts =
      replay_oplog(folder.path("oplog.bson"), target, *record, transactions,
                   {.after = base, .limit = limit}, {});
  ASSERT_TRUE(counts) << counts.error().message();
  EXPECT_EQ(counts->missed, 0);
  // The other test's collections are production's too.
  const auto only_f = [](State state) {
    std::erase_if(state, [](const auto& each) { return !each.first.starts_with("f"); });
    return state;
  };
  EXPECT_EQ(in_lines(differences(only_f(state_of(target)), only_f(expected))), "");
  EXPECT_GT(facts->tallies.at("f.one").inserts + facts->tallies.at("f.one").updates, 0);
}

// A statement of `update`, of one of few documents. Most of them count.
std::string hot_update(std::mt19937& random) {
  const auto pick = [&](unsigned below) { return static_cast<unsigned>(random() % below); };
  const auto number = [&](unsigned below) { return std::to_string(pick(below)); };
  const auto update = [&](const std::string& u, const std::string& more = "") {
    return R"({"q":{"_id":)" + number(12) + R"(},"u":)" + u + more + "}";
  };
  const std::string name = std::array{"a", "b", "c", "deep.x", "deep.y.z"}[pick(5)];
  switch (pick(60)) {
    case 0:
    case 1:
      return update(R"({"b":1,"n":5,"deep":{"x":1},"list":[1,2,{"n":1}]})", R"(,"upsert":true)");
    case 2:
      return update(R"({"$unset":{")" + name + R"(":1}})");
    case 3:
      return update(R"({"$rename":{"a":"b","deep.x":"c"}})");
    case 4:
    case 5:
      return update(R"({"$set":{")" + name + R"(":{"z":)" + number(99) + "}}}");
    case 6:
      return update(R"({"$push":{"list":)" + number(9) + "}}");
    case 7:
      return update(R"({"$pop":{"list":-1}})");
    case 8:
    case 9:
      return update(R"({"$set":{"list.)" + number(5) + R"(":)" + number(9) + "}}");
    case 10:
      // The value is one of 20: often another document has it, and the update is refused.
      return update(R"({"$set":{"unique":)" + number(20) + "}}");
    case 11:
      return update(R"({"$unset":{"unique":1}})");
    case 12:
      return update(R"([{"$set":{"sum":{"$add":["$n",1]}}},{"$unset":"a"}])");
    default:
      switch (pick(4)) {
        case 0:
          return update(R"({"$inc":{"n":1}})", R"(,"upsert":true)");
        case 1:
          return update(R"({"$inc":{"n":1},"$currentDate":{"at":true}})");
        case 2:
          return update(R"({"$inc":{"deep.count":1,"n":2}})");
        default:
          return update(R"({"$inc":{"list.2.n":1}})");
      }
  }
}

TEST(HotWork, IsReplayedByItsNetEffect) {
  const unsigned seed = number_given("IDMINT_RANDOM_SEED", std::random_device{}());
  const unsigned writes = number_given("IDMINT_RANDOM_ROUNDS", 1) * 8000;
  SCOPED_TRACE("IDMINT_RANDOM_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  fakes::TempFolder folder;
  const std::string path = folder.path("oplog.bson");
  Production production(production_set().url(""));
  empty_server(production.server());
  const Timestamp before = production.now();
  production.run("h", R"({"createIndexes":"c","indexes":[{"key":{"unique":1},"name":"unique",
      "unique":true,"partialFilterExpression":{"unique":{"$exists":true}}}]})");
  for (unsigned i = 0; i < writes;) {
    const std::string collection = random() % 2 == 0 ? "c" : "free";
    std::string updates = hot_update(random);
    for (++i; random() % 100 != 0; ++i) updates += "," + hot_update(random);
    // Some of them are refused: then nothing is done.
    for (const std::string& json : {R"({"update":"c","ordered":false,"updates":[)" + updates + "]}",
                                    R"({"delete":"c","deletes":[{"q":{"_id":)" +
                                        std::to_string(random() % 12) + R"(},"limit":1}]})"}) {
      const Result<Bson> write = from_json(json);
      ASSERT_TRUE(write) << write.error().message();
      ASSERT_TRUE(production.server().command("h", *write));
    }
  }
  const State expected = state_of(production.server());
  const Timestamp limit = production.now();
  production.dump_oplog(before, path);

  MongoServer spare;
  Server target = connected(spare.url(""));
  const std::int64_t done = updates_of(target);
  const Result<ReplayCounts> counts = replay(target, path, {.after = before, .limit = limit});
  ASSERT_TRUE(counts) << counts.error().message();
  EXPECT_EQ(counts->missed, 0);
  EXPECT_EQ(in_lines(differences(state_of(target), expected)), "");
  const std::int64_t applied = updates_of(target) - done;
  std::cout << counts->updates << " updates, applied as " << applied << '\n';
  EXPECT_LT(applied, static_cast<std::int64_t>(counts->updates));
}

// One server for the tests that replay small oplogs, emptied by each.
class ReplayTest : public testing::Test {
 protected:
  ReplayTest() : target_(connected(servers::mongo_standalone().url(""))) {
    const Result<std::vector<std::string>> databases = list_databases(target_);
    EXPECT_TRUE(databases);
    for (const std::string& name : *databases) {
      const Bson drop = Bson("dropDatabase", 1);
      if (name == "admin" || name == "config" || name == "local") continue;
      EXPECT_TRUE(target_.command(name, drop));
    }
  }

  Result<ReplayCounts> run(const OplogBuilder& oplog, const ReplayOptions& options = {}) {
    return replay(target_, oplog.write(folder_.path("oplog.bson")), options);
  }
  Error refusal(const OplogBuilder& oplog) {
    const Result<ReplayCounts> counts = run(oplog);
    if (!counts) return counts.error();
    ADD_FAILURE() << "it is not refused";
    return {};
  }
  // Its documents, by _id.
  std::vector<std::string> documents(const std::string& ns) {
    std::vector<std::string> all;
    const std::size_t dot = ns.find('.');
    const Result<void> read = for_each_document(target_, ns.substr(0, dot), ns.substr(dot + 1),
                                                [&](Document document) -> Result<void> {
                                                  all.push_back(to_relaxed_json(document));
                                                  return {};
                                                });
    EXPECT_TRUE(read) << read.error().message();
    return all;
  }
  void command(const std::string& database, const std::string& json) {
    const Result<Bson> parsed = from_json(json);
    ASSERT_TRUE(parsed) << json;
    const Result<Bson> reply = target_.command(database, *parsed);
    ASSERT_TRUE(reply) << reply.error().message();
  }

  fakes::TempFolder folder_;
  Server target_;
};

OplogBuilder five_documents() {
  OplogBuilder oplog;
  oplog.create("d.c");
  for (int i = 1; i <= 5; ++i)
    oplog.insert("d.c", R"({"_id":)" + std::to_string(i) + R"(,"k":)" + std::to_string(i) + "}");
  return oplog;
}

TEST_F(ReplayTest, AnUpdateThatFindsNothingIsCountedAndTheRestApplied) {
  OplogBuilder oplog = five_documents();
  oplog.set("d.c", "7", R"({"x":1})").set("d.c", "1", R"({"x":1})");
  oplog.set("d.c", "8", R"({"x":1})").set("d.c", "9", R"({"x":1})").remove("d.c", "6");
  const Result<ReplayCounts> counts = run(oplog);
  ASSERT_TRUE(counts) << counts.error().message();
  EXPECT_EQ(counts->inserts, 5);
  EXPECT_EQ(counts->updates, 1);
  EXPECT_EQ(counts->deletes, 1);
  EXPECT_EQ(counts->commands, 1);
  EXPECT_EQ(counts->missed, 3);
  EXPECT_THAT(counts->first_missed,
              ElementsAre("u on d.c, _id 7, at 100:7", "u on d.c, _id 8, at 100:9",
                          "u on d.c, _id 9, at 100:10"));
  EXPECT_THAT(documents("d.c"), SizeIs(5));
  // Again: nothing is left to do, and all is still told.
  const Result<ReplayCounts> again = run(oplog);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->inserts, 5);
  EXPECT_EQ(again->missed, 3);
}

TEST_F(ReplayTest, UpdatesOfADocumentAreMergedUntilItIsDeleted) {
  OplogBuilder oplog = five_documents();
  const auto count = [&](const char* field) {
    for (int i = 1; i <= 600; ++i)
      oplog.set("d.c", std::to_string(1 + i % 2),
                std::string("{\"") + field + "\":" + std::to_string(i) + "}");
  };
  count("x");
  oplog.remove("d.c", "2").insert("d.c", R"({"_id":2})");
  count("y");
  const std::int64_t before = updates_of(target_);
  const Result<ReplayCounts> counts = run(oplog);
  ASSERT_TRUE(counts) << counts.error().message();
  EXPECT_LT(updates_of(target_), before + 50);
  EXPECT_EQ(counts->updates, 1200);
  EXPECT_EQ(counts->inserts, 6);
  EXPECT_EQ(counts->deletes, 1);
  const std::vector<std::string> all = documents("d.c");
  ASSERT_THAT(all, SizeIs(5));
  EXPECT_EQ(all[0], R"({ "_id" : 1, "k" : 1, "x" : 600, "y" : 600 })");
  EXPECT_EQ(all[1], R"({ "_id" : 2, "y" : 599 })");
}

// To the server numbers are equal whatever their type.
TEST_F(ReplayTest, UpdatesOfADocumentAreMergedInTheirOrderThoughItsIdHasOtherTypes) {
  OplogBuilder oplog = five_documents();
  for (int i = 1; i <= 30; ++i) {
    constexpr std::array ids = {"1", "1.0", R"({"$numberLong":"1"})", R"({"$numberDecimal":"1"})"};
    oplog.set("d.c", ids[static_cast<std::size_t>(i * 7 % 11 % 4)],
              R"({"x":)" + std::to_string(i) + "}");
  }
  for (int i = 0; i < 60; ++i) oplog.set("d.c", "2", R"({"x":)" + std::to_string(i) + "}");
  const Result<ReplayCounts> counts = run(oplog);
  ASSERT_TRUE(counts) << counts.error().message();
  EXPECT_EQ(documents("d.c")[0], R"({ "_id" : 1, "k" : 1, "x" : 30 })");
}

// A small change of a large document writes all of it: so many at once may be more than the cache
// of the server holds, which refuses them, or tries them again without end.
TEST_F(ReplayTest, FewerOperationsAreSentWhereTheServerCannotHoldThem) {
  for (const int code : {388, 50}) {
    for (const char* const database : {"d", "idmint_restore"})
      command(database, R"({"dropDatabase":1})");
    OplogBuilder documents;
    documents.create("d.c");
    for (int id = 0; id < 50; ++id)
      documents.insert("d.c", R"({"_id":)" + std::to_string(id) + "}");
    ASSERT_TRUE(run(documents));
    command("idmint_restore", R"({"dropDatabase":1})");
    OplogBuilder updates;
    for (int i = 0; i < 40; ++i) {
      for (int id = 0; id < 50; ++id)
        updates.add(R"("op":"u","ns":"d.c","o":{"$push":{"n":)" + std::to_string(i) +
                    R"(}},"o2":{"_id":)" + std::to_string(id) + "}");
    }
    Result<Record> record = Record::begin(target_, fingerprint().view());
    ASSERT_TRUE(record);
    ASSERT_TRUE(record->reach(RunStage::kOplog));
    Transactions transactions;
    const std::string path = updates.write(folder_.path("updates.bson"));
    bool set = false;
    const Result<ReplayCounts> counts = replay_oplog(
        path, target_, *record, transactions, {.workers = 1}, [&](std::uint64_t) -> Result<void> {
          if (!std::exchange(set, true))
            command("admin", R"({"configureFailPoint":"failCommand","mode":{"times":3},"data":{
                "failCommands":["applyOps"],"errorCode":)" +
                                 std::to_string(code) + "}}");
          return {};
        });
    command("admin", R"({"configureFailPoint":"failCommand","mode":"off"})");
    ASSERT_TRUE(counts) << counts.error().message();
    EXPECT_EQ(counts->updates, 2000);
    const Bson right(R"({"count":"c","query":{"n":{"$size":40},"n.0":0,"n.39":39}})");
    EXPECT_EQ(target_.command("d", right)->view().number("n"), 50) << code;
  }
}

TEST_F(ReplayTest, OfMergedUpdatesEachCountsWhereTheyFindNothing) {
  OplogBuilder oplog = five_documents();
  for (int i = 0; i < 60; ++i)
    oplog.set("d.c", i % 6 == 0 ? "7" : "1", R"({"x":)" + std::to_string(i) + "}");
  const Result<ReplayCounts> counts = run(oplog);
  ASSERT_TRUE(counts) << counts.error().message();
  EXPECT_EQ(counts->updates, 50);
  EXPECT_EQ(counts->missed, 10);
  EXPECT_EQ(documents("d.c")[0], R"({ "_id" : 1, "k" : 1, "x" : 59 })");
}

// The net effect of the updates of one document is refused until the other has its own.
TEST_F(ReplayTest, AUniqueValueGoesFromOneDocumentToAnother) {
  OplogBuilder oplog = five_documents();
  oplog.command("d", R"({"createIndexes":"c","v":2,"key":{"k":1},"name":"k","unique":true})");
  for (int i = 0; i < 100; ++i) {
    oplog.set("d.c", "1", R"({"x":)" + std::to_string(i) + "}");
    if (i == 50)
      oplog.set("d.c", "1", R"({"k":9})")
          .set("d.c", "2", R"({"k":1})")
          .set("d.c", "1", R"({"k":2})");
  }
  const Result<ReplayCounts> counts = run(oplog);
  ASSERT_TRUE(counts) << counts.error().message();
  EXPECT_EQ(counts->updates, 103);
  EXPECT_EQ(documents("d.c")[0], R"({ "_id" : 1, "k" : 2, "x" : 99 })");
  EXPECT_EQ(documents("d.c")[1], R"({ "_id" : 2, "k" : 1 })");
}

TEST_F(ReplayTest, TheEntryThatIsRefusedIsNamed) {
  OplogBuilder oplog = five_documents();
  oplog.command("d", R"({"createIndexes":"c","v":2,"key":{"k":1},"name":"k","unique":true})");
  oplog.insert("d.c", R"({"_id":6,"k":6})").insert("d.c", R"({"_id":7,"k":3})").noop();
  const Error error = refusal(oplog);
  EXPECT_EQ(error.code, Code::kAlreadyExists);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("i on d.c, _id 7, at 100:9"), HasSubstr("E11000")));
  // None of that batch.
  EXPECT_THAT(documents("d.c"), SizeIs(5));
}

TEST_F(ReplayTest, WhatAnApplyOpsDidIsKnownToAContinuedRun) {
  OplogBuilder oplog = five_documents();
  const auto apply = [&](const std::string& ns, const std::string& ids) {
    std::string list;
    for (const char id : ids)
      list += std::string(list.empty() ? "" : ",") + R"({"op":"u","ns":")" + ns +
              R"(","o2":{"_id":)" + id + R"(},"o":{"$v":2,"diff":{"u":{"x":1}}}})";
    oplog.command("admin", R"({"applyOps":[)" + list + "]}");
  };
  apply("d.c", "5678");
  const Timestamp limit = oplog.next();
  apply("d.c", "9");
  oplog.command("d", R"({"renameCollection":"d.c","to":"d.e"})").create("d.c");
  apply("d.c", "12");
  apply("d.e", "789");
  ASSERT_TRUE(run(oplog, {.limit = limit}));
  ASSERT_TRUE(run(oplog));
  Result<std::optional<Record>> record = Record::find(target_);
  ASSERT_TRUE(record && *record);
  const Result<Outcomes> outcomes = kept_outcomes(**record);
  ASSERT_TRUE(outcomes);
  EXPECT_EQ(outcomes->at("d.e").upserted, 4);
  EXPECT_EQ(outcomes->at("d.c").upserted, 2);
}

TEST_F(ReplayTest, AnIndexThatIsLeftOutIsKnownToAContinuedRun) {
  OplogBuilder oplog = five_documents();
  for (const char* const name : {"a", "b"})
    oplog.command("d", R"({"createIndexes":"c","v":0,"key":{")" + std::string(name) +
                           R"(":1},"name":")" + name + R"("})");
  oplog.command("d", R"({"renameCollection":"d.c","to":"d.e"})");
  const Timestamp limit = oplog.next();
  oplog.command("d", R"({"collMod":"e","index":{"name":"a","hidden":true}})");
  oplog.command("d", R"({"dropIndexes":"e","index":"b"})");
  ASSERT_TRUE(run(oplog, {.limit = limit, .report_index_errors = true}));
  const Result<ReplayCounts> counts = run(oplog, {.report_index_errors = true});
  ASSERT_TRUE(counts) << counts.error().message();
  EXPECT_THAT(counts->notes, SizeIs(0));
  Result<std::optional<Record>> record = Record::find(target_);
  ASSERT_TRUE(record && *record);
  const Result<std::vector<std::string>> words = left_out_in_words(**record);
  ASSERT_TRUE(words);
  EXPECT_THAT(*words, ElementsAre(HasSubstr("the index a of d.e, built at 100:7: ")));
}

TEST_F(ReplayTest, WhatValidatorsRefuseIsApplied) {
  OplogBuilder oplog;
  oplog.command("d", R"({"create":"c","validator":{"a":{"$gt":1}}})");
  oplog.insert("d.c", R"({"_id":1,"a":0})").set("d.c", "1", R"({"b":1})");
  ASSERT_TRUE(run(oplog));
  EXPECT_THAT(documents("d.c"), ElementsAre(R"({ "_id" : 1, "a" : 0, "b" : 1 })"));
}

TEST_F(ReplayTest, ATimestampOfZerosStaysOne) {
  const std::string zero = R"({"$timestamp":{"t":0,"i":0}})";
  OplogBuilder oplog;
  oplog.create("d.c").insert("d.c", R"({"_id":1,"at":)" + zero + "}").insert("d.c", R"({"_id":2})");
  oplog.add(R"("op":"u","ns":"d.c","o":{"_id":2,"at":)" + zero + R"(},"o2":{"_id":2})");
  oplog.add(R"("op":"u","ns":"d.c","o":{"_id":3,"at":)" + zero + R"(},"o2":{"_id":3})");
  const Result<ReplayCounts> counts = run(oplog);
  ASSERT_TRUE(counts) << counts.error().message();
  EXPECT_EQ(counts->inserts, 2);
  EXPECT_EQ(counts->updates, 1);
  EXPECT_EQ(counts->missed, 1);
  const std::string kept = R"("at" : { "$timestamp" : { "t" : 0, "i" : 0 } } })";
  EXPECT_THAT(documents("d.c"), ElementsAre("{ \"_id\" : 1, " + kept, "{ \"_id\" : 2, " + kept));
}

TEST_F(ReplayTest, ACollectionThatIsMissingIsNoReasonForHalfABatch) {
  OplogBuilder oplog = five_documents();
  oplog.insert("d.missing", R"({"_id":1})");
  EXPECT_THAT(refusal(oplog).message(), HasSubstr("i on d.missing, _id 1, at 100:7"));
  OplogBuilder deletes = five_documents();
  deletes.remove("d.missing", "1");
  EXPECT_TRUE(run(deletes));
}

TEST_F(ReplayTest, AnIndexMakesNoCollection) {
  OplogBuilder oplog;
  oplog.command("d", R"({"createIndexes":"c","v":2,"key":{"k":1},"name":"k"})");
  EXPECT_THAT(refusal(oplog).message(), HasSubstr("there is no such collection"));
  EXPECT_THAT(state_of(target_), SizeIs(0));
}

TEST_F(ReplayTest, AnIndexWhoseBuildWasEndedIsDropped) {
  OplogBuilder oplog = five_documents();
  oplog.command("d", R"({"createIndexes":"c","v":2,"key":{"k":1},"name":"k"})");  // as of a base
  oplog.command("d", R"({"abortIndexBuild":"c","indexes":[{"v":2,"key":{"k":1},"name":"k"},
      {"v":2,"key":{"n":1},"name":"n"}]})");
  oplog.command("d", R"({"startIndexBuild":"c","indexes":[{"v":2,"key":{"n":1},"name":"n"}]})");
  oplog.command("d", R"({"setMultikeyMetadata":"c"})").command("d", R"({"dropIdent":"x"})");
  const Result<ReplayCounts> counts = run(oplog);
  ASSERT_TRUE(counts) << counts.error().message();
  EXPECT_THAT(state_of(target_).at("d.c").indexes, SizeIs(1));
}

TEST_F(ReplayTest, IndexesAreDroppedByTheirKeyToo) {
  OplogBuilder oplog = five_documents();
  for (const char* const name : {"a", "b", "c"})
    oplog.command("d", R"({"createIndexes":"c","v":2,"key":{")" + std::string(name) +
                           R"(":1},"name":")" + name + R"("})");
  oplog.command("d", R"({"dropIndexes":"c","index":{"a":1}})");
  oplog.command("d", R"({"deleteIndexes":"c","index":"b"})");
  oplog.command("d", R"({"deleteIndex":"c","index":"c"})");
  ASSERT_TRUE(run(oplog));
  EXPECT_THAT(state_of(target_).at("d.c").indexes, SizeIs(1));
}

TEST_F(ReplayTest, OptionsOfOlderServersAreLeftOut) {
  OplogBuilder oplog = five_documents();
  oplog.command("d", R"({"collMod":"c","noPadding":true,"usePowerOf2Sizes":true})");
  oplog.command("d", R"({"collMod":"c","usePowerOf2Sizes":true,"validationLevel":"off"})");
  oplog.command("d", R"({"create":"e","recordIdsReplicated":true,"temp":true})");
  const Result<ReplayCounts> counts = run(oplog);
  ASSERT_TRUE(counts) << counts.error().message();
  EXPECT_THAT(state_of(target_).at("d.c").options, HasSubstr("validationLevel"));
  EXPECT_EQ(state_of(target_).at("d.e").options, "{}");
}

TEST_F(ReplayTest, UpdatesOfVersion1AreApplied) {
  OplogBuilder oplog = five_documents();
  oplog.add(R"("op":"u","ns":"d.c","o":{"$v":1,"$set":{"k":9}},"o2":{"_id":1})");
  oplog.add(R"("op":"u","ns":"d.c","o":{"$v":1,"$unset":{"k":true}},"o2":{"_id":2})");
  const Result<ReplayCounts> counts = run(oplog, {.limit = oplog.next()});
  ASSERT_TRUE(counts) << counts.error().message();
  EXPECT_EQ(documents("d.c")[0], R"({ "_id" : 1, "k" : 9 })");
  EXPECT_EQ(documents("d.c")[1], R"({ "_id" : 2 })");
}

TEST_F(ReplayTest, ADropOfWhatIsNotThereIsDone) {
  OplogBuilder oplog = five_documents();
  oplog.command("d", R"({"drop":"missing"})").command("missing", R"({"dropDatabase":1})");
  const Result<ReplayCounts> counts = run(oplog);
  ASSERT_TRUE(counts) << counts.error().message();
  EXPECT_EQ(counts->commands, 3);
}

TEST_F(ReplayTest, ACollectionThatIsThereWithOtherOptionsIsRefused) {
  command("d", R"({"create":"c","capped":true,"size":4096})");
  EXPECT_THAT(refusal(five_documents()).message(), HasSubstr("with other options"));
}

TEST_F(ReplayTest, ACollectionThatIsThereWithTheSameOptionsIsTold) {
  command("d", R"({"create":"c"})");
  const Result<ReplayCounts> counts = run(five_documents());
  ASSERT_TRUE(counts) << counts.error().message();
  EXPECT_THAT(counts->notes, ElementsAre("create of d.c, at 100:1: it was there already"));
}

TEST_F(ReplayTest, ARenameTakesTheTargetThatIsThere) {
  OplogBuilder oplog = five_documents();
  oplog.create("d.target").insert("d.target", R"({"_id":"old"})");
  oplog.command("d", R"({"renameCollection":"d.c","to":"d.target","stayTemp":false,"dropTarget":
      {"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAAA==","subType":"04"}}})");
  oplog.insert("d.target", R"({"_id":6})");
  const Result<ReplayCounts> counts = run(oplog);
  ASSERT_TRUE(counts) << counts.error().message();
  EXPECT_THAT(documents("d.target"), SizeIs(6));
  const State state = state_of(target_);
  EXPECT_THAT(state, SizeIs(1)) << "a collection is left over";
}

TEST_F(ReplayTest, ARenameOverWhatWasNotThereInProductionIsRefused) {
  OplogBuilder oplog = five_documents();
  oplog.create("d.target").command("d", R"({"renameCollection":"d.c","to":"d.target"})");
  EXPECT_THAT(refusal(oplog).message(), HasSubstr("was not in production"));
}

TEST_F(ReplayTest, ARenameThatWasDoneIsNotDoneAgain) {
  OplogBuilder oplog = five_documents();
  oplog.create("d.target").insert("d.target", R"({"_id":"old"})");
  oplog.command("d", R"({"renameCollection":"d.c","to":"d.target","stayTemp":false,"dropTarget":
      {"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAAA==","subType":"04"}}})");
  const Timestamp rename = oplog.last();
  oplog.insert("d.target", R"({"_id":6})").noop();
  ASSERT_TRUE(run(oplog, {.limit = rename}));
  // A run wrote that it was about to rename, did so, and was killed.
  Result<std::optional<Record>> record = Record::find(target_);
  ASSERT_TRUE(record && *record);
  const auto markers = (*record)->get_all("replay:oplog:commands:");
  ASSERT_TRUE(markers);
  ASSERT_THAT(*markers, SizeIs(1));
  const Result<std::vector<CollectionFacts>> listed = list_collections(target_);
  ASSERT_TRUE(listed);
  ASSERT_EQ(listed->front().ns(), "d.c");
  std::string uuid;
  for (std::size_t i = 0; i < 32; i += 2)
    uuid += static_cast<char>(std::stoi(listed->front().uuid.substr(i, 2), nullptr, 16));
  Bson source;
  source.add_binary("source", BSON_SUBTYPE_UUID, uuid);
  const Bson doing = Bson("ts", BsonTimestamp{rename.seconds, rename.ordinal}, "index",
                          std::int64_t{0}, "commands", std::int64_t{2}, "doing", source);
  ASSERT_TRUE((*record)->put(markers->begin()->first, doing));
  command("admin", R"({"renameCollection":"d.c","to":"d.target","dropTarget":true})");
  const Result<ReplayCounts> counts = run(oplog);
  ASSERT_TRUE(counts) << counts.error().message();
  EXPECT_THAT(documents("d.target"), SizeIs(6));
  EXPECT_EQ(counts->commands, 3);
}

TEST_F(ReplayTest, ABatchIsNotAppliedWithoutTheOneBefore) {
  OplogBuilder oplog;
  oplog.create("d.c");
  for (int i = 0; i < 6000; ++i) oplog.insert("d.c", R"({"_id":)" + std::to_string(i) + "}");
  Result<Record> record = Record::begin(target_, fingerprint().view());
  ASSERT_TRUE(record);
  ASSERT_TRUE(record->reach(RunStage::kOplog));
  Transactions transactions;
  int told = 0;
  const Result<ReplayCounts> counts =
      replay_oplog(oplog.write(folder_.path("oplog.bson")), target_, *record, transactions,
                   {.workers = 1}, [&](std::uint64_t) -> Result<void> {
                     // As if the server had lost what it last did.
                     if (++told == 2)
                       command("idmint_restore", R"({"delete":"progress","deletes":[
                           {"q":{"_id":{"$regex":"^replay:oplog:0:"}},"limit":0}]})");
                     return {};
                   });
  ASSERT_FALSE(counts);
  EXPECT_EQ(counts.error().code, Code::kUnavailable);
  EXPECT_THAT(counts.error().message(), HasSubstr("has lost what it had done"));
}

// As the server refuses a batch that its cache, or its own oplog, has no room for.
TEST_F(ReplayTest, ABatchThatIsTooLargeIsSplit) {
  const auto refuse = [this](const std::string& mode) {
    command("admin", R"({"configureFailPoint":"failCommand","mode":)" + mode +
                         R"(,"data":{"failCommands":["applyOps"],"errorCode":257}})");
  };
  OplogBuilder oplog;
  oplog.create("d.c");
  for (int i = 0; i < 3000; ++i) oplog.insert("d.c", R"({"_id":)" + std::to_string(i) + "}");
  for (int i = 0; i < 3000; ++i) oplog.set("d.c", std::to_string(i), R"({"x":1})");
  const std::string path = oplog.write(folder_.path("oplog.bson"));
  const auto replay_while_refused = [&](const std::string& mode) {
    Result<Record> record = Record::begin(target_, fingerprint().view());
    EXPECT_TRUE(record);
    EXPECT_TRUE(record->reach(RunStage::kOplog));
    Transactions transactions;
    int told = 0;
    Result<ReplayCounts> counts = replay_oplog(path, target_, *record, transactions, {.workers = 1},
                                               [&](std::uint64_t) -> Result<void> {
                                                 if (++told == 2) refuse(mode);
                                                 return {};
                                               });
    refuse(R"("off")");
    return counts;
  };
  const Result<ReplayCounts> none = replay_while_refused(R"("alwaysOn")");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(none.error().message(), HasSubstr("the server refuses i on d.c, _id "));
  const Result<ReplayCounts> counts = replay_while_refused(R"({"times":5})");
  ASSERT_TRUE(counts) << counts.error().message();
  EXPECT_EQ(counts->inserts, 3000);
  EXPECT_EQ(counts->updates, 3000);
  EXPECT_EQ(counts->missed, 0);
  const std::vector<std::string> all = documents("d.c");
  ASSERT_THAT(all, SizeIs(3000));
  for (const std::string& each : all) EXPECT_THAT(each, HasSubstr(R"("x" : 1)"));
}

TEST_F(ReplayTest, AViewIsNotWrittenWithoutWhatWasBefore) {
  OplogBuilder oplog;
  oplog.create("d.c");
  for (int i = 0; i < 1022; ++i) oplog.insert("d.c", R"({"_id":)" + std::to_string(i) + "}");
  oplog.command("d", R"({"collMod":"c","validator":{}})").noop();
  oplog.insert("d.system.views", R"({"_id":"d.v","viewOn":"c","pipeline":[]})");
  const Timestamp view = oplog.last();
  oplog.insert("d.c", R"({"_id":"last"})");
  Result<Record> record = Record::begin(target_, fingerprint().view());
  ASSERT_TRUE(record);
  ASSERT_TRUE(record->reach(RunStage::kOplog));
  Transactions transactions;
  int told = 0;
  const Result<ReplayCounts> counts =
      replay_oplog(oplog.write(folder_.path("oplog.bson")), target_, *record, transactions,
                   {.workers = 1}, [&](std::uint64_t) -> Result<void> {
                     // As if the server had lost what it last did: all is applied up to here.
                     if (++told == 2)
                       command("idmint_restore", R"({"delete":"progress","deletes":[
                           {"q":{"_id":{"$regex":"^replay:oplog:0:"}},"limit":0}]})");
                     return {};
                   });
  ASSERT_FALSE(counts);
  EXPECT_EQ(counts.error().code, Code::kUnavailable);
  const auto markers = record->get_all("replay:oplog:commands:");
  ASSERT_TRUE(markers);
  ASSERT_THAT(*markers, SizeIs(1));
  const std::optional<Timestamp> position = timestamp_in(markers->begin()->second.view(), "ts");
  ASSERT_TRUE(position);
  EXPECT_LT(*position, view) << "the next run would pass over what was lost";
}

TEST_F(ReplayTest, TheLimitIsNotApplied) {
  OplogBuilder oplog = five_documents();
  ASSERT_TRUE(run(oplog, {.limit = Timestamp{100, 4}}));
  EXPECT_THAT(documents("d.c"), SizeIs(2));
}

TEST_F(ReplayTest, EntriesThatAreSkippedAreNotApplied) {
  OplogBuilder oplog = five_documents();
  oplog.command("d", R"({"drop":"c"})");
  ASSERT_TRUE(run(oplog, {.skip = {{100, 3}, {100, 7}}}));
  EXPECT_THAT(documents("d.c"), SizeIs(4));
}

TEST_F(ReplayTest, FiltersHold) {
  OplogBuilder oplog = five_documents();
  oplog.create("d.other").insert("d.other", R"({"_id":1})").create("e.c");
  oplog.insert("admin.c", R"({"_id":1})").create("config.c");
  ASSERT_TRUE(run(oplog, {.filter = *NamespaceFilter::of({"d.c"}, {})}));
  const State state = state_of(target_);
  ASSERT_THAT(state, SizeIs(1));
  EXPECT_EQ(state.begin()->first, "d.c");
}

TEST_F(ReplayTest, InASliceWhatMissesIsNormal) {
  // The base was read after all of it.
  command("d", R"({"create":"c","capped":true,"size":4096})");
  command("d", R"({"insert":"c","documents":[{"_id":2,"k":2}]})");
  OplogBuilder oplog = five_documents();
  oplog.insert("d.missing", R"({"_id":1})").command("d", R"({"drop":"missing"})");
  oplog.set("d.c", "7", R"({"x":1})").remove("d.c", "1");
  oplog.command("d", R"({"createIndexes":"c","v":2,"key":{"k":1},"name":"k","unique":true})");
  oplog.command("d", R"({"collMod":"missing","validator":{}})");
  Result<Record> record = Record::begin(target_, fingerprint().view());
  ASSERT_TRUE(record);
  ASSERT_TRUE(record->reach(RunStage::kSlice));
  Result<OplogReader> reader = OplogReader::open(oplog.write(folder_.path("oplog.bson")));
  ASSERT_TRUE(reader);
  for (int round = 0; round < 2; ++round) {  // the second finds it done, and has the indexes too
    Transactions transactions;
    IndexCatalog catalog;
    const Result<std::unique_ptr<Replay>> replay =
        Replay::begin(target_, *record, transactions, &catalog, {.slice = true});
    ASSERT_TRUE(replay) << replay.error().message();
    reader = OplogReader::open(folder_.path("oplog.bson"));
    while (true) {
      const Result<std::optional<Entry>> entry = reader->next();
      ASSERT_TRUE(entry);
      if (!*entry) break;
      const Result<void> applied = (*replay)->apply(**entry);
      ASSERT_TRUE(applied) << applied.error().message();
    }
    const Result<ReplayCounts> counts = (*replay)->finish();
    ASSERT_TRUE(counts) << counts.error().message();
    EXPECT_EQ(counts->inserts, 5);
    EXPECT_THAT(counts->first_missed, SizeIs(0));
    EXPECT_THAT(documents("d.c"), SizeIs(4));
    EXPECT_EQ(catalog.size(), 1);
    ASSERT_TRUE(record->reach(RunStage::kIndexes));
  }
  const State state = state_of(target_);
  EXPECT_EQ(state.at("d.c").options, "{}");
  EXPECT_THAT(state.at("d.c").indexes, SizeIs(1));
}

TEST_F(ReplayTest, AnotherRunOnTheTargetIsRefused) {
  ASSERT_TRUE(run(five_documents()));
  const Bson other = Bson("of", "another");
  const Result<Record> record = Record::begin(target_, other.view());
  ASSERT_FALSE(record);
  EXPECT_EQ(record.error().code, Code::kAlreadyExists);
  ASSERT_TRUE(Record::forget(target_));
  EXPECT_FALSE(*Record::find(target_));
}

TEST_F(ReplayTest, ARunBesideAnotherRecordsNothingMore) {
  Result<Record> first = Record::begin(target_, fingerprint().view());
  ASSERT_TRUE(first) << first.error().message();
  const Bson fields = Bson("n", 1);
  ASSERT_TRUE(first->put("base:d.c", fields));
  Result<Record> second = Record::begin(target_, fingerprint().view());
  ASSERT_TRUE(second);
  const Result<void> late = first->put("base:d.other", fields);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kUnavailable);
  EXPECT_THAT(late.error().message(), HasSubstr("belongs to another run"));
  EXPECT_FALSE(first->reach(RunStage::kSlice));
  EXPECT_TRUE(second->put("base:d.c", fields)) << "again";
  EXPECT_THAT(*second->get_all("base:"), SizeIs(1));
  EXPECT_EQ((*Record::find(target_))->stage(), RunStage::kBase);
}

// Entries that make another state when they are applied twice, left out, or in another order.
struct Sequences {
  OplogBuilder oplog;
  std::map<std::string, std::map<int, std::string>> expected;
  std::uint64_t updates = 0;
};

Sequences sequences(int entries, std::mt19937& random) {
  Sequences made;
  OplogBuilder& oplog = made.oplog;
  const std::string text(1'000, 'x');  // so that there are many batches
  const auto make = [&](const std::string& ns) {
    oplog.create(ns);
    for (int id = 0; id < 10; ++id) {
      oplog.insert(ns, R"({"_id":)" + std::to_string(id) + R"(,"n":[]})");
      made.expected[ns][id].clear();
    }
  };
  for (const char* const ns : {"d.a", "d.b", "d.c", "e.a", "e.target"}) make(ns);
  for (int i = 0; i < entries; ++i) {
    const auto pick = random() % 60'000;  // commands are rare: batches are full, and many
    const std::string ns = std::array{"d.a", "d.b", "d.c", "e.a"}[pick % 4];
    if (pick < 2) {
      made.expected.erase("e.target");
      make("e.made");
      oplog.command("e", R"({"renameCollection":"e.made","to":"e.target","stayTemp":false,
          "dropTarget":{"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAAA==","subType":"04"}}})");
      made.expected["e.target"] = made.expected["e.made"];
      made.expected.erase("e.made");
    } else if (pick < 4) {
      oplog.command("d", R"({"drop":"c"})");
      make("d.c");
    } else if (pick < 15'000) {
      const int id = static_cast<int>(random() % 5);
      oplog.add(R"("op":"u","ns":")" + ns + R"(","o":{"$push":{"n":)" + std::to_string(i) +
                R"(}},"o2":{"_id":)" + std::to_string(id) + "}");
      made.expected[ns][id] += std::to_string(i) + " ";
      ++made.updates;
    } else {
      // Merged with others of the same document.
      const int id = static_cast<int>(5 + random() % 5);
      oplog.set(ns, std::to_string(id),
                R"({"n":[)" + std::to_string(i) + R"(],"text":")" + text + R"("})");
      made.expected[ns][id] = std::to_string(i) + " ";
      ++made.updates;
    }
  }
  return made;
}

// A process that replays, and writes a byte each time that it tells of its progress.
class ReplayProcess {
 public:
  ReplayProcess(const std::string& uri, const std::string& path) {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      ::_exit(run(uri, path, ends[1]));
    }
    ::close(ends[1]);
    progress_ = ends[0];
  }
  ~ReplayProcess() { ::close(progress_); }
  ReplayProcess(const ReplayProcess&) = delete;
  ReplayProcess& operator=(const ReplayProcess&) = delete;

  // False: it has ended.
  [[nodiscard]] bool await(int times) const {
    char byte = 0;
    for (int i = 0; i < times; ++i) {
      if (::read(progress_, &byte, 1) != 1) return false;
    }
    return true;
  }
  void kill() const { ::kill(pid_, SIGKILL); }
  // Its status: a Code, or 0; -1: it was killed.
  [[nodiscard]] int status() const {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  static int run(const std::string& uri, const std::string& path, int progress) {
    Result<Server> target = Server::connect(uri);
    if (!target) return static_cast<int>(target.error().code);
    Result<Record> record = Record::begin(*target, fingerprint().view());
    if (!record) return static_cast<int>(record.error().code);
    if (Result<void> reached = record->reach(RunStage::kOplog); !reached)
      return static_cast<int>(reached.error().code);
    Transactions transactions;
    const Result<ReplayCounts> counts = replay_oplog(
        path, *target, *record, transactions, {.workers = 3}, [&](std::uint64_t) -> Result<void> {
          if (::write(progress, "x", 1) == 1) return {};
          return std::unexpected(Error{Code::kUnavailable, "nobody reads"});
        });
    if (!counts && counts.error().code != Code::kUnavailable)
      std::fprintf(stderr, "%s\n", counts.error().message().c_str());
    return counts ? 0 : static_cast<int>(counts.error().code);
  }

  pid_t pid_ = 0;
  int progress_ = -1;
};

TEST(ReplayKilled, GoesOnExactlyWhereItWas) {
  const char* const given = std::getenv("IDMINT_KILL_ROUNDS");
  const int rounds = given != nullptr ? std::atoi(given) : 12;
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  fakes::TempFolder folder;
  const Sequences made = sequences(120'000, random);
  const std::string path = made.oplog.write(folder.path("oplog.bson"));
  MongoServer spare;
  int killed = 0;
  for (int round = 0; round < rounds; ++round) {
    // It need not look for a server that was killed as long as it would.
    const ReplayProcess process(spare.url("?serverSelectionTimeoutMS=500"), path);
    const bool runs = process.await(static_cast<int>(random() % 24));
    if (round % 3 == 2) {
      spare.kill();
      const int status = process.status();
      EXPECT_TRUE(status == 0 || status == static_cast<int>(Code::kUnavailable)) << status;
      spare.restart();
    } else {
      process.kill();
      static_cast<void>(process.status());
    }
    if (runs) ++killed;
  }
  EXPECT_GT(killed, 0);
  Server target = connected(spare.url(""));
  const Result<ReplayCounts> counts = replay(target, path, {.workers = 3});
  ASSERT_TRUE(counts) << counts.error().message();
  EXPECT_EQ(counts->updates, made.updates);
  for (const auto& [ns, documents] : made.expected) {
    std::map<int, std::string> is;
    const std::size_t dot = ns.find('.');
    const Result<void> read = for_each_document(
        target, ns.substr(0, dot), ns.substr(dot + 1), [&](Document document) -> Result<void> {
          std::string& text = is[static_cast<int>(document.numeric("_id").value_or(-1))];
          EXPECT_TRUE(document.is_array("n"));
          Fields numbers(document.array("n"));
          for (Field each; numbers.next(each);) text += std::to_string(*each.integer()) + " ";
          return {};
        });
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_EQ(is, documents) << ns;
  }
  EXPECT_THAT(state_of(target), SizeIs(made.expected.size()));
}

}  // namespace
}  // namespace idmint::restore
