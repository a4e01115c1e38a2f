// Every text that is read as a TSID prints as one canonical text, which reads as the same TSID.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "idmint/tsid.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::Tsid;
  using idmint::fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const idmint::Result<Tsid> id = Tsid::parse(text);
  if (!id) {
    require(id.error().code == idmint::Code::kInvalidArgument && !id.error().message().empty());
    return 0;
  }
  const std::string printed = id->to_string();
  require(printed.size() == Tsid::kChars);
  require(Tsid::parse(printed) == *id);
  // Reading is not case-sensitive.
  std::string lower = printed;
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  require(Tsid::parse(lower) == *id);
  return 0;
}
