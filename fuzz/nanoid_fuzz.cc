// Every text that is read as a NanoID prints as the same text.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/require.h"
#include "idmint/nanoid.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::Nanoid;
  using idmint::fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const idmint::Result<Nanoid> id = Nanoid::parse(text);
  if (!id) {
    require(id.error().code == idmint::Code::kInvalidArgument && !id.error().message().empty());
    return 0;
  }
  require(text.size() == Nanoid::kChars);
  require(id->to_string() == text);
  require(Nanoid::from_bytes(id->bytes()) == *id);
  return 0;
}
