#include "restore/watch.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/figures.h"
#include "mongo/bson.h"
#include "mongo/errors.h"

namespace idmint::restore {
namespace {

using namespace std::chrono_literals;

constexpr auto kWatchTick = 200ms;
constexpr auto kBetweenPings = 5s;
// The time between `stopped` and the abort of calls. Most end by themselves before.
constexpr auto kGrace = 3s;
// A single missed ping may be due to a stale connection.
constexpr int kFewestMissed = 3;

struct AddressesDeleter {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

bool is_same(const sockaddr_storage& peer, const sockaddr& wanted) {
  if (peer.ss_family != wanted.sa_family) return false;
  if (peer.ss_family == AF_INET) {
    const auto& a = reinterpret_cast<const sockaddr_in&>(peer);
    const auto& b = reinterpret_cast<const sockaddr_in&>(wanted);
    return a.sin_port == b.sin_port && a.sin_addr.s_addr == b.sin_addr.s_addr;
  }
  if (peer.ss_family != AF_INET6) return false;
  const auto& a = reinterpret_cast<const sockaddr_in6&>(peer);
  const auto& b = reinterpret_cast<const sockaddr_in6&>(wanted);
  return a.sin6_port == b.sin6_port &&
         std::memcmp(&a.sin6_addr, &b.sin6_addr, sizeof a.sin6_addr) == 0;
}

std::optional<int> number_in(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Shuts down this process's connections to "HOST:PORT"; returns their number.
int shut_connections(const std::string& host_and_port) {
  const std::size_t colon = host_and_port.rfind(':');
  if (colon == std::string::npos) return 0;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  std::string host = host_and_port.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (::getaddrinfo(host.c_str(), host_and_port.substr(colon + 1).c_str(), &hints, &list) != 0)
    return 0;
  const std::unique_ptr<addrinfo, AddressesDeleter> addresses(list);
  int shut = 0;
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const std::optional<int> fd = number_in(file.path().filename().string());
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (!fd || ::getpeername(*fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
      if (!is_same(peer, *at->ai_addr)) continue;
      if (::shutdown(*fd, SHUT_RDWR) == 0) ++shut;
      break;
    }
  }
  return shut;
}

}  // namespace

ServerWatch::ServerWatch(MongocClient client, const std::vector<std::string>& hosts,
                         WatchOptions options)
    : client_(std::move(client)), options_(std::move(options)) {
  for (const std::string& host : hosts) heard_[host] = {.last = std::chrono::steady_clock::now()};
  thread_ = std::thread([this] { work(); });
}

ServerWatch::~ServerWatch() {
  {
    const std::lock_guard hold(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::string ServerWatch::reason() const {
  const std::lock_guard hold(mutex_);
  return reason_;
}

void ServerWatch::work() {
  const auto between = std::min<std::chrono::milliseconds>(kBetweenPings, options_.silence / 4);
  Time next_ping = std::chrono::steady_clock::now() + between;
  std::optional<Time> wanted_end;
  std::unique_lock hold(mutex_);
  while (!changed_.wait_for(hold, std::min<std::chrono::milliseconds>(kWatchTick, between),
                            [this] { return over_; })) {
    hold.unlock();
    Time now = std::chrono::steady_clock::now();
    if (options_.stopped && options_.stopped()) {
      if (!wanted_end) wanted_end = now;
      if (now - *wanted_end >= kGrace) shut_all();
    } else if (now >= next_ping) {
      ask_all();
      give_up_on_silent();
      next_ping = std::chrono::steady_clock::now() + between;
    }
    hold.lock();
  }
}

void ServerWatch::ask_all() {
  const Preference any(mongoc_read_prefs_new(MONGOC_READ_NEAREST));
  bson_error_t error{};
  // Selecting a server also looks for new members.
  if (mongoc_server_description_t* const some =
          mongoc_client_select_server(client_.get(), false, any.get(), &error);
      some != nullptr)
    mongoc_server_description_destroy(some);
  for (auto& [host, heard] : heard_) ++heard.missed;
  // Members that do not answer are not among these.
  std::size_t count = 0;
  mongoc_server_description_t** const all =
      mongoc_client_get_server_descriptions(client_.get(), &count);
  const Bson ping = Bson("ping", 1);
  for (std::size_t i = 0; i < count; ++i) {
    const Bson options =
        Bson("serverId", static_cast<std::int32_t>(mongoc_server_description_id(all[i])));
    bson_t reply;
    const bool answered = mongoc_client_command_with_opts(client_.get(), "admin", ping.get(),
                                                          any.get(), options.get(), &reply, &error);
    bson_destroy(&reply);
    Pings& heard = heard_[mongoc_server_description_host(all[i])->host_and_port];
    if (answered || code_of_repeatable(error) != Code::kUnavailable || heard.last == Time{})
      heard = {.last = std::chrono::steady_clock::now()};
  }
  mongoc_server_descriptions_destroy_all(all, count);
}

void ServerWatch::give_up_on_silent() {
  const Time now = std::chrono::steady_clock::now();
  for (const auto& [host, heard] : heard_) {
    if (heard.missed < kFewestMissed || now - heard.last < options_.silence) continue;
    // Held from before the first call fails, so that a caller that asks why finds the reason.
    const std::lock_guard hold(mutex_);
    if (shut_connections(host) == 0) continue;  // nobody waits for it
    reason_ = host + " has answered nothing for " + print_duration(now - heard.last) +
              ": look at its log and at what its host does";
  }
}

void ServerWatch::shut_all() {
  for (const auto& [host, heard] : heard_) shut_connections(host);
}

}  // namespace idmint::restore
