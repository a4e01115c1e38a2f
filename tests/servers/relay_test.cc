// The relay does what it is told, or the tests that break connections with it try nothing.
#include "tests/servers/relay.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/servers/loopback.h"

namespace idmint::servers {
namespace {

using std::chrono::milliseconds;

std::string message_of(const std::string& text) {
  std::string message(16, '\0');
  message += text;
  const auto length = static_cast<std::int32_t>(message.size());
  std::memcpy(message.data(), &length, sizeof length);
  return message;
}

bool put(int fd, const std::string& text) {
  const std::string message = message_of(text);
  return send(fd, message.data(), message.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(message.size());
}

// Empty: it was closed.
std::string get(int fd) {
  std::int32_t length = 0;
  if (recv(fd, &length, sizeof length, MSG_WAITALL) != sizeof length) return "";
  std::string rest(static_cast<std::size_t>(length) - sizeof length, '\0');
  if (recv(fd, rest.data(), rest.size(), MSG_WAITALL) != static_cast<ssize_t>(rest.size()))
    return "";
  return rest.substr(12);
}

// Answers each message with its text and how often it came, until its client closes.
class Server {
 public:
  Server() {
    fd_ = listening_socket();
    port_ = port_of(fd_);
    thread_ = std::jthread([this] {
      for (;;) {
        const int one = accept(fd_, nullptr, nullptr);
        if (one < 0) return;
        const std::lock_guard lock(mutex_);
        threads_.emplace_back([this, one] {
          for (std::string text = get(one); !text.empty(); text = get(one)) {
            const std::lock_guard counting(mutex_);
            put(one, text + " " + std::to_string(++seen_[text]));
          }
          close(one);
        });
      }
    });
  }
  // After its clients.
  ~Server() {
    shutdown(fd_, SHUT_RDWR);
    thread_.join();
    threads_.clear();
    close(fd_);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] int port() const { return port_; }
  int seen(const std::string& text) {
    const std::lock_guard lock(mutex_);
    return seen_[text];
  }

 private:
  int fd_ = -1;
  int port_ = 0;
  std::mutex mutex_;
  std::map<std::string, int> seen_;
  std::vector<std::jthread> threads_;
  std::jthread thread_;
};

class RelayTest : public testing::Test {
 protected:
  struct Client {
    explicit Client(const Relay& relay) : fd(socket(AF_INET, SOCK_STREAM, 0)) {
      const sockaddr_in address = loopback(relay.port());
      EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    }
    ~Client() { close(fd); }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;
    [[nodiscard]] std::string ask(const std::string& text) const {
      return put(fd, text) ? get(fd) : "";
    }
    const int fd;
  };

  Server server_;
  Relay relay_{server_.port()};
};

TEST_F(RelayTest, SendsOnBothWaysWhateverTheSize) {
  const Client client(relay_);
  EXPECT_EQ(client.ask("a"), "a 1");
  const std::string large(std::size_t{20} << 20, 'x');
  EXPECT_EQ(client.ask(large), large + " 1");
  EXPECT_EQ(relay_.counts().requests, 2);
}

TEST_F(RelayTest, DropsAReplyOnlyAfterTheServerHadTheRequest) {
  const Client client(relay_);
  const Client other(relay_);
  relay_.drop_replies(1, "write");
  EXPECT_EQ(client.ask("read"), "read 1");
  EXPECT_EQ(client.ask("write"), "");
  EXPECT_EQ(server_.seen("write"), 1);
  EXPECT_EQ(other.ask("write"), "write 2");
  EXPECT_EQ(relay_.counts().dropped, 1);
}

TEST_F(RelayTest, RepeatsARequestAndSendsBackTheSecondAnswer) {
  const Client client(relay_);
  relay_.repeat_requests(2, "write");
  EXPECT_EQ(client.ask("write"), "write 2");
  EXPECT_EQ(client.ask("read"), "read 1");
  EXPECT_EQ(client.ask("write"), "write 4");
  EXPECT_EQ(client.ask("write"), "write 5");
  EXPECT_EQ(relay_.counts().repeated, 2);
}

TEST_F(RelayTest, DropsARequestThatTheServerNeverSees) {
  const Client client(relay_);
  const Client other(relay_);
  relay_.drop_requests(1, "write");
  EXPECT_EQ(client.ask("read"), "read 1");
  EXPECT_EQ(client.ask("write"), "");
  EXPECT_EQ(other.ask("write"), "write 1");
  EXPECT_EQ(relay_.counts().dropped, 1);
}

TEST_F(RelayTest, HoldsARequestUntilItIsLetGoWhetherItsClientWaitsOrNot) {
  const auto await = [&](auto member, int count) {
    while (relay_.counts().*member < count) std::this_thread::yield();
  };
  const Client waits(relay_);
  const Client other(relay_);
  relay_.hold_requests(2, "write");
  ASSERT_TRUE(put(waits.fd, "write"));
  {
    const Client gone(relay_);
    ASSERT_TRUE(put(gone.fd, "write"));
    await(&Relay::Counts::held, 2);
  }
  EXPECT_EQ(other.ask("write"), "write 1");
  relay_.let_go();
  EXPECT_TRUE(get(waits.fd).starts_with("write "));
  await(&Relay::Counts::late, 2);
  EXPECT_EQ(server_.seen("write"), 3);
  EXPECT_EQ(waits.ask("write"), "write 4");
}

TEST_F(RelayTest, CutsAndRefusesThoseItIsToldTo) {
  const Client client(relay_);
  const Client member(relay_);
  EXPECT_EQ(client.ask("a"), "a 1");
  EXPECT_EQ(member.ask("internalClient"), "internalClient 1");
  relay_.cut(Whose::kMembers);
  EXPECT_EQ(member.ask("b"), "");
  EXPECT_EQ(client.ask("b"), "b 1");
  relay_.refuse(Whose::kMembers);
  EXPECT_EQ(Client(relay_).ask("internalClient"), "");
  EXPECT_EQ(Client(relay_).ask("c"), "c 1");
  relay_.refuse(Whose::kAll);
  EXPECT_EQ(Client(relay_).ask("d"), "");
  EXPECT_EQ(client.ask("e"), "e 1") << "who is connected stays so";
  relay_.refuse(std::nullopt);
  EXPECT_EQ(Client(relay_).ask("f"), "f 1");
  relay_.cut();
  EXPECT_EQ(client.ask("g"), "");
  EXPECT_GE(relay_.counts().cut, 2) << "and those whose end was not seen yet";
  EXPECT_EQ(relay_.counts().refused, 2);
}

TEST_F(RelayTest, DelaysEachWayInOrderAndAllAtOnce) {
  constexpr int kRequests = 400;
  relay_.delay(milliseconds{20});
  const auto begin = std::chrono::steady_clock::now();
  const Client client(relay_);
  for (int i = 0; i < kRequests; ++i) ASSERT_TRUE(put(client.fd, std::to_string(i)));
  for (int i = 0; i < kRequests; ++i) EXPECT_EQ(get(client.fd), std::to_string(i) + " 1");
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, milliseconds{40});
  EXPECT_LT(took, milliseconds{40} * kRequests / 2) << "not one after the other";
}

TEST_F(RelayTest, AServerThatIsNotThereClosesTheConnection) {
  Relay nowhere(1);
  EXPECT_EQ(Client(nowhere).ask("a"), "");
}

}  // namespace
}  // namespace idmint::servers
