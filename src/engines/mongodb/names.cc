#include "engines/mongodb/names.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/digest.h"
#include "base/text.h"

namespace idmint::stores::mongodb {

std::string collection_of(std::string_view prefix, std::string_view name) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
  if (!name.empty() && name.size() <= 120 &&
      name.find_first_not_of(kPlain) == std::string_view::npos && !name.ends_with('.') &&
      !name.starts_with('.') && !name.contains("..") && !name.contains("system."))
    return std::string(prefix) + "." + std::string(name);
  const auto hash = digest_of(Digest::kSha256, {std::as_bytes(std::span(name))});
  if (!hash) return "";  // every OpenSSL offers SHA-256; otherwise the server rejects the name
  return std::string(prefix) + "-of-" +
         hex({reinterpret_cast<const char*>(hash->data()), hash->size()});
}

}  // namespace idmint::stores::mongodb
