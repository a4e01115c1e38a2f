// kill -9 of programs that insert, at random points of theirs: no id twice, nothing acknowledged
// lost; with a proxy, no document without its claim, and after a sweep every claim says what is so.
// IDMINT_KILL_ROUNDS sets the number of rounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "idmint/digits.h"
#include "idmint/entropy.h"
#include "idmint/mint.h"
#include "idmint/mongodb.h"
#include "idmint/testing.h"
#include "store/unique_index.h"
#include "tests/servers/mongo.h"

namespace idmint::mongodb {
namespace {

using servers::mongo_command;
using servers::mongo_set;
using testing::HasSubstr;

// A program that inserts until it is killed, and tells of each id that was acknowledged.
[[noreturn]] void insert_for_ever(const std::string& url, bool proxy, int out) {
  Result<Collection> accounts = Collection::open(url, "accounts");
  Mint mint;
  // So few that many are taken.
  const auto digits = mint.source("digits", {.digits = DigitsLayout{.digits = 5}});
  if (!accounts || !digits) ::_exit(2);
  InsertOptions options{.field = "account", .attempts = 100};
  if (proxy) options.proxy = "accounts.ids";
  const auto document = document_from_json(R"({"from":"a program"})");
  for (std::size_t n = 1;; n = n % 7 + 1) {
    const std::vector<Bytes> documents(n, Bytes(*document));
    const auto inserted = insert_with_id(*accounts, **digits, documents, options);
    if (!inserted) {
      std::fprintf(stderr, "%s\n", inserted.error().error.message().c_str());
      ::_exit(1);
    }
    std::string lines;
    for (const Id& id : inserted->ids) lines += to_string(id) + "\n";
    if (::write(out, lines.data(), lines.size()) != std::ssize(lines)) ::_exit(3);
  }
}

class MongodbInsertKill : public testing::TestWithParam<bool> {
 protected:
  std::string command(const std::string& json) {
    return mongo_command(mongo_set().url(database_), database_, json);
  }
  std::int64_t count(const std::string& collection, const std::string& query = "{}") {
    const std::string reply = command(R"({"count":")" + collection + R"(","query":)" + query + "}");
    const std::size_t at = reply.find(R"("n" : )");
    return at == std::string::npos ? -1 : std::stoll(reply.substr(at + 6));
  }
  // How many documents a pipeline leaves.
  std::int64_t left_by(const std::string& collection, const std::string& pipeline) {
    const std::string reply = command(R"({"aggregate":")" + collection + R"(","pipeline":[)" +
                                      pipeline + R"(,{"$count":"n"}],"cursor":{}})");
    EXPECT_THAT(reply, HasSubstr(R"("ok" : 1.0)"));
    const std::size_t at = reply.find(R"("n" : )");
    return at == std::string::npos ? 0 : std::stoll(reply.substr(at + 6));
  }

