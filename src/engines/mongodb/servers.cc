#include "engines/mongodb/servers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <system_error>
#include <utility>

#include "base/background.h"
#include "base/errors.h"
#include "base/unshared.h"
#include "base/url.h"
#include "store/backend.h"

namespace idmint::stores::mongodb {

namespace {

// Errors of single documents of an insert, which are then not inserted. After any other error the
// outcome is unknown.
constexpr auto kDocumentErrors = std::to_array<std::int64_t>({
    2,      // BadValue
    9,      // FailedToParse
    13,     // Unauthorized
    14,     // TypeMismatch
    15,     // Overflow: nested too deep
    22,     // InvalidBSON
    52,     // DollarPrefixedFieldName
    53,     // InvalidIdField
    55,     // InvalidDBRef
    56,     // EmptyFieldName
    57,     // DottedFieldName
    121,    // DocumentValidationFailure
    171,    // CannotIndexParallelArrays
    10334,  // BSONObjectTooLarge
    16755,  // no key for a 2dsphere index
    16766,  // an array in a hashed index
    17280,  // KeyTooLong
    kDuplicateKey,
});

bool is_of_a_document(std::int64_t code) {
  return std::ranges::find(kDocumentErrors, code) != kDocumentErrors.end();
}

// The permission that each command needs.
constexpr std::array kActions = {
    std::pair{"find", "the action find"},
    std::pair{"aggregate", "the action find"},
    std::pair{"count", "the action find"},
    std::pair{"insert", "the action insert"},
    std::pair{"update", "the action update"},
    std::pair{"findAndModify", "the actions find and update"},
    std::pair{"listIndexes", "the action listIndexes"},
    std::pair{"createIndexes", "the action createIndex"},
    std::pair{"listCollections", "the action listCollections"},
    std::pair{"collMod", "the action collMod"},
};

}  // namespace

// ---- commands

Servers::~Servers() {
  for (std::thread& thread : threads_) thread.join();
  // It first ends the sessions, which a server otherwise keeps for half an hour. Then it waits for
  // its monitors, which check for their end every half second.
  mongoc_client_pool_destroy(pool_);
  heard_->sessions_ended();
}

void Servers::end() {
  constexpr milliseconds kForThreads{100};
  constexpr milliseconds kForSessions{500};
  constexpr milliseconds kForMonitors{1000};
  bool hangs = false;
  {
    std::unique_lock lock(mutex_);
    ending_ = true;
    work_.notify_all();
    hangs = !ended_.wait_for(lock, kForThreads, [this] { return running_ == 0; }) || late_;
  }
  const std::shared_ptr<TopologyMonitor> heard = heard_;
  hangs = hangs || !heard->all_well();
  const SteadyTime exit_waits =
      std::chrono::steady_clock::now() + (hangs ? kForThreads : kForMonitors);
  MoveOnlyFunction<void()> rest = [this] { delete this; };
  if (start_in_background(rest, exit_waits)) {
    if (!hangs) heard->wait_for_end_of_sessions(kForSessions);
  } else if (!hangs) {
    rest();
  }
  // Otherwise the process is about to end, and closes the connections.
}

Result<Bson> Servers::run(Bson command, Kind kind, SteadyTime until, std::string_view doing,
                          const Terms& terms) {
  return run(std::make_shared<Call>(std::move(command), kind, until, terms), doing);
}

Result<Bson> Servers::run(Job job, SteadyTime until, std::string_view doing) {
  return run(std::make_shared<Call>(std::move(job), until), doing);
}

Result<Bson> Servers::run(const std::shared_ptr<Call>& call, std::string_view doing) {
  const Kind kind = call->kind;
  const SteadyTime begin = std::chrono::steady_clock::now();
  const SteadyTime until = call->until;
  std::string what = "could not " + std::string(doing) + " " + where_;
  // A command of another kind that is sent from here reads.
  const std::string unchanged(kind == Kind::kWrite ? kNothingChanged : "");
  if (until <= begin)
    return std::unexpected(Error{.code = Code::kUnavailable,
                                 .what = what + ": no time was left to ask; ask again, for longer",
                                 .outcome = unchanged});
  std::unique_lock lock(mutex_);
  waiting_.push_back(call);
  if (idle_ < waiting_.size() && threads_.size() < most_) {
    try {
      threads_.emplace_back([this] { work(); });
      ++running_;
    } catch (const std::system_error& failed) {
      if (threads_.empty()) {
        waiting_.pop_back();
        return std::unexpected(
            Error{.code = Code::kResourceExhausted,
                  .what = "no thread to ask " + where_ + " with (" + failed.what() + ")",
                  .outcome = unchanged});
      }
    }
  }
  work_.notify_one();
  call->changed.wait_until(lock, until, [&] { return call->answered; });
  late_ = !call->answered;
  if (call->answered) {
    if (!call->answer) call->answer.error() = in_context(what, std::move(call->answer.error()));
    return std::move(call->answer);
  }
  call->abandoned = true;
  call->changed.notify_all();
  std::erase(waiting_, call);
  const auto waited = std::chrono::ceil<milliseconds>(until - begin);
  what += ": no answer within " + std::to_string(waited.count()) + " ms";
  if (!call->why.empty()) what += " (" + call->why + ")";
  what += heard_->advice(waited);
  if (call->sent && kind == Kind::kWrite)
    return std::unexpected(Error{.code = Code::kDeadlineExceeded,
                                 .what = std::move(what),
                                 .outcome = "it may have been done or not, now or later"});
  return std::unexpected(
      Error{.code = Code::kUnavailable, .what = what + "; ask again", .outcome = unchanged});
}

Result<std::vector<std::size_t>> Servers::insert_new(std::string_view collection,
                                                     const Bson& documents, std::int64_t count,
                                                     SteadyTime until, std::string_view doing) {
  Bson command;
  command.add("insert", collection).add_array("documents", documents).add("ordered", false);
  const Result<Bson> reply = run(std::move(command), Kind::kWrite, until, doing);
  if (!reply) return std::unexpected(reply.error());
  std::vector<std::size_t> taken;
  reply->view().each("writeErrors", [&](const Document& error) {
    taken.push_back(static_cast<std::size_t>(error.number("index")));
  });
  // The reply to a repeat counts the inserts of the first attempt.
  if (reply->view().number("n") + static_cast<std::int64_t>(taken.size()) != count)
    return std::unexpected(Error{Code::kUnknown, "could not " + std::string(doing) + " " + where_ +
                                                     ": the answer does not say of each whether it "
                                                     "was done"});
  return taken;
}

void Servers::work() {
  Connection connection{mongoc_client_pool_pop(pool_), nullptr, 0};
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    work_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    --idle_;
    if (ending_) break;
    const std::shared_ptr<Call> call = waiting_.front();
    waiting_.pop_front();
    lock.unlock();
    std::optional<Result<Bson>> answered = answer(*call, connection);
    lock.lock();
    if (!answered) continue;
    call->answer = *std::move(answered);
    call->answered = true;
    call->changed.notify_all();
  }
  lock.unlock();
  if (connection.session != nullptr) mongoc_client_session_destroy(connection.session);
  mongoc_client_pool_push(pool_, connection.client);
  lock.lock();
  if (--running_ == 0) ended_.notify_all();
}

