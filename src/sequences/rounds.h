// Rounds: what one round of a combiner does, and what that costs.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/clock.h"
#include "idmint/result.h"
#include "stores/spi/counter_store.h"

namespace idmint {

// What rounds have cost. Written by one thread at a time, read by any.
class Tally {
 public:
  void count_round_trip() noexcept {
    round_trips_.store(round_trips() + 1, std::memory_order_relaxed);
  }
  // Values taken, or perhaps taken, that nobody has been given. Stops at the largest number.
  void add_waste(std::int64_t values) noexcept;
  // They were kept, and handed out after all.
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

// Where the values of a round come from. One thread at a time calls it; tally() is for any.
class Rounds {
 public:
  Rounds() = default;
  virtual ~Rounds() = default;
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;

  // `count` values, or with kTail fewer, at least one, if no more are left. They belong to the
  // caller, in the order of the ranges, which are valid until the next call. kOutOfRange: fewer are
  // left (kAll), or none (kTail); asking for less finds what is there. Every other error is for all
  // whom the round carries; kDataLoss is for ever. Answers by `until`. REQUIRES: count >= 1.
  [[nodiscard]] virtual Result<std::span<Range>> advance(std::int64_t count, Take take,
                                                         SteadyTime until) = 0;

  // What to tell a caller when so many are not left.
  [[nodiscard]] virtual Error refusal(std::uint64_t count) const = 0;

  // What was taken for rounds that came to nothing, and would be handed out next. Valid until the
  // next call.
  [[nodiscard]] virtual std::span<const Range> kept() const noexcept { return {}; }

  // Values that were handed over for a caller who has left. For the thread that calls advance().
  void add_waste(std::int64_t values) noexcept { tally_.add_waste(values); }
  [[nodiscard]] const Tally& tally() const noexcept { return tally_; }

 protected:
  Tally tally_;
};

// The next values of the ranges, which lose them: at most `count`, all of one range.
// REQUIRES: !ranges.empty(), count >= 1.
[[nodiscard]] inline Range pop(std::span<Range>& ranges, std::int64_t count) noexcept {
  Range& front = ranges.front();
  const Range run{front.first, front.stride, std::min(count, front.count)};
  front.first = run.last() + run.stride;
  front.count -= run.count;
  if (front.count == 0) ranges = ranges.subspan(1);
  return run;
}

// The next `count` values of the ranges, to `out` or, where that is null, to nobody.
// REQUIRES: the ranges have so many.
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

// In the order of their first values, without the empty ones, and those that follow on each other
// as one.
[[nodiscard]] std::vector<Range> merged(std::vector<Range> ranges);

// kOutOfRange, of a sequence that ends at `last`, as far as is known: others may have extended it.
[[nodiscard]] Error used_up(std::string_view sequence, std::uint64_t count, std::int64_t last,
                            bool extended);

// A counter, as one process knows it.
struct KnownCounter {
  CounterBounds bounds{};
  std::int64_t floor = bounds.first;  // no value below it may come any more
  bool ended = false;  // others extended it: what lies behind the end known here is not taken
};

// An advance of the store whose answer can be believed; moves the floor past it. `name` is the
// counter's, `sequence` the one that messages speak of. kDataLoss also where the counter is gone or
// gave values that it cannot give, below the floor above all: then the store has gone back.
[[nodiscard]] Result<Range> believed_advance(CounterStore& store, const std::string& name,
                                             KnownCounter& known, std::int64_t count, Take take,
                                             SteadyTime until, std::string_view sequence,
                                             Tally& tally);

}  // namespace idmint
