// Writes a base backup in mongodump's format (base.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "restore/backup/base.h"
#include "restore/checksums.h"
#include "restore/error_in.h"

namespace idmint::restore {

enum class BackupForm : std::uint8_t { kFolder, kArchive };

// Documents as a backup stores them.
struct Block {
  std::vector<std::uint8_t> bytes{};       // as in a backup that is not compressed
  std::vector<std::uint8_t> compressed{};  // empty: the backup is not compressed
};

// Writes beside the target, under its name and ".partial". finish() renames it when all of it is on
// disk, so a backup under its own name is complete. The destructor removes an unfinished one. Only
// the owner may read it.
//
// For one thread, but for pack(), which any number of threads may call.
class BackupWriter {
 public:
  // Stands for the oplog where the index of a collection is asked for.
  static constexpr std::size_t kOplog = SIZE_MAX;

  virtual ~BackupWriter() = default;
  BackupWriter(const BackupWriter&) = delete;
  BackupWriter& operator=(const BackupWriter&) = delete;

  [[nodiscard]] virtual bool compresses() const = 0;
  // Documents of a collection, or entries of the oplog, for add(): the expensive part.
  [[nodiscard]] virtual Result<Block> pack(std::size_t of,
                                           std::span<const Document> documents) const = 0;
  // Call begin(), add() for each block and end() for each collection and for the oplog, and then
  // finish(). Several collections may be open. A view has no documents. Errors:
  // - kResourceExhausted: the disk is full.
  // - kPermissionDenied, kUnavailable: the backup cannot be written.
  [[nodiscard]] virtual Result<void> begin(std::size_t of) = 0;
  [[nodiscard]] virtual Result<void> add(std::size_t of, const Block& block) = 0;
  [[nodiscard]] virtual Result<void> end(std::size_t of) = 0;
  // pack() and add(), without a copy where the backup has the documents as they are.
  [[nodiscard]] virtual Result<void> put(std::size_t of, std::span<const Document> documents) {
    const Result<Block> block = pack(of, documents);
    return block ? add(of, *block) : error_in(block);
  }
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
  unsigned at_once = 1;  // collections whose blocks may be mixed in an archive
};

// `collections` has all of them and must outlive the writer. Errors:
// - kAlreadyExists: the target exists, or an unfinished backup is beside it.
// - kUnimplemented: metadata cannot be expressed in JSON.
// - kInvalidArgument: no collection can have one of these names.
[[nodiscard]] Result<std::unique_ptr<BackupWriter>> write_backup(
    const BackupTarget& target, std::span<const CollectionFacts> collections);

}  // namespace idmint::restore
