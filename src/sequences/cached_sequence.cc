#include "idmint/cached_sequence.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/fork_wiped.h"
#include "base/outcome.h"
#include "sequences/rounds.h"
#include "sequences/step.h"
#include "sequences/strategies.h"

namespace idmint {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr std::int64_t kSliceSize = 256;

// A store that answers in less is asked by the caller: to wake a thread takes as long.
constexpr nanoseconds kQuick = std::chrono::microseconds{5};

constexpr nanoseconds kFirstPause = milliseconds{10};
constexpr nanoseconds kLongestPause = milliseconds{200};  // close() may have to wait for it

// After so long without a claim the process may have been copied (a VM snapshot, a container
// checkpoint), and the copy holds the same values.
constexpr std::chrono::minutes kHeldThroughPause{10};

constexpr std::int64_t kStopped = std::numeric_limits<std::int64_t>::min();  // below all values

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

// The range that slices are cut from, at the cursor. Whoever moves the cursor from c to c + n with
// a compare-and-exchange owns c to c + n - 1. The cursor only grows, so nobody else gets these; and
// they are ours, because
//   - c is below a limit that was read before it;
//   - limits only grow. A range that begins where the one before ends moves the limit alone; any
//     other moves the cursor to its first value before it sets its limit, when the cursor stands
//     at the limit before. So from the cursor on to any limit that was read before it there are
//     values of ours without a gap.
// All zero, as fork() leaves it: nothing.
struct Cursor {
  std::atomic<std::int64_t> next;
  std::atomic<std::int64_t> limit;
  std::atomic<std::int64_t> mark;   // whoever moves `next` up to it or past it has a range fetched
  std::atomic<std::int64_t> slice;  // how many a thread takes at a time
};

struct CachedSequence::State : std::enable_shared_from_this<State> {
  State(Store& its_store, SequenceDefinition its_definition, const SequenceOptions& options)
      : store(*its_store.counters()),
        definition(std::move(its_definition)),
        clock(options.clock != nullptr ? *options.clock : system_clock()),
        coarse(options.clock != nullptr ? *options.clock : coarse_clock()),
        entropy(options.entropy != nullptr ? *options.entropy : system_entropy()),
        deadline(deadline_of(its_store, options)),
        known{{definition.first, definition.last}},
        step(definition.step, options.horizon) {}

  // ---- handing out; without the lock

  struct Wish {
    std::int64_t wanted;  // by the caller, who is to use so many
    std::int64_t most;    // and keep the others
    std::int64_t whole;   // what the call asked for
    SteadyTime& until;    // when the call ends; brought forward when it first has to wait
  };
  // The next 1 to `most` values, of those kept for the slice first. It may be null.
  Result<Range> claim(Slice* slice, const Wish& wish);
  // Keeps what a call that failed had, for the next of its thread: nobody else may have them, to
  // whom larger ones were given already.
  void keep_for(Slice& slice, std::span<const std::int64_t> values);
  bool cut_from_kept(Slice& slice, std::int64_t most, Range& cut);
  // Drops what no thread has, if there was no claim for kHeldThroughPause. What threads have in
  // their slices stays.
  void drop_after_pause();
  // The same without a fetch. False: there are none.
  bool cut_at_cursor(std::int64_t most, Range& cut) noexcept;
  // The same when there are values again. Under the lock, so that those who wait are counted until
  // they have what they wait for.
  Result<void> wait_and_cut(const Wish& wish, Range& cut);
  // Makes the slice, of the calling thread, `values`.
  void keep(Slice& slice, const Range& values) noexcept;
  // Null: the thread is ending, and has none any more.
  Slice* slice_of_this_thread(std::uint64_t number);
  void give_back(Slice* slice) noexcept;

  // ---- fetching

