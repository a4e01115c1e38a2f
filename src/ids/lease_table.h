// LeaseTable: worker ids, each leased to one generator at a time for ranges of id-time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "idmint/result.h"
#include "idmint/snowflake.h"
#include "idmint/uuid.h"
#include "ids/last_issued.h"

namespace idmint {

// Id-time is counted in units of the pool's layout, from its epoch. It is compared with timestamps
// of ids only. Two holders are kept apart by the timestamps that they may use, not by the time at
// which they use them.

// The terms of a lease.
struct LeaseTerms {
  // The duration, by the store's clock, in which no other process takes the worker id, unless it is
  // released.
  std::chrono::milliseconds held{};
  // The requester's clock. A store whose servers have a clock rejects one that differs by more than
  // max_skew, since a wrong clock would push a worker id years ahead. SQLite has none, and rejects
  // one that is more than a day ahead of the latest lease in the file, by the time since boot, in
  // this boot of the host. The epoch of `clock`: no comparison.
  Instant clock{};
  std::chrono::milliseconds max_skew{};
};

// A request for a worker id.
struct LeaseRequest {
  // Random, new for each acquire. Only a repeat of an acquire with an unknown outcome has the same
  // token, and then sets `repeated`.
  Uuid token{};
  bool repeated = false;
  std::string holder{};  // for operators: the host and the process
  // Of the pool, as far as the requester knows; 0: unknown. In a large one it begins at a random
  // worker id, so that processes which start together do not meet.
  std::int64_t workers = 0;
  std::int64_t now = 0;  // the id-time of the requester's clock; negative: before the epoch
  // The range ends this far past `now`; at least 1. If it begins beyond that, it has one unit, so
  // that windows of successive owners do not add up.
  std::int64_t units = 1;
  std::int64_t max_drift = 0;  // in units: the range begins at most this far past `now`
  std::chrono::nanoseconds unit = std::chrono::milliseconds{1};  // for messages
  LeaseTerms terms{};
};

// The range [from, to) of the timestamps of one worker id.
struct Lease {
  std::int64_t worker = 0;
  Uuid token{};
  std::int64_t generation = 0;  // of this owner; each change of the owner has a new one
  std::int64_t from = 0;
  std::int64_t to = 0;
  // The nonce of the row, if the table needs it: with it the lease tells the whole row, so that an
  // extension needs no reading.
  Uuid nonce{};

  friend bool operator==(const Lease&, const Lease&) = default;
};

// Durable pools of worker ids. A row is (worker id, owner's token, generation, minted_until, nonce
// of the latest extension). minted_until never falls, and no row is ever removed. Only ownership
// expires, by the store's clock, which decides nothing but the next owner. There is no way to lower
// a bound, and none to remove a worker id. Each method is one atomic, linearizable step;
// create_pool() and raise_floor() are one step for each worker id. Any thread may call any method
// at any time. Every method returns within the store's deadline (StoreOptions), and by `until` if
// that is earlier. Errors, besides those of each method:
// - kUnavailable, kResourceExhausted: was not applied.
// - kPermissionDenied: likewise; but Redis checks rights at each command of a script, so a part may
//   have been applied.
// - kUnknown, kDeadlineExceeded: may have been applied, now or later. After an acquire, repeat it
//   with the same token or forget it. After an extend, the bound has not moved; repeat it with the
//   same nonce.
// - kNotFound: no such pool.
// - kDataLoss: the store is damaged.
// - kFailedPrecondition: the handle was inherited through fork().
class LeaseTable {
 public:
  static constexpr std::int64_t kMaxWorkers = 65'536;

  // Creates the worker ids 0 to workers - 1. An existing pool of the same size stays as it is. On
  // an error some may have been created; the same call again creates the rest.
  // - kAlreadyExists: it has another number of worker ids.
  // - kInvalidArgument: an empty name or one longer than 1024 bytes; workers below 1 or above
  //   kMaxWorkers.
  [[nodiscard]] Result<void> create_pool(std::string_view pool, std::int64_t workers);

  // From now on acknowledged bounds are remembered there, and acquire() is compared with them.
  void remember_in(StoreIssued& issued) noexcept { issued_.store(&issued); }

