#include "sequences/random_range_source.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/outcome.h"
#include "base/uniform.h"
#include "idmint/sequence.h"
#include "sequences/strategies.h"
#include "store/counter_store.h"
#include "store/unique_index.h"

namespace idmint {
namespace {

constexpr std::int64_t kKeysAtOnce = UniqueIndex::kMaxKeys;
constexpr std::int64_t kWindow = 1000;  // the draws before the rate of collisions is judged

Error claims_gone(const Store& store, const SequenceDefinition& definition) {
  return error_at(store, Code::kDataLoss, definition.name,
                  "it is defined, but its claims are gone; restore the store, then go on with a "
                  "sequence of values that none in use is among");
}

}  // namespace

RandomRangeSource::RandomRangeSource(Store& store, const SequenceDefinition& definition,
                                     std::int64_t claimed, Entropy& entropy)
    : from_(store, LastIssued::Kind::kClaim),
      store_(store),
      definition_(definition),
      entropy_(entropy),
      size_(definition.size()),
      claimed_(claimed),
      issued_(from_.issued() != nullptr
                  ? &from_.issued()->counter(definition.name, LastIssued::Kind::kClaim)
                  : nullptr),
      settled_(store.settle_count()) {
  meet_earlier_claims();
}

Result<std::span<Range>> RandomRangeSource::advance(std::int64_t count, Take take,
                                                    SteadyTime until) {
  if (const Error* const lost = lost_.in(store_, until)) return std::unexpected(*lost);
  hold_within(store_.settle_count());
  if (issued_ != nullptr && issued_->has_lost_claims(settled_)) {
    Error why = gone_back("the store has lost values that were claimed", until);
    lost_.remember(store_, why, settled_, until);
    return std::unexpected(std::move(why));
  }
  if (!counted_)
    if (const Result<void> looked = look(until); !looked) return std::unexpected(looked.error());
  int in_vain = 0;  // attempts in a row
  int unknown = 0;
  std::optional<Error> first_unknown;
  while (kept_values() < count) {
    const std::int64_t missing = count - kept_values();
    const std::int64_t possible = std::min(missing, room());
    if (possible < missing && (take == Take::kAll || kept_values() + possible == 0)) {
      return std::unexpected(Error{Code::kOutOfRange, "too few can be claimed"});
    }
    if (possible == 0) break;
    const std::int64_t before = kept_values();
    const Result<void> claimed = claim(std::min(possible, kKeysAtOnce - most_witnesses()), until);
    if (!claimed) {
      const Error& why = claimed.error();
      if (why.code == Code::kUnknown && !first_unknown) first_unknown = why;
      if (why.code == Code::kUnknown && ++unknown < kMostUnknown) continue;
      if (why.code == Code::kDataLoss) lost_.remember(store_, why, settled_, until);
      return std::unexpected(first_unknown && was_not_applied(why.code) ? *first_unknown : why);
    }
    in_vain = kept_values() == before ? in_vain + 1 : 0;
    if (in_vain < kMostInVain) continue;
    const Result<void> looked = look(until);
    if (!looked && looked.error().code == Code::kDataLoss)
      lost_.remember(store_, looked.error(), settled_, until);
    if (!looked) return std::unexpected(looked.error());
    if (room() < 1) return std::unexpected(refusal(1));
    return std::unexpected(
        about(subject_of(definition_),
              {Code::kResourceExhausted, std::to_string(kMostInVain) +
                                             " draws in a row gave values that are claimed, and " +
                                             how_full() + "; ask again"}));
  }
  return hand_over(std::min(count, kept_values()));
}

// Known from the number of claims, and so no bad luck: it stays so until the last value is moved
// up.
Error RandomRangeSource::refusal(std::uint64_t count) const {
  Onward onward = onward_from(definition_);
  return about("sequence " + definition_.name,
               {Code::kOutOfRange,
                (count == 1 ? "used up" : "fewer than " + std::to_string(count) + " are left") +
                    "; " + how_full() + "; go on with " + onward.words,
                std::move(onward.advice)});
}

// "910 of 1000 values are claimed (91.0 % full, 10.1 redraws for the next id)".
std::string RandomRangeSource::how_full() const {
  std::array<char, 96> redraws{};
  if (claimed_ < size_) {
    std::snprintf(redraws.data(), redraws.size(), " (%.1f %% full, %.3g redraws for the next id)",
                  100 * static_cast<double>(claimed_) / static_cast<double>(size_),
                  occupancy(claimed_, size_).expected_redraws);
  }
  return std::to_string(claimed_) + " of " + std::to_string(size_) + " values are claimed" +
         redraws.data();
}

std::int64_t RandomRangeSource::kept_values() const noexcept {
  return static_cast<std::int64_t>(kept_.size());
}

// The claims that are left; below 0 if others exceeded the limit.
std::int64_t RandomRangeSource::room() const noexcept { return most_claims(size_) - claimed_; }

// The number for the next insert.
std::int64_t RandomRangeSource::most_witnesses() const noexcept {
  return with_all_ ? std::max<std::int64_t>(std::ssize(witnesses_), 1) : 1;
}

void RandomRangeSource::meet_earlier_claims() {
  witnesses_.clear();
  if (issued_ == nullptr) return;
  witnesses_ = issued_->claims(settled_);
  with_all_ = true;
}

// One attempt.
Result<void> RandomRangeSource::claim(std::int64_t count, SteadyTime until) {
  if (Result<void> is_settled = must_be_settled(from_, until); !is_settled) return is_settled;
  keys_.clear();
  if (with_all_) {
    keys_ = witnesses_;
  } else if (!witnesses_.empty()) {
    keys_.push_back(witnesses_.back());
  }
  const std::size_t drawn = keys_.size();
  for (std::int64_t i = 0; i < count; ++i) {
    keys_.push_back(definition_.first +
                    definition_.stride * static_cast<std::int64_t>(uniform_below(
                                             entropy_, static_cast<std::uint64_t>(size_))));
  }
  const std::int64_t known_settled = from_.settled();
  const Result<std::vector<bool>> ours =
      store_.unique_index()->insert(definition_.name, keys_, until);
  tally_.count_round_trip();
  if (!ours) {
    const Error& why = ours.error();
    if (why.code == Code::kUnknown || why.code == Code::kDeadlineExceeded) {
      tally_.add_waste(count);
      // This insert may have claimed the witnesses.
      for (std::size_t i = 0; i < drawn; ++i) {
        std::erase(witnesses_, keys_[i]);
        if (issued_ != nullptr) issued_->drop_claim(keys_[i]);
      }
    }
    if (why.code == Code::kNotFound) return std::unexpected(claims_gone(store_, definition_));
    return std::unexpected(why);
  }
  with_all_ = false;
  const std::int64_t settled = store_.settle_count();
  if (Result<void> is_settled = from_.must_be_settled(known_settled, until); !is_settled) {
    tally_.add_waste(std::ranges::count(*ours, true));
    return is_settled;
  }
  const auto place =
      std::find(ours->begin(), ours->begin() + static_cast<std::ptrdiff_t>(drawn), true) -
      ours->begin();
  if (place < static_cast<std::ptrdiff_t>(drawn) && settled == settled_) {
    tally_.add_waste(std::ranges::count(*ours, true) - 1);
    // The witness is claimed now, and would prove nothing to those who come later.
    if (issued_ != nullptr) issued_->lose_claims(settled_);
    return std::unexpected(gone_back("the store gave the value " +
                                         std::to_string(keys_[static_cast<std::size_t>(place)]) +
                                         ", which was claimed and given before, a second time",
                                     until));
  }
  hold_within(settled);
  const std::int64_t before = kept_values();
  for (std::size_t i = drawn; i < keys_.size(); ++i) {
    if ((*ours)[i]) kept_.push_back({keys_[i], 1, 1});
  }
  const std::int64_t claimed = kept_values() - before;
  if (claimed > 0) {
    if (witnesses_.size() == kMostWitnesses) witnesses_.erase(witnesses_.begin());
    witnesses_.push_back(kept_.back().first);
    if (issued_ != nullptr) issued_->add_claim(kept_.back().first, settled_);
  }
  tally_.add_waste(claimed);
  claimed_ += claimed;
  draws_ += count;
  collisions_ += count - claimed;
  if (draws_ < kWindow) return {};
  const bool many = collisions_ / Occupancy::kMostRedraws > draws_ / (Occupancy::kMostRedraws + 1);
  draws_ = 0;
  collisions_ = 0;
  return many ? look(until) : Result<void>{};
}

// Asks the store for the number of claims. A claim is never freed.
Result<void> RandomRangeSource::look(SteadyTime until) {
  const Result<std::int64_t> claimed = read_claimed(store_, definition_, until);
  tally_.count_round_trip();
  if (!claimed) return std::unexpected(claimed.error());
  hold_within(store_.settle_count());
  if (*claimed < claimed_) {
    return std::unexpected(gone_back("the store says that " + std::to_string(*claimed) +
                                         " values are claimed, and " + std::to_string(claimed_) +
                                         " were",
                                     until));
  }
  claimed_ = *claimed;
  counted_ = true;
  return {};
}

Error RandomRangeSource::gone_back(const std::string& how, SteadyTime until) const {
  // Without the mark, this process alone knows.
  [[maybe_unused]] const Result<void> marked =
      store_.mark_gone_back("sequence " + definition_.name + ": " + how, settled_, until);
  return error_at(store_, Code::kDataLoss, definition_.name,
                  how +
                      ": it has gone back; stop every process that uses it, and go on with a "
                      "sequence of values that none in use is among");
}

void RandomRangeSource::hold_within(std::int64_t settled) {
  if (settled == std::exchange(settled_, settled)) return;
  meet_earlier_claims();
  kept_.clear();
  claimed_ = 0;
  counted_ = false;
}

// Takes the last ones, since they have no order.
std::span<Range> RandomRangeSource::hand_over(std::int64_t count) {
  tally_.take_back_waste(count);
  const auto begin = kept_.end() - count;
  values_.assign(begin, kept_.end());
  kept_.erase(begin, kept_.end());
  return values_;
}

}  // namespace idmint
