#include "ids/worker_lease.h"

#include <algorithm>
#include <cstddef>
#include <ratio>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "base/outcome.h"
#include "ids/lease_table.h"

namespace idmint {
namespace {

// Callers that reach the bound within this time after a failure get the same error.
constexpr std::chrono::milliseconds kPause{200};
// The thread repeats a failed renewal after this time at most.
constexpr std::chrono::seconds kLongestRetryPause{1};

// The time to the last quarter-second boundary within `pause`. The renewals of many hosts meet
// there, and a replica set journals and replicates them together, for a third of the processor
// time.
std::chrono::nanoseconds meeting_after(std::chrono::nanoseconds pause, Instant now) {
  using Quarters = std::chrono::duration<std::int64_t, std::ratio<1, 4>>;
  if (pause < Quarters{4}) return pause;
  const Instant end = now + pause;
  return pause - (end - std::chrono::floor<Quarters>(end));
}

// The error of a generator whose lease could not be renewed or replaced.
std::unexpected<Error> not_leased(const std::string& what, const Error& why) {
  switch (why.code) {
    case Code::kDataLoss:
    case Code::kPermissionDenied:
    case Code::kResourceExhausted:
    case Code::kFailedPrecondition:
      return std::unexpected(Error{why.code, what + ": " + why.message(), why.advice});
    case Code::kNotFound:  // the store shows less than it acknowledged
      return std::unexpected(Error{
          Code::kDataLoss, what + ", and nothing more is minted: " + why.message() +
                               "; the store has gone back, or the pool was removed: stop all who "
                               "mint, and raise the pool past every bound that was granted"});
    default:
      return std::unexpected(
          Error{Code::kUnavailable,
                what + ": " + why.message() + "; ids are minted again once that succeeds"});
  }
}

}  // namespace

Result<std::unique_ptr<WorkerLease>> WorkerLease::acquire(LeaseTable& table,
                                                          WorkerLeaseOptions options, Clock& clock,
                                                          Entropy& entropy, SteadyTime until) {
  std::unique_ptr<WorkerLease> lease(new WorkerLease(table, std::move(options), clock, entropy));
  const std::lock_guard lock(lease->asking_);
  if (Result<void> taken = lease->take(lease->tick_of(clock.now()), lease->options_.first_window,
                                       lease->options_.max_drift, until);
      !taken)
    return std::unexpected(std::move(taken.error()));
  return lease;
}

WorkerLease::WorkerLease(LeaseTable& table, WorkerLeaseOptions options, Clock& clock,
                         Entropy& entropy)
    : table_(table), options_(std::move(options)), clock_(clock), entropy_(entropy) {}

WorkerLease::~WorkerLease() { end(); }

// -1 before the epoch.
std::int64_t WorkerLease::tick_of(Instant at) const noexcept {
  if (at < options_.epoch) return -1;
  const auto since = static_cast<std::uint64_t>(at.time_since_epoch().count()) -
                     static_cast<std::uint64_t>(options_.epoch.time_since_epoch().count());
  return static_cast<std::int64_t>(since / static_cast<std::uint64_t>(options_.unit.count()));
}

// Never nil.
Uuid WorkerLease::draw_name() const noexcept {
  Uuid::Bytes bytes{};
  while (Uuid(bytes) == Uuid{}) options_.names->fill(std::as_writable_bytes(std::span(bytes)));
  return Uuid(bytes);
}

LeaseTerms WorkerLease::terms() const noexcept {
  return {.held = options_.held, .clock = clock_.now(), .max_skew = options_.max_skew};
}

Result<std::int64_t> WorkerLease::extend(std::int64_t tick, SteadyTime until) {
  if (!owner_) return std::unexpected(inherited_generator());
  if (const std::int64_t to = to_.load(); tick < to) return to;
  const std::unique_lock lock(asking_, until);
  if (!lock)
    return std::unexpected(
        Error{Code::kUnavailable, "the lease of pool " + options_.pool +
                                      " was not renewed in time: the store has not answered; ids "
                                      "are minted again once it does"});
  if (tick < to_.load()) return to_.load();  // another caller has asked meanwhile
  const Instant now = clock_.now();
  if (failure_ && now >= failed_at_ && now - failed_at_ < kPause) return std::unexpected(*failure_);
  if (Result<void> asked = ask_or_fail(tick, until); !asked)
    return std::unexpected(std::move(asked.error()));
  start_thread();
  return to_.load();
}

Result<void> WorkerLease::renew() {
  const std::lock_guard lock(asking_);
  return ask_or_fail(-1, std::chrono::steady_clock::now() + options_.deadline);
}

// Callers that wait meanwhile share a failure.
Result<void> WorkerLease::ask_or_fail(std::int64_t tick, SteadyTime until) {
  Result<void> asked = ask(tick, until);
  failure_.reset();
  if (!asked && asked.error().code != Code::kDataLoss) {
    failure_ = asked.error();
    failed_at_ = clock_.now();
  }
  return asked;
}

// Asks until the lease covers the tick.
Result<void> WorkerLease::ask(std::int64_t tick, SteadyTime until) {
  // A caller ahead of the clock takes nothing beyond max_drift, because the next owner of the
  // worker id would have to wait.
  const std::int64_t clock = tick_of(clock_.now());
  const std::int64_t least = std::max(clock, tick);
  const std::int64_t room = std::max<std::int64_t>(clock + options_.max_drift - least, 0);
  const std::int64_t units = std::max<std::int64_t>(std::min(options_.window, room), 1);
  if (held_) {
    const std::int64_t ahead = std::min(least + units, options_.max_tick + 1);
    // An extension with an unknown outcome comes first: it decides which bound the next one
    // extends.
    bool settled = false;
    Result<void> extended;
    do {
      settled = !pending_;
      extended = lengthen(ahead, until);
    } while (extended && !settled);
    if (extended) return {};
    if (extended.error().code != Code::kFailedPrecondition)
      return not_leased("the lease on worker id " + std::to_string(held_->worker) + " of pool " +
                            options_.pool + " was not renewed",
                        extended.error());
    held_.reset();
    pending_.reset();
  }
  if (tick < to_.load()) return {};
  Result<void> taken = take(least, units, room, until);
  if (taken) return {};
  return not_leased("a worker id of pool " + options_.pool + " was lost, and none was leased anew",
                    taken.error());
}

// Sends the pending extension, or else one to `to`.
Result<void> WorkerLease::lengthen(std::int64_t to, SteadyTime until) {
  const bool repeated = pending_.has_value();
  const Lease held = held_.value_or(Lease{});
  const Extension extension = pending_ ? *pending_ : Extension{std::max(to, held.to), draw_name()};
  pending_ = extension;
  const Result<Lease> extended =
      table_.extend(options_.pool, held, extension.to, extension.nonce, terms(), until);
  if (!extended) {
    // After an unknown outcome it stays pending: the store may have applied it.
    if (!repeated && !outcome_unknown(extended.error().code)) pending_.reset();
    return std::unexpected(extended.error());
  }
  pending_.reset();
  held_ = *extended;
  to_.store(held_->to);
  has_window_ = true;
  return {};
}

// Takes a range for ids from `tick` on that begins at most `drift` past it.
Result<void> WorkerLease::take(std::int64_t tick, std::int64_t units, std::int64_t drift,
                               SteadyTime until) {
  const bool repeated = token_ != Uuid{};
  if (!repeated) token_ = draw_name();
  const Result<Lease> lease = table_.acquire(options_.pool,
                                             {.token = token_,
                                              .repeated = repeated,
                                              .holder = options_.holder,
                                              .workers = options_.workers,
                                              .now = tick,
                                              .units = units,
                                              .max_drift = drift,
                                              .unit = options_.unit,
                                              .terms = terms()},
                                             until);
  if (!lease) {
    // After an unknown outcome the token stays: it may own a worker id.
    if (!repeated && !outcome_unknown(lease.error().code)) token_ = {};
    return std::unexpected(lease.error());
  }
  token_ = {};
  if (lease->worker < 0 || lease->worker > std::int64_t{options_.max_worker}) {
    hand_over(*lease, until);
    return std::unexpected(Error{Code::kFailedPrecondition,
                                 "pool " + options_.pool + " gave worker id " +
                                     std::to_string(lease->worker) + ", and the layout has " +
                                     std::to_string(options_.max_worker) + " as its last"});
  }
  held_ = *lease;
  worker_ = static_cast<std::uint32_t>(lease->worker);
  from_ = lease->from;
  to_.store(lease->to);
  has_window_ = has_window_ || units >= options_.window;
  return {};
}

void WorkerLease::keep_renewed(std::function<void(Error)> revoke) {
  {
    const std::lock_guard lock(renewal_->mutex);
    renewal_->revoke = std::move(revoke);
  }
  start_thread();
}

void WorkerLease::start_thread() {
  const std::lock_guard lock(renewal_->mutex);
  if (renewal_->thread.joinable() || !renewal_->revoke || !has_window_ || renewal_->ended) return;
  try {
    renewal_->thread = std::thread(&WorkerLease::run, this);
  } catch (const std::system_error&) {
    renewal_->thread = {};  // callers that reach the bound ask
  }
}

void WorkerLease::run() noexcept {
  const std::chrono::nanoseconds third = options_.unit * options_.window / 3;
  std::chrono::nanoseconds pause = meeting_after(third, clock_.now());
  std::unique_lock lock(renewal_->mutex);
  while (!renewal_->ending.wait_for(lock, pause, [this] { return renewal_->ended; })) {
    lock.unlock();
    Result<void> renewed = renew();
    if (!renewed && renewed.error().code == Code::kDataLoss) {
      renewal_->revoke(std::move(renewed.error()));
      return;
    }
    pause = meeting_after(third, clock_.now());
    if (!renewed) {
      // Jitter: half to all of the pause, so that hosts that failed together do not ask together.
      pause = std::min<std::chrono::nanoseconds>(third, kLongestRetryPause);
      pause -= std::chrono::nanoseconds{static_cast<std::int64_t>(
          entropy_.draw() % static_cast<std::uint64_t>(pause.count()) / 2)};
    }
    lock.lock();
  }
}

void WorkerLease::end() noexcept {
  if (!owner_) {
    // Belongs to the parent, like the worker id.
    [[maybe_unused]] const Renewal* const parents = renewal_.release();
    return;
  }
  const SteadyTime until = std::chrono::steady_clock::now() + options_.deadline;
  {
    const std::lock_guard lock(renewal_->mutex);
    renewal_->ended = true;
  }
  renewal_->ending.notify_all();
  if (renewal_->thread.joinable()) renewal_->thread.join();
  const std::lock_guard lock(asking_);
  if (!held_) return;
  hand_over(*held_, until);
  held_.reset();
}

// The outcome does not matter: if it was not applied, the lease expires.
void WorkerLease::hand_over(const Lease& lease, SteadyTime until) {
  [[maybe_unused]] const Result<void> released =
      table_.release(options_.pool, lease.worker, lease.token, lease.generation, until);
}

}  // namespace idmint
