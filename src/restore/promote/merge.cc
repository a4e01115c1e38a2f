#include "restore/promote/merge.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/errors.h"
#include "restore/cursor.h"
#include "restore/promote/collection_at.h"
#include "restore/replay/record.h"

namespace idmint::restore {
namespace {

constexpr const char* kLaterCollection = "later";
constexpr std::size_t kIdsAtOnce = 500;

struct NotedBatch {
  std::string ns{};
  bool dropped = false;
  std::vector<Bson> ids{};  // {_id: ID}
};

std::string bytes_text(Document document) {
  return {reinterpret_cast<const char*>(document.bytes().data()), document.bytes().size()};
}

Bson id_alone(Document document) {
  Bson id;
  bson_iter_t at;
  if (document.find("_id", &at)) id.add("_id", &at);
  return id;
}

Result<void> put_batch(Server& production, std::size_t number, const NotedBatch& batch) {
  BsonArray ids;
  std::size_t index = 0;
  for (const Bson& each : batch.ids) ids.items.add(std::to_string(index++).c_str(), each);
  Bson command =
      Bson("update", kLaterCollection, "updates",
           array(Bson("q", Bson("_id", static_cast<std::int64_t>(number)), "u",
                      Bson("ns", batch.ns, "dropped", batch.dropped, "ids", ids), "upsert", true)));
  const Result<Bson> put = change(production, kRecordDatabase, std::move(command));
  if (!put) return std::unexpected(put.error());
  return {};
}

// The documents of the batch that exist in the collection, by the bytes of {_id: ID}.
Result<std::map<std::string, Bson>> documents_of(Server& production, const std::string& ns,
                                                 const NotedBatch& batch) {
  BsonArray ids;
  std::size_t index = 0;
  for (const Bson& each : batch.ids) {
    bson_iter_t at;
    if (each.view().find("_id", &at)) ids.items.add(std::to_string(index++).c_str(), &at);
  }
  const std::string database = ns.substr(0, ns.find('.'));
  const Bson filter = Bson("_id", Bson("$in", ids));
  const Bson options = Bson("maxTimeMS", kCommandLimit);
  const Collection collection(mongoc_client_get_collection(production.client(), database.c_str(),
                                                           ns.substr(database.size() + 1).c_str()));
  const Cursor cursor(
      mongoc_collection_find_with_opts(collection.get(), filter.get(), options.get(), nullptr));
  std::map<std::string, Bson> found;
  Result<void> read = each(cursor, "find in " + ns, [&](Document document) -> Result<void> {
    found.insert_or_assign(bytes_text(id_alone(document).view()), Bson::copy_of(document));
    return {};
  });
  if (!read) return std::unexpected(std::move(read.error()));
  return found;
}

// Runs one command, because documents may be large. Empty: done; otherwise why the copy refuses it.
Result<std::string> put_document(Server& production, const std::string& copy, const Bson& id,
                                 const Bson* document) {
  const std::string database = copy.substr(0, copy.find('.'));
  const std::string collection = copy.substr(database.size() + 1);
  Bson command = document != nullptr
                     ? Bson("update", collection, "updates",
                            array(Bson("q", id, "u", *document, "upsert", true)),
                            "bypassDocumentValidation", true)
                     : Bson("delete", collection, "deletes", array(Bson("q", id, "limit", 1)));
  command.add("maxTimeMS", kCommandLimit);
  const Result<Bson> reply = production.command(database.c_str(), command.get());
  if (!reply) return std::unexpected(reply.error());
  std::string why;
  reply->view().each("writeErrors", [&](const Document& error) { why = text_of(error, "errmsg"); });
  return why;
}

Result<void> merge_batch(Server& production, const PromoteState& state, const PromoteItem& item,
                         const NotedBatch& batch, MergeCounts& counts) {
  const Result<std::map<std::string, Bson>> now = documents_of(production, item.ns, batch);
  if (!now) return std::unexpected(now.error());
  const std::string copy = state.copy_name(item);
  // If the collection was dropped, the mistake removed every restored document.
  std::map<std::string, Bson> restored;
  if (batch.dropped) {
    Result<std::map<std::string, Bson>> there = documents_of(production, copy, batch);
    if (!there) return std::unexpected(std::move(there.error()));
    restored = *std::move(there);
  }
  for (const Bson& id : batch.ids) {
    const std::string key = bytes_text(id.view());
    if (restored.contains(key)) continue;
    const auto document = now->find(key);
    const Result<std::string> why =
        put_document(production, copy, id, document == now->end() ? nullptr : &document->second);
    if (!why) return std::unexpected(why.error());
    if (why->empty()) {
      ++counts.documents;
    } else {
      counts.refused.push_back(item.ns + ", " + to_relaxed_json(id.view()) + ": " + *why);
    }
  }
  return {};
}

}  // namespace

Result<void> note_later(Server& production, const PromoteState& state, const LaterWrites& later) {
  const std::string ns = std::string(kRecordDatabase) + "." + kLaterCollection;
  if (Result<void> dropped = drop_collection(production, ns); !dropped) return dropped;
  std::size_t number = 0;
  for (const PromoteItem& item : state.items) {
    const auto found = later.collections.find(item.ns);
    if (!item.is_replaced() || found == later.collections.end()) continue;
    NotedBatch batch{.ns = item.ns, .dropped = found->second.dropped};
    const auto put = [&]() -> Result<void> {
      if (batch.ids.empty()) return {};
      Result<void> done = put_batch(production, number++, batch);
      batch.ids.clear();
      return done;
    };
    for (const auto& [element, document] : found->second.documents) {
      if (document.mistaken) continue;
      batch.ids.push_back(only_id_of(element));
      if (batch.ids.size() < kIdsAtOnce) continue;
      if (Result<void> done = put(); !done) return done;
    }
    if (Result<void> done = put(); !done) return done;
  }
  return {};
}

Result<MergeCounts> merge_later(Server& production, const PromoteState& state,
                                const TakeProgress& progress) {
  MergeCounts counts;
  const Collection later(
      mongoc_client_get_collection(production.client(), kRecordDatabase, kLaterCollection));
  const Bson all;
  const Bson order = Bson("sort", Bson("_id", 1));
  const Cursor cursor(
      mongoc_collection_find_with_opts(later.get(), all.get(), order.get(), nullptr));
  std::uint64_t done = 0;
  Result<void> read = each(
      cursor, std::string("find in ") + kRecordDatabase + "." + kLaterCollection,
      [&](Document document) -> Result<void> {
        NotedBatch batch{.ns = text_of(document, "ns"),
                         .dropped = document.boolean("dropped").value_or(false)};
        document.each("ids", [&](const Document& id) { batch.ids.push_back(Bson::copy_of(id)); });
        const auto item = std::ranges::find(state.items, batch.ns, &PromoteItem::ns);
        if (item == state.items.end()) return {};
        Result<void> merged = merge_batch(production, state, *item, batch, counts);
        done += batch.ids.size();
        return merged && progress ? progress(done) : merged;
      });
  if (!read) return std::unexpected(std::move(read.error()));
  return counts;
}

}  // namespace idmint::restore
