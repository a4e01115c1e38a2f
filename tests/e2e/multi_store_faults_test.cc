// One sequence over a server of PostgreSQL and a file of SQLite. The server is killed while threads
// take ids, and comes back.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "idmint/mint.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/postgresql.h"

namespace idmint::e2e {
namespace {

using fakes::why;
using servers::PostgresqlServer;
using std::chrono::seconds;

// A call that is not served by then fails, and the test with it.
constexpr seconds kDeadline{4};

// The values that threads have taken.
class Taken {
 public:
  void add(std::int64_t value) {
    const std::lock_guard lock(mutex_);
    if (!values_.insert(value).second) repeated_.push_back(value);
    ++by_stripe_[static_cast<std::size_t>((value - 1) % 2)];
  }
  [[nodiscard]] std::int64_t of_stripe(std::size_t k) {
    const std::lock_guard lock(mutex_);
    return by_stripe_[k];
  }
  [[nodiscard]] std::vector<std::int64_t> repeated() {
    const std::lock_guard lock(mutex_);
    return repeated_;
  }

 private:
  std::mutex mutex_;
  std::set<std::int64_t> values_;
  std::vector<std::int64_t> repeated_;
  std::int64_t by_stripe_[2] = {0, 0};
};

TEST(SpreadFaults, IdsGoOnWhileAServerIsKilledAndTheBalanceReturns) {
  const fakes::TempFolder folder;
  PostgresqlServer server;
  const std::string file = "sqlite:" + folder.path("b.db");
  const std::vector<std::string> urls{server.database("a"), file};
  MintOptions options{.store = file};
  options.store_options.deadline = kDeadline;
  const std::string trust_folder = folder.path("trust");
  options.store_options.trust_folder = trust_folder;
  Mint mint(options);
  const auto made = mint.create_over(
      {.name = "tickets", .strategy = Strategy::kInterleaved, .last = 1'000'000'000}, urls);
  ASSERT_TRUE(made) << why(made);

  Taken taken;
  std::atomic<bool> stop = false;
  std::atomic<bool> rest = false;  // so that not too much is to be caught up
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      // A process of its own, as far as the stores are concerned.
      Mint own(options);
      const auto source = own.source("tickets");
      ASSERT_TRUE(source) << why(source);
      while (!stop) {
        rest.wait(true);
        std::vector<Id> ids(1);
        const Result<void> filled = (*source)->next(ids);
        ASSERT_TRUE(filled) << why(filled);
        taken.add(std::get<std::int64_t>(ids.front()));
      }
    });
  }
  const auto until = [](const auto& condition) {
    const auto end = std::chrono::steady_clock::now() + seconds{60};
    while (!condition() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return condition();
  };
  EXPECT_TRUE(until([&] { return taken.of_stripe(0) > 20 && taken.of_stripe(1) > 20; }));
  server.kill();
  const std::int64_t before = taken.of_stripe(1);
  EXPECT_TRUE(until([&] { return taken.of_stripe(1) > before + 200; }));
  rest = true;
  // A process that starts meanwhile takes part, too.
  {
    Mint other(options);
    const auto source = other.source("tickets");
    ASSERT_TRUE(source) << why(source);
    std::vector<Id> ids(10);
    ASSERT_TRUE((*source)->next(ids));
    for (const Id& id : ids) taken.add(std::get<std::int64_t>(id));
  }
  // So does one that knows the server only, and the file as another store of the sequence.
  {
    MintOptions from_server = options;
    from_server.store = urls.front();
    from_server.over = {file};
    Mint other(from_server);
    const Result<SequenceStatus> seen = other.peek("tickets");
    ASSERT_TRUE(seen) << why(seen);
    EXPECT_TRUE(seen->stripes[0].error && seen->stripes[1].next);
    EXPECT_EQ(seen->stripes[0].error->message().find("nothing was changed"), std::string::npos);
    const auto source = other.source("tickets");
    ASSERT_TRUE(source) << why(source);
    std::vector<Id> ids(1);
    ASSERT_TRUE((*source)->next(ids));
    taken.add(std::get<std::int64_t>(ids.front()));
  }
  const Result<SequenceStatus> down = mint.peek("tickets");
  ASSERT_TRUE(down) << why(down);
  EXPECT_TRUE(down->stripes[0].error);
  EXPECT_EQ(down->error->code, Code::kUnavailable);

  const std::int64_t during = taken.of_stripe(0);
  server.restart();
  rest = false;
  rest.notify_all();
  EXPECT_TRUE(until([&] { return taken.of_stripe(0) > during + 100; }));
  // The server has caught up: the next values are close to each other again.
  EXPECT_TRUE(until([&] {
    const Result<SequenceStatus> now = mint.peek("tickets");
    return now && !now->error && now->skew() < 100;
  }));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken.repeated(), std::vector<std::int64_t>{});
}

}  // namespace
}  // namespace idmint::e2e
