// Store::open() answers any URL with a store or an error that says something. A fuzzer must not
// write files all over, nor call anybody: texts that name a file are left out, those that name a
// host are given an option that is refused, and the deadline is over when they are opened.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "fuzz/require.h"
#include "idmint/store.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::fuzz::require;
  std::string url(reinterpret_cast<const char*>(data), size);
  if (url.starts_with("sqlite:")) return 0;
  // In a password a question mark is none that options follow.
  if (url.contains('@')) return 0;
  // No store knows that option, so none asks a server.
  if (!url.starts_with("memory:")) url += url.contains('?') ? "&w=1" : "?w=1";
  const idmint::Result<std::unique_ptr<idmint::Store>> store =
      idmint::Store::open(url, {.until = idmint::SteadyTime::min(), .create = false});
  if (store) {
    require(url.starts_with("memory:") && (*store)->counters() != nullptr);
  } else {
    require(!store.error().message().empty());
  }
  return 0;
}
