// mongodb://... and mongodb+srv://... In the database of the URL's path, or else "idmint":
//
//   idmint.store         {_id: "store", id: UUID, schema: 1}                        one document
//   idmint.counters      {_id: NAME, first, last, stride, next, closed}
//   idmint.definitions   {_id: NAME, json}                                          to_json
//   idmint.claims.SPACE  {_id: KEY}, and {_id: "space", name: SPACE, closed}
//
// `next` is what the next advance hands out. NAME is a string, or binary where it is not UTF-8. The
// collection of a space whose name does not make one is called by its SHA-256.
//
// Every write is one command on one document, or one unordered insert, with write concern majority
// and journal. To a replica set it is sent again, under one transaction number, until it is
// answered or the deadline is over: the servers apply it once. A standalone server knows no such
// numbers, so there it is sent once. The commands are those that MongoDB 4.4 to 8.0 have in common.
//
// The driver is loaded when the first store is opened, not linked: with what it needs in turn it
// takes many times as long to load as all the rest of a command that mints one id.
#include <dlfcn.h>
#include <mongoc/mongoc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/fork_wiped.h"
#include "idmint/store.h"
#include "stores/backend.h"

namespace idmint::stores {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
using std::chrono::milliseconds;

// ---- the driver

// Every function of the driver that is called here. Below, each name means the one that was loaded.
#define IDMINT_DRIVER(F)               \
  F(bson_append_array)                 \
  F(bson_append_binary)                \
  F(bson_append_bool)                  \
  F(bson_append_document)              \
  F(bson_append_int32)                 \
  F(bson_append_int64)                 \
  F(bson_append_utf8)                  \
  F(bson_copy)                         \
  F(bson_destroy)                      \
  F(bson_init_from_json)               \
  F(bson_init_static)                  \
  F(bson_iter_array)                   \
  F(bson_iter_as_int64)                \
  F(bson_iter_binary)                  \
  F(bson_iter_bool)                    \
  F(bson_iter_document)                \
  F(bson_iter_init)                    \
  F(bson_iter_init_find)               \
  F(bson_iter_next)                    \
  F(bson_iter_type)                    \
  F(bson_iter_utf8)                    \
  F(bson_new)                          \
  F(bson_utf8_validate)                \
  F(mongoc_client_command_with_opts)   \
  F(mongoc_client_pool_destroy)        \
  F(mongoc_client_pool_new_with_error) \
  F(mongoc_client_pool_pop)            \
  F(mongoc_client_pool_push)           \
  F(mongoc_client_pool_set_error_api)  \
  F(mongoc_client_select_server)       \
  F(mongoc_client_session_append)      \
  F(mongoc_client_session_destroy)     \
  F(mongoc_client_start_session)       \
  F(mongoc_init)                       \
  F(mongoc_log_set_handler)            \
  F(mongoc_server_description_destroy) \
  F(mongoc_server_description_id)      \
  F(mongoc_server_description_type)    \
  F(mongoc_uri_destroy)                \
  F(mongoc_uri_get_database)           \
  F(mongoc_uri_get_hosts)              \
  F(mongoc_uri_get_option_as_int32)    \
  F(mongoc_uri_get_srv_hostname)       \
  F(mongoc_uri_new_with_error)         \
  F(mongoc_uri_set_appname)            \
  F(mongoc_uri_set_option_as_bool)     \
  F(mongoc_uri_set_option_as_int32)

// The headers' own names, hidden by pointers to what the library offers under them.
// NOLINTBEGIN(bugprone-macro-parentheses): a name that is declared cannot stand in parentheses.
#define IDMINT_DECLARE(name) decltype(&::name) name = nullptr;
IDMINT_DRIVER(IDMINT_DECLARE)
#undef IDMINT_DECLARE

// Never unloaded: it has threads.
Result<void> load_driver() {
  static const Result<void> loaded = []() -> Result<void> {
    const auto absent = [] {
      const char* const why = dlerror();
      return std::unexpected(Error{
          Code::kUnimplemented,
          std::string("stores of mongodb: need MongoDB's C driver, version 1.23 or a later 1.x, "
                      "which could not be loaded (") +
              (why != nullptr ? why : "unknown") + "); install the package libmongoc-1.0-0"});
    };
    constexpr const char* kLibrary = "libmongoc-1.0.so.0";
    void* const before = dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD);
    void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return absent();
#define IDMINT_LOAD(name)                                         \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #name)); \
  if (name == nullptr) return absent();
    IDMINT_DRIVER(IDMINT_LOAD)
#undef IDMINT_LOAD
    mongoc_init();
    // It logs to standard output, which is for ids. Where the program uses it too, that is its own.
    if (before == nullptr) mongoc_log_set_handler(nullptr, nullptr);
    return {};
  }();
  return loaded;
}
// NOLINTEND(bugprone-macro-parentheses)

// ---- BSON

class Bson;

// A document that is somebody else's, and must stay as long as this.
class View {
 public:
  explicit View(const bson_t* document) : document_(document) {}

  [[nodiscard]] std::optional<std::int64_t> integer(const char* key) const {
    bson_iter_t at;
    if (!find(&at, key, BSON_TYPE_INT32, BSON_TYPE_INT64)) return std::nullopt;
    return bson_iter_as_int64(&at);
  }
  // What a reply calls a number may be any type of number.
  [[nodiscard]] std::int64_t number(const char* key) const {
    bson_iter_t at;
    return bson_iter_init_find(&at, document_, key) ? bson_iter_as_int64(&at) : 0;
  }
  [[nodiscard]] std::optional<bool> boolean(const char* key) const {
    bson_iter_t at;
    if (!find(&at, key, BSON_TYPE_BOOL, BSON_TYPE_BOOL)) return std::nullopt;
    return bson_iter_bool(&at);
  }
  // Of a string, or of binary data.
  [[nodiscard]] std::optional<std::string_view> bytes(const char* key) const {
    bson_iter_t at;
    if (!find(&at, key, BSON_TYPE_UTF8, BSON_TYPE_BINARY)) return std::nullopt;
    std::uint32_t size = 0;
    if (bson_iter_type(&at) == BSON_TYPE_UTF8) {
      const char* const text = bson_iter_utf8(&at, &size);
      return std::string_view(text, size);
    }
    bson_subtype_t subtype{};
    const std::uint8_t* data = nullptr;
    bson_iter_binary(&at, &subtype, &size, &data);
    return std::string_view(reinterpret_cast<const char*>(data), size);
  }
  // The document under `key`, read within `use`; false where there is none.
  bool document(const char* key, const std::function<void(const View&)>& use) const {
    bson_iter_t at;
    if (!find(&at, key, BSON_TYPE_DOCUMENT, BSON_TYPE_DOCUMENT)) return false;
    bson_t inner;
    if (!read_document(&at, &inner)) return false;
    use(View(&inner));
    return true;
  }
  // Each document of the array under `key`.
  void each(const char* key, const std::function<void(const View&)>& use) const {
    bson_iter_t at;
    if (!find(&at, key, BSON_TYPE_ARRAY, BSON_TYPE_ARRAY)) return;
    const std::uint8_t* data = nullptr;
    std::uint32_t size = 0;
    bson_iter_array(&at, &size, &data);
    bson_t array;
    bson_iter_t item;
    if (data == nullptr || !bson_init_static(&array, data, size)) return;
    if (!bson_iter_init(&item, &array)) return;
    bson_t inner;
    while (bson_iter_next(&item)) {
      if (bson_iter_type(&item) == BSON_TYPE_DOCUMENT && read_document(&item, &inner))
        use(View(&inner));
    }
  }

 private:
  bool find(bson_iter_t* at, const char* key, bson_type_t one, bson_type_t other) const {
    return bson_iter_init_find(at, document_, key) &&
           (bson_iter_type(at) == one || bson_iter_type(at) == other);
  }
  static bool read_document(const bson_iter_t* at, bson_t* inner) {
    const std::uint8_t* data = nullptr;
    std::uint32_t size = 0;
    bson_iter_document(at, &size, &data);
    return data != nullptr && bson_init_static(inner, data, size);
  }

