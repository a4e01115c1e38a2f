// kill -9 of processes that insert with gapless numbers, and of the primary under them, again and
// again: the numbers in the collection are 1 to n, what was acknowledged is there once, and what
// was said not to be inserted is not. IDMINT_KILL_ROUNDS sets the number of rounds.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <mongoc/mongoc.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "idmint/gapless.h"
#include "idmint/sequence.h"
#include "idmint/store.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/gapless.h"
#include "tests/servers/mongo.h"

namespace idmint {
namespace {

constexpr std::chrono::seconds kDeadline{20};
constexpr std::size_t kClients = 3;
constexpr int kThreads = 8;
constexpr int kLoad = 100;  // acknowledged inserts that each round waits for

Result<servers::OpenedInserter> open(const std::string& url) {
  return servers::open_gapless(url, "bills", "app.bills", "number", {.deadline = kDeadline});
}

Result<std::int64_t> insert(GaplessInserter& inserter, const std::string& key) {
  bson_t* const document = BCON_NEW("key", BCON_UTF8(key.c_str()));
  const Result<std::int64_t> number =
      inserter.insert(std::as_bytes(std::span(bson_get_data(document), document->len)));
  bson_destroy(document);
  return number;
}

// A client, run by the test below in a process of its own, until it is killed. Each line of the log
// is one write(2): "+ KEY NUMBER" acknowledged, "- KEY" not inserted, "? KEY" unknown.
TEST(GaplessClient, RunsWhereItIsAskedTo) {
  const char* const url = std::getenv("IDMINT_GAPLESS_URL");
  if (url == nullptr) return;
  const std::string name = std::getenv("IDMINT_GAPLESS_NAME");
  const int log = ::open(std::getenv("IDMINT_GAPLESS_LOG"), O_WRONLY | O_APPEND | O_CREAT, 0600);
  ASSERT_GE(log, 0);
  auto inserter = open(url);
  while (!inserter && inserter.error().code == Code::kUnavailable) inserter = open(url);
  ASSERT_TRUE(inserter) << inserter.error().message();
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0;; ++i) {
        const std::string key = name + "/" + std::to_string(t) + "/" + std::to_string(i);
        const auto number = insert(**inserter, key);
        std::string line = "+ " + key + "\n";
        if (number) {
          line.insert(line.size() - 1, " " + std::to_string(*number));
        } else {
          const Code code = number.error().code;
          line[0] = code == Code::kUnavailable                                  ? '-'
                    : code == Code::kUnknown || code == Code::kDeadlineExceeded ? '?'
                                                                                : '!';
          if (line[0] == '!') line = "! " + number.error().message() + "\n";
        }
        if (::write(log, line.data(), line.size()) != static_cast<ssize_t>(line.size())) _exit(1);
      }
    });
}

pid_t start_client(const std::string& url, const std::string& name, const std::string& log) {
  const pid_t child = fork();
  if (child != 0) return child;
  setenv("IDMINT_GAPLESS_URL", url.c_str(), 1);
  setenv("IDMINT_GAPLESS_NAME", name.c_str(), 1);
  setenv("IDMINT_GAPLESS_LOG", log.c_str(), 1);
  execl("/proc/self/exe", "client", "--gtest_filter=GaplessClient.*", "--gtest_brief=1", nullptr);
  _exit(1);
}

struct Logged {
  std::map<std::string, std::int64_t> acknowledged{};
  std::vector<std::string> refused{};
  int unknown = 0;
  std::string wrong{};
};

Logged read_log(const std::string& path) {
  Logged all;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string what;
    std::string key;
    words >> what >> key;
    if (what == "+") words >> all.acknowledged[key];
    if (what == "-") all.refused.push_back(key);
    if (what == "?") ++all.unknown;
    if (what == "!") all.wrong = line;
  }
  return all;
}

