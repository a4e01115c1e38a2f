// Hashes of names: MD5 and SHA-1 for UUIDs of version 3 and 5, SHA-256 for the machines of xids and
// ObjectIds. Not used for secrets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include "idmint/result.h"

namespace idmint {

enum class Digest : std::uint8_t { kMd5, kSha1, kSha256 };

// 16 bytes of MD5, 20 of SHA-1 or 32 of SHA-256, followed by zeros.
using DigestBytes = std::array<std::uint8_t, 32>;

// The hash of the concatenated pieces. kUnimplemented: this host's OpenSSL does not offer it.
[[nodiscard]] Result<DigestBytes> digest_of(
    Digest digest, std::initializer_list<std::span<const std::byte>> pieces);

// SHA-256 of bytes that come piece by piece. For one thread.
class Sha256 final {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&& other) noexcept;
  Sha256& operator=(Sha256&&) = delete;

  void add(std::span<const std::uint8_t> bytes);
  // The digest of all bytes so far, as 64 hex digits. Empty: this host's OpenSSL does not offer it.
  [[nodiscard]] std::string hex() const;

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace idmint
