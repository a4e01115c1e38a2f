// A call ends by its deadline, whatever its store does: the strategies, by the number of threads
// that share a sequence, while the store stands still. Another process holds the lock of SQLite;
// every member of MongoDB's set is frozen, and every process of the server of another store.
//
// The deadline is 1 s, or $IDMINT_DEADLINE_MS. The delay that a busy machine adds to it is measured
// beside, with threads that only wait as long.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "idmint/sequence.h"
#include "idmint/store.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/unique_index.h"
#if defined(IDMINT_DEADLINES_MONGODB)
#include "tests/servers/mongo.h"
#elif defined(IDMINT_DEADLINES_ETCD)
#include "tests/servers/etcd.h"
#elif defined(IDMINT_DEADLINES_MARIADB)
#include "tests/servers/mariadb.h"
#elif defined(IDMINT_DEADLINES_POSTGRESQL)
#include "tests/servers/postgresql.h"
#elif defined(IDMINT_DEADLINES_REDIS)
#include "tests/servers/redis.h"
#elif defined(IDMINT_DEADLINES_ZOOKEEPER)
#include "tests/servers/zookeeper.h"
#else
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fakes/temp_folder.h"
#ifdef IDMINT_BINARY
#include "tests/e2e/cli.h"
#endif
#endif

namespace idmint {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

milliseconds deadline() {
  const char* const text = std::getenv("IDMINT_DEADLINE_MS");
  return milliseconds{text != nullptr ? std::atoi(text) : 1000};
}

constexpr milliseconds kSlack{500};
constexpr std::array<std::size_t, 3> kThreads = {1, 4, 16};
constexpr std::array kStrategies = {Strategy::kCounter, Strategy::kStriped, Strategy::kInterleaved,
                                    Strategy::kCached,  Strategy::kRandom,  Strategy::kPermuted};

void create_all(const std::string& url) {
  const auto store = Store::open(url, {.deadline = std::chrono::minutes{1}}).value();
  for (const Strategy strategy : kStrategies) {
    SequenceDefinition definition{.name = std::string(name(strategy)), .strategy = strategy};
    if (strategy == Strategy::kStriped || strategy == Strategy::kInterleaved)
      definition.stripes = 10;
    definition.last = 1'000'000'000;
    const auto created = create_sequence(*store, definition);
    EXPECT_TRUE(created) << created.error().message();
  }
}

// One sequence, and how many threads ask it for a value.
struct Cell {
  std::unique_ptr<Sequence> sequence;
  std::size_t threads;
  milliseconds longest{0};  // that one of them waited
};

std::string name_of(const Cell& cell) {
  return cell.sequence->definition().name + " x " + std::to_string(cell.threads);
}

// All threads of all cells at once. Returns how much longer than the deadline threads wait here
// that wait for nothing else.
milliseconds ask_all(std::vector<Cell>& cells) {
  std::mutex mutex;
  std::vector<std::thread> threads;
  milliseconds late{0};
  const auto waited_since = [](steady_clock::time_point begun) {
    return std::chrono::ceil<milliseconds>(steady_clock::now() - begun);
  };
  for (Cell& cell : cells) {
    cell.longest = milliseconds{0};
    for (std::size_t t = 0; t < cell.threads; ++t) {
      threads.emplace_back([&] {
        const auto begun = steady_clock::now();
        std::array<std::int64_t, 1> value{};
        const Result<void> got = cell.sequence->next(value);
        const milliseconds waited = waited_since(begun);
        const Code code = got ? Code{0} : got.error().code;
        const std::lock_guard lock(mutex);
        cell.longest = std::max(cell.longest, waited);
        EXPECT_TRUE(code == Code::kUnavailable || code == Code::kUnknown ||
                    code == Code::kDeadlineExceeded)
            << name_of(cell) << ": " << (got ? "a value" : got.error().message());
      });
    }
  }
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      const auto begun = steady_clock::now();
      std::condition_variable never;
      std::unique_lock lock(mutex);
      never.wait_until(lock, begun + deadline(), [] { return false; });
      late = std::max(late, waited_since(begun) - deadline());
    });
  }
  for (std::thread& thread : threads) thread.join();
  return late;
}

