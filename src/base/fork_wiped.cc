#include "base/fork_wiped.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace idmint {
namespace {

// The pages that a child of fork() wipes itself, as nobody else does. One for the process, made
// when it is first needed, and never freed.
class WipedByHand {
 public:
  WipedByHand() {
    ::pthread_atfork([] { here()->mutex_.lock(); }, [] { here()->mutex_.unlock(); },
                     [] {
                       for (const auto& [pages, size] : here()->pages_) std::memset(pages, 0, size);
                       here()->mutex_.unlock();
                     });
  }
  void add(void* pages, std::size_t size) {
    const std::lock_guard lock(mutex_);
    pages_[pages] = size;
  }
  void remove(void* pages) {
    const std::lock_guard lock(mutex_);
    pages_.erase(pages);
  }

  // Null: none is needed so far.
  static WipedByHand* here() noexcept { return here_.load(std::memory_order_acquire); }
  static WipedByHand& needed() {
    static WipedByHand& made = *new WipedByHand;
    here_.store(&made, std::memory_order_release);
    return made;
  }

 private:
  static constinit std::atomic<WipedByHand*> here_;

  std::mutex mutex_;
  std::map<void*, std::size_t> pages_;
};

constinit std::atomic<WipedByHand*> WipedByHand::here_{nullptr};

// qemu-user, in which a program runs on a processor that is not its own, grants every advice and
// takes none. A kernel refuses what is no advice.
bool grants_everything(void* pages, std::size_t size) noexcept {
  constexpr int kNoAdvice = -1;
  return ::madvise(pages, size, kNoAdvice) == 0;
}

}  // namespace

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
  if (grants_everything(pages, size)) WipedByHand::needed().add(pages, size);
  return pages;
}

void unmap_fork_wiped(void* pages, std::size_t size) noexcept {
  if (WipedByHand* const by_hand = WipedByHand::here()) by_hand->remove(pages);
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
