// idmint-restore run and verify, as operators run them: real dumps, real servers, kill -9.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "restore/tests/program.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"
#include "tests/servers/relay.h"

namespace idmint::restore {
namespace {

namespace fs = std::filesystem;
using servers::mongo_command;
using servers::MongoServer;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

struct Fixture {
  const char* name;
  const char* limit;
};
constexpr Fixture kCounter = {"s2_wrong_inc_ordinal", "1795230181:16"};
constexpr Fixture kDeletes = {"s3_mass_delete_exclusive", "1795230032:3"};

std::string path_of(const Fixture& fixture, const std::string& file) {
  return (fs::path(IDMINT_FIXTURES) / fixture.name / file).string();
}

class Run : public ::testing::Test {
 protected:
  Ended restore(std::vector<std::string> words) { return Program(folder_, std::move(words)).end(); }
  static std::vector<std::string> run_words(const Fixture& fixture) {
    return {"run",
            "--base",
            path_of(fixture, "base-dump"),
            "--oplog",
            path_of(fixture, "oplog-dump"),
            "--limit",
            fixture.limit,
            "--yes"};
  }
  // Everything is as the fixture says it was right before the mistake.
  void expect_reached(const Fixture& fixture, const std::vector<std::string>& where) {
    const Ended ended =
        restore(with({"verify", "--expected", path_of(fixture, "expected.json")}, where));
    EXPECT_EQ(ended.status, 0) << ended.out << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("No difference."));
  }

  fakes::TempFolder folder_;
};

// A server to restore to, for all tests of this program; emptied by each.
MongoServer& target() {
  static MongoServer server;
  return server;
}

std::string target_uri() { return target().url("?directConnection=true"); }

std::string ask(const std::string& database, const std::string& json) {
  return mongo_command(target_uri(), database, json);
}

void empty_target() {
  for (const char* const database : {"ids", "app", "idmint_restore", "shop"})
    ask(database, R"({"dropDatabase":1})");
}

TEST_F(Run, BothFixturesReachWhatProductionHadOnASpareServer) {
  for (const Fixture& fixture : {kCounter, kDeletes}) {
    const SpareServer spare;
    const Ended ended = restore(with(run_words(fixture), spare.words()));
    ASSERT_EQ(ended.status, 0) << ended.out << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("--shutdown --dbpath " + spare.path())) << "how to end it";
    expect_reached(fixture, spare.words());
  }
}

TEST_F(Run, ASpareThatIsEndedHasEverythingInItsFolder) {
  const SpareServer spare;
  const Ended ended = restore(with(with(run_words(kCounter), spare.words()), {"--stop"}));
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(content(spare.path() + "/mongod.lock"), "") << "ended cleanly";
  expect_reached(kCounter, spare.words());
  EXPECT_EQ(content(spare.path() + "/mongod.lock"), "") << "and verify leaves it as it was";
}

TEST_F(Run, ASpareIsOpenedAsItWasMade) {
  const SpareServer spare;
  const Ended ended = restore(with(with(run_words(kCounter), spare.words()),
                                   {"--stop", "--mongod-argument=--directoryperdb"}));
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_TRUE(fs::is_directory(spare.path() + "/admin")) << "each database has a folder";
  expect_reached(kCounter, spare.words());
  const Ended other = restore(with(with(run_words(kCounter), spare.words()),
                                   {"--mongod-argument=--journalCommitInterval=5"}));
  EXPECT_EQ(other.status, 5) << other.err;
}

TEST_F(Run, ASpareWhoseServerIsKilledGoesOnWhereItWas) {
  const SpareServer spare;
  ASSERT_EQ(restore(with(run_words(kCounter), spare.words())).status, 0);
  pid_t pid = 0;
  std::ifstream(spare.path() + "/mongod.lock") >> pid;
  ASSERT_GT(pid, 0);
  ::kill(pid, SIGKILL);
  const Ended again = restore(with(run_words(kCounter), spare.words()));
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("a run before this one"));
  expect_reached(kCounter, spare.words());
}

TEST_F(Run, AnotherRestoreOnTheSameSpareIsRefused) {
  const SpareServer spare;
  ASSERT_EQ(restore(with(run_words(kCounter), spare.words())).status, 0);
  std::vector<std::string> words = run_words(kCounter);
  words[6] = "1795230181:15";
  const Ended other = restore(with(words, spare.words()));
  EXPECT_EQ(other.status, 4) << other.err;
  EXPECT_THAT(other.err, HasSubstr("another restore in "));
}

// The restore is killed where its next request has `text` in it. The request never reaches the
// server or, if `late`, does while the next run is at work already, as one that was under way may.
struct Point {
  const char* text;
  bool late;
};

class Killed : public Run, public ::testing::WithParamInterface<Point> {};

