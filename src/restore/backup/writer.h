// Writes a base backup as mongodump does. See base_backup.h for the formats.
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

// Written beside its place, under its name and ".partial", and put there by finish(), when the disk
// has all of it: a backup that has its name is whole. What was not finished is removed with the
// writer. Only its owner may read it. For one thread.
class BackupWriter {
 public:
  virtual ~BackupWriter() = default;
  BackupWriter(const BackupWriter&) = delete;
  BackupWriter& operator=(const BackupWriter&) = delete;

  // In this order: of each collection begin(), its documents, end(); of the oplog begin_oplog(),
  // its entries, end(); finish(). A view has no documents. kResourceExhausted: the disk is full.
  // kPermissionDenied, kUnavailable: it cannot be written.
  [[nodiscard]] virtual Result<void> begin(const CollectionFacts& collection) = 0;
  [[nodiscard]] virtual Result<void> add(Document document) = 0;
  [[nodiscard]] virtual Result<void> end() = 0;
  [[nodiscard]] virtual Result<void> begin_oplog() = 0;
  // With the checksums, and with what the slice of the oplog is from and to.
  [[nodiscard]] virtual Result<void> finish(const Checksums& slice) = 0;

 protected:
  BackupWriter() = default;
};

struct BackupTarget {
  std::string path;  // a folder, or the file of an archive
  BackupForm form = BackupForm::kFolder;
  bool gzip = false;
  std::vector<std::string> excluded{};  // patterns of what is left out
  std::string server_version{};
};

// `collections`: all of them, in the order they will be begun, which the prelude of an archive has.
// kAlreadyExists: something is there, or the rest of a backup that was not finished.
// kUnimplemented: metadata that JSON cannot hold. kInvalidArgument: a name that none can have.
[[nodiscard]] Result<std::unique_ptr<BackupWriter>> write_backup(
    const BackupTarget& target, std::span<const CollectionFacts> collections);

}  // namespace idmint::restore
