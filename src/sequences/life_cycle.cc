// What becomes of a sequence in its store: made, extended, retired, looked at. Every step is one
// that may be made twice, and they come in an order in which the first n of them, for any n, repeat
// no value. raise.cc raises it.
#include "sequences/life_cycle.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "idmint/form.h"
#include "idmint/occupancy.h"
#include "idmint/sequence.h"
#include "ids/form_width.h"
#include "sequences/permutation.h"
#include "sequences/strategies.h"

namespace idmint {

Error is_retired(const Store& store, const Definition& retired, std::string_view so) {
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

Result<void> extend_counters(Store& store, const Definition& definition,
                             std::vector<CounterState>& counters) {
  // Those that can be extended end together: see counter_of().
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

// "first: 1 there, 5 here; last: 10 there, 20 here".
std::string differences(const Definition& there, const Definition& here) {
  std::string text;
  const auto compare = [&text](std::string_view field, const std::string& a, const std::string& b) {
    if (a == b) return;
    if (!text.empty()) text += "; ";
    text += std::string(field) + ": " + a + " there, " + b + " here";
  };
  const auto number = [&](std::string_view field, std::int64_t a, std::int64_t b) {
    compare(field, std::to_string(a), std::to_string(b));
  };
  compare("strategy", std::string(name(there.strategy)), std::string(name(here.strategy)));
  if (there.strategy == Strategy::kPool && here.strategy == Strategy::kPool) {
    number("workers", there.last + 1, here.last + 1);
  } else {
    number("first", there.first, here.first);
    number("last", there.last, here.last);
  }
  const auto layout = [](const Definition& definition) {
    return definition.layout ? to_string(*definition.layout) : std::string("none");
  };
  compare("layout", layout(there), layout(here));
  number("stripes", there.stripes, here.stripes);
  number("step", there.step, here.step);
  compare("key", spelled(there.key), spelled(here.key));
  number("largest count", there.largest_count, here.largest_count);
  compare("prefix", spelled(there.form.prefix), spelled(here.form.prefix));
  compare("encoding", std::string(name(there.form.encoding)),
          std::string(name(here.form.encoding)));
  compare("check", std::string(name(there.form.check)), std::string(name(here.form.check)));
  number("digits", there.form.digits, here.form.digits);
  number("width", there.form.width, here.form.width);
  const auto adopted = [](const Definition& definition) {
    return definition.adopted ? to_text(*definition.adopted) : std::string("none");
  };
  compare("adopted", adopted(there), adopted(here));
  // What has no name of its own here shows as the JSON it is kept as.
  if (text.empty()) text = to_json(there) + " there, " + to_json(here) + " here";
  return text;
}

// A key, a width or a number of worker ids that was left open is whatever is there.
Definition completed(const Definition& there, Definition here) {
  if (here.strategy == Strategy::kPool && there.strategy == Strategy::kPool &&
      here.last == kLargestValue)
    here.last = there.last;
  if (here.key.empty()) here.key = there.key;
  if (here.form.width == 0) here.form.width = there.form.width;
  return here;
}

// What is there differs from what is wanted.
Error defined_otherwise(const Store& store, const Definition& there, const Definition& wanted) {
  const std::string what = "defined otherwise already: " + differences(there, wanted) + "; ";
  if (can_extend(there, wanted))
    return error_at(store, Code::kFailedPrecondition, there, what + "move its end up",
                    {Remedy::kExtendSequence, wanted.name, {std::to_string(wanted.last)}});
  const std::string room =
      wanted.last > largest_integer(there.form) ? "its " + room_of(there.form) + "; " : "";
  return error_at(store, Code::kFailedPrecondition, there,
                  what + room + "use it as it is, or choose another name");
}

Result<void> must_agree(const Store& store, const Definition& there, Definition here) {
  if (there.retired && !here.retired) {
    return std::unexpected(
        is_retired(store, there, "and its name is not given again; use another"));
  }
  here = completed(there, std::move(here));
  if (there == here) return {};
  return std::unexpected(defined_otherwise(store, there, here));
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

Result<void> make_counters(Store& store, const Definition& definition,
                           const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const std::int64_t count = counter_count(definition);
  std::vector<NewCounter> batch;
  for (std::int64_t k = 0; k < count;) {
    batch.clear();
    for (const std::int64_t end = std::min(count, k + kAtOnce); k < end; ++k)
      batch.push_back(counter_of(definition, k));
    if (auto made = store.counters()->create(batch); !made) return made;
    if (progress) progress(k, count);
  }
  return {};
}

// What a definition stands for, made before it was.
Result<void> must_be_there(Store& store, const Definition& definition) {
  if (definition.strategy == Strategy::kRandom) {
    const auto claimed = read_claimed(store, definition);
    return claimed ? Result<void>{} : std::unexpected(claimed.error());
  }
  if (definition.strategy == Strategy::kPool) {
    const auto workers = read_workers(store, definition);
    return workers ? Result<void>{} : std::unexpected(workers.error());
  }
  const auto counters = read_counters(store, definition);
  return counters ? Result<void>{} : std::unexpected(counters.error());
}

}  // namespace

Result<void> create_sequence(Store& store, const Definition& definition, Entropy& entropy,
                             const std::function<void(std::int64_t, std::int64_t)>& progress) {
  if (auto valid = validate(definition); !valid) return valid;
  const auto refuse = [&](Code code, const std::string& what, Advice advice = {}) {
    return std::unexpected(error_at(store, code, definition, what, std::move(advice)));
  };
  if (definition.retired)
    return refuse(Code::kInvalidArgument, "it cannot be made retired: create it, then retire it");
  if (auto offered = offers(store, definition.strategy, definition.name); !offered) return offered;
  if (definition.strategy == Strategy::kGapless) {
    if (auto possible = store.has_transactions(); !possible)
      return refuse(possible.error().code, possible.error().message, possible.error().advice);
  }
  const Result<Definition> found = store.catalog()->find(definition.name);
  if (found) {
    return with_latest(store, *found, [&](const Definition& there) {
      if (auto agreed = must_agree(store, there, definition); !agreed) return agreed;
      return must_be_there(store, there);
    });
  }
  if (found.error().code != Code::kNotFound) return std::unexpected(found.error());

  Definition complete = definition;
  if (definition.strategy == Strategy::kPermuted && definition.key.empty())
    complete.key = draw_key(entropy);
  const bool is_pool = definition.strategy == Strategy::kPool;
  if (!is_pool) complete.form = settled(definition.form, definition.last);
  if (is_pool && definition.last == kLargestValue)
    complete.last = std::min<std::int64_t>(
        Definition::kUsualWorkers - 1, definition.layout.value_or(SnowflakeLayout{}).max_worker());
  if (definition.strategy == Strategy::kRandom) {
    if (auto made = store.unique_index()->create_space(definition.name); !made) return made;
  }
  const Result<void> made = is_pool ? store.leases()->create_pool(complete.name, complete.last + 1)
                                    : make_counters(store, complete, progress);
  if (!made) {
    if (made.error().code != Code::kAlreadyExists) return made;
    // Another may have created the sequence since find().
    if (const auto now = store.catalog()->find(definition.name)) {
      if (auto agreed = must_agree(store, *now, definition); !agreed) return agreed;
    }
    return refuse(Code::kFailedPrecondition,
                  std::string("there is a ") +
                      (is_pool ? "pool of that name with another number of worker ids"
                               : "counter of that name with other bounds") +
                      " and no definition, left by a create that was cut off (" +
                      made.error().message + "); create it " +
                      (is_pool ? "with as many" : "with the bounds of that counter") +
                      ", or choose another name");
  }
  const Result<Definition> defined = store.catalog()->define(complete);
  if (!defined) return std::unexpected(defined.error());
  return must_agree(store, *defined, definition);
}

bool can_extend(const Definition& there, const Definition& wanted) {
  Definition moved = there;
  moved.last = wanted.last;
  return moved == completed(there, wanted) && wanted.last >= there.last && !there.retired &&
         has_movable_end(there) && validate(moved).has_value();
}

Result<Definition> extend_sequence(Store& store, std::string_view name, std::int64_t last) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Result<Definition> found = find_definition(store, name);
    if (!found) return found;
    const auto refuse = [&](Code code, const std::string& what) {
      return std::unexpected(error_at(store, code, *found, what));
    };
    if (found->retired) {
      return std::unexpected(is_retired(
          store, *found,
          "so no value comes from it any more, wherever it ends; go on with a new sequence"));
    }
    if (found->strategy == Strategy::kPool)
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
    Definition updated = *found;
    updated.last = last;
    if (auto valid = validate(updated); !valid) return std::unexpected(valid.error());
    // The definition first: a counter that ended above it would be taken for a damaged one. But not
    // where the counters cannot follow: it never goes down again.
    if (updated != *found) {
      if (updated.adopted) {
        const Result<std::vector<CounterState>> there = read_counters(store, updated);
        if (!there) {
          // Another may have extended it further since.
          const Result<Definition> now = store.catalog()->find(name);
          if (now && *now != *found) continue;
          return std::unexpected(there.error());
        }
        for (const CounterState& counter : *there)
          if (last > counter.largest_end)
            return refuse(Code::kInvalidArgument,
                          "its counter " + counter.name + " was adopted from a document with a " +
                              "double, which counts by one up to " +
                              std::to_string(counter.largest_end) +
                              "; end there or below, or make it a NumberLong");
      }
      const Result<Definition> now = store.catalog()->replace(*found, updated);
      if (!now) return now;
      if (*now != updated) continue;
    }
    Result<std::vector<CounterState>> counters = read_counters(store, updated);
    if (!counters) {
      if (counters.error().code == Code::kDataLoss) {
        // Another may have extended it further since.
        const Result<Definition> now = store.catalog()->find(name);
        if (now && *now != updated) continue;
      }
      return std::unexpected(counters.error());
    }
    if (auto extended = extend_counters(store, updated, *counters); !extended)
      return std::unexpected(extended.error());
    return updated;
  }
  return std::unexpected(
      error_at(store, Code::kUnavailable, name, "others keep changing its definition; try again"));
}

namespace {

// Past every clock: nobody owns a worker id any more, and none can be acquired or extended.
constexpr std::int64_t kClosedFloor = std::int64_t{1} << 62;

}  // namespace

Result<void> retire_sequence(Store& store, std::string_view name) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Result<Definition> found = find_definition(store, name);
    if (!found) return std::unexpected(found.error());
    if (found->retired) return {};
    if (auto offered = offers(store, found->strategy, name); !offered) return offered;
    // The counters first: what stands in the definition stops no process that runs.
    // One that is not there hands out nothing either.
    const auto failed = [](const Result<void>& closed) {
      return !closed && closed.error().code != Code::kNotFound;
    };
    if (found->strategy == Strategy::kRandom) {
      if (auto closed = store.unique_index()->close_space(found->name); failed(closed))
        return closed;
    }
    if (found->strategy == Strategy::kPool) {
      if (auto closed = store.leases()->raise_floor(found->name, kClosedFloor); failed(closed))
        return closed;
    }
    std::vector<std::string> names;
    for (std::int64_t k = 0; k < counter_count(*found); ++k)
      names.push_back(counter_of(*found, k).name);
    const auto closed = in_batches(names, [&](std::span<const std::string> batch) {
      Result<void> done = store.counters()->close(batch);
      return failed(done) ? done : Result<void>{};
    });
    if (!closed) return closed;
    Definition tombstone = *found;
    tombstone.retired = true;
    const Result<Definition> now = store.catalog()->replace(*found, tombstone);
    if (!now) return std::unexpected(now.error());
    if (now->retired) return {};
  }
  return std::unexpected(
      error_at(store, Code::kUnavailable, name, "others keep changing its definition; try again"));
}

