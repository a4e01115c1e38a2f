// Clients that mean harm, or do not know better, by the thousand: the daemon goes on to answer the
// others, and its memory stays bounded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "idmint/sequence.h"
#include "idmint/store.h"
#include "tests/e2e/daemon.h"
#include "tests/fakes/running_server.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::e2e {
namespace {

using server::Client;
using testing::HasSubstr;
using testing::StartsWith;

// Makes room for so many descriptors, or for as many as there may be. Returns how many.
std::size_t make_room_for(std::size_t descriptors) {
  rlimit limit{};
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, descriptors);
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  return static_cast<std::size_t>(limit.rlim_cur);
}

class HostileClients : public testing::Test {
 protected:
  HostileClients() {
    const auto store = Store::open(url_);
    EXPECT_TRUE(store) << store.error().message();
    EXPECT_TRUE(create_sequence(**store, {.name = "orders"}));
    daemon_ = std::make_unique<Daemon>(url_);
    honest_ = std::make_unique<Client>(port());
    EXPECT_EQ(honest_->ask("INCR orders"), ":1");
    EXPECT_EQ(honest_->ask_text("ID.NEXT uuid7").size(), 36U);
    before_ = memory("VmRSS:");
  }
  ~HostileClients() override {
    const int status = daemon_->end(SIGTERM);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }

  [[nodiscard]] std::uint16_t port() const { return static_cast<std::uint16_t>(daemon_->port()); }
  [[nodiscard]] std::uint16_t http_port() const {
    return static_cast<std::uint16_t>(daemon_->http_port());
  }
  std::vector<std::unique_ptr<Client>> clients(std::size_t count, std::uint16_t at) {
    std::vector<std::unique_ptr<Client>> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(std::make_unique<Client>(at));
    return all;
  }

  // Bytes, by a line of /proc/PID/status.
  [[nodiscard]] std::int64_t memory(std::string_view line) const {
    std::ifstream status("/proc/" + std::to_string(daemon_->pid()) + "/status");
    for (std::string word; status >> word;) {
      if (word != line) continue;
      std::int64_t kibibytes = 0;
      status >> kibibytes;
      return kibibytes * 1024;
    }
    ADD_FAILURE() << "no " << line;
    return 0;
  }
  // Others are answered, and at no time was there more memory than allowed.
  void expect_served() {
    const std::string value = honest_->ask("INCR orders");
    EXPECT_THAT(value, StartsWith(":"));
    Client fresh(port());
    EXPECT_EQ(fresh.ask("PING"), "+PONG");
    Client web(http_port());
    EXPECT_THAT(web.http("POST /v1/ids/orders").status, HasSubstr("200"));
    constexpr std::int64_t allowed = std::int64_t{64} << 20;
    EXPECT_LE(memory("VmHWM:") - before_, allowed);
  }

  const fakes::TempFolder folder_;
  const std::string url_ = "sqlite:" + folder_.path("ids.db");
  std::unique_ptr<Daemon> daemon_;
  std::unique_ptr<Client> honest_;
  std::int64_t before_ = 0;
};

TEST_F(HostileClients, TenThousandThatSayNothing) {
  constexpr std::size_t wanted = 10'000;
  constexpr std::size_t others = 200;
  const std::size_t count = std::min(wanted, make_room_for(wanted + others) - others);
  EXPECT_GE(count, 500U);
  const auto idle = clients(count, port());
  EXPECT_EQ(idle.back()->ask("PING"), "+PONG");
  expect_served();
}

TEST_F(HostileClients, SendersThatDoNotGoOn) {
  const auto redis = clients(500, port());
  for (const auto& client : redis) client->send("*3\r\n$8\r\nID.RANGE\r\n$6\r\nord");
  const auto web = clients(500, http_port());
  for (const auto& client : web)
    client->send("POST /v1/sources HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n{");
  expect_served();
}