  const bson_t* document_;
};

// A document of our own.
class Bson {
 public:
  Bson() : document_(bson_new()) {}
  // REQUIRES: well-formed; the texts are in this file, but for the integers in them.
  explicit Bson(const std::string& json) : document_(bson_new()) {
    bson_error_t error;
    bson_t parsed;
    if (!bson_init_from_json(&parsed, json.data(), static_cast<ssize_t>(json.size()), &error)) {
      std::fprintf(stderr, "idmint: bug: %s in %s\n", error.message, json.c_str());
      std::abort();
    }
    bson_destroy(document_);
    document_ = bson_copy(&parsed);
    bson_destroy(&parsed);
  }
  ~Bson() {
    if (document_ != nullptr) bson_destroy(document_);
  }
  Bson(Bson&& other) noexcept : document_(std::exchange(other.document_, nullptr)) {}
  Bson& operator=(Bson&& other) noexcept {
    std::swap(document_, other.document_);
    return *this;
  }

  [[nodiscard]] Bson copy() const { return Bson(bson_copy(document_)); }
  // What a call of the driver left in `reply`, which is destroyed.
  [[nodiscard]] static Bson taken_from(bson_t* reply) {
    Bson taken(bson_copy(reply));
    bson_destroy(reply);
    return taken;
  }
  [[nodiscard]] bson_t* get() const { return document_; }
  [[nodiscard]] View view() const { return View(document_); }

  Bson& add(const char* key, std::int64_t value) {
    return added(bson_append_int64(document_, key, -1, value));
  }
  Bson& add(const char* key, std::int32_t value) {
    return added(bson_append_int32(document_, key, -1, value));
  }
  Bson& add(const char* key, bool value) {
    return added(bson_append_bool(document_, key, -1, value));
  }
  Bson& add(const char* key, const Bson& value) {
    return added(bson_append_document(document_, key, -1, value.get()));
  }
  Bson& add_array(const char* key, const Bson& value) {
    return added(bson_append_array(document_, key, -1, value.get()));
  }
  // A string or, where that is impossible, binary data.
  Bson& add(const char* key, std::string_view bytes) {
    if (is_utf8(bytes))
      return added(bson_append_utf8(document_, key, -1, data(bytes), size(bytes)));
    return add_binary(key, BSON_SUBTYPE_BINARY, bytes);
  }
  Bson& add(const char* key, const char* text) { return add(key, std::string_view(text)); }
  Bson& add_binary(const char* key, bson_subtype_t subtype, std::string_view bytes) {
    return added(bson_append_binary(document_, key, -1, subtype,
                                    reinterpret_cast<const std::uint8_t*>(data(bytes)),
                                    static_cast<std::uint32_t>(bytes.size())));
  }

  [[nodiscard]] static bool is_utf8(std::string_view bytes) {
    return bson_utf8_validate(data(bytes), bytes.size(), true);
  }

 private:
  explicit Bson(bson_t* document) : document_(document) {}

  static const char* data(std::string_view bytes) {
    return bytes.data() != nullptr ? bytes.data() : "";
  }
  static int size(std::string_view bytes) { return static_cast<int>(bytes.size()); }
  // Appending fails only past 2 GB, which the limits of the interfaces keep us from.
  Bson& added(bool ok) {
    if (!ok) std::abort();
    return *this;
  }

  bson_t* document_;
};

// ---- what an error means

struct Meaning {
  Code code;
  bool applied;  // whether it may have been: false only where it certainly was not
  bool passing;  // asking again may help
};

struct ServerError {
  std::int64_t number;
  Meaning meaning;
};

// Numbers of the server, where a command failed as a whole. Any other is kUnknown.
constexpr std::array kServerErrors = {
    ServerError{6, {Code::kUnknown, true, true}},                // HostUnreachable
    ServerError{7, {Code::kUnknown, true, true}},                // HostNotFound
    ServerError{13, {Code::kPermissionDenied, false, false}},    // Unauthorized
    ServerError{18, {Code::kUnauthenticated, false, false}},     // AuthenticationFailed
    ServerError{20, {Code::kFailedPrecondition, false, false}},  // IllegalOperation
    ServerError{50, {Code::kDeadlineExceeded, true, false}},     // MaxTimeMSExpired
    ServerError{59, {Code::kUnimplemented, false, false}},       // CommandNotFound
    ServerError{64, {Code::kDeadlineExceeded, true, false}},     // WriteConcernFailed
    ServerError{73, {Code::kInvalidArgument, false, false}},     // InvalidNamespace
    ServerError{89, {Code::kUnknown, true, true}},               // NetworkTimeout
    ServerError{91, {Code::kUnknown, true, true}},               // ShutdownInProgress
    ServerError{134, {Code::kUnknown, true, true}},       // ReadConcernMajorityNotAvailableYet
    ServerError{189, {Code::kUnknown, true, true}},       // PrimarySteppedDown
    ServerError{241, {Code::kOutOfRange, false, false}},  // ConversionFailure: int32 has no room
    ServerError{262, {Code::kDeadlineExceeded, true, true}},  // ExceededTimeLimit
    ServerError{9001, {Code::kUnknown, true, true}},          // SocketException
    ServerError{10107, {Code::kUnavailable, false, true}},    // NotWritablePrimary
    ServerError{11600, {Code::kUnknown, true, true}},         // InterruptedAtShutdown
    ServerError{11602, {Code::kUnknown, true, true}},         // InterruptedDueToReplStateChange
    ServerError{13435, {Code::kUnavailable, false, true}},    // NotPrimaryNoSecondaryOk
    ServerError{13436, {Code::kUnavailable, false, true}},    // NotPrimaryOrSecondary
};

struct DriverError {
  std::uint32_t domain;
  std::uint32_t code;  // 0: any
  Meaning meaning;
};

// The driver's own; the first row that fits. Any other is kUnknown, and may pass.
constexpr std::array kDriverErrors = {
    DriverError{MONGOC_ERROR_SERVER_SELECTION, 0, {Code::kUnavailable, false, true}},
    DriverError{
        MONGOC_ERROR_STREAM, MONGOC_ERROR_STREAM_CONNECT, {Code::kUnavailable, false, true}},
    DriverError{MONGOC_ERROR_STREAM,
                MONGOC_ERROR_STREAM_NAME_RESOLUTION,
                {Code::kUnavailable, false, true}},
    DriverError{MONGOC_ERROR_CLIENT,
                MONGOC_ERROR_CLIENT_AUTHENTICATE,
                {Code::kUnauthenticated, false, false}},
    DriverError{MONGOC_ERROR_CLIENT,
                MONGOC_ERROR_CLIENT_SESSION_FAILURE,
                {Code::kUnavailable, false, true}},
    DriverError{MONGOC_ERROR_SASL, 0, {Code::kUnauthenticated, false, false}},
    DriverError{MONGOC_ERROR_SCRAM, 0, {Code::kUnauthenticated, false, false}},
    DriverError{MONGOC_ERROR_PROTOCOL,
                MONGOC_ERROR_PROTOCOL_BAD_WIRE_VERSION,
                {Code::kFailedPrecondition, false, false}},
    DriverError{MONGOC_ERROR_BSON, 0, {Code::kInternal, false, false}},
    DriverError{
        MONGOC_ERROR_COMMAND, MONGOC_ERROR_COMMAND_INVALID_ARG, {Code::kInternal, false, false}},
};

constexpr std::int64_t kDuplicateKey = 11000;

Meaning meaning_of(std::int64_t number) {
  const auto* const row = std::ranges::find(kServerErrors, number, &ServerError::number);
  return row != kServerErrors.end() ? row->meaning : Meaning{Code::kUnknown, true, false};
}

Meaning meaning_of(const bson_error_t& error) {
  if (error.domain == MONGOC_ERROR_SERVER) return meaning_of(std::int64_t{error.code});
  for (const DriverError& row : kDriverErrors)
    if (row.domain == error.domain && (row.code == 0 || row.code == error.code)) return row.meaning;
  return {Code::kUnknown, true, true};
}

