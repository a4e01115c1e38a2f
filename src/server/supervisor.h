// Supervisor: the process that started the daemon, if it speaks systemd's protocol: sd_notify(3),
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

// "serving on 127.0.0.1:7379, unix:/run/ids", for a supervisor's operators.
[[nodiscard]] std::string addresses_served(const Server& server);

// For one thread, that of Server::run() while that runs.
class Supervisor final {
 public:
  // Reads the variables of systemd and removes them, so that no child takes them for its own. To be
  // called before other threads run.
  // kInvalidArgument: a variable that cannot be understood, or a socket that came with the process
  // and cannot be served. Its name must be "redis", "http", "redis-tls" or "http-tls", and it must
  // be a stream socket that listens.
  // kResourceExhausted: no descriptor is left.
  [[nodiscard]] static Result<Supervisor> from_environment();
  ~Supervisor();
  Supervisor(Supervisor&& other) noexcept;
  Supervisor& operator=(Supervisor&&) = delete;

  // The sockets that came with the process (socket activation), for ServerOptions::listen: the
  // server closes them. In the order of their descriptors.
  [[nodiscard]] const std::vector<Listen>& sockets() const noexcept { return sockets_; }

  // How often notify_alive() is to be called: twice in the time after which the supervisor takes
  // the process for hung. None: it has no watchdog.
  [[nodiscard]] std::optional<std::chrono::microseconds> alive_every() const noexcept {
    return alive_every_;
  }

  // Tells the supervisor that the server serves as soon as run() does, and then, if it has a
  // watchdog, that the loop turns. To be called once, before run(); this must outlive the server.
  void attend(Server& server) const;

  // Each says it once more to a supervisor that knows it already. If it cannot be said, that is
  // reported on standard error. A supervisor that does not read holds the thread for 1 s at most.
  // It never holds notify_alive() and notify_reloading(), which drop what is not taken.
  //
  // It serves: at the start, and after notify_reloading(). `status` is shown to operators.
  void notify_ready(std::string_view status) const;
  // It reads its configuration again. notify_ready() must follow, whatever comes of it.
  void notify_reloading() const;
  // It ends. `longest`: how long that may take.
  void notify_stopping(std::chrono::microseconds longest) const;
  void notify_alive() const;

 private:
  Supervisor() = default;
  // One datagram: lines of VARIABLE=VALUE.
  void notify(std::string_view what, bool may_wait) const;

  std::string address_{};  // a path, or "@" and an abstract name; empty: nobody wants to hear
  int socket_ = -1;        // not connected, so that a supervisor may start again
  std::optional<std::chrono::microseconds> alive_every_{};
  std::vector<Listen> sockets_{};
};

}  // namespace idmint::server
