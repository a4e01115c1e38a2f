#include "restore/promote/merge.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/errors.h"
#include "restore/cursor.h"
#include "restore/namespaces.h"
#include "restore/oplog/fields.h"
#include "restore/promote/collection_at.h"
#include "restore/replay/apply_ops.h"
#include "restore/replay/record.h"
#include "restore/replay/zero_timestamps.h"

namespace idmint::restore {
namespace {

constexpr const char* kLaterCollection = "later";
constexpr const char* kPlannedCollection = "planned";
constexpr std::size_t kIdsAtOnce = 500;
constexpr std::size_t kBytesOfInsert = std::size_t{8} << 20;
constexpr std::size_t kMostUnmerged = 1000;  // that a record lists

Result<void> put_note(Server& production, const char* collection, const Bson& id,
                      const Bson& note) {
  const Bson update = Bson("q", id, "u", note, "upsert", true);
  return only_error(
      change(production, kRecordDatabase, Bson("update", collection, "updates", array(update))));
}

Result<void> put_batch(Server& production, std::size_t number, const MergeBatch& batch) {
  return put_note(production, kLaterCollection, Bson("_id", static_cast<std::int64_t>(number)),
                  Bson("ns", batch.ns, "from", batch.from, "uuid", batch.uuid, "gone", batch.gone,
                       "ids", array_of(batch.ids)));
}

MergeBatch batch_in(Document document) {
  MergeBatch batch{.ns = text_of(document, "ns"),
                   .from = text_of(document, "from"),
                   .uuid = text_of(document, "uuid"),
                   .gone = document.boolean("gone").value_or(false)};
  document.each("ids", [&](const Document& id) { batch.ids.push_back(Bson::copy_of(id)); });
  return batch;
}

// Inserts in batches. Returns for each document an empty text, or why it is refused.
Result<std::vector<std::string>> insert_all(Server& into, const std::string& copy,
                                            const std::vector<const Bson*>& documents) {
  std::vector<std::string> whys(documents.size());
  BsonArray list;
  std::size_t bytes = 0;
  std::vector<std::size_t> listed;
  const auto send = [&]() -> Result<void> {
    if (listed.empty()) return {};
    const Result<Bson> reply = into.command(
        database_of(copy),
        with_concern(Bson("insert", collection_of(copy), "documents", list, "ordered", false,
                          "bypassDocumentValidation", true, "maxTimeMS", kCommandLimit),
                     into));
    if (!reply) return error_in(reply);
    if (reply->view().has("writeConcernError") || failed_in_passing(reply->view()))
      return fail(Code::kUnavailable,
                  "insert into " + copy + ": " + to_relaxed_json(reply->view()));
    reply->view().each("writeErrors", [&](const Document& error) {
      const auto index = static_cast<std::size_t>(error.number("index"));
      if (index < listed.size()) whys[listed[index]] = text_of(error, "errmsg");
    });
    list = {};
    bytes = 0;
    listed.clear();
    return {};
  };
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const Document document = documents[i]->view();
    if (has_zero_timestamp(document)) {
      if (Result<void> sent = send(); !sent) return error_in(sent);
      Result<std::string> why = insert_as_it_is(into, copy, *documents[i]);
      if (!why) return error_in(why);
      whys[i] = *std::move(why);
      continue;
    }
    const std::size_t size = document.bytes().size();
    if (bytes + size > kBytesOfInsert)
      if (Result<void> sent = send(); !sent) return error_in(sent);
    list.push(*documents[i]);
    bytes += size;
    listed.push_back(i);
  }
  if (Result<void> sent = send(); !sent) return error_in(sent);
  return whys;
}

// Returns how many there were.
Result<std::uint64_t> delete_all(Server& into, const std::string& copy,
                                 const std::vector<Bson>& ids) {
  std::uint64_t count = 0;
  for (std::size_t begin = 0; begin < ids.size(); begin += kIdsAtOnce) {
    BsonArray statements;
    for (std::size_t i = begin; i < std::min(begin + kIdsAtOnce, ids.size()); ++i)
      statements.push(Bson("q", ids[i], "limit", 1));
    const Result<Bson> reply = change(
        into, database_of(copy),
        Bson("delete", collection_of(copy), "deletes", statements, "maxTimeMS", kCommandLimit));
    if (!reply) return error_in(reply);
    count += static_cast<std::uint64_t>(std::max<std::int64_t>(reply->view().number("n"), 0));
  }
  return count;
}

Result<void> check_from(Server& production, const MergeBatch& batch) {
  const Result<std::string> uuid = uuid_of(production, batch.from);
  if (!uuid) return error_in(uuid);
  if (!batch.uuid.empty() && *uuid == batch.uuid) return {};
  return must_be_undone(Code::kFailedPrecondition,
                        batch.from + ", which has later writes, was dropped or renamed on " +
                            production.shown_uri() + " meanwhile");
}

// Reads the notes, in order.
Result<void> each_note(Server& production, const char* collection, const Bson& filter,
                       const std::function<Result<void>(Document)>& take) {
  return find_each(production, std::string(kRecordDatabase) + "." + collection, filter,
                   Bson("sort", Bson("_id", 1)), take);
}
Result<void> each_batch(Server& production, const std::function<Result<void>(MergeBatch)>& take) {
  return each_note(production, kLaterCollection, {},
                   [&](Document document) { return take(batch_in(document)); });
}

// Puts the spare's documents back where the later versions are refused.
Result<void> put_back(Server& into, const std::string& copy, Server& spare,
                      const std::vector<MergeBatch>& batches, std::vector<MergeRefusal>& refused) {
  for (std::size_t begin = 0; begin < refused.size(); begin += kIdsAtOnce) {
    const std::span some =
        std::span(refused).subspan(begin, std::min(kIdsAtOnce, refused.size() - begin));
    std::vector<Bson> ids;
    for (const MergeRefusal& each : some) ids.push_back(each.id.copy());
    const Result<std::map<std::string, Bson>> restored =
        documents_of(spare, batches.front().ns, ids);
    if (!restored) return error_in(restored);
    std::vector<const Bson*> documents;
    std::vector<MergeRefusal*> of;
    for (MergeRefusal& each : some) {
      const auto document = restored->find(id_key(each.id.view()));
      if (document == restored->end()) continue;
      documents.push_back(&document->second);
      of.push_back(&each);
    }
    const Result<std::vector<std::string>> whys = insert_all(into, copy, documents);
    if (!whys) return error_in(whys);
    for (std::size_t i = 0; i < whys->size(); ++i)
      if (!(*whys)[i].empty()) of[i]->why += "; and the restored document: " + (*whys)[i];
  }
  return {};
}

}  // namespace

