#include "restore/fence/server_state.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "engines/mongodb/names.h"
#include "restore/collections.h"
#include "restore/cursor.h"
#include "restore/fence/shapes.h"
#include "restore/namespaces.h"

namespace idmint::restore {
namespace {

// As find_each(), with read_preference().
Result<void> each_found(Server& server, const std::string& ns, const Bson& filter,
                        const Bson& options, const std::function<Result<void>(Document)>& take) {
  return find_each(server, ns, filter, options, take, "reading " + ns + " of " + server.shown_uri(),
                   read_preference(server.client()).get());
}

Result<void> read_definitions_of(Server& server, const std::string& database,
                                 HandedOutStore& store) {
  return each_found(server, database + ".idmint.definitions", Bson(), Bson(),
                    [&](Document document) -> Result<void> {
                      const std::string name = text_of(document, "_id");
                      if (!name.empty()) store.take_definition(name, text_of(document, "json"));
                      return {};
                    });
}

Result<void> read_records_of(Server& server, const std::string& database, HandedOutStore& store) {
  return each_found(
      server, database + ".idmint.counters", Bson(), Bson(), [&](Document record) -> Result<void> {
        const std::string name = text_of(record, "_id");
        if (name.empty()) return {};
        HandedOutCounter& counter = store.counters[name];
        counter = {.next = record.number("next"),
                   .first = record.integer("first").value_or(0),
                   .last = record.integer("last").value_or(0),
                   .stride = std::max<std::int64_t>(1, record.integer("stride").value_or(1)),
                   .numbers = text_of(record, "numbers")};
        if (const Document place = record.document("adopted"))
          store.adopted.insert_or_assign(name, place_in(name, place));
        return {};
      });
}

// Reads the values of adopted counters from their documents.
Result<void> read_adopted_values(Server& server, const std::string& database,
                                 HandedOutStore& store) {
  std::map<std::string, std::vector<std::pair<std::string, const AdoptedPlace*>>> by_collection;
  for (const auto& [counter, place] : store.adopted)
    by_collection[place.collection].emplace_back(place.id, &place);
  for (const auto& [collection, places] : by_collection) {
    std::vector<std::string> ids;
    for (const auto& [id, place] : places) ids.push_back(id);
    std::string ns = database;
    ns.append(".").append(collection);
    const Result<std::map<std::string, Bson>> found = find_documents(server, ns, ids);
    if (!found) return error_in(found);
    for (const auto& [id, place] : places) {
      const auto document = found->find(id);
      if (document == found->end()) continue;
      if (const auto number = counted_number(document->second.view(), place->field))
        store.counters[place->counter].next = place->next_of(number->value);
    }
  }
  return {};
}

Result<void> read_bounds_of(Server& server, const std::string& database, HandedOutStore& store) {
  for (const auto& [name, definition] : store.definitions) {
    if (!std::holds_alternative<PoolDefinition>(definition)) continue;
    const std::string workers = stores::mongodb::collection_of("idmint.workers", name);
    const Bson options = Bson("sort", Bson("minted_until", -1), "limit", std::int64_t{1});
    std::string ns = database;
    ns.append(".").append(workers);
    std::int64_t& largest = store.bounds[workers];
    const Result<void> read =
        each_found(server, ns, Bson("minted_until", Bson("$type", "number", "$lt", kClosedBound)),
                   options, [&](Document row) -> Result<void> {
                     largest = std::max(largest, row.numeric("minted_until").value_or(0));
                     return {};
                   });
    if (!read) return read;
  }
  return {};
}

}  // namespace

Result<HandedOutStore> read_store(Server& server, const std::string& database) {
  HandedOutStore store;
  for (const auto& read :
       {read_definitions_of, read_records_of, read_adopted_values, read_bounds_of})
    if (Result<void> done = read(server, database, store); !done) return error_in(done);
  return store;
}

Result<ServerState> read_server_state(Server& server) {
  ServerState state;
  const Result<Bson> who = server.read("admin", Bson("hello", 1));
  if (!who) return error_in(who);
  const Document reply = who->view();
  state.writable = reply.boolean("isWritablePrimary").value_or(false) &&
                   !reply.boolean("readOnly").value_or(false);
  const Field process = field_of(reply.document("topologyVersion"), "processId");
  if (process.type == BSON_TYPE_OID)
    state.process =
        hex({reinterpret_cast<const char*>(process.value.data()), process.value.size()});
  reply.each_text("hosts", [&](std::string_view host) { state.hosts.emplace_back(host); });

  const Result<std::vector<CollectionFacts>> there = list_namespaces(server);
  if (!there) return error_in(there);
  for (const CollectionFacts& each : *there) {
    if (is_own_database(each.database)) continue;
    state.collections.emplace(each.ns(), each.uuid);
    if (each.name.starts_with("idmint.")) state.stores[each.database];
  }
  for (auto& [database, store] : state.stores) {
    Result<HandedOutStore> read = read_store(server, database);
    if (!read) return error_in(read);
    store = *std::move(read);
  }
  return state;
}

Result<BothStores> read_both_stores(Server& spare, Server& production) {
  Result<ServerState> restored = read_server_state(spare);
  if (!restored) return error_in(restored);
  Result<ServerState> now = read_server_state(production);
  if (!now) return error_in(now);
  return BothStores{.restored = std::move(restored->stores), .now = std::move(now->stores)};
}

Result<std::map<std::string, Bson>> find_documents(Server& server, const std::string& ns,
                                                   std::span<const std::string> ids) {
  constexpr std::size_t kAtOnce = 1000;
  std::map<std::string, Bson> found;
  while (!ids.empty()) {
    const auto some = ids.first(std::min(kAtOnce, ids.size()));
    ids = ids.subspan(some.size());
    BsonArray all;
    for (const std::string& bytes : some)
      if (all.items.add_from(Document::of(bytes), "_id", std::to_string(all.size).c_str()))
        ++all.size;
    const Result<void> read = each_found(
        server, ns, Bson("_id", Bson("$in", all)), Bson(), [&](Document document) -> Result<void> {
          Bson id;
          if (!id.add_from(document, "_id")) return {};
          found.insert_or_assign(std::string(id.view().raw()), Bson::copy_of(document));
          return {};
        });
    if (!read) return error_in(read);
  }
  return found;
}

Bson floors_of(Document adopted) {
  Bson floors;
  const std::string name = stores::mongodb::kFloors;
  for (const Field& field : Fields(adopted.document(name.c_str())))
    if (field.integer()) append_field_as(floors.get(), name + "." + std::string(field.key), field);
  return floors;
}

Result<void> each_document(Server& server, const std::string& ns, std::int64_t most,
                           const std::function<Result<void>(Document)>& take) {
  return each_found(server, ns, Bson(), Bson("limit", most), take);
}

Result<void> each_claims(Server& server, const std::string& ns,
                         const std::function<Result<void>(std::span<const std::int64_t>)>& take) {
  std::vector<std::int64_t> some;
  const Result<void> read = each_found(server, ns, Bson("_id", Bson("$type", "number")), Bson(),
                                       [&](Document claim) -> Result<void> {
                                         if (const auto key = claim.integer("_id"))
                                           some.push_back(*key);
                                         if (some.size() < kClaimsAtOnce) return {};
                                         Result<void> taken = take(some);
                                         some.clear();
                                         return taken;
                                       });
  if (!read || some.empty()) return read;
  return take(some);
}

Result<std::int64_t> missing_claims(Server& server, const std::string& ns,
                                    std::span<const std::int64_t> claims) {
  const Result<Bson> reply = server.read(
      database_of(ns),
      Bson("count", collection_of(ns), "query", Bson("_id", Bson("$in", array_of(claims)))));
  if (!reply) return error_in(reply);
  return std::ssize(claims) - reply->view().number("n");
}

Result<bool> has_oplog_entry(Server& server, OpTime at) {
  const Bson filter = Bson("ts", to_bson(at.ts), "t", at.term);
  bool there = false;
  const Result<void> read =
      each_found(server, "local.oplog.rs", filter, Bson("limit", std::int64_t{1}),
                 [&](Document) -> Result<void> {
                   there = true;
                   return {};
                 });
  if (!read) return error_in(read);
  return there;
}

}  // namespace idmint::restore
