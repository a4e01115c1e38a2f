// Connections on a loop that the test turns, with a clock that it reads out.
#include "server/connection.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/access.h"
#include "server/http_session.h"
#include "server/log.h"
#include "server/loop.h"
#include "server/redis_session.h"
#include "server/service.h"
#include "server/sources.h"
#include "server/store_probe.h"
#include "server/tls.h"
#include "tests/fakes/certificate.h"
#include "tests/fakes/gated_store.h"
#include "tests/fakes/manual_executor.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::server {
namespace {

using fakes::Certificate;
using fakes::ManualExecutor;
using std::chrono::steady_clock;
using testing::StartsWith;

constexpr auto kLimit = Connection::kPatienceWithUnknown;
constexpr std::chrono::nanoseconds kMoment{1};

// The client's end of a connection.
class Peer {
 public:
  explicit Peer(int socket) : socket_(socket) {}
  ~Peer() { ::close(socket_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  [[nodiscard]] int socket() const { return socket_; }
  void send(std::string_view text) const {
    EXPECT_EQ(::send(socket_, text.data(), text.size(), MSG_NOSIGNAL), std::ssize(text));
  }
  [[nodiscard]] bool has_come() const {
    pollfd one{.fd = socket_, .events = POLLIN, .revents = 0};
    return ::poll(&one, 1, 0) > 0;
  }
  // The bytes that arrived, and whether the connection has ended.
  std::pair<std::string, bool> read() const {
    std::string text;
    std::array<char, 4096> block;
    for (;;) {
      const ssize_t got = ::recv(socket_, block.data(), block.size(), MSG_DONTWAIT);
      if (got <= 0) return {text, got == 0 || errno == ECONNRESET};
      text.append(block.data(), static_cast<std::size_t>(got));
    }
  }

 private:
  const int socket_;
};

class ConnectionTest : public testing::Test {
 protected:
  ConnectionTest() {
    ::signal(SIGPIPE, SIG_IGN);
    loop_.after_answers([this] {  // as Server does
      for (Conversation* const each : std::exchange(service_.settling, {})) each->settle();
    });
  }
  ~ConnectionTest() override {
    for (const auto& connection : connections_) connection->close();
    connections_.clear();
    turn();
  }

  void need_a_token() {
    access_.replace({{.name = "web", .hash = hash_of("secret"), .allow = {*scope_of("next *")}}});
  }
  template <class Session, class... More>
  std::unique_ptr<Peer> connect(const TlsContext* tls, More... more) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    Connection::Socket socket(loop_.context());
    socket.assign(boost::asio::generic::stream_protocol(AF_UNIX, 0), ends[0]);
    socket.non_blocking(true);
    auto stream = tls != nullptr ? TlsStream::open(*tls, ends[0]) : nullptr;
    connections_.push_back(std::make_shared<Connection>(std::move(socket), std::move(stream),
                                                        unsent_, handshakes_, [](Connection&) {}));
    Connection& connection = *connections_.back();
    connection.begin(std::make_unique<Session>(connection, service_, more...));
    return std::make_unique<Peer>(ends[1]);
  }
  std::unique_ptr<Peer> redis(const TlsContext* tls = nullptr) {
    return connect<RedisSession>(tls);
  }
  std::unique_ptr<Peer> http() { return connect<HttpSession>(nullptr, false); }

  // Until nothing is left to do.
  void turn() {
    loop_.context().restart();
    loop_.context().poll();
  }
  void check(steady_clock::time_point now) {
    for (const auto& connection : connections_) connection->check(now);
    turn();
  }

  ManualExecutor executor_;
  Loop loop_{executor_};
  static std::vector<ServedStore> one_store(std::shared_ptr<Store> store) {
    std::vector<ServedStore> stores;
    stores.push_back({.store = std::move(store)});
    return stores;
  }
  const std::shared_ptr<fakes::GatedStore> store_ = std::make_shared<fakes::GatedStore>();
  Sources sources_{loop_, one_store(store_)};
  Access access_;
  Log log_{LogSettings{.level = LogSettings::Level::kError}};
  StoreProbe probe_{loop_, sources_, std::chrono::seconds{2}};
  Service service_{
      .loop = loop_, .sources = sources_, .access = access_, .log = log_, .probe = probe_};
  Unsent unsent_;
  Handshakes handshakes_;
  std::vector<std::shared_ptr<Connection>> connections_;
};

// ---- who is not known

TEST_F(ConnectionTest, WhoGivesNoTokenInTimeIsSentAway) {
  need_a_token();
  const auto before = steady_clock::now();
  const auto idle = redis();
  const auto refused = redis();
  const auto slow = http();
  const auto unknown = http();
  const auto known = redis();
  const auto after = steady_clock::now();
  refused->send("PING\r\nAUTH other\r\n");
  slow->send("POST /v1/ids/uuid7 HTTP/1.1\r\nHost: localh");
  unknown->send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  known->send("AUTH secret\r\n");
  turn();
  check(before + kLimit);
  for (const auto* const peer : {&idle, &refused, &slow, &unknown, &known})
    EXPECT_FALSE((*peer)->read().second) << "in time";
  check(after + kLimit + kMoment);
  for (const auto* const peer : {&idle, &refused, &slow, &unknown})
    EXPECT_TRUE((*peer)->read().second);
  known->send("PING\r\n");
  turn();
  check(after + std::chrono::hours{24});
  EXPECT_EQ(known->read(), std::pair(std::string("+PONG\r\n"), false));
}

// A token in the header of a request is enough, though its body takes longer.
TEST_F(ConnectionTest, WhoHasGivenATokenHasTimeForTheRestOfTheRequest) {
  need_a_token();
  const auto peer = http();
  peer->send(
      "POST /v1/sources HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n"
      "Content-Length: 100\r\n\r\n{");
  turn();
  const auto after = steady_clock::now();
  check(after + kLimit + kMoment);
  EXPECT_EQ(peer->read(), std::pair(std::string(), false));
  check(after + Connection::kPatience + kMoment);
  const auto [said, ended] = peer->read();
  EXPECT_THAT(said, StartsWith("HTTP/1.1 408 "));
  EXPECT_TRUE(ended);
}

TEST_F(ConnectionTest, WhoseTokenIsTakenAwayHasAsLongForAnotherOne) {
  need_a_token();
  const auto peer = redis();
  peer->send("AUTH secret\r\n");
  turn();
  const auto begin = steady_clock::now() + std::chrono::hours{1};
  check(begin);
  access_.replace({{.name = "new", .hash = hash_of("new"), .allow = {}}});
  check(begin + kLimit);
  check(begin + 2 * kLimit);
  EXPECT_EQ(peer->read(), std::pair(std::string("+OK\r\n"), false));
  check(begin + 2 * kLimit + kMoment);
  EXPECT_TRUE(peer->read().second);
}

TEST_F(ConnectionTest, WithoutTokensAnIdleConnectionStays) {
  const auto peer = redis();
  const auto web = http();
  check(steady_clock::now() + std::chrono::hours{24});
  EXPECT_FALSE(peer->read().second);
  EXPECT_FALSE(web->read().second);
}

// ---- what is bounded

TEST_F(ConnectionTest, AFormatIsServedWhileNoThreadIsFree) {
  const auto peer = redis();
  peer->send("ID.NEXT uuid7\r\n");
  turn();
  EXPECT_THAT(peer->read().first, StartsWith("$36\r\n"));
  EXPECT_EQ(executor_.size(), 0U);
}

TEST_F(ConnectionTest, ASlowClientIsToldSoOnce) {
  ASSERT_TRUE(create_sequence(*store_, {.name = "orders", .last = 1000}));  // anybody holds them
  store_->shut_gate();
  const auto peer = redis();
  peer->send("INCR orders\r\n");
  turn();
  executor_.run_all();
  turn();
  store_->wait_for_advances(1);
  peer->send("*2\r\n");
  turn();
  const auto late = steady_clock::now() + Connection::kPatience;
  check(late + kMoment);
  check(late + std::chrono::seconds{5});
  store_->open_gate();
  while (!peer->has_come()) turn();
  turn();
  EXPECT_EQ(peer->read().first,
            ":1\r\n-ERR Protocol error: the rest of the command did not come in time\r\n");
}

// Nobody waits for the values.
TEST_F(ConnectionTest, WhoLeavesBeforeTheSourceIsOpenTakesNothing) {
  ASSERT_TRUE(create_sequence(*store_, {.name = "orders", .last = 1000}));  // anybody holds them
  auto peer = redis();
  peer->send("INCR orders\r\n");
  turn();
  connections_.front()->close();
  executor_.run_all();
  turn();
  const auto other = redis();
  other->send("INCR orders\r\n");
  while (!other->has_come()) turn();
  EXPECT_EQ(other->read().first, ":1\r\n");
}

TEST_F(ConnectionTest, WhoHoldsMuchIsCutOffWhenAllHoldTooMuch) {
  const auto small = redis();
  const auto large = redis();
  unsent_.bytes = Unsent::kMost + 1;
  small->send("PING\r\n");
  large->send("*2\r\n$4\r\nECHO\r\n$60000\r\n" + std::string(50'000, 'x'));
  turn();
  EXPECT_EQ(small->read(), std::pair(std::string("+PONG\r\n"), false));
  EXPECT_TRUE(large->read().second);
  EXPECT_EQ(unsent_.cut, 1U);
  EXPECT_EQ(unsent_.bytes, Unsent::kMost + 1) << "what it held is not counted any more";
}

TEST_F(ConnectionTest, QueuedAndUnfinishedCommandsAreCounted) {
  const auto peer = redis();
  peer->send("MULTI\r\nECHO " + std::string(1000, 'x') + "\r\n");
  turn();
  EXPECT_GE(unsent_.bytes, 1000U);
  peer->send("EXEC\r\n");
  turn();
  EXPECT_EQ(unsent_.bytes, 0U);
  peer->send("ECHO " + std::string(1000, 'x'));
  turn();
  EXPECT_EQ(unsent_.bytes, 1005U);
}

// ---- handshakes

class HandshakeTest : public ConnectionTest {
 protected:
  HandshakeTest() {
    auto opened = TlsContext::open({.certificate = own_.certificate(), .key = own_.key()});
    EXPECT_TRUE(opened) << opened.error().message();
    tls_ = *std::move(opened);
  }

  // The first step of the client, which then waits for the server's.
  struct Greeting {
    explicit Greeting(std::unique_ptr<Peer> its)
        : peer(std::move(its)),
          context(::SSL_CTX_new(::TLS_client_method()), &::SSL_CTX_free),
          stream(::SSL_new(context.get()), &::SSL_free) {
      EXPECT_EQ(::fcntl(peer->socket(), F_SETFL, O_NONBLOCK), 0);
      ::SSL_set_fd(stream.get(), peer->socket());
      EXPECT_LE(go_on(), 0);
    }
    int go_on() { return ::SSL_connect(stream.get()); }

    std::unique_ptr<Peer> peer;
    std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context;
    std::unique_ptr<SSL, decltype(&::SSL_free)> stream;
  };

  const fakes::TempFolder folder_;
  const Certificate own_{folder_, "server"};
  std::shared_ptr<const TlsContext> tls_;
};

TEST_F(HandshakeTest, AreMadeOneInATurnSoThatOthersAreServedBetween) {
  const auto served = redis();
  turn();
  constexpr std::size_t many = 100;
  std::vector<std::unique_ptr<Greeting>> greetings;
  for (std::size_t i = 0; i < many; ++i)
    greetings.push_back(std::make_unique<Greeting>(redis(tls_.get())));
  const auto answered = [&] {
    return std::ranges::count_if(greetings,
                                 [](const auto& each) { return each->peer->has_come(); });
  };
  // Calls of a client that is served, as long as there are handshakes.
  std::int64_t before = 0;
  for (int asked = 0; answered() < std::ssize(greetings); ++asked) {
    ASSERT_LT(asked, 10'000);
    served->send("PING\r\n");
    loop_.context().restart();
    while (!served->has_come()) ASSERT_EQ(loop_.context().poll_one(), 1U);
    EXPECT_EQ(served->read().first, "+PONG\r\n");
    const std::int64_t now = answered();
    EXPECT_LE(now - before, 2) << "it waits for one, and for one that had begun";
    before = now;
  }
  for (const auto& each : greetings) {
    EXPECT_EQ(each->go_on(), 1);
    turn();
    EXPECT_EQ(::SSL_write(each->stream.get(), "PING\r\n", 6), 6);
    turn();
    std::array<char, 16> reply{};
    const int got = ::SSL_read(each->stream.get(), reply.data(), reply.size());
    ASSERT_GT(got, 0);
    EXPECT_EQ(std::string_view(reply.data(), static_cast<std::size_t>(got)), "+PONG\r\n");
  }
}

TEST_F(HandshakeTest, AreEndedWhenTheyTakeTooLong) {
  const auto before = steady_clock::now();
  Greeting begun(redis(tls_.get()));
  const auto silent = redis(tls_.get());
  const auto after = steady_clock::now();
  turn();
  check(before + kLimit);
  EXPECT_FALSE(silent->read().second);
  check(after + kLimit + kMoment);
  EXPECT_TRUE(silent->read().second);
  EXPECT_TRUE(begun.peer->read().second);
}

TEST_F(HandshakeTest, AConnectionThatIsEndedIsPassedOver) {
  std::vector<std::unique_ptr<Greeting>> greetings;
  for (int i = 0; i < 3; ++i) greetings.push_back(std::make_unique<Greeting>(redis(tls_.get())));
  // All of them wait for their turn when the second one is closed.
  loop_.context().restart();
  while (!greetings[0]->peer->has_come()) ASSERT_EQ(loop_.context().poll_one(), 1U);
  connections_[1]->close();
  turn();
  EXPECT_EQ(greetings[2]->go_on(), 1);
  EXPECT_TRUE(greetings[1]->peer->read().second);
}

}  // namespace
}  // namespace idmint::server
