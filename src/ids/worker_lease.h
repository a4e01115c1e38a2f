// WorkerLease: an IdTimeLease for a worker id of a pool in a LeaseTable.
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
#include "base/unshared.h"
#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "idmint/result.h"
#include "ids/id_time_lease.h"
#include "ids/lease_table.h"

namespace idmint {

struct WorkerLeaseOptions {
  std::string pool{};
  std::string holder{};
  std::int64_t workers = 0;  // LeaseRequest::workers
  // The limits of the layout:
  Instant epoch{};
  std::chrono::nanoseconds unit{};
  std::int64_t max_tick = 0;
  std::uint32_t max_worker = 0;
  // In ticks: the length of the first acquire, and of the range ahead from then on.
  std::int64_t first_window = 1;
  std::int64_t window = 2;
  std::int64_t max_drift = 0;
  std::chrono::milliseconds held{};  // by the store's clock, from each acquire and extend on
  std::chrono::milliseconds max_skew{};
  std::chrono::nanoseconds deadline{};  // of renew() and of end()
  // For tokens and nonces: no copy of this process may draw the same.
  Entropy* names = &unshared_entropy();
};

// The proof in design note 005 rests on three rules:
//   - the bound is that of an acknowledged acquire or extend;
//   - nothing is minted after release() was sent;
//   - nothing is minted after the store has shown less than it acknowledged.
// Also, only one request is under way at a time. Each acquire has a fresh token and each extension
// a fresh nonce, which no copy of this process draws as well; a repeat after an unknown outcome has
// the same one.
//
// A caller that reaches the bound asks the store and waits for its answer. A thread renews the
// lease every third of the window, so that callers rarely reach the bound. Callers that wait for
// the request of another one share its failure, or leave at their own deadline. The next caller
// that reaches the bound replaces a lost lease, with any worker id; until then ids below the bound
// are minted with the old one.
class IDMINT_EXPORT WorkerLease final : public IdTimeLease {
 public:
  // Errors as LeaseTable::acquire(). kFailedPrecondition: the worker id does not fit the layout.
  [[nodiscard]] static Result<std::unique_ptr<WorkerLease>> acquire(LeaseTable& table,
                                                                    WorkerLeaseOptions options,
                                                                    Clock& clock, Entropy& entropy,
                                                                    SteadyTime until);
  // Calls end().
  ~WorkerLease() override;
  WorkerLease(const WorkerLease&) = delete;
  WorkerLease& operator=(const WorkerLease&) = delete;

  // As IdTimeLease.
  // - kUnavailable: the store did not answer by `until`, or refused; for a short time afterwards
  //   the store is not asked again.
  // - kResourceExhausted: the lease was lost, and the pool has no free worker id.
  // - kFailedPrecondition: inherited through fork(), or the pool was retired.
  // - kPermissionDenied: the store does not allow leases any more.
  // - kDataLoss: the store went back, or the pool is gone.
  [[nodiscard]] Result<std::int64_t> extend(std::int64_t tick, SteadyTime until) override;
  [[nodiscard]] std::int64_t from() const noexcept override { return from_; }
  // The worker id of the latest range of extend(); only for the thread that called it.
  [[nodiscard]] std::uint32_t worker() const noexcept { return worker_; }

  // Moves the bound one window ahead of the clock. Does nothing if the lease is lost. Any thread
  // may call it.
  [[nodiscard]] Result<void> renew();

  // Starts the renewal thread, or prepares it to start once there is a whole window to keep. It
  // calls `revoke` once, with kDataLoss, if the store shows less than it acknowledged: then no
  // further id may be minted.
  void keep_renewed(std::function<void(Error)> revoke);
  // Ends the thread and releases the worker id, within the deadline. Does nothing in a child of
  // fork(). REQUIRES: nobody mints now or later.
  void end() noexcept;

 private:
  WorkerLease(LeaseTable& table, WorkerLeaseOptions options, Clock& clock, Entropy& entropy);

  struct Extension {
    std::int64_t to;
    Uuid nonce;
  };

  [[nodiscard]] std::int64_t tick_of(Instant at) const noexcept;
  [[nodiscard]] LeaseTerms terms() const noexcept;
  [[nodiscard]] Uuid draw_name() const noexcept;
  // With `asking_` locked:
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
  Uuid token_{};                      // of an acquire with an unknown outcome; otherwise nil
  std::optional<Extension> pending_;  // an extension with an unknown outcome
  std::optional<Error> failure_;
  Instant failed_at_{};

  // Separate, because a child of fork() must not touch what its parent's thread waits on.
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
