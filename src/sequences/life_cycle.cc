// The life of a sequence in its store: create, extend, retire, inspect. Every step can be repeated,
// and the steps are ordered so that an interruption after any of them repeats no value. raise.cc
// has raising.
#include "sequences/life_cycle.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/text.h"
#include "idmint/form.h"
#include "idmint/sequence.h"
#include "ids/form_width.h"
#include "sequences/moved.h"
#include "sequences/multi_store.h"
#include "sequences/permutation.h"
#include "sequences/strategies.h"
#include "store/backend.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/unique_index.h"

namespace idmint {

Error refuse_retired(const Store& store, const Definition& retired, std::string_view so) {
  if (std::optional<Error> moved = moved_away(store, retired)) return *std::move(moved);
  return error_at(store, Code::kFailedPrecondition, retired, "it is retired, " + std::string(so));
}

Result<void> in_batches(std::span<const std::string> names,
                        const std::function<Result<void>(std::span<const std::string>)>& change) {
  while (!names.empty()) {
    const auto batch = names.first(std::min<std::size_t>(names.size(), kAtOnce));
    if (Result<void> changed = change(batch); !changed) return changed;
    names = names.subspan(batch.size());
  }
  return {};
}

Result<void> extend_counters(Store& store, const SequenceDefinition& definition,
                             std::vector<CounterState>& counters) {
  // All counters that can be extended have the same end: see counter_of().
  std::vector<std::string> names;
  std::vector<CounterState*> states;
  for (std::size_t k = 0; k < counters.size(); ++k) {
    if (counters[k].bounds.last >= counter_of(definition, static_cast<std::int64_t>(k)).bounds.last)
      continue;
    names.push_back(counters[k].name);
    states.push_back(&counters[k]);
  }
  auto state = states.begin();
  return in_batches(names, [&](std::span<const std::string> batch) -> Result<void> {
    const auto bounds = store.counters()->extend(batch, definition.last);
    if (!bounds) return std::unexpected(bounds.error());
    for (const CounterBounds& each : *bounds) (*state++)->bounds = each;
    return {};
  });
}

namespace {

std::string spelled(const std::string& value) { return value.empty() ? "none" : value; }

// "ID (URL), ID (URL)".
std::string stores_of(const SequenceDefinition& definition) {
  std::string all;
  for (const StoreOfStripe& each : definition.over)
    all += (all.empty() ? "" : ", ") + each.id.to_string() + " (" + each.url + ")";
  return all;
}

// "first: 1 there, 5 here; last: 10 there, 20 here".
class Differences {
 public:
  void compare(std::string_view field, const std::string& there, const std::string& here) {
    if (there == here) return;
    if (!text_.empty()) text_ += "; ";
    text_ += std::string(field) + ": " + there + " there, " + here + " here";
  }
  void compare(std::string_view field, std::int64_t there, std::int64_t here) {
    compare(field, std::to_string(there), std::to_string(here));
  }
  void compare(const Form& there, const Form& here) {
    compare("prefix", spelled(there.prefix), spelled(here.prefix));
    compare("encoding", std::string(name(there.encoding)), std::string(name(here.encoding)));
    compare("check", std::string(name(there.check)), std::string(name(here.check)));
    compare("digits", there.digits, here.digits);
    compare("width", there.width, here.width);
  }
  void compare(const SequenceDefinition& there, const SequenceDefinition& here) {
    compare("first", there.first, here.first);
    compare("last", there.last, here.last);
    compare("stride", there.stride, here.stride);
    if (there.stride != 1 || here.stride != 1) compare("offset", there.offset(), here.offset());
    compare("stripes", there.stripes, here.stripes);
    compare("step", there.step, here.step);
    if (there.key != here.key)  // a user who may create may not read it
      compare("key", there.key.empty() ? "none" : "one", here.key.empty() ? "none" : "another");
    compare("largest count", there.largest_count, here.largest_count);
    compare(there.form, here.form);
    compare("adopted", spelled(there.adopted), spelled(here.adopted));
    compare("stores", spelled(stores_of(there)), spelled(stores_of(here)));
    compare("own stripe", there.stripe, here.stripe);
  }
  void compare(const PoolDefinition& there, const PoolDefinition& here) {
    compare("workers", there.workers, here.workers);
    compare("layout", to_string(there.layout), to_string(here.layout));
    compare("largest count", there.largest_count, here.largest_count);
    compare(there.form, here.form);
  }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

}  // namespace

std::string differences(const Definition& there, const Definition& here) {
  Differences found;
  found.compare("strategy", std::string(strategy_name(there)), std::string(strategy_name(here)));
  std::visit(
      [&](const auto& its) {
        using Kind = std::remove_cvref_t<decltype(its)>;
        if (const auto* const same = std::get_if<Kind>(&here)) found.compare(its, *same);
      },
      there);
  // Other differences are shown as the stored JSON.
  if (found.text().empty()) return to_json(there) + " there, " + to_json(here) + " here";
  return found.text();
}

namespace {

// Members that were left open take the existing values.
SequenceDefinition completed(const SequenceDefinition& there, SequenceDefinition here) {
  if (here.key.empty()) here.key = there.key;
  // A store may have moved.
  if (std::ranges::equal(here.over, there.over, {}, &StoreOfStripe::id, &StoreOfStripe::id))
    here.over = there.over;
  if (here.form.width == 0) here.form.width = there.form.width;
  return here;
}
PoolDefinition completed(const PoolDefinition& there, PoolDefinition here) {
  if (here.workers == 0) here.workers = there.workers;
  if (here.form.width == 0) here.form.width = there.form.width;
  return here;
}

// Whether `there` would give what `wanted` gives if it was raised to the first value of `wanted`.
bool can_raise(const SequenceDefinition& there, const SequenceDefinition& wanted) {
  SequenceDefinition raised = there;
  raised.first = wanted.first;
  return raised == wanted && there.first < wanted.first &&
         (there.strategy == Strategy::kCounter || there.strategy == Strategy::kCached);
}

// The error if the existing definition differs.
Error defined_otherwise(const Store& store, const Definition& there, const Definition& wanted) {
  const std::string what = "defined otherwise already: " + differences(there, wanted) + "; ";
  const auto* const sequence = std::get_if<SequenceDefinition>(&there);
  const auto* const other = std::get_if<SequenceDefinition>(&wanted);
  std::string room;
  if (sequence != nullptr && other != nullptr) {
    if (can_extend(*sequence, *other))
      return error_at(store, Code::kFailedPrecondition, there, what + "move its end up",
                      {Remedy::kAlterSequence, other->name, {std::to_string(other->last)}});
    if (can_raise(*sequence, *other))
      return error_at(
          store, Code::kFailedPrecondition, there,
          what + "choose another name, or raise it to go on from " + std::to_string(other->first),
          {Remedy::kRaiseSequence, other->name, {std::to_string(other->first - 1)}});
    if (other->last > largest_integer(sequence->form))
      room = "its " + room_of(sequence->form) + "; ";
  }
  return error_at(store, Code::kFailedPrecondition, there,
                  what + room + "use it as it is, or choose another name");
}

}  // namespace

Result<void> must_agree(const Store& store, const Definition& there, Definition here) {
  if (std::optional<Error> moved = moved_away(store, there)) return std::unexpected(*moved);
  if (is_retired(there) && !is_retired(here)) {
    return std::unexpected(
        refuse_retired(store, there, "and its name is not given again; use another"));
  }
  std::visit(
      [&](const auto& its) {
        using Kind = std::remove_cvref_t<decltype(its)>;
        if (auto* const same = std::get_if<Kind>(&here)) *same = completed(its, std::move(*same));
      },
      there);
  if (there == here) return {};
  const auto over_several = [](const Definition& definition) {
    const auto* const sequence = std::get_if<SequenceDefinition>(&definition);
    return sequence != nullptr && sequence->is_multi_store();
  };
  Error other = defined_otherwise(store, there, here);
  // The differences name the stores.
  if (over_several(there) || over_several(here)) other = naming_places(std::move(other));
  return std::unexpected(std::move(other));
}

namespace {

// Null: the sequence adopts nothing, or the store adopts nothing.
const Adoption* adoption_of(Store& store, const SequenceDefinition& sequence) {
  return sequence.adopted.empty() || store.counters() == nullptr ? nullptr
                                                                 : store.counters()->adoption();
}

// The place of the record that the sequence adopts; empty: none.
std::string place_adopted(Store& store, const SequenceDefinition& sequence) {
  const Adoption* const adoption = adoption_of(store, sequence);
  return adoption != nullptr ? adoption->place_of(sequence.adopted) : std::string();
}

std::string draw_key(Entropy& entropy) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::array<std::byte, 16> bytes{};
  entropy.fill(bytes);
  std::string key;
  for (const std::byte byte : bytes) {
    key += kHex[std::to_integer<std::size_t>(byte >> 4)];
    key += kHex[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return key;
}

}  // namespace

Result<std::vector<CounterState>> make_counters(
    Store& store, const SequenceDefinition& definition,
    const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const std::int64_t count = counter_count(definition);
  std::vector<CounterState> all;
  std::vector<NewCounter> batch;
  for (std::int64_t k = 0; k < count;) {
    batch.clear();
    for (const std::int64_t end = std::min(count, k + kAtOnce); k < end; ++k)
      batch.push_back(counter_of(definition, k));
    auto made = store.counters()->create(batch);
    if (!made) return made;
    std::ranges::move(*made, std::back_inserter(all));
    if (progress) progress(k, count);
  }
  return all;
}

namespace {

SequenceStatus status_with(const SequenceDefinition& definition, std::int64_t claimed) {
  // Others may have exceeded it.
  return {.definition = definition,
          .left = std::max<std::int64_t>(most_claims(definition.size()) - claimed, 0)};
}

Result<SequenceStatus> read_status(Store& store, const SequenceDefinition& definition,
                                   SteadyTime until) {
  if (definition.strategy == Strategy::kRandom) {
    const Result<std::int64_t> claimed = read_claimed(store, definition, until);
    if (!claimed) return std::unexpected(claimed.error());
    return status_with(definition, *claimed);
  }
  const Result<std::vector<CounterState>> counters = read_counters(store, definition, until);
  if (!counters) return std::unexpected(counters.error());
  return status_with(store, definition, *counters);
}

Result<SequenceStatus> read_status(Store& store, const PoolDefinition& pool, SteadyTime until) {
  const Result<WorkersLeft> left = workers_left(store, pool, until);
  if (!left) return std::unexpected(left.error());
  return status_with(store, pool, *left);
}

// Each sequence keeps the next value that it knows of its record. A second one would go on from a
// record that was set back below values of the first.
Result<void> must_adopt_alone(Store& store, const SequenceDefinition& definition) {
  const Adoption* const adoption = adoption_of(store, definition);
  if (adoption == nullptr || adoption->shares_floors()) return {};
  const Result<std::vector<CatalogEntry>> all = store.catalog()->list();
  if (!all) return std::unexpected(all.error());
  for (const CatalogEntry& each : *all) {
    const auto* const other =
        each.definition ? std::get_if<SequenceDefinition>(&*each.definition) : nullptr;
    if (other == nullptr || other->retired || other->adopted != definition.adopted) continue;
    return std::unexpected(
        error_at(store, Code::kFailedPrecondition, definition,
                 adoption->place_of(definition.adopted) + " is adopted already, by the sequence " +
                     shown(other->name) + ": take from that one, or retire it first"));
  }
  return {};
}

}  // namespace

Result<Changed> create_sequence(Store& store, const SequenceDefinition& given,
                                const CreateOptions& options, Entropy& entropy) {
  if (auto valid = validate(given); !valid) return std::unexpected(std::move(valid.error()));
  SequenceDefinition definition = given;
  const auto refuse = [&](Code code, const std::string& what, Advice advice = {}) {
    return std::unexpected(error_at(store, code, definition, what, std::move(advice)));
  };
  if (definition.retired)
    return refuse(Code::kInvalidArgument, "it cannot be made retired: create it, then retire it");
  if (definition.move)
    return refuse(Code::kInvalidArgument,
                  "it cannot be made while it moves: create it, then move it");
  if (auto offered = offers(store, definition); !offered)
    return std::unexpected(std::move(offered.error()));
  if (definition.is_multi_store() &&
      store.id() != definition.over[static_cast<std::size_t>(definition.stripe)].id)
    return refuse(Code::kFailedPrecondition,
                  "its definition is that of stripe " + std::to_string(definition.stripe) +
                      ", which is in another store; create it over all of its stores");
  if (definition.strategy == Strategy::kGapless) {
    if (auto possible = has_transactions(store, definition); !possible)
      return std::unexpected(std::move(possible.error()));
  }
  if (const Adoption* const adoption = adoption_of(store, definition)) {
    if (auto valid = adoption->check(definition); !valid)
      return std::unexpected(std::move(valid.error()));
    if (definition.make_adopted && !adoption->makes_missing())
      return refuse(Code::kInvalidArgument,
                    "only documents of MongoDB are made: make what it adopts yourself");
  }
  const Result<Definition> found = store.catalog()->find(definition.name);
  const auto* const sequence = found ? std::get_if<SequenceDefinition>(&*found) : nullptr;
  // Nothing is made for a sequence that is there: what it adopted was there once.
  if (found) definition.make_adopted = false;
  const bool as_it_is = sequence != nullptr && sequence->adopted == definition.adopted;
  if (adoption_of(store, definition) != nullptr && !as_it_is && (!found || sequence != nullptr)) {
    Result<std::string> record = store.counters()->find_record(definition);
    if (!record) return std::unexpected(std::move(record.error()));
    definition.adopted = *std::move(record);
    if (auto valid = validate(definition); !valid) return std::unexpected(std::move(valid.error()));
  }
  if (found) {
    if (sequence == nullptr) return std::unexpected(must_agree(store, *found, definition).error());
    return with_latest(store, *sequence, [&](const SequenceDefinition& there) -> Result<Changed> {
      if (auto agreed = must_agree(store, there, definition); !agreed)
        return std::unexpected(std::move(agreed.error()));
      // Its counters or claims were created before it.
      Result<SequenceStatus> status = read_status(store, there, SteadyTime::max());
      if (!status) return std::unexpected(std::move(status.error()));
      return Changed{.status = *std::move(status)};
    });
  }
  if (found.error().code != Code::kNotFound) return std::unexpected(found.error());
  if (auto alone = must_adopt_alone(store, definition); !alone)
    return std::unexpected(std::move(alone.error()));
  if (options.may_make)
    if (Result<void> may = options.may_make(); !may) return std::unexpected(std::move(may.error()));

  const bool make = std::exchange(definition.make_adopted, false);
  SequenceDefinition complete = definition;
  complete.make_adopted = make;
  if (definition.strategy == Strategy::kPermuted && definition.key.empty())
    complete.key = draw_key(entropy);
  complete.form = settled(definition.form, definition.last);
  if (definition.strategy == Strategy::kRandom) {
    if (auto made = store.unique_index()->create_space(definition.name); !made)
      return std::unexpected(std::move(made.error()));
  }
  const auto made = make_counters(store, complete, options.progress);
  if (!made) {
    if (made.error().code != Code::kAlreadyExists) return std::unexpected(made.error());
    // Another process may have created the sequence since find().
    if (const auto now = store.catalog()->find(definition.name)) {
      if (auto agreed = must_agree(store, *now, definition); !agreed)
        return std::unexpected(std::move(agreed.error()));
    }
    return refuse(Code::kFailedPrecondition,
                  "there is a counter of that name with other bounds and no definition, left by an "
                  "interrupted create (" +
                      made.error().message() +
                      "); create it with the bounds of that counter, or choose another name");
  }
  complete.make_adopted = false;
  const Result<Defined> defined = store.catalog()->define(complete);
  if (!defined) return std::unexpected(defined.error());
  if (auto agreed = must_agree(store, defined->definition, definition); !agreed)
    return std::unexpected(std::move(agreed.error()));
  const auto& there = std::get<SequenceDefinition>(defined->definition);
  // The counters of another process, or in records that other programs use, may have moved since.
  if (!defined->made || !there.adopted.empty())
    return with_latest(store, there, [&](const SequenceDefinition& now) -> Result<Changed> {
      Result<SequenceStatus> status = read_status(store, now, SteadyTime::max());
      if (!status) return std::unexpected(stores::after_a_write(std::move(status.error())));
      return Changed{*std::move(status), defined->made};
    });
  return Changed{there.strategy == Strategy::kRandom ? status_with(there, std::int64_t{0})
                                                     : status_with(store, there, *made),
                 true};
}

bool can_extend(const SequenceDefinition& there, const SequenceDefinition& wanted) {
  SequenceDefinition moved = there;
  moved.last = wanted.last;
  return moved == completed(there, wanted) && wanted.last >= there.last && !there.retired &&
         has_movable_end(there) && validate(moved).has_value();
}

Result<Changed> alter_here(Store& store, const Definition& read, std::int64_t last) {
  const std::string name = idmint::name(read);
  bool made = false;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Result<Definition> there = attempt == 0 ? read : find_definition(store, name);
    if (!there) return std::unexpected(there.error());
    const auto refuse = [&](Code code, const std::string& what) {
      return std::unexpected(error_at(store, code, *there, what));
    };
    if (is_retired(*there)) {
      return std::unexpected(refuse_retired(
          store, *there,
          "so no value comes from it any more, wherever it ends; go on with a new sequence"));
    }
    if (std::optional<Error> moved = moved_away(store, *there)) return std::unexpected(*moved);
    const auto* const found = std::get_if<SequenceDefinition>(&*there);
    if (found == nullptr)
      return refuse(Code::kInvalidArgument,
                    "it is a pool, whose worker ids are as many as it was created with; a pool "
                    "with more has another name and a layout or epoch of its own, as one layout "
                    "in two pools gives ids twice");
    if (!has_movable_end(*found))
      return refuse(Code::kFailedPrecondition,
                    "all of its values depend on the last one (it is " +
                        std::string(idmint::name(found->strategy)) +
                        "), so that one stays; go on with a new sequence that begins above it");
    if (last < found->last)
      return refuse(Code::kFailedPrecondition, "its last value is " + std::to_string(found->last) +
                                                   " and can only be moved up, not to " +
                                                   std::to_string(last));
    if (const std::int64_t most = largest_integer(found->form);
        last > most && last <= kLargestValue)
      return refuse(Code::kInvalidArgument,
                    "its " + room_of(found->form) + ", and how it is printed never changes" +
                        (found->last < most ? "; move its end there at most, then" : ";") +
                        " go on with a new and wider sequence that begins above it");
    SequenceDefinition updated = *found;
    updated.last = last;
    if (auto valid = validate(updated); !valid) return std::unexpected(valid.error());
    // The definition comes first, since a counter with a larger end would look damaged. It is not
    // changed if the counters cannot follow, because it never goes down again.
    if (updated != *found) {
      if (!updated.adopted.empty()) {
        const Result<std::vector<CounterState>> counters = read_counters(store, updated);
        if (!counters) {
          // Another process may have extended it further since.
          const Result<Definition> now = store.catalog()->find(name);
          if (now && *now != *there) continue;
          return std::unexpected(counters.error());
        }
        std::vector<std::string> names;
        for (const CounterState& counter : *counters) names.push_back(counter.name);
        if (const auto possible = store.counters()->can_extend(names, last); !possible) {
          if (possible.error().code != Code::kInvalidArgument)
            return std::unexpected(possible.error());
          return refuse(Code::kInvalidArgument, possible.error().what);
        }
      }
      const Result<Defined> now = store.catalog()->replace(*there, updated);
      if (!now) return std::unexpected(now.error());
      if (*now != Definition(updated)) continue;
      made = now->made;
    }
    Result<std::vector<CounterState>> counters = read_counters(store, updated);
    if (!counters) {
      if (counters.error().code == Code::kDataLoss) {
        // Another process may have extended it further since.
        const Result<Definition> now = store.catalog()->find(name);
        if (now && *now != Definition(updated)) continue;
      }
      return std::unexpected(counters.error());
    }
    if (auto extended = extend_counters(store, updated, *counters); !extended)
      return std::unexpected(extended.error());
    Result<SequenceStatus> status = updated.strategy == Strategy::kRandom
                                        ? read_status(store, updated, SteadyTime::max())
                                        : status_with(store, updated, *counters);
    if (!status)
      return std::unexpected(made ? stores::after_a_write(status.error()) : status.error());
    return Changed{*std::move(status), made};
  }
  return std::unexpected(
      error_at(store, Code::kUnavailable, name, "others keep changing its definition; try again"));
}

namespace {

Result<void> unless_gone(Result<void> closed) {
  if (!closed && closed.error().code == Code::kNotFound) return {};
  return closed;
}

}  // namespace

Result<void> close_values(Store& store, const SequenceDefinition& definition) {
  if (definition.strategy == Strategy::kRandom)
    return unless_gone(store.unique_index()->close_space(definition.name));
  std::vector<std::string> names;
  for (std::int64_t k = 0; k < counter_count(definition); ++k)
    names.push_back(counter_of(definition, k).name);
  return in_batches(names, [&](std::span<const std::string> batch) {
    return unless_gone(store.counters()->close(batch));
  });
}

namespace {

Result<void> close_values(Store& store, const PoolDefinition& pool) {
  return unless_gone(close_pool(store, pool));
}

}  // namespace

Result<Changed> retire_here(Store& store, const Definition& read) {
  const std::string name = idmint::name(read);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Result<Definition> found = attempt == 0 ? read : find_definition(store, name);
    if (!found) return std::unexpected(found.error());
    // One that is to arrive can be ended: its reservation may be all that is left of a move.
    if (!is_arriving(*found))
      if (std::optional<Error> moved = moved_away(store, *found)) return std::unexpected(*moved);
    if (is_retired(*found)) return Changed{.status = {.definition = *found}};
    if (auto offered = offers(store, *found); !offered)
      return std::unexpected(std::move(offered.error()));
    // A user who may not write the definition closes nothing: a retire cannot be undone, and would
    // stop half way.
    const Result<Defined> same = store.catalog()->replace(*found, *found);
    if (!same) return std::unexpected(same.error());
    if (*same != *found) continue;
    // The counters come first, because the definition stops no running process.
    const auto close = [&](const auto& its) { return close_values(store, its); };
    if (auto closed = std::visit(close, *found); !closed)
      return std::unexpected(std::move(closed.error()));
    Definition tombstone = *found;
    std::visit([](auto& its) { its.retired = true; }, tombstone);
    if (auto* const sequence = std::get_if<SequenceDefinition>(&tombstone)) sequence->move.reset();
    const Result<Defined> now = store.catalog()->replace(*found, tombstone);
    if (!now) return std::unexpected(now.error());
    if (is_retired(now->definition)) return Changed{{.definition = now->definition}, now->made};
  }
  return std::unexpected(
      error_at(store, Code::kUnavailable, name, "others keep changing its definition; try again"));
}

std::optional<std::int64_t> permuted_value(const SequenceDefinition& definition,
                                           std::int64_t index) {
  const auto permutation =
      Permutation::make(definition.key, static_cast<std::uint64_t>(definition.size()));
  if (!permutation) return std::nullopt;
  return definition.first + definition.stride * static_cast<std::int64_t>(permutation->permuted(
                                                    static_cast<std::uint64_t>(index)));
}

SequenceStatus status_with(Store& store, const SequenceDefinition& its,
                           std::span<const CounterState> counters) {
  SequenceStatus status{.definition = its, .adopted_from = place_adopted(store, its)};
  for (std::size_t k = 0; k < counters.size(); ++k) {
    const CounterState& counter = counters[k];
    if (!counter.closed) status.left += counter.left();
    if (counter.bounds.last < counter_of(its, static_cast<std::int64_t>(k)).bounds.last &&
        !status.error)
      status.error =
          error_at(store, Code::kUnavailable, its.name,
                   "counter " + counter.name + " ends at " + std::to_string(counter.bounds.last) +
                       " yet: an extension was interrupted; finish it",
                   {Remedy::kAlterSequence, its.name, {std::to_string(its.last)}});
    status.no_floor = status.no_floor || counter.no_floor;
    if (!counter.closed) continue;
    status.closed = !its.move;
    if (!status.error)
      status.error = its.move ? refuse_moved(store, its, *its.move)
                              : error_at(store, Code::kFailedPrecondition, its.name,
                                         "counter " + counter.name +
                                             " is closed, by an interrupted retire or by hand; "
                                             "retire the sequence, and go on with another");
  }
  const auto set_back = std::ranges::find_if(
      counters, [](const CounterState& counter) { return counter.set_back.has_value(); });
  if (set_back != counters.end()) {
    status.left = 0;
    status.error = set_back->set_back;
    return status;
  }
  if (counters.size() == 1) status.next = counters.front().next;
  if (its.strategy == Strategy::kPermuted && counters.front().left() > 0)
    status.permuted = permuted_value(its, counters.front().next);
  return status;
}

SequenceStatus status_with(const Store& store, const PoolDefinition& pool,
                           const WorkersLeft& workers) {
  SequenceStatus status{.definition = pool, .left = workers.free, .closed = workers.closed != 0};
  if (status.closed)
    status.error = error_at(store, Code::kFailedPrecondition, pool,
                            std::to_string(workers.closed) +
                                " of its worker ids are closed, by an interrupted retire; "
                                "retire it, and go on with another");
  return status;
}

namespace {

// Whether the error concerns the whole store rather than one sequence.
bool concerns_all(Code code) {
  return code == Code::kUnavailable || code == Code::kUnknown || code == Code::kDeadlineExceeded ||
         code == Code::kResourceExhausted || code == Code::kPermissionDenied;
}

Result<SequenceStatus> status_as_read(Store& store, const Definition& definition,
                                      SteadyTime until) {
  SequenceStatus unread{.definition = definition};
  if (is_retired(definition)) return unread;
  if (const auto* const sequence = std::get_if<SequenceDefinition>(&definition))
    unread.adopted_from = place_adopted(store, *sequence);
  if (is_arriving(definition)) {
    unread.error = moved_away(store, definition);  // its counters may not be there yet
    return unread;
  }
  const Result<void> offered = offers(store, definition);
  const auto read = [&](const auto& its) { return read_status(store, its, until); };
  Result<SequenceStatus> status =
      offered ? std::visit(read, definition) : std::unexpected(offered.error());
  if (status || concerns_all(status.error().code)) return status;
  unread.error = std::move(status.error());
  return unread;
}

bool says_damaged(const std::optional<Error>& error) {
  return error && error->code == Code::kDataLoss;
}

}  // namespace

Result<SequenceStatus> status_of(Store& store, Definition definition, SteadyTime until) {
  for (int attempt = 1;; ++attempt) {
    Result<SequenceStatus> status = status_as_read(store, definition, until);
    const bool damaged = status && says_damaged(status->error);
    if (!damaged || attempt == kAttempts) return status;
    // Or others have extended it since it was read.
    Result<Definition> now = store.catalog()->find(name(definition), until);
    if (!now || *now == definition) return status;
    definition = *std::move(now);
  }
}

Result<SequenceStatus> peek_sequence(Store& store, std::string_view name, SteadyTime until,
                                     const MultiStoreOptions& multi_store) {
  Result<Definition> found = find_definition(store, name, until);
  if (!found) return std::unexpected(std::move(found.error()));
  return with_stripes(store, status_of(store, *std::move(found), until), until, multi_store);
}

namespace {

Result<SequenceStatus> listed(Store& store, CatalogEntry entry, SteadyTime until,
                              const MultiStoreOptions& multi_store, bool counters) {
  if (entry.definition && counters)
    return with_stripes(store, status_of(store, *std::move(entry.definition), until), until,
                        multi_store);
  SequenceStatus status;
  if (entry.definition) {
    status.definition = *std::move(entry.definition);
  } else {
    status.definition = SequenceDefinition{.name = std::move(entry.name)};
    status.error = std::move(entry.definition.error());
  }
  return status;
}

}  // namespace

Result<std::vector<SequenceStatus>> list_sequences(Store& store, SteadyTime until,
                                                   const MultiStoreOptions& multi_store,
                                                   const ListOptions& options) {
  if (store.catalog() == nullptr)
    return std::unexpected(Error{Code::kUnimplemented, "the store " + std::string(store.url()) +
                                                           " keeps no sequences; use another"});
  constexpr std::size_t kPart = 1000;  // a call that waits for one waits some milliseconds
  std::vector<SequenceStatus> all;
  std::string after = options.after;
  for (std::size_t wanted = 0, found = 0; found == wanted && all.size() < options.most;) {
    wanted = std::min(kPart, options.most - all.size());
    Result<std::vector<CatalogEntry>> entries = store.catalog()->list_after(after, wanted, until);
    if (!entries) return std::unexpected(std::move(entries.error()));
    found = entries->size();
    if (found > 0) after = entries->back().name;
    for (CatalogEntry& entry : *entries) {
      if (all.size() == options.most) break;
      if (std::chrono::steady_clock::now() >= until)
        return std::unexpected(
            Error{Code::kUnavailable, "the store " + std::string(store.url()) +
                                          " is large or slow: " + std::to_string(all.size()) +
                                          " sequences were read in time; ask for fewer at a time, "
                                          "or wait longer"});
      Result<SequenceStatus> status =
          listed(store, std::move(entry), until, multi_store, options.counters);
      if (!status) return std::unexpected(std::move(status.error()));
      all.push_back(*std::move(status));
    }
  }
  return all;
}

std::optional<std::int64_t> position_of(const SequenceDefinition& definition, std::int64_t value) {
  if (value < definition.first || (value > definition.last && !has_movable_end(definition)) ||
      (value - definition.first) % definition.stride != 0)
    return std::nullopt;
  if (definition.is_multi_store() &&
      (value - definition.first) / definition.stride % definition.stripes != definition.stripe)
    return std::nullopt;
  if (definition.strategy != Strategy::kPermuted) return value;
  const auto permutation =
      Permutation::make(definition.key, static_cast<std::uint64_t>(definition.size()));
  if (!permutation) return std::nullopt;
  return static_cast<std::int64_t>(permutation->index_of(
      static_cast<std::uint64_t>((value - definition.first) / definition.stride)));
}

const CounterState* counter_at(std::span<const CounterState> counters, std::int64_t position) {
  const auto found = std::ranges::find_if(counters, [&](const CounterState& counter) {
    const CounterBounds& bounds = counter.bounds;
    return position >= bounds.first && position <= bounds.last &&
           (position - bounds.first) % bounds.stride == 0;
  });
  return found == counters.end() ? nullptr : &*found;
}

namespace {

Error no_value(const Store& store, const Definition& definition, std::int64_t value) {
  return error_at(store, Code::kInvalidArgument, definition,
                  "it has no value " + std::to_string(value));
}

Result<bool> has_given_as_read(Store& store, const SequenceDefinition& definition,
                               std::int64_t value) {
  const std::optional<std::int64_t> position = position_of(definition, value);
  if (!position) return std::unexpected(no_value(store, definition, value));
  if (definition.strategy == Strategy::kRandom)
    return store.unique_index()->contains(definition.name, value);
  const Result<std::vector<CounterState>> counters = read_counters(store, definition);
  if (!counters) return std::unexpected(counters.error());
  const CounterState* const counter = counter_at(*counters, *position);
  return counter != nullptr && *position < counter->next;
}

Result<bool> has_given_id(Store& store, const PoolDefinition& pool, std::int64_t id) {
  const std::optional<std::int64_t> unit = position_of(pool, id);
  if (!unit) return std::unexpected(no_value(store, pool, id));
  const Result<std::vector<LeaseState>> workers = read_workers(store, pool);
  if (!workers) return std::unexpected(workers.error());
  const auto parts = pool.layout.decode(Snowflake(static_cast<std::uint64_t>(id)));
  return *unit < (*workers)[parts->worker].minted_until;
}

}  // namespace

Result<bool> has_given(Store& store, std::string_view name, std::int64_t value) {
  const Result<Definition> found = find_definition(store, name);
  if (!found) return std::unexpected(found.error());
  if (auto offered = offers(store, *found); !offered)
    return std::unexpected(std::move(offered.error()));
  if (const auto* const pool = std::get_if<PoolDefinition>(&*found))
    return has_given_id(store, *pool, value);
  return with_latest(store, std::get<SequenceDefinition>(*found),
                     [&](const SequenceDefinition& definition) {
                       return has_given_as_read(store, definition, value);
                     });
}

}  // namespace idmint
