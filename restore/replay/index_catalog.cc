#include "restore/replay/index_catalog.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/errors.h"
#include "restore/namespaces.h"
#include "restore/oplog/command.h"
#include "restore/oplog/fields.h"
#include "restore/replay/apply_ops.h"
#include "restore/replay/state.h"

namespace idmint::restore {
namespace {

// The specification without the fields that say where it comes from, which no command takes.
Bson without_origin(Document index) {
  Bson spec;
  for (const Field& field : Fields(index))
    if (!field.is("ns") && !field.is("createIndexes")) append_field(spec.get(), field);
  return spec;
}

std::unexpected<Error> unknown_change(const std::string& ns, const std::string& index,
                                      const std::string& field) {
  return fail(Code::kFailedPrecondition,
              "collMod changes " + field + " of the index " + index + " of " + ns +
                  ", which idmint-restore does not know: take a base that was made after");
}

}  // namespace

void IndexCatalog::add(std::string_view ns, Document spec) {
  const std::string name = text_of(spec, "name");
  if (name == "_id_") return;
  indexes_[std::string(ns)][name] = without_origin(spec);
}

void IndexCatalog::remove(std::string_view ns, std::string_view name) {
  for (Indexes* const each : of(ns))
    std::erase_if(*each, [&](const auto& row) { return row.first == name; });
}

std::size_t IndexCatalog::size() const {
  std::size_t size = 0;
  for (const auto& [ns, indexes] : indexes_) size += indexes.size();
  return size;
}

std::vector<const IndexCatalog::Indexes*> IndexCatalog::of(std::string_view ns) const {
  const std::size_t dot = ns.find('.');
  const std::string database(ns.substr(0, dot + 1));
  const std::string plain(without_buckets(ns.substr(dot + 1)));
  std::vector<const Indexes*> found;
  const std::string buckets = database + "system.buckets." + plain;
  for (const std::string& each : {database + plain, buckets})
    if (const auto at = indexes_.find(each); at != indexes_.end()) found.push_back(&at->second);
  return found;
}

std::vector<IndexCatalog::Indexes*> IndexCatalog::of(std::string_view ns) {
  std::vector<Indexes*> found;
  for (const Indexes* const each : std::as_const(*this).of(ns))
    found.push_back(const_cast<Indexes*>(each));
  return found;
}

bool IndexCatalog::has_index_of(const Operation& command) const {
  if (!command.o.has("index")) return false;
  const Document index = command.o.document("index");
  const bool change = command.command() == "collMod";
  const std::string name = change ? text_of(index, "name") : text_of(command.o, "index");
  const Document key = change ? index.document("keyPattern") : index;
  return std::ranges::any_of(of(namespace_of(command)), [&](const Indexes* each) {
    return std::ranges::any_of(*each, [&](const auto& row) {
      return row.first == name || (key && key == row.second.view().document("key"));
    });
  });
}

void IndexCatalog::drop(std::string_view ns) {
  if (const auto at = indexes_.find(ns); at != indexes_.end()) indexes_.erase(at);
}

Result<void> IndexCatalog::apply(const Operation& command) {
  const std::string_view what = command.command();
  const std::string database(command.database());
  const std::string ns = namespace_of(command);
  if (what == "create" || what == "drop") {
    for (Indexes* const each : of(ns)) each->clear();
  } else if (what == "dropDatabase") {
    std::erase_if(indexes_,
                  [&](const auto& each) { return each.first.starts_with(database + "."); });
  } else if (what == "createIndexes") {
    add(ns, command.o);
  } else if (what == "commitIndexBuild") {
    command.o.each("indexes", [&](const Document& spec) { add(ns, spec); });
  } else if (what == "startIndexBuild" || what == "abortIndexBuild") {
    // A base may list an unfinished index as complete.
    for (const std::string& name : names_of_build(command)) remove(ns, name);
  } else if (what == "dropIndexes" || what == "deleteIndexes" || what == "deleteIndex") {
    if (!command.o.has("index")) return {};
    const std::string_view name = command.o.text("index");
    const Document key = command.o.document("index");
    for (Indexes* const each : of(ns)) {
      std::erase_if(*each, [&](const auto& row) {
        return name == "*" || row.first == name ||
               (key && key == row.second.view().document("key"));
      });
    }
  } else if (what == "collMod") {
    const Document change = command.o.document("index");
    if (!change) return {};
    const std::string name = text_of(change, "name");
    const Document key = change.document("keyPattern");
    for (Indexes* const each : of(ns)) {
      for (auto& [known, spec] : *each) {
        if (known != name && !(key && key == spec.view().document("key"))) continue;
        Bson changed;
        std::vector<std::string> set;
        Fields changes(change);
        for (Field each; changes.next(each);) {
          const std::string field(each.key);
          if (field == "name" || field == "keyPattern") continue;
          constexpr std::array<std::string_view, 4> known_fields = {"expireAfterSeconds", "hidden",
                                                                    "prepareUnique", "unique"};
          if (field == "forceNonUnique") {
            set.emplace_back("unique");
          } else if (std::ranges::find(known_fields, field) != known_fields.end()) {
            set.push_back(field);
            if (field == "unique") set.emplace_back("prepareUnique");
          } else {
            return unknown_change(ns, known, field);
          }
        }
        for (const Field& old : Fields(spec.view()))
          if (std::ranges::find(set, old.key) == set.end()) append_field(changed.get(), old);
        changes = Fields(change);
        for (Field each; changes.next(each);) {
          const bool off = each.type == BSON_TYPE_BOOL && !each.truth();
          if (!each.is("name") && !each.is("keyPattern") && !each.is("forceNonUnique") && !off)
            append_field(changed.get(), each);
        }
        spec = std::move(changed);
      }
    }
  } else if (what == "renameCollection") {
    const std::string to = new_namespace_of(command);
    indexes_.erase(to);
    if (auto moved = indexes_.extract(ns); !moved.empty()) {
      moved.key() = to;
      indexes_.insert(std::move(moved));
    }
  }
  return {};
}

Bson index_spec(Document index) {
  Bson spec = without_origin(index);
  // No collation means the simple one in a list or an oplog, but the collection's in a command.
  // An index of an older version has none.
  if (index.numeric("v").value_or(2) >= 2 && !index.has("collation"))
    spec.append("collation", Bson("locale", "simple"));
  return spec;
}

namespace {

Result<void> send_create_indexes(Server& server, std::string_view ns,
                                 std::span<const Document> specs) {
  if (specs.empty()) return {};
  return only_error(server.command(
      database_of(ns), Bson("createIndexes", collection_of(ns), "indexes",
                            array_of(specs, index_spec), "ignoreUnknownIndexOptions", true)));
}

}  // namespace

Result<void> create_indexes(Server& server, std::string_view ns,
                            const std::vector<Document>& specs) {
  Result<void> created = send_create_indexes(server, ns, specs);
  if (created) return created;
  std::string names;
  for (const Document spec : specs) {
    names += names.empty() ? "" : ", ";
    names += text_of(spec, "name");
  }
  return std::unexpected(
      in_context("indexes " + names + " of " + std::string(ns), std::move(created.error())));
}

std::string in_words(const RefusedIndex& refused) {
  return "the index " + refused.name + " of " + refused.ns +
         (refused.built == Timestamp{} ? "" : ", built at " + print_timestamp(refused.built)) +
         ": " + refused.why;
}

Result<void> create_one_by_one(Server& server, std::string_view ns,
                               const std::vector<Document>& specs,
                               std::vector<RefusedIndex>& refused) {
  for (const Document spec : specs) {
    const Result<void> created = send_create_indexes(server, ns, std::span(&spec, 1));
    if (created) continue;
    if (created.error().code == Code::kUnavailable) return created;
    refused.push_back({.ns = std::string(ns),
                       .name = text_of(spec, "name"),
                       .why = created.error().message(),
                       .spec = Bson::copy_of(spec)});
  }
  return {};
}

Result<void> drop_unfinished_indexes(Server& server) {
  const Result<std::vector<CollectionFacts>> all = list_namespaces(server);
  if (!all) return error_in(all);
  for (const CollectionFacts& each : *all) {
    if (each.kind != CollectionKind::kCollection) continue;
    const Bson list = Bson("listIndexes", each.name, "includeBuildUUIDs", true);
    const Result<Bson> indexes = server.command(each.database, list);
    if (!indexes) return error_in(indexes);
    // A collection has at most 64 indexes, so one batch has all.
    for (const Field& item : Fields(indexes->view().document("cursor").array("firstBatch"))) {
      const Document index = item.document();
      if (!index.has("buildUUID")) continue;
      const std::string name = text_of(index.document("spec"), "name");
      const Bson drop = Bson("dropIndexes", each.name, "index", name);
      const Result<Bson> dropped = server.command(each.database, drop);
      if (!dropped)
        return fail(dropped.error().code,
                    "the index " + name + " of " + each.ns() +
                        ", of which the copy has the beginning: " + dropped.error().message());
    }
  }
  return {};
}

Result<void> build_indexes(Server& server, const IndexCatalog& catalog,
                           const TakeProgress& progress, std::vector<RefusedIndex>* refused) {
  std::uint64_t done = 0;
  for (const auto& [ns, indexes] : catalog.all()) {
    std::vector<Document> specs;
    for (const auto& [name, spec] : indexes) specs.push_back(spec.view());
    Result<void> created = create_indexes(server, ns, specs);
    if (!created && refused != nullptr && created.error().code != Code::kUnavailable)
      created = create_one_by_one(server, ns, specs, *refused);
    if (!created) return created;
    if (!progress) continue;
    if (Result<void> told = progress(++done); !told) return told;
  }
  return {};
}

}  // namespace idmint::restore
