// Sessions: the connections of a store whose database is a server.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <expected>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/fork_wiped.h"
#include "base/given_up.h"
#include "base/outcome.h"
#include "idmint/clock.h"
#include "idmint/result.h"
#include "idmint/store.h"
#include "store/backend.h"
#include "store/failure.h"

namespace idmint::stores {

// Every call has a session to itself while it lasts. There are as many as there were calls at once,
// up to kMost, and they stay open. Any thread may call any method at any time.
//
// A server that let a call wait until its time was over is asked last for a while.
//
// A Session is moved, and has
//   bool is_usable()   false: nothing more can be sent on its connection
// It may have
//   void answer_by(SteadyTime)   what is asked on it from now on has no answer after that time,
//                                whatever its own deadline. Without it a call has one server.
template <class Session>
class Sessions {
 public:
  using Opened = std::expected<Session, Failure>;
  static constexpr std::size_t kMost = 8;
  static constexpr std::chrono::seconds kAvoided{30};

  // `url`, without passwords, is for messages. A call takes `deadline` at most. connect(i, until)
  // logs in to server i of `servers`.
  Sessions(std::string url, std::chrono::milliseconds deadline, Access access, std::size_t servers,
           std::function<Opened(std::size_t server, SteadyTime until)> connect)
      : url_(std::move(url)),
        deadline_(deadline),
        access_(access),
        servers_(servers),
        connect_(std::move(connect)) {}
  // REQUIRES: no call is under way, unless this is a child of fork().
  ~Sessions() {
    // The connections are the parent's, whose threads may hold the lock, or wait for it.
    if (!owner_) static_cast<void>(state_.release());
  }
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  [[nodiscard]] const std::string& url() const noexcept { return url_; }
  [[nodiscard]] std::chrono::milliseconds deadline() const noexcept { return deadline_; }
  [[nodiscard]] Access access() const noexcept { return access_; }

  // When a call that begins now must have answered; at the latest at `by`. kFailedPrecondition: in
  // a child of fork(), where run() may not be called. enter() also: kPermissionDenied, where the
  // store was opened to read.
  [[nodiscard]] Result<SteadyTime> enter_to_read(SteadyTime by = SteadyTime::max()) const {
    if (!owner_) return std::unexpected(inherited_handle(url_));
    return std::min(by, now() + deadline_);
  }
  [[nodiscard]] Result<SteadyTime> enter(SteadyTime by = SteadyTime::max()) const {
    if (access_ == Access::kReadOnly) return std::unexpected(read_only_handle(url_));
    return enter_to_read(by);
  }

  // Calls attempt(Session&), which returns std::expected<T, Failure>, until it succeeds or fails
  // for good; by `until`. `kind`: whether its errors say that nothing was changed, as those of a
  // kRead do not. `doing`: for messages, such as "read".
  //
  // A read that has no answer from one server in its share of the time is sent to another one. So
  // is an attempt that `cannot_come_twice`: of all that were sent, one is applied at most, whenever
  // that is. If the last one fails, the error does not promise that none was.
  template <class Attempt>
  auto run(Kind kind, SteadyTime until, std::string_view doing, const Attempt& attempt,
           bool cannot_come_twice = false)
      -> Result<typename std::invoke_result_t<const Attempt&, Session&>::value_type> {
    const SteadyTime begin = now();
    if (until <= begin)
      return std::unexpected(
          unchanged(kind, {Code::kUnavailable, "could not " + std::string(doing) + " " + url_ +
                                                   ": no time was left to ask; ask again, for "
                                                   "longer"}));
    bool sent = false;            // an attempt may have been applied
    std::size_t left = servers_;  // servers that are not known to stand still
    for (int attempts = 0;; ++attempts) {
      std::expected<Lent, Failure> lent = borrow(until);
      if (!lent) {
        lent.error().begun |= sent;
        return failed(kind, doing, std::move(lent.error()), begin, until);
      }
      const std::size_t server = lent->server;
      SteadyTime by = until;
      if constexpr (requires { lent->session.answer_by(by); }) {
        if ((kind == Kind::kRead || cannot_come_twice) && left > 1) by = share_of(until, left);
        lent->session.answer_by(by);
      }
      auto done = attempt(lent->session);
      give_back(*std::move(lent));
      if (done) return *std::move(done);
      Failure& failure = done.error();
      const bool stands_still = now() >= by;
      if (stands_still) avoid(server);
      if (stands_still && left > 1) --left;
      bool again = failure.passing;
      if (cannot_come_twice && servers_ > 1 && outcome_unknown(failure.error.code))
        again = sent = true;
      failure.begun |= sent;
      const SteadyTime next =
          now() + (stands_still ? SteadyTime::duration{} : pause_before(attempts));
      if (!again || next >= until || MayBeGivenUp::happened())
        return failed(kind, doing, std::move(failure), begin, until);
      std::this_thread::sleep_until(next);
    }
  }

 private:
  static SteadyTime now() { return std::chrono::steady_clock::now(); }
  static std::chrono::milliseconds pause_before(int attempt) {
    return std::chrono::milliseconds{std::min(10 << std::min(attempt, 5), 200)};
  }

  // A session that a call has to itself, and which server is at its other end.
  struct Lent {
    Session session;
    std::size_t server;
  };

  static SteadyTime share_of(SteadyTime until, std::size_t parts) {
    const SteadyTime begin = now();
    return begin + (until - begin) / static_cast<SteadyTime::rep>(parts);
  }