TEST_P(Killed, GoesOnToTheSameEnd) {
  empty_target();
  const auto words = [](const std::string& uri) {
    return with(run_words(kCounter), {"--target", uri, "--writers", "2"});
  };
  {
    servers::Relay relay(target().port());
    relay.hold_requests(1, GetParam().text);
    Program program(folder_, words("mongodb://" + relay.host() + "/?directConnection=true"));
    while (relay.counts().held == 0) ASSERT_TRUE(program.runs()) << "and sent no such request";
    EXPECT_EQ(program.kill().status, 128 + SIGKILL);
    if (GetParam().late) relay.let_go();
    const Ended ended = restore(words(target_uri()));
    ASSERT_EQ(ended.status, 0) << ended.out << ended.err;
  }
  expect_reached(kCounter, {"--target", target_uri()});
}

void PrintTo(const Point& point, std::ostream* out) {
  *out << point.text << (point.late ? ", late" : ", never");
}

INSTANTIATE_TEST_SUITE_P(Requests, Killed, ::testing::ValuesIn([] {
                           std::vector<Point> points;
                           for (const char* const text :
                                {"idIndex", "uniqueIdentifierCounter", "insert",
                                 "base:ids.accounts", "base:ids.uniqueIdentifierCounter", "slice",
                                 "replay:slice:0:0", "replay:slice:1:1", "indexes", "createIndexes",
                                 "replay:oplog:commands", "replay:oplog:0:0", "replay:oplog:1:1",
                                 "replay:oplog:commands:1", "done"}) {
                             points.push_back({text, false});
                             points.push_back({text, true});
                           }
                           return points;
                         }()));

// Killed when it has loaded the documents of the base.
class Ttl : public Run {
 protected:
  Ttl() {
    empty_target();
    turn_on();
    servers::Relay relay(target().port());
    relay.hold_requests(1, "slice");
    Program program(folder_,
                    with(run_words(kCounter),
                         {"--target", "mongodb://" + relay.host() + "/?directConnection=true"}));
    while (relay.counts().held == 0) EXPECT_TRUE(program.runs());
    program.kill();
  }
  static void turn_on() { ask("admin", R"({"setParameter":1,"ttlMonitorEnabled":true})"); }
  static bool is_on() {
    return ask("admin", R"({"getParameter":1,"ttlMonitorEnabled":1})").find("true") !=
           std::string::npos;
  }

  const std::vector<std::string> words_ = with(run_words(kCounter), {"--target", target_uri()});
};

TEST_F(Ttl, IsTurnedOffAndEachRunSaysSo) {
  EXPECT_FALSE(is_on());
  const Ended again = restore(words_);
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("setParameter: 1, ttlMonitorEnabled: true"));
  turn_on();  // by who has read it
  EXPECT_EQ(restore(words_).status, 0);
  EXPECT_TRUE(is_on());
}

TEST_F(Ttl, MayHaveDeletedWhatWasRestoredWhereItIsOnAgain) {
  turn_on();  // as a server that was started again has it
  ASSERT_THAT(ask("ids", R"({"createIndexes":"accounts","indexes":[
                    {"key":{"at":1},"name":"at","expireAfterSeconds":1}]})"),
              Not(HasSubstr("errmsg")));
  const Ended again = restore(words_);
  EXPECT_EQ(again.status, 11) << again.out;
  EXPECT_THAT(again.err, HasSubstr("may have deleted what was restored"));
}

TEST_F(Run, ACollectionThatHasLostDocumentsIsLoadedAgain) {
  empty_target();
  servers::Relay relay(target().port());
  relay.hold_requests(1, "$group");
  Program program(folder_, with(run_words(kCounter), {"--target", "mongodb://" + relay.host() +
                                                                      "/?directConnection=true"}));
  while (relay.counts().held == 0) ASSERT_TRUE(program.runs()) << "and counted nothing";
  // As if the server had been killed, and were back without it.
  ask("ids", R"({"delete":"accounts","deletes":[{"q":{"_id":{"$exists":true}},"limit":1}]})");
  relay.let_go();
  const Ended ended = program.end();
  EXPECT_EQ(ended.status, 7) << ended.out;
  EXPECT_THAT(ended.err, HasSubstr("has 199 documents"));
  const Ended again = restore(with(run_words(kCounter), {"--target", target_uri()}));
  ASSERT_EQ(again.status, 0) << again.err;
  expect_reached(kCounter, {"--target", target_uri()});
}

// The offsets at which its documents begin, and its end.
std::vector<std::size_t> offsets_of(const std::string& bson) {
  std::vector<std::size_t> offsets = {0};
  while (offsets.back() + 4 <= bson.size()) {
    std::uint32_t size = 0;
    std::memcpy(&size, bson.data() + offsets.back(), sizeof size);
    offsets.push_back(offsets.back() + size);
  }
  return offsets;
}

