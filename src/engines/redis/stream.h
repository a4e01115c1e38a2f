// A connection of TCP, or TLS over it, on which every step ends by a deadline.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>

#include "engines/redis/address.h"
#include "engines/redis/tls.h"
#include "idmint/clock.h"
#include "idmint/result.h"
#include "store/sessions.h"

namespace idmint::stores::redis {

// Used by one thread at a time.
class Stream {
 public:
  // Looking a host name up takes as long as the resolver takes; all else ends by `until`. The
  // handshake of TLS belongs to the first send().
  static std::expected<std::unique_ptr<Stream>, Failure> open(const Host& host,
                                                              const Address& address,
                                                              SteadyTime until);
  // Closes it, and sends nothing: so it may run in a child of fork(), whose connection it is not.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  enum class Outcome : std::uint8_t {
    kDone,
    kLate,    // the deadline has passed
    kBroken,  // problem() says why
  };
  // Unless it is kDone, the server has not got the last byte, and never will. `sent`: how many
  // bytes it may have got.
  [[nodiscard]] Outcome send(std::string_view bytes, SteadyTime until, std::size_t* sent);
  // Appends some bytes, at least one.
  [[nodiscard]] Outcome receive(std::string* bytes, SteadyTime until);
  // Nothing came without being asked for, such as its end.
  [[nodiscard]] bool is_quiet();

  // After kBroken: the server did not show that it is the one that the URL names.
  [[nodiscard]] bool is_distrusted() const noexcept {
    return tls_ != nullptr && tls_->is_distrusted();
  }
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

 private:
  explicit Stream(int socket) : socket_(socket) {}
  template <class Step>
  Outcome repeat(SteadyTime until, const Step& step);

  int socket_;
  std::unique_ptr<TlsStream> tls_{};  // null: no TLS
  std::string problem_{};
};

}  // namespace idmint::stores::redis
