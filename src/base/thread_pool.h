// ThreadPool: an executor with threads of its own.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "base/fork_wiped.h"
#include "idmint/executor.h"
#include "idmint/result.h"

namespace idmint {

// Runs tasks in the order of their arrival. Starts a thread when all others are busy and there are
// fewer than `most`. Its threads block all signals.
class ThreadPool final : public Executor {
 public:
  // REQUIRES: most >= 1.
  explicit ThreadPool(std::size_t most) : most_(most) {}
  // Runs all queued tasks and the tasks that these post; not in a child of fork().
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Errors:
  // - kResourceExhausted: there is no thread, and the system starts none.
  // - kFailedPrecondition: this is a child of fork().
  [[nodiscard]] Result<void> post(MoveOnlyFunction<void()> task) override;

  [[nodiscard]] std::size_t threads() const;

  // Whether an ancestor by fork() made it.
  [[nodiscard]] bool inherited() const noexcept { return !owned_; }

 private:
  void run();
  [[nodiscard]] bool start_thread();

  const OwnedByProcess owned_;
  const std::size_t most_;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<MoveOnlyFunction<void()>> queue_;
  std::size_t idle_ = 0;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace idmint
