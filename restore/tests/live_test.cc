// Backup, work, mistake, and back: on a live replica set, with the programs that operators run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "idmint/definition.h"
#include "restore/replay/state.h"
#include "restore/tests/production.h"
#include "restore/tests/program.h"
#include "restore/tests/workload.h"
#include "restore/timestamp.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

namespace fs = std::filesystem;
using servers::mongo_command;
using servers::MongoSet;
using ::testing::HasSubstr;

class Live : public ::testing::Test {
 protected:
  Ended restore(std::vector<std::string> words) { return Program(folder_, std::move(words)).end(); }
  // Expects that `where` has the state that production had.
  void expect_state(const State& should, const std::vector<std::string>& where) {
    const std::string file = folder_.path("should.json");
    write(file, state_file(should));
    const Ended ended = restore(with({"verify", "--expected", file}, where));
    EXPECT_EQ(ended.status, 0) << ended.out << ended.err;
  }
  // The oplog from `from` on, all of it, with the mistake.
  std::string dump_oplog(Production& production, Timestamp from) {
    const std::string path = folder_.path("oplog.bson");
    production.dump_oplog(from, path);
    return path;
  }

  fakes::TempFolder folder_;
  MongoSet set_{{.members = 1}};
  Production production_{set_.url("")};
};

TEST_F(Live, EveryKindOfCollectionAndEntryFromEveryFormOfBase) {
  work_before_base(production_);
  collections_of_every_kind(production_);
  SequenceDefinition orders{.name = "orders"};
  PoolDefinition pool{.name = "hosts", .workers = 1024};
  const auto define = [&](const Definition& definition) {
    const Bson document = Bson("_id", name(definition), "json", to_json(definition));
    production_.insert("shop.idmint.definitions", to_canonical_json(document.view()));
  };
  define(orders);
  define(pool);

  const Timestamp from = production_.now();
  const std::vector<std::vector<std::string>> forms = {{}, {"--gzip"}, {"--archive", "--gzip"}};
  std::vector<std::string> bases;
  for (const std::vector<std::string>& form : forms) {
    bases.push_back(folder_.path("base" + std::to_string(bases.size())));
    const Ended dumped =
        restore(with({"dump", "--uri", set_.url(""), "--out", bases.back()}, form));
    ASSERT_EQ(dumped.status, 0) << dumped.err;
  }
  work_of_every_kind(production_);
  const State should = state_of(production_.server());
  const Timestamp mistake = production_.now();
  production_.run("shop", R"({"dropDatabase":1})");
  production_.run("kinds", R"({"dropDatabase":1})");
  const std::string oplog = dump_oplog(production_, from);
  for (const std::string& where : {oplog, set_.url("")}) {
    const Ended found = restore({"find", "--oplog", where});
    ASSERT_EQ(found.status, 0) << where << found.err;
    EXPECT_THAT(found.out, HasSubstr("a database was dropped: shop"));
  }

  const auto run = [&](const std::string& base, const std::vector<std::string>& where) {
    SCOPED_TRACE(base);
    const Ended ended = restore(with(
        {"run", "--base", base, "--oplog", oplog, "--limit", print_timestamp(mistake), "--yes"},
        where));
    ASSERT_EQ(ended.status, 0) << ended.out << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("shop: orders: nothing came from it after the limit"));
    EXPECT_THAT(ended.out, HasSubstr("shop: hosts: nothing came from it after the limit"));
  };
  for (const std::string& base : {bases[0], bases[1]}) {
    const SpareServer spare;
    run(base, spare.words());
    expect_state(should, spare.words());
  }
  // And to a replica set, which writes what is applied to an oplog of its own.
  MongoSet set({.members = 1});
  servers::mongo_command(set.url(""), "probe", R"({"dropDatabase":1})");  // what made the set
  run(bases[2], {"--target", set.url(""), "--allow-replica-set"});
  expect_state(should, {"--target", set.url("")});
}

TEST_F(Live, ACopyOfADataFolder) {
  work_before_base(production_);
  // An index is being built, and is for ever in the copy.
  production_.insert("kept.indexed", R"({"_id":1,"a":1})");
  production_.run("admin",
                  R"({"configureFailPoint":"hangAfterStartingIndexBuild","mode":"alwaysOn"})");
  std::thread building([&] {
    mongo_command(set_.direct(0), "kept",
                  R"({"createIndexes":"indexed","indexes":[{"key":{"a":1},"name":"a"}]})");
  });
  const auto indexes = [&] {
    return mongo_command(set_.direct(0), "kept",
                         R"({"listIndexes":"indexed","includeBuildUUIDs":true})");
  };
  while (!indexes().contains("buildUUID")) std::this_thread::yield();
  production_.run("admin", R"({"fsync":1})");  // a checkpoint, which the copy is past
  production_.insert("kept.three", R"({"_id":1},{"_id":2})");
  const Timestamp from = production_.now();
  // A copy as a snapshot of the file system makes it: of one moment, the server at work.
  set_.member(0).kill();
  const std::string copy = folder_.path("copy");
  fs::copy(set_.member(0).folder(), copy, fs::copy_options::recursive);
  building.join();  // its server is gone
  set_.member(0).restart();
  set_.primary();
  while (!indexes().contains(R"("a")") || indexes().contains("buildUUID"))
    std::this_thread::yield();
  Production again(set_.url(""));  // the connection of the other was of the server that was killed
  work_of_every_kind(again);
  const State should = state_of(again.server());
  const Timestamp mistake = again.now();
  again.run("shop", R"({"dropDatabase":1})");
  const std::string oplog = dump_oplog(again, from);

  const std::vector<std::string> words = with(run_of_copy(copy, oplog, mistake), {"--stop"});
  const Ended ended = restore(words);
  ASSERT_EQ(ended.status, 0) << ended.out << ended.err;
  const std::vector<std::string> where = {"--spare", copy, "--mongod", servers::mongod_program()};
  expect_state(should, where);
  // Nobody knows how many documents a collection should have that the oplog does not touch.
  const Ended counted = restore(with({"verify"}, where));
  EXPECT_EQ(counted.status, 0) << counted.out;
  EXPECT_THAT(counted.out, HasSubstr("  same count\n"));
  EXPECT_THAT(counted.out, HasSubstr("  not compared\n"));
  const Ended resumed = restore(words);
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("a run before this one"));
  expect_state(should, where);
}

}  // namespace
}  // namespace idmint::restore
