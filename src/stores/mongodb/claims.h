// The claims of a store of MongoDB. A collection for each space:
//
//   idmint.claims.SPACE  {_id: KEY}, and {_id: "space", name: SPACE, closed}
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "idmint/unique_index.h"
#include "stores/mongodb/database.h"

namespace idmint::stores::mongodb {

class Claims final : public UniqueIndex {
 public:
  // `database` must outlive it.
  explicit Claims(const Database& database) : database_(database) {}

  Result<void> create_space(std::string_view space) override;
  Result<std::vector<bool>> insert(std::string_view space, std::span<const std::int64_t> keys,
                                   SteadyTime by) override;
  Result<std::int64_t> claimed(std::string_view space, SteadyTime by) override;
  Result<bool> contains(std::string_view space, std::int64_t key) override;
  Result<void> close_space(std::string_view space) override;

 private:
  Result<bool> is_closed(std::string_view space, SteadyTime until);

  const Database& database_;
};

}  // namespace idmint::stores::mongodb