class Refused : public Run {
 protected:
  Refused() {
    fs::copy(path_of(kCounter, "base-dump"), base_, fs::copy_options::recursive);
    fs::copy_file(path_of(kCounter, "oplog-dump/local/oplog.rs.bson"), oplog_);
  }

  // With words of their own, which come after those of the fixture.
  void expect_refused(int status, const std::string& message,
                      const std::vector<std::string>& more = {},
                      const std::string& limit = kCounter.limit) {
    const SpareServer spare;
    const Ended ended = restore(with(
        with({"run", "--base", base_, "--oplog", oplog_, "--limit", limit, "--yes"}, spare.words()),
        more));
    EXPECT_EQ(ended.status, status) << ended.out << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(message));
    EXPECT_FALSE(fs::exists(spare.path())) << "before anything is written";
  }
  void change_oplog(const std::function<void(std::string&)>& change) {
    std::string bytes = content(path_of(kCounter, "oplog-dump/local/oplog.rs.bson"));
    change(bytes);
    write(oplog_, bytes);
  }

  const std::string base_ = folder_.path("base");
  const std::string oplog_ = folder_.path("oplog.bson");
};

TEST_F(Refused, NotAnOplogThatHasGrownNorOtherWriters) {
  const std::vector<std::size_t> offsets =
      offsets_of(content(path_of(kCounter, "oplog-dump/local/oplog.rs.bson")));
  const SpareServer spare;
  const std::vector<std::string> words =
      with({"run", "--base", base_, "--oplog", oplog_, "--limit", kCounter.limit, "--yes"},
           spare.words());
  change_oplog([&](std::string& bytes) { bytes.resize(offsets[offsets.size() - 2]); });
  ASSERT_EQ(restore(words).status, 0);
  change_oplog([](std::string&) {});
  const Ended again = restore(with(words, {"--writers", "2"}));
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("a run before this one"));
}

TEST_F(Refused, AnOplogThatIsCutOrDamaged) {
  const std::vector<std::size_t> offsets =
      offsets_of(content(path_of(kCounter, "oplog-dump/local/oplog.rs.bson")));
  ASSERT_GT(offsets.size(), 800U);
  change_oplog([&](std::string& bytes) { bytes.resize(offsets[700] + 3); });
  expect_refused(10, "byte " + std::to_string(offsets[700]));
  change_oplog([&](std::string& bytes) { bytes.resize(offsets[701] - 1); });
  expect_refused(10, "byte " + std::to_string(offsets[700]));
  change_oplog([&](std::string& bytes) { bytes[offsets[700] + 4] = '\x7e'; });
  expect_refused(10, "byte " + std::to_string(offsets[700]));
  change_oplog([](std::string& bytes) { bytes.clear(); });
  expect_refused(10, "");
  change_oplog([&](std::string& bytes) {
    const std::string one = bytes.substr(offsets[700], offsets[701] - offsets[700]);
    const std::string two = bytes.substr(offsets[701], offsets[702] - offsets[701]);
    bytes.replace(offsets[700], one.size() + two.size(), two + one);
  });
  expect_refused(10, "byte " + std::to_string(offsets[700] + offsets[702] - offsets[701]));
}

TEST_F(Refused, AnOplogThatDoesNotCoverTheTimeBetween) {
  const std::vector<std::size_t> offsets =
      offsets_of(content(path_of(kCounter, "oplog-dump/local/oplog.rs.bson")));
  change_oplog([&](std::string& bytes) { bytes.erase(0, offsets[700]); });
  expect_refused(6, "");  // begins after the base
  change_oplog([&](std::string& bytes) { bytes.resize(offsets[700]); });
  expect_refused(6, "");  // ends before the limit
}

TEST_F(Refused, LimitsOutsideTheWindow) {
  expect_refused(2, "", {}, "0:0");
  expect_refused(2, "", {}, "1795230181");
  expect_refused(6, "", {}, "4000000000:1");
  expect_refused(6, "take an older base", {}, "1795230178:630");
  expect_refused(6, "take an older base", {}, "1:1");
}

TEST_F(Refused, ABaseThatIsCutOrDamaged) {
  const std::string file = base_ + "/ids/accounts.bson";
  const std::string whole = content(file);
  write(file, whole.substr(0, whole.size() - 1));
  expect_refused(10, "accounts.bson");
  write(file, whole);
  const std::string slice = content(base_ + "/oplog.bson");
  write(base_ + "/oplog.bson", slice.substr(0, slice.size() - 1));
  expect_refused(10, "oplog.bson");
  write(base_ + "/oplog.bson", slice);
  fs::create_directories(base_ + "/config");
  fs::copy_file(file, base_ + "/config/shards.bson");
  expect_refused(5, "shard");
}

