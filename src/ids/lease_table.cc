#include "ids/lease_table.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/text.h"

namespace idmint {
namespace {

constexpr std::int64_t kLastUnit = std::int64_t{1} << 62;

std::string of_pool(std::string_view pool) { return "pool " + shown(pool); }

std::unexpected<Error> refuse_to(std::string_view pool, std::string why) {
  return std::unexpected(about(of_pool(pool), {Code::kInvalidArgument, std::move(why)}));
}

Result<void> check_new_pool(std::string_view pool, std::int64_t workers) {
  constexpr std::size_t kLongest = 1024;
  if (pool.empty()) return refuse("cannot make a pool of worker ids: the name is empty");
  if (pool.size() > kLongest)
    return refuse("cannot make " + of_pool(pool) + ": the name has " + std::to_string(pool.size()) +
                  " bytes, 1024 are allowed");
  if (workers < 1 || workers > LeaseTable::kMaxWorkers)
    return refuse("cannot make " + of_pool(pool) + ": " + std::to_string(workers) +
                  " worker ids; give 1 to " + std::to_string(LeaseTable::kMaxWorkers));
  return {};
}

Result<void> check_request(std::string_view pool, const LeaseRequest& request) {
  if (request.token == Uuid{}) return refuse_to(pool, "the token is nil; draw one");
  if (request.units < 1 || request.units > kLastUnit)
    return refuse_to(
        pool, "cannot lease " + std::to_string(request.units) + " units; ask for at least 1");
  if (request.max_drift < 0) return refuse_to(pool, "max_drift is below 0");
  // Prevents an overflow: the range begins at now + max_drift at most.
  if (request.now > kLastUnit - request.units ||
      request.max_drift > kLastUnit - request.units - std::max<std::int64_t>(request.now, 0))
    return refuse_to(pool, "a range may end at 2^62 at most");
  return {};
}

Result<void> check_extension(std::string_view pool, const Lease& lease, std::int64_t to,
                             const Uuid& nonce) {
  if (nonce == Uuid{}) return refuse_to(pool, "the nonce is nil; draw one");
  if (lease.token == Uuid{}) return refuse_to(pool, "the token is nil, which is of no lease");
  if (to >= lease.to && to <= kLastUnit) return {};
  return refuse_to(pool, "worker id " + std::to_string(lease.worker) + " is leased up to " +
                             std::to_string(lease.to) + " and cannot be extended to " +
                             std::to_string(to) + "; a bound only goes up, to 2^62 at most");
}

LastIssued& bound_of(StoreIssued& issued, std::string_view pool, std::int64_t worker) {
  return issued.counter(std::string(pool) + "/" + std::to_string(worker), LastIssued::Kind::kBound);
}

// "1.5 s".
std::string time_between(std::int64_t later, std::int64_t earlier, std::chrono::nanoseconds unit) {
  const double seconds =
      static_cast<double>(later - earlier) * std::chrono::duration<double>(unit).count();
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.3g s", seconds);
  return text.data();
}

Result<void> check_floor(std::string_view pool, std::int64_t floor) {
  if (floor <= kLastUnit) return {};
  return refuse_to(pool, "the floor " + std::to_string(floor) + " is past 2^62");
}

}  // namespace

Result<void> LeaseTable::create_pool(std::string_view pool, std::int64_t workers) {
  if (auto ok = check_new_pool(pool, workers); !ok) return ok;
  return do_create_pool(pool, workers);
}

Result<Lease> LeaseTable::acquire(std::string_view pool, const LeaseRequest& request,
                                  SteadyTime until) {
  if (auto ok = check_request(pool, request); !ok) return std::unexpected(std::move(ok).error());
  StoreIssued* const issued = issued_.load();
  if (issued == nullptr) return do_acquire(pool, request, until);
  const std::uint64_t ticket = issued->ticket();
  Result<Lease> lease = do_acquire(pool, request, until);
  return lease ? believed(pool, request, *lease, *issued, ticket, until) : lease;
}

// `ticket`: when the lease was asked for. A bound that was acknowledged to another thread since may
// be past this lease, whose answer came late.
Result<Lease> LeaseTable::believed(std::string_view pool, const LeaseRequest& request,
                                   const Lease& lease, StoreIssued& issued, std::uint64_t ticket,
                                   SteadyTime until) {
  LastIssued& known = bound_of(issued, pool, lease.worker);
  LastIssued& refused = issued.counter(pool, LastIssued::Kind::kBound);
  const std::int64_t bound = known.last();
  const std::int64_t least =
      std::max(known.was_before(ticket) ? bound : LastIssued::kNothing, refused.last());
  if (lease.from >= least) {
    known.raise(lease.to, issued.settled());
    return lease;
  }
  refused.raise(least, issued.settled());
  [[maybe_unused]] const Result<void> released =
      do_release(pool, lease.worker, lease.token, lease.generation, until);
  return std::unexpected(
      about(of_pool(pool),
            {Code::kDataLoss,
             "the store leased worker id " + std::to_string(lease.worker) + " from the id-time " +
                 std::to_string(lease.from) + " on, and up to " + std::to_string(least) + " (" +
                 time_between(least, lease.from, request.unit) +
                 " later) it was leased before: the store has gone back; stop all who mint, and "
                 "raise the pool past every bound that was granted",
             {Remedy::kRaisePool, std::string(pool)}}));
}

Result<Lease> LeaseTable::extend(std::string_view pool, const Lease& lease, std::int64_t to,
                                 const Uuid& nonce, const LeaseTerms& terms, SteadyTime until) {
  if (auto ok = check_extension(pool, lease, to, nonce); !ok) {
    return std::unexpected(std::move(ok).error());
  }
  Result<Lease> extended = do_extend(pool, lease, to, nonce, terms, until);
  if (extended) extended->nonce = nonce;
  if (StoreIssued* const issued = issued_.load(); issued != nullptr && extended)
    bound_of(*issued, pool, lease.worker).raise(extended->to, issued->settled());
  return extended;
}

Result<void> LeaseTable::raise_floor(std::string_view pool, std::int64_t floor) {
  if (auto ok = check_floor(pool, floor); !ok) return ok;
  return do_raise_floor(pool, floor);
}

}  // namespace idmint
