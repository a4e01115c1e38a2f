#include "base/fork_wiped.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

namespace idmint {

void* map_fork_wiped(std::size_t size) {
  void* pages = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc{};
  if (::madvise(pages, size, MADV_WIPEONFORK) != 0) {
    std::fputs(
        "idmint: this kernel cannot keep ids apart across fork() (madvise MADV_WIPEONFORK "
        "failed); run Linux 4.14 or later\n",
        stderr);
    std::abort();
  }
  return pages;
}

void unmap_fork_wiped(void* pages, std::size_t size) noexcept { ::munmap(pages, size); }

}  // namespace idmint
