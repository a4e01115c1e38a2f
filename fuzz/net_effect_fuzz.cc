// Two documents are updates of one document with a net effect, which is an update no larger than
// both, or they are not merged.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "fuzz/require.h"
#include "restore/replay/net_effect.h"

namespace {

using namespace idmint;
using fuzz::require;

// With a length and a last byte as those of a document, which a reader of files has made sure.
std::vector<std::uint8_t> document_of(std::span<const std::uint8_t> bytes) {
  std::vector<std::uint8_t> document(bytes.begin(), bytes.end());
  const auto length = static_cast<std::uint32_t>(document.size());
  std::memcpy(document.data(), &length, sizeof length);
  document.back() = 0;
  return document;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t least = 5;
  if (size < 1 + 2 * least) return 0;
  const std::span<const std::uint8_t> both(data + 1, size - 1);
  const std::size_t cut = std::clamp<std::size_t>(data[0], least, both.size() - least);
  const std::vector<std::uint8_t> first = document_of(both.first(cut));
  const std::vector<std::uint8_t> second = document_of(both.subspan(cut));
  const std::optional<std::vector<std::uint8_t>> net =
      restore::net_effect(restore::Document::of(first), restore::Document::of(second));
  if (!net) return 0;
  require(net->size() < first.size() + second.size());
  require(static_cast<bool>(restore::Document::of(*net)));
  return 0;
}