// ---- commands

enum class Kind : std::uint8_t {
  kWrite,     // write concern majority, journal
  kReadOne,   // linearizable: one document, by its _id
  kReadMany,  // what a majority has
};

// A command under way. Guarded by the mutex of the Workers, but for what only one thread uses.
struct Call {
  Call(Bson what, Kind how, SteadyTime by) : command(std::move(what)), kind(how), until(by) {}

  const Bson command;
  const Kind kind;
  const SteadyTime until;

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
class Workers {
 public:
  Workers(mongoc_client_pool_t* pool, std::string database, std::string where, std::size_t most)
      : pool_(pool), database_(std::move(database)), where_(std::move(where)), most_(most) {}
  // Waits for the threads, each of which may be in one wait of the driver's.
  ~Workers() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    mongoc_client_pool_destroy(pool_);
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Answers by `until`. `doing`: for messages, what to do "in" the store.
  Result<Bson> run(Bson command, Kind kind, SteadyTime until, std::string_view doing);

 private:
  struct Connection {
    mongoc_client_t* client;
    mongoc_client_session_t* session;
    std::int64_t number;  // of the latest write; the server takes each once
  };

  void work();
  Result<Bson> answer(Call& call, Connection& connection);
  std::optional<Error> send(Call& call, Connection& connection, std::int64_t number, Bson* reply,
                            Meaning* meaning, bool* numbered);
  bool wait_a_little(Call& call, int attempt);

  mongoc_client_pool_t* const pool_;
  const std::string database_;
  const std::string where_;
  const std::size_t most_;
  std::atomic<bool> authenticated_{false};  // once, so that user and password are right

  std::mutex mutex_;  // guards what follows
  std::condition_variable work_;
  std::deque<std::shared_ptr<Call>> waiting_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  bool ending_ = false;
};

Result<Bson> Workers::run(Bson command, Kind kind, SteadyTime until, std::string_view doing) {
  const auto call = std::make_shared<Call>(std::move(command), kind, until);
  std::unique_lock lock(mutex_);
  waiting_.push_back(call);
  if (idle_ < waiting_.size() && threads_.size() < most_) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error& failed) {
      if (threads_.empty()) {
        waiting_.pop_back();
        return std::unexpected(
            Error{Code::kResourceExhausted, std::string("no thread to ask ") + where_ + " with (" +
                                                failed.what() + "); nothing was changed"});
      }
    }
  }
  work_.notify_one();
  call->changed.wait_until(lock, until, [&] { return call->answered; });
  std::string what = "could not " + std::string(doing) + " " + where_ + ": ";
  if (call->answered) {
    if (!call->answer) call->answer.error().message.insert(0, what);
    return std::move(call->answer);
  }
  call->abandoned = true;
  call->changed.notify_all();
  std::erase(waiting_, call);
  what += "no answer in time";
  if (!call->why.empty()) what += " (" + call->why + ")";
  if (call->sent && kind == Kind::kWrite)
    return std::unexpected(
        Error{Code::kDeadlineExceeded, what + "; it may have been done or not, now or later"});
  return std::unexpected(Error{Code::kUnavailable, what + "; nothing was changed; ask again"});
}

void Workers::work() {
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
    Result<Bson> answered = answer(*call, connection);
    lock.lock();
    call->answer = std::move(answered);
    call->answered = true;
    call->changed.notify_all();
  }
  lock.unlock();
  if (connection.session != nullptr) mongoc_client_session_destroy(connection.session);
  mongoc_client_pool_push(pool_, connection.client);
}

// False: there is no time left, or nobody waits.
bool Workers::wait_a_little(Call& call, int attempt) {
  const milliseconds pause{std::min(1 << std::min(attempt, 10), 100)};
  std::unique_lock lock(mutex_);
  const SteadyTime until = std::min(call.until, std::chrono::steady_clock::now() + pause);
  call.changed.wait_until(lock, until, [&] { return call.abandoned; });
  return !call.abandoned && !ending_ && std::chrono::steady_clock::now() < call.until;
}

// The outcome of all attempts together: "not applied" only where none may have been.
Result<Bson> Workers::answer(Call& call, Connection& connection) {
  const std::int64_t number = call.kind == Kind::kWrite ? ++connection.number : 0;
  bool applied = false;
  bool may_repeat = true;
  for (int attempt = 0;; ++attempt) {
    Bson reply;
    Meaning meaning{};
    bool numbered = false;
    std::optional<Error> error = send(call, connection, number, &reply, &meaning, &numbered);
    if (!error) return reply;
    applied = applied || (meaning.applied && call.kind == Kind::kWrite);
    {
      const std::lock_guard lock(mutex_);
      call.sent = applied;
      call.why = error->message;
    }
    if (meaning.applied && !numbered && call.kind == Kind::kWrite) may_repeat = false;
    if (meaning.passing && may_repeat && wait_a_little(call, attempt)) continue;
    if (applied) {
      const bool late = meaning.code == Code::kDeadlineExceeded;
      return std::unexpected(Error{late ? Code::kDeadlineExceeded : Code::kUnknown,
                                   error->message + "; it may have been done or not"});
    }
    if (meaning.applied) meaning.code = Code::kUnavailable;  // it only reads
    return std::unexpected(Error{meaning.code, std::move(error->message)});
  }
}

// One attempt. `numbered`: the server that it went to would take it once, however often it is sent.
std::optional<Error> Workers::send(Call& call, Connection& connection, std::int64_t number,
                                   Bson* reply, Meaning* meaning, bool* numbered) {
  bson_error_t error{};
  const auto failed = [&] {
    *meaning = meaning_of(error);
    // So the driver calls it too when a server goes down in the midst of the exchange.
    if (meaning->code == Code::kUnauthenticated && authenticated_.load())
      *meaning = {Code::kUnavailable, false, true};
    return Error{meaning->code, error.message};
  };
  mongoc_server_description_t* const server =
      mongoc_client_select_server(connection.client, true, nullptr, &error);
  if (server == nullptr) return failed();
  const std::string_view type = mongoc_server_description_type(server);
  const bool set = type != "Standalone";
  const bool sharded = type == "Mongos" || type == "LoadBalancer";
  const auto id = static_cast<std::int32_t>(mongoc_server_description_id(server));
  mongoc_server_description_destroy(server);
  *numbered = set;
  if (sharded) {
    *meaning = {Code::kUnimplemented, false, false};
    return Error{meaning->code,
                 "it is a sharded cluster, on which idmint was not tested; name a replica set"};
  }

  Bson options;
  options.add("serverId", id);
  Bson command = call.command.copy();
  if (call.kind == Kind::kWrite && set) {
    if (connection.session == nullptr)
      connection.session = mongoc_client_start_session(connection.client, nullptr, &error);
    if (connection.session == nullptr ||
        !mongoc_client_session_append(connection.session, options.get(), &error))
      return failed();
    command.add("txnNumber", number);
  }
  const auto left = std::chrono::ceil<milliseconds>(call.until - std::chrono::steady_clock::now());
  const auto ms =
      static_cast<std::int32_t>(std::clamp<std::int64_t>(left.count(), 1, std::int64_t{1} << 30));
  command.add("maxTimeMS", ms);
  if (call.kind == Kind::kWrite) {
    command.add("writeConcern", Bson().add("w", "majority").add("j", true).add("wtimeout", ms));
  } else if (set) {
    const bool one = call.kind == Kind::kReadOne;
    command.add("readConcern", Bson().add("level", one ? "linearizable" : "majority"));
  }

  {
    const std::lock_guard lock(mutex_);
    if (call.abandoned) {
      *meaning = {Code::kUnavailable, false, false};
      return Error{meaning->code, "nobody waits for it any more"};
    }
    call.sent = true;
  }
  bson_t raw;
  const bool ok = mongoc_client_command_with_opts(
      connection.client, database_.c_str(), command.get(), nullptr, options.get(), &raw, &error);
  *reply = Bson::taken_from(&raw);
  if (!ok) return failed();
  authenticated_.store(true);

  // A reply that begins with "ok" may still say that it is not.
  std::optional<std::int64_t> wrong;
  std::string text;
  const auto look = [&](const View& what) {
    if (wrong) return;
    wrong = what.number("code");
    text = what.bytes("errmsg").value_or("no message");
  };
  if (reply->view().number("ok") != 1) look(reply->view());
  reply->view().document("writeConcernError", look);
  reply->view().each("writeErrors", [&](const View& what) {
    if (what.number("code") != kDuplicateKey) look(what);
  });
  if (!wrong) return std::nullopt;
  *meaning = meaning_of(*wrong);
  if (!meaning->applied) meaning->code = Code::kUnknown;
  meaning->applied = true;
  return Error{meaning->code, text};
}

