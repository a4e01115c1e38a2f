#include "engines/mongodb/counters.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "engines/mongodb/names.h"
#include "store/backend.h"
#include "store/counter_store.h"

namespace idmint::stores::mongodb {
namespace {

// The arithmetic of CounterState::left() and CounterBounds::at_or_above(), with a record's own
// stride. No sum overflows: 0 <= first, next <= last + stride <= 2^63 - 1. A product may, and is
// then a double above every rest.
const std::string kRest = R"({"$add":[{"$subtract":["$last","$next"]},"$stride"]})";
const std::string kWhole =
    R"({"$subtract":[)" + kRest + R"(,{"$mod":[)" + kRest + R"(,"$stride"]}]})";

// The query for the counter if its record is as record_of() expects and `condition` holds. Other
// records are never changed: that would silently repair a damage, and values would repeat.
Bson counter_where(std::string_view counter, const Bson& made_here, const std::string& condition) {
  // Evaluated in order: the arithmetic of each is defined only if the ones before it hold.
  const std::string numbers =
      R"({"$and":[{"$isNumber":"$first"},{"$isNumber":"$last"},{"$isNumber":"$stride"},)"
      R"({"$isNumber":"$next"},{"$in":["$closed",[true,false]]}]})";
  const std::string bounds =
      R"({"$and":[{"$gte":["$stride",1]},{"$gte":["$first",0]},{"$lte":["$first","$last"]},)"
      R"({"$lte":["$last",{"$subtract":[)" +
      number(kLargestValue) + R"(,{"$subtract":["$stride",1]}]}]}]})";
  const std::string next =
      R"({"$and":[{"$gte":["$next","$first"]},{"$lte":["$next",{"$add":["$last","$stride"]}]},)"
      R"({"$eq":[{"$mod":[{"$subtract":["$next","$first"]},"$stride"]},0]})" +
      condition + "]}";
  const auto only_if = [](const std::string& first, const std::string& then) {
    return R"({"$cond":[)" + first + "," + then + ",false]}";
  };
  Bson query(R"({"$expr":)" + only_if(numbers, only_if(bounds, next)) + "}");
  Bson integer;
  integer.add_array("$type", Bson().add("0", "int").add("1", "long"));
  for (const char* const field : {"first", "last", "stride", "next"}) query.add(field, integer);
  query.add("_id", counter).add(kMadeBy, made_here);
  return query;
}

std::string in_strides(std::int64_t count) {
  return R"({"$multiply":[)" + number(count) + R"(,"$stride"]})";
}

// The update that sets the next value to `expression`, as a long, whatever somebody may have typed.
Bson next_becomes(const std::string& expression) {
  return Bson(R"({"0":{"$set":{"next":{"$toLong":)" + expression + "}}}}");
}

// The lift of idmint's own record, as the stages of one update.
Bson update_to(const CounterLift& lift) {
  Bson stages;
  int count = 0;
  const auto add = [&](const std::string& stage) {
    stages.add(std::to_string(count++).c_str(), Bson(stage));
  };
  if (lift.last > 0)
    add(R"({"$set":{"last":{"$toLong":{"$cond":[{"$lte":[)" + number(lift.last) +
        R"(,{"$subtract":[)" + number(kLargestValue) +
        R"(,{"$subtract":["$stride",1]}]}]},{"$max":["$last",)" + number(lift.last) +
        R"(]},"$last"]}}}})");
  if (lift.next) {
    const std::string from_first = R"({"$subtract":[{"$min":[{"$max":[)" + number(*lift.next) +
                                   R"(,"$first"]},{"$add":["$last",1]}]},"$first"]})";
    const std::string up = R"({"$add":[)" + from_first + R"(,{"$subtract":["$stride",1]}]})";
    add(R"({"$set":{"next":{"$toLong":{"$max":["$next",{"$add":["$first",{"$subtract":[)" + up +
        R"(,{"$mod":[)" + up + R"(,"$stride"]}]}]}]}}}})");
  }
  if (lift.closed) add(R"({"$set":{"closed":true}})");
  return stages;
}

// kInvalidArgument: not the text of a record, or the counter cannot be in it.
Result<Adopted> adopted_by(const NewCounter& counter) {
  const std::string making = "cannot make counter " + shown(counter.name);
  const Result<AdoptedRecord> pattern = adopted_from_text(counter.adopted);
  if (!pattern) return refused(making, pattern.error());
  const Result<AdoptedRecord> record =
      adopted_from_text(to_text(of_stripe(*pattern, counter.stripe)));
  if (!record) return refused(making, record.error());
  if (record->holds_last) {
    if (auto ok = must_begin_above_0(counter.bounds.first, making + ": it", record->field); !ok)
      return std::unexpected(std::move(ok.error()));
  }
  if (counter.bounds.stride != 1)
    return refuse("cannot adopt " + place_of(*record) + " in steps of " +
                  std::to_string(counter.bounds.stride) + ": the others that use it count by one");
  return Adopted{counter.name, *record, counter.bounds};
}

}  // namespace

Error beyond_a_double(const Adopted& adopted, std::int64_t last) {
  return {Code::kInvalidArgument,
          "counter " + shown(adopted.name) + " cannot end at " + std::to_string(last) + ": " +
              adopted.record.field + " in " + place_of(adopted.record) +
              " is a double, which counts by one up to " + std::to_string(kLargestInDouble) +
              "; end there or below, or make it a NumberLong"};
}

Error other_place(std::string_view counter, const std::optional<AdoptedRecord>& there,
                  const std::optional<AdoptedRecord>& wanted) {
  const auto text = [](const std::optional<AdoptedRecord>& record) {
    return record ? "in " + to_text(*record) : std::string("idmint's own");
  };
  return {Code::kAlreadyExists, "counter " + shown(counter) + " exists and is " + text(there) +
                                    ", not " + text(wanted) + "; use that or another name"};
}

CounterTable::Record CounterTable::record_of(const Document& document) {
  if (auto adopted = adopted_in(document)) return {.adopted = std::move(adopted)};
  const auto first = document.integer("first");
  const auto last = document.integer("last");
  const auto stride = document.integer("stride");
  const auto next = document.integer("next");
  const auto closed = document.boolean("closed");
  const auto name = document.bytes("_id");
  if (!first || !last || !stride || !next || !closed || !name || !names_its_store(document))
    return {};
  const bool whole = 0 <= *first && 1 <= *stride && *first <= *last &&
                     *last <= largest_last(*stride) && *first <= *next &&
                     *next <= *last + *stride && (*next - *first) % *stride == 0;
  return {.state = {std::string(*name), {*first, *last, *stride}, *next, *closed},
          .whole = whole,
          .made_by = uuid_in(document, kMadeBy)};
}

// Adds the content of its adopted document.
CounterTable::Record CounterTable::filled(Record record, const Document& document) {
  record.gone = false;
  record.reading = read_adopted(*record.adopted, document);
  record.state = record.reading.state;
  record.whole = record.reading.wrong.empty() && record.reading.set_back.empty();
  return record;
}

Error CounterTable::set_back(const Record& record, std::string_view counter) const {
  const AdoptedRecord& place = record.adopted->record;
  Advice advice;
  if (!counter.contains('/'))  // a stripe has no name of its own
    advice = {Remedy::kRaiseSequence, std::string(counter)};
  return {Code::kDataLoss,
          database_.where + ": " + place_of(place) + ", which counter " + shown(counter) +
              " was adopted from, " + record.reading.set_back +
              "; stop the programs that take from it; if it was reset on purpose, with all that "
              "has its values, retire the sequence and adopt the record under another name; "
              "otherwise raise it past every value in use",
          std::move(advice)};
}

Result<CounterState> CounterTable::checked(const Record& record, std::string_view counter) const {
  if (record.whole) return record.state;
  if (record.adopted && !record.gone && record.reading.wrong.empty()) {
    CounterState state = record.state;
    state.set_back = set_back(record, counter);
    return state;
  }
  if (record.adopted)
    return database_.damaged(
        place_of(record.adopted->record) + ", which counter " + shown(counter) +
        " was adopted from, " +
        (record.gone ? "is gone" : "cannot be counted in: " + record.reading.wrong));
  return database_.damaged("the record of counter " + shown(counter) + " in " + kCounters +
                           " is not as idmint writes it");
}

Result<CounterState> CounterTable::read_counter(std::string_view counter, SteadyTime until) {
  Record record;
  const Result<bool> there = database_.read(
      kCounters, counter, until, [&](const Document& found) { record = record_of(found); });
  if (!there) return std::unexpected(there.error());
  if (!*there) return std::unexpected(no_counter(counter, database_.url));
  if (Result<void> ours = take_over_others({{std::string(counter), record}}, until); !ours)
    return std::unexpected(std::move(ours.error()));
  if (record.adopted) {
    const std::shared_ptr<const Adopted> adopted = record.adopted;
    record.gone = true;
    const Result<bool> read_too = database_.read(
        adopted->record.collection, any_document(*adopted), until,
        [&](const Document& document) { record = filled(std::move(record), document); });
    if (!read_too) return std::unexpected(read_too.error());
    remember({{std::string(counter), record}});
  }
  return checked(record, counter);
}

// Reads the existing ones in one command, since there may be thousands. REQUIRES: few enough for
// one message.
Result<CounterTable::Records> CounterTable::read_records(std::span<const std::string> counters,
                                                         SteadyTime until) {
  Result<Records> found = find_counters(counters, Kind::kReadMany, until);
  if (!found) return found;
  // On a new primary, a majority read may lag behind acknowledged writes; this read does not.
  std::vector<std::string> missing;
  for (const std::string& counter : counters)
    if (!found->contains(counter)) missing.push_back(counter);
  if (!missing.empty()) {
    Result<Records> there = find_counters(missing, Kind::kReadOne, until);
    if (!there) return there;
    found->merge(*there);
  }
  if (Result<void> ours = take_over_others(*found, until); !ours)
    return std::unexpected(std::move(ours.error()));
  if (Result<void> read = read_adopted_of(*found, until); !read)
    return std::unexpected(std::move(read.error()));
  remember(*found);
  return found;
}

Result<void> CounterTable::take_over_others(const Records& records, SteadyTime until) {
  std::set<Uuid> stores;
  for (const auto& [name, record] : records)
    if (const std::optional<Uuid>& made_by = record.made_by) stores.insert(*made_by);
  return database_.take_over(kCounters, stores, until);
}

// Reads the documents of the adopted ones.
Result<void> CounterTable::read_adopted_of(Records& records, SteadyTime until) {
  std::map<std::string, std::multimap<std::string, Record*>> wanted;  // by collection, document
  for (auto& [name, record] : records) {
    if (!record.adopted) continue;
    record.gone = true;
    const AdoptedRecord& place = record.adopted->record;
    wanted[place.collection].emplace(spelled(place), &record);
  }
  for (const auto& [collection, by_id] : wanted) {
    // A document that a majority does not have yet is read again, as in read_records().
    for (const Kind kind : {Kind::kReadMany, Kind::kReadOne}) {
      Bson ids;
      std::int32_t count = 0;
      for (auto at = by_id.begin(); at != by_id.end(); at = by_id.upper_bound(at->first)) {
        if (!at->second->gone) continue;
        const Bson filter = any_document(*at->second->adopted);
        bson_iter_t id;
        if (filter.view().find("_id", &id)) ids.add(std::to_string(count++).c_str(), &id);
      }
      if (count == 0) break;
      Bson command;
      command.add("find", std::string_view(collection))
          .add("filter", Bson().add("_id", Bson().add_array("$in", ids)))
          .add("batchSize", count)
          .add("singleBatch", true);
      const Result<Bson> reply = database_.servers->run(std::move(command), kind, until, "read");
      if (!reply) return std::unexpected(reply.error());
      reply->view().each_found([&](const Document& document) {
        bson_iter_t id;
        if (!document.find("_id", &id)) return;
        const auto [first, end] =
            by_id.equal_range(spelled(with_id({.collection = collection}, id)));
        for (auto at = first; at != end; ++at) *at->second = filled(*at->second, document);
      });
    }
  }
  return {};
}

// Reads the existing ones. With kReadOne, the result has every acknowledged write: the server reads
// first and then confirms that it is the primary, for all documents that it found.
Result<CounterTable::Records> CounterTable::find_counters(std::span<const std::string> counters,
                                                          Kind kind, SteadyTime until) {
  Bson names;
  for (std::size_t i = 0; i < counters.size(); ++i)
    names.add(std::to_string(i).c_str(), std::string_view(counters[i]));
  Bson command;
  command.add("find", kCounters)
      .add("filter", Bson().add("_id", Bson().add_array("$in", names)))
      .add("batchSize", static_cast<std::int32_t>(counters.size()))
      .add("singleBatch", true);
  const Result<Bson> reply = database_.servers->run(std::move(command), kind, until, "read");
  if (!reply) return std::unexpected(reply.error());
  Records found;
  reply->view().each_found([&](const Document& document) {
    found.insert_or_assign(std::string(document.bytes("_id").value_or("")), record_of(document));
  });
  return found;
}

// REQUIRES: few enough for one message.
Result<void> CounterTable::make_some(std::span<const NewCounter> counters, CounterStates& states,
                                     SteadyTime until, std::string_view doing) {
  Bson documents;
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const auto& [name, bounds, adopted, stripe, make] = counters[i];
    states.insert_or_assign(name, CounterState{name, bounds, bounds.first});
    Bson document;
    document.add("_id", std::string_view(name))
        .add("first", bounds.first)
        .add("last", bounds.last)
        .add("stride", bounds.stride)
        .add("next", bounds.first)
        .add("closed", false);
    add_uuid(document, kMadeBy, database_.id);
    documents.add(std::to_string(i).c_str(), document);
  }
  const auto there =
      database_.servers->insert_new(kCounters, documents, std::ssize(counters), until, doing);
  if (!there) return std::unexpected(there.error());
  if (there->empty()) return {};

