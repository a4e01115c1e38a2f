// IdTimeLease: the right to mint ids whose timestamps lie in a range that is stored durably.
#pragma once

#include <cstdint>

#include "idmint/clock.h"
#include "idmint/result.h"

namespace idmint {

// Ticks are the time units of the layout, counted from its epoch. Called under the lock of the one
// ClockSequence that uses it, so by one thread at a time.
class IdTimeLease {
 public:
  virtual ~IdTimeLease() = default;

  // Ids with timestamps below the result, and not below from(), may be minted once this returns; it
  // is above `tick` and never falls. On an error the bound that was known before still holds, but
  // for kDataLoss: then no further id may be minted at all. A lease that asks a store answers by
  // `until`; a file's write cannot be cut short.
  [[nodiscard]] virtual Result<std::int64_t> extend(std::int64_t tick, SteadyTime until) = 0;

  // Where that range begins: one that was had from somebody else begins past what they minted,
  // which may be above `tick`. It changes in extend() alone.
  [[nodiscard]] virtual std::int64_t from() const noexcept { return 0; }
};

// What every call of a generator is in a child of fork() that cannot go on with it.
[[nodiscard]] inline Error inherited_generator() {
  return {Code::kFailedPrecondition,
          "this generator was inherited through fork(): open another one in the child"};
}

}  // namespace idmint
