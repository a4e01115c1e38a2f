#include "restore/fence/shapes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "base/errors.h"
#include "base/text.h"
#include "restore/namespaces.h"

namespace idmint::restore {
namespace {

constexpr double kPast64Bits = 9223372036854775808.0;           // 2^63
constexpr std::int64_t kExactInDouble = std::int64_t{1} << 53;  // larger ones cannot count by one

struct Recipe {
  std::string_view field;
  std::string_view name;
  std::string_view collection;  // empty: any
  bool has_largest;             // it has MAXCOUNT or MAX_VALUE
};
constexpr std::array kClassicRecipes = {
    Recipe{"COUNT", "COUNT and MAXCOUNT", "", true},
    Recipe{"COUNT", "uniqueIdentifierCounter", "uniqueIdentifierCounter", false},
    Recipe{"seq", "seq", "", false},
    Recipe{"index", "index", "", false},
    Recipe{"uniqueIdentifierCounter", "uniqueIdentifierCounter", "", false},
};

constexpr std::array<std::string_view, 2> kLargestFields = {"MAXCOUNT", "MAX_VALUE"};
// Fields that may be in a counter document besides the counter.
constexpr std::array<std::string_view, 5> kBeside = {"_id", "NOTES", "closed_by_idmint",
                                                     "next_by_idmint", "__v"};

constexpr std::array<std::string_view, 8> kClassicCollections = {
    "counter",  "counters",      "ids", "identitycounters", "sequences", "uniqueIdentifierCounter",
    "sequence", "autoIncrement",
};

template <std::size_t size>
bool is_in(const std::array<std::string_view, size>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::optional<std::int64_t> rounded_up(long double number) {
  const long double up = std::ceil(number);
  if (!std::isfinite(up) || up < -static_cast<long double>(kPast64Bits) ||
      up >= static_cast<long double>(kPast64Bits))
    return std::nullopt;
  return static_cast<std::int64_t>(up);
}

}  // namespace

std::optional<CountedNumber> counted_number(const Field& field) {
  std::optional<std::int64_t> value;
  if (field.type == BSON_TYPE_INT32 || field.type == BSON_TYPE_INT64) {
    value = field.integer();
  } else if (field.type == BSON_TYPE_DOUBLE) {
    value = rounded_up(field.real());
  } else if (field.type == BSON_TYPE_DECIMAL128) {
    value = rounded_up(std::strtold(decimal_text(field).c_str(), nullptr));
  }
  if (!value) return std::nullopt;
  return CountedNumber{.value = *value, .type = field.type};
}

Field field_of(Document document, std::string_view name) {
  for (const Field& field : Fields(document))
    if (field.key == name) return field;
  return {};
}

std::optional<CountedNumber> counted_number(Document document, std::string_view field) {
  return counted_number(field_of(document, field));
}

std::string_view type_text(std::uint8_t type) {
  switch (type) {
    case 0:
      return "missing";
    case BSON_TYPE_INT32:
      return "an int";
    case BSON_TYPE_INT64:
      return "a long";
    case BSON_TYPE_DOUBLE:
      return "a double";
    case BSON_TYPE_DECIMAL128:
      return "a decimal";
    case BSON_TYPE_UTF8:
      return "a string";
    case BSON_TYPE_NULL:
      return "null";
    case BSON_TYPE_BOOL:
      return "a boolean";
    case BSON_TYPE_DATE_TIME:
      return "a date";
    default:
      return "no number";
  }
}

Result<Bson> field_with(std::string_view field, std::uint8_t type, std::int64_t value) {
  const std::string key(field);
  switch (type) {
    case BSON_TYPE_INT32:
    case BSON_TYPE_INT64:
      if (type == BSON_TYPE_INT32 && value <= INT32_MAX && value >= INT32_MIN)
        return Bson(key.c_str(), static_cast<std::int32_t>(value));
      return Bson(key.c_str(), value);
    case BSON_TYPE_DOUBLE: {
      if (value >= kExactInDouble)
        return fail(Code::kFailedPrecondition,
                    key + " is a double, which does not count by one from " +
                        std::to_string(value) + " on: make it a NumberLong first");
      Bson set;
      if (!bson_append_double(set.get(), key.c_str(), -1, static_cast<double>(value)))
        return fail(Code::kInternal, "a document that is too long");
      return set;
    }
    case BSON_TYPE_DECIMAL128: {
      // Not in the JSON: the key, which may contain anything.
      const Bson number(R"({"n":{"$numberDecimal":")" + std::to_string(value) + R"("}})");
      Bson set;
      if (!set.add_from(number.view(), "n", key.c_str()))
        return fail(Code::kInternal, "a decimal that is none");
      return set;
    }
    default:
      return fail(Code::kFailedPrecondition,
                  key + " is " + std::string(type_text(type)) + ", and no number that counts");
  }
}

bool is_classic_field(std::string_view field) {
  return std::ranges::any_of(kClassicRecipes,
                             [&](const Recipe& recipe) { return recipe.field == field; });
}

bool is_classic_collection(std::string_view collection) {
  return is_in(kClassicCollections, collection);
}

std::string_view classic_recipe(std::string_view collection, Document document,
                                std::string_view field) {
  if (!is_classic_field(field)) return {};
  bool has_largest = false;
  bool counts = false;
  Fields fields(document);
  Field each;
  while (fields.next(each)) {
    if (each.key == field) {
      counts = counted_number(each).has_value();
    } else if (is_in(kLargestFields, each.key)) {
      has_largest = true;
    } else if (!is_in(kBeside, each.key) || (each.key == "_id" && each.document())) {
      return {};
    }
  }
  if (!counts || fields.damaged()) return {};
  for (const Recipe& recipe : kClassicRecipes)
    if (recipe.field == field && (!recipe.has_largest || has_largest) &&
        (recipe.collection.empty() || recipe.collection == collection))
      return recipe.name;
  return {};
}

Result<CounterField> parse_counter_field(std::string_view text) {
  const std::size_t first = text.find('.');
  const std::size_t last = text.rfind('.');
  CounterField counter;
  if (first != std::string_view::npos && first != last) {
    counter.ns = text.substr(0, last);
    counter.field = text.substr(last + 1);
  }
  if (first == 0 || last == first + 1 || counter.ns.empty() || counter.field.empty())
    return refuse("--counter is " + shown(text) +
                  ": give DATABASE.COLLECTION.FIELD, such as shop.numbers.next; the field is at "
                  "the top of the document");
  if (counter.field == "_id" || is_own_database(text.substr(0, first)) ||
      std::string_view(counter.ns).substr(first + 1).starts_with("system."))
    return refuse("--counter is " + shown(text) + ": no program counts there");
  if (std::string_view(counter.ns).substr(first + 1).starts_with("idmint."))
    return refuse("--counter is " + shown(text) +
                  ": what idmint keeps there is fenced without being named");
  return counter;
}

}  // namespace idmint::restore
