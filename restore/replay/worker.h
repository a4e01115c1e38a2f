// A worker: one of the connections through which a replay writes.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "restore/error_in.h"
#include "restore/oplog/entry.h"
#include "restore/replay/chain.h"
#include "restore/replay/outcomes.h"
#include "restore/server.h"

namespace idmint::restore {

// Applies operations in batches, in the order of add(), in a thread of its own. Another single
// thread calls add(), send() and wait().
class Worker {
 public:
  // Shared by all workers of a replay; outlives them.
  struct Shared {
    std::mutex lock;
    std::condition_variable changed;
    std::optional<Error> failed;      // the first error; all workers stop
    std::vector<std::string> missed;  // the first updates that found no document, in words
    Outcomes outcomes;                // of the oplog after the base
  };

  Worker(Server server, Chain chain, bool slice, Shared& shared);
  // Discards batches that have not begun.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void start();

  // To be called only while no batch waits or is being applied.
  [[nodiscard]] const Chain& chain() const { return chain_; }

  // Copies the operation into the current batch. `life`: of its collection; see Lives.
  [[nodiscard]] Result<void> add(const Operation& operation, const Position& position,
                                 const std::string& life);
  // Passes the current batch to the thread; waits until it has room.
  [[nodiscard]] Result<void> send();
  // Waits until all batches are applied.
  [[nodiscard]] Result<void> wait();

 private:
  struct Batch;
  struct NetPart;
  // The numbers that a batch leaves behind.
  struct Sums {
    Counts counts;
    Outcomes outcomes;  // those that it changes
  };

  void work();
  Result<void> foresee(Batch& batch);
  [[nodiscard]] Result<NetPart> net_part(const Batch& batch, std::size_t begin,
                                         std::size_t end) const;
  Answer try_once(const Batch& batch, std::size_t begin, std::size_t end, bool missed,
                  const Operations& operations, Sums& sums);
  [[nodiscard]] bool was_too_large(const Answer& answer, std::size_t operations);
  void advance(const Position& position, const Sums& sums);
  Result<void> apply_net(const Batch& batch, std::size_t begin, std::size_t end);
  Result<void> apply(const Batch& batch, std::size_t begin, std::size_t end);
  static std::string words(const Batch& batch, std::size_t failed);
  static std::unexpected<Error> refused(const Batch& batch, std::size_t failed,
                                        const Answer& answer);
  std::unexpected<Error> broken(const Batch& batch, std::size_t failed);

  Server server_;
  Chain chain_;
  const Position chain_begin_;
  const bool slice_;
  Shared& shared_;
  std::size_t most_;         // operations of one applyOps
  std::size_t applied_ = 0;  // batches, since that was changed
  std::unique_ptr<Batch> batch_;
  std::deque<std::unique_ptr<Batch>> waiting_;  // shared_.lock guards it and the next
  bool working_ = false;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace idmint::restore
