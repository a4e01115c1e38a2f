// keep: a folder of backups of a busy set, made by a process that is killed again and again; each
// moment in between is restored from it. Days pass in seconds.
#include "restore/keep/keep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/shell.h"
#include "restore/keep/kept.h"
#include "restore/oplog/dump.h"
#include "restore/oplog/reader.h"
#include "restore/replay/state.h"
#include "restore/tests/production.h"
#include "restore/tests/program.h"
#include "restore/tests/random_work.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class Keep : public testing::Test {
 protected:
  Keep() : production_(servers::mongo_set().url("admin")) {
    for (const char* const database : {"shop", "probe"})
      production_.run(database, R"({"dropDatabase":1})");
    production_.insert("shop.orders", R"({"_id":"first","n":0})");
  }

  [[nodiscard]] std::string kept() const { return folder_.path("kept"); }
  [[nodiscard]] std::vector<std::string> words(const std::vector<std::string>& more) const {
    return with({"keep", "--uri", servers::mongo_set().url("admin"), "--to", kept()}, more);
  }
  Ended restore_tool(const std::vector<std::string>& given) {
    return Program(folder_, given).end();
  }
  // Empty before it is one.
  [[nodiscard]] Kept read() const { return read_kept(kept()).value_or(Kept{}); }

  // A moment, and what the set had then.
  struct Moment {
    Timestamp limit{};
    State state{};
  };
  // Work, and the moment after it.
  Moment work(int documents) {
    std::string list;
    for (int i = 0; i < documents; ++i)
      list += (i == 0 ? "" : ",") +
              (R"({"_id":)" + std::to_string(next_++) + R"(,"text":"some text of an order"})");
    production_.insert("shop.orders", list);
    production_.run("shop", R"({"update":"orders","updates":[
        {"q":{"_id":"first"},"u":{"$inc":{"n":1}}}]})");
    State state = of_shop(production_.server());
    return {.limit = production_.now(), .state = std::move(state)};
  }
  static State of_shop(Server& server) {
    State state = state_of(server);
    std::erase_if(state, [](const auto& each) { return !each.first.starts_with("shop."); });
    return state;
  }
  // Waits until the folder has the entry.
  void await(Timestamp at) {
    while (read().slices.empty() || read().slices.back().last < at)
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
  void expect_restored(const Moment& moment) {
    const SpareServer spare;
    const Ended run = restore_tool(
        with({"run", "--from", kept(), "--limit", print_timestamp(moment.limit), "--yes"},
             spare.words()));
    ASSERT_EQ(run.status, 0) << run.out << run.err;
    const std::string uri = run.out.substr(run.out.find("mongodb://"));
    Result<Server> server = Server::connect(uri.substr(0, uri.find_first_of(" \n")));
    ASSERT_TRUE(server) << server.error().message();
    EXPECT_EQ(in_lines(differences(of_shop(*server), moment.state)), "");
  }

  fakes::TempFolder folder_;
  Production production_;
  int next_ = 0;
};

// A timer starts it again and again.
TEST_F(Keep, OnceMakesWhatIsDueAndEnds) {
  const Ended first = restore_tool(words({"--once"}));
  ASSERT_EQ(first.status, 0) << first.out << first.err;
  EXPECT_THAT(first.out, AllOf(HasSubstr("made a base"), HasSubstr("can be restored")));
  const Moment moment = work(10);
  const Ended second = restore_tool(words({"--once"}));
  ASSERT_EQ(second.status, 0) << second.out << second.err;
  EXPECT_THAT(second.out, testing::Not(HasSubstr("made a base")));
  EXPECT_EQ(read().bases.size(), 1U);
  expect_restored(moment);
  const Ended ready = restore_tool({"ready", "--from", kept()});
  EXPECT_EQ(ready.status, 0) << ready.out << ready.err;
  EXPECT_THAT(ready.out, AllOf(HasSubstr("restorable"), HasSubstr("behind")));
  const Ended json = restore_tool({"ready", "--from", kept(), "--json"});
  EXPECT_TRUE(nlohmann::json::parse(json.out)["ready"]) << json.out;
  const Ended metrics = restore_tool({"ready", "--from", kept(), "--prometheus"});
  EXPECT_THAT(metrics.out, AllOf(HasSubstr("\nidmint_restore_kept_ready 1\n"),
                                 HasSubstr("# TYPE idmint_restore_kept_bases gauge\n")));
  // A time without a zone is of UTC; no entry of the folder is as late.
  const Ended late = restore_tool(
      {"run", "--from", kept(), "--at", "2100-01-01 00:00", "--spare", folder_.path("s")});
  EXPECT_EQ(late.status, 6) << late.err;
  EXPECT_THAT(late.err, HasSubstr("cannot be restored from"));
}

