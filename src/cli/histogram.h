// A histogram of durations: small, with an error of at most 1.6 %.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace idmint::cli {

// In nanoseconds. Below 128 every value is a class; above, each power of two has 64 classes. For
// one thread; merge() combines several.
class Histogram {
 public:
  void record(std::uint64_t ns) noexcept {
    ++classes_[class_of(ns)];
    ++count_;
    if (ns > max_) max_ = ns;
  }

  void merge(const Histogram& other) noexcept {
    for (std::size_t i = 0; i < kClasses; ++i) classes_[i] += other.classes_[i];
    count_ += other.count_;
    if (other.max_ > max_) max_ = other.max_;
  }

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] std::uint64_t max() const noexcept { return max_; }

  // The largest value of the quantile's class, but at most max(). 0 if empty. REQUIRES: 0 <= part
  // <= 1.
  [[nodiscard]] std::uint64_t quantile(double part) const noexcept {
    const auto wanted = static_cast<std::uint64_t>(part * static_cast<double>(count_));
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < kClasses; ++i) {
      below += classes_[i];
      if (below > wanted) return last_of(i) < max_ ? last_of(i) : max_;
    }
    return max_;
  }

 private:
  static constexpr int kBits = 6;  // bits of a value below its highest one
  static constexpr std::size_t kEach = std::size_t{1} << kBits;
  static constexpr std::size_t kClasses = kEach * (64 - kBits + 1);

  static std::size_t class_of(std::uint64_t ns) noexcept {
    const int shift = static_cast<int>(std::bit_width(ns)) - kBits - 1;
    if (shift <= 0) return static_cast<std::size_t>(ns);
    return static_cast<std::size_t>(shift) * kEach + static_cast<std::size_t>(ns >> shift);
  }

  static std::uint64_t last_of(std::size_t index) noexcept {
    if (index < 2 * kEach) return index;
    const std::size_t shift = index / kEach - 1;
    return ((std::uint64_t{index % kEach} + kEach + 1) << shift) - 1;
  }

  std::array<std::uint64_t, kClasses> classes_{};
  std::uint64_t count_ = 0;
  std::uint64_t max_ = 0;
};

}  // namespace idmint::cli
