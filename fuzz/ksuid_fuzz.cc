// Every text that is read as a KSUID prints as the same text.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/require.h"
#include "idmint/ksuid.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::Ksuid;
  using idmint::fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const idmint::Result<Ksuid> id = Ksuid::parse(text);
  if (!id) {
    require(id.error().code == idmint::Code::kInvalidArgument && !id.error().message().empty());
    return 0;
  }
  require(text.size() == Ksuid::kChars);
  require(id->to_string() == text);
  return 0;
}
