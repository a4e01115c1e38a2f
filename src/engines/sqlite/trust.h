// Evidence of whether an SQLite file is the one that was opened, at its own place, in its latest
// state. Nothing here opens the file or its log: POSIX would drop all locks of this process on it
// (see fcntl(2)).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "idmint/uuid.h"

namespace idmint::stores::sqlite {

// Device and inode, which identify an existing file.
struct FileIdentity {
  std::uint32_t device_major;
  std::uint32_t device_minor;
  std::uint64_t inode;

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

struct FoundFile {
  FileIdentity identity;
  std::uint32_t names;  // hard links
};
// The file at the path; nothing: there is none, or it cannot be examined.
[[nodiscard]] std::optional<FoundFile> file_at(const std::string& path) noexcept;

// Whether this process has an open descriptor of it; true if /proc does not tell.
[[nodiscard]] bool is_open_here(const FileIdentity& file) noexcept;

// The place of a file, stable across restarts of the host. A copy has another place, and so has a
// file that was moved to another file system; a renamed file keeps its place.
struct Place {
  std::int64_t inode;
  std::optional<std::int64_t> born;  // ns since 1970; nothing: the file system has no birth times
  // The id of the file system, of btrfs and ZFS that of the subvolume or data set too. Nothing: it
  // has none that stays the same across restarts (docs/design/007-sqlite-trust.md).
  std::optional<std::int64_t> volume;

  friend bool operator==(const Place&, const Place&) = default;
};

// Nothing: it cannot be examined.
[[nodiscard]] std::optional<Place> place_of(const std::string& path) noexcept;

// Names a store and its place: a copy, which has the same id, has another name.
[[nodiscard]] std::string name_of(const Uuid& store, const Place& place);

// Whether the trust folder has a count of the store in any place.
[[nodiscard]] bool is_counted(const std::string& folder, const Uuid& store);

// The largest count of changes of a store that this user saw, in the file changes-NAME of the trust
// folder, where NAME is that of name_of(). Detects a store that was set back. Nothing is synced,
// and a failure stops nothing: a missing or low count only detects less.
class SeenChanges {
 public:
  SeenChanges() = default;
  // An empty folder: remembers nothing. `writable`: creates the file.
  SeenChanges(std::string_view folder, const Uuid& store, const Place& place, bool writable);
  ~SeenChanges();
  SeenChanges(SeenChanges&& other) noexcept;
  SeenChanges& operator=(SeenChanges&& other) noexcept;

  // 0: none.
  [[nodiscard]] std::int64_t read() const noexcept;
  void write(std::int64_t changes) noexcept;
  // The errno with which the latest count was not read or not written; 0: there was no failure.
  [[nodiscard]] int failure() const noexcept { return failure_; }

 private:
  int fd_ = -1;
  int failure_ = 0;
  std::int64_t before_ = 0;  // the count under the name without the volume, of an older version
};

}  // namespace idmint::stores::sqlite
