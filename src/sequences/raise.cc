// Raises sequences and pools: afterwards nothing up to a floor is taken from the store. Each
// counter has its own floor, and each raise is one atomic max, so a repeated raise completes an
// interrupted one.
#include <algorithm>
#include <concepts>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "idmint/form.h"
#include "idmint/mongodb.h"
#include "idmint/sequence.h"
#include "idmint/worker_pool.h"
#include "ids/lease_table.h"
#include "sequences/life_cycle.h"
#include "sequences/moved.h"
#include "sequences/multi_store.h"
#include "sequences/strategies.h"
#include "store/catalog.h"
#include "store/counter_store.h"

namespace idmint {
namespace {

// A floor at or below the next value of a counter does not move it.
constexpr std::int64_t kStay = 0;

// The counters of the definition, and the floor of each.
struct Floors {
  std::vector<CounterState> counters;
  std::vector<std::int64_t> floors;  // one for each; kStay: not raised
};

Result<Floors> floors_of(Store& store, const SequenceDefinition& definition, RaiseMode mode,
                         SteadyTime until = SteadyTime::max()) {
  Result<std::vector<CounterState>> counters = read_counters(store, definition, until);
  if (!counters) return std::unexpected(std::move(counters.error()));
  // First completes an interrupted extension: the values that it adds may be below the floor.
  if (mode == RaiseMode::kCarryOut) {
    if (auto extended = extend_counters(store, definition, *counters); !extended)
      return std::unexpected(std::move(extended.error()));
  }
  Floors floors{.counters = *std::move(counters), .floors = {}};
  floors.floors.resize(floors.counters.size(), kStay);
  return floors;
}

// kUnavailable, kFailedPrecondition also: meanwhile a move began, which may have read the counters
// before this raise.
Result<Raised> raise_to(Store& store, const SequenceDefinition& definition, Floors floors,
                        RaiseMode mode, SteadyTime until = SteadyTime::max()) {
  Raised raised;
  if (mode == RaiseMode::kPreview) raised.status = status_with(store, definition, floors.counters);
  std::map<std::int64_t, std::vector<CounterState*>> by_floor;
  for (std::size_t k = 0; k < floors.counters.size(); ++k) {
    CounterState& counter = floors.counters[k];
    raised.left += counter.left();
    // One that was set back is raised to where it was, at least.
    const bool is_back = counter.set_back && floors.floors[k] != kStay;
    if ((counter.next < floors.floors[k] || is_back) && counter.left() > 0)
      by_floor[std::max(floors.floors[k], counter.next)].push_back(&counter);
  }
  const auto moved = [&raised](CounterState& counter, std::int64_t next) {
    raised.skipped += (next - counter.next) / counter.bounds.stride;
    counter.next = next;
    counter.no_floor = false;
    counter.set_back.reset();
  };
  for (const auto& [floor, counters] : by_floor) {
    if (mode == RaiseMode::kPreview) {
      for (CounterState* const counter : counters)
        moved(*counter, counter->bounds.at_or_above(floor));
      continue;
    }
    std::vector<std::string> names;
    for (const CounterState* const counter : counters) names.push_back(counter->name);
    auto counter = counters.begin();
    const auto done = in_batches(names, [&](std::span<const std::string> batch) -> Result<void> {
      const auto next = store.counters()->raise(batch, floor, until);
      if (!next) return std::unexpected(next.error());
      for (const std::int64_t each : *next) moved(**counter++, each);
      return {};
    });
    if (!done) return std::unexpected(done.error());
  }
  if (mode == RaiseMode::kCarryOut && !definition.move) {
    const Result<Definition> now = store.catalog()->find(definition.name, until);
    if (!now) return std::unexpected(now.error());
    if (std::optional<Error> away = moved_away(store, *now)) return std::unexpected(*away);
  }
  for (const CounterState& counter : floors.counters) {
    raised.next = std::max(raised.next, counter.bounds.last + 1);
  }
  for (const CounterState& counter : floors.counters)
    if (counter.left() > 0) raised.next = std::min(raised.next, counter.next);
  if (mode == RaiseMode::kCarryOut) raised.status = status_with(store, definition, floors.counters);
  return raised;
}

Error nothing_to_raise(const Store& store, const Definition& retired) {
  return refuse_retired(store, retired,
                        "so no value comes from it any more, and there is nothing to raise");
}

// Whether its counters may skip values.
Result<void> check_raisable(const Store& store, const SequenceDefinition& definition) {
  const auto refuse = [&](Code code, const std::string& what) {
    return std::unexpected(error_at(store, code, definition, what));
  };
  if (definition.retired) return std::unexpected(nothing_to_raise(store, definition));
  if (definition.strategy == Strategy::kRandom)
    return refuse(Code::kInvalidArgument,
                  "its values come in no order, so it cannot be raised past one; its claims keep "
                  "them apart");
  if (const bool gapless = definition.strategy == Strategy::kGapless; gapless)
    return refuse(
        Code::kFailedPrecondition,
        "it is gapless, and what a raise passes over would be missing; numbers that go on "
        "after others are those of a new sequence that begins there");
  return {};
}

}  // namespace

Result<Raised> raise_here(Store& store, const SequenceDefinition& definition, std::int64_t past,
                          RaiseMode mode, SteadyTime until) {
  if (auto can = check_raisable(store, definition); !can) return std::unexpected(can.error());
  const bool by_index = definition.strategy == Strategy::kPermuted;
  const std::int64_t most = by_index ? definition.size() : definition.last;
  if (past > most) {
    const bool can_end_later =
        has_movable_end(definition) && most < largest_integer(definition.form);
    return std::unexpected(
        error_at(store, Code::kOutOfRange, definition,
                 "it cannot be raised past " + std::to_string(past) +
                     (by_index ? " values: it has " : ": it ends at ") + std::to_string(most) +
                     "; raise it past that, " +
                     (can_end_later ? "or first move its end up"
                                    : "and go on with a new sequence that begins above"),
                 can_end_later ? Advice{Remedy::kAlterSequence, definition.name} : Advice{}));
  }
  Result<Floors> floors = floors_of(store, definition, mode, until);
  if (!floors) return std::unexpected(std::move(floors.error()));
  // The indices of the first `past` values are 0 to past - 1.
  std::ranges::fill(floors->floors, std::max<std::int64_t>(0, by_index ? past : past + 1));
  return raise_to(store, definition, *std::move(floors), mode, until);
}

namespace {

// The index of the counter with this value, in blocks or interleaved. REQUIRES: it is a value of
// the definition, which is kStriped or kInterleaved.
std::size_t counter_with(const SequenceDefinition& definition,
                         const std::vector<CounterState>& counters, std::int64_t value) {
  if (definition.is_multi_store()) return 0;
  if (definition.strategy == Strategy::kInterleaved)
    return static_cast<std::size_t>((value - definition.first) / definition.stride %
                                    definition.stripes);
  const auto after = std::ranges::upper_bound(
      counters, value, {}, [](const CounterState& state) { return state.bounds.first; });
  return static_cast<std::size_t>(after - counters.begin() - 1);
}

Result<Raised> raise_each(Store& store, const SequenceDefinition& definition,
                          std::span<const std::int64_t> past, RaiseMode mode) {
  if (auto can = check_raisable(store, definition); !can) return std::unexpected(can.error());
  const auto refuse = [&](const std::string& what, Advice advice = {}) {
    return std::unexpected(
        error_at(store, Code::kInvalidArgument, definition, what, std::move(advice)));
  };
  if (definition.strategy != Strategy::kStriped && definition.strategy != Strategy::kInterleaved)
    return refuse("it has one counter, which is raised past one value",
                  {Remedy::kRaiseSequence, definition.name});
  Result<Floors> floors = floors_of(store, definition, mode);
  if (!floors) return std::unexpected(std::move(floors.error()));
  for (const std::int64_t value : past) {
    if (value > definition.last || !position_of(definition, value))
      return refuse(
          "it has no value " + std::to_string(value) + ": give values from " +
          std::to_string(definition.first) + " to " + std::to_string(definition.last) +
          (definition.stride == 1 ? "" : " in steps of " + std::to_string(definition.stride)));
    std::int64_t& floor = floors->floors[counter_with(definition, floors->counters, value)];
    floor = std::max(floor, value + 1);
  }
  return raise_to(store, definition, *std::move(floors), mode);
}

// Raises each block past the largest value in it; blocks without one are not queried.
Result<Raised> raise_blocks(Store& store, const SequenceDefinition& definition,
                            ExistingValues& values, RaiseMode mode) {
  Result<Floors> floors = floors_of(store, definition, mode);
  if (!floors) return std::unexpected(std::move(floors.error()));
  for (std::int64_t to = definition.last; to >= definition.first;) {
    const auto largest = values.largest(definition.first, to);
    if (!largest) return std::unexpected(largest.error());
    const std::optional<std::int64_t> found = *largest;
    if (!found) break;
    const std::size_t block = counter_with(definition, floors->counters, *found);
    floors->floors[block] = *found + 1;
    to = floors->counters[block].bounds.first - 1;
  }
  return raise_to(store, definition, *std::move(floors), mode);
}

// In this store, or in all stores of the sequence.
Result<Raised> raise_everywhere(Store& store, const SequenceDefinition& definition,
                                std::int64_t past, RaiseMode mode, SteadyTime until,
                                const MultiStoreOptions& multi_store) {
  if (definition.is_multi_store())
    return raise_stripes(store, definition, past, mode, until, multi_store);
  return raise_here(store, definition, past, mode, until);
}

Result<Raised> raise_past(Store& store, const SequenceDefinition& definition,
                          ExistingValues& values, RaiseMode mode,
                          const MultiStoreOptions& multi_store) {
  if (definition.strategy == Strategy::kPermuted)
    return std::unexpected(error_at(
        store, Code::kInvalidArgument, definition.name,
        "it is permuted, and values that are in use would come at places all over its order; "
        "choose a range without them for a new sequence"));
  if (auto can = check_raisable(store, definition); !can) return std::unexpected(can.error());
  if (definition.strategy == Strategy::kStriped)
    return raise_blocks(store, definition, values, mode);
  const auto largest = values.largest(definition.first, definition.last);
  if (!largest) return std::unexpected(largest.error());
  return raise_everywhere(store, definition, largest->value_or(definition.first - 1), mode,
                          SteadyTime::max(), multi_store);
}

// Its definition in `from`. The two may differ in a movable end and in being retired.
template <class Kind>
Result<Kind> same_in(Store& store, const Kind& definition, Store& from) {
  const auto refuse = [&](const std::string& what, Advice advice = {}) {
    return std::unexpected(naming_places(
        error_at(store, Code::kFailedPrecondition, definition, what, std::move(advice))));
  };
  const std::string where(from.url());
  if (from.catalog() == nullptr) return refuse(where + " keeps no sequences");
  const Result<Definition> found = from.catalog()->find(definition.name);
  if (!found && found.error().code == Code::kNotFound) return refuse("it is not in " + where);
  if (!found) return std::unexpected(found.error());
  if (const auto* const there = std::get_if<Kind>(&*found)) {
    Kind compared = *there;
    compared.retired = definition.retired;
    if constexpr (std::same_as<Kind, SequenceDefinition>) {
      compared.move = definition.move;
      if (has_movable_end(definition)) compared.last = definition.last;
    }
    if (compared == definition) return *there;
  }
  return refuse("it is defined otherwise in " + where + "; compare the two",
                {Remedy::kCompare, definition.name});
}

// The fate of a source in the store that was written to meanwhile.
struct Later {
  bool retired = false;
  std::optional<Move> away{};  // it is on its way to another store, or went there
};
Result<Later> later_in(Store& store, const Definition& definition, Store& newer) {
  const auto later = [&](const auto& its) -> Result<Later> {
    const auto there = same_in(store, its, newer);
    if (!there) return std::unexpected(there.error());
    Later found{.retired = there->retired};
    if constexpr (std::same_as<std::remove_cvref_t<decltype(its)>, SequenceDefinition>)
      if (!is_arriving(*there)) found.away = there->move;
    return found;
  };
  return std::visit(later, definition);
}

// A value that raise_all() was told of for one source, and its position in the order of the source.
struct Given {
  GivenValue value;
  std::int64_t position;
};
template <class Kind>
std::vector<Given> given_of(const Kind& definition, std::span<const GivenValue> given) {
  std::vector<Given> of_it;
  for (const GivenValue& each : given) {
    if (each.source != definition.name) continue;
    const std::optional<std::int64_t> position = position_of(definition, each.value);
    if (position) of_it.push_back({each, *position});
  }
  return of_it;
}

// The error if a value that was handed out would come again. `first`: the step before the advice.
Error not_reached(const Store& store, const Definition& definition, const GivenValue& value,
                  Advice advice, const std::string& first = "") {
  return error_at(store, Code::kFailedPrecondition, definition,
                  value.evidence +
                      ", which this raise does not reach, and others may have been given later "
                      "ones; " +
                      first + "raise it by itself past all of them",
                  std::move(advice));
}

// Rejects floors that would let one of the values come again.
Result<void> check_reached(const Store& store, const SequenceDefinition& definition,
                           const Floors& floors, std::span<const GivenValue> given) {
  for (const auto& [each, position] : given_of(definition, given)) {
    const CounterState* const counter = counter_at(floors.counters, position);
    const std::string value = std::to_string(each.value);
    if (counter == nullptr) {
      const std::string last = std::to_string(std::max(each.value, definition.last));
      return std::unexpected(not_reached(store, definition, each,
                                         {Remedy::kRaiseSequence, definition.name, {value}},
                                         "move its end up to " + last + ", then "));
    }
    const auto k = static_cast<std::size_t>(counter - floors.counters.data());
    if (position < std::max(counter->next, floors.floors[k])) continue;
    const bool is_block = definition.strategy == Strategy::kStriped;
    const bool by_index = definition.strategy == Strategy::kPermuted;
    return std::unexpected(not_reached(store, definition, each,
                                       {is_block ? Remedy::kRaiseEach : Remedy::kRaiseSequence,
                                        definition.name,
                                        {by_index ? std::to_string(position + 1) : value}}));
  }
  return {};
}

Result<Raised> raise_past_counters(Store& store, const SequenceDefinition& definition, Store& from,
                                   RaiseMode mode, std::span<const GivenValue> given = {}) {
  if (auto can = check_raisable(store, definition); !can) return std::unexpected(can.error());
  const Result<SequenceDefinition> there = same_in(store, definition, from);
  if (!there) return std::unexpected(there.error());
  const Result<std::vector<CounterState>> source = read_counters(from, *there);
  if (!source) return std::unexpected(source.error());
  Result<Floors> floors = floors_of(store, definition, mode);
  if (!floors) return std::unexpected(std::move(floors.error()));
  for (std::size_t k = 0; k < source->size(); ++k) {
    const CounterState& ahead = (*source)[k];
    const CounterBounds& here = floors->counters[k].bounds;
    if (ahead.next > here.last + here.stride)
      return std::unexpected(naming_places(
          error_at(store, Code::kFailedPrecondition, definition,
                   "it ends at " + std::to_string(definition.last) + ", and has gone on to " +
                       std::to_string(ahead.next - ahead.bounds.stride) + " in " +
                       std::string(from.url()) + "; first move its end up",
                   {Remedy::kAlterSequence, definition.name, {std::to_string(there->last)}})));
    floors->floors[k] = ahead.next;
  }
  if (auto reached = check_reached(store, definition, *floors, given); !reached)
    return std::unexpected(std::move(reached.error()));
  return raise_to(store, definition, *std::move(floors), mode);
}

// Runs `raise` for the sequence of this name with its present definition.
template <class RaiseDefined>
Result<Raised> raise_named(Store& store, std::string_view name, RaiseDefined raise,
                           SteadyTime until = SteadyTime::max()) {
  const Result<Definition> found = find_definition(store, name, until);
  if (!found) return std::unexpected(found.error());
  const auto raise_unmoved = [&](const SequenceDefinition& definition) -> Result<Raised> {
    if (std::optional<Error> moved = moved_away(store, definition)) return std::unexpected(*moved);
    return raise(definition);
  };
  if (const auto* const sequence = std::get_if<SequenceDefinition>(&*found))
    return with_latest(store, *sequence, raise_unmoved, until);
  if (is_retired(*found)) return std::unexpected(nothing_to_raise(store, *found));
  return std::unexpected(error_at(store, Code::kInvalidArgument, *found,
                                  "it is a pool of worker ids, which is raised past a time",
                                  {Remedy::kRaisePool, std::string(name)}));
}

}  // namespace

Result<Raised> raise_sequence(Store& store, std::string_view name, ExistingValues& values,
                              RaiseMode mode, const MultiStoreOptions& multi_store) {
  return raise_named(store, name, [&](const SequenceDefinition& definition) {
    return raise_past(store, definition, values, mode, multi_store);
  });
}

Result<Raised> raise_sequence(Store& store, std::string_view name, std::int64_t past,
                              RaiseMode mode, SteadyTime until,
                              const MultiStoreOptions& multi_store) {
  return raise_named(
      store, name,
      [&](const SequenceDefinition& definition) {
        return raise_everywhere(store, definition, past, mode, until, multi_store);
      },
      until);
}

Result<Raised> raise_sequence(Store& store, std::string_view name,
                              std::span<const std::int64_t> past, RaiseMode mode) {
  return raise_named(store, name, [&](const SequenceDefinition& definition) {
    return raise_each(store, definition, past, mode);
  });
}

Result<Raised> raise_sequence(Store& store, std::string_view name, Store& from, RaiseMode mode) {
  return raise_named(store, name, [&](const SequenceDefinition& definition) -> Result<Raised> {
    const Result<Later> later = later_in(store, definition, from);
    if (!later) return std::unexpected(later.error());
    if (later->retired || later->away)
      return std::unexpected(naming_places(error_at(
          store, Code::kFailedPrecondition, definition,
          (later->away ? "it went to " + later->away->url + " from " : "it is retired in ") +
              std::string(from.url()) + "; retire it here, too",
          {Remedy::kRetireSequence, definition.name})));
    return raise_past_counters(store, definition, from, mode);
  });
}

// ---- a whole store

namespace {

// The floor of a counter that raise_all() raises past a number. Rejects a number that the store
// itself shows to be wrong.
Result<std::int64_t> floor_past(const Store& store, const SequenceDefinition& definition,
                                const CounterState& counter, std::int64_t past) {
  const CounterBounds& bounds = counter.bounds;
  const bool is_block = definition.strategy == Strategy::kStriped;
  const bool is_count = is_block || definition.strategy == Strategy::kPermuted;  // not a value
  const auto refuse = [&](Code code, const std::string& why) {
    return std::unexpected(
        error_at(store, code, definition, why + "; raise it by itself",
                 {is_block ? Remedy::kRaiseEach : Remedy::kRaiseSequence, definition.name}));
  };
  const std::int64_t room =
      is_count ? (bounds.last - bounds.first) / bounds.stride + 1 : bounds.last;
  if (past > room)
    return refuse(Code::kOutOfRange,
                  (is_count ? counter.name + " has " + std::to_string(room) + " values"
                            : "it ends at " + std::to_string(room)) +
                      ", and cannot be raised past " + std::to_string(past));
  const std::int64_t floor = is_count ? bounds.first + past * bounds.stride : past + 1;
  const std::string small = std::to_string(past) + " is not past what it has handed out: ";
  const std::int64_t last = counter.next - bounds.stride;
  if (last >= bounds.first && last >= floor)
    return refuse(Code::kInvalidArgument,
                  small + counter.name + " has reached " + std::to_string(last));
  if (!is_count && floor <= definition.first)
    return refuse(Code::kInvalidArgument,
                  small + "its first value is " + std::to_string(definition.first));
  return floor;
}

Result<Raised> raise_past_number(Store& store, const SequenceDefinition& definition,
                                 std::int64_t past, RaiseMode mode,
                                 std::span<const GivenValue> given) {
  if (auto can = check_raisable(store, definition); !can) return std::unexpected(can.error());
  Result<Floors> floors = floors_of(store, definition, mode);
  if (!floors) return std::unexpected(std::move(floors.error()));
  for (std::size_t k = 0; k < floors->counters.size(); ++k) {
    const Result<std::int64_t> floor = floor_past(store, definition, floors->counters[k], past);
    if (!floor) return std::unexpected(floor.error());
    floors->floors[k] = *floor;
  }
  if (auto reached = check_reached(store, definition, *floors, given); !reached)
    return std::unexpected(std::move(reached.error()));
  return raise_to(store, definition, *std::move(floors), mode);
}

// The facts behind raise_all(), besides the store.
struct Known {
  Store* newer;  // null: none
  std::span<const GivenValue> given;
  Clock& clock;
};

// Raises past the clock by one minute and past every known bound; returns the first unit that may
// be leased. A bound lost with the store's latest state is ahead of the clock by a window and the
// allowed drift, which is 20 s, or a window and a second if that is more: less than a minute with
// windows of up to 29 s. No store knows larger ones.
Result<std::int64_t> raise_pool_past_all(Store& store, const PoolDefinition& pool,
                                         const Known& known, RaiseMode mode) {
  const SnowflakeLayout& layout = pool.layout;
  const auto since = known.clock.now() + std::chrono::minutes{1} - layout.epoch;
  std::int64_t floor = since.count() < 0 ? 0 : since / layout.unit + 1;
  const auto past_bounds = [&floor](const std::vector<LeaseState>& workers) {
    for (const LeaseState& state : workers) floor = std::max(floor, state.minted_until);
  };
  const Result<std::vector<LeaseState>> here = read_workers(store, pool);
  if (!here) return std::unexpected(here.error());
  past_bounds(*here);
  if (known.newer != nullptr) {
    const Result<PoolDefinition> same = same_in(store, pool, *known.newer);
    if (!same) return std::unexpected(same.error());
    const Result<std::vector<LeaseState>> there = read_workers(*known.newer, *same);
    if (!there) return std::unexpected(there.error());
    past_bounds(*there);
  }
  for (const auto& [each, unit] : given_of(pool, known.given)) {
    if (unit < floor) continue;
    const auto time = time_of(layout, unit);
    Advice advice{Remedy::kRaisePool, pool.name};
    if (time) advice.values.push_back(format_exact_time(*time));
    return std::unexpected(not_reached(store, pool, each, std::move(advice)));
  }
  if (mode == RaiseMode::kPreview) return floor;
  if (auto raised = store.leases()->raise_floor(pool.name, floor); !raised)
    return std::unexpected(raised.error());
  return floor;
}

// Describes the missing claims of a random sequence.
Result<std::string> missing_claims(Store& store, const SequenceDefinition& definition,
                                   Store* newer) {
  const Result<std::int64_t> here = read_claimed(store, definition);
  if (!here) return std::unexpected(here.error());
  const std::string advice =
      "can come again; where that matters retire it, and go on with another of values that are not "
      "in use";
  if (newer == nullptr)
    return "its claims cannot be raised: a value that was claimed since, and is not among the " +
           std::to_string(*here) + " here, " + advice;
  const Result<SequenceDefinition> same = same_in(store, definition, *newer);
  if (!same) return std::unexpected(same.error());
  const Result<std::int64_t> there = read_claimed(*newer, *same);
  if (!there) return std::unexpected(there.error());
  if (*there <= *here) return std::string();
  return std::to_string(*there - *here) + " of its claims are in " + std::string(newer->url()) +
         " alone: each of these values " + advice;
}

std::string joined(const std::string& text, const std::string& more) {
  return text.empty() || more.empty() ? text + more : text + "; " + more;
}

// Describes the given values that the store does not know, for a sequence that cannot be raised;
// empty: none.
Result<std::string> unknown_given(Store& store, const SequenceDefinition& definition,
                                  std::span<const GivenValue> given) {
  std::string unknown;
  for (const auto& [each, position] : given_of(definition, given)) {
    const Result<bool> known = has_given(store, definition.name, each.value);
    if (!known) return std::unexpected(known.error());
    if (!*known)
      unknown = joined(unknown, each.evidence +
                                    ", and the store does not know of it: retire it, "
                                    "and go on with another");
  }
  return unknown;
}

using RaiseCounters = std::function<Result<Raised>(const SequenceDefinition&)>;

// Each overload fills in the row of its source.
Result<void> raise_row(Store& store, const SequenceDefinition& definition, const Known& known,
                       RaiseMode /*mode*/, const RaiseCounters& raise, RaisedSource& row) {
  if (definition.strategy != Strategy::kRandom && definition.strategy != Strategy::kGapless) {
    const Result<Raised> raised = with_latest(store, definition, raise);
    if (!raised) return std::unexpected(raised.error());
    row.raised = *raised;
    return {};
  }
  const Result<std::string> missing =
      definition.strategy == Strategy::kRandom
          ? missing_claims(store, definition, known.newer)
          : "it is gapless and stays where it is, as its counter and the documents with its "
            "numbers are of one moment; if the documents are newer, retire it, and go on with "
            "a new one that begins above them";
  if (!missing) return std::unexpected(missing.error());
  const Result<std::string> unknown = unknown_given(store, definition, known.given);
  if (!unknown) return std::unexpected(unknown.error());
  row.remains = joined(*missing, *unknown);
  return {};
}

Result<void> raise_row(Store& store, const PoolDefinition& pool, const Known& known, RaiseMode mode,
                       const RaiseCounters& /*raise*/, RaisedSource& row) {
  const Result<std::int64_t> floor = raise_pool_past_all(store, pool, known, mode);
  if (!floor) return std::unexpected(floor.error());
  row.past_unit = *floor - 1;
  row.remains =
      "if a program leased from it with a window above 29 s, its latest "
      "bound may lie later: raise it by itself, a minute, two windows and a unit past the stop of "
      "the last one";
  return {};
}

// One that is on its way to another store, or went there since the backup. Its counters are raised
// all the same, since the move may still read them, and closed, since the other store may hand out
// values already.
Result<void> raise_and_send_away(Store& store, const SequenceDefinition& definition,
                                 const Move& move, RaiseMode mode, const RaiseCounters& raise,
                                 RaisedSource& row) {
  const Result<Raised> raised = with_latest(store, definition, raise);
  if (!raised) return std::unexpected(raised.error());
  row.raised = *raised;
  if (move.stage == Move::Stage::kGone) {
    row.retired = true;
  } else {
    row.remains = "it is being moved to " + move.url + ", and is closed here: finish the move";
  }
  if (mode == RaiseMode::kPreview) return {};
  const Result<Definition> now = find_definition(store, definition.name);
  if (!now) return std::unexpected(now.error());
  const auto* const latest = std::get_if<SequenceDefinition>(&*now);
  return send_away(store, latest != nullptr ? *latest : definition, move);
}

// One whose move to this store was cut off, or was, when the backup was made: values may have come
// from it here since.
Result<void> raise_arriving(Store& store, const SequenceDefinition& definition, const Move& move,
                            const RaiseCounters& raise, RaisedSource& row) {
  const Result<Raised> raised = with_latest(store, definition, raise);
  if (raised) {
    row.raised = *raised;
    row.remains = "it is being moved here from " + move.url + ": finish the move";
    return {};
  }
  if (raised.error().code != Code::kDataLoss && raised.error().code != Code::kNotFound)
    return std::unexpected(raised.error());
  return std::unexpected(error_at(store, Code::kFailedPrecondition, definition,
                                  "it was to be moved here, and not all of its counters are "
                                  "there (" +
                                      raised.error().message() + "); retire it here",
                                  {Remedy::kRetireSequence, definition.name}));
}

Result<void> raise_or_retire(Store& store, const Definition& definition, const Known& known,
                             RaiseMode mode, const RaiseCounters& raise, RaisedSource& row) {
  if (auto offered = offers(store, definition); !offered) return offered;
  Later later;
  if (known.newer != nullptr) {
    Result<Later> found = later_in(store, definition, *known.newer);
    if (!found) return std::unexpected(std::move(found.error()));
    later = *std::move(found);
  }
  const auto* const sequence = std::get_if<SequenceDefinition>(&definition);
  if (sequence != nullptr && !later.away && !is_arriving(definition)) later.away = sequence->move;
  if (sequence != nullptr && later.away)
    return raise_and_send_away(store, *sequence, *later.away, mode, raise, row);
  if (later.retired) {
    if (mode == RaiseMode::kCarryOut)
      if (auto done = retire_here(store, definition); !done)
        return std::unexpected(std::move(done.error()));
    row.retired = true;
    return {};
  }
  if (sequence != nullptr && sequence->move)
    return raise_arriving(store, *sequence, *sequence->move, raise, row);
  const auto each = [&](const auto& its) { return raise_row(store, its, known, mode, raise, row); };
  return std::visit(each, definition);
}

Result<std::vector<RaisedSource>> raise_store(Store& store, const Known& known, RaiseMode mode,
                                              const RaiseCounters& raise) {
  if (store.catalog() == nullptr)
    return std::unexpected(Error{Code::kUnimplemented, "the store " + std::string(store.url()) +
                                                           " keeps no sequences; use another"});
  const Result<std::vector<CatalogEntry>> entries = store.catalog()->list();
  if (!entries) return std::unexpected(entries.error());
  std::vector<RaisedSource> rows;
  for (const CatalogEntry& entry : *entries) {
    if (!entry.definition) {
      rows.push_back({.definition = SequenceDefinition{.name = entry.name},
                      .error = entry.definition.error()});
    } else if (!is_retired(*entry.definition)) {
      RaisedSource& row = rows.emplace_back(RaisedSource{.definition = *entry.definition});
      const auto raised = raise_or_retire(store, *entry.definition, known, mode, raise, row);
      if (!raised) row.error = raised.error();
      row.raised.status = {};
    }
  }
  for (const GivenValue& each : known.given)
    if (std::ranges::find(*entries, each.source, &CatalogEntry::name) == entries->end() &&
        (known.newer == nullptr || !known.newer->catalog()->find(each.source)))
      rows.push_back({.definition = SequenceDefinition{.name = each.source},
                      .remains = each.evidence +
                                 ", and the store has nothing of that name: make it anew to begin "
                                 "above every value in use"});
  const bool all =
      std::ranges::none_of(rows, [](const RaisedSource& row) { return row.error.has_value(); });
  if (all && mode == RaiseMode::kCarryOut) {
    if (auto settled = store.settle(); !settled) return std::unexpected(settled.error());
  }
  return rows;
}

}  // namespace

Result<std::vector<RaisedSource>> raise_all(Store& store, std::int64_t past, RaiseMode mode,
                                            std::span<const GivenValue> given, Clock& clock) {
  const Known known{.newer = nullptr, .given = given, .clock = clock};
  return raise_store(store, known, mode, [&](const SequenceDefinition& definition) {
    return raise_past_number(store, definition, past, mode, given);
  });
}

Result<std::vector<RaisedSource>> raise_all(Store& store, Store& from, RaiseMode mode,
                                            std::span<const GivenValue> given, Clock& clock) {
  if (store.url() == from.url())
    return std::unexpected(Error{Code::kInvalidArgument,
                                 std::string(from.url()) +
                                     " is the store itself, which knows no more than it knows: "
                                     "name the one that was written to meanwhile"});
  const Known known{.newer = &from, .given = given, .clock = clock};
  Result<std::vector<RaisedSource>> rows =
      raise_store(store, known, mode, [&](const SequenceDefinition& definition) {
        return raise_past_counters(store, definition, from, mode, given);
      });
  if (!rows) return rows;
  const Result<std::vector<CatalogEntry>> theirs = from.catalog()->list();
  if (!theirs) return std::unexpected(theirs.error());
  for (const CatalogEntry& entry : *theirs) {
    const Result<Definition> here = store.catalog()->find(entry.name);
    if (here || here.error().code != Code::kNotFound) continue;
    rows->push_back(
        {.definition = entry.definition.value_or(SequenceDefinition{.name = entry.name}),
         .remains = "it is in " + std::string(from.url()) +
                    " alone: made here again it would begin anew and repeat its "
                    "values; give it another name"});
  }
  return rows;
}

}  // namespace idmint
