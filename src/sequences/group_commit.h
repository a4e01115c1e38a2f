// GroupCommit: group commit. Callers queue while a round is under way, and the next round serves
// them all. CounterSequence documents the behaviour for callers.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/fork_wiped.h"
#include "idmint/clock.h"
#include "idmint/executor.h"
#include "idmint/result.h"
#include "idmint/sequence.h"
#include "sequences/range_source.h"
#include "store/counter_store.h"

namespace idmint {

// A round takes the whole queue, in order of arrival. A leader runs it: a thread in take() or
// fill() or, if nobody blocks, a task of the executor, which yields to other tasks after
// Executor::turn(). The leader answers the callers of its round before the next round starts, and
// the next leader gives them a short time to queue again. Otherwise callers over a remote store
// would split into two halves that each wait for two rounds.
//
// A blocking caller does not wait for a task that has not begun: it leads in its place. The
// exception is a caller whose deadline would cost asynchronous requests more than a quarter of
// their time.
//
// Every call has its own deadline. A blocking caller leaves at its deadline. Before its round
// began, nothing was taken for it (kUnavailable); afterwards its values may have been taken, and
// are waste (kDeadlineExceeded). The leader and asynchronous requests cannot leave, so the round
// ends by the earliest of their deadlines, and all others in it share its outcome. Therefore the
// caller with the most time left leads. An asynchronous request that has waited three quarters of
// its time fails with kUnavailable, because it would cut the round short.
//
// The RangeSource supplies the values and verifies the store. If it refuses the sum of a round as
// too large for one step (kInvalidArgument), the round is halved, so that no caller fails for the
// others.
//
// Nothing is lost at the end of the sequence. The sum is requested as a whole. If too few values
// are left, the round is halved repeatedly, until each caller has its values or is known not to
// fit. Only if every caller wants one value is "as many as are left" requested, since all of them
// are handed out. Callers who come together (submit_each()) share a request. To take a rest that
// fits nobody would end the sequence for every other process.
//
// Threads may share it. In a child of fork() every call fails with kFailedPrecondition and touches
// no lock; the child must not destroy it (inherited()).
class GroupCommit {
 public:
  using Done = MoveOnlyFunction<void(Result<Range>)>;
  using Filled = MoveOnlyFunction<void(Result<void>)>;
  using ServedEach = MoveOnlyFunction<void(CounterSequence::Served)>;

  // `rounds` must outlive the group commit, its only caller. `sequence` is the name in messages.
  // `deadline` is the longest that a call waits.
  GroupCommit(RangeSource& rounds, std::string sequence, std::size_t max_outstanding,
              std::chrono::milliseconds deadline, Executor& executor);
  ~GroupCommit();  // calls close(); not in a child of fork()
  GroupCommit(const GroupCommit&) = delete;
  GroupCommit& operator=(const GroupCommit&) = delete;

  // REQUIRES for both: each round is one range.
  [[nodiscard]] Result<Range> take(std::int64_t count, SteadyTime until = SteadyTime::max());
  // On an error `done` is never called. Otherwise it is called once, not inside submit().
  [[nodiscard]] Result<void> submit(std::int64_t count, Done done);
  // The same for values of any ranges. Fills all of `out`; on an error its content must not be
  // used. submit_fill() accepts an empty `out`.
  [[nodiscard]] Result<void> fill(std::span<std::int64_t> out,
                                  SteadyTime until = SteadyTime::max());
  [[nodiscard]] Result<void> submit_fill(std::span<std::int64_t> out, Filled done);
  // The same for out.size() callers who want one value each.
  [[nodiscard]] Result<void> submit_each(std::span<std::int64_t> out, ServedEach done);
  void close() noexcept;
  [[nodiscard]] SequenceStatistics statistics() const noexcept;

  // Whether close() has returned; the rounds are not called any more.
  [[nodiscard]] bool is_closed() const noexcept;

  // Whether an ancestor by fork() made it.
  [[nodiscard]] bool inherited() const noexcept { return !owned_; }
  // The number of callers that wait for a round that has not started; may be out of date at once.
  [[nodiscard]] std::size_t queued() const noexcept { return queued_.load(); }

 private:
  // A blocking caller. Each thread has one for all its calls. Requests share it, because the
  // notifying thread may still use it long after the caller has returned.
  struct Waiter;
  struct Request {
    std::int64_t count;
    SteadyTime until{};
    std::int64_t* out = nullptr;       // for the values; null: the answer is their range
    std::shared_ptr<Waiter> waiter{};  // null: asynchronous, with `then`
    std::variant<Done, Filled, ServedEach> then{};  // Done: `out` is null

    // How many callers share it: each of several gets one value.
    [[nodiscard]] std::int64_t callers() const noexcept {
      return std::holds_alternative<ServedEach>(then) ? count : 1;
    }
    void fail(const Error& error);
  };
  // Shared by a task of the executor and the group commit, which may be gone when the task begins.
  struct Gate {
    std::mutex mutex;
    GroupCommit* group_commit;  // null: closed
  };
  enum class Phase : std::uint8_t {
    kIdle,       // nobody leads; the queue is empty
    kPosted,     // a task will lead; a caller that comes before it begins may lead in its place
    kGathering,  // there is a leader, who will look at the queue
    kRound,      // the leader runs its round, and will look at the queue afterwards
  };

  [[nodiscard]] static std::shared_ptr<Waiter> this_threads_waiter();
  [[nodiscard]] std::optional<Error> refusal(std::int64_t count, std::int64_t callers) const;
  [[nodiscard]] static std::int64_t callers_of(std::span<const Request> group) noexcept;
  [[nodiscard]] Result<Range> wait_for(std::int64_t count, std::int64_t* out, SteadyTime until);
  [[nodiscard]] Error leave(const std::shared_ptr<Waiter>& waiter, SteadyTime begun);
  [[nodiscard]] Result<void> queue_request(Request&& request);
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
  void serve_halves(std::span<Request> group, SteadyTime until, std::uint64_t& refused);
  [[nodiscard]] std::span<Request> hand_out(std::span<Request> group, std::span<Range> values);
  void answer_some(Request& request, std::int64_t count, std::span<Range> values);
  void fail(std::span<Request> group, const Error& error);
  void drain(std::unique_lock<std::mutex>& lock);

  RangeSource& rounds_;
  const std::string sequence_;
  const std::size_t max_outstanding_;
  const std::chrono::milliseconds deadline_;
  Executor& executor_;
  const OwnedByProcess owned_;

  std::vector<Request> round_;  // the leader's

  const std::shared_ptr<Gate> gate_;
  std::mutex& mutex_;                // the gate's; guards the members below
  std::condition_variable changed_;  // for close()
  std::vector<Request> queue_;
  std::atomic<std::size_t> queued_{0};  // queue_.size(), for reading without the lock
  std::size_t outstanding_ = 0;         // callers in the queue, or in a round without an answer
  std::size_t carried_ = 0;             // requests in the latest round
  std::size_t expected_ = 0;            // queue length if all of the last round come back
  Phase phase_ = Phase::kIdle;
  bool closed_ = false;
  std::uint64_t requests_ = 0;  // callers that got values
  std::int64_t values_ = 0;     // values handed out
};

}  // namespace idmint
