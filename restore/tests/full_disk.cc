// A disk that is full, for a process that loads this before the C library: while the file that
// IDMINT_FULL_DISK names is there, nothing more is written at a place in a file. Logs are, as they
// are appended.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace {

bool is_full() {
  static const char* const file = std::getenv("IDMINT_FULL_DISK");
  const int before = errno;
  const bool full = file != nullptr && ::access(file, F_OK) == 0;
  errno = before;
  return full;
}

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) ssize_t pwrite64(int fd, const void* from, size_t size,
                                                        off64_t at) {
  static const auto call = real<decltype(&::pwrite64)>("pwrite64");
  if (!is_full()) return call(fd, from, size, at);
  errno = ENOSPC;
  return -1;
}

__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void* from, size_t size,
                                                      off_t at) {
  return pwrite64(fd, from, size, at);
}

__attribute__((visibility("default"))) int fallocate64(int fd, int mode, off64_t at, off64_t size) {
  static const auto call = real<decltype(&::fallocate64)>("fallocate64");
  if (!is_full()) return call(fd, mode, at, size);
  errno = ENOSPC;
  return -1;
}

__attribute__((visibility("default"))) int fallocate(int fd, int mode, off_t at, off_t size) {
  return fallocate64(fd, mode, at, size);
}
}
