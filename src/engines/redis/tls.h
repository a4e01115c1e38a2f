// TLS of a client over a socket, by OpenSSL's libssl, which is loaded when a URL asks for it and
// not linked: a command that does without it starts as fast as before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engines/redis/address.h"
#include "idmint/result.h"

struct ssl_ctx_st;
struct ssl_st;

namespace idmint::stores::redis {

// One stream over a socket that does not block, which must outlive it. Used by one thread at a
// time.
class TlsStream {
 public:
  // Nothing is sent yet; the first read or write begins the handshake. It ends only if the server
  // shows a certificate for `host` that is signed by one that this host trusts, or by `files.ca`.
  // kUnimplemented: this host has no libssl. kInvalidArgument: one of the files cannot be used.
  [[nodiscard]] static Result<std::unique_ptr<TlsStream>> open(int socket, const std::string& host,
                                                               const TlsFiles& files);

  enum class State : std::uint8_t {
    kDone,         // some bytes went through
    kWantsInput,   // again when the socket can be read
    kWantsOutput,  // again when it can be written
    kEnd,          // the server has closed it
    kBroken,       // problem() says why
  };
  struct Outcome {
    State state;
    std::size_t bytes = 0;
  };
  [[nodiscard]] Outcome read(std::span<char> into);
  [[nodiscard]] Outcome write(std::string_view text);

  // After kBroken: the certificate of the server was not accepted.
  [[nodiscard]] bool is_distrusted() const noexcept { return distrusted_; }
  // After kBroken: one line.
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

 private:
  struct FreeContext {
    void operator()(ssl_ctx_st* context) const noexcept;
  };
  struct FreeStream {
    void operator()(ssl_st* stream) const noexcept;
  };

  explicit TlsStream(int socket) : socket_(socket) {}
  [[nodiscard]] State state_after(int result);

  int socket_;
  std::unique_ptr<ssl_ctx_st, FreeContext> context_;
  std::unique_ptr<ssl_st, FreeStream> stream_;
  bool distrusted_ = false;
  std::string problem_{};
};

}  // namespace idmint::stores::redis
