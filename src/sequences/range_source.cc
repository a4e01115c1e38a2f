#include "sequences/range_source.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "sequences/life_cycle.h"
#include "sequences/moved.h"
#include "sequences/strategies.h"
#include "store/catalog.h"
#include "store/counter_store.h"

namespace idmint {
namespace {

// Whether a counter with these bounds and any end can give the values from `floor` on.
bool can_give(const CounterBounds& bounds, std::int64_t floor, const Range& values) {
  const std::int64_t end = kLargestValue - (bounds.stride - 1);
  return values.stride == bounds.stride && values.first >= floor && values.first <= end &&
         (values.first - bounds.first) % bounds.stride == 0 &&
         values.count - 1 <= (end - values.first) / bounds.stride;
}

Error at(std::string_view sequence, const std::string& name, const std::string& what) {
  return about("sequence " + std::string(sequence),
               {Code::kDataLoss, (name == sequence ? "" : "counter " + name + ": ") + what});
}

// "11", or "11 to 20".
std::string text_of(const Range& values) {
  return std::to_string(values.first) +
         (values.count > 1 ? " to " + std::to_string(values.last()) : "");
}

// The values are below `floor`, or not values of the counter.
Error impossible(const GivingStore& from, std::string_view sequence, const std::string& name,
                 const KnownCounter& known, std::int64_t floor, const Range& values) {
  const std::string gave = std::string("the store gave ") +
                           (from.kind() == LastIssued::Kind::kIndex ? "the index " : "") +
                           text_of(values);
  const std::string why =
      ": it has gone back or was changed by hand; stop every process that uses it, ";
  if (values.first >= floor || floor <= known.bounds.first)
    return at(sequence, name,
              gave + ", where " + std::to_string(floor) + " to " +
                  std::to_string(known.bounds.last) + " are not used" + why +
                  "and go on with a sequence that begins past every value in use");
  Error error =
      at(sequence, name,
         gave + ", and " + std::to_string(floor - known.bounds.stride) + " was given before" + why +
             "and raise all of it past every value in use on any host, which may be "
             "larger");
  error.advice = {Remedy::kRaiseStore, std::string(from.store().url())};
  return error;
}

// The floor for an advance that begins now.
std::int64_t floor_now(const GivingStore& from, const std::string& name, KnownCounter& known) {
  if (known.issued == nullptr && from.issued() != nullptr)
    known.issued = &from.issued()->counter(name, from.kind());
  const std::int64_t last = known.issued != nullptr ? known.issued->last() : LastIssued::kNothing;
  // One that was made again may have had another stride.
  if (last != LastIssued::kNothing)
    known.floor = std::max(known.floor, last + std::min(known.bounds.stride, kLargestValue - last));
  return known.floor;
}

// The error of an advance of a closed counter, or of a handle that was inherited through fork():
// the move of its sequence, if there is one.
Error why_closed(Store& store, std::string_view sequence, Error error, SteadyTime until) {
  if (store.catalog() == nullptr) return error;
  const Result<Definition> now = store.catalog()->find(sequence, until);
  if (!now) return error;
  return moved_away(store, *now).value_or(std::move(error));
}

}  // namespace

void Tally::add_waste(std::int64_t values) noexcept {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::int64_t before = waste();
  waste_.store(before > kMost - values ? kMost : before + values, std::memory_order_relaxed);
}

void Tally::take_back_waste(std::int64_t values) noexcept {
  waste_.store(std::max<std::int64_t>(waste() - values, 0), std::memory_order_relaxed);
}

LostWithin lost_within(Store& store, std::int64_t settled, SteadyTime until) {
  const std::optional<Error> doubt = store.doubt(until);
  return {.settled = settled,
          .in_doubt = doubt &&
                      (doubt->code == Code::kDataLoss || doubt->code == Code::kFailedPrecondition)};
}

bool is_settled_since(Store& store, const LostWithin& lost, SteadyTime until) {
  const Result<std::int64_t> now = store.read_settle_count(until);
  return now && (*now > lost.settled || (lost.in_doubt && !store.doubt(until)));
}

std::span<Range> KeptValues::hand_over(std::int64_t count) {
  handed_over_.clear();
  count_ -= count;
  std::span<Range> rest = kept_;
  while (count > 0) {
    handed_over_.push_back(pop(rest, count));
    count -= handed_over_.back().count;
  }
  kept_.erase(kept_.begin(), kept_.end() - static_cast<std::ptrdiff_t>(rest.size()));
  return handed_over_;
}

std::vector<Range> merged(std::vector<Range> ranges) {
  std::erase_if(ranges, [](const Range& range) { return range.count == 0; });
  std::ranges::sort(ranges, {}, &Range::first);
  std::vector<Range> all;
  for (const Range& range : ranges) {
    if (!all.empty() && all.back().stride == range.stride &&
        all.back().last() + range.stride == range.first) {
      all.back().count += range.count;
    } else {
      all.push_back(range);
    }
  }
  return all;
}

Error used_up(const SequenceDefinition& definition, std::uint64_t count, std::int64_t last,
              bool extended) {
  Onward onward = extended ? Onward{} : onward_from(definition);
  last -= (last - definition.first) % definition.stride;
  const std::string left =
      count == 1 ? "used up; " : "fewer than " + std::to_string(count) + " are left; ";
  return about(subject_of(definition), {Code::kOutOfRange,
                                        left + std::to_string(last) + " is the last" +
                                            (extended ? " (it was extended since: open it again)"
                                                      : "; go on with " + onward.words),
                                        std::move(onward.advice)});
}

namespace {

// Marks the store, since otherwise this process alone knows.
Error settled_less(Store& store, SteadyTime until) {
  const std::string what =
      "it shows a state from before it was settled last: it has gone back; stop every process that "
      "uses it, and raise all of it past every value in use on any host";
  [[maybe_unused]] const Result<void> marked =
      store.mark_gone_back(what, store.settle_count(), until);
  const std::string url(store.url());
  return at_place(url, {Code::kDataLoss, what, {Remedy::kRaiseStore, url}});
}

}  // namespace

GivingStore::GivingStore(Store& store, LastIssued::Kind kind) : store_(&store), kind_(kind) {
  const StoreKind* const its = store_kind(store.url());
  if (store.id() == Uuid{} || (its != nullptr && !its->lasts)) return;
  issued_ = &StoreIssued::of(store.name_on_host());
}

Result<void> GivingStore::must_be_settled(std::int64_t known, SteadyTime until) const {
  if (issued_ == nullptr) return {};
  const std::int64_t settled = store_->settle_count();
  if (settled < known) return std::unexpected(settled_less(*store_, until));
  issued_->know_settled(settled);
  return {};
}

Result<void> must_be_settled(const GivingStore& from, SteadyTime until) {
  if (from.issued() == nullptr) return {};
  Store& store = from.store();
  if (const std::int64_t known = from.settled(); store.settle_count() < known) {
    const Result<std::int64_t> now = store.read_settle_count(until);
    if (!now) return std::unexpected(now.error());
    if (*now < known) return std::unexpected(settled_less(store, until));
  }
  from.issued()->know_settled(store.settle_count());
  return {};
}

LastIssued::Kind kind_of(const SequenceDefinition& definition) noexcept {
  switch (definition.strategy) {
    case Strategy::kPermuted:
      return LastIssued::Kind::kIndex;
    case Strategy::kRandom:
      return LastIssued::Kind::kClaim;
    default:
      return LastIssued::Kind::kValue;
  }
}

Result<Range> believed_advance(GivingStore& from, const std::string& name, KnownCounter& known,
                               std::int64_t count, Take take, SteadyTime until,
                               std::string_view sequence, Tally& tally) {
  const auto ended = [] { return Error{Code::kOutOfRange, "extended since"}; };
  if (known.ended) return std::unexpected(ended());
  // Before the advance is sent: another thread may take later values meanwhile.
  const std::int64_t floor = floor_now(from, name, known);
  if (auto is_settled = must_be_settled(from, until); !is_settled)
    return std::unexpected(std::move(is_settled.error()));
  const std::int64_t known_settled = from.settled();
  Store& store = from.store();
  const std::int64_t settled = store.settle_count();
  Result<Range> values = store.counters()->advance(name, count, take, until);
  tally.count_round_trip();
  if (!values) {
    Error& error = values.error();
    if (error.code == Code::kUnknown || error.code == Code::kDeadlineExceeded) {
      tally.add_waste(count);
    }
    if (error.code == Code::kFailedPrecondition)
      error = why_closed(store, sequence, std::move(error), until);
    if (error.code == Code::kNotFound) {
      error = at(sequence, name,
                 "it is defined, but its counter is gone; restore the store, then go on with a "
                 "sequence that begins past every value in use");
    }
    return values;
  }
  const bool complete =
      take == Take::kAll ? values->count == count : values->count >= 1 && values->count <= count;
  if (!complete || !can_give(known.bounds, floor, *values)) {
    tally.add_waste(count);
    Error error = impossible(from, sequence, name, known, floor, *values);
    if (complete && values->first < floor) {
      // Without the mark, this process alone knows.
      [[maybe_unused]] const Result<void> marked =
          store.mark_gone_back(error.message(), settled, until);
    }
    return std::unexpected(std::move(error));
  }
  if (auto is_settled = from.must_be_settled(known_settled, until); !is_settled) {
    tally.add_waste(count);
    return std::unexpected(std::move(is_settled.error()));
  }
  if (values->last() > known.bounds.last) {
    tally.add_waste(count);
    known.ended = true;
    return std::unexpected(ended());
  }
  known.floor = values->last() + known.bounds.stride;
  if (known.issued != nullptr) known.issued->raise(values->last(), store.settle_count());
  return values;
}

}  // namespace idmint
