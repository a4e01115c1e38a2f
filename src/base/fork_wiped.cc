#include "base/fork_wiped.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

namespace idmint {
namespace {

[[noreturn]] void end_process(const char* why) noexcept {
  std::fprintf(stderr, "idmint: this system cannot keep ids apart across fork(): %s\n", why);
  std::abort();
}

// The pages that a child of fork() wipes itself, as nobody else does. There from the load of the
// program, and never destroyed: other static objects have pages.
struct ByHand {
  constexpr ByHand() : pages{} {}
  ~ByHand() {}  // NOLINT(modernize-use-equals-default): it would destroy the pages

  bool needed = false;
  std::mutex mutex{};
  union {
    std::vector<std::pair<void*, std::size_t>> pages;
  };
};
constinit ByHand by_hand;

// qemu-user 7 and older, in which a program runs on a processor that is not its own, grants every
// advice and takes none. A kernel refuses what is no advice.
bool grants_everything() noexcept {
  constexpr int kNoAdvice = -1;
  return ::madvise(nullptr, 0, kNoAdvice) == 0;
}

// Before any other thread, and before static objects map pages.
[[gnu::constructor(101)]] void attend_forks() noexcept {
  by_hand.needed = grants_everything();
  if (!by_hand.needed) return;
  const auto lock = [] { by_hand.mutex.lock(); };
  const auto unlock = [] { by_hand.mutex.unlock(); };
  const auto wipe = [] {
    for (const auto& [pages, size] : by_hand.pages) std::memset(pages, 0, size);
    by_hand.mutex.unlock();
  };
  if (::pthread_atfork(lock, unlock, wipe) != 0) end_process("no memory for a handler of fork()");
}

}  // namespace

void* map_fork_wiped(std::size_t size) {
  void* pages = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc{};
  if (::madvise(pages, size, MADV_WIPEONFORK) != 0)
    end_process("madvise MADV_WIPEONFORK failed; run Linux 4.14 or later");
  if (by_hand.needed) {
    const std::lock_guard lock(by_hand.mutex);
    by_hand.pages.emplace_back(pages, size);
  }
  return pages;
}

void unmap_fork_wiped(void* pages, std::size_t size) noexcept {
  if (by_hand.needed) {
    const std::lock_guard lock(by_hand.mutex);
    std::erase(by_hand.pages, std::pair(pages, size));
  }
  ::munmap(pages, size);
}

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