  // Existing counters must be the same.
  std::vector<std::string> names;
  for (const std::size_t i : *there) names.push_back(counters[i].name);
  const auto found = read_records(names, until);
  if (!found) return std::unexpected(after_a_write(found.error()));
  for (const std::string& name : names) {
    states.erase(name);
    const auto at = found->find(name);
    if (at == found->end()) continue;
    if (at->second.adopted)
      return std::unexpected(other_place(name, at->second.adopted->record, {}));
    Result<CounterState> state = checked(at->second, name);
    if (!state) return std::unexpected(std::move(state.error()));
    states.insert_or_assign(name, *std::move(state));
  }
  return {};
}

Result<CounterStates> CounterTable::make_counters(std::span<const NewCounter> counters,
                                                  SteadyTime until, std::string_view doing) {
  CounterStates states;
  std::vector<std::shared_ptr<const Adopted>> all_adopted;
  for (const NewCounter& counter : counters) {
    if (counter.adopted.empty()) continue;
    Result<Adopted> adopted = adopted_by(counter);
    if (!adopted) return std::unexpected(std::move(adopted.error()));
    all_adopted.push_back(std::make_shared<const Adopted>(*std::move(adopted)));
  }
  std::span<const std::shared_ptr<const Adopted>> adopted = all_adopted;
  constexpr std::size_t kAtOnce = 5000;  // 6 MB at most; a message may have 16 MB
  bool some = false;
  while (!counters.empty()) {
    const bool own = counters.front().adopted.empty();
    const bool make = counters.front().make;
    const auto other = std::ranges::find_if(counters, [&](const NewCounter& each) {
      return each.adopted.empty() != own || each.make != make;
    });
    const auto alike = static_cast<std::size_t>(other - counters.begin());
    const auto batch = counters.first(std::min(kAtOnce, alike));
    Result<void> made = own ? make_some(batch, states, until, doing)
                            : adopt(adopted.first(batch.size()), make, until);
    if (!made) return std::unexpected(some ? after_a_write(made.error()) : made.error());
    if (!own) {
      // It has compared them with what is there.
      for (const NewCounter& each : batch)
        states.insert_or_assign(each.name, CounterState{each.name, each.bounds});
      adopted = adopted.subspan(batch.size());
    }
    some = true;
    counters = counters.subspan(batch.size());
  }
  return states;
}

