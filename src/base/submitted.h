// Submitted: asynchronous requests that a task of an executor serves, one task at a time, in
// batches.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/fork_wiped.h"
#include "idmint/executor.h"
#include "idmint/result.h"

namespace idmint {

// The error of a request beyond the limit. `owner` is that of the queue: "sequence orders".
[[nodiscard]] inline Error too_many_wait(std::string owner, std::size_t most) {
  return about(std::move(owner),
               {Code::kResourceExhausted,
                std::to_string(most) +
                    " requests are waiting already; ask again when some have been answered"});
}

// Threads may share it. A Request has a member `done`, which is called once with a Result<void>: by
// `serve`, or by this class with an error, and never inside submit().
template <class Request>
class Submitted {
 public:
  // Answers each request of a batch. Called without a lock, one call at a time.
  using Serve = MoveOnlyFunction<void(std::span<Request>)>;

  // `owner` is the subject of errors. `most` is the number of requests that may wait at a time.
  // Everything that `serve` uses must live until close() has returned.
  Submitted(std::string owner, std::size_t most, Executor& executor, Serve serve)
      : core_(std::make_shared<Core>(std::move(owner), most, executor, std::move(serve))) {}
  // Like close(). In a child of fork() the lock may be held, so nothing is touched.
  ~Submitted() {
    if (owned()) {
      close();
    } else {
      core_->left_alone = core_;
    }
  }
  Submitted(const Submitted&) = delete;
  Submitted& operator=(const Submitted&) = delete;

  // Whether this process made it, and not an ancestor by fork().
  [[nodiscard]] bool owned() const noexcept { return static_cast<bool>(core_->owned); }

  // Errors, besides those of Executor::post(). REQUIRES: owned().
  // - kUnavailable: closed.
  // - kResourceExhausted: too many requests wait.
  [[nodiscard]] Result<void> submit(Request request) {
    Core& core = *core_;
    const std::lock_guard lock(core.mutex);
    if (core.closed) return std::unexpected(core.error_when_closed());
    if (core.waiting.size() + core.in_service >= core.most) {
      return std::unexpected(too_many_wait(core.owner, core.most));
    }
    if (!core.posted && !core.serving) {
      if (auto posted = core.post(); !posted) return posted;
    }
    core.waiting.push_back(std::move(request));
    core.idle.store(false, std::memory_order_relaxed);
    return {};
  }

  // Whether no request waits or is served: each has its answer or is about to be refused. A caller
  // that sees true also sees the effects of `serve`. May be out of date at once, except for
  // requests of the calling thread. REQUIRES: owned().
  [[nodiscard]] bool is_idle() const noexcept {
    return core_->idle.load(std::memory_order_acquire);
  }

  // Fails the requests that are not in service with kUnavailable, waits for the batch that is, and
  // refuses later ones. Must not be called from `done`. REQUIRES: owned().
  void close() noexcept {
    Core& core = *core_;
    std::unique_lock lock(core.mutex);
    core.closed = true;
    core.refuse_all(lock, core.error_when_closed());
    core.changed.wait(lock, [&core] { return !core.serving && core.refusing == 0; });
  }

 private:
  // Shared with the tasks, since one may begin after the owner is gone.
  struct Core : std::enable_shared_from_this<Core> {
    Core(std::string its_owner, std::size_t its_most, Executor& its_executor, Serve its_serve)
        : owner(std::move(its_owner)),
          most(its_most),
          executor(its_executor),
          serve(std::move(its_serve)) {}

    [[nodiscard]] Error error_when_closed() const {
      return about(owner, {Code::kUnavailable, "closed"});
    }

    Result<void> post() {
      auto will_run = executor.post([core = this->shared_from_this()] { core->take_turn(); });
      posted = will_run.has_value();
      return will_run;
    }

    // noexcept: without memory, ending the process is better than leaving requests without an
    // answer.
    void take_turn() noexcept {
      const auto end = std::chrono::steady_clock::now() + executor.turn();
      std::unique_lock lock(mutex);
      posted = false;
      if (waiting.empty()) return;  // closed
      serving = true;
      do {
        std::vector<Request> batch = std::exchange(waiting, {});
        in_service = batch.size();
        lock.unlock();
        serve(batch);
        batch.clear();
        lock.lock();
        in_service = 0;
      } while (!waiting.empty() && std::chrono::steady_clock::now() < end);
      while (!waiting.empty()) {
        const Result<void> next = post();
        if (next) break;
        refuse_all(lock, next.error());
      }
      serving = false;
      idle.store(waiting.empty(), std::memory_order_release);
      changed.notify_all();
    }

    void refuse_all(std::unique_lock<std::mutex>& lock, const Error& why) {
      std::vector<Request> refused = std::exchange(waiting, {});
      if (!serving) idle.store(true, std::memory_order_release);
      ++refusing;
      lock.unlock();
      for (Request& request : refused) request.done(std::unexpected(why));
      lock.lock();
      --refusing;
      changed.notify_all();
    }

    const OwnedByProcess owned{};
    const std::string owner;
    const std::size_t most;
    Executor& executor;
    Serve serve;

    std::mutex mutex{};                 // guards the members below
    std::condition_variable changed{};  // for close()
    std::vector<Request> waiting{};     // not empty: a task serves or is posted
    std::size_t in_service = 0;
    std::size_t refusing = 0;  // threads in a callback
    bool posted = false;
    bool serving = false;
    bool closed = false;
    std::atomic<bool> idle{true};        // !serving and waiting is empty; written under the mutex
    std::shared_ptr<Core> left_alone{};  // itself, in a child of fork()
  };

  const std::shared_ptr<Core> core_;
};

}  // namespace idmint
