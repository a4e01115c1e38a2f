// A Snowflake layout that is read is valid, and its text is read as the same one.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "idmint/snowflake.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto layout = idmint::parse_snowflake_layout(text);
  if (!layout) {
    require(!layout.error().message().empty());
    return 0;
  }
  require(layout->validate().has_value());
  const std::string canonical = to_string(*layout);
  require(idmint::parse_snowflake_layout(canonical) == *layout);
  require(to_string(*idmint::parse_snowflake_layout(canonical)) == canonical);
  return 0;
}
