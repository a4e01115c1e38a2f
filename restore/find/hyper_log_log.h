// HyperLogLog: an estimate of how many distinct hashes were added.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace idmint::restore {

// 64 registers in 64 bytes: a standard error of 13 %. Small cardinalities are counted linearly.
class HyperLogLog {
 public:
  void add(std::uint64_t hash) {
    const auto rank = static_cast<std::uint8_t>(std::countl_zero(hash | 63) + 1);
    std::uint8_t& most = ranks_[hash & 63];
    most = std::max(most, rank);
  }
  [[nodiscard]] double estimate() const {
    double sum = 0;
    for (const std::uint8_t rank : ranks_) sum += std::ldexp(1.0, -rank);
    const double raw = 0.709 * 64 * 64 / sum;
    const auto zeros = static_cast<double>(std::ranges::count(ranks_, 0));
    return raw < 160 && zeros > 0 ? 64 * std::log(64 / zeros) : raw;
  }

 private:
  std::array<std::uint8_t, 64> ranks_{};
};

}  // namespace idmint::restore
