#include "engines/zookeeper/connection.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <limits>
#include <system_error>
#include <thread>
#include <utility>

#include "base/given_up.h"
#include "base/signals_blocked.h"
#include "base/text.h"

namespace idmint::stores::zookeeper {
namespace {

using std::chrono::milliseconds;

// What a server is asked to wait for a client that says nothing, before it forgets the session. It
// has bounds of its own. A session holds nothing, so nothing depends on it.
constexpr milliseconds kSessionTimeout{10'000};
// libzookeeper waits for a 60th of that time before it tries all addresses of a server again.
// A connect that is in none of the connecting states for a part of that was refused.
constexpr milliseconds kRefusedFor{60};
constexpr milliseconds kLook{10};
// Requests that have no answer yet. For each of them the library writes a byte into a pipe, which
// holds 64 KiB; a pipe that is full is a connection that broke.
constexpr std::size_t kMostUnanswered = 1000;

// Those of the library are variables in it, which a program that loads it has no access to.
constexpr std::int32_t kAllRights = 0x1f;
constexpr int kConnecting = 1;
constexpr int kAssociating = 2;
constexpr int kConnected = 3;
constexpr int kNotTried = 999;  // afterwards, without a connection, it is 0
constexpr int kAuthFailed = -113;
constexpr int kSessionEvent = -1;
// Codes of newer servers.
constexpr int kQuotaExceeded = -125;
constexpr int kThrottled = -127;

SteadyTime steady_now() { return std::chrono::steady_clock::now(); }

// Messages of the library, which knows no more than its errors say.
void drop_message(const char* /*message*/) {}

std::string said(int code) { return escaped(as_utf8(zerror(code))); }

// Whether nothing can be asked any more.
bool is_over(int code) {
  return code == ZCONNECTIONLOSS || code == ZSESSIONEXPIRED || code == ZOPERATIONTIMEOUT ||
         code == ZINVALIDSTATE || code == ZCLOSING;
}

// Why a request has no answer, or a refusal. `path`: what it was about.
Failure failure_of(int code, Kind kind, const std::string& path) {
  const auto refusal = [&](Code as, const std::string& advice, bool passing = false) {
    return Failure{.error = {as, path + ": " + said(code) + advice}, .passing = passing};
  };
  switch (code) {
    case ZNOAUTH:
      return refusal(Code::kPermissionDenied,
                     "; the node belongs to another user: look at USER:PASSWORD in the URL, and at "
                     "its rights with getAcl in zkCli.sh");
    case ZAUTHFAILED:
    case ZSESSIONCLOSEDREQUIRESASLAUTH:
      return refusal(Code::kUnauthenticated, "; look at USER:PASSWORD in the URL");
    case ZINVALIDACL:
      return refusal(Code::kUnauthenticated,
                     "; the servers do not know the scheme digest, or no user is given");
    case kQuotaExceeded:
      return refusal(Code::kResourceExhausted,
                     "; it is the quota of a node above it: raise it with setquota in zkCli.sh");
    case kThrottled:
    case ZSESSIONMOVED:
    case ZNOTREADONLY:
    case ZINVALIDSTATE:
      return refusal(Code::kUnavailable, "", true);
    case ZBADARGUMENTS:
      return refusal(Code::kInternal, "");
    default:
      return unanswered(kind,
                        code == ZCONNECTIONLOSS ? "the server closed the connection" : said(code));
  }
}

}  // namespace

Write check(std::string path, std::int32_t version) {
  return {.kind = Write::Kind::kCheck, .path = std::move(path), .version = version};
}
Write create(std::string path, std::string value) {
  return {.kind = Write::Kind::kCreate, .path = std::move(path), .value = std::move(value)};
}
Write set(std::string path, std::string value, std::int32_t version) {
  return {.kind = Write::Kind::kSet,
          .path = std::move(path),
          .value = std::move(value),
          .version = version};
}

Write remove(std::string path, std::int32_t version) {
  return {.kind = Write::Kind::kRemove, .path = std::move(path), .version = version};
}

// What the threads of the library write. It lives until the library has closed the handle.
struct Connection::State {
  // What was asked last, if the library may still write answers into it.
  std::shared_ptr<Batch> batch{};

  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  bool connected = false;
  bool ended = false;  // it was connected, or was refused, and is not any more
  bool refused = false;

