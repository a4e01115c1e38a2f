// A base backup in mongodump's format: a folder, or an archive.
//
// A folder has, each also as .gz:
// - <db>/<collection>.bson and <db>/<collection>.metadata.json;
// - prelude.json;
// - oplog.bson, the slice: the oplog of the time that the backup took. After its replay, the backup
//   shows the moment of its last entry.
// Names are escaped as by url.QueryEscape. Names longer than 238 bytes are cut and hashed; the
// metadata has them in full.
//
// An archive has the magic number 0x8199e26d, a header, the metadata of each namespace, then
// interleaved blocks of documents. A CRC-64 of its documents ends each namespace. (mongo-tools
// 100.18; see "Formats" in docs/design/006-restore.md.)
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

// The name of the collection that holds the documents.
[[nodiscard]] std::string data_name(const CollectionFacts& collection);

// Receives documents: whole ones of one collection, in their order, valid during the call.
using TakeDocuments = std::function<Result<void>(const CollectionFacts& collection,
                                                 std::span<const Document> documents)>;

// Any number of threads may share it: each call opens the files for itself.
class BaseBackup {
 public:
  virtual ~BaseBackup() = default;
  BaseBackup(const BaseBackup&) = delete;
  BaseBackup& operator=(const BaseBackup&) = delete;

  // Sorted by database and name. Without is_left_out() of names.h; with is_users(), if asked for.
  [[nodiscard]] const std::vector<CollectionFacts>& collections() const { return collections_; }
  // Collections of the backup that a restore leaves out, such as "admin.system.users".
  [[nodiscard]] const std::vector<std::string>& left_out() const { return left_out_; }
  // The database whose users and roles alone are in collections(), as mongodump writes them with
  // --dumpDbUsersAndRoles. Empty: it has all, or none.
  [[nodiscard]] const std::string& users_of() const { return users_of_; }
  // From prelude.json or the header; empty: unknown.
  [[nodiscard]] const std::string& server_version() const { return server_version_; }
  // Whether idmint-restore made it. If so, collections were read by UUID, and the slice of the
  // oplog may have renames.
  [[nodiscard]] bool is_ours() const { return tool_.starts_with("idmint-restore "); }
  // Its checksums; check() verifies them. nullopt: it has none.
  [[nodiscard]] const std::optional<Checksums>& checksums() const { return checksums_; }

  // Reads the whole backup once and looks for damage: framing, lengths, CRCs, validate() of each
  // document, entries of the oplog. `progress` gets bytes of the backup's files. Errors:
  // - kDataLoss: damage, with file and offset.
  // - kFailedPrecondition: the backup is of a sharded cluster. An archive shows that only here.
  [[nodiscard]] virtual Result<void> check(const TakeProgress& progress) const = 0;
  // The documents of all collections, or of the collection `only` after its first `passed` bytes of
  // documents, as an earlier call gave them. Each call of `take` gets up to 1000 documents or 16 MB
  // of one collection. Errors:
  // - kUnimplemented: `only` of an archive, which is read as a whole.
  // - kDataLoss: as check(), but the documents are not validated.
  [[nodiscard]] virtual Result<void> documents(std::optional<std::size_t> only,
                                               const TakeDocuments& take,
                                               std::uint64_t passed = 0) const = 0;
  // Whether it has a slice of the oplog; and the slice, entry by entry. Errors of oplog():
  // - kNotFound: there is no slice.
  // - kDataLoss: the slice is damaged or has no entry.
  [[nodiscard]] virtual bool has_oplog() const = 0;
  [[nodiscard]] virtual Result<void> oplog(
      const std::function<Result<void>(const Entry&)>& take) const = 0;
  // The size of its files, which check() reads, in bytes.
  [[nodiscard]] virtual std::uint64_t size() const = 0;

 protected:
  BaseBackup() = default;
  std::vector<CollectionFacts> collections_;
  std::vector<std::string> left_out_;
  std::string users_of_;
  std::string server_version_;
  std::string tool_;
  std::optional<Checksums> checksums_{};
};

struct BaseOptions {
  bool not_sharded = false;  // the backup is known to be of no sharded cluster, whatever it shows
  bool users = false;        // collections() has users and roles
};

// Opens a folder, or the file of an archive. Names never lead out of the folder: "..", NUL and "/"
// in the name of a database are refused. Errors:
// - kNotFound: there is nothing at `path`.
// - kDataLoss: names, metadata or framing are damaged.
// - kFailedPrecondition: the backup is of a sharded cluster (it has config.shards,
//   config.collections or a shard identity), or two files are for one collection.
[[nodiscard]] Result<std::unique_ptr<BaseBackup>> open_base(const std::string& path,
                                                            const BaseOptions& options = {});

// Differs if a file of the backup at `path` was changed, replaced or touched since: of their names,
// sizes, inodes and times of change. Not of their contents. Empty: they cannot be looked at.
[[nodiscard]] std::string stamp_of_files(const std::string& path);

}  // namespace idmint::restore
