// A dump of an oplog that grows: what `oplog` writes, and goes on with when it is started again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "idmint/result.h"
#include "mongo/document.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// Entries one after the other, as mongodump writes local/oplog.rs.bson. For one thread; another
// process that opens the same file is refused for as long as this is there.
class OplogDump {
 public:
  // Made where it is not there, for its owner alone, and removed again where it gets no entry; else
  // read, and cut after its last whole entry. kAlreadyExists: it
  // is no oplog, and was not touched. kFailedPrecondition: compressed, or another process writes
  // to it. kDataLoss: damaged before its end, or not as its checksums have it. kPermissionDenied,
  // kNotFound, kUnavailable: it cannot be opened.
  [[nodiscard]] static Result<OplogDump> open(const std::string& path);
  ~OplogDump();
  OplogDump(OplogDump&& other) noexcept;
  OplogDump& operator=(OplogDump&&) = delete;

  // Kept in memory up to a megabyte. kFailedPrecondition: not after the last entry.
  // kResourceExhausted, kUnavailable: the disk is full, or fails; what is there stays good.
  [[nodiscard]] Result<void> append(Timestamp at, Document entry);
  // All that was appended, to the disk; and now and then the checksums of what the disk has.
  [[nodiscard]] Result<void> sync();
  // The checksums of all that was synced: see checksums.h. A dump that was killed has those of a
  // part, which is checked by them all the same.
  [[nodiscard]] Result<void> seal();

  // Nothing: no entry is in it.
  [[nodiscard]] std::optional<Timestamp> first() const { return first_; }
  [[nodiscard]] std::optional<Timestamp> last() const { return last_; }
  // The last that the disk has for certain.
  [[nodiscard]] std::optional<Timestamp> synced() const { return synced_; }
  // Its bytes; empty: none.
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
  Sha256 hash_{};             // of all bytes that were written
  std::uint64_t bytes_ = 0;   // how many those are
  std::uint64_t sealed_ = 0;  // how many of them the checksums are of
  std::int64_t entries_ = 0;
};

}  // namespace idmint::restore