namespace {

milliseconds pause_before(int attempt) {
  return milliseconds{std::min(1 << std::min(attempt, 10), 100)};
}

}  // namespace

// False: no time is left, or nobody waits.
bool Servers::wait_a_little(Call& call, milliseconds pause) {
  std::unique_lock lock(mutex_);
  const SteadyTime until = std::min(call.until, std::chrono::steady_clock::now() + pause);
  call.changed.wait_until(lock, until, [&] { return call.abandoned; });
  return !call.abandoned && !ending_ && std::chrono::steady_clock::now() < call.until;
}

// Reads the election timeout of the set, for advice: asks a secondary once, while there is no
// primary. A user without the right leaves the default.
void Servers::learn_of_elections(Connection& connection) {
  if (!heard_->can_be_asked() || asked_of_elections_.exchange(true)) return;
  const std::unique_ptr<mongoc_read_prefs_t, decltype(mongoc_read_prefs_destroy)> nearest(
      mongoc_read_prefs_new(MONGOC_READ_NEAREST), mongoc_read_prefs_destroy);
  bson_t raw;
  bson_error_t error{};
  Bson command;
  command.add("replSetGetConfig", 1).add("maxTimeMS", 200);
  const bool ok = mongoc_client_command_with_opts(connection.client, "admin", command.get(),
                                                  nearest.get(), nullptr, &raw, &error);
  const Bson reply = Bson::taken_from(&raw);
  asked_of_elections_ = ok;
  if (ok) heard_->configured(reply.view());
}

