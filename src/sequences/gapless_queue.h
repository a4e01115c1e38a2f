// Group commit for the calls of a GaplessInserter: a leader takes the calls that have waited
// longest into one transaction. A leader that resigns wakes the next one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "idmint/clock.h"
#include "idmint/executor.h"
#include "idmint/gapless.h"
#include "idmint/result.h"
#include "ids/last_issued.h"
#include "store/gapless_store.h"

namespace idmint {

// A blocking call leads or, if the first call in the queue is asynchronous, a task of the executor.
// A blocking call does not wait for a task that has not begun: it leads in its place.
//
// Threads may share it.
struct GaplessQueue {
  using Done = MoveOnlyFunction<void(Result<Range>)>;
  using Documents = GaplessTransactions::Documents;

  // A call. Guarded by the mutex.
  struct Request {
    std::shared_ptr<const Documents> documents{};
    std::size_t bytes = 0;
    SteadyTime begun_by{};
    SteadyTime until{};
    bool taken = false;  // is in the transaction under way
    bool alone = false;  // has a transaction of its own
    std::optional<Result<Range>> answer{};
    std::condition_variable changed{};  // for a blocking call
    Done done{};                        // of an asynchronous one
  };
  using Requests = std::vector<std::shared_ptr<Request>>;
  using Lock = std::unique_lock<std::mutex>;

  // Shared by a task of the executor and the queue, which may be gone when the task begins.
  struct Gate {
    std::mutex mutex{};
    GaplessQueue* queue = nullptr;  // null: closed, or no task was ever posted
  };

  const std::string what;  // for messages: the sequence and its store
  const std::chrono::milliseconds deadline;
  const std::size_t max_outstanding;
  Executor& executor;
  const std::unique_ptr<GaplessTransactions> transactions;
  LastIssued* const issued = nullptr;  // null: nothing is remembered

  const std::shared_ptr<Gate> gate = std::make_shared<Gate>();
  std::mutex& mutex = gate->mutex;  // guards the members below
  std::condition_variable idle{};   // for close()
  std::deque<std::shared_ptr<Request>> queue{};
  bool led = false;
  bool posted = false;  // a task will lead
  bool closed = false;
  std::size_t calling_back = 0;  // the number of leaders in callbacks
  std::int64_t floor = 0;        // every number acknowledged to this queue is below it
  std::optional<Error> lost{};   // the kDataLoss that answers every call from now on
  GaplessStatistics statistics{};

  // REQUIRES: check() accepts the documents. Errors as GaplessInserter::insert() and submit().
  Result<Range> insert(Documents documents);
  Result<void> submit(Documents documents, Done done);
  // Fails all waiting calls with kUnavailable, and waits for the transaction under way.
  void close() noexcept;

  [[nodiscard]] std::shared_ptr<Request> request_for(Documents documents) const;
  [[nodiscard]] std::optional<Error> refusal() const;
  [[nodiscard]] Error late() const;
  [[nodiscard]] std::string what_closed() const;
  Result<Range> wait_for(Request& request, Lock& lock);
  [[nodiscard]] Result<void> post();
  void lead(Lock& lock);
  // Resigns as the leader, and runs the callbacks of the answered calls without the lock.
  void leave(Lock& lock, Requests answered = {});
  static void answer(const std::shared_ptr<Request>& request, Result<Range> result,
                     Requests& answered);
  void end_all(const Error& why, Requests& answered);
};

}  // namespace idmint
