// TLS of a server: its certificate, and the encrypted stream of one connection. OpenSSL does it.
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
  std::string certificate{};  // a file of PEM: the chain, the server's own first; empty: no TLS
  std::string key{};          // a file of PEM
  // A file of PEM: clients must have a certificate that one of these has signed. Empty: they need
  // none.
  std::string client_ca{};

  friend bool operator==(const TlsSettings&, const TlsSettings&) = default;
};

// May be shared by threads. Version 1.2 is the floor.
class TlsContext final {
 public:
  // kInvalidArgument, naming the file: it cannot be read, is no PEM, or the key is another one's.
  [[nodiscard]] static Result<std::shared_ptr<const TlsContext>> open(const TlsSettings& settings);

 private:
  friend class TlsStream;
  struct Free {
    void operator()(ssl_ctx_st* context) const noexcept;
  };
  std::unique_ptr<ssl_ctx_st, Free> context_;
};

// Of a socket that does not block. One thread at a time.
class TlsStream final {
 public:
  enum class State : std::uint8_t {
    kDone,         // some bytes
    kWantsInput,   // again when the socket can be read
    kWantsOutput,  // again when it can be written
    kEnd,          // the peer sends nothing more
    kBroken,       // no TLS, a certificate that is not accepted, or the socket failed
  };
  struct Outcome {
    State state;
    std::size_t bytes = 0;
  };

  // The handshake comes with the first read() or write(). Null if there is no memory for it.
  [[nodiscard]] static std::unique_ptr<TlsStream> open(const TlsContext& context, int socket);

  [[nodiscard]] Outcome read(std::span<char> into);
  // After kWantsInput or kWantsOutput: again with the same bytes, and possibly more behind them.
  [[nodiscard]] Outcome write(std::string_view text);
  // Whether read() has some without the socket.
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