// A number far beyond the previous one. A copy of this process (a snapshot of the machine) has the
// same session, and a server takes a known number for a repeat: it would answer the copy with the
// values that it gave to this process.
std::int64_t Servers::next_number(Connection& connection) {
  constexpr int kJumpBits = 40;
  constexpr std::int64_t kLast = std::int64_t{1} << 62;
  if (connection.number > kLast) renew_session(connection);
  const auto drawn = std::bit_cast<std::array<std::uint64_t, 2>>(draw_unshared());
  const auto jump = static_cast<std::int64_t>(drawn[0] >> (64 - kJumpBits));
  connection.number += 1 + jump;
  return connection.number;
}

// The new session comes first; otherwise the driver would return the old one.
void Servers::renew_session(Connection& connection) {
  bson_error_t ignored;  // without a session the next command starts one
  mongoc_client_session_t* const fresh =
      mongoc_client_start_session(connection.client, nullptr, &ignored);
  if (connection.session != nullptr) mongoc_client_session_destroy(connection.session);
  connection.session = fresh;
  connection.number = 0;
}

// The outcome of all attempts together: "not applied" only if certainly none was applied. Nothing:
// the time is over, and the caller words the error.
std::optional<Result<Bson>> Servers::answer(Call& call, Connection& connection) {
  if (call.job) {
    Exchange exchange(*this, call, connection);
    return call.job(exchange);
  }
  const Terms& terms = call.terms;
  std::int64_t number =
      call.kind == Kind::kWrite && !terms.idempotent ? next_number(connection) : 0;
  bool applied = false;
  bool may_repeat = true;
  for (int attempt = 0;; ++attempt) {
    Bson reply;
    Meaning meaning{};
    bool numbered = false;
    const Command command{.what = call.command,
                          .kind = call.kind,
                          .database = terms.database.empty() ? database_ : terms.database,
                          .number = number};
    std::optional<Error> error = send(call, connection, command, &reply, &meaning, &numbered);
    if (!error) return reply;
    const bool renewed = number != 0 && connection.number == 0;
    if (renewed && !applied) {  // a copy of this process was ahead: nothing was done
      number = next_number(connection);
      meaning = {Code::kUnavailable, false, true};
    }
    applied = applied || (meaning.applied && call.kind == Kind::kWrite);
    {
      const std::lock_guard lock(mutex_);
      call.sent = applied;
      call.why = error->message();
    }
    if (meaning.applied && !numbered && call.kind == Kind::kWrite) may_repeat = false;
    if (meaning.passing) learn_of_elections(connection);
    if (meaning.passing && may_repeat) {
      if (wait_a_little(call, pause_before(attempt))) continue;
      return std::nullopt;
    }
    if (applied) {
      const bool late = meaning.code == Code::kDeadlineExceeded;
      error->code = late ? Code::kDeadlineExceeded : Code::kUnknown;
      add_outcome(*error, "it may have been done or not");
      return std::unexpected(*std::move(error));
    }
    if (meaning.applied) meaning.code = Code::kUnavailable;  // a read
    error->code = meaning.code;
    return std::unexpected(*std::move(error));
  }
}