std::vector<MergeBatch> batches_of(const std::string& ns, const LaterCollection& collection) {
  std::vector<MergeBatch> full;
  std::map<std::pair<std::uint8_t, bool>, MergeBatch> open;
  for (const auto& [element, document] : collection.documents) {
    MergeBatch& batch = open[{document.from, document.gone}];
    if (batch.ns.empty()) {
      batch.ns = ns;
      batch.gone = document.gone;
      if (document.from != kFromSpare) {
        const Holder& holder = collection.holders[document.from];
        batch.from = holder.now;
        batch.uuid = holder.uuid;
      }
    }
    batch.ids.push_back(only_id_of(element));
    if (batch.ids.size() == kIdsAtOnce) full.push_back(std::exchange(batch, {}));
  }
  for (auto& [how, batch] : open)
    if (!batch.ids.empty()) full.push_back(std::move(batch));
  return full;
}

Result<Merged> merge_into(Server& into, const std::string& copy,
                          const std::vector<MergeBatch>& batches, Server& spare, Server& production,
                          const TakeProgress& progress) {
  Merged merged;
  std::uint64_t done = 0;
  for (const MergeBatch& batch : batches) {
    if (batch.from.empty()) continue;
    if (Result<void> good = check_from(production, batch); !good) return error_in(good);
    const Result<std::uint64_t> deleted = delete_all(into, copy, batch.ids);
    if (!deleted) return error_in(deleted);
  }
  for (const MergeBatch& batch : batches) {
    if (batch.from.empty()) continue;
    const Result<std::map<std::string, Bson>> now = documents_of(production, batch.from, batch.ids);
    if (!now) return error_in(now);
    std::vector<const Bson*> documents;
    std::vector<const Bson*> ids;
    for (const Bson& id : batch.ids) {
      const auto document = now->find(id_key(id.view()));
      // A transaction that was given up has inserted nothing.
      if (document == now->end()) {
        if (batch.gone) ++merged.documents;
        continue;
      }
      documents.push_back(&document->second);
      ids.push_back(&id);
    }
    Result<std::vector<std::string>> whys = insert_all(into, copy, documents);
    if (!whys) return error_in(whys);
    for (std::size_t i = 0; i < whys->size(); ++i) {
      if ((*whys)[i].empty()) {
        ++merged.documents;
      } else {
        merged.refused.push_back({ids[i]->copy(), std::move((*whys)[i])});
      }
    }
    done += batch.ids.size();
    if (Result<void> told = progress ? progress(done) : Result<void>{}; !told)
      return error_in(told);
  }
  if (Result<void> back = put_back(into, copy, spare, batches, merged.refused); !back)
    return error_in(back);
  return merged;
}

