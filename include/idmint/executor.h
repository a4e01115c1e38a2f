// Executor: runs tasks that no caller waits for.
#pragma once

#include <chrono>
#include <functional>

#include "idmint/result.h"

namespace idmint {

// A task blocks on a store or a clock only, at most for the deadline of the object that posted it.
// Tasks do not wait for each other, so one thread serves any number of sequences; n threads allow n
// such waits at a time. An executor must outlive everything that it was given to. It must run or
// destroy each task that it accepted.
class IDMINT_EXPORT Executor {
 public:
  virtual ~Executor() = default;

  // Queues the task, which runs in another thread or in a later event of the same thread. post()
  // must neither run it nor call back into the caller, who may hold a lock. On an error the task
  // never runs. Tasks do not throw. Any thread may call it.
  [[nodiscard]] virtual Result<void> post(std::move_only_function<void()> task) = 0;

  // How long a task keeps serving requests that arrive meanwhile. Then it posts a new task, so that
  // the tasks of others get their turn. 0: it ends after one round trip to the store.
  [[nodiscard]] virtual std::chrono::nanoseconds turn() const noexcept {
    return std::chrono::milliseconds{5};
  }
};

// The default for the process: at most 16 threads, each started when all others are busy. A child
// of fork() has its own. kResourceExhausted from post(): the system can start no thread, and none
// runs yet.
[[nodiscard]] IDMINT_EXPORT Executor& shared_executor();

}  // namespace idmint
