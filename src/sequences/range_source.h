// RangeSource: the source of the values of a group commit, and their cost.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/result.h"
#include "idmint/store.h"
#include "ids/last_issued.h"
#include "store/counter_store.h"

namespace idmint {

// The cost of rounds. Written by one thread at a time, read by any.
class Tally {
 public:
  void count_round_trip() noexcept {
    round_trips_.store(round_trips() + 1, std::memory_order_relaxed);
  }
  // Counts values that were taken, or perhaps taken, and not handed out. Saturates.
  void add_waste(std::int64_t values) noexcept;
  // Subtracts values that were kept and then handed out.
  void take_back_waste(std::int64_t values) noexcept;

  [[nodiscard]] std::uint64_t round_trips() const noexcept {
    return round_trips_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::int64_t waste() const noexcept {
    return waste_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> round_trips_{0};
  std::atomic<std::int64_t> waste_{0};
};

// The source of the values of a round. One thread at a time calls it; tally() is for any thread.
class RangeSource {
 public:
  RangeSource() = default;
  virtual ~RangeSource() = default;
  RangeSource(const RangeSource&) = delete;
  RangeSource& operator=(const RangeSource&) = delete;

  // Takes `count` values, or with kTail fewer, at least one, if no more are left. They belong to
  // the caller, in the order of the ranges, which are valid until the next call. Returns by
  // `until`. REQUIRES: count >= 1.
  // - kOutOfRange: fewer are left (kAll), or none (kTail); a smaller count may succeed.
  // - kInvalidArgument: the store takes fewer in one step; a smaller count may succeed.
  // - Others concern all callers in the round. kDataLoss stays until the store is settled.
  [[nodiscard]] virtual Result<std::span<Range>> advance(std::int64_t count, Take take,
                                                         SteadyTime until) = 0;

  // The error for a caller if `count` values are not left.
  [[nodiscard]] virtual Error refusal(std::uint64_t count) const = 0;

  // The values that were taken for failed rounds and are next to be handed out. Valid until the
  // next call.
  [[nodiscard]] virtual std::span<const Range> kept() const noexcept { return {}; }

  // Counts values that were handed over for a caller who has left. For the thread that calls
  // advance().
  void add_waste(std::int64_t values) noexcept { tally_.add_waste(values); }
  [[nodiscard]] const Tally& tally() const noexcept { return tally_; }

 protected:
  Tally tally_;
};

// Removes and returns the next values of the ranges: at most `count`, all of one range. REQUIRES:
// !ranges.empty(), count >= 1.
[[nodiscard]] inline Range pop(std::span<Range>& ranges, std::int64_t count) noexcept {
  Range& front = ranges.front();
  const Range run{front.first, front.stride, std::min(count, front.count)};
  front.first = run.last() + run.stride;
  front.count -= run.count;
  if (front.count == 0) ranges = ranges.subspan(1);
  return run;
}

// Moves the next `count` values of the ranges to `out`, or discards them if it is null. REQUIRES:
// the ranges have that many.
inline void pop_into(std::span<Range>& ranges, std::int64_t count, std::int64_t* out) noexcept {
  while (count > 0) {
    const Range run = pop(ranges, count);
    for (std::int64_t i = 0; out != nullptr && i < run.count; ++i) *out++ = run.at(i);
    count -= run.count;
  }
}

[[nodiscard]] inline std::int64_t values_in(std::span<const Range> ranges) noexcept {
  std::int64_t sum = 0;
  for (const Range& range : ranges) sum += range.count;
  return sum;
}

// Values that were taken for rounds that failed later; the next rounds hand them out.
class KeptValues final {
 public:
  void add(const Range& values) {
    kept_.push_back(values);
    count_ += values.count;
  }
  // Drops them: an older state of the store gives them to others.
  void clear() noexcept {
    kept_.clear();
    count_ = 0;
  }
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  [[nodiscard]] std::span<const Range> ranges() const noexcept { return kept_; }
  // Removes and returns the first `count` values, valid until the next call. REQUIRES: 1 <= count
  // <= count().
  [[nodiscard]] std::span<Range> hand_over(std::int64_t count);

 private:
  std::vector<Range> kept_;
  std::int64_t count_ = 0;
  std::vector<Range> handed_over_;
};

// Sorted by first value, without empty ranges, adjacent ones merged.
[[nodiscard]] std::vector<Range> merged(std::vector<Range> ranges);

// kOutOfRange of a sequence that ends at `last` as far as is known: others may have extended it.
// Otherwise the message says how to go on.
[[nodiscard]] Error used_up(const SequenceDefinition& definition, std::uint64_t count,
                            std::int64_t last, bool extended);

// The state of a store that gave nothing, as it has gone back or is damaged.
struct LostWithin {
  std::int64_t settled = 0;  // Store::settle_count() before the call that failed
  bool in_doubt = false;     // the store itself said why
};
[[nodiscard]] LostWithin lost_within(Store& store, std::int64_t settled, SteadyTime until);
// Whether an operator has settled the store since. Asks it, by `until`.
[[nodiscard]] bool is_settled_since(Store& store, const LostWithin& lost, SteadyTime until);

// Why a source gives nothing: its store has gone back, or is damaged. This ends when an operator
// settles the store. One thread at a time.
class Lost final {
 public:
  // `settled`: Store::settle_count() before the call that failed.
  void remember(Store& store, Error why, std::int64_t settled, SteadyTime until) {
    why_ = std::make_unique<const Error>(std::move(why));
    within_ = lost_within(store, settled, until);
  }
  // The error. Null: nothing is lost, or the store was settled since: it is asked, by `until`.
  [[nodiscard]] const Error* in(Store& store, SteadyTime until) {
    if (why_ != nullptr && is_settled_since(store, within_, until)) why_.reset();
    return why_.get();
  }

 private:
  std::unique_ptr<const Error> why_;
  LostWithin within_;
};

// A store that gives values to one sequence, with what this process was given of it.
class GivingStore final {
 public:
  // The store must outlive it. `kind`: of the counters of the sequence.
  GivingStore(Store& store, LastIssued::Kind kind);

  [[nodiscard]] Store& store() const noexcept { return *store_; }
  [[nodiscard]] LastIssued::Kind kind() const noexcept { return kind_; }
  // Null: nothing is remembered of a store that is gone with the process.
  [[nodiscard]] StoreIssued* issued() const noexcept { return issued_; }
  // The latest settle count that is known. Read before a call of the store.
  [[nodiscard]] std::int64_t settled() const noexcept {
    return issued_ != nullptr ? issued_->settled() : 0;
  }
  // kDataLoss: the call of the store that has just ended saw a settle count below `known`, which
  // was read before it.
  [[nodiscard]] Result<void> must_be_settled(std::int64_t known, SteadyTime until) const;

 private:
  Store* store_;
  LastIssued::Kind kind_;
  StoreIssued* issued_ = nullptr;
};

// Before a call of the store. Asks it for its settle count if the handle knows an earlier one than
// this host: another handle may have seen that it was settled. kDataLoss: the store has an earlier
// one, too.
[[nodiscard]] Result<void> must_be_settled(const GivingStore& from, SteadyTime until);

// The kind of the counters of a sequence.
[[nodiscard]] LastIssued::Kind kind_of(const SequenceDefinition& definition) noexcept;

// A counter as known to one sequence.
struct KnownCounter {
  CounterBounds bounds{};
  std::int64_t floor = bounds.first;  // no value below it may come again
  bool ended = false;  // others extended it; values beyond the end known here are not taken
  // The last issued value of this counter in this process, through any sequence that it had open;
  // found by the first advance. Null: not found yet, or nothing is remembered.
  LastIssued* issued = nullptr;
};

// An advance of the store with a verified answer; moves the floor past it. `name` is the counter's,
// `sequence` the name in messages. kDataLoss also: the counter is gone or gave impossible values,
// in particular below the floor or below what this process was given before: the store has gone
// back, and is marked so for all processes. A floor holds for the life of the process, whatever was
// settled: below it values would come again.
// If the counter is closed because the sequence is moved, the error says where to (life_cycle.h).
// REQUIRES: the store has counters.
[[nodiscard]] Result<Range> believed_advance(GivingStore& from, const std::string& name,
                                             KnownCounter& known, std::int64_t count, Take take,
                                             SteadyTime until, std::string_view sequence,
                                             Tally& tally);

}  // namespace idmint
