// A relay between idmint and the server of a store loses one reply in four, after the server has
// done what it was asked for, or tells the client something else. IDMINT_FAULT_CALLS sets the
// number of calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/outcome.h"
#include "idmint/store.h"
#include "ids/lease_table.h"
#include "store/counter_store.h"
#include "tests/e2e/counter_history.h"
#include "tests/e2e/noted_call.h"
#include "tests/servers/loopback.h"
#if defined(IDMINT_FAULTS_ETCD)
#include "base/base64.h"
#include "tests/servers/etcd.h"
#elif defined(IDMINT_FAULTS_MARIADB)
#include "tests/servers/mariadb.h"
#elif defined(IDMINT_FAULTS_POSTGRESQL)
#include "tests/servers/postgresql.h"
#elif defined(IDMINT_FAULTS_REDIS)
#include "tests/servers/redis.h"
#endif

namespace idmint::e2e {
namespace {

constexpr std::chrono::milliseconds kLong = std::chrono::hours{1};

#if defined(IDMINT_FAULTS_ETCD)

struct Server : servers::EtcdCluster {
  [[nodiscard]] std::string database(const std::string& name) const { return url(name); }
  [[nodiscard]] int port() const { return EtcdCluster::port(0); }
};

std::string url_of_port(int port) { return "etcd://127.0.0.1:" + std::to_string(port) + "/ids"; }
std::string put_of(const std::string& key) {
  return R"({"request_put":{"key":")" + to_base64(key) + "\"";
}
const std::string kAdvance = put_of("ids/counter/c");
const std::string kExtend = put_of("ids/worker/p/0");

// A request as HTTP has it, which says what it changes.
class Statement {
 public:
  explicit Statement(std::string text) : text_(std::move(text)) {}

  [[nodiscard]] bool is_executed_by(std::string_view message) const {
    return message.contains(text_);
  }
  void reply(std::string_view /*message*/) {}

 private:
  std::string text_;
};

#elif defined(IDMINT_FAULTS_MARIADB)

using Server = servers::MariadbServer;

std::string url_of_port(int port) {
  return "mysql://root@127.0.0.1:" + std::to_string(port) + "/ids";
}
const std::string kAdvance = "INSERT INTO idmint_counters";
const std::string kExtend = "UPDATE idmint_workers SET holder";

// A statement as the protocol has it in one connection: it is prepared by its text, the reply has
// its number, and the number executes it.
class Statement {
 public:
  explicit Statement(std::string text) : text_(std::move(text)) {}

  // Whether the message, which begins with 4 bytes of its own, executes it.
  [[nodiscard]] bool is_executed_by(std::string_view message) {
    constexpr char kPrepare = 0x16;
    constexpr char kExecute = 0x17;
    if (message.size() < 9) return false;
    is_prepared_ = message[4] == kPrepare && message.contains(text_);
    return message[4] == kExecute && !number_.empty() && message.substr(5, 4) == number_;
  }
  void reply(std::string_view message) {
    if (std::exchange(is_prepared_, false) && message.size() >= 9) number_ = message.substr(5, 4);
  }

 private:
  std::string text_;
  std::string number_{};
  bool is_prepared_ = false;
};

#elif defined(IDMINT_FAULTS_POSTGRESQL)

using Server = servers::PostgresqlServer;

std::string url_of_port(int port) {
  return "postgresql://postgres@127.0.0.1:" + std::to_string(port) + "/ids";
}
const std::string kAdvance = "UPDATE idmint.counters SET taken_from";
const std::string kExtend = "UPDATE idmint.workers w SET token";

// A statement as the protocol has it in one connection: by its text, until it is prepared under a
// name, and by that from then on.
class Statement {
 public:
  explicit Statement(std::string text) : text_(std::move(text)) {}

  // Whether the message executes it.
  [[nodiscard]] bool is_executed_by(std::string_view message) {
    using namespace std::string_view_literals;
    constexpr std::string_view kExecute = "E\0\0\0\x09\0\0\0\0\0"sv;
    const std::size_t text = message.find(text_);
    // Parse: 'P', the length, the name and NUL, the text.
    if (message.starts_with('P') && text != std::string_view::npos && text > 6)
      name_ = message.substr(5, text - 5);
    return message.contains(kExecute) &&
           (text != std::string_view::npos || (!name_.empty() && message.contains(name_)));
  }
  void reply(std::string_view /*message*/) {}