namespace {

// Of the store as a whole, rather than of one sequence in it.
bool concerns_all(Code code) {
  return code == Code::kUnavailable || code == Code::kUnknown || code == Code::kDeadlineExceeded ||
         code == Code::kResourceExhausted || code == Code::kPermissionDenied;
}

std::optional<std::int64_t> permuted_value(const Definition& definition, std::int64_t index) {
  const auto permutation = Permutation::make(
      definition.key, static_cast<std::uint64_t>(definition.last - definition.first) + 1);
  if (!permutation) return std::nullopt;
  return definition.first +
         static_cast<std::int64_t>(permutation->permuted(static_cast<std::uint64_t>(index)));
}

bool is_closed(const LeaseState& state) { return state.minted_until >= kClosedFloor; }

Result<SequenceStatus> status_as_read(Store& store, Definition definition, SteadyTime until) {
  SequenceStatus status;
  status.definition = std::move(definition);
  const Definition& its = status.definition;
  if (its.retired) return status;
  const auto in_its_row = [&](const Error& error) -> Result<SequenceStatus> {
    if (concerns_all(error.code)) return std::unexpected(error);
    status.left = 0;
    status.error = error;
    return status;
  };
  if (auto offered = offers(store, its.strategy, its.name); !offered)
    return in_its_row(offered.error());
  if (its.strategy == Strategy::kRandom) {
    const Result<std::int64_t> claimed = read_claimed(store, its, until);
    if (!claimed) return in_its_row(claimed.error());
    // Others may have gone beyond it.
    status.left = std::max<std::int64_t>(most_claims(its.last - its.first + 1) - *claimed, 0);
    return status;
  }
  if (its.strategy == Strategy::kPool) {
    const Result<std::vector<LeaseState>> workers = read_workers(store, its);
    if (!workers) return in_its_row(workers.error());
    const auto closed = std::ranges::count_if(*workers, is_closed);
    status.left = std::ranges::count_if(
        *workers, [](const LeaseState& state) { return !is_owned(state) && !is_closed(state); });
    if (closed != 0)
      status.error = error_at(store, Code::kFailedPrecondition, its,
                              std::to_string(closed) +
                                  " of its worker ids are closed, by a retire that was cut off; "
                                  "retire it, and go on with another");
    return status;
  }
  const Result<std::vector<CounterState>> counters = read_counters(store, its, until);
  if (!counters) return in_its_row(counters.error());
  for (std::size_t k = 0; k < counters->size(); ++k) {
    const CounterState& counter = (*counters)[k];
    if (!counter.closed) status.left += counter.left();
    if (counter.bounds.last < counter_of(its, static_cast<std::int64_t>(k)).bounds.last &&
        !status.error)
      status.error =
          error_at(store, Code::kUnavailable, its.name,
                   "counter " + counter.name + " ends at " + std::to_string(counter.bounds.last) +
                       " yet: an extension was cut off; finish it",
                   {Remedy::kExtendSequence, its.name, {std::to_string(its.last)}});
    if (counter.closed && !status.error)
      status.error = error_at(store, Code::kFailedPrecondition, its.name,
                              "counter " + counter.name +
                                  " is closed, by a retire that was cut off or by hand; retire the "
                                  "sequence, and go on with another");
  }
  if (counters->size() == 1) status.next = counters->front().next;
  if (its.strategy == Strategy::kPermuted && counters->front().left() > 0)
    status.permuted = permuted_value(its, counters->front().next);
  return status;
}

bool says_damaged(const std::optional<Error>& error) {
  return error && error->code == Code::kDataLoss;
}

Result<SequenceStatus> status_of(Store& store, Definition definition,
                                 SteadyTime until = SteadyTime::max()) {
  for (int attempt = 1;; ++attempt) {
    Result<SequenceStatus> status = status_as_read(store, definition, until);
    const bool damaged = status && says_damaged(status->error);
    if (!damaged || attempt == kAttempts) return status;
    // Or extended by others since it was read.
    Result<Definition> now = store.catalog()->find(definition.name, until);
    if (!now || *now == definition) return status;
    definition = *std::move(now);
  }
}

}  // namespace