  void avoid(std::size_t server) {
    const std::lock_guard lock(state_->mutex);
    state_->avoided_until.resize(servers_);
    state_->avoided_until[server] = now() + kAvoided;
  }
  // REQUIRES: the lock.
  [[nodiscard]] bool is_avoided(std::size_t server) const {
    return server < state_->avoided_until.size() && now() < state_->avoided_until[server];
  }
  // All servers, those that are avoided last.
  std::vector<std::size_t> in_order() {
    std::vector<std::size_t> all;
    const std::lock_guard lock(state_->mutex);
    for (const bool avoided : {false, true})
      for (std::size_t server = 0; server < servers_; ++server)
        if (is_avoided(server) == avoided) all.push_back(server);
    return all;
  }
  // REQUIRES: the lock. Whether another server would be asked first.
  [[nodiscard]] bool has_a_better_one(std::size_t server) const {
    if (!is_avoided(server)) return false;
    for (std::size_t other = 0; other < servers_; ++other)
      if (!is_avoided(other)) return true;
    return false;
  }

  // Each server has an equal part of the time that the ones before it left. If none will do, the
  // answer is the one that will stay so, or that of the first in the URL.
  std::expected<Lent, Failure> connect_to_any(SteadyTime until) {
    std::optional<Failure> failure;
    std::size_t failed = 0;
    std::size_t left = servers_;
    for (const std::size_t server : in_order()) {
      const SteadyTime by = share_of(until, left--);
      Opened session = connect_(server, by);
      if (session) return Lent{*std::move(session), server};
      if (now() >= by) avoid(server);
      const bool passing = session.error().passing;
      if (!failure || (passing == failure->passing ? server < failed : !passing)) {
        failure = std::move(session.error());
        failed = server;
      }
    }
    return std::unexpected(std::move(failure).value_or(Failure{}));
  }

  std::expected<Lent, Failure> borrow(SteadyTime until) {
    std::optional<Failure> failure;
    std::unique_lock lock(state_->mutex);
    for (int attempt = 0;; ++attempt) {
      while (!state_->idle.empty()) {
        std::optional<Lent> lent(std::move(state_->idle.back()));
        state_->idle.pop_back();
        const bool is_worse = has_a_better_one(lent->server);
        lock.unlock();
        if (!is_worse && lent->session.is_usable()) return *std::move(lent);
        lent.reset();
        lock.lock();
        make_room();
      }
      if (state_->open < kMost) {
        ++state_->open;
        lock.unlock();
        std::expected<Lent, Failure> lent = connect_to_any(until);
        if (lent) return lent;
        lock.lock();
        make_room();
        if (!lent.error().passing) return lent;
        failure = std::move(lent.error());
        state_->freed.wait_until(lock, std::min(until, now() + pause_before(attempt)),
                                 [&] { return !state_->idle.empty(); });
      } else {
        state_->freed.wait_until(lock, until,
                                 [&] { return !state_->idle.empty() || state_->open < kMost; });
      }
      if (now() < until && !MayBeGivenUp::happened()) continue;
      // The one who was told of a session leaves without it.
      if (!state_->idle.empty() || state_->open < kMost) state_->freed.notify_one();
      if (failure) return std::unexpected(*std::move(failure));
      return std::unexpected(Failure{.error = {Code::kUnavailable, "all connections are in use"}});
    }
  }

  // One that was open is not. All who wait look again, as some of them wait for one that is idle.
  void make_room() {
    --state_->open;
    state_->freed.notify_all();
  }

  void give_back(Lent lent) {
    std::optional<Lent> usable;
    if (lent.session.is_usable()) usable = std::move(lent);
    const std::lock_guard lock(state_->mutex);
    if (!usable) return make_room();
    state_->idle.push_back(*std::move(usable));
    state_->freed.notify_one();
  }

  // The error of a call that was not applied, which says so.
  static Error unchanged(Kind kind, Error error) {
    if (kind != Kind::kRead) add_outcome(error, kNothingChanged);
    return error;
  }

  // The failure as the error of a call that began at `begin`.
  std::unexpected<Error> failed(Kind kind, std::string_view doing, Failure failure,
                                SteadyTime begin, SteadyTime until) const {
    Error& error = failure.error;
    if (error.place == url_) return std::unexpected(std::move(error));
    std::string context = "could not " + std::string(doing) + " " + url_;
    if (now() >= until)
      context +=
          ": not within " +
          std::to_string(std::chrono::ceil<std::chrono::milliseconds>(until - begin).count()) +
          " ms";
    error = in_context(context, std::move(error));
    if (failure.begun) return std::unexpected(after_a_write(std::move(error)));
    if (doing == "open" && error.code == Code::kUnavailable)
      add_clause(error.what, "look whether the server runs, and whether the URL names it");
    if (was_not_applied(error.code)) error = unchanged(kind, std::move(error));
    return std::unexpected(std::move(error));
  }

  const OwnedByProcess owner_;
  const std::string url_;
  const std::chrono::milliseconds deadline_;
  const Access access_;
  const std::size_t servers_;
  const std::function<Opened(std::size_t server, SteadyTime until)> connect_;

  struct State {
    std::mutex mutex;  // guards what follows
    std::condition_variable freed;
    std::vector<Lent> idle;                 // the one that was used last comes last
    std::size_t open = 0;                   // `idle` of these are not in use
    std::vector<SteadyTime> avoided_until;  // of each server; empty: none stood still
  };
  std::unique_ptr<State> state_ = std::make_unique<State>();
};

}  // namespace idmint::stores