 private:
  std::string text_;
  std::string name_{};  // with the NUL
};

#elif defined(IDMINT_FAULTS_REDIS)

using Server = servers::RedisServer;

// The first database that was asked for.
std::string url_of_port(int port) { return "redis://127.0.0.1:" + std::to_string(port) + "/1"; }
// The counter or the pool, as the protocol has it. Nothing else is done with it through the relay.
const std::string kAdvance = "$1\r\nc\r\n";
const std::string kExtend = "$1\r\np\r\n";

// A script, which is sent by its text or its hash.
class Statement {
 public:
  explicit Statement(std::string name) : name_(std::move(name)) {}

  // Whether the message executes it.
  [[nodiscard]] bool is_executed_by(std::string_view message) const {
    return message.contains("EVAL") && message.contains(name_);
  }
  void reply(std::string_view /*message*/) {}

 private:
  std::string name_;
};

#endif

// Between clients and a server of the loopback. One in four of the replies to the statement is not
// sent on: when it comes the client gets `instead`, or, where that is empty, the connection is
// closed.
class LosingRelay {
 public:
  LosingRelay(int target, std::string statement, std::string instead = "")
      : target_(target), statement_(std::move(statement)), instead_(std::move(instead)) {
    listener_ = servers::listening_socket();
    port_ = servers::port_of(listener_);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~LosingRelay() {
    ending_ = true;
    acceptor_.join();
    for (std::thread& each : serving_) each.join();
    ::close(listener_);
  }
  LosingRelay(const LosingRelay&) = delete;
  LosingRelay& operator=(const LosingRelay&) = delete;

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] int lost() const { return lost_; }

 private:
  static bool is_ready(int fd) {
    pollfd one{.fd = fd, .events = POLLIN, .revents = 0};
    return ::poll(&one, 1, 20) > 0;
  }

  void accept_all() {
    while (!ending_) {
      if (!is_ready(listener_)) continue;
      const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client >= 0) serving_.emplace_back([this, client] { serve(client); });
    }
  }

  // False: an end has closed.
  static bool send_on(int from, int to, std::string* what) {
    std::array<char, 65'536> block{};
    const ssize_t got = ::recv(from, block.data(), block.size(), 0);
    if (got <= 0) return false;
    what->assign(block.data(), static_cast<std::size_t>(got));
    return to < 0 || ::send(to, what->data(), what->size(), MSG_NOSIGNAL) == got;
  }

  void serve(int client) {
    const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = servers::loopback(target_);
    bool open = ::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    Statement statement(statement_);
    bool lose = false;
    while (open && !ending_) {
      std::array<pollfd, 2> both = {pollfd{.fd = client, .events = POLLIN, .revents = 0},
                                    pollfd{.fd = server, .events = POLLIN, .revents = 0}};
      if (::poll(both.data(), both.size(), 20) <= 0) continue;
      std::string what;
      if (both[0].revents != 0) {
        open = send_on(client, server, &what);
        lose = open && statement.is_executed_by(what) && ++requests_ % 4 == 0;
      } else {
        open = send_on(server, lose ? -1 : client, &what);
        statement.reply(what);
        if (!lose) continue;
        ++lost_;
        lose = false;
        open = !instead_.empty() && ::send(client, instead_.data(), instead_.size(),
                                           MSG_NOSIGNAL) == std::ssize(instead_);
      }
    }
    ::close(client);
    ::close(server);
  }

  const int target_;
  const std::string statement_;  // its text, or a part of it
  const std::string instead_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> ending_{false};
  std::atomic<int> requests_{0};
  std::atomic<int> lost_{0};
  std::thread acceptor_;
  std::vector<std::thread> serving_;  // the acceptor's
};

int calls() {
  const char* const wanted = std::getenv("IDMINT_FAULT_CALLS");
  return wanted != nullptr ? std::atoi(wanted) : 400;
}

