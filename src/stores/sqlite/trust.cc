#include "stores/sqlite/trust.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace idmint::stores::sqlite {
namespace {

std::optional<struct ::statx> look_at(const std::string& path, unsigned what) noexcept {
  struct ::statx found{};
  if (::statx(AT_FDCWD, path.c_str(), AT_STATX_SYNC_AS_STAT, what, &found) != 0)
    return std::nullopt;
  return found;
}

}  // namespace

std::optional<FileIdentity> identity_of(const std::string& path) noexcept {
  const auto found = look_at(path, STATX_INO);
  if (!found) return std::nullopt;
  return FileIdentity{found->stx_dev_major, found->stx_dev_minor, found->stx_ino};
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
  Place place{static_cast<std::int64_t>(found->stx_ino), std::nullopt};
  if ((found->stx_mask & STATX_BTIME) != 0)
    place.born = std::int64_t{found->stx_btime.tv_sec} * 1'000'000'000 + found->stx_btime.tv_nsec;
  return place;
}

std::string name_of(const Uuid& store, const Place& place) {
  // An inode may change with a remount.
  return store.to_string() + "-" + std::to_string(place.born.value_or(place.inode));
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

// Creates its parents too; a failure shows when a file is created there.
void make_folders(const std::string& folder) {
  for (std::size_t end = folder.find('/', 1); end != std::string::npos;
       end = folder.find('/', end + 1))
    ::mkdir(folder.substr(0, end).c_str(), 0700);
  ::mkdir(folder.c_str(), 0700);
}

}  // namespace

SeenChanges::SeenChanges(std::string_view folder, const Uuid& store, const Place& place,
                         bool writable) {
  if (folder.empty()) return;
  const std::string path = std::string(folder) + "/changes-" + name_of(store, place);
  const int flags =
      (writable ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  fd_ = ::open(path.c_str(), flags, 0600);
  if (fd_ < 0 && errno == ENOENT && writable) {
    make_folders(std::string(folder));
    fd_ = ::open(path.c_str(), flags, 0600);
  }
  struct ::stat found{};
  if (fd_ < 0 || (::fstat(fd_, &found) == 0 && S_ISREG(found.st_mode))) return;
  ::close(fd_);
  fd_ = -1;
}

SeenChanges::~SeenChanges() {
  if (fd_ >= 0) ::close(fd_);
}

SeenChanges::SeenChanges(SeenChanges&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

SeenChanges& SeenChanges::operator=(SeenChanges&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

std::int64_t SeenChanges::read() const noexcept {
  std::array<char, kSize> text{};
  if (fd_ < 0 || ::pread(fd_, text.data(), text.size(), 0) != static_cast<::ssize_t>(kSize) ||
      text.back() != '\n')
    return 0;
  std::int64_t changes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + kDigits, changes);
  constexpr std::int64_t kMost = std::int64_t{1} << 62;  // more than anybody counted
  const bool is_count = error == std::errc{} && end == text.data() + kDigits;
  return is_count && changes > 0 && changes <= kMost ? changes : 0;
}

void SeenChanges::write(std::int64_t changes) const noexcept {
  if (fd_ < 0) return;
  std::array<char, kSize + 1> text{};
  std::snprintf(text.data(), text.size(), "%0*lld\n", kDigits, static_cast<long long>(changes));
  // A failed write leaves a lower count.
  [[maybe_unused]] const ::ssize_t written = ::pwrite(fd_, text.data(), kSize, 0);
}

}  // namespace idmint::stores::sqlite
