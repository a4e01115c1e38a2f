#include "restore/fence/documents.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/errors.h"
#include "mongo/bson.h"
#include "restore/namespaces.h"
#include "restore/oplog/operation_text.h"
#include "restore/replay/record.h"

namespace idmint::restore {
namespace {

constexpr int kRounds = 100;  // another program made progress in each of them

// Updates one document.
Result<std::int64_t> update_one(Server& server, const std::string& ns, const Bson& query,
                                const Bson& change, bool upsert) {
  Bson update = Bson("q", query, "u", change);
  if (upsert) update.add("upsert", true);
  // A promotion has put a validator there that stops all others.
  Bson command =
      Bson("update", collection_of(ns), "updates", array(update), "bypassDocumentValidation", true);
  const Result<Bson> reply =
      server.command(database_of(ns), with_concern(std::move(command), server));
  if (!reply) return error_in(reply);
  std::string wrong;
  reply->view().each("writeErrors",
                     [&](const Document& error) { wrong = text_of(error, "errmsg"); });
  if (!wrong.empty()) return fail(Code::kUnknown, ns + " refuses the write: " + wrong);
  if (const Document concern = reply->view().document("writeConcernError"))
    return fail(Code::kUnknown, "a write to " + ns + " is not acknowledged by a majority: " +
                                    text_of(concern, "errmsg"));
  return reply->view().number("n");
}

}  // namespace

std::string id_for_people(const std::string& id) {
  const Field value = field_of(Document::of(id), "_id");
  return value.type == BSON_TYPE_UTF8 ? std::string(value.text()) : print_value(value);
}

Result<void> raise_field(Server& server, const CountedField& field, std::int64_t to) {
  const Document id = Document::of(field.id);
  const std::string place = field.field + " of " + id_for_people(field.id) + " in " + field.ns;
  for (int round = 0; round < kRounds; ++round) {
    const Result<std::map<std::string, Bson>> found =
        find_documents(server, field.ns, std::span(&field.id, 1));
    if (!found) return error_in(found);
    if (found->empty()) return fail(Code::kNotFound, place + ": the document is gone");
    const Document document = found->begin()->second.view();
    const Field now = field_of(document, field.field);
    const std::optional<CountedNumber> number = counted_number(now);
    if (!number && now.type != 0)
      return fail(Code::kFailedPrecondition, place + " is " + std::string(type_text(now.type)) +
                                                 ", and no number that counts");
    if (number && number->value >= to) return {};
    const std::uint8_t type = number ? number->type : std::uint8_t{BSON_TYPE_INT64};
    const Result<Bson> set = field_with(field.field, type, to);
    if (!set) return error_in(set);
    // The query has the value that was read, because another program may have raised it since.
    Bson query;
    if (!query.add_from(id, "_id")) return fail(Code::kInternal, place + ": no _id");
    if (!query.add_from(document, field.field.c_str()))
      query.add(field.field.c_str(), Bson("$exists", false));
    const Result<std::int64_t> changed =
        update_one(server, field.ns, query, Bson("$set", *set), false);
    if (!changed) return error_in(changed);
    if (*changed == 1) return {};
  }
  return fail(Code::kUnavailable, place + " is changed by another program all the time: stop it");
}

struct DocumentFence::Planned {
  CountedField field{};
  std::string make{};  // the bytes of the missing document; empty: it exists
  FencedDocument row{};
};

// The facts known about a field's document.
struct DocumentFence::Known {
  const FieldHistory* history = nullptr;  // null: it is not in the oplog
  Document target{};
  Document live{};
  bool siblings = false;  // other documents of its collection are counters
};

DocumentFence::DocumentFence(DocumentFenceOptions options, Server& target, const ServerState& there,
                             Server* live, const ServerState* live_there,
                             const HandedOut& handed_out)
    : options_(std::move(options)),
      target_(target),
      there_(there),
      live_(live),
      live_there_(live_there),
      handed_out_(handed_out) {}

DocumentFence::~DocumentFence() = default;

bool DocumentFence::is_named(const CountedField& field) const {
  return std::ranges::any_of(options_.counters, [&](const CounterField& each) {
    return each.ns == field.ns && each.field == field.field;
  });
}

bool DocumentFence::is_adopted(const CountedField& field) const {
  const std::string database = database_of(field.ns);
  const std::string collection = collection_of(field.ns);
  const auto has_it = [&](const HandedOutStores& stores) {
    const auto store = stores.find(database);
    return store != stores.end() &&
           std::ranges::any_of(store->second.adopted, [&](const auto& each) {
             const AdoptedPlace& place = each.second;
             return place.collection == collection && place.field == field.field &&
                    place.id == field.id;
           });
  };
  return has_it(there_.stores) || has_it(handed_out_.stores) ||
         (live_there_ != nullptr && has_it(live_there_->stores));
}

// The fields in the oplog; and, on a live server, those in collections that the recipes use.
Result<std::vector<CountedField>> DocumentFence::candidates() {
  std::set<CountedField> all;
  for (const auto& [field, history] : handed_out_.fields) all.insert(field);
  if (live_ != nullptr) {
    std::map<std::string, std::set<std::string>> named;  // fields, by namespace
    for (const CounterField& each : options_.counters) named[each.ns].insert(each.field);
    for (const auto& [ns, uuid] : live_there_->collections) {
      const std::string collection = collection_of(ns);
      const auto fields = named.find(ns);
      if (fields == named.end() && !is_classic_collection(collection)) continue;
      constexpr std::int64_t kMost = 100'000;
      const Result<void> read =
          each_document(*live_, ns, kMost, [&](Document document) -> Result<void> {
            Bson id;
            if (!id.add_from(document, "_id")) return {};
            for (const Field& field : Fields(document)) {
              const bool wanted =
                  (fields != named.end() && fields->second.contains(std::string(field.key))) ||
                  !classic_recipe(collection, document, field.key).empty();
              if (wanted) all.insert({ns, std::string(field.key), std::string(id.view().raw())});
            }
            return {};
          });
      if (!read) return error_in(read);
    }
  }
  std::erase_if(all, [&](const CountedField& field) { return is_adopted(field); });
  return std::vector<CountedField>(all.begin(), all.end());
}

Result<std::vector<FencedDocument>> DocumentFence::plan() {
  planned_.clear();
  notes_.clear();
  const Result<std::vector<CountedField>> fields = candidates();
  if (!fields) return error_in(fields);
  for (auto at = fields->begin(); at != fields->end();) {
    // All documents with this field of this collection.
    const auto end = std::find_if(at, fields->end(), [&](const CountedField& each) {
      return each.ns != at->ns || each.field != at->field;
    });
    std::vector<std::string> ids;
    for (auto each = at; each != end; ++each) ids.push_back(each->id);
    Result<std::map<std::string, Bson>> target = find_documents(target_, at->ns, ids);
    if (!target) return error_in(target);
    Result<std::map<std::string, Bson>> live = std::map<std::string, Bson>();
    if (live_ != nullptr) live = find_documents(*live_, at->ns, ids);
    if (!live) return error_in(live);
    const auto document_in = [](const std::map<std::string, Bson>& from, const std::string& id) {
      const auto found = from.find(id);
      return found == from.end() ? Document() : found->second.view();
    };
    std::vector<Known> known;
    for (auto each = at; each != end; ++each) {
      const auto history = handed_out_.fields.find(*each);
      known.push_back({.history = history == handed_out_.fields.end() ? nullptr : &history->second,
                       .target = document_in(*target, each->id),
                       .live = document_in(*live, each->id)});
    }
    const bool siblings = std::ranges::any_of(known, [](const Known& each) {
      return each.history != nullptr && each.history->rises != 0 && each.history->falls == 0;
    });
    auto facts = known.begin();
    for (; at != end; ++at, ++facts) {
      facts->siblings = siblings;
      if (Result<void> done = plan_field(*at, *facts); !done) return error_in(done);
    }
  }
  std::vector<FencedDocument> rows;
  for (const Planned& planned : planned_) rows.push_back(planned.row);
  return rows;
}

Result<void> DocumentFence::plan_field(const CountedField& field, const Known& known) {
  Planned planned{.field = field,
                  .row = {.ns = field.ns, .id = id_for_people(field.id), .field = field.field}};
  FencedDocument& row = planned.row;
  const FieldHistory* const history = known.history;
  const Document made = history != nullptr ? Document::of(history->made) : Document();
  const Document document = known.target ? known.target : known.live ? known.live : made;
  const std::string collection = collection_of(field.ns);
  const bool named = is_named(field);
  row.recipe = named ? std::string("--counter")
                     : std::string(classic_recipe(collection, document, field.field));
  const Field restored = field_of(known.target, field.field);
  const std::optional<CountedNumber> from = counted_number(restored);
  const std::optional<CountedNumber> live = counted_number(known.live, field.field);

  std::optional<std::int64_t> to;
  const auto reached = [&](std::int64_t value) { to = std::max(to.value_or(value), value); };
  if (history != nullptr) {
    reached(history->largest);
    row.rises = history->rises;
    row.largest_step = history->largest_step;
  }
  if (live) reached(live->value);
  if (!to) return {};
  row.to = *to;
  if (from) row.from = from->value;

  const bool has_shape = !row.recipe.empty();
  const bool odd_there = known.target && restored.type != 0 && !from;
  // A value that is not numeric on the target has no recipe. It is reported nevertheless if it
  // counted in production.
  if (!has_shape && !(odd_there && is_classic_collection(collection) && row.rises != 0)) return {};
  const std::string label = row.label();
  const bool excluded = std::ranges::any_of(options_.exclude, [&](const std::string& pattern) {
    return matches_glob(pattern, field.ns) || matches_glob(pattern, label);
  });
  const auto add = [&](FenceOutcome outcome, std::string why) -> Result<void> {
    row.outcome = outcome;
    row.why = std::move(why);
    planned_.push_back(std::move(planned));
    return {};
  };
  const auto refuse_it = [&](std::string why) {
    return add(FenceOutcome::kRefused, std::move(why));
  };
  if (excluded) return add(FenceOutcome::kLeftOut, "left out: what was handed out can come again");
  if (odd_there)
    return refuse_it(field.field + " is " + std::string(type_text(restored.type)) +
                     " on the target, and came to " + std::to_string(row.to) +
                     " in production: make it a number, or --exclude " + field.ns);
  if (!named && history != nullptr && history->falls != 0)
    return refuse_it(
        "it looks like a counter, and fell " + std::to_string(history->falls) +
        (history->falls == 1 ? " time" : " times") +
        "; if it is one that a mistake set back, give --limit S:O, the limit of the restore, "
        "or --counter " +
        field.ns + "." + field.field + "; else --exclude " + field.ns);
  // The target has the value as of the limit.
  const bool rose = row.rises != 0 || (from && row.to > from->value);
  const bool was_made = !known.target && document;
  if (!named && !rose && !(was_made && (known.siblings || is_classic_collection(collection)))) {
    if (was_made)
      notes_.push_back(label + ": " + field.field +
                       " looks like a counter, and was not seen to rise: it is left alone; if it "
                       "is one, give --counter " +
                       field.ns + "." + field.field);
    return {};
  }
  if (history != nullptr && !history->odd.empty())
    add_clause(row.note, "it was " + history->odd + " at a time, which is passed over");
  if (history != nullptr && history->late_falls != 0)
    add_clause(row.note,
               "it fell from the limit on, as by the mistake: what it had come to before counts");
  if (Result<void> looked = look_into_collections(field, planned); !looked) return looked;
  if (known.target && from && row.to <= from->value) {
    row.to = from->value;
    return add(FenceOutcome::kAsItWas, "");
  }
  if (!known.target) {
    if (!document)
      return refuse_it(
          "it is not on the target, and how it looked is not known: insert it there with " +
          field.field + ": " + std::to_string(row.to) + " or above, or --exclude " + field.ns);
    planned.make = document.raw();
  }
  const Field shape = field_of(known.target ? known.target : document, field.field);
  const std::uint8_t type = shape.type == 0 ? std::uint8_t{BSON_TYPE_INT64} : shape.type;
  if (const Result<Bson> possible = field_with(field.field, type, row.to); !possible)
    return refuse_it(possible.error().message() + ", or --exclude " + field.ns);
  if (row.to == INT64_MAX) add_clause(row.note, "no larger value is possible");
  return add(planned.make.empty() ? FenceOutcome::kRaised : FenceOutcome::kMade, "");
}

// Ids in use. The field may hold the last value or the next one, so it is raised past the largest
// id.
Result<void> DocumentFence::look_into_collections(const CountedField& field, Planned& planned) {
  FencedDocument& row = planned.row;
  for (const UsedIn& used : options_.used_in) {
    if (used.source != row.label()) continue;
    for (const std::string& uri : {options_.target_uri, options_.live_uri}) {
      if (uri.empty()) continue;
      const auto values = ExistingValues::open(uri, used.collection, used.field, {});
      if (!values && values.error().code == Code::kNotFound) continue;
      if (!values) return error_in(values);
      const auto largest = (*values)->largest(0, kLargestValue);
      if (!largest) return error_in(largest);
      const std::optional<std::int64_t> found = *largest;
      if (!found || *found < row.to) continue;
      row.to = *found + 1;
      add_clause(row.note, field.field + " may hold the last value or the next one: past " +
                               std::to_string(*found) + ", the largest in " + used.collection +
                               ":" + used.field + ", " + std::to_string(row.to) +
                               " is the smallest that is safe for both");
    }
  }
  return {};
}

Result<void> DocumentFence::carry_out(std::size_t position, FencedDocument& row) {
  const Planned& planned = planned_[position];
  if (row.outcome != FenceOutcome::kRaised && row.outcome != FenceOutcome::kMade) return {};
  if (!planned.make.empty()) {
    const Document document = Document::of(planned.make);
    Bson query;
    if (!query.add_from(document, "_id")) return fail(Code::kInternal, row.label() + ": no _id");
    // Inserted with its final value, so that no program sees a smaller one.
    const Field shape = field_of(document, planned.field.field);
    const Result<Bson> value = field_with(
        planned.field.field, shape.type == 0 ? std::uint8_t{BSON_TYPE_INT64} : shape.type, row.to);
    if (!value) return error_in(value);
    Bson fields;
    for (const Field& field : Fields(document))
      if (!field.is("_id") && field.key != planned.field.field) append_field(fields.get(), field);
    fields.add_all(*value->get());
    const Result<std::int64_t> made =
        update_one(target_, planned.field.ns, query, Bson("$setOnInsert", fields), true);
    if (!made) return error_in(made);
  }
  return raise_field(target_, planned.field, row.to);
}

}  // namespace idmint::restore
