// An executor whose tasks run when a test says so.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "idmint/executor.h"

namespace idmint::fakes {

class ManualExecutor final : public Executor {
 public:
  // `turn`: of Executor::turn().
  explicit ManualExecutor(std::chrono::nanoseconds turn = std::chrono::milliseconds{5})
      : turn_(turn) {}

  [[nodiscard]] std::chrono::nanoseconds turn() const noexcept override { return turn_; }
  Result<void> post(MoveOnlyFunction<void()> task) override {
    const std::lock_guard lock(mutex_);
    if (refusal_) return std::unexpected(*refusal_);
    tasks_.push_back(std::move(task));
    return {};
  }

  // Every post() from now on is refused with it; nothing: none is.
  void refuse(std::optional<Error> error) {
    const std::lock_guard lock(mutex_);
    refusal_ = std::move(error);
  }

  [[nodiscard]] std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return tasks_.size();
  }

  // Runs the oldest task. False: there is none.
  bool run_one() {
    MoveOnlyFunction<void()> task;
    {
      const std::lock_guard lock(mutex_);
      if (tasks_.empty()) return false;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
    return true;
  }

  void run_all() {
    while (run_one()) {
    }
  }

 private:
  const std::chrono::nanoseconds turn_;
  mutable std::mutex mutex_;
  std::deque<MoveOnlyFunction<void()>> tasks_;
  std::optional<Error> refusal_;
};

}  // namespace idmint::fakes
