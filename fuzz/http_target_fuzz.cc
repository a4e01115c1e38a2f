// target_of(): what it reads is read the same when it is written again with every byte escaped.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "server/http_text.h"

namespace {

std::string escaped(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    result += {'%', digits[byte >> 4U], digits[byte & 15U]};
  }
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto target = idmint::server::target_of(text);
  if (!target) return 0;
  require(!target->path.empty());
  std::string again = target->authority.empty() ? "" : "http://" + std::string(target->authority);
  for (const std::string& segment : target->path) again += "/" + escaped(segment);
  again += '?';
  for (const auto& [name, value] : target->query)
    again += escaped(name) + "=" + escaped(value) + "&";
  require(idmint::server::target_of(again) == target);
  return 0;
}