// REQUIRES: the records are in idmint.counters.
void CounterTable::remember(const Records& records) {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, record] : records) {
    if (!record.adopted) continue;
    auto& known = adopted_[name];
    const bool without = known && !known->may_floor && !record.adopted->has_floor;
    known = record.adopted;
    if (!without) continue;  // what was learned of a document that takes no floor stays
    Adopted again = *known;
    again.may_floor = false;
    known = std::make_shared<const Adopted>(std::move(again));
  }
}

std::shared_ptr<const Adopted> CounterTable::known(std::string_view counter) {
  const std::lock_guard lock(mutex_);
  const auto at = adopted_.find(counter);
  return at != adopted_.end() ? at->second : nullptr;
}

// Writes into idmint.counters that the document has a floor, which it got with the first take by a
// version that keeps one. If that fails, the next take tries again.
void CounterTable::note_floor(const std::shared_ptr<const Adopted>& adopted, SteadyTime until) {
  const AdoptedRecord& record = adopted->record;
  Bson update;
  update
      .add("q", Bson()
                    .add("_id", std::string_view(adopted->name))
                    .add("adopted.collection", std::string_view(record.collection))
                    .add("adopted.field", std::string_view(record.field)))
      .add("u", Bson(R"({"$set":{"adopted.floor":true}})"));
  Bson command;
  command.add("update", kCounters).add_array("updates", Bson().add("0", update));
  const Result<Bson> noted = database_.servers->run(std::move(command), Kind::kWrite, until,
                                                    "note a floor in", {.idempotent = true});
  if (!noted) return;
  Adopted with_floor = *adopted;
  with_floor.has_floor = true;
  remember({{adopted->name, {.adopted = std::make_shared<const Adopted>(std::move(with_floor))}}});
}

