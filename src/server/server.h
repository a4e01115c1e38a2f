// Server: the sockets that are listened on, the connections that came over them, and the end of
// both.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/clock.h"
#include "idmint/executor.h"
#include "idmint/result.h"
#include "server/access.h"
#include "server/log.h"
#include "server/sources.h"
#include "server/tls.h"

namespace idmint::server {

enum class Protocol : std::uint8_t { kRedis, kHttp };

// Where clients come in.
struct Listen {
  Protocol protocol = Protocol::kRedis;
  // "ADDRESS:PORT", "[V6ADDRESS]:PORT", ":PORT" (the loopback address), one of these behind "tls:",
  // or "unix:PATH". Port 0: a free one.
  std::string at{};
  // Instead of `at`: a stream socket that listens already, such as one that the supervisor opened.
  // It belongs to the server from Server::open() on, even if that fails.
  std::optional<int> descriptor{};
  bool tls = false;  // of `descriptor`; an address says so itself
};

// Whether such an address can be listened on, but for what only the system knows.
// kInvalidArgument: it is none; or others than those on this machine could come in unknown, as
// there are neither tokens nor certificates of clients.
[[nodiscard]] Result<void> validate(const Listen& listen, const TlsSettings& tls, bool has_tokens);

struct ServerOptions {
  std::vector<Listen> listen{};
  // The first of them has no name.
  std::vector<ServedStore> stores{};
  TlsSettings tls{};  // for addresses behind "tls:"
  // None: whoever can connect may do everything.
  std::vector<TokenSettings> tokens{};
  std::string version{};
  // Outlives the server. Null: one of its own, for errors only.
  Log* log = nullptr;
  // Connections at a time; one more is told so, and closed.
  std::size_t most_connections = 20'000;
  // The time by which the deadlines of calls are kept, and the limits of tokens. Any thread may
  // call it.
  std::function<SteadyTime()> now = &std::chrono::steady_clock::now;
  // How long stop() waits for calls that are under way.
  std::chrono::milliseconds drain = std::chrono::seconds{10};
  // How long a request for /metrics waits for the stores. Prometheus gives up after 10 s, unless
  // told otherwise.
  std::chrono::milliseconds scrape_patience = std::chrono::seconds{2};
};

// Threads may not share it, but for stop().
class Server final {
 public:
  // Listens. kInvalidArgument: as validate() and TlsContext::open(). kUnavailable: the address is
  // in use. kPermissionDenied: it may not be used. kFailedPrecondition: the process may have too
  // few open files. The executor carries out what may wait, but for the rounds of sequences, which
  // shared_executor() has; it must outlive the server. Null: one of its own.
  [[nodiscard]] static Result<std::unique_ptr<Server>> open(ServerOptions options,
                                                            Executor* executor = nullptr);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Where it listens, as clients name it, in the order of the options: "127.0.0.1:7379".
  [[nodiscard]] const std::vector<std::string>& addresses() const noexcept;

  // Runs `act` on the thread of run(), as soon as that serves and then every `period`. A loop that
  // hangs does not run it. To be called before run().
  void every(std::chrono::microseconds period, std::function<void()> act);

  // Serves until stop(), and then until all calls that were taken have their answers, or the time
  // for that is over.
  void run();

  // Any thread may call it, and a signal handler may not. Nothing new is taken: connections are
  // refused, and requests get kUnavailable, or the end of the connection.
  void stop();

  // Other tokens and another certificate from now on. Calls that were taken are not touched, and
  // connections keep their encryption. On an error everything stays as it is; kInvalidArgument: as
  // open(); kFailedPrecondition: there were tokens, and none would be left. On the thread of run().
  [[nodiscard]] Result<void> change(const TlsSettings& tls, std::vector<TokenSettings> tokens);

  // Calls `act` on the thread of run(), each time the signal comes, or soon; run() accepts
  // connections by then. Any thread may post.
  void at(int signal, std::function<void()> act);
  void post(std::function<void()> act);

  // stop() when one of these signals comes. From then on they do nothing else, but the second one
  // ends run() at once: what is under way at a store is still waited for. `told`: called with the
  // signal, on the thread of run().
  void stop_at(const std::vector<int>& signals, std::function<void(int signal)> told);

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace idmint::server
