// Server: its listening sockets and its connections, from beginning to end.
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

// An address on which the server listens.
struct Listen {
  Protocol protocol = Protocol::kRedis;
  // "ADDRESS:PORT", "[V6ADDRESS]:PORT", ":PORT" (the loopback address), one of these behind "tls:",
  // or "unix:PATH". Port 0: a free one.
  std::string at{};
  // A listening stream socket instead of `at`, for example one that the supervisor opened.
  // Server::open() takes ownership, even if it fails.
  std::optional<int> descriptor{};
  bool tls = false;  // for `descriptor`; an address has it in its text
};

// Checks an address, except for what only the system knows. kInvalidArgument: it is no valid
// address; or it is open to other machines without tokens or client certificates.
[[nodiscard]] Result<void> validate(const Listen& listen, const TlsSettings& tls, bool has_tokens);

struct ServerOptions {
  std::vector<Listen> listen{};
  // The first has no name.
  std::vector<ServedStore> stores{};
  TlsSettings tls{};  // for addresses behind "tls:"
  // Empty: anybody who can connect may do everything.
  std::vector<TokenSettings> tokens{};
  // For callers whose token has no limit of its own, and for all others together.
  MostCreated most_created{};
  // Whether clients of the Redis protocol that have not said what they are, and readers of JSON,
  // hold integers of 64 bits.
  bool all_hold_64_bits = false;
  std::string version{};
  // Must outlive the server. Null: the server has its own, for errors only.
  Log* log = nullptr;
  // The most connections at a time. One more gets an error and is closed.
  std::size_t most_connections = 20'000;
  // The clock for the deadlines of calls and the limits of tokens. Any thread may call it.
  std::function<SteadyTime()> now = &std::chrono::steady_clock::now;
  // The longest that stop() waits for calls in progress.
  std::chrono::milliseconds drain = std::chrono::seconds{10};
  // The longest that a request for /metrics waits for the stores. By default Prometheus gives up
  // after 10 s.
  std::chrono::milliseconds scrape_patience = std::chrono::seconds{2};
};

// Not for several threads, except stop().
class Server final {
 public:
  // Listens on all addresses. `executor` runs calls that may wait, except the rounds of sequences,
  // which run on shared_executor(). It must outlive the server. Null: the server has its own.
  // Errors:
  // - kInvalidArgument: as validate() and TlsContext::open().
  // - kUnavailable: an address is in use.
  // - kPermissionDenied: an address may not be used.
  // - kFailedPrecondition: the limit of open files is too low.
  [[nodiscard]] static Result<std::unique_ptr<Server>> open(ServerOptions options,
                                                            Executor* executor = nullptr);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // The addresses for clients, in the order of the options, such as "127.0.0.1:7379".
  [[nodiscard]] const std::vector<std::string>& addresses() const noexcept;

  // Runs `act` on the thread of run(), when that begins to serve and then every `period`. A loop
  // that hangs does not run it. To be called before run().
  void every(std::chrono::microseconds period, std::function<void()> act);

  // Serves until stop(), and then until all taken calls have their answers or the drain time is
  // over.
  void run();

  // Takes nothing new from now on: connections are refused, and requests get kUnavailable or the
  // end of the connection. Any thread may call it, but no signal handler.
  void stop();

  // Takes over `tls`, `tokens`, `most_created` and `all_hold_64_bits`; the other options stay.
  // Taken calls are not affected, and connections keep their encryption. On an error nothing
  // changes. To be called on the thread of run(). Errors:
  // - kInvalidArgument: as open().
  // - kFailedPrecondition: there were tokens, and none would be left.
  [[nodiscard]] Result<void> change(const ServerOptions& to);

  // at() calls `act` each time the signal comes; post() calls it soon. Both do so on the thread of
  // run(), when it accepts connections. Any thread may call post().
  void at(int signal, std::function<void()> act);
  void post(std::function<void()> act);

  // Calls stop() when one of these signals comes; a second one ends run() at once, which still
  // waits for calls in progress at a store. The signals have no other effect any more. Calls `told`
  // with the signal on the thread of run().
  void stop_at(const std::vector<int>& signals, std::function<void(int signal)> told);

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace idmint::server