// Three days in as many seconds, and kills at any moment.
TEST_F(Keep, EachMomentIsRestoredThoughItIsKilledAgainAndAgain) {
  std::mt19937 random(number_given("IDMINT_SEED", 1));
  const unsigned kills = number_given("IDMINT_KILLS", 12);
  const std::vector<std::string> fast = words({"--every", "2s", "--slice", "1s", "--keep", "1h"});
  std::vector<Moment> moments;
  for (unsigned kill = 0; kill < kills; ++kill) {
    Program program(folder_, fast);
    const int rounds = std::uniform_int_distribution<int>(1, 4)(random);
    for (int round = 0; round < rounds; ++round) {
      moments.push_back(work(std::uniform_int_distribution<int>(1, 50)(random)));
      if (round % 2 == 1) await(moments.back().limit);
    }
    program.kill();
  }
  {
    Program program(folder_, fast);
    await(moments.back().limit);
    while (read().bases.empty() || !read().reach_to_end())
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
    program.signal(SIGTERM);
    const Ended ended = program.end();
    EXPECT_EQ(ended.status, 128 + SIGTERM) << ended.err;
  }
  const Kept all = read();
  EXPECT_THAT(all.holes(), testing::IsEmpty());
  EXPECT_THAT(all.notes, testing::IsEmpty());
  // Those before the first base was there cannot be, and the folder says which.
  std::erase_if(moments, [&](const Moment& each) { return !all.reach_to(each.limit); });
  ASSERT_GE(moments.size(), kills / 2);
  const unsigned tried =
      std::min<unsigned>(number_given("IDMINT_MOMENTS", 4), static_cast<unsigned>(moments.size()));
  std::ranges::shuffle(moments, random);
  for (unsigned i = 0; i < tried; ++i) expect_restored(moments[i]);
}

// The time to keep is over for the first base, and a later one reaches back as far.
TEST_F(Keep, RemovesWhatAnotherBaseMakesNeedless) {
  const std::vector<std::string> fast = words({"--every", "1s", "--slice", "1s", "--keep", "2s"});
  Program program(folder_, fast);
  std::string first;
  while (first.empty()) {
    work(1);
    if (!read().bases.empty()) first = read().bases.front().path;
  }
  const std::string slice = read().slices.front().path;
  Moment last = work(5);
  while (fs::exists(first) || fs::exists(slice)) last = work(1);
  await(last.limit);
  program.signal(SIGTERM);
  const Ended ended = program.end();
  EXPECT_THAT(ended.out, HasSubstr("removed the base of"));
  const Kept all = read();
  ASSERT_FALSE(all.bases.empty());
  EXPECT_FALSE(fs::exists(slice + ".checksums.json"));
  EXPECT_TRUE(all.reach_to_end());
  expect_restored(last);
}

// A base that a restore reads, and one after which only a damaged one comes, stay.
TEST_F(Keep, RemovesNoBaseThatIsNeeded) {
  const std::vector<std::string> slow = words({"--once", "--every", "1s", "--keep", "1s"});
  ASSERT_EQ(restore_tool(words({"--once"})).status, 0);
  const KeptBase first = read().bases.front();
  const auto until_two = [&] {
    while (read().bases.size() < 2) {
      work(1);
      const Ended made = restore_tool(words({"--once", "--every", "1s"}));
      ASSERT_EQ(made.status, 0) << made.err;
    }
  };
  until_two();
  const std::string second = read().bases[1].path;
  const std::string damaged = second + "/shop/orders.bson";
  const std::string whole = content(damaged);
  write(damaged, whole.substr(0, whole.size() - 1) + "x");
  // Until its time is over.
  Ended ended = restore_tool(slow);
  while (ended.status == 0) {
    work(1);
    ended = restore_tool(slow);
  }
  EXPECT_EQ(ended.status, 10) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("is damaged, and those before it stay"),
                               HasSubstr("can be restored")));
  EXPECT_TRUE(fs::exists(first.path));
  EXPECT_TRUE(fs::exists(second + ".damaged"));
  EXPECT_THAT(restore_tool({"ready", "--from", kept()}).out, HasSubstr(second + ".damaged"));
  until_two();
  {
    const Result<FileLock> held = hold_base(first);
    ASSERT_TRUE(held) << held.error().message();
    for (int i = 0; i < 3; ++i) {
      work(1);
      ended = restore_tool(slow);
      EXPECT_EQ(ended.status, 0) << ended.err;
    }
    EXPECT_TRUE(fs::exists(first.path));
  }
  while (fs::exists(first.path)) {
    work(1);
    ended = restore_tool(slow);
    ASSERT_EQ(ended.status, 0) << ended.err;
  }
}

