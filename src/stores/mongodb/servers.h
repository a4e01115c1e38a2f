// The servers that a URL names, and how they are asked.
//
// Every write is one command, with write concern majority and journal. To a replica set it is sent
// again, under one transaction number, until it is answered or the deadline is over: the servers
// apply it once. A standalone server knows no such numbers, so there it is sent once.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/fork_wiped.h"
#include "idmint/clock.h"
#include "idmint/result.h"
#include "mongo/bson.h"
#include "mongo/driver.h"
#include "mongo/errors.h"
#include "stores/mongodb/heard.h"

namespace idmint::stores::mongodb {

using std::chrono::milliseconds;

constexpr const char* kCounters = "idmint.counters";  // the collection of a store's counters

enum class Kind : std::uint8_t {
  kWrite,     // write concern majority, journal
  kReadOne,   // linearizable, each document by itself
  kReadMany,  // what a majority has
  kPlain,     // as it is, on the primary: a step of a transaction, or what does no harm twice
};

// What else may be said of a command.
struct Terms {
  // What single documents of an insert are refused for is part of the reply.
  bool errors_in_reply = false;
  // A write that does the same however often it is done: without a number, and sent again to a
  // standalone server too.
  bool idempotent = false;
  bool sharded = false;    // it may go to a sharded cluster
  std::string database{};  // another than that of the Servers
};

// One command as it is sent: to which database, and in which transaction (0: none).
struct Command {
  const Bson& what;
  Kind kind;
  std::string_view database;
  std::int64_t number = 0;
  bool unasked = false;  // also where nobody waits for the call any more
};

// Of what came after a write: that one was done.
inline Error after_a_write(Error error) {
  if (error.code == Code::kUnavailable) error.code = Code::kUnknown;
  return error;
}

// Of a standalone server.
constexpr std::string_view kNoTransactions =
    "it is a standalone server, which has no transactions; make it a replica set, if only of "
    "itself (mongod --replSet NAME, then rs.initiate() in mongosh)";

class Exchange;
// What takes several commands, one after the other, in one session. It may outlive the call.
using Job = std::function<Result<Bson>(Exchange&)>;

// A command under way. Guarded by the mutex of the Servers, but for what only one thread uses.
struct Call {
  Call(Bson what, Kind how, SteadyTime by, Terms under)
      : command(std::move(what)), kind(how), until(by), terms(std::move(under)) {}
  Call(Job what, SteadyTime by) : job(std::move(what)), kind(Kind::kWrite), until(by), terms() {}

  const Bson command{};
  const Job job{};  // instead of a command
  const Kind kind;
  const SteadyTime until;
  const Terms terms;

  bool sent = false;       // it is on its way, or was: it may have been applied
  bool abandoned = false;  // nobody waits for it any more
  bool answered = false;
  Result<Bson> answer{};
  std::string why{};                  // what failed last
  std::condition_variable changed{};  // there is an answer, or it is abandoned
};

// The threads that talk to the servers, each with a client of the driver's pool. The driver cannot
// be interrupted, and bounds each wait for itself, not their sum: so the callers wait here, as long
// as their deadline says, and a thread that is stuck comes back later, to nobody.
class Servers {
 public:
  // `heard`: what the pool's monitors hear.
  Servers(mongoc_client_pool_t* pool, std::unique_ptr<Heard> heard, std::string database,
          std::string where, std::size_t most)
      : pool_(pool),
        heard_(std::move(heard)),
        database_(std::move(database)),
        where_(std::move(where)),
        most_(most) {}
  // Waits for the threads, each of which may be in one wait of the driver's, and until a server
  // knows that the sessions are over, or none can be told. The connections are closed in the
  // background.
  ~Servers();
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  // Answers by `until`. `doing`: for messages, what to do "in" the store.
  Result<Bson> run(Bson command, Kind kind, SteadyTime until, std::string_view doing,
                   const Terms& terms = {});
  Result<Bson> run(Job job, SteadyTime until, std::string_view doing);
  // Inserts those of the documents, so many, whose _id is not there; returns the places of the
  // others.
  Result<std::vector<std::size_t>> insert_new(std::string_view collection, const Bson& documents,
                                              std::int64_t count, SteadyTime until,
                                              std::string_view doing);

  // False in a child of fork(), where nothing else may be called.
  [[nodiscard]] bool owned() const noexcept { return bool(owner_); }

 private:
  friend class Exchange;
  struct Connection {
    mongoc_client_t* client;
    mongoc_client_session_t* session;
    std::int64_t number;  // of the latest write; the server takes each once; 0: none yet
  };

  Result<Bson> run(const std::shared_ptr<Call>& call, std::string_view doing);
  void work();
  std::optional<Result<Bson>> answer(Call& call, Connection& connection);
  static std::int64_t next_number(Connection& connection);
  static void renew_session(Connection& connection);
  std::optional<Error> send(Call& call, Connection& connection, const Command& wanted, Bson* reply,
                            Meaning* meaning, bool* numbered);
  void learn_of_elections(Connection& connection);
  bool wait_a_little(Call& call, milliseconds pause);

  const OwnedByProcess owner_;
  mongoc_client_pool_t* const pool_;
  const std::shared_ptr<Heard> heard_;  // outlives the pool, never null
  const std::string database_;
  const std::string where_;
  const std::size_t most_;
  std::atomic<bool> asked_of_elections_{false};
  std::atomic<bool> authenticated_{false};  // once, so that user and password are right

  std::mutex mutex_;  // guards what follows
  std::condition_variable work_;
  std::deque<std::shared_ptr<Call>> waiting_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  bool ending_ = false;
};

// In a child of fork() the driver's clients, and the threads that are not there, are left as they
// are, on purpose.
struct EndInOwner {
  void operator()(Servers* servers) const {
    if (servers->owned()) delete servers;
  }
};
using OwnedServers = std::unique_ptr<Servers, EndInOwner>;

// What a job has: the connection of the thread that runs it.
class Exchange {
 public:
  Exchange(Servers& servers, Call& call, Servers::Connection& connection)
      : servers_(servers), call_(call), connection_(connection) {}

  // One attempt. Once a kWrite was sent, a call that ends without an answer says that it may have
  // been done, until taken_back().
  std::optional<Error> send(const Command& command, Bson* reply, Meaning* meaning);
  // What was sent is known to have changed nothing.
  void taken_back();
  // Of a transaction. Whatever has a smaller one in this session is ended by it.
  std::int64_t next_number() { return Servers::next_number(connection_); }
  // False: there is no time left, or nobody waits.
  bool wait(milliseconds pause) { return servers_.wait_a_little(call_, pause); }

 private:
  Servers& servers_;
  Call& call_;
  Servers::Connection& connection_;
};

// A URL's servers, and the database that its path names, or else "idmint".
struct Connected {
  std::string url;  // without what is secret in it
  std::string database;
  std::string where;        // the hosts and the database, for messages
  std::string application;  // what the servers know us as
  milliseconds deadline;    // for each call: what was asked for, where that is possible
  OwnedServers servers;
};

struct ConnectOptions {
  std::string_view database{};  // instead of the URL's
  // Of the connections, for the servers, which know them as "idmint DATABASE PURPOSE"; where it is
  // empty, as "idmint".
  std::string_view purpose{};
};

// Calls nobody yet. kInvalidArgument: not such a URL, or one that asks for less than idmint needs.
[[nodiscard]] Result<Connected> connect(std::string_view url, milliseconds deadline,
                                        const ConnectOptions& options = {});

}  // namespace idmint::stores::mongodb
