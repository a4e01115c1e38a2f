// A base backup of a running replica set.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "idmint/result.h"
#include "restore/backup/writer.h"
#include "restore/server.h"
#include "restore/timestamp.h"

namespace idmint::restore {

struct DumpFacts {
  std::string member;  // that it was read from
  std::string version;
  std::int64_t databases = 0;
  std::int64_t collections = 0;  // views and time-series collections too
  std::int64_t documents = 0;
  std::int64_t bytes = 0;  // of the documents
  // Of the slice of the oplog; `last` is the moment that the backup is of.
  std::int64_t entries = 0;
  Timestamp first{};
  Timestamp last{};
  std::vector<std::string> notes{};  // what a person should know, each a sentence
};

// Told how many documents are done, and how many there were; an error ends the dump.
using TakeDumpProgress = std::function<Result<void>(std::int64_t done, std::int64_t total)>;

// All databases but config and local, from the member that the URI prefers. The documents are read
// as they are, while others write; the slice of the oplog goes from before the first to after the
// last, so that its replay makes them those of one moment. Nothing in it is rolled back later: its
// end, and where each collection ended, are read back from what a majority has.
//
// A collection is read by its UUID, from its beginning again if it is renamed meanwhile, as $out
// does it with its temporary one. kInvalidArgument: a pattern of target.excluded is empty.
//
// kOutOfRange: the oplog rolled over meanwhile. kUnavailable: the connection or the member was
// lost, its writes were rolled back, or something was done that no backup of that time can have
// (SliceCheck). kFailedPrecondition: a standalone, a sharded cluster. kPermissionDenied: the user
// lacks the role backup. Else as BackupWriter. Nothing is there after an error.
[[nodiscard]] Result<DumpFacts> dump(Server server, const BackupTarget& target,
                                     const TakeDumpProgress& progress);

}  // namespace idmint::restore
