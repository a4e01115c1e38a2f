#include "server/probe.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "tests/fakes/certificate.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/gated_store.h"
#include "tests/fakes/running_server.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::server {
namespace {

using fakes::code_of;
using fakes::why;
using std::chrono::milliseconds;
using std::chrono::minutes;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string loopback(int port) { return "127.0.0.1:" + std::to_string(port); }

// A server that sends one text to whoever connects first, and then nothing more.
class Babbler {
 public:
  explicit Babbler(std::string text) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(socket_, 1), 0);
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    at_ = loopback(ntohs(address.sin_port));
    thread_ = std::thread([this, text = std::move(text)] {
      const int client = ::accept(socket_, nullptr, nullptr);
      [[maybe_unused]] const ssize_t sent = ::send(client, text.data(), text.size(), MSG_NOSIGNAL);
      // Until the client goes, so that the end of the connection is not what it sees.
      char byte = 0;
      while (::recv(client, &byte, 1, 0) > 0) {
      }
      ::close(client);
    });
  }
  ~Babbler() {
    thread_.join();
    ::close(socket_);
  }
  Babbler(const Babbler&) = delete;
  Babbler& operator=(const Babbler&) = delete;
  [[nodiscard]] const std::string& at() const { return at_; }

 private:
  int socket_;
  std::string at_{};
  std::thread thread_{};
};

ServerOptions over_store(std::shared_ptr<Store> store) {
  ServerOptions options;
  options.stores.push_back({.store = std::move(store)});
  options.drain = kNever;
  return options;
}

TEST(ProbeTest, IsReadyWhileTheStoreAnswersAndServesWithoutIt) {
  const auto store = std::make_shared<fakes::GatedStore>();
  const Running server(over_store(store));
  const std::string at = loopback(server.port(Protocol::kHttp));
  EXPECT_EQ(why(probe(at, "/readyz", minutes{1})), "");
  store->be_away(Error{Code::kUnavailable, "the store is away"});
  const Result<void> away = probe(at, "/readyz", minutes{1});
  ASSERT_EQ(code_of(away), Code::kUnavailable);
  EXPECT_THAT(away.error().message(), AllOf(HasSubstr(at), HasSubstr("the store is away")));
  EXPECT_EQ(why(probe(at, "/healthz", minutes{1})), "");
}

TEST(ProbeTest, AsksOverTlsAndUnixSocketsAndAtTheLoopbackAddress) {
  const fakes::TempFolder folder;
  const fakes::Certificate own(folder, "server");
  ServerOptions options = over_store(std::make_shared<fakes::GatedStore>());
  options.tls = {.certificate = own.certificate(), .key = own.key()};
  options.tokens = {{.name = "web", .hash = hash_of("web"), .allow = {scope_of("next *").value()}}};
  const std::string path = "unix:" + folder.path("http.sock");
  options.listen = {{Protocol::kHttp, "tls:127.0.0.1:0"},
                    {Protocol::kHttp, path},
                    {Protocol::kHttp, "0.0.0.0:0"},
                    {Protocol::kHttp, "[::]:0"}};
  const Running server(std::move(options));
  const std::string tls_port = std::to_string(server.port(std::size_t{0}));
  for (const std::string& at :
       {"tls:127.0.0.1:" + tls_port, path, "0.0.0.0:" + std::to_string(server.port(2)),
        "[::]:" + std::to_string(server.port(3))})
    EXPECT_EQ(why(probe(at, "/readyz", minutes{1})), "") << at;
  EXPECT_EQ(code_of(probe("127.0.0.1:" + tls_port, "/readyz", minutes{1})), Code::kUnavailable)
      << "without TLS";
  EXPECT_EQ(code_of(probe("tls:" + loopback(server.port(2)), "/readyz", minutes{1})),
            Code::kUnavailable)
      << "with TLS, where there is none";
}

TEST(ProbeTest, WhatIsNoAnswerIsNotReady) {
  const auto message_from = [](std::string text, milliseconds patience = minutes{1}) {
    const Babbler server(std::move(text));
    const Result<void> answer = probe(server.at(), "/readyz", patience);
    EXPECT_EQ(code_of(answer), Code::kUnavailable);
    return answer ? "" : answer.error().message();
  };
  EXPECT_THAT(message_from("+PONG and more\r\n\r\n"), HasSubstr("bad version"));
  EXPECT_THAT(message_from("HTTP/1.1 200 OK\r\nContent-Length: 65537\r\n\r\nready"),
              HasSubstr("body limit exceeded"));
  EXPECT_THAT(message_from("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\n\x1b[2J"),
              AllOf(HasSubstr("503"), HasSubstr("is it idmintd?"), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(message_from("HTTP/1.1 404 Not Found\r\nContent-Length: 14\r\n\r\n{\"detail\": [1]}"),
              HasSubstr("404"));
  EXPECT_THAT(message_from("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nready", milliseconds{10}),
              HasSubstr("no answer within 10 ms"));
  const Result<void> nobody = probe("unix:/nonexistent/http.sock", "/readyz", minutes{1});
  ASSERT_EQ(code_of(nobody), Code::kUnavailable);
  EXPECT_THAT(nobody.error().message(), HasSubstr("no idmintd listens there"));
  EXPECT_EQ(code_of(probe("127.0.0.1:99999", "/readyz", minutes{1})), Code::kInvalidArgument);
}

TEST(ProbeTest, TheAddressIsTheFirstWithoutTlsOrElseTheFirst) {
  EXPECT_EQ(address_to_probe({}).value(), "127.0.0.1:7380");
  EXPECT_EQ(address_to_probe({.http = {"tls:0.0.0.0:1", "unix:a", ":2"}}).value(), "unix:a");
  EXPECT_EQ(address_to_probe({.http = {"tls:0.0.0.0:1", "tls:0.0.0.0:2"}}).value(),
            "tls:0.0.0.0:1");
  EXPECT_EQ(code_of(address_to_probe({.redis = {":1"}})), Code::kFailedPrecondition);
}

}  // namespace
}  // namespace idmint::server
