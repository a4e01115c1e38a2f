#include "restore/fence/handed_out.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/errors.h"
#include "mongo/bson.h"
#include "restore/fence/shapes.h"
#include "restore/namespaces.h"
#include "restore/oplog/changes.h"
#include "restore/oplog/operation_text.h"
#include "restore/oplog/transactions.h"

namespace idmint::restore {
namespace {

constexpr std::string_view kOwnPrefix = "idmint.";
constexpr std::string_view kWorkers = "idmint.workers";
constexpr std::string_view kClaims = "idmint.claims";

// {_id: ID} of the operation's document. Empty: it has none.
std::string id_bytes(const Operation& operation) {
  Bson id;
  if (!id.add_from(operation.op == Op::kInsert ? operation.o : operation.o2, "_id")) return {};
  return std::string(id.view().raw());
}

std::string field_name(std::string_view ns, std::string_view field) {
  return std::string(ns).append(".").append(field);
}

// The _id of the operation's document, if it is a text. Names of sequences are.
std::string id_text(const Operation& operation) {
  return text_of(operation.op == Op::kInsert ? operation.o : operation.o2, "_id");
}

// Calls take(path, value) for each value that an insert or an update sets.
template <class Take>
void for_each_value(const Operation& operation, std::string& path, const Take& take) {
  if (operation.op == Op::kInsert) {
    for (const Field& field : Fields(operation.o)) take(field.key, field);
    return;
  }
  for_each_change(operation.o, path, [&](std::string_view at, Change change, const Field& value) {
    if (change != Change::kUnset) take(at, value);
  });
}

}  // namespace

AdoptedPlace place_in(const std::string& counter, Document adopted) {
  Bson id;
  id.add_from(adopted, "id", "_id");
  return {.counter = counter,
          .collection = text_of(adopted, "collection"),
          .id = std::string(id.view().raw()),
          .field = text_of(adopted, "field"),
          .holds_last = adopted.boolean("holds_last").value_or(false)};
}

bool is_same_source(const Definition& one, const Definition& other) {
  if (one.index() != other.index()) return false;
  if (const auto* const pool = std::get_if<PoolDefinition>(&one)) {
    PoolDefinition compared = std::get<PoolDefinition>(other);
    compared.retired = pool->retired;
    compared.largest_count = pool->largest_count;
    return compared == *pool;
  }
  const auto& sequence = std::get<SequenceDefinition>(one);
  SequenceDefinition compared = std::get<SequenceDefinition>(other);
  compared.retired = sequence.retired;
  compared.largest_count = sequence.largest_count;
  compared.move = sequence.move;
  // The end never moves if the values depend on it.
  if (sequence.strategy != Strategy::kPermuted && sequence.strategy != Strategy::kStriped)
    compared.last = sequence.last;
  return compared == sequence;
}

void HandedOutCounter::reach(std::int64_t value) {
  constexpr std::size_t kMost = 8;
  if (value == next) return;
  const std::int64_t other = std::min(value, next);
  next = std::max(value, next);
  const auto at = std::ranges::lower_bound(lower, other, std::ranges::greater{});
  if (at != lower.end() && *at == other) return;
  lower.insert(at, other);
  if (lower.size() > kMost) lower.pop_back();
}

void HandedOutStore::take_definition(const std::string& name, std::string_view json) {
  Result<Definition> definition = definition_from_json(json);
  if (!definition) {
    unreadable[name] = definition.error().message();
    return;
  }
  const auto there = definitions.find(name);
  if (there != definitions.end() && !is_same_source(there->second, *definition))
    redefined.insert(name);
  definitions.insert_or_assign(name, *std::move(definition));
}

void unite(HandedOutStore& store, const HandedOutStore& newer) {
  for (const auto& [name, definition] : newer.definitions) {
    const auto there = store.definitions.find(name);
    if (there != store.definitions.end() && !is_same_source(there->second, definition))
      store.redefined.insert(name);
    store.definitions.insert_or_assign(name, definition);
  }
  store.redefined.insert(newer.redefined.begin(), newer.redefined.end());
  store.unreadable.insert(newer.unreadable.begin(), newer.unreadable.end());
  for (const auto& [name, counter] : newer.counters) {
    const auto [there, is_new] = store.counters.emplace(name, counter);
    if (is_new) continue;
    HandedOutCounter& into = there->second;
    into.reach(counter.next);
    for (const std::int64_t value : counter.lower) into.reach(value);
    into.last = std::max(into.last, counter.last);
    if (!counter.numbers.empty()) into.numbers = counter.numbers;
  }
  for (const auto& [name, place] : newer.adopted) store.adopted.insert_or_assign(name, place);
  for (const auto& [collection, bound] : newer.bounds) {
    std::int64_t& largest = store.bounds[collection];
    largest = std::max(largest, bound);
  }
  for (const auto& [collection, claims] : newer.claims) {
    std::vector<std::int64_t>& all = store.claims[collection];
    all.insert(all.end(), claims.begin(), claims.end());
  }
}

void watch_adopted(const HandedOutStores& stores, WatchedFields& watched) {
  for (const auto& [database, store] : stores)
    for (const auto& [counter, place] : store.adopted)
      watched[database + "." + place.collection].insert(place.field);
}

void take_adopted(const HandedOut& oplog, const HandedOutStores& stores, HandedOutStores& into) {
  for (const auto& [database, store] : stores) {
    for (const auto& [counter, place] : store.adopted) {
      const auto history =
          oplog.fields.find({database + "." + place.collection, place.field, place.id});
      if (history == oplog.fields.end()) continue;
      into[database].counters[counter].reach(place.next_of(history->second.largest));
    }
  }
}

HandedOutReader::HandedOutReader(WatchedFields watched, std::optional<Timestamp> limit,
                                 std::size_t most_documents, HandedOutScope scope)
    : watched_(std::move(watched)), limit_(limit), most_documents_(most_documents), scope_(scope) {}

Result<void> HandedOutReader::add(const Entry& entry) {
  if (found_.entries != 0 && entry.at.ts <= at_)
    return fail(Code::kDataLoss, "the entry " + print_timestamp(entry.at.ts) +
                                     " comes after the entry " + print_timestamp(at_) +
                                     ": the oplog is out of order; dump it again");
  at_ = entry.at.ts;
  if (found_.entries++ == 0) found_.first = at_;
  found_.last = entry.at;
  return for_each_operation(entry, [&](const Operation& operation, std::uint32_t) -> Result<void> {
    take(operation);
    return {};
  });
}

void HandedOutReader::take(const Operation& operation) {
  if (operation.op != Op::kInsert && operation.op != Op::kUpdate) return;
  if (is_own_database(operation.database())) return;
  const std::string_view collection = operation.collection();
  if (collection.starts_with("system.")) return;
  if (operation.ui.size() == 16 && scope_ == HandedOutScope::kAll)
    found_.uuids.insert_or_assign(std::string(operation.ns), std::string(operation.ui));
  if (collection.starts_with(kOwnPrefix)) return take_of_idmint(operation, collection);
  if (scope_ == HandedOutScope::kAll || watched_.contains(operation.ns)) take_fields(operation);
}

void HandedOutReader::take_of_idmint(const Operation& operation, std::string_view collection) {
  HandedOutStore& store = found_.stores[std::string(operation.database())];
  std::string path;
  if (collection == "idmint.definitions") {
    if (limit_ && at_ < *limit_) return;
    const std::string name = id_text(operation);
    for_each_value(operation, path, [&](std::string_view at, const Field& value) {
      if (at == "json" && !name.empty()) store.take_definition(name, value.text());
    });
  } else if (collection == "idmint.counters") {
    take_counter(operation, store);
  } else if (collection.starts_with(kWorkers)) {
    for_each_value(operation, path, [&](std::string_view at, const Field& value) {
      const std::optional<std::int64_t> bound =
          at == "minted_until" ? value.integer() : std::nullopt;
      if (!bound || *bound >= kClosedBound) return;
      std::int64_t& largest = store.bounds[std::string(collection)];
      largest = std::max(largest, *bound);
    });
  } else if (collection.starts_with(kClaims) && operation.op == Op::kInsert) {
    if (scope_ == HandedOutScope::kStores && limit_ && at_ < *limit_) return;
    if (const auto claim = operation.o.integer("_id"))
      store.claims[std::string(collection)].push_back(*claim);
  }
}

void HandedOutReader::take_counter(const Operation& operation, HandedOutStore& store) {
  const std::string name = id_text(operation);
  if (name.empty()) return;
  HandedOutCounter& counter = store.counters[name];
  std::string path;
  for_each_value(operation, path, [&](std::string_view at, const Field& value) {
    const std::optional<std::int64_t> number = value.integer();
    if (at == "next" && number) counter.reach(*number);
    if (at == "last" && number) counter.last = std::max(counter.last, *number);
    if (at == "first" && number) counter.first = *number;
    if (at == "stride" && number && *number > 0) counter.stride = *number;
    if (at == "numbers" && !value.text().empty()) counter.numbers = value.text();
    if (at != "adopted") return;
    if (!value.document()) return;
    const AdoptedPlace place = place_in(name, value.document());
    store.adopted.insert_or_assign(name, place);
    const std::string ns = std::string(operation.database()) + "." + place.collection;
    if (!is_watched(ns, place.field)) missed_[ns].insert(place.field);
  });
}

bool HandedOutReader::is_watched(std::string_view ns, std::string_view field) const {
  const auto of_ns = watched_.find(ns);
  return of_ns != watched_.end() && of_ns->second.contains(field);
}

bool HandedOutReader::may_count(std::string_view ns, std::string_view field) const {
  return (scope_ == HandedOutScope::kAll && is_classic_field(field)) || is_watched(ns, field);
}

void HandedOutReader::take_fields(const Operation& operation) {
  std::string path;
  const bool insert = operation.op == Op::kInsert;
  if (insert) {
    for (const Field& field : Fields(operation.o)) {
      if (!may_count(operation.ns, field.key)) continue;
      const bool shaped = is_watched(operation.ns, field.key) ||
                          !classic_recipe(operation.collection(), operation.o, field.key).empty();
      if (shaped) counted(operation, field.key, field, true);
    }
    return;
  }
  for_each_value(operation, path, [&](std::string_view at, const Field& value) {
    if (may_count(operation.ns, at)) {
      counted(operation, at, value, false);
    } else if (scope_ == HandedOutScope::kAll && at != "_id" &&
               !at.starts_with("next_by_idmint.")) {  // beside what idmint adopted
      rising(operation, at, value);
    }
  });
}

void HandedOutReader::counted(const Operation& operation, std::string_view name, const Field& value,
                              bool insert) {
  const std::string of_field = field_name(operation.ns, name);
  if (found_.too_many.contains(of_field)) return;
  const auto [at, is_new] = found_.fields.try_emplace(
      CountedField{std::string(operation.ns), std::string(name), id_bytes(operation)});
  if (is_new && ++documents_[of_field] > most_documents_ && !is_watched(operation.ns, name)) {
    found_.too_many.insert(of_field);
    std::erase_if(found_.fields, [&](const auto& each) {
      return each.first.ns == operation.ns && each.first.field == name;
    });
    return;
  }
  FieldHistory& history = at->second;
  if (insert) history.made = operation.o.raw();
  const std::optional<CountedNumber> number = counted_number(value);
  if (!number) {
    history.odd = type_text(value.type);
    return;
  }
  if (is_new) {
    history.last = history.largest = number->value;
    return;
  }
  if (number->value > history.last) {
    ++history.rises;
    std::int64_t step = 0;
    if (!__builtin_sub_overflow(number->value, history.last, &step))
      history.largest_step = std::max(history.largest_step, step);
  } else if (number->value < history.last) {
    ++(limit_ && at_ >= *limit_ ? history.late_falls : history.falls);
  }
  history.last = number->value;
  history.largest = std::max(history.largest, number->value);
}

void HandedOutReader::rising(const Operation& operation, std::string_view path,
                             const Field& value) {
  const std::optional<CountedNumber> number = counted_number(value);
  if (!number) return;
  // The exact value, with the fraction of a double.
  const auto now = value.type == BSON_TYPE_DOUBLE ? static_cast<long double>(value.real())
                                                  : static_cast<long double>(number->value);
  const std::string of_field = field_name(operation.ns, path);
  std::string key = of_field;
  key.push_back('\0');
  key += id_bytes(operation);
  const auto latest = latest_.find(key);
  if (latest == latest_.end()) {
    if (latest_.size() >= kMostRising) {
      found_.rising_left_out = true;
      return;
    }
    latest_.emplace(std::move(key), now);
    RisingField& field = rising_[of_field];
    field.ns = operation.ns;
    field.field = path;
    ++field.documents;
    return;
  }
  RisingField& field = rising_[of_field];
  if (now > latest->second) ++field.rises;
  if (now < latest->second) ++field.falls;
  latest->second = now;
}

HandedOut HandedOutReader::finish() {
  for (auto& [name, field] : rising_)
    if (field.only_rose()) found_.rising.push_back(std::move(field));
  std::ranges::sort(found_.rising, std::ranges::greater{}, &RisingField::rises);
  std::erase_if(found_.fields, [](const auto& each) { return each.first.id.empty(); });
  for (auto& [database, store] : found_.stores) {
    for (auto& [collection, claims] : store.claims) {
      std::ranges::sort(claims);
      claims.erase(std::ranges::unique(claims).begin(), claims.end());
    }
  }
  return std::move(found_);
}

}  // namespace idmint::restore
