#include "server/server.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/errors.h"
#include "base/thread_pool.h"
#include "base/url.h"
#include "server/address.h"
#include "server/connection.h"
#include "server/http_session.h"
#include "server/loop.h"
#include "server/redis_session.h"
#include "server/service.h"
#include "server/sources.h"
#include "server/store_probe.h"

namespace idmint::server {

namespace asio = boost::asio;
using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;
using boost::system::error_code;

namespace {

// Threads for what waits for a store outside of a sequence's own rounds: opening, listing, pools.
// The two lanes of each store can be full at a time, with calls for all stores, of HTTP and of
// /metrics.
constexpr std::size_t threads_for(std::size_t stores) {
  return Loop::kMostOfLane * (2 * stores + 3);
}
// Descriptors that are not connections: the store's, the library's, standard ones.
constexpr std::size_t kOtherDescriptors = 128;
// With fewer, clients would wait for a connection for ever.
constexpr std::size_t kFewestDescriptors = 64;
constexpr std::chrono::seconds kCheckEvery{1};

// Refuses an address at which strangers could connect: everybody there is authenticated, or is on
// this machine.
Result<void> check_entry(const Address& address, std::string_view at, const TlsSettings& tls,
                         bool has_tokens) {
  if (address.tls && tls.certificate.empty())
    return refuse("cannot listen on " + std::string(at) +
                  ": TLS needs a certificate and its key: set certificate and key of [tls]");
  if (address.loopback || has_tokens || (address.tls && !tls.client_ca.empty())) return {};
  return refuse("not listening on " + std::string(at) +
                ": anybody who reaches it could use up ids. Make a token with idmintd token, or "
                "ask for certificates of clients with client_ca of [tls]; or give a loopback "
                "address or a Unix socket");
}

Error listen_error(std::string_view at, const error_code& error) {
  const std::string message = "cannot listen on " + std::string(at) + ": " + error.message();
  if (error == asio::error::address_in_use)
    return {Code::kUnavailable, message +
                                    "; is another idmintd running? Stop it, or give another "
                                    "address"};
  if (error == asio::error::access_denied) return {Code::kPermissionDenied, message};
  return {Code::kInvalidArgument, message};
}

// As many descriptors as the system lets this process have. Returns how many.
std::size_t raise_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  if (limit.rlim_cur < limit.rlim_max) {
    const rlimit more{.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &more) == 0) return limit.rlim_max;
  }
  return limit.rlim_cur;
}

// The name of a Unix socket in its folder. The folder is opened once, and the name is only looked
// at and unlinked in it, which follows no symbolic link: whoever may swap things there cannot have
// anything else changed.
class UnixSocket {
 public:
  UnixSocket() = default;
  explicit UnixSocket(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    name_ = path.substr(slash == std::string::npos ? 0 : slash + 1);
    const std::string folder =
        slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
    folder_ = ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  }
  ~UnixSocket() {
    remove();
    if (folder_ >= 0) ::close(folder_);
  }
  UnixSocket(UnixSocket&& other) noexcept
      : folder_(std::exchange(other.folder_, -1)),
        name_(std::move(other.name_)),
        made_(std::exchange(other.made_, std::nullopt)) {}
  UnixSocket& operator=(UnixSocket&&) = delete;

