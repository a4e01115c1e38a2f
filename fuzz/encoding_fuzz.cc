// Every text that is read in an encoding prints as the same text. The first byte is the encoding,
// the second the size in bytes.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "fuzz/require.h"
#include "idmint/encoding.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::Encoding;
  using idmint::fuzz::require;
  if (size < 2) return 0;
  const auto encoding = static_cast<Encoding>(1 + data[0] % 8);
  std::array<std::uint8_t, idmint::kMaxIdBytes> buffer;
  const auto bytes = std::span(buffer).first(1 + data[1] % idmint::kMaxIdBytes);
  const std::string_view text(reinterpret_cast<const char*>(data + 2), size - 2);
  (void)idmint::encoding_named(text);
  const idmint::Result<void> decoded = idmint::decode(encoding, text, bytes);
  if (!decoded) {
    require(decoded.error().code == idmint::Code::kInvalidArgument);
    require(!decoded.error().message().empty());
    return 0;
  }
  char printed[idmint::kMaxEncodedChars];
  require(std::string_view(printed, idmint::encode(encoding, bytes, printed)) == text);
  return 0;
}
