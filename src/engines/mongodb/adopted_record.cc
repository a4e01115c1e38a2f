#include "engines/mongodb/adopted_record.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/text.h"
#include "engines/mongodb/adopted.h"
#include "engines/mongodb/collection.h"
#include "idmint/object_id.h"
#include "idmint/uuid.h"
#include "mongo/bson.h"

namespace idmint::stores::mongodb {
namespace {

constexpr std::string_view kStripeNumber = "{k}";

struct Prefix {
  IdType type;
  std::string_view text;
  std::string_view what;  // the value after it
};
constexpr std::array kPrefixes = {
    Prefix{IdType::kText, "text=", "a text"},
    Prefix{IdType::kObjectId, "oid=", "24 hexadecimal digits"},
    Prefix{IdType::kInt, "int=", "an integer of 32 bits"},
    Prefix{IdType::kLong, "long=", "an integer of 64 bits"},
    Prefix{IdType::kDouble, "double=", "a number"},
    Prefix{IdType::kUuid, "uuid=", "a UUID"},
};

std::string_view prefix_of(IdType type) {
  const auto* const row = std::ranges::find(kPrefixes, type, &Prefix::type);
  return row != kPrefixes.end() ? row->text : std::string_view();
}

// An _id of an older version had no quotes.
bool is_query(std::string_view id) { return id.starts_with('{') && id.contains('"'); }

// Whether the text is read as a plain one.
bool is_plain(std::string_view id) {
  return !is_query(id) && std::ranges::none_of(kPrefixes, [&](const Prefix& row) {
    return id.starts_with(row.text);
  });
}

constexpr std::size_t kLongestPlace = 200;  // for a collection and for an _id
bool is_printable(std::string_view name, std::string_view without) {
  const auto fits = [&](char c) { return c >= ' ' && c <= '~' && !without.contains(c); };
  return !name.empty() && name.size() <= kLongestPlace && std::ranges::all_of(name, fits);
}
constexpr std::string_view kNotInText = "\"\\";

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto [end, why] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (why != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <class Number>
std::string text_of(Number value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

// A whole number as an integer.
std::string text_of(double value) {
  if (value == std::trunc(value) && std::abs(value) < 0x1p63)
    return text_of(static_cast<std::int64_t>(value));
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

template <class Number>
std::optional<std::string> canonical(std::string_view text) {
  const auto value = number_in<Number>(text);
  return value ? std::optional(text_of(*value)) : std::nullopt;
}

// The one spelling of the value; nothing: it is not of the type.
std::optional<std::string> canonical(IdType type, std::string_view text) {
  switch (type) {
    case IdType::kInt:
      return canonical<std::int32_t>(text);
    case IdType::kLong:
      return canonical<std::int64_t>(text);
    case IdType::kDouble:
      return canonical<double>(text);
    case IdType::kObjectId: {
      const auto id = ObjectId::parse(text);
      return id ? std::optional(id->to_string()) : std::nullopt;
    }
    case IdType::kUuid: {
      const auto id = Uuid::parse(text);
      return id ? std::optional(id->to_string()) : std::nullopt;
    }
    case IdType::kPlain:
    case IdType::kText:
    case IdType::kWhere:
      break;
  }
  return std::string(text);
}

Result<std::string> canonical_query(std::string_view json) {
  if (Result<void> loaded = mongo::load_driver(); !loaded) return std::unexpected(loaded.error());
  const Result<std::vector<std::byte>> bytes = from_json(json);
  if (!bytes) return std::unexpected(bytes.error());
  const auto query =
      Document::of({reinterpret_cast<const std::uint8_t*>(bytes->data()), bytes->size()});
  if (query.empty()) return refuse("it names every document: give fields that only one has");
  return escaped(mongo::to_canonical_json(query));
}

// The text is copied into commands, messages and files.
Result<void> validate_record(const AdoptedRecord& adopted) {
  constexpr std::size_t kLongestField = 60;
  const auto field = [](std::string_view what, const std::string& name) -> Result<void> {
    constexpr std::string_view kLetters =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    if (!name.empty() && name.size() <= kLongestField && name != "_id" &&
        name != "next_by_idmint" && name != "closed_by_idmint" &&
        name.find_first_not_of(kLetters) == std::string::npos)
      return {};
    return refuse(
        "the field " + shown(name) + ", " + std::string(what) +
        ", cannot be adopted: its name must be 1 to 60 of A-Z a-z 0-9 _ - and not _id" +
        (name.contains('.') ? "; a field of a document within the document cannot be" : ""));
  };
  const auto place = [](std::string_view what, const std::string& name,
                        std::string_view without) -> Result<void> {
    if (is_printable(name, without)) return {};
    return refuse("the " + std::string(what) + " " + shown(name) +
                  " cannot be adopted: it must be 1 to 200 ASCII characters without any of " +
                  std::string(without) + (what == "document" ? "; name another by a query" : ""));
  };
  const std::string& collection = adopted.collection;
  if (Result<void> ok = place("collection", collection, "$/\"\\"); !ok) return ok;
  if (collection.starts_with("idmint.") || collection.starts_with("system.") ||
      collection.starts_with('.') || collection.ends_with('.'))
    return refuse("the collection " + shown(collection) +
                  " cannot be adopted from: name one of an application");
  if (adopted.type != IdType::kWhere) {
    if (Result<void> ok = place("document", adopted.id, kNotInText); !ok) return ok;
  }
  if (Result<void> ok = field("which counts", adopted.field); !ok) return ok;
  if (!adopted.max.empty()) {
    if (Result<void> ok = field("which has the last value", adopted.max); !ok) return ok;
    if (adopted.max == adopted.field)
      return refuse("the field " + adopted.field + " cannot count and have the last value as well");
  } else if (adopted.validator) {
    return refuse("a validator compares with a field that has the last value: name it (max=FIELD)");
  }
  return {};
}

// Takes the type off the front of `id`.
Result<void> take_type(AdoptedRecord& adopted) {
  std::string& id = adopted.id;
  if (is_query(id)) {
    Result<std::string> query = canonical_query(id);
    if (!query) return refused("the query " + shown(id), query.error());
    adopted.type = IdType::kWhere;
    id = *std::move(query);
    return {};
  }
  const auto* const row = std::ranges::find_if(
      kPrefixes, [&](const Prefix& prefix) { return id.starts_with(prefix.text); });
  if (row == kPrefixes.end()) return {};
  const std::string value = id.substr(row->text.size());
  const bool in_stripes = value.contains(kStripeNumber);
  std::string one = value;
  if (in_stripes) one.replace(one.find(kStripeNumber), kStripeNumber.size(), "0");
  const auto spelling = canonical(row->type, one);
  if (!spelling || (in_stripes && *spelling != one))
    return refuse("the document " + shown(id) + " cannot be adopted: after " +
                  std::string(row->text) + " comes " + std::string(row->what) +
                  "; a text that begins so is text=" + id);
  adopted.type = row->type;
  id = in_stripes ? value : *spelling;
  return {};
}

}  // namespace

std::string spelled(const AdoptedRecord& adopted) {
  return adopted.collection + "/" + std::string(prefix_of(adopted.type)) + adopted.id;
}

std::string to_text(const AdoptedRecord& adopted) {
  return spelled(adopted) + (adopted.holds_last ? ":last=" : ":next=") + adopted.field +
         (adopted.max.empty() ? "" : ",max=" + adopted.max) +
         (adopted.validator ? ",validator" : "");
}

Result<std::string> with_query(std::string_view text, std::string_view json) {
  const std::size_t begin = json.find_first_not_of(" \t\n");
  json.remove_prefix(std::min(begin, json.size()));
  if (!is_query(json))
    return refuse("the query " + shown(json) +
                  " names no document: give fields that only one has, in extended JSON, such as "
                  "{\"id\": \"orders\"}");
  const std::size_t colon = text.find(':');
  const std::size_t slash = text.find('/');
  if (colon == std::string_view::npos || (slash != std::string_view::npos && slash + 1 != colon))
    return refuse("cannot adopt " + shown(text) +
                  " where a query names the document: write COLLECTION:next=FIELD, or last=, "
                  "without an _id");
  return std::string(text.substr(0, std::min(slash, colon))) + "/" + std::string(json) +
         std::string(text.substr(colon));
}

AdoptedRecord with_id(AdoptedRecord adopted, const bson_iter_t& id) {
  Bson document;
  document.add("_id", &id);
  const Document view = document.view();
  adopted.type = IdType::kWhere;
  adopted.id = escaped(mongo::to_canonical_json(view));
  const auto be = [&](IdType type, std::string text) {
    adopted.type = type;
    adopted.id = std::move(text);
  };
  switch (bson_iter_type(&id)) {
    case BSON_TYPE_UTF8: {
      const std::string text(view.bytes("_id").value_or(""));
      if (is_printable(text, kNotInText)) be(is_plain(text) ? IdType::kPlain : IdType::kText, text);
      break;
    }
    case BSON_TYPE_INT32:
      be(IdType::kInt, text_of(view.integer("_id").value_or(0)));
      break;
    case BSON_TYPE_INT64:
      be(IdType::kLong, text_of(view.integer("_id").value_or(0)));
      break;
    case BSON_TYPE_DOUBLE:
      be(IdType::kDouble, text_of(view.real("_id").value_or(0)));
      break;
    case BSON_TYPE_OID: {
      // { "_id" : { "$oid" : "..." } }
      constexpr std::string_view kBefore = "\"$oid\" : \"";
      constexpr std::size_t kDigits = 24;
      be(IdType::kObjectId, adopted.id.substr(adopted.id.find(kBefore) + kBefore.size(), kDigits));
      break;
    }
    case BSON_TYPE_BINARY: {
      const std::string_view bytes = view.bytes("_id").value_or("");
      Uuid::Bytes uuid{};
      if (!adopted.id.contains("\"subType\" : \"04\"") || bytes.size() != uuid.size()) break;
      std::ranges::copy(bytes, uuid.begin());
      be(IdType::kUuid, Uuid(uuid).to_string());
      break;
    }
    default:
      break;
  }
  return adopted;
}

Bson filter_of(const AdoptedRecord& adopted) {
  const std::string& id = adopted.id;
  Bson filter;
  switch (adopted.type) {
    case IdType::kPlain:
    case IdType::kText:
      return std::move(filter.add("_id", std::string_view(id)));
    case IdType::kInt:
      return std::move(filter.add("_id", number_in<std::int32_t>(id).value_or(0)));
    case IdType::kLong:
      return std::move(filter.add("_id", number_in<std::int64_t>(id).value_or(0)));
    case IdType::kDouble:
      if (!bson_append_double(filter.get(), "_id", -1, number_in<double>(id).value_or(0)))
        std::abort();  // past 2 GB
      return filter;
    case IdType::kObjectId:
      return Bson(R"({"_id":{"$oid":")" + id + R"("}})");
    case IdType::kUuid: {
      const Result<Uuid> uuid = Uuid::parse(id);
      const Uuid::Bytes bytes = uuid ? uuid->bytes() : Uuid::Bytes{};
      return std::move(filter.add_binary(
          "_id", BSON_SUBTYPE_UUID,
          std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())));
    }
    case IdType::kWhere:
      break;
  }
  return Bson(id);
}

// Collections have no slash here, and fields no colon.
Result<AdoptedRecord> adopted_from_text(std::string_view text) {
  const auto none = [&] {
    return refuse("cannot adopt " + shown(text) +
                  ": write COLLECTION/ID:next=FIELD where the field holds the value that comes "
                  "next, or last= where it holds the one that came last; and ,max=FIELD if another "
                  "field has the last value of all");
  };
  const std::size_t slash = text.find('/');
  const std::size_t colon = text.rfind(':');
  if (slash == std::string_view::npos || colon == std::string_view::npos || colon < slash)
    return none();
  AdoptedRecord adopted{.collection = std::string(text.substr(0, slash)),
                        .id = std::string(text.substr(slash + 1, colon - slash - 1))};
  bool holds = false;
  for (std::string_view rest = text.substr(colon + 1);;) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, end);
    if (!holds && (part.starts_with("next=") || part.starts_with("last="))) {
      holds = true;
      adopted.holds_last = part.starts_with("last=");
      adopted.field = part.substr(5);
    } else if (holds && adopted.max.empty() && part.size() > 4 && part.starts_with("max=")) {
      adopted.max = part.substr(4);
    } else if (holds && !adopted.validator && part == "validator") {
      adopted.validator = true;
    } else {
      return none();
    }
    if (end == rest.size()) break;
    rest.remove_prefix(end + 1);
  }
  if (Result<void> typed = take_type(adopted); !typed) return std::unexpected(typed.error());
  if (Result<void> ok = validate_record(adopted); !ok) return std::unexpected(ok.error());
  return adopted;
}

bool has_stripes(const AdoptedRecord& adopted) {
  return adopted.type != IdType::kWhere && adopted.id.contains(kStripeNumber);
}

AdoptedRecord of_stripe(AdoptedRecord adopted, std::int64_t stripe) {
  if (const std::size_t at = adopted.id.find(kStripeNumber); has_stripes(adopted))
    adopted.id.replace(at, kStripeNumber.size(), std::to_string(stripe));
  return adopted;
}

}  // namespace idmint::stores::mongodb