// Three times, as a machine may stand still itself: a call that waits too long does each time.
void expect_all_in_time(std::vector<Cell>& cells) {
  std::string overdue;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const milliseconds late = ask_all(cells);
    overdue.clear();
    for (const Cell& cell : cells) {
      std::printf("%-18s %6lld ms\n", name_of(cell).c_str(),
                  static_cast<long long>(cell.longest.count()));
      if (cell.longest > deadline() + kSlack + 2 * late)
        overdue += name_of(cell) + ": " + std::to_string(cell.longest.count()) + " ms; ";
    }
    if (overdue.empty()) return;
    overdue += "waiting alone took " + std::to_string(late.count()) + " ms more";
  }
  ADD_FAILURE() << "deadline " << deadline().count() << " ms: " << overdue;
}

std::vector<Cell> open_all(const std::function<Store&()>& store) {
  std::vector<Cell> cells;
  for (const Strategy strategy : kStrategies) {
    for (const std::size_t threads : kThreads) {
      auto sequence = Sequence::open(store(), name(strategy), {.deadline = deadline()});
      EXPECT_TRUE(sequence) << sequence.error().message();
      if (sequence) cells.push_back({*std::move(sequence), threads});
    }
  }
  return cells;
}

// When the store goes on, so does each sequence.
void expect_values(std::vector<Cell>& cells) {
  const auto until = steady_clock::now() + std::chrono::minutes{1};
  for (const Cell& cell : cells) {
    std::array<std::int64_t, 1> value{};
    Result<void> got = cell.sequence->next(value);
    while (!got && steady_clock::now() < until) got = cell.sequence->next(value);
    EXPECT_TRUE(got) << name_of(cell) << ": " << got.error().message();
  }
}

// The calls of a store that has a minute for each, and is given less.
void expect_given_time_is_kept(Store& store) {
  const std::array<std::int64_t, 1> keys{1};
  const std::array<std::function<void(SteadyTime)>, 6> calls = {
      [&](SteadyTime until) {
        EXPECT_FALSE(store.counters()->advance("counter", 1, Take::kAll, until));
      },
      [&](SteadyTime until) { EXPECT_FALSE(store.unique_index()->insert("random", keys, until)); },
      [&](SteadyTime until) { static_cast<void>(store.counters()->peek("counter", until)); },
      [&](SteadyTime until) { static_cast<void>(store.counters()->list("counter", until)); },
      [&](SteadyTime until) { static_cast<void>(store.unique_index()->claimed("random", until)); },
      [&](SteadyTime until) { static_cast<void>(store.catalog()->find("counter", until)); },
  };
  for (const auto& call : calls) {
    const auto begun = steady_clock::now();
    call(begun + milliseconds{100});
    EXPECT_LT(steady_clock::now() - begun, std::chrono::seconds{30});
  }
}

#if defined(IDMINT_DEADLINES_MONGODB)

TEST(Deadlines, OfMongodbWithEveryMemberFrozen) {
  // None stands for election while it is frozen.
  servers::MongoSet set({.election_timeout = std::chrono::minutes{5}});
  create_all(set.url("ids"));
  const auto store = Store::open(set.url("ids"), {.deadline = deadline()}).value();
  const auto patient = Store::open(set.url("ids"), {.deadline = std::chrono::minutes{1}}).value();
  std::vector<Cell> cells = open_all([&]() -> Store& { return *store; });
  for (std::size_t i = 0; i < 3; ++i) set.member(i).signal(SIGSTOP);
  expect_all_in_time(cells);
  expect_given_time_is_kept(*patient);
  for (std::size_t i = 0; i < 3; ++i) set.member(i).signal(SIGCONT);
  expect_values(cells);
}

#elif defined(IDMINT_DEADLINES_ETCD) || defined(IDMINT_DEADLINES_MARIADB) ||   \
    defined(IDMINT_DEADLINES_POSTGRESQL) || defined(IDMINT_DEADLINES_REDIS) || \
    defined(IDMINT_DEADLINES_ZOOKEEPER)

#if defined(IDMINT_DEADLINES_ETCD)
struct FrozenServer : servers::EtcdCluster {
  [[nodiscard]] std::string database(const std::string& name) const { return url(name); }
  void signal(int number) const { EtcdCluster::signal(0, number); }
};
#elif defined(IDMINT_DEADLINES_ZOOKEEPER)
struct FrozenServer : servers::ZookeeperEnsemble {
  [[nodiscard]] std::string database(const std::string& name) const { return url(name); }
  void signal(int number) const { ZookeeperEnsemble::signal(0, number); }
};
#elif defined(IDMINT_DEADLINES_MARIADB)
using FrozenServer = servers::MariadbServer;
#elif defined(IDMINT_DEADLINES_REDIS)
using FrozenServer = servers::RedisServer;
#else
using FrozenServer = servers::PostgresqlServer;
#endif

