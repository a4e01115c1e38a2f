#include "restore/promote/collection_at.h"

#include <utility>

#include "base/errors.h"
#include "base/text.h"
#include "mongo/errors.h"
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
  const Answer answer = ask(production, item.database(),
                            with_concern(refusing("create", item.collection(), id), production));
  if (answer.ok) return true;
  if (answer.code != kNamespaceExists) return failed(production, answer, "create of " + item.ns);
  const Result<std::optional<CollectionFacts>> there = find_collection(production, item.ns);
  if (!there) return error_in(there);
  const std::optional<CollectionFacts>& found = *there;
  return found && refuses_writers(found->options.view(), id);
}

// A missing collection is no error.
Result<void> change_if_there(Server& production, const std::string& ns, Bson command,
                             const std::string& doing) {
  const Answer answer =
      ask(production, database_of(ns), with_concern(std::move(command), production));
  if (answer.ok || answer.code == kNamespaceNotFound) return {};
  return failed(production, answer, doing);
}

}  // namespace

Result<Bson> change(Server& production, const std::string& database, Bson command) {
  const std::string doing(command.view().first_key());
  Result<Bson> reply = production.command(database, with_concern(std::move(command), production));
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
  const Result<Bson> reply = server.command(database, command);
  if (!reply) return error_in(reply);
  std::optional<CollectionFacts> found;
  reply->view().each_found([&](const Document& row) { found = facts_of(database, row); });
  return found;
}

Result<std::string> uuid_of(Server& server, const std::string& ns) {
  const Result<std::optional<CollectionFacts>> there = find_collection(server, ns);
  if (!there) return error_in(there);
  const std::optional<CollectionFacts>& found = *there;
  return found ? found->uuid : std::string();
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
  for (const Bson& each : ids)
    if (const std::optional<Field> id = find_field(each.view(), "_id"))
      append_field_as(list.items.get(), std::to_string(list.size++), *id);
  std::map<std::string, Bson> found;
  Result<void> read =
      find_each(server, ns, Bson("_id", Bson("$in", list)), Bson("maxTimeMS", kCommandLimit),
                [&](Document document) -> Result<void> {
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
  const Answer answer =
      ask(production, item.database(), with_concern(std::move(command), production));
  if (answer.ok) return {};
  const std::string doing = "blocking the writers of " + item.ns;
  if (answer.code == mongo::kMaxTimeExpired)
    return fail(Code::kUnavailable,
                doing + ": " + answer.message +
                    "; a transaction that is open there keeps its lock, a minute at most: the "
                    "same command goes on");
  return failed(production, answer, doing);
}

Result<void> let_writers_in(Server& production, const std::string& ns, Document validation) {
  const Document validator = validation.document("validator");
  const std::string level = text_of(validation, "validationLevel");
  const std::string action = text_of(validation, "validationAction");
  return change_if_there(
      production, ns,
      Bson("collMod", collection_of(ns), "validator", validator ? Bson::copy_of(validator) : Bson(),
           "validationLevel", level.empty() ? "strict" : level.c_str(), "validationAction",
           action.empty() ? "error" : action.c_str(), "maxTimeMS", kCommandLimit),
      "letting writers into " + ns);
}

Result<void> make_view(PromoteRecord& record, PromoteItem& item) {
  const Result<std::optional<CollectionFacts>> there =
      find_collection(record.production(), item.ns);
  if (!there) return error_in(there);
  if (*there) return {};
  item.missing = true;
  if (Result<void> written = record.write(); !written) return written;
  Bson command = Bson("create", item.collection());
  command.add_all(*item.final_options.get());
  return only_error(change(record.production(), item.database(), std::move(command)));
}

Result<void> rename_at_once(Server& production, std::span<const Rename> renames) {
  if (renames.empty()) return {};
  BsonArray operations;
  for (const Rename& each : renames) {
    Bson operation = Bson("op", "c", "ns", database_of(each.from) + ".$cmd");
    operation.add_binary("ui", BSON_SUBTYPE_UUID, unhex(each.uuid));
    operation.add("o", Bson("renameCollection", each.from, "to", each.to));
    operations.push(operation);
  }
  const Answer answer =
      ask(production, "admin",
          with_concern(Bson("applyOps", operations, "maxTimeMS", kCommandLimit), production));
  if (!answer.ok) return failed(production, answer, "renaming " + renames.front().from);
  // The server says ok even if it did nothing.
  for (const Rename& each : renames) {
    const Result<std::string> uuid = uuid_of(production, each.to);
    if (!uuid) return error_in(uuid);
    if (uuid->empty() || *uuid != each.uuid)
      return fail(Code::kUnknown, each.from + " was not renamed to " + each.to +
                                      ": somebody drops or renames collections there");
  }
  return {};
}

Result<void> drop_collection(Server& production, const std::string& ns) {
  return change_if_there(
      production, ns, Bson("drop", collection_of(ns), "maxTimeMS", kCommandLimit), "drop of " + ns);
}

}  // namespace idmint::restore
