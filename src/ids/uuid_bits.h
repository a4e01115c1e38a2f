// A UUID as two big-endian 64-bit numbers, and the positions of version, variant and time in them.
#pragma once

#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "idmint/clock.h"
#include "idmint/uuid.h"

namespace idmint::uuid_bits {

inline constexpr std::uint64_t kVersionMask = 0xf000;                  // in the upper half
inline constexpr std::uint64_t kVariantMask = std::uint64_t{3} << 62;  // in the lower half
inline constexpr std::uint64_t kVariant = std::uint64_t{2} << 62;

constexpr std::uint64_t big_endian(std::uint64_t value) noexcept {
  return std::endian::native == std::endian::little ? __builtin_bswap64(value) : value;
}

// One vector and one store, so that a copy of all 16 bytes need not wait for two stores to retire.
using Halves [[gnu::vector_size(16)]] = std::uint64_t;

inline Uuid from_halves(std::uint64_t high, std::uint64_t low) noexcept {
  return Uuid{std::bit_cast<Uuid::Bytes>(Halves{big_endian(high), big_endian(low)})};
}

inline std::uint64_t half(const Uuid& id, std::size_t index) noexcept {
  std::uint64_t value;
  std::memcpy(&value, id.bytes().data() + 8 * index, 8);
  return big_endian(value);
}

// ---- versions 1, 2 and 6

// Timestamps: 60 bits, steps of 100 ns since 1582-10-15.
inline constexpr std::uint64_t kStepsTo1970 = 0x01b21dd213814000;
inline constexpr std::int64_t kNsInStep = 100;

// Timestamps cover every Instant. Rounds down, before 1970 too.
constexpr std::uint64_t timestamp_of(Instant at) noexcept {
  const std::int64_t ns = at.time_since_epoch().count();
  const std::int64_t steps = ns / kNsInStep - (ns % kNsInStep < 0 ? 1 : 0);
  return kStepsTo1970 + static_cast<std::uint64_t>(steps);
}

constexpr std::optional<Instant> instant_of(std::uint64_t timestamp) noexcept {
  constexpr std::uint64_t first = timestamp_of(Instant::min()) + 1;  // starts within the Instants
  constexpr std::uint64_t last = timestamp_of(Instant::max());
  if (timestamp < first || timestamp > last) return std::nullopt;
  return Instant{
      std::chrono::nanoseconds{static_cast<std::int64_t>(timestamp - kStepsTo1970) * kNsInStep}};
}

// The timestamp in the upper half of version 1 and of version 6. Version 2 is like version 1,
// without the low 32 bits.
constexpr std::uint64_t timestamp_low_first(std::uint64_t half) noexcept {
  return (half & 0xfff) << 48 | (half & 0xffff0000) << 16 | half >> 32;
}
constexpr std::uint64_t timestamp_high_first(std::uint64_t half) noexcept {
  return half >> 16 << 12 | (half & 0xfff);
}

}  // namespace idmint::uuid_bits
