// For tests: a server of this process on a free port, and a client of its sockets.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "server/server.h"

namespace idmint::server {

inline constexpr std::chrono::milliseconds kNever = std::chrono::hours{1};  // no test reaches it

// A server with a thread of its own.
class Running {
 public:
  explicit Running(ServerOptions options) {
    if (options.listen.empty())
      options.listen = {{Protocol::kRedis, "127.0.0.1:0"}, {Protocol::kHttp, "127.0.0.1:0"}};
    options.version = "test";
    Result<std::unique_ptr<Server>> opened = Server::open(std::move(options));
    EXPECT_TRUE(opened) << opened.error().message();
    server_ = *std::move(opened);
    port_ = port(Protocol::kRedis);
    thread_ = std::thread([this] { server_->run(); });
  }
  ~Running() { stop(); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void ask_to_stop() { server_->stop(); }
  void stop() {
    if (!thread_.joinable()) return;
    server_->stop();
    thread_.join();
    server_.reset();
  }
  // Returns when run() has.
  void wait() { thread_.join(); }

  [[nodiscard]] bool takes_connections() const {
    const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port_);
    const bool taken =
        ::connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::close(probe);
    return taken;
  }

  [[nodiscard]] std::uint16_t port(Protocol protocol) const {
    return port(protocol == Protocol::kRedis ? 0 : 1);
  }
  // The port of the address at this place in the options.
  [[nodiscard]] std::uint16_t port(std::size_t place) const {
    const std::string& address = server_->addresses().at(place);
    return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  }
  // Server::change(), on the thread of run().
  [[nodiscard]] Result<void> change(const TlsSettings& tls, const std::vector<TokenSettings>& to) {
    std::promise<Result<void>> changed;
    server_->post([&] { changed.set_value(server_->change({.tls = tls, .tokens = to})); });
    return changed.get_future().get();
  }

 private:
  std::unique_ptr<Server> server_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

// A blocking socket. A reply that does not come in a minute fails the test.
class Client {
 public:
  explicit Client(const Running& server, Protocol protocol = Protocol::kRedis,
                  int receive_buffer = 0)
      : Client(server.port(protocol), receive_buffer) {}
  explicit Client(std::uint16_t port, int receive_buffer = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (receive_buffer != 0)
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  virtual ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = write_some(text);
      if (sent <= 0) return;  // the server has closed it: what it answered tells
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  // False: the socket takes nothing now.
  bool send_some(std::string_view text) {
    return ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
  }
  void end_sending() { ::shutdown(socket_, SHUT_WR); }

  // The next line, without its end.
  std::string line() {
    std::size_t end = 0;
    while ((end = came_.find("\r\n")) == std::string::npos) {
      if (!receive()) return "(closed)";
    }
    std::string result = came_.substr(0, end);
    came_.erase(0, end + 2);
    return result;
  }
  std::vector<std::string> lines(std::size_t count) {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(line());
    return all;
  }
  std::string bytes(std::size_t count) {
    while (came_.size() < count) {
      if (!receive()) return "(closed)";
    }
    std::string result = came_.substr(0, count);
    came_.erase(0, count);
    return result;
  }
  // Until the server closes.
  std::string rest() {
    while (receive()) {
    }
    return std::exchange(came_, {});
  }
  // One line of a reply to one inline command.
  std::string ask(const std::string& command) {
    send(command + "\r\n");
    return line();
  }
  // A bulk string.
  std::string ask_text(const std::string& command) {
    const std::string head = ask(command);
    return head.starts_with('$') && head != "$-1" ? line() : head;
  }

  struct Response {
    std::string status;
    std::vector<std::string> headers{};
    std::string body{};
  };
  // Reads a response with a length, or in chunks.
  Response response(bool head = false) {
    Response response{.status = line()};
    std::size_t length = 0;
    bool chunked = false;
    for (std::string header = line(); !header.empty() && header != "(closed)"; header = line()) {
      constexpr std::string_view name = "Content-Length: ";
      if (header.starts_with(name)) length = std::stoul(header.substr(name.size()));
      chunked = chunked || header == "Transfer-Encoding: chunked";
      response.headers.push_back(header);
    }
    if (head) return response;
    if (!chunked) {
      response.body = bytes(length);
      return response;
    }
    while (true) {
      const std::size_t size = std::stoul(line(), nullptr, 16);
      response.body += bytes(size);
      line();
      if (size == 0) return response;
    }
  }
  Response http(const std::string& request, const std::string& headers = "",
                const std::string& body = "") {
    send(request + " HTTP/1.1\r\nHost: localhost\r\n" + headers +
         (body.empty() ? "" : "Content-Length: " + std::to_string(body.size()) + "\r\n") + "\r\n" +
         body);
    return response(request.starts_with("HEAD "));
  }

 protected:
  [[nodiscard]] int socket() const { return socket_; }
  virtual ssize_t write_some(std::string_view text) {
    return ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
  }
  virtual ssize_t read_some(std::span<char> block) {
    return ::recv(socket_, block.data(), block.size(), 0);
  }

 private:
  bool receive() {
    char block[64 * 1024];
    const ssize_t got = read_some(block);
    EXPECT_FALSE(got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) << "no reply in a minute";
    if (got <= 0) return false;
    came_.append(block, static_cast<std::size_t>(got));
    return true;
  }

  int socket_;
  std::string came_;
};

}  // namespace idmint::server
