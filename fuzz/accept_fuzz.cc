// ids_as(): whatever the case of the letters it is the same, and an element that weighs less than
// any other changes nothing.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "server/http_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::fuzz::require;
  using idmint::server::ids_as;
  const std::string accept(reinterpret_cast<const char*>(data), size);
  const auto as = ids_as(accept);
  std::string other_case = accept;
  for (char& c : other_case) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) c = static_cast<char>(c ^ ' ');
  }
  require(ids_as(other_case) == as);
  // In quotes it would be no element.
  if (as && accept.find_first_not_of(", \t") != std::string::npos && !accept.contains('"'))
    require(ids_as(accept + ", */*;q=0.001") == as);
  return 0;
}
