// The clocks of POSIX, in nanoseconds.
#pragma once

#include <time.h>

#include <cstdint>

namespace idmint {

// Calls the C library, not the kernel, so that replacements such as libfaketime work. `clock` is
// one that every kernel has, so the read cannot fail.
[[nodiscard]] inline std::int64_t read_ns(clockid_t clock) noexcept {
  timespec t;
  ::clock_gettime(clock, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

}  // namespace idmint
