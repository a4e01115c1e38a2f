#include "server/supervisor.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ranges>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/text.h"
#include "terminal/output.h"

namespace idmint::server {
namespace {

using std::chrono::microseconds;

constexpr int kFirstSocket = 3;  // SD_LISTEN_FDS_START
constexpr timeval kPatience{.tv_sec = 1, .tv_usec = 0};
constexpr microseconds kLeastPeriod = std::chrono::milliseconds{1};

// The value of a variable, which is removed.
std::optional<std::string> take(const char* name) {
  // NOLINTBEGIN(concurrency-mt-unsafe): no other thread runs yet
  const char* const value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  std::string taken = value;
  ::unsetenv(name);
  // NOLINTEND(concurrency-mt-unsafe)
  return taken;
}

// The number in a variable; none where the variable is not set.
Result<std::optional<std::int64_t>> number(const char* name,
                                           const std::optional<std::string>& value) {
  if (!value) return std::nullopt;
  std::int64_t result = 0;
  const char* const end = value->data() + value->size();
  const auto [stopped, failed] = std::from_chars(value->data(), end, result);
  if (failed != std::errc{} || stopped != end || result <= 0)
    return refuse(std::string(name) + " is no number of 1 or more: " + shown(*value) +
                  "; systemd sets it, so unset it where systemd does not start idmintd");
  return result;
}

// Whether a variable that names the process it is meant for is not set, or names this one.
Result<bool> is_for_this_process(const char* name) {
  const Result<std::optional<std::int64_t>> pid = number(name, take(name));
  if (!pid) return std::unexpected(pid.error());
  return pid->value_or(::getpid()) == ::getpid();
}

std::string error_text(int error) { return std::generic_category().message(error); }

int option(int socket, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(socket, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

// A name that FileDescriptorName= of a .socket unit gives.
struct SocketName {
  std::string_view name;
  Protocol protocol;
  bool tls = false;
};
constexpr std::array kSocketNames = {
    SocketName{"redis", Protocol::kRedis}, SocketName{"http", Protocol::kHttp},
    SocketName{"redis-tls", Protocol::kRedis, true}, SocketName{"http-tls", Protocol::kHttp, true}};

Result<Listen> socket_that_came(int descriptor, const std::string& name) {
  const std::string what =
      "socket " + std::to_string(descriptor) + ", which came with the process, ";
  const auto* const row = std::ranges::find(kSocketNames, name, &SocketName::name);
  if (row == kSocketNames.end())
    return refuse(what + "has the name " + shown(name) +
                  ": set FileDescriptorName= in its .socket unit to redis, http, redis-tls or "
                  "http-tls");
  if (::fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0)
    return refuse(what + "is not there: " + error_text(errno) +
                  "; LISTEN_FDS counts more descriptors than were passed on");
  const int family = option(descriptor, SO_DOMAIN);
  if (option(descriptor, SO_TYPE) != SOCK_STREAM ||
      (family != AF_INET && family != AF_INET6 && family != AF_UNIX))
    return refuse(what + "is no TCP socket and no Unix stream socket: give it with ListenStream= " +
                  "in its .socket unit");
  if (option(descriptor, SO_ACCEPTCONN) != 1)
    return refuse(what + "does not listen: set Accept=no in its .socket unit");
  return Listen{.protocol = row->protocol, .at = {}, .descriptor = descriptor, .tls = row->tls};
}

// As sd_listen_fds_with_names(3).
Result<std::vector<Listen>> sockets_that_came() {
  const Result<bool> for_this = is_for_this_process("LISTEN_PID");
  const Result<std::optional<std::int64_t>> count = number("LISTEN_FDS", take("LISTEN_FDS"));
  const std::optional<std::string> given_names = take("LISTEN_FDNAMES");
  if (!for_this) return std::unexpected(for_this.error());
  if (!*for_this) return std::vector<Listen>{};
  if (!count) return std::unexpected(count.error());
  const std::int64_t wanted = count->value_or(0);
  std::vector<std::string> names;
  if (given_names) {
    for (const auto name : std::views::split(*given_names, ':'))
      names.emplace_back(name.begin(), name.end());
  }
  if (given_names && std::ssize(names) != wanted && wanted != 0)
    return refuse("LISTEN_FDNAMES has " + std::to_string(names.size()) +
                  " names, and LISTEN_FDS counts " + std::to_string(wanted) +
                  " sockets: give each .socket unit one FileDescriptorName=");
  std::vector<Listen> sockets;
  for (std::int64_t i = 0; i < wanted; ++i) {
    Result<Listen> socket =
        socket_that_came(static_cast<int>(kFirstSocket + i),
                         given_names ? names[static_cast<std::size_t>(i)] : std::string("unknown"));
    if (!socket) return std::unexpected(std::move(socket.error()));
    sockets.push_back(*std::move(socket));
  }
  return sockets;
}

// As NOTIFY_SOCKET has it.
bool is_address(std::string_view text) {
  return text.size() >= 2 && text.size() < sizeof(sockaddr_un::sun_path) &&
         (text.starts_with('/') || text.starts_with('@'));
}

// As sd_watchdog_enabled(3).
Result<std::optional<microseconds>> watchdog() {
  const Result<bool> for_this = is_for_this_process("WATCHDOG_PID");
  const Result<std::optional<std::int64_t>> limit = number("WATCHDOG_USEC", take("WATCHDOG_USEC"));
  if (!for_this) return std::unexpected(for_this.error());
  if (!*for_this) return std::nullopt;
  if (!limit) return std::unexpected(limit.error());
  const std::optional<std::int64_t> given = *limit;
  if (!given) return std::nullopt;
  return microseconds{*given};
}

}  // namespace

std::string addresses_served(const Server& server) {
  std::string text;
  for (const std::string& address : server.addresses())
    text += (text.empty() ? "serving on " : ", ") + address;
  return text;
}

Result<Supervisor> Supervisor::from_environment() {
  Supervisor supervisor;
  supervisor.address_ = take("NOTIFY_SOCKET").value_or("");
  Result<std::optional<microseconds>> limit = watchdog();
  Result<std::vector<Listen>> sockets = sockets_that_came();
  const std::string& address = supervisor.address_;
  if (!address.empty() && !is_address(address))
    return refuse(
        "NOTIFY_SOCKET is no absolute path of at most 107 characters, and no @ and a name: " +
        shown(address));
  if (!limit) return std::unexpected(std::move(limit.error()));
  if (!sockets) return std::unexpected(std::move(sockets.error()));
  const std::optional<microseconds> whole = *limit;
  if (whole && !address.empty()) supervisor.alive_every_ = std::max(*whole / 2, kLeastPeriod);
  supervisor.sockets_ = *std::move(sockets);
  if (address.empty()) return supervisor;
  supervisor.socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (supervisor.socket_ < 0)
    return fail(Code::kResourceExhausted, "cannot make a socket: " + error_text(errno));
  ::setsockopt(supervisor.socket_, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  return supervisor;
}

Supervisor::~Supervisor() {
  if (socket_ >= 0) ::close(socket_);
}

Supervisor::Supervisor(Supervisor&& other) noexcept
    : address_(std::move(other.address_)),
      socket_(std::exchange(other.socket_, -1)),
      alive_every_(other.alive_every_),
      sockets_(std::move(other.sockets_)) {}

void Supervisor::attend(Server& server) const {
  if (address_.empty()) return;
  server.post([this, status = addresses_served(server)] { notify_ready(status); });
  if (alive_every_) server.every(*alive_every_, [this] { notify_alive(); });
}

void Supervisor::notify_ready(std::string_view status) const {
  notify("READY=1\nSTATUS=" + escaped(status), true);
}

void Supervisor::notify_reloading() const {
  const auto now = std::chrono::duration_cast<microseconds>(
      std::chrono::steady_clock::now().time_since_epoch());  // that of CLOCK_MONOTONIC
  notify("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(now.count()) +
             "\nSTATUS=reads its configuration again",
         false);
}

void Supervisor::notify_stopping(microseconds longest) const {
  notify("STOPPING=1\nEXTEND_TIMEOUT_USEC=" + std::to_string(longest.count()) +
             "\nSTATUS=answers what it has taken, and ends",
         true);
}

void Supervisor::notify_alive() const { notify("WATCHDOG=1", false); }

void Supervisor::notify(std::string_view what, bool may_wait) const {
  if (address_.empty()) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  address_.copy(static_cast<char*>(address.sun_path), sizeof address.sun_path - 1);
  if (address_.front() == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  const ssize_t sent =
      ::sendto(socket_, what.data(), what.size(), MSG_NOSIGNAL | (may_wait ? 0 : MSG_DONTWAIT),
               reinterpret_cast<const sockaddr*>(&address), size);  // as sendto() has it
  if (sent < 0 && may_wait) {
    const std::string why = error_text(errno);
    report_notice("cannot tell the supervisor at NOTIFY_SOCKET " + shown(address_) + " \"" +
                      std::string(what.substr(0, what.find('\n'))) + "\": " + why,
                  false);
  }
}

}  // namespace idmint::server
