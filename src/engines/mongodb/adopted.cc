#include "engines/mongodb/adopted.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engines/mongodb/names.h"
#include "store/backend.h"

namespace idmint::stores::mongodb {
namespace {

constexpr const char* kClosed = "closed_by_idmint";

constexpr const char* kNotes =
    "Increment COUNT using findAndModify to ensure that the COUNT field will be incremented "
    "atomically with the fetch of this document";

// The distance from FIELD to the next value.
std::int64_t ahead(const Adopted& adopted) { return adopted.record.holds_last ? 1 : 0; }

// ---- reading

struct TypeName {
  bson_type_t type;
  std::string_view name;
};
constexpr std::array kTypeNames = {
    TypeName{BSON_TYPE_EOD, "missing"},
    TypeName{BSON_TYPE_UTF8, "a string"},
    TypeName{BSON_TYPE_NULL, "null"},
    TypeName{BSON_TYPE_BOOL, "a boolean"},
    TypeName{BSON_TYPE_DECIMAL128, "a decimal"},
    TypeName{BSON_TYPE_DATE_TIME, "a date"},
    TypeName{BSON_TYPE_DOCUMENT, "a document"},
    TypeName{BSON_TYPE_ARRAY, "an array"},
};

struct Whole {
  std::int64_t value = 0;
  bool is_double = false;
  std::string wrong{};
};

// A number that counts in exact steps of one.
Whole whole_number(const Document& document, const std::string& field) {
  const char* const key = field.c_str();
  if (const auto integer = document.integer(key)) return {*integer};
  const auto real = document.real(key);
  if (real && *real == std::trunc(*real) && std::abs(*real) < 0x1p53)
    return {static_cast<std::int64_t>(*real), true};
  std::string wrong = field + " is ";
  if (real) {
    wrong += std::abs(*real) >= 0x1p53
                 ? "a double of 2^53 or more, which does not count by one: make it a NumberLong"
                 : "not a whole number";
  } else {
    const auto* const row = std::ranges::find(kTypeNames, document.type(key), &TypeName::type);
    wrong += row != kTypeNames.end() ? row->name : "not a number";
    wrong += ", and must be an int, a long or a double: make it a NumberLong";
  }
  return {.wrong = std::move(wrong)};
}

// ---- expressions

std::string field_of(const std::string& name) { return "\"$" + name + "\""; }

std::string floor_name(const Adopted& adopted) {
  return std::string(kFloors) + "." + adopted.record.field;
}

std::string has_floor(const Adopted& adopted) {
  return R"({"$isNumber":)" + field_of(floor_name(adopted)) + "}";
}

// True, with $$now, for an open document that was not set back. No sum overflows: $$now is a value
// below 2^63 - 1, or past the end, and then there is nothing to take.
std::string is_above_floor(const Adopted& adopted) {
  const std::string above = R"({"$gte":["$$now",{"$subtract":[)" + field_of(floor_name(adopted)) +
                            "," + number(ahead(adopted)) + "]}]}";
  return R"({"$cond":[)" + has_floor(adopted) + "," + above + "," +
         (adopted.has_floor ? "false" : "true") + "]}";
}

Bson type_is(const std::string& field, std::string_view type) {
  Bson both;
  both.add("0", Bson().add("$type", std::string_view("$" + field))).add("1", type);
  return std::move(Bson().add_array("$eq", both));
}

// `expression` with the variables $$is_int, $$is_double and $$max_is_double. (In JSON, "$type"
// denotes binary data.)
Bson knowing_types(const Adopted& adopted, const std::string& expression) {
  const AdoptedRecord& record = adopted.record;
  Bson types;
  types.add("is_int", type_is(record.field, "int"))
      .add("is_double", type_is(record.field, "double"))
      .add("max_is_double", type_is(record.max.empty() ? record.field : record.max, "double"));
  return std::move(Bson().add("$let", Bson().add("vars", types).add("in", Bson(expression))));
}

// `expression` with the variables $$now (FIELD) and $$last (the last value), both longs.
std::string knowing_values(const Adopted& adopted, const std::string& expression) {
  const std::string max = adopted.record.max.empty() ? "" : "," + field_of(adopted.record.max);
  return R"({"$let":{"vars":{"now":{"$toLong":)" + field_of(adopted.record.field) +
         R"(},"last":{"$toLong":{"$min":[)" + number(adopted.bounds.last) + max +
         R"(,{"$cond":["$$is_double",)" + number(kLargestInDouble) + "," + number(kLargestValue) +
         R"(]}]}}},"in":)" + expression + "}}";
}

// The conditions of read_adopted(), and `condition`. Evaluated in order: each is defined only if
// the ones before it hold.
Bson document_where(const Adopted& adopted, const std::string& condition) {
  const std::string& field = adopted.record.field;
  const std::string& max = adopted.record.max;
  const auto is_whole = [](const std::string& name, std::string_view is_double) {
    return R"({"$eq":[{"$trunc":)" + name + "}," + name + R"(]},{"$or":[{"$not":["$$)" +
           std::string(is_double) + R"("]},{"$lt":[)" + name + "," + number(std::int64_t{1} << 53) +
           "]}]}";
  };
  std::string numbers = R"({"$isNumber":)" + field_of(field) + "}";
  std::string values = is_whole(field_of(field), "is_double") + R"(,{"$gte":[)" + field_of(field) +
                       "," + number(adopted.bounds.first - ahead(adopted)) + "]}";
  if (!max.empty()) {
    numbers += R"(,{"$isNumber":)" + field_of(max) + "}";
    values += "," + is_whole(field_of(max), "max_is_double") + R"(,{"$gte":[)" + field_of(max) +
              "," + number(adopted.bounds.first) + "]}";
  }
  const std::string expression = R"({"$cond":[{"$and":[)" + numbers + R"(]},{"$cond":[{"$and":[)" +
                                 values + "]}," + knowing_values(adopted, condition) +
                                 ",false]},false]}";
  Bson number_type;
  number_type.add_array("$type", Bson().add("0", "int").add("1", "long").add("2", "double"));
  Bson query = filter_of(adopted.record);
  query.add(field.c_str(), number_type);
  if (!max.empty()) query.add(max.c_str(), number_type);
  query.add("$expr", knowing_types(adopted, expression));
  return query;
}

