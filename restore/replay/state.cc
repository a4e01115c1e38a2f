#include "restore/replay/state.h"

#include <openssl/evp.h>

#include <array>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/errors.h"
#include "base/shell.h"
#include "base/text.h"
#include "restore/cursor.h"
#include "restore/namespaces.h"

namespace idmint::restore {
namespace {

using Json = nlohmann::ordered_json;

struct DigestDeleter {
  void operator()(EVP_MD_CTX* digest) const { EVP_MD_CTX_free(digest); }
};
using DigestContext = std::unique_ptr<EVP_MD_CTX, DigestDeleter>;

Json numbers_alike(Json value) {
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (std::trunc(number) == number && std::fabs(number) < 0x1p53)
      return static_cast<std::int64_t>(number);
  }
  if (value.is_object() && value.size() == 1 && value.begin().key() == "$numberLong")
    return std::strtoll(value.begin()->get<std::string>().c_str(), nullptr, 10);
  if (value.is_structured())
    for (auto& inner : value) inner = numbers_alike(std::move(inner));
  return value;
}

std::string comparable(const Json& document) {
  std::map<std::string, Json> fields;
  for (const auto& [key, value] : document.items()) fields[key] = numbers_alike(value);
  Json sorted = Json::object();
  for (auto& [key, value] : fields) sorted[key] = std::move(value);
  return sorted.dump();
}

Result<void> read_documents(Server& server, const CollectionFacts& collection, const HowToRead& how,
                            std::uint64_t& read, CollectionState& state) {
  const Bson options = how.hashes ? Bson("sort", Bson("_id", 1), "collation",
                                         Bson("locale", "simple"), "allowDiskUse", true)
                                  : Bson("projection", Bson("_id", 1));
  const DigestContext digest(EVP_MD_CTX_new());
  if (!digest || EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr) != 1)
    return fail(Code::kUnimplemented, "OpenSSL has no SHA-256 here");
  std::uint64_t count = 0;
  Result<void> done =
      find_each(server, collection.ns(), {}, options, [&](Document document) -> Result<void> {
        ++count;
        if (how.hashes)
          EVP_DigestUpdate(digest.get(), document.bytes().data(), document.bytes().size());
        return ++read % 1000 == 0 && how.progress ? how.progress(read) : Result<void>{};
      });
  if (!done) return done;
  std::array<std::uint8_t, 32> sum{};
  unsigned size = 0;
  EVP_DigestFinal_ex(digest.get(), sum.data(), &size);
  state.count = count;
  if (how.hashes) state.sha256 = hex({reinterpret_cast<const char*>(sum.data()), sum.size()});
  return {};
}

// Removes defaults, because a collMod stores them explicitly.
std::string without_defaults(const std::string& options) {
  Json json = Json::parse(options, nullptr, false);
  for (const auto& [key, value] :
       {std::pair("validationLevel", "strict"), std::pair("validationAction", "error")}) {
    if (json.is_object() && json.value(key, Json()) == value) json.erase(key);
  }
  return json.dump();
}

std::unexpected<Error> no_state(const std::string& path, const std::string& why) {
  return fail(Code::kDataLoss, shell_word(path) + " is no file of an expected state: " + why);
}

}  // namespace

std::string comparable(Document document) {
  return comparable(Json::parse(to_relaxed_json(document), nullptr, false));
}

Result<void> for_each_document(Server& server, const std::string& database, const std::string& name,
                               const std::function<Result<void>(Document)>& take) {
  return find_each(server, database + "." + name, {}, Bson("sort", Bson("_id", 1)), take);
}

Result<std::uint64_t> count_documents(Server& server, const std::string& ns) {
  const Bson command = Bson(
      "aggregate", collection_of(ns), "pipeline",
      array(Bson("$match", Bson()), Bson("$group", Bson("_id", nullptr, "n", Bson("$sum", 1)))),
      "cursor", Bson());
  const Result<Bson> reply = server.command(database_of(ns), command);
  if (!reply) return error_in(reply);
  return static_cast<std::uint64_t>(reply->view().first_found().number("n"));
}

