// As much of systemd as a test needs: the socket of NOTIFY_SOCKET, and sockets that listen before
// the service runs.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

namespace idmint::fakes {

// No message and no reply is waited for longer.
constexpr timeval kLongestWait{.tv_sec = 60, .tv_usec = 0};

// A path, or "@" and an abstract name.
struct UnixAddress {
  explicit UnixAddress(std::string_view name) {
    address.sun_family = AF_UNIX;
    name.copy(static_cast<char*>(address.sun_path), sizeof address.sun_path - 1);
    if (name.starts_with('@')) address.sun_path[0] = '\0';
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  }
  [[nodiscard]] const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&address);  // as bind() has it
  }
  sockaddr_un address{};
  socklen_t size = 0;
};

// The socket at which a service manager listens for what its services tell.
class NotifySocket {
 public:
  explicit NotifySocket(std::string name)
      : name_(std::move(name)), socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &kLongestWait, sizeof kLongestWait);
    const UnixAddress at(name_);
    if (::bind(socket_, at.get(), at.size) != 0) std::abort();
  }
  ~NotifySocket() { ::close(socket_); }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  // The next message; "" if none came in a minute.
  [[nodiscard]] std::string next() const {
    char message[4096];
    const ssize_t size = ::recv(socket_, message, sizeof message, 0);
    return size < 0 ? std::string() : std::string(message, static_cast<std::size_t>(size));
  }
  // The next message that is not WATCHDOG=1.
  [[nodiscard]] std::string next_news() const {
    std::string message = next();
    while (message == "WATCHDOG=1") message = next();
    return message;
  }

 private:
  std::string name_;
  int socket_;
};

// A socket that listens, and is closed on exec.
inline int listening_unix(const std::string& path) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const UnixAddress at(path);
  if (::bind(socket, at.get(), at.size) != 0 || ::listen(socket, 128) != 0) std::abort();
  return socket;
}

// On a free port of `address`, in host byte order.
inline int listening_tcp(in_addr_t address) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(address);
  if (::bind(socket, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 ||
      ::listen(socket, 128) != 0)
    std::abort();
  return socket;
}

// One connection to whatever a socket listens on, or what listens at a path.
class StreamClient {
 public:
  explicit StreamClient(int listening) {
    sockaddr_storage at{};
    socklen_t size = sizeof at;
    ::getsockname(listening, reinterpret_cast<sockaddr*>(&at), &size);
    connect(at.ss_family, reinterpret_cast<const sockaddr*>(&at), size);
  }
  explicit StreamClient(const std::string& path) {
    const UnixAddress at(path);
    connect(AF_UNIX, at.get(), at.size);
  }
  ~StreamClient() { ::close(socket_); }
  StreamClient(const StreamClient&) = delete;
  StreamClient& operator=(const StreamClient&) = delete;

  [[nodiscard]] bool is_open() const { return open_; }
  void send(std::string_view text) const {
    EXPECT_EQ(::send(socket_, text.data(), text.size(), MSG_NOSIGNAL), std::ssize(text));
  }
  // The next line, without its end; what came of it if the other side closes.
  [[nodiscard]] std::string line() const {
    std::string line;
    char c = '\0';
    while (::recv(socket_, &c, 1, 0) == 1 && c != '\n') {
      if (c != '\r') line += c;
    }
    return line;
  }
  [[nodiscard]] std::string ask(std::string_view text) const {
    send(text);
    return line();
  }

 private:
  void connect(int family, const sockaddr* at, socklen_t size) {
    socket_ = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &kLongestWait, sizeof kLongestWait);
    open_ = ::connect(socket_, at, size) == 0;
  }

  int socket_ = -1;
  bool open_ = false;
};

}  // namespace idmint::fakes
