// Randomness. idmint draws random bits through an Entropy only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "idmint/result.h"

namespace idmint {

// A source of uniformly distributed bytes. Any thread may call it at any time. It must outlive
// everything that uses it. It cannot fail: a source without safe bytes does not return.
class IDMINT_EXPORT Entropy {
 public:
  virtual void fill(std::span<std::byte> out) noexcept = 0;

  // Eight bytes of fill() as a number, native-endian. A source may override it with a faster way.
  [[nodiscard]] virtual std::uint64_t draw() noexcept {
    std::uint64_t value;
    fill(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

 protected:
  ~Entropy() = default;
};

// Cryptographically secure. Each thread has an AES-128-CTR stream whose key comes from the kernel
// (getrandom). The key is replaced after 1 MiB and in every child of fork() or clone(). A child of
// vfork() shares its parent's memory and continues its parent's stream. The first 256 bytes of a
// thread come from the kernel directly. Not for signal handlers. Ends the process if the kernel
// gives no randomness, since ids made without it could repeat.
//
// A copy of the process that the kernel does not report (a VM snapshot, a container checkpoint)
// draws the same bytes as the original while both use one key. So a key is also replaced when it is
// older than 10 ms by the monotonic or the wall clock. Each new key is mixed with RDSEED (RNDR),
// the time stamp counter and both clocks, because the copied kernel may have the same randomness.
// One exposure remains for each thread that existed at the copy: the bytes that it draws in the
// first 10 ms, and its buffer. The buffer has at most 4048 bytes, or 256 if the previous one lasted
// longer than 10 ms. The age of the key is checked when a buffer is refilled, so an idle thread
// keeps its buffer.
[[nodiscard]] IDMINT_EXPORT Entropy& system_entropy() noexcept;

}  // namespace idmint
