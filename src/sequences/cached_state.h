// The state of a cached sequence, shared by its parts: handing out (cached_sequence.cc), fetching
// (cached_fetch.cc) and asynchronous requests (cached_requests.cc).
//
// The values in here are divided by the stride of the definition, so that the values of a range are
// consecutive: value = divided * stride + first % stride. With a stride of 1 both are the same.
// values_of() and value_of() convert what is handed out, fetch() what the store gave.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/fork_wiped.h"
#include "base/submitted.h"
#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/entropy.h"
#include "idmint/executor.h"
#include "idmint/result.h"
#include "idmint/sequence.h"
#include "idmint/store.h"
#include "sequences/range_source.h"
#include "sequences/step.h"
#include "sequences/strategies.h"
#include "store/counter_store.h"

namespace idmint {

// The current range, from which slices are cut at the cursor. A thread that moves the cursor from c
// to c + n by compare-and-exchange owns c to c + n - 1. The cursor only grows, so no other thread
// gets these values. The process owns them, because
//   - c is below a limit that was read before it;
//   - limits only grow. A range that continues the previous one moves the limit alone. Any other
//     range moves the cursor to its first value before it sets its limit, when the cursor is at the
//     previous limit. So the process owns every value from the cursor to any limit that was read
//     before it.
// All zero, as after fork(): no values.
struct Cursor {
  std::atomic<std::int64_t> next;
  std::atomic<std::int64_t> limit;
  std::atomic<std::int64_t> mark;   // a thread that moves `next` to it or past it starts a fetch
  std::atomic<std::int64_t> slice;  // the values that a thread takes at a time
};

struct CachedSequence::State : std::enable_shared_from_this<State> {
  using nanoseconds = std::chrono::nanoseconds;
  using SteadyClock = std::chrono::steady_clock;

  static constexpr std::int64_t kSliceSize = 256;
  static constexpr std::int64_t kStopped = std::numeric_limits<std::int64_t>::min();  // below all
  static constexpr nanoseconds kFirstPause = std::chrono::milliseconds{10};

  State(Store& its_store, SequenceDefinition its_definition, const SequenceOptions& options,
        Clock& its_clock, Entropy& its_entropy)
      : from(its_store, LastIssued::Kind::kValue),
        definition(std::move(its_definition)),
        clock(its_clock),
        coarse(&clock == &system_clock() ? coarse_clock() : clock),
        entropy(its_entropy),
        executor(executor_of(options)),
        deadline(deadline_of(its_store, options)),
        known{{definition.first, definition.last, definition.stride}},
        step(definition.step, options.horizon),
        submitted("sequence " + definition.name, options.max_outstanding, executor,
                  [this](std::span<Request> batch) { serve(batch); }) {}

  // The value behind a divided one.
  [[nodiscard]] std::int64_t value_of(std::int64_t divided) const noexcept {
    return divided * definition.stride + definition.first % definition.stride;
  }
  void values_of(std::span<std::int64_t> divided) const noexcept {
    if (definition.stride == 1) return;
    for (std::int64_t& each : divided) each = value_of(each);
  }

  // ---- handing out; without the lock

  struct Wish {
    std::int64_t wanted;  // values that the caller will use
    std::int64_t most;    // values that it may take, and keep
    std::int64_t whole;   // values of the whole call
    SteadyTime& until;    // the end of the call; brought forward at its first wait
  };
  // Takes the next 1 to `most` values, first from the values kept for the slice. The slice may be
  // null.
  Result<Range> claim(Slice* slice, const Wish& wish);
  // Keeps the values of a failed call for the next call of its thread. No other thread may get
  // them, since larger values were given to it already.
  void keep_for(Slice& slice, std::span<const std::int64_t> values);
  bool cut_from_kept(Slice& slice, std::int64_t most, Range& cut);
  // Whether there was no claim for kHeldThroughPause before `now`: a copy of the process, with the
  // same values, may have been made.
  [[nodiscard]] bool paused_until(Instant now) const noexcept;
  // After such a pause, drops the values outside the slices. The slices of threads stay.
  void drop_after_pause();
  // Takes values from the current range only, at least `least`. False: it has too few.
  bool cut_at_cursor(std::int64_t most, Range& cut, std::int64_t least = 1) noexcept;
  // The same after waiting for values. Under the lock, so that waiting callers are counted until
  // they have their values.
  Result<void> wait_and_cut(const Wish& wish, Range& cut);
  // Stores `values` in the slice of the calling thread. `stops`: times_stopped before they were
  // claimed.
  void keep(Slice& slice, const Range& values, std::uint64_t stops) noexcept;
  // Null: the thread is ending and has none any more.
  Slice* slice_of_this_thread(std::uint64_t number);
  void give_back(Slice* slice) noexcept;

  // ---- fetching

