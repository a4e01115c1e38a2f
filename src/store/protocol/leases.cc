#include "store/protocol/leases.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "base/uniform.h"
#include "store/backend.h"
#include "store/protocol/lease_rules.h"

namespace idmint::stores {
namespace {

// Rows that an acquire reads: first, and once another was quicker.
constexpr std::size_t kFirstFree = WorkerRows::kLeastRead;
constexpr std::size_t kMostFree = 16;

// The row that an acquire tries, of those that it read. Processes that start together read the same
// ones: each takes a random one, of those whose range begins at the clock if there are some. Alone,
// it takes the first, which has the smallest bound, unless all that may be read begin at the clock.
WorkerRow choose(std::vector<WorkerRow> free, const LeaseRequest& request, bool alone,
                 Entropy& entropy) {
  const auto begins_at_clock = [&](const WorkerRow& row) {
    return row.state.minted_until <= request.now;
  };
  const auto some = static_cast<std::size_t>(std::ranges::count_if(free, begins_at_clock));
  if (alone && some < kFirstFree) return free.front();
  std::ranges::partition(free, begins_at_clock);
  return free[uniform_below(entropy, some > 0 ? some : free.size())];
}

// The row once the request has it.
WorkerRow taken_by(const LeaseRequest& request, const WorkerRow& row) {
  WorkerRow taken = row;
  LeaseState& state = taken.state;
  if (state.token != request.token) ++state.generation;
  state.token = request.token;
  state.holder = request.holder;
  const std::int64_t from = std::max(row.state.minted_until, request.now);
  state.minted_until = lease_end(request, from);
  state.taken_from = from;
  state.held_for = request.terms.held;
  return taken;
}

// The row once the lease is extended.
WorkerRow extended_to(std::int64_t to, const Uuid& nonce, const LeaseTerms& terms, WorkerRow row) {
  row.state.minted_until = std::max(row.state.minted_until, to);
  row.state.held_for = terms.held;
  row.nonce = nonce;
  return row;
}

// The row as the latest acquire or extend of the lease left it.
WorkerRow row_of(const Lease& lease) {
  return {.state = {.worker = lease.worker,
                    .token = lease.token,
                    .generation = lease.generation,
                    .minted_until = lease.to,
                    .taken_from = lease.from},
          .nonce = lease.nonce};
}

}  // namespace

// The attempts of one call.
class Leases::Call {
 public:
  Call(Engine& engine, WorkerRows& rows, std::string_view pool, std::string_view doing) noexcept
      : engine_(engine), rows_(rows), pool_(pool), doing_(doing) {}

  [[nodiscard]] Result<void> enter(Purpose purpose, SteadyTime by) {
    const Result<SteadyTime> until = engine_.enter(purpose, by);
    if (!until) return std::unexpected(until.error());
    purpose_ = purpose;
    until_ = *until;
    begin_ = std::chrono::steady_clock::now();
    return {};
  }
  [[nodiscard]] SteadyTime until() const noexcept { return until_; }
  // An attempt may have been applied that had no answer.
  [[nodiscard]] bool sent() const noexcept { return sent_; }

  [[nodiscard]] Result<std::vector<Swapped>> swap(std::span<const WorkerSwap> swaps,
                                                  const LeaseTerms* terms = nullptr) {
    LeaseTerms now;
    if (terms != nullptr) {
      now = *terms;
      if (now.clock != Instant{}) now.clock += std::chrono::steady_clock::now() - begin_;
      terms = &now;
    }
    Result<std::vector<Swapped>> swapped =
        rows_.swap_workers(pool_, swaps, purpose_, terms, until_, doing_);
    if (!swapped) return std::unexpected(failed(std::move(swapped.error())));
    sent_ = sent_ || std::ranges::find(*swapped, Swapped::kPerhaps) != swapped->end();
    return swapped;
  }
  [[nodiscard]] Result<Swapped> swap(const WorkerRow& from, const WorkerRow& to,
                                     const LeaseTerms* terms = nullptr) {
    const WorkerSwap one{from, to};
    const Result<std::vector<Swapped>> swapped = swap(std::span(&one, 1), terms);
    if (!swapped) return std::unexpected(swapped.error());
    return swapped->front();
  }
  // The doubt of the store, or else this error.
  [[nodiscard]] Error refused(const Error& error) {
    const Result<void> trusted = engine_.expect_trust(until_);
    return failed(trusted ? error : trusted.error());
  }
  // A pool or a row may be missing because the store has gone back.
  [[nodiscard]] Error unread(Error error) {
    return error.code == Code::kNotFound ? refused(error) : failed(std::move(error));
  }
  [[nodiscard]] Error failed(Error error) const {
    return sent_ ? after_a_write(std::move(error)) : error;
  }
  // A part of the call was applied.
  void has_written() noexcept { sent_ = true; }

