// CRC-64 of archives: polynomial of ECMA-182, reflected, all bits set before and turned after
// ("CRC-64/XZ"; crc64.ECMA of Go).
#pragma once

#include <cstdint>
#include <span>

namespace idmint::restore {

// Of what `crc` is of, and then `bytes`; begins with 0.
[[nodiscard]] std::uint64_t crc64(std::uint64_t crc, std::span<const std::uint8_t> bytes);

}  // namespace idmint::restore