// As if the oplog had rolled over what the folder needs next.
TEST_F(Keep, SaysAtOnceWhereEntriesAreMissingAndMakesANewBase) {
  ASSERT_EQ(restore_tool(words({"--once"})).status, 0);
  const Moment before = work(3);
  ASSERT_EQ(restore_tool(words({"--once"})).status, 0);
  // The slice gets one more entry, which the oplog has no more.
  std::uint32_t last_read = 0;
  {
    const KeptSlice newest = read().slices.back();
    last_read = newest.last.seconds;
    const Timestamp gone = {.seconds = newest.last.seconds,
                            .ordinal = newest.last.ordinal + 100'000};
    Result<OplogDump> slice = OplogDump::open(newest.path);
    ASSERT_TRUE(slice);
    const Bson entry = Bson("ts", BsonTimestamp{gone.seconds, gone.ordinal}, "t", std::int64_t{1},
                            "v", std::int64_t{2}, "op", "n", "ns", "", "o", Bson("msg", "gone"));
    ASSERT_TRUE(slice->append(gone, entry.view()));
    ASSERT_TRUE(slice->sync());
    ASSERT_TRUE(slice->seal());
  }
  while (production_.now().seconds <= last_read)
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  const Moment missing = work(3);
  const Ended told = restore_tool(words({"--once"}));
  ASSERT_EQ(told.status, 0) << told.err;
  EXPECT_THAT(told.out, AllOf(HasSubstr("entries are missing"),
                              HasSubstr("a new base is made at once"), HasSubstr("made a base")));
  const Moment after = work(3);
  ASSERT_EQ(restore_tool(words({"--once"})).status, 0);
  EXPECT_EQ(read().holes().size(), 1U);
  expect_restored(before);
  expect_restored(after);
  const Ended over =
      restore_tool({"run", "--from", kept(), "--limit", print_timestamp(missing.limit), "--spare",
                    folder_.path("s"), "--yes"});
  EXPECT_EQ(over.status, 6) << over.err;
  EXPECT_THAT(over.err, HasSubstr(", and from "));
  const Ended ready = restore_tool({"ready", "--from", kept()});
  EXPECT_EQ(ready.status, 0) << ready.err;
  EXPECT_THAT(ready.out, HasSubstr("missing"));
  // Until a base is behind the hole, what comes now cannot be restored.
  fs::remove_all(read().bases.back().path);
  const Ended open = restore_tool({"ready", "--from", kept()});
  EXPECT_EQ(open.status, 6) << open.out;
}

// keep begins a slice after any entry.
TEST_F(Keep, ATransactionOfTwoSlicesIsRestored) {
  ASSERT_EQ(restore_tool(words({"--once"})).status, 0);
  mongoc_client_session_t* const session = production_.begin();
  const std::string filling(std::size_t{7} << 20, 'x');  // two fit an entry
  for (int i = 0; i < 5; ++i)
    production_.insert("shop.orders",
                       R"({"_id":"t)" + std::to_string(i) + R"(","x":")" + filling + R"("})",
                       session);
  Production::commit(session);
  const Moment moment = work(1);
  ASSERT_EQ(restore_tool(words({"--once"})).status, 0);

  // The slice becomes two, with the boundary behind the second entry of the transaction.
  const KeptSlice whole = read().slices.back();
  std::vector<std::pair<Timestamp, Bson>> entries;
  std::size_t cut = 0;
  {
    Result<OplogReader> oplog = OplogReader::open(whole.path);
    ASSERT_TRUE(oplog) << oplog.error().message();
    std::size_t of_transaction = 0;
    for (;;) {
      const Result<std::optional<Entry>> next = oplog->next();
      ASSERT_TRUE(next) << next.error().message();
      const std::optional<Entry>& entry = *next;
      if (!entry) break;
      entries.emplace_back(entry->at.ts, Bson::copy_of(entry->document));
      if (entry->in_transaction() && ++of_transaction == 2) cut = entries.size() - 1;
    }
    ASSERT_EQ(of_transaction, 3U);
  }
  fs::remove(whole.path);
  fs::remove(whole.path + ".checksums.json");
  for (const auto& [from, to] : {std::pair(std::size_t{0}, cut), {cut, entries.size() - 1}}) {
    Result<OplogDump> slice = OplogDump::open(kept() + "/oplog/" + slice_name(entries[from].first));
    ASSERT_TRUE(slice) << slice.error().message();
    for (std::size_t i = from; i <= to; ++i)
      ASSERT_TRUE(slice->append(entries[i].first, entries[i].second.view()));
    ASSERT_TRUE(slice->sync());
    ASSERT_TRUE(slice->seal());
  }
  ASSERT_GE(read().slices.size(), 2U);
  EXPECT_THAT(read().holes(), testing::IsEmpty());
  expect_restored(moment);
  // Up to the boundary none of it was committed.
  EXPECT_EQ(moment.state.at("shop.orders").count, 7U);
  const SpareServer spare;
  const Ended run = restore_tool(
      with({"run", "--from", kept(), "--limit", print_timestamp(entries[cut + 1].first), "--yes"},
           spare.words()));
  ASSERT_EQ(run.status, 0) << run.err;
  const std::string uri = run.out.substr(run.out.find("mongodb://"));
  Result<Server> server = Server::connect(uri.substr(0, uri.find_first_of(" \n")));
  ASSERT_TRUE(server) << server.error().message();
  EXPECT_EQ(of_shop(*server).at("shop.orders").count, 1U);
}

// In the newest slice, which grows meanwhile.
TEST_F(Keep, AMomentIsRestoredWhileItIsWritten) {
  Program program(folder_, words({"--slice", "1h"}));
  while (read().bases.empty()) std::this_thread::sleep_for(std::chrono::milliseconds{20});
  const Moment moment = work(5);
  await(moment.limit);
  const Timestamp before = read().slices.back().last;
  std::atomic<bool> over = false;
  std::thread writing([&] {
    Production other(servers::mongo_set().url("admin"));
    while (!over) other.insert("probe.c", R"({"x":1})");
  });
  expect_restored(moment);
  while (read().slices.back().last <= before) std::this_thread::yield();
  over = true;
  writing.join();
  EXPECT_EQ(read().slices.size(), 1U);
  EXPECT_TRUE(program.runs());
}

// A kill or a full disk leaves a part of an entry at the end of the newest slice; a bad disk
// changes bytes within it.
TEST_F(Keep, ReadsANewestSliceThatWasCutAndReplacesOneThatIsDamaged) {
  ASSERT_EQ(restore_tool(words({"--once"})).status, 0);
  const Moment moment = work(20);
  ASSERT_EQ(restore_tool(words({"--once"})).status, 0);
  const std::string slice = read().slices.back().path;
  const std::string whole = content(slice);
  write(slice, whole + whole.substr(0, 40));  // behind what the checksums cover
  EXPECT_EQ(restore_tool({"ready", "--from", kept()}).status, 0);
  expect_restored(moment);
  const SpareServer spare;
  const Ended all = restore_tool(with({"run", "--from", kept(), "--all", "--yes"}, spare.words()));
  EXPECT_EQ(all.status, 0) << all.err;
  // The checksums cover this change.
  std::string changed = whole;
  changed[changed.find("some text")] = 'S';
  write(slice, changed);
  const SpareServer other;
  EXPECT_EQ(restore_tool(with({"run", "--from", kept(), "--all", "--yes"}, other.words())).status,
            10);
  const Ended again = restore_tool(words({"--once"}));
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("a slice is set aside"));
  EXPECT_TRUE(fs::exists(slice + ".damaged"));
  const Moment later = work(3);
  ASSERT_EQ(restore_tool(words({"--once"})).status, 0);
  expect_restored(later);
}

