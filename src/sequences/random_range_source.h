// RandomRangeSource: rounds of random values, each claimed under a unique key. Unique, without an
// order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "idmint/definition.h"
#include "idmint/entropy.h"
#include "idmint/store.h"
#include "sequences/range_source.h"
#include "store/unique_index.h"

namespace idmint {

// Each attempt of a round draws the missing values and claims them with one insert; values that
// were claimed before are drawn again. A value is handed out only if a successful insert reported
// it as claimed by us. After an unknown outcome other values are drawn.
//
// The next insert detects a store that has gone back: each insert includes one earlier claim of
// this process, the witness. Claims are never freed, so an insert that can claim the witness proves
// that the store lost claims. This costs no round trip. The first insert includes all witnesses
// that this process has of the sequence, from earlier rounds too (ids/last_issued.h).
// After the store was settled, earlier knowledge of claims is void, and kept values are dropped.
//
// A round is refused before it claims anything if it would exceed most_claims(): the sequence is
// used up, as one that has come to its last value is. The number of claims is known from the
// opening, from our own claims, and from the store, which is asked again whenever a thousand draws
// collide more often than expected. Values that were claimed for a failed round are kept for the
// next one.
class RandomRangeSource final : public RangeSource {
 public:
  // A round gives up after this many attempts in a row without a value. In a space at its limit
  // this happens to one round of one id in 10^16; if it happens, others have filled the space.
  static constexpr int kMostInVain = 400;
  // It also gives up after this many unknown outcomes, or after one whose deadline passed.
  static constexpr int kMostUnknown = 3;

  // `claimed` is the number of claims as read. All references must outlive it.
  RandomRangeSource(Store& store, const SequenceDefinition& definition, std::int64_t claimed,
                    Entropy& entropy);

  [[nodiscard]] Result<std::span<Range>> advance(std::int64_t count, Take take,
                                                 SteadyTime until) override;
  [[nodiscard]] Error refusal(std::uint64_t count) const override;
  [[nodiscard]] std::span<const Range> kept() const noexcept override { return kept_; }

 private:
  [[nodiscard]] std::int64_t kept_values() const noexcept;
  [[nodiscard]] std::int64_t room() const noexcept;
  [[nodiscard]] Result<void> claim(std::int64_t count, SteadyTime until);
  [[nodiscard]] Result<void> look(SteadyTime until);
  [[nodiscard]] std::string how_full() const;
  [[nodiscard]] Error gone_back(const std::string& how, SteadyTime until) const;
  void hold_within(std::int64_t settled);
  [[nodiscard]] std::span<Range> hand_over(std::int64_t count);
  void meet_earlier_claims();
  [[nodiscard]] std::int64_t most_witnesses() const noexcept;

  GivingStore from_;
  Store& store_;
  const SequenceDefinition& definition_;
  Entropy& entropy_;
  const std::int64_t size_;
  std::int64_t claimed_;            // a lower bound of the claims
  std::int64_t draws_ = 0;          // since the store was last asked for the claims
  std::int64_t collisions_ = 0;     // of these
  std::vector<std::int64_t> keys_;  // of one insert; the witnesses first
  LastIssued* const issued_;        // null: nothing is remembered
  bool with_all_ = false;           // the next insert includes all witnesses
  // The last claim of each of the latest inserts, the newest at the back. An insert with an unknown
  // outcome uses one up, since it may have claimed the witness itself.
  std::vector<std::int64_t> witnesses_;
  static constexpr std::size_t kMostWitnesses = 8;
  std::vector<Range> kept_;    // claimed and not handed out
  std::vector<Range> values_;  // the values handed over last
  Lost lost_;
  std::int64_t settled_;  // Store::settle_count(), within which the claims are known
  bool counted_ = true;   // false: claimed_ is to be read
};

}  // namespace idmint
