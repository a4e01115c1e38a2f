// parse_address(): of any text an address that can be connected to, or an error that says
// something.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engines/redis/address.h"
#include "fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::fuzz::require;
  namespace redis = idmint::stores::redis;
  const std::string url = "redis:" + std::string(reinterpret_cast<const char*>(data), size);
  const idmint::Result<redis::Address> address = redis::parse_address(url);
  if (!address) {
    require(!address.error().message().empty());
    return 0;
  }
  require(!address->servers.empty() && address->database >= 0 && !address->tls);
  for (const redis::Host& host : address->servers) {
    require(!host.name.empty() && !host.port.empty());
    require(host.port.find_first_not_of("0123456789") == std::string::npos);
  }
  return 0;
}