TEST_F(Refused, ADamagedBaseAfterARunHadCheckedItToo) {
  const SpareServer spare;
  const std::vector<std::string> words =
      with({"run", "--base", base_, "--oplog", oplog_, "--limit", kCounter.limit}, spare.words());
  ASSERT_EQ(restore(with(words, {"--yes"})).status, 0);
  const Ended same = restore(with(words, {"--dry-run", "--json"}));
  EXPECT_EQ(same.status, 0) << same.err;
  EXPECT_THAT(same.out, HasSubstr("its documents were not read again"));
  // The file keeps its size and its time.
  const std::string file = base_ + "/ids/accounts.bson";
  const auto time = fs::last_write_time(file);
  std::string bytes = content(file);
  bytes[bytes.size() - 1] = 1;
  write(file, bytes);
  fs::last_write_time(file, time);
  const Ended damaged = restore(with(words, {"--dry-run"}));
  EXPECT_EQ(damaged.status, 10) << damaged.out;
  EXPECT_THAT(damaged.err, HasSubstr("accounts.bson"));
}

TEST_F(Refused, AFileWhoseNameIsATrick) {
  const std::string file = base_ + "/ids/accounts.bson";
  for (const char* const name : {"/ids/..%2Fup", "/ids/a%00b", "/ids/%2", "/ids/a%24b"}) {
    fs::copy_file(file, base_ + name + ".bson");
    expect_refused(10, name);
    fs::remove(base_ + name + ".bson");
  }
  fs::create_directories(base_ + "/a b");
  fs::copy_file(file, base_ + "/a b/c.bson");
  expect_refused(10, "a b");
}

TEST_F(Refused, AnArchiveThatIsDamaged) {
  const std::string whole =
      content(std::string(IDMINT_FIXTURES) + "/mongo_tools/with_oplog.archive");
  const std::string archive = folder_.path("archive");
  const auto expect = [&](const std::string& bytes, const std::string& says) {
    write(archive, bytes);
    const SpareServer spare;
    const Ended ended = restore(
        with({"run", "--base", archive, "--oplog", oplog_, "--limit", kCounter.limit, "--yes"},
             spare.words()));
    EXPECT_EQ(ended.status, 10) << ended.out << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(archive));
    EXPECT_THAT(ended.err, HasSubstr(says));
    EXPECT_FALSE(fs::exists(spare.path()));
  };
  std::string flipped = whole;
  flipped[whole.size() - 12] ^= 1;  // of the last CRC
  expect(flipped, "CRC");
  expect(whole.substr(0, whole.size() - 40), "byte ");
  expect("", "no archive");
}

TEST_F(Refused, ABaseWhoseMomentNobodyKnows) {
  fs::remove(base_ + "/oplog.bson");
  {
    const SpareServer alone;
    const Ended ended = restore(with({"run", "--base", base_, "--yes"}, alone.words()));
    EXPECT_EQ(ended.status, 0) << ended.err << "which is of no matter without an oplog";
  }
  expect_refused(5, "--base-at");
  expect_refused(6, "", {"--base-at", "1795230178:629"});  // no such entry
  const SpareServer spare;
  EXPECT_EQ(restore(with(with({"run", "--base", base_, "--oplog", oplog_, "--limit", kCounter.limit,
                               "--yes", "--base-at", "1795230178:630"},
                              spare.words()),
                         {}))
                .status,
            0);
}

TEST_F(Refused, TheDataFolderOfAServerThatRuns) {
  const std::string folder = target().folder();
  const std::vector<std::string> words = {"run",          "--data-copy", folder,
                                          "--oplog",      oplog_,        "--limit",
                                          kCounter.limit, "--mongod",    servers::mongod_program(),
                                          "--yes"};
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--dry-run"}, {}}) {
    const Ended ended = restore(with(words, more));
    EXPECT_EQ(ended.status, 5) << ended.out;
    EXPECT_THAT(ended.err, HasSubstr("a mongod runs on"));
  }
  EXPECT_FALSE(fs::exists(folder + "/idmint-restore.json"));
  EXPECT_FALSE(fs::exists(folder + "/mongod.log"));
}

TEST_F(Refused, ADamagedOplogBeforeACopyIsRecovered) {
  fs::create_directories(folder_.path("copy"));
  write(folder_.path("copy/WiredTiger"), "a copy");
  change_oplog([](std::string& bytes) { bytes.pop_back(); });
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--dry-run"}, {}}) {
    const Ended ended =
        restore(with({"run", "--data-copy", folder_.path("copy"), "--oplog", oplog_, "--limit",
                      kCounter.limit, "--mongod", servers::mongod_program(), "--yes"},
                     more));
    EXPECT_EQ(ended.status, 10) << ended.out << ended.err;
  }
  EXPECT_FALSE(fs::exists(folder_.path("copy/idmint-restore.json")));
}