// ---- the store

constexpr const char* kStore = "idmint.store";
constexpr const char* kCounters = "idmint.counters";
constexpr const char* kDefinitions = "idmint.definitions";
constexpr const char* kSpace = "space";  // the _id of the document of a space among its claims
constexpr std::int64_t kSchema = 1;

// An integer as extended JSON.
std::string number(std::int64_t value) {
  return R"({"$numberLong":")" + std::to_string(value) + R"("})";
}

// The arithmetic of CounterState::left() and CounterBounds::at_or_above(), in a record's own
// strides. No sum overflows: 0 <= first, next <= last + stride <= 2^63 - 1. A product may, and is
// then a double above every rest.
const std::string kRest = R"({"$add":[{"$subtract":["$last","$next"]},"$stride"]})";
const std::string kWhole =
    R"({"$subtract":[)" + kRest + R"(,{"$mod":[)" + kRest + R"(,"$stride"]}]})";

// The query for the counter, where its record is as record_of() wants it and `condition` holds: of
// any other nothing is changed, or a damage would be mended in silence, and values come again.
Bson counter_where(std::string_view counter, const std::string& condition) {
  // Asked one after the other: the arithmetic of each is possible where those before it hold.
  const std::string numbers =
      R"({"$and":[{"$isNumber":"$first"},{"$isNumber":"$last"},{"$isNumber":"$stride"},)"
      R"({"$isNumber":"$next"},{"$in":["$closed",[true,false]]}]})";
  const std::string bounds =
      R"({"$and":[{"$gte":["$stride",1]},{"$gte":["$first",0]},{"$lte":["$first","$last"]},)"
      R"({"$lte":["$last",{"$subtract":[)" +
      number(kLargestValue) + R"(,{"$subtract":["$stride",1]}]}]}]})";
  const std::string next =
      R"({"$and":[{"$gte":["$next","$first"]},{"$lte":["$next",{"$add":["$last","$stride"]}]},)"
      R"({"$eq":[{"$mod":[{"$subtract":["$next","$first"]},"$stride"]},0]})" +
      condition + "]}";
  const auto only_if = [](const std::string& first, const std::string& then) {
    return R"({"$cond":[)" + first + "," + then + ",false]}";
  };
  Bson query(R"({"$expr":)" + only_if(numbers, only_if(bounds, next)) + "}");
  Bson integer;
  integer.add_array("$type", Bson().add("0", "int").add("1", "long"));
  for (const char* const field : {"first", "last", "stride", "next"}) query.add(field, integer);
  query.add("_id", counter);
  return query;
}

std::string in_strides(std::int64_t count) {
  return R"({"$multiply":[)" + number(count) + R"(,"$stride"]})";
}

// The update that makes the next value `expression`, of the type that it has. (In JSON "$type" is
// of binary data.)
Bson next_becomes(const std::string& expression) {
  Bson is_int;
  is_int.add_array("$eq", Bson().add("0", Bson().add("$type", "$next")).add("1", "int"));
  Bson kept;
  kept.add_array("$cond", Bson()
                              .add("0", is_int)
                              .add("1", Bson(R"({"$toInt":)" + expression + "}"))
                              .add("2", Bson(R"({"$toLong":)" + expression + "}")));
  Bson update;
  update.add("0", Bson().add("$set", Bson().add("next", kept)));
  return update;
}

struct Record {
  CounterState state{};
  bool whole = false;  // as idmint writes them
};

Record record_of(const View& document) {
  const auto first = document.integer("first");
  const auto last = document.integer("last");
  const auto stride = document.integer("stride");
  const auto next = document.integer("next");
  const auto closed = document.boolean("closed");
  const auto name = document.bytes("_id");
  if (!first || !last || !stride || !next || !closed || !name) return {};
  const bool whole = 0 <= *first && 1 <= *stride && *first <= *last &&
                     *last <= largest_last(*stride) && *first <= *next &&
                     *next <= *last + *stride && (*next - *first) % *stride == 0;
  return {{std::string(*name), {*first, *last, *stride}, *next, *closed}, whole};
}

class MongodbStore final : public Store,
                           private CounterStore,
                           private Catalog,
                           private UniqueIndex {
 public:
  MongodbStore(std::string url, std::string where, std::unique_ptr<Workers> workers,
               milliseconds deadline, Access access)
      : url_(std::move(url)),
        where_(std::move(where)),
        deadline_(deadline),
        access_(access),
        workers_(std::move(workers)) {}

  // In a child of fork() the driver's clients, and the threads that are not there, are left as they
  // are, on purpose.
  ~MongodbStore() override {
    if (owner_) return;
    [[maybe_unused]] const Workers* const left = workers_.release();
  }
  MongodbStore(const MongodbStore&) = delete;
  MongodbStore& operator=(const MongodbStore&) = delete;

  const Uuid& id() const noexcept override { return id_; }
  std::string_view url() const noexcept override { return url_; }
  CounterStore* counters() noexcept override { return this; }
  Catalog* catalog() noexcept override { return this; }
  UniqueIndex* unique_index() noexcept override { return this; }

  // Called once, before anything else.
  Result<void> open(const StoreOptions& options);

 private:
  // When a call that begins now must have answered.
  Result<SteadyTime> enter_to_read() const {
    if (!owner_) return std::unexpected(inherited_handle(url_));
    return std::chrono::steady_clock::now() + deadline_;
  }
  Result<SteadyTime> enter() const {
    if (access_ == Access::kReadOnly)
      return std::unexpected(
          Error{Code::kPermissionDenied, where_ + " was opened to read only; open it to write "
                                                  "(StoreOptions::access)"});
    return enter_to_read();
  }

  Result<void> create(std::span<const NewCounter> counters) override;
  Result<Range> advance(std::string_view counter, std::int64_t count, Take take) override;
  Result<std::vector<std::int64_t>> raise(std::span<const std::string> counters,
                                          std::int64_t floor) override;
  Result<std::vector<CounterBounds>> extend(std::span<const std::string> counters,
                                            std::int64_t last) override;
  Result<CounterState> peek(std::string_view counter) override;
  Result<std::vector<CounterState>> list(std::string_view prefix) override;
  Result<void> close(std::span<const std::string> counters) override;
  Result<Definition> define(const Definition& definition) override;
  Result<Definition> replace(const Definition& old, const Definition& updated) override;
  Result<Definition> find(std::string_view name) override;
  Result<std::vector<CatalogEntry>> list() override;
  Result<void> create_space(std::string_view space) override;
  Result<std::vector<bool>> insert(std::string_view space,
                                   std::span<const std::int64_t> keys) override;
  Result<std::int64_t> claimed(std::string_view space) override;
  Result<void> close_space(std::string_view space) override;

  using Use = std::function<void(const View&)>;

  Result<bool> change(std::string_view collection, Bson query, const Bson& update, SteadyTime until,
                      std::string_view doing, const Use& before);
  Result<bool> read(std::string_view collection, std::string_view name, SteadyTime until,
                    const Use& use);
  Result<void> read_all(std::string_view collection, std::string_view from, SteadyTime until,
                        const std::function<bool(const View&)>& use);
  Result<std::vector<std::size_t>> insert_new(std::string_view collection, const Bson& documents,
                                              std::int64_t count, SteadyTime until,
                                              std::string_view doing);
  Result<CounterState> read_counter(std::string_view counter, SteadyTime until);
  Result<std::map<std::string, Record>> read_counters(std::span<const std::string> counters,
                                                      SteadyTime until);
  // Says of a counter whether it is as it is to be; an error where it never will.
  using Done = std::function<Result<bool>(const CounterState&)>;
  Result<std::vector<CounterState>> change_each(std::span<const std::string> counters,
                                                const std::string& condition, const Bson& update,
                                                std::string_view doing, const Done& done);
  Result<CounterState> checked(const Record& record, std::string_view counter) const;
  Result<void> make_some(std::span<const NewCounter> counters, SteadyTime until);
  Result<Definition> read_definition(std::string_view name, SteadyTime until,
                                     std::string* json = nullptr);
  Result<Definition> definition_of(std::string_view name, std::string_view json) const;
  Result<bool> read_space(std::string_view space, SteadyTime until);
  Result<void> make_store(const StoreOptions& options, SteadyTime until);
  std::unexpected<Error> damaged(std::string why) const;

  const OwnedByProcess owner_;
  const std::string url_;
  const std::string where_;
  const milliseconds deadline_;
  const Access access_;
  std::unique_ptr<Workers> workers_;
  Uuid id_;
};

