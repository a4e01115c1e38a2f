#include "restore/promote/record.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/errors.h"
#include "restore/oplog/fields.h"
#include "restore/promote/collection_at.h"
#include "restore/promote/later.h"
#include "restore/replay/apply_ops.h"
#include "restore/replay/record.h"

namespace idmint::restore {
namespace {

constexpr const char* kPromoteCollection = "promote";
constexpr std::array<std::string_view, 8> kPromoteSteps = {"block", "fence", "load", "verify",
                                                           "merge", "swap",  "open", "opened"};

// Each {_id: value}.
BsonArray ids_of(const std::vector<std::string>& keys) {
  BsonArray ids;
  std::size_t index = 0;
  for (const std::string& each : keys)
    ids.items.add(std::to_string(index++).c_str(), only_id_of(each));
  return ids;
}

BsonArray texts_of(const std::vector<std::string>& texts) {
  BsonArray array;
  std::size_t index = 0;
  for (const std::string& each : texts)
    array.items.add(std::to_string(index++).c_str(), std::string_view(each));
  return array;
}

BsonArray lost_of(const std::vector<LostDocument>& documents) {
  BsonArray array;
  std::size_t index = 0;
  for (const LostDocument& each : documents)
    array.items.add(std::to_string(index++).c_str(),
                    Bson("id", only_id_of(each.id), "why", each.why, "in", texts_of(each.in)));
  return array;
}

std::vector<LostDocument> lost_in(Document document, const char* field) {
  std::vector<LostDocument> documents;
  document.each(field, [&](const Document& each) {
    LostDocument& lost = documents.emplace_back(
        LostDocument{.id = id_key(each.document("id")), .why = text_of(each, "why")});
    each.each_text("in", [&](std::string_view ns) { lost.in.emplace_back(ns); });
  });
  return documents;
}

Bson bson_of(const PromoteItem& item) {
  Bson document = Bson("ns", item.ns, "in_place", item.in_place, "view", item.view, "missing",
                       item.missing, "old_uuid", item.old_uuid, "new_uuid", item.new_uuid,
                       "unmerged_count", static_cast<std::int64_t>(item.unmerged_count), "unlisted",
                       static_cast<std::int64_t>(item.unlisted_count));
  document.add("unlisted_documents", lost_of(item.unlisted));
  document.add("unmerged", lost_of(item.unmerged));
  document.add("undeleted", ids_of(item.undeleted));
  document.add("lists_undeleted", item.lists_undeleted);
  if (item.old_options) document.add("old_options", item.old_options);
  if (item.final_options) document.add("final_options", item.final_options);
  return document;
}

Bson bson_of(const PromoteState& state, const std::string& owner) {
  Bson document =
      Bson("_id", "promote", "owner", owner, "id", state.id, "fingerprint", state.fingerprint,
           "from", state.from, "limit", BsonTimestamp{state.limit.seconds, state.limit.ordinal},
           "noted", BsonTimestamp{state.noted.seconds, state.noted.ordinal}, "alike", state.alike,
           "merge_later", state.merge_later, "leave_gap", state.leave_gap, "step",
           kPromoteSteps.at(static_cast<std::size_t>(state.step)), "undoing", state.undoing,
           "finishing", state.finishing, "was_opened", state.was_opened);
  if (state.mistake_to)
    document.add("mistake_to", BsonTimestamp{state.mistake_to->seconds, state.mistake_to->ordinal});
  document.add("databases", texts_of(state.databases))
      .add("put_back", texts_of(state.put_back))
      .add("counters", texts_of(state.counters));
  BsonArray items;
  std::size_t index = 0;
  for (const PromoteItem& item : state.items)
    items.items.add(std::to_string(index++).c_str(), bson_of(item));
  document.add("items", items);
  return document;
}

std::uint64_t count_in(Document document, const char* field) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(document.number(field), 0));
}

Bson document_in(Document document, const char* field) {
  const Document found = document.document(field);
  return found ? Bson::copy_of(found) : Bson::none();
}

std::string where_it_is(const Server& production) {
  return std::string(kRecordDatabase) + "." + kPromoteCollection + " on " + production.shown_uri();
}

std::unexpected<Error> damaged_record(const Server& production) {
  return fail(Code::kDataLoss,
              where_it_is(production) + " is damaged: what it says must be undone by hand");
}

// The error in the reply to an update. nullopt: it changed the document.
std::optional<Error> trouble_in(const Bson& reply, const Server& production) {
  if (reply.view().has("writeErrors") || reply.view().has("writeConcernError"))
    return Error{Code::kUnavailable,
                 where_it_is(production) + ": " + to_relaxed_json(reply.view())};
  return std::nullopt;
}

}  // namespace

