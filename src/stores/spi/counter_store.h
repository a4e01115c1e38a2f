// CounterStore: the one operation behind every coordinated id, "advance a named counter by n".
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/result.h"
#include "stores/spi/adoption.h"

namespace idmint {

// The values a counter hands out: first, first + stride, ... up to last, which may be one of them.
// 0 <= first <= last <= kLargestValue - (stride - 1), so that the value after them can be written.
struct CounterBounds {
  std::int64_t first = 0;
  std::int64_t last = kLargestValue;
  std::int64_t stride = 1;

  // The first of the values at or above `floor`; where there is none, the one after the last of
  // them. REQUIRES: bounds as above.
  [[nodiscard]] constexpr std::int64_t at_or_above(std::int64_t floor) const noexcept {
    const std::int64_t from_first = std::clamp(floor, first, last + 1) - first;
    return first + (from_first + (stride - 1)) / stride * stride;
  }

  friend bool operator==(const CounterBounds&, const CounterBounds&) = default;
};

// The largest end that a counter of this stride may have.
[[nodiscard]] constexpr std::int64_t largest_last(std::int64_t stride) {
  return kLargestValue - (stride - 1);
}

struct CounterState {
  std::string name{};
  CounterBounds bounds{};
  std::int64_t next = 0;  // what the next advance hands out; above bounds.last when none is left
  bool closed = false;

  // How many values are not taken yet, whether or not it is closed.
  [[nodiscard]] constexpr std::int64_t left() const noexcept {
    return (bounds.last - next + bounds.stride) / bounds.stride;
  }

  friend bool operator==(const CounterState&, const CounterState&) = default;
};

struct NewCounter {
  std::string name{};
  CounterBounds bounds{};
  // As in SequenceDefinition, and which of its stripes the counter is. Empty: idmint's own.
  std::string adopted{};
  std::int64_t stripe = 0;
};

enum class Take : std::uint8_t {
  kAll,   // the whole count, or kOutOfRange
  kTail,  // less, at least one, when less is left
};

// Durable, named 64-bit counters. A counter only goes up. Any thread may call any method at any
// time. Every method answers within the store's deadline (StoreOptions), and by `until` where it
// takes one and that is earlier. Besides what each method names:
//   kUnavailable, kResourceExhausted, kPermissionDenied: was not applied; of a call on many
//   counters, to some of them at most.
//   kUnknown, kDeadlineExceeded: may have been applied, now or later.
//   kDataLoss: the store is damaged. kFailedPrecondition: the handle was inherited through fork().
// There is no reset, and no way to give values back: a counter never goes down.
class CounterStore {
 public:
  // Makes counters whose next value is bounds.first. Those that exist with the same bounds are left
  // as they are, whatever their value. On an error some of them may have been made; the same call
  // again makes the rest. kAlreadyExists: one exists with other bounds. kInvalidArgument: more than
  // kMaxCounters; an empty name or one longer than 1024 bytes; bounds that are not as above.
  // An adopted record that is not there is made; one that is there keeps its value, as long as it
  // has one that can be gone on with (otherwise kFailedPrecondition; it was left as it is).
  // kInvalidArgument: not a text of such a record, or one that cannot count from bounds.first.
  // kUnimplemented: a store that adopts none.
  [[nodiscard]] IDMINT_EXPORT Result<void> create(std::span<const NewCounter> counters);
  static constexpr std::size_t kMaxCounters = 10'000;
  [[nodiscard]] Result<void> create(std::string_view counter, const CounterBounds& bounds) {
    const NewCounter one{std::string(counter), bounds};
    return create(std::span(&one, 1));
  }

  // Takes the next `count` values, in one atomic step that is durable before it returns;
  // linearizable. The stride of the range is the counter's. kOutOfRange: fewer are left (kAll), or
  // none (kTail); not moved. kNotFound: no such counter: it is never created here.
  // kFailedPrecondition: it is closed. kInvalidArgument: count < 1.
  [[nodiscard]] Result<Range> advance(std::string_view counter, std::int64_t count, Take take,
                                      SteadyTime until = SteadyTime::max());

