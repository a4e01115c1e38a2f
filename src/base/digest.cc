#include "base/digest.h"

#include <openssl/evp.h>

#include <memory>

#include "base/text.h"

namespace idmint {
namespace {

struct DigestRow {
  const EVP_MD* (*algorithm)();
  const char* refusal;
};
constexpr std::array kRows = {
    DigestRow{
        EVP_md5,
        "this host's OpenSSL does not offer MD5, which version 3 is made of: use version 5, or "
        "allow MD5 in its configuration"},
    DigestRow{
        EVP_sha1,
        "this host's OpenSSL does not offer SHA-1, which version 5 is made of: allow it in its "
        "configuration"},
    DigestRow{EVP_sha256, "this host's OpenSSL does not offer SHA-256: look at its configuration"}};

}  // namespace

Result<DigestBytes> digest_of(Digest digest,
                              std::initializer_list<std::span<const std::byte>> pieces) {
  const DigestRow& row = kRows[static_cast<std::size_t>(digest)];
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  DigestBytes bytes{};
  static_assert(sizeof bytes >= 32);
  bool done = context && EVP_DigestInit_ex(context.get(), row.algorithm(), nullptr) == 1;
  for (const std::span<const std::byte> piece : pieces) {
    done = done && EVP_DigestUpdate(context.get(), piece.data(), piece.size()) == 1;
  }
  if (!done || EVP_DigestFinal_ex(context.get(), bytes.data(), nullptr) != 1) {
    return std::unexpected(Error{Code::kUnimplemented, row.refusal});
  }
  return bytes;
}

struct Sha256::Context {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> is{EVP_MD_CTX_new(), EVP_MD_CTX_free};
  bool good = is && EVP_DigestInit_ex(is.get(), EVP_sha256(), nullptr) == 1;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&& other) noexcept = default;

void Sha256::add(std::span<const std::uint8_t> bytes) {
  context_->good =
      context_->good && EVP_DigestUpdate(context_->is.get(), bytes.data(), bytes.size()) == 1;
}

std::string Sha256::hex() const {
  const Context copy;
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (!context_->good || !copy.good || EVP_MD_CTX_copy_ex(copy.is.get(), context_->is.get()) != 1 ||
      EVP_DigestFinal_ex(copy.is.get(), digest.data(), &size) != 1)
    return {};
  return idmint::hex({reinterpret_cast<const char*>(digest.data()), size});
}

}  // namespace idmint
