#include "engines/redis/stream.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "store/socket.h"

namespace idmint::stores::redis {
namespace {

using std::chrono::steady_clock;

std::string said(int error) { return std::strerror(error); }

struct FreeAddresses {
  void operator()(addrinfo* all) const { ::freeaddrinfo(all); }
};

// A connected socket, or why there is none.
std::expected<int, std::string> connect_to(const addrinfo& to, SteadyTime until) {
  const int socket = ::socket(to.ai_family, to.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return std::unexpected(said(errno));
  int error = ::connect(socket, to.ai_addr, to.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    socklen_t size = sizeof error;
    if (wait_for_socket(socket, POLLOUT, until) == 0)
      error = ETIMEDOUT;
    else if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
      error = errno;
  }
  if (error == 0) {
    // A command is one write, which waits for nothing. Neither is needed.
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    return socket;
  }
  ::close(socket);
  return std::unexpected(error == ETIMEDOUT ? "the server does not answer" : said(error));
}

}  // namespace

std::expected<std::unique_ptr<Stream>, Failure> Stream::open(const Host& host,
                                                             const Address& address,
                                                             SteadyTime until) {
  const addrinfo wanted{.ai_flags = AI_ADDRCONFIG,
                        .ai_family = AF_UNSPEC,
                        .ai_socktype = SOCK_STREAM,
                        .ai_protocol = 0,
                        .ai_addrlen = 0,
                        .ai_addr = nullptr,
                        .ai_canonname = nullptr,
                        .ai_next = nullptr};
  addrinfo* raw = nullptr;
  const int unknown = ::getaddrinfo(host.name.c_str(), host.port.c_str(), &wanted, &raw);
  const std::unique_ptr<addrinfo, FreeAddresses> found(raw);
  if (unknown != 0)
    return std::unexpected(
        Failure{.error = {Code::kUnavailable, host.name + ": " + ::gai_strerror(unknown)},
                .passing = true});
  std::vector<const addrinfo*> all;
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next)
    all.push_back(each);
  std::string why = "it has no address";
  // Each has an equal part of the time that the ones before it left.
  for (std::size_t i = 0; i < all.size(); ++i) {
    const SteadyTime now = steady_clock::now();
    const auto left = static_cast<SteadyTime::rep>(all.size() - i);
    const auto socket = connect_to(*all[i], now + (until - now) / left);
    if (!socket) {
      why = socket.error();
      continue;
    }
    std::unique_ptr<Stream> stream(new Stream(*socket));
    if (!address.tls) return stream;
    auto tls = TlsStream::open(*socket, host.name, address.files);
    if (!tls) return std::unexpected(Failure{.error = std::move(tls.error())});
    stream->tls_ = *std::move(tls);
    return stream;
  }
  return std::unexpected(Failure{
      .error = {Code::kUnavailable, host.name + ":" + host.port + ": " + why}, .passing = true});
}

Stream::~Stream() {
  tls_.reset();
  ::close(socket_);
}

// Calls step() until it is done. Either direction of TLS may wait for the other.
template <class Step>
Stream::Outcome Stream::repeat(SteadyTime until, const Step& step) {
  for (;;) {
    const TlsStream::State state = step();
    switch (state) {
      case TlsStream::State::kDone:
        return Outcome::kDone;
      case TlsStream::State::kWantsInput:
      case TlsStream::State::kWantsOutput:
        break;
      case TlsStream::State::kEnd:
        problem_ = "the server closed the connection";
        return Outcome::kBroken;
      case TlsStream::State::kBroken:
        return Outcome::kBroken;
    }
    const short events = state == TlsStream::State::kWantsInput ? POLLIN : POLLOUT;
    if (wait_for_socket(socket_, events, until) == 0) return Outcome::kLate;
  }
}

Stream::Outcome Stream::send(std::string_view bytes, SteadyTime until, std::size_t* all_sent) {
  *all_sent = 0;
  while (!bytes.empty()) {
    std::size_t sent = 0;
    const Outcome outcome = repeat(until, [&] {
      if (tls_ != nullptr) {
        const TlsStream::Outcome written = tls_->write(bytes);
        sent = written.bytes;
        problem_ = tls_->problem();
        return written.state;
      }
      const ssize_t written = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (written >= 0) {
        sent = static_cast<std::size_t>(written);
        return TlsStream::State::kDone;
      }
      if (errno == EAGAIN || errno == EINTR) return TlsStream::State::kWantsOutput;
      problem_ = said(errno);
      return TlsStream::State::kBroken;
    });
    if (outcome != Outcome::kDone) return outcome;
    bytes.remove_prefix(sent);
    *all_sent += sent;
  }
  return Outcome::kDone;
}

Stream::Outcome Stream::receive(std::string* bytes, SteadyTime until) {
  std::array<char, 16'384> block{};
  std::size_t got = 0;
  const Outcome outcome = repeat(until, [&] {
    if (tls_ != nullptr) {
      const TlsStream::Outcome read = tls_->read(block);
      got = read.bytes;
      problem_ = tls_->problem();
      return read.state;
    }
    const ssize_t read = ::recv(socket_, block.data(), block.size(), 0);
    if (read > 0) {
      got = static_cast<std::size_t>(read);
      return TlsStream::State::kDone;
    }
    if (read == 0) return TlsStream::State::kEnd;
    if (errno == EAGAIN || errno == EINTR) return TlsStream::State::kWantsInput;
    problem_ = said(errno);
    return TlsStream::State::kBroken;
  });
  if (outcome == Outcome::kDone) bytes->append(block.data(), got);
  return outcome;
}

// TLS has messages of its own behind the handshake, which are read on the way.
bool Stream::is_quiet() {
  if (wait_for_socket(socket_, POLLIN, steady_clock::now()) == 0) return true;
  char byte = 0;
  return tls_ != nullptr && tls_->read(std::span(&byte, 1)).state == TlsStream::State::kWantsInput;
}

}  // namespace idmint::stores::redis
