// Leases of worker ids for programs of any language, over each protocol: a program that holds one
// makes Snowflake ids by itself, as fast as its language does.
#pragma once

#include <chrono>
#include <cstdint>
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

// ---- on another thread, as Loop::elsewhere() runs it

[[nodiscard]] Result<PoolLease> acquire(const Sources& sources, const std::string& pool,
                                        const LeaseWish& wish, SteadyTime until);
// `known`: as of extend_lease().
[[nodiscard]] Result<PoolLease> extend(const Sources& sources, const std::string& pool,
                                       const std::shared_ptr<const PoolDefinition>& known,
                                       const ExtensionWish& wish, SteadyTime until);
// The worker id that is given back.
[[nodiscard]] Result<std::int64_t> release(const Sources& sources, const std::string& pool,
                                           const ReleaseWish& wish, SteadyTime until);

// ---- on the loop

// Counts a lease that the caller asks for, until it is destroyed.
class AskedLease final {
 public:
  // kResourceExhausted: the caller holds as many as it may.
  [[nodiscard]] static Result<std::shared_ptr<AskedLease>> begin(const Service& service,
                                                                 const Caller& caller);
  explicit AskedLease(std::shared_ptr<HeldLeases> held) : held_(std::move(held)) {}
  ~AskedLease() { held_->end(); }
  AskedLease(const AskedLease&) = delete;
  AskedLease& operator=(const AskedLease&) = delete;

 private:
  const std::shared_ptr<HeldLeases> held_;
};

// Notes and logs what the caller has got, or given back. `event`: "leased" or "lease_extended".
void note_lease(Service& service, const Caller& caller, const Connection& connection,
                std::string_view event, const std::string& pool, const PoolLease& lease);
void note_release(Service& service, const Caller& caller, const Connection& connection,
                  const std::string& pool, std::int64_t worker);

// ---- what the answer says, in its order: numbers of at most 2^53 as such, others as texts

using Fields = std::vector<std::pair<std::string_view, std::variant<std::int64_t, std::string>>>;
[[nodiscard]] Fields fields_of(const PoolLease& lease);
// Of the layout: an id is time << time_shift | worker << worker_shift | sequence << sequence_shift.
[[nodiscard]] Fields fields_of(const SnowflakeLayout& layout);

}  // namespace idmint::server
