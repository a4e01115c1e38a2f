// Values that differ between a process and its copy, even if the copy has the same kernel
// randomness.
#pragma once

#include <array>
#include <cstdint>

namespace idmint {

// A snapshot of a virtual machine copies the kernel's random generator too. Hypervisors with a VM
// generation id make the kernel reseed it, others do not. The values below differ as soon as the
// copies run: two copies have the same words only if the processor has no random numbers and both
// read the time stamp counter and both clocks at the same nanosecond.
struct Moment {
  std::uint64_t processor = 0;  // RDSEED or RNDR; 0: not available
  std::uint64_t ticks = 0;      // the time stamp counter; 0: not available
  std::uint64_t wall = 0;       // CLOCK_REALTIME, ns
  std::uint64_t boot = 0;       // CLOCK_BOOTTIME, ns

  friend bool operator==(const Moment&, const Moment&) = default;
};

// Takes about 1 us.
[[nodiscard]] Moment this_moment() noexcept;

// Moments that differ in one word have different digests; other moments have equal ones by chance
// only, 1 in 2^128. It is no secret, but it is mixed with secret bits.
[[nodiscard]] std::array<std::uint64_t, 2> digest_of(const Moment& moment) noexcept;

// A bijection: the finalizer of SplitMix64.
[[nodiscard]] constexpr std::uint64_t scatter(std::uint64_t x) noexcept {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

}  // namespace idmint