// The value with the type of FIELD.
std::string typed(const std::string& value) {
  return R"({"$let":{"vars":{"then":)" + value +
         R"(},"in":{"$cond":["$$is_double",{"$toDouble":"$$then"},)"
         R"({"$cond":[{"$and":["$$is_int",{"$lte":["$$then",2147483647]}]},)"
         R"({"$toInt":"$$then"},{"$toLong":"$$then"}]}]}}})";
}

// Sets FIELD to `value`, and keeps its type; and the floor to `floor`. Both are expressions of the
// document before.
Bson field_becomes(const Adopted& adopted, const std::string& value, const std::string& floor) {
  const auto knowing_all = [&](const std::string& expression) {
    return knowing_types(adopted, knowing_values(adopted, expression));
  };
  Bson set;
  set.add(adopted.record.field.c_str(), knowing_all(typed(value)));
  if (adopted.may_floor) set.add(floor_name(adopted).c_str(), knowing_all(floor));
  return std::move(Bson().add("0", Bson().add("$set", set)));
}

// The next value if FIELD has `value`.
std::string next_of(const Adopted& adopted, const std::string& value) {
  return R"({"$toLong":{"$add":[)" + value + "," + number(ahead(adopted)) + "]}}";
}

}  // namespace

std::string place_of(const AdoptedRecord& record) {
  const AdoptedRecord whole{.collection = "", .id = record.id, .type = record.type};
  return "the document " + shown(spelled(whole).substr(1)) + " in " + record.collection;
}

Bson record_for(const Adopted& adopted) {
  const AdoptedRecord& record = adopted.record;
  const Bson filter = filter_of(record);
  bson_iter_t id;
  Bson place;
  place.add("collection", std::string_view(record.collection));
  if (filter.view().find("_id", &id)) place.add("id", &id);
  place.add("field", std::string_view(record.field))
      .add("holds_last", record.holds_last)
      .add("max", std::string_view(record.max))
      .add("floor", adopted.has_floor);
  return std::move(Bson()
                       .add("_id", std::string_view(adopted.name))
                       .add("first", adopted.bounds.first)
                       .add("last", adopted.bounds.last)
                       .add("stride", adopted.bounds.stride)
                       .add("adopted", place));
}

std::shared_ptr<const Adopted> adopted_in(const Document& record) {
  Adopted adopted{.name = std::string(record.bytes("_id").value_or(""))};
  const Document place = record.document("adopted");
  const auto collection = place.bytes("collection");
  bson_iter_t id;
  const auto field = place.bytes("field");
  const auto holds_last = place.boolean("holds_last");
  const auto max = place.bytes("max");
  bool whole = collection && place.find("id", &id) && field && holds_last && max;
  if (whole) {
    adopted.record = with_id({.collection = std::string(*collection),
                              .field = std::string(*field),
                              .holds_last = *holds_last,
                              .max = std::string(*max)},
                             id);
    adopted.has_floor = place.boolean("floor").value_or(false);
    adopted.closed = record.boolean("closed").value_or(false);
    whole = adopted_from_text(to_text(adopted.record)).has_value();
  }
  const auto first = record.integer("first");
  const auto last = record.integer("last");
  whole = whole && first && last && record.integer("stride") == 1 &&
          (adopted.record.holds_last ? 1 : 0) <= *first && *first <= *last &&
          *last <= kLargestValue;
  if (!whole) return nullptr;
  adopted.bounds = {*first, *last};
  return std::make_shared<const Adopted>(std::move(adopted));
}

