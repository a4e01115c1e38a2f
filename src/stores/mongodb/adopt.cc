// Counters::adopt(): counters that continue in documents of other programs (adopted.h).
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "stores/backend.h"
#include "stores/mongodb/adopted.h"
#include "stores/mongodb/counters.h"
#include "stores/spi/counter_store.h"

namespace idmint::stores::mongodb {

// Checks that no two counters read one field differently, as the next and as the last value: both
// would hand out the same values. If two processes adopt a document at once, each after writing its
// record, one of them sees the other's.
Result<void> Counters::agrees_with_others(std::span<const std::shared_ptr<const Adopted>> all,
                                          SteadyTime until) {
  const auto disagree = [&](const AdoptedRecord& record, std::string_view other) {
    const auto text = [](bool holds_last) { return holds_last ? "last=" : "next="; };
    return std::unexpected(
        Error{Code::kFailedPrecondition,
              database_.where + ": cannot adopt " + place_of(record) + " with " +
                  text(record.holds_last) + record.field + ": counter " + shown(other) +
                  " was adopted from it with " + text(!record.holds_last) + record.field +
                  ", and both would hand out the same values; the document was left as it is"});
  };
  using Place = std::tuple<std::string_view, std::string_view, bool>;  // collection, field, which
  std::map<Place, std::map<std::string_view, const Adopted*>> by_id;
  for (const auto& adopted : all) {
    const AdoptedRecord& record = adopted->record;
    by_id[{record.collection, record.field, record.holds_last}][record.id] = adopted.get();
  }
  for (const auto& [place, documents] : by_id) {
    const auto& [collection, field, holds_last] = place;
    Bson ids;
    int count = 0;
    const auto others = by_id.find({collection, field, !holds_last});
    for (const auto& [id, adopted] : documents) {
      ids.add(std::to_string(count++).c_str(), id);
      if (others == by_id.end()) continue;
      if (const auto other = others->second.find(id); other != others->second.end())
        return disagree(adopted->record, other->second->name);
    }
    Bson command;
    command.add("find", kCounters)
        .add("filter", Bson()
                           .add("adopted.collection", collection)
                           .add("adopted.field", field)
                           .add("adopted.holds_last", !holds_last)
                           .add("adopted.id", Bson().add_array("$in", ids)))
        .add("limit", 1)
        .add("singleBatch", true);
    const Result<Bson> reply =
        database_.servers->run(std::move(command), Kind::kReadOne, until, "read");
    if (!reply) return std::unexpected(reply.error());
    std::optional<AdoptedRecord> record;
    std::string other;
    reply->view().each_found([&](const Document& found) {
      const auto adopted = adopted_in(found);
      if (!adopted) return;
      other = adopted->name;
      record = adopted->record;
    });
    if (!record) continue;
    record->holds_last = holds_last;
    return disagree(*record, other);
  }
  return {};
}

// Adds a validator to the collection, unless it has another one.
Result<void> Counters::guard(const AdoptedRecord& record, SteadyTime until) {
  const Bson validator = validator_for(record);
  Bson command;
  command.add("listCollections", 1)
      .add("filter", Bson().add("name", std::string_view(record.collection)));
  Result<Bson> reply = database_.servers->run(std::move(command), Kind::kPlain, until, "look at");
  if (!reply) return std::unexpected(after_a_write(reply.error()));
  bool has_one = false;
  bool same = false;
  reply->view().each_found([&](const Document& collection) {
    const Document there = collection.document("options").document("validator");
    has_one = there && !there.empty();
    same = there == validator.view();
  });
  if (same) return {};
  if (has_one)
    return std::unexpected(Error{
        Code::kFailedPrecondition,
        database_.where + ": the collection " + record.collection +
            " has a validator already, which was left as it is: add to it that " + record.field +
            " may not pass " + record.max + ", and leave out the wish for a validator"});
  command = Bson();
  command.add("collMod", std::string_view(record.collection))
      .add("validator", validator)
      .add("validationLevel", "strict")
      .add("validationAction", "error");
  reply = database_.servers->run(std::move(command), Kind::kWrite, until, "put a validator into",
                                 {.idempotent = true});
  if (!reply) return std::unexpected(after_a_write(reply.error()));
  return {};
}

// Creates the documents first and their records in idmint.counters last: a record implies a
// document, so no document is recreated. REQUIRES: few enough for one message.
Result<void> Counters::adopt(std::span<const std::shared_ptr<const Adopted>> all,
                             SteadyTime until) {
  std::vector<std::string> names;
  for (const auto& adopted : all) names.push_back(adopted->name);
  // The majority of a new primary may lack a record, whose document would then be recreated.
  Result<Records> there = find_counters(names, Kind::kReadOne, until);
  if (!there) return std::unexpected(there.error());
  std::map<std::string, Bson> missing;  // by collection
  std::map<std::string, int> count;
  Records wanted;
  for (const auto& adopted : all) {
    if (there->contains(adopted->name)) continue;
    const std::string& collection = adopted->record.collection;
    missing[collection].add(std::to_string(count[collection]++).c_str(), new_document(*adopted));
    wanted[adopted->name].adopted = adopted;
  }
  if (Result<void> agreed = agrees_with_others(all, until); !agreed) return agreed;
  for (const auto& [collection, documents] : missing) {
    const auto made = database_.servers->insert_new(collection, documents, count[collection], until,
                                                    "make counters in");
    if (!made) return std::unexpected(made.error());
  }
  // Every document to be adopted, new or not, must be usable.
  if (Result<void> read = read_adopted_of(wanted, until); !read)
    return std::unexpected(after_a_write(std::move(read.error())));
  Bson records;
  std::int64_t new_records = 0;
  for (const auto& [name, record] : wanted) {
    const CounterBounds& bounds = record.adopted->bounds;
    const Reading& reading = record.reading;
    std::string why = record.gone ? "it could not be made" : reading.wrong;
    Advice advice;  // for one document: the bounds of one of several are no options
    const auto set = [&](std::string_view member, std::int64_t value) {
      if (all.size() > 1) return;
      advice = {.remedy = Remedy::kSetOption,
                .values = {std::string(member) + "=" + std::to_string(value)}};
    };
    if (reading.below.value_or(0) > 0) set("first", *reading.below);
    const std::string& max = record.adopted->record.max;
    if (why.empty() && !max.empty() && reading.max != bounds.last) {
      set("last", reading.max);
      why = max + " is " + std::to_string(reading.max) + ", and the last value is to be " +
            std::to_string(bounds.last) +
            (all.size() > 1 ? ""
                            : "; create the sequence with " + std::to_string(reading.max) +
                                  " as its last value, and then move that up, " + max + " with it");
    }
    if (why.empty() && reading.state.closed) why = "a sequence that was adopted from it is retired";
    if (why.empty() && reading.state.bounds.last != bounds.last) {
      set("last", reading.state.bounds.last);
      why = beyond_a_double(*record.adopted, bounds.last).message;
    }
    if (!why.empty())
      return std::unexpected(Error{Code::kFailedPrecondition,
                                   database_.where + ": cannot adopt " +
                                       place_of(record.adopted->record) + ": " + why +
                                       "; it was left as it is",
                                   std::move(advice)});
    records.add(std::to_string(new_records++).c_str(), record_for(*record.adopted));
  }
  if (new_records > 0) {
    const auto made =
        database_.servers->insert_new(kCounters, records, new_records, until, "make counters in");
    if (!made) return std::unexpected(after_a_write(made.error()));
    if (Result<void> agreed = agrees_with_others(all, until); !agreed)
      return std::unexpected(after_a_write(std::move(agreed.error())));
    there = read_counters(names, until);
  } else if (Result<void> read = read_adopted_of(*there, until); !read) {
    return read;
  }
  if (!there) return std::unexpected(after_a_write(there.error()));
  for (const auto& adopted : all) {
    const auto at = there->find(adopted->name);
    if (at == there->end())
      return database_.damaged("counter " + shown(adopted->name) + " went away while it was made");
    const Record& record = at->second;
    AdoptedRecord place = adopted->record;
    place.validator = false;
    if (!record.adopted) return std::unexpected(other_place(adopted->name, {}, place));
    if (record.adopted->record != place)
      return std::unexpected(other_place(adopted->name, record.adopted->record, place));
    if (const auto state = checked(record, adopted->name); !state)
      return std::unexpected(state.error());
    if (record.adopted->bounds != adopted->bounds)
      return std::unexpected(
          other_bounds({adopted->name, record.adopted->bounds}, adopted->bounds));
  }
  const AdoptedRecord* latest = nullptr;
  for (const auto& adopted : all) {
    const AdoptedRecord& record = adopted->record;
    const bool guarded = latest != nullptr && latest->collection == record.collection &&
                         latest->field == record.field && latest->max == record.max &&
                         latest->holds_last == record.holds_last;
    if (!record.validator || guarded) continue;
    if (Result<void> ok = guard(record, until); !ok) return ok;
    latest = &record;
  }
  return {};
}

}  // namespace idmint::stores::mongodb
