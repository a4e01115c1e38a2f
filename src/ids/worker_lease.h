// WorkerLease: an IdTimeLease on a worker id of a pool, kept in a LeaseTable.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/bounded_mutex.h"
#include "base/fork_wiped.h"
#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "idmint/result.h"
#include "ids/id_time_lease.h"
#include "ids/lease_table.h"

namespace idmint {

struct WorkerLeaseOptions {
  std::string pool{};
  std::string holder{};
  // Of the layout.
  Instant epoch{};
  std::chrono::nanoseconds unit{};
  std::int64_t max_tick = 0;
  std::uint32_t max_worker = 0;
  // In ticks: what the first acquire takes, and what is taken ahead from then on.
  std::int64_t first_window = 1;
  std::int64_t window = 2;
  std::int64_t max_drift = 0;
  std::chrono::milliseconds held{};  // by the store's clock, from each acquire and extend
  std::chrono::milliseconds max_skew{};
  std::chrono::nanoseconds deadline{};  // of renew() and of end()
};

// What design note 005 proves needs three things of it:
//   - the bound is that of an acknowledged acquire or extend;
//   - nothing is minted once release() was sent;
//   - nothing is minted once the store has shown less than it acknowledged.
// Beyond that one request is under way at a time. An acquire has a fresh token and an extension a
// fresh nonce, which no copy of this process draws too; one whose outcome is unknown is asked for
// again with the same.
//
// A caller that comes to the bound asks the store and waits for its answer. A thread asks every
// third of the window, so that callers rarely come to it. Callers that wait for a request of
// another share its failure, or leave at their own time. A lease that was lost is taken anew, on
// any worker id, by the next caller that comes to the bound: until then ids below it are minted
// under the old one.
class IDMINT_EXPORT WorkerLease final : public IdTimeLease {
 public:
  // Errors as LeaseTable::acquire. kFailedPrecondition: the worker id is none of the layout.
  [[nodiscard]] static Result<std::unique_ptr<WorkerLease>> acquire(LeaseTable& table,
                                                                    WorkerLeaseOptions options,
                                                                    Clock& clock, Entropy& entropy,
                                                                    SteadyTime until);
  // As end().
  ~WorkerLease() override;
  WorkerLease(const WorkerLease&) = delete;
  WorkerLease& operator=(const WorkerLease&) = delete;

  // As IdTimeLease. kUnavailable: the store did not answer by `until`, or refused; also for a while
  // after that, without asking. kResourceExhausted: the lease was lost, and the pool has no worker
  // id free. kFailedPrecondition: inherited through fork(); the pool was retired.
  // kPermissionDenied: the store lets nobody lease any more. kDataLoss: the store went back, or the
  // pool is gone.
  [[nodiscard]] Result<std::int64_t> extend(std::int64_t tick, SteadyTime until) override;
  [[nodiscard]] std::int64_t from() const noexcept override { return from_; }
  // Of the range that extend() answered last; by the thread that called it.
  [[nodiscard]] std::uint32_t worker() const noexcept { return worker_; }

  // Moves the bound a window ahead of the clock. Nothing is done while the lease is lost. Any
  // thread.
  [[nodiscard]] Result<void> renew();

  // Starts the thread, if need be once there is a whole window to keep. It calls `revoke`, once,
  // with the kDataLoss of a store that shows less than it acknowledged: not one more id may be
  // minted.
  void keep_renewed(std::function<void(Error)> revoke);
  // Ends the thread and hands the worker id over, within the deadline. Nothing in a child of
  // fork(). REQUIRES: nobody is minting, and nobody will.
  void end() noexcept;

 private:
  WorkerLease(LeaseTable& table, WorkerLeaseOptions options, Clock& clock, Entropy& entropy);

  struct Extension {
    std::int64_t to;
    Uuid nonce;
  };

  [[nodiscard]] std::int64_t tick_of(Instant at) const noexcept;
  [[nodiscard]] LeaseTerms terms() const noexcept;
  // These with `asking_` locked.
  [[nodiscard]] Result<void> ask_or_fail(std::int64_t tick, SteadyTime until);
  [[nodiscard]] Result<void> ask(std::int64_t tick, SteadyTime until);
  [[nodiscard]] Result<void> lengthen(std::int64_t to, SteadyTime until);
  [[nodiscard]] Result<void> take(std::int64_t tick, std::int64_t units, std::int64_t drift,
                                  SteadyTime until);
  void hand_over(const Lease& lease, SteadyTime until);
  void start_thread();
  void run() noexcept;

  const OwnedByProcess owner_;
  LeaseTable& table_;
  const WorkerLeaseOptions options_;
  Clock& clock_;
  Entropy& entropy_;

  std::atomic<std::int64_t> to_{0};
  std::atomic<bool> has_window_{false};
  std::int64_t from_ = 0;
  std::uint32_t worker_ = 0;

  BoundedMutex asking_;               // one request at a time
  std::optional<Lease> held_;         // nothing: lost
  Uuid token_{};                      // of an acquire of unknown outcome; else nil
  std::optional<Extension> pending_;  // of unknown outcome
  std::optional<Error> failure_;
  Instant failed_at_{};

  // Apart, as a child of fork() must leave alone what the thread of its parent waits on.
  struct Renewal {
    std::mutex mutex;
    std::condition_variable ending;
    bool ended = false;
    std::function<void(Error)> revoke;
    std::thread thread;
  };
  std::unique_ptr<Renewal> renewal_ = std::make_unique<Renewal>();
};

}  // namespace idmint