  const std::string database_ = GetParam() ? "proxy" : "index";
};

TEST_P(MongodbInsertKill, OfProgramsThatInsertRepeatsAndLosesNothing) {
  const char* const wanted = std::getenv("IDMINT_KILL_ROUNDS");
  const int rounds = wanted != nullptr ? std::atoi(wanted) : 6;
  ASSERT_GT(rounds, 0);
  const bool proxy = GetParam();
  const std::string url = mongo_set().url(database_);
  ASSERT_THAT(command(R"({"createIndexes":"accounts","indexes":[{"key":{"account":1},)"
                      R"("name":"account","unique":)" +
                      std::string(proxy ? "false" : "true") + "}]}"),
              HasSubstr(R"("ok" : 1.0)"));
  std::multiset<std::string> acknowledged;
  for (int round = 0; round < rounds; ++round) {
    constexpr std::size_t kPrograms = 3;
    std::array<pid_t, kPrograms> programs{};
    std::array<int, kPrograms> from{};
    for (std::size_t i = 0; i < kPrograms; ++i) {
      std::array<int, 2> ends{};
      ASSERT_EQ(::pipe(ends.data()), 0);
      programs.at(i) = ::fork();
      ASSERT_GE(programs.at(i), 0);
      if (programs.at(i) == 0) {
        ::close(ends[0]);
        insert_for_ever(url, proxy, ends[1]);
      }
      ::close(ends[1]);
      from.at(i) = ends[0];
    }
    for (std::size_t i = 0; i < kPrograms; ++i) {
      // After some bytes, wherever the program is then.
      std::size_t left = 300 + system_entropy().draw() % 1500;
      std::string told;
      std::array<char, 64> block;
      for (bool alive = true;;) {
        const ssize_t size = ::read(from.at(i), block.data(), block.size());
        if (size <= 0) break;
        told.append(block.data(), static_cast<std::size_t>(size));
        if (alive && told.size() >= left) {
          ::kill(programs.at(i), SIGKILL);
          alive = false;
        }
      }
      ::close(from.at(i));
      int status = 0;
      ASSERT_EQ(::waitpid(programs.at(i), &status, 0), programs.at(i));
      EXPECT_TRUE(WIFSIGNALED(status)) << "it ended by itself: " << WEXITSTATUS(status);
      for (std::size_t at = 0; at + 6 <= told.size(); at += 6)
        acknowledged.insert(told.substr(at, 5));
    }
  }
  ASSERT_GT(acknowledged.size(), 50U * static_cast<unsigned>(rounds)) << "too little load";

  EXPECT_EQ(std::set(acknowledged.begin(), acknowledged.end()).size(), acknowledged.size());
  std::string all;
  for (const std::string& id : acknowledged) all += (all.empty() ? "\"" : ",\"") + id + "\"";
  EXPECT_EQ(count("accounts", R"({"account":{"$in":[)" + all + "]}}"), std::ssize(acknowledged))
      << "what was acknowledged is there";
  EXPECT_EQ(left_by("accounts", R"({"$group":{"_id":"$account","n":{"$sum":1}}},)"
                                R"({"$match":{"n":{"$gt":1}}})"),
            0)
      << "no id twice";
  if (!proxy) return;

  const std::string claimed =
      R"({"$lookup":{"from":"accounts.ids","localField":"account","foreignField":"_id","as":"c"}})";
  EXPECT_EQ(left_by("accounts", claimed + R"(,{"$match":{"c":[]}})"), 0)
      << "every document has its claim";
  Result<Collection> accounts = Collection::open(url, "accounts");
  ASSERT_TRUE(accounts);
  ManualClock tomorrow(system_clock().now() + std::chrono::days{1});
  const auto swept = sweep(*accounts, {.field = "account"}, tomorrow);
  ASSERT_TRUE(swept) << swept.error().message();
  std::printf("%zu documents, %lld of their claims marked by the sweep, %lld claims abandoned\n",
              acknowledged.size(), static_cast<long long>(swept->used),
              static_cast<long long>(swept->abandoned));
  EXPECT_EQ(count("accounts.ids", R"({"state":"claimed"})"), 0);
  EXPECT_EQ(count("accounts.ids", R"({"state":"used"})"), count("accounts"));
  EXPECT_EQ(left_by("accounts", claimed + R"(,{"$match":{"c.state":{"$ne":"used"}}})"), 0);
}

// Each document has a number, and ids are so few that many are taken: what an inserter did itself
// before the primary died must not look like an id that was taken.
TEST(MongodbInsertKillPrimary, UnderLoadInsertsNoDocumentTwiceAndLosesNone) {
  const char* const wanted = std::getenv("IDMINT_KILL_ROUNDS");
  const int rounds = wanted != nullptr ? std::atoi(wanted) : 2;
  ASSERT_GT(rounds, 0);
  constexpr std::size_t kThreads = 4;
  // Documents of each, before each kill and after it. However fast the machine is, there are ids
  // for all of them.
  constexpr std::int64_t kLoad = 200;
  constexpr std::int64_t kMost = 3000;
  const int width = rounds < 10 ? 5 : 7;
  servers::MongoSet set;
  const std::string url = set.url("shop");
  const auto command = [&](const std::string& json) { return mongo_command(url, "shop", json); };
  ASSERT_THAT(command(R"({"createIndexes":"accounts","indexes":[{"key":{"account":1},)"
                      R"("name":"account","unique":true}]})"),
              HasSubstr(R"("ok" : 1.0)"));
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::condition_variable changed;
  std::array<std::int64_t, kThreads> inserted_so_far{};  // under mutex, as is the next
  std::array<std::int64_t, kThreads> allowed{};
  std::array<std::set<std::int64_t>, kThreads> acknowledged;
  std::array<std::set<std::int64_t>, kThreads> absent;
  {
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        Result<Collection> accounts =
            Collection::open(url, "accounts", {.deadline = std::chrono::seconds{20}});
        Mint mint;
        const auto digits = mint.source("digits", {.digits = DigitsLayout{.digits = width}});
        ASSERT_TRUE(accounts && digits);
        std::int64_t number = static_cast<std::int64_t>(thread) * 1'000'000;
        while (!stop) {
          constexpr std::int64_t kBatch = 20;
          std::vector<std::vector<std::byte>> documents;
          for (std::int64_t i = 0; i < kBatch; ++i)
            documents.push_back(*document_from_json(R"({"n":)" + std::to_string(number + i) + "}"));
          const std::vector<Bytes> views(documents.begin(), documents.end());
          const auto inserted =
              insert_with_id(*accounts, **digits, views, {.field = "account", .attempts = 100});
          for (std::int64_t i = 0; i < kBatch; ++i) {
            const auto at = static_cast<std::size_t>(i);
            const bool known = inserted || !inserted.error().outcomes.empty();
            const auto fate = inserted ? Outcome::Fate::kInserted
                              : known  ? inserted.error().outcomes[at].fate
                                       : Outcome::Fate::kAbsent;
            if (fate == Outcome::Fate::kInserted) acknowledged.at(thread).insert(number + i);
            if (fate == Outcome::Fate::kAbsent) absent.at(thread).insert(number + i);
          }
          number += kBatch;
          std::unique_lock lock(mutex);
          if (inserted) inserted_so_far.at(thread) += kBatch;
          changed.notify_all();
          changed.wait(lock,
                       [&] { return stop || inserted_so_far.at(thread) < allowed.at(thread); });
        }
      });
    }
    const auto wait_for_more = [&] {
      std::unique_lock lock(mutex);
      const auto before = inserted_so_far;
      std::ranges::transform(before, allowed.begin(), [](std::int64_t n) { return n + kMost; });
      changed.notify_all();
      EXPECT_TRUE(changed.wait_for(lock, std::chrono::minutes{3}, [&] {
        return std::ranges::equal(inserted_so_far, before, [](std::int64_t now, std::int64_t then) {
          return now >= then + kLoad;
        });
      })) << "somebody did not go on";
    };
    for (int round = 0; round < rounds; ++round) {
      wait_for_more();
      const std::size_t primary = set.primary();
      set.member(primary).kill();
      wait_for_more();
      set.member(primary).restart();
    }
    wait_for_more();
    const std::lock_guard lock(mutex);
    stop = true;
    changed.notify_all();
  }
  std::printf("%zu documents of one thread\n", acknowledged[0].size());
  const auto reply_count = [&](const std::string& json) -> std::int64_t {
    const std::string reply = command(json);
    EXPECT_THAT(reply, HasSubstr(R"("ok" : 1.0)"));
    const std::size_t at = reply.find(R"("n" : )");
    return at == std::string::npos ? 0 : std::stoll(reply.substr(at + 6));
  };
  for (const char* const field : {"$n", "$account"})
    EXPECT_EQ(reply_count(R"({"aggregate":"accounts","pipeline":[{"$group":{"_id":")" +
                          std::string(field) +
                          R"(","c":{"$sum":1}}},{"$match":{"c":{"$gt":1}}},{"$count":"n"}],)"
                          R"("cursor":{}})"),
              0)
        << field << " is there twice";
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    const auto there = [&](const std::set<std::int64_t>& numbers) {
      std::string all;
      for (const std::int64_t n : numbers) all += (all.empty() ? "" : ",") + std::to_string(n);
      return reply_count(R"({"count":"accounts","query":{"n":{"$in":[)" + all + "]}}}");
    };
    EXPECT_GE(std::ssize(acknowledged.at(thread)), kLoad) << "too little load";
    EXPECT_EQ(there(acknowledged.at(thread)), std::ssize(acknowledged.at(thread)));
    EXPECT_EQ(there(absent.at(thread)), 0) << "what is said to be absent is";
  }
}

INSTANTIATE_TEST_SUITE_P(, MongodbInsertKill, testing::Bool(),
                         [](const auto& with) { return with.param ? "Proxy" : "UniqueIndex"; });

}  // namespace
}  // namespace idmint::mongodb
