#include "stores/mongodb/adopted.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "stores/backend.h"

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
    wrong += ", and must be an int, a long or a double";
  }
  return {.wrong = std::move(wrong)};
}

// ---- expressions

std::string field_of(const std::string& name) { return "\"$" + name + "\""; }

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
  const auto& [collection, id, field, holds_last, max, validator] = adopted.record;
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
  Bson query;
  query.add("_id", std::string_view(id)).add(field.c_str(), number_type);
  if (!max.empty()) query.add(max.c_str(), number_type);
  query.add("$expr", knowing_types(adopted, expression));
  return query;
}

// Sets FIELD to `value`, and keeps its type.
Bson field_becomes(const Adopted& adopted, const std::string& value) {
  const std::string kept = R"({"$let":{"vars":{"then":)" + value +
                           R"(},"in":{"$cond":["$$is_double",{"$toDouble":"$$then"},)"
                           R"({"$cond":[{"$and":["$$is_int",{"$lte":["$$then",2147483647]}]},)"
                           R"({"$toInt":"$$then"},{"$toLong":"$$then"}]}]}}})";
  Bson set;
  set.add(adopted.record.field.c_str(), knowing_types(adopted, knowing_values(adopted, kept)));
  return std::move(Bson().add("0", Bson().add("$set", set)));
}

}  // namespace

std::string place_of(const AdoptedRecord& record) {
  return "the document " + shown(record.id) + " in " + record.collection;
}

Bson record_for(const Adopted& adopted) {
  const auto& [collection, id, field, holds_last, max, validator] = adopted.record;
  Bson place;
  place.add("collection", std::string_view(collection))
      .add("id", std::string_view(id))
      .add("field", std::string_view(field))
      .add("holds_last", holds_last)
      .add("max", std::string_view(max));
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
  const auto id = place.bytes("id");
  const auto field = place.bytes("field");
  const auto holds_last = place.boolean("holds_last");
  const auto max = place.bytes("max");
  bool whole = collection && id && field && holds_last && max;
  if (whole) {
    adopted.record = {.collection = std::string(*collection),
                      .id = std::string(*id),
                      .field = std::string(*field),
                      .holds_last = *holds_last,
                      .max = std::string(*max)};
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
  const auto& [collection, id, field, holds_last, max, validator] = adopted.record;
  Bson document;
  document.add("_id", std::string_view(id))
      .add(field.c_str(), adopted.bounds.first - ahead(adopted));
  if (!max.empty()) document.add(max.c_str(), adopted.bounds.last);
  if (field == "COUNT") document.add("NOTES", kNotes);
  return document;
}

Reading read_adopted(const Adopted& adopted, const Document& document) {
  const AdoptedRecord& record = adopted.record;
  Reading reading{.state = {adopted.name, adopted.bounds, adopted.bounds.first, false}};
  const Whole now = whole_number(document, record.field);
  reading.wrong = now.wrong;
  if (!reading.wrong.empty()) return reading;
  reading.is_double = now.is_double;
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
  reading.state.closed = document.boolean(kClosed).value_or(false);
  return reading;
}

Bson whole_document(const Adopted& adopted) { return document_where(adopted, "true"); }

Bson document_with(const Adopted& adopted, std::int64_t least) {
  Bson query = document_where(adopted, R"({"$gte":[{"$subtract":["$$last","$$now"]},)" +
                                           number(least - 1 + ahead(adopted)) + "]}");
  query.add(kClosed, Bson().add("$ne", true));
  return query;
}

Bson take_up_to(const Adopted& adopted, std::int64_t count) {
  return field_becomes(adopted, R"({"$add":["$$now",{"$min":[)" + number(count) +
                                    R"(,{"$add":[{"$subtract":["$$last","$$now"]},)" +
                                    number(1 - ahead(adopted)) + "]}]}]}");
}

Bson raise_to(const Adopted& adopted, std::int64_t floor) {
  return field_becomes(adopted, R"({"$max":["$$now",{"$subtract":[{"$min":[)" +
                                    number(std::max(floor, adopted.bounds.first)) +
                                    R"(,{"$add":["$$last",1]}]},)" + number(ahead(adopted)) +
                                    "]}]}");
}

Bson extend_to(const Adopted& adopted, std::int64_t last) {
  const std::string& max = adopted.record.max;
  // Nothing changes in the document then: the value is set to itself.
  if (max.empty()) return raise_to(adopted, 0);
  Bson set;
  set.add(max.c_str(), knowing_types(adopted, R"({"$cond":[{"$and":["$$is_double",{"$gt":[)" +
                                                  number(last) + "," + number(kLargestInDouble) +
                                                  "]}]}," + field_of(max) + R"(,{"$max":[)" +
                                                  field_of(max) + "," + number(last) + "]}]}"));
  return std::move(Bson().add("0", Bson().add("$set", set)));
}

Bson close_document() { return Bson(R"({"0":{"$set":{")" + std::string(kClosed) + R"(":true}}})"); }

Bson validator_for(const AdoptedRecord& record) {
  const std::string passes = R"({"$gt":[)" + field_of(record.field) + R"(,{"$add":[)" +
                             field_of(record.max) + "," +
                             std::to_string(record.holds_last ? 0 : 1) + "]}]}";
  return Bson(R"({"$expr":{"$not":[{"$cond":[{"$isNumber":)" + field_of(record.max) + "}," +
              passes + ",false]}]}}");
}

}  // namespace idmint::stores::mongodb