// Its name would be the newest, and no base would ever reach that.
TEST_F(Keep, SetsASliceOfAnotherNameAside) {
  ASSERT_EQ(restore_tool(words({"--once"})).status, 0);
  const Moment moment = work(3);
  ASSERT_EQ(restore_tool(words({"--once"})).status, 0);
  const std::string renamed = kept() + "/oplog/" + slice_name({.seconds = 4'000'000'000});
  fs::copy_file(read().slices.back().path, renamed);
  EXPECT_THAT(restore_tool({"ready", "--from", kept()}).out, HasSubstr("than its name says"));
  const Ended again = restore_tool(words({"--once"}));
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("a slice is set aside"));
  EXPECT_FALSE(fs::exists(renamed));
  expect_restored(moment);
}

// The slices begin anew behind the one in which it began, and a primary steps down.
TEST_F(Keep, GoesOnOverAFailOver) {
  Program program(folder_, words({"--slice", "1s"}));
  Moment moment = work(1);
  while (read().slices.size() < 3) moment = work(1);
  const Bson down = Bson("replSetStepDown", 5, "secondaryCatchUpPeriodSecs", 5, "force", true);
  EXPECT_TRUE(production_.server().command("admin", down));
  servers::mongo_set().primary();
  const Bson note(R"({"appendOplogNote":1,"data":{"of":"a test"}})");
  while (!production_.server().command("admin", note)) std::this_thread::yield();
  moment = work(5);
  await(moment.limit);
  EXPECT_TRUE(program.runs());
  program.signal(SIGTERM);
  EXPECT_EQ(program.end().status, 128 + SIGTERM);
  EXPECT_THAT(read().holes(), testing::IsEmpty());
  expect_restored(moment);
}

// A limit on the size of files stands for a full disk: what is written is refused in the same
// place.
TEST_F(Keep, SaysWhatCanBeRestoredOnceTheDiskIsFullAndGoesOnWhenItIsNot) {
  const Ended first = restore_tool(words({"--once"}));
  ASSERT_EQ(first.status, 0) << first.err;
  const Moment moment = work(2000);
  std::string command = "trap '' XFSZ; ulimit -f 64; exec " IDMINT_RESTORE_BINARY;
  for (const std::string& word : words({"--once"})) command += " " + shell_word(word);
  const int status = std::system((command + " >" + shell_word(folder_.path("full.out")) + " 2>" +
                                  shell_word(folder_.path("full.err")))
                                     .c_str());
  const std::string err = content(folder_.path("full.err"));
  EXPECT_EQ(WEXITSTATUS(status), 8) << err;
  EXPECT_THAT(
      err, AllOf(HasSubstr(kept()), HasSubstr("cannot be written"), HasSubstr("can be restored")));
  const Ended again = restore_tool(words({"--once"}));
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(read().holes(), testing::IsEmpty());
  expect_restored(moment);
}

TEST_F(Keep, TakesOnlyItsOwnFolder) {
  fs::create_directory(kept());
  write(kept() + "/mine", "something");
  const Ended other = restore_tool(words({"--once"}));
  EXPECT_EQ(other.status, 4) << other.err;
  EXPECT_EQ(content(kept() + "/mine"), "something");
  fs::remove(kept() + "/mine");
  const fakes::TempFolder aside;
  Program first(aside, words({}));
  while (read().slices.empty()) std::this_thread::sleep_for(std::chrono::milliseconds{20});
  const Ended second = restore_tool(words({"--once"}));
  EXPECT_EQ(second.status, 5);
  EXPECT_THAT(second.err, HasSubstr("another idmint-restore keeps"));
  first.kill();
  // The folder is of another set.
  const std::string mark = content(kept() + "/keep.json");
  write(kept() + "/keep.json", R"({"made_by":"idmint-restore keep","set":"another"})");
  const Ended foreign = restore_tool(words({"--once"}));
  EXPECT_EQ(foreign.status, 5);
  EXPECT_THAT(foreign.err, HasSubstr("is of the replica set another"));
  std::string renewed = mark;
  renewed.replace(renewed.find("\"id\" : \"") + 8, 4, "0000");
  write(kept() + "/keep.json", renewed);
  const Ended remade = restore_tool(words({"--once"}));
  EXPECT_EQ(remade.status, 5);
  EXPECT_THAT(remade.err, HasSubstr("is of another replica set of the name"));
  write(kept() + "/keep.json", "{");
  EXPECT_EQ(restore_tool(words({"--once"})).status, 10);
  EXPECT_EQ(restore_tool({"ready", "--from", folder_.path("nothing")}).status, 3);
}

}  // namespace
}  // namespace idmint::restore
