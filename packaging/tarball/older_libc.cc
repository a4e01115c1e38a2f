// What idmint and the static libstdc++ of this system ask of a C library newer than the one that
// the programs of the tarball are linked with (scripts/package tarball).
#include <dirent.h>
#include <spawn.h>
#include <sys/random.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

extern "C" {

// glibc 2.32: whether the process never had a second thread. "No" is always right.
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

// glibc 2.36. getrandom() never gives fewer bytes than these four, once the system has begun.
__attribute__((visibility("hidden"))) std::uint32_t arc4random() {
  std::uint32_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) std::abort();
  return random;
}

// glibc 2.34. Closes the descriptors that are open now: those that another thread opens until the
// child begins are closed on exec.
__attribute__((visibility("hidden"))) int posix_spawn_file_actions_addclosefrom_np(
    posix_spawn_file_actions_t* actions, int from) noexcept {
  DIR* const open = opendir("/proc/self/fd");
  if (open == nullptr) return errno;
  int failed = 0;
  while (const dirent* const entry = readdir(open)) {
    const int descriptor = std::atoi(entry->d_name);  // of "." and "..": 0
    if (descriptor >= from && descriptor != dirfd(open) && failed == 0)
      failed = posix_spawn_file_actions_addclose(actions, descriptor);
  }
  closedir(open);
  return failed;
}

}  // extern "C"