  std::unique_lock<std::mutex> locked();
  [[nodiscard]] SteadyTime latest_end() const { return SteadyClock::now() + deadline; }
  [[nodiscard]] bool fetch_is_due() const;
  void prefetch(std::int64_t lacking);
  // Like prefetch(), but always in a task, however fast the store is.
  void have_prefetched();
  // Unlocks. REQUIRES: fetch_is_due(), !fetch_posted.
  void post_fetch(std::unique_lock<std::mutex>& lock);
  void prefetch_in_task() noexcept;
  enum class Patience : bool { kOneAttempt, kUntilDeadline };
  // REQUIRES: the caller has set `fetching`.
  void fetch(std::unique_lock<std::mutex>& lock, Patience patience, SteadyTime until) noexcept;
  void accept(const Range& values, nanoseconds took, Instant now);
  void make_current(Instant now);
  void set_slice();
  void set_mark();
  void stop(Error why);
  // Whether the sequence, which was stopped since the store had gone back, goes on: the store was
  // settled since. It is asked, by `until`, without the lock. The values held are dropped.
  bool goes_on(std::unique_lock<std::mutex>& lock, SteadyTime until);
  [[nodiscard]] bool patient_with(Code code, nanoseconds pause, SteadyTime until) const;
  [[nodiscard]] std::int64_t values_held() const;
  // The same values as ranges, not divided. REQUIRES: stopped.
  [[nodiscard]] std::vector<Range> ranges_held() const;

  // ---- asynchronous requests

  struct Request {
    std::span<std::int64_t> out;
    SteadyTime until;
    MoveOnlyFunction<void(Result<void>)> done;
  };
  // CachedSequence::try_next() for 1 value to the most that one call may take.
  bool try_fill(std::span<std::int64_t> out) noexcept;
  void serve(std::span<Request> batch);
  // Fills the requests in order, first with the values at hand; leaves the remaining values there.
  void fill(std::span<Request> batch, std::vector<Range>& at_hand);

  GivingStore from;
  const SequenceDefinition definition;
  Clock& clock;
  Clock& coarse;  // read for each claim
  Entropy& entropy;
  Executor& executor;
  const nanoseconds deadline;

  const ForkWiped<Cursor> cursor;
  std::atomic<Instant> claimed_at{};  // approximate time of the latest claim
  // Values lost by failed calls of ending threads, which have no slice, and by a pause.
  std::atomic<std::int64_t> lost{0};
  std::atomic<std::uint64_t> extra{0};

  std::mutex mutex;
  std::condition_variable changed;  // a fetch, a task or the sequence has ended
  std::atomic<bool> is_stopped{false};
  std::atomic<std::uint64_t> times_stopped{0};
  std::optional<Error> stopped;              // the answer to every call from now on
  std::optional<LostWithin> stopped_within;  // by a store that has gone back, until it is settled
  bool ended = false;                        // nothing is left in the store

  // Written by the thread that fetches, one at a time.
  KnownCounter known;
  Tally tally;

  std::int64_t taken = 0;       // values of all ranges
  Range current;                // the cursor's range; with a fixed step perhaps the latest of
                                // several adjacent ones
  Range pending;                // the next range; may be empty
  Instant since;                // the arrival of the current range
  std::int64_t since_next = 0;  // the cursor at that time
  Step step;                    // learns from whole ranges
  nanoseconds latency{};        // of the store: the longest recent one

  bool fetching = false;
  bool fetch_posted = false;       // a task will fetch, unless it is done by then
  std::uint64_t fetches = 0;       // the number of the latest
  std::uint64_t failed_fetch = 0;  // the number of the latest failed one
  std::optional<Error> failure;    // its error
  bool out_of_time = false;        // it ran out of time; a caller with time left may succeed
  std::size_t waiting = 0;         // callers without values
  std::int64_t wanting = 0;        // the values that they want in all
  std::int64_t lacks = 0;          // the values that the caller at the mark still lacks
  nanoseconds paused{};            // pauses since the first of them came, or the fetch began

  // The slice with this index, below slice_count, and the values left in it.
  [[nodiscard]] Slice& slice_at(std::size_t i) const {
    return (*slices[i / std::tuple_size_v<Slices>])[i % std::tuple_size_v<Slices>];
  }
  [[nodiscard]] static Range left_in(const Slice& slice) {
    const std::int64_t next = slice.next.load(std::memory_order_relaxed);
    const std::int64_t left = slice.until.load(std::memory_order_relaxed) - next;
    return {next, 1, std::clamp<std::int64_t>(left, 0, kSliceSize)};
  }

  using Slices = std::array<Slice, 64>;  // a page
  std::deque<ForkWiped<Slices>> slices;
  std::vector<Slice*> unused;  // slices of ended threads, with their rest
  struct Kept {
    Slice* slice;
    Range values;
  };
  std::vector<Kept> kept;  // in order for each slice
  std::size_t slice_count = 0;

  std::vector<Range> spare;  // values of failed requests, for later ones
  // Whether there are any. Written under the lock, and before `submitted` is idle again.
  std::atomic<bool> has_spare{false};

  Submitted<Request> submitted;
  std::shared_ptr<State> left_alone;  // itself, in a child of fork()
};

}  // namespace idmint
