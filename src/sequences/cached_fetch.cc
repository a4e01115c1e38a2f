#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

#include "base/outcome.h"
#include "sequences/cached_state.h"
#include "store/counter_store.h"

namespace idmint {
namespace {

using std::chrono::nanoseconds;

// If the store answers faster than this, the caller asks it: waking a thread takes as long.
constexpr nanoseconds kQuick = std::chrono::microseconds{5};

constexpr nanoseconds kLongestPause = std::chrono::milliseconds{200};  // close() may wait for it

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

// Spins first: a range is exchanged in less time than a thread takes to fall asleep.
std::unique_lock<std::mutex> CachedSequence::State::locked() {
  constexpr int kTries = 200;
  std::unique_lock lock(mutex, std::try_to_lock);
  for (int i = 0; i < kTries && !lock; ++i) {
    relax();
    static_cast<void>(lock.try_lock());
  }
  if (!lock) lock.lock();
  return lock;
}

// Whether the cursor is past the mark and nobody has fetched since. False if another caller without
// values fetched before the lock was acquired, which moved the mark.
bool CachedSequence::State::fetch_is_due() const {
  return !stopped && !ended && !fetching && pending.count == 0 &&
         cursor->next.load() >= cursor->mark.load();
}

// Called by the caller that reached the mark. `lacking`: the values that it still needs.
void CachedSequence::State::prefetch(std::int64_t lacking) {
  std::unique_lock lock = locked();
  if (!fetch_is_due() || fetch_posted) return;
  lacks = std::max<std::int64_t>(lacking, 0);
  if (latency < kQuick) {
    fetching = true;
    ++fetches;
    fetch(lock, Patience::kOneAttempt, latest_end());
    return;
  }
  post_fetch(lock);
}

void CachedSequence::State::have_prefetched() {
  std::unique_lock lock = locked();
  if (fetch_is_due() && !fetch_posted) post_fetch(lock);
}

void CachedSequence::State::post_fetch(std::unique_lock<std::mutex>& lock) {
  fetch_posted = true;
  lock.unlock();
  if (executor.post([state = shared_from_this()] { state->prefetch_in_task(); })) return;
  lock.lock();
  fetch_posted = false;  // a caller without values fetches
}

// A caller without values may have fetched before the task began.
void CachedSequence::State::prefetch_in_task() noexcept {
  std::unique_lock lock = locked();
  fetch_posted = false;
  if (!fetch_is_due()) return;
  fetching = true;
  ++fetches;
  fetch(lock, Patience::kUntilDeadline, latest_end());
}

// noexcept: without memory, ending the process is better than leaving callers waiting.
void CachedSequence::State::fetch(std::unique_lock<std::mutex>& lock, Patience patience,
                                  SteadyTime until) noexcept {
  Instant begin = clock.now();
  if (waiting == 0) paused = {};
  nanoseconds pause = kFirstPause;
  while (!stopped) {
    const std::int64_t count = std::max(
        {step.wanted((definition.last - known.floor) / definition.stride + 1), wanting, lacks});
    const std::int64_t settled = from.store().settle_count();
    lock.unlock();
    Result<Range> values = believed_advance(from, definition.name, known, count, Take::kTail, until,
                                            definition.name, tally);
    const bool is_lost = !values && values.error().code == Code::kDataLoss;
    const LostWithin within = is_lost ? lost_within(from.store(), settled, until) : LostWithin{};
    const Instant now = clock.now();
    lock.lock();
    if (values) {
      accept({values->first / definition.stride, 1, values->count}, now - begin, now);
      break;
    }
    const Code code = values.error().code;
    if (code == Code::kOutOfRange) {
      ended = true;
      break;
    }
    if (is_lost) {
      if (!stopped) stopped_within = within;
      stop(std::move(values).error());
      break;
    }
    if (outcome_unknown(code)) step.lost();
    if (patience == Patience::kOneAttempt || !patient_with(code, pause, until)) {
      if (patience == Patience::kUntilDeadline) {
        failed_fetch = fetches;
        out_of_time = SteadyClock::now() + pause > until;
        failure = std::move(values).error();
      }
      set_mark();
      break;
    }
    const auto half = static_cast<std::uint64_t>(pause.count() / 2);
    const nanoseconds jittered{static_cast<std::int64_t>(half + entropy.draw() % (half + 1))};
    paused += jittered;
    pause = std::min(pause * 2, kLongestPause);
    lock.unlock();
    clock.sleep_until(clock.now() + jittered, jittered);
    begin = clock.now();
    lock.lock();
  }
  fetching = false;
  lacks = 0;
  changed.notify_all();
}

bool CachedSequence::State::patient_with(Code code, nanoseconds pause, SteadyTime until) const {
  if (code != Code::kUnavailable && !outcome_unknown(code)) return false;
  return paused + pause <= deadline && SteadyClock::now() + pause <= until;
}

void CachedSequence::State::accept(const Range& values, nanoseconds took, Instant now) {
  latency = std::max(std::min(took, deadline), latency - latency / 8);
  taken += values.count;
  const bool follows = current.count > 0 && values.first == current.last() + 1;
  if (follows && step.is_fixed() && !stopped) {
    const std::int64_t next = cursor->next.load();
    step.learn(next - since_next, now - since);
    since = now;
    since_next = next;
    current = values;
    set_slice();
    set_mark();
    cursor->limit.store(current.last() + 1, std::memory_order_release);
    return;
  }
  pending = values;
  if (!stopped && cursor->next.load() >= cursor->limit.load()) make_current(now);
}

// REQUIRES: the cursor is at the limit; `pending` has values.
void CachedSequence::State::make_current(Instant now) {
  if (current.count > 0) step.learn(current.last() + 1 - since_next, now - since);
  since = now;
  current = std::exchange(pending, Range{});
  since_next = current.first;
  set_slice();
  cursor->next.store(current.first, std::memory_order_release);
  set_mark();
  cursor->limit.store(current.last() + 1, std::memory_order_release);
}

// Sets the size of a slice so that the threads share a range fairly.
void CachedSequence::State::set_slice() {
  const auto threads = static_cast<std::int64_t>(slice_count - unused.size());
  cursor->slice.store(std::clamp<std::int64_t>(
                          current.count / (4 * std::max<std::int64_t>(threads, 1)), 1, kSliceSize),
                      std::memory_order_relaxed);
}

// Sets the mark where the rest lasts for two fetches, but at most a range; and at half of the range
// at the latest, since the rate may rise.
//
// Cuts continue meanwhile. A caller cuts and then reads the mark; this function writes the mark and
// then reads the cursor, all sequentially consistent. So a caller that moves the cursor up to the
// mark, after it was seen below, finds the mark. If it is not seen below, the mark is set again.
void CachedSequence::State::set_mark() {
  const std::int64_t end = current.last() + 1;
  const std::int64_t used_meanwhile = 2 * step.used_in(latency);
  for (std::int64_t next = cursor->next.load(); next < end;) {
    const std::int64_t range = std::min(end - next, current.count);
    const std::int64_t left = std::max(range / 2, std::min(used_meanwhile, range));
    const std::int64_t mark = std::max(next + 1, end - left);
    cursor->mark.store(mark);
    next = cursor->next.load();
    if (next < mark) return;
  }
}

void CachedSequence::State::stop(Error why) {
  if (!stopped) stopped = std::move(why);
  times_stopped.fetch_add(1);
  // In this order: a thread that finds its slice stopped must find nothing at the cursor. Otherwise
  // the rest of the slice would be overwritten and be missing from the waste.
  cursor->limit.store(kStopped);
  is_stopped.store(true, std::memory_order_seq_cst);
  for (std::size_t i = 0; i < slice_count; ++i) {
    slice_at(i).end.store(kStopped, std::memory_order_seq_cst);
  }
  changed.notify_all();
}

// Its next values are above all that it took.
bool CachedSequence::State::goes_on(std::unique_lock<std::mutex>& lock, SteadyTime until) {
  if (!stopped_within) return false;
  const LostWithin within = *stopped_within;
  lock.unlock();
  const bool is_settled = is_settled_since(from.store(), within, until);
  lock.lock();
  if (!stopped) return true;  // another caller was quicker
  if (!is_settled || !stopped_within || fetching) return false;
  lost.fetch_add(values_held(), std::memory_order_relaxed);
  current = {};
  pending = {};
  spare.clear();
  has_spare.store(false, std::memory_order_relaxed);
  kept.clear();
  for (std::size_t i = 0; i < slice_count; ++i) {
    slice_at(i).kept.store(0, std::memory_order_relaxed);
    slice_at(i).until.store(0, std::memory_order_relaxed);
  }
  stopped.reset();
  stopped_within.reset();
  is_stopped.store(false, std::memory_order_seq_cst);
  return true;
}

std::int64_t CachedSequence::State::values_held() const {
  std::int64_t held = values_in(spare) + pending.count +
                      std::max<std::int64_t>(current.last() + 1 - cursor->next.load(), 0);
  for (std::size_t i = 0; i < slice_count; ++i) {
    const Slice& slice = slice_at(i);
    held += left_in(slice).count + slice.kept.load(std::memory_order_relaxed);
  }
  return held;
}

std::vector<Range> CachedSequence::State::ranges_held() const {
  std::vector<Range> held = spare;
  held.push_back(pending);
  const std::int64_t next = cursor->next.load();
  held.push_back({next, 1, std::max<std::int64_t>(current.last() + 1 - next, 0)});
  for (std::size_t i = 0; i < slice_count; ++i) held.push_back(left_in(slice_at(i)));
  for (const Kept& each : kept) held.push_back(each.values);
  for (Range& each : held) each = {value_of(each.first), definition.stride, each.count};
  return held;
}

}  // namespace idmint