  struct Seen {
    dev_t device;
    ino_t inode;
    mode_t mode;
    bool operator==(const Seen&) const = default;
  };
  // The file that has the name now. Nothing: no file has it.
  [[nodiscard]] std::optional<Seen> look() const {
    struct stat file{};
    if (::fstatat(folder_, name_.c_str(), &file, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
    return Seen{file.st_dev, file.st_ino, file.st_mode};
  }
  // Removes the name, if it is still that of a socket that was seen.
  void unlink(const Seen& seen) const {
    if (S_ISSOCK(seen.mode) && look() == seen) ::unlinkat(folder_, name_.c_str(), 0);
  }
  // Takes what has the name for the socket of this process, to be removed at the end. False: others
  // may connect to it, or it is gone.
  [[nodiscard]] bool is_made() {
    const std::optional<Seen> seen = look();
    if (!seen || !S_ISSOCK(seen->mode) || (seen->mode & S_IRWXO) != 0) return false;
    made_ = seen;
    return true;
  }
  // A successor may have a socket of its own there by now.
  void remove() {
    if (const std::optional<Seen> made = std::exchange(made_, std::nullopt)) unlink(*made);
  }

 private:
  int folder_ = -1;
  std::string name_{};
  std::optional<Seen> made_{};
};

// Removes a Unix socket that a process left which is gone: nobody answers there.
void remove_left_socket(const Address& address, const UnixSocket& socket,
                        const UnixSocket::Seen& seen) {
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (probe < 0) return;
  const int failed = ::connect(
      probe, reinterpret_cast<const sockaddr*>(address.endpoint.data()),  // as bind() has it
      static_cast<socklen_t>(address.endpoint.size()));
  if (failed != 0 && errno == ECONNREFUSED) socket.unlink(seen);
  ::close(probe);
}

std::chrono::milliseconds longest_deadline(const std::vector<ServedStore>& stores) {
  std::chrono::milliseconds longest{0};
  for (const ServedStore& each : stores)
    longest = std::max(longest, each.mint.store_options.deadline);
  return longest;
}

}  // namespace

Result<void> validate(const Listen& listen, const TlsSettings& tls, bool has_tokens) {
  const Result<Address> address = address_of(listen.at);
  if (!address) return std::unexpected(address.error());
  return check_entry(*address, listen.at, tls, has_tokens);
}

struct Server::State {
  State(ServerOptions its_options, Executor* executor)
      : options(std::move(its_options)),
        own_threads(executor == nullptr
                        ? std::make_unique<ThreadPool>(threads_for(options.stores.size()))
                        : nullptr),
        loop(executor != nullptr ? *executor : *own_threads, longest_deadline(options.stores),
             options.now),
        sources(loop, options.stores),
        probe(loop, sources, options.scrape_patience),
        service{.loop = loop,
                .sources = sources,
                .access = access,
                .log = options.log != nullptr ? *options.log : no_log,
                .probe = probe,
                .version = options.version},
        signals(loop.context()),
        check_timer(loop.context()),
        drain_timer(loop.context()) {
    sources.on_store_change([this](std::string_view source, std::string_view url,
                                   const Error* why) {
      constexpr auto kLevel = LogSettings::Level::kWarning;
      if (why == nullptr)
        return service.log.write(kLevel, "store_returned", {{"source", source}, {"store", url}});
      service.log.write(kLevel, "store_left_out",
                        {{"source", source},
                         {"store", url},
                         {"code", name(why->code)},
                         {"message", why->message()}});
    });
    loop.after_answers([this] {
      service.answered_at = std::chrono::steady_clock::now();
      // A settled conversation may get further answers only later, from another batch.
      for (Conversation* const conversation : std::exchange(service.settling, {}))
        conversation->settle();
    });
  }

  struct Door {
    Protocol protocol;
    Address address;
    std::string at;
    Acceptor acceptor;
    UnixSocket socket;  // to be removed at the end
    asio::steady_timer pause;
  };

