#include "restore/backup/metadata.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/errors.h"
#include "restore/oplog/fields.h"

namespace idmint::restore {
namespace {

using Json = nlohmann::ordered_json;

std::unexpected<Error> damaged(const std::string& why) { return fail(Code::kDataLoss, why); }

enum class Shape : std::uint8_t { kText, kNumber, kTrue, kObject };

// The form of an object that stands for a value: its first key and the type of that key's value,
// its second key, and the keys of an inner object.
struct Wrapper {
  const char* key;
  Shape shape;
  const char* second = nullptr;
  std::array<const char*, 2> inner{};
};

constexpr std::array kWrappers = {
    Wrapper{"$oid", Shape::kText},
    Wrapper{"$symbol", Shape::kText},
    Wrapper{"$numberInt", Shape::kText},
    Wrapper{"$numberLong", Shape::kText},
    Wrapper{"$numberDouble", Shape::kText},
    Wrapper{"$numberDecimal", Shape::kText},
    Wrapper{"$binary", Shape::kText, "$type"},
    Wrapper{"$binary", Shape::kObject, nullptr, {"base64", "subType"}},
    Wrapper{"$code", Shape::kText},
    Wrapper{"$code", Shape::kText, "$scope"},
    Wrapper{"$timestamp", Shape::kObject, nullptr, {"t", "i"}},
    Wrapper{"$regularExpression", Shape::kObject, nullptr, {"pattern", "options"}},
    Wrapper{"$dbPointer", Shape::kObject, nullptr, {"$ref", "$id"}},
    Wrapper{"$date", Shape::kText},
    Wrapper{"$date", Shape::kObject, nullptr, {"$numberLong", nullptr}},
    Wrapper{"$minKey", Shape::kNumber},
    Wrapper{"$maxKey", Shape::kNumber},
    Wrapper{"$undefined", Shape::kTrue},
};

bool has_shape(const Json& value, const Wrapper& row) {
  switch (row.shape) {
    case Shape::kText:
      return value.is_string();
    case Shape::kNumber:
      return value.is_number_integer();
    case Shape::kTrue:
      return value.is_boolean() && value.get<bool>();
    case Shape::kObject:
      break;
  }
  const std::size_t keys = row.inner[1] != nullptr ? 2 : 1;
  return value.is_object() && value.size() == keys &&
         std::all_of(row.inner.begin(), row.inner.begin() + static_cast<std::ptrdiff_t>(keys),
                     [&](const char* key) { return value.contains(key); });
}

bool is_wrapper(const Json& object) {
  return std::ranges::any_of(kWrappers, [&](const Wrapper& row) {
    const auto found = object.find(row.key);
    return object.size() == (row.second != nullptr ? 2 : 1) && found != object.end() &&
           has_shape(*found, row) && (row.second == nullptr || object.contains(row.second));
  });
}

// Servers accept less.
constexpr int kDeepestMetadata = 200;

// libbson would sort the flags, and drop those that it does not know.
Result<void> append_regex(bson_t* to, const std::string& key, const Json& value) {
  if (!value["pattern"].is_string() || !value["options"].is_string())
    return damaged("a regular expression is no text");
  std::string text = value["pattern"].get<std::string>() + '\0';
  text += value["options"].get<std::string>() + '\0';
  if (std::ranges::count(text, '\0') != 2) return damaged("a regular expression has a NUL in it");
  append_field_as(to, key,
                  {.type = BSON_TYPE_REGEX,
                   .key = {},
                   .value = {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}});
  return {};
}

// These recurse. read_extended_json() has limited the depth before.

Result<void> append(bson_t* to, const std::string& key, const Json& value);

Result<void> append_all(bson_t* to, const Json& from) {
  std::size_t index = 0;
  for (auto at = from.begin(); at != from.end(); ++at, ++index) {
    const std::string key = from.is_array() ? std::to_string(index) : at.key();
    if (key.find('\0') != std::string::npos) return damaged("a key has a NUL in it");
    if (Result<void> done = append(to, key, *at); !done) return done;
  }
  return {};
}

// NOLINTNEXTLINE(misc-no-recursion): kDeepestMetadata
Result<void> append(bson_t* to, const std::string& key, const Json& value) {
  const char* const name = key.c_str();
  const int size = static_cast<int>(key.size());
  bool ok = false;
  if (value.is_object() && is_wrapper(value)) {
    if (value.begin().key() == "$regularExpression") return append_regex(to, key, *value.begin());
    const Result<Bson> parsed = from_json(R"({"v":)" + value.dump() + "}");
    if (!parsed) return damaged(parsed.error().message());
    const std::optional<Field> field = find_field(parsed->view(), "v");
    ok = field.has_value();
    if (field) append_field_as(to, key, *field);
  } else if (value.is_structured()) {
    bson_t child;
    ok = value.is_array() ? bson_append_array_begin(to, name, size, &child)
                          : bson_append_document_begin(to, name, size, &child);
    if (ok) {
      Result<void> done = append_all(&child, value);
      ok = value.is_array() ? bson_append_array_end(to, &child)
                            : bson_append_document_end(to, &child);
      if (!done) return done;
    }
  } else if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    ok = bson_append_utf8(to, name, size, text.data(), static_cast<int>(text.size()));
  } else if (value.is_boolean()) {
    ok = bson_append_bool(to, name, size, value.get<bool>());
  } else if (value.is_null()) {
    ok = bson_append_null(to, name, size);
  } else if (value.is_number_float()) {
    ok = bson_append_double(to, name, size, value.get<double>());
  } else if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) {
    return damaged("a number is too large");
  } else {
    const auto number = value.get<std::int64_t>();
    ok = number >= INT32_MIN && number <= INT32_MAX
             ? bson_append_int32(to, name, size, static_cast<std::int32_t>(number))
             : bson_append_int64(to, name, size, number);
  }
  return ok ? Result<void>{} : damaged("it is larger than a document can be");
}

