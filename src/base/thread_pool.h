// ThreadPool: an executor with threads of its own.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/fork_wiped.h"
#include "idmint/executor.h"
#include "idmint/result.h"

namespace idmint {

// Runs tasks in the order they came. A thread is started when all others are busy, as long as there
// are fewer than `most`. Signals are delivered to other threads of the program.
class ThreadPool final : public Executor {
 public:
  // REQUIRES: most >= 1.
  explicit ThreadPool(std::size_t most) : most_(most) {}
  // Runs what is queued, and what that queues; not in a child of fork().
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // kResourceExhausted: there is no thread, and the system starts none. kFailedPrecondition: in a
  // child of fork().
  [[nodiscard]] Result<void> post(std::move_only_function<void()> task) override;

  [[nodiscard]] std::size_t threads() const;

  // Made by the parent of this process.
  [[nodiscard]] bool inherited() const noexcept { return !owned_; }

 private:
  void run();
  [[nodiscard]] bool start_thread();

  const OwnedByProcess owned_;
  const std::size_t most_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::move_only_function<void()>> queue_;
  std::size_t idle_ = 0;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace idmint
