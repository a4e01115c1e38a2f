// StripeRangeSource: rounds of many counters, picked at random. Unique, without an order.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/entropy.h"
#include "sequences/range_source.h"
#include "store/counter_store.h"

namespace idmint {

// A round requests all its values from one stripe. If that one has too few, the round first checks
// that all stripes together have enough, so that it takes nothing in vain; then it takes what it
// finds, stripe by stripe. If it still fails, because another process was faster or the store went
// away, the values taken are kept for the next round.
//
// A stripe that is used up is not asked again. A stripe that does not answer is avoided for a
// while, as long as there are others: another program may lock its document. The attempts of a
// round share its remaining time. A stripe that goes back is kDataLoss for the sequence. Stripes in
// different stores have MultiStoreRangeSource.
class StripeRangeSource final : public RangeSource {
 public:
  static constexpr std::chrono::nanoseconds kLeftAlone = std::chrono::seconds{1};
  // A round ends after this many attempts with a late answer or none.
  static constexpr int kMostUnavailable = 3;

  // `stripes` are the counters of the definition, as read. All references must outlive it.
  StripeRangeSource(Store& store, const SequenceDefinition& definition,
                    std::span<const CounterState> stripes, Clock& clock, Entropy& entropy);

  [[nodiscard]] Result<std::span<Range>> advance(std::int64_t count, Take take,
                                                 SteadyTime until) override;
  [[nodiscard]] Error refusal(std::uint64_t count) const override;
  [[nodiscard]] std::span<const Range> kept() const noexcept override { return kept_.ranges(); }

 private:
  struct Stripe {
    KnownCounter known;
    Instant failed_at{};  // Instant{}: never
  };

  [[nodiscard]] Result<void> ask_one(std::int64_t count, Take take, SteadyTime until);
  [[nodiscard]] std::string name(std::size_t k) const;
  [[nodiscard]] std::size_t pick();
  [[nodiscard]] bool left_alone(const Stripe& stripe) const;
  [[nodiscard]] bool has_another() const;
  [[nodiscard]] SteadyTime share_of(SteadyTime until, int failed) const;
  [[nodiscard]] Result<void> must_have(std::int64_t count, SteadyTime until);
  void forget(std::size_t place);
  void keep_within(std::int64_t settled);

  GivingStore from_;
  const SequenceDefinition& definition_;
  Clock& clock_;
  Entropy& entropy_;
  std::vector<Stripe> stripes_;
  std::vector<std::size_t> open_;  // stripes not known to be used up, in any order
  KeptValues kept_;
  bool extended_ = false;  // others extended a stripe
  Lost lost_;
  std::int64_t settled_ = 0;  // Store::settle_count(), within which the values are kept
};

}  // namespace idmint
