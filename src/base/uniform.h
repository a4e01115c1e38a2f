// Uniform numbers from an entropy, without modulo bias.
#pragma once

#include <cstdint>

#include "idmint/entropy.h"

namespace idmint {

// Uniform over 0 to n - 1: the high half of a draw times n. The few draws that would favour some
// numbers are rejected (Lemire, "Fast random integer generation in an interval", 2019). REQUIRES: n
// >= 1.
[[nodiscard]] inline std::uint64_t uniform_below(Entropy& entropy, std::uint64_t n) noexcept {
  __extension__ using Wide = unsigned __int128;
  const auto times_n = [&] { return static_cast<Wide>(entropy.draw()) * n; };
  Wide product = times_n();
  if (static_cast<std::uint64_t>(product) < n) {
    const std::uint64_t uneven = (0 - n) % n;
    while (static_cast<std::uint64_t>(product) < uneven) product = times_n();
  }
  return static_cast<std::uint64_t>(product >> 64);
}

}  // namespace idmint
