#include "tests/servers/redis.h"

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engines/engine.h"
#include "load.h"
#include "tests/servers/loopback.h"

namespace idmint::bench {
namespace {

// A connection to a server of Redis.
class RedisSocket {
 public:
  explicit RedisSocket(int port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_in address = servers::loopback(port);
    const int on = 1;
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
      fail("cannot connect to Redis");
  }
  ~RedisSocket() { ::close(fd_); }
  RedisSocket(const RedisSocket&) = delete;
  RedisSocket& operator=(const RedisSocket&) = delete;

  // The reply of one line, without its end.
  std::string_view ask(std::string_view request) {
    if (::send(fd_, request.data(), request.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(request.size()))
      fail("Redis closed the connection");
    std::size_t size = 0;
    while (size < 2 || std::string_view(line_.data(), size).substr(size - 2) != "\r\n") {
      const ssize_t got = ::recv(fd_, line_.data() + size, line_.size() - size, 0);
      if (got <= 0) fail("Redis closed the connection");
      size += static_cast<std::size_t>(got);
    }
    return {line_.data(), size - 2};
  }

 private:
  int fd_;
  std::array<char, 512> line_{};
};

// One INCR for each id.
std::function<void()> redis_caller(int port) {
  const auto socket = std::make_shared<RedisSocket>(port);
  return [socket] {
    const std::string_view reply = socket->ask("*2\r\n$4\r\nINCR\r\n$6\r\norders\r\n");
    if (!reply.starts_with(':')) fail("Redis: " + std::string(reply));
  };
}

}  // namespace

Engine redis_engine() {
  const auto server = std::make_shared<servers::RedisServer>();
  const int port = server->port();
  return {
      .name = "Redis " + server->info("server", "redis_version"),
      .durability = server->run({"CONFIG", "GET", "appendonly"}) + ", " +
                    server->run({"CONFIG", "GET", "appendfsync"}),
      .url = server->database("ids"),
      .recipes = {{.name = "INCR", .trips = "1", .caller = [port] { return redis_caller(port); }}},
      .host = "127.0.0.1:" + std::to_string(port),
      .server = server};
}

}  // namespace idmint::bench