// Threads that share a store take values through the relay, in so many calls.
void expect_each_reply_lost_is_unknown(int wanted, const std::string& instead = "") {
  constexpr int kCallers = 4;
  const Server server;
  const auto direct = Store::open(server.database("ids"));
  ASSERT_TRUE(direct) << direct.error().message();
  ASSERT_TRUE((*direct)->counters()->create("c", {1, kLargestValue}));
  std::mutex mutex;
  // From the first on the server knows what it is asked for, so that one request is one take.
  std::vector<Note> notes = {noted_take(*(*direct)->counters(), "c", 1, kCallers)};
  LosingRelay relay(server.port(), kAdvance, instead);
  const auto store = Store::open(url_of_port(relay.port()));
  ASSERT_TRUE(store) << store.error().message();
  std::vector<std::jthread> callers;
  for (int caller = 0; caller < kCallers; ++caller)
    callers.emplace_back([&, caller] {
      for (int i = 0; i < wanted / kCallers; ++i) {
        const Note note = noted_take(*(*store)->counters(), "c", 1 + i % 3, caller);
        const std::lock_guard lock(mutex);
        notes.push_back(note);
      }
    });
  callers.clear();
  notes.push_back(noted_take(*(*direct)->counters(), "c", 1, kCallers));
  ASSERT_EQ(notes.back().outcome, Outcome::kTaken);
  const Verdict verdict = judge(notes, 1);
  for (const std::string& wrong : verdict.wrong) ADD_FAILURE() << wrong;
  EXPECT_EQ(verdict.refused, 0);
  EXPECT_EQ(verdict.unknowns, relay.lost());
  EXPECT_GE(verdict.unknowns, wanted / 8) << "nothing was tried";
  EXPECT_EQ(verdict.missing, verdict.unknown) << "each was done once";
}

TEST(StoreFaults, OfValuesWhoseReplyIsLostNoneIsSaidNotToBeTaken) {
  expect_each_reply_lost_is_unknown(calls());
}

#if defined(IDMINT_FAULTS_ETCD)
// A request that etcd refuses for want of space may have been applied before it said so.
TEST(StoreFaults, OfValuesThatWereTakenBeforeTheSpaceWasUsedUpNoneIsSaidNotToBeTaken) {
  const std::string body = R"({"error":"etcdserver: mvcc: database space exceeded","code":8})";
  expect_each_reply_lost_is_unknown(
      calls() / 4,
      "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nContent-Length: " +
          std::to_string(body.size()) + "\r\n\r\n" + body);
}
#endif

TEST(StoreFaults, OfAnExtensionWhoseReplyIsLostTheRepeatIsAnswered) {
  const Server server;
  const auto direct = Store::open(server.database("ids"));
  ASSERT_TRUE(direct) << direct.error().message();
  ASSERT_TRUE((*direct)->leases()->create_pool("p", 1));
  Result<Lease> lease = (*direct)->leases()->acquire(
      "p", {.token = Uuid(Uuid::Bytes{1}), .now = 1, .max_drift = 1, .terms = {.held = kLong}});
  ASSERT_TRUE(lease) << lease.error().message();
  LosingRelay relay(server.port(), kExtend);
  const auto store = Store::open(url_of_port(relay.port()));
  ASSERT_TRUE(store) << store.error().message();
  int unknown = 0;
  for (int i = 0; i < calls() / 4; ++i) {
    const Uuid nonce(
        Uuid::Bytes{1, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i)});
    const std::int64_t to = lease->to + 1;
    Result<Lease> extended = (*store)->leases()->extend("p", *lease, to, nonce, {.held = kLong});
    for (; !extended && outcome_unknown(extended.error().code); ++unknown)
      extended = (*store)->leases()->extend("p", *lease, to, nonce, {.held = kLong});
    ASSERT_TRUE(extended) << extended.error().message();
    ASSERT_EQ(extended->to, to);
    lease = extended;
  }
  EXPECT_EQ(unknown, relay.lost());
  EXPECT_GE(unknown, calls() / 32) << "nothing was tried";
  EXPECT_EQ((*direct)->leases()->workers("p")->at(0).minted_until, lease->to);
}

}  // namespace
}  // namespace idmint::e2e