  static void watch(zhandle_t* handle, int type, int state, const char* /*path*/, void* self) {
    if (type != kSessionEvent) return;
    auto& of = *static_cast<State*>(self);
    const std::lock_guard lock(of.mutex);
    if (state == kConnected) {
      of.connected = true;
      // The library would connect again by itself, perhaps to an ensemble that was restored
      // meanwhile, and send what is asked in between. With another id of the session it is refused
      // there, and says so.
      auto& id = const_cast<clientid_t&>(*zoo_client_id(handle));
      id.client_id = -1;
      std::memset(id.passwd, 0xff, sizeof id.passwd);
    } else if (of.connected || state < 0) {
      of.ended = true;
      of.refused = of.refused || state == kAuthFailed;
    }
    of.changed.notify_all();
  }
};

// What the library keeps of one request until its answer is there.
struct Connection::Slot {
  Batch* batch = nullptr;  // null: it was not sent, or is answered
  bool sent = false;
  int code = ZOK;
  bool answered = false;
  Node node{};
  std::vector<std::string> names{};
  // Of a step: what came of each operation, of which write that is, and the state of what the
  // writes have set.
  std::vector<zoo_op_result_t> results{};
  std::vector<std::size_t> writes{};
  std::vector<::Stat> stats{};
};

// The answers to what was sent together. The library writes into it until each has come, or until
// it has closed the handle, so the State of the connection keeps it until then.
class Connection::Batch : public std::enable_shared_from_this<Batch> {
 public:
  // Sends one request: begin(slot) gives it to the library, and returns its code. It waits first
  // while many have no answer. Once that took until `until`, neither it nor a later one is sent.
  template <class Begin>
  Slot& send(SteadyTime until, const Begin& begin) {
    Slot& slot = slots_.emplace_back();
    if (!has_room(until)) return slot;
    slot.batch = this;
    slot.sent = true;
    {
      const std::lock_guard lock(mutex_);
      ++left_;
    }
    if (const int code = begin(slot); code != ZOK) {
      refused_ = true;
      end(slot, code);
    }
    return slot;
  }

  // False: not all was sent and answered by then.
  bool wait(SteadyTime until) { return !late_ && wait_for(0, until); }
  [[nodiscard]] bool is_answered(const Slot& slot) {
    const std::lock_guard lock(mutex_);
    return slot.answered;
  }
  // Whether the library refused a request. It may say so later once more.
  [[nodiscard]] bool was_refused() const { return refused_; }

  static void on_node(int code, const char* value, int size, const ::Stat* stat, const void* data) {
    Slot& slot = slot_of(data);
    if (code == ZOK) {
      if (value != nullptr && size > 0)
        slot.node.value.assign(value, static_cast<std::size_t>(size));
      slot.node.version = stat->version;
      slot.node.created = stat->czxid;
      slot.node.made_at = stat->ctime;
      slot.node.changed = stat->mzxid;
      slot.node.children = stat->numChildren;
    }
    end(slot, code);
  }
  static void on_names(int code, const ::String_vector* names, const void* data) {
    Slot& slot = slot_of(data);
    if (code == ZOK)
      for (std::int32_t i = 0; i < names->count; ++i) slot.names.emplace_back(names->data[i]);
    end(slot, code);
  }
  static void on_text(int code, const char* /*text*/, const void* data) {
    end(slot_of(data), code);
  }
  static void on_end(int code, const void* data) { end(slot_of(data), code); }

