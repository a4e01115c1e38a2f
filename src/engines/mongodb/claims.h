// The claims of a store of MongoDB. Each space has a collection:
//
//   idmint.claims.SPACE  {_id: KEY}, and {_id: "space", name: SPACE, closed, store}
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engines/mongodb/database.h"
#include "store/unique_index.h"

namespace idmint::stores::mongodb {

class Claims final : public UniqueIndex {
 public:
  // `database` must outlive it.
  explicit Claims(const Database& database) : database_(database) {}

  Result<void> do_create_space(std::string_view space) override;
  Result<std::vector<bool>> do_insert(std::string_view space, std::span<const std::int64_t> keys,
                                      SteadyTime by) override;
  Result<std::int64_t> do_claimed(std::string_view space, SteadyTime by) override;
  Result<bool> do_contains(std::string_view space, std::int64_t key) override;
  Result<void> do_close_space(std::string_view space) override;

 private:
  Result<bool> is_closed(std::string_view space, SteadyTime until);

  const Database& database_;
};

}  // namespace idmint::stores::mongodb