  Result<void> listen(const Listen& wanted) {
    const Result<Address> address = address_of(wanted.at);
    if (!address) return std::unexpected(address.error());
    if (Result<void> known = check_entry(*address, wanted.at, tls_settings, !access.is_open());
        !known)
      return known;
    const bool is_unix = !address->unix_path.empty();
    UnixSocket socket = is_unix ? UnixSocket(address->unix_path) : UnixSocket();
    if (is_unix) {
      if (const std::optional<UnixSocket::Seen> seen = socket.look()) {
        if (!S_ISSOCK(seen->mode))
          return refuse("cannot listen on " + wanted.at +
                        ": there is something that is no socket; give another path");
        remove_left_socket(*address, socket, *seen);
      }
    }
    Acceptor acceptor(loop.context());
    error_code error;
    acceptor.open(address->endpoint.protocol(), error);
    if (!error && !is_unix) acceptor.set_option(asio::socket_base::reuse_address(true), error);
    // Others of the system may not connect, whatever the umask says. Linux makes the file with the
    // permissions that the socket has by then: afterwards something else may have the name.
    if (!error && is_unix && ::fchmod(acceptor.native_handle(), 0770) != 0)
      error.assign(errno, boost::system::system_category());
    if (!error) acceptor.bind(address->endpoint, error);
    if (error) return std::unexpected(listen_error(wanted.at, error));
    if (is_unix && !socket.is_made())
      return fail(Code::kPermissionDenied, "cannot listen on " + wanted.at +
                                               ": it was replaced, or others may connect to it");
    acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (!error) acceptor.non_blocking(true, error);
    if (error) return std::unexpected(listen_error(wanted.at, error));
    addresses.push_back((address->tls ? "tls:" : "") +
                        (address->unix_path.empty() ? name_of(acceptor.local_endpoint(error))
                                                    : "unix:" + address->unix_path));
    doors.push_back(
        std::make_unique<Door>(Door{wanted.protocol, *address, wanted.at, std::move(acceptor),
                                    std::move(socket), asio::steady_timer(loop.context())}));
    return {};
  }

