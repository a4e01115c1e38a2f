// A base backup of a running replica set.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "restore/backup/writer.h"
#include "restore/error_in.h"
#include "restore/server.h"
#include "restore/timestamp.h"

namespace idmint::restore {

struct DumpFacts {
  std::string member;  // the member that was read
  std::string version;
  std::int64_t databases = 0;
  std::int64_t collections = 0;  // with views and time-series collections
  std::int64_t documents = 0;
  std::int64_t bytes = 0;  // of the documents
  // The slice of the oplog. The backup shows the moment `last`.
  std::int64_t entries = 0;
  Timestamp first{};
  Timestamp last{};
  std::vector<std::string> notes{};  // what a person should know, each a sentence
};

// Gets the number of documents read, and of documents in all. An error ends the dump.
using TakeDumpProgress = std::function<Result<void>(std::int64_t done, std::int64_t total)>;

struct DumpPace {
  unsigned readers = 4;  // connections that read side by side, at least 1
  // The bytes of a range, where a collection is read in ranges; see split().
  std::int64_t range = std::int64_t{256} << 20;
};

// Dumps all databases but config and local, from the member that the URI prefers. Documents are
// read while others write. The slice of the oplog begins before the first read and ends after the
// last, so its replay brings all documents to one moment. Nothing in the backup is rolled back
// later: dump() reads the end of the slice, and the point at which each collection's read ended,
// again with read concern majority. copy_documents() says how documents are read.
//
// Nothing is left on disk after an error. Errors, besides those of BackupWriter:
// - kInvalidArgument: a pattern of target.excluded is empty.
// - kOutOfRange: the oplog rolled over meanwhile.
// - kUnavailable: the connection or the member was lost, writes were rolled back, or an operation
//   happened that a backup cannot span (SliceCheck).
// - kFailedPrecondition: the server is a standalone or a sharded cluster.
// - kPermissionDenied: the user lacks the role backup.
[[nodiscard]] Result<DumpFacts> dump(Server server, const BackupTarget& target,
                                     const TakeDumpProgress& progress, const DumpPace& pace = {});

}  // namespace idmint::restore
