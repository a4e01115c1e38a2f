// Flickr's pair of ticket servers, as they are: two servers of MariaDB that count in steps of 2,
// and programs with REPLACE that go to the other one where one does not answer. idmint takes from
// both beside them, and either server is killed.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "idmint/mint.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mariadb.h"
#include "tests/servers/plain_clients.h"

namespace idmint::e2e {
namespace {

using fakes::why;
using servers::MariadbServer;
using servers::PlainClients;
using std::chrono::seconds;

// A call that is not served by then fails, and the test with it.
constexpr seconds kDeadline{4};

using Pair = std::array<std::unique_ptr<MariadbServer>, 2>;

// A program that takes one ticket, from the server that answered it last if it still does.
PlainClients::Next program(const Pair& pair, std::size_t begins_with) {
  return [&pair, k = begins_with, ask = pair.at(begins_with)->connected("shop")]() mutable {
    for (;;) {
      const std::string ticket =
          ask("REPLACE INTO Tickets64 (stub) VALUES ('a'); SELECT LAST_INSERT_ID()");
      if (!ticket.empty() && !ticket.starts_with("ERROR")) return std::int64_t{std::stoll(ticket)};
      k = 1 - k;
      ask = pair.at(k)->connected("shop");
    }
  };
}

// What the threads have taken through idmint.
class Taken {
 public:
  void add(std::int64_t value) {
    const std::lock_guard lock(mutex_);
    values_.push_back(value);
    ++of_server_.at(static_cast<std::size_t>((value + 1) % 2));
  }
  [[nodiscard]] std::int64_t of_server(std::size_t k) {
    const std::lock_guard lock(mutex_);
    return of_server_.at(k);
  }
  [[nodiscard]] std::vector<std::int64_t> all() {
    const std::lock_guard lock(mutex_);
    return values_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::int64_t> values_;
  std::array<std::int64_t, 2> of_server_{};
};

TEST(TicketPair, NoTicketComesTwiceWhicheverServerIsKilled) {
  Pair pair;
  std::vector<std::string> urls;
  for (const std::size_t k : {0U, 1U}) {
    pair.at(k) = std::make_unique<MariadbServer>(std::vector<std::string>{
        "--auto-increment-increment=2", "--auto-increment-offset=" + std::to_string(k + 1)});
    urls.push_back(pair.at(k)->database("shop"));
    pair.at(k)->run(
        "CREATE TABLE Tickets64 (id bigint unsigned NOT NULL auto_increment,"
        " stub char(1) NOT NULL default '', PRIMARY KEY (id), UNIQUE KEY stub (stub))",
        "shop");
  }
  std::vector<std::unique_ptr<PlainClients>> programs;
  for (const std::size_t k : {0U, 1U})
    programs.push_back(std::make_unique<PlainClients>(2, [&] { return program(pair, k); }));

  const fakes::TempFolder folder;
  MintOptions options{.store = urls.front(), .over = urls};
  options.store_options.deadline = kDeadline;
  options.store_options.trust_folder = folder.path("trust");
  Mint mint(options);
  const Result<void> made = mint.create_over({.name = "tickets",
                                              .strategy = Strategy::kInterleaved,
                                              .last = 1'000'000'000,
                                              .adopted = "tickets:Tickets64/stub=a:last=id"},
                                             urls);
  ASSERT_TRUE(made) << why(made);

  Taken taken;
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      // A process of its own, as far as the stores are concerned.
      MintOptions its = options;
      its.store = urls.at(i % 2);
      Mint own(its);
      const auto source = own.source("tickets");
      ASSERT_TRUE(source) << why(source);
      while (!stop) {
        std::vector<Id> ids(i + 1);
        const Result<void> filled = (*source)->next(ids);
        ASSERT_TRUE(filled) << why(filled);
        for (const Id& id : ids) taken.add(std::get<std::int64_t>(id));
      }
    });
  }
  const auto come_from = [&](std::size_t k, std::int64_t more) {
    const std::int64_t enough = taken.of_server(k) + more;
    const auto end = std::chrono::steady_clock::now() + seconds{90};
    while (taken.of_server(k) < enough && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
    return taken.of_server(k) >= enough;
  };
  for (const std::size_t k : {0U, 1U}) {
    EXPECT_TRUE(come_from(k, 20));
    pair.at(k)->kill();
    EXPECT_TRUE(come_from(1 - k, 100)) << "ids go on while server " << k << " is down";
    for (const auto& some : programs) some->go_on(20);
    pair.at(k)->restart();
    EXPECT_TRUE(come_from(k, 20)) << "server " << k << " is back";
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  std::vector<std::int64_t> all = taken.all();
  for (const auto& some : programs)
    for (const std::int64_t theirs : some->stop()) all.push_back(theirs);
  servers::expect_no_repeat(std::move(all));
}

}  // namespace
}  // namespace idmint::e2e