TEST(Deadlines, WithTheServerFrozen) {
  FrozenServer server;
  const std::string url = server.database("ids");
  create_all(url);
  const auto store = Store::open(url, {.deadline = deadline()}).value();
  const auto patient = Store::open(url, {.deadline = std::chrono::minutes{1}}).value();
  std::vector<Cell> cells = open_all([&]() -> Store& { return *store; });
  server.signal(SIGSTOP);
  expect_all_in_time(cells);
  expect_given_time_is_kept(*patient);
  server.signal(SIGCONT);
  expect_values(cells);
}

#else

// Another process, which takes the lock of the file when it is told to. REQUIRES: this one has no
// SQLite file open when it makes one, as a child inherits what SQLite knows of its locks.
class Holder {
 public:
  explicit Holder(const std::string& path) {
    std::array<int, 2> held{};
    std::array<int, 2> orders{};
    if (::pipe(held.data()) != 0 || ::pipe(orders.data()) != 0) std::abort();
    child_ = ::fork();
    if (child_ == 0) {
      ::close(orders[1]);
      char byte = 0;
      sqlite3* db = nullptr;
      const bool holds =
          ::read(orders[0], &byte, 1) == 1 && sqlite3_open(path.c_str(), &db) == SQLITE_OK &&
          sqlite3_busy_timeout(db, 60'000) == SQLITE_OK &&
          sqlite3_exec(db, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) == SQLITE_OK;
      if (!holds || ::write(held[1], &byte, 1) != 1) ::_exit(1);
      ::_exit(::read(orders[0], &byte, 1) == 0 ? 0 : 1);
    }
    ::close(orders[0]);
    ::close(held[1]);
    held_ = held[0];
    orders_ = orders[1];
  }
  ~Holder() {
    if (orders_ >= 0) let_go();
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  void hold() {
    char byte = 'h';
    EXPECT_EQ(::write(orders_, &byte, 1), 1);
    EXPECT_EQ(::read(held_, &byte, 1), 1) << "it has the lock";
  }
  void let_go() {
    ::close(std::exchange(orders_, -1));
    ::close(held_);
    int status = -1;
    EXPECT_EQ(::waitpid(child_, &status, 0), child_);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }

 private:
  pid_t child_ = 0;
  int held_ = -1;
  int orders_ = -1;
};

TEST(Deadlines, OfSqliteWithTheLockHeldByAnotherProcess) {
  const fakes::TempFolder folder;
  const std::string url = "sqlite:" + folder.path("ids.db");
  create_all(url);
  Holder holder(folder.path("ids.db"));
  std::vector<std::unique_ptr<Store> > stores;
  std::vector<Cell> cells = open_all([&]() -> Store& {
    stores.push_back(Store::open(url, {.deadline = deadline()}).value());
    return *stores.back();
  });
  const auto patient = Store::open(url, {.deadline = std::chrono::minutes{1}}).value();
  holder.hold();
  expect_all_in_time(cells);
  expect_given_time_is_kept(*patient);
  holder.let_go();
  expect_values(cells);
}

#ifdef IDMINT_BINARY

class DeadlinesOfCommands : public e2e::Cli {};

// Opening the store, finding the sequence and taking share the time of the command.
TEST_F(DeadlinesOfCommands, NextEndsByItsTimeoutAndSaysHowLongItWaited) {
  const std::string path = folder_ / "ids.db";
  create_all("sqlite:" + path);
  Holder holder(path);
  holder.hold();
  const std::string timeout = std::to_string(deadline().count()) + "ms";
  for (const char* const sequence : {"striped", "counter"}) {
    milliseconds waited{};
    for (int attempt = 0; attempt < 3; ++attempt) {
      const auto begun = steady_clock::now();
      const e2e::Ended ended = run(std::string("idmint next ") + sequence +
                                   " --store sqlite:ids.db --timeout " + timeout);
      waited = std::chrono::ceil<milliseconds>(steady_clock::now() - begun);
      EXPECT_EQ(ended.status, 7) << ended.err;
      EXPECT_EQ(ended.out, "");
      EXPECT_NE(ended.err.find(" ms"), std::string::npos) << ended.err;
      if (waited <= deadline() + 2 * kSlack) break;
    }
    EXPECT_LE(waited, deadline() + 2 * kSlack) << sequence;
    EXPECT_GE(waited, deadline());
  }
}

#endif

#endif

}  // namespace
}  // namespace idmint
