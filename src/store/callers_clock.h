// CallersClock: the clock of those who ask for a lease, where the server has one of its own.
#pragma once

#include <chrono>
#include <cstdint>

#include "idmint/clock.h"
#include "ids/lease_table.h"

namespace idmint::stores {

// In ms.
[[nodiscard]] inline std::int64_t since_1970(Instant at) {
  return std::chrono::floor<std::chrono::milliseconds>(at.time_since_epoch()).count();
}

// The time of the caller's clock now, given its time when the call began. `terms` must outlive it;
// null: there is nothing to compare.
class CallersClock {
 public:
  explicit CallersClock(const LeaseTerms* terms) : terms_(terms) {}
  [[nodiscard]] Instant now() const {
    const Instant clock = terms_ != nullptr ? terms_->clock : Instant{};
    return clock + (std::chrono::steady_clock::now() - begin_);
  }
  // In ms; below 0: nothing is compared.
  [[nodiscard]] std::int64_t max_skew() const {
    return terms_ == nullptr || terms_->clock == Instant{} ? -1 : terms_->max_skew.count();
  }

 private:
  const LeaseTerms* terms_;
  const SteadyTime begin_ = std::chrono::steady_clock::now();
};

}  // namespace idmint::stores
