// Moves a sequence to another store. docs/design/010-move.md has the steps, and why each can be
// repeated by any number of processes at any time:
//   1. the name is reserved in the target (kArriving), and the counters are created there, by
//      whoever may also raise and open them there;
//   2. the source is marked (kLeaving): from here on the move can only go on;
//   3. the counters of the source are closed, and read;
//   4. those of the target are raised to what was read, and the sequence is opened there;
//   5. the source is retired (kGone).
#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/url.h"
#include "idmint/sequence.h"
#include "sequences/life_cycle.h"
#include "sequences/moved.h"
#include "sequences/strategies.h"
#include "store/catalog.h"
#include "store/counter_store.h"

namespace idmint {
namespace {

using MoveProgress = std::function<void(std::int64_t done, std::int64_t of)>;

// The two stores of a move, and the name of the sequence.
struct Route {
  Store& from;
  Store& to;
  std::string name;

  [[nodiscard]] Move leaving() const {
    return {Move::Stage::kLeaving, to.id(), without_secrets(to.url())};
  }
  [[nodiscard]] Move gone() const {
    return {Move::Stage::kGone, to.id(), without_secrets(to.url())};
  }
  [[nodiscard]] Move arriving() const {
    return {Move::Stage::kArriving, from.id(), without_secrets(from.url())};
  }
};

// The same sequence without its move: as it is in the target at the end.
SequenceDefinition unmoved(SequenceDefinition definition) {
  definition.move.reset();
  definition.retired = false;
  return definition;
}

SequenceDefinition with(SequenceDefinition definition, Move move) {
  definition.retired = move.stage == Move::Stage::kGone;
  definition.move = std::move(move);
  return definition;
}

bool is_at(const SequenceDefinition& definition, Move::Stage stage, const Uuid& other) {
  return definition.move && definition.move->stage == stage && definition.move->store == other;
}

Error cannot_move(const Store& store, const Definition& definition, const std::string& why,
                  Advice advice = {}) {
  return error_at(store, Code::kUnimplemented, definition, "it cannot be moved: " + why,
                  std::move(advice));
}

// A store in doubt may hold less than it handed out.
Result<void> must_be_trusted(Store& store) {
  if (std::optional<Error> doubt = store.doubt()) return std::unexpected(*std::move(doubt));
  return {};
}

// The sequence in the source, which can be moved or is on its way to this target, or was moved
// there.
Result<SequenceDefinition> find_in_source(const Route& route) {
  Result<Definition> found = find_definition(route.from, route.name);
  if (!found) return std::unexpected(std::move(found.error()));
  const auto refuse = [&](const std::string& why, Advice advice = {}) {
    return std::unexpected(cannot_move(route.from, *found, why, std::move(advice)));
  };
  const auto* const sequence = std::get_if<SequenceDefinition>(&*found);
  if (sequence == nullptr)
    return refuse(
        "no store can stop the leases of a pool and keep their bounds in one step; create a pool "
        "of another name there, with a layout or an epoch whose ids never repeat these",
        {Remedy::kPlanPool, route.name});
  if (is_at(*sequence, Move::Stage::kLeaving, route.to.id()) ||
      is_at(*sequence, Move::Stage::kGone, route.to.id()))
    return *sequence;
  if (sequence->move && !is_arriving(*found) &&
      place_of(sequence->move->url) == place_of(route.to.url()))
    return std::unexpected(error_at(
        route.to, Code::kDataLoss, *sequence,
        "it was on its way to the store " + sequence->move->store.to_string() +
            " here, and another one is in its place; bring that one back, or create a sequence of "
            "another name that begins past every value in use"));
  if (std::optional<Error> moved = moved_away(route.from, *found)) return std::unexpected(*moved);
  if (sequence->retired)
    return std::unexpected(
        refuse_retired(route.from, *found, "and so there is nothing of it to be moved"));
  if (sequence->strategy == Strategy::kRandom)
    return refuse(
        "it is random, and a claim that began before its space was closed may end after it, and so "
        "be missing in a copy; create one there whose values are not in use");
  if (sequence->strategy == Strategy::kGapless)
    return refuse(
        "it is gapless, and its number and the documents are of one database; create one beside "
        "the documents there that begins above it");
  if (sequence->is_multi_store())
    return refuse(
        "it is over several stores, and its definition in each of them names the others; create "
        "one over the new stores that begins above it");
  if (!sequence->adopted.empty())
    return refuse(
        "other programs count in the record that it adopted, and would not go along; when they "
        "have stopped, create one there that begins above it");
  return *sequence;
}

// The sequence in the target. kNotFound: it is not there.
Result<SequenceDefinition> find_in_target(const Route& route) {
  Result<Definition> found = route.to.catalog()->find(route.name);
  if (!found) return std::unexpected(std::move(found.error()));
  if (auto* const sequence = std::get_if<SequenceDefinition>(&*found)) return std::move(*sequence);
  return std::unexpected(error_at(route.to, Code::kFailedPrecondition, *found,
                                  "it has the name of the sequence that is to be moved here"));
}

bool is_missing(const Result<SequenceDefinition>& found) {
  return !found && found.error().code == Code::kNotFound;
}

// kFailedPrecondition: the name is taken in the target, by another one than this move's.
Result<void> must_be_free(const Route& route, const SequenceDefinition& there) {
  if (is_at(there, Move::Stage::kArriving, route.from.id())) return {};
  if (there.move && there.move->stage == Move::Stage::kArriving)
    return std::unexpected(refuse_moved(route.to, there, *there.move));
  if (there.move)
    return std::unexpected(naming_places(
        error_at(route.to, Code::kFailedPrecondition, there,
                 "it was in this store before, and went to " + there.move->url +
                     "; a store does not take a name twice, so move it to another store")));
  return std::unexpected(error_at(
      route.to, Code::kFailedPrecondition, there,
      std::string(there.retired ? "a retired sequence has" : "another sequence has") +
          " the name of the one that is to be moved here, and no name is given again; move it to "
          "another store"));
}

// The counters of the definition in the target, with the bounds of those that exist there.
Result<std::vector<NewCounter>> as_they_are(Store& to, const SequenceDefinition& definition) {
  std::vector<NewCounter> wanted;
  for (std::int64_t k = 0; k < counter_count(definition); ++k)
    wanted.push_back(counter_of(definition, k));
  if (wanted.size() == 1 && wanted.front().name == definition.name) {
    const Result<CounterState> there = to.counters()->peek(definition.name);
    if (there) {
      wanted.front().bounds = there->bounds;
    } else if (there.error().code != Code::kNotFound) {
      return std::unexpected(there.error());
    }
    return wanted;
  }
  const Result<std::vector<CounterState>> listed = to.counters()->list(definition.name + "/");
  if (!listed) return std::unexpected(listed.error());
  for (NewCounter& counter : wanted) {
    const auto there = std::ranges::lower_bound(*listed, counter.name, {}, &CounterState::name);
    if (there != listed->end() && there->name == counter.name) counter.bounds = there->bounds;
  }
  return wanted;
}

Result<void> create_all(Store& to, std::span<const NewCounter> counters) {
  while (!counters.empty()) {
    const auto batch = counters.first(std::min(counters.size(), static_cast<std::size_t>(kAtOnce)));
    if (auto made = to.counters()->create(batch); !made)
      return std::unexpected(std::move(made.error()));
    counters = counters.subspan(batch.size());
  }
  return {};
}

// Creates the counters, and extends those of an earlier call, after which the source was extended.
// kFailedPrecondition: one is not of this move. A counter of an interrupted `create --adopt` may
// have the same bounds, and other programs take from its record: only create() tells the two apart.
Result<void> make_there(Store& to, const SequenceDefinition& definition) {
  const auto left_over = [&](const Error& why) {
    return std::unexpected(error_at(to, Code::kFailedPrecondition, definition,
                                    "an interrupted create left a counter of that name and no "
                                    "definition here (" +
                                        why.message() + "); move it to another store"));
  };
  std::vector<NewCounter> before;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto made = make_counters(to, definition);
    if (made) return {};
    if (made.error().code != Code::kAlreadyExists) return std::unexpected(made.error());
    Result<std::vector<NewCounter>> there = as_they_are(to, definition);
    if (!there && there.error().code == Code::kDataLoss) return left_over(there.error());
    if (!there) return std::unexpected(std::move(there.error()));
    // Another call of this move may have extended them since they were read; not twice the same.
    if (std::ranges::equal(*there, before, {}, &NewCounter::bounds, &NewCounter::bounds))
      return left_over(made.error());
    const Result<void> same = create_all(to, *there);
    if (same) {
      Result<std::vector<CounterState>> counters = read_counters(to, definition);
      if (counters) return extend_counters(to, definition, *counters);
      if (counters.error().code != Code::kDataLoss) return std::unexpected(counters.error());
      return left_over(made.error());
    }
    if (same.error().code != Code::kAlreadyExists) return same;
    before = *std::move(there);
  }
  return std::unexpected(
      error_at(to, Code::kUnavailable, definition, "others keep changing its counters; try again"));
}

// Whether the source can be marked. The call changes nothing. False: the source changed meanwhile.
Result<bool> may_leave(const Route& route, const SequenceDefinition& source) {
  for (const Move& move : {route.arriving(), route.leaving(), route.gone()})
    if (Result<void> valid = check_stored(with(source, move)); !valid)
      return std::unexpected(std::move(valid.error()));
  const Result<Defined> now = route.from.catalog()->replace(source, source);
  if (!now) return std::unexpected(now.error());
  return *now == Definition(source);
}

// The error of a call in `store`, which may come of another call of this move that went on
// meanwhile. False: it did, `read` is no longer the definition there.
Result<bool> unless_changed(Store& store, const Definition& read, Error error) {
  const Result<Definition> now = store.catalog()->find(idmint::name(read));
  if (now && *now != read) return false;
  return std::unexpected(std::move(error));
}

// Whether the target can be opened in the end: its counters give values, and the user may raise
// them and write the definition. Otherwise nothing is marked or closed in the source, as nobody
// would get a value then. The calls change nothing. False: the target changed meanwhile.
Result<bool> may_open(const Route& route, const SequenceDefinition& reserved) {
  const NewCounter counter = counter_of(reserved, 0);
  const Result<std::int64_t> next = route.to.counters()->raise(counter.name, counter.bounds.first);
  if (!next) return std::unexpected(next.error());
  const Result<std::vector<CounterState>> counters = read_counters(route.to, reserved);
  if (!counters) return unless_changed(route.to, reserved, counters.error());
  if (std::ranges::any_of(*counters, &CounterState::closed))
    return unless_changed(
        route.to, reserved,
        error_at(route.to, Code::kFailedPrecondition, reserved,
                 "a retirement of it was interrupted here; retire it here, and move "
                 "it to another store",
                 {Remedy::kRetireSequence, route.name}));
  const Result<Defined> now = route.to.catalog()->replace(reserved, reserved);
  if (!now) return std::unexpected(now.error());
  return *now == Definition(reserved);
}

// Step 1. The reservation may be an earlier one of this move, of a smaller last value. It is never
// replaced by a smaller one: its counters are extended already. False: a definition changed
// meanwhile.
Result<bool> reserve(const Route& route, const SequenceDefinition& source) {
  const SequenceDefinition definition = unmoved(source);
  const SequenceDefinition arriving = with(definition, route.arriving());
  const Definition wanted = arriving;
  Result<Defined> now = route.to.catalog()->define(wanted);
  if (!now) return std::unexpected(std::move(now.error()));
  if (*now != wanted) {
    const auto* const there = std::get_if<SequenceDefinition>(&now->definition);
    if (there == nullptr || !is_at(*there, Move::Stage::kArriving, route.from.id())) return false;
    // Another call of this move came after an alter here.
    if (there->last > definition.last)
      return unless_changed(
          route.from, source,
          error_at(route.from, Code::kFailedPrecondition, source,
                   "its last value is " + std::to_string(definition.last) + ", and was " +
                       std::to_string(there->last) +
                       " in an earlier call of this move; move its "
                       "end there, and move it again",
                   {Remedy::kAlterSequence, route.name, {std::to_string(there->last)}}));
    now = route.to.catalog()->replace(now->definition, wanted);
    if (!now) return std::unexpected(std::move(now.error()));
    if (*now != wanted) return false;
  }
  if (Result<void> made = make_there(route.to, definition); !made)
    return unless_changed(route.to, wanted, std::move(made.error()));
  return may_open(route, arriving);
}

// Step 3. A record that was read as closed has its last next value: both are in one record, so this
// holds for a reading of any age, too.
Result<std::vector<CounterState>> close_and_read(Store& from,
                                                 const SequenceDefinition& definition) {
  if (const Result<void> closed = close_values(from, definition); !closed)
    return std::unexpected(closed.error());
  Result<std::vector<CounterState>> counters = read_counters(from, definition);
  if (!counters) return counters;
  for (const CounterState& counter : *counters)
    if (!counter.closed)
      return std::unexpected(error_at(from, Code::kUnavailable, definition,
                                      "counter " + counter.name +
                                          " was closed, and is read as "
                                          "open; move it again"));
  // A fail-over that lost values may have come before the reading.
  if (Result<void> trusted = must_be_trusted(from); !trusted)
    return std::unexpected(std::move(trusted.error()));
  return counters;
}

// Step 4, without the definition. The bounds are the same, so each next value is taken over as it
// is.
Result<void> raise_there(Store& to, const SequenceDefinition& definition,
                         std::span<const CounterState> source, const MoveProgress& progress) {
  const Result<std::vector<CounterState>> before = read_counters(to, definition);
  if (!before) return std::unexpected(before.error());
  std::map<std::int64_t, std::vector<std::string>> by_floor;
  const std::int64_t count = std::ssize(source);
  std::int64_t done = 0;
  for (std::size_t k = 0; k < source.size(); ++k) {
    if ((*before)[k].next < source[k].next) {
      by_floor[source[k].next].push_back((*before)[k].name);
    } else {
      ++done;
    }
  }
  for (const auto& [floor, names] : by_floor) {
    const Result<void> raised =
        in_batches(names, [&](std::span<const std::string> batch) -> Result<void> {
          const auto next = to.counters()->raise(batch, floor);
          if (!next) return std::unexpected(next.error());
          done += std::ssize(batch);
          if (progress) progress(done, count);
          return {};
        });
    if (!raised) return raised;
  }
  const Result<std::vector<CounterState>> after = read_counters(to, definition);
  if (!after) return std::unexpected(after.error());
  for (std::size_t k = 0; k < source.size(); ++k) {
    const CounterState& counter = (*after)[k];
    if (counter.next >= source[k].next && !counter.closed) continue;
    if (counter.closed)
      return std::unexpected(error_at(to, Code::kDataLoss, definition,
                                      "counter " + counter.name +
                                          " is closed: it was changed by hand, and the sequence "
                                          "stays closed in both stores"));
    return std::unexpected(error_at(
        to, Code::kUnavailable, definition,
        "counter " + counter.name + " was raised, and is read as it was before; move it again"));
  }
  return {};
}

Moved told_of(const SequenceDefinition& definition, std::span<const CounterState> counters) {
  Moved moved{.definition = unmoved(definition), .counters = std::ssize(counters)};
  for (const CounterState& counter : counters) moved.left += counter.left();
  if (counters.size() == 1) moved.next = counters.front().next;
  return moved;
}

// The result where the target has handed out values already. `there` may have been altered, retired
// or moved on since.
Moved told_of_target(const Route& route, const SequenceDefinition& there) {
  if (!there.move) {
    if (const auto counters = read_counters(route.to, there)) return told_of(there, *counters);
  }
  return {.definition = unmoved(there), .counters = counter_count(there)};
}

// Steps 3 to 5 of a source that is marked, or of one that went, if the target went back to before
// step 4. False: a definition changed meanwhile.
Result<bool> finish(const Route& route, const SequenceDefinition& leaving,
                    const MoveProgress& progress, Moved& moved) {
  const Result<SequenceDefinition> reserved = find_in_target(route);
  // The name was reserved before the source was marked. Values may have come from it there.
  if (is_missing(reserved))
    return std::unexpected(error_at(
        route.to, Code::kDataLoss, leaving,
        "it was on its way here, and nothing of it is left: the store has gone back; create one "
        "of another name that begins past every value in use"));
  if (!reserved) return std::unexpected(reserved.error());
  // Step 4 lifts the reservation. A target that went back has it again, and is in doubt until its
  // counters were raised.
  if (is_arriving(*reserved)) {
    if (Result<void> ours = must_be_free(route, *reserved); !ours)
      return std::unexpected(std::move(ours.error()));
    const SequenceDefinition opened = unmoved(leaving);
    if (unmoved(*reserved) != opened) {
      const Result<bool> again = reserve(route, leaving);
      if (!again) return again;
      return false;
    }
    const Result<std::vector<CounterState>> source = close_and_read(route.from, leaving);
    if (!source) return std::unexpected(source.error());
    if (Result<void> raised = raise_there(route.to, opened, *source, progress); !raised)
      return unless_changed(route.to, *reserved, std::move(raised.error()));
    const Result<Defined> now = route.to.catalog()->replace(*reserved, opened);
    if (!now) return std::unexpected(now.error());
    if (is_arriving(now->definition)) return false;
    moved = told_of_target(route, opened);
  } else {
    if (Result<void> closed = close_values(route.from, leaving); !closed)
      return std::unexpected(std::move(closed.error()));
    moved = told_of_target(route, *reserved);
  }
  const Result<Defined> now =
      route.from.catalog()->replace(leaving, with(unmoved(leaving), route.gone()));
  if (!now) return std::unexpected(now.error());
  return is_retired(now->definition);
}

// Looks at both stores; the counters of a source that is not marked yet must be open.
Result<Moved> look(const Route& route, const SequenceDefinition& source) {
  const bool marked = source.move.has_value();
  if (!marked) {
    const Result<SequenceDefinition> there = find_in_target(route);
    if (!there && !is_missing(there)) return std::unexpected(there.error());
    if (there)
      if (Result<void> free = must_be_free(route, *there); !free)
        return std::unexpected(std::move(free.error()));
  }
  const Result<std::vector<CounterState>> counters = read_counters(route.from, source);
  if (!counters) return std::unexpected(counters.error());
  if (!marked && std::ranges::any_of(*counters, &CounterState::closed))
    return std::unexpected(error_at(route.from, Code::kFailedPrecondition, source,
                                    "a retirement of it was interrupted; retire it, and go on with "
                                    "another",
                                    {Remedy::kRetireSequence, route.name}));
  Moved moved = told_of(source, *counters);
  moved.was_begun = marked;
  return moved;
}

}  // namespace

