#include "sequences/combiner.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace idmint {
namespace {

constexpr std::uint64_t kTooMany = std::uint64_t{1} << 63;  // more than any counter holds

// States of a waiter.
constexpr std::uint32_t kWaiting = 0;
constexpr std::uint32_t kLead = 1;  // its request still waits, and it is to run the round
constexpr std::uint32_t kAnswered = 2;

// How often a leader lets others run while nobody comes, before it starts a round without them.
constexpr int kPatience = 64;

Error inherited_through_fork(const std::string& sequence) {
  return {Code::kFailedPrecondition,
          "sequence " + sequence + ": opened before fork(); open it again in the child"};
}

void copy(std::span<Range>& values, std::span<std::int64_t> out) {
  while (!out.empty()) {
    const Range run = pop(values, static_cast<std::int64_t>(out.size()));
    for (std::int64_t i = 0; i < run.count; ++i) out[static_cast<std::size_t>(i)] = run.at(i);
    out = out.subspan(static_cast<std::size_t>(run.count));
  }
}

}  // namespace

struct Combiner::Waiter {
  std::atomic<std::uint32_t> state{kWaiting};
  std::int64_t* out = nullptr;  // where the values go; null: the answer is their range
  Result<Range> answer;         // written before state becomes kAnswered
};

Combiner::Combiner(Rounds& rounds, std::string sequence, std::size_t max_outstanding,
                   std::chrono::milliseconds deadline)
    : rounds_(rounds),
      sequence_(std::move(sequence)),
      max_outstanding_(max_outstanding),
      deadline_(deadline) {}

Combiner::~Combiner() { close(); }

std::shared_ptr<Combiner::Waiter> Combiner::this_threads_waiter() {
  thread_local const auto waiter = std::make_shared<Waiter>();
  return waiter;
}

Result<Range> Combiner::take(std::int64_t count, SteadyTime until) {
  return wait_for(count, nullptr, until);
}

Result<void> Combiner::fill(std::span<std::int64_t> out, SteadyTime until) {
  const auto count = static_cast<std::int64_t>(out.size());
  if (Result<Range> filled = wait_for(count, out.data(), until); !filled) {
    return std::unexpected(std::move(filled).error());
  }
  return {};
}

Result<Range> Combiner::wait_for(std::int64_t count, std::int64_t* out, SteadyTime until) {
  if (inherited()) return std::unexpected(inherited_through_fork(sequence_));
  until = std::min(until, std::chrono::steady_clock::now() + deadline_);
  const std::shared_ptr<Waiter> waiter = this_threads_waiter();
  waiter->state.store(kWaiting, std::memory_order_relaxed);
  waiter->out = out;
  bool leads = false;
  {
    const std::lock_guard lock(mutex_);
    if (auto why = refusal(count)) return std::unexpected(*std::move(why));
    enqueue({count, until, waiter, nullptr});
    if (phase_ == Phase::kIdle) {
      leads = !thread_.joinable();
      if (leads) {
        phase_ = Phase::kGathering;
      } else {
        changed_.notify_all();
      }
    }
  }
  if (!leads) {
    waiter->state.wait(kWaiting, std::memory_order_acquire);
    leads = waiter->state.load(std::memory_order_acquire) == kLead;
  }
  if (leads) lead();
  return std::move(waiter->answer);
}

void Combiner::submit(std::int64_t count, Done done) {
  if (inherited()) {
    done(std::unexpected(inherited_through_fork(sequence_)));
    return;
  }
  std::unique_lock lock(mutex_);
  std::optional<Error> why = refusal(count);
  if (!why && !thread_.joinable()) {
    try {
      thread_ = std::thread(&Combiner::run, this);
    } catch (const std::system_error& error) {
      why = Error{Code::kResourceExhausted,
                  "sequence " + sequence_ + ": cannot start its thread: " + error.what()};
    }
  }
  if (why) {
    lock.unlock();
    done(std::unexpected(*std::move(why)));
    return;
  }
  enqueue({count, std::chrono::steady_clock::now() + deadline_, nullptr, std::move(done)});
  if (phase_ == Phase::kIdle) changed_.notify_all();
}

void Combiner::close() noexcept {
  if (inherited()) return;
  std::unique_lock lock(mutex_);
  closed_ = true;
  // A leader that gathers answers the queue itself, now; one in its round comes to it only later.
  if (phase_ == Phase::kRound) drain(lock);
  changed_.notify_all();
  changed_.wait(lock, [this] { return phase_ == Phase::kIdle && queue_.empty(); });
  std::thread thread = std::move(thread_);
  lock.unlock();
  if (thread.joinable()) thread.join();
}

SequenceStatistics Combiner::statistics() const noexcept {
  if (inherited()) return {};
  const std::lock_guard lock(mutex_);
  return {requests_, rounds_.tally().round_trips(), values_, rounds_.tally().waste()};
}

