// CounterRangeSource: rounds of one counter, linearizable.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "idmint/definition.h"
#include "idmint/store.h"
#include "sequences/range_source.h"
#include "store/counter_store.h"

namespace idmint {

class CounterRangeSource final : public RangeSource {
 public:
  // The store must outlive it. The counter has the name of the sequence; `bounds` are the
  // counter's.
  CounterRangeSource(Store& store, SequenceDefinition definition, const CounterBounds& bounds)
      : from_(store, kind_of(definition)),
        definition_(std::move(definition)),
        known_{.bounds = bounds} {}

  [[nodiscard]] Result<std::span<Range>> advance(std::int64_t count, Take take,
                                                 SteadyTime until) override {
    if (const Error* const lost = lost_.in(from_.store(), until)) return std::unexpected(*lost);
    const std::int64_t settled = from_.store().settle_count();
    values_.clear();
    for (std::int64_t missing = count; missing > 0;) {
      Result<Range> values = believed_advance(from_, definition_.name, known_, missing, take, until,
                                              definition_.name, tally_);
      if (!values) {
        if (values.error().code == Code::kDataLoss)
          lost_.remember(from_.store(), values.error(), settled, until);
        if (values.error().code == Code::kOutOfRange && !values_.empty()) break;
        tally_.add_waste(count - missing);
        return std::unexpected(std::move(values).error());
      }
      values_.push_back(*values);
      missing -= values->count;
      // Fewer than are left, where other programs take from the record at the same time.
      if (known_.floor > known_.bounds.last) break;
    }
    return values_;
  }

  [[nodiscard]] Error refusal(std::uint64_t count) const override {
    return used_up(definition_, count, known_.bounds.last, known_.ended);
  }

 private:
  GivingStore from_;
  const SequenceDefinition definition_;
  KnownCounter known_;
  Lost lost_;
  std::vector<Range> values_;
};

}  // namespace idmint
