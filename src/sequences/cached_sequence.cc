#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "idmint/sequence.h"
#include "sequences/cached_state.h"

namespace idmint {
namespace {

using std::chrono::nanoseconds;

// After this time without a claim the process may have been copied (a VM snapshot, a container
// checkpoint), and the copy holds the same values.
constexpr std::chrono::minutes kHeldThroughPause{10};

}  // namespace

constinit thread_local CachedSequence::Holding CachedSequence::holdings_[kHoldings] = {};

namespace {

// Set when the thread has given back its slices. Destructors of other thread_local objects that run
// later find none, and take one value at a time.
constinit thread_local bool thread_is_ending = false;

}  // namespace

// ---- handing out

Result<Range> CachedSequence::State::claim(Slice* slice, const Wish& wish) {
  for (;;) {
    Range cut;
    if (slice != nullptr && slice->kept.load(std::memory_order_relaxed) != 0 &&
        cut_from_kept(*slice, wish.most, cut)) {
      return cut;
    }
    drop_after_pause();
    if (!cut_at_cursor(wish.most, cut)) {
      if (auto waited = wait_and_cut(wish, cut); !waited) {
        return std::unexpected(std::move(waited).error());
      }
    }
    const std::int64_t mark = cursor->mark.load();  // after the cut: set_mark()
    if (cut.first < mark && mark <= cut.first + cut.count) {
      prefetch(wish.wanted - cut.count);
      if (is_stopped.load()) {  // the fetch may have stopped it
        lost.fetch_add(cut.count, std::memory_order_relaxed);
        continue;
      }
    }
    return cut;
  }
}

bool CachedSequence::State::paused_until(Instant now) const noexcept {
  const nanoseconds pause = now - claimed_at.load(std::memory_order_relaxed);
  return pause > kHeldThroughPause || pause < -kHeldThroughPause;
}

void CachedSequence::State::drop_after_pause() {
  const Instant now = coarse.now();
  if (paused_until(now)) {
    // Under the lock, so that other callers wait here and do not cut the values to be dropped.
    const std::unique_lock lock = locked();
    if (paused_until(now)) {
      Range rest;
      if (cut_at_cursor(std::numeric_limits<std::int64_t>::max(), rest))
        lost.fetch_add(rest.count, std::memory_order_relaxed);
      lost.fetch_add(std::exchange(pending, Range{}).count, std::memory_order_relaxed);
      lost.fetch_add(values_in(std::exchange(spare, {})), std::memory_order_relaxed);
      has_spare.store(false, std::memory_order_relaxed);
    }
    claimed_at.store(now, std::memory_order_relaxed);
  } else if (claimed_at.load(std::memory_order_relaxed) != now) {
    claimed_at.store(now, std::memory_order_relaxed);
  }
}

bool CachedSequence::State::cut_at_cursor(std::int64_t most, Range& cut,
                                          std::int64_t least) noexcept {
  for (;;) {
    const std::int64_t limit = cursor->limit.load(std::memory_order_acquire);
    std::int64_t next = cursor->next.load(std::memory_order_acquire);
    if (next >= limit || limit - next < least) return false;
    const std::int64_t count = std::min(most, limit - next);
    if (cursor->next.compare_exchange_weak(next, next + count)) {
      cut = {next, 1, count};
      return true;
    }
  }
}

// Either this sees that the sequence was stopped, or stop() runs later and sees the slice.
void CachedSequence::State::keep(Slice& slice, const Range& values, std::uint64_t stops) noexcept {
  const std::int64_t end = values.last() + 1;
  slice.next.store(values.first, std::memory_order_relaxed);
  slice.until.store(end, std::memory_order_relaxed);
  slice.end.store(end, std::memory_order_seq_cst);
  if (is_stopped.load(std::memory_order_seq_cst) || times_stopped.load() != stops)
    slice.end.store(kStopped);
}

void CachedSequence::State::keep_for(Slice& slice, std::span<const std::int64_t> values) {
  std::vector<Kept> ranges;
  for (const std::int64_t value : values) {
    if (!ranges.empty() && ranges.back().values.last() + 1 == value) {
      ++ranges.back().values.count;
    } else {
      ranges.push_back({&slice, {value, 1, 1}});
    }
  }
  const std::lock_guard lock(mutex);
  kept.insert(kept.end(), ranges.begin(), ranges.end());
  slice.kept.fetch_add(std::ssize(values), std::memory_order_relaxed);
}

bool CachedSequence::State::cut_from_kept(Slice& slice, std::int64_t most, Range& cut) {
  const std::lock_guard lock(mutex);
  const auto first = std::ranges::find(kept, &slice, &Kept::slice);
  if (stopped || first == kept.end()) return false;
  cut = first->values;
  cut.count = std::min(most, cut.count);
  first->values = {cut.last() + 1, 1, first->values.count - cut.count};
  if (first->values.count == 0) kept.erase(first);
  slice.kept.fetch_sub(cut.count, std::memory_order_relaxed);
  return true;
}

Result<void> CachedSequence::State::wait_and_cut(const Wish& wish, Range& cut) {
  const auto& [wanted, most, whole, until] = wish;
  std::unique_lock lock = locked();
  std::uint64_t waits_for = 0;  // number of a fetch
  bool late = false;
  const auto answer = [&](Result<void> result) {
    if (waits_for != 0) {
      --waiting;
      wanting -= wanted;
    }
    return result;
  };
  for (;;) {
    if (stopped && !goes_on(lock, std::min(until, latest_end())))
      return answer(std::unexpected(*stopped));
    if (cut_at_cursor(most, cut)) return answer({});
    if (pending.count > 0) {
      make_current(clock.now());
      continue;
    }
    if (ended) {
      return answer(std::unexpected(
          used_up(definition, static_cast<std::uint64_t>(whole), definition.last, known.ended)));
    }
    const bool failed = waits_for != 0 && failed_fetch >= waits_for;
    if (failed && (!out_of_time || SteadyClock::now() + kFirstPause > until)) {
      return answer(std::unexpected(*failure));
    }
    if (late) {
      return answer(std::unexpected(about("sequence " + definition.name,
                                          {Code::kUnavailable,
                                           "no values came in time, and the store has not answered "
                                           "yet; nothing was taken for this call; ask again"})));
    }
    if (waits_for == 0) {
      until = std::min(until, latest_end());
      if (waiting++ == 0) paused = {};
      wanting += wanted;
    }
    if (waits_for == 0 || failed) waits_for = fetching ? fetches : fetches + 1;
    if (fetching) {
      late = changed.wait_until(lock, until) == std::cv_status::timeout;
    } else {
      fetching = true;
      ++fetches;
      fetch(lock, Patience::kUntilDeadline, until);
    }
  }
}

CachedSequence::Slice* CachedSequence::State::slice_of_this_thread(std::uint64_t number) {
  // The slices of this thread, given back when it ends.
  struct Uses {
    struct Use {
      std::uint64_t sequence;
      std::weak_ptr<State> state;
      Slice* slice;
    };
    std::vector<Use> uses;

    ~Uses() {
      thread_is_ending = true;
      for (Holding& holding : holdings_) holding = {};
      for (const Use& use : uses) {
        if (const auto state = use.state.lock()) state->give_back(use.slice);
      }
    }
  };
  Holding& holding = holdings_[number % kHoldings];
  if (holding.sequence == number) return holding.slice;
  if (thread_is_ending) return nullptr;
  thread_local Uses mine;
  const auto found = std::ranges::find(mine.uses, number, &Uses::Use::sequence);
  if (found != mine.uses.end()) {
    holding = {number, found->slice};
    return found->slice;
  }
  std::erase_if(mine.uses, [](const Uses::Use& use) { return use.state.expired(); });
  mine.uses.reserve(mine.uses.size() + 1);
  const std::lock_guard lock(mutex);
  if (unused.empty()) {
    if (slice_count % std::tuple_size_v<Slices> == 0) slices.emplace_back();
    unused.reserve(slice_count + 1);  // giving back never fails then
    unused.push_back(&(*slices.back())[slice_count % std::tuple_size_v<Slices>]);
    ++slice_count;
    if (stopped) unused.back()->end.store(kStopped);
  }
  Slice* const slice = unused.back();
  unused.pop_back();
  mine.uses.push_back({number, weak_from_this(), slice});
  holding = {number, slice};
  return slice;
}

// The rest of the slice goes to the next new thread. These are its first values, so its values
// increase.
void CachedSequence::State::give_back(Slice* slice) noexcept {
  if (!submitted.owned()) return;
  const std::lock_guard lock(mutex);
  unused.push_back(slice);
}

// ---- the sequence

CachedSequence::CachedSequence(std::shared_ptr<State> state) noexcept
    : number_([] {
        static std::atomic<std::uint64_t> sequences{0};
        return sequences.fetch_add(1) + 1;
      }()),
      state_(std::move(state)),
      stride_(state_->definition.stride),
      offset_(state_->definition.first % stride_) {}

CachedSequence::~CachedSequence() {
  if (state_->submitted.owned()) {
    close();
    return;
  }
  // In a child of fork() the lock may be held, so nothing is touched.
  state_->left_alone = state_;
}

Result<std::unique_ptr<Sequence>> open_cached(Store& store, SequenceDefinition definition,
                                              const SequenceOptions& options, Clock& clock,
                                              Entropy& entropy) {
  if (auto counters = read_counters(store, definition, options.until); !counters) {
    return std::unexpected(std::move(counters).error());
  }
  auto state = std::make_shared<CachedSequence::State>(store, std::move(definition), options, clock,
                                                       entropy);
  return std::unique_ptr<Sequence>(new CachedSequence(std::move(state)));
}

const SequenceDefinition& CachedSequence::definition() const noexcept { return state_->definition; }

Result<std::int64_t> CachedSequence::next_slice(SteadyTime until) {
  State& state = *state_;
  if (!state.submitted.owned())
    return std::unexpected(inherited_through_fork(state.definition.name));
  Slice* const slice = state.slice_of_this_thread(number_);
  if (slice != nullptr) {
    const std::int64_t value = slice->next.load(std::memory_order_relaxed);
    if (value < slice->end.load(std::memory_order_relaxed)) {
      slice->next.store(value + 1, std::memory_order_relaxed);
      return state.value_of(value);
    }
  }
  const std::int64_t most =
      slice != nullptr ? std::max<std::int64_t>(state.cursor->slice.load(), 1) : 1;
  const std::uint64_t stops = state.times_stopped.load();
  const Result<Range> values =
      state.claim(slice, {.wanted = 1, .most = most, .whole = 1, .until = until});
  if (!values) return std::unexpected(values.error());
  if (values->count > 1) state.keep(*slice, {values->first + 1, 1, values->count - 1}, stops);
  return state.value_of(values->first);
}

Result<void> CachedSequence::next(std::span<std::int64_t> out, SteadyTime until) {
  if (out.size() == 1) {  // as cheap as next()
    if (take_held(out.front())) return {};
    const Result<std::int64_t> value = next_slice(until);
    if (!value) return std::unexpected(value.error());
    out.front() = *value;
    return {};
  }
  State& state = *state_;
  if (!state.submitted.owned())
    return std::unexpected(inherited_through_fork(state.definition.name));
  if (out.empty()) return {};
  const auto all = static_cast<std::int64_t>(out.size());
  if (auto right = check_count(state.definition, all); !right) return right;
  Slice* const slice = state.slice_of_this_thread(number_);
  std::size_t filled = 0;
  if (slice != nullptr) {
    std::int64_t value = slice->next.load(std::memory_order_relaxed);
    const std::int64_t end = slice->end.load(std::memory_order_relaxed);
    while (filled < out.size() && value < end) out[filled++] = value++;
    slice->next.store(value, std::memory_order_relaxed);
  }
  const std::uint64_t stops = state.times_stopped.load();
  while (filled < out.size()) {
    const auto wanted = static_cast<std::int64_t>(out.size() - filled);
    const std::int64_t most =
        slice != nullptr ? std::max(wanted, state.cursor->slice.load()) : wanted;
    const Result<Range> values =
        state.claim(slice, {.wanted = wanted, .most = most, .whole = all, .until = until});
    if (!values) {
      if (slice != nullptr) {
        state.keep_for(*slice, out.first(filled));
      } else {
        state.lost.fetch_add(static_cast<std::int64_t>(filled), std::memory_order_relaxed);
      }
      return std::unexpected(values.error());
    }
    const std::int64_t used = std::min(wanted, values->count);
    for (std::int64_t i = 0; i < used; ++i) out[filled++] = values->at(i);
    if (used < values->count)
      state.keep(*slice, {values->at(used), 1, values->count - used}, stops);
  }
  state.values_of(out);
  (slice != nullptr ? slice->extra : state.extra)
      .fetch_add(out.size() - 1, std::memory_order_relaxed);
  return {};
}

Result<void> CachedSequence::submit(std::span<std::int64_t> out,
                                    MoveOnlyFunction<void(Result<void>)> done) {
  State& state = *state_;
  if (!state.submitted.owned())
    return std::unexpected(inherited_through_fork(state.definition.name));
  if (out.empty()) return submit_nothing(state.executor, std::move(done));
  if (auto right = check_count(state.definition, std::ssize(out)); !right) return right;
  return state.submitted.submit({out, state.latest_end(), std::move(done)});
}

bool CachedSequence::try_next(std::span<std::int64_t> out) noexcept {
  State& state = *state_;
  if (!state.submitted.owned()) return false;
  if (out.size() != 1 && !check_values(state.definition, out)) return false;
  return out.empty() || state.try_fill(out);
}

std::int64_t CachedSequence::held() const noexcept {
  State& state = *state_;
  if (!state.submitted.owned()) return 0;
  const std::lock_guard lock(state.mutex);
  return state.stopped ? 0 : state.values_held();
}

std::size_t CachedSequence::waiting() const noexcept {
  State& state = *state_;
  if (!state.submitted.owned()) return 0;
  const std::lock_guard lock(state.mutex);
  return state.waiting;
}

void CachedSequence::close() noexcept {
  State& state = *state_;
  if (!state.submitted.owned()) return;
  std::unique_lock lock(state.mutex);
  state.stop(about("sequence " + state.definition.name, {Code::kUnavailable, "closed"}));
  state.stopped_within.reset();
  lock.unlock();
  state.submitted.close();
  lock.lock();
  state.changed.wait(lock, [&state] { return !state.fetching; });
}

std::vector<Range> CachedSequence::given_up() const {
  State& state = *state_;
  if (!state.submitted.owned()) return {};
  const std::lock_guard lock(state.mutex);
  return state.stopped ? merged(state.ranges_held()) : std::vector<Range>{};
}

SequenceStatistics CachedSequence::statistics() const noexcept {
  State& state = *state_;
  if (!state.submitted.owned()) return {};
  const std::lock_guard lock(state.mutex);
  const std::int64_t lost = state.lost.load(std::memory_order_relaxed);
  std::uint64_t extra = state.extra.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < state.slice_count; ++i) {
    extra += state.slice_at(i).extra.load(std::memory_order_relaxed);
  }
  const std::int64_t held = state.values_held();
  const std::int64_t values = std::max<std::int64_t>(state.taken - held - lost, 0);
  return {.requests = std::max(static_cast<std::uint64_t>(values), extra) - extra,
          .rounds = state.tally.round_trips(),
          .values = values,
          .waste = state.tally.waste() + lost + (state.stopped ? held : 0)};
}

Result<std::unique_ptr<CachedSequence>> CachedSequence::open(Store& store, std::string_view name,
                                                             const SequenceOptions& options,
                                                             Clock& clock, Entropy& entropy) {
  Opened opened = Sequence::open(store, name, options, clock, entropy);
  if (!opened) return std::unexpected(std::move(opened).error());
  const Strategy strategy = (*opened)->definition().strategy;
  if (strategy == Strategy::kCached)
    return std::unique_ptr<CachedSequence>(static_cast<CachedSequence*>(opened->release()));
  return std::unexpected(error_at(store, Code::kFailedPrecondition, name,
                                  "it is " + std::string(idmint::name(strategy)) +
                                      ", not cached; open it with Sequence::open()"));
}

}  // namespace idmint
