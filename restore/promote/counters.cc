#include "restore/promote/counters.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "base/errors.h"
#include "restore/cursor.h"
#include "restore/fence/documents.h"
#include "restore/fence/handed_out.h"
#include "restore/fence/server_state.h"
#include "restore/namespaces.h"
#include "restore/oplog/fields.h"
#include "restore/promote/collection_at.h"
#include "restore/promote/later.h"
#include "restore/replay/index_catalog.h"
#include "restore/replay/state.h"
#include "restore/replay/zero_timestamps.h"

namespace idmint::restore {
namespace {

constexpr std::string_view kIdmintCounters = "idmint.counters";
constexpr std::string_view kIdmintWorkers = "idmint.workers";
constexpr std::size_t kInsertsAtOnce = 1000;

std::string mark_of(const PromoteState& state) { return "idmint-restore promote " + state.id; }

// Updates in one collection, in batches. They bypass validation.
class Updates {
 public:
  Updates(Server& production, std::string database, std::string collection)
      : production_(&production),
        database_(std::move(database)),
        collection_(std::move(collection)) {}

  Result<void> add(const Bson& query, const Bson& update) {
    statements_.push(Bson("q", query, "u", update));
    return statements_.size < kInsertsAtOnce ? Result<void>{} : send();
  }
  Result<void> send() {
    if (statements_.size == 0) return {};
    const BsonArray statements = std::exchange(statements_, {});
    return only_error(change(*production_, database_,
                             Bson("update", collection_, "updates", statements, "ordered", false,
                                  "bypassDocumentValidation", true, "maxTimeMS", kCommandLimit)));
  }

