// Leases: the rules of worker ids, over the rows of any engine.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "idmint/clock.h"
#include "idmint/result.h"
#include "idmint/uuid.h"
#include "ids/lease_table.h"
#include "store/engine.h"

namespace idmint::stores {

// Each change is a swap of a row against what was read. The proof is in docs/design/005-leases.md,
// and tests/models/leases.pml with SWAP is its model.
//
// Calls of the engine where nobody is quicker: acquire 2, extend 1, release 2; raise_floor() 1 and
// one for each kMostSwaps rows. Each is a round trip, or two where
// an engine reads before it compares.
class Leases final : public LeaseTable {
 public:
  // Both must outlive it.
  Leases(Engine& engine, WorkerRows& rows) noexcept : engine_(engine), rows_(rows) {}

 private:
  class Call;

  Result<void> do_create_pool(std::string_view pool, std::int64_t workers) override;
  Result<Lease> do_acquire(std::string_view pool, const LeaseRequest& request,
                           SteadyTime by) override;
  Result<Lease> do_extend(std::string_view pool, const Lease& lease, std::int64_t to,
                          const Uuid& nonce, const LeaseTerms& terms, SteadyTime by) override;
  Result<void> do_release(std::string_view pool, std::int64_t worker, const Uuid& token,
                          std::int64_t generation, SteadyTime by) override;
  Result<void> do_raise_floor(std::string_view pool, std::int64_t floor) override;
  Result<std::vector<LeaseState>> do_workers(std::string_view pool, SteadyTime by) override;

  Engine& engine_;
  WorkerRows& rows_;
};

}  // namespace idmint::stores
