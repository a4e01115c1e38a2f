// Base backups of a set whose collections are replaced while they are read, restored and compared
// with what production had; and dumps whose files are not as they were written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "restore/backup/dump.h"
#include "restore/checksums.h"
#include "restore/replay/state.h"
#include "restore/server.h"
#include "restore/tests/program.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

namespace fs = std::filesystem;
using servers::mongo_command;
using servers::mongo_set;
using servers::MongoServer;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kFillers = 60;

MongoServer& target() {
  static MongoServer server;
  return server;
}
std::string target_uri() { return target().url("?directConnection=true"); }

std::string produce(const std::string& database, const std::string& json) {
  std::string reply = mongo_command(mongo_set().direct(mongo_set().primary()), database, json);
  EXPECT_THAT(reply, Not(HasSubstr("errmsg"))) << json;
  return reply;
}

Server connected(const std::string& uri) {
  Result<Server> server = Server::connect(uri);
  EXPECT_TRUE(server) << server.error().message();
  return *std::move(server);
}

// The state of the database "moving".
State state_of(const std::string& uri) {
  Server server = connected(uri);
  Result<State> state = read_state(server, {.hashes = true, .wanted = [](std::string_view ns) {
                                              return ns.starts_with("moving.");
                                            }});
  EXPECT_TRUE(state) << state.error().message();
  return state ? *std::move(state) : State{};
}

class MovingBase : public testing::Test {
 protected:
  MovingBase() {
    produce("moving", R"({"dropDatabase":1})");
    std::string documents;
    for (int i = 0; i < 300; ++i)
      documents += (i == 0 ? "" : ",") + ("{\"_id\":" + std::to_string(i) + ",\"n\":1}");
    for (const std::string name : {"source", "report", "zz_report"})
      produce("moving", R"({"insert":")" + name + R"(","documents":[)" + documents + "]}");
    produce("moving", R"({"createIndexes":"report","indexes":[{"key":{"n":1},"name":"n_1"}]})");
    // So that much is still to be read when something happens.
    for (int i = 0; i < kFillers; ++i)
      produce("moving",
              R"({"insert":"filler)" + std::to_string(100 + i) + R"(","documents":[{"_id":1}]})");
  }

  // Does one thing with each of the first documents that come.
  Result<DumpFacts> dump_while(const std::string& path, std::vector<std::function<void()>> things,
                               std::vector<std::string> excluded = {}) {
    std::size_t next = 0;
    return dump(connected(mongo_set().url("admin")),
                {.path = path, .excluded = std::move(excluded)},
                [&](std::int64_t, std::int64_t) -> Result<void> {
                  if (next < things.size()) things[next++]();
                  return {};
                });
  }
  Ended run(std::vector<std::string> words) { return Program(folder_, std::move(words)).end(); }
  Ended restore(const std::string& base) {
    for (const std::string database : {"moving", "idmint_restore", "probe", "admin_copy"})
      mongo_command(target_uri(), database, R"({"dropDatabase":1})");
    return run({"run", "--base", base, "--target", target_uri(), "--include", "moving", "--yes",
                "--report", folder_.path("report.json")});
  }

  fakes::TempFolder folder_;
};

std::function<void()> out_to(const std::string& name, int n) {
  return [=] {
    produce("moving", R"({"aggregate":"source","pipeline":[{"$set":{"n":)" + std::to_string(n) +
                          R"(}},{"$out":")" + name + R"("}],"cursor":{}})");
  };
}

TEST_F(MovingBase, CollectionsThatAreReplacedMeanwhileAreAsAtTheEnd) {
  const std::string base = folder_.path("base");
  const Result<DumpFacts> facts = dump_while(
      base, {out_to("report", 2), out_to("zz_report", 2), out_to("report", 3), out_to("fresh", 4),
             [] {
               mongo_command(mongo_set().direct(mongo_set().primary()), "admin",
                             R"({"renameCollection":"moving.source","to":"moving.origin"})");
             },
             [] { produce("moving", R"({"convertToCapped":"fresh","size":1048576})"); },
             [] { produce("moving", R"({"insert":"fresh","documents":[{"_id":"last"}]})"); },
             [] {
               produce("moving",
                       R"({"update":"origin","updates":[{"q":{"_id":7},"u":{"$set":{"n":9}}}]})");
             }});
  ASSERT_TRUE(facts) << facts.error().message();
  const State production = state_of(mongo_set().url("admin"));
  const Ended ended = restore(base);
  ASSERT_EQ(ended.status, 0) << ended.out << ended.err;
  const State restored = state_of(target_uri());
  for (const Difference& each : differences(restored, production))
    ADD_FAILURE() << each.ns << ": " << each.what << " is " << each.is << ", should be "
                  << each.should_be;
  EXPECT_EQ(production.at("moving.report").count, 300U);
}

