// The number of values that a cached sequence takes from its store at a time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace idmint {

// The fixed step of the definition, or an adaptive one: a range lasts for the horizon at the rate
// of the previous range. It grows at most eightfold at a time, so that one burst does not cost a
// range of its rate. It takes six ranges from the smallest step to 1 M values, which a store 25 ms
// away needs for 1 M ids a second. One thread at a time.
class Step final {
 public:
  static constexpr std::int64_t kSmallest = 16;
  static constexpr std::int64_t kLargest = 10'000'000;

  // A `fixed` of 0: adaptive.
  Step(std::int64_t fixed, std::chrono::nanoseconds horizon) noexcept
      : fixed_(fixed != 0), horizon_(horizon), step_(fixed_ ? fixed : kSmallest) {}

  [[nodiscard]] bool is_fixed() const noexcept { return fixed_; }

  // The number of values to request if `left` are left; an adaptive step takes at most 1/256 of
  // them.
  [[nodiscard]] std::int64_t wanted(std::int64_t left) const noexcept {
    if (fixed_) return step_;
    constexpr std::int64_t kLargestShare = 256;
    return std::min(step_, std::max(left / kLargestShare, kSmallest));
  }

  // The values used in this time at the latest rate; at most kLargest.
  [[nodiscard]] std::int64_t used_in(std::chrono::nanoseconds time) const noexcept {
    return static_cast<std::int64_t>(
        std::min(rate_ * static_cast<double>(time.count()), static_cast<double>(kLargest)));
  }

  // `used` values lasted for `lasted`.
  void learn(std::int64_t used, std::chrono::nanoseconds lasted) noexcept {
    constexpr int kGrowth = 8;
    constexpr int kShrinkage = 2;
    rate_ =
        static_cast<double>(used) / static_cast<double>(std::max<std::int64_t>(lasted.count(), 1));
    if (fixed_) return;
    step_ = std::clamp(std::clamp(used_in(horizon_), step_ / kShrinkage, step_ * kGrowth),
                       kSmallest, kLargest);
  }

  // A range was perhaps taken and is lost. Many such in a row cost no more than twice the first.
  void lost() noexcept { step_ = std::max(step_ / 2, std::min(step_, kSmallest)); }

 private:
  bool fixed_;
  std::chrono::nanoseconds horizon_;
  std::int64_t step_;
  double rate_ = 0;  // values a nanosecond
};

}  // namespace idmint