  // The three that follow take many counters at once, as few syncs are cheaper than many. Each
  // counter is changed in an atomic step, and all are durable before it returns. On an error
  // some of them may have been changed, with kUnavailable too; the same call again changes the
  // rest. They work on closed counters too. kNotFound: one is not there, and all the others are
  // changed. kInvalidArgument: more than kMaxCounters; nothing is changed.

  // One atomic max each: afterwards nothing below `floor` is taken. Returns the next value of each,
  // which is the first of the counter's values at or above `floor` or, where the counter was past
  // that already, larger; at the end the one after the last. What a later extend() adds may be
  // below the floor: extend first.
  [[nodiscard]] IDMINT_EXPORT Result<std::vector<std::int64_t>> raise(
      std::span<const std::string> counters, std::int64_t floor,
      SteadyTime until = SteadyTime::max());
  [[nodiscard]] Result<std::int64_t> raise(std::string_view counter, std::int64_t floor) {
    return only(raise(one(std::string(counter)), floor));
  }

  // One atomic max each: moves the end of the bounds to `last`, or leaves it where that is not
  // larger. Returns the bounds of each as they are now. kInvalidArgument: last > kLargestValue -
  // (stride - 1) for one of them, or can_extend() says so; that one is not changed.
  [[nodiscard]] Result<std::vector<CounterBounds>> extend(std::span<const std::string> counters,
                                                          std::int64_t last);
  [[nodiscard]] Result<CounterBounds> extend(std::string_view counter, std::int64_t last) {
    return only(extend(one(std::string(counter)), last));
  }
  // kInvalidArgument, naming one: what an adopted counter is kept in cannot count to `last`.
  [[nodiscard]] Result<void> can_extend(std::span<const std::string> counters, std::int64_t last);

  // Ends the counters: every later advance, by anybody, is kFailedPrecondition. Again is fine. The
  // records stay for ever, so that no counter is made again under the name of one.
  [[nodiscard]] Result<void> close(std::span<const std::string> counters);
  [[nodiscard]] Result<void> close(std::string_view counter) {
    return close(one(std::string(counter)));
  }

  // For people and monitoring; says nothing of what the next advance will return.
  [[nodiscard]] Result<CounterState> peek(std::string_view counter,
                                          SteadyTime until = SteadyTime::max()) {
    return do_peek(counter, until);
  }
  // All counters whose names start with `prefix`, by name.
  [[nodiscard]] Result<std::vector<CounterState>> list(std::string_view prefix,
                                                       SteadyTime until = SteadyTime::max()) {
    return do_list(prefix, until);
  }

  // Null: it adopts no records of other programs.
  [[nodiscard]] virtual const Adoption* adoption() const noexcept { return nullptr; }

 protected:
  ~CounterStore() = default;

 private:
  // The methods above, whose arguments have been checked.
  virtual Result<void> do_create(std::span<const NewCounter> counters) = 0;
  virtual Result<Range> do_advance(std::string_view counter, std::int64_t count, Take take,
                                   SteadyTime until) = 0;
  virtual Result<std::vector<std::int64_t>> do_raise(std::span<const std::string> counters,
                                                     std::int64_t floor, SteadyTime until) = 0;
  virtual Result<std::vector<CounterBounds>> do_extend(std::span<const std::string> counters,
                                                       std::int64_t last) = 0;
  virtual Result<void> do_close(std::span<const std::string> counters) = 0;
  virtual Result<CounterState> do_peek(std::string_view counter, SteadyTime until) = 0;
  virtual Result<std::vector<CounterState>> do_list(std::string_view prefix, SteadyTime until) = 0;
  virtual Result<void> do_can_extend(std::span<const std::string>, std::int64_t) { return {}; }

  static std::span<const std::string> one(const std::string& counter) {
    return std::span(&counter, 1);
  }
  template <class T>
  static Result<T> only(Result<std::vector<T>> each) {
    if (!each) return std::unexpected(std::move(each.error()));
    return each->front();
  }
};

}  // namespace idmint
