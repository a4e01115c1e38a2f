// Every text that is read as a TypeID prints as the same text, and its prefix is one.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/require.h"
#include "idmint/uuid.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::TypeId;
  using idmint::fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const idmint::Result<TypeId> id = TypeId::parse(text);
  if (!id) {
    require(id.error().code == idmint::Code::kInvalidArgument && !id.error().message().empty());
    return 0;
  }
  require(id->to_string() == text);
  require(idmint::validate_type_prefix(id->prefix()).has_value());
  require(*TypeId::make(id->prefix(), id->uuid()) == *id);
  return 0;
}
