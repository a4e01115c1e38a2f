#include "restore/promote/collection_at.h"

#include <array>
#include <utility>

#include "base/errors.h"
#include "base/text.h"
#include "restore/cursor.h"
#include "restore/namespaces.h"
#include "restore/oplog/fields.h"
#include "restore/replay/apply_ops.h"
#include "restore/replay/record.h"

namespace idmint::restore {
namespace {

constexpr std::int64_t kNamespaceExists = 48;

Bson refusing(const std::string& command, const std::string& collection, const std::string& id) {
  return Bson(command.c_str(), collection, "validator", refusing_validator(id), "validationLevel",
              "strict", "validationAction", "error");
}

// Creates the empty collection in place of one that production lacks. False: another program has
// created it meanwhile.
Result<bool> make_placeholder(Server& production, const PromoteItem& item, const std::string& id) {
  Bson command = refusing("create", item.collection(), id);
  append_concern(command.get(), production, true);
  const Answer answer = ask(production, item.database(), command.get());
  if (answer.ok) return true;
  if (answer.unavailable) return std::unexpected(lost(production, answer));
  if (answer.code != kNamespaceExists)
    return fail(answer.why, "create of " + item.ns + ": " + answer.message);
  const Result<std::optional<CollectionFacts>> there = find_collection(production, item.ns);
  if (!there) return error_in(there);
  const std::optional<CollectionFacts>& found = *there;
  return found && refuses_writers(found->options.view(), id);
}

}  // namespace

Result<Bson> change(Server& production, const std::string& database, Bson command) {
  append_concern(command.get(), production, true);
  const std::string doing(command.view().first_key());
  Result<Bson> reply = production.command(database.c_str(), command.get());
  if (!reply) return reply;
  const Document answer = reply->view();
  const bool refused = answer.has("writeErrors");
  const bool passing = !refused || failed_in_passing(answer);
  if (refused || answer.has("writeConcernError"))
    return fail(passing ? Code::kUnavailable : Code::kFailedPrecondition,
                doing + " on " + production.shown_uri() + ": " + to_relaxed_json(answer));
  return reply;
}

bool failed_in_passing(Document reply) {
  bool passing = false;
  reply.each("writeErrors", [&](const Document& error) {
    passing = passing || meaning_of(error.number("code")).passing;
  });
  return passing;
}

Result<std::optional<CollectionFacts>> find_collection(Server& server, const std::string& ns) {
  const std::string database = database_of(ns);
  const Bson command = Bson("listCollections", 1, "filter", Bson("name", collection_of(ns)),
                            "maxTimeMS", kCommandLimit);
  const Result<Bson> reply = server.command(database.c_str(), command.get());
  if (!reply) return error_in(reply);
  std::optional<CollectionFacts> found;
  reply->view().each_found([&](const Document& row) { found = facts_of(database, row); });
  return found;
}

std::string id_key(const Field& id) {
  Bson key;
  const std::optional<std::int64_t> whole = id.integer();
  if (whole && (id.type != BSON_TYPE_DOUBLE || id.real() == static_cast<double>(*whole))) {
    key.add("_id", *whole);
  } else {
    append_field_as(key.get(), "_id", id);
  }
  const std::span<const std::uint8_t> bytes = key.view().bytes();
  constexpr std::size_t head = sizeof(std::uint32_t);  // the length; a 0 is the end
  return {reinterpret_cast<const char*>(bytes.data()) + head, bytes.size() - head - 1};
}

std::string id_key(Document document) {
  const std::optional<Field> id = find_field(document, "_id");
  return id ? id_key(*id) : std::string();
}

Result<std::map<std::string, Bson>> documents_of(Server& server, const std::string& ns,
                                                 std::span<const Bson> ids) {
  BsonArray list;
  std::size_t index = 0;
  for (const Bson& each : ids)
    if (const std::optional<Field> id = find_field(each.view(), "_id"))
      append_field_as(list.items.get(), std::to_string(index++), *id);
  const std::string database = database_of(ns);
  const Bson filter = Bson("_id", Bson("$in", list));
  const Bson options = Bson("maxTimeMS", kCommandLimit);
  const Collection collection(
      mongoc_client_get_collection(server.client(), database.c_str(), collection_of(ns).c_str()));
  const Cursor cursor(
      mongoc_collection_find_with_opts(collection.get(), filter.get(), options.get(), nullptr));
  std::map<std::string, Bson> found;
  Result<void> read = each(cursor, "find in " + ns, [&](Document document) -> Result<void> {
    found.insert_or_assign(id_key(document), Bson::copy_of(document));
    return {};
  });
  if (!read) return error_in(read);
  return found;
}

Result<std::string> insert_as_it_is(Server& server, const std::string& ns, const Bson& document) {
  Operations operations;
  operations.append("i", ns, document.view(), {});
  const Answer answer = apply_one_by_one(server, operations);
  if (answer.unavailable) return std::unexpected(lost(server, answer));
  return answer.ok ? std::string() : answer.message;
}

Bson validation_in(Document options) {
  Bson found;
  for (const char* const name : {"validator", "validationLevel", "validationAction"})
    if (const std::optional<Field> field = find_field(options, name))
      append_field(found.get(), *field);
  return found;
}

Bson refusing_validator(const std::string& id) {
  return Bson("$comment", "idmint-restore promote " + id + ": no writes now", "$expr", false);
}

bool refuses_writers(Document options, const std::string& id) {
  return options.document("validator") == refusing_validator(id).view();
}

Result<void> block_writers(PromoteRecord& record, PromoteItem& item) {
  Server& production = record.production();
  const std::string& id = record.state().id;
  Result<std::optional<CollectionFacts>> there = find_collection(production, item.ns);
  if (!there) return error_in(there);
  if (!*there && item.old_uuid.empty()) {
    if (!item.missing) {
      item.missing = true;
      if (Result<void> written = record.write(); !written) return written;
    }
    const Result<bool> made = make_placeholder(production, item, id);
    if (!made) return error_in(made);
    there = find_collection(production, item.ns);
    if (!there) return error_in(there);
  }
  const std::optional<CollectionFacts>& found = *there;
  if (!found)
    return must_be_undone(Code::kUnavailable,
                          item.ns + " was dropped on " + production.shown_uri() + " meanwhile");
  const CollectionFacts& facts = *found;
  if (facts.kind != CollectionKind::kCollection)
    return fail(Code::kFailedPrecondition,
                item.ns + " is a " + std::string(name(facts.kind)) + " on production by now");
  if (!item.old_uuid.empty() && facts.uuid != item.old_uuid)
    return must_be_undone(Code::kUnavailable, item.ns + " is another collection on " +
                                                  production.shown_uri() + " than before");
  const bool blocked = refuses_writers(facts.options.view(), id);
  if (item.old_uuid.empty()) {
    item.missing = item.missing && blocked;  // otherwise another program created it first
    item.old_uuid = facts.uuid;
    item.old_options = blocked ? Bson() : validation_in(facts.options.view());
    if (Result<void> written = record.write(); !written) return written;
  }
  if (blocked) return {};
  Bson command = refusing("collMod", item.collection(), id);
  command.add("maxTimeMS", kCommandLimit);
  append_concern(command.get(), production, true);
  const Answer answer = ask(production, item.database(), command.get());
  if (answer.ok) return {};
  if (answer.unavailable) return std::unexpected(lost(production, answer));
  const std::string doing = "blocking the writers of " + item.ns + ": " + answer.message;
  if (answer.code == kMaxTimeExpired)
    return fail(Code::kUnavailable,
                doing +
                    "; a transaction that is open there keeps its lock, a minute at most: the "
                    "same command goes on");
  return fail(answer.why, doing);
}

Result<void> let_writers_in(Server& production, const std::string& ns, Document validation) {
  Bson command = Bson("collMod", collection_of(ns));
  const Document validator = validation.document("validator");
  const std::string level = text_of(validation, "validationLevel");
  const std::string action = text_of(validation, "validationAction");
  command.add("validator", validator ? Bson::copy_of(validator) : Bson());
  command.add("validationLevel", level.empty() ? "strict" : level.c_str());
  command.add("validationAction", action.empty() ? "error" : action.c_str());
  command.add("maxTimeMS", kCommandLimit);
  append_concern(command.get(), production, true);
  const Answer answer = ask(production, database_of(ns), command.get());
  if (answer.ok || answer.code == kNamespaceNotFound) return {};
  if (answer.unavailable) return std::unexpected(lost(production, answer));
  return fail(answer.why, "letting writers into " + ns + ": " + answer.message);
}

Result<void> make_view(PromoteRecord& record, PromoteItem& item) {
  const Result<std::optional<CollectionFacts>> there =
      find_collection(record.production(), item.ns);
  if (!there) return error_in(there);
  if (*there) return {};
  item.missing = true;
  if (Result<void> written = record.write(); !written) return written;
  Bson command = Bson("create", item.collection());
  const bson_t options = item.final_options.view().view();
  command.add_all(options);
  const Result<Bson> made = change(record.production(), item.database(), std::move(command));
  if (!made) return error_in(made);
  return {};
}

Result<void> rename_at_once(Server& production, std::span<const Rename> renames) {
  BsonArray operations;
  std::size_t index = 0;
  for (const Rename& each : renames) {
    Bson operation = Bson("op", "c", "ns", database_of(each.from) + ".$cmd");
    operation.add_binary("ui", BSON_SUBTYPE_UUID, unhex(each.uuid));
    operation.add("o", Bson("renameCollection", each.from, "to", each.to));
    operations.items.add(std::to_string(index++).c_str(), operation);
  }
  if (index == 0) return {};
  const Bson command = Bson("applyOps", operations, "maxTimeMS", kCommandLimit);
  append_concern(command.get(), production, true);
  const std::string& first = renames.front().from;
  const Answer answer = ask(production, "admin", command.get());
  if (answer.unavailable) return std::unexpected(lost(production, answer));
  if (!answer.ok) return fail(answer.why, "renaming " + first + ": " + answer.message);
  // The server says ok even if it did nothing.
  for (const Rename& each : renames) {
    const Result<std::optional<CollectionFacts>> there = find_collection(production, each.to);
    if (!there) return error_in(there);
    const std::optional<CollectionFacts>& found = *there;
    if (!found || found->uuid != each.uuid)
      return fail(Code::kUnknown, each.from + " was not renamed to " + each.to +
                                      ": somebody drops or renames collections there");
  }
  return {};
}

Result<void> drop_collection(Server& production, const std::string& ns) {
  Bson command = Bson("drop", collection_of(ns), "maxTimeMS", kCommandLimit);
  append_concern(command.get(), production, true);
  const Answer answer = ask(production, database_of(ns), command.get());
  if (answer.ok || answer.code == kNamespaceNotFound) return {};
  if (answer.unavailable) return std::unexpected(lost(production, answer));
  return fail(answer.why, "drop of " + ns + ": " + answer.message);
}

}  // namespace idmint::restore
