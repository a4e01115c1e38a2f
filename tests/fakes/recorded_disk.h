// A disk for SQLite that remembers the order in which things were written and synced, can fail a
// sync, and shows what a power cut at any moment would have left.
#pragma once

#include <sqlite3.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <new>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace idmint::fakes {

// While it lives it is SQLite's default VFS, around "unix": writes reach the real files, syncs are
// only recorded. One at a time, one thread at a time. The files must lie in `folder`; the -shm file
// is memory, not disk, and is not seen.
//
// The model: writes before a sync that succeeded survive; each sector of 512 bytes that was written
// later survives or not, at random; so does each truncation. A later sync that succeeds does not
// write what a failed one left unwritten. Removing a file lasts at once.
class RecordedDisk {
 public:
  explicit RecordedDisk(std::string folder) : folder_(std::move(folder)) {
    real_ = sqlite3_vfs_find("unix");
    if (real_ == nullptr) std::abort();
    vfs_ = *real_;
    vfs_.pNext = nullptr;
    vfs_.zName = "recorded";
    vfs_.szOsFile = static_cast<int>(sizeof(File)) + real_->szOsFile;
    vfs_.pAppData = this;
    vfs_.xOpen = &RecordedDisk::open;
    vfs_.xDelete = &RecordedDisk::remove;
    sqlite3_vfs_register(&vfs_, 1);
  }
  ~RecordedDisk() {
    sqlite3_vfs_unregister(&vfs_);
    sqlite3_vfs_register(real_, 1);
  }
  RecordedDisk(const RecordedDisk&) = delete;
  RecordedDisk& operator=(const RecordedDisk&) = delete;

  // The moments at which the power can fail: before the first event, ..., after the last.
  [[nodiscard]] std::size_t now() const { return events_.size(); }
  [[nodiscard]] int syncs() const { return syncs_; }
  // The numbers of the syncs of `file`, counted from 1.
  [[nodiscard]] std::vector<int> syncs_of(std::string_view file) const {
    std::vector<int> all;
    int nth = 0;
    for (const Event& event : events_) {
      if (event.what != What::kSync && event.what != What::kFailedSync) continue;
      ++nth;
      if (event.file == file) all.push_back(nth);
    }
    return all;
  }
  // The nth sync from the beginning, counted from 1, fails with EIO; 0: none.
  void fail_sync(int nth) { failing_ = nth; }
  // The moment after that sync; the end of time until it has failed.
  [[nodiscard]] std::size_t failed_at() const { return failed_at_; }

  // Called before a read or a write of a file in the folder; may use SQLite.
  using Access = std::function<void(std::string_view file, std::size_t at, int size)>;
  Access before_read;
  Access before_write;

  // Writes the files as a power cut at `moment` may leave them, under their own names, to `to`.
  void cut(std::size_t moment, std::mt19937_64& random, const std::string& to) const {
    std::map<std::string, Disk> disks;
    const double odds = std::uniform_real_distribution<double>(-0.2, 1.2)(random);
    std::bernoulli_distribution survives(odds < 0 ? 0 : odds > 1 ? 1 : odds);
    for (std::size_t i = 0; i < moment; ++i) {
      const Event& event = events_[i];
      Disk& disk = disks[event.file];
      switch (event.what) {
        case What::kOpen:
          break;
        case What::kWrite:
        case What::kTruncate:
          disk.pending.push_back(&event);
          break;
        case What::kSync:
          for (const Event* each : disk.pending) apply(*each, disk.bytes, nullptr, random);
          disk.pending.clear();
          break;
        case What::kFailedSync:
          for (const Event* each : disk.pending) apply(*each, disk.bytes, &survives, random);
          disk.pending.clear();
          break;
        case What::kRemove:
          disks.erase(event.file);
          break;
      }
    }
    for (auto& [file, disk] : disks) {
      for (const Event* each : disk.pending) apply(*each, disk.bytes, &survives, random);
      std::ofstream(std::filesystem::path(to) / file, std::ios::binary)
          .write(disk.bytes.data(), static_cast<std::streamsize>(disk.bytes.size()));
    }
  }

 private:
  enum class What : std::uint8_t { kOpen, kWrite, kTruncate, kSync, kFailedSync, kRemove };
  struct Event {
    What what;
    std::string file;  // its name in the folder
    std::size_t at;    // offset, or the new size
    std::string bytes;
  };
  struct Disk {
    std::string bytes;
    std::vector<const Event*> pending;
  };
  // The real file's own memory follows it.
  struct File {
    sqlite3_file base;
    RecordedDisk* disk;
    std::string* name;  // null: not recorded
  };

  static void apply(const Event& event, std::string& bytes, std::bernoulli_distribution* survives,
                    std::mt19937_64& random) {
    constexpr std::size_t kSector = 512;
    if (event.what == What::kTruncate) {
      if (survives == nullptr || (*survives)(random)) bytes.resize(event.at);
      return;
    }
    std::size_t done = 0;
    while (done < event.bytes.size()) {
      const std::size_t at = event.at + done;
      const std::size_t size = std::min(kSector - at % kSector, event.bytes.size() - done);
      if (survives == nullptr || (*survives)(random)) {
        if (bytes.size() < at + size) bytes.resize(at + size);
        bytes.replace(at, size, event.bytes, done, size);
      }
      done += size;
    }
  }