std::unexpected<Error> MongodbStore::damaged(std::string why) const {
  return std::unexpected(
      Error{Code::kDataLoss, where_ + " is damaged: " + std::move(why) +
                                 "; look at it before you restore anything, and go on with "
                                 "sequences that begin past every value in use"});
}

// What was done may have been, if what came after it failed.
Error after_a_write(Error error) {
  if (error.code == Code::kUnavailable) error.code = Code::kUnknown;
  return error;
}

// Changes the one document that `query` finds, and shows it as it was before. False: there is none.
Result<bool> MongodbStore::change(std::string_view collection, Bson query, const Bson& update,
                                  SteadyTime until, std::string_view doing, const Use& before) {
  Bson command;
  command.add("findAndModify", collection).add("query", query).add_array("update", update);
  const Result<Bson> reply = workers_->run(std::move(command), Kind::kWrite, until, doing);
  if (!reply) return std::unexpected(reply.error());
  return reply->view().document("value", before);
}

Result<bool> MongodbStore::read(std::string_view collection, std::string_view name,
                                SteadyTime until, const Use& use) {
  Bson command;
  command.add("find", collection)
      .add("filter", Bson().add("_id", name))
      .add("limit", 1)
      .add("singleBatch", true);
  const Result<Bson> reply = workers_->run(std::move(command), Kind::kReadOne, until, "read");
  if (!reply) return std::unexpected(reply.error());
  bool found = false;
  reply->view().document("cursor", [&](const View& cursor) {
    cursor.each("firstBatch", [&](const View& document) {
      found = true;
      use(document);
    });
  });
  return found;
}

// All documents from the name `from` on, in the order of their names, those whose names are strings
// first; a page at a time, since no cursor outlives its primary. Stops where `use` says false.
Result<void> MongodbStore::read_all(std::string_view collection, std::string_view from,
                                    SteadyTime until, const std::function<bool(const View&)>& use) {
  constexpr std::int32_t kPage = 5000;
  // MongoDB compares only what has one type.
  for (const bool strings : {true, false}) {
    Bson filter;
    filter.add("_id", strings ? std::move(Bson().add("$gte", from))
                              : std::move(Bson().add_binary("$gte", BSON_SUBTYPE_BINARY, "")));
    for (;;) {
      Bson command;
      command.add("find", collection)
          .add("filter", filter)
          .add("sort", Bson().add("_id", 1))
          .add("limit", kPage)
          .add("batchSize", kPage)
          .add("singleBatch", true);
      const Result<Bson> reply = workers_->run(std::move(command), Kind::kReadMany, until, "read");
      if (!reply) return std::unexpected(reply.error());
      std::int32_t found = 0;
      bool more = true;
      std::string last;
      reply->view().document("cursor", [&](const View& cursor) {
        cursor.each("firstBatch", [&](const View& document) {
          ++found;
          last = document.bytes("_id").value_or("");
          more = more && use(document);
        });
      });
      if (!more || found < kPage) break;
      Bson past;
      if (strings) {
        past.add("$gt", last);
      } else {
        past.add_binary("$gt", BSON_SUBTYPE_BINARY, last);
      }
      filter = Bson();
      filter.add("_id", past);
    }
  }
  return {};
}

// Inserts those of the documents whose _id is not there; returns the places of the others.
Result<std::vector<std::size_t>> MongodbStore::insert_new(std::string_view collection,
                                                          const Bson& documents, std::int64_t count,
                                                          SteadyTime until,
                                                          std::string_view doing) {
  Bson command;
  command.add("insert", collection).add_array("documents", documents).add("ordered", false);
  const Result<Bson> reply = workers_->run(std::move(command), Kind::kWrite, until, doing);
  if (!reply) return std::unexpected(reply.error());
  std::vector<std::size_t> taken;
  reply->view().each("writeErrors", [&](const View& error) {
    taken.push_back(static_cast<std::size_t>(error.number("index")));
  });
  // One that was sent again counts what the first one did.
  if (reply->view().number("n") + static_cast<std::int64_t>(taken.size()) != count)
    return std::unexpected(Error{Code::kUnknown, "could not " + std::string(doing) + " " + where_ +
                                                     ": the answer does not say of each whether it "
                                                     "was done"});
  return taken;
}

// ---- opening

Result<void> MongodbStore::open(const StoreOptions& options) {
  const SteadyTime until = std::chrono::steady_clock::now() + deadline_;
  std::optional<std::int64_t> schema;
  std::optional<Uuid> id;
  const auto read_store = [&] {
    return read(kStore, "store", until, [&](const View& document) {
      schema = document.integer("schema").value_or(-1);
      const auto bytes = document.bytes("id");
      Uuid::Bytes raw{};
      if (!bytes || bytes->size() != raw.size()) return;
      std::ranges::copy(*bytes, raw.begin());
      id = Uuid(raw);
    });
  };
  Result<bool> there = read_store();
  if (!there) return std::unexpected(there.error());
  if (!*there) {
    bool counters = false;
    const Result<void> looked = read_all(kCounters, "", until, [&](const View&) {
      counters = true;
      return false;
    });
    if (!looked) return looked;
    if (counters) {
      // Unless another process was making the store just now.
      there = read_store();
      if (!there) return std::unexpected(there.error());
      if (!*there)
        return damaged(std::string("it has counters, and its document in ") + kStore +
                       " is missing");
    }
  }
  if (!*there) {
    if (!options.create || options.access == Access::kReadOnly)
      return std::unexpected(
          Error{Code::kNotFound,
                "no store in " + where_ + "; make a store with: idmint create NAME --store " +
                    url_ + " (in a program: StoreOptions::create), or name the database of one"});
    if (Result<void> made = make_store(options, until); !made) return made;
    there = read_store();
    if (!there) return std::unexpected(there.error());
  }
  if (schema && *schema > kSchema)
    return std::unexpected(
        Error{Code::kFailedPrecondition, where_ + " has schema version " + std::to_string(*schema) +
                                             ", and this idmint knows versions up to " +
                                             std::to_string(kSchema) +
                                             "; it was left as it is: use a newer idmint"});
  if (!id || schema != kSchema)
    return damaged(std::string("its document in ") + kStore + " is not as idmint writes it");
  id_ = *id;
  return {};
}

// Of two that come here at once, one makes the document, and the other finds it made.
Result<void> MongodbStore::make_store(const StoreOptions& options, SteadyTime until) {
  const Uuid id = draw_store_id(options);
  Bson document;
  document.add("_id", "store")
      .add_binary(
          "id", BSON_SUBTYPE_UUID,
          std::string_view(reinterpret_cast<const char*>(id.bytes().data()), id.bytes().size()))
      .add("schema", kSchema);
  const auto made = insert_new(kStore, Bson().add("0", document), 1, until, "make a store in");
  if (!made) return std::unexpected(made.error());
  return {};
}

