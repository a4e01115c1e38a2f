#include "restore/fence/sources.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <variant>

#include "base/errors.h"
#include "base/text.h"
#include "engines/mongodb/names.h"
#include "idmint/clock.h"
#include "idmint/sequence.h"
#include "idmint/worker_pool.h"
#include "restore/fence/minted.h"
#include "restore/fence/server_state.h"
#include "restore/namespaces.h"
#include "sequences/moved.h"
#include "sequences/strategies.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/unique_index.h"

namespace idmint::restore {
namespace {

// The most numbers inside a span that are searched for one by one.
constexpr std::size_t kMostPresent = 10'000;

const HandedOutStore& store_in(const HandedOutStores& stores, const std::string& database) {
  static const HandedOutStore kNone;
  const HandedOutStore* const found = find_store(stores, database);
  return found == nullptr ? kNone : *found;
}

template <class Value>
const Value* value_at(const std::map<std::string, Value>& values, const std::string& name) {
  const auto at = values.find(name);
  return at == values.end() ? nullptr : &at->second;
}

// The plan of the row is complete: it is refused.
Result<void> refuse_row(FencedSource& row, std::string why) {
  row.outcome = FenceOutcome::kRefused;
  row.why = std::move(why);
  return {};
}

// The parts of `span` that `values` does not have.
Result<std::vector<NumberSpan>> absent(ExistingValues& values, NumberSpan span) {
  std::vector<NumberSpan> spans;
  std::int64_t to = span.last;
  for (std::size_t i = 0; i < kMostPresent && to >= span.first; ++i) {
    const auto largest = values.largest(span.first, to);
    if (!largest) return error_in(largest);
    const std::optional<std::int64_t> present = *largest;
    if (!present) break;
    if (*present < to) spans.push_back({*present + 1, to});
    to = *present - 1;
  }
  if (to >= span.first) spans.push_back({span.first, to});
  std::ranges::reverse(spans);
  return spans;
}

// Splits "shop.invoices:number".
std::optional<std::pair<std::string, std::string>> collection_and_field(std::string_view place) {
  const std::size_t colon = place.find(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == place.size())
    return std::nullopt;
  return std::pair{std::string(place.substr(0, colon)), std::string(place.substr(colon + 1))};
}

// The largest value of the counter that idmint can have written; counts larger ones in `ignored`.
// nullopt: there is none.
std::optional<std::int64_t> largest_possible(const HandedOutCounter& counter,
                                             const CounterBounds& bounds, std::size_t& ignored) {
  const auto is_possible = [&](std::int64_t next) {
    return next <= bounds.first ||
           (next <= bounds.last + bounds.stride && (next - bounds.first) % bounds.stride == 0);
  };
  if (is_possible(counter.next)) return counter.next;
  ++ignored;
  for (const std::int64_t next : counter.lower) {
    if (is_possible(next)) return next;
    ++ignored;
  }
  return std::nullopt;
}

std::string not_written_by_idmint(const HandedOutCounter& counter, const std::string& name,
                                  const FencedSource& row) {
  return "production has " + std::to_string(counter.next) + " for " + name +
         ", which idmint did not write: find the last value that was handed out, raise it with "
         "idmint raise, and --exclude " +
         row.label();
}

// The move of a sequence; null: none, or no definition.
const Move* move_in(const Definition* definition) {
  return definition != nullptr ? move_of(*definition) : nullptr;
}

// Why a sequence cannot be fenced whose move to another store is under way, or was when the backup
// was made: the rest of the move would go on from the counters of the backup. Empty: none is.
std::string of_a_move(const Definition* restored, const Definition* later) {
  const auto under_way = [](const Move* move) {
    return move != nullptr && move->stage != Move::Stage::kGone;
  };
  if (const Move* const move = move_in(later); under_way(move))
    return "production is moving it (the other store is " + move->url +
           "): finish the move with idmint move, and draw the fence again";
  const Move* const before = move_in(restored);
  if (!under_way(before)) return "";
  // One that went is closed here.
  if (before->stage == Move::Stage::kLeaving && move_in(later) != nullptr) return "";
  return "it was being moved when the backup was made (the other store is " + before->url +
         "): retire it on the target, and go on with a sequence of another name that begins past "
         "every value in use";
}

ExistingForm form_of(const SequenceDefinition& definition) {
  return {.form = definition.form, .first = definition.first, .last = definition.last};
}

}  // namespace

Result<UsedIn> parse_used_in(std::string_view text) {
  const std::size_t equals = text.find('=');
  const auto place = equals == std::string_view::npos
                         ? std::nullopt
                         : collection_and_field(text.substr(equals + 1));
  const std::string_view source = text.substr(0, std::min(equals, text.size()));
  if (!place || !source.contains('/') || !place->first.contains('.'))
    return refuse("--used-in is " + shown(text) +
                  ": give SOURCE=DATABASE.COLLECTION:FIELD, the source as the dry run prints it, "
                  "such as shop/orders=shop.orders:number");
  return UsedIn{.source = std::string(source), .collection = place->first, .field = place->second};
}

// The actions for a row.
struct SourceFence::Planned {
  std::string database{};
  Definition wanted{};
  bool make = false;           // create it
  bool retire = false;         // retire it, as in production
  bool extend = false;         // raise its end, as in production
  std::optional<Move> went{};  // with `retire`: the move that ended it in production
  // The arguments of raise_sequence(): values; an index for a permuted sequence.
  std::vector<std::int64_t> past{};
  std::optional<std::int64_t> floor{};                 // for a gapless sequence
  std::optional<Instant> bound{};                      // for a pool
  std::vector<std::pair<std::string, UsedIn>> used{};  // with the URI of the servers
  FencedSource row{};
};

SourceFence::SourceFence(SourceFenceOptions options, Server& target, Server* live,
                         const HandedOutStores& there, const HandedOutStores& handed_out)
    : options_(std::move(options)),
      target_(target),
      live_(live),
      there_(there),
      handed_out_(handed_out) {}

SourceFence::~SourceFence() = default;

Result<Store*> SourceFence::store_of(const std::string& database, bool create) {
  std::unique_ptr<Store>& store = stores_[database];
  if (!store) {
    Result<std::unique_ptr<Store>> opened =
        Store::open(with_database(options_.target, database),
                    {.deadline = options_.deadline, .create = create});
    if (!opened) return error_in(opened);
    store = *std::move(opened);
  }
  return store.get();
}

Result<std::vector<FencedSource>> SourceFence::plan() {
  std::set<std::string> databases;
  for (const auto* const stores : {&there_, &handed_out_})
    for (const auto& [database, store] : *stores) databases.insert(database);
  planned_.clear();
  for (const std::string& database : databases) {
    const HandedOutStore& here = store_in(there_, database);
    const HandedOutStore& theirs = store_in(handed_out_, database);
    std::set<std::string> names;
    for (const HandedOutStore* const store : {&here, &theirs}) {
      for (const auto& [name, definition] : store->definitions) names.insert(name);
      for (const auto& [name, why] : store->unreadable) names.insert(name);
    }
    for (const std::string& name : names) {
      const Definition* const restored = value_at(here.definitions, name);
      if (restored != nullptr && is_retired(*restored)) continue;  // it hands out nothing
      Planned planned{.database = database, .row = {.database = database, .name = name}};
      if (Result<void> done = plan_source(database, name, planned); !done) return error_in(done);
      planned_.push_back(std::move(planned));
    }
  }
  std::vector<FencedSource> rows;
  for (const Planned& planned : planned_) rows.push_back(planned.row);
  return rows;
}

Result<void> SourceFence::plan_source(const std::string& database, const std::string& name,
                                      Planned& planned) {
  FencedSource& row = planned.row;
  const HandedOutStore& here = store_in(there_, database);
  const HandedOutStore& theirs = store_in(handed_out_, database);
  const Definition* const restored = value_at(here.definitions, name);
  const Definition* const later = value_at(theirs.definitions, name);
  if (const Definition* const either = later != nullptr ? later : restored)
    row.strategy = strategy_name(*either);
  const std::string label = row.label();
  const bool excluded = std::ranges::any_of(
      options_.exclude, [&](const std::string& pattern) { return matches_glob(pattern, label); });
  if (excluded) {
    row.outcome = FenceOutcome::kLeftOut;
    row.why = "left out: what was handed out can come again";
    return {};
  }
  const auto unread = here.unreadable.find(name);
  if (unread != here.unreadable.end() || (restored == nullptr && later == nullptr))
    return refuse_row(
        row, "its definition cannot be read (" +
                 (unread != here.unreadable.end() ? unread->second : theirs.unreadable.at(name)) +
                 "): raise it with the idmint that made it");
  if (theirs.redefined.contains(name) ||
      (restored != nullptr && later != nullptr && !is_same_source(*restored, *later)))
    return refuse_row(
        row,
        "production defined it otherwise meanwhile, so its values are not those of the "
        "target: retire it on both, and go on with another name");
  if (options_.must_be_seen && later == nullptr)
    return refuse_row(
        row,
        "neither the oplog nor the live server has it, and the oplog begins after the "
        "limit: find an oplog that reaches back to the limit");
  if (std::string why = of_a_move(restored, later); !why.empty())
    return refuse_row(row, std::move(why));
  planned.wanted = later != nullptr ? *later : *restored;
  planned.make = restored == nullptr;
  const Move* const moved = move_in(later);
  planned.retire = is_retired(planned.wanted) && (!options_.reopen || moved != nullptr);
  if (planned.retire) {
    if (moved != nullptr) planned.went = *moved;
    row.outcome = FenceOutcome::kRetired;
    row.note = moved != nullptr
                   ? "production moved it to " + moved->url + ", where it goes on"
                   : "production retired it after the limit; if it was closed there to go on here, "
                     "add --reopen";
  } else if (planned.make) {
    row.outcome = FenceOutcome::kMade;
  }
  std::visit([](auto& definition) { definition.retired = false; }, planned.wanted);
  if (auto* const sequence = std::get_if<SequenceDefinition>(&planned.wanted))
    sequence->move.reset();
  if (planned.retire) return {};
  if (const auto* const pool = std::get_if<PoolDefinition>(&planned.wanted))
    return plan_pool(*pool, planned);
  auto& sequence = std::get<SequenceDefinition>(planned.wanted);
  if (restored != nullptr) {
    const std::int64_t last = std::get<SequenceDefinition>(*restored).last;
    planned.extend = sequence.last > last && has_movable_end(sequence);
    sequence.last = std::max(sequence.last, last);
  }
  if (sequence.strategy == Strategy::kRandom) return plan_claims(sequence, planned);
  if (sequence.strategy == Strategy::kGapless) return plan_gapless(sequence, planned);
  return plan_sequence(sequence, planned);
}

Result<void> SourceFence::plan_sequence(const SequenceDefinition& wanted, Planned& planned) {
  FencedSource& row = planned.row;
  const HandedOutStore& here = store_in(there_, planned.database);
  const HandedOutStore& theirs = store_in(handed_out_, planned.database);
  std::size_t ignored = 0;
  for (std::int64_t k = 0; k < counter_count(wanted); ++k) {
    const NewCounter counter = counter_of(wanted, k);
    const CounterBounds& bounds = counter.bounds;
    const HandedOutCounter* const reached = value_at(theirs.counters, counter.name);
    if (reached == nullptr) continue;
    std::optional<std::int64_t> possible;
    if (wanted.adopted.empty()) {
      possible = largest_possible(*reached, bounds, ignored);
    } else {
      // Programs that do not check the end leave the field beyond it.
      possible = std::min(reached->next, bounds.last + 1);
    }
    if (!possible) return refuse_row(row, not_written_by_idmint(*reached, counter.name, row));
    const std::int64_t next = *possible;
    const HandedOutCounter* const restored = value_at(here.counters, counter.name);
    std::optional<std::int64_t> from;
    if (restored != nullptr && !planned.make)
      from = wanted.adopted.empty() ? restored->next : std::min(restored->next, bounds.last + 1);
    if (next <= std::max(from.value_or(bounds.first), bounds.first)) continue;
    row.counters.push_back({.name = counter.name, .from = from, .to = next});
    planned.past.push_back(wanted.strategy == Strategy::kPermuted ? next : next - bounds.stride);
  }
  if (ignored != 0)
    add_clause(row.note,
               std::to_string(ignored) + (ignored == 1 ? " value" : " values") +
                   " that the oplog or the live server has for it cannot be idmint's, and "
                   "nothing was handed out from there");
  if (!planned.past.empty() && !planned.make) row.outcome = FenceOutcome::kRaised;
  if (planned.extend) {
    row.outcome = FenceOutcome::kRaised;
    add_clause(row.note, "its end is moved up to " + std::to_string(wanted.last));
  }
  // A preview cannot raise past an end that is still to be moved.
  if (!planned.past.empty() && !planned.make && !planned.extend) {
    const Result<Store*> store = store_of(planned.database, false);
    if (!store) return error_in(store);
    const bool each =
        wanted.strategy == Strategy::kStriped || wanted.strategy == Strategy::kInterleaved;
    const Result<Raised> preview =
        each ? raise_sequence(**store, wanted.name, planned.past, RaiseMode::kPreview)
             : raise_sequence(**store, wanted.name, planned.past.front(), RaiseMode::kPreview);
    if (!preview && preview.error().code == Code::kUnavailable) return error_in(preview);
    if (!preview) return refuse_row(row, preview.error().message());
    row.skipped = preview->skipped;
  }
  return plan_used_in(wanted, planned);
}

Result<void> SourceFence::plan_used_in(const SequenceDefinition& wanted, Planned& planned) {
  FencedSource& row = planned.row;
  for (const UsedIn& used : options_.used_in) {
    if (used.source != row.label()) continue;
    for (const std::string& uri : {options_.target, options_.live}) {
      if (uri.empty()) continue;
      const auto values = ExistingValues::open(uri, used.collection, used.field, form_of(wanted),
                                               options_.deadline);
      // The mistake may have removed the collection.
      if (!values && values.error().code == Code::kNotFound) continue;
      if (!values) return refuse_row(row, values.error().message());
      planned.used.emplace_back(uri, used);
      if (planned.make || planned.extend) continue;
      const Result<Store*> store = store_of(planned.database, false);
      if (!store) return error_in(store);
      const Result<Raised> preview =
          raise_sequence(**store, wanted.name, **values, RaiseMode::kPreview);
      if (!preview) return refuse_row(row, preview.error().message());
      row.skipped = std::max(row.skipped, preview->skipped);
      if (preview->skipped == 0) continue;
      row.outcome = FenceOutcome::kRaised;
      add_clause(row.note, "past the ids in " + used.collection + ":" + used.field);
    }
  }
  return {};
}

Result<void> SourceFence::plan_gapless(const SequenceDefinition& wanted, Planned& planned) {
  FencedSource& row = planned.row;
  const HandedOutCounter* const restored =
      planned.make ? nullptr : value_at(store_in(there_, planned.database).counters, wanted.name);
  const HandedOutCounter* const theirs =
      value_at(store_in(handed_out_, planned.database).counters, wanted.name);
  const std::int64_t from =
      std::max(restored != nullptr ? restored->next : wanted.first, wanted.first);
  std::int64_t next = from;
  if (theirs != nullptr) {
    std::size_t ignored = 0;
    const std::optional<std::int64_t> possible =
        largest_possible(*theirs, {wanted.first, wanted.last, 1}, ignored);
    if (!possible) return refuse_row(row, not_written_by_idmint(*theirs, wanted.name, row));
    next = std::max(from, *possible);
  }

  std::string numbers = restored != nullptr ? restored->numbers : std::string();
  if (numbers.empty() && theirs != nullptr) numbers = theirs->numbers;
  std::unique_ptr<ExistingValues> on_target;
  const auto place = collection_and_field(numbers);
  for (const std::string& uri : {options_.target, options_.live}) {
    if (!place || uri.empty()) continue;
    auto values =
        ExistingValues::open(uri, place->first, place->second, form_of(wanted), options_.deadline);
    if (!values && values.error().code == Code::kNotFound) continue;
    const auto largest = values ? (*values)->largest(wanted.first, wanted.last)
                                : Result<std::optional<std::int64_t>>(error_in(values));
    if (!largest) return refuse_row(row, largest.error().message());
    next = std::max(next, largest->value_or(wanted.first - 1) + 1);
    if (uri == options_.target) on_target = *std::move(values);
  }
  if (next <= from) return {};
  row.lost = {{from, next - 1}};
  if (on_target) {
    Result<std::vector<NumberSpan>> lost = absent(*on_target, row.lost.front());
    if (!lost) return error_in(lost);
    row.lost = *std::move(lost);
  }
  if (!row.lost.empty() && !options_.leave_gap)
    return refuse_row(row,
                      "it is gapless, and its numbers " + std::to_string(from) + " to " +
                          std::to_string(next - 1) +
                          " were given to documents that are not on the target: with --leave-gap "
                          "they are lost and listed; with --exclude " +
                          row.label() + " they come again");
  row.counters.push_back(
      {.name = wanted.name, .from = planned.make ? std::nullopt : std::optional(from), .to = next});
  row.skipped = next - from;
  planned.floor = next;
  if (!planned.make) row.outcome = FenceOutcome::kRaised;
  return {};
}

Result<void> SourceFence::plan_claims(const SequenceDefinition& wanted, Planned& planned) {
  FencedSource& row = planned.row;
  const std::string collection = stores::mongodb::collection_of("idmint.claims", wanted.name);
  const std::string ns = planned.database + "." + collection;
  const HandedOutStore& theirs = store_in(handed_out_, planned.database);
  const std::vector<std::int64_t>* const claimed = value_at(theirs.claims, collection);
  if (claimed != nullptr) {
    for (std::span<const std::int64_t> rest(*claimed); !rest.empty();) {
      const auto some = rest.first(std::min(kClaimsAtOnce, rest.size()));
      rest = rest.subspan(some.size());
      const Result<std::int64_t> missing = missing_claims(target_, ns, some);
      if (!missing) return error_in(missing);
      row.claims += *missing;
    }
  }
  if (live_ != nullptr) {
    const Result<void> read =
        each_claims(*live_, ns, [&](std::span<const std::int64_t> some) -> Result<void> {
          std::vector<std::int64_t> others;
          for (const std::int64_t claim : some)
            if (claimed == nullptr || !std::ranges::binary_search(*claimed, claim))
              others.push_back(claim);
          if (others.empty()) return {};
          const Result<std::int64_t> missing = missing_claims(target_, ns, others);
          if (!missing) return error_in(missing);
          row.claims += *missing;
          return {};
        });
    if (!read) return read;
  }
  if (row.claims != 0 && !planned.make) row.outcome = FenceOutcome::kRaised;
  return {};
}

Result<void> SourceFence::plan_pool(const PoolDefinition& wanted, Planned& planned) {
  FencedSource& row = planned.row;
  const std::string collection = stores::mongodb::collection_of("idmint.workers", wanted.name);
  std::int64_t bound = 0;
  for (const auto* const stores : {&there_, &handed_out_}) {
    const std::int64_t* const known =
        value_at(store_in(*stores, planned.database).bounds, collection);
    if (known != nullptr) bound = std::max(bound, *known);
  }
  if (bound <= 0) {
    if (!planned.make) row.note = "no worker id of it was leased";
    return {};
  }
  // The last unit for ids is the one before the bound.
  const std::optional<Instant> past = time_of(wanted.layout, bound - 1);
  if (!past || !wanted.layout.bounds(*past))
    return refuse_row(row, "a bound of it is " + std::to_string(bound) +
                               ", which is no time of its layout: go on with another pool");
  planned.bound = past;
  row.past = format_exact_time(*past);
  if (!planned.make) row.outcome = FenceOutcome::kRaised;
  return {};
}

Result<void> SourceFence::unite_claims(Store& store, const std::string& name, FencedSource& row) {
  const std::string collection = stores::mongodb::collection_of("idmint.claims", name);
  row.claims = 0;
  const auto insert = [&](std::span<const std::int64_t> some) -> Result<void> {
    const Result<std::vector<bool>> ours = store.unique_index()->insert(name, some);
    if (!ours) return error_in(ours);
    row.claims += std::ranges::count(*ours, true);
    return {};
  };
  const HandedOutStore& theirs = store_in(handed_out_, row.database);
  if (const auto* const claimed = value_at(theirs.claims, collection)) {
    for (std::span<const std::int64_t> rest(*claimed); !rest.empty();) {
      const auto some = rest.first(std::min(kClaimsAtOnce, rest.size()));
      rest = rest.subspan(some.size());
      if (Result<void> done = insert(some); !done) return done;
    }
  }
  if (live_ == nullptr) return {};
  return each_claims(*live_, row.database + "." + collection, insert);
}

Result<void> SourceFence::settle(std::span<const FencedSource> rows) {
  std::map<std::string, bool> all;  // by database
  for (const FencedSource& row : rows) {
    const bool done =
        row.outcome != FenceOutcome::kLeftOut && row.outcome != FenceOutcome::kRefused;
    const auto at = all.try_emplace(row.database, true).first;
    at->second = at->second && done;
  }
  for (const auto& [database, done] : all) {
    if (!done) continue;
    const Result<Store*> store = store_of(database, false);
    if (!store && store.error().code == Code::kNotFound) continue;  // nothing was to be made in it
    if (!store) return error_in(store);
    if (Result<void> settled = (*store)->settle(); !settled) return settled;
  }
  return {};
}

namespace {

Result<void> retire(Store& store, const std::string& name) {
  const Result<Changed> retired = retire_sequence(store, name);
  return retired ? Result<void>{} : std::unexpected(retired.error());
}

}  // namespace

Result<void> SourceFence::carry_out(std::size_t position, FencedSource& row) {
  const Planned& planned = planned_[position];
  if (row.outcome == FenceOutcome::kAsItWas || row.outcome == FenceOutcome::kLeftOut) return {};
  const Result<Store*> opened = store_of(planned.database, planned.make);
  if (!opened) return error_in(opened);
  Store& store = **opened;
  if (const auto* const pool = std::get_if<PoolDefinition>(&planned.wanted)) {
    if (planned.make)
      if (auto made = create_pool(store, *pool); !made) return error_in(made);
    if (planned.retire) return retire(store, pool->name);
    if (!planned.bound) return {};
    const Result<std::int64_t> raised = raise_pool(store, pool->name, *planned.bound);
    if (!raised) return error_in(raised);
    return {};
  }
  const auto& sequence = std::get<SequenceDefinition>(planned.wanted);
  const std::string& name = sequence.name;
  const bool gapless = sequence.strategy == Strategy::kGapless;
  if (planned.make && gapless) {
    // Like create_sequence(), which refuses a gapless sequence on a standalone such as a spare.
    const NewCounter counter = counter_of(sequence, 0);
    if (auto made = store.counters()->create(std::span(&counter, 1)); !made) return error_in(made);
    if (const Result<Defined> defined = store.catalog()->define(sequence); !defined)
      return error_in(defined);
  } else if (planned.make) {
    SequenceDefinition missing = sequence;
    missing.make_adopted = !sequence.adopted.empty();
    if (auto made = create_sequence(store, missing); !made)
      return std::unexpected(std::move(made.error()));
  }
  if (planned.went) {
    const Result<Definition> now = store.catalog()->find(name);
    if (!now) return error_in(now);
    return send_away(store, std::get<SequenceDefinition>(*now), *planned.went);
  }
  if (planned.retire) return retire(store, name);
  if (planned.extend) {
    const Result<Changed> extended = alter_sequence(store, name, sequence.last);
    if (!extended) return error_in(extended);
  }
  if (sequence.strategy == Strategy::kRandom) return unite_claims(store, name, row);
  if (planned.floor) {
    const Result<std::int64_t> next = store.counters()->raise(name, *planned.floor);
    if (!next) return error_in(next);
    return {};
  }
  if (!planned.past.empty()) {
    const bool each =
        sequence.strategy == Strategy::kStriped || sequence.strategy == Strategy::kInterleaved;
    const Result<Raised> raised = each ? raise_sequence(store, name, planned.past)
                                       : raise_sequence(store, name, planned.past.front());
    if (!raised) return error_in(raised);
    row.skipped = raised->skipped;
  }
  for (const auto& [uri, used] : planned.used) {
    const auto values = ExistingValues::open(uri, used.collection, used.field, form_of(sequence),
                                             options_.deadline);
    if (!values) return error_in(values);
    const Result<Raised> raised = raise_sequence(store, name, **values);
    if (!raised) return error_in(raised);
    row.skipped += raised->skipped;
  }
  return {};
}

}  // namespace idmint::restore
