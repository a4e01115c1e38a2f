#include "restore/replay/preflight.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "base/errors.h"
#include "restore/namespaces.h"
#include "restore/replay/record.h"
#include "restore/replay/state.h"

namespace idmint::restore {
namespace {

// The series of a version: "6.0".
std::string_view series(std::string_view version) {
  const std::size_t dot = version.find('.');
  return dot == std::string_view::npos ? version : version.substr(0, version.find('.', dot + 1));
}

bool has_entries(Document reply, const char* path) {
  bson_iter_t at = reply.begin();
  bson_iter_t list;
  return bson_iter_find_descendant(&at, path, &list) && as_document(list) &&
         !as_document(list).first_key().empty();
}

Result<void> check_privileges(Server& server) {
  const Bson command = Bson("connectionStatus", 1, "showPrivileges", true);
  const Result<Bson> status = server.command("admin", command.get());
  if (!status) return std::unexpected(status.error());
  if (may_do_anything(status->view())) return {};
  return fail(
      Code::kPermissionDenied,
      "the user of " + server.shown_uri() +
          " may not restore: the server checks each entry of an oplog, and of its roles not even "
          "root may insert a view; there, as an administrator, run "
          "db.getSiblingDB('admin').createRole({role: 'idmintRestore', privileges: [{resource: "
          "{anyResource: true}, actions: ['anyAction']}], roles: []}) and "
          "db.getSiblingDB('admin').grantRolesToUser('USER', ['idmintRestore'])");
}

}  // namespace

bool same_series(std::string_view one, std::string_view other) {
  return series(one) == series(other);
}

bool may_do_anything(Document connection_status) {
  if (!has_entries(connection_status, "authInfo.authenticatedUsers")) return true;
  bson_iter_t at = connection_status.begin();
  bson_iter_t privileges;
  bson_iter_t each;
  if (!bson_iter_find_descendant(&at, "authInfo.authenticatedUserPrivileges", &privileges) ||
      !bson_iter_recurse(&privileges, &each))
    return false;
  while (bson_iter_next(&each)) {
    bson_iter_t inside = as_document(each).begin();
    bson_iter_t resource;
    bson_iter_t actions;
    if (!bson_iter_find_descendant(&inside, "resource.anyResource", &resource) ||
        !bson_iter_as_bool(&resource) || !as_document(each).find("actions", &actions) ||
        !bson_iter_recurse(&actions, &actions))
      continue;
    while (bson_iter_next(&actions)) {
      if (as_text(actions) == "anyAction") return true;
    }
  }
  return false;
}

// Those of the base would take their place, and the one by which this run is logged in would go.
Result<void> check_no_users(Server& server) {
  for (const char* const name : {"system.users", "system.roles"}) {
    const Bson find = Bson("find", name, "limit", 1, "projection", Bson("_id", 1));
    const Result<Bson> found = server.command("admin", find.get());
    if (!found) return std::unexpected(found.error());
    std::optional<std::string> first;
    found->view().each_found([&](const Document& each) { first = text_of(each, "_id"); });
    if (first)
      return fail(Code::kAlreadyExists,
                  server.shown_uri() + " has users or roles already, such as " + *first +
                      ", and those of the base would take their place: restore with --spare DIR, "
                      "or to a server that has none, without access control; or leave --users out");
  }
  return {};
}

Result<TargetFacts> check_target(Server& server, const TargetNeeds& needs) {
  if (!server.set_name().empty() && !needs.replica_set_ok)
    return fail(Code::kFailedPrecondition,
                server.shown_uri() + " is a member of the replica set " + server.set_name() +
                    ": restore to a spare server (--spare DIR), or, where that set is no "
                    "production one, add --allow-replica-set");
  if (!needs.version.empty() && !same_series(needs.version, server.version()))
    return fail(Code::kFailedPrecondition, "the backup is of MongoDB " + needs.version + ", and " +
                                               server.shown_uri() + " runs " + server.version() +
                                               ": entries of an oplog mean the same only in "
                                               "one series; restore to a server of " +
                                               std::string(series(needs.version)) +
                                               " (--spare with --mongod PATH)");
  if (Result<void> permitted = check_privileges(server); !permitted)
    return std::unexpected(std::move(permitted.error()));

  TargetFacts facts;
  Result<std::optional<Record>> found = Record::find(server);
  if (!found) return std::unexpected(std::move(found.error()));
  const std::optional<Record> record = *std::move(found);
  if (record) {
    if (Result<void> same = record->expect(needs.fingerprint); !same)
      return std::unexpected(std::move(same.error()));
  } else if (!needs.filled) {
    const Result<std::vector<CollectionFacts>> there = list_collections(server);
    if (!there) return std::unexpected(there.error());
    if (!there->empty())
      return fail(Code::kAlreadyExists,
                  server.shown_uri() + " is not empty: it has " + there->front().ns() +
                      (there->size() == 1 ? "" : " and more") +
                      "; restore to an empty server, or with --spare DIR to a new one");
    if (Result<void> none = needs.users ? check_no_users(server) : Result<void>{}; !none)
      return std::unexpected(std::move(none.error()));
  }
  const Bson ask = Bson("getParameter", 1, "ttlMonitorEnabled", 1);
  const Result<Bson> ttl = server.command("admin", ask.get());
  if (!ttl) return std::unexpected(ttl.error());
  bson_iter_t at;
  facts.ttl_runs = ttl->view().find("ttlMonitorEnabled", &at) && bson_iter_as_bool(&at);
  return facts;
}

Result<void> end_leftovers(Server& server) {
  const Bson others = Bson("aggregate", 1, "pipeline",
                           array(Bson("$currentOp", Bson()),
                                 Bson("$match", Bson("appName", "idmint-restore", "active", true,
                                                     "command.aggregate", Bson("$ne", 1)))),
                           "cursor", Bson());
  for (int attempt = 0; attempt < 600; ++attempt) {
    const Result<Bson> reply = server.command("admin", others.get());
    if (!reply) return std::unexpected(reply.error());
    bson_iter_t at = reply->view().begin();
    bson_iter_t batch;
    bson_iter_t each;
    if (!bson_iter_find_descendant(&at, "cursor.firstBatch", &batch) ||
        !bson_iter_recurse(&batch, &each) || !bson_iter_next(&each))
      return {};
    do {
      bson_iter_t id;
      if (!as_document(each).find("opid", &id)) continue;
      const Bson kill = Bson("killOp", 1);
      bson_append_iter(kill.get(), "op", -1, &id);
      const Result<Bson> killed = server.command("admin", kill.get());
      if (!killed) return std::unexpected(killed.error());
    } while (bson_iter_next(&each));
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
  }
  return fail(Code::kUnavailable, server.shown_uri() +
                                      " still works for a run that was killed; the same command "
                                      "goes on when that has ended");
}

Result<bool> has_ttl(Server& server) {
  constexpr const char* field = "expireAfterSeconds";  // of a collection, where it is clustered
  const Result<std::vector<CollectionFacts>> there = list_collections(server);
  if (!there) return std::unexpected(there.error());
  bson_iter_t at;
  return std::ranges::any_of(*there, [&](const CollectionFacts& each) {
    return each.options.view().find(field, &at) ||
           std::ranges::any_of(each.indexes,
                               [&](const Bson& index) { return index.view().find(field, &at); });
  });
}

Result<void> pause_ttl(Server& server) {
  const Bson command = Bson("setParameter", 1, "ttlMonitorEnabled", false);
  const Result<Bson> paused = server.command("admin", command.get());
  if (!paused) return std::unexpected(paused.error());
  return {};
}

}  // namespace idmint::restore
