// One member of a replica set, which all commands go to: what one of them saw, the next see too.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "idmint/result.h"
#include "mongo/document.h"
#include "restore/oplog/entry.h"
#include "restore/server.h"

namespace idmint::restore {

// For one thread. Errors are as told() has them: no other member is tried.
class Member {
 public:
  // That which the URI prefers; by default the primary or, while there is none, a secondary.
  // kFailedPrecondition: a standalone, which has no oplog.
  [[nodiscard]] static Result<Member> choose(Server server);

  [[nodiscard]] const std::string& host() const { return host_; }
  [[nodiscard]] const std::string& version() const { return server_.version(); }

  [[nodiscard]] Result<Bson> command(const char* database, const bson_t* command);

  // What a command answers with that opens a cursor, and getMore: the documents are an array within
  // the reply.
  struct Batch {
    Bson reply = Bson::none();
    Document documents{};
    Bson next = Bson::none();  // the command that asks for more; none: that was all
  };
  [[nodiscard]] Result<Batch> batch(const char* database, const bson_t* command);
  // The batches of such a command, as they arrive: the reply, and the array within it. False: the
  // collection is not there, or its cursor was ended by the server, as a drop does it; batches may
  // have come before that. An error of `take` ends it.
  using TakeBatch = std::function<Result<void>(Bson reply, Document batch)>;
  [[nodiscard]] Result<bool> batches(const char* database, const bson_t* command,
                                     const TakeBatch& take);
  // The same, a document at a time, valid during the call.
  [[nodiscard]] Result<bool> documents(const char* database, const bson_t* command,
                                       const std::function<Result<void>(Document)>& take);

  // Its newest entry, which a majority may not have yet, and its oldest.
  [[nodiscard]] Result<OpTime> newest();
  [[nodiscard]] Result<OpTime> oldest();
  // The newest that a majority has, and that cannot be rolled back.
  [[nodiscard]] Result<OpTime> newest_of_majority();
  // The entry of that time, when a majority has it. An empty document: there is none, or another
  // one. kUnavailable: a majority has not come so far within a minute.
  [[nodiscard]] Result<Bson> entry_of_majority(Timestamp at);

 private:
  struct SessionDeleter {
    void operator()(mongoc_client_session_t* session) const {
      mongoc_client_session_destroy(session);
    }
  };
  struct Reply {
    Bson document = Bson::none();
    bool ok = false;
    bson_error_t error{};
  };
  explicit Member(Server server) : server_(std::move(server)) {}
  [[nodiscard]] Reply run(const char* database, const bson_t* command);
  [[nodiscard]] Result<Batch> batch_of(Reply reply, const bson_t* command) const;
  [[nodiscard]] Error told_of(const bson_t* command, const bson_error_t& error) const;
  [[nodiscard]] Result<OpTime> end_of_oplog(int direction, const char* read_concern);

  Server server_;
  std::unique_ptr<mongoc_client_session_t, SessionDeleter> session_;  // gone before its client
  std::uint32_t id_ = 0;
  std::string host_;
};

}  // namespace idmint::restore
