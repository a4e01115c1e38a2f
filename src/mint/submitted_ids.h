// Requests of Source::submit().
#pragma once

#include <chrono>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/submitted.h"
#include "idmint/clock.h"
#include "idmint/executor.h"
#include "idmint/id.h"
#include "idmint/result.h"
#include "idmint/source.h"

namespace idmint {

// A task of the executor fills them by next() of the source. Requests that wait at the same time
// share a call, and the earliest of their deadlines. Threads may share it. It is the last member of
// its source: its destructor waits for the call in progress.
class SubmittedIds final {
 public:
  // The source and the executor must outlive it. A null executor means shared_executor().
  // `owner`: the subject of errors, such as "sequence orders". `deadline`: of a request, from
  // submit() on.
  SubmittedIds(Source& source, std::string owner, Executor* executor,
               std::chrono::milliseconds deadline);

  // As Source::submit().
  [[nodiscard]] Result<void> submit(std::span<Id> out, MoveOnlyFunction<void(Result<void>)> done);

 private:
  struct Request {
    std::span<Id> out;
    SteadyTime until;
    MoveOnlyFunction<void(Result<void>)> done;
  };
  // The smallest number of ids of which more were asked for than are left, in this batch.
  struct Refusal {
    std::size_t size = std::numeric_limits<std::size_t>::max();
    Error why{};
  };
  void serve(std::span<Request> batch);
  // Fills all of them in one call, or in halves if too few ids are left.
  void serve_together(std::span<Request> requests, Refusal& refusal);

  Source& source_;
  const std::string owner_;
  const std::chrono::milliseconds deadline_;
  std::vector<Id> ids_;  // of serve_together()
  Submitted<Request> submitted_;
};

}  // namespace idmint