Result<Moved> move_sequence(Store& from, Store& to, std::string_view name, MoveMode mode,
                            const MoveProgress& progress) {
  const Route route{.from = from, .to = to, .name = std::string(name)};
  if (from.id() == to.id())
    return std::unexpected(error_at(from, Code::kInvalidArgument, name,
                                    "it cannot be moved to the store that it is in; name another"));
  bool was_begun = false;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Result<SequenceDefinition> found = find_in_source(route);
    if (!found) return std::unexpected(std::move(found.error()));
    const SequenceDefinition source = *std::move(found);
    const bool is_gone = source.move && source.move->stage == Move::Stage::kGone;
    if (is_gone) {
      const Result<SequenceDefinition> there = find_in_target(route);
      if (!there && !is_missing(there)) return std::unexpected(there.error());
      if (there && !is_arriving(*there)) {
        Moved moved = told_of_target(route, *there);
        moved.was_begun = true;
        moved.was_done = true;
        return moved;
      }
    }
    for (Store* const store : {&from, &to}) {
      if (Result<void> offered = offers(*store, source); !offered)
        return std::unexpected(std::move(offered.error()));
      if (Result<void> trusted = must_be_trusted(*store); !trusted)
        return std::unexpected(std::move(trusted.error()));
    }
    SequenceDefinition leaving = source;
    if (!source.move || mode == MoveMode::kPreview) {
      Result<Moved> seen = look(route, source);
      if (!seen) {
        // The obstacle may be another call of this move.
        const Result<Definition> now = from.catalog()->find(name);
        if (now && *now != Definition(source)) continue;
      }
      if (!seen || mode == MoveMode::kPreview) return seen;
      const Result<bool> may = may_leave(route, source);
      if (!may) return std::unexpected(may.error());
      if (!*may) continue;
      const Result<bool> reserved = reserve(route, source);
      if (!reserved) return std::unexpected(reserved.error());
      if (!*reserved) continue;
      leaving = with(source, route.leaving());
      const Result<Defined> now = from.catalog()->replace(source, leaving);
      if (!now) return std::unexpected(now.error());
      if (*now != Definition(leaving)) continue;
    } else {
      was_begun = was_begun || attempt == 0;
    }
    Moved moved;
    const Result<bool> finished = finish(route, leaving, progress, moved);
    if (!finished) return std::unexpected(finished.error());
    if (!*finished) continue;
    moved.was_begun = was_begun;
    return moved;
  }
  return std::unexpected(
      error_at(from, Code::kUnavailable, name, "others keep changing its definition; try again"));
}

}  // namespace idmint
