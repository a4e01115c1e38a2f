#include "engines/mongodb/topology_monitor.h"

#include <algorithm>
#include <memory>
#include <new>
#include <string_view>

#include "base/figures.h"
#include "store/backend.h"

namespace idmint::stores::mongodb {

namespace {

// The default electionTimeoutMillis of a set, and the additional time of an election.
constexpr std::chrono::milliseconds kElectionTimeout = std::chrono::seconds{10};
constexpr std::chrono::milliseconds kVote = std::chrono::seconds{2};

bool ends_sessions(std::string_view command) { return command == "endSessions"; }

// Drops the report without memory.
template <class Report>
void report(Report take) noexcept {
  try {
    take();
  } catch (const std::bad_alloc&) {
    return;
  }
}

}  // namespace

void TopologyMonitor::listen(mongoc_client_pool_t* pool) {
  struct Free {
    void operator()(mongoc_apm_callbacks_t* callbacks) const {
      mongoc_apm_callbacks_destroy(callbacks);
    }
  };
  const std::unique_ptr<mongoc_apm_callbacks_t, Free> callbacks(mongoc_apm_callbacks_new());
  mongoc_apm_set_server_heartbeat_succeeded_cb(
      callbacks.get(), [](const mongoc_apm_server_heartbeat_succeeded_t* event) noexcept {
        static_cast<TopologyMonitor*>(mongoc_apm_server_heartbeat_succeeded_get_context(event))
            ->said(mongoc_apm_server_heartbeat_succeeded_get_host(event)->host_and_port,
                   Document::of(mongoc_apm_server_heartbeat_succeeded_get_reply(event)));
      });
  mongoc_apm_set_server_heartbeat_failed_cb(
      callbacks.get(), [](const mongoc_apm_server_heartbeat_failed_t* event) noexcept {
        bson_error_t error{};
        mongoc_apm_server_heartbeat_failed_get_error(event, &error);
        static_cast<TopologyMonitor*>(mongoc_apm_server_heartbeat_failed_get_context(event))
            ->failed(mongoc_apm_server_heartbeat_failed_get_host(event)->host_and_port,
                     error.message);
      });
  mongoc_apm_set_command_succeeded_cb(
      callbacks.get(), [](const mongoc_apm_command_succeeded_t* event) noexcept {
        if (ends_sessions(mongoc_apm_command_succeeded_get_command_name(event)))
          static_cast<TopologyMonitor*>(mongoc_apm_command_succeeded_get_context(event))
              ->sessions_ended();
      });
  mongoc_apm_set_command_failed_cb(
      callbacks.get(), [](const mongoc_apm_command_failed_t* event) noexcept {
        if (ends_sessions(mongoc_apm_command_failed_get_command_name(event)))
          static_cast<TopologyMonitor*>(mongoc_apm_command_failed_get_context(event))
              ->sessions_ended();
      });
  mongoc_client_pool_set_apm_callbacks(pool, callbacks.get(), this);
}

void TopologyMonitor::configured(const Document& reply) {
  const std::lock_guard lock(mutex_);
  const Document settings = reply.document("config").document("settings");
  if (const std::int64_t timeout = settings.number("electionTimeoutMillis"); timeout > 0)
    election_timeout_ = std::chrono::milliseconds{timeout};
}

bool TopologyMonitor::can_be_asked() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(servers_, [](const Server& server) {
    return server.role == Role::kSecondary && server.failure.empty();
  });
}

TopologyMonitor::Server& TopologyMonitor::of(std::string_view host) {
  const auto found = std::ranges::find(servers_, host, &Server::host);
  return found != servers_.end() ? *found : servers_.emplace_back(Server{std::string(host)});
}

void TopologyMonitor::said(std::string_view host, const Document& hello) noexcept {
  report([&] { hear(Server{std::string(host)}, hello); });
}

