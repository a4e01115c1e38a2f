// Leases of worker ids for generators that are not this library's: a server passes them on to
// programs of any language, which then make ids by themselves. The protocol is that of
// SnowflakeGenerator (design note 005). What it keeps between two calls, the generator keeps.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/result.h"
#include "idmint/store.h"
#include "idmint/uuid.h"
#include "ids/lease_table.h"

namespace idmint {

inline constexpr std::chrono::milliseconds kUsualWindow = std::chrono::seconds{15};
inline constexpr std::chrono::milliseconds kShortestWindow = std::chrono::seconds{1};
// A worker id that was given back begins where its lease ended: others wait for it that long.
inline constexpr std::chrono::milliseconds kLongestWindow = std::chrono::minutes{1};

struct LeaseWish {
  // As LeaseRequest::token. Nil: one is drawn here, and a call without an answer cannot be
  // repeated.
  Uuid token{};
  bool repeated = false;
  std::string holder{};  // for operators
  // How far ahead of the clock the range ends, in whole units, rounded up, at least two; nobody
  // else gets the worker id for this time.
  std::chrono::milliseconds window = kUsualWindow;
};

// A lease, and what its holder needs to make ids with it and to keep it.
struct PoolLease {
  PoolDefinition pool{};
  Lease lease{};                     // an extension names all of it
  std::chrono::milliseconds held{};  // as LeaseTerms::held, from the call on
  Instant clock{};                   // of this host, by which the range was chosen
  std::int64_t now = 0;              // the same, in units of the layout
  std::int64_t latest = 0;           // an extension ends here at most, by this clock
};

// Any thread may call these. The errors are those of LeaseTable, and:
// - kFailedPrecondition: not a pool, or retired.
// - kOutOfRange: the clock shows a time outside the layout. No range ends past its last one.

// kInvalidArgument: the window is shorter than kShortestWindow or longer than kLongestWindow.
[[nodiscard]] IDMINT_EXPORT Result<PoolLease> lease_worker(Store& store, std::string_view pool,
                                                           const LeaseWish& wish, SteadyTime until,
                                                           Clock& clock = system_clock());
// `known`: the definition of the pool, if an earlier call has returned it; it saves a read of the
// store. `window`: of the LeaseWish. kOutOfRange also: `to` is further ahead of this clock than a
// holder may be, so that one of the two clocks is wrong; nothing was changed. kDataLoss also: the
// pool has no such worker id any more.
[[nodiscard]] IDMINT_EXPORT Result<PoolLease> extend_lease(
    Store& store, std::string_view pool, const PoolDefinition* known, const Lease& lease,
    std::int64_t to, const Uuid& nonce, std::chrono::milliseconds window, SteadyTime until,
    Clock& clock = system_clock());
// As LeaseTable::release().
[[nodiscard]] IDMINT_EXPORT Result<void> end_lease(Store& store, std::string_view pool,
                                                   const PoolDefinition* known, std::int64_t worker,
                                                   const Uuid& token, std::int64_t generation,
                                                   SteadyTime until);

}  // namespace idmint
