// A base backup as mongodump makes it: a folder, or an archive.
//
// Layout: <db>/<collection>.bson and <collection>.metadata.json, each also as .gz; prelude.json;
// oplog.bson at the top, the oplog of the time that the backup took. Its last entry is the moment
// that the backup is of, once the slice was replayed. Names are escaped as url.QueryEscape does,
// longer ones than 238 bytes cut and hashed; the metadata has them in full. Archives: magic
// 0x8199e26d, a header, the metadata of each namespace, then blocks of documents that interleave,
// each namespace ended by a CRC-64 of its documents. (mongo-tools 100.18, as "Formats" in
// docs/design/006-restore.md has it.)
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "idmint/result.h"
#include "restore/checksums.h"
#include "restore/collections.h"
#include "restore/observer.h"
#include "restore/oplog/entry.h"
#include "restore/server.h"

namespace idmint::restore {

// The collection that its documents are in.
[[nodiscard]] std::string data_name(const CollectionFacts& collection);

// Where documents go. `documents` are whole, of one collection, in their order, and valid during
// the call.
using TakeDocuments = std::function<Result<void>(const CollectionFacts& collection,
                                                 std::span<const Document> documents)>;

// Any number of threads may share it: each call reads for itself.
class BaseBackup {
 public:
  virtual ~BaseBackup() = default;
  BaseBackup(const BaseBackup&) = delete;
  BaseBackup& operator=(const BaseBackup&) = delete;

  // Sorted by database and name; without what is_left_out() of backup_names.h.
  [[nodiscard]] const std::vector<CollectionFacts>& collections() const { return collections_; }
  // "admin.system.users"; what is in the backup, and is not restored.
  [[nodiscard]] const std::vector<std::string>& left_out() const { return left_out_; }
  // Of prelude.json or the header; empty: not known.
  [[nodiscard]] const std::string& server_version() const { return server_version_; }
  // Whether idmint-restore made it: then collections were read by their UUIDs, and its slice of the
  // oplog may have renames.
  [[nodiscard]] bool is_ours() const { return tool_.starts_with("idmint-restore "); }
  // Its checksums, which check() compares. Nothing: it has none.
  [[nodiscard]] const std::optional<Checksums>& checksums() const { return checksums_; }

  // Reads all of it once, to find what is damaged: framing, lengths, CRCs, validate() of each
  // document, entries of the oplog. kDataLoss, with file and offset. kFailedPrecondition: of a
  // sharded cluster, which an archive shows only here. `progress` is given bytes of its files.
  [[nodiscard]] virtual Result<void> check(const TakeProgress& progress) const = 0;
  // The documents of all collections, up to 1000 or 16 MB in a call, never of two collections.
  // `only`: of this one alone; an archive refuses that with kUnimplemented, as it is read once.
  // kDataLoss: as check(), but the documents are not validated.
  [[nodiscard]] virtual Result<void> documents(std::optional<std::size_t> only,
                                               const TakeDocuments& take) const = 0;
  // Whether it has a slice of the oplog, and that slice, an entry at a time. kNotFound: it has
  // none. kDataLoss: no entry is in it, too.
  [[nodiscard]] virtual bool has_oplog() const = 0;
  [[nodiscard]] virtual Result<void> oplog(
      const std::function<Result<void>(const Entry&)>& take) const = 0;
  // Bytes of its files, which check() reads.
  [[nodiscard]] virtual std::uint64_t size() const = 0;

 protected:
  BaseBackup() = default;
  std::vector<CollectionFacts> collections_;
  std::vector<std::string> left_out_;
  std::string server_version_;
  std::string tool_;
  std::optional<Checksums> checksums_{};
};

struct BaseOptions {
  bool not_sharded = false;  // it is known to be of no sharded cluster, whatever it shows
};

// A folder, or the file of an archive. kNotFound: nothing there. kDataLoss: damaged names, metadata
// or framing. kFailedPrecondition: of a sharded cluster (config.shards, config.collections, a shard
// identity); two files for one collection.
// Names never lead out of the folder: "..", NUL and "/" in a database's name are refused.
[[nodiscard]] Result<std::unique_ptr<BaseBackup>> open_base(const std::string& path,
                                                            const BaseOptions& options = {});

}  // namespace idmint::restore
