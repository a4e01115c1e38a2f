// What each server said of itself last, to the driver's monitors, and what that tells a caller who
// got no answer.
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

// What a URL asks for.
struct Wanted {
  std::string set;  // empty: whatever it is called
  bool alone;       // the one host of the URL, even where it is a member of a set
  bool tls;
};

// Threads may share it.
class Heard {
 public:
  explicit Heard(Wanted wanted) : wanted_(std::move(wanted)) {}

  // Has the pool report here, as long as it is there. REQUIRES: it has no clients yet.
  void listen(mongoc_client_pool_t* pool);
  // The driver calls these from C, which no exception may cross: a report for which there is no
  // memory is dropped. The next heartbeat brings another.
  void said(std::string_view host, const Document& hello) noexcept;
  void failed(std::string_view host, std::string_view why) noexcept;
  // The reply of a member to replSetGetConfig, of which electionTimeoutMillis counts.
  void configured(const Document& reply);
  // Whether a secondary answered lately.
  [[nodiscard]] bool can_be_asked() const;

  // Why a call that waited so long may have had no answer, and what to do; begins with "; ", or is
  // empty.
  [[nodiscard]] std::string advice(std::chrono::milliseconds waited) const;

  // While the pool is being destroyed, which begins with an endSessions: that was answered, or the
  // whole of it is over.
  void sessions_ended() noexcept;
  void wait_for_end_of_sessions();

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
    Role role = Role::kNone;  // kNone: it never answered
    std::string set{};
    std::string members{};
    std::string failure{};  // empty: the latest was an answer
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
