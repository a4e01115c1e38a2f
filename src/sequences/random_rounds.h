// RandomRounds: rounds of random values, each claimed under a unique key: unique, in no order.
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
#include "sequences/rounds.h"
#include "stores/spi/unique_index.h"

namespace idmint {

// Each attempt of a round draws what is missing and claims it with one insert; what others had
// claimed before is drawn again. A value is handed out only if an insert that succeeded said that
// it is ours; after an unknown outcome others are drawn.
//
// A store that was set back is noticed by the next insert: each insert names one earlier claim of
// this process again, the witness. A claim is never freed, so a witness that the insert can claim
// proves that the store lost claims. It costs no round trip.
//
// A round is refused before it claims anything where it would go beyond most_claims(), as far as is
// known: from the opening, from the claims of its own, and from the store again whenever a thousand
// draws collide more often than that. What it claimed for a round that came to nothing is kept and
// goes out with the next one.
class RandomRounds final : public Rounds {
 public:
  // A round gives up when so many attempts in a row gave nothing. As full as a space may get that
  // is one round of one id in 10^16; where it comes about, others have filled the space.
  static constexpr int kMostInVain = 400;
  // Nor does it go on after so many unknown outcomes, or one whose deadline passed.
  static constexpr int kMostUnknown = 3;

  // `claimed`: how many values are, as was read. All references must outlive it.
  RandomRounds(Store& store, const SequenceDefinition& definition, std::int64_t claimed,
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
  [[nodiscard]] Error gone_back(const std::string& how) const;
  [[nodiscard]] std::span<Range> hand_over(std::int64_t count);

  Store& store_;
  const SequenceDefinition& definition_;
  Entropy& entropy_;
  const std::int64_t size_;
  std::int64_t claimed_;            // at least so many values are
  std::int64_t draws_ = 0;          // since the store was asked how many are claimed
  std::int64_t collisions_ = 0;     // of these
  std::vector<std::int64_t> keys_;  // of one insert: the witness first, if there is one
  // The last claim of each of the latest inserts, the latest at the back. An insert of unknown
  // outcome uses one up: that insert itself may have claimed it again.
  std::vector<std::int64_t> witnesses_;
  static constexpr std::size_t kMostWitnesses = 8;
  std::vector<Range> kept_;    // claimed, and not handed out
  std::vector<Range> values_;  // what was handed over last
  std::optional<Error> lost_;  // the answer to everybody from now on
};

}  // namespace idmint
