// run, killed and stopped anywhere, and gone on with. IDMINT_FAULT_ROUNDS sets how often it is
// killed, IDMINT_FAULT_SEED repeats a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "restore/replay/record.h"
#include "restore/replay/state.h"
#include "restore/tests/production.h"
#include "restore/tests/program.h"
#include "restore/tests/random_work.h"
#include "restore/tests/workload.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"
#include "tests/servers/relay.h"

namespace idmint::restore {
namespace {

namespace fs = std::filesystem;
using servers::MongoServer;
using servers::MongoSet;
using servers::Relay;
using ::testing::HasSubstr;

std::string uri_of(const std::string& host) {
  return "mongodb://" + host + "/?directConnection=true";
}

// The inputs of the restore: many documents in a base that was taken while others wrote, and an
// oplog with commands and many entries.
struct Inputs {
  fakes::TempFolder folder;
  std::string base = folder.path("base");
  std::string oplog = folder.path("oplog.bson");
  Timestamp limit{};
  State should;
};

void fill(Production& production, const std::string& ns, int documents) {
  const std::string text(100, 'x');
  std::string all;
  for (int i = 0; i < documents; ++i)
    all += (i == 0 ? "" : ",") + (R"({"_id":)" + std::to_string(i) + R"(,"a":)" +
                                  std::to_string(i * 7 % 1000) + R"(,"text":")" + text + "\"}");
  production.insert(ns, all);
}

std::unique_ptr<Inputs> make_inputs(unsigned seed) {
  auto inputs = std::make_unique<Inputs>();
  std::mt19937 random(seed);
  const MongoSet set({.members = 1});
  Production production(set.url(""));
  for (const char* const name : {"one", "two", "three", "four", "five"}) {
    fill(production, std::string("filled.") + name, 4000);
    production.run("filled", R"({"createIndexes":")" + std::string(name) + R"(","indexes":[
        {"key":{"a":1},"name":"a"},{"key":{"text":1,"a":1},"name":"text"}]})");
  }
  collections_of_every_kind(production);
  RandomWork work(production, random);
  work.renames = false;
  work.steps(100);
  work.open_transactions();
  const Timestamp from = production.now();
  Program dump(inputs->folder, {"dump", "--uri", set.url(""), "--out", inputs->base});
  while (dump.runs()) work.step();
  const Ended dumped = dump.end();
  EXPECT_EQ(dumped.status, 0) << dumped.err;
  work.renames = true;
  work.steps(150);
  production.run("filled",
                 R"({"update":"one","updates":[{"q":{},"u":{"$inc":{"a":1}},"multi":true}]})");
  production.run("filled",
                 R"({"update":"two","updates":[{"q":{},"u":{"$push":{"b":1}},"multi":true}]})");
  production.run("filled", R"({"delete":"three","deletes":[{"q":{"a":{"$lt":500}},"limit":0}]})");
  work.steps(50);
  inputs->should = state_of(production.server());
  for (auto& [ns, facts] : inputs->should) make_permanent(facts.options);
  inputs->limit = production.now();
  production.dump_oplog(from, inputs->oplog);
  return inputs;
}

class Stopped : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    seed = number_given("IDMINT_FAULT_SEED", std::random_device{}());
    std::cout << "IDMINT_FAULT_SEED=" << seed << '\n' << std::flush;
    inputs = make_inputs(seed);
    spare = std::make_unique<MongoServer>();
  }
  static void TearDownTestSuite() {
    inputs.reset();
    spare.reset();
  }

  [[nodiscard]] std::vector<std::string> run_words(const std::vector<std::string>& where) const {
    return with({"run", "--base", inputs->base, "--oplog", inputs->oplog, "--limit",
                 print_timestamp(inputs->limit), "--yes"},
                where);
  }
  [[nodiscard]] std::vector<std::string> to(const std::string& host) const {
    // A relay has another port each time, and the report is still that of the server behind it.
    return run_words(
        {"--target", uri_of(host), "--writers", "3", "--report", folder_.path("report.json")});
  }
  Ended restore(std::vector<std::string> words) { return Program(folder_, std::move(words)).end(); }
  void expect_end(const Ended& ended, Server& server) {
    ASSERT_EQ(ended.status, 0) << ended.out << ended.err;
    EXPECT_EQ(in_lines(differences(state_of(server), inputs->should)), "");
  }

  static inline unsigned seed = 0;
  static inline std::unique_ptr<Inputs> inputs;
  static inline std::unique_ptr<MongoServer> spare;
  fakes::TempFolder folder_;
  std::mt19937 random_{seed};
};