TEST_F(Run, ASpareThatRanBeforeIsLeftRunning) {
  const SpareServer spare;
  ASSERT_EQ(restore(with(run_words(kCounter), spare.words())).status, 0);
  std::vector<std::string> words = run_words(kCounter);
  words[6] = "1795230181:15";
  EXPECT_EQ(restore(with(words, spare.words())).status, 4);
  EXPECT_NE(content(spare.path() + "/mongod.lock"), "") << "it was ended";
  EXPECT_EQ(restore(with(with(run_words(kCounter), spare.words()), {"--stop"})).status, 0);
  EXPECT_EQ(content(spare.path() + "/mongod.lock"), "");
}

TEST_F(Refused, AServerOfAnotherSeries) {
  std::string prelude = content(base_ + "/prelude.json");
  prelude.replace(prelude.find("6.0.5"), 5, "5.0.9");
  write(base_ + "/prelude.json", prelude);
  expect_refused(5, "the backup is of MongoDB 5.0.9");
}

TEST_F(Refused, AFolderThatHoldsSomethingElse) {
  const SpareServer spare;
  fs::create_directories(spare.path());
  write(spare.path() + "/notes", "mine");
  const std::vector<std::string> words = with(run_words(kCounter), spare.words());
  const Ended ended = restore(words);
  EXPECT_EQ(ended.status, 4) << ended.err;
  EXPECT_EQ(restore(with(words, {"--dry-run"})).status, 4);
  EXPECT_EQ(content(spare.path() + "/notes"), "mine");
  EXPECT_FALSE(fs::exists(spare.path() + "/idmint-restore.json"));
}

TEST_F(Refused, ATargetThatIsNotEmptyOrOfAReplicaSet) {
  empty_target();
  ask("shop", R"({"create":"orders"})");
  const Ended full = restore(with(run_words(kCounter), {"--target", target_uri()}));
  EXPECT_EQ(full.status, 4);
  EXPECT_THAT(full.err, HasSubstr("is not empty: it has shop.orders"));
  EXPECT_THAT(ask("admin", R"({"listDatabases":1,"nameOnly":true})"),
              Not(HasSubstr("idmint_restore")));
  empty_target();
  const Ended member =
      restore(with(run_words(kCounter), {"--target", servers::mongo_set().url("")}));
  EXPECT_EQ(member.status, 5);
  EXPECT_THAT(member.err, HasSubstr("is a member of the replica set set"));
}

TEST_F(Refused, ATargetWithTheRecordOfAnother) {
  struct Found {
    const char* record;
    int status;
    const char* says;
  };
  for (const auto& [record, status, says] :
       {Found{R"({"_id":"run","stage":"base","fingerprint":{"base":"another"}})", 4,
              "it has other inputs or another limit"},
        Found{R"({"_id":"run","stage":"slice"})", 10, "is damaged: empty the target"},
        Found{R"({"_id":"run","stage":"somewhere","fingerprint":{}})", 10, "is damaged"},
        Found{R"({"_id":"run"})", 10, "is damaged"}}) {
    empty_target();
    ask("idmint_restore", R"({"insert":"progress","documents":[)" + std::string(record) + "]}");
    const Ended ended = restore(with(run_words(kCounter), {"--target", target_uri()}));
    EXPECT_EQ(ended.status, status) << record << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(says)) << record;
    EXPECT_THAT(ask("ids", R"({"listCollections":1})"), HasSubstr(R"("firstBatch" : [  ])"))
        << record;
  }
  empty_target();
}

// The target is a set, as a standalone of this version has no users without a restart.
TEST_F(Refused, AUserWhoMayNotRestoreViews) {
  servers::MongoSet set({.users = true, .members = 1});
  const std::vector<std::string> words =
      with(run_words(kCounter), {"--target", set.url(""), "--allow-replica-set"});
  const Ended refused = restore(words);
  EXPECT_EQ(refused.status, 9) << refused.out << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("createRole"));
  EXPECT_THAT(refused.err, Not(HasSubstr("root:r@"))) << "no passwords in messages";
  mongo_command(set.direct(0), "admin", R"({"createRole":"idmintRestore","privileges":[
      {"resource":{"anyResource":true},"actions":["anyAction"]}],"roles":[]})");
  mongo_command(set.direct(0), "admin", R"({"grantRolesToUser":"root","roles":["idmintRestore"]})");
  mongo_command(set.direct(0), "probe", R"({"dropDatabase":1})");  // what made the set
  const Ended ended = restore(words);
  ASSERT_EQ(ended.status, 0) << ended.err;
  expect_reached(kCounter, {"--target", set.url("")});
  const std::string page = folder_.path("report.html");
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--json"}}) {
    EXPECT_THAT(restore(with(words, more)).out, Not(HasSubstr("root:r@")));
    const Ended compared = restore(
        with({"verify", "--target", set.url(""), "--against", set.url(""), "--html", page}, more));
    EXPECT_EQ(compared.status, 0) << compared.err;
    EXPECT_THAT(compared.out, Not(HasSubstr("root:r@")));
    EXPECT_THAT(content(page), Not(HasSubstr("root:r@")));
  }
}

