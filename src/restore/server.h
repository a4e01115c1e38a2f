// The servers that a URI names, for commands one at a time.
#pragma once

#include <chrono>
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
#include "restore/watch.h"

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

struct ConnectOptions {
  // The set is known to be no shard, though it has the identity of one, as after it was taken out
  // of a cluster. A mongos and a config server are refused nevertheless.
  bool not_sharded = false;
  // Who ends calls that a server does not answer; see ServerWatch.
  WatchOptions watch{};
  // How long one command may take where its server is there all the time. An index is built for
  // hours.
  std::chrono::milliseconds patience = std::chrono::hours{24};
};

// Of connections that write batches, and of those that read.
inline constexpr std::chrono::milliseconds kWriterPatience = std::chrono::minutes{10};
inline constexpr std::chrono::milliseconds kReaderPatience = std::chrono::minutes{5};

// A connection. For one thread; another takes another().
class Server {
 public:
  // Connects, and asks who it is. kInvalidArgument: no such URI, as check_mongodb_url() says too.
  // kFailedPrecondition: a sharded cluster, whose mongos or shard this is; the restore of one is
  // another procedure.
  [[nodiscard]] static Result<Server> connect(const std::string& uri,
                                              const ConnectOptions& options = {});
  // Of the same watch. Its commands may take so long, where that is shorter.
  [[nodiscard]] Result<Server> another(std::chrono::milliseconds patience = std::chrono::hours{
                                           24}) const;

  // The reply of the primary; ok is 1.
  [[nodiscard]] Result<Bson> command(const char* database, const bson_t* command);
  // Of a command that only reads: by read_preference().
  [[nodiscard]] Result<Bson> read(const char* database, const bson_t* command);
  [[nodiscard]] mongoc_client_t* client() { return client_.get(); }
  // The error, and why the watch broke the call off, where it did.
  [[nodiscard]] Error explained(Error error) const;

  // "6.0.5"; of a replica set its name, else empty.
  [[nodiscard]] const std::string& version() const { return version_; }
  [[nodiscard]] const std::string& set_name() const { return set_name_; }
  // redacted().
  [[nodiscard]] const std::string& shown_uri() const { return shown_; }

 private:
  Server() = default;
  // With a socket timeout, and the time that it takes to find a server.
  [[nodiscard]] Result<MongocClient> client_with(std::chrono::milliseconds answer,
                                                 std::chrono::milliseconds selection) const;
  [[nodiscard]] Result<Bson> run(const char* database, const bson_t* command,
                                 const mongoc_read_prefs_t* preference);

  std::string uri_;
  std::string shown_;
  std::chrono::milliseconds patience_{};
  MongocClient client_;
  std::shared_ptr<const ServerWatch> watch_;
  std::string version_;
  std::string set_name_;
};

}  // namespace idmint::restore
