// The hash function of the tables and sketches of an analysis.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace idmint::restore {

// A fast hash of 64 bits. It does not resist an attacker who chooses the bytes.
[[nodiscard]] inline std::uint64_t hash_of(std::string_view bytes, std::uint64_t seed) {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
  const auto mix = [](std::uint64_t a, std::uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  };
  std::uint64_t hash = seed ^ (odd * (bytes.size() + 1));
  while (bytes.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    hash = mix(hash ^ word, odd);
    bytes.remove_prefix(8);
  }
  // The rest as two words that may overlap. A copy of constant size compiles to a load.
  std::uint64_t rest = 0;
  if (bytes.size() >= 4) {
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    std::memcpy(&low, bytes.data(), 4);
    std::memcpy(&high, bytes.data() + bytes.size() - 4, 4);
    rest = low | std::uint64_t{high} << 32;
  } else {
    for (const char byte : bytes) rest = rest << 8 | static_cast<std::uint8_t>(byte);
  }
  return mix(hash ^ rest, 0xd6e8feb86659fd93) ^ hash;
}

[[nodiscard]] inline std::uint64_t hash_of(std::span<const std::uint8_t> bytes,
                                           std::uint64_t seed) {
  return hash_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, seed);
}

}  // namespace idmint::restore
