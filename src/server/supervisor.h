// Supervisor: the process that started the daemon, if it uses systemd's protocol: sd_notify(3),
// sd_listen_fds(3) and sd_watchdog_enabled(3). Without systemd's variables in the environment
// nothing happens.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"
#include "server/server.h"

namespace idmint::server {

// "serving on 127.0.0.1:7379, unix:/run/ids", for the supervisor's operators.
[[nodiscard]] std::string addresses_served(const Server& server);

// For one thread: the one of Server::run(), while that runs.
class Supervisor final {
 public:
  // Reads systemd's variables and removes them, so that no child uses them. To be called before
  // other threads run. Errors:
  // - kInvalidArgument: a variable is malformed, or an inherited socket cannot be served. Its name
  //   must be "redis", "http", "redis-tls" or "http-tls", and it must be a listening stream socket.
  // - kResourceExhausted: no descriptor is left.
  [[nodiscard]] static Result<Supervisor> from_environment();
  ~Supervisor();
  Supervisor(Supervisor&& other) noexcept;
  Supervisor& operator=(Supervisor&&) = delete;

  // The inherited sockets (socket activation) for ServerOptions::listen, in the order of their
  // descriptors. The server closes them.
  [[nodiscard]] const std::vector<Listen>& sockets() const noexcept { return sockets_; }

  // The interval for notify_alive(): half the supervisor's watchdog timeout. nullopt: there is no
  // watchdog.
  [[nodiscard]] std::optional<std::chrono::microseconds> alive_every() const noexcept {
    return alive_every_;
  }

  // Notifies the supervisor when run() begins to serve and, with a watchdog, that the loop turns.
  // To be called once, before run(). This must outlive the server.
  void attend(Server& server) const;

  // The notifications. A repeated one does no harm. Failures are reported on standard error. A
  // supervisor that does not read delays the thread by at most 1 s; it never delays notify_alive()
  // and notify_reloading(), which drop the message instead.
  //
  // The server serves: at the start, and after notify_reloading(). `status` is shown to operators.
  void notify_ready(std::string_view status) const;
  // The server reads its configuration again. notify_ready() must follow, even after an error.
  void notify_reloading() const;
  // The server ends. `longest`: the longest time that it may take.
  void notify_stopping(std::chrono::microseconds longest) const;
  void notify_alive() const;

 private:
  Supervisor() = default;
  // Sends one datagram: lines of VARIABLE=VALUE.
  void notify(std::string_view what, bool may_wait) const;

  std::string address_{};  // a path, or "@" and an abstract name; empty: no supervisor
  int socket_ = -1;        // not connected, so the supervisor may restart
  std::optional<std::chrono::microseconds> alive_every_{};
  std::vector<Listen> sockets_{};
};

}  // namespace idmint::server
