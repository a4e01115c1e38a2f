// Sockets of the loopback, for tests. Each function aborts if the system refuses.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace idmint::servers {

[[nodiscard]] inline sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

// The port of a bound socket.
[[nodiscard]] inline int port_of(int socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0)
    return ntohs(address.sin_port);
  std::perror("getsockname");
  std::abort();
}

// A socket that is bound to a free port. `flags` as of socket(), such as SOCK_NONBLOCK. It must be
// closed.
[[nodiscard]] inline int bound_socket(int flags = 0) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
  const sockaddr_in address = loopback(0);
  if (fd >= 0 && ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return fd;
  std::perror("bind");
  std::abort();
}

// The same, and it listens.
[[nodiscard]] inline int listening_socket(int flags = 0) {
  const int fd = bound_socket(flags);
  if (::listen(fd, SOMAXCONN) == 0) return fd;
  std::perror("listen");
  std::abort();
}

// Another program may take it before the caller does.
[[nodiscard]] inline int unused_port() {
  const int fd = bound_socket();
  const int port = port_of(fd);
  ::close(fd);
  return port;
}

// A port at which connections are neither made nor refused: one waits to be accepted, and more may
// not, so the system drops whatever asks for another.
class BlackHole {
 public:
  BlackHole() {
    const sockaddr_in address = loopback(port());
    if (::listen(listener_, 0) == 0 &&
        ::connect(waiting_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
      return;
    std::perror("connect");
    std::abort();
  }
  ~BlackHole() {
    ::close(waiting_);
    ::close(listener_);
  }
  BlackHole(const BlackHole&) = delete;
  BlackHole& operator=(const BlackHole&) = delete;

  [[nodiscard]] int port() const { return port_of(listener_); }

 private:
  const int listener_ = bound_socket();
  const int waiting_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

}  // namespace idmint::servers
