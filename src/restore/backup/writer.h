// Writes a base backup in mongodump's format (base.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "idmint/result.h"
#include "restore/backup/base.h"
#include "restore/checksums.h"

namespace idmint::restore {

enum class BackupForm : std::uint8_t { kFolder, kArchive };

// Writes beside the target, under its name and ".partial". finish() renames it when all of it is on
// disk, so a backup under its own name is complete. The destructor removes an unfinished one. Only
// the owner may read it. For one thread.
class BackupWriter {
 public:
  virtual ~BackupWriter() = default;
  BackupWriter(const BackupWriter&) = delete;
  BackupWriter& operator=(const BackupWriter&) = delete;

  // Call in this order: begin(), the documents and end() for each collection; begin_oplog(), the
  // entries and end() for the oplog; finish(). A view has no documents. Errors:
  // - kResourceExhausted: the disk is full.
  // - kPermissionDenied, kUnavailable: the backup cannot be written.
  [[nodiscard]] virtual Result<void> begin(const CollectionFacts& collection) = 0;
  [[nodiscard]] virtual Result<void> add(Document document) = 0;
  [[nodiscard]] virtual Result<void> end() = 0;
  [[nodiscard]] virtual Result<void> begin_oplog() = 0;
  // Adds the checksums. `slice` has the bounds of the oplog's slice.
  [[nodiscard]] virtual Result<void> finish(const Checksums& slice) = 0;

 protected:
  BackupWriter() = default;
};

struct BackupTarget {
  std::string path;  // a folder, or the file of an archive
  BackupForm form = BackupForm::kFolder;
  bool gzip = false;
  std::vector<std::string> excluded{};  // patterns of the namespaces that are left out
  std::string server_version{};
};

// `collections` has all of them in the order of begin(); an archive writes them into its prelude.
// Errors:
// - kAlreadyExists: the target exists, or an unfinished backup is beside it.
// - kUnimplemented: metadata cannot be expressed in JSON.
// - kInvalidArgument: no collection can have one of these names.
[[nodiscard]] Result<std::unique_ptr<BackupWriter>> write_backup(
    const BackupTarget& target, std::span<const CollectionFacts> collections);

}  // namespace idmint::restore