  // Takes the worker id with the smallest minted_until among those without an owner or with an
  // expired lease. Its range begins at the larger of minted_until and `now`, and minted_until moves
  // to the end of the range. If the token of a repeated request owns a worker id already, it gets a
  // further range of that one with the same generation. Among many that ask at once, and in a pool
  // of more than 64, it may be another one of those whose range begins within max_drift.
  // - kResourceExhausted: all are owned.
  // - kUnavailable: each free one is further ahead than max_drift; the message says by how much.
  // - kInvalidArgument: a nil token, units below 1, a range past 2^62.
  // - kDataLoss: the range begins below a bound of the worker id that this process was granted: the
  //   store has gone back. Until a range begins past that bound, no worker id of the pool is
  //   leased.
  [[nodiscard]] Result<Lease> acquire(std::string_view pool, const LeaseRequest& request,
                                      SteadyTime until = SteadyTime::max());

  // Moves the end of `lease` up to `to`, or leaves it, and restarts the duration of the lease.
  // Returns the lease with its new end: its owner has [lease.from, to).
  //
  // An extension names the exact bound that it extends: minted_until must be lease.to. Only a
  // repeat of the latest extension succeeds again; the nonce identifies it. Each extension draws a
  // nonce that no copy of the process draws as well. A repeat after an unknown outcome has the same
  // nonce and the same `to`.
  //
  // - kUnavailable: also a wrong clock of the requester.
  // - kFailedPrecondition: the worker id has another owner, another generation or no owner, or a
  //   copy of the requester has extended it. Ids below lease.to may still be minted.
  // - kDataLoss: the row contradicts the acknowledged lease.to: the store has gone back. Mint
  //   nothing more.
  // - kInvalidArgument: to < lease.to or past 2^62; a nil nonce or token.
  [[nodiscard]] Result<Lease> extend(std::string_view pool, const Lease& lease, std::int64_t to,
                                     const Uuid& nonce, const LeaseTerms& terms,
                                     SteadyTime until = SteadyTime::max());

  // Ends the ownership; minted_until stays. kFailedPrecondition: the token and generation are not
  // those of the owner; nothing changed.
  [[nodiscard]] Result<void> release(std::string_view pool, std::int64_t worker, const Uuid& token,
                                     std::int64_t generation,
                                     SteadyTime until = SteadyTime::max()) {
    return do_release(pool, worker, token, generation, until);
  }

  // The fence of a restore; nobody may mint meanwhile. Afterwards nothing below `floor` is leased,
  // nobody owns a worker id, and no generation repeats. In a store that continues from an older
  // copy, `floor` must be past every bound that was ever granted.
  [[nodiscard]] Result<void> raise_floor(std::string_view pool, std::int64_t floor);

  // Sorted by worker id, for operators and monitoring.
  [[nodiscard]] Result<std::vector<LeaseState>> workers(std::string_view pool,
                                                        SteadyTime until = SteadyTime::max()) {
    return do_workers(pool, until);
  }

 protected:
  ~LeaseTable() = default;

 private:
  // The methods above, with checked arguments.
  virtual Result<void> do_create_pool(std::string_view pool, std::int64_t workers) = 0;
  virtual Result<Lease> do_acquire(std::string_view pool, const LeaseRequest& request,
                                   SteadyTime until) = 0;
  virtual Result<Lease> do_extend(std::string_view pool, const Lease& lease, std::int64_t to,
                                  const Uuid& nonce, const LeaseTerms& terms, SteadyTime until) = 0;
  virtual Result<void> do_release(std::string_view pool, std::int64_t worker, const Uuid& token,
                                  std::int64_t generation, SteadyTime until) = 0;
  virtual Result<void> do_raise_floor(std::string_view pool, std::int64_t floor) = 0;
  virtual Result<std::vector<LeaseState>> do_workers(std::string_view pool, SteadyTime until) = 0;

  [[nodiscard]] Result<Lease> believed(std::string_view pool, const LeaseRequest& request,
                                       const Lease& lease, StoreIssued& issued,
                                       std::uint64_t ticket, SteadyTime until);

  std::atomic<StoreIssued*> issued_{nullptr};  // null: nothing is remembered
};

// A generator with a worker id leased from the table, which must outlive it.
// SnowflakeGenerator::open() calls it with the table of a store; errors as there. Also
// kInvalidArgument: the layout; kNotFound: no such pool.
[[nodiscard]] IDMINT_EXPORT Result<std::unique_ptr<SnowflakeGenerator>> open_leased(
    LeaseTable& table, std::string_view pool, const SnowflakeLeaseOptions& options,
    Clock& clock = system_clock(), Entropy& entropy = system_entropy());

}  // namespace idmint
