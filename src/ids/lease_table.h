// LeaseTable: worker ids, each leased to one generator at a time, for ranges of id-time.
#pragma once

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

namespace idmint {

// Id-time is counted in the units of the pool's layout, from its epoch. It is compared with the
// timestamps of ids and with nothing else: what keeps two holders apart is which timestamps they
// may use, not when they use them.

// On what terms somebody owns a worker id.
struct LeaseTerms {
  // For so long, by the store's clock, nobody else takes it, unless it is released.
  std::chrono::milliseconds held{};
  // A store with a clock of its own (MongoDB) refuses whoever's clock shows an instant further than
  // that from its own, as one wrong clock would push a worker id years ahead. SQLite and memory
  // have none. SQLite refuses a clock that went more than a day ahead in this boot of the host, by
  // the time since boot, from the latest lease in the file. The epoch of `clock`: nothing is
  // compared.
  Instant clock{};
  std::chrono::milliseconds max_skew{};
};

// Who asks for a worker id.
struct LeaseRequest {
  // Random, drawn anew for each acquire; the same only where an acquire of unknown outcome is
  // asked for again, and then `repeated` says so.
  Uuid token{};
  bool repeated = false;
  std::string holder{};  // for people: the host and process
  std::int64_t now = 0;  // the id-time that the asker's clock shows; negative: before the epoch
  // So far past `now` the range is to end, at least 1. Where it begins further ahead it is of one
  // unit, so that those who come one after the other do not add up their windows.
  std::int64_t units = 1;
  std::int64_t max_drift = 0;  // units: the range may begin this far past `now` at most
  std::chrono::nanoseconds unit = std::chrono::milliseconds{1};  // its length, for messages
  LeaseTerms terms{};
};

// The range [from, to) of the timestamps of one worker id.
struct Lease {
  std::int64_t worker = 0;
  Uuid token{};
  std::int64_t generation = 0;  // of this owner; every change of the owner has another
  std::int64_t from = 0;
  std::int64_t to = 0;

  friend bool operator==(const Lease&, const Lease&) = default;
};

// Durable pools of worker ids. A row is (worker id, owner's token, generation, minted_until, nonce
// of the latest extension). minted_until never falls and no row is ever removed: only ownership
// lapses, by the store's clock, on which nothing depends but who may have the worker id next. Each
// method is one atomic, linearizable step, but for create_pool() and raise_floor(), which are one
// for each worker id. Any thread may call any method at any time. Every method answers within the
// store's deadline (StoreOptions), and by `until` where it takes one and that is earlier. Besides
// what each method names:
//   kUnavailable, kResourceExhausted, kPermissionDenied: was not applied.
//   kUnknown, kDeadlineExceeded: may have been applied, now or later. Of an acquire: ask again with
//   the same token, or forget it. Of an extend: the bound has not moved; ask again with the same
//   nonce.
//   kNotFound: no such pool. kDataLoss: the store is damaged. kFailedPrecondition: the handle was
//   inherited through fork().
// There is no way to lower a bound, and none to remove a worker id.
class LeaseTable {
 public:
  static constexpr std::int64_t kMaxWorkers = 65'536;

  // Makes the worker ids 0 to workers - 1; a pool that is there with as many is left as it is. On
  // an error some may have been made; the same call again makes the rest. kAlreadyExists: it has
  // another number of them. kInvalidArgument: an empty name or one longer than 1024 bytes; workers
  // below 1 or above kMaxWorkers.
  [[nodiscard]] Result<void> create_pool(std::string_view pool, std::int64_t workers);

  // A worker id that nobody owns, or whose owner's time is over: the one with the smallest
  // minted_until. Its range begins at the larger of minted_until and `now`, and minted_until is
  // moved to its end. A repeated request whose token owns one already gets a further range of that
  // one, under the same generation. kResourceExhausted: all are owned. kUnavailable: of those that
  // are not, each has been minted further ahead than max_drift; the message says by how much.
  // kInvalidArgument: a nil token, units below 1, a range past 2^62.
  [[nodiscard]] Result<Lease> acquire(std::string_view pool, const LeaseRequest& request,
                                      SteadyTime until = SteadyTime::max());

  // Moves the end of `lease` to `to`, or leaves it, and begins the owner's time anew. Returns the
  // lease with its new end: [lease.from, to) is its owner's.
  //
  // An extension names the exact bound that it extends: minted_until must be lease.to. Only the
  // repeat of the latest one is answered again, which its nonce tells. The nonce is drawn for each
  // extension, so that no copy of the process draws it too; one of unknown outcome is asked for
  // again with the same nonce and the same `to`.
  //
  //   kUnavailable: the asker's clock, too.
  //   kFailedPrecondition: the worker id has another owner, another generation, or none; or a copy
  //   of the asker has extended it. Ids below lease.to may be minted still.
  //   kDataLoss: the row shows what lease.to, which was acknowledged, rules out: the store has gone
  //   back; mint nothing more.
  //   kInvalidArgument: to < lease.to, or past 2^62; a nil nonce.
  [[nodiscard]] Result<Lease> extend(std::string_view pool, const Lease& lease, std::int64_t to,
                                     const Uuid& nonce, const LeaseTerms& terms,
                                     SteadyTime until = SteadyTime::max());

  // Nobody owns it from now on; minted_until stays. Only with the token and the generation of its
  // owner: otherwise nothing is changed, and it is kFailedPrecondition.
  [[nodiscard]] Result<void> release(std::string_view pool, std::int64_t worker, const Uuid& token,
                                     std::int64_t generation,
                                     SteadyTime until = SteadyTime::max()) {
    return do_release(pool, worker, token, generation, until);
  }

  // The fence of a restore, with nobody minting: afterwards nothing below `floor` is leased,
  // nobody owns a worker id, and no generation comes again. In a store that went on from an older
  // copy `floor` must be past every bound that was ever granted.
  [[nodiscard]] Result<void> raise_floor(std::string_view pool, std::int64_t floor);

  // By worker id, for people and monitoring.
  [[nodiscard]] Result<std::vector<LeaseState>> workers(std::string_view pool,
                                                        SteadyTime until = SteadyTime::max()) {
    return do_workers(pool, until);
  }

 protected:
  ~LeaseTable() = default;

 private:
  // The methods above, whose arguments have been checked.
  virtual Result<void> do_create_pool(std::string_view pool, std::int64_t workers) = 0;
  virtual Result<Lease> do_acquire(std::string_view pool, const LeaseRequest& request,
                                   SteadyTime until) = 0;
  virtual Result<Lease> do_extend(std::string_view pool, const Lease& lease, std::int64_t to,
                                  const Uuid& nonce, const LeaseTerms& terms, SteadyTime until) = 0;
  virtual Result<void> do_release(std::string_view pool, std::int64_t worker, const Uuid& token,
                                  std::int64_t generation, SteadyTime until) = 0;
  virtual Result<void> do_raise_floor(std::string_view pool, std::int64_t floor) = 0;
  virtual Result<std::vector<LeaseState>> do_workers(std::string_view pool, SteadyTime until) = 0;
};

// A generator under a worker id of the table, which must outlive it: what
// SnowflakeGenerator::open() does with the table of a store. Errors as there. kInvalidArgument:
// also the layout. kNotFound: no such pool.
[[nodiscard]] IDMINT_EXPORT Result<std::unique_ptr<SnowflakeGenerator>> open_leased(
    LeaseTable& table, std::string_view pool, const SnowflakeLeaseOptions& options,
    Clock& clock = system_clock(), Entropy& entropy = system_entropy());

}  // namespace idmint