  // Before the next attempt, as others were quicker. The first begins at once, and later ones after
  // a random time, which is longer with each. kUnavailable: no time is left.
  [[nodiscard]] Result<void> step_aside() {
    std::chrono::nanoseconds pause{};
    if (attempts_++ > 0) {
      constexpr std::uint64_t kFirst = 500;  // us
      pause = std::chrono::microseconds{
          uniform_below(engine_.entropy(), kFirst << std::min(attempts_ - 2, 6))};
    }
    if (std::chrono::steady_clock::now() + pause >= until_)
      return std::unexpected(
          failed({.code = Code::kUnavailable,
                  .what = "could not " + std::string(doing_) + " " +
                          std::string(engine_.shown_url()) + ": others changed it at each of " +
                          std::to_string(attempts_) + " attempts; ask again",
                  .outcome = std::string(kNothingChanged)}));
    if (pause.count() > 0) engine_.pause(pause);
    return {};
  }

 private:
  Engine& engine_;
  WorkerRows& rows_;
  const std::string_view pool_;
  const std::string_view doing_;
  Purpose purpose_ = Purpose::kRead;
  SteadyTime until_{};
  SteadyTime begin_{};
  int attempts_ = 0;
  bool sent_ = false;
};

Result<void> Leases::do_create_pool(std::string_view pool, std::int64_t workers) {
  const Result<SteadyTime> until = engine_.enter(Purpose::kHandOut, SteadyTime::max());
  if (!until) return std::unexpected(until.error());
  const Result<std::int64_t> there = rows_.make_pool(pool, workers, *until, "make worker ids in");
  if (!there) return std::unexpected(there.error());
  if (*there != workers) return std::unexpected(other_pool(pool, *there, workers));
  return {};
}

Result<Lease> Leases::do_acquire(std::string_view pool, const LeaseRequest& request,
                                 SteadyTime by) {
  Call call(engine_, rows_, pool, "lease a worker id from");
  if (Result<void> entered = call.enter(Purpose::kHandOut, by); !entered)
    return std::unexpected(std::move(entered.error()));
  const std::int64_t limit = request.now + request.max_drift;
  // In a small pool the first attempt takes the row with the smallest bound; in a large one it
  // reads rows at a random place, and so does each later attempt. If the size is not known, the
  // first attempt takes one of many rows that are all the same, as the range begins at the clock.
  for (bool alone = request.workers <= std::int64_t{kFirstFree};; alone = false) {
    Result<std::vector<WorkerRow>> free =
        rows_.find_free(pool,
                        {.token = request.token,
                         .may_own = request.repeated || call.sent(),
                         .limit = limit,
                         .start = alone ? 0 : engine_.entropy().draw(),
                         .workers = request.workers,
                         .most = alone ? kFirstFree : kMostFree},
                        call.until());
    if (!free) return std::unexpected(call.unread(std::move(free.error())));
    if (free->empty()) return std::unexpected(call.refused(refused_acquire(pool, request, {})));
    if (const std::int64_t least = free->front().state.minted_until; least > limit)
      return std::unexpected(call.refused(refused_acquire(pool, request, least)));
    // One row, and the next one after another reading: where many processes take the last rows,
    // most of those that were read are taken by now. The token's own row is the only one.
    const WorkerRow row = choose(*std::move(free), request, alone, engine_.entropy());
    const WorkerRow taken = taken_by(request, row);
    const Result<Swapped> swapped = call.swap(row, taken, &request.terms);
    if (!swapped) return std::unexpected(swapped.error());
    const LeaseState& state = taken.state;
    if (*swapped == Swapped::kYes)
      return Lease{state.worker,       state.token, state.generation, state.taken_from.value_or(0),
                   state.minted_until, taken.nonce};
    if (Result<void> on = call.step_aside(); !on) return std::unexpected(std::move(on.error()));
  }
}

Result<Lease> Leases::do_extend(std::string_view pool, const Lease& lease, std::int64_t to,
                                const Uuid& nonce, const LeaseTerms& terms, SteadyTime by) {
  Call call(engine_, rows_, pool, "extend a lease in");
  if (Result<void> entered = call.enter(Purpose::kHandOut, by); !entered)
    return std::unexpected(std::move(entered.error()));
  // The row is as the lease left it, unless an extension of unknown outcome was applied, or
  // somebody else changed it. A row that shows this extension as applied is written again: no
  // acknowledgement rests on a reading.
  WorkerRow there = row_of(lease);
  for (;;) {
    const Result<Swapped> swapped = call.swap(there, extended_to(to, nonce, terms, there), &terms);
    if (!swapped) return std::unexpected(swapped.error());
    if (*swapped == Swapped::kYes) {
      Lease extended = lease;
      extended.to = to;
      return extended;
    }
    if (Result<void> on = call.step_aside(); !on) return std::unexpected(std::move(on.error()));
    Result<WorkerRow> row = rows_.read_worker(pool, lease.worker, call.until());
    if (!row) return std::unexpected(call.unread(std::move(row.error())));
    there = *std::move(row);
    if (!may_extend(there.state, there.nonce, lease, to, nonce))
      return std::unexpected(
          call.refused(refused_extension(pool, lease, there.state, there.nonce, nonce)));
  }
}

Result<void> Leases::do_release(std::string_view pool, std::int64_t worker, const Uuid& token,
                                std::int64_t generation, SteadyTime by) {
  Call call(engine_, rows_, pool, "release a worker id of");
  if (Result<void> entered = call.enter(Purpose::kOperate, by); !entered) return entered;
  const Lease lease{worker, token, generation, 0, 0};
  for (;;) {
    Result<WorkerRow> row = rows_.read_worker(pool, worker, call.until());
    if (!row) return std::unexpected(call.failed(std::move(row.error())));
    if (!is_owned_by(row->state, lease)) {
      if (call.sent()) return {};
      return std::unexpected(refused_lease(pool, lease, row->state));
    }
    WorkerRow nobodys = *row;
    nobodys.state.token = Uuid{};
    nobodys.state.holder.clear();
    nobodys.state.held_for = {};
    const Result<Swapped> swapped = call.swap(*row, nobodys);
    if (!swapped) return std::unexpected(swapped.error());
    if (*swapped == Swapped::kYes) return {};
    if (Result<void> on = call.step_aside(); !on) return on;
  }
}

Result<void> Leases::do_raise_floor(std::string_view pool, std::int64_t floor) {
  Call call(engine_, rows_, pool, "raise the worker ids of");
  if (Result<void> entered = call.enter(Purpose::kOperate, SteadyTime::max()); !entered)
    return entered;
  const std::int64_t generation = draw_generation(engine_.entropy());
  std::set<std::int64_t> raised;  // by this call; never twice, as no generation repeats
  for (;;) {
    Result<std::vector<WorkerRow>> rows = rows_.read_workers(pool, call.until());
    if (!rows) return std::unexpected(call.failed(std::move(rows.error())));
    std::vector<WorkerSwap> swaps;
    for (WorkerRow& row : *rows) {
      const LeaseState& state = row.state;
      // Without an answer an earlier swap may have raised it.
      if (raised.contains(state.worker) || state.generation / kEpoch == generation / kEpoch)
        continue;
      const std::int64_t bound = std::max(state.minted_until, floor);
      WorkerRow fenced{.state = {.worker = state.worker,
                                 .generation = generation,
                                 .minted_until = bound,
                                 .taken_from = bound}};
      swaps.push_back({std::move(row), std::move(fenced)});
    }
    bool all = true;
    for (std::span<const WorkerSwap> left = swaps; !left.empty();) {
      const auto some = left.first(std::min(left.size(), WorkerRows::kMostSwaps));
      const Result<std::vector<Swapped>> swapped = call.swap(some);
      if (!swapped) return std::unexpected(swapped.error());
      call.has_written();
      for (std::size_t i = 0; i < some.size(); ++i) {
        if ((*swapped)[i] == Swapped::kYes)
          raised.insert(some[i].from.state.worker);
        else
          all = false;
      }
      left = left.subspan(some.size());
    }
    // Rows that were not as they had been read are raised in the next round.
    if (all) return {};
    if (Result<void> on = call.step_aside(); !on) return on;
  }
}

Result<std::vector<LeaseState>> Leases::do_workers(std::string_view pool, SteadyTime by) {
  const Result<SteadyTime> until = engine_.enter(Purpose::kRead, by);
  if (!until) return std::unexpected(until.error());
  Result<std::vector<WorkerRow>> rows = rows_.read_workers(pool, *until);
  if (!rows) return std::unexpected(std::move(rows.error()));
  std::vector<LeaseState> all;
  all.reserve(rows->size());
  for (WorkerRow& row : *rows) all.push_back(std::move(row.state));
  return all;
}

}  // namespace idmint::stores
