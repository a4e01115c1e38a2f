// Topology: the latest description of each server by the driver's monitors, and the advice that it
// gives to a caller without an answer.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mongo/bson.h"
#include "mongo/driver.h"

namespace idmint::stores::mongodb {

// The topology that a URL asks for.
struct Wanted {
  std::string set;  // empty: any name
  bool alone;       // the only host of the URL, even if it is a member of a set
  bool tls;
};

// Threads may share it.
class TopologyMonitor {
 public:
  explicit TopologyMonitor(Wanted wanted) : wanted_(std::move(wanted)) {}

  // Makes the pool report here for its lifetime. REQUIRES: it has no clients yet.
  void listen(mongoc_client_pool_t* pool);
  // The driver calls these from C, which no exception may cross: a report without memory is
  // dropped. The next heartbeat brings another one.
  void said(std::string_view host, const Document& hello) noexcept;
  void failed(std::string_view host, std::string_view why) noexcept;
  // The reply of a member to replSetGetConfig, for its electionTimeoutMillis.
  void configured(const Document& reply);
  // Whether a secondary answered recently.
  [[nodiscard]] bool can_be_asked() const;

  // Why a call that waited this long may have no answer, and what to do; begins with "; ", or is
  // empty.
  [[nodiscard]] std::string advice(std::chrono::milliseconds waited) const;

  // For the destruction of the pool, which begins with an endSessions: it was answered, or the
  // destruction has ended.
  void sessions_ended() noexcept;
  void wait_for_end_of_sessions(std::chrono::milliseconds most);
  // Whether no server failed its latest heartbeat.
  [[nodiscard]] bool all_well() const;

 private:
  enum class Role : std::uint8_t {
    kNone,
    kPrimary,
    kSecondary,
    kOther,
    kAlone,
    kRouter,
    kNotInitiated
  };
  struct Server {
    std::string host;
    Role role = Role::kNone;  // kNone: never answered
    std::string set{};
    std::string members{};
    std::string failure{};  // empty: the latest heartbeat succeeded
  };
  void hear(Server now, const Document& hello);
  Server& of(std::string_view host);

  const Wanted wanted_;
  mutable std::mutex mutex_;
  std::vector<Server> servers_;
  std::optional<std::chrono::milliseconds> election_timeout_;  // nothing: not known yet
  bool sessions_ended_ = false;
  std::condition_variable ended_;
};

}  // namespace idmint::stores::mongodb
