// CounterTable::adopt(): counters that continue in documents of other programs (adopted.h).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/mongodb/adopted.h"
#include "engines/mongodb/counters.h"
#include "store/backend.h"
#include "store/counter_store.h"

namespace idmint::stores::mongodb {

// Reads the counters that are adopted from these documents. Checks that no two read one field
// differently, as the next and as the last value: both would hand out the same values. If two
// processes adopt a document at once, each after writing its record, one of them sees the other's.
Result<CounterTable::Sharers> CounterTable::agrees_with_others(
    std::span<const std::shared_ptr<const Adopted>> all, SteadyTime until) {
  std::map<std::string_view, std::map<std::string, const AdoptedRecord*>> by_collection;
  Sharers sharers;
  for (const auto& adopted : all) {
    const AdoptedRecord& record = adopted->record;
    by_collection[record.collection].emplace(spelled(record), &record);
    sharers[spelled(record)].emplace(adopted->name, adopted);
  }
  for (const auto& [collection, documents] : by_collection) {
    Bson ids;
    int count = 0;
    for (const auto& [text, record] : documents) {
      const Bson filter = filter_of(*record);
      bson_iter_t id;
      if (filter.view().find("_id", &id)) ids.add(std::to_string(count++).c_str(), &id);
    }
    constexpr std::int32_t kMost = 10'000;
    Bson command;
    command.add("find", kCounters)
        .add("filter", Bson()
                           .add("adopted.collection", collection)
                           .add("adopted.id", Bson().add_array("$in", ids)))
        .add("batchSize", kMost)
        .add("singleBatch", true);
    const Result<Bson> reply =
        database_.servers->run(std::move(command), Kind::kReadOne, until, "read");
    if (!reply) return std::unexpected(reply.error());
    reply->view().each_found([&](const Document& found) {
      const auto other = adopted_in(found);
      const auto at = other ? sharers.find(spelled(other->record)) : sharers.end();
      if (at != sharers.end()) at->second.emplace(other->name, other);
    });
  }
  for (const auto& adopted : all) {
    const AdoptedRecord& record = adopted->record;
    for (const auto& [name, other] : sharers[spelled(record)]) {
      if (other->record.field != record.field || other->record.holds_last == record.holds_last)
        continue;
      const auto text = [](bool holds_last) { return holds_last ? "last=" : "next="; };
      return std::unexpected(
          Error{Code::kFailedPrecondition,
                database_.where + ": cannot adopt " + place_of(record) + " with " +
                    text(record.holds_last) + record.field + ": counter " + shown(name) +
                    " was adopted from it with " + text(!record.holds_last) + record.field +
                    ", and both would hand out the same values; the document was left as it is"});
    }
  }
  return sharers;
}

// Gives each document its floor. From then on a reset of the field is noticed, whoever takes.
Result<void> CounterTable::begin_floors(const Records& wanted, const Sharers& sharers,
                                        SteadyTime until) {
  std::map<std::string, Bson> updates;  // by collection
  std::map<std::string, std::vector<const Adopted*>> documents;
  for (const auto& [name, record] : wanted) {
    const Adopted& adopted = *record.adopted;
    const Reading& reading = record.reading;
    // Retired ones do not count: a new one goes on from what there is now.
    bool keep = false;
    bool noticed = reading.is_floored;
    std::set<std::string> others;
    for (const auto& [other, its] : sharers.at(spelled(adopted.record))) {
      if (other == name) continue;
      others.insert(other);
      if (its->record.field != adopted.record.field || its->closed || reading.all_closed ||
          reading.closed.contains(other))
        continue;
      keep = true;
      noticed = noticed || its->has_floor;
    }
    if (keep && noticed && !reading.set_back.empty())
      return std::unexpected(Error{Code::kFailedPrecondition,
                                   database_.where + ": cannot adopt " + place_of(adopted.record) +
                                       ", which " + reading.set_back +
                                       "; retire the other sequences that were adopted from it "
                                       "first; it was left as it is"});
    auto& those = documents[adopted.record.collection];
    updates[adopted.record.collection].add(std::to_string(those.size()).c_str(),
                                           Bson()
                                               .add("q", whole_document(adopted))
                                               .add_array("u", begin_floor(adopted, keep, others)));
    those.push_back(&adopted);
  }
  for (const auto& [collection, all] : updates) {
    Bson command;
    command.add("update", std::string_view(collection))
        .add_array("updates", all)
        .add("ordered", false);
    const Result<Bson> reply = database_.servers->run(
        std::move(command), Kind::kWrite, until, "adopt a document in", {.errors_in_reply = true});
    if (!reply) return std::unexpected(reply.error());
    std::optional<Error> refusal;
    reply->view().each("writeErrors", [&](const Document& error) {
      const auto i = static_cast<std::size_t>(error.number("index"));
      if (refusal || i >= documents[collection].size()) return;
      const AdoptedRecord& record = documents[collection][i]->record;
      refusal = Error{
          Code::kFailedPrecondition,
          database_.where + ": cannot adopt " + place_of(record) +
              ": the server refuses the field next_by_idmint, in which idmint keeps the next value "
              "that it knows (" +
              std::string(error.bytes("errmsg").value_or("no message")) +
              "); let the validator of the collection allow next_by_idmint, a document, and "
              "closed_by_idmint, an array; the document was left as it is"};
    });
    if (refusal) return std::unexpected(*std::move(refusal));
    if (reply->view().number("n") != std::ssize(documents[collection]))
      return std::unexpected(
          Error{Code::kUnavailable, database_.where + ": documents in " + collection +
                                        " changed while they were adopted; create it again"});
  }
  return {};
}

// Adds a validator to the collection, unless it has another one.
Result<void> CounterTable::guard(const AdoptedRecord& record, SteadyTime until) {
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

// Creates the documents first, if wanted, and their records in idmint.counters last: a record
// implies a document, so no document is recreated. REQUIRES: few enough for one message.
Result<void> CounterTable::adopt(std::span<const std::shared_ptr<const Adopted>> all, bool make,
                                 SteadyTime until) {
  std::vector<std::string> names;
  for (const auto& adopted : all) names.push_back(adopted->name);
  // The majority of a new primary may lack a record, whose document would then be recreated.
  Result<Records> there = find_counters(names, Kind::kReadOne, until);
  if (!there) return std::unexpected(there.error());
  Records wanted;
  for (const auto& adopted : all) {
    if (there->contains(adopted->name)) continue;
    wanted[adopted->name].adopted = adopted;
  }
  const Result<Sharers> sharers = agrees_with_others(all, until);
  if (!sharers) return std::unexpected(sharers.error());
  if (Result<void> read = read_adopted_of(wanted, until); !read) return read;
  std::map<std::string, Bson> missing;  // by collection
  std::map<std::string, int> count;
  for (const auto& [name, record] : wanted) {
    if (!make || !record.gone) continue;
    const std::string& collection = record.adopted->record.collection;
    missing[collection].add(std::to_string(count[collection]++).c_str(),
                            new_document(*record.adopted));
  }
  for (const auto& [collection, documents] : missing) {
    const auto made = database_.servers->insert_new(collection, documents, count[collection], until,
                                                    "make counters in");
    if (!made) return std::unexpected(made.error());
  }
  // Every document to be adopted, new or not, must be usable.
  if (!missing.empty()) {
    if (Result<void> read = read_adopted_of(wanted, until); !read)
      return std::unexpected(after_a_write(std::move(read.error())));
  }
  Bson records;
  std::int64_t new_records = 0;
  for (const auto& [name, record] : wanted) {
    const CounterBounds& bounds = record.adopted->bounds;
    const Reading& reading = record.reading;
    std::string why = record.gone && make ? "it could not be made"
                      : record.gone       ? "it is not there"
                                          : reading.wrong;
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
    if (why.empty() && reading.state.bounds.last != bounds.last) {
      set("last", reading.state.bounds.last);
      why = beyond_a_double(*record.adopted, bounds.last).message();
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
    if (Result<void> begun = begin_floors(wanted, *sharers, until); !begun)
      return std::unexpected(after_a_write(std::move(begun.error())));
    const auto made =
        database_.servers->insert_new(kCounters, records, new_records, until, "make counters in");
    if (!made) return std::unexpected(after_a_write(made.error()));
    if (const auto agreed = agrees_with_others(all, until); !agreed)
      return std::unexpected(after_a_write(agreed.error()));
    there = read_records(names, until);
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
