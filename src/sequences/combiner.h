// Combiner: callers queue while a round is under way, and the next round serves them all.
// CounterSequence documents what callers see of it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fork_wiped.h"
#include "idmint/clock.h"
#include "idmint/executor.h"
#include "idmint/result.h"
#include "idmint/sequence.h"
#include "sequences/rounds.h"
#include "stores/spi/counter_store.h"

namespace idmint {

// A round takes everybody who queues, in arrival order. A leader runs it: a thread in take() or
// fill(), or, where nobody blocks, a task of the executor, which gives way to other tasks after
// Executor::turn(). The leader answers the callers of its round before the next round starts,
// and the next leader gives them a short chance to queue again. Otherwise callers over a remote
// store split into two halves that each wait for two rounds.
//
// A blocking caller does not wait for a task that has not begun: it leads in place of the task,
// unless its own deadline would take more than a quarter of their time from asynchronous requests.
//
// Every call has a deadline of its own. A blocking caller leaves at its deadline: before its round
// began nothing was taken for it (kUnavailable); afterwards its values may have been taken, and are
// waste (kDeadlineExceeded). The leader and asynchronous requests cannot leave, so the round ends
// by the earliest of their deadlines, and all others in it share its outcome. Therefore the caller
// with the most time left leads, and an asynchronous request that has waited three quarters of its
// time is kUnavailable rather than part of a round that it would cut short.
//
// Where the values come from, and what of a store can be believed, is for the Rounds.
//
// At the bound nothing is lost: the sum is asked for as a whole, and where it does not fit the
// round is halved, again and again, until each caller has its values or is known not to fit. Only
// where everybody wants one value is it "as many as are left", since then whatever comes is handed
// out. Taking a rest that nobody fits would end the sequence for every other process.
//
// May be shared by threads. In a child of fork() every call answers kFailedPrecondition and touches
// no lock; the child must not destroy it (inherited()).
class Combiner {
 public:
  using Done = std::move_only_function<void(Result<Range>)>;
  using Filled = std::move_only_function<void(Result<void>)>;

  // `rounds` must outlive the combiner, which alone calls it. `sequence` is the name in messages.
  // `deadline`: the longest that a call waits.
  Combiner(Rounds& rounds, std::string sequence, std::size_t max_outstanding,
           std::chrono::milliseconds deadline, Executor& executor);
  ~Combiner();  // as close(); not in a child of fork()
  Combiner(const Combiner&) = delete;
  Combiner& operator=(const Combiner&) = delete;

  // REQUIRES, of both: each round is one range.
  [[nodiscard]] Result<Range> take(std::int64_t count, SteadyTime until = SteadyTime::max());
  // On an error `done` is never called. Otherwise it is called once, and not inside submit().
  [[nodiscard]] Result<void> submit(std::int64_t count, Done done);
  // The same for values of any ranges: each fills all of `out`, or nothing in it is to be used.
  // submit_fill() may be asked for no value.
  [[nodiscard]] Result<void> fill(std::span<std::int64_t> out,
                                  SteadyTime until = SteadyTime::max());
  [[nodiscard]] Result<void> submit_fill(std::span<std::int64_t> out, Filled done);
  void close() noexcept;
  [[nodiscard]] SequenceStatistics statistics() const noexcept;

  // Whether close() has returned, so that nobody calls the rounds any more.
  [[nodiscard]] bool is_closed() const noexcept;

  // Made by the parent of this process.
  [[nodiscard]] bool inherited() const noexcept { return !owned_; }
  // How many callers wait for a round that has not started. At once out of date.
  [[nodiscard]] std::size_t queued() const noexcept { return queued_.load(); }

 private:
  // A blocking caller. Each thread has one for all its calls; a request shares it, because whoever
  // notifies it may still be about to when the caller has long returned.
  struct Waiter;
  struct Request {
    std::int64_t count;
    SteadyTime until;
    std::int64_t* out;               // where the values go; null: the answer is their range
    std::shared_ptr<Waiter> waiter;  // null: an asynchronous one, which has one of these:
    Done done;
    Filled filled;  // if `out` is not null
  };
  // What a task of the executor shares with the combiner, which may be gone when the task begins.
  struct Gate {
    std::mutex mutex;
    Combiner* combiner;  // null: closed
  };
  enum class Phase : std::uint8_t {
    kIdle,       // nobody leads; the queue is empty
    kPosted,     // a task is to lead; whoever comes before it begins may lead in its place
    kGathering,  // somebody leads, or was told to, and will look at the queue
    kRound,      // the leader is busy with its round and will look at the queue after it
  };

  [[nodiscard]] static std::shared_ptr<Waiter> this_threads_waiter();
  [[nodiscard]] std::optional<Error> refusal(std::int64_t count) const;
  [[nodiscard]] Result<Range> wait_for(std::int64_t count, std::int64_t* out, SteadyTime until);
  [[nodiscard]] Error leave(const std::shared_ptr<Waiter>& waiter, SteadyTime begun);
  [[nodiscard]] Result<void> queue_request(std::int64_t count, std::int64_t* out, Done&& done,
                                           Filled&& filled);
  void enqueue(Request&& request);
  [[nodiscard]] Result<void> post();
  [[nodiscard]] bool may_lead(SteadyTime until) const;
  [[nodiscard]] bool cuts_short(SteadyTime until) const;
  void take_turn(std::unique_lock<std::mutex>& lock) noexcept;
  void lead(SteadyTime until) noexcept;
  void run_round(std::unique_lock<std::mutex>& lock, SteadyTime until);
  void pass_on(std::unique_lock<std::mutex>& lock);
  void refuse_asynchronous(std::unique_lock<std::mutex>& lock, const Error& error);
  void gather() const noexcept;
  [[nodiscard]] std::span<Request> in_time();
  [[nodiscard]] static SteadyTime end_of_round(std::span<const Request> group, SteadyTime leaders);
  void serve(std::span<Request> group, SteadyTime until, std::uint64_t& refused);
  void hand_out(std::span<Request> group, std::span<Range> values);
  void fail(std::span<Request> group, const Error& error);
  void drain(std::unique_lock<std::mutex>& lock);

  Rounds& rounds_;
  const std::string sequence_;
  const std::size_t max_outstanding_;
  const std::chrono::milliseconds deadline_;
  Executor& executor_;
  const OwnedByProcess owned_;

  std::vector<Request> round_;  // the leader's

  const std::shared_ptr<Gate> gate_;
  std::mutex& mutex_;                // the gate's; guards what follows
  std::condition_variable changed_;  // for close()
  std::vector<Request> queue_;
  std::atomic<std::size_t> queued_{0};  // queue_.size(), for looking without the lock
  std::size_t outstanding_ = 0;         // queued, or in a round and not answered
  std::size_t carried_ = 0;             // by the latest round
  std::size_t expected_ = 0;            // how many may queue now if all of the last round come back
  Phase phase_ = Phase::kIdle;
  bool closed_ = false;
  std::uint64_t requests_ = 0;  // answered with values
  std::int64_t values_ = 0;     // handed out
};

}  // namespace idmint
