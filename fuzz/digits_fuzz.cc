// Digits print as they were read; a layout either refuses them or numbers them. The first three
// bytes are the layout's check, the length of its prefix, and whether leading zeros are allowed.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "idmint/digits.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::Digits;
  using idmint::fuzz::require;
  if (size < 3) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 3), size - 3);
  const idmint::DigitsLayout layout{.digits = static_cast<int>(text.size()),
                                    .prefix = std::string(text.substr(0, data[1] % 40)),
                                    .check = static_cast<idmint::Check>(data[0] % 7),
                                    .leading_zeros = data[2] % 2 == 0};
  const idmint::Result<void> valid = layout.validate();
  const idmint::Result<Digits> id = Digits::parse(text);
  if (!id) {
    require(id.error().code == idmint::Code::kInvalidArgument && !id.error().message().empty());
    return 0;
  }
  require(id->size() == text.size() && id->to_string() == text);
  if (!valid) return 0;
  if (const idmint::Result<idmint::Uint128> index = layout.index_of(*id)) {
    require(*index < layout.capacity());
    require(layout.at(*index) == *id);
  } else {
    require(!index.error().message().empty());
  }
  return 0;
}
