#include "sequences/stripe_range_source.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/outcome.h"
#include "base/uniform.h"
#include "sequences/strategies.h"
#include "store/counter_store.h"

namespace idmint {
namespace {

// The values left from `next` on. The end in the store may differ from the one known here.
std::int64_t left(const CounterBounds& bounds, std::int64_t next) {
  return next > bounds.last ? 0 : (bounds.last - next) / bounds.stride + 1;
}

// For the group commit, which words the error.
Error too_few() { return {Code::kOutOfRange, "too few are left"}; }

}  // namespace

StripeRangeSource::StripeRangeSource(Store& store, const SequenceDefinition& definition,
                                     std::span<const CounterState> stripes, Clock& clock,
                                     Entropy& entropy)
    : from_(store, kind_of(definition)), definition_(definition), clock_(clock), entropy_(entropy) {
  for (const CounterState& stripe : stripes) {
    if (stripe.left() > 0) open_.push_back(stripes_.size());
    stripes_.push_back({.known = {.bounds = stripe.bounds}});
  }
}

Result<std::span<Range>> StripeRangeSource::advance(std::int64_t count, Take take,
                                                    SteadyTime until) {
  if (const Error* const lost = lost_.in(from_.store(), until)) return std::unexpected(*lost);
  keep_within(from_.store().settle_count());
  bool all_of_one = take == Take::kAll;
  const SteadyTime begun = std::chrono::steady_clock::now();
  int failed = 0;
  std::optional<Error> unknown;  // the error of the first attempt that may have been applied
  const auto in_all = [&](Error why) {
    if (unknown && was_not_applied(why.code)) why = *unknown;
    if (failed < 2) return why;
    const auto waited = std::chrono::steady_clock::now() - begun;
    end_of(why) += " (" + std::to_string(failed) + " of its counters were asked, for " +
                   std::to_string(std::chrono::round<std::chrono::milliseconds>(waited).count()) +
                   " ms together)";
    return why;
  };
  while (kept_.count() < count && !open_.empty()) {
    const std::int64_t missing = count - kept_.count();
    const Result<void> asked =
        ask_one(missing, all_of_one ? Take::kAll : Take::kTail, share_of(until, failed));
    if (asked) continue;
    const Error& why = asked.error();
    if (why.code == Code::kOutOfRange) {
      if (!all_of_one) continue;
      if (const Result<void> there = must_have(missing, until); !there) {
        return std::unexpected(in_all(there.error()));
      }
      all_of_one = false;
      continue;
    }
    const bool late = why.code == Code::kDeadlineExceeded;
    if (late && !unknown) unknown = why;
    const bool may_go_on = late || why.code == Code::kUnavailable;
    if (may_go_on && ++failed < kMostUnavailable && has_another() &&
        std::chrono::steady_clock::now() < until) {
      continue;
    }
    return std::unexpected(in_all(why));
  }
  const std::int64_t there = std::min(count, kept_.count());
  if (there == 0 || (there < count && take == Take::kAll)) return std::unexpected(too_few());
  tally_.take_back_waste(there);
  return kept_.hand_over(there);
}

// Takes from a random stripe and keeps the values. kOutOfRange: it has too few (kAll), or none
// (kTail).
Result<void> StripeRangeSource::ask_one(std::int64_t count, Take take, SteadyTime until) {
  const std::size_t place = pick();
  Stripe& stripe = stripes_[open_[place]];
  const std::int64_t possible = std::min(count, left(stripe.known.bounds, stripe.known.floor));
  if (take == Take::kAll && possible < count) return std::unexpected(too_few());
  const Result<Range> values = believed_advance(from_, name(open_[place]), stripe.known, possible,
                                                take, until, definition_.name, tally_);
  if (values) {
    stripe.failed_at = {};
    keep_within(from_.store().settle_count());
    kept_.add(*values);
    tally_.add_waste(values->count);
    const bool used_up = left(stripe.known.bounds, stripe.known.floor) == 0;
    if (values->count < possible || used_up) forget(place);
    return {};
  }
  const Error& why = values.error();
  if (why.code == Code::kOutOfRange && (take == Take::kTail || stripe.known.ended)) {
    extended_ = extended_ || stripe.known.ended;
    forget(place);
  }
  if (why.code == Code::kUnavailable || why.code == Code::kUnknown ||
      why.code == Code::kDeadlineExceeded) {
    stripe.failed_at = clock_.now();
  }
  if (why.code == Code::kDataLoss) lost_.remember(from_.store(), why, settled_, until);
  return std::unexpected(why);
}

// Values that were taken before the store was settled may be given to others after it.
void StripeRangeSource::keep_within(std::int64_t settled) {
  if (settled != std::exchange(settled_, settled)) kept_.clear();
}

Error StripeRangeSource::refusal(std::uint64_t count) const {
  return used_up(definition_, count, definition_.last, extended_);
}

std::string StripeRangeSource::name(std::size_t k) const {
  return counter_of(definition_, static_cast<std::int64_t>(k)).name;
}

// The index in open_ of a random stripe, if possible one that is not avoided.
std::size_t StripeRangeSource::pick() {
  constexpr int kDraws = 8;
  std::size_t place = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    place = static_cast<std::size_t>(uniform_below(entropy_, open_.size()));
    if (!left_alone(stripes_[open_[place]])) return place;
  }
  for (std::size_t step = 0; step < open_.size(); ++step) {
    const std::size_t other = (place + step) % open_.size();
    if (!left_alone(stripes_[open_[other]])) return other;
  }
  return place;
}

bool StripeRangeSource::left_alone(const Stripe& stripe) const {
  if (stripe.failed_at == Instant{}) return false;
  const auto ago = clock_.now() - stripe.failed_at;
  return ago >= ago.zero() && ago < kLeftAlone;
}

bool StripeRangeSource::has_another() const {
  return std::ranges::any_of(open_, [this](std::size_t k) { return !left_alone(stripes_[k]); });
}

// kOutOfRange: all stripes together have fewer values, as the store says now. Forgets stripes that
// have none.
Result<void> StripeRangeSource::must_have(std::int64_t count, SteadyTime until) {
  const Result<std::vector<CounterState>> now =
      from_.store().counters()->list(definition_.name + "/", until);
  tally_.count_round_trip();
  if (!now) return std::unexpected(now.error());
  const auto is_used_up = [&](std::size_t k) {
    const std::string wanted = name(k);
    const auto at = std::ranges::lower_bound(*now, wanted, {}, &CounterState::name);
    if (at == now->end() || at->name != wanted) return false;  // gone; its advance will report it
    const std::int64_t its = left(stripes_[k].known.bounds, at->next);
    count -= std::min(count, its);
    return its == 0;
  };
  std::erase_if(open_, is_used_up);
  if (count > 0) return std::unexpected(too_few());
  return {};
}

// The deadline of the next attempt: all attempts that may follow have equal shares of the time.
SteadyTime StripeRangeSource::share_of(SteadyTime until, int failed) const {
  const SteadyTime now = std::chrono::steady_clock::now();
  const std::int64_t most = std::min<std::int64_t>(kMostUnavailable, std::ssize(open_));
  const std::int64_t attempts = std::max<std::int64_t>(most - failed, 1);
  return now + std::max(until - now, SteadyTime::duration{}) / attempts;
}

// The order of the others does not matter.
void StripeRangeSource::forget(std::size_t place) {
  open_[place] = open_.back();
  open_.pop_back();
}

}  // namespace idmint
