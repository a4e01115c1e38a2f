#include "restore/server.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/url.h"
#include "idmint/result.h"

namespace idmint::restore {
namespace {

struct UriDeleter {
  void operator()(mongoc_uri_t* uri) const { mongoc_uri_destroy(uri); }
};
using Uri = std::unique_ptr<mongoc_uri_t, UriDeleter>;

std::string taken(char* text) {
  std::string copy(text != nullptr ? text : "");
  bson_free(text);
  return copy;
}

// Before the first use of the driver in a process; nothing is undone, as it has threads.
void start_driver() {
  static const bool started = [] {
    mongoc_log_set_handler([](mongoc_log_level_t, const char*, const char*, void*) noexcept {},
                           nullptr);
    mongoc_init();
    return true;
  }();
  static_cast<void>(started);
}

struct ServerCode {
  std::uint32_t number;
  Code code;
};
// Of error_codes.yml. All others are refusals.
constexpr std::array kServerCodes = {
    ServerCode{6, Code::kUnavailable},        // HostUnreachable
    ServerCode{7, Code::kUnavailable},        // HostNotFound
    ServerCode{13, Code::kPermissionDenied},  // Unauthorized
    ServerCode{18, Code::kUnauthenticated},   // AuthenticationFailed
    ServerCode{43, Code::kUnavailable},       // CursorNotFound
    ServerCode{50, Code::kUnavailable},       // MaxTimeMSExpired
    ServerCode{89, Code::kUnavailable},       // NetworkTimeout
    ServerCode{91, Code::kUnavailable},       // ShutdownInProgress
    ServerCode{134, Code::kUnavailable},      // ReadConcernMajorityNotAvailableYet
    ServerCode{136, Code::kOutOfRange},       // CappedPositionLost
    ServerCode{175, Code::kUnavailable},      // QueryPlanKilled
    ServerCode{189, Code::kUnavailable},      // PrimarySteppedDown
    ServerCode{237, Code::kUnavailable},      // CursorKilled
    ServerCode{262, Code::kUnavailable},      // ExceededTimeLimit
    ServerCode{9001, Code::kUnavailable},     // SocketException
    ServerCode{10107, Code::kUnavailable},    // NotWritablePrimary
    ServerCode{11600, Code::kUnavailable},    // InterruptedAtShutdown
    ServerCode{11601, Code::kUnavailable},    // Interrupted
    ServerCode{11602, Code::kUnavailable},    // InterruptedDueToReplStateChange
    ServerCode{13435, Code::kUnavailable},    // NotPrimaryNoSecondaryOk
    ServerCode{13436, Code::kUnavailable},    // NotPrimaryOrSecondary
};

std::unexpected<Error> sharded(const std::string& uri, const char* what) {
  return std::unexpected(
      Error{Code::kFailedPrecondition,
            uri + " is " + what +
                ": a sharded cluster is not restored by one oplog, as chunks move between its "
                "shards; use a backup that covers the whole cluster"});
}

}  // namespace

Result<OwnDocument> from_json(std::string_view json) {
  bson_error_t error{};
  bson_t* const document = bson_new_from_json(reinterpret_cast<const std::uint8_t*>(json.data()),
                                              static_cast<ssize_t>(json.size()), &error);
  if (document == nullptr)
    return std::unexpected(
        Error{Code::kInvalidArgument, std::string("no extended JSON: ") + error.message});
  return own(document);
}

std::string to_canonical_json(Document document) {
  const bson_t view = document.view();
  return taken(bson_as_canonical_extended_json(&view, nullptr));
}

std::string to_relaxed_json(Document document) {
  const bson_t view = document.view();
  return taken(bson_as_relaxed_extended_json(&view, nullptr));
}

Preference read_preference(const mongoc_client_t* client) {
  const mongoc_read_prefs_t* const given = mongoc_client_get_read_prefs(client);
  return Preference(mongoc_read_prefs_get_mode(given) == MONGOC_READ_PRIMARY
                        ? mongoc_read_prefs_new(MONGOC_READ_PRIMARY_PREFERRED)
                        : mongoc_read_prefs_copy(given));
}

Error told(const std::string& tried, const bson_error_t& error) {
  const std::string message = tried + ": " + error.message;
  if (error.domain == MONGOC_ERROR_CLIENT && error.code == MONGOC_ERROR_CLIENT_AUTHENTICATE)
    return {Code::kUnauthenticated, message};
  if (error.domain == MONGOC_ERROR_SERVER_SELECTION || error.domain == MONGOC_ERROR_STREAM ||
      error.domain == MONGOC_ERROR_CLIENT)
    return {Code::kUnavailable, message};
  if (error.domain == MONGOC_ERROR_SERVER || error.domain == MONGOC_ERROR_QUERY ||
      error.domain == MONGOC_ERROR_CURSOR) {
    const auto* const row = std::ranges::find(kServerCodes, error.code, &ServerCode::number);
    if (row != kServerCodes.end()) return {row->code, message};
  }
  return {Code::kFailedPrecondition, message};
}

Result<Server> Server::another() const {
  start_driver();
  bson_error_t error{};
  const Uri uri(mongoc_uri_new_with_error(uri_.c_str(), &error));
  if (!uri)
    // The driver's own words may quote a secret.
    return std::unexpected(
        Error{Code::kInvalidArgument,
              shown_ + ": not a connection string of MongoDB" +
                  (shown_ == uri_ ? ": " + std::string(error.message)
                                  : "; write what is not a letter or digit in the user and the "
                                    "password with %, such as %40 for @")});
  mongoc_uri_set_appname(uri.get(), "idmint-restore");
  if (mongoc_uri_get_option_as_int32(uri.get(), MONGOC_URI_SERVERSELECTIONTIMEOUTMS, -1) < 0)
    mongoc_uri_set_option_as_int32(uri.get(), MONGOC_URI_SERVERSELECTIONTIMEOUTMS, 10'000);
  mongoc_uri_set_option_as_bool(uri.get(), MONGOC_URI_SERVERSELECTIONTRYONCE, false);
  // A server answers when an index is built, and keepalive finds one that is dead before.
  if (mongoc_uri_get_option_as_int32(uri.get(), MONGOC_URI_SOCKETTIMEOUTMS, -1) < 0)
    mongoc_uri_set_option_as_int32(uri.get(), MONGOC_URI_SOCKETTIMEOUTMS, 24 * 60 * 60 * 1000);
  Server server;
  server.uri_ = uri_;
  server.shown_ = shown_;
  server.version_ = version_;
  server.set_name_ = set_name_;
  server.client_.reset(mongoc_client_new_from_uri_with_error(uri.get(), &error));
  if (!server.client_)
    return std::unexpected(Error{Code::kInvalidArgument, shown_ + ": " + error.message});
  mongoc_client_set_error_api(server.client_.get(), MONGOC_ERROR_API_VERSION_2);
  return server;
}

Result<Server> Server::connect(const std::string& uri) {
  if (Result<void> clear = check_mongodb_url(uri); !clear)
    return std::unexpected(std::move(clear.error()));
  Server blank;
  blank.uri_ = uri;
  blank.shown_ = redacted(uri);
  Result<Server> server = blank.another();
  if (!server) return server;

  const OwnDocument hello = own(BCON_NEW("hello", BCON_INT32(1)));
  const Result<OwnDocument> who = server->read("admin", hello.get());
  if (!who) return std::unexpected(who.error());
  const Document reply = Document::of(who->get());
  bson_iter_t at;
  if (reply.find("msg", &at) && as_text(at) == "isdbgrid")
    return sharded(server->shown_, "the mongos of a sharded cluster");
  if (reply.find("configsvr", &at))
    return sharded(server->shown_, "a config server of a sharded cluster");
  if (reply.find("setName", &at)) server->set_name_ = as_text(at);

  const OwnDocument build = own(BCON_NEW("buildInfo", BCON_INT32(1)));
  const Result<OwnDocument> facts = server->read("admin", build.get());
  if (!facts) return std::unexpected(facts.error());
  if (Document::of(facts->get()).find("version", &at)) server->version_ = as_text(at);

  const OwnDocument identity =
      own(BCON_NEW("find", BCON_UTF8("system.version"), "filter", "{", "_id",
                   BCON_UTF8("shardIdentity"), "}", "limit", BCON_INT32(1)));
  const Result<OwnDocument> found = server->read("admin", identity.get());
  if (!found) {
    Error refused = found.error();
    if (refused.code == Code::kPermissionDenied)
      refused.message = "the user of " + server->shown_ +
                        " may not read admin.system.version, which says whether this is a shard "
                        "of a sharded cluster: give it the role backup of the database admin";
    return std::unexpected(std::move(refused));
  }
  bson_iter_t begin;
  if (Document::of(found->get()).find("cursor", &at) && bson_iter_recurse(&at, &begin) &&
      bson_iter_find(&begin, "firstBatch") && as_document(begin) &&
      !as_document(begin).first_key().empty())
    return sharded(server->shown_, "a shard of a sharded cluster");
  return server;
}

Result<OwnDocument> Server::command(const char* database, const bson_t* command) {
  return run(database, command, nullptr);
}

Result<OwnDocument> Server::read(const char* database, const bson_t* command) {
  return run(database, command, read_preference(client_.get()).get());
}

Result<OwnDocument> Server::run(const char* database, const bson_t* command,
                                const mongoc_read_prefs_t* preference) {
  bson_t reply;
  bson_error_t error{};
  const bool ok = mongoc_client_command_with_opts(client_.get(), database, command, preference,
                                                  nullptr, &reply, &error);
  OwnDocument copy = own(bson_copy(&reply));
  bson_destroy(&reply);
  if (ok) return copy;
  return std::unexpected(
      told(std::string(Document::of(command).first_key()) + " on " + shown_, error));
}

}  // namespace idmint::restore
