// One of the connections that a replay writes with.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "idmint/result.h"
#include "restore/oplog/entry.h"
#include "restore/replay/chain.h"
#include "restore/server.h"

namespace idmint::restore {

// Applies operations in batches, in the order in which it is given them, in a thread of its own.
// One thread adds, sends and waits.
class Worker {
 public:
  // Of all workers of a replay; outlives them.
  struct Shared {
    std::mutex lock;
    std::condition_variable changed;
    std::optional<Error> failed;      // whichever was the first; none goes on after it
    std::vector<std::string> missed;  // the first of the updates that found no document, in words
  };

  Worker(Server server, Chain chain, bool slice, Shared& shared);
  // What was handed over and not begun is not applied.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void start();

  // Where no batch waits or is at work.
  [[nodiscard]] const Chain& chain() const { return chain_; }

  // Copies it into the batch at hand.
  [[nodiscard]] Result<void> add(const Operation& operation, const Position& position);
  // Hands the batch at hand to the thread, when that has room.
  [[nodiscard]] Result<void> send();
  // Until all that was handed over is applied.
  [[nodiscard]] Result<void> wait();

 private:
  struct Batch;

  void work();
  Answer try_once(const Batch& batch, std::size_t begin, std::size_t end, bool missed,
                  Counts& counts);
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
  std::unique_ptr<Batch> batch_;
  std::deque<std::unique_ptr<Batch>> waiting_;  // this and what follows: with the lock
  bool working_ = false;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace idmint::restore