// Like advance(), for a counter whose document is known().
Result<std::optional<Range>> CounterTable::advance_adopted(std::string_view counter,
                                                           std::int64_t most, std::int64_t least,
                                                           SteadyTime until,
                                                           std::string_view doing) {
  // Repeats only if a validator forbids the floor.
  for (;;) {
    const std::shared_ptr<const Adopted> adopted = known(counter);
    Record record{.adopted = adopted};
    const Result<bool> moved = database_.change(
        adopted->record.collection, document_with(*adopted, least), take_up_to(*adopted, most),
        until, doing, [&](const Document& before) { record = filled(std::move(record), before); });
    if (!moved && moved.error().code == Code::kFailedPrecondition && !adopted->has_floor &&
        adopted->may_floor) {
      // It goes on without one, as with an older version.
      Adopted without = *adopted;
      without.may_floor = false;
      remember({{adopted->name, {.adopted = std::make_shared<const Adopted>(std::move(without))}}});
      continue;
    }
    if (!moved) return std::unexpected(moved.error());
    if (!*moved) return std::nullopt;
    const Result<CounterState> before = checked(record, counter);
    if (!before) return std::unexpected(before.error());
    if (const std::optional<Error>& set_back = before->set_back; set_back)
      return std::unexpected(*set_back);
    if (!adopted->has_floor && adopted->may_floor) note_floor(adopted, until);
    return Range{before->next, 1, std::min(most, before->left())};
  }
}

