// CounterStore: the operation behind every coordinated id, "advance a named counter by n".
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/result.h"
#include "store/adoption.h"

namespace idmint {

// The values that a counter hands out: first, first + stride, ... up to last (inclusive, if it is
// one of them). 0 <= first <= last <= kLargestValue - (stride - 1), so that the value after them
// can be stored.
struct CounterBounds {
  std::int64_t first = 0;
  std::int64_t last = kLargestValue;
  std::int64_t stride = 1;

  // The first of the values at or above `floor`, or else the one after the last value. REQUIRES:
  // bounds as above.
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
  std::int64_t next = 0;  // the next value; above bounds.last: none is left
  bool closed = false;
  // For an adopted counter: its record was set back below `next`, and every advance fails with this
  // error until it is raised.
  std::optional<Error> set_back{};
  // An adopted record in which idmint keeps no floor yet: an older version adopted it. A set-back
  // by its program is noticed from the next value on that is taken.
  bool no_floor = false;

  // The number of values not taken yet, closed or not.
  [[nodiscard]] constexpr std::int64_t left() const noexcept {
    return (bounds.last - next + bounds.stride) / bounds.stride;
  }

  friend bool operator==(const CounterState&, const CounterState&) = default;
};

struct NewCounter {
  std::string name{};
  CounterBounds bounds{};
  // As in SequenceDefinition, with the index of the stripe. Empty: idmint's own record.
  std::string adopted{};
  std::int64_t stripe = 0;
  bool make = false;  // an adopted document that is missing is made
};

enum class Take : std::uint8_t {
  kAll,  // the whole count, or kOutOfRange
  // Fewer, at least one, if fewer are left; and if other programs take from an adopted record at
  // the same time: then ask again for the rest.
  kTail,
};

// Durable, named 64-bit counters. A counter only goes up: there is no reset, and no way to give
// values back. Any thread may call any method at any time. Every method returns within the store's
// deadline (StoreOptions), and by `until` if that is earlier. Errors, besides those of each method:
// - kUnavailable, kResourceExhausted: was not applied.
// - kPermissionDenied: was not applied, or in part where a server checks the rights at each command
//   of a step, as Redis does; nothing was handed out, and what was taken is lost. A call on many
//   counters may have been applied to some.
// - kUnknown, kDeadlineExceeded: may have been applied, now or later.
// - kDataLoss: the store is damaged.
// - kFailedPrecondition: the handle was inherited through fork().
class CounterStore {
 public:
  // Creates counters whose next value is bounds.first, and returns each as it is then; peek() says
  // what the next value of an adopted one is. Existing ones with the same bounds stay as they are,
  // whatever their value. An adopted record must be there, unless `make` is set. A record that
  // exists keeps its value. On an error some of the counters may have been created; the same call
  // again creates the rest.
  // - kAlreadyExists: one exists with other bounds.
  // - kInvalidArgument: more than kMaxCounters; an empty name or one longer than 1024 bytes; bounds
  //   not as above; `adopted` is not the text of a record, or the record cannot count from
  //   bounds.first.
  // - kFailedPrecondition: an adopted record has no value to continue from; it was left as it was.
  // - kUnimplemented: the store adopts no records.
  [[nodiscard]] IDMINT_EXPORT Result<std::vector<CounterState>> create(
      std::span<const NewCounter> counters);
  static constexpr std::size_t kMaxCounters = 10'000;
  [[nodiscard]] Result<std::vector<CounterState>> create(std::string_view counter,
                                                         const CounterBounds& bounds) {
    const NewCounter one{std::string(counter), bounds};
    return create(std::span(&one, 1));
  }