TEST_F(MovingBase, WhatIsLeftOutStaysOut) {
  const std::string base = folder_.path("base");
  const Result<DumpFacts> facts = dump_while(
      base, {out_to("report", 2), out_to("zz_report", 2), out_to("report", 3)}, {"moving.report"});
  ASSERT_TRUE(facts) << facts.error().message();
  State production = state_of(mongo_set().url("admin"));
  EXPECT_EQ(production.erase("moving.report"), 1U);
  const Ended ended = restore(base);
  ASSERT_EQ(ended.status, 0) << ended.out << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("the base was made without moving.report"));
  for (const Difference& each : differences(state_of(target_uri()), production))
    ADD_FAILURE() << each.ns << ": " << each.what << " is " << each.is << ", should be "
                  << each.should_be;
}

// ---- the record

TEST_F(MovingBase, ARestoredServerHoldsNothingOfOurs) {
  const std::string base = folder_.path("base");
  ASSERT_TRUE(dump_while(base, {}));
  const Ended ended = restore(base);
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(mongo_command(target_uri(), "admin", R"({"listDatabases":1,"nameOnly":true})"),
              Not(HasSubstr("idmint_restore")));
  const std::string report = folder_.path("report.json");
  EXPECT_THAT(ended.out, HasSubstr(report));
  const std::vector<std::string> verify = {"verify", "--target",         target_uri(), "--include",
                                           "moving", "--restore-report", report};
  const Ended same = run(verify);
  EXPECT_EQ(same.status, 0) << same.err;
  EXPECT_THAT(same.out, HasSubstr("Counts agree"));
  mongo_command(target_uri(), "moving",
                R"({"delete":"source","deletes":[{"q":{"_id":1},"limit":1}]})");
  EXPECT_EQ(run(verify).status, 10) << "it knows how many there should be";
  // Again: it is done.
  const std::vector<std::string> again = {"run",       "--base", base,    "--target", target_uri(),
                                          "--include", "moving", "--yes", "--report", report};
  const Ended done = run(again);
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("nothing was left to do"));
  // Without its report it is a server with something in it.
  fs::remove(report);
  EXPECT_EQ(run(again).status, 4);
  const Ended lost = run(verify);
  EXPECT_EQ(lost.status, 3) << lost.err;
  EXPECT_THAT(lost.err, HasSubstr("there is no report"));
}

TEST_F(MovingBase, APlaceForTheReportThatCannotBeWrittenIsKnownBefore) {
  const std::string base = folder_.path("base");
  ASSERT_TRUE(dump_while(base, {}));
  mongo_command(target_uri(), "moving", R"({"dropDatabase":1})");
  const Ended ended = run({"run", "--base", base, "--target", target_uri(), "--include", "moving",
                           "--yes", "--report", folder_.path("nowhere/report.json")});
  EXPECT_EQ(ended.status, 3) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("--report FILE"));
  EXPECT_THAT(mongo_command(target_uri(), "moving", R"({"listCollections":1})"),
              HasSubstr(R"("firstBatch" : [  ])"));
}

TEST_F(MovingBase, ADamagedReportIsSaidToBe) {
  const std::string base = folder_.path("base");
  ASSERT_TRUE(dump_while(base, {}));
  ASSERT_EQ(restore(base).status, 0);
  const std::string report = folder_.path("report.json");
  const nlohmann::json good = nlohmann::json::parse(std::ifstream(report));
  const auto with = [&](const std::string& text) {
    std::ofstream(report) << text;
    return run({"verify", "--target", target_uri(), "--restore-report", report});
  };
  for (const std::string key : {"idmint_restore", "record"}) {
    for (const nlohmann::json& value :
         {nlohmann::json("text"), nlohmann::json(7), nlohmann::json::array({1, "a", nullptr}),
          nlohmann::json::object({{"a", 1}}), nlohmann::json()}) {
      nlohmann::json wrong = good;
      wrong[key] = value;
      const Ended ended = with(wrong.dump());
      EXPECT_EQ(ended.status, 10) << key << value << ended.out << ended.err;
      EXPECT_THAT(ended.err, HasSubstr("is damaged"));
    }
  }
  for (const std::string key : {"notes", "slice", "replayed", "documents", "collections"}) {
    nlohmann::json wrong = good;
    wrong[key] = "text";
    EXPECT_EQ(with(wrong.dump()).status, 0) << key;
  }
  EXPECT_EQ(with("{").status, 10);
  EXPECT_EQ(with("").status, 10);
}