void TopologyMonitor::hear(Server now, const Document& hello) {
  now.set = hello.bytes("setName").value_or("");
  hello.each_text("hosts", [&](std::string_view member) {
    now.members += (now.members.empty() ? "" : ",") + std::string(member);
  });
  const bool primary =
      hello.boolean("isWritablePrimary").value_or(hello.boolean("ismaster").value_or(false));
  now.role = hello.bytes("msg") == "isdbgrid"                ? Role::kRouter
             : hello.boolean("isreplicaset").value_or(false) ? Role::kNotInitiated
             : now.set.empty()                               ? Role::kAlone
             : primary                                       ? Role::kPrimary
             : hello.boolean("secondary").value_or(false)    ? Role::kSecondary
                                                             : Role::kOther;
  std::vector<std::string> members{now.host};
  for (const char* const list : {"hosts", "passives", "arbiters"})
    hello.each_text(list, [&](std::string_view member) { members.emplace_back(member); });
  const std::lock_guard lock(mutex_);
  // Like the driver: servers that the URL names differently than the set are not monitored any
  // more.
  if (now.role == Role::kPrimary)
    std::erase_if(servers_, [&](const Server& server) {
      return std::ranges::find(members, server.host) == members.end();
    });
  Server& server = of(now.host);
  server = std::move(now);
}

void TopologyMonitor::failed(std::string_view host, std::string_view why) noexcept {
  report([&] {
    const std::lock_guard lock(mutex_);
    of(host).failure = why.empty() ? "it failed" : why;
  });
}

void TopologyMonitor::sessions_ended() noexcept {
  {
    const std::lock_guard lock(mutex_);
    sessions_ended_ = true;
  }
  ended_.notify_all();
}

void TopologyMonitor::wait_for_end_of_sessions(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  ended_.wait_for(lock, most, [this] { return sessions_ended_; });
}

bool TopologyMonitor::all_well() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(servers_, [](const Server& server) { return server.failure.empty(); });
}

std::string TopologyMonitor::advice(std::chrono::milliseconds waited) const {
  const std::lock_guard lock(mutex_);
  const auto first = [&](auto is) {
    const auto found = std::ranges::find_if(servers_, is);
    return found != servers_.end() ? &*found : nullptr;
  };
  const auto answered = [](const Server& server) { return server.role != Role::kNone; };
  const auto wanted = [&](const Server& server) {
    return !server.set.empty() && (wanted_.set.empty() || server.set == wanted_.set);
  };
  if (first(answered) == nullptr) {
    const auto closed = [](const Server& server) {
      return server.failure.contains("closed") || server.failure.contains("Failed to read");
    };
    if (wanted_.tls || first(closed) == nullptr) return "";
    return "; a server that wants TLS closes what comes without it: tls=true in the URL";
  }
  if (first(wanted) == nullptr) {
    // Beside a set, it would be a member that lost its data, and must not become a second set.
    if (const Server* const server =
            first([](const Server& each) { return each.role == Role::kNotInitiated; }))
      return "; " + server->host +
             " waits for its set to be made: rs.initiate() in mongosh, once, on one member";
    const Server& server = *first(answered);
    if (wanted_.set.empty()) return "";
    const std::string says = ", and the URL says replicaSet=" + wanted_.set;
    if (server.role == Role::kRouter)
      return "; " + server.host + " is a router of a sharded cluster" + says;
    if (server.role == Role::kAlone)
      return "; " + server.host + " is a standalone server, of no set" + says + ": leave it out";
    return "; " + server.host + " is of the set " + shown(server.set) + says;
  }
  if (const Server* const server = first(wanted); wanted_.alone) {
    if (server->role == Role::kPrimary) return "";
    return "; " + server->host + " is " +
           (server->role == Role::kSecondary ? "a secondary" : "not the primary") +
           " of its set, of which only the primary writes: name the set in the URL, mongodb://" +
           server->members + "/DATABASE?replicaSet=" + server->set;
  }
  const auto leads = [&](const Server& server) {
    return server.role == Role::kPrimary && server.failure.empty() && wanted(server);
  };
  const std::chrono::milliseconds timeout = election_timeout_.value_or(kElectionTimeout);
  if (first(leads) != nullptr || waited >= timeout + kVote) return "";
  return "; after a failure it takes about " + print_duration(timeout + kVote) +
         " to elect a primary, as electionTimeoutMillis is " + print_duration(timeout) +
         (election_timeout_ ? "" : " unless rs.conf() says otherwise") + ", and this call waited " +
         print_duration(waited);
}

}  // namespace idmint::stores::mongodb
