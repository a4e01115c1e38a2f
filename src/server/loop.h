// Loop: the single thread that serves all clients. Work that may wait, such as a call of a store,
// runs on an executor, and its answer returns to the loop.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "idmint/clock.h"
#include "idmint/executor.h"
#include "idmint/result.h"

namespace idmint::server {

// Waits for an answer. Its maker owns it and keeps it until answered() is called.
class Awaited {
 public:
  virtual void answered() = 0;  // on the loop

 protected:
  ~Awaited() = default;
};

class Loop final {
 public:
  using Now = std::function<SteadyTime()>;

  // The executor must outlive the loop. `patience` is the deadline of a call, from its arrival.
  // `now` may be called on any thread.
  explicit Loop(Executor& executor, std::chrono::milliseconds patience = std::chrono::seconds{5},
                Now now = &std::chrono::steady_clock::now)
      : executor_(executor), patience_(patience), now_(std::move(now)) {}
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  [[nodiscard]] boost::asio::io_context& context() noexcept { return context_; }
  [[nodiscard]] Executor& executor() noexcept { return executor_; }

  [[nodiscard]] SteadyTime now() const { return now_(); }
  // The time by which a call that arrives now must have its answer. The deadline includes the wait
  // for earlier calls, for a thread and for the store.
  [[nodiscard]] SteadyTime due() const { return now() + patience_; }

  // The executor for sequences that the loop submits to. A task begins, on `to`, at the end of a
  // turn of the loop: after all answers were delivered, and then all input of the clients was read.
  // So a round to the store carries all their requests, not only the first, and the next round
  // includes the callers who were just answered. If `to` has no thread, the loop runs the task.
  // After the end of the loop, tasks go to `to` at once. `to` must outlive the posted tasks.
  [[nodiscard]] std::shared_ptr<Executor> rounds_on(Executor& to);

  // The loop will call awaited.answered() soon. Any thread may call it. Many calls wake the loop
  // once.
  void deliver(Awaited& awaited);

  // Sets what runs once after each batch of answers.
  void after_answers(std::function<void()> act) { after_answers_ = std::move(act); }

  // Runs `work` elsewhere, and then `then` on the loop with the Result of `work`. `work` gets
  // `due`, the time by which it must answer. If there is no thread for it before that, `work` does
  // not run, and `then` gets kUnavailable.
  template <class Work, class Then>
  void elsewhere(SteadyTime due, Work work, Then then) {
    start(nullptr, due, std::move(work), std::move(then));
  }

  // The same for calls that may all wait for one store. At most kMostOfLane calls of a lane run at
  // a time, so a store that does not answer leaves threads for the others.
  static constexpr std::size_t kMostOfLane = 4;
  // The lane of calls that read several stores. The other lanes have the names of their stores, or
  // are those of leases (Service::lease_lane_of()).
  static constexpr std::string_view kAllStores = "*";
  template <class Work, class Then>
  void elsewhere(std::string_view lane, SteadyTime due, Work work, Then then) {
    Bulkhead& its = bulkhead_of(lane);
    if (its.under_way < kMostOfLane) return start(&its, due, std::move(work), std::move(then));
    ++elsewhere_;
    its.waiting.push_back(
        [this, &its, due, work = std::move(work), then = std::move(then)]() mutable {
          start(&its, due, std::move(work), std::move(then));
        });
  }

  // The number of calls of elsewhere() without an answer. Call it on the loop.
  [[nodiscard]] std::size_t waiting_elsewhere() const noexcept { return elsewhere_; }

  // From now on, elsewhere() runs no work and answers kUnavailable.
  void abandon() noexcept { abandoned_ = true; }

  // The loop will run the task soon. Any thread may call it.
  void post(MoveOnlyFunction<void()> task);

  // Runs until stop(). Only std::bad_alloc can leave it.
  void run();
  void stop() { context_.stop(); }

 private:
  struct Bulkhead {
    std::size_t under_way = 0;
    std::deque<MoveOnlyFunction<void()>> waiting{};  // each starts a call
  };
  [[nodiscard]] Bulkhead& bulkhead_of(std::string_view name);
  // A call has its answer, so that another call of its lane may begin. Null: it has no lane.
  void end(Bulkhead* lane);
  template <class Work, class Then>
  void start(Bulkhead* lane, SteadyTime due, Work work, Then then) {
    using Answer = std::invoke_result_t<Work&, SteadyTime>;
    ++elsewhere_;
    if (lane != nullptr) ++lane->under_way;
    // Shared, because the executor destroys the task if it refuses it.
    auto shared = std::make_shared<Then>(std::move(then));
    Result<void> posted =
        executor_.post([this, lane, work = std::move(work), shared, due]() mutable {
          post([this, lane, shared = std::move(shared),
                answer = in_time(due) ? work(due) : late<Answer>()]() mutable {
            end(lane);
            (*shared)(std::move(answer));
          });
        });
    if (!posted) {
      post([this, lane, shared, error = std::move(posted.error())]() mutable {
        end(lane);
        (*shared)(Answer(std::unexpected(std::move(error))));
      });
    }
  }

  class Rounds;
  struct Round {
    Executor* to;
    MoveOnlyFunction<void()> task;
  };
  void begin_later(Round round);
  void wake();
  void take_mail();
  void begin_at_end_of_turn();
  void end_turn(int polls);
  static void begin(Round round);
  [[nodiscard]] bool in_time(SteadyTime due) const { return !abandoned_ && now() < due; }
  template <class Answer>
  [[nodiscard]] static Answer late() {
    return std::unexpected(
        Error{Code::kUnavailable,
              "nobody came to this call in time, and nothing was done: the store "
              "is slow or away; ask again"});
  }

  Executor& executor_;
  const std::chrono::milliseconds patience_;
  const Now now_;
  std::atomic<bool> abandoned_{false};
  boost::asio::io_context context_{1};
  std::function<void()> after_answers_;
  std::size_t elsewhere_ = 0;
  std::map<std::string, Bulkhead, std::less<>> lanes_;

  std::mutex mutex_;                 // guards the next two
  std::vector<Awaited*> delivered_;  // answers
  std::vector<Round> posted_;        // rounds
  std::vector<Awaited*> batch_;      // being answered
  std::vector<Round> rounds_;        // to begin at the end of this turn
  bool turn_ends_ = false;           // end_turn() is in progress
  std::vector<std::shared_ptr<Rounds>> executors_;
};

}  // namespace idmint::server