 private:
  Server* production_;
  std::string database_;
  std::string collection_;
  BsonArray statements_;
};

Result<void> insert_one_missing(Server& production, const std::string& ns, const Bson& document) {
  const Bson id = only_id_of(id_key(document.view()));
  const Result<std::map<std::string, Bson>> there = documents_of(production, ns, std::span(&id, 1));
  if (!there) return error_in(there);
  if (!there->empty()) return {};
  const Result<std::string> why = insert_as_it_is(production, ns, document);
  if (!why) return error_in(why);
  return why->empty() ? Result<void>{}
                      : fail(Code::kFailedPrecondition, "insert into " + ns + ": " + *why);
}

// Inserts documents whose _id is missing, and keeps existing ones.
Result<void> insert_missing(Server& production, const std::string& database,
                            const std::string& collection, const std::vector<Bson>& documents) {
  if (documents.empty()) return {};
  BsonArray list;
  const std::string ns = std::string(database).append(".").append(collection);
  for (const Bson& each : documents) {
    if (has_zero_timestamp(each.view())) {
      Result<void> put = insert_one_missing(production, ns, each);
      if (!put) return put;
      continue;
    }
    list.push(each);
  }
  if (list.size == 0) return {};
  const Bson command =
      Bson("insert", collection, "documents", list, "ordered", false, "bypassDocumentValidation",
           true, "maxTimeMS", kCommandLimit, "writeConcern",
           Bson("w", production.set_name().empty() ? "1" : "majority", "wtimeout", kCommandLimit));
  const Result<Bson> reply = production.command(database, command);
  if (!reply) return error_in(reply);
  std::string why;
  reply->view().each("writeErrors", [&](const Document& error) {
    if (error.number("code") != kDuplicateKey) why = text_of(error, "errmsg");
  });
  const bool refused = !why.empty() && !failed_in_passing(reply->view());  // and will be again
  if (reply->view().has("writeConcernError")) why = to_relaxed_json(reply->view());
  if (why.empty()) return {};
  return fail(refused ? Code::kFailedPrecondition : Code::kUnavailable,
              "insert into " + ns + ": " + why);
}

using Changed = std::function<Bson(Document)>;

// Inserts every document of the spare's collection that production lacks, changed by `changed`.
Result<void> bring_missing(Server& spare, Server& production, const CollectionFacts& facts,
                           const Changed& changed) {
  std::vector<Bson> documents;
  Result<void> read =
      for_each_document(spare, facts.database, facts.name, [&](Document document) -> Result<void> {
        documents.push_back(changed ? changed(document) : Bson::copy_of(document));
        if (documents.size() < kInsertsAtOnce) return {};
        Result<void> done = insert_missing(production, facts.database, facts.name, documents);
        documents.clear();
        return done;
      });
  if (!read) return read;
  if (read = insert_missing(production, facts.database, facts.name, documents); !read) return read;
  std::vector<Document> specs;
  for (const Bson& each : facts.indexes)
    if (text_of(each.view(), "name") != "_id_") specs.push_back(each.view());
  const std::string ns = facts.ns();
  return create_indexes(production, ns, specs);
}

// An open idmint counter becomes closed, and marked.
Bson closed_counter(Document record, const std::string& mark) {
  if (record.boolean("closed") != false) return Bson::copy_of(record);
  Bson closed;
  for (const Field& field : Fields(record)) {
    if (field.is("closed")) {
      closed.add("closed", true);
    } else {
      append_field(closed.get(), field);
    }
  }
  closed.add("closed_by", std::string_view(mark));
  return closed;
}

// Raises the bounds of a pool's worker ids to the spare's.
Result<void> raise_bounds(Server& spare, Server& production, const CollectionFacts& workers) {
  Updates updates(production, workers.database, workers.name);
  Result<void> read =
      for_each_document(spare, workers.database, workers.name, [&](Document row) -> Result<void> {
        Bson query;
        const std::optional<std::int64_t> bound = row.integer("minted_until");
        if (!bound || !query.add_from(row, "_id")) return {};
        return updates.add(query, Bson("$max", Bson("minted_until", *bound)));
      });
  return read ? updates.send() : read;
}

// Raises values to the spare's. Other bounds mean another counter, which is not changed.
Result<void> raise_to_spare(Server& spare, Server& production, const std::string& database) {
  Updates updates(production, database, std::string(kIdmintCounters));
  Result<void> read = for_each_document(
      spare, database, std::string(kIdmintCounters), [&](Document record) -> Result<void> {
        Bson query;
        const std::optional<std::int64_t> next = record.integer("next");
        const std::optional<std::int64_t> first = record.integer("first");
        const std::optional<std::int64_t> stride = record.integer("stride");
        if (!next || !first || !stride || !query.add_from(record, "_id")) return {};
        query.append("first", *first, "stride", *stride, "next", Bson("$lt", *next));
        return updates.add(query, Bson("$set", Bson("next", *next)));
      });
  return read ? updates.send() : read;
}

// Creates what production lacks of idmint's stores. Definitions come last: one that exists implies
// that its counters exist.
Result<void> bring_stores(Server& spare, Server& production, const PromoteState& state) {
  Result<std::vector<CollectionFacts>> all = list_collections(spare);
  if (!all) return error_in(all);
  std::ranges::sort(*all, {}, [](const CollectionFacts& each) {
    return std::pair(each.name == "idmint.definitions", each.ns());
  });
  for (const CollectionFacts& each : *all) {
    if (!each.name.starts_with("idmint.") ||
        std::ranges::find(state.databases, each.database) == state.databases.end())
      continue;
    const Changed closed = [&](Document record) { return closed_counter(record, mark_of(state)); };
    const bool counters = each.name == kIdmintCounters;
    Result<void> brought = bring_missing(spare, production, each, counters ? closed : Changed());
    if (brought && counters) brought = raise_to_spare(spare, production, each.database);
    if (brought && each.name.starts_with(kIdmintWorkers))
      brought = raise_bounds(spare, production, each);
    if (!brought) return brought;
  }
  return {};
}

// The fields of counter documents that are raised in place, by namespace.
Result<WatchedFields> fields_in_place(Server& server, const PromoteState& state,
                                      const std::vector<CounterField>& counters) {
  WatchedFields fields;
  for (const PromoteItem& item : state.items) {
    if (!item.in_place) continue;
    const Result<std::vector<std::string>> found = counter_fields(server, item.ns, counters);
    if (!found) return error_in(found);
    fields[item.ns].insert(found->begin(), found->end());
  }
  const Result<ServerState> stores = read_server_state(server);
  if (!stores) return error_in(stores);
  for (const auto& [database, store] : stores->stores) {
    for (const auto& [counter, place] : store.adopted) {
      const auto there = fields.find(database + "." + place.collection);
      if (there != fields.end()) there->second.insert(place.field);
    }
  }
  return fields;
}

void unite_fields(WatchedFields& into, const WatchedFields& other) {
  for (const auto& [ns, fields] : other) into[ns].insert(fields.begin(), fields.end());
}

// Counter documents of programs: creates missing ones and raises the others to the spare's.
Result<void> bring_documents(Server& spare, Server& production, const PromoteState& state,
                             const WatchedFields& fields) {
  Result<std::vector<CollectionFacts>> all = list_collections(spare);
  if (!all) return error_in(all);
  for (const CollectionFacts& facts : *all) {
    const auto counted = fields.find(facts.ns());
    const auto item = std::ranges::find(state.items, facts.ns(), &PromoteItem::ns);
    if (counted == fields.end() || item == state.items.end() || !item->in_place) continue;
    if (Result<void> brought = bring_missing(spare, production, facts, {}); !brought)
      return brought;
    Updates updates(production, facts.database, facts.name);
    Result<void> read = for_each_document(
        spare, facts.database, facts.name, [&](Document document) -> Result<void> {
          const std::optional<Field> id = find_field(document, "_id");
          if (!id) return {};
          Bson largest;
          for (const std::string& field : counted->second)
            if (counted_number(document, field)) largest.add_from(document, field.c_str());
          const Bson floors = floors_of(document);
          largest.add_all(*floors.get());
          if (largest.view().empty()) return {};
          const Bson query;
          append_field(query.get(), *id);
          return updates.add(query, Bson("$max", largest));
        });
    if (read) read = updates.send();
    if (!read) return read;
  }
  return {};
}

// Stops when the promotion stops.
class PassedOn final : public Observer {
 public:
  explicit PassedOn(const TakeProgress& progress) : progress_(progress) {}
  Result<void> advance(std::optional<std::uint64_t>) override {
    return progress_ ? progress_(0) : Result<void>{};
  }

