// What the static libstdc++ of this system asks of a C library newer than the one that the programs
// of the tarball are linked with (scripts/package tarball).
#include <sys/random.h>

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

}  // extern "C"
