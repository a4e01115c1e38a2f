#include "sequences/multi_store_range_source.h"

#include <algorithm>
#include <string>

#include "base/errors.h"
#include "base/outcome.h"
#include "sequences/combined_sequence.h"
#include "sequences/life_cycle.h"
#include "sequences/strategies.h"

namespace idmint {
namespace {

std::int64_t left_from(const CounterBounds& bounds, std::int64_t next) {
  return next > bounds.last ? 0 : (bounds.last - next) / bounds.stride + 1;
}

// Others may have moved the end since the definition was read.
Result<std::vector<CounterState>> counters_now(const MultiStores::Member& member,
                                               SteadyTime until) {
  return with_latest(
      *member.store, member.definition,
      [&](const SequenceDefinition& its) { return read_counters(*member.store, its, until); },
      until);
}

// Whether an error of one store ends the round. A store that is closed, by a retire or since a
// fail-over may have lost values, is left out like one that does not answer.
bool stops_all(Code code) noexcept {
  return must_be_mended(code) && code != Code::kFailedPrecondition;
}

// The answer of one store when a sequence is opened.
struct StripeRead {
  Result<const MultiStores::Member*> member = nullptr;
  Result<std::vector<CounterState>> counters = std::unexpected(Error{});
};

// For the group commit, which words the error.
Error too_few_there() { return {Code::kOutOfRange, "too few are left"}; }

}  // namespace

MultiStoreRangeSource::MultiStoreRangeSource(std::shared_ptr<MultiStores> stores,
                                             std::span<const Found> found, Clock& clock,
                                             Entropy& entropy, Executor& executor,
                                             std::chrono::milliseconds deadline)
    : shared_(std::make_shared<Shared>(std::move(stores), clock, entropy, deadline)),
      executor_(executor) {
  for (const Found& each : found) {
    stripes_.push_back({.known = {.bounds = each.bounds}});
    Health& health = shared_->health.emplace_back(Health{.next = each.bounds.first});
    if (each.next) {
      health.next = *each.next;
      stripes_.back().used_up = left_from(each.bounds, *each.next) == 0;
    } else {
      shared_->leave_out(health, each.next.error());
    }
    shared_->stores->tell(shared_->health.size() - 1, each.next ? nullptr : &each.next.error());
  }
}

MultiStoreRangeSource::~MultiStoreRangeSource() {
  std::unique_lock lock(shared_->mutex);
  shared_->closed = true;
  shared_->changed.wait(lock, [this] { return shared_->probes == 0; });
}

Result<std::span<Range>> MultiStoreRangeSource::advance(std::int64_t count, Take take,
                                                        SteadyTime until) {
  if (lost_store_ != nullptr)
    if (const Error* const lost = lost_.in(*lost_store_, until)) return std::unexpected(*lost);
  bool all_of_one = take == Take::kAll;
  bool unknown = false;  // an attempt may have been applied
  for (Stripe& stripe : stripes_) stripe.failed = false;
  while (kept_.count() < count) {
    const std::optional<std::size_t> k = pick(until);
    if (!k) break;
    const std::int64_t missing = count - kept_.count();
    const Result<void> asked =
        ask(*k, missing, all_of_one ? Take::kAll : Take::kTail, attempt_until(until));
    if (asked) continue;
    const Error& why = asked.error();
    if (why.code == Code::kOutOfRange) {
      if (!all_of_one) continue;
      if (const Result<void> there = must_have(missing, until, unknown); !there)
        return std::unexpected(there.error());
      all_of_one = false;
      continue;
    }
    if (stops_all(why.code)) return std::unexpected(why);
    unknown = unknown || outcome_unknown(why.code);
    stripes_[*k].failed = true;
    leave_out(*k, why);
    if (std::chrono::steady_clock::now() >= until) break;
  }
  const std::int64_t there = std::min(count, kept_.count());
  if (there < count && some_left_out()) return std::unexpected(unreachable(unknown));
  if (there == 0 || (there < count && take == Take::kAll)) return std::unexpected(too_few_there());
  probe_those_due();
  tally_.take_back_waste(there);
  return kept_.hand_over(there);
}

Error MultiStoreRangeSource::refusal(std::uint64_t count) const {
  const SequenceDefinition& definition = shared_->stores->definition();
  return used_up(definition, count, definition.last, extended_);
}

// The store to ask next: of those that answer the one whose next value is the smallest, and if none
// does the one that failed first. nullopt: all were asked in this round, or are used up.
std::optional<std::size_t> MultiStoreRangeSource::pick(SteadyTime until) {
  std::unique_lock lock(shared_->mutex);
  for (;;) {
    std::optional<std::size_t> best;
    std::optional<std::size_t> left_out;
    bool probing = false;
    for (std::size_t k = 0; k < stripes_.size(); ++k) {
      const Health& health = shared_->health[k];
      if (stripes_[k].used_up || stripes_[k].failed) continue;
      if (health.probing) {
        probing = true;
      } else if (!health.why) {
        if (!best || health.next < shared_->health[*best].next) best = k;
      } else if (!left_out || health.since < shared_->health[*left_out].since) {
        left_out = k;
      }
    }
    if (best) return best;
    if (left_out) {
      shared_->health[*left_out].posted = false;
      return left_out;
    }
    if (!probing) return std::nullopt;
    if (shared_->changed.wait_until(lock, until) == std::cv_status::timeout) return std::nullopt;
  }
}

// Takes from stripe k and keeps the values. kOutOfRange: it has too few (kAll), or none (kTail).
Result<void> MultiStoreRangeSource::ask(std::size_t k, std::int64_t count, Take take,
                                        SteadyTime until) {
  const MultiStores& stores = *shared_->stores;
  const Result<const MultiStores::Member*> member = shared_->stores->at(k, until);
  if (!member) return std::unexpected(member.error());
  Stripe& stripe = stripes_[k];
  const std::int64_t possible = std::min(count, left_from(stripe.known.bounds, stripe.known.floor));
  if (take == Take::kAll && possible < count) return std::unexpected(too_few_there());
  const std::string& name = stores.definition().name;
  Store& store = *(*member)->store;
  const std::int64_t settled = store.settle_count();
  if (!stripe.from) stripe.from.emplace(store, kind_of(stores.definition()));
  const Result<Range> values =
      believed_advance(*stripe.from, name, stripe.known, possible, take, until, name, tally_);
  if (values) {
    // Values that were taken before the store was settled may be given to others after it.
    const std::int64_t before = std::exchange(stripe.settled, store.settle_count());
    if (before >= 0 && before != stripe.settled) kept_.clear();
    kept_.add(*values);
    tally_.add_waste(values->count);
    stripe.used_up =
        values->count < possible || left_from(stripe.known.bounds, stripe.known.floor) == 0;
    bool is_back = false;
    {
      const std::lock_guard lock(shared_->mutex);
      Health& health = shared_->health[k];
      health.next = stripe.known.floor;
      is_back = health.why.has_value();
      health.why.reset();
      health.pause = {};
    }
    if (is_back) stores.tell(k, nullptr);
    return {};
  }
  Error why = values.error();
  if (why.code == Code::kOutOfRange) {
    extended_ = extended_ || stripe.known.ended;
    if (take == Take::kTail || stripe.known.ended) stripe.used_up = true;
  }
  if (why.code == Code::kDataLoss) {
    add_outcome(why, "it is the stripe in " + stores.url(k));
    why = naming_places(std::move(why));
    lost_.remember(store, why, settled, until);
    lost_store_ = &store;
  }
  return std::unexpected(std::move(why));
}

// Whether all stores together have as many values now. Marks those that have none.
// - kOutOfRange: they have fewer.
// - kUnavailable: those that answer have fewer.
Result<void> MultiStoreRangeSource::must_have(std::int64_t count, SteadyTime until, bool unknown) {
  for (std::size_t k = 0; k < stripes_.size(); ++k) {
    Stripe& stripe = stripes_[k];
    {
      const std::lock_guard lock(shared_->mutex);
      if (stripe.used_up || stripe.failed || shared_->health[k].why) continue;
    }
    const Result<const MultiStores::Member*> member = shared_->stores->at(k, attempt_until(until));
    const Result<CounterState> now =
        member ? (*member)->store->counters()->peek(shared_->stores->definition().name,
                                                    attempt_until(until))
               : std::unexpected(member.error());
    tally_.count_round_trip();
    if (!now) {
      if (stops_all(now.error().code)) return std::unexpected(now.error());
      stripe.failed = true;
      leave_out(k, now.error());
      continue;
    }
    const std::int64_t its = left_from(stripe.known.bounds, now->next);
    stripe.used_up = its == 0;
    count -= std::min(count, its);
  }
  if (count == 0) return {};
  if (some_left_out()) return std::unexpected(unreachable(unknown));
  return std::unexpected(too_few_there());
}

// The deadline of the next attempt. All that answer, and one of those that do not, may follow it.
SteadyTime MultiStoreRangeSource::attempt_until(SteadyTime until) {
  std::size_t answer = 0;
  std::size_t others = 0;
  const std::lock_guard lock(shared_->mutex);
  for (std::size_t k = 0; k < stripes_.size(); ++k) {
    if (stripes_[k].used_up || stripes_[k].failed) continue;
    ++(shared_->health[k].why ? others : answer);
  }
  return share_of(until, answer == 0 ? others : answer + std::min<std::size_t>(others, 1));
}

void MultiStoreRangeSource::leave_out(std::size_t k, const Error& why) {
  bool gave = false;
  {
    const std::lock_guard lock(shared_->mutex);
    gave = !shared_->health[k].why;
    shared_->leave_out(shared_->health[k], why);
  }
  if (gave) shared_->stores->tell(k, &why);
}

bool MultiStoreRangeSource::some_left_out() const {
  const std::lock_guard lock(shared_->mutex);
  for (std::size_t k = 0; k < stripes_.size(); ++k)
    if (!stripes_[k].used_up && (stripes_[k].failed || shared_->health[k].why)) return true;
  return false;
}

// Names each store that may have values and was not reached.
Error MultiStoreRangeSource::unreachable(bool unknown) const {
  const MultiStores& stores = *shared_->stores;
  std::string text = "sequence " + stores.definition().name + ": ";
  std::size_t named = 0;
  bool forbidden = true;
  std::string each;
  const std::lock_guard lock(shared_->mutex);
  for (std::size_t k = 0; k < stripes_.size(); ++k) {
    const std::optional<Error>& why = shared_->health[k].why;
    if (stripes_[k].used_up || !why) continue;
    each += (named++ == 0 ? "" : "; ") + stores.url(k) + " (" + why->message() + ")";
    forbidden = forbidden && must_be_mended(why->code);
  }
  text += named == stripes_.size()
              ? "none of its " + std::to_string(named) + " stores gives values: "
              : "the stores that answer have too few values, and others do "
                "not answer: ";
  const Code code = forbidden ? Code::kFailedPrecondition : Code::kUnavailable;
  return {unknown ? Code::kUnknown : code, text + each};
}

void MultiStoreRangeSource::Shared::leave_out(Health& store, Error why) {
  store.since = clock.now();
  store.why = std::move(why);
  const bool first = store.pause == store.pause.zero();
  store.pause = first ? kFirstPause : std::min(store.pause * 2, kLongestPause);
  const auto half = static_cast<std::uint64_t>(store.pause.count() / 2);
  store.wait =
      std::chrono::nanoseconds{static_cast<std::int64_t>(half + entropy.draw() % (half + 1))};
}

// The clock may have been set back.
void MultiStoreRangeSource::probe_those_due() {
  std::unique_lock lock(shared_->mutex);
  std::optional<Instant> now;
  for (std::size_t k = 0; k < stripes_.size(); ++k) {
    Health& health = shared_->health[k];
    if (!health.why || health.posted || health.probing) continue;
    if (!now) now = shared_->clock.now();
    const auto ago = *now - health.since;
    if (ago >= ago.zero() && ago < health.wait) continue;
    health.posted = true;
    lock.unlock();
    const Result<void> posted = executor_.post([shared = shared_, k] { shared->probe(k); });
    lock.lock();
    if (!posted) health.posted = false;
  }
}

// Reads the counter of a store that is left out. In a task.
void MultiStoreRangeSource::Shared::probe(std::size_t k) {
  std::unique_lock lock(mutex);
  Health& store = health[k];
  if (closed || !std::exchange(store.posted, false) || !store.why) return;
  store.probing = true;
  ++probes;
  lock.unlock();
  const SteadyTime until = std::chrono::steady_clock::now() + deadline;
  const Result<const MultiStores::Member*> member = stores->at(k, until);
  const Result<std::vector<CounterState>> counters =
      member ? counters_now(**member, until) : std::unexpected(member.error());
  // Before a round asks it again, which may report the next change.
  if (counters) stores->tell(k, nullptr);
  lock.lock();
  --probes;
  store.probing = false;
  if (counters) {
    store.why.reset();
    store.pause = {};
    store.next = std::max(store.next, counters->front().next);
  } else {
    leave_out(store, counters.error());
  }
  changed.notify_all();
}

Opened open_multi_store(Store& store, SequenceDefinition definition, const SequenceOptions& options,
                        Clock& clock, Entropy& entropy) {
  const std::chrono::milliseconds deadline = deadline_of(store, options);
  const SteadyTime until = std::min(options.until, std::chrono::steady_clock::now() + deadline);
  const auto stores = std::make_shared<MultiStores>(store, definition, options.multi_store);
  if (Result<void> known = stores->identify(until); !known)
    return std::unexpected(std::move(known.error()));
  // Half of the time is for what follows.
  const SteadyTime half = share_of(until, 2);
  std::vector<StripeRead> read(stores->size());
  stores->on_all(half, [&](std::size_t k) {
    read[k].member = stores->at(k, half);
    if (read[k].member) read[k].counters = counters_now(**read[k].member, half);
    return read[k].counters.has_value();
  });
  std::vector<MultiStoreRangeSource::Found> found;
  for (std::size_t k = 0; k < stores->size(); ++k) {
    SequenceDefinition its = definition;
    its.stripe = static_cast<std::int64_t>(k);
    const Result<const MultiStores::Member*>& member = read[k].member;
    if (member) its = (*member)->definition;
    if (its.retired)
      return std::unexpected(error_at(*(*member)->store, Code::kFailedPrecondition, its,
                                      "it is retired there, and not in each of its stores; retire "
                                      "it again",
                                      {Remedy::kRetireSequence, its.name}));
    const Result<std::vector<CounterState>> counters =
        member ? std::move(read[k].counters) : std::unexpected(member.error());
    const bool is_other = !member && !stores->refuses(k);  // than the definition says
    if (!counters &&
        (is_other ? must_be_mended(counters.error().code) : stops_all(counters.error().code)))
      return std::unexpected(counters.error());
    if (!counters && !may_come_back(counters.error().code) && options.multi_store.left_out)
      options.multi_store.left_out(stores->url(k), counters.error());
    found.push_back({.bounds = counters ? counters->front().bounds : counter_of(its, 0).bounds,
                     .next = counters ? Result<std::int64_t>(counters->front().next)
                                      : std::unexpected(counters.error())});
  }
  return std::make_unique<CombinedSequence>(
      std::move(definition), options, deadline, [&](const SequenceDefinition&) {
        return std::make_unique<MultiStoreRangeSource>(stores, found, clock, entropy,
                                                       executor_of(options), deadline);
      });
}

}  // namespace idmint