 private:
  static Slot& slot_of(const void* data) { return *static_cast<Slot*>(const_cast<void*>(data)); }
  // The library may end one twice: it refuses a request that it has noted already.
  static void end(Slot& slot, int code) {
    Batch* const of = std::exchange(slot.batch, nullptr);
    if (of == nullptr) return;
    const std::shared_ptr<Batch> batch = of->shared_from_this();
    const std::lock_guard lock(batch->mutex_);
    slot.code = code;
    slot.answered = true;
    if (--batch->left_ <= batch->wanted_) batch->fewer_.notify_all();
  }

  bool has_room(SteadyTime until) {
    if (late_) return false;
    {
      const std::lock_guard lock(mutex_);
      if (left_ < kMostUnanswered) return true;
    }
    late_ = !wait_for(kMostUnanswered / 2, until);
    return !late_;
  }
  // False: more than `most` have no answer by then.
  bool wait_for(std::size_t most, SteadyTime until) {
    std::unique_lock lock(mutex_);
    wanted_ = most;
    const auto few = [&] { return left_ <= most; };
    while (!few()) {
      if (steady_now() >= until || MayBeGivenUp::happened()) return false;
      SteadyTime next = until;
      if (MayBeGivenUp::applies()) next = std::min(next, steady_now() + milliseconds{200});
      fewer_.wait_until(lock, next, few);
    }
    return true;
  }

  bool late_ = false;     // not all was sent
  bool refused_ = false;  // by the library
  std::mutex mutex_;      // guards what follows, and what is answered in each slot
  std::condition_variable fewer_;
  std::size_t left_ = 0;    // that have no answer
  std::size_t wanted_ = 0;  // so many left are waited for
  std::deque<Slot> slots_;
};

namespace {

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> latest{0};
  return ++latest;
}

// Who may do what with a node that is made.
class Rights {
 public:
  explicit Rights(bool only_creator) {
    acl_.perms = kAllRights;
    acl_.id.scheme = only_creator ? auth_ : world_;
    acl_.id.id = only_creator ? nobody_ : anyone_;
  }
  [[nodiscard]] const ACL_vector* get() const { return &all_; }

