// A disk without room, for a process that loads this before the C library: while the file that
// IDMINT_NO_ROOM names is there, no file grows beyond its last block. Bytes that have their place
// on the disk can be written, as on a real one: so a write may be a partial one. Standard output
// and error are left alone. (A mongod ends without room for its log: for it there is
// restore/tests/full_disk.cc.)
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace {

bool has_no_room() {
  static const char* const file = std::getenv("IDMINT_NO_ROOM");
  return file != nullptr && ::access(file, F_OK) == 0;
}

// How much of what is written at that place has room; `at` < 0: at the one that the file is at.
size_t room_for(int fd, off64_t at, size_t size) {
  constexpr off64_t kBlock = 4096;
  const int before = errno;
  struct stat64 file{};
  if (fd > STDERR_FILENO && size > 0 && has_no_room() && ::fstat64(fd, &file) == 0 &&
      S_ISREG(file.st_mode)) {
    if (at < 0) {
      const bool appended = (::fcntl(fd, F_GETFL) & O_APPEND) != 0;
      at = appended ? file.st_size : ::lseek64(fd, 0, SEEK_CUR);
    }
    const off64_t end = (file.st_size + kBlock - 1) / kBlock * kBlock;
    size = std::min(size, static_cast<size_t>(std::max(end - at, off64_t{0})));
  }
  errno = before;
  return size;
}

// Whether not all of it has room.
bool is_refused(int fd, off64_t at, size_t size) {
  if (room_for(fd, at, size) == size) return false;
  errno = ENOSPC;
  return true;
}

// Writes what has room.
ssize_t write_some(int fd, off64_t at, size_t size, const auto& call) {
  const size_t some = room_for(fd, at, size);
  if (some > 0 || size == 0) return call(some);
  errno = ENOSPC;
  return -1;
}

size_t size_of(const iovec* parts, int count) {
  size_t size = 0;
  for (int i = 0; i < count; ++i) size += parts[i].iov_len;
  return size;
}

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

#define IDMINT_SHOWN __attribute__((visibility("default")))

extern "C" {

IDMINT_SHOWN ssize_t write(int fd, const void* from, size_t size) {
  static const auto call = real<decltype(&::write)>("write");
  return write_some(fd, -1, size, [&](size_t some) { return call(fd, from, some); });
}

IDMINT_SHOWN ssize_t writev(int fd, const iovec* parts, int count) {
  static const auto call = real<decltype(&::writev)>("writev");
  return is_refused(fd, -1, size_of(parts, count)) ? -1 : call(fd, parts, count);
}

IDMINT_SHOWN ssize_t pwrite64(int fd, const void* from, size_t size, off64_t at) {
  static const auto call = real<decltype(&::pwrite64)>("pwrite64");
  return write_some(fd, at, size, [&](size_t some) { return call(fd, from, some, at); });
}

IDMINT_SHOWN ssize_t pwrite(int fd, const void* from, size_t size, off_t at) {
  return pwrite64(fd, from, size, at);
}

IDMINT_SHOWN ssize_t pwritev64(int fd, const iovec* parts, int count, off64_t at) {
  static const auto call = real<decltype(&::pwritev64)>("pwritev64");
  return is_refused(fd, at, size_of(parts, count)) ? -1 : call(fd, parts, count, at);
}

IDMINT_SHOWN ssize_t pwritev(int fd, const iovec* parts, int count, off_t at) {
  return pwritev64(fd, parts, count, at);
}

IDMINT_SHOWN int fallocate64(int fd, int mode, off64_t at, off64_t size) {
  static const auto call = real<decltype(&::fallocate64)>("fallocate64");
  return is_refused(fd, at, static_cast<size_t>(size)) ? -1 : call(fd, mode, at, size);
}

IDMINT_SHOWN int fallocate(int fd, int mode, off_t at, off_t size) {
  return fallocate64(fd, mode, at, size);
}

// It returns the error.
IDMINT_SHOWN int posix_fallocate64(int fd, off64_t at, off64_t size) {
  static const auto call = real<decltype(&::posix_fallocate64)>("posix_fallocate64");
  return is_refused(fd, at, static_cast<size_t>(size)) ? ENOSPC : call(fd, at, size);
}

IDMINT_SHOWN int posix_fallocate(int fd, off_t at, off_t size) {
  return posix_fallocate64(fd, at, size);
}
}