  // Takes the next `count` values in one atomic, linearizable step that is durable before it
  // returns. The range has the counter's stride.
  // - kOutOfRange: fewer are left (kAll), or none (kTail); the counter did not move.
  // - kUnavailable also: other programs take from an adopted record so fast that there were no
  //   `count` values without some of theirs in between; those that were passed over are lost. So
  //   are those that an adopted sequence or table gave to a statement that failed afterwards.
  // - kNotFound: no such counter; it is not created.
  // - kFailedPrecondition: it is closed; or adopted, and the server now counts in other steps.
  // - kInvalidArgument: count < 1, or more (kAll) than one statement takes from an adopted record;
  //   the counter did not move.
  [[nodiscard]] Result<Range> advance(std::string_view counter, std::int64_t count, Take take,
                                      SteadyTime until = SteadyTime::max());

  // The next three methods take many counters at once, to save syncs. Each counter is changed in an
  // atomic step, and all changes are durable before the call returns. They work on closed counters
  // too. On an error some may have been changed, unless its code says that none was; the same call
  // again changes the rest.
  // - kNotFound: one does not exist; all others are changed.
  // - kInvalidArgument: more than kMaxCounters; nothing is changed.

  // One atomic max for each: afterwards nothing below `floor` is taken. Returns the next value of
  // each: the first of the counter's values at or above `floor`, or a larger one if the counter was
  // past that, or at the end the one after the last. A later extend() may add values below the
  // floor: extend first.
  [[nodiscard]] IDMINT_EXPORT Result<std::vector<std::int64_t>> raise(
      std::span<const std::string> counters, std::int64_t floor,
      SteadyTime until = SteadyTime::max());
  [[nodiscard]] Result<std::int64_t> raise(std::string_view counter, std::int64_t floor) {
    return only(raise(one(std::string(counter)), floor));
  }

  // One atomic max for each: moves the end of the bounds to `last`, or leaves it if `last` is not
  // larger. Returns the bounds of each as they are now. kInvalidArgument: `last` is above
  // kLargestValue - (stride - 1) for one of them, or can_extend() rejects it; that counter is not
  // changed.
  [[nodiscard]] Result<std::vector<CounterBounds>> extend(std::span<const std::string> counters,
                                                          std::int64_t last);
  [[nodiscard]] Result<CounterBounds> extend(std::string_view counter, std::int64_t last) {
    return only(extend(one(std::string(counter)), last));
  }
  // kInvalidArgument: an adopted record, named in the message, cannot count to `last`.
  [[nodiscard]] Result<void> can_extend(std::span<const std::string> counters, std::int64_t last);

  // Closes the counters: every later advance of any process fails with kFailedPrecondition. Can be
  // repeated. The records stay for ever, so no counter of the same name can be created.
  [[nodiscard]] Result<void> close(std::span<const std::string> counters);
  [[nodiscard]] Result<void> close(std::string_view counter) {
    return close(one(std::string(counter)));
  }

  // For operators and monitoring; does not predict the next advance.
  [[nodiscard]] Result<CounterState> peek(std::string_view counter,
                                          SteadyTime until = SteadyTime::max()) {
    return do_peek(counter, until);
  }
  // The counters whose names start with `prefix`, sorted by name.
  [[nodiscard]] Result<std::vector<CounterState>> list(std::string_view prefix,
                                                       SteadyTime until = SteadyTime::max()) {
    return do_list(prefix, until);
  }

  // The text under which the record is kept that a new sequence adopts: `adopted`, with what the
  // store adds to name one record for ever, such as the type of an _id. Reads only.
  // kFailedPrecondition: there is no such record, and make_adopted is not set; or several. The
  // message names similar ones. REQUIRES: adoption() accepts the definition.
  [[nodiscard]] virtual Result<std::string> find_record(const SequenceDefinition& definition) {
    return definition.adopted;
  }

  // Null: it adopts no records.
  [[nodiscard]] virtual const Adoption* adoption() const noexcept { return nullptr; }

 protected:
  ~CounterStore() = default;

 private:
  // The methods above, with checked arguments.
  virtual Result<std::vector<CounterState>> do_create(std::span<const NewCounter> counters) = 0;
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