 private:
  char world_[6] = "world";
  char anyone_[7] = "anyone";
  char auth_[5] = "auth";
  char nobody_[1] = "";
  ::ACL acl_{};
  ACL_vector all_{.count = 1, .data = &acl_};
};

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

// All addresses of "HOST:PORT", in numbers, such as "10.0.0.1:2181,10.0.0.2:2181": a thread of the
// library looks a name up again and again.
std::expected<std::string, Failure> addresses_of(const std::string& server) {
  const std::size_t colon = server.rfind(':');
  const std::string host = server.substr(0, colon);
  const addrinfo wanted{.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV,
                        .ai_family = AF_UNSPEC,
                        .ai_socktype = SOCK_STREAM,
                        .ai_protocol = 0,
                        .ai_addrlen = 0,
                        .ai_addr = nullptr,
                        .ai_canonname = nullptr,
                        .ai_next = nullptr};
  addrinfo* raw = nullptr;
  int unknown = ::getaddrinfo(host.c_str(), server.c_str() + colon + 1, &wanted, &raw);
  const std::unique_ptr<addrinfo, FreeAddresses> found(raw);
  std::string all;
  for (const addrinfo* each = found.get(); each != nullptr && unknown == 0; each = each->ai_next) {
    if (each->ai_family != AF_INET && each->ai_family != AF_INET6) continue;
    std::array<char, NI_MAXHOST> address{};
    std::array<char, NI_MAXSERV> port{};
    unknown = ::getnameinfo(each->ai_addr, each->ai_addrlen, address.data(), address.size(),
                            port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV);
    all += (all.empty() ? "" : ",") + std::string(address.data()) + ":" + port.data();
  }
  if (unknown == 0 && !all.empty()) return all;
  const std::string why = unknown != 0 ? ::gai_strerror(unknown) : "it has no address";
  return std::unexpected(Failure{
      .error = {Code::kUnavailable, "the host " + shown(host) + " could not be looked up (" +
                                        escaped(as_utf8(why)) + "); look at how it is spelled"},
      .passing = true});
}

int give(const std::string& text) { return static_cast<int>(text.size()); }

// libzookeeper ends the process if the system starts none of its two threads.
Result<void> can_start_two_threads() {
  try {
    const std::jthread one([] {});
    const std::jthread two([] {});
    return {};
  } catch (const std::system_error& error) {
    return fail(Code::kResourceExhausted,
                std::string("the system starts no thread for a connection (") + error.what() + ")");
  }
}

}  // namespace

// What the answer to a step says of it.
Done Connection::fate_of(const Step& step, const Slot& slot) {
  if (slot.code == ZOK) {
    Done done{.fate = Done::Fate::kDone};
    for (const ::Stat& stat : slot.stats) done.transaction = std::max(done.transaction, stat.mzxid);
    return done;
  }
  // Those before the one that failed have no error, and those behind it another one.
  const auto at = std::ranges::find(slot.results, slot.code, &zoo_op_result_t::err);
  const std::size_t i = at == slot.results.end()
                            ? 0
                            : slot.writes[static_cast<std::size_t>(at - slot.results.begin())];
  if (at != slot.results.end()) {
    const bool is_create = step[i].kind == Write::Kind::kCreate;
    if (slot.code == ZBADVERSION || slot.code == (is_create ? ZNODEEXISTS : ZNONODE))
      return {.fate = Done::Fate::kRefused, .at = i};
    if (slot.code == ZNONODE)
      return {.fate = Done::Fate::kNotDone,
              .failure = Failure{.error = {Code::kDataLoss,
                                           step[i].path + ": the folder of the node is missing; it "
                                                          "was there before"},
                                 .reason = std::string(kNoFolder)}};
  }
  Failure failure = failure_of(slot.code, Kind::kWrite, step[i].path);
  const bool unknown = failure.error.code == Code::kUnknown;
  return {.fate = unknown ? Done::Fate::kPerhaps : Done::Fate::kNotDone,
          .failure = std::move(failure)};
}

void Closings::begin() {
  const std::lock_guard lock(mutex_);
  ++open_;
}

void Closings::end() {
  const std::lock_guard lock(mutex_);
  if (--open_ == 0) none_.notify_all();
}

void Closings::wait(SteadyTime until) {
  std::unique_lock lock(mutex_);
  none_.wait_until(lock, until, [&] { return open_ == 0; });
}

Connection::Connection(const Address& address, std::shared_ptr<Closings> closings)
    : address_(address),
      closings_(std::move(closings)),
      state_(std::make_shared<State>()),
      number_(next_number()) {}

std::expected<std::unique_ptr<Connection>, Failure> Connection::open(
    const Address& address, const std::string& server, SteadyTime until,
    std::shared_ptr<Closings> closings) {
  std::unique_ptr<Connection> connection(new Connection(address, std::move(closings)));
  auto connected = connection->connect(server, until);
  if (connected && !address.credentials.empty()) connected = connection->log_in(until);
  if (!connected) {
    connection->give_up();
    return std::unexpected(std::move(connected.error()));
  }
  return connection;
}

// The library says good-bye and waits for the answer, up to 4.5 s, which no call is to pay for.
// Only where the system starts no thread the caller waits: the handle has two that are then free
// again.
Connection::~Connection() {
  if (handle_ == nullptr) return;
  closings_->begin();
  const auto close = [state = state_, closings = closings_, handle = handle_] {
    zookeeper_close(handle);
    closings->end();
  };
  const SignalsBlocked in_the_thread;
  try {
    std::thread(close).detach();
  } catch (const std::system_error&) {
    close();
  }
}

bool Connection::is_usable() const {
  const std::lock_guard lock(state_->mutex);
  return !given_up_ && !state_->ended;
}

std::expected<void, Failure> Connection::connect(const std::string& server, SteadyTime until) {
  const Failure late{.error = {Code::kUnavailable, "the server does not answer"}, .passing = true};
  if (steady_now() >= until) return std::unexpected(late);
  const auto addresses = addresses_of(server);
  if (!addresses) return std::unexpected(addresses.error());
  if (Result<void> threads = can_start_two_threads(); !threads)
    return std::unexpected(Failure{.error = std::move(threads.error()), .passing = true});
  {
    const SignalsBlocked in_its_threads;
    handle_ =
        zookeeper_init2(addresses->c_str(), State::watch, static_cast<int>(kSessionTimeout.count()),
                        nullptr, state_.get(), ZOO_NO_LOG_CLIENTENV, drop_message);
  }
  if (handle_ == nullptr)
    return std::unexpected(Failure{
        .error = {Code::kUnavailable, "libzookeeper cannot begin a connection to " + *addresses},
        .passing = true});
  zoo_set_servers_resolution_delay(handle_, -1);
  std::unique_lock lock(state_->mutex);
  for (SteadyTime tried = steady_now(); !state_->connected && !state_->ended;) {
    const SteadyTime now = steady_now();
    if (now >= until || MayBeGivenUp::happened()) return std::unexpected(late);
    const int state = zoo_state(handle_);
    if (state == kNotTried || state == kConnecting || state == kAssociating || state == kConnected)
      tried = now;
    if (now - tried >= kRefusedFor)
      return std::unexpected(Failure{
          .error = {Code::kUnavailable,
                    "the server refuses the connection, or closes it: it does not run, has no "
                    "quorum, or has as many of this host as it takes (maxClientCnxns)"},
          .passing = true});
    state_->changed.wait_until(lock, std::min(until, now + kLook));
  }
  if (state_->ended)
    return std::unexpected(
        Failure{.error = {state_->refused ? Code::kUnauthenticated : Code::kUnavailable,
                          "the server closed the connection"},
                .passing = !state_->refused});
  return {};
}

std::expected<void, Failure> Connection::log_in(SteadyTime until) {
  const auto batch = std::make_shared<Batch>();
  state_->batch = batch;
  const auto& slot = batch->send(until, [&](Slot& to) {
    return zoo_add_auth(handle_, "digest", address_.credentials.data(), give(address_.credentials),
                        Batch::on_end, &to);
  });
  if (!batch->wait(until)) return std::unexpected(late(Kind::kRead));
  if (slot.code == ZOK) {
    state_->batch.reset();
    return {};
  }
  return std::unexpected(failure_of(slot.code, Kind::kRead, address_.root));
}

std::expected<Answer, Failure> Connection::ask(const Request& request, SteadyTime until,
                                               std::vector<Done>* steps) {
  until = std::min(until, answer_by_);
  if (steady_now() >= until)
    return std::unexpected(
        Failure{.error = {Code::kUnavailable, "no time was left to ask"}, .passing = true});
  if (!is_usable())
    return std::unexpected(Failure{
        .error = {Code::kUnavailable, "the server closed the connection"}, .passing = true});
  // Whatever keeps this from its end: the library may write into the batch until it is closed.
  given_up_ = true;
  const auto batch = std::make_shared<Batch>();
  state_->batch = batch;
  const auto send = [&](const auto& begin) { return &batch->send(until, begin); };
  const Rights rights(!address_.credentials.empty());
  std::vector<Slot*> folders;
  std::vector<Slot*> stepped;
  std::vector<Slot*> nodes;
  std::vector<Slot*> lists;
  for (const std::string& path : request.folders)
    folders.push_back(send([&](Slot& to) {
      return zoo_acreate(handle_, path.c_str(), "", 0, rights.get(), 0, Batch::on_text, &to);
    }));
  Slot* synced = nullptr;
  if (request.sync)
    synced = send(
        [&](Slot& to) { return zoo_async(handle_, address_.root.c_str(), Batch::on_text, &to); });
  for (const Step& step : request.steps)
    stepped.push_back(send([&](Slot& to) {
      std::vector<zoo_op_t> operations;
      to.stats.resize(step.size());
      for (std::size_t i = 0; i < step.size(); ++i) {
        const Write& write = step[i];
        const auto add = [&] {
          to.writes.push_back(i);
          return &operations.emplace_back();
        };
        if (write.kind == Write::Kind::kCheck)
          zoo_check_op_init(add(), write.path.c_str(), write.version);
        else if (write.kind == Write::Kind::kSet && !renews(write))
          zoo_set_op_init(add(), write.path.c_str(), write.value.data(), give(write.value),
                          write.version, &to.stats[i]);
        if (renews(write) || write.kind == Write::Kind::kRemove)
          zoo_delete_op_init(add(), write.path.c_str(), write.version);
        if (renews(write) || write.kind == Write::Kind::kCreate)
          zoo_create_op_init(add(), write.path.c_str(), write.value.data(), give(write.value),
                             rights.get(), 0, nullptr, 0);
      }
      to.results.resize(operations.size());
      return zoo_amulti(handle_, static_cast<int>(operations.size()), operations.data(),
                        to.results.data(), Batch::on_end, &to);
    }));
  for (const std::string& path : request.reads)
    nodes.push_back(
        send([&](Slot& to) { return zoo_aget(handle_, path.c_str(), 0, Batch::on_node, &to); }));
  for (const std::string& path : request.lists)
    lists.push_back(send([&](Slot& to) {
      return zoo_aget_children(handle_, path.c_str(), 0, Batch::on_names, &to);
    }));
  const bool whole = batch->wait(until);
  given_up_ = !whole || batch->was_refused();
  if (!given_up_) state_->batch.reset();

  Answer answer;
  for (std::size_t i = 0; i < stepped.size(); ++i) {
    const Slot& slot = *stepped[i];
    if (!slot.sent) {
      answer.steps.push_back({.fate = Done::Fate::kNotDone, .failure = late(Kind::kRead)});
      continue;
    }
    if (!batch->is_answered(slot)) {
      answer.steps.push_back({.failure = late(Kind::kWrite)});
      continue;
    }
    answer.steps.push_back(fate_of(request.steps[i], slot));
    given_up_ = given_up_ || is_over(slot.code);
  }
  if (steps != nullptr) *steps = answer.steps;
  if (!whole) return std::unexpected(late(Kind::kRead));
  const auto failed = [&](int code, const std::string& path) {
    given_up_ = given_up_ || is_over(code);
    Failure failure = failure_of(code, Kind::kRead, path);
    // Another server may do what this one cannot.
    if (failure.passing) given_up_ = true;
    return std::unexpected(std::move(failure));
  };
  for (std::size_t i = 0; i < folders.size(); ++i)
    if (const int code = folders[i]->code; code != ZOK && code != ZNODEEXISTS)
      return failed(code, request.folders[i]);
  if (synced != nullptr && synced->code != ZOK) return failed(synced->code, address_.root);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Slot& slot = *nodes[i];
    if (slot.code != ZOK && slot.code != ZNONODE) return failed(slot.code, request.reads[i]);
    answer.nodes.push_back(slot.code == ZOK ? std::optional(std::move(slot.node)) : std::nullopt);
  }
  for (std::size_t i = 0; i < lists.size(); ++i) {
    Slot& slot = *lists[i];
    if (slot.code != ZOK && slot.code != ZNONODE) return failed(slot.code, request.lists[i]);
    answer.lists.push_back(slot.code == ZOK ? std::optional(std::move(slot.names)) : std::nullopt);
  }
  return answer;
}

}  // namespace idmint::stores::zookeeper
