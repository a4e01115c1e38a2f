// A connection to the servers of a URI, for single commands.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "mongo/bson.h"
#include "mongo/driver.h"
#include "mongo/errors.h"
#include "restore/error_in.h"
#include "restore/timestamp.h"
#include "restore/watch.h"

namespace idmint::restore {

// The error for a failed operation of the driver or a server: `tried` and the reply. Its code is
// code_of_repeatable().
[[nodiscard]] Error told(const std::string& tried, const bson_error_t& error);

using Uri = std::unique_ptr<mongoc_uri_t, MongocDeleter<mongoc_uri_t, mongoc_uri_destroy>>;
// The read preference of the client's URI; by default primaryPreferred.
[[nodiscard]] Preference read_preference(const mongoc_client_t* client);

struct ConnectOptions {
  // The set is known to be no shard although it has a shard identity, for example because it was
  // removed from a cluster. A mongos and a config server are still refused.
  bool not_sharded = false;
  // When calls that a server does not answer are aborted; see ServerWatch.
  WatchOptions watch{};
  // The longest that one command may take on a server that answers pings. An index build takes
  // hours.
  std::chrono::milliseconds patience = std::chrono::hours{24};
  std::string shown{};  // what messages have in the place of the URI; empty: the URI
};

// For connections that write batches, and for those that read.
inline constexpr std::chrono::milliseconds kWriterPatience = std::chrono::minutes{10};
inline constexpr std::chrono::milliseconds kReaderPatience = std::chrono::minutes{5};

// A connection. For one thread; each further thread needs its own (another()).
class Server {
 public:
  // Connects, and asks for the server's role. Errors, besides those of the network:
  // - kInvalidArgument: the URI is invalid; as check_server_url().
  // - kFailedPrecondition: the server belongs to a sharded cluster. Restoring a cluster is another
  //   procedure.
  [[nodiscard]] static Result<Server> connect(const std::string& uri,
                                              const ConnectOptions& options = {});
  // A further connection under the same watch. `patience` can only shorten that of connect().
  [[nodiscard]] Result<Server> another(std::chrono::milliseconds patience = std::chrono::hours{
                                           24}) const;

  // Runs a command on the primary. Returns its reply, in which ok is 1.
  [[nodiscard]] Result<Bson> command(const std::string& database, const Bson& command);
  // Runs a reading command, with read_preference().
  [[nodiscard]] Result<Bson> read(const std::string& database, const Bson& command);
  [[nodiscard]] mongoc_client_t* client() { return client_.get(); }
  // Adds the reason to the error if the watch aborted the call.
  [[nodiscard]] Error explained(Error error) const;

  // The version, such as "6.0.5"; the name of the replica set, or empty.
  [[nodiscard]] const std::string& version() const { return version_; }
  [[nodiscard]] const std::string& set_name() const { return set_name_; }
  // The URI after redacted().
  [[nodiscard]] const std::string& shown_uri() const { return shown_; }

 private:
  Server() = default;
  // A client with this socket timeout and this server selection timeout.
  [[nodiscard]] Result<MongocClient> client_with(std::chrono::milliseconds answer,
                                                 std::chrono::milliseconds selection) const;
  [[nodiscard]] Result<Bson> run(const std::string& database, const Bson& command,
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
