// The documents of a file are its bytes, one after the other, up to where it is damaged; and an
// oplog is read from it or refused.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "fuzz/input_path.h"
#include "restore/document_reader.h"
#include "restore/oplog/fields.h"
#include "restore/oplog/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace idmint;
  using fuzz::require;
  const std::string path = fuzz::input_path(data, size);
  const bool compressed = size >= 2 && data[0] == 0x1f && data[1] == 0x8b;
  Result<restore::DocumentReader> reader = restore::DocumentReader::open(path);
  require(reader.has_value());
  std::size_t at = 0;
  while (true) {
    const Result<std::optional<restore::Document>> document = reader->next();
    if (!document) {
      // A file of another kind is named as that.
      require(document.error().code == Code::kDataLoss ||
              (at == 0 && document.error().code == Code::kInvalidArgument));
      require(document.error().message().starts_with(path));
      break;
    }
    if (!*document) {
      require(compressed || at == size);
      break;
    }
    const std::span<const std::uint8_t> bytes = (*document)->bytes();
    require(reader->offset() == at && reader->position() == at + bytes.size());
    require(compressed ||
            (at + bytes.size() <= size && std::equal(bytes.begin(), bytes.end(), data + at)));
    at += bytes.size();
    static_cast<void>(restore::validate(**document));
  }
  Result<restore::OplogReader> oplog = restore::OplogReader::open(path);
  require(oplog.has_value());
  for (bool first = true;; first = false) {
    const Result<std::optional<restore::Entry>> entry = oplog->next();
    if (!entry) {
      require(entry.error().code == Code::kDataLoss ||
              (first && entry.error().code == Code::kInvalidArgument));
      require(!entry.error().message().empty());
      return 0;
    }
    if (!*entry) return 0;
  }
}
