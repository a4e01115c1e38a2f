// Where randomness comes from. Nothing in idmint draws a random bit but through an Entropy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "idmint/result.h"

namespace idmint {

// A source of uniformly distributed bytes. Any thread may call it at any time. It must outlive
// everything that was given it. It cannot fail: a source that has nothing safe to give does not
// return.
class IDMINT_EXPORT Entropy {
 public:
  virtual void fill(std::span<std::byte> out) noexcept = 0;

  // Eight bytes of fill() as a number, native-endian; a source may have a shorter way.
  [[nodiscard]] virtual std::uint64_t draw() noexcept {
    std::uint64_t value;
    fill(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

 protected:
  ~Entropy() = default;
};

// Cryptographically secure: for each thread an AES-128-CTR stream keyed by the kernel (getrandom),
// keyed anew after 1 MiB and in every child of fork() or clone() (one of vfork(), which shares its
// parent's memory, goes on in its parent's stream). A thread's first 256 bytes are the kernel's
// own. Not for signal handlers. Ends the process when the kernel gives no randomness: an id made
// without it would be a repeat in waiting.
//
// A copy of the process that no kernel tells of (a VM snapshot, a container checkpoint) draws the
// same bytes as its original as long as both use one key. So a stream is keyed anew, too, when the
// key is older than 10 ms by the monotonic or the wall clock; and a key is mixed with RDSEED
// (RNDR), the time stamp counter and both clocks, as the copied kernel may have the same
// randomness. What is left: of each thread that existed when the copy was made, what it draws in
// the first 10 ms, and what it has buffered: at most 4048 bytes, 256 if it draws less than that in
// 10 ms. That is looked at when a buffer is refilled, so a thread that is idle keeps its buffer.
[[nodiscard]] IDMINT_EXPORT Entropy& system_entropy() noexcept;

}  // namespace idmint
