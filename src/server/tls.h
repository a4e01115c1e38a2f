// TLS of a server, by OpenSSL: its certificate, and the encrypted stream of one connection.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "idmint/result.h"

struct ssl_ctx_st;
struct ssl_st;

namespace idmint::server {

struct TlsSettings {
  std::string certificate{};  // a PEM file: the chain, the server's own first; empty: no TLS
  std::string key{};          // a PEM file
  // A PEM file: clients must have a certificate signed by one of these. Empty: they need none.
  std::string client_ca{};

  friend bool operator==(const TlsSettings&, const TlsSettings&) = default;
};

// Threads may share it. The minimum version is 1.2.
class TlsContext final {
 public:
  // kInvalidArgument, naming the file: it is unreadable or not PEM, or the key does not match.
  [[nodiscard]] static Result<std::shared_ptr<const TlsContext>> open(const TlsSettings& settings);

 private:
  friend class TlsStream;
  struct Free {
    void operator()(ssl_ctx_st* context) const noexcept;
  };
  std::unique_ptr<ssl_ctx_st, Free> context_;
};

// The TLS stream over a non-blocking socket. One thread at a time.
class TlsStream final {
 public:
  enum class State : std::uint8_t {
    kDone,         // some bytes were transferred
    kWantsInput,   // try again when the socket is readable
    kWantsOutput,  // try again when it is writable
    kEnd,          // the peer sends nothing more
    kBroken,       // no TLS, an unacceptable certificate, or a socket error
  };
  struct Outcome {
    State state;
    std::size_t bytes = 0;
  };

  // The first read() or write() begins the handshake. Null: out of memory.
  [[nodiscard]] static std::unique_ptr<TlsStream> open(const TlsContext& context, int socket);

  [[nodiscard]] Outcome read(std::span<char> into);
  // After kWantsInput or kWantsOutput, call it with the same bytes, possibly with more behind them.
  [[nodiscard]] Outcome write(std::string_view text);
  // Whether read() has bytes without reading the socket.
  [[nodiscard]] bool has_pending() const noexcept;
  [[nodiscard]] bool is_established() const noexcept;
  // Tells the peer that nothing more comes.
  void end() noexcept;

 private:
  struct Free {
    void operator()(ssl_st* stream) const noexcept;
  };
  [[nodiscard]] State state_after(int result) noexcept;

  std::unique_ptr<ssl_st, Free> stream_;
  bool broken_ = false;
};

}  // namespace idmint::server