TEST(MongodbGaplessKill, OfClientsAndOfThePrimaryLeavesNoHole) {
  const char* const wanted = std::getenv("IDMINT_KILL_ROUNDS");
  const int rounds = wanted != nullptr ? std::atoi(wanted) : 4;
  ASSERT_GT(rounds, 0);
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  servers::MongoSet set;
  const std::string url = set.url("app");
  {
    const auto store = Store::open(url, {.deadline = kDeadline});
    ASSERT_TRUE(store) << store.error().message();
    ASSERT_TRUE(create_sequence(**store, {.name = "bills", .strategy = Strategy::kGapless}));
  }
#ifdef IDMINT_EXAMPLE
  EXPECT_EQ(std::system((std::string(IDMINT_EXAMPLE) + " '" + url + "' ann bob").c_str()), 0);
#endif
  const fakes::TempFolder folder;
  const std::string log = folder.path("log");
  const auto wait_for_more = [&] {
    const std::size_t enough = read_log(log).acknowledged.size() + kLoad;
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes{3};
    while (read_log(log).acknowledged.size() < enough && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
    return read_log(log).acknowledged.size() >= enough;
  };
  std::array<pid_t, kClients> clients{};
  int started = 0;
  const auto start = [&](pid_t& client) {
    client = start_client(url, std::to_string(started++), log);
    ASSERT_GT(client, 0);
  };
  const auto end = [](pid_t client) {
    kill(client, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(client, &status, 0), client);
    EXPECT_TRUE(WIFSIGNALED(status)) << "a client failed";
  };
  for (pid_t& client : clients) start(client);
  for (int round = 0; round < rounds; ++round) {
    EXPECT_TRUE(wait_for_more()) << "nobody went on before round " << round;
    std::this_thread::sleep_for(
        std::chrono::milliseconds{std::uniform_int_distribution<int>(0, 100)(random)});
    pid_t& client = clients[static_cast<std::size_t>(round) % kClients];
    end(client);
    start(client);
    if (round % 2 == 0) continue;
    const std::size_t primary = set.primary();
    set.member(primary).kill();
    EXPECT_TRUE(wait_for_more()) << "nobody went on after the kill in round " << round;
    set.member(primary).restart();
  }
  for (const pid_t client : clients) end(client);

  // Comes after whatever they left under way.
  const auto inserter = open(url);
  ASSERT_TRUE(inserter) << inserter.error().message();
  const auto last = insert(**inserter, "last");
  ASSERT_TRUE(last) << last.error().message();

  mongoc_client_t* const client = mongoc_client_new(url.c_str());
  mongoc_collection_t* const there = mongoc_client_get_collection(client, "app", "bills");
  bson_t* const filter = bson_new();
  bson_t* const options = BCON_NEW("sort", "{", "number", BCON_INT32(1), "}");
  mongoc_cursor_t* const cursor = mongoc_collection_find_with_opts(there, filter, options, nullptr);
  std::map<std::string, std::int64_t> found;
  std::int64_t count = 0;
  const bson_t* one = nullptr;
  while (mongoc_cursor_next(cursor, &one)) {
    bson_iter_t number;
    bson_iter_t key;
    ASSERT_TRUE(bson_iter_init_find(&number, one, "number"));
    ASSERT_TRUE(bson_iter_init_find(&key, one, "key"));
    ASSERT_EQ(bson_iter_as_int64(&number), ++count) << "a hole, or a number twice";
    EXPECT_TRUE(found.emplace(bson_iter_utf8(&key, nullptr), count).second) << "a document twice";
  }
  bson_error_t error;
  ASSERT_FALSE(mongoc_cursor_error(cursor, &error)) << error.message;
  mongoc_cursor_destroy(cursor);
  bson_destroy(options);
  bson_destroy(filter);
  mongoc_collection_destroy(there);
  mongoc_client_destroy(client);

  EXPECT_EQ(*last, count);
  const Logged logged = read_log(log);
  EXPECT_EQ(logged.wrong, "");
  for (const auto& [key, number] : logged.acknowledged) {
    const auto at = found.find(key);
    ASSERT_NE(at, found.end()) << key << " was acknowledged and lost";
    EXPECT_EQ(at->second, number) << key;
  }
  for (const std::string& key : logged.refused)
    EXPECT_FALSE(found.contains(key)) << key << " was said not to be inserted";
  EXPECT_GE(logged.acknowledged.size(), static_cast<std::size_t>(rounds * kLoad));
  std::printf(
      "%d kills of clients, %d of the primary; %zu acknowledged of %lld, %zu refused, %d "
      "unknown\n",
      started, rounds / 2, logged.acknowledged.size(), static_cast<long long>(count),
      logged.refused.size(), logged.unknown);
}

}  // namespace
}  // namespace idmint
