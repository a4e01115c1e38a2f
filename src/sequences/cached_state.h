// The state of a cached sequence, and how its parts work together: handing out
// (cached_sequence.cc), fetching (cached_fetch.cc) and asynchronous requests (cached_requests.cc).
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
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
#include "sequences/rounds.h"
#include "sequences/step.h"
#include "sequences/strategies.h"
#include "stores/spi/counter_store.h"

namespace idmint {

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
  using nanoseconds = std::chrono::nanoseconds;
  using SteadyClock = std::chrono::steady_clock;

  static constexpr std::int64_t kSliceSize = 256;
  static constexpr std::int64_t kStopped = std::numeric_limits<std::int64_t>::min();  // below all
  static constexpr nanoseconds kFirstPause = std::chrono::milliseconds{10};

  State(Store& its_store, SequenceDefinition its_definition, const SequenceOptions& options,
        Clock& its_clock, Entropy& its_entropy)
      : store(*its_store.counters()),
        definition(std::move(its_definition)),
        clock(its_clock),
        coarse(&clock == &system_clock() ? coarse_clock() : clock),
        entropy(its_entropy),
        executor(executor_of(options)),
        deadline(deadline_of(its_store, options)),
        known{{definition.first, definition.last}},
        step(definition.step, options.horizon),
        submitted("sequence " + definition.name, options.max_outstanding, executor,
                  [this](std::span<Request> batch) { serve(batch); }) {}

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
  // Whether there was no claim for kHeldThroughPause until now, so that a copy of the process may
  // have been made, which holds the same values.
  [[nodiscard]] bool paused_until(Instant now) const noexcept;
  // Drops what no thread has after such a pause. What threads have in their slices stays.
  void drop_after_pause();
  // The same without a fetch, or at least so many of them. False: there are not.
  bool cut_at_cursor(std::int64_t most, Range& cut, std::int64_t least = 1) noexcept;
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
  [[nodiscard]] bool fetch_is_due() const;
  void prefetch(std::int64_t lacking);
  // The same, and a task asks the store however quick it is.
  void have_prefetched();
  // Unlocks. REQUIRES: fetch_is_due(), !fetch_posted.
  void post_fetch(std::unique_lock<std::mutex>& lock);
  void prefetch_in_task() noexcept;
  enum class Patience : bool { kOneAttempt, kUntilDeadline };
  // REQUIRES: `fetching` was set by the caller.
  void fetch(std::unique_lock<std::mutex>& lock, Patience patience, SteadyTime until) noexcept;
  void accept(const Range& values, nanoseconds took, Instant now);
  void make_current(Instant now);
  void set_slice();
  void set_mark();
  void stop(Error why);
  [[nodiscard]] bool patient_with(Code code, nanoseconds pause, SteadyTime until) const;
  [[nodiscard]] std::int64_t values_held() const;
  // The same values; to be called when it is stopped.
  [[nodiscard]] std::vector<Range> ranges_held() const;

  // ---- asynchronous requests

  struct Request {
    std::span<std::int64_t> out;
    SteadyTime until;
    std::move_only_function<void(Result<void>)> done;
  };
  // CachedSequence::try_next() for at least one value and no more than may be asked for at once.
  bool try_fill(std::span<std::int64_t> out) noexcept;
  void serve(std::span<Request> batch);
  // Fills the requests in their order, with the values at hand first, and leaves the others there.
  void fill(std::span<Request> batch, std::vector<Range>& at_hand);

  CounterStore& store;
  const SequenceDefinition definition;
  Clock& clock;
  Clock& coarse;  // read for each claim
  Entropy& entropy;
  Executor& executor;
  const nanoseconds deadline;

  const ForkWiped<Cursor> cursor;
  std::atomic<Instant> claimed_at{};  // the latest claim, about
  // By calls that failed, of threads that are ending, which have no slice; and by a pause.
  std::atomic<std::int64_t> lost{0};
  std::atomic<std::uint64_t> extra{0};

  std::mutex mutex;
  std::condition_variable changed;  // a fetch has ended, a task has, or all has
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
  bool fetch_posted = false;       // a task is to fetch, unless it finds it done
  std::uint64_t fetches = 0;       // the number of the latest
  std::uint64_t failed_fetch = 0;  // the number of the latest that failed
  std::optional<Error> failure;    // and why
  bool out_of_time = false;        // it may succeed for a caller that has time left
  std::size_t waiting = 0;         // callers that found nothing
  std::int64_t wanting = 0;        // and how much they want, together
  std::int64_t lacks = 0;          // what the caller lacks that came to the mark
  nanoseconds paused{};            // since the first of them came, or the fetch began

  // The slice of this number, below slice_count, and what is left in it.
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
  std::vector<Slice*> unused;  // of threads that have ended, with what was left
  struct Kept {
    Slice* slice;
    Range values;
  };
  std::vector<Kept> kept;  // for each slice in order
  std::size_t slice_count = 0;

  std::vector<Range> spare;  // values of requests that failed, for those that come
  // Whether it has any. Written under the lock, and before `submitted` is idle again.
  std::atomic<bool> has_spare{false};

  Submitted<Request> submitted;
  std::shared_ptr<State> left_alone;  // itself, in a child of fork()
};

}  // namespace idmint