TEST_F(MovingBase, TheReportOfAnotherServerIsNone) {
  const std::string base = folder_.path("base");
  ASSERT_TRUE(dump_while(base, {}));
  ASSERT_EQ(restore(base).status, 0);
  const MongoServer other;
  const std::string uri = other.url("?directConnection=true");
  mongo_command(uri, "moving", R"({"insert":"source","documents":[{"_id":1}]})");
  const Ended ended =
      run({"verify", "--target", uri, "--restore-report", folder_.path("report.json")});
  EXPECT_EQ(ended.status, 5) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("is of another server"));
  EXPECT_EQ(run({"run", "--base", base, "--target", uri, "--yes", "--report",
                 folder_.path("report.json")})
                .status,
            4)
      << "it is not taken for restored";
}

// ---- checksums

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

TEST_F(MovingBase, AChangedBaseIsRefusedBeforeAnythingIsWritten) {
  const std::string base = folder_.path("base");
  ASSERT_TRUE(dump_while(base, {}));
  const auto refused = [&](const std::string& says) {
    const Ended ended = restore(base);
    EXPECT_EQ(ended.status, 10) << ended.out << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(says));
    EXPECT_THAT(mongo_command(target_uri(), "moving", R"({"listCollections":1})"),
                HasSubstr(R"("firstBatch" : [  ])"));
  };
  const std::string file = base + "/moving/source.bson";
  const std::string whole = content(file);
  std::string changed = whole;  // a document still: n of the first is 2
  changed[changed.find(std::string("\x10n\0\x01", 4)) + 3] = '\x02';
  write(file, changed);
  refused("its bytes were changed");
  write(file, whole.substr(0, whole.size() - whole.size() / 300));  // without the last document
  refused("is not as it was written");
  write(file, whole);
  const std::string metadata = base + "/moving/report.metadata.json";
  const std::string was = content(metadata);
  std::string other = was;
  other.replace(other.find("n_1"), 3, "m_1");
  write(metadata, other);
  refused("report.metadata.json");
  write(metadata, was);
  fs::rename(base + "/moving/filler100.metadata.json", base + "/m");
  fs::rename(base + "/moving/filler100.bson", base + "/b");
  refused("is missing");
  fs::rename(base + "/m", base + "/moving/filler100.metadata.json");
  fs::rename(base + "/b", base + "/moving/filler100.bson");
  fs::copy(base + "/moving/filler100.bson", base + "/moving/extra.bson");
  fs::copy(base + "/moving/filler100.metadata.json", base + "/moving/extra.metadata.json");
  std::string renamed = content(base + "/moving/extra.metadata.json");
  renamed.replace(renamed.find("filler100"), 9, "extra");
  write(base + "/moving/extra.metadata.json", renamed);
  refused("was not written with the others");
  fs::remove(base + "/moving/extra.bson");
  fs::remove(base + "/moving/extra.metadata.json");
  EXPECT_EQ(restore(base).status, 0);
}

TEST_F(MovingBase, AnArchiveHasItsChecksumsBesideIt) {
  const std::string path = folder_.path("base.archive");
  for (const bool gzip : {false, true}) {
    const Result<DumpFacts> facts = dump(connected(mongo_set().url("admin")),
                                         {.path = path, .form = BackupForm::kArchive, .gzip = gzip},
                                         [](std::int64_t, std::int64_t) { return Result<void>{}; });
    ASSERT_TRUE(facts) << facts.error().message();
    const Result<std::optional<Checksums>> sums = read_checksums(checksums_beside(path));
    ASSERT_TRUE(sums && *sums);
    EXPECT_EQ((*sums)->last, facts->last);
    EXPECT_EQ((*sums)->files.at("base.archive").bytes, fs::file_size(path));
    EXPECT_EQ(restore(path).status, 0);
    std::string changed = content(path);
    changed += std::string(1, '\0');
    write(path, changed);
    EXPECT_EQ(restore(path).status, 10);
    fs::remove(path);
  }
}