Result<std::optional<Range>> CounterTable::advance(std::string_view counter, std::int64_t most,
                                                   std::int64_t least, SteadyTime until,
                                                   std::string_view doing) {
  if (known(counter)) return advance_adopted(counter, most, least, until, doing);
  const Bson update =
      next_becomes(R"({"$add":["$next",{"$min":[)" + in_strides(most) + "," + kWhole + "]}]}");
  Bson query = counter_where(counter, database_.made_here(),
                             R"(,{"$gte":[)" + kWhole + "," + in_strides(least) + "]}");
  query.add("closed", false);
  Record record;
  const Result<bool> moved =
      database_.change(kCounters, std::move(query), update, until, doing,
                       [&](const Document& before) { record = record_of(before); });
  if (!moved) return std::unexpected(moved.error());
  if (!*moved) return std::nullopt;
  const Result<CounterState> before = checked(record, counter);
  if (!before) return std::unexpected(before.error());
  return Range{before->next, before->bounds.stride, std::min(most, before->left())};
}

// Sends the updates of all counters that are intact, together. Then reads the counters, and lifts
// those that were created meanwhile.
Result<CounterStates> CounterTable::lift(std::span<const std::string> counters,
                                         const CounterLift& lift, SteadyTime until,
                                         std::string_view doing) {
  const Bson update = update_to(lift);
  // The record of an adopted one has its end and whether it is closed, its document the next value.
  const bool of_record = !lift.next && lift.last <= kLargestValue;
  // A document that others have spoiled is closed all the same: only what is asked for counts.
  const auto is_lifted = [&](const CounterState& state) {
    const CounterBounds& bounds = state.bounds;
    return (!lift.closed || state.closed) &&
           (!lift.next || state.next >= bounds.at_or_above(*lift.next)) &&
           (lift.last > largest_last(bounds.stride) || state.bounds.last >= lift.last);
  };
  constexpr std::size_t kAtOnce = 2000;  // 6 MB at most; a message may have 16 MB
  CounterStates states;
  bool some = false;
  while (!counters.empty()) {
    const auto batch = counters.first(std::min(kAtOnce, counters.size()));
    std::map<std::string, Bson> updates;  // by collection
    std::map<std::string, int> sizes;
    const auto add = [&](const std::string& collection, const Bson& query, const Bson& what) {
      updates[collection].add(std::to_string(sizes[collection]++).c_str(),
                              Bson().add("q", query).add_array("u", what));
    };
    for (const std::string& counter : batch) {
      if (update.view().empty()) break;
      // A counter that is not known yet becomes known when it is read, and is changed then.
      const std::shared_ptr<const Adopted> place = known(counter);
      if (!place) {
        add(kCounters, counter_where(counter, database_.made_here(), ""), update);
        continue;
      }
      if (of_record) add(kCounters, Bson().add("_id", std::string_view(counter)), update);
      const std::string& collection = place->record.collection;
      if (lift.last > 0) add(collection, whole_document(*place), extend_to(*place, lift.last));
      if (lift.next) add(collection, whole_document(*place), raise_to(*place, *lift.next));
      if (lift.closed) add(collection, any_document(*place), close_document(*place));
    }
    for (const auto& [collection, all] : updates) {
      Bson command;
      command.add("update", std::string_view(collection))
          .add_array("updates", all)
          .add("ordered", false);
      const Result<Bson> reply =
          database_.servers->run(std::move(command), Kind::kWrite, until, doing);
      if (!reply) return std::unexpected(some ? after_a_write(reply.error()) : reply.error());
      some = true;
    }
    const auto found = read_records(batch, until);
    if (!found) return std::unexpected(after_a_write(found.error()));
    bool again = false;
    for (const std::string& counter : batch) {
      const auto at = found->find(counter);
      if (at == found->end() || (at->second.gone && lift.closed)) continue;
      const Record& record = at->second;
      Result<CounterState> state =
          record.adopted && lift.closed ? record.state : checked(record, counter);
      if (!state) return std::unexpected(std::move(state).error());
      if (const std::optional<Error>& set_back = state->set_back; set_back && !lift.closed)
        return std::unexpected(*set_back);
      if (record.reading.is_double && lift.last > kLargestInDouble)
        return std::unexpected(after_a_write(beyond_a_double(*record.adopted, lift.last)));
      again = again || !is_lifted(*state);
      states.insert_or_assign(counter, *std::move(state));
    }
    if (!again) counters = counters.subspan(batch.size());
  }
  return states;
}

