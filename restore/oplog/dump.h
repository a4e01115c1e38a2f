// A growing dump of an oplog: `oplog` writes it, and continues it when started again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "mongo/document.h"
#include "restore/error_in.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// A file of consecutive entries, like mongodump's local/oplog.rs.bson. For one thread. While it is
// open, other processes cannot open it.
class OplogDump {
 public:
  // Creates the file if it does not exist, for its owner alone; the destructor removes it again if
  // it has no entry. Reads an existing file and truncates it after its last whole entry. Errors:
  // - kAlreadyExists: the file is not an oplog; it is left unchanged.
  // - kFailedPrecondition: the file is compressed, or another process writes to it.
  // - kDataLoss: the file is damaged before its end, or does not match its checksums.
  // - kPermissionDenied, kNotFound, kUnavailable: the file cannot be opened.
  [[nodiscard]] static Result<OplogDump> open(const std::string& path);
  ~OplogDump();
  OplogDump(OplogDump&& other) noexcept;
  OplogDump& operator=(OplogDump&&) = delete;

  // Buffers up to a megabyte in memory. Errors:
  // - kFailedPrecondition: `at` is not after the last entry.
  // - kResourceExhausted, kUnavailable: the disk is full or fails; the written part remains valid.
  [[nodiscard]] Result<void> append(Timestamp at, Document entry);
  // Writes all appended entries to disk; now and then also the checksums of the synced part.
  [[nodiscard]] Result<void> sync();
  // Writes the checksums of the synced part (checksums.h). After a kill they cover only a part of
  // the dump, which can still be verified.
  [[nodiscard]] Result<void> seal();

  // nullopt: there is no entry.
  [[nodiscard]] std::optional<Timestamp> first() const { return first_; }
  [[nodiscard]] std::optional<Timestamp> last() const { return last_; }
  // The last entry that is certainly on disk.
  [[nodiscard]] std::optional<Timestamp> synced() const { return synced_; }
  // The number of entries that are certainly on disk.
  [[nodiscard]] std::int64_t synced_entries() const { return synced_entries_; }
  // The bytes of the last entry; empty: none.
  [[nodiscard]] const std::vector<std::uint8_t>& last_entry() const { return last_entry_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  OplogDump(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  [[nodiscard]] Result<void> read();
  [[nodiscard]] Result<void> flush();

  std::string path_;
  int fd_ = -1;
  bool made_ = false;
  std::optional<Timestamp> first_;
  std::optional<Timestamp> last_;
  std::optional<Timestamp> synced_;
  std::vector<std::uint8_t> last_entry_;
  std::vector<std::uint8_t> block_;
  Sha256 hash_{};             // of all written bytes
  std::uint64_t bytes_ = 0;   // their number
  std::uint64_t sealed_ = 0;  // bytes covered by the checksums
  std::int64_t entries_ = 0;
  std::int64_t synced_entries_ = 0;
};

}  // namespace idmint::restore
