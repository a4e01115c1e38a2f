// IdTimeLease: the right to mint ids with timestamps in a durably stored range.
#pragma once

#include <cstdint>

#include "idmint/clock.h"
#include "idmint/result.h"

namespace idmint {

// Ticks are the time units of the layout, counted from its epoch. Called under the lock of its only
// ClockSequence, so by one thread at a time.
class IdTimeLease {
 public:
  virtual ~IdTimeLease() = default;

  // Returns a bound above `tick`; it never falls. Ids with timestamps from from() up to below it
  // may be minted once this returns. On an error the previous bound still holds; after kDataLoss,
  // however, no further id may be minted. A lease with a store returns by `until`; a file's write
  // cannot be cut short.
  [[nodiscard]] virtual Result<std::int64_t> extend(std::int64_t tick, SteadyTime until) = 0;

  // The start of that range, which changes only in extend(). A range taken over from another owner
  // starts past that owner's ids, perhaps above `tick`.
  [[nodiscard]] virtual std::int64_t from() const noexcept { return 0; }
};

// The error of every call in a child of fork() that cannot continue the generator.
[[nodiscard]] inline Error inherited_generator() {
  return {Code::kFailedPrecondition,
          "this generator was inherited through fork(): open another one in the child"};
}

}  // namespace idmint