// ---- counters

Result<CounterState> MongodbStore::checked(const Record& record, std::string_view counter) const {
  if (record.whole) return record.state;
  return damaged("the record of counter " + shown(counter) + " in " + kCounters +
                 " is not as idmint writes it");
}

Result<CounterState> MongodbStore::read_counter(std::string_view counter, SteadyTime until) {
  Record record;
  const Result<bool> there =
      read(kCounters, counter, until, [&](const View& found) { record = record_of(found); });
  if (!there) return std::unexpected(there.error());
  if (!*there) return std::unexpected(no_counter(counter, url_));
  return checked(record, counter);
}

// Those that are there, all at once: there may be thousands. REQUIRES: few enough for one message.
Result<std::map<std::string, Record>> MongodbStore::read_counters(
    std::span<const std::string> counters, SteadyTime until) {
  Bson names;
  for (std::size_t i = 0; i < counters.size(); ++i)
    names.add(std::to_string(i).c_str(), std::string_view(counters[i]));
  Bson command;
  command.add("find", kCounters)
      .add("filter", Bson().add("_id", Bson().add_array("$in", names)))
      .add("batchSize", static_cast<std::int32_t>(counters.size()))
      .add("singleBatch", true);
  const Result<Bson> reply = workers_->run(std::move(command), Kind::kReadMany, until, "read");
  if (!reply) return std::unexpected(reply.error());
  std::map<std::string, Record> found;
  reply->view().document("cursor", [&](const View& cursor) {
    cursor.each("firstBatch", [&](const View& document) {
      found.insert_or_assign(std::string(document.bytes("_id").value_or("")), record_of(document));
    });
  });
  // What a majority has may be behind what it acknowledged, on a new primary: this read is not.
  for (const std::string& counter : counters) {
    if (found.contains(counter)) continue;
    const Result<bool> there = read(kCounters, counter, until, [&](const View& document) {
      found.insert_or_assign(counter, record_of(document));
    });
    if (!there) return std::unexpected(there.error());
  }
  return found;
}

// REQUIRES: few enough for one message.
Result<void> MongodbStore::make_some(std::span<const NewCounter> counters, SteadyTime until) {
  Bson documents;
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const auto& [name, bounds] = counters[i];
    documents.add(std::to_string(i).c_str(), Bson()
                                                 .add("_id", std::string_view(name))
                                                 .add("first", bounds.first)
                                                 .add("last", bounds.last)
                                                 .add("stride", bounds.stride)
                                                 .add("next", bounds.first)
                                                 .add("closed", false));
  }
  const auto there =
      insert_new(kCounters, documents, std::ssize(counters), until, "make counters in");
  if (!there) return std::unexpected(there.error());
  if (there->empty()) return {};

  // Those that were there already must be the same.
  std::vector<std::string> names;
  for (const std::size_t i : *there) names.push_back(counters[i].name);
  const auto found = read_counters(names, until);
  if (!found) return std::unexpected(after_a_write(found.error()));
  for (const std::size_t i : *there) {
    const auto at = found->find(counters[i].name);
    if (at == found->end())
      return damaged("counter " + shown(counters[i].name) + " went away while it was made");
    const Result<CounterState> state = checked(at->second, counters[i].name);
    if (!state) return std::unexpected(state.error());
    if (state->bounds != counters[i].bounds)
      return std::unexpected(other_bounds(*state, counters[i].bounds));
  }
  return {};
}

Result<void> MongodbStore::create(std::span<const NewCounter> counters) {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  if (Result<void> ok = check_new_counters(counters); !ok) return ok;
  constexpr std::size_t kAtOnce = 5000;  // 6 MB at most, of the 16 that a message may have
  bool some = false;
  for (; !counters.empty(); counters = counters.subspan(std::min(kAtOnce, counters.size()))) {
    Result<void> made = make_some(counters.first(std::min(kAtOnce, counters.size())), *until);
    if (!made && some) return std::unexpected(after_a_write(made.error()));
    if (!made) return made;
    some = true;
  }
  return {};
}

Result<Range> MongodbStore::advance(std::string_view counter, std::int64_t count, Take take) {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  if (Result<void> ok = check_count(counter, count); !ok) return std::unexpected(ok.error());
  const std::int64_t least = take == Take::kAll ? count : 1;
  const Bson update =
      next_becomes(R"({"$add":["$next",{"$min":[)" + in_strides(count) + "," + kWhole + "]}]}");
  // Another round only if somebody made, or extended, the counter between the two commands.
  for (;;) {
    Bson query = counter_where(counter, R"(,{"$gte":[)" + kWhole + "," + in_strides(least) + "]}");
    query.add("closed", false);
    Record record;
    const Result<bool> moved =
        change(kCounters, std::move(query), update, *until, "take values from",
               [&](const View& before) { record = record_of(before); });
    if (!moved) return std::unexpected(moved.error());
    if (*moved) {
      const Result<CounterState> before = checked(record, counter);
      if (!before) return std::unexpected(before.error());
      return Range{before->next, before->bounds.stride, std::min(count, before->left())};
    }
    const Result<CounterState> state = read_counter(counter, *until);
    if (!state) return std::unexpected(state.error());
    if (state->closed || state->left() < least)
      return std::unexpected(refused_advance(*state, count));
  }
}

// One update for each counter that is whole and meets the condition, all of them sent together;
// then they are read, and what was made meanwhile is changed too. What is not there is told last.
Result<std::vector<CounterState>> MongodbStore::change_each(std::span<const std::string> counters,
                                                            const std::string& condition,
                                                            const Bson& update,
                                                            std::string_view doing,
                                                            const Done& done) {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  if (Result<void> ok = check_counters(counters.size()); !ok) return std::unexpected(ok.error());
  constexpr std::size_t kAtOnce = 2000;  // 6 MB at most, of the 16 that a message may have
  std::vector<CounterState> states;
  std::optional<Error> failure;
  bool some = false;
  while (!counters.empty()) {
    const auto batch = counters.first(std::min(kAtOnce, counters.size()));
    Bson updates;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      Bson one;
      one.add("q", counter_where(batch[i], condition)).add_array("u", update);
      updates.add(std::to_string(i).c_str(), one);
    }
    Bson command;
    command.add("update", kCounters).add_array("updates", updates).add("ordered", false);
    const Result<Bson> reply = workers_->run(std::move(command), Kind::kWrite, *until, doing);
    if (!reply) return std::unexpected(some ? after_a_write(reply.error()) : reply.error());
    some = true;
    const auto found = read_counters(batch, *until);
    if (!found) return std::unexpected(after_a_write(found.error()));
    bool again = false;
    std::vector<CounterState> now;
    for (const std::string& counter : batch) {
      const auto at = found->find(counter);
      if (at == found->end()) {
        failure = no_counter(counter, url_);
        continue;
      }
      Result<CounterState> state = checked(at->second, counter);
      if (!state) return std::unexpected(std::move(state).error());
      const Result<bool> as_wanted = done(*state);
      if (!as_wanted) failure = as_wanted.error();
      again = again || (as_wanted && !*as_wanted);
      now.push_back(*std::move(state));
    }
    if (again) continue;
    std::ranges::move(now, std::back_inserter(states));
    counters = counters.subspan(batch.size());
  }
  if (failure) return std::unexpected(*std::move(failure));
  return states;
}

Result<std::vector<std::int64_t>> MongodbStore::raise(std::span<const std::string> counters,
                                                      std::int64_t floor) {
  const std::string from_first = R"({"$subtract":[{"$min":[{"$max":[)" + number(floor) +
                                 R"(,"$first"]},{"$add":["$last",1]}]},"$first"]})";
  const std::string up = R"({"$add":[)" + from_first + R"(,{"$subtract":["$stride",1]}]})";
  const Bson update = next_becomes(R"({"$max":["$next",{"$add":["$first",{"$subtract":[)" + up +
                                   R"(,{"$mod":[)" + up + R"(,"$stride"]}]}]}]})");
  const auto states =
      change_each(counters, "", update, "raise a counter in", [&](const CounterState& state) {
        return Result<bool>(state.next >= state.bounds.at_or_above(floor));
      });
  if (!states) return std::unexpected(states.error());
  std::vector<std::int64_t> next;
  for (const CounterState& state : *states) next.push_back(state.next);
  return next;
}

