// The metadata of a collection is refused, or written so that it is read as the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "restore/backup/metadata.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace idmint;
  using fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Result<restore::CollectionFacts> facts = restore::parse_metadata(text);
  if (!facts) {
    require(facts.error().code == Code::kDataLoss && !facts.error().message().empty());
    return 0;
  }
  if (facts->name.empty()) facts->name = "x";
  const Result<std::string> written = restore::print_metadata(*facts);
  if (!written) {
    require(written.error().code == Code::kUnimplemented);
    return 0;
  }
  const Result<restore::CollectionFacts> again = restore::parse_metadata(*written);
  require(again && again->name == facts->name && again->kind == facts->kind &&
          again->uuid == facts->uuid && again->indexes.size() == facts->indexes.size());
  require(restore::print_metadata(*again) == *written);
  return 0;
}
