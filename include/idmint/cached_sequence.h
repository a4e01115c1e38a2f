// CachedSequence: strategy cached. Ranges are taken from the store ahead of need and handed out
// from memory, a nanosecond or two for each id.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "idmint/definition.h"
#include "idmint/export.h"
#include "idmint/result.h"
#include "idmint/sequence.h"
#include "idmint/store.h"

namespace idmint {

// Unique, and increasing for each thread that asks. Values of different threads come in no order,
// since each thread is handed up to 256 of them at a time.
//
// A range is fetched when half of the one before is left, or sooner where the store takes so long
// that callers would have to wait. With SequenceDefinition::step it has that many values (more only
// where callers that wait want more); without, it starts at 16 and follows the rate, so that it
// lasts SequenceOptions::horizon, with at most 10,000,000 values and at most a 256th of those left,
// or 16. Only one fetch is under way. A caller makes the first; a task of SequenceOptions::executor
// makes the later ones, or a caller if the store is in memory and quicker than waking a thread.
//
// A fetch that failed is tried again, after 10 to 200 ms and a little chance, as long as callers
// have values. Those that have none wait for SequenceOptions::deadline, and one call of the store
// more, at most; then all that wait get the error. After an unknown outcome the range is lost, and
// the next one is asked for.
//
// A copy of the process (a VM snapshot, a container checkpoint) holds the same values and hands
// them out too. If nobody took from a range for 10 minutes by the wall clock, it is dropped, and
// counted as waste; what threads have in their slices stays.
//
// If the store goes back, or its counter is gone, everything held is void, and every call is
// kDataLoss for ever.
class IDMINT_EXPORT CachedSequence final : public Sequence {
 public:
  // As open_sequence; kFailedPrecondition also where the name is of another strategy. Takes nothing
  // from the store.
  [[nodiscard]] static Result<std::unique_ptr<CachedSequence>> open(
      Store& store, std::string_view name, const SequenceOptions& options = {});
  ~CachedSequence() override;
  CachedSequence(const CachedSequence&) = delete;
  CachedSequence& operator=(const CachedSequence&) = delete;

  [[nodiscard]] const SequenceDefinition& definition() const noexcept override;

  // One value, within SequenceOptions::deadline. Errors as next(out).
  [[nodiscard]] Result<std::int64_t> next() {
    std::int64_t value = 0;
    if (take_held(value)) [[likely]]
      return value;
    return next_slice(SteadyTime::max());
  }

  // Increasing; not consecutive. On an error nothing in `out` is to be used: it comes again, in
  // later calls of this thread. kOutOfRange: fewer are left to this thread; what other threads hold
  // is for them alone.
  using Sequence::next;
  [[nodiscard]] Result<void> next(std::span<std::int64_t> out, SteadyTime until) override;

  // Increasing for each thread that submits, and with the same guarantees.
  [[nodiscard]] Result<void> submit(std::span<std::int64_t> out,
                                    std::move_only_function<void(Result<void>)> done) override;

  // Values taken from the store and not yet handed out: what raise_sequence() does not recall, and
  // what is lost when the program ends now. Exact while no thread calls next().
  [[nodiscard]] std::int64_t held() const noexcept;

  // How many callers wait for values. At once out of date.
  [[nodiscard]] std::size_t waiting() const noexcept;

  // What is held is lost, and counted as waste. Answers all that wait with kUnavailable, and every
  // call after it. Waits for the fetch under way, and at most 200 ms more.
  void close() noexcept override;

  // As exact as held(). `waste` is what fetches of unknown outcome and closing cost.
  [[nodiscard]] SequenceStatistics statistics() const noexcept override;

 private:
  struct State;

  // Values of one thread: next to end - 1. Only that thread moves `next`; `end` is lowered by
  // whoever stops the sequence. All zero, as fork() leaves it: none.
  struct alignas(64) Slice {
    std::atomic<std::int64_t> next;
    std::atomic<std::int64_t> end;
    std::atomic<std::int64_t> until;   // the end, whether stopped or not
    std::atomic<std::int64_t> kept;    // more, of calls that failed, to come after these
    std::atomic<std::uint64_t> extra;  // values beyond the first of each call
  };
  // Where this thread finds its slice of the sequence of that number; a few of the latest. No two
  // sequences of a process ever have one number, so what was left by one that is gone is not found.
  struct Holding {
    std::uint64_t sequence;  // 0: none
    Slice* slice;
  };
  static constexpr std::size_t kHoldings = 8;
  [[gnu::tls_model("initial-exec")]] static constinit thread_local Holding holdings_[kHoldings];

  explicit CachedSequence(std::shared_ptr<State> state) noexcept;
  friend Result<std::unique_ptr<Sequence>> open_cached(Store& store, SequenceDefinition definition,
                                                       const SequenceOptions& options);

  // The next value that this thread holds. False: it holds none.
  bool take_held(std::int64_t& value) noexcept {
    const Holding& holding = holdings_[number_ % kHoldings];
    if (holding.sequence != number_) return false;
    const std::int64_t next = holding.slice->next.load(std::memory_order_relaxed);
    if (next >= holding.slice->end.load(std::memory_order_relaxed)) return false;
    holding.slice->next.store(next + 1, std::memory_order_relaxed);
    value = next;
    return true;
  }
  [[nodiscard]] Result<std::int64_t> next_slice(SteadyTime until);

  const std::uint64_t number_;
  const std::shared_ptr<State> state_;
};

}  // namespace idmint