TEST_F(Refused, WithoutAYes) {
  const SpareServer spare;
  std::vector<std::string> words = with(run_words(kCounter), spare.words());
  std::erase(words, "--yes");
  const Ended ended = restore(words);
  EXPECT_EQ(ended.status, 5);
  EXPECT_THAT(ended.err, HasSubstr("add --yes"));
  EXPECT_THAT(ended.out,
              EndsWith("\n  note          of the base are left out: admin.system.version\n"))
      << "before the question";
  EXPECT_FALSE(fs::exists(spare.path()));
  const Ended dry = restore(with(words, {"--dry-run"}));
  EXPECT_EQ(dry.status, 0) << dry.err;
  EXPECT_THAT(dry.out, HasSubstr("810 operations before it; the last entry is 1795230181:15"));
  EXPECT_THAT(dry.out, HasSubstr("Nothing was written"));
  const Ended mistyped = restore(with(words, {"--dry-run", "--include", "idz"}));
  EXPECT_THAT(mistyped.out, HasSubstr("leave nothing of the base"));
  EXPECT_FALSE(fs::exists(spare.path()));
}

TEST_F(Run, ATargetDeletesNothingByItself) {
  empty_target();
  ask("admin", R"({"setParameter":1,"ttlMonitorEnabled":true})");
  const Ended ended = restore(with(run_words(kCounter), {"--target", target_uri()}));
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("TTL monitor of"));
  EXPECT_THAT(ask("admin", R"({"getParameter":1,"ttlMonitorEnabled":1})"),
              HasSubstr(R"("ttlMonitorEnabled" : false)"));
}

TEST_F(Run, NamespacesThatAreLeftOut) {
  empty_target();
  const std::vector<std::string> where = {"--target", target_uri()};
  ASSERT_EQ(restore(with(with(run_words(kCounter), where), {"--exclude", "ids.acc*"})).status, 0);
  EXPECT_THAT(ask("ids", R"({"listCollections":1})"), Not(HasSubstr("accounts")));
  const std::vector<std::string> against =
      with({"verify", "--expected", path_of(kCounter, "expected.json")}, where);
  EXPECT_EQ(restore(with(against, {"--include", "ids.unique*"})).status, 0);
  const Ended all = restore(against);
  EXPECT_EQ(all.status, 10) << "which is seen";
  EXPECT_THAT(all.out, HasSubstr("ids.accounts: collection\n  is         missing"));
}

TEST_F(Run, AnEntryIsLeftOut) {
  empty_target();
  const std::vector<std::string> words = with(run_words(kCounter), {"--target", target_uri()});
  const Ended ended = restore(with(words, {"--skip", "1795230181:12"}));
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("left out"));
  EXPECT_THAT(ended.out, HasSubstr("i on ids.accounts"));
  EXPECT_THAT(ask("ids", R"({"count":"accounts"})"), HasSubstr(R"("n" : 604)"));
  EXPECT_EQ(restore({"verify", "--target", target_uri()}).status, 0);
  // Another restore.
  EXPECT_EQ(restore(words).status, 4);
}

TEST_F(Run, AnEntryThatALaterOneNeedsIsLeftOutByForce) {
  empty_target();
  const std::vector<std::string> words =
      with(run_words(kCounter), {"--target", target_uri(), "--skip", "1795230180:392"});
  const Ended refused = restore(words);
  EXPECT_EQ(refused.status, 5) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("touches that document"));
  const Ended forced = restore(with(words, {"--force-skip"}));
  EXPECT_EQ(forced.status, 0) << forced.err;
}

TEST_F(Run, ALimitMayBeATime) {
  std::vector<std::string> words = run_words(kCounter);
  words[5] = "--before";
  words[6] = "2026-11-21T03:03:01Z";
  const SpareServer spare;
  const Ended dry = restore(with(with(words, spare.words()), {"--dry-run"}));
  ASSERT_EQ(dry.status, 0) << dry.err;
  EXPECT_THAT(dry.out, HasSubstr("1795230181:0"));
  EXPECT_THAT(dry.out, HasSubstr("1795230180:408"));
  EXPECT_THAT(dry.out, HasSubstr("of the base are left out: admin.system.version"));
  words[6] = "2026-11-21T03:03:01.5Z";
  EXPECT_EQ(restore(with(words, spare.words())).status, 2);
  EXPECT_EQ(restore(with(with(words, spare.words()), {"--limit", kCounter.limit})).status, 2);
}

