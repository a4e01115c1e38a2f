// A time that is read is printed so that it is read as the same one. A text that is refused is
// refused with a reason.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/require.h"
#include "idmint/clock.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto time = idmint::parse_time(text)) {
    require(idmint::parse_time(idmint::format_exact_time(*time)) == *time);
  } else {
    require(time.error().code == idmint::Code::kInvalidArgument ||
            time.error().code == idmint::Code::kOutOfRange);
    require(!time.error().message().empty());
  }
  return 0;
}
