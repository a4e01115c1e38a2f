// Occupancy: how full the space of a random sequence is, and what that costs.
#pragma once

#include <cstdint>
#include <string_view>

#include "idmint/export.h"
#include "idmint/result.h"
#include "idmint/store.h"

namespace idmint {

// A random value that is claimed already is drawn again. With a share p of the values claimed, an
// id costs 1 / (1 - p) draws: p / (1 - p) redraws and one that succeeds.
struct Occupancy {
  std::int64_t claimed = 0;     // 0 to size
  std::int64_t size = 1;        // how many values there are
  double expected_redraws = 0;  // for the next id; infinity where none is left

  // A random sequence refuses (kResourceExhausted) to claim where more redraws are to be expected:
  // when 10 of 11 values, about 91 %, are claimed.
  static constexpr int kMostRedraws = 10;
};

// REQUIRES: 0 <= claimed <= size, size >= 1.
[[nodiscard]] IDMINT_EXPORT Occupancy occupancy(std::int64_t claimed, std::int64_t size) noexcept;

// Of a random sequence, as its store says now. kNotFound: no such sequence. kFailedPrecondition:
// of another strategy. kDataLoss: it is defined, but its claims are gone.
[[nodiscard]] IDMINT_EXPORT Result<Occupancy> occupancy(Store& store, std::string_view sequence);

// How many of `size` values a random sequence gives before it refuses.
[[nodiscard]] IDMINT_EXPORT std::int64_t most_claims(std::int64_t size) noexcept;

// The redraws to be expected for the next `count` ids in all; infinity where fewer are left.
// REQUIRES: count >= 0.
[[nodiscard]] IDMINT_EXPORT double expected_redraws(const Occupancy& from,
                                                    std::int64_t count) noexcept;

}  // namespace idmint
