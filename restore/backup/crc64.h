// CRC-64 of archives ("CRC-64/XZ"; crc64.ECMA of Go): the polynomial of ECMA-182, reflected; init
// and final XOR are all ones.
#pragma once

#include <cstdint>
#include <span>

namespace idmint::restore {

// Continues the CRC of the bytes before with `bytes`. Begins with 0.
[[nodiscard]] std::uint64_t crc64(std::uint64_t crc, std::span<const std::uint8_t> bytes);

}  // namespace idmint::restore
