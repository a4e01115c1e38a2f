#include "sequences/strategies.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/errors.h"
#include "idmint/form.h"
#include "sequences/life_cycle.h"
#include "sequences/moved.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/gapless_store.h"
#include "store/unique_index.h"

namespace idmint {
namespace {

// NOLINTNEXTLINE(performance-unnecessary-value-param): as the others of the table.
Opened open_gapless(Store& store, SequenceDefinition definition, const SequenceOptions&, Clock&,
                    Entropy&) {
  return std::unexpected(error_at(
      store, Code::kFailedPrecondition, definition.name,
      "it is gapless: a number comes only in the transaction that inserts the document that bears "
      "it; insert documents with a GaplessInserter (idmint/gapless.h)",
      {Remedy::kInsertDocuments, definition.name}));
}

struct Opener {
  Strategy strategy;
  Opened (*open)(Store& store, SequenceDefinition definition, const SequenceOptions& options,
                 Clock& clock, Entropy& entropy);
};
constexpr std::array kOpeners = {
    // counter_sequence.cc
    Opener{Strategy::kCounter, open_counter},
    // striped_sequence.cc
    Opener{Strategy::kStriped, open_striped},
    Opener{Strategy::kInterleaved, open_striped},
    // cached_sequence.cc
    Opener{Strategy::kCached, open_cached},
    // random_sequence.cc
    Opener{Strategy::kRandom, open_random},
    // permuted_sequence.cc
    Opener{Strategy::kPermuted, open_permuted},
    Opener{Strategy::kGapless, open_gapless},
};

bool has_stripes(const SequenceDefinition& definition) {
  return (definition.strategy == Strategy::kStriped ||
          definition.strategy == Strategy::kInterleaved) &&
         !definition.is_multi_store();
}

std::string text_of(const CounterBounds& bounds) {
  std::string text = std::to_string(bounds.first) + " to " + std::to_string(bounds.last);
  if (bounds.stride != 1) text += " in steps of " + std::to_string(bounds.stride);
  return text;
}

// A definition is written after its counters, so they exist from then on. None is ever recreated,
// because it would start over.
Error counter_gone(const Store& store, const SequenceDefinition& definition,
                   const std::string& counter) {
  const std::string which = counter == definition.name ? "its counter" : "its counter " + counter;
  return error_at(store, Code::kDataLoss, definition.name,
                  "it is defined, but " + which +
                      " is gone; restore the store, then go on with a sequence that begins past "
                      "every value in use");
}

// The bounds may end below the wanted ones, if an extend was interrupted between definition and
// counter.
Result<void> must_match(const Store& store, const SequenceDefinition& definition,
                        const CounterState& counter, const CounterBounds& wanted) {
  const CounterBounds& there = counter.bounds;
  if (there.first == wanted.first && there.stride == wanted.stride && there.last <= wanted.last)
    return {};
  return std::unexpected(error_at(
      store, Code::kDataLoss, definition.name,
      "its counter " + counter.name + " goes from " + text_of(there) + ", its definition from " +
          text_of(wanted) +
          ": one of them was changed by hand; find out which values are in use before going on"));
}

}  // namespace

Error inherited_through_fork(std::string_view name) {
  return about("sequence " + std::string(name),
               {Code::kFailedPrecondition, "opened before fork(); open it again in the child"});
}

std::string subject_of(const Definition& definition) {
  const bool is_pool = std::holds_alternative<PoolDefinition>(definition);
  return (is_pool ? "pool " : "sequence ") + name(definition);
}

Error error_at(const Store& store, Code code, std::string_view name, const std::string& what,
               Advice advice) {
  return error_at(store, code, SequenceDefinition{.name = std::string(name)}, what,
                  std::move(advice));
}

Error error_at(const Store& store, Code code, const Definition& definition, const std::string& what,
               Advice advice) {
  return {.code = code,
          .what = what,
          .advice = std::move(advice),
          .subject = subject_of(definition),
          .place = std::string(store.url())};
}

std::string without_subject(Error error, const Definition& definition) {
  if (error.subject == subject_of(definition)) {
    error.subject.clear();
    error.place.clear();
  }
  return error.message();
}

Result<void> offers(Store& store, const Definition& definition) {
  const auto* const sequence = std::get_if<SequenceDefinition>(&definition);
  const bool values = sequence == nullptr                       ? store.leases() != nullptr
                      : sequence->strategy == Strategy::kRandom ? store.unique_index() != nullptr
                                                                : store.counters() != nullptr;
  if (store.catalog() != nullptr && values) return {};
  const std::string what = sequence == nullptr
                               ? "pools"
                               : "sequences of strategy " + std::string(name(sequence->strategy));
  return std::unexpected(error_at(store, Code::kUnimplemented, definition,
                                  "this store keeps no " + what + "; use another"));
}

Result<void> has_transactions(Store& store, const Definition& gapless, SteadyTime until) {
  if (store.gapless() == nullptr) {
    return std::unexpected(
        error_at(store, Code::kUnimplemented, gapless,
                 "a number is gapless where it and the document that bears it are one transaction, "
                 "and such a store holds no documents; keep the sequence in the MongoDB replica "
                 "set that holds them",
                 {.remedy = Remedy::kSetOption, .values = {"store"}}));
  }
  const Result<void> possible = store.gapless()->has_transactions(until);
  if (possible) return {};
  const Error& why = possible.error();
  if (!why.place.empty())
    return std::unexpected(error_at(store, why.code, gapless, why.what, why.advice));
  return std::unexpected(in_context(subject_of(gapless) + " in " + std::string(store.url()), why));
}

Result<Definition> find_definition(Store& store, std::string_view name, SteadyTime until) {
  if (store.catalog() == nullptr)
    return std::unexpected(
        error_at(store, Code::kUnimplemented, name, "this store keeps no sequences; use another"));
  Result<Definition> found = store.catalog()->find(name, until);
  if (!found && found.error().code == Code::kNotFound)
    return std::unexpected(error_at(store, Code::kNotFound, name, "no such sequence; create it",
                                    {Remedy::kCreateSequence, std::string(name)}));
  return found;
}

Result<void> check_count(const SequenceDefinition& definition, std::int64_t count) {
  const auto refuse = [&](const std::string& why) {
    return std::unexpected(about(
        "sequence " + definition.name,
        {Code::kInvalidArgument, "cannot take " + std::to_string(count) + " values; " + why}));
  };
  if (count < 1) return refuse("ask for at least 1");
  if (definition.largest_count != 0 && count > definition.largest_count)
    return refuse("ask for at most " + std::to_string(definition.largest_count) + " in one call");
  return {};
}

std::int64_t counter_count(const SequenceDefinition& definition) noexcept {
  if (definition.is_multi_store()) return 1;
  return definition.strategy == Strategy::kRandom ? 0 : definition.stripes;
}

bool has_movable_end(const SequenceDefinition& definition) noexcept {
  return definition.strategy != Strategy::kStriped && definition.strategy != Strategy::kPermuted;
}

Onward onward_from(const SequenceDefinition& definition) {
  const std::int64_t last = definition.last;
  const bool has_room =
      last < std::min(largest_last(definition.stride), largest_integer(definition.form));
  if (has_room && has_movable_end(definition))
    return {"another, or move its last value up", {Remedy::kAlterSequence, definition.name}};
  if (last == largest_last(definition.stride)) return {"a new sequence, under another prefix"};
  return {std::string("a new ") + (has_room ? "" : "and wider ") + "sequence that begins above " +
          std::to_string(last)};
}

NewCounter counter_of(const SequenceDefinition& definition, std::int64_t k) {
  const std::int64_t first = definition.first;
  const std::int64_t last = definition.last;
  const std::int64_t stride = definition.stride;
  const std::string stripe = definition.name + "/" + std::to_string(k);
  switch (definition.strategy) {
    case Strategy::kStriped: {
      const std::int64_t size = definition.size() / definition.stripes;
      const std::int64_t begin = first + k * size * stride;
      return {stripe,
              {begin, k + 1 == definition.stripes ? last : begin + (size - 1) * stride, stride},
              definition.adopted,
              k,
              definition.make_adopted};
    }
    case Strategy::kInterleaved:
      if (definition.is_multi_store()) {
        const std::int64_t every = definition.stripes * stride;
        return {
            definition.name, {first + definition.stripe * stride, last, every}, definition.adopted};
      }
      return {stripe, {first + k * stride, last, definition.stripes * stride}};
    case Strategy::kPermuted:
      return {definition.name, {0, definition.size() - 1}};
    case Strategy::kCounter:
    case Strategy::kCached:
    case Strategy::kRandom:
    case Strategy::kGapless:
      break;
  }
  return {definition.name, {first, last, stride}, definition.adopted, 0, definition.make_adopted};
}

Result<std::vector<CounterState>> read_counters(Store& store, const SequenceDefinition& definition,
                                                SteadyTime until) {
  const std::int64_t count = counter_count(definition);
  std::vector<CounterState> counters;
  if (!has_stripes(definition)) {
    for (std::int64_t k = 0; k < count; ++k) {
      Result<CounterState> counter = store.counters()->peek(definition.name, until);
      if (!counter && counter.error().code == Code::kNotFound)
        return std::unexpected(counter_gone(store, definition, definition.name));
      if (!counter) return std::unexpected(std::move(counter.error()));
      counters.push_back(*std::move(counter));
    }
  } else {
    Result<std::vector<CounterState>> listed = store.counters()->list(definition.name + "/", until);
    if (!listed) return listed;
    // Sorted by name, "10" before "2"; an interrupted create may have left more.
    for (std::int64_t k = 0; k < count; ++k) {
      const std::string name = definition.name + "/" + std::to_string(k);
      const auto at = std::ranges::lower_bound(*listed, name, {}, &CounterState::name);
      if (at == listed->end() || at->name != name)
        return std::unexpected(counter_gone(store, definition, name));
      counters.push_back(*at);
    }
  }
  for (std::int64_t k = 0; k < count; ++k) {
    const CounterState& counter = counters[static_cast<std::size_t>(k)];
    if (auto ok = must_match(store, definition, counter, counter_of(definition, k).bounds); !ok)
      return std::unexpected(std::move(ok.error()));
  }
  return counters;
}

Result<std::int64_t> read_claimed(Store& store, const SequenceDefinition& definition,
                                  SteadyTime until) {
  Result<std::int64_t> claimed = store.unique_index()->claimed(definition.name, until);
  if (claimed || claimed.error().code != Code::kNotFound) return claimed;
  return std::unexpected(
      error_at(store, Code::kDataLoss, definition.name,
               "it is defined, but its claims are gone; restore the store, then go on with a "
               "sequence of values that are not in use"));
}

Result<std::unique_ptr<Sequence>> Sequence::open(Store& store, std::string_view name,
                                                 const SequenceOptions& options, Clock& clock,
                                                 Entropy& entropy) {
  return open_defined(store, find_definition(store, name, options.until), options, clock, entropy);
}

Opened open_defined(Store& store, Result<Definition> found, const SequenceOptions& options,
                    Clock& clock, Entropy& entropy) {
  while (found) {
    if (std::holds_alternative<PoolDefinition>(*found))
      return std::unexpected(error_at(
          store, Code::kFailedPrecondition, *found,
          "it is a pool of worker ids, and its ids are minted under a lease of one: open it with "
          "SnowflakeGenerator::open() (idmint/snowflake.h)"));
    const auto& sequence = std::get<SequenceDefinition>(*found);
    if (sequence.move && sequence.move->stage != Move::Stage::kLeaving)
      return std::unexpected(refuse_moved(store, sequence, *sequence.move));
    if (sequence.retired)
      return std::unexpected(error_at(store, Code::kFailedPrecondition, sequence,
                                      "it is retired: nothing comes from it any more"));
    if (auto offered = offers(store, sequence); !offered)
      return std::unexpected(std::move(offered.error()));
    const auto* const opener = std::ranges::find(kOpeners, sequence.strategy, &Opener::strategy);
    if (opener == kOpeners.end())
      return std::unexpected(error_at(store, Code::kUnimplemented, sequence,
                                      "this idmint does not open sequences of strategy " +
                                          std::string(name(sequence.strategy))));
    const auto open = sequence.is_multi_store() ? open_multi_store : opener->open;
    Opened opened = open(store, sequence, options, clock, entropy);
    if (opened || opened.error().code != Code::kDataLoss) return opened;
    // Its counters may have been extended since its definition was read.
    Result<Definition> now = find_definition(store, sequence.name, options.until);
    if (now && *now == *found) return opened;
    found = std::move(now);
  }
  return std::unexpected(std::move(found.error()));
}

}  // namespace idmint