TEST_F(Stopped, KilledAtAnyRequestItGoesOnToTheSameEnd) {
  const unsigned rounds = number_given("IDMINT_FAULT_ROUNDS", 3);
  Production target(spare->url(""));
  const auto requests = [](Relay& relay) { return static_cast<unsigned>(relay.counts().requests); };
  // About how many requests a run has sent when each of its stages begins.
  constexpr std::size_t kStages = 4;
  std::array<unsigned, kStages + 1> begin{};
  {
    Relay relay(spare->port());
    Program program(folder_, to(relay.host()));
    for (std::size_t seen = 0; program.runs();) {
      const Result<std::optional<Record>> record = Record::find(target.server());
      if (!record) continue;
      const std::optional<Record>& found = *record;
      if (!found) continue;
      const auto stage = static_cast<std::size_t>(found->stage());
      while (seen < stage) begin[++seen] = requests(relay);
    }
    begin[kStages] = requests(relay);
    expect_end(program.end(), target.server());
  }
  for (unsigned round = 0; round < rounds; ++round) {
    empty_server(target.server());
    const std::size_t stage = round % kStages;
    unsigned until = begin[stage] +
                     static_cast<unsigned>(
                         random_() % (std::max(begin[stage + 1], begin[stage] + 1) - begin[stage]));
    std::string points;
    for (int kills = 0; kills < 2; ++kills) {
      Relay relay(spare->port());
      Program program(folder_, to(relay.host()));
      while (program.runs() && requests(relay) < until) {
      }
      points += " " + std::to_string(requests(relay));
      program.kill();
      until = static_cast<unsigned>(random_() % begin.back());  // now, as it goes on
    }
    std::cout << "killed in " << name(static_cast<RunStage>(stage)) << ", after requests:" << points
              << " of " << begin.back() << '\n'
              << std::flush;
    SCOPED_TRACE(points);
    expect_end(restore(to(spare->host())), target.server());
    if (HasFailure()) return;
  }
}

// The command drop does not drop the collection with the code, as it is one of the system.
TEST_F(Stopped, KilledWhileCodeOfADatabaseIsLoadedItGoesOn) {
  Production target(spare->url(""));
  empty_server(target.server());
  Relay relay(spare->port());
  relay.hold_requests(1, "function twice");
  Program program(folder_, to(relay.host()));
  while (relay.counts().held == 0) ASSERT_TRUE(program.runs());
  program.kill();
  expect_end(restore(to(spare->host())), target.server());
}

// At so many moments of a whole run; with many rounds at each.
TEST_F(Stopped, KilledEvery50MillisecondsItGoesOnToTheSameEnd) {
  using Moments = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds step{50};
  const unsigned rounds = number_given("IDMINT_FAULT_ROUNDS", 3);
  Production target(spare->url(""));
  empty_server(target.server());
  const auto begin = Moments::now();
  expect_end(restore(to(spare->host())), target.server());
  const auto steps = static_cast<unsigned>((Moments::now() - begin) / step);
  const unsigned some = rounds >= 20 ? 1 : std::max(steps / (rounds + 1), 1U);
  for (unsigned i = some; i <= steps && !HasFailure(); i += some) {
    SCOPED_TRACE("killed after " + std::to_string((i * step).count()) + " ms");
    empty_server(target.server());
    const auto until = Moments::now() + i * step;
    Program program(folder_, to(spare->host()));
    while (program.runs() && Moments::now() < until) {
    }
    program.kill();
    expect_end(restore(to(spare->host())), target.server());
  }
}

TEST_F(Stopped, BySignalsItSaysHowToGoOn) {
  Production target(spare->url(""));
  empty_server(target.server());
  struct Point {
    std::string text;
    int signal;
  };
  // In the documents of the base, in its indexes, and in the oplog; each goes on where the one
  // before was.
  for (const auto& [text, signal] : {Point{"insert", SIGINT}, Point{"createIndexes", SIGTERM},
                                     Point{"replay:oplog:0:1", SIGINT}}) {
    Relay relay(spare->port());
    relay.hold_requests(1, text);
    Program program(folder_, to(relay.host()));
    while (relay.counts().held == 0) ASSERT_TRUE(program.runs()) << text;
    program.signal(signal);
    relay.let_go();
    const Ended ended = program.end();
    EXPECT_EQ(ended.status, 128 + signal) << text << ended.out << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("the same command goes on where it was")) << text;
  }
  expect_end(restore(to(spare->host())), target.server());
}

// The server never gets the request, and so never answers it.
TEST_F(Stopped, ByOneSignalItEndsWhereTheServerAnswersNothing) {
  Production target(spare->url(""));
  empty_server(target.server());
  Relay relay(spare->port());
  relay.hold_requests(1, "createIndexes");
  Program program(folder_, to(relay.host()));
  while (relay.counts().held == 0) ASSERT_TRUE(program.runs());
  program.signal(SIGINT);
  const Ended ended = program.end();
  EXPECT_EQ(ended.status, 128 + SIGINT) << ended.out << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("the same command goes on where it was"));
  expect_end(restore(to(spare->host())), target.server());
}