Result<void> CounterTable::can_extend(std::span<const std::string> counters, std::int64_t last,
                                      SteadyTime until) {
  if (last <= kLargestInDouble) return {};
  constexpr std::size_t kAtOnce = 5000;  // 6 MB at most; a message may have 16 MB
  for (std::size_t from = 0; from < counters.size(); from += kAtOnce) {
    const auto found =
        read_records(counters.subspan(from, std::min(kAtOnce, counters.size() - from)), until);
    if (!found) return std::unexpected(found.error());
    for (const auto& [name, record] : *found)
      if (record.reading.is_double && record.whole)
        return std::unexpected(beyond_a_double(*record.adopted, last));
  }
  return {};
}

Result<CounterStates> CounterTable::read_counters(std::span<const std::string> counters,
                                                  SteadyTime until) {
  CounterStates there;
  for (const std::string& counter : counters) {
    Result<CounterState> state = read_counter(counter, until);
    if (state)
      there.insert_or_assign(counter, *std::move(state));
    else if (state.error().code != Code::kNotFound)
      return std::unexpected(std::move(state.error()));
  }
  return there;
}

Result<std::vector<CounterState>> CounterTable::list_counters(std::string_view prefix,
                                                              SteadyTime until) {
  // A prefix may end inside a character.
  std::string_view from = prefix;
  while (!Bson::is_utf8(from)) from.remove_suffix(1);
  Records found;
  const Result<void> read =
      database_.read_all(kCounters, from, until, [&](const Document& document) {
        const auto name = document.bytes("_id");
        if (!name) return true;
        if (name->starts_with(prefix))
          found.insert_or_assign(std::string(*name), record_of(document));
        return name->starts_with(from) || !Bson::is_utf8(*name);
      });
  if (!read) return std::unexpected(read.error());
  if (Result<void> ours = take_over_others(found, until); !ours)
    return std::unexpected(std::move(ours.error()));
  if (Result<void> filled = read_adopted_of(found, until); !filled)
    return std::unexpected(std::move(filled.error()));
  remember(found);
  std::vector<CounterState> states;
  for (const auto& [name, record] : found) {
    Result<CounterState> state = checked(record, name);
    if (!state) return std::unexpected(std::move(state.error()));
    states.push_back(*std::move(state));
  }
  return states;
}

}  // namespace idmint::stores::mongodb