 private:
  const TakeProgress& progress_;
};

Result<std::vector<CounterField>> counters_of(const PromoteState& state) {
  std::vector<CounterField> counters;
  for (const std::string& text : state.counters) {
    Result<CounterField> counter = parse_counter_field(text);
    if (!counter) return error_in(counter);
    counters.push_back(*std::move(counter));
  }
  return counters;
}

Result<FenceReport> draw(const PromoteOptions& options, const PromoteState& state,
                         const std::vector<CounterField>& counters, FenceMode mode,
                         const TakeProgress& progress) {
  FenceReport report;
  PassedOn watch(progress);
  Result<void> drawn = fence({.target = options.to,
                              .oplog = options.oplog,
                              .live = options.to,
                              .limit = state.limit,
                              .leave_gap = state.leave_gap,
                              .allow_production = true,
                              .counters = counters},
                             mode, watch, report);
  if (!drawn) return error_in(drawn);
  return report;
}

std::set<std::string> retired_in(const HandedOutStore& store) {
  std::set<std::string> retired;
  for (const auto& [name, definition] : store.definitions)
    if (is_retired(definition)) retired.insert(name);
  return retired;
}

}  // namespace

Result<void> close_counters(Server& production, const PromoteState& state) {
  for (const std::string& database : state.databases) {
    Bson update;
    update.add("0", Bson("$set", Bson("closed", true, "closed_by", mark_of(state))));
    Bson statement = Bson("q", Bson("closed", false));
    statement.add_array("u", update).add("multi", true);
    const Result<Bson> closed = change(
        production, database,
        Bson("update", kIdmintCounters, "updates", array(statement), "maxTimeMS", kCommandLimit));
    if (!closed)
      return fail(closed.error().code,
                  "closing the counters of " + database + ": " + closed.error().message());
  }
  return {};
}

Result<void> open_counters(Server& production, const PromoteState& state) {
  const Result<ServerState> stores = read_server_state(production);
  if (!stores) return error_in(stores);
  for (const std::string& database : state.databases) {
    BsonArray names;
    const auto store = stores->stores.find(database);
    if (store != stores->stores.end()) {
      const std::set<std::string> retired = retired_in(store->second);
      for (const auto& [counter, record] : store->second.counters) {
        // "orders", or "orders/17" for a sequence with many counters
        const std::string sequence = counter.substr(0, counter.rfind('/'));
        if (retired.contains(counter) || retired.contains(sequence)) names.push(counter);
      }
    }
    const Bson query = Bson("closed_by", mark_of(state), "_id", Bson("$nin", names));
    const Bson update = Bson("$set", Bson("closed", false), "$unset", Bson("closed_by", true));
    const Result<Bson> opened = change(
        production, database,
        Bson("update", kIdmintCounters, "updates",
             array(Bson("q", query, "u", update, "multi", true)), "maxTimeMS", kCommandLimit));
    if (!opened)
      return fail(opened.error().code,
                  "opening the counters of " + database + ": " + opened.error().message());
  }
  return {};
}

namespace {

// The values of counters, to tell which ones were raised.
struct Values {
  HandedOutStores stores{};
  std::map<std::string, std::int64_t> documents{};  // by NS/ID/FIELD
};

std::string key_of(const std::string& ns, std::string_view id, const std::string& field) {
  return ns + "/" + std::string(id) + "/" + field;
}

Result<Values> values_now(Server& production, const WatchedFields& fields) {
  Result<ServerState> state = read_server_state(production);
  if (!state) return error_in(state);
  Values values{.stores = std::move(state->stores)};
  for (const auto& [ns, names] : fields) {
    Result<void> read = for_each_document(
        production, database_of(ns), collection_of(ns), [&](Document document) -> Result<void> {
          const Bson id = only_id_of(id_key(document));
          const std::string text = id_for_people(std::string(id.view().raw()));
          for (const std::string& field : names)
            if (const std::optional<CountedNumber> number = counted_number(document, field))
              values.documents[key_of(ns, text, field)] = number->value;
          return {};
        });
    if (!read) return error_in(read);
  }
  return values;
}

bool is_raised(const FencedSource& source, const HandedOutStore& before,
               const HandedOutStore& after) {
  for (const auto& [counter, record] : after.counters) {
    const auto its = before.counters.find(counter);
    if ((counter == source.name || counter.starts_with(source.name + "/")) &&
        its != before.counters.end() && its->second.next < record.next)
      return true;
  }
  const auto bound = after.bounds.find(std::string(kIdmintWorkers) + "." + source.name);
  if (bound == after.bounds.end()) return false;
  const auto its = before.bounds.find(bound->first);
  return its != before.bounds.end() && its->second < bound->second;
}

// The fence finds as it was what was brought from the spare just before.
void tell_what_was_brought(const Values& before, const Values& after, FenceReport& report) {
  for (FencedSource& each : report.sources) {
    const auto was = before.stores.find(each.database);
    const auto is = after.stores.find(each.database);
    if (each.outcome == FenceOutcome::kAsItWas && was != before.stores.end() &&
        is != after.stores.end() && is_raised(each, was->second, is->second))
      each.outcome = FenceOutcome::kRaised;
  }
  for (FencedDocument& each : report.documents) {
    if (each.outcome == FenceOutcome::kRefused || each.outcome == FenceOutcome::kLeftOut) continue;
    const std::string key = key_of(each.ns, each.id, each.field);
    const auto is = after.documents.find(key);
    if (is == after.documents.end()) continue;
    const auto was = before.documents.find(key);
    if (was == before.documents.end()) {
      each.outcome = FenceOutcome::kMade;
      each.from.reset();
    } else if (was->second < is->second) {
      each.outcome = FenceOutcome::kRaised;
      each.from = was->second;
    }
    each.to = std::max(each.to, is->second);
  }
}

}  // namespace

Result<FenceReport> raise_counters(Server* spare, Server& production, const PromoteState& state,
                                   const PromoteOptions& options, const TakeProgress& progress) {
  const Result<std::vector<CounterField>> counters = counters_of(state);
  if (!counters) return error_in(counters);
  Result<WatchedFields> fields = fields_in_place(production, state, *counters);
  if (!fields) return error_in(fields);
  if (spare != nullptr) {
    const Result<WatchedFields> restored = fields_in_place(*spare, state, *counters);
    if (!restored) return error_in(restored);
    unite_fields(*fields, *restored);
  }
  const Result<Values> before = values_now(production, *fields);
  if (!before) return error_in(before);
  if (spare != nullptr) {
    Result<void> brought = bring_stores(*spare, production, state);
    if (brought) brought = bring_documents(*spare, production, state, *fields);
    if (!brought) return error_in(brought);
  }
  const Result<Values> after = values_now(production, *fields);
  if (!after) return error_in(after);
  Result<FenceReport> drawn = draw(options, state, *counters, FenceMode::kCarryOut, progress);
  if (drawn) tell_what_was_brought(*before, *after, *drawn);
  return drawn;
}

Result<FenceReport> preview_fence(const PromoteOptions& options, const PromoteState& state,
                                  const TakeProgress& progress) {
  const Result<std::vector<CounterField>> counters = counters_of(state);
  if (!counters) return error_in(counters);
  return draw(options, state, *counters, FenceMode::kPreview, progress);
}

namespace {

// The sequences and pools of `restored` that `now` lacks, or lacks a counter of. Null: it lacks
// all.
std::set<std::string> lacking(const HandedOutStore& restored, const HandedOutStore* now) {
  std::set<std::string> names;
  for (const auto& [name, definition] : restored.definitions)
    if (now == nullptr || !now->definitions.contains(name)) names.insert(name);
  for (const auto& [name, counter] : restored.counters)
    if (now == nullptr || !now->counters.contains(name))
      names.insert(name.substr(0, name.rfind('/')));
  return names;
}

bool has_lower(const HandedOutStore& now, const HandedOutStore& restored) {
  return std::ranges::any_of(restored.counters,
                             [&](const auto& each) {
                               const auto its = now.counters.find(each.first);
                               return its != now.counters.end() &&
                                      its->second.next < each.second.next;
                             }) ||
         std::ranges::any_of(restored.bounds, [&](const auto& each) {
           const auto its = now.bounds.find(each.first);
           return its == now.bounds.end() || its->second < each.second;
         });
}

}  // namespace

Result<std::set<std::string>> stores_set_back(Server& spare, Server& production) {
  const Result<BothStores> stores = read_both_stores(spare, production);
  if (!stores) return error_in(stores);
  std::set<std::string> found;
  for (const auto& [database, store] : stores->restored) {
    const HandedOutStore* const its = find_store(stores->now, database);
    if (!lacking(store, its).empty() || (its != nullptr && has_lower(*its, store)))
      found.insert(database);
  }
  return found;
}

Result<std::set<std::string>> sources_to_make(Server& spare, Server& production,
                                              const PromoteState& state) {
  const Result<BothStores> stores = read_both_stores(spare, production);
  if (!stores) return error_in(stores);
  std::set<std::string> found;
  for (const std::string& database : state.databases) {
    const HandedOutStore* const before = find_store(stores->restored, database);
    if (before == nullptr) continue;
    for (const std::string& name : lacking(*before, find_store(stores->now, database)))
      found.insert(std::string(database).append("/").append(name));
  }
  return found;
}

Result<std::vector<std::string>> lost_numbers(Server& spare, Server& production,
                                              const PromoteState& state) {
  const Result<BothStores> stores = read_both_stores(spare, production);
  if (!stores) return error_in(stores);
  std::vector<std::string> lost;
  for (const auto& [database, store] : stores->now) {
    const HandedOutStore* const other = find_store(stores->restored, database);
    if (other == nullptr) continue;
    for (const auto& [name, counter] : store.counters) {
      const std::string ns = counter.numbers.substr(0, counter.numbers.rfind(':'));
      const auto item = std::ranges::find(state.items, ns, &PromoteItem::ns);
      const auto before = other->counters.find(name);
      if (ns.empty() || item == state.items.end() || !item->is_replaced() ||
          before == other->counters.end() || before->second.next >= counter.next)
        continue;
      std::string row = database;
      row.append("/").append(name).append(": its numbers ");
      row += std::to_string(before->second.next);
      row.append(" to ").append(std::to_string(counter.next - counter.stride));
      row.append(" are of documents in ").append(ns).append(" that are set back");
      lost.push_back(std::move(row));
    }
  }
  return lost;
}

}  // namespace idmint::restore
