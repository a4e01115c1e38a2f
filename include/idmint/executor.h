// Executor: runs the work that no caller waits for.
#pragma once

#include <chrono>
#include <functional>

#include "idmint/result.h"

namespace idmint {

// A task waits for the store at most, as long as the deadline of the sequence or inserter that
// posted it. Tasks do not wait for each other, so one thread is enough for any number of sequences;
// more threads let that many calls of stores be under way at a time. An executor that is handed in
// must outlive what it was handed to, and run each task that it accepted or destroy it.
class IDMINT_EXPORT Executor {
 public:
  virtual ~Executor() = default;

  // Queues the task. Another thread runs it, or a later event of this one: post() itself does not
  // run it, and does not call what posted it in any other way, since that may hold a lock. On an
  // error the task never runs. Tasks do not throw. Threads may share it.
  [[nodiscard]] virtual Result<void> post(std::move_only_function<void()> task) = 0;

  // How long a task goes on with what has come meanwhile before it posts a further one, so that the
  // tasks of others have their turn. 0: it ends after one round to the store.
  [[nodiscard]] virtual std::chrono::nanoseconds turn() const noexcept {
    return std::chrono::milliseconds{5};
  }
};

// The default of all sequences and inserters of the process: at most 16 threads, each started when
// all others are busy. A child of fork() has one of its own. kResourceExhausted: the system has no
// thread left, and none runs yet.
[[nodiscard]] IDMINT_EXPORT Executor& shared_executor();

}  // namespace idmint