TEST_F(HostileClients, ReadersThatNeverRead) {
  constexpr std::size_t count = 100;
  const auto redis = clients(count, port());
  const auto web = clients(count, http_port());
  std::string many;
  while (many.size() < std::size_t{64} * 1024) many += "ID.NEXT uuid7 COUNT 10000\r\n";
  for (std::size_t i = 0; i < count; ++i) {
    static_cast<void>(redis[i]->send_some(many));
    web[i]->send("POST /v1/ids/uuid7?count=1000000000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  // Each has had its turn when one that came later has been answered, again and again.
  for (int round = 0; round < 100; ++round) {
    for (const auto& client : redis) static_cast<void>(client->send_some(many));
    EXPECT_THAT(honest_->ask("INCR orders"), StartsWith(":"));
  }
  expect_served();
}

TEST_F(HostileClients, HalvesThatAreClosed) {
  auto redis = clients(500, port());
  auto web = clients(500, http_port());
  for (const auto& client : redis) {
    client->send("INCR orders\r\n*2\r\n$4\r\nINC");
    client->end_sending();
  }
  for (const auto& client : web) {
    client->send("POST /v1/ids/orders HTTP/1.1\r\nHost: localhost\r\n\r\nPOST /v1");
    client->end_sending();
  }
  for (const auto& client : redis) EXPECT_THAT(client->rest(), StartsWith(":"));
  for (const auto& client : web) EXPECT_THAT(client->rest(), HasSubstr("200 OK"));
  expect_served();
}

TEST_F(HostileClients, LengthsThatNobodyMeans) {
  for (const std::string_view text :
       {"*1\r\n$1073741824\r\n", "*1073741824\r\n", "*-1\r\n$9223372036854775808\r\n",
        "*1\r\n$-5\r\n", "*2\r\n$4\r\nPING\r\n$1000000000000000000000\r\n"}) {
    Client client(port());
    client.send(text);
    client.end_sending();
    EXPECT_THAT(client.rest(), testing::AnyOf(StartsWith("-ERR"), "")) << text;
  }
  for (const std::string_view text :
       {"Content-Length: 1073741824\r\n\r\n", "Content-Length: 99999999999999999999\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n40000000\r\n",
        "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n"}) {
    Client client(http_port());
    client.send("POST /v1/sources HTTP/1.1\r\nHost: localhost\r\n");
    client.send(text);
    EXPECT_THAT(client.rest(), StartsWith("HTTP/1.1 4")) << text;
  }
  expect_served();
}

TEST_F(HostileClients, RandomBytes) {
  std::mt19937_64 random(20261125);
  for (int i = 0; i < 200; ++i) {
    std::string bytes(1 + random() % 20'000, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    if (i % 4 == 0) bytes.insert(0, "*3\r\n$");
    if (i % 4 == 1) bytes.insert(0, "POST /v1/ids/orders HTTP/1.1\r\n");
    for (const std::uint16_t at : {port(), http_port()}) {
      Client client(at);
      client.send(bytes);
      client.end_sending();
      static_cast<void>(client.rest());
    }
  }
  expect_served();
}

TEST_F(HostileClients, APipelineOfAMillionCommands) {
  constexpr int count = 1'000'000;
  Client client(port());
  std::thread sender([&] {
    std::string some;
    for (int i = 0; i < 1000; ++i) some += "INCR orders\r\n";
    for (int i = 0; i < count / 1000; ++i) client.send(some);
  });
  std::int64_t last = 1;
  int wrong = 0;
  for (int i = 0; i < count; ++i) {
    if (i % 100'000 == 0) {
      EXPECT_THAT(honest_->ask("INCR orders"), StartsWith(":"));
    }
    const std::string reply = client.line();
    const std::int64_t value = reply.starts_with(':') ? std::stoll(reply.substr(1)) : 0;
    if (value <= last) ++wrong;
    last = value;
  }
  sender.join();
  EXPECT_EQ(wrong, 0) << "values of one connection increase";
  expect_served();
}

}  // namespace
}  // namespace idmint::e2e
