#include "engines/sqlite/trust.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/data_folder.h"

namespace idmint::stores::sqlite {
namespace {

// The types of file systems whose f_fsid comes from the UUID on the disk, or lives as long as the
// files. Those of XFS, F2FS and FAT are numbers of devices, which change with a restart; that of
// overlayfs may be that of XFS.
constexpr std::array<std::uint32_t, 4> kNamedVolumes = {
    0xef53,      // ext2, ext3, ext4
    0x9123683e,  // btrfs
    0x2fc12fc1,  // ZFS
    0x01021994,  // tmpfs
};

std::optional<std::int64_t> volume_of(const std::string& path) noexcept {
  struct ::statfs system{};
  if (::statfs(path.c_str(), &system) != 0 ||
      std::ranges::find(kNamedVolumes, static_cast<std::uint32_t>(system.f_type)) ==
          kNamedVolumes.end())
    return std::nullopt;
  std::int64_t id = 0;
  static_assert(sizeof(system.f_fsid) == sizeof(id));
  std::memcpy(&id, &system.f_fsid, sizeof(id));
  if (id == 0) return std::nullopt;  // tmpfs of an old kernel
  return id;
}

std::optional<struct ::statx> look_at(const std::string& path, unsigned what) noexcept {
  struct ::statx found{};
  if (::statx(AT_FDCWD, path.c_str(), AT_STATX_SYNC_AS_STAT, what, &found) != 0)
    return std::nullopt;
  return found;
}

}  // namespace

std::optional<FoundFile> file_at(const std::string& path) noexcept {
  const auto found = look_at(path, STATX_INO | STATX_NLINK);
  if (!found) return std::nullopt;
  return FoundFile{{found->stx_dev_major, found->stx_dev_minor, found->stx_ino}, found->stx_nlink};
}

bool is_open_here(const FileIdentity& file) noexcept {
  ::DIR* const descriptors = ::opendir("/proc/self/fd");
  if (descriptors == nullptr) return true;
  bool open = false;
  while (const ::dirent* const entry = open ? nullptr : ::readdir(descriptors)) {
    const std::string_view name(entry->d_name);
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    struct ::stat found{};
    open = fd >= 0 && ::fstat(fd, &found) == 0 &&
           file == FileIdentity{::gnu_dev_major(found.st_dev), ::gnu_dev_minor(found.st_dev),
                                found.st_ino};
  }
  ::closedir(descriptors);
  return open;
}

std::optional<Place> place_of(const std::string& path) noexcept {
  const auto found = look_at(path, STATX_INO | STATX_BTIME);
  if (!found) return std::nullopt;
  Place place{static_cast<std::int64_t>(found->stx_ino), std::nullopt, volume_of(path)};
  // Zero: a program that fills images of file systems wrote the file, and no birth time.
  if ((found->stx_mask & STATX_BTIME) != 0 &&
      (found->stx_btime.tv_sec != 0 || found->stx_btime.tv_nsec != 0))
    place.born = std::int64_t{found->stx_btime.tv_sec} * 1'000'000'000 + found->stx_btime.tv_nsec;
  return place;
}

std::string name_of(const Uuid& store, const Place& place) {
  // An inode may change with a remount.
  std::string name = store.to_string() + "-" + std::to_string(place.born.value_or(place.inode));
  // A snapshot of the file system has the same birth times, and one without them the same inodes.
  if (place.volume) {
    std::array<char, 20> volume{};
    std::snprintf(volume.data(), volume.size(), "-%016llx",
                  static_cast<unsigned long long>(*place.volume));
    name += volume.data();
  }
  return name;
}

bool is_counted(const std::string& folder, const Uuid& store) {
  const std::string name = "changes-" + store.to_string() + "-";
  std::error_code unreadable;
  for (std::filesystem::directory_iterator at(folder, unreadable), end; !unreadable && at != end;
       at.increment(unreadable))
    if (at->path().filename().string().starts_with(name)) return true;
  return false;
}

namespace {

constexpr int kDigits = 19;  // of the largest count
constexpr std::size_t kSize = kDigits + 1;

// 0: none.
std::int64_t count_in(int fd) noexcept {
  std::array<char, kSize> text{};
  if (fd < 0 || ::pread(fd, text.data(), text.size(), 0) != static_cast<::ssize_t>(kSize) ||
      text.back() != '\n')
    return 0;
  std::int64_t changes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + kDigits, changes);
  constexpr std::int64_t kMost = std::int64_t{1} << 62;  // more than anybody counted
  const bool is_count = error == std::errc{} && end == text.data() + kDigits;
  return is_count && changes > 0 && changes <= kMost ? changes : 0;
}

constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;

// The count in a file that is not written any more.
std::int64_t count_in(const std::string& path) noexcept {
  const int fd = ::open(path.c_str(), O_RDONLY | kFlags);
  const std::int64_t changes = count_in(fd);
  if (fd >= 0) ::close(fd);
  return changes;
}

}  // namespace

SeenChanges::SeenChanges(std::string_view folder, const Uuid& store, const Place& place,
                         bool writable) {
  if (folder.empty()) return;
  const auto path_of = [&](const Place& each) {
    return std::string(folder) + "/changes-" + name_of(store, each);
  };
  const std::string path = path_of(place);
  if (place.volume) before_ = count_in(path_of({place.inode, place.born, std::nullopt}));
  const int flags = (writable ? O_RDWR | O_CREAT : O_RDONLY) | kFlags;
  fd_ = ::open(path.c_str(), flags, 0600);
  if (fd_ < 0 && errno == ENOENT && writable && make_folder(folder))
    fd_ = ::open(path.c_str(), flags, 0600);
  struct ::stat found{};
  if (fd_ < 0) {
    // Nothing was recorded yet.
    failure_ = errno == ENOENT && !writable ? 0 : errno;
  } else if (::fstat(fd_, &found) != 0 || !S_ISREG(found.st_mode)) {
    ::close(fd_);
    fd_ = -1;
    failure_ = EINVAL;
  }
}

SeenChanges::~SeenChanges() {
  if (fd_ >= 0) ::close(fd_);
}

SeenChanges::SeenChanges(SeenChanges&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), failure_(other.failure_), before_(other.before_) {}

SeenChanges& SeenChanges::operator=(SeenChanges&& other) noexcept {
  std::swap(fd_, other.fd_);
  failure_ = other.failure_;
  before_ = other.before_;
  return *this;
}

std::int64_t SeenChanges::read() const noexcept { return std::max(count_in(fd_), before_); }

void SeenChanges::write(std::int64_t changes) noexcept {
  if (fd_ < 0) return;
  std::array<char, kSize + 1> text{};
  std::snprintf(text.data(), text.size(), "%0*lld\n", kDigits, static_cast<long long>(changes));
  // A failed write leaves a lower count.
  const ::ssize_t written = ::pwrite(fd_, text.data(), kSize, 0);
  failure_ = written < 0 ? errno : written == static_cast<::ssize_t>(kSize) ? 0 : ENOSPC;
}

}  // namespace idmint::stores::sqlite