TEST_F(MovingBase, AnOplogFromWhichEntriesWereTakenIsRefused) {
  const std::string base = folder_.path("base");
  ASSERT_TRUE(dump_while(base, {}));
  for (int i = 0; i < 20; ++i)
    produce("moving",
            R"({"insert":"source","documents":[{"_id":)" + std::to_string(1000 + i) + "}]}");
  const std::string oplog = folder_.path("oplog.bson");
  const Ended dumped = run({"oplog", "--uri", mongo_set().url("admin"), "--out", oplog});
  ASSERT_EQ(dumped.status, 0) << dumped.err;
  const std::vector<std::string> words = {"run",       "--base", base,       "--oplog",
                                          oplog,       "--all",  "--target", target_uri(),
                                          "--include", "moving", "--dry-run"};
  for (const std::string database : {"moving", "idmint_restore", "probe"})
    mongo_command(target_uri(), database, R"({"dropDatabase":1})");
  const Ended good = run(words);
  EXPECT_EQ(good.status, 0) << good.err;
  EXPECT_THAT(good.out, Not(HasSubstr("no checksums")));
  // Three of the middle.
  const std::string whole = content(oplog);
  std::vector<std::string> entries;
  for (std::size_t at = 0; at < whole.size();) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(whole[at + i]); };
    const std::size_t size = byte(0) | std::size_t{byte(1)} << 8U | std::size_t{byte(2)} << 16U |
                             std::size_t{byte(3)} << 24U;
    entries.push_back(whole.substr(at, size));
    at += size;
  }
  const auto middle = entries.end() - 10;
  entries.erase(middle, middle + 3);
  std::string gap;
  for (const std::string& entry : entries) gap += entry;
  write(oplog, gap);
  const Ended refused = run(words);
  EXPECT_EQ(refused.status, 10) << refused.out;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("oplog.bson"), HasSubstr("is not as it was written")));
  EXPECT_EQ(run({"fence", "--target", target_uri(), "--oplog", oplog}).status, 10);
  // Without the checksums nobody can know, and that is said.
  fs::remove(checksums_beside(oplog));
  const Ended foreign = run(words);
  EXPECT_EQ(foreign.status, 0) << foreign.err;
  EXPECT_THAT(foreign.out, HasSubstr("the oplog has no checksums"));
  // A dump that goes on has those of all of it again.
  write(oplog, whole);
  produce("moving", R"({"insert":"source","documents":[{"_id":2000}]})");
  ASSERT_EQ(run({"oplog", "--uri", mongo_set().url("admin"), "--out", oplog}).status, 0);
  const Result<std::optional<Checksums>> sums = read_checksums(checksums_beside(oplog));
  ASSERT_TRUE(sums && *sums);
  EXPECT_EQ((*sums)->files.at("oplog.bson").bytes, fs::file_size(oplog));
  EXPECT_EQ(run(words).status, 0);
}

// ---- UUIDs

TEST_F(MovingBase, TheOplogOfAnotherSetIsRefused) {
  const std::string base = folder_.path("base");
  ASSERT_TRUE(dump_while(base, {}));
  // As if it were of another set: the same name, and another collection.
  const std::string oplog = folder_.path("oplog.bson");
  ASSERT_EQ(run({"oplog", "--uri", mongo_set().url("admin"), "--out", oplog}).status, 0);
  produce("moving", R"({"insert":"source","documents":[{"_id":3000}]})");
  ASSERT_EQ(run({"oplog", "--uri", mongo_set().url("admin"), "--out", oplog}).status, 0);
  const std::string metadata = base + "/moving/source.metadata.json";
  nlohmann::json facts = nlohmann::json::parse(content(metadata));
  facts["uuid"] = "00112233445566778899aabbccddeeff";
  write(metadata, facts.dump());
  fs::remove(base + "/checksums.json");
  for (const std::string database : {"moving", "idmint_restore"})
    mongo_command(target_uri(), database, R"({"dropDatabase":1})");
  const std::vector<std::string> words = {"run",       "--base", base,       "--oplog",
                                          oplog,       "--all",  "--target", target_uri(),
                                          "--include", "moving", "--dry-run"};
  const Ended refused = run(words);
  EXPECT_EQ(refused.status, 5) << refused.out << refused.err;
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("00112233445566778899aabbccddeeff"), HasSubstr("of different sets")));
  // A base that lacks the collection says that.
  fs::remove(metadata);
  fs::remove(base + "/moving/source.bson");
  const Ended lacks = run(words);
  EXPECT_EQ(lacks.status, 5) << lacks.out << lacks.err;
  EXPECT_THAT(lacks.err,
              AllOf(HasSubstr("the base lacks it"), HasSubstr("--exclude moving.source")));
}

}  // namespace
}  // namespace idmint::restore
