#include "restore/replay/preflight.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "base/errors.h"
#include "restore/namespaces.h"
#include "restore/oplog/fields.h"
#include "restore/replay/record.h"
#include "restore/replay/state.h"

namespace idmint::restore {
namespace {

// The series of a version: "6.0".
std::string_view series(std::string_view version) {
  const std::size_t dot = version.find('.');
  return dot == std::string_view::npos ? version : version.substr(0, version.find('.', dot + 1));
}

}  // namespace

Result<void> check_privileges(Server& server, std::string_view why) {
  const Result<Bson> status =
      server.command("admin", Bson("connectionStatus", 1, "showPrivileges", true));
  if (!status) return error_in(status);
  if (may_do_anything(status->view())) return {};
  return fail(
      Code::kPermissionDenied,
      "the user of " + server.shown_uri() + " " + std::string(why) +
          "; there, as an administrator, run "
          "db.getSiblingDB('admin').createRole({role: 'idmintRestore', privileges: [{resource: "
          "{anyResource: true}, actions: ['anyAction']}], roles: []}) and "
          "db.getSiblingDB('admin').grantRolesToUser('USER', ['idmintRestore'])");
}

bool same_series(std::string_view one, std::string_view other) {
  return series(one) == series(other);
}

bool may_do_anything(Document connection_status) {
  const Document info = connection_status.document("authInfo");
  if (info.array("authenticatedUsers").first_key().empty()) return true;
  bool may = false;
  info.each("authenticatedUserPrivileges", [&](const Document& each) {
    may = may ||
          (each.document("resource").truthy("anyResource") && each.lists("actions", "anyAction"));
  });
  return may;
}

// The users of the base would replace them, and that by which this run is logged in would go.
Result<void> check_no_users(Server& server) {
  for (const char* const name : {"system.users", "system.roles"}) {
    const Result<Bson> found =
        server.command("admin", Bson("find", name, "limit", 1, "projection", Bson("_id", 1)));
    if (!found) return error_in(found);
    if (const Document first = found->view().first_found())
      return fail(Code::kAlreadyExists,
                  server.shown_uri() + " has users or roles already, such as " +
                      text_of(first, "_id") +
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
  Result<void> permitted = check_privileges(server,
                                            "may not restore: the server checks each entry of an "
                                            "oplog, and of its roles not even root may "
                                            "insert a view");
  if (!permitted) return error_in(permitted);

  TargetFacts facts;
  Result<std::optional<Record>> found = Record::find(server);
  if (!found) return error_in(found);
  const std::optional<Record> record = *std::move(found);
  if (record) {
    if (Result<void> same = record->expect(needs.fingerprint); !same) return error_in(same);
  } else if (!needs.filled) {
    const Result<std::vector<CollectionFacts>> there = list_collections(server);
    if (!there) return error_in(there);
    if (!there->empty())
      return fail(Code::kAlreadyExists,
                  server.shown_uri() + " is not empty: it has " + there->front().ns() +
                      (there->size() == 1 ? "" : " and more") +
                      "; restore to an empty server, or with --spare DIR to a new one");
    if (Result<void> none = needs.users ? check_no_users(server) : Result<void>{}; !none)
      return error_in(none);
  }
  const Result<Bson> ttl = server.command("admin", Bson("getParameter", 1, "ttlMonitorEnabled", 1));
  if (!ttl) return error_in(ttl);
  facts.ttl_runs = ttl->view().truthy("ttlMonitorEnabled");
  return facts;
}

Result<void> end_leftovers(Server& server) {
  const Bson others = Bson("aggregate", 1, "pipeline",
                           array(Bson("$currentOp", Bson()),
                                 Bson("$match", Bson("appName", "idmint-restore", "active", true,
                                                     "command.aggregate", Bson("$ne", 1)))),
                           "cursor", Bson());
  for (int attempt = 0; attempt < 600; ++attempt) {
    const Result<Bson> reply = server.command("admin", others);
    if (!reply) return error_in(reply);
    if (!reply->view().first_found()) return {};
    for (const Field& each : Fields(reply->view().document("cursor").array("firstBatch"))) {
      Bson kill = Bson("killOp", 1);
      if (!kill.add_from(each.document(), "opid", "op")) continue;
      if (const Result<Bson> killed = server.command("admin", kill); !killed)
        return error_in(killed);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
  }
  return fail(Code::kUnavailable, server.shown_uri() +
                                      " still works for a run that was killed; the same command "
                                      "goes on when that has ended");
}

Result<bool> has_ttl(Server& server) {
  constexpr const char* field = "expireAfterSeconds";  // of a collection, where it is clustered
  const Result<std::vector<CollectionFacts>> there = list_collections(server);
  if (!there) return error_in(there);
  return std::ranges::any_of(*there, [&](const CollectionFacts& each) {
    return each.options.view().has(field) ||
           std::ranges::any_of(each.indexes,
                               [&](const Bson& index) { return index.view().has(field); });
  });
}

Result<void> pause_ttl(Server& server) {
  return only_error(server.command("admin", Bson("setParameter", 1, "ttlMonitorEnabled", false)));
}

}  // namespace idmint::restore
