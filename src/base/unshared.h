// Random bytes that no copy of this process draws as well.
//
// A snapshot of a virtual machine and a checkpoint of a container copy the state of every random
// generator, the kernel's included, until the hypervisor tells the kernel. So a draw mixes values
// that differ between two copies (moment.h) into the generators' output.
#pragma once

#include <array>
#include <cstdint>

#include "base/moment.h"
#include "idmint/entropy.h"

namespace idmint {

using CloneSafeNonce = std::array<std::uint8_t, 16>;

// Each draw reads getrandom(2), the process's entropy and this moment. Takes about 2 us.
[[nodiscard]] CloneSafeNonce draw_unshared() noexcept;
// The same as a source.
[[nodiscard]] Entropy& unshared_entropy() noexcept;

// As random as `words`. Two draws with equal words differ if the digests of their moments do.
[[nodiscard]] CloneSafeNonce unshared(const std::array<std::uint64_t, 2>& words,
                                      const Moment& moment) noexcept;

}  // namespace idmint
