// UniqueIndex: claims, each the proof that one number is ours alone.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "idmint/clock.h"
#include "idmint/export.h"
#include "idmint/result.h"

namespace idmint {

// Durable sets of numbers, one for each named space. A claim is never freed: what was claimed once
// is never claimed again, so no id is issued twice. Any thread may call any method at any time.
// Errors as in CounterStore; after kUnknown and kDeadlineExceeded some of the numbers may be
// claimed, now or later: draw others, never use them.
class IDMINT_EXPORT UniqueIndex {
 public:
  // Makes the space; one that exists is left as it is. kInvalidArgument: an empty name or one
  // longer than 1024 bytes.
  [[nodiscard]] virtual Result<void> create_space(std::string_view space) = 0;

  // Claims those of the numbers that are free, in one step that is durable before it returns; says
  // for each whether it is the caller's now. Of a number that stands twice in `keys` at most one
  // is. kNotFound: no such space. kInvalidArgument: none, or more than kMaxKeys.
  // kFailedPrecondition: the space is closed.
  [[nodiscard]] virtual Result<std::vector<bool>> insert(std::string_view space,
                                                         std::span<const std::int64_t> keys,
                                                         SteadyTime until) = 0;
  [[nodiscard]] Result<std::vector<bool>> insert(std::string_view space,
                                                 std::span<const std::int64_t> keys) {
    return insert(space, keys, SteadyTime::max());
  }
  static constexpr std::size_t kMaxKeys = 100'000;

  // How many numbers are claimed. kNotFound: no such space.
  [[nodiscard]] virtual Result<std::int64_t> claimed(std::string_view space, SteadyTime until) = 0;
  [[nodiscard]] Result<std::int64_t> claimed(std::string_view space) {
    return claimed(space, SteadyTime::max());
  }

  // Whether the number is claimed, in a closed space too. kNotFound: no such space.
  [[nodiscard]] virtual Result<bool> contains(std::string_view space, std::int64_t key) = 0;

  // Ends the space: every later insert, by anybody, is kFailedPrecondition. Again is fine.
  // kNotFound: no such space.
  [[nodiscard]] virtual Result<void> close_space(std::string_view space) = 0;

 protected:
  ~UniqueIndex() = default;
};

}  // namespace idmint
