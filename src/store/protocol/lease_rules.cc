#include "store/protocol/lease_rules.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/figures.h"
#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "ids/lease_table.h"
#include "store/backend.h"

namespace idmint::stores {
namespace {

constexpr std::int64_t kLastUnit = std::int64_t{1} << 62;

std::string of_pool(std::string_view pool) { return "pool " + shown(pool); }

}  // namespace

bool is_same_row(const WorkerRow& there, const WorkerRow& from) noexcept {
  return there.state.token == from.state.token && there.state.generation == from.state.generation &&
         there.state.minted_until == from.state.minted_until &&
         there.state.taken_from == from.state.taken_from && there.nonce == from.nonce;
}

std::vector<WorkerRow> choose_free(std::span<const WorkerRow> rows, const FreeWorkers& wanted) {
  std::vector<const WorkerRow*> free;
  for (const WorkerRow& row : rows) {
    if (row.state.token == wanted.token) return {row};
    if (!is_owned(row.state)) free.push_back(&row);
  }
  if (free.empty()) return {};
  const std::size_t candidates = std::min(free.size(), kMostCandidates);
  const auto bound = [](const WorkerRow* row) {
    return std::pair(row->state.minted_until, row->state.worker);
  };
  std::ranges::partial_sort(free, free.begin() + static_cast<std::ptrdiff_t>(candidates), {},
                            bound);
  free.resize(candidates);
  const WorkerRow nearest = *free.front();
  std::erase_if(free, [&](const WorkerRow* row) { return row->state.minted_until > wanted.limit; });
  std::vector<WorkerRow> found;
  for (std::size_t i = 0; i < std::min(free.size(), wanted.most); ++i)
    found.push_back(*free[(wanted.start % free.size() + i) % free.size()]);
  if (found.empty()) found.push_back(nearest);
  return found;
}

std::int64_t lease_end(const LeaseRequest& request, std::int64_t from) noexcept {
  return std::max(from + 1, request.now + request.units);
}

std::int64_t draw_generation(Entropy& entropy) {
  std::int64_t generation = 0;
  do {
    generation = static_cast<std::int64_t>(entropy.draw() >> 1) / kEpoch * kEpoch;
  } while (generation == 0);
  return generation;
}

Error no_pool(std::string_view pool, std::string_view url) {
  return {Code::kNotFound, "no pool of worker ids " + shown(pool) + " in " + std::string(url)};
}

Error no_worker(std::string_view pool, std::int64_t worker) {
  return about(of_pool(pool), {Code::kNotFound, "it has no worker id " + std::to_string(worker)});
}

Error other_pool(std::string_view pool, std::int64_t there, std::int64_t wanted) {
  return about(of_pool(pool),
               {Code::kAlreadyExists, "it is there with " + std::to_string(there) +
                                          " worker ids, not " + std::to_string(wanted)});
}

Error refused_acquire(std::string_view pool, const LeaseRequest& request,
                      std::optional<std::int64_t> bound) {
  if (!bound)
    return about(
        of_pool(pool),
        {Code::kResourceExhausted,
         "every worker id has an owner; ask again when one was released or its owner's "
         "time is over, or make a pool with more that has a layout or epoch of its own, as "
         "one layout in two pools gives ids twice",
         {Remedy::kListWorkers, std::string(pool)}});
  if (*bound >= kLastUnit)
    return about(of_pool(pool),
                 {Code::kFailedPrecondition, "it is retired, and leases nothing more"});
  const auto duration = [&](std::int64_t units) {
    const std::chrono::duration<double> unit = request.unit;
    return print_duration(static_cast<double>(units) * unit);
  };
  const std::int64_t ahead = *bound - request.now;
  return about(of_pool(pool),
               {Code::kUnavailable,
                "of the worker ids that nobody owns the nearest begins " + duration(ahead) +
                    " ahead of this clock, and " + duration(request.max_drift) +
                    " are allowed (max_drift); ask again in " +
                    duration(ahead - request.max_drift) + ", or set the clock if it is behind"});
}

Error clock_far_ahead(std::string_view pool, Instant clock, Instant right) {
  const std::string now = format_time(clock);
  return about(
      of_pool(pool),
      {Code::kUnavailable,
       "the clock of this host shows " + now + ", and by the latest lease and " +
           "the time since boot it is " + format_time(right) +
           ": the clock is wrong, or it was wrong before, or this machine was paused; nothing "
           "was changed, as nobody could mint before that time; if the clock is wrong, set it; "
           "if it is right, stop all who mint and raise the pool past " +
           now,
       {Remedy::kRaisePool, std::string(pool), {now}}});
}

std::optional<Error> clocks_apart(std::string_view pool, Instant before, Instant after,
                                  Instant servers, std::chrono::milliseconds max_skew) {
  using std::chrono::milliseconds;
  const auto ms = [](Instant at) {
    return std::chrono::floor<milliseconds>(at.time_since_epoch());
  };
  milliseconds ahead{};
  if (servers < before) ahead = ms(before) - ms(servers);
  if (servers > after) ahead = ms(after) - ms(servers);
  if (ahead <= max_skew && -ahead <= max_skew) return std::nullopt;
  return about(
      of_pool(pool),
      {.code = Code::kUnavailable,
       .what = "the clock of this host is " + print_duration(std::chrono::abs(ahead)) + " " +
               (ahead.count() < 0 ? "behind" : "ahead of") + " that of the server, and " +
               print_duration(max_skew) + " is allowed (max_skew); set the one that is wrong",
       .outcome = std::string(kNothingChanged)});
}

bool is_owned_by(const LeaseState& there, const Lease& lease) noexcept {
  return there.token != Uuid{} && there.token == lease.token &&
         there.generation == lease.generation;
}

bool may_extend(const LeaseState& there, const Uuid& latest, const Lease& lease, std::int64_t to,
                const Uuid& nonce) noexcept {
  const bool repeated = latest == nonce && there.minted_until >= to;
  return is_owned_by(there, lease) && (repeated || there.minted_until == lease.to);
}

Error refused_extension(std::string_view pool, const Lease& lease, const LeaseState& there,
                        const Uuid& latest, const Uuid& nonce) {
  const std::string which = "worker id " + std::to_string(lease.worker) + ": ";
  const bool same_generation = there.generation == lease.generation;
  const bool same_epoch = there.generation / kEpoch == lease.generation / kEpoch;
  std::string sight;
  if (there.minted_until < lease.to)
    sight = "its ids end at " + std::to_string(there.minted_until);
  else if (there.generation < lease.generation && (same_epoch || there.generation < kEpoch))
    sight = "generation " + std::to_string(there.generation) + " is its latest";
  else if (same_generation && there.token != Uuid{} && there.token != lease.token)
    sight = "another owner has the same generation";
  else if (!same_generation && there.taken_from && *there.taken_from < lease.to)
    sight = "a later range begins at " + std::to_string(*there.taken_from);
  else if (same_generation && there.token == Uuid{} && there.minted_until > lease.to &&
           latest != nonce)
    sight = "another owner has the same generation, and released it";
  if (!sight.empty())
    return about(
        of_pool(pool),
        {Code::kDataLoss,
         which + "ids up to " + std::to_string(lease.to) + " were leased under generation " +
             std::to_string(lease.generation) + ", and the store says that " + sight +
             ": it has gone back, to a backup perhaps. Stop all who mint, then raise the pool "
             "past every bound that was granted"});
  if (is_owned_by(there, lease))
    return about(
        of_pool(pool),
        {Code::kFailedPrecondition,
         which + "its bound is " + std::to_string(there.minted_until) + " and not " +
             std::to_string(lease.to) +
             ", which was to be extended: a copy of this process has extended it, as after a "
             "snapshot of the machine or a checkpoint of the container; acquire again"});
  return refused_lease(pool, lease, there);
}

Error refused_lease(std::string_view pool, const Lease& lease, const LeaseState& there) {
  return about(of_pool(pool),
               {Code::kFailedPrecondition,
                "worker id " + std::to_string(lease.worker) + ": " +
                    (there.token == Uuid{} ? "nobody owns it" : "it has another owner") + " (" +
                    "generation " + std::to_string(there.generation) + "); acquire again"});
}

}  // namespace idmint::stores
