// Loads the documents of a base backup into a server that has none of them.
#pragma once

#include <cstdint>
#include <optional>

#include "restore/backup/base.h"
#include "restore/error_in.h"
#include "restore/namespaces.h"
#include "restore/replay/record.h"
#include "restore/server.h"

namespace idmint::restore {

struct LoadOptions {
  NamespaceFilter filter{};
  unsigned writers = 4;  // each with a connection
  // The backup has a slice of the oplog. A document that was deleted and inserted again during the
  // backup may be in it twice. Then the first is kept, and the slice corrects it.
  bool sliced = false;
  // Bytes of a collection's documents after which the record notes how far it is loaded, so that a
  // continued run goes on there. The base must give the documents in the same order each time.
  // nullopt: a collection that was begun is loaded anew.
  std::optional<std::uint64_t> note_every{};
};

// A note is one durable write, and what comes after it is tried again after a kill: at 32 MB one in
// a second or less.
inline constexpr std::uint64_t kNoteLoadEvery = std::uint64_t{32} << 20;

struct LoadCounts {
  std::uint64_t collections = 0;
  std::uint64_t views = 0;
  std::uint64_t documents = 0;  // loaded by this run
  std::uint64_t twice = 0;
};

// Creates the collection or view, with what older servers allowed and what only a set may have.
[[nodiscard]] Result<void> create_collection(Server& server, const CollectionFacts& facts);
// Drops it, if there is one.
[[nodiscard]] Result<void> drop_collection(Server& server, const CollectionFacts& facts);

// Creates each collection with its options and _id_ but no other index, loads its documents with
// several concurrent writers (those of a capped collection in order), and finally creates the
// views. Skips collections that the record lists as finished. Goes on with one that was begun where
// the record notes how far it came, and drops and reloads others; a capped one has no note.
// `progress` gets bytes of documents. kUnavailable: the server is gone, or has lost documents; the
// same call continues. Other errors name the collection and the document.
[[nodiscard]] Result<LoadCounts> load_base(const BaseBackup& base, Server& server, Record& record,
                                           const LoadOptions& options,
                                           const TakeProgress& progress);

}  // namespace idmint::restore
