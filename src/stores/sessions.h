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

#include "base/fork_wiped.h"
#include "base/outcome.h"
#include "idmint/clock.h"
#include "idmint/result.h"
#include "idmint/store.h"
#include "stores/backend.h"
#include "stores/failure.h"

namespace idmint::stores {

// Every call has a session to itself while it lasts. There are as many as there were calls at once,
// up to kMost, and they stay open. Any thread may call any method at any time.
//
// A Session is moved, and has
//   bool is_usable()   false: nothing more can be sent on its connection
template <class Session>
class Sessions {
 public:
  using Opened = std::expected<Session, Failure>;
  static constexpr std::size_t kMost = 8;

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
  template <class Attempt>
  auto run(Kind kind, SteadyTime until, std::string_view doing, const Attempt& attempt)
      -> Result<typename std::invoke_result_t<const Attempt&, Session&>::value_type> {
    const SteadyTime begin = now();
    if (until <= begin)
      return std::unexpected(Error{Code::kUnavailable, "could not " + std::string(doing) + " " +
                                                           url_ + ": no time was left to ask" +
                                                           unchanged(kind) +
                                                           "; ask again, for longer"});
    for (int attempts = 0;; ++attempts) {
      Opened session = borrow(until);
      if (!session) return failed(kind, doing, std::move(session.error()), begin, until);
      auto done = attempt(*session);
      give_back(*std::move(session));
      if (done) return *std::move(done);
      Failure& failure = done.error();
      const SteadyTime next = now() + pause_before(attempts);
      if (!failure.passing || next >= until)
        return failed(kind, doing, std::move(failure), begin, until);
      std::this_thread::sleep_until(next);
    }
  }

 private:
  static SteadyTime now() { return std::chrono::steady_clock::now(); }
  static std::chrono::milliseconds pause_before(int attempt) {
    return std::chrono::milliseconds{std::min(10 << std::min(attempt, 5), 200)};
  }

  // Each server has an equal part of the time that the ones before it left. If none will do, the
  // answer is the one that will stay so.
  Opened connect_to_any(SteadyTime until) {
    Failure failure;
    for (std::size_t i = 0; i < servers_; ++i) {
      const SteadyTime begin = now();
      const auto left = static_cast<SteadyTime::rep>(servers_ - i);
      Opened session = connect_(i, begin + (until - begin) / left);
      if (session) return session;
      if (i == 0 || (failure.passing && !session.error().passing))
        failure = std::move(session.error());
    }
    return std::unexpected(std::move(failure));
  }

  Opened borrow(SteadyTime until) {
    std::optional<Failure> failure;
    std::unique_lock lock(state_->mutex);
    for (int attempt = 0;; ++attempt) {
      while (!state_->idle.empty()) {
        std::optional<Session> session(std::move(state_->idle.back()));
        state_->idle.pop_back();
        lock.unlock();
        if (session->is_usable()) return *std::move(session);
        session.reset();
        lock.lock();
        make_room();
      }
      if (state_->open < kMost) {
        ++state_->open;
        lock.unlock();
        Opened session = connect_to_any(until);
        if (session) return session;
        lock.lock();
        make_room();
        if (!session.error().passing) return session;
        failure = std::move(session.error());
        state_->freed.wait_until(lock, std::min(until, now() + pause_before(attempt)),
                                 [&] { return !state_->idle.empty(); });
      } else {
        state_->freed.wait_until(lock, until,
                                 [&] { return !state_->idle.empty() || state_->open < kMost; });
      }
      if (now() < until) continue;
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

  void give_back(Session session) {
    std::optional<Session> usable;
    if (session.is_usable()) usable = std::move(session);
    const std::lock_guard lock(state_->mutex);
    if (!usable) return make_room();
    state_->idle.push_back(*std::move(usable));
    state_->freed.notify_one();
  }

  // What the error of a call that was not applied says of that.
  static std::string unchanged(Kind kind) {
    return kind == Kind::kRead ? "" : "; " + std::string(kNothingChanged);
  }

  // The failure as the error of a call that began at `begin`.
  std::unexpected<Error> failed(Kind kind, std::string_view doing, Failure failure,
                                SteadyTime begin, SteadyTime until) const {
    Error& error = failure.error;
    if (error.message.starts_with(url_)) return std::unexpected(std::move(error));
    std::string what = "could not " + std::string(doing) + " " + url_ + ": ";
    if (now() >= until)
      what += "not within " +
              std::to_string(std::chrono::ceil<std::chrono::milliseconds>(until - begin).count()) +
              " ms: ";
    error.message.insert(0, what);
    if (failure.begun) return std::unexpected(after_a_write(std::move(error)));
    if (was_not_applied(error.code)) error.message += unchanged(kind);
    if (doing == "open" && error.code == Code::kUnavailable)
      error.message += "; look whether the server runs, and whether the URL names it";
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
    std::vector<Session> idle;  // the one that was used last comes last
    std::size_t open = 0;       // of which `idle` are not in use
  };
  std::unique_ptr<State> state_ = std::make_unique<State>();
};

}  // namespace idmint::stores
