#include "tests/servers/relay.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>

#include "tests/servers/loopback.h"

namespace idmint::servers {
namespace {

// Tags of epoll events, beside those of the ends, which are counted from above.
constexpr std::uint64_t kListener = 1;
constexpr std::uint64_t kWake = 2;
constexpr std::uint64_t kTimer = 3;

int must(int result, const char* what) {
  if (result >= 0) return result;
  std::perror(what);
  std::abort();
}

int new_socket() {
  return must(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket");
}

void send_at_once(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void watch(int epoll, int fd, std::uint64_t id, std::uint32_t events, int how = EPOLL_CTL_ADD) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  must(epoll_ctl(epoll, how, fd, &event), "epoll_ctl");
}

bool fits(Whose whose, bool member) {
  return whose == Whose::kAll || member == (whose == Whose::kMembers);
}

}  // namespace

Relay::Relay(int target) : target_(target), latest_(kTimer) {
  listener_ = listening_socket(SOCK_NONBLOCK);
  port_ = port_of(listener_);
  epoll_ = must(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
  wake_ = must(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd");
  timer_ = must(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd_create");
  watch(epoll_, listener_, kListener, EPOLLIN);
  watch(epoll_, wake_, kWake, EPOLLIN);
  watch(epoll_, timer_, kTimer, EPOLLIN);
  thread_ = std::thread([this] { work(); });
}

Relay::~Relay() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  must(eventfd_write(wake_, 1), "eventfd_write");
  thread_.join();
  while (!ends_.empty()) close(ends_.begin()->first);
  for (const int fd : {listener_, epoll_, wake_, timer_}) ::close(fd);
}

void Relay::delay(std::chrono::microseconds each_way) {
  const std::lock_guard lock(mutex_);
  delay_ = each_way;
}

void Relay::cut(Whose whose) {
  const std::lock_guard lock(mutex_);
  std::vector<Id> found;
  for (const auto& [id, end] : ends_)
    if (end.client && fits(whose, end.member)) found.push_back(id);
  for (const Id id : found) close(id);
  counts_.cut += static_cast<int>(found.size());
}

void Relay::refuse(std::optional<Whose> whose) {
  const std::lock_guard lock(mutex_);
  refused_ = whose;
}

void Relay::drop_replies(int count, std::string text) {
  const std::lock_guard lock(mutex_);
  drop_ = {count, std::move(text)};
}

void Relay::repeat_requests(int count, std::string text) {
  const std::lock_guard lock(mutex_);
  repeat_ = {count, std::move(text)};
}

void Relay::drop_requests(int count, std::string text) {
  const std::lock_guard lock(mutex_);
  lose_ = {count, std::move(text)};
}

void Relay::hold_requests(int count, std::string text) {
  const std::lock_guard lock(mutex_);
  hold_ = {count, std::move(text)};
}

void Relay::let_go() {
  const std::lock_guard lock(mutex_);
  hold_ = {};
  std::vector<Id> found;
  for (const auto& [id, end] : ends_)
    if (!end.held.empty()) found.push_back(id);
  for (const Id id : found) {
    End& end = ends_.at(id);
    end.late = true;
    end.out += std::exchange(end.held, {});
    write(end, id);
  }
}

Relay::Counts Relay::counts() {
  const std::lock_guard lock(mutex_);
  return counts_;
}

bool Relay::Fault::strikes(std::string_view message) {
  if (count == 0 || !message.contains(text)) return false;
  --count;
  return true;
}

void Relay::work() {
  for (;;) {
    std::array<epoll_event, 256> events{};
    const int found = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
    if (found < 0 && errno == EINTR) continue;
    must(found, "epoll_wait");
    const std::lock_guard lock(mutex_);
    if (ending_) return;
    for (const epoll_event& event : std::span(events).first(static_cast<std::size_t>(found))) {
      const std::uint64_t id = event.data.u64;
      if (id == kListener) {
        accept_all();
      } else if (id == kTimer) {
        std::uint64_t times = 0;
        [[maybe_unused]] const ssize_t ignored = ::read(timer_, &times, sizeof times);
        send_due();
      } else if (const auto at = ends_.find(id); at != ends_.end()) {
        if ((event.events & EPOLLOUT) != 0) write(at->second, id);
        if ((event.events & ~std::uint32_t{EPOLLOUT}) != 0) read(id);
      }
    }
  }
}

void Relay::add(Id id, End end) {
  send_at_once(end.fd);
  watch(epoll_, end.fd, id, EPOLLIN);
  ends_.emplace(id, std::move(end));
}

void Relay::accept_all() {
  for (;;) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    const int server = new_socket();
    const sockaddr_in address = loopback(target_);
    const bool refused = refused_ == Whose::kAll;
    if (refused ||
        (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
         errno != EINPROGRESS)) {
      counts_.refused += refused ? 1 : 0;
      ::close(fd);
      ::close(server);
      continue;
    }
    const Id client_id = ++latest_;
    const Id server_id = ++latest_;
    add(client_id, {.fd = fd, .other = server_id, .client = true});
    add(server_id, {.fd = server, .other = client_id});
  }
}

void Relay::close(Id id) {
  const auto at = ends_.find(id);
  if (at == ends_.end()) return;
  const Id other = at->second.other;
  const auto others = ends_.find(other);
  const bool waits = others != ends_.end() && (!others->second.held.empty() || others->second.late);
  ::close(at->second.fd);
  ends_.erase(at);
  if (!waits) close(other);
}

void Relay::read(Id id) {
  static thread_local std::array<char, std::size_t{1} << 16> some;
  for (;;) {
    const auto at = ends_.find(id);
    if (at == ends_.end()) return;
    End& end = at->second;
    const ssize_t got = ::read(end.fd, some.data(), some.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (got <= 0) return close(id);
    end.in.append(some.data(), static_cast<std::size_t>(got));
    if (static_cast<std::size_t>(got) < some.size()) break;
  }
  std::string in;
  in.swap(ends_.at(id).in);
  std::size_t from = 0;
  for (;;) {
    std::int32_t length = 0;  // of a message, with these four bytes
    if (in.size() - from < sizeof length) break;
    std::memcpy(&length, in.data() + from, sizeof length);
    if (length < 16) return close(id);
    if (in.size() - from < static_cast<std::size_t>(length)) break;
    message(id, in.substr(from, static_cast<std::size_t>(length)));
    from += static_cast<std::size_t>(length);
  }
  const auto at = ends_.find(id);
  if (at == ends_.end()) return;
  in.erase(0, from);
  at->second.in = std::move(in);
}

void Relay::message(Id id, std::string text) {
  const auto at = ends_.find(id);
  if (at == ends_.end()) return;
  End& end = at->second;
  counts_.late += std::exchange(end.late, false) ? 1 : 0;
  const auto others = ends_.find(end.other);
  if (others == ends_.end()) return close(id);
  End& other = others->second;
  if (end.client) {
    if (std::exchange(end.first, false)) {
      end.member = text.contains("internalClient");
      if (refused_ && fits(*refused_, end.member)) {
        ++counts_.refused;
        return close(id);
      }
    }
    if (!end.member) {
      if (lose_.strikes(text)) {
        ++counts_.dropped;
        return close(id);
      }
      if (hold_.strikes(text)) {
        ++counts_.held;
        other.held += text;
        return;
      }
      ++counts_.requests;
      if (drop_.strikes(text)) {
        other.drop = true;
      } else if (repeat_.strikes(text)) {
        ++counts_.repeated;
        ++other.skip;
        text += std::string(text);
      }
    }
  } else if (end.drop) {
    ++counts_.dropped;
    return close(id);
  } else if (end.skip > 0) {
    --end.skip;
    return;
  }
  if (delay_.count() == 0 && other.later.empty()) {
    other.out += text;
    return write(other, end.other);
  }
  Time due = std::chrono::steady_clock::now() + delay_;
  if (!other.later.empty()) due = std::max(due, other.later.back().first);
  other.later.emplace_back(due, std::move(text));
  due_.emplace(due, end.other);
  if (due_.top().first == due) set_timer();
}

void Relay::set_timer() {
  // Zero would turn it off.
  const auto at = due_.empty() ? std::chrono::nanoseconds{0} : due_.top().first.time_since_epoch();
  itimerspec when{};
  when.it_value.tv_sec = at.count() / 1'000'000'000;
  when.it_value.tv_nsec = at.count() % 1'000'000'000;
  must(timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr), "timerfd_settime");
}

void Relay::send_due() {
  const Time now = std::chrono::steady_clock::now();
  while (!due_.empty() && due_.top().first <= now) {
    const Id id = due_.top().second;
    due_.pop();
    const auto at = ends_.find(id);
    if (at == ends_.end()) continue;
    End& end = at->second;
    while (!end.later.empty() && end.later.front().first <= now) {
      end.out += end.later.front().second;
      end.later.pop_front();
    }
    write(end, id);
  }
  set_timer();
}

// May close it.
void Relay::write(End& end, Id id) {
  while (end.written < end.out.size()) {
    const ssize_t put =
        ::send(end.fd, end.out.data() + end.written, end.out.size() - end.written, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno != EAGAIN) return close(id);
    if (put < 0) break;
    end.written += static_cast<std::size_t>(put);
  }
  const bool wait = end.written < end.out.size();
  if (!wait) {
    end.out.clear();
    end.written = 0;
  }
  if (wait == end.waits_to_write) return;
  end.waits_to_write = wait;
  watch(epoll_, end.fd, id, EPOLLIN | (wait ? EPOLLOUT : 0U), EPOLL_CTL_MOD);
}

}  // namespace idmint::servers
