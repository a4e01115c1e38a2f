// A folder of kept backups: bases, and the oplog from the first one on, in slices.
//
//   keep.json                  marks the folder, and names the replica set
//   keep.lock, bases/*.lock    locks (FileLock)
//   bases/20261128-101500/     a base (backup/base.h); complete under this name
//   oplog/SECONDS-ORDINAL.bson a slice (oplog/reader.h) with its checksums; it begins with the last
//                              entry of the slice before it, unless entries are missing between
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "restore/error_in.h"
#include "restore/timestamp.h"

namespace idmint::restore {

struct KeptBase {
  std::string path{};
  Timestamp first{};  // of its slice of the oplog
  Timestamp last{};   // its moment
  std::uint64_t bytes = 0;
};

struct KeptSlice {
  std::string path{};
  Timestamp first{};
  Timestamp last{};
  std::uint64_t bytes = 0;
  bool whole = true;  // ends with its last entry; only the newest one need not
};

// Each moment from `from` to `to` can be restored from one base.
struct Reach {
  std::size_t base = 0;  // its index
  Timestamp from{};
  Timestamp to{};
};

// A place where entries are missing: after one slice, before the next one.
struct Hole {
  Timestamp after{};
  Timestamp before{};
};

// Each moment of this time can be restored.
struct Span {
  Timestamp from{};
  Timestamp to{};
};

// The contents of a folder. Unreadable parts are left out, and told in notes.
struct Kept {
  std::string folder{};
  std::string set{};                   // the name of the replica set
  std::string id{};                    // of the set (id_of_set()); empty: unknown
  std::vector<KeptBase> bases{};       // by their moments
  std::vector<KeptSlice> slices{};     // by their first entries
  std::vector<std::string> begun{};    // paths of slices that end within their first entry
  std::vector<std::string> damaged{};  // paths of slices whose first entry is none, or another
  std::vector<std::string> notes{};

  [[nodiscard]] std::string bases_folder() const { return folder + "/bases"; }
  [[nodiscard]] std::string oplog_folder() const { return folder + "/oplog"; }
  [[nodiscard]] std::vector<Hole> holes() const;
  // One for each base whose moment a slice has, in their order.
  [[nodiscard]] std::vector<Reach> reaches() const;
  // The newest base from which the state before the entry `limit` can be restored. nullopt: none.
  [[nodiscard]] std::optional<Reach> reach_to(Timestamp limit) const;
  // The newest base from which all entries up to the newest one can be restored. nullopt: none.
  [[nodiscard]] std::optional<Reach> reach_to_end() const;
  // Together they are all that reaches() has, in order and apart from each other.
  [[nodiscard]] std::vector<Span> spans() const;
  // "each moment from TIME to TIME can be restored", with each time in which that is not so.
  [[nodiscard]] std::string in_words() const;
};

// An advisory lock of a file of its own, until this is destroyed or the process ends.
class FileLock {
 public:
  enum class Kind : bool { kShared, kAlone };
  // Makes the file. kFailedPrecondition: another process holds it. kUnavailable,
  // kPermissionDenied: the file system has no locks, or is read-only.
  [[nodiscard]] static Result<FileLock> take(const std::string& path, Kind kind);
  FileLock() = default;  // holds nothing
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

// One process at a time keeps the folder.
[[nodiscard]] Result<FileLock> lock_to_keep(const std::string& folder);
// While this is held, the base and what follows it are not removed. If nothing can be written,
// nothing can be removed either, and nothing is held. kNotFound: it has been removed.
[[nodiscard]] Result<FileLock> hold_base(const KeptBase& base);
// kFailedPrecondition: somebody holds it.
[[nodiscard]] Result<FileLock> lock_to_remove(const KeptBase& base);
[[nodiscard]] std::string lock_of_base(const std::string& path);

// kNotFound: it is none. kDataLoss: its mark is damaged.
[[nodiscard]] Result<Kept> read_kept(const std::string& folder);
// Makes the folder, if it is missing.
[[nodiscard]] Result<void> make_kept_folder(const std::string& folder);
// Makes it one for this set, or goes on with making it. kAlreadyExists: it has other contents.
// kFailedPrecondition: it is of another set. REQUIRES: lock_to_keep().
[[nodiscard]] Result<Kept> make_kept(const std::string& folder, const std::string& set,
                                     const std::string& id);

}  // namespace idmint::restore