Result<void> note_planned(Server& production, const std::string& id, const LaterWrites& later) {
  std::int64_t number = 0;
  const auto put = [&](const std::string& ns, Loss loss, const std::vector<Bson>& ids) {
    const Bson key = Bson("_id", Bson("promotion", id, "number", number++));
    Bson note = key.copy();
    note.append("ns", ns, "why", in_words(loss), "ids", array_of(ids));
    return put_note(production, kPlannedCollection, key, note);
  };
  for (const auto& [ns, collection] : later.collections) {
    std::map<Loss, std::vector<Bson>> open;
    for (const auto& [element, document] : collection.documents) {
      if (document.loss == Loss::kNone) continue;
      std::vector<Bson>& ids = open[document.loss];
      ids.push_back(only_id_of(element));
      if (ids.size() < kIdsAtOnce) continue;
      if (Result<void> done = put(ns, document.loss, ids); !done) return done;
      ids.clear();
    }
    for (const auto& [loss, ids] : open) {
      if (ids.empty()) continue;
      if (Result<void> done = put(ns, loss, ids); !done) return done;
    }
  }
  return {};
}

Result<PlannedLosses> planned_losses(Server& production, const std::string& id) {
  PlannedLosses losses;
  Result<void> read = each_note(production, kPlannedCollection, Bson("_id.promotion", id),
                                [&](Document note) -> Result<void> {
                                  auto& documents = losses[text_of(note, "ns")];
                                  note.each("ids", [&](const Document& each) {
                                    documents.emplace(id_key(each), text_of(note, "why"));
                                  });
                                  return {};
                                });
  if (!read) return error_in(read);
  return losses;
}

Result<void> note_later(Server& production, const PromoteState& state, const LaterWrites& later) {
  const std::string ns = std::string(kRecordDatabase) + "." + kLaterCollection;
  if (Result<void> dropped = drop_collection(production, ns); !dropped) return dropped;
  std::size_t number = 0;
  for (const PromoteItem& item : state.items) {
    const auto found = later.collections.find(item.ns);
    if (!item.is_replaced() || found == later.collections.end()) continue;
    for (const MergeBatch& batch : batches_of(item.ns, found->second))
      if (Result<void> done = put_batch(production, number++, batch); !done) return done;
  }
  return {};
}

Result<std::uint64_t> merge_later(Server& spare, Server& production, PromoteState& state,
                                  const TakeProgress& progress) {
  std::map<std::string, std::vector<MergeBatch>> batches;  // by namespace
  Result<void> read = each_batch(production, [&](MergeBatch batch) -> Result<void> {
    batches[batch.ns].push_back(std::move(batch));
    return {};
  });
  if (!read) return error_in(read);
  std::uint64_t documents = 0;
  ListRoom room;
  for (PromoteItem& item : state.items) {
    const auto found = batches.find(item.ns);
    if (found == batches.end()) continue;
    const Result<Merged> merged =
        merge_into(production, state.copy_name(item), found->second, spare, production, progress);
    if (!merged) return error_in(merged);
    documents += merged->documents;
    item.unmerged.clear();
    item.unmerged_count = merged->refused.size();
    for (const MergeRefusal& each : merged->refused) {
      LostDocument lost{
          .id = id_key(each.id.view()), .why = each.why, .in = {state.old_name(item)}};
      if (item.unmerged.size() == kMostUnmerged || !room.take(lost)) break;
      item.unmerged.push_back(std::move(lost));
    }
  }
  return documents;
}

Result<MergedDeletes> merge_deletes(Server& production, PromoteState& state,
                                    const std::string& oplog) {
  for (PromoteItem& item : state.items) {
    item.undeleted.clear();
    item.lists_undeleted = false;
  }
  std::map<std::string, std::set<std::string, std::less<>>> deleted;  // keys of _ids, by namespace
  Result<void> read = each_delete_since(
      oplog, state.noted, [&](std::string_view id, const std::string& uuid) -> Result<void> {
        const auto item = std::ranges::find(state.items, uuid, &PromoteItem::old_uuid);
        if (item != state.items.end() && item->is_replaced()) deleted[item->ns].emplace(id);
        return {};
      });
  if (!read) return error_in(read);
  MergedDeletes counts;
  read = each_batch(production, [&](const MergeBatch& batch) -> Result<void> {
    const auto of = deleted.find(batch.ns);
    if (of == deleted.end() || !batch.from.empty()) return {};
    PromoteItem& item = *std::ranges::find(state.items, batch.ns, &PromoteItem::ns);
    for (const Bson& id : batch.ids) {
      const std::string key = id_key(id.view());
      if (of->second.erase(key) == 0) continue;
      if (++counts.left; item.undeleted.size() < kMostUnmerged) item.undeleted.push_back(key);
    }
    return {};
  });
  if (!read) return error_in(read);
  for (PromoteItem& item : state.items)
    item.lists_undeleted = item.undeleted.size() < kMostUnmerged;
  for (const auto& [ns, keys] : deleted) {
    std::vector<Bson> ids;
    for (const std::string& key : keys) ids.push_back(only_id_of(key));
    const Result<std::uint64_t> done = delete_all(production, ns, ids);
    if (!done) return error_in(done);
    counts.done += *done;
  }
  return counts;
}

}  // namespace idmint::restore
