#include "sequences/group_commit.h"

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "base/errors.h"
#include "base/submitted.h"
#include "sequences/strategies.h"
#include "store/counter_store.h"

namespace idmint {
namespace {

constexpr std::uint64_t kTooMany = std::uint64_t{1} << 63;  // more than any counter holds

// A sequence keeps no memory for requests if its last round had at most this many.
constexpr std::size_t kFew = 4;

// The number of times a leader yields while nobody comes, before it starts a round.
constexpr int kPatience = 64;

std::string waited_since(SteadyTime begun) {
  const auto waited = std::chrono::steady_clock::now() - begun;
  return std::to_string(std::chrono::round<std::chrono::milliseconds>(waited).count()) + " ms";
}

}  // namespace

struct GroupCommit::Waiter {
  enum class State : std::uint8_t {
    kWaiting,
    kLead,  // its request still waits, and it must run the round
    kAnswered,
    kLeft,  // it gets no answer any more
  };

  // Sets the state to `next` and runs `change`. False: the caller has left.
  template <class Change>
  bool tell(State next, const Change& change) {
    {
      const std::lock_guard lock(mutex);
      if (state == State::kLeft) return false;
      change();
      state = next;
    }
    changed.notify_one();
    return true;
  }

  std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  State state = State::kWaiting;
  Result<Range> answer;
};

GroupCommit::GroupCommit(RangeSource& rounds, std::string sequence, std::size_t max_outstanding,
                         std::chrono::milliseconds deadline, Executor& executor)
    : rounds_(rounds),
      sequence_(std::move(sequence)),
      max_outstanding_(max_outstanding),
      deadline_(deadline),
      executor_(executor),
      gate_(std::make_shared<Gate>()),
      mutex_(gate_->mutex) {
  gate_->group_commit = this;
}

GroupCommit::~GroupCommit() { close(); }

// A new waiter if the thread left its latest call and that round has not ended yet.
std::shared_ptr<GroupCommit::Waiter> GroupCommit::this_threads_waiter() {
  thread_local auto waiter = std::make_shared<Waiter>();
  if (waiter->state == Waiter::State::kLeft) waiter = std::make_shared<Waiter>();
  return waiter;
}

Result<Range> GroupCommit::take(std::int64_t count, SteadyTime until) {
  return wait_for(count, nullptr, until);
}

Result<void> GroupCommit::fill(std::span<std::int64_t> out, SteadyTime until) {
  const auto count = static_cast<std::int64_t>(out.size());
  if (Result<Range> filled = wait_for(count, out.data(), until); !filled) {
    return std::unexpected(std::move(filled).error());
  }
  return {};
}

Result<Range> GroupCommit::wait_for(std::int64_t count, std::int64_t* out, SteadyTime until) {
  if (inherited()) return std::unexpected(inherited_through_fork(sequence_));
  const SteadyTime begun = std::chrono::steady_clock::now();
  until = std::min(until, begun + deadline_);
  const std::shared_ptr<Waiter> waiter = this_threads_waiter();
  waiter->state = Waiter::State::kWaiting;
  bool leads = false;
  {
    const std::lock_guard lock(mutex_);
    if (auto why = refusal(count, 1)) return std::unexpected(*std::move(why));
    leads = may_lead(until);
    if (leads) phase_ = Phase::kGathering;
    enqueue({count, until, out, waiter});
  }
  if (!leads) {
    std::unique_lock lock(waiter->mutex);
    const auto is_told = [&] { return waiter->state != Waiter::State::kWaiting; };
    if (!waiter->changed.wait_until(lock, until, is_told)) {
      waiter->state = Waiter::State::kLeft;
      lock.unlock();
      return std::unexpected(leave(waiter, begun));
    }
    leads = waiter->state == Waiter::State::kLead;
    lock.unlock();
    if (leads && std::chrono::steady_clock::now() >= until) {
      return std::unexpected(leave(waiter, begun));
    }
  }
  if (leads) lead(until);
  return std::move(waiter->answer);
}

// Removes a caller that has no time left, and returns its error. If it was to lead, another caller
// leads.
Error GroupCommit::leave(const std::shared_ptr<Waiter>& waiter, SteadyTime begun) {
  std::unique_lock lock(mutex_);
  const auto removed =  // 0: its round has begun
      std::erase_if(queue_, [&](const Request& request) { return request.waiter == waiter; });
  queued_.store(queue_.size(), std::memory_order_relaxed);
  outstanding_ -= removed;
  if (waiter->state == Waiter::State::kLead) pass_on(lock);
  const std::string waited = "waited " + waited_since(begun);
  if (removed > 0) {
    return about(
        "sequence " + sequence_,
        {Code::kUnavailable,
         waited + " for the calls before it, which the store has not answered; nothing was "
                  "taken for this call; ask again"});
  }
  return about(
      "sequence " + sequence_,
      {Code::kDeadlineExceeded,
       waited + " for the store; the values may have been taken or not, now or later, and are "
                "lost; ask again"});
}

Result<void> GroupCommit::submit(std::int64_t count, Done done) {
  return queue_request({.count = count, .then = std::move(done)});
}

Result<void> GroupCommit::submit_fill(std::span<std::int64_t> out, Filled done) {
  if (out.empty()) return submit_nothing(executor_, std::move(done));
  return queue_request({.count = std::ssize(out), .out = out.data(), .then = std::move(done)});
}

Result<void> GroupCommit::submit_each(std::span<std::int64_t> out, ServedEach done) {
  if (out.empty())
    return submit_nothing(executor_, [done = std::move(done)](Result<void>) mutable { done({}); });
  return queue_request({.count = std::ssize(out), .out = out.data(), .then = std::move(done)});
}

Result<void> GroupCommit::queue_request(Request&& request) {
  if (inherited()) return std::unexpected(inherited_through_fork(sequence_));
  request.until = std::chrono::steady_clock::now() + deadline_;
  const std::lock_guard lock(mutex_);
  if (auto why = refusal(request.count, request.callers())) return std::unexpected(*std::move(why));
  if (phase_ == Phase::kIdle) {
    if (auto posted = post(); !posted) return posted;
  }
  enqueue(std::move(request));
  return {};
}

void GroupCommit::close() noexcept {
  if (inherited()) return;
  std::unique_lock lock(mutex_);
  closed_ = true;
  gate_->group_commit = nullptr;
  if (phase_ == Phase::kPosted) phase_ = Phase::kIdle;  // the task will find the gate closed
  // A leader that gathers answers the queue itself, at once. A leader in its round reaches the
  // queue only later, so it is answered here.
  if (phase_ != Phase::kGathering) drain(lock);
  changed_.wait(lock, [this] { return phase_ == Phase::kIdle && queue_.empty(); });
}

bool GroupCommit::is_closed() const noexcept {
  if (inherited()) return false;
  const std::lock_guard lock(mutex_);
  return closed_ && phase_ == Phase::kIdle && queue_.empty();
}

SequenceStatistics GroupCommit::statistics() const noexcept {
  if (inherited()) return {};
  const std::lock_guard lock(mutex_);
  return {requests_, rounds_.tally().round_trips(), values_, rounds_.tally().waste()};
}

std::optional<Error> GroupCommit::refusal(std::int64_t count, std::int64_t callers) const {
  if (count < 1) {
    return about("sequence " + sequence_,
                 {Code::kInvalidArgument,
                  "cannot take " + std::to_string(count) + " values; ask for at least 1"});
  }
  if (closed_) return about("sequence " + sequence_, {Code::kUnavailable, "closed"});
  if (outstanding_ + static_cast<std::size_t>(callers) > max_outstanding_)
    return too_many_wait("sequence " + sequence_, max_outstanding_);
  return std::nullopt;
}

void GroupCommit::enqueue(Request&& request) {
  outstanding_ += static_cast<std::size_t>(request.callers());
  queue_.push_back(std::move(request));
  queued_.store(queue_.size(), std::memory_order_relaxed);
}

std::int64_t GroupCommit::callers_of(std::span<const Request> group) noexcept {
  std::int64_t callers = 0;
  for (const Request& request : group) callers += request.callers();
  return callers;
}

void GroupCommit::Request::fail(const Error& error) {
  if (auto* const done = std::get_if<Done>(&then)) return (*done)(std::unexpected(error));
  if (auto* const filled = std::get_if<Filled>(&then)) return (*filled)(std::unexpected(error));
  std::get<ServedEach>(then)({.callers = 0, .error = error});
}

// Posts a task of the executor that leads. Under the lock.
Result<void> GroupCommit::post() {
  auto posted = executor_.post([gate = gate_] {
    std::unique_lock lock(gate->mutex);
    if (gate->group_commit != nullptr) gate->group_commit->take_turn(lock);
  });
  if (posted) phase_ = Phase::kPosted;
  return posted;
}

// Whether a blocking caller that comes now must lead.
bool GroupCommit::may_lead(SteadyTime until) const {
  return phase_ == Phase::kIdle || (phase_ == Phase::kPosted && !cuts_short(until));
}

// Whether a round with this deadline would cost an asynchronous request more than a quarter of its
// time. These are in the order of their deadlines.
bool GroupCommit::cuts_short(SteadyTime until) const {
  const auto first = std::ranges::find(queue_, nullptr, &Request::waiter);
  return first != queue_.end() && until < first->until - deadline_ / 4;
}

// The work of a task of the executor. Another leader may have come first.
void GroupCommit::take_turn(std::unique_lock<std::mutex>& lock) noexcept {
  if (phase_ != Phase::kPosted) return;
  const SteadyTime end = std::chrono::steady_clock::now() + executor_.turn();
  do {
    phase_ = Phase::kGathering;
    lock.unlock();
    gather();
    lock.lock();
    run_round(lock, SteadyTime::max());
  } while (!closed_ && !queue_.empty() && std::chrono::steady_clock::now() < end);
  pass_on(lock);
  // Frees the memory of a rarely used sequence, since a process may have many. A busy one keeps its
  // memory.
  if (phase_ == Phase::kIdle && carried_ <= kFew) {
    round_ = std::vector<Request>();
    queue_ = std::vector<Request>();
  }
}

// The work of a leading caller. `until` is its deadline.
void GroupCommit::lead(SteadyTime until) noexcept {
  gather();
  std::unique_lock lock(mutex_);
  run_round(lock, until);
  pass_on(lock);
}

// `until` is the leader's deadline. noexcept, like all its callers: without memory, ending the
// process is better than leaving callers waiting.
void GroupCommit::run_round(std::unique_lock<std::mutex>& lock, SteadyTime until) {
  if (!closed_) {
    round_.swap(queue_);
    queued_.store(0, std::memory_order_relaxed);
    phase_ = Phase::kRound;
    carried_ = round_.size();
    lock.unlock();
    const auto blocking = std::ranges::count_if(
        round_, [](const Request& request) { return request.waiter != nullptr; });
    std::uint64_t refused = kTooMany;
    if (const std::span<Request> group = in_time(); !group.empty()) {
      serve(group, end_of_round(group, until), refused);
    }
    round_.clear();
    lock.lock();
    expected_ = queue_.size() + static_cast<std::size_t>(blocking);
  }
}

// Passes the lead on: to the blocking caller with the most time left or, if there is none or it
// would cut others short, to a task.
void GroupCommit::pass_on(std::unique_lock<std::mutex>& lock) {
  const auto time_left = [](const Request& request) {
    return request.waiter ? request.until : SteadyTime::min();
  };
  for (;;) {
    if (closed_) drain(lock);
    if (queue_.empty()) break;
    const auto heir = std::ranges::max_element(queue_, {}, time_left);
    if (heir->waiter && !cuts_short(heir->until)) {
      phase_ = Phase::kGathering;
      if (heir->waiter->tell(Waiter::State::kLead, [] {})) return;
      // It has left, and so have all other blocking callers.
    }
    if (std::ranges::find(queue_, nullptr, &Request::waiter) == queue_.end()) break;
    const Result<void> posted = post();
    if (posted) return;
    refuse_asynchronous(lock, posted.error());
  }
  phase_ = Phase::kIdle;
  changed_.notify_all();
}

// Answers the asynchronous requests of the queue, without the lock.
void GroupCommit::refuse_asynchronous(std::unique_lock<std::mutex>& lock, const Error& error) {
  phase_ = Phase::kGathering;  // no other leader meanwhile
  std::vector<Request> refused;
  for (Request& request : queue_) {
    if (!request.waiter) refused.push_back(std::move(request));
  }
  std::erase_if(queue_, [](const Request& request) { return !request.waiter; });
  queued_.store(queue_.size(), std::memory_order_relaxed);
  lock.unlock();
  fail(refused, error);
  lock.lock();
}

// Lets the callers that were just answered queue again, so that this round carries them too.
void GroupCommit::gather() const noexcept {
  std::size_t seen = queued_.load(std::memory_order_relaxed);
  for (int idle = 0; idle < kPatience && seen < expected_; ++idle) {
    std::this_thread::yield();
    const std::size_t now = queued_.load(std::memory_order_relaxed);
    if (now != seen) idle = 0;
    seen = now;
  }
}

// Answers the asynchronous requests that have little time left, and returns the others of the
// round.
std::span<GroupCommit::Request> GroupCommit::in_time() {
  const SteadyTime soon = std::chrono::steady_clock::now() + deadline_ / 4;
  std::vector<Request> late;
  auto kept = round_.begin();
  for (auto request = round_.begin(); request != round_.end(); ++request) {
    if (!request->waiter && request->until <= soon) {
      late.push_back(std::move(*request));
    } else if (kept++ != request) {
      *std::prev(kept) = std::move(*request);
    }
  }
  round_.erase(kept, round_.end());
  if (!late.empty()) {
    fail(late, about("sequence " + sequence_,
                     {Code::kUnavailable,
                      "no round had begun in time, as those before it took long; nothing was taken "
                      "for this request; ask again"}));
  }
  return round_;
}

// The earliest deadline of the requests that cannot leave, or else the latest of all. `leaders`:
// the leader's deadline.
SteadyTime GroupCommit::end_of_round(std::span<const Request> group, SteadyTime leaders) {
  SteadyTime earliest = leaders;
  SteadyTime latest = SteadyTime::min();
  for (const Request& request : group) {
    if (!request.waiter) earliest = std::min(earliest, request.until);
    latest = std::max(latest, request.until);
  }
  return std::min(earliest, latest);
}

// Serves the group as if one by one in order. `refused`: a number of values known not to be left.
void GroupCommit::serve(std::span<Request> group, SteadyTime until, std::uint64_t& refused) {
  std::uint64_t sum = 0;
  for (const Request& request : group) {
    sum = std::min(sum + static_cast<std::uint64_t>(request.count), kTooMany);
  }
  const bool ones = sum > 1 && sum == static_cast<std::uint64_t>(callers_of(group));
  if (sum < refused || (ones && refused > 1)) {
    const Result<std::span<Range>> values =
        rounds_.advance(static_cast<std::int64_t>(sum), ones ? Take::kTail : Take::kAll, until);
    // More than one statement of the store takes at once, and each caller alone may want less.
    if (!values && values.error().code == Code::kInvalidArgument && group.size() > 1)
      return serve_halves(group, until, refused);
    if (!values && values.error().code != Code::kOutOfRange) {
      fail(group, values.error());
      return;
    }
    if (values) {
      const bool ended = static_cast<std::uint64_t>(values_in(*values)) < sum;
      group = hand_out(group, *values);
      if (ended) refused = 1;
      if (group.empty()) return;
    }
    refused = ones ? 1 : sum;
  }
  if (group.size() == 1 || refused == 1) {
    fail(group, rounds_.refusal(refused));
    return;
  }
  serve_halves(group, until, refused);
}

void GroupCommit::serve_halves(std::span<Request> group, SteadyTime until, std::uint64_t& refused) {
  serve(group.first(group.size() / 2), until, refused);
  serve(group.subspan(group.size() / 2), until, refused);
}

// Answers the first requests of the group, as far as the values reach, and returns the others.
// There are others only if each caller wants one value.
std::span<GroupCommit::Request> GroupCommit::hand_out(std::span<Request> group,
                                                      std::span<Range> values) {
  std::int64_t rest = values_in(values);
  std::size_t fit = 0;
  while (fit < group.size() && group[fit].count <= rest) rest -= group[fit++].count;
  const std::span<Request> others = group.subspan(fit);
  group = group.first(fit);
  {
    const std::lock_guard lock(mutex_);
    const auto callers = static_cast<std::size_t>(callers_of(group) + rest);
    requests_ += callers;
    values_ += values_in(values);
    outstanding_ -= callers;
  }
  std::uint64_t left = 0;
  std::int64_t waste = 0;
  const auto values_of = [&](const Request& request) {
    if (request.out == nullptr) return pop(values, request.count);
    pop_into(values, request.count, request.out);
    return Range{};
  };
  for (Request& request : group) {
    const auto answer = [&] { request.waiter->answer = values_of(request); };
    if (!request.waiter) {
      if (auto* const done = std::get_if<Done>(&request.then)) {
        (*done)(pop(values, request.count));
        continue;
      }
      pop_into(values, request.count, request.out);
      if (auto* const filled = std::get_if<Filled>(&request.then)) {
        (*filled)({});
      } else {
        std::get<ServedEach>(request.then)({static_cast<std::size_t>(request.count)});
      }
    } else if (!request.waiter->tell(Waiter::State::kAnswered, answer)) {
      pop_into(values, request.count, nullptr);
      ++left;
      waste += request.count;
    }
  }
  if (rest > 0) answer_some(others.front(), rest, values);
  if (left > 0) {
    rounds_.add_waste(waste);
    const std::lock_guard lock(mutex_);
    requests_ -= left;
    values_ -= waste;
  }
  return rest > 0 ? others.subspan(1) : others;
}

// Answers a request whose callers want one value each: the first `count` of them have theirs, and
// no more are left.
void GroupCommit::answer_some(Request& request, std::int64_t count, std::span<Range> values) {
  pop_into(values, count, request.out);
  {
    const std::lock_guard lock(mutex_);
    outstanding_ -= static_cast<std::size_t>(request.callers() - count);
  }
  std::get<ServedEach>(request.then)({static_cast<std::size_t>(count), rounds_.refusal(1)});
}

void GroupCommit::fail(std::span<Request> group, const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    outstanding_ -= static_cast<std::size_t>(callers_of(group));
  }
  for (Request& request : group) {
    if (!request.waiter) {
      request.fail(error);
    } else {
      static_cast<void>(request.waiter->tell(
          Waiter::State::kAnswered, [&] { request.waiter->answer = std::unexpected(error); }));
    }
  }
}

// Answers the whole queue of a closed group commit, without the lock.
void GroupCommit::drain(std::unique_lock<std::mutex>& lock) {
  std::vector<Request> queue = std::exchange(queue_, {});
  queued_.store(0, std::memory_order_relaxed);
  lock.unlock();
  fail(queue,
       about("sequence " + sequence_, {Code::kUnavailable, "closed while the request waited"}));
  lock.lock();
}

}  // namespace idmint