std::optional<PromoteState> promote_state_of(Document document) {
  const auto* const step = std::ranges::find(kPromoteSteps, text_of(document, "step"));
  const std::optional<Timestamp> limit = timestamp_in(document, "limit");
  PromoteState state{.id = text_of(document, "id"),
                     .fingerprint = text_of(document, "fingerprint"),
                     .from = text_of(document, "from"),
                     .limit = limit.value_or(Timestamp{}),
                     .mistake_to = timestamp_in(document, "mistake_to"),
                     .alike = document.boolean("alike").value_or(false),
                     .merge_later = document.boolean("merge_later").value_or(false),
                     .leave_gap = document.boolean("leave_gap").value_or(false),
                     .noted = timestamp_in(document, "noted").value_or(Timestamp{}),
                     .undoing = document.boolean("undoing").value_or(false),
                     .finishing = document.boolean("finishing").value_or(false),
                     .was_opened = document.boolean("was_opened").value_or(false)};
  if (step == kPromoteSteps.end() || !limit || state.id.empty() || !document.is_array("items"))
    return std::nullopt;
  state.step = static_cast<PromoteStep>(step - kPromoteSteps.begin());
  document.each_text("databases",
                     [&](std::string_view each) { state.databases.emplace_back(each); });
  document.each_text("put_back", [&](std::string_view each) { state.put_back.emplace_back(each); });
  document.each_text("counters", [&](std::string_view each) { state.counters.emplace_back(each); });
  document.each("items", [&](const Document& each) {
    state.items.push_back({.ns = text_of(each, "ns"),
                           .in_place = each.boolean("in_place").value_or(false),
                           .view = each.boolean("view").value_or(false),
                           .missing = each.boolean("missing").value_or(false),
                           .old_uuid = text_of(each, "old_uuid"),
                           .old_options = document_in(each, "old_options"),
                           .final_options = document_in(each, "final_options"),
                           .new_uuid = text_of(each, "new_uuid"),
                           .unmerged_count = count_in(each, "unmerged_count"),
                           .lists_undeleted = each.boolean("lists_undeleted").value_or(false),
                           .unlisted_count = count_in(each, "unlisted")});
    PromoteItem& item = state.items.back();
    item.unmerged = lost_in(each, "unmerged");
    item.unlisted = lost_in(each, "unlisted_documents");
    each.each("undeleted", [&](const Document& id) { item.undeleted.push_back(id_key(id)); });
  });
  return state;
}

bool ListRoom::take(const LostDocument& lost) {
  std::size_t size = 100 + lost.id.size() + lost.why.size();  // with the names of the fields
  for (const std::string& each : lost.in) size += 10 + each.size();
  if (size > bytes_) bytes_ = 0;
  bytes_ -= std::min(size, bytes_);
  return bytes_ != 0;
}

std::string_view name(PromoteStep step) { return kPromoteSteps[static_cast<std::size_t>(step)]; }

std::string PromoteState::old_name(const PromoteItem& item) const {
  return item.ns + std::string(kOldSuffix) + id;
}
std::string PromoteState::copy_name(const PromoteItem& item) const {
  return item.ns + std::string(kCopySuffix) + id;
}
std::string PromoteState::promoted_name(const PromoteItem& item) const {
  return item.ns + std::string(kPromotedSuffix) + id;
}

Result<std::optional<PromoteState>> PromoteRecord::look(Server& production) {
  const Bson find = Bson("find", kPromoteCollection, "filter", Bson("_id", "promote"), "limit", 1,
                         "maxTimeMS", 60'000);
  const Result<Bson> reply = production.command(kRecordDatabase, find.get());
  if (!reply) return error_in(reply);
  bool there = false;
  std::optional<PromoteState> state;
  reply->view().each_found([&](const Document& found) {
    there = true;
    state = promote_state_of(found);
  });
  if (there && !state) return damaged_record(production);
  return state;
}

Result<PromoteRecord> PromoteRecord::begin(Server& production, PromoteState state) {
  PromoteRecord record(production, std::move(state), unique_text());
  const Bson command =
      Bson("insert", kPromoteCollection, "documents", array(bson_of(record.state_, record.owner_)));
  append_concern(command.get(), production, true);
  const Answer answer = ask(production, kRecordDatabase, command.get());
  if (answer.unavailable) return std::unexpected(lost(production, answer));
  if (!answer.ok)
    return fail(code_of(answer), "insert into " + where_it_is(production) + ": " + answer.message);
  // An insert reports a duplicate key in a reply that is ok.
  const Result<std::optional<PromoteState>> there = look(production);
  if (!there) return error_in(there);
  const std::optional<PromoteState>& found = *there;
  if (!found || found->id != record.state_.id)
    return fail(Code::kAlreadyExists, "a promotion is under way on " + production.shown_uri() +
                                          ": go on with it, --finish it or --undo it");
  return record;
}

Result<PromoteRecord> PromoteRecord::take_over(Server& production) {
  const std::string owner = unique_text();
  const Bson command = Bson("findAndModify", kPromoteCollection, "query", Bson("_id", "promote"),
                            "update", Bson("$set", Bson("owner", owner)), "new", true);
  append_concern(command.get(), production, true);
  const Result<Bson> reply = production.command(kRecordDatabase, command.get());
  if (!reply) return error_in(reply);
  const Document found = reply->view().document("value");
  if (!found)
    return fail(Code::kNotFound, "no promotion is under way on " + production.shown_uri());
  std::optional<PromoteState> state = promote_state_of(found);
  if (!state) return damaged_record(production);
  return PromoteRecord(production, *std::move(state), owner);
}

Result<void> PromoteRecord::write() {
  const Bson command = Bson("update", kPromoteCollection, "updates",
                            array(Bson("q", Bson("_id", "promote", "owner", owner_), "u",
                                       bson_of(state_, owner_), "upsert", false)));
  append_concern(command.get(), *production_, true);
  const Result<Bson> reply = production_->command(kRecordDatabase, command.get());
  if (!reply) return error_in(reply);
  if (std::optional<Error> trouble = trouble_in(*reply, *production_))
    return std::unexpected(*std::move(trouble));
  if (reply->view().number("n") == 1) return {};
  return fail(Code::kUnavailable, where_it_is(*production_) +
                                      " belongs to another run by now: where none is at work, "
                                      "the same command goes on");
}

Result<void> PromoteRecord::reach(PromoteStep step) {
  state_.step = step;
  return write();
}

Result<void> PromoteRecord::forget() { return Record::forget(*production_); }

}  // namespace idmint::restore
