#include "base/biased_counter.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace idmint {
namespace {

bool membarrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

// Registers once in a process. Takes 25 us while it has one thread, and some milliseconds later.
bool can_make_all_threads_pass_a_barrier() noexcept {
  static const bool registered = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  return registered;
}

void make_all_threads_pass_a_barrier() noexcept {
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
  // This is a child of fork(), and the kernel does not inherit the registration.
  if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
      membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
    return;
  }
  std::fputs(
      "idmint: membarrier() worked before and fails now; without it ids could repeat. Was a "
      "seccomp filter put in place after the first id?\n",
      stderr);
  std::abort();
}

}  // namespace

bool BiasedCounter::join(std::uintptr_t me) noexcept {
  for (;;) {
    std::uintptr_t owner = owner_.load(std::memory_order_acquire);
    if (owner == me) return true;
    if (owner == kEverybody) return false;
    if (owner == kNobody) {
      const std::uintptr_t heir = can_make_all_threads_pass_a_barrier() ? me : kEverybody;
      owner_.compare_exchange_strong(owner, heir, std::memory_order_acq_rel);
    } else if (owner == kBeingWithdrawn) {
      ::sched_yield();
    } else if (owner_.compare_exchange_strong(owner, kBeingWithdrawn, std::memory_order_acq_rel)) {
      make_all_threads_pass_a_barrier();
      while (busy_.load(std::memory_order_acquire) != 0) ::sched_yield();
      owner_.store(kEverybody, std::memory_order_release);
    }
  }
}

}  // namespace idmint
