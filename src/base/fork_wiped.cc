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

constinit std::atomic<std::atomic<std::uint64_t>*> OwnedByProcess::number_{nullptr};

// A child has a copy of `latest`, which is not below the number of its parent.
std::uint64_t number_of_this_process() {
  using Number = std::atomic<std::uint64_t>;
  static constinit Number latest{0};
  Number* number = OwnedByProcess::number_.load(std::memory_order_acquire);
  if (number == nullptr) {
    // Never freed: static objects may use it until the process ends.
    auto* const made = new (map_fork_wiped(sizeof(Number))) Number{0};
    if (OwnedByProcess::number_.compare_exchange_strong(number, made)) {
      number = made;
    } else {
      unmap_fork_wiped(made, sizeof(Number));
    }
  }
  std::uint64_t mine = number->load(std::memory_order_relaxed);
  if (mine == 0) {
    const std::uint64_t next = latest.fetch_add(1, std::memory_order_relaxed) + 1;
    if (number->compare_exchange_strong(mine, next, std::memory_order_relaxed)) mine = next;
  }
  return mine;
}

}  // namespace idmint
