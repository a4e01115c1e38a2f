#include "restore/replay/first_differences.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "restore/cursor.h"
#include "restore/namespaces.h"

namespace idmint::restore {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostFields = 8;
constexpr std::size_t kMostCharacters = 120;

// Reads the documents of a collection one by one.
class Documents {
 public:
  Documents(Server& server, const std::string& ns) : what_("find in " + ns) {
    collection_.reset(mongoc_client_get_collection(server.client(), database_of(ns).c_str(),
                                                   collection_of(ns).c_str()));
    const Bson all;
    const Bson options =
        Bson("sort", Bson("_id", 1), "collation", Bson("locale", "simple"), "allowDiskUse", true);
    cursor_.reset(
        mongoc_collection_find_with_opts(collection_.get(), all.get(), options.get(), nullptr));
  }

  // The next document, valid until the next call; empty at the end.
  [[nodiscard]] Result<Document> next() {
    const bson_t* document = nullptr;
    if (mongoc_cursor_next(cursor_.get(), &document)) return Document::of(document);
    bson_error_t error{};
    if (mongoc_cursor_error(cursor_.get(), &error)) return std::unexpected(told(what_, error));
    return Document();
  }

  // Whether the collection now has a document with the same _id.
  [[nodiscard]] Result<bool> has(Document other) {
    Bson wanted;
    if (!wanted.add_from(other, "_id")) return false;
    const Bson options =
        Bson("collation", Bson("locale", "simple"), "limit", 1, "projection", Bson("_id", 1));
    const Cursor found(
        mongoc_collection_find_with_opts(collection_.get(), wanted.get(), options.get(), nullptr));
    bool is_there = false;
    Result<void> read = each(found, what_, [&](Document) -> Result<void> {
      is_there = true;
      return {};
    });
    if (!read) return error_in(read);
    return is_there;
  }

 private:
  std::string what_;
  Collection collection_;
  Cursor cursor_;
};

Json json_of(Document document) { return Json::parse(to_canonical_json(document), nullptr, false); }

// Whether it is a value, such as {"$numberInt":"7"}, and not a document with fields.
bool is_value(const Json& json) {
  return !json.is_object() || (!json.empty() && json.begin().key().starts_with('$'));
}

std::string cut_off(std::string text) {
  if (text.size() <= kMostCharacters) return text;
  std::size_t end = kMostCharacters;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + "...";
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Replaces typed numbers by plain ones.
Json relaxed(Json json) {
  if (json.is_object() && json.size() == 1 && json.begin()->is_string()) {
    const std::string& type = json.begin().key();
    if (type == "$numberInt" || type == "$numberLong" || type == "$numberDouble") {
      Json number = Json::parse(json.begin()->get<std::string>(), nullptr, false);
      return number.is_number() ? number : json;  // "NaN" is not a number in JSON
    }
  }
  if (json.is_structured())
    for (auto& inner : json) inner = relaxed(std::move(inner));
  return json;
}

std::string shown_json(const Json& json) { return cut_off(dump(relaxed(json))); }

// Two different values; numbers show their types if only these differ.
Difference differing(std::string what, const Json& is, const Json& should) {
  const std::string plain_is = dump(relaxed(is));
  const std::string plain_should = dump(relaxed(should));
  if (plain_is == plain_should)
    return {{}, std::move(what), cut_off(dump(is)), cut_off(dump(should))};
  return {{}, std::move(what), cut_off(plain_is), cut_off(plain_should)};
}

// Adds the differences below a path, field by field.
void compare_fields(const Json& is, const Json& should, const std::string& path,
                    std::vector<Difference>& found) {
  if (is == should && is.dump() == should.dump()) return;
  if (is_value(is) || is_value(should)) {
    found.push_back(differing(path, is, should));
    return;
  }
  const std::size_t before = found.size();
  const auto text = [](const Json& document, const std::string& key) {
    return document.contains(key) ? shown_json(document[key]) : std::string("missing");
  };
  const std::string below = path.empty() ? "" : path + ".";
  for (const auto& [key, value] : should.items()) {
    if (is.contains(key)) {
      compare_fields(is[key], value, below + key, found);
    } else {
      found.push_back({{}, below + key, text(is, key), text(should, key)});
    }
  }
  for (const auto& [key, value] : is.items()) {
    if (!should.contains(key)) found.push_back({{}, below + key, text(is, key), text(should, key)});
  }
  if (found.size() > before) return;
  const auto keys = [](const Json& document) {
    std::string all;
    for (const auto& [key, value] : document.items()) all += (all.empty() ? "" : ", ") + key;
    return all;
  };
  found.push_back(
      {{}, (path.empty() ? "" : path + ", ") + "order of fields", keys(is), keys(should)});
}

// Adds the differences of a document that both sides have.
void add_fields(Document is, Document should, const std::string& ns, const std::string& name,
                std::vector<Difference>& found) {
  std::vector<Difference> fields;
  compare_fields(json_of(is), json_of(should), "", fields);
  const std::size_t left_out = fields.size() > kMostFields ? fields.size() - kMostFields : 0;
  fields.resize(fields.size() - left_out);
  for (Difference& field : fields)
    found.push_back(
        {ns, name + ", " + field.what, std::move(field.is), std::move(field.should_be)});
  if (left_out != 0)
    found.push_back({ns, name, std::to_string(left_out) + " more fields differ", "the same"});
}

}  // namespace

Result<std::vector<Difference>> first_differences(Server& is, Server& should, const std::string& ns,
                                                  std::size_t most) {
  Documents here(is, ns);
  Documents there(should, ns);
  std::vector<Difference> found;
  Result<Document> a = here.next();
  Result<Document> b = there.next();
  for (std::size_t documents = 0; documents < most;) {
    if (!a) return error_in(a);
    if (!b) return error_in(b);
    if (!*a && !*b) break;
    if (*a && *b && *a == *b) {
      a = here.next();
      b = there.next();
      continue;
    }
    ++documents;
    const auto id_of = [](Document document) {
      return document ? json_of(document)["_id"] : Json();
    };
    const Json id_a = id_of(*a);
    const Json id_b = id_of(*b);
    if (*a && *b && id_a == id_b) {
      const std::string name = "document " + shown_json(id_a);
      if (is_users(ns))
        found.push_back({ns, name, "different, and not shown", "the same"});
      else
        add_fields(*a, *b, ns, name, found);
      a = here.next();
      b = there.next();
      continue;
    }
    // The first in order is missing on the other side, unless it comes later there.
    bool only_here = static_cast<bool>(*a);
    if (*a && *b) {
      const Result<bool> comes_later = there.has(*a);
      if (!comes_later) return error_in(comes_later);
      only_here = !*comes_later;
    }
    const std::string name = "document " + shown_json(only_here ? id_a : id_b);
    found.push_back({ns, name, only_here ? "there" : "missing", only_here ? "missing" : "there"});
    (only_here ? a : b) = (only_here ? here : there).next();
  }
  return found;
}

}  // namespace idmint::restore