Result<State> read_state(Server& server, const HowToRead& how) {
  const Result<std::vector<CollectionFacts>> all = list_collections(server, how.users);
  if (!all) return error_in(all);
  State state;
  std::uint64_t read = 0;
  for (const CollectionFacts& collection : *all) {
    if (how.wanted && !how.wanted(collection.ns())) continue;
    CollectionState& each = state[collection.ns()];
    each.type = name(collection.kind);
    each.options = comparable(collection.options.view());
    for (const Bson& index : collection.indexes)
      each.indexes[text_of(index.view(), "name")] = comparable(index.view());
    if (collection.kind != CollectionKind::kCollection) continue;
    if (Result<void> done = read_documents(server, collection, how, read, each); !done)
      return error_in(done);
  }
  return state;
}

Result<State> read_state_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return fail(Code::kNotFound, "cannot read " + shell_word(path));
  const Json json = Json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("expected") || !json["expected"].is_object())
    return no_state(path, "it is no JSON with \"expected\"");
  State state;
  for (const auto& [database, contents] : json["expected"].items()) {
    if (!contents.is_object() || !contents.contains("collections") ||
        !contents["collections"].is_object())
      return no_state(path, database + " has no \"collections\"");
    for (const auto& [name, facts] : contents["collections"].items()) {
      std::string ns = database;
      ns += "." + name;
      if (name == "system.views") continue;  // its documents are the views
      if (!facts.is_object() || !facts.contains("type") || !facts["type"].is_string())
        return no_state(path, ns + " has no \"type\"");
      CollectionState& each = state[ns];
      each.type = facts["type"];
      each.options = comparable(facts.value("options", Json::object()));
      if (facts.contains("count") && facts["count"].is_number_unsigned())
        each.count = facts["count"].get<std::uint64_t>();
      if (facts.contains("sha256_sorted_by_id") && facts["sha256_sorted_by_id"].is_string())
        each.sha256 = facts["sha256_sorted_by_id"];
      const Json indexes = facts.value("indexes", Json::array());
      for (const auto& index : indexes) {
        if (!index.is_object() || !index.contains("name") || !index["name"].is_string())
          return no_state(path, "an index of " + ns + " has no \"name\"");
        each.indexes[index["name"].get<std::string>()] = comparable(index);
      }
    }
  }
  return state;
}

std::string state_file(const State& state) {
  Json databases = Json::object();
  for (const auto& [ns, each] : state) {
    const std::size_t dot = ns.find('.');
    Json facts = {{"type", each.type}};
    if (each.count) facts["count"] = *each.count;
    if (!each.sha256.empty()) facts["sha256_sorted_by_id"] = each.sha256;
    facts["options"] = Json::parse(each.options);
    facts["indexes"] = Json::array();
    for (const auto& [name, index] : each.indexes) facts["indexes"].push_back(Json::parse(index));
    databases[ns.substr(0, dot)]["collections"][ns.substr(dot + 1)] = std::move(facts);
  }
  return Json{{"expected", std::move(databases)}}.dump(1) + "\n";
}

std::vector<Difference> differences(const State& is, const State& should) {
  std::vector<Difference> found;
  std::set<std::string> all;
  for (const auto& [ns, each] : is) all.insert(ns);
  for (const auto& [ns, each] : should) all.insert(ns);
  for (const std::string& ns : all) {
    const auto there = is.find(ns);
    const auto wanted = should.find(ns);
    if (there == is.end() || wanted == should.end()) {
      const auto what = [](bool exists, const auto& at) {
        return exists ? at->second.type : std::string("missing");
      };
      found.push_back(
          {ns, "collection", what(there != is.end(), there), what(wanted != should.end(), wanted)});
      continue;
    }
    const CollectionState& a = there->second;
    const CollectionState& b = wanted->second;
    const auto compare = [&](const char* what, const std::string& one, const std::string& other) {
      if (one != other) found.push_back({ns, what, one, other});
    };
    compare("type", a.type, b.type);
    compare("options", without_defaults(a.options), without_defaults(b.options));
    if (a.count && b.count) compare("count", std::to_string(*a.count), std::to_string(*b.count));
    if (!a.sha256.empty() && !b.sha256.empty()) compare("documents", a.sha256, b.sha256);
    std::set<std::string> names;
    for (const auto& [name, index] : a.indexes) names.insert(name);
    for (const auto& [name, index] : b.indexes) names.insert(name);
    for (const std::string& name : names) {
      const auto text = [&](const std::map<std::string, std::string>& indexes) {
        const auto at = indexes.find(name);
        return at == indexes.end() ? std::string("missing") : at->second;
      };
      compare(("index " + name).c_str(), text(a.indexes), text(b.indexes));
    }
  }
  return found;
}

}  // namespace idmint::restore
