// UniqueIndex: claims, each of which proves that one number belongs to its caller alone.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "idmint/clock.h"
#include "idmint/result.h"
#include "store/counter_store.h"

namespace idmint {

// Durable sets of numbers, one for each named space. A claim is never freed, so no id is issued
// twice. Any thread may call any method at any time. Errors as in CounterStore. After kUnknown and
// kDeadlineExceeded some of the numbers may be claimed, now or later: never use them, and draw
// others.
class UniqueIndex {
 public:
  // Creates the space; an existing one stays as it is. kInvalidArgument: an empty name or one
  // longer than 1024 bytes.
  [[nodiscard]] Result<void> create_space(std::string_view space);

  // Claims the free numbers of `keys` in one step that is durable before it returns. Says for each
  // number whether the caller now owns it; of repeated numbers at most one is owned.
  // - kNotFound: no such space.
  // - kInvalidArgument: no numbers, or more than kMaxKeys.
  // - kFailedPrecondition: the space is closed.
  [[nodiscard]] IDMINT_EXPORT Result<std::vector<bool>> insert(
      std::string_view space, std::span<const std::int64_t> keys,
      SteadyTime until = SteadyTime::max());
  static constexpr std::size_t kMaxKeys = 100'000;

  // The number of claims. kNotFound: no such space.
  [[nodiscard]] Result<std::int64_t> claimed(std::string_view space,
                                             SteadyTime until = SteadyTime::max()) {
    return do_claimed(space, until);
  }

  // Whether the number is claimed, in a closed space too. kNotFound: no such space.
  [[nodiscard]] Result<bool> contains(std::string_view space, std::int64_t key) {
    return do_contains(space, key);
  }

  // Closes the space: every later insert of any process fails with kFailedPrecondition. Can be
  // repeated. kNotFound: no such space.
  [[nodiscard]] Result<void> close_space(std::string_view space) { return do_close_space(space); }

 protected:
  ~UniqueIndex() = default;

 private:
  // The methods above, with checked arguments.
  virtual Result<void> do_create_space(std::string_view space) = 0;
  virtual Result<std::vector<bool>> do_insert(std::string_view space,
                                              std::span<const std::int64_t> keys,
                                              SteadyTime until) = 0;
  virtual Result<std::int64_t> do_claimed(std::string_view space, SteadyTime until) = 0;
  virtual Result<bool> do_contains(std::string_view space, std::int64_t key) = 0;
  virtual Result<void> do_close_space(std::string_view space) = 0;
};

}  // namespace idmint
