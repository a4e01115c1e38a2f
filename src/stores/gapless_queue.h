// The calls of a GaplessInserter, combined: the one that waits longest leads, and takes those
// behind it into its transaction. Who leaves the lead wakes the next one.
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
#include <utility>
#include <vector>

#include "idmint/clock.h"
#include "idmint/gapless.h"
#include "idmint/result.h"
#include "stores/backend.h"

namespace idmint::stores {

// May be shared by threads.
struct GaplessQueue {
  // A call. Guarded by the mutex.
  struct Request {
    std::shared_ptr<const GaplessTransactions::Documents> documents{};
    std::size_t bytes = 0;
    SteadyTime begun_by{};
    SteadyTime until{};
    bool taken = false;  // into the transaction under way
    bool alone = false;  // it shares no transaction
    std::optional<Result<Range>> answer{};
    std::condition_variable changed{};
  };

  const std::string what;  // for messages: the sequence and its store
  const std::chrono::milliseconds deadline;
  const std::size_t max_outstanding;
  const std::unique_ptr<GaplessTransactions> transactions;

  std::mutex mutex{};  // guards what follows
  std::deque<Request*> queue{};
  bool led = false;
  std::int64_t floor = 0;       // every acknowledged number is below it
  std::optional<Error> lost{};  // kDataLoss: the answer to every call from now on
  GaplessStatistics statistics{};

  // Documents that check() allows. Errors of GaplessInserter::insert.
  Result<Range> insert(GaplessTransactions::Documents documents);

  Result<Range> wait_for(Request& request, std::unique_lock<std::mutex>& lock);
  void lead(std::unique_lock<std::mutex>& lock);
  void leave();
};

}  // namespace idmint::stores