Result<std::vector<CounterBounds>> MongodbStore::extend(std::span<const std::string> counters,
                                                        std::int64_t last) {
  const std::string it_can_be = R"(,{"$lte":[)" + number(last) + R"(,{"$subtract":[)" +
                                number(kLargestValue) + R"(,{"$subtract":["$stride",1]}]}]})";
  const Bson update(R"([{"$set":{"last":{"$toLong":{"$max":["$last",)" + number(last) + "]}}}}]");
  const auto states = change_each(
      counters, it_can_be, update, "extend a counter in", [&](const CounterState& state) {
        const std::int64_t stride = state.bounds.stride;
        if (last > largest_last(stride))
          return Result<bool>(std::unexpected(too_large_an_end(state.name, last, stride)));
        return Result<bool>(state.bounds.last >= last);
      });
  if (!states) return std::unexpected(states.error());
  std::vector<CounterBounds> bounds;
  for (const CounterState& state : *states) bounds.push_back(state.bounds);
  return bounds;
}

Result<CounterState> MongodbStore::peek(std::string_view counter) {
  const Result<SteadyTime> until = enter_to_read();
  if (!until) return std::unexpected(until.error());
  return read_counter(counter, *until);
}

Result<std::vector<CounterState>> MongodbStore::list(std::string_view prefix) {
  const Result<SteadyTime> until = enter_to_read();
  if (!until) return std::unexpected(until.error());
  // A prefix may end within a character.
  std::string_view from = prefix;
  while (!Bson::is_utf8(from)) from.remove_suffix(1);
  std::vector<CounterState> found;
  std::optional<Error> error;
  const Result<void> read = read_all(kCounters, from, *until, [&](const View& document) {
    const auto name = document.bytes("_id");
    if (!name) return true;
    if (name->starts_with(prefix)) {
      Result<CounterState> state = checked(record_of(document), *name);
      if (!state) error = state.error();
      if (state) found.push_back(*std::move(state));
    }
    return name->starts_with(from) || !Bson::is_utf8(*name);
  });
  if (!read) return std::unexpected(read.error());
  if (error) return std::unexpected(*error);
  std::ranges::sort(found, {}, &CounterState::name);
  return found;
}

const char* const kClose = R"([{"$set":{"closed":true}}])";

Result<void> MongodbStore::close(std::span<const std::string> counters) {
  const auto states =
      change_each(counters, "", Bson(kClose), "close a counter in",
                  [](const CounterState& state) { return Result<bool>(state.closed); });
  if (!states) return std::unexpected(states.error());
  return {};
}

// ---- definitions

Result<Definition> MongodbStore::definition_of(std::string_view name, std::string_view json) const {
  Result<Definition> definition = definition_from_json(json);
  if (!definition) {
    definition.error().message = where_ + ", " + shown(name) + ": " + definition.error().message;
  } else if (definition->name != name) {
    return damaged("the definition of " + shown(name) + " is that of " + shown(definition->name));
  }
  return definition;
}

// Puts the text itself into `json`.
Result<Definition> MongodbStore::read_definition(std::string_view name, SteadyTime until,
                                                 std::string* json) {
  std::string text;
  const Result<bool> there = read(kDefinitions, name, until, [&](const View& found) {
    text = found.bytes("json").value_or("");
  });
  if (!there) return std::unexpected(there.error());
  if (!*there) return std::unexpected(no_definition(name, url_));
  if (json != nullptr) *json = text;
  return definition_of(name, text);
}

Result<Definition> MongodbStore::define(const Definition& definition) {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  if (Result<void> ok = check_stored(definition); !ok) return std::unexpected(ok.error());
  Bson document;
  document.add("_id", std::string_view(definition.name))
      .add("json", std::string_view(to_json(definition)));
  const auto made =
      insert_new(kDefinitions, Bson().add("0", document), 1, *until, "write a definition into");
  if (!made) return std::unexpected(made.error());
  Result<Definition> there = read_definition(definition.name, *until);
  if (!there) return std::unexpected(after_a_write(there.error()));
  return there;
}

// Replaces the text that was read, and no other.
Result<Definition> MongodbStore::replace(const Definition& old, const Definition& updated) {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  if (Result<void> ok = check_replacement(old, updated); !ok) return std::unexpected(ok.error());
  std::string json;
  Result<Definition> there = read_definition(old.name, *until, &json);
  if (!there || *there != old) return there;
  Bson query;
  query.add("_id", std::string_view(old.name)).add("json", std::string_view(json));
  Bson update;
  update.add(
      "0", Bson().add("$set", Bson().add("json", Bson().add("$literal",
                                                            std::string_view(to_json(updated))))));
  const Result<bool> done = change(kDefinitions, std::move(query), update, *until,
                                   "replace a definition in", [](const View&) {});
  if (!done) return std::unexpected(done.error());
  there = read_definition(old.name, *until);
  if (!there) return std::unexpected(after_a_write(there.error()));
  return there;
}

Result<Definition> MongodbStore::find(std::string_view name) {
  const Result<SteadyTime> until = enter_to_read();
  if (!until) return std::unexpected(until.error());
  return read_definition(name, *until);
}

Result<std::vector<CatalogEntry>> MongodbStore::list() {
  const Result<SteadyTime> until = enter_to_read();
  if (!until) return std::unexpected(until.error());
  std::vector<CatalogEntry> all;
  const Result<void> read = read_all(kDefinitions, "", *until, [&](const View& document) {
    const std::string name(document.bytes("_id").value_or(""));
    all.push_back({name, definition_of(name, document.bytes("json").value_or(""))});
    return true;
  });
  if (!read) return std::unexpected(read.error());
  return all;
}

// ---- claims

// The collection of a space.
std::string claims_of(std::string_view space) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
  if (!space.empty() && space.size() <= 120 &&
      space.find_first_not_of(kPlain) == std::string_view::npos && !space.ends_with('.') &&
      !space.starts_with('.') && !space.contains("..") && !space.contains("system."))
    return "idmint.claims." + std::string(space);
  const auto hash = digest_of(Digest::kSha256, {std::as_bytes(std::span(space))});
  if (!hash) return "";  // no OpenSSL offers no SHA-256; the server refuses the name
  std::string name = "idmint.claims-of-";
  for (const std::uint8_t byte : *hash) {
    constexpr std::string_view kHex = "0123456789abcdef";
    name += kHex[byte >> 4];
    name += kHex[byte & 15];
  }
  return name;
}

// Whether it is closed.
Result<bool> MongodbStore::read_space(std::string_view space, SteadyTime until) {
  std::optional<bool> closed;
  const Result<bool> there = read(claims_of(space), kSpace, until, [&](const View& document) {
    closed = document.boolean("closed");
  });
  if (!there) return std::unexpected(there.error());
  if (!*there) return std::unexpected(no_space(space, url_));
  if (!closed)
    return damaged("the document \"space\" in " + claims_of(space) + " is not as idmint writes it");
  return *closed;
}

Result<void> MongodbStore::create_space(std::string_view space) {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  if (Result<void> ok = check_new_space(space); !ok) return ok;
  Bson document;
  document.add("_id", kSpace).add("name", space).add("closed", false);
  const auto made = insert_new(claims_of(space), Bson().add("0", document), 1, *until,
                               "make a space of claims in");
  if (!made) return std::unexpected(made.error());
  return {};
}

