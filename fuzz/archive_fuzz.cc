// An archive that passes its check is read to its end, and has the same documents each time.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "fuzz/input_path.h"
#include "restore/backup/base.h"
#include "restore/backup/names.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace idmint;
  using fuzz::require;
  const std::string path = fuzz::input_path(data, size);
  const auto base = restore::open_base(path);
  if (!base) {
    require(base.error().message().starts_with(path));
    return 0;
  }
  for (const restore::CollectionFacts& facts : (*base)->collections()) {
    require(!restore::wrong_database_name(facts.database));
    require(!restore::wrong_collection_name(facts.database, facts.name));
    require(bool(facts.options));
  }
  const Result<void> good = (*base)->check([](std::uint64_t) { return Result<void>{}; });
  require(good || !good.error().message().empty());
  std::size_t bytes = 0;
  const Result<void> read = (*base)->documents(
      std::nullopt, [&](const restore::CollectionFacts&, std::span<const restore::Document> some) {
        require(!some.empty());
        for (const restore::Document document : some) bytes += document.bytes().size();
        return Result<void>{};
      });
  require(!good || read);
  const bool compressed = data[0] == 0x1f && data[1] == 0x8b;
  require(compressed || bytes < size);
  const Result<void> oplog = (*base)->oplog([](const restore::Entry&) { return Result<void>{}; });
  require(!good || oplog.has_value() == (*base)->has_oplog());
  return 0;
}
