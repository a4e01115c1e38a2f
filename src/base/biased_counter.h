// BiasedCounter: an atomic 64-bit counter that needs no locked instruction while one thread uses
// it.
#pragma once

#include <atomic>
#include <cstdint>

// ThreadSanitizer cannot follow a barrier of the kernel; under it the counter is an ordinary
// atomic.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define IDMINT_BIASED 0
#endif
#elif defined(__SANITIZE_THREAD__)
#define IDMINT_BIASED 0
#endif
#ifndef IDMINT_BIASED
#ifdef __x86_64__
#define IDMINT_BIASED 1
#else
#define IDMINT_BIASED 0
#endif
#endif

namespace idmint {

// The first thread that uses the counter owns it and adds with a plain instruction. The second
// thread ends this for ever: it withdraws the ownership, makes every thread of the process pass a
// memory barrier (membarrier(2)) and waits for an addition under way. From then on all threads use
// locked instructions. A locked addition waits for all earlier stores, and the next clock read
// waits for it: 5 of the 28 ns of a time-ordered id.
//
// All zero bytes are a counter of 0 without an owner. It may live on pages that fork() wipes.
// Threads may share it. Not for signal handlers: one could wait for ever for the thread that it
// interrupted. An ordinary atomic if the processor or the kernel lacks what this needs.
class BiasedCounter {
 public:
  // Returns the previous value.
  std::uint64_t fetch_add(std::uint64_t n) noexcept {
#if IDMINT_BIASED
    const std::uintptr_t me = thread_token();
    if (owner_.load(std::memory_order_relaxed) == me) [[likely]] {
      busy_.store(1, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      // A thread that withdraws the ownership sees busy_, or this thread sees the withdrawal:
      // membarrier() guarantees it.
      if (owner_.load(std::memory_order_relaxed) == me) [[likely]] {
        asm volatile("xaddq %0, %1" : "+r"(n), "+m"(value_) : : "memory", "cc");
        std::atomic_signal_fence(std::memory_order_seq_cst);
        busy_.store(0, std::memory_order_release);
        return n;
      }
      busy_.store(0, std::memory_order_release);
    }
    if (owner_.load(std::memory_order_acquire) != kEverybody) [[unlikely]] {
      if (join(me)) return fetch_add(n);
    }
#endif
    return value_.fetch_add(n, std::memory_order_acq_rel);
  }

  // Like std::atomic's; always a locked instruction.
  bool compare_exchange(std::uint64_t& expected, std::uint64_t desired) noexcept {
    fetch_add(0);  // so that no other thread owns the counter
    return value_.compare_exchange_strong(expected, desired, std::memory_order_acq_rel);
  }

  [[nodiscard]] std::uint64_t load() const noexcept {
    return value_.load(std::memory_order_acquire);
  }

 private:
  static constexpr std::uintptr_t kNobody = 0;
  static constexpr std::uintptr_t kEverybody = 1;
  static constexpr std::uintptr_t kBeingWithdrawn = 2;  // all others are addresses

  // Differs between any two live threads. The memory of a thread that has ended, and the ownership
  // with it, may pass to a later thread; its stores are visible to all by then.
  static std::uintptr_t thread_token() noexcept {
    static thread_local char here;
    return reinterpret_cast<std::uintptr_t>(&here);
  }

  // True: the caller now owns the counter. False: all threads share it.
  [[gnu::cold]] bool join(std::uintptr_t me) noexcept;

  // On separate cache lines: once all threads count, the value moves between the processors, while
  // the owner is only read.
  alignas(64) std::atomic<std::uint64_t> value_{0};
  alignas(64) std::atomic<std::uintptr_t> owner_{kNobody};
  std::atomic<std::uint32_t> busy_{0};
};

}  // namespace idmint
