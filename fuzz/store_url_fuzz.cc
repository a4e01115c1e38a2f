// open_store() answers any URL with a store or an error that says something. Texts that name a file
// are left out: a fuzzer must not write files all over.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "fuzz/require.h"
#include "idmint/store.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::fuzz::require;
  const std::string_view url(reinterpret_cast<const char*>(data), size);
  const auto colon = url.find(':');
  if (url.substr(0, colon) == "sqlite" && colon != std::string_view::npos) return 0;
  const idmint::Result<std::unique_ptr<idmint::Store>> store =
      idmint::open_store(url, {.create = false});
  if (store) {
    require(url.starts_with("memory:") && (*store)->counters() != nullptr);
  } else {
    require(!store.error().message.empty());
  }
  return 0;
}
