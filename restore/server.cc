#include "restore/server.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/url.h"
#include "idmint/result.h"

namespace idmint::restore {
namespace {

constexpr std::chrono::milliseconds kSelection = std::chrono::seconds{10};
constexpr std::chrono::milliseconds kQuestion = std::chrono::seconds{5};  // of the watch

std::vector<std::string> hosts_of(const std::string& text) {
  bson_error_t error{};
  const Uri uri(mongoc_uri_new_with_error(text.c_str(), &error));
  std::vector<std::string> hosts;
  for (const mongoc_host_list_t* at = uri ? mongoc_uri_get_hosts(uri.get()) : nullptr;
       at != nullptr; at = at->next)
    hosts.emplace_back(at->host_and_port);
  return hosts;
}

std::unexpected<Error> sharded(const std::string& uri, const char* what) {
  return fail(Code::kFailedPrecondition,
              uri + " is " + what +
                  ": a sharded cluster is not restored by one oplog, as chunks move between its "
                  "shards; use a backup that covers the whole cluster");
}

}  // namespace

Preference read_preference(const mongoc_client_t* client) {
  const mongoc_read_prefs_t* const given = mongoc_client_get_read_prefs(client);
  return Preference(mongoc_read_prefs_get_mode(given) == MONGOC_READ_PRIMARY
                        ? mongoc_read_prefs_new(MONGOC_READ_PRIMARY_PREFERRED)
                        : mongoc_read_prefs_copy(given));
}

Error told(const std::string& tried, const bson_error_t& error) {
  return {code_of_repeatable(error), tried + ": " + error.message};
}

Result<MongocClient> Server::client_with(std::chrono::milliseconds answer,
                                         std::chrono::milliseconds selection) const {
  bson_error_t error{};
  const Uri uri(mongoc_uri_new_with_error(uri_.c_str(), &error));
  if (!uri)
    // The driver's message may quote a secret.
    return fail(Code::kInvalidArgument,
                shown_ + ": not a connection string of MongoDB" +
                    (shown_ == uri_ ? ": " + std::string(error.message)
                                    : "; write what is not a letter or digit in the user and the "
                                      "password with %, such as %40 for @"));
  mongoc_uri_set_appname(uri.get(), "idmint-restore");
  const auto unless_given = [&](const char* option, std::chrono::milliseconds time) {
    if (mongoc_uri_get_option_as_int32(uri.get(), option, -1) < 0)
      mongoc_uri_set_option_as_int32(uri.get(), option, static_cast<std::int32_t>(time.count()));
  };
  unless_given(MONGOC_URI_SERVERSELECTIONTIMEOUTMS, selection);
  unless_given(MONGOC_URI_CONNECTTIMEOUTMS, selection);
  unless_given(MONGOC_URI_SOCKETTIMEOUTMS, answer);
  mongoc_uri_set_option_as_bool(uri.get(), MONGOC_URI_SERVERSELECTIONTRYONCE, false);
  MongocClient client(mongoc_client_new_from_uri_with_error(uri.get(), &error));
  if (!client) return fail(Code::kInvalidArgument, shown_ + ": " + error.message);
  mongoc_client_set_error_api(client.get(), MONGOC_ERROR_API_VERSION_2);
  return client;
}

Result<Server> Server::another(std::chrono::milliseconds patience) const {
  Server server;
  server.uri_ = uri_;
  server.shown_ = shown_;
  server.version_ = version_;
  server.set_name_ = set_name_;
  server.patience_ = std::min(patience_, patience);
  server.watch_ = watch_;
  Result<MongocClient> client = client_with(server.patience_, kSelection);
  if (!client) return error_in(client);
  server.client_ = *std::move(client);
  return server;
}

Result<Server> Server::connect(const std::string& uri, const ConnectOptions& options) {
  if (Result<void> clear = check_server_url(uri); !clear) return error_in(clear);
  Server blank;
  blank.uri_ = uri;
  blank.shown_ = redacted(options.shown.empty() ? uri : options.shown);
  blank.patience_ = options.patience;
  const std::chrono::milliseconds question =
      std::min<std::chrono::milliseconds>(kQuestion, options.watch.silence / 2);
  Result<MongocClient> watching = blank.client_with(question, question);
  if (!watching) return error_in(watching);
  blank.watch_ =
      std::make_shared<const ServerWatch>(*std::move(watching), hosts_of(uri), options.watch);
  Result<Server> server = blank.another();
  if (!server) return server;

  const Result<Bson> who = server->read("admin", Bson("hello", 1));
  if (!who) return error_in(who);
  const Document reply = Document::of(who->get());
  if (reply.text("msg") == "isdbgrid")
    return sharded(server->shown_, "the mongos of a sharded cluster");
  if (reply.has("configsvr"))
    return sharded(server->shown_, "a config server of a sharded cluster");
  server->set_name_ = reply.text("setName");

  const Result<Bson> facts = server->read("admin", Bson("buildInfo", 1));
  if (!facts) return error_in(facts);
  server->version_ = facts->view().text("version");

  if (options.not_sharded) return server;
  const Bson identity =
      Bson("find", "system.version", "filter", Bson("_id", "shardIdentity"), "limit", 1);
  const Result<Bson> found = server->read("admin", identity);
  if (!found) {
    Error refused = found.error();
    if (refused.code == Code::kPermissionDenied)
      refused.what = "the user of " + server->shown_ +
                     " may not read admin.system.version, which says whether this is a shard "
                     "of a sharded cluster: give it the role backup of the database admin, or add "
                     "--not-sharded where you know that it is none";
    return std::unexpected(std::move(refused));
  }
  bool shard = false;
  found->view().each_found([&](const Document&) { shard = true; });
  if (!shard) return server;
  std::unexpected<Error> refused = sharded(server->shown_, "a shard of a sharded cluster");
  end_of(refused.error()) +=
      " (admin.system.version has its identity). Where it was one once, and is a replica set by "
      "itself now, add --not-sharded";
  return refused;
}

Error Server::explained(Error error) const {
  const std::string reason = watch_ ? watch_->reason() : std::string();
  if (error.code == Code::kUnavailable && !reason.empty())
    error = {.code = error.code, .what = reason + " (" + error.message() + ")"};
  return error;
}

Result<Bson> Server::command(const std::string& database, const Bson& command) {
  return run(database, command, nullptr);
}

Result<Bson> Server::read(const std::string& database, const Bson& command) {
  return run(database, command, read_preference(client_.get()).get());
}

Result<Bson> Server::run(const std::string& database, const Bson& command,
                         const mongoc_read_prefs_t* preference) {
  bson_t reply;
  bson_error_t error{};
  const bool ok = mongoc_client_command_with_opts(client_.get(), database.c_str(), command.get(),
                                                  preference, nullptr, &reply, &error);
  Bson answer = Bson::taken_from(&reply);
  if (ok) return answer;
  return std::unexpected(
      explained(told(std::string(command.view().first_key()) + " on " + shown_, error)));
}

}  // namespace idmint::restore
