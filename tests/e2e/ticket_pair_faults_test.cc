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

// A program that takes a ticket from its own server, or else from the other one. It repeats a
// request that a server rolled back because of a deadlock, by the same connection.
PlainClients::Next program(const Pair& pair, std::size_t own, const std::atomic<bool>& rest) {
  const auto ticket_of = [](const MariadbServer::Asking& ask) {
    std::string ticket;
    do {
      ticket = ask("REPLACE INTO Tickets64 (stub) VALUES ('a'); SELECT LAST_INSERT_ID()");
    } while (ticket.starts_with("ERROR: Deadlock"));
    return ticket.empty() || ticket.starts_with("ERROR") ? 0 : std::int64_t{std::stoll(ticket)};
  };
  return [&pair, &rest, own, ticket_of, ask = pair.at(own)->connected("shop")]() mutable {
    rest.wait(true);
    for (;;) {
      if (const std::int64_t ticket = ticket_of(ask)) return ticket;
      ask = pair.at(own)->connected("shop");
      if (const std::int64_t ticket = ticket_of(pair.at(1 - own)->connected("shop"))) return ticket;
    }
  };
}

// The values that the threads have taken through idmint.
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
  std::atomic<bool> rest = false;  // so that not too much is to be caught up
  std::vector<std::unique_ptr<PlainClients>> programs;
  for (const std::size_t k : {0U, 1U, 0U, 1U})
    programs.push_back(std::make_unique<PlainClients>(1, [&] { return program(pair, k, rest); }));
  const auto go_on = [&] {
    for (const auto& some : programs) some->go_on(5);
  };

  const fakes::TempFolder folder;
  MintOptions options{.store = urls.front(), .over = urls};
  options.store_options.deadline = kDeadline;
  const std::string trust_folder = folder.path("trust");
  options.store_options.trust_folder = trust_folder;
  Mint mint(options);
  const auto made = mint.create_over({.name = "tickets",
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
        rest.wait(true);
        // Many, so that idmint catches up with the programs on the server that is ahead.
        std::vector<Id> ids(1 + 15 * i);
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
    EXPECT_TRUE(come_from(1 - k, 30)) << "ids go on while server " << k << " is down";
    go_on();
    rest = true;
    pair.at(k)->restart();
    rest = false;
    rest.notify_all();
    EXPECT_TRUE(come_from(k, 20)) << "server " << k << " is back";
    go_on();  // all are connected again
  }
  // Set by mistake: the programs keep the steps with which they connected.
  pair.back()->run("SET GLOBAL auto_increment_offset = 1");
  EXPECT_TRUE(come_from(0, 50)) << "ids go on, and none is taken from the other server";
  pair.back()->run("SET GLOBAL auto_increment_offset = 2");
  EXPECT_TRUE(come_from(1, 20)) << "it is as it was";
  stop = true;
  for (std::thread& thread : threads) thread.join();
  std::vector<std::int64_t> all = taken.all();
  for (const auto& some : programs)
    for (const std::int64_t theirs : some->stop()) all.push_back(theirs);
  servers::expect_no_repeat(std::move(all));
}

}  // namespace
}  // namespace idmint::e2e