Result<SequenceStatus> sequence_status(Store& store, std::string_view name, SteadyTime until) {
  Result<Definition> found = find_definition(store, name, until);
  if (!found) return std::unexpected(std::move(found.error()));
  return status_of(store, *std::move(found), until);
}

Result<std::vector<SequenceStatus>> sequence_statuses(Store& store) {
  if (store.catalog() == nullptr)
    return std::unexpected(Error{Code::kUnimplemented, "the store " + std::string(store.url()) +
                                                           " keeps no sequences; use another"});
  Result<std::vector<CatalogEntry>> entries = store.catalog()->list();
  if (!entries) return std::unexpected(std::move(entries.error()));
  std::vector<SequenceStatus> all;
  for (CatalogEntry& entry : *entries) {
    if (!entry.definition) {
      SequenceStatus& status = all.emplace_back();
      status.definition.name = std::move(entry.name);
      status.error = std::move(entry.definition.error());
      continue;
    }
    Result<SequenceStatus> status = status_of(store, *std::move(entry.definition));
    if (!status) return std::unexpected(std::move(status.error()));
    all.push_back(*std::move(status));
  }
  return all;
}

std::optional<std::int64_t> position_of(const Definition& definition, std::int64_t value) {
  if (definition.layout) {
    const SnowflakeLayout& layout = *definition.layout;
    const auto parts = layout.decode(Snowflake(static_cast<std::uint64_t>(value)));
    if (!parts || parts->worker > definition.last) return std::nullopt;
    return (parts->time - layout.epoch) / layout.unit;
  }
  if (value < definition.first || (value > definition.last && !has_movable_end(definition)))
    return std::nullopt;
  if (definition.strategy != Strategy::kPermuted) return value;
  const auto permutation = Permutation::make(
      definition.key, static_cast<std::uint64_t>(definition.last - definition.first) + 1);
  if (!permutation) return std::nullopt;
  return static_cast<std::int64_t>(
      permutation->index_of(static_cast<std::uint64_t>(value - definition.first)));
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

Result<bool> has_given_as_read(Store& store, const Definition& definition, std::int64_t value) {
  const std::optional<std::int64_t> position = position_of(definition, value);
  if (!position)
    return std::unexpected(error_at(store, Code::kInvalidArgument, definition,
                                    "it has no value " + std::to_string(value)));
  if (definition.layout) {
    const auto parts = definition.layout->decode(Snowflake(static_cast<std::uint64_t>(value)));
    const Result<std::vector<LeaseState>> workers = read_workers(store, definition);
    if (!workers) return std::unexpected(workers.error());
    return *position < (*workers)[parts->worker].minted_until;
  }
  if (definition.strategy == Strategy::kRandom)
    return store.unique_index()->contains(definition.name, value);
  const Result<std::vector<CounterState>> counters = read_counters(store, definition);
  if (!counters) return std::unexpected(counters.error());
  const CounterState* const counter = counter_at(*counters, *position);
  return counter != nullptr && *position < counter->next;
}

}  // namespace

Result<bool> has_given(Store& store, std::string_view name, std::int64_t value) {
  Result<Definition> found = find_definition(store, name);
  if (!found) return std::unexpected(std::move(found.error()));
  if (auto offered = offers(store, found->strategy, name); !offered)
    return std::unexpected(std::move(offered.error()));
  return with_latest(store, *std::move(found), [&](const Definition& definition) {
    return has_given_as_read(store, definition, value);
  });
}

}  // namespace idmint
