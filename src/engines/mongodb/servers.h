// The servers of a URL, and the way to ask them.
//
// Every write is one command, with write concern majority and journal. To a replica set it is sent
// repeatedly, under one transaction number, until it is answered or the deadline has passed; the
// servers apply it once. A standalone server has no such numbers, so it is sent once.
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
#include "engines/mongodb/topology_monitor.h"
#include "idmint/clock.h"
#include "idmint/result.h"
#include "mongo/bson.h"
#include "mongo/driver.h"
#include "mongo/errors.h"

namespace idmint::stores::mongodb {

using std::chrono::milliseconds;

constexpr const char* kCounters = "idmint.counters";  // the collection of a store's counters

enum class Kind : std::uint8_t {
  kWrite,     // write concern majority, journal
  kReadOne,   // linearizable, each document by itself
  kReadMany,  // read concern majority
  kPlain,     // without concerns, on the primary: a step of a transaction, or a harmless repeat
};

// Options of a command.
struct Terms {
  // The reply includes the errors of single documents of an insert.
  bool errors_in_reply = false;
  // An idempotent write: has no number, and is repeated to a standalone server too.
  bool idempotent = false;
  bool sharded = false;    // allowed on a sharded cluster
  std::string database{};  // another database than that of the Servers
};

// A command to be sent, its database, and its transaction number (0: none).
struct Command {
  const Bson& what;
  Kind kind;
  std::string_view database;
  std::int64_t number = 0;
  bool unasked = false;  // sent even if nobody waits for the call any more
};

// The error of a standalone server.
constexpr std::string_view kNoTransactions =
    "it is a standalone server, which has no transactions; make it a replica set, if only of "
    "itself (mongod --replSet NAME, then rs.initiate() in mongosh)";

class Exchange;
// Several commands in sequence in one session. It may outlive the call.
using Job = std::function<Result<Bson>(Exchange&)>;

// A command under way. Guarded by the mutex of the Servers, except members that only one thread
// uses.
struct Call {
  Call(Bson what, Kind how, SteadyTime by, Terms under)
      : command(std::move(what)), kind(how), until(by), terms(std::move(under)) {}
  Call(Job what, SteadyTime by) : job(std::move(what)), kind(Kind::kWrite), until(by), terms() {}

  const Bson command{};
  const Job job{};  // instead of a command
  const Kind kind;
  const SteadyTime until;
  const Terms terms;

  bool sent = false;       // it was sent, so it may have been applied
  bool abandoned = false;  // its caller has left
  bool answered = false;
  Result<Bson> answer{};
  std::string why{};                  // the latest failure
  std::condition_variable changed{};  // answered or abandoned
};

// The threads that talk to the servers, each with a client of the driver's pool. The driver cannot
// be interrupted, and limits each wait but not their sum. So callers wait here until their
// deadline, and a thread that is stuck returns later without a caller.
class Servers {
 public:
  // `heard` receives the reports of the pool's monitors.
  Servers(mongoc_client_pool_t* pool, std::unique_ptr<TopologyMonitor> heard, std::string database,
          std::string where, std::size_t most)
      : pool_(pool),
        heard_(std::move(heard)),
        database_(std::move(database)),
        where_(std::move(where)),
        most_(most) {}
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  // Returns by `until`. `doing` is the action "in" the store, for messages.
  Result<Bson> run(Bson command, Kind kind, SteadyTime until, std::string_view doing,
                   const Terms& terms = {});
  Result<Bson> run(Job job, SteadyTime until, std::string_view doing);
  // Inserts those of the `count` documents whose _id is not there; returns the indexes of the
  // others.
  Result<std::vector<std::size_t>> insert_new(std::string_view collection, const Bson& documents,
                                              std::int64_t count, SteadyTime until,
                                              std::string_view doing);

  // Ends and deletes it. Waits until a server has ended the sessions, for half a second at most.
  // If a server hangs, it waits for a tenth of a second. The rest is done in the background: the
  // threads end with their waits in the driver, and the connections are closed.
  void end();

  // False in a child of fork(), where nothing else may be called.
  [[nodiscard]] bool owned() const noexcept { return bool(owner_); }

 private:
  ~Servers();

  friend class Exchange;
  struct Connection {
    mongoc_client_t* client;
    mongoc_client_session_t* session;
    std::int64_t number;  // of the latest write; the server applies each once; 0: none yet
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
  const std::shared_ptr<TopologyMonitor> heard_;  // outlives the pool, never null
  const std::string database_;
  const std::string where_;
  const std::size_t most_;
  std::atomic<bool> asked_of_elections_{false};
  std::atomic<bool> authenticated_{false};  // once: user and password are right

  std::mutex mutex_;  // guards the members below
  std::condition_variable work_;
  std::deque<std::shared_ptr<Call>> waiting_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  std::size_t running_ = 0;        // threads
  std::condition_variable ended_;  // the last of them
  bool late_ = false;              // the latest call had no answer in time
  bool ending_ = false;
};

// In a child of fork(), the driver's clients and the missing threads are left alone on purpose.
struct EndInOwner {
  void operator()(Servers* servers) const {
    if (servers->owned()) servers->end();
  }
};
using OwnedServers = std::unique_ptr<Servers, EndInOwner>;

// The connection of the thread that runs a job.
class Exchange {
 public:
  Exchange(Servers& servers, Call& call, Servers::Connection& connection)
      : servers_(servers), call_(call), connection_(connection) {}

  // One attempt. After a kWrite was sent, a call without an answer reports that it may have been
  // done, until taken_back().
  std::optional<Error> send(const Command& command, Bson* reply, Meaning* meaning);
  // States that the commands sent changed nothing.
  void taken_back();
  // The number of a transaction. It ends those with a smaller number in this session.
  std::int64_t next_number() { return Servers::next_number(connection_); }
  // False: no time is left, or nobody waits.
  bool wait(milliseconds pause) { return servers_.wait_a_little(call_, pause); }

 private:
  Servers& servers_;
  Call& call_;
  Servers::Connection& connection_;
};

// The servers of a URL, and the database of its path, or else "idmint".
struct Connected {
  std::string url;  // without secrets
  std::string database;
  std::string where;        // the hosts and the database, for messages
  std::string application;  // our application name
  milliseconds deadline;    // for each call: as requested, if possible
  OwnedServers servers;
};

struct ConnectOptions {
  std::string_view database{};  // instead of that of the URL
  // The purpose of the connections. Servers show them as "idmint DATABASE PURPOSE", or as "idmint"
  // if it is empty.
  std::string_view purpose{};
  SteadyTime until = SteadyTime::max();  // connect() also returns by then
};

// Does not connect yet, but waits for DNS if the URL is mongodb+srv. kInvalidArgument: not such a
// URL, or one that asks for weaker guarantees than idmint needs. kUnavailable: no answer of DNS.
[[nodiscard]] Result<Connected> connect(std::string_view url, milliseconds deadline,
                                        const ConnectOptions& options = {});

}  // namespace idmint::stores::mongodb
