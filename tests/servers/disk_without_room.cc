// A disk without room, for a process that loads this before the C library: while the file that
// IDMINT_NO_ROOM names is there, no file grows. What has its place on the disk can be written, as
// on a real one. Standard output and error are left alone. (A mongod ends without room for its log:
// for it there is tests/restore/full_disk.cc.)
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace {

bool has_no_room() {
  static const char* const file = std::getenv("IDMINT_NO_ROOM");
  return file != nullptr && ::access(file, F_OK) == 0;
}

// Whether the file would grow by what is written at that place; `at` < 0: at the one that it is at.
bool is_refused(int fd, off64_t at, size_t size) {
  const int before = errno;
  struct stat64 file{};
  bool refused = fd > STDERR_FILENO && size > 0 && has_no_room() && ::fstat64(fd, &file) == 0 &&
                 S_ISREG(file.st_mode);
  if (refused && at < 0) {
    const bool appended = (::fcntl(fd, F_GETFL) & O_APPEND) != 0;
    at = appended ? file.st_size : ::lseek64(fd, 0, SEEK_CUR);
  }
  refused = refused && at + static_cast<off64_t>(size) > file.st_size;
  errno = refused ? ENOSPC : before;
  return refused;
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
  return is_refused(fd, -1, size) ? -1 : call(fd, from, size);
}

IDMINT_SHOWN ssize_t writev(int fd, const iovec* parts, int count) {
  static const auto call = real<decltype(&::writev)>("writev");
  return is_refused(fd, -1, size_of(parts, count)) ? -1 : call(fd, parts, count);
}

IDMINT_SHOWN ssize_t pwrite64(int fd, const void* from, size_t size, off64_t at) {
  static const auto call = real<decltype(&::pwrite64)>("pwrite64");
  return is_refused(fd, at, size) ? -1 : call(fd, from, size, at);
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
