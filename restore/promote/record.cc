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

Bson bson_of(const LostDocument& lost) {
  return Bson("id", only_id_of(lost.id), "why", lost.why, "in", array_of(lost.in));
}
BsonArray lost_of(const std::vector<LostDocument>& documents) {
  return array_of(documents, [](const LostDocument& each) { return bson_of(each); });
}

std::vector<std::string> texts_in(Document document, const char* field) {
  std::vector<std::string> texts;
  document.each_text(field, [&](std::string_view each) { texts.emplace_back(each); });
  return texts;
}

std::vector<LostDocument> lost_in(Document document, const char* field) {
  std::vector<LostDocument> documents;
  document.each(field, [&](const Document& each) {
    documents.push_back({.id = id_key(each.document("id")),
                         .why = text_of(each, "why"),
                         .in = texts_in(each, "in")});
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
  document.add("undeleted", array_of(item.undeleted, only_id_of));
  document.add("lists_undeleted", item.lists_undeleted);
  if (item.old_options) document.add("old_options", item.old_options);
  if (item.final_options) document.add("final_options", item.final_options);
  return document;
}

Bson bson_of(const PromoteState& state, const std::string& owner) {
  Bson document =
      Bson("_id", "promote", "owner", owner, "id", state.id, "fingerprint", state.fingerprint,
           "from", state.from, "limit", to_bson(state.limit), "noted", to_bson(state.noted),
           "alike", state.alike, "merge_later", state.merge_later, "leave_gap", state.leave_gap,
           "step", kPromoteSteps.at(static_cast<std::size_t>(state.step)), "undoing", state.undoing,
           "finishing", state.finishing, "was_opened", state.was_opened);
  if (state.mistake_to) document.add("mistake_to", to_bson(*state.mistake_to));
  document.append("databases", array_of(state.databases), "put_back", array_of(state.put_back),
                  "counters", array_of(state.counters), "items",
                  array_of(state.items, [](const PromoteItem& item) { return bson_of(item); }));
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
                     .counters = texts_in(document, "counters"),
                     .undoing = document.boolean("undoing").value_or(false),
                     .finishing = document.boolean("finishing").value_or(false),
                     .was_opened = document.boolean("was_opened").value_or(false),
                     .databases = texts_in(document, "databases"),
                     .put_back = texts_in(document, "put_back")};
  if (step == kPromoteSteps.end() || !limit || state.id.empty() || !document.is_array("items"))
    return std::nullopt;
  state.step = static_cast<PromoteStep>(step - kPromoteSteps.begin());
  document.each("items", [&](const Document& each) {
    state.items.push_back({.ns = text_of(each, "ns"),
                           .in_place = each.boolean("in_place").value_or(false),
                           .view = each.boolean("view").value_or(false),
                           .missing = each.boolean("missing").value_or(false),
                           .old_uuid = text_of(each, "old_uuid"),
                           .old_options = document_in(each, "old_options"),
                           .final_options = document_in(each, "final_options"),
                           .new_uuid = text_of(each, "new_uuid"),
                           .unmerged = lost_in(each, "unmerged"),
                           .unmerged_count = count_in(each, "unmerged_count"),
                           .lists_undeleted = each.boolean("lists_undeleted").value_or(false),
                           .unlisted = lost_in(each, "unlisted_documents"),
                           .unlisted_count = count_in(each, "unlisted")});
    PromoteItem& item = state.items.back();
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
  const Result<Bson> reply = production.command(
      kRecordDatabase, Bson("find", kPromoteCollection, "filter", Bson("_id", "promote"), "limit",
                            1, "maxTimeMS", 60'000));
  if (!reply) return error_in(reply);
  const Document found = reply->view().first_found();
  if (!found) return std::nullopt;
  std::optional<PromoteState> state = promote_state_of(found);
  if (!state) return damaged_record(production);
  return state;
}

Result<PromoteRecord> PromoteRecord::begin(Server& production, PromoteState state) {
  PromoteRecord record(production, std::move(state), unique_text());
  Bson command =
      Bson("insert", kPromoteCollection, "documents", array(bson_of(record.state_, record.owner_)));
  const Answer answer =
      ask(production, kRecordDatabase, with_concern(std::move(command), production));
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
  Bson command = Bson("findAndModify", kPromoteCollection, "query", Bson("_id", "promote"),
                      "update", Bson("$set", Bson("owner", owner)), "new", true);
  const Result<Bson> reply =
      production.command(kRecordDatabase, with_concern(std::move(command), production));
  if (!reply) return error_in(reply);
  const Document found = reply->view().document("value");
  if (!found)
    return fail(Code::kNotFound, "no promotion is under way on " + production.shown_uri());
  std::optional<PromoteState> state = promote_state_of(found);
  if (!state) return damaged_record(production);
  return PromoteRecord(production, *std::move(state), owner);
}

Result<void> PromoteRecord::write() {
  Bson command = Bson("update", kPromoteCollection, "updates",
                      array(Bson("q", Bson("_id", "promote", "owner", owner_), "u",
                                 bson_of(state_, owner_), "upsert", false)));
  const Result<Bson> reply =
      production_->command(kRecordDatabase, with_concern(std::move(command), *production_));
  if (!reply) return error_in(reply);
  if (reply->view().has("writeErrors") || reply->view().has("writeConcernError"))
    return fail(Code::kUnavailable,
                where_it_is(*production_) + ": " + to_relaxed_json(reply->view()));
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