std::optional<Error> Combiner::refusal(std::int64_t count) const {
  if (count < 1) {
    return Error{Code::kInvalidArgument, "sequence " + sequence_ + ": cannot take " +
                                             std::to_string(count) + " values; ask for at least 1"};
  }
  if (closed_) return Error{Code::kUnavailable, "sequence " + sequence_ + ": closed"};
  if (outstanding_ >= max_outstanding_) {
    return Error{Code::kResourceExhausted,
                 "sequence " + sequence_ + ": " + std::to_string(max_outstanding_) +
                     " requests are waiting already; ask again when some have been answered"};
  }
  return std::nullopt;
}

void Combiner::enqueue(Request request) {
  queue_.push_back(std::move(request));
  queued_.store(queue_.size(), std::memory_order_relaxed);
  ++outstanding_;
}

// The thread's whole life.
void Combiner::run() noexcept {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return phase_ == Phase::kIdle && (closed_ || !queue_.empty()); });
    if (closed_ && queue_.empty()) return;
    phase_ = Phase::kGathering;
    lock.unlock();
    lead();
    lock.lock();
  }
}

// One round, and who leads the next. noexcept: with no memory left it is better to end the process
// than to leave callers waiting.
void Combiner::lead() noexcept {
  gather();
  std::unique_lock lock(mutex_);
  if (closed_) {
    drain(lock);
  } else {
    round_.swap(queue_);
    queued_.store(0, std::memory_order_relaxed);
    phase_ = Phase::kRound;
    lock.unlock();
    const auto blocking = std::ranges::count_if(
        round_, [](const Request& request) { return request.waiter != nullptr; });
    std::uint64_t refused = kTooMany;
    serve(round_, std::ranges::min_element(round_, {}, &Request::until)->until, refused);
    round_.clear();
    lock.lock();
    expected_ = queue_.size() + static_cast<std::size_t>(blocking);
  }
  if (queue_.empty() || thread_.joinable()) {
    phase_ = Phase::kIdle;
    changed_.notify_all();
    return;
  }
  phase_ = Phase::kGathering;
  const std::shared_ptr<Waiter> heir = queue_.front().waiter;  // no thread: all of them block
  heir->state.store(kLead, std::memory_order_release);
  lock.unlock();
  heir->state.notify_one();
}

// Lets those who were just answered queue again, so that this round carries them too.
void Combiner::gather() const noexcept {
  std::size_t seen = queued_.load(std::memory_order_relaxed);
  for (int idle = 0; idle < kPatience && seen < expected_; ++idle) {
    std::this_thread::yield();
    const std::size_t now = queued_.load(std::memory_order_relaxed);
    if (now != seen) idle = 0;
    seen = now;
  }
}

// Serves the group as if one by one in its order. `refused`: so many are known not to be left.
void Combiner::serve(std::span<Request> group, SteadyTime until, std::uint64_t& refused) {
  std::uint64_t sum = 0;
  for (const Request& request : group) {
    sum = std::min(sum + static_cast<std::uint64_t>(request.count), kTooMany);
  }
  if (sum < refused) {
    const bool ones = group.size() > 1 && sum == group.size();
    const Result<std::span<Range>> values =
        rounds_.advance(static_cast<std::int64_t>(sum), ones ? Take::kTail : Take::kAll, until);
    if (!values && values.error().code != Code::kOutOfRange) {
      fail(group, values.error());
      return;
    }
    if (values) {
      const auto fit = ones ? static_cast<std::size_t>(values_in(*values)) : group.size();
      hand_out(group.first(fit), *values);
      group = group.subspan(fit);
      if (group.empty()) return;
    }
    refused = ones ? 1 : sum;
  }
  if (group.size() == 1 || refused == 1) {
    fail(group, rounds_.refusal(refused));
    return;
  }
  serve(group.first(group.size() / 2), until, refused);
  serve(group.subspan(group.size() / 2), until, refused);
}

void Combiner::hand_out(std::span<Request> group, std::span<Range> values) {
  {
    const std::lock_guard lock(mutex_);
    requests_ += group.size();
    values_ += values_in(values);
    outstanding_ -= group.size();
  }
  for (Request& request : group) {
    if (request.waiter && request.waiter->out != nullptr) {
      copy(values, {request.waiter->out, static_cast<std::size_t>(request.count)});
      answer(request, Range{});
    } else {
      answer(request, pop(values, request.count));
    }
  }
}

void Combiner::fail(std::span<Request> group, const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    outstanding_ -= group.size();
  }
  for (Request& request : group) answer(request, std::unexpected(error));
}

void Combiner::answer(Request& request, Result<Range> result) {
  if (!request.waiter) {
    request.done(std::move(result));
    return;
  }
  request.waiter->answer = std::move(result);
  request.waiter->state.store(kAnswered, std::memory_order_release);
  request.waiter->state.notify_one();
}

// Answers the whole queue of a closed combiner, without the lock.
void Combiner::drain(std::unique_lock<std::mutex>& lock) {
  std::vector<Request> queue = std::exchange(queue_, {});
  queued_.store(0, std::memory_order_relaxed);
  lock.unlock();
  fail(queue, {Code::kUnavailable, "sequence " + sequence_ + ": closed while the request waited"});
  lock.lock();
}

}  // namespace idmint