// One attempt. `numbered`: the server applies it once, however often it is sent.
std::optional<Error> Servers::send(Call& call, Connection& connection, const Command& wanted,
                                   Bson* reply, Meaning* meaning, bool* numbered) {
  const auto& [asked, kind, database, number, unasked] = wanted;
  bson_error_t error{};
  const auto failed = [&] {
    *meaning = meaning_of(error);
    if (error.domain == MONGOC_ERROR_SERVER && error.code == kTransactionTooOld && number != 0)
      renew_session(connection);
    // The driver also reports this if a server goes down during the exchange.
    if (meaning->code == Code::kUnauthenticated && authenticated_.load())
      *meaning = {Code::kUnavailable, false, true};
    std::string text = error.message;
    if (meaning->code == Code::kUnauthenticated)
      text +=
          "; the user, the password or the database that keeps the user is wrong, which is "
          "that of the URL unless it says authSource=admin";
    // The server names the command, not the missing permission.
    if (meaning->code == Code::kPermissionDenied && text.contains("requires authentication")) {
      text += "; give a user and a password in the URL";
    } else if (meaning->code == Code::kPermissionDenied) {
      for (const auto& [command, actions] : kActions)
        if (asked.view().first_key() == command)
          text += std::string("; the user needs ") + actions + " in the database " +
                  std::string(database);
    }
    return Error{meaning->code, std::move(text)};
  };
  mongoc_server_description_t* const server =
      mongoc_client_select_server(connection.client, true, nullptr, &error);
  if (server == nullptr) return failed();
  const std::string_view type = mongoc_server_description_type(server);
  const bool set = type != "Standalone";
  const bool sharded = type == "Mongos" || type == "LoadBalancer";
  const auto id = static_cast<std::int32_t>(mongoc_server_description_id(server));
  mongoc_server_description_destroy(server);
  *numbered = set || call.terms.idempotent;
  if (sharded && !call.terms.sharded) {
    *meaning = {Code::kUnimplemented, false, false};
    return Error{meaning->code,
                 "it is a sharded cluster, on which idmint was not tested; name a replica set"};
  }

  Bson options;
  options.add("serverId", id);
  if (!set && number != 0 && kind == Kind::kPlain) {
    *meaning = {Code::kFailedPrecondition, false, false};
    return Error{meaning->code, std::string(kNoTransactions)};
  }
  Bson command = asked.copy();
  if (number != 0 && set) {
    if (connection.session == nullptr)
      connection.session = mongoc_client_start_session(connection.client, nullptr, &error);
    if (connection.session == nullptr ||
        !mongoc_client_session_append(connection.session, options.get(), &error))
      return failed();
    command.add("txnNumber", number);
  }
  const auto left = std::chrono::ceil<milliseconds>(call.until - std::chrono::steady_clock::now());
  // A command that nobody waits for needs time after the deadline, too.
  const auto ms = static_cast<std::int32_t>(
      std::clamp<std::int64_t>(left.count(), unasked ? 1000 : 1, std::int64_t{1} << 30));
  command.add("maxTimeMS", ms);
  if (kind == Kind::kWrite) {
    command.add("writeConcern", Bson().add("w", "majority").add("j", true).add("wtimeout", ms));
  } else if (kind != Kind::kPlain && set) {
    const bool one = kind == Kind::kReadOne;
    command.add("readConcern", Bson().add("level", one ? "linearizable" : "majority"));
  }

  {
    const std::lock_guard lock(mutex_);
    if (call.abandoned && !unasked) {
      *meaning = {Code::kUnavailable, false, false};
      return Error{meaning->code, "nobody waits for it any more"};
    }
    if (kind == Kind::kWrite && number != 0 && !set && call.sent) {
      *meaning = {Code::kUnknown, true, false};
      return Error{meaning->code,
                   "it is a standalone server now, which does not know what it was sent before"};
    }
    if (kind == Kind::kWrite) call.sent = true;
  }
  bson_t raw;
  const bool ok =
      mongoc_client_command_with_opts(connection.client, std::string(database).c_str(),
                                      command.get(), nullptr, options.get(), &raw, &error);
  *reply = Bson::taken_from(&raw);
  if (!ok) return failed();
  authenticated_.store(true);

  // A reply that begins with "ok" may still contain an error.
  std::optional<std::int64_t> wrong;
  std::string text;
  const auto look = [&](const Document& what) {
    if (wrong) return;
    wrong = what.number("code");
    text = what.bytes("errmsg").value_or("no message");
  };
  if (reply->view().number("ok") != 1) look(reply->view());
  if (const Document concern = reply->view().document("writeConcernError")) look(concern);
  reply->view().each("writeErrors", [&](const Document& what) {
    const std::int64_t code = what.number("code");
    if (code == kDuplicateKey || (call.terms.errors_in_reply && is_of_a_document(code))) return;
    look(what);
  });
  if (!wrong) return std::nullopt;
  *meaning = meaning_of(*wrong);
  if (!meaning->applied) meaning->code = Code::kUnknown;
  meaning->applied = true;
  return Error{meaning->code, text};
}

std::optional<Error> Exchange::send(const Command& command, Bson* reply, Meaning* meaning) {
  *reply = Bson();
  bool numbered = false;
  std::optional<Error> error =
      servers_.send(call_, connection_, command, reply, meaning, &numbered);
  if (error) {
    const std::lock_guard lock(servers_.mutex_);
    call_.why = error->message();
  }
  return error;
}

