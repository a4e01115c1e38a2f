// How long it takes until so many processes that ask at once have a worker id each, and how many
// extensions a second 64 threads get, on each of the servers. On MongoDB also how long it takes
// until so many processes have made the smallest durable write at once, by the driver alone.
//
//   acquire_bench [PROCESSES [SERVER...]]        (1024, all: postgresql mariadb redis etcd mongodb)
//
// Each process has its own connection, which it makes before the clock starts. Everything runs on
// this machine.
#include <mariadb/mysql.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/smallest_writes.h"
#include "idmint/store.h"
#include "ids/lease_table.h"
#include "tests/servers/etcd.h"
#include "tests/servers/mariadb.h"
#include "tests/servers/mongo.h"
#include "tests/servers/postgresql.h"
#include "tests/servers/redis.h"

using namespace idmint;
using std::chrono::duration;
using std::chrono::seconds;
using std::chrono::steady_clock;

namespace {

constexpr seconds kHeld{60};

// The report of a process to its parent.
struct Told {
  std::atomic<std::int64_t> worker{-1};
  std::atomic<std::int64_t> after{0};  // us
};

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "acquire_bench: %s\n", why.c_str());
  std::exit(1);
}

std::unique_ptr<Store> open(const std::string& url) {
  auto store = Store::open(url, {.deadline = seconds{120}});
  if (!store) fail(store.error().message());
  return *std::move(store);
}

LeaseTerms terms() { return {.held = kHeld, .clock = system_clock().now(), .max_skew = kHeld}; }

// Like a generator, which knows the pool from the catalog.
Result<Lease> acquire(LeaseTable& table, const std::string& pool, std::int64_t workers) {
  return table.acquire(pool, {.token = Uuid4Generator().next(),
                              .holder = "bench",
                              .workers = workers,
                              .now = 1,
                              .units = 1,
                              .max_drift = 1,
                              .terms = terms()});
}

// Runs `work` in a process of its own, whose connections end with it: a store does not outlive a
// fork.
void in_a_process(const std::function<void()>& work) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    work();
    std::fflush(stdout);
    ::_exit(0);
  }
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid || status != 0) fail("a process failed");
}

// What a process does when all begin; it gives a number that no other one gives.
using Act = std::function<std::int64_t()>;

// Has so many processes `prepare`, each with its number, and then all at once do what they
// prepared.
void at_once(const std::string& name, const std::string& done, std::size_t processes,
             const std::function<Act(std::size_t)>& prepare) {
  void* const shared = ::mmap(nullptr, sizeof(Told) * processes, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) fail("no memory");
  auto* const told = new (shared) Told[processes];
  std::array<int, 2> ready{};
  std::array<int, 2> go{};
  if (::pipe(ready.data()) != 0 || ::pipe(go.data()) != 0) fail("no pipe");
  std::vector<pid_t> all;
  std::fflush(stdout);
  for (std::size_t i = 0; i < processes; ++i) {
    const pid_t pid = ::fork();
    if (pid < 0) fail("no process");
    if (pid == 0) {
      ::close(go[1]);
      const Act act = prepare(i);
      char byte = 'r';
      if (::write(ready[1], &byte, 1) != 1 || ::read(go[0], &byte, 1) != 0) ::_exit(1);
      const auto begin = steady_clock::now();
      told[i].worker = act();
      told[i].after =
          std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - begin)
              .count();
      ::_exit(0);
    }
    all.push_back(pid);
  }
  for (std::size_t i = 0; i < processes; ++i) {
    char byte = 0;
    if (::read(ready[0], &byte, 1) != 1) fail("a process ended");
  }
  const auto begin = steady_clock::now();
  ::close(go[1]);
  bool ended = true;
  for (const pid_t pid : all) {
    int status = 0;
    ended = ::waitpid(pid, &status, 0) == pid && status == 0 && ended;
  }
  const duration<double> took = steady_clock::now() - begin;
  for (const int end : {ready[0], ready[1], go[0]}) ::close(end);
  std::vector<double> times;
  std::set<std::int64_t> workers;
  for (std::size_t i = 0; i < processes; ++i) {
    times.push_back(static_cast<double>(told[i].after) / 1e6);
    workers.insert(told[i].worker);
  }
  std::ranges::sort(times);
  if (!ended || workers.size() != processes || workers.contains(-1)) fail("not each has one");
  std::printf("%-10s %zu processes at once: each has %s after %.2f s; the median after %.2f s\n",
              name.c_str(), processes, done.c_str(), took.count(), times[processes / 2]);
  ::munmap(shared, sizeof(Told) * processes);
}

void acquire_at_once(const std::string& name, const std::string& url, std::size_t processes) {
  const auto workers = static_cast<std::int64_t>(processes);
  in_a_process([&] {
    if (auto made = open(url)->leases()->create_pool("p", workers); !made)
      fail(made.error().message());
  });
  at_once(name, "a worker id", processes, [&](std::size_t) -> Act {
    const std::shared_ptr<Store> store = open(url);
    if (!store->leases()->workers("p")) fail("no pool");
    return [=] {
      const auto lease = acquire(*store->leases(), "p", workers);
      if (!lease) fail(lease.error().message());
      return lease->worker;
    };
  });
}