  std::unique_lock<std::mutex> locked();
  [[nodiscard]] SteadyTime latest_end() const { return SteadyClock::now() + deadline; }
  void prefetch(std::int64_t lacking);
  enum class Patience : bool { kOneAttempt, kUntilDeadline };
  // REQUIRES: `fetching` was set by the caller.
  void fetch(std::unique_lock<std::mutex>& lock, Patience patience, SteadyTime until) noexcept;
  void accept(const Range& values, nanoseconds took, Instant now);
  void run() noexcept;
  void make_current(Instant now);
  void set_slice();
  void set_mark();
  void stop(Error why);
  [[nodiscard]] bool patient_with(Code code, nanoseconds pause, SteadyTime until) const;
  [[nodiscard]] std::int64_t values_held() const;

  const OwnedByProcess owned;
  CounterStore& store;
  const SequenceDefinition definition;
  Clock& clock;
  Clock& coarse;  // read for each claim
  Entropy& entropy;
  const nanoseconds deadline;

  const ForkWiped<Cursor> cursor;
  std::atomic<Instant> claimed_at{};  // the latest claim, about
  // By calls that failed, of threads that are ending, which have no slice; and by a pause.
  std::atomic<std::int64_t> lost{0};
  std::atomic<std::uint64_t> extra{0};

  std::mutex mutex;
  std::condition_variable changed;  // a fetch has ended, or all has
  std::condition_variable asked;    // for the thread
  std::atomic<bool> is_stopped{false};
  std::optional<Error> stopped;  // the answer to everybody from now on
  bool ended = false;            // nothing is left in the store

  // Whose fetch it is writes these, one at a time.
  KnownCounter known;
  Tally tally;

  std::int64_t taken = 0;       // values of all ranges
  Range current;                // what the cursor goes through; of a fixed step, perhaps the latest
                                // of some that follow on each other
  Range pending;                // the range after it; may have none
  Instant since;                // when the current range came
  std::int64_t since_next = 0;  // where the cursor stood then
  Step step;                    // learns from whole ranges, from their first value to the last
  nanoseconds latency{};        // of the store: the longest of late

  bool fetching = false;
  bool thread_is_to_fetch = false;
  std::uint64_t fetches = 0;       // the number of the latest
  std::uint64_t failed_fetch = 0;  // the number of the latest that failed
  std::optional<Error> failure;    // and why
  bool out_of_time = false;        // it may succeed for a caller that has time left
  std::size_t waiting = 0;         // callers that found nothing
  std::int64_t wanting = 0;        // and how much they want, together
  std::int64_t lacks = 0;          // what the caller lacks that came to the mark
  nanoseconds paused{};            // since the first of them came, or the fetch began

  using Slices = std::array<Slice, 64>;  // a page
  std::deque<ForkWiped<Slices>> slices;
  std::vector<Slice*> unused;  // of threads that have ended, with what was left
  struct Kept {
    Slice* slice;
    Range values;
  };
  std::vector<Kept> kept;  // for each slice in order
  std::size_t slice_count = 0;

  std::thread thread;
  std::shared_ptr<State> left_alone;  // itself, in a child of fork()
};

constinit thread_local CachedSequence::Holding CachedSequence::holdings_[kHoldings] = {};

namespace {

// Set when the thread has given back its slices: what it runs after that, destructors of other
// thread_local objects, finds none and takes one value at a time.
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
      if (is_stopped.load()) {  // that the store has gone back, perhaps, was found just now
        lost.fetch_add(cut.count, std::memory_order_relaxed);
        continue;
      }
    }
    return cut;
  }
}

void CachedSequence::State::drop_after_pause() {
  const Instant now = coarse.now();
  const auto paused_until_now = [&] {
    const nanoseconds pause = now - claimed_at.load(std::memory_order_relaxed);
    return pause > kHeldThroughPause || pause < -kHeldThroughPause;
  };
  if (paused_until_now()) {
    // Under the lock: others wait here, so that they do not cut what is to be dropped.
    const std::unique_lock lock = locked();
    if (paused_until_now()) {
      Range rest;
      if (cut_at_cursor(std::numeric_limits<std::int64_t>::max(), rest))
        lost.fetch_add(rest.count, std::memory_order_relaxed);
      lost.fetch_add(std::exchange(pending, Range{}).count, std::memory_order_relaxed);
    }
    claimed_at.store(now, std::memory_order_relaxed);
  } else if (claimed_at.load(std::memory_order_relaxed) != now) {
    claimed_at.store(now, std::memory_order_relaxed);
  }
}