void Exchange::taken_back() {
  const std::lock_guard lock(servers_.mutex_);
  call_.sent = false;
}

// ---- URLs

namespace {

struct Option {
  std::string_view name;    // in lower case
  std::string_view wanted;  // any other value is rejected
  std::string_view why;
};

constexpr std::string_view kMajority =
    "idmint writes with w=majority and journal=true: what fewer have acknowledged is lost when the "
    "primary fails, and its values would be handed out again";
constexpr std::string_view kOnce =
    "idmint numbers its writes so that one that is sent again is applied once";
constexpr std::string_view kPrimary =
    "idmint reads from the primary, what a majority has: anything else may be old";

constexpr std::array kOptions = {
    Option{"w", "majority", kMajority},   Option{"journal", "true", kMajority},
    Option{"j", "true", kMajority},       Option{"safe", "true", kMajority},
    Option{"retrywrites", "true", kOnce}, Option{"readpreference", "primary", kPrimary},
    Option{"slaveok", "false", kPrimary}, Option{"readconcernlevel", "majority", kPrimary},
};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

struct UriFree {
  void operator()(mongoc_uri_t* uri) const { mongoc_uri_destroy(uri); }
};
using Uri = std::unique_ptr<mongoc_uri_t, UriFree>;

// A pool under way, which waits for DNS as long as the system does.
struct NewPool {
  std::mutex mutex{};  // guards the others
  std::condition_variable changed{};
  mongoc_client_pool_t* pool = nullptr;
  std::string failure{};
  bool ended = false;
  bool left = false;  // nobody waits for it
};

Result<mongoc_client_pool_t*> new_pool(Uri uri, SteadyTime until) {
  const bool waits = mongoc_uri_get_srv_hostname(uri.get()) != nullptr;
  const auto made = std::make_shared<NewPool>();
  MoveOnlyFunction<void()> make = [made, uri = std::move(uri)] {
    bson_error_t error{};
    mongoc_client_pool_t* const pool = mongoc_client_pool_new_with_error(uri.get(), &error);
    const std::lock_guard lock(made->mutex);
    made->pool = pool;
    if (pool == nullptr) made->failure = error.message;
    made->ended = true;
    made->changed.notify_all();
    if (made->left && pool != nullptr) mongoc_client_pool_destroy(pool);
  };
  if (!waits || !start_in_background(make, std::chrono::steady_clock::now())) make();
  std::unique_lock lock(made->mutex);
  if (!made->changed.wait_until(lock, until, [&] { return made->ended; })) {
    made->left = true;
    return std::unexpected(
        Error{Code::kUnavailable, "the names of its servers did not come from DNS in time"});
  }
  if (made->pool == nullptr) return std::unexpected(Error{Code::kUnavailable, made->failure});
  return made->pool;
}

}  // namespace

