// The documents of a base backup, put into a server that has none of them.
#pragma once

#include <cstdint>

#include "idmint/result.h"
#include "restore/backup/base.h"
#include "restore/namespaces.h"
#include "restore/replay/record.h"
#include "restore/server.h"

namespace idmint::restore {

struct LoadOptions {
  NamespaceFilter filter{};
  unsigned writers = 4;  // each with a connection
  // The backup has a slice of the oplog. A document that was deleted and inserted again while it
  // was taken may be in it twice; the slice makes it what it was, so the first is kept.
  bool sliced = false;
};

struct LoadCounts {
  std::uint64_t collections = 0;
  std::uint64_t views = 0;
  std::uint64_t documents = 0;  // by this run
  std::uint64_t twice = 0;
};

// Makes each collection with its options and _id_, without other indexes; then its documents, by
// several writers at once, those of a capped collection in their order; then the views. What the
// record has as finished is left as it is; a collection that was begun is dropped and loaded again.
// `progress` is given bytes of documents. kUnavailable: the server is gone, or has lost documents;
// the same call goes on. Other errors name the collection and the document.
[[nodiscard]] Result<LoadCounts> load_base(const BaseBackup& base, Server& server, Record& record,
                                           const LoadOptions& options,
                                           const TakeProgress& progress);

}  // namespace idmint::restore
