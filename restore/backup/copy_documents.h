// Copies the documents of a member into a backup, while others write.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "restore/backup/ranges.h"
#include "restore/backup/writer.h"
#include "restore/error_in.h"
#include "restore/oplog/entry.h"
#include "restore/oplog/member.h"

namespace idmint::restore {

// A collection to copy, and the ranges in which it is read; a view has none.
struct ToCopy {
  const CollectionFacts* collection;
  std::vector<IdRange> ranges{};
};

// Gets the documents of a block that was written, and their bytes. An error ends the copying.
using TakeCopied = std::function<Result<void>(std::int64_t documents, std::int64_t bytes)>;

// Reads all ranges of all collections with up to `readers` connections to the member, and writes
// them in the thread of the caller; `all` is in the order of the writer's collections. The blocks
// of one range come in its order. Calls begin() and end() of the writer for each collection. Holds
// a few blocks of about 4 MB, at most 16, for each reader.
//
// A collection is read by UUID, as its name may change meanwhile. If it is renamed, the range that
// is being read is read again from its beginning: the restore ignores duplicates, and the slice of
// the oplog has later changes. If it is dropped, the slice has the drop.
//
// Returns the newest entries of the oplog after each range, in their order. Errors, besides those
// of the writer and of Member:
// - kOutOfRange: the member's oplog no longer has the entry `start`.
// - kUnavailable: a collection is renamed again and again.
[[nodiscard]] Result<std::vector<OpTime>> copy_documents(Member& member, Timestamp start,
                                                         std::span<const ToCopy> all,
                                                         unsigned readers, BackupWriter& writer,
                                                         const TakeCopied& take);

}  // namespace idmint::restore