Result<Connected> connect(std::string_view url, milliseconds deadline,
                          const ConnectOptions& options) {
  const SteadyTime begin = std::chrono::steady_clock::now();
  const std::string plain = redacted(url);
  const auto refuse = [&](const std::string& why) {
    return std::unexpected(Error{Code::kInvalidArgument, shown(plain) + ": " + why});
  };
  if (url.find('\0') != std::string_view::npos) return refuse("a URL has no NUL in it");
  if (Result<void> clear = check_server_url(url); !clear)
    return std::unexpected(std::move(clear.error()));
  std::optional<std::string> refusal;
  each_option(url, [&](std::string_view name, std::string_view value) {
    const auto* const row = std::ranges::find(kOptions, lower(name), &Option::name);
    if (row != kOptions.end() && value != row->wanted)
      refusal = std::string(name) + "=" + std::string(value) +
                " cannot be had: " + std::string(row->why) + "; leave it out";
  });
  if (refusal) return refuse(*refusal);
  if (Result<void> loaded = mongo::load_driver(); !loaded) return std::unexpected(loaded.error());

  bson_error_t error{};
  Uri uri(mongoc_uri_new_with_error(std::string(url).c_str(), &error));
  if (uri == nullptr)
    // The driver's message may quote a secret.
    return refuse("not a connection string of MongoDB" +
                  (plain == url ? ": " + std::string(error.message)
                                : "; look at it, and write what is not a letter or digit in the "
                                  "user and the password with %, such as %40 for @"));
  const char* const named = mongoc_uri_get_database(uri.get());
  const std::string database = !options.database.empty() ? std::string(options.database)
                               : named != nullptr        ? named
                                                         : "idmint";
  if (database == "admin" || database == "config" || database == "local") {
    const std::string why = "the database " + database + " is MongoDB's own; ";
    if (!options.database.empty())
      return std::unexpected(Error{Code::kInvalidArgument, why + "name a collection of another"});
    return refuse(why + "give the path of another, such as /idmint");
  }
  if (!is_database_name(database))
    return refuse("MongoDB allows no such name of a database: " + shown(database));

  std::string where;
  if (const char* const service = mongoc_uri_get_srv_hostname(uri.get())) where = service;
  for (const mongoc_host_list_t* host = mongoc_uri_get_hosts(uri.get()); host != nullptr;
       host = host->next)
    where += (where.empty() ? "" : ",") + std::string(host->host_and_port);
  where += "/" + database;

  const auto longest_call = static_cast<std::int32_t>(
      std::clamp<std::int64_t>(deadline.count(), 1, std::int64_t{1} << 30));
  const mongoc_host_list_t* const hosts = mongoc_uri_get_hosts(uri.get());
  const bool set = mongoc_uri_get_replica_set(uri.get()) != nullptr ||
                   mongoc_uri_get_srv_hostname(uri.get()) != nullptr ||
                   (hosts != nullptr && hosts->next != nullptr);
  // A hanging member is given up in time to ask the next primary. With a single server the call
  // ends first, since there is nobody else to ask.
  const std::int32_t attempt =
      set ? std::max(longest_call / 4, std::min(longest_call, 1000)) : longest_call;
  // The URL may shorten them. The choice of a server gets half of the call, and no more than a
  // short call has, so that its error is known when the call ends. A server that denied being the
  // primary is not asked again before the next heartbeat.
  for (const auto& [key, longest] :
       {std::pair{MONGOC_URI_SERVERSELECTIONTIMEOUTMS, std::clamp(longest_call / 2, 1, 2500)},
        std::pair{MONGOC_URI_CONNECTTIMEOUTMS, attempt},
        std::pair{MONGOC_URI_HEARTBEATFREQUENCYMS, std::clamp(longest_call / 8, 500, 10'000)},
        std::pair{MONGOC_URI_SOCKETTIMEOUTMS, set ? attempt : attempt + attempt / 4 + 1}}) {
    const std::int32_t wanted = mongoc_uri_get_option_as_int32(uri.get(), key, longest);
    mongoc_uri_set_option_as_int32(uri.get(), key,
                                   wanted > 0 ? std::min(wanted, longest) : longest);
  }
  const bool alone = mongoc_uri_get_option_as_bool(uri.get(), MONGOC_URI_DIRECTCONNECTION, !set);
  const std::int32_t most =
      std::clamp(mongoc_uri_get_option_as_int32(uri.get(), MONGOC_URI_MAXPOOLSIZE, 100), 1, 1000);
  mongoc_uri_set_option_as_int32(uri.get(), MONGOC_URI_MAXPOOLSIZE, most);
  mongoc_uri_set_option_as_bool(uri.get(), MONGOC_URI_RETRYWRITES, false);  // idmint retries longer
  constexpr std::size_t kLongestName = 128;
  std::string application = "idmint";
  if (!options.purpose.empty()) application += " " + database + " " + std::string(options.purpose);
  application.resize(std::min(application.size(), kLongestName));
  mongoc_uri_set_appname(uri.get(), application.c_str());

  const char* const name = mongoc_uri_get_replica_set(uri.get());
  auto heard = std::make_unique<TopologyMonitor>(
      Wanted{name != nullptr ? name : "", alone, mongoc_uri_get_tls(uri.get())});
  const Result<mongoc_client_pool_t*> made =
      new_pool(std::move(uri), std::min(begin + deadline, options.until));
  if (!made)
    return std::unexpected(
        Error{made.error().code, "could not reach " + where + ": " + made.error().message()});
  mongoc_client_pool_t* const pool = *made;
  mongoc_client_pool_set_error_api(pool, MONGOC_ERROR_API_VERSION_2);
  heard->listen(pool);
  return Connected{plain,
                   database,
                   where,
                   application,
                   milliseconds{longest_call},
                   OwnedServers(new Servers(pool, std::move(heard), database, where,
                                            static_cast<std::size_t>(most)))};
}

}  // namespace idmint::stores::mongodb
