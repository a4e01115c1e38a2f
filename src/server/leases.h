// Leases of worker ids for programs of any language, over each protocol: a program that holds one
// makes Snowflake ids by itself, as fast as its language does.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "idmint/result.h"
#include "sequences/pool_leases.h"
#include "server/service.h"

namespace idmint::server {

// What a client says to extend its lease: what the latest answer said, and what it wants.
struct ExtensionWish {
  Lease lease{};
  std::int64_t to = 0;
  Uuid nonce{};
  std::chrono::milliseconds window = kUsualWindow;
};
// Likewise to give it back.
struct ReleaseWish {
  std::int64_t worker = 0;
  Uuid token{};
  std::int64_t generation = 0;
};

inline constexpr std::size_t kLongestHolder = 100;

// kInvalidArgument, here and below: the message says what it must be.
[[nodiscard]] Result<Uuid> uuid_of(std::string_view what, std::string_view text);
// Printable, of at most kLongestHolder bytes.
[[nodiscard]] Result<std::string> holder_of(std::string_view text);
// Of any number of milliseconds; lease_worker() says which are allowed.
[[nodiscard]] std::chrono::milliseconds window_of(std::int64_t milliseconds) noexcept;

// ---- on another thread, as Loop::elsewhere() runs it

using KnownPool = std::shared_ptr<const PoolDefinition>;  // as of extend_lease()

[[nodiscard]] Result<PoolLease> lease_for(const Sources& sources, const std::string& pool,
                                          const LeaseWish& wish, SteadyTime until);

// The store does not show what the client says it was acknowledged (kDataLoss): the store has gone
// back, or the client is wrong. So it is no fault of the server, and is told to the client alone,
// without a word of what the store shows.
struct Contradiction {
  [[nodiscard]] static Error error() {
    return {Code::kDataLoss,
            "the store does not show this lease as it is said to have been acknowledged: the store "
            "has gone back, or the request is wrong; make no more ids with this lease"};
  }
};
using Extended = std::expected<PoolLease, Contradiction>;
// kFailedPrecondition: the lease is lost.
[[nodiscard]] Result<Extended> extend_for(const Sources& sources, const std::string& pool,
                                          const KnownPool& known, const ExtensionWish& wish,
                                          SteadyTime until);
// Returns what was given back.
[[nodiscard]] Result<ReleaseWish> release_for(const Sources& sources, const std::string& pool,
                                              const KnownPool& known, const ReleaseWish& wish,
                                              SteadyTime until);

// ---- on the loop

// Counts a lease that the caller asks for against its limit, until it is destroyed.
class AskedLease final {
 public:
  // Of one more lease, unless the caller holds one of this token: then it repeats or extends.
  // kResourceExhausted: the caller holds as many as it may.
  [[nodiscard]] static Result<std::shared_ptr<AskedLease>> begin(const Service& service,
                                                                 const Caller& caller,
                                                                 std::string_view pool,
                                                                 const Uuid& held);
  // Null: nothing is counted.
  explicit AskedLease(std::shared_ptr<HeldLeases> counted) : counted_(std::move(counted)) {}
  ~AskedLease() {
    if (counted_ != nullptr) counted_->end();
  }
  AskedLease(const AskedLease&) = delete;
  AskedLease& operator=(const AskedLease&) = delete;

 private:
  const std::shared_ptr<HeldLeases> counted_;
};

// Note and log what the caller has got or given back.
void note_leased(Service& service, const Caller& caller, const Connection& connection,
                 const std::string& pool, const PoolLease& lease);
void note_extended(Service& service, const Caller& caller, const Connection& connection,
                   const std::string& pool, const PoolLease& lease);
void note_released(Service& service, const Caller& caller, const Connection& connection,
                   const std::string& pool, const ReleaseWish& wish);

// ---- what the answer says, in its order: numbers of at most 2^53 as such, others as texts

using Fields = std::vector<std::pair<std::string_view, std::variant<std::int64_t, std::string>>>;
[[nodiscard]] Fields fields_of(const PoolLease& lease);
// Of the layout: an id is time << time_shift | worker << worker_shift | sequence << sequence_shift.
[[nodiscard]] Fields fields_of(const SnowflakeLayout& layout);

}  // namespace idmint::server
