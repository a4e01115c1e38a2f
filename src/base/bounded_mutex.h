// A mutex with a deadline.
#pragma once

#include <pthread.h>

#include <chrono>
#include <ctime>

#include "idmint/clock.h"

namespace idmint {

// Not std::timed_mutex, because the ThreadSanitizer of GCC 12 does not see its locks. All zero
// bytes are an unlocked mutex, as in a child of fork() on pages that the kernel wipes
// (fork_wiped.h).
class BoundedMutex {
 public:
  void lock() noexcept { [[maybe_unused]] const bool locked = try_lock_until(SteadyTime::max()); }

  // False: it could not be locked by then.
  [[nodiscard]] bool try_lock_until(SteadyTime until) noexcept {
    pthread_mutex_lock(&mutex_);
    for (bool late = false; taken_ && !late;) {
      const timespec at = time_of(until);
      late = pthread_cond_clockwait(&open_, &mutex_, CLOCK_MONOTONIC, &at) != 0;
    }
    const bool locked = !taken_;
    taken_ = true;
    pthread_mutex_unlock(&mutex_);
    return locked;
  }

  void unlock() noexcept {
    pthread_mutex_lock(&mutex_);
    taken_ = false;
    pthread_mutex_unlock(&mutex_);
    pthread_cond_signal(&open_);
  }

 private:
  // On CLOCK_MONOTONIC, the clock of steady_clock.
  static timespec time_of(SteadyTime at) noexcept {
    const auto since = at.time_since_epoch();
    const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
    return {.tv_sec = static_cast<time_t>(seconds.count()),
            .tv_nsec = static_cast<long>((since - seconds).count())};
  }

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t open_ = PTHREAD_COND_INITIALIZER;
  bool taken_ = false;
};

}  // namespace idmint