// The disk of the spare is full when documents are loaded, and has room again later.
TEST_F(Stopped, ByAFullDiskItSaysSoAndGoesOn) {
  const fakes::TempFolder tools;
  const std::string full = tools.path("full");
  const std::string mongod = tools.path("mongod");
  write(mongod, "#!/bin/sh\nIDMINT_FULL_DISK=" + full +
                    " LD_PRELOAD=" IDMINT_FULL_DISK_LIBRARY " exec " + servers::mongod_program() +
                    " \"$@\"\n");
  fs::permissions(mongod, fs::perms::owner_all);
  const SpareServer folder;
  const std::vector<std::string> words =
      run_words({"--spare", folder.path(), "--mongod", mongod, "--stop"});
  Program program(folder_, words);
  while (program.runs() && content(folder.path() + "/mongod.log").find("Waiting for connections") ==
                               std::string::npos) {
  }
  ASSERT_TRUE(program.runs());
  write(full, "");
  const Ended ended = program.end();
  EXPECT_EQ(ended.status, 8) << ended.out << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("No space left on device: make room there"));
  fs::remove(full);
  const Ended again = restore(words);
  ASSERT_EQ(again.status, 0) << again.out << again.err;
  const std::string expected = folder_.path("should.json");
  write(expected, state_file(inputs->should));
  const Ended verified = restore(with({"verify", "--expected", expected}, folder.words()));
  EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
}

TEST_F(Stopped, BySignalsItEndsItsSpare) {
  const SpareServer folder;
  const std::vector<std::string> words = run_words(folder.words());
  Program program(folder_, words);
  while (program.runs() && content(folder.path() + "/mongod.log").find("Waiting for connections") ==
                               std::string::npos) {
  }
  program.signal(SIGTERM);
  const Ended ended = program.end();
  EXPECT_EQ(ended.status, 128 + SIGTERM) << ended.out << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("the same command goes on where it was"));
  EXPECT_EQ(content(folder.path() + "/mongod.lock"), "") << "the spare was ended";
  const Ended again = restore(words);
  EXPECT_EQ(again.status, 0) << again.out << again.err;
}

// The copy is of a member that was not ended cleanly, so that there is something to recover.
TEST_F(Stopped, KilledWhileACopyIsRecoveredItGoesOn) {
  MongoSet set({.members = 1});
  Production before(set.url(""));
  before.run("admin", R"({"fsync":1})");  // a checkpoint, which the copy is past
  before.insert("kept.three", R"({"_id":1},{"_id":2})");
  const Timestamp from = before.now();
  set.member(0).kill();
  const fakes::TempFolder copies;
  const std::string original = copies.path("original");
  fs::copy(set.member(0).folder(), original, fs::copy_options::recursive);
  set.member(0).restart();
  set.primary();
  Production production(set.url(""));
  fill(production, "kept.more", 3000);
  const State should = state_of(production.server());
  const Timestamp limit = production.now();
  const std::string oplog = copies.path("oplog.bson");
  production.dump_oplog(from, oplog);

  // When the file has the text, so often.
  struct Point {
    const char* file;
    const char* text;
    int times;
  };
  constexpr std::array points = {Point{"idmint-restore.json", "port", 1},
                                 Point{"mongod.log", "Waiting for connections", 1},
                                 Point{"idmint-restore.json", "recovered", 1},
                                 Point{"mongod.log", "Waiting for connections", 2}};
  const std::size_t some = number_given("IDMINT_FAULT_ROUNDS", 1);
  for (const auto& [file, text, times] : std::span(points).first(std::min(some, points.size()))) {
    SCOPED_TRACE(std::string(text) + " " + std::to_string(times));
    const SpareServer folder;  // which ends its server
    fs::copy(original, folder.path(), fs::copy_options::recursive);
    const std::vector<std::string> words = run_of_copy(folder.path(), oplog, limit);
    Program program(folder_, words);
    while (program.runs()) {
      const std::string now = content(folder.path() + "/" + file);
      int found = 0;
      for (std::size_t at = now.find(text); at != std::string::npos; at = now.find(text, at + 1))
        ++found;
      if (found >= times) break;
    }
    ASSERT_TRUE(program.runs());
    program.kill();
    const Ended ended = restore(words);
    ASSERT_EQ(ended.status, 0) << ended.out << ended.err;
    const std::string expected = folder_.path("should.json");
    write(expected, state_file(should));
    const Ended verified = restore(with({"verify", "--expected", expected}, folder.words()));
    EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
  }
}

}  // namespace
}  // namespace idmint::restore