Bson new_document(const Adopted& adopted) {
  const std::string& field = adopted.record.field;
  const std::string& max = adopted.record.max;
  Bson document = filter_of(adopted.record);
  document.add(field.c_str(), adopted.bounds.first - ahead(adopted));
  if (!max.empty()) document.add(max.c_str(), adopted.bounds.last);
  if (field == "COUNT") document.add("NOTES", kNotes);
  return document;
}

Reading read_adopted(const Adopted& adopted, const Document& document) {
  const AdoptedRecord& record = adopted.record;
  Reading reading{.state = {adopted.name, adopted.bounds, adopted.bounds.first, false}};
  reading.all_closed = document.boolean(kClosed).value_or(false);
  document.each_text(kClosed,
                     [&](std::string_view name) { reading.closed.insert(std::string(name)); });
  reading.state.closed =
      adopted.closed || reading.all_closed || reading.closed.contains(adopted.name);
  const Whole now = whole_number(document, record.field);
  reading.wrong = now.wrong;
  if (!reading.wrong.empty()) return reading;
  reading.is_double = now.is_double;
  const std::string name = floor_name(adopted);
  const Document floors = document.document(kFloors);
  bson_iter_t at;
  const std::optional<std::int64_t> floor =
      floors.find(record.field.c_str(), &at) ? mongo::as_integer(at) : std::nullopt;
  reading.is_floored = floor.has_value();
  reading.state.no_floor = !reading.is_floored;
  if (floor ? now.value < *floor - ahead(adopted) : adopted.has_floor) {
    const std::string is = record.field + " is " + std::to_string(now.value);
    reading.set_back = floor ? "was set back: its next value is " +
                                   std::to_string(now.value + ahead(adopted)) + ", and was " +
                                   std::to_string(*floor) + " when idmint took from it last (" +
                                   is + ", " + name + ")"
                             : "was replaced or made anew: " + is + ", and " + name +
                                   ", the next value that idmint knows, is gone";
  }
  if (!record.max.empty()) {
    const Whole max = whole_number(document, record.max);
    reading.wrong = max.wrong;
    if (reading.wrong.empty() && max.value < adopted.bounds.first)
      reading.wrong = record.max + " is " + std::to_string(max.value) +
                      ", below the first value, which is " + std::to_string(adopted.bounds.first);
    if (!reading.wrong.empty()) return reading;
    reading.max = max.value;
  }
  if (now.value < adopted.bounds.first - ahead(adopted)) {
    reading.below = now.value + ahead(adopted);
    reading.wrong = record.field + " is " + std::to_string(now.value) +
                    ", below the first value, which is " + std::to_string(adopted.bounds.first);
    return reading;
  }
  std::int64_t& last = reading.state.bounds.last;
  last = std::min({last, reading.max, now.is_double ? kLargestInDouble : kLargestValue});
  // Programs that do not check the last value first leave the field beyond it.
  reading.state.next = now.value > last ? last + 1 : now.value + ahead(adopted);
  if (!reading.set_back.empty() && floor) reading.state.next = std::min(*floor, last + 1);
  return reading;
}

Bson whole_document(const Adopted& adopted) { return document_where(adopted, "true"); }

Bson any_document(const Adopted& adopted) { return filter_of(adopted.record); }

Bson document_with(const Adopted& adopted, std::int64_t least) {
  const std::string enough =
      R"({"$gte":[{"$subtract":["$$last","$$now"]},)" + number(least - 1 + ahead(adopted)) + "]}";
  Bson query =
      document_where(adopted, R"({"$and":[)" + enough + "," + is_above_floor(adopted) + "]}");
  Bson closed;
  closed.add("0", true).add("1", std::string_view(adopted.name));
  query.add(kClosed, Bson().add_array("$nin", closed));
  return query;
}

Bson take_up_to(const Adopted& adopted, std::int64_t count) {
  const std::string then = R"({"$add":["$$now",{"$min":[)" + number(count) +
                           R"(,{"$add":[{"$subtract":["$$last","$$now"]},)" +
                           number(1 - ahead(adopted)) + "]}]}]}";
  return field_becomes(adopted, then, next_of(adopted, then));
}

