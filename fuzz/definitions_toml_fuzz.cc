// The definitions that definitions_from_toml() reads are valid, and the same when they are written
// and read again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/require.h"
#include "src/mint/definitions_toml.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto definitions = idmint::definitions_from_toml(text);
  if (!definitions) {
    require(definitions.error().code == idmint::Code::kInvalidArgument);
    require(definitions.error().message().find('\n') == std::string::npos);
    return 0;
  }
  for (const idmint::Definition& definition : *definitions) {
    require(idmint::validate(definition).has_value());
  }
  require(idmint::definitions_from_toml(idmint::to_toml(*definitions)) == *definitions);
  return 0;
}