bool CachedSequence::State::cut_at_cursor(std::int64_t most, Range& cut) noexcept {
  for (;;) {
    const std::int64_t limit = cursor->limit.load(std::memory_order_acquire);
    std::int64_t next = cursor->next.load(std::memory_order_acquire);
    if (next >= limit) return false;
    const std::int64_t count = std::min(most, limit - next);
    if (cursor->next.compare_exchange_weak(next, next + count)) {
      cut = {next, 1, count};
      return true;
    }
  }
}

// Either this sees that the sequence has been stopped, or stop() comes after it and sees the slice.
void CachedSequence::State::keep(Slice& slice, const Range& values) noexcept {
  const std::int64_t end = values.last() + 1;
  slice.next.store(values.first, std::memory_order_relaxed);
  slice.until.store(end, std::memory_order_relaxed);
  slice.end.store(end, std::memory_order_seq_cst);
  if (is_stopped.load(std::memory_order_seq_cst)) slice.end.store(kStopped);
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
  std::uint64_t waits_for = 0;  // a fetch
  bool late = false;
  const auto answer = [&](Result<void> result) {
    if (waits_for != 0) {
      --waiting;
      wanting -= wanted;
    }
    return result;
  };
  for (;;) {
    if (stopped) return answer(std::unexpected(*stopped));
    if (cut_at_cursor(most, cut)) return answer({});
    if (pending.count > 0) {
      make_current(clock.now());
      continue;
    }
    if (ended) {
      return answer(std::unexpected(used_up(definition.name, static_cast<std::uint64_t>(whole),
                                            definition.last, known.ended)));
    }
    const bool failed = waits_for != 0 && failed_fetch >= waits_for;
    if (failed && (!out_of_time || SteadyClock::now() + kFirstPause > until)) {
      return answer(std::unexpected(*failure));
    }
    if (late) {
      return answer(std::unexpected(
          Error{Code::kUnavailable, "sequence " + definition.name +
                                        ": no values came in time, and the store has not answered "
                                        "yet; nothing was taken for this call; ask again"}));
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
  // What this thread has of each sequence, and gives back when it ends.
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
    unused.reserve(slice_count + 1);  // so that giving back never fails
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

// What is left in the slice goes to the next thread that comes: to it, it is the first it gets, so
// its values increase.
void CachedSequence::State::give_back(Slice* slice) noexcept {
  if (!owned) return;
  const std::lock_guard lock(mutex);
  unused.push_back(slice);
}

// ---- fetching

// A range is exchanged in less time than a thread takes to fall asleep.
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

// By the one caller that came to the mark, and what it lacks besides what it has got.
void CachedSequence::State::prefetch(std::int64_t lacking) {
  std::unique_lock lock = locked();
  if (stopped || ended || fetching || pending.count > 0) return;
  // The mark has been moved on: another caller found nothing, and fetched, before the lock was had.
  if (cursor->next.load() < cursor->mark.load()) return;
  if (latency >= kQuick && !thread.joinable()) {
    try {
      thread = std::thread(&State::run, this);
    } catch (const std::system_error&) {
      return;  // whoever finds nothing fetches it
    }
  }
  fetching = true;
  ++fetches;
  lacks = std::max<std::int64_t>(lacking, 0);
  if (latency < kQuick) {
    fetch(lock, Patience::kOneAttempt, latest_end());
    return;
  }
  thread_is_to_fetch = true;
  lock.unlock();
  asked.notify_one();
}

// The thread's whole life.
void CachedSequence::State::run() noexcept {
  std::unique_lock lock(mutex);
  for (;;) {
    asked.wait(lock, [this] { return thread_is_to_fetch || stopped; });
    if (!std::exchange(thread_is_to_fetch, false)) return;
    fetch(lock, Patience::kUntilDeadline, latest_end());
  }
}

// noexcept: with no memory left it is better to end the process than to leave callers waiting.
void CachedSequence::State::fetch(std::unique_lock<std::mutex>& lock, Patience patience,
                                  SteadyTime until) noexcept {
  Instant begin = clock.now();
  if (waiting == 0) paused = {};
  nanoseconds pause = kFirstPause;
  while (!stopped) {
    const std::int64_t count =
        std::max({step.wanted(definition.last - known.floor + 1), wanting, lacks});
    lock.unlock();
    Result<Range> values = believed_advance(store, definition.name, known, count, Take::kTail,
                                            until, definition.name, tally);
    const Instant now = clock.now();
    lock.lock();
    if (values) {
      accept(*values, now - begin, now);
      break;
    }
    const Code code = values.error().code;
    if (code == Code::kOutOfRange) {
      ended = true;
      break;
    }
    if (code == Code::kDataLoss) {
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

// REQUIRES: the cursor stands at the limit; `pending` has values.
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

// So that the threads share a range out fairly.
void CachedSequence::State::set_slice() {
  const auto threads = static_cast<std::int64_t>(slice_count - unused.size());
  cursor->slice.store(std::clamp<std::int64_t>(
                          current.count / (4 * std::max<std::int64_t>(threads, 1)), 1, kSliceSize),
                      std::memory_order_relaxed);
}

// Where so much is left that it lasts for two fetches, but no more than a range; and when half of
// the range is used up at latest, since the rate may rise.
//
// Cuts go on meanwhile. A caller cuts and then reads the mark, this writes the mark and then reads
// the cursor, all of it sequentially consistent: a caller that moves the cursor up to the mark
// after it was seen below it finds the mark. If it is not seen below, it is marked again.
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
  // In this order: who finds its slice stopped must find nothing at the cursor, or the rest of the
  // slice would be overwritten and be missing from the waste.
  cursor->limit.store(kStopped);
  is_stopped.store(true, std::memory_order_seq_cst);
  for (std::size_t i = 0; i < slice_count; ++i) {
    Slices& page = *slices[i / std::tuple_size_v<Slices>];
    page[i % std::tuple_size_v<Slices>].end.store(kStopped, std::memory_order_seq_cst);
  }
  changed.notify_all();
  asked.notify_all();
}

std::int64_t CachedSequence::State::values_held() const {
  std::int64_t held =
      pending.count + std::max<std::int64_t>(current.last() + 1 - cursor->next.load(), 0);
  for (std::size_t i = 0; i < slice_count; ++i) {
    const Slices& page = *slices[i / std::tuple_size_v<Slices>];
    const Slice& slice = page[i % std::tuple_size_v<Slices>];
    const std::int64_t left =
        slice.until.load(std::memory_order_relaxed) - slice.next.load(std::memory_order_relaxed);
    held +=
        std::clamp<std::int64_t>(left, 0, kSliceSize) + slice.kept.load(std::memory_order_relaxed);
  }
  return held;
}

// ---- the sequence

CachedSequence::CachedSequence(std::shared_ptr<State> state) noexcept
    : number_([] {
        static std::atomic<std::uint64_t> sequences{0};
        return sequences.fetch_add(1) + 1;
      }()),
      state_(std::move(state)) {}

CachedSequence::~CachedSequence() {
  if (state_->owned) {
    close();
    return;
  }
  // In a child of fork() the lock may be held and the thread is not there: nothing is touched.
  state_->left_alone = state_;
}

Result<std::unique_ptr<Sequence>> open_cached(Store& store, SequenceDefinition definition,
                                              const SequenceOptions& options) {
  if (auto counters = read_counters(store, definition, options.until); !counters) {
    return std::unexpected(std::move(counters).error());
  }
  auto state = std::make_shared<CachedSequence::State>(store, std::move(definition), options);
  return std::unique_ptr<Sequence>(new CachedSequence(std::move(state)));
}

const SequenceDefinition& CachedSequence::definition() const noexcept { return state_->definition; }

Result<std::int64_t> CachedSequence::next_slice(SteadyTime until) {
  State& state = *state_;
  if (!state.owned) return std::unexpected(inherited_through_fork(state.definition.name));
  Slice* const slice = state.slice_of_this_thread(number_);
  if (slice != nullptr) {
    const std::int64_t value = slice->next.load(std::memory_order_relaxed);
    if (value < slice->end.load(std::memory_order_relaxed)) {
      slice->next.store(value + 1, std::memory_order_relaxed);
      return value;
    }
  }
  const std::int64_t most =
      slice != nullptr ? std::max<std::int64_t>(state.cursor->slice.load(), 1) : 1;
  const Result<Range> values =
      state.claim(slice, {.wanted = 1, .most = most, .whole = 1, .until = until});
  if (!values) return std::unexpected(values.error());
  if (values->count > 1) state.keep(*slice, {values->first + 1, 1, values->count - 1});
  return values->first;
}

Result<void> CachedSequence::next(std::span<std::int64_t> out, SteadyTime until) {
  if (out.size() == 1) {  // which costs as little as next()
    if (take_held(out.front())) return {};
    const Result<std::int64_t> value = next_slice(until);
    if (!value) return std::unexpected(value.error());
    out.front() = *value;
    return {};
  }
  State& state = *state_;
  if (!state.owned) return std::unexpected(inherited_through_fork(state.definition.name));
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
    if (used < values->count) state.keep(*slice, {values->at(used), 1, values->count - used});
  }
  (slice != nullptr ? slice->extra : state.extra)
      .fetch_add(out.size() - 1, std::memory_order_relaxed);
  return {};
}

std::int64_t CachedSequence::held() const noexcept {
  State& state = *state_;
  if (!state.owned) return 0;
  const std::lock_guard lock(state.mutex);
  return state.stopped ? 0 : state.values_held();
}

std::size_t CachedSequence::waiting() const noexcept {
  State& state = *state_;
  if (!state.owned) return 0;
  const std::lock_guard lock(state.mutex);
  return state.waiting;
}

void CachedSequence::close() noexcept {
  State& state = *state_;
  if (!state.owned) return;
  std::unique_lock lock(state.mutex);
  state.stop({Code::kUnavailable, "sequence " + state.definition.name + ": closed"});
  state.changed.wait(lock, [&state] { return !state.fetching; });
  std::thread thread = std::move(state.thread);
  lock.unlock();
  if (thread.joinable()) thread.join();
}

SequenceStatistics CachedSequence::statistics() const noexcept {
  State& state = *state_;
  if (!state.owned) return {};
  const std::lock_guard lock(state.mutex);
  const std::int64_t lost = state.lost.load(std::memory_order_relaxed);
  std::uint64_t extra = state.extra.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < state.slice_count; ++i) {
    const auto& page = *state.slices[i / std::tuple_size_v<State::Slices>];
    const Slice& slice = page[i % std::tuple_size_v<State::Slices>];
    extra += slice.extra.load(std::memory_order_relaxed);
  }
  const std::int64_t held = state.values_held();
  const std::int64_t values = std::max<std::int64_t>(state.taken - held - lost, 0);
  return {.requests = std::max(static_cast<std::uint64_t>(values), extra) - extra,
          .rounds = state.tally.round_trips(),
          .values = values,
          .waste = state.tally.waste() + lost + (state.stopped ? held : 0)};
}

Result<std::unique_ptr<CachedSequence>> CachedSequence::open(Store& store, std::string_view name,
                                                             const SequenceOptions& options) {
  Opened opened = open_sequence(store, name, options);
  if (!opened) return std::unexpected(std::move(opened).error());
  if (auto* const cached = dynamic_cast<CachedSequence*>(opened->get())) {
    [[maybe_unused]] const Sequence* const same = opened->release();
    return std::unique_ptr<CachedSequence>(cached);
  }
  const std::string strategy(idmint::name((*opened)->definition().strategy));
  return std::unexpected(
      error_at(store, Code::kFailedPrecondition, name,
               "it is " + strategy + ", not cached; open it with open_sequence()"));
}

}  // namespace idmint