// Removes blanks outside of strings.
std::string without_blanks(std::string_view json) {
  std::string text;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (!in_string && c == ' ') continue;
    text += c;
    if (c == '"') in_string = !in_string;
    if (c == '\\' && in_string && i + 1 < json.size()) text += json[++i];
  }
  return text;
}

CollectionKind kind_by_options(Document options) {
  if (options.has("viewOn")) return CollectionKind::kView;
  if (options.has("timeseries")) return CollectionKind::kTimeSeries;
  return CollectionKind::kCollection;
}

Result<std::vector<Bson>> read_indexes(const Field& array) {
  if (array.type != BSON_TYPE_ARRAY) return damaged("its indexes are no array");
  std::vector<Bson> indexes;
  std::set<std::string, std::less<>> names;
  for (const Field& item : Fields(array.document())) {
    const Document index = item.document();
    if (index.document("key").first_key().empty()) return damaged("an index has no key");
    const std::string name = text_of(index, "name");
    if (name.empty()) return damaged("an index has no name");
    if (!names.emplace(name).second) return damaged("two indexes have the name " + name);
    indexes.push_back(Bson::copy_of(index));
  }
  return indexes;
}

bool is_uuid(std::string_view text) {
  return text.size() == 32 && std::ranges::all_of(text, [](char c) {
           return std::isxdigit(static_cast<unsigned char>(c)) != 0;
         });
}

}  // namespace

Result<Bson> read_extended_json(std::string_view json) {
  // Check the depth before any recursion.
  bool too_deep = false;
  const auto look = [&](int depth, Json::parse_event_t, const Json&) {
    too_deep = too_deep || depth > kDeepestMetadata;
    return !too_deep;
  };
  const Json parsed = Json::parse(json, look, false);
  if (too_deep) return damaged("it is nested too deeply");
  if (!parsed.is_object()) return damaged("it is no JSON object");
  Bson document;
  if (Result<void> done = append_all(document.get(), parsed); !done) return error_in(done);
  return document;
}

Result<std::string> write_extended_json(Document document) {
  std::string json = without_blanks(to_canonical_json(document));
  const Result<Bson> again = read_extended_json(json);
  if (!again || !std::ranges::equal(again->view().bytes(), document.bytes()))
    return fail(Code::kUnimplemented, "it has a value that JSON cannot tell from another: " + json);
  return json;
}

Result<CollectionFacts> parse_metadata(std::string_view json) {
  const Result<Bson> document = read_extended_json(json);
  if (!document) return error_in(document);
  CollectionFacts facts;
  std::string type;
  bool has_indexes = false;
  for (const Field& field : Fields(document->view())) {
    if (field.is("options")) {
      if (field.type != BSON_TYPE_DOCUMENT) return damaged("its options are no object");
      facts.options = Bson::copy_of(field.document());
    } else if (field.is("indexes")) {
      Result<std::vector<Bson>> indexes = read_indexes(field);
      if (!indexes) return error_in(indexes);
      facts.indexes = *std::move(indexes);
      has_indexes = true;
    } else if (field.is("uuid")) {
      facts.uuid = field.text();
      if (field.type != BSON_TYPE_UTF8 || (!facts.uuid.empty() && !is_uuid(facts.uuid)))
        return damaged("its uuid is none");
    } else if (field.is("collectionName")) {
      facts.name = field.text();
      if (facts.name.empty()) return damaged("its collectionName is none");
    } else if (field.is("type")) {
      type = field.text();
      if (field.type != BSON_TYPE_UTF8) return damaged("its type is no text");
    } else {
      return damaged("it has a field that is not known: " + std::string(field.key));
    }
  }
  if (!has_indexes) return damaged("it has no indexes");
  facts.kind = kind_by_options(facts.options.view());
  if (!type.empty() && kind_named(type) != facts.kind)
    return damaged("its type, " + type + ", is not what its options say");
  return facts;
}

Result<std::string> print_metadata(const CollectionFacts& collection) {
  Bson document;
  bson_t* const to = document.get();
  if (collection.options && !bson_empty(collection.options.get()))
    BSON_APPEND_DOCUMENT(to, "options", collection.options.get());
  bson_t array;
  BSON_APPEND_ARRAY_BEGIN(to, "indexes", &array);
  for (std::size_t i = 0; i < collection.indexes.size(); ++i)
    BSON_APPEND_DOCUMENT(&array, std::to_string(i).c_str(), collection.indexes[i].get());
  bson_append_array_end(to, &array);
  if (!collection.uuid.empty()) BSON_APPEND_UTF8(to, "uuid", collection.uuid.c_str());
  bson_append_utf8(to, "collectionName", -1, collection.name.data(),
                   static_cast<int>(collection.name.size()));
  const std::string_view kind = name(collection.kind);
  bson_append_utf8(to, "type", -1, kind.data(), static_cast<int>(kind.size()));
  Result<std::string> json = write_extended_json(document.view());
  if (!json)
    return fail(json.error().code, "the metadata of " + collection.database + "." +
                                       collection.name + ": " + json.error().message());
  return json;
}

}  // namespace idmint::restore