// A document that was set back is raised to its floor at least. A floor that was lost comes back
// only if FIELD goes up: a raise to below what is there says nothing of the values above it.
Bson raise_to(const Adopted& adopted, std::int64_t floor) {
  const std::string wanted = R"({"$subtract":[{"$min":[)" +
                             number(std::max(floor, adopted.bounds.first)) +
                             R"(,{"$add":["$$last",1]}]},)" + number(ahead(adopted)) + "]}";
  const std::string known = field_of(floor_name(adopted));
  const std::string then = R"({"$max":["$$now",)" + wanted + R"(,{"$cond":[)" + has_floor(adopted) +
                           R"(,{"$subtract":[)" + known + "," + number(ahead(adopted)) +
                           R"(]},"$$now"]}]})";
  const std::string kept = adopted.has_floor ? R"({"$cond":[{"$gt":[)" + wanted + R"(,"$$now"]},)" +
                                                   next_of(adopted, wanted) + "," + known + "]}"
                                             : next_of(adopted, then);
  return field_becomes(adopted, then,
                       R"({"$cond":[)" + has_floor(adopted) + R"(,{"$max":[)" + known + "," +
                           next_of(adopted, wanted) + "]}," + kept + "]}");
}

Bson begin_floor(const Adopted& adopted, bool keep, const std::set<std::string>& closed) {
  const std::string next = next_of(adopted, R"({"$min":["$$now","$$last"]})");
  const std::string floor =
      keep ? R"({"$max":[)" + field_of(floor_name(adopted)) + "," + next + "]}" : next;
  Bson names;
  int count = 0;
  for (const std::string& name : closed)
    names.add(std::to_string(count++).c_str(), std::string_view(name));
  Bson is_all;
  is_all.add("0", std::string_view(std::string("$") + kClosed)).add("1", true);
  Bson choice;
  choice.add("0", Bson().add_array("$eq", is_all))
      .add("1", Bson().add("$literal", BsonArray{std::move(names)}))
      .add("2", std::string_view(std::string("$") + kClosed));
  Bson set;
  set.add(floor_name(adopted).c_str(), knowing_types(adopted, knowing_values(adopted, floor)))
      .add(kClosed, Bson().add_array("$cond", choice));
  return std::move(Bson().add("0", Bson().add("$set", set)));
}

Bson extend_to(const Adopted& adopted, std::int64_t last) {
  const std::string& max = adopted.record.max;
  // Nothing changes in the document then: the value is set to itself.
  if (max.empty())
    return Bson(R"({"0":{"$set":{")" + adopted.record.field +
                "\":" + field_of(adopted.record.field) + "}}}");
  Bson set;
  set.add(max.c_str(), knowing_types(adopted, R"({"$cond":[{"$and":["$$is_double",{"$gt":[)" +
                                                  number(last) + "," + number(kLargestInDouble) +
                                                  "]}]}," + field_of(max) + R"(,{"$max":[)" +
                                                  field_of(max) + "," + number(last) + "]}]}"));
  return std::move(Bson().add("0", Bson().add("$set", set)));
}

Bson close_document(const Adopted& adopted) {
  const std::string closed = std::string("$") + kClosed;
  Bson name;
  name.add("0", std::string_view(adopted.name));
  const auto literal = [&] { return Bson().add("$literal", BsonArray{name.copy()}).copy(); };
  Bson both;
  both.add("0", std::string_view(closed)).add("1", literal());
  Bson of_array;
  of_array.add("0", Bson().add("$isArray", std::string_view(closed)))
      .add("1", Bson().add_array("$setUnion", both))
      .add("2", literal());
  Bson is_all;
  is_all.add("0", std::string_view(closed)).add("1", true);
  Bson choice;
  choice.add("0", Bson().add_array("$eq", is_all))
      .add("1", true)
      .add("2", Bson().add_array("$cond", of_array));
  Bson set;
  set.add(kClosed, Bson().add_array("$cond", choice));
  return std::move(Bson().add("0", Bson().add("$set", set)));
}

Bson validator_for(const AdoptedRecord& record) {
  const std::string passes = R"({"$gt":[)" + field_of(record.field) + R"(,{"$add":[)" +
                             field_of(record.max) + "," +
                             std::to_string(record.holds_last ? 0 : 1) + "]}]}";
  return Bson(R"({"$expr":{"$not":[{"$cond":[{"$isNumber":)" + field_of(record.max) + "}," +
              passes + ",false]}]}}");
}

}  // namespace idmint::stores::mongodb