TEST_F(Run, AllOfAnOplogOrNoneOfItIsRestored) {
  empty_target();
  const std::vector<std::string> where = {"--target", target_uri()};
  const std::vector<std::string> base = {"run", "--base", path_of(kCounter, "base-dump"), "--yes"};
  const std::vector<std::string> oplog = {"--oplog", path_of(kCounter, "oplog-dump")};
  const Ended all = restore(with(with(with(base, oplog), where), {"--all"}));
  ASSERT_EQ(all.status, 0) << all.err;
  EXPECT_THAT(all.out, HasSubstr("none: all of the oplog"));
  EXPECT_THAT(ask("ids", R"({"find":"uniqueIdentifierCounter"})"), HasSubstr("4000000045"))
      << "the mistake, too";
  EXPECT_EQ(restore(with({"verify"}, where)).status, 0);

  empty_target();
  const Ended alone = restore(with(base, where));
  ASSERT_EQ(alone.status, 0) << alone.err;
  EXPECT_THAT(alone.out, HasSubstr("none: the base alone"));
  EXPECT_THAT(alone.out, Not(HasSubstr("  oplog  ")));
  EXPECT_THAT(ask("ids", R"({"count":"accounts"})"), HasSubstr(R"("n" : 200)"));
  EXPECT_EQ(restore(with({"verify"}, where)).status, 0);
  EXPECT_THAT(restore(with(with(base, where), {"--json", "--dry-run"})).out,
              HasSubstr(R"("limit":null)"));

  // As wanted, and said.
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"--all"}, {"--limit", kCounter.limit}, {"--skip", "1:1"}}) {
    const Ended refused = restore(with(with(base, where), wrong));
    EXPECT_EQ(refused.status, 2) << wrong.front();
    EXPECT_THAT(refused.err, HasSubstr("--oplog OPLOG"));
  }
  const Ended neither = restore(with(with(base, oplog), where));
  EXPECT_EQ(neither.status, 2);
  EXPECT_THAT(neither.err, HasSubstr("--all"));
}

TEST_F(Run, VerifySeesEveryKindOfDifference) {
  empty_target();
  const std::vector<std::string> where = {"--target", target_uri()};
  ASSERT_EQ(restore(with(run_words(kCounter), where)).status, 0);
  const std::vector<std::string> words =
      with({"verify", "--expected", path_of(kCounter, "expected.json"), "--html",
            folder_.path("report.html")},
           where);
  ask("ids",
      R"({"update":"uniqueIdentifierCounter","updates":[{"q":{},"u":{"$inc":{"COUNT":1}}}]})");
  ask("ids", R"({"dropIndexes":"accounts","index":"account_1"})");
  ask("ids", R"({"collMod":"accounts","validator":{"a":{"$exists":true}}})");
  ask("ids", R"({"delete":"accounts","deletes":[{"q":{},"limit":1}]})");
  ask("ids", R"({"create":"more<b>"})");
  const Ended text = restore(words);
  EXPECT_EQ(text.status, 10);
  // A long path begins a line.
  EXPECT_THAT(text.out, AllOf(HasSubstr("\n  page          written to"),
                              HasSubstr(" " + folder_.path("report.html") + "\n")));
  for (const char* const line : {"ids.uniqueIdentifierCounter: documents\n",
                                 "ids.accounts: index account_1\n", "ids.accounts: options\n",
                                 "ids.accounts: count by the oplog\n  is         604\n"
                                 "  should be  605 = 200 + 405 - 0\n",
                                 "ids.accounts: count\n", "ids.more<b>: collection\n"})
    EXPECT_THAT(text.out, HasSubstr(line));
  const std::string page = content(folder_.path("report.html"));
  EXPECT_THAT(page, HasSubstr("<td>ids.more&lt;b&gt;</td>"));
  EXPECT_THAT(page, HasSubstr("<td>index account_1</td>"));
  const Ended json = restore(with(words, {"--json"}));
  EXPECT_EQ(json.status, 10);
  EXPECT_THAT(json.out, HasSubstr(R"("differs":true)"));
  EXPECT_THAT(json.out, HasSubstr(R"("expected":{"base":200,"inserts":405,"deletes":0})"));
}

TEST_F(Run, UpdatesThatFoundNothingAreADifference) {
  empty_target();
  const std::vector<std::string> where = {"--target", target_uri()};
  const std::string oplog = folder_.path("oplog.bson");
  std::string bytes = content(path_of(kCounter, "oplog-dump/local/oplog.rs.bson"));
  const std::size_t update = bytes.find("COUNTER", offsets_of(bytes)[809]);
  ASSERT_NE(update, std::string::npos);
  bytes[update] = 'X';
  write(oplog, bytes);
  std::vector<std::string> words = with(run_words(kCounter), where);
  words[4] = oplog;
  const Ended ended = restore(words);
  EXPECT_EQ(ended.status, 10) << ended.out << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("Restored, but not to be trusted"));
  EXPECT_THAT(ended.out, HasSubstr("1 update found no document"));
  const Ended verified = restore(with({"verify", "--forget"}, where));
  EXPECT_EQ(verified.status, 10) << verified.out;
  EXPECT_THAT(verified.out, HasSubstr("updates that found no document\n  is         1\n"));
}

