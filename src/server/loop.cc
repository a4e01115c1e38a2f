#include "server/loop.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <memory>

namespace idmint::server {

namespace {

// The loop that this thread runs.
constinit thread_local const Loop* loop_of_this_thread = nullptr;

// Asio looks for input between two handlers of its queue, and puts what has come behind the second
// of them. So the third is behind all input that had come when the first one ran.
constexpr int kPolls = 2;

}  // namespace

class Loop::Rounds final : public Executor {
 public:
  Rounds(Loop& loop, Executor& to) : loop_(&loop), to_(to) {}

  Result<void> post(MoveOnlyFunction<void()> task) override {
    const std::lock_guard lock(mutex_);
    if (loop_ == nullptr) return to_.post(std::move(task));
    loop_->begin_later({&to_, std::move(task)});
    return {};
  }
  // Requests that arrive during a round wait until those after it are answered.
  [[nodiscard]] std::chrono::nanoseconds turn() const noexcept override { return {}; }

  void leave() {
    const std::lock_guard lock(mutex_);
    loop_ = nullptr;
  }

 private:
  std::mutex mutex_;
  Loop* loop_;  // guarded by mutex_; null: it has ended
  Executor& to_;
};

Loop::~Loop() {
  for (const std::shared_ptr<Rounds>& each : executors_) each->leave();
}

std::shared_ptr<Executor> Loop::rounds_on(Executor& to) {
  return executors_.emplace_back(std::make_shared<Rounds>(*this, to));
}

void Loop::begin_later(Round round) {
  if (loop_of_this_thread == this) {
    rounds_.push_back(std::move(round));
    begin_at_end_of_turn();
    return;
  }
  const std::lock_guard lock(mutex_);
  posted_.push_back(std::move(round));
  wake();
}

// Under the lock, behind what has been added.
void Loop::wake() {
  if (delivered_.size() + posted_.size() == 1) boost::asio::post(context_, [this] { take_mail(); });
}

void Loop::deliver(Awaited& awaited) {
  const std::lock_guard lock(mutex_);
  delivered_.push_back(&awaited);
  wake();
}

void Loop::take_mail() {
  {
    const std::lock_guard lock(mutex_);
    batch_.swap(delivered_);
    for (Round& round : posted_) rounds_.push_back(std::move(round));
    posted_.clear();
  }
  for (Awaited* const awaited : batch_) awaited->answered();
  batch_.clear();
  if (after_answers_) after_answers_();
  if (!rounds_.empty()) begin_at_end_of_turn();
}

void Loop::begin_at_end_of_turn() {
  if (!std::exchange(turn_ends_, true)) end_turn(kPolls);
}

void Loop::end_turn(int polls) {
  boost::asio::post(context_, [this, polls] {
    if (polls > 0) return end_turn(polls - 1);
    turn_ends_ = false;
    for (Round& round : std::exchange(rounds_, {})) begin(std::move(round));
  });
}

void Loop::begin(Round round) {
  // Shared, as the executor destroys the task if it does not take it.
  const auto shared = std::make_shared<MoveOnlyFunction<void()>>(std::move(round.task));
  if (!round.to->post([shared] { (*shared)(); })) (*shared)();
}

Loop::Bulkhead& Loop::bulkhead_of(std::string_view name) {
  const auto found = lanes_.find(name);
  return found != lanes_.end() ? found->second : lanes_[std::string(name)];
}

void Loop::end(Bulkhead* lane) {
  --elsewhere_;
  if (lane == nullptr) return;
  --lane->under_way;
  if (lane->waiting.empty()) return;
  MoveOnlyFunction<void()> next = std::move(lane->waiting.front());
  lane->waiting.pop_front();
  --elsewhere_;  // it is counted again
  next();
}

void Loop::post(MoveOnlyFunction<void()> task) {
  // Asio copies its handlers.
  boost::asio::post(
      context_,
      [shared = std::make_shared<MoveOnlyFunction<void()>>(std::move(task))] { (*shared)(); });
}

void Loop::run() {
  const auto guard = boost::asio::make_work_guard(context_);
  loop_of_this_thread = this;
  context_.run();
  loop_of_this_thread = nullptr;
}

}  // namespace idmint::server
