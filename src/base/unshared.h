// Random bytes that no copy of this process draws too.
//
// A snapshot of a virtual machine and a checkpoint of a container copy the state of every random
// generator, the kernel's included, until the hypervisor tells the kernel. So a draw mixes what
// differs between two copies (moment.h) into what the generators give.
#pragma once

#include <array>
#include <cstdint>

#include "base/moment.h"

namespace idmint {

using Unshared = std::array<std::uint8_t, 16>;

// Reads getrandom(2), the entropy of the process and this moment, for each draw. About 2 us.
[[nodiscard]] Unshared draw_unshared() noexcept;

// As random as `words` are. Two draws from equal words differ if the digests of their moments do.
[[nodiscard]] Unshared unshared(const std::array<std::uint64_t, 2>& words,
                                const Moment& moment) noexcept;

}  // namespace idmint