TEST_F(Run, VerifyAgainstALiveServerAndThenForgets) {
  empty_target();
  const std::vector<std::string> where = {"--target", target_uri()};
  ASSERT_EQ(restore(with(run_words(kDeletes), where)).status, 0);
  const SpareServer spare;
  ASSERT_EQ(restore(with(run_words(kDeletes), spare.words())).status, 0);
  const Ended same =
      restore(with({"verify", "--against", target_uri(), "--forget"}, spare.words()));
  EXPECT_EQ(same.status, 0) << same.out << same.err;
  EXPECT_THAT(same.out, HasSubstr("app.events"));
  const Ended forgotten = restore(with({"verify"}, spare.words()));
  EXPECT_EQ(forgotten.status, 3) << forgotten.out;
  EXPECT_THAT(forgotten.err, HasSubstr("has no record of a restore"));
  const Ended saved = restore(with({"verify", "--save", spare.path() + "/is.json"}, spare.words()));
  EXPECT_EQ(saved.status, 0) << saved.err;
  EXPECT_THAT(saved.out, HasSubstr("Nothing was compared"));
}

// An index that production builds at the time is in no restored server, and is no difference yet.
TEST_F(Run, VerifyAgainstASetThatBuildsAnIndex) {
  servers::MongoSet set({.members = 1});
  const std::string production = set.url("");
  mongo_command(production, "probe", R"({"dropDatabase":1})");  // of the set's start
  const Ended made =
      restore(with(run_words(kDeletes), {"--target", production, "--allow-replica-set"}));
  ASSERT_EQ(made.status, 0) << made.err;
  const SpareServer spare;
  ASSERT_EQ(restore(with(run_words(kDeletes), spare.words())).status, 0);
  const auto tell = [&](const std::string& database, const std::string& json) {
    return mongo_command(production, database, json);
  };
  tell("admin", R"({"configureFailPoint":"hangAfterStartingIndexBuild","mode":"alwaysOn"})");
  std::thread building([&] {
    tell("app", R"({"createIndexes":"events","indexes":[{"key":{"built":1},"name":"built"}]})");
  });
  while (!tell("app", R"({"listIndexes":"events","includeBuildUUIDs":true})").contains("buildUUID"))
    std::this_thread::yield();
  const std::vector<std::string> words = with({"verify", "--against", production}, spare.words());
  const Ended same = restore(words);
  tell("admin", R"({"configureFailPoint":"hangAfterStartingIndexBuild","mode":"off"})");
  building.join();
  EXPECT_THAT(same.out, Not(HasSubstr("index built"))) << same.err;
  EXPECT_EQ(same.status, 0) << same.out << same.err;
  const Ended differs = restore(words);
  EXPECT_EQ(differs.status, 10) << differs.out;
  EXPECT_THAT(differs.out, HasSubstr("built"));
}

TEST_F(Run, VerifyNamesTheFirstDocumentsThatDiffer) {
  empty_target();
  ASSERT_EQ(restore(with(run_words(kDeletes), {"--target", target_uri()})).status, 0);
  const SpareServer spare;
  ASSERT_EQ(restore(with(run_words(kDeletes), spare.words())).status, 0);
  for (const char* const change :
       {R"({"update":"events","updates":[{"q":{},"u":{"$set":{"changed":{"by":"hand","n":1}}}}]})",
        R"({"delete":"events","deletes":[{"q":{"changed":{"$exists":false}},"limit":1}]})",
        R"({"insert":"events","documents":[{"_id":{"$maxKey":1},"last":true}]})"})
    ask("app", change);
  const std::string page = folder_.path("page.html");
  const std::vector<std::string> words =
      with({"verify", "--against", target_uri(), "--html", page}, spare.words());
  const Ended differs = restore(words);
  EXPECT_EQ(differs.status, 10) << differs.err;
  EXPECT_THAT(differs.out,
              AllOf(HasSubstr("  should be     on " + target_uri()),
                    HasSubstr(", changed\n  is         missing\n"
                              "  should be  {\"by\":\"hand\",\"n\":1}\n"),
                    HasSubstr("\n  is         there\n  should be  missing\n"),
                    HasSubstr("app.events: document {\"$maxKey\":1}\n  is         missing\n"
                              "  should be  there\n")));
  EXPECT_THAT(content(page), AllOf(HasSubstr("<tr class=\"differs\">"), HasSubstr("Oplog"),
                                   HasSubstr("changed</td>")));
  const Ended json = restore(with(words, {"--json"}));
  EXPECT_THAT(json.out, HasSubstr(R"("first_documents":[{"ns":"app.events","what":"document )"));
}

}  // namespace
}  // namespace idmint::restore
