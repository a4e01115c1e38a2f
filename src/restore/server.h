// The servers that a URI names, for commands one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "idmint/result.h"
#include "mongo/bson.h"
#include "mongo/driver.h"
#include "mongo/errors.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// An error of the driver or a server: what was tried, and what was answered. The code is that of
// code_of_repeatable().
[[nodiscard]] Error told(const std::string& tried, const bson_error_t& error);

struct PreferenceDeleter {
  void operator()(mongoc_read_prefs_t* preference) const { mongoc_read_prefs_destroy(preference); }
};
using Preference = std::unique_ptr<mongoc_read_prefs_t, PreferenceDeleter>;
// Where a client reads: as its URI says; by default from the primary or, while there is none, from
// a secondary.
[[nodiscard]] Preference read_preference(const mongoc_client_t* client);

struct MongocClientDeleter {
  void operator()(mongoc_client_t* client) const { mongoc_client_destroy(client); }
};

// A connection. For one thread; another takes another().
class Server {
 public:
  // Connects, and asks who it is. kInvalidArgument: no such URI, as check_mongodb_url() says too.
  // kFailedPrecondition: a sharded cluster, whose mongos or shard this is; the restore of one is
  // another procedure.
  [[nodiscard]] static Result<Server> connect(const std::string& uri);
  [[nodiscard]] Result<Server> another() const;

  // The reply of the primary; ok is 1.
  [[nodiscard]] Result<Bson> command(const char* database, const bson_t* command);
  // Of a command that only reads: by read_preference().
  [[nodiscard]] Result<Bson> read(const char* database, const bson_t* command);
  [[nodiscard]] mongoc_client_t* client() { return client_.get(); }

  // "6.0.5"; of a replica set its name, else empty.
  [[nodiscard]] const std::string& version() const { return version_; }
  [[nodiscard]] const std::string& set_name() const { return set_name_; }
  // redacted().
  [[nodiscard]] const std::string& shown_uri() const { return shown_; }

 private:
  Server() = default;
  [[nodiscard]] Result<Bson> run(const char* database, const bson_t* command,
                                 const mongoc_read_prefs_t* preference);

  std::string uri_;
  std::string shown_;
  std::unique_ptr<mongoc_client_t, MongocClientDeleter> client_;
  std::string version_;
  std::string set_name_;
};

}  // namespace idmint::restore
