#include "restore/promote/merge.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/errors.h"
#include "restore/cursor.h"
#include "restore/oplog/fields.h"
#include "restore/promote/collection_at.h"
#include "restore/replay/apply_ops.h"
#include "restore/replay/record.h"
#include "restore/replay/zero_timestamps.h"

namespace idmint::restore {
namespace {

constexpr const char* kLaterCollection = "later";
constexpr std::size_t kIdsAtOnce = 500;

// Documents of one collection that are treated alike.
struct NotedBatch {
  std::string ns{};
  std::string from{};       // the collection that has their versions; empty: the spare's are kept
  std::string uuid{};       // of `from`
  bool gone = false;        // deleted there
  std::vector<Bson> ids{};  // {_id: ID}
};

Result<void> put_batch(Server& production, std::size_t number, const NotedBatch& batch) {
  BsonArray ids;
  std::size_t index = 0;
  for (const Bson& each : batch.ids) ids.items.add(std::to_string(index++).c_str(), each);
  Bson command = Bson("update", kLaterCollection, "updates",
                      array(Bson("q", Bson("_id", static_cast<std::int64_t>(number)), "u",
                                 Bson("ns", batch.ns, "from", batch.from, "uuid", batch.uuid,
                                      "gone", batch.gone, "ids", ids),
                                 "upsert", true)));
  const Result<Bson> put = change(production, kRecordDatabase, std::move(command));
  if (!put) return std::unexpected(put.error());
  return {};
}

NotedBatch batch_in(Document document) {
  NotedBatch batch{.ns = text_of(document, "ns"),
                   .from = text_of(document, "from"),
                   .uuid = text_of(document, "uuid"),
                   .gone = document.boolean("gone").value_or(false)};
  document.each("ids", [&](const Document& id) { batch.ids.push_back(Bson::copy_of(id)); });
  return batch;
}

// A command would set a zero timestamp to the present time. Empty: done; otherwise why not.
Result<std::string> put_as_it_is(Server& production, const std::string& copy,
                                 const Bson& document) {
  Operations operations;
  operations.append("i", copy, document.view(), {});
  const Answer answer = apply_one_by_one(production, operations);
  if (answer.unavailable) return std::unexpected(lost(production, answer));
  return answer.ok ? std::string() : answer.message;
}

// Runs one command, because documents may be large. Empty: done; otherwise why the copy refuses it.
Result<std::string> put_document(Server& production, const std::string& copy, const Bson& id,
                                 const Bson* document) {
  const std::string database = copy.substr(0, copy.find('.'));
  const std::string collection = copy.substr(database.size() + 1);
  const bool as_it_is = document != nullptr && has_zero_timestamp(document->view());
  Bson command = document != nullptr && !as_it_is
                     ? Bson("update", collection, "updates",
                            array(Bson("q", id, "u", *document, "upsert", true)),
                            "bypassDocumentValidation", true)
                     : Bson("delete", collection, "deletes", array(Bson("q", id, "limit", 1)));
  command.add("maxTimeMS", kCommandLimit);
  const Result<Bson> reply = production.command(database.c_str(), command.get());
  if (!reply) return std::unexpected(reply.error());
  std::string why;
  reply->view().each("writeErrors", [&](const Document& error) { why = text_of(error, "errmsg"); });
  return as_it_is && why.empty() ? put_as_it_is(production, copy, *document) : why;
}

Result<void> merge_batch(Server& production, const std::string& copy, const NotedBatch& batch,
                         MergeCounts& counts) {
  const Result<std::optional<CollectionFacts>> there = find_collection(production, batch.from);
  if (!there) return std::unexpected(there.error());
  if (const std::optional<CollectionFacts>& found = *there; !found || found->uuid != batch.uuid)
    return fail(Code::kFailedPrecondition,
                batch.from + ", which has later writes, was dropped or renamed on " +
                    production.shown_uri() +
                    " meanwhile: --undo lets the writers in; then promote again");
  const Result<std::map<std::string, Bson>> now = documents_of(production, batch.from, batch.ids);
  if (!now) return std::unexpected(now.error());
  for (const Bson& id : batch.ids) {
    const auto document = now->find(bytes_of_id(id.view()));
    // A transaction that was given up has inserted nothing.
    if (document == now->end() && !batch.gone) continue;
    const Result<std::string> why =
        put_document(production, copy, id, document == now->end() ? nullptr : &document->second);
    if (!why) return std::unexpected(why.error());
    if (why->empty()) {
      ++counts.documents;
    } else {
      counts.refused.push_back(batch.ns + ", " + to_relaxed_json(id.view()) + ": " + *why);
    }
  }
  return {};
}

// Reads the notes, in order.
Result<void> each_batch(Server& production,
                        const std::function<Result<void>(const NotedBatch&)>& take) {
  const Collection later(
      mongoc_client_get_collection(production.client(), kRecordDatabase, kLaterCollection));
  const Bson all;
  const Bson order = Bson("sort", Bson("_id", 1));
  const Cursor cursor(
      mongoc_collection_find_with_opts(later.get(), all.get(), order.get(), nullptr));
  return each(cursor, std::string("find in ") + kRecordDatabase + "." + kLaterCollection,
              [&](Document document) { return take(batch_in(document)); });
}

}  // namespace

Result<void> note_later(Server& production, const PromoteState& state, const LaterWrites& later) {
  const std::string ns = std::string(kRecordDatabase) + "." + kLaterCollection;
  if (Result<void> dropped = drop_collection(production, ns); !dropped) return dropped;
  std::size_t number = 0;
  for (const PromoteItem& item : state.items) {
    const auto found = later.collections.find(item.ns);
    if (!item.is_replaced() || found == later.collections.end()) continue;
    std::map<std::pair<std::uint8_t, bool>, NotedBatch> batches;
    for (const auto& [element, document] : found->second.documents) {
      NotedBatch& batch = batches[{document.from, document.gone}];
      if (batch.ns.empty()) {
        batch.ns = item.ns;
        batch.gone = document.gone;
        if (document.from != kFromSpare) {
          const Holder& holder = found->second.holders[document.from];
          batch.from = holder.now;
          batch.uuid = holder.uuid;
        }
      }
      batch.ids.push_back(only_id_of(element));
      if (batch.ids.size() < kIdsAtOnce) continue;
      if (Result<void> done = put_batch(production, number++, batch); !done) return done;
      batch.ids.clear();
    }
    for (const auto& [how, batch] : batches) {
      if (batch.ids.empty()) continue;
      if (Result<void> done = put_batch(production, number++, batch); !done) return done;
    }
  }
  return {};
}

Result<MergeCounts> merge_later(Server& production, const PromoteState& state,
                                const TakeProgress& progress) {
  MergeCounts counts;
  std::uint64_t done = 0;
  Result<void> read = each_batch(production, [&](const NotedBatch& batch) -> Result<void> {
    const auto item = std::ranges::find(state.items, batch.ns, &PromoteItem::ns);
    if (item == state.items.end() || batch.from.empty()) return {};
    Result<void> merged = merge_batch(production, state.copy_name(*item), batch, counts);
    done += batch.ids.size();
    return merged && progress ? progress(done) : merged;
  });
  if (!read) return std::unexpected(std::move(read.error()));
  return counts;
}

Result<std::uint64_t> merge_deletes(Server& production, const PromoteState& state,
                                    const std::string& oplog) {
  std::map<std::string, std::set<std::string, std::less<>>> deleted;  // by namespace: elements _id
  Result<void> read = each_delete_since(
      oplog, state.noted, [&](std::string_view id, const std::string& uuid) -> Result<void> {
        const auto item = std::ranges::find(state.items, uuid, &PromoteItem::old_uuid);
        if (item != state.items.end() && item->is_replaced()) deleted[item->ns].emplace(id);
        return {};
      });
  if (!read) return std::unexpected(std::move(read.error()));
  read = each_batch(production, [&](const NotedBatch& batch) -> Result<void> {
    const auto of = deleted.find(batch.ns);
    if (of == deleted.end() || !batch.from.empty()) return {};
    for (const Bson& id : batch.ids)
      if (const std::optional<Field> field = find_field(id.view(), "_id"))
        of->second.erase(std::string(reinterpret_cast<const char*>(field->element().data()),
                                     field->element().size()));
    return {};
  });
  if (!read) return std::unexpected(std::move(read.error()));
  std::uint64_t count = 0;
  for (const auto& [ns, ids] : deleted) {
    for (const std::string& element : ids) {
      const Result<std::string> why = put_document(production, ns, only_id_of(element), nullptr);
      if (!why) return std::unexpected(why.error());
      if (why->empty()) ++count;
    }
  }
  return count;
}

}  // namespace idmint::restore