  // The process that opened the socket removes its path.
  Result<void> adopt(const Listen& wanted, int descriptor) {
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    error_code error;
    Acceptor acceptor(loop.context());
    if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound), &size) == 0) {
      acceptor.assign(asio::generic::stream_protocol(bound.ss_family, 0), descriptor, error);
    } else {
      error.assign(errno, boost::system::system_category());
    }
    const std::string at = "socket " + std::to_string(descriptor);
    if (error) {
      ::close(descriptor);
      return std::unexpected(listen_error(at, error));
    }
    const Endpoint endpoint = acceptor.local_endpoint(error);
    if (!error) acceptor.non_blocking(true, error);
    if (error) return std::unexpected(listen_error(at, error));
    const Address address{
        .endpoint = endpoint, .tls = wanted.tls, .loopback = is_loopback(endpoint)};
    std::string name = (wanted.tls ? "tls:" : "") + name_of(endpoint);
    if (Result<void> known = check_entry(address, name, tls_settings, !access.is_open()); !known)
      return known;
    addresses.push_back(name);
    doors.push_back(
        std::make_unique<Door>(Door{wanted.protocol, address, std::move(name), std::move(acceptor),
                                    UnixSocket(), asio::steady_timer(loop.context())}));
    return {};
  }

  struct Periodic {
    std::chrono::microseconds period;
    std::function<void()> act;
    asio::steady_timer timer;
  };

  void repeat(Periodic& task) {
    task.act();
    task.timer.expires_after(task.period);
    task.timer.async_wait([this, &task](const error_code& error) {
      if (!error) repeat(task);
    });
  }

  void accept(Door& door) {
    door.acceptor.async_accept([this, &door](const error_code& error, Connection::Socket socket) {
      if (service.draining || error == asio::error::operation_aborted) return;
      if (error) {  // no descriptor or no memory is left: later
        door.pause.expires_after(std::chrono::milliseconds{100});
        door.pause.async_wait([this, &door](const error_code& stopped) {
          if (!stopped) accept(door);
        });
        return;
      }
      welcome(door, std::move(socket));
      accept(door);
    });
  }

  void welcome(const Door& door, Connection::Socket socket) {
    std::unique_ptr<TlsStream> encrypted;
    if (door.address.tls) {
      encrypted = TlsStream::open(*tls, socket.native_handle());
      if (encrypted == nullptr) return;  // no memory is left
    }
    if (connections.size() >= options.most_connections) {
      ++service.connections_refused;
      if (encrypted != nullptr) return;
      constexpr std::string_view redis = "-ERR max number of clients reached\r\n";
      constexpr std::string_view http =
          "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
          "Connection: close\r\n\r\n";
      const std::string_view full = door.protocol == Protocol::kRedis ? redis : http;
      static_cast<void>(
          ::send(socket.native_handle(), full.data(), full.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
      return;
    }
    ++service.connections;
    ++service.open_connections;
    error_code ignored;
    const bool over_tcp = socket.local_endpoint(ignored).protocol().family() != AF_UNIX;
    if (over_tcp) {
      socket.set_option(asio::ip::tcp::no_delay(true), ignored);
      socket.set_option(asio::socket_base::keep_alive(true), ignored);
    }
    auto connection =
        std::make_shared<Connection>(std::move(socket), std::move(encrypted), service.unsent,
                                     handshakes, [this](Connection& gone) {
                                       --service.open_connections;
                                       connections.erase(gone.shared_from_this());
                                       end_if_drained();
                                     });
    connections.insert(connection);
    if (door.protocol == Protocol::kRedis) {
      connection->begin(std::make_unique<RedisSession>(*connection, service));
    } else {
      connection->begin(std::make_unique<HttpSession>(*connection, service, over_tcp));
    }
  }

  void check() {
    check_timer.expires_after(kCheckEvery);
    check_timer.async_wait([this](const error_code& error) {
      if (error) return;
      const auto now = std::chrono::steady_clock::now();
      const std::vector<std::shared_ptr<Connection>> all(connections.begin(), connections.end());
      for (const auto& connection : all) connection->check(now);
      service.tell_repeated();
      check();
    });
  }

  void drain() {
    if (std::exchange(service.draining, true)) return;
    for (const auto& door : doors) {
      error_code ignored;
      door->acceptor.close(ignored);
      door->socket.remove();
      door->pause.cancel();
    }
    const std::vector<std::shared_ptr<Connection>> all(connections.begin(), connections.end());
    for (const auto& connection : all) connection->drain();
    drain_timer.expires_after(options.drain);
    drain_timer.async_wait([this](const error_code& error) {
      if (!error) loop.stop();
    });
    end_if_drained();
  }

  Result<void> change(const ServerOptions& to) {
    for (const auto& door : doors) {
      if (Result<void> known = check_entry(door->address, door->at, to.tls, !to.tokens.empty());
          !known)
        return known;
    }
    if (to.tokens.empty() && !access.is_open())
      return fail(Code::kFailedPrecondition,
                  "no token is left, so that everybody could do everything: keep one, or start "
                  "idmintd again if that is meant");
    std::shared_ptr<const TlsContext> opened;
    if (!to.tls.certificate.empty()) {
      auto context = TlsContext::open(to.tls);
      if (!context) return std::unexpected(std::move(context.error()));
      opened = *std::move(context);
    }
    tls_settings = to.tls;
    tls = std::move(opened);
    access.replace(to.tokens, to.most_created);
    service.all_hold_64_bits = to.all_hold_64_bits;
    return {};
  }

  void wait_for(asio::signal_set& signal, std::function<void()> act) {
    signal.async_wait([this, &signal, act = std::move(act)](const error_code& error, int) {
      if (error) return;
      act();
      wait_for(signal, act);
    });
  }

  void end_if_drained() {
    if (service.draining && !ended && connections.empty()) loop.stop();
  }

  const ServerOptions options;
  bool ended = false;  // run() has returned for good
  const std::unique_ptr<ThreadPool> own_threads;
  Loop loop;
  Sources sources;
  StoreProbe probe;
  Access access{};  // change() sets the tokens
  Log no_log{LogSettings{.level = LogSettings::Level::kError}};
  TlsSettings tls_settings{};
  std::shared_ptr<const TlsContext> tls{};  // null: there is no certificate
  Service service;
  Handshakes handshakes;
  std::vector<std::unique_ptr<Door>> doors;
  std::vector<std::string> addresses;
  std::unordered_set<std::shared_ptr<Connection>> connections;
  asio::signal_set signals;  // that end it
  std::vector<std::unique_ptr<asio::signal_set>> others;
  asio::steady_timer check_timer;
  std::vector<std::unique_ptr<Periodic>> periodic;
  asio::steady_timer drain_timer;
};

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

// Nothing may come back to a loop that is gone: first all calls get their answers, with an error
// where nothing else is left.
Server::~Server() {
  state_->service.draining = true;
  state_->sources.close(state_->service.log);
  state_->service.guesses_told_at = {};
  state_->service.tell_repeated();
  asio::io_context& context = state_->loop.context();
  state_->ended = true;
  const std::vector<std::shared_ptr<Connection>> all(state_->connections.begin(),
                                                     state_->connections.end());
  for (const auto& connection : all) connection->close();
  state_->loop.abandon();
  context.restart();
  while (state_->loop.waiting_elsewhere() != 0) {
    context.run_one();
    context.restart();
  }
  context.restart();
  context.poll();
}

Result<std::unique_ptr<Server>> Server::open(ServerOptions options, Executor* executor) {
  const std::size_t descriptors = raise_descriptors();
  if (descriptors < kFewestDescriptors)
    return fail(Code::kFailedPrecondition,
                "this process may have " + std::to_string(descriptors) +
                    " open files, and needs at least " + std::to_string(kFewestDescriptors) +
                    ", as each connection takes one: raise the limit with ulimit -n or "
                    "LimitNOFILE=");
  options.most_connections = std::min(
      options.most_connections,
      descriptors > 2 * kOtherDescriptors ? descriptors - kOtherDescriptors : descriptors / 2);
  if (options.stores.empty()) options.stores.emplace_back();
  auto state = std::make_unique<State>(std::move(options), executor);
  state->service.most_connections = static_cast<std::int64_t>(state->options.most_connections);
  Result<void> opened = state->change(state->options);
  for (const Listen& wanted : state->options.listen) {
    const std::optional<int> descriptor = wanted.descriptor;
    if (opened) {
      opened = descriptor ? state->adopt(wanted, *descriptor) : state->listen(wanted);
    } else if (descriptor) {
      ::close(*descriptor);
    }
  }
  if (!opened) return std::unexpected(std::move(opened.error()));
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

const std::vector<std::string>& Server::addresses() const noexcept { return state_->addresses; }

void Server::every(std::chrono::microseconds period, std::function<void()> act) {
  state_->periodic.push_back(std::make_unique<State::Periodic>(
      State::Periodic{period, std::move(act), asio::steady_timer(state_->loop.context())}));
}

void Server::run() {
  for (const auto& door : state_->doors) state_->accept(*door);
  for (const auto& task : state_->periodic) state_->repeat(*task);
  state_->check();
  state_->loop.run();
}

void Server::stop() {
  state_->loop.post([state = state_.get()] { state->drain(); });
}

Result<void> Server::change(const ServerOptions& to) { return state_->change(to); }

void Server::at(int signal, std::function<void()> act) {
  state_->others.push_back(std::make_unique<asio::signal_set>(state_->loop.context(), signal));
  state_->wait_for(*state_->others.back(), std::move(act));
}

void Server::post(std::function<void()> act) { state_->loop.post(std::move(act)); }

void Server::stop_at(const std::vector<int>& signals, std::function<void(int signal)> told) {
  for (const int signal : signals) state_->signals.add(signal);
  state_->signals.async_wait([this, told = std::move(told)](const error_code& error, int signal) {
    if (error) return;
    if (told) told(signal);
    state_->drain();
    state_->signals.async_wait([this](const error_code& stopped, int) {
      if (!stopped) state_->loop.stop();
    });
  });
}

}  // namespace idmint::server