// An update of one column by the primary key, prepared before, in the database "floor".
class SmallestMariadbWrites final {
 public:
  explicit SmallestMariadbWrites(int port) : connection_(::mysql_init(nullptr)) {
    if (::mysql_real_connect(connection_, "127.0.0.1", "root", nullptr, "floor",
                             static_cast<unsigned>(port), nullptr, 0) == nullptr)
      fail(::mysql_error(connection_));
  }
  ~SmallestMariadbWrites() {
    if (statement_ != nullptr) ::mysql_stmt_close(statement_);
    ::mysql_close(connection_);
  }
  SmallestMariadbWrites(const SmallestMariadbWrites&) = delete;
  SmallestMariadbWrites& operator=(const SmallestMariadbWrites&) = delete;

  [[nodiscard]] bool make(std::int64_t rows) {
    const std::string fill =
        "INSERT INTO floor SELECT seq, 0 FROM seq_0_to_" + std::to_string(rows - 1);
    return ::mysql_query(connection_,
                         "CREATE TABLE floor (id BIGINT PRIMARY KEY, n BIGINT) ENGINE=InnoDB") ==
               0 &&
           ::mysql_query(connection_, fill.c_str()) == 0;
  }

  [[nodiscard]] bool write(std::int64_t id) {
    if (statement_ == nullptr) {
      constexpr std::string_view kUpdate = "UPDATE floor SET n = n + 1 WHERE id = ?";
      statement_ = ::mysql_stmt_init(connection_);
      if (::mysql_stmt_prepare(statement_, kUpdate.data(), kUpdate.size()) != 0) return false;
    }
    MYSQL_BIND row{};
    row.buffer_type = MYSQL_TYPE_LONGLONG;
    row.buffer = &id;
    return ::mysql_stmt_bind_param(statement_, &row) == 0 &&
           ::mysql_stmt_execute(statement_) == 0 && ::mysql_stmt_affected_rows(statement_) == 1;
  }

 private:
  MYSQL* connection_;
  MYSQL_STMT* statement_ = nullptr;
};

// The same with the driver alone, each process its own row or document: make() of what `connect`
// returns makes them, and write() writes one.
void write_at_once(const std::string& name, const auto& connect, std::size_t processes) {
  const auto all = static_cast<std::int64_t>(processes);
  in_a_process([&] {
    if (!connect()->make(all)) fail("nothing to write to");
  });
  at_once(name, "made the smallest durable write", processes, [&](std::size_t number) -> Act {
    const auto writes = connect();
    const auto id = static_cast<std::int64_t>(number);
    const auto write = [=] {
      // MongoDB cuts some of so many new connections; its driver connects anew.
      for (int tries = 100; !writes->write(id); --tries)
        if (tries == 0) fail("nothing was written");
    };
    write();
    return [=] {
      write();
      return id;
    };
  });
}

void extend(const std::string& name, const std::string& url) {
  constexpr int kThreads = 64;
  constexpr int kRounds = 5;
  const auto store = open(url);
  LeaseTable& table = *store->leases();
  if (!table.create_pool("extended", kThreads)) fail("no pool");
  std::vector<Lease> leases;
  for (int i = 0; i < kThreads; ++i) {
    const auto lease = acquire(table, "extended", kThreads);
    if (!lease) fail(lease.error().message());
    leases.push_back(*lease);
  }
  std::vector<double> rates;
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<std::int64_t> extended{0};
    const auto end = steady_clock::now() + seconds{1};
    {
      std::vector<std::jthread> threads;
      for (Lease& lease : leases)
        threads.emplace_back([&] {
          while (steady_clock::now() < end) {
            const auto longer =
                table.extend("extended", lease, lease.to + 1, Uuid4Generator().next(), terms());
            if (!longer) fail(longer.error().message());
            lease = *longer;
            ++extended;
          }
        });
    }
    rates.push_back(static_cast<double>(extended));
  }
  std::ranges::sort(rates);
  std::printf("%-10s %d threads extend: %.0f a second\n", name.c_str(), kThreads,
              rates[kRounds / 2]);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t processes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1024;
  const std::string connections = std::to_string(processes + 100);
  const auto measure = [&](const std::string& name, const std::string& url) {
    acquire_at_once(name, url, processes);
    in_a_process([&] { extend(name, url); });
    std::fflush(stdout);
  };
  const auto wanted = [&](std::string_view name) {
    return argc < 3 ||
           std::any_of(argv + 2, argv + argc, [&](const char* each) { return name == each; });
  };
  if (wanted("postgresql")) {
    const servers::PostgresqlServer server({"max_connections = " + connections});
    measure("postgresql", server.database("ids"));
  }
  if (wanted("mariadb")) {
    const servers::MariadbServer server({"--max-connections=" + connections});
    measure("mariadb", server.database("ids"));
    server.database("floor");
    const auto connect = [&] { return std::make_shared<SmallestMariadbWrites>(server.port()); };
    write_at_once("mariadb", connect, processes);
  }
  if (wanted("redis")) {
    const servers::RedisServer server;
    measure("redis", server.url(0));
  }
  if (wanted("etcd")) {
    const servers::EtcdCluster server;
    measure("etcd", server.url("ids"));
  }
  if (wanted("mongodb")) {
    const servers::MongoSet set;
    measure("mongodb", set.url("ids"));
    const auto connect = [&] { return std::make_shared<SmallestWrites>(set.url("ids")); };
    write_at_once("mongodb", connect, processes);
  }
}
