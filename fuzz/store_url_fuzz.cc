// Store::open() answers any URL with a store or an error that says something. Texts that name a
// file are left out, and those that name a host are given an option that is refused: a fuzzer must
// not write files all over, nor call anybody.
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
  const bool has_host =
      url.starts_with("mongodb") || url.starts_with("redis") || url.starts_with("etcd");
  // In a password a question mark is none that options follow.
  if (has_host && url.contains('@')) return 0;
  const bool is_etcd = url.starts_with("etcd");
  if (has_host) url += std::string(url.contains('?') ? "&" : "?") + (is_etcd ? "tls=1" : "w=1");
  const idmint::Result<std::unique_ptr<idmint::Store>> store =
      idmint::Store::open(url, {.create = false});
  if (store) {
    require(url.starts_with("memory:") && (*store)->counters() != nullptr);
  } else {
    require(!store.error().message.empty());
  }
  return 0;
}