// A close that ends while this is under way may come before or after it.
Result<std::vector<bool>> MongodbStore::insert(std::string_view space,
                                               std::span<const std::int64_t> keys) {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  if (Result<void> ok = check_keys(space, keys.size()); !ok) return std::unexpected(ok.error());
  const Result<bool> closed = read_space(space, *until);
  if (!closed) return std::unexpected(closed.error());
  if (*closed) return std::unexpected(closed_space(space));
  const std::string collection = claims_of(space);
  std::vector<bool> ours(keys.size(), true);
  constexpr std::size_t kAtOnce = 10'000;  // of each that is taken the reply has a line
  for (std::size_t from = 0; from < keys.size(); from += kAtOnce) {
    const auto some = keys.subspan(from, std::min(kAtOnce, keys.size() - from));
    Bson documents;
    for (std::size_t i = 0; i < some.size(); ++i)
      documents.add(std::to_string(i).c_str(), Bson().add("_id", some[i]));
    const auto taken =
        insert_new(collection, documents, std::ssize(some), *until, "claim numbers in");
    if (!taken && from > 0) return std::unexpected(after_a_write(taken.error()));
    if (!taken) return std::unexpected(taken.error());
    for (const std::size_t i : *taken) ours.at(from + i) = false;
  }
  return ours;
}

Result<std::int64_t> MongodbStore::claimed(std::string_view space) {
  const Result<SteadyTime> until = enter_to_read();
  if (!until) return std::unexpected(until.error());
  const Result<bool> closed = read_space(space, *until);
  if (!closed) return std::unexpected(closed.error());
  Bson command;
  command.add("count", std::string_view(claims_of(space)));
  const Result<Bson> reply = workers_->run(std::move(command), Kind::kReadMany, *until, "read");
  if (!reply) return std::unexpected(reply.error());
  return reply->view().number("n") - 1;
}

Result<void> MongodbStore::close_space(std::string_view space) {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  const Result<bool> there =
      change(claims_of(space), std::move(Bson().add("_id", kSpace)), Bson(kClose), *until,
             "close a space of claims in", [](const View&) {});
  if (!there) return std::unexpected(there.error());
  if (!*there) return std::unexpected(no_space(space, url_));
  return {};
}

// ---- URLs

struct Option {
  std::string_view name;    // in lower case
  std::string_view wanted;  // any other value is refused
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

// Where user and password end, in which a question mark may stand; 0: there are none.
std::size_t end_of_user(std::string_view url) {
  const std::size_t hosts = url.find("://");
  if (hosts == std::string_view::npos) return 0;
  const std::size_t at = url.substr(0, url.find('/', hosts + 3)).rfind('@');
  return at != std::string_view::npos ? at : 0;
}

// Each NAME=VALUE of the URL, with the whole of it.
void each_option(std::string_view url,
                 const std::function<void(std::string_view, std::string_view)>& use) {
  const std::size_t question = url.find('?', end_of_user(url));
  if (question == std::string_view::npos) return;
  for (std::string_view rest = url.substr(question + 1); !rest.empty();) {
    const std::size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view one = rest.substr(0, end);
    const std::size_t equals = std::min(one.find('='), one.size());
    use(one.substr(0, equals), one.substr(std::min(equals + 1, one.size())));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

// The URL without what is secret in it.
std::string without_secrets(std::string_view url) {
  const std::size_t hosts = url.find("://") == std::string_view::npos ? 0 : url.find("://") + 3;
  const std::size_t at = end_of_user(url);
  const std::size_t question = std::min(url.find('?', at), url.size());
  const std::size_t colon = url.find(':', hosts);
  std::string plain(url.substr(0, question));
  if (colon < at) plain.erase(colon, at - colon);
  char before = '?';
  each_option(url, [&](std::string_view name, std::string_view value) {
    const std::string key = lower(name);
    if (key.contains("password") || key == "authmechanismproperties") return;
    plain += before;
    plain += name;
    plain += '=';
    plain += value;
    before = '&';
  });
  return plain;
}

struct UriFree {
  void operator()(mongoc_uri_t* uri) const { mongoc_uri_destroy(uri); }
};
using Uri = std::unique_ptr<mongoc_uri_t, UriFree>;

}  // namespace

Result<std::unique_ptr<Store>> open_mongodb(std::string_view url, const StoreOptions& options) {
  const std::string plain = without_secrets(url);
  const auto refuse = [&](const std::string& why) {
    return std::unexpected(Error{Code::kInvalidArgument, shown(plain) + ": " + why});
  };
  if (url.find('\0') != std::string_view::npos) return refuse("a URL has no NUL in it");
  std::optional<std::string> refusal;
  each_option(url, [&](std::string_view name, std::string_view value) {
    const auto* const row = std::ranges::find(kOptions, lower(name), &Option::name);
    if (row != kOptions.end() && value != row->wanted)
      refusal = std::string(name) + "=" + std::string(value) +
                " cannot be had: " + std::string(row->why) + "; leave it out";
  });
  if (refusal) return refuse(*refusal);
  if (Result<void> loaded = load_driver(); !loaded) return std::unexpected(loaded.error());

  bson_error_t error{};
  const Uri uri(mongoc_uri_new_with_error(std::string(url).c_str(), &error));
  if (uri == nullptr)
    // The driver's own words may have the password in them.
    return refuse("not a connection string of MongoDB" +
                  (plain == url ? ": " + std::string(error.message)
                                : "; look at it, and write what is not a letter or digit in the "
                                  "user and the password with %"));
  const char* const named = mongoc_uri_get_database(uri.get());
  const std::string database = named != nullptr ? named : "idmint";
  if (database == "admin" || database == "config" || database == "local")
    return refuse("the database " + database +
                  " is MongoDB's own; give the path of another, such as /idmint");
  if (database.find_first_of("/\\. \"$*<>:|?") != std::string::npos || database.size() > 63)
    return refuse("MongoDB allows no such name of a database: " + shown(database));

  std::string where;
  if (const char* const service = mongoc_uri_get_srv_hostname(uri.get())) where = service;
  for (const mongoc_host_list_t* host = mongoc_uri_get_hosts(uri.get()); host != nullptr;
       host = host->next)
    where += (where.empty() ? "" : ",") + std::string(host->host_and_port);
  where += "/" + database;

  const auto deadline = static_cast<std::int32_t>(
      std::clamp<std::int64_t>(options.deadline.count(), 1, std::int64_t{1} << 30));
  // The URL may make them shorter. Half for the choice of a server, so that its reason is known
  // when the call ends; and more for an answer, so that it is the call that ends first.
  for (const auto& [key, longest] :
       {std::pair{MONGOC_URI_SERVERSELECTIONTIMEOUTMS, std::max(deadline / 2, 1)},
        std::pair{MONGOC_URI_CONNECTTIMEOUTMS, deadline},
        std::pair{MONGOC_URI_SOCKETTIMEOUTMS, deadline + deadline / 4 + 1}}) {
    const std::int32_t wanted = mongoc_uri_get_option_as_int32(uri.get(), key, longest);
    mongoc_uri_set_option_as_int32(uri.get(), key,
                                   wanted > 0 ? std::min(wanted, longest) : longest);
  }
  const std::int32_t most =
      std::clamp(mongoc_uri_get_option_as_int32(uri.get(), MONGOC_URI_MAXPOOLSIZE, 100), 1, 1000);
  mongoc_uri_set_option_as_int32(uri.get(), MONGOC_URI_MAXPOOLSIZE, most);
  mongoc_uri_set_option_as_bool(uri.get(), MONGOC_URI_RETRYWRITES, false);  // we do, for longer
  mongoc_uri_set_appname(uri.get(), "idmint");

  mongoc_client_pool_t* const pool = mongoc_client_pool_new_with_error(uri.get(), &error);
  if (pool == nullptr)
    return std::unexpected(
        Error{Code::kUnavailable, "could not reach " + where + ": " + error.message});
  mongoc_client_pool_set_error_api(pool, MONGOC_ERROR_API_VERSION_2);
  auto workers = std::make_unique<Workers>(pool, database, where, static_cast<std::size_t>(most));
  auto store = std::make_unique<MongodbStore>(plain, where, std::move(workers),
                                              milliseconds{deadline}, options.access);
  if (Result<void> ok = store->open(options); !ok) return std::unexpected(ok.error());
  return store;
}

}  // namespace idmint::stores