  void record(What what, const std::string& file, std::size_t at = 0, std::string bytes = {}) {
    events_.push_back({what, file, at, std::move(bytes)});
  }

  static sqlite3_file* real(sqlite3_file* file) {
    return reinterpret_cast<sqlite3_file*>(reinterpret_cast<File*>(file) + 1);
  }
  static RecordedDisk& self(sqlite3_vfs* vfs) { return *static_cast<RecordedDisk*>(vfs->pAppData); }

  static int open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out) {
    RecordedDisk& disk = self(vfs);
    File* const shim = new (file) File{{nullptr}, &disk, nullptr};
    const int result = disk.real_->xOpen(disk.real_, path, real(file), flags, out);
    if (result != SQLITE_OK) return result;
    shim->base.pMethods = &kMethods;
    if (path != nullptr && std::string_view(path).starts_with(disk.folder_)) {
      shim->name = new std::string(std::filesystem::path(path).filename());
      disk.record(What::kOpen, *shim->name);
    }
    return SQLITE_OK;
  }
  static int remove(sqlite3_vfs* vfs, const char* path, int sync_folder) {
    RecordedDisk& disk = self(vfs);
    const int result = disk.real_->xDelete(disk.real_, path, sync_folder);
    if (result == SQLITE_OK && std::string_view(path).starts_with(disk.folder_))
      disk.record(What::kRemove, std::filesystem::path(path).filename());
    return result;
  }
  static int close(sqlite3_file* file) {
    delete reinterpret_cast<File*>(file)->name;
    return real(file)->pMethods->xClose(real(file));
  }
  static void tell(const Access& access, const File* shim, sqlite3_int64 at, int size) {
    if (access && shim->name != nullptr) access(*shim->name, static_cast<std::size_t>(at), size);
  }
  static int read(sqlite3_file* file, void* to, int size, sqlite3_int64 at) {
    const File* const shim = reinterpret_cast<File*>(file);
    tell(shim->disk->before_read, shim, at, size);
    return real(file)->pMethods->xRead(real(file), to, size, at);
  }
  static int write(sqlite3_file* file, const void* from, int size, sqlite3_int64 at) {
    const File* const shim = reinterpret_cast<File*>(file);
    tell(shim->disk->before_write, shim, at, size);
    if (shim->name != nullptr)
      shim->disk->record(
          What::kWrite, *shim->name, static_cast<std::size_t>(at),
          std::string(static_cast<const char*>(from), static_cast<std::size_t>(size)));
    return real(file)->pMethods->xWrite(real(file), from, size, at);
  }
  static int truncate(sqlite3_file* file, sqlite3_int64 size) {
    const File* const shim = reinterpret_cast<File*>(file);
    if (shim->name != nullptr)
      shim->disk->record(What::kTruncate, *shim->name, static_cast<std::size_t>(size));
    return real(file)->pMethods->xTruncate(real(file), size);
  }
  static int sync(sqlite3_file* file, int /*flags*/) {
    const File* const shim = reinterpret_cast<File*>(file);
    if (shim->name == nullptr) return SQLITE_OK;
    const bool fails = ++shim->disk->syncs_ == shim->disk->failing_;
    shim->disk->record(fails ? What::kFailedSync : What::kSync, *shim->name);
    if (fails) shim->disk->failed_at_ = shim->disk->now();
    return fails ? SQLITE_IOERR_FSYNC : SQLITE_OK;
  }
  static int size(sqlite3_file* file, sqlite3_int64* size) {
    return real(file)->pMethods->xFileSize(real(file), size);
  }
  static int lock(sqlite3_file* file, int level) {
    return real(file)->pMethods->xLock(real(file), level);
  }
  static int unlock(sqlite3_file* file, int level) {
    return real(file)->pMethods->xUnlock(real(file), level);
  }
  static int reserved(sqlite3_file* file, int* out) {
    return real(file)->pMethods->xCheckReservedLock(real(file), out);
  }
  static int control(sqlite3_file* file, int operation, void* argument) {
    return real(file)->pMethods->xFileControl(real(file), operation, argument);
  }
  static int sector(sqlite3_file* file) { return real(file)->pMethods->xSectorSize(real(file)); }
  static int traits(sqlite3_file* file) {
    return real(file)->pMethods->xDeviceCharacteristics(real(file));
  }
  static int shm_map(sqlite3_file* file, int page, int size, int extend, void volatile** out) {
    return real(file)->pMethods->xShmMap(real(file), page, size, extend, out);
  }
  static int shm_lock(sqlite3_file* file, int at, int count, int flags) {
    return real(file)->pMethods->xShmLock(real(file), at, count, flags);
  }
  static void shm_barrier(sqlite3_file* file) { real(file)->pMethods->xShmBarrier(real(file)); }
  static int shm_unmap(sqlite3_file* file, int remove) {
    return real(file)->pMethods->xShmUnmap(real(file), remove);
  }

  // Version 2: without memory-mapped reads, so that every write is seen.
  static constexpr sqlite3_io_methods kMethods = {
      2,       close,  read,   write,   truncate, sync,        size,      lock,    unlock, reserved,
      control, sector, traits, shm_map, shm_lock, shm_barrier, shm_unmap, nullptr, nullptr};

  const std::string folder_;
  sqlite3_vfs* real_ = nullptr;
  sqlite3_vfs vfs_{};
  std::vector<Event> events_;
  int syncs_ = 0;
  int failing_ = 0;
  std::size_t failed_at_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace idmint::fakes
