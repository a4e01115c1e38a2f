// One member of a replica set. All commands go to it, so later reads see what earlier ones saw.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "mongo/document.h"
#include "restore/error_in.h"
#include "restore/oplog/entry.h"
#include "restore/server.h"

namespace idmint::restore {

// The error for an oplog that lost the entry `at` before a backup was done.
[[nodiscard]] Error rolled_over(Timestamp at);

// For one thread. Errors: told(). No other member is tried.
class Member {
 public:
  // The member that the URI prefers; by default primaryPreferred. kFailedPrecondition: a
  // standalone, which has no oplog.
  [[nodiscard]] static Result<Member> choose(Server server);
  // The same member over a further connection, for another thread. Any thread may call it.
  [[nodiscard]] Result<Member> another() const;

  [[nodiscard]] const std::string& host() const { return host_; }
  [[nodiscard]] const std::string& version() const { return server_.version(); }

  [[nodiscard]] Result<Bson> command(const std::string& database, const Bson& command);

  // The reply to getMore or to a command that opens a cursor. `documents` is an array in the reply.
  struct Batch {
    Bson reply = Bson::none();
    Document documents{};
    Bson next = Bson::none();  // the getMore for the next batch; none: this was the last
  };
  [[nodiscard]] Result<Batch> batch(const std::string& database, const Bson& command);
  // Calls `take` with each batch as it arrives: the reply, and the array in it. False: the
  // collection does not exist, or the server closed its cursor, as a drop does; earlier batches may
  // have been taken. An error of `take` ends it.
  using TakeBatch = std::function<Result<void>(Bson reply, Document batch)>;
  [[nodiscard]] Result<bool> batches(const std::string& database, const Bson& command,
                                     const TakeBatch& take);
  // The same for each document; it is valid during the call.
  [[nodiscard]] Result<bool> documents(const std::string& database, const Bson& command,
                                       const std::function<Result<void>(Document)>& take);

  // The newest entry, which a majority may not have yet; and the oldest.
  [[nodiscard]] Result<OpTime> newest();
  [[nodiscard]] Result<OpTime> oldest();
  // kOutOfRange: the oldest entry is newer than `at`; see rolled_over().
  [[nodiscard]] Result<void> still_has(Timestamp at);
  // The newest entry that a majority has. It cannot be rolled back.
  [[nodiscard]] Result<OpTime> newest_of_majority();
  // The entry with this timestamp, once a majority has it. An empty document: another entry, or
  // none, is there. kUnavailable: a majority did not come so far within a minute.
  [[nodiscard]] Result<Bson> entry_of_majority(Timestamp at);

 private:
  using Session =
      std::unique_ptr<mongoc_client_session_t,
                      MongocDeleter<mongoc_client_session_t, mongoc_client_session_destroy>>;
  struct Reply {
    Bson document = Bson::none();
    bool ok = false;
    bson_error_t error{};
  };
  explicit Member(Server server) : server_(std::move(server)) {}
  [[nodiscard]] Result<void> begin_session();
  [[nodiscard]] Reply run(const std::string& database, const Bson& command);
  [[nodiscard]] Result<Batch> batch_of(Reply reply, const Bson& command) const;
  [[nodiscard]] Error told_of(const Bson& command, const bson_error_t& error) const;
  [[nodiscard]] Result<OpTime> end_of_oplog(int direction, const char* read_concern);

  Server server_;
  Session session_;  // destroyed before its client
  std::uint32_t id_ = 0;
  std::string host_;
};

}  // namespace idmint::restore
