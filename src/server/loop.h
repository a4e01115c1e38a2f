// Loop: the one thread that talks to all clients. Whatever may wait, for a store most of all, is
// done by an executor, and its answer comes back to the loop.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "idmint/clock.h"
#include "idmint/executor.h"
#include "idmint/result.h"

namespace idmint::server {

// Something that waits for its answer. It belongs to whoever made it, and must stay until
// answered() was called.
class Awaited {
 public:
  virtual void answered() = 0;  // on the loop

 protected:
  ~Awaited() = default;
};

class Loop final {
 public:
  using Now = std::function<SteadyTime()>;

  // The executor must outlive the loop. `patience`: the deadline of a call, whatever it waits for.
  // `now`: any thread may call it.
  explicit Loop(Executor& executor, std::chrono::milliseconds patience = std::chrono::seconds{5},
                Now now = &std::chrono::steady_clock::now)
      : executor_(executor), patience_(patience), now_(std::move(now)) {}
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  [[nodiscard]] boost::asio::io_context& context() noexcept { return context_; }
  [[nodiscard]] Executor& executor() noexcept { return executor_; }

  [[nodiscard]] SteadyTime now() const { return now_(); }
  // When a call that comes now must have its answer. All that it waits for shares this time: calls
  // before it, a thread, the store.
  [[nodiscard]] SteadyTime due() const { return now() + patience_; }

  // The executor of the sequences that the loop submits to. A task that it is given begins, on
  // `to`, at the end of a turn of the loop: when the answers that had come were given, and then all
  // that the clients had sent was read. So a round to the store carries what all of them ask for,
  // and not what the first of them does; and the next one waits for those who were just answered.
  // Where `to` has no thread, the loop runs the task. After the loop tasks go to `to` at once.
  // `to` must outlive what is posted.
  [[nodiscard]] std::shared_ptr<Executor> rounds_on(Executor& to);

  // Any thread may call it; the loop calls awaited.answered() soon. What comes meanwhile wakes the
  // loop once.
  void deliver(Awaited& awaited);

  // Runs when a batch of answers has been given: for what is better done once for all of them.
  void after_answers(std::function<void()> act) { after_answers_ = std::move(act); }

  // Runs `work` elsewhere, and then `then` on the loop, with what `work` returned, a Result. `work`
  // gets `due`, when it must have its answer. If there is no thread for it, or none by then, `then`
  // gets the error (kUnavailable), and `work` is not run.
  template <class Work, class Then>
  void elsewhere(SteadyTime due, Work work, Then then) {
    using Answer = std::invoke_result_t<Work&, SteadyTime>;
    ++elsewhere_;
    // Shared, as the executor destroys the task if it does not take it.
    auto shared = std::make_shared<Then>(std::move(then));
    Result<void> posted = executor_.post([this, work = std::move(work), shared, due]() mutable {
      post([this, shared = std::move(shared),
            answer = in_time(due) ? work(due) : late<Answer>()]() mutable {
        --elsewhere_;
        (*shared)(std::move(answer));
      });
    });
    if (!posted) {
      post([this, shared, error = std::move(posted.error())]() mutable {
        --elsewhere_;
        (*shared)(Answer(std::unexpected(std::move(error))));
      });
    }
  }

  // Calls of elsewhere() that have no answer yet. On the loop.
  [[nodiscard]] std::size_t waiting_elsewhere() const noexcept { return elsewhere_; }

  // From now on no work is begun elsewhere.
  void abandon() noexcept { abandoned_ = true; }

  // Any thread may call it; the loop runs the task soon.
  void post(std::move_only_function<void()> task);

  // Runs until stop(); no exception leaves it but std::bad_alloc.
  void run();
  void stop() { context_.stop(); }

 private:
  class Rounds;
  struct Round {
    Executor* to;
    std::move_only_function<void()> task;
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

  std::mutex mutex_;                 // guards what came from other threads
  std::vector<Awaited*> delivered_;  // answers
  std::vector<Round> posted_;        // rounds
  std::vector<Awaited*> batch_;      // those that are being answered
  std::vector<Round> rounds_;        // that begin at the end of this turn
  bool turn_ends_ = false;           // end_turn() is under way
  std::vector<std::shared_ptr<Rounds>> executors_;
};

}  // namespace idmint::server
